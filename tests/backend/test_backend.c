/*
 * Goal: a kind of store is a folder and a line. This one lies outside of src/; once it is
 * registered, everything that works with stores works with it: writing, listing and indexing with
 * threads, comparing, loading, catalogs that are kept in it, configurations, and stores on it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"
#include "mem.h"
#include "open/transfer.h"
#include "stack.h"

#define THINGS 5000u

static struct shoal_err err;

static void content_of(unsigned i, char buf[40])
{
	snprintf(buf, 40, "content of number %u%.*s", i, (int)(i % 7), "-------");
}

static void put(struct store *s, const char *name, const char *text)
{
	struct store_writer *w = NULL;

	assert_int_equal(store_create(s, name, &w, &err), 0);
	assert_int_equal(store_write(w, text, strlen(text), &err), 0);
	assert_int_equal(store_commit(w, &err), 0);
}

static struct store *open_store(const char *uri, const struct shoal_store_config *config)
{
	struct store *s = NULL;

	if (store_open(uri, config, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

static void fill(const char *uri, const struct shoal_store_config *config, unsigned nr)
{
	struct store *s = open_store(uri, config);
	char name[40], text[40];

	for (unsigned i = 0; i < nr; i++) {
		snprintf(name, sizeof(name), "d%u/f%05u", i % 3, i);
		content_of(i, text);
		put(s, name, text);
	}
	store_close(s);
}

static int clear(void **state)
{
	(void)state;
	mem_clear();
	test_dir_empty();
	return 0;
}

static struct shoal_catalog *index_of(const char *where, const struct shoal_store_config *config,
				      const char *path)
{
	struct shoal_index_options options = { .output = path, .config = config };
	struct shoal_tree_options tree = { .nr_threads = 4 };
	struct shoal_index_result result = { 0 };
	struct shoal_catalog *cat = NULL;

	if (shoal_index_tree(where, &tree, &options, &result, &err) < 0 ||
	    shoal_catalog_open(path, &cat, &err) < 0)
		fail_msg("%s", err.msg);
	return cat;
}

static void it_tells_what_it_is_and_is_named_among_the_kinds(void **state)
{
	struct store_traits t = store_uri_traits("mem://place/a");

	(void)state;
	assert_true(t.objects && t.any_name && !t.files && !t.etags);
	assert_int_equal(store_uri_check("gs://x", &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "null:, mem:// or a path"));
	assert_int_equal(store_uri_check("mem:///x", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "has no place"));
}

static void what_is_written_is_indexed_compared_and_found(void **state)
{
	struct shoal_compare_options compare = { .nr_threads = 4 };
	struct shoal_compare_result r = { 0 };
	struct shoal_catalog_info info;
	struct shoal_catalog *cat;
	struct store *s;
	char name[SHOAL_NAME_MAX + 1];

	(void)state;
	fill("mem://place/data", NULL, THINGS);
	s = open_store("mem://place", NULL);
	put(s, "beside", "not below the prefix");
	cat = index_of("mem://place/data/", NULL, test_path("c.cat"));
	shoal_catalog_info(cat, &info);
	assert_string_equal(info.root, "mem://place/data");
	assert_int_equal(info.nr_files, THINGS);
	assert_int_equal(shoal_catalog_name(cat, 1, name), 9);
	assert_string_equal(name, "d0/f00003");
	assert_int_equal(shoal_catalog_compare(cat, &compare, &r, &err), 0);
	assert_int_equal(r.nr_same, THINGS);
	put(s, "data/d1/new", "");
	put(s, "data/d0/f00003", "another size");
	assert_int_equal(shoal_catalog_compare(cat, &compare, &r, &err), 0);
	assert_int_equal(r.nr_new + r.nr_resized, 2);
	store_close(s);
	shoal_catalog_close(cat);
}

/* Every sample of an epoch, once, with its bytes. */
static void read_epoch(const struct shoal_catalog *cat, const struct shoal_load_options *options)
{
	struct shoal_order_spec spec = {
		.mode = SHOAL_GLOBAL, .remainder = SHOAL_KEEP, .nr_ranks = 1, .batch = 64, .unit = 1
	};
	const struct shoal_batch *batch;
	struct shoal_loader *l = NULL;
	struct shoal_catalog_info info;
	char name[SHOAL_NAME_MAX + 1], text[40];
	uint64_t nr = 0;
	int rc;

	shoal_catalog_info(cat, &info);
	spec.nr_samples = info.nr_samples;
	if (shoal_loader_open(cat, &spec, 0, options, &l, &err) < 0 ||
	    shoal_loader_epoch(l, 0, &err) < 0)
		fail_msg("%s", err.msg);
	while ((rc = shoal_loader_next(l, &batch, &err)) == 1) {
		for (size_t i = 0; i < batch->nr; i++, nr++) {
			assert_true(shoal_catalog_name(cat, batch->sample[i].id, name) > 0);
			content_of((unsigned)strtoul(name + 4, NULL, 10), text);
			assert_int_equal(batch->sample[i].len, strlen(text));
			assert_memory_equal(batch->sample[i].data, text, strlen(text));
		}
		shoal_loader_give_back(l, batch);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(nr, info.nr_samples);
	shoal_loader_close(l);
}

static void an_epoch_is_read_from_it(void **state)
{
	const struct shoal_load_options options = { .in_flight = 8 };
	struct shoal_reader *reader = NULL;
	struct shoal_read one = { .sample = 3 };
	struct shoal_catalog *cat;
	char text[40];

	(void)state;
	fill("mem://place/data", NULL, THINGS);
	cat = index_of("mem://place/data", NULL, test_path("c.cat"));
	read_epoch(cat, &options);
	assert_int_equal(shoal_reader_open(cat, NULL, NULL, &reader, &err), 0);
	assert_int_equal(shoal_reader_size(reader, 3, &one.len, &err), 0);
	one.buf = text;
	assert_int_equal(shoal_reader_read(reader, &one, 1, 1, &err), 0);
	assert_memory_equal(text, "content of number 9--", 21);
	shoal_reader_close(reader);
	shoal_catalog_close(cat);
}

static void a_catalog_is_kept_in_it(void **state)
{
	struct shoal_catalog_options through = { .copy_dir = test_dir() };
	struct shoal_catalog *cat, *kept = NULL;
	struct shoal_catalog_info a, b;

	(void)state;
	fill("mem://place/data", NULL, 100);
	cat = index_of("mem://place/data", NULL, test_path("c.cat"));
	assert_int_equal(
		transfer_put_file(test_path("c.cat"), "mem://place/cats/c", NULL, NULL, &err), 0);
	assert_int_equal(transfer_is_object("mem://place/cats/c", NULL, NULL, &err), 1);
	assert_int_equal(transfer_is_object("mem://place/cats", NULL, NULL, &err), 0);
	shoal_catalog_info(cat, &a);
	for (int copy = 0; copy < 2; copy++) {
		assert_int_equal(shoal_catalog_open_with("mem://place/cats/c",
							 copy ? &through : NULL, &kept, &err),
				 0);
		shoal_catalog_info(kept, &b);
		assert_string_equal(a.digest, b.digest);
		kept = shoal_catalog_close(kept);
	}
	assert_int_equal(shoal_catalog_open("mem://place/cats/none", &kept, &err), -ENOENT);
	assert_int_equal(shoal_catalog_open("mem://place", &kept, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "has no name"));
	shoal_catalog_close(cat);
}

static void two_places_with_keys_of_their_own_are_used_at_once(void **state)
{
	const struct shoal_store_config config[2] = {
		{ .access_key = "a", .secret_key = "key of one" },
		{ .access_key = "a", .secret_key = "key of two" },
	};
	static const char *const where[2] = { "mem://one/data", "mem://two/data" };
	struct shoal_catalog *cat[2], *kept = NULL;
	struct store *s = NULL;

	(void)state;
	mem_lock("one", config[0].secret_key);
	mem_lock("two", config[1].secret_key);
	for (int i = 0; i < 2; i++) {
		fill(where[i], &config[i], 200);
		cat[i] = index_of(where[i], &config[i], test_path(i ? "1.cat" : "0.cat"));
		assert_int_equal(store_open(where[i], NULL, &s, &err), -EACCES);
		assert_int_equal(store_open(where[i], &config[!i], &s, &err), -EACCES);
		assert_null(strstr(err.msg, "key of"));
	}
	for (int i = 0; i < 2; i++) {
		struct shoal_load_options options = { .config = &config[i] };
		struct shoal_compare_options compare = { .config = &config[i] };
		struct shoal_catalog_options open = { .config = &config[i] };
		struct shoal_compare_result r = { 0 };
		struct shoal_reader *reader = NULL;
		char uri[40];

		read_epoch(cat[i], &options);
		assert_int_equal(shoal_reader_open(cat[i], NULL, &config[i], &reader, &err), 0);
		shoal_reader_close(reader);
		assert_int_equal(shoal_reader_open(cat[i], NULL, &config[!i], &reader, &err),
				 -EACCES);
		assert_int_equal(shoal_catalog_compare(cat[i], &compare, &r, &err), 0);
		assert_int_equal(r.nr_same, 200);
		snprintf(uri, sizeof(uri), "%s/c", where[i]);
		assert_int_equal(transfer_put_file(test_path("0.cat"), uri, &config[i], NULL, &err),
				 0);
		assert_int_equal(shoal_catalog_open_with(uri, &open, &kept, &err), 0);
		shoal_catalog_close(kept);
		assert_int_equal(shoal_catalog_open(uri, &kept, &err), -EACCES);
		shoal_catalog_close(cat[i]);
	}
}

static void stores_stand_on_it(void **state)
{
	const struct store_fault fault = { STORE_READ, 2, 1, -EIO, 0 };
	struct store *s = NULL;
	struct store_object object;
	char byte;
	int fd;

	(void)state;
	fill("mem://place", NULL, 3);
	assert_int_equal(store_fault_new(open_store("mem://place", NULL), &fault, 1, &s, &err), 0);
	assert_true(s->traits.objects && s->traits.any_name);
	assert_int_equal(store_examine(s, "d0/f00000", NULL, &object, &err), 0);
	assert_int_equal(store_read(s, "d0/f00000", 0, &byte, 1, &err), 1);
	fd = fileno(tmpfile());
	assert_int_equal(store_fetch(s, "d0/f00000", &object, fd, NULL, &err), -EIO);
	assert_int_equal(store_fetch(s, "d0/f00000", &object, fd, NULL, &err), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), object.size);
	object.size++;
	assert_int_equal(store_fetch(s, "d0/f00000", &object, fd, NULL, &err), -ESTALE);
	assert_int_equal(store_fetch(s, "d0/f00000", &object, fd, &(int){ 1 }, &err), -ECANCELED);
	store_close(s);
}

#define TEST(name) cmocka_unit_test_teardown(name, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_tells_what_it_is_and_is_named_among_the_kinds),
		TEST(what_is_written_is_indexed_compared_and_found),
		TEST(an_epoch_is_read_from_it),
		TEST(a_catalog_is_kept_in_it),
		TEST(two_places_with_keys_of_their_own_are_used_at_once),
		TEST(stores_stand_on_it),
	};

	if (store_register(&store_mem_kind) < 0) /* the one line */
		return 1;
	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
