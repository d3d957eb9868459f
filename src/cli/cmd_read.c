/* shoal read: load an epoch, and report its cost and whether it was complete. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/load_options.h"
#include "cli/order_options.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "comm/comm.h"
#include "load/tally.h"

struct cmd_read_arguments {
	struct cli_where where;
	struct cli_order order;
	struct shoal_load_options load;
	const char *path;
	uint64_t steps;
	bool json, drop;
	struct cli_talk talk;
	bool misused; /* an option does not fit the catalog */
};

/* ---- Reading ---- */

struct read_outcome {
	struct load_tally sum;
	double started; /* the command */
	double first;   /* seconds from there to this rank's first batch, or to the end */
	double seconds;
	struct shoal_load_stats stats; /* of this rank */
	struct load_meter meter;
	struct cli_progress line;
	bool partial; /* it was interrupted: the sum is of what was read until then */
};

/* Of all ranks, as far as this one can know: they advance together. */
static void show_read(const struct cmd_read_arguments *a, struct read_outcome *o, uint64_t steps,
		      uint64_t bytes)
{
	uint64_t step = a->order.spec.batch * a->order.spec.nr_ranks,
		 total = a->order.spec.nr_samples;

	if (a->steps < total / step)
		total = a->steps * step;
	cli_progress_show(&o->line, &(struct cli_step){ .what = "samples",
							.done = u64_min(steps * step, total),
							.total = total,
							.bytes = bytes * a->order.spec.nr_ranks });
}

/* Seconds between checks for a failure of another rank. */
#define LISTEN_EVERY 0.1

/* While the loader waits, which may be for ever, and otherwise between batches. */
static int cmd_read_poll_peers(void *comm, struct shoal_err *err)
{
	struct comm_mail mail;
	int rc = comm_poll(comm, 0, &mail, err);

	return rc < 0 ? rc : 0;
}

static int read_steps(const struct cmd_read_arguments *a, struct comm *comm, struct shoal_loader *l,
		      struct read_outcome *o, uint64_t *ret_steps, struct shoal_err *err)
{
	bool others = comm_place(comm)->size > 1;
	const struct shoal_batch *batch;
	double listened = clock_seconds();
	uint64_t bytes = 0;
	int rc = 1;

	while (rc == 1 && *ret_steps < a->steps) {
		rc = 0;
		if (others && clock_seconds() - listened >= LISTEN_EVERY) {
			rc = cmd_read_poll_peers(comm, err);
			listened = clock_seconds();
		}
		if (rc == 0)
			rc = shoal_loader_next(l, &batch, err);
		o->first = o->first > 0 ? o->first : clock_seconds() - o->started;
		if (rc == 1) {
			*ret_steps += batch->last;
			for (size_t i = 0; i < batch->nr; i++)
				bytes += batch->sample[i].len;
			show_read(a, o, *ret_steps, bytes);
			shoal_loader_give_back(l, batch);
		}
	}
	return rc < 0 ? rc : 0;
}

static int read_epoch(const struct cmd_read_arguments *a, struct comm *comm, struct shoal_loader *l,
		      struct read_outcome *o, struct shoal_err *err)
{
	uint64_t steps = 0, longest[2];
	double start;
	int rc;

	load_meter_start(&o->meter);
	rc = comm_barrier(comm, err); /* all begin together */
	start = clock_seconds();
	if (rc == 0)
		rc = shoal_loader_epoch(l, a->order.epoch, err);
	if (rc == 0)
		rc = read_steps(a, comm, l, o, &steps, err);
	cli_progress_clear(&o->line);
	if (rc == -ECANCELED && comm_place(comm)->size == 1 && steps > 0) {
		comm_set_stop(comm,
			      NULL); /* what was measured is not lost; other ranks may be gone */
		o->partial = true;
		rc = 0;
	}
	longest[0] = (uint64_t)((clock_seconds() - start) * 1e9);
	longest[1] = (uint64_t)(o->first * 1e9);
	load_meter_stop(&o->meter, &o->sum);
	shoal_loader_stats(l, &o->stats);
	if (rc == 0)
		rc = load_tally_add_up(&o->sum, comm, l, steps, err);
	if (rc == 0)
		rc = comm_reduce(comm, COMM_MAX, longest, 2, err);
	o->seconds = (double)longest[0] * 1e-9;
	o->first = (double)longest[1] * 1e-9;
	return rc;
}

static void cmd_read_show_stall(void *self, const char *words)
{
	(void)self;
	cli_fail("read", "%s", words);
}

static int open_loader(struct cmd_read_arguments *a, struct comm *comm,
		       const struct shoal_catalog *cat, struct shoal_loader **ret_loader,
		       struct shoal_err *err)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	a->order.spec.nr_samples = info.nr_samples;
	a->order.spec.nr_ranks = (uint64_t)comm_place(comm)->size;
	a->order.spec.unit = info.samples_per_file ? info.samples_per_file : 1;
	a->load.stalled = cmd_read_show_stall;
	a->load.stop = &cli_stop;
	if (a->order.spec.nr_ranks > 1)
		a->load.waiting = cmd_read_poll_peers;
	a->load.self = comm;
	return shoal_loader_open(cat, &a->order.spec, (uint64_t)comm_place(comm)->rank, &a->load,
				 ret_loader, err);
}

/* Whether the options are for what the catalog lists. */
static int cmd_read_check_use(const struct cmd_read_arguments *a, const struct shoal_catalog *cat,
			      struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc = a->load.if_match ? load_check_etags(cat, a->load.store, err) : 0;

	shoal_catalog_info(cat, &info);
	if (rc < 0)
		return rc;
	return load_check_place(a->load.store ? a->load.store : info.root, &a->load, a->drop, err);
}

static int cmd_read_run(struct cmd_read_arguments *a, struct comm *comm,
			struct shoal_catalog **ret_cat, struct shoal_loader **ret_loader,
			struct read_outcome *o, struct shoal_err *err)
{
	int rc;

	comm_set_stop(comm, &cli_stop);
	rc = cli_open_catalog(a->path, &a->where, ret_cat, err);
	if (rc == 0) {
		rc = cmd_read_check_use(a, *ret_cat, err);
		a->misused = rc < 0;
	}
	if (rc == 0)
		rc = cli_check_samples(*ret_cat, err);
	if (rc == 0)
		rc = open_loader(a, comm, *ret_cat, ret_loader, err);
	cli_progress_start(&o->line, "read", &a->talk, comm_place(comm)->rank == 0);
	if (rc == 0 && a->drop && o->line.terminal && !o->line.silent)
		cli_progress_put(&o->line, "dropping the files from the page cache");
	if (rc == 0 && a->drop)
		rc = load_drop_cache(&o->sum, comm, *ret_cat, a->load.store, &cli_stop, err);
	if (rc == 0)
		rc = read_epoch(a, comm, *ret_loader, o, err);
	if (rc < 0 && rc != -EREMOTEIO)
		comm_fail(comm, err);
	return rc;
}

/* ---- Telling ---- */

static double us_at(const struct histogram *h, double share)
{
	return (double)histogram_at(h, share) * 1e-3;
}

/* Percentiles, or null if there were none. */
static void print_latency(struct json *j, const char *name, const struct histogram *h)
{
	if (us_at(h, 1) <= 0) {
		json_null(j, name);
		return;
	}
	json_open_object(j, name);
	json_real(j, "p50", us_at(h, 0.5), 6);
	json_real(j, "p90", us_at(h, 0.9), 6);
	json_real(j, "p99", us_at(h, 0.99), 6);
	json_real(j, "p99.9", us_at(h, 0.999), 6);
	json_real(j, "max", us_at(h, 1), 6);
	json_close_object(j);
}

/* Requests, if there were any. */
static void print_remote(struct json *j, const struct load_remote *r)
{
	if (r->nr_requests == 0)
		return;
	json_open_object(j, "requests");
	json_u64(j, "sent", r->nr_requests);
	json_u64(j, "retries", r->nr_retries);
	json_u64(j, "throttled", r->nr_throttled);
	json_u64(j, "bytes", r->bytes);
	print_latency(j, "first_byte_us", &r->first_ns);
	print_latency(j, "total_us", &r->total_ns);
	json_close_object(j);
}

static void print_audit(struct json *j, const struct read_outcome *o)
{
	const struct load_tally *t = &o->sum;

	json_open_object(j, "audit");
	json_bool(j, "exactly_once", load_tally_exactly_once(t));
	json_format(j, "order_digest", "%016" PRIx64 "%016" PRIx64, t->got[2], t->got[3]);
	json_u64(j, "bytes_asked", t->bytes_asked);
	json_u64(j, "bytes_delivered", t->bytes_delivered);
	if (o->meter.device_told)
		json_u64(j, "bytes_from_device", t->bytes_device);
	else
		json_null(j, "bytes_from_device");
	/* NAN: nothing was looked up in the page cache. */
	json_real(j, "cached_share",
		  t->nr_pages ? (double)t->nr_cached / (double)t->nr_pages : (double)NAN, 6);
	json_close_object(j);
}

static void cmd_read_print_json(const struct cmd_read_arguments *a, const struct read_outcome *o,
				int nr_ranks)
{
	const struct load_tally *t = &o->sum;
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_u64(&j, "epoch", a->order.epoch);
	json_u64(&j, "ranks", (uint64_t)nr_ranks);
	json_u64(&j, "samples", t->samples);
	json_u64(&j, "bytes", t->bytes_delivered);
	json_real(&j, "seconds", o->seconds, 9);
	json_real(&j, "first_batch_seconds", o->first, 9);
	json_bool(&j, "interrupted", o->partial);
	json_u64(&j, "errors", t->errors);
	json_string(&j, "engine", o->stats.engine);
	json_string(&j, "engine_detail", o->stats.engine_detail);
	json_u64(&j, "pool_bytes", t->pool_bytes);
	json_real(&j, "cpu_us_per_sample",
		  t->samples ? (double)t->cpu_ns * 1e-3 / (double)t->samples : (double)NAN, 6);
	print_latency(&j, "latency_us", &t->latency);
	print_latency(&j, "open_us", &t->open);
	print_latency(&j, "read_us", &t->read);
	print_remote(&j, &t->remote);
	print_audit(&j, o);
	json_close_object(&j);
}

/* Of part of an epoch, only that part is proven. */
static void print_proof(const struct cmd_read_arguments *a, const struct load_tally *t)
{
	bool once = load_tally_exactly_once(t);

	printf("audit     ");
	if (once && t->samples < a->order.spec.nr_samples)
		printf("%" PRIu64 " of %" PRIu64 " sample%s, each exactly once", t->samples,
		       a->order.spec.nr_samples, plural(a->order.spec.nr_samples));
	else
		printf("%severy sample exactly once", once ? "" : "NOT ");
	printf("; order %016" PRIx64 "%016" PRIx64 "\n", t->got[2], t->got[3]);
}

static void cmd_read_print_text(const struct cmd_read_arguments *a, const struct read_outcome *o,
				int nr_ranks)
{
	const struct load_tally *t = &o->sum;

	printf("epoch %" PRIu64 ": %" PRIu64
	       " sample%s, %.1f MB in %.2f s by %d rank%s: %.0f samples/s, "
	       "%.1f MB/s\n",
	       a->order.epoch, t->samples, plural(t->samples), (double)t->bytes_delivered * 1e-6,
	       o->seconds, nr_ranks, plural((uint64_t)nr_ranks), (double)t->samples / o->seconds,
	       (double)t->bytes_delivered * 1e-6 / o->seconds);
	if (t->errors > 0)
		printf("errors    %" PRIu64 " sample%s could not be read, and %s left out\n",
		       t->errors, plural(t->errors), t->errors == 1 ? "was" : "were");
	printf("engine    %s (%s), %.1f MB of buffers\n", o->stats.engine, o->stats.engine_detail,
	       (double)t->pool_bytes * 1e-6);
	if (t->samples > 0)
		printf("latency   p50 %.0f us, p90 %.0f us, p99 %.0f us, max %.0f us; %.2f us of "
		       "CPU per sample\n",
		       us_at(&t->latency, 0.5), us_at(&t->latency, 0.9), us_at(&t->latency, 0.99),
		       us_at(&t->latency, 1), (double)t->cpu_ns * 1e-3 / (double)t->samples);
	if (t->remote.nr_requests > 0)
		printf("requests  %" PRIu64 " sent, %" PRIu64 " of them retries, %" PRIu64
		       " throttled; first byte after p50 %.0f us, p99 %.0f us\n",
		       t->remote.nr_requests, t->remote.nr_retries, t->remote.nr_throttled,
		       (double)histogram_at(&t->remote.first_ns, 0.5) * 1e-3,
		       (double)histogram_at(&t->remote.first_ns, 0.99) * 1e-3);
	print_proof(a, t);
	printf("bytes     %" PRIu64 " asked, %" PRIu64 " delivered", t->bytes_asked,
	       t->bytes_delivered);
	if (o->meter.device_told)
		printf(", %" PRIu64 " from the device", t->bytes_device);
	if (t->nr_pages)
		printf("; %.1f %% in the page cache before",
		       100.0 * (double)t->nr_cached / (double)t->nr_pages);
	putchar('\n');
	if (a->drop)
		printf("dropped   the pages of %" PRIu64 " file%s before; %" PRIu64 " kept some\n",
		       t->nr_dropped, plural(t->nr_dropped), t->nr_kept);
}

/* The samples that were skipped: each rank prints its own, after the figures of all. */
static void name_errors(const struct read_outcome *o, const char *rank)
{
	const struct shoal_load_stats *s = &o->stats;

	for (size_t i = 0; i < ARRAY_LEN(s->first_errors) && i < s->nr_errors; i++)
		cli_fail("read", "%s%s", rank, s->first_errors[i]);
}

/* Only rank 0 prints: its own failure, or the first it received, with its rank. */
static int cmd_read_print_failure(const struct cmd_read_arguments *a,
				  const struct comm_place *place, const char *rank, int rc,
				  struct shoal_err *err)
{
	int status = a->misused ? CLI_USAGE : CLI_FAILED;

	if (place->rank > 0)
		return status;
	if (rc == -ECANCELED)
		return cli_fail("read", "interrupted");
	cli_fail("read", "%s'%s': %s", rc == -EREMOTEIO ? "" : rank, a->path,
		 cli_words("read", err));
	return status;
}

static int cmd_read_report(const struct cmd_read_arguments *a, const struct comm_place *place,
			   const struct read_outcome *o, int rc, struct shoal_err *err)
{
	char rank[32] = "";

	if (place->size > 1)
		snprintf(rank, sizeof(rank), "rank %d: ", place->rank);
	if (rc < 0)
		return cmd_read_print_failure(a, place, rank, rc, err);
	if (place->rank == 0 && a->json)
		cmd_read_print_json(a, o, place->size);
	else if (place->rank == 0)
		cmd_read_print_text(a, o, place->size);
	name_errors(o, rank);
	if (o->partial)
		return cli_fail("read", "interrupted: these figures are of the part that was read");
	return load_tally_exactly_once(&o->sum) ? CLI_OK : CLI_FAILED;
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
	o.started = clock_seconds();
	cli_catch_signals();
	if (comm_open(&comm, &err) < 0)
		return cli_fail("read", "%s", cli_words("read", &err));
	rc = cmd_read_run(a, comm, &cat, &loader, &o, &err);
	status = cmd_read_report(a, comm_place(comm), &o, rc, &err);
	cli_part(comm);
	if (rc == -ECANCELED || o.partial) {
		fflush(stdout);
		cli_die_of_signal();
	}
	if (rc < 0 && loader)
		cli_exit_now("read", status);
	shoal_loader_close(loader);
	shoal_catalog_close(cat);
	return status;
}

static void cmd_read_defaults(void *arguments)
{
	struct cmd_read_arguments *a = arguments;

	a->order.spec = (struct shoal_order_spec){
		.mode = SHOAL_GLOBAL, .remainder = SHOAL_KEEP, .nr_ranks = 1, .batch = 32
	};
	a->steps = UINT64_MAX;
}

#define AT(field) offsetof(struct cmd_read_arguments, field)

static const struct cli_option options[] = {
	CLI_NUMBER("batch", "SAMPLES", AT(order.spec.batch), 1, 1u << 20,
		   "samples per rank and step (default 32)"),
	CLI_NUMBER("steps", "STEPS", AT(steps), 1, 0, "stop after so many steps"),
	CLI_FLAG(0, "pieces", AT(load.pieces),
		 "read a sample that is larger than its slot piece by piece (slot by default: 1M)"),
	CLI_FLAG(0, "drop-cache", AT(drop),
		 "first drop the dataset's files from the page cache; needs no root"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_JSON(AT(json)),
	CLI_END,
};

const struct cli_command cmd_read = {
	.name = "read",
	.summary = "load an epoch and report how fast it was",
	.usage = "CATALOG [OPTION]...",
	.about = "Read every sample of an epoch from storage, in the epoch's order, and report how "
		 "fast it was. Under mpirun the ranks share the epoch, and their total is printed.",
	.sections = { { .options = options },
		      CLI_ORDER_SECTION(AT(order)),
		      CLI_LOAD_SECTION(AT(load)),
		      CLI_S3_SECTION(AT(where.config)),
		      CLI_TALK_SECTION(AT(talk)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog",
	.size = sizeof(struct cmd_read_arguments),
	.set_defaults = cmd_read_defaults,
	.run = cmd_read_start,
};
