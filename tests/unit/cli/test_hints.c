/* Goal: every hint of the library has words in the command, and they reach the person. */
#include "cli/hints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Numbers are pinned, with room between them: no hint has a higher one. */
#define HINT_END 1000

static void every_hint_has_words_in_some_command(void **state)
{
	static const char *const commands[] = { "index",   "verify", "read", "run",
						"datagen", "ls",     "merge" };
	unsigned nr = 0;

	(void)state;
	for (int hint = 1; hint < HINT_END; hint++) {
		bool has = false;

		for (size_t i = 0; i < ARRAY_LEN(commands); i++)
			has |= cli_hint_words(commands[i], (enum shoal_hint)hint) != NULL;
		if (has != (shoal_hint_name((enum shoal_hint)hint) != NULL))
			fail_msg("hint %d has %s", hint, has ? "no name" : "no words");
		nr += has;
	}
	assert_true(nr > 20);
	assert_null(shoal_hint_name(SHOAL_HINT_NONE));
	assert_null(cli_hint_words("index", SHOAL_HINT_NONE));
}

static void each_command_has_its_own_words(void **state)
{
	(void)state;
	assert_non_null(strstr(cli_hint_words("read", SHOAL_HINT_LARGER_SLOT), "--pieces"));
	assert_null(strstr(cli_hint_words("run", SHOAL_HINT_LARGER_SLOT), "--pieces"));
	assert_null(cli_hint_words("inde", SHOAL_HINT_ROOT)); /* the name as a whole */
	assert_null(cli_hint_words("ls", SHOAL_HINT_ROOT));
}

static void the_words_of_a_hint_follow_the_message_once(void **state)
{
	struct shoal_err err = { "" };

	(void)state;
	err_describe(&err, "too few");
	assert_string_equal(cli_words("index", &err), "too few");
	err_hint(&err, SHOAL_HINT_MORE_MEMORY, UINT64_C(48) << 20);
	assert_string_equal(cli_words("index", &err), "too few; --memory must be 48M or more");
	assert_string_equal(cli_words("index", &err), "too few; --memory must be 48M or more");
	err_describe(&err, "too large");
	err_hint(&err, SHOAL_HINT_LARGER_SLOT, 1001);
	assert_string_equal(cli_words("run", &err), "too large; raise --slot to 1001");
}

static void of_a_long_message_the_hint_is_kept(void **state)
{
	static const char end[] = "w...; leave out --if-match";
	struct shoal_err err = { "" };
	const char *words;

	(void)state;
	memset(err.msg, 'w', sizeof(err.msg) - 1);
	err_hint(&err, SHOAL_HINT_IF_MATCH, 0);
	words = cli_words("read", &err);
	assert_int_equal(strlen(words), sizeof(err.msg) - 1);
	assert_string_equal(words + strlen(words) - strlen(end), end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_hint_has_words_in_some_command),
		cmocka_unit_test(each_command_has_its_own_words),
		cmocka_unit_test(the_words_of_a_hint_follow_the_message_once),
		cmocka_unit_test(of_a_long_message_the_hint_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
