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

/* After those of the parameters. Left out first is what only explains. */
static const struct text_column figure_columns[] = {
	{ "runs", 4, 8 },      { "samples/s", 11, 0 }, { "lowest", 11, 6 }, { "highest", 11, 6 },
	{ "MB/s", 9, 4 },      { "p50 ms", 9, 3 },     { "p99 ms", 9, 2 },  { "cores", 6, 5 },
	{ "client's", 11, 7 }, { "", -1, 0 },
};

static void sweep_put_number(char *cell, double v, int digits)
{
	if (isnan(v))
		snprintf(cell, TEXT_TABLE_CELL, "-");
	else
		snprintf(cell, TEXT_TABLE_CELL, "%.*f", digits, v);
}

static void sweep_put_rate(char *cell, double v)
{
	snprintf(cell, TEXT_TABLE_CELL, "%s", isnan(v) ? "-" : rate_in_words(v).text);
}

/* What the reader must know about the point. */
static void sweep_put_marks(char *cell, const struct sweep_point *p)
{
	int len = snprintf(cell, TEXT_TABLE_CELL, "%s%s%s%s%s%s", p->knee ? "knee  " : "",
			   p->client ? "client: " : "", p->client ? p->client : "",
			   sweep_from_memory(p) ? p->client ? "  page cache" : "page cache" : "",
			   !p->error[0]                        ? ""
			   : p->client || sweep_from_memory(p) ? "  failed: "
							       : "failed: ",
			   p->error);

	if (len >= TEXT_TABLE_CELL)
		text_mark_truncated(cell);
}

static void sweep_fill_row(const void *self, size_t row, char (*cell)[TEXT_TABLE_CELL])
{
	const struct sweep_result *r = self;
	const struct sweep_point *p = &r->points[row];
	const struct stats_spread *rate = &p->figure[SWEEP_SAMPLES];

	for (size_t i = 0; i < r->plan->nr_parameters; i++)
		snprintf(*cell++, TEXT_TABLE_CELL, "%s", sweep_value(r->plan, row, i));
	snprintf(cell[0], TEXT_TABLE_CELL, "%zu", p->nr);
	sweep_put_rate(cell[1], rate->median);
	sweep_put_rate(cell[2], rate->lowest);
	sweep_put_rate(cell[3], rate->highest);
	sweep_put_number(cell[4], p->figure[SWEEP_BYTES].median * 1e-6, 1);
	sweep_put_number(cell[5], p->figure[SWEEP_P50].median, 3);
	sweep_put_number(cell[6], p->figure[SWEEP_P99].median, 3);
	sweep_put_number(cell[7], p->figure[SWEEP_CPU].median, 2);
	sweep_put_rate(cell[8], p->ceiling);
	sweep_put_marks(cell[9], p);
}

static void sweep_put_points(const struct sweep_result *r)
{
	struct text_column columns[SWEEP_PARAMETERS + ARRAY_LEN(figure_columns)];
	size_t nr = r->plan->nr_parameters;

	for (size_t i = 0; i < nr; i++)
		columns[i] = (struct text_column){ r->plan->parameter[i].name, 1, 0 };
	memcpy(columns + nr, figure_columns, sizeof(figure_columns));
	cli_put_table(&(struct text_table){ .columns = columns,
					    .nr_columns = nr + ARRAY_LEN(figure_columns),
					    .nr_rows = sweep_nr_points(r->plan),
					    .fill = sweep_fill_row,
					    .self = r });
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

static void sweep_put_notes(FILE *out, const struct sweep_result *r, const char *folder)
{
	size_t nr_client = 0, nr_memory = 0;

	for (size_t i = 0; i < sweep_nr_points(r->plan); i++) {
		nr_client += r->points[i].client != NULL;
		nr_memory += sweep_from_memory(&r->points[i]);
	}
	if (nr_client > 0)
		fprintf(out,
			"client    at %zu point%s the client is the limit, not the storage: these "
			"do not measure the storage\n",
			nr_client, plural(nr_client));
	if (nr_memory > 0)
		fprintf(out,
			"memory    at %zu point%s most bytes came from the page cache, not from the "
			"storage: --drop-cache or --direct reads the storage\n",
			nr_memory, plural(nr_memory));
	if (r->nr_done < r->nr_jobs)
		fprintf(out, "part      %zu of %zu measurements were made\n", r->nr_done,
			r->nr_jobs);
	fprintf(out, "report    %s/report.html\n", folder);
}

void sweep_print_text(const struct sweep_result *r, const char *folder)
{
	struct cli_text t;
	FILE *out = cli_text_open(&t);

	sweep_put_points(r);
	if (!out)
		return;
	sweep_put_knees(out, r);
	sweep_put_notes(out, r, folder);
	cli_text_print(&t, out, true, CLI_LABEL_COLUMNS);
}
