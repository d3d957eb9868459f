/* shoal ls: names by id, range or prefix. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/hints.h"
#include "cli/s3_options.h"
#include "shoal.h"

static const char usage[] =
	"usage: shoal ls FILE [--id N | --from N --count K | --prefix P] [--sizes] [--etags] [-0]\n"
	"\n"
	"Print names of a catalog, in order, one per line.\n"
	"\n"
	"      --id N       only the name with this id\n"
	"      --from N     start with this id (default 0)\n"
	"      --count K    print at most K names\n"
	"      --prefix P   only names that start with P\n"
	"      --sizes      print the size after a tab\n"
	"      --etags      print the ETag after a tab, without its quotes; - if there is none\n"
	"  -0, --null       end names with NUL bytes, not line ends\n"
	"      --local-copy DIR   read a copy of the catalog in DIR, made if necessary\n" CLI_S3_USAGE;

enum { OPT_ID = 256, OPT_FROM, OPT_COUNT, OPT_PREFIX, OPT_SIZES, OPT_ETAGS };

static const struct option longs[] = {
	{ "id", required_argument, NULL, OPT_ID },
	{ "from", required_argument, NULL, OPT_FROM },
	{ "count", required_argument, NULL, OPT_COUNT },
	{ "prefix", required_argument, NULL, OPT_PREFIX },
	{ "sizes", no_argument, NULL, OPT_SIZES },
	{ "etags", no_argument, NULL, OPT_ETAGS },
	{ "null", no_argument, NULL, '0' },
	CLI_LOCAL_COPY,
	CLI_S3_OPTIONS,
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct cmd_ls_arguments {
	struct cli_where where;
	const char *path, *prefix;
	uint64_t from, count;
	bool id_given, range_given, sizes, etags;
	char end;
};

static bool cmd_ls_option(int c, struct cmd_ls_arguments *a)
{
	switch (c) {
	case OPT_ID:
		a->id_given = true;
		a->count = 1;
		return cli_number("ls", "--id", &a->from);
	case OPT_FROM:
		a->range_given = true;
		return cli_number("ls", "--from", &a->from);
	case OPT_COUNT:
		a->range_given = true;
		return cli_number("ls", "--count", &a->count);
	case OPT_PREFIX:
		a->prefix = optarg;
		return true;
	case OPT_SIZES:
		return a->sizes = true;
	case OPT_ETAGS:
		return a->etags = true;
	case '0':
		a->end = '\0';
		return true;
	default:
		return false;
	}
}

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

static int cmd_ls_print_entry(const struct cmd_ls_arguments *a, const struct shoal_catalog *cat,
			      uint64_t id, const char *name, size_t len)
{
	uint64_t size;
	int rc;

	if (memchr(name, 0, len))
		return cli_fail("ls", "'%s': damaged catalog: name %" PRIu64 " contains a NUL byte",
				a->path, id);
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

int cmd_ls(int argc, char **argv)
{
	struct cmd_ls_arguments a = { .count = UINT64_MAX, .end = '\n' };
	struct shoal_catalog *cat;
	int c, status;

	while ((c = cli_getopt(argc, argv, ":0h", longs, &a.where)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (!cmd_ls_option(c, &a))
			return CLI_USAGE;
	}
	if (argc - optind != 1)
		return cli_usage("ls", "give one catalog");
	if (a.id_given + a.range_given + (a.prefix != NULL) > 1)
		return cli_usage("ls", "--id, --from/--count and --prefix exclude each other");
	a.path = argv[optind];
	cat = cli_open("ls", a.path, &a.where);
	if (!cat)
		return CLI_FAILED;
	status = list(&a, cat);
	shoal_catalog_close(cat);
	return status;
}
