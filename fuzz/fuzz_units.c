/*
 * Any bytes as units of the listing of a small directory tree, as they come from checkpoints and
 * from other ranks: refused with a message, or names that stay below the root, and further units
 * that can be read again. The first byte chooses the options.
 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "file.h"
#include "index/queue.h"
#include "store/posix/unit.h"
#include "store/store.h"

#define UNITS_MAX 64 /* per input: those that units make are listed, too */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct units_sink {
	struct store_sink sink; /* first, for the cast */
	struct store *store;
	const struct store_list_options *options;
	unsigned nr_idle, nr_units;
};

static char root[128];

static void make_tree(void)
{
	char path[256];

	snprintf(root, sizeof(root), "%s", fuzz_path("units"));
	if (mkdir(root, 0700) < 0 && errno != EEXIST)
		abort();
	for (int dir = 0; dir < 3; dir++) {
		snprintf(path, sizeof(path), "%s/d%d", root, dir);
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			abort();
		for (int file = 0; file < 4; file++) {
			snprintf(path, sizeof(path), "%s/d%d/f%d", root, dir, file);
			fuzz_write(path, (const uint8_t *)"12345", (size_t)file);
		}
	}
	snprintf(path, sizeof(path), "%s/d0/out", root);
	if (symlink("/etc", path) < 0 && errno != EEXIST)
		abort();
}

static int found(struct store_sink *sink, const struct store_entry *entries, size_t nr,
		 struct shoal_err *err)
{
	(void)sink;
	(void)err;
	for (size_t i = 0; i < nr; i++) {
		const struct store_entry *e = &entries[i];

		if (e->len == 0 || e->len > SHOAL_NAME_MAX || e->name[0] == '/' ||
		    memchr(e->name, 0, e->len) || path_goes_up(e->name, e->len))
			abort();
	}
	return 0;
}

static int list(struct units_sink *s, const void *unit, size_t len)
{
	struct shoal_err err = { "" };
	int rc;

	if (s->nr_units == UNITS_MAX)
		return 0;
	s->nr_units++;
	rc = store_list(s->store, s->options, unit, len, &s->sink, &err);
	if (rc > 0 || (rc < 0 && !err.msg[0]))
		abort();
	return rc;
}

/* What a listing hands on can be read. It is not listed now: the buffers are in use. */
static int add_unit(struct store_sink *sink, const void *unit, size_t len, struct shoal_err *err)
{
	struct span span = { .p = unit, .end = (const uint8_t *)unit + len }, path;
	uint8_t kind;

	(void)sink;
	(void)err;
	if (len > STORE_UNIT_MAX || !posix_unit_parse(&span, &kind, &path))
		abort();
	return 0;
}

static int trouble(struct store_sink *sink, int rc, struct shoal_err *err)
{
	(void)sink;
	if (!err->msg[0])
		abort();
	return rc == -ENOMEM ? rc : 0;
}

static unsigned nr_idle(struct store_sink *sink)
{
	return ((struct units_sink *)sink)->nr_idle;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct store_list_options options = { 0 };
	struct units_sink s = { .sink = { .found = found,
					  .add_unit = add_unit,
					  .trouble = trouble,
					  .nr_idle = nr_idle },
				.options = &options };
	struct index_unit_ref unit;
	struct span units = { .p = data + 1, .end = data + size };
	int rc;

	if (size < 1)
		return 0;
	if (!root[0])
		make_tree();
	if (store_open(root, NULL, &s.store, NULL) < 0)
		abort();
	options.sizes = data[0] & 1;
	options.follow = data[0] & 2;
	options.one_fs = data[0] & 4;
	s.nr_idle = data[0] & 8 ? 2 : 0;
	if (data[0] & 16) { /* a list of them */
		while ((rc = index_unit_next(&units, &unit)) > 0)
			list(&s, unit.unit, unit.len);
		if (rc < 0 && rc != -EBADMSG)
			abort();
	} else {
		list(&s, data + 1, size - 1);
	}
	if (s.sink.free_scratch)
		s.sink.free_scratch(s.sink.scratch);
	store_close(s.store);
	return 0;
}
