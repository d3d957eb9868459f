#include "index/known.h"

#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "catalog/writer.h"

/* How much older than a catalog a change must be to be included: clocks have steps. */
#define FINE_NS   UINT64_C(100000000)
#define COARSE_NS UINT64_C(3000000000)

/*
 * Parts cover ranges of names, which overlap only where files changed between two runs. After this
 * many parts that begin before a name and do not have it, the name counts as unknown.
 */
#define PARTS_ASKED 4u

int index_known_add(struct index_known *k, const struct index_known_source *source)
{
	struct index_known_source *grown = realloc(k->source, (k->nr + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	grown[k->nr++] = *source;
	k->source = grown;
	return 0;
}

/* A lent catalog comes first. */
static int compare_sources(const void *a, const void *b)
{
	const char *x = ((const struct index_known_source *)a)->first;
	const char *y = ((const struct index_known_source *)b)->first;

	return strcmp(x ? x : "", y ? y : "");
}

void index_known_sort(struct index_known *k)
{
	if (k->nr > 1)
		qsort(k->source, k->nr, sizeof(*k->source), compare_sources);
}

void index_known_release(struct index_known *k)
{
	for (size_t i = 0; i < k->nr; i++) {
		if (k->source[i].first)
			shoal_catalog_close(k->source[i].cat);
		free(k->source[i].first);
	}
	free(k->source);
	*k = (struct index_known){ .nr = 0 };
}

static bool is_unchanged(const struct index_known_source *s, uint64_t id,
			 const struct index_known_file *f)
{
	uint64_t size = 0;
	struct etag was;

	if (shoal_catalog_size(s->cat, id, &size) < 0 || size != f->size)
		return false;
	if (f->changed > 0)
		return f->changed + (f->coarse ? COARSE_NS : FINE_NS) <= s->started;
	if (catalog_etag_of(s->cat, id, &was) < 0)
		return false;
	if (!etag_is_kept(&was) || !etag_is_kept(&f->etag))
		return s->trusted;
	return etag_same(&was, &f->etag);
}

static int take_known(const struct index_known_source *s, const struct index_known_file *f,
		      struct cat_layout *layout, uint64_t *ret_nr)
{
	uint64_t id = 0, first, nr = 0;
	int rc = shoal_catalog_find(s->cat, f->name, f->len, &id);

	if (rc < 0 || !is_unchanged(s, id, f))
		return 0;
	if (shoal_catalog_samples(s->cat, id, &first, &nr) < 0)
		return 0;
	cat_layout_clear(layout);
	rc = catalog_layout_of(s->cat, id, nr, layout);
	if (rc < 0 || (rc == 0 && nr > 1)) {
		cat_layout_clear(layout);
		return 0;
	}
	*ret_nr = nr;
	return 1;
}

int index_known_find(const struct index_known *k, const struct index_known_file *f,
		     struct cat_layout *layout, uint64_t *ret_nr)
{
	size_t low = 0, high = k->nr;
	int rc = 0;

	while (low < high) { /* the first source that begins after the name */
		size_t mid = (low + high) / 2;
		const char *first = k->source[mid].first;

		if (first && name_compare(first, strlen(first), f->name, f->len) > 0)
			high = mid;
		else
			low = mid + 1;
	}
	for (unsigned i = 0; rc == 0 && i < PARTS_ASKED && i < low; i++)
		rc = take_known(&k->source[low - 1 - i], f, layout, ret_nr);
	if (rc == 0 && low > PARTS_ASKED && !k->source[0].first)
		rc = take_known(&k->source[0], f, layout, ret_nr);
	return rc;
}
