/*
 * Goal: ranks that call the same things get the right bytes in bounded memory; ranks that fail,
 * stop or call different things end, all of them, with words; and nobody ever hangs.
 *
 * Ranks are threads, see ranks.h.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/publish.h"
#include "help.h"
#include "ranks.h"

static const int sizes[] = { 1, 2, 3, 5 };
static const size_t eagers[] = { 0, 100, 1u << 30 };

static void run_as(int size, int per_node, size_t eager, rank_fn *fn)
{
	struct thread_world w;

	thread_world_init(&w, size, per_node, eager);
	assert_int_equal(ranks_run(&w, fn), 0);
	assert_int_equal(w.cut_sends, 0); /* MPI might wait for them for ever */
	for (int i = 0; i < size; i++)
		assert_true(w.rank[i].stopped);
	thread_world_release(&w);
}

/* In worlds of all sizes, with messages that are buffered and that are not. */
static void run(rank_fn *fn)
{
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		for (size_t e = 0; e < ARRAY_LEN(eagers); e++)
			run_as(sizes[i], sizes[i], eagers[e], fn);
}

/* The same, without the smallest: something that needs another rank. */
static void run_several(rank_fn *fn)
{
	for (size_t i = 1; i < ARRAY_LEN(sizes); i++)
		for (size_t e = 0; e < ARRAY_LEN(eagers); e++)
			run_as(sizes[i], sizes[i], eagers[e], fn);
}

/* A call that fails on all ranks because @who failed with @words. */
static void check_failed(int rc, const struct shoal_err *err, int who, const char *words)
{
	char want[32];

	snprintf(want, sizeof(want), "rank %d: ", who);
	CHECK_ERR(rc == -EREMOTEIO, *err);
	CHECK_ERR(strncmp(err->msg, want, strlen(want)) == 0, *err);
	CHECK_ERR(strstr(err->msg, words) != NULL, *err);
}

/* ---- Places ---- */

static void check_place(struct comm *c, int rank, int size)
{
	const struct comm_place *p = comm_place(c);
	int per_node = 2;

	CHECK(p->rank == rank && p->size == size);
	CHECK(p->nr_nodes == (size + per_node - 1) / per_node);
	CHECK(p->node == rank / per_node);
	CHECK(p->node_rank == rank % per_node);
	CHECK(p->node_leader == rank / per_node * per_node);
	CHECK(p->node_size == (p->node == size / per_node ? size % per_node : per_node));
	CHECK(strcmp(comm_name(c), "threads") == 0);
	CHECK(comm_barrier(c, NULL) == 0);
}

static void each_rank_knows_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		run_as(sizes[i], 2, 0, check_place);
	run_as(8, 2, 0, check_place);
}

/* ---- Trees ---- */

static int arrivals;

static void barrier_holds(struct comm *c, int rank, int size)
{
	(void)rank;
	for (int round = 1; round <= 20; round++) {
		struct shoal_err err = { "" };

		if (round % 7 == rank)
			usleep(1000);
		__atomic_add_fetch(&arrivals, 1, __ATOMIC_SEQ_CST);
		CHECK_ERR(comm_barrier(c, &err) == 0, err);
		CHECK(__atomic_load_n(&arrivals, __ATOMIC_SEQ_CST) >= round * size);
		CHECK(err.msg[0] == '\0');
		CHECK(comm_barrier(c, NULL) == 0);
	}
}

static void nobody_leaves_a_barrier_before_all_have_come(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		for (size_t e = 0; e < ARRAY_LEN(eagers); e++) {
			arrivals = 0;
			run_as(sizes[i], sizes[i], eagers[e], barrier_holds);
		}
}

static void broadcast_all(struct comm *c, int rank, int size)
{
	static const size_t lens[] = { 0, 1, 8, 32767, 32768, 32769, 300000 };

	for (size_t i = 0; i < ARRAY_LEN(lens); i++)
		for (int root = 0; root < size; root++) {
			uint8_t *buf = allocate(lens[i], 1); /* exact: ASan sees a byte too many */
			struct shoal_err err = { "" };

			for (size_t b = 0; b < lens[i] && rank == root; b++)
				buf[b] = (uint8_t)(b * 7 + (size_t)root + 1);
			CHECK_ERR(comm_broadcast(c, root, buf, lens[i], &err) == 0, err);
			for (size_t b = 0; b < lens[i]; b++)
				if (buf[b] != (uint8_t)(b * 7 + (size_t)root + 1)) {
					CHECK(!"the root's bytes");
					break;
				}
			free(buf);
		}
}

static void a_broadcast_brings_the_roots_bytes_to_all(void **state)
{
	(void)state;
	run(broadcast_all);
}

static void reduce_all(struct comm *c, int rank, int size)
{
	static const size_t nrs[] = { 0, 1, 3, 4095, 4096, 4097, 10000 };
	uint64_t ranks = (uint64_t)size, me = (uint64_t)rank;

	for (size_t i = 0; i < ARRAY_LEN(nrs); i++)
		for (int op = COMM_SUM; op <= COMM_MAX; op++) {
			uint64_t *v = allocate(nrs[i], 8), bad = 0;

			for (size_t k = 0; k < nrs[i]; k++)
				v[k] = k * 100 + me;
			CHECK(comm_reduce(c, (enum comm_reduce_op)op, v, nrs[i], NULL) == 0);
			for (size_t k = 0; k < nrs[i]; k++) {
				uint64_t want = k * 100;

				if (op == COMM_SUM)
					want = want * ranks + ranks * (ranks - 1) / 2;
				else if (op == COMM_MAX)
					want += ranks - 1;
				bad += v[k] != want;
			}
			CHECK(bad == 0);
			free(v);
		}
}

static void a_reduce_gives_sum_least_and_greatest_to_all(void **state)
{
	(void)state;
	run(reduce_all);
}

/* ---- Gather ---- */

/* The byte at @off of what rank @from sends to rank @to. */
static uint8_t blob_byte(int from, int to, uint64_t off)
{
	return (uint8_t)(off * 31 + (off >> 8) + (uint64_t)from * 17 + (uint64_t)to * 5);
}

struct blob {
	int from, to;
	uint64_t len, next;
	uint64_t fail_at; /* reading past this fails */
};

static int read_blob(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	struct blob *b = self;
	uint8_t *p = buf;

	CHECK(off == b->next && len > 0 && off + len <= b->len); /* front to back, once */
	b->next = off + len;
	if (off + len > b->fail_at)
		return err_set(err, -EIO, "the disk of rank %d is gone", b->from);
	for (size_t i = 0; i < len; i++)
		p[i] = blob_byte(b->from, b->to, off + i);
	return 0;
}

/* A blob by function for odd senders, in memory for even ones. */
static struct comm_blob make_blob(struct blob *b)
{
	struct comm_blob blob = { .len = b->len };
	uint8_t *bytes;

	if (b->from % 2) {
		blob.read = read_blob;
		blob.self = b;
		return blob;
	}
	bytes = allocate(b->len, 1);
	for (uint64_t i = 0; i < b->len; i++)
		bytes[i] = blob_byte(b->from, b->to, i);
	blob.data = bytes;
	return blob;
}

static void free_blob(const struct comm_blob *blob)
{
	free((void *)(uintptr_t)blob->data);
}

/* Lengths that differ from rank to rank: empty, tiny, and around chunks of a budget of 4096. */
static uint64_t blob_len(int from, int to, int round)
{
	static const uint64_t lens[] = { 0, 1, 999, 1000, 1001, 2000, 4096, 50000, 12345 };

	return lens[(from * 3 + to * 5 + round) % (int)ARRAY_LEN(lens)];
}

struct taker {
	int rank, size, round;
	int from;                        /* whose bytes come now, where ranks are in order */
	uint64_t next[THREAD_RANKS_MAX]; /* byte of each sender */
	int calls[THREAD_RANKS_MAX];
	bool ordered, to_me;
	uint64_t fail_at;
};

static int take(void *self, int from, uint64_t off, uint64_t total, const void *data, size_t len,
		struct shoal_err *err)
{
	struct taker *t = self;
	const uint8_t *p = data;
	int to = t->to_me ? t->rank : 0;
	size_t bad = 0;

	CHECK(from >= 0 && from < t->size);
	CHECK(off == t->next[from]);
	CHECK(total == blob_len(from, to, t->round));
	CHECK(off + len <= total && (len > 0 || total == 0));
	if (t->ordered) {
		CHECK(from >= t->from);
		t->from = from;
	}
	for (size_t i = 0; i < len; i++)
		bad += p[i] != blob_byte(from, to, off + i);
	CHECK(bad == 0);
	t->next[from] = off + len;
	t->calls[from]++;
	if (off + len > t->fail_at)
		return err_set(err, -ENOSPC, "no room at rank %d", t->rank);
	return 0;
}

static void check_all_taken(const struct taker *t)
{
	for (int r = 0; r < t->size; r++) {
		uint64_t want = blob_len(r, t->to_me ? t->rank : 0, t->round);

		CHECK(t->next[r] == want);
		CHECK(want > 0 ? t->calls[r] >= 1 : t->calls[r] == 1);
	}
}

static void gather_once(struct comm *c, int root, int round, size_t budget)
{
	const struct comm_place *p = comm_place(c);
	struct taker t = { .rank = p->rank,
			   .size = p->size,
			   .round = round,
			   .ordered = true,
			   .fail_at = UINT64_MAX };
	struct blob b = { .from = p->rank,
			  .len = blob_len(p->rank, 0, round),
			  .fail_at = UINT64_MAX };
	struct comm_blob blob = make_blob(&b);
	struct shoal_err err = { "" };

	CHECK_ERR(comm_gather(c, &blob, root, budget, take, &t, &err) == 0, err);
	if (root == COMM_ALL || root == p->rank)
		check_all_taken(&t);
	else
		CHECK(t.calls[0] == 0);
	free_blob(&blob);
}

static void gather_all(struct comm *c, int rank, int size)
{
	static const size_t budgets[] = { 4096, 4099, 20000, 1u << 20 };

	(void)rank;
	for (size_t b = 0; b < ARRAY_LEN(budgets); b++)
		for (int root = COMM_ALL; root < size; root++)
			for (int round = 0; round < 9; round += root == 0 ? 1 : 4)
				gather_once(c, root, round, budgets[b]);
}

static void a_gather_hands_over_every_byte_rank_after_rank(void **state)
{
	(void)state;
	run(gather_all);
}

static void gather_with_unlike_budgets(struct comm *c, int rank, int size)
{
	for (int root = COMM_ALL; root < size; root++)
		gather_once(c, root, 7, 4096u + 1000u * (unsigned)rank);
}

static void the_least_of_the_budgets_holds(void **state)
{
	(void)state;
	run(gather_with_unlike_budgets);
}

/* Nothing is sent that was not asked for: 4 KiB a rank, and heads. */
static void a_gather_piles_up_nothing_inside_the_transport(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct thread_world w;

		thread_world_init(&w, sizes[i], 1, 1u << 30);
		assert_int_equal(ranks_run(&w, gather_with_unlike_budgets), 0);
		assert_in_range(w.waiting_max, 0, (size_t)sizes[i] * 1024);
		thread_world_release(&w);
	}
}

/* ---- Exchange ---- */

static void exchange_once(struct comm *c, int round, size_t budget)
{
	const struct comm_place *p = comm_place(c);
	struct taker t = { .rank = p->rank,
			   .size = p->size,
			   .round = round,
			   .to_me = true,
			   .fail_at = UINT64_MAX };
	struct blob b[THREAD_RANKS_MAX];
	struct comm_blob blob[THREAD_RANKS_MAX];
	struct shoal_err err = { "" };

	for (int to = 0; to < p->size; to++) {
		b[to] = (struct blob){ .from = p->rank,
				       .to = to,
				       .len = blob_len(p->rank, to, round),
				       .fail_at = UINT64_MAX };
		blob[to] = make_blob(&b[to]);
	}
	CHECK_ERR(comm_exchange(c, blob, budget, take, &t, &err) == 0, err);
	check_all_taken(&t);
	for (int to = 0; to < p->size; to++)
		free_blob(&blob[to]);
}

static void exchange_all(struct comm *c, int rank, int size)
{
	(void)rank;
	(void)size;
	for (int round = 0; round < 9; round++) {
		exchange_once(c, round, 4096);
		exchange_once(c, round, 100000);
	}
}

static void an_exchange_brings_every_blob_to_its_rank(void **state)
{
	(void)state;
	run(exchange_all);
}

/* ---- Failure ---- */

static void fail_with(struct comm *c, const char *words)
{
	struct shoal_err err = { "" };

	err_describe(&err, "%s", words);
	comm_fail(c, &err);
}

static void fail_while_others_wait(struct comm *c, int rank, int size)
{
	struct shoal_err err = { "" };
	int who = size / 2;
	uint64_t one = 1;

	if (rank == who) {
		wait_until_others_sleep();
		fail_with(c, "the cat ate it");
		fail_with(c, "another reason"); /* changes nothing */
	}
	check_failed(comm_barrier(c, &err), &err, who, "the cat ate it");
	check_failed(comm_reduce(c, COMM_SUM, &one, 1, &err), &err, who, "the cat");
	check_failed(comm_broadcast(c, 0, &one, 8, &err), &err, who, "the cat");
	check_failed(comm_post(c, 0, 1, "x", 1, &err), &err, who, "the cat");
	check_failed(comm_poll(c, 1000, NULL, &err), &err, who, "the cat");
	CHECK(comm_barrier(c, NULL) == -EREMOTEIO);
}

static void all_ranks_end_with_the_words_of_the_one_that_failed(void **state)
{
	(void)state;
	run(fail_while_others_wait);
}

static void fail_with_a_hint(struct comm *c, int rank, int size)
{
	struct shoal_err err = { "" };
	int who = size - 1;

	if (rank == who) {
		err_describe(&err, "too large");
		err_hint(&err, SHOAL_HINT_LARGER_SLOT, UINT64_C(1) << 40);
		comm_fail(c, &err);
	}
	check_failed(comm_barrier(c, &err), &err, who, "too large");
	CHECK_ERR(err.hint == SHOAL_HINT_LARGER_SLOT && err.hint_value == UINT64_C(1) << 40, err);
}

static void the_hint_of_a_failure_reaches_all_ranks(void **state)
{
	(void)state;
	run(fail_with_a_hint);
}

static void fail_while_others_poll(struct comm *c, int rank, int size)
{
	struct comm_mail mail;
	struct shoal_err err = { "" };
	int who = size - 1, rc;

	if (rank == who) {
		wait_until_others_sleep();
		fail_with(c, "gone");
	} else {
		while ((rc = comm_poll(c, 2000, &mail, &err)) == 0)
			;
		check_failed(rc, &err, who, "gone");
	}
}

static void a_poll_learns_of_a_failure(void **state)
{
	(void)state;
	run_several(fail_while_others_poll);
}

static void long_words(struct comm *c, int rank, int size)
{
	struct shoal_err err = { "" };
	char words[2000];

	(void)size;
	memset(words, 'w', sizeof(words));
	words[sizeof(words) - 1] = '\0';
	if (rank == 0)
		fail_with(c, words);
	check_failed(comm_barrier(c, &err), &err, 0, "wwww");
	CHECK(strlen(err.msg) == strlen("rank 0: ") + 700);
}

static void long_words_are_cut(void **state)
{
	(void)state;
	run(long_words);
}

/* Bytes whose reading or taking fails after a number of them. */
struct limited {
	int rank;
	uint64_t left;
};

static int use_limited(struct limited *l, size_t len, const char *what, struct shoal_err *err)
{
	if (len > l->left)
		return err_set(err, -ENOSPC, "rank %d cannot %s", l->rank, what);
	l->left -= len;
	return 0;
}

static int read_limited(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	(void)off;
	memset(buf, 0, len);
	return use_limited(self, len, "read", err);
}

static int take_limited(void *self, int from, uint64_t off, uint64_t total, const void *data,
			size_t len, struct shoal_err *err)
{
	(void)from;
	(void)off;
	(void)total;
	(void)data;
	return use_limited(self, len, "take", err);
}

static struct {
	bool reading, exchange;
	int who, root;
	uint64_t limit;
} failing;

static void one_callback_fails(struct comm *c, int rank, int size)
{
	struct limited in = { .rank = rank, .left = UINT64_MAX }, out = in;
	struct comm_blob blob[THREAD_RANKS_MAX];
	struct shoal_err err = { "" };
	int rc, who = failing.who;

	if (rank == who)
		*(failing.reading ? &in.left : &out.left) = failing.limit;
	for (int i = 0; i < size; i++)
		blob[i] = (struct comm_blob){ .len = 30000, .read = read_limited, .self = &in };
	if (failing.exchange)
		rc = comm_exchange(c, blob, 4096, take_limited, &out, &err);
	else
		rc = comm_gather(c, blob, failing.root, 4096, take_limited, &out, &err);
	if (rank == who) {
		CHECK_ERR(rc == -ENOSPC, err);
		CHECK_ERR(strstr(err.msg, failing.reading ? "cannot read" : "cannot take"), err);
	} else {
		check_failed(rc, &err, who, failing.reading ? "cannot read" : "cannot take");
	}
}

static void a_callback_that_fails_on_one_rank_ends_all(void **state)
{
	static const uint64_t limits[] = { 0, 10000, 29999 };

	(void)state;
	for (size_t e = 0; e < ARRAY_LEN(eagers); e++)
		for (size_t l = 0; l < ARRAY_LEN(limits); l++)
			for (int who = 0; who < 3; who++)
				for (int kind = 0; kind < 6; kind++) {
					failing.reading = kind % 2;
					failing.exchange = kind / 2 == 0;
					failing.root = kind / 2 == 1 ? COMM_ALL : who;
					failing.who = who;
					failing.limit = limits[l];
					run_as(3, 3, eagers[e], one_callback_fails);
				}
}

static void bad_arguments(struct comm *c, int rank, int size)
{
	struct comm_blob blob[THREAD_RANKS_MAX] = { { 0 } };
	struct shoal_err err = { "" };
	int rc;

	if (rank == 0)
		rc = size == 1   ? comm_broadcast(c, 1, &rc, 1, &err)
		     : size == 2 ? comm_gather(c, blob, 2, 4096, take_limited, NULL, &err)
		     : size == 3 ? comm_exchange(c, blob, 4095, take_limited, NULL, &err)
				 : comm_gather(c, blob, -2, 4096, take_limited, NULL, &err);
	else
		rc = comm_barrier(c, &err);
	if (rank == 0)
		CHECK_ERR(rc == -EINVAL && err.msg[0], err);
	else
		check_failed(rc, &err, 0, size == 3 ? "minimum of 4096" : "of");
}

static void blob_without_bytes(struct comm *c, int rank, int size)
{
	struct comm_blob blob = { .len = rank == size - 1 ? 1 : 0 };
	struct shoal_err err = { "" };
	int rc = comm_gather(c, &blob, COMM_ALL, 4096, take_limited, &(struct limited){ .left = 9 },
			     &err);

	if (rank == size - 1)
		CHECK_ERR(rc == -EINVAL, err);
	else
		check_failed(rc, &err, size - 1, "has no data");
}

static void a_blob_without_bytes_ends_all(void **state)
{
	(void)state;
	run(blob_without_bytes);
}

static void bad_arguments_on_one_rank_end_all(void **state)
{
	(void)state;
	run(bad_arguments);
}

/* ---- Ranks that do not agree ---- */

static int mismatch;

static void call_differently(struct comm *c, int rank, int size)
{
	struct comm_blob blob[THREAD_RANKS_MAX] = { { 0 } };
	bool odd = mismatch / 8 ? rank == size - 1 : rank == 0;
	struct shoal_err err = { "" };
	uint64_t v[3] = { 0 };
	int rc;

	switch (mismatch % 8) {
	case 0:
		rc = odd ? comm_broadcast(c, 0, v, 8, &err) : comm_barrier(c, &err);
		break;
	case 1: /* each waits for the other to send */
		rc = comm_broadcast(c, odd ? 1 : 0, v, 8, &err);
		break;
	case 2:
		rc = comm_broadcast(c, 0, v, odd ? 8 : 16, &err);
		break;
	case 3:
		rc = comm_reduce(c, COMM_SUM, v, odd ? 3 : 2, &err);
		break;
	case 4:
		rc = comm_reduce(c, odd ? COMM_MIN : COMM_MAX, v, 3, &err);
		break;
	case 5:
		rc = odd ? comm_exchange(c, blob, 4096, take, NULL, &err)
			 : comm_gather(c, blob, 0, 4096, take, NULL, &err);
		break;
	case 6:
		rc = comm_gather(c, blob, odd ? 1 : 0, 4096, take, NULL, &err);
		break;
	default: /* one has already gone to the end */
		rc = odd ? -EPROTO : comm_barrier(c, &err);
		break;
	}
	CHECK_ERR(rc == -EPROTO || rc == -EREMOTEIO, err);
	if (rc == -EREMOTEIO)
		CHECK_ERR(strncmp(err.msg, "rank ", 5) == 0 && strstr(err.msg, ": "), err);
}

static void ranks_that_call_different_things_are_told(void **state)
{
	(void)state;
	for (mismatch = 0; mismatch < 16; mismatch++)
		run_several(call_differently);
}

/* ---- Meetings ---- */

static void meet_often(struct comm *c, int rank, int size)
{
	struct comm_fast *m = NULL;
	struct shoal_err err = { "" };

	CHECK_ERR(comm_fast_open(c, &m, &err) == 0, err);
	for (uint64_t i = 0; m && i < 300; i++) {
		uint64_t r = (uint64_t)rank, n = (uint64_t)size, v[3] = { r + i, 100 - r, 7 };
		enum comm_reduce_op op = (enum comm_reduce_op)(i % 3);

		if (i % 50 == r)
			usleep(1000);
		CHECK_ERR(comm_fast_reduce(m, op, v, i % 4, &err) == 0, err);
		if (i % 4 > 0)
			CHECK(v[0] == (op == COMM_SUM   ? n * (n - 1) / 2 + n * i
				       : op == COMM_MIN ? i
							: n - 1 + i));
		if (i % 4 > 1)
			CHECK(v[1] == (op == COMM_SUM   ? 100 * n - n * (n - 1) / 2
				       : op == COMM_MIN ? 101 - n
							: 100));
		if (i % 4 < 3)
			CHECK(v[2] == 7); /* beyond what was combined */
	}
	CHECK(comm_fast_close(m) == NULL);
	CHECK(comm_barrier(c, NULL) == 0);
}

static void a_meeting_gives_what_a_reduce_gives(void **state)
{
	(void)state;
	run(meet_often);
	run_as(5, 2, 0, meet_often);
	run_as(8, 3, 100, meet_often);
	run_as(4, 1, 0, meet_often); /* each its own node */
}

static void meeting_holds(struct comm *c, int rank, int size)
{
	struct comm_fast *m = NULL;

	CHECK(comm_fast_open(c, &m, NULL) == 0);
	for (int round = 1; m && round <= 50; round++) {
		if (round % 7 == rank)
			usleep(1000);
		__atomic_add_fetch(&arrivals, 1, __ATOMIC_SEQ_CST);
		CHECK(comm_fast_reduce(m, COMM_SUM, NULL, 0, NULL) == 0);
		CHECK(__atomic_load_n(&arrivals, __ATOMIC_SEQ_CST) >= round * size);
	}
	comm_fast_close(m);
}

static void nobody_leaves_a_meeting_before_all_have_come(void **state)
{
	(void)state;
	for (int per_node = 1; per_node <= 5; per_node += 2) {
		arrivals = 0;
		run_as(5, per_node, 0, meeting_holds);
	}
}

static int meeting_trouble;

static void trouble_in_a_meeting(struct comm *c, int rank, int size)
{
	bool odd = rank == meeting_trouble % size;
	struct comm_fast *m = NULL;
	struct shoal_err err = { "" };
	uint64_t v[9] = { 0 };
	int rc;

	CHECK(comm_fast_open(c, &m, NULL) == 0);
	CHECK(comm_fast_reduce(m, COMM_SUM, v, 1, NULL) == 0);
	if (odd)
		wait_until_others_sleep(); /* all have left the first one */
	if (odd && meeting_trouble < 8)
		fail_with(c, "I cannot");
	/* Or it comes for something else, or with too many values. */
	rc = comm_fast_reduce(m, COMM_SUM, v,
			      !odd || meeting_trouble < 8 ? 1
			      : meeting_trouble < 16      ? 2
							  : 9,
			      &err);
	if (meeting_trouble < 8)
		check_failed(rc, &err, meeting_trouble % size, "I cannot");
	else if (meeting_trouble < 16)
		CHECK_ERR(rc == -EPROTO || rc == -EREMOTEIO, err);
	else
		CHECK_ERR(rc == (odd ? -EINVAL : -EREMOTEIO), err);
	CHECK(comm_fast_reduce(m, COMM_SUM, v, 1, &err) == -EREMOTEIO);
	comm_fast_close(m);
}

static void a_meeting_that_one_rank_spoils_ends_for_all(void **state)
{
	(void)state;
	for (meeting_trouble = 0; meeting_trouble < 24; meeting_trouble += 3)
		for (int per_node = 1; per_node <= 5; per_node += 2)
			run_as(5, per_node, 0, trouble_in_a_meeting);
}

/* ---- Not coming, stopping, stalling ---- */

static void one_stays_away(struct comm *c, int rank, int size)
{
	const struct thread_world *w = ((struct thread_rank *)c->t_self)->world;

	if (rank == 0)
		fail_with(c, "I go");
	else if (rank == size - 1)
		WAIT_UNTIL(__atomic_load_n(&w->aborted, __ATOMIC_RELAXED));
}

static void after_a_failure_one_that_does_not_come_is_not_waited_for(void **state)
{
	struct thread_world w;

	(void)state;
	thread_world_init(&w, 3, 3, 0);
	assert_int_equal(ranks_run(&w, one_stays_away), 1);
	thread_world_release(&w);
}

static int stop_flag;

static void stop_while_waiting(struct comm *c, int rank, int size)
{
	struct comm_mail mail;
	struct shoal_err err = { "" };
	int rc;

	(void)size;
	comm_set_stop(c, &stop_flag);
	if (rank == 0) {
		wait_until_others_sleep();
		__atomic_store_n(&stop_flag, 1, __ATOMIC_RELAXED);
		rc = comm_poll(c, 1000000, &mail, &err);
		CHECK_ERR(rc == -ECANCELED, err);
	} else {
		rc = comm_barrier(c, &err);
		CHECK_ERR(rc == -ECANCELED || rc == -EREMOTEIO, err);
	}
}

static void a_stop_ends_every_wait(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		stop_flag = 0;
		run_as(sizes[i], sizes[i], 0, stop_while_waiting);
	}
}

/* Rank 0 is stopped and closes; the last one does not come, so that nobody can finish. */
static void stop_and_close(struct comm *c, int rank, int size)
{
	if (rank == size - 1)
		WAIT_UNTIL(ranks_closed() == size - 1);
	comm_set_stop(c, &stop_flag);
}

static void a_stopped_close_does_not_wait_for_long(void **state)
{
	struct thread_world w;
	uint64_t start = clock_now();

	(void)state;
	stop_flag = 1;
	thread_world_init(&w, 3, 3, 0);
	assert_int_equal(ranks_run(&w, stop_and_close), 0); /* given up, but nobody is killed */
	assert_false(w.rank[0].stopped);
	assert_in_range(clock_now() - start, 0, UINT64_C(6000000000));
	thread_world_release(&w);
}

static int stall_seen; /* rank 0 has reported that it waits for the last rank */

/* On rank 0. A busy machine may delay other ranks, too, so that reports name these first. */
static void note_stall(void *self, const char *words)
{
	static const char begin[] = "rank 0 has waited ";
	const char *want = self;

	CHECK_WORDS(strncmp(words, begin, sizeof(begin) - 1) == 0, words);
	CHECK_WORDS(strtod(words + sizeof(begin) - 1, NULL) >= 0.02, words);
	if (strstr(words, want))
		__atomic_store_n(&stall_seen, 1, __ATOMIC_RELAXED);
}

static void no_stall(void *self, const char *words)
{
	(void)self;
	CHECK_WORDS(false, words);
}

/* The last rank comes once rank 0 has reported that it waits for it. Itself it waits less than
 * its own limit, and reports nothing. */
static void arrange_stall(struct comm *c, int rank, int size, char *want)
{
	if (rank == 0)
		comm_set_stall(c, 0.02, note_stall, want);
	if (rank == size - 1) {
		comm_set_stall(c, 60, no_stall, NULL);
		WAIT_UNTIL(__atomic_load_n(&stall_seen, __ATOMIC_RELAXED));
		CHECK_WORDS(__atomic_load_n(&stall_seen, __ATOMIC_RELAXED), want);
	}
}

static void stall(struct comm *c, int rank, int size)
{
	char want[64];

	/* Only a small tree has a single rank in that place. */
	snprintf(want, sizeof(want), " s in a barrier for %s%.0d", size <= 3 ? "rank " : "",
		 size <= 3 ? size - 1 : 0);
	arrange_stall(c, rank, size, want);
	CHECK(comm_barrier(c, NULL) == 0);
	if (rank == 0) {
		comm_set_stall(c, 0, NULL, NULL); /* the next wait is the end's */
		__atomic_store_n(&stall_seen, 0, __ATOMIC_RELAXED);
	}
}

static void stall_in_a_meeting(struct comm *c, int rank, int size)
{
	struct comm_fast *m = NULL;
	char want[64];

	CHECK(comm_fast_open(c, &m, NULL) == 0);
	snprintf(want, sizeof(want), " s in a fast reduce for rank %d", size - 1);
	arrange_stall(c, rank, size, want);
	CHECK(comm_fast_reduce(m, COMM_SUM, NULL, 0, NULL) == 0);
	if (rank == 0)
		comm_set_stall(c, 0, NULL, NULL);
	comm_fast_close(m);
}

static void a_long_wait_says_for_whom(void **state)
{
	(void)state;
	stall_seen = 0;
	run_several(stall);
	run_as(3, 3, 0, stall_in_a_meeting);
}

/* Rank 1 can send nothing to rank 0, not even that: rank 1 ends the job after a while. */
static void send_fails(struct comm *c, int rank, int size)
{
	struct thread_world *w = ((struct thread_rank *)c->t_self)->world;
	struct shoal_err err = { "" };
	int rc;

	(void)size;
	CHECK(comm_barrier(c, &err) == 0);
	if (rank == 0)
		return;
	wait_until_others_sleep();
	pthread_mutex_lock(&w->lock);
	w->fail_sends_to = 0;
	pthread_mutex_unlock(&w->lock);
	rc = comm_barrier(c, &err);
	CHECK_ERR(rc == -EIO, err);
	CHECK_ERR(strstr(err.msg, "threads: cannot send a message: "), err);
}

static void a_message_that_cannot_be_sent_ends_the_job(void **state)
{
	struct thread_world w;

	(void)state;
	thread_world_init(&w, 2, 2, 0);
	assert_int_equal(ranks_run(&w, send_fails), 1);
	thread_world_release(&w);
}

/* ---- Mail ---- */

static void flood(struct comm *c, int rank, int size)
{
	enum { NR = 300 };
	static const size_t lens[] = { 0, 1, 100, 5000, COMM_MAIL_MAX };
	uint32_t next[THREAD_RANKS_MAX] = { 0 };
	struct comm_mail mail;
	struct shoal_err err = { "" };
	uint8_t *bytes = allocate(COMM_MAIL_MAX, 1);
	int rc;

	for (uint32_t i = 0; i < NR; i++)
		for (int to = 0; to < size; to++) {
			size_t len = lens[i % ARRAY_LEN(lens)];

			memset(bytes, (int)i + rank, len);
			CHECK_ERR(comm_post(c, to, i, bytes, len, &err) == 0, err);
			memset(bytes, 0xee, len); /* it was copied */
		}
	CHECK_ERR(comm_barrier(c, &err) == 0, err); /* with mail not yet polled */
	for (int left = NR * size; left > 0; left--) {
		rc = comm_poll(c, 5000000, &mail, &err);
		CHECK_ERR(rc == 1, err);
		if (rc != 1)
			break;
		CHECK(mail.kind == next[mail.from]); /* in order */
		next[mail.from]++;
		CHECK(mail.len == lens[mail.kind % ARRAY_LEN(lens)]);
		if (mail.len)
			CHECK(((const uint8_t *)mail.data)[mail.len - 1] ==
			      (uint8_t)((int)mail.kind + mail.from));
	}
	CHECK(comm_poll(c, 0, &mail, &err) == 0);
	CHECK(comm_poll(c, 100, &mail, &err) == 0);
	free(bytes);
}

static void all_mail_of_a_flood_arrives_in_order(void **state)
{
	(void)state;
	run(flood);
}

static void bad_mail(struct comm *c, int rank, int size)
{
	struct shoal_err err = { "" };
	char x = 0;

	CHECK(comm_post(c, size, 0, &x, 1, &err) == -EINVAL);
	CHECK(comm_post(c, -1, 0, &x, 1, NULL) == -EINVAL);
	CHECK(comm_post(c, rank, 0, &x, COMM_MAIL_MAX + 1, &err) == -EMSGSIZE);
	CHECK(comm_post(c, (rank + 1) % size, 0, &x, 1, NULL) == 0); /* never polled */
}

static void mail_that_cannot_be_sent_is_refused(void **state)
{
	(void)state;
	run(bad_mail);
}

static void overflow(struct comm *c, int rank, int size)
{
	uint8_t *bytes = allocate(COMM_MAIL_MAX, 1);
	struct shoal_err err = { "" };
	int rc = 0;

	(void)size;
	if (rank == 0)
		for (int i = 0; i < 1200 && rc == 0; i++)
			rc = comm_post(c, 1, 0, bytes, COMM_MAIL_MAX, &err);
	if (rc == 0)
		rc = comm_barrier(c, &err);
	if (rank == 1)
		CHECK_ERR(rc == -EAGAIN && strstr(err.msg, "of unread mail"), err);
	else
		check_failed(rc, &err, 1, "rank 1 has");
	free(bytes);
}

static void mail_that_nobody_polls_fails_before_it_fills_the_memory(void **state)
{
	(void)state;
	run_as(2, 2, 0, overflow);
}

/* More than may be queued, for one that polls all the time. */
static void flood_who_polls(struct comm *c, int rank, int size)
{
	enum { NR = 1500 };
	uint8_t *bytes = allocate(COMM_MAIL_MAX, 1);
	struct comm_mail mail;
	struct shoal_err err = { "" };
	int rc = 0;

	(void)size;
	for (uint32_t i = 0; i < NR && rank == 0; i++)
		CHECK_ERR(comm_post(c, 1, i, bytes, COMM_MAIL_MAX, &err) == 0, err);
	if (rank == 1)
		wait_until_others_sleep(); /* the sender cannot continue, or is done */
	for (uint32_t i = 0; i < NR && rank == 1 && rc == 0; i++) {
		rc = comm_poll(c, 5000000, &mail, &err) == 1 ? 0 : -1;
		CHECK_ERR(rc == 0 && mail.kind == i, err);
	}
	free(bytes);
}

static void who_polls_may_get_any_amount_of_mail(void **state)
{
	(void)state;
	for (size_t e = 0; e < ARRAY_LEN(eagers); e++)
		run_as(2, 2, eagers[e], flood_who_polls);
}

/* Polls take as long as they were told to, however often they found nothing. */
static void poll_in_vain(struct comm *c, int rank, int size)
{
	uint64_t start = clock_now();
	struct comm_mail mail;

	(void)rank;
	(void)size;
	for (int i = 0; i < 50; i++)
		CHECK(comm_poll(c, 1000, &mail, NULL) == 0);
	CHECK(clock_now() - start >= 50000000);
	CHECK(clock_now() - start < UINT64_C(5000000000));
}

static void a_poll_in_vain_ends_in_time(void **state)
{
	(void)state;
	run(poll_in_vain);
}

/* ---- One process ---- */

static void alone_everything_works_too(void **state)
{
	struct comm *c = NULL;
	struct comm_mail mail;
	struct shoal_err err = { "" };
	uint64_t v = 7;

	(void)state;
	ranks_forget_fault();
	assert_int_equal(comm_self(&c, &err), 0);
	assert_string_equal(comm_name(c), "one process");
	assert_int_equal(comm_place(c)->size, 1);
	assert_int_equal(comm_place(c)->nr_nodes, 1);
	assert_int_equal(comm_place(c)->node_size, 1);
	barrier_holds(c, 0, 0);
	broadcast_all(c, 0, 1);
	reduce_all(c, 0, 1);
	gather_all(c, 0, 1);
	exchange_all(c, 0, 1);
	flood(c, 0, 1);
	assert_int_equal(comm_poll(c, 0, &mail, &err), 0);
	assert_int_equal(v, 7);
	fail_with(c, "enough");
	check_failed(comm_barrier(c, &err), &err, 0, "enough");
	ranks_check(NULL);
	assert_null(comm_close(c));
	assert_null(comm_close(NULL));
}

static void what_forces_a_choice_is_checked(void **state)
{
	struct comm *c = NULL;
	struct shoal_err err = { "" };

	(void)state;
	setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
	setenv("SHOAL_MPI", "none", 1);
	assert_int_equal(comm_open(&c, &err), 0);
	assert_string_equal(comm_name(c), "one process");
	comm_close(c);
	setenv("SHOAL_MPI", "lam", 1);
	assert_int_equal(comm_open(&c, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "SHOAL_MPI is 'lam'"));
	setenv("SHOAL_MPI", "/nowhere/x.so", 1);
	assert_int_equal(comm_open(&c, &err), -ELIBACC);
	assert_non_null(strstr(err.msg, "/nowhere/x.so"));
	setenv("SHOAL_MPI", "", 1);
	unsetenv("OMPI_COMM_WORLD_SIZE");
	assert_int_equal(comm_open(&c, &err), 0);
	assert_string_equal(comm_name(c), "one process");
	comm_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rank_knows_its_place),
		cmocka_unit_test(nobody_leaves_a_barrier_before_all_have_come),
		cmocka_unit_test(a_broadcast_brings_the_roots_bytes_to_all),
		cmocka_unit_test(a_reduce_gives_sum_least_and_greatest_to_all),
		cmocka_unit_test(a_gather_hands_over_every_byte_rank_after_rank),
		cmocka_unit_test(the_least_of_the_budgets_holds),
		cmocka_unit_test(a_gather_piles_up_nothing_inside_the_transport),
		cmocka_unit_test(an_exchange_brings_every_blob_to_its_rank),
		cmocka_unit_test(all_ranks_end_with_the_words_of_the_one_that_failed),
		cmocka_unit_test(the_hint_of_a_failure_reaches_all_ranks),
		cmocka_unit_test(a_poll_learns_of_a_failure),
		cmocka_unit_test(long_words_are_cut),
		cmocka_unit_test(a_callback_that_fails_on_one_rank_ends_all),
		cmocka_unit_test(bad_arguments_on_one_rank_end_all),
		cmocka_unit_test(a_blob_without_bytes_ends_all),
		cmocka_unit_test(ranks_that_call_different_things_are_told),
		cmocka_unit_test(a_meeting_gives_what_a_reduce_gives),
		cmocka_unit_test(nobody_leaves_a_meeting_before_all_have_come),
		cmocka_unit_test(a_meeting_that_one_rank_spoils_ends_for_all),
		cmocka_unit_test(after_a_failure_one_that_does_not_come_is_not_waited_for),
		cmocka_unit_test(a_stop_ends_every_wait),
		cmocka_unit_test(a_stopped_close_does_not_wait_for_long),
		cmocka_unit_test(a_long_wait_says_for_whom),
		cmocka_unit_test(a_message_that_cannot_be_sent_ends_the_job),
		cmocka_unit_test(all_mail_of_a_flood_arrives_in_order),
		cmocka_unit_test(mail_that_cannot_be_sent_is_refused),
		cmocka_unit_test(who_polls_may_get_any_amount_of_mail),
		cmocka_unit_test(a_poll_in_vain_ends_in_time),
		cmocka_unit_test(mail_that_nobody_polls_fails_before_it_fills_the_memory),
		cmocka_unit_test(alone_everything_works_too),
		cmocka_unit_test(what_forces_a_choice_is_checked),
	};

	alarm(300); /* whatever hangs is found by it */
	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
