/* shoal datagen: write the files of a workload, or see whether they are all there. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "bench/datagen.h"
#include "bench/datasize.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "cli/workload_options.h"

static const char usage[] =
	"usage: shoal datagen WORKLOAD|FILE.yaml --data DIR [OPTION]... [KEY=VALUE]...\n"
	"       mpirun -n RANKS shoal datagen ...\n"
	"\n"
	"Write the dataset of a workload: train and valid files of its format, named as DLIO names them, of\n"
	"the sizes that the workload says, with content that neither compresses nor deduplicates. Each file\n"
	"appears under its name when it is whole. At the end the catalog is sealed. Any number of ranks and\n"
	"threads writes the same. KEY=VALUE changes the workload: dataset.num_files_train=5000.\n"
	"\n"
	"      --data DIR        where to: a directory, which is made if need be, or a URI\n"
	"      --resume          write only what is missing or has another size, and look into one file in\n"
	"                        64; with --verify into all of them\n"
	"      --verify          write nothing: read everything, and compare it with what it should be\n"
	"      --force           write also where there are files already, of this dataset or another, or too\n"
	"                        little room\n"
	"      --catalog FILE    seal the catalog there (default DIR/" BENCH_CATALOG_NAME
	"), a file or an\n"
	"                        object s3://bucket/name. Where there are\n"
	"                        valid files, those of train and valid alone go beside it, with -train and\n"
	"                        -valid in their names\n"
	"      --no-catalog      seal none\n"
	"      --no-sync         do not wait for the disk at the end: a power cut may cost files\n"
	"      --threads T       files written at once by a rank (default: reader.write_threads, or what suits\n"
	"                        the machine)\n"
	"      --json            print the result as JSON\n"
	"  -q, --quiet           no progress\n"
	"  -h, --help            this text\n" CLI_S3_USAGE;

enum {
	OPT_DATA = 400,
	OPT_RESUME,
	OPT_VERIFY,
	OPT_FORCE,
	OPT_CATALOG,
	OPT_NO_CATALOG,
	OPT_NO_SYNC,
	OPT_THREADS,
	OPT_JSON
};

static const struct option longs[] = {
	{ "data", required_argument, NULL, OPT_DATA },
	{ "resume", no_argument, NULL, OPT_RESUME },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "catalog", required_argument, NULL, OPT_CATALOG },
	{ "no-catalog", no_argument, NULL, OPT_NO_CATALOG },
	{ "no-sync", no_argument, NULL, OPT_NO_SYNC },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "json", no_argument, NULL, OPT_JSON },
	CLI_S3_OPTIONS,
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct arguments {
	const char *workload;
	char *const *overrides;
	size_t nr_overrides;
	struct bench_datagen_options o;
	bool resume, verify, json, quiet;
	struct bench_plan plan; /* of the ranks as accelerators; steps 0: they cannot make one */
};

/* What is on the terminal, and who speaks. */
struct screen {
	const struct arguments *a;
	int rank, nr_ranks;
	struct cli_progress line;
	uint64_t nr_bytes_shown;    /* when something was last shown */
	uint64_t nr_done, nr_first; /* files: now, and when something was first shown */
	double first;               /* when that was */
};

/* ---- Options ---- */

static bool take_option(int c, struct arguments *a)
{
	uint64_t v = 0;

	switch (c) {
	case OPT_DATA:
		a->o.data = optarg;
		return true;
	case OPT_RESUME:
		return a->resume = true;
	case OPT_VERIFY:
		return a->verify = true;
	case OPT_FORCE:
		return a->o.force = true;
	case OPT_CATALOG:
		a->o.catalog = optarg;
		return true;
	case OPT_NO_CATALOG:
		a->o.catalog = "";
		return true;
	case OPT_NO_SYNC:
		return a->o.no_sync = true;
	case OPT_THREADS:
		if (!cli_threads("datagen", &v))
			return false;
		a->o.nr_threads = (unsigned)v;
		return true;
	case OPT_JSON:
		return a->json = true;
	case 'q':
		return a->quiet = true;
	default:
		return false;
	}
}

/* What goes together, and the words that are no options. CLI_OK, or what to end with. */
static int take_words(int argc, char **argv, struct arguments *a)
{
	if (optind == argc)
		return cli_usage("datagen", "give a workload: 'shoal workloads' lists them");
	a->workload = argv[optind];
	a->overrides = argv + optind + 1;
	a->nr_overrides = (size_t)(argc - optind - 1);
	for (size_t i = 0; i < a->nr_overrides; i++)
		if (!strchr(a->overrides[i], '='))
			return cli_usage("datagen", "'%s' is neither an option nor KEY=VALUE",
					 a->overrides[i]);
	if (!a->o.data)
		return cli_usage("datagen", "give --data, the directory to write to");
	if (!*a->o.data)
		return cli_usage("datagen", "--data is empty");
	if (cli_s3_check_uri("datagen", a->o.data) != CLI_OK)
		return CLI_USAGE;
	if (a->verify && !a->resume && a->o.force)
		return cli_usage("datagen", "--verify writes nothing, so --force means nothing");
	a->o.mode = a->resume   ? BENCH_DATAGEN_RESUME
		    : a->verify ? BENCH_DATAGEN_VERIFY
				: BENCH_DATAGEN_WRITE;
	a->o.check_all = a->verify;
	return CLI_OK;
}

/* ---- Progress ---- */

static void put_time(char *to, size_t cap, double seconds)
{
	uint64_t s = seconds < 1e9 ? (uint64_t)(seconds + 0.5) : 1000000000;

	if (s >= 3600)
		snprintf(to, cap, "%" PRIu64 " h %02u min", s / 3600, (unsigned)(s / 60 % 60));
	else if (s >= 60)
		snprintf(to, cap, "%u min %02u s", (unsigned)(s / 60), (unsigned)(s % 60));
	else
		snprintf(to, cap, "%u s", (unsigned)s);
}

static void put_files(char *line, size_t cap, struct screen *s,
		      const struct bench_datagen_progress *now, double t)
{
	double since = t - s->line.shown, all = t - s->first;
	double speed = since > 0 ? (double)(now->nr_bytes - s->nr_bytes_shown) / since : 0;
	double rate = all > 0 ? (double)(now->nr_done - s->nr_first) / all : 0;
	char left[64] = "?";

	if (rate > 0)
		put_time(left, sizeof(left), (double)(now->nr_files - now->nr_done) / rate);
	snprintf(line, cap,
		 "%" PRIu64 " of %" PRIu64 " file%s (%.1f %%), %.0f/s, %.1f MB/s, %s left",
		 now->nr_done, now->nr_files, shoal_plural(now->nr_files),
		 100.0 * (double)now->nr_done / (double)now->nr_files, rate, speed * 1e-6, left);
}

static void show(void *self, const struct bench_datagen_progress *now)
{
	struct screen *s = self;
	double t = cli_now();
	char line[256];

	if (s->first == 0) {
		s->first = t;
		s->nr_first = now->nr_done;
	}
	s->nr_done = now->nr_done;
	if (s->a->quiet || t - s->line.shown < (s->line.terminal ? 0.2 : 5.0))
		return;
	if (now->phase == BENCH_DATAGEN_CATALOG)
		snprintf(line, sizeof(line), "catalog: %" PRIu64 " of %" PRIu64 " name%s",
			 now->nr_done, now->nr_files, shoal_plural(now->nr_files));
	else
		put_files(line, sizeof(line), s, now, t);
	s->line.shown = t;
	s->line.dirty = true;
	s->nr_bytes_shown = now->nr_bytes;
	if (s->line.terminal)
		fprintf(stderr, "\r\033[K%s", line);
	else
		fprintf(stderr, "%s\n", line);
}

/* A file that is wrong, or a key of the workload that is: by any rank. */
static void warn(void *self, const char *words)
{
	struct screen *s = self;

	cli_progress_clear(&s->line);
	if (s->nr_ranks > 1)
		cli_fail("datagen", "rank %d: %s", s->rank, words);
	else
		cli_fail("datagen", "%s", words);
}

/* All ranks load the same workload: one says what is odd with it. */
static void warn_once(void *self, const char *words)
{
	struct screen *s = self;

	if (s->rank == 0 && !s->a->quiet)
		cli_fail("datagen", "warning: %s", words);
}

/* ---- Telling ---- */

static uint64_t nr_wrong(const struct bench_datagen_counts *c)
{
	return c->nr_missing + c->nr_resized + c->nr_damaged;
}

static void print_json(const struct arguments *a, const struct bench_workload *w,
		       const struct bench_datagen_result *r, int nr_ranks)
{
	const struct bench_datagen_counts *c = &r->counts;

	fputs("{\"workload\": ", stdout);
	cli_json_string(w->name);
	fputs(", \"data\": ", stdout);
	cli_json_string(a->o.data);
	printf(", \"format\": \"%s\", \"files\": %" PRIu64 ", \"files_train\": %" PRIu64
	       ", \"files_valid\": %" PRIu64 ",\n",
	       bench_format_name(w->dataset.format), r->nr_files, bench_nr_files(w, false),
	       bench_nr_files(w, true));
	printf(" \"bytes_train\": %" PRIu64 ", \"bytes_valid\": %" PRIu64
	       ", \"steps_per_epoch\": %" PRIu64 ",\n",
	       a->plan.nr_bytes, a->plan.nr_bytes_eval, a->plan.steps);
	printf(" \"ranks\": %d, \"threads\": %u, \"seconds\": %.6f, \"sync_seconds\": %.6f,\n",
	       nr_ranks, r->nr_threads, r->seconds, r->sync_seconds);
	printf(" \"written\": %" PRIu64 ", \"bytes_written\": %" PRIu64 ", \"good\": %" PRIu64
	       ", \"compared\": %" PRIu64 ", \"bytes_compared\": %" PRIu64 ",\n",
	       c->nr_written, c->bytes_written, c->nr_good, c->nr_compared, c->bytes_compared);
	printf(" \"missing\": %" PRIu64 ", \"resized\": %" PRIu64 ", \"damaged\": %" PRIu64
	       ", \"leftovers\": %" PRIu64 ",\n \"catalog\": ",
	       c->nr_missing, c->nr_resized, c->nr_damaged, c->nr_leftovers);
	if (r->catalog[0])
		cli_json_string(r->catalog);
	else
		fputs("null", stdout);
	puts("}");
}

static void print_written(const struct arguments *a, const struct bench_datagen_result *r,
			  int nr_ranks)
{
	const struct bench_datagen_counts *c = &r->counts;
	double seconds = r->seconds > 0 ? r->seconds : 1e-9;

	printf("%" PRIu64 " file%s, %.1f MB written in %.2f s by %d rank%s of %u thread%s: %.0f "
	       "files/s, %.1f MB/s\n",
	       c->nr_written, shoal_plural(c->nr_written), (double)c->bytes_written * 1e-6,
	       r->seconds, nr_ranks, shoal_plural((uint64_t)nr_ranks), r->nr_threads,
	       shoal_plural(r->nr_threads), (double)c->nr_written / seconds,
	       (double)c->bytes_written * 1e-6 / seconds);
	if (a->resume)
		printf("before    %" PRIu64 " good (%" PRIu64 " of them compared), %" PRIu64
		       " missing, %" PRIu64 " of another size, %" PRIu64
		       " with other content; %" PRIu64 " leftover%s removed\n",
		       c->nr_good, c->nr_compared, c->nr_missing, c->nr_resized, c->nr_damaged,
		       c->nr_leftovers, shoal_plural(c->nr_leftovers));
	if (r->catalog[0])
		printf("catalog   %s%s\n", r->catalog,
		       r->parts ? ", and beside it those of train and valid" : "");
	else if (!a->o.catalog)
		puts("catalog   none, as --catalog does not say where");
}

static void print_verified(const struct bench_datagen_result *r)
{
	const struct bench_datagen_counts *c = &r->counts;
	double seconds = r->seconds > 0 ? r->seconds : 1e-9;

	printf("%" PRIu64 " of %" PRIu64 " file%s good, %.1f MB compared in %.2f s: %.1f MB/s\n",
	       c->nr_good, r->nr_files, shoal_plural(r->nr_files), (double)c->bytes_compared * 1e-6,
	       r->seconds, (double)c->bytes_compared * 1e-6 / seconds);
	if (nr_wrong(c))
		printf("wrong     %" PRIu64 " missing, %" PRIu64 " of another size, %" PRIu64
		       " with other content: --resume --verify writes them again\n",
		       c->nr_missing, c->nr_resized, c->nr_damaged);
}

/* Rank 0 alone speaks: of its own failure, or of the first that it heard of, with its rank. */
static int say_failure(const struct arguments *a, const struct screen *s, int rc,
		       const struct shoal_err *err)
{
	if (s->rank > 0)
		return CLI_FAILED;
	if (rc == -ECANCELED && a->o.mode == BENCH_DATAGEN_VERIFY)
		return cli_fail("datagen", "interrupted");
	if (rc == -ECANCELED)
		return cli_fail("datagen",
				"interrupted after %" PRIu64 " file%s: --resume completes them",
				s->nr_done, shoal_plural(s->nr_done));
	if (s->nr_ranks > 1 && rc != -EREMOTEIO)
		return cli_fail("datagen", "rank 0: %s", err->msg);
	return cli_fail("datagen", "%s", err->msg);
}

static int tell(const struct arguments *a, struct screen *s, const struct bench_workload *w,
		const struct bench_datagen_result *r, int rc, const struct shoal_err *err)
{
	bool wrong = a->o.mode == BENCH_DATAGEN_VERIFY && nr_wrong(&r->counts) > 0;

	cli_progress_clear(&s->line);
	if (rc < 0)
		return say_failure(a, s, rc, err);
	if (s->rank == 0 && a->json)
		print_json(a, w, r, s->nr_ranks);
	else if (s->rank == 0 && a->o.mode == BENCH_DATAGEN_VERIFY)
		print_verified(r);
	else if (s->rank == 0)
		print_written(a, r, s->nr_ranks);
	return wrong ? CLI_FAILED : CLI_OK;
}

/* What the workload asks for, and is not done. */
static void note_ignored(const struct bench_workload *w, struct screen *s)
{
	const struct bench_dataset *d = &w->dataset;

	if (d->compression != BENCH_PLAIN)
		warn_once(s,
			  "dataset.compression: files are written as they are, since their content "
			  "does not compress");
	if (d->format == BENCH_HDF5 && d->chunking)
		warn_once(s, "dataset.enable_chunking: datasets are written contiguously");
	if (d->format == BENCH_HDF5 && d->nr_hdf5_dsets > 1)
		warn_once(s, "dataset.hdf5.num_dset_per_record: all records are in one dataset");
}

/*
 * Rank 0, before anything is written: how much it will be, as datasize and run count it. That a run
 * could not take a step of it, or that it is small, is a warning here.
 */
static int show_plan(struct arguments *a, struct shoal_comm *comm, const struct bench_workload *w,
		     struct screen *s, struct shoal_err *err)
{
	struct bench_cluster cluster;
	struct shoal_err why = { "" };
	char words[300];
	uint64_t nr;
	int rc = bench_measure(comm, &cluster, err);

	if (rc == 0)
		rc = bench_plan_data(w, &a->plan, err);
	if (rc < 0)
		return rc;
	if (bench_plan(w, (uint64_t)s->nr_ranks, &a->plan, &why) < 0)
		warn_once(s, why.msg);
	else if (a->o.mode == BENCH_DATAGEN_WRITE &&
		 bench_too_small(w, &cluster, words, sizeof(words)))
		warn_once(s, words);
	if (s->rank > 0 || a->quiet || a->o.mode == BENCH_DATAGEN_VERIFY)
		return 0;
	nr = a->plan.nr_files + a->plan.nr_files_eval;
	fprintf(stderr, "datagen: %" PRIu64 " file%s, ", nr, shoal_plural(nr));
	cli_put_bytes(stderr, (double)a->plan.nr_bytes + (double)a->plan.nr_bytes_eval);
	fprintf(stderr, "; %" PRIu64 " step%s an epoch on %d accelerator%s\n", a->plan.steps,
		shoal_plural(a->plan.steps), s->nr_ranks, shoal_plural((uint64_t)s->nr_ranks));
	return 0;
}

static int run(struct arguments *a, struct shoal_comm *comm, struct screen *s,
	       struct bench_workload **ret_w, struct bench_datagen_result *r, struct shoal_err *err)
{
	int rc = bench_workload_load(a->workload, a->overrides, a->nr_overrides, warn_once, s,
				     ret_w, err);

	if (rc < 0) {
		shoal_comm_fail(comm, err->msg);
		return rc;
	}
	note_ignored(*ret_w, s);
	rc = show_plan(a, comm, *ret_w, s, err);
	if (rc < 0) {
		shoal_comm_fail(comm, err->msg);
		return rc;
	}
	a->o.stop = &cli_stop;
	a->o.progress = show;
	a->o.warn = warn;
	a->o.self = s;
	shoal_comm_set_stop(comm, &cli_stop);
	return bench_datagen(comm, *ret_w, &a->o, r, err);
}

int cmd_datagen(int argc, char **argv)
{
	struct arguments a = { 0 };
	struct screen s = { .a = &a };
	struct bench_datagen_result r = { 0 };
	struct bench_workload *w = NULL;
	struct shoal_err err = { "" };
	struct shoal_comm *comm = NULL;
	int c, rc, status;

	while ((c = cli_getopt(argc, argv, ":qh", longs)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (!take_option(c, &a))
			return CLI_USAGE;
	}
	status = take_words(argc, argv, &a);
	if (status != CLI_OK)
		return status;
	cli_catch_signals();
	if (shoal_comm_open(&comm, &err) < 0)
		return cli_fail("datagen", "%s", err.msg);
	s.rank = shoal_comm_place(comm)->rank;
	s.nr_ranks = shoal_comm_place(comm)->size;
	cli_progress_start(&s.line);
	rc = run(&a, comm, &s, &w, &r, &err);
	status = tell(&a, &s, w, &r, rc, &err);
	bench_workload_free(w);
	cli_part(comm);
	if (rc == -ECANCELED)
		cli_die_of_signal();
	return status;
}
