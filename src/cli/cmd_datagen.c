/* shoal datagen: write the files of a workload, or check that they all exist. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/compare_ranks.h"
#include "cli/hints.h"
#include "cli/layout_options.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "cli/s3_options.h"
#include "cli/workload_options.h"
#include "datagen/datagen.h"
#include "datagen/datasize.h"
#include "open/output.h"
#include "store/uri.h"

struct cmd_datagen_arguments {
	struct cli_where where;
	const char *workload;
	char *const *overrides;
	size_t nr_overrides;
	const char *results;
	struct cli_layout layout;
	struct cli_listen listen;
	struct cli_record record;
	struct datagen_options o;
	bool resume, verify, no_catalog, json, dry_run;
	struct datasize_plan plan; /* the ranks as accelerators; steps 0: there is no such plan */
};

/* What is on the terminal, and which process prints. */
struct screen {
	const struct cmd_datagen_arguments *a;
	int rank, nr_ranks;
	struct cli_progress line;
	uint64_t nr_done; /* files */
	bool misused;     /* an override is wrong */
};

/* ---- Options ---- */

/* Check combinations of options, and arguments that are not options. CLI_OK, or the exit code. */
static int take_words(int nr, char **words, struct cmd_datagen_arguments *a)
{
	struct shoal_err err = { "" };
	a->workload = words[0];
	a->overrides = words + 1;
	a->nr_overrides = (size_t)nr - 1;
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
	if (a->o.catalog && *a->o.catalog && output_check(a->o.catalog, &err) < 0)
		return cli_usage("datagen", "--catalog: %s", cli_words("datagen", &err));
	if (a->verify && !a->resume && a->o.force)
		return cli_usage("datagen",
				 "--force has no effect with --verify, which writes nothing");
	if (!a->results && a->layout.kind != LAYOUT_PLAIN)
		return cli_usage(
			"datagen",
			"--results-layout mlpstorage needs --results, the top of the tree");
	if (a->layout.kind != LAYOUT_PLAIN && a->verify && !a->resume)
		return cli_usage("datagen", "--verify writes no files, so it has no results");
	if (a->dry_run && a->listen.address)
		return cli_usage("datagen", "--dry-run has nothing to --listen for");
	if (a->layout.kind == LAYOUT_PLAIN && !a->dry_run)
		a->record.results = a->results;
	if (cli_layout_check_place("datagen", &a->layout, a->results, a->o.data) != CLI_OK)
		return CLI_FAILED;
	a->o.mode = a->resume ? DATAGEN_RESUME : a->verify ? DATAGEN_VERIFY : DATAGEN_WRITE;
	a->o.check_all = a->verify;
	if (a->no_catalog)
		a->o.catalog = "";
	return CLI_OK;
}

/* ---- Progress ---- */

static void cmd_datagen_show_progress(void *self, const struct datagen_progress *now)
{
	struct screen *s = self;
	struct cli_step step = { .what = now->phase == DATAGEN_CATALOG ? "names" : "files",
				 .done = now->nr_done,
				 .total = now->nr_files,
				 .bytes = now->phase == DATAGEN_FILES ? now->nr_bytes : 0 };

	if (now->phase == DATAGEN_FILES) {
		s->nr_done = now->nr_done;
		series_count(s->a->record.series, clock_now(), now->nr_done, now->nr_bytes);
	}
	cli_progress_show(&s->line, &step);
}

/* Warn about a file, or about a key of the workload: on any rank. */
static void cmd_datagen_warn(void *self, const char *words)
{
	struct screen *s = self;

	cli_progress_clear(&s->line);
	if (s->nr_ranks > 1)
		cli_fail("datagen", "rank %d: %s", s->rank, words);
	else
		cli_fail("datagen", "%s", words);
}

/* All ranks load the same workload: only one prints the warnings about it. */
static void warn_once(void *self, const char *words)
{
	struct screen *s = self;

	if (s->rank == 0)
		cli_warn("datagen", "%s", words);
}

/* ---- Telling ---- */

static uint64_t nr_wrong(const struct datagen_counts *c)
{
	return c->nr_missing + c->nr_resized + c->nr_damaged;
}

static void cmd_datagen_put_json(struct json *j, const struct cmd_datagen_arguments *a,
				 const struct workload *w, const struct datagen_result *r,
				 int nr_ranks)
{
	const struct datagen_counts *c = &r->counts;

	json_string(j, "workload", w->name);
	json_string(j, "data", a->o.data);
	json_string(j, "format", workload_format_name(w->dataset.format));
	json_u64(j, "files", r->nr_files);
	json_u64(j, "files_train", workload_nr_files(w, false));
	json_u64(j, "files_valid", workload_nr_files(w, true));
	json_u64(j, "bytes_train", a->plan.nr_bytes);
	json_u64(j, "bytes_valid", a->plan.nr_bytes_eval);
	json_u64(j, "steps_per_epoch", a->plan.steps);
	json_u64(j, "ranks", (uint64_t)nr_ranks);
	json_u64(j, "threads", r->nr_threads);
	json_real(j, "seconds", r->seconds, 9);
	json_real(j, "sync_seconds", r->sync_seconds, 9);
	json_u64(j, "written", c->nr_written);
	json_u64(j, "bytes_written", c->bytes_written);
	json_real(j, "files_per_second",
		  r->seconds > 0 ? (double)c->nr_written / r->seconds : (double)NAN, 6);
	json_real(j, "bytes_per_second",
		  r->seconds > 0 ? (double)c->bytes_written / r->seconds : (double)NAN, 6);
	json_u64(j, "good", c->nr_good);
	json_u64(j, "compared", c->nr_compared);
	json_u64(j, "bytes_compared", c->bytes_compared);
	json_u64(j, "missing", c->nr_missing);
	json_u64(j, "resized", c->nr_resized);
	json_u64(j, "damaged", c->nr_damaged);
	json_u64(j, "leftovers", c->nr_leftovers);
	json_string(j, "catalog", r->catalog[0] ? r->catalog : NULL);
}

static void cmd_datagen_print_json(const struct cmd_datagen_arguments *a, const struct workload *w,
				   const struct datagen_result *r, int nr_ranks)
{
	struct json j = cli_json();

	json_open_object(&j, NULL);
	cmd_datagen_put_json(&j, a, w, r, nr_ranks);
	json_close_object(&j);
}

static void print_written(FILE *out, const struct cmd_datagen_arguments *a,
			  const struct datagen_result *r, int nr_ranks)
{
	const struct datagen_counts *c = &r->counts;
	double seconds = r->seconds > 0 ? r->seconds : 1e-9;

	fprintf(out, "%s file%s, %s written in %s by %d rank%s of %u thread%s: %s files/s, %s/s\n",
		count_in_words(c->nr_written).text, plural(c->nr_written),
		size_in_words(c->bytes_written).text, time_in_words(r->seconds).text, nr_ranks,
		plural((uint64_t)nr_ranks), r->nr_threads, plural(r->nr_threads),
		rate_in_words((double)c->nr_written / seconds).text,
		size_in_words((uint64_t)((double)c->bytes_written / seconds)).text);
	if (a->resume)
		fprintf(out,
			"before    %" PRIu64 " good (%" PRIu64 " of them compared), %" PRIu64
			" missing, %" PRIu64 " of another size, %" PRIu64
			" with other content; %" PRIu64 " leftover%s removed\n",
			c->nr_good, c->nr_compared, c->nr_missing, c->nr_resized, c->nr_damaged,
			c->nr_leftovers, plural(c->nr_leftovers));
	if (r->catalog[0])
		fprintf(out, "catalog   %s%s\n", r->catalog,
			r->parts ? ", and beside it those of train and valid" : "");
	else if (!a->o.catalog)
		fputs("catalog   none, because --catalog gives no place\n", out);
}

static void print_verified(FILE *out, const struct datagen_result *r)
{
	const struct datagen_counts *c = &r->counts;
	double seconds = r->seconds > 0 ? r->seconds : 1e-9;

	fprintf(out, "%s of %s file%s good, %s compared in %s: %s/s\n",
		count_in_words(c->nr_good).text, count_in_words(r->nr_files).text,
		plural(r->nr_files), size_in_words(c->bytes_compared).text,
		time_in_words(r->seconds).text,
		size_in_words((uint64_t)((double)c->bytes_compared / seconds)).text);
	if (nr_wrong(c))
		fprintf(out,
			"wrong     %" PRIu64 " missing, %" PRIu64 " of another size, %" PRIu64
			" with other content: --resume --verify writes them again\n",
			c->nr_missing, c->nr_resized, c->nr_damaged);
}

static void cmd_datagen_print_result(const struct cmd_datagen_arguments *a,
				     const struct datagen_result *r, int nr_ranks)
{
	struct cli_text text;
	FILE *out = cli_text_open(&text);

	if (!out)
		return;
	if (a->o.mode == DATAGEN_VERIFY)
		print_verified(out, r);
	else
		print_written(out, a, r, nr_ranks);
	cli_text_print(&text, out, nr_ranks == 1, CLI_LABEL_COLUMNS);
}

/* Only rank 0 prints: its own failure, or the first that it received, with that rank. */
static int cmd_datagen_print_failure(const struct cmd_datagen_arguments *a, const struct screen *s,
				     int rc, struct shoal_err *err)
{
	if (s->rank > 0)
		return s->misused ? CLI_USAGE : CLI_FAILED;
	if (s->misused)
		return cli_usage("datagen", "%s", cli_words("datagen", err));
	if (rc == -ECANCELED && a->o.mode == DATAGEN_VERIFY)
		return cli_fail("datagen", "interrupted");
	if (rc == -ECANCELED)
		return cli_fail("datagen",
				"interrupted after %" PRIu64 " file%s; complete them with --resume",
				s->nr_done, plural(s->nr_done));
	if (s->nr_ranks > 1 && rc != -EREMOTEIO)
		return cli_fail("datagen", "rank 0: %s", cli_words("datagen", err));
	return cli_fail("datagen", "%s", cli_words("datagen", err));
}

/* --dry-run, on rank 0: where files would be written. */
static void say_outputs(const struct cmd_datagen_arguments *a, const struct screen *s)
{
	static const char *const would[] = { [DATAGEN_WRITE] = "they would be written to",
					     [DATAGEN_RESUME] = "they would be completed in",
					     [DATAGEN_VERIFY] = "they would be compared with" };
	bool written = a->o.mode != DATAGEN_VERIFY;

	if (s->rank > 0)
		return;
	cli_note("datagen", "%s '%s'", would[a->o.mode], a->o.data);
	if (written && !a->o.catalog)
		cli_note("datagen", "'%s/" DATAGEN_CATALOG_NAME "' would be written", a->o.data);
	else if (written && *a->o.catalog)
		cli_note("datagen", "'%s' would be written", a->o.catalog);
	if (a->results)
		cli_note("datagen", "results would be written to '%s'", a->results);
}

static int cmd_datagen_report(const struct cmd_datagen_arguments *a, struct screen *s,
			      const struct workload *w, const struct datagen_result *r, int rc,
			      struct shoal_err *err)
{
	/* Rank 0's status is the job's: launchers report each process that does not end with 0. */
	bool wrong = s->rank == 0 && a->o.mode == DATAGEN_VERIFY && nr_wrong(&r->counts) > 0;

	cli_progress_clear(&s->line);
	if (rc < 0)
		return cmd_datagen_print_failure(a, s, rc, err);
	if (a->dry_run) {
		say_outputs(a, s);
		return CLI_OK; /* show_plan() has printed the rest */
	}
	if (s->rank == 0 && a->json)
		cmd_datagen_print_json(a, w, r, s->nr_ranks);
	else if (s->rank == 0)
		cmd_datagen_print_result(a, r, s->nr_ranks);
	return wrong ? CLI_FAILED : CLI_OK;
}

/* What the workload requests and is not done. */
static void note_ignored(const struct workload *w, struct screen *s)
{
	const struct workload_dataset *d = &w->dataset;

	if (d->compression != WORKLOAD_PLAIN)
		warn_once(s,
			  "dataset.compression: files are written as they are, since their content "
			  "does not compress");
	if (d->format == WORKLOAD_HDF5 && d->chunking)
		warn_once(s, "dataset.enable_chunking: datasets are written contiguously");
	if (d->format == WORKLOAD_HDF5 && d->nr_hdf5_dsets > 1)
		warn_once(s, "dataset.hdf5.num_dset_per_record: all records are in one dataset");
}

/* Rank 0, before anything is written: the amount of data, computed as in datasize and run. Too
 * little data for a step, or for a realistic run, is a warning here. */
static int show_plan(struct cmd_datagen_arguments *a, struct comm *comm, const struct workload *w,
		     struct screen *s, struct shoal_err *err)
{
	struct datasize_cluster cluster;
	struct shoal_err why = { "" };
	char words[300];
	uint64_t nr;
	int rc = datasize_measure(comm, &cluster, err);

	if (rc == 0)
		rc = datasize_plan_data(w, &a->plan, err);
	if (rc < 0)
		return rc;
	if (datasize_plan(w, (uint64_t)s->nr_ranks, &a->plan, &why) < 0)
		warn_once(s, cli_words("datagen", &why));
	else if (a->o.mode == DATAGEN_WRITE &&
		 datasize_too_small(w, &cluster, words, sizeof(words)))
		warn_once(s, words);
	if (s->rank > 0 || ((cli_talk.quiet || a->o.mode == DATAGEN_VERIFY) && !a->dry_run))
		return 0;
	nr = a->plan.nr_files + a->plan.nr_files_eval;
	cli_note("datagen", "%s file%s, %s; %s step%s per epoch on %d accelerator%s",
		 count_in_words(nr).text, plural(nr),
		 size_in_words(a->plan.nr_bytes + a->plan.nr_bytes_eval).text,
		 count_in_words(a->plan.steps).text, plural(a->plan.steps), s->nr_ranks,
		 plural((uint64_t)s->nr_ranks));
	return 0;
}

/* Rank 0, once all files exist: the leaf that the submission checker requires. */
static int datagen_write_leaf(const struct cmd_datagen_arguments *a, const struct workload *w,
			      const struct screen *s, const struct datagen_result *r,
			      struct shoal_err *err)
{
	struct layout tree = cli_layout_of(&a->layout, a->results);
	char leaf[RUN_PATH_MAX], text[200];
	struct layout_job job = { .command = "datagen",
				  .workload = w,
				  .overrides = a->overrides,
				  .nr_overrides = a->nr_overrides,
				  .data = a->o.data,
				  .objects = store_uri_traits(a->o.data).objects,
				  .nr_processes = (uint64_t)s->nr_ranks,
				  .text = text };
	int rc = layout_leaf(&tree, w->model, "datagen", leaf, err);

	snprintf(text, sizeof(text), "%" PRIu64 " files, of which %" PRIu64 " were written\n",
		 r->nr_files, r->counts.nr_written);
	return rc < 0 ? rc : layout_write(&tree, leaf, &job, err);
}

struct datagen_record {
	const struct cmd_datagen_arguments *a;
	const struct workload *w;
	const struct datagen_result *r;
	int nr_ranks;
};

static void cmd_datagen_put_begin(struct json *j, const void *self)
{
	const struct datagen_record *x = self;

	json_string(j, "workload", x->w->name);
	json_string(j, "data", x->a->o.data);
	json_string(j, "format", workload_format_name(x->w->dataset.format));
	json_u64(j, "files", x->a->plan.nr_files + x->a->plan.nr_files_eval);
	json_u64(j, "bytes_train", x->a->plan.nr_bytes);
	json_u64(j, "bytes_valid", x->a->plan.nr_bytes_eval);
}

/* Collective: what is looked at while it writes, and afterwards. */
static int cmd_datagen_record(struct cmd_datagen_arguments *a, struct comm *comm,
			      const struct workload *w, const struct screen *s,
			      struct shoal_err *err)
{
	struct datagen_record x = { .a = a, .w = w };
	struct cli_record_facts facts = { "datagen", a->o.data, cmd_datagen_put_begin, &x };
	struct live_head head = { .command = "datagen",
				  .name = a->o.data,
				  .nr_ranks = 1,
				  .au_bar = (double)NAN,
				  .total = (uint64_t)s->nr_ranks };
	int rc = cli_listen_open(&a->listen, "datagen", comm, err);

	a->record.resumes = a->resume;
	if (rc == 0)
		rc = cli_record_begin(&a->record, &facts, comm, false, &a->listen, err);
	if (rc < 0)
		return rc;
	head.begin = a->record.begin;
	cli_listen_begin(&a->listen, "datagen", &head);
	series_epoch(a->record.series, clock_now(), 1, false, 0, NULL, NULL);
	return 0;
}

static void cmd_datagen_put_record(struct json *j, const void *self)
{
	const struct datagen_record *x = self;

	cmd_datagen_put_json(j, x->a, x->w, x->r, x->nr_ranks);
}

/* Rank 0: what is left for a report. */
static int cmd_datagen_keep(struct cmd_datagen_arguments *a, const struct workload *w,
			    const struct screen *s, const struct datagen_result *r,
			    struct shoal_err *err)
{
	struct datagen_record x = { a, w, r, s->nr_ranks };
	struct cli_record_facts facts = { "datagen", a->o.data, cmd_datagen_put_record, &x };
	int rc;

	if (a->layout.kind != LAYOUT_PLAIN)
		return datagen_write_leaf(a, w, s, r, err);
	rc = series_close(a->record.series, err);
	a->record.series = NULL;
	if (rc == 0)
		rc = cli_record_write(&a->record, &facts, err);
	return rc;
}

static void describe_datagen(FILE *f, const void *self)
{
	const struct datagen_record *d = self;
	const struct cmd_datagen_arguments *a = d->a;

	fprintf(f,
		"dry-run: %d\nlisten: %s\nresults: %s\nresults-layout: %d\ndata: %s\nmode: %d\n"
		"check-all: %d\nforce: %d\ncatalog: %s\nno-sync: %d\n",
		a->dry_run, cli_or_none(a->listen.address), cli_or_none(a->results),
		(int)a->layout.kind, a->o.data, (int)a->o.mode, a->o.check_all, a->o.force,
		a->o.catalog ? a->o.catalog : "beside the data", a->o.no_sync);
	fputs(d->w->yaml, f);
}

static int cmd_datagen_run(struct cmd_datagen_arguments *a, struct comm *comm, struct screen *s,
			   struct workload **ret_w, struct datagen_result *r, struct shoal_err *err)
{
	int rc =
		workload_load(a->workload, a->overrides, a->nr_overrides, warn_once, s, ret_w, err);

	s->misused = cli_is_wrong_workload(rc, err, a->workload, a->nr_overrides);
	if (rc < 0) {
		comm_fail(comm, err);
		return rc;
	}
	note_ignored(*ret_w, s);
	rc = cli_compare_ranks(comm, describe_datagen,
			       &(struct datagen_record){ .a = a, .w = *ret_w }, err);
	if (rc < 0)
		return rc;
	rc = show_plan(a, comm, *ret_w, s, err);
	if (rc < 0) {
		comm_fail(comm, err);
		return rc;
	}
	a->o.config = &a->where.config;
	a->o.dry_run = a->dry_run;
	a->o.stop = &cli_stop;
	a->o.progress = cmd_datagen_show_progress;
	a->o.warn = cmd_datagen_warn;
	a->o.self = s;
	rc = a->dry_run ? 0 : cmd_datagen_record(a, comm, *ret_w, s, err);
	if (rc == 0)
		rc = datagen_execute(comm, *ret_w, &a->o, r, err);
	if (rc == 0 && a->results && s->rank == 0 && !a->dry_run) {
		rc = cmd_datagen_keep(a, *ret_w, s, r, err);
		if (rc < 0)
			comm_fail(comm, err);
	}
	return rc;
}

static int cmd_datagen_start(void *arguments, int nr, char **words)
{
	struct cmd_datagen_arguments *a = arguments;
	struct screen s = { .a = a };
	struct datagen_result r = { 0 };
	struct workload *w = NULL;
	struct shoal_err err = { "" };
	struct comm *comm = NULL;
	int rc, status = take_words(nr, words, a);

	if (status != CLI_OK)
		return status;
	if (cli_join(&a->where, &comm, &err) < 0)
		return cli_fail("datagen", "%s", cli_words("datagen", &err));
	s.rank = comm_place(comm)->rank;
	s.nr_ranks = comm_place(comm)->size;
	cli_progress_start_view(&s.line, "datagen", s.rank == 0, &a->listen);
	rc = cmd_datagen_run(a, comm, &s, &w, &r, &err);
	cli_listen_end(&a->listen);
	(void)cli_record_end(&a->record, "datagen");
	status = cmd_datagen_report(a, &s, w, &r, rc, &err);
	workload_free(w);
	cli_print_lost_peer("datagen", comm, rc, &err);
	status = cli_part("datagen", comm, status);
	if (rc == -ECANCELED)
		cli_die_of_signal();
	return status;
}

#define AT(field) offsetof(struct cmd_datagen_arguments, field)

static const struct cli_option options[] = {
	CLI_TEXT(0, "data", "PLACE", AT(o.data),
		 "write files to this directory, made if necessary, or URI"),
	CLI_FLAG(0, "resume", AT(resume),
		 "write only files that are missing or have another size, and check the content of "
		 "one file in 64; with --verify of all of them"),
	CLI_FLAG(0, "verify", AT(verify),
		 "write nothing: read all files, and compare them with what they should be"),
	CLI_FLAG(0, "force", AT(o.force),
		 "write even if there are files of this or another dataset, or too little space"),
	CLI_TEXT(
		0, "catalog", "FILE", AT(o.catalog),
		"write the catalog to FILE (default PLACE/" DATAGEN_CATALOG_NAME
		"), a file or an object "
		"s3://bucket/name. If there are valid files, catalogs of train and valid files alone "
		"are written beside it, with -train and -valid in their names"),
	CLI_FLAG(0, "no-catalog", AT(no_catalog), "write no catalog"),
	CLI_FLAG(0, "no-sync", AT(o.no_sync),
		 "do not wait for the disk at the end: a power cut may cost files"),
	CLI_COUNT("threads", "THREADS", AT(o.nr_threads), 1, 1024,
		  "files written at once per rank (default: reader.write_threads, or a number that "
		  "suits the machine)"),
	CLI_FLAG(0, "dry-run", AT(dry_run),
		 "write nothing: print how many files and bytes there would be"),
	CLI_TEXT(
		0, "results", "DIR", AT(results),
		"also write the figures and a time series to this directory, for 'shoal report'; with "
		"--results-layout mlpstorage add a record of this to the tree of results at DIR"),
	CLI_FLAG(0, "json", AT(json), "print the result as JSON"),
	CLI_PEER_TIMEOUT(AT(where.peer_timeout), AT(where.peer_timeout_given)),
	CLI_END,
};

const struct cli_command cmd_datagen = {
	.name = "datagen",
	.summary = "write the files of a workload, or verify them",
	.usage = "WORKLOAD|FILE.yaml --data PLACE [KEY=VALUE]... [OPTION]...",
	.about =
		"Write the dataset of a workload: train and valid files of its format, with DLIO's "
		"names and the workload's sizes, and content that neither compresses nor "
		"deduplicates. A file appears under its name when it is complete. At the end the "
		"catalog is sealed. Any number of threads, and of ranks under mpirun, writes the same "
		"files. KEY=VALUE changes the workload: dataset.num_files_train=5000.",
	.sections = { { .options = options },
		      CLI_LAYOUT_SECTION(AT(layout)),
		      CLI_LISTEN_SECTION(AT(listen)),
		      CLI_DIRECTORY_SECTION(AT(where.config)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.give = "give a workload: 'shoal workloads' lists them",
	.shares_work = true,
	.size = sizeof(struct cmd_datagen_arguments),
	.run = cmd_datagen_start,
};
