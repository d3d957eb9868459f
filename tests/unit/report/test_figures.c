/*
 * Goal: the figures of results come back with one value per epoch or repeat; interrupted epochs and
 * evaluations do not count; results that are damaged, foreign or missing are refused with a reason.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"
#include "report/figures.h"

static const char run_text[] =
	"{\"num_accelerators\": 2, \"shoal\": {\"version\": \"9.9\", \"workload\": \"w\","
	"\"partial\": false, \"engine\": \"uring\", \"phases\": ["
	"{\"epoch\": 1, \"kind\": \"train\", \"partial\": false, \"au_percentage\": 90,"
	" \"throughput_samples_per_second\": 100, \"latency_us\": {\"total\": {\"p50\": 2000}},"
	" \"audit\": {\"exactly_once\": true, \"cached_share\": null}},"
	"{\"epoch\": 1, \"kind\": \"eval\", \"au_percentage\": 10},"
	"{\"epoch\": 2, \"kind\": \"train\", \"partial\": false, \"au_percentage\": 92,"
	" \"throughput_samples_per_second\": 110},"
	"{\"epoch\": 3, \"kind\": \"train\", \"partial\": true, \"au_percentage\": 1}]}}";

static void whole_epochs_of_training_count(void **state)
{
	struct figures *f = malloc(sizeof(*f));

	(void)state;
	assert_non_null(f);
	assert_int_equal(figures_parse(run_text, strlen(run_text), f, NULL), 0);
	assert_int_equal(f->kind, FIGURES_RUN);
	assert_int_equal(f->of[FIGURE_AU].nr, 2);
	assert_true(f->of[FIGURE_AU].value[1] == 92 && f->of[FIGURE_SAMPLES].value[0] == 100);
	assert_int_equal(f->of[FIGURE_P50].nr, 1);
	assert_true(fabs(f->of[FIGURE_P50].value[0] - 2) < 1e-12);
	assert_int_equal(f->of[FIGURE_CACHED].nr, 0);
	assert_string_equal(f->version, "9.9");
	assert_int_equal(f->nr_facts, 4);
	assert_string_equal(f->facts[3].key, "shoal.engine");
	assert_string_equal(f->facts[3].value, "uring");
	assert_false(f->partial || f->not_once);
	figures_release(f);
	free(f);
}

static void results_cut_anywhere_are_refused(void **state)
{
	struct figures *f = malloc(sizeof(*f));

	(void)state;
	assert_non_null(f);
	for (size_t n = 0; n < strlen(run_text); n++) {
		struct shoal_err err = { "" };

		assert_int_equal(figures_parse(run_text, n, f, &err), -EBADMSG);
		assert_true(err.msg[0] != '\0');
		figures_release(f);
	}
	assert_int_equal(figures_parse("{\"a\": 1}", 8, f, NULL), -EBADMSG);
	figures_release(f);
	free(f);
}

static void folders_without_results_are_named(void **state)
{
	struct figures *f = malloc(sizeof(*f));
	char folder[] = "/tmp/test-figures-XXXXXX", path[64];
	struct shoal_err err = { "" };
	FILE *file;

	(void)state;
	assert_non_null(f);
	assert_non_null(mkdtemp(folder));
	assert_int_equal(figures_load(folder, f, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "killed"));
	snprintf(path, sizeof(path), "%s/summary.json", folder);
	assert_int_equal(figures_load(path, f, &err), -ENOENT);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(figures_load(folder, f, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "empty"));
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(run_text, file);
	fclose(file);
	assert_int_equal(figures_load(folder, f, &err), 0);
	figures_release(f);
	unlink(path);
	rmdir(folder);
	free(f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_epochs_of_training_count),
		cmocka_unit_test(results_cut_anywhere_are_refused),
		cmocka_unit_test(folders_without_results_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
