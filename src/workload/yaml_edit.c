/* Modify a tree: apply overrides, and expand "${...}". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workload/yaml.h"

/* The longest expanded text, and the deepest chain of references. */
#define TEXT_MAX 4096u
#define HOPS_MAX 8u
/* References per text, including nested ones: 8 levels of 100 each would never end. */
#define REFERENCES_MAX 1000u

/* ---- Overrides ---- */

/* Append an empty map called @key to @parent. */
static struct yaml_node *add_map(struct yaml_node *parent, const char *key, size_t len,
				 const struct yaml_node *like)
{
	struct yaml_node **tail = &parent->child, *n = calloc(1, sizeof(*n));

	if (n)
		n->key = strndup(key, len);
	if (!n || !n->key) {
		free(n);
		return NULL;
	}
	n->kind = YAML_MAP;
	n->line = like->line;
	n->column = like->column;
	n->origin = like->origin;
	while (*tail)
		tail = &(*tail)->next;
	return *tail = n;
}

static void become(struct yaml_node *node, struct yaml_node *value)
{
	yaml_free(node->child);
	free(node->text);
	node->kind = value->kind;
	node->text = value->text;
	node->child = value->child;
	node->quoted = value->quoted;
	node->line = value->line;
	node->column = value->column;
	node->origin = value->origin;
	free(value->key);
	free(value);
}

int yaml_put(struct yaml_node *root, const char *path, struct yaml_node *value,
	     struct shoal_err *err)
{
	struct yaml_node *at = root;
	const char *rest = path;
	int rc = 0;

	while (rc == 0 && *rest) {
		size_t len = strcspn(rest, ".");
		struct yaml_node *child;

		if (at->kind == YAML_SCALAR && yaml_node_is_null(at)) {
			free(at->text);
			at->text = NULL;
			at->kind = YAML_MAP;
		}
		if (len == 0 || (rest[len] == '.' && !rest[len + 1])) {
			rc = yaml_node_fail(value, err, "'%.100s' is not a key", path);
			break;
		}
		if (at->kind != YAML_MAP) {
			rc = yaml_node_fail(value, err, "'%.*s' is a value, with no keys below it",
					    (int)u64_min((uint64_t)(rest - path - 1), 100), path);
			break;
		}
		child = yaml_node_child(at, rest, len);
		at = child ? child : add_map(at, rest, len, value);
		if (!at)
			rc = err_set(err, -ENOMEM, "out of memory");
		rest += len + (rest[len] == '.');
	}
	if (rc < 0) {
		yaml_free(value);
		return rc;
	}
	become(at, value);
	return 0;
}

/* ---- Interpolation ---- */

struct text {
	char buf[TEXT_MAX];
	size_t len;
	unsigned nr_references;
};

static int text_append(struct text *t, const struct yaml_node *at, const char *s, size_t len,
		       struct shoal_err *err)
{
	if (len >= sizeof(t->buf) - t->len)
		return yaml_node_fail(
			at, err, "with '${...}' replaced, this has more than %u bytes", TEXT_MAX);
	memcpy(t->buf + t->len, s, len);
	t->len += len;
	t->buf[t->len] = '\0';
	return 0;
}

static int expand_text(struct yaml_node *root, const struct yaml_node *at, const char *s,
		       unsigned hops, struct text *t, struct shoal_err *err);

/* Expand "oc.env:NAME" or "oc.env:NAME,default". */
static int from_environment(const struct yaml_node *at, const char *s, size_t len, struct text *t,
			    struct shoal_err *err)
{
	char name[256];
	size_t n = strcspn(s, ",");
	const char *value;

	n = n < len ? n : len;
	if (n == 0 || n >= sizeof(name))
		return yaml_node_fail(at, err, "'${oc.env:...}' needs the name of a variable");
	memcpy(name, s, n);
	name[n] = '\0';
	value = getenv(name);
	if (value)
		return text_append(t, at, value, strlen(value), err);
	if (n == len)
		return yaml_node_fail(at, err, "the environment has no variable %s", name);
	return text_append(t, at, s + n + 1, len - n - 1, err);
}

/* As in overrides: with or without "workload.", and "data_reader" means "reader". */
static struct yaml_node *find_reference(struct yaml_node *root, const char *path)
{
	if (strncmp(path, "workload.", 9) == 0)
		path += 9;
	if (strncmp(path, "data_reader.", 12) == 0)
		path += 5;
	return yaml_find(root, path);
}

/* Expand the text between "${" and "}". */
static int reference(struct yaml_node *root, const struct yaml_node *at, const char *s, size_t len,
		     unsigned hops, struct text *t, struct shoal_err *err)
{
	char path[256];
	struct yaml_node *n;

	if (len > 7 && memcmp(s, "oc.env:", 7) == 0)
		return from_environment(at, s + 7, len - 7, t, err);
	if (len >= sizeof(path) || memchr(s, ':', len) || (len > 0 && *s == '.'))
		return yaml_node_fail(
			at, err, "'${%.*s}' is not supported: use ${section.key} or ${oc.env:NAME}",
			(int)u64_min(len, 100), s);
	memcpy(path, s, len);
	path[len] = '\0';
	n = len ? find_reference(root, path) : NULL;
	if (!n || n->kind != YAML_SCALAR)
		return yaml_node_fail(at, err, "'${%.100s}' is not a value of this workload", path);
	if (hops >= HOPS_MAX || ++t->nr_references > REFERENCES_MAX)
		return yaml_node_fail(at, err, "'${%.100s}' refers to itself", path);
	return expand_text(root, at, n->text, hops + 1, t, err);
}

static int expand_text(struct yaml_node *root, const struct yaml_node *at, const char *s,
		       unsigned hops, struct text *t, struct shoal_err *err)
{
	int rc = 0;

	while (rc == 0 && *s) {
		const char *open = strstr(s, "${"), *end;

		if (!open)
			return text_append(t, at, s, strlen(s), err);
		end = strchr(open, '}');
		if (!end)
			return yaml_node_fail(at, err, "'${' without a closing '}'");
		rc = text_append(t, at, s, (size_t)(open - s), err);
		if (rc == 0)
			rc = reference(root, at, open + 2, (size_t)(end - open - 2), hops, t, err);
		s = end + 1;
	}
	return rc;
}

static int expand_scalar(struct yaml_node *root, struct yaml_node *n, struct shoal_err *err)
{
	struct text *t = malloc(sizeof(*t));
	char *text;
	int rc;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->len = 0;
	t->nr_references = 0;
	t->buf[0] = '\0';
	rc = expand_text(root, n, n->text, 0, t, err);
	text = rc == 0 ? strdup(t->buf) : NULL;
	free(t);
	if (rc < 0)
		return rc;
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	free(n->text);
	n->text = text;
	return 0;
}

static int interpolate(struct yaml_node *root, struct yaml_node *n, struct shoal_err *err)
{
	int rc = 0;

	for (; rc == 0 && n; n = n->next) {
		if (n->kind == YAML_SCALAR && strstr(n->text, "${"))
			rc = expand_scalar(root, n, err);
		else if (n->kind != YAML_SCALAR)
			rc = interpolate(root, n->child, err);
	}
	return rc;
}

int yaml_interpolate(struct yaml_node *root, struct shoal_err *err)
{
	return interpolate(root, root, err);
}
