#include "sweep/folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/path.h"
#include "report/write.h"
#include "run/folder.h"
#include "shoal.h"

#define LOCK_NAME ".sweep.lock"
#define PLAN_MAX  (1u << 20)

/* ---- The plan ---- */

static void put_command(struct json *j, char *const *words, size_t nr, const char *launcher)
{
	json_string(j, "version", shoal_version());
	json_open_array(j, "command");
	for (size_t i = 0; i < nr; i++)
		json_string(j, NULL, words[i]);
	json_close_array(j);
	json_string(j, "launcher", launcher);
}

/* The text of plan.json, which is the same for the same sweep. */
static void put_plan(struct buf *b, const struct sweep_plan *plan, char *const *words, size_t nr,
		     const char *launcher)
{
	struct json j = { .put = json_put_buf, .self = b, .lines = 1 };

	json_open_object(&j, NULL);
	put_command(&j, words, nr, launcher);
	json_u64(&j, "repeats", plan->repeats);
	json_bool(&j, "ceilings", plan->ceilings);
	json_format(&j, "seed", "%" PRIu64, plan->seed);
	for (size_t i = 0; i < plan->nr_parameters; i++) {
		const struct sweep_parameter *p = &plan->parameter[i];

		json_open_array(&j, p->name);
		for (size_t k = 0; k < p->nr; k++)
			json_string(&j, NULL, p->value[k]);
		json_close_array(&j);
	}
	json_close_object(&j);
}

/* The first line that differs, for people: which setting it is. */
static int plan_differs(const char *folder, const struct buf *mine, const struct map *theirs,
			struct shoal_err *err)
{
	size_t at = 0, start = 0, len = 0;
	const char *line;

	while (at < mine->len && at < theirs->len && mine->data[at] == theirs->addr[at]) {
		start = mine->data[at] == '\n' ? at + 1 : start;
		at++;
	}
	line = (const char *)theirs->addr + (start < theirs->len ? start : 0);
	while (start + len < theirs->len && line[len] != '\n' && len < 200)
		len++;
	return err_set(err, -ESTALE, "'%s' holds another sweep: its plan.json has %.*s", folder,
		       (int)len, line);
}

static int check_plan(const char *folder, const struct buf *mine, struct shoal_err *err)
{
	char path[4096];
	struct map m = MAP_CLOSED;
	int rc = path_join(folder, run_file_name(RUN_FILE_PLAN), path, sizeof(path), err);

	if (rc == 0 && access(path, F_OK) < 0)
		return err_set(err, -ENOENT, "'%s' has no sweep to go on with", folder);
	if (rc == 0)
		rc = map_open(path, &m, err);
	if (rc < 0)
		return rc;
	if (m.len != mine->len || (m.len > 0 && memcmp(m.addr, mine->data, m.len) != 0))
		rc = plan_differs(folder, mine, &m, err);
	map_close(&m);
	return rc;
}

/* ---- The folder ---- */

static bool is_there(const char *folder, const char *name)
{
	char path[4096];

	return path_join(folder, name, path, sizeof(path), NULL) == 0 && access(path, F_OK) == 0;
}

/* Everything in jobs/: records of another sweep. */
static int clear_jobs(const char *folder, struct shoal_err *err)
{
	char path[4096], file[4096 + 300];
	struct dirent *e;
	DIR *d;
	int rc = path_join(folder, "jobs", path, sizeof(path), err);

	d = rc == 0 ? opendir(path) : NULL;
	if (rc == 0 && !d && errno != ENOENT)
		rc = err_set_errno(err, err_errno(), "cannot list '%s'", path);
	while (d && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		if (len > 5 && strcmp(e->d_name + len - 5, ".json") == 0 && unlink(file) < 0)
			rc = err_set_errno(err, err_errno(), "cannot remove '%s'", file);
	}
	if (d)
		closedir(d);
	return rc;
}

static int make_folders(const char *folder, struct shoal_err *err)
{
	static const char *const names[] = { "jobs", "runs" };
	char path[4096];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(names); i++) {
		rc = path_join(folder, names[i], path, sizeof(path), err);
		if (rc == 0)
			rc = path_make_dirs(path, err);
	}
	return rc;
}

static int write_plan(const char *folder, const struct buf *plan, struct shoal_err *err)
{
	int rc = clear_jobs(folder, err);

	return rc < 0 ? rc
		      : report_write_text(folder, run_file_name(RUN_FILE_PLAN),
					  (const char *)plan->data, err);
}

/* 1: there is another sweep, which stays until it is replaced. */
static int begin_sweep(const char *folder, const struct buf *plan, bool force,
		       struct shoal_err *err)
{
	bool other = is_there(folder, run_file_name(RUN_FILE_PLAN));
	int rc;

	if (other && !force)
		return err_set_hint(err, -EEXIST, SHOAL_HINT_REPLACE, "'%s' holds a sweep already",
				    folder);
	rc = run_folder_check_others(folder, "sweep", err);
	if (rc == 0)
		rc = make_folders(folder, err);
	if (rc == 0 && !other)
		rc = write_plan(folder, plan, err);
	return rc < 0 ? rc : other;
}

/* To be released, also after a failure. */
static int make_plan(struct buf *b, const struct sweep_plan *plan, char *const *words, size_t nr,
		     const char *launcher, struct shoal_err *err)
{
	*b = (struct buf){ .max = PLAN_MAX };
	put_plan(b, plan, words, nr, launcher);
	buf_u8(b, '\0');
	if (b->rc < 0)
		return err_set(err, b->rc, "the plan of the sweep does not fit memory");
	b->len--; /* the NUL is for those who take it as text */
	return 0;
}

int sweep_folder_open(const char *folder, const struct sweep_plan *plan, char *const *words,
		      size_t nr_words, const char *launcher, bool resume, bool force, int *ret_lock,
		      struct shoal_err *err)
{
	char path[4096];
	struct buf b;
	int rc = make_plan(&b, plan, words, nr_words, launcher, err);

	if (rc == 0)
		rc = path_join(folder, LOCK_NAME, path, sizeof(path), err);
	if (rc == 0)
		rc = path_make_dirs(folder, err);
	if (rc == 0) {
		rc = file_lock_take(path, ret_lock, err);
		if (rc == -EBUSY)
			rc = err_set(err, rc, "another sweep is writing to '%s'", folder);
	}
	if (rc == 0)
		rc = resume ? check_plan(folder, &b, err) : begin_sweep(folder, &b, force, err);
	if (rc == 0 && resume)
		rc = make_folders(folder, err);
	if (rc < 0)
		sweep_folder_close(folder, *ret_lock);
	buf_release(&b);
	return rc;
}

int sweep_folder_replace(const char *folder, const struct sweep_plan *plan, char *const *words,
			 size_t nr_words, const char *launcher, struct shoal_err *err)
{
	struct buf b;
	int rc = make_plan(&b, plan, words, nr_words, launcher, err);

	if (rc == 0)
		rc = write_plan(folder, &b, err);
	buf_release(&b);
	return rc;
}

void sweep_folder_close(const char *folder, int lock)
{
	char path[4096];

	if (path_join(folder, LOCK_NAME, path, sizeof(path), NULL) == 0)
		file_lock_drop(path, lock);
}

void sweep_folder_forget(const char *folder)
{
	char path[4096];

	if (path_join(folder, "jobs", path, sizeof(path), NULL) < 0 || rmdir(path) < 0)
		return;
	if (path_join(folder, "runs", path, sizeof(path), NULL) == 0)
		(void)!rmdir(path);
	if (path_join(folder, run_file_name(RUN_FILE_PLAN), path, sizeof(path), NULL) == 0)
		(void)!unlink(path);
}

int sweep_folder_write(const char *folder, char *const *words, size_t nr_words,
		       const char *launcher, const struct sweep_result *r, struct shoal_err *err)
{
	struct report_file f;
	struct json j;
	int rc = report_file_open(&f, folder, run_file_name(RUN_FILE_SWEEP), err);

	if (rc < 0)
		return rc;
	j = report_json(&f);
	json_open_object(&j, NULL);
	put_command(&j, words, nr_words, launcher);
	sweep_put_result(r, &j);
	json_close_object(&j);
	return report_file_commit(&f, err);
}
