/*
 * Samples sorted by value, in memory that does not grow with their number.
 *
 * If all entries fit into memory, they are sorted there. Otherwise the range of values is cut into
 * 65,536 slots, whose entries are counted in one pass. Neighbouring slots that fit into memory
 * together are sorted in one pass each; a slot that does not fit is cut again. Samples with equal
 * values stay in the order of the column. 100 million samples in 64 MiB take about 50 passes over
 * the column, at 0.1 to 0.2 s each on one core.
 *
 * All cores read the column, by ranges of samples, and each keeps the entries of its range that the
 * pass wants; these are used in the order of the ranges.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/tasks.h"
#include "catalog/sidecar_writer.h"

#define SLOTS          65536u
#define CHUNK          8192u /* values that a thread reads at once */
#define MEMORY_DEFAULT (UINT64_C(64) << 20)
#define MEMORY_MIN     (UINT64_C(1) << 20)

/* The part of the memory that threads may have for their entries. */
#define THREADS_SHARE 4u

/* Entries that are worth a thread when they are sorted in memory. */
#define RADIX_LEAST 0x10000u

struct entry {
	uint64_t key, id;
};

/* What a thread found in its range. */
struct sort_found {
	uint64_t nr;
	struct entry entry[CHUNK];
	uint64_t values[CHUNK];
	uint8_t kept[CHUNK];
};

struct column_sorter {
	const struct shoal_column *column, *keep;
	struct shoal_column_writer *writer;
	const struct side_sort_watch *watch;
	struct entry *entries, *scratch;
	uint64_t room; /* entries that fit into memory */
	uint64_t nr_out;
	unsigned nr_threads;
	struct sort_found *found; /* one per thread */
};

/* What to do with each sample whose key is in [low, high]. */
struct pass {
	struct column_sorter *sorter;
	uint64_t low, high;
	uint64_t *slots, slot_width; /* count them here, or */
	struct entry *entries;       /* put them here, or */
	uint64_t nr;                 /* write them out; their number */
};

static int fail_damaged(struct shoal_err *err)
{
	return err_set(err, -EBADMSG,
		       "damaged column: smallest, largest or number of ones is wrong");
}

static void put_id(struct column_sorter *s, uint64_t id)
{
	struct le64 bytes = le64_of(id);

	out_write(&s->writer->out, bytes.b, s->writer->nr_samples <= UINT64_C(1) << 32 ? 4 : 8);
	s->nr_out++;
}

/* ---- One pass over the column ---- */

static int pass_read(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	const struct pass *p = self;
	const struct column_sorter *s = p->sorter;
	const struct side_view *v = &s->column->view;
	struct sort_found *f = &s->found[thread];
	uint64_t at = k * CHUNK, nr = u64_min(CHUNK, v->nr - at);
	int rc;

	f->nr = 0;
	if (stop_requested(s->watch->stop))
		return err_set(err, -ECANCELED, "interrupted");
	rc = shoal_column_read(s->column, at, nr, f->values);
	if (rc < 0)
		return side_explain(s->column, rc, err);
	rc = s->keep ? shoal_column_read(s->keep, at, nr, f->kept) : 0;
	if (rc < 0)
		return side_explain(s->keep, rc, err);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t key = side_key(v->type, f->values, i);

		if (key >= p->low && key <= p->high && (!s->keep || f->kept[i]))
			f->entry[f->nr++] = (struct entry){ .key = key, .id = at + i };
	}
	return 0;
}

static int pass_use(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct pass *p = self;
	struct column_sorter *s = p->sorter;
	const struct sort_found *f = &s->found[thread];

	(void)k;
	(void)err;
	if (p->slots) {
		for (uint64_t i = 0; i < f->nr; i++)
			p->slots[(f->entry[i].key - p->low) / p->slot_width]++;
	} else if (!p->entries) {
		for (uint64_t i = 0; i < f->nr; i++)
			put_id(s, f->entry[i].id);
	} else if (p->nr < s->room) { /* a damaged header may announce too few */
		memcpy(p->entries + p->nr, f->entry,
		       u64_min(f->nr, s->room - p->nr) * sizeof(*f->entry));
	}
	p->nr += f->nr;
	if (s->watch->progress)
		s->watch->progress(s->watch->self, s->nr_out);
	return 0;
}

static int run_pass(struct column_sorter *s, struct pass *p, struct shoal_err *err)
{
	struct tasks t = { .nr = u64_divide_up(s->column->view.nr, CHUNK),
			   .nr_threads = s->nr_threads,
			   .run = pass_read,
			   .commit = pass_use,
			   .self = p };

	p->sorter = s;
	return tasks_run(&t, err);
}

/* ---- In memory ---- */

/* One byte of the keys, of @nr entries in @nr_parts parts. */
struct radix {
	const struct entry *from;
	struct entry *to;
	uint64_t nr, nr_parts;
	unsigned shift;
	uint64_t at[TASKS_THREADS_MAX][256]; /* of each part and byte: how many, then where to */
};

static int radix_count(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct radix *r = self;
	uint64_t *nr = r->at[k], end = u64_scale(r->nr, k + 1, r->nr_parts);

	(void)thread;
	(void)err;
	memset(nr, 0, sizeof(r->at[k]));
	for (uint64_t i = u64_scale(r->nr, k, r->nr_parts); i < end; i++)
		nr[r->from[i].key >> r->shift & 0xff]++;
	return 0;
}

static int radix_move(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct radix *r = self;
	uint64_t *at = r->at[k], end = u64_scale(r->nr, k + 1, r->nr_parts);

	(void)thread;
	(void)err;
	for (uint64_t i = u64_scale(r->nr, k, r->nr_parts); i < end; i++)
		r->to[at[r->from[i].key >> r->shift & 0xff]++] = r->from[i];
	return 0;
}

/* Turn counts into places. False: all entries have the same byte. */
static bool radix_place(struct radix *r)
{
	uint64_t sum = 0, most = 0;

	for (unsigned b = 0; b < 256; b++) {
		uint64_t before = sum;

		for (uint64_t k = 0; k < r->nr_parts; k++) {
			uint64_t nr = r->at[k][b];

			r->at[k][b] = sum;
			sum += nr;
		}
		most = u64_max(most, sum - before);
	}
	return most < r->nr;
}

/* Sort by key, one byte at a time from the lowest; equal keys keep their order. */
static int radix_sort(struct column_sorter *s, uint64_t nr, struct shoal_err *err)
{
	struct radix *r = malloc(sizeof(*r));
	struct tasks t = { .nr = u64_min(s->nr_threads, u64_divide_up(nr, RADIX_LEAST)),
			   .nr_threads = s->nr_threads,
			   .self = r };
	int rc = r ? 0 : err_set(err, -ENOMEM, "out of memory");

	for (unsigned shift = 0; shift < 64 && rc == 0; shift += 8) {
		struct entry *swap = s->entries;

		r->from = s->entries;
		r->to = s->scratch;
		r->nr = nr;
		r->nr_parts = t.nr;
		r->shift = shift;
		t.run = radix_count;
		rc = tasks_run(&t, err);
		if (rc < 0 || !radix_place(r))
			continue;
		t.run = radix_move;
		rc = tasks_run(&t, err);
		s->entries = s->scratch;
		s->scratch = swap;
	}
	free(r);
	return rc;
}

static int sort_in_memory(struct column_sorter *s, uint64_t low, uint64_t high,
			  struct shoal_err *err)
{
	struct pass p = { .low = low, .high = high, .entries = s->entries };
	int rc = run_pass(s, &p, err);

	if (rc < 0 || p.nr == 0)
		return rc;
	if (p.nr > s->room)
		return fail_damaged(err);
	rc = radix_sort(s, p.nr, err);
	for (uint64_t i = 0; i < p.nr && rc == 0; i++)
		put_id(s, s->entries[i].id);
	return rc;
}

static int sort_range(struct column_sorter *s, uint64_t low, uint64_t high, uint64_t nr,
		      struct shoal_err *err);

/* Sort groups of neighbouring slots that fit into memory together. */
static int sort_slots(struct column_sorter *s, const struct pass *counted, struct shoal_err *err)
{
	for (unsigned slot = 0; slot < SLOTS;) {
		uint64_t low = counted->low + slot * counted->slot_width, nr = counted->slots[slot];
		uint64_t last;
		int rc;

		for (slot++; slot < SLOTS && nr + counted->slots[slot] <= s->room; slot++)
			nr += counted->slots[slot];
		last = (slot * counted->slot_width) -
		       1; /* after low; the last slots may lie beyond the range */
		if (slot == SLOTS || last > counted->high - counted->low)
			last = counted->high - counted->low;
		rc = nr ? sort_range(s, low, counted->low + last, nr, err) : 0;
		if (rc < 0 || counted->low + last == counted->high)
			return rc;
	}
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): at most four deep, each level has 1/65,536 of the values */
static int sort_range(struct column_sorter *s, uint64_t low, uint64_t high, uint64_t nr,
		      struct shoal_err *err)
{
	struct pass p = { .low = low, .high = high };
	int rc;

	if (nr <= s->room)
		return sort_in_memory(s, low, high, err);
	if (low == high)
		return run_pass(s, &p, err);
	p.slot_width = (high - low) / SLOTS + 1;
	p.slots = calloc(SLOTS, sizeof(*p.slots));
	if (!p.slots)
		return err_set(err, -ENOMEM, "out of memory");
	rc = run_pass(s, &p, err);
	if (rc == 0)
		rc = sort_slots(s, &p, err);
	free(p.slots);
	return rc;
}

static int write_order(struct column_sorter *s, struct shoal_err *err)
{
	const struct side_view *v = &s->column->view;
	struct shoal_column_writer *w = s->writer;
	struct side_layout at;
	int rc;

	w->nr_order = s->keep ? s->keep->view.nr_ones : v->nr;
	at = side_layout(w->type, w->nr, w->nr_samples, w->nr_order);
	w->out.pos = at.order_off;
	rc = w->nr_order ? sort_range(s, v->min_key, v->max_key, w->nr_order, err) : 0;
	if (rc < 0)
		return rc;
	out_flush(&w->out);
	if (w->out.rc < 0)
		return err_set_errno(err, w->out.rc, "cannot write '%s'", w->pub.path);
	if (s->nr_out != w->nr_order)
		return fail_damaged(err);
	return 0;
}

/* Hash the bytes that hold the keep column's values in its file. */
static int hash_keep(const struct shoal_column *keep, uint64_t ret_hash[2], struct shoal_err *err)
{
	const struct side_view *v = &keep->view;
	uint64_t len = v->at.order_off - sizeof(struct side_header);
	const uint8_t *p = side_need(v, sizeof(struct side_header), len);
	XXH128_hash_t hash;

	if (!p)
		return side_explain(keep, -EBADMSG, err);
	hash = XXH3_128bits(p, len);
	ret_hash[0] = hash.low64;
	ret_hash[1] = hash.high64;
	return 0;
}

static int check_inputs(const struct shoal_column *column, const struct shoal_column *keep,
			struct shoal_err *err)
{
	const struct side_view *v = &column->view, *k = keep ? &keep->view : NULL;

	if (v->nr != v->nr_samples)
		return err_set(err, -EINVAL, "a part of a column cannot be sorted: join it first");
	if (!k)
		return 0;
	if (k->type != SHOAL_BIT || k->nr != k->nr_samples)
		return err_set(err, -EINVAL,
			       "column '%s' cannot select samples: its type is %s, not bit, or "
			       "it is only part of a column",
			       k->name, shoal_column_type_name(k->type));
	if (k->nr != v->nr || memcmp(k->digest, v->digest, sizeof(v->digest)) != 0)
		return err_set(err, -ESTALE, "columns '%s' and '%s' belong to different catalogs",
			       v->name, k->name);
	return 0;
}

int side_sort(const struct shoal_column *column, const struct shoal_column *keep, const char *path,
	      uint64_t memory, const struct side_sort_watch *watch, struct shoal_err *err)
{
	struct column_sorter s = { .column = column, .keep = keep, .watch = watch };
	struct entry *blocks[2];
	int rc = check_inputs(column, keep, err);

	if (rc < 0)
		return rc;
	memory = u64_max(memory ? memory : MEMORY_DEFAULT, MEMORY_MIN);
	s.nr_threads = tasks_threads(memory / THREADS_SHARE / sizeof(*s.found));
	s.found = malloc(s.nr_threads * sizeof(*s.found));
	memory -= u64_min(memory / THREADS_SHARE, s.nr_threads * sizeof(*s.found));
	/* At most the number of samples, and at most the memory allowed. */
	s.room = u64_min(column->view.nr, memory / (2 * sizeof(struct entry)));
	blocks[0] = s.entries = malloc(u64_max(s.room, 1) * sizeof(*s.entries));
	blocks[1] = s.scratch = malloc(u64_max(s.room, 1) * sizeof(*s.scratch));
	if (!blocks[0] || !blocks[1] || !s.found)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = side_writer_like(path, &column->view, 0, column->view.nr, &s.writer, err);
	if (rc == 0)
		rc = side_writer_copy(s.writer, column, err);
	if (rc == 0 && keep)
		rc = hash_keep(keep, s.writer->keep_hash, err);
	if (rc == 0)
		rc = side_writer_flush(s.writer, err);
	if (rc == 0)
		rc = write_order(&s, err);
	free(blocks[0]);
	free(blocks[1]);
	free(s.found);
	if (rc == 0)
		return side_writer_finish(s.writer, err);
	shoal_column_abort(s.writer);
	return rc;
}
