/*
 * Goal: a catalog that is an object is opened through a whole copy or not at all, whatever is in
 * the directory of copies already, whatever fails, and while another process writes the same copy;
 * files go to objects and back whole or not at all.
 *
 * Objects are those of tests/backend, in memory.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../backend/mem.h"
#include "base/publish.h"
#include "faults.h"
#include "help.h"
#include "open/transfer.h"

#define URI "mem://place/cats/c"

static struct fault fault;

/* ---- Objects ---- */

static void put_object(const char *uri, const void *bytes, size_t len)
{
	struct shoal_err err = { "" };

	file_write(test_path("put"), bytes, len);
	if (transfer_put_file(test_path("put"), uri, NULL, NULL, &err) < 0)
		fail_msg("%s", err.msg);
	unlink(test_path("put"));
}

/* A catalog of @nr names as the object URI. */
static void put_catalog(size_t nr)
{
	struct test_list l = { 0 };
	uint8_t *bytes;
	size_t len;

	list_add_irregular(&l, "d", nr);
	list_sort(&l);
	catalog_write(test_path("made"), &l, 0, l.nr, false, 1);
	bytes = file_read(test_path("made"), &len);
	put_object(URI, bytes, len);
	free(bytes);
	unlink(test_path("made"));
	list_release(&l);
}

static const char *copies_dir(void)
{
	mkdir(test_path("copies"), 0777);
	return test_path("copies");
}

/* The path of the only copy, or NULL. */
static char *only_copy(void)
{
	DIR *d = opendir(copies_dir());
	const struct dirent *e;
	char *path = NULL;

	assert_non_null(d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.'))
			continue;
		assert_null(path);
		assert_int_equal(strncmp(e->d_name, "shoal-mem-", 10), 0);
		assert_true(asprintf(&path, "%s/%s", copies_dir(), e->d_name) > 0);
	}
	closedir(d);
	return path;
}

static int open_copy(struct shoal_err *err)
{
	struct shoal_catalog_options o = { .copy_dir = copies_dir() };
	struct shoal_catalog *cat = NULL;
	int rc = shoal_catalog_open_with(URI, &o, &cat, err);

	if (rc == 0)
		rc = shoal_catalog_verify(cat, err);
	shoal_catalog_close(cat);
	return rc;
}

static int forget(void **state)
{
	DIR *d = opendir(copies_dir());
	const struct dirent *e;

	(void)state;
	fault_disarm(&fault);
	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(copies_dir());
	mem_clear();
	test_dir_empty();
	return 0;
}

/* ---- Copies ---- */

static void a_copy_is_made_once_and_used_from_then_on(void **state)
{
	struct shoal_err err = { "" };
	struct stat first, second;
	char *path;

	(void)state;
	put_catalog(300);
	assert_int_equal(open_copy(&err), 0);
	path = only_copy();
	assert_int_equal(stat(path, &first), 0);
	assert_int_equal(open_copy(&err), 0);
	assert_int_equal(stat(path, &second), 0);
	assert_int_equal(first.st_ino, second.st_ino);
	assert_string_equal(err.msg, "");
	free(path);
}

/* Each makes the copy at @path unfit. */
static void cut_it(const char *path)
{
	assert_int_equal(truncate(path, 100), 0);
}

static void lengthen_it(const char *path)
{
	FILE *f = fopen(path, "a");

	assert_non_null(f);
	fputc(0, f);
	fclose(f);
}

static void damage_it(const char *path)
{
	FILE *f = fopen(path, "r+");

	assert_non_null(f);
	fputs("xxxxxxxx", f);
	fclose(f);
}

static void empty_it(const char *path)
{
	assert_int_equal(truncate(path, 0), 0);
}

static void an_unfit_copy_is_replaced_with_a_word(void **state)
{
	static void (*const spoil[])(const char *path) = { cut_it, lengthen_it, damage_it,
							   empty_it };
	struct shoal_err err = { "" };
	char *path;

	(void)state;
	put_catalog(300);
	assert_int_equal(open_copy(&err), 0);
	path = only_copy();
	for (size_t i = 0; i < ARRAY_LEN(spoil); i++) {
		spoil[i](path);
		assert_int_equal(open_copy(&err), 0);
		check_words(&err, "was damaged and has been replaced");
		check_words(&err, path);
		err.msg[0] = '\0';
		assert_int_equal(open_copy(&err), 0);
		assert_string_equal(err.msg, ""); /* now it is fit */
	}
	free(path);
}

static void a_link_at_the_copys_name_is_replaced_and_not_followed(void **state)
{
	struct shoal_err err = { "" };
	struct stat st;
	uint8_t *kept;
	char *path;
	size_t len;

	(void)state;
	put_catalog(300);
	assert_int_equal(open_copy(&err), 0);
	path = only_copy();
	for (int good = 0; good < 2; good++) { /* to another file, and to a copy that is right */
		if (good)
			assert_int_equal(rename(path, test_path("other")), 0);
		else
			file_write(test_path("other"), "precious", 8);
		unlink(path);
		assert_int_equal(symlink(test_path("other"), path), 0);
		assert_int_equal(open_copy(&err), 0);
		assert_int_equal(lstat(path, &st), 0);
		assert_true(S_ISREG(st.st_mode));
		kept = file_read(test_path("other"), &len);
		assert_true(good || (len == 8 && memcmp(kept, "precious", 8) == 0));
		free(kept);
	}
	free(path);
}

static void a_copy_of_another_user_is_refused(void **state)
{
	struct shoal_err err = { "" };
	char *path;

	(void)state;
	if (geteuid() != 0)
		return; /* only root can give a file away */
	put_catalog(10);
	assert_int_equal(open_copy(&err), 0);
	path = only_copy();
	assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
	assert_int_equal(open_copy(&err), -EPERM);
	check_words(&err, "belongs to another user; use a directory of your own");
	free(path);
}

static void what_is_no_catalog_is_refused_and_names_no_copy(void **state)
{
	struct shoal_err err = { "" };
	struct shoal_catalog *cat = NULL;

	(void)state;
	put_object(URI, "this is no catalog at all", 25);
	assert_true(open_copy(&err) < 0);
	assert_true(*err.msg);
	assert_true(shoal_catalog_open(URI, &cat, &err) < 0);
	assert_null(cat);
}

static void a_directory_that_is_not_there_is_named(void **state)
{
	struct shoal_catalog_options o = { .copy_dir = test_path("none") };
	struct shoal_err err = { "" };
	struct shoal_catalog *cat = NULL;

	(void)state;
	put_catalog(10);
	assert_int_equal(shoal_catalog_open_with(URI, &o, &cat, &err), -ENOENT);
	check_words(&err, "none");
	setenv("TMPDIR", test_path("none"), 1);
	assert_int_equal(shoal_catalog_open(URI, &cat, &err), -ENOENT);
	check_words(&err, "none");
	setenv("TMPDIR", "", 1); /* as if it were not set */
	assert_int_equal(shoal_catalog_open(URI, &cat, &err), 0);
	shoal_catalog_close(cat);
	unsetenv("TMPDIR");
}

static void note_progress(void *self, uint64_t nr_bytes, uint64_t nr_all)
{
	*(uint64_t *)self += nr_bytes <= nr_all;
}

static void a_stop_ends_it_before_and_while_another_process_writes(void **state)
{
	struct shoal_err err = { "" };
	struct publish pub = PUBLISH_CLOSED;
	struct shoal_catalog *cat = NULL;
	uint64_t shown = 0;
	int stop = 1;
	struct shoal_catalog_options o = {
		.copy_dir = copies_dir(), .stop = &stop, .progress = note_progress, .self = &shown
	};
	char *path;

	(void)state;
	put_catalog(300);
	assert_int_equal(shoal_catalog_open_with(URI, &o, &cat, &err), -ECANCELED);
	assert_null(only_copy());
	assert_int_equal(open_copy(&err), 0);
	path = only_copy();
	assert_int_equal(unlink(path), 0);
	assert_int_equal(publish_open_here(path, &pub, &err), 0); /* another writer */
	assert_int_equal(shoal_catalog_open_with(URI, &o, &cat, &err), -ECANCELED);
	check_words(&err, "interrupted");
	assert_int_equal(transfer_get_file(URI, path, NULL, NULL, &err), -EBUSY);
	check_words(&err, "is being written by another process");
	publish_abort(&pub);
	stop = 0;
	assert_int_equal(shoal_catalog_open_with(URI, &o, &cat, &err), 0);
	shoal_catalog_close(cat);
	free(path);
}

/* ---- Whole files ---- */

static void a_file_comes_back_as_it_went(void **state)
{
	static const size_t lens[] = { 0, 1, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, 3u << 20 };
	struct shoal_err err = { "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		uint8_t *bytes = allocate(lens[i] + 1, 1), *back;
		size_t len;

		for (size_t k = 0; k < lens[i]; k++)
			bytes[k] = (uint8_t)(k * 7 + k / 251);
		put_object("mem://place/x", bytes, lens[i]);
		assert_int_equal(transfer_is_object("mem://place/x", NULL, NULL, &err),
				 lens[i] > 0);
		assert_int_equal(
			transfer_get_file("mem://place/x", test_path("back"), NULL, NULL, &err), 0);
		back = file_read(test_path("back"), &len);
		assert_int_equal(len, lens[i]);
		assert_memory_equal(back, bytes, len);
		free(back);
		free(bytes);
	}
	unlink(test_path("back"));
}

static void what_cannot_be_sent_or_fetched_is_said_and_leaves_nothing(void **state)
{
	struct shoal_err err = { "" };
	int stop = 1;
	const struct transfer_watch watch = { .stop = &stop };

	(void)state;
	assert_int_equal(transfer_put_file(test_path("none"), URI, NULL, NULL, &err), -ENOENT);
	check_words(&err, "none");
	file_write(test_path("f"), "x", 1);
	assert_int_equal(transfer_put_file(test_path("f"), "mem://place", NULL, NULL, &err),
			 -EINVAL);
	check_words(&err, "'mem://place' has no name: write mem://bucket/name");
	assert_int_equal(transfer_put_file(test_path("f"), URI, NULL, &watch, &err), -ECANCELED);
	assert_int_equal(transfer_is_object(URI, NULL, NULL, &err), 0);
	assert_int_equal(transfer_is_object("mem://place", NULL, NULL, &err), 0);
	assert_true(transfer_put_file(test_dir(), URI, NULL, NULL, &err) < 0); /* a directory */
	check_words(&err, "cannot read it");
	assert_int_equal(transfer_is_object(URI, NULL, NULL, &err), 0);
	assert_int_equal(transfer_get_file(URI, test_path("g"), NULL, NULL, &err), -ENOENT);
	unlink(test_path("f"));
	assert_int_equal(test_dir_count(), 0);
}

/* ---- Calls that fail ---- */

static int fetch_copy(struct shoal_err *err)
{
	return open_copy(err);
}

static int fetch_nameless(struct shoal_err *err)
{
	struct shoal_catalog *cat = NULL;
	int rc = shoal_catalog_open(URI, &cat, err);

	shoal_catalog_close(cat);
	return rc;
}

static int send_file(struct shoal_err *err)
{
	return transfer_put_file(test_path("sent"), "mem://place/sent", NULL, NULL, err);
}

static int get_file(struct shoal_err *err)
{
	return transfer_get_file(URI, test_path("got"), NULL, NULL, err);
}

/* Remove what a scenario has made. */
static void undo(void)
{
	char *path = only_copy();

	if (path)
		unlink(path);
	free(path);
	unlink(test_path("got"));
}

static void whichever_call_fails_the_error_has_words_and_nothing_is_left(void **state)
{
	static const unsigned calls[] = { FAULT_MEMORY, FAULT_OPEN,  FAULT_PWRITE, FAULT_FSYNC,
					  FAULT_RENAME, FAULT_PREAD, FAULT_MMAP };
	int (*const scenarios[])(struct shoal_err * err) = { fetch_copy, fetch_nameless, send_file,
							     get_file };
	unsigned nr_failed = 0;

	(void)state;
	put_catalog(50);
	file_write(test_path("sent"), "some bytes", 10);
	for (size_t s = 0; s < ARRAY_LEN(scenarios); s++)
		for (size_t c = 0; c < ARRAY_LEN(calls); c++)
			for (int nth = 1, fired = 1; fired; nth++) {
				struct shoal_err err = { "" };
				int rc;

				fault_arm(&fault, calls[c], nth, FAULT_ONCE,
					  calls[c] == FAULT_MEMORY ? ENOMEM : EIO);
				rc = scenarios[s](&err);
				fired = fault.fired;
				fault_disarm(&fault);
				if (rc < 0 && !*err.msg)
					fail_msg("scenario %zu, call %zu of kind %x: no words", s,
						 (size_t)nth, calls[c]);
				nr_failed += rc < 0;
				undo();
				assert_int_equal(test_dir_count(), 2); /* sent, copies */
			}
	assert_true(nr_failed > 20);
	unlink(test_path("sent"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, forget)
	static const struct CMUnitTest tests[] = {
		TEST(a_copy_is_made_once_and_used_from_then_on),
		TEST(an_unfit_copy_is_replaced_with_a_word),
		TEST(a_link_at_the_copys_name_is_replaced_and_not_followed),
		TEST(a_copy_of_another_user_is_refused),
		TEST(what_is_no_catalog_is_refused_and_names_no_copy),
		TEST(a_directory_that_is_not_there_is_named),
		TEST(a_stop_ends_it_before_and_while_another_process_writes),
		TEST(a_file_comes_back_as_it_went),
		TEST(what_cannot_be_sent_or_fetched_is_said_and_leaves_nothing),
		TEST(whichever_call_fails_the_error_has_words_and_nothing_is_left),
	};

	if (store_register(&store_mem_kind) < 0)
		return 1;
	sigbus_guard_init();
	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
