/*
 * Goal: whatever is written is JSON that any reader takes: brackets and commas where they belong,
 * strings escaped, whole numbers of 64 bits with all their digits.
 */
#include "base/json.h"

#include <math.h>
#include <string.h>

#include "help.h"

static char text[4096];
static size_t nr_bytes;

static void take(void *self, const void *bytes, size_t len)
{
	assert_ptr_equal(self, text);
	assert_true(nr_bytes + len < sizeof(text));
	memcpy(text + nr_bytes, bytes, len);
	nr_bytes += len;
	text[nr_bytes] = '\0';
}

static struct json begin(unsigned indent, unsigned lines)
{
	nr_bytes = 0;
	text[0] = '\0';
	return (struct json){ .put = take, .self = text, .indent = indent, .lines = lines };
}

/* The same values in each form. */
static void write_nested(struct json *j)
{
	json_open_object(j, NULL);
	json_u64(j, "one", 1);
	json_open_object(j, "inner");
	json_open_array(j, "list");
	json_u64(j, NULL, 2);
	json_bool(j, NULL, true);
	json_bool(j, NULL, false);
	json_close_array(j);
	json_null(j, "none");
	json_close_object(j);
	json_open_array(j, "empty");
	json_close_array(j);
	json_open_object(j, "void");
	json_close_object(j);
	json_string(j, "last", "x");
	json_close_object(j);
}

static void values_nest_on_as_many_levels_of_lines_as_are_asked_for(void **state)
{
	static const struct {
		unsigned indent, lines;
		const char *want;
	} row[] = {
		{ 0, 0,
		  "{\"one\": 1, \"inner\": {\"list\": [2, true, false], \"none\": null}, "
		  "\"empty\": [], \"void\": {}, \"last\": \"x\"}\n" },
		{ 2, 1,
		  "{\n  \"one\": 1,\n  \"inner\": {\"list\": [2, true, false], \"none\": null},\n"
		  "  \"empty\": [],\n  \"void\": {},\n  \"last\": \"x\"\n}\n" },
		{ 4, 2,
		  "{\n    \"one\": 1,\n    \"inner\": {\n        \"list\": [2, true, false],\n"
		  "        \"none\": null\n    },\n    \"empty\": [],\n    \"void\": {},\n"
		  "    \"last\": \"x\"\n}\n" },
		{ 1, 9,
		  "{\n \"one\": 1,\n \"inner\": {\n  \"list\": [\n   2,\n   true,\n   false\n  ],\n"
		  "  \"none\": null\n },\n \"empty\": [],\n \"void\": {},\n \"last\": \"x\"\n}\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct json j = begin(row[i].indent, row[i].lines);

		write_nested(&j);
		assert_string_equal(text, row[i].want);
		assert_int_equal(j.level, 0);
	}
}

static void a_document_may_be_an_array_of_objects(void **state)
{
	struct json j = begin(2, 1);

	(void)state;
	json_open_array(&j, NULL);
	for (unsigned i = 0; i < 2; i++) {
		json_open_object(&j, NULL);
		json_u64(&j, "a", i);
		json_u64(&j, "b", i);
		json_close_object(&j);
	}
	json_close_array(&j);
	assert_string_equal(text, "[\n  {\"a\": 0, \"b\": 0},\n  {\"a\": 1, \"b\": 1}\n]\n");
}

static void an_indentation_is_cut_at_62_spaces(void **state)
{
	struct json j = begin(31, 9);

	(void)state;
	for (int i = 0; i < 3; i++)
		json_open_array(&j, NULL);
	json_u64(&j, NULL, 7);
	assert_int_equal(strspn(strrchr(text, '\n') + 1, " "), 62);
	assert_int_equal(text[nr_bytes - 1], '7');
}

static void strings_are_escaped_and_bytes_that_are_not_utf_8_replaced(void **state)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "", "\"\"" },
		{ "plain / and 'quotes'", "\"plain / and 'quotes'\"" },
		{ "a\"b\\c", "\"a\\\"b\\\\c\"" },
		{ "\n\t\r\x01\x1f", "\"\\u000a\\u0009\\u000d\\u0001\\u001f\"" },
		{ " \x7f", "\" \x7f\"" },
		{ "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f", /* two, three and four bytes */
		  "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f\"" },
		{ "a\xff"
		  "b",
		  "\"a\\ufffdb\"" },
		{ "\x80\xbf", "\"\\ufffd\\ufffd\"" },
		{ "cut \xe2\x82", "\"cut \\ufffd\\ufffd\"" },
		{ "\xc0\xaf", "\"\\ufffd\\ufffd\"" },            /* a slash, in too many bytes */
		{ "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"" }, /* half of a surrogate pair */
		{ NULL, "null" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct json j = begin(0, 0);

		json_string(&j, NULL, row[i].text);
		assert_string_equal(text, row[i].want);
	}
}

static void a_key_is_escaped_like_any_string(void **state)
{
	struct json j = begin(0, 0);

	(void)state;
	json_open_object(&j, NULL);
	json_null(&j, "\"\n\xff");
	json_close_object(&j);
	assert_string_equal(text, "{\"\\\"\\u000a\\ufffd\": null}\n");
}

static void whole_numbers_keep_all_their_64_bits(void **state)
{
	static const struct {
		uint64_t value;
		const char *want, *seconds;
	} row[] = {
		{ 0, "0", "0.000000000" },
		{ 999999999, "999999999", "0.999999999" },
		{ 1000000000, "1000000000", "1.000000000" },
		{ 12000000345, "12000000345", "12.000000345" },
		{ (UINT64_C(1) << 53) + 1, "9007199254740993", "9007199.254740993" },
		{ UINT64_MAX, "18446744073709551615", "18446744073.709551615" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct json j = begin(0, 0);

		json_u64(&j, NULL, row[i].value);
		assert_string_equal(text, row[i].want);
		j = begin(0, 0);
		json_seconds(&j, NULL, row[i].value);
		assert_string_equal(text, row[i].seconds);
	}
}

static void a_real_is_never_mistaken_for_a_whole_number(void **state)
{
	static const struct {
		double value;
		int digits;
		const char *want;
	} row[] = {
		{ 0, 6, "0.0" },
		{ -0.0, 6, "-0.0" },
		{ 5, 6, "5.0" },
		{ -17, 6, "-17.0" },
		{ 0.1, 6, "0.1" },
		{ 0.1, 17, "0.10000000000000001" },
		{ 123456, 6, "123456.0" },
		{ 1234567, 6, "1.23457e+06" },
		{ 1e300, 17, "1.0000000000000001e+300" },
		{ 5e-324, 17, "4.9406564584124654e-324" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct json j = begin(0, 0);

		json_real(&j, NULL, row[i].value, row[i].digits);
		assert_string_equal(text, row[i].want);
	}
}

static void what_is_no_number_becomes_null(void **state)
{
	static const double value[] = { NAN, INFINITY, -INFINITY };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(value); i++) {
		struct json j = begin(0, 0);

		json_open_object(&j, NULL);
		json_real(&j, "x", value[i], 17);
		json_u64(&j, "y", 1);
		json_close_object(&j);
		assert_string_equal(text, "{\"x\": null, \"y\": 1}\n");
	}
}

static void a_formatted_string_is_escaped_and_cut_at_255_bytes(void **state)
{
	char digits[301];
	struct json j = begin(0, 0);

	(void)state;
	json_format(&j, NULL, "%d%% of \"%s\"", 40, "it");
	assert_string_equal(text, "\"40% of \\\"it\\\"\"");
	memset(digits, '7', 300);
	digits[300] = '\0';
	for (size_t len = 254; len <= 256; len++) {
		j = begin(0, 0);
		json_format(&j, NULL, "%.*s", (int)len, digits);
		assert_int_equal(nr_bytes, 2 + u64_min(len, 255));
		assert_int_equal(text[nr_bytes - 1], '"');
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_nest_on_as_many_levels_of_lines_as_are_asked_for),
		cmocka_unit_test(a_document_may_be_an_array_of_objects),
		cmocka_unit_test(an_indentation_is_cut_at_62_spaces),
		cmocka_unit_test(strings_are_escaped_and_bytes_that_are_not_utf_8_replaced),
		cmocka_unit_test(a_key_is_escaped_like_any_string),
		cmocka_unit_test(whole_numbers_keep_all_their_64_bits),
		cmocka_unit_test(a_real_is_never_mistaken_for_a_whole_number),
		cmocka_unit_test(what_is_no_number_becomes_null),
		cmocka_unit_test(a_formatted_string_is_escaped_and_cut_at_255_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
