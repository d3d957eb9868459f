/* shoal split: parts of a catalog, by shares. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "cli/select_options.h"
#include "store/uri.h"

#define SPLIT_PARTS 64

struct split_part {
	char name[256];
	double share;
};

struct cmd_split_arguments {
	struct cli_where where;
	struct cli_output output; /* its path is a directory */
	const char *source;
	uint64_t seed;
	struct split_part part[SPLIT_PARTS];
	unsigned nr;
};

/* NAME=SHARE */
static bool cmd_split_take_part(const char *command, const char *value, void *into)
{
	struct cmd_split_arguments *a = into;
	struct split_part *p = &a->part[a->nr];
	const char *equals = strrchr(value, '=');
	size_t len = equals ? (size_t)(equals - value) : 0;
	char *end;

	if (a->nr == SPLIT_PARTS) {
		cli_usage(command, "more than %d times --part", SPLIT_PARTS);
		return false;
	}
	p->share = equals ? strtod(equals + 1, &end) : 0;
	if (len == 0 || len >= sizeof(p->name) || memchr(value, '/', len) || equals[1] == '\0' ||
	    *end || !(p->share > 0 && p->share <= 1)) {
		cli_usage(command,
			  "--part '%s' is not NAME=SHARE, such as train=0.9, with a share above 0 "
			  "and at most 1, and a name without a slash",
			  value);
		return false;
	}
	memcpy(p->name, value, len);
	for (unsigned i = 0; i < a->nr; i++)
		if (strcmp(a->part[i].name, p->name) == 0) {
			cli_usage(command, "part '%s' is given twice", p->name);
			return false;
		}
	a->nr++;
	return true;
}

static int cmd_split_write(const struct cmd_split_arguments *a, const struct shoal_catalog *cat,
			   const struct shoal_select *select, const char *path)
{
	struct cli_progress progress;
	struct shoal_write_options o = cli_write_options(&a->output, &a->where, &progress);
	struct shoal_list_totals totals;
	struct shoal_err err = { "" };
	struct shoal_list *list;
	int rc = shoal_list_catalog(cat, select, &list, &err);

	o.output = path; /* a new part may be empty */
	if (rc == 0) {
		cli_progress_start(&progress, "split", true);
		rc = shoal_list_write(list, &o, &totals, &err);
		cli_progress_clear(&progress);
		shoal_list_close(list);
	}
	if (rc < 0)
		return cli_output_refused("split", path, rc, &err);
	cli_output_report(&a->output, path, &totals);
	return CLI_OK;
}

static void split_path(const struct cmd_split_arguments *a, unsigned i, char *path, size_t cap)
{
	snprintf(path, cap, "%s/%s.cat", a->output.path, a->part[i].name);
}

/* A part would replace the catalog that is split: train.cat by its part train. */
static int split_check_source(const struct cmd_split_arguments *a)
{
	const char *source = store_local_path(a->source), *to;
	struct stat one, other;
	char path[4096 + 300];

	if (a->output.force || stat(source ? source : a->source, &one) < 0)
		return CLI_OK;
	for (unsigned i = 0; i < a->nr; i++) {
		split_path(a, i, path, sizeof(path));
		to = store_local_path(path);
		if (stat(to ? to : path, &other) == 0 && one.st_dev == other.st_dev &&
		    one.st_ino == other.st_ino)
			return cli_fail("split",
					"'%s' is the catalog that is split: name another "
					"directory with -o, or replace it by its part with --force",
					path);
	}
	return CLI_OK;
}

/* Part @i, whose files begin at *@from. */
static int cmd_split_part(const struct cmd_split_arguments *a, const struct shoal_catalog *cat,
			  unsigned i, double *from)
{
	struct shoal_select select = { .from = *from,
				       .to = *from + a->part[i].share,
				       .seed = a->seed };
	char path[4096 + 300];

	if (select.to > 1 - 1e-9) /* nothing is lost to rounding */
		select.to = 1;
	*from = select.to;
	split_path(a, i, path, sizeof(path));
	if ((!a->output.dry_run || access(a->output.path, F_OK) == 0) &&
	    cli_output_check("split", path) != CLI_OK)
		return CLI_FAILED;
	return cmd_split_write(a, cat, &select, path);
}

/* One level, as 'shoal manifest' does. */
static int split_make_dir(const struct cmd_split_arguments *a, bool *ret_made)
{
	const char *local = store_local_path(a->output.path);

	if (a->output.dry_run || store_uri_traits(a->output.path).objects)
		return CLI_OK;
	*ret_made = mkdir(local ? local : a->output.path, 0777) == 0;
	if (*ret_made || errno == EEXIST)
		return CLI_OK;
	return cli_fail("split", "cannot create the directory '%s': %s", a->output.path,
			strerror(errno));
}

static int cmd_split_run(void *arguments, int nr, char **words)
{
	struct cmd_split_arguments *a = arguments;
	struct shoal_catalog *cat;
	double sum = 0, from = 0;
	int status = CLI_OK;
	bool made = false;

	(void)nr;
	if (!a->output.path)
		a->output.path = ".";
	if (strlen(a->output.path) > 4096)
		return cli_usage("split", "the name of the directory is too long");
	if (a->nr == 0)
		return cli_usage("split", "say which parts to make: --part train=0.9 --part "
					  "valid=0.1");
	for (unsigned i = 0; i < a->nr; i++)
		sum += a->part[i].share;
	if (sum > 1 + 1e-9)
		return cli_usage("split",
				 "the shares of all parts add up to %g, which is more "
				 "than 1",
				 sum);
	a->source = words[0];
	cat = cli_open("split", a->source, &a->where);
	if (!cat)
		return CLI_FAILED;
	cli_catch_signals();
	status = split_check_source(a);
	if (status == CLI_OK)
		status = split_make_dir(a, &made);
	for (unsigned i = 0; i < a->nr && status == CLI_OK; i++)
		status = cmd_split_part(a, cat, i, &from);
	if (status != CLI_OK && made)
		(void)rmdir(a->output.path); /* if it is empty */
	shoal_catalog_close(cat);
	return cli_end(status);
}

#define AT(field) offsetof(struct cmd_split_arguments, field)

static const struct cli_option options[] = {
	CLI_OTHER(0, "part", "NAME=SHARE", cmd_split_take_part,
		  "a part and its share, such as train=0.9; repeat the option for each part"),
	CLI_TEXT('o', "output", "DIR", AT(output.path),
		 "write DIR/NAME.cat for each part; made if necessary (default: the current "
		 "directory)"),
	CLI_NUMBER("seed", "SEED", AT(seed), 0, 0, "another seed makes other parts (default 0)"),
	CLI_OUTPUT_COMMON(AT(output)),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_split = {
	.name = "split",
	.summary = "split a catalog into parts, such as train and valid",
	.usage = "CATALOG --part NAME=SHARE... [-o DIR] [OPTION]...",
	.about =
		"Split a catalog into parts by share. The part of a file is chosen by a hash of its "
		"name and the seed: it stays the same when the dataset grows or shrinks, on every "
		"machine and in every version. So shares hold about, not exactly. Parts that are "
		"given in the same sequence with the same shares are disjoint; shares that add up "
		"to less than 1 leave files out.",
	.sections = { { .options = options }, CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog",
	.size = sizeof(struct cmd_split_arguments),
	.run = cmd_split_run,
};
