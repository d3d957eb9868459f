/*
 * Goal: a program that is started has its output kept, and ends when this process is asked to,
 * whenever the signal comes.
 */
#include "cli/child.h"

#include <errno.h>
#include <signal.h>
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
		cmocka_unit_test(a_signal_right_after_the_start_ends_the_child),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
