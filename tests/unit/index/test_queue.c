/*
 * Goal: units come back newest first, or in the order that they were put in by, also from the file;
 * and what cannot be put aside or brought back is told, while the others stay.
 */
#include "index/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/name.h"
#include "help.h"
#include "store/store.h"

/* ---- Units ---- */

/* Unit @i: its length and all its bytes follow from the number. */
static size_t make_unit(uint32_t i, size_t longest, uint8_t *ret_unit)
{
	size_t len = sizeof(i) + i * 2654435761u % (longest - sizeof(i) + 1);

	memset(ret_unit, (int)(i & 0xff), len);
	memcpy(ret_unit, &i, sizeof(i));
	return len;
}

/* The number of a unit, after checking that it is whole. */
static uint32_t unit_number(const void *unit, size_t len, size_t longest)
{
	static uint8_t want[STORE_UNIT_MAX];
	uint32_t i;

	assert_true(len >= sizeof(i));
	memcpy(&i, unit, sizeof(i));
	assert_int_equal(len, make_unit(i, longest, want));
	assert_memory_equal(unit, want, len);
	return i;
}

static void push(struct index_queue *u, uint32_t i, size_t longest)
{
	static uint8_t unit[STORE_UNIT_MAX];
	size_t len = make_unit(i, longest, unit);
	struct shoal_err err = { "" };

	if (index_queue_push(u, unit, len, &err) < 0)
		fail_msg("%s", err.msg);
}

static uint32_t pop(struct index_queue *u, size_t longest)
{
	static uint8_t unit[STORE_UNIT_MAX];
	size_t len = 0;

	assert_int_equal(index_queue_pop(u, unit, &len, NULL), 1);
	return unit_number(unit, len, longest);
}

static struct index_queue units_of(size_t memory)
{
	struct index_queue u;

	assert_int_equal(index_queue_init(&u, memory, test_dir(), NULL), 0);
	return u;
}

static void units_come_back_newest_first_also_from_the_file(void **state)
{
	static const struct {
		size_t memory, longest;
		uint32_t nr;
		bool spills;
	} row[] = {
		{ 1024, 100, 5, false },        { 1024, 504, 300, true },
		{ 1024, 4, 20000, true },       { 4u << 20, STORE_UNIT_MAX, 1000, true },
		{ 64u << 10, 100, 500, false },
	};

	(void)state;
	for (size_t r = 0; r < ARRAY_LEN(row); r++) {
		struct index_queue u = units_of(row[r].memory);
		uint8_t unit[4];
		size_t len;

		for (uint32_t i = 0; i < row[r].nr; i++)
			push(&u, i, row[r].longest);
		assert_int_equal(u.nr, row[r].nr);
		assert_int_equal(u.fd >= 0, row[r].spills);
		for (uint32_t i = row[r].nr; i > 0; i--)
			assert_int_equal(pop(&u, row[r].longest), i - 1);
		assert_int_equal(index_queue_pop(&u, unit, &len, NULL), 0);
		assert_int_equal(index_queue_pop_oldest(&u, unit, sizeof(unit), &len), 0);
		index_queue_release(&u);
		assert_int_equal(test_dir_count(), 0);
	}
}

static void units_may_be_empty(void **state)
{
	struct index_queue u = units_of(1024);
	uint8_t byte = 7;
	size_t len = 9;

	(void)state;
	assert_int_equal(index_queue_push(&u, "", 0, NULL), 0);
	assert_int_equal(index_queue_push(&u, "", 0, NULL), 0);
	assert_int_equal(index_queue_pop(&u, &byte, &len, NULL), 1);
	assert_int_equal(len, 0);
	len = 9;
	assert_int_equal(index_queue_pop_oldest(&u, &byte, 0, &len), 1);
	assert_int_equal(len, 0);
	assert_int_equal(byte, 7);
	assert_int_equal(u.nr, 0);
	index_queue_release(&u);
}

/* What is in there, oldest first. */
struct model {
	uint32_t number[4096];
	size_t nr;
	size_t seen; /* by each */
	size_t longest;
};

static int see(void *self, const struct index_handoff_id *handoff, const void *unit, size_t len,
	       struct shoal_err *err)
{
	struct model *m = self;

	(void)handoff;
	(void)err;
	assert_true(m->seen < m->nr);
	assert_int_equal(unit_number(unit, len, m->longest), m->number[m->seen++]);
	return 0;
}

static void model_pop_oldest(struct model *m, struct index_queue *u)
{
	uint8_t unit[512];
	size_t len, at = 0;
	uint32_t number;

	if (!index_queue_pop_oldest(u, unit, sizeof(unit), &len)) {
		assert_true(m->nr == 0 || u->nr_blocks > 0);
		return;
	}
	number = unit_number(unit, len, m->longest);
	while (m->number[at] != number)
		assert_true(++at < m->nr);
	if (u->nr_blocks == 0)
		assert_int_equal(at, 0);
	memmove(m->number + at, m->number + at + 1, (m->nr - at - 1) * sizeof(*m->number));
	m->nr--;
}

static void units_keep_their_order_whatever_is_done_to_them(void **state)
{
	static struct model m;

	(void)state;
	for (int round = 0; round < 30; round++) {
		struct index_queue u = units_of(1024);
		unsigned growth = 3 + (unsigned)random_below(5);

		m = (struct model){ .longest = 4 + random_below(480) };
		for (uint32_t i = 0; i < 3000; i++) {
			uint64_t what = random_below(10);

			if (what < growth && m.nr < ARRAY_LEN(m.number)) {
				push(&u, i, m.longest);
				m.number[m.nr++] = i;
			} else if (what == 9) {
				model_pop_oldest(&m, &u);
			} else if (m.nr > 0) {
				assert_int_equal(pop(&u, m.longest), m.number[--m.nr]);
			}
			assert_int_equal(u.nr, m.nr);
			m.seen = 0;
			if (i % 100 == 0)
				assert_int_equal(index_queue_each(&u, see, &m, NULL), 0);
			assert_int_equal(m.seen, i % 100 == 0 ? m.nr : 0);
		}
		index_queue_release(&u);
	}
}

static void the_oldest_stays_where_there_is_no_room_for_it(void **state)
{
	struct index_queue u = units_of(1024);
	uint8_t unit[10];
	size_t len = 0;

	(void)state;
	assert_int_equal(index_queue_push(&u, "0123456789", 10, NULL), 0);
	assert_int_equal(index_queue_pop_oldest(&u, unit, 9, &len), 0);
	assert_int_equal(u.nr, 1);
	assert_int_equal(index_queue_pop_oldest(&u, unit, 10, &len), 1);
	assert_int_equal(len, 10);
	index_queue_release(&u);
}

static int refuse_third(void *self, const struct index_handoff_id *handoff, const void *unit,
			size_t len, struct shoal_err *err)
{
	int *nr = self;

	(void)handoff;
	(void)unit;
	(void)len;
	return ++*nr == 3 ? err_set(err, -EPROTO, "the third") : 0;
}

static void what_each_is_told_is_handed_on(void **state)
{
	(void)state;
	for (uint32_t units = 5; units < 500; units += 490) { /* in memory, and in the file */
		struct index_queue u = units_of(1024);
		struct shoal_err err = { "" };
		int nr = 0;

		for (uint32_t i = 0; i < units; i++)
			push(&u, i, 20);
		assert_int_equal(index_queue_each(&u, refuse_third, &nr, &err), -EPROTO);
		assert_int_equal(nr, 3);
		check_words(&err, "the third");
		index_queue_release(&u);
	}
}

static void units_that_cannot_be_put_aside_are_told_and_the_others_stay(void **state)
{
	struct index_queue u = units_of(1024);
	struct shoal_err err = { "" };
	uint8_t unit[STORE_UNIT_MAX];
	uint32_t nr = 0;
	int rc = 0;

	(void)state;
	u.tmp_dir = "/no/such/folder";
	for (; rc == 0 && nr < 1000; nr++)
		rc = index_queue_push(&u, unit, make_unit(nr, 50, unit), &err);
	assert_int_equal(rc, -ENOENT);
	check_words(&err, "'/no/such/folder'");
	nr--;
	assert_int_equal(u.nr, nr);
	for (; nr > 0; nr--)
		assert_int_equal(pop(&u, 50), nr - 1);
	index_queue_release(&u);
}

static void a_file_of_units_that_may_not_grow_is_told(void **state)
{
	struct index_queue u = units_of(1024);
	struct rlimit before = files_may_not_grow();
	struct shoal_err err = { "" };
	uint8_t unit[STORE_UNIT_MAX];
	uint32_t nr = 0;
	int rc = 0;

	(void)state;
	for (; rc == 0 && nr < 1000; nr++)
		rc = index_queue_push(&u, unit, make_unit(nr, 50, unit), &err);
	files_may_grow(&before);
	assert_int_equal(rc, -EFBIG);
	check_words(&err, "cannot write a temporary file in '/");
	assert_int_equal(u.nr, --nr);
	push(&u, nr, 50); /* there is room again */
	for (nr++; nr > 0; nr--)
		assert_int_equal(pop(&u, 50), nr - 1);
	index_queue_release(&u);
}

static void a_file_of_units_that_was_cut_is_told(void **state)
{
	struct index_queue u = units_of(1024);
	struct shoal_err err = { "" };
	uint8_t unit[64];
	size_t len;
	int rc, nr = 0;

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		push(&u, i, 50);
	assert_int_equal(ftruncate(u.fd, 0), 0);
	assert_true(index_queue_each(&u, refuse_third, &nr, &err) < 0);
	check_words(&err, "cannot read a temporary file back");
	err.msg[0] = '\0';
	while ((rc = index_queue_pop(&u, unit, &len, &err)) == 1)
		;
	assert_true(rc < 0);
	check_words(&err, "cannot read a temporary file back");
	index_queue_release(&u);
}

/* ---- Units in order ---- */

static bool is_before(void *self, const struct index_unit_ref *a, const struct index_unit_ref *b)
{
	(void)self;
	return name_compare(a->unit, a->len, b->unit, b->len) < 0;
}

static void insert(struct index_queue *u, const char *one, const char *two, bool has_room)
{
	struct index_unit_ref refs[2] = { { one, strlen(one) }, { two, strlen(two) } };

	assert_int_equal(index_queue_insert(u, refs, 2, is_before, NULL), has_room);
}

/* To the last one. */
static void check_order(struct index_queue *u, const char *const *want, size_t nr)
{
	struct index_unit_ref top;
	char unit[64];
	size_t len;

	assert_int_equal(u->nr, nr);
	for (size_t i = 0; i < nr; i++) {
		assert_int_equal(index_queue_top(u, &top, NULL), 1);
		assert_int_equal(top.len, strlen(want[i]));
		assert_memory_equal(top.unit, want[i], top.len);
		assert_int_equal(index_queue_pop(u, unit, &len, NULL), 1);
		assert_int_equal(len, strlen(want[i]));
		assert_memory_equal(unit, want[i], len);
	}
	assert_int_equal(index_queue_top(u, &top, NULL), 0);
}

static void units_are_put_below_those_that_come_before_them(void **state)
{
	static const char *const want[] = { "a", "b", "cc", "ccc", "ccd", "d", "x", "y" };
	struct index_queue u;

	(void)state;
	assert_int_equal(index_queue_init(&u, 1024, test_dir(), NULL), 0);
	insert(&u, "x", "y", true);
	insert(&u, "cc", "d", true);
	insert(&u, "ccc", "ccd", true);
	insert(&u, "a", "b", true);
	check_order(&u, want, ARRAY_LEN(want));
	index_queue_release(&u);
}

static void units_without_room_are_not_put_in(void **state)
{
	struct index_queue u;
	char unit[64];
	size_t len;

	(void)state;
	assert_int_equal(index_queue_init(&u, 4 * 12, test_dir(), NULL), 0);
	insert(&u, "bbbb", "cccc", true);
	insert(&u, "aaaa", "aaab", true);
	insert(&u, "0000", "0001", false);
	assert_int_equal(u.nr, 4);
	assert_int_equal(index_queue_pop(&u, unit, &len, NULL), 1);
	insert(&u, "0000", "0001", false);
	assert_int_equal(index_queue_pop_oldest(&u, unit, sizeof(unit), &len), 1);
	insert(&u, "0000", "0001", true);
	assert_int_equal(u.nr, 4);
	assert_int_equal(index_queue_pop(&u, unit, &len, NULL), 1);
	assert_memory_equal(unit, "0000", 4);
	index_queue_release(&u);
}

static void units_with_others_between_them_are_not_put_in(void **state)
{
	static const char *const want[] = { "a", "a", "a", "b", "b", "bb", "bc", "d" };
	struct index_queue u;

	(void)state;
	assert_int_equal(index_queue_init(&u, 1024, test_dir(), NULL), 0);
	insert(&u, "b", "d", true);
	insert(&u, "a", "c", false);
	insert(&u, "c", "e", false);
	insert(&u, "a", "e", false);
	insert(&u, "bb", "bc", true);
	insert(&u, "b", "bb", false);
	insert(&u, "a", "b", true);
	insert(&u, "a", "a", true);
	check_order(&u, want, ARRAY_LEN(want));
	index_queue_release(&u);
}

static void units_that_may_belong_into_the_file_are_not_put_in(void **state)
{
	struct index_queue u;
	char unit[64];
	size_t len;

	(void)state;
	assert_int_equal(index_queue_init(&u, 120, test_dir(), NULL), 0);
	for (char c = 'z'; c > 'z' - 14; c--)
		assert_int_equal(index_queue_push(&u, &c, 1, NULL), 0);
	assert_true(u.nr_blocks > 0);
	insert(&u, "zz", "zzz", false);
	while (u.nr > 0)
		assert_int_equal(index_queue_pop(&u, unit, &len, NULL), 1);
	insert(&u, "zz", "zzz", true);
	index_queue_release(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units_come_back_newest_first_also_from_the_file),
		cmocka_unit_test(units_may_be_empty),
		cmocka_unit_test(units_keep_their_order_whatever_is_done_to_them),
		cmocka_unit_test(the_oldest_stays_where_there_is_no_room_for_it),
		cmocka_unit_test(what_each_is_told_is_handed_on),
		cmocka_unit_test(units_that_cannot_be_put_aside_are_told_and_the_others_stay),
		cmocka_unit_test(a_file_of_units_that_may_not_grow_is_told),
		cmocka_unit_test(a_file_of_units_that_was_cut_is_told),
		cmocka_unit_test(units_are_put_below_those_that_come_before_them),
		cmocka_unit_test(units_without_room_are_not_put_in),
		cmocka_unit_test(units_with_others_between_them_are_not_put_in),
		cmocka_unit_test(units_that_may_belong_into_the_file_are_not_put_in),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
