/*
 * Any bytes as a workload, and behind a NUL any texts as overrides: refused with words, or a
 * workload whose resolved file loads to the same, and whose names, sizes and plan can be asked for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/datasize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OVERRIDES_MAX 8

static void check_files(const struct bench_workload *w)
{
	uint64_t nr = bench_nr_files(w, false), id = 0, position = 0;
	struct bench_datasize s;
	struct bench_plan plan;
	char name[BENCH_NAME_MAX];

	if (bench_file_at(w, false, nr - 1, &id) < 0 ||
	    bench_file_position(w, false, id, &position) < 0 || position != nr - 1 ||
	    bench_file_name(w, false, id, name, sizeof(name)) <= 0)
		abort();
	if (bench_file_size(w, false, id) > bench_file_size_max(w))
		abort();
	if (!(bench_time_draw(&w->train.computation_time, id) >= 0))
		abort();
	(void)!bench_plan(w, 24, &plan, NULL);
	(void)!bench_datasize(w, &(struct bench_cluster){ 2, UINT64_C(1) << 38, 24 }, &s, NULL);
}

static void check_workload(const struct bench_workload *w)
{
	struct bench_workload *again = NULL;
	struct shoal_err err = { "" };

	if (bench_workload_parse(w->yaml, strlen(w->yaml), "again", NULL, 0, NULL, NULL, &again,
				 &err) < 0 ||
	    strcmp(w->yaml, again->yaml) != 0) {
		fprintf(stderr, "%s\n%s\n", w->yaml, again ? again->yaml : err.msg);
		abort();
	}
	bench_workload_free(again);
	check_files(w);
}

static void ignore(void *self, const char *words)
{
	(void)self;
	if (!words[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *overrides[OVERRIDES_MAX];
	struct bench_workload *w = NULL;
	struct shoal_err err = { "" };
	size_t nr = 0, len;
	int rc;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	len = strlen(text);
	for (size_t at = len + 1; at < size && nr < OVERRIDES_MAX; at += strlen(text + at) + 1)
		overrides[nr++] = text + at;
	rc = bench_workload_parse(text, len, "w", overrides, nr, ignore, NULL, &w, &err);
	if (rc > 0 || (rc < 0 && !err.msg[0]) || (rc == 0) != (w != NULL))
		abort();
	/* A text that says "${" again, from the environment, is not kept as it is. */
	if (w && !strstr(w->yaml, "${"))
		check_workload(w);
	bench_workload_free(w);
	free(text);
	return 0;
}
