/* The digest of a range of a catalog's files, on several threads. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/tasks.h"
#include "catalog/catalog.h"
#include "catalog/writer.h"

/* Names that a thread digests at a time. */
#define DIGEST_NAMES 0x4000u

struct range_digest {
	const struct shoal_catalog *from;
	uint64_t first, nr;
	struct cat_digester *to;
	struct cat_digest of[TASKS_THREADS_MAX];
};

static int range_digest_walk(const struct range_digest *x, uint64_t id, uint64_t end,
			     struct shoal_cursor *cursor, struct cat_digester *d,
			     struct shoal_err *err)
{
	for (; id < end; id++) {
		uint64_t size = 0;
		const char *name;
		size_t len;
		int rc = shoal_cursor_next(cursor, &name, &len);

		if (rc > 0)
			rc = d->sizes ? shoal_catalog_size(x->from, id, &size) : 0;
		if (rc < 0)
			return shoal_catalog_explain(x->from, rc, err);
		/* No listing makes such names, but other programs write catalogs, too. */
		if (memchr(name, 0, len))
			return err_set(err, -EINVAL,
				       "a name in the old catalog contains a NUL byte");
		cat_digester_add(d, name, len, size, 1);
	}
	return 0;
}

static int range_digest_run(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct range_digest *x = self;
	uint64_t id = x->first + k * DIGEST_NAMES;
	uint64_t end = u64_min(x->first + x->nr, id + DIGEST_NAMES);
	struct cat_digester d = { .sizes = x->to->sizes,
				  .samples_per_file = x->to->samples_per_file };
	struct shoal_cursor *cursor = NULL;
	int rc = shoal_cursor_new(x->from, id, &cursor, err);

	if (rc == 0)
		rc = range_digest_walk(x, id, end, cursor, &d, err);
	shoal_cursor_free(cursor);
	x->of[thread] = d.digest;
	return rc;
}

static int range_digest_commit(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct range_digest *x = self;

	(void)k;
	(void)err;
	cat_digest_append(&x->to->digest, &x->of[thread]);
	return 0;
}

int catalog_digest_range(const struct shoal_catalog *from, uint64_t first, uint64_t nr,
			 unsigned nr_threads, struct cat_digester *d, struct shoal_err *err)
{
	const struct cat_view *v = &from->view;
	struct cat_digest all = { .lane = { v->lane[0], v->lane[1] }, .nr_files = v->nr_files };
	struct range_digest x = { .from = from, .first = first, .nr = nr, .to = d };
	struct tasks t = { .nr = u64_divide_up(nr, DIGEST_NAMES),
			   .nr_threads = nr_threads,
			   .run = range_digest_run,
			   .commit = range_digest_commit,
			   .self = &x };

	assert(d->samples_per_file);
	if (nr < v->nr_files || d->sizes != (v->nr_bytes != SHOAL_SIZE_UNKNOWN) ||
	    d->samples_per_file != v->samples_per_file)
		return tasks_run(&t, err);
	cat_digest_append(&d->digest, &all);
	return 0;
}
