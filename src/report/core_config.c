#include "report/core_config.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/text.h"

#define CANON_MAX (1u << 20)

/* training@1: keys that define a workload, and not how a site reads it. "x.*": all keys below x. */
static const char *const core_keys[] = {
	"framework",
	"metric.au",
	"model.*",
	"workflow.*",
	"dataset.format",
	"dataset.num_samples_per_file",
	"dataset.record_length_bytes",
	"dataset.record_length_bytes_stdev",
	"dataset.record_length_bytes_resize",
	"dataset.record_length",
	"dataset.record_length_stdev",
	"dataset.record_length_resize",
	"reader.data_loader",
	"reader.batch_size",
	"reader.file_shuffle",
	"reader.sample_shuffle",
	"reader.shuffle_size",
	"train.epochs",
	"train.computation_time",
	"train.computation_time_stdev",
	"train.total_training_steps",
	"checkpoint.*",
};

static bool key_counts(const char *key)
{
	if (strcmp(key, "checkpoint.checkpoint_folder") == 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(core_keys); i++) {
		const char *star = strchr(core_keys[i], '*');

		if (star ? strncmp(key, core_keys[i], (size_t)(star - core_keys[i])) == 0
			 : strcmp(key, core_keys[i]) == 0)
			return true;
	}
	return false;
}

/* ---- Scalars ---- */

enum scalar_kind { SCALAR_NULL, SCALAR_FALSE, SCALAR_TRUE, SCALAR_NUMBER, SCALAR_TEXT };

static bool is_number(const char *text)
{
	char *end;

	if (!*text || text[strspn(text, "0123456789+-.eE")])
		return false;
	strtod(text, &end);
	return *end == '\0' && strpbrk(text, "0123456789");
}

/* As YAML 1.1, and then core-config-v1, interpret it. */
static enum scalar_kind scalar_kind_of(const struct yaml_node *n)
{
	static const char *const words[] = { "false", "true", "no", "yes", "off", "on" };

	if (yaml_node_is_null(n))
		return SCALAR_NULL;
	for (size_t i = 0; i < (n->quoted ? 2 : ARRAY_LEN(words)); i++)
		if (strcasecmp(n->text, words[i]) == 0)
			return i % 2 ? SCALAR_TRUE : SCALAR_FALSE;
	return is_number(n->text) ? SCALAR_NUMBER : SCALAR_TEXT;
}

/* A number as Python writes it: with the fewest digits that give the same number. */
static void put_number(struct buf *b, double v)
{
	char text[64], *e;
	int digits = 1, power;

	if (isinf(v)) { /* "1e999" */
		buf_text(b, v < 0 ? "-Infinity" : "Infinity");
		return;
	}
	if (v == floor(v) && fabs(v) < 1e300) {
		char whole[400];

		snprintf(whole, sizeof(whole), "%.0f", v == 0 ? 0.0 : v);
		buf_text(b, whole);
		return;
	}
	do
		snprintf(text, sizeof(text), "%.*e", digits - 1, v);
	while (digits++ < 17 && strtod(text, NULL) != v);
	digits--;
	e = strchr(text, 'e');
	power = (int)strtol(e + 1, NULL, 10);
	if (power >= -4 && power < 16)
		snprintf(text, sizeof(text), "%.*f", digits - 1 - power, v);
	buf_text(b, text);
}

static void put_escape(struct buf *b, unsigned unit)
{
	char text[16];

	snprintf(text, sizeof(text), "\\u%04x", unit);
	buf_text(b, text);
}

/* The code point of a valid sequence of UTF-8. */
static unsigned decode_utf8(const char *at, size_t len)
{
	unsigned point = len == 1 ? (unsigned char)*at : (unsigned char)*at & (0x7fu >> len);

	for (size_t i = 1; i < len; i++)
		point = point << 6 | ((unsigned char)at[i] & 0x3f);
	return point;
}

/* A string in ASCII, as Python's json has it. */
static void put_ascii(struct buf *b, const char *text, size_t len)
{
	static const char special[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";

	buf_text(b, "\"");
	for (size_t i = 0, step; i < len; i += step) {
		const char *found = text[i] ? strchr(special, text[i]) : NULL;
		unsigned point;

		step = utf8_len(text + i, len - i);
		point = step ? decode_utf8(text + i, step) : 0xfffd;
		step = step ? step : 1;
		if (found) {
			buf_text(b, "\\");
			buf_append(b, letters + (found - special), 1);
		} else if (point >= ' ' && point <= '~')
			buf_append(b, text + i, 1);
		else if (point > 0xffff) {
			put_escape(b, 0xd800 + ((point - 0x10000) >> 10));
			put_escape(b, 0xdc00 + ((point - 0x10000) & 0x3ff));
		} else
			put_escape(b, point);
	}
	buf_text(b, "\"");
}

static void put_canonical_scalar(struct buf *b, const struct yaml_node *n)
{
	static const char *const words[] = { "null", "false", "true" };
	const char *text = n->text;
	enum scalar_kind kind = scalar_kind_of(n);
	size_t len;

	if (kind == SCALAR_NUMBER) {
		put_number(b, strtod(text, NULL));
		return;
	}
	if (kind != SCALAR_TEXT) {
		buf_text(b, words[kind]);
		return;
	}
	while (isspace((unsigned char)*text))
		text++;
	len = strlen(text);
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	put_ascii(b, text, len);
}

/* The child whose key comes next after @last, or the first (NULL); NULL after the last one. */
static const struct yaml_node *next_by_key(const struct yaml_node *map, const char *last)
{
	const struct yaml_node *next = NULL;

	for (const struct yaml_node *c = map->child; c; c = c->next)
		if ((!last || strcmp(c->key, last) > 0) && (!next || strcmp(c->key, next->key) < 0))
			next = c;
	return next;
}

static void put_canonical(struct buf *b, const struct yaml_node *n);

/* Of a map that is in a list: those that are not are taken apart by take_keys(). */
static void put_canonical_map(struct buf *b, const struct yaml_node *map)
{
	const char *last = NULL;

	buf_text(b, "{");
	for (const struct yaml_node *c; (c = next_by_key(map, last)); last = c->key) {
		if (last)
			buf_text(b, ",");
		put_ascii(b, c->key, strlen(c->key));
		buf_text(b, ":");
		put_canonical(b, c);
	}
	buf_text(b, "}");
}

static void put_canonical(struct buf *b, const struct yaml_node *n)
{
	if (n->kind == YAML_SCALAR) {
		put_canonical_scalar(b, n);
		return;
	}
	if (n->kind == YAML_MAP) {
		put_canonical_map(b, n);
		return;
	}
	buf_text(b, "[");
	for (const struct yaml_node *c = n->child; c; c = c->next) {
		put_canonical(b, c);
		if (c->next)
			buf_text(b, ",");
	}
	buf_text(b, "]");
}

/* ---- The hash ---- */

static int take_keys(const struct yaml_node *n, const char *prefix, struct core_config *core,
		     struct shoal_err *err)
{
	for (const struct yaml_node *c = n->child; c; c = c->next) {
		char name[CORE_CONFIG_KEY_BYTES];
		int rc = 0;

		if (snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "",
			     c->key ? c->key : "") >= (int)sizeof(name))
			return err_set(err, -E2BIG, "a key of the workload is too long");
		if (c->kind == YAML_MAP)
			rc = take_keys(c, name, core, err);
		else if (key_counts(name) && core->nr == CORE_CONFIG_KEYS_MAX)
			rc = err_set(err, -E2BIG, "the workload has too many keys");
		else if (key_counts(name)) {
			memcpy(core->keys[core->nr].name, name, sizeof(name));
			core->keys[core->nr++].value = c;
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct core_config_key *)a)->name,
		      ((const struct core_config_key *)b)->name);
}

int core_config_compute(const struct yaml_node *parameters, struct core_config *ret_core,
			struct shoal_err *err)
{
	struct buf b = { .max = CANON_MAX };
	char hex[HASH_HEX_MAX];
	struct hash h;
	int rc;

	ret_core->nr = 0;
	rc = take_keys(parameters, "", ret_core, err);
	if (rc < 0)
		return rc;
	memcpy(ret_core->hash, "unknown", 8);
	if (ret_core->nr == 0)
		return 0;
	qsort(ret_core->keys, ret_core->nr, sizeof(*ret_core->keys), compare_keys);
	buf_text(&b, "{");
	for (size_t i = 0; i < ret_core->nr; i++) {
		const struct core_config_key *k = &ret_core->keys[i];

		put_ascii(&b, k->name, strlen(k->name));
		buf_text(&b, ":");
		put_canonical(&b, k->value);
		buf_text(&b, i + 1 < ret_core->nr ? "," : "}");
	}
	rc = b.rc;
	hash_start(&h, true);
	hash_add(&h, b.data, b.len);
	hash_hex(&h, hex);
	memcpy(ret_core->hash, hex, 16);
	ret_core->hash[16] = '\0';
	buf_release(&b);
	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

/* ---- Upstream's table ---- */

/* Training classes of the division "closed", which alone has classes. Several hashes of one class
 * are spellings of one workload: its keys had other names in 1.0, unet3d_b200 with or without a
 * checkpoint after the last epoch. */
static const struct core_config_row {
	const char *id, *model, *accelerator, *editions, *hashes;
} classes[] = {
	{ "cosmoflow-a100-A", "cosmoflow", "a100", "1.0 2.0", "329a3541eb5c1a36 b49b896e947a408b" },
	{ "cosmoflow-h100-A", "cosmoflow", "h100", "1.0 2.0", "54541a1d49e87763 4b7b36339a2a5b0d" },
	{ "resnet50-a100-A", "resnet50", "a100", "1.0 2.0", "61ae77b994223584 4a03838105aa5808" },
	{ "resnet50-h100-A", "resnet50", "h100", "1.0 2.0", "c8ec10780f4c9bd7 03a7be3df904e1e7" },
	{ "retinanet-b200-A", "retinanet", "b200", "3.0", "20c73f53486caba0" },
	{ "retinanet-mi355-A", "retinanet", "mi355", "3.0", "66c43604eb650987" },
	{ "unet3d-a100-A", "unet3d", "a100", "1.0 2.0", "4c86124e6f33db13 691cea309c4f2f52" },
	{ "unet3d-b200-A", "unet3d", "b200", "3.0", "0d3ad0dec188becd f636f5a57473fca2" },
	{ "unet3d-h100-A", "unet3d", "h100", "1.0 2.0", "f4d46006aa421634 0f3dd7a4bf6433a3" },
};

bool core_config_edition_known(const char *edition)
{
	return text_has_word("0.5 1.0 2.0 3.0", edition);
}

const char *core_config_class(const char *edition, const char *model, const char *accelerator,
			      const char *hash)
{
	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		const struct core_config_row *r = &classes[i];

		if (strcmp(r->model, model) == 0 && strcmp(r->accelerator, accelerator) == 0 &&
		    text_has_word(r->editions, edition) && text_has_word(r->hashes, hash))
			return r->id;
	}
	return NULL;
}

/* ---- As JSON ---- */

static void put_json_scalar(struct json *j, const char *key, const struct yaml_node *n)
{
	enum scalar_kind kind = scalar_kind_of(n);
	uint64_t whole;

	if (n->quoted || kind == SCALAR_TEXT)
		json_string(j, key, n->text);
	else if (kind == SCALAR_NULL)
		json_null(j, key);
	else if (kind != SCALAR_NUMBER)
		json_bool(j, key, kind == SCALAR_TRUE);
	else if (parse_u64(n->text, &whole) == 0)
		json_u64(j, key, whole);
	else
		json_real(j, key, strtod(n->text, NULL), 17);
}

void core_config_put_json(struct json *j, const char *key, const struct yaml_node *node)
{
	if (node->kind == YAML_SCALAR) {
		put_json_scalar(j, key, node);
		return;
	}
	if (node->kind == YAML_MAP)
		json_open_object(j, key);
	else
		json_open_array(j, key);
	for (const struct yaml_node *c = node->child; c; c = c->next)
		core_config_put_json(j, c->key, c);
	if (node->kind == YAML_MAP)
		json_close_object(j);
	else
		json_close_array(j);
}
