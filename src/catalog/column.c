#include "catalog/column.h"

#include <errno.h>

#include "base/bits.h"

static int bad(const struct cat_column *c, const char *what)
{
	return cat_damaged(c->view, c->runs, 0, what);
}

static uint64_t nr_runs(const struct cat_column *c)
{
	return c->view->sec[c->runs].len / sizeof(struct cat_run);
}

int cat_column_run_load(const struct cat_column *c, uint64_t k, struct cat_column_run *ret_run)
{
	const struct cat_run *e =
		(const struct cat_run *)cat_need(c->view, c->runs, k * sizeof(*e), sizeof(*e));
	struct cat_column_run r;

	if (!e)
		return -EBADMSG;
	r = (struct cat_column_run){ .first_id = le64_get(e->first_id),
				     .end_id = c->nr,
				     .sum_before = le64_get(e->sum_before),
				     .value = le64_get(e->value),
				     .kind = le32_get(e->kind) };
	if (k + 1 < nr_runs(c)) {
		e = (const struct cat_run *)cat_need(c->view, c->runs, (k + 1) * sizeof(*e),
						     sizeof(*e));
		if (!e)
			return -EBADMSG;
		r.end_id = le64_get(e->first_id);
	}
	if (r.first_id >= r.end_id || r.end_id > c->nr || r.kind > CAT_RUN_BLOCKS)
		return bad(c, "runs are not ascending");
	*ret_run = r;
	return 0;
}

/* The number of the last run with (by_sum ? sum_before : first_id) at most @want. */
static int run_number(const struct cat_column *c, uint64_t want, bool by_sum, uint64_t *ret_k)
{
	uint64_t low = 0, high = nr_runs(c);

	if (high == 0)
		return bad(c, "the column is empty");
	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;
		const struct cat_run *e = (const struct cat_run *)cat_need(
			c->view, c->runs, mid * sizeof(*e), sizeof(*e));

		if (!e)
			return -EBADMSG;
		if (le64_get(by_sum ? e->sum_before : e->first_id) <= want)
			low = mid;
		else
			high = mid;
	}
	*ret_k = low;
	return 0;
}

static int run_find(const struct cat_column *c, uint64_t want, bool by_sum,
		    struct cat_column_run *ret_run)
{
	uint64_t k;
	int rc = run_number(c, want, by_sum, &k);

	return rc < 0 ? rc : cat_column_run_load(c, k, ret_run);
}

int cat_column_run(const struct cat_column *c, uint64_t id, uint64_t *ret_number,
		   uint64_t *ret_first_id)
{
	struct cat_column_run r;
	int rc = run_number(c, id, false, ret_number);

	if (rc == 0)
		rc = cat_column_run_load(c, *ret_number, &r);
	if (rc == 0)
		*ret_first_id = r.first_id;
	return rc;
}

static const struct cat_block *block_entry(const struct cat_column *c,
					   const struct cat_column_run *r, uint64_t k)
{
	uint64_t max = c->view->sec[c->runs + 1].len / sizeof(struct cat_block);

	if (r->value > max || k >= max - r->value) {
		(void)bad(c, "a run has no blocks");
		return NULL;
	}
	return (const struct cat_block *)cat_need(c->view, (enum cat_section_id)(c->runs + 1),
						  (r->value + k) * sizeof(struct cat_block),
						  sizeof(struct cat_block));
}

/* The rest of a sparse block: a number of positions, these, and one value more than there are. */
static int load_sparse(const struct cat_column *c, uint64_t off, struct cat_column_block b,
		       struct cat_column_block *ret_block)
{
	enum cat_section_id data = (enum cat_section_id)(c->runs + 2);
	const uint8_t *p = cat_need(c->view, data, off, 1);

	if (!p)
		return -EBADMSG;
	b.width -= CAT_BLOCK_SPARSE;
	b.nr_positions = p[0];
	if (b.width < 1 || b.width > 64 || b.nr_positions < 1)
		return bad(c, "a sparse block has no values");
	b.data_len = ((b.nr_positions + 1) * b.width + 7) / 8;
	b.position = cat_need(c->view, data, off + 1, b.nr_positions + b.data_len);
	if (!b.position)
		return -EBADMSG;
	b.data = b.position + b.nr_positions;
	for (unsigned i = 1; i < b.nr_positions; i++)
		if (b.position[i] <= b.position[i - 1])
			return bad(c, "positions in a sparse block are not ascending");
	if (b.position[b.nr_positions - 1] >= b.nr)
		return bad(c, "a position is outside its sparse block");
	*ret_block = b;
	return 0;
}

int cat_column_block_load(const struct cat_column *c, const struct cat_column_run *r, uint64_t k,
			  struct cat_column_block *ret_block)
{
	const struct cat_block *e = block_entry(c, r, k);
	uint64_t off_width;
	struct cat_column_block b;

	if (!e)
		return -EBADMSG;
	off_width = le64_get(e->off_width);
	b = (struct cat_column_block){ .first_id = r->first_id + k * CAT_BLOCK_VALUES,
				       .min = le64_get(e->min),
				       .sum_before = le64_get(e->sum_before),
				       .width = (unsigned)(off_width >> 56) };
	b.nr = (unsigned)u64_min(CAT_BLOCK_VALUES, r->end_id - b.first_id);
	if (b.width & CAT_BLOCK_SPARSE && c->view->sparse && c->runs >= CAT_XNRN)
		return load_sparse(c, off_width & bits_mask(56), b, ret_block);
	if (b.width > 64)
		return bad(c, "a block is too wide");
	b.data_len = (b.nr * b.width + 7) / 8;
	if (!b.data_len && (off_width & bits_mask(56)) > c->view->sec[c->runs + 2].len)
		return cat_damaged(c->view, (enum cat_section_id)(c->runs + 2),
				   off_width & bits_mask(56), "points outside the section");
	if (b.data_len) {
		b.data = cat_need(c->view, (enum cat_section_id)(c->runs + 2),
				  off_width & bits_mask(56), b.data_len);
		if (!b.data)
			return -EBADMSG;
	}
	*ret_block = b;
	return 0;
}

/* Number @i of those that are stored. */
static uint64_t stored_value(const struct cat_column_block *b, unsigned i)
{
	return b->min + bits_get(b->data, b->data_len, (uint64_t)i * b->width, b->width);
}

uint64_t cat_column_block_value(const struct cat_column_block *b, unsigned j)
{
	if (!b->data) /* the width is 0 */
		return b->min;
	if (!b->position)
		return stored_value(b, j);
	for (unsigned i = 0; i < b->nr_positions && b->position[i] <= j; i++)
		if (b->position[i] == j)
			return stored_value(b, i + 1);
	return stored_value(b, 0);
}

uint64_t cat_column_block_sum(const struct cat_column_block *b, unsigned nr)
{
	uint64_t sum = 0, most;

	if (!b->data)
		return nr * b->min;
	if (!b->position) {
		for (unsigned j = 0; j < nr; j++)
			sum += stored_value(b, j);
		return sum;
	}
	most = stored_value(b, 0);
	sum = nr * most;
	for (unsigned i = 0; i < b->nr_positions && b->position[i] < nr; i++)
		sum += stored_value(b, i + 1) - most;
	return sum;
}

int cat_column_get(const struct cat_column *c, uint64_t id, uint64_t *ret_value,
		   uint64_t *ret_sum_before)
{
	struct cat_column_block b;
	struct cat_column_run r;
	int rc;

	rc = run_find(c, id, false, &r);
	if (rc < 0)
		return rc;
	if (id < r.first_id || id >= r.end_id)
		return bad(c, "runs are not ascending");
	if (r.kind == CAT_RUN_CONSTANT) {
		*ret_value = r.value;
		if (ret_sum_before)
			*ret_sum_before = r.sum_before + (id - r.first_id) * r.value;
		return 0;
	}
	rc = cat_column_block_load(c, &r, (id - r.first_id) / CAT_BLOCK_VALUES, &b);
	if (rc < 0)
		return rc;
	*ret_value = cat_column_block_value(&b, (unsigned)(id - b.first_id));
	if (ret_sum_before)
		*ret_sum_before = r.sum_before + b.sum_before +
				  cat_column_block_sum(&b, (unsigned)(id - b.first_id));
	return 0;
}

/* The largest value of a run. Blocks that cannot exceed @most are not decoded. */
static int run_largest(const struct cat_column *c, const struct cat_column_run *r, uint64_t *most)
{
	if (r->kind == CAT_RUN_CONSTANT) {
		*most = u64_max(*most, r->value);
		return 0;
	}
	for (uint64_t k = 0; k * CAT_BLOCK_VALUES < r->end_id - r->first_id; k++) {
		struct cat_column_block b;
		int rc = cat_column_block_load(c, r, k, &b);

		if (rc < 0)
			return rc;
		if (b.width < 64 && b.min + bits_mask(b.width) <= *most)
			continue;
		for (unsigned j = 0; j < b.nr; j++)
			*most = u64_max(*most, cat_column_block_value(&b, j));
	}
	return 0;
}

int cat_column_largest(const struct cat_column *c, uint64_t *ret_value)
{
	uint64_t most = 0;
	int rc = 0;

	for (uint64_t k = 0; k < nr_runs(c) && rc == 0; k++) {
		struct cat_column_run r;

		rc = cat_column_run_load(c, k, &r);
		if (rc == 0)
			rc = run_largest(c, &r, &most);
	}
	if (rc == 0)
		*ret_value = most;
	return rc;
}

int cat_column_find_sum(const struct cat_column *c, uint64_t sum, uint64_t *ret_id,
			uint64_t *ret_sum_before)
{
	uint64_t low = 0, high, before;
	struct cat_column_block b;
	struct cat_column_run r;
	int rc;

	rc = run_find(c, sum, true, &r);
	if (rc < 0)
		return rc;
	if (sum < r.sum_before)
		return bad(c, "sums are not ascending");
	if (r.kind == CAT_RUN_CONSTANT) {
		uint64_t i = r.value ? (sum - r.sum_before) / r.value : 0;

		i = u64_min(i, r.end_id - r.first_id - 1);
		*ret_id = r.first_id + i;
		*ret_sum_before = r.sum_before + i * r.value;
		return 0;
	}
	high = (r.end_id - r.first_id + CAT_BLOCK_VALUES - 1) / CAT_BLOCK_VALUES;
	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;
		const struct cat_block *e = block_entry(c, &r, mid);

		if (!e)
			return -EBADMSG;
		if (le64_get(e->sum_before) <= sum - r.sum_before)
			low = mid;
		else
			high = mid;
	}
	rc = cat_column_block_load(c, &r, low, &b);
	if (rc < 0)
		return rc;
	before = r.sum_before + b.sum_before;
	for (unsigned j = 0; j < b.nr; j++) {
		uint64_t value = cat_column_block_value(&b, j);

		if (sum - before < value || j + 1 == b.nr) {
			*ret_id = b.first_id + j;
			break;
		}
		before += value;
	}
	*ret_sum_before = before;
	return 0;
}
