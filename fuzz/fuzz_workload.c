/*
 * Any bytes as a workload, and behind a NUL any texts as overrides: refused with words, or a
 * workload whose resolved file loads to the same, and whose names, sizes and plan can be asked for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datagen/datasize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OVERRIDES_MAX 8

static void check_files(const struct workload *w)
{
	uint64_t nr = workload_nr_files(w, false), id = 0;
	struct datasize_result s;
	struct datasize_plan plan;
	char name[WORKLOAD_NAME_MAX];

	if (workload_file_at(w, false, nr - 1, &id) < 0 ||
	    workload_file_name(w, false, id, name, sizeof(name)) <= 0)
		abort();
	if (workload_file_size(w, false, id) > workload_file_size_max(w))
		abort();
	if (!(workload_time_draw(&w->train.computation_time, id) >= 0))
		abort();
	(void)!datasize_plan(w, 24, &plan, NULL);
	(void)!datasize_compute(w, &(struct datasize_cluster){ 2, UINT64_C(1) << 38, 24 }, &s,
				NULL);
}

static void check_workload(const struct workload *w)
{
	struct workload *again = NULL;
	struct shoal_err err = { "" };

	if (workload_parse(w->yaml, strlen(w->yaml), "again", NULL, 0, NULL, NULL, &again, &err) <
		    0 ||
	    strcmp(w->yaml, again->yaml) != 0) {
		fprintf(stderr, "%s\n%s\n", w->yaml, again ? again->yaml : err.msg);
		abort();
	}
	workload_free(again);
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
	struct workload *w = NULL;
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
	rc = workload_parse(text, len, "w", overrides, nr, ignore, NULL, &w, &err);
	if (rc > 0 || (rc < 0 && !err.msg[0]) || (rc == 0) != (w != NULL))
		abort();
	/* A text that says "${" again, from the environment, is not kept as it is. */
	if (w && !strstr(w->yaml, "${"))
		check_workload(w);
	workload_free(w);
	free(text);
	return 0;
}
