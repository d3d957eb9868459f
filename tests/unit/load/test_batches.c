/*
 * Goal: batches by length hold every sample once, are of similar lengths and within their tokens,
 * differ from epoch to epoch, and go on after any step with any number of ranks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"

#define DIGEST "0123456789abcdef0011223344556677"

struct lengths {
	uint64_t nr;
	uint32_t *value;
	struct shoal_column *column;
};

/* A sorted column of lengths: many short ones, few long ones. */
static struct lengths make_lengths(uint64_t nr, uint32_t longest)
{
	struct lengths l = { .nr = nr, .value = allocate(nr, sizeof(uint32_t)) };
	struct shoal_column_options o = {
		.name = "length", .type = SHOAL_U32, .digest = DIGEST, .nr_samples = nr, .nr = nr
	};
	struct shoal_column_writer *w = NULL;
	struct shoal_column *plain = NULL;
	struct shoal_err err = { "" };

	for (uint64_t i = 0; i < nr; i++)
		l.value[i] =
			1 + (uint32_t)(random_below(longest) * random_below(longest) / longest);
	assert_int_equal(shoal_column_create(test_path("c"), &o, &w, &err), 0);
	assert_int_equal(shoal_column_append(w, l.value, nr, &err), 0);
	assert_int_equal(shoal_column_seal(w, &err), 0);
	assert_int_equal(shoal_column_open(test_path("c"), NULL, &plain, &err), 0);
	assert_int_equal(shoal_column_sort(plain, NULL, test_path("c"), 0, NULL, &err), 0);
	shoal_column_close(plain);
	assert_int_equal(shoal_column_open(test_path("c"), NULL, &l.column, &err), 0);
	unlink(test_path("c"));
	return l;
}

static void lengths_release(struct lengths *l)
{
	shoal_column_close(l->column);
	free(l->value);
}

static struct shoal_batches *batches_of(const struct lengths *l, const struct shoal_batch_spec *s,
					uint64_t epoch)
{
	struct shoal_batches *b = NULL;
	struct shoal_err err = { "" };

	if (shoal_batches_new(l->column, s, epoch, &b, &err) < 0)
		fail_msg("%s", err.msg);
	return b;
}

/* Count how often each sample comes; check each batch. Returns the samples in all. */
static uint64_t count_all(const struct lengths *l, const struct shoal_batches *b, uint8_t *seen)
{
	const struct shoal_batch_spec *s = shoal_batches_spec(b);
	uint64_t *ids = allocate(shoal_batches_largest(b), sizeof(*ids)), total = 0;

	for (uint64_t step = 0; step < shoal_batches_steps(b); step++) {
		for (uint64_t rank = 0; rank < s->nr_ranks; rank++) {
			int64_t nr = shoal_batches_get(b, step, rank, ids);
			uint64_t longest = 0;

			assert_true(nr >= 0 && (uint64_t)nr <= shoal_batches_largest(b));
			for (int64_t i = 0; i < nr; i++) {
				assert_true(ids[i] < l->nr);
				seen[ids[i]]++;
				longest = u64_max(longest, l->value[ids[i]]);
			}
			assert_true(!s->batch || (uint64_t)nr <= s->batch);
			assert_true(!s->max_tokens || longest * (uint64_t)nr <= s->max_tokens);
			total += (uint64_t)nr;
		}
	}
	assert_int_equal(shoal_batches_get(b, shoal_batches_steps(b), 0, ids), -ERANGE);
	assert_int_equal(shoal_batches_get(b, 0, s->nr_ranks, ids), -ERANGE);
	free(ids);
	return total;
}

static void an_epoch_has_every_sample_once(void **state)
{
	static const struct shoal_batch_spec specs[] = {
		{ .batch = 1 },
		{ .batch = 7 },
		{ .batch = 7, .bucket = 7 },
		{ .batch = 7, .bucket = 100 },
		{ .batch = 8, .bucket = UINT64_MAX }, /* which rounding up would overflow */
		{ .batch = 5000 },
		{ .max_tokens = 500 },
		{ .max_tokens = 2000, .bucket = 64 },
		{ .max_tokens = 2000, .batch = 10 },
		{ .max_tokens = 2000, .batch = 10, .in_order = true },
		{ .batch = 8, .in_order = true, .group = 3 },
	};
	static const uint64_t counts[] = { 1, 2, 13, 1000, 4999 };

	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
		struct lengths l = make_lengths(counts[c], 300);

		for (size_t k = 0; k < ARRAY_LEN(specs) * 3; k++) {
			struct shoal_batch_spec s = specs[k / 3];
			uint8_t *seen = allocate(l.nr, 1);
			struct shoal_batches *b;

			s.nr_ranks = (uint64_t[]){ 1, 2, 5 }[k % 3];
			s.remainder = SHOAL_KEEP;
			b = batches_of(&l, &s, k);
			assert_int_equal(count_all(&l, b, seen), l.nr);
			for (uint64_t i = 0; i < l.nr; i++)
				assert_int_equal(seen[i], 1);
			shoal_batches_free(b);
			free(seen);
		}
		lengths_release(&l);
	}
}

static void the_lengths_of_a_batch_are_alike(void **state)
{
	struct lengths l = make_lengths(20000, 1000);
	struct shoal_batch_spec s = { .batch = 10, .nr_ranks = 1, .remainder = SHOAL_KEEP };
	struct shoal_batches *b = batches_of(&l, &s, 0);
	uint64_t ids[10], padded = 0, real = 0;

	(void)state;
	for (uint64_t step = 0; step < shoal_batches_steps(b); step++) {
		int64_t nr = shoal_batches_get(b, step, 0, ids);
		uint64_t longest = 0;

		for (int64_t i = 0; i < nr; i++) {
			longest = u64_max(longest, l.value[ids[i]]);
			real += l.value[ids[i]];
		}
		padded += longest * (uint64_t)nr;
	}
	/* Samples at random would be padded to three times their length. */
	assert_true(padded < real + real / 10);
	shoal_batches_free(b);
	lengths_release(&l);
}

/* The ids of a whole epoch, one batch after the other. */
static uint64_t *epoch_of(const struct lengths *l, const struct shoal_batch_spec *s, uint64_t epoch)
{
	struct shoal_batches *b = batches_of(l, s, epoch);
	uint64_t *ids = allocate(2 * l->nr + 1000, sizeof(*ids)), at = 0;

	for (uint64_t step = 0; step < shoal_batches_steps(b); step++)
		for (uint64_t rank = 0; rank < s->nr_ranks; rank++)
			at += (uint64_t)shoal_batches_get(b, step, rank, ids + at);
	shoal_batches_free(b);
	return ids;
}

static void epochs_differ_unless_they_are_frozen(void **state)
{
	struct lengths l = make_lengths(3000, 100);
	struct shoal_batch_spec s = {
		.batch = 8, .nr_ranks = 2, .seed = 5, .remainder = SHOAL_KEEP
	};
	uint64_t *first = epoch_of(&l, &s, 0), *again = epoch_of(&l, &s, 0);
	uint64_t *second = epoch_of(&l, &s, 1), *other, *frozen, same = 0;

	(void)state;
	s.seed = 6;
	other = epoch_of(&l, &s, 0);
	s.seed = 5;
	s.frozen = true;
	frozen = epoch_of(&l, &s, 1);
	assert_memory_equal(first, again, 3000 * 8);
	assert_memory_equal(first, frozen, 3000 * 8);
	assert_memory_not_equal(first, other, 3000 * 8);
	for (size_t i = 0; i < 3000; i++)
		same += first[i] == second[i];
	assert_true(same < 30); /* one or two by chance */
	free(first);
	free(again);
	free(second);
	free(other);
	free(frozen);
	lengths_release(&l);
}

/* The samples that come in one batch with sample @id, as a bit each; batches of 8. */
static void mark_mates(const uint64_t *ids, uint64_t nr, uint64_t id, uint8_t *mates)
{
	for (uint64_t at = 0; at < nr; at += 8)
		for (uint64_t i = at; i < at + 8; i++)
			if (ids[i] == id)
				for (uint64_t j = at; j < at + 8; j++)
					mates[ids[j]]++;
}

static void a_sample_has_other_company_in_another_epoch(void **state)
{
	struct lengths l = make_lengths(3200, 100);
	struct shoal_batch_spec s = { .batch = 8, .nr_ranks = 2, .remainder = SHOAL_KEEP };
	uint64_t *first = epoch_of(&l, &s, 0), *second = epoch_of(&l, &s, 1), again = 0;

	(void)state;
	for (uint64_t id = 0; id < 100; id++) {
		uint8_t *mates = allocate(l.nr, 1);

		mark_mates(first, l.nr, id, mates);
		mark_mates(second, l.nr, id, mates);
		for (uint64_t i = 0; i < l.nr; i++)
			again += i != id && mates[i] == 2;
		free(mates);
	}
	assert_true(again < 100); /* of 700; by chance some 30 */
	free(first);
	free(second);
	lengths_release(&l);
}

static void a_new_epoch_is_what_a_fresh_one_would_be(void **state)
{
	struct lengths l = make_lengths(500, 100);
	struct shoal_batch_spec s = { .batch = 8, .nr_ranks = 2, .consumed = 4 };
	struct shoal_batches *b = batches_of(&l, &s, 3), *fresh;
	uint64_t x[8], y[8];

	(void)state;
	shoal_batches_set_epoch(b, 7);
	s.consumed = 0;
	fresh = batches_of(&l, &s, 7);
	assert_int_equal(shoal_batches_steps(b), shoal_batches_steps(fresh));
	for (uint64_t step = 0; step < shoal_batches_steps(b); step++) {
		assert_int_equal(shoal_batches_get(b, step, 1, x), 8);
		assert_int_equal(shoal_batches_get(fresh, step, 1, y), 8);
		assert_memory_equal(x, y, sizeof(x));
	}
	shoal_batches_free(b);
	shoal_batches_free(fresh);
	lengths_release(&l);
}

static void a_run_goes_on_after_any_step_with_any_ranks(void **state)
{
	struct lengths l = make_lengths(700, 100);
	struct shoal_batch_spec s = {
		.max_tokens = 900, .nr_ranks = 3, .group = 3, .remainder = SHOAL_KEEP
	};

	(void)state;
	for (uint64_t steps = 0; steps < 20; steps++) {
		for (uint64_t ranks = 1; ranks < 5; ranks++) {
			struct shoal_batches *b = batches_of(&l, &s, 2), *rest = NULL;
			uint64_t *ids = allocate(shoal_batches_largest(b), sizeof(*ids));
			uint8_t *seen = allocate(l.nr, 1);
			struct shoal_order_state saved;
			struct shoal_batch_spec next = s;
			struct shoal_err err = { "" };

			for (uint64_t k = 0; k < 3 * steps && k / 3 < shoal_batches_steps(b); k++) {
				int64_t nr = shoal_batches_get(b, k / 3, k % 3, ids);

				for (int64_t i = 0; i < nr; i++)
					seen[ids[i]]++;
			}
			shoal_batches_save(b, steps, &saved);
			next.nr_ranks = ranks;
			assert_int_equal(shoal_batches_resume(l.column, &next, &saved, &rest, &err),
					 0);
			count_all(&l, rest, seen);
			for (uint64_t i = 0; i < l.nr; i++)
				assert_int_equal(seen[i], 1);
			shoal_batches_free(b);
			shoal_batches_free(rest);
			free(ids);
			free(seen);
		}
	}
	lengths_release(&l);
}

static void a_state_of_other_batches_is_refused(void **state)
{
	struct lengths l = make_lengths(700, 100), other = make_lengths(700, 100);
	struct shoal_batch_spec s = { .batch = 8, .nr_ranks = 2 }, t = s;
	struct shoal_batches *b = batches_of(&l, &s, 0), *rest = NULL;
	struct shoal_order_state saved;
	struct shoal_err err = { "" };

	(void)state;
	shoal_batches_save(b, 3, &saved);
	assert_int_equal(shoal_batches_resume(other.column, &s, &saved, &rest, &err), -ENOTSUP);
	t.batch = 9;
	assert_int_equal(shoal_batches_resume(l.column, &t, &saved, &rest, &err), -ENOTSUP);
	t = s;
	t.nr_ranks = 4; /* another group, as it is not said */
	assert_int_equal(shoal_batches_resume(l.column, &t, &saved, &rest, &err), -ENOTSUP);
	saved.digest[0] = 'f';
	assert_int_equal(shoal_batches_resume(l.column, &s, &saved, &rest, &err), -ESTALE);
	shoal_batches_free(b);
	lengths_release(&l);
	lengths_release(&other);
}

static void ranks_get_batches_of_like_lengths_in_a_step(void **state)
{
	struct lengths l = make_lengths(20000, 1000);
	struct shoal_batch_spec s = { .batch = 10, .nr_ranks = 4 };
	struct shoal_batches *b = batches_of(&l, &s, 0);
	uint64_t ids[10], near = 0;

	(void)state;
	for (uint64_t step = 0; step < shoal_batches_steps(b); step++) {
		uint64_t low = UINT64_MAX, high = 0;

		for (uint64_t rank = 0; rank < 4; rank++) {
			assert_int_equal(shoal_batches_get(b, step, rank, ids), 10);
			low = u64_min(low, l.value[ids[0]]);
			high = u64_max(high, l.value[ids[0]]);
		}
		near += high - low < 50;
	}
	assert_true(near > shoal_batches_steps(b) * 9 / 10);
	shoal_batches_free(b);
	lengths_release(&l);
}

static void what_cannot_be_met_is_told_in_words(void **state)
{
	static const struct {
		struct shoal_batch_spec spec;
		const char *says;
	} row[] = {
		{ { .nr_ranks = 1 }, "batch size is missing" },
		{ { .nr_ranks = 1, .max_tokens = 20 }, "raise max_tokens" },
		{ { .nr_ranks = 1, .batch = 8, .bucket = 7 }, "larger bucket" },
		{ { .nr_ranks = 0, .batch = 8 }, "ranks" },
		{ { .nr_ranks = 1, .batch = UINT64_C(1) << 33 }, "too large" },
	};
	struct lengths l = make_lengths(700, 100);
	struct shoal_batches *b = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_err err = { "" };

		assert_int_equal(shoal_batches_new(l.column, &row[i].spec, 0, &b, &err), -EINVAL);
		if (!strstr(err.msg, row[i].says))
			fail_msg("row %zu: '%s', not '%s'", i, err.msg, row[i].says);
	}
	lengths_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_epoch_has_every_sample_once),
		cmocka_unit_test(the_lengths_of_a_batch_are_alike),
		cmocka_unit_test(epochs_differ_unless_they_are_frozen),
		cmocka_unit_test(a_sample_has_other_company_in_another_epoch),
		cmocka_unit_test(a_new_epoch_is_what_a_fresh_one_would_be),
		cmocka_unit_test(a_run_goes_on_after_any_step_with_any_ranks),
		cmocka_unit_test(a_state_of_other_batches_is_refused),
		cmocka_unit_test(ranks_get_batches_of_like_lengths_in_a_step),
		cmocka_unit_test(what_cannot_be_met_is_told_in_words),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
