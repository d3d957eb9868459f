/* shoal order: the samples that a rank reads, in the order in which it reads them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/hints.h"
#include "cli/order_options.h"
#include "cli/s3_options.h"

static const char usage[] =
	"usage: shoal order FILE --ranks W --rank R --batch B --epoch E --seed S [OPTION]...\n"
	"\n"
	"Print the ids of the samples that rank R of W reads in an epoch, one per line.\n"
	"\n"
	"      --ranks W       ranks that share the epoch (default 1)\n"
	"      --rank R        the one to print, from 0 (default 0)\n"
	"      --batch B       samples per rank and step (default 1)\n" ORDER_USAGE
	"      --remainder R   drop (default), pad or keep the samples after the last whole step\n"
	"      --consumed C    positions of the epoch already read: to resume with any W and B\n"
	"      --from-step T   start with this step\n"
	"      --count K       print at most K ids\n"
	"      --names         print names; if files hold several samples, also a tab and which\n"
	"      --position ID   print only the position of sample ID in the epoch\n"
	"  -0, --null          end lines with NUL bytes\n"
	"      --local-copy DIR   read a copy of the catalog in DIR, made if necessary by the first\n"
	"                      process of the node; the others map the same copy\n" CLI_S3_USAGE;

enum {
	OPT_RANK = 400,
	OPT_BATCH,
	OPT_REMAINDER,
	OPT_CONSUMED,
	OPT_FROM_STEP,
	OPT_COUNT,
	OPT_NAMES,
	OPT_POSITION
};

static const struct option longs[] = {
	ORDER_LONG_OPTIONS,
	{ "ranks", required_argument, NULL, OPT_RANKS },
	{ "rank", required_argument, NULL, OPT_RANK },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "remainder", required_argument, NULL, OPT_REMAINDER },
	{ "consumed", required_argument, NULL, OPT_CONSUMED },
	{ "from-step", required_argument, NULL, OPT_FROM_STEP },
	{ "count", required_argument, NULL, OPT_COUNT },
	{ "names", no_argument, NULL, OPT_NAMES },
	{ "position", required_argument, NULL, OPT_POSITION },
	{ "null", no_argument, NULL, '0' },
	CLI_LOCAL_COPY,
	CLI_S3_OPTIONS,
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* A batch is held in memory: 128 MB at the most. */
#define BATCH_MAX (UINT64_C(1) << 24)

struct cmd_order_arguments {
	struct cli_where where;
	const char *path;
	struct shoal_order_spec spec;
	uint64_t epoch, rank, from_step, count, position;
	bool names, position_given;
	char end;
};

static bool take_remainder(struct cmd_order_arguments *a)
{
	static const char *const names[] = {
		[SHOAL_DROP] = "drop", [SHOAL_PAD] = "pad", [SHOAL_KEEP] = "keep"
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(optarg, names[i]) == 0) {
			a->spec.remainder = (enum shoal_remainder)i;
			return true;
		}
	}
	cli_usage("order", "--remainder '%s' is not drop, pad or keep", optarg);
	return false;
}

static bool cmd_order_option(int c, struct cmd_order_arguments *a)
{
	int shared = order_option("order", c, &a->spec, &a->epoch);

	if (shared)
		return shared > 0;
	switch (c) {
	case OPT_RANK:
		return cli_number("order", "--rank", &a->rank);
	case OPT_BATCH:
		return cli_number("order", "--batch", &a->spec.batch);
	case OPT_REMAINDER:
		return take_remainder(a);
	case OPT_CONSUMED:
		return cli_number("order", "--consumed", &a->spec.consumed);
	case OPT_FROM_STEP:
		return cli_number("order", "--from-step", &a->from_step);
	case OPT_COUNT:
		return cli_number("order", "--count", &a->count);
	case OPT_POSITION:
		a->position_given = true;
		return cli_number("order", "--position", &a->position);
	case OPT_NAMES:
		return a->names = true;
	case '0':
		a->end = '\0';
		return true;
	default:
		return false;
	}
}

static int print_name(const struct cmd_order_arguments *a, const struct shoal_catalog *cat,
		      uint64_t sample, bool several)
{
	char name[SHOAL_NAME_MAX + 1];
	uint64_t file, index;
	int rc = shoal_catalog_locate(cat, sample, &file, &index);

	if (rc == 0)
		rc = shoal_catalog_name(cat, file, name);
	if (rc < 0)
		return cli_lookup_failed("order", a->path, cat, rc);
	if (memchr(name, a->end, (size_t)rc))
		return cli_fail("order", "'%s': name %" PRIu64 " contains a line end: use --null",
				a->path, file);
	fwrite_unlocked(name, 1, (size_t)rc, stdout);
	if (several)
		printf("\t%" PRIu64, index);
	putc_unlocked(a->end, stdout);
	return CLI_OK;
}

static int print_ids(const struct cmd_order_arguments *a, const struct shoal_catalog *cat,
		     const uint64_t *ids, uint64_t nr, bool several)
{
	for (uint64_t i = 0; i < nr; i++) {
		if (!a->names)
			printf("%" PRIu64 "%c", ids[i], a->end);
		else if (print_name(a, cat, ids[i], several) != CLI_OK)
			return CLI_FAILED;
	}
	return CLI_OK;
}

static int print_steps(const struct cmd_order_arguments *a, const struct shoal_catalog *cat,
		       const struct shoal_order *order, bool several)
{
	uint64_t *ids = malloc(a->spec.batch * sizeof(*ids));
	uint64_t left = a->count;
	int status = CLI_OK;

	if (!ids)
		return cli_fail("order", "out of memory for a batch of %" PRIu64, a->spec.batch);
	for (uint64_t step = a->from_step; status == CLI_OK && left > 0; step++) {
		int64_t n = shoal_order_batch(order, step, a->rank, ids);
		uint64_t nr;

		if (n < 0 || ferror_unlocked(stdout)) /* past the last step, or nobody reads */
			break;
		nr = u64_min((uint64_t)n, left);
		status = print_ids(a, cat, ids, nr, several);
		left -= nr;
	}
	free(ids);
	return status;
}

static int print_position(const struct cmd_order_arguments *a, const struct shoal_order *order)
{
	uint64_t position;

	if (shoal_order_position(order, a->position, &position) < 0)
		return cli_fail("order", "'%s': there is no sample %" PRIu64 ": it has %" PRIu64,
				a->path, a->position, shoal_order_spec(order)->nr_samples);
	printf("%" PRIu64 "%c", position, a->end);
	return CLI_OK;
}

static int print_order(struct cmd_order_arguments *a, const struct shoal_catalog *cat)
{
	struct shoal_order *order = NULL;
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };
	int status;

	shoal_catalog_info(cat, &info);
	if (cli_check_samples(cat, &err) < 0)
		return cli_fail("order", "'%s': %s", a->path, cli_words("order", &err));
	a->spec.nr_samples = info.nr_samples;
	/* If files differ, a unit is the mean number of samples per file. */
	a->spec.unit = info.samples_per_file ? info.samples_per_file
					     : info.nr_samples / info.nr_files +
						       (info.nr_samples % info.nr_files != 0);
	if (shoal_order_new(&a->spec, a->epoch, &order, &err) < 0)
		return cli_usage("order", "'%s': %s", a->path, cli_words("order", &err));
	if (a->position_given)
		status = print_position(a, order);
	else if (a->from_step > shoal_order_steps(order))
		status = cli_fail("order", "there is no step %" PRIu64 ": the epoch has %" PRIu64,
				  a->from_step, shoal_order_steps(order));
	else
		status = print_steps(a, cat, order, info.samples_per_file != 1);
	shoal_order_free(order);
	return status;
}

int cmd_order(int argc, char **argv)
{
	struct cmd_order_arguments a = {
		.spec = { .mode = SHOAL_GLOBAL, .nr_ranks = 1, .batch = 1 },
		.count = UINT64_MAX,
		.end = '\n'
	};
	struct shoal_catalog *cat;
	int c, status;

	while ((c = cli_getopt(argc, argv, ":0h", longs, &a.where)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (!cmd_order_option(c, &a))
			return CLI_USAGE;
	}
	if (argc - optind != 1)
		return cli_usage("order", "give one catalog");
	if (a.spec.batch == 0 || a.spec.batch > BATCH_MAX)
		return cli_usage("order", "--batch must be 1 to %" PRIu64, BATCH_MAX);
	if (a.rank >= a.spec.nr_ranks)
		return cli_usage("order", "--rank %" PRIu64 " must be less than --ranks %" PRIu64,
				 a.rank, a.spec.nr_ranks);
	a.path = argv[optind];
	cat = cli_open("order", a.path, &a.where);
	if (!cat)
		return CLI_FAILED;
	status = print_order(&a, cat);
	shoal_catalog_close(cat);
	return status;
}
