/* shoal manifest: a list of URIs for each rank and epoch. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/hints.h"
#include "cli/order_options.h"
#include "cli/s3_options.h"

static const char usage[] =
	"usage: shoal manifest FILE --ranks W -o DIR [OPTION]...\n"
	"\n"
	"Write DIR/train_epoch0000_rank00000.txt and so on: the URIs of the files that each rank reads,\n"
	"one per line, in the order in which it reads them. Together the lists of an epoch contain every\n"
	"file once. A URI is the root, a slash and the unchanged name: nothing is percent-encoded.\n"
	"\n"
	"      --ranks W       one list for each of W ranks (default 1)\n"
	"  -o, --output DIR    write the lists here; made if necessary\n"
	"      --epochs A..B   lists for epochs A to B, inclusive\n" ORDER_USAGE
	"      --prefix NAME   start of the lists' names (default train)\n"
	"      --paths         plain paths instead of file:// URIs\n"
	"  -0, --null          end URIs with NUL bytes, not line ends\n"
	"      --local-copy DIR   read a copy of the catalog in DIR, made if necessary\n"
	"  -q, --quiet         print nothing but errors\n" CLI_S3_USAGE;

enum { OPT_EPOCHS = 400, OPT_PREFIX, OPT_PATHS };

static const struct option longs[] = {
	ORDER_LONG_OPTIONS,
	{ "ranks", required_argument, NULL, OPT_RANKS },
	{ "output", required_argument, NULL, 'o' },
	{ "epochs", required_argument, NULL, OPT_EPOCHS },
	{ "prefix", required_argument, NULL, OPT_PREFIX },
	{ "paths", no_argument, NULL, OPT_PATHS },
	{ "null", no_argument, NULL, '0' },
	{ "quiet", no_argument, NULL, 'q' },
	CLI_LOCAL_COPY,
	CLI_S3_OPTIONS,
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct cmd_manifest_arguments {
	struct cli_where where;
	const char *path;
	struct shoal_order_spec spec;
	struct shoal_manifest_options options;
	bool quiet, epoch_given, epochs_given;
};

static bool take_epochs(struct cmd_manifest_arguments *a)
{
	const char *dots = strstr(optarg, "..");
	uint64_t first, last;

	a->epochs_given = true;
	if (dots && parse_digits(optarg, (size_t)(dots - optarg), &first) == 0 &&
	    parse_u64(dots + 2, &last) == 0 && first <= last &&
	    last - first < SHOAL_MANIFEST_EPOCHS_MAX) {
		a->options.first_epoch = first;
		a->options.nr_epochs = last - first + 1;
		return true;
	}
	cli_usage("manifest", "--epochs '%s' is not a range such as 0..4, of a million at most",
		  optarg);
	return false;
}

static bool cmd_manifest_option(int c, struct cmd_manifest_arguments *a)
{
	int shared = order_option("manifest", c, &a->spec, &a->options.first_epoch);

	if (shared) {
		a->epoch_given |= c == OPT_EPOCH;
		return shared > 0;
	}
	switch (c) {
	case 'o':
		a->options.dir = optarg;
		return true;
	case OPT_EPOCHS:
		return take_epochs(a);
	case OPT_PREFIX:
		a->options.prefix = optarg;
		return true;
	case OPT_PATHS:
		return a->options.paths = true;
	case '0':
		return a->options.null = true;
	case 'q':
		return a->quiet = true;
	default:
		return false;
	}
}

/* Errors of the catalog do not name its path. */
static bool is_of_catalog(int rc)
{
	return rc == -EBADMSG || rc == -ESTALE || rc == -ENODATA || rc == -EILSEQ;
}

static int write_manifests(const struct cmd_manifest_arguments *a, const struct shoal_catalog *cat)
{
	uint64_t nr = a->options.nr_epochs * a->spec.nr_ranks;
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };
	int rc = shoal_manifest_write(cat, &a->spec, &a->options, &err);

	if (rc == -EINVAL)
		return cli_usage("manifest", "%s", cli_words("manifest", &err));
	if (rc < 0 && is_of_catalog(rc))
		return cli_fail("manifest", "'%s': %s", a->path, cli_words("manifest", &err));
	if (rc < 0) {
		cli_fail("manifest", "%s", cli_words("manifest", &err));
		if (rc == -ECANCELED)
			cli_die_of_signal();
		return CLI_FAILED;
	}
	shoal_catalog_info(cat, &info);
	if (!a->quiet)
		fprintf(stderr, "%" PRIu64 " list%s of %" PRIu64 " file%s in '%s'\n", nr,
			plural(nr), info.nr_files, plural(info.nr_files), a->options.dir);
	return CLI_OK;
}

int cmd_manifest(int argc, char **argv)
{
	struct cmd_manifest_arguments a = { .spec = { .mode = SHOAL_GLOBAL, .nr_ranks = 1 },
					    .options = { .nr_epochs = 1, .stop = &cli_stop } };
	struct shoal_catalog *cat;
	int c, status;

	while ((c = cli_getopt(argc, argv, ":o:0qh", longs, &a.where)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (!cmd_manifest_option(c, &a))
			return CLI_USAGE;
	}
	if (argc - optind != 1)
		return cli_usage("manifest", "give one catalog");
	if (!a.options.dir)
		return cli_usage("manifest", "say where to write the lists: -o DIR");
	if (a.epoch_given && a.epochs_given)
		return cli_usage("manifest", "give --epoch or --epochs, not both");
	a.path = argv[optind];
	cat = cli_open("manifest", a.path, &a.where);
	if (!cat)
		return CLI_FAILED;
	cli_catch_signals();
	status = write_manifests(&a, cat);
	shoal_catalog_close(cat);
	return status;
}
