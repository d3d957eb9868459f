#include "sweep/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"
#include "base/map.h"
#include "base/stats.h"
#include "report/figures.h"
#include "report/write.h"

static const char *const names[SWEEP_NR_FIGURES] = {
	[SWEEP_SAMPLES] = "samples_per_second",
	[SWEEP_BYTES] = "bytes_per_second",
	[SWEEP_P50] = "p50_ms",
	[SWEEP_P99] = "p99_ms",
	[SWEEP_CPU] = "cpu_cores",
	[SWEEP_CORES] = "cores",
	[SWEEP_CLIENT_CPU] = "cpu_cores_usable",
	[SWEEP_CACHED] = "cached_percent",
};

const char *sweep_figure_name(enum sweep_figure f)
{
	return names[f];
}

/* ---- From the output of a command ---- */

static double mean_of(const struct figures *f, enum figure which)
{
	return stats_mean(f->of[which].value, f->of[which].nr);
}

static double fact_of(const struct figures *f, const char *read, const char *run)
{
	const char *text = figures_fact(f, read);

	text = text ? text : figures_fact(f, run);
	return text ? strtod(text, NULL) : (double)NAN;
}

/* Of rings whose number was given, each of which is worked by one thread. Otherwise the engine
 * decides as it goes: NAN. */
static double usable_cores(const struct figures *f)
{
	const char *engine = figures_fact(f, "engine");
	double threads = fact_of(f, "settings.threads", "settings.threads");

	engine = engine ? engine : figures_fact(f, "shoal.engine");
	if (!engine || strcmp(engine, "uring") != 0 || !(threads >= 1))
		return (double)NAN;
	return threads * fact_of(f, "ranks", "shoal.ranks");
}

static void record_take_figures(const struct figures *f, struct sweep_record *r)
{
	r->figure[SWEEP_SAMPLES] = mean_of(f, FIGURE_SAMPLES);
	r->figure[SWEEP_BYTES] = mean_of(f, FIGURE_BYTES);
	r->figure[SWEEP_P50] = mean_of(f, FIGURE_P50);
	r->figure[SWEEP_P99] = mean_of(f, FIGURE_P99);
	r->figure[SWEEP_CPU] = mean_of(f, FIGURE_CPU) * 1e-6 * r->figure[SWEEP_SAMPLES];
	r->figure[SWEEP_CORES] = fact_of(f, "cores", "shoal.cores");
	r->figure[SWEEP_CLIENT_CPU] = usable_cores(f);
	r->figure[SWEEP_CACHED] = mean_of(f, FIGURE_CACHED);
}

void sweep_take_output(const char *text, size_t len, double ranks, struct sweep_record *ret)
{
	struct figures *f = malloc(sizeof(*f));
	struct shoal_err err = { "" };
	double had;
	int rc;

	*ret = (struct sweep_record){ .there = true };
	if (!f) {
		snprintf(ret->error, sizeof(ret->error), "out of memory");
		return;
	}
	rc = figures_parse(text, len, f, &err);
	record_take_figures(f, ret);
	had = fact_of(f, "ranks", "shoal.ranks");
	if (rc < 0)
		snprintf(ret->error, sizeof(ret->error), "its output cannot be read: %.200s",
			 err.msg);
	else if (f->partial)
		snprintf(ret->error, sizeof(ret->error), "it was interrupted");
	else if (f->not_once)
		snprintf(ret->error, sizeof(ret->error), "not every sample was read exactly once");
	else if (!(ret->figure[SWEEP_SAMPLES] > 0))
		snprintf(ret->error, sizeof(ret->error), "it measured nothing");
	else if (had < ranks || had > ranks)
		snprintf(ret->error, sizeof(ret->error), "the launcher started %.0f rank%s", had,
			 had > 1 ? "s" : "");
	figures_release(f);
	free(f);
}

/* ---- Files ---- */

static void record_name(const struct sweep_job *job, char buf[32])
{
	snprintf(buf, 32, "jobs/%05zu.json", job->number);
}

int sweep_record_write(const char *folder, const struct sweep_plan *plan,
		       const struct sweep_job *job, const struct sweep_record *r,
		       struct shoal_err *err)
{
	struct report_file f;
	char name[32];
	struct json j;
	int rc;

	record_name(job, name);
	rc = report_file_open(&f, folder, name, err);
	if (rc < 0)
		return rc;
	j = report_json(&f);
	json_open_object(&j, NULL);
	json_u64(&j, "job", job->number);
	json_u64(&j, "repeat", job->repeat);
	json_bool(&j, "ceiling", job->ceiling);
	json_open_object(&j, "values");
	for (size_t i = 0; i < plan->nr_parameters; i++)
		json_string(&j, plan->parameter[i].name, sweep_value(plan, job->point, i));
	json_close_object(&j);
	for (size_t i = 0; i < SWEEP_NR_FIGURES; i++)
		json_real(&j, names[i], r->figure[i], 12);
	json_string(&j, "error", r->error[0] ? r->error : NULL);
	json_close_object(&j);
	return report_file_commit(&f, err);
}

struct record_reader {
	const struct sweep_job *job;
	struct sweep_record *r;
	bool own; /* it has the number of this job */
};

static int take_record(void *self, const struct json_value *v)
{
	struct record_reader *x = self;

	if (strcmp(v->path, "job") == 0)
		x->own = v->number >= (double)x->job->number && v->number <= (double)x->job->number;
	if (strcmp(v->path, "error") == 0 && v->kind == JSON_STRING)
		snprintf(x->r->error, sizeof(x->r->error), "%.255s", v->text);
	for (size_t i = 0; i < SWEEP_NR_FIGURES; i++)
		if (strcmp(v->path, names[i]) == 0)
			x->r->figure[i] = v->number;
	return 0;
}

void sweep_record_read(const char *folder, const struct sweep_job *job, struct sweep_record *ret)
{
	struct record_reader x = { .job = job, .r = ret };
	char path[4096], name[32];
	struct map m = MAP_CLOSED;

	*ret = (struct sweep_record){ 0 };
	for (size_t i = 0; i < SWEEP_NR_FIGURES; i++)
		ret->figure[i] = (double)NAN;
	record_name(job, name);
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path) ||
	    map_open(path, &m, NULL) < 0)
		return;
	ret->there = json_read((const char *)m.addr, m.len, take_record, &x, NULL) == 0 &&
		     !map_faulted(&m) && x.own && (ret->error[0] || ret->figure[SWEEP_SAMPLES] > 0);
	map_close(&m);
}
