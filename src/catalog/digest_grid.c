/* The digest of a grid of names, which is computed from all of them, by ranges on all cores. */
#include <errno.h>
#include <string.h>

#include "base/tasks.h"
#include "catalog/digest.h"
#include "catalog/grid.h"

/* Write the name of @g at @x steps along each dimension from the first into @name. */
static void grid_render(const struct cat_grid *g, const uint64_t *x, uint8_t *name)
{
	for (unsigned f = 0; f < g->nr_fields; f++) {
		uint64_t v = g->field[f].value;

		for (unsigned d = 0; d < g->nr_dims; d++)
			v += x[d] * g->dim[d].delta[f];
		cat_digits_put(name + g->field[f].pos, g->field[f].width, v);
	}
}

/* Names that a thread digests at a time. */
#define GRID_STEP 0x10000u

/* The digest of a grid's names: it needs every name; the catalog does not. */
struct grid_digest {
	const struct cat_grid *g;
	const char *first;
	size_t len;
	uint64_t nr, size, samples; /* size and samples are those of each file */
	const struct cat_grid_watch *watch;
	struct cat_digest *sum; /* of what was digested so far */
	struct cat_digest of[TASKS_THREADS_MAX];
};

static int grid_digest_run(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct grid_digest *x = self;
	const struct cat_grid *g = x->g;
	uint64_t at = k * GRID_STEP, rest = at, i[CAT_GRID_DIMS] = { 0 };
	uint8_t name[SHOAL_NAME_MAX];

	if (stop_requested(x->watch->stop))
		return err_set(err, -ECANCELED, "interrupted");
	for (unsigned d = 0; d < g->nr_dims; d++) {
		i[d] = rest % g->dim[d].extent;
		rest /= g->dim[d].extent;
	}
	memcpy(name, x->first, x->len);
	x->of[thread] = (struct cat_digest){ .nr_files = 0 };
	for (uint64_t end = u64_min(x->nr, at + GRID_STEP); at < end; at++) {
		grid_render(g, i, name);
		cat_digest_add(&x->of[thread], name, x->len, x->size, x->samples);
		for (unsigned d = 0; d < g->nr_dims && ++i[d] == g->dim[d].extent; d++)
			i[d] = 0;
	}
	return 0;
}

static int grid_digest_commit(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct grid_digest *x = self;

	(void)k;
	(void)err;
	cat_digest_append(x->sum, &x->of[thread]);
	if (thread == 0 && x->watch->progress) /* the caller's */
		x->watch->progress(x->watch->self, x->sum->nr_files);
	return 0;
}

int cat_digest_grid(struct cat_digest *d, const struct cat_grid *g, const char *first, size_t len,
		    uint64_t size, uint64_t samples, const struct cat_grid_watch *watch,
		    struct shoal_err *err)
{
	struct grid_digest x = { .g = g,
				 .first = first,
				 .len = len,
				 .nr = cat_grid_names(g),
				 .size = size,
				 .samples = samples,
				 .watch = watch,
				 .sum = d };
	struct tasks t = { .nr = u64_divide_up(x.nr, GRID_STEP),
			   .run = grid_digest_run,
			   .commit = grid_digest_commit,
			   .self = &x };

	return tasks_run(&t, err);
}

void cat_grid_last(const struct cat_grid *g, uint8_t *name)
{
	uint64_t i[CAT_GRID_DIMS] = { 0 };

	for (unsigned d = 0; d < g->nr_dims; d++)
		i[d] = g->dim[d].extent - 1;
	grid_render(g, i, name);
}

uint64_t cat_grid_names(const struct cat_grid *g)
{
	uint64_t nr = 1;

	for (unsigned d = 0; d < g->nr_dims; d++)
		nr *= g->dim[d].extent;
	return nr;
}
