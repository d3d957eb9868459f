#include "catalog/column_writer.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"

/* This many equal values in succession get a run of their own; fewer are cheaper inside blocks. */
#define CONSTANT_MIN (16 * CAT_BLOCK_VALUES)

void cat_column_writer_init(struct cat_column_writer *w, struct cat_stream *runs,
			    struct cat_stream *blocks, struct cat_stream *data)
{
	*w = (struct cat_column_writer){ .runs = runs, .blocks = blocks, .data = data };
}

static int put_run(struct cat_column_writer *w, uint64_t first_id, uint64_t sum_before,
		   uint64_t value, enum cat_run_kind kind, struct shoal_err *err)
{
	struct cat_run e = { .first_id = le64_of(first_id),
			     .sum_before = le64_of(sum_before),
			     .value = le64_of(value),
			     .kind = le32_of(kind) };

	return cat_stream_write(w->runs, &e, sizeof(e), err);
}

/* The value of more than half of those collected, if there is one. */
static uint64_t most_common(const struct cat_column_writer *w)
{
	uint64_t found = 0;
	unsigned votes = 0;

	for (unsigned j = 0; j < w->fill; j++)
		if (votes == 0) {
			found = w->values[j];
			votes = 1;
		} else if (w->values[j] == found) {
			votes++;
		} else {
			votes--;
		}
	return found;
}

/* Room for the bits of a block and what bits_put() writes after them, for the positions of a sparse
 * one, and for how many there are. */
#define BLOCK_ROOM (CAT_BLOCK_VALUES * 8 + 9 + CAT_BLOCK_VALUES + 1)

/*
 * The data of a sparse block: all values are the most common one, except at some positions. Returns
 * how many bytes it takes; 0: as many as a block with all values, or more.
 */
static size_t sparse_block(const struct cat_column_writer *w, uint64_t min, unsigned width,
			   uint8_t data[BLOCK_ROOM])
{
	uint64_t most = most_common(w);
	unsigned nr = 0, at = 0;
	uint8_t *bits;
	size_t len;

	for (unsigned j = 0; j < w->fill; j++)
		nr += w->values[j] != most;
	len = 1 + nr + ((nr + 1) * width + 7) / 8;
	if (nr == 0 || nr > UINT8_MAX || len >= (w->fill * width + 7) / 8)
		return 0;
	data[0] = (uint8_t)nr;
	bits = data + 1 + nr;
	bits_put(bits, 0, width, most - min);
	for (unsigned j = 0; j < w->fill; j++)
		if (w->values[j] != most) {
			data[1 + at++] = (uint8_t)j;
			bits_put(bits, (uint64_t)at * width, width, w->values[j] - min);
		}
	return len;
}

/* The high byte of a block's last field. */
static uint64_t block_kind(unsigned width, bool sparse)
{
	return (uint64_t)(width + (sparse ? CAT_BLOCK_SPARSE : 0)) << 56;
}

/* Write the values collected for a block, if there are any. */
static int column_put_block(struct cat_column_writer *w, struct shoal_err *err)
{
	uint8_t data[BLOCK_ROOM] = { 0 };
	uint64_t min = UINT64_MAX, max = 0, sum = 0;
	struct cat_block e;
	unsigned width;
	size_t len;
	int rc;

	if (w->fill == 0)
		return 0;
	for (unsigned j = 0; j < w->fill; j++) {
		min = u64_min(min, w->values[j]);
		max = u64_max(max, w->values[j]);
		sum += w->values[j];
	}
	width = bit_len(max - min);
	len = w->may_be_sparse ? sparse_block(w, min, width, data) : 0;
	w->sparse |= len > 0;
	e = (struct cat_block){ .min = le64_of(min),
				.sum_before = le64_of(w->block_sum - w->run_sum),
				.off_width = le64_of(w->data->len | block_kind(width, len > 0)) };
	for (unsigned j = 0; j < w->fill && len == 0; j++)
		bits_put(data, (uint64_t)j * width, width, w->values[j] - min);
	rc = cat_stream_write(w->data, data, len > 0 ? len : (w->fill * width + 7) / 8, err);
	if (rc == 0)
		rc = cat_stream_write(w->blocks, &e, sizeof(e), err);
	w->nr_blocks++;
	w->block_sum += sum;
	w->fill = 0;
	return rc;
}

/* Put one value into the open run of blocks; open one if necessary. */
static int column_put_value(struct cat_column_writer *w, uint64_t id, uint64_t value,
			    struct shoal_err *err)
{
	int rc;

	if (!w->in_blocks) {
		rc = put_run(w, id, w->block_sum, w->nr_blocks, CAT_RUN_BLOCKS, err);
		if (rc < 0)
			return rc;
		w->in_blocks = true;
		w->run_sum = w->block_sum;
	}
	w->values[w->fill++] = value;
	return w->fill == CAT_BLOCK_VALUES ? column_put_block(w, err) : 0;
}

static int close_blocks(struct cat_column_writer *w, struct shoal_err *err)
{
	w->in_blocks = false;
	return column_put_block(w, err);
}

/*
 * Write the equal values that were held back: as a run of their own if they are many, or are the
 * @whole column since the last cut; otherwise into blocks.
 */
static int put_constant(struct cat_column_writer *w, bool whole, struct shoal_err *err)
{
	uint64_t nr = w->nr_constant, first = w->id - nr;
	int rc = 0;

	w->nr_constant = 0;
	if (nr > 0 && (nr >= CONSTANT_MIN || (whole && nr == w->id - w->cut_id))) {
		rc = close_blocks(w, err);
		if (rc == 0)
			rc = put_run(w, first, w->block_sum, w->constant, CAT_RUN_CONSTANT, err);
		w->block_sum += nr * w->constant;
		return rc;
	}
	for (uint64_t i = 0; i < nr && rc == 0; i++)
		rc = column_put_value(w, first + i, w->constant, err);
	return rc;
}

/* Note whether all values are the same. */
static void note_value(struct cat_column_writer *w, uint64_t value)
{
	if (w->id == 0)
		w->same = value;
	w->varies |= value != w->same;
}

int cat_column_writer_add_many(struct cat_column_writer *w, uint64_t value, uint64_t nr,
			       struct shoal_err *err)
{
	unsigned __int128 sum = w->sum + (unsigned __int128)value * nr;
	int rc = 0;

	if (sum >= UINT64_MAX)
		return err_set(err, -EOVERFLOW, "sizes or samples add up to 2^64 or more");
	if (value != w->constant) {
		if (nr > 0)
			note_value(w, value);
		rc = put_constant(w, false, err);
	}
	w->constant = value;
	w->nr_constant += nr;
	w->id += nr;
	w->sum = (uint64_t)sum;
	if (nr > 0)
		w->largest = u64_max(w->largest, value);
	return rc;
}

/* Copy a section of the part's column unchanged. */
static int copy_section(const struct cat_column *c, unsigned section, struct cat_stream *to,
			struct shoal_err *err)
{
	const struct cat_section *sec = &c->view->sec[c->runs + section];

	for (uint64_t off = 0; off < sec->len; off += CAT_PAGE) {
		uint64_t n = u64_min(CAT_PAGE, sec->len - off);
		const uint8_t *bytes =
			cat_need(c->view, (enum cat_section_id)(c->runs + section), off, n);
		int rc;

		if (!bytes)
			return -EBADMSG;
		rc = cat_stream_write(to, bytes, (size_t)n, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int append_blocks(struct cat_column_writer *w, const struct cat_column *c,
			 uint64_t data_shift, struct shoal_err *err)
{
	uint64_t nr = c->view->sec[c->runs + 1].len / sizeof(struct cat_block);

	for (uint64_t k = 0; k < nr; k++) {
		const struct cat_block *e = (const struct cat_block *)cat_need(
			c->view, (enum cat_section_id)(c->runs + 1), k * sizeof(*e), sizeof(*e));
		struct cat_block moved;
		int rc;

		if (!e)
			return -EBADMSG;
		moved = *e;
		moved.off_width = le64_of(le64_get(e->off_width) + data_shift);
		rc = cat_stream_write(w->blocks, &moved, sizeof(moved), err);
		if (rc < 0)
			return rc;
	}
	w->nr_blocks += nr;
	return 0;
}

int cat_column_writer_append(struct cat_column_writer *w, const struct cat_column *c, uint64_t nr,
			     uint64_t sum, uint64_t largest, struct shoal_err *err)
{
	uint64_t nr_runs = c->view->sec[c->runs].len / sizeof(struct cat_run);
	uint64_t data_shift, block_shift;
	int rc;

	if (sum >= UINT64_MAX - w->sum)
		return err_set(err, -EOVERFLOW, "sizes or samples add up to 2^64 or more");
	rc = put_constant(w, true, err);
	if (rc == 0)
		rc = close_blocks(w, err);
	data_shift = w->data->len;
	block_shift = w->nr_blocks;
	for (uint64_t k = 0; k < nr_runs && rc == 0; k++) {
		const struct cat_run *e = (const struct cat_run *)cat_need(
			c->view, c->runs, k * sizeof(*e), sizeof(*e));

		if (!e)
			return -EBADMSG;
		if (k == 0)
			note_value(w, le64_get(e->value));
		w->varies |= le32_get(e->kind) != CAT_RUN_CONSTANT || le64_get(e->value) != w->same;
		rc = put_run(w, w->id + le64_get(e->first_id), w->sum + le64_get(e->sum_before),
			     le64_get(e->value) +
				     (le32_get(e->kind) == CAT_RUN_BLOCKS ? block_shift : 0),
			     (enum cat_run_kind)le32_get(e->kind), err);
	}
	if (rc == 0)
		rc = append_blocks(w, c, data_shift, err);
	if (rc == 0)
		rc = copy_section(c, 2, w->data, err);
	w->id += nr;
	w->sum += sum;
	w->largest = u64_max(w->largest, largest);
	w->block_sum = w->sum;
	w->cut_id = w->id;
	w->constant = w->same;
	return rc;
}

/* ---- A range of another column ---- */

/* Blocks from which on they are copied, and get a run of their own. */
#define COPY_LEAST 4u

/* Copy @nr values of block @k, from its first on. */
static int copy_block(struct cat_column_writer *w, const struct cat_column *c,
		      const struct cat_column_run *r, uint64_t k, unsigned nr,
		      struct shoal_err *err)
{
	struct cat_column_block b;
	struct cat_block e;
	size_t len;
	int rc = cat_column_block_load(c, r, k, &b);

	if (rc < 0)
		return rc;
	len = (nr * b.width + 7) / 8;
	e = (struct cat_block){ .min = le64_of(b.min),
				.sum_before = le64_of(w->block_sum - w->run_sum),
				.off_width = le64_of(w->data->len | (uint64_t)b.width << 56) };
	for (unsigned j = 0; j < nr; j++) {
		uint64_t value = cat_column_block_value(&b, j);

		if (__builtin_add_overflow(w->block_sum, value, &w->block_sum) ||
		    w->block_sum == UINT64_MAX)
			return err_set(err, -EOVERFLOW, "sizes or samples add up to 2^64 or more");
		w->largest = u64_max(w->largest, value);
	}
	if (len > 0)
		rc = cat_stream_write(w->data, b.data, len, err);
	if (rc == 0)
		rc = cat_stream_write(w->blocks, &e, sizeof(e), err);
	w->nr_blocks++;
	return rc;
}

/* Copy @nr values from block @k of run @r on, as a run of their own. */
static int copy_blocks(struct cat_column_writer *w, const struct cat_column *c,
		       const struct cat_column_run *r, uint64_t k, uint64_t nr,
		       struct shoal_err *err)
{
	int rc = put_constant(w, true, err);

	w->varies = true;
	if (rc == 0)
		rc = close_blocks(w, err);
	if (rc == 0)
		rc = put_run(w, w->id, w->sum, w->nr_blocks, CAT_RUN_BLOCKS, err);
	w->run_sum = w->block_sum;
	for (uint64_t done = 0, n; done < nr && rc == 0; done += n) {
		n = u64_min(CAT_BLOCK_VALUES, nr - done);
		rc = copy_block(w, c, r, k++, (unsigned)n, err);
	}
	w->id += nr;
	w->sum = w->block_sum;
	return rc;
}

/* Add values [from, end) of run @r one by one, of one block. */
static int add_values(struct cat_column_writer *w, const struct cat_column *c,
		      const struct cat_column_run *r, uint64_t from, uint64_t end,
		      struct shoal_err *err)
{
	struct cat_column_block b;
	int rc = cat_column_block_load(c, r, from / CAT_BLOCK_VALUES, &b);

	for (uint64_t i = from; i < end && rc == 0; i++)
		rc = cat_column_writer_add_many(
			w, cat_column_block_value(&b, (unsigned)(i % CAT_BLOCK_VALUES)), 1, err);
	return rc;
}

/* Values [from, end) of run @r. */
static int append_of_run(struct cat_column_writer *w, const struct cat_column *c,
			 const struct cat_column_run *r, uint64_t from, uint64_t end,
			 struct shoal_err *err)
{
	int rc = 0;

	if (r->kind == CAT_RUN_CONSTANT)
		return cat_column_writer_add_many(w, r->value, end - from, err);
	while (from < end && rc == 0) {
		uint64_t stop = u64_min(end, (from / CAT_BLOCK_VALUES + 1) * CAT_BLOCK_VALUES);

		if (from % CAT_BLOCK_VALUES == 0 && end - from >= COPY_LEAST * CAT_BLOCK_VALUES)
			return copy_blocks(w, c, r, from / CAT_BLOCK_VALUES, end - from, err);
		rc = add_values(w, c, r, from, stop, err);
		from = stop;
	}
	return rc;
}

int cat_column_writer_append_range(struct cat_column_writer *w, const struct cat_column *c,
				   uint64_t from, uint64_t nr, struct shoal_err *err)
{
	uint64_t end = from + nr, k, first;
	int rc = nr ? cat_column_run(c, from, &k, &first) : 0;

	while (rc == 0 && from < end) {
		struct cat_column_run r;
		uint64_t stop;

		rc = cat_column_run_load(c, k++, &r);
		if (rc < 0)
			return rc;
		stop = u64_min(end, r.end_id);
		if (from < r.first_id || from >= stop)
			return cat_damaged(c->view, c->runs, 0, "runs are not ascending");
		rc = append_of_run(w, c, &r, from - r.first_id, stop - r.first_id, err);
		from = stop;
	}
	return rc;
}

int cat_column_writer_cut(struct cat_column_writer *w, struct shoal_err *err)
{
	int rc = cat_column_writer_finish(w, err);

	w->cut_id = w->id;
	return rc;
}

int cat_column_writer_finish(struct cat_column_writer *w, struct shoal_err *err)
{
	int rc = put_constant(w, true, err);

	return rc < 0 ? rc : close_blocks(w, err);
}
