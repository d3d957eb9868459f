/* shoal verify: read catalogs whole, and say what is damaged. */
#include <inttypes.h>

#include "cli/cli.h"
#include "shoal.h"

static const char usage[] =
	"usage: shoal verify FILE... [--json] [--verbose]\n"
	"\n"
	"Check all of each catalog: checksums, sort order, totals, digest. Quiet when all are good;\n"
	"one line for each that is not, with the section and the offset, and exit status 1.\n"
	"\n"
	"  -v, --verbose   say what is good, too\n"
	"      --json      print a list of {\"file\", \"good\", \"damage\"}\n";

enum { OPT_JSON = 256 };

static const struct option longs[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static bool verify_one(const char *path, struct shoal_err *err, struct shoal_catalog_info *info)
{
	struct shoal_catalog *cat = NULL;
	bool good;

	if (shoal_catalog_open(path, &cat, err) < 0)
		return false;
	good = shoal_catalog_verify(cat, err) == 0;
	shoal_catalog_info(cat, info);
	shoal_catalog_close(cat);
	return good;
}

static void print_json(const char *path, bool good, const char *damage, bool first)
{
	fputs(first ? "[{\"file\": " : ",\n {\"file\": ", stdout);
	cli_json_string(path);
	printf(", \"good\": %s, \"damage\": ", good ? "true" : "false");
	if (good)
		fputs("null", stdout);
	else
		cli_json_string(damage);
	putchar('}');
}

int cmd_verify(int argc, char **argv)
{
	bool verbose = false, json = false, all_good = true;
	int c;

	while ((c = cli_getopt(argc, argv, ":vh", longs)) != -1) {
		switch (c) {
		case 'h':
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		case 'v':
			verbose = true;
			break;
		case OPT_JSON:
			json = true;
			break;
		default:
			return CLI_USAGE;
		}
	}
	if (optind == argc)
		return cli_usage("verify", "give at least one catalog");
	for (int i = optind; i < argc; i++) { /* every bad file, not only the first */
		struct shoal_catalog_info info;
		struct shoal_err err = { "" };
		bool good = verify_one(argv[i], &err, &info);

		all_good &= good;
		if (json)
			print_json(argv[i], good, err.msg, i == optind);
		if (!good)
			cli_fail("verify", "'%s': %s", argv[i], err.msg);
		else if (verbose && !json)
			printf("%s: good, %" PRIu64 " files, digest %s\n", argv[i], info.nr_files,
			       info.digest);
	}
	if (json)
		puts("]");
	return all_good ? CLI_OK : CLI_FAILED;
}
