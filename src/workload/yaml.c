/* Build a tree from YAML events. The only file that uses libfyaml. */
#include "workload/yaml.h"

#include <libfyaml.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define OVERRIDE "override '" /* how messages of overrides begin */

#define NODES_MAX 20000u
#define DEPTH_MAX 32u

/* ---- Nodes ---- */

struct yaml_node *yaml_free(struct yaml_node *node)
{
	while (node) {
		struct yaml_node *next = node->next;

		yaml_free(node->child); /* recursion is at most DEPTH_MAX deep */
		free(node->key);
		free(node->text);
		free(node);
		node = next;
	}
	return NULL;
}

void yaml_node_where(const struct yaml_node *node, char *buf, size_t cap)
{
	if (node->line > 0)
		snprintf(buf, cap, "%s:%d:%d", node->origin, node->line, node->column);
	else
		/* Without its value, which may be a secret. */
		snprintf(buf, cap, OVERRIDE "%.*s'", (int)u64_min(strcspn(node->origin, "="), 200),
			 node->origin);
}

bool yaml_message_is_of_override(const char *message)
{
	return strncmp(message, OVERRIDE, strlen(OVERRIDE)) == 0;
}

void yaml_node_message(const struct yaml_node *node, struct shoal_err *err, const char *fmt, ...)
{
	char where[300], words[440];
	va_list args;

	va_start(args, fmt);
	vsnprintf(words, sizeof(words), fmt, args);
	va_end(args);
	yaml_node_where(node, where, sizeof(where));
	err_describe(err, "%s: %s", where, words);
}

bool yaml_node_is_null(const struct yaml_node *node)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL" };

	if (node->kind != YAML_SCALAR || node->quoted)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(node->text, words[i]) == 0)
			return true;
	return false;
}

struct yaml_node *yaml_node_child(struct yaml_node *map, const char *key, size_t len)
{
	if (map->kind != YAML_MAP)
		return NULL;
	for (struct yaml_node *n = map->child; n; n = n->next)
		if (strlen(n->key) == len && memcmp(n->key, key, len) == 0)
			return n;
	return NULL;
}

struct yaml_node *yaml_find(struct yaml_node *root, const char *path)
{
	while (root && *path) {
		size_t len = strcspn(path, ".");

		root = yaml_node_child(root, path, len);
		path += len + (path[len] == '.');
	}
	return root;
}

/* ---- Reading ---- */

struct anchor {
	char *name;
	size_t len;
	const struct yaml_node *node; /* lent */
	struct anchor *next;
};

struct yaml_reader {
	struct fy_parser *parser;
	struct fy_diag *diag;
	const char *origin;
	bool override;
	unsigned nr_nodes;
	struct anchor *anchors; /* at most one per node */
	struct shoal_err *err;
};

static struct yaml_node at_mark(const struct yaml_reader *r, const struct fy_mark *mark)
{
	struct yaml_node n = { .origin = r->origin };

	if (!r->override) {
		n.line = mark ? mark->line + 1 : 1;
		n.column = mark ? mark->column + 1 : 1;
	}
	return n;
}

static struct yaml_node at_event(const struct yaml_reader *r, struct fy_event *e)
{
	return at_mark(r, fy_event_start_mark(e));
}

/* Report libfyaml's first error. */
static int fail_yaml(const struct yaml_reader *r)
{
	struct yaml_node at = at_mark(r, NULL);
	struct fy_diag_error *e;
	void *prev = NULL;

	e = fy_diag_errors_iterate(r->diag, &prev);
	if (!e)
		return err_set(r->err, -EBADMSG,
			       "%.300s: cannot be read: not YAML, or out of memory", r->origin);
	if (!r->override && e->line > 0) {
		at.line = e->line;
		at.column = e->column;
	}
	return yaml_node_fail(&at, r->err, "not valid YAML: %.200s", e->msg);
}

static int next_event(const struct yaml_reader *r, struct fy_event **ret_event)
{
	*ret_event = fy_parser_parse(r->parser);
	return *ret_event ? 0 : fail_yaml(r);
}

static int new_node(struct yaml_reader *r, const struct yaml_node *like,
		    struct yaml_node **ret_node)
{
	struct yaml_node *n;

	if (++r->nr_nodes > NODES_MAX)
		return yaml_node_fail(like, r->err,
				      "a workload has at most %u values, but this one has more",
				      NODES_MAX);
	n = malloc(sizeof(*n));
	if (!n)
		return err_set(r->err, -ENOMEM, "out of memory");
	*n = (struct yaml_node){ .kind = like->kind,
				 .quoted = like->quoted,
				 .line = like->line,
				 .column = like->column,
				 .origin = like->origin };
	*ret_node = n;
	return 0;
}

static int copy_text(const struct yaml_reader *r, const struct yaml_node *at, const char *text,
		     size_t len, char **ret_text)
{
	if (memchr(text, '\0', len))
		return yaml_node_fail(at, r->err, "a value contains a NUL byte");
	*ret_text = strndup(text, len);
	return *ret_text ? 0 : err_set(r->err, -ENOMEM, "out of memory");
}

/*
 * The text of a token. libfyaml builds it on request: if memory is short then, the text is empty or
 * NULL, but its length is known. Without a token it is empty.
 */
static int token_text(const struct yaml_reader *r, struct fy_token *token, const char **ret_text,
		      size_t *ret_len)
{
	*ret_len = 0;
	*ret_text = token ? fy_token_get_text(token, ret_len) : "";
	if (!*ret_text || (token && *ret_len != fy_token_get_text_length(token)))
		return err_set(r->err, -ENOMEM, "out of memory");
	return 0;
}

static int copy_node(struct yaml_reader *r, const struct yaml_node *from, unsigned depth,
		     struct yaml_node **ret_node)
{
	struct yaml_node *n = NULL, **tail;
	int rc;

	if (depth > DEPTH_MAX)
		return yaml_node_fail(from, r->err, "more than %u levels of nesting", DEPTH_MAX);
	rc = new_node(r, from, &n);
	if (rc < 0)
		return rc;
	if (from->key)
		rc = copy_text(r, from, from->key, strlen(from->key), &n->key);
	if (rc == 0 && from->text)
		rc = copy_text(r, from, from->text, strlen(from->text), &n->text);
	tail = &n->child;
	for (const struct yaml_node *c = from->child; rc == 0 && c; c = c->next) {
		rc = copy_node(r, c, depth + 1, tail);
		if (rc == 0)
			tail = &(*tail)->next;
	}
	if (rc < 0) {
		yaml_free(n);
		return rc;
	}
	*ret_node = n;
	return 0;
}

static int read_alias(struct yaml_reader *r, struct fy_event *e, unsigned depth,
		      struct yaml_node **ret_node)
{
	struct yaml_node at = at_event(r, e);
	const char *name;
	size_t len;
	int rc = token_text(r, fy_event_get_token(e), &name, &len);

	if (rc < 0)
		return rc;
	for (const struct anchor *a = r->anchors; a; a = a->next)
		if (a->len == len && memcmp(a->name, name, len) == 0)
			return copy_node(r, a->node, depth, ret_node);
	at.column -= at.column > 1; /* its mark is after the star */
	return yaml_node_fail(&at, r->err, "alias '*%.*s' is not defined", (int)len, name);
}

static int remember_anchor(struct yaml_reader *r, struct fy_event *e, const struct yaml_node *node)
{
	struct fy_token *token = fy_event_get_anchor_token(e);
	struct anchor *a;
	const char *name;
	size_t len;
	int rc = token_text(r, token, &name, &len);

	if (!token || rc < 0)
		return rc;
	a = calloc(1, sizeof(*a));
	if (a)
		a->name = strndup(name, len);
	if (!a || !a->name) {
		free(a);
		return err_set(r->err, -ENOMEM, "out of memory");
	}
	a->len = strlen(a->name);
	a->node = node;
	a->next = r->anchors; /* at the front, because the latest of a name counts */
	r->anchors = a;
	return 0;
}

static int read_value(struct yaml_reader *r, struct fy_event *e, unsigned depth,
		      struct yaml_node **ret_node);

/* Add to @map the keys that @other has and @map lacks. */
static int merge_map(struct yaml_reader *r, struct yaml_node *map, const struct yaml_node *other,
		     unsigned depth)
{
	struct yaml_node **tail = &map->child;
	int rc = 0;

	if (other->kind != YAML_MAP)
		return yaml_node_fail(other, r->err, "'<<' must be a map, or a list of maps");
	while (*tail)
		tail = &(*tail)->next;
	for (const struct yaml_node *c = other->child; rc == 0 && c; c = c->next) {
		if (yaml_node_child(map, c->key, strlen(c->key)))
			continue;
		rc = copy_node(r, c, depth + 1, tail);
		if (rc == 0)
			tail = &(*tail)->next;
	}
	return rc;
}

/* "<<: *base": the map's own keys take precedence, wherever they are. */
static int merge(struct yaml_reader *r, struct yaml_node *map, unsigned depth)
{
	struct yaml_node **at = &map->child, *from;
	int rc = 0;

	while (*at && strcmp((*at)->key, "<<") != 0)
		at = &(*at)->next;
	if (!*at)
		return 0;
	from = *at;
	*at = from->next;
	from->next = NULL;
	if (from->kind == YAML_LIST) {
		for (const struct yaml_node *n = from->child; rc == 0 && n; n = n->next)
			rc = merge_map(r, map, n, depth);
	} else {
		rc = merge_map(r, map, from, depth);
	}
	yaml_free(from);
	return rc;
}

static int read_key(struct yaml_reader *r, struct fy_event *e, const struct yaml_node *map,
		    char **ret_key)
{
	struct yaml_node at = at_event(r, e);
	const char *text;
	size_t len;
	int rc;

	if (e->type != FYET_SCALAR)
		return yaml_node_fail(&at, r->err, "a key must be a plain word");
	rc = token_text(r, fy_event_get_token(e), &text, &len);
	if (rc < 0)
		return rc;
	for (const struct yaml_node *n = map->child; n; n = n->next)
		if (strlen(n->key) == len && memcmp(n->key, text, len) == 0)
			return yaml_node_fail(&at, r->err, "key '%.100s' is given twice", n->key);
	return copy_text(r, &at, text, len, ret_key);
}

/* A pair whose key is @e. The position of a value is that of its key: an empty value has none. */
static int read_pair(struct yaml_reader *r, struct fy_event *e, const struct yaml_node *map,
		     unsigned depth, struct yaml_node **ret_node)
{
	struct yaml_node at = at_event(r, e);
	struct fy_event *value = NULL;
	char *key = NULL;
	int rc = read_key(r, e, map, &key);

	if (rc == 0)
		rc = next_event(r, &value);
	if (rc == 0)
		rc = read_value(r, value, depth + 1, ret_node);
	if (value)
		fy_parser_event_free(r->parser, value);
	if (rc != 0) {
		free(key);
		return rc;
	}
	free((*ret_node)->key);
	(*ret_node)->key = key;
	(*ret_node)->line = at.line;
	(*ret_node)->column = at.column;
	return 0;
}

static int read_inside(struct yaml_reader *r, struct yaml_node *node, unsigned depth)
{
	struct yaml_node **tail = &node->child;
	bool map = node->kind == YAML_MAP;
	int rc = 0;

	while (rc == 0) {
		struct fy_event *e = NULL;
		bool end;

		rc = next_event(r, &e);
		if (rc < 0)
			return rc;
		end = e->type == (map ? FYET_MAPPING_END : FYET_SEQUENCE_END);
		if (!end && map)
			rc = read_pair(r, e, node, depth, tail);
		else if (!end)
			rc = read_value(r, e, depth + 1, tail);
		fy_parser_event_free(r->parser, e);
		if (end)
			break;
		if (*tail)
			tail = &(*tail)->next;
	}
	return rc == 0 && map ? merge(r, node, depth) : rc;
}

static int read_scalar(const struct yaml_reader *r, struct fy_event *e, struct yaml_node *node)
{
	enum fy_node_style style = fy_event_get_node_style(e);
	const char *text;
	size_t len;
	int rc = token_text(r, fy_event_get_token(e), &text, &len);

	node->quoted = style != FYNS_PLAIN && style != FYNS_ANY;
	return rc < 0 ? rc : copy_text(r, node, text, len, &node->text);
}

static int read_value(struct yaml_reader *r, struct fy_event *e, unsigned depth,
		      struct yaml_node **ret_node)
{
	struct yaml_node at = at_event(r, e), *n = NULL;
	int rc;

	if (depth > DEPTH_MAX)
		return yaml_node_fail(&at, r->err, "more than %u levels of nesting", DEPTH_MAX);
	if (e->type == FYET_ALIAS)
		return read_alias(r, e, depth, ret_node);
	at.kind = e->type == FYET_MAPPING_START    ? YAML_MAP
		  : e->type == FYET_SEQUENCE_START ? YAML_LIST
						   : YAML_SCALAR;
	if (at.kind == YAML_SCALAR && e->type != FYET_SCALAR)
		return yaml_node_fail(&at, r->err, "not valid YAML: no value here");
	rc = new_node(r, &at, &n);
	if (rc < 0)
		return rc;
	rc = at.kind == YAML_SCALAR ? read_scalar(r, e, n) : read_inside(r, n, depth);
	/* After its content, so that an alias to itself inside it is undefined. */
	if (rc == 0)
		rc = remember_anchor(r, e, n);
	if (rc != 0) {
		yaml_free(n);
		return rc;
	}
	*ret_node = n;
	return 0;
}

static bool is_frame(enum fy_event_type type)
{
	return type == FYET_STREAM_START || type == FYET_STREAM_END ||
	       type == FYET_DOCUMENT_START || type == FYET_DOCUMENT_END;
}

/* Read the stream's only document: events up to its end. */
static int read_events(struct yaml_reader *r, struct yaml_node **root)
{
	enum fy_event_type type = FYET_NONE;
	int rc = 0;

	while (rc == 0 && type != FYET_STREAM_END) {
		struct fy_event *e = NULL;
		struct yaml_node at;

		rc = next_event(r, &e);
		if (rc < 0)
			return rc;
		type = e->type;
		at = at_event(r, e);
		if (*root && type != FYET_DOCUMENT_END && type != FYET_STREAM_END)
			rc = yaml_node_fail(&at, r->err, "a second document starts here");
		else if (!is_frame(type))
			rc = read_value(r, e, 0, root);
		fy_parser_event_free(r->parser, e);
	}
	return rc;
}

static int read_stream(struct yaml_reader *r, struct yaml_node **ret_root)
{
	struct yaml_node *root = NULL, at = at_mark(r, NULL);
	int rc = read_events(r, &root);

	if (rc == 0 && !root) {
		rc = new_node(r, &at, &root);
		if (rc == 0)
			rc = copy_text(r, &at, "", 0, &root->text);
	}
	if (rc != 0) {
		yaml_free(root);
		return rc;
	}
	*ret_root = root;
	return 0;
}

static void free_anchors(struct anchor *a)
{
	while (a) {
		struct anchor *next = a->next;

		free(a->name);
		free(a);
		a = next;
	}
}

/* "%YAML 1.1" is accepted. Workloads need no other directive, and libfyaml hangs on some. */
static bool is_directive(const char *line, size_t len)
{
	static const char version[] = "%YAML 1.";

	return *line == '%' &&
	       (len < sizeof(version) || memcmp(line, version, sizeof(version) - 1) != 0);
}

/* libfyaml accepts some sequences that are not UTF-8, and takes a leading 0xff for UTF-16. */
static int check_text(const struct yaml_reader *r, const char *text, size_t len)
{
	struct fy_mark at = { 0 };

	for (size_t i = 0, n; i < len; i += n) {
		const char *wrong = NULL;

		n = utf8_len(text + i, len - i);
		if (n == 0 || text[i] == '\0')
			wrong = "a byte that is not UTF-8 text";
		else if (at.column == 0 && is_directive(text + i, len - i))
			wrong = "a line that starts with '%', where a value must be quoted";
		if (wrong) {
			struct yaml_node node = at_mark(r, &at);

			return yaml_node_fail(&node, r->err, "not valid YAML: %s", wrong);
		}
		at.column++;
		if (text[i] == '\n') {
			at.line++;
			at.column = 0;
		}
	}
	return 0;
}

int yaml_parse(const char *text, size_t len, const char *origin, bool override,
	       struct yaml_node **ret_root, struct shoal_err *err)
{
	struct yaml_reader r = { .origin = origin, .override = override, .err = err };
	struct fy_parse_cfg cfg = { .flags = FYPCF_DEFAULT_VERSION_1_1 | FYPCF_COLLECT_DIAG };
	int rc;

	if (len > YAML_BYTES_MAX)
		return err_set(err, -EINVAL, "%.300s: a workload has at most %u bytes", origin,
			       YAML_BYTES_MAX);
	rc = check_text(&r, text, len);
	if (rc < 0)
		return rc;
	r.diag = fy_diag_create(NULL);
	if (!r.diag)
		return err_set(err, -ENOMEM, "out of memory");
	fy_diag_set_collect_errors(r.diag, true);
	cfg.diag = r.diag;
	r.parser = fy_parser_create(&cfg);
	if (!r.parser || fy_parser_set_string(r.parser, len ? text : "", len) != 0)
		rc = err_set(err, -ENOMEM, "out of memory");
	else
		rc = read_stream(&r, ret_root);
	if (r.parser)
		fy_parser_destroy(r.parser);
	fy_diag_destroy(r.diag);
	free_anchors(r.anchors);
	return rc;
}
