/*
 * Goal: a results folder belongs to one run at a time; a new run does not write over other results,
 * a resumed one needs something to resume, and a complete run leaves only its results.
 */
#include "run/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "base/results.h"
#include "help.h"
#include "run/state.h"

static int make_folder(void **state)
{
	(void)state;
	return mkdir(test_path("r"), 0777);
}

static int remove_folder(void **state)
{
	static const char *const file[] = { "r/summary.json", "r/.shoal-run/state",
					    "r/.shoal-run/lock" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(file); i++)
		(void)!unlink(test_path(file[i]));
	(void)!rmdir(test_path("r/.shoal-run"));
	return rmdir(test_path("r"));
}

static bool exists(const char *name)
{
	return access(test_path(name), F_OK) == 0;
}

static int open_folder(bool resume, int *ret_lock, struct shoal_err *err)
{
	*ret_lock = -1;
	*err = (struct shoal_err){ "" };
	return run_folder_open(test_path("r"), resume, false, ret_lock, err);
}

/* What a run writes that goes on later. */
static void write_state(void)
{
	struct shoal_err err = { "" };

	assert_int_equal(run_folder_begin(test_path("r"), &err), 0);
	file_write(test_path("r/.shoal-run/state"), "x", 1);
}

static void a_folder_is_refused_or_taken_by_what_is_in_it(void **state)
{
	static const struct {
		bool summary, resumable, resume;
		int rc;
		const char *words;
	} row[] = {
		{ false, false, false, 0, "" },
		{ false, false, true, -ENOENT, "there is no run to resume in '" },
		{ false, true, false, -EEXIST, "has the results of an interrupted run" },
		{ false, true, true, 0, "" },
		{ true, false, false, -EEXIST, "has the results of another run" },
		{ true, false, true, -ENOENT, "has the results of a finished run" },
		{ true, true, false, -EEXIST, "has the results of an interrupted run" },
		{ true, true, true, 0, "" },
	};
	struct shoal_err err;
	int lock;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		remove_folder(NULL);
		make_folder(NULL);
		if (row[i].summary)
			file_write(test_path("r/summary.json"), "{}", 2);
		if (row[i].resumable)
			write_state();
		assert_int_equal(open_folder(row[i].resume, &lock, &err), row[i].rc);
		check_words(&err, row[i].words);
		assert_true(lock >= 0); /* also on failure, so that it is released below */
		assert_int_equal(err.hint, i == 2 || i == 6 ? SHOAL_HINT_RESUME
					   : i == 4         ? SHOAL_HINT_REPLACE
							    : 0);
		run_folder_close(test_path("r"), lock);
		assert_int_equal(exists("r/summary.json"), row[i].summary);
		assert_int_equal(run_can_resume(test_path("r")), row[i].resumable);
		assert_int_equal(exists("r/.shoal-run"), row[i].resumable);
	}
}

static void force_removes_what_runs_have_written_and_nothing_else(void **state)
{
	static const char *const ours[] = { "r/summary.json",
					    "r/config.yaml",
					    "r/effective.yaml",
					    "r/0_output.json",
					    "r/12_per_epoch_stats.json",
					    "r/train.shoal" };
	static const char *const others[] = { "r/notes.txt", "r/x_output.json",
					      "r/0_output.json2" };
	struct shoal_err err = { "" };
	int lock = -1;

	(void)state;
	remove_folder(NULL);
	make_folder(NULL);
	write_state();
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		file_write(test_path(ours[i]), "x", 1);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		file_write(test_path(others[i]), "x", 1);
	assert_int_equal(run_folder_open(test_path("r"), false, true, &lock, &err), 0);
	assert_true(run_can_resume(test_path("r")));
	file_write(test_path("r/valid.shoal"), "x", 1); /* of the new run */
	run_folder_close(test_path("r"), lock);
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		assert_true(exists(ours[i]));
	assert_int_equal(run_folder_open(test_path("r"), false, true, &lock, &err), 0);
	file_write(test_path("r/valid.shoal"), "x", 1);
	assert_int_equal(run_folder_clear(test_path("r"), &err), 0);
	assert_false(run_can_resume(test_path("r")));
	assert_int_equal(unlink(test_path("r/valid.shoal")), 0);
	run_folder_close(test_path("r"), lock);
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		assert_false(exists(ours[i]));
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_int_equal(unlink(test_path(others[i])), 0);
}

static void results_of_another_command_are_left_alone_whatever_is_asked(void **state)
{
	static const struct {
		const char *file, *command;
	} row[] = { { "r/summary.json", "run" },     { "r/config.yaml", "run" },
		    { "r/.shoal-run/state", "run" }, { "r/read.json", "read" },
		    { "r/index.json", "index" },     { "r/datagen.json", "datagen" },
		    { "r/sweep.json", "sweep" },     { "r/plan.json", "sweep" },
		    { "r/series.0", NULL },          { "r/begin.json", "" },
		    { "r/series.7", NULL },          { "r/3_output.json", NULL } };
	struct shoal_err err = { "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		bool any = !row[i].command || !*row[i].command;
		bool of_run = !any && strcmp(row[i].command, "run") == 0;
		int lock = -1;

		remove_folder(NULL);
		make_folder(NULL);
		assert_int_equal(run_folder_check_others(test_path("r"), NULL, &err), 0);
		assert_int_equal(run_folder_begin(test_path("r"), &err), 0);
		file_write(test_path(row[i].file), "x", 1);
		assert_int_equal(run_folder_check_others(test_path("r"), NULL, &err), -EEXIST);
		check_words(&err, strchr(row[i].file, '/') + 1);
		if (!any)
			assert_int_equal(
				run_folder_check_others(test_path("r"), row[i].command, &err), 0);
		assert_int_equal(run_folder_open(test_path("r"), false, true, &lock, &err),
				 of_run || any ? 0 : -EEXIST);
		run_folder_close(test_path("r"), lock);
		assert_true(exists(row[i].file));
		(void)!unlink(test_path(row[i].file));
	}
}

static void folders_above_it_are_made(void **state)
{
	struct shoal_err err = { "" };
	int lock = -1;

	(void)state;
	assert_int_equal(run_folder_open(test_path("r/a/b"), false, false, &lock, &err), 0);
	assert_true(exists("r/a/b/.shoal-run/lock"));
	run_folder_close(test_path("r/a/b"), lock);
	assert_false(exists("r/a/b/.shoal-run"));
	assert_int_equal(rmdir(test_path("r/a/b")), 0);
	assert_int_equal(rmdir(test_path("r/a")), 0);
}

/* Another process, which holds the folder until the pipe is closed. */
static pid_t hold(int *ret_pipe)
{
	int ready[2], go[2];
	struct shoal_err err;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready) | pipe(go), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int lock;

		close(go[1]);
		byte = open_folder(false, &lock, &err) == 0 ? 'y' : 'n';
		(void)!write(ready[1], &byte, 1);
		(void)!read(go[0], &byte, 1);
		_exit(0);
	}
	close(ready[1]);
	close(go[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	close(ready[0]);
	*ret_pipe = go[1];
	return pid;
}

static void a_folder_that_another_process_writes_to_is_busy_until_it_ends(void **state)
{
	struct shoal_err err;
	int lock, go, status;
	pid_t pid = hold(&go);

	(void)state;
	for (int resume = 0; resume < 2; resume++) {
		assert_int_equal(open_folder(resume, &lock, &err), -EBUSY);
		check_words(&err, "another run is writing to '");
		assert_int_equal(lock, -1);
		run_folder_close(test_path("r"), lock);
		assert_true(exists("r/.shoal-run/lock")); /* the holder's */
	}
	close(go);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* It died without releasing anything: its lock file is no obstacle. */
	assert_int_equal(open_folder(false, &lock, &err), 0);
	run_folder_close(test_path("r"), lock);
}

static void a_complete_run_leaves_its_results_and_nothing_else(void **state)
{
	struct shoal_err err;
	char path[RUN_PATH_MAX];
	int lock;

	(void)state;
	assert_int_equal(open_folder(false, &lock, &err), 0);
	write_state();
	for (int rank = 0; rank < 3; rank++) {
		assert_int_equal(run_step_log_path(test_path("r"), rank, path, &err), 0);
		file_write(path, "x", 1);
	}
	file_write(test_path("r/summary.json"), "{}", 2);
	run_folder_finish(test_path("r"), 3);
	run_folder_close(test_path("r"), lock);
	assert_false(exists("r/.shoal-run"));
	assert_true(exists("r/summary.json"));
}

static void an_interrupted_run_leaves_what_a_resumed_one_needs(void **state)
{
	struct shoal_err err;
	char path[RUN_PATH_MAX];
	int lock;

	(void)state;
	assert_int_equal(open_folder(false, &lock, &err), 0);
	write_state();
	assert_int_equal(run_step_log_path(test_path("r"), 0, path, &err), 0);
	file_write(path, "x", 1);
	run_folder_close(test_path("r"), lock);
	assert_true(run_can_resume(test_path("r")));
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(open_folder(true, &lock, &err), 0);
	run_folder_finish(test_path("r"), 1);
	run_folder_close(test_path("r"), lock);
	assert_false(run_can_resume(test_path("r")));
}

static void a_folder_whose_paths_are_too_long_is_refused(void **state)
{
	struct shoal_err err = { "" };
	char dir[RUN_PATH_MAX], path[RUN_PATH_MAX];
	/* As long as it may be for "/summary.json" to fit behind it, with its zero. */
	size_t len = sizeof(path) - sizeof("/summary.json");

	(void)state;
	memset(dir, 'a', sizeof(dir));
	dir[len] = '\0';
	assert_int_equal(run_file_path(dir, RUN_FILE_SUMMARY, path, &err), 0);
	assert_int_equal(strlen(path), RUN_PATH_MAX - 1);
	dir[len] = 'a';
	dir[len + 1] = '\0';
	assert_int_equal(run_file_path(dir, RUN_FILE_SUMMARY, path, &err), -ENAMETOOLONG);
	check_words(&err, "is too long");
	assert_int_equal(run_step_log_path(dir, 1, path, &err), -ENAMETOOLONG);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

/* ---- The state ---- */

static const char *state_path(void)
{
	static char path[RUN_PATH_MAX];

	assert_int_equal(run_file_path(test_path("r"), RUN_FILE_STATE, path, NULL), 0);
	return path;
}

static uint64_t state_bytes(void)
{
	struct stat st;

	assert_int_equal(stat(state_path(), &st), 0);
	return (uint64_t)st.st_size;
}

static void flip(uint64_t off)
{
	int fd = open(state_path(), O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, (off_t)off), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)off), 1);
	close(fd);
}

/* A finished phase, or one that was interrupted after some steps. */
static void append_phase(struct run_state *s, uint32_t epoch, bool partial)
{
	struct run_result_phase phase = { .epoch = epoch, .steps = 10 + epoch, .partial = partial };

	s->now.nr_phases += !partial;
	assert_int_equal(run_state_append(test_path("r"), s, &phase, NULL), 0);
}

static void the_state_grows_by_an_entry_per_phase(void **state)
{
	struct run_state s = { .run = 77, .data = "here" }, got;
	struct run_result_phase phases[3] = { 0 }, cut;
	struct shoal_err err = { "" };
	uint64_t head, entry;

	(void)state;
	assert_int_equal(run_folder_begin(test_path("r"), NULL), 0);
	assert_int_equal(run_state_create(test_path("r"), &s, NULL), 0);
	head = state_bytes();
	append_phase(&s, 1, false);
	entry = state_bytes() - head;
	assert_true(entry < 2048); /* whatever the name of the data */
	append_phase(&s, 2, true);
	s.now.resumed = 1;
	assert_int_equal(run_state_append(test_path("r"), &s, NULL, NULL), 0);
	assert_int_equal(state_bytes(), head + 3 * entry);
	assert_int_equal(run_state_load(test_path("r"), &got, phases, 3, &cut, NULL), 0);
	assert_true(got.now.nr_phases == 1 && got.now.resumed == 1 && phases[0].steps == 11);
	assert_true(cut.epoch == 2 && cut.steps == 12);
	append_phase(&s, 2, false);
	assert_int_equal(run_state_load(test_path("r"), &got, phases, 3, &cut, NULL), 0);
	assert_true(got.now.nr_phases == 2 && phases[1].epoch == 2 && cut.steps == 0);
	assert_int_equal(run_state_load(test_path("r"), &got, phases, 1, &cut, &err), -ESTALE);
	/* A kill in the middle of an entry: it does not count, and is overwritten. */
	assert_int_equal(truncate(state_path(), (off_t)(head + 4 * entry - 1)), 0);
	assert_int_equal(run_state_load(test_path("r"), &got, phases, 3, &cut, NULL), 0);
	assert_true(got.now.nr_phases == 1 && cut.epoch == 2);
	s.now = got.now;
	append_phase(&s, 2, true);
	assert_int_equal(state_bytes(), head + 4 * entry);
	assert_int_equal(run_state_load(test_path("r"), &got, phases, 3, &cut, NULL), 0);
	/* Damage anywhere is told. */
	for (uint64_t off = 0; off < head + 3 * entry; off += off < 64 || off > head ? 1 : 97) {
		flip(off);
		assert_int_equal(run_state_load(test_path("r"), &got, phases, 3, &cut, &err),
				 -EBADMSG);
		flip(off);
	}
	assert_int_equal(run_state_load(test_path("r"), &got, phases, 3, &cut, NULL), 0);
	/* A crash can leave a last entry of full length without its bytes: it is dropped. */
	for (uint64_t off = head + 3 * entry; off < head + 4 * entry; off += 61) {
		flip(off);
		assert_int_equal(run_state_load(test_path("r"), &got, phases, 3, &cut, NULL), 0);
		assert_true(got.now.nr_phases == 1 && got.now.resumed == 1);
		assert_int_equal(state_bytes(), head + 3 * entry);
		append_phase(&s, 2, true);
	}
	assert_int_equal(unlink(state_path()), 0);
}

static int load_state(struct shoal_err *err)
{
	struct run_result_phase phases[3] = { 0 }, cut;
	struct run_state got;

	return run_state_load(test_path("r"), &got, phases, 3, &cut, err);
}

/* Another user could change it after it was checked, or have written all of it. */
static void a_state_that_is_not_this_users_alone_is_refused(void **state)
{
	struct run_state s = { .run = 77, .data = "here" };
	struct shoal_err err = { "" };
	char other[RUN_PATH_MAX + 8];

	(void)state;
	snprintf(other, sizeof(other), "%s-other", state_path());
	assert_int_equal(run_folder_begin(test_path("r"), NULL), 0);
	assert_int_equal(run_state_create(test_path("r"), &s, NULL), 0);
	assert_int_equal(load_state(&err), 0);
	assert_int_equal(link(state_path(), other), 0);
	assert_int_equal(load_state(&err), -EPERM);
	assert_non_null(strstr(err.msg, "has several names"));
	assert_int_equal(unlink(state_path()), 0);
	assert_int_equal(symlink(other, state_path()), 0);
	assert_int_equal(load_state(&err), -EPERM);
	assert_non_null(strstr(err.msg, "is a symbolic link"));
	assert_int_equal(rename(other, state_path()), 0);
	assert_int_equal(load_state(&err), 0);
	if (geteuid() == 0) { /* only root can give a file away */
		assert_int_equal(chown(state_path(), 65534, (gid_t)-1), 0);
		assert_int_equal(load_state(&err), -EPERM);
		assert_non_null(strstr(err.msg, "belongs to another user"));
	}
	assert_int_equal(unlink(state_path()), 0);
}

/* Whoever writes a state can also make its checksums fit. */
static void a_state_with_text_that_does_not_end_or_phases_without_entries_is_refused(void **state)
{
	struct run_result_phase phases[3] = { 0 }, cut;
	struct run_state good = { .run = 77, .data = "here" }, bad[4], got;

	(void)state;
	assert_int_equal(run_folder_begin(test_path("r"), NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = good;
	memset(bad[0].data, 'x', sizeof(bad[0].data));
	memset(bad[1].now.engine, 'x', sizeof(bad[1].now.engine));
	memset(bad[2].now.detail, 'x', sizeof(bad[2].now.detail));
	bad[3].now.nr_phases = 1;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(run_state_create(test_path("r"), &bad[i], NULL), 0);
		assert_int_equal(run_state_load(test_path("r"), &got, phases, 3, &cut, NULL),
				 -EBADMSG);
	}
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(run_state_create(test_path("r"), &good, NULL), 0);
		assert_int_equal(run_state_append(test_path("r"), &bad[i], NULL, NULL), 0);
		assert_int_equal(run_state_load(test_path("r"), &got, phases, 3, &cut, NULL),
				 -EBADMSG);
	}
	assert_int_equal(unlink(state_path()), 0);
}

static void results_are_recognised_by_names_that_need_a_mark_beside_them(void **state)
{
	static const struct {
		const char *name;
		unsigned needs;
		size_t folder;
	} row[] = {
		{ "begin.json", RESULTS_NEEDS_BEGIN, 0 },
		{ "a/b/summary.json", RESULTS_NEEDS_BEGIN, 4 },
		{ "r/plan.json", RESULTS_NEEDS_PLAN, 2 },
		{ "r/report.html", RESULTS_NEEDS_BEGIN | RESULTS_NEEDS_PLAN, 2 },
		{ "r/series.0", RESULTS_NEEDS_BEGIN, 2 },
		{ "series.1023", RESULTS_NEEDS_BEGIN, 0 },
		{ "r/12_output.json", RESULTS_NEEDS_BEGIN, 2 },
		{ "0_per_epoch_stats.json", RESULTS_NEEDS_BEGIN, 0 },
		{ "s/jobs/00001.json", RESULTS_NEEDS_PLAN, 2 },
		{ "jobs/00001.json", RESULTS_NEEDS_PLAN, 0 },
		{ "", RESULTS_NONE, 0 },
		{ "xbegin.json", RESULTS_NONE, 0 },
		{ "begin.jsonl", RESULTS_NONE, 0 },
		{ "begin.json/x", RESULTS_NONE, 11 },
		{ "series.", RESULTS_NONE, 0 },
		{ "series.1a", RESULTS_NONE, 0 },
		{ "series", RESULTS_NONE, 0 },
		{ "_output.json", RESULTS_NONE, 0 },
		{ "1x_output.json", RESULTS_NONE, 0 },
		{ "r/xjobs/1.json", RESULTS_NONE, 8 },
		{ "r/jobs/1.txt", RESULTS_NONE, 7 },
		{ "jobs", RESULTS_NONE, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		size_t folder = 99, len = strlen(row[i].name);

		if (results_look(row[i].name, len, &folder) != row[i].needs ||
		    folder != row[i].folder)
			fail_msg("%s: a folder of %zu bytes", row[i].name, folder);
		if (row[i].needs && !path_may_be_own(row[i].name, len))
			fail_msg("nobody asks about %s", row[i].name);
	}
}

/* So a dataset below which results lie is listed without them: see open/own.h. */
static void every_file_of_results_is_known_to_listings_by_its_name(void **state)
{
	static const char *const ranks[] = { RUN_SERIES_PREFIX "0", "0_" RUN_RANK_OUTPUT ".json",
					     "7_" RUN_RANK_STATS ".json" };
	size_t folder;

	(void)state;
	assert_string_equal(run_file_name(RUN_FILE_BEGIN), RESULTS_BEGIN);
	assert_string_equal(run_file_name(RUN_FILE_PLAN), RESULTS_PLAN);
	for (enum run_file f = 0; f <= RUN_FILE_LOCK; f++) {
		const char *name = run_file_name(f), *end = strrchr(name, '.');

		if (!path_is_own(name, strlen(name)) &&
		    !results_look(name, strlen(name), &folder) && strcmp(end, ".shoal") != 0)
			fail_msg("%s would be listed", name);
	}
	for (size_t i = 0; i < ARRAY_LEN(ranks); i++)
		assert_int_equal(results_look(ranks[i], strlen(ranks[i]), &folder),
				 RESULTS_NEEDS_BEGIN);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_folder_is_refused_or_taken_by_what_is_in_it),
		TEST(force_removes_what_runs_have_written_and_nothing_else),
		TEST(results_of_another_command_are_left_alone_whatever_is_asked),
		TEST(folders_above_it_are_made),
		TEST(a_folder_that_another_process_writes_to_is_busy_until_it_ends),
		TEST(a_complete_run_leaves_its_results_and_nothing_else),
		TEST(an_interrupted_run_leaves_what_a_resumed_one_needs),
		TEST(a_folder_whose_paths_are_too_long_is_refused),
		TEST(the_state_grows_by_an_entry_per_phase),
		TEST(a_state_that_is_not_this_users_alone_is_refused),
		TEST(results_are_recognised_by_names_that_need_a_mark_beside_them),
		TEST(every_file_of_results_is_known_to_listings_by_its_name),
		TEST(a_state_with_text_that_does_not_end_or_phases_without_entries_is_refused),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
