/*
 * Goal: a rank that is silent is missed in time and named; one that only works is not; and a stop
 * that is deferred ends a wait all the same.
 *
 * Ranks are threads, see ranks.h. A rank without a pulse is like a process that was stopped.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "help.h"
#include "ranks.h"

static int to_lose;   /* datagrams that are lost, from now on */
static int delivered; /* others */

ssize_t __real_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len);

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len)
{
	if (__atomic_sub_fetch(&to_lose, 1, __ATOMIC_RELAXED) >= 0)
		return (ssize_t)len;
	__atomic_add_fetch(&delivered, 1, __ATOMIC_RELAXED);
	return __real_sendto(fd, buf, len, flags, to, to_len);
}

static int stop_flag;
static int parked; /* ranks that wait until the others have ended */

static void run_ranks(int size, rank_fn *fn)
{
	struct thread_world w;

	__atomic_store_n(&parked, size, __ATOMIC_RELAXED);
	thread_world_init(&w, size, 2, 0);
	ranks_run(&w, fn);
	thread_world_release(&w);
}

/* As a process that was stopped: it calls nothing until all others have given up. */
static void park(void)
{
	while (__atomic_load_n(&parked, __ATOMIC_RELAXED) > 1)
		usleep(1000);
}

static void unpark(void)
{
	__atomic_sub_fetch(&parked, 1, __ATOMIC_RELAXED);
}

static void last_rank_is_silent(struct comm *c, int rank, int size)
{
	struct shoal_err err = { "" };
	uint64_t began;
	int rc;

	CHECK(comm_pulse_open(c, &err) == 0);
	comm_set_peer_timeout(c, 2);
	CHECK(comm_barrier(c, NULL) == 0);
	if (rank == size - 1) {
		usleep(50000); /* the first questions are answered */
		comm_pulse_close(c);
		park();
		return;
	}
	began = clock_now();
	rc = comm_barrier(c, &err);
	CHECK_ERR(rc == -EHOSTDOWN || rc == -EREMOTEIO, err);
	CHECK_ERR(strstr(err.msg, "rank 3 (at 127.0.0.1) has ") != NULL ||
			  strstr(err.msg, "rank 2 (at 127.0.0.1) has ") != NULL,
		  err);
	CHECK(clock_now() - began < UINT64_C(20000000000));
	unpark();
}

static void a_silent_rank_is_missed_and_named(void **state)
{
	(void)state;
	run_ranks(4, last_rank_is_silent);
}

static void last_rank_works(struct comm *c, int rank, int size)
{
	struct shoal_err err = { "" };

	CHECK(comm_pulse_open(c, &err) == 0);
	comm_set_peer_timeout(c, 1);
	if (rank == size - 1)
		usleep(4500000); /* it calls nothing of the comm meanwhile */
	CHECK_ERR(comm_barrier(c, &err) == 0, err);
}

static void a_rank_that_works_is_not_missed(void **state)
{
	(void)state;
	run_ranks(3, last_rank_works);
}

static void nobody_limits_the_wait(struct comm *c, int rank, int size)
{
	struct shoal_err err = { "" };

	CHECK(comm_pulse_open(c, &err) == 0);
	if (rank == size - 1) {
		usleep(50000);
		comm_pulse_close(c);
		usleep(3500000);
	}
	CHECK_ERR(comm_barrier(c, &err) == 0, err);
}

static void without_a_limit_a_silent_rank_is_waited_for(void **state)
{
	(void)state;
	run_ranks(2, nobody_limits_the_wait);
}

/* A firewall may drop datagrams, while the rank works. */
static void a_rank_that_was_never_heard_has_longer_but_not_for_ever(void **state)
{
	(void)state;
	assert_int_equal(comm_pulse_limit(true, false, true, 120), 120);
	assert_true(comm_pulse_limit(true, true, true, 120) < 10);
	assert_int_equal(comm_pulse_limit(false, false, true, 120), 3600);
	assert_int_equal(comm_pulse_limit(false, true, true, 120), 3600); /* or another host's */
	assert_int_equal(comm_pulse_limit(false, false, true, UINT32_MAX), UINT32_MAX - 1);
}

/* Rank 0 works and polls; rank 1 sends it mail all the time, so that no poll waits for long. */
static void a_rank_is_silent_among_mail(struct comm *c, int rank, int size)
{
	uint64_t limit = clock_now() + UINT64_C(20000000000);
	struct shoal_err err = { "" };
	struct comm_mail mail;
	int rc = 0;

	CHECK(comm_pulse_open(c, &err) == 0);
	comm_set_peer_timeout(c, 2);
	CHECK(comm_barrier(c, NULL) == 0);
	if (rank == size - 1) {
		usleep(50000);
		comm_pulse_close(c);
		park();
		return;
	}
	while (rc >= 0 && clock_now() < limit) {
		if (rank == 1)
			rc = comm_post(c, 0, 1, "x", 1, &err);
		if (rc >= 0)
			rc = comm_poll(c, 20000, &mail, &err);
	}
	CHECK_ERR(rc == (rank == 0 ? -EHOSTDOWN : -EREMOTEIO), err);
	CHECK_ERR(strstr(err.msg, "rank 2 (at ") != NULL, err);
	unpark();
}

static void a_silent_rank_is_missed_while_mail_comes_from_others(void **state)
{
	(void)state;
	run_ranks(3, a_rank_is_silent_among_mail);
}

/* The last rank is lost right after the start, and its datagrams with it. */
static void a_rank_is_lost_at_the_start(struct comm *c, int rank, int size)
{
	uint64_t began = clock_now();
	struct shoal_err err = { "" };
	int rc;

	CHECK(comm_pulse_open(c, &err) == 0);
	comm_set_peer_timeout(c, 1);
	if (rank == size - 1) {
		park();
		return;
	}
	rc = comm_barrier(c, &err);
	CHECK_ERR(rc == -EHOSTDOWN, err);
	CHECK_ERR(strstr(err.msg, "nor ever before") != NULL, err);
	CHECK(clock_now() - began < UINT64_C(25000000000)); /* much less than 30 s, and 5 s alone */
	unpark();
}

static void a_rank_that_is_lost_at_the_start_is_missed_much_earlier(void **state)
{
	(void)state;
	__atomic_store_n(&to_lose, 1000000, __ATOMIC_RELAXED);
	run_ranks(2, a_rank_is_lost_at_the_start);
	__atomic_store_n(&to_lose, 0, __ATOMIC_RELAXED);
}

static int silent;

/* Nobody waits while the first datagrams are lost, so nobody has another reason to ask. */
static void first_datagrams_are_lost(struct comm *c, int rank, int size)
{
	struct shoal_err err = { "" };
	uint64_t limit = clock_now() + UINT64_C(20000000000);
	int rc;

	(void)size;
	CHECK(comm_pulse_open(c, &err) == 0);
	comm_set_peer_timeout(c, 2);
	if (rank == 1) {
		while (__atomic_load_n(&delivered, __ATOMIC_RELAXED) < 4 && clock_now() < limit)
			usleep(1000);
		CHECK(clock_now() < limit);
		usleep(50000); /* what was delivered is taken */
		comm_pulse_close(c);
		__atomic_store_n(&silent, 1, __ATOMIC_RELAXED);
		park();
		return;
	}
	while (!__atomic_load_n(&silent, __ATOMIC_RELAXED))
		usleep(1000);
	rc = comm_barrier(c, &err);
	CHECK_ERR(rc == -EHOSTDOWN, err);
	CHECK_ERR(strstr(err.msg, "rank 1 (at 127.0.0.1) has ") != NULL, err);
	unpark();
}

static void a_rank_whose_first_datagrams_are_lost_is_heard_all_the_same(void **state)
{
	(void)state;
	__atomic_store_n(&delivered, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&to_lose, 6, __ATOMIC_RELAXED);
	run_ranks(2, first_datagrams_are_lost);
}

static void stop_is_deferred(struct comm *c, int rank, int size)
{
	struct shoal_err err = { "" };
	uint64_t began = clock_now();
	int rc;

	comm_set_stop(c, &stop_flag);
	comm_defer_stop(c, true);
	CHECK(comm_barrier(c, &err) == 0);
	if (rank == size - 1) {
		park();
		return;
	}
	__atomic_store_n(&stop_flag, 1, __ATOMIC_RELAXED);
	rc = comm_barrier(c, &err);
	CHECK_ERR(rc == -ECANCELED || rc == -EREMOTEIO, err);
	CHECK(clock_now() - began >= UINT64_C(2900000000)); /* the others had time to agree */
	CHECK(clock_now() - began < UINT64_C(20000000000));
	unpark();
}

static void a_deferred_stop_ends_a_wait_that_nobody_comes_to(void **state)
{
	(void)state;
	stop_flag = 0;
	run_ranks(3, stop_is_deferred);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_silent_rank_is_missed_and_named),
		cmocka_unit_test(a_rank_that_works_is_not_missed),
		cmocka_unit_test(without_a_limit_a_silent_rank_is_waited_for),
		cmocka_unit_test(a_rank_that_was_never_heard_has_longer_but_not_for_ever),
		cmocka_unit_test(a_silent_rank_is_missed_while_mail_comes_from_others),
		cmocka_unit_test(a_rank_that_is_lost_at_the_start_is_missed_much_earlier),
		cmocka_unit_test(a_rank_whose_first_datagrams_are_lost_is_heard_all_the_same),
		cmocka_unit_test(a_deferred_stop_ends_a_wait_that_nobody_comes_to),
	};

	alarm(120); /* whatever hangs is found by it */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
