/* Print a workload as YAML, with all defaults. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "workload/keys.h"

/* The texts of a file have at most YAML_BYTES_MAX bytes, and an escape has four bytes. */
#define WRITE_MAX (8u * YAML_BYTES_MAX)

static void write_word(struct buf *out, const char *text)
{
	buf_append(out, text, strlen(text));
}

/* For short text only. */
static void PRINTF_LIKE(2, 3) write_format(struct buf *out, const char *fmt, ...)
{
	char buf[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	write_word(out, buf);
}

/* ---- Scalars ---- */

static bool is_plain_scalar(const char *text)
{
	size_t len = strlen(text);
	bool b;
	double d;

	if (len == 0 || strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789_./") != len)
		return false;
	/* Quote what would be read as another type. */
	return workload_parse_bool(text, &b) < 0 && workload_parse_real(text, &d) < 0 &&
	       strcasecmp(text, "null") != 0 && strncasecmp(text, "0x", 2) != 0;
}

/* Bytes that are not UTF-8 come only from overrides; they become "?". */
static void write_text(struct buf *out, const char *text)
{
	size_t left = strlen(text);

	if (is_plain_scalar(text)) {
		write_word(out, text);
		return;
	}
	buf_u8(out, '"');
	while (left > 0) {
		size_t n = utf8_len(text, left);
		unsigned char c = (unsigned char)*text;

		if (n == 0)
			buf_u8(out, '?');
		else if (c == '"' || c == '\\')
			write_format(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			write_format(out, "\\x%02x", c);
		else
			buf_append(out, text, n);
		text += n ? n : 1;
		left -= n ? n : 1;
	}
	buf_u8(out, '"');
}

/* The fewest digits that give the same number. */
static void write_real(struct buf *out, double v)
{
	char buf[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, sizeof(buf), "%.*g", digits, v);
		if (strtod(buf, NULL) == v)
			break;
	}
	write_word(out, buf);
}

static void write_pair(struct buf *out, const char *name, double v, const char *before)
{
	write_format(out, "%s%s: ", before, name);
	write_real(out, v);
}

static void write_time(struct buf *out, const struct workload_time *t)
{
	static const struct {
		const char *type, *a, *b;
	} names[] = {
		[WORKLOAD_TIME_NORMAL] = { "normal", "mean", "stdev" },
		[WORKLOAD_TIME_UNIFORM] = { "uniform", "min", "max" },
		[WORKLOAD_TIME_GAMMA] = { "gamma", "shape", "scale" },
		[WORKLOAD_TIME_EXPONENTIAL] = { "exponential", "scale", NULL },
		[WORKLOAD_TIME_POISSON] = { "poisson", "lam", NULL },
	};

	if (t->kind == WORKLOAD_TIME_NONE) {
		write_word(out, "{}");
	} else if (t->kind == WORKLOAD_TIME_FIXED) {
		write_real(out, t->a);
	} else {
		write_format(out, "{type: %s", names[t->kind].type);
		write_pair(out, names[t->kind].a, t->a, ", ");
		if (names[t->kind].b)
			write_pair(out, names[t->kind].b, t->b, ", ");
		buf_u8(out, '}');
	}
}

static void write_folders(struct buf *out, const struct workload_subfolders *f)
{
	if (f->nr_levels <= 1) {
		write_format(out, "%" PRIu64, f->nr_levels ? f->nr : 0);
		return;
	}
	for (unsigned i = 0; i < f->nr_levels; i++)
		write_format(out, "%s%" PRIu64, i ? ", " : "[", f->fanout[i]);
	buf_u8(out, ']');
}

static bool is_secret(const char *key)
{
	static const char *const words[] = { "secret", "access_key", "token", "password" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasestr(key, words[i]))
			return true;
	return false;
}

static void write_scalar(struct buf *out, const struct yaml_node *n)
{
	double d;
	bool b;

	if (yaml_node_is_null(n))
		write_word(out, "null");
	else if (!n->quoted &&
		 (workload_parse_bool(n->text, &b) == 0 || workload_parse_real(n->text, &d) == 0))
		write_word(out, n->text);
	else
		write_text(out, n->text);
}

/* A node without a field, on one line. */
static void write_node(struct buf *out, const struct yaml_node *n)
{
	bool map = n->kind == YAML_MAP;

	if (n->kind == YAML_SCALAR) {
		write_scalar(out, n);
		return;
	}
	buf_u8(out, map ? '{' : '[');
	for (const struct yaml_node *c = n->child; c; c = c->next) {
		if (c != n->child)
			write_word(out, ", ");
		if (c->key) {
			write_text(out, c->key);
			write_word(out, ": ");
		}
		if (c->key && is_secret(c->key))
			write_word(out, "'***'");
		else
			write_node(out, c);
	}
	buf_u8(out, map ? '}' : ']');
}

/* ---- Keys ---- */

static void write_value(struct buf *out, const struct workload_key_spec *key,
			const struct workload *w, const struct yaml_node *node)
{
	const char *at = (const char *)w + key->at;

	switch (key->type) {
	case KEY_BOOL:
		write_word(out, *(const bool *)(const void *)at ? "true" : "false");
		break;
	case KEY_COUNT:
		write_format(out, "%" PRIu64, *(const uint64_t *)(const void *)at);
		break;
	case KEY_COUNT_OR_NO:
		if (*(const uint64_t *)(const void *)at)
			write_format(out, "%" PRIu64, *(const uint64_t *)(const void *)at);
		else
			write_word(out, "-1");
		break;
	case KEY_REAL:
		write_real(out, *(const double *)(const void *)at);
		break;
	case KEY_TEXT:
		write_text(out, *(char *const *)(const void *)at);
		break;
	case KEY_WORD:
		write_text(out, key->words[*(const int *)(const void *)at]);
		break;
	case KEY_TIME:
		write_time(out, (const struct workload_time *)(const void *)at);
		break;
	case KEY_FOLDERS:
		write_folders(out, (const struct workload_subfolders *)(const void *)at);
		break;
	case KEY_ANY:
	case KEY_COLUMNS:
	case KEY_DEVIATION: /* printed with its time */
		write_node(out, node);
		break;
	}
}

/*
 * For "output.metric.x" after "output.folder": the new headings, and the indented last component.
 */
static void write_heading(struct buf *out, const char *before, const char *path)
{
	size_t shared = 0;
	int depth = 0;
	const char *dot;

	for (size_t i = 0; before[i] && before[i] == path[i]; i++) {
		if (path[i] == '.') {
			shared = i + 1;
			depth++;
		}
	}
	for (path += shared; (dot = strchr(path, '.')) != NULL; path = dot + 1)
		write_format(out, "%*s%.*s:\n", 2 * depth++, "", (int)(dot - path), path);
	write_format(out, "%*s%s: ", 2 * depth, "", path);
}

/* Whether a key is printed: it has a field, or was given. */
static bool is_printed(const struct workload_key_spec *key, const struct workload *w,
		       const struct yaml_node *node)
{
	if (key->alias_of || key->type == KEY_DEVIATION)
		return false;
	if (key->type == KEY_ANY || key->type == KEY_COLUMNS)
		return node && !yaml_node_is_null(node);
	if (key->type == KEY_TEXT)
		return *(char *const *)(const void *)((const char *)w + key->at) != NULL;
	return true;
}

static int write_end(struct buf *out, char **ret_yaml, struct shoal_err *err)
{
	int rc;

	buf_u8(out, '\0');
	rc = out->rc;
	if (rc < 0) {
		buf_release(out);
		return err_set(err, rc, "out of memory while writing the workload");
	}
	*ret_yaml = (char *)out->data;
	return 0;
}

int workload_write(const struct workload *w, struct yaml_node *root, char **ret_yaml,
		   struct shoal_err *err)
{
	struct buf out = { .max = WRITE_MAX };
	const char *before = "";

	for (size_t i = 0; i < workload_nr_keys; i++) {
		const struct workload_key_spec *key = &workload_keys[i];
		struct yaml_node *node = yaml_find(root, key->path);

		if (!is_printed(key, w, node))
			continue;
		write_heading(&out, before, key->path);
		write_value(&out, key, w, node);
		buf_u8(&out, '\n');
		before = key->path;
	}
	return write_end(&out, ret_yaml, err);
}

/* ---- As given ---- */

static void write_map(struct buf *out, const struct yaml_node *map, int depth)
{
	for (const struct yaml_node *n = map->child; n; n = n->next) {
		write_format(out, "%*s", 2 * depth, "");
		write_text(out, n->key);
		if (n->kind == YAML_MAP && n->child && !is_secret(n->key)) {
			write_word(out, ":\n");
			write_map(out, n, depth + 1); /* at most DEPTH_MAX deep */
			continue;
		}
		write_word(out, ": ");
		if (is_secret(n->key))
			write_word(out, "'***'");
		else
			write_node(out, n);
		buf_u8(out, '\n');
	}
}

int workload_write_asked(const struct yaml_node *root, char **ret_yaml, struct shoal_err *err)
{
	struct buf out = { .max = WRITE_MAX };

	write_word(&out, "workload:\n");
	write_map(&out, root, 1);
	return write_end(&out, ret_yaml, err);
}
