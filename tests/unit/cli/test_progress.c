/*
 * Goal: progress shows what is known, when it is due and not before: a line that is overwritten, a
 * line in a log, or a document; with -q, and on ranks other than 0, nothing.
 *
 * The clock is the test's: nothing here waits, or depends on how busy the machine is.
 */
#include "cli/progress.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "capture.h"
#include "cli/cli.h"

const struct cli_command *const cli_commands[] = { NULL };

/* ---- A clock that only pass() moves ---- */

static uint64_t clock_us = 1000000000;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	(void)clock;
	*t = clock_time(clock_us * 1000);
	return 0;
}

static void pass(double seconds)
{
	clock_us += (uint64_t)(seconds * 1e6);
}

/* A progress that began @ago seconds ago. */
static struct cli_progress begun(enum cli_style style, bool speaks, double ago)
{
	struct cli_progress p;

	cli_talk.style = style;
	cli_progress_start(&p, "test", speaks);
	pass(ago);
	return p;
}

static const char *shown(struct cli_progress *p, const struct cli_step *now)
{
	capture_begin();
	cli_progress_show(p, now);
	capture_end();
	assert_string_equal(printed, ""); /* never on standard output */
	return said;
}

static void each_style_is_due_after_its_own_time(void **state)
{
	static const struct {
		enum cli_style style;
		double before, after;
	} row[] = { { CLI_PLAIN, 4.99, 5.01 }, { CLI_AS_JSON, 0.99, 1.01 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct cli_step now = { .what = "names", .done = 3 };
		struct cli_progress p = begun(row[i].style, true, row[i].before);

		assert_false(cli_progress_is_due(&p));
		assert_string_equal(shown(&p, &now), "");
		p = begun(row[i].style, true, row[i].after);
		assert_true(cli_progress_is_due(&p));
		assert_string_not_equal(shown(&p, &now), "");
		assert_string_equal(shown(&p, &now), ""); /* only just */
	}
}

static void who_is_silent_shows_nothing(void **state)
{
	struct cli_step now = { .what = "names", .done = 3 };
	struct cli_progress p = begun(CLI_SILENT, true, 100);

	(void)state;
	assert_string_equal(shown(&p, &now), "");
	p = begun(CLI_PLAIN, false, 100);
	assert_string_equal(shown(&p, &now), "");
	cli_talk.quiet = true;
	p = begun(CLI_PLAIN, true, 100);
	cli_talk.quiet = false;
	assert_string_equal(shown(&p, &now), "");
	assert_false(cli_progress_is_due(&p));
}

static void a_line_says_how_much_and_what_remains(void **state)
{
	struct cli_step now = { .what = "names", .done = 0, .total = 1000 };
	struct cli_progress p = begun(CLI_PLAIN, true, 0);

	(void)state;
	assert_string_equal(shown(&p, &now), ""); /* the rate is counted from here */
	pass(10);
	now.done = 250;
	shown(&p, &now);
	assert_string_equal(said, "ETA 0:00:30, 25.0 %, 250 of 1,000 names, 25/s\n");
	pass(10);
	now.done = 1000;
	now.bytes = 50000000;
	shown(&p, &now);
	assert_string_equal(said, "ETA 0:00:00, 100.0 %, 1,000 of 1,000 names, 75/s, 5.0 MB/s\n");
	pass(10);
	now.done = 1001; /* more than there should be */
	assert_string_equal(shown(&p, &now), "ETA 0:00:00, 100.1 %, 1,001 of 1,000 names, 0.1/s, "
					     "0.0 MB/s\n");
}

static void without_a_total_there_is_no_share_and_no_end(void **state)
{
	struct cli_step now = { .what = "files", .done = 5 };
	struct cli_progress p = begun(CLI_PLAIN, true, 0);

	(void)state;
	shown(&p, &now);
	pass(10);
	now.done = 30000005;
	now.more = "more";
	assert_string_equal(shown(&p, &now), "30,000,005 files, 3,000,000/s, more\n");
}

static void what_ends_after_a_time_shows_its_share_of_that(void **state)
{
	struct cli_step now = { .what = "samples", .done = 5, .share = 0.5, .left = 3725 };
	struct cli_progress p = begun(CLI_PLAIN, true, 10);

	(void)state;
	assert_string_equal(shown(&p, &now), "ETA 1:02:05, 50.0 %, 5 samples, 0/s\n");
	now.left = -1; /* late */
	pass(10);
	assert_string_equal(shown(&p, &now), "ETA 0:00:00, 50.0 %, 5 samples, 0/s\n");
}

/* What was done before this command, as by one that was resumed, is not its rate. */
static void what_was_done_before_tells_no_rate(void **state)
{
	struct cli_step now = { .what = "names", .done = 900, .total = 1000 };
	struct cli_progress p = begun(CLI_PLAIN, true, 10);

	(void)state;
	assert_string_equal(shown(&p, &now), "90.0 %, 900 of 1,000 names, 0/s\n");
	pass(10);
	now.done = 910;
	assert_string_equal(shown(&p, &now), "ETA 0:01:30, 91.0 %, 910 of 1,000 names, 1/s\n");
}

static void a_document_has_the_facts_that_are_known(void **state)
{
	struct cli_step now = { .what = "na\"mes", .done = 10 };
	struct cli_progress p = begun(CLI_AS_JSON, true, 10);

	(void)state;
	shown(&p, &now);
	assert_int_equal(strncmp(said,
				 "{\"progress\": \"test\", \"what\": \"na\\\"mes\", \"done\": 10, "
				 "\"seconds\": 1",
				 62),
			 0);
	assert_null(strstr(said, "total"));
	assert_null(strstr(said, "eta"));
	assert_string_equal(said + strlen(said) - 2, "}\n");
	pass(2);
	now.total = 30;
	now.done = 20;
	now.bytes = 7;
	shown(&p, &now);
	assert_non_null(strstr(said, "\"done\": 20, \"total\": 30, \"bytes\": 7, \"seconds\": "));
	assert_non_null(strstr(said, ", \"eta_seconds\": 2"));
}

static void a_terminal_gets_one_line_that_fits_and_is_cleared(void **state)
{
	struct cli_progress p = begun(CLI_PLAIN, true, 10);
	char line[300];

	(void)state;
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	p.terminal = true;
	capture_begin();
	cli_progress_put(&p, line);
	cli_progress_clear(&p);
	cli_progress_clear(&p); /* there is none any more */
	capture_end();
	assert_int_equal(strncmp(said, "\r\033[Jxxx", 7), 0);
	assert_true(strlen(said) < sizeof(line));
	assert_string_equal(said + strlen(said) - 5, "x\r\033[J");
	p.terminal = false;
	capture_begin();
	cli_progress_put(&p, line);
	cli_progress_clear(&p);
	capture_end();
	assert_int_equal(strlen(said), sizeof(line)); /* a log gets all of it, and a line end */
}

static void a_message_takes_the_progress_off_the_terminal_first(void **state)
{
	struct cli_progress p = begun(CLI_PLAIN, true, 10);

	(void)state;
	p.terminal = true;
	capture_begin();
	cli_progress_put(&p, "half");
	cli_say("ls", "a note");
	cli_fail("ls", "an error");
	cli_progress_put(&p, "most");
	cli_progress_clear(&p);
	capture_end();
	assert_string_equal(said, "\r\033[Jhalf\r\033[Ja note\nshoal ls: an error\n"
				  "\r\033[Jmost\r\033[J");
}

static void a_listing_names_the_folder_that_it_is_in(void **state)
{
	struct shoal_index_progress now = { .nr_names = 10, .where = "a/b\001\xff/file" };
	struct cli_progress p = begun(CLI_PLAIN, true, 10);

	(void)state;
	capture_begin();
	cli_progress_show_index(&p, &now, 100);
	capture_end();
	assert_non_null(strstr(said, "10.0 %, 10 of 100 names, "));
	assert_non_null(strstr(said, " of memory, a/b\?\?\n")); /* plain ASCII, without the name */
	pass(10);
	now.where = "file"; /* in the root */
	now.sealing = true;
	capture_begin();
	cli_progress_show_index(&p, &now, 100);
	capture_end();
	assert_non_null(strstr(said, "10 names sealed, "));
	assert_non_null(strstr(said, " of memory\n"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_style_is_due_after_its_own_time),
		cmocka_unit_test(who_is_silent_shows_nothing),
		cmocka_unit_test(a_line_says_how_much_and_what_remains),
		cmocka_unit_test(without_a_total_there_is_no_share_and_no_end),
		cmocka_unit_test(what_ends_after_a_time_shows_its_share_of_that),
		cmocka_unit_test(what_was_done_before_tells_no_rate),
		cmocka_unit_test(a_document_has_the_facts_that_are_known),
		cmocka_unit_test(a_terminal_gets_one_line_that_fits_and_is_cleared),
		cmocka_unit_test(a_message_takes_the_progress_off_the_terminal_first),
		cmocka_unit_test(a_listing_names_the_folder_that_it_is_in),
	};

	unsetenv("TERM");
	return cmocka_run_group_tests(tests, NULL, capture_release);
}
