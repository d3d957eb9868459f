/* The rules of September 2026: the pool of code, datasize, and what mlpstorage wrote of file
 * systems. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "report/check_private.h"
#include "report/layout.h"

#define HASH_DIGITS 32
#define FS_SIDECAR  "fs_separation.json"

/* ---- The pool of code ---- */

static bool is_pool(const char *dir)
{
	return check_has(dir, TREE_POOL_MARK);
}

bool check_is_pool(const char *root, const char *name)
{
	char dir[CHECK_PATH_MAX];

	check_path(dir, root, name);
	return strcmp(name, TREE_POOL) == 0 || is_pool(dir);
}

/* The hash that a leaf's pointer names. False: the file is malformed, or there is none. */
static bool read_pointer(const char *leaf, char ret_hex[HASH_DIGITS + 1], bool *ret_there)
{
	const size_t prefix = strlen(TREE_POINTER_PREFIX);
	struct map m = MAP_CLOSED;
	char path[CHECK_PATH_MAX];
	bool good;

	check_path(path, leaf, TREE_POINTER);
	*ret_there = map_open(path, &m, NULL) == 0;
	if (!*ret_there)
		return false;
	good = m.len >= prefix + HASH_DIGITS && m.len <= prefix + HASH_DIGITS + 2 &&
	       memcmp(m.addr, TREE_POINTER_PREFIX, prefix) == 0;
	if (good) {
		memcpy(ret_hex, (const char *)m.addr + prefix, HASH_DIGITS);
		ret_hex[HASH_DIGITS] = '\0';
		good = strspn(ret_hex, "0123456789abcdef") == HASH_DIGITS;
	}
	map_close(&m);
	return good;
}

static bool pool_has(const char *root, const char *pool, const char *hex)
{
	char dir[CHECK_PATH_MAX], path[CHECK_PATH_MAX];

	check_path(dir, root, pool);
	check_path(path, dir, tree_code_name(hex).text);
	return access(path, F_OK) == 0;
}

static void note_reference(struct check *c, const char *hex)
{
	char(*all)[33];

	for (size_t i = 0; i < c->nr_references; i++)
		if (strcmp(c->references[i], hex) == 0)
			return;
	/* A tree refers to a few versions of the code. */
	all = realloc(c->references, (c->nr_references + 1) * sizeof(*all));
	if (!all) {
		c->rc = err_set(c->err, -ENOMEM, "out of memory");
		return;
	}
	c->references = all;
	memcpy(all[c->nr_references++], hex, HASH_DIGITS + 1);
}

/* The pointer of a leaf: "" if it cannot be used. */
static void check_pointer(struct check *c, const struct check_system *s, const char *leaf,
			  char ret_hex[HASH_DIGITS + 1])
{
	bool there;

	if (!read_pointer(leaf, ret_hex, &there)) {
		ret_hex[0] = '\0';
		if (there)
			check_find(c, "CHECK-01", leaf,
				   "its " TREE_POINTER " is not '" TREE_POINTER_PREFIX
				   "' and 32 hexadecimal digits");
		else if (c->has_pool)
			check_find(c, "CHECK-01", leaf, "there is no file '" TREE_POINTER "'");
		return;
	}
	note_reference(c, ret_hex);
	if (c->has_pool && !pool_has(c->root, TREE_POOL, ret_hex) &&
	    !pool_has(c->root, s->organization, ret_hex))
		check_find(c, "CHECK-01", leaf,
			   "its " TREE_POINTER " names '%s', which is not in '" TREE_POOL "'",
			   tree_code_name(ret_hex).text);
}

void check_has_pool(struct check *c, const char *organization, const char *dir)
{
	char path[CHECK_PATH_MAX];

	check_path(path, dir, "code");
	if (access(path, F_OK) == 0)
		check_find(c, "CHECK-04", path,
			   "code is in '" TREE_POOL "' since mlpstorage 3.0.28: its next run in "
			   "this directory moves it there");
	check_path(path, c->root, TREE_POOL);
	c->has_pool = is_pool(path);
	check_path(path, c->root, organization);
	c->has_pool = c->has_pool || is_pool(path);
	if (!c->has_pool)
		check_find(c, "CHECK-01", dir,
			   "there is no pool of code: neither '" TREE_POOL "/" TREE_POOL_MARK
			   "' nor '%s/" TREE_POOL_MARK "'",
			   organization);
}

/* Code in a pool: its hash, and that a leaf refers to it. */
static void check_image(struct check *c, const char *dir, const char *name)
{
	char hex[33], said[33];
	struct shoal_err why = { "" };

	if (!check_code_hash(c, "CHECK-02", dir, said))
		return;
	if (strcmp(tree_code_name(said).text, name) != 0)
		check_find(c, "CHECK-02", dir, "by its .code-hash.json its name is '%s'",
			   tree_code_name(said).text);
	if (tree_code_hash(dir, hex, &why) == 0) {
		for (size_t i = 0; i < c->nr_references; i++)
			if (strcmp(c->references[i], hex) == 0)
				return;
		check_find(c, "CHECK-03", dir, "no leaf refers to this code");
	}
}

static void check_pool(struct check *c, const char *dir)
{
	struct tree_names names = check_list(c, dir);
	bool empty = true;

	for (size_t i = 0; i < names.nr; i++) {
		char path[CHECK_PATH_MAX];

		if (!names.all[i].dir || strncmp(names.all[i].name, "code-", 5) != 0)
			continue;
		empty = false;
		check_path(path, dir, names.all[i].name);
		if (is_pool(dir))
			check_image(c, path, names.all[i].name);
	}
	if (!empty && !is_pool(dir))
		check_find(c, "CHECK-04", dir,
			   "it has code, but not the file '" TREE_POOL_MARK
			   "': mlpstorage did not finish moving it there");
	tree_names_release(&names);
}

void check_pools(struct check *c)
{
	struct tree_names names = check_list(c, c->root);

	for (size_t i = 0; i < names.nr; i++) {
		char path[CHECK_PATH_MAX];

		check_path(path, c->root, names.all[i].name);
		if (names.all[i].dir && check_is_pool(c->root, names.all[i].name))
			check_pool(c, path);
	}
	tree_names_release(&names);
	free(c->references);
	c->references = NULL;
	c->nr_references = 0;
}

/* ---- Leaves ---- */

void check_leaf_newer(struct check *c, const struct check_system *s, const struct check_leaf *l)
{
	char pointer[HASH_DIGITS + 1];

	check_pointer(c, s, l->path, pointer);
	check_stamp(c, s, l, pointer);
}

void check_datasize(struct check *c, const struct check_system *s, const char *model,
		    const char *dir)
{
	struct tree_names names;
	char path[CHECK_PATH_MAX];
	double when;

	check_path(path, dir, "datasize");
	names = check_list(c, path);
	if (names.nr == 0)
		check_find(c, "3.1.1", path, "there is no leaf of datasize");
	for (size_t i = 0; i < names.nr; i++) {
		struct check_leaf l = { .command = "datasize", .model = model };

		if (!names.all[i].dir || !tree_leaf_time(names.all[i].name, &when))
			continue;
		check_path(l.path, path, names.all[i].name);
		check_leaf_newer(c, s, &l);
	}
	tree_names_release(&names);
}

bool check_separation(struct check *c, const char *leaf)
{
	struct yaml_node *said = NULL;
	struct shoal_err why = { "" };
	char path[CHECK_PATH_MAX];
	bool same;

	check_path(path, leaf, FS_SIDECAR);
	if (access(path, F_OK) < 0 || tree_load(path, &said, &why) < 0)
		return false; /* then the df block of the log counts */
	same = strcmp(tree_text(said, "same_filesystem", "false"), "true") == 0;
	if (same)
		check_find(c, "3.4.2", leaf,
			   "data and results are on one file system, by its " FS_SIDECAR);
	yaml_free(said);
	return true;
}
