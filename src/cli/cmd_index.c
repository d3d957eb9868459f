/* shoal index: make a catalog of a directory, a list of names, or a pattern. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/publish.h"
#include "base/text.h"
#include "cli/compare_ranks.h"
#include "cli/hints.h"
#include "cli/index_options.h"
#include "cli/progress.h"
#include "cli/select_options.h"
#include "comm/comm.h"
#include "index/tree.h"
#include "open/output.h"
#include "store/uri.h"

/* What the library reports meanwhile, from several threads. */
struct telling {
	pthread_mutex_t lock;
	struct cli_progress progress;
	const struct comm_place *place;
	unsigned nr_warned;
	struct series *series; /* of rank 0; NULL: none is kept */
	uint64_t nr_old;       /* names of the catalog to update, a fair guess of the total; or 0 */
};

/* More warnings would scroll away important ones. All are counted at the end. */
#define WARNINGS 10u

/* A rank that waits for another for longer than this reports it: merging a range may take
 * minutes. */
#define STALL_SECONDS 120.0

static void cmd_index_show_progress(void *self, const struct shoal_index_progress *now)
{
	struct telling *t = self;

	pthread_mutex_lock(&t->lock);
	if (!now->sealing)
		series_listed(t->series, clock_now(), now->nr_names, 0);
	series_count(t->series, clock_now(), 0, 0); /* its processors and memory */
	cli_progress_show_index(&t->progress, now, t->nr_old);
	pthread_mutex_unlock(&t->lock);
}

static void cmd_index_show_warning(void *self, const char *words)
{
	struct telling *t = self;

	pthread_mutex_lock(&t->lock);
	cli_progress_clear(&t->progress);
	if (t->nr_warned++ < WARNINGS)
		cli_fail("index", "%s", words);
	else if (t->nr_warned == WARNINGS + 1)
		cli_fail("index", "further warnings suppressed; they are counted at the end");
	pthread_mutex_unlock(&t->lock);
}

static int open_list(const char *path, const char *output)
{
	struct stat st, out;
	int fd = cli_open_list("index", path);

	if (fd < 0 || fd == STDIN_FILENO)
		return fd;
	if (fstat(fd, &st) < 0)
		cli_fail("index", "'%s': cannot stat it: %s", path, strerror(errno));
	else if (stat(output, &out) == 0 && out.st_ino == st.st_ino && out.st_dev == st.st_dev)
		cli_fail("index", "'%s' is both the list and the catalog to write", path);
	else
		return fd;
	close(fd);
	return -1;
}

/* A list and a pattern are indexed by one rank. */
static int run_alone(const struct index_arguments *a, struct shoal_index_result *result,
		     struct shoal_err *err)
{
	static const enum shoal_import imports[] = { [FORMAT_FIND] = SHOAL_IMPORT_FIND,
						     [FORMAT_GPFS] = SHOAL_IMPORT_GPFS,
						     [FORMAT_INVENTORY] = SHOAL_IMPORT_INVENTORY };
	int fd, rc;

	if (a->kind == INDEX_PATTERN)
		return shoal_index_pattern(&a->pattern, &a->options, result, err);
	fd = open_list(a->source, a->options.output);
	if (fd < 0)
		return -ENODATA; /* said already */
	if (a->format == FORMAT_LINES)
		rc = shoal_index_list(fd, a->null ? '\0' : '\n', a->names_only, &a->options, result,
				      err);
	else
		rc = shoal_index_import(
			fd,
			&(struct shoal_import_options){ .format = imports[a->format],
							.null = a->null,
							.columns = a->columns },
			&a->options, result, err);
	if (fd != STDIN_FILENO)
		close(fd);
	return rc;
}

/* ---- --dry-run ---- */

/* The catalog is made in a directory of its own, and removed. */
struct index_trial {
	char dir[PATH_MAX], path[PATH_MAX + 8];
	struct output out; /* that would be written, and what it would replace */
};

static const char *index_trial_target(const struct index_trial *t)
{
	return t->out.object ? t->out.object : t->out.path;
}

static int index_trial_begin(struct index_arguments *a, struct index_trial *t)
{
	struct shoal_err err = { "" };
	int rc;

	if (cli_check_directory("index", a->options.output) != CLI_OK)
		return CLI_FAILED;
	rc = output_open(&t->out, a->options.output, &err);
	if (rc == 0)
		rc = output_protect(&t->out, a->options.config, &cli_stop, &err);
	if (rc < 0 && !a->force)
		return cli_fail("index", "%s", cli_words("index", &err));
	snprintf(t->dir, sizeof(t->dir), "%s/shoal-dry-run-XXXXXX",
		 path_tmp_dir(a->options.tmp_dir));
	if (!mkdtemp(t->dir))
		return cli_fail("index",
				"cannot create a temporary directory in '%s': %s; choose another "
				"place with --tmp-dir",
				path_tmp_dir(a->options.tmp_dir), strerror(errno));
	snprintf(t->path, sizeof(t->path), "%s/c", t->dir);
	a->options.output = t->path;
	a->options.careful = false;
	return CLI_OK;
}

/* Returns the exit status that the command would have had. */
static int index_trial_end(const struct index_arguments *a, const struct index_trial *t,
			   const struct shoal_index_result *r, int status)
{
	struct stat st = { 0 };
	struct shoal_err err = { "" };
	bool made = stat(t->path, &st) == 0;
	char replaced[64] = "";

	unlink(t->path);
	rmdir(t->dir);
	if (!made || status == CLI_USAGE)
		return status;
	if (t->out.nr_old > 0)
		snprintf(replaced, sizeof(replaced), ", instead of one of %s names",
			 count_in_words(t->out.nr_old).text);
	cli_say("index", "a catalog of %s name%s, of %s, would be written to '%s'%s",
		count_in_words(r->nr_names).text, plural(r->nr_names),
		size_in_words((uint64_t)st.st_size).text, index_trial_target(t), replaced);
	if (!a->force && (r->nr_names == 0 || output_permit(&t->out, r->nr_names, &err) < 0))
		return cli_fail("index", "it would be refused, because it has %s, without --force",
				r->nr_names == 0 ? "no names" : "less than half of the names");
	return status;
}

/* A directory here may not exist on other nodes. */
static int cmd_index_agree(const struct index_arguments *a, struct comm *comm,
			   struct shoal_err *err)
{
	enum index_source kind = a->kind;
	int rc = comm_broadcast(comm, 0, &kind, sizeof(kind), err);

	if (rc == 0 && kind != a->kind) {
		rc = err_set(err, -ENOTDIR, "it is %s on rank 0, but not on this node",
			     kind == INDEX_TREE ? "a directory" : "a list");
		comm_fail(comm, err);
	}
	return rc;
}

static void describe_index(FILE *f, const void *self)
{
	const struct index_arguments *a = self;
	const struct shoal_tree_options *t = &a->tree;

	fprintf(f,
		"dry-run: %d\nlisten: %s\nresults: %s\nsource: %s\noutput: %s\nroot: %s\n"
		"samples-per-file: %" PRIu64 "\nsamples: %s\nforce: %d\n",
		a->dry_run, cli_or_none(a->listen.address), cli_or_none(a->record.results),
		a->source ? a->source : "a pattern", a->dry_run ? "none" : a->options.output,
		cli_or_none(a->options.root), a->options.samples_per_file,
		cli_or_none(a->options.samples), !a->options.careful);
	fprintf(f,
		"no-sizes: %d\nfollow: %d\none-file-system: %d\nkeep-going: %d\netags: %d\n"
		"resume: %d\nupdate: %s\n",
		t->no_sizes, t->follow, t->one_fs, t->keep_going, t->etags, t->resume,
		cli_or_none(t->update));
	for (size_t i = 0; i < t->nr_include; i++)
		fprintf(f, "include: %s\n", t->include[i]);
	for (size_t i = 0; i < t->nr_exclude; i++)
		fprintf(f, "exclude: %s\n", t->exclude[i]);
}

static void cmd_index_show_stall(void *self, const char *words)
{
	(void)self;
	cli_fail("index", "%s", words);
}

static void cmd_index_put_begin(struct json *j, const void *self)
{
	const struct index_arguments *a = self;

	json_string(j, "source", a->source ? a->source : a->pattern.format);
	json_string(j, "catalog", a->options.output);
}

/* A typing error must not use up the folder of the results, which no other command may write to. */
static int cmd_index_check_source(const struct index_arguments *a, struct comm *comm,
				  struct shoal_err *err)
{
	const char *local = a->source ? store_local_path(a->source) : NULL;
	int rc;

	if (!a->record.results || comm_place(comm)->rank > 0 || !local || strcmp(local, "-") == 0 ||
	    access(local, F_OK) == 0)
		return 0;
	rc = err_errno();
	rc = err_set(err, rc, "cannot open it: %s%s", strerror(-rc), cli_guess_uri(local).text);
	comm_fail(comm, err);
	return rc;
}

/* Collective: what is looked at while it lists, and afterwards. */
static int cmd_index_record(struct index_arguments *a, struct comm *comm, struct shoal_err *err)
{
	const struct comm_place *place = comm_place(comm);
	struct telling *t = a->options.self;
	struct live_head head = { .command = "index",
				  .name = a->source ? a->source : a->pattern.format,
				  .nr_ranks = 1,
				  .au_bar = (double)NAN,
				  .total = (uint64_t)place->size };
	struct cli_record_facts facts = { "index", a->source, cmd_index_put_begin, a };
	int rc = cli_listen_open(&a->listen, "index", comm, err);

	a->record.resumes = a->tree.resume;
	if (rc == 0)
		rc = cli_record_begin(&a->record, &facts, comm, false, &a->listen, err);
	if (rc < 0)
		return rc;
	head.begin = a->record.begin;
	cli_listen_begin(&a->listen, "index", &head);
	t->series = a->record.series;
	series_epoch(t->series, clock_now(), 1, false, 0, NULL, NULL);
	return 0;
}

static int cmd_index_run(struct index_arguments *a, struct comm *comm,
			 struct shoal_index_result *result, struct shoal_err *err)
{
	int rc;

	comm_set_stall(comm, STALL_SECONDS, cmd_index_show_stall, NULL);
	rc = cli_compare_ranks(comm, describe_index, a, err);
	if (rc == 0 && a->dry_run && comm_place(comm)->size > 1)
		return err_set(err, -EINVAL, "--dry-run is for one process, without mpirun");
	if (rc == 0)
		rc = cmd_index_agree(a, comm, err);
	if (rc == 0)
		rc = cmd_index_check_source(a, comm, err);
	if (rc == 0)
		rc = cmd_index_record(a, comm, err);
	if (rc < 0)
		return rc;

	if (a->kind == INDEX_TREE && !cli_talk.quiet && comm_place(comm)->rank == 0 &&
	    index_tree_exceeds_memory(comm_place(comm), &a->options))
		cli_fail("index", "each rank needs 48M, which together is more than the --memory "
				  "of a node: using 48M per rank");
	if (comm_place(comm)->rank == 0 &&
	    cli_check_directory("index", a->options.output) != CLI_OK) {
		comm_fail(comm, err); /* it was printed */
		return -ENODATA;
	}
	if (a->kind == INDEX_TREE)
		return index_tree(comm, a->source, &a->tree, &a->options, result, err);
	if (rc == 0 && comm_place(comm)->rank == 0)
		rc = run_alone(a, result, err);
	if (rc < 0) {
		comm_fail(comm, err);
		return rc;
	}
	if (comm_place(comm)->rank == 0) /* the catalog is there */
		comm_defer_stop(comm, true);
	return comm_barrier(comm, err);
}

/* ---- The result ---- */

/* The names of the counts: in JSON, and in a sentence, singular and plural. */
#define COUNT(field) offsetof(struct shoal_index_result, field)
static const struct {
	const char *key, *one, *more;
	size_t off;
} counts[] = {
	{ "resumed", "of them listed before it was interrupted",
	  "of them listed before it was interrupted", COUNT(nr_resumed) },
	{ "unchanged", "directory not read because it had not changed",
	  "directories not read because they had not changed", COUNT(nr_unchanged) },
	{ "reused", "name in them taken over", "names in them taken over", COUNT(nr_reused) },
	{ "repeated", "repeated dropped", "repeated dropped", COUNT(nr_repeated) },
	{ "blank", "blank line", "blank lines", COUNT(nr_blank) },
	{ "unreadable", "unreadable left out", "unreadable left out", COUNT(nr_unreadable) },
	{ "vanished", "vanished while listing", "vanished while listing", COUNT(nr_vanished) },
	{ "links", "symbolic link left out", "symbolic links left out", COUNT(nr_links) },
	{ "loops", "link to a directory above left out", "links to a directory above left out",
	  COUNT(nr_loops) },
	{ "special", "socket, pipe or device left out", "sockets, pipes or devices left out",
	  COUNT(nr_special) },
	{ "other_file_systems", "other file system left out", "other file systems left out",
	  COUNT(nr_other_fs) },
	{ "filtered", "left out by patterns", "left out by patterns", COUNT(nr_filtered) },
	{ "samples", "sample in it", "samples in them", COUNT(nr_samples) },
	{ "uncut", "file that cannot be cut, taken as one sample",
	  "files that cannot be cut, each taken as one sample", COUNT(nr_uncut) },
	{ "not_opened", "file not opened again, because it had not changed",
	  "files not opened again, because they had not changed", COUNT(nr_known) },
	{ "odd_etags", "without an ETag in the catalog, because its ETag is not an MD5",
	  "without an ETag in the catalog, because their ETags are not MD5", COUNT(nr_odd_etags) },
};
#undef COUNT

static uint64_t count_of(const struct shoal_index_result *r, size_t i)
{
	uint64_t v;

	memcpy(&v, (const char *)r + counts[i].off, sizeof(v));
	return v;
}

/* The share of time in which connections had a request, in percent. */
static double percent_busy(const struct shoal_index_result *r)
{
	return r->allowed_us ? 100.0 * (double)r->busy_us / (double)r->allowed_us : 0;
}

/*
 * Whether each connection may have had a request: for a listing that is too short the share means
 * nothing. allowed_us is connections times the time of listing, which is less than @seconds.
 */
static bool is_share_telling(const struct shoal_index_result *r, double seconds)
{
	return (double)r->nr_requests * seconds * 1e6 >= (double)r->allowed_us;
}

static void print_requests(FILE *out, const struct shoal_index_result *r, double seconds)
{
	fprintf(out, ", %" PRIu64 " request%s", r->nr_requests, plural(r->nr_requests));
	if (is_share_telling(r, seconds))
		fprintf(out, " that used the connections for %.0f %% of the time", percent_busy(r));
	if (r->nr_retries)
		fprintf(out, ", %" PRIu64 " of them retried", r->nr_retries);
	if (r->nr_throttled)
		fprintf(out, ", %" PRIu64 " throttled response%s", r->nr_throttled,
			plural(r->nr_throttled));
}

/* Most often the user meant another source or pattern. */
static void say_empty(const struct index_arguments *a)
{
	if (a->kind == INDEX_TREE)
		cli_fail("index", "no files under '%s': the catalog is empty", a->source);
	else
		cli_fail("index", "'%s' has no names: the catalog is empty", a->source);
}

static void cmd_index_put_json(struct json *j, const struct shoal_index_result *r, double seconds)
{
	json_u64(j, "files", r->nr_names);
	json_u64(j, "directories", r->nr_directories);
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		json_u64(j, counts[i].key, count_of(r, i));
	json_u64(j, "seal_threads", r->nr_sealers);
	if (r->nr_requests) {
		json_open_object(j, "requests");
		json_u64(j, "sent", r->nr_requests);
		json_u64(j, "retries", r->nr_retries);
		json_u64(j, "throttled", r->nr_throttled);
		json_real(j, "percent_in_flight", percent_busy(r), 4);
		json_close_object(j);
	}
	json_real(j, "seconds", seconds, 6);
	json_real(j, "names_per_second", seconds > 0 ? (double)r->nr_names / seconds : (double)NAN,
		  6);
}

/* The catalog that was made; NULL if it is an object. */
static struct shoal_catalog *cmd_index_made(const struct index_arguments *a)
{
	const char *path = store_local_path(a->options.output);
	struct shoal_catalog *cat = NULL;

	return path && shoal_catalog_open(path, &cat, NULL) == 0 ? cat : NULL;
}

/* @trial: of a dry run, or NULL. */
static void cmd_index_print_json(const struct index_arguments *a, const struct shoal_catalog *cat,
				 const struct index_trial *trial,
				 const struct shoal_index_result *r, double seconds)
{
	struct shoal_catalog_info info;
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_string(&j, "catalog", trial ? index_trial_target(trial) : a->options.output);
	json_bool(&j, "written", !trial);
	if (cat) {
		shoal_catalog_info(cat, &info);
		json_string(&j, "digest", info.digest);
		json_u64(&j, "catalog_bytes", info.file_bytes);
		if (info.nr_bytes == SHOAL_SIZE_UNKNOWN)
			json_null(&j, "bytes");
		else
			json_u64(&j, "bytes", info.nr_bytes);
	}
	cmd_index_put_json(&j, r, seconds);
	json_close_object(&j);
}

struct cmd_index_facts {
	const struct index_arguments *a;
	const struct shoal_index_result *r;
	double seconds;
};

static void cmd_index_put_record(struct json *j, const void *self)
{
	const struct cmd_index_facts *x = self;

	cmd_index_put_begin(j, x->a);
	cmd_index_put_json(j, x->r, x->seconds);
}

/* What is left for a report. CLI_OK, or CLI_FAILED after a message. */
static int cmd_index_keep(struct index_arguments *a, const struct comm_place *place,
			  const struct shoal_index_result *r, double seconds)
{
	struct cmd_index_facts x = { a, r, seconds };
	struct cli_record_facts facts = { "index", a->source, cmd_index_put_record, &x };
	struct shoal_err err = { "" };
	int status = cli_record_end(&a->record, "index");

	if (place->rank == 0 && cli_record_write(&a->record, &facts, &err) < 0)
		status = cli_fail("index", "%s", cli_words("index", &err));
	return status;
}

/* Names that are looked for. */
#define LOOKED_FOR 16u

/*
 * Any text makes a list of names. If its root is here, and has none of some of them, it was
 * probably not meant as one.
 */
static void warn_of_prose(const struct index_arguments *a, const struct shoal_catalog *cat)
{
	char path[PATH_MAX + SHOAL_NAME_MAX], name[SHOAL_NAME_MAX + 1] = "";
	bool piped = strcmp(a->source, "-") == 0;
	struct shoal_catalog_info info;
	const char *root;

	shoal_catalog_info(cat, &info);
	root = store_local_path(info.root);
	if (!root || access(root, F_OK) < 0 || info.nr_files == 0)
		return;
	for (uint64_t i = 0; i < LOOKED_FOR; i++) {
		if (shoal_catalog_name(cat, info.nr_files * i / LOOKED_FOR, name) < 0 ||
		    path_join(root, name, path, sizeof(path), NULL) < 0 || access(path, F_OK) == 0)
			return;
	}
	cli_warn("index",
		 "'%s' has none of the names that were looked for, such as '%s': is %s%s%s a "
		 "list of names, and is that their root (--root)?",
		 root, name, piped ? "" : "'", piped ? "standard input" : a->source,
		 piped ? "" : "'");
}

static void print_counts(const struct shoal_index_result *r, double seconds)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	fprintf(out, "%s name%s in %s", count_in_words(r->nr_names).text, plural(r->nr_names),
		time_in_words(seconds).text);
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		if (count_of(r, i))
			fprintf(out, ", %s %s", count_in_words(count_of(r, i)).text,
				count_of(r, i) == 1 ? counts[i].one : counts[i].more);
	if (r->nr_requests)
		print_requests(out, r, seconds);
	if (fclose(out) == 0 && text)
		cli_say("index", "%s", text);
	free(text);
}

static void print_result(const struct index_arguments *a, const struct index_trial *trial,
			 const struct shoal_index_result *r, double seconds)
{
	bool talks = !cli_talk.quiet, listed = a->kind == INDEX_LIST && talks;
	struct shoal_catalog *cat = a->json || listed ? cmd_index_made(a) : NULL;

	if (a->json)
		cmd_index_print_json(a, cat, trial, r, seconds);
	if (talks && r->nr_names == 0)
		say_empty(a);
	if (talks)
		print_counts(r, seconds);
	if (listed && cat)
		warn_of_prose(a, cat);
	shoal_catalog_close(cat);
}

/* Printed by the rank that failed; a signal reaches all ranks, and rank 0 prints for them. A
 * killed listing leaves its file, unlocked. */
static int cmd_index_print_failure(const struct index_arguments *a, const struct comm_place *place,
				   int rc, struct shoal_err *err)
{
	char rank[32] = "";

	/* On another node a lock may not be visible. */
	if (rc == -ECANCELED && place->rank == 1 && place->node_leader == 0 &&
	    publish_sweep(a->options.output))
		cli_fail("index", "rank 0 has died: %s",
			 a->tree.resume ? "repeat the command to continue" : "nothing was written");
	else if (rc == -ECANCELED && place->rank == 0 && a->tree.resume)
		cli_fail("index", "%s", cli_words("index", err));
	else if (rc == -ECANCELED && place->rank == 0)
		cli_fail("index", "interrupted%s: nothing was written",
			 place->size > 1 ? " (by a signal, or because a rank died)" : "");
	if (rc == -ECANCELED || rc == -EREMOTEIO)
		return CLI_FAILED;
	if (rc == -EINVAL && a->kind == INDEX_PATTERN)
		return cli_usage("index", "%s", cli_words("index", err));
	if (place->size > 1)
		snprintf(rank, sizeof(rank), "rank %d: ", place->rank);
	if (*err->msg && a->source && rc != -EEXIST && rc != -EISDIR) /* these name the output */
		cli_fail("index", "%s'%s': %s", rank, a->source, cli_words("index", err));
	else if (*err->msg)
		cli_fail("index", "%s%s", rank, cli_words("index", err));
	return CLI_FAILED;
}

/* Rank 0. Listings find out by the ending of its name that a catalog is not a file of the dataset.
 */
static void index_warn_of_name(const struct index_arguments *a)
{
	const char *data = a->kind == INDEX_TREE ? store_local_path(a->source) : NULL;
	const char *path = store_local_path(a->options.output);

	if (data && path && !path_has_end(path, ".cat") && !path_has_end(path, ".shoal") &&
	    path_is_inside(path, data))
		cli_warn("index",
			 "the catalog lies inside the data, and its name does not end in .cat or "
			 ".shoal: other listings will take it for a file of the dataset");
}

int cmd_index_start(void *arguments, int nr, char **words)
{
	struct index_arguments *a = arguments;
	struct shoal_index_result result = { 0 };
	struct shoal_err err = { "" };
	struct comm *comm = NULL;
	struct telling telling = { .lock = PTHREAD_MUTEX_INITIALIZER };
	static struct index_trial trial;
	int rc, status = index_arguments_check(a, nr, words);
	bool alone;

	if (status == CLI_OK && a->dry_run)
		status = index_trial_begin(a, &trial);
	if (status != CLI_OK)
		return status;
	/* A process that lists a shard has no part in what others do. */
	if (a->tree.nr_shards)
		cli_stay_alone();
	if ((a->tree.nr_shards ? comm_self(&comm, &err) : cli_join(&a->where, &comm, &err)) < 0) {
		if (a->dry_run)
			rmdir(trial.dir);
		return cli_fail("index", "%s", cli_words("index", &err));
	}
	cli_catch_signals();
	telling.place = comm_place(comm);
	telling.nr_old =
		a->tree.update ? open_nr_names(a->tree.update, a->options.config, &cli_stop) : 0;
	cli_progress_start_view(&telling.progress, "index", telling.place->rank == 0, &a->listen);
	a->options.progress = cmd_index_show_progress;
	a->options.warn = cmd_index_show_warning;
	a->options.self = &telling;
	alone = telling.place->size == 1;
	rc = cmd_index_run(a, comm, &result, &err);
	cli_progress_clear(&telling.progress);
	cli_listen_end(&a->listen);
	if (rc == 0)
		status = cmd_index_keep(a, telling.place, &result,
					clock_seconds() - telling.progress.start);
	(void)cli_record_end(&a->record, "index"); /* after a failure */
	if (rc < 0)
		status = cmd_index_print_failure(a, telling.place, rc, &err);
	else if (telling.place->rank == 0 && !a->dry_run)
		index_warn_of_name(a);
	if (rc == 0 && telling.place->rank == 0)
		print_result(a, a->dry_run ? &trial : NULL, &result,
			     clock_seconds() - telling.progress.start);
	if (a->dry_run)
		status = index_trial_end(a, &trial, &result, status);
	if (rc == 0 && result.nr_unreadable > 0) /* --keep-going: something was left out */
		status = CLI_FAILED;
	status = cli_part("index", comm, rc == -ECANCELED ? CLI_INTERRUPTED : status);
	if (rc == -ECANCELED && alone)
		cli_die_of_signal();
	/* Launchers distinguish a job that their own signal ended from a good one only by its
	 * status. */
	return status;
}
