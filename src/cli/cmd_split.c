/* shoal split: parts of a catalog, by shares. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/publish.h"
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

/* A part that is being made. In a file system it is published when all parts are complete: parts of
 * two splits are not disjoint. */
struct split_making {
	char *path;                 /* as it is named to the user */
	char *staged;               /* where it waits for the others; NULL: it does not */
	struct publish pub;         /* keeps others from writing it meanwhile */
	struct shoal_select select; /* which files are in it */
	struct shoal_list_totals totals;
};

static int cmd_split_write(const struct cmd_split_arguments *a, const struct shoal_catalog *cat,
			   struct split_making *m, const char *path, bool careful, bool dry_run)
{
	struct cli_progress progress;
	struct shoal_write_options o = cli_write_options(&a->output, &a->where, &progress);
	struct shoal_err err = { "" };
	struct shoal_list *list;
	int rc = shoal_list_catalog(cat, &m->select, &list, &err);

	o.output = path; /* a new part may be empty */
	o.careful = careful;
	o.dry_run = dry_run;
	if (rc == 0) {
		cli_progress_start(&progress, "split", true);
		rc = shoal_list_write(list, &o, &m->totals, &err);
		cli_progress_clear(&progress);
		shoal_list_close(list);
	}
	return rc < 0 ? cli_output_refused("split", m->path, rc, &err) : CLI_OK;
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

static int split_name_parts(const struct cmd_split_arguments *a, struct split_making *m)
{
	char path[4096 + 300];
	double from = 0;

	for (unsigned i = 0; i < a->nr; i++) {
		m[i].pub = PUBLISH_CLOSED;
		m[i].select = (struct shoal_select){ .from = from,
						     .to = from + a->part[i].share,
						     .seed = a->seed };
		if (m[i].select.to > 1 - 1e-9) /* nothing is lost to rounding */
			m[i].select.to = 1;
		from = m[i].select.to;
		split_path(a, i, path, sizeof(path));
		m[i].path = strdup(path);
		if (!m[i].path)
			return cli_fail("split", "out of memory");
	}
	return CLI_OK;
}

/* Before anything is written: whether all parts may be, also by what they would replace. */
static int split_check_parts(const struct cmd_split_arguments *a, const struct shoal_catalog *cat,
			     struct split_making *m)
{
	bool dir = !a->output.dry_run || access(a->output.path, F_OK) == 0;
	bool objects = store_uri_traits(a->output.path).objects, any = objects;
	int status = CLI_OK;

	for (unsigned i = 0; i < a->nr && m[i].path && status == CLI_OK; i++) {
		const char *local = store_local_path(m[i].path);

		if (dir)
			status = cli_output_check("split", m[i].path);
		any = any || access(local ? local : m[i].path, F_OK) == 0;
	}
	any = (any && !a->output.force) || a->output.dry_run;
	for (unsigned i = 0; i < a->nr && any && status == CLI_OK; i++)
		status = cmd_split_write(a, cat, &m[i], m[i].path, !a->output.force, true);
	return status;
}

/* Write part @i where it waits. */
static int split_stage(const struct cmd_split_arguments *a, const struct shoal_catalog *cat,
		       struct split_making *m, unsigned i)
{
	const char *local = store_local_path(m->path);
	struct shoal_err err = { "" };
	const char *slash;
	int rc;

	if (store_uri_traits(m->path).objects)
		return cmd_split_write(a, cat, m, m->path, !a->output.force, false);
	rc = publish_open(local ? local : m->path, &m->pub, &err);
	if (rc < 0)
		return cli_output_refused("split", m->path, rc, &err);
	slash = strrchr(m->pub.path, '/');
	if (asprintf(&m->staged, "%.*s.%.200s-%u.split" PATH_END_OF_PARTIAL,
		     slash ? (int)(slash + 1 - m->pub.path) : 0, m->pub.path, a->part[i].name,
		     i) < 0) {
		m->staged = NULL;
		return cli_fail("split", "out of memory");
	}
	return cmd_split_write(a, cat, m, m->staged, false, false);
}

static int split_publish(struct split_making *m)
{
	struct shoal_err err = { "" };
	int rc = 0;

	if (!m->staged)
		return CLI_OK;
	if (rename(m->staged, m->pub.partial) < 0)
		rc = err_set_errno(&err, err_errno(), "cannot rename '%s'", m->staged);
	if (rc == 0)
		rc = publish_commit(&m->pub, &err);
	return rc < 0 ? cli_output_refused("split", m->path, rc, &err) : CLI_OK;
}

static int split_make_parts(const struct cmd_split_arguments *a, const struct shoal_catalog *cat,
			    struct split_making *m)
{
	int status = split_name_parts(a, m);

	if (status == CLI_OK)
		status = split_check_parts(a, cat, m);
	for (unsigned i = 0; i < a->nr && status == CLI_OK && !a->output.dry_run; i++)
		status = split_stage(a, cat, &m[i], i);
	for (unsigned i = 0; i < a->nr && status == CLI_OK && !a->output.dry_run; i++)
		status = split_publish(&m[i]);
	for (unsigned i = 0; i < a->nr; i++) {
		if (status == CLI_OK)
			cli_output_report(&a->output, m[i].path, &m[i].totals);
		if (m[i].staged)
			(void)!unlink(m[i].staged); /* if it still is there */
		if (m[i].path)
			publish_abort(&m[i].pub);
		free(m[i].staged);
		free(m[i].path);
	}
	return status;
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
	struct split_making *making;
	struct shoal_catalog *cat;
	double sum = 0;
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
	making = calloc(a->nr, sizeof(*making));
	if (!making)
		status = cli_fail("split", "out of memory");
	else if (status == CLI_OK)
		status = split_make_parts(a, cat, making);
	free(making);
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
