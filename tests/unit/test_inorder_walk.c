/*
 * Goal: a walk of several threads hands a real tree on in order, up to the first directory that is
 * too large; and whatever ends it early, nobody waits for ever and nothing is lost.
 */
#include "index/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inorder_game.h"
#include "store/posix.h"

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

static struct game *game_of_walk(struct tree t)
{
	struct game *g = allocate(1, sizeof(*g));

	g->tree = t;
	g->fail_at = SIZE_MAX;
	g->units.fd = -1;
	return g;
}

/* A walk of what @store has into @g->taken and @g->rest. */
static struct index_walk_options options_for(struct shoal_store *at, struct game *g,
					     unsigned threads)
{
	return (struct index_walk_options){ .store = at,
					    .nr_threads = threads,
					    .tmp_dir = test_dir(),
					    .take = game_take_rest,
					    .self = g,
					    .take_next = game_take_next,
					    .next_self = g,
					    .samples = 7,
					    .next_memory = MUCH_ROOM };
}

/* To its end: how it ended, and after how many waits. */
static int walk_to_end(const struct index_walk_options *o, struct index_walk_state *ret_state,
		       unsigned *ret_waits, struct shoal_err *err)
{
	struct index_walk *w = NULL;
	int rc = index_walk_start(o, true, &w, err);

	*ret_state = (struct index_walk_state){ 0 };
	for (*ret_waits = 0; rc == 0 && !ret_state->idle; (*ret_waits)++)
		rc = index_walk_wait(w, 10000000, ret_state, err);
	index_walk_free(w);
	return rc;
}

/* List the tree into @g->taken and @g->rest: how the walk ended. */
static int walk(struct game *g, const char *root, unsigned threads, struct shoal_err *err)
{
	struct shoal_store *at = NULL;
	struct index_walk_options o;
	struct index_walk_state now;
	unsigned waits;
	int rc = shoal_store_open(root, &at, err);

	o = options_for(at, g, threads);
	o.list.sizes = true;
	if (rc == 0)
		rc = walk_to_end(&o, &now, &waits, err);
	shoal_store_close(at);
	if (rc == 0)
		assert_int_equal(now.nr_names, g->tree.files.nr);
	return rc;
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
			game_check(g);
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
		game_check(g);
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
		game_check(g);
		g->tree = (struct tree){ 0 };
		game_free(g);
	}
	uproot(&t, root);
	list_release(&t.files);
	list_release(&t.dirs);
}

/* It tells one of several parts of a directory, and then the disk fails. */
static int broken_list(struct shoal_store *s, const struct store_list_options *options,
		       const void *unit, size_t len, struct store_sink *sink, struct shoal_err *err)
{
	int rc;

	(void)s;
	(void)options;
	(void)unit;
	(void)len;
	sink->whole = false;
	rc = sink->found(sink, &(struct store_entry){ .name = "a", .len = 1 }, 1, err);
	return rc < 0 ? rc : shoal_fail(err, -EIO, "the disk is broken");
}

static void an_error_after_a_part_of_a_directory_ends_the_walk(void **state)
{
	static const struct store_ops broken_ops = { .kind = "broken",
						     .unit_dir = store_posix_unit_dir,
						     .list = broken_list };
	struct shoal_store broken = { .ops = &broken_ops };
	struct game *g = game_of_walk((struct tree){ 0 });
	struct index_walk_options o = options_for(&broken, g, 1);
	struct index_walk_state now;
	struct shoal_err err = { "" };
	unsigned waits;

	(void)state;
	assert_int_equal(walk_to_end(&o, &now, &waits, &err), -EIO);
	assert_string_equal(err.msg, "the disk is broken");
	game_free(g);
}

/* Its root, part of which is another's or the sorter's, goes on until somebody is at "d" in it. */
struct slow_store {
	struct shoal_store base;
	bool by_unit; /* else it has more than are gathered */
	bool odd;
	int begun; /* atomic */
};

static const struct store_entry some_entry = { .name = "a", .len = 1 };

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
		rc = sink->found(sink, &some_entry, 1, err);
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
		struct index_walk_options o = options_for(&slow.base, g, 2);
		struct index_walk_state now;
		struct shoal_err err = { "" };
		unsigned waits;

		if (walk_to_end(&o, &now, &waits, &err) < 0)
			fail_msg("%s", err.msg);
		assert_int_equal(g->rest.nr, by_unit ? 0 : 2); /* what was gathered, and one */
		game_free(g);
	}
}

/* Directories of some files each, the first of which ends when the others have begun; that may be
 * part of a larger one. */
#define NR_DIRS  600
#define NR_FILES 60 /* of which no number is handed over at once */

static int many_list(struct shoal_store *s, const struct store_list_options *options,
		     const void *unit, size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct slow_store *slow = (struct slow_store *)s;
	bool first = len > 0 && memcmp(unit, "D000", 4) == 0;
	struct store_entry found[NR_FILES];
	char name[NR_FILES][16];
	int rc = 0;

	(void)options;
	for (int i = 0; len == 0 && i < NR_DIRS && rc == 0; i++) {
		snprintf(name[0], sizeof(name[0]), "D%03d", i);
		rc = sink->more(sink, name[0], 4, err);
	}
	if (len == 0)
		return rc;
	__atomic_fetch_add(&slow->begun, 1, __ATOMIC_RELAXED);
	while (first && __atomic_load_n(&slow->begun, __ATOMIC_RELAXED) < NR_DIRS)
		usleep(1000);
	for (int i = 0; i < NR_FILES; i++) {
		snprintf(name[i], sizeof(name[i]), "%.3s/%02d", (const char *)unit + 1, i);
		found[i] = (struct store_entry){ .name = name[i], .len = 6 };
	}
	if (first && slow->odd) /* it does not lie there, which ends order */
		name[0][3] = '-';
	sink->whole = true;
	return sink->found(sink, found, NR_FILES, err);
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
					.take = game_take_rest,
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
	struct index_walk_options o = options_for(&slow.base, g, 2);
	struct index_walk_state now;
	unsigned nr_parts;

	(void)state;
	assert_int_equal(walk_to_end(&o, &now, &nr_parts, NULL), 0);
	assert_true(nr_parts > 2);
	assert_int_equal(g->taken.nr, 0);
	assert_int_equal(g->rest.nr, NR_DIRS * NR_FILES);
	list_sort(&g->rest);
	assert_int_equal(g->rest.nr, NR_DIRS * NR_FILES);
	game_free(g);
}

/* Directories of a file each, listed faster than they are taken. */
#define NR_QUICK 100

static int quick_list(struct shoal_store *s, const struct store_list_options *options,
		      const void *unit, size_t len, struct store_sink *sink, struct shoal_err *err)
{
	char name[16];
	int rc = 0;

	(void)s;
	(void)options;
	for (int i = 0; len == 0 && i < NR_QUICK && rc == 0; i++) {
		snprintf(name, sizeof(name), "D%03d", i);
		rc = sink->more(sink, name, 4, err);
	}
	if (len == 0)
		return rc;
	usleep(1000);
	snprintf(name, sizeof(name), "%.3s/f", (const char *)unit + 1);
	sink->whole = true;
	return sink->found(sink, &(struct store_entry){ .name = name, .len = 5 }, 1, err);
}

static int take_in_its_own_time(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	usleep(5000);
	return game_take_next(self, e, err);
}

/* How many came too late to go on in order. */
static size_t list_faster_than_they_are_taken(void)
{
	static const struct store_ops quick_ops = { .kind = "quick",
						    .unit_dir = store_posix_unit_dir,
						    .list = quick_list };
	struct shoal_store quick = { .ops = &quick_ops };
	struct game *g = game_of_walk((struct tree){ 0 });
	struct index_walk_options o = options_for(&quick, g, 3);
	struct index_walk_state now;
	unsigned waits;
	size_t late;

	o.take_next = take_in_its_own_time;
	o.next_memory = NR_QUICK / 2 * index_inorder_stretch_bytes(1, 5);
	assert_int_equal(walk_to_end(&o, &now, &waits, NULL), 0);
	late = g->rest.nr;
	assert_int_equal(g->taken.nr + late, NR_QUICK);
	game_free(g);
	return late;
}

static void threads_wait_while_handing_on_cannot_keep_up(void **state)
{
	size_t late = NR_QUICK;

	(void)state;
	/* On a busy machine a thread may not get to run, and what others find waits for it. */
	for (unsigned i = 0; i < 10 && late > 0; i++)
		late = list_faster_than_they_are_taken();
	assert_int_equal(late, 0);
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
		cmocka_unit_test(threads_hand_a_real_tree_on_in_order),
		cmocka_unit_test(a_directory_that_comes_in_parts_is_in_order),
		cmocka_unit_test(a_large_directory_and_what_follows_go_to_the_sorter),
		cmocka_unit_test(directories_in_a_large_one_need_not_wait_for_its_end),
		cmocka_unit_test(what_waits_is_not_handed_on_at_an_early_end),
		cmocka_unit_test(what_has_waited_for_nothing_goes_to_the_sorter),
		cmocka_unit_test(an_error_after_a_part_of_a_directory_ends_the_walk),
		cmocka_unit_test(threads_wait_while_handing_on_cannot_keep_up),
		cmocka_unit_test(who_cannot_take_what_is_next_ends_the_walk_with_his_words),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
