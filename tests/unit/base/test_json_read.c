/*
 * Goal: every scalar of a document comes with its path and value; what is not JSON, cut anywhere
 * or of any bytes, is refused with the line.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/json_read.h"
#include "help.h"

struct seen {
	char text[4096];
	size_t len;
};

static int see(void *self, const struct json_value *v)
{
	static const char kinds[] = { 'z', 'f', 't', 'n', 's' };
	struct seen *s = self;

	s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, "%s:%c:%s\n",
				   v->path, kinds[v->kind], v->text);
	assert_int_equal(v->kind == JSON_NUMBER, !isnan(v->number));
	return 0;
}

static int read_text(const char *text, struct seen *s, struct shoal_err *err)
{
	*s = (struct seen){ "", 0 };
	return json_read(text, strlen(text), see, s, err);
}

static void every_scalar_comes_with_its_path(void **state)
{
	static const struct {
		const char *text, *seen;
	} table[] = {
		{ "1", ":n:1\n" },
		{ " { \"a\" : [ 1 , -2.5e+3 , { } , [ ] , true ] , \"b\":{\"c\":null}}\n",
		  "a.0:n:1\na.1:n:-2.5e+3\na.4:t:true\nb.c:z:null\n" },
		{ "[]", "" },
		{ "\"\"", ":s:\n" },
		{ "[\"\\u0041\\n\\\"\\\\\\/\", \"\\ud83d\\ude00\", \"\\ud83d\", \"\\ude00x\"]",
		  "0:s:A\n\"\\/\n1:s:\xf0\x9f\x98\x80\n2:s:\xef\xbf\xbd\n3:s:\xef\xbf\xbdx\n" },
		{ "{\"\\u00e9\":false}", "\xc3\xa9:f:false\n" },
	};
	struct seen s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		assert_int_equal(read_text(table[i].text, &s, NULL), 0);
		assert_string_equal(s.text, table[i].seen);
	}
}

static void what_is_not_json_is_refused_with_its_line(void **state)
{
	static const char *const table[] = {
		"",         " ",
		"{",        "}",
		"[1,]",     "[1 2]",
		"{\"a\"}",  "{\"a\":}",
		"{a:1}",    "{\"a\":1,}",
		"nul",      "truex",
		"NaN",      "Infinity",
		"-",        "01",
		"1.",       ".5",
		"1e",       "+1",
		"\"",       "\"\n\"",
		"\"\\x\"",  "\"\\u12g4\"",
		"\"\xff\"", "1 2",
		"[1]]",     "'a'",
		"[1}",      "{\"a\":1]",
		"// x\n1",  "11111111111111111111111111111111111111111111111111111111111111111",
	};
	struct shoal_err err;
	struct seen s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		err = (struct shoal_err){ "" };
		if (read_text(table[i], &s, &err) != -EBADMSG || !strstr(err.msg, "line "))
			fail_msg("'%s' was not refused: %s", table[i], err.msg);
	}
	assert_int_equal(json_read("1\0", 2, see, &s, &err), -EBADMSG);
	assert_int_equal(read_text("{\n\"a\": 1,\n\"b\" 2\n}", &s, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "line 3 "));
}

static void put_text(void *self, const void *bytes, size_t len)
{
	struct seen *s = self;

	memcpy(s->text + s->len, bytes, len);
	s->len += len;
}

static void a_document_cut_anywhere_is_refused(void **state)
{
	struct seen document = { "", 0 }, s = { "", 0 };
	struct json j = { .put = put_text, .self = &document, .indent = 2, .lines = 9 };

	(void)state;
	json_open_object(&j, NULL);
	json_string(&j, "a\"b", "\xff\n\"x");
	json_open_array(&j, "list");
	json_real(&j, NULL, 1.5e-9, 17);
	json_real(&j, NULL, (double)NAN, 17);
	json_u64(&j, NULL, UINT64_MAX);
	json_close_array(&j);
	json_close_object(&j);
	assert_int_equal(json_read(document.text, document.len, see, &s, NULL), 0);
	assert_string_equal(s.text, "a\"b:s:\xef\xbf\xbd\n\"x\nlist.0:n:1.5e-09\nlist.1:z:null\n"
				    "list.2:n:18446744073709551615\n");
	for (size_t n = 0; n + 1 < document.len; n++) {
		s.len = 0;
		assert_int_equal(json_read(document.text, n, see, &s, NULL), -EBADMSG);
	}
}

static void depth_and_lengths_are_bounded(void **state)
{
	static char text[20000];
	struct shoal_err err = { "" };
	static struct seen s;
	size_t len = 0;

	(void)state;
	memset(text, '[', 33);
	assert_int_equal(json_read(text, 33, see, &s, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "deep"));
	/* A long name and a long string are cut off. */
	text[len++] = '{';
	text[len++] = '"';
	memset(text + len, 'k', 1000);
	len += 1000;
	memcpy(text + len, "\":\"", 3);
	len += 3;
	memset(text + len, 'v', 10000);
	len += 10000;
	memcpy(text + len, "\"}", 2);
	len += 2;
	s.len = 0;
	assert_int_equal(json_read(text, len, see, &s, &err), 0);
	assert_int_equal(strspn(s.text, "k"), JSON_PATH_MAX - 1);
}

static int stop_at_two(void *self, const struct json_value *v)
{
	(void)self;
	return v->number >= 2 ? -ECANCELED : 0;
}

static void the_callee_can_end_it(void **state)
{
	(void)state;
	assert_int_equal(json_read("[1, 2, x", 8, stop_at_two, NULL, NULL), -ECANCELED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_scalar_comes_with_its_path),
		cmocka_unit_test(what_is_not_json_is_refused_with_its_line),
		cmocka_unit_test(a_document_cut_anywhere_is_refused),
		cmocka_unit_test(depth_and_lengths_are_bounded),
		cmocka_unit_test(the_callee_can_end_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
