/*
 * Goal: whichever call fails, the result is right or the error is clean: negative, with words,
 * nothing leaked, nothing left behind, and what was there before still there.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/publish.h"
#include "catalog/catalog.h"
#include "faults.h"
#include "help.h"
#include "index/sequence.h"
#include "sort/sort.h"

/* ---- Calls that fail ---- */

static struct fault fault;
static struct fault renames; /* only counts them */

static const char *call_name(enum fault_call call)
{
	return call == FAULT_MEMORY      ? "malloc"
	       : call == FAULT_PWRITE    ? "pwrite"
	       : call == FAULT_PREAD     ? "pread"
	       : call == FAULT_FSYNC     ? "fsync"
	       : call == FAULT_RENAME    ? "rename"
	       : call == FAULT_FTRUNCATE ? "ftruncate"
	       : call == FAULT_MMAP      ? "mmap"
	       : call == FAULT_OPEN      ? "open"
					 : "pthread_create";
}

/* Whether the catalog has its final name, after a run in which @call failed. */
static bool renamed(enum fault_call call)
{
	return renames.nr > (call == FAULT_RENAME ? fault.fired : 0);
}

/* ---- Scenarios: 0 or an error, with words ---- */

struct scenario {
	const char *name;
	int (*run)(const struct scenario *s, struct shoal_err *err);
	const struct test_list *list;
	bool writes; /* makes out.cat */
	bool sizes, etags;
	bool slow, thorough;
	char digest[33]; /* that out.cat must have */
};

static int run_reading(const struct scenario *s, struct shoal_err *err)
{
	struct shoal_cursor *cursor = NULL;
	struct shoal_catalog *cat = NULL;
	const struct test_list *l = s->list;
	char buf[SHOAL_NAME_MAX + 1];
	const char *name;
	size_t len;
	uint64_t id;
	int rc;

	rc = shoal_catalog_open(test_path("read.cat"), &cat, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < l->nr && rc >= 0; i += 97) {
		rc = shoal_catalog_name(cat, i, buf);
		if (rc >= 0 && memcmp(buf, l->entry[i].name, l->entry[i].len) != 0)
			rc = -EPROTO;
		if (rc >= 0)
			rc = shoal_catalog_find(cat, l->entry[i].name, l->entry[i].len, &id);
		if (rc >= 0 && id != i)
			rc = -EPROTO;
		if (rc < 0)
			shoal_catalog_explain(cat, rc, err);
	}
	if (rc >= 0)
		rc = shoal_cursor_new(cat, 5, &cursor, err);
	if (rc >= 0) {
		rc = shoal_cursor_next(cursor, &name, &len);
		if (rc < 0)
			shoal_catalog_explain(cat, rc, err);
	}
	shoal_cursor_free(cursor);
	if (rc >= 0)
		rc = shoal_catalog_verify(cat, err);
	shoal_catalog_close(cat);
	return rc < 0 ? rc : 0;
}

static int open_writer(const struct scenario *s, struct shoal_writer **w, struct shoal_err *err)
{
	struct shoal_writer_options options = { .root = TEST_ROOT,
						.sizes = s->sizes,
						.etags = s->etags };

	return shoal_writer_open(test_path("out.cat"), &options, w, err);
}

static int run_writing(const struct scenario *s, struct shoal_err *err)
{
	struct shoal_writer *w = NULL;
	int rc = open_writer(s, &w, err);

	for (size_t i = 0; i < s->list->nr && rc == 0; i++) {
		const struct test_entry *e = &s->list->entry[i];

		rc = shoal_writer_add(w, e->name, e->len, e->size, e->samples, err);
	}
	if (rc < 0) {
		shoal_writer_abort(w);
		return rc;
	}
	return shoal_writer_seal(w, err);
}

/* Goes on after an error, as a careless caller does: sealing must refuse it. */
static int run_writing_carelessly(const struct scenario *s, struct shoal_err *err)
{
	struct shoal_writer *w = NULL;
	int rc = open_writer(s, &w, err), first = 0;

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < s->list->nr; i++) {
		const struct test_entry *e = &s->list->entry[i];

		rc = shoal_writer_add(w, e->name, e->len, e->size, e->samples, err);
		first = first < 0 ? first : rc;
	}
	rc = shoal_writer_seal(w, err);
	if (first < 0)
		assert_true(rc < 0);
	return rc;
}

static int run_appending(const struct scenario *s, struct shoal_err *err)
{
	struct shoal_writer *w = NULL;
	int rc = open_writer(s, &w, err);

	for (int k = 0; k < 3 && rc == 0; k++) {
		struct shoal_catalog *part = NULL;
		char name[16];

		snprintf(name, sizeof(name), "part%d.cat", k);
		rc = shoal_catalog_open(test_path(name), &part, err);
		if (rc == 0)
			rc = shoal_writer_append(w, part, err);
		shoal_catalog_close(part);
	}
	if (rc < 0) {
		shoal_writer_abort(w);
		return rc;
	}
	return shoal_writer_seal(w, err);
}

static int run_indexing(const struct scenario *s, struct shoal_err *err)
{
	struct shoal_index_options options = { .output = test_path("out.cat"),
					       .root = TEST_ROOT,
					       .memory = SHOAL_INDEX_MEMORY_MIN };
	struct shoal_index_result result;
	/* Not by open(), whose turn to fail it may be. */
	int fd = openat(AT_FDCWD, test_path("list.txt"), O_RDONLY), rc;

	(void)s;
	assert_true(fd >= 0);
	rc = shoal_index_list(fd, '\n', false, &options, &result, err);
	close(fd);
	return rc;
}

static int run_listing(const struct scenario *s, struct shoal_err *err)
{
	struct shoal_index_options options = { .output = test_path("out.cat"), .root = TEST_ROOT };
	struct shoal_tree_options tree = { .no_sizes = !s->sizes, .nr_threads = 2 };
	struct shoal_index_result result;

	return shoal_index_tree(test_path("tree"), &tree, &options, &result, err);
}

struct sorted {
	char last[64];
	uint64_t nr;
};

static int take_sorted(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct sorted *s = self;

	(void)err;
	if (s->nr++ > 0 && strncmp(s->last, (const char *)e->name, e->len) >= 0)
		return -EPROTO;
	memcpy(s->last, e->name, e->len);
	s->last[e->len] = '\0';
	return 0;
}

/* The sorter alone, in so little memory that it merges in several passes. */
static int run_sorting(const struct scenario *s, struct shoal_err *err)
{
	struct sorter_options options = { .memory = SORTER_MEMORY_MIN, .tmp_dir = test_dir() };
	struct sorter *sorter = NULL;
	struct sorted sorted = { "", 0 };
	uint64_t repeated;
	int rc = sorter_new(&options, &sorter, err);

	(void)s;
	for (uint64_t i = 0; i < 25000 && rc == 0; i++) {
		char name[32];
		struct sort_entry e = { .name = (const uint8_t *)name };

		e.len = (size_t)snprintf(name, sizeof(name), "%016" PRIx64,
					 i * UINT64_C(0x9E3779B97F4A7C15));
		rc = sorter_add(sorter, &e, err);
	}
	if (rc == 0)
		rc = sorter_finish(sorter, take_sorted, &sorted, NULL, &repeated, err);
	if (rc == 0 && (sorted.nr != 25000 || repeated != 0))
		rc = -EPROTO;
	sorter_free(sorter);
	return rc;
}

/* ---- The sweep ---- */

static void check_output(const struct scenario *s, const char *want, const char *what)
{
	struct shoal_catalog *cat = catalog_open(test_path("out.cat"));
	struct shoal_err err = { "" };
	char got[33];

	if (shoal_catalog_verify(cat, &err) < 0)
		fail_msg("%s, %s: %s", s->name, what, err.msg);
	catalog_digest(cat, got);
	if (strcmp(got, want) != 0)
		fail_msg("%s, %s: another catalog", s->name, what);
	shoal_catalog_close(cat);
}

/* Run with the call number @n failing. False when it no longer comes to that. */
static bool run_once(struct scenario *s, enum fault_call call, int n, bool persistent, int error,
		     const char *old_digest)
{
	struct shoal_err err = { "" };
	size_t files = test_dir_count();
	char what[100];
	int rc;

	snprintf(what, sizeof(what), "%s number %d%s, errno %d", call_name(call), n,
		 persistent ? " and all after it" : "", error);
	fault_arm(&renames, FAULT_RENAME, 1, FAULT_NEVER, 0);
	fault_arm(&fault, call, n, persistent ? FAULT_FROM_THEN_ON : FAULT_ONCE, error);
	rc = s->run(s, &err);
	fault_disarm(&fault);
	fault_disarm(&renames);
	if (rc > 0 || rc == -EPROTO)
		fail_msg("%s, %s: a wrong result (%d)", s->name, what, rc);
	if (rc < 0 && !err.msg[0])
		fail_msg("%s, %s: %d without words", s->name, what, rc);
	if (rc < 0 && !fault.fired)
		fail_msg("%s, %s: it did not fail, but: %s", s->name, what, err.msg);
	if (s->writes && (rc == 0 || renamed(call))) /* syncing the folder may fail after it */
		check_output(s, s->digest, what);
	else if (s->writes && old_digest)
		check_output(s, old_digest, what);
	if (s->writes && !old_digest) {
		if (unlink(test_path("out.cat")) == 0 && rc < 0 && !renamed(call))
			fail_msg("%s, %s: half a catalog", s->name, what);
	}
	if (test_dir_count() != files)
		fail_msg("%s, %s: %zu files are left behind", s->name, what,
			 test_dir_count() - files);
	return fault.fired;
}

/* Each of the first calls; of the later ones fewer and fewer where a run takes long. */
static int after(const struct scenario *s, int n)
{
	return n < (s->slow ? 12 : 30) || s->thorough ? n + 1 : n + (s->slow ? n : n / 5);
}

static void sweep(struct scenario *s)
{
	static const struct {
		enum fault_call call;
		int error;
	} row[] = {
		{ FAULT_MEMORY, ENOMEM },   { FAULT_PWRITE, ENOSPC }, { FAULT_PWRITE, EINTR },
		{ FAULT_PWRITE, 0 },        { FAULT_PREAD, EIO },     { FAULT_PREAD, EINTR },
		{ FAULT_PREAD, 0 },         { FAULT_FSYNC, EIO },     { FAULT_RENAME, EACCES },
		{ FAULT_FTRUNCATE, EIO },   { FAULT_MMAP, ENOMEM },   { FAULT_OPEN, EMFILE },
		{ FAULT_OPEN, EOPNOTSUPP }, { FAULT_THREAD, EAGAIN },
	};
	char old[33] = "";

	/* Once with nothing failing, to know what is right. */
	{
		struct shoal_err err = { "" };

		if (s->run(s, &err) < 0)
			fail_msg("%s: %s", s->name, err.msg);
	}
	if (s->writes) {
		struct shoal_catalog *cat = catalog_open(test_path("out.cat"));

		catalog_digest(cat, s->digest);
		shoal_catalog_close(cat);
		unlink(test_path("out.cat"));
	}
	for (size_t r = 0; r < ARRAY_LEN(row); r++)
		for (int persistent = 0; persistent < 2; persistent++) {
			bool endless = persistent && row[r].error == EINTR;

			for (int n = 1; !endless; n = after(s, n))
				if (!run_once(s, row[r].call, n, persistent, row[r].error, NULL))
					break;
		}
	if (!s->writes)
		return;
	/* Again over a catalog that is there already: it stays until the new one is complete. */
	catalog_write(test_path("out.cat"), s->list, 0, 1, s->sizes, 0);
	{
		struct shoal_catalog *cat = catalog_open(test_path("out.cat"));

		catalog_digest(cat, old);
		shoal_catalog_close(cat);
	}
	for (size_t r = 0; r < ARRAY_LEN(row); r++) {
		bool fired = !s->slow || row[r].call == FAULT_RENAME || row[r].call == FAULT_FSYNC;

		for (int n = 1; fired; n = after(s, n)) {
			fired = run_once(s, row[r].call, n, false, row[r].error, old);
			if (renamed(row[r].call))
				catalog_write(test_path("out.cat"), s->list, 0, 1, s->sizes, 0);
		}
	}
	unlink(test_path("out.cat"));
}

/* ---- Tests ---- */

static struct test_list mixed_list(void)
{
	struct test_list l = { 0 };

	for (size_t i = 0; i < 600; i++) {
		list_addf(&l, "a/%04zu", i);
		list_addf(&l, "b/%zu.x", i);
		list_addf(&l, "c/%08x-%08x-%08x.jpeg", (unsigned)random_u64(),
			  (unsigned)random_u64(), (unsigned)random_u64());
	}
	list_add_irregular(&l, "d", 600);
	list_sort(&l);
	return l;
}

/* Enough for dictionaries and for columns that leave memory. */
static struct test_list large_list(void)
{
	struct test_list l = { 0 };

	for (size_t i = 0; i < 9000; i++) {
		uint64_t phrase = i * 7919 % 193;

		list_addf(&l, "a%06zu %016" PRIx64, i * 5 + random_below(5),
			  phrase * UINT64_C(0x9E3779B97F4A7C15));
	}
	for (size_t i = 0; i < 45000; i++)
		list_addf(&l, "b%06zu", i);
	for (size_t i = 0; i < l.nr; i++)
		l.entry[i].size = random_u64() >> 17;
	return l;
}

static void a_catalog_is_read_or_refused(void **state)
{
	struct test_list l = mixed_list();
	struct scenario s = { .name = "reading", .run = run_reading, .list = &l, .sizes = true };

	(void)state;
	catalog_write(test_path("read.cat"), &l, 0, l.nr, true, 0);
	sweep(&s);
	unlink(test_path("read.cat"));
	list_release(&l);
}

static void a_small_catalog_is_written_or_not_there(void **state)
{
	struct test_list l = mixed_list();
	struct scenario s = { .name = "writing",
			      .run = run_writing,
			      .list = &l,
			      .writes = true,
			      .sizes = true,
			      .etags = true };

	(void)state;
	sweep(&s);
	s = (struct scenario){ .name = "writing carelessly",
			       .run = run_writing_carelessly,
			       .list = &l,
			       .writes = true };
	sweep(&s);
	list_release(&l);
}

static void a_catalog_with_a_dictionary_and_columns_is_written_or_not_there(void **state)
{
	struct test_list l = large_list();
	struct scenario s = { .name = "writing much",
			      .run = run_writing,
			      .list = &l,
			      .writes = true,
			      .sizes = true,
			      .etags = true,
			      .slow = true };

	(void)state;
	sweep(&s);
	list_release(&l);
}

static void parts_are_put_together_or_nothing_is_there(void **state)
{
	struct test_list l = mixed_list();
	struct scenario s = {
		.name = "appending", .run = run_appending, .list = &l, .writes = true, .sizes = true
	};

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		char name[16];

		snprintf(name, sizeof(name), "part%zu.cat", k);
		catalog_write(test_path(name), &l, l.nr * k / 3, l.nr * (k + 1) / 3, true, 0);
	}
	sweep(&s);
	unlink(test_path("part0.cat"));
	unlink(test_path("part1.cat"));
	unlink(test_path("part2.cat"));
	list_release(&l);
}

/* Names of 4000 bytes, so that few of them fill the least memory and are spilled. */
static void a_list_that_spills_is_indexed_or_nothing_is_there(void **state)
{
	struct test_list l = { 0 };
	struct scenario s = { .name = "indexing",
			      .run = run_indexing,
			      .list = &l,
			      .writes = true,
			      .sizes = true,
			      .slow = true };
	FILE *f = fopen(test_path("list.txt"), "w");

	(void)state;
	assert_non_null(f);
	for (size_t i = 0; i < 2300; i++)
		fprintf(f, "%05zu%04000d\t%zu\n", i * 3571 % 2300, 0, i);
	assert_int_equal(fclose(f), 0);
	list_addf(&l, "old");
	sweep(&s);
	unlink(test_path("list.txt"));
	list_release(&l);
}

/* Directories of one part and of several, and more than a thread collects. */
static void a_tree_is_listed_or_nothing_is_there(void **state)
{
	static const struct {
		const char *dir;
		unsigned nr;
	} row[] = { { "tree/a", 10 },
		    { "tree/b", STORE_FOUND_MAX + 1 },
		    { "tree/b/a", 10 },
		    { "tree/c", STORE_FOUND_MAX + 1 },
		    { "tree/d", INDEX_DIR_MAX + 1 },
		    { "tree/e", 10 } };
	struct test_list l = { 0 };
	struct scenario s = {
		.name = "listing", .run = run_listing, .list = &l, .writes = true, .thorough = true
	};
	char name[64];

	(void)state;
	list_addf(&l, "old");
	assert_int_equal(mkdir(test_path("tree"), 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		assert_int_equal(mkdir(test_path(row[i].dir), 0700), 0);
		for (unsigned k = 0; k < row[i].nr; k++) {
			snprintf(name, sizeof(name), "%s/%05u", row[i].dir, k);
			file_write(test_path(name), "", 0);
		}
	}
	sweep(&s);
	for (size_t i = ARRAY_LEN(row); i-- > 0;) {
		for (unsigned k = 0; k < row[i].nr; k++) {
			snprintf(name, sizeof(name), "%s/%05u", row[i].dir, k);
			assert_int_equal(unlink(test_path(name)), 0);
		}
		assert_int_equal(rmdir(test_path(row[i].dir)), 0);
	}
	assert_int_equal(rmdir(test_path("tree")), 0);
	list_release(&l);
}

static void a_sorter_that_merges_in_passes_sorts_or_says_why(void **state)
{
	struct scenario s = { .name = "sorting", .run = run_sorting };

	(void)state;
	sweep(&s);
}

/* ---- A file system without locks ---- */

static void without_locks_the_last_of_two_writers_wins_whole(void **state)
{
	struct publish first = PUBLISH_CLOSED, second = PUBLISH_CLOSED;
	struct shoal_err err = { "" };
	uint8_t *bytes;
	size_t len;

	(void)state;
	fault_arm(&fault, FAULT_FLOCK, 1, FAULT_FROM_THEN_ON, ENOSYS);
	assert_int_equal(publish_open(test_path("x"), &first, &err), 0);
	assert_int_equal(publish_open(test_path("x"), &second, &err), 0);
	assert_string_not_equal(first.partial, second.partial);
	assert_true(path_is_own(first.partial, strlen(first.partial)));
	assert_true(path_is_own(second.partial, strlen(second.partial)));
	assert_int_equal(write(first.fd, "first", 5), 5);
	assert_int_equal(write(second.fd, "the second", 10), 10);
	assert_int_equal(publish_commit(&second, &err), 0);
	assert_int_equal(publish_commit(&first, &err), 0);
	fault_disarm(&fault);
	bytes = file_read(test_path("x"), &len);
	assert_int_equal(len, 5);
	assert_memory_equal(bytes, "first", 5);
	free(bytes);
	assert_int_equal(test_dir_count(), 1);
	test_dir_empty();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_locks_the_last_of_two_writers_wins_whole),
		cmocka_unit_test(a_catalog_is_read_or_refused),
		cmocka_unit_test(a_small_catalog_is_written_or_not_there),
		cmocka_unit_test(a_catalog_with_a_dictionary_and_columns_is_written_or_not_there),
		cmocka_unit_test(parts_are_put_together_or_nothing_is_there),
		cmocka_unit_test(a_list_that_spills_is_indexed_or_nothing_is_there),
		cmocka_unit_test(a_tree_is_listed_or_nothing_is_there),
		cmocka_unit_test(a_sorter_that_merges_in_passes_sorts_or_says_why),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
