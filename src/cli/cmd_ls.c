/* shoal ls: names by id, range or prefix. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/s3_options.h"
#include "shoal.h"

struct cmd_ls_arguments {
	struct cli_where where;
	const char *path, *prefix;
	uint64_t from, count;
	bool id_given, from_given, count_given, sizes, etags, null, json;
	char end;
};

static int print_etag(const struct shoal_catalog *cat, uint64_t id)
{
	char etag[SHOAL_ETAG_MAX + 1];
	int len = shoal_catalog_etag(cat, id, etag);

	if (len > 2)
		printf("\t%.*s", len - 2, etag + 1);
	else if (len >= 0)
		fputs("\t-", stdout);
	return len;
}

/* An object per line, which streams like the names. */
static int cmd_ls_print_json(const struct cmd_ls_arguments *a, const struct shoal_catalog *cat,
			     uint64_t id, const char *name)
{
	char etag[SHOAL_ETAG_MAX + 1] = "";
	uint64_t size = SHOAL_SIZE_UNKNOWN;
	struct json j = cli_json();
	int rc = shoal_catalog_size(cat, id, &size);

	if (rc == 0 && a->etags)
		rc = shoal_catalog_etag(cat, id, etag);
	if (rc < 0)
		return cli_lookup_failed("ls", a->path, cat, rc);
	json_open_object(&j, NULL);
	json_u64(&j, "id", id);
	json_string(&j, "name", name);
	if (size == SHOAL_SIZE_UNKNOWN)
		json_null(&j, "size");
	else
		json_u64(&j, "size", size);
	if (a->etags)
		json_string(&j, "etag", *etag ? etag : NULL);
	json_close_object(&j);
	return CLI_OK;
}

static int cmd_ls_print_entry(const struct cmd_ls_arguments *a, const struct shoal_catalog *cat,
			      uint64_t id, const char *name, size_t len)
{
	uint64_t size;
	int rc;

	if (a->json)
		return cmd_ls_print_json(a, cat, id, name);
	if (memchr(name, a->end, len))
		return cli_fail("ls", "'%s': name %" PRIu64 " contains a line end: use --null",
				a->path, id);
	fwrite_unlocked(name, 1, len, stdout);
	if (a->sizes) {
		rc = shoal_catalog_size(cat, id, &size);
		if (rc < 0)
			return cli_lookup_failed("ls", a->path, cat, rc);
		if (size == SHOAL_SIZE_UNKNOWN)
			fputs("\t-", stdout);
		else
			printf("\t%" PRIu64, size);
	}
	if (a->etags) {
		rc = print_etag(cat, id);
		if (rc < 0)
			return cli_lookup_failed("ls", a->path, cat, rc);
	}
	putc_unlocked(a->end, stdout);
	return CLI_OK;
}

/* Names from a->from on, while they start with the prefix. */
static int print_names(const struct cmd_ls_arguments *a, const struct shoal_catalog *cat,
		       struct shoal_cursor *cursor)
{
	size_t prefix_len = a->prefix ? strlen(a->prefix) : 0;
	uint64_t left = a->count;
	const char *name;
	size_t len;
	int rc;

	for (uint64_t id = a->from; left > 0; id++, left--) {
		rc = shoal_cursor_next(cursor, &name, &len);
		if (rc < 0)
			return cli_lookup_failed("ls", a->path, cat, rc);
		if (rc == 0 || len < prefix_len ||
		    (prefix_len && memcmp(name, a->prefix, prefix_len) != 0))
			break;
		if (cmd_ls_print_entry(a, cat, id, name, len) != CLI_OK)
			return CLI_FAILED;
		if (ferror_unlocked(stdout))
			break;
	}
	return CLI_OK;
}

static int list(struct cmd_ls_arguments *a, const struct shoal_catalog *cat)
{
	struct shoal_cursor *cursor = NULL;
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };
	int status, rc;

	shoal_catalog_info(cat, &info);
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
	bool range = a->from_given || a->count_given;
	struct shoal_catalog *cat;
	int status;

	(void)nr;
	if (a->id_given + range + (a->prefix != NULL) > 1)
		return cli_usage("ls", "--id, --from/--count and --prefix exclude each other");
	if (a->id_given)
		a->count = 1;
	a->end = a->null ? '\0' : '\n';
	a->path = words[0];
	cat = cli_open("ls", a->path, &a->where);
	if (!cat)
		return CLI_FAILED;
	status = list(a, cat);
	shoal_catalog_close(cat);
	return status;
}

static void cmd_ls_defaults(void *arguments)
{
	((struct cmd_ls_arguments *)arguments)->count = UINT64_MAX;
}

#define AT(field) offsetof(struct cmd_ls_arguments, field)

static const struct cli_option options[] = {
	CLI_NUMBER_IF("id", "ID", AT(from), AT(id_given), "only the name with this id"),
	CLI_NUMBER_IF("from", "ID", AT(from), AT(from_given), "start with this id (default 0)"),
	CLI_NUMBER_IF("count", "NAMES", AT(count), AT(count_given), "print at most so many names"),
	CLI_TEXT(0, "prefix", "TEXT", AT(prefix), "only names that start with TEXT"),
	CLI_FLAG(0, "sizes", AT(sizes), "print the size after a tab"),
	CLI_FLAG(0, "etags", AT(etags),
		 "print the ETag after a tab, without its quotes; - if there is none"),
	CLI_NULL(AT(null), "names"),
	CLI_FLAG(0, "json", AT(json), "print an object per line: id, name, size"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_ls = {
	.name = "ls",
	.summary = "print names by id or prefix",
	.usage = "CATALOG [--id ID | --from ID --count NAMES | --prefix TEXT] [OPTION]...",
	.about = "Print names of a catalog, in order, one per line.",
	.sections = { { .options = options }, CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog",
	.size = sizeof(struct cmd_ls_arguments),
	.set_defaults = cmd_ls_defaults,
	.run = cmd_ls_run,
};
