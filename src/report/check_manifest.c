/* The rules of September 2026 about what `mlpstorage reports reportgen` writes for an organization:
 * submission.yaml, which lists the leaves of all runs, and the tables of results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_read.h"
#include "base/map.h"
#include "base/text.h"
#include "report/check_private.h"
#include "report/core_config.h"

#define MANIFEST "submission.yaml"
#define TABLE    "results.json"
#define AGAIN    "; 'mlpstorage reports reportgen' writes it anew"

/* ---- Sets of texts ---- */

struct texts {
	size_t nr;
	char **all;
};

static void manifest_add(struct check *c, struct texts *t, const char *text)
{
	/* A tree has a few leaves per workload, system and phase. */
	char **all = realloc(t->all, (t->nr + 1) * sizeof(*all));

	if (all) {
		t->all = all;
		all[t->nr] = strdup(text);
	}
	if (all && all[t->nr])
		t->nr++;
	else
		c->rc = err_set(c->err, -ENOMEM, "out of memory");
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sort, and drop what is there twice. */
static void sort_texts(struct texts *t)
{
	size_t nr = 0;

	if (t->nr > 0)
		qsort(t->all, t->nr, sizeof(*t->all), compare_texts);
	for (size_t i = 0; i < t->nr; i++) {
		if (nr > 0 && strcmp(t->all[nr - 1], t->all[i]) == 0)
			free(t->all[i]);
		else
			t->all[nr++] = t->all[i];
	}
	t->nr = nr;
}

static void free_texts(struct texts *t)
{
	for (size_t i = 0; i < t->nr; i++)
		free(t->all[i]);
	free(t->all);
	*t = (struct texts){ 0 };
}

/* The first of @a that is not in @b; NULL: there is none. Both are sorted. */
static const char *first_missing(const struct texts *a, const struct texts *b)
{
	for (size_t i = 0; i < a->nr; i++)
		if (b->nr == 0 ||
		    !bsearch(&a->all[i], b->all, b->nr, sizeof(*b->all), compare_texts))
			return a->all[i];
	return NULL;
}

/* ---- The leaves and tables of an organization ---- */

struct organization {
	struct check *c;
	const char *dir;
	struct texts leaves; /* "results/box/training/unet3d/run/20260901_100000" */
	struct texts tables; /* "results/box/training/unet3d/run/results.json" */
};

static bool is_time(const char *name)
{
	return strlen(name) == 15 && strspn(name, "0123456789") == 8 && name[8] == '_' &&
	       strspn(name + 9, "0123456789") == 6;
}

/* "results/SYSTEM/BENCHMARK/.../TIME", with as many directories as that benchmark has. */
static bool is_leaf(const char *path)
{
	static const struct {
		const char *benchmark;
		int levels;
	} known[] = {
		{ "/training/", 2 },
		{ "/checkpointing/", 1 },
		{ "/vector_database/", 3 },
		{ "/kv_cache/", 2 },
	};
	const char *at = strchr(path + strlen("results/"), '/');
	int levels = 0;

	for (size_t i = 0; at && i < ARRAY_LEN(known); i++) {
		size_t len = strlen(known[i].benchmark);

		if (strncmp(at, known[i].benchmark, len) != 0)
			continue;
		for (const char *rest = at + len; *rest; rest++)
			levels += *rest == '/';
		return levels == known[i].levels;
	}
	return false;
}

static bool is_link(const char *dir, const char *below)
{
	char path[CHECK_PATH_MAX];
	struct stat st;

	check_path(path, dir, below);
	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Collect what lies below @path, which begins with "results"; leaves have no leaves in them. Links
 * are not followed: they may lead back. */
static void manifest_collect(struct organization *o, const char *path, bool in_leaf, int depth)
{
	struct tree_names names;
	char dir[CHECK_PATH_MAX];

	check_path(dir, o->dir, path);
	names = check_list(o->c, dir);
	for (size_t i = 0; i < names.nr && o->c->rc == 0; i++) {
		const char *name = names.all[i].name;
		char below[CHECK_PATH_MAX];
		bool leaf = in_leaf;

		check_path(below, path, name);
		if (!names.all[i].dir && strcmp(name, TABLE) == 0 && depth > 0)
			manifest_add(o->c, &o->tables, below);
		if (!names.all[i].dir || name[0] == '.' || depth > 8)
			continue;
		if (!in_leaf && is_time(name)) {
			leaf = true;
			if (is_leaf(below))
				manifest_add(o->c, &o->leaves, below);
		}
		if (!is_link(o->dir, below))
			manifest_collect(o, below, leaf, depth + 1);
	}
	tree_names_release(&names);
}

/* ---- submission.yaml ---- */

static void check_listed(struct organization *o, const char *path, struct yaml_node *manifest)
{
	struct yaml_node *runs = yaml_find(manifest, "runs");
	struct texts listed = { 0 };
	const char *missing, *stale;

	if (runs && runs->kind == YAML_LIST)
		for (struct yaml_node *run = runs->child; run; run = run->next)
			if (run->kind == YAML_MAP)
				manifest_add(o->c, &listed, tree_text(run, "leaf", ""));
	sort_texts(&listed);
	missing = first_missing(&o->leaves, &listed);
	stale = first_missing(&listed, &o->leaves);
	if (missing)
		check_find(o->c, "PROV-02", path, "it does not list '%.300s'" AGAIN, missing);
	if (stale)
		check_find(o->c, "PROV-02", path, "it lists '%.300s', which is no leaf" AGAIN,
			   stale);
	free_texts(&listed);
}

/* A number of YAML, such as 3.0 without quotes, is not equal to the text of a stamp. */
static bool manifest_is_text(const struct yaml_node *n)
{
	char *end;

	(void)strtod(n->text, &end);
	return n->quoted || end == n->text || *end;
}

static void check_declared(struct organization *o, const char *path, struct yaml_node *manifest)
{
	const struct yaml_node *n = yaml_find(manifest, "rules_edition");
	const char *declared = tree_text(manifest, "rules_edition", "unknown");

	if (strcmp(declared, "unknown") != 0 && !core_config_edition_known(declared))
		check_find(o->c, "EDN-01", path, "there is no edition '%.20s' of the rules",
			   declared);
	if (!n || n->kind != YAML_SCALAR || yaml_node_is_null(n))
		declared = "none";
	else if (!manifest_is_text(n))
		declared = "a number without quotes";
	for (size_t i = 0; i < o->leaves.nr; i++) {
		char leaf[CHECK_PATH_MAX], edition[32];

		check_path(leaf, o->dir, o->leaves.all[i]);
		if (check_stamp_edition(leaf, edition, sizeof(edition)) &&
		    strcmp(edition, declared) != 0)
			check_find(o->c, "PROV-02", leaf,
				   "its edition of the rules is '%s', and that of " MANIFEST
				   " is %.40s",
				   edition, declared);
	}
}

static void check_manifest(struct organization *o)
{
	struct yaml_node *manifest = NULL;
	struct shoal_err why = { "" };
	char path[CHECK_PATH_MAX];
	const char *schema;

	check_path(path, o->dir, MANIFEST);
	if (access(path, F_OK) < 0)
		return; /* trees without one are older */
	if (tree_load(path, &manifest, &why) < 0) {
		check_find(o->c, "PROV-02", path, "it cannot be read: %s", why.msg);
		return;
	}
	schema = tree_text(manifest, "schema", "");
	if (strcmp(schema, "mlps-submission-manifest/1") != 0) {
		check_find(o->c, "PROV-02", path,
			   "schema is '%.60s', and must be mlps-submission-manifest/1", schema);
	} else {
		check_listed(o, path, manifest);
		check_declared(o, path, manifest);
	}
	yaml_free(manifest);
}

/* ---- Tables of results ---- */

struct ids {
	struct check *c;
	struct texts *all;
};

/* "3.Public ID" of a list of rows; rows of datagen and datasize have none, or an empty one. */
static int manifest_take_id(void *self, const struct json_value *v)
{
	const struct ids *ids = self;
	size_t digits = strspn(v->path, "0123456789");

	if (digits > 0 && strcmp(v->path + digits, ".Public ID") == 0 &&
	    (v->kind == JSON_STRING || v->kind == JSON_NUMBER) && *v->text)
		manifest_add(ids->c, ids->all, v->text);
	return 0;
}

/* Add the identifiers of the runs in a table. False: it cannot be read, which is a finding. */
static bool read_ids(struct organization *o, const char *path, struct texts *ids)
{
	struct ids self = { .c = o->c, .all = ids };
	struct map m = MAP_CLOSED;
	struct shoal_err why = { "" };
	char file[CHECK_PATH_MAX];
	const char *text;
	size_t skip = 0;
	bool good;

	check_path(file, o->dir, path);
	good = map_open(file, &m, &why) == 0;
	if (good) {
		text = (const char *)m.addr;
		while (skip < m.len && strchr(" \t\r\n", text[skip]) && text[skip])
			skip++;
		good = json_read(text, m.len, manifest_take_id, &self, &why) == 0;
		if (good && text[skip] != '[') {
			snprintf(why.msg, sizeof(why.msg), "it is not a list of rows");
			good = false;
		}
		map_close(&m);
	}
	if (!good)
		check_find(o->c, "RPT-01", file, "it cannot be read: %s" AGAIN, why.msg);
	return good;
}

/* The table of the organization has the runs of all other tables, and no others. */
static void check_tables(struct organization *o)
{
	struct texts all = { 0 }, parts = { 0 };
	const char *orphan, *missing;
	char path[CHECK_PATH_MAX];

	check_path(path, o->dir, "results/" TABLE);
	if (access(path, F_OK) < 0)
		return; /* reportgen has not run */
	if (read_ids(o, "results/" TABLE, &all)) {
		for (size_t i = 0; i < o->tables.nr; i++)
			(void)read_ids(o, o->tables.all[i], &parts);
		sort_texts(&all);
		sort_texts(&parts);
		orphan = first_missing(&all, &parts);
		missing = first_missing(&parts, &all);
		if (orphan)
			check_find(o->c, "RPT-01", path,
				   "its run '%.100s' is in no table of a workload" AGAIN, orphan);
		if (missing)
			check_find(o->c, "RPT-01", path,
				   "the run '%.100s' of a workload's table is missing" AGAIN,
				   missing);
	}
	free_texts(&all);
	free_texts(&parts);
}

/* ---- All organizations ---- */

void check_manifests(struct check *c)
{
	static const char *const divisions[] = { "closed", "open", "whatif" };

	for (size_t d = 0; d < ARRAY_LEN(divisions); d++) {
		char division[CHECK_PATH_MAX], dir[CHECK_PATH_MAX];
		struct tree_names names;

		check_path(division, c->root, divisions[d]);
		names = check_list(c, division);
		for (size_t i = 0; i < names.nr && c->rc == 0; i++) {
			struct organization o = { .c = c, .dir = dir };

			if (!names.all[i].dir)
				continue;
			check_path(dir, division, names.all[i].name);
			manifest_collect(&o, "results", false, 0);
			sort_texts(&o.leaves);
			check_manifest(&o);
			check_tables(&o);
			free_texts(&o.leaves);
			free_texts(&o.tables);
		}
		tree_names_release(&names);
	}
}
