/* Goal: a list delivers the selected names in order, from directories of any shape, from catalogs
 * and from several lists, and makes catalogs, differences and figures of them. */
#include "list/list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"
#include "stack.h"

/* ---- Trees ---- */

/* Make the file @name with @size bytes, and the folders that it is in. */
static void make_file(const char *name, uint64_t size)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
	for (char *p = path + strlen(test_dir()) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		(void)!mkdir(path, 0700);
		*p = '/';
	}
	fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

/* Names whose order is easily got wrong: a slash sorts after '-' and '.', and before '0'. */
static struct test_list awkward_tree(void)
{
	static const char *const part[] = { "a", "a-b", "a.c", "a0", "b", "\x01", "\xff", "z z" };
	struct test_list l = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(part); i++) {
		list_addf(&l, "%s.file", part[i]);
		for (size_t k = 0; k < ARRAY_LEN(part); k++) {
			list_addf(&l, "%s/%s.file", part[i], part[k]);
			if (i % 2)
				list_addf(&l, "%s/%s/deep/er/%zu", part[i], part[k], i * k);
		}
	}
	list_sort(&l);
	for (size_t i = 0; i < l.nr; i++) {
		l.entry[i].size = i * 37 % 101;
		l.entry[i].samples = 1;
		make_file(l.entry[i].name, l.entry[i].size);
	}
	return l;
}

/* Remove it again. */
static void remove_tree(struct test_list *l)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s'/*", test_dir());
	assert_int_equal(system(command), 0);
	list_release(l);
}

static struct shoal_list *open_tree(const struct shoal_list_options *o,
				    const struct list_limits *limits)
{
	struct shoal_err err = { "" };
	struct shoal_list *list = NULL;
	struct store *store;

	assert_int_equal(store_open(test_dir(), NULL, &store, &err), 0);
	if (list_store_open(store, o, limits, &list, &err) < 0)
		fail_msg("%s", err.msg);
	return list;
}

/* That the rest of @list is the entries of @l from @from on that are before @end. */
static void check_rest(struct shoal_list *list, const struct test_list *l, size_t from, size_t end)
{
	const struct shoal_entry *e;
	struct shoal_err err = { "" };
	int rc;

	while ((rc = shoal_list_next(list, &e, &err)) > 0) {
		if (from >= end)
			fail_msg("'%s' is not expected", e->name);
		assert_string_equal(e->name, l->entry[from].name);
		assert_int_equal(e->len, l->entry[from].len);
		assert_int_equal(e->size, l->entry[from].size);
		assert_int_equal(e->samples, l->entry[from].samples);
		from++;
	}
	if (rc < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(from, end);
	assert_int_equal(shoal_list_next(list, &e, &err), 0); /* and it stays at the end */
}

static const struct list_limits tiny = {
	.directory = 1, .ahead = 1, .sorter = 256u << 10, .interval = 1
};

/* Directories in memory and in files, listed by one thread and by many. */
static void a_tree_comes_in_the_order_of_names(void **state)
{
	static const unsigned threads[] = { 1, 2, 16 };
	const struct list_limits *limits[] = { &list_default_limits, &tiny };
	struct test_list l = awkward_tree();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
			struct shoal_list_options o = { .nr_threads = threads[i] };
			struct shoal_list *list = open_tree(&o, limits[k]);

			check_rest(list, &l, 0, l.nr);
			shoal_list_close(list);
		}
	remove_tree(&l);
}

static void a_list_may_be_closed_at_any_point(void **state)
{
	const struct list_limits *limits[] = { &list_default_limits, &tiny };
	struct test_list l = awkward_tree();

	(void)state;
	for (size_t nr = 0; nr < l.nr; nr += 7)
		for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
			struct shoal_list_options o = { .nr_threads = 4 };
			struct shoal_list *list = open_tree(&o, limits[k]);
			const struct shoal_entry *e;

			for (size_t i = 0; i < nr; i++)
				assert_int_equal(shoal_list_next(list, &e, NULL), 1);
			shoal_list_close(list);
		}
	remove_tree(&l);
}

/* Bounds that are names, and that are between names, inside and outside of folders. */
static void bounds_leave_the_names_between_them(void **state)
{
	struct test_list l = awkward_tree();
	char after[64], before[64];

	(void)state;
	for (size_t i = 0; i < 300; i++) {
		size_t from = random_below(l.nr), end = from + random_below(l.nr - from) + 1;
		struct shoal_list_options o = { .select = { .start_after = after },
						.nr_threads = 3 };
		struct shoal_list *list;
		bool exact = i % 2;

		snprintf(after, sizeof(after), "%s%s", l.entry[from].name, exact ? "" : "!");
		if (end < l.nr) {
			snprintf(before, sizeof(before), "%s", l.entry[end].name);
			o.select.end_before = before;
		}
		list = open_tree(&o, &list_default_limits);
		check_rest(list, &l, from + 1, end < l.nr ? end : l.nr);
		shoal_list_close(list);
	}
	remove_tree(&l);
}

/* A directory that lies outside of the bounds is not read: here it cannot be. */
static void what_is_outside_of_the_bounds_is_not_read(void **state)
{
	struct shoal_list_options o = { .select = { .start_after = "b", .end_before = "c" } };
	struct shoal_list *list;
	struct test_list l = { 0 };
	struct store *store;
	struct store_fault fault = { .op = STORE_LIST, .nth = 3, .rc = -EIO };
	struct shoal_err err = { "" };

	(void)state;
	make_file("a/1", 0);
	make_file("b/1", 0);
	make_file("c/1", 0);
	list_add(&l, "b/1", 3, 0, 1);
	assert_int_equal(store_open(test_dir(), NULL, &store, &err), 0);
	assert_int_equal(store_fault_new(store, &fault, 1, &store, &err), 0);
	assert_int_equal(list_store_open(store, &o, &list_default_limits, &list, &err), 0);
	check_rest(list, &l, 0, 1); /* the root and b: the third would fail */
	shoal_list_close(list);
	remove_tree(&l);
}

static void an_error_of_a_directory_ends_the_list(void **state)
{
	struct test_list l = awkward_tree();

	(void)state;
	for (unsigned threads = 1; threads <= 4; threads += 3)
		for (uint64_t nth = 1; nth < 12; nth++) {
			struct shoal_list_options o = { .nr_threads = threads };
			struct store_fault fault = {
				.op = STORE_LIST, .nth = nth, .count = 1, .rc = -EIO
			};
			const struct shoal_entry *e;
			struct shoal_err err = { "" };
			struct shoal_list *list;
			struct store *store;
			int rc;

			assert_int_equal(store_open(test_dir(), NULL, &store, &err), 0);
			assert_int_equal(store_fault_new(store, &fault, 1, &store, &err), 0);
			assert_int_equal(list_store_open(store, &o, &tiny, &list, &err), 0);
			while ((rc = shoal_list_next(list, &e, &err)) > 0)
				continue;
			assert_int_equal(rc, -EIO);
			assert_true(err.msg[0]);
			assert_int_equal(shoal_list_next(list, &e, &err), -EIO);
			shoal_list_close(list);
		}
	remove_tree(&l);
}

static void an_interrupted_list_says_so(void **state)
{
	int stop = 0;
	struct shoal_list_options o = { .stop = &stop };
	struct test_list l = awkward_tree();
	struct shoal_list *list = open_tree(&o, &list_default_limits);
	const struct shoal_entry *e;
	int rc;

	(void)state;
	assert_int_equal(shoal_list_next(list, &e, NULL), 1);
	stop = 1;
	while ((rc = shoal_list_next(list, &e, NULL)) > 0)
		continue;
	assert_int_equal(rc, -ECANCELED);
	shoal_list_close(list);
	remove_tree(&l);
}

static int wants_to_stop(void *self)
{
	return ++*(int *)self > 0;
}

/* By the function that is called while a list takes long, too. */
static void a_list_asks_whether_to_stop(void **state)
{
	struct test_list l = awkward_tree();
	struct shoal_list_options o = { 0 };
	struct shoal_list *list = open_tree(&o, &list_default_limits), *all;
	struct shoal_list_totals totals;
	int calls = 0;

	(void)state;
	assert_int_equal(shoal_list_merge(&list, 1, SHOAL_REPEATED_FAIL, &all, NULL), 0);
	shoal_list_set_waiting(all, wants_to_stop, &calls);
	assert_int_equal(shoal_list_count(all, &totals, NULL), -ECANCELED);
	assert_int_equal(calls, 1);
	shoal_list_close(all);
	remove_tree(&l);
}

static void shards_of_a_tree_are_a_partition(void **state)
{
	struct test_list l = awkward_tree();
	struct shoal_list *part[5], *all;
	struct shoal_list_totals totals;

	(void)state;
	for (unsigned k = 0; k < 5; k++) {
		struct shoal_list_options o = { .shard = k, .nr_shards = 5 };

		part[k] = open_tree(&o, &list_default_limits);
		assert_int_equal(shoal_list_count(part[k], &totals, NULL), 0);
		assert_in_range(totals.nr_files, 1, l.nr / 2);
		shoal_list_close(part[k]);
		part[k] = open_tree(&o, &list_default_limits);
	}
	assert_int_equal(shoal_list_merge(part, 5, SHOAL_REPEATED_FAIL, &all, NULL), 0);
	check_rest(all, &l, 0, l.nr);
	shoal_list_close(all);
	remove_tree(&l);
}

static void a_shard_that_does_not_exist_is_refused(void **state)
{
	struct shoal_list_options o = { .shard = 2, .nr_shards = 2 };
	struct shoal_err err = { "" };
	struct shoal_list *list;

	(void)state;
	assert_int_equal(shoal_list_open(test_dir(), &o, &list, &err), -EINVAL);
	check_words(&err, "no shard 2 of 2");
	o = (struct shoal_list_options){ .etags = true };
	assert_int_equal(shoal_list_open(test_dir(), &o, &list, &err), -EINVAL);
	check_words(&err, "ETags");
}

/* ---- Selection, on catalogs ---- */

static struct test_list small_list(void)
{
	struct test_list l = { 0 };

	for (size_t i = 0; i < 40; i++) {
		char name[32];
		int len = snprintf(name, sizeof(name), "%s/%c%02zu.%s", i % 4 ? "train" : "tmp",
				   i % 2 ? 'A' : 'b', i, i % 3 ? "jpg" : "txt");

		list_add(&l, name, (size_t)len, i * 10, i % 5 + 1);
	}
	list_sort(&l);
	return l;
}

static uint64_t count_selected(const struct shoal_catalog *cat, const struct shoal_select *select)
{
	struct shoal_list_totals totals;
	struct shoal_err err = { "" };
	struct shoal_list *list;

	if (shoal_list_catalog(cat, select, &list, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(shoal_list_count(list, &totals, &err), 0);
	shoal_list_close(list);
	return totals.nr_files;
}

static void a_selection_takes_what_it_says(void **state)
{
	static const char *const jpg[] = { "*.jpg" }, *const tmp[] = { "tmp/" };
	struct test_list l = small_list();
	struct shoal_catalog *cat = catalog_of(&l, true, 0);
	const struct {
		struct shoal_select select;
		uint64_t nr;
	} row[] = {
		{ { 0 }, 40 },
		{ { .include = jpg, .nr_include = 1 }, 26 },
		{ { .exclude = jpg, .nr_exclude = 1 }, 14 },
		{ { .exclude = tmp, .nr_exclude = 1 }, 30 },
		{ { .min_size = 100 }, 30 },
		{ { .min_size = 100, .max_size = 100 }, 1 },
		{ { .max_size = 99 }, 10 },
		{ { .regex = "A[0-9]+\\.(jpg|txt)$" }, 20 },
		{ { .regex = "TRAIN/a" }, 0 },
		{ { .regex = "TRAIN/a", .ignore_case = true }, 20 },
		{ { .limit = 7 }, 7 },
		{ { .limit = 41 }, 40 },
		{ { .start_after = "tmp/b99" }, 30 },
		{ { .end_before = "train" }, 10 },
		{ { .start_after = "u" }, 0 },
		{ { .end_before = "a" }, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		if (count_selected(cat, &row[i].select) != row[i].nr)
			fail_msg("row %zu selects %d", i, (int)count_selected(cat, &row[i].select));
	shoal_catalog_close(cat);
	list_release(&l);
}

static void a_selection_that_makes_no_sense_is_refused(void **state)
{
	static const char *const open_bracket[] = { "[a" };
	const struct shoal_select bad[] = {
		{ .regex = "(" },
		{ .include = open_bracket, .nr_include = 1 },
		{ .min_size = 5, .max_size = 4 },
		{ .from = 0.5, .to = 0.5 },
		{ .from = 0.5, .to = 1.5 },
		{ .from = -0.5, .to = 0.5 },
	};
	struct test_list l = small_list();
	struct shoal_catalog *cat = catalog_of(&l, true, 0);
	struct shoal_catalog *sizeless = catalog_of(&l, false, 1);
	struct shoal_select sized = { .min_size = 1 };
	struct shoal_err err = { "" };
	struct shoal_list *list;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(shoal_list_catalog(cat, &bad[i], &list, &err), -EINVAL);
	assert_int_equal(shoal_list_catalog(sizeless, &sized, &list, &err), -EINVAL);
	assert_int_equal(err.hint, SHOAL_HINT_SIZES);
	shoal_catalog_close(sizeless);
	shoal_catalog_close(cat);
	list_release(&l);
}

/* A name stays in its share, whatever else there is; and shares that touch are a partition. */
static void shares_are_stable_and_disjoint(void **state)
{
	struct test_list l = { 0 }, half = { 0 };
	struct shoal_catalog *cat, *fewer;
	struct shoal_select train = { .from = 0, .to = 0.9, .seed = 5 };
	struct shoal_select valid = { .from = 0.9, .to = 1, .seed = 5 };
	struct shoal_select again;
	uint64_t nr, nr_valid;

	(void)state;
	for (size_t i = 0; i < 20000; i++) {
		list_addf(&l, "img_%06zu.jpg", i);
		if (i % 2)
			list_addf(&half, "img_%06zu.jpg", i);
	}
	cat = catalog_of(&l, false, 1);
	fewer = catalog_of(&half, false, 1);
	nr = count_selected(cat, &train);
	nr_valid = count_selected(cat, &valid);
	assert_int_equal(nr + nr_valid, 20000);
	assert_in_range(nr_valid, 1800, 2200);
	again = train;
	again.names = fewer; /* of the half, exactly its own share */
	assert_int_equal(count_selected(cat, &again), count_selected(fewer, &train));
	again.not_in = true;
	assert_int_equal(count_selected(cat, &again), nr - count_selected(fewer, &train));
	train.seed = 6; /* another seed makes other shares */
	again = train;
	again.names = NULL;
	assert_true(count_selected(cat, &again) != nr || nr_valid != 2000);
	shoal_catalog_close(fewer);
	shoal_catalog_close(cat);
	list_release(&half);
	list_release(&l);
}

/* The hash is part of what users keep: the same files must be in the same part in ten years. */
static void shares_are_frozen(void **state)
{
	static const char *const name[] = { "a", "b", "train/img_000001.jpg", "\xff" };
	static const bool in[ARRAY_LEN(name)] = { false, false, false, true };
	struct test_list l = { 0 };
	struct shoal_select first = { .from = 0, .to = 0.5, .seed = 1 };
	struct shoal_catalog *cat;
	struct shoal_list *list;
	const struct shoal_entry *e;
	bool found[ARRAY_LEN(name)] = { false };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(name); i++)
		list_addf(&l, "%s", name[i]);
	list_sort(&l);
	cat = catalog_of(&l, false, 1);
	assert_int_equal(shoal_list_catalog(cat, &first, &list, NULL), 0);
	while (shoal_list_next(list, &e, NULL) > 0)
		for (size_t i = 0; i < ARRAY_LEN(name); i++)
			found[i] = found[i] || strcmp(e->name, name[i]) == 0;
	assert_memory_equal(found, in, sizeof(in));
	shoal_list_close(list);
	shoal_catalog_close(cat);
	list_release(&l);
}

/* ---- Several lists ---- */

static void merging_takes_the_last_of_equal_names(void **state)
{
	struct test_list a = { 0 }, b = { 0 }, both = { 0 };
	struct shoal_catalog *cat[2];
	struct shoal_list *list[2], *all;
	const struct shoal_entry *e;
	struct shoal_err err = { "" };
	int rc;

	(void)state;
	list_add(&a, "a", 1, 1, 1);
	list_add(&a, "b", 1, 2, 2);
	list_add(&b, "b", 1, 20, 3);
	list_add(&b, "c", 1, 30, 1);
	list_add(&both, "a", 1, 1, 1);
	list_add(&both, "b", 1, 20, 3);
	list_add(&both, "c", 1, 30, 1);
	cat[0] = catalog_of(&a, true, 0);
	cat[1] = catalog_of(&b, true, 0);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < 2; k++)
			assert_int_equal(shoal_list_catalog(cat[k], NULL, &list[k], &err), 0);
		rc = shoal_list_merge(list, 2, i ? SHOAL_REPEATED_FAIL : SHOAL_REPEATED_LAST, &all,
				      &err);
		assert_int_equal(rc, 0);
		if (i == 0) {
			check_rest(all, &both, 0, 3);
		} else {
			while ((rc = shoal_list_next(all, &e, &err)) > 0)
				continue;
			assert_int_equal(rc, -EEXIST);
			check_words(&err, "'b'");
		}
		shoal_list_close(all);
	}
	shoal_catalog_close(cat[0]);
	shoal_catalog_close(cat[1]);
	list_release(&a);
	list_release(&b);
	list_release(&both);
}

/* Merge @nr catalogs of the list, cut by @cut, and compare with a catalog of all of it. */
static void merge_parts(const struct test_list *l, unsigned nr, bool interleaved)
{
	const struct shoal_catalog *cats[8];
	char path[128]; /* what test_path() lends is lent again */
	struct shoal_write_options o = { .output = path };
	struct shoal_list_totals totals;
	struct shoal_catalog *all;
	struct shoal_err err = { "" };

	snprintf(path, sizeof(path), "%s", test_path("all.cat"));
	for (unsigned k = 0; k < nr; k++) {
		struct test_list part = { 0 };

		for (size_t i = 0; i < l->nr; i++)
			if (interleaved ? i % nr == k : i * nr / l->nr == k)
				list_add(&part, l->entry[i].name, l->entry[i].len, l->entry[i].size,
					 l->entry[i].samples);
		cats[k] = catalog_of(&part, true, 0);
		list_release(&part);
	}
	if (shoal_catalog_merge(cats, nr, SHOAL_REPEATED_FAIL, &o, &totals, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(totals.nr_files, l->nr);
	all = catalog_open(path);
	catalog_check(all, l);
	shoal_catalog_close(all);
	unlink(path);
	for (unsigned k = 0; k < nr; k++)
		shoal_catalog_close((struct shoal_catalog *)(uintptr_t)cats[k]);
}

static void merged_catalogs_are_the_whole(void **state)
{
	struct test_list l = { 0 };

	(void)state;
	list_add_irregular(&l, "some", 5000);
	list_sort(&l);
	for (unsigned nr = 1; nr <= 8; nr++) {
		merge_parts(&l, nr, false); /* appended */
		merge_parts(&l, nr, true);  /* merged */
	}
	list_release(&l);
}

static void catalogs_that_do_not_fit_are_not_merged(void **state)
{
	struct test_list l = small_list();
	const struct shoal_catalog *cats[2] = { catalog_of(&l, true, 1), catalog_of(&l, false, 1) };
	struct shoal_write_options o = { .output = test_path("all.cat") };
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_catalog_merge(cats, 2, SHOAL_REPEATED_LAST, &o, NULL, &err),
			 -EINVAL);
	assert_int_equal(err.hint, SHOAL_HINT_SIZES);
	assert_int_equal(shoal_catalog_merge(cats, 0, SHOAL_REPEATED_LAST, &o, NULL, &err),
			 -EINVAL);
	cats[1] = shoal_catalog_close((struct shoal_catalog *)(uintptr_t)cats[1]);
	cats[1] = cats[0];
	assert_int_equal(shoal_catalog_merge(cats, 2, SHOAL_REPEATED_FAIL, &o, NULL, &err),
			 -EEXIST);
	assert_int_equal(test_dir_count(), 0);
	shoal_catalog_close((struct shoal_catalog *)(uintptr_t)cats[0]);
	list_release(&l);
}

/* ---- What is made of lists ---- */

static void a_list_becomes_a_catalog(void **state)
{
	struct test_list l = awkward_tree();
	struct shoal_list_options lo = { 0 };
	struct shoal_list *list = open_tree(&lo, &list_default_limits);
	char path[] = "/tmp/shoal-test-list-XXXXXX";
	struct shoal_write_options o = { .output = path };
	struct shoal_list_totals totals;
	struct shoal_catalog *cat;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(shoal_list_write(list, &o, &totals, NULL), 0);
	assert_int_equal(totals.nr_files, l.nr);
	shoal_list_close(list);
	cat = catalog_open(path);
	catalog_check(cat, &l);
	shoal_catalog_close(cat);
	unlink(path);
	remove_tree(&l);
}

static void an_empty_list_is_refused_on_request(void **state)
{
	struct test_list l = small_list();
	struct shoal_catalog *cat = catalog_of(&l, true, 0);
	struct shoal_select none = { .limit = 1, .start_after = "zzz" };
	struct shoal_write_options o = { .output = test_path("new.cat"), .refuse_empty = true };
	struct shoal_list *list;

	(void)state;
	assert_int_equal(shoal_list_catalog(cat, &none, &list, NULL), 0);
	assert_int_equal(shoal_list_write(list, &o, NULL, NULL), -ENOENT);
	assert_int_equal(test_dir_count(), 0);
	shoal_list_close(list);
	shoal_catalog_close(cat);
	list_release(&l);
}

struct differences {
	char text[256];
};

static int note_difference(void *self, enum shoal_difference what, const char *name, size_t len,
			   uint64_t was, uint64_t is)
{
	struct differences *d = self;
	size_t used = strlen(d->text);

	snprintf(d->text + used, sizeof(d->text) - used, "%d%.*s:%d:%d ", (int)what, (int)len, name,
		 (int)was, (int)is);
	return 0;
}

static void differences_come_in_order(void **state)
{
	struct test_list a = { 0 }, b = { 0 };
	struct differences d = { "" };
	struct shoal_diff_options o = { .differs = note_difference, .self = &d };
	struct shoal_compare_result r;
	struct shoal_catalog *x, *y;
	struct shoal_list *lx, *ly;

	(void)state;
	list_add(&a, "b", 1, 1, 1);
	list_add(&a, "c", 1, 1, 1);
	list_add(&a, "e", 1, 5, 1);
	list_add(&a, "f", 1, 1, 1);
	list_add(&b, "a", 1, 9, 1);
	list_add(&b, "c", 1, 1, 1);
	list_add(&b, "d", 1, 1, 1);
	list_add(&b, "e", 1, 6, 1);
	list_add(&b, "g", 1, 1, 1);
	x = catalog_of(&a, true, 1);
	y = catalog_of(&b, true, 1);
	assert_int_equal(shoal_list_catalog(x, NULL, &lx, NULL), 0);
	assert_int_equal(shoal_list_catalog(y, NULL, &ly, NULL), 0);
	assert_int_equal(shoal_list_diff(lx, ly, &o, &r, NULL), 0);
	assert_string_equal(d.text, "1a:-1:9 0b:1:-1 1d:-1:1 2e:5:6 0f:1:-1 1g:-1:1 ");
	assert_int_equal(r.nr_same, 1);
	assert_int_equal(r.nr_missing, 2);
	assert_int_equal(r.nr_new, 3);
	assert_int_equal(r.nr_resized, 1);
	shoal_list_close(lx);
	shoal_list_close(ly);
	shoal_catalog_close(x);
	shoal_catalog_close(y);
	list_release(&a);
	list_release(&b);
}

static struct shoal_stat *stat_of(const struct test_list *l, bool sizes, unsigned depth)
{
	struct shoal_catalog *cat = catalog_of(l, sizes, 1);
	struct shoal_stat *st = allocate(1, sizeof(*st));
	struct shoal_list *list;

	assert_int_equal(shoal_list_catalog(cat, NULL, &list, NULL), 0);
	assert_int_equal(shoal_list_stat(list, depth, st, NULL), 0);
	shoal_list_close(list);
	shoal_catalog_close(cat);
	return st;
}

static void figures_are_those_of_the_files(void **state)
{
	struct test_list l = { 0 };
	struct shoal_stat *st;

	(void)state;
	list_add(&l, "a.txt", 5, 1, 1);
	list_add(&l, "d/x/1.jpg", 9, 7, 1);
	list_add(&l, "d/y.jpg", 7, 8, 1);
	list_add(&l, "e.txt", 5, 0, 1);
	list_add(&l, "f/.hidden", 9, 1024, 1);
	list_add(&l, "f/noext.", 8, 1, 1);
	list_sort(&l);
	st = stat_of(&l, true, 0);
	assert_int_equal(st->totals.nr_files, 6);
	assert_int_equal(st->totals.nr_bytes, 1041);
	assert_int_equal(st->nr_folders, 3);
	assert_int_equal(st->nr_folder_rows, 3);
	assert_string_equal(st->folder[0].name, "f");
	assert_int_equal(st->folder[0].nr_bytes, 1025);
	assert_string_equal(st->folder[1].name, "d");
	assert_int_equal(st->folder[1].nr_files, 2);
	assert_string_equal(st->folder[2].name, "");
	assert_int_equal(st->folder[2].nr_files, 2);
	assert_int_equal(st->nr_extensions, 3);
	assert_string_equal(st->extension[0].name, "");
	assert_string_equal(st->extension[1].name, ".jpg");
	assert_string_equal(st->extension[2].name, ".txt");
	assert_string_equal(st->largest[0].name, "f/.hidden");
	assert_int_equal(st->sizes[0], 1);
	assert_int_equal(st->sizes[1], 2);
	assert_int_equal(st->sizes[3], 1);
	assert_int_equal(st->sizes[4], 1);
	assert_int_equal(st->sizes[11], 1);
	assert_int_equal(st->depth[0], 2);
	assert_int_equal(st->depth[1], 3);
	assert_int_equal(st->depth[2], 1);
	assert_int_equal(st->max_size, 1024);
	assert_int_equal(st->min_size, 0);
	shoal_stat_release(st);
	free(st);
	st = stat_of(&l, true, 2);
	assert_int_equal(st->nr_folders, 4); /* d, d/x, f and the root */
	shoal_stat_release(st);
	free(st);
	list_release(&l);
}

/* More folders, extensions and files than the tables hold: the largest are right. */
static void the_largest_of_many_are_found(void **state)
{
	struct test_list l = { 0 };
	struct shoal_stat *st;

	(void)state;
	for (size_t i = 0; i < 5000; i++) {
		char name[64];
		int len = snprintf(name, sizeof(name), "d%04zu/file.x%zu", i, i);

		list_add(&l, name, (size_t)len, i == 77 ? 1000000 : i, 1);
	}
	list_sort(&l);
	st = stat_of(&l, true, 1);
	assert_int_equal(st->nr_folders, 5000);
	assert_int_equal(st->nr_folder_rows, SHOAL_STAT_TOP);
	assert_string_equal(st->folder[0].name, "d0077");
	assert_string_equal(st->folder[1].name, "d4999");
	assert_string_equal(st->largest[0].name, "d0077/file.x77");
	assert_string_equal(st->largest[99].name, "d4901/file.x4901");
	assert_int_equal(st->nr_extensions, 4096);
	assert_int_equal(st->nr_other_extensions, 5000 - 4096);
	shoal_stat_release(st);
	free(st);
	st = stat_of(&l, false, 1);
	assert_int_equal(st->totals.nr_bytes, SHOAL_SIZE_UNKNOWN);
	assert_int_equal(st->nr_largest, 0);
	shoal_stat_release(st);
	free(st);
	list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tree_comes_in_the_order_of_names),
		cmocka_unit_test(a_list_may_be_closed_at_any_point),
		cmocka_unit_test(bounds_leave_the_names_between_them),
		cmocka_unit_test(what_is_outside_of_the_bounds_is_not_read),
		cmocka_unit_test(an_error_of_a_directory_ends_the_list),
		cmocka_unit_test(an_interrupted_list_says_so),
		cmocka_unit_test(a_list_asks_whether_to_stop),
		cmocka_unit_test(shards_of_a_tree_are_a_partition),
		cmocka_unit_test(a_shard_that_does_not_exist_is_refused),
		cmocka_unit_test(a_selection_takes_what_it_says),
		cmocka_unit_test(a_selection_that_makes_no_sense_is_refused),
		cmocka_unit_test(shares_are_stable_and_disjoint),
		cmocka_unit_test(shares_are_frozen),
		cmocka_unit_test(merging_takes_the_last_of_equal_names),
		cmocka_unit_test(merged_catalogs_are_the_whole),
		cmocka_unit_test(catalogs_that_do_not_fit_are_not_merged),
		cmocka_unit_test(a_list_becomes_a_catalog),
		cmocka_unit_test(an_empty_list_is_refused_on_request),
		cmocka_unit_test(differences_come_in_order),
		cmocka_unit_test(figures_are_those_of_the_files),
		cmocka_unit_test(the_largest_of_many_are_found),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
