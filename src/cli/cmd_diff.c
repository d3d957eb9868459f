/* shoal diff: what differs between two catalogs. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "cli/select_options.h"

struct cmd_diff_arguments {
	struct cli_where where;
	struct cli_select select;
	bool json, null;
	bool compared;        /* to the end */
	uint64_t most, shown; /* differences: the limit, 0 for none, and how many were printed */
	struct cli_progress progress;
	uint64_t nr_names; /* of the larger catalog */
};

static const char *const difference_words[] = {
	[SHOAL_MISSING] = "missing",
	[SHOAL_NEW] = "new",
	[SHOAL_RESIZED] = "resized",
	[SHOAL_CHANGED] = "changed",
};

static void cmd_diff_put_size(uint64_t size)
{
	if (size == SHOAL_SIZE_UNKNOWN)
		fputs("\t-", stdout);
	else
		printf("\t%" PRIu64, size);
}

static int show_difference(void *self, enum shoal_difference what, const char *name, size_t len,
			   uint64_t was, uint64_t is)
{
	struct cmd_diff_arguments *a = self;

	if (a->json || cli_talk.quiet || (a->most > 0 && a->shown == a->most))
		return 0;
	a->shown++;
	printf("%s\t", difference_words[what]);
	if (a->null)
		fwrite(name, 1, len, stdout);
	else
		cli_put_plain(stdout, name, len);
	cmd_diff_put_size(was);
	cmd_diff_put_size(is);
	putchar(a->null ? '\0' : '\n');
	return cli_output_failed() ? -EPIPE : 0;
}

static void cmd_diff_show_progress(void *self, uint64_t nr_names)
{
	struct cmd_diff_arguments *a = self;

	cli_progress_show(
		&a->progress,
		&(struct cli_step){ .what = "names", .done = nr_names, .total = a->nr_names });
}

static int cmd_diff_report(const struct cmd_diff_arguments *a, const struct shoal_compare_result *r)
{
	uint64_t nr = r->nr_missing + r->nr_new + r->nr_resized + r->nr_changed;
	struct json j = cli_json();

	if (a->json) {
		json_open_object(&j, NULL);
		json_bool(&j, "equal", nr == 0);
		json_u64(&j, "same", r->nr_same);
		json_u64(&j, "missing", r->nr_missing);
		json_u64(&j, "new", r->nr_new);
		json_u64(&j, "resized", r->nr_resized);
		json_u64(&j, "changed", r->nr_changed);
		json_close_object(&j);
	} else if (!cli_talk.quiet && nr > 0) {
		cli_say("diff",
			"%s missing, %s new, %s of another size, %s of another ETag, %s the same",
			count_in_words(r->nr_missing).text, count_in_words(r->nr_new).text,
			count_in_words(r->nr_resized).text, count_in_words(r->nr_changed).text,
			count_in_words(r->nr_same).text);
	}
	return nr == 0 ? CLI_OK : CLI_FAILED;
}

static int cmd_diff_compare(struct cmd_diff_arguments *a, const struct shoal_catalog *old,
			    const struct shoal_catalog *now)
{
	const struct shoal_select *select;
	struct shoal_diff_options o = { .differs = show_difference,
					.self = a,
					.stop = &cli_stop,
					.progress = cmd_diff_show_progress };
	struct shoal_catalog_info was, is;
	struct shoal_compare_result r = { 0 };
	struct shoal_list *x = NULL, *y = NULL;
	struct shoal_err err = { "" };
	int rc;

	/* Of what differs: the first files of two catalogs need not be the same ones. */
	a->most = a->select.select.limit;
	a->select.select.limit = 0;
	select = cli_select_finish(&a->select);
	rc = shoal_list_catalog(old, select, &x, &err);
	shoal_catalog_info(old, &was);
	shoal_catalog_info(now, &is);
	a->nr_names = u64_max(was.nr_files, is.nr_files);
	cli_progress_start_beside(&a->progress, "diff");
	if (rc == 0)
		rc = shoal_list_catalog(now, select, &y, &err);
	if (rc == 0)
		rc = shoal_list_diff(x, y, &o, &r, &err);
	cli_progress_clear(&a->progress);
	shoal_list_close(x);
	shoal_list_close(y);
	if (rc < 0 && cli_output_failed())
		return CLI_FAILED; /* cli_finish() reports it */
	if (rc < 0)
		return cli_fail("diff", "%s", cli_words("diff", &err));
	a->compared = true;
	return cmd_diff_report(a, &r);
}

static int cmd_diff_run(void *arguments, int nr, char **words)
{
	struct cmd_diff_arguments *a = arguments;
	struct shoal_catalog *old = cli_open("diff", words[0], &a->where), *now;
	int status = CLI_FAILED;

	(void)nr;
	if (!old)
		return CLI_FAILED;
	now = cli_open("diff", words[1], &a->where);
	cli_catch_signals();
	if (now)
		status = cmd_diff_compare(a, old, now);
	shoal_catalog_close(now);
	shoal_catalog_close(old);
	/* A comparison that came to its end answers by its status. */
	return cli_stop && !a->compared ? cli_end(status) : status;
}

#define AT(field) offsetof(struct cmd_diff_arguments, field)

static const struct cli_option options[] = {
	CLI_FLAG(0, "json", AT(json), "print the numbers as JSON, and no names"),
	CLI_NULL(AT(null), "lines"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_diff = {
	.name = "diff",
	.summary = "compare two catalogs",
	.usage = "OLD NEW [OPTION]...",
	.about =
		"Print what differs, one file per line: 'missing' (only in OLD), 'new' (only in "
		"NEW), 'resized' or 'changed' (another ETag), the name, and the size in each. Sizes "
		"and ETags are compared if both catalogs have them. The exit status is 1 if they "
		"differ.",
	.sections = { { .options = options },
		      CLI_SELECT_SECTION(AT(select)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 2,
	.max = 2,
	.give = "give two catalogs",
	.size = sizeof(struct cmd_diff_arguments),
	.run = cmd_diff_run,
};
