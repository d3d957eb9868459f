/* shoal ls: names by id, range or prefix. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "cli/select_options.h"
#include "shoal.h"

#define SHOW_EVERY 1024u /* names */

struct cmd_ls_arguments {
	struct cli_where where;
	struct cli_select select;
	struct cli_format format;
	const char *path, *prefix;
	uint64_t from, random, seed;
	bool id_given, from_given;
	bool extents;
};

/* Print the samples of file @id: name, sample, offset, length, rows, with tabs between them. */
static int print_samples(const struct cmd_ls_arguments *a, const struct shoal_catalog *cat,
			 uint64_t id, const char *name, size_t len)
{
	uint64_t first, count;
	int rc = shoal_catalog_samples(cat, id, &first, &count);

	for (uint64_t i = 0; rc == 0 && i < count && !cli_output_failed(); i++) {
		struct shoal_extent e;

		rc = shoal_catalog_extent(cat, id, i, &e);
		if (rc < 0)
			break;
		cli_put_plain(stdout, name, len);
		printf("\t%" PRIu64 "\t%" PRIu64 "\t", first + i, e.off);
		if (e.len == SHOAL_SIZE_UNKNOWN)
			printf("-\t%" PRIu64 "\n", e.rows);
		else
			printf("%" PRIu64 "\t%" PRIu64 "\n", e.len, e.rows);
	}
	return rc < 0 ? cli_lookup_failed("ls", a->path, cat, rc) : CLI_OK;
}

/* Print file @id. Looks up only what is printed. */
static int cmd_ls_print_entry(const struct cmd_ls_arguments *a, const struct shoal_catalog *cat,
			      uint64_t id, const char *name, size_t len)
{
	const struct cli_format *f = &a->format;
	bool all = f->json || f->csv;
	char etag[SHOAL_ETAG_MAX + 1] = "";
	struct shoal_entry e = { .name = name,
				 .len = len,
				 .size = SHOAL_SIZE_UNKNOWN,
				 .samples = 1,
				 .etag = etag,
				 .id = id };
	uint64_t first;
	int rc = 0;

	if (memchr(name, 0, len))
		return cli_fail("ls", "'%s': damaged catalog: name %" PRIu64 " contains a NUL byte",
				a->path, id);
	if (a->extents)
		return print_samples(a, cat, id, name, len);
	if (f->sizes || all)
		rc = shoal_catalog_size(cat, id, &e.size);
	if (rc == 0 && all)
		rc = shoal_catalog_samples(cat, id, &first, &e.samples);
	if (rc == 0 && (f->etags || all))
		rc = shoal_catalog_etag(cat, id, etag);
	if (rc < 0)
		return cli_lookup_failed("ls", a->path, cat, rc);
	return cli_put_entry("ls", f, &e, true);
}

/* Files drawn at random without repetition: the first ones of a permutation. */
static int cmd_ls_print_random(const struct cmd_ls_arguments *a, const struct shoal_catalog *cat,
			       uint64_t nr_files)
{
	struct shoal_order_spec spec = { .mode = SHOAL_GLOBAL,
					 .remainder = SHOAL_KEEP,
					 .seed = a->seed,
					 .nr_samples = nr_files,
					 .nr_ranks = 1,
					 .batch = 1 };
	char name[SHOAL_NAME_MAX + 1];
	struct shoal_order *order;
	struct shoal_err err = { "" };
	int status = CLI_OK;

	if (nr_files == 0)
		return CLI_OK;
	if (shoal_order_new(&spec, 0, &order, &err) < 0)
		return cli_fail("ls", "'%s': %s", a->path, cli_words("ls", &err));
	for (uint64_t i = 0; i < u64_min(a->random, nr_files) && status == CLI_OK; i++) {
		uint64_t id;
		int rc = shoal_order_at(order, &i, 1, &id);

		if (rc == 0)
			rc = shoal_catalog_name(cat, id, name);
		status = rc < 0 ? cli_lookup_failed("ls", a->path, cat, rc)
				: cmd_ls_print_entry(a, cat, id, name, (size_t)rc);
		if (cli_output_failed())
			break;
	}
	shoal_order_free(order);
	return status;
}

static const char *later_of(const char *a, const char *b)
{
	return !a || strcmp(a, b) < 0 ? b : a;
}

static const char *earlier_of(const char *a, const char *b)
{
	return !a || strcmp(b, a) < 0 ? b : a;
}

/* Select only names that begin with the prefix: those between the name before the first of them,
 * and the first text after all of them. */
static int cmd_ls_bound(struct cmd_ls_arguments *a, const struct shoal_catalog *cat)
{
	static char before[SHOAL_NAME_MAX + 1], after[SHOAL_NAME_MAX + 1]; /* lent to the list */
	struct shoal_select *s = &a->select.select;
	size_t len = strnlen(a->prefix, SHOAL_NAME_MAX);
	uint64_t id = 0;
	int rc = shoal_catalog_lower_bound(cat, a->prefix, strlen(a->prefix), &id);

	if (rc >= 0 && id > 0) {
		rc = shoal_catalog_name(cat, id - 1, before);
		if (rc >= 0)
			s->start_after = later_of(s->start_after, before);
	}
	if (rc < 0)
		return cli_lookup_failed("ls", a->path, cat, rc);
	memcpy(after, a->prefix, len);
	while (len > 0 && (unsigned char)after[len - 1] == 0xff)
		len--;
	if (len > 0) {
		after[len - 1]++;
		after[len] = '\0';
		s->end_before = earlier_of(s->end_before, after);
	}
	return CLI_OK;
}

/* Files that the options select. */
static int cmd_ls_print_selected(struct cmd_ls_arguments *a, const struct shoal_catalog *cat)
{
	struct shoal_err err = { "" };
	struct shoal_list *list;
	int status = a->prefix ? cmd_ls_bound(a, cat) : CLI_OK;

	if (status != CLI_OK)
		return status;
	if (shoal_list_catalog(cat, cli_select_finish(&a->select), &list, &err) < 0)
		return cli_fail("ls", "'%s': %s", a->path, cli_words("ls", &err));
	status = cli_put_list("ls", a->path, list, &a->format, true);
	shoal_list_close(list);
	return status;
}

/* Names from a->from on, while they start with the prefix. */
static int print_names(const struct cmd_ls_arguments *a, const struct shoal_catalog *cat,
		       struct shoal_cursor *cursor)
{
	struct cli_progress progress;
	size_t prefix_len = a->prefix ? strlen(a->prefix) : 0;
	uint64_t left = a->id_given              ? 1
			: a->select.select.limit ? a->select.select.limit
						 : UINT64_MAX;
	const char *name;
	size_t len;
	int rc;

	cli_progress_start_beside(&progress, "ls");
	for (uint64_t id = a->from; left > 0; id++, left--) {
		if (((id - a->from) & (SHOW_EVERY - 1)) == SHOW_EVERY - 1)
			cli_output_progress(&progress, id - a->from, 0);
		rc = shoal_cursor_next(cursor, &name, &len);
		if (rc < 0)
			return cli_lookup_failed("ls", a->path, cat, rc);
		if (rc == 0 || len < prefix_len ||
		    (prefix_len && memcmp(name, a->prefix, prefix_len) != 0))
			break;
		if (cmd_ls_print_entry(a, cat, id, name, len) != CLI_OK)
			return CLI_FAILED;
		if (cli_output_failed())
			break;
	}
	cli_progress_clear(&progress);
	return CLI_OK;
}

/* Whether names are chosen by more than their number: --limit goes with --from and --prefix, too.
 */
static bool cmd_ls_selects(const struct cmd_ls_arguments *a)
{
	return a->select.given && !cli_select_only_limits(&a->select);
}

static int list(struct cmd_ls_arguments *a, const struct shoal_catalog *cat)
{
	struct shoal_cursor *cursor = NULL;
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };
	int status, rc;

	shoal_catalog_info(cat, &info);
	if (cmd_ls_selects(a))
		return cmd_ls_print_selected(a, cat);
	cli_put_header(&a->format);
	if (a->random)
		return cmd_ls_print_random(a, cat, info.nr_files);
	if (a->prefix) {
		rc = shoal_catalog_lower_bound(cat, a->prefix, strlen(a->prefix), &a->from);
		if (rc < 0)
			return cli_lookup_failed("ls", a->path, cat, rc);
	}
	if (a->from > info.nr_files || (a->id_given && a->from == info.nr_files))
		return cli_fail("ls", "'%s': there is no id %" PRIu64 ": it has %" PRIu64 " file%s",
				a->path, a->from, info.nr_files, plural(info.nr_files));
	if (shoal_cursor_new(cat, a->from, &cursor, &err) < 0)
		return cli_fail("ls", "'%s': %s", a->path, cli_words("ls", &err));
	status = print_names(a, cat, cursor);
	shoal_cursor_free(cursor);
	if (status == CLI_OK && shoal_catalog_check_fresh(cat, &err) < 0)
		return cli_fail("ls", "'%s': %s", a->path, cli_words("ls", &err));
	return status;
}

static int cmd_ls_run(void *arguments, int nr, char **words)
{
	struct cmd_ls_arguments *a = arguments;
	bool selects = cmd_ls_selects(a);
	struct shoal_catalog *cat;
	int status;

	(void)nr;
	if (a->id_given + a->from_given + (a->prefix != NULL) + (a->random > 0) > 1)
		return cli_usage("ls", "--id, --from, --prefix and --random exclude each other");
	if (selects && (a->id_given || a->from_given || a->random))
		return cli_usage("ls", "--%s cannot be used with --id, --from or --random",
				 a->select.given);
	if (a->select.select.limit && (a->id_given || a->random))
		return cli_usage("ls", "--limit cannot be used with --id or --random");
	if (cli_format_check("ls", &a->format) != CLI_OK)
		return CLI_USAGE;
	if (a->extents && (selects || a->format.json || a->format.csv || a->format.null))
		return cli_usage("ls", "--extents cannot be used with %s%s",
				 selects ? "--" : "--json, --csv or --null",
				 selects ? a->select.given : "");
	a->path = words[0];
	cat = cli_open("ls", a->path, &a->where);
	if (!cat)
		return CLI_FAILED;
	status = list(a, cat);
	shoal_catalog_close(cat);
	return status;
}

#define AT(field) offsetof(struct cmd_ls_arguments, field)

static const struct cli_option options[] = {
	CLI_NUMBER_IF("id", "ID", AT(from), AT(id_given), "only the name with this id"),
	CLI_NUMBER_IF("from", "ID", AT(from), AT(from_given), "start with this id (default 0)"),
	CLI_TEXT(0, "prefix", "TEXT", AT(prefix), "only names that start with TEXT"),
	CLI_NUMBER("random", "FILES", AT(random), 1, 0,
		   "draw this many files at random, each at most once"),
	CLI_NUMBER("seed", "SEED", AT(seed), 0, 0, "seed of --random (default 0)"),
	CLI_FLAG(
		0, "extents", AT(extents),
		"a line per sample: name, number of the sample, offset, length and rows, with tabs "
		"between them"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_ls = {
	.name = "ls",
	.summary = "print names by id, prefix, pattern, or at random",
	.usage = "CATALOG [--id ID | --from ID | --prefix TEXT | --random FILES] "
		 "[OPTION]...\n"
		 "CATALOG [--prefix TEXT] [--include GLOB] [--regex REGEX] [OPTION]...",
	.about = "Print names of a catalog, in order, one per line.",
	.sections = { { .options = options },
		      CLI_SELECT_SECTION(AT(select)),
		      CLI_FORMAT_SECTION(AT(format)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog; patterns for names are given with --include",
	.size = sizeof(struct cmd_ls_arguments),
	.run = cmd_ls_run,
};
