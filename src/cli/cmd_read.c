/* shoal read: load epochs, and report their cost and whether they were complete. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/compare_ranks.h"
#include "cli/hints.h"
#include "cli/load_options.h"
#include "cli/order_options.h"
#include "cli/read_print.h"
#include "cli/record.h"
#include "cli/s3_options.h"
#include "cli/trace_options.h"
#include "load/loader.h"
#include "store/uri.h"

struct cmd_read_arguments {
	struct cli_where where;
	struct cli_order order;
	struct shoal_load_options load;
	const char *path;
	struct read_plan plan;
	struct read_measure *measure;
	struct cli_listen listen;
	struct cli_record record;
	struct cli_trace traces;
	bool json, dry_run;
	bool misused; /* an option does not fit the catalog */
};

/* ---- Reading ---- */

static void cmd_read_show_stall(void *self, const char *words)
{
	(void)self;
	cli_fail("read", "%s", words);
}

/* Options that are not given, which depend on the catalog and the ranks. */
static void fill_plan(struct cmd_read_arguments *a, const struct comm *comm,
		      const struct shoal_catalog *cat)
{
	struct shoal_order_spec *spec = &a->order.spec;
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	spec->nr_samples = info.nr_samples;
	spec->nr_ranks = (uint64_t)comm_place(comm)->size;
	/* If files differ, a unit is the mean number of samples per file, as in order. */
	spec->unit = info.samples_per_file
			     ? info.samples_per_file
			     : u64_divide_up(info.nr_samples, u64_max(info.nr_files, 1));
	a->plan.epoch = a->order.epoch;
	a->plan.cat = cat;
	a->plan.store = a->load.store;
	a->plan.config = a->load.config;
	a->plan.epoch_samples = info.nr_samples;
	a->plan.step_samples = spec->batch * spec->nr_ranks;
	if (a->plan.epochs == 0 && a->plan.duration_ms == 0)
		a->plan.epochs = 1;
}

static int open_loader(struct cmd_read_arguments *a, struct comm *comm,
		       const struct shoal_catalog *cat, struct shoal_loader **ret_loader,
		       struct shoal_err *err)
{
	if (!a->measure)
		return err_set_errno(err, -ENOMEM, "cannot begin");
	a->load.stalled = cmd_read_show_stall;
	a->load.waiting = read_measure_poll; /* it checks for signals, too */
	a->load.self = a->measure;
	return shoal_loader_open(cat, &a->order.spec, (uint64_t)comm_place(comm)->rank, &a->load,
				 ret_loader, err);
}

static int open_trace(struct cmd_read_arguments *a, struct comm *comm,
		      const struct shoal_catalog *cat, struct shoal_err *err)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	return cli_trace_open(&a->traces, a->load.store ? a->load.store : info.root, comm,
			      &a->plan.trace, err);
}

/* Whether the options fit what the catalog lists. */
static int cmd_read_check_use(const struct cmd_read_arguments *a, const struct shoal_catalog *cat,
			      struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc = a->load.if_match ? load_check_etags(cat, a->load.store, err) : 0;

	shoal_catalog_info(cat, &info);
	if (rc < 0)
		return rc;
	return load_check_place(a->load.store ? a->load.store : info.root, &a->load, a->plan.drop,
				err);
}

static void describe_time(FILE *f, const char *name, uint64_t ms)
{
	if (ms)
		fprintf(f, "%s: %g s\n", name, (double)ms * 1e-3);
	else
		fprintf(f, "%s: none\n", name);
}

static void describe_read(FILE *f, const void *self)
{
	const struct cmd_read_arguments *a = self;
	const struct shoal_order_spec *s = &a->order.spec;
	const struct read_plan *p = &a->plan;
	struct shoal_catalog_info info;

	shoal_catalog_info(p->cat, &info);
	fprintf(f,
		"catalog: %s of %" PRIu64 " files\nmode: %s\nremainder: %s\nseed: %" PRIu64
		"\nunit: %" PRIu64 "\n",
		info.digest, info.nr_files, cli_order_modes[s->mode], cli_remainders[s->remainder],
		s->seed, s->unit);
	cli_describe_flag(f, "frozen", s->frozen);
	cli_describe_number(f, "window", s->window, 0, "default");
	cli_describe_number(f, "lanes", s->lanes, 0, "none");
	cli_describe_number(f, "lane-batch", s->lane_batch, 0, "the batch");
	fprintf(f, "batch: %" PRIu64 "\nconsumed: %" PRIu64 "\nepoch: %" PRIu64 "\n", s->batch,
		s->consumed, p->epoch);
	cli_describe_number(f, "steps", p->steps, UINT64_MAX, "all");
	cli_describe_flag(f, "drop-cache", p->drop);
	cli_describe_number(f, "epochs", p->epochs, 0, "until the time is up");
	fprintf(f, "repeat: %" PRIu64 "\n", p->repeats);
	describe_time(f, "duration", p->duration_ms);
	describe_time(f, "warm-up", p->warm_up_ms);
	load_describe(f, &a->load);
}

/* With where results go: what the ranks compare, but not what results say. */
static void describe_read_fully(FILE *f, const void *self)
{
	const struct cmd_read_arguments *a = self;

	fprintf(f, "listen: %s\nop-log: %s\ntrace: %s\nresults: %s\n",
		cli_or_none(a->listen.address), cli_or_none(a->traces.log),
		cli_or_none(a->traces.trace), cli_or_none(a->record.results));
	describe_read(f, self);
}

/* What is read and how, for the results. */
static void cmd_read_put_begin(struct json *j, const void *self)
{
	const struct cmd_read_arguments *a = self;
	const char *data = a->load.store;
	struct shoal_catalog_info info;

	shoal_catalog_info(a->plan.cat, &info);
	data = data ? data : info.root;
	json_string(j, "catalog", a->path);
	json_string(j, "digest", info.digest);
	json_string(j, "data", data);
	json_bool(j, "bytes_made_up", store_uri_traits(data).synthetic);
	json_u64(j, "files", info.nr_files);
	json_u64(j, "batch", a->order.spec.batch);
	json_u64(j, "in_flight", a->load.in_flight);
	json_u64(j, "prefetch", a->load.prefetch);
	json_bool(j, "direct", a->load.direct);
	read_put_settings(j, a->plan.settings ? a->plan.settings : "");
}

/* Collective: what is looked at while it reads, and afterwards. */
static int cmd_read_record(struct cmd_read_arguments *a, struct comm *comm, struct shoal_err *err)
{
	unsigned size = (unsigned)comm_place(comm)->size;
	struct live_head head = { .command = "read",
				  .name = a->path,
				  .nr_ranks = size,
				  .nr_here = 1,
				  .au_bar = (double)NAN,
				  .total = size };
	struct cli_record_facts facts = { "read", a->path, cmd_read_put_begin, a };
	int rc = cli_record_begin(&a->record, &facts, comm, true, &a->listen, err);

	if (rc < 0)
		return rc;
	head.begin = a->record.begin;
	cli_listen_begin(&a->listen, "read", &head);
	a->plan.cores = a->record.cores;
	a->plan.series = a->record.series;
	a->plan.watch = cli_listen_watch(&a->listen);
	return 0;
}

/* The settings that all ranks have in common, for the results; NULL without memory. What was left
 * to the loader has its value from there. */
static char *cmd_read_settings(struct cmd_read_arguments *a, const struct shoal_loader *l)
{
	char *settings = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&settings, &len);

	a->load.in_flight = load_options(l)->in_flight;
	a->load.prefetch = load_options(l)->prefetch;
	if (f) {
		describe_read(f, a);
		fclose(f);
	}
	return settings;
}

static int cmd_read_run(struct cmd_read_arguments *a, struct comm *comm,
			struct shoal_catalog **ret_cat, struct shoal_loader **ret_loader,
			struct read_outcome *o, struct shoal_err *err)
{
	int rc = cli_open_catalog(a->path, &a->where, ret_cat, err);

	if (rc == 0) {
		rc = cmd_read_check_use(a, *ret_cat, err);
		a->misused = rc < 0;
	}
	if (rc == 0)
		rc = cli_check_samples(*ret_cat, err);
	if (rc == 0) {
		fill_plan(a, comm, *ret_cat);
		rc = cli_compare_ranks(comm, describe_read_fully, a, err);
	}
	if (rc == 0)
		rc = cli_listen_open(&a->listen, "read", comm, err);
	if (rc == 0) {
		a->measure = read_measure_new(&a->plan, comm, o);
		rc = open_loader(a, comm, *ret_cat, ret_loader, err);
	}
	if (rc == 0)
		rc = open_trace(a, comm, *ret_cat, err);
	if (rc == 0) { /* last: a folder with results is not used again */
		a->plan.settings = cmd_read_settings(a, *ret_loader);
		rc = cmd_read_record(a, comm, err);
	}
	cli_progress_start_view(&o->line, "read", comm_place(comm)->rank == 0, &a->listen);
	if (rc == 0)
		rc = read_measure_run(a->measure, *ret_loader, err);
	if (rc < 0 && rc != -EREMOTEIO)
		comm_fail(comm, err);
	return rc;
}

/* ---- Telling ---- */

/* The samples that were skipped: each rank prints its own, after the figures of all. */
static void name_errors(const struct read_outcome *o, const char *rank)
{
	const struct shoal_load_stats *s = &o->stats;

	for (size_t i = 0; i < ARRAY_LEN(s->first_errors) && i < s->nr_errors; i++)
		cli_fail("read", "%s%s", rank, s->first_errors[i]);
}

/* Whether the directory that the catalog lists does not exist. */
static bool has_moved(const struct cmd_read_arguments *a)
{
	struct shoal_catalog_info info;
	const char *root;

	if (!a->plan.cat || a->load.store)
		return false;
	shoal_catalog_info(a->plan.cat, &info);
	root = store_local_path(info.root);
	return root && access(root, F_OK) < 0;
}

/* Only rank 0 prints: its own failure, or the first that it received, with that rank. */
static int cmd_read_print_failure(const struct cmd_read_arguments *a,
				  const struct comm_place *place, const char *rank, int rc,
				  struct shoal_err *err)
{
	int status = a->misused ? CLI_USAGE : CLI_FAILED;

	if (place->rank > 0)
		return status;
	if (rc == -ECANCELED)
		return cli_fail("read", "interrupted");
	cli_fail("read", "%s'%s': %s%s", rc == -EREMOTEIO ? "" : rank, a->path,
		 cli_words("read", err),
		 has_moved(a) ? "; if the data has moved, name its place with --data" : "");
	return status;
}

struct read_record {
	const struct cmd_read_arguments *a;
	const struct read_outcome *o;
	int nr_ranks;
};

static void cmd_read_put_record(struct json *j, const void *self)
{
	const struct read_record *r = self;

	cmd_read_put_begin(j, r->a);
	read_put_json(j, &r->a->plan, r->o, r->nr_ranks);
}

/* Returns whether the results are complete. */
static bool cmd_read_keep(struct cmd_read_arguments *a, const struct comm_place *place,
			  const struct read_outcome *o)
{
	struct read_record r = { a, o, place->size };
	struct cli_record_facts facts = { "read", a->path, cmd_read_put_record, &r };
	struct shoal_err err = { "" };
	bool good = cli_record_end(&a->record, "read") == CLI_OK;

	if (place->rank == 0 && cli_record_write(&a->record, &facts, &err) < 0) {
		cli_fail("read", "%s", cli_words("read", &err));
		good = false;
	}
	return good;
}

static int cmd_read_report(struct cmd_read_arguments *a, const struct comm_place *place,
			   const struct read_outcome *o, int rc, struct shoal_err *err)
{
	char rank[32] = "";

	if (place->size > 1)
		snprintf(rank, sizeof(rank), "rank %d: ", place->rank);
	if (rc < 0)
		return cmd_read_print_failure(a, place, rank, rc, err);
	if (place->rank == 0 && a->json)
		read_print_json(&a->plan, o, place->size);
	else if (place->rank == 0)
		read_print_text(&a->plan, o, place->size);
	if (!cmd_read_keep(a, place, o))
		return CLI_FAILED;
	name_errors(o, rank);
	if (o->all.interrupted && place->rank == 0)
		cli_fail("read", "interrupted: these figures are of the part that was read");
	/* Rank 0's status is the job's: launchers report each process that does not end with 0. */
	return place->rank > 0 || (o->once && !o->all.interrupted) ? CLI_OK : CLI_FAILED;
}

/* @interrupted: by a signal to this rank or another. */
static int cmd_read_finish(struct comm *comm, bool interrupted, bool reading, int status)
{
	bool alone = comm_place(comm)->size == 1;

	status = cli_part("read", comm, interrupted && cli_stop ? CLI_INTERRUPTED : status);
	if (interrupted && alone) {
		cli_flush_output();
		cli_die_of_signal();
	}
	if (interrupted || reading)
		cli_exit_now("read", status);
	return status;
}

/* --dry-run: what would be read, and what would be written. */
static int cmd_read_try(struct cmd_read_arguments *a)
{
	const char *const outputs[] = { a->record.results, a->traces.trace, a->traces.log };
	struct shoal_catalog *cat = cli_open("read", a->path, &a->where);
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };
	int status = CLI_OK;

	if (!cat)
		return CLI_FAILED;
	shoal_catalog_info(cat, &info);
	if (cmd_read_check_use(a, cat, &err) < 0)
		status = cli_usage("read", "'%s': %s", a->path, cli_words("read", &err));
	else if (cli_check_samples(cat, &err) < 0)
		status = cli_fail("read", "'%s': %s", a->path, cli_words("read", &err));
	else if (cli_record_check(&a->record, "read", &err) < 0 ||
		 cli_trace_try(&a->traces, a->load.store ? a->load.store : info.root, &err) < 0)
		status = cli_fail("read", "%s", cli_words("read", &err));
	if (status == CLI_OK)
		cli_note("read", "%s sample%s of %s file%s in '%s' would be read per epoch",
			 count_in_words(info.nr_samples).text, plural(info.nr_samples),
			 count_in_words(info.nr_files).text, plural(info.nr_files),
			 a->load.store ? a->load.store : info.root);
	for (size_t i = 0; i < ARRAY_LEN(outputs) && status == CLI_OK; i++)
		if (outputs[i])
			cli_note("read", "'%s' would be written", outputs[i]);
	shoal_catalog_close(cat);
	return status;
}

static int cmd_read_start(void *arguments, int nr, char **words)
{
	struct cmd_read_arguments *a = arguments;
	static struct read_outcome o; /* large: it has a histogram */
	struct shoal_loader *loader = NULL;
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	struct comm *comm = NULL;
	int rc, status;

	(void)nr;
	a->path = words[0];
	a->load.config = &a->where.config;
	if (cli_s3_check_uri("read", a->path) != CLI_OK)
		return CLI_USAGE;
	if (a->dry_run)
		return comm_launched_rank(&nr) > 0 ? CLI_OK : cmd_read_try(a);
	o.started = clock_seconds();
	if (cli_join(&a->where, &comm, &err) < 0)
		return cli_fail("read", "%s", cli_words("read", &err));
	rc = cmd_read_run(a, comm, &cat, &loader, &o, &err);
	cli_listen_end(&a->listen);
	status = cmd_read_report(a, comm_place(comm), &o, rc, &err);
	status = cli_trace_finish("read", a->plan.trace, rc == 0, comm_place(comm)->rank, status);
	(void)cli_record_end(&a->record, "read"); /* after a failure */
	cli_print_lost_peer("read", comm, rc, &err);
	status = cmd_read_finish(comm, rc == -ECANCELED || o.all.interrupted,
				 (rc < 0 && loader) || o.waiting, status);
	shoal_loader_close(loader);
	shoal_catalog_close(cat);
	free(a->plan.settings);
	free(o.each);
	free(a->measure);
	return status;
}

static void cmd_read_defaults(void *arguments)
{
	struct cmd_read_arguments *a = arguments;

	a->order.spec = (struct shoal_order_spec){
		.mode = SHOAL_GLOBAL, .remainder = SHOAL_KEEP, .nr_ranks = 1, .batch = CLI_BATCH
	};
	a->plan.steps = UINT64_MAX;
	a->plan.repeats = 1;
}

#define AT(field)        offsetof(struct cmd_read_arguments, field)
#define READ_SECONDS_MAX UINT64_C(1000000000)

static const struct cli_option options[] = {
	CLI_NUMBER("batch", "SAMPLES", AT(order.spec.batch), 1, 1u << 20,
		   "samples per rank and step (default 32)"),
	CLI_NUMBER("steps", "STEPS", AT(plan.steps), 1, 0,
		   "read only this many steps of each epoch"),
	CLI_NUMBER("epochs", "EPOCHS", AT(plan.epochs), 1, 0,
		   "epochs to read, from --epoch on (default 1; with --duration as many as "
		   "there is time for)"),
	CLI_SECONDS("duration", AT(plan.duration_ms), 1, READ_SECONDS_MAX,
		    "stop after this time, in the middle of an epoch if necessary"),
	CLI_SECONDS("warm-up", AT(plan.warm_up_ms), 1, READ_SECONDS_MAX,
		    "do not count what is read in this time at the start; --duration begins after "
		    "it"),
	CLI_NUMBER("repeat", "TIMES", AT(plan.repeats), 1, READ_REPEATS_MAX,
		   "measurements to make: print the median, the lowest and the highest rate"),
	CLI_FLAG(0, "pieces", AT(load.pieces),
		 "read a sample that is larger than its slot piece by piece (slot by default: 1M)"),
	CLI_FLAG(0, "drop-cache", AT(plan.drop),
		 "first drop the dataset's files from the page cache, before each measurement; "
		 "needs no root"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_TEXT(0, "results", "DIR", AT(record.results), CLI_RECORD_HELP),
	CLI_FLAG(0, "dry-run", AT(dry_run),
		 "read and write nothing: print what would be read, and written"),
	CLI_JSON(AT(json)),
	CLI_PEER_TIMEOUT(AT(where.peer_timeout), AT(where.peer_timeout_given)),
	CLI_END,
};

const struct cli_command cmd_read = {
	.name = "read",
	.summary = "load epochs and report how fast it was",
	.usage = "CATALOG [OPTION]...",
	.about =
		"Read every sample of an epoch from storage, in the epoch's order, and report how "
		"fast it was. Under mpirun the ranks share the epoch, and their total is printed.\n"
		"After Ctrl-C the figures of what was read until then are printed.",
	.sections = { { .options = options },
		      CLI_ORDER_SECTION(AT(order)),
		      CLI_LOAD_SECTION(AT(load)),
		      CLI_TRACE_SECTION(AT(traces)),
		      CLI_LISTEN_SECTION(AT(listen)),
		      CLI_DIRECTORY_SECTION(AT(where.config)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog",
	.shares_work = true,
	.size = sizeof(struct cmd_read_arguments),
	.set_defaults = cmd_read_defaults,
	.run = cmd_read_start,
};
