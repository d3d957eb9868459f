/* Build a workload from its file, the overrides and the table of keys. */
#include "workload/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workload/keys.h"

struct workload *workload_free(struct workload *w)
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
	free(w->dataset.parquet.column);
	free(w->dataset.arrow.column);
	free(w->yaml);
	free(w->asked);
	free(w);
	return NULL;
}

/* ---- The keys that hydra adds around a workload ---- */

/* Remove the child @key from @map and return it; NULL if there is none. */
static struct yaml_node *take_child(struct yaml_node *map, const char *key)
{
	for (struct yaml_node **at = &map->child; *at; at = &(*at)->next) {
		struct yaml_node *n = *at;

		if (strcmp(n->key, key) == 0) {
			*at = n->next;
			n->next = NULL;
			return n;
		}
	}
	return NULL;
}

/* A saved configuration has hydra's own keys next to "workload:"; they do not concern the data. */
static int unwrap(struct yaml_node **root, const char *label, struct shoal_err *err)
{
	struct yaml_node *inner;
	bool hydras;

	if (yaml_node_is_null(*root))
		return err_set(err, -EINVAL, "%.300s: the file is empty", label);
	if ((*root)->kind != YAML_MAP)
		return yaml_node_fail(
			*root, err, "a workload is a map of sections: model, dataset, reader ...");
	inner = take_child(*root, "hydra");
	hydras = inner != NULL;
	yaml_free(inner);
	inner = take_child(*root, "defaults");
	hydras = hydras || inner;
	yaml_free(inner);
	inner = take_child(*root, "workload");
	if (!inner && hydras && !(*root)->child)
		return err_set(err, -EINVAL,
			       "%.300s: it has Hydra settings, but no workload: choose a file "
			       "of the folder 'workload' beside it",
			       label);
	if (!inner)
		return 0;
	if ((*root)->child || inner->kind != YAML_MAP) {
		int rc = inner->kind != YAML_MAP
				 ? yaml_node_fail(inner, err,
						  "'workload:' must hold the sections: model, "
						  "dataset, reader ...")
				 : yaml_node_fail((*root)->child, err,
						  "'%.60s' is beside 'workload:', not inside it",
						  (*root)->child->key);
		yaml_free(inner);
		return rc;
	}
	yaml_free(*root);
	*root = inner;
	return 0;
}

/* "data_reader" is an alternative name of the reader's section. */
static int rename_reader(struct yaml_node *root, struct shoal_err *err)
{
	struct yaml_node *old = yaml_node_child(root, "data_reader", 11);

	if (!old)
		return 0;
	if (yaml_node_child(root, "reader", 6))
		return yaml_node_fail(old, err, "'data_reader' means 'reader', but both are given");
	old->key[0] = '\0';
	memcpy(old->key, "reader", 7);
	return 0;
}

/* "model: unet3d" is the name of the model. */
static int expand_model(struct yaml_node *root, struct shoal_err *err)
{
	struct yaml_node *model = yaml_node_child(root, "model", 5), *name;

	if (!model || model->kind != YAML_SCALAR || yaml_node_is_null(model))
		return 0;
	name = calloc(1, sizeof(*name));
	if (name)
		name->key = strdup("name");
	if (!name || !name->key) {
		free(name);
		return err_set(err, -ENOMEM, "out of memory");
	}
	name->text = model->text;
	name->quoted = model->quoted;
	name->line = model->line;
	name->column = model->column;
	name->origin = model->origin;
	model->kind = YAML_MAP;
	model->text = NULL;
	model->child = name;
	return 0;
}

/* ---- Overrides ---- */

/* The key of "++workload.dataset.format=jpeg" as in the table; false if it is malformed. */
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

/* An unknown override is refused: the user meant it to have an effect. */
static int check_override(const char *path, const char *text, struct shoal_err *err)
{
	char prefix[128];
	const char *near;

	if (workload_key_find(path) || workload_key_is_section(path))
		return 0;
	snprintf(prefix, sizeof(prefix), "%s", path);
	for (char *dot; (dot = strrchr(prefix, '.')) != NULL;) {
		const struct workload_key_spec *key;

		*dot = '\0';
		key = workload_key_find(
			prefix); /* train.computation_time.mean, storage_options.x */
		if (key && (key->type == KEY_ANY || key->type == KEY_TIME))
			return 0;
	}
	near = workload_key_nearest(path);
	return err_set(err, -EINVAL, "override '%.*s': there is no key '%.100s'%s%s%s",
		       (int)u64_min(strcspn(text, "="), 150), text, path,
		       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int apply_override(struct yaml_node *root, const char *text, struct shoal_err *err)
{
	struct yaml_node *value = NULL;
	const char *equals = strchr(text, '=');
	char path[128];
	int rc;

	if (!equals || !override_path(text, path, sizeof(path)))
		return err_set(err, -EINVAL,
			       "override '%.100s': write section.key=value, such as "
			       "dataset.num_files_train=5000",
			       text);
	rc = check_override(path, text, err);
	if (rc == 0)
		rc = yaml_parse(equals + 1, strlen(equals + 1), text, true, &value, err);
	return rc < 0 ? rc : yaml_put(root, path, value, err);
}

/* ---- Keys ---- */

static int read_keys(struct yaml_node *root, struct workload *w, struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < workload_nr_keys; i++) {
		const struct workload_key_spec *key = &workload_keys[i];
		struct yaml_node *node = yaml_find(root, key->path);

		if (!node || yaml_node_is_null(node))
			continue;
		/* The alternative spelling counts if the right one is not given. */
		if (key->alias_of && !yaml_find(root, key->alias_of))
			key = workload_key_find(key->alias_of);
		if (!key->alias_of)
			rc = workload_key_read(key, node, w, err);
	}
	return rc;
}

/* Collects a warning's text, truncated if it does not fit. */
struct unused_keys {
	char words[600];
	size_t at, nr;
};

static void add_unused_key(struct unused_keys *unused_keys, const char *path)
{
	int n;

	if (unused_keys->at >= sizeof(unused_keys->words))
		return;
	n = snprintf(unused_keys->words + unused_keys->at,
		     sizeof(unused_keys->words) - unused_keys->at, "%s%s",
		     unused_keys->nr++ ? ", " : "", path);
	unused_keys->at += n > 0 ? (size_t)n : 0;
}

struct key_walk {
	const struct workload *w;
	workload_warn_fn *warn;
	void *self;
	struct unused_keys unused_keys;
	struct shoal_err *err;
};

static void warn_unknown(struct key_walk *k, const struct yaml_node *n, const char *path)
{
	char where[300], words[600];
	const char *near = workload_key_nearest(path);

	yaml_node_where(n, where, sizeof(where));
	snprintf(words, sizeof(words), "%s: there is no key '%.150s'%s%s%s; it is left out", where,
		 path, near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
	if (near)
		words[strlen(words) - strlen("; it is left out")] = '\0';
	k->warn(k->self, words);
}

/* Record a known key in the warning if it requests something that Shoal does not do yet. */
static void note_known(struct key_walk *k, const struct workload_key_spec *key,
		       const struct yaml_node *n)
{
	bool on = false;
	double zero = 1;

	if (key->alias_of)
		key = workload_key_find(key->alias_of);
	if (key->use != KEY_UNUSED || yaml_node_is_null(n) || workload_key_is_off(key, k->w))
		return;
	/* "pin_memory: false" requests nothing. */
	if (n->kind == YAML_SCALAR && workload_parse_bool(n->text, &on) == 0 && !on)
		return;
	if (n->kind == YAML_SCALAR && workload_parse_real(n->text, &zero) == 0 && zero == 0)
		return;
	if (n->kind == YAML_SCALAR && strcmp(n->text, "none") == 0)
		return;
	add_unused_key(&k->unused_keys, key->path);
}

static int walk_keys(struct key_walk *k, const struct yaml_node *map, const char *above)
{
	int rc = 0;

	for (const struct yaml_node *n = map->child; rc == 0 && n; n = n->next) {
		const struct workload_key_spec *key;
		char path[300];

		snprintf(path, sizeof(path), "%s%s%.100s", above, *above ? "." : "", n->key);
		key = workload_key_find(path);
		if (key)
			note_known(k, key, n);
		else if (!workload_key_is_section(path))
			warn_unknown(k, n, path);
		else if (n->kind == YAML_MAP)
			rc = walk_keys(k, n, path);
		else if (!yaml_node_is_null(n))
			rc = yaml_node_fail(n, k->err, "'%s' must be a map of keys", path);
	}
	return rc;
}

static void no_warning(void *self, const char *words)
{
	(void)self;
	(void)words;
}

static int name_keys(struct yaml_node *root, const char *label, const struct workload *w,
		     workload_warn_fn *warn, void *self, struct shoal_err *err)
{
	struct key_walk k = { .w = w, .warn = warn ? warn : no_warning, .self = self, .err = err };
	char words[900];
	int rc = walk_keys(&k, root, "");

	if (rc < 0 || k.unused_keys.nr == 0)
		return rc;
	snprintf(words, sizeof(words), "%.200s: not used yet: %s", label, k.unused_keys.words);
	k.warn(self, words);
	return 0;
}

uint64_t workload_batches_ahead(const struct workload *w, uint64_t read_threads)
{
	uint64_t per_worker = (w->reader.prefetch + read_threads - 1) / read_threads;

	if (!w->reader.torch)
		return u64_max(1, w->reader.prefetch);
	return read_threads * (per_worker ? per_worker : 2);
}

/* ---- All together ---- */

static int from_tree(struct yaml_node **root, const char *label, char *const *overrides, size_t nr,
		     workload_warn_fn *warn, void *self, struct workload *w, struct shoal_err *err)
{
	int rc = unwrap(root, label, err);

	if (rc == 0)
		rc = rename_reader(*root, err);
	if (rc == 0)
		rc = expand_model(*root, err);
	for (size_t i = 0; rc == 0 && i < nr; i++)
		rc = apply_override(*root, overrides[i], err);
	if (rc == 0)
		rc = workload_defaults(w, err);
	if (rc == 0)
		rc = workload_write_asked(*root, &w->asked, err);
	if (rc == 0)
		rc = yaml_interpolate(*root, err);
	if (rc == 0)
		rc = read_keys(*root, w, err);
	if (rc == 0)
		rc = name_keys(*root, label, w, warn, self, err);
	if (rc == 0)
		rc = workload_check(w, *root, warn, self, err);
	if (rc == 0)
		rc = workload_write(w, *root, &w->yaml, err);
	if (rc == 0) {
		w->name = strdup(label);
		rc = w->name ? 0 : err_set(err, -ENOMEM, "out of memory");
	}
	return rc;
}

int workload_parse(const char *text, size_t len, const char *label, char *const *overrides,
		   size_t nr, workload_warn_fn *warn, void *self, struct workload **ret_workload,
		   struct shoal_err *err)
{
	struct workload *w = calloc(1, sizeof(*w));
	struct yaml_node *root = NULL;
	int rc;

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	rc = yaml_parse(text, len, label, false, &root, err);
	if (rc == 0)
		rc = from_tree(&root, label, overrides, nr, warn, self, w, err);
	yaml_free(root);
	if (rc < 0) {
		workload_free(w);
		return rc;
	}
	*ret_workload = w;
	return 0;
}
