/* shoal order: the samples that a rank reads, in the order in which it reads them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/order_options.h"
#include "cli/s3_options.h"
#include "cli/select_options.h"

/* A batch is held in memory: 128 MB at the most. */
#define BATCH_MAX (UINT64_C(1) << 24)

struct cmd_order_arguments {
	struct cli_where where;
	struct cli_order order;
	const char *path;
	uint64_t rank, from_step, limit, position;
	bool names, null, json, position_given;
	char end;
};

static int print_name(const struct cmd_order_arguments *a, const struct shoal_catalog *cat,
		      uint64_t sample, bool several)
{
	char name[SHOAL_NAME_MAX + 1];
	struct json j = cli_json();
	uint64_t file, index;
	int rc = shoal_catalog_locate(cat, sample, &file, &index);

	if (rc == 0)
		rc = shoal_catalog_name(cat, file, name);
	if (rc < 0)
		return cli_lookup_failed("order", a->path, cat, rc);
	if (a->json) {
		json_open_object(&j, NULL);
		json_u64(&j, "sample", sample);
		json_string(&j, "name", name);
		if (several)
			json_u64(&j, "index", index);
		json_close_object(&j);
		return CLI_OK;
	}
	if (a->end && cli_names_for_people())
		cli_put_plain(stdout, name, (size_t)rc);
	else if (memchr(name, a->end, (size_t)rc))
		return cli_fail("order", "'%s': name %" PRIu64 " contains a line end: use --null",
				a->path, file);
	else
		fwrite_unlocked(name, 1, (size_t)rc, stdout);
	if (several)
		printf("\t%" PRIu64, index);
	putc_unlocked(a->end, stdout);
	return CLI_OK;
}

static int print_ids(const struct cmd_order_arguments *a, const struct shoal_catalog *cat,
		     const uint64_t *ids, uint64_t nr, bool several)
{
	for (uint64_t i = 0; i < nr && !cli_output_failed(); i++) {
		struct json j = cli_json();

		if (!a->names && a->json) {
			json_open_object(&j, NULL);
			json_u64(&j, "sample", ids[i]);
			json_close_object(&j);
		} else if (!a->names)
			printf("%" PRIu64 "%c", ids[i], a->end);
		else if (print_name(a, cat, ids[i], several) != CLI_OK)
			return CLI_FAILED;
	}
	return CLI_OK;
}

static int print_steps(const struct cmd_order_arguments *a, const struct shoal_catalog *cat,
		       const struct shoal_order *order, bool several)
{
	uint64_t *ids = malloc(a->order.spec.batch * sizeof(*ids));
	uint64_t left = a->limit;
	int status = CLI_OK;

	if (!ids)
		return cli_fail("order", "out of memory for a batch of %" PRIu64,
				a->order.spec.batch);
	for (uint64_t step = a->from_step; status == CLI_OK && left > 0; step++) {
		int64_t n = shoal_order_batch(order, step, a->rank, ids);
		uint64_t nr;

		if (n < 0 ||
		    cli_output_failed()) /* past the last step, or a rank without samples */
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
	struct json j = cli_json();
	uint64_t position;

	if (shoal_order_position(order, a->position, &position) < 0)
		return cli_fail("order", "'%s': there is no sample %" PRIu64 ": it has %" PRIu64,
				a->path, a->position, shoal_order_spec(order)->nr_samples);
	if (a->json) {
		json_open_object(&j, NULL);
		json_u64(&j, "sample", a->position);
		json_u64(&j, "position", position);
		json_close_object(&j);
	} else {
		printf("%" PRIu64 "%c", position, a->end);
	}
	return CLI_OK;
}

static int print_order(struct cmd_order_arguments *a, const struct shoal_catalog *cat)
{
	struct shoal_order *order = NULL;
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };
	int status, rc;

	shoal_catalog_info(cat, &info);
	if (cli_check_samples(cat, &err) < 0)
		return cli_fail("order", "'%s': %s", a->path, cli_words("order", &err));
	a->order.spec.nr_samples = info.nr_samples;
	/* If files differ, a unit is the mean number of samples per file. */
	a->order.spec.unit = info.samples_per_file ? info.samples_per_file
						   : info.nr_samples / info.nr_files +
							     (info.nr_samples % info.nr_files != 0);
	rc = shoal_order_new(&a->order.spec, a->order.epoch, &order, &err);
	if (rc == -ENOMEM)
		return cli_fail("order", "'%s': %s", a->path, cli_words("order", &err));
	if (rc < 0)
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

static int cmd_order_run(void *arguments, int nr, char **words)
{
	struct cmd_order_arguments *a = arguments;
	struct shoal_catalog *cat;
	int status;

	(void)nr;
	if (a->rank >= a->order.spec.nr_ranks)
		return cli_usage("order", "--rank %" PRIu64 " must be less than --ranks %" PRIu64,
				 a->rank, a->order.spec.nr_ranks);
	a->path = words[0];
	a->end = a->null ? '\0' : '\n';
	cat = cli_open("order", a->path, &a->where);
	if (!cat)
		return CLI_FAILED;
	status = print_order(a, cat);
	shoal_catalog_close(cat);
	return status;
}

static void cmd_order_defaults(void *arguments)
{
	struct cmd_order_arguments *a = arguments;

	a->order.spec = (struct shoal_order_spec){
		.mode = SHOAL_GLOBAL, .remainder = SHOAL_KEEP, .nr_ranks = 1, .batch = CLI_BATCH
	};
	a->limit = UINT64_MAX;
}

#define AT(field) offsetof(struct cmd_order_arguments, field)

static const struct cli_option options[] = {
	CLI_NUMBER("ranks", "RANKS", AT(order.spec.nr_ranks), 1, 0,
		   "ranks that share the epoch (default 1)"),
	CLI_NUMBER("rank", "RANK", AT(rank), 0, 0, "the rank to print, from 0 (default 0)"),
	CLI_NUMBER("batch", "SAMPLES", AT(order.spec.batch), 1, BATCH_MAX,
		   "samples per rank and step (default 32, as in read)"),
	CLI_WORD("remainder", "WHAT", AT(order.spec.remainder), cli_remainders,
		 "keep (default), drop or pad the samples after the last whole step"),
	CLI_NUMBER("consumed", "POSITIONS", AT(order.spec.consumed), 0, 0,
		   "positions of the epoch already read: to resume with any --ranks and --batch"),
	CLI_NUMBER("from-step", "STEP", AT(from_step), 0, 0, "start with this step"),
	CLI_NUMBER("limit", "IDS", AT(limit), 1, 0, "the most ids to print"),
	CLI_FLAG(0, "names", AT(names),
		 "print names; if files have several samples, also a tab and the sample's number"),
	CLI_NUMBER_IF("position", "ID", AT(position), AT(position_given),
		      "print only the position of sample ID in the epoch"),
	CLI_NULL(AT(null), "lines"),
	CLI_FLAG(0, "json", AT(json), "print a JSON object per line"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_order = {
	.name = "order",
	.summary = "print the samples that a rank reads in an epoch",
	.usage = "CATALOG --ranks RANKS --rank RANK --batch SAMPLES --epoch EPOCH [OPTION]...",
	.about =
		"Print the ids of the samples that one of several ranks reads in an epoch, one per "
		"line.",
	.sections = { { .options = options },
		      CLI_ORDER_SECTION(AT(order)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog",
	.size = sizeof(struct cmd_order_arguments),
	.set_defaults = cmd_order_defaults,
	.run = cmd_order_run,
};
