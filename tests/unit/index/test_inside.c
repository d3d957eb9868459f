/* Goal: whoever wants a pass over the insides of files to end does not wait for the files that its
 * threads have taken. */
#include "index/inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "help.h"

#define NAMES   300
#define THREADS 8u

/* A store of files that take long to read. The first read asks for the end. */
struct slow {
	struct store base;
	int stop;
	unsigned nr_reads; /* atomic, as stop */
};

static int64_t slow_read(struct store *s, const char *name, uint64_t off, void *buf, size_t len,
			 struct shoal_err *err)
{
	struct slow *slow = (struct slow *)s;

	(void)name, (void)off, (void)err;
	__atomic_add_fetch(&slow->nr_reads, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&slow->stop, 1, __ATOMIC_RELAXED);
	clock_pause_us(200000);
	memset(buf, '\n', len);
	return (int64_t)len;
}

static const struct store_ops slow_ops = { .kind = "slow", .read = slow_read };

static void write_names(const char *path)
{
	struct shoal_writer_options o = { .root = TEST_ROOT, .sizes = true };
	struct shoal_writer *w = NULL;
	char name[32];

	assert_int_equal(shoal_writer_open(path, &o, &w, NULL), 0);
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "%04d.jsonl", i);
		assert_int_equal(shoal_writer_add(w, name, strlen(name), 1000, 1, NULL), 0);
	}
	assert_int_equal(shoal_writer_seal(w, NULL), 0);
}

static void a_pass_ends_after_the_files_that_are_being_read(void **state)
{
	char uri[] = TEST_ROOT;
	struct slow slow = { .base = { .ops = &slow_ops, .uri = uri } };
	struct shoal_index_options io = { .samples = "jsonl", .stop = &slow.stop };
	struct index_inside in = { .options = &io, .store = &slow.base, .nr_threads = THREADS };
	struct shoal_writer_options wo = { .root = TEST_ROOT, .sizes = true, .extents = true };
	struct shoal_index_result result = { 0 };
	struct shoal_writer *to = NULL;
	struct shoal_err err = { "" };
	struct shoal_catalog *names;

	(void)state;
	write_names(test_path("n.cat"));
	names = catalog_open(test_path("n.cat"));
	assert_int_equal(shoal_writer_open(test_path("x.cat"), &wo, &to, NULL), 0);
	assert_int_equal(index_inside_run(&in, names, to, &result, &err), -ECANCELED);
	assert_string_equal(err.msg, "interrupted");
	assert_in_range(slow.nr_reads, 1, 3 * THREADS); /* they had taken four files each */
	shoal_writer_abort(to);
	shoal_catalog_close(names);
	unlink(test_path("n.cat"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pass_ends_after_the_files_that_are_being_read),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
