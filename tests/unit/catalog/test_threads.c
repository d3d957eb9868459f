/*
 * Goal: any number of threads may look up one catalog, also while its pages are checked and its
 * dictionaries made for the first time. Run under TSan as well.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"

#define NR_THREADS 20u /* more than the contexts that are kept */

struct reader {
	const struct shoal_catalog *cat;
	const struct test_list *list;
	pthread_barrier_t *start;
	uint64_t seed;
	const char *failed; /* what gave a wrong answer; cmocka's asserts are not for threads */
	bool damaged;       /* errors are fine, wrong answers are not */
};

static const char *look_up(const struct reader *r, uint64_t i)
{
	const struct test_entry *e = &r->list->entry[i];
	char name[SHOAL_NAME_MAX + 1];
	uint64_t id, size, first, count;
	struct shoal_err err;
	int rc;

	rc = shoal_catalog_name(r->cat, i, name);
	if (rc < 0 && r->damaged)
		shoal_catalog_explain(r->cat, rc, &err);
	else if (rc != (int)e->len || memcmp(name, e->name, e->len) != 0)
		return "name";
	rc = shoal_catalog_find(r->cat, e->name, e->len, &id);
	if (rc < 0 ? !r->damaged : id != i)
		return "find";
	rc = shoal_catalog_lower_bound(r->cat, e->name, e->len, &id);
	if (rc < 0 ? !r->damaged : id != i)
		return "lower bound";
	rc = shoal_catalog_size(r->cat, i, &size);
	if (rc < 0 ? !r->damaged : size != e->size)
		return "size";
	rc = shoal_catalog_samples(r->cat, i, &first, &count);
	if (rc < 0 ? !r->damaged : count != e->samples)
		return "samples";
	if (rc == 0 && count) {
		rc = shoal_catalog_locate(r->cat, first, &id, &size);
		if (rc < 0 ? !r->damaged : id != i || size != 0)
			return "locate";
	}
	return NULL;
}

static const char *walk(const struct reader *r, uint64_t from)
{
	struct shoal_cursor *cursor = NULL;
	const char *name, *failed = NULL;
	size_t len;

	if (shoal_cursor_new(r->cat, from, &cursor, NULL) < 0)
		return "cursor";
	for (uint64_t i = from; i < from + 300 && i < r->list->nr && !failed; i++) {
		int rc = shoal_cursor_next(cursor, &name, &len);

		if (rc < 0 && r->damaged)
			break;
		if (rc != 1 || len != r->list->entry[i].len ||
		    memcmp(name, r->list->entry[i].name, len) != 0)
			failed = "walk";
	}
	shoal_cursor_free(cursor);
	return failed;
}

static void *read_catalog(void *arg)
{
	struct reader *r = arg;

	pthread_barrier_wait(r->start);
	for (uint64_t k = 0; k < 150 && !r->failed; k++) {
		uint64_t i = (r->seed * 7919 + k * k * 104729) % r->list->nr;

		r->failed = k % 30 == 7 ? walk(r, i) : look_up(r, i);
	}
	return NULL;
}

static void read_together(const struct shoal_catalog *cat, const struct test_list *l, bool damaged)
{
	struct reader reader[NR_THREADS];
	pthread_t thread[NR_THREADS];
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, NR_THREADS);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		reader[i] = (struct reader){ .cat = cat,
					     .list = l,
					     .start = &start,
					     .seed = i / 2, /* pairs meet at the same place */
					     .damaged = damaged };
		assert_int_equal(pthread_create(&thread[i], NULL, read_catalog, &reader[i]), 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&start);
	for (unsigned i = 0; i < NR_THREADS; i++)
		if (reader[i].failed)
			fail_msg("thread %u: a wrong %s", i, reader[i].failed);
}

static struct test_list names_of_all_kinds(void)
{
	struct test_list l = { 0 };

	for (size_t i = 0; i < 9000; i++) {
		uint64_t phrase = i * 7919 % 193;

		list_addf(&l, "a/%06zu %016" PRIx64 "%08" PRIx64, i * 5 + random_below(5),
			  phrase * UINT64_C(0x9E3779B97F4A7C15), phrase * 0x9E3779B9);
		if (i < 4000) {
			list_addf(&l, "b/%zu", i * 3);
			list_addf(&l, "c/%08" PRIu64, i);
			list_addf(&l, "d/%08x-%08x-%08x.jpeg", (unsigned)random_u64(),
				  (unsigned)random_u64(), (unsigned)random_u64());
		}
	}
	list_sort(&l);
	return l;
}

static void threads_share_a_fresh_catalog(void **state)
{
	struct test_list l = names_of_all_kinds();

	(void)state;
	for (int round = 0; round < 5; round++) {
		struct shoal_catalog *cat = catalog_of(&l, true, 0);

		read_together(cat, &l, false);
		shoal_catalog_close(cat);
	}
	list_release(&l);
}

static void threads_that_meet_damage_tell_of_it(void **state)
{
	struct test_list l = names_of_all_kinds();

	(void)state;
	for (int round = 0; round < 4; round++) {
		struct shoal_catalog *cat = NULL;
		struct shoal_err err = { "" };
		uint64_t sec_len;
		uint8_t *image;
		size_t len, at;

		catalog_write(test_path("d.cat"), &l, 0, l.nr, true, 0);
		image = file_read(test_path("d.cat"), &len);
		unlink(test_path("d.cat"));
		at = image_section(image, round % 2 ? CAT_DICT : CAT_NAME, &sec_len);
		assert_true(sec_len > 0);
		image[at + sec_len / 3] ^= 8;
		assert_int_equal(image_open(image, len, &cat, &err), 0);
		read_together(cat, &l, true);
		assert_int_equal(shoal_catalog_verify(cat, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, "damaged catalog: section "));
		shoal_catalog_close(cat);
		free(image);
	}
	list_release(&l);
}

struct opener {
	const char *path;
	pthread_barrier_t *start;
	int rc;
};

static void *open_and_close(void *arg)
{
	struct opener *o = arg;

	pthread_barrier_wait(o->start);
	for (int i = 0; i < 50 && o->rc == 0; i++) {
		struct shoal_catalog *cat = NULL;

		o->rc = shoal_catalog_open(o->path, &cat, NULL);
		if (o->rc == 0)
			o->rc = shoal_catalog_verify(cat, NULL);
		shoal_catalog_close(cat);
	}
	return NULL;
}

static void threads_open_and_close_catalogs_at_once(void **state)
{
	const char *path = test_path("o.cat");
	struct test_list l = { 0 };
	struct opener opener[NR_THREADS];
	pthread_t thread[NR_THREADS];
	pthread_barrier_t start;

	(void)state;
	list_add_irregular(&l, "o", 300);
	list_sort(&l);
	catalog_write(path, &l, 0, l.nr, true, 0);
	pthread_barrier_init(&start, NULL, NR_THREADS);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		opener[i] = (struct opener){ path, &start, 0 };
		assert_int_equal(pthread_create(&thread[i], NULL, open_and_close, &opener[i]), 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(opener[i].rc, 0);
	}
	pthread_barrier_destroy(&start);
	unlink(path);
	list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_share_a_fresh_catalog),
		cmocka_unit_test(threads_that_meet_damage_tell_of_it),
		cmocka_unit_test(threads_open_and_close_catalogs_at_once),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
