/* Finding workload files: shipped ones by name, others by path. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "base/text.h"
#include "built.h"
#include "workload/keys.h"

/* ---- The folder ---- */

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* SHOAL_WORKLOADS; next to the program, as in a build; below its prefix; the installed location. */
static int find_folder(char *ret_path, size_t cap, struct shoal_err *err)
{
	static const char *const beside[] = { "workloads", "../share/shoal/workloads" };
	const char *set = getenv("SHOAL_WORKLOADS");
	char exe[PATH_MAX];

	if (set && *set) {
		if (strlen(set) >= cap || !is_folder(set))
			return err_set(err, -ENOENT, "SHOAL_WORKLOADS: '%.200s' is not a folder",
				       set);
		snprintf(ret_path, cap, "%s", set);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(beside) && path_of_program(exe, sizeof(exe)); i++) {
		int n = snprintf(ret_path, cap, "%s/%s", exe, beside[i]);

		if (n > 0 && (size_t)n < cap && is_folder(ret_path))
			return 0;
	}
	if (is_folder(SHOAL_WORKLOADS_INSTALLED)) {
		snprintf(ret_path, cap, "%s", SHOAL_WORKLOADS_INSTALLED);
		return 0;
	}
	return err_set(err, -ENOENT,
		       "the shipped workloads are neither beside the program nor in %s: "
		       "set SHOAL_WORKLOADS to their folder",
		       SHOAL_WORKLOADS_INSTALLED);
}

static bool has_end(const char *name, const char *end)
{
	size_t len = strlen(name), n = strlen(end);

	return len > n && strcmp(name + len - n, end) == 0;
}

static int is_yaml(const struct dirent *e)
{
	return e->d_name[0] != '.' && has_end(e->d_name, ".yaml");
}

/* Names without extension, sorted; release with free_names(). There are a few dozen. */
static int read_names(const char *folder, struct dirent ***ret_names, struct shoal_err *err)
{
	int nr = scandir(folder, ret_names, is_yaml, alphasort);

	if (nr < 0)
		return err_set_errno(err, err_errno(), "cannot list '%.300s'", folder);
	for (int i = 0; i < nr; i++) {
		char *name = (*ret_names)[i]->d_name;

		name[strlen(name) - strlen(".yaml")] = '\0';
	}
	return nr;
}

static void free_names(struct dirent **names, int nr)
{
	for (int i = 0; i < nr; i++)
		free(names[i]);
	free(names);
}

int workload_list(int (*found)(void *self, const char *name, const char *path), void *self,
		  struct shoal_err *err)
{
	char folder[PATH_MAX], path[PATH_MAX + NAME_MAX + 8];
	struct dirent **names = NULL;
	int rc = find_folder(folder, sizeof(folder), err), nr;

	if (rc < 0)
		return rc;
	nr = read_names(folder, &names, err);
	if (nr < 0)
		return nr;
	for (int i = 0; rc == 0 && i < nr; i++) {
		snprintf(path, sizeof(path), "%s/%s.yaml", folder, names[i]->d_name);
		rc = found(self, names[i]->d_name, path);
	}
	free_names(names, nr);
	return rc;
}

/* ---- Unknown names ---- */

/* "retinanet" exists for several accelerators; "retinanet_b20" is misspelt. */
static int fail_name(const char *name, const char *folder, struct shoal_err *err)
{
	struct dirent **names = NULL;
	const char *words[256];
	size_t nr_words = 0, len = strlen(name), at = 0;
	char alike[300] = "";
	int nr = read_names(folder, &names, err);

	if (nr < 0)
		return nr;
	for (int i = 0; i < nr && nr_words < ARRAY_LEN(words); i++) {
		const char *w = names[i]->d_name;

		words[nr_words++] = w;
		if (len && strncmp(w, name, len) == 0 && w[len] == '_' && at < sizeof(alike))
			at += (size_t)snprintf(alike + at, sizeof(alike) - at, "%s%s",
					       at ? ", " : "", w);
	}
	if (!at) {
		const char *near = text_nearest(name, words, nr_words);

		snprintf(alike, sizeof(alike), "%s", near ? near : "");
	}
	free_names(names, nr);
	return err_set(err, -ESRCH,
		       "there is no workload '%.100s'%s%s%s 'shoal workloads' lists those that "
		       "ship; a file is named with a slash or .yaml",
		       name, *alike ? "; did you mean " : ".", alike, *alike ? "?" : "");
}

/* ---- Reading ---- */

#define READ_STEP 65536u

/* Read a whole file of any type: one byte above the limit is enough to refuse it. */
static int read_all(const char *path, struct buf *buf, struct shoal_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 1;

	if (fd < 0)
		return err_set_errno(err, err_errno(), "cannot open '%.300s'", path);
	while (rc > 0 && buf->len <= YAML_BYTES_MAX) {
		uint8_t *room = buf_reserve(buf, READ_STEP);
		ssize_t n;

		if (!room) {
			rc = err_set(err, -ENOMEM, "out of memory");
			break;
		}
		n = read(fd, room, READ_STEP);
		if (n < 0 && errno == EINTR)
			continue;
		rc = n < 0 ? err_set_errno(err, err_errno(), "cannot read '%.300s'", path) : (int)n;
		buf->len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return rc < 0 ? rc : 0;
}

/* The path: @where itself, or the shipped file of that name. */
static int locate_workload(const char *where, char *path, size_t cap, struct shoal_err *err)
{
	char folder[PATH_MAX];
	int rc, n;

	if (strchr(where, '/') || has_end(where, ".yaml") || has_end(where, ".yml")) {
		n = snprintf(path, cap, "%s", where);
		return n > 0 && (size_t)n < cap
			       ? 0
			       : err_set(err, -ENAMETOOLONG, "the path is too long");
	}
	rc = find_folder(folder, sizeof(folder), err);
	if (rc < 0)
		return rc;
	n = snprintf(path, cap, "%s/%s.yaml", folder, where);
	if (n > 0 && (size_t)n < cap && access(path, F_OK) == 0)
		return 0;
	return fail_name(where, folder, err);
}

int workload_load(const char *where, char *const *overrides, size_t nr, workload_warn_fn *warn,
		  void *self, struct workload **ret_workload, struct shoal_err *err)
{
	struct buf buf = { .max = YAML_BYTES_MAX + 2 * READ_STEP };
	char path[PATH_MAX];
	int rc = locate_workload(where, path, sizeof(path), err);

	if (rc == 0)
		rc = read_all(path, &buf, err);
	if (rc == 0)
		rc = workload_parse(buf.data ? (const char *)buf.data : "", buf.len, where,
				    overrides, nr, warn, self, ret_workload, err);
	buf_release(&buf);
	return rc;
}
