#include "load/audit.h"

#include <stdlib.h>

/* Positions looked up per call. */
#define BLOCK 1024u

/* Two different full-avalanche mixes: an error that one might miss changes the other. */
static uint64_t mix(uint64_t x, uint64_t key)
{
	x += key;
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

#define KEY_0 UINT64_C(0x9e3779b97f4a7c15)
#define KEY_1 UINT64_C(0xd1b54a32d192ed03)

static void add_id(struct load_sums *s, uint64_t id)
{
	s->ids[0] += mix(id, KEY_0);
	s->ids[1] += mix(id, KEY_1);
	s->nr++;
}

static void take_id(struct load_sums *s, uint64_t id)
{
	s->ids[0] -= mix(id, KEY_0);
	s->ids[1] -= mix(id, KEY_1);
	s->nr--;
}

void load_sums_add(struct load_sums *s, uint64_t id, uint64_t position)
{
	add_id(s, id);
	s->order[0] += mix(mix(position, KEY_1) ^ id, KEY_0);
	s->order[1] += mix(mix(position, KEY_0) ^ id, KEY_1);
}

/* Add or subtract the ids at positions from @first up to @end. */
static int sum_positions(const struct shoal_order *order, uint64_t first, uint64_t end, bool add,
			 struct load_sums *s)
{
	uint64_t ids[BLOCK];

	while (first < end) {
		size_t nr = (size_t)u64_min(BLOCK, end - first);
		int rc;

		for (size_t i = 0; i < nr; i++)
			ids[i] = first + i;
		rc = shoal_order_at(order, ids, nr, ids);
		if (rc < 0)
			return rc;
		for (size_t i = 0; i < nr; i++)
			add ? add_id(s, ids[i]) : take_id(s, ids[i]);
		first += nr;
	}
	return 0;
}

/* Add the ids that all ranks read in the last step, which may be short or padded. */
static int sum_step(const struct shoal_order *order, uint64_t step, struct load_sums *s)
{
	const struct shoal_order_spec *spec = shoal_order_spec(order);
	uint64_t *ids = malloc((size_t)spec->batch * sizeof(*ids)); /* per batch */
	int64_t nr = ids ? 0 : -ENOMEM;

	for (uint64_t r = 0; r < spec->nr_ranks && nr >= 0; r++) {
		nr = shoal_order_batch(order, step, r, ids);
		for (int64_t i = 0; i < nr; i++)
			add_id(s, ids[i]);
	}
	free(ids);
	return nr < 0 ? (int)nr : 0;
}

int load_sums_expect(const struct shoal_order *order, uint64_t steps, uint64_t rank,
		     struct load_sums *ret_sums, struct shoal_err *err)
{
	const struct shoal_order_spec *spec = shoal_order_spec(order);
	uint64_t first = spec->consumed, last = first, nr = spec->nr_samples;
	bool whole = first == 0 && steps == shoal_order_steps(order);
	struct load_sums s = { 0 };
	int rc = 0;

	if (steps > 0) /* positions of all steps but the last */
		last += (steps - 1) * spec->nr_ranks * spec->batch;
	if (whole && steps > 0)
		for (uint64_t id = u64_scale(nr, rank, spec->nr_ranks);
		     id < u64_scale(nr, rank + 1, spec->nr_ranks); id++)
			add_id(&s, id);
	else
		rc = sum_positions(order, first + u64_scale(last - first, rank, spec->nr_ranks),
				   first + u64_scale(last - first, rank + 1, spec->nr_ranks), true,
				   &s);
	if (rc == 0 && rank == 0 && whole && steps > 0)
		rc = sum_positions(order, last, nr, false, &s);
	if (rc == 0 && rank == 0 && steps > 0)
		rc = sum_step(order, steps - 1, &s);
	if (rc < 0)
		return err_set_errno(err, rc, "cannot compute the expected epoch");
	*ret_sums = s;
	return 0;
}

int load_sums_expect_own(const struct shoal_order *order, uint64_t steps, uint64_t more,
			 uint64_t rank, struct load_sums *ret_sums, struct shoal_err *err)
{
	const struct shoal_order_spec *spec = shoal_order_spec(order);
	uint64_t *ids = malloc((size_t)spec->batch * sizeof(*ids)); /* per batch */
	struct load_sums s = { 0 };
	int64_t nr = ids ? 0 : -ENOMEM;

	for (uint64_t step = 0; step < steps + (more > 0) && nr >= 0; step++) {
		nr = shoal_order_batch(order, step, rank, ids);
		if (step == steps && nr > (int64_t)more)
			nr = (int64_t)more;
		for (int64_t i = 0; i < nr; i++)
			add_id(&s, ids[i]);
	}
	free(ids);
	if (nr < 0)
		return err_set_errno(err, (int)nr, "cannot compute the expected samples");
	*ret_sums = s;
	return 0;
}
