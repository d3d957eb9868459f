/*
 * Goal: whatever order entries come in, a chunk and a batch bring them into order with what was
 * said of them, equal names in the order they came in; and directories that came one after the
 * other are not sorted name by name.
 */
#include "index/chunk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "help.h"
#include "index/batch.h"

#define CHUNK_BYTES (1u << 20)
#define NAMES_MAX   20000u

/* ---- Chunks ---- */

struct names {
	char name[NAMES_MAX][32];
	size_t nr;
};

static const struct names *sorting;

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int c = strcmp(sorting->name[x], sorting->name[y]);

	return c ? c : (x > y) - (x < y);
}

/* The numbers of the names in the order that is right. */
static uint32_t *right_order(const struct names *n)
{
	uint32_t *order = allocate(n->nr + 1, sizeof(*order));

	for (uint32_t i = 0; i < n->nr; i++)
		order[i] = i;
	sorting = n;
	qsort(order, n->nr, sizeof(*order), compare);
	return order;
}

/* Names in the pack, in the order that is right, with what was said of them, up to its last byte.
 */
static void check_pack(const struct index_pack *p, const struct names *n, bool etags)
{
	uint32_t *order = right_order(n);
	const uint8_t *at = p->bytes;

	for (size_t i = 0; i < n->nr; i++) {
		struct shoal_entry e = { 0 };
		size_t nr = order[i];

		assert_true(at < p->bytes + p->len);
		e.name = index_pack_name(at, &e.len);
		at = index_pack_tail(p, e.name + e.len, &e);
		assert_int_equal(e.size, nr);
		assert_int_equal(e.samples, nr % 300);
		assert_int_equal(e.len, strlen(n->name[nr]));
		assert_memory_equal(e.name, n->name[nr], e.len);
		assert_true(p->shared <= e.len);
		assert_memory_equal(e.name, n->name[order[0]], p->shared);
		assert_int_equal(e.etag != NULL, etags);
		if (etags)
			assert_memory_equal(e.etag, &nr, sizeof(nr));
	}
	assert_ptr_equal(at, p->bytes + p->len);
	free(order);
}

/* Sort the names in a chunk, each with its number as its size. True: by stretches, so that the
 * references stayed as they were. */
static bool sort_and_check(const struct names *n, bool etags)
{
	uint8_t *bytes = allocate(CHUNK_BYTES, 1), *spare = allocate(CHUNK_BYTES, 1), *to;
	struct shoal_etag etag = { 0 };
	struct index_pack pack;
	struct index_ref *refs;
	struct index_chunk c;
	bool stayed;

	index_chunk_init(&c, bytes, CHUNK_BYTES);
	for (size_t i = 0; i < n->nr; i++) {
		memcpy(&etag, &i, sizeof(i));
		assert_true(index_chunk_put(
			&c, &(struct shoal_entry){ .name = (const uint8_t *)n->name[i],
						   .len = strlen(n->name[i]),
						   .size = i,
						   .samples = i % 300,
						   .etag = etags ? &etag : NULL }));
	}
	refs = allocate(n->nr, sizeof(*refs));
	memcpy(refs, index_chunk_refs(&c), n->nr * sizeof(*refs));
	to = allocate(c.packed, 1); /* to the byte: ASan sees one too many */
	pack = index_chunk_sort(&c, spare, to);
	stayed = memcmp(refs, index_chunk_refs(&c), n->nr * sizeof(*refs)) == 0;
	check_pack(&pack, n, etags);
	free(refs);
	free(to);
	free(bytes);
	free(spare);
	return stayed;
}

static void __attribute__((format(printf, 2, 3))) add(struct names *n, const char *format, ...)
{
	va_list args;

	assert_true(n->nr < NAMES_MAX);
	va_start(args, format);
	vsnprintf(n->name[n->nr++], sizeof(n->name[0]), format, args);
	va_end(args);
}

static void directories_that_came_one_after_the_other_only_change_places(void **state)
{
	struct names *n = allocate(1, sizeof(*n));

	(void)state;
	for (int etags = 0; etags < 2; etags++) {
		n->nr = 0;
		for (unsigned d = 0; d < 50; d++)
			for (unsigned i = 0; i < 100; i++)
				add(n, "%03u/file-%03u", d * 17 % 50, i);
		assert_true(sort_and_check(n, etags));
	}
	free(n);
}

static void names_that_came_in_order_stay_where_they_are(void **state)
{
	struct names *n = allocate(1, sizeof(*n));

	(void)state;
	assert_true(sort_and_check(n, false)); /* also none */
	for (unsigned i = 0; i < 10000; i++) {
		add(n, "%05u", i);
		if (i == 0)
			assert_true(sort_and_check(n, false));
	}
	assert_true(sort_and_check(n, true));
	free(n);
}

/* A file between the directories of its own directory, say. */
static void stretches_that_lie_within_others_are_taken_apart(void **state)
{
	struct names *n = allocate(1, sizeof(*n));

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		add(n, "dir-%02u", i);
	for (unsigned i = 0; i < 100; i++)
		add(n, "dir-50/%03u", i);
	assert_false(sort_and_check(n, false));
	free(n);
}

static void equal_names_of_two_stretches_stay_in_the_order_they_came_in(void **state)
{
	struct names *n = allocate(1, sizeof(*n));

	(void)state;
	for (unsigned again = 0; again < 2; again++) /* all alike */
		for (unsigned i = 0; i < 100; i++)
			add(n, "d/%03u", i);
	assert_false(sort_and_check(n, false));
	n->nr = 0; /* the last of what came later is the first of what came before */
	for (unsigned i = 99; i < 200; i++)
		add(n, "d/%03u", i);
	for (unsigned i = 0; i < 100; i++)
		add(n, "d/%03u", i);
	assert_false(sort_and_check(n, false));
	n->nr = 0; /* the neighbour is not the same */
	for (unsigned i = 100; i < 200; i++)
		add(n, "d/%03u", i);
	for (unsigned i = 0; i < 100; i++)
		add(n, "d/%03u", i);
	assert_true(sort_and_check(n, false));
	free(n);
}

/* Sixteen stretches, and one for each 32 names before, are few enough. */
static void stretches_of_any_length_are_sorted(void **state)
{
	static const struct {
		unsigned directories, files;
		bool few;
	} row[] = {
		{ 16, 1, true },   { 17, 1, false },   { 31, 16, true },  { 35, 16, false },
		{ 600, 32, true }, { 600, 30, false }, { 50, 300, true }, { 3000, 2, false },
	};
	struct names *n = allocate(1, sizeof(*n));

	(void)state;
	for (size_t k = 0; k < SHOAL_ARRAY_LEN(row); k++) {
		n->nr = 0;
		for (unsigned d = 0; d < row[k].directories; d++)
			for (unsigned i = 0; i < row[k].files; i++)
				add(n, "%05u/%05u", (d * 7919 + 11) % row[k].directories, i);
		if (sort_and_check(n, false) != row[k].few)
			fail_msg("row %zu", k);
	}
	free(n);
}

static void names_at_random_are_sorted(void **state)
{
	struct names *n = allocate(1, sizeof(*n));

	(void)state;
	for (int round = 0; round < 40; round++) {
		unsigned directories = 1 + (unsigned)random_below(40);
		unsigned files = 1 + (unsigned)random_below(300);
		size_t nr = random_below(3000);

		n->nr = 0;
		while (n->nr < nr) { /* directories once or again, files forwards or anyhow */
			unsigned d = (unsigned)random_below(directories);
			unsigned first = (unsigned)random_below(files);
			unsigned len = 1 + (unsigned)random_below(100);
			bool rising = random_below(4) > 0;

			for (unsigned i = 0; i < len && n->nr < nr; i++)
				add(n, d % 3 ? "%u/%u" : "%02u/%06u", d,
				    rising ? first + i : (unsigned)random_below(files));
		}
		(void)sort_and_check(n, round % 2);
	}
	free(n);
}

static void names_of_any_length_are_packed(void **state)
{
	static const size_t len[] = { 1, 2, 127, 128, 129, 255, 256, SHOAL_NAME_MAX };
	uint8_t *bytes = allocate(CHUNK_BYTES, 1), *spare = allocate(CHUNK_BYTES, 1), *to;
	uint8_t name[SHOAL_NAME_MAX];
	struct index_pack pack;
	struct index_chunk c;
	const uint8_t *at;

	(void)state;
	memset(name, 'n', sizeof(name));
	index_chunk_init(&c, bytes, CHUNK_BYTES);
	for (size_t i = SHOAL_ARRAY_LEN(len); i-- > 0;)
		assert_true(index_chunk_put(&c, &(struct shoal_entry){ .name = name,
								       .len = len[i],
								       .size = UINT64_MAX - i,
								       .samples = UINT64_MAX }));
	to = allocate(c.packed, 1);
	pack = index_chunk_sort(&c, spare, to);
	assert_int_equal(pack.shared, 1);
	at = pack.bytes;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(len); i++) {
		struct shoal_entry e;

		e.name = index_pack_name(at, &e.len);
		at = index_pack_tail(&pack, e.name + e.len, &e);
		assert_int_equal(e.len, len[i]);
		assert_memory_equal(e.name, name, e.len);
		assert_int_equal(e.size, UINT64_MAX - i);
		assert_int_equal(e.samples, UINT64_MAX);
	}
	assert_ptr_equal(at, pack.bytes + pack.len);
	free(bytes);
	free(spare);
	free(to);
}

/* ---- Batches ---- */

struct found {
	char names[STORE_FOUND_MAX * 16];
	struct store_entry entry[STORE_FOUND_MAX + 1];
	struct shoal_etag etag[STORE_FOUND_MAX];
	size_t nr, fill;
};

static void find(struct found *f, unsigned number)
{
	char *name = f->names + f->fill;
	int len = snprintf(name, 16, "d/%05u", number);

	f->entry[f->nr] = (struct store_entry){
		.name = name, .len = (size_t)len, .size = f->nr, .etag = &f->etag[f->nr]
	};
	f->nr++;
	f->fill += (size_t)len + 1;
}

static void a_batch_comes_out_in_order_with_all_that_was_found(void **state)
{
	struct found *f = allocate(1, sizeof(*f));
	struct index_batch *b = allocate(1, sizeof(*b));

	(void)state;
	for (unsigned nr = 2; nr <= STORE_FOUND_MAX; nr = nr < 64 ? nr + 1 : nr * 2) {
		const struct store_entry *got;

		f->nr = f->fill = 0;
		for (unsigned i = 0; i < nr; i++) /* each name twice */
			find(f, (nr - i) / 2 * 3);
		got = index_batch_sort(b, f->entry, nr);
		assert_ptr_equal(got, b->sorted);
		for (unsigned i = 0; i < nr; i++) {
			assert_ptr_equal(got[i].name, f->entry[got[i].size].name);
			assert_ptr_equal(got[i].etag, &f->etag[got[i].size]);
			if (i > 0) {
				int c = strcmp(got[i - 1].name, got[i].name);

				assert_true(c < 0 || (c == 0 && got[i - 1].size < got[i].size));
			}
		}
	}
	free(f);
	free(b);
}

static void what_need_not_or_cannot_be_sorted_at_once_is_left_as_it_is(void **state)
{
	struct found *f = allocate(1, sizeof(*f));
	struct index_batch *b = allocate(1, sizeof(*b));
	struct store_entry swapped[3];

	(void)state;
	find(f, 3);
	assert_ptr_equal(index_batch_sort(b, f->entry, 1), f->entry);
	find(f, 4);
	find(f, 5);
	assert_ptr_equal(index_batch_sort(b, f->entry, 3), f->entry); /* in order */
	find(f, 1);
	assert_ptr_equal(index_batch_sort(b, f->entry, 4), b->sorted);
	swapped[0] = f->entry[0]; /* they do not lie in the order they came in */
	swapped[1] = f->entry[2];
	swapped[2] = f->entry[1];
	assert_ptr_equal(index_batch_sort(b, swapped, 3), swapped);
	while (f->nr < STORE_FOUND_MAX)
		find(f, (unsigned)random_below(1000));
	assert_ptr_equal(index_batch_sort(b, f->entry, f->nr), b->sorted);
	assert_ptr_equal(index_batch_sort(b, f->entry, f->nr + 1), f->entry); /* never so many */
	free(f);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directories_that_came_one_after_the_other_only_change_places),
		cmocka_unit_test(names_that_came_in_order_stay_where_they_are),
		cmocka_unit_test(stretches_that_lie_within_others_are_taken_apart),
		cmocka_unit_test(equal_names_of_two_stretches_stay_in_the_order_they_came_in),
		cmocka_unit_test(stretches_of_any_length_are_sorted),
		cmocka_unit_test(names_at_random_are_sorted),
		cmocka_unit_test(names_of_any_length_are_packed),
		cmocka_unit_test(a_batch_comes_out_in_order_with_all_that_was_found),
		cmocka_unit_test(what_need_not_or_cannot_be_sorted_at_once_is_left_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
