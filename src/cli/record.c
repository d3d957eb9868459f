#include "cli/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/json_read.h"
#include "base/map.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/hints.h"
#include "report/begin.h"
#include "run/folder.h"
#include "run/node.h"

static int record_folder(const char *dir, struct shoal_err *err)
{
	int rc = path_make_dirs(dir, err);

	if (rc == 0 && access(dir, W_OK) < 0)
		rc = err_set_errno(err, err_errno(), "cannot write results to '%.500s'", dir);
	return rc;
}

/* ---- Of a command that is resumed ---- */

struct record_left {
	const char *command;
	bool same, interrupted;
};

static int record_take_left(void *self, const struct json_value *v)
{
	struct record_left *l = self;

	if (strcmp(v->path, "command") == 0)
		l->same = v->kind == JSON_STRING && strcmp(v->text, l->command) == 0;
	if (strcmp(v->path, "interrupted") == 0)
		l->interrupted = v->kind == JSON_TRUE;
	return 0;
}

/* -ENOENT: there is no such file. */
static int record_read_left(const char *dir, enum run_file file, struct record_left *ret)
{
	char path[RUN_PATH_MAX];
	struct map m = MAP_CLOSED;
	int rc = run_file_path(dir, file, path, NULL);

	if (rc == 0)
		rc = map_open(path, &m, NULL);
	if (rc == 0)
		rc = json_read((const char *)m.addr, m.len, record_take_left, ret, NULL);
	map_close(&m);
	return rc;
}

/* Whether the directory has no more than the same command left when it was interrupted. */
static bool record_is_unfinished(const char *dir, const char *command)
{
	struct record_left begin = { .command = command }, end = { .command = command };
	struct shoal_err err;
	int rc = run_folder_check_others(dir, command, &err);

	if (rc == 0)
		rc = record_read_left(dir, RUN_FILE_BEGIN, &begin);
	if (rc < 0 || !begin.same)
		return false;
	rc = record_read_left(dir, run_file_of(command), &end);
	return rc == -ENOENT || (rc == 0 && end.interrupted);
}

int cli_record_check(const struct cli_record *r, const char *command, struct shoal_err *err)
{
	struct stat st;

	if (!r->results)
		return 0;
	if (!*r->results)
		return err_set(err, -EINVAL, "--results of %s is empty", command);
	if (stat(r->results, &st) < 0)
		return 0; /* it is made */
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "'%.500s' is a file: results need a folder",
			       r->results);
	if (access(r->results, W_OK) < 0)
		return err_set_errno(err, err_errno(), "cannot write results to '%.500s'",
				     r->results);
	return r->resumes && record_is_unfinished(r->results, command)
		       ? 0
		       : run_folder_check_others(r->results, NULL, err);
}

static int record_series(struct cli_record *r, const struct comm *comm, uint64_t started, bool all,
			 struct shoal_err *err)
{
	const struct comm_place *place = comm_place(comm);
	struct series_head head = { .run = started,
				    .started = started,
				    .rank = (uint32_t)place->rank,
				    .nr_ranks = all ? (uint32_t)place->size : 1,
				    .nr_accelerators = 1 };
	char path[RUN_PATH_MAX] = "";
	int rc = r->results ? run_series_path(r->results, place->rank, path, err) : 0;

	if (rc == 0)
		rc = series_create(*path ? path : NULL, &head, &r->series, err);
	return rc;
}

struct record_begin {
	const struct cli_record_facts *facts;
	struct report_begin common;
};

static void record_put_begin(struct json *j, const void *self)
{
	const struct record_begin *b = self;

	report_put_begin(j, &b->common);
	json_string(j, "what", b->facts->what);
	b->facts->put(j, b->facts->self);
}

/* Rank 0. */
static int record_begin_json(struct cli_record *r, const struct cli_record_facts *facts,
			     uint64_t started, uint64_t ranks, struct shoal_err *err)
{
	struct record_begin b = { facts, { facts->command, started, ranks, r->cores } };
	int rc = report_text(record_put_begin, &b, (struct json){ .lines = 1 }, &r->begin, err);

	if (rc == 0 && r->results)
		rc = report_write_text(r->results, run_file_name(RUN_FILE_BEGIN), r->begin, err);
	return rc;
}

int cli_record_begin(struct cli_record *r, const struct cli_record_facts *facts, struct comm *comm,
		     bool all, struct cli_listen *listen, struct shoal_err *err)
{
	const struct comm_place *place = comm_place(comm);
	uint64_t started = clock_wall();
	bool first = place->rank == 0;
	int rc = 0;

	r->cores = cores_allowed();
	if (all)
		rc = run_count_cores(comm, &r->cores, err);
	if (rc < 0 || (!r->results && !listen->address))
		return rc;
	if (first)
		rc = cli_record_check(r, facts->command, err);
	if (rc == 0 && first && r->results)
		rc = record_folder(r->results, err);
	if (rc == 0 && first)
		rc = record_begin_json(r, facts, started, (uint64_t)place->size, err);
	if (rc < 0)
		comm_fail(comm, err);
	else
		rc = comm_broadcast(comm, 0, &started, sizeof(started), err);
	if (rc == 0 && (all || first)) {
		rc = record_series(r, comm, started, all, err);
		if (rc < 0)
			comm_fail(comm, err);
		else if (listen->address)
			run_watch_begin(cli_listen_watch(listen), r->series);
	}
	return rc < 0 ? rc : comm_barrier(comm, err);
}

int cli_record_write(struct cli_record *r, const struct cli_record_facts *facts,
		     struct shoal_err *err)
{
	char host[256] = "", time[REPORT_TIME_BYTES];
	struct report_file f;
	struct json j;
	int rc;

	if (!r->results)
		return 0;
	rc = report_file_open(&f, r->results, run_file_name(run_file_of(facts->command)), err);
	if (rc < 0)
		return rc;
	(void)!gethostname(host, sizeof(host) - 1);
	report_time(clock_wall(), time);
	time[19] = '\0'; /* to the second */
	j = report_json(&f);
	json_open_object(&j, NULL);
	json_string(&j, "command", facts->command);
	json_string(&j, "what", facts->what);
	json_string(&j, "hostname", host);
	json_string(&j, "ended", time);
	json_string(&j, "version", shoal_version());
	json_u64(&j, "cores", r->cores);
	facts->put(&j, facts->self);
	json_close_object(&j);
	return report_file_commit(&f, err);
}

int cli_record_end(struct cli_record *r, const char *command)
{
	struct shoal_err err = { "" };
	int rc = series_close(r->series, &err);

	r->series = NULL;
	free(r->begin);
	r->begin = NULL;
	return rc < 0 ? cli_fail(command, "%s", cli_words(command, &err)) : CLI_OK;
}
