#include "report/layout.h"

#include <limits.h>
#include <mntent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "report/core_config.h"
#include "report/tree.h"
#include "report/write.h"
#include "shoal.h"

#define NOT_A_SUBMISSION                                                                \
	"Made by Shoal, which is not the code of MLPerf Storage: these results are no " \
	"submission to MLPerf and were not verified by MLCommons."

#define TEXT_MAX (16u << 20) /* bytes of one file: the table of a run has a line per epoch */

/* ---- Places ---- */

static const char *division(const struct layout *l)
{
	return l->open ? "open" : "closed";
}

static bool is_tree_name(const char *name)
{
	return *name && *name != '.' &&
	       !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789._-")];
}

int layout_check(const struct layout *l, struct shoal_err *err)
{
	const char *const names[] = { l->organization, l->system };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!is_tree_name(names[i]))
			return err_set(err, -EINVAL,
				       "'%.200s' cannot be the name of %s in a tree of results: it "
				       "takes letters, digits, '.', '_' and '-'",
				       names[i], i ? "a system" : "an organization");
	return 0;
}

PRINTF_LIKE(3, 4)
static int make_path(char path[RUN_PATH_MAX], struct shoal_err *err, const char *fmt, ...)
{
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(path, RUN_PATH_MAX, fmt, args);
	va_end(args);
	return len < RUN_PATH_MAX
		       ? 0
		       : err_set(err, -ENAMETOOLONG, "the path of the results is too long");
}

/* The directory with the leaves of a command. */
static int command_dir(const struct layout *l, const char *model, const char *command,
		       char path[RUN_PATH_MAX], struct shoal_err *err)
{
	if (!is_tree_name(model))
		return err_set(err, -EINVAL,
			       "model.name is '%.200s', which cannot be the name of a directory in "
			       "a tree of results",
			       model);
	return make_path(path, err, "%s/%s/%s/results/%s/training/%s/%s", l->root, division(l),
			 l->organization, l->system, model, command);
}

/* Write @text to @dir/@name if there is no such file. */
static int write_if_missing(const char *dir, const char *name, const char *text,
			    struct shoal_err *err)
{
	char path[RUN_PATH_MAX];
	int rc = path_join(dir, name, path, sizeof(path), err);

	if (rc < 0 || access(path, F_OK) == 0)
		return rc;
	return report_write_text(dir, name, text, err);
}

/* The directory with the code that ran. Newer trees have it once for all; of the others, only those
 * of the division "closed". */
static int code_dir(const struct layout *l, char path[RUN_PATH_MAX], struct shoal_err *err)
{
	char hex[33];

	if (!l->newer)
		return make_path(path, err, "%s/%s/%s/code", l->root, division(l), l->organization);
	tree_own_code_hash(hex);
	return make_path(path, err, "%s/" TREE_POOL "/%s", l->root, tree_code_name(hex).text);
}

static int write_code(const struct layout *l, struct shoal_err *err)
{
	char path[RUN_PATH_MAX], text[256], now[REPORT_TIME_BYTES];
	int rc = code_dir(l, path, err);

	if (rc == 0)
		rc = tree_write_code(path, err);
	if (rc < 0 || !l->newer)
		return rc;
	rc = make_path(path, err, "%s/" TREE_POOL, l->root);
	if (rc < 0)
		return rc;
	report_time(clock_wall(), now);
	snprintf(text, sizeof(text),
		 "mlpstorage_version=none: shoal %s\nmigration_completed_at=%.19sZ\n",
		 shoal_version(), now);
	return write_if_missing(path, TREE_POOL_MARK, text, err);
}

/* What every tree has: the organization that it belongs to, and the code that ran. */
static int make_top(const struct layout *l, struct shoal_err *err)
{
	char path[RUN_PATH_MAX], text[512], now[REPORT_TIME_BYTES];
	int rc = write_if_missing(l->root, "NOT-A-SUBMISSION.txt", NOT_A_SUBMISSION "\n", err);

	report_time(clock_wall(), now);
	snprintf(text, sizeof(text),
		 "mlperf_results_version: 1\norgname: '%.200s'\ninitialized_at: '%s+00:00'\n"
		 "initialized_by: shoal %s\n",
		 l->organization, now, shoal_version());
	if (rc == 0)
		rc = write_if_missing(l->root, "mlperf-results.yaml", text, err);
	if (rc == 0)
		rc = make_path(path, err, "%s/%s/%s/systems", l->root, division(l),
			       l->organization);
	if (rc == 0)
		rc = path_make_dirs(path, err);
	return rc == 0 && (l->newer || !l->open) ? write_code(l, err) : rc;
}

int layout_leaf(const struct layout *l, const char *model, const char *command,
		char ret_leaf[RUN_PATH_MAX], struct shoal_err *err)
{
	char dir[RUN_PATH_MAX], name[32];
	int rc = command_dir(l, model, command, dir, err);

	if (rc == 0)
		rc = path_make_dirs(dir, err);
	if (rc == 0)
		rc = make_top(l, err);
	for (int i = 0; rc == 0 && i < 100; i++) {
		struct timespec now = clock_time(clock_wall()), rest;
		struct tm tm;

		gmtime_r(&now.tv_sec, &tm);
		strftime(name, sizeof(name), "%Y%m%d_%H%M%S", &tm);
		rc = path_join(dir, name, ret_leaf, RUN_PATH_MAX, err);
		if (rc < 0 || mkdir(ret_leaf, 0777) == 0)
			return rc;
		if (errno != EEXIST)
			return err_set_errno(err, err_errno(), "cannot create the folder '%s'",
					     ret_leaf);
		rest = (struct timespec){ .tv_nsec = 1000000000 - now.tv_nsec };
		if (rest.tv_nsec == 1000000000)
			rest = (struct timespec){ .tv_sec = 1 };
		nanosleep(&rest, NULL);
	}
	return rc < 0 ? rc : err_set(err, -EBUSY, "other runs take all names in '%s'", dir);
}

/* ---- Logs ---- */

/* The file system of @path: the longest mount point that contains it. */
static bool find_mount(const char *path, struct mntent *ret, char *strings, size_t cap)
{
	char real[PATH_MAX];
	struct mntent m;
	size_t best = 0;
	char buf[4096];
	FILE *f;

	if (!realpath(path, real))
		return false;
	f = setmntent("/proc/self/mounts", "r");
	while (f && getmntent_r(f, &m, buf, sizeof(buf))) {
		size_t len = strlen(m.mnt_dir);
		bool root = len == 1;

		if (len < best || strncmp(real, m.mnt_dir, len) != 0 ||
		    (!root && real[len] && real[len] != '/'))
			continue;
		if (snprintf(strings, cap, "%s%c%s", m.mnt_fsname, 0, m.mnt_dir) >= (int)cap)
			continue;
		best = len;
		ret->mnt_fsname = strings;
		ret->mnt_dir = strings + strlen(strings) + 1;
	}
	if (f)
		endmntent(f);
	return best > 0;
}

/* As `df` prints it, for the file systems of @paths alone: others may not respond. */
static void put_df(struct out *o, const char *const *paths, size_t nr)
{
	char strings[2][4096];
	struct mntent m[2] = { 0 };
	struct statvfs v;
	size_t found = 0;

	report_printf(o, "Filesystem     1K-blocks      Used Available Use%% Mounted on\n");
	for (size_t i = 0; i < nr; i++) {
		double total, used, rest;

		if (!find_mount(paths[i], &m[found], strings[found], sizeof(strings[found])) ||
		    statvfs(m[found].mnt_dir, &v) < 0 ||
		    (found > 0 && strcmp(m[0].mnt_dir, m[1].mnt_dir) == 0))
			continue;
		total = (double)v.f_blocks * (double)v.f_frsize / 1024;
		used = total - (double)v.f_bfree * (double)v.f_frsize / 1024;
		rest = (double)v.f_bavail * (double)v.f_frsize / 1024;
		report_printf(o, "%-14s %9.0f %9.0f %9.0f %3.0f%% %s\n", m[found].mnt_fsname, total,
			      used, rest, used + rest > 0 ? used / (used + rest) * 100 : 0,
			      m[found].mnt_dir);
		found++;
	}
	report_printf(o, "\n");
}

static int write_logs(const struct layout *l, const char *leaf, const struct layout_job *job,
		      struct shoal_err *err)
{
	const char *const paths[] = { l->root, job->data };
	const char *const kinds[] = { "stdout", "stderr" };
	struct report_file f;
	char name[64];
	int rc = 0;

	for (int i = 0; rc == 0 && i < 2; i++) {
		snprintf(name, sizeof(name), "training_%s.%s.log", job->command, kinds[i]);
		rc = report_file_open(&f, leaf, name, err);
		if (rc < 0)
			return rc;
		if (i == 0) {
			report_printf(&f.out, "%s\n\n", NOT_A_SUBMISSION);
			put_df(&f.out, paths, job->objects ? 1 : 2);
			out_write(&f.out, job->text, strlen(job->text));
		}
		rc = report_file_commit_unsynced(&f, err);
	}
	if (rc < 0 || strcmp(job->command, "datasize") == 0)
		return rc;
	rc = report_file_open(&f, leaf, LAYOUT_LOG, err);
	if (rc < 0)
		return rc;
	report_printf(&f.out, "[OUTPUT] %s\n", NOT_A_SUBMISSION);
	out_write(&f.out, job->text, strlen(job->text));
	return report_file_commit_unsynced(&f, err);
}

/* ---- Hydra's three files ---- */

/* JSON strings are YAML strings. */
static void put_override(struct out *o, const char *indent, const char *prefix, const char *text)
{
	char line[8192];
	struct json j = { .put = json_put_out, .self = o };

	if (snprintf(line, sizeof(line), "%s%s", prefix, text) >= (int)sizeof(line))
		line[sizeof(line) - 1] = '\0';
	report_printf(o, "%s- ", indent);
	json_string(&j, NULL, line);
	report_printf(o, "\n");
}

static void put_overrides(struct out *o, const char *indent, const struct layout_job *job)
{
	put_override(o, indent, "workload=", job->workload->name);
	for (size_t i = 0; i < job->nr_overrides; i++)
		put_override(o, indent,
			     strncmp(job->overrides[i], "++workload.", 11) == 0 ? ""
										: "++workload.",
			     job->overrides[i]);
}

static int write_hydra(const char *leaf, const struct layout_job *job, struct shoal_err *err)
{
	char dir[RUN_PATH_MAX];
	struct report_file f;
	int rc = path_join(leaf, LAYOUT_HYDRA_DIR, dir, sizeof(dir), err);

	if (rc == 0)
		rc = path_make_dirs(dir, err);
	if (rc == 0)
		rc = report_write_text(dir, LAYOUT_CONFIG, job->workload->asked, err);
	if (rc == 0)
		rc = report_file_open(&f, dir, LAYOUT_OVERRIDES, err);
	if (rc < 0)
		return rc;
	put_overrides(&f.out, "", job);
	rc = report_file_commit_unsynced(&f, err);
	if (rc == 0)
		rc = report_file_open(&f, dir, LAYOUT_HYDRA, err);
	if (rc < 0)
		return rc;
	report_printf(&f.out, "hydra:\n  mode: RUN\n  output_subdir: " LAYOUT_HYDRA_DIR
			      "\n  run:\n    dir:\n");
	put_override(&f.out, "      ", "", leaf);
	report_printf(&f.out, "  overrides:\n    hydra: []\n    task:\n");
	put_overrides(&f.out, "      ", job);
	return report_file_commit_unsynced(&f, err);
}

/* ---- Metadata and provenance ---- */

/* "b200" of "retinanet_b200" and of "a/retinanet_b200.yaml"; otherwise "unknown". */
static void find_accelerator(const char *workload, char ret[32])
{
	static const char *const known[] = { "a100", "h100", "b200", "mi355" };
	const char *under = strrchr(workload, '_');

	snprintf(ret, 32, "unknown");
	for (size_t i = 0; under && i < ARRAY_LEN(known); i++) {
		size_t len = strlen(known[i]);

		if (strncmp(under + 1, known[i], len) == 0 &&
		    (under[1 + len] == '\0' || under[1 + len] == '.'))
			snprintf(ret, 32, "%s", known[i]);
	}
}

static void put_hosts(struct json *j, const struct layout_job *job)
{
	char host[256] = "localhost";

	json_open_array(j, "hosts");
	for (size_t i = 0; job->result && i < job->result->nr_nodes; i++)
		json_string(j, NULL, job->result->nodes[i].host);
	if (!job->result) {
		gethostname(host, sizeof(host) - 1);
		json_string(j, NULL, host);
	}
	json_close_array(j);
}

static void put_changes(struct json *j, const struct layout_job *job)
{
	json_open_object(j, "override_parameters");
	for (size_t i = 0; i < job->nr_overrides; i++) {
		const char *text = job->overrides[i], *workload = strstr(text, "workload.");
		char key[256];

		if (workload && workload - text <= 2)
			text = workload + 9;
		snprintf(key, sizeof(key), "%.*s", (int)strcspn(text, "="), text);
		json_string(j, key, strchr(text, '=') + 1);
	}
	json_close_object(j);
}

static void put_args(struct json *j, const struct layout *l, const struct layout_job *job,
		     const char *accelerator)
{
	json_open_object(j, "args");
	json_string(j, "program", "training");
	json_string(j, "command", job->command);
	json_string(j, "model", job->workload->model);
	json_string(j, "accelerator_type", accelerator);
	json_u64(j, "num_processes", job->nr_processes);
	json_u64(j, "num_accelerators", job->nr_processes);
	json_string(j, "data_dir", job->data);
	json_string(j, "results_dir", l->root);
	json_string(j, "systemname", l->system);
	json_string(j, "data_access_protocol", job->objects ? "object" : "file");
	put_hosts(j, job);
	json_close_object(j);
}

/* The report generator reads a run's figures here. */
static void put_metrics(struct json *j, const struct run_result *r)
{
	const struct run_summary *s = &r->train;

	json_open_object(j, "metrics");
	json_real(j, "train_au_mean_percentage", s->au, 12);
	json_string(j, "train_au_meet_expectation",
		    s->meets && !run_result_unfit(r) ? "success" : "fail");
	json_real(j, "train_throughput_mean_samples_per_second", s->throughput, 12);
	json_real(j, "train_io_mean_MB_per_second", s->io, 12);
	json_close_object(j);
}

static int write_metadata(const struct layout *l, const char *leaf, const struct layout_job *job,
			  const struct yaml_node *parameters, struct shoal_err *err)
{
	const char *when = strrchr(leaf, '/') + 1;
	char name[64], accelerator[32];
	struct report_file f;
	struct json j;
	int rc;

	find_accelerator(job->workload->name, accelerator);
	snprintf(name, sizeof(name), "training_%s_metadata.json", when);
	rc = report_file_open(&f, leaf, name, err);
	if (rc < 0)
		return rc;
	j = report_json(&f);
	json_open_object(&j, NULL);
	json_string(&j, "benchmark_type", "training");
	json_string(&j, "model", job->workload->model);
	json_string(&j, "command", job->command);
	json_string(&j, "run_datetime", when);
	json_u64(&j, "num_processes", job->nr_processes);
	json_string(&j, "accelerator", accelerator);
	json_string(&j, "result_dir", leaf);
	json_string(&j, "verification", division(l));
	json_string(&j, "tool", "shoal");
	json_string(&j, "note", NOT_A_SUBMISSION);
	json_string(&j, "provenance_file", LAYOUT_PROVENANCE);
	put_args(&j, l, job, accelerator);
	put_changes(&j, job);
	core_config_put_json(&j, "parameters", parameters);
	if (job->result)
		put_metrics(&j, job->result);
	json_close_object(&j);
	return report_file_commit(&f, err);
}

static void put_stamp(struct json *j, const struct layout_job *job, const char *code)
{
	json_open_object(j, "tool");
	json_string(j, "name", "shoal");
	json_string(j, "version", shoal_version());
	json_string(j, "git_sha", "unknown");
	json_format(j, "code_image", "%s%s", *code ? TREE_POINTER_PREFIX : "unknown", code);
	json_close_object(j);
	json_open_object(j, "dlio");
	json_string(j, "version", "unknown");
	json_string(j, "source", "unknown");
	json_string(j, "commit", "unknown");
	json_close_object(j);
	json_open_object(j, "storage_library");
	json_string(j, "name", job->objects ? "shoal" : "none");
	if (job->objects)
		json_string(j, "version", shoal_version());
	json_close_object(j);
}

static void put_core(struct json *j, const struct core_config *core)
{
	json_open_object(j, "core_config");
	json_string(j, "algorithm", "core-config-v1");
	json_string(j, "allowlist", "training@1");
	json_string(j, "hash", core->hash);
	json_open_array(j, "keys");
	for (size_t i = 0; i < core->nr; i++)
		json_string(j, NULL, core->keys[i].name);
	json_close_array(j);
	json_close_object(j);
}

static int write_provenance(const struct layout *l, const char *leaf, const struct layout_job *job,
			    const struct core_config *core, struct shoal_err *err)
{
	static const char *const tags[][2] = {
		{ "rules_edition", "tool-constant" },
		{ "layout_version", "tool-constant" },
		{ "tool", "runtime" },
		{ "dlio", "n/a" },
		{ "storage_library", "runtime" },
		{ "core_config", "runtime" },
	};
	char dir[RUN_PATH_MAX], code[33] = "", pointer[64], now[REPORT_TIME_BYTES];
	struct report_file f;
	struct json j;
	int rc = code_dir(l, dir, err);

	if (rc == 0 && (l->newer || !l->open))
		rc = tree_code_hash(dir, code, err);
	snprintf(pointer, sizeof(pointer), TREE_POINTER_PREFIX "%s\n", code);
	if (rc == 0 && l->newer)
		rc = report_write_text(leaf, TREE_POINTER, pointer, err);
	if (rc == 0)
		rc = report_file_open(&f, leaf, LAYOUT_PROVENANCE, err);
	if (rc < 0)
		return rc;
	report_time(clock_wall(), now);
	j = report_json(&f);
	json_open_object(&j, NULL);
	json_string(&j, "schema", "mlps-run-provenance/1");
	json_string(&j, "rules_edition", "3.0");
	json_u64(&j, "layout_version", l->newer ? 3 : 2);
	put_stamp(&j, job, code);
	put_core(&j, core);
	json_format(&j, "stamped_at", "%.19sZ", now);
	json_format(&j, "stamped_by", "shoal %s", shoal_version());
	json_open_object(&j, "provenance");
	for (size_t i = 0; i < ARRAY_LEN(tags); i++)
		json_string(&j, tags[i][0], tags[i][1]);
	json_close_object(&j);
	json_string(&j, "notes", NOT_A_SUBMISSION);
	json_close_object(&j);
	return report_file_commit_unsynced(&f, err);
}

/* ---- The leaf ---- */

int layout_write(const struct layout *l, const char *leaf, const struct layout_job *job,
		 struct shoal_err *err)
{
	const char *asked = job->workload->asked;
	struct core_config *core = malloc(sizeof(*core));
	struct yaml_node *root = NULL, *parameters;
	int rc = core ? 0 : err_set(err, -ENOMEM, "out of memory");

	if (rc == 0)
		rc = yaml_parse(asked, strlen(asked), "the workload", false, &root, err);
	if (rc == 0) {
		parameters = yaml_node_child(root, "workload", 8);
		if (!parameters)
			parameters = root;
		rc = core_config_compute(parameters, core, err);
	}
	if (rc == 0)
		rc = write_logs(l, leaf, job, err);
	if (rc == 0 && strcmp(job->command, "datasize") != 0)
		rc = write_hydra(leaf, job, err);
	if (rc == 0)
		rc = write_provenance(l, leaf, job, core, err);
	if (rc == 0)
		rc = write_metadata(l, leaf, job, parameters, err);
	if (rc == 0 && job->result)
		rc = tree_write_rows(leaf, err);
	if (root)
		yaml_free(root);
	free(core);
	return rc;
}
