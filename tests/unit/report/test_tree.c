/*
 * Goal: leaves of a tree of results are told from other names; documents are read or refused in
 * words; the hash of code is that of upstream's rule, whatever tools have left beside the code.
 */
#include "report/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"

/* "<folder>/<name>" with the folders above it, lent. */
static const char *make_above(const char *name)
{
	char path[300];

	for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(path, sizeof(path), "%.*s", (int)(slash - name), name);
		mkdir(test_path(path), 0777);
	}
	return test_path(name);
}

static void write_text(const char *name, const char *text)
{
	file_write(make_above(name), text, strlen(text));
}

static int remove_all(void **state)
{
	char command[300];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'/*", test_dir());
	return system(command);
}

static void a_leaf_is_named_by_a_time(void **state)
{
	static const char *const others[] = {
		"",
		"20261118_23595",
		"20261118_2359599",
		"20261118-235959",
		"2026111_8235959",
		"20261118_23595x",
		"20261318_235959", /* month 13 */
		"20261118_245959",
		"20261100_235959",
		"results.json",
	};
	double seconds = 0;

	(void)state;
	assert_true(tree_leaf_time("19700101_000000", &seconds));
	assert_true(seconds == 0);
	assert_true(tree_leaf_time("20240229_235959", &seconds));
	assert_true(seconds == 1709251199.0);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (tree_leaf_time(others[i], &seconds))
			fail_msg("'%s' is a time", others[i]);
}

static void names_are_sorted_and_directories_known(void **state)
{
	struct shoal_err err = { "" };
	struct tree_names names;

	(void)state;
	write_text("d/b", "");
	write_text("d/.hidden", "");
	write_text("d/a/x", "");
	assert_int_equal(symlink("a", test_path("d/link")), 0);
	assert_int_equal(symlink("nowhere", test_path("d/broken")), 0);
	assert_int_equal(tree_list(test_path("d"), &names, &err), 0);
	assert_int_equal(names.nr, 5);
	for (size_t i = 0; i < names.nr; i++) {
		static const char *const want[] = { ".hidden", "a", "b", "broken", "link" };

		assert_string_equal(names.all[i].name, want[i]);
		assert_int_equal(names.all[i].dir, i == 1 || i == 4);
	}
	tree_names_release(&names);
	tree_names_release(&names);
	assert_int_equal(tree_list(test_path("none"), &names, &err), 0);
	assert_int_equal(names.nr, 0);
	assert_int_equal(tree_list(test_path("d/b"), &names, &err), 0);
	assert_int_equal(names.nr, 0);
}

static void a_document_is_a_map_or_is_refused_in_words(void **state)
{
	static const struct {
		const char *text, *words; /* NULL: it is taken */
	} row[] = {
		{ "{\"a\": {\"b\": 5}}", NULL },
		{ "a: {b: 5}", NULL },
		{ "[1, 2]", "is not an object with keys" },
		{ "", "is not an object with keys" },
		{ "text", "is not an object with keys" },
		{ "{\"a\": ", "not valid YAML" },
		{ "a: \xff", "not UTF-8" },
	};
	struct shoal_err err = { "" };
	struct yaml_node *root;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		int rc;

		write_text("doc", row[i].text);
		rc = tree_load(test_path("doc"), &root, &err);
		assert_int_equal(rc, row[i].words ? -EINVAL : 0);
		if (row[i].words)
			check_words(&err, row[i].words);
		else
			assert_string_equal(tree_text(root, "a.b", ""), "5");
		if (root)
			yaml_free(root);
	}
	assert_int_equal(tree_load(test_path("none"), &root, &err), -ENOENT);
	assert_null(root);
}

static void a_document_may_be_as_large_as_a_workload_and_no_larger(void **state)
{
	char *text = allocate(YAML_BYTES_MAX + 2, 1);
	struct shoal_err err = { "" };
	struct yaml_node *root;

	(void)state;
	for (size_t more = 0; more < 2; more++) {
		memset(text, ' ', YAML_BYTES_MAX + more);
		memcpy(text, "a: 1\n", 5);
		write_text("doc", text);
		assert_int_equal(tree_load(test_path("doc"), &root, &err), more ? -EINVAL : 0);
		if (root)
			yaml_free(root);
	}
	check_words(&err, "has more than 1048576 bytes");
	free(text);
}

static void values_that_are_missing_or_no_numbers_have_a_default(void **state)
{
	struct shoal_err err = { "" };
	struct yaml_node *root;

	(void)state;
	write_text("doc", "a: {n: 1.5, t: text, z: ~, l: [1], e: '', w: 2 apples}");
	assert_int_equal(tree_load(test_path("doc"), &root, &err), 0);
	assert_true(tree_number(root, "a.n", 9) == 1.5);
	assert_true(tree_number(root, "a.t", 9) == 9);
	assert_true(tree_number(root, "a.z", 9) == 9);
	assert_true(tree_number(root, "a.l", 9) == 9);
	assert_true(tree_number(root, "a.e", 9) == 9);
	assert_true(tree_number(root, "a.w", 9) == 9);
	assert_true(tree_number(root, "a", 9) == 9);
	assert_true(tree_number(root, "b.n", 9) == 9);
	assert_string_equal(tree_text(root, "a.t", "none"), "text");
	assert_string_equal(tree_text(root, "a.z", "none"), "none");
	assert_string_equal(tree_text(root, "a.l", "none"), "none");
	assert_string_equal(tree_text(NULL, "a", "none"), "none");
	yaml_free(root);
}

/* Computed by Python's hashlib: md5(b"a.txtA" b"b.txtB" b"b/c.pyC"): in bytes '.' is less than '/'.
 */
#define CODE_HASH "677db6f6547d8d0903c2195c55f8e252"

static void the_hash_of_code_has_paths_and_contents_and_not_what_tools_leave(void **state)
{
	static const char *const left[] = { ".git/x",       "b/__pycache__/c.pyc", "b/c.pyc",
					    "tests/t.py",   "shoal.egg-info/P",    "build/o",
					    ".DS_Store",    ".code-hash.json",     "b/dist/w",
					    "b/.venv/lib/p" };
	struct shoal_err err = { "" };
	char hex[33], path[64];

	(void)state;
	write_text("code/b.txt", "B");
	write_text("code/a.txt", "A");
	write_text("code/b/c.py", "C");
	assert_int_equal(tree_code_hash(test_path("code"), hex, &err), 0);
	assert_string_equal(hex, CODE_HASH);
	for (size_t i = 0; i < ARRAY_LEN(left); i++) {
		snprintf(path, sizeof(path), "code/%s", left[i]);
		write_text(path, "left");
	}
	assert_int_equal(symlink("a.txt", test_path("code/link")), 0); /* only files count */
	assert_int_equal(tree_code_hash(test_path("code"), hex, &err), 0);
	assert_string_equal(hex, CODE_HASH);
	write_text("code/b/dist.txt", ""); /* a name alone counts */
	assert_int_equal(tree_code_hash(test_path("code"), hex, &err), 0);
	assert_string_not_equal(hex, CODE_HASH);
}

static void code_that_never_ends_is_refused(void **state)
{
	struct shoal_err err = { "" };
	char hex[33];

	(void)state;
	write_text("code/d/f", "x");
	assert_int_equal(symlink("..", test_path("code/d/up")), 0); /* to itself */
	assert_int_equal(tree_code_hash(test_path("code"), hex, &err), -ELOOP);
	check_words(&err, "has too many levels");
}

static void code_is_written_once_and_has_the_hash_it_says(void **state)
{
	struct shoal_err err = { "" };
	struct yaml_node *root;
	struct stat before, after;
	char hex[33];

	(void)state;
	assert_int_equal(tree_write_code(test_path("new/code"), &err), 0);
	assert_int_equal(tree_code_hash(test_path("new/code"), hex, &err), 0);
	assert_int_equal(tree_load(test_path("new/code/.code-hash.json"), &root, &err), 0);
	assert_string_equal(tree_text(root, "hash", ""), hex);
	assert_string_equal(tree_text(root, "algorithm", ""), "md5-tree-v2");
	yaml_free(root);
	assert_int_equal(stat(test_path("new/code/SHOAL.txt"), &before), 0);
	assert_int_equal(tree_write_code(test_path("new/code"), &err), 0);
	assert_int_equal(stat(test_path("new/code/SHOAL.txt"), &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
}

static void rows_are_of_leaves_with_a_summary(void **state)
{
	static const char summary[] = "{\"num_accelerators\": 3, \"metric\": {"
				      "\"train_au_meet_expectation\": \"success\", "
				      "\"train_au_mean_percentage\": 91.5}}";
	struct shoal_err err = { "" };
	char *rows;
	size_t len;

	(void)state;
	write_text("run/20260101_000000/summary.json", summary);
	write_text("run/20260102_000000/summary.json", "damaged");
	write_text("run/20260103_000000/other.json", summary);
	write_text("run/notes/summary.json", summary);
	write_text("run/20260104_000000/summary.json", "{}");
	assert_int_equal(tree_write_rows(test_path("run/20260104_000000"), &err), 0);
	rows = (char *)file_read(test_path("run/results.json"), &len);
	rows[len - 1] = '\0';
	assert_non_null(strstr(rows, "20260101_000000"));
	assert_non_null(strstr(rows, "91.5"));
	assert_non_null(strstr(rows, "success"));
	assert_non_null(strstr(rows, "20260104_000000"));
	assert_non_null(strstr(rows, "unknown"));
	assert_null(strstr(rows, "20260102"));
	assert_null(strstr(rows, "20260103"));
	assert_null(strstr(rows, "notes"));
	free(rows);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, remove_all)
	static const struct CMUnitTest tests[] = {
		TEST(a_leaf_is_named_by_a_time),
		TEST(names_are_sorted_and_directories_known),
		TEST(a_document_is_a_map_or_is_refused_in_words),
		TEST(a_document_may_be_as_large_as_a_workload_and_no_larger),
		TEST(values_that_are_missing_or_no_numbers_have_a_default),
		TEST(the_hash_of_code_has_paths_and_contents_and_not_what_tools_leave),
		TEST(code_that_never_ends_is_refused),
		TEST(code_is_written_once_and_has_the_hash_it_says),
		TEST(rows_are_of_leaves_with_a_summary),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
