/*
 * Any bytes as a catalog: no lookup may crash, and where the content is consistent (names rise,
 * keys and sums fit) every lookup must agree with the walk from front to back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "catalog/catalog.h"
#include "catalog/digest.h"
#include "catalog_mutator.h"

#define WALK_MAX 2000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* Mostly one section, so that what was mutated is read; otherwise any bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	size_t len = seed % 4 ? mutate_catalog(data, size, max_size, seed / 4) : 0;

	return len ? len : LLVMFuzzerMutate(data, size, max_size);
}

/* As shoal_catalog_open() does, but from memory. */
static struct shoal_catalog *open_bytes(const uint8_t *data, size_t size)
{
	struct shoal_catalog *cat = calloc(1, sizeof(*cat));
	struct cat_view *v;
	const uint8_t *root;

	if (!cat)
		abort();
	v = &cat->view;
	cat->map = MAP_CLOSED;
	if (cat_parse(data, size, v, NULL) < 0) {
		free(cat);
		return NULL;
	}
	cat->last_sum = cat_last_sum(v);
	v->damage = &cat->damage;
	v->checked = calloc(v->nr_pages / 64 + 1, sizeof(*v->checked));
	cat->dicts = cat_dicts_new(v);
	root = cat_need(v, CAT_ROOT, 0, v->sec[CAT_ROOT].len);
	if (!v->checked || !cat->dicts || !root)
		abort();
	memcpy(cat->root, root, (size_t)v->sec[CAT_ROOT].len);
	return cat;
}

static void look_up(const struct shoal_catalog *cat, uint64_t id)
{
	char name[SHOAL_NAME_MAX + 1], etag[SHOAL_ETAG_MAX + 1];
	struct shoal_extent extent;
	uint64_t x, y;
	struct shoal_err err;
	int n = shoal_catalog_name(cat, id, name);

	if (n > SHOAL_NAME_MAX || (n >= 0 && name[n] != '\0'))
		abort();
	if (n >= 0) {
		(void)!shoal_catalog_find(cat, name, (size_t)n, &x);
		(void)!shoal_catalog_lower_bound(cat, name, (size_t)n, &x);
		name[n / 2] = (char)(name[n / 2] + 1);
		(void)!shoal_catalog_find(cat, name, (size_t)n, &x);
		(void)!shoal_catalog_find(cat, name, (size_t)n / 2, &x);
		(void)!shoal_catalog_lower_bound(cat, name, (size_t)n, &x);
	} else {
		shoal_catalog_explain(cat, n, &err);
	}
	n = shoal_catalog_etag(cat, id, etag);
	if (n > SHOAL_ETAG_MAX || (n >= 0 && etag[n] != '\0'))
		abort();
	(void)!shoal_catalog_size(cat, id, &x);
	if (shoal_catalog_samples(cat, id, &x, &y) == 0 &&
	    shoal_catalog_extent(cat, id, y, &extent) == 0)
		abort(); /* sample y is the first that the file does not have */
	(void)!shoal_catalog_extent(cat, id, 0, &extent);
	(void)!shoal_catalog_extent(cat, id, id, &extent);
	(void)!shoal_catalog_locate(cat, id, &x, &y);
}

/* Walk from the front. True when it came to the end; then @ret_digest is of what it saw. */
static bool walk(const struct shoal_catalog *cat, struct cat_digest *ret_digest)
{
	struct shoal_cursor *cursor = NULL;
	struct cat_digest digest = { 0 };
	const char *name;
	uint64_t size, first, count;
	size_t len;
	int rc;

	if (shoal_cursor_new(cat, 0, &cursor, NULL) < 0)
		abort();
	while ((rc = shoal_cursor_next(cursor, &name, &len)) > 0 && digest.nr_files < WALK_MAX) {
		if (len == 0 || len > SHOAL_NAME_MAX || name[len] != '\0')
			abort();
		if (shoal_catalog_size(cat, digest.nr_files, &size) < 0 ||
		    shoal_catalog_samples(cat, digest.nr_files, &first, &count) < 0)
			break;
		cat_digest_add(&digest, name, len, size, count);
	}
	for (int again = 0; again < 3 && rc < 0; again++)
		(void)!shoal_cursor_next(cursor, &name, &len);
	shoal_cursor_free(cursor);
	*ret_digest = digest;
	return rc == 0;
}

/* What is kept is what a server would be sent, and would be kept again. */
static void check_etag(const struct shoal_catalog *cat, uint64_t id)
{
	char text[SHOAL_ETAG_MAX + 1], again[SHOAL_ETAG_MAX + 1];
	struct etag etag;
	int len = shoal_catalog_etag(cat, id, text);

	if (len < 0)
		abort();
	etag = etag_parse(text, (size_t)len);
	if (etag_print(&etag, again) != (size_t)len || strcmp(text, again) != 0)
		abort();
}

/* Each sample of a file lies inside of it. */
static void check_extents(const struct shoal_catalog *cat, uint64_t id, uint64_t count)
{
	struct shoal_extent e;
	uint64_t size;

	if (shoal_catalog_size(cat, id, &size) != 0)
		abort();
	for (uint64_t i = 0; i < u64_min(count, WALK_MAX); i++) {
		if (shoal_catalog_extent(cat, id, i, &e) != 0)
			abort();
		if (size != SHOAL_SIZE_UNKNOWN && (e.off > size || e.len > size - e.off))
			abort();
	}
}

/* Verify found nothing wrong: now everything must fit together. */
static void check_consistent(const struct shoal_catalog *cat)
{
	char name[SHOAL_NAME_MAX + 1];
	uint64_t id, sum = 0, first, count, file, index;

	for (uint64_t i = 0; i < cat->view.nr_files; i++) {
		int n = shoal_catalog_name(cat, i, name);

		if (n <= 0 || shoal_catalog_find(cat, name, (size_t)n, &id) != 0 || id != i)
			abort();
		if (shoal_catalog_lower_bound(cat, name, (size_t)n, &id) != 0 || id != i)
			abort();
		if (shoal_catalog_samples(cat, i, &first, &count) != 0 || first != sum)
			abort();
		check_etag(cat, i);
		check_extents(cat, i, count);
		if (count && (shoal_catalog_locate(cat, first, &file, &index) != 0 || file != i ||
			      index != 0))
			abort();
		if (count && (shoal_catalog_locate(cat, first + count - 1, &file, &index) != 0 ||
			      file != i || index != count - 1))
			abort();
		sum += count;
	}
	if (sum != cat->view.nr_samples)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct shoal_catalog *cat = open_bytes(data, size);
	struct cat_digest digest;
	uint64_t nr;

	if (!cat)
		return 0;
	nr = cat->view.nr_files;
	for (uint64_t i = 0; i < 8; i++) {
		look_up(cat, i);
		look_up(cat, nr - 1 - i);
		look_up(cat, nr / 8 * i);
	}
	if (walk(cat, &digest)) {
		/* A mutation cannot hit the digest: give it the one that fits. */
		cat->view.lane[0] = digest.lane[0];
		cat->view.lane[1] = digest.lane[1];
		cat_digest_final(&digest, cat->view.digest);
		/* There is no file to stat in the end, which is how we know that it came there. */
		if (shoal_catalog_verify(cat, NULL) == -EBADF)
			check_consistent(cat);
	}
	cat_dicts_free(cat->dicts);
	free(cat->view.checked);
	free(cat);
	return 0;
}
