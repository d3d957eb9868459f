#include "report/figures.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_read.h"
#include "base/map.h"
#include "base/path.h"
#include "base/stats.h"
#include "run/folder.h"
#include "workload/yaml.h"

/* Of one file: a summary of 1,000 epochs has 2 MB. */
#define FIGURES_BYTES_MAX (64u << 20)

/* Facts beyond these are left out: no results have so many. */
#define FACTS_MAX 512u

static const struct {
	const char *name;
	int better;
	/* Where it is in summary.json, per epoch; in what read printed, per repeat; and in what any
	 * command printed, once, which counts if there is nothing else. */
	const char *run, *read, *once;
	double factor;
} table[FIGURE_NR] = {
	[FIGURE_AU] = { "AU %", 1, "au_percentage", NULL, NULL, 1 },
	[FIGURE_SAMPLES] = { "samples/s", 1, "throughput_samples_per_second", "samples_per_second",
			     NULL, 1 },
	[FIGURE_BYTES] = { "bytes/s", 0, "measured_bytes_per_second", "bytes_per_second",
			   "bytes_per_second", 1 },
	[FIGURE_P50] = { "latency p50 ms", -1, "latency_us.total.p50", "latency_us.p50",
			 "latency_us.p50", 1e-3 },
	[FIGURE_P99] = { "latency p99 ms", -1, "latency_us.total.p99", "latency_us.p99",
			 "latency_us.p99", 1e-3 },
	[FIGURE_CPU] = { "CPU us/sample", -1, "cpu_us_per_sample", "cpu_us_per_sample",
			 "cpu_us_per_sample", 1 },
	[FIGURE_CACHED] = { "page cache %", 0, "audit.cached_share", "cached_share",
			    "audit.cached_share", 100 },
	[FIGURE_NAMES] = { "names/s", 1, NULL, NULL, "names_per_second", 1 },
	[FIGURE_FILES] = { "files/s", 1, NULL, NULL, "files_per_second", 1 },
};

const char *figure_name(enum figure f)
{
	return table[f].name;
}

int figure_better(enum figure f)
{
	return table[f].better;
}

const char *figures_fact(const struct figures *f, const char *key)
{
	for (size_t i = 0; i < f->nr_facts; i++)
		if (strcmp(f->facts[i].key, key) == 0)
			return f->facts[i].value;
	return NULL;
}

/* ---- Reading ---- */

struct figures_reader {
	struct figures *f;
	uint64_t phase;       /* the one that is being read */
	double of[FIGURE_NR]; /* its figures */
	double once[FIGURE_NR];
	bool eval, partial, any;
	bool whole; /* at least one whole phase was taken */
};

/* Whether @path is @list, a number, and @ret_rest. */
static bool is_item(const char *path, const char *list, uint64_t *ret_index, const char **ret_rest)
{
	size_t len = strlen(list);
	char *end;

	if (strncmp(path, list, len) != 0 || path[len] < '0' || path[len] > '9')
		return false;
	*ret_index = strtoull(path + len, &end, 10);
	*ret_rest = *end == '.' ? end + 1 : end;
	return true;
}

static void add_value(struct figures *f, enum figure which, double value)
{
	struct figures_values *v = &f->of[which];

	if (isfinite(value) && v->nr < FIGURES_MAX)
		v->value[v->nr++] = value * table[which].factor;
}

/* The phase has ended: its figures count if it is a whole epoch of training. */
static void end_phase(struct figures_reader *r)
{
	for (size_t i = 0; r->any && !r->eval && !r->partial && i < FIGURE_NR; i++)
		add_value(r->f, (enum figure)i, r->of[i]);
	r->any = r->eval = r->partial = false;
	for (size_t i = 0; i < FIGURE_NR; i++)
		r->of[i] = (double)NAN;
}

static void take_phase(struct figures_reader *r, uint64_t index, const char *rest,
		       const struct json_value *v)
{
	if (index != r->phase)
		end_phase(r);
	r->phase = index;
	r->any = true;
	r->eval |= strcmp(rest, "kind") == 0 && strcmp(v->text, "eval") == 0;
	r->partial |= strcmp(rest, "partial") == 0 && v->kind == JSON_TRUE;
	r->f->not_once |= strcmp(rest, "audit.exactly_once") == 0 && v->kind == JSON_FALSE;
	for (size_t i = 0; i < FIGURE_NR; i++)
		if (table[i].run && strcmp(rest, table[i].run) == 0)
			r->of[i] = v->number;
}

static void take_repeat(struct figures_reader *r, uint64_t index, const char *rest,
			const struct json_value *v)
{
	(void)index;
	for (size_t i = 0; i < FIGURE_NR; i++)
		if (table[i].read && strcmp(rest, table[i].read) == 0)
			add_value(r->f, (enum figure)i, v->number);
}

/* Facts that say how it was measured. Times, sums and the names of hosts are none. */
static bool is_setting(const char *path)
{
	static const char *const names[] = { "num_accelerators",
					     "num_hosts",
					     "num_files_train",
					     "num_files_eval",
					     "num_samples_per_file",
					     "shoal.workload",
					     "shoal.ranks",
					     "shoal.cores",
					     "shoal.epochs_due",
					     "shoal.data",
					     "shoal.catalog_digest",
					     "shoal.bytes_made_up",
					     "shoal.engine",
					     "shoal.direct",
					     "shoal.page_cache_dropped_before_each_epoch",
					     "shoal.read_threads_per_accelerator",
					     "shoal.in_flight_per_rank",
					     "shoal.prefetch_batches",
					     "shoal.order",
					     "shoal.seed",
					     "shoal.version",
					     "ranks",
					     "cores",
					     "workload",
					     "format",
					     "source",
					     "threads",
					     "files",
					     "epoch",
					     "engine",
					     "version",
					     "warm_up_seconds" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(path, names[i]) == 0)
			return true;
	return strncmp(path, "settings.", strlen("settings.")) == 0;
}

static int add_fact(struct figures *f, const char *key, const char *value)
{
	struct figures_fact *more;

	if (f->nr_facts == FACTS_MAX)
		return 0;
	more = reallocarray(f->facts, f->nr_facts + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	f->facts = more;
	more += f->nr_facts;
	*more = (struct figures_fact){ strdup(key), strdup(value) };
	if (!more->key || !more->value) { /* it is none: others are still looked up */
		free(more->key);
		free(more->value);
		return -ENOMEM;
	}
	f->nr_facts++;
	return 0;
}

/* What tells the kinds of results from each other. */
static void take_kind(struct figures *f, const struct json_value *v)
{
	if (strcmp(v->path, "shoal.workload") == 0)
		f->kind = FIGURES_RUN;
	else if (strcmp(v->path, "samples_per_second") == 0)
		f->kind = FIGURES_READ;
	else if (strcmp(v->path, "names_per_second") == 0)
		f->kind = FIGURES_INDEX;
	else if (strcmp(v->path, "files_per_second") == 0)
		f->kind = FIGURES_DATAGEN;
	if (strcmp(v->path, "shoal.partial") == 0 || strcmp(v->path, "interrupted") == 0)
		f->partial |= v->kind == JSON_TRUE;
	f->not_once |= strcmp(v->path, "audit.exactly_once") == 0 && v->kind == JSON_FALSE;
	if (strcmp(v->path, "shoal.version") == 0 || strcmp(v->path, "version") == 0)
		snprintf(f->version, sizeof(f->version), "%.31s", v->text);
}

static int take_figure(void *self, const struct json_value *v)
{
	struct figures_reader *r = self;
	const char *rest;
	uint64_t index;

	if (is_item(v->path, "shoal.phases.", &index, &rest)) {
		take_phase(r, index, rest, v);
		return 0;
	}
	if (is_item(v->path, "repeats.", &index, &rest)) {
		take_repeat(r, index, rest, v);
		return 0;
	}
	take_kind(r->f, v);
	for (size_t i = 0; i < FIGURE_NR; i++)
		if (table[i].once && strcmp(v->path, table[i].once) == 0)
			r->once[i] = v->number;
	return is_setting(v->path) ? add_fact(r->f, v->path, v->text) : 0;
}

int figures_parse(const char *text, size_t len, struct figures *ret, struct shoal_err *err)
{
	struct figures_reader r = { .f = ret };
	int rc;

	*ret = (struct figures){ .kind = FIGURES_NONE };
	for (size_t i = 0; i < FIGURE_NR; i++)
		r.once[i] = (double)NAN;
	end_phase(&r);
	rc = json_read(text, len, take_figure, &r, err);
	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory");
	if (rc < 0)
		return rc;
	end_phase(&r);
	for (size_t i = 0; i < FIGURE_NR; i++)
		if (ret->of[i].nr == 0)
			add_value(ret, (enum figure)i, r.once[i]);
	if (ret->kind == FIGURES_NONE)
		return err_set(err, -EBADMSG, "it is JSON, but not the results of a measurement");
	return 0;
}

const char *figures_command(enum figures_kind kind)
{
	static const char *const names[] = { [FIGURES_NONE] = "nothing",
					     [FIGURES_RUN] = "run",
					     [FIGURES_READ] = "read",
					     [FIGURES_INDEX] = "index",
					     [FIGURES_DATAGEN] = "datagen" };

	return names[kind];
}

void figures_average(struct figures *f)
{
	for (size_t i = 0; i < FIGURE_NR; i++) {
		struct figures_values *v = &f->of[i];

		if (v->nr == 0)
			continue;
		v->value[0] = stats_mean(v->value, v->nr);
		v->nr = 1;
	}
}

void figures_join(struct figures *f, const struct figures *more)
{
	for (size_t i = 0; i < FIGURE_NR; i++)
		for (size_t k = 0; k < more->of[i].nr && f->of[i].nr < FIGURES_MAX; k++)
			f->of[i].value[f->of[i].nr++] = more->of[i].value[k];
	f->partial |= more->partial;
	f->not_once |= more->not_once;
}

/* ---- Files ---- */

static int load_file(const char *path, struct figures *ret, struct shoal_err *err)
{
	struct map m = MAP_CLOSED;
	struct shoal_err why = { "" };
	int rc = map_open(path, &m, &why);

	if (rc < 0)
		return err_set(err, rc, "'%s': %s", path, why.msg);
	if (m.len > FIGURES_BYTES_MAX)
		rc = err_set(&why, -EFBIG, "it has %zu bytes: no results are that large", m.len);
	else if (m.len == 0)
		rc = err_set(&why, -EBADMSG, "the file is empty");
	else
		rc = figures_parse((const char *)m.addr, m.len, ret, &why);
	if (map_faulted(&m))
		rc = err_set(&why, -ESTALE, "it is being truncated");
	map_close(&m);
	return rc < 0 ? err_set(err, rc, "'%s': %s", path, why.msg) : 0;
}

/* The keys of a workload, as "dataset.format". @path has room for FACT_PATH_MAX. */
#define FACT_PATH_MAX 512
static int add_yaml(struct figures *f, const struct yaml_node *node, char *path, size_t len)
{
	uint64_t i = 0;
	int rc = node->kind == YAML_SCALAR ? add_fact(f, path, node->text ? node->text : "") : 0;

	for (const struct yaml_node *c = node->child; rc == 0 && c; c = c->next, i++) {
		size_t room = FACT_PATH_MAX - len;
		const char *dot = len > 0 ? "." : "";
		int n = c->key ? snprintf(path + len, room, "%s%s", dot, c->key)
			       : snprintf(path + len, room, "%s%" PRIu64, dot, i);

		if (n > 0 && (size_t)n < room)
			rc = add_yaml(f, c, path, len + (size_t)n);
		path[len] = '\0';
	}
	return rc;
}

/* What a run was told, as it resolved it. Without it there are fewer facts. */
static int load_config(const char *folder, struct figures *ret, struct shoal_err *err)
{
	char file[4096], path[FACT_PATH_MAX] = "";
	struct yaml_node *root = NULL;
	struct map m = MAP_CLOSED;
	struct shoal_err why = { "" };
	int rc = path_join(folder, run_file_name(RUN_FILE_EFFECTIVE), file, sizeof(file), err);

	if (rc < 0)
		return rc;
	rc = map_open(file, &m, &why);
	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return err_set(err, rc, "'%s': %s", file, why.msg);
	/* Half a file would look like settings that differ. */
	if (m.len > YAML_BYTES_MAX)
		rc = err_set(err, -EFBIG, "'%s' has %zu bytes: no workload is that large", file,
			     m.len);
	else
		rc = yaml_parse((const char *)m.addr, m.len, file, false, &root, err);
	if (rc == 0 && map_faulted(&m))
		rc = err_set(err, -ESTALE, "'%s' is being truncated", file);
	if (rc == 0 && add_yaml(ret, root, path, 0) < 0)
		rc = err_set(err, -ENOMEM, "out of memory");
	yaml_free(root);
	map_close(&m);
	return rc;
}

int figures_load(const char *path, struct figures *ret, struct shoal_err *err)
{
	static const enum run_file names[] = { RUN_FILE_SUMMARY, RUN_FILE_READ, RUN_FILE_INDEX,
					       RUN_FILE_DATAGEN };
	char file[4096];
	struct stat st;
	int rc;

	*ret = (struct figures){ .kind = FIGURES_NONE };
	if (stat(path, &st) < 0)
		return err_set_errno(err, err_errno(), "'%s'", path);
	if (!S_ISDIR(st.st_mode))
		return load_file(path, ret, err);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		rc = path_join(path, run_file_name(names[i]), file, sizeof(file), err);
		if (rc < 0)
			return rc;
		if (stat(file, &st) == 0) {
			rc = load_file(file, ret, err);
			return rc < 0 ? rc : load_config(path, ret, err);
		}
		if (errno != ENOENT)
			return err_set_errno(err, err_errno(), "'%s'", file);
	}
	rc = path_join(path, run_file_name(RUN_FILE_PLAN), file, sizeof(file), err);
	if (rc < 0)
		return rc;
	if (stat(file, &st) == 0)
		return err_set(err, -ENOENT,
			       "'%s' has a sweep, not the results of one command; 'shoal report' "
			       "shows it, also beside others",
			       path);
	return err_set(err, -ENOENT,
		       "'%s' has no results of run, read, index or datagen; a run that was killed "
		       "has none until it is resumed",
		       path);
}

void figures_release(struct figures *f)
{
	for (size_t i = 0; i < f->nr_facts; i++) {
		free(f->facts[i].key);
		free(f->facts[i].value);
	}
	free(f->facts);
	f->facts = NULL;
	f->nr_facts = 0;
}
