/*
 * Goal: a time series has what was done, however long it takes, in a file of bounded size; cut
 * anywhere it gives all whole records before the cut, and goes on from there.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "help.h"
#include "run/series.h"

#define SECOND UINT64_C(1000000000)

struct sums {
	uint64_t seconds, steps, listed; /* records */
	uint64_t samples, step_samples, names, nr_steps;
	uint64_t slow, slow_sample, last_end, longest;
};

static int sum_up(void *self, const struct series_record *r)
{
	struct sums *s = self;

	s->seconds += r->kind == SERIES_SECOND;
	s->steps += r->kind == SERIES_STEPS;
	s->listed += r->kind == SERIES_LISTED;
	s->names += r->names;
	if (r->kind == SERIES_STEPS) {
		s->step_samples += r->samples;
		s->nr_steps += r->nr_steps;
	}
	if (r->kind == SERIES_SECOND) {
		s->samples += r->samples;
		assert_true(r->start >= s->last_end); /* one after the other */
		s->last_end = r->start + r->duration;
		if (r->duration > s->longest)
			s->longest = r->duration;
		if (r->slow > s->slow) {
			s->slow = r->slow;
			s->slow_sample = r->slow_sample;
		}
	}
	return 0;
}

static struct sums read_back(const char *path, size_t *ret_end, size_t *ret_len)
{
	struct sums s = { 0 };
	struct series_head head;
	struct shoal_err err = { "" };
	struct map m = MAP_CLOSED;

	assert_int_equal(map_open(path, &m, &err), 0);
	assert_int_equal(series_read(m.addr, m.len, &head, sum_up, &s, ret_end, &err), 0);
	assert_int_equal(head.run, 7);
	assert_int_equal(head.nr_ranks, 3);
	*ret_len = m.len;
	map_close(&m);
	return s;
}

static struct series *create(const char *path)
{
	struct series_head head = { .run = 7,
				    .started = clock_ns(CLOCK_REALTIME),
				    .rank = 1,
				    .nr_ranks = 3,
				    .nr_accelerators = 2 };
	struct series *s = NULL;
	struct shoal_err err = { "" };

	if (series_create(path, &head, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

/* Steps of 0.1 s, from clock_now() on, without waiting for them. */
static void pretend(struct series *s, uint64_t nr, uint64_t from)
{
	series_epoch(s, from, 1, false, 0, NULL, NULL);
	for (uint64_t i = 1; i <= nr; i++) {
		series_sample(s, from + i * SECOND / 10, i == 3 ? 5000 : 1000, 40 + i);
		series_step(s, &(struct series_step){ .now = from + i * SECOND / 10,
						      .samples = 4,
						      .bytes = 4000,
						      .load = 10,
						      .load_max = 6,
						      .compute = 90 });
	}
}

static void a_series_has_every_step_and_the_slowest_sample(void **state)
{
	const char *path = test_path("series.1");
	struct series *s = create(path);
	struct shoal_err err = { "" };
	struct sums sums;
	size_t end, len;

	(void)state;
	pretend(s, 25, clock_now());
	series_listed(s, clock_now(), 0, 0);
	series_listed(s, clock_now() + 2 * SECOND, 500, 0);
	series_listed(s, clock_now() + 4 * SECOND, 900, 0);
	series_pause(s, clock_now() + 3 * SECOND);
	assert_int_equal(series_close(s, &err), 0);
	sums = read_back(path, &end, &len);
	assert_int_equal(end, len);
	assert_int_equal(sums.seconds, 3); /* the last is shorter */
	assert_int_equal(sums.steps, 25);
	assert_int_equal(sums.samples, 4 * 25);
	assert_int_equal(sums.step_samples, 4 * 25);
	assert_int_equal(sums.slow, 5000);
	assert_int_equal(sums.slow_sample, 43);
	assert_int_equal(sums.names, 900);
}

static void a_year_has_a_few_thousand_records(void **state)
{
	const char *path = test_path("year");
	struct series *s = create(path);
	struct shoal_err err = { "" };
	uint64_t now = clock_now(), end_of_year = now + 365 * 86400 * SECOND, nr = 0;
	struct sums sums;
	size_t end, len;

	(void)state;
	series_epoch(s, now, 1, false, 0, NULL, NULL);
	/* Steps of a minute: 525,600 of them. */
	for (; now < end_of_year; now += 60 * SECOND, nr++)
		series_step(s, &(struct series_step){ .now = now, .samples = 1 });
	assert_int_equal(series_close(s, &err), 0);
	sums = read_back(path, &end, &len);
	assert_true(sums.seconds < 20 * SERIES_LEVEL && sums.seconds > SERIES_LEVEL);
	assert_true(sums.steps < 12 * SERIES_LEVEL && sums.steps > SERIES_LEVEL);
	assert_true(sums.nr_steps <= nr && sums.nr_steps > nr - 2 * (nr / SERIES_LEVEL));
	assert_true(len < (16u << 20));
}

/* As of a run that goes on after a reboot, or on another node: clock_now() began later. */
static void a_run_that_began_before_the_machine_has_times(void **state)
{
	const char *path = test_path("older");
	uint64_t before = clock_now() + 1000 * SECOND;
	struct series_head head = { .run = 7,
				    .started = clock_wall() - before,
				    .rank = 1,
				    .nr_ranks = 3,
				    .nr_accelerators = 2 };
	struct series *s = NULL;
	struct shoal_err err = { "" };
	struct sums sums;
	size_t end, len;

	(void)state;
	assert_int_equal(series_create(path, &head, &s, &err), 0);
	pretend(s, 25, clock_now());
	assert_int_equal(series_close(s, &err), 0);
	sums = read_back(path, &end, &len);
	assert_true(sums.last_end > before + 2 * SECOND);
	assert_true(sums.longest < 100 * SECOND);
}

static void many_short_epochs_do_not_make_it_grow(void **state)
{
	const char *path = test_path("epochs");
	struct series *s = create(path);
	struct shoal_err err = { "" };
	uint64_t now = clock_now();
	struct sums sums;
	size_t end, len;

	(void)state;
	for (uint32_t e = 1; e <= 200000; e++) {
		series_epoch(s, now, e, false, 0, NULL, NULL);
		series_step(s, &(struct series_step){ .now = now += SECOND / 100, .samples = 1 });
		series_pause(s, now);
	}
	assert_int_equal(series_close(s, &err), 0);
	sums = read_back(path, &end, &len);
	assert_true(sums.seconds <= 3 * SERIES_LEVEL);
	assert_int_equal(sums.samples, 200000); /* also of the last epochs */
	assert_true(len < (4u << 20));
}

static void a_series_cut_anywhere_gives_what_is_whole_and_goes_on(void **state)
{
	const char *path = test_path("whole"), *cut = test_path("cut");
	struct series *s = create(path);
	struct shoal_err err = { "" };
	static uint8_t bytes[1 << 16];
	struct series_head head;
	struct sums before = { 0 }, all;
	size_t len, end;
	FILE *f;

	(void)state;
	pretend(s, 25, clock_now());
	assert_int_equal(series_close(s, &err), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	len = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	all = read_back(path, &end, &len);
	for (size_t n = 0; n < len; n++) {
		struct sums now = { 0 };
		int rc = series_read(bytes, n, &head, sum_up, &now, &end, &err);

		if (n < SERIES_HEAD) {
			assert_int_equal(rc, -EBADMSG);
			continue;
		}
		assert_int_equal(rc, 0);
		assert_true(end <= n);
		assert_true(now.steps >= before.steps && now.seconds >= before.seconds);
		before = now;
		f = fopen(cut, "w");
		assert_int_equal(fwrite(bytes, 1, n, f), n);
		fclose(f);
		if (n % 7 != 0) /* each seventh is enough for what is slower */
			continue;
		assert_int_equal(series_resume(cut, 8, &s, &err), -ESTALE);
		assert_int_equal(series_resume(cut, 7, &s, &err), 0);
		pretend(s, 10, clock_now() + 10 * SECOND);
		assert_int_equal(series_close(s, &err), 0);
		now = (struct sums){ 0 };
		now = read_back(cut, &end, &(size_t){ 0 });
		assert_int_equal(now.steps, before.steps + 10);
	}
	assert_int_equal(before.steps + before.seconds, all.steps + all.seconds - 1);
	assert_int_equal(truncate(cut, SERIES_HEAD - 1), 0);
	assert_int_equal(series_resume(cut, 7, &s, &err), -ENODATA);
	assert_int_equal(unlink(cut), 0);
	assert_int_equal(series_resume(cut, 7, &s, &err), -ENOENT);
	f = fopen(cut, "w");
	assert_int_equal(fwrite(bytes + 1, 1, SERIES_HEAD, f), SERIES_HEAD);
	fclose(f);
	assert_int_equal(series_resume(cut, 7, &s, &err), -EBADMSG);
	check_words(&err, cut);
}

static void add_watched(void *self, const struct series_record *r)
{
	*(uint64_t *)self += r->samples;
}

/* Files of more than 2 KB cannot be written any more, as on a disk that is full. */
static void a_full_disk_ends_the_file_and_not_who_watches(void **state)
{
	const char *path = test_path("full");
	struct rlimit before, small;
	struct series *s = create(path);
	struct shoal_err err = { "" };
	uint64_t watched = 0;
	size_t end, len;
	int rc;

	(void)state;
	series_watch(s, SECOND, add_watched, &watched);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){ .rlim_cur = 2000, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	pretend(s, 1000, clock_now());
	rc = series_close(s, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(rc, -EFBIG);
	check_words(&err, "cannot write the time series");
	assert_int_equal(watched, 4000);
	read_back(path, &end, &len);
	assert_true(len <= 2000);
}

static void any_changed_byte_ends_the_series_before_its_record(void **state)
{
	const char *path = test_path("flip");
	struct series *s = create(path);
	struct shoal_err err = { "" };
	static uint8_t bytes[1 << 16];
	struct series_head head;
	size_t len, end;
	FILE *f;

	(void)state;
	pretend(s, 12, clock_now());
	assert_int_equal(series_close(s, &err), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	len = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	for (size_t n = 0; n < len; n++) {
		struct sums now = { 0 };
		int rc;

		bytes[n] ^= 0x10;
		rc = series_read(bytes, len, &head, sum_up, &now, &end, &err);
		if (n >= 8 && n < 12)
			assert_int_equal(rc, -EPROTONOSUPPORT);
		else if (n < SERIES_HEAD)
			assert_int_equal(rc, -EBADMSG);
		else
			assert_true(rc == 0 && end <= n);
		bytes[n] ^= 0x10;
	}
}

/* The largest duration of a place. */
static uint64_t place_ns(unsigned place)
{
	return (uint64_t)(exp2((double)place / 2) * 1000);
}

static void places_are_two_per_power_of_two(void **state)
{
	(void)state;
	assert_int_equal(series_place(0), 0);
	assert_int_equal(series_place(1000), 0);
	assert_int_equal(series_place(1001), 1);
	assert_int_equal(series_place(UINT64_MAX), SERIES_PLACES - 1);
	for (unsigned p = 0; p + 1 < SERIES_PLACES; p++) {
		assert_int_equal(series_place(place_ns(p)), p);
		assert_int_equal(series_place(place_ns(p) + 2), p + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_series_has_every_step_and_the_slowest_sample),
		cmocka_unit_test(a_year_has_a_few_thousand_records),
		cmocka_unit_test(a_run_that_began_before_the_machine_has_times),
		cmocka_unit_test(many_short_epochs_do_not_make_it_grow),
		cmocka_unit_test(a_series_cut_anywhere_gives_what_is_whole_and_goes_on),
		cmocka_unit_test(a_full_disk_ends_the_file_and_not_who_watches),
		cmocka_unit_test(any_changed_byte_ends_the_series_before_its_record),
		cmocka_unit_test(places_are_two_per_power_of_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
