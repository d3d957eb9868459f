/* A workload from its file, the overrides and the table of keys. */
#include "bench/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/keys.h"

struct bench_workload *bench_workload_free(struct bench_workload *w)
{
	if (!w)
		return NULL;
	free(w->name);
	free(w->model);
	free(w->storage.root);
	free(w->dataset.folder);
	free(w->dataset.file_prefix);
	free(w->checkpoint.folder);
	free(w->output.folder);
	free(w->yaml);
	free(w);
	return NULL;
}

/* ---- What hydra puts around a workload ---- */

/* Take the child called @key out of @map; NULL when there is none. */
static struct bench_node *take_child(struct bench_node *map, const char *key)
{
	for (struct bench_node **at = &map->child; *at; at = &(*at)->next) {
		struct bench_node *n = *at;

		if (strcmp(n->key, key) == 0) {
			*at = n->next;
			n->next = NULL;
			return n;
		}
	}
	return NULL;
}

/* A saved configuration has hydra's own keys beside "workload:"; those say nothing of the data. */
static int unwrap(struct bench_node **root, const char *label, struct shoal_err *err)
{
	struct bench_node *inner;
	bool hydras;

	if (bench_node_is_null(*root))
		return shoal_fail(err, -EINVAL, "%.300s: it is empty", label);
	if ((*root)->kind != BENCH_MAP)
		return bench_node_fail(
			*root, err, "a workload is a map of sections: model, dataset, reader ...");
	inner = take_child(*root, "hydra");
	hydras = inner != NULL;
	bench_tree_free(inner);
	inner = take_child(*root, "defaults");
	hydras = hydras || inner;
	bench_tree_free(inner);
	inner = take_child(*root, "workload");
	if (!inner && hydras && !(*root)->child)
		return shoal_fail(err, -EINVAL,
				  "%.300s: it has settings of hydra, but no workload: name a file "
				  "of the folder 'workload' beside it",
				  label);
	if (!inner)
		return 0;
	if ((*root)->child || inner->kind != BENCH_MAP) {
		int rc = inner->kind != BENCH_MAP
				 ? bench_node_fail(inner, err,
						   "'workload:' must hold the sections: model, "
						   "dataset, reader ...")
				 : bench_node_fail((*root)->child, err,
						   "'%.60s' stands beside 'workload:', not in it",
						   (*root)->child->key);
		bench_tree_free(inner);
		return rc;
	}
	bench_tree_free(*root);
	*root = inner;
	return 0;
}

/* The other name of the reader's section. */
static int rename_reader(struct bench_node *root, struct shoal_err *err)
{
	struct bench_node *old = bench_node_child(root, "data_reader", 11);

	if (!old)
		return 0;
	if (bench_node_child(root, "reader", 6))
		return bench_node_fail(old, err, "'data_reader' is 'reader', which is given, too");
	old->key[0] = '\0';
	memcpy(old->key, "reader", 7);
	return 0;
}

/* ---- Overrides ---- */

/* The key of "++workload.dataset.format=jpeg" as the table has it; false when it is none. */
static bool override_path(const char *text, char *path, size_t cap)
{
	size_t len;

	text += strspn(text, "+");
	if (strncmp(text, "workload.", 9) == 0)
		text += 9;
	len = strcspn(text, "=");
	if (text[len] != '=' || len == 0 || len + 1 > cap)
		return false;
	memcpy(path, text, len);
	path[len] = '\0';
	if (strncmp(path, "data_reader.", 12) == 0)
		memmove(path, path + 5, len - 5 + 1);
	return true;
}

/* One that nobody knows is refused: what was typed by hand was meant to do something. */
static int check_override(const char *path, const char *text, struct shoal_err *err)
{
	char prefix[128];
	const char *near;

	if (bench_key_find(path) || bench_key_is_section(path))
		return 0;
	snprintf(prefix, sizeof(prefix), "%s", path);
	for (char *dot; (dot = strrchr(prefix, '.')) != NULL;) {
		const struct bench_known *key;

		*dot = '\0';
		key = bench_key_find(prefix); /* train.computation_time.mean, storage_options.x */
		if (key && (key->type == KEY_ANY || key->type == KEY_TIME))
			return 0;
	}
	near = bench_key_nearest(path);
	return shoal_fail(err, -EINVAL, "override '%.*s': there is no key '%.100s'%s%s%s",
			  (int)shoal_min(strcspn(text, "="), 150), text, path,
			  near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int apply_override(struct bench_node *root, const char *text, struct shoal_err *err)
{
	struct bench_node *value = NULL;
	const char *equals = strchr(text, '=');
	char path[128];
	int rc;

	if (!equals || !override_path(text, path, sizeof(path)))
		return shoal_fail(err, -EINVAL,
				  "override '%.100s': write section.key=value, such as "
				  "dataset.num_files_train=5000",
				  text);
	rc = check_override(path, text, err);
	if (rc == 0)
		rc = bench_tree_parse(equals + 1, strlen(equals + 1), text, true, &value, err);
	return rc < 0 ? rc : bench_tree_put(root, path, value, err);
}

/* ---- Keys ---- */

static int read_keys(struct bench_node *root, struct bench_workload *w, struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < bench_nr_keys; i++) {
		const struct bench_known *key = &bench_keys[i];
		struct bench_node *node = bench_tree_find(root, key->path);

		if (!node || bench_node_is_null(node))
			continue;
		/* The other spelling counts where the right one is not given. */
		if (key->instead && !bench_tree_find(root, key->instead))
			key = bench_key_find(key->instead);
		if (!key->instead)
			rc = bench_key_read(key, node, w, err);
	}
	return rc;
}

/* Sentences are gathered here; what does not fit is cut off. */
struct idle {
	char words[600];
	size_t at, nr;
};

static void add_idle(struct idle *idle, const char *path)
{
	int n;

	if (idle->at >= sizeof(idle->words))
		return;
	n = snprintf(idle->words + idle->at, sizeof(idle->words) - idle->at, "%s%s",
		     idle->nr++ ? ", " : "", path);
	idle->at += n > 0 ? (size_t)n : 0;
}

struct walk {
	const struct bench_workload *w;
	bench_warn_fn *warn;
	void *self;
	struct idle idle;
	struct shoal_err *err;
};

static void warn_unknown(struct walk *k, const struct bench_node *n, const char *path)
{
	char where[300], words[600];
	const char *near = bench_key_nearest(path);

	bench_node_where(n, where, sizeof(where));
	snprintf(words, sizeof(words), "%s: there is no key '%.150s'%s%s%s; it is left out", where,
		 path, near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
	if (near)
		words[strlen(words) - strlen("; it is left out")] = '\0';
	k->warn(k->self, words);
}

/* A key that is known: named when it asks for what Shoal does not do yet. */
static void note_known(struct walk *k, const struct bench_known *key, const struct bench_node *n)
{
	bool on = false;
	double zero = 1;

	if (key->instead)
		key = bench_key_find(key->instead);
	if (key->use != KEY_IDLE || bench_node_is_null(n) || bench_key_is_off(key, k->w))
		return;
	/* "pin_memory: false" asks for nothing. */
	if (n->kind == BENCH_SCALAR && bench_parse_bool(n->text, &on) == 0 && !on)
		return;
	if (n->kind == BENCH_SCALAR && bench_parse_real(n->text, &zero) == 0 && zero == 0)
		return;
	if (n->kind == BENCH_SCALAR && strcmp(n->text, "none") == 0)
		return;
	add_idle(&k->idle, key->path);
}

static int walk_keys(struct walk *k, const struct bench_node *map, const char *above)
{
	int rc = 0;

	for (const struct bench_node *n = map->child; rc == 0 && n; n = n->next) {
		const struct bench_known *key;
		char path[300];

		snprintf(path, sizeof(path), "%s%s%.100s", above, *above ? "." : "", n->key);
		key = bench_key_find(path);
		if (key)
			note_known(k, key, n);
		else if (!bench_key_is_section(path))
			warn_unknown(k, n, path);
		else if (n->kind == BENCH_MAP)
			rc = walk_keys(k, n, path);
		else if (!bench_node_is_null(n))
			rc = bench_node_fail(n, k->err, "'%s' must be a map of keys", path);
	}
	return rc;
}

static void no_warning(void *self, const char *words)
{
	(void)self;
	(void)words;
}

static int name_keys(struct bench_node *root, const char *label, const struct bench_workload *w,
		     bench_warn_fn *warn, void *self, struct shoal_err *err)
{
	struct walk k = { .w = w, .warn = warn ? warn : no_warning, .self = self, .err = err };
	char words[900];
	int rc = walk_keys(&k, root, "");

	if (rc < 0 || k.idle.nr == 0)
		return rc;
	snprintf(words, sizeof(words), "%.200s: not used yet: %s", label, k.idle.words);
	k.warn(self, words);
	return 0;
}

/* ---- All together ---- */

static int from_tree(struct bench_node **root, const char *label, char *const *overrides, size_t nr,
		     bench_warn_fn *warn, void *self, struct bench_workload *w,
		     struct shoal_err *err)
{
	int rc = unwrap(root, label, err);

	if (rc == 0)
		rc = rename_reader(*root, err);
	for (size_t i = 0; rc == 0 && i < nr; i++)
		rc = apply_override(*root, overrides[i], err);
	if (rc == 0)
		rc = bench_tree_interpolate(*root, err);
	if (rc == 0)
		rc = bench_workload_defaults(w, err);
	if (rc == 0)
		rc = read_keys(*root, w, err);
	if (rc == 0)
		rc = name_keys(*root, label, w, warn, self, err);
	if (rc == 0)
		rc = bench_workload_check(w, *root, warn, self, err);
	if (rc == 0)
		rc = bench_workload_write(w, *root, &w->yaml, err);
	if (rc == 0) {
		w->name = strdup(label);
		rc = w->name ? 0 : shoal_fail(err, -ENOMEM, "out of memory");
	}
	return rc;
}

int bench_workload_parse(const char *text, size_t len, const char *label, char *const *overrides,
			 size_t nr, bench_warn_fn *warn, void *self,
			 struct bench_workload **ret_workload, struct shoal_err *err)
{
	struct bench_workload *w = calloc(1, sizeof(*w));
	struct bench_node *root = NULL;
	int rc;

	if (!w)
		return shoal_fail(err, -ENOMEM, "out of memory");
	rc = bench_tree_parse(text, len, label, false, &root, err);
	if (rc == 0)
		rc = from_tree(&root, label, overrides, nr, warn, self, w, err);
	bench_tree_free(root);
	if (rc < 0) {
		bench_workload_free(w);
		return rc;
	}
	*ret_workload = w;
	return 0;
}
