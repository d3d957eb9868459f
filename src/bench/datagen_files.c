/* One file of a dataset: written, or compared with what it should be. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/datagen_inside.h"

/* What a file was found to be. */
enum state { GOOD, MISSING, RESIZED, DAMAGED, NO_FILE };

/* When all is not compared: one file in so many. */
#define SAMPLED 64

/* A part of a file, and where it is. */
struct part {
	char name[BENCH_NAME_MAX];
	unsigned number;
	struct format_spec spec;
};

int datagen_name(const struct datagen *g, bool valid, uint64_t id, unsigned part,
		 char name[BENCH_NAME_MAX])
{
	const struct format_side *side = part ? format_side(g->format, part - 1) : NULL;
	char data[BENCH_NAME_MAX];
	int len, rc = bench_file_name(g->w, valid, id, data, sizeof(data));

	if (rc < 0)
		return rc;
	if (side && side->in_index_folder)
		len = snprintf(name, BENCH_NAME_MAX, "index/%s/%s%s", valid ? "valid" : "train",
			       strrchr(data, '/') + 1, side->suffix);
	else
		len = snprintf(name, BENCH_NAME_MAX, "%s%s", data, side ? side->suffix : "");
	return len > 0 && len < BENCH_NAME_MAX ? 0 : -ENAMETOOLONG;
}

static int stopped(struct datagen_worker *wk)
{
	return shoal_fail(&wk->err, -ECANCELED, "interrupted");
}

/* ---- Writing ---- */

static int write_bytes(struct datagen_worker *wk, struct store_writer *writer, uint64_t *ret_bytes)
{
	size_t n;
	int rc = 0;

	while (rc == 0 && (n = format_next(&wk->maker, wk->made, DATAGEN_BUFFER)) > 0) {
		if (datagen_stopped(wk->g))
			return stopped(wk);
		rc = store_write(writer, wk->made, n, &wk->err);
		*ret_bytes += n;
	}
	return rc;
}

static int write_part(struct datagen_worker *wk, const struct part *p)
{
	struct store_writer *writer = NULL;
	uint64_t bytes = 0;
	int rc = format_make(&wk->maker, wk->g->format, p->number, &p->spec, &wk->err);

	if (rc == 0)
		rc = store_create(wk->g->store, p->name, &writer, &wk->err);
	if (rc < 0)
		return rc;
	rc = write_bytes(wk, writer, &bytes);
	if (rc < 0) {
		store_abort(writer);
		return rc;
	}
	rc = store_commit(writer, &wk->err);
	if (rc == 0) {
		wk->counts.bytes_written += bytes;
		atomic_fetch_add_explicit(&wk->g->nr_bytes, bytes, memory_order_relaxed);
	}
	return rc;
}

/* ---- Checking ---- */

/* How many bytes the part should have: known for a file, to be counted for an index. */
static int part_size(struct datagen_worker *wk, const struct part *p, uint64_t *ret_size)
{
	uint64_t size = 0;
	size_t n;
	int rc;

	if (p->number == 0) {
		*ret_size = p->spec.size;
		return 0;
	}
	rc = format_make(&wk->maker, wk->g->format, p->number, &p->spec, &wk->err);
	if (rc < 0)
		return rc;
	while ((n = format_next(&wk->maker, wk->made, DATAGEN_BUFFER)) > 0)
		size += n;
	*ret_size = size;
	return 0;
}

/* Read it, and make it again. Its size is the right one. */
static int compare_part(struct datagen_worker *wk, const struct part *p, enum state *ret_state)
{
	uint64_t off = 0;
	size_t n;
	int rc = format_make(&wk->maker, wk->g->format, p->number, &p->spec, &wk->err);

	if (rc < 0)
		return rc;
	while ((n = format_next(&wk->maker, wk->made, DATAGEN_BUFFER)) > 0) {
		int64_t got;

		if (datagen_stopped(wk->g))
			return stopped(wk);
		got = store_read(wk->g->store, p->name, off, wk->read, n, &wk->err);
		if (got < 0)
			return (int)got;
		if ((size_t)got != n || memcmp(wk->read, wk->made, n) != 0) {
			*ret_state = DAMAGED;
			return 0;
		}
		off += n;
	}
	wk->counts.bytes_compared += off;
	atomic_fetch_add_explicit(&wk->g->nr_bytes, off, memory_order_relaxed);
	*ret_state = GOOD;
	return 0;
}

static int check_part(struct datagen_worker *wk, const struct part *p, bool compare,
		      enum state *ret_state)
{
	struct store_stat st;
	uint64_t size;
	int rc = part_size(wk, p, &size);

	if (rc < 0)
		return rc;
	rc = store_stat(wk->g->store, p->name, &st, &wk->err);
	if (rc == -ENOENT) {
		*ret_state = MISSING;
		return 0;
	}
	if (rc == -ENOTSUP || (rc == 0 && st.is_dir && wk->g->o->mode == BENCH_DATAGEN_VERIFY)) {
		*ret_state = NO_FILE;
		return 0;
	}
	if (rc < 0)
		return rc;
	if (st.is_dir) /* a file cannot take its place */
		return shoal_fail(&wk->err, -EISDIR, "'%.400s' is a directory: remove it", p->name);
	*ret_state = st.size == size ? GOOD : RESIZED;
	return *ret_state == GOOD && compare ? compare_part(wk, p, ret_state) : 0;
}

/* Name the first few that are wrong. */
static void tell(struct datagen_worker *wk, const struct part *p, enum state state)
{
	static const char *const what[] = { "is good", "is missing", "has another size",
					    "has other content", "is not a file" };
	struct datagen *g = wk->g;
	struct shoal_err words;

	if (!g->o->warn)
		return;
	pthread_mutex_lock(&g->lock);
	if (g->nr_named++ < DATAGEN_NAMED) {
		shoal_say(&words, "'%.400s' %s", p->name, what[state]);
		g->o->warn(g->o->self, words.msg);
	}
	pthread_mutex_unlock(&g->lock);
}

/* ---- All parts of a file ---- */

static int each_part(struct datagen_worker *wk, uint64_t index, unsigned number, struct part *p)
{
	struct datagen *g = wk->g;
	bool valid = index >= g->nr_train;
	uint64_t id = valid ? index - g->nr_train : index;
	int rc = datagen_name(g, valid, id, number, p->name);

	if (rc < 0)
		return shoal_fail_errno(&wk->err, rc, "cannot name file %" PRIu64, id);
	p->number = number;
	p->spec = (struct format_spec){
		.size = bench_file_size(g->w, valid, id),
		.nr_samples = g->w->dataset.samples_per_file,
		.key = bench_key(g->w->train.seed, 'c', valid, id), /* 'c': content */
	};
	return 0;
}

static void count(struct datagen_worker *wk, enum state state, bool compared)
{
	struct bench_datagen_counts *c = &wk->counts;
	uint64_t *const of[] = { &c->nr_good, &c->nr_missing, &c->nr_resized, &c->nr_damaged,
				 &c->nr_damaged };

	++*of[state];
	if (state == GOOD && compared)
		c->nr_compared++;
}

/* The worst of its parts; each that is wrong is named. */
static int check_file(struct datagen_worker *wk, uint64_t index, enum state *ret_state)
{
	struct datagen *g = wk->g;
	bool all = g->o->mode == BENCH_DATAGEN_VERIFY || g->o->check_all;
	bool compare = all || bench_key(g->w->train.seed, 'v', index, 0) % SAMPLED == 0;
	struct part p;

	*ret_state = GOOD;
	for (unsigned number = 0; number == 0 || format_side(g->format, number - 1); number++) {
		enum state state = GOOD;
		int rc = each_part(wk, index, number, &p);

		if (rc == 0)
			rc = check_part(wk, &p, compare, &state);
		if (rc < 0)
			return rc;
		if (state != GOOD && (state != MISSING || g->o->mode == BENCH_DATAGEN_VERIFY))
			tell(wk, &p, state);
		if (*ret_state == GOOD)
			*ret_state = state;
	}
	count(wk, *ret_state, compare);
	return 0;
}

int datagen_file(struct datagen_worker *wk, uint64_t index)
{
	struct datagen *g = wk->g;
	enum state state = MISSING;
	struct part p;
	int rc = 0;

	if (g->o->mode != BENCH_DATAGEN_WRITE)
		rc = check_file(wk, index, &state);
	if (rc < 0 || state == GOOD || g->o->mode == BENCH_DATAGEN_VERIFY)
		return rc;
	/* Index files before what they speak of: a file that is there has them, then. */
	for (unsigned number = FORMAT_SIDES_MAX + 1; number-- > 0 && rc == 0;) {
		if (number > 0 && !format_side(g->format, number - 1))
			continue;
		rc = each_part(wk, index, number, &p);
		if (rc == 0)
			rc = write_part(wk, &p);
	}
	if (rc == 0)
		wk->counts.nr_written++;
	return rc;
}
