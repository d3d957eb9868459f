/* Goal: a list or a pattern becomes the catalog that a person would expect, or is refused in words.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "help.h"
#include "index/root.h"

/* ---- Roots ---- */

static void roots_are_made_of_what_is_given_or_of_the_first_name(void **state)
{
	static const struct {
		const char *given, *first;
		int want;
		const char *root; /* or the words */
	} row[] = {
		{ "s3://bucket", "", 0, "s3://bucket" },
		{ "s3://bucket/", "", 0, "s3://bucket" },
		{ "s3://bucket/a//", "", 0, "s3://bucket/a" },
		{ "/", "", 0, "file:///" },
		{ "//", "", 0, "file:///" },
		{ "/data/", "", 0, "file:///data" },
		{ "file:///", "", 0, "file:///" },
		{ "file:///data", "", 0, "file:///data" },
		{ "file://data", "", -EINVAL, "three slashes" },
		{ "", "", -EINVAL, "the root is empty" },
		{ "s3://b\xff", "", -EINVAL, "must be UTF-8" },
		{ "s3://b\n", "", -EINVAL, "control characters" },
		{ NULL, "/a/b", 0, "file:///" },
		{ NULL, "file:///a/b", 0, "file:///" },
		{ NULL, "s3://bucket/a/b", 0, "s3://bucket" },
		{ NULL, "s3://bucket", 0, "s3://bucket" },
		{ NULL, "gs+x-1://b/c", 0, "gs+x-1://b" },
		{ NULL, "http://host:80/x", 0, "http://host:80" },
		{ "s3://given", "gs://first/x", 0, "s3://given" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct index_root root;
		struct shoal_err err = { "" };
		int rc = index_root_init(&root, row[i].given, row[i].first, strlen(row[i].first),
					 &err);

		if (rc != row[i].want ||
		    (rc == 0 ? strcmp(root.uri, row[i].root) != 0 : !strstr(err.msg, row[i].root)))
			fail_msg("row %zu: %d, '%s', '%s'", i, rc, rc ? "" : root.uri, err.msg);
		if (rc == 0)
			assert_int_equal(root.len, strlen(root.uri));
	}
}

static void a_relative_root_lies_below_the_current_folder(void **state)
{
	static const char *const row[][2] = {
		{ ".", "" },       { "./", "" }, { "data", "/data" }, { "./data/", "/data" },
		{ "././a", "/a" },
	};
	char *cwd = getcwd(NULL, 0);
	struct index_root root;
	struct shoal_err err = { "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char want[5000];

		snprintf(want, sizeof(want), "file://%s%s", cwd, row[i][1]);
		assert_int_equal(index_root_init(&root, row[i][0], "", 0, &err), 0);
		assert_string_equal(root.uri, want);
		assert_true(root.is_file);
	}
	assert_int_equal(index_root_init(&root, NULL, "a", 1, &err), 0);
	assert_int_equal(root.len, strlen("file://") + strlen(cwd));
	free(cwd);
}

static void a_root_of_4096_bytes_is_the_longest(void **state)
{
	struct index_root root;
	struct shoal_err err = { "" };
	char *given = allocate(5000, 1);

	(void)state;
	memset(given, 'r', 4097);
	memcpy(given, "s3://", 5);
	assert_int_equal(index_root_init(&root, given, "", 0, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "more than 4096 bytes"));
	given[4096] = '\0';
	assert_int_equal(index_root_init(&root, given, "", 0, &err), 0);
	assert_int_equal(root.len, 4096);
	free(given);
}

static void names_are_made_relative_to_the_root(void **state)
{
	static const struct {
		const char *root, *name;
		const char *want; /* NULL: it lies elsewhere */
	} row[] = {
		{ "s3://b", "s3://b/x", "x" },
		{ "s3://b", "s3://b/x/y", "x/y" },
		{ "s3://b", "s3://bb/x", NULL },
		{ "s3://b", "s3://b", NULL },
		{ "s3://b", "s3://b/", NULL },
		{ "s3://b", "gs://b/x", NULL },
		{ "s3://b", "x", "x" },
		{ "s3://b", "./x", "./x" }, /* a key may be called so */
		{ "s3://b", "/x", "/x" },
		{ "s3://b/p", "s3://b/x", NULL },
		{ "s3://b/p", "s3://b/p/x", "x" },
		{ "/", "/x", "x" },
		{ "/", "file:///x", "x" },
		{ "/", "x", "x" },
		{ "/data", "/data/x", "x" },
		{ "/data", "/data/./x", "x" },
		{ "/data", "file:///data/x", "x" },
		{ "/data", "/database/x", NULL },
		{ "/data", "/data", NULL },
		{ "/data", "/data/", NULL },
		{ "/data", "/x", NULL },
		{ "/data", "x", "x" },
		{ "/data", "./x", "x" },
		{ "/data", "././x", "x" },
		{ "/data", "./", NULL },
		{ "/data", ".x", ".x" },
		{ "/data", "../x", NULL },
		{ "/data", "/data/../x", NULL },
		{ "/data", "..", NULL },
		{ "/data", "a/../x", NULL },
		{ "/data", "a/..", NULL },
		{ "/data", "/data/a..b/../../etc/x", NULL },
		{ "/data", "..x", "..x" },
		{ "/data", "a/..x/x../...", "a/..x/x../..." },
		{ "s3://b", "a/../x", "a/../x" }, /* which leads nowhere else */
		{ "/data", "/data//x", "x" },
		{ "/data", "0://x", "0://x" }, /* a scheme starts with a letter */
		{ "/data", "s3://b/x", NULL },
		{ "/data", "a://b", NULL },
		{ "/data", "a:/b", "a:/b" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct index_root root;
		struct shoal_err err = { "" };
		const char *name = row[i].name;
		size_t len = strlen(name);
		int rc;

		assert_int_equal(index_root_init(&root, row[i].root, "", 0, &err), 0);
		rc = index_root_strip(&root, &name, &len, &err);
		if (rc != (row[i].want ? 0 : -EINVAL))
			fail_msg("row %zu: %d, %s", i, rc, err.msg);
		if (row[i].want) {
			assert_int_equal(len, strlen(row[i].want));
			assert_memory_equal(name, row[i].want, len);
		} else {
			assert_non_null(strstr(err.msg, "is not a name below the root"));
		}
	}
}

/* ---- Lists ---- */

static int index_bytes(const void *bytes, size_t len, char separator, bool names_only,
		       const char *root, struct shoal_index_result *result, struct shoal_err *err)
{
	struct shoal_index_options options = { .output = test_path("l.cat"),
					       .root = root,
					       .memory = SHOAL_INDEX_MEMORY_MIN };
	int fd, rc;

	file_write(test_path("list"), bytes, len);
	fd = open(test_path("list"), O_RDONLY);
	assert_true(fd >= 0);
	rc = shoal_index_list(fd, separator, names_only, &options, result, err);
	close(fd);
	unlink(test_path("list"));
	return rc;
}

/* The catalog as text, to compare: name, size, samples, a line each. */
static void check_text(const char *path, const char *want)
{
	struct shoal_catalog *cat = catalog_open(path);
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	shoal_catalog_info(cat, &info);
	for (uint64_t i = 0; i < info.nr_files; i++) {
		char name[SHOAL_NAME_MAX + 1];
		uint64_t size, first, count;

		assert_true(shoal_catalog_name(cat, i, name) > 0);
		assert_int_equal(shoal_catalog_size(cat, i, &size), 0);
		assert_int_equal(shoal_catalog_samples(cat, i, &first, &count), 0);
		fprintf(f, "%s %" PRId64 " %" PRIu64 ",", name, (int64_t)size, count);
	}
	fclose(f);
	assert_string_equal(text, want);
	assert_int_equal(shoal_catalog_verify(cat, &err), 0);
	free(text);
	shoal_catalog_close(cat);
	unlink(path);
}

#define TEXT(s) s, sizeof(s) - 1

static void lines_are_taken_apart(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		char separator;
		bool names_only;
		const char *want;
		uint64_t repeated, blank;
	} row[] = {
		{ TEXT(""), '\n', false, "", 0, 0 },
		{ TEXT("\n\n"), '\n', false, "", 0, 2 },
		{ TEXT("b\na\n"), '\n', false, "a -1 1,b -1 1,", 0, 0 },
		{ TEXT("b\na"), '\n', false, "a -1 1,b -1 1,", 0, 0 },
		{ TEXT("\nb\n\na\n\n"), '\n', false, "a -1 1,b -1 1,", 0, 3 },
		{ TEXT("a\t5\nb\t0\n"), '\n', false, "a 5 1,b 0 1,", 0, 0 },
		{ TEXT("a\t5\nb\t7\na\t6\n"), '\n', false, "a 6 1,b 7 1,", 1, 0 },
		{ TEXT("a\t5\t2\nb\t0\t0\n"), '\n', false, "a 5 2,b 0 0,", 0, 0 },
		{ TEXT("a 5\n"), '\n', false, "a 5 -1 1,", 0, 0 },
		{ TEXT("a\t5\nb\tx\n"), '\n', true, "a\t5 -1 1,b\tx -1 1,", 0, 0 },
		{ TEXT("b\0a\0"), '\0', false, "a -1 1,b -1 1,", 0, 0 },
		{ TEXT("b\0a"), '\0', false, "a -1 1,b -1 1,", 0, 0 },
		{ TEXT("a\nb\0c\r\0"), '\0', false, "a\nb -1 1,c\r -1 1,", 0, 0 },
		{ TEXT("a\t18446744073709551614\n"), '\n', false, "a -2 1,", 0, 0 },
		{ TEXT("s3://b/y\ny\nx\n"), '\n', false, "x -1 1,y -1 1,", 1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_index_result result = { .nr_names = 7,
						     .nr_repeated = 7,
						     .nr_blank = 7 };
		struct shoal_err err = { "" };

		if (index_bytes(row[i].bytes, row[i].len, row[i].separator, row[i].names_only,
				"s3://b", &result, &err) < 0)
			fail_msg("row %zu: %s", i, err.msg);
		assert_int_equal(result.nr_repeated, row[i].repeated);
		assert_int_equal(result.nr_blank, row[i].blank);
		check_text(test_path("l.cat"), row[i].want);
	}
}

static void lines_that_make_no_sense_are_named(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *says;
	} row[] = {
		{ TEXT("a\nb\t5\n"), "line 2 has a size after the name, but line 1 has no size" },
		{ TEXT("\n\na\t5\nb\n"),
		  "line 4 has no size after the name, but line 3 has a size" },
		{ TEXT("a\t5\t5\nb\t5\n"), "line 2 has a size after" },
		{ TEXT("a\nb\r\n"), "line 2 ends in CR LF" },
		{ TEXT("a\r\n"), "line 1 ends in CR LF" },
		{ TEXT("a\nb\0c\n"), "line 2 contains a NUL byte" },
		{ TEXT("a\0b\0"), "line 1 contains a NUL byte" },
		{ TEXT("\t5\n"), "line 1: '' is not a name below" },
		{ TEXT("gs://b/x\n"), "line 1: 'gs://b/x' is not a name below the root 's3://b'" },
		{ TEXT("a\t18446744073709551615\n"), "line 1: the size is too large" },
		{ TEXT("a\t18446744073709551616\n"), "line 1: the text after a tab is too large" },
		{ TEXT("a\t5\nb\t99999999999999999999999\n"),
		  "line 2: the text after a tab is too large" },
		{ TEXT("a\t5\t1\nb\t99999999999999999999999\t1\n"),
		  "line 2: the text after a tab is too large" },
		{ TEXT("a\t5\t2\t3\n"), "line 1: the text after a tab is not a size" },
		{ TEXT("a\tx\n"), "line 1: the text after a tab is not a size" },
		{ TEXT("a\t\n"), "line 1: the text after a tab is not a size" },
		{ TEXT("a\tx\t5\n"), "line 1: the text after a tab is not a size" },
		{ TEXT("a\t-1\n"), "line 1: the text after a tab is not a size" },
		{ TEXT("\xef\xbb\xbf"
		       "a\n"),
		  "byte order mark" },
		{ TEXT("a\t9223372036854775808\nb\t9223372036854775808\n"), "2^64" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_index_result result = { .nr_names = 7,
						     .nr_repeated = 7,
						     .nr_blank = 7 };
		struct shoal_err err = { "" };
		int rc =
			index_bytes(row[i].bytes, row[i].len, '\n', false, "s3://b", &result, &err);

		if (rc >= 0 || !strstr(err.msg, row[i].says))
			fail_msg("row %zu: %d, '%s'", i, rc, err.msg);
		assert_int_equal(result.nr_names, 7);
		test_dir_count();
		if (test_dir_count() != 0)
			fail_msg("row %zu leaves a file", i);
	}
}

static void names_of_up_to_4096_bytes_are_taken(void **state)
{
	static const struct {
		size_t len;
		const char *says; /* NULL: it is taken */
	} row[] = {
		{ SHOAL_NAME_MAX, NULL },
		{ SHOAL_NAME_MAX + 1, "line 1: a name has 4097 bytes" },
		{ 3 * SHOAL_NAME_MAX, "line 1: a name has 12288 bytes" },
		{ 200000, "line 1: a name has 200000 bytes" },
		{ 3000000, "line 1 is longer than any name" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		for (int prefixed = 0; prefixed < 2; prefixed++) {
			struct shoal_index_result result;
			struct shoal_err err = { "" };
			size_t at = prefixed ? strlen("s3://b/") : 0;
			char *line = allocate(row[i].len + at + 1, 1);
			int rc;

			memset(line, 'n', row[i].len + at);
			if (prefixed)
				memcpy(line, "s3://b/", at);
			line[row[i].len + at] = '\n';
			rc = index_bytes(line, row[i].len + at + 1, '\n', false, "s3://b", &result,
					 &err);
			if (row[i].says && !strstr(err.msg, row[i].says))
				fail_msg("row %zu: %s", i, err.msg);
			assert_int_equal(rc, row[i].says ? -EINVAL : 0);
			unlink(test_path("l.cat"));
			free(line);
		}
}

/* A pipe gives what it has, at any place of a line. */
static void a_list_through_a_pipe_may_come_in_pieces(void **state)
{
	struct shoal_index_options options = { .output = test_path("l.cat"), .root = "s3://b" };
	struct shoal_index_result result;
	struct shoal_err err = { "" };
	int ends[2], rc;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		static const char *const piece[] = {
			"na", "me-1\t1", "2\n", "\nname-0", "\t7", "\n"
		};

		close(ends[0]);
		for (size_t i = 0; i < ARRAY_LEN(piece); i++) {
			if (write(ends[1], piece[i], strlen(piece[i])) < 0)
				_exit(1);
			usleep(2000);
		}
		_exit(0);
	}
	close(ends[1]);
	rc = shoal_index_list(ends[0], '\n', false, &options, &result, &err);
	close(ends[0]);
	assert_int_equal(rc, 0);
	assert_int_equal(result.nr_blank, 1);
	check_text(test_path("l.cat"), "name-0 7 1,name-1 12 1,");
	assert_int_equal(shoal_index_list(-1, '\n', false, &options, &result, &err), -EBADF);
	assert_non_null(strstr(err.msg, "cannot read the list"));
}

static void count_names(void *self, const struct shoal_index_progress *now)
{
	if (!now->sealing)
		*(uint64_t *)self = now->nr_names;
}

static void a_long_list_tells_of_its_progress_and_can_be_stopped(void **state)
{
	size_t nr = 200000, len = nr * 10;
	char *bytes = allocate(len + 1, 1);
	struct shoal_index_result result;
	uint64_t seen = 0;

	(void)state;
	for (size_t i = 0; i < nr; i++)
		snprintf(bytes + 10 * i, 11, "%09zu\n", i * 7919 % nr);
	for (int stop = 0; stop < 2; stop++) {
		struct shoal_index_options options = { .output = test_path("l.cat"),
						       .root = "s3://b",
						       .memory = SHOAL_INDEX_MEMORY_MIN,
						       .samples_per_file = 4,
						       .stop = &stop,
						       .progress = count_names,
						       .self = &seen };
		struct shoal_err err = { "" };
		int fd, rc;

		file_write(test_path("list"), bytes, len);
		fd = open(test_path("list"), O_RDONLY);
		rc = shoal_index_list(fd, '\n', false, &options, &result, &err);
		close(fd);
		unlink(test_path("list"));
		assert_int_equal(rc, stop ? -ECANCELED : 0);
		if (stop) {
			assert_string_equal(err.msg, "interrupted");
			continue;
		}
		assert_int_equal(result.nr_names, nr);
		assert_int_equal(seen, 196608);
		{
			struct shoal_catalog *cat = catalog_open(test_path("l.cat"));

			assert_int_equal(cat->view.nr_samples, 4 * nr);
			shoal_catalog_close(cat);
			unlink(test_path("l.cat"));
		}
	}
	assert_int_equal(test_dir_count(), 0);
	free(bytes);
}

static void too_little_memory_and_bad_folders_are_said(void **state)
{
	struct shoal_index_options options = { .output = test_path("l.cat"),
					       .root = "s3://b",
					       .memory = SHOAL_INDEX_MEMORY_MIN - 1 };
	struct shoal_pattern pattern = { .format = "{}", .count = 3 };
	struct shoal_index_result result;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_index_pattern(&pattern, &options, &result, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "bytes of memory are too few"));
	assert_int_equal(err.hint, SHOAL_HINT_MORE_MEMORY);
	assert_int_equal(err.hint_value, UINT64_C(48) << 20);
	options.memory = 0;
	options.output = test_path("none/l.cat");
	assert_int_equal(shoal_index_pattern(&pattern, &options, &result, &err), -ENOENT);
	options.output = test_dir();
	assert_int_equal(shoal_index_pattern(&pattern, &options, &result, &err), -EISDIR);
	assert_int_equal(test_dir_count(), 0);
}

/* ---- Patterns ---- */

static void patterns_make_their_names(void **state)
{
	static const struct {
		struct shoal_pattern pattern;
		const char *want;
	} row[] = {
		{ { "a{:03d}.x", 0, 3, 0, 5 }, "a000.x 5 1,a001.x 5 1,a002.x 5 1," },
		{ { "{}", 9, 3, 0, 5 }, "10 5 1,11 5 1,9 5 1," },
		{ { "{:d}_", 9, 3, 0, 5 }, "10_ 5 1,11_ 5 1,9_ 5 1," },
		{ { "{:02}", 98, 3, 0, 5 }, "100 5 1,98 5 1,99 5 1," }, /* one more digit */
		{ { "{{{:01d}}}", 0, 1, 0, 5 }, "{0} 5 1," },
		{ { "d/{:02d}", 0, 5, 2, 5 },
		  "d/0/00 5 1,d/0/02 5 1,d/0/04 5 1,d/1/01 5 1,d/1/03 5 1," },
		{ { "{:02d}", 0, 2, 3, 5 }, "0/00 5 1,1/01 5 1," },
		{ { "{:02d}", 0, 3, 10, 5 }, "00/00 5 1,01/01 5 1,02/02 5 1," },
		{ { "{:02d}", 1, 3, 2, 5 }, "0/02 5 1,1/01 5 1,1/03 5 1," },
		{ { "{}", 0, 2, 1, SHOAL_SIZE_UNKNOWN }, "0 -1 1,1 -1 1," },
		{ { "x{:020d}", UINT64_C(99999999999999999), 2, 0, 0 },
		  "x00099999999999999999 0 1,x00100000000000000000 0 1," },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_index_options options = { .output = test_path("p.cat"),
						       .root = "s3://b" };
		struct shoal_index_result result = { 0 };
		struct shoal_err err = { "" };

		if (shoal_index_pattern(&row[i].pattern, &options, &result, &err) < 0)
			fail_msg("row %zu: %s", i, err.msg);
		assert_int_equal(result.nr_names, row[i].pattern.count);
		check_text(test_path("p.cat"), row[i].want);
	}
}

/* The same names once as grids and once one by one. */
static void grids_are_the_same_as_names_made_one_by_one(void **state)
{
	static const uint64_t count[] = { 1, 2, 3, 99, 100, 101, 1000, 1001 };
	static const uint64_t folders[] = { 0, 2, 3, 7, 100, 1000 };

	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(count); c++)
		for (size_t f = 0; f < ARRAY_LEN(folders); f++) {
			struct shoal_pattern pattern = { "t/f_{:05d}_of", 0, count[c], folders[f],
							 12 };
			struct shoal_index_options options = { .output = test_path("p.cat"),
							       .root = TEST_ROOT,
							       .samples_per_file = 3 };
			struct shoal_index_result result = { 0 };
			struct test_list l = { 0 };
			struct shoal_catalog *cat, *same;
			char a[33], b[33];

			for (uint64_t i = 0; i < count[c]; i++) {
				if (folders[f])
					list_addf(&l, "t/%0*" PRIu64 "/f_%05" PRIu64 "_of",
						  folders[f] >= 1000  ? 4
						  : folders[f] >= 100 ? 3
								      : 1,
						  i % folders[f], i);
				else
					list_addf(&l, "t/f_%05" PRIu64 "_of", i);
				l.entry[i].size = 12;
			}
			list_sort(&l);
			assert_int_equal(shoal_index_pattern(&pattern, &options, &result, NULL), 0);
			cat = catalog_open(test_path("p.cat"));
			unlink(test_path("p.cat"));
			catalog_check(cat, &l);
			same = catalog_of(&l, true, 3);
			catalog_digest(cat, a);
			catalog_digest(same, b);
			assert_string_equal(a, b);
			shoal_catalog_close(cat);
			shoal_catalog_close(same);
			list_release(&l);
		}
}

static void patterns_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		struct shoal_pattern pattern;
		const char *says;
	} row[] = {
		{ { "abc", 0, 1, 0, 0 }, "the pattern has no number" },
		{ { "", 0, 1, 0, 0 }, "the pattern has no number" },
		{ { "{", 0, 1, 0, 0 }, "a '{' in the pattern has no '}'" },
		{ { "a{:03d", 0, 1, 0, 0 }, "a '{' in the pattern has no '}'" },
		{ { "}", 0, 1, 0, 0 }, "a '}' in the pattern has no '{'" },
		{ { "{}}", 0, 1, 0, 0 }, "a '}' in the pattern has no '{'" },
		{ { "{}{}", 0, 1, 0, 0 }, "more than one {} number" },
		{ { "{:3d}", 0, 1, 0, 0 }, "'{:3d}' in the pattern" },
		{ { "{x}", 0, 1, 0, 0 }, "'{x}' in the pattern" },
		{ { "{x}tail", 0, 1, 0, 0 }, "'{x}' in the pattern" },
		{ { "{:x}", 0, 1, 0, 0 }, "'{:x}' in the pattern" },
		{ { "{:0256d}", 0, 1, 0, 0 }, "'{:0256d}' in the pattern" },
		{ { "{:07dd}", 0, 1, 0, 0 }, "'{:07dd}' in the pattern" },
		{ { "{}", 0, 0, 0, 0 }, "the count of names" },
		{ { "{}", 0, SHOAL_ORDER_SAMPLES_MAX + 1, 0, 0 }, "too large" },
		{ { "{}", UINT64_C(100000000000000001), 1, 0, 0 }, "too large" },
		{ { "{}", 0, 1, UINT64_C(1000000001), 0 }, "too large" },
		{ { "{}/x", 0, 1, 2, 0 }, "must be in the last component" },
		{ { "gs://a{}", 0, 1, 0, 0 }, "is not a name below the root" },
		{ { "{:03d}", 0, 2, 0, UINT64_C(1) << 63 }, "2^64" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_index_options options = { .output = test_path("p.cat"),
						       .root = "s3://b" };
		struct shoal_index_result result = { 0 };
		struct shoal_err err = { "" };
		int rc = shoal_index_pattern(&row[i].pattern, &options, &result, &err);

		if (rc >= 0 || !strstr(err.msg, row[i].says))
			fail_msg("row %zu: %d, '%s', not '%s'", i, rc, err.msg, row[i].says);
		assert_int_equal(test_dir_count(), 0);
	}
}

static void patterns_longer_than_names_are_refused(void **state)
{
	(void)state;
	for (size_t len = 4060; len <= 4110; len++) {
		struct shoal_index_options options = { .output = test_path("p.cat"),
						       .root = "s3://b" };
		char *format = allocate(len + 3, 1);
		struct shoal_pattern pattern = { format, 0, 3, 0, 0 };
		struct shoal_index_result result = { 0 };
		struct shoal_err err = { "" };
		int rc;

		memset(format, 'f', len);
		memcpy(format + len, "{}", 2);
		rc = shoal_index_pattern(&pattern, &options, &result, &err);
		assert_int_equal(rc, len + 1 <= SHOAL_NAME_MAX ? 0 : -EINVAL);
		if (rc < 0)
			assert_non_null(strstr(err.msg, "4096 bytes"));
		unlink(test_path("p.cat"));
		free(format);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roots_are_made_of_what_is_given_or_of_the_first_name),
		cmocka_unit_test(a_relative_root_lies_below_the_current_folder),
		cmocka_unit_test(a_root_of_4096_bytes_is_the_longest),
		cmocka_unit_test(names_are_made_relative_to_the_root),
		cmocka_unit_test(lines_are_taken_apart),
		cmocka_unit_test(lines_that_make_no_sense_are_named),
		cmocka_unit_test(names_of_up_to_4096_bytes_are_taken),
		cmocka_unit_test(a_list_through_a_pipe_may_come_in_pieces),
		cmocka_unit_test(a_long_list_tells_of_its_progress_and_can_be_stopped),
		cmocka_unit_test(too_little_memory_and_bad_folders_are_said),
		cmocka_unit_test(patterns_make_their_names),
		cmocka_unit_test(grids_are_the_same_as_names_made_one_by_one),
		cmocka_unit_test(patterns_that_make_no_sense_are_refused),
		cmocka_unit_test(patterns_longer_than_names_are_refused),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
