#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "catalog/segment.h"

enum { FRONT_COMPRESSED = 1, FRONT_DICTIONARY = 2 };

/* Scratch areas kept for later readers; further concurrent readers allocate and free their own. */
#define SCRATCH_KEPT 16

#define NOTHING UINT64_MAX

/* Scratch memory for expanding a block, too large for a stack. */
struct front_scratch {
	ZSTD_DCtx *context; /* NULL before the first compressed block */
	uint64_t holds;     /* number of the segment that raw holds already; or NOTHING */
	int raw_len;
	uint8_t raw[CAT_FRONT_RAW_MAX];
};

struct cat_dicts {
	const struct cat_view *view;
	_Atomic(struct front_scratch *) scratch[SCRATCH_KEPT];
	/*
	 * Kept for good, about 80 KB each once used. A writer adds one only after the names have
	 * doubled, so a part of 100 million names has at most 12, and a catalog that many per rank.
	 */
	uint64_t nr;
	_Atomic(ZSTD_DDict *) dict[];
};

struct cat_dicts *cat_dicts_new(const struct cat_view *v)
{
	uint64_t nr = v->sec[CAT_DTAB].len / sizeof(struct cat_dict_entry);
	struct cat_dicts *d = calloc(1, sizeof(*d) + nr * sizeof(d->dict[0]));

	if (d) {
		d->view = v;
		d->nr = nr;
	}
	return d;
}

static void scratch_free(struct front_scratch *scratch)
{
	if (scratch)
		ZSTD_freeDCtx(scratch->context);
	free(scratch);
}

struct cat_dicts *cat_dicts_free(struct cat_dicts *d)
{
	if (!d)
		return NULL;
	for (size_t i = 0; i < SCRATCH_KEPT; i++)
		scratch_free(atomic_load(&d->scratch[i]));
	for (uint64_t i = 0; i < d->nr; i++)
		ZSTD_freeDDict(atomic_load(&d->dict[i]));
	free(d);
	return NULL;
}

/* NULL without memory. */
static struct front_scratch *scratch_take(struct cat_dicts *d)
{
	struct front_scratch *scratch;

	for (size_t i = 0; i < SCRATCH_KEPT; i++) {
		scratch = atomic_exchange(&d->scratch[i], NULL);
		if (scratch)
			return scratch;
	}
	scratch = malloc(sizeof(*scratch));
	if (scratch) {
		scratch->context = NULL;
		scratch->holds = NOTHING;
	}
	return scratch;
}

static void scratch_give(struct cat_dicts *d, struct front_scratch *scratch)
{
	for (size_t i = 0; i < SCRATCH_KEPT; i++) {
		struct front_scratch *none = NULL;

		if (atomic_compare_exchange_strong(&d->scratch[i], &none, scratch))
			return;
	}
	scratch_free(scratch);
}

/* The dictionary for segment @number; -1 if it has none. */
static int64_t dict_of_segment(const struct cat_view *v, uint64_t number)
{
	uint64_t low = 0, high = v->sec[CAT_DTAB].len / sizeof(struct cat_dict_entry);

	while (low < high) { /* the first that starts after the segment */
		uint64_t mid = low + (high - low) / 2;
		const struct cat_dict_entry *e = (const struct cat_dict_entry *)cat_need(
			v, CAT_DTAB, mid * sizeof(*e), sizeof(*e));

		if (!e)
			return -1;
		if (le64_get(e->first_segment) <= number)
			low = mid + 1;
		else
			high = mid;
	}
	return (int64_t)low - 1;
}

/* zstd does not report whether it had no memory or the dictionary is malformed: try another. */
static int explain_no_dict(const struct cat_view *v, uint64_t off)
{
	ZSTD_DDict *plain = ZSTD_createDDict("shoal", 5);

	if (!plain)
		return -ENOMEM;
	ZSTD_freeDDict(plain);
	return cat_damaged(v, CAT_DICT, off, "a dictionary is invalid");
}

static int dict_make(const struct cat_view *v, uint64_t k, ZSTD_DDict **ret_dict)
{
	const struct cat_dict_entry *e =
		(const struct cat_dict_entry *)cat_need(v, CAT_DTAB, k * sizeof(*e), sizeof(*e));
	const uint8_t *bytes;
	uint64_t len;

	if (!e)
		return -EBADMSG;
	len = le64_get(e->len);
	bytes = cat_need(v, CAT_DICT, le64_get(e->off), len);
	if (!bytes)
		return -EBADMSG;
	*ret_dict = ZSTD_createDDict(bytes, (size_t)len);
	return *ret_dict ? 0 : explain_no_dict(v, le64_get(e->off));
}

static int dict_get(const struct cat_segment *seg, const ZSTD_DDict **ret_dict)
{
	int64_t k = dict_of_segment(seg->view, seg->number);
	ZSTD_DDict *dict, *none = NULL;
	int rc;

	if (k < 0)
		return cat_segment_bad(seg, "a block's dictionary is missing");
	dict = atomic_load(&seg->dicts->dict[k]);
	if (!dict) {
		rc = dict_make(seg->view, (uint64_t)k, &dict);
		if (rc < 0)
			return rc;
		if (!atomic_compare_exchange_strong(&seg->dicts->dict[k], &none, dict)) {
			ZSTD_freeDDict(dict); /* another thread was faster */
			dict = none;
		}
	}
	*ret_dict = dict;
	return 0;
}

static int decompress(const struct cat_segment *seg, struct front_scratch *scratch, bool with_dict,
		      const uint8_t *stored, size_t stored_len, uint8_t *raw, size_t raw_len)
{
	const ZSTD_DDict *dict = NULL;
	size_t n;

	if (with_dict) {
		int rc = dict_get(seg, &dict);

		if (rc < 0)
			return rc;
	}
	if (!scratch->context)
		scratch->context = ZSTD_createDCtx();
	if (!scratch->context)
		return -ENOMEM;
	n = ZSTD_decompress_usingDDict(scratch->context, raw, raw_len, stored, stored_len, dict);
	if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
		return -ENOMEM;
	if (ZSTD_isError(n) || n != raw_len)
		return cat_segment_bad(seg, "a block does not decompress");
	return 0;
}

/* @raw may be the scratch area's own. */
static int front_expand(const struct cat_segment *seg, struct front_scratch *scratch, uint8_t *raw)
{
	struct span s = seg->rest;
	uint8_t flags = span_u8(&s);
	uint64_t raw_len = span_varint(&s);
	uint64_t stored_len = span_varint(&s);
	uint64_t off = seg->off + (uint64_t)(s.p - seg->payload);
	const uint8_t *stored;
	int rc = 0;

	if (s.bad || raw_len > CAT_FRONT_RAW_MAX || seg->nr > CAT_FRONT_NAMES ||
	    stored_len > seg->end - off || flags > (FRONT_COMPRESSED | FRONT_DICTIONARY) ||
	    flags == FRONT_DICTIONARY)
		return cat_segment_bad(seg, "a block of names is invalid");
	stored = cat_need(seg->view, CAT_NAME, off, stored_len);
	if (!stored)
		return -EBADMSG;
	if (flags & FRONT_COMPRESSED)
		rc = decompress(seg, scratch, flags & FRONT_DICTIONARY, stored, (size_t)stored_len,
				raw, (size_t)raw_len);
	else if (stored_len != raw_len)
		return cat_segment_bad(seg, "a block of names has two lengths");
	else
		memcpy(raw, stored, (size_t)raw_len);
	return rc < 0 ? rc : (int)raw_len;
}

/*
 * Expand into the scratch area, unless it is there already: lookups of neighbouring names are
 * common.
 */
static int front_expand_cached(const struct cat_segment *seg, struct front_scratch *scratch)
{
	if (scratch->holds != seg->number) {
		scratch->holds = NOTHING;
		scratch->raw_len = front_expand(seg, scratch, scratch->raw);
		if (scratch->raw_len >= 0)
			scratch->holds = seg->number;
	}
	return scratch->raw_len;
}

int cat_front_expand(const struct cat_segment *seg, uint8_t *raw)
{
	struct front_scratch *scratch = scratch_take(seg->dicts);
	int n;

	if (!scratch)
		return -ENOMEM;
	n = front_expand(seg, scratch, raw);
	scratch_give(seg->dicts, scratch);
	return n;
}

int cat_front_step(struct span *raw, uint8_t *buf, size_t *len)
{
	uint64_t keep = span_varint(raw);
	uint64_t more = span_varint(raw);
	const uint8_t *bytes = span_bytes(raw, more);

	if (raw->bad || keep > *len || more > SHOAL_NAME_MAX - keep || keep + more == 0)
		return -EBADMSG;
	memcpy(buf + keep, bytes, (size_t)more);
	*len = (size_t)(keep + more);
	return 0;
}

static int name_in(const struct cat_segment *seg, struct front_scratch *scratch, uint64_t i,
		   uint8_t *buf)
{
	struct span s;
	size_t len = seg->first_len;
	int n = front_expand_cached(seg, scratch);

	if (n < 0)
		return n;
	s = (struct span){ .p = scratch->raw, .end = scratch->raw + n };
	memcpy(buf, seg->first, len);
	for (; i > 0; i--)
		if (cat_front_step(&s, buf, &len) < 0)
			return cat_segment_bad(seg, "a block of names is truncated");
	return (int)len;
}

int cat_front_name(const struct cat_segment *seg, uint64_t i, uint8_t *buf)
{
	struct front_scratch *scratch = scratch_take(seg->dicts);
	int len;

	if (!scratch)
		return -ENOMEM;
	len = name_in(seg, scratch, i, buf);
	scratch_give(seg->dicts, scratch);
	return len;
}

static int find_in(const struct cat_segment *seg, struct front_scratch *scratch,
		   const uint8_t *name, size_t len, uint64_t *ret_i)
{
	uint8_t buf[SHOAL_NAME_MAX];
	size_t buf_len = seg->first_len;
	struct span s;
	int n = front_expand_cached(seg, scratch);

	if (n < 0)
		return n;
	s = (struct span){ .p = scratch->raw, .end = scratch->raw + n };
	memcpy(buf, seg->first, buf_len);
	for (uint64_t i = 0; i < seg->nr; i++) {
		int c;

		if (i > 0 && cat_front_step(&s, buf, &buf_len) < 0)
			return cat_segment_bad(seg, "a block of names is truncated");
		c = name_compare(buf, buf_len, name, len);
		if (c == 0) {
			*ret_i = i;
			return 0;
		}
		if (c > 0)
			break;
	}
	return -ENOENT;
}

int cat_front_find(const struct cat_segment *seg, const uint8_t *name, size_t len, uint64_t *ret_i)
{
	struct front_scratch *scratch = scratch_take(seg->dicts);
	int rc;

	if (!scratch)
		return -ENOMEM;
	rc = find_in(seg, scratch, name, len, ret_i);
	scratch_give(seg->dicts, scratch);
	return rc;
}
