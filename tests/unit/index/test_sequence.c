/*
 * Goal: whatever threads do at the same time, what is handed on in order rises and comes before all
 * that is not, nothing is lost or told twice; and when order cannot be kept, the rest is there for
 * the sorter.
 */
#include "index/sequence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/name.h"
#include "entries.h"
#include "index/job.h"
#include "sequence_game.h"

static void everything_is_handed_on_in_order_whatever_the_threads_do(void **state)
{
	size_t most = 0, packs = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		struct game *g = game_new(tree_make(i % 7), MUCH_ROOM);

		while (game_step(g))
			if (random_below(3) > 0)
				assert_int_equal(game_hand_on(g, NULL), 0);
		assert_int_equal(game_hand_on(g, NULL), 0);
		assert_false(index_sequence_is_over(&g->o));
		assert_int_equal(g->taken.nr, g->tree.files.nr);
		most = (size_t)u64_max(most, g->taken.nr);
		packs += g->nr_packs;
		game_check(g);
		game_free(g);
	}
	assert_true(most > 100);
	assert_true(packs > 1000);
}

static void when_it_is_over_the_rest_comes_after_all_that_was_handed_on(void **state)
{
	size_t both = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		struct game *g = game_new(tree_make(2 + i % 5), MUCH_ROOM);
		uint64_t left = random_below(40);

		while (game_step(g)) {
			if (left-- == 0)
				index_sequence_stop(&g->o);
			assert_int_equal(game_hand_on(g, NULL), 0);
		}
		both += g->taken.nr > 0 && g->taken.nr < g->tree.files.nr;
		game_check(g);
		game_free(g);
	}
	assert_true(both > 100);
}

/* What was handed on rises, the rest comes after it, and both are what was told. */
static void check_told(struct game *g)
{
	const struct test_entry *last = NULL;
	struct test_list all = { 0 };

	assert_int_equal(index_sequence_rest(&g->o, SIZE_MAX, game_take_rest, g, NULL), 0);
	for (size_t i = 0; i < g->taken.nr + g->rest.nr; i++) {
		const struct test_entry *e =
			i < g->taken.nr ? &g->taken.entry[i] : &g->rest.entry[i - g->taken.nr];

		if (last && name_compare(last->name, last->len, e->name, e->len) >= 0)
			fail_msg("'%s' after '%s'", e->name, last->name);
		if (i < g->taken.nr)
			last = e;
		list_add(&all, e->name, e->len, e->size, 1);
	}
	assert_int_equal(all.nr + g->o.repeated, g->told.nr);
	list_sort(&all);
	list_sort(&g->told);
	assert_int_equal(all.nr, g->told.nr);
	for (size_t i = 0; i < all.nr; i++)
		assert_string_equal(all.entry[i].name, g->told.entry[i].name);
	list_release(&all);
}

static void directories_may_be_told_twice_and_differ(void **state)
{
	size_t over = 0, repeated = 0;

	(void)state;
	for (unsigned i = 0; i < 2000; i++) {
		struct game *g = game_new(tree_make(i % 5), MUCH_ROOM);

		g->fickle = true;
		while (game_step(g))
			if (random_below(3) > 0)
				assert_int_equal(game_hand_on(g, NULL), 0);
		assert_int_equal(game_hand_on(g, NULL), 0);
		over += index_sequence_is_over(&g->o);
		repeated += g->o.repeated;
		check_told(g);
		game_free(g);
	}
	assert_true(over > 0 && over < 1000 && repeated > 1000);
}

static void nothing_is_handed_on_before_the_first_directory_has_ended(void **state)
{
	static const char *const dirs[] = { "a", "b", "c" }, *const files[] = { "a/1", "b/1",
										"c/1" };
	struct tree t = { 0 };
	struct game *g;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		list_addf(&t.dirs, "%s", dirs[i]);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		list_addf(&t.files, "%s", files[i]);
	g = game_new(t, MUCH_ROOM);
	game_begin(g, 0);
	game_end(g, 0);
	for (unsigned i = 0; i < 3; i++)
		game_begin(g, i);
	game_end(g, 1);
	game_end(g, 2);
	assert_int_equal(game_hand_on(g, NULL), 0);
	assert_int_equal(g->taken.nr, 0);
	game_end(g, 0);
	assert_int_equal(game_hand_on(g, NULL), 0);
	assert_int_equal(g->taken.nr, 3);
	game_check(g);
	game_free(g);
}

#define FILE_SIZE (1u << 19)

/* A directory that is slow, and @nr others with a file each. */
static struct game *game_of_many(size_t nr, size_t room)
{
	struct tree t = { 0 };
	char name[32];
	struct game *g;

	for (size_t i = 0; i < nr; i++) {
		list_addf(&t.dirs, "%06zu", i);
		snprintf(name, sizeof(name), "%06zu/file", i);
		list_add(&t.files, name, strlen(name), FILE_SIZE, 1);
	}
	g = game_new(t, room);
	game_begin(g, 0);
	game_end(g, 0);
	game_begin(g, 0);
	for (size_t i = 1; i < nr; i++) {
		game_begin(g, 1);
		game_end(g, 1);
		assert_int_equal(game_hand_on(g, NULL), 0);
	}
	game_end(g, 0);
	assert_int_equal(game_hand_on(g, NULL), 0);
	return g;
}

/* What an entry takes that waits alone. */
static size_t bytes_of_one(void)
{
	struct index_sequence o = { .store = &game_store, .nr_threads = 1, .room = MUCH_ROOM };
	uint8_t payload[INDEX_RECORD_MAX];
	struct sort_entry e = entry_with("000001/file", 11, FILE_SIZE, 7, NULL, payload);
	struct index_queue units;
	size_t used;

	assert_int_equal(index_queue_init(&units, 4096, test_dir(), NULL), 0);
	assert_true(index_sequence_init(&o));
	index_sequence_begin(&o, 0, "D000001/", 8);
	assert_true(index_sequence_found(&o, 0, &e, 1));
	assert_int_equal(index_sequence_sort(&o, 0, NULL), 0);
	assert_int_equal(index_sequence_end(&o, 0, &units, NULL), 0);
	used = o.used;
	index_sequence_release(&o);
	index_queue_release(&units);
	return used;
}

static void it_is_over_when_too_much_waits(void **state)
{
	struct game *g = game_of_many(3, MUCH_ROOM);
	size_t one;

	(void)state;
	assert_false(index_sequence_is_over(&g->o));
	one = bytes_of_one();
	game_check(g);
	game_free(g);
	for (size_t i = 0; i < 2;
	     i++) { /* the last of three is the slow one, which does not wait */
		g = game_of_many(3, 3 * one - i);
		assert_int_equal(index_sequence_is_over(&g->o), i == 1);
		assert_int_equal(g->taken.nr, i == 1 ? 0 : 3);
		game_check(g);
		game_free(g);
	}
}

static void it_is_over_when_a_directory_has_too_many(void **state)
{
	static const size_t nr[] = { 1, 1000, INDEX_SEQUENCE_UNITS_BYTES / 12,
				     INDEX_SEQUENCE_UNITS_BYTES / 12 + 1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nr); i++) {
		struct index_sequence o = { .store = &game_store,
					    .nr_threads = 1,
					    .room = MUCH_ROOM };
		bool room = nr[i] <= INDEX_SEQUENCE_UNITS_BYTES / 12;
		size_t k;

		assert_true(index_sequence_init(&o));
		index_sequence_begin(&o, 0, "", 0);
		for (k = 0; k < nr[i]; k++)
			if (!index_sequence_more(&o, 0, "D000000/", 8))
				break;
		assert_int_equal(k, room ? nr[i] : nr[i] - 1);
		assert_int_equal(index_sequence_is_over(&o), !room);
		index_sequence_release(&o);
	}
}

static void it_is_over_when_threads_hold_too_many_directories(void **state)
{
	const size_t one = INDEX_SEQUENCE_UNITS_BYTES;

	(void)state;
	for (size_t less = 0; less < 2; less++) {
		struct index_sequence o = { .store = &game_store,
					    .nr_threads = 2,
					    .room = 4 * one - less };
		struct index_queue units;

		assert_int_equal(index_queue_init(&units, 4 * one, test_dir(), NULL), 0);
		assert_true(index_sequence_init(&o));
		for (unsigned t = 0; t < 2; t++) {
			index_sequence_begin(&o, t, "", 0);
			for (size_t k = 0; k < one / 12; k++)
				assert_true(index_sequence_more(&o, t, "D000000/", 8));
		}
		assert_int_equal(o.held, 2 * one);
		assert_int_equal(index_sequence_is_over(&o), less);
		assert_int_equal(index_sequence_sort(&o, 0, NULL), 0);
		assert_int_equal(index_sequence_end(&o, 0, &units, NULL), 0);
		assert_int_equal(o.held, one); /* who is through holds nothing */
		index_sequence_release(&o);
		index_queue_release(&units);
	}
}

static void part_of_a_directory_ends_it(void **state)
{
	static const struct {
		const char *unit;
		bool over;
	} row[] = { { "Da/", false },  { "da/", false },  { "", false },
		    { "S\2a/", true }, { "N\2a/", true }, { "h\2a/", true } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct index_sequence o = { .store = &game_store, .nr_threads = 1 };
		size_t len = strlen(row[i].unit);

		assert_true(index_sequence_init(&o));
		index_sequence_begin(&o, 0, row[i].unit, len);
		assert_int_equal(index_sequence_is_over(&o), row[i].over);
		index_sequence_release(&o);
		o = (struct index_sequence){ .store = &game_store, .nr_threads = 1 };
		assert_true(index_sequence_init(&o));
		assert_int_equal(index_sequence_more(&o, 0, row[i].unit, len), !row[i].over);
		assert_int_equal(index_sequence_is_over(&o), row[i].over);
		index_sequence_release(&o);
	}
}

static void the_rest_comes_in_parts(void **state)
{
	(void)state;
	for (size_t most = 0; most <= 5; most++) { /* each of these has a file */
		size_t one = bytes_of_one();
		struct game *g = game_of_many(5, 5 * one - 1); /* over with the last of them */

		assert_int_equal(g->taken.nr, 0);
		assert_int_equal(index_sequence_rest(&g->o, most, game_take_rest, g, NULL), 0);
		assert_int_equal(g->rest.nr, most);
		assert_int_equal(!g->o.first, most == 5);
		game_check(g);
		game_free(g);
	}
}

/* What @nr listings of one directory at once tell, as where a directory is told twice. */
static void check_repeated(const char *unit, const struct store_entry *found, size_t nr_found,
			   unsigned nr, const struct store_entry *want, size_t nr_want)
{
	struct game *g = game_new((struct tree){ 0 }, MUCH_ROOM);
	struct sort_entry entry[8];
	uint8_t payload[8][INDEX_RECORD_MAX];
	size_t len;

	for (size_t i = 0; i < nr_found; i++)
		entry[i] =
			entry_with(found[i].name, found[i].len, found[i].size, 7, NULL, payload[i]);
	assert_int_equal(index_queue_pop(&g->units, g->unit[0], &len, NULL), 1);
	for (unsigned t = 0; t < nr; t++) {
		assert_int_equal(index_queue_push(&g->units, unit, strlen(unit), NULL), 0);
		game_begin(g, t);
		assert_true(index_sequence_found(&g->o, t, entry, nr_found));
	}
	for (unsigned t = 0; t < nr; t++) {
		assert_int_equal(game_hand_on(g, NULL), 0);
		assert_int_equal(g->taken.nr, 0);
		assert_int_equal(index_sequence_sort(&g->o, t, NULL), 0);
		assert_int_equal(index_sequence_end(&g->o, t, &g->units, NULL), 0);
	}
	assert_int_equal(game_hand_on(g, NULL), 0);
	assert_int_equal(g->taken.nr, nr_want);
	for (size_t i = 0; i < nr_want; i++) {
		assert_string_equal(g->taken.entry[i].name, want[i].name);
		assert_int_equal(g->taken.entry[i].size, want[i].size);
	}
	assert_int_equal(g->o.repeated, nr * nr_found - nr_want);
	game_free(g);
}

static void a_name_told_twice_is_taken_once(void **state)
{
	static const struct store_entry in_root[] = {
		{ .name = "-", .len = 1, .size = 1 }, { .name = "-", .len = 1, .size = 2 },
		{ .name = "b", .len = 1, .size = 3 }, { .name = "c", .len = 1, .size = 4 },
		{ .name = "c", .len = 1, .size = 5 }, { .name = "c", .len = 1, .size = 6 },
	};
	static const struct store_entry of_root[] = { { .name = "-", .size = 2 },
						      { .name = "b", .size = 3 },
						      { .name = "c", .size = 6 } };
	static const struct store_entry in_d[] = { { .name = "d/-", .len = 3, .size = 1 },
						   { .name = "d/-", .len = 3, .size = 2 } };
	static const struct store_entry of_d[] = { { .name = "d/-", .size = 2 } };

	(void)state;
	for (unsigned nr = 1; nr <= 3; nr++) {
		check_repeated("", in_root, ARRAY_LEN(in_root), nr, of_root, ARRAY_LEN(of_root));
		check_repeated("Dd/", in_d, ARRAY_LEN(in_d), nr, of_d, ARRAY_LEN(of_d));
	}
}

/* What is found in no order is sorted; what comes before the unit starts ends it. */
static void what_does_not_come_after_the_start_of_the_unit_ends_it(void **state)
{
	static const struct {
		const char *unit, *name[3];
		bool kept;
	} row[] = {
		{ "Dd/", { "d/a", "d/b", "d/c" }, true }, { "Dd/", { "d/a", "d/c", "d/b" }, true },
		{ "Dd/", { "d/b", "d/a", "d/c" }, true }, { "Dd/", { "d/a", "a", "d/b" }, false },
		{ "Dd/", { "d-", "d/b", "d/c" }, false }, { "Dd/", { "d/b", "d/", "d/c" }, false },
		{ "", { "d", "e", "d/b" }, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct index_sequence o = { .store = &game_store,
					    .nr_threads = 1,
					    .room = MUCH_ROOM };

		assert_true(index_sequence_init(&o));
		index_sequence_begin(&o, 0, row[i].unit, strlen(row[i].unit));
		for (size_t k = 0; k < 3; k++) {
			struct sort_entry e = { .name = (const uint8_t *)row[i].name[k],
						.len = strlen(row[i].name[k]) };

			assert_true(index_sequence_found(&o, 0, &e, 1));
		}
		assert_int_equal(index_sequence_sort(&o, 0, NULL), 0);
		if (index_sequence_is_over(&o) == row[i].kept)
			fail_msg("row %zu", i);
		index_sequence_release(&o);
	}
}

/* Entries of @len bytes each that a thread collects, until one is not taken: how many were. */
static size_t collect(struct index_sequence *o, unsigned thread, size_t nr, size_t len)
{
	uint8_t *name = allocate(len, 1);
	struct sort_entry e = { .name = name, .len = len };
	size_t i = 0;

	memset(name, 'n', len);
	index_sequence_begin(o, thread, "", 0);
	while (i < nr && index_sequence_found(o, thread, &e, 1))
		i++;
	free(name);
	return i;
}

static void it_is_over_when_a_directory_does_not_fit(void **state)
{
	static const size_t lens[] = { 1, 10, 1000, SHOAL_NAME_MAX };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		struct index_sequence o = { .store = &game_store,
					    .nr_threads = 1,
					    .room = MUCH_ROOM };
		size_t fit = INDEX_DIR_BYTES / (lens[i] + 1 + sizeof(struct sort_ref));
		size_t most = (size_t)u64_min(INDEX_DIR_MAX, fit);
		struct sort_entry two[2] = { { .name = (const uint8_t *)"a", .len = 1 },
					     { .name = (const uint8_t *)"b", .len = 1 } };

		assert_true(index_sequence_init(&o));
		assert_int_equal(collect(&o, 0, most - 1, lens[i]), most - 1);
		assert_false(index_sequence_is_over(&o));
		if (most == INDEX_DIR_MAX) { /* all of them, or none */
			assert_false(index_sequence_found(&o, 0, two, 2));
			assert_int_equal(o.at[0].dir.nr, most - 1);
		} else {
			assert_int_equal(collect(&o, 0, 3, lens[i]), 1);
		}
		assert_true(index_sequence_is_over(&o));
		index_sequence_release(&o);
	}
}

static void what_threads_collect_is_no_room_for_what_waits(void **state)
{
	(void)state;
	for (size_t less = 0; less < 2; less++) {
		struct index_sequence o = { .store = &game_store,
					    .nr_threads = 2,
					    .room = MUCH_ROOM };
		uint8_t payload[INDEX_RECORD_MAX];
		struct sort_entry waits =
			entry_with("000001/file", 11, FILE_SIZE, 7, NULL, payload);
		struct index_queue units;

		assert_int_equal(index_queue_init(&units, 4096, test_dir(), NULL), 0);
		assert_true(index_sequence_init(&o));
		assert_int_equal(collect(&o, 0, 10000, 10), 10000);
		assert_true(o.held > 0);
		index_sequence_begin(&o, 1, "D000001/", 8);
		assert_true(index_sequence_found(&o, 1, &waits, 1));
		assert_int_equal(index_sequence_sort(&o, 1, NULL), 0);
		o.room = o.held + bytes_of_one() - less;
		assert_false(index_sequence_is_over(&o));
		assert_int_equal(index_sequence_end(&o, 1, &units, NULL), 0);
		assert_int_equal(index_sequence_is_over(&o), less);
		index_sequence_release(&o);
		index_queue_release(&units);
	}
}

static void it_is_over_when_threads_collect_too_much(void **state)
{
	struct index_sequence o = { .store = &game_store, .nr_threads = 3, .room = MUCH_ROOM };

	(void)state;
	assert_true(index_sequence_init(&o));
	for (unsigned t = 0; t < 3; t++) {
		collect(&o, t, 10000, 10);
		if (t == 0) {
			o.room = 4 * o.held; /* half of it for two */
			assert_true(o.held > 0);
		}
		assert_int_equal(index_sequence_is_over(&o), t == 2);
	}
	index_sequence_release(&o);
}

static void it_is_behind_when_half_of_the_room_is_taken_while_it_hands_on(void **state)
{
	static const struct {
		size_t used, held;
		bool busy, over, behind;
	} row[] = { { 50, 0, true, false, false }, { 51, 0, true, false, true },
		    { 0, 51, true, false, true },  { 30, 20, true, false, false },
		    { 31, 20, true, false, true }, { 51, 0, false, false, false },
		    { 51, 0, true, true, false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const struct index_sequence o = { .room = 100,
						  .used = row[i].used,
						  .held = row[i].held,
						  .busy = row[i].busy,
						  .over = row[i].over };

		if (index_sequence_is_behind(&o) != row[i].behind)
			fail_msg("row %zu", i);
	}
}

static void each_entry_may_not_be_taken(void **state)
{
	bool failed = true;

	(void)state;
	for (size_t nth = 0; failed; nth++) {
		struct shoal_err err = { "" };
		struct game *g = game_new((struct tree){ 0 }, MUCH_ROOM);
		int rc = 0;

		tree_release(&g->tree);
		for (size_t i = 0; i < 5; i++) {
			list_addf(&g->tree.dirs, "%zu", i);
			list_addf(&g->tree.files, "%zu/file", i);
		}
		g->fail_at = nth;
		while (rc == 0 && game_step(g))
			rc = game_hand_on(g, &err);
		failed = rc < 0;
		assert_int_equal(rc, nth < 5 ? -ENOSPC : 0);
		assert_string_equal(err.msg, nth < 5 ? "no room" : "");
		assert_int_equal(g->taken.nr, u64_min(nth, 5));
		game_free(g);
	}
}

/* A directory is listed that comes before what has been handed on. */
static void what_does_not_follow_is_not_handed_on(void **state)
{
	struct game *g = game_new((struct tree){ 0 }, MUCH_ROOM);
	struct shoal_err err = { "" };
	size_t len;

	(void)state;
	list_addf(&g->tree.files, "a/1");
	list_addf(&g->tree.files, "b/1");
	assert_int_equal(index_queue_pop(&g->units, g->unit[0], &len, NULL), 1);
	assert_int_equal(index_queue_push(&g->units, "Db/", 3, NULL), 0);
	game_begin(g, 0);
	game_end(g, 0);
	assert_int_equal(game_hand_on(g, &err), 0);
	assert_int_equal(g->taken.nr, 1);
	assert_int_equal(index_queue_push(&g->units, "Da/", 3, NULL), 0);
	game_begin(g, 0);
	game_end(g, 0);
	assert_int_equal(game_hand_on(g, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "'a/1' was listed after 'b/1'"));
	assert_int_equal(g->taken.nr, 1);
	game_free(g);
}

static void what_is_sorted_comes_after_what_was_put_in_order(void **state)
{
	static const struct sort_entry a = { .name = (const uint8_t *)"a", .len = 1 },
				       b = { .name = (const uint8_t *)"b", .len = 1 };

	(void)state;
	for (int right = 0; right < 2; right++) {
		const struct shoal_index_options options = { .output = test_path("c") };
		struct index_job j = { .options = &options, .root = { .uri = "file:///" } };
		struct index_record record = { .size = SHOAL_SIZE_UNKNOWN, .samples = 1 };
		struct shoal_index_result result = { 0 };
		struct shoal_err err = { "" };

		assert_int_equal(index_job_open(&j, false, false, &err), 0);
		assert_int_equal(index_job_put_next(&j, right ? &a : &b, &err), 0);
		assert_int_equal(index_job_add(&j, right ? "b" : "a", 1, &record, &err), 0);
		assert_int_equal(index_job_finish(&j, &result, &err), right ? 0 : -EINVAL);
		if (right)
			assert_int_equal(result.nr_names, 2);
		else
			assert_non_null(strstr(err.msg, "'a' does not come after 'b'"));
		index_job_release(&j);
		assert_int_equal(access(options.output, F_OK), right ? 0 : -1);
	}
	assert_int_equal(unlink(test_path("c")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_handed_on_in_order_whatever_the_threads_do),
		cmocka_unit_test(when_it_is_over_the_rest_comes_after_all_that_was_handed_on),
		cmocka_unit_test(directories_may_be_told_twice_and_differ),
		cmocka_unit_test(nothing_is_handed_on_before_the_first_directory_has_ended),
		cmocka_unit_test(it_is_over_when_too_much_waits),
		cmocka_unit_test(it_is_over_when_a_directory_has_too_many),
		cmocka_unit_test(the_rest_comes_in_parts),
		cmocka_unit_test(part_of_a_directory_ends_it),
		cmocka_unit_test(a_name_told_twice_is_taken_once),
		cmocka_unit_test(what_does_not_come_after_the_start_of_the_unit_ends_it),
		cmocka_unit_test(it_is_over_when_a_directory_does_not_fit),
		cmocka_unit_test(it_is_behind_when_half_of_the_room_is_taken_while_it_hands_on),
		cmocka_unit_test(it_is_over_when_threads_collect_too_much),
		cmocka_unit_test(what_threads_collect_is_no_room_for_what_waits),
		cmocka_unit_test(it_is_over_when_threads_hold_too_many_directories),
		cmocka_unit_test(each_entry_may_not_be_taken),
		cmocka_unit_test(what_does_not_follow_is_not_handed_on),
		cmocka_unit_test(what_is_sorted_comes_after_what_was_put_in_order),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
