/* Goal: patterns mean what filter.h says, and take no time however they are made. */
#include "index/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "glob_reference.h"
#include "help.h"

/* ---- Patterns ---- */

static void a_pattern_matches_what_it_says(void **state)
{
	static const struct {
		const char *pattern, *yes[4], *no[4];
	} row[] = {
		{ "", { "" }, { "a" } },
		{ "a", { "a" }, { "", "b", "aa", "a/" } },
		{ "*", { "", "a", "abc", ".x" }, { "/", "a/b", "a/" } },
		{ "?", { "a", "\xff" }, { "", "/", "ab" } },
		{ "*.jpg", { ".jpg", "a.jpg", "a.jpg.jpg" }, { "a.jpgx", "d/a.jpg", "jpg" } },
		{ "a*b*c", { "abc", "axxbyyc", "abbcbc" }, { "ab", "acb", "a/bc", "abc/" } },
		{ "a/*", { "a/", "a/b" }, { "a", "a/b/c" } },
		{ "a/**", { "a/", "a/b", "a/b/c" }, { "a", "b/a/c" } },
		{ "**", { "", "a", "a/b/c", "/" }, { NULL } },
		{ "**/a", { "a", "b/a", "b/c/a", "/a" }, { "ba", "b/ca", "a/b", "" } },
		{ "a/**/b", { "a/b", "a/x/b", "a/x/y/b" }, { "ab", "a/xb", "ax/b", "a/b/" } },
		{ "**a", { "a", "ba", "b/a", "b/ca" }, { "", "ab", "a/b" } },
		{ "a**b", { "ab", "a/b", "axx/yb" }, { "a", "b", "ab/" } },
		{ "a**/b", { "a/b", "ax/y/b", "a//b" }, { "ab", "a/xb" } },
		{ "**/*.c", { "a.c", "b/a.c", "b/.c" }, { "a.c/b", "a.h" } },
		{ "**/**/a", { "a", "b/a", "b/c/a" }, { "ba" } },
		{ "***", { "a/b" }, { NULL } },
		{ "[abc]", { "a", "b", "c" }, { "d", "", "ab", "/" } },
		{ "[a-c]x", { "ax", "bx", "cx" }, { "dx", "-x", "Ax" } },
		{ "[!a-c]", { "d", "-", "\x80" }, { "a", "c", "/", "" } },
		{ "[^a]", { "b" }, { "a", "/" } },
		{ "[]a]", { "]", "a" }, { "b", "[" } },
		{ "[!]a]", { "b", "[" }, { "]", "a" } },
		{ "[a-]", { "a", "-" }, { "b" } },
		{ "[\\]a]", { "]", "a" }, { "\\" } },
		{ "[+--]", { "+", ",", "-" }, { "." } },
		{ "[.-0]", { ".", "0" }, { "/" } },
		{ "[a", { NULL }, { "[a", "a" } },
		{ "\\*", { "*" }, { "a", "\\*", "" } },
		{ "\\", { "\\" }, { "", "a" } },
		{ "\\a\\\\", { "a\\" }, { "\\a\\" } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		for (size_t k = 0; k < 8; k++) {
			const char *text = k < 4 ? row[i].yes[k] : row[i].no[k - 4];
			size_t len = strlen(row[i].pattern);

			if (!text)
				continue;
			if (index_glob(row[i].pattern, len, text, strlen(text)) != (k < 4))
				fail_msg("'%s' %s '%s'", row[i].pattern,
					 k < 4 ? "should match" : "should not match", text);
			if (reference_glob(row[i].pattern, len, text, strlen(text)) != (k < 4))
				fail_msg("the reference is wrong of '%s' and '%s'", row[i].pattern,
					 text);
		}
}

/* The @i-th string over the letters, shortest first, in an exact block so that ASan sees a byte too
 * many. False when it would have more than @longest bytes. */
static bool word_at(uint64_t i, const char *letters, size_t longest, char **ret_word,
		    size_t *ret_len)
{
	uint64_t nr = strlen(letters), words = 1;
	size_t len = 0;

	for (; i >= words; len++) {
		i -= words;
		words *= nr;
	}
	if (len > longest)
		return false;
	*ret_word = allocate(len, 1);
	for (size_t k = 0; k < len; k++, i /= nr)
		(*ret_word)[k] = letters[i % nr];
	*ret_len = len;
	return true;
}

static void patterns_match_as_the_slow_matcher_does(void **state)
{
	static const struct {
		const char *letters;
		size_t longest;
		const char *text_letters;
		size_t text_longest;
	} row[] = {
		{ "ab/*?", 6, "ab/", 5 },
		{ "a/*", 9, "a/", 7 },
		{ "a-[]!\\*", 5, "a-]!\\b", 2 },
		{ "ac[]-b", 6, "abc-", 1 },
	};

	(void)state;
	for (size_t r = 0; r < ARRAY_LEN(row); r++) {
		char *text[1100];
		size_t len[1100], nr = 0, p_len;
		char *p;

		while (word_at(nr, row[r].text_letters, row[r].text_longest, &text[nr], &len[nr]))
			assert_true(++nr < ARRAY_LEN(text));
		for (uint64_t i = 0; word_at(i, row[r].letters, row[r].longest, &p, &p_len); i++) {
			for (size_t k = 0; k < nr; k++)
				if (index_glob(p, p_len, text[k], len[k]) !=
				    reference_glob(p, p_len, text[k], len[k]))
					fail_msg("'%.*s' and '%.*s'", (int)p_len, p, (int)len[k],
						 text[k]);
			free(p);
		}
		while (nr > 0)
			free(text[--nr]);
	}
}

static void a_pattern_of_many_stars_takes_no_time(void **state)
{
	char text[SHOAL_NAME_MAX], pattern[201];

	(void)state;
	memset(text, 'a', sizeof(text));
	for (size_t i = 0; i < 200; i++)
		pattern[i] = "a*"[i % 2];
	pattern[200] = 'b';
	assert_false(index_glob(pattern, 201, text, sizeof(text)));
	for (size_t i = 0; i < 200; i++)
		pattern[i] = "**a"[i % 3];
	assert_false(index_glob(pattern, 201, text, sizeof(text)));
}

static void a_filter_wants_what_it_takes_in_and_does_not_leave_out(void **state)
{
	static const struct {
		const char *include[3], *exclude[3], *name;
		bool is_dir, wants;
	} row[] = {
		{ { NULL }, { NULL }, "a", false, true },
		{ { NULL }, { NULL }, "a", true, true },
		{ { "*.jpg" }, { NULL }, "d/a.jpg", false, true },
		{ { "*.jpg" }, { NULL }, "d/a.txt", false, false },
		{ { "*.jpg", "*.txt" }, { NULL }, "d/a.txt", false, true },
		{ { "*.jpg" }, { NULL }, "d", true, true }, /* to look into */
		{ { "d" }, { NULL }, "d/a", false, false },
		{ { "/a" }, { NULL }, "a", false, true },
		{ { "/a" }, { NULL }, "d/a", false, false },
		{ { "d/a" }, { NULL }, "d/a", false, true },
		{ { "d/a" }, { NULL }, "e/d/a", false, false },
		{ { NULL }, { "a" }, "a", false, false },
		{ { NULL }, { "a" }, "d/a", false, false },
		{ { NULL }, { "a" }, "d/a", true, false },
		{ { NULL }, { "a/" }, "d/a", true, false },
		{ { NULL }, { "a/" }, "d/a", false, true },
		{ { NULL }, { "d/a/" }, "d/a", true, false },
		{ { NULL }, { "/a/" }, "d/a", true, true },
		{ { NULL }, { "/a/" }, "a", true, false },
		{ { "*.jpg" }, { "x*" }, "x.jpg", false, false },
		{ { "*.jpg" }, { "y*", "x*" }, "x.jpg", false, false },
		{ { "*.jpg" }, { "y*" }, "x.jpg", false, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct index_filter f = { .include = row[i].include, .exclude = row[i].exclude };
		size_t len = strlen(row[i].name);

		while (f.nr_include < 3 && row[i].include[f.nr_include])
			f.nr_include++;
		while (f.nr_exclude < 3 && row[i].exclude[f.nr_exclude])
			f.nr_exclude++;
		if (index_filter_check(&f, NULL) != 0 ||
		    index_filter_wants(&f, row[i].name, len, row[i].is_dir) != row[i].wants)
			fail_msg("row %zu: '%s'", i, row[i].name);
	}
}

static void a_pattern_that_cannot_match_is_refused(void **state)
{
	static const struct {
		const char *pattern;
		bool include;
		const char *words; /* NULL: good */
	} row[] = {
		{ "", false, "empty" },
		{ "", true, "empty" },
		{ "a[", false, "'a['" },
		{ "[!]", true, "'[!]'" },
		{ "[]", true, "without a ']'" },
		{ "[a][", false, "'[a]['" },
		{ "[\\]", false, "without a ']'" },
		{ "\\[", false, NULL },
		{ "[]]", true, NULL },
		{ "]", true, NULL },
		{ "/", false, "cannot match" },
		{ "./a", false, "cannot match" },
		{ ".", false, NULL },
		{ ".a/b", true, NULL },
		{ "/a", true, NULL },
		{ "a/", false, NULL },
		{ "a/", true, "write 'a/**'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const char *two[] = { "fine", row[i].pattern };
		struct index_filter f = { .include = two,
					  .nr_include = row[i].include ? 2 : 0,
					  .exclude = two,
					  .nr_exclude = row[i].include ? 1 : 2 };
		struct shoal_err err = { "" };
		int rc = index_filter_check(&f, &err);

		if (rc != (row[i].words ? -EINVAL : 0))
			fail_msg("'%s': %d, %s", row[i].pattern, rc, err.msg);
		if (row[i].words)
			check_words(&err, row[i].words);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pattern_matches_what_it_says),
		cmocka_unit_test(patterns_match_as_the_slow_matcher_does),
		cmocka_unit_test(a_pattern_of_many_stars_takes_no_time),
		cmocka_unit_test(a_filter_wants_what_it_takes_in_and_does_not_leave_out),
		cmocka_unit_test(a_pattern_that_cannot_match_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
