/*
 * Any bytes as a part of a catalog, as it comes from a thread or another rank: refused with a
 * message, or appended; and if the part was whole, then so is the catalog that it became part of.
 */
#include <errno.h>
#include <string.h>

#include "catalog_mutator.h"
#include "file.h"
#include "shoal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* The first byte chooses what the catalog keeps, the rest is the part. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	size_t len = 0;

	if (size > 1 && max_size > 1 && seed % 4 > 0)
		len = mutate_catalog(data + 1, size - 1, max_size - 1, seed / 4);
	if (len && seed % 4 == 1)
		LLVMFuzzerMutate(data, 1, 1);
	return len ? len + 1 : LLVMFuzzerMutate(data, size, max_size);
}

static void walk(const struct shoal_catalog *cat)
{
	struct shoal_cursor *cursor = NULL;
	const char *name;
	size_t len, nr = 0;

	if (shoal_cursor_new(cat, 0, &cursor, NULL) < 0)
		abort();
	while (nr++ < 2000 && shoal_cursor_next(cursor, &name, &len) > 0)
		if (len == 0 || len > SHOAL_NAME_MAX)
			abort();
	shoal_cursor_free(cursor);
}

static void check_whole(const char *path, bool part_is_whole)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };

	if (shoal_catalog_open(path, &cat, &err) < 0) {
		if (part_is_whole || !err.msg[0])
			abort();
		return;
	}
	walk(cat);
	if (shoal_catalog_verify(cat, &err) < 0 && part_is_whole)
		abort();
	shoal_catalog_close(cat);
}

static void append(const char *path, uint8_t what, const struct shoal_catalog *part)
{
	struct shoal_catalog_info info;
	struct shoal_writer_options options = { .sizes = what & 1, .etags = what & 2 };
	struct shoal_writer *w = NULL;
	struct shoal_err err = { "" };
	bool whole = shoal_catalog_verify(part, NULL) == 0;
	int rc;

	shoal_catalog_info(part, &info);
	options.root = info.root;
	options.samples_per_file = what & 4 ? 1 : 0;
	rc = shoal_writer_open(path, &options, &w, &err);
	if (rc < 0) { /* the part's root may be one that no catalog can have */
		if (!err.msg[0])
			abort();
		return;
	}
	if (what & 8)
		rc = shoal_writer_add(w, "!", 1, 5, 1, &err);
	if (rc == 0)
		rc = shoal_writer_append(w, part, &err);
	if (rc < 0) {
		if (!err.msg[0])
			abort();
		shoal_writer_abort(w);
		return;
	}
	if (shoal_writer_seal(w, &err) == 0)
		check_whole(path, whole);
	else if (!err.msg[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[160], out[160];
	struct shoal_catalog *part = NULL;

	if (size < 2)
		return 0;
	snprintf(path, sizeof(path), "%s", fuzz_path("part"));
	snprintf(out, sizeof(out), "%s.out", path);
	fuzz_write(path, data + 1, size - 1);
	if (shoal_catalog_open(path, &part, NULL) == 0) {
		append(out, data[0], part);
		shoal_catalog_close(part);
	}
	unlink(out);
	unlink(path);
	return 0;
}
