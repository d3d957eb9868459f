/* The table of keys, and the search in it. */
#include "workload/keys.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/*
 * Limits: larger than anyone needs, and small enough that products fit 64 bits (see
 * datasize_plan()).
 */
#define FILES_MAX   1e12
#define SAMPLES_MAX 4294967296.0
#define BYTES_MAX   1125899906842624.0 /* 1 PiB */
#define BATCH_MAX   1048576.0
#define GROUP_MAX   2147483647.0
#define SECONDS_MAX 1e6
#define EPOCHS_MAX  1e6
#define STEPS_MAX   1e12

static const char *const formats[] = { "tfrecord",
				       "hdf5",
				       "csv",
				       "npz",
				       "npy",
				       "jpeg",
				       "png",
				       "indexed_binary",
				       "mmap_indexed_binary",
				       "synthetic",
				       "parquet",
				       "arrow",
				       "tar",
				       NULL };
static const char *const other_formats[] = { "hdf5_opt", NULL };
static const char *const frameworks[] = { "tensorflow", "pytorch", NULL };
static const char *const storages[] = { "local_fs", "direct_fs", "s3", NULL };
static const char *const other_storages[] = { "aistore", "parallel_fs", NULL };
static const char *const shuffles[] = { "off", "seed", "random", NULL };
static const char *const compressions[] = { "none", "gzip", "lzf", "bz2", "zip", "xz", NULL };
static const char *const writers[] = { "rank_zero", "all_ranks", NULL };

#define AT(field) offsetof(struct workload, field)
#define ANY(p)                                                  \
	{                                                       \
		.path = (p), .type = KEY_ANY, .use = KEY_UNUSED \
	}
#define LABEL(p)                                               \
	{                                                      \
		.path = (p), .type = KEY_ANY, .use = KEY_LABEL \
	}
#define BOOL(p, f)                                         \
	{                                                  \
		.path = (p), .type = KEY_BOOL, .at = AT(f) \
	}
#define IDLE_BOOL(p, f)                                                       \
	{                                                                     \
		.path = (p), .type = KEY_BOOL, .use = KEY_UNUSED, .at = AT(f) \
	}
#define COUNT(p, f, lo, hi)                                                           \
	{                                                                             \
		.path = (p), .type = KEY_COUNT, .at = AT(f), .min = (lo), .max = (hi) \
	}
#define IDLE_COUNT(p, f, lo, hi)                                                             \
	{                                                                                    \
		.path = (p), .type = KEY_COUNT, .use = KEY_UNUSED, .at = AT(f), .min = (lo), \
		.max = (hi)                                                                  \
	}
#define NO_COUNT(p, f, lo, hi)                                                              \
	{                                                                                   \
		.path = (p), .type = KEY_COUNT_OR_NO, .at = AT(f), .min = (lo), .max = (hi) \
	}
#define REAL(p, f, lo, hi)                                                           \
	{                                                                            \
		.path = (p), .type = KEY_REAL, .at = AT(f), .min = (lo), .max = (hi) \
	}
#define TEXT(p, f)                                         \
	{                                                  \
		.path = (p), .type = KEY_TEXT, .at = AT(f) \
	}
#define WORD(p, f, w, o)                                                                     \
	{                                                                                    \
		.path = (p), .type = KEY_WORD, .at = AT(f), .words = (w), .unsupported = (o) \
	}
#define TIME(p, f)                                                                         \
	{ .path = (p), .type = KEY_TIME, .at = AT(f) },                                    \
	{                                                                                  \
		.path = p "_stdev", .type = KEY_DEVIATION, .at = AT(f), .max = SECONDS_MAX \
	}
#define FOLDERS(p, f)                                         \
	{                                                     \
		.path = (p), .type = KEY_FOLDERS, .at = AT(f) \
	}
#define COLUMNS(p, f)                                         \
	{                                                     \
		.path = (p), .type = KEY_COLUMNS, .at = AT(f) \
	}
#define SAME(p, other)                           \
	{                                        \
		.path = (p), .alias_of = (other) \
	}

/* In print order; the keys of a section, and of a subsection, are together. */
const struct workload_key_spec workload_keys[] = {
	TEXT("model.name", model),
	LABEL("model.type"),
	IDLE_COUNT("model.model_size_bytes", checkpoint.model_bytes, 0, BYTES_MAX),
	SAME("model.model_size", "model.model_size_bytes"), /* spelling in MLPerf's files */
	ANY("model.model_datatype"),
	ANY("model.optimizer_datatype"),
	ANY("model.optimization_groups"),
	ANY("model.num_layers"),
	ANY("model.layer_parameters"),
	ANY("model.parallelism.tensor"),
	ANY("model.parallelism.pipeline"),
	ANY("model.parallelism.data"),
	ANY("model.parallelism.zero_stage"),
	ANY("model.transformer.vocab_size"),
	ANY("model.transformer.hidden_size"),
	ANY("model.transformer.ffn_hidden_size"),
	ANY("model.transformer.num_attention_heads"),
	ANY("model.transformer.num_kv_heads"),

	{ .path = "framework",
	  .type = KEY_WORD,
	  .use = KEY_LABEL,
	  .at = AT(framework),
	  .words = frameworks },

	BOOL("workflow.generate_data", workflow.generate_data),
	BOOL("workflow.train", workflow.train),
	BOOL("workflow.evaluation", workflow.evaluation),
	BOOL("workflow.checkpoint", workflow.checkpoint), /* a run states that it writes none */
	IDLE_BOOL("workflow.profiling", workflow.profiling),
	ANY("workflow.query"),
	LABEL("workflow.debug"),

	WORD("storage.storage_type", storage.type, storages, other_storages),
	{ .path = "storage.storage_root",
	  .type = KEY_TEXT,
	  .use = KEY_LABEL,
	  .at = AT(storage.root) },
	ANY("storage.storage_options"),
	ANY("storage.storage_library"),
	{ .path = "storage.post_generation_settle_seconds",
	  .type = KEY_REAL,
	  .use = KEY_UNUSED,
	  .at = AT(storage.settle_seconds),
	  .max = SECONDS_MAX },

	WORD("dataset.format", dataset.format, formats, other_formats),
	REAL("dataset.record_length_bytes", dataset.record_bytes, 1, BYTES_MAX),
	SAME("dataset.record_length", "dataset.record_length_bytes"), /* spelling in flux */
	REAL("dataset.record_length_bytes_stdev", dataset.record_stdev, 0, BYTES_MAX),
	{ .path = "dataset.record_length_bytes_resize",
	  .type = KEY_REAL,
	  .use = KEY_LABEL, /* of a decoded sample */
	  .at = AT(dataset.record_resize_bytes),
	  .max = BYTES_MAX },
	COUNT("dataset.num_files_train", dataset.nr_files_train, 1, FILES_MAX),
	COUNT("dataset.num_files_eval", dataset.nr_files_eval, 0, FILES_MAX),
	COUNT("dataset.num_files_generated", dataset.nr_files_generated, 0, FILES_MAX),
	COUNT("dataset.num_samples_per_file", dataset.samples_per_file, 1, SAMPLES_MAX),
	/* The command line says where data and results are. */
	{ .path = "dataset.data_folder",
	  .type = KEY_TEXT,
	  .use = KEY_LABEL,
	  .at = AT(dataset.folder) },
	FOLDERS("dataset.num_subfolders_train", dataset.subfolders_train),
	FOLDERS("dataset.num_subfolders_eval", dataset.subfolders_eval),
	TEXT("dataset.file_prefix", dataset.file_prefix),
	{ .path = "dataset.compression",
	  .type = KEY_WORD,
	  .use = KEY_UNUSED,
	  .at = AT(dataset.compression),
	  .words = compressions },
	IDLE_COUNT("dataset.compression_level", dataset.compression_level, 0, 9),
	IDLE_BOOL("dataset.enable_chunking", dataset.chunking),
	IDLE_COUNT("dataset.chunk_size", dataset.chunk_bytes, 0, BYTES_MAX),
	LABEL("dataset.keep_files"), /* nothing is ever deleted */
	ANY("dataset.generation_buffer_size"),
	ANY("dataset.data_gen_method"),
	ANY("dataset.record_element_bytes"),
	ANY("dataset.record_element_type"),
	ANY("dataset.record_dims"),
	/* Names are computed or in a catalog; they are always probed. */
	{ .path = "dataset.skip_listing",
	  .type = KEY_BOOL,
	  .use = KEY_LABEL,
	  .at = AT(dataset.skip_listing) },
	{ .path = "dataset.listing_validation_interval",
	  .type = KEY_COUNT,
	  .use = KEY_LABEL,
	  .at = AT(dataset.probe_every),
	  .max = FILES_MAX },
	ANY("dataset.listing_threads"),
	COLUMNS("dataset.parquet.columns", dataset.parquet),
	COUNT("dataset.parquet.row_group_size", dataset.parquet.group_rows, 1, GROUP_MAX),
	LABEL("dataset.parquet.read_mode"),
	ANY("dataset.parquet.partition_by"),
	LABEL("dataset.parquet.generation_batch_size"), /* files are generated in pieces */
	LABEL("dataset.parquet.use_s3dlio_gen"),
	COLUMNS("dataset.arrow.columns", dataset.arrow),
	COUNT("dataset.arrow.generation_batch_size", dataset.arrow.group_rows, 1, GROUP_MAX),
	ANY("dataset.hdf5.chunk_dims"),
	IDLE_COUNT("dataset.hdf5.num_dset_per_record", dataset.nr_hdf5_dsets, 1, 1024),
	ANY("dataset.hdf5.max_shape"),

	LABEL("reader.data_loader"), /* Shoal's loader replaces all of them */
	COUNT("reader.batch_size", reader.batch, 1, BATCH_MAX),
	COUNT("reader.batch_size_eval", reader.batch_eval, 1, BATCH_MAX),
	COUNT("reader.read_threads", reader.read_threads, 0, 8192),
	COUNT("reader.write_threads", reader.write_threads, 0, 8192),
	/* Preprocessing is done by the read threads; files are not mapped. */
	{ .path = "reader.computation_threads",
	  .type = KEY_COUNT,
	  .use = KEY_LABEL,
	  .at = AT(reader.computation_threads),
	  .max = 8192 },
	COUNT("reader.prefetch_size", reader.prefetch, 0, 65536),
	WORD("reader.file_shuffle", reader.file_shuffle, shuffles, NULL),
	WORD("reader.sample_shuffle", reader.sample_shuffle, shuffles, NULL),
	COUNT("reader.shuffle_size", reader.shuffle_size, 0, FILES_MAX),
	ANY("reader.file_access"),
	ANY("reader.read_type"),
	{ .path = "reader.transfer_size",
	  .type = KEY_COUNT_OR_NO,
	  .use = KEY_UNUSED,
	  .at = AT(reader.transfer_bytes),
	  .min = 1,
	  .max = BYTES_MAX },
	TIME("reader.preprocess_time", reader.preprocess_time),
	LABEL("reader.dont_use_mmap"),
	BOOL("reader.odirect", reader.odirect),
	ANY("reader.pin_memory"),
	LABEL("reader.multiprocessing_context"), /* there are no worker processes */
	ANY("reader.data_loader_classname"),
	ANY("reader.reader_classname"),
	ANY("reader.data_loader_sampler"),
	ANY("reader.transformed_record_dims"),
	ANY("reader.transformed_record_element_type"),

	COUNT("train.epochs", train.epochs, 1, EPOCHS_MAX),
	TIME("train.computation_time", train.computation_time),
	NO_COUNT("train.total_training_steps", train.total_steps, 1, STEPS_MAX),
	COUNT("train.seed", train.seed, 0, 18446744073709551615.0),
	BOOL("train.seed_change_epoch", train.seed_change_epoch),

	TIME("evaluation.eval_time", evaluation.eval_time),
	COUNT("evaluation.eval_after_epoch", evaluation.after_epoch, 1, EPOCHS_MAX),
	COUNT("evaluation.epochs_between_evals", evaluation.every_epochs, 1, EPOCHS_MAX),

	{ .path = "checkpoint.checkpoint_folder",
	  .type = KEY_TEXT,
	  .use = KEY_UNUSED,
	  .at = AT(checkpoint.folder) },
	IDLE_COUNT("checkpoint.checkpoint_after_epoch", checkpoint.after_epoch, 0, EPOCHS_MAX),
	IDLE_COUNT("checkpoint.epochs_between_checkpoints", checkpoint.every_epochs, 0, EPOCHS_MAX),
	{ .path = "checkpoint.steps_between_checkpoints",
	  .type = KEY_COUNT_OR_NO,
	  .use = KEY_UNUSED,
	  .at = AT(checkpoint.every_steps),
	  .min = 1,
	  .max = STEPS_MAX },
	{ .path = "checkpoint.type",
	  .type = KEY_WORD,
	  .use = KEY_UNUSED,
	  .at = AT(checkpoint.all_ranks),
	  .words = writers },
	ANY("checkpoint.mode"),
	ANY("checkpoint.checkpoint_mechanism_classname"),
	IDLE_BOOL("checkpoint.fsync", checkpoint.fsync),
	ANY("checkpoint.time_between_checkpoints"),
	ANY("checkpoint.num_checkpoints_write"),
	ANY("checkpoint.num_checkpoints_read"),
	IDLE_BOOL("checkpoint.rank_sync", checkpoint.rank_sync),
	ANY("checkpoint.recovery_rank_shift"),
	ANY("checkpoint.randomize_tensor"),
	ANY("checkpoint.ksm"),

	{ .path = "output.folder", .type = KEY_TEXT, .use = KEY_LABEL, .at = AT(output.folder) },
	ANY("output.log_file"),
	COUNT("output.metric.exclude_start_steps", output.exclude_start_steps, 0, STEPS_MAX),
	COUNT("output.metric.exclude_end_steps", output.exclude_end_steps, 0, STEPS_MAX),

	ANY("profiling.profiler"),
	ANY("profiling.iostat_devices"),

	REAL("metric.au", au, 0, 1),
};
const size_t workload_nr_keys = ARRAY_LEN(workload_keys);

const char *workload_format_name(enum workload_format format)
{
	return formats[format];
}

/* ---- Finding ---- */

const struct workload_key_spec *workload_key_find(const char *path)
{
	for (size_t i = 0; i < workload_nr_keys; i++)
		if (strcmp(workload_keys[i].path, path) == 0)
			return &workload_keys[i];
	return NULL;
}

bool workload_key_is_section(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < workload_nr_keys; i++)
		if (strncmp(workload_keys[i].path, path, len) == 0 &&
		    workload_keys[i].path[len] == '.')
			return true;
	return false;
}

bool workload_key_is_off(const struct workload_key_spec *key, const struct workload *w)
{
	/* Checkpoint settings do not matter as long as none is written, which a run states. */
	if (strncmp(key->path, "checkpoint.", 11) == 0 || strncmp(key->path, "model.", 6) == 0)
		return true;
	if (strncmp(key->path, "profiling.", 10) == 0)
		return !w->workflow.profiling;
	return strncmp(key->path, "evaluation.", 11) == 0 && !w->workflow.evaluation;
}

static const char *last_component(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

/* The section most similar to a misspelt one such as "datset". */
static const char *nearest_section(const char *path)
{
	static const char *const sections[] = { "model",   "framework",  "workflow",
						"storage", "dataset",    "reader",
						"train",   "evaluation", "checkpoint",
						"output",  "profiling",  "metric" };

	return text_nearest(path, sections, ARRAY_LEN(sections));
}

const char *workload_key_called(const char *name)
{
	for (size_t i = 0; i < workload_nr_keys; i++)
		if (workload_keys[i].use == KEY_USED && !workload_keys[i].alias_of &&
		    strcmp(last_component(workload_keys[i].path), name) == 0)
			return workload_keys[i].path;
	return NULL;
}

/*
 * The most similar key; otherwise the one with the most similar last component: the right key in
 * the wrong section.
 */
const char *workload_key_nearest(const char *path)
{
	const char *found = NULL, *last = last_component(path);
	size_t best = SIZE_MAX, best_last = SIZE_MAX;
	const char *found_last = NULL;

	if (last == path && nearest_section(path))
		return nearest_section(path);
	for (size_t i = 0; i < workload_nr_keys; i++) {
		const char *known = workload_keys[i].path;
		size_t d = text_distance(path, known),
		       dl = text_distance(last, last_component(known));

		if (workload_keys[i].alias_of)
			continue;
		if (d < best) {
			best = d;
			found = known;
		}
		if (dl < best_last) {
			best_last = dl;
			found_last = known;
		}
	}
	if (found &&
	    text_is_near(last, best)) /* relative to the last component: sections are long */
		return found;
	return found_last && text_is_near(last, best_last) ? found_last : NULL;
}
