/* The defaults of a workload, and checks that involve several keys. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "order/perm.h"
#include "workload/keys.h"

#define PREFIX_MAX 128u

int workload_defaults(struct workload *w, struct shoal_err *err)
{
	*w = (struct workload){
		.model = strdup("default"),
		.workflow = { .train = true },
		.storage = { .root = strdup("./") },
		.dataset = { .record_bytes = 65536,
			     .nr_files_train = 8,
			     .samples_per_file = 1,
			     .subfolders_train = { .nr = 1 },
			     .subfolders_eval = { .nr = 1 },
			     .folder = strdup("./data/"),
			     .file_prefix = strdup("img"),
			     .compression_level = 4,
			     .probe_every = 1000,
			     .nr_hdf5_dsets = 1,
			     .parquet = { .group_rows = 1024 },
			     .arrow = { .group_rows = 1024 } },
		.reader = { .batch = 1,
			    .batch_eval = 1,
			    .computation_threads = 1,
			    .prefetch = 2,
			    .shuffle_size = 1024 },
		.train = { .epochs = 1, .seed = 123, .seed_change_epoch = true },
		.evaluation = { .after_epoch = 1, .every_epochs = 1 },
		.checkpoint = { .folder = strdup("./checkpoints/"),
				.after_epoch = 1,
				.every_epochs = 1,
				.model_bytes = 10240 },
		.output = { .exclude_start_steps = 1 },
		.au = 0.90,
	};
	if (!w->model || !w->storage.root || !w->dataset.folder || !w->dataset.file_prefix ||
	    !w->checkpoint.folder)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* Fail with a message about a key: with the place where it was given, or about its default. */
static int fail_at(struct yaml_node *root, const char *path, struct shoal_err *err,
		   const char *words)
{
	const struct yaml_node *n = yaml_find(root, path);

	if (n)
		return yaml_node_fail(n, err, "%s %s", path, words);
	return err_set(err, -EINVAL, "%s %s", path, words);
}

static int check_texts(struct workload *w, struct yaml_node *root, struct shoal_err *err)
{
	const char *prefix = w->dataset.file_prefix;
	size_t len = strlen(w->dataset.folder);

	while (len > 1 && w->dataset.folder[len - 1] == '/')
		w->dataset.folder[--len] = '\0';
	if (len == 0)
		return fail_at(root, "dataset.data_folder", err, "is empty");
	if (!*prefix || strlen(prefix) > PREFIX_MAX || strchr(prefix, '/') ||
	    !is_plain_utf8(prefix, strlen(prefix)))
		return fail_at(root, "dataset.file_prefix", err,
			       "must be 1 to 128 bytes of text without a slash");
	return 0;
}

static int workload_check_sizes(struct workload *w, struct yaml_node *root, struct shoal_err *err)
{
	struct workload_dataset *d = &w->dataset;
	char words[160];

	if (!workload_spread_fit(d->record_bytes, d->record_stdev, &d->spread)) {
		snprintf(words, sizeof(words),
			 "%.15g is too large for records of %.15g bytes: at most %.0f, "
			 "otherwise lengths would become negative",
			 d->record_stdev, d->record_bytes, d->record_bytes * 0.57);
		return fail_at(root, "dataset.record_length_bytes_stdev", err, words);
	}
	/* Twice the mean exceeds the longest record. */
	if (2 * d->record_bytes * (double)d->samples_per_file > 0x1p62)
		return fail_at(root, "dataset.num_samples_per_file", err,
			       "times dataset.record_length_bytes makes files too large for any "
			       "file system");
	return 0;
}

static int check_counts(const struct workload *w, struct yaml_node *root, struct shoal_err *err)
{
	const struct workload_dataset *d = &w->dataset;
	uint64_t most = u64_max(d->nr_files_train, d->nr_files_eval);

	if (d->nr_files_generated && d->nr_files_generated < d->nr_files_train)
		return fail_at(root, "dataset.num_files_generated", err,
			       "is less than dataset.num_files_train: a run can only use files "
			       "that were generated");
	if (d->samples_per_file > PERM_MAX / most)
		return fail_at(root, "dataset.num_samples_per_file", err,
			       "times the number of files is more than 2^48 samples");
	return 0;
}

/* DLIO's loader is chosen by reader.data_loader; without that key, by the framework. */
static bool uses_torch(const struct workload *w, struct yaml_node *root)
{
	const struct yaml_node *n = yaml_find(root, "reader.data_loader");

	if (n && n->kind == YAML_SCALAR && strcmp(n->text, "pytorch") == 0)
		return true;
	if (n && n->kind == YAML_SCALAR &&
	    (strcmp(n->text, "tensorflow") == 0 || strstr(n->text, "dali")))
		return false;
	return w->framework == WORKLOAD_PYTORCH;
}

int workload_check(struct workload *w, struct yaml_node *root, workload_warn_fn *warn, void *self,
		   struct shoal_err *err)
{
	int rc = check_texts(w, root, err);

	if (w->storage.type == WORKLOAD_DIRECT_FS) /* which means direct I/O */
		w->reader.odirect = true;
	w->reader.torch = uses_torch(w, root);
	if (rc == 0)
		rc = workload_fit_table(w, root, warn, self, err);
	if (rc == 0)
		rc = workload_check_sizes(w, root, err);
	if (rc == 0)
		rc = check_counts(w, root, err);
	if (rc == 0 && warn && w->workflow.evaluation && w->dataset.nr_files_eval == 0)
		warn(self, "workflow.evaluation is on, but dataset.num_files_eval is 0: there is "
			   "nothing to evaluate");
	return rc;
}
