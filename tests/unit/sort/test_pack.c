/*
 * Goal: whatever order entries come in, one by one or in groups, a packer brings them into order
 * with their payloads, and of equal names keeps the one that came last; directories that came one
 * after the other are not sorted name by name; and a pack is split by any name.
 */
#include "sort/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "entries.h"
#include "help.h"

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

/* Each name is once in the pack, in the order that is right, with what was last said of it, and
 * nothing follows. */
static void check_pack(const struct pack *p, const struct names *n, bool etags)
{
	uint32_t *order = right_order(n);
	const uint8_t *at = p->bytes;
	size_t kept = 0;

	for (size_t i = 0; i < n->nr; i++) {
		struct sort_entry e = { 0 };
		struct index_record r;
		size_t nr = order[i];

		if (i + 1 < n->nr && strcmp(n->name[nr], n->name[order[i + 1]]) == 0)
			continue; /* a later one follows */
		assert_true(at < p->bytes + p->len);
		if (kept > 0 && kept % PACK_MARK == 0)
			assert_int_equal(p->mark[kept / PACK_MARK - 1], at - p->bytes);
		kept++;
		at = pack_entry(at, &e);
		r = index_record_of(&e);
		assert_int_equal(r.size, nr);
		assert_int_equal(r.samples, nr % 300);
		assert_int_equal(e.len, strlen(n->name[nr]));
		assert_memory_equal(e.name, n->name[nr], e.len);
		assert_true(p->shared <= e.len);
		assert_memory_equal(e.name, n->name[order[0]], p->shared);
		assert_int_equal(r.etag != NULL, etags);
		if (etags)
			assert_memory_equal(r.etag, &nr, sizeof(nr));
	}
	assert_int_equal(p->nr, kept);
	assert_int_equal(p->repeated, n->nr - kept);
	assert_ptr_equal(at, p->bytes + p->len);
	free(order);
}

/* Sort the names in a chunk, each with its number as its size. True: by stretches, so that the
 * references stayed as they were. */
static bool sort_and_check(const struct names *n, bool etags)
{
	uint8_t *bytes = allocate(CHUNK_BYTES, 1), *spare = allocate(CHUNK_BYTES, 1), *to;
	struct etag etag = { 0 };
	struct pack pack;
	struct sort_ref *refs;
	struct packer c;
	bool stayed;

	packer_init(&c, bytes, CHUNK_BYTES);
	for (size_t i = 0; i < n->nr; i++) {
		uint8_t payload[INDEX_RECORD_MAX];
		struct sort_entry e;

		memcpy(&etag, &i, sizeof(i));
		e = entry_with(n->name[i], strlen(n->name[i]), i, i % 300, etags ? &etag : NULL,
			       payload);
		assert_int_equal(packer_put(&c, &e, 1), 1);
	}
	refs = allocate(n->nr, sizeof(*refs));
	memcpy(refs, packer_refs(&c), n->nr * sizeof(*refs));
	to = allocate(packer_packed(&c), 1); /* to the byte: ASan sees one too many */
	pack = packer_sort(&c, spare, to);
	stayed = memcmp(refs, packer_refs(&c), n->nr * sizeof(*refs)) == 0;
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

static void of_equal_names_of_two_stretches_the_later_is_kept(void **state)
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

/* Four stretches, and one more per 32 names before, are few enough. */
static void stretches_of_any_length_are_sorted(void **state)
{
	static const struct {
		unsigned directories, files;
		bool few;
	} row[] = {
		{ 4, 1, true },    { 5, 1, false },    { 7, 16, true },   { 8, 16, false },
		{ 600, 32, true }, { 600, 30, false }, { 50, 300, true }, { 3000, 2, false },
	};
	struct names *n = allocate(1, sizeof(*n));

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(row); k++) {
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
	struct pack pack;
	struct packer c;
	const uint8_t *at;

	(void)state;
	memset(name, 'n', sizeof(name));
	packer_init(&c, bytes, CHUNK_BYTES);
	for (size_t i = ARRAY_LEN(len); i-- > 0;) {
		uint8_t payload[INDEX_RECORD_MAX];
		struct sort_entry e =
			entry_with(name, len[i], UINT64_MAX - i, UINT64_MAX, NULL, payload);

		assert_int_equal(packer_put(&c, &e, 1), 1);
	}
	to = allocate(packer_packed(&c), 1);
	pack = packer_sort(&c, spare, to);
	assert_int_equal(pack.shared, 1);
	at = pack.bytes;
	for (size_t i = 0; i < ARRAY_LEN(len); i++) {
		struct sort_entry e;

		at = pack_entry(at, &e);
		assert_int_equal(e.len, len[i]);
		assert_memory_equal(e.name, name, e.len);
		assert_int_equal(index_record_of(&e).size, UINT64_MAX - i);
		assert_int_equal(index_record_of(&e).samples, UINT64_MAX);
	}
	assert_ptr_equal(at, pack.bytes + pack.len);
	free(bytes);
	free(spare);
	free(to);
}

/* ---- Groups ---- */

/* Put the names in groups of @group, each sorted at once. */
static bool sort_groups_and_check(const struct names *n, size_t group)
{
	uint8_t *bytes = allocate(CHUNK_BYTES, 1), *spare = allocate(CHUNK_BYTES, 1), *to;
	struct sort_entry *entry = allocate(group, sizeof(*entry));
	uint8_t(*payload)[INDEX_RECORD_MAX] = allocate(group, sizeof(*payload));
	struct sort_ref *refs = allocate(group, sizeof(*refs));
	struct pack pack;
	struct packer c;
	bool mixed;

	packer_init(&c, bytes, CHUNK_BYTES);
	for (size_t first = 0; first < n->nr; first += group) {
		size_t nr = (size_t)u64_min(group, n->nr - first);

		for (size_t i = 0; i < nr; i++)
			entry[i] = entry_with(n->name[first + i], strlen(n->name[first + i]),
					      first + i, (first + i) % 300, NULL, payload[i]);
		assert_int_equal(packer_put_group(&c, entry, nr, refs), nr);
	}
	to = allocate(packer_packed(&c), 1);
	mixed = c.mixed;
	pack = packer_sort(&c, spare, to);
	check_pack(&pack, n, false);
	free(refs);
	free(payload);
	free(entry);
	free(to);
	free(bytes);
	free(spare);
	return !mixed;
}

static void groups_are_sorted_when_they_come_and_then_only_change_places(void **state)
{
	struct names *n = allocate(1, sizeof(*n));

	(void)state;
	for (unsigned d = 0; d < 50; d++)
		for (unsigned i = 0; i < 100; i++)
			add(n, "%03u/file-%03u", d * 17 % 50, i * 37 % 100);
	assert_true(sort_groups_and_check(n, 100));
	assert_true(sort_groups_and_check(n, 50)); /* which overlap */
	assert_false(sort_groups_and_check(n, 1));
	free(n);
}

static void a_group_with_a_name_twice_is_sorted_name_by_name(void **state)
{
	struct names *n = allocate(1, sizeof(*n));

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		add(n, "d/%03u", (i * 37 + 1) % 100);
	assert_true(sort_groups_and_check(n, 100));
	strcpy(n->name[70], n->name[20]);
	assert_false(sort_groups_and_check(n, 100));
	n->nr = 0;
	for (unsigned i = 0; i < 5000; i++)
		add(n, "%u", i * 7919 % 1000);
	(void)sort_groups_and_check(n, 2048);
	free(n);
}

static void of_a_group_as_many_are_put_as_there_is_room_for(void **state)
{
	uint8_t *bytes = allocate(PACKER_MIN, 1);
	struct sort_entry entry[64];
	struct sort_ref spare[64];
	struct packer c;
	size_t put = 0, more;

	(void)state;
	for (unsigned i = 0; i < 64; i++)
		entry[i] = (struct sort_entry){ .name = (const uint8_t *)"x", .len = 1 };
	packer_init(&c, bytes, PACKER_MIN);
	while ((more = packer_put_group(&c, entry, 10, spare)) > 0)
		put += more;
	assert_int_equal(put, PACKER_MIN / (sizeof(struct sort_ref) + 2));
	assert_int_equal(c.nr, put);
	free(bytes);
}

/* ---- Searching ---- */

static void a_pack_is_split_at_any_name(void **state)
{
	static const size_t nrs[] = { 0, 1, 63, 64, 65, 128, 129, 1000 };

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(nrs); k++) {
		uint8_t *bytes = allocate(CHUNK_BYTES, 1), *spare = allocate(CHUNK_BYTES, 1), *to;
		struct pack pack;
		struct packer c;

		packer_init(&c, bytes, CHUNK_BYTES);
		for (size_t i = 0; i < nrs[k]; i++) { /* 1, 3, 5, ... */
			char name[16];
			int len = snprintf(name, sizeof(name), "%06zu", 2 * i + 1);

			struct sort_entry e = { .name = (const uint8_t *)name, .len = (size_t)len };

			assert_int_equal(packer_put(&c, &e, 1), 1);
		}
		to = allocate(packer_packed(&c), 1);
		pack = packer_sort(&c, spare, to);
		for (size_t i = 0; i <= 2 * nrs[k] + 1; i++) {
			char name[16];
			size_t len = (size_t)snprintf(name, sizeof(name), "%06zu", i), want;

			for (int with = 0; with < 2; with++) {
				const uint8_t *at = pack_split(&pack, pack.bytes,
							       (const uint8_t *)name, len, with);

				want = i / 2 + (with && i % 2 && i < 2 * nrs[k]);
				assert_ptr_equal(at, pack.bytes + want * 8); /* of 8 bytes each */
			}
		}
		if (nrs[k] > 100) /* not before where it begins */
			assert_ptr_equal(pack_split(&pack, pack.bytes + 100 * 8,
						    (const uint8_t *)"0", 1, true),
					 pack.bytes + 100 * 8);
		free(to);
		free(bytes);
		free(spare);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directories_that_came_one_after_the_other_only_change_places),
		cmocka_unit_test(names_that_came_in_order_stay_where_they_are),
		cmocka_unit_test(stretches_that_lie_within_others_are_taken_apart),
		cmocka_unit_test(of_equal_names_of_two_stretches_the_later_is_kept),
		cmocka_unit_test(stretches_of_any_length_are_sorted),
		cmocka_unit_test(names_at_random_are_sorted),
		cmocka_unit_test(names_of_any_length_are_packed),
		cmocka_unit_test(groups_are_sorted_when_they_come_and_then_only_change_places),
		cmocka_unit_test(a_group_with_a_name_twice_is_sorted_name_by_name),
		cmocka_unit_test(of_a_group_as_many_are_put_as_there_is_room_for),
		cmocka_unit_test(a_pack_is_split_at_any_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
