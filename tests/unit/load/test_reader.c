/*
 * Goal: single samples come with the bytes that the store has, many at once or one by one; what
 * cannot be read is named; and the reader works on both sides of a fork.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "help.h"

#define FILES 30u

static struct shoal_catalog *whole, *sizeless, *records;

static uint64_t size_of(uint64_t i)
{
	return i % 3 == 0 ? 0 : i * 1000 + i % 7;
}

static uint8_t byte_at(uint64_t i, uint64_t off)
{
	return (uint8_t)(i * 31 + off * 7 + (off >> 8));
}

static const char *name_of(uint64_t i)
{
	static char name[32];

	snprintf(name, sizeof(name), "f%03" PRIu64, i);
	return name;
}

static void put(uint64_t i, uint64_t size)
{
	uint8_t *bytes = allocate(size, 1);

	for (uint64_t k = 0; k < size; k++)
		bytes[k] = byte_at(i, k);
	file_write(test_path(name_of(i)), bytes, size);
	free(bytes);
}

static struct shoal_catalog *make_catalog(bool sizes, uint64_t samples_per_file)
{
	struct test_list l = { 0 };
	struct shoal_catalog *cat;

	for (uint64_t i = 0; i < FILES; i++)
		list_add(&l, name_of(i), strlen(name_of(i)), size_of(i), samples_per_file);
	cat = catalog_of(&l, sizes, samples_per_file);
	list_release(&l);
	return cat;
}

static int make_files(void **state)
{
	if (test_dir_make(state) < 0)
		return -1;
	whole = make_catalog(true, 1);
	sizeless = make_catalog(false, 1);
	records = make_catalog(true, 4);
	for (uint64_t i = 0; i < FILES; i++)
		put(i, size_of(i));
	return 0;
}

static int remove_files(void **state)
{
	whole = shoal_catalog_close(whole);
	sizeless = shoal_catalog_close(sizeless);
	records = shoal_catalog_close(records);
	test_dir_empty();
	return test_dir_remove(state);
}

static struct shoal_reader *reader_of(const struct shoal_catalog *cat, const char *store)
{
	struct shoal_reader *r = NULL;
	struct shoal_err err = { "" };

	if (shoal_reader_open(cat, store, NULL, &r, &err) < 0)
		fail_msg("%s", err.msg);
	return r;
}

/* Read one: its bytes, to be freed, or NULL and the error. */
static uint8_t *read_one(struct shoal_reader *r, uint64_t sample, uint64_t *ret_len, int *ret_rc,
			 struct shoal_err *err)
{
	struct shoal_read read = { .sample = sample };

	*ret_rc = shoal_reader_size(r, sample, &read.len, err);
	if (*ret_rc < 0)
		return NULL;
	read.buf = allocate(read.len + 1, 1);
	*ret_rc = shoal_reader_read(r, &read, 1, 1, err);
	*ret_len = read.len;
	if (*ret_rc == 0)
		return read.buf;
	free(read.buf);
	return NULL;
}

static void check_one(struct shoal_reader *r, uint64_t sample, uint64_t file, uint64_t off,
		      uint64_t len)
{
	struct shoal_err err = { "" };
	uint64_t got = 0;
	int rc;
	uint8_t *bytes = read_one(r, sample, &got, &rc, &err);

	if (!bytes)
		fail_msg("%s", err.msg);
	assert_int_equal(got, len);
	for (uint64_t k = 0; k < len; k++)
		assert_int_equal(bytes[k], byte_at(file, off + k));
	free(bytes);
}

static void check_error(struct shoal_reader *r, uint64_t sample, int rc, const char *words)
{
	struct shoal_err err = { "" };
	uint64_t len;
	int got;

	assert_null(read_one(r, sample, &len, &got, &err));
	assert_int_equal(got, rc);
	if (!strstr(err.msg, words))
		fail_msg("'%s' is not in: %s", words, err.msg);
}

static void single_samples_are_whole_files(void **state)
{
	const struct shoal_catalog *cats[] = { whole, sizeless };

	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(cats); c++) {
		struct shoal_reader *r = reader_of(cats[c], test_dir());

		for (uint64_t i = 0; i < FILES; i++)
			check_one(r, i, i, 0, size_of(i));
		check_error(r, FILES, -ERANGE, "no sample 30");
		shoal_reader_close(r);
	}
}

static void samples_of_one_file_are_its_records(void **state)
{
	struct shoal_reader *r = reader_of(records, test_dir());
	struct shoal_reader *none = NULL;
	struct shoal_catalog *both = make_catalog(false, 4);
	struct shoal_err err = { "" };

	(void)state;
	for (uint64_t i = 0; i < FILES; i++)
		for (uint64_t k = 0; k < 4; k++) {
			uint64_t part = size_of(i) / 4;

			check_one(r, i * 4 + k, i, part * k, k < 3 ? part : size_of(i) - 3 * part);
		}
	shoal_reader_close(r);
	assert_int_equal(shoal_reader_open(both, test_dir(), NULL, &none, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "offsets of samples"));
	shoal_catalog_close(both);
}

static void many_come_at_once(void **state)
{
	static const unsigned in_flight[] = { 0, 1, 2, 7, 64, 100000 };
	struct shoal_reader *r = reader_of(whole, test_dir());

	(void)state;
	for (size_t f = 0; f < ARRAY_LEN(in_flight); f++) {
		struct shoal_read reads[FILES];

		for (uint64_t i = 0; i < FILES; i++) {
			reads[i] = (struct shoal_read){ .sample = FILES - 1 - i,
							.len = size_of(FILES - 1 - i) };
			reads[i].buf = allocate(reads[i].len + 1, 1);
		}
		assert_int_equal(shoal_reader_read(r, reads, FILES, in_flight[f], NULL), 0);
		for (uint64_t i = 0; i < FILES; i++) {
			for (uint64_t k = 0; k < reads[i].len; k++)
				assert_int_equal(((uint8_t *)reads[i].buf)[k],
						 byte_at(FILES - 1 - i, k));
			free(reads[i].buf);
		}
	}
	assert_int_equal(shoal_reader_read(r, NULL, 0, 8, NULL), 0);
	shoal_reader_close(r);
}

static void what_changed_or_vanished_is_named(void **state)
{
	struct shoal_reader *r = reader_of(whole, test_dir());
	struct shoal_reader *none = NULL;

	(void)state;
	put(4, size_of(4) + 1);
	check_error(r, 4, -EFBIG, "sample 4: 'f004' is larger");
	put(4, size_of(4) - 1);
	check_error(r, 4, -ENODATA, "sample 4: 'f004' has only 4003 of");
	unlink(test_path("f004"));
	check_error(r, 4, -ENOENT, "f004");
	put(4, size_of(4));
	check_one(r, 4, 4, 0, size_of(4));
	shoal_reader_close(r);
	assert_int_equal(shoal_reader_open(whole, "/nowhere/at/all", NULL, &none, NULL), -ENOENT);
}

/* Of several the first in the list is told, whatever the threads do. */
static void of_many_errors_the_first_is_told(void **state)
{
	struct shoal_reader *r = reader_of(whole, test_dir());
	struct shoal_read reads[FILES];

	(void)state;
	for (uint64_t i = 0; i < FILES; i++) {
		reads[i] = (struct shoal_read){ .sample = i, .len = size_of(i) };
		reads[i].buf = allocate(reads[i].len + 1, 1);
		if (i >= 11)
			unlink(test_path(name_of(i)));
	}
	for (unsigned in_flight = 1; in_flight < 20; in_flight++) {
		struct shoal_err err = { "" };

		assert_int_equal(shoal_reader_read(r, reads, FILES, in_flight, &err), -ENOENT);
		assert_non_null(strstr(err.msg, "sample 11:"));
		assert_int_equal(shoal_reader_read(r, reads, FILES, in_flight, NULL), -ENOENT);
	}
	for (uint64_t i = 0; i < FILES; i++) {
		free(reads[i].buf);
		put(i, size_of(i));
	}
	shoal_reader_close(r);
}

static void a_null_store_makes_samples_up(void **state)
{
	struct shoal_reader *r = reader_of(whole, "null:size=1T");
	uint64_t len;
	int rc;
	uint8_t *bytes = read_one(r, 5, &len, &rc, NULL);

	(void)state;
	assert_non_null(bytes);
	assert_int_equal(len, size_of(5));
	free(bytes);
	shoal_reader_close(r);
}

static void both_sides_of_a_fork_read(void **state)
{
	struct shoal_reader *r = reader_of(whole, test_dir());
	int status;
	pid_t pid;

	(void)state;
	check_one(r, 2, 2, 0, size_of(2));
	pid = fork();
	if (pid == 0) {
		struct shoal_read read = { .sample = 5, .len = size_of(5) };

		read.buf = allocate(read.len + 1, 1);
		_exit(shoal_reader_read(r, &read, 1, 4, NULL) == 0 &&
				      ((uint8_t *)read.buf)[9] == byte_at(5, 9)
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	check_one(r, 7, 7, 0, size_of(7));
	shoal_reader_close(r);
}

static void a_cache_is_dropped_through_links_only_if_the_configuration_allows_them(void **state)
{
	struct shoal_store_config beneath = { .beneath = true };
	struct shoal_drop_result r;
	struct shoal_err err = { "" };

	(void)state;
	unlink(test_path(name_of(1)));
	assert_int_equal(symlink("/etc/passwd", test_path(name_of(1))), 0);
	assert_int_equal(shoal_drop_cache(whole, test_dir(), NULL, 0, 1, NULL, &r, &err), 0);
	assert_int_equal(r.nr_missing, 0);
	assert_int_equal(shoal_drop_cache(whole, test_dir(), &beneath, 0, 1, NULL, &r, &err), 0);
	assert_int_equal(r.nr_missing, 1);
	unlink(test_path(name_of(1)));
	put(1, size_of(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_samples_are_whole_files),
		cmocka_unit_test(samples_of_one_file_are_its_records),
		cmocka_unit_test(many_come_at_once),
		cmocka_unit_test(what_changed_or_vanished_is_named),
		cmocka_unit_test(of_many_errors_the_first_is_told),
		cmocka_unit_test(a_null_store_makes_samples_up),
		cmocka_unit_test(both_sides_of_a_fork_read),
		cmocka_unit_test(
			a_cache_is_dropped_through_links_only_if_the_configuration_allows_them),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
