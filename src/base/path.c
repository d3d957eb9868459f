#include "base/path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *path_dir(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

bool path_of_program(char *ret_dir, size_t cap)
{
	ssize_t len = readlink("/proc/self/exe", ret_dir, cap - 1);
	char *slash;

	ret_dir[len > 0 ? len : 0] = '\0';
	slash = strrchr(ret_dir, '/');
	if (slash)
		*slash = '\0';
	return slash != NULL;
}

const char *path_tmp_dir(const char *chosen)
{
	const char *usual = getenv("TMPDIR");

	if (chosen)
		return chosen;
	return usual && *usual ? usual : "/tmp";
}

int path_join(const char *dir, const char *name, char *buf, size_t cap, struct shoal_err *err)
{
	if (snprintf(buf, cap, "%s/%s", dir, name) >= (int)cap)
		return err_set(err, -ENAMETOOLONG, "the path '%.100s.../%.100s' is too long", dir,
			       name);
	return 0;
}

int path_make_dirs(const char *path, struct shoal_err *err)
{
	char part[4096];
	size_t len = strlen(path);

	if (len == 0 || len >= sizeof(part))
		return err_set(err, -ENAMETOOLONG, "the path '%.100s' is %s", path,
			       len ? "too long" : "empty");
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		/* EISDIR: some systems say so of "/". */
		if (mkdir(part, 0777) < 0 && errno != EEXIST && errno != EISDIR)
			return err_set_errno(err, err_errno(), "cannot create the folder '%s'",
					     part);
	}
	return 0;
}

/* Cut off the last component. False if there is no other. */
static bool path_cut_last(char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	while (len > 0 && path[len - 1] != '/')
		len--;
	path[len] = '\0';
	return len > 0;
}

unsigned path_count_missing(const char *path)
{
	char part[4096];
	struct stat st;
	unsigned nr = 0;

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part) || !*part)
		return 0;
	while (lstat(part, &st) < 0 && errno == ENOENT) {
		nr++;
		if (!path_cut_last(part))
			break;
	}
	return nr;
}

void path_remove_empty(const char *path, unsigned nr)
{
	char part[4096];

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return;
	for (; nr > 0 && rmdir(part) == 0; nr--)
		if (!path_cut_last(part))
			return;
}

bool path_is_inside(const char *path, const char *dir)
{
	char top[PATH_MAX], part[PATH_MAX], full[PATH_MAX];
	size_t len;

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return false;
	if (!realpath(dir, top)) { /* it will be made */
		len = strlen(dir);
		return strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
	}
	while (!realpath(*part ? part : ".", full))
		if (errno != ENOENT || !*part)
			return false;
		else
			(void)path_cut_last(part);
	len = strlen(top);
	return strncmp(full, top, len) == 0 &&
	       (full[len] == '\0' || full[len] == '/' || top[len - 1] == '/');
}

bool path_has_end(const char *path, const char *end)
{
	size_t len = strlen(path), end_len = strlen(end);

	return len >= end_len && strcmp(path + len - end_len, end) == 0;
}

static bool is_partial(const char *base, size_t len)
{
	static const char end[] = ".partial";
	size_t end_len = sizeof(end) - 1, digits = 0;

	if (base[0] != '.' || len < end_len + 10 || memcmp(base + len - end_len, end, end_len) != 0)
		return false;
	len -= end_len;
	while (digits < 8 && strchr("0123456789abcdef", base[len - 1 - digits]))
		digits++;
	return digits == 8 && base[len - 9] == '.';
}

/* ".train.shoal-manifest", beside the lists of a manifest. */
static bool is_note_of_lists(const char *base, size_t len)
{
	static const char end[] = PATH_NOTE_OF_LISTS;
	size_t end_len = sizeof(end) - 1;

	return base[0] == '.' && len > end_len && memcmp(base + len - end_len, end, end_len) == 0;
}

size_t path_list_prefix(const char *name, size_t len)
{
	static const char *const before[] = { "_rank", "_epoch" };

	if (len < 4 || memcmp(name + len - 4, ".txt", 4) != 0)
		return 0;
	len -= 4;
	for (size_t i = 0; i < ARRAY_LEN(before); i++) {
		size_t word = strlen(before[i]), end = len;

		while (len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9')
			len--;
		if (len == end || len <= word || memcmp(name + len - word, before[i], word) != 0)
			return 0;
		len -= word;
	}
	return name[len - 1] == '/' ? 0 : len;
}

size_t path_folder_len(const char *name, size_t len)
{
	const char *slash = memrchr(name, '/', len);

	return slash ? (size_t)(slash - name) + 1 : 0;
}

bool path_in_folder(const char *name, size_t folder, const char *which)
{
	size_t len = strlen(which);

	return folder > len && memcmp(name + folder - 1 - len, which, len) == 0 &&
	       (folder == len + 1 || name[folder - 2 - len] == '/');
}

bool path_compare_own(const char *name, size_t len)
{
	static const char *const own[] = { ".shoal-dataset",      ".shoal-lock",
					   "catalog.shoal",       "catalog-train.shoal",
					   "catalog-valid.shoal", ".sweep.lock" };
	size_t folder = path_folder_len(name, len);
	const char *base = name + folder;

	len -= folder;
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (len == strlen(own[i]) && memcmp(base, own[i], len) == 0)
			return true;
	return len > 0 && (is_partial(base, len) || is_note_of_lists(base, len) ||
			   path_in_folder(name, folder, ".shoal-run"));
}
