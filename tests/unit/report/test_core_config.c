/*
 * Goal: the hash of a workload is that of its canonical JSON, in which only what defines the
 * workload counts, in which forms of one value are one; and any YAML that can be read has one.
 */
#include "report/core_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "help.h"

static struct yaml_node *parsed(const char *yaml)
{
	struct shoal_err err = { "" };
	struct yaml_node *root = NULL;

	if (yaml_parse(yaml, strlen(yaml), "test", false, &root, &err) < 0)
		fail_msg("%s: %s", yaml, err.msg);
	return root;
}

static struct core_config *computed(const char *yaml, struct yaml_node **ret_root)
{
	struct core_config *core = allocate(1, sizeof(*core));
	struct shoal_err err = { "" };

	*ret_root = parsed(yaml);
	if (core_config_compute(*ret_root, core, &err) < 0)
		fail_msg("%s: %s", yaml, err.msg);
	return core;
}

/* That the hash of the workload is the first 16 digits of the SHA-256 of this JSON. */
static void is_canonical(const char *yaml, const char *json)
{
	struct yaml_node *root;
	struct core_config *core = computed(yaml, &root);
	char hex[HASH_HEX_MAX];
	struct hash h;

	hash_start(&h, true);
	hash_add(&h, json, strlen(json));
	hash_hex(&h, hex);
	hex[16] = '\0';
	if (strcmp(core->hash, hex) != 0)
		fail_msg("%s is not %s", yaml, json);
	free(core);
	yaml_free(root);
}

static void only_what_defines_a_workload_counts(void **state)
{
	struct yaml_node *root;
	struct core_config *core = computed(
		"dataset: {data_folder: d, num_files_train: 9}\nreader: {read_threads: 8}\n"
		"checkpoint: {checkpoint_folder: c}\nmodels: {x: 1}\nframeworks: y",
		&root);

	(void)state;
	assert_string_equal(core->hash, "unknown");
	assert_int_equal(core->nr, 0);
	free(core);
	yaml_free(root);
	is_canonical("model: {name: m, model_size: 5}\nframework: pytorch\nmetric: {au: 0.9}\n"
		     "output: {folder: f}",
		     "{\"framework\":\"pytorch\",\"metric.au\":0.9,\"model.model_size\":5,"
		     "\"model.name\":\"m\"}");
	is_canonical("checkpoint: {checkpoint_folder: c, steps: {each: 3}}",
		     "{\"checkpoint.steps.each\":3}");
	is_canonical("dataset: {record_length: 1, record_length_bytes: 2, record_lengths: 3}",
		     "{\"dataset.record_length\":1,\"dataset.record_length_bytes\":2}");
}

static void scalars_are_what_yaml_takes_them_for(void **state)
{
	static const struct {
		const char *yaml, *json;
	} row[] = {
		{ "pytorch", "\"pytorch\"" },
		{ "'  two words '", "\"two words\"" },
		{ "", "null" },
		{ "~", "null" },
		{ "'~'", "\"~\"" },
		{ "yes", "true" },
		{ "OFF", "false" },
		{ "'yes'", "\"yes\"" }, /* quoted: a text, */
		{ "'True'", "true" },   /* unless it can be nothing else */
		{ "5", "5" },
		{ "'5'", "5" },
		{ "5.0", "5" },
		{ "-0", "0" },
		{ "+7", "7" },
		{ "1e3", "1000" },
		{ "0.1", "0.1" },
		{ "0.30000000000000004", "0.30000000000000004" },
		{ "1.5e-3", "0.0015" },
		{ "0.0001", "0.0001" },
		{ "0.00001", "1e-05" },
		{ "123456789012.5", "123456789012.5" },
		{ "1e999", "Infinity" },
		{ "-1e999", "-Infinity" },
		{ "1-2", "\"1-2\"" },
		{ "1e", "\"1e\"" },
		{ "e", "\"e\"" },
		{ "0x10", "\"0x10\"" },
		{ "nan", "\"nan\"" },
		{ "\"a\\\"b\\\\c\\td\\n\"", "\"a\\\"b\\\\c\\td\"" }, /* no space at the end */
		{ "\"x\\u00fcy\"", "\"x\\u00fcy\"" },
		{ "\"\\U0001F41F\"", "\"\\ud83d\\udc1f\"" },
		{ "\"\\x7f\"", "\"\\u007f\"" },
		{ "\"\\x01\"", "\"\\u0001\"" },
	};
	char yaml[128], json[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		snprintf(yaml, sizeof(yaml), "framework: %s", row[i].yaml);
		snprintf(json, sizeof(json), "{\"framework\":%s}", row[i].json);
		is_canonical(yaml, json);
	}
}

static void lists_and_what_is_in_them_are_part_of_it(void **state)
{
	(void)state;
	is_canonical("model: {layers: []}", "{\"model.layers\":[]}");
	is_canonical("model: {layers: [1, [2, x], ~]}", "{\"model.layers\":[1,[2,\"x\"],null]}");
	is_canonical("model: {layers: [{b: 2, a: 1, ab: [3]}, {}]}",
		     "{\"model.layers\":[{\"a\":1,\"ab\":[3],\"b\":2},{}]}");
}

/* A workload of @nr keys that count. */
static char *many_keys(unsigned nr)
{
	char *yaml = allocate(nr + 1, 16);

	strcpy(yaml, "model:\n");
	for (unsigned i = 0; i < nr; i++)
		sprintf(yaml + strlen(yaml), " k%03u: 1\n", i);
	return yaml;
}

static void too_many_or_too_long_keys_are_refused(void **state)
{
	struct core_config *core = allocate(1, sizeof(*core));
	struct shoal_err err = { "" };

	(void)state;
	for (unsigned more = 0; more < 2; more++) {
		char *yaml = many_keys(CORE_CONFIG_KEYS_MAX + more);
		struct yaml_node *root = parsed(yaml);

		assert_int_equal(core_config_compute(root, core, &err), more ? -E2BIG : 0);
		yaml_free(root);
		free(yaml);
	}
	check_words(&err, "too many keys");
	for (size_t more = 0; more < 2; more++) {
		char yaml[CORE_CONFIG_KEY_BYTES + 32] = "model: {";
		size_t len = CORE_CONFIG_KEY_BYTES - strlen("model.") - 1 + more;
		struct yaml_node *root;

		memset(yaml + strlen(yaml), 'k', len);
		strcpy(yaml + strlen("model: {") + len, ": 1}");
		root = parsed(yaml);
		assert_int_equal(core_config_compute(root, core, &err), more ? -E2BIG : 0);
		yaml_free(root);
	}
	check_words(&err, "too long");
	free(core);
}

static void a_class_is_of_a_model_an_accelerator_and_an_edition(void **state)
{
	static const char hash[] = "20c73f53486caba0";

	(void)state;
	assert_string_equal(core_config_class("3.0", "retinanet", "b200", hash),
			    "retinanet-b200-A");
	assert_string_equal(core_config_class("3.0", "unet3d", "b200", "f636f5a57473fca2"),
			    "unet3d-b200-A");
	assert_string_equal(core_config_class("1.0", "cosmoflow", "h100", "54541a1d49e87763"),
			    "cosmoflow-h100-A");
	assert_null(core_config_class("3.0", "unet3d", "b200", hash));
	assert_null(core_config_class("3.0", "retinanet", "mi355", hash));
	assert_null(core_config_class("2.0", "retinanet", "b200", hash));
	assert_null(core_config_class("3.0", "retinanet", "b200", "20c73f53486caba"));
	assert_null(core_config_class("3.0", "retinanet", "b200", ""));
	assert_null(
		core_config_class("3.0", "unet3d", "b200", "0d3ad0dec188becd f636f5a57473fca2 x"));
}

static void an_edition_is_known_by_its_whole_name(void **state)
{
	(void)state;
	assert_true(core_config_edition_known("3.0"));
	assert_true(core_config_edition_known("0.5"));
	assert_false(core_config_edition_known("4.0"));
	assert_false(core_config_edition_known("3"));
	assert_false(core_config_edition_known(""));
}

/* ---- As JSON ---- */

struct text {
	char buf[512];
	size_t len;
};

static void put_text(void *self, const void *bytes, size_t len)
{
	struct text *t = self;

	assert_true(t->len + len < sizeof(t->buf));
	memcpy(t->buf + t->len, bytes, len);
	t->len += len;
}

static void a_tree_is_written_with_numbers_and_booleans_as_such(void **state)
{
	struct text t = { "" };
	struct json j = { .put = put_text, .self = &t };
	struct yaml_node *root = parsed("a: 1\nb: {c: [x, 'on', on, ~, 1.5, '7'], d: {}}\n"
					"e: 18446744073709551615\nf: 1e999");

	(void)state;
	core_config_put_json(&j, NULL, root);
	yaml_free(root);
	assert_string_equal(t.buf,
			    "{\"a\": 1, \"b\": {\"c\": [\"x\", \"on\", true, null, 1.5, \"7\"], "
			    "\"d\": {}}, \"e\": 18446744073709551615, \"f\": null}\n");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_defines_a_workload_counts),
		cmocka_unit_test(scalars_are_what_yaml_takes_them_for),
		cmocka_unit_test(lists_and_what_is_in_them_are_part_of_it),
		cmocka_unit_test(too_many_or_too_long_keys_are_refused),
		cmocka_unit_test(a_class_is_of_a_model_an_accelerator_and_an_edition),
		cmocka_unit_test(an_edition_is_known_by_its_whole_name),
		cmocka_unit_test(a_tree_is_written_with_numbers_and_booleans_as_such),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
