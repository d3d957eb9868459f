/*
 * Goal: entries are printed so that each form can be read back, whatever bytes a name has; errors
 * are one line, however long, without bytes that a terminal interprets; and nothing foreign is
 * replaced.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/select_options.h"

const struct cli_command *const cli_commands[] = { NULL };

/* ---- Entries ---- */

static const struct shoal_entry known = {
	.name = "a/b", .len = 3, .size = 0, .samples = 2, .etag = "\"abc\"", .id = 7
};
static const struct shoal_entry unknown = {
	.name = "x", .len = 1, .size = SHOAL_SIZE_UNKNOWN, .samples = 1, .etag = "", .id = 8
};

static int put(const struct cli_format *f, const struct shoal_entry *e, bool with_id)
{
	int status;

	capture_begin();
	status = cli_put_entry("ls", f, e, with_id);
	capture_end();
	return status;
}

static void an_entry_has_the_columns_that_were_asked_for(void **state)
{
	static const struct {
		struct cli_format f;
		const char *known, *unknown;
	} row[] = {
		{ { .sizes = false }, "a/b\n", "x\n" },
		{ { .sizes = true }, "a/b\t0\n", "x\t-\n" },
		{ { .etags = true }, "a/b\tabc\n", "x\t-\n" },
		{ { .ids = true }, "7\ta/b\n", "8\tx\n" },
		{ { .ids = true, .sizes = true, .etags = true },
		  "7\ta/b\t0\tabc\n",
		  "8\tx\t-\t-\n" },
		{ { .csv = true, .sizes = true }, "a/b,0,2,abc\n", "x,,1,\n" },
		{ { .json = true },
		  "{\"name\": \"a/b\", \"size\": 0, \"samples\": 2, \"etag\": \"abc\"}\n",
		  "{\"name\": \"x\", \"size\": null, \"samples\": 1}\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		assert_int_equal(put(&row[i].f, &known, false), CLI_OK);
		assert_string_equal(printed, row[i].known);
		assert_int_equal(put(&row[i].f, &unknown, false), CLI_OK);
		assert_string_equal(printed, row[i].unknown);
	}
	put(&(struct cli_format){ .json = true }, &known, true);
	assert_int_equal(strncmp(printed, "{\"id\": 7, \"name\"", 16), 0);
}

static void put_name(const struct cli_format *f, const char *name, int status)
{
	struct shoal_entry e = unknown;

	e.name = name;
	e.len = strlen(name);
	assert_int_equal(put(f, &e, false), status);
}

static void any_name_is_readable_in_each_form(void **state)
{
	static const struct {
		const char *name, *csv, *json;
	} row[] = {
		{ "a b", "a b", "\"a b\"" },
		{ "a,b", "\"a,b\"", "\"a,b\"" },
		{ "a\"b", "\"a\"\"b\"", "\"a\\\"b\"" },
		{ "\"", "\"\"\"\"", "\"\\\"\"" },
		{ "a\nb", "\"a\nb\"", "\"a\\u000ab\"" },
		{ "a\rb", "\"a\rb\"", "\"a\\u000db\"" },
		{ "\xc3\xbc", "\xc3\xbc", "\"\xc3\xbc\"" },
		{ "\xff", "\xff", "\"\\ufffd\", \"name_hex\": \"ff\"" },
		{ "a\xc3", "a\xc3", "\"a\\ufffd\", \"name_hex\": \"61c3\"" },
	};
	char want[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		put_name(&(struct cli_format){ .csv = true }, row[i].name, CLI_OK);
		snprintf(want, sizeof(want), "%s,,1,\n", row[i].csv);
		assert_string_equal(printed, want);
		put_name(&(struct cli_format){ .json = true }, row[i].name, CLI_OK);
		snprintf(want, sizeof(want), "{\"name\": %s, \"size\": null, \"samples\": 1}\n",
			 row[i].json);
		assert_string_equal(printed, want);
	}
}

static void a_name_with_a_line_end_is_refused_in_lines_only(void **state)
{
	(void)state;
	put_name(&(struct cli_format){ .sizes = true }, "a\nb", CLI_FAILED);
	assert_string_equal(said, "shoal ls: name 8 contains a line end: use --null\n");
	assert_string_equal(printed, "");
	put_name(&(struct cli_format){ .null = true }, "a\nb", CLI_OK);
	assert_int_equal(printed_len, 4);
	assert_memory_equal(printed, "a\nb", 4);
}

static void the_longest_name_has_its_hexadecimal_digits(void **state)
{
	char name[SHOAL_NAME_MAX + 1];
	const char *hex;

	(void)state;
	memset(name, 0xfe, SHOAL_NAME_MAX);
	name[SHOAL_NAME_MAX] = '\0';
	put_name(&(struct cli_format){ .json = true }, name, CLI_OK);
	hex = strstr(printed, "\"name_hex\": \"");
	assert_non_null(hex);
	assert_int_equal(strspn(hex + 13, "fe"), 2 * SHOAL_NAME_MAX);
}

static void formats_exclude_each_other_and_only_csv_has_a_header(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits < 8; bits++) {
		struct cli_format f = { .null = bits & 1, .json = bits & 2, .csv = bits & 4 };
		int status;

		capture_begin();
		status = cli_format_check("ls", &f);
		cli_put_header(&f);
		capture_end();
		assert_int_equal(status, __builtin_popcount(bits) > 1 ? CLI_USAGE : CLI_OK);
		assert_string_equal(printed, f.csv ? "name,size,samples,etag\n" : "");
	}
}

/* ---- Messages ---- */

static void a_message_is_one_line_without_control_characters(void **state)
{
	static char longest[20000];

	(void)state;
	capture_begin();
	assert_int_equal(cli_fail("ls", "a\nb\033[31m\x7f\xc3\xbc%d", 5), CLI_FAILED);
	capture_end();
	assert_string_equal(said, "shoal ls: a\\x0ab\\x1b[31m\\x7f\xc3\xbc"
				  "5\n");
	capture_begin();
	assert_int_equal(cli_usage("", "words"), CLI_USAGE);
	capture_end();
	assert_string_equal(said, "shoal: words\nTry 'shoal --help'.\n");
	memset(longest, '\001', sizeof(longest) - 1); /* four bytes for each */
	capture_begin();
	cli_fail("ls", "%s", longest);
	capture_end();
	assert_true(said_len < sizeof(longest));
	assert_int_equal(said[said_len - 1], '\n');
	assert_string_equal(said + said_len - 5, "\\x01\n");
	capture_begin();
	cli_put_plain(stdout, "a\0b\n\xff", 5);
	capture_end();
	assert_string_equal(printed, "a\\x00b\\x0a\xff");
}

static void a_uri_with_one_slash_is_guessed_and_a_path_is_not(void **state)
{
	static const struct {
		const char *path, *guess;
	} row[] = {
		{ "s3:/bucket/x", "; did you mean 's3://bucket/x'?" },
		{ "gs:/b", "; did you mean 'gs://b'?" },
		{ "s3://bucket/x", "" },
		{ "http://host/x",
		  "; 'http://' is not a kind of store: use file://, s3://, null: or a path" },
		{ "c:/windows", "" },
		{ "s3:", "" },
		{ "s3:bucket", "" },
		{ "", "" },
		{ "a/b:/c", "" },
		{ ":/x", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		assert_string_equal(cli_guess_uri(row[i].path).text, row[i].guess);
}

/* ---- Files that are there ---- */

static void only_a_file_of_its_kind_is_replaced(void **state)
{
	static const struct {
		const char *content;
		bool kept;
	} row[] = { { NULL, false }, { "", false }, { "some MARK", false }, { "other", true } };
	char late[1100];

	(void)state;
	for (size_t i = 0; i <= ARRAY_LEN(row); i++) {
		const char *content = i < ARRAY_LEN(row) ? row[i].content : late;
		bool kept = i < ARRAY_LEN(row) ? row[i].kept : true;

		memset(late, ' ', sizeof(late) - 1);
		strcpy(late + sizeof(late) - 5, "MARK"); /* not near its beginning */
		if (content)
			file_write(test_path("f"), content, strlen(content));
		capture_begin();
		assert_int_equal(
			cli_keep_foreign("column", test_path("f"), "a column", "MARK", false),
			kept ? CLI_FAILED : CLI_OK);
		assert_int_equal(
			cli_keep_foreign("column", test_path("f"), "a column", "MARK", true),
			CLI_OK);
		capture_end();
		assert_int_equal(strstr(said, "exists and is not a column; write it all the same "
					      "with --force") != NULL,
				 kept);
		unlink(test_path("f"));
	}
	assert_int_equal(cli_keep_foreign("column", "s3://bucket/x", "a", "M", false), CLI_OK);
}

/* What a command that writes a catalog to @path says, lent. */
static const char *checked(const char *path, int want)
{
	int status;

	capture_begin();
	status = cli_output_check("merge", path);
	capture_end();
	assert_int_equal(status, want);
	return said;
}

static void a_catalog_is_written_where_a_file_can_be(void **state)
{
	(void)state;
	assert_non_null(strstr(checked(NULL, CLI_USAGE), "-o FILE"));
	assert_non_null(strstr(checked("-", CLI_USAGE), "standard output"));
	assert_non_null(strstr(checked("null:", CLI_USAGE), "nothing can be written"));
	assert_non_null(strstr(checked(test_path("no/c"), CLI_FAILED), "no directory"));
	checked(test_path("c"), CLI_OK);
	checked("s3://bucket/c", CLI_OK);
}

static void a_name_with_its_root_in_front_is_answered_with_the_right_one(void **state)
{
	static const struct {
		const char *name, *guess;
	} row[] = {
		{ TEST_ROOT "/d/x", "; did you mean 'd/x'?\n" },
		{ "data/d/x", "; did you mean 'd/x'?\n" },
		{ "data/none", NULL },
		{ "datad/x", NULL },
		{ "data-y", NULL },
	};
	struct test_list l = { 0 };
	struct shoal_catalog *cat;

	(void)state;
	list_add(&l, "d/x", 3, 1, 1);
	list_add(&l, "y", 1, 1, 1);
	cat = catalog_of(&l, true, 1);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		capture_begin();
		assert_int_equal(cli_no_such_name("stat", "c", cat, row[i].name), CLI_FAILED);
		capture_end();
		if (row[i].guess)
			assert_non_null(strstr(said, row[i].guess));
		else
			assert_null(strstr(said, "did you mean"));
	}
	shoal_catalog_close(cat);
	list_release(&l);
}

static void what_was_written_is_reported_in_both_forms(void **state)
{
	struct shoal_list_totals t = { .nr_files = 1, .nr_samples = 2, .nr_bytes = 3 };

	(void)state;
	for (int form = 0; form < 4; form++) {
		static const char *const want[] = {
			"c: 1 file\n",
			"c: would have 1 file\n",
			"{\"catalog\": \"c\", \"files\": 1, \"samples\": 2, \"bytes\": 3, "
			"\"written\": true}\n",
			"{\"catalog\": \"c\", \"files\": 1, \"samples\": 2, \"bytes\": null, "
			"\"written\": false}\n",
		};
		struct cli_output o = { .json = form & 2, .dry_run = form & 1 };

		t.nr_bytes = form == 3 ? SHOAL_SIZE_UNKNOWN : 3;
		cli_talk.quiet = form == 1; /* a trial prints in any case */
		capture_begin();
		cli_output_report(&o, "c", &t);
		capture_end();
		assert_string_equal(printed, want[form]);
	}
	cli_talk.quiet = true;
	capture_begin();
	cli_output_report(&(struct cli_output){ .path = "c" }, "c", &t);
	capture_end();
	assert_string_equal(printed, "");
	cli_talk.quiet = false;
}

static int release(void **state)
{
	capture_release(state);
	return test_dir_remove(state);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_has_the_columns_that_were_asked_for),
		cmocka_unit_test(any_name_is_readable_in_each_form),
		cmocka_unit_test(a_name_with_a_line_end_is_refused_in_lines_only),
		cmocka_unit_test(the_longest_name_has_its_hexadecimal_digits),
		cmocka_unit_test(formats_exclude_each_other_and_only_csv_has_a_header),
		cmocka_unit_test(a_message_is_one_line_without_control_characters),
		cmocka_unit_test(a_uri_with_one_slash_is_guessed_and_a_path_is_not),
		cmocka_unit_test(only_a_file_of_its_kind_is_replaced),
		cmocka_unit_test(a_catalog_is_written_where_a_file_can_be),
		cmocka_unit_test(a_name_with_its_root_in_front_is_answered_with_the_right_one),
		cmocka_unit_test(what_was_written_is_reported_in_both_forms),
	};

	sigbus_guard_init();
	return cmocka_run_group_tests(tests, test_dir_make, release);
}
