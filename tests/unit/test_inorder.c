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

#include <sys/stat.h>
#include <unistd.h>

#include "base/name.h"
#include "help.h"
#include "index/build.h"
#include "index/walk.h"
#include "store/posix.h"

static const struct store_ops ops = { .kind = "made up", .unit_dir = store_posix_unit_dir };
static struct shoal_store store = { .ops = &ops };

/* ---- A tree ---- */

/* Letters around the slash, so that directories and files with longer names come between. */
static const char letters[] = "-.0\xff";

struct tree {
	struct test_list files;
	struct test_list dirs; /* but for the root */
};

static void grow(struct tree *t, const char *dir, unsigned depth)
{
	size_t nr = random_below(7);

	if (*dir)
		list_add(&t->dirs, dir, strlen(dir), 0, 0);
	for (size_t i = 0; i < nr; i++) {
		char name[64];
		size_t len = strlen(dir), more = 1 + random_below(3);

		memcpy(name, dir, len);
		if (len > 0)
			name[len++] = '/';
		for (size_t k = 0; k < more; k++)
			name[len++] = letters[random_below(sizeof(letters) - 1)];
		/* No file has a directory's name, and neither is called "." or "..". */
		if (depth == 0 || i % 2)
			name[len++] = 'f';
		else if (name[len - 1] == '.')
			name[len - 1] = 'a';
		name[len] = '\0';
		if (name[len - 1] == 'f')
			list_add(&t->files, name, len, i, 1);
		else
			grow(t, name, depth - 1);
	}
}

static struct tree tree_make(unsigned depth)
{
	struct tree t = { 0 };

	grow(&t, "", depth);
	list_sort(&t.files);
	list_sort(&t.dirs);
	return t;
}

static void tree_release(struct tree *t)
{
	list_release(&t->files);
	list_release(&t->dirs);
}

/* Whether @e lies in directory @dir, and in none below that. */
static bool lies_in(const struct test_entry *e, const char *dir, size_t len)
{
	size_t skip = len > 0 ? len + 1 : 0;

	return e->len > skip && memcmp(e->name, dir, len) == 0 &&
	       (len == 0 || e->name[len] == '/') && !memchr(e->name + skip, '/', e->len - skip);
}

/* ---- Threads, one step at a time ---- */

#define NR_THREADS 4u
#define MUCH_ROOM  (64u << 20)

struct game {
	struct tree tree;
	struct index_inorder o;
	struct index_units units;
	uint8_t unit[NR_THREADS][256]; /* that they are at */
	size_t unit_len[NR_THREADS];
	bool at_work[NR_THREADS];
	struct test_list taken; /* in order */
	struct test_list rest;
	size_t fail_at; /* which entry is not taken; SIZE_MAX: all are */
	bool fickle;    /* each listing of a directory tells some of it, and some of it twice: */
	struct test_list told;
};

static int take_next(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct game *g = self;

	if (g->taken.nr == g->fail_at)
		return shoal_fail(err, -ENOSPC, "no room");
	assert_int_equal(e->samples, 7);
	list_add(&g->taken, e->name, e->len, e->size, 1);
	return 0;
}

static int take_rest(void *self, const struct store_entry *entries, size_t nr,
		     struct shoal_err *err)
{
	struct game *g = self;

	(void)err;
	for (size_t i = 0; i < nr; i++)
		list_add(&g->rest, entries[i].name, entries[i].len, entries[i].size, 1);
	return 0;
}

static struct game *game_new(struct tree tree, size_t room)
{
	struct game *g = allocate(1, sizeof(*g));

	g->tree = tree;
	g->fail_at = SIZE_MAX;
	g->o = (struct index_inorder){ .store = &store,
				       .take = take_next,
				       .self = g,
				       .room = room,
				       .samples = 7,
				       .nr_threads = NR_THREADS };
	assert_true(index_inorder_init(&g->o));
	assert_int_equal(index_units_init(&g->units, 1u << 20, test_dir(), NULL), 0);
	assert_int_equal(index_units_push(&g->units, "", 0, NULL), 0);
	return g;
}

static void game_free(struct game *g)
{
	index_inorder_release(&g->o);
	index_units_release(&g->units);
	tree_release(&g->tree);
	list_release(&g->taken);
	list_release(&g->rest);
	list_release(&g->told);
	free(g);
}

static void begin(struct game *g, unsigned t)
{
	assert_int_equal(index_units_pop(&g->units, g->unit[t], &g->unit_len[t], NULL), 1);
	index_inorder_begin(&g->o, t, g->unit[t], g->unit_len[t]);
	g->at_work[t] = true;
}

/* How often something is told. */
static uint64_t times(const struct game *g)
{
	return g->fickle ? random_below(3) : 1;
}

static void tell_directories(struct game *g, unsigned t, const char *dir, size_t len)
{
	for (size_t i = g->tree.dirs.nr; i-- > 0;) {
		const struct test_entry *e = &g->tree.dirs.entry[i];
		uint8_t unit[256];
		size_t unit_len;

		if (!lies_in(e, dir, len))
			continue;
		unit_len = store_posix_unit(&store, e->name, e->len, unit);
		for (uint64_t k = times(g); k > 0; k--)
			if (index_inorder_is_over(&g->o) ||
			    !index_inorder_more(&g->o, t, unit, unit_len))
				assert_int_equal(index_units_push(&g->units, unit, unit_len, NULL),
						 0);
	}
}

/* In any order, a few at a time. */
static void tell_in_parts(struct game *g, unsigned t, struct store_entry *entry, size_t nr)
{
	for (size_t i = nr; i > 1; i--) {
		size_t k = random_below(i);
		struct store_entry e = entry[k];

		entry[k] = entry[i - 1];
		entry[i - 1] = e;
	}
	while (nr > 0) {
		size_t some = 1 + random_below(nr);

		if (index_inorder_is_over(&g->o) ||
		    !index_inorder_found_some(&g->o, t, entry, some))
			assert_int_equal(take_rest(g, entry, some, NULL), 0);
		entry += some;
		nr -= some;
	}
}

static void tell_files(struct game *g, unsigned t, const char *dir, size_t len)
{
	struct store_entry entry[32];
	size_t nr = 0;

	for (size_t i = 0; i < g->tree.files.nr; i++) {
		const struct test_entry *e = &g->tree.files.entry[i];

		if (!lies_in(e, dir, len))
			continue;
		for (uint64_t k = times(g); k > 0; k--) {
			entry[nr++] = (struct store_entry){ .name = e->name,
							    .len = e->len,
							    .size = e->size };
			list_add(&g->told, e->name, e->len, e->size, 1);
		}
	}
	if (nr > 0 && g->o.room == MUCH_ROOM && random_below(2))
		tell_in_parts(g, t, entry, nr);
	else if (nr > 0 &&
		 (index_inorder_is_over(&g->o) || !index_inorder_found(&g->o, t, entry, nr)))
		assert_int_equal(take_rest(g, entry, nr, NULL), 0);
}

static int hand_on(struct game *g, struct shoal_err *err)
{
	struct index_stretch *s;
	size_t nr;
	int rc = 0;

	while (rc == 0 && (s = index_inorder_next(&g->o, &g->units, &nr)) != NULL) {
		rc = index_inorder_hand_on(&g->o, s, nr, err);
		index_inorder_give_back(&g->o, s);
	}
	return rc;
}

static void end(struct game *g, unsigned t)
{
	const char *dir = "";
	size_t len = 0;

	assert_true(store_posix_unit_dir(&store, g->unit[t], g->unit_len[t], &dir, &len));
	tell_directories(g, t, dir, len);
	tell_files(g, t, dir, len);
	assert_int_equal(index_inorder_sort(&g->o, t, NULL), 0);
	assert_int_equal(index_inorder_end(&g->o, t, &g->units, NULL), 0);
	g->at_work[t] = false;
}

/* False when there is nothing left to do. */
static bool step(struct game *g)
{
	unsigned first = (unsigned)random_below(NR_THREADS);

	for (unsigned i = 0; i < NR_THREADS; i++) {
		unsigned t = (first + i) % NR_THREADS;

		if (g->at_work[t])
			end(g, t);
		else if (g->units.nr > 0)
			begin(g, t);
		else
			continue;
		return true;
	}
	return false;
}

/* What was handed on rises, and with the rest it is all there is, once. */
static void check_all(struct game *g)
{
	struct test_list all = { 0 };

	assert_int_equal(index_inorder_rest(&g->o, SIZE_MAX, take_rest, g, NULL), 0);
	for (size_t i = 0; i < g->taken.nr + g->rest.nr; i++) {
		const struct test_entry *e =
			i < g->taken.nr ? &g->taken.entry[i] : &g->rest.entry[i - g->taken.nr];
		size_t before = (size_t)shoal_min(i, g->taken.nr);
		const struct test_entry *last = before ? &g->taken.entry[before - 1] : NULL;

		if (last && shoal_name_compare(last->name, last->len, e->name, e->len) >= 0)
			fail_msg("'%s' after '%s'", e->name, last->name);
		list_add(&all, e->name, e->len, e->size, 1);
	}
	list_sort(&all);
	assert_int_equal(g->taken.nr + g->rest.nr, g->tree.files.nr);
	for (size_t i = 0; i < all.nr; i++) {
		assert_string_equal(all.entry[i].name, g->tree.files.entry[i].name);
		assert_int_equal(all.entry[i].size, g->tree.files.entry[i].size);
	}
	list_release(&all);
	assert_null(g->o.first);
	assert_int_equal(g->o.used, 0);
}

static void everything_is_handed_on_in_order_whatever_the_threads_do(void **state)
{
	size_t most = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		struct game *g = game_new(tree_make(i % 7), MUCH_ROOM);

		while (step(g))
			if (random_below(3) > 0)
				assert_int_equal(hand_on(g, NULL), 0);
		assert_int_equal(hand_on(g, NULL), 0);
		assert_false(index_inorder_is_over(&g->o));
		assert_int_equal(g->taken.nr, g->tree.files.nr);
		most = (size_t)shoal_max(most, g->taken.nr);
		check_all(g);
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

		while (step(g)) {
			if (left-- == 0)
				index_inorder_stop(&g->o);
			assert_int_equal(hand_on(g, NULL), 0);
		}
		both += g->taken.nr > 0 && g->taken.nr < g->tree.files.nr;
		check_all(g);
		game_free(g);
	}
	assert_true(both > 100);
}

/* What was handed on rises, the rest comes after it, and both are what was told. */
static void check_told(struct game *g)
{
	const struct test_entry *last = NULL;
	struct test_list all = { 0 };

	assert_int_equal(index_inorder_rest(&g->o, SIZE_MAX, take_rest, g, NULL), 0);
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
		while (step(g))
			if (random_below(3) > 0)
				assert_int_equal(hand_on(g, NULL), 0);
		assert_int_equal(hand_on(g, NULL), 0);
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
	begin(g, 0);
	end(g, 0);
	for (unsigned i = 0; i < 3; i++)
		begin(g, i);
	end(g, 1);
	end(g, 2);
	assert_int_equal(hand_on(g, NULL), 0);
	assert_int_equal(g->taken.nr, 0);
	end(g, 0);
	assert_int_equal(hand_on(g, NULL), 0);
	assert_int_equal(g->taken.nr, 3);
	check_all(g);
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
	begin(g, 0);
	end(g, 0);
	begin(g, 0);
	for (size_t i = 1; i < nr; i++) {
		begin(g, 1);
		end(g, 1);
		assert_int_equal(hand_on(g, NULL), 0);
	}
	end(g, 0);
	assert_int_equal(hand_on(g, NULL), 0);
	return g;
}

static void it_is_over_when_too_much_waits(void **state)
{
	struct game *g = game_of_many(3, MUCH_ROOM);
	size_t one;

	(void)state;
	assert_false(index_inorder_is_over(&g->o));
	one = index_inorder_stretch_bytes(1, strlen("000000/file"));
	check_all(g);
	game_free(g);
	for (size_t i = 0; i < 2;
	     i++) { /* the last of three is the slow one, which does not wait */
		g = game_of_many(3, 3 * one - i);
		assert_int_equal(index_inorder_is_over(&g->o), i == 1);
		assert_int_equal(g->taken.nr, i == 1 ? 0 : 3);
		check_all(g);
		game_free(g);
	}
}

static void it_is_over_when_a_directory_has_too_many(void **state)
{
	static const size_t nr[] = { 1, 1000, INDEX_INORDER_UNITS_BYTES / 11,
				     INDEX_INORDER_UNITS_BYTES / 11 + 1 };

	(void)state;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(nr); i++) {
		struct index_inorder o = { .store = &store, .nr_threads = 1, .room = MUCH_ROOM };
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
		struct index_inorder o = { .store = &store,
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
		struct index_inorder o = { .store = &store, .nr_threads = 1 };
		size_t len = strlen(row[i].unit);

		assert_true(index_inorder_init(&o));
		index_inorder_begin(&o, 0, row[i].unit, len);
		assert_int_equal(index_inorder_is_over(&o), row[i].over);
		index_inorder_release(&o);
		o = (struct index_inorder){ .store = &store, .nr_threads = 1 };
		assert_true(index_inorder_init(&o));
		assert_int_equal(index_inorder_more(&o, 0, row[i].unit, len), !row[i].over);
		assert_int_equal(index_inorder_is_over(&o), row[i].over);
		index_inorder_release(&o);
	}
}

static void the_rest_comes_in_parts(void **state)
{
	(void)state;
	for (size_t most = 0; most <= 5; most++) {
		size_t one = index_inorder_stretch_bytes(1, strlen("000000/file"));
		struct game *g = game_of_many(5, 5 * one - 1); /* over with the last of them */

		assert_int_equal(g->taken.nr, 0);
		assert_int_equal(index_inorder_rest(&g->o, most, take_rest, g, NULL), 0);
		assert_int_equal(g->rest.nr, most);
		assert_int_equal(!g->o.first, most == 5);
		check_all(g);
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
		begin(g, t);
		assert_true(index_inorder_found(&g->o, t, found, nr_found));
	}
	for (unsigned t = 0; t < nr; t++) {
		assert_int_equal(hand_on(g, NULL), 0);
		assert_int_equal(g->taken.nr, 0);
		assert_int_equal(index_inorder_sort(&g->o, t, NULL), 0);
		assert_int_equal(index_inorder_end(&g->o, t, &g->units, NULL), 0);
	}
	assert_int_equal(hand_on(g, NULL), 0);
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
		struct index_inorder o = { .store = &store, .nr_threads = 1 };
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
		struct index_inorder o = { .store = &store, .nr_threads = 1, .room = MUCH_ROOM };
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
		struct index_inorder o = { .store = &store, .nr_threads = 2, .room = room - less };
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

static void it_is_over_when_too_much_is_gathered(void **state)
{
	struct index_inorder o = { .store = &store,
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
		while (rc == 0 && step(g))
			rc = hand_on(g, &err);
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
	begin(g, 0);
	end(g, 0);
	assert_int_equal(hand_on(g, &err), 0);
	assert_int_equal(g->taken.nr, 1);
	assert_int_equal(index_units_push(&g->units, "Da", 2, NULL), 0);
	begin(g, 0);
	end(g, 0);
	assert_int_equal(hand_on(g, &err), -EBADMSG);
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

/* ---- Walks of real directories ---- */

/* Make the tree below the folder of tests, where files are empty. */
static char *plant(const struct tree *t)
{
	char *root = strdup(test_path("tree"));

	assert_non_null(root);
	assert_int_equal(mkdir(root, 0700), 0);
	for (size_t i = 0; i < t->dirs.nr; i++) {
		char path[512];

		snprintf(path, sizeof(path), "%s/%s", root, t->dirs.entry[i].name);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	for (size_t i = 0; i < t->files.nr; i++) {
		char path[512];

		snprintf(path, sizeof(path), "%s/%s", root, t->files.entry[i].name);
		file_write(path, "", 0);
		t->files.entry[i].size = 0;
	}
	return root;
}

static void uproot(const struct tree *t, char *root)
{
	char path[512];

	for (size_t i = 0; i < t->files.nr; i++) {
		snprintf(path, sizeof(path), "%s/%s", root, t->files.entry[i].name);
		assert_int_equal(unlink(path), 0);
	}
	for (size_t i = t->dirs.nr; i-- > 0;) {
		snprintf(path, sizeof(path), "%s/%s", root, t->dirs.entry[i].name);
		assert_int_equal(rmdir(path), 0);
	}
	assert_int_equal(rmdir(root), 0);
	free(root);
}

/* List the tree into @g->taken and @g->rest: how the walk ended. */
static int walk(struct game *g, const char *root, unsigned threads, struct shoal_err *err)
{
	struct shoal_store *at = NULL;
	struct index_walk_options o = { .list.sizes = true,
					.nr_threads = threads,
					.tmp_dir = test_dir(),
					.take = take_rest,
					.self = g,
					.take_next = take_next,
					.next_self = g,
					.samples = 7,
					.next_memory = MUCH_ROOM };
	struct index_walk_state now = { 0 };
	struct index_walk *w = NULL;
	int rc = shoal_store_open(root, &at, err);

	o.store = at;
	if (rc == 0)
		rc = index_walk_start(&o, true, &w, err);
	while (rc == 0 && !now.idle)
		rc = index_walk_wait(w, 100000, &now, err);
	index_walk_free(w);
	shoal_store_close(at);
	if (rc == 0)
		assert_int_equal(now.nr_names, g->tree.files.nr);
	return rc;
}

static struct game *game_of_walk(struct tree t)
{
	struct game *g = allocate(1, sizeof(*g));

	g->tree = t;
	g->fail_at = SIZE_MAX;
	g->units.fd = -1;
	return g;
}

static void threads_hand_a_real_tree_on_in_order(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct game *g = game_of_walk(tree_make(3 + i % 4));
		char *root = plant(&g->tree);

		for (unsigned threads = 1; threads <= 8; threads *= 2) {
			struct shoal_err err = { "" };

			if (walk(g, root, threads, &err) < 0)
				fail_msg("%s", err.msg);
			assert_int_equal(g->rest.nr, 0);
			check_all(g);
			list_release(&g->taken);
			g->taken = (struct test_list){ 0 };
		}
		uproot(&g->tree, root);
		game_free(g);
	}
}

/* So many that they are told in parts; and more than are gathered: from there on the sorter has the
 * names. */
#define MANY     (STORE_FOUND_MAX + 1u)
#define TOO_MANY (INDEX_GATHERED_MAX + 1u)

static struct tree tree_with_a_large_one(unsigned nr)
{
	struct tree t = { 0 };

	for (unsigned i = 0; i < 30; i++)
		list_addf(&t.dirs, "%02u", i);
	for (unsigned i = 0; i < 30; i++)
		for (unsigned k = 0; k < (i == 15 ? nr : 20); k++)
			list_addf(&t.files, "%02u/%06u", i, k);
	list_sort(&t.files);
	return t;
}

static void a_directory_that_comes_in_parts_is_in_order(void **state)
{
	static const unsigned nr[] = { MANY, INDEX_GATHERED_MAX };

	(void)state;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(nr); i++) {
		struct game *g = game_of_walk(tree_with_a_large_one(nr[i]));
		char *root = plant(&g->tree);
		struct shoal_err err = { "" };

		/* Nobody is idle, who would get a part of it. */
		if (walk(g, root, /* threads= */ 1, &err) < 0)
			fail_msg("%s", err.msg);
		assert_int_equal(g->rest.nr, 0);
		check_all(g);
		uproot(&g->tree, root);
		game_free(g);
	}
}

static void a_large_directory_and_what_follows_go_to_the_sorter(void **state)
{
	struct tree t = tree_with_a_large_one(TOO_MANY);
	char *root = plant(&t);

	(void)state;
	for (unsigned threads = 1; threads <= 4; threads++) {
		struct game *g = game_of_walk(t);
		struct shoal_err err = { "" };

		if (walk(g, root, threads, &err) < 0)
			fail_msg("%s", err.msg);
		assert_true(g->taken.nr <= 15 * 20);
		if (threads == 1) /* nobody is ahead of it, or behind */
			assert_int_equal(g->taken.nr, 15 * 20);
		assert_true(g->rest.nr >= TOO_MANY);
		check_all(g);
		g->tree = (struct tree){ 0 };
		game_free(g);
	}
	uproot(&t, root);
	list_release(&t.files);
	list_release(&t.dirs);
}

/* Its root, part of which is another's or the sorter's, goes on until somebody is at "d" in it. */
struct slow_store {
	struct shoal_store base;
	bool by_unit; /* else it has more than are gathered */
	bool odd;
	int begun; /* atomic */
};

static int slow_list(struct shoal_store *s, const struct store_list_options *options,
		     const void *unit, size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct slow_store *slow = (struct slow_store *)s;
	unsigned nr = slow->by_unit ? 0 : TOO_MANY;
	int rc;

	(void)options;
	if (len > 0) {
		if (memcmp(unit, "Dd", 2) == 0)
			__atomic_store_n(&slow->begun, 1, __ATOMIC_RELAXED);
		return 0;
	}
	rc = sink->more(sink, "Dd", 2, err);
	sink->whole = false;
	if (rc == 0 && slow->by_unit)
		rc = sink->more(sink, "S", 2, err);
	for (; nr > 0 && rc == 0; nr--)
		rc = sink->found(sink, &entry_a, 1, err);
	for (unsigned ms = 0; rc == 0 && !__atomic_load_n(&slow->begun, __ATOMIC_RELAXED); ms++) {
		if (ms == 10000)
			rc = shoal_fail(err, -ETIMEDOUT, "nobody has begun");
		usleep(1000);
	}
	return rc;
}

static void directories_in_a_large_one_need_not_wait_for_its_end(void **state)
{
	static const struct store_ops slow_ops = { .kind = "slow",
						   .unit_dir = store_posix_unit_dir,
						   .list = slow_list };

	(void)state;
	for (int by_unit = 0; by_unit < 2; by_unit++) {
		struct slow_store slow = { .base.ops = &slow_ops, .by_unit = by_unit };
		struct game *g = game_of_walk((struct tree){ 0 });
		struct index_walk_options o = { .store = &slow.base,
						.nr_threads = 2,
						.tmp_dir = test_dir(),
						.take = take_rest,
						.self = g,
						.take_next = take_next,
						.next_self = g,
						.next_memory = MUCH_ROOM };
		struct index_walk_state now = { 0 };
		struct index_walk *w = NULL;
		struct shoal_err err = { "" };

		assert_int_equal(index_walk_start(&o, true, &w, &err), 0);
		while (!now.idle)
			if (index_walk_wait(w, 100000, &now, &err) < 0)
				fail_msg("%s", err.msg);
		index_walk_free(w);
		assert_int_equal(g->rest.nr, by_unit ? 0 : 2); /* what was gathered, and one */
		game_free(g);
	}
}

/* Directories of a file each, the first of which ends when the others have begun; that may be part
 * of a larger one. */
#define NR_DIRS 600

static int many_list(struct shoal_store *s, const struct store_list_options *options,
		     const void *unit, size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct slow_store *slow = (struct slow_store *)s;
	bool first = len > 0 && memcmp(unit, "D000", 4) == 0;
	char name[16];
	int rc = 0;

	(void)options;
	for (int i = 0; len == 0 && i < NR_DIRS && rc == 0; i++) {
		snprintf(name, sizeof(name), "D%03d", i);
		rc = sink->more(sink, name, 4, err);
	}
	if (len == 0)
		return rc;
	__atomic_fetch_add(&slow->begun, 1, __ATOMIC_RELAXED);
	while (first && __atomic_load_n(&slow->begun, __ATOMIC_RELAXED) < NR_DIRS)
		usleep(1000);
	snprintf(name, sizeof(name), "%.3s/f", (const char *)unit + 1);
	if (first && slow->odd) /* it does not lie there, which ends order */
		name[3] = '-';
	sink->whole = true;
	return sink->found(sink, &(struct store_entry){ .name = name, .len = 5 }, 1, err);
}

static int take_slowly(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	(void)e;
	(void)err;
	__atomic_fetch_add((int *)self, 1, __ATOMIC_RELAXED);
	usleep(20000);
	return 0;
}

static void what_waits_is_not_handed_on_at_an_early_end(void **state)
{
	static const struct store_ops many_ops = { .kind = "many",
						   .unit_dir = store_posix_unit_dir,
						   .list = many_list };
	struct slow_store slow = { .base.ops = &many_ops };
	int nr_taken = 0;
	struct index_walk_options o = { .store = &slow.base,
					.nr_threads = 2,
					.tmp_dir = test_dir(),
					.take = take_rest,
					.take_next = take_slowly,
					.next_self = &nr_taken,
					.next_memory = MUCH_ROOM };
	struct index_walk *w = NULL;

	(void)state;
	assert_int_equal(index_walk_start(&o, true, &w, NULL), 0);
	while (__atomic_load_n(&nr_taken, __ATOMIC_RELAXED) == 0)
		usleep(1000);
	index_walk_free(w);
	assert_true(nr_taken < NR_DIRS);
}

/* The owner gets it a part at a time, and is not told that it is idle before the last. */
static void what_has_waited_for_nothing_goes_to_the_sorter(void **state)
{
	static const struct store_ops many_ops = { .kind = "many",
						   .unit_dir = store_posix_unit_dir,
						   .list = many_list };
	struct slow_store slow = { .base.ops = &many_ops, .odd = true };
	struct game *g = game_of_walk((struct tree){ 0 });
	struct index_walk_options o = { .store = &slow.base,
					.nr_threads = 2,
					.tmp_dir = test_dir(),
					.take = take_rest,
					.self = g,
					.take_next = take_next,
					.next_self = g,
					.next_memory = MUCH_ROOM };
	struct index_walk_state now = { 0 };
	struct index_walk *w = NULL;
	unsigned nr_parts = 0;

	(void)state;
	assert_int_equal(index_walk_start(&o, true, &w, NULL), 0);
	for (; !now.idle; nr_parts++)
		assert_int_equal(index_walk_wait(w, 10000000, &now, NULL), 0);
	index_walk_free(w);
	assert_true(nr_parts > 2);
	assert_int_equal(g->taken.nr, 0);
	assert_int_equal(g->rest.nr, NR_DIRS);
	list_sort(&g->rest);
	assert_int_equal(g->rest.nr, NR_DIRS);
	game_free(g);
}

static void who_cannot_take_what_is_next_ends_the_walk_with_his_words(void **state)
{
	static const size_t at[] = { 0, 1, 100, 299 };

	(void)state;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(at); i++) {
		struct game *g = game_of_walk(tree_with_a_large_one(MANY));
		char *root = plant(&g->tree);
		struct shoal_err err = { "" };

		g->fail_at = at[i];
		assert_int_equal(walk(g, root, /* threads= */ 1, &err), -ENOSPC);
		assert_string_equal(err.msg, "no room");
		assert_int_equal(g->taken.nr, at[i]);
		uproot(&g->tree, root);
		game_free(g);
	}
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
		cmocka_unit_test(it_is_over_when_too_much_is_gathered),
		cmocka_unit_test(what_is_gathered_is_no_room_for_what_waits),
		cmocka_unit_test(it_is_over_when_threads_hold_too_many_directories),
		cmocka_unit_test(each_entry_may_not_be_taken),
		cmocka_unit_test(what_does_not_follow_is_not_handed_on),
		cmocka_unit_test(what_is_sorted_comes_after_what_was_put_in_order),
		cmocka_unit_test(threads_hand_a_real_tree_on_in_order),
		cmocka_unit_test(a_directory_that_comes_in_parts_is_in_order),
		cmocka_unit_test(a_large_directory_and_what_follows_go_to_the_sorter),
		cmocka_unit_test(directories_in_a_large_one_need_not_wait_for_its_end),
		cmocka_unit_test(what_waits_is_not_handed_on_at_an_early_end),
		cmocka_unit_test(what_has_waited_for_nothing_goes_to_the_sorter),
		cmocka_unit_test(who_cannot_take_what_is_next_ends_the_walk_with_his_words),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
