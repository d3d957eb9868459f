/*
 * Goal: a walk of several threads hands a real tree on in order, up to the first directory that is
 * too large; and whatever ends it early, nobody waits for ever and nothing is lost.
 */
#include "index/walk.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sequence_game.h"
#include "store/posix/posix.h"

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
static struct index_walk_options options_for(struct store *at, struct game *g, unsigned threads)
{
	return (struct index_walk_options){ .store = at,
					    .nr_threads = threads,
					    .tmp_dir = test_dir(),
					    .take = game_take_rest,
					    .self = g,
					    .take_next = game_take_next,
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
	struct store *at = NULL;
	struct index_walk_options o;
	struct index_walk_state now;
	unsigned waits;
	int rc = store_open(root, NULL, &at, err);

	o = options_for(at, g, threads);
	o.list.sizes = true;
	if (rc == 0)
		rc = walk_to_end(&o, &now, &waits, err);
	store_close(at);
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

/* So many that they are told in parts; and more than a thread collects: from there on the sorter
 * has the names. */
#define MANY     (STORE_FOUND_MAX + 1u)
#define TOO_MANY (INDEX_DIR_MAX + 1u)

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
	static const unsigned nr[] = { MANY, INDEX_DIR_MAX };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nr); i++) {
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
static int broken_list(struct store *s, const struct store_list_options *options, const void *unit,
		       size_t len, struct store_sink *sink, struct shoal_err *err)
{
	int rc;

	(void)s;
	(void)options;
	(void)unit;
	(void)len;
	sink->whole = false;
	rc = sink->found(sink, &(struct store_entry){ .name = "a", .len = 1 }, 1, err);
	return rc < 0 ? rc : err_set(err, -EIO, "the disk is broken");
}

static void an_error_after_a_part_of_a_directory_ends_the_walk(void **state)
{
	static const struct store_ops broken_ops = { .kind = "broken",
						     .unit = store_posix_unit,
						     .unit_start = store_posix_unit_start,
						     .list = broken_list };
	struct store broken = { .ops = &broken_ops };
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
	struct store base;
	bool by_unit; /* else it has more than a thread collects */
	bool odd;
	int begun; /* atomic */
};

static const struct store_entry some_entry = { .name = "a", .len = 1 };

static int slow_list(struct store *s, const struct store_list_options *options, const void *unit,
		     size_t len, struct store_sink *sink, struct shoal_err *err)
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
	rc = sink->add_unit(sink, "Dd/", 3, err);
	sink->whole = false;
	if (rc == 0 && slow->by_unit)
		rc = sink->add_unit(sink, "S", 2, err);
	for (; nr > 0 && rc == 0; nr--)
		rc = sink->found(sink, &some_entry, 1, err);
	for (unsigned ms = 0; rc == 0 && !__atomic_load_n(&slow->begun, __ATOMIC_RELAXED); ms++) {
		if (ms == 10000)
			rc = err_set(err, -ETIMEDOUT, "nobody has begun");
		usleep(1000);
	}
	return rc;
}

static void directories_in_a_large_one_need_not_wait_for_its_end(void **state)
{
	static const struct store_ops slow_ops = { .kind = "slow",
						   .unit = store_posix_unit,
						   .unit_start = store_posix_unit_start,
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
		/* All have one name: those that waited together are dropped but for the last. */
		assert_int_equal(g->rest.nr, by_unit ? 0 : 2);
		assert_int_equal(g->rest.nr + now.nr_repeated, by_unit ? 0 : TOO_MANY);
		game_free(g);
	}
}

/* Directories of some files each, the first of which ends when the others have begun; that may be
 * part of a larger one. */
#define NR_DIRS  600
#define NR_FILES 60 /* of which no number is handed over at once */

static int many_list(struct store *s, const struct store_list_options *options, const void *unit,
		     size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct slow_store *slow = (struct slow_store *)s;
	bool first = len > 0 && memcmp(unit, "D000", 4) == 0;
	struct store_entry found[NR_FILES];
	char name[NR_FILES][16];
	int rc = 0;

	(void)options;
	for (int i = 0; len == 0 && i < NR_DIRS && rc == 0; i++) {
		snprintf(name[0], sizeof(name[0]), "D%03d/", i);
		rc = sink->add_unit(sink, name[0], 5, err);
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

static int take_slowly(void *self, const struct sort_entry *e, struct shoal_err *err)
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
						   .unit = store_posix_unit,
						   .unit_start = store_posix_unit_start,
						   .list = many_list };
	struct slow_store slow = { .base.ops = &many_ops };
	int nr_taken = 0;
	struct index_walk_options o = { .store = &slow.base,
					.nr_threads = 2,
					.tmp_dir = test_dir(),
					.take = game_take_rest,
					.take_next = take_slowly,
					.self = &nr_taken,
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
						   .unit = store_posix_unit,
						   .unit_start = store_posix_unit_start,
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

static int quick_list(struct store *s, const struct store_list_options *options, const void *unit,
		      size_t len, struct store_sink *sink, struct shoal_err *err)
{
	char name[16];
	int rc = 0;

	(void)s;
	(void)options;
	for (int i = 0; len == 0 && i < NR_QUICK && rc == 0; i++) {
		snprintf(name, sizeof(name), "D%03d/", i);
		rc = sink->add_unit(sink, name, 5, err);
	}
	if (len == 0)
		return rc;
	usleep(1000);
	snprintf(name, sizeof(name), "%.3s/f", (const char *)unit + 1);
	sink->whole = true;
	return sink->found(sink, &(struct store_entry){ .name = name, .len = 5 }, 1, err);
}

static int take_in_its_own_time(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	usleep(5000);
	return game_take_next(self, e, err);
}

/* How many came too late to go on in order. */
static size_t list_faster_than_they_are_taken(void)
{
	static const struct store_ops quick_ops = { .kind = "quick",
						    .unit = store_posix_unit,
						    .unit_start = store_posix_unit_start,
						    .list = quick_list };
	struct store quick = { .ops = &quick_ops };
	struct game *g = game_of_walk((struct tree){ 0 });
	struct index_walk_options o = options_for(&quick, g, 3);
	struct index_walk_state now;
	unsigned waits;
	size_t late;

	o.take_next = take_in_its_own_time;
	o.next_memory = NR_QUICK / 2 * 128; /* one takes 80 bytes or so */
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

/* A store of names 00000 to 09999, whose units are ranges "K" LO HI (not with HI), as of a bucket:
 * they are listed page by page, and cut while others are idle. */
#define NR_KEYS  10000u
#define PAGE     50u
#define KEY_LEN  5u
#define UNIT_LEN (1u + 2u * KEY_LEN)

struct key_store {
	struct store base;
	pthread_mutex_t lock; /* of what is cut, as a bucket's ranges have one */
};

static size_t key_unit(unsigned lo, unsigned hi, char *unit)
{
	return (size_t)snprintf(unit, UNIT_LEN + 1, "K%05u%05u", lo, hi);
}

/* Ranges start at multiples of ten: four digits of LO come before it, and after all names below. */
static bool key_start(struct store *s, const void *unit, size_t len, const char **ret_name,
		      size_t *ret_len)
{
	(void)s;
	*ret_name = len > 0 ? (const char *)unit + 1 : "";
	*ret_len = len > 0 ? KEY_LEN - 1 : 0; /* it has four digits of LO, and so is before it */
	return true;
}

static int list_keys(struct store *s, const struct store_list_options *options, const void *unit,
		     size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct key_store *keys = (struct key_store *)s;
	unsigned lo = 0, hi = NR_KEYS;
	int rc = 0;

	(void)options;
	if (len > 0)
		assert_int_equal(sscanf(unit, "K%5u%5u", &lo, &hi), 2);
	while (lo < hi && rc == 0) {
		unsigned nr = (unsigned)u64_min(PAGE, hi - lo), middle;
		struct store_entry e[PAGE];
		char name[PAGE][KEY_LEN + 1], rest[UNIT_LEN + 1];

		for (unsigned i = 0; i < nr; i++) {
			snprintf(name[i], sizeof(name[i]), "%05u", lo + i);
			e[i] = (struct store_entry){ .name = name[i], .len = KEY_LEN, .size = i };
		}
		sink->whole = false;
		rc = sink->found(sink, e, nr, err);
		lo += nr;
		pthread_mutex_lock(&keys->lock);
		middle = lo + (hi - lo) / 20 * 10; /* at a multiple of ten, as all ranges start */
		if (rc == 0 && sink->nr_idle(sink) > 0 && middle > lo && middle < hi) {
			unsigned two = middle + (hi - middle) / 20 * 10;

			if (two > middle) /* the lower first, so that it is not the newest */
				rc = sink->add_unit(sink, rest, key_unit(middle, two, rest), err);
			if (rc == 0)
				rc = sink->add_unit(sink, rest, key_unit(two, hi, rest), err);
			hi = middle;
		}
		if (rc == 0 && lo < hi && sink->remaining)
			sink->remaining(sink, rest, key_unit(lo, hi, rest));
		pthread_mutex_unlock(&keys->lock);
	}
	return rc;
}

static const struct store_ops key_ops = { .kind = "keys",
					  .unit_start = key_start,
					  .list = list_keys };

static void pages_of_ranges_are_handed_on_in_order(void **state)
{
	(void)state;
	for (unsigned threads = 1; threads <= 8; threads *= 2) {
		for (unsigned small = 0; small < 2; small++) {
			struct key_store keys = { .base.ops = &key_ops,
						  .lock = PTHREAD_MUTEX_INITIALIZER };
			struct game *g = game_of_walk((struct tree){ 0 });
			struct index_walk_options o = options_for(&keys.base, g, threads);
			struct index_walk_state now;
			struct shoal_err err = { "" };
			unsigned waits;

			if (small) /* too little for the pages of several ranges to wait in */
				o.next_memory = 8u << 10;
			if (walk_to_end(&o, &now, &waits, &err) < 0)
				fail_msg("%s", err.msg);
			assert_int_equal(now.nr_names, NR_KEYS);
			assert_int_equal(g->taken.nr + g->rest.nr, NR_KEYS);
			if (!small || threads == 1)
				assert_int_equal(g->rest.nr, 0);
			for (size_t i = 0; i < NR_KEYS; i++)
				list_addf(&g->tree.files, "%05zu", i);
			for (size_t i = 0; i < NR_KEYS; i++)
				g->tree.files.entry[i].size = i % PAGE;
			for (size_t i = 0; i < g->taken.nr; i++)
				g->taken.entry[i].size = i % PAGE;
			for (size_t i = 0; i < g->rest.nr; i++)
				g->rest.entry[i].size =
					strtoul(g->rest.entry[i].name, NULL, 10) % PAGE;
			game_check(g);
			game_free(g);
		}
	}
}

static void who_cannot_take_what_is_next_ends_the_walk_with_his_words(void **state)
{
	static const size_t at[] = { 0, 1, 100, 299 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
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
		cmocka_unit_test(pages_of_ranges_are_handed_on_in_order),
		cmocka_unit_test(threads_wait_while_handing_on_cannot_keep_up),
		cmocka_unit_test(who_cannot_take_what_is_next_ends_the_walk_with_his_words),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
