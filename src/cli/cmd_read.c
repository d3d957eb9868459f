/* shoal read: load an epoch, and say what that took and whether it was all there. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "bench/tally.h"
#include "cli/load_options.h"
#include "cli/order_options.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "comm/comm.h"

static const char usage[] =
	"usage: shoal read FILE [OPTION]...\n"
	"       mpirun -n RANKS shoal read FILE [OPTION]...\n"
	"\n"
	"Read every sample of an epoch from storage, in the epoch's order, and print what that took. Under\n"
	"mpirun the ranks share the epoch, and the sum is printed.\n"
	"\n" ORDER_USAGE "      --batch B         samples a rank takes in a step (default 32)\n"
	"      --steps T         stop after T steps\n"
	"      --in-flight K     samples being read at once by a rank (default 64)\n"
	"      --prefetch P      batches read ahead (default 2)\n" LOAD_USAGE
	"      --pieces          read a sample that is larger than the room for it piece by piece (room by\n"
	"                        default: 1M)\n"
	"      --drop-cache      first have the page cache forget the dataset's files; needs no root\n"
	"      --local-copy DIR  read a copy of the catalog in DIR, made if need be\n"
	"      --json            print the facts as JSON\n"
	"  -q, --quiet           print no progress\n" CLI_S3_USAGE;

enum {
	OPT_BATCH = 400,
	OPT_STEPS,
	OPT_PIECES,
	OPT_DROP_CACHE,
	OPT_JSON,
};

static const struct option longs[] = {
	ORDER_LONG_OPTIONS,
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "steps", required_argument, NULL, OPT_STEPS },
	LOAD_LONG_OPTIONS,
	{ "pieces", no_argument, NULL, OPT_PIECES },
	{ "drop-cache", no_argument, NULL, OPT_DROP_CACHE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	CLI_LOCAL_COPY,
	CLI_S3_OPTIONS,
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct arguments {
	const char *path;
	struct shoal_order_spec spec;
	struct shoal_load_options load;
	uint64_t epoch, steps;
	bool json, quiet, drop;
	bool misused; /* an option does not fit the catalog */
};

/* ---- Options ---- */

static bool take_option(int c, struct arguments *a)
{
	int shared;

	if (c == OPT_RANKS) {
		cli_usage("read",
			  "there are as many ranks as mpirun starts: --ranks is not for read");
		return false;
	}
	shared = order_option("read", c, &a->spec, &a->epoch);
	if (shared == 0)
		shared = load_option("read", c, &a->load);
	if (shared)
		return shared > 0;
	switch (c) {
	case OPT_BATCH:
		return load_number("read", "--batch", UINT64_C(1) << 20, &a->spec.batch);
	case OPT_STEPS:
		return load_number("read", "--steps", UINT64_MAX, &a->steps);
	case OPT_PIECES:
		return a->load.pieces = true;
	case OPT_DROP_CACHE:
		return a->drop = true;
	case OPT_JSON:
		return a->json = true;
	case 'q':
		return a->quiet = true;
	default:
		return false;
	}
}

/* ---- Reading ---- */

struct outcome {
	struct bench_tally sum;
	double started; /* the command */
	double first;   /* seconds from there to this rank's first batch, or to the end */
	double seconds;
	struct shoal_load_stats stats; /* of this rank */
	struct bench_meter meter;
};

/* Seconds between looks for word that another rank has failed. */
#define LISTEN_EVERY 0.1

/* While the loader waits, which it may for ever, and else between batches. */
static int listen_to_others(void *comm, struct shoal_err *err)
{
	struct shoal_comm_mail mail;
	int rc = shoal_comm_poll(comm, 0, &mail, err);

	return rc < 0 ? rc : 0;
}

static int read_steps(const struct arguments *a, struct shoal_comm *comm, struct shoal_loader *l,
		      struct outcome *o, uint64_t *ret_steps, struct shoal_err *err)
{
	bool others = shoal_comm_place(comm)->size > 1;
	const struct shoal_batch *batch;
	double listened = cli_now();
	int rc = 1;

	while (rc == 1 && *ret_steps < a->steps) {
		rc = 0;
		if (others && cli_now() - listened >= LISTEN_EVERY) {
			rc = listen_to_others(comm, err);
			listened = cli_now();
		}
		if (rc == 0)
			rc = shoal_loader_next(l, &batch, err);
		o->first = o->first > 0 ? o->first : cli_now() - o->started;
		if (rc == 1) {
			*ret_steps += batch->last;
			shoal_loader_give_back(l, batch);
		}
	}
	return rc < 0 ? rc : 0;
}

static int read_epoch(const struct arguments *a, struct shoal_comm *comm, struct shoal_loader *l,
		      struct outcome *o, struct shoal_err *err)
{
	uint64_t steps = 0, longest[2];
	double start;
	int rc;

	bench_meter_start(&o->meter);
	rc = shoal_comm_barrier(comm, err); /* all begin together */
	start = cli_now();
	if (rc == 0)
		rc = shoal_loader_epoch(l, a->epoch, err);
	if (rc == 0)
		rc = read_steps(a, comm, l, o, &steps, err);
	longest[0] = (uint64_t)((cli_now() - start) * 1e9);
	longest[1] = (uint64_t)(o->first * 1e9);
	bench_meter_stop(&o->meter, &o->sum);
	shoal_loader_stats(l, &o->stats);
	if (rc == 0)
		rc = bench_tally_add_up(&o->sum, comm, l, steps, err);
	if (rc == 0)
		rc = shoal_comm_reduce(comm, SHOAL_COMM_MAX, longest, 2, err);
	o->seconds = (double)longest[0] * 1e-9;
	o->first = (double)longest[1] * 1e-9;
	return rc;
}

static void show_stall(void *self, const char *words)
{
	(void)self;
	cli_fail("read", "%s", words);
}

static int open_loader(struct arguments *a, struct shoal_comm *comm,
		       const struct shoal_catalog *cat, struct shoal_loader **ret_loader,
		       struct shoal_err *err)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	a->spec.nr_samples = info.nr_samples;
	a->spec.nr_ranks = (uint64_t)shoal_comm_place(comm)->size;
	a->spec.unit = info.samples_per_file ? info.samples_per_file : 1;
	a->load.stalled = show_stall;
	a->load.stop = &cli_stop;
	if (a->spec.nr_ranks > 1)
		a->load.waiting = listen_to_others;
	a->load.self = comm;
	return shoal_loader_open(cat, &a->spec, (uint64_t)shoal_comm_place(comm)->rank, &a->load,
				 ret_loader, err);
}

/* Whether the options are for what the catalog lists. */
static int check_use(const struct arguments *a, const struct shoal_catalog *cat,
		     struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc = a->load.if_match ? load_check_etags(cat, a->load.store, err) : 0;

	shoal_catalog_info(cat, &info);
	if (rc < 0)
		return rc;
	return load_check_place(a->load.store ? a->load.store : info.root, &a->load, a->drop, err);
}

static int run(struct arguments *a, struct shoal_comm *comm, struct shoal_catalog **ret_cat,
	       struct shoal_loader **ret_loader, struct outcome *o, struct shoal_err *err)
{
	int rc;

	shoal_comm_set_stop(comm, &cli_stop);
	rc = cli_open_catalog(a->path, ret_cat, err);
	if (rc == 0) {
		rc = check_use(a, *ret_cat, err);
		a->misused = rc < 0;
	}
	if (rc == 0)
		rc = cli_check_samples(*ret_cat, err);
	if (rc == 0)
		rc = open_loader(a, comm, *ret_cat, ret_loader, err);
	if (rc == 0 && a->drop)
		rc = bench_drop_cache(&o->sum, comm, *ret_cat, a->load.store, &cli_stop, err);
	if (rc == 0)
		rc = read_epoch(a, comm, *ret_loader, o, err);
	if (rc < 0 && rc != -EREMOTEIO)
		shoal_comm_fail(comm, err->msg);
	return rc;
}

/* ---- Telling ---- */

static double us_at(const struct load_histogram *h, double share)
{
	return (double)load_histogram_at(h, share) * 1e-3;
}

/* Percentiles of what was done at all, else null. */
static void print_latency(const char *name, const struct load_histogram *h)
{
	if (us_at(h, 1) > 0)
		printf(" \"%s\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p99.9\": %.1f, "
		       "\"max\": %.1f},\n",
		       name, us_at(h, 0.5), us_at(h, 0.9), us_at(h, 0.99), us_at(h, 0.999),
		       us_at(h, 1));
	else
		printf(" \"%s\": null,\n", name);
}

/* Requests, where there were some. */
static void print_remote(const struct load_remote *r)
{
	const struct {
		const char *name;
		const struct shoal_histogram *h;
	} times[] = { { "first_byte_us", &r->first_ns }, { "total_us", &r->total_ns } };

	if (r->nr_requests == 0)
		return;
	printf(" \"requests\": {\"sent\": %" PRIu64 ", \"retries\": %" PRIu64
	       ", \"throttled\": %" PRIu64 ", \"bytes\": %" PRIu64,
	       r->nr_requests, r->nr_retries, r->nr_throttled, r->bytes);
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(times); i++) {
		const struct shoal_histogram *h = times[i].h;

		printf(",\n  \"%s\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p99.9\": %.1f, "
		       "\"max\": %.1f}",
		       times[i].name, (double)shoal_histogram_at(h, 0.5) * 1e-3,
		       (double)shoal_histogram_at(h, 0.9) * 1e-3,
		       (double)shoal_histogram_at(h, 0.99) * 1e-3,
		       (double)shoal_histogram_at(h, 0.999) * 1e-3,
		       (double)shoal_histogram_at(h, 1) * 1e-3);
	}
	puts("},");
}

static void print_json(const struct arguments *a, const struct outcome *o, int nr_ranks)
{
	const struct bench_tally *t = &o->sum;

	printf("{\"epoch\": %" PRIu64 ", \"ranks\": %d, \"samples\": %" PRIu64
	       ", \"bytes\": %" PRIu64 ", \"seconds\": %.6f, \"first_batch_seconds\": %.6f"
	       ", \"errors\": %" PRIu64 ",\n",
	       a->epoch, nr_ranks, t->samples, t->bytes_delivered, o->seconds, o->first, t->errors);
	printf(" \"engine\": \"%s\", \"engine_detail\": ", o->stats.engine);
	cli_json_string(o->stats.engine_detail);
	printf(", \"pool_bytes\": %" PRIu64 ", \"cpu_us_per_sample\": ", t->pool_bytes);
	if (t->samples > 0)
		printf("%.3f,\n", (double)t->cpu_ns * 1e-3 / (double)t->samples);
	else
		puts("null,");
	printf(" \"latency_us\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p99.9\": %.1f, "
	       "\"max\": %.1f},\n",
	       us_at(&t->latency, 0.5), us_at(&t->latency, 0.9), us_at(&t->latency, 0.99),
	       us_at(&t->latency, 0.999), us_at(&t->latency, 1));
	print_latency("open_us", &t->open);
	print_latency("read_us", &t->read);
	print_remote(&t->remote);
	printf(" \"audit\": {\"exactly_once\": %s, \"order_digest\": \"%016" PRIx64 "%016" PRIx64
	       "\", \"bytes_asked\": %" PRIu64 ", \"bytes_delivered\": %" PRIu64,
	       bench_tally_exactly_once(t) ? "true" : "false", t->got[2], t->got[3], t->bytes_asked,
	       t->bytes_delivered);
	if (o->meter.device_told)
		printf(", \"bytes_from_device\": %" PRIu64, t->bytes_device);
	else
		fputs(", \"bytes_from_device\": null", stdout);
	if (t->nr_pages)
		printf(", \"cached_share\": %.4f}}\n", (double)t->nr_cached / (double)t->nr_pages);
	else
		puts(", \"cached_share\": null}}");
}

/* Of part of an epoch, only that part is proven. */
static void print_proof(const struct arguments *a, const struct bench_tally *t)
{
	bool once = bench_tally_exactly_once(t);

	printf("audit     ");
	if (once && t->samples < a->spec.nr_samples)
		printf("%" PRIu64 " of %" PRIu64 " sample%s, each exactly once", t->samples,
		       a->spec.nr_samples, shoal_plural(a->spec.nr_samples));
	else
		printf("%severy sample exactly once", once ? "" : "NOT ");
	printf("; order %016" PRIx64 "%016" PRIx64 "\n", t->got[2], t->got[3]);
}

static void print_text(const struct arguments *a, const struct outcome *o, int nr_ranks)
{
	const struct bench_tally *t = &o->sum;

	printf("epoch %" PRIu64 ": %" PRIu64
	       " sample%s, %.1f MB in %.2f s by %d rank%s: %.0f samples/s, "
	       "%.1f MB/s\n",
	       a->epoch, t->samples, shoal_plural(t->samples), (double)t->bytes_delivered * 1e-6,
	       o->seconds, nr_ranks, shoal_plural((uint64_t)nr_ranks),
	       (double)t->samples / o->seconds, (double)t->bytes_delivered * 1e-6 / o->seconds);
	if (t->errors > 0)
		printf("errors    %" PRIu64 " sample%s could not be read, and %s left out\n",
		       t->errors, shoal_plural(t->errors), t->errors == 1 ? "was" : "were");
	printf("engine    %s (%s), %.1f MB of buffers\n", o->stats.engine, o->stats.engine_detail,
	       (double)t->pool_bytes * 1e-6);
	if (t->samples > 0)
		printf("latency   p50 %.0f us, p90 %.0f us, p99 %.0f us, max %.0f us; %.2f us of "
		       "CPU a sample\n",
		       us_at(&t->latency, 0.5), us_at(&t->latency, 0.9), us_at(&t->latency, 0.99),
		       us_at(&t->latency, 1), (double)t->cpu_ns * 1e-3 / (double)t->samples);
	if (t->remote.nr_requests > 0)
		printf("requests  %" PRIu64 " sent, %" PRIu64 " of them again, %" PRIu64
		       " throttled; first byte after p50 %.0f us, p99 %.0f us\n",
		       t->remote.nr_requests, t->remote.nr_retries, t->remote.nr_throttled,
		       (double)shoal_histogram_at(&t->remote.first_ns, 0.5) * 1e-3,
		       (double)shoal_histogram_at(&t->remote.first_ns, 0.99) * 1e-3);
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
		       t->nr_dropped, shoal_plural(t->nr_dropped), t->nr_kept);
}

/* What was skipped: each rank for itself, after the figures of all. */
static void name_errors(const struct outcome *o, const char *rank)
{
	const struct shoal_load_stats *s = &o->stats;

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(s->first_errors) && i < s->nr_errors; i++)
		cli_fail("read", "%s%s", rank, s->first_errors[i]);
}

/* Rank 0 alone speaks: of its own failure, or of the first that it heard of, with its rank. */
static int say_failure(const struct arguments *a, const struct shoal_comm_place *place,
		       const char *rank, int rc, const struct shoal_err *err)
{
	int status = a->misused ? CLI_USAGE : CLI_FAILED;

	if (place->rank > 0)
		return status;
	if (rc == -ECANCELED)
		return cli_fail("read", "interrupted");
	cli_fail("read", "%s'%s': %s", rc == -EREMOTEIO ? "" : rank, a->path, err->msg);
	return status;
}

static int tell(const struct arguments *a, const struct shoal_comm_place *place,
		const struct outcome *o, int rc, const struct shoal_err *err)
{
	char rank[32] = "";

	if (place->size > 1)
		snprintf(rank, sizeof(rank), "rank %d: ", place->rank);
	if (rc < 0)
		return say_failure(a, place, rank, rc, err);
	if (place->rank == 0 && a->json)
		print_json(a, o, place->size);
	else if (place->rank == 0)
		print_text(a, o, place->size);
	name_errors(o, rank);
	return bench_tally_exactly_once(&o->sum) ? CLI_OK : CLI_FAILED;
}

int cmd_read(int argc, char **argv)
{
	struct arguments a = { .spec = { .mode = SHOAL_GLOBAL,
					 .remainder = SHOAL_KEEP,
					 .nr_ranks = 1,
					 .batch = 32 },
			       .steps = UINT64_MAX };
	static struct outcome o; /* large: it has a histogram */
	struct shoal_loader *loader = NULL;
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	struct shoal_comm *comm = NULL;
	int c, rc, status;

	while ((c = cli_getopt(argc, argv, ":qh", longs)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (!take_option(c, &a))
			return CLI_USAGE;
	}
	if (argc - optind != 1)
		return cli_usage("read", "give one catalog");
	if (load_check("read", &a.load) != CLI_OK)
		return CLI_USAGE;
	a.path = argv[optind];
	if (cli_s3_check_uri("read", a.path) != CLI_OK)
		return CLI_USAGE;
	o.started = cli_now();
	cli_catch_signals();
	if (shoal_comm_open(&comm, &err) < 0)
		return cli_fail("read", "%s", err.msg);
	rc = run(&a, comm, &cat, &loader, &o, &err);
	status = tell(&a, shoal_comm_place(comm), &o, rc, &err);
	cli_part(comm);
	if (rc == -ECANCELED)
		cli_die_of_signal();
	if (rc < 0 && loader)
		cli_exit_now("read", status);
	shoal_loader_close(loader);
	shoal_catalog_close(cat);
	return status;
}
