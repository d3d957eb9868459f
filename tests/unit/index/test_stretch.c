/*
 * Goal: stretches of an old catalog and single names, in the order of their names, become the
 * catalog of all of them, each name once, even where a name lies inside a stretch.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "catalog/writer.h"
#include "help.h"
#include "index/stretch.h"

#define NR_NAMES 3000u

/* A stretch, or a name that was found (with this size) if it is of no files. */
struct step {
	struct index_stretch stretch;
	const char *name;
};

static struct test_list old_names(void)
{
	struct test_list l = { 0 };

	for (size_t i = 0; i < NR_NAMES; i++)
		list_addf(&l, "d/%08x", (unsigned)(i * 1000 + random_below(1000)));
	for (size_t i = 0; i < l.nr; i++) {
		l.entry[i].size = 1000 + i;
		l.entry[i].samples = 1;
	}
	return l;
}

#define FOUND_SIZE 7u

static int take(struct index_stretches *s, const struct step *step, struct shoal_err *err)
{
	size_t len = step->name ? strlen(step->name) : 0;
	int rc;

	if (step->stretch.nr > 0)
		return index_stretches_put(s, &step->stretch, err);
	rc = index_stretches_before(s, step->name, len, err);
	if (rc < 0)
		return rc;
	cat_digester_add(s->digester, step->name, len, FOUND_SIZE, 1);
	s->nr_put++;
	return writer_add_sorted(s->writer, step->name, len, FOUND_SIZE, 1, NULL, err);
}

static struct shoal_catalog *update(const struct shoal_catalog *old, const struct step *step,
				    size_t nr)
{
	struct shoal_writer_options wo = { .root = TEST_ROOT,
					   .sizes = true,
					   .samples_per_file = 1 };
	struct index_stretches s = { .old = old, .path = "old.cat" };
	struct cat_digester digester;
	struct shoal_err err = { "" };
	struct shoal_catalog *cat;

	assert_int_equal(shoal_writer_open(test_path("new.cat"), &wo, &s.writer, &err), 0);
	digester = writer_digester(s.writer);
	s.digester = &digester;
	for (size_t i = 0; i < nr; i++)
		if (take(&s, &step[i], &err) < 0)
			fail_msg("step %zu: %s", i, err.msg);
	assert_int_equal(index_stretches_end(&s, &err), 0);
	writer_add_packed(s.writer, &digester);
	assert_int_equal(shoal_writer_seal(s.writer, &err), 0);
	cat = catalog_open(test_path("new.cat"));
	assert_int_equal(s.nr_put, cat->view.nr_files);
	unlink(test_path("new.cat"));
	return cat;
}

static void add(struct test_list *l, const struct test_list *from, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++)
		list_add(l, from->entry[i].name, from->entry[i].len, from->entry[i].size, 1);
}

static void check(const struct shoal_catalog *cat, const struct test_list *want)
{
	struct shoal_catalog *whole = catalog_of(want, true, 1);
	char a[33], b[33];

	catalog_check(cat, want);
	catalog_digest(cat, a);
	catalog_digest(whole, b);
	assert_string_equal(a, b);
	shoal_catalog_close(whole);
}

static void all_stretches_of_a_catalog_are_that_catalog(void **state)
{
	struct test_list l = old_names();
	struct shoal_catalog *old = catalog_of(&l, true, 1), *new;
	const struct step step[] = { { { 0, 10 }, NULL },
				     { { 10, 90 }, NULL },
				     { { 100, NR_NAMES - 100 }, NULL } };

	(void)state;
	new = update(old, step, ARRAY_LEN(step));
	check(new, &l);
	assert_int_equal(new->view.nr_segments, old->view.nr_segments);
	shoal_catalog_close(new);
	shoal_catalog_close(old);
	list_release(&l);
}

static void what_lies_between_stretches_is_left_out_or_replaced(void **state)
{
	struct test_list l = old_names(), want = { 0 };
	struct shoal_catalog *old = catalog_of(&l, true, 1), *new;
	const struct step step[] = { { { 5, 700 }, NULL },
				     { { 0 }, l.entry[705].name },
				     { { 800, 1 }, NULL },
				     { { 900, 300 }, NULL },
				     { { 0 }, "e/new" } };

	(void)state;
	add(&want, &l, 5, 705);
	list_add(&want, l.entry[705].name, l.entry[705].len, FOUND_SIZE, 1);
	add(&want, &l, 800, 801);
	add(&want, &l, 900, 1200);
	list_add(&want, "e/new", 5, FOUND_SIZE, 1);
	new = update(old, step, ARRAY_LEN(step));
	check(new, &want);
	shoal_catalog_close(new);
	shoal_catalog_close(old);
	list_release(&want);
	list_release(&l);
}

/* As of a directory that is reported twice while it changes. */
static void a_stretch_is_split_by_names_inside_it(void **state)
{
	struct test_list l = old_names(), want = { 0 };
	struct shoal_catalog *old = catalog_of(&l, true, 1), *new;
	char between[32];
	const struct step step[] = {
		{ { 100, 1000 }, NULL },      { { 0 }, l.entry[100].name }, /* the first, */
		{ { 101, 3 }, NULL },         /* part of it once more, */
		{ { 0 }, between },           /* one that is new, */
		{ { 0 }, l.entry[500].name }, /* one in the middle, */
		{ { 600, 600 }, NULL },       /* one that goes further, */
		{ { 0 }, l.entry[1199].name } /* and the last */
	};

	(void)state;
	snprintf(between, sizeof(between), "%s0", l.entry[300].name);
	add(&want, &l, 100, 1200);
	list_add(&want, between, strlen(between), FOUND_SIZE, 1);
	want.entry[0].size = want.entry[400].size = want.entry[1099].size = FOUND_SIZE;
	list_sort(&want);
	new = update(old, step, ARRAY_LEN(step));
	check(new, &want);
	shoal_catalog_close(new);
	shoal_catalog_close(old);
	list_release(&want);
	list_release(&l);
}

static void names_out_of_order_are_refused(void **state)
{
	struct shoal_writer_options wo = { .root = TEST_ROOT,
					   .sizes = true,
					   .samples_per_file = 1 };
	struct test_list l = old_names();
	struct shoal_catalog *old = catalog_of(&l, true, 1);
	struct index_stretches s = { .old = old, .path = "old.cat" };
	struct cat_digester digester;
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(shoal_writer_open(test_path("new.cat"), &wo, &s.writer, &err), 0);
	digester = writer_digester(s.writer);
	s.digester = &digester;
	assert_int_equal(writer_add_sorted(s.writer, "e", 1, 0, 1, NULL, &err), 0);
	assert_int_equal(index_stretches_put(&s, &(struct index_stretch){ 0, 5 }, &err), 0);
	assert_int_equal(index_stretches_end(&s, &err), -EINVAL);
	check_words(&err, "cannot update 'old.cat'");
	check_words(&err, "ascending");
	shoal_writer_abort(s.writer);
	shoal_catalog_close(old);
	list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_stretches_of_a_catalog_are_that_catalog),
		cmocka_unit_test(what_lies_between_stretches_is_left_out_or_replaced),
		cmocka_unit_test(a_stretch_is_split_by_names_inside_it),
		cmocka_unit_test(names_out_of_order_are_refused),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
