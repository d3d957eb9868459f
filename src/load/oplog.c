#include "load/oplog.h"

#include <inttypes.h>
#include <string.h>

#include <xxhash.h>

#include "base/le.h"
#include "base/mark.h"

#define MAGIC_LEN (sizeof(MARK_OF_OPLOG) - 1)

enum { KIND_OP = 1, KIND_ROOT = 2, KIND_END = 3 };

#define OP_FIELDS 64u /* bytes of an operation before its name */

/* ---- Writing ---- */

size_t oplog_pack_head(const struct oplog_head *head, uint8_t to[OPLOG_HEAD])
{
	memset(to, 0, OPLOG_HEAD);
	memcpy(to, MARK_OF_OPLOG, MAGIC_LEN);
	le64_store(to + 8, OPLOG_VERSION | (uint64_t)OPLOG_HEAD << 32);
	le64_store(to + 16, head->started);
	le64_store(to + 24, head->nr_ranks);
	le64_store(to + OPLOG_HEAD - 8, XXH3_64bits(to, OPLOG_HEAD - 8));
	return OPLOG_HEAD;
}

/* The record of @at bytes gets its head and its checksum. */
static size_t oplog_seal(uint32_t kind, size_t at, uint8_t *to)
{
	le64_store(to, kind | (uint64_t)(at + 8) << 32);
	le64_store(to + at, XXH3_64bits(to, at));
	return at + 8;
}

/* @name at @at, ended and padded with NUL bytes. Returns where it ends. */
static size_t put_padded(const char *name, size_t len, size_t at, uint8_t *to)
{
	size_t room = (len + 8) / 8 * 8;

	le64_store(to + at + room - 8, 0);
	memcpy(to + at, name, len);
	return at + room;
}

size_t oplog_pack_root(const char *root, uint8_t to[OPLOG_RECORD])
{
	size_t len = strnlen(root, SHOAL_NAME_MAX);

	le64_store(to + 8, len);
	return oplog_seal(KIND_ROOT, put_padded(root, len, 16, to), to);
}

size_t oplog_pack_op(const struct oplog_op *op, uint8_t to[OPLOG_RECORD])
{
	size_t len = strnlen(op->name, SHOAL_NAME_MAX);

	le64_store(to + 8, op->start);
	le64_store(to + 16, op->duration);
	le64_store(to + 24, op->opened);
	le64_store(to + 32, op->off);
	le64_store(to + 40, op->len);
	le64_store(to + 48, (uint64_t)op->result);
	le64_store(to + 56, op->rank | (uint64_t)len << 32);
	return oplog_seal(KIND_OP, put_padded(op->name, len, OP_FIELDS, to), to);
}

size_t oplog_pack_end(uint64_t nr, uint64_t nr_left_out, uint8_t to[OPLOG_RECORD])
{
	le64_store(to + 8, nr);
	le64_store(to + 16, nr_left_out);
	return oplog_seal(KIND_END, 24, to);
}

/* ---- Reading ---- */

static int oplog_read_head(const uint8_t *data, size_t len, struct oplog_head *ret,
			   struct shoal_err *err)
{
	if (len < OPLOG_HEAD || memcmp(data, MARK_OF_OPLOG, MAGIC_LEN) != 0)
		return err_set(err, -EBADMSG, "it is not a log of operations");
	if (le32_load(data + 8) != OPLOG_VERSION)
		return err_set(err, -EPROTONOSUPPORT,
			       "the log is of version %" PRIu32
			       ", and this program reads version %u",
			       le32_load(data + 8), OPLOG_VERSION);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	if (le64_load(data + OPLOG_HEAD - 8) != XXH3_64bits(data, OPLOG_HEAD - 8))
		return err_set(err, -EBADMSG, "the head of the log is damaged");
#endif
	*ret = (struct oplog_head){ .started = le64_load(data + 16),
				    .nr_ranks = le32_load(data + 24) };
	return 0;
}

static bool is_whole_record(const uint8_t *at, size_t left)
{
	size_t len;

	if (left < 24)
		return false;
	len = le32_load(at + 4);
	if (len < 24 || len > left || len % 8 != 0)
		return false;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	return true;
#else
	return le64_load(at + len - 8) == XXH3_64bits(at, len - 8);
#endif
}

/* The name of @len bytes at @at of a record of @end bytes: one that may be opened, or NULL. */
static const char *oplog_take_name(const uint8_t *record, size_t at, uint64_t len, size_t end)
{
	const char *name = (const char *)record + at;

	if (len == 0 || len > SHOAL_NAME_MAX || at + len >= end - 8 || name[len] != '\0' ||
	    strlen(name) != len)
		return NULL;
	return name;
}

/* Returns 1, or 0 if the record makes no sense. */
static int take_op(const uint8_t *r, size_t len, struct oplog_op *op)
{
	if (len < OP_FIELDS + 16)
		return 0;
	*op = (struct oplog_op){ .start = le64_load(r + 8),
				 .duration = le64_load(r + 16),
				 .opened = le64_load(r + 24),
				 .off = le64_load(r + 32),
				 .len = le64_load(r + 40),
				 .result = (int64_t)le64_load(r + 48),
				 .rank = le32_load(r + 56),
				 .name = oplog_take_name(r, OP_FIELDS, le32_load(r + 60), len) };
	/* Sums of these must not wrap. */
	return op->name && op->start < UINT64_MAX / 4 && op->duration < UINT64_MAX / 4 &&
	       op->off < INT64_MAX / 2 && op->len < INT64_MAX / 2;
}

static int oplog_damaged(size_t at, struct shoal_err *err)
{
	return err_set(err, -EBADMSG, "the log is damaged, or ends early, at byte %zu", at);
}

int oplog_read(const uint8_t *data, size_t len, oplog_each_fn *each, void *self,
	       struct oplog_facts *ret, struct shoal_err *err)
{
	const char *root;
	struct oplog_op op;
	size_t at = OPLOG_HEAD, one;
	uint64_t nr = 0;
	int rc;

	*ret = (struct oplog_facts){ .nr = 0 };
	rc = oplog_read_head(data, len, &ret->head, err);
	for (; rc == 0 && is_whole_record(data + at, len - at); at += one) {
		const uint8_t *r = data + at;

		one = le32_load(r + 4);
		switch (le32_load(r)) {
		case KIND_OP:
			if (!take_op(r, one, &op))
				return oplog_damaged(at, err);
			nr++;
			rc = each(self, &op);
			break;
		case KIND_ROOT:
			root = oplog_take_name(r, 16, le64_load(r + 8), one);
			if (!root)
				return oplog_damaged(at, err);
			memcpy(ret->root, root, strlen(root) + 1);
			break;
		case KIND_END:
			ret->nr = le64_load(r + 8);
			ret->nr_left_out = one >= 32 ? le64_load(r + 16) : 0;
			if (at + one != len || ret->nr != nr || !ret->root[0])
				return oplog_damaged(at, err);
			return 0;
		default: /* a kind that later programs add */
			break;
		}
	}
	return rc != 0 ? rc : oplog_damaged(at, err);
}
