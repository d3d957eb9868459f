/*
 * Goal: paths that just fit are taken and those that do not are refused in words; a folder is there
 * afterwards, with all above it, or an error names the part that could not be made.
 */
#include "base/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"

static void the_folder_of_a_path_is_what_precedes_its_last_slash(void **state)
{
	static const struct {
		const char *path, *dir;
	} row[] = {
		{ "a", "." },   { "", "." },          { "/a", "/" },     { "/", "/" },
		{ "a/b", "a" }, { "/a/b/c", "/a/b" }, { "a/b/", "a/b" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char *dir = path_dir(row[i].path);

		assert_string_equal(dir, row[i].dir);
		free(dir);
	}
}

static void a_joined_path_fits_with_its_zero_or_is_refused(void **state)
{
	struct shoal_err err = { "" };
	char buf[8];

	(void)state;
	assert_int_equal(path_join("ab", "cdef", buf, sizeof(buf), &err), 0);
	assert_string_equal(buf, "ab/cdef"); /* 7 bytes and the zero */
	assert_int_equal(path_join("ab", "cdefg", buf, sizeof(buf), &err), -ENAMETOOLONG);
	check_words(&err, "the path 'ab.../cdefg' is too long");
	assert_int_equal(path_join("", "x", buf, sizeof(buf), &err), 0);
	assert_string_equal(buf, "/x");
	assert_int_equal(path_join("x", "", buf, sizeof(buf), &err), 0);
	assert_string_equal(buf, "x/");
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void folders_that_are_missing_are_made_and_others_left(void **state)
{
	static const char *const part[] = { "a/b/c", "a/b", "a" };
	struct shoal_err err = { "" };
	char path[600];

	(void)state;
	assert_int_equal(path_make_dirs(test_dir(), &err), 0); /* it exists */
	assert_int_equal(path_make_dirs("/", &err), 0);
	assert_int_equal(path_make_dirs(test_path("a/b"), &err), 0);
	file_write(test_path("a/b/file"), "x", 1);
	assert_int_equal(path_make_dirs(test_path("a/b/c"), &err), 0);
	assert_true(is_dir(test_path("a/b/c")));
	snprintf(path, sizeof(path), "%s//a///b/d//", test_dir());
	assert_int_equal(path_make_dirs(path, &err), 0);
	assert_true(is_dir(test_path("a/b/d")));
	assert_int_equal(unlink(test_path("a/b/file")), 0); /* still there */
	assert_int_equal(rmdir(test_path("a/b/d")), 0);
	for (size_t i = 0; i < ARRAY_LEN(part); i++)
		assert_int_equal(rmdir(test_path(part[i])), 0);
}

static void a_file_in_the_way_is_named(void **state)
{
	struct shoal_err err = { "" };

	(void)state;
	file_write(test_path("file"), "x", 1);
	assert_int_equal(path_make_dirs(test_path("file/a/b"), &err), -ENOTDIR);
	check_words(&err, "cannot create the folder '");
	check_words(&err, "/file/a'");
	assert_int_equal(unlink(test_path("file")), 0);
}

static void an_empty_path_and_one_too_long_are_refused(void **state)
{
	struct shoal_err err = { "" };
	char path[4097];

	(void)state;
	assert_int_equal(path_make_dirs("", &err), -ENAMETOOLONG);
	check_words(&err, "the path '' is empty");
	/* 4095 slashes are a path that the kernel takes: the root. */
	memset(path, '/', sizeof(path));
	path[4095] = '\0';
	assert_int_equal(path_make_dirs(path, &err), 0);
	path[4095] = '/';
	path[4096] = '\0';
	assert_int_equal(path_make_dirs(path, &err), -ENAMETOOLONG);
	check_words(&err, "is too long");
}

static void own_files_are_recognised_by_their_last_component_only(void **state)
{
	static const char *const own[] = { ".shoal-dataset",      ".shoal-lock",
					   "catalog.shoal",       "catalog-train.shoal",
					   "catalog-valid.shoal", "d/e/catalog.shoal",
					   ".x.01234567.partial", "d/.x.y.89abcdef.partial",
					   ".shoal-run/state",    "d/.shoal-run/steps.12",
					   ".shoal-run/lock",     "d/.sweep.lock" };
	static const char *const others[] = { "",
					      "t",
					      "l",
					      "catalog.shoal/x",
					      "xcatalog.shoal",
					      "catalog.shoals",
					      "d/shoal-lock",
					      "x.01234567.partial",  /* no dot first */
					      ".01234567.partial",   /* no name */
					      ".x.0123456.partial",  /* seven digits */
					      ".x.0123456g.partial", /* no hexadecimal digit */
					      ".x.01234567.partial/t",
					      "x.shoal-run/state",
					      ".shoal-run/deeper/state",
					      ".shoal-run",
					      "begin.json" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (!path_is_own(own[i], strlen(own[i])))
			fail_msg("%s is a sample", own[i]);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (path_is_own(others[i], strlen(others[i])))
			fail_msg("%s is no sample", others[i]);
}

static void a_path_is_inside_a_folder_by_any_links(void **state)
{
	(void)state;
	assert_int_equal(path_make_dirs(test_path("in/a/b"), NULL), 0);
	assert_int_equal(symlink("in/a", test_path("link")), 0);
	assert_true(path_is_inside(test_path("in/a"), test_path("in/a")));
	assert_true(path_is_inside(test_path("in/a/b/file"), test_path("in/a")));
	assert_true(path_is_inside(test_path("in/a/no/such/file"), test_path("in/a")));
	assert_true(path_is_inside(test_path("link/file"), test_path("in")));
	assert_true(path_is_inside(test_path("in/a/b"), test_path("link")));
	assert_true(path_is_inside(test_path("in/a/../x"), test_path("in")));
	assert_true(path_is_inside(test_path("in"), "/"));
	assert_true(path_is_inside("no-such-file", "."));
	assert_false(path_is_inside(test_path("in/ab"), test_path("in/a")));
	assert_false(path_is_inside(test_path("in"), test_path("in/a")));
	assert_false(path_is_inside(test_path("in/a/../x"), test_path("in/a")));
	assert_true(path_is_inside("none/x", "none")); /* that will be made */
	assert_false(path_is_inside("nonex", "none"));
	assert_int_equal(unlink(test_path("link")), 0);
	path_remove_empty(test_path("in/a/b"), 3);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_folder_of_a_path_is_what_precedes_its_last_slash),
		cmocka_unit_test(a_joined_path_fits_with_its_zero_or_is_refused),
		cmocka_unit_test(folders_that_are_missing_are_made_and_others_left),
		cmocka_unit_test(a_file_in_the_way_is_named),
		cmocka_unit_test(an_empty_path_and_one_too_long_are_refused),
		cmocka_unit_test(own_files_are_recognised_by_their_last_component_only),
		cmocka_unit_test(a_path_is_inside_a_folder_by_any_links),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
