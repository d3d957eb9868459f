/*
 * Goal: whatever threads do at the same time, what is handed on in order rises and comes before all
 * that is not, nothing is lost or told twice; and when order cannot be kept, the rest is there for
 * the sorter.
 */
#include "index/inorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/name.h"
#include "index/build.h"
#include "inorder_game.h"

static void everything_is_handed_on_in_order_whatever_the_threads_do(void **state)
{
	size_t most = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		struct game *g = game_new(tree_make(i % 7), MUCH_ROOM);

		while (game_step(g))
			if (random_below(3) > 0)
				assert_int_equal(game_hand_on(g, NULL), 0);
		assert_int_equal(game_hand_on(g, NULL), 0);
		assert_false(index_inorder_is_over(&g->o));
		assert_int_equal(g->taken.nr, g->tree.files.nr);
		most = (size_t)shoal_max(most, g->taken.nr);
		game_check(g);
		game_free(g);
	}
	assert_true(most > 100);
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
				index_inorder_stop(&g->o);
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

	assert_int_equal(index_inorder_rest(&g->o, SIZE_MAX, game_take_rest, g, NULL), 0);
	for (size_t i = 0; i < g->taken.nr + g->rest.nr; i++) {
		const struct test_entry *e =
			i < g->taken.nr ? &g->taken.entry[i] : &g->rest.entry[i - g->taken.nr];

		if (last && shoal_name_compare(last->name, last->len, e->name, e->len) >= 0)
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
		over += index_inorder_is_over(&g->o);
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
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(dirs); i++)
		list_addf(&t.dirs, "%s", dirs[i]);
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(files); i++)
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

/* A directory that is slow, and @nr others with a file each. */
static struct game *game_of_many(size_t nr, size_t room)
{
	struct tree t = { 0 };
	struct game *g;

	for (size_t i = 0; i < nr; i++) {
		list_addf(&t.dirs, "%06zu", i);
		list_addf(&t.files, "%06zu/file", i);
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

static void it_is_over_when_too_much_waits(void **state)
{
	struct game *g = game_of_many(3, MUCH_ROOM);
	size_t one;

	(void)state;
	assert_false(index_inorder_is_over(&g->o));
	one = index_inorder_stretch_bytes(1, strlen("000000/file"));
	game_check(g);
	game_free(g);
	for (size_t i = 0; i < 2;
	     i++) { /* the last of three is the slow one, which does not wait */
		g = game_of_many(3, 3 * one - i);
		assert_int_equal(index_inorder_is_over(&g->o), i == 1);
		assert_int_equal(g->taken.nr, i == 1 ? 0 : 3);
		game_check(g);
		game_free(g);
	}
}

static void it_is_over_when_a_directory_has_too_many(void **state)
{
	static const size_t nr[] = { 1, 1000, INDEX_INORDER_UNITS_BYTES / 11,
				     INDEX_INORDER_UNITS_BYTES / 11 + 1 };

	(void)state;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(nr); i++) {
		struct index_inorder o = { .store = &game_store,
					   .nr_threads = 1,
					   .room = MUCH_ROOM };
		bool room = nr[i] <= INDEX_INORDER_UNITS_BYTES / 11;
		size_t k;

		assert_true(index_inorder_init(&o));
		index_inorder_begin(&o, 0, "", 0);
		for (k = 0; k < nr[i]; k++)
			if (!index_inorder_more(&o, 0, "D000000", 7))
				break;
		assert_int_equal(k, room ? nr[i] : nr[i] - 1);
		assert_int_equal(index_inorder_is_over(&o), !room);
		index_inorder_release(&o);
	}
}

static void it_is_over_when_threads_hold_too_many_directories(void **state)
{
	const size_t one = INDEX_INORDER_UNITS_BYTES;

	(void)state;
	for (size_t less = 0; less < 2; less++) {
		struct index_inorder o = { .store = &game_store,
					   .nr_threads = 2,
					   .room = 4 * one - less };
		struct index_units units;

		assert_int_equal(index_units_init(&units, 4 * one, test_dir(), NULL), 0);
		assert_true(index_inorder_init(&o));
		for (unsigned t = 0; t < 2; t++) {
			index_inorder_begin(&o, t, "", 0);
			for (size_t k = 0; k < one / 11; k++)
				assert_true(index_inorder_more(&o, t, "D000000", 7));
		}
		assert_int_equal(o.held, 2 * one);
		assert_int_equal(index_inorder_is_over(&o), less);
		assert_int_equal(index_inorder_sort(&o, 0, NULL), 0);
		assert_int_equal(index_inorder_end(&o, 0, &units, NULL), 0);
		assert_int_equal(o.held, one); /* who is through holds nothing */
		index_inorder_release(&o);
		index_units_release(&units);
	}
}

static void part_of_a_directory_ends_it(void **state)
{
	static const struct {
		const char *unit;
		bool over;
	} row[] = { { "Da", false },   { "da", false },   { "", false },
		    { "S\2a/", true }, { "N\2a/", true }, { "h\2a/", true } };

	(void)state;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(row); i++) {
		struct index_inorder o = { .store = &game_store, .nr_threads = 1 };
		size_t len = strlen(row[i].unit);

		assert_true(index_inorder_init(&o));
		index_inorder_begin(&o, 0, row[i].unit, len);
		assert_int_equal(index_inorder_is_over(&o), row[i].over);
		index_inorder_release(&o);
		o = (struct index_inorder){ .store = &game_store, .nr_threads = 1 };
		assert_true(index_inorder_init(&o));
		assert_int_equal(index_inorder_more(&o, 0, row[i].unit, len), !row[i].over);
		assert_int_equal(index_inorder_is_over(&o), row[i].over);
		index_inorder_release(&o);
	}
}

static void the_rest_comes_in_parts(void **state)
{
	(void)state;
	for (size_t most = 0; most <= 5; most++) { /* each of these has a file */
		size_t one = index_inorder_stretch_bytes(1, strlen("000000/file"));
		struct game *g = game_of_many(5, 5 * one - 1); /* over with the last of them */

		assert_int_equal(g->taken.nr, 0);
		assert_int_equal(index_inorder_rest(&g->o, most, game_take_rest, g, NULL), 0);
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
	size_t len;

	assert_int_equal(index_units_pop(&g->units, g->unit[0], &len, NULL), 1);
	for (unsigned t = 0; t < nr; t++) {
		assert_int_equal(index_units_push(&g->units, unit, strlen(unit), NULL), 0);
		game_begin(g, t);
		assert_true(index_inorder_found(&g->o, t, found, nr_found));
	}
	for (unsigned t = 0; t < nr; t++) {
		assert_int_equal(game_hand_on(g, NULL), 0);
		assert_int_equal(g->taken.nr, 0);
		assert_int_equal(index_inorder_sort(&g->o, t, NULL), 0);
		assert_int_equal(index_inorder_end(&g->o, t, &g->units, NULL), 0);
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
		check_repeated("", in_root, SHOAL_ARRAY_LEN(in_root), nr, of_root,
			       SHOAL_ARRAY_LEN(of_root));
		check_repeated("Dd", in_d, SHOAL_ARRAY_LEN(in_d), nr, of_d, SHOAL_ARRAY_LEN(of_d));
	}
}

static void what_is_not_in_order_or_not_in_the_directory_is_not_kept(void **state)
{
	static const struct {
		const char *unit, *name[3];
		bool kept;
	} row[] = {
		{ "Dd", { "d/a", "d/b", "d/c" }, true },  { "Dd", { "d/a", "d/c", "d/b" }, false },
		{ "Dd", { "d/b", "d/a", "d/c" }, false }, { "Dd", { "a", "d/a", "d/b" }, false },
		{ "Dd", { "d/a", "d/b", "da" }, false },  { "Dd", { "d/", "d/b", "d/c" }, false },
		{ "", { "d", "d/b", "e" }, true },
	};

	(void)state;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(row); i++) {
		struct index_inorder o = { .store = &game_store, .nr_threads = 1 };
		struct store_entry e[3];

		for (size_t k = 0; k < 3; k++)
			e[k] = (struct store_entry){ .name = row[i].name[k],
						     .len = strlen(row[i].name[k]) };
		assert_true(index_inorder_init(&o));
		index_inorder_begin(&o, 0, row[i].unit, strlen(row[i].unit));
		if (index_inorder_found(&o, 0, e, 3) != row[i].kept)
			fail_msg("row %zu", i);
		assert_int_equal(index_inorder_is_over(&o), !row[i].kept);
		index_inorder_release(&o);
	}
}

static void parts_of_a_directory_that_make_no_sense_are_not_kept(void **state)
{
	static const struct store_entry in = { .name = "d/a", .len = 3 },
					out = { .name = "e/a", .len = 3 };
	static const struct {
		const struct store_entry *first, *then;
		bool first_is_all, then_is_all; /* of the directory */
	} row[] = {
		{ &out, NULL, false, false }, /* lies elsewhere */
		{ &in, &out, false, false },  /* and so does the second */
		{ &in, &in, true, false },    /* there was nothing more */
		{ &in, &in, false, true },    /* there was something before */
	};

	(void)state;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(row); i++) {
		struct index_inorder o = { .store = &game_store,
					   .nr_threads = 1,
					   .room = MUCH_ROOM };
		bool kept;

		assert_true(index_inorder_init(&o));
		index_inorder_begin(&o, 0, "Dd", 2);
		kept = row[i].first_is_all ? index_inorder_found(&o, 0, row[i].first, 1)
					   : index_inorder_found_some(&o, 0, row[i].first, 1);
		assert_int_equal(kept, row[i].then != NULL);
		if (row[i].then)
			kept = row[i].then_is_all ? index_inorder_found(&o, 0, row[i].then, 1)
						  : index_inorder_found_some(&o, 0, row[i].then, 1);
		assert_false(kept);
		assert_true(index_inorder_is_over(&o));
		index_inorder_release(&o);
	}
}

static const struct store_entry entry_a = { .name = "a", .len = 1 };

/* What gathering it takes. */
static size_t bytes_of_a(void)
{
	struct index_gathered *g = index_gathered_new();
	size_t bytes;

	assert_non_null(g);
	assert_true(index_gathered_add(g, &entry_a, 1, &bytes));
	free(g);
	return bytes;
}

static void what_is_gathered_is_no_room_for_what_waits(void **state)
{
	static const struct store_entry waits = { .name = "d/a", .len = 3 };
	size_t room = bytes_of_a() + index_inorder_stretch_bytes(1, waits.len);

	(void)state;
	for (size_t less = 0; less < 2; less++) {
		struct index_inorder o = { .store = &game_store,
					   .nr_threads = 2,
					   .room = room - less };
		struct index_units units;

		assert_int_equal(index_units_init(&units, 4096, test_dir(), NULL), 0);
		assert_true(index_inorder_init(&o));
		index_inorder_begin(&o, 0, "", 0);
		assert_true(index_inorder_found_some(&o, 0, &entry_a, 1));
		index_inorder_begin(&o, 1, "Dd", 2);
		assert_true(index_inorder_found(&o, 1, &waits, 1));
		assert_false(index_inorder_is_over(&o));
		assert_int_equal(index_inorder_end(&o, 1, &units, NULL), 0);
		assert_int_equal(index_inorder_is_over(&o), less);
		index_inorder_release(&o);
		index_units_release(&units);
	}
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
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(row); i++) {
		const struct index_inorder o = { .room = 100,
						 .used = row[i].used,
						 .held = row[i].held,
						 .busy = row[i].busy,
						 .over = row[i].over };

		if (index_inorder_is_behind(&o) != row[i].behind)
			fail_msg("row %zu", i);
	}
}

static void it_is_over_when_too_much_is_gathered(void **state)
{
	struct index_inorder o = { .store = &game_store,
				   .nr_threads = 3,
				   .room = 4 * bytes_of_a() }; /* half of it for two */

	(void)state;
	assert_true(index_inorder_init(&o));
	for (unsigned t = 0; t < 3; t++) {
		index_inorder_begin(&o, t, "", 0);
		assert_true(index_inorder_found_some(&o, t, &entry_a, 1));
		assert_int_equal(index_inorder_is_over(&o), t == 2);
	}
	index_inorder_release(&o);
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
		assert_int_equal(g->taken.nr, shoal_min(nth, 5));
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
	assert_int_equal(index_units_pop(&g->units, g->unit[0], &len, NULL), 1);
	assert_int_equal(index_units_push(&g->units, "Db", 2, NULL), 0);
	game_begin(g, 0);
	game_end(g, 0);
	assert_int_equal(game_hand_on(g, &err), 0);
	assert_int_equal(g->taken.nr, 1);
	assert_int_equal(index_units_push(&g->units, "Da", 2, NULL), 0);
	game_begin(g, 0);
	game_end(g, 0);
	assert_int_equal(game_hand_on(g, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "'a/1' was listed after 'b/1'"));
	assert_int_equal(g->taken.nr, 1);
	game_free(g);
}

static void what_is_sorted_comes_after_what_was_put_in_order(void **state)
{
	static const struct shoal_entry a = { .name = (const uint8_t *)"a", .len = 1 },
					b = { .name = (const uint8_t *)"b", .len = 1 };

	(void)state;
	for (int right = 0; right < 2; right++) {
		const struct shoal_index_options options = { .output = test_path("c") };
		const struct index_build_spec spec = { .root = "file:///", .in_order = true };
		struct shoal_index_result result = { 0 };
		struct shoal_err err = { "" };
		struct index_build build;

		assert_int_equal(index_build_start(&build, &options, &spec, &err), 0);
		assert_int_equal(index_build_put_next(&build, right ? &a : &b, &err), 0);
		assert_int_equal(index_build_add(&build, right ? &b : &a, &err), 0);
		assert_int_equal(index_build_finish(&build, &result, &err), right ? 0 : -EINVAL);
		if (right)
			assert_int_equal(result.nr_names, 2);
		else
			assert_non_null(strstr(err.msg, "'a' does not come after 'b'"));
		index_build_release(&build);
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
		cmocka_unit_test(what_is_not_in_order_or_not_in_the_directory_is_not_kept),
		cmocka_unit_test(parts_of_a_directory_that_make_no_sense_are_not_kept),
		cmocka_unit_test(it_is_behind_when_half_of_the_room_is_taken_while_it_hands_on),
		cmocka_unit_test(it_is_over_when_too_much_is_gathered),
		cmocka_unit_test(what_is_gathered_is_no_room_for_what_waits),
		cmocka_unit_test(it_is_over_when_threads_hold_too_many_directories),
		cmocka_unit_test(each_entry_may_not_be_taken),
		cmocka_unit_test(what_does_not_follow_is_not_handed_on),
		cmocka_unit_test(what_is_sorted_comes_after_what_was_put_in_order),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
