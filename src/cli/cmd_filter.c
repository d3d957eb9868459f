/* shoal filter: a catalog of some files of another one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "cli/select_options.h"

struct cmd_filter_arguments {
	struct cli_where where;
	struct cli_select select;
	struct cli_output output;
	const char *files_from, *files_not_from;
	bool null;
};

/* The catalog of the names in a list; its file has no name. */
static struct shoal_catalog *cmd_filter_read_names(const struct cmd_filter_arguments *a,
						   const char *root)
{
	const char *list = a->files_from ? a->files_from : a->files_not_from;
	struct shoal_index_options o = { .root = root, .stop = &cli_stop };
	struct shoal_index_result result;
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	char path[4096];
	int fd, tmp;

	fd = cli_open_list("filter", list);
	if (fd < 0)
		return NULL;
	snprintf(path, sizeof(path), "%s/shoal-names-XXXXXX", path_tmp_dir(NULL));
	tmp = mkstemp(path);
	if (tmp < 0) {
		cli_fail("filter", "cannot create '%s': %s", path, strerror(errno));
	} else {
		close(tmp);
		o.output = path;
		if (shoal_index_list(fd, a->null ? '\0' : '\n', true, &o, &result, &err) < 0 ||
		    shoal_catalog_open(path, &cat, &err) < 0)
			cli_fail("filter", "'%s': %s", list, cli_words("filter", &err));
		unlink(path);
	}
	if (fd != STDIN_FILENO)
		close(fd);
	return cat;
}

static int cmd_filter_write(const struct cmd_filter_arguments *a, const struct shoal_catalog *cat,
			    const struct shoal_select *select, const char *path)
{
	struct cli_progress progress;
	struct shoal_write_options o = cli_write_options(&a->output, &a->where, &progress);
	struct shoal_list_totals totals;
	struct shoal_err err = { "" };
	struct shoal_list *list;
	int rc;

	if (shoal_list_catalog(cat, select, &list, &err) < 0)
		return cli_fail("filter", "'%s': %s", path, cli_words("filter", &err));
	o.refuse_empty = o.careful;
	cli_progress_start(&progress, "filter", true);
	rc = shoal_list_write(list, &o, &totals, &err);
	cli_progress_clear(&progress);
	shoal_list_close(list);
	if (rc < 0)
		return cli_output_refused("filter", path, rc, &err);
	cli_output_report(&a->output, a->output.path, &totals);
	return CLI_OK;
}

static int cmd_filter_run(void *arguments, int nr, char **words)
{
	struct cmd_filter_arguments *a = arguments;
	struct shoal_catalog *cat, *names = NULL;
	struct shoal_select select = *cli_select_finish(&a->select);
	struct shoal_catalog_info info;
	int status = cli_output_check("filter", a->output.path);

	(void)nr;
	if (a->files_from && a->files_not_from)
		return cli_usage("filter", "--files-from and --files-not-from exclude each other");
	if (status != CLI_OK)
		return status;
	cli_catch_signals();
	cat = cli_open("filter", words[0], &a->where);
	if (!cat)
		return CLI_FAILED;
	shoal_catalog_info(cat, &info);
	if (a->files_from || a->files_not_from) {
		names = cmd_filter_read_names(a, info.root);
		status = names ? CLI_OK : CLI_FAILED;
	}
	select.names = names;
	select.not_in = a->files_not_from != NULL;
	if (status == CLI_OK)
		status = cmd_filter_write(a, cat, &select, words[0]);
	shoal_catalog_close(names);
	shoal_catalog_close(cat);
	return cli_end(status);
}

#define AT(field) offsetof(struct cmd_filter_arguments, field)

static const struct cli_option options[] = {
	CLI_OUTPUT_OPTIONS(AT(output)),
	CLI_TEXT(0, "files-from", "LIST", AT(files_from),
		 "only files named in the file LIST, one per line, in any order; - is standard "
		 "input"),
	CLI_TEXT(0, "files-not-from", "LIST", AT(files_not_from),
		 "no files named in the file LIST"),
	CLI_FLAG('0', "null", AT(null), "names of LIST end in NUL bytes, not line ends"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_filter = {
	.name = "filter",
	.summary = "make a catalog of some files of another one",
	.usage = "CATALOG -o FILE [OPTION]...",
	.about = "Make a catalog of the files of another one for which all conditions hold. Sizes, "
		 "samples per file and ETags are kept.",
	.sections = { { .options = options },
		      CLI_SELECT_SECTION(AT(select)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog",
	.size = sizeof(struct cmd_filter_arguments),
	.run = cmd_filter_run,
};
