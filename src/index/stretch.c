#include "index/stretch.h"

#include "base/name.h"

/* The old catalog is damaged or cannot be read. */
static int stretch_failed(const struct index_stretches *s, int rc, const struct shoal_err *why,
			  struct shoal_err *err)
{
	return err_set_as(err, rc, why, "cannot update '%s': %s", s->path, why->msg);
}

/* Put the first @nr names of what is pending. */
static int stretch_flush(struct index_stretches *s, uint64_t nr, struct shoal_err *err)
{
	struct index_stretch *p = &s->pending;
	struct shoal_err why = { "" };
	int rc;

	if (nr == 0)
		return 0;
	rc = catalog_digest_range(s->old, p->first, nr, s->nr_threads, s->digester, &why);
	if (rc == 0)
		rc = writer_append_range(s->writer, s->old, p->first, nr, &why);
	if (rc < 0)
		return stretch_failed(s, rc, &why, err);
	s->nr_put += nr;
	p->first += nr;
	p->nr -= nr;
	return rc;
}

int index_stretches_end(struct index_stretches *s, struct shoal_err *err)
{
	return stretch_flush(s, s->pending.nr, err);
}

int index_stretches_put(struct index_stretches *s, const struct index_stretch *next,
			struct shoal_err *err)
{
	struct index_stretch *p = &s->pending;
	uint64_t end = next->first + next->nr;
	int rc = 0;

	s->last_len = 0;
	if (p->nr > 0 && next->first > p->first + p->nr)
		rc = stretch_flush(s, p->nr, err);
	if (p->nr == 0)
		*p = *next;
	else if (end > p->first + p->nr)
		p->nr = end - p->first;
	return rc;
}

/* Whether @name comes after all that is pending: 1. */
static int stretch_is_before(struct index_stretches *s, const void *name, size_t len)
{
	if (s->last_len == 0) {
		int n = shoal_catalog_name(s->old, s->pending.first + s->pending.nr - 1, s->last);

		if (n < 0)
			return n;
		s->last_len = (size_t)n;
	}
	return name_compare(s->last, s->last_len, name, len) < 0;
}

int index_stretches_before(struct index_stretches *s, const void *name, size_t len,
			   struct shoal_err *err)
{
	struct index_stretch *p = &s->pending;
	struct shoal_err why = { "" };
	uint64_t id = 0, same;
	int rc = p->nr ? stretch_is_before(s, name, len) : 1;

	if (rc > 0)
		return stretch_flush(s, p->nr, err);
	if (rc == 0)
		rc = shoal_catalog_lower_bound(s->old, name, len, &id);
	if (rc < 0) {
		shoal_catalog_explain(s->old, rc, &why);
		return stretch_failed(s, rc, &why, err);
	}
	if (id > p->first)
		rc = stretch_flush(s, id - p->first, err);
	/* What was found of a file now replaces what was known of it. */
	if (rc == 0 && shoal_catalog_find(s->old, name, len, &same) == 0 && same == p->first) {
		p->first++;
		p->nr--;
	}
	return rc;
}
