/*
 * Goal: whatever is in a results folder, the page that is made of it is whole, bounded, and nothing
 * in the results can become part of the page's code.
 */
#include "report/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"
#include "report/outputs.h"

static const char rank_file[] =
	"{\n\"hostname\": \"v\\\"m\",\n\"host_cpuinfo\": {\"flags\": \"[{\", \"n\": [1, [2], {}]},\n"
	"\"1\": {\"load\": {\"block1\": [0.001, 2e-3, 0.5]}, \"proc\": {\"block1\": [0.1, 0.2, 0.3]},"
	" \"au\": {\"block1\": 83.5}},\n"
	"\"2\": {\"load\": {\"block1\": [], \"block2\": [0.25]}, \"proc\": {\"block2\": [1.5]}}\n}\n";

static void write_file(const char *name, const char *text, size_t len)
{
	FILE *f = fopen(test_path(name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static int make_results(void **state)
{
	(void)state;
	return mkdir(test_path("res"), 0777);
}

static int remove_results(void **state)
{
	static const char *const file[] = { "res/0_output.json", "res/1_output.json",
					    "res/summary.json", "page.html" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(file); i++)
		(void)!unlink(test_path(file[i]));
	return rmdir(test_path("res"));
}

static void put_bytes(void *self, const void *bytes, size_t len)
{
	assert_int_equal(fwrite(bytes, 1, len, self), len);
}

/* The steps of the folder as JSON text, which the caller frees. */
static char *steps_text(unsigned *ret_damaged)
{
	struct shoal_err err = { "" };
	struct outputs *o = NULL;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	unsigned first;
	struct json j = { .put = put_bytes, .self = f };

	assert_int_equal(outputs_read(test_path("res"), &o, &err), 0);
	*ret_damaged = outputs_damaged(o, &first);
	outputs_put(o, &j, NULL);
	fclose(f);
	outputs_free(o);
	return text;
}

static void steps_of_all_ranks_are_read_whatever_else_their_files_hold(void **state)
{
	static const char want[] =
		"{\"ranks\": 2, \"epochs\": [{\"epoch\": 1, \"width\": 1, "
		"\"step_seconds\": [0.1, 0.2, 0.3], \"wait_mean_ms\": [1.0, 2.0, 500.0], "
		"\"wait_max_ms\": [1.0, 2.0, 500.0], \"worst_rank\": [0, 0, 0]}, {\"epoch\": 2, \"width\": 1, "
		"\"step_seconds\": [1.5], \"wait_mean_ms\": [250.0], \"wait_max_ms\": [250.0], "
		"\"worst_rank\": [0]}], \"heat_ms\": [[1.0, 2.0, 500.0, 250.0], "
		"[1.0, 2.0, 500.0, 250.0]]}\n";
	unsigned damaged;
	char *text;

	(void)state;
	write_file("res/0_output.json", rank_file, strlen(rank_file));
	write_file("res/1_output.json", rank_file, strlen(rank_file));
	text = steps_text(&damaged);
	assert_string_equal(text, want);
	assert_int_equal(damaged, 0);
	free(text);
}

static void a_truncated_file_is_noticed_and_read_up_to_there(void **state)
{
	(void)state;
	for (size_t cut = 0; cut < strlen(rank_file) - 2; cut++) {
		unsigned damaged;

		write_file("res/0_output.json", rank_file, cut);
		free(steps_text(&damaged));
		assert_int_equal(damaged, 1);
	}
}

static void a_long_epoch_takes_a_bounded_number_of_intervals(void **state)
{
	enum { STEPS = 100000 };
	FILE *f = fopen(test_path("res/0_output.json"), "w");
	unsigned damaged;
	char *text;

	(void)state;
	fputs("{\"7\": {\"load\": {\"block1\": [", f);
	for (int i = 0; i < STEPS; i++)
		fprintf(f, "%s%s", i ? ", " : "", i == 77777 ? "9.0" : "0.001");
	fputs("]}, \"proc\": {\"block1\": [", f);
	for (int i = 0; i < STEPS; i++)
		fprintf(f, "%s0.5", i ? ", " : "");
	fputs("]}}}", f);
	fclose(f);
	text = steps_text(&damaged);
	assert_int_equal(damaged, 0);
	assert_non_null(strstr(text, "\"width\": 128, "));
	assert_non_null(strstr(text, "9000")); /* the one long wait is still there */
	assert_null(strstr(text, "0.4"));      /* means stay means */
	assert_true(strlen(text) < 64 * 1024);
	free(text);
}

static char *page_text(struct shoal_err *err)
{
	const char *folder = test_path("res");
	char *path = strdup(test_path("page.html"));
	char *text = calloc(1, 1 << 20);
	FILE *f;
	int rc = report_page_write(&folder, 1, path, 0, err);

	f = fopen(path, "r");
	free(path);
	if (rc < 0) {
		assert_null(f);
		free(text);
		return NULL;
	}
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 50000);
	fclose(f);
	return text;
}

static void nothing_in_the_results_ends_the_script_that_holds_them(void **state)
{
	static const char summary[] = "{\"hostname\": \"</script><b>&'\xff\"}";
	struct shoal_err err = { "" };
	char *text;

	(void)state;
	write_file("res/summary.json", summary, strlen(summary));
	text = page_text(&err);
	assert_non_null(text);
	assert_null(strstr(text, "<b>&'"));
	assert_non_null(strstr(text, "\\u003c/script>\\u003cb>&'"));
	assert_non_null(strstr(text, "</html>"));
	free(text);
}

static void a_folder_without_results_makes_no_page(void **state)
{
	struct shoal_err err = { "" };

	(void)state;
	assert_null(page_text(&err));
	assert_non_null(strstr(err.msg, "has no results"));
	assert_int_equal(rmdir(test_path("res")), 0);
	assert_null(page_text(&err));
	assert_non_null(strstr(err.msg, "does not exist"));
	assert_int_equal(mkdir(test_path("res"), 0777), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			steps_of_all_ranks_are_read_whatever_else_their_files_hold, make_results,
			remove_results),
		cmocka_unit_test_setup_teardown(a_truncated_file_is_noticed_and_read_up_to_there,
						make_results, remove_results),
		cmocka_unit_test_setup_teardown(a_long_epoch_takes_a_bounded_number_of_intervals,
						make_results, remove_results),
		cmocka_unit_test_setup_teardown(
			nothing_in_the_results_ends_the_script_that_holds_them, make_results,
			remove_results),
		cmocka_unit_test_setup_teardown(a_folder_without_results_makes_no_page,
						make_results, remove_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
