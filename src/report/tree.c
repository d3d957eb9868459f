#include "report/tree.h"

#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/path.h"
#include "report/layout.h"
#include "report/write.h"
#include "run/folder.h"
#include "shoal.h"

enum { DEPTH_MAX = 32 }; /* directories inside directories of code */

/* ---- Directories ---- */

static int compare_tree_names(const void *a, const void *b)
{
	return strcmp(((const struct tree_name *)a)->name, ((const struct tree_name *)b)->name);
}

static bool is_dir(int at, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
		return e->d_type == DT_DIR;
	return fstatat(at, e->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static int add_name(struct tree_names *names, const char *name, bool dir)
{
	/* A directory of results has a few entries per run and rank. */
	struct tree_name *all = realloc(names->all, (names->nr + 1) * sizeof(*all));

	if (!all)
		return -ENOMEM;
	names->all = all;
	all[names->nr] = (struct tree_name){ .name = strdup(name), .dir = dir };
	return all[names->nr].name ? (names->nr++, 0) : -ENOMEM;
}

int tree_list(const char *dir, struct tree_names *ret_names, struct shoal_err *err)
{
	const struct dirent *e;
	DIR *d = opendir(dir);
	int rc = 0;

	*ret_names = (struct tree_names){ 0 };
	if (!d)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : err_set_errno(err, err_errno(), "cannot list '%.500s'", dir);
	while (rc == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			rc = add_name(ret_names, e->d_name, is_dir(dirfd(d), e));
	closedir(d);
	if (ret_names->nr > 0)
		qsort(ret_names->all, ret_names->nr, sizeof(*ret_names->all), compare_tree_names);
	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

void tree_names_release(struct tree_names *names)
{
	for (size_t i = 0; i < names->nr; i++)
		free(names->all[i].name);
	free(names->all);
	*names = (struct tree_names){ 0 };
}

bool tree_leaf_time(const char *name, double *ret_seconds)
{
	struct tm tm = { 0 };
	const char *end;

	if (strlen(name) != 15 || strspn(name, "0123456789") != 8 || name[8] != '_' ||
	    strspn(name + 9, "0123456789") != 6)
		return false;
	end = strptime(name, "%Y%m%d_%H%M%S", &tm);
	*ret_seconds = (double)timegm(&tm);
	return end && !*end;
}

/* ---- Documents ---- */

int tree_load(const char *path, struct yaml_node **ret_root, struct shoal_err *err)
{
	struct map m = MAP_CLOSED;
	int rc = map_open(path, &m, err);

	*ret_root = NULL;
	if (rc < 0)
		return rc;
	if (m.len > YAML_BYTES_MAX)
		rc = err_set(err, -EINVAL, "'%.500s' has more than %u bytes", path, YAML_BYTES_MAX);
	else
		rc = yaml_parse((const char *)m.addr, m.len, path, false, ret_root, err);
	map_close(&m);
	if (rc == 0 && (*ret_root)->kind != YAML_MAP) {
		*ret_root = yaml_free(*ret_root);
		rc = err_set(err, -EINVAL, "'%.500s' is not an object with keys", path);
	}
	return rc;
}

const char *tree_text(struct yaml_node *root, const char *path, const char *missing)
{
	const struct yaml_node *n = yaml_find(root, path);

	return n && n->kind == YAML_SCALAR && !yaml_node_is_null(n) ? n->text : missing;
}

double tree_number(struct yaml_node *root, const char *path, double missing)
{
	const char *text = tree_text(root, path, "");
	char *end;
	double v = strtod(text, &end);

	return *text && !*end ? v : missing;
}

/* ---- Code ---- */

/* Not part of the hash, by upstream's rules: files that tools and builds leave. */
static bool is_left_out(const char *name, bool dir)
{
	static const char *const dirs[] = {
		".git",          ".idea", ".vscode",      ".claude",   ".agent",
		".agents",       ".roo",  ".planning",    ".gsd-tmp",  "__pycache__",
		".pytest_cache", ".venv", "node_modules", "build",     "dist",
		".tox",          "test",  "tests",        "*.egg-info"
	};
	static const char *const files[] = { ".code-hash.json", "*.pyc", "*.pyo", ".DS_Store",
					     "Thumbs.db" };
	const char *const *patterns = dir ? dirs : files;
	size_t nr = dir ? ARRAY_LEN(dirs) : ARRAY_LEN(files);

	for (size_t i = 0; i < nr; i++)
		if (fnmatch(patterns[i], name, 0) == 0)
			return true;
	return false;
}

static int gather_code(const char *dir, const char *below, unsigned depth, struct tree_names *files,
		       struct shoal_err *err)
{
	char path[PATH_MAX], name[PATH_MAX];
	struct tree_names here;
	int rc = path_join(dir, below, path, sizeof(path), err);

	if (rc < 0)
		return rc;
	if (depth == DEPTH_MAX)
		return err_set(err, -ELOOP, "'%.500s' has too many levels", dir);
	rc = tree_list(path, &here, err);
	for (size_t i = 0; rc == 0 && i < here.nr; i++) {
		const struct tree_name *n = &here.all[i];
		struct stat st;

		if (is_left_out(n->name, n->dir))
			continue;
		if (snprintf(name, sizeof(name), "%s%s%s", below, *below ? "/" : "", n->name) >=
		    (int)sizeof(name))
			rc = err_set(err, -ENAMETOOLONG, "a path below '%.500s' is too long", dir);
		else if (n->dir)
			rc = gather_code(dir, name, depth + 1, files, err);
		else if (path_join(dir, name, path, sizeof(path), NULL) == 0 &&
			 lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
			 add_name(files, name, false) < 0)
			rc = err_set(err, -ENOMEM, "out of memory");
	}
	tree_names_release(&here);
	return rc;
}

int tree_code_hash(const char *dir, char ret_hex[33], struct shoal_err *err)
{
	struct tree_names files = { 0 };
	char path[PATH_MAX], hex[HASH_HEX_MAX];
	struct hash h;
	int rc = gather_code(dir, "", 0, &files, err);

	if (files.nr > 0)
		qsort(files.all, files.nr, sizeof(*files.all), compare_tree_names);
	hash_start(&h, false);
	for (size_t i = 0; rc == 0 && i < files.nr; i++) {
		struct map m = MAP_CLOSED;

		rc = path_join(dir, files.all[i].name, path, sizeof(path), err);
		if (rc == 0)
			rc = map_open(path, &m, err);
		if (rc < 0)
			break;
		hash_add(&h, files.all[i].name, strlen(files.all[i].name));
		hash_add(&h, m.addr, m.len);
		map_close(&m);
	}
	hash_hex(&h, hex);
	memcpy(ret_hex, hex, 33);
	tree_names_release(&files);
	return rc;
}

/* The file that stands in the place of the code. */
#define CODE_FILE "SHOAL.txt"

static void put_code_text(char *text, size_t cap)
{
	snprintf(
		text, cap,
		"The results were made by the command shoal, version %s, which is not the code of\n"
		"MLPerf Storage. This file stands in the place of that code.\n",
		shoal_version());
}

void tree_own_code_hash(char ret_hex[33])
{
	char text[512], hex[HASH_HEX_MAX];
	struct hash h;

	put_code_text(text, sizeof(text));
	hash_start(&h, false);
	hash_add(&h, CODE_FILE, strlen(CODE_FILE));
	hash_add(&h, text, strlen(text));
	hash_hex(&h, hex);
	memcpy(ret_hex, hex, 33);
}

struct tree_code_name tree_code_name(const char *hex)
{
	struct tree_code_name name;

	snprintf(name.text, sizeof(name.text), "code-%.8s", hex);
	return name;
}

int tree_write_code(const char *dir, struct shoal_err *err)
{
	char text[512], hex[33], path[PATH_MAX], now[REPORT_TIME_BYTES];
	struct report_file f;
	struct json j;
	int rc = path_join(dir, ".code-hash.json", path, sizeof(path), err);

	if (rc < 0 || access(path, F_OK) == 0)
		return rc;
	rc = path_make_dirs(dir, err);
	put_code_text(text, sizeof(text));
	if (rc == 0)
		rc = report_write_text(dir, CODE_FILE, text, err);
	if (rc == 0)
		rc = tree_code_hash(dir, hex, err);
	if (rc == 0)
		rc = report_file_open(&f, dir, ".code-hash.json", err);
	if (rc < 0)
		return rc;
	report_time(clock_wall(), now);
	j = report_json(&f);
	json_open_object(&j, NULL);
	json_string(&j, "hash", hex);
	json_string(&j, "algorithm", "md5-tree-v2");
	json_format(&j, "captured_at", "%.19sZ", now);
	json_format(&j, "mlpstorage_version", "none: shoal %s", shoal_version());
	json_null(&j, "git_sha");
	json_close_object(&j);
	return report_file_commit(&f, err);
}

/* ---- Rows ---- */

static void put_row(struct json *j, const char *name, struct yaml_node *summary)
{
	static const char *const figures[] = { "train_au_mean_percentage",
					       "train_throughput_mean_samples_per_second",
					       "train_io_mean_MB_per_second" };

	json_open_object(j, NULL);
	json_string(j, "run_datetime", name);
	json_string(j, "tool", "shoal");
	json_real(j, "num_accelerators", tree_number(summary, "num_accelerators", 0), 17);
	json_string(j, "train_au_meet_expectation",
		    tree_text(summary, "metric.train_au_meet_expectation", "unknown"));
	for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
		char path[64];

		snprintf(path, sizeof(path), "metric.%s", figures[i]);
		json_real(j, figures[i], tree_number(summary, path, 0), 12);
	}
	json_close_object(j);
}

int tree_write_rows(const char *leaf, struct shoal_err *err)
{
	char *dir = path_dir(leaf);
	struct tree_names names = { 0 };
	struct report_file f;
	struct json j;
	int rc = dir ? tree_list(dir, &names, err) : err_set(err, -ENOMEM, "out of memory");

	if (rc == 0)
		rc = report_file_open(&f, dir, LAYOUT_RESULTS, err);
	if (rc == 0) {
		j = report_json(&f);
		json_open_array(&j, NULL);
		for (size_t i = 0; i < names.nr; i++) {
			struct yaml_node *summary;
			struct shoal_err ignored;
			char path[PATH_MAX];
			double when;

			if (!tree_leaf_time(names.all[i].name, &when) ||
			    snprintf(path, sizeof(path), "%s/%s/%s", dir, names.all[i].name,
				     run_file_name(RUN_FILE_SUMMARY)) >= (int)sizeof(path) ||
			    tree_load(path, &summary, &ignored) < 0)
				continue;
			put_row(&j, names.all[i].name, summary);
			yaml_free(summary);
		}
		json_close_array(&j);
		rc = report_file_commit(&f, err);
	}
	tree_names_release(&names);
	free(dir);
	return rc;
}
