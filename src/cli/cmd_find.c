/* shoal find: name to id. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/s3_options.h"
#include "shoal.h"

static const char usage[] =
	"usage: shoal find FILE NAME... [--json]\n"
	"\n"
	"Print the id of each name, one per line. A name that is not in the catalog is\n"
	"reported on standard error, and the exit status is 1.\n"
	"\n"
	"      --json             print a list of ids, null for a name that is not in the catalog\n"
	"      --local-copy DIR   read a copy of the catalog in DIR, made if necessary\n" CLI_S3_USAGE;

enum { OPT_JSON = 256 };

static const struct option longs[] = {
	{ "json", no_argument, NULL, OPT_JSON }, CLI_LOCAL_COPY, CLI_S3_OPTIONS,
	{ "help", no_argument, NULL, 'h' },      { 0 },
};

static int find_one(const char *path, const struct shoal_catalog *cat, const char *name, bool json)
{
	uint64_t id;
	int rc = shoal_catalog_find(cat, name, strlen(name), &id);

	if (rc == 0) {
		printf("%" PRIu64, id);
		return CLI_OK;
	}
	if (json)
		printf("null");
	if (rc == -ENOENT)
		return cli_fail("find", "'%s': there is no name '%s'", path, name);
	return cli_lookup_failed("find", path, cat, rc);
}

int cmd_find(int argc, char **argv)
{
	struct cli_where where = { 0 };
	struct shoal_catalog *cat;
	int c, status = CLI_OK;
	const char *path;
	bool json = false;

	while ((c = cli_getopt(argc, argv, ":h", longs, &where)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (c != OPT_JSON)
			return CLI_USAGE;
		json = true;
	}
	if (argc - optind < 2)
		return cli_usage("find", "give a catalog and at least one name");
	path = argv[optind++];
	cat = cli_open("find", path, &where);
	if (!cat)
		return CLI_FAILED;
	for (int i = optind; i < argc; i++) {
		int one;

		if (json)
			fputs(i == optind ? "[" : ", ", stdout);
		one = find_one(path, cat, argv[i], json);
		if (one == CLI_OK && !json)
			putchar('\n');
		if (one != CLI_OK)
			status = CLI_FAILED;
	}
	if (json)
		puts("]");
	shoal_catalog_close(cat);
	return status;
}
