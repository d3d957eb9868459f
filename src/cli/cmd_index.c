/* shoal index: a directory, a list of names, or a pattern, becomes a catalog. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/publish.h"
#include "base/text.h"
#include "cli/index_options.h"
#include "cli/progress.h"
#include "comm/comm.h"
#include "index/tree.h"
#include "load/fetch.h"

/* What the library tells on the way, from several threads. */
struct telling {
	pthread_mutex_t lock;
	struct cli_progress progress;
	const struct shoal_comm_place *place;
	bool quiet;
	unsigned nr_warned;
};

/* More would scroll away what matters. All are counted in the end. */
#define WARNINGS 10u

/* A rank that waits for another for longer than this says so: merging a range may take minutes. */
#define STALL_SECONDS 120.0

static void show_progress(void *self, const struct shoal_index_progress *now)
{
	struct telling *t = self;

	if (t->quiet || t->place->rank > 0)
		return;
	pthread_mutex_lock(&t->lock);
	cli_progress_show(&t->progress, now);
	pthread_mutex_unlock(&t->lock);
}

static void show_warning(void *self, const char *words)
{
	struct telling *t = self;

	pthread_mutex_lock(&t->lock);
	cli_progress_clear(&t->progress);
	if (t->nr_warned++ < WARNINGS)
		cli_fail("index", "%s", words);
	else if (t->nr_warned == WARNINGS + 1)
		cli_fail("index", "more of these are only counted");
	pthread_mutex_unlock(&t->lock);
}

static int open_list(const char *path, const char *output)
{
	struct stat st, out;
	int fd;

	if (strcmp(path, "-") == 0)
		return STDIN_FILENO;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		cli_fail("index", "'%s': cannot open it: %s", path, strerror(errno));
		return -1;
	}
	if (fstat(fd, &st) < 0)
		cli_fail("index", "'%s': cannot stat it: %s", path, strerror(errno));
	else if (stat(output, &out) == 0 && out.st_ino == st.st_ino && out.st_dev == st.st_dev)
		cli_fail("index", "'%s' is both the list and the catalog to write", path);
	else
		return fd;
	close(fd);
	return -1;
}

/* A list and a pattern are one rank's work. */
static int run_alone(const struct index_arguments *a, struct shoal_index_result *result,
		     struct shoal_err *err)
{
	int fd, rc;

	if (a->kind == INDEX_PATTERN)
		return shoal_index_pattern(&a->pattern, &a->options, result, err);
	fd = open_list(a->source, a->options.output);
	if (fd < 0)
		return -ENODATA; /* said already */
	rc = shoal_index_list(fd, a->null ? '\0' : '\n', a->names_only, &a->options, result, err);
	if (fd != STDIN_FILENO)
		close(fd);
	return rc;
}

/* What is a directory here may be nothing elsewhere. */
static int agree(const struct index_arguments *a, struct shoal_comm *comm, struct shoal_err *err)
{
	enum index_source kind = a->kind;
	int rc = shoal_comm_broadcast(comm, 0, &kind, sizeof(kind), err);

	if (rc == 0 && kind != a->kind) {
		rc = shoal_fail(err, -ENOTDIR, "it is %s on rank 0, but not on this node",
				kind == INDEX_TREE ? "a directory" : "a list");
		shoal_comm_fail(comm, err->msg);
	}
	return rc;
}

static void show_stall(void *self, const char *words)
{
	(void)self;
	cli_fail("index", "%s", words);
}

/* ---- A catalog in a bucket ---- */

/* It is made in a file first, and sent when it is sealed. */
struct staging {
	const char *uri; /* NULL: it is not for a bucket */
	char dir[2048];
	char path[2048 + 16]; /* in dir */
};

/* Where: the same file for all ranks, as rank 0 names it. */
static int stage(struct index_arguments *a, struct shoal_comm *comm, struct staging *st,
		 struct shoal_err *err)
{
	const char *tmp = getenv("TMPDIR");
	int rc = 0;

	if (!load_is_remote(a->options.output))
		return 0;
	tmp = a->options.tmp_dir ? a->options.tmp_dir : tmp && *tmp ? tmp : "/tmp";
	snprintf(st->dir, sizeof(st->dir), "%.2000s/shoal-index-XXXXXX", tmp);
	if (shoal_comm_place(comm)->rank == 0 && !mkdtemp(st->dir)) {
		rc = shoal_fail_errno(err, shoal_errno(), "cannot make a directory in '%.200s'",
				      tmp);
		shoal_comm_fail(comm, err->msg);
		return rc;
	}
	rc = shoal_comm_broadcast(comm, 0, st->dir, sizeof(st->dir), err);
	snprintf(st->path, sizeof(st->path), "%s/catalog", st->dir);
	st->uri = a->options.goes_to = a->options.output;
	a->options.output = st->path;
	return rc;
}

/* By rank 0, once the others are done with it. */
static int unstage(const struct index_arguments *a, const struct staging *st, int rc,
		   struct shoal_err *err)
{
	struct shoal_err why = { "" };

	if (!st->uri)
		return rc;
	if (rc == 0) {
		rc = load_put_file(st->path, st->uri, a->options.stop, &why);
		if (rc < 0)
			shoal_fail(err, rc, "cannot write the catalog to %.300s: %s", st->uri,
				   why.msg);
	}
	unlink(st->path);
	rmdir(st->dir);
	return rc;
}

static int run(const struct index_arguments *a, struct shoal_comm *comm,
	       struct shoal_index_result *result, struct shoal_err *err)
{
	int rc;

	shoal_comm_set_stop(comm, a->options.stop);
	shoal_comm_set_stall(comm, STALL_SECONDS, show_stall, NULL);
	rc = agree(a, comm, err);
	if (rc < 0)
		return rc;

	if (a->kind == INDEX_TREE && !a->quiet && shoal_comm_place(comm)->rank == 0 &&
	    index_tree_exceeds_memory(shoal_comm_place(comm), &a->options))
		cli_fail("index", "each rank needs 48M, which together is more than --memory "
				  "allows a node: going on with that");
	if (a->kind == INDEX_TREE)
		return index_tree(comm, a->source, &a->tree, &a->options, result, err);
	if (shoal_comm_place(comm)->rank == 0)
		rc = run_alone(a, result, err);
	if (rc < 0) {
		shoal_comm_fail(comm, err->msg);
		return rc;
	}
	if (shoal_comm_place(comm)->rank == 0) /* the catalog is there */
		shoal_comm_set_stop(comm, NULL);
	return shoal_comm_barrier(comm, err);
}

/* ---- The result ---- */

/* What the counts are called: in JSON, and in a sentence, where there is one and where more. */
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
	{ "odd_etags", "without an ETag in the catalog, as its is no MD5",
	  "without an ETag in the catalog, as theirs is no MD5", COUNT(nr_odd_etags) },
};
#undef COUNT

static uint64_t count_of(const struct shoal_index_result *r, size_t i)
{
	uint64_t v;

	memcpy(&v, (const char *)r + counts[i].off, sizeof(v));
	return v;
}

/* How much of the time that connections had for requests they had one, in percent. */
static double percent_busy(const struct shoal_index_result *r)
{
	return r->allowed_us ? 100.0 * (double)r->busy_us / (double)r->allowed_us : 0;
}

/*
 * Whether each connection may have had a request: the share of a listing too short for that says
 * nothing. allowed_us is connections times the time of listing, which is less than @seconds.
 */
static bool is_share_telling(const struct shoal_index_result *r, double seconds)
{
	return (double)r->nr_requests * seconds * 1e6 >= (double)r->allowed_us;
}

static void print_requests(const struct index_arguments *a, const struct shoal_index_result *r,
			   double seconds)
{
	if (a->json)
		printf(", \"requests\": {\"sent\": %" PRIu64 ", \"retries\": %" PRIu64
		       ", \"throttled\": %" PRIu64 ", \"percent_in_flight\": %.1f}",
		       r->nr_requests, r->nr_retries, r->nr_throttled, percent_busy(r));
	if (a->quiet)
		return;
	fprintf(stderr, ", %" PRIu64 " request%s", r->nr_requests, shoal_plural(r->nr_requests));
	if (is_share_telling(r, seconds))
		fprintf(stderr, " that filled the connections for %.0f %% of the time",
			percent_busy(r));
	if (r->nr_retries)
		fprintf(stderr, ", %" PRIu64 " of them sent again", r->nr_retries);
	if (r->nr_throttled)
		fprintf(stderr, ", %" PRIu64 " answer%s asking to slow down", r->nr_throttled,
			shoal_plural(r->nr_throttled));
}

/* Most often the source, or a pattern, is not what was meant. */
static void say_empty(const struct index_arguments *a)
{
	if (a->kind == INDEX_TREE)
		cli_fail("index", "nothing is listed under '%s': the catalog is empty", a->source);
	else
		cli_fail("index", "'%s' has no names: the catalog is empty", a->source);
}

static void print_result(const struct index_arguments *a, const struct shoal_index_result *r,
			 double seconds)
{
	if (a->json) {
		printf("{\"files\": %" PRIu64 ", \"directories\": %" PRIu64, r->nr_names,
		       r->nr_directories);
		for (size_t i = 0; i < SHOAL_ARRAY_LEN(counts); i++)
			printf(", \"%s\": %" PRIu64, counts[i].key, count_of(r, i));
	}
	if (r->nr_names == 0 && !a->quiet)
		say_empty(a);
	if (!a->quiet) {
		fprintf(stderr, "%" PRIu64 " name%s in %.2f s", r->nr_names,
			shoal_plural(r->nr_names), seconds);
		for (size_t i = 0; i < SHOAL_ARRAY_LEN(counts); i++)
			if (count_of(r, i))
				fprintf(stderr, ", %" PRIu64 " %s", count_of(r, i),
					count_of(r, i) == 1 ? counts[i].one : counts[i].more);
	}
	if (r->nr_requests)
		print_requests(a, r, seconds);
	if (!a->quiet)
		fputc('\n', stderr);
	if (a->json)
		printf(", \"seconds\": %.3f}\n", seconds);
}

/* Said by the rank that failed; a signal comes to all, and rank 0 speaks for them. Was it killed,
 * it has left its file, unlocked. */
static int say_failure(const struct index_arguments *a, const struct shoal_comm_place *place,
		       int rc, const struct shoal_err *err)
{
	/* The library does not know what its caller calls the options. */
	const char *hint = (rc == -ENOSPC || rc == -EDQUOT) && !a->tree.resume &&
					   strstr(err->msg, "temporary file")
				   ? ": make room, or have --tmp-dir say another place"
				   : "";
	char rank[32] = "";

	/* On another node a lock may not be seen. */
	if (rc == -ECANCELED && place->rank == 1 && place->node_leader == 0 &&
	    shoal_publish_sweep(a->options.output))
		cli_fail("index", "rank 0 has died: %s",
			 a->tree.resume ? "give the same command again to go on"
					: "nothing was written");
	else if (rc == -ECANCELED && place->rank == 0 && a->tree.resume)
		cli_fail("index", "%s", err->msg);
	else if (rc == -ECANCELED && place->rank == 0)
		cli_fail("index", "interrupted%s: nothing was written",
			 place->size > 1 ? " (by a signal, or because a rank died)" : "");
	if (rc == -ECANCELED || rc == -EREMOTEIO)
		return CLI_FAILED;
	if (rc == -EINVAL && a->kind == INDEX_PATTERN)
		return cli_usage("index", "%s", err->msg);
	if (place->size > 1)
		snprintf(rank, sizeof(rank), "rank %d: ", place->rank);
	if (*err->msg && a->source)
		cli_fail("index", "%s'%s': %s%s", rank, a->source, err->msg, hint);
	else if (*err->msg)
		cli_fail("index", "%s%s%s", rank, err->msg, hint);
	return CLI_FAILED;
}

int cmd_index(int argc, char **argv)
{
	struct shoal_index_result result = { 0 };
	struct shoal_err err = { "" };
	struct shoal_comm *comm = NULL;
	struct index_arguments a;
	struct telling telling = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct staging staging = { .uri = NULL };
	bool done, alone;
	int rc, status = index_arguments_parse(argc, argv, &a, &done);

	if (status != CLI_OK || done)
		return status;
	cli_catch_signals();
	/* Who lists a shard has no part in what others do. */
	if ((a.tree.nr_shards ? shoal_comm_self(&comm, &err) : shoal_comm_open(&comm, &err)) < 0)
		return cli_fail("index", "%s", err.msg);
	cli_progress_start(&telling.progress);
	telling.quiet = a.quiet;
	telling.place = shoal_comm_place(comm);
	a.options.progress = show_progress;
	a.options.warn = show_warning;
	a.options.self = &telling;
	alone = telling.place->size == 1;
	rc = stage(&a, comm, &staging, &err);
	if (rc == 0)
		rc = run(&a, comm, &result, &err);
	if (telling.place->rank == 0)
		rc = unstage(&a, &staging, rc, &err);
	cli_progress_clear(&telling.progress);
	if (rc < 0)
		status = say_failure(&a, telling.place, rc, &err);
	else if (telling.place->rank == 0)
		print_result(&a, &result, cli_now() - telling.progress.start);
	cli_part(comm);
	if (rc == -ECANCELED && alone)
		cli_die_of_signal();
	/* Launchers tell a job that was ended by their own signal from a good one by its status
	 * only. */
	return rc == -ECANCELED ? CLI_INTERRUPTED : status;
}
