/*
 * Goal: a walk lists everything once, whatever the threads, and forgets nothing when units go to a
 * file, to another walk or into a checkpoint; and an error ends it with its words.
 */
#include "index/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/queue.h"
#include "help.h"
#include "index/queue.h"
#include "stack.h"

static size_t count_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t nr = 0;

	assert_non_null(d);
	while (readdir(d))
		nr++;
	closedir(d);
	return nr;
}

/* ---- A store that makes up a tree ---- */

#define NR_NAMES_MAX 70000u

/*
 * Unit 0 is all of it. A unit of number n lists its `files` names and, above the last level, has
 * `fan` units below it. Names are numbers: n * files + i.
 */
struct made_up {
	struct store base;
	unsigned fan, files, levels;
	uint32_t nr_units; /* in all */
	unsigned unit_len; /* each is that long, to fill memory */
	/* What becomes of unit `odd`: */
	uint32_t odd;
	enum { NOTHING, FAILS, HAS_TROUBLE, WAITS, WAITS_FOR_STOP, WAITS_FOR_IDLE } what;
	uint32_t open;    /* the gate that WAITS: atomic */
	uint32_t meet;    /* units below the root wait until so many do */
	uint32_t waiting; /* how many do: atomic */
};

struct made_unit {
	uint32_t number, level;
};

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

/* For up to a minute, in which nothing that works needs a second. */
#define wait_for(condition)                                    \
	({                                                     \
		unsigned naps = 0;                             \
		while (!(condition) && naps++ < 60 * 5000 / 2) \
			nap();                                 \
		(condition);                                   \
	})

static int do_odd(struct made_up *s, struct store_sink *sink, struct shoal_err *err)
{
	struct shoal_err words = { "" };

	__atomic_fetch_add(&s->waiting, 1, __ATOMIC_RELAXED);
	switch (s->what) {
	case FAILS:
		return err_set(err, -EIO, "unit %u broke", s->odd);
	case HAS_TROUBLE:
		err_describe(&words, "no entry to %u", s->odd);
		return sink->trouble(sink, -EACCES, &words) < 0
			       ? err_set(err, -EACCES, "%s", words.msg)
			       : 0;
	case WAITS:
		return wait_for(__atomic_load_n(&s->open, __ATOMIC_RELAXED)) ? 0 : -ETIMEDOUT;
	case WAITS_FOR_STOP:
		return wait_for(__atomic_load_n(sink->stop, __ATOMIC_RELAXED))
			       ? err_set(err, -ECANCELED, "interrupted")
			       : -ETIMEDOUT;
	case WAITS_FOR_IDLE:
		return wait_for(sink->nr_idle(sink)) ? 0 : err_set(err, -ETIME, "nobody is idle");
	case NOTHING:
		break;
	}
	return 0;
}

static int meet(struct made_up *s, struct shoal_err *err)
{
	__atomic_fetch_add(&s->waiting, 1, __ATOMIC_RELAXED);
	return wait_for(__atomic_load_n(&s->waiting, __ATOMIC_RELAXED) >= s->meet)
		       ? 0
		       : err_set(err, -ETIME, "nobody else came");
}

static int hand_names(const struct made_up *s, uint32_t number, struct store_sink *sink,
		      struct shoal_err *err)
{
	char name[16][16];
	struct store_entry e[16];
	size_t nr = 0;
	int rc = 0;

	for (uint32_t i = 0; i < s->files && rc == 0; i++) {
		int n = snprintf(name[nr], sizeof(name[nr]), "%u", number * s->files + i);

		e[nr] = (struct store_entry){ .name = name[nr], .len = (size_t)n, .size = number };
		if (sink->wanted && !sink->wanted(sink, name[nr], (size_t)n, false))
			sink->skipped[STORE_SKIP_FILTERED]++;
		else
			nr++;
		if (nr == ARRAY_LEN(e) || (i + 1 == s->files && nr > 0)) {
			rc = sink->found(sink, e, nr, err);
			nr = 0;
		}
	}
	return rc;
}

static int made_up_list(struct store *store, const struct store_list_options *options,
			const void *unit, size_t len, struct store_sink *sink,
			struct shoal_err *err)
{
	struct made_up *s = (struct made_up *)store;
	struct made_unit me = { 0, 0 };
	int rc = 0;

	(void)options;
	if (!sink->scratch) { /* has to be freed with the walk */
		sink->scratch = allocate(STORE_UNIT_MAX, 1);
		sink->free_scratch = free;
	}
	if (len > 0)
		memcpy(&me, unit, sizeof(me));
	if (me.number == s->odd)
		rc = do_odd(s, sink, err);
	if (s->meet && me.level == 1)
		rc = meet(s, err);
	for (uint32_t i = 0; me.level < s->levels && i < s->fan && rc == 0; i++) {
		struct made_unit below = { me.number * s->fan + 1 + i, me.level + 1 };

		memcpy(sink->scratch, &below, sizeof(below));
		rc = sink->add_unit(sink, sink->scratch, u64_max(sizeof(below), s->unit_len), err);
	}
	sink->skipped[STORE_SKIP_LINK] += 2;
	sink->nr_directories++;
	return rc < 0 ? rc : hand_names(s, me.number, sink, err);
}

static const struct store_ops made_up_ops = { .kind = "made up", .list = made_up_list };

static struct made_up make_store(unsigned fan, unsigned levels, unsigned files)
{
	static char uri[] = "made:up";
	struct made_up s = { .base = { .ops = &made_up_ops, .uri = uri },
			     .fan = fan,
			     .levels = levels,
			     .files = files,
			     .odd = UINT32_MAX,
			     .nr_units = 1 };
	uint32_t level = 1;

	for (unsigned i = 0; i < levels; i++)
		s.nr_units += level *= fan;
	assert_true(s.nr_units * s.files <= NR_NAMES_MAX);
	return s;
}

static void open_gate(struct made_up *s)
{
	__atomic_store_n(&s->open, 1, __ATOMIC_RELAXED);
}

/* ---- Walks of it ---- */

struct names {
	uint8_t taken[NR_NAMES_MAX];
	uint32_t nr, fail_at; /* fail_at: 0 is never */
	uint32_t nr_trouble;
	char words[100];
};

static pthread_mutex_t take_lock = PTHREAD_MUTEX_INITIALIZER;

static int take(void *self, unsigned thread, const struct sort_entry *entries, size_t nr,
		bool group, struct shoal_err *err)
{
	struct names *n = self;
	int rc = 0;

	(void)thread;
	(void)group;
	pthread_mutex_lock(&take_lock);
	for (size_t i = 0; i < nr && rc == 0; i++) {
		const char *name = (const char *)entries[i].name;
		uint32_t number = (uint32_t)strtoul(name, NULL, 10);

		if (number >= NR_NAMES_MAX || n->taken[number] == UINT8_MAX)
			rc = err_set(err, -EPROTO, "'%s' is no name", name);
		else
			n->taken[number]++;
		if (rc == 0 && ++n->nr == n->fail_at)
			rc = err_set(err, -ENOSPC, "no room for %u", n->nr);
	}
	pthread_mutex_unlock(&take_lock);
	return rc;
}

/* The caller of a checkpoint holds the taker. */
static int checkpoint(struct index_walk *w, index_unit_fn *unit,
		      int (*then)(void *self, struct shoal_err *err), void *self,
		      struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&take_lock);
	rc = index_walk_checkpoint(w, unit, then, self, err);
	pthread_mutex_unlock(&take_lock);
	return rc;
}

static void note_trouble(void *self, const char *words)
{
	struct names *n = self;

	n->nr_trouble++;
	snprintf(n->words, sizeof(n->words), "%s", words);
}

static struct index_walk_options options_of(struct made_up *s, struct names *n, unsigned threads)
{
	return (struct index_walk_options){ .store = &s->base,
					    .nr_threads = threads,
					    .trouble = note_trouble,
					    .tmp_dir = test_dir(),
					    .take = take,
					    .self = n };
}

static struct index_walk *start(const struct index_walk_options *o, bool with_all)
{
	struct index_walk *w = NULL;
	struct shoal_err err = { "" };

	if (index_walk_start(o, with_all, &w, &err) < 0)
		fail_msg("%s", err.msg);
	return w;
}

/* Wait until it is idle, or has failed. */
static int finish(struct index_walk *w, struct index_walk_state *state, struct shoal_err *err)
{
	int rc = 0;

	for (unsigned i = 0; i < 600; i++) {
		rc = index_walk_wait(w, 100000, state, err);
		if (rc < 0 || state->idle)
			return rc;
	}
	fail_msg("it never ends");
	return rc;
}

static void check_all_taken(const struct made_up *s, const struct names *n, uint8_t times)
{
	for (uint32_t i = 0; i < s->nr_units * s->files; i++)
		if (n->taken[i] != times)
			fail_msg("name %u was taken %u times", i, n->taken[i]);
	assert_int_equal(n->nr, s->nr_units * s->files * times);
}

/* To its end, at which each name was taken once. Frees both. */
static void end_well(struct index_walk *w, const struct made_up *s, struct names *n)
{
	struct index_walk_state now = { 0 };
	struct shoal_err err = { "" };

	if (finish(w, &now, &err) < 0)
		fail_msg("%s", err.msg);
	check_all_taken(s, n, 1);
	index_walk_free(w);
	free(n);
}

static void everything_is_listed_once_whatever_the_threads(void **state)
{
	static const struct {
		unsigned fan, levels, files, unit_len;
	} row[] = {
		{ 0, 0, 0, 0 },    { 0, 0, 5, 0 },      { 1, 40, 3, 0 },        { 3, 8, 6, 0 },
		{ 2000, 1, 1, 0 }, { 9000, 1, 1, 999 }, { 60, 2, 2, 20 << 10 },
	};

	(void)state;
	for (size_t r = 0; r < ARRAY_LEN(row); r++)
		for (unsigned threads = 1; threads <= 8; threads *= 2) {
			struct made_up s = make_store(row[r].fan, row[r].levels, row[r].files);
			struct names *n = allocate(1, sizeof(*n));
			struct index_walk_options o = options_of(&s, n, threads);
			struct index_walk_state now = { 0 };
			struct shoal_err err = { "" };
			size_t open = count_open();
			struct index_walk *w;

			s.unit_len = row[r].unit_len;
			w = start(&o, true);
			if (finish(w, &now, &err) < 0)
				fail_msg("%s", err.msg);
			check_all_taken(&s, n, 1);
			assert_int_equal(now.nr_names, n->nr);
			assert_int_equal(now.nr_units, s.nr_units);
			assert_int_equal(now.nr_directories, s.nr_units);
			assert_int_equal(now.skipped[STORE_SKIP_LINK], 2 * s.nr_units);
			assert_int_equal(now.nr_pending, 0);
			assert_null(index_walk_free(w));
			assert_int_equal(count_open(), open);
			free(n);
		}
	assert_int_equal(test_dir_count(), 0);
}

/* Those who wait for work are woken by units that are found, and by units that are brought. */
static void all_threads_are_at_work_at_once(void **state)
{
	(void)state;
	for (int brought = 0; brought < 2; brought++) {
		struct made_up s = make_store(6, 1, 1);
		struct names *n = allocate(1, sizeof(*n));
		struct index_walk_options o = options_of(&s, n, 6);
		const uint8_t all[4] = { 0 }; /* the empty unit */
		struct index_walk *w;

		s.meet = 7; /* with the root, which is held until the others wait for work */
		s.odd = 0;
		s.what = WAITS;
		w = start(&o, !brought);
		for (int i = 0; i < 50; i++)
			nap();
		if (brought)
			assert_int_equal(index_walk_import_units(w, all, sizeof(all), NULL), 0);
		assert_true(wait_for(__atomic_load_n(&s.waiting, __ATOMIC_RELAXED)));
		for (int i = 0; i < 50; i++)
			nap();
		open_gate(&s);
		end_well(w, &s, n);
	}
}

static size_t count_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	size_t nr = 0;

	assert_non_null(d);
	for (const struct dirent *e = readdir(d); e; e = readdir(d))
		nr += e->d_name[0] != '.';
	closedir(d);
	return nr;
}

/* As many as cores: nobody has waited for them yet. */
static void few_threads_begin(void **state)
{
	size_t others = count_threads();

	(void)state;
	for (unsigned cores = 1; cores <= 3; cores++) {
		struct made_up s = make_store(9, 1, 1);
		struct names *n = allocate(1, sizeof(*n));
		struct index_walk_options o = options_of(&s, n, 3);
		struct index_walk *w;

		o.nr_cores = cores;
		s.odd = 0;
		s.what = WAITS;
		w = start(&o, true);
		assert_int_equal(count_threads() - others, cores);
		open_gate(&s);
		end_well(w, &s, n);
	}
}

/* They sleep, and leave their core idle: that is when others are wanted. */
static void threads_that_wait_bring_others_to_work(void **state)
{
	struct made_up s = make_store(9, 1, 1);
	struct names *n = allocate(1, sizeof(*n));
	struct index_walk_options o = options_of(&s, n, 9);
	struct index_walk *w;

	(void)state;
	o.nr_cores = 1;
	s.meet = 9;
	w = start(&o, true);
	end_well(w, &s, n);
}

static void a_walk_of_nothing_is_idle(void **state)
{
	struct made_up s = make_store(3, 3, 3);
	struct names *n = allocate(1, sizeof(*n));
	struct index_walk_options o = options_of(&s, n, 2);
	struct index_walk_state now = { 0 };
	struct index_walk *w = start(&o, false);

	(void)state;
	assert_int_equal(index_walk_wait(w, 60000000, &now, NULL), 0);
	assert_true(now.idle);
	assert_int_equal(n->nr, 0);
	index_walk_free(w);
	assert_null(index_walk_free(NULL));
	free(n);
}

static bool is_even(void *self, const char *name, size_t len, bool is_dir)
{
	(void)self;
	(void)is_dir;
	return (name[len - 1] - '0') % 2 == 0;
}

static void what_is_not_wanted_is_counted(void **state)
{
	struct made_up s = make_store(3, 5, 4);
	struct names *n = allocate(1, sizeof(*n));
	struct index_walk_options o = options_of(&s, n, 4);
	struct index_walk_state now = { 0 };
	struct index_walk *w;

	(void)state;
	o.wanted = is_even;
	w = start(&o, true);
	assert_int_equal(finish(w, &now, NULL), 0);
	assert_int_equal(n->nr, s.nr_units * 2);
	assert_int_equal(now.skipped[STORE_SKIP_FILTERED], s.nr_units * 2);
	for (uint32_t i = 0; i < s.nr_units * s.files; i++)
		assert_int_equal(n->taken[i], i % 2 == 0);
	index_walk_free(w);
	free(n);
}

/* ---- Errors ---- */

static void an_error_ends_all_threads_with_its_words(void **state)
{
	(void)state;
	for (uint32_t odd = 0; odd < 40; odd += 3)
		for (unsigned threads = 1; threads <= 8; threads *= 8) {
			struct made_up s = make_store(3, 6, 1);
			struct names *n = allocate(1, sizeof(*n));
			struct index_walk_options o = options_of(&s, n, threads);
			struct index_walk_state now = { 0 };
			struct shoal_err err = { "" };
			struct index_walk *w;
			char words[40];

			s.odd = odd;
			s.what = FAILS;
			w = start(&o, true);
			assert_int_equal(finish(w, &now, &err), -EIO);
			snprintf(words, sizeof(words), "unit %u broke", odd);
			assert_string_equal(err.msg, words);
			assert_int_equal(index_walk_wait(w, 60000000, &now, &err), -EIO);
			index_walk_free(w);
			free(n);
		}
}

static void an_error_of_the_taker_is_handed_on(void **state)
{
	static const uint32_t at[] = { 1, 2, 500, 1093 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		struct made_up s = make_store(3, 6, 1);
		struct names *n = allocate(1, sizeof(*n));
		struct index_walk_options o = options_of(&s, n, 4);
		struct index_walk_state now = { 0 };
		struct shoal_err err = { "" };
		struct index_walk *w;

		n->fail_at = at[i];
		w = start(&o, true);
		assert_int_equal(finish(w, &now, &err), -ENOSPC);
		check_words(&err, "no room for");
		index_walk_free(w);
		free(n);
	}
}

/* A thread that is at a unit for long looks at the flag. */
static void threads_at_work_are_told_to_stop(void **state)
{
	(void)state;
	for (unsigned threads = 1; threads <= 4; threads++) {
		struct made_up s = make_store(5, 1, 1);
		struct names *n = allocate(1, sizeof(*n));
		struct index_walk_options o = options_of(&s, n, threads);
		struct index_walk_state now = { 0 };
		struct index_walk *w;

		s.odd = 3;
		s.what = WAITS_FOR_STOP;
		w = start(&o, true);
		assert_true(wait_for(__atomic_load_n(&s.waiting, __ATOMIC_RELAXED)));
		assert_int_equal(index_walk_wait(w, 1000, &now, NULL), 0);
		assert_false(now.idle);
		index_walk_free(w);
		assert_true(n->nr < 6);
		free(n);
	}
}

static void trouble_ends_the_walk_or_is_told_and_counted(void **state)
{
	(void)state;
	for (int keep_going = 0; keep_going < 2; keep_going++) {
		struct made_up s = make_store(4, 3, 2);
		struct names *n = allocate(1, sizeof(*n));
		struct index_walk_options o = options_of(&s, n, 4);
		struct index_walk_state now = { 0 };
		struct shoal_err err = { "" };
		struct index_walk *w;

		s.odd = 17;
		s.what = HAS_TROUBLE;
		o.keep_going = keep_going;
		w = start(&o, true);
		assert_int_equal(finish(w, &now, &err), keep_going ? 0 : -EACCES);
		assert_string_equal(keep_going ? n->words : err.msg, "no entry to 17");
		assert_int_equal(n->nr_trouble, keep_going);
		assert_int_equal(now.nr_trouble, keep_going);
		if (keep_going)
			check_all_taken(&s, n, 1);
		index_walk_free(w);
		free(n);
	}
}

static void each_unit_may_fail(void **state)
{
	uint64_t fired = 1;

	(void)state;
	for (uint64_t nth = 1; fired; nth++) {
		struct store_fault fault = { STORE_LIST, nth, 1, -ESTALE, 0 };
		struct made_up s = make_store(3, 3, 1);
		struct names *n = allocate(1, sizeof(*n));
		struct index_walk_options o = options_of(&s, n, 3);
		struct index_walk_state now = { 0 };
		struct shoal_err err = { "" };
		struct index_walk *w;

		assert_int_equal(store_fault_new(&s.base, &fault, 1, &o.store, NULL), 0);
		w = start(&o, true);
		assert_int_equal(finish(w, &now, &err), nth <= s.nr_units ? -ESTALE : 0);
		fired = store_fault_fired(o.store);
		if (fired)
			check_words(&err, "on purpose");
		index_walk_free(w);
		store_close(o.store);
		free(n);
	}
}

/* ---- Hunger ---- */

/* A directory that is all there is has to be cut, also when a thread had it before the others
 * started. */
static void a_unit_that_is_all_there_is_meets_hunger(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		struct made_up s = make_store(2, 1, 1);
		struct names *n = allocate(1, sizeof(*n));
		struct index_walk_options o = options_of(&s, n, 2 + i % 3);
		struct index_walk_state now = { 0 };
		struct shoal_err err = { "" };
		struct index_walk *w;

		s.odd = 0;
		s.what = WAITS_FOR_IDLE;
		w = start(&o, true);
		if (finish(w, &now, &err) < 0)
			fail_msg("%s", err.msg);
		index_walk_free(w);
		free(n);
	}
}

static void one_thread_is_idle_for_others_only(void **state)
{
	struct made_up s = make_store(0, 0, 1);
	struct names *n = allocate(1, sizeof(*n));
	struct index_walk_options o = options_of(&s, n, 1);
	struct index_walk_state now = { 0 };
	struct index_walk *w;

	(void)state;
	s.odd = 0;
	s.what = WAITS_FOR_IDLE;
	w = start(&o, true);
	assert_true(wait_for(__atomic_load_n(&s.waiting, __ATOMIC_RELAXED)));
	assert_int_equal(index_walk_wait(w, 50000, &now, NULL), 0);
	assert_false(now.idle);
	index_walk_set_idle_elsewhere(w, true);
	assert_int_equal(finish(w, &now, NULL), 0);
	assert_int_equal(n->nr, 1);
	index_walk_free(w);
	free(n);
}

/* ---- Sharing ---- */

/* A walk of one thread that is at unit @odd, which waits for its gate; what is newer is done. */
static struct index_walk *start_gated(struct made_up *s, const struct index_walk_options *o,
				      uint32_t odd)
{
	struct index_walk *w;

	s->odd = odd;
	s->what = WAITS;
	w = start(o, true);
	assert_true(wait_for(__atomic_load_n(&s->waiting, __ATOMIC_RELAXED)));
	return w;
}

static void half_of_the_units_is_given_away_and_both_walks_list_all(void **state)
{
	struct made_up s = make_store(10, 3, 3);
	struct names *n = allocate(1, sizeof(*n)), *m = allocate(1, sizeof(*m));
	struct index_walk_options o = options_of(&s, n, 1), other = options_of(&s, m, 3);
	struct index_walk_state now = { 0 };
	struct index_walk *w = start_gated(&s, &o, 10), *v = start(&other, false);
	static uint8_t buf[1000];
	size_t given;

	(void)state;
	/* Unit 10 is at work, 1 to 9 wait: 5 are given, the oldest first. */
	index_walk_set_idle_elsewhere(w, true);
	assert_int_equal(index_walk_wait(w, 60000000, &now, NULL), 0); /* at once */
	assert_int_equal(now.nr_pending, 9);
	given = index_walk_export_units(w, 0, 0, buf, sizeof(buf));
	assert_int_equal(given, 5 * (4 + sizeof(struct made_unit)));
	for (uint32_t i = 0; i < 5; i++) {
		struct made_unit unit;

		memcpy(&unit, buf + i * (4 + sizeof(unit)) + 4, sizeof(unit));
		assert_int_equal(unit.number, i + 1);
	}
	index_walk_set_idle_elsewhere(w, false);
	assert_int_equal(index_walk_import_units(v, buf, given, NULL), 0);
	assert_int_equal(finish(v, &now, NULL), 0);
	assert_int_equal(m->nr, 5 * (1 + 10 + 100) * 3);
	open_gate(&s);
	assert_int_equal(finish(w, &now, NULL), 0);
	for (uint32_t i = 0; i < NR_NAMES_MAX; i++)
		n->taken[i] += m->taken[i];
	n->nr += m->nr;
	check_all_taken(&s, n, 1);
	index_walk_free(w);
	index_walk_free(v);
	free(n);
	free(m);
}

static void no_more_is_given_than_there_is_room_for(void **state)
{
	const size_t each = 4 + sizeof(struct made_unit);
	struct made_up s = make_store(10, 1, 1);
	struct names *n = allocate(1, sizeof(*n));
	struct index_walk_options o = options_of(&s, n, 1);
	struct index_walk *w = start_gated(&s, &o, 10);
	struct index_walk_state now = { 0 };

	(void)state;
	for (size_t room = 0; room < 3 * each; room += room % each == 0 ? each - 1 : 1) {
		size_t whole = room / each * each, given;
		uint8_t *buf = allocate(room, 1); /* ASan sees a byte too many */

		given = index_walk_export_units(w, 0, 0, buf, room);
		assert_int_equal(given, whole);
		assert_int_equal(index_walk_import_units(w, buf, given, NULL), 0);
		free(buf);
	}
	open_gate(&s);
	assert_int_equal(finish(w, &now, NULL), 0);
	check_all_taken(&s, n, 1);
	index_walk_free(w);
	free(n);
}

static void the_last_unit_is_given_only_by_a_walk_that_is_busy(void **state)
{
	struct made_up s = make_store(1, 2, 1);
	struct names *n = allocate(1, sizeof(*n));
	struct index_walk_options o = options_of(&s, n, 1), none = options_of(&s, n, 0);
	struct made_unit unit = { 1, 1 };
	struct index_walk *w = start_gated(&s, &o, 0), *v;
	struct index_walk_state now = { 0 };
	uint32_t mark = sizeof(unit);
	uint8_t buf[100], one[4 + sizeof(unit)];

	(void)state;
	memcpy(one, &mark, 4);
	memcpy(one + 4, &unit, sizeof(unit));
	assert_int_equal(index_walk_export_units(w, 0, 0, buf, sizeof(buf)), 0); /* nothing waits */
	assert_int_equal(index_walk_import_units(w, one, sizeof(one), NULL), 0);
	assert_int_equal(index_walk_export_units(w, 0, 0, buf, sizeof(buf)), sizeof(one));
	assert_memory_equal(buf, one, sizeof(one));
	open_gate(&s);
	assert_int_equal(finish(w, &now, NULL), 0);
	index_walk_free(w);

	v = start(&none, false); /* nobody is at work in this one */
	assert_int_equal(index_walk_import_units(v, one, sizeof(one), NULL), 0);
	assert_int_equal(index_walk_export_units(v, 0, 0, buf, sizeof(buf)), 0);
	assert_int_equal(index_walk_import_units(v, one, sizeof(one), NULL), 0);
	assert_int_equal(index_walk_export_units(v, 0, 0, buf, sizeof(buf)), sizeof(one));
	index_walk_free(v);
	free(n);
}

static void damaged_units_are_not_brought(void **state)
{
	static const struct {
		uint8_t bytes[8];
		size_t len;
	} row[] = {
		{ { 1 }, 1 },
		{ { 1, 0, 0 }, 3 },
		{ { 1, 0, 0, 0 }, 4 },
		{ { 5, 0, 0, 0, 1, 2, 3, 4 }, 8 },
		{ { 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4 }, 8 },
		{ { 0, 0, 0, 0, 9 }, 5 }, /* a whole one before it */
	};
	struct made_up s = make_store(1, 1, 1);
	struct names *n = allocate(1, sizeof(*n));
	struct index_walk_options o = options_of(&s, n, 0);
	struct index_walk *w = start(&o, false);
	uint8_t *large = allocate(STORE_UNIT_MAX + 5, 1);
	uint32_t mark = STORE_UNIT_MAX + 1;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_err err = { "" };
		uint8_t *exact = allocate(row[i].len, 1);

		memcpy(exact, row[i].bytes, row[i].len);
		assert_int_equal(index_walk_import_units(w, exact, row[i].len, &err), -EBADMSG);
		check_words(&err, "damaged");
		free(exact);
	}
	memcpy(large, &mark, 4);
	assert_int_equal(index_walk_import_units(w, large, STORE_UNIT_MAX + 5, NULL), -EBADMSG);
	mark--;
	memcpy(large, &mark, 4);
	assert_int_equal(index_walk_import_units(w, large, STORE_UNIT_MAX + 4, NULL), 0);
	index_walk_free(w);
	free(large);
	free(n);
}

/* ---- Checkpoints ---- */

struct checkpoint {
	struct names *names; /* of the walk */
	struct names copy;   /* as they were then */
	uint8_t *units;      /* as index_walk_import_units() takes them */
	size_t len, cap;
	uint32_t number[100];
	size_t nr;
	struct index_handoff_id handoff[10]; /* of the units that were given away */
	size_t nr_gifts;
	unsigned nr_then;
	int rc; /* for the third unit */
};

static int note_unit(void *self, const struct index_handoff_id *handoff, const void *unit,
		     size_t len, struct shoal_err *err)
{
	struct checkpoint *c = self;
	uint32_t mark = (uint32_t)len;
	struct made_unit u = { 0 };

	if (c->rc < 0 && c->nr == 2)
		return err_set(err, c->rc, "no checkpoint");
	if (c->len + len + sizeof(mark) > c->cap) {
		c->cap = 2 * (c->len + len + sizeof(mark));
		c->units = realloc(c->units, c->cap);
	}
	memcpy(c->units + c->len, &mark, sizeof(mark));
	memcpy(c->units + c->len + sizeof(mark), unit, len);
	c->len += sizeof(mark) + len;
	if (len > 0)
		memcpy(&u, unit, sizeof(u));
	c->number[c->nr++ % ARRAY_LEN(c->number)] = u.number;
	if (handoff)
		c->handoff[c->nr_gifts++ % ARRAY_LEN(c->handoff)] = *handoff;
	return 0;
}

static int note_names(void *self, struct shoal_err *err)
{
	struct checkpoint *c = self;

	(void)err;
	c->nr_then++;
	c->copy = *c->names; /* TSan sees when somebody takes now */
	return 0;
}

static void a_checkpoint_sees_what_waits_and_what_is_begun_and_nothing_else(void **state)
{
	struct made_up s = make_store(10, 1, 1);
	struct names *n = allocate(1, sizeof(*n));
	struct index_walk_options o = options_of(&s, n, 1);
	struct index_walk *w = start_gated(&s, &o, 8); /* the root, 10 and 9 are done */
	struct checkpoint c = { .names = n }, refused = { .names = n, .rc = -EDQUOT };
	struct index_walk_state now = { 0 };
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(checkpoint(w, note_unit, note_names, &c, NULL), 0);
	assert_int_equal(c.nr, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(c.number[i], i + 1); /* waiting ones first, oldest first */
	assert_int_equal(c.nr_then, 1);
	assert_int_equal(c.copy.nr, 3);
	assert_int_equal(checkpoint(w, note_unit, note_names, &refused, &err), -EDQUOT);
	check_words(&err, "no checkpoint");
	assert_int_equal(refused.nr_then, 0);
	open_gate(&s);
	assert_int_equal(finish(w, &now, NULL), 0);
	check_all_taken(&s, n, 1);
	c.nr = 0;
	assert_int_equal(checkpoint(w, note_unit, note_names, &c, NULL), 0);
	assert_int_equal(c.nr, 0);
	assert_int_equal(c.copy.nr, 11);
	index_walk_free(w);
	free(c.units);
	free(refused.units);
	free(n);
}

static void what_was_given_away_is_in_a_checkpoint_until_others_have_it(void **state)
{
	struct made_up s = make_store(10, 1, 1);
	struct names *n = allocate(1, sizeof(*n));
	struct index_walk_options o = options_of(&s, n, 1);
	struct index_walk *w = start_gated(&s, &o, 10); /* the root is done, 1 to 9 wait */
	static uint8_t buf[1000], one[4 + sizeof(struct made_unit)];
	struct index_walk_state now = { 0 };
	/* What is in a checkpoint after each step: one walk gives all it has, 10 is at work. */
	const struct {
		int to;
		uint64_t nr, forgotten;
		size_t want, handoffs;
	} steps[] = { { 1, 1, 0, 10, 1 },     { 1, 2, 0, 10, 2 },     { 2, 1, 0, 10, 3 },
		      { 1, 0, 0, 10, 3 },     { 1, 0, 1, 10 - 1, 2 }, { 1, 0, 1, 10 - 1, 2 },
		      { 2, 0, 1, 10 - 2, 1 }, { 1, 0, 2, 10 - 3, 0 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct checkpoint c = { .names = n };

		if (steps[i].nr)
			assert_int_equal(index_walk_export_units(w, steps[i].to, steps[i].nr, one,
								 sizeof(one)),
					 sizeof(one));
		index_walk_ack(w, steps[i].to, steps[i].forgotten);
		assert_int_equal(checkpoint(w, note_unit, note_names, &c, NULL), 0);
		assert_int_equal(c.nr, steps[i].want);
		assert_int_equal(c.nr_gifts, steps[i].handoffs);
		if (i < 3) { /* the latest comes first */
			assert_int_equal(c.handoff[0].to, steps[i].to);
			assert_int_equal(c.handoff[0].nr, steps[i].nr);
		}
		free(c.units);
	}
	/* Without a number nothing is kept. */
	assert_int_equal(index_walk_export_units(w, 1, 0, buf, sizeof(buf)), 3 * sizeof(one));
	{
		struct checkpoint c = { .names = n };

		assert_int_equal(checkpoint(w, note_unit, note_names, &c, NULL), 0);
		assert_int_equal(c.nr, 4);
		free(c.units);
	}
	open_gate(&s);
	assert_int_equal(finish(w, &now, NULL), 0);
	index_walk_free(w);
	free(n);
}

static void what_was_taken_and_the_units_of_a_checkpoint_are_everything(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		struct made_up s = make_store(4, 6, 3);
		struct names *n = allocate(1, sizeof(*n));
		struct checkpoint *c = allocate(1, sizeof(*c));
		struct index_walk_options o = options_of(&s, n, 4), later = o;
		struct index_walk_state now = { 0 };
		struct index_walk *w;

		s.unit_len = round % 4 == 0 ? 8000 : 0; /* some are in the file */
		w = start(&o, true);
		for (unsigned i = 0; i < round; i++)
			nap();
		c->names = n;
		assert_int_equal(checkpoint(w, note_unit, note_names, c, NULL), 0);
		assert_int_equal(finish(w, &now, NULL), 0);
		check_all_taken(&s, n, 1);
		index_walk_free(w);

		later.self = &c->copy;
		w = start(&later, false);
		assert_int_equal(index_walk_import_units(w, c->units, c->len, NULL), 0);
		assert_int_equal(finish(w, &now, NULL), 0);
		for (uint32_t i = 0; i < s.nr_units * s.files; i++)
			if (c->copy.taken[i] == 0)
				fail_msg("name %u is lost", i);
		index_walk_free(w);
		free(c->units);
		free(c);
		free(n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_listed_once_whatever_the_threads),
		cmocka_unit_test(all_threads_are_at_work_at_once),
		cmocka_unit_test(few_threads_begin),
		cmocka_unit_test(threads_that_wait_bring_others_to_work),
		cmocka_unit_test(a_walk_of_nothing_is_idle),
		cmocka_unit_test(what_is_not_wanted_is_counted),
		cmocka_unit_test(an_error_ends_all_threads_with_its_words),
		cmocka_unit_test(an_error_of_the_taker_is_handed_on),
		cmocka_unit_test(threads_at_work_are_told_to_stop),
		cmocka_unit_test(trouble_ends_the_walk_or_is_told_and_counted),
		cmocka_unit_test(each_unit_may_fail),
		cmocka_unit_test(a_unit_that_is_all_there_is_meets_hunger),
		cmocka_unit_test(one_thread_is_idle_for_others_only),
		cmocka_unit_test(half_of_the_units_is_given_away_and_both_walks_list_all),
		cmocka_unit_test(no_more_is_given_than_there_is_room_for),
		cmocka_unit_test(the_last_unit_is_given_only_by_a_walk_that_is_busy),
		cmocka_unit_test(damaged_units_are_not_brought),
		cmocka_unit_test(a_checkpoint_sees_what_waits_and_what_is_begun_and_nothing_else),
		cmocka_unit_test(what_was_given_away_is_in_a_checkpoint_until_others_have_it),
		cmocka_unit_test(what_was_taken_and_the_units_of_a_checkpoint_are_everything),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
