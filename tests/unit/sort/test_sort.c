/*
 * Goal: any names in any order come out sorted, each once with what was said of it last, in little
 * memory and with a stack that names cannot make deep; and the sorter stops when it is asked to.
 */
#include "sort/sort.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/name.h"
#include "base/publish.h"
#include "base/queue.h"
#include "entries.h"
#include "help.h"
#include "sort/radix.h"
#include "sort/run.h"

/* ---- The radix sort ---- */

/* Names one after the other, and references to them. */
struct pile {
	uint8_t *bytes;
	size_t fill;
	struct sort_ref *refs, *spare;
	size_t nr;
};

static const uint8_t *sort_bytes;

static int compare_refs(const void *a, const void *b)
{
	const struct sort_ref *x = a, *y = b;
	int c = memcmp(sort_bytes + x->off, sort_bytes + y->off, x->len < y->len ? x->len : y->len);

	if (c)
		return c;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return (x->off > y->off) - (x->off < y->off);
}

static void pile_init(struct pile *p, size_t nr, size_t bytes)
{
	*p = (struct pile){ .bytes = allocate(bytes, 1), .refs = allocate(nr, sizeof(*p->refs)) };
}

static void pile_add(struct pile *p, const void *name, size_t len)
{
	memcpy(p->bytes + p->fill, name, len);
	p->refs[p->nr++] = (struct sort_ref){ .off = (uint32_t)p->fill, .len = (uint16_t)len };
	p->fill += len;
}

static void pile_check(struct pile *p, uint32_t depth)
{
	struct sort_ref *want = allocate(p->nr, sizeof(*want));
	struct sort_ref *spare = allocate(p->nr, sizeof(*spare));

	memcpy(want, p->refs, p->nr * sizeof(*want));
	sort_bytes = p->bytes;
	qsort(want, p->nr, sizeof(*want), compare_refs);
	sort_radix(p->bytes, p->refs, spare, p->nr, depth);
	for (size_t i = 0; i < p->nr; i++) {
		assert_int_equal(p->refs[i].off, want[i].off);
		assert_int_equal(p->refs[i].len, want[i].len);
	}
	free(want);
	free(spare);
	free(p->bytes);
	free(p->refs);
}

static void the_radix_sort_does_what_qsort_does(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		size_t nr = random_below(round % 3 ? 300 : 20000);
		unsigned letters = 1 + (unsigned)random_below(round % 2 ? 3 : 255);
		unsigned longest = 1 + (unsigned)random_below(round % 5 ? 12 : 60);
		struct pile p;

		pile_init(&p, nr, nr * 64);
		for (size_t i = 0; i < nr; i++) {
			uint8_t name[64];
			size_t len = 1 + random_below(longest);

			for (size_t k = 0; k < len; k++)
				name[k] = (uint8_t)(1 + random_below(letters));
			pile_add(&p, name, len);
		}
		pile_check(&p, 0);
	}
}

static void what_all_names_start_with_may_be_left_out(void **state)
{
	(void)state;
	for (uint32_t depth = 0; depth <= 40; depth++) {
		struct pile p;

		pile_init(&p, 500, 500 * 64);
		for (size_t i = 0; i < 500; i++) {
			char name[64];
			int n = snprintf(name, sizeof(name), "%.40s%u",
					 "the same forty bytes in each of the names.",
					 (unsigned)random_below(300));

			pile_add(&p, name, (size_t)n);
		}
		pile_check(&p, depth);
	}
}

/* Each name is one byte longer than the one before, or ends one byte later in another letter. */
static void *sort_staircase(void *arg)
{
	struct pile *p = arg;

	sort_radix(p->bytes, p->refs, p->spare, p->nr, 0);
	return NULL;
}

static void names_that_split_one_by_one_need_no_deep_stack(void **state)
{
	(void)state;
	for (int shape = 0; shape < 3; shape++) {
		size_t nr = 4000;
		struct pile p, copy;
		pthread_t thread;

		pile_init(&p, nr, nr * SHOAL_NAME_MAX);
		for (size_t i = 0; i < nr; i++) {
			static uint8_t name[SHOAL_NAME_MAX];
			size_t at = i * 7 % nr, len = at + 1;

			memset(name, 'a', sizeof(name));
			if (shape > 0)
				name[at] = 'b';
			if (shape == 2)
				len = sizeof(name);
			pile_add(&p, name, len);
		}
		copy = p;
		copy.refs = allocate(nr, sizeof(*p.refs));
		copy.spare = allocate(nr, sizeof(*p.refs));
		memcpy(copy.refs, p.refs, nr * sizeof(*p.refs));
		/* On a stack as the sorter has it: 256 KiB. */
		assert_int_equal(thread_start(&thread, sort_staircase, &copy), 0);
		pthread_join(thread, NULL);
		free(copy.refs);
		free(copy.spare);
		pile_check(&p, 0);
	}
}

static void a_key_is_the_next_eight_bytes(void **state)
{
	const uint8_t *name = (const uint8_t *)"abcdefghij";

	(void)state;
	assert_int_equal(name_key(name, 10, 0), UINT64_C(0x6162636465666768));
	assert_int_equal(name_key(name, 10, 2), UINT64_C(0x636465666768696a));
	assert_int_equal(name_key(name, 10, 3), UINT64_C(0x6465666768696a00));
	assert_int_equal(name_key(name, 10, 9), UINT64_C(0x6a00000000000000));
	assert_int_equal(name_key(name, 10, 10), 0);
	assert_int_equal(name_key(name, 10, 4000), 0);
}

/* ---- The sorter ---- */

struct taken {
	const struct test_list *want; /* NULL: only count, and check the order */
	size_t nr;
	size_t stop_at; /* set the flag after so many; 0: never */
	int *stop;
	char last[SHOAL_NAME_MAX];
	size_t last_len;
};

static int take(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct taken *t = self;

	(void)err;
	if (t->want) {
		const struct test_entry *w = &t->want->entry[t->nr];

		if (t->nr >= t->want->nr || w->len != e->len ||
		    memcmp(w->name, e->name, e->len) != 0 || w->size != index_record_of(e).size ||
		    w->samples != index_record_of(e).samples)
			return -EPROTO;
	} else {
		int c = memcmp(t->last, e->name, t->last_len < e->len ? t->last_len : e->len);

		if (t->nr > 0 && (c > 0 || (c == 0 && t->last_len >= e->len)))
			return -EPROTO;
		memcpy(t->last, e->name, e->len);
		t->last_len = e->len;
	}
	if (++t->nr == t->stop_at)
		__atomic_store_n(t->stop, 1, __ATOMIC_RELAXED);
	return 0;
}

static unsigned nr_threads; /* to sort: all is tried with one, and with as many as there may be */

static struct sorter *new_sorter(size_t memory, const int *stop)
{
	struct sorter_options options = {
		.memory = memory, .tmp_dir = test_dir(), .stop = stop, .nr_threads = nr_threads
	};
	struct sorter *s = NULL;
	struct shoal_err err = { "" };

	if (sorter_new(&options, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

static void add_entry(struct sorter *s, const void *name, size_t len, uint64_t size,
		      uint64_t samples)
{
	uint8_t payload[INDEX_RECORD_MAX];
	struct sort_entry e = entry_with(name, len, size, samples, NULL, payload);
	struct shoal_err err = { "" };

	if (sorter_add(s, &e, &err) < 0)
		fail_msg("%s", err.msg);
}

/* Sort the list, which is then sorted itself to compare; its later entries count. */
static void check_list(struct test_list *l, size_t memory)
{
	struct sorter *s = new_sorter(memory, NULL);
	struct shoal_err err = { "" };
	struct taken t = { .want = l };
	size_t added = l->nr;
	uint64_t repeated = 0;
	int rc;

	for (size_t i = 0; i < l->nr; i++)
		add_entry(s, l->entry[i].name, l->entry[i].len, l->entry[i].size,
			  l->entry[i].samples);
	list_sort(l); /* names in it are different */
	rc = sorter_finish(s, take, &t, NULL, &repeated, &err);
	if (rc < 0)
		fail_msg("%d: %s, at %zu", rc, err.msg, t.nr);
	assert_int_equal(t.nr, l->nr);
	assert_int_equal(repeated, added - l->nr);
	assert_null(sorter_free(s));
	assert_int_equal(test_dir_count(), 0);
}

static void names_in_any_order_come_out_sorted(void **state)
{
	static const struct {
		size_t nr;
		size_t memory;
	} row[] = {
		{ 0, SORTER_MEMORY_MIN },     { 1, SORTER_MEMORY_MIN },
		{ 2, SORTER_MEMORY_MIN },     { 1000, SORTER_MEMORY_MIN },
		{ 3000, SORTER_MEMORY_MIN },  { 10000, SORTER_MEMORY_MIN },
		{ 90000, SORTER_MEMORY_MIN }, { 90000, 1 << 20 },
		{ 90000, 64 << 20 },
	};

	(void)state;
	for (size_t r = 0; r < ARRAY_LEN(row); r++)
		for (int shape = 0; shape < 3; shape++) {
			const size_t nr = SANITIZED ? u64_min(row[r].nr, 30000) : row[r].nr;
			struct test_list l = { 0 };

			for (size_t i = 0; i < nr; i++) {
				if (shape == 0)
					list_addf(&l, "%s%016" PRIx64,
						  "a/long/prefix/that/all/of/them/share/",
						  random_u64());
				else if (shape == 1)
					list_addf(&l, "%08zu", i * 7919 % 90001);
				else
					list_addf(&l, "%zu", i); /* many are sorted already */
				l.entry[i].size = i % 5 ? i : SHOAL_SIZE_UNKNOWN;
				l.entry[i].samples = random_u64() >> random_below(64);
			}
			check_list(&l, row[r].memory);
			list_release(&l);
		}
}

static void sorted_input_stays_as_it_is(void **state)
{
	struct test_list l = { 0 };

	(void)state;
	for (size_t i = 0; i < 50000; i++)
		list_addf(&l, "%09zu", i);
	check_list(&l, SORTER_MEMORY_MIN);
	list_release(&l);
}

static void the_longest_names_are_sorted_in_the_least_memory(void **state)
{
	struct test_list l = { 0 };

	(void)state;
	for (size_t i = 0; i < 1500; i++) {
		char name[SHOAL_NAME_MAX];

		memset(name, 'z', sizeof(name));
		name[i % 3 ? sizeof(name) - 1 - i : i] = 'y'; /* differ late, or early */
		list_add(&l, name, sizeof(name), UINT64_MAX - 1 - i, UINT64_MAX - i);
	}
	check_list(&l, SORTER_MEMORY_MIN);
	list_release(&l);
}

/* Bytes of 0xff are what the end of a run looks like in the merge. */
static void names_of_the_largest_bytes_are_not_taken_for_the_end(void **state)
{
	struct test_list l = { 0 };

	(void)state;
	for (size_t i = 0; i < 20000; i++) {
		uint8_t name[40];
		size_t len = 1 + random_below(sizeof(name));

		memset(name, 0xff, sizeof(name));
		name[random_below(len)] = (uint8_t)(1 + random_below(255));
		list_add(&l, name, len, 0, 0);
	}
	/* Which of equal ones is taken does not show: all are said to have 0 bytes. */
	check_list(&l, SORTER_MEMORY_MIN);
	list_release(&l);
}

static void of_repeated_names_the_last_one_counts(void **state)
{
	static const struct {
		uint64_t nr, different;
	} row[] = { { 2, 1 }, { 10, 3 }, { 3000, 1 }, { 60000, 7 }, { 60000, 25000 } };

	(void)state;
	for (size_t r = 0; r < ARRAY_LEN(row); r++) {
		struct sorter *s = new_sorter(SORTER_MEMORY_MIN, NULL);
		struct test_list l = { 0 };
		struct taken t = { .want = &l };
		struct shoal_err err = { "" };
		uint64_t repeated = 0;

		for (uint64_t i = 0; i < row[r].different; i++)
			list_addf(&l, "name-%08" PRIu64, i);
		for (uint64_t i = 0; i < row[r].nr; i++) {
			struct test_entry *e = &l.entry[i * 7919 % row[r].different];

			e->size = i;
			e->samples = i + 1;
			add_entry(s, e->name, e->len, e->size, e->samples);
		}
		if (sorter_finish(s, take, &t, NULL, &repeated, &err) < 0)
			fail_msg("%s, at %zu", err.msg, t.nr);
		assert_int_equal(t.nr, row[r].different);
		assert_int_equal(repeated, row[r].nr - row[r].different);
		sorter_free(s);
		list_release(&l);
	}
}

static void millions_of_equal_names_become_one(void **state)
{
	struct sorter *s = new_sorter(4 << 20, NULL);
	struct taken t = { 0 };
	const uint64_t nr = SANITIZED ? 300000 : 2000000; /* more than fit into the memory */
	uint64_t repeated = 0;

	(void)state;
	for (uint64_t i = 0; i < nr; i++)
		add_entry(s, "one and the same name", 21, i, 1);
	assert_int_equal(sorter_finish(s, take, &t, NULL, &repeated, NULL), 0);
	assert_int_equal(t.nr, 1);
	assert_int_equal(repeated, nr - 1);
	sorter_free(s);
}

static int count_rising(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct taken *t = self;

	(void)err;
	if (t->nr > 0 && name_compare(t->last, t->last_len, e->name, e->len) >= 0)
		return -EBADMSG;
	memcpy(t->last, e->name, e->len);
	t->last_len = e->len;
	t->nr++;
	return 0;
}

static void *nothing(void *arg)
{
	return arg;
}

/* As somebody who may not have a second thread: whether @nr names come out sorted. */
static bool sorts_alone(uint32_t nr)
{
	const struct rlimit one = { 1, 1 };
	struct sorter *s = new_sorter(SORTER_MEMORY_MIN, NULL);
	struct taken t = { 0 };
	uint64_t repeated;
	pthread_t thread;
	bool good = setrlimit(RLIMIT_NPROC, &one) == 0 && setuid(54321) == 0 &&
		    thread_start(&thread, nothing, NULL) < 0;

	for (uint32_t i = 0; good && i < nr; i++) {
		char name[16];
		struct sort_entry e = { .name = (uint8_t *)name };

		e.len = (size_t)snprintf(name, sizeof(name), "%08x", i * 2654435761u);
		good = sorter_add(s, &e, NULL) == 0;
	}
	good = good && sorter_finish(s, count_rising, &t, NULL, &repeated, NULL) == 0;
	return good && t.nr == nr;
}

/* What the system refuses is done by who asked for it: in memory, and with runs. */
static void without_threads_it_sorts_all_the_same(void **state)
{
	static const uint32_t nrs[] = { 10, 1000, 60000 };

	(void)state;
	if (geteuid() != 0)
		skip(); /* only root can become somebody who has no threads yet */
	assert_int_equal(chmod(test_dir(), 0777), 0);
	for (size_t i = 0; i < ARRAY_LEN(nrs); i++) {
		int status = 0;
		pid_t child = fork();

		if (child == 0)
			_exit(sorts_alone(nrs[i]) ? 0 : 1);
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status != 0)
			fail_msg("%u names: status %x", nrs[i], (unsigned)status);
	}
}

/* ---- Stopping ---- */

static void add_many(struct sorter *s, uint64_t nr, int *stop, uint64_t stop_at, int *ret_rc)
{
	struct shoal_err err = { "" };
	int rc = 0;

	for (uint64_t i = 0; i < nr && rc == 0; i++) {
		char name[32];
		struct sort_entry e = { .name = (const uint8_t *)name };

		e.len = (size_t)snprintf(name, sizeof(name), "%016" PRIx64,
					 i * UINT64_C(0x9E3779B97F4A7C15));
		if (i == stop_at)
			__atomic_store_n(stop, 1, __ATOMIC_RELAXED);
		rc = sorter_add(s, &e, &err);
		if (rc < 0)
			assert_non_null(strstr(err.msg, "interrupted"));
	}
	*ret_rc = rc;
}

static void it_stops_while_it_gathers(void **state)
{
	static const uint64_t stop_at[] = { 0, 3000, 20000, 199999 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(stop_at); i++) {
		int stop = 0, rc;
		struct sorter *s = new_sorter(SORTER_MEMORY_MIN, &stop);
		struct taken t = { 0 };
		struct shoal_err err = { "" };
		uint64_t repeated;

		add_many(s, 200000, &stop, stop_at[i], &rc);
		if (rc == 0)
			rc = sorter_finish(s, take, &t, NULL, &repeated, &err);
		assert_int_equal(rc, -ECANCELED);
		sorter_free(s);
		assert_int_equal(test_dir_count(), 0);
	}
}

static void it_stops_while_it_merges(void **state)
{
	static const size_t stop_at[] = { 1, 1000, 60000 };
	const uint64_t nr = SANITIZED ? 200000 : 300000;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(stop_at); i++) {
		int stop = 0, rc;
		struct sorter *s = new_sorter(SORTER_MEMORY_MIN, &stop);
		struct taken t = { .stop_at = stop_at[i], .stop = &stop };
		struct shoal_err err = { "" };
		uint64_t repeated;

		add_many(s, nr, &stop, UINT64_MAX, &rc);
		assert_int_equal(rc, 0);
		assert_int_equal(sorter_finish(s, take, &t, NULL, &repeated, &err), -ECANCELED);
		assert_string_not_equal(err.msg, "");
		assert_true(t.nr < nr);
		sorter_free(s);
	}
}

static int refuse_later(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	unsigned *left = self;

	(void)e;
	return (*left)-- == 0 ? err_set(err, -ENOSPC, "no room") : 0;
}

static void what_the_taker_says_is_handed_on(void **state)
{
	static const struct {
		uint64_t nr;
		unsigned after;
	} row[] = { { 100, 0 }, { 100, 99 }, { 50000, 0 }, { 50000, 30000 }, { 50000, 49999 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct sorter *s = new_sorter(SORTER_MEMORY_MIN, NULL);
		struct shoal_err err = { "" };
		unsigned left = row[i].after;
		uint64_t repeated;
		int rc;

		add_many(s, row[i].nr, NULL, UINT64_MAX, &rc);
		assert_int_equal(rc, 0);
		assert_int_equal(sorter_finish(s, refuse_later, &left, NULL, &repeated, &err),
				 -ENOSPC);
		assert_string_equal(err.msg, "no room");
		sorter_free(s);
	}
}

static void a_sorter_that_is_not_finished_leaves_nothing(void **state)
{
	(void)state;
	for (uint64_t nr = 0; nr <= 50000; nr += 10000) {
		struct sorter *s = new_sorter(SORTER_MEMORY_MIN, NULL);
		int rc;

		add_many(s, nr, NULL, UINT64_MAX, &rc);
		assert_int_equal(rc, 0);
		sorter_free(s);
		assert_int_equal(test_dir_count(), 0);
	}
	assert_null(sorter_free(NULL));
}

/* ---- Flushing, and going on later ---- */

static void flush(struct sorter *s, const struct sort_runs **ret_runs, uint64_t *ret_end)
{
	struct shoal_err err = { "" };

	if (sorter_flush(s, ret_runs, ret_end, &err) < 0)
		fail_msg("%s", err.msg);
}

/* So that a listing that is interrupted can be gone on with. */
static void what_was_added_is_flushed_also_after_a_stop(void **state)
{
	int stop = 0;
	struct sorter *s = new_sorter(SORTER_MEMORY_MIN, &stop);
	const struct sort_runs *runs = NULL;
	uint64_t end = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		char name[16];
		int len = snprintf(name, sizeof(name), "%u", i);

		assert_int_equal(sorter_add(s,
					    &(struct sort_entry){ .name = (const uint8_t *)name,
								  .len = (size_t)len },
					    NULL),
				 0);
	}
	stop = 1;
	assert_int_equal(sorter_flush(s, &runs, &end, NULL), 0);
	assert_int_equal(runs->nr, 1);
	assert_true(end > 100);
	sorter_free(s);
}

/* One name comes again and again among others: in one chunk, in chunks of one half (128 KiB), in
 * both halves, and in runs, with and without flushes between. */
static void of_a_name_that_comes_again_the_last_one_counts_wherever_it_lies(void **state)
{
	static const unsigned gaps[] = { 1, 50, 250, 3000, 3600, 20000 };

	(void)state;
	for (size_t g = 0; g < ARRAY_LEN(gaps); g++)
		for (unsigned every = 0; every <= 5000; every += 5000) {
			struct sorter *s = new_sorter(SORTER_MEMORY_MIN, NULL);
			const struct sort_runs *runs;
			struct test_list l = { 0 };
			struct taken t = { .want = &l };
			struct shoal_err err = { "" };
			uint64_t repeated = 0, end;
			unsigned again = 0;
			size_t same = 0;

			for (unsigned i = 0; i < 30000; i++) {
				list_addf(&l, "name-%08u", i * 7919 % 30011);
				l.entry[i].size = i;
				add_entry(s, l.entry[i].name, l.entry[i].len, i,
					  l.entry[i].samples);
				if (i % gaps[g] == 0) {
					add_entry(s, "name-00015000x", 14, 1000000 + i, 5);
					same = i;
					again++;
				}
				if (every && i % every == every - 1)
					flush(s, &runs, &end);
			}
			list_add(&l, "name-00015000x", 14, 1000000 + same, 5);
			list_sort(&l);
			if (sorter_finish(s, take, &t, NULL, &repeated, &err) < 0)
				fail_msg("gap %u, flush every %u: %s, at %zu", gaps[g], every,
					 err.msg, t.nr);
			assert_int_equal(t.nr, 30001);
			assert_int_equal(repeated, again - 1);
			sorter_free(s);
			list_release(&l);
		}
}

static void after_a_flush_the_runs_are_all_there_is(void **state)
{
	struct sorter *s = new_sorter(SORTER_MEMORY_MIN, NULL);
	const struct sort_runs *runs = NULL;
	struct test_list l = { 0 };
	struct taken t = { .want = &l };
	struct shoal_err err = { "" };
	uint64_t end = 1, repeated, entries = 0;

	(void)state;
	flush(s, &runs, &end); /* of nothing */
	assert_int_equal(end, 0);
	for (size_t i = 0; i < 20000; i++) {
		list_addf(&l, "%016" PRIx64, random_u64());
		add_entry(s, l.entry[i].name, l.entry[i].len, l.entry[i].size, l.entry[i].samples);
		if (i % 5000 == 4999 || i == 10 || i == 11) {
			uint64_t before = 0;

			flush(s, &runs, &end);
			for (size_t r = 0; r < runs->nr; r++) {
				assert_int_equal(runs->run[r].off, before);
				before += runs->run[r].len;
			}
			assert_int_equal(before, end);
			assert_true(end > entries);
			entries = end;
		}
	}
	flush(s, &runs, &end);
	assert_int_equal(end, entries);
	list_sort(&l);
	if (sorter_finish(s, take, &t, NULL, &repeated, &err) < 0)
		fail_msg("%s, at %zu", err.msg, t.nr);
	assert_int_equal(t.nr, l.nr);
	assert_int_equal(repeated, 0);
	sorter_free(s);
	list_release(&l);
	assert_int_equal(test_dir_count(), 0);
}

/* What an earlier sorter left: runs in a file that is not its own. */
struct left {
	struct sort_spill spill;
	struct sort_runs runs;
};

static void keep_runs(struct left *left, const struct sort_runs *runs, uint64_t end)
{
	sort_runs_release(&left->runs);
	for (size_t i = 0; i < runs->nr; i++)
		assert_int_equal(sort_runs_add(&left->runs, &runs->run[i]), 0);
	left->spill.runs = &left->runs;
	left->spill.end = end;
}

static struct sorter *sorter_on(const struct left *left)
{
	struct sorter_options options = { .memory = SORTER_MEMORY_MIN,
					  .tmp_dir = "/no/such/folder",
					  .spill = &left->spill,
					  .nr_threads = nr_threads };
	struct sorter *s = NULL;

	assert_int_equal(sorter_new(&options, &s, NULL), 0);
	return s;
}

/* Entries [from, end), each of which has its number as its size. */
static void add_numbers(struct sorter *s, unsigned from, unsigned end, unsigned offset)
{
	for (unsigned i = from; i < end; i++) {
		char name[32];
		int n = snprintf(name, sizeof(name), "some/name/%08u", i * 7919 % 100003);

		add_entry(s, name, (size_t)n, offset + i, 1);
	}
}

static void expect_numbers(struct test_list *l, unsigned from, unsigned end, unsigned offset)
{
	for (unsigned i = from; i < end; i++) {
		list_addf(l, "some/name/%08u", i * 7919 % 100003);
		l->entry[l->nr - 1].size = offset + i;
		l->entry[l->nr - 1].samples = 1;
	}
}

static void a_sorter_goes_on_with_the_runs_of_an_earlier_one(void **state)
{
	static const struct {
		unsigned flushed, flushes; /* by the first, and how often on the way */
		unsigned lost;             /* added after that, and not flushed */
		unsigned from, end;        /* by the second */
	} row[] = {
		{ 0, 1, 0, 0, 0 },
		{ 1, 1, 0, 0, 0 },
		{ 10, 1, 5, 10, 20 },
		{ 10, 1, 5, 5, 10 },
		{ 0, 1, 0, 0, 10 },
		{ 20000, 1, 500, 20000, 20001 },
		{ 20000, 3, 500, 10000, 30000 },
		{ 20000, 40, 9000, 19000, 40000 },
		{ 40000, 30, 0, 0, 40000 },
	};

	(void)state;
	for (size_t r = 0; r < ARRAY_LEN(row); r++) {
		struct left left = { .spill.fd = spill_open(test_dir(), NULL) };
		struct sorter *s = sorter_on(&left);
		const struct sort_runs *runs;
		struct test_list l = { 0 };
		struct taken t = { .want = &l };
		struct shoal_err err = { "" };
		uint64_t end, repeated = 0;

		for (unsigned i = 0; i < row[r].flushes; i++) {
			add_numbers(s, row[r].flushed * i / row[r].flushes,
				    row[r].flushed * (i + 1) / row[r].flushes, 0);
			flush(s, &runs, &end);
		}
		keep_runs(&left, runs, end);
		add_numbers(s, 50000, 50000 + row[r].lost, 0);
		sorter_free(s);

		s = sorter_on(&left);
		add_numbers(s, row[r].from, row[r].end, 1000000);
		/* list_sort() keeps the one added first. */
		expect_numbers(&l, row[r].from, row[r].end, 1000000);
		expect_numbers(&l, 0, row[r].flushed, 0);
		list_sort(&l);
		if (sorter_finish(s, take, &t, NULL, &repeated, &err) < 0)
			fail_msg("row %zu: %s, at %zu", r, err.msg, t.nr);
		assert_int_equal(t.nr, l.nr);
		assert_int_equal(repeated, row[r].flushed + row[r].end - row[r].from - l.nr);
		sorter_free(s);
		assert_int_equal(fcntl(left.spill.fd, F_GETFD),
				 FD_CLOEXEC); /* still the caller's */
		close(left.spill.fd);
		sort_runs_release(&left.runs);
		list_release(&l);
	}
	assert_int_equal(test_dir_count(), 0);
}

/* Whoever is interrupted in the end starts again from what was flushed, so that must stay. */
static void runs_of_an_earlier_sorter_stay_until_the_end_was_reached(void **state)
{
	struct left left = { .spill.fd = spill_open(test_dir(), NULL) };
	struct sorter *s = sorter_on(&left);
	const struct sort_runs *runs;
	struct shoal_err err = { "" };
	uint64_t end, repeated;

	(void)state;
	for (unsigned i = 0; i < 30; i++) { /* more than are merged at once */
		add_numbers(s, i * 1000, (i + 1) * 1000, 0);
		flush(s, &runs, &end);
	}
	keep_runs(&left, runs, end);
	for (int attempt = 0; attempt < 3; attempt++) {
		struct taken t = { 0 };
		unsigned after = 100;

		sorter_free(s);
		s = sorter_on(&left);
		if (attempt < 2) {
			assert_int_equal(
				sorter_finish(s, refuse_later, &after, NULL, &repeated, &err),
				-ENOSPC);
			continue;
		}
		if (sorter_finish(s, take, &t, NULL, &repeated, &err) < 0)
			fail_msg("%s, at %zu", err.msg, t.nr);
		assert_int_equal(t.nr, 30000);
	}
	sorter_free(s);
	close(left.spill.fd);
	sort_runs_release(&left.runs);
}

static void a_flush_that_cannot_be_written_is_told(void **state)
{
	struct sorter *s = new_sorter(SORTER_MEMORY_MIN, NULL);
	const struct sort_runs *runs;
	struct shoal_err err = { "" };
	struct rlimit before;
	uint64_t end;

	(void)state;
	add_numbers(s, 0, 10, 0);
	before = files_may_not_grow();
	assert_int_equal(sorter_flush(s, &runs, &end, &err), -EFBIG);
	files_may_grow(&before);
	assert_non_null(strstr(err.msg, "cannot write a temporary file"));
	sorter_free(s);
}

/* Whoever has failed may still try to keep what there is. */
static void after_a_failure_all_calls_say_so(void **state)
{
	struct sorter *s = new_sorter(SORTER_MEMORY_MIN, NULL);
	struct rlimit before = files_may_not_grow();
	const struct sort_runs *runs;
	struct taken t = { 0 };
	uint64_t end, repeated;
	int rc = 0;

	(void)state;
	for (unsigned i = 0; i < 100000 && rc == 0; i++)
		rc = sorter_add(
			s, &(struct sort_entry){ .name = (const uint8_t *)&i, .len = sizeof(i) },
			NULL);
	assert_int_equal(rc, -EFBIG);
	for (unsigned again = 0; again < 2; again++) {
		struct shoal_err err = { "" };

		assert_int_equal(
			sorter_add(s,
				   &(struct sort_entry){ .name = (const uint8_t *)"x", .len = 1 },
				   &err),
			-EFBIG);
		assert_non_null(strstr(err.msg, "cannot write a temporary file"));
		assert_int_equal(sorter_flush(s, &runs, &end, &err), -EFBIG);
		assert_int_equal(sorter_finish(s, take, &t, NULL, &repeated, &err), -EFBIG);
		assert_non_null(strstr(err.msg, "cannot write a temporary file"));
	}
	files_may_grow(&before);
	sorter_free(s);
}

/* ---- Several who add ---- */

#define ADDERS     6u /* more than there are lanes */
#define ADDED_EACH 20000u

struct adder {
	struct sorter *sorter;
	pthread_t thread;
	unsigned number;
	int rc;
};

/* Groups and single ones, of names that are nobody else's. */
static void *add_groups(void *arg)
{
	struct adder *a = arg;

	for (unsigned i = 0; i < ADDED_EACH && a->rc == 0;) {
		struct sort_entry e[64];
		char name[64][16];
		unsigned nr = 0;

		for (; nr < ARRAY_LEN(e) && i < ADDED_EACH; nr++, i++) {
			int len = snprintf(name[nr], sizeof(name[nr]), "%08x",
					   (i * ADDERS + a->number) * 2654435761u);

			e[nr] = (struct sort_entry){ .name = (const uint8_t *)name[nr],
						     .len = (size_t)len };
		}
		a->rc = sorter_add_many(a->sorter, a->number, e, nr, i % 3 == 0, NULL);
	}
	return NULL;
}

/* In memory and with runs; some flush in between, as who writes checkpoints does. */
static void threads_may_add_at_the_same_time(void **state)
{
	static const size_t memory[] = { SORTER_MEMORY_MIN, 1u << 20, 64u << 20 };

	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(memory); m++) {
		struct sorter_options options = { .memory = memory[m],
						  .tmp_dir = test_dir(),
						  .nr_threads = nr_threads,
						  .nr_lanes = 4 };
		struct adder adder[ADDERS];
		struct taken t = { 0 };
		struct sorter *s = NULL;
		uint64_t repeated = 0;

		assert_int_equal(sorter_new(&options, &s, NULL), 0);
		for (unsigned i = 0; i < ADDERS; i++) {
			adder[i] = (struct adder){ .sorter = s, .number = i };
			assert_int_equal(
				pthread_create(&adder[i].thread, NULL, add_groups, &adder[i]), 0);
		}
		for (unsigned i = 0; m < 2 && i < 5; i++) {
			const struct sort_runs *runs;
			uint64_t end;

			sorter_hold(s);
			flush(s, &runs, &end);
			sorter_release(s);
		}
		for (unsigned i = 0; i < ADDERS; i++) {
			pthread_join(adder[i].thread, NULL);
			assert_int_equal(adder[i].rc, 0);
		}
		assert_int_equal(sorter_finish(s, take, &t, NULL, &repeated, NULL), 0);
		assert_int_equal(t.nr + repeated, ADDERS * ADDED_EACH);
		assert_int_equal(repeated, 0);
		sorter_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest radix[] = {
		cmocka_unit_test(the_radix_sort_does_what_qsort_does),
		cmocka_unit_test(what_all_names_start_with_may_be_left_out),
		cmocka_unit_test(names_that_split_one_by_one_need_no_deep_stack),
		cmocka_unit_test(a_key_is_the_next_eight_bytes),
	};
	const struct CMUnitTest sorter[] = {
		cmocka_unit_test(names_in_any_order_come_out_sorted),
		cmocka_unit_test(sorted_input_stays_as_it_is),
		cmocka_unit_test(the_longest_names_are_sorted_in_the_least_memory),
		cmocka_unit_test(what_was_added_is_flushed_also_after_a_stop),
		cmocka_unit_test(names_of_the_largest_bytes_are_not_taken_for_the_end),
		cmocka_unit_test(of_repeated_names_the_last_one_counts),
		cmocka_unit_test(millions_of_equal_names_become_one),
		cmocka_unit_test(without_threads_it_sorts_all_the_same),
		cmocka_unit_test(threads_may_add_at_the_same_time),
		cmocka_unit_test(it_stops_while_it_gathers),
		cmocka_unit_test(it_stops_while_it_merges),
		cmocka_unit_test(what_the_taker_says_is_handed_on),
		cmocka_unit_test(a_sorter_that_is_not_finished_leaves_nothing),
		cmocka_unit_test(of_a_name_that_comes_again_the_last_one_counts_wherever_it_lies),
		cmocka_unit_test(after_a_flush_the_runs_are_all_there_is),
		cmocka_unit_test(a_sorter_goes_on_with_the_runs_of_an_earlier_one),
		cmocka_unit_test(runs_of_an_earlier_sorter_stay_until_the_end_was_reached),
		cmocka_unit_test(a_flush_that_cannot_be_written_is_told),
		cmocka_unit_test(after_a_failure_all_calls_say_so),
	};

	int failed = cmocka_run_group_tests(radix, NULL, NULL);

	nr_threads = 1;
	failed += cmocka_run_group_tests_name("one thread", sorter, test_dir_make, test_dir_remove);
	nr_threads = SORTER_THREADS_MAX;
	failed += cmocka_run_group_tests_name("several threads", sorter, test_dir_make,
					      test_dir_remove);
	return failed;
}
