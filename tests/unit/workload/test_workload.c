/*
 * Goal: a DLIO workload file means here what it means to DLIO, less DLIO's faults; anything else is
 * refused in words that say where; names, sizes and times are functions of the file's number alone.
 */
#include "workload/workload.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datagen/datasize.h"
#include "faults.h"
#include "help.h"
#include "workload/keys.h"

/* ---- Help ---- */

static char warnings[8192];

static void gather(void *self, const char *words)
{
	(void)self;
	assert_true(strlen(words) > 0);
	strncat(warnings, words, sizeof(warnings) - strlen(warnings) - 2);
	strncat(warnings, "\n", 2);
}

/* Overrides are split at '|'. */
static int parse(const char *yaml, const char *overrides, struct workload **ret,
		 struct shoal_err *err)
{
	char copy[1024], *args[16], *save = NULL;
	size_t nr = 0;

	warnings[0] = '\0';
	snprintf(copy, sizeof(copy), "%s", overrides ? overrides : "");
	for (char *p = strtok_r(copy, "|", &save); p; p = strtok_r(NULL, "|", &save))
		args[nr++] = p;
	return workload_parse(yaml, strlen(yaml), "w.yaml", args, nr, gather, NULL, ret, err);
}

static struct workload *load(const char *yaml, const char *overrides)
{
	struct workload *w = NULL;
	struct shoal_err err = { "" };

	if (parse(yaml, overrides, &w, &err) < 0)
		fail_msg("%s: %s", yaml, err.msg);
	assert_string_equal(err.msg, "");
	return w;
}

static void refuse(const char *yaml, const char *overrides, int rc, const char *words)
{
	struct workload *w = NULL;
	struct shoal_err err = { "" };

	assert_int_equal(parse(yaml, overrides, &w, &err), rc);
	assert_null(w);
	if (!strstr(err.msg, words))
		fail_msg("'%s': says '%s', not '%s'", yaml, err.msg, words);
}

/* ---- Keys ---- */

static void test_what_is_not_said_is_as_in_dlio(void **state)
{
	struct workload *w = load("{}", NULL);

	(void)state;
	assert_string_equal(w->model, "default");
	assert_int_equal(w->framework, WORKLOAD_TENSORFLOW);
	assert_true(w->workflow.train && !w->workflow.generate_data && !w->workflow.evaluation);
	assert_int_equal(w->dataset.format, WORKLOAD_TFRECORD);
	assert_true(w->dataset.record_bytes == 65536 && w->dataset.record_stdev == 0);
	assert_int_equal(w->dataset.nr_files_train, 8);
	assert_int_equal(w->dataset.nr_files_eval, 0);
	assert_int_equal(w->dataset.samples_per_file, 1);
	assert_string_equal(w->dataset.folder, "./data");
	assert_string_equal(w->dataset.file_prefix, "img");
	assert_int_equal(w->dataset.subfolders_train.nr, 1);
	assert_int_equal(w->reader.batch, 1);
	assert_int_equal(w->reader.prefetch, 2);
	assert_int_equal(w->reader.file_shuffle, WORKLOAD_SHUFFLE_OFF);
	assert_int_equal(w->reader.shuffle_size, 1024);
	assert_int_equal(w->train.epochs, 1);
	assert_int_equal(w->train.seed, 123);
	assert_true(w->train.seed_change_epoch);
	assert_int_equal(w->train.total_steps, 0);
	assert_int_equal(w->train.computation_time.kind, WORKLOAD_TIME_NONE);
	assert_int_equal(w->output.exclude_start_steps, 1);
	assert_int_equal(w->output.exclude_end_steps, 0);
	assert_true(w->au == 0.90);
	assert_string_equal(warnings, "");
	workload_free(w);
}

static const char retinanet[] = "model: {name: retinanet, type: cnn}\n"
				"framework: pytorch\n"
				"workflow:\n"
				"  generate_data: False\n"
				"  train: True\n"
				"dataset:\n"
				"  data_folder: data/retinanet/\n"
				"  format: jpeg\n"
				"  num_files_train: 1170301\n"
				"  record_length_bytes: 322957\n"
				"reader:\n"
				"  data_loader: pytorch\n"
				"  batch_size: 24\n"
				"  read_threads: 8\n"
				"  file_shuffle: seed\n"
				"  sample_shuffle: seed\n"
				"train:\n"
				"  epochs: 8\n"
				"  computation_time: 0.04755\n"
				"metric:\n"
				"  au: 0.85\n";

static void test_a_file_of_mlperf_is_read_without_a_word(void **state)
{
	struct workload *w = load(retinanet, NULL);

	(void)state;
	assert_string_equal(w->model, "retinanet");
	assert_string_equal(w->dataset.folder, "data/retinanet");
	assert_int_equal(w->dataset.format, WORKLOAD_JPEG);
	assert_int_equal(w->dataset.nr_files_train, 1170301);
	assert_int_equal(w->reader.batch, 24);
	assert_int_equal(w->reader.read_threads, 8);
	assert_int_equal(w->reader.file_shuffle, WORKLOAD_SHUFFLE_SEED);
	assert_int_equal(w->train.computation_time.kind, WORKLOAD_TIME_FIXED);
	assert_true(w->train.computation_time.a == 0.04755);
	assert_true(w->au == 0.85);
	assert_string_equal(warnings, "");
	workload_free(w);
}

static void test_numbers_and_words_as_yaml_spells_them(void **state)
{
	static const struct {
		const char *text;
		uint64_t want;
	} row[] = {
		{ "5", 5 },
		{ "+5", 5 },
		{ "1_000_000", 1000000 },
		{ "5e3", 5000 },
		{ "5.0", 5 },
		{ "0x10", 16 },
		{ "'7'", 7 },
		{ "1", 1 },
		{ "1000000000000", 1000000000000 },
		{ "1e12", 1000000000000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char yaml[100];
		struct workload *w;

		snprintf(yaml, sizeof(yaml), "dataset: {num_files_train: %s}", row[i].text);
		w = load(yaml, NULL);
		assert_int_equal(w->dataset.nr_files_train, row[i].want);
		workload_free(w);
	}
}

static void test_an_unquoted_off_is_off(void **state)
{
	static const char *const texts[] = { "off", "Off", "OFF", "'off'", "false", "no" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char yaml[100];
		struct workload *w;

		snprintf(yaml, sizeof(yaml), "reader: {file_shuffle: %s}", texts[i]);
		w = load(yaml, "reader.sample_shuffle=off");
		assert_int_equal(w->reader.file_shuffle, WORKLOAD_SHUFFLE_OFF);
		assert_int_equal(w->reader.sample_shuffle, WORKLOAD_SHUFFLE_OFF);
		workload_free(w);
	}
	refuse("reader: {file_shuffle: on}", NULL, -EINVAL, "one of off, seed, random, not 'on'");
	refuse("reader: {file_shuffle: 'no'}", NULL, -EINVAL, "not 'no'");
}

static void test_bad_values_are_refused_with_key_and_place(void **state)
{
	static const struct {
		const char *yaml, *words;
	} row[] = {
		{ "dataset:\n  num_files_train: -5",
		  "w.yaml:2:3: dataset.num_files_train must be" },
		{ "dataset:\n  num_files_train: 0", "not '0'" },
		{ "dataset:\n  num_files_train: 1000000000001", "from 1 to 1000000000000" },
		{ "dataset:\n  num_files_train: 1e30", "not '1e30'" },
		{ "dataset:\n  num_files_train: 18446744073709551616",
		  "not '18446744073709551616'" },
		{ "dataset:\n  num_files_train: 5.5", "whole number" },
		{ "dataset:\n  num_files_train: many", "not 'many'" },
		{ "dataset:\n  num_files_train: [1]", "not a list" },
		{ "dataset:\n  num_files_train: {a: 1}", "not a map" },
		{ "dataset:\n  num_files_train: ???", "must be set" },
		{ "dataset:\n  num_files_train: 010", "not '010'" },
		{ "dataset:\n  num_files_train: 5 6", "not '5 6'" },
		{ "dataset:\n  num_files_train: 0x", "not '0x'" },
		{ "dataset:\n  num_files_train: +-5", "not '+-5'" },
		{ "dataset:\n  num_files_train: _", "not '_'" },
		{ "dataset:\n  record_length_bytes: -1", "dataset.record_length_bytes must be" },
		{ "dataset:\n  record_length_bytes: 0.5", "from 1 to" },
		{ "dataset:\n  record_length_bytes: nan", "not 'nan'" },
		{ "dataset:\n  record_length_bytes: .inf", "not '.inf'" },
		{ "dataset:\n  record_length_bytes: 1e400", "not '1e400'" },
		{ "dataset:\n  record_length_bytes: 0x10", "not '0x10'" },
		{ "dataset:\n  record_length_bytes_stdev: 40000",
		  "too large for records of 65536" },
		{ "dataset:\n  num_subfolders_train: [2, 2, 2, 2, 2]", "more than 4 levels" },
		{ "dataset:\n  num_subfolders_train: [100000, 100000]", "more than 1000000000 f" },
		{ "dataset:\n  num_subfolders_train: {a: 1}", "[100, 100]" },
		{ "dataset:\n  file_prefix: a/b", "dataset.file_prefix must be 1 to 128" },
		{ "dataset:\n  file_prefix: ''", "dataset.file_prefix must be 1 to 128" },
		{ "dataset:\n  file_prefix: \"a\\nb\"", "dataset.file_prefix must be 1 to 128" },
		{ "dataset:\n  data_folder: ''", "dataset.data_folder is empty" },
		{ "dataset:\n  data_folder: [a]", "must be a text, not a list" },
		{ "dataset:\n  format: jpg", "did you mean jpeg?" },
		{ "dataset:\n  format: {}", "not a map" },
		{ "dataset:\n  num_files_train: 9\n  num_files_generated: 8",
		  "w.yaml:3:3: dataset.num"
		  "_files_generated is "
		  "less" },
		{ "dataset: {num_files_train: 1000000, num_samples_per_file: 1000000000}",
		  "more than 2^48 samples" },
		{ "dataset: {record_length_bytes: 1e15, num_samples_per_file: 10000}",
		  "too large for any file system" },
		{ "workflow: {train: maybe}", "workflow.train must be true or false, not 'maybe'" },
		{ "train: {computation_time: -1}", "must be a number of seconds" },
		{ "train: {computation_time: [1]}", "must be a number of seconds" },
		{ "train: {computation_time: {type: cauchy}}", "of type normal, uniform" },
		{ "train: {computation_time: {type: normal, mean: 1}}", "has no 'stdev'" },
		{ "train: {computation_time: {stdev: 1}}", "has no 'mean'" },
		{ "train: {computation_time: {mean: -1}}", "train.computation_time.mean must be" },
		{ "train: {computation_time: {mean: 1, lam: 1}}", "distribution has no 'lam'" },
		{ "train: {computation_time: {type: uniform, min: 2, max: 1}}", "min is larger" },
		{ "train: {computation_time: {type: poisson, lam: 1e5}}", "0 to 10000" },
		{ "train: {computation_time_stdev: 1}", "the time itself is missing" },
		{ "train: {computation_time: {type: gamma, shape: 1, scale: 1},\n"
		  "        computation_time_stdev: 1}",
		  "w.yaml:2:9: train.computation_time_stdev: the time itself already has a distribution" },
		{ "train: {total_training_steps: -2}", "or -1 for none, not '-2'" },
		{ "metric: {au: 1.5}", "metric.au must be a number from 0 to 1" },
		{ "dataset: 5", "w.yaml:1:1: 'dataset' must be a map of keys" },
		{ "dataset: [5]", "'dataset' must be a map of keys" },
		{ "", "the file is empty" },
		{ "# nothing\n", "the file is empty" },
		{ "5", "a workload is a map of sections" },
		{ "[5]", "a workload is a map of sections" },
		{ "defaults: [_self_]\nhydra: {a: 1}\n", "Hydra settings, but no workload" },
		{ "workload: unet3d", "'workload:' must hold the sections" },
		{ "workload: {}\ndataset: {}", "w.yaml:2:1: 'dataset' is beside" },
		{ "reader: {}\ndata_reader: {}",
		  "'data_reader' means 'reader', but both are given" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		refuse(row[i].yaml, NULL, -EINVAL, row[i].words);
	refuse("dataset: {format: hdf5_opt}", NULL, -ENOTSUP, "hdf5_opt is not supported by Shoal");
	refuse("storage: {storage_type: aistore}", NULL, -ENOTSUP, "aistore is not supported");
}

static void test_broken_yaml_is_told_with_line_and_column(void **state)
{
	static const struct {
		const char *yaml, *words;
	} row[] = {
		{ "dataset:\n  a: [1\n", "w.yaml:3:1: not valid YAML: flow sequence" },
		{ "dataset:\n\ta: 1\n", "w.yaml:2:1: not valid YAML: tab" },
		{ "a: 1\na: 2\n", "w.yaml:2:1: key 'a' is given twice" },
		{ "a: *b\n", "w.yaml:1:4: alias '*b' is not defined" },
		{ "a: &a [*a]\n", "alias '*a' is not defined" },
		{ "a: 1\n---\nb: 1\n", "a second document starts here" },
		{ "? [a]\n: b\n", "a key must be a plain word" },
		{ "a: \"\\0\"\n", "a NUL byte" },
		{ "a: {<<: 5}\n", "'<<' must be a map" },
		{ "a: b\n%foo\n", "w.yaml:2:1: not valid YAML: a line that starts with '%'" },
		{ "%YAML", "a line that starts with '%'" },
		{ "a: b\nc: \xff\n", "w.yaml:2:4: not valid YAML: a byte that is not UTF-8" },
		{ "a: ${b}\n", "w.yaml:1:1: '${b}' is not a value of this workload" },
		{ "a: ${a}\n", "'${a}' refers to itself" },
		{ "a: ${b\n", "without a closing '}'" },
		{ "a: ${now:%H}\n", "is not supported" },
		{ "a: ${oc.env:SHOAL_NO_SUCH_VARIABLE}\n", "has no variable SHOAL_NO_SUCH" },
		{ "a: ${oc.env:}\n", "is not supported" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		refuse(row[i].yaml, NULL, -EINVAL, row[i].words);
}

static void test_a_file_made_to_hurt_is_refused_quickly(void **state)
{
	char *deep = allocate(1, 100001), *wide = allocate(1, 60000), *large;
	char laughs[2048] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n", line[200];
	size_t at = 0;

	(void)state;
	memset(deep, '[', 100000);
	refuse(deep, NULL, -EINVAL, "more than 32 levels of nesting");
	for (int i = 1; i < 10; i++) {
		snprintf(line, sizeof(line),
			 "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i,
			 i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
		strncat(laughs, line, sizeof(laughs) - strlen(laughs) - 1);
	}
	refuse(laughs, NULL, -EINVAL, "at most 20000 values");
	/* a0 refers to a1 a hundred times, a1 to a2 ... */
	for (int i = 0; i < 7; i++) {
		at += (size_t)sprintf(wide + at, "a%d: '", i);
		for (int k = 0; k < 100; k++)
			at += (size_t)sprintf(wide + at, "${a%d}", i + 1);
		at += (size_t)sprintf(wide + at, "'\n");
	}
	sprintf(wide + at, "a7: ''\n");
	refuse(wide, NULL, -EINVAL, "refers to itself");
	large = allocate(1, YAML_BYTES_MAX + 2);
	memset(large, ' ', YAML_BYTES_MAX + 1);
	refuse(large, NULL, -EINVAL, "at most 1048576 bytes");
	free(large);
	free(wide);
	free(deep);
}

static void test_every_truncation_of_a_file_loads_or_says_why(void **state)
{
	(void)state;
	for (size_t cut = 0; cut < sizeof(retinanet); cut++) {
		struct workload *w = NULL;
		struct shoal_err err = { "" };
		char *part = allocate(1, cut); /* of exact size, for the sanitizer */
		int rc;

		memcpy(part, retinanet, cut);
		rc = workload_parse(part, cut, "w.yaml", NULL, 0, NULL, NULL, &w, &err);
		assert_true(rc == 0 ? w != NULL : err.msg[0] != '\0');
		workload_free(w);
		free(part);
	}
}

/* ---- Hydra's ways ---- */

static void test_overrides_come_with_and_without_hydras_prefix(void **state)
{
	static const char *const texts[] = {
		"dataset.num_files_train=5000",
		"workload.dataset.num_files_train=5000",
		"+workload.dataset.num_files_train=5000",
		"++workload.dataset.num_files_train=5000",
		"dataset.num_files_train=7|dataset.num_files_train=5000",
		"dataset={num_files_train: 5000}"
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct workload *w = load("dataset: {num_files_train: 3}", texts[i]);

		assert_int_equal(w->dataset.nr_files_train, 5000);
		workload_free(w);
	}
}

static void test_overrides_reach_what_the_file_does_not_have(void **state)
{
	struct workload *w =
		load("train: {computation_time: {type: normal, mean: 0.5, stdev: 0.1}}\nreader:\n",
		     "train.computation_time.mean=0.7|data_reader.batch_size=3|output.metric."
		     "exclude_end_steps=2|dataset.num_subfolders_train=[10,20]|model.name=a=b");

	(void)state;
	assert_int_equal(w->train.computation_time.kind, WORKLOAD_TIME_NORMAL);
	assert_true(w->train.computation_time.a == 0.7);
	assert_int_equal(w->reader.batch, 3);
	assert_int_equal(w->output.exclude_end_steps, 2);
	assert_int_equal(w->dataset.subfolders_train.nr, 200);
	assert_string_equal(w->model, "a=b");
	workload_free(w);
}

static void test_wrong_overrides_are_refused(void **state)
{
	static const struct {
		const char *text, *words;
	} row[] = {
		{ "dataset.num_file_train=5", "override 'dataset.num_file_train': there is no key "
					      "'dataset.num_file_train'; did you mean "
					      "dataset.num_files_train?" },
		{ "++workload.train.batch_size=5", "did you mean reader.batch_size?" },
		{ "num_files_train=5", "did you mean dataset.num_files_train?" },
		{ "zzz=5", "there is no key 'zzz'" },
		{ "dataset.num_files_train", "write section.key=value" },
		{ "=5", "write section.key=value" },
		{ "dataset..num_files_train=5", "there is no key" },
		{ "dataset.=5", "there is no key" },
		{ "dataset.num_files_train=many",
		  "override 'dataset.num_files_train': dataset.num" },
		{ "dataset.num_files_train=[1", "not valid YAML" },
		{ "dataset.format.x=1", "there is no key" },
		{ "train.computation_time.mean=1", "is a value, with no keys below it" },
		{ "storage.storage_options.secret_access_key=[hush", "secret_access_key'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		refuse("train: {computation_time: 1}", row[i].text, -EINVAL, row[i].words);
	/* No message tells the value of an override that may be a secret. */
	{
		struct workload *w = NULL;
		struct shoal_err err = { "" };

		assert_int_equal(parse("{}", row[12].text, &w, &err), -EINVAL);
		assert_null(strstr(err.msg, "hush"));
	}
}

static void test_a_saved_configuration_of_hydra_is_a_workload(void **state)
{
	struct workload *w = load("hydra: {run: {dir: '${now:%Y}'}}\n"
				  "defaults: [_self_]\n"
				  "workload:\n"
				  "  base: &base {batch_size: 4, read_threads: 2, pin_memory: on}\n"
				  "  data_reader:\n"
				  "    <<: *base\n"
				  "    read_threads: 3\n"
				  "    pin_memory: off\n"
				  "  train: {epochs: '${data_reader.batch_size}'}\n"
				  "  dataset:\n"
				  "    data_folder: ${oc.env:SHOAL_NO_SUCH,/d}/${model.name}\n"
				  "  model: {name: m}\n",
				  NULL);

	(void)state;
	assert_int_equal(w->reader.batch, 4);
	assert_int_equal(w->reader.read_threads, 3);
	assert_int_equal(w->train.epochs, 4);
	assert_string_equal(w->dataset.folder, "/d/m");
	assert_string_equal(warnings, "w.yaml:4:3: there is no key 'base'; it is left out\n");
	workload_free(w);
}

/* ---- Warnings ---- */

static void test_unknown_keys_are_named_with_the_nearest_right_one(void **state)
{
	static const struct {
		const char *yaml, *words;
	} row[] = {
		{ "dataset:\n  num_file_train: 5",
		  "w.yaml:2:3: there is no key 'dataset.num_file_train', did you mean "
		  "dataset.num_files_train?" },
		{ "datset: {}", "there is no key 'datset', did you mean dataset?" },
		{ "train: {batch_size: 5}", "did you mean reader.batch_size?" },
		{ "reader: {btach_size: 5}", "did you mean reader.batch_size?" },
		{ "dataset: {frobnicate: 5}",
		  "there is no key 'dataset.frobnicate'; it is left out" },
		{ "output: {metrics: {exclude_start_steps: 1}}", "'output.metrics'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		workload_free(load(row[i].yaml, NULL));
		if (!strstr(warnings, row[i].words))
			fail_msg("says '%s', not '%s'", warnings, row[i].words);
	}
}

static void test_known_keys_that_do_nothing_are_named_once(void **state)
{
	static const char yaml[] = "reader: {pin_memory: true, file_access: multi,\n"
				   "  multiprocessing_context: fork}\n" /* silently */
				   "checkpoint: {fsync: true}\n"
				   "profiling: {profiler: iostat}\n"
				   "dataset: {compression: none}\n";

	(void)state;
	/* Not those of a part that is off, nor those that ask for nothing. */
	workload_free(load(yaml, NULL));
	assert_string_equal(warnings, "w.yaml: not used yet: reader.pin_memory, "
				      "reader.file_access\n");
	workload_free(load(yaml, "workflow.checkpoint=true|reader.pin_memory=off"));
	assert_string_equal(warnings, "w.yaml: not used yet: reader.file_access\n");
	workload_free(load("%YAML 1.1\n---\nmodel: {name: a%b}\n", NULL));
	assert_string_equal(warnings, "");
	workload_free(load("storage: {post_generation_settle_seconds: 0.0}\n"
			   "dataset: {skip_listing: true, keep_files: true}\n",
			   NULL));
	assert_string_equal(warnings, "");
	workload_free(load("storage: {post_generation_settle_seconds: 0.1}", NULL));
	assert_non_null(strstr(warnings, "settle_seconds"));
	workload_free(load("workflow: {evaluation: true}", NULL));
	assert_non_null(strstr(warnings, "there is nothing to evaluate"));
}

static void test_direct_storage_reads_directly(void **state)
{
	struct workload *w = load("storage: {storage_type: direct_fs}", NULL);

	(void)state;
	assert_true(w->reader.odirect);
	workload_free(w);
	w = load("storage: {storage_type: local_fs}", NULL);
	assert_false(w->reader.odirect);
	workload_free(w);
}

static void test_all_keys_of_the_table_are_known_to_the_walk(void **state)
{
	(void)state;
	for (size_t i = 0; i < workload_nr_keys; i++) {
		const struct workload_key_spec *k = &workload_keys[i];

		assert_ptr_equal(workload_key_find(k->path), k); /* none twice */
		assert_false(workload_key_is_section(k->path));
		if (k->alias_of)
			assert_non_null(workload_key_find(k->alias_of));
		if (k->type == KEY_WORD)
			assert_non_null(k->words);
	}
}

/* ---- Resolved ---- */

static void test_the_resolved_file_loads_to_the_same(void **state)
{
	static const char *const files[] = {
		"{}",
		retinanet,
		"model: {name: \"a: 'b' # \\\"c\\\" \\\\ \\n\", layer_parameters: [1, 2]}\n"
		"dataset: {num_subfolders_train: [3, 4], record_length_bytes: 114660.07,\n"
		"  file_prefix: 'off', data_folder: '5', record_length_bytes_stdev: 0.1}\n"
		"train: {computation_time: {type: gamma, shape: 2, scale: 0.1}, seed: 18446744073709551615}\n"
		"evaluation: {eval_time: {type: poisson, lam: 3}}\n"
		"reader: {preprocess_time: {type: uniform, min: 0.1, max: 0.3}, pin_memory: 'true'}\n"
		"storage: {storage_options: {region: null, list: [a, 'b c', 5, '5', {x: y}]}}\n"
		"output: {folder: /tmp/x}\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct workload *a = load(files[i], NULL), *b = load(a->yaml, NULL);

		assert_string_equal(a->yaml, b->yaml);
		assert_string_equal(a->model, b->model);
		assert_string_equal(a->dataset.file_prefix, b->dataset.file_prefix);
		assert_true(a->dataset.record_bytes == b->dataset.record_bytes);
		assert_int_equal(a->train.seed, b->train.seed);
		assert_memory_equal(&a->train.computation_time, &b->train.computation_time,
				    sizeof(a->train.computation_time));
		assert_memory_equal(&a->evaluation.eval_time, &b->evaluation.eval_time,
				    sizeof(a->evaluation.eval_time));
		workload_free(a);
		workload_free(b);
	}
}

static void test_secrets_are_not_printed(void **state)
{
	struct workload *w = load("storage: {storage_options: {secret_access_key: hush,\n"
				  "  access_key_id: hush, session_token: hush, region: r}}",
				  "storage.storage_options.Password=hush");

	(void)state;
	assert_null(strstr(w->yaml, "hush"));
	assert_non_null(strstr(w->yaml, "region: r"));
	assert_null(strstr(warnings, "hush"));
	workload_free(w);
}

/* ---- Files ---- */

static void test_names_are_those_of_dlio(void **state)
{
	static const struct {
		const char *dataset;
		bool valid;
		uint64_t id;
		const char *name;
	} row[] = {
		{ "format: jpeg, num_files_train: 1170301", false, 7,
		  "train/img_0000007_of_1170301.jpeg" },
		{ "format: jpeg, num_files_train: 1170301", false, 1170300,
		  "train/img_1170300_of_1170301.jpeg" },
		/* As many digits as N has, not as N - 1. */
		{ "format: npz, num_files_train: 1", false, 0, "train/img_0_of_1.npz" },
		{ "format: npz, num_files_train: 10", false, 9, "train/img_09_of_10.npz" },
		{ "format: npz, num_files_train: 100", false, 9, "train/img_009_of_100.npz" },
		{ "format: npz, num_files_train: 9", false, 8, "train/img_8_of_9.npz" },
		{ "num_files_train: 100, num_subfolders_train: 1", false, 3,
		  "train/img_003_of_100.tfrecord" },
		{ "num_files_train: 100, num_subfolders_train: 2", false, 3,
		  "train/1/img_003_of_100.tfrecord" },
		{ "num_files_train: 100, num_subfolders_train: 10", false, 33,
		  "train/03/img_033_of_100.tfrecord" },
		{ "num_files_train: 100, num_subfolders_train: 9", false, 99,
		  "train/0/img_099_of_100.tfrecord" },
		{ "num_files_eval: 12, num_subfolders_eval: 3", true, 11,
		  "valid/2/img_11_of_12.tfrecord" },
		{ "num_files_train: 500, file_prefix: part", false, 0,
		  "train/part_000_of_500.tfrecord" },
		{ "num_files_train: 5, num_files_generated: 1000", false, 4,
		  "train/img_0004_of_1000.tfrecord" },
		{ "num_files_train: 100000, num_subfolders_train: [5, 100]", false, 12345,
		  "train/3/045/img_012345_of_100000.tfrecord" },
		{ "num_files_train: 100000, num_subfolders_train: [1, 5, 1, 100]", false, 12345,
		  "train/3/045/img_012345_of_100000.tfrecord" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char yaml[200], name[WORKLOAD_NAME_MAX], small[WORKLOAD_NAME_MAX];
		struct workload *w;
		size_t len = strlen(row[i].name);

		snprintf(yaml, sizeof(yaml), "dataset: {%s}", row[i].dataset);
		w = load(yaml, NULL);
		assert_int_equal(workload_file_name(w, row[i].valid, row[i].id, name, sizeof(name)),
				 len);
		assert_string_equal(name, row[i].name);
		assert_int_equal(workload_file_name(w, row[i].valid, row[i].id, small, len + 1),
				 len);
		for (size_t cap = 1; cap <= len; cap++)
			assert_int_equal(workload_file_name(w, row[i].valid, row[i].id, small, cap),
					 -ERANGE);
		assert_int_equal(workload_file_name(w, row[i].valid,
						    workload_nr_files(w, row[i].valid), name,
						    sizeof(name)),
				 -ERANGE);
		workload_free(w);
	}
}

static void test_positions_are_the_bytewise_order_of_names(void **state)
{
	static const char *const folders[] = { "0",  "2",   "7",      "10",
					       "99", "500", "[3, 4]", "[2, 10, 3]" };
	static const unsigned counts[] = { 1, 2, 9, 10, 11, 99, 100, 361 };

	(void)state;
	for (size_t f = 0; f < ARRAY_LEN(folders); f++) {
		for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
			char yaml[200], before[WORKLOAD_NAME_MAX] = "", name[WORKLOAD_NAME_MAX];
			struct workload *w;
			uint64_t id;

			snprintf(yaml, sizeof(yaml),
				 "dataset: {num_files_train: %u, num_subfolders_train: %s}",
				 counts[c], folders[f]);
			w = load(yaml, NULL);
			for (unsigned i = 0; i < counts[c]; i++) {
				assert_int_equal(workload_file_at(w, false, i, &id), 0);
				assert_true(workload_file_name(w, false, id, name, sizeof(name)) >
					    0);
				assert_true(strcmp(before, name) < 0);
				memcpy(before, name, sizeof(before));
			}
			assert_int_equal(workload_file_at(w, false, counts[c], &id), -ERANGE);
			assert_int_equal(workload_file_at(w, true, 0, &id), -ERANGE);
			workload_free(w);
		}
	}
}

static void test_folders_are_those_of_their_files(void **state)
{
	struct workload *w =
		load("dataset: {num_files_train: 100, num_subfolders_train: [3, 11]}", NULL);
	char folder[64], name[WORKLOAD_NAME_MAX];

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		int len = workload_folder_name(w, false, i % 33, folder, sizeof(folder));

		assert_true(len > 0);
		assert_true(workload_file_name(w, false, i, name, sizeof(name)) > len);
		assert_memory_equal(folder, name, (size_t)len);
		assert_int_equal(name[len], '/');
	}
	assert_int_equal(workload_folder_name(w, false, 33, folder, sizeof(folder)), -ERANGE);
	assert_int_equal(workload_folder_name(w, true, 0, folder, sizeof(folder)), 5);
	workload_free(w);
}

/* Computed by a program of its own, in Python, from the text of docs/design/workload.md. */
static void test_sizes_are_frozen(void **state)
{
	static const uint64_t id[] = { 0, 1, 2, 167, 1000000000 };
	static const uint64_t train[] = { 198245967, 73804211, 170753718, 224248393, 196915791 };
	static const uint64_t valid[] = { 41877242, 128188724, 82639750, 224409108, 106448817 };
	static const uint64_t cosmo[] = { 2782899, 2702751, 2875144, 2814991, 2895832 };
	struct workload *w = load("dataset: {record_length_bytes: 146600628, "
				  "record_length_bytes_stdev: 68341808}",
				  NULL);
	struct workload *c = load("dataset: {record_length_bytes: 2828486, "
				  "record_length_bytes_stdev: 71311}\ntrain: {seed: 7}",
				  NULL);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(id); i++) {
		assert_int_equal(workload_file_size(w, false, id[i]), train[i]);
		assert_int_equal(workload_file_size(w, true, id[i]), valid[i]);
		assert_int_equal(workload_file_size(c, false, id[i]), cosmo[i]);
	}
	assert_int_equal(workload_key(1, 2, 3, 4), UINT64_C(0x7d744792fdce2d24));
	workload_free(w);
	workload_free(c);
}

static void test_sizes_have_the_mean_and_the_deviation_asked_for(void **state)
{
	static const struct {
		double mean, stdev;
		unsigned spf;
	} row[] = { { 146600628, 68341808, 1 }, { 2828486, 71311, 1 }, { 1000, 570, 1 },
		    { 114660.07, 20000, 1251 }, { 100000, 33000, 1 },  { 5000, 1, 3 } };
	enum { NR = 40000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		double sum = 0, squares = 0, mean, dev, unit = row[i].stdev * row[i].spf;
		struct workload *w;
		char yaml[200];

		snprintf(yaml, sizeof(yaml),
			 "dataset: {record_length_bytes: %.17g, record_length_bytes_stdev: %.17g,"
			 " num_samples_per_file: %u}",
			 row[i].mean, row[i].stdev, row[i].spf);
		w = load(yaml, NULL);
		for (uint64_t id = 0; id < NR; id++) {
			uint64_t size = workload_file_size(w, false, id);
			double off = ((double)size - row[i].mean * row[i].spf) / unit;

			assert_true(size >= 1 && size <= workload_file_size_max(w));
			assert_true(fabs(off) < 3.001 || unit < 10);
			sum += off;
			squares += off * off;
		}
		/* Five deviations of an honest estimate; rounding adds a little to small ones. */
		mean = sum / NR;
		dev = sqrt(squares / NR - mean * mean);
		assert_true(fabs(mean) < 5 / sqrt(NR));
		assert_true(fabs(dev - 1) < (unit < 10 ? 0.03 : 0.015));
		workload_free(w);
	}
}

static void test_without_a_deviation_all_sizes_are_the_same(void **state)
{
	struct workload *w =
		load("dataset: {record_length_bytes: 114660.07, num_samples_per_file: 1251}", NULL);

	(void)state;
	/* 1251 * 114660.07 = 143439747.57 */
	assert_int_equal(workload_file_size(w, false, 0), 143439748);
	assert_int_equal(workload_file_size(w, true, 99), 143439748);
	assert_int_equal(workload_file_size_max(w), 143439748);
	workload_free(w);
}

static void test_the_widest_deviation_is_taken_and_a_wider_one_refused(void **state)
{
	struct workload_spread s;

	(void)state;
	assert_true(workload_spread_fit(1000, 0, &s));
	assert_true(workload_spread_fit(1000, 571, &s));
	assert_false(workload_spread_fit(1000, 572, &s));
	assert_true(workload_spread_fit(1, 0.0001, &s));
}

/* ---- Times ---- */

static void test_times_have_their_distributions(void **state)
{
	static const struct {
		struct workload_time t;
		double mean, variance;
	} row[] = {
		{ { WORKLOAD_TIME_FIXED, 0.5, 0 }, 0.5, 0 },
		{ { WORKLOAD_TIME_NORMAL, 0.5, 0.05 }, 0.5, 0.0025 },
		{ { WORKLOAD_TIME_UNIFORM, 0.2, 0.8 }, 0.5, 0.03 },
		{ { WORKLOAD_TIME_GAMMA, 2, 0.25 }, 0.5, 0.125 },
		{ { WORKLOAD_TIME_GAMMA, 0.5, 1 }, 0.5, 0.5 },
		{ { WORKLOAD_TIME_EXPONENTIAL, 0.5, 0 }, 0.5, 0.25 },
		{ { WORKLOAD_TIME_POISSON, 3, 0 }, 3, 3 },
		/* Without its sign: the mean is 2 * 0.3989, the variance 1 - 2 / pi. */
		{ { WORKLOAD_TIME_NORMAL, 0, 1 }, 0.797884560802865, 0.363380227632419 },
	};
	enum { NR = 40000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		double sum = 0, squares = 0, mean, variance;

		for (uint64_t k = 0; k < NR; k++) {
			double v = workload_time_draw(&row[i].t, workload_key(123, 1, k, 0));

			assert_true(v >= 0 &&
				    v == workload_time_draw(&row[i].t, workload_key(123, 1, k, 0)));
			sum += v;
			squares += v * v;
		}
		mean = sum / NR;
		variance = squares / NR - mean * mean;
		assert_true(fabs(workload_time_mean(&row[i].t) - row[i].mean) < 1e-12);
		assert_true(fabs(mean - row[i].mean) <= 1e-12 + 5 * sqrt(row[i].variance / NR));
		assert_true(fabs(variance - row[i].variance) <= 1e-12 + 0.08 * row[i].variance);
	}
	assert_true(workload_time_draw(&(struct workload_time){ 0 }, 5) == 0);
	assert_true(workload_time_mean(&(struct workload_time){ 0 }) == 0);
}

/* ---- Plans ---- */

static void test_the_size_rule_by_hand(void **state)
{
	static const struct {
		const char *dataset, *batch;
		uint64_t hosts, memory, accelerators, by_memory, by_steps, steps;
	} row[] = {
		/* 5 * 2 * 256 GiB / 322957 = 8511284.7; 500 * 16 * 24 = 192000. */
		{ "record_length_bytes: 322957", "24", 2, UINT64_C(512) << 30, 16, 8511285, 192000,
		  22164 },
		/* 5 * 1 MiB / 1024 = 5120 exactly, and one byte of memory more. */
		{ "record_length_bytes: 1024", "1", 1, 1 << 20, 1, 5120, 500, 5120 },
		{ "record_length_bytes: 1024", "1", 1, (1 << 20) + 1, 1, 5121, 500, 5121 },
		/* 5 * 64 GiB / (1251 * 114660.07) = 2395.4; 500 * 8 * 400 / 1251 = 1278.98. */
		{ "record_length_bytes: 114660.07, num_samples_per_file: 1251", "400", 1,
		  UINT64_C(64) << 30, 8, 2396, 1279, 936 },
		/* The steps rule counts: 500 * 64 * 7 = 224000 against 36.6 a GiB. */
		{ "record_length_bytes: 146600628", "7", 8, UINT64_C(8) << 30, 64, 293, 224000,
		  500 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct datasize_cluster c = { row[i].hosts, row[i].memory, row[i].accelerators };
		struct datasize_result s;
		struct shoal_err err = { "" };
		struct workload *w;
		char yaml[200];

		snprintf(yaml, sizeof(yaml), "dataset: {%s}\nreader: {batch_size: %s}",
			 row[i].dataset, row[i].batch);
		w = load(yaml, NULL);
		assert_int_equal(datasize_compute(w, &c, &s, &err), 0);
		assert_int_equal(s.files_by_memory, row[i].by_memory);
		assert_int_equal(s.files_by_steps, row[i].by_steps);
		assert_int_equal(s.nr_files, u64_max(row[i].by_memory, row[i].by_steps));
		assert_int_equal(s.plan.steps, row[i].steps);
		assert_true(s.plan.steps >= DATASIZE_STEPS_MIN);
		assert_true(s.plan.nr_bytes >= 5 * row[i].memory);
		workload_free(w);
	}
}

static void test_fewer_files_than_the_rule_asks_for_are_told(void **state)
{
	struct datasize_cluster c = { 1, 1 << 20, 2 };
	char words[300] = "";

	(void)state;
	for (uint64_t files = 5119; files <= 5120; files++) {
		struct workload *w;
		char yaml[200];

		snprintf(yaml, sizeof(yaml),
			 "dataset: {record_length_bytes: 1024, num_files_train: %" PRIu64 "}",
			 files);
		w = load(yaml, NULL);
		assert_int_equal(datasize_too_small(w, &c, words, sizeof(words)), files < 5120);
		workload_free(w);
	}
	assert_non_null(strstr(words, "5119 files"));
	assert_non_null(strstr(words, "asks for 5120 here"));
	assert_non_null(strstr(words, "2 accelerators"));
}

static void test_plans_of_times_and_evaluations_by_hand(void **state)
{
	struct workload *w = load(
		"dataset: {num_files_train: 103, num_files_eval: 21, num_samples_per_file: 2,\n"
		"  record_length_bytes: 1000, num_subfolders_train: 5}\n"
		"reader: {batch_size: 4, batch_size_eval: 3}\n"
		"workflow: {evaluation: true}\n"
		"train: {epochs: 7, computation_time: 0.5}\n"
		"evaluation: {eval_time: 0.25, eval_after_epoch: 2, epochs_between_evals: 2}\n",
		NULL);
	struct datasize_plan p;

	(void)state;
	assert_int_equal(datasize_plan(w, 3, &p, NULL), 0);
	assert_int_equal(p.nr_samples, 206);
	assert_int_equal(p.nr_bytes, 206000);
	assert_int_equal(p.nr_samples_eval, 42);
	assert_int_equal(p.nr_folders, 6);
	assert_int_equal(p.steps, 17);     /* 206 / 12 */
	assert_int_equal(p.steps_eval, 4); /* 42 / 9 */
	assert_int_equal(p.nr_evals, 3);   /* after epochs 2, 4, 6 */
	assert_true(p.epoch_seconds == 8.5);
	assert_true(fabs(p.total_seconds - (7 * 8.5 + 3 * 4 * 0.25)) < 1e-9);
	assert_true(p.samples_per_second == 24);
	assert_true(p.bytes_per_second == 24000);
	/* Three batches of four samples, each in two pages, as one may lie across them. */
	assert_true(p.rank_bytes >= 3 * 4 * 8192 && p.rank_bytes < 3 * 4 * (8192 + 8192));
	workload_free(w);
}

static void test_plans_that_cannot_be_are_refused(void **state)
{
	static const struct {
		const char *yaml;
		uint64_t ranks;
		const char *words;
	} row[] = {
		{ "dataset: {num_files_train: 7}\nreader: {batch_size: 4}", 2,
		  "too few samples for one step: 2 ranks" },
		{ "dataset: {num_files_train: 7}\ntrain: {total_training_steps: 8}", 1,
		  "but there is data for 7 steps" },
		{ "dataset: {num_files_train: 9, num_files_eval: 2}\nworkflow: {evaluation: true}\n"
		  "reader: {batch_size_eval: 3}",
		  1, "too few samples for one step of evaluation" },
		{ "reader: {batch_size: 1000000}", UINT64_MAX, "too many ranks" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct workload *w = load(row[i].yaml, NULL);
		struct shoal_err err = { "" };
		struct datasize_plan p;

		assert_int_equal(datasize_plan(w, row[i].ranks, &p, &err), -EINVAL);
		if (!strstr(err.msg, row[i].words))
			fail_msg("says '%s', not '%s'", err.msg, row[i].words);
		workload_free(w);
	}
}

static void test_folders_grow_with_the_files(void **state)
{
	static const struct {
		uint64_t memory_kib, nr, levels;
	} row[] = {
		{ 2000, 1, 0 },         { 2001, 2, 1 }, /* 10 and 10000: see is_power_of_ten() */
		{ 20000, 11, 1 },       { 20000000, 10001, 1 },
		{ 20000001, 10100, 2 }, { UINT64_C(2000000000), 1000000, 2 }
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		/* Records of 1 KiB: five files for each KiB of memory. */
		struct workload *w = load("dataset: {record_length_bytes: 1024}", NULL);
		struct datasize_cluster c = { 1, row[i].memory_kib << 10, 1 };
		struct datasize_result s;

		assert_int_equal(datasize_compute(w, &c, &s, NULL), 0);
		assert_int_equal(s.nr_files, 5 * row[i].memory_kib);
		assert_int_equal(s.subfolders.nr, row[i].nr);
		assert_int_equal(s.subfolders.nr_levels, row[i].levels);
		assert_true(s.nr_files <= s.subfolders.nr * DATASIZE_FILES_PER_FOLDER);
		workload_free(w);
	}
}

static void test_clusters_that_cannot_be_are_refused(void **state)
{
	struct workload *w = load("{}", NULL);
	struct shoal_err err = { "" };
	struct datasize_result s;

	(void)state;
	assert_int_equal(datasize_compute(w, &(struct datasize_cluster){ 0, 1, 1 }, &s, &err),
			 -EINVAL);
	assert_int_equal(datasize_compute(w, &(struct datasize_cluster){ 1, 0, 1 }, &s, &err),
			 -EINVAL);
	assert_int_equal(datasize_compute(w, &(struct datasize_cluster){ 2, 1, 1 }, &s, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "each host needs at least one"));
	assert_int_equal(
		datasize_compute(w, &(struct datasize_cluster){ 1, UINT64_MAX, 1 }, &s, &err),
		-EINVAL);
	assert_int_equal(
		datasize_compute(w, &(struct datasize_cluster){ 1, 1, UINT64_MAX }, &s, &err),
		-EINVAL);
	workload_free(w);
}

/* ---- Failing calls ---- */

static void test_each_allocation_that_fails_is_told_and_nothing_leaks(void **state)
{
	static const char yaml[] = "a: &a {b: [1, '${train.epochs}']}\nc: {<<: *a}\n"
				   "train: {epochs: 3}\nstorage: {storage_options: {x: y}}\n";
	static struct fault memory;
	int n, failed = 0;

	(void)state;
	for (n = 1;; n++) {
		char over[] = "model.name=x";
		char *overrides[] = { over };
		struct workload *w = NULL;
		struct shoal_err err = { "" };
		int rc;

		fault_arm(&memory, FAULT_MEMORY, n, FAULT_ONCE, ENOMEM);
		rc = workload_parse(yaml, strlen(yaml), "w.yaml", overrides, 1, NULL, NULL, &w,
				    &err);
		fault_disarm(&memory);
		workload_free(w);
		if (!memory.fired)
			break;
		failed++;
		assert_int_equal(rc, -ENOMEM);
		assert_string_not_equal(err.msg, "");
	}
	assert_true(failed > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_not_said_is_as_in_dlio),
		cmocka_unit_test(test_a_file_of_mlperf_is_read_without_a_word),
		cmocka_unit_test(test_numbers_and_words_as_yaml_spells_them),
		cmocka_unit_test(test_an_unquoted_off_is_off),
		cmocka_unit_test(test_bad_values_are_refused_with_key_and_place),
		cmocka_unit_test(test_broken_yaml_is_told_with_line_and_column),
		cmocka_unit_test(test_a_file_made_to_hurt_is_refused_quickly),
		cmocka_unit_test(test_every_truncation_of_a_file_loads_or_says_why),
		cmocka_unit_test(test_overrides_come_with_and_without_hydras_prefix),
		cmocka_unit_test(test_overrides_reach_what_the_file_does_not_have),
		cmocka_unit_test(test_wrong_overrides_are_refused),
		cmocka_unit_test(test_a_saved_configuration_of_hydra_is_a_workload),
		cmocka_unit_test(test_unknown_keys_are_named_with_the_nearest_right_one),
		cmocka_unit_test(test_known_keys_that_do_nothing_are_named_once),
		cmocka_unit_test(test_direct_storage_reads_directly),
		cmocka_unit_test(test_all_keys_of_the_table_are_known_to_the_walk),
		cmocka_unit_test(test_the_resolved_file_loads_to_the_same),
		cmocka_unit_test(test_secrets_are_not_printed),
		cmocka_unit_test(test_names_are_those_of_dlio),
		cmocka_unit_test(test_positions_are_the_bytewise_order_of_names),
		cmocka_unit_test(test_folders_are_those_of_their_files),
		cmocka_unit_test(test_sizes_are_frozen),
		cmocka_unit_test(test_sizes_have_the_mean_and_the_deviation_asked_for),
		cmocka_unit_test(test_without_a_deviation_all_sizes_are_the_same),
		cmocka_unit_test(test_the_widest_deviation_is_taken_and_a_wider_one_refused),
		cmocka_unit_test(test_times_have_their_distributions),
		cmocka_unit_test(test_the_size_rule_by_hand),
		cmocka_unit_test(test_fewer_files_than_the_rule_asks_for_are_told),
		cmocka_unit_test(test_plans_of_times_and_evaluations_by_hand),
		cmocka_unit_test(test_plans_that_cannot_be_are_refused),
		cmocka_unit_test(test_folders_grow_with_the_files),
		cmocka_unit_test(test_clusters_that_cannot_be_are_refused),
		cmocka_unit_test(test_each_allocation_that_fails_is_told_and_nothing_leaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
