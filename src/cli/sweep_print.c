#include "cli/sweep_print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

void sweep_values_words(const struct sweep_plan *plan, size_t point, char *buf, size_t cap)
{
	size_t len = 0;

	*buf = '\0';
	for (size_t i = 0; i < plan->nr_parameters && len < cap; i++)
		len += (size_t)snprintf(buf + len, cap - len, "%s%s %s", i ? ", " : "",
					plan->parameter[i].name, sweep_value(plan, point, i));
}

void sweep_print_json(const struct sweep_result *r)
{
	struct json j = cli_json();

	json_open_object(&j, NULL);
	sweep_put_result(r, &j);
	json_close_object(&j);
}

/* ---- Text ---- */

static void sweep_put_number(FILE *out, double v, int width, int digits)
{
	if (isnan(v))
		fprintf(out, " %*s", width, "-");
	else
		fprintf(out, " %*.*f", width, digits, v);
}

/* The widest of a parameter's name and values. */
static int sweep_width_of(const struct sweep_parameter *p)
{
	size_t width = strlen(p->name);

	for (size_t i = 0; i < p->nr; i++)
		if (strlen(p->value[i]) > width)
			width = strlen(p->value[i]);
	return (int)width;
}

static void sweep_put_head(FILE *out, const struct sweep_plan *plan)
{
	for (size_t i = 0; i < plan->nr_parameters; i++)
		fprintf(out, "%*s ", sweep_width_of(&plan->parameter[i]), plan->parameter[i].name);
	fprintf(out, "%4s %11s %11s %11s %9s %9s %9s %6s %11s\n", "runs", "samples/s", "lowest",
		"highest", "MB/s", "p50 ms", "p99 ms", "cores", "client's");
}

static void sweep_put_row(FILE *out, const struct sweep_result *r, size_t at)
{
	const struct sweep_point *p = &r->points[at];
	const struct stats_spread *rate = &p->figure[SWEEP_SAMPLES];

	for (size_t i = 0; i < r->plan->nr_parameters; i++)
		fprintf(out, "%*s ", sweep_width_of(&r->plan->parameter[i]),
			sweep_value(r->plan, at, i));
	fprintf(out, "%4zu", p->nr);
	sweep_put_number(out, rate->median, 11, 0);
	sweep_put_number(out, rate->lowest, 11, 0);
	sweep_put_number(out, rate->highest, 11, 0);
	sweep_put_number(out, p->figure[SWEEP_BYTES].median * 1e-6, 9, 1);
	sweep_put_number(out, p->figure[SWEEP_P50].median, 9, 3);
	sweep_put_number(out, p->figure[SWEEP_P99].median, 9, 3);
	sweep_put_number(out, p->figure[SWEEP_CPU].median, 6, 2);
	sweep_put_number(out, p->ceiling, 11, 0);
	fprintf(out, "%s%s%s%s%s%s\n", p->knee ? "  knee" : "", p->client ? "  client: " : "",
		p->client ? p->client : "", sweep_from_memory(p) ? "  page cache" : "",
		p->error[0] ? "  failed: " : "", p->error);
}

static void sweep_put_knees(FILE *out, const struct sweep_result *r)
{
	const struct sweep_plan *plan = r->plan;
	char words[512];

	for (size_t c = 0; c < r->nr_curves; c++) {
		sweep_knee_words(r, c, words, sizeof(words));
		if (plan->nr_parameters > 1)
			fprintf(out, "knee      with %s %s: %s\n", plan->parameter[1].name,
				plan->parameter[1].value[c], words);
		else
			fprintf(out, "knee      %s\n", words);
	}
}

void sweep_print_text(const struct sweep_result *r, const char *folder)
{
	size_t nr_client = 0, nr_memory = 0;

	sweep_put_head(stdout, r->plan);
	for (size_t i = 0; i < sweep_nr_points(r->plan); i++) {
		sweep_put_row(stdout, r, i);
		nr_client += r->points[i].client != NULL;
		nr_memory += sweep_from_memory(&r->points[i]);
	}
	sweep_put_knees(stdout, r);
	if (nr_client > 0)
		printf("client    at %zu point%s the client is the limit, not the storage: these "
		       "do not measure the storage\n",
		       nr_client, plural(nr_client));
	if (nr_memory > 0)
		printf("memory    at %zu point%s most bytes came from the page cache, not from the "
		       "storage: --drop-cache or --direct reads the storage\n",
		       nr_memory, plural(nr_memory));
	if (r->nr_done < r->nr_jobs)
		printf("part      %zu of %zu measurements were made\n", r->nr_done, r->nr_jobs);
	printf("report    %s/report.html\n", folder);
}
