#include "run/folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/path.h"
#include "datagen/datagen.h"
#include "store/uri.h"

#define SUBFOLDER ".shoal-run"

static const struct {
	const char *name;
	const char
		*command; /* whose results are there if this file is; "": of any; NULL: of none */
	bool of_run;      /* removed before another run */
} files[] = {
	[RUN_FILE_SUMMARY] = { RESULTS_SUMMARY, "run", true },
	[RUN_FILE_READ] = { RESULTS_READ, "read" },
	[RUN_FILE_INDEX] = { RESULTS_INDEX, "index" },
	[RUN_FILE_DATAGEN] = { RESULTS_DATAGEN, "datagen" },
	[RUN_FILE_SWEEP] = { RESULTS_SWEEP, "sweep" },
	[RUN_FILE_BEGIN] = { RESULTS_BEGIN, "", true },
	[RUN_FILE_CONFIG] = { RESULTS_CONFIG, "run", true },
	[RUN_FILE_EFFECTIVE] = { RESULTS_EFFECTIVE, "run", true },
	[RUN_FILE_PLAN] = { RESULTS_PLAN, "sweep" },
	[RUN_FILE_PAGE] = { RESULTS_PAGE },
	[RUN_FILE_TRAIN_CATALOG] = { "train.shoal" },
	[RUN_FILE_EVAL_CATALOG] = { "valid.shoal" },
	[RUN_FILE_COPY] = { DATAGEN_CATALOG_NAME },
	[RUN_FILE_STATE] = { SUBFOLDER "/state", "run" },
	[RUN_FILE_LOCK] = { SUBFOLDER "/lock" },
};

const char *run_file_name(enum run_file file)
{
	return files[file].name;
}

enum run_file run_file_of(const char *command)
{
	enum run_file file = RUN_FILE_SUMMARY;

	while (file < RUN_FILE_SWEEP && strcmp(files[file].command, command) != 0)
		file++;
	return file;
}

struct run_rank_name run_rank_file_name(uint64_t rank, const char *kind)
{
	struct run_rank_name name;

	snprintf(name.text, sizeof(name.text), "%" PRIu64 "_%s.json", rank, kind);
	return name;
}

int run_file_path(const char *results, enum run_file file, char buf[RUN_PATH_MAX],
		  struct shoal_err *err)
{
	return path_join(results, files[file].name, buf, RUN_PATH_MAX, err);
}

int run_step_log_path(const char *results, int rank, char buf[RUN_PATH_MAX], struct shoal_err *err)
{
	char name[64];

	snprintf(name, sizeof(name), SUBFOLDER "/steps.%d", rank);
	return path_join(results, name, buf, RUN_PATH_MAX, err);
}

int run_series_path(const char *results, int rank, char buf[RUN_PATH_MAX], struct shoal_err *err)
{
	char name[64];

	snprintf(name, sizeof(name), RUN_SERIES_PREFIX "%d", rank);
	return path_join(results, name, buf, RUN_PATH_MAX, err);
}

static bool has_file(const char *results, enum run_file file)
{
	char path[RUN_PATH_MAX];

	return run_file_path(results, file, path, NULL) == 0 && access(path, F_OK) == 0;
}

/*
 * A file of a rank, whose name goes to @name, of NAME_MAX + 1 bytes: several commands have these.
 * Files of a dataset may be called so, too: once there were results beside them, listings would
 * leave them out. A new folder, the usual case, is empty; that of a dataset is read once.
 */
static const char *folder_file_of_rank(const char *results, char *name)
{
	DIR *d = opendir(results);
	const struct dirent *e = NULL;
	size_t folder;

	while (d && (e = readdir(d)) &&
	       (!strpbrk(e->d_name, "0123456789") ||
		!results_look(e->d_name, strlen(e->d_name), &folder)))
		;
	if (e)
		snprintf(name, NAME_MAX + 1, "%s", e->d_name);
	if (d)
		closedir(d);
	return e ? name : NULL;
}

int run_folder_check_others(const char *results, const char *command, struct shoal_err *err)
{
	const char *found = NULL;
	char name[NAME_MAX + 1];

	for (enum run_file f = 0; f < ARRAY_LEN(files); f++)
		if (files[f].command &&
		    (!command || (*files[f].command && strcmp(files[f].command, command) != 0)) &&
		    has_file(results, f))
			found = files[f].name;
	if (!command && !found)
		found = folder_file_of_rank(results, name);
	return found ? err_set(err, -EEXIST,
			       "'%.500s' has results already (%s): choose another folder", results,
			       found)
		     : 0;
}

bool run_can_resume(const char *results)
{
	return has_file(results, RUN_FILE_STATE);
}

bool run_folder_shares_device(const char *results, const char *data)
{
	const char *path = store_local_path(data);
	struct stat a, b;

	return path && stat(results, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev;
}

int run_folder_begin(const char *results, struct shoal_err *err)
{
	char path[RUN_PATH_MAX];
	int rc = path_join(results, SUBFOLDER, path, sizeof(path), err);

	return rc < 0 ? rc : path_make_dirs(path, err);
}

static int take_lock(const char *results, int *ret_lock, struct shoal_err *err)
{
	char path[RUN_PATH_MAX];
	int rc = run_file_path(results, RUN_FILE_LOCK, path, err);

	if (rc < 0)
		return rc;
	rc = -ENOENT;
	/* The holder may be removing the folder right now. */
	for (int i = 0; rc == -ENOENT && i < 100; i++) {
		rc = run_folder_begin(results, err);
		if (rc == 0)
			rc = file_lock_take(path, ret_lock, err);
	}
	if (rc == -EBUSY)
		return err_set(
			err, rc,
			"another run is writing to '%.500s': wait for it, or choose another folder",
			results);
	return rc;
}

int run_folder_check(const char *results, bool resume, struct shoal_err *err)
{
	bool finished = has_file(results, RUN_FILE_SUMMARY), resumable = run_can_resume(results);
	int rc = run_folder_check_others(results, "run", err);

	if (rc < 0)
		return rc;
	if (resume && !resumable)
		return err_set(err, -ENOENT,
			       finished ? "'%s' has the results of a finished run: there is "
					  "nothing to resume"
					: "there is no run to resume in '%s'",
			       results);
	if (!resume && resumable)
		return err_set_hint(
			err, -EEXIST, SHOAL_HINT_RESUME,
			"'%s' has the results of an interrupted run: choose another folder",
			results);
	if (!resume && finished)
		return err_set_hint(err, -EEXIST, SHOAL_HINT_REPLACE,
				    "'%s' has the results of another run: choose another folder",
				    results);
	return 0;
}

/* Whether a run may have made it for itself, and has it in its folder. */
static bool is_catalog(const char *name)
{
	return strcmp(name, files[RUN_FILE_TRAIN_CATALOG].name) == 0 ||
	       strcmp(name, files[RUN_FILE_EVAL_CATALOG].name) == 0 ||
	       strcmp(name, files[RUN_FILE_COPY].name) == 0;
}

/* Whether a run has written a file of this name, which is no catalog and not the folder's mark. */
static bool is_result(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (files[i].of_run && i != RUN_FILE_BEGIN && strcmp(name, files[i].name) == 0)
			return true;
	if (strncmp(name, RUN_SERIES_PREFIX, strlen(RUN_SERIES_PREFIX)) == 0) {
		const char *rank = name + strlen(RUN_SERIES_PREFIX);

		return *rank && strspn(rank, "0123456789") == strlen(rank);
	}
	return digits > 0 && (strcmp(name + digits, "_" RUN_RANK_OUTPUT ".json") == 0 ||
			      strcmp(name + digits, "_" RUN_RANK_STATS ".json") == 0);
}

static bool is_mark(const char *name)
{
	return strcmp(name, files[RUN_FILE_BEGIN].name) == 0;
}

static bool is_step_log(const char *name)
{
	return strncmp(name, "steps.", 6) == 0 || strcmp(name, "state") == 0;
}

/* Remove the files below @dir that @wanted selects. */
static int remove_files(const char *dir, bool (*wanted)(const char *name), struct shoal_err *err)
{
	char path[RUN_PATH_MAX];
	DIR *d = opendir(dir);
	struct dirent *e;
	int rc = 0;

	if (!d)
		return err_set_errno(err, err_errno(), "cannot open the folder '%s'", dir);
	while (rc == 0 && (e = readdir(d)) != NULL) {
		if (wanted(e->d_name))
			rc = path_join(dir, e->d_name, path, sizeof(path), err);
		if (rc == 0 && wanted(e->d_name) && unlink(path) < 0)
			rc = err_set_errno(err, err_errno(), "cannot remove '%s'", path);
	}
	closedir(d);
	return rc;
}

/*
 * Move the catalogs of an earlier run into the subfolder or back: a run makes its own before all is
 * known that can refuse it.
 */
static int move_catalogs(const char *results, bool back, struct shoal_err *err)
{
	char here[RUN_PATH_MAX], there[RUN_PATH_MAX], name[64];
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(files) && rc == 0; i++) {
		if (!is_catalog(files[i].name))
			continue;
		snprintf(name, sizeof(name), SUBFOLDER "/%s", files[i].name);
		rc = path_join(results, files[i].name, here, sizeof(here), err);
		if (rc == 0)
			rc = path_join(results, name, there, sizeof(there), err);
		if (rc == 0 && rename(back ? there : here, back ? here : there) < 0 &&
		    errno != ENOENT)
			rc = err_set_errno(err, err_errno(), "cannot move '%s'",
					   back ? there : here);
	}
	return rc;
}

int run_folder_clear(const char *results, struct shoal_err *err)
{
	char path[RUN_PATH_MAX];
	int rc = path_join(results, SUBFOLDER, path, sizeof(path), err);

	if (rc == 0)
		rc = remove_files(path, is_catalog, err);
	if (rc == 0)
		rc = remove_files(results, is_result, err);
	if (rc == 0) /* last: without it the others were data to a listing */
		rc = remove_files(results, is_mark, err);
	return rc < 0 ? rc : remove_files(path, is_step_log, err);
}

int run_folder_open(const char *results, bool resume, bool force, int *ret_lock,
		    struct shoal_err *err)
{
	struct stat st;
	int rc = path_make_dirs(results, err);

	if (rc == 0 && stat(results, &st) == 0 && !S_ISDIR(st.st_mode))
		rc = err_set(err, -ENOTDIR, "'%s' is a file: results need a folder", results);
	if (rc == 0 && access(results, W_OK) < 0)
		rc = err_set_errno(err, err_errno(), "cannot write results to '%s'", results);
	if (rc == 0)
		rc = take_lock(results, ret_lock, err);
	if (rc == 0)
		rc = move_catalogs(results, true, err); /* of a process that was killed */
	if (rc < 0 || !force)
		return rc < 0 ? rc : run_folder_check(results, resume, err);
	rc = run_folder_check_others(results, "run", err);
	return rc < 0 ? rc : move_catalogs(results, false, err);
}

void run_folder_finish(const char *results, int nr_ranks)
{
	char path[RUN_PATH_MAX];

	for (int r = 0; r < nr_ranks; r++)
		if (run_step_log_path(results, r, path, NULL) == 0)
			(void)!unlink(path);
	if (run_file_path(results, RUN_FILE_STATE, path, NULL) == 0)
		(void)!unlink(path);
	if (run_file_path(results, RUN_FILE_LOCK, path, NULL) == 0)
		(void)!unlink(path);
	if (path_join(results, SUBFOLDER, path, sizeof(path), NULL) == 0)
		(void)!rmdir(path);
}

void run_folder_close(const char *results, int lock)
{
	if (lock < 0)
		return;
	(void)move_catalogs(results, true, NULL); /* unless they were cleared */
	if (!run_can_resume(results))
		run_folder_finish(results, 0);
	close(lock);
}
