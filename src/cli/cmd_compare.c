/* shoal compare: whether two results differ, and whether that is more than chance. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "report/compare.h"

#define REPEATS_MAX 1000u /* as many values as a figure can have */

/* Further results of one side: repeats of it. */
struct compare_more {
	const char *path[REPEATS_MAX];
	size_t nr;
};

struct cmd_compare_arguments {
	struct compare_more more[2];
	unsigned level; /* per cent */
	unsigned least; /* per cent */
	bool json;
};

static void compare_put_change(void *self, const char *key, const char *was, const char *is)
{
	struct json *j = self;

	json_open_object(j, NULL);
	json_string(j, "setting", key);
	json_string(j, "first", was);
	json_string(j, "second", is);
	json_close_object(j);
}

/* ---- JSON ---- */

static void compare_put_side(struct json *j, const char *key, const struct compare_row *row,
			     size_t side)
{
	json_open_object(j, key);
	json_u64(j, "values", row->nr[side]);
	json_real(j, "mean", row->mean[side], 9);
	json_real(j, "deviation", row->deviation[side], 9);
	json_close_object(j);
}

static void compare_print_json(const struct compare_result *r, const struct figures *a,
			       const struct figures *b)
{
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_string(&j, "test", "Welch's t, two-sided, p corrected by Holm's method");
	json_u64(&j, "tested", r->nr_tested);
	json_u64(&j, "worse", r->nr_worse);
	json_u64(&j, "better", r->nr_better);
	json_open_array(&j, "settings");
	compare_settings(a, b, compare_put_change, &j);
	json_close_array(&j);
	json_open_array(&j, "figures");
	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct compare_row *row = &r->row[i];

		json_open_object(&j, NULL);
		json_string(&j, "figure", figure_name(row->figure));
		compare_put_side(&j, "first", row, 0);
		compare_put_side(&j, "second", row, 1);
		json_real(&j, "change_percent", row->change, 6);
		json_real(&j, "p", row->p, 6);
		json_string(&j, "verdict", compare_word(row->verdict));
		json_close_object(&j);
	}
	json_close_array(&j);
	json_close_object(&j);
}

/* ---- Text ---- */

/* Left out first are deviations and p, of which the verdict is made. */
static const struct text_column compare_columns[] = {
	{ "", -16, 0 }, { "first", 11, 0 }, { "+-", 9, 1 }, { "second", 11, 0 },
	{ "+-", 9, 1 }, { "change", 9, 0 }, { "p", 8, 2 },  { "", -10, 0 },
};

/* As people write it: bytes with a unit, large numbers with commas. */
static void compare_put_value(char *cell, enum figure which, double v, int digits)
{
	if (isnan(v))
		snprintf(cell, TEXT_TABLE_CELL, "-");
	else if (which == FIGURE_BYTES && v >= 0)
		snprintf(cell, TEXT_TABLE_CELL, "%s", size_in_words((uint64_t)v).text);
	else if (v >= 1000)
		snprintf(cell, TEXT_TABLE_CELL, "%s", rate_in_words(v).text);
	else
		snprintf(cell, TEXT_TABLE_CELL, "%.*g", v >= 100 && digits < 3 ? 3 : digits, v);
}

static void compare_fill_row(const void *self, size_t at, char (*cell)[TEXT_TABLE_CELL])
{
	const struct compare_result *r = self;
	const struct compare_row *row = &r->row[at];

	snprintf(cell[0], TEXT_TABLE_CELL, "%s", figure_name(row->figure));
	for (size_t side = 0; side < 2; side++) {
		compare_put_value(cell[1 + 2 * side], row->figure, row->mean[side], 4);
		compare_put_value(cell[2 + 2 * side], row->figure, row->deviation[side], 2);
	}
	snprintf(cell[5], TEXT_TABLE_CELL, isnan(row->change) ? "-" : "%+.2f%%", row->change);
	snprintf(cell[6], TEXT_TABLE_CELL, isnan(row->p) ? "-" : "%.2g", row->p);
	snprintf(cell[7], TEXT_TABLE_CELL, "%s", compare_word(row->verdict));
}

static void compare_print_change(void *self, const char *key, const char *was, const char *is)
{
	fprintf(self, "setting   %s: %s -> %s\n", key, was ? was : "(none)", is ? is : "(none)");
}

static void compare_print_verdict(FILE *out, const struct compare_result *r)
{
	const struct compare_row *few = NULL;

	for (size_t i = 0; i < r->nr_rows && !few; i++)
		few = r->row[i].verdict == COMPARE_TOO_FEW ? &r->row[i] : NULL;
	if (few)
		fprintf(out, "too few   %s has %zu and %zu values: two of each are needed\n",
			figure_name(few->figure), few->nr[0], few->nr[1]);
	if (r->nr_worse > 0)
		fprintf(out, "verdict   worse in %zu of %zu figure%s that %s tested\n", r->nr_worse,
			r->nr_tested, plural(r->nr_tested), r->nr_tested == 1 ? "was" : "were");
	else if (r->nr_tested > 0)
		fprintf(out, "verdict   no significant regression in %zu figure%s%s\n",
			r->nr_tested, plural(r->nr_tested),
			r->nr_better > 0 ? ", and better in some" : "");
}

static void compare_print_text(const struct compare_result *r, const struct figures *a,
			       const struct figures *b)
{
	struct cli_text settings, verdict;
	FILE *out = cli_text_open(&settings);

	if (out) {
		compare_settings(a, b, compare_print_change, out);
		cli_text_print(&settings, out, true, CLI_LABEL_COLUMNS);
	}
	cli_put_table(&(struct text_table){ .columns = compare_columns,
					    .nr_columns = ARRAY_LEN(compare_columns),
					    .nr_rows = r->nr_rows,
					    .fill = compare_fill_row,
					    .self = r });
	out = cli_text_open(&verdict);
	if (out) {
		compare_print_verdict(out, r);
		cli_text_print(&verdict, out, true, CLI_LABEL_COLUMNS);
	}
}

/* ---- The command ---- */

static void compare_warn(const char *path, const struct figures *f)
{
	if (f->partial)
		cli_fail("compare",
			 "'%s': it was interrupted: only its whole epochs or repeats count", path);
	if (f->not_once)
		cli_fail("compare", "'%s': not every sample was read exactly once", path);
}

static int cmd_compare_judge(const struct cmd_compare_arguments *a, char **words,
			     const struct figures *first, const struct figures *second)
{
	struct compare_rules rules = { a->level * 0.01, a->least };
	struct compare_result r;

	if (first->kind != second->kind)
		return cli_fail("compare", "'%s' has results of '%s', '%s' those of '%s'", words[0],
				figures_command(first->kind), words[1],
				figures_command(second->kind));
	compare_figures(first, second, rules, &r);
	compare_warn(words[0], first);
	compare_warn(words[1], second);
	if (a->json)
		compare_print_json(&r, first, second);
	else if (!cli_talk.quiet)
		compare_print_text(&r, first, second);
	if (r.nr_tested == 0)
		return cli_fail("compare",
				"nothing could be tested: give results with at least two epochs or "
				"repeats each, or several results with --old and --new");
	return r.nr_worse > 0 ? CLI_FAILED : CLI_OK;
}

static void compare_count_setting(void *self, const char *key, const char *was, const char *is)
{
	size_t *nr = self;

	(void)key;
	(void)was;
	(void)is;
	++*nr;
}

/* A further result of the side @f, of @path. */
static int compare_add(struct figures *f, const char *path, const char *more, struct shoal_err *err)
{
	struct figures *one = malloc(sizeof(*one)); /* large */
	size_t nr = 0;
	int rc;

	if (!one)
		return err_set(err, -ENOMEM, "out of memory");
	rc = figures_load(more, one, err);
	if (rc == 0 && one->kind != f->kind)
		rc = err_set(err, -EINVAL, "'%s' has results of '%s', '%s' those of '%s'", path,
			     figures_command(f->kind), more, figures_command(one->kind));
	if (rc == 0) {
		compare_settings(f, one, compare_count_setting, &nr);
		if (nr > 0)
			cli_fail("compare", "'%s' is no repeat of '%s': %zu settings differ", more,
				 path, nr);
		figures_average(one);
		figures_join(f, one);
	}
	figures_release(one);
	free(one);
	return rc;
}

/* If there are several results on either side, each is one value: their own are not independent. */
static int compare_load(const struct cmd_compare_arguments *a, char **words, struct figures *both,
			struct shoal_err *err)
{
	bool several = a->more[0].nr + a->more[1].nr > 0;
	int rc = 0;

	for (size_t side = 0; side < 2 && rc == 0; side++) {
		rc = figures_load(words[side], &both[side], err);
		if (rc == 0 && several)
			figures_average(&both[side]);
		for (size_t i = 0; i < a->more[side].nr && rc == 0; i++)
			rc = compare_add(&both[side], words[side], a->more[side].path[i], err);
	}
	return rc;
}

static int cmd_compare_run(void *arguments, int nr, char **words)
{
	const struct cmd_compare_arguments *a = arguments;
	struct figures *both = calloc(2, sizeof(*both)); /* large */
	struct shoal_err err = { "" };
	int status, rc;

	(void)nr;
	if (!both)
		return cli_fail("compare", "out of memory");
	rc = compare_load(a, words, both, &err);
	status = rc < 0 ? cli_fail("compare", "%s", cli_words("compare", &err))
			: cmd_compare_judge(a, words, &both[0], &both[1]);
	figures_release(&both[0]);
	figures_release(&both[1]);
	free(both);
	return status;
}

static void cmd_compare_defaults(void *arguments)
{
	struct cmd_compare_arguments *a = arguments;

	a->level = 5;
	a->least = 1;
}

#define AT(field) offsetof(struct cmd_compare_arguments, field)

static const struct cli_option options[] = {
	CLI_LIST(
		"old", "RESULT", AT(more[0].path), AT(more[0].nr), REPEATS_MAX - 1,
		"a further result of what OLD measured; as often as needed. Each result is then one "
		"value, its mean"),
	CLI_LIST("new", "RESULT", AT(more[1].path), AT(more[1].nr), REPEATS_MAX - 1,
		 "the same of NEW"),
	CLI_COUNT("level", "PERCENT", AT(level), 1, 50,
		  "the chance to call it a difference though there is none (default 5)"),
	CLI_COUNT("least", "PERCENT", AT(least), 0, 1000,
		  "smaller differences of the means do not count, however certain (default 1)"),
	CLI_JSON(AT(json)),
	CLI_END,
};

const struct cli_command cmd_compare = {
	.name = "compare",
	.summary = "compare two results: is it slower, or is it chance",
	.usage = "OLD NEW [OPTION]...",
	.about =
		"Print what differs between two results: folders that 'shoal run' made, or 'shoal "
		"read', 'index' or 'datagen' with --results, or files with what these print with "
		"--json. First settings, then figures, with the mean and the standard deviation "
		"over epochs (run), repeats (read) or results (--old, --new).\n"
		"Each figure is tested with Welch's t-test over these values, two-sided, corrected "
		"for several tests by Holm's method. 'worse' and 'better' are differences "
		"that are unlikely to be chance, and not too small to matter.",
	.sections = { { .options = options } },
	.notes = "Exit status: 0 if no figure is significantly worse, 1 if one is, if results "
		 "cannot be read, or if nothing could be tested because there are fewer than two "
		 "values. Epochs of one run share their start and their place: repeat whole runs, "
		 "and give them all, to know how runs vary.",
	.min = 2,
	.max = 2,
	.give = "give two results",
	.size = sizeof(struct cmd_compare_arguments),
	.set_defaults = cmd_compare_defaults,
	.run = cmd_compare_run,
};
