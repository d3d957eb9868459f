/* A workload as YAML, with all that was not said filled in. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "bench/keys.h"

/* Texts of a file have BENCH_YAML_MAX bytes together, and escapes four for each. */
#define WRITE_MAX (8u * BENCH_YAML_MAX)

static void put_word(struct shoal_buf *out, const char *text)
{
	shoal_buf_append(out, text, strlen(text));
}

/* For short things only. */
static void SHOAL_PRINTF(2, 3) put(struct shoal_buf *out, const char *fmt, ...)
{
	char buf[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	put_word(out, buf);
}

/* ---- Scalars ---- */

static bool is_plain(const char *text)
{
	size_t len = strlen(text);
	bool b;
	double d;

	if (len == 0 || strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789_./") != len)
		return false;
	/* What would be read as something else. */
	return bench_parse_bool(text, &b) < 0 && bench_parse_real(text, &d) < 0 &&
	       strcasecmp(text, "null") != 0 && strncasecmp(text, "0x", 2) != 0;
}

/* Bytes that are not UTF-8 come from overrides only; a "?" is as good as any other sign for one. */
static void put_text(struct shoal_buf *out, const char *text)
{
	size_t left = strlen(text);

	if (is_plain(text)) {
		put_word(out, text);
		return;
	}
	shoal_buf_u8(out, '"');
	while (left > 0) {
		size_t n = shoal_utf8_len(text, left);
		unsigned char c = (unsigned char)*text;

		if (n == 0)
			shoal_buf_u8(out, '?');
		else if (c == '"' || c == '\\')
			put(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			put(out, "\\x%02x", c);
		else
			shoal_buf_append(out, text, n);
		text += n ? n : 1;
		left -= n ? n : 1;
	}
	shoal_buf_u8(out, '"');
}

/* As few digits as give the same number back. */
static void put_real(struct shoal_buf *out, double v)
{
	char buf[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, sizeof(buf), "%.*g", digits, v);
		if (strtod(buf, NULL) == v)
			break;
	}
	put_word(out, buf);
}

static void put_pair(struct shoal_buf *out, const char *name, double v, const char *before)
{
	put(out, "%s%s: ", before, name);
	put_real(out, v);
}

static void put_time(struct shoal_buf *out, const struct bench_time *t)
{
	static const struct {
		const char *type, *a, *b;
	} names[] = {
		[BENCH_TIME_NORMAL] = { "normal", "mean", "stdev" },
		[BENCH_TIME_UNIFORM] = { "uniform", "min", "max" },
		[BENCH_TIME_GAMMA] = { "gamma", "shape", "scale" },
		[BENCH_TIME_EXPONENTIAL] = { "exponential", "scale", NULL },
		[BENCH_TIME_POISSON] = { "poisson", "lam", NULL },
	};

	if (t->kind == BENCH_TIME_NONE) {
		put_word(out, "{}");
	} else if (t->kind == BENCH_TIME_FIXED) {
		put_real(out, t->a);
	} else {
		put(out, "{type: %s", names[t->kind].type);
		put_pair(out, names[t->kind].a, t->a, ", ");
		if (names[t->kind].b)
			put_pair(out, names[t->kind].b, t->b, ", ");
		shoal_buf_u8(out, '}');
	}
}

static void put_folders(struct shoal_buf *out, const struct bench_subfolders *f)
{
	if (f->nr_levels <= 1) {
		put(out, "%" PRIu64, f->nr_levels ? f->nr : 0);
		return;
	}
	for (unsigned i = 0; i < f->nr_levels; i++)
		put(out, "%s%" PRIu64, i ? ", " : "[", f->fanout[i]);
	shoal_buf_u8(out, ']');
}

static bool is_secret(const char *key)
{
	static const char *const words[] = { "secret", "access_key", "token", "password" };

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(words); i++)
		if (strcasestr(key, words[i]))
			return true;
	return false;
}

static void put_scalar(struct shoal_buf *out, const struct bench_node *n)
{
	double d;
	bool b;

	if (bench_node_is_null(n))
		put_word(out, "null");
	else if (!n->quoted &&
		 (bench_parse_bool(n->text, &b) == 0 || bench_parse_real(n->text, &d) == 0))
		put_word(out, n->text);
	else
		put_text(out, n->text);
}

/* A part that has no field, on one line. */
static void put_node(struct shoal_buf *out, const struct bench_node *n)
{
	bool map = n->kind == BENCH_MAP;

	if (n->kind == BENCH_SCALAR) {
		put_scalar(out, n);
		return;
	}
	shoal_buf_u8(out, map ? '{' : '[');
	for (const struct bench_node *c = n->child; c; c = c->next) {
		if (c != n->child)
			put_word(out, ", ");
		if (c->key) {
			put_text(out, c->key);
			put_word(out, ": ");
		}
		if (c->key && is_secret(c->key))
			put_word(out, "'***'");
		else
			put_node(out, c);
	}
	shoal_buf_u8(out, map ? '}' : ']');
}

/* ---- Keys ---- */

static void put_value(struct shoal_buf *out, const struct bench_known *key,
		      const struct bench_workload *w, const struct bench_node *node)
{
	const char *at = (const char *)w + key->at;

	switch (key->type) {
	case KEY_BOOL:
		put_word(out, *(const bool *)(const void *)at ? "true" : "false");
		break;
	case KEY_COUNT:
		put(out, "%" PRIu64, *(const uint64_t *)(const void *)at);
		break;
	case KEY_COUNT_OR_NO:
		if (*(const uint64_t *)(const void *)at)
			put(out, "%" PRIu64, *(const uint64_t *)(const void *)at);
		else
			put_word(out, "-1");
		break;
	case KEY_REAL:
		put_real(out, *(const double *)(const void *)at);
		break;
	case KEY_TEXT:
		put_text(out, *(char *const *)(const void *)at);
		break;
	case KEY_WORD:
		put_text(out, key->words[*(const int *)(const void *)at]);
		break;
	case KEY_TIME:
		put_time(out, (const struct bench_time *)(const void *)at);
		break;
	case KEY_FOLDERS:
		put_folders(out, (const struct bench_subfolders *)(const void *)at);
		break;
	case KEY_ANY:
	case KEY_DEVIATION: /* part of its time */
		put_node(out, node);
		break;
	}
}

/* "output.metric.x" after "output.folder": the headings that are new, and the indented last part.
 */
static void put_heading(struct shoal_buf *out, const char *before, const char *path)
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
		put(out, "%*s%.*s:\n", 2 * depth++, "", (int)(dot - path), path);
	put(out, "%*s%s: ", 2 * depth, "", path);
}

/* Whether a key has something to say: a field, or what was given. */
static bool is_said(const struct bench_known *key, const struct bench_workload *w,
		    const struct bench_node *node)
{
	if (key->instead || key->type == KEY_DEVIATION)
		return false;
	if (key->type == KEY_ANY)
		return node && !bench_node_is_null(node);
	if (key->type == KEY_TEXT)
		return *(char *const *)(const void *)((const char *)w + key->at) != NULL;
	return true;
}

int bench_workload_write(const struct bench_workload *w, struct bench_node *root, char **ret_yaml,
			 struct shoal_err *err)
{
	struct shoal_buf out = { .max = WRITE_MAX };
	const char *before = "";

	for (size_t i = 0; i < bench_nr_keys; i++) {
		const struct bench_known *key = &bench_keys[i];
		struct bench_node *node = bench_tree_find(root, key->path);

		if (!is_said(key, w, node))
			continue;
		put_heading(&out, before, key->path);
		put_value(&out, key, w, node);
		shoal_buf_u8(&out, '\n');
		before = key->path;
	}
	shoal_buf_u8(&out, '\0');
	if (out.rc < 0) {
		int rc = out.rc;

		shoal_buf_release(&out);
		return shoal_fail(err, rc, "no memory to write the workload down");
	}
	*ret_yaml = (char *)out.data;
	return 0;
}
