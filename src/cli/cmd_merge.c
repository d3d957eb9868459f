/* shoal merge: join catalogs. */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "cli/select_options.h"

struct cmd_merge_arguments {
	struct cli_where where;
	struct cli_output output;
	const char *root;
	enum { MERGE_FAIL, MERGE_LAST } repeated;
};

static int cmd_merge_write(const struct cmd_merge_arguments *a,
			   const struct shoal_catalog *const *cats, size_t nr)
{
	enum shoal_repeated repeated =
		a->repeated == MERGE_LAST ? SHOAL_REPEATED_LAST : SHOAL_REPEATED_FAIL;
	struct cli_progress progress;
	struct shoal_write_options o = cli_write_options(&a->output, &a->where, &progress);
	struct shoal_list_totals totals;
	struct shoal_err err = { "" };
	int rc;

	o.root = a->root;
	o.refuse_empty = o.careful;
	cli_catch_signals();
	cli_progress_start(&progress, "merge", true);
	rc = shoal_catalog_merge(cats, nr, repeated, &o, &totals, &err);
	cli_progress_clear(&progress);
	if (rc < 0)
		return cli_output_refused("merge", a->output.path, rc, &err);
	cli_output_report(&a->output, a->output.path, &totals);
	return CLI_OK;
}

static int cmd_merge_run(void *arguments, int nr, char **words)
{
	const struct cmd_merge_arguments *a = arguments;
	const struct shoal_catalog **cats;
	int status = cli_output_check("merge", a->output.path), opened = 0;

	if (status != CLI_OK)
		return status;
	cats = calloc((size_t)nr, sizeof(const struct shoal_catalog *));
	if (!cats)
		return cli_fail("merge", "out of memory");
	while (opened < nr && (cats[opened] = cli_open("merge", words[opened], &a->where)) != NULL)
		opened++;
	status = opened == nr ? cmd_merge_write(a, cats, (size_t)nr) : CLI_FAILED;
	while (opened > 0)
		shoal_catalog_close((struct shoal_catalog *)(uintptr_t)cats[--opened]);
	free(cats);
	return cli_end(status);
}

#define AT(field) offsetof(struct cmd_merge_arguments, field)

static const char *const repeated_words[] = { "fail", "last", NULL };

static const struct cli_option options[] = {
	CLI_OUTPUT_OPTIONS(AT(output)),
	CLI_TEXT(0, "root", "URI", AT(root),
		 "what names are relative to, if the catalogs have different roots: a place above "
		 "all of them"),
	CLI_WORD("repeated", "ACTION", AT(repeated), repeated_words,
		 "a name in several catalogs is an error (fail, the default), or the entry of the "
		 "last catalog is taken (last)"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_merge = {
	.name = "merge",
	.summary = "join several catalogs",
	.usage = "CATALOG... -o FILE [OPTION]...",
	.about =
		"Join several catalogs into one, such as those of 'shoal index --shard'. Sizes, samples per "
		"file and ETags are kept. Catalogs whose names follow one another are copied "
		"without decoding them; others are merged, in bounded memory.",
	.sections = { { .options = options }, CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.give = "give the catalogs to join",
	.size = sizeof(struct cmd_merge_arguments),
	.run = cmd_merge_run,
};
