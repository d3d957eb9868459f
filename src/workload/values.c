/* Parse one value of a workload file as the type of its key. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "workload/keys.h"

/* ---- Words and numbers ---- */

int workload_parse_bool(const char *text, bool *ret_value)
{
	static const char *const words[2][3] = { { "false", "no", "off" },
						 { "true", "yes", "on" } };

	for (int value = 0; value < 2; value++) {
		for (int i = 0; i < 3; i++) {
			if (strcasecmp(text, words[value][i]) == 0) {
				*ret_value = value;
				return 0;
			}
		}
	}
	return -EINVAL;
}

/* Remove underscores between digits: 1_000_000. False if the text is too long. */
static bool without_underscores(const char *text, char *buf, size_t cap)
{
	size_t n = 0;

	for (; *text; text++) {
		if (*text == '_' && n > 0)
			continue;
		if (n + 1 >= cap)
			return false;
		buf[n++] = *text;
	}
	buf[n] = '\0';
	return n > 0;
}

int workload_parse_real(const char *text, double *ret_value)
{
	char buf[64], *end;
	double v;

	if (!without_underscores(text, buf, sizeof(buf)))
		return -EINVAL;
	/* Refuse what strtod() accepts besides: spaces, hexadecimal, "infinity", "nan(1)". */
	if (strspn(buf, "0123456789+-.eE") != strlen(buf))
		return -EINVAL;
	v = strtod(buf, &end);
	if (*end || end == buf)
		return -EINVAL;
	if (!isfinite(v))
		return -ERANGE;
	*ret_value = v;
	return 0;
}

/* Parse "0x10". */
static int parse_hex(const char *digits, uint64_t *ret_value)
{
	char *end;

	if (!*digits || strspn(digits, "0123456789abcdefABCDEF") != strlen(digits))
		return -EINVAL;
	errno = 0;
	*ret_value = strtoull(digits, &end, 16);
	return errno ? -ERANGE : 0;
}

int workload_parse_count(const char *text, bool *ret_negative, uint64_t *ret_value)
{
	char buf[64];
	const char *p = buf;
	uint64_t v = 0;
	double real;
	int rc;

	if (!without_underscores(text, buf, sizeof(buf)))
		return -EINVAL;
	*ret_negative = *p == '-';
	p += *p == '-' || *p == '+';
	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		return parse_hex(p + 2, ret_value);
	/* Some YAML readers take 010 for eight, others for ten. */
	if (p[0] == '0' && p[1] >= '0' && p[1] <= '9')
		return -EINVAL;
	rc = parse_u64(p, &v);
	if (rc == -EINVAL) { /* 5e3, 5.0 */
		rc = workload_parse_real(p, &real);
		if (rc == 0 && (*p == '-' || *p == '+' || real < 0 || real != floor(real)))
			rc = -EINVAL;
		if (rc == 0 && real >= 18446744073709551616.0)
			rc = -ERANGE;
		if (rc == 0)
			v = (uint64_t)real;
	}
	if (rc == 0)
		*ret_value = v;
	return rc;
}

/* A short description of a node, for a sentence that ends with "not ...". */
static const char *describe_node(const struct yaml_node *node, char *buf, size_t cap)
{
	if (node->kind != YAML_SCALAR)
		return node->kind == YAML_MAP ? "a map of keys" : "a list";
	snprintf(buf, cap, "'%.80s'", node->text);
	return buf;
}

static int fail_value(const struct yaml_node *node, const char *path, const char *want,
		      struct shoal_err *err)
{
	char buf[100];

	return yaml_node_fail(node, err, "%s must be %s, not %s", path, want,
			      describe_node(node, buf, sizeof(buf)));
}

/* ---- Each type ---- */

static int read_bool(const struct workload_key_spec *key, const struct yaml_node *node, bool *ret,
		     struct shoal_err *err)
{
	if (node->kind != YAML_SCALAR || workload_parse_bool(node->text, ret) < 0)
		return fail_value(node, key->path, "true or false", err);
	return 0;
}

static int read_count(const struct workload_key_spec *key, const struct yaml_node *node,
		      uint64_t *ret, struct shoal_err *err)
{
	bool or_no = key->type == KEY_COUNT_OR_NO, negative = false;
	char want[120];
	uint64_t v = 0;
	int rc = node->kind == YAML_SCALAR ? workload_parse_count(node->text, &negative, &v)
					   : -EINVAL;

	/* 0 also means none for keys without effect; but zero steps does not mean all steps. */
	if (rc == 0 && or_no && (negative ? v == 1 : v == 0 && key->use == KEY_UNUSED)) {
		*ret = 0;
		return 0;
	}
	if (rc == 0 && (!negative || v == 0) && (double)v >= key->min && (double)v <= key->max) {
		*ret = v;
		return 0;
	}
	snprintf(want, sizeof(want), "a whole number from %.0f to %.0f%s", key->min, key->max,
		 or_no ? ", or -1 for none" : "");
	return fail_value(node, key->path, want, err);
}

static int read_real(const char *path, double min, double max, const struct yaml_node *node,
		     double *ret, struct shoal_err *err)
{
	char want[120];
	double v = 0;

	if (node->kind == YAML_SCALAR && workload_parse_real(node->text, &v) == 0 && v >= min &&
	    v <= max) {
		*ret = v;
		return 0;
	}
	snprintf(want, sizeof(want), "a number from %.15g to %.15g", min, max);
	return fail_value(node, path, want, err);
}

static int read_text_value(const struct workload_key_spec *key, const struct yaml_node *node,
			   char **ret, struct shoal_err *err)
{
	char *copy;

	if (node->kind != YAML_SCALAR)
		return fail_value(node, key->path, "a text", err);
	copy = strdup(node->text);
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");
	free(*ret);
	*ret = copy;
	return 0;
}

static size_t nr_words(const char *const *words)
{
	size_t nr = 0;

	while (words && words[nr])
		nr++;
	return nr;
}

static int find_word(const char *text, const char *const *words)
{
	for (size_t i = 0; i < nr_words(words); i++)
		if (strcmp(text, words[i]) == 0)
			return (int)i;
	return -1;
}

static int fail_word(const struct workload_key_spec *key, const struct yaml_node *node,
		     struct shoal_err *err)
{
	char want[256] = "one of ";
	size_t nr = nr_words(key->words), at = strlen(want);
	const char *near;

	for (size_t i = 0; i < nr && at < sizeof(want); i++)
		at += (size_t)snprintf(want + at, sizeof(want) - at, "%s%s", i ? ", " : "",
				       key->words[i]);
	near = node->kind == YAML_SCALAR ? text_nearest(node->text, key->words, nr) : NULL;
	if (near)
		return yaml_node_fail(node, err, "%s must be %s, not '%.80s'; did you mean %s?",
				      key->path, want, node->text, near);
	return fail_value(node, key->path, want, err);
}

static int read_word(const struct workload_key_spec *key, const struct yaml_node *node, int *ret,
		     struct shoal_err *err)
{
	const char *text = node->kind == YAML_SCALAR ? node->text : "";
	bool b;
	int i;

	/* In YAML an unquoted off is the boolean false, however it is spelled. */
	if (!node->quoted && find_word("off", key->words) >= 0 &&
	    workload_parse_bool(text, &b) == 0 && !b)
		text = "off";
	i = find_word(text, key->words);
	if (i >= 0) {
		*ret = i;
		return 0;
	}
	if (find_word(text, key->unsupported) >= 0) {
		yaml_node_message(node, err, "%s %s is not supported by Shoal yet", key->path,
				  text);
		return -ENOTSUP;
	}
	return fail_word(key, node, err);
}

/* ---- Times ---- */

static const struct time_kind {
	const char *word, *a, *b; /* names of the parameters */
	enum workload_time_kind kind;
} time_kinds[] = {
	{ "normal", "mean", "stdev", WORKLOAD_TIME_NORMAL },
	{ "uniform", "min", "max", WORKLOAD_TIME_UNIFORM },
	{ "gamma", "shape", "scale", WORKLOAD_TIME_GAMMA },
	{ "exponential", "scale", NULL, WORKLOAD_TIME_EXPONENTIAL },
	{ "poisson", "lam", NULL, WORKLOAD_TIME_POISSON },
};

#define SECONDS_MAX 1e6
#define LAM_MAX     1e4 /* workload_time_draw() loops that often */

static const struct time_kind *time_kind_of(const struct yaml_node *type)
{
	for (size_t i = 0; type->kind == YAML_SCALAR && i < ARRAY_LEN(time_kinds); i++)
		if (strcmp(type->text, time_kinds[i].word) == 0)
			return &time_kinds[i];
	return NULL;
}

static int read_parameter(const char *path, struct yaml_node *map, const char *name, double max,
			  bool needed, double *ret, struct shoal_err *err)
{
	struct yaml_node *n = name ? yaml_node_child(map, name, strlen(name)) : NULL;
	char full[160];

	if (!name)
		return 0;
	if (!n && needed)
		return yaml_node_fail(map, err, "%s has no '%s'", path, name);
	if (!n)
		return 0;
	snprintf(full, sizeof(full), "%s.%s", path, name);
	return read_real(full, 0, max, n, ret, err);
}

/* A key of the map that the distribution does not use is an error. */
static int check_parameters(const char *path, const struct yaml_node *map,
			    const struct time_kind *kind, struct shoal_err *err)
{
	for (const struct yaml_node *n = map->child; n; n = n->next) {
		if (strcmp(n->key, "type") == 0 || strcmp(n->key, kind->a) == 0 ||
		    (kind->b && strcmp(n->key, kind->b) == 0))
			continue;
		return yaml_node_fail(n, err, "%s: a %s distribution has no '%.60s'", path,
				      kind->word, n->key);
	}
	return 0;
}

static int read_distribution(const char *path, struct yaml_node *map, struct workload_time *ret,
			     struct shoal_err *err)
{
	struct yaml_node *type = yaml_node_child(map, "type", 4);
	const struct time_kind *kind = type ? time_kind_of(type) : &time_kinds[0];
	struct workload_time t = { 0 };
	int rc;

	if (!map->child)
		return 0; /* {}: not given */
	if (!kind)
		return fail_value(type, path,
				  "of type normal, uniform, gamma, exponential or poisson", err);
	t.kind = kind->kind;
	rc = check_parameters(path, map, kind, err);
	if (rc == 0)
		rc = read_parameter(path, map, kind->a,
				    t.kind == WORKLOAD_TIME_POISSON ? LAM_MAX : SECONDS_MAX, true,
				    &t.a, err);
	if (rc == 0) /* {mean: 0.5} */
		rc = read_parameter(path, map, kind->b, SECONDS_MAX, type != NULL, &t.b, err);
	if (rc == 0 && t.kind == WORKLOAD_TIME_NORMAL && t.b == 0)
		t.kind = WORKLOAD_TIME_FIXED;
	if (rc == 0 && t.kind == WORKLOAD_TIME_GAMMA && t.a * t.b > SECONDS_MAX)
		rc = yaml_node_fail(map, err, "%s: shape times scale is more than %.0f seconds",
				    path, (double)SECONDS_MAX);
	if (rc == 0 && t.kind == WORKLOAD_TIME_UNIFORM && t.a > t.b)
		rc = yaml_node_fail(map, err, "%s: min is larger than max", path);
	if (rc == 0)
		*ret = t;
	return rc;
}

static int read_time(const struct workload_key_spec *key, struct yaml_node *node,
		     struct workload_time *ret, struct shoal_err *err)
{
	double v = 0;

	if (node->kind == YAML_MAP)
		return read_distribution(key->path, node, ret, err);
	if (node->kind == YAML_LIST || read_real(key->path, 0, SECONDS_MAX, node, &v, NULL) < 0)
		return fail_value(node, key->path,
				  "a number of seconds from 0 to 1000000, or a map such as "
				  "{type: normal, mean: 0.5, stdev: 0.1}",
				  err);
	*ret = (struct workload_time){ .kind = WORKLOAD_TIME_FIXED, .a = v };
	return 0;
}

/* computation_time_stdev comes after computation_time in the table. */
static int read_deviation(const struct workload_key_spec *key, const struct yaml_node *node,
			  struct workload_time *t, struct shoal_err *err)
{
	double v = 0;
	int rc = read_real(key->path, 0, key->max, node, &v, err);

	if (rc < 0 || v == 0)
		return rc;
	if (t->kind != WORKLOAD_TIME_FIXED)
		return yaml_node_fail(node, err, "%s: %s", key->path,
				      t->kind == WORKLOAD_TIME_NONE
					      ? "the time itself is missing"
					      : "the time itself already has a distribution");
	t->kind = WORKLOAD_TIME_NORMAL;
	t->b = v;
	return 0;
}

/* ---- Folders ---- */

#define FOLDERS_MAX 1e9

static int add_level(const struct workload_key_spec *key, const struct yaml_node *node,
		     struct workload_subfolders *f, struct shoal_err *err)
{
	const struct workload_key_spec level = { .path = key->path,
						 .type = KEY_COUNT,
						 .max = FOLDERS_MAX };
	uint64_t nr = 0;
	int rc = read_count(&level, node, &nr, err);

	if (rc < 0 || nr <= 1) /* as in DLIO, one folder means none */
		return rc;
	if (f->nr_levels == WORKLOAD_LEVELS_MAX)
		return yaml_node_fail(node, err, "%s has more than %d levels", key->path,
				      WORKLOAD_LEVELS_MAX);
	if (f->nr > (uint64_t)FOLDERS_MAX / nr)
		return yaml_node_fail(node, err, "%s makes more than %.0f folders", key->path,
				      FOLDERS_MAX);
	f->fanout[f->nr_levels++] = nr;
	f->nr *= nr;
	return 0;
}

static int read_folders(const struct workload_key_spec *key, const struct yaml_node *node,
			struct workload_subfolders *ret, struct shoal_err *err)
{
	struct workload_subfolders f = { .nr = 1 };
	int rc = 0;

	if (node->kind == YAML_MAP)
		return fail_value(node, key->path,
				  "a whole number, or a list such as [100, 100] for two levels",
				  err);
	if (node->kind == YAML_SCALAR)
		rc = add_level(key, node, &f, err);
	for (const struct yaml_node *n = node->child; rc == 0 && n; n = n->next)
		rc = add_level(key, n, &f, err);
	if (rc == 0)
		*ret = f;
	return rc;
}

int workload_key_read(const struct workload_key_spec *key, struct yaml_node *node,
		      struct workload *w, struct shoal_err *err)
{
	void *at = (char *)w + key->at;

	if (node->kind == YAML_SCALAR && !node->quoted && strcmp(node->text, "\?\?\?") == 0)
		return yaml_node_fail(node, err,
				      "%s must be set: this workload leaves it open (\?\?\?)",
				      key->path);
	switch (key->type) {
	case KEY_ANY:
		return 0;
	case KEY_BOOL:
		return read_bool(key, node, at, err);
	case KEY_COUNT:
	case KEY_COUNT_OR_NO:
		return read_count(key, node, at, err);
	case KEY_REAL:
		return read_real(key->path, key->min, key->max, node, at, err);
	case KEY_TEXT:
		return read_text_value(key, node, at, err);
	case KEY_WORD:
		return read_word(key, node, at, err);
	case KEY_TIME:
		return read_time(key, node, at, err);
	case KEY_DEVIATION:
		return read_deviation(key, node, at, err);
	case KEY_FOLDERS:
		return read_folders(key, node, at, err);
	case KEY_COLUMNS:
		return workload_read_columns(key, node, at, err);
	}
	return -EINVAL;
}
