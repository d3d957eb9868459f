/*
 * Goal: a program that is started has its output kept, and ends when this process is asked to,
 * whenever the signal comes.
 */
#include "cli/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "help.h"

const struct cli_command *const cli_commands[] = { NULL };

/* A signal that comes right after the fork, before anything waits for the child. */
static int signal_after_fork;

pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
	pid_t pid = __real_fork();

	if (pid > 0 && signal_after_fork)
		raise(signal_after_fork);
	return pid;
}

static int run_shell(char *script, struct child_result *r)
{
	static char shell[] = "sh", option[] = "-c";
	char *words[] = { shell, option, script, NULL };
	struct shoal_err err = { "" };

	return child_run(words, test_path("."), r, &err);
}

static void output_status_and_last_words_are_kept(void **state)
{
	char script[] = "echo out; echo '{\"message\": \"of a command\"}' >&2; exit 3";
	char killed[] = "kill -9 $$";
	struct child_result r;

	(void)state;
	assert_int_equal(run_shell(script, &r), 0);
	assert_int_equal(r.status, 3);
	assert_string_equal(r.out, "out\n");
	assert_string_equal(r.last_words, "of a command");
	free(r.out);
	signal(SIGCHLD, SIG_IGN); /* as whoever started this process may have left it */
	assert_int_equal(run_shell(killed, &r), 0);
	assert_int_equal(r.status, 128 + 9);
	free(r.out);
	signal(SIGCHLD, SIG_DFL);
}

static void what_a_launcher_says_between_rules_is_its_message(void **state)
{
	static const struct {
		const char *text, *words;
	} table[] = {
		{ "", "" },
		{ "\n", "" },
		{ "one\ntwo\n\n", "two" },
		{ "one\n-----\n", "one" },
		{ "-----\n", "" },
		{ "-----\n-----\n", "" },
		{ "-----\nno root\n\nbe careful\n-----\n", "no root" },
		{ "-----\n\nno\nslots:\n\n  true\n-----", "no slots:" },
		{ "-----\nfirst\n-----\n-----\nsecond\nline\n-----\n", "second line" },
		{ "-----\nfirst\n-----\nlast\n", "last" },
		{ "{\"message\": \"own\"}\n-----\nfirst\n-----\n", "own" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		char script[200];
		struct child_result r;

		snprintf(script, sizeof(script), "printf '%%s' '%s' >&2", table[i].text);
		assert_int_equal(run_shell(script, &r), 0);
		assert_string_equal(r.last_words, table[i].words);
		free(r.out);
	}
}

static void a_signal_right_after_the_start_ends_the_child(void **state)
{
	char script[] = "exec sleep 20";
	struct child_result r;

	(void)state;
	cli_catch_signals();
	signal_after_fork = SIGINT;
	assert_int_equal(run_shell(script, &r), -ECANCELED);
	assert_int_equal(r.status, 128 + SIGTERM); /* it did not come to its end */
	free(r.out);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_status_and_last_words_are_kept),
		cmocka_unit_test(what_a_launcher_says_between_rules_is_its_message),
		cmocka_unit_test(a_signal_right_after_the_start_ends_the_child),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
