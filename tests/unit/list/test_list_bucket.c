/* Goal: a bucket that many threads list comes in order, each name once, in bounded memory, however
 * it is cut and however slow the consumer is. */
#include "list/list.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/name.h"
#include "base/span.h"
#include "help.h"

#define PAGE 10u

/* A store of sorted names that is listed by pages, and cut at the middle of what is left. */
struct fake {
	struct store base;
	const struct test_list *names;
	uint64_t fail_at; /* the page that fails; 0: none */
	atomic_uint_least64_t nr_pages;
	atomic_uint_least64_t nr_cuts;
	atomic_uint nr_open;
};

/* The first name after @name. */
static size_t first_after(const struct test_list *l, const void *name, size_t len)
{
	size_t at = 0, end = l->nr;

	while (at < end) {
		size_t middle = (at + end) / 2;

		if (name_compare(l->entry[middle].name, l->entry[middle].len, name, len) <= 0)
			at = middle + 1;
		else
			end = middle;
	}
	return at;
}

static size_t fake_interval(struct store *s, const char *after, size_t after_len, const char *upto,
			    size_t upto_len, void *unit)
{
	uint8_t *p = varint_put(unit, after_len);

	(void)s;
	memcpy(p, after, after_len);
	p += after_len;
	if (upto)
		memcpy(p, upto, upto_len);
	return (size_t)(p - (uint8_t *)unit) + (upto ? upto_len : 0);
}

static bool fake_unit_start(struct store *s, const void *unit, size_t len, const char **ret_name,
			    size_t *ret_len)
{
	struct span span = { .p = unit, .end = (const uint8_t *)unit + len };

	(void)s;
	*ret_len = len ? (size_t)span_varint(&span) : 0;
	*ret_name = (const char *)span.p;
	return true;
}

static bool fake_unit_end(struct store *s, const void *unit, size_t len, const char **ret_name,
			  size_t *ret_len)
{
	struct span span = { .p = unit, .end = (const uint8_t *)unit + len };

	(void)s;
	if (len == 0)
		return false;
	(void)span_bytes(&span, span_varint(&span));
	*ret_name = (const char *)span.p;
	*ret_len = span_left(&span);
	return *ret_len > 0;
}

static int fake_shard(struct store *s, unsigned k, unsigned n, const int *stop, void *unit,
		      size_t *ret_len, struct shoal_err *err)
{
	const struct test_list *l = ((struct fake *)s)->names;
	size_t from = l->nr * k / n, end = l->nr * (k + 1) / n;

	(void)stop;
	(void)err;
	*ret_len = fake_interval(s, from ? l->entry[from - 1].name : "",
				 from ? l->entry[from - 1].len : 0,
				 end < l->nr ? l->entry[end - 1].name : NULL,
				 end < l->nr ? l->entry[end - 1].len : 0, unit);
	return 0;
}

/* Give the second half of [at, *end) away. */
static int fake_cut(struct fake *f, struct store_sink *sink, size_t at, size_t *end, bool open,
		    struct shoal_err *err)
{
	const struct test_list *l = f->names;
	size_t middle = at + (*end - at) / 2;
	uint8_t unit[256];
	size_t len;
	int rc;

	if (*end - at < 2 * PAGE || sink->nr_idle(sink) == 0)
		return 0;
	len = fake_interval(&f->base, l->entry[middle].name, l->entry[middle].len,
			    open ? NULL : l->entry[*end - 1].name,
			    open ? 0 : l->entry[*end - 1].len, unit);
	rc = sink->add_unit(sink, unit, len, err);
	*end = middle + 1;
	f->nr_cuts++;
	return rc;
}

static int fake_list(struct store *s, const struct store_list_options *options, const void *unit,
		     size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct fake *f = (struct fake *)s;
	const struct test_list *l = f->names;
	struct store_entry entries[PAGE];
	const char *name;
	size_t name_len, at, end = l->nr;
	bool open = true;
	int rc = 0;

	(void)options;
	fake_unit_start(s, unit, len, &name, &name_len);
	at = first_after(l, name, name_len);
	if (fake_unit_end(s, unit, len, &name, &name_len)) {
		end = first_after(l, name, name_len);
		open = false;
	}
	while (rc == 0 && at < end) {
		size_t nr = 0;

		if (++f->nr_pages == f->fail_at)
			return err_set(err, -EIO, "the page failed");
		if (random() % 4 == 0)
			sched_yield();
		for (; nr < PAGE && at < end; nr++, at++)
			entries[nr] = (struct store_entry){ .name = l->entry[at].name,
							    .len = l->entry[at].len,
							    .size = l->entry[at].size };
		rc = sink->found(sink, entries, nr, err);
		if (rc == 0) {
			size_t before = end;

			rc = fake_cut(f, sink, at, &end, open, err);
			open = open && end == before;
		}
		if (rc == 0 && sink->stop && __atomic_load_n(sink->stop, __ATOMIC_RELAXED))
			rc = err_set(err, -ECANCELED, "interrupted");
	}
	return rc;
}

static void fake_close(struct store *s)
{
	free(s->uri);
	free(s);
}

static const struct store_ops fake_ops = { .kind = "fake",
					   .close = fake_close,
					   .unit_start = fake_unit_start,
					   .unit_end = fake_unit_end,
					   .interval = fake_interval,
					   .shard = fake_shard,
					   .list = fake_list };

/* One that cannot be cut: it has only one unit. */
static const struct store_ops whole_ops = { .kind = "whole",
					    .close = fake_close,
					    .list = fake_list };

static struct fake *fake_new(const struct test_list *l, const struct store_ops *ops)
{
	struct fake *f = allocate(1, sizeof(*f));

	f->base.ops = ops;
	f->base.uri = strdup("fake");
	f->base.traits.etags = f->base.traits.objects = true;
	f->names = l;
	return f;
}

static struct test_list some_names(size_t nr)
{
	struct test_list l = { 0 };

	for (size_t i = 0; i < nr; i++)
		list_addf(&l, "%zu/%zu", i % 7, i * i);
	list_sort(&l);
	for (size_t i = 0; i < l.nr; i++)
		l.entry[i].size = i;
	return l;
}

static const struct list_limits few = { .interval = 25 };

static void check_list(struct shoal_list *list, const struct test_list *l, size_t from, size_t end,
		       unsigned slow)
{
	const struct shoal_entry *e;
	struct shoal_err err = { "" };
	int rc;

	while ((rc = shoal_list_next(list, &e, &err)) > 0) {
		assert_in_range(from, 0, end - 1);
		assert_string_equal(e->name, l->entry[from].name);
		assert_int_equal(e->size, l->entry[from].size);
		from++;
		if (slow && from % slow == 0)
			usleep(50);
	}
	if (rc < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(from, end);
	shoal_list_close(list);
}

static void a_bucket_comes_in_order(void **state)
{
	static const unsigned threads[] = { 1, 2, 3, 16 };
	struct test_list l = some_names(5000);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		for (unsigned slow = 0; slow < 40; slow += 13)
			for (unsigned whole = 0; whole < 2; whole++) {
				struct fake *f = fake_new(&l, whole ? &whole_ops : &fake_ops);
				struct shoal_list_options o = { .nr_threads = threads[i] };
				struct shoal_list *list;

				assert_int_equal(list_store_open(&f->base, &o, &few, &list, NULL),
						 0);
				check_list(list, &l, 0, l.nr, slow);
			}
	list_release(&l);
}

/* With many threads the parts near the consumer are cut ever smaller, and all are listed once. */
static void threads_share_what_comes_next(void **state)
{
	struct test_list l = some_names(20000);
	struct fake *f = fake_new(&l, &fake_ops);
	struct shoal_list_options o = { .nr_threads = 8 };
	const struct shoal_entry *e;
	struct shoal_list *list;

	(void)state;
	assert_int_equal(list_store_open(&f->base, &o, &few, &list, NULL), 0);
	for (size_t i = 0; i < l.nr - 1; i++)
		assert_int_equal(shoal_list_next(list, &e, NULL), 1);
	assert_true(f->nr_cuts > 8);
	/* Every cut ends a page early; none is listed twice. */
	assert_in_range(f->nr_pages, l.nr / PAGE, l.nr / PAGE + 2 * f->nr_cuts + 8);
	shoal_list_close(list);
	list_release(&l);
}

/* A consumer that stops taking stops the listing: memory is bounded. */
static void a_slow_consumer_stops_the_listing(void **state)
{
	struct test_list l = some_names(50000);
	struct fake *f = fake_new(&l, &fake_ops);
	struct shoal_list_options o = { .nr_threads = 4 };
	const struct shoal_entry *e;
	struct shoal_list *list;

	(void)state;
	assert_int_equal(list_store_open(&f->base, &o, &few, &list, NULL), 0);
	assert_int_equal(shoal_list_next(list, &e, NULL), 1);
	wait_until_others_sleep();
	/* 4 threads, cut at most log2(5000 pages) times each; an interval keeps 3 pages, the first
	 * 10 */
	assert_in_range(f->nr_pages, 1, 10 + 4 * 13 * 3);
	shoal_list_close(list);
	list_release(&l);
}

static void bounds_and_shards_of_a_bucket(void **state)
{
	struct test_list l = some_names(3000);

	(void)state;
	for (unsigned k = 0; k < 3; k++) {
		struct fake *f = fake_new(&l, &fake_ops);
		struct shoal_list_options o = { .nr_threads = 3, .shard = k, .nr_shards = 3 };
		struct shoal_list *list;

		assert_int_equal(list_store_open(&f->base, &o, &few, &list, NULL), 0);
		check_list(list, &l, l.nr * k / 3, l.nr * (k + 1) / 3, 0);
	}
	for (unsigned i = 0; i < 50; i++) {
		size_t from = random_below(l.nr - 1),
		       end = from + 1 + random_below(l.nr - from - 1);
		struct fake *f = fake_new(&l, &fake_ops);
		struct shoal_list_options o = { .select = { .start_after = l.entry[from].name,
							    .end_before = l.entry[end].name },
						.nr_threads = 3 };
		struct shoal_list *list;

		assert_int_equal(list_store_open(&f->base, &o, &few, &list, NULL), 0);
		check_list(list, &l, from + 1, end, 0);
	}
	list_release(&l);
}

static void a_failing_page_ends_the_list_and_its_threads(void **state)
{
	struct test_list l = some_names(2000);

	(void)state;
	for (uint64_t page = 1; page < 150; page += 7) {
		struct fake *f = fake_new(&l, &fake_ops);
		struct shoal_list_options o = { .nr_threads = 4 };
		const struct shoal_entry *e;
		struct shoal_err err = { "" };
		struct shoal_list *list;
		size_t nr = 0;
		int rc;

		f->fail_at = page;
		assert_int_equal(list_store_open(&f->base, &o, &few, &list, NULL), 0);
		while ((rc = shoal_list_next(list, &e, &err)) > 0)
			assert_string_equal(e->name, l.entry[nr++].name);
		assert_int_equal(rc, -EIO);
		check_words(&err, "the page failed");
		shoal_list_close(list);
	}
	list_release(&l);
}

static void a_bucket_may_be_closed_at_any_point(void **state)
{
	struct test_list l = some_names(2000);

	(void)state;
	for (size_t nr = 0; nr < 300; nr += 11) {
		struct fake *f = fake_new(&l, nr % 2 ? &whole_ops : &fake_ops);
		struct shoal_list_options o = { .nr_threads = 4 };
		const struct shoal_entry *e;
		struct shoal_list *list;

		assert_int_equal(list_store_open(&f->base, &o, &few, &list, NULL), 0);
		for (size_t i = 0; i < nr; i++)
			assert_int_equal(shoal_list_next(list, &e, NULL), 1);
		shoal_list_close(list);
	}
	list_release(&l);
}

static void an_empty_bucket_has_no_names(void **state)
{
	struct test_list l = { 0 };
	struct fake *f = fake_new(&l, &fake_ops);
	struct shoal_list_options o = { 0 };
	struct shoal_list *list;

	(void)state;
	assert_int_equal(list_store_open(&f->base, &o, &list_default_limits, &list, NULL), 0);
	check_list(list, &l, 0, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_comes_in_order),
		cmocka_unit_test(threads_share_what_comes_next),
		cmocka_unit_test(a_slow_consumer_stops_the_listing),
		cmocka_unit_test(bounds_and_shards_of_a_bucket),
		cmocka_unit_test(a_failing_page_ends_the_list_and_its_threads),
		cmocka_unit_test(a_bucket_may_be_closed_at_any_point),
		cmocka_unit_test(an_empty_bucket_has_no_names),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
