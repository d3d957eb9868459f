#include "index/root.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "store/uri.h"

static int set_uri(struct index_root *root, const char *prefix, const char *text, size_t len,
		   struct shoal_err *err)
{
	size_t prefix_len = strlen(prefix);
	const char *path;

	if (prefix_len + len > INDEX_ROOT_MAX)
		return err_set_hint(err, -EINVAL, SHOAL_HINT_ROOT,
				    "the root has more than %d bytes", INDEX_ROOT_MAX);
	memcpy(root->uri, prefix, prefix_len);
	memcpy(root->uri + prefix_len, text, len);
	root->len = prefix_len + len;
	/* "/data/" and "/data" are the same place; the root of the file system keeps its slash. */
	while (root->len > store_uri_scheme_len(root->uri, root->len) + 1 &&
	       root->uri[root->len - 1] == '/')
		root->len--;
	root->uri[root->len] = '\0';
	if (!is_plain_utf8(root->uri, root->len))
		return err_set_hint(err, -EINVAL, SHOAL_HINT_ROOT,
				    "the root must be UTF-8 without control characters");
	path = store_local_path(root->uri);
	root->is_file = path != NULL;
	root->path_at = path ? (size_t)(path - root->uri) : 0;
	return store_uri_check_root(root->uri, err);
}

/* A path below the current directory, or that directory itself. */
static int set_relative(struct index_root *root, const char *path, struct shoal_err *err)
{
	char *cwd = getcwd(NULL, 0);
	char *joined = NULL;
	int rc;

	if (!cwd)
		return err_set_errno(err, err_errno(), "cannot determine the current directory");
	while (path[0] == '.' && path[1] == '/')
		path += 2;
	if (asprintf(&joined, "%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd,
		     strcmp(path, ".") == 0 ? "" : path) < 0)
		joined = NULL;
	free(cwd);
	if (!joined)
		return err_set(err, -ENOMEM, "out of memory");
	rc = set_uri(root, STORE_FILE_URI, joined, strlen(joined), err);
	free(joined);
	return rc;
}

int index_root_init(struct index_root *root, const char *given, const char *first_name,
		    size_t first_len, struct shoal_err *err)
{
	size_t scheme;

	root->from_first = false;
	if (given && !*given)
		return err_set(err, -EINVAL, "the root is empty: give a URI or a path");
	if (given && store_uri_scheme_len(given, strlen(given)))
		return set_uri(root, "", given, strlen(given), err);
	if (given && given[0] == '/')
		return set_uri(root, STORE_FILE_URI, given, strlen(given), err);
	if (given)
		return set_relative(root, given, err);
	scheme = store_uri_scheme_len(first_name, first_len);
	root->from_first = scheme || (first_len && first_name[0] == '/');
	if (store_uri_is_file(first_name, first_len))
		return set_uri(root, STORE_FILE_URI, "/", 1, err);
	if (scheme) {
		const char *slash = memchr(first_name + scheme, '/', first_len - scheme);

		return set_uri(root, "", first_name,
			       slash ? (size_t)(slash - first_name) : first_len, err);
	}
	if (first_len && first_name[0] == '/')
		return set_uri(root, STORE_FILE_URI, "/", 1, err);
	return set_relative(root, ".", err);
}

/* Skip @prefix and the slash after it (it may end in one). */
static bool root_step_over(const char *prefix, size_t prefix_len, const char **name, size_t *len)
{
	size_t skip = prefix_len;

	if (*len < prefix_len || memcmp(*name, prefix, prefix_len) != 0)
		return false;
	if (prefix_len == 0 || prefix[prefix_len - 1] != '/') {
		if (*len == prefix_len || (*name)[prefix_len] != '/')
			return false;
		skip++;
	}
	*name += skip;
	*len -= skip;
	return true;
}

/* Drop "./" and "/" at the start of a path. */
static void tidy_path(const char **path, size_t *len)
{
	for (;;) {
		size_t skip = 0;

		if (*len >= 1 && (*path)[0] == '/')
			skip = 1;
		else if (*len >= 2 && (*path)[0] == '.' && (*path)[1] == '/')
			skip = 2;
		if (skip == 0)
			break;
		*path += skip;
		*len -= skip;
	}
}

int index_root_strip(const struct index_root *root, const char **name, size_t *len,
		     struct shoal_err *err)
{
	const char *whole = *name;
	size_t whole_len = *len;
	bool below = root_step_over(root->uri, root->len, name, len), leads_out;

	if (!below && root->is_file && whole[0] == '/')
		below = root_step_over(root->uri + root->path_at, root->len - root->path_at, name,
				       len);
	else if (!below && !store_uri_scheme_len(whole, whole_len) && !root->from_first)
		below = true; /* it is relative already */
	if (below && root->is_file)
		tidy_path(name, len);
	/* Stores of files refuse such a name: it may lead anywhere. */
	leads_out = below && root->is_file && path_goes_up(*name, *len);
	if (below && *len > 0 && !leads_out)
		return 0;
	return err_set(err, -EINVAL, "'%.*s' is not a name below the root '%s'%s",
		       (int)u64_min(whole_len, 200), whole, root->uri,
		       leads_out ? ": give it without '..'" : "");
}
