#include "report/check.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "report/check_private.h"

void check_find(struct check *c, const char *rule, const char *path, const char *fmt, ...)
{
	size_t len = strlen(c->root);
	char words[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(words, sizeof(words), fmt, args);
	va_end(args);
	if (strncmp(path, c->root, len) == 0 && path[len] == '/')
		path += len + 1;
	c->nr++;
	c->found(c->self, rule, path, words);
}

struct tree_names check_list(struct check *c, const char *path)
{
	struct tree_names names = { 0 };
	int rc = c->rc < 0 ? c->rc : tree_list(path, &names, c->err);

	if (rc < 0)
		c->rc = rc;
	return names;
}

void check_path(char path[CHECK_PATH_MAX], const char *dir, const char *name)
{
	if (path_join(dir, name, path, CHECK_PATH_MAX, NULL) < 0)
		path[0] = '\0';
}

bool check_has(const char *dir, const char *name)
{
	char path[CHECK_PATH_MAX];

	check_path(path, dir, name);
	return access(path, F_OK) == 0;
}

static bool is_one_of(const char *name, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(name, *words) == 0)
			return true;
	return false;
}

/* Directories that must exist, and no others; entries that begin with a dot are ignored. */
static void check_dirs(struct check *c, const char *rule, const char *dir,
		       const char *const *required, bool all)
{
	struct tree_names names = check_list(c, dir);

	for (size_t i = 0; i < names.nr; i++)
		if (names.all[i].dir && names.all[i].name[0] != '.' &&
		    !is_one_of(names.all[i].name, required) &&
		    !(c->newer && strcmp(dir, c->root) == 0 &&
		      check_is_pool(dir, names.all[i].name)))
			check_find(c, rule, dir, "the directory '%s' does not belong here",
				   names.all[i].name);
	for (; all && *required; required++)
		if (!check_has(dir, *required))
			check_find(c, rule, dir, "the directory '%s' is missing", *required);
	tree_names_release(&names);
}

/* ---- Code ---- */

bool check_code_hash(struct check *c, const char *rule, const char *dir, char ret_said[33])
{
	struct yaml_node *said = NULL;
	struct shoal_err why = { "" };
	char path[CHECK_PATH_MAX], hex[33];
	bool known = false;

	check_path(path, dir, ".code-hash.json");
	if (tree_load(path, &said, &why) < 0)
		check_find(c, rule, dir, "its .code-hash.json cannot be read: %s", why.msg);
	else if (tree_code_hash(dir, hex, &why) < 0)
		check_find(c, rule, dir, "the code cannot be read: %s", why.msg);
	else {
		known = snprintf(ret_said, 33, "%s", tree_text(said, "hash", "")) == 32;
		if (strcmp(ret_said, hex) != 0)
			check_find(c, rule, dir,
				   "the code was changed: its MD5 is %s, .code-hash.json has '%s'",
				   hex, ret_said);
	}
	if (said)
		yaml_free(said);
	return known;
}

static void check_code(struct check *c, const char *dir)
{
	char said[33];

	if (access(dir, F_OK) < 0)
		check_find(c, "2.1.6", dir, "the directory with the code is missing");
	else
		(void)check_code_hash(c, "2.1.6", dir, said);
}

/* ---- Systems ---- */

static void check_systems(struct check *c, const char *dir, const char *results)
{
	struct tree_names names = check_list(c, dir);

	for (size_t i = 0; i < names.nr; i++) {
		const char *name = names.all[i].name, *dot = strrchr(name, '.');
		bool yaml = dot && strcmp(dot, ".yaml") == 0, pdf = dot && strcmp(dot, ".pdf") == 0;
		char other[CHECK_PATH_MAX];

		if (name[0] == '.' || (dot && strcmp(dot, ".md") == 0))
			continue;
		if (names.all[i].dir || (!yaml && !pdf)) {
			check_find(c, "2.1.7", dir, "'%s' is neither NAME.yaml nor NAME.pdf", name);
			continue;
		}
		snprintf(other, sizeof(other), "%.*s%s", (int)(dot - name), name,
			 yaml ? ".pdf" : ".yaml");
		if (!check_has(dir, other))
			check_find(c, "2.1.7", dir, "'%s' exists, but not '%s'", name, other);
		snprintf(other, sizeof(other), "%.*s", (int)(dot - name), name);
		if (yaml && !check_has(results, other))
			check_find(c, "2.1.8", dir, "there are no results of the system '%s'",
				   other);
	}
	tree_names_release(&names);
}

static struct yaml_node *check_description(struct check *c, const char *dir, const char *system)
{
	struct yaml_node *root = NULL;
	struct shoal_err why = { "" };
	char path[CHECK_PATH_MAX], name[NAME_MAX + 8];
	const char *given;

	snprintf(name, sizeof(name), "%s.yaml", system);
	check_path(path, dir, name);
	if (access(path, F_OK) < 0) {
		check_find(c, "2.1.8", path, "the description of the system is missing");
		return NULL;
	}
	if (tree_load(path, &root, &why) < 0) {
		check_find(c, "2.1.8", path, "it cannot be read: %s", why.msg);
		return NULL;
	}
	/* Messages about its nodes are not printed, so the path need not last. */
	given = tree_text(root, "system_under_test.solution.submission_name", "");
	if (strcmp(given, system) != 0)
		check_find(c, "2.1.8", path,
			   "submission_name is '%.100s', and the directory of results is '%s'",
			   given, system);
	snprintf(name, sizeof(name), "%s.pdf", system);
	if (!check_has(dir, name))
		check_find(c, "2.1.8", path, "'%s' is missing beside it", name);
	return root;
}

/* ---- Results ---- */

static void check_training(struct check *c, const struct check_system *s, const char *dir)
{
	static const char *const models[] = { "retinanet", "unet3d", NULL };
	struct tree_names names = check_list(c, dir);

	for (size_t i = 0; i < names.nr; i++) {
		char path[CHECK_PATH_MAX];

		if (!names.all[i].dir)
			continue;
		check_path(path, dir, names.all[i].name);
		if (!is_one_of(names.all[i].name, models))
			check_find(c, "2.1.11", path,
				   "'%s' is not a training workload of this round, which has "
				   "retinanet and unet3d",
				   names.all[i].name);
		check_model(c, s, names.all[i].name, path);
	}
	tree_names_release(&names);
}

static void check_results(struct check *c, struct check_system s, const char *dir,
			  const char *systems)
{
	static const char *const old[] = { "training", "checkpointing", NULL };
	static const char *const now[] = { "training", "checkpointing", "vector_database",
					   "kv_cache", NULL };
	struct tree_names names = check_list(c, dir);

	for (size_t i = 0; i < names.nr; i++) {
		char path[CHECK_PATH_MAX], training[CHECK_PATH_MAX];

		if (!names.all[i].dir)
			continue;
		s.system = names.all[i].name;
		check_path(path, dir, s.system);
		check_dirs(c, "2.1.10", path, c->newer ? now : old, false);
		if (!check_has(path, "training") && !check_has(path, "checkpointing"))
			check_find(c, "2.1.10", path, "it has neither training nor checkpointing");
		s.description = check_description(c, systems, s.system);
		check_path(training, path, "training");
		check_training(c, &s, training);
		if (s.description)
			yaml_free(s.description);
	}
	tree_names_release(&names);
}

static void check_organization(struct check *c, const char *division, const char *name,
			       const char *dir)
{
	static const char *const closed[] = { "code", "results", "systems", NULL };
	static const char *const open[] = { "results", "systems", NULL };
	bool is_open = strcmp(division, "open") == 0;
	char results[CHECK_PATH_MAX], systems[CHECK_PATH_MAX], code[CHECK_PATH_MAX];

	if (name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			      "0123456789._-")])
		check_find(c, "2.1.1", dir,
			   "a name of an organization takes letters, digits, '.', '_' and '-'");
	check_dirs(c, "2.1.5", dir, is_open || c->newer ? open : closed, true);
	check_path(code, dir, "code");
	if (c->newer)
		check_has_pool(c, name, dir);
	else if (!is_open)
		check_code(c, code);
	check_path(results, dir, "results");
	check_path(systems, dir, "systems");
	check_systems(c, systems, results);
	check_results(c, (struct check_system){ .division = division, .organization = name },
		      results, systems);
}

int report_check(const char *root, bool newer, check_found_fn *found, void *self,
		 struct shoal_err *err)
{
	static const char *const divisions[] = { "closed", "open", NULL };
	struct check c = { .root = root, .newer = newer, .found = found, .self = self, .err = err };

	if (access(root, R_OK | X_OK) < 0)
		return err_set_errno(err, err_errno(), "cannot read '%.500s'", root);
	check_dirs(&c, "2.1.2", root, divisions, false);
	if (!check_has(root, "closed") && !check_has(root, "open"))
		check_find(&c, "2.1.2", root,
			   "it has neither the directory 'closed' nor 'open': this is not a tree "
			   "of results, or not its top");
	for (size_t d = 0; divisions[d]; d++) {
		char dir[CHECK_PATH_MAX], path[CHECK_PATH_MAX];
		struct tree_names names;

		check_path(dir, root, divisions[d]);
		names = check_list(&c, dir);
		for (size_t i = 0; i < names.nr; i++) {
			check_path(path, dir, names.all[i].name);
			if (names.all[i].dir && names.all[i].name[0] != '.')
				check_organization(&c, divisions[d], names.all[i].name, path);
		}
		tree_names_release(&names);
	}
	if (newer) {
		check_pools(&c);
		check_manifests(&c);
	}
	return c.rc < 0 ? c.rc : c.nr;
}
