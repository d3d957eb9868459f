/*
 * Goal: what is gathered is what was added, in order, up to the last entry and byte that there is
 * room for; what does not fit leaves no trace.
 */
#include "index/gathered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "help.h"

static struct index_gathered *new_gathered(void)
{
	struct index_gathered *g = index_gathered_new();

	assert_non_null(g);
	return g;
}

static bool add(struct index_gathered *g, const struct store_entry *e, size_t nr)
{
	size_t grown;

	return index_gathered_add(g, e, nr, &grown);
}

/* Entries that all have the same name. */
static struct store_entry *same(size_t nr, const char *name, size_t len)
{
	struct store_entry *e = allocate(nr, sizeof(*e));

	for (size_t i = 0; i < nr; i++)
		e[i] = (struct store_entry){ .name = name, .len = len, .size = i };
	return e;
}

static void as_many_entries_fit_as_it_says(void **state)
{
	struct index_gathered *g = new_gathered();
	struct store_entry *e = same(INDEX_GATHERED_MAX, "a", 1);

	(void)state;
	assert_true(add(g, e, 10));
	assert_false(add(g, e, INDEX_GATHERED_MAX - 9));
	assert_int_equal(g->nr, 10);
	assert_int_equal(g->fill, 10);
	assert_true(add(g, e, INDEX_GATHERED_MAX - 10));
	assert_false(add(g, e, 1));
	assert_true(add(g, e, 0));
	assert_int_equal(g->nr, INDEX_GATHERED_MAX);
	index_gathered_clear(g);
	assert_true(add(g, e, INDEX_GATHERED_MAX));
	free(e);
	free(g);
}

#define LONG (SHOAL_NAME_MAX - 1u) /* of which no number fills the room */

static void as_many_bytes_fit_as_it_says(void **state)
{
	struct index_gathered *g = new_gathered();
	char *name = allocate(LONG, 1);
	size_t nr = INDEX_GATHERED_BYTES / LONG;
	size_t left = INDEX_GATHERED_BYTES - nr * LONG;
	struct store_entry *e = same(nr, name, LONG);

	(void)state;
	assert_true(left > 0); /* or the last one below would have no name */
	assert_true(add(g, e, nr));
	assert_false(add(g, &(struct store_entry){ .name = name, .len = left + 1 }, 1));
	assert_true(add(g, &(struct store_entry){ .name = name, .len = left }, 1));
	assert_int_equal(g->fill, INDEX_GATHERED_BYTES);
	assert_false(add(g, e, 1));
	index_gathered_sort(g, 0);
	assert_int_equal(g->ref[0].len, left); /* the shortest */
	free(e);
	free(name);
	free(g);
}

static void it_says_how_much_more_it_uses_than_ever(void **state)
{
	static const size_t nr[] = { 3, 4, 0, 5, 2, 1 }; /* 0: cleared */
	const size_t one = 2 * sizeof(struct index_ref) + sizeof(uint64_t) + 1;
	struct index_gathered *g = new_gathered();
	struct store_entry *e = same(5, "a", 1);
	size_t most = 0;

	(void)state;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(nr); i++) {
		size_t grown;

		if (nr[i] == 0)
			index_gathered_clear(g);
		assert_true(index_gathered_add(g, e, nr[i], &grown));
		assert_int_equal(grown, g->nr > most ? (g->nr - most) * one : 0);
		most = g->nr > most ? g->nr : most;
	}
	assert_int_equal(most, 8);
	free(e);
	free(g);
}

/* Names of one directory, some more than once, in any order and in parts of any size. */
static void what_was_added_is_sorted_and_equal_names_stay_as_they_came(void **state)
{
	struct index_gathered *g = new_gathered();

	(void)state;
	for (unsigned round = 0; round < 50; round++) {
		struct store_entry e[300];
		char names[300][24];
		size_t nr = random_below(SHOAL_ARRAY_LEN(e) + 1);

		for (size_t i = 0; i < nr; i++) {
			snprintf(names[i], sizeof(names[i]), "dir/%llu",
				 (unsigned long long)random_below(200));
			e[i] = (struct store_entry){ .name = names[i],
						     .len = strlen(names[i]),
						     .size = i };
		}
		index_gathered_clear(g);
		for (size_t at = 0, some; at < nr; at += some) {
			some = 1 + random_below(nr - at);
			assert_true(add(g, e + at, some));
		}
		index_gathered_sort(g, round % 2 ? 4 : 0);
		assert_int_equal(g->nr, nr);
		for (size_t i = 0; i < nr; i++) {
			const struct index_ref *r = &g->ref[i], *before = i ? r - 1 : NULL;
			const struct store_entry *told = &e[g->size[r->tag]];
			int order = before ? shoal_name_compare(g->names + before->off, before->len,
								g->names + r->off, r->len)
					   : -1;

			assert_int_equal(r->len, told->len);
			assert_memory_equal(g->names + r->off, told->name, told->len);
			assert_true(order < 0 || (order == 0 && before->tag < r->tag));
		}
	}
	free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_entries_fit_as_it_says),
		cmocka_unit_test(as_many_bytes_fit_as_it_says),
		cmocka_unit_test(it_says_how_much_more_it_uses_than_ever),
		cmocka_unit_test(what_was_added_is_sorted_and_equal_names_stay_as_they_came),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
