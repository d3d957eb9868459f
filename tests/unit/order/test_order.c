/*
 * Goal: every sample is read exactly once in an epoch by any number of ranks, in any mode, also
 * when a run is stopped and goes on in another shape; and no spec that cannot be met is accepted.
 */
#include "shoal.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sanitized.h"

#define DIGEST "0123456789abcdef0123456789abcdef"

/* The mode with 5 lanes of 3 positions: see spec_of(). */
#define LANES         0x100u
#define WITH_LANES(m) ((enum shoal_mode)((unsigned)(m) | LANES))

/* Those without a shuffle first, SHOAL_LOCAL last. */
static const enum shoal_mode modes[] = {
	SHOAL_SEQUENTIAL,
	WITH_LANES(SHOAL_SEQUENTIAL),
	SHOAL_GLOBAL,
	SHOAL_FILES,
	SHOAL_WINDOW,
	WITH_LANES(SHOAL_FILES),
	WITH_LANES(SHOAL_WINDOW),
	SHOAL_LOCAL,
};
static const uint64_t rank_counts[] = { 1, 2, 3, 24, 204 };

static void *allocate(uint64_t nr, size_t size)
{
	void *p = calloc(nr, size);

	assert_non_null(p);
	return p;
}

static struct shoal_order *order_of(const struct shoal_order_spec *spec, uint64_t epoch)
{
	struct shoal_order *o = NULL;
	struct shoal_err err = { "" };

	if (shoal_order_new(spec, epoch, &o, &err) < 0)
		fail_msg("%s", err.msg);
	return o;
}

/* A spec of T samples in units of 7, windows of 3 units; WITH_LANES() of a mode has lanes. */
static struct shoal_order_spec spec_of(enum shoal_mode mode, uint64_t nr_samples, uint64_t nr_ranks,
				       uint64_t batch)
{
	return (struct shoal_order_spec){
		.mode = (enum shoal_mode)((unsigned)mode & ~LANES),
		.seed = 42,
		.nr_samples = nr_samples,
		.unit = 7,
		.window = 3,
		.nr_ranks = nr_ranks,
		.batch = batch,
		.lanes = (unsigned)mode & LANES ? 5 : 0,
		.lane_batch = (unsigned)mode & LANES ? 3 : 0,
	};
}

/* Count in @seen what the ranks read from step @first to before @end. Returns how many. */
static uint64_t read_steps(const struct shoal_order *o, uint64_t first, uint64_t end, uint8_t *seen)
{
	const struct shoal_order_spec *s = shoal_order_spec(o);
	uint64_t *ids = allocate(s->batch, sizeof(*ids)), total = 0;

	for (uint64_t step = first; step < end; step++)
		for (uint64_t rank = 0; rank < s->nr_ranks; rank++) {
			int64_t nr = shoal_order_batch(o, step, rank, ids);

			assert_in_range(nr, 0, s->batch);
			if (s->remainder != SHOAL_KEEP)
				assert_int_equal(nr, s->batch);
			for (int64_t i = 0; i < nr; i++) {
				assert_true(ids[i] < s->nr_samples);
				seen[ids[i]]++;
			}
			total += (uint64_t)nr;
		}
	free(ids);
	return total;
}

static void check_each_once(const uint8_t *seen, uint64_t nr_samples, uint64_t left_out)
{
	uint64_t missing = 0;

	for (uint64_t i = 0; i < nr_samples; i++) {
		if (seen[i] > 1)
			fail_msg("sample %" PRIu64 " was read %d times", i, seen[i]);
		missing += !seen[i];
	}
	assert_int_equal(missing, left_out);
}

/* One epoch in one shape, with every remainder. */
static void check_epoch(enum shoal_mode mode, uint64_t nr_samples, uint64_t nr_ranks,
			uint64_t batch)
{
	struct shoal_order_spec spec = spec_of(mode, nr_samples, nr_ranks, batch);
	uint64_t step = nr_ranks * batch, total;
	uint8_t *seen = allocate(nr_samples, 1);
	struct shoal_order *o = order_of(&spec, 1);
	uint64_t steps = shoal_order_steps(o);

	/* All that is left out is less than a step, or what the smallest share cannot fill. */
	assert_int_equal(steps,
			 mode == SHOAL_LOCAL ? nr_samples / nr_ranks / batch : nr_samples / step);
	total = read_steps(o, 0, steps, seen);
	assert_int_equal(total, steps * step);
	check_each_once(seen, nr_samples, nr_samples - total);
	o = shoal_order_free(o);

	memset(seen, 0, nr_samples);
	spec.remainder = SHOAL_KEEP;
	o = order_of(&spec, 1);
	assert_in_range(shoal_order_steps(o), steps, steps + 1);
	assert_int_equal(read_steps(o, 0, shoal_order_steps(o), seen), nr_samples);
	check_each_once(seen, nr_samples, 0);
	o = shoal_order_free(o);

	spec.remainder = SHOAL_PAD;
	if (mode == SHOAL_LOCAL && nr_samples < nr_ranks) {
		free(seen);
		return;
	}
	memset(seen, 0, nr_samples);
	o = order_of(&spec, 1);
	assert_in_range(shoal_order_steps(o), steps, steps + 1);
	assert_int_equal(read_steps(o, 0, shoal_order_steps(o), seen), shoal_order_steps(o) * step);
	for (uint64_t i = 0; i < nr_samples; i++)
		assert_true(seen[i] >= 1 || step > 255 * nr_samples);
	o = shoal_order_free(o);
	free(seen);
}

static void all_ranks_together_read_every_sample_once(void **state)
{
	static const uint64_t sizes[] = { 1, 2, 3, 7, 20, 21, 22, 1000 };
	static const uint64_t batches[] = { 1, 2, 5, 32 };

	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(modes); m++)
		for (size_t n = 0; n < ARRAY_LEN(sizes); n++)
			for (size_t w = 0; w < ARRAY_LEN(rank_counts); w++)
				for (size_t b = 0; b < ARRAY_LEN(batches); b++)
					check_epoch(modes[m], sizes[n], rank_counts[w], batches[b]);
}

static void check_large_epoch(enum shoal_mode mode, uint64_t nr_ranks, uint64_t batch)
{
	struct shoal_order_spec spec = spec_of(mode, SANITIZED ? 764687 : 7646857, nr_ranks, batch);
	uint64_t step = nr_ranks * batch, total;
	uint8_t *seen = allocate(spec.nr_samples, 1);
	struct shoal_order *o;

	spec.unit = 400;
	spec.window = 16;
	o = order_of(&spec, 9);
	total = read_steps(o, 0, shoal_order_steps(o), seen);
	assert_int_equal(total, spec.nr_samples / step * step);
	check_each_once(seen, spec.nr_samples, spec.nr_samples - total);
	shoal_order_free(o);
	free(seen);
}

static void millions_of_samples_are_read_once_too(void **state)
{
	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(modes); m++)
		for (size_t w = 0; w < ARRAY_LEN(rank_counts); w++)
			check_large_epoch(modes[m], rank_counts[w], w % 2 ? 256 : 100);
}

/* ---- Resume ----------------------------------------------------------------------------- */

/* Three shapes one after the other: together they read an epoch, each sample once. */
static void check_resume(enum shoal_mode mode, uint64_t nr_samples, const uint64_t ranks[3],
			 const uint64_t batches[3])
{
	struct shoal_order_spec spec = spec_of(mode, nr_samples, ranks[0], batches[0]);
	struct shoal_order *o;
	struct shoal_order_state saved;
	uint8_t *seen = allocate(nr_samples, 1);
	uint64_t total = 0;

	spec.remainder = SHOAL_KEEP;
	spec.seed = 42;
	o = order_of(&spec, 5);
	shoal_order_save(o, 0, DIGEST, &saved);
	shoal_order_free(o);
	spec.seed = 99; /* the state's is used */
	for (unsigned i = 0; i < 3; i++) {
		struct shoal_err err = { "" };
		uint64_t steps;

		spec.nr_ranks = ranks[i];
		spec.batch = batches[i];
		o = NULL;
		if (shoal_order_resume(&spec, &saved, DIGEST, &o, &err) < 0)
			fail_msg("%s", err.msg);
		assert_int_equal(shoal_order_spec(o)->consumed, total);
		assert_int_equal(shoal_order_spec(o)->seed, 42);
		steps = i < 2 ? shoal_order_steps(o) / 2 : shoal_order_steps(o);
		total += read_steps(o, 0, steps, seen);
		shoal_order_save(o, steps, DIGEST, &saved);
		assert_int_equal(saved.consumed, total);
		assert_int_equal(saved.epoch, 5);
		o = shoal_order_free(o);
		check_each_once(seen, nr_samples, nr_samples - total);
	}
	assert_int_equal(total, nr_samples);
	free(seen);
}

static void a_run_goes_on_with_other_ranks_and_batches(void **state)
{
	static const uint64_t shapes[][3] = { { 1, 2, 3 }, { 24, 3, 1 },   { 204, 24, 3 },
					      { 4, 4, 4 }, { 3, 204, 24 }, { 1, 1, 1 } };
	static const uint64_t sizes[] = { 1, 2, 7, 1000, 5003, 20011 };

	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(modes); m++)
		for (size_t n = 0; n < ARRAY_LEN(sizes); n++)
			for (size_t r = 0; r < ARRAY_LEN(shapes); r++)
				for (size_t b = 0; b < ARRAY_LEN(shapes); b++) {
					const uint64_t same[] = { shapes[r][0], shapes[r][0],
								  shapes[r][0] };

					check_resume(modes[m], sizes[n],
						     modes[m] == SHOAL_LOCAL ? same : shapes[r],
						     shapes[b]);
				}
}

static void resuming_in_the_same_shape_changes_nothing(void **state)
{
	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		struct shoal_order_spec spec = spec_of(modes[m], 5000, 6, 8);
		struct shoal_order *whole = order_of(&spec, 3), *rest = NULL;
		struct shoal_order_state saved;
		uint64_t a[8], b[8];

		shoal_order_save(whole, 40, DIGEST, &saved);
		assert_int_equal(shoal_order_resume(&spec, &saved, DIGEST, &rest, NULL), 0);
		assert_int_equal(shoal_order_steps(rest), shoal_order_steps(whole) - 40);
		for (uint64_t step = 0; step < shoal_order_steps(rest); step++)
			for (uint64_t rank = 0; rank < 6; rank++) {
				assert_int_equal(shoal_order_batch(whole, step + 40, rank, a), 8);
				assert_int_equal(shoal_order_batch(rest, step, rank, b), 8);
				assert_memory_equal(a, b, sizeof(a));
			}
		/* What came before is where it was. */
		for (uint64_t p = 0; p < 5000; p++) {
			assert_int_equal(shoal_order_at(whole, &p, 1, a), 0);
			assert_int_equal(shoal_order_at(rest, &p, 1, b), 0);
			assert_int_equal(a[0], b[0]);
		}
		shoal_order_free(whole);
		shoal_order_free(rest);
	}
}

static void a_finished_epoch_has_no_steps_left(void **state)
{
	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(modes); m++)
		for (int remainder = SHOAL_DROP; remainder <= SHOAL_KEEP; remainder++) {
			struct shoal_order_spec spec = spec_of(modes[m], 1000, 3, 8);
			struct shoal_order *o, *next = NULL;
			struct shoal_order_state saved;

			spec.remainder = (enum shoal_remainder)remainder;
			o = order_of(&spec, 0);
			shoal_order_save(o, UINT64_MAX, DIGEST, &saved);
			assert_int_equal(saved.consumed, remainder == SHOAL_DROP ? 984 : 1000);
			assert_int_equal(shoal_order_resume(&spec, &saved, DIGEST, &next, NULL), 0);
			assert_int_equal(shoal_order_steps(next), 0);
			shoal_order_set_epoch(next, 1);
			assert_int_equal(shoal_order_spec(next)->consumed, 0);
			assert_int_equal(shoal_order_steps(next), shoal_order_steps(o));
			shoal_order_free(next);
			shoal_order_free(o);
		}
}

static void a_state_is_refused_where_it_does_not_belong(void **state)
{
	struct shoal_order_spec local = spec_of(SHOAL_LOCAL, 1000, 4, 8), other = local;
	struct shoal_order_spec global = spec_of(SHOAL_GLOBAL, 1000, 4, 8);
	struct shoal_order *o = order_of(&local, 0), *untouched = NULL;
	struct shoal_order_state saved;
	struct shoal_err err = { "" };

	(void)state;
	shoal_order_save(o, 5, DIGEST, &saved);
	shoal_order_free(o);
	assert_int_equal(saved.nr_ranks, 4);
	assert_int_equal(shoal_order_resume(&local, &saved, "ff", &untouched, &err), -ESTALE);
	assert_string_equal(err.msg, "the state belongs to the catalog with digest " DIGEST
				     ", not ff: open that one, or start a new run");
	assert_int_equal(shoal_order_resume(&local, &saved, DIGEST "0", &untouched, &err), -ESTALE);
	other.nr_ranks = 2; /* divides what was consumed: the numbers alone do not tell */
	assert_int_equal(shoal_order_resume(&other, &saved, DIGEST, &untouched, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "saved by 4 ranks"));
	assert_non_null(strstr(err.msg, "not 2"));
	assert_int_equal(shoal_order_resume(&global, &saved, DIGEST, &untouched, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "saved in local mode: resume it in local mode"));
	saved.nr_ranks = 0;
	assert_int_equal(shoal_order_resume(&local, &saved, DIGEST, &untouched, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "not saved in local mode"));
	o = order_of(&global, 0);
	shoal_order_save(o, 5, DIGEST, &saved);
	shoal_order_free(o);
	saved.consumed = 1001;
	assert_int_equal(shoal_order_resume(&global, &saved, DIGEST, &untouched, &err), -EINVAL);
	assert_null(untouched);
}

static void a_state_is_refused_in_another_order(void **state)
{
	struct shoal_order_spec window = spec_of(SHOAL_WINDOW, 1000, 4, 8), other;
	struct shoal_order *o, *untouched = NULL;
	struct shoal_order_state saved;
	struct shoal_err err = { "" };

	(void)state;
	window.unit = 5;
	window.window = 7;
	o = order_of(&window, 3);
	shoal_order_save(o, 5, DIGEST, &saved);
	shoal_order_free(o);
	for (int change = 0; change < 6; change++) {
		other = window;
		other.unit += change == 0;
		other.window += change == 1;
		other.frozen = change == 2;
		other.mode = change == 3 ? SHOAL_FILES : SHOAL_WINDOW;
		other.nr_samples += change == 4;
		other.lanes = change == 5 ? 2 : 0;
		assert_int_equal(shoal_order_resume(&other, &saved, DIGEST, &untouched, &err),
				 -ENOTSUP);
		assert_non_null(strstr(err.msg, "another mode, unit, window, lanes"));
	}
	other = window; /* what does not change the meaning of a position may change */
	other.nr_ranks = 3;
	other.batch = 10;
	other.seed = 1;
	other.remainder = SHOAL_PAD;
	assert_int_equal(shoal_order_resume(&other, &saved, DIGEST, &untouched, &err), 0);
	shoal_order_free(untouched);
}

/* ---- Remainders ------------------------------------------------------------------------- */

static void padding_wraps_round_to_the_first_positions(void **state)
{
	static const uint64_t sizes[] = { 1, 3, 10, 1000 };

	(void)state;
	for (size_t n = 0; n < ARRAY_LEN(sizes); n++)
		for (size_t m = 0; m < ARRAY_LEN(modes) - 1; m++) {
			struct shoal_order_spec spec = spec_of(modes[m], sizes[n], 3, 7);
			uint64_t ids[7], want, p = 0;
			struct shoal_order *o;

			spec.remainder = SHOAL_PAD;
			o = order_of(&spec, 0);
			for (uint64_t step = 0; step < shoal_order_steps(o); step++)
				for (uint64_t rank = 0; rank < 3; rank++) {
					assert_int_equal(shoal_order_batch(o, step, rank, ids), 7);
					for (size_t i = 0; i < 7; i++, p++) {
						uint64_t at = p % sizes[n];

						assert_int_equal(shoal_order_at(o, &at, 1, &want),
								 0);
						assert_int_equal(ids[i], want);
					}
				}
			assert_in_range(p, sizes[n], sizes[n] + 20);
			shoal_order_free(o);
		}
}

static void padding_of_a_share_stays_in_the_share(void **state)
{
	struct shoal_order_spec spec = spec_of(SHOAL_LOCAL, 11, 3, 4); /* 3, 4 and 4 samples */
	uint64_t ids[4];
	struct shoal_order *o;

	(void)state;
	spec.remainder = SHOAL_PAD;
	o = order_of(&spec, 0);
	assert_int_equal(shoal_order_steps(o), 1);
	assert_int_equal(shoal_order_batch(o, 0, 0, ids), 4);
	assert_int_equal(ids[3], ids[0]);
	assert_int_equal(ids[0] + ids[1] + ids[2], 3);
	assert_int_equal(shoal_order_batch(o, 0, 1, ids), 4);
	assert_int_equal(ids[0] + ids[1] + ids[2] + ids[3], 3 + 4 + 5 + 6);
	shoal_order_free(o);
}

static void keeping_gives_short_and_empty_batches_at_the_end(void **state)
{
	struct shoal_order_spec spec = spec_of(SHOAL_GLOBAL, 53, 4, 5);
	static const int64_t want[3][4] = { { 5, 5, 5, 5 }, { 5, 5, 5, 5 }, { 5, 5, 3, 0 } };
	uint64_t ids[5];
	struct shoal_order *o;

	(void)state;
	spec.remainder = SHOAL_KEEP;
	o = order_of(&spec, 0);
	assert_int_equal(shoal_order_steps(o), 3);
	for (uint64_t step = 0; step < 3; step++)
		for (uint64_t rank = 0; rank < 4; rank++)
			assert_int_equal(shoal_order_batch(o, step, rank, ids), want[step][rank]);
	shoal_order_free(o);
	spec.mode = SHOAL_LOCAL; /* shares of 13, 13, 13 and 14 */
	o = order_of(&spec, 0);
	assert_int_equal(shoal_order_steps(o), 3);
	for (uint64_t rank = 0; rank < 4; rank++)
		assert_int_equal(shoal_order_batch(o, 2, rank, ids), rank == 3 ? 4 : 3);
	shoal_order_free(o);
}

static void dropping_more_than_there_is_leaves_no_steps(void **state)
{
	struct shoal_order_spec spec = spec_of(SHOAL_GLOBAL, 19, 4, 5);
	struct shoal_order *o = order_of(&spec, 0);
	uint64_t ids[5];

	(void)state;
	assert_int_equal(shoal_order_steps(o), 0);
	assert_int_equal(shoal_order_batch(o, 0, 0, ids), -ERANGE);
	shoal_order_free(o);
}

/* ---- Positions -------------------------------------------------------------------------- */

/* Random access, walking and the inverse, in one shape. */
static void check_positions(enum shoal_mode mode, uint64_t nr_samples, uint64_t nr_ranks,
			    uint64_t batch, uint64_t consumed)
{
	struct shoal_order_spec spec = spec_of(mode, nr_samples, nr_ranks, batch);
	uint64_t *at = allocate(nr_samples, sizeof(*at)), *ids = allocate(batch, sizeof(*ids));
	uint64_t p;
	struct shoal_order *o;

	spec.consumed = consumed;
	o = order_of(&spec, 2);
	for (p = 0; p < nr_samples; p++)
		at[p] = p;
	assert_int_equal(shoal_order_at(o, at, nr_samples, at), 0);
	p = consumed;
	for (uint64_t step = 0; step < shoal_order_steps(o); step++)
		for (uint64_t rank = 0; rank < nr_ranks; rank++, p += batch) {
			assert_int_equal(shoal_order_batch(o, step, rank, ids), batch);
			assert_memory_equal(ids, at + p, batch * sizeof(*ids));
		}
	for (p = 0; p < nr_samples; p++) {
		uint64_t one, back;
		uint64_t backwards = nr_samples - 1 - p;

		assert_int_equal(shoal_order_at(o, &backwards, 1, &one), 0);
		assert_int_equal(one, at[backwards]);
		assert_int_equal(shoal_order_position(o, at[p], &back), 0);
		assert_int_equal(back, p);
	}
	shoal_order_free(o);
	free(ids);
	free(at);
}

static void a_position_is_the_same_by_walking_by_asking_and_by_the_inverse(void **state)
{
	static const uint64_t sizes[] = { 1, 2, 3, 6, 7, 8, 20, 21, 22, 41, 42, 43, 700, 1003 };
	static const uint64_t ranks[] = { 1, 2, 3, 24, 204 };

	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(modes); m++)
		for (size_t n = 0; n < ARRAY_LEN(sizes); n++)
			for (size_t w = 0; w < ARRAY_LEN(ranks); w++) {
				uint64_t share = sizes[n] / ranks[w] * ranks[w];

				check_positions(modes[m], sizes[n], ranks[w], 1, 0);
				check_positions(modes[m], sizes[n], ranks[w], 4, 0);
				check_positions(modes[m], sizes[n], ranks[w], 4, sizes[n]);
				check_positions(modes[m], sizes[n], ranks[w], 4,
						share / 2 / ranks[w] * ranks[w]);
			}
	for (size_t m = 0; m < ARRAY_LEN(modes); m++)
		check_positions(modes[m], 40009, 3, 100, 999);
}

/* Also where T is too large to try them all. */
static void positions_invert_at_the_largest_sizes(void **state)
{
	static const uint64_t sizes[] = { 7646857, UINT64_C(1000000000000),
					  SHOAL_ORDER_SAMPLES_MAX - 1, SHOAL_ORDER_SAMPLES_MAX };
	static const uint64_t units[] = { 1, 7, 4096, UINT64_C(1) << 40 };

	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(modes); m++)
		for (size_t n = 0; n < ARRAY_LEN(sizes); n++)
			for (size_t u = 0; u < ARRAY_LEN(units); u++) {
				struct shoal_order_spec spec = spec_of(modes[m], sizes[n], 204, 32);
				struct shoal_order *o;

				spec.unit = units[u];
				o = order_of(&spec, u);
				for (uint64_t i = 0; i < 60; i++) {
					uint64_t id, back;
					uint64_t p = i < 20   ? i
						     : i < 40 ? sizes[n] - 1 - (i - 20)
							      : sizes[n] / 61 * i;

					assert_int_equal(shoal_order_at(o, &p, 1, &id), 0);
					assert_true(id < sizes[n]);
					assert_int_equal(shoal_order_position(o, id, &back), 0);
					assert_int_equal(back, p);
				}
				shoal_order_free(o);
			}
}

static void positions_past_the_end_are_refused(void **state)
{
	struct shoal_order_spec spec = spec_of(SHOAL_GLOBAL, 1000, 4, 8);
	uint64_t positions[2] = { 5, 1000 }, ids[8] = { 77, 77 }, p = 77;
	struct shoal_order *o = order_of(&spec, 0);

	(void)state;
	assert_int_equal(shoal_order_at(o, positions, 2, ids), -ERANGE);
	assert_int_equal(ids[0], 77);
	assert_int_equal(shoal_order_at(o, positions, 1, ids), 0);
	assert_int_equal(shoal_order_position(o, 1000, &p), -ERANGE);
	assert_int_equal(p, 77);
	assert_int_equal(shoal_order_position(o, 999, &p), 0);
	assert_int_equal(shoal_order_steps(o), 31);
	assert_int_equal(shoal_order_batch(o, 30, 3, ids), 8);
	assert_int_equal(shoal_order_batch(o, 31, 0, ids), -ERANGE);
	assert_int_equal(shoal_order_batch(o, 30, 4, ids), -ERANGE);
	shoal_order_free(o);
}

/* ---- Modes ------------------------------------------------------------------------------ */

static uint64_t *whole_epoch(const struct shoal_order_spec *spec, uint64_t epoch)
{
	uint64_t *at = allocate(spec->nr_samples, sizeof(*at));
	struct shoal_order *o = order_of(spec, epoch);

	for (uint64_t p = 0; p < spec->nr_samples; p++)
		at[p] = p;
	assert_int_equal(shoal_order_at(o, at, spec->nr_samples, at), 0);
	shoal_order_free(o);
	return at;
}

static void epochs_and_seeds_differ_and_frozen_ones_do_not(void **state)
{
	(void)state;
	for (size_t m = 2; m < ARRAY_LEN(modes); m++) {
		struct shoal_order_spec spec = spec_of(modes[m], 700, 3, 8);
		uint64_t *first = whole_epoch(&spec, 0), *second = whole_epoch(&spec, 1);
		uint64_t *other, *frozen;

		spec.seed++;
		other = whole_epoch(&spec, 0);
		spec.seed--;
		spec.frozen = true;
		frozen = whole_epoch(&spec, 1);
		assert_memory_not_equal(first, second, 700 * sizeof(*first));
		assert_memory_not_equal(first, other, 700 * sizeof(*first));
		assert_memory_not_equal(second, other, 700 * sizeof(*first));
		assert_memory_equal(first, frozen, 700 * sizeof(*first));
		free(first);
		free(second);
		free(other);
		free(frozen);
	}
}

static void set_epoch_is_as_good_as_new(void **state)
{
	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		struct shoal_order_spec spec = spec_of(modes[m], 700, 3, 8);
		uint64_t *want = whole_epoch(&spec, 8), id;
		struct shoal_order *o;

		spec.consumed = 30;
		o = order_of(&spec, 7);
		shoal_order_set_epoch(o, 8);
		for (uint64_t p = 0; p < 700; p++) {
			assert_int_equal(shoal_order_at(o, &p, 1, &id), 0);
			assert_int_equal(id, want[p]);
		}
		assert_int_equal(shoal_order_steps(o), 29);
		shoal_order_free(o);
		free(want);
	}
}

static void files_keeps_the_samples_of_a_unit_together(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 120; n++) {
		struct shoal_order_spec spec = spec_of(SHOAL_FILES, n, 3, 8);
		uint64_t *at = whole_epoch(&spec, n), moved = 0;

		for (uint64_t p = 0; p < n; p++) {
			if (at[p] % 7 == 0)
				moved += p % 7 != 0 || at[p] != p;
			else
				assert_int_equal(at[p], at[p - 1] + 1);
		}
		if (n > 70)
			assert_true(moved > 3);
		free(at);
	}
}

/* A window holds exactly the samples of its units, as files mode has them, in another order. */
static void window_mixes_only_inside_a_window(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 300; n++) {
		struct shoal_order_spec spec = spec_of(SHOAL_WINDOW, n, 3, 8);
		uint64_t *mixed = whole_epoch(&spec, n), *files, moved = 0, begin = 0;

		spec.mode = SHOAL_FILES;
		files = whole_epoch(&spec, n);
		for (uint64_t p = 0, units = 0; p < n; p++) {
			bool ends = p + 1 == n || files[p + 1] % 7 == 0;

			units += ends;
			if (p + 1 < n && (!ends || units % 3 != 0))
				continue;
			/* [begin, p] is a window: the same set in both. */
			for (uint64_t i = begin; i <= p; i++) {
				uint64_t found = 0;

				for (uint64_t k = begin; k <= p; k++)
					found += mixed[k] == files[i];
				assert_int_equal(found, 1);
				moved += mixed[i] != files[i];
			}
			begin = p + 1;
		}
		if (n > 30)
			assert_true(moved > n / 2);
		free(mixed);
		free(files);
	}
}

/* Windows of more samples than a table takes, and one window of everything. */
static void a_window_may_be_large_or_all(void **state)
{
	struct shoal_order_spec spec = spec_of(SHOAL_WINDOW, 100003, 3, 8);

	(void)state;
	spec.unit = 1000;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *seen = allocate(100003, 1);
		uint64_t *at;

		spec.window = i ? UINT64_C(1) << 50 : 10;
		at = whole_epoch(&spec, 0);
		for (uint64_t p = 0; p < 100003; p++)
			seen[at[p]]++;
		check_each_once(seen, 100003, 0);
		free(at);
		free(seen);
	}
}

static void a_rank_reads_only_its_own_share_in_local_mode(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 60; n++)
		for (uint64_t w = 1; w <= 9; w++) {
			struct shoal_order_spec spec = spec_of(SHOAL_LOCAL, n, w, 4);
			struct shoal_order *o;

			spec.remainder = SHOAL_KEEP;
			o = order_of(&spec, 0);
			for (uint64_t step = 0; step < shoal_order_steps(o); step++)
				for (uint64_t r = 0; r < w; r++) {
					uint64_t ids[4];
					int64_t nr = shoal_order_batch(o, step, r, ids);

					for (int64_t i = 0; i < nr; i++) {
						assert_true(ids[i] >= r * n / w);
						assert_true(ids[i] < (r + 1) * n / w);
					}
				}
			shoal_order_free(o);
		}
}

/* Set in @owner the rank that reads each unit of 7; a unit of two ranks counts as cut. */
static uint64_t count_cut_units(const struct shoal_order *o, uint8_t *owner)
{
	const struct shoal_order_spec *spec = shoal_order_spec(o);
	uint64_t ids[16], cut = 0;

	for (uint64_t step = 0; step < shoal_order_steps(o); step++)
		for (uint64_t rank = 0; rank < spec->nr_ranks; rank++) {
			int64_t nr = shoal_order_batch(o, step, rank, ids);

			assert_in_range(nr, 0, 16);
			for (int64_t i = 0; i < nr; i++) {
				uint8_t *at = &owner[ids[i] / spec->unit];

				cut += *at && *at != rank + 1;
				*at = *at ? *at : (uint8_t)(rank + 1);
			}
		}
	return cut;
}

static void with_a_lane_for_each_rank_a_rank_has_units_of_its_own(void **state)
{
	static const enum shoal_mode with[] = { SHOAL_FILES, SHOAL_WINDOW };

	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(with); m++)
		for (unsigned fewer = 1; fewer <= 4; fewer *= 2) {
			/* 4 lanes of whole units and whole batches: 224 samples each. */
			struct shoal_order_spec spec = spec_of(with[m], 896, 4 / fewer, 16);
			uint8_t owner[128] = { 0 };
			struct shoal_order *o;

			spec.lanes = 4; /* also for ranks of several lanes each */
			o = order_of(&spec, 2);
			assert_int_equal(count_cut_units(o, owner), 0);
			shoal_order_free(o);
			if (fewer == 4)
				continue;
			spec.lanes = 1;
			memset(owner, 0, sizeof(owner));
			o = order_of(&spec, 2);
			assert_in_range(count_cut_units(o, owner), 100, 896);
			shoal_order_free(o);
		}
}

static void a_state_keeps_its_lanes(void **state)
{
	struct shoal_order_spec spec = spec_of(WITH_LANES(SHOAL_WINDOW), 1000, 4, 8);
	struct shoal_order *before = order_of(&spec, 3), *after = NULL;
	struct shoal_order_state saved;
	struct shoal_err err = { "" };
	uint64_t p = 40, q = 40;

	(void)state;
	shoal_order_save(before, 1, DIGEST, &saved);
	spec.lanes = spec.lane_batch = 0;
	spec.nr_ranks = 3;
	spec.batch = 5;
	assert_int_equal(shoal_order_resume(&spec, &saved, DIGEST, &after, &err), 0);
	assert_int_equal(shoal_order_spec(after)->lanes, 5);
	assert_int_equal(shoal_order_spec(after)->lane_batch, 3);
	assert_int_equal(shoal_order_at(before, &p, 1, &p) + shoal_order_at(after, &q, 1, &q), 0);
	assert_int_equal(p, q);
	shoal_order_free(before);
	shoal_order_free(after);
}

static void defaults_are_put_into_the_spec(void **state)
{
	struct shoal_order_spec spec = spec_of(SHOAL_WINDOW, 1000, 2, 8);
	struct shoal_order *o;

	(void)state;
	spec.unit = spec.window = 0;
	o = order_of(&spec, 0);
	assert_int_equal(shoal_order_spec(o)->unit, 1);
	assert_int_equal(shoal_order_spec(o)->window, 16);
	assert_null(shoal_order_free(o));
	assert_null(shoal_order_free(NULL));
}

/* ---- Frozen ----------------------------------------------------------------------------- */

static void the_order_of_each_mode_never_changes(void **state)
{
	static const struct {
		enum shoal_mode mode;
		uint64_t nr_samples, unit, window;
		uint64_t
			ids[6]; /* step 1 of rank 1 of 3, batch 3, then positions 0, T / 2, T - 1 */
	} row[] = {
		{ WITH_LANES(SHOAL_SEQUENTIAL), 1000, 0, 0, { 800, 801, 802, 0, 301, 999 } },
		{ WITH_LANES(SHOAL_FILES), 1000, 7, 0, { 115, 116, 117, 329, 826, 342 } },
		{ WITH_LANES(SHOAL_WINDOW), 1000, 7, 5, { 118, 116, 117, 323, 228, 762 } },
		{ WITH_LANES(SHOAL_WINDOW),
		  7646857,
		  365,
		  100,
		  { 5279300, 5912799, 3440031, 3480124, 3593242, 1798889 } },
		{ SHOAL_SEQUENTIAL, 1000, 0, 0, { 12, 13, 14, 0, 500, 999 } },
		{ SHOAL_GLOBAL, 1000, 0, 0, { 727, 122, 236, 157, 181, 954 } },
		{ SHOAL_GLOBAL,
		  7646857,
		  0,
		  0,
		  { 3642660, 5517682, 2942028, 5085225, 7367351, 5464507 } },
		{ SHOAL_FILES, 1000, 7, 0, { 54, 55, 322, 329, 493, 342 } },
		{ SHOAL_FILES,
		  7646857,
		  365,
		  0,
		  { 1604552, 1604553, 1604554, 1604540, 818018, 7148524 } },
		{ SHOAL_WINDOW, 1000, 7, 5, { 779, 378, 54, 325, 703, 758 } },
		{ SHOAL_WINDOW,
		  7646857,
		  365,
		  100,
		  { 7269371, 352430, 4651301, 5392262, 5556057, 5641644 } },
		{ SHOAL_LOCAL, 1000, 0, 0, { 392, 594, 452, 322, 486, 717 } },
		{ SHOAL_LOCAL,
		  7646857,
		  0,
		  0,
		  { 4315806, 3136238, 3597039, 1769866, 3616988, 6306255 } },

	};
	const char *print = getenv("SHOAL_PRINT_GOLDEN"); /* to renew them, which nobody should */

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_order_spec spec = spec_of(row[i].mode, row[i].nr_samples, 3, 3);
		uint64_t got[6];
		struct shoal_order *o;

		spec.unit = row[i].unit;
		spec.window = row[i].window;
		o = order_of(&spec, 6);
		got[3] = 0;
		got[4] = spec.nr_samples / 2;
		got[5] = spec.nr_samples - 1;
		assert_int_equal(shoal_order_at(o, got + 3, 3, got + 3), 0);
		assert_int_equal(shoal_order_batch(o, 1, 1, got), 3);
		if (print)
			printf("\t%d, %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", { %" PRIu64
			       ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
			       " } },\n",
			       row[i].mode, row[i].nr_samples, row[i].unit, row[i].window, got[0],
			       got[1], got[2], got[3], got[4], got[5]);
		else
			assert_memory_equal(got, row[i].ids, sizeof(got));
		shoal_order_free(o);
	}
}

/* ---- Errors ----------------------------------------------------------------------------- */

static void a_spec_that_cannot_be_met_is_refused_with_words(void **state)
{
	static const uint64_t max = SHOAL_ORDER_SAMPLES_MAX;
	const struct {
		struct shoal_order_spec spec;
		const char *says; /* NULL: it can be met after all */
	} row[] = {
		{ { .mode = SHOAL_GLOBAL, .nr_samples = 9, .nr_ranks = 1, .batch = 1, .lanes = 2 },
		  "only the modes sequential, files and window" },
		{ { .mode = SHOAL_FILES,
		    .nr_samples = 9,
		    .nr_ranks = 1,
		    .batch = 1,
		    .lanes = UINT64_MAX,
		    .lane_batch = 2 },
		  "use fewer lanes" },
		{ { .mode = SHOAL_FILES, .nr_samples = 9, .nr_ranks = 1, .batch = 1, .lanes = 99 },
		  NULL },
		{ spec_of(SHOAL_GLOBAL, 0, 1, 1), "no samples to order" },
		{ spec_of(SHOAL_GLOBAL, max, 1, 1), NULL },
		{ spec_of(SHOAL_GLOBAL, max + 1, 1, 1), "281474976710657 samples are too many" },
		{ spec_of(SHOAL_GLOBAL, 9, 0, 1), "nr_ranks must be 1 or more" },
		{ spec_of(SHOAL_GLOBAL, 9, 1, 0), "batch must be 1 or more" },
		{ spec_of(SHOAL_GLOBAL, 9, 1 << 24, 1 << 24), NULL },
		{ spec_of(SHOAL_GLOBAL, 9, (1 << 24) + 1, 1 << 24), "use a smaller batch" },
		{ spec_of(SHOAL_GLOBAL, 9, UINT64_C(1) << 32, UINT64_C(1) << 32), "in a step" },
		{ { .mode = SHOAL_GLOBAL,
		    .nr_samples = 9,
		    .nr_ranks = 1,
		    .batch = 1,
		    .consumed = 9 },
		  NULL },
		{ { .mode = SHOAL_GLOBAL,
		    .nr_samples = 9,
		    .nr_ranks = 1,
		    .batch = 1,
		    .consumed = 10 },
		  "10 positions are consumed, but there are only 9 samples" },
		{ spec_of((enum shoal_mode)5, 9, 1, 1), "unknown mode 5" },
		{ { .remainder = (enum shoal_remainder)3,
		    .nr_samples = 9,
		    .nr_ranks = 1,
		    .batch = 1 },
		  "unknown remainder 3" },
		{ { .mode = SHOAL_WINDOW,
		    .nr_samples = 9,
		    .nr_ranks = 1,
		    .batch = 1,
		    .unit = UINT64_C(1) << 32,
		    .window = UINT64_C(1) << 32 },
		  "use a smaller window" },
		{ { .mode = SHOAL_WINDOW,
		    .nr_samples = 9,
		    .nr_ranks = 1,
		    .batch = 1,
		    .unit = UINT64_C(1) << 32,
		    .window = UINT32_MAX },
		  NULL },
		{ { .mode = SHOAL_FILES,
		    .nr_samples = 9,
		    .nr_ranks = 1,
		    .batch = 1,
		    .unit = UINT64_MAX },
		  NULL },
		{ { .mode = SHOAL_LOCAL,
		    .nr_samples = 9,
		    .nr_ranks = 2,
		    .batch = 1,
		    .consumed = 3 },
		  "cannot be divided equally among 2 ranks" },
		{ { .mode = SHOAL_LOCAL,
		    .nr_samples = 9,
		    .nr_ranks = 2,
		    .batch = 1,
		    .consumed = 9 },
		  NULL },
		{ { .mode = SHOAL_LOCAL,
		    .remainder = SHOAL_PAD,
		    .nr_samples = 9,
		    .nr_ranks = 10,
		    .batch = 1 },
		  "with nothing to pad with" },
		{ { .mode = SHOAL_LOCAL,
		    .remainder = SHOAL_KEEP,
		    .nr_samples = 9,
		    .nr_ranks = 10,
		    .batch = 1 },
		  NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_order *o = NULL;
		struct shoal_err err = { "" };
		int rc = shoal_order_new(&row[i].spec, 0, &o, &err);

		if (!row[i].says) {
			assert_int_equal(rc, 0);
			assert_string_equal(err.msg, "");
			shoal_order_free(o);
			continue;
		}
		assert_int_equal(rc, -EINVAL);
		assert_null(o);
		if (!strstr(err.msg, row[i].says))
			fail_msg("row %zu says: %s", i, err.msg);
		assert_int_equal(shoal_order_new(&row[i].spec, 0, &o, NULL), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ranks_together_read_every_sample_once),
		cmocka_unit_test(millions_of_samples_are_read_once_too),
		cmocka_unit_test(a_run_goes_on_with_other_ranks_and_batches),
		cmocka_unit_test(resuming_in_the_same_shape_changes_nothing),
		cmocka_unit_test(a_finished_epoch_has_no_steps_left),
		cmocka_unit_test(a_state_is_refused_where_it_does_not_belong),
		cmocka_unit_test(a_state_is_refused_in_another_order),
		cmocka_unit_test(padding_wraps_round_to_the_first_positions),
		cmocka_unit_test(padding_of_a_share_stays_in_the_share),
		cmocka_unit_test(keeping_gives_short_and_empty_batches_at_the_end),
		cmocka_unit_test(dropping_more_than_there_is_leaves_no_steps),
		cmocka_unit_test(a_position_is_the_same_by_walking_by_asking_and_by_the_inverse),
		cmocka_unit_test(positions_invert_at_the_largest_sizes),
		cmocka_unit_test(positions_past_the_end_are_refused),
		cmocka_unit_test(epochs_and_seeds_differ_and_frozen_ones_do_not),
		cmocka_unit_test(set_epoch_is_as_good_as_new),
		cmocka_unit_test(files_keeps_the_samples_of_a_unit_together),
		cmocka_unit_test(window_mixes_only_inside_a_window),
		cmocka_unit_test(a_window_may_be_large_or_all),
		cmocka_unit_test(a_rank_reads_only_its_own_share_in_local_mode),
		cmocka_unit_test(with_a_lane_for_each_rank_a_rank_has_units_of_its_own),
		cmocka_unit_test(a_state_keeps_its_lanes),
		cmocka_unit_test(defaults_are_put_into_the_spec),
		cmocka_unit_test(the_order_of_each_mode_never_changes),
		cmocka_unit_test(a_spec_that_cannot_be_met_is_refused_with_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
