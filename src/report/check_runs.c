/* The leaves of a training workload: their files and contents. */
#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "report/check_private.h"
#include "report/layout.h"
#include "run/folder.h"

#define GIB       (1024.0 * 1024.0 * 1024.0)
#define RUNS      6 /* a warm-up and five */
#define STEPS_MIN 500

/* ---- Files ---- */

static bool has_match(const struct tree_names *names, const char *pattern, const char **ret_name)
{
	for (size_t i = 0; i < names->nr; i++)
		if (!names->all[i].dir && fnmatch(pattern, names->all[i].name, 0) == 0) {
			*ret_name = names->all[i].name;
			return true;
		}
	return false;
}

static void check_dlio_config(struct check *c, const char *rule, const char *leaf)
{
	static const char *const files[] = { LAYOUT_CONFIG, LAYOUT_HYDRA, LAYOUT_OVERRIDES };
	struct tree_names names;
	char dir[CHECK_PATH_MAX];
	size_t nr = 0;

	check_path(dir, leaf, LAYOUT_HYDRA_DIR);
	names = check_list(c, dir);
	for (size_t i = 0; i < names.nr; i++)
		nr += !names.all[i].dir;
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (!check_has(dir, files[i]))
			check_find(c, rule, dir, "'%s' is missing", files[i]);
		else
			nr--;
	if (nr > 0)
		check_find(c, rule, dir,
			   "it has files besides " LAYOUT_CONFIG ", " LAYOUT_HYDRA
			   " and " LAYOUT_OVERRIDES);
	tree_names_release(&names);
}

static struct yaml_node *load_document(struct check *c, const char *rule, const char *path)
{
	struct yaml_node *root = NULL;
	struct shoal_err why = { "" };

	if (access(path, F_OK) < 0)
		return NULL; /* the missing file is a finding of its own */
	if (tree_load(path, &root, &why) < 0)
		check_find(c, rule, path, "it cannot be read: %s", why.msg);
	return root;
}

/* The files that a leaf of @command must have; its documents. */
static void open_leaf(struct check *c, const char *command, const char *model, const char *dir,
		      const char *name, struct check_leaf *ret)
{
	static const char *const run[] = { "training_run.stdout.log",
					   "training_run.stderr.log",
					   "*" RUN_RANK_OUTPUT ".json",
					   "*" RUN_RANK_STATS ".json",
					   "*summary.json",
					   LAYOUT_LOG,
					   NULL };
	static const char *const datagen[] = { "training_datagen.stdout.log",
					       "training_datagen.stderr.log", LAYOUT_LOG, NULL };
	bool is_run = strcmp(command, "run") == 0;
	const char *rule = is_run ? "2.1.19" : "2.1.14", *found;
	struct tree_names names;

	*ret = (struct check_leaf){ .command = command, .model = model };
	check_path(ret->path, dir, name);
	names = check_list(c, ret->path);
	for (const char *const *p = is_run ? run : datagen; *p; p++)
		if (!has_match(&names, *p, &found))
			check_find(c, rule, ret->path, "there is no file '%s'", *p);
	if (has_match(&names, "training_*_metadata.json", &found)) {
		check_path(ret->metadata_path, ret->path, found);
		ret->metadata = load_document(c, rule, ret->metadata_path);
	} else
		check_find(c, rule, ret->path,
			   "there is no file 'training_*_metadata.json': reports leave out this "
			   "leaf");
	if (!check_has(ret->path, LAYOUT_HYDRA_DIR))
		check_find(c, rule, ret->path, "there is no directory '" LAYOUT_HYDRA_DIR "'");
	if (is_run) {
		check_path(ret->summary_path, ret->path, run_file_name(RUN_FILE_SUMMARY));
		ret->summary = load_document(c, rule, ret->summary_path);
	}
	check_dlio_config(c, is_run ? "2.1.20" : "2.1.15", ret->path);
	tree_names_release(&names);
}

static void close_leaf(struct check_leaf *l)
{
	if (l->summary)
		yaml_free(l->summary);
	if (l->metadata)
		yaml_free(l->metadata);
}

/* Every accelerator writes two files; a launcher that was killed leaves fewer. */
static void check_ranks(struct check *c, const struct check_leaf *l)
{
	double nr = tree_number(l->summary, "num_accelerators", 0);

	for (uint64_t i = 0; i < (uint64_t)(nr > 0 ? nr : 0); i++) {
		struct run_rank_name name = run_rank_file_name(i, RUN_RANK_OUTPUT);

		if (!check_has(l->path, name.text)) {
			check_find(c, "2.1.19", l->path,
				   "the summary is of %.0f accelerators, and '%s' is missing", nr,
				   name.text);
			return;
		}
	}
}

/* ---- What a run says ---- */

static void check_dataset_size(struct check *c, const struct check_leaf *l)
{
	double files = tree_number(l->metadata, "parameters.dataset.num_files_train", 0);
	double each = tree_number(l->metadata, "parameters.dataset.num_samples_per_file", 1);
	double bytes = tree_number(l->metadata, "parameters.dataset.record_length_bytes", 0);
	double batch = tree_number(l->metadata, "parameters.reader.batch_size", 1);
	double accelerators = tree_number(l->summary, "num_accelerators", 1);
	const struct yaml_node *memory = yaml_find(l->summary, "host_memory_GB");
	double per_step = batch * accelerators, steps, by_memory = 0, least;

	if (!yaml_find(l->metadata, "parameters.dataset")) {
		check_find(c, "3.1.1", l->path, "the metadata have no parameters of the dataset");
		return;
	}
	if (bytes <= 0 || per_step <= 0 || each <= 0) {
		check_find(c, "3.1.2", l->path, "the record length is not known");
		return;
	}
	if (memory && memory->kind == YAML_LIST && memory->child && memory->child->text)
		by_memory = strtod(memory->child->text, NULL) *
			    tree_number(l->summary, "num_hosts", 1) * 5 * GIB / bytes;
	steps = fmax(STEPS_MIN, floor(files * each / per_step));
	least = fmax(steps * per_step, by_memory) / each;
	if (files < least)
		check_find(c, "3.1.2", l->path,
			   "the dataset has %.0f files, and needs %.0f: 500 steps, and five times "
			   "the memory of the hosts",
			   files, ceil(least));
}

static void check_summary(struct check *c, const struct check_leaf *l)
{
	const char *verdict = tree_text(l->summary, "metric.train_au_meet_expectation", "");
	double hosts = tree_number(l->summary, "num_hosts", 1);
	double accelerators = tree_number(l->summary, "num_accelerators", 1);
	static const char *const counts[] = { "num_files_train", "num_files_eval" };

	for (size_t i = 0; !c->newer && i < ARRAY_LEN(counts); i++)
		if (!yaml_find(l->summary, counts[i]))
			check_find(c, "3.3.1", l->path, "the summary has no %s", counts[i]);
	if (strcmp(verdict, "success") != 0)
		check_find(c, "3.3.2", l->path,
			   "train_au_meet_expectation is '%.40s' and not 'success': AU is %.2f %%",
			   verdict, tree_number(l->summary, "metric.train_au_mean_percentage", 0));
	if (hosts > 1 && fmod(accelerators, hosts) != 0)
		check_find(c, "3.3.6", l->path,
			   "%.0f accelerators on %.0f hosts: every host must have as many",
			   accelerators, hosts);
}

/* Memory by the description of the system, as far as it has the fields. */
static void check_hosts(struct check *c, const struct check_system *s, const struct check_leaf *l)
{
	struct yaml_node *clients =
		s->description ? yaml_find(s->description, "system_under_test.clients") : NULL;
	const struct yaml_node *memory = yaml_find(l->summary, "host_memory_GB");
	double hosts = tree_number(l->summary, "num_hosts", -1), said = 0, capacity = 0;
	const char *multi = s->description ? tree_text(s->description,
						       "system_under_test.solution.capabilities."
						       "multi_host",
						       "")
					   : "";

	if (clients && clients->kind == YAML_LIST && clients->child) {
		for (struct yaml_node *n = clients->child; n; n = n->next)
			said += tree_number(n, "quantity", 0);
		if (hosts >= 0 && hosts != said)
			check_find(c, "2.1.9", l->path,
				   "it ran on %.0f hosts, and the system's clients are %.0f", hosts,
				   said);
		if (!clients->child->next)
			capacity = tree_number(clients->child, "chassis.memory_capacity", 0);
	}
	for (const struct yaml_node *n = capacity > 0 && memory ? memory->child : NULL; n;
	     n = n->next) {
		double has = n->text ? floor(strtod(n->text, NULL)) : capacity;

		if (has < capacity * 0.9 || has > capacity * 1.1) {
			check_find(c, "2.1.9", l->path,
				   "a host has %.0f GiB, and chassis.memory_capacity is %.0f", has,
				   capacity);
			break;
		}
	}
	if (strcmp(multi, "false") == 0 && hosts > 1)
		check_find(c, "2.1.9", l->path,
			   "it ran on %.0f hosts, and the system's multi_host is false", hosts);
}

/* ---- What it was asked for ---- */

static bool may_change(const char *key, bool open)
{
	static const char *const closed[] = {
		"dataset.num_files_train",
		"dataset.num_subfolders_train",
		"dataset.data_folder",
		"reader.read_threads",
		"reader.computation_threads",
		"reader.transfer_size",
		"reader.prefetch_size",
		"reader.odirect",
		"storage.storage_root",
		"storage.storage_type",
		"dataset.skip_listing",
		"dataset.listing_validation_interval",
		"storage.storage_options.storage_library",
		"storage.storage_options.uri_scheme",
		"storage.s3_force_path_style",
	};
	static const char *const more[] = { "framework", "dataset.format",
					    "dataset.num_samples_per_file", "reader.data_loader" };

	for (size_t i = 0; i < ARRAY_LEN(closed); i++)
		if (strcmp(key, closed[i]) == 0)
			return true;
	for (size_t i = 0; open && i < ARRAY_LEN(more); i++)
		if (strcmp(key, more[i]) == 0)
			return true;
	return false;
}

static void check_changes(struct check *c, const struct check_leaf *l)
{
	bool closed = strcmp(tree_text(l->metadata, "verification", "open"), "closed") == 0;
	const struct yaml_node *changes = yaml_find(l->metadata, "override_parameters");

	for (const struct yaml_node *n = changes ? changes->child : NULL; n; n = n->next)
		if (n->key && !may_change(n->key, !closed))
			check_find(c, closed ? "3.6.2" : "3.6.3", l->path,
				   "'%.100s' was changed, which the division %s does not allow",
				   n->key, closed ? "CLOSED" : "OPEN");
}

/* The longest mount point of the df block in the log that contains @path. */
static size_t df_mount(const struct map *log, const char *path, char *ret, size_t cap)
{
	const char *text = (const char *)log->addr, *end = text + log->len;
	const char *at = memmem(text, log->len, "Use% Mounted on", 15);
	size_t best = 0;

	at = at ? memchr(at, '\n', (size_t)(end - at)) : NULL;
	while (at && ++at < end && *at != '\n') {
		const char *next = memchr(at, '\n', (size_t)(end - at));
		const char *stop = next ? next : end, *mount = stop;
		size_t len;

		while (mount > at && mount[-1] != ' ')
			mount--;
		len = (size_t)(stop - mount);
		if (len > best && len < cap && strncmp(path, mount, len) == 0 &&
		    (len == 1 || !path[len] || path[len] == '/')) {
			memcpy(ret, mount, len);
			ret[len] = '\0';
			best = len;
		}
		at = next;
	}
	return best;
}

static void check_places(struct check *c, const struct check_leaf *l)
{
	const char *data = tree_text(l->metadata, "args.data_dir", "");
	const char *results = tree_text(l->metadata, "args.results_dir", "");
	char path[CHECK_PATH_MAX], real[2][PATH_MAX], mounts[2][CHECK_PATH_MAX] = { "", "" };
	struct map log = MAP_CLOSED;
	struct shoal_err why = { "" };
	int rc;

	if (!*data || !*results || strcmp(data, results) == 0)
		check_find(c, "3.4.1", l->path,
			   "the metadata need args.data_dir and args.results_dir, two different "
			   "places");
	check_path(path, l->path, "training_run.stdout.log");
	if (c->newer && check_separation(c, l->path))
		return;
	if (!*data || !*results ||
	    strcmp(tree_text(l->metadata, "args.data_access_protocol", ""), "object") == 0)
		return;
	rc = map_open(path, &log, &why);
	if (rc < 0 && rc != -ENOENT && c->rc == 0)
		c->rc = err_set(c->err, rc, "'%s': %s", path, why.msg);
	if (rc < 0)
		return;
	if (!realpath(data, real[0]))
		snprintf(real[0], PATH_MAX, "%s", data);
	if (!realpath(results, real[1]))
		snprintf(real[1], PATH_MAX, "%s", results);
	for (int i = 0; i < 2; i++)
		df_mount(&log, real[i], mounts[i], CHECK_PATH_MAX);
	if (*mounts[0] && *mounts[1] && strcmp(mounts[0], mounts[1]) == 0)
		check_find(c, "3.4.2", l->path,
			   "data and results are on one file system, which is mounted on '%s'",
			   mounts[0]);
	map_close(&log);
}

/* ---- All runs ---- */

static double parse_iso(const char *text)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	return rest ? (double)timegm(&tm) + (*rest == '.' ? strtod(rest, NULL) : 0) : (double)NAN;
}

static void check_one_run(struct check *c, const struct check_system *s, const struct check_leaf *l)
{
	if (l->metadata && l->summary)
		check_dataset_size(c, l);
	if (l->summary) {
		check_summary(c, l);
		check_hosts(c, s, l);
		check_ranks(c, l);
	}
	if (l->metadata) {
		check_changes(c, l);
		check_places(c, l);
	}
	if (c->newer)
		check_leaf_newer(c, s, l);
}

static double dataset_bytes(const struct check_leaf *l)
{
	return tree_number(l->metadata, "parameters.dataset.num_files_train", 0) *
	       tree_number(l->metadata, "parameters.dataset.num_samples_per_file", 1) *
	       tree_number(l->metadata, "parameters.dataset.record_length_bytes", 0);
}

/* Returns the bytes of the first run's dataset. */
static double check_run_leaves(struct check *c, const struct check_system *s, const char *model,
			       const char *dir)
{
	struct tree_names names = check_list(c, dir);
	double shortest = (double)INFINITY, longest_gap = 0, before = (double)NAN, when, bytes = 0;
	size_t nr = 0;

	for (size_t i = 0; i < names.nr; i++) {
		struct check_leaf l;

		if (!names.all[i].dir)
			continue;
		nr++;
		open_leaf(c, "run", model, dir, names.all[i].name, &l);
		check_one_run(c, s, &l);
		if (bytes == 0 && l.metadata)
			bytes = dataset_bytes(&l);
		if (!tree_leaf_time(names.all[i].name, &when))
			check_find(c, "2.1.17", l.path, "its name is not YYYYMMDD_HHMMSS");
		else if (l.summary) {
			double seconds = parse_iso(tree_text(l.summary, "end", "")) -
					 parse_iso(tree_text(l.summary, "start", ""));

			if (isnan(seconds))
				check_find(c, "2.1.18", l.path, "its start or end is not a time");
			shortest = fmin(shortest, seconds);
			longest_gap = fmax(longest_gap, when - before);
			before = when;
		}
		close_leaf(&l);
	}
	if (nr != RUNS)
		check_find(c, "2.1.17", dir,
			   "there are %zu runs, and six are needed: a warm-up and five", nr);
	if (longest_gap > 0 && longest_gap >= 2 * shortest)
		check_find(c, "2.1.18", dir,
			   "%.0f s from one run to the next, and the shortest run took %.1f s: "
			   "these are not six runs in a row",
			   longest_gap, shortest);
	if (nr > 0 && !check_has(dir, LAYOUT_RESULTS))
		check_find(c, "2.1.16", dir, "'" LAYOUT_RESULTS "' is missing");
	tree_names_release(&names);
	return bytes;
}

static void check_datagen_leaves(struct check *c, const struct check_system *s, const char *model,
				 const char *dir, double needed)
{
	struct tree_names names = check_list(c, dir);
	size_t nr = 0;

	for (size_t i = 0; i < names.nr; i++) {
		struct check_leaf l;
		double when;

		if (!names.all[i].dir)
			continue;
		nr++;
		if (!tree_leaf_time(names.all[i].name, &when))
			check_find(c, "2.1.13", dir, "the name '%s' is not YYYYMMDD_HHMMSS",
				   names.all[i].name);
		open_leaf(c, "datagen", model, dir, names.all[i].name, &l);
		if (c->newer)
			check_leaf_newer(c, s, &l);
		if (l.metadata && dataset_bytes(&l) < needed)
			check_find(c, "3.2.1", l.path,
				   "%.2f GiB were generated, and the runs read %.2f GiB",
				   dataset_bytes(&l) / GIB, needed / GIB);
		close_leaf(&l);
	}
	if (nr != 1)
		check_find(c, "2.1.13", dir, "there are %zu leaves, and one is needed", nr);
	tree_names_release(&names);
}

void check_model(struct check *c, const struct check_system *s, const char *model, const char *dir)
{
	static const char *const phases[] = { "datagen", "run", "datasize" };
	struct tree_names names = check_list(c, dir);
	char path[CHECK_PATH_MAX];
	double bytes;

	for (size_t i = 0; i < names.nr; i++) {
		bool known = false;

		for (size_t k = 0; k < (c->newer ? 3 : 2); k++)
			known = known || strcmp(names.all[i].name, phases[k]) == 0;
		if (names.all[i].dir && !known)
			check_find(c, "2.1.12", dir, "the directory '%s' does not belong here",
				   names.all[i].name);
	}
	for (size_t k = 0; k < 2; k++)
		if (!check_has(dir, phases[k]))
			check_find(c, "2.1.12", dir, "the directory '%s' is missing", phases[k]);
	if (!c->newer && strcmp(s->division, "open") == 0 && !check_has(dir, "code"))
		check_find(c, "2.1.6", dir,
			   "the directory 'code' of %s is missing; mlpstorage 3.0.26 refuses it by "
			   "2.1.12 if it is there",
			   model);
	check_path(path, dir, "run");
	bytes = check_run_leaves(c, s, model, path);
	check_path(path, dir, "datagen");
	if (check_has(dir, "datagen"))
		check_datagen_leaves(c, s, model, path, bytes);
	if (c->newer)
		check_datasize(c, s, model, dir);
	tree_names_release(&names);
}
