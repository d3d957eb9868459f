/*
 * Goal: every kind of value is taken exactly within its limits and refused in one sentence beyond
 * them; options are found by name, by a beginning that is unique and by letter, anywhere among the
 * words; and help, manual page and --list-options show each option with what is said of it.
 */
#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "cli/cli.h"
#include "cli/progress.h"

/* ---- A command that has one option of each kind ---- */

enum sample_mode { MODE_FIRST, MODE_SECOND, MODE_THIRD };

struct part {
	bool flag, number_given;
	const char *text;
	uint64_t number, limited, size, small_size, time, maybe;
	unsigned count;
	enum sample_mode mode;
	char taken[32];
	const char *each[3];
	size_t nr_each;
	unsigned k, n;
};

struct sample_arguments {
	bool verbose_only;
	struct part part; /* not at the beginning: its section has a base */
	const char *last; /* option of the second section */
	bool run, checked;
	int nr;
	char words[8][32];
};

static struct sample_arguments seen; /* as the command got them */

static bool take_other(const char *command, const char *value, void *into)
{
	struct part *part = into;

	if (strcmp(value, "bad") == 0) {
		cli_usage(command, "--other is bad");
		return false;
	}
	snprintf(part->taken, sizeof(part->taken), "%s", value);
	return true;
}

static const char *const modes[] = { "first", "second", "third", NULL };

#define IN(member) offsetof(struct part, member)

static const struct cli_option part_options[] = {
	CLI_FLAG('f', "flag", IN(flag), "help of flag"),
	CLI_TEXT('t', "text", "TEXT", IN(text), "help of text"),
	CLI_NUMBER("number", "N", IN(number), 0, 0, "help of number"),
	CLI_NUMBER("limited", "N", IN(limited), 3, 5, "help of limited"),
	CLI_NUMBER_IF("maybe", "N", IN(maybe), IN(number_given), "help of maybe"),
	CLI_COUNT("count", "N", IN(count), 1, 1024, "help of count"),
	CLI_SIZE("size", IN(size), 0, 0, "help of size"),
	CLI_SIZE("small-size", IN(small_size), 1024, 1u << 20, "help of small size"),
	CLI_SECONDS("time", IN(time), 500, 3600000, "help of time"),
	CLI_WORD("mode", "MODE", IN(mode), modes, "help of mode"),
	CLI_OTHER('x', "other", "WHAT", take_other, "help of other"),
	CLI_LIST("each", "THING", IN(each), IN(nr_each), 3, "help of each"),
	CLI_SHARD(IN(k), IN(n), "help of shard"),
	CLI_END,
};

static const struct cli_option more_options[] = {
	CLI_FLAG(0, "alpha", offsetof(struct sample_arguments, verbose_only), "help of alpha"),
	CLI_FLAG(0, "alpine", offsetof(struct sample_arguments, verbose_only), "help of alpine"),
	CLI_FLAG(0, "alps", offsetof(struct sample_arguments, verbose_only), "help of alps"),
	CLI_FLAG(0, "alpsee", offsetof(struct sample_arguments, verbose_only), "help of alpsee"),
	CLI_END,
};

static bool check_part(const char *command, void *into)
{
	const struct part *part = into;

	seen.checked = true;
	if (!part->text || strcmp(part->text, "refuse") != 0)
		return true;
	cli_usage(command, "refused by the section");
	return false;
}

static int run_sample(void *arguments, int nr, char **words)
{
	bool checked = seen.checked;

	seen = *(struct sample_arguments *)arguments;
	seen.run = true;
	seen.checked = checked;
	seen.nr = nr;
	for (int i = 0; i < nr && i < 8; i++)
		snprintf(seen.words[i], sizeof(seen.words[i]), "%s", words[i]);
	return 7;
}

static void set_sample_defaults(void *arguments)
{
	((struct sample_arguments *)arguments)->part.number = 42;
}

static const struct cli_command cmd_sample = {
	.name = "datagen", /* a command with habits: see find_habit() */
	.summary = "a sample",
	.usage = "[OPTION]... WORD\n--flag",
	.about = "About it: .a dot and a-dash.\n'a quote\n",
	.sections = { { .title = "part",
			.about = "about part",
			.options = part_options,
			.base = offsetof(struct sample_arguments, part),
			.check = check_part },
		      { .title = "more",
			.options = more_options,
			.given = offsetof(struct sample_arguments, last) } },
	.notes = "These are notes.\n",
	.min = 1,
	.max = 3,
	.give = "give one to three words",
	.size = sizeof(struct sample_arguments),
	.set_defaults = set_sample_defaults,
	.run = run_sample,
};

const struct cli_command *const cli_commands[] = { &cmd_sample, NULL };

/* ---- Running it ---- */

/* The status of the command with these words, up to NULL; both outputs are caught. */
static int run(const char *const *words)
{
	char copy[16][64], *argv[17] = { copy[0] };
	int argc = 1, status;

	snprintf(copy[0], sizeof(copy[0]), "datagen");
	for (; words[argc - 1]; argc++) {
		snprintf(copy[argc], sizeof(copy[argc]), "%s", words[argc - 1]);
		argv[argc] = copy[argc];
	}
	seen = (struct sample_arguments){ .run = false };
	cli_talk = (struct cli_talk){ .quiet = false };
	capture_begin();
	status = cli_run_command(&cmd_sample, argc, argv);
	capture_end();
	return status;
}

#define RUN(...) run((const char *const[]){ __VA_ARGS__, NULL })

static void runs(int status)
{
	if (status != 7 || *said)
		fail_msg("status %d: %s", status, said);
	assert_true(seen.run);
}

/* A usage error: one sentence, and how to get help. */
static void is_refused(int status, const char *words)
{
	char want[256];

	snprintf(want, sizeof(want), "shoal datagen: %s\nTry 'shoal datagen --help'.\n", words);
	assert_string_equal(said, want);
	assert_int_equal(status, CLI_USAGE);
	assert_false(seen.run);
}

/* ---- Values ---- */

struct value_row {
	const char *text;
	uint64_t value;
	const char *words; /* that refuse it; NULL: it is taken */
};

static void check_values(const char *option, size_t at, size_t size, const struct value_row *row,
			 size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		int status = RUN(option, row[i].text, "w");
		uint64_t value = 0;

		if (row[i].words) {
			is_refused(status, row[i].words);
			continue;
		}
		runs(status);
		memcpy(&value, (const char *)&seen.part + at, size);
		if (value != row[i].value)
			fail_msg("%s %s is %" PRIu64, option, row[i].text, value);
	}
}

#define CHECK_VALUES(option, member, ...)                                       \
	check_values(option, IN(member), sizeof(((struct part *)NULL)->member), \
		     (const struct value_row[]){ __VA_ARGS__ },                 \
		     sizeof((const struct value_row[]){ __VA_ARGS__ }) / sizeof(struct value_row))

static void a_number_is_digits_and_no_more_than_64_bits(void **state)
{
	(void)state;
	CHECK_VALUES("--number", number, { "0", 0 }, { "007", 7 },
		     { "18446744073709551615", UINT64_MAX },
		     { "18446744073709551616", 0, "--number '18446744073709551616' is too large" },
		     { "", 0, "--number '' is not a whole number" },
		     { "-1", 0, "--number '-1' is not a whole number" },
		     { "+1", 0, "--number '+1' is not a whole number" },
		     { " 1", 0, "--number ' 1' is not a whole number" },
		     { "1 ", 0, "--number '1 ' is not a whole number" },
		     { "1.0", 0, "--number '1.0' is not a whole number" },
		     { "0x1", 0, "--number '0x1' is not a whole number" });
}

static void a_limited_number_is_taken_from_its_least_to_its_largest_value(void **state)
{
	(void)state;
	CHECK_VALUES("--limited", limited, { "2", 0, "--limited must be 3 to 5" }, { "3", 3 },
		     { "5", 5 }, { "6", 0, "--limited must be 3 to 5" });
	CHECK_VALUES("--count", count, { "0", 0, "--count must be 1 to 1024" }, { "1", 1 },
		     { "1024", 1024 }, { "1025", 0, "--count must be 1 to 1024" },
		     { "4294967297", 0, "--count must be 1 to 1024" });
}

static void sizes_have_units_and_limits_are_said_in_them(void **state)
{
	(void)state;
	CHECK_VALUES("--size", size, { "0", 0 }, { "1", 1 }, { "1K", 1024 }, { "1kB", 1000 },
		     { "1.5MiB", 3u << 19 }, { "16383P", UINT64_C(16383) << 50 },
		     { "16384P", 0, "--size '16384P' is too large" },
		     { "K", 0, "--size 'K' is not a size, such as 256M or 1.5GB" },
		     { "1.5", 0, "--size '1.5' is not a size, such as 256M or 1.5GB" });
	CHECK_VALUES("--small-size", small_size, { "1023", 0, "--small-size must be 1K to 1M" },
		     { "1K", 1024 }, { "1M", 1u << 20 },
		     { "1048577", 0, "--small-size must be 1K to 1M" });
}

static void times_have_units_and_limits_are_said_in_seconds(void **state)
{
	static const char too_short[] = "--time must be 0.5 to 3600";

	(void)state;
	CHECK_VALUES("--time", time, { "499ms", 0, too_short }, { "500ms", 500 }, { "0.5", 500 },
		     { ".5s", 500 }, { "0.4999", 0, too_short }, { "1.0009", 1000 },
		     { "0.01m", 600 }, { "60m", 3600000 }, { "1h", 3600000 },
		     { "1.001h", 0, too_short }, { "3600.001", 0, too_short },
		     { "213503982334", 0, "--time '213503982334' is too large" },
		     { "99999999999999999999", 0, "--time '99999999999999999999' is too large" },
		     { "", 0, "--time '' is not a time, such as 0.5, 30s or 10m" },
		     { ".", 0, "--time '.' is not a time, such as 0.5, 30s or 10m" },
		     { "s", 0, "--time 's' is not a time, such as 0.5, 30s or 10m" },
		     { "1d", 0, "--time must be 0.5 to 3600" },
		     { "1w", 0, "--time '1w' is not a time, such as 0.5, 30s or 10m" },
		     { "1 s", 0, "--time '1 s' is not a time, such as 0.5, 30s or 10m" },
		     { "-1", 0, "--time '-1' is not a time, such as 0.5, 30s or 10m" },
		     { "1e3", 0, "--time '1e3' is not a time, such as 0.5, 30s or 10m" });
}

static void a_word_is_one_of_its_list_as_a_whole(void **state)
{
	(void)state;
	CHECK_VALUES("--mode", mode, { "first", MODE_FIRST }, { "third", MODE_THIRD },
		     { "fir", 0, "--mode 'fir' is not first, second or third" },
		     { "Third", 0, "--mode 'Third' is not first, second or third" },
		     { "", 0, "--mode '' is not first, second or third" });
}

static void flags_texts_and_values_of_their_own_are_stored(void **state)
{
	(void)state;
	runs(RUN("--flag", "--text", "", "--other", "some", "--maybe", "0", "w"));
	assert_true(seen.part.flag && seen.part.number_given);
	assert_string_equal(seen.part.taken, "some");
	runs(RUN("w"));
	assert_false(seen.part.flag || seen.part.number_given);
	assert_null(seen.part.text);
	assert_int_equal(seen.part.number, 42); /* the default */
	is_refused(RUN("--other", "bad", "w"), "--other is bad");
	is_refused(RUN("--flag=x", "w"), "option '--flag=x' takes no value");
	is_refused(RUN("w", "--number"), "option '--number' needs a value");
	is_refused(RUN("--number=", "w"), "--number '' is not a whole number");
	runs(RUN("--number", "1", "--number=2", "w")); /* the last one counts */
	assert_int_equal(seen.part.number, 2);
}

/* ---- Finding options ---- */

static void an_option_is_found_by_name_letter_or_unique_beginning(void **state)
{
	(void)state;
	runs(RUN("--fl", "w"));
	assert_true(seen.part.flag);
	runs(RUN("-ft", "words", "w"));
	assert_true(seen.part.flag);
	assert_int_equal(seen.nr, 1);
	runs(RUN("-ftwords", "w"));
	assert_string_equal(seen.words[0], "w");
	runs(RUN("--nu=5", "w"));
	assert_int_equal(seen.part.number, 5);
	runs(RUN("--alps", "w")); /* exact, though another one begins with it */
	assert_string_equal(seen.last, "alps");
	runs(RUN("--alpha", "--alpine", "--flag", "w"));
	assert_string_equal(seen.last, "alpine"); /* of its own section */
	assert_int_equal(RUN("w", "-qv"), 7);
	assert_true(cli_talk.quiet && cli_talk.verbose);
	assert_non_null(strstr(said, " of CPU, at most ")); /* what -v adds */
}

static void an_option_may_be_repeated_up_to_its_limit(void **state)
{
	(void)state;
	runs(RUN("--each", "a", "w", "--each=b", "--each", ""));
	assert_int_equal(seen.part.nr_each, 3);
	assert_string_equal(seen.part.each[0], "a");
	assert_string_equal(seen.part.each[1], "b");
	assert_string_equal(seen.part.each[2], "");
	is_refused(RUN("--each", "a", "--each", "b", "--each", "c", "--each", "d", "w"),
		   "more than 3 times --each");
}

static void shards_are_counted_from_zero(void **state)
{
	static const char *const bad[] = { "",    "/",   "1",       "1/",   "/1",
					   "1/1", "2/1", "0/65537", "-1/2", "0/2x" };
	char words[128];

	(void)state;
	runs(RUN("--shard", "1/2", "w"));
	assert_int_equal(seen.part.k, 1);
	assert_int_equal(seen.part.n, 2);
	runs(RUN("--shard=65535/65536", "w"));
	assert_int_equal(seen.part.k, 65535);
	assert_int_equal(seen.part.n, 65536);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		snprintf(words, sizeof(words),
			 "--shard '%s' is not K/N: shards are counted from 0 to N - 1, and N is at "
			 "most 65536",
			 bad[i]);
		is_refused(RUN("--shard", bad[i], "w"), words);
	}
}

static void what_is_not_found_is_answered_with_what_may_be_meant(void **state)
{
	(void)state;
	is_refused(RUN("--flug", "w"), "unknown option '--flug'; did you mean --flag?");
	is_refused(RUN("--nubmer=1", "w"), "unknown option '--nubmer=1'; did you mean --number?");
	is_refused(RUN("--zebra", "w"), "unknown option '--zebra'");
	is_refused(RUN("--text-folder", "w"),
		   "unknown option '--text-folder'; did you mean --text?");
	is_refused(RUN("--al", "w"), "'--al' is ambiguous: --alpha, --alpine, --alps");
	is_refused(RUN("--alp", "w"), "'--alp' is ambiguous: --alpha, --alpine, --alps");
	is_refused(RUN("--s", "w"), "'--s' is ambiguous: --size, --small-size, --shard");
	is_refused(RUN("--param", "a=b", "w"),
		   "unknown option '--param': write KEY=VALUE without an option");
	is_refused(RUN("-z", "w"), "unknown option '-z'");
	is_refused(RUN("-fz", "w"), "unknown option '-z'");
	is_refused(RUN("-t=x", "w"), "write '-t x' or '--text=x'");
	is_refused(RUN("-=", "w"), "unknown option '-='");
	is_refused(RUN("---", "w"), "unknown option '---'");
}

static void a_name_that_is_too_long_to_be_an_option_is_refused(void **state)
{
	char name[60] = "--";

	(void)state;
	memset(name + 2, 'n', sizeof(name) - 3);
	assert_int_equal(RUN(name, "w"), CLI_USAGE);
	assert_non_null(strstr(said, "unknown option '--nnnn"));
}

static void words_are_counted_and_options_may_stand_between_them(void **state)
{
	(void)state;
	runs(RUN("a", "--flag", "b", "-t", "x", "c"));
	assert_int_equal(seen.nr, 3);
	assert_string_equal(seen.words[0], "a");
	assert_string_equal(seen.words[2], "c");
	is_refused(RUN("--flag"), "give one to three words");
	is_refused(RUN("a", "b", "c", "d"), "give one to three words");
	runs(RUN("--", "--flag", "-t", "--"));
	assert_int_equal(seen.nr, 3);
	assert_string_equal(seen.words[2], "--");
	assert_false(seen.part.flag);
	runs(RUN("-")); /* standard input is a word */
	assert_string_equal(seen.words[0], "-");
	is_refused(RUN(""), "the first argument is empty");
	runs(RUN("a", "")); /* a pattern may be empty */
	assert_int_equal(seen.nr, 2);
}

static void a_section_may_refuse_and_is_asked_after_all_options(void **state)
{
	(void)state;
	is_refused(RUN("-t", "refuse"), "refused by the section"); /* before words are counted */
	runs(RUN("-t", "refuse", "-t", "x", "w"));
	assert_true(seen.checked);
	is_refused(RUN("-t", "refuse", "--number", "x", "w"), "--number 'x' is not a whole number");
}

/* ---- Help ---- */

struct found {
	char names[1024];
	unsigned nr;
};

static bool note_name(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct found *found = self;

	(void)s;
	found->nr++;
	if (!o->help || strlen(o->help) < 4)
		fail_msg("--%s has no help", o->name);
	snprintf(found->names + strlen(found->names), sizeof(found->names) - strlen(found->names),
		 "--%s%s\n", o->name, o->value ? "=" : "");
	return true;
}

static void help_in_all_forms_has_each_option_and_what_it_does(void **state)
{
	static const char *const forms[] = { "--help", "-h", "--help=man" };
	struct found found = { "" };

	(void)state;
	cli_each_option(&cmd_sample, note_name, &found);
	assert_int_equal(found.nr, 13 + 4 + 3 + 1);
	assert_int_equal(RUN("--list-options"), CLI_OK);
	assert_string_equal(printed, found.names);
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		assert_int_equal(RUN(forms[i]), CLI_OK);
		assert_string_equal(said, "");
		for (const struct cli_option *o = part_options; o->name; o++)
			if (!strstr(printed, o->help))
				fail_msg("%s lacks '%s'", forms[i], o->help);
		assert_non_null(strstr(printed, "These are notes."));
		assert_non_null(strstr(printed, "about part"));
	}
	is_refused(RUN("--help=html"), "--help=html: its only value is 'man'");
	assert_int_equal(RUN("--number", "5", "--help", "--number", "x"), CLI_OK);
}

static void the_manual_page_has_no_commands_of_roff_in_its_text(void **state)
{
	(void)state;
	assert_int_equal(RUN("--help=man"), CLI_OK);
	assert_non_null(strstr(printed, "\n\\&'a quote\n"));
	assert_non_null(strstr(printed, "a\\-dash"));
	assert_non_null(strstr(printed,
			       ".SH SYNOPSIS\n.nf\n\\fBshoal datagen\\fR [OPTION]... WORD\n"
			       "\\fBshoal datagen\\fR \\-\\-flag\n.fi\n"));
}

/* The help as it is printed for a terminal of @columns, lent. */
static const char *help_at(size_t columns)
{
	capture_begin();
	cli_put_help(stdout, &cmd_sample, columns);
	capture_end();
	return printed;
}

static size_t longest_line(const char *text)
{
	size_t longest = 0;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		longest = strcspn(text, "\n") > longest ? strcspn(text, "\n") : longest;
	return longest;
}

static void the_help_is_as_wide_as_can_be_read(void **state)
{
	(void)state;
	for (size_t columns = 40; columns <= 100; columns++)
		if (longest_line(help_at(columns)) >= columns)
			fail_msg("%zu of %zu columns", longest_line(printed), columns);
	assert_true(longest_line(help_at(1)) < 40);
	assert_true(longest_line(help_at(SIZE_MAX)) < 100);
	assert_int_equal(strncmp(help_at(80), "usage: shoal datagen [OPTION]... WORD\n", 38), 0);
	assert_non_null(strstr(printed, "\n       shoal datagen --flag\n"));
}

static void a_command_is_found_by_its_whole_name(void **state)
{
	(void)state;
	assert_ptr_equal(cli_find_command("datagen"), &cmd_sample);
	assert_null(cli_find_command("orde"));
	assert_null(cli_find_command("datagens"));
	assert_null(cli_find_command(""));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_is_digits_and_no_more_than_64_bits),
		cmocka_unit_test(a_limited_number_is_taken_from_its_least_to_its_largest_value),
		cmocka_unit_test(sizes_have_units_and_limits_are_said_in_them),
		cmocka_unit_test(times_have_units_and_limits_are_said_in_seconds),
		cmocka_unit_test(a_word_is_one_of_its_list_as_a_whole),
		cmocka_unit_test(flags_texts_and_values_of_their_own_are_stored),
		cmocka_unit_test(an_option_is_found_by_name_letter_or_unique_beginning),
		cmocka_unit_test(an_option_may_be_repeated_up_to_its_limit),
		cmocka_unit_test(shards_are_counted_from_zero),
		cmocka_unit_test(what_is_not_found_is_answered_with_what_may_be_meant),
		cmocka_unit_test(a_name_that_is_too_long_to_be_an_option_is_refused),
		cmocka_unit_test(words_are_counted_and_options_may_stand_between_them),
		cmocka_unit_test(a_section_may_refuse_and_is_asked_after_all_options),
		cmocka_unit_test(help_in_all_forms_has_each_option_and_what_it_does),
		cmocka_unit_test(the_manual_page_has_no_commands_of_roff_in_its_text),
		cmocka_unit_test(the_help_is_as_wide_as_can_be_read),
		cmocka_unit_test(a_command_is_found_by_its_whole_name),
	};

	return cmocka_run_group_tests(tests, NULL, capture_release);
}
