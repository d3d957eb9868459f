/* comm.c - a comm from its opening to its close, and what happens when a rank fails. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm_inside.h"

#define PART_LIMIT UINT64_C(3000000000) /* for the others to come to the end after a failure */

/* ---- Failure ---- */

int comm_check(const struct shoal_comm *c, struct shoal_err *err)
{
	if (!c->failed)
		return 0;
	return shoal_fail(err, -EREMOTEIO, "rank %d: %s", c->failed_rank, c->failed_words);
}

int comm_begin(struct shoal_comm *c, const char *doing, struct shoal_err *err)
{
	c->doing = doing;
	return comm_check(c, err);
}

int comm_end(struct shoal_comm *c, int rc, const struct shoal_err *err)
{
	if (rc < 0)
		shoal_comm_fail(c, err->msg);
	return rc;
}

void comm_set_failed(struct shoal_comm *c, int rank, const char *words, size_t len)
{
	len = shoal_min(len, COMM_WORDS_MAX);
	c->failed = true;
	c->failed_rank = rank;
	memcpy(c->failed_words, words, len);
	c->failed_words[len] = '\0';
}

void shoal_comm_fail(struct shoal_comm *c, const char *words)
{
	if (c->failed)
		return;
	comm_set_failed(c, c->w.rank, words, strlen(words));
	for (int to = 0; c->fail_out && to < c->w.size; to++) {
		int rc = 0;

		if (to != c->w.rank)
			rc = comm_send(c, &c->fail_out[to], c->failed_words,
				       strlen(c->failed_words), to, COMM_TAG_FAIL, NULL);
		(void)rc; /* those whom this reaches are told; more cannot be done */
	}
}

/* ---- Opening ---- */

static void release(struct shoal_comm *c)
{
	comm_mail_release(c);
	comm_meetings_release(c);
	free(c->world.buf);
	free(c->world.in_buf);
	free(c->node.buf);
	free(c->node.in_buf);
	free(c->bye.buf);
	free(c->bye.in_buf);
	free(c->fail_out);
	free(c->node_ranks);
	free(c->flow_mem);
	free(c->trash_buf);
	free(c);
}

/* One pass over the leaders of the ranks from @base on. */
static void count_places(struct shoal_comm *c, const uint64_t *leader, int base, int nr)
{
	struct shoal_comm_place *p = &c->place;

	for (int i = 0; i < nr; i++) {
		int rank = base + i;

		if (leader[i] == (uint64_t)rank) {
			p->nr_nodes++;
			p->node += rank < c->w.node_leader;
		}
		if (leader[i] == (uint64_t)c->w.node_leader) {
			if (c->node_ranks)
				c->node_ranks[p->node_size] = rank;
			p->node_rank += rank < c->w.rank;
			p->node_size++;
		}
	}
}

/* Twice: the first time tells how many there are to be noted the second time. */
static int find_places(struct shoal_comm *c, struct shoal_err *err)
{
	uint64_t leader[256];

	for (int pass = 0; pass < 2; pass++) {
		int nr;

		if (pass == 1) {
			size_t nr_here = (size_t)c->place.node_size; /* at least this rank */

			c->node_ranks = malloc((nr_here + 1) * sizeof(*c->node_ranks));
			if (!c->node_ranks)
				return shoal_fail(err, -ENOMEM, "out of memory");
		}
		c->place = (struct shoal_comm_place){ .rank = c->w.rank,
						      .size = c->w.size,
						      .node_leader = c->w.node_leader };
		for (int base = 0; base < c->w.size; base += nr) {
			int rc;

			nr = (int)shoal_min(SHOAL_ARRAY_LEN(leader), (uint64_t)(c->w.size - base));
			memset(leader, 0, sizeof(leader));
			if (c->w.rank >= base && c->w.rank < base + nr)
				leader[c->w.rank - base] = (uint64_t)c->w.node_leader;
			rc = comm_meet(c, &c->world, COMM_CALL_PLACE, 0, SHOAL_COMM_SUM, leader,
				       (size_t)nr, err);
			if (rc < 0)
				return rc;
			count_places(c, leader, base, nr);
		}
	}
	return 0;
}

static int set_up(struct shoal_comm *c, struct shoal_err *err)
{
	int rc;

	c->fail_out = calloc((size_t)c->w.size, sizeof(*c->fail_out));
	if (!c->fail_out ||
	    comm_group_init(&c->world, NULL, c->w.size, c->w.rank, COMM_TAG_WORLD) < 0 ||
	    comm_group_init(&c->bye, NULL, c->w.size, c->w.rank, COMM_TAG_BYE) < 0)
		return shoal_fail(err, -ENOMEM, "out of memory");
	c->doing = "at the start";
	rc = find_places(c, err);
	if (rc < 0)
		return rc;
	if (comm_group_init(&c->node, c->node_ranks, c->place.node_size, c->place.node_rank,
			    COMM_TAG_NODE) < 0)
		return shoal_fail(err, -ENOMEM, "out of memory");
	return 0;
}

int comm_open_transport(const struct comm_transport *t, void *t_self, struct shoal_comm **ret_comm,
			struct shoal_err *err)
{
	struct shoal_comm *c = calloc(1, sizeof(*c));
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	if (!c)
		return shoal_fail(err, -ENOMEM, "out of memory");
	c->t_self = t_self;
	c->mail.last = &c->mail.first;
	if (t) {
		rc = t->start(t_self, &c->w);
		if (rc < 0) {
			free(c);
			return shoal_fail(err, rc, "cannot start: %s", t->words(t_self));
		}
	} else {
		c->w = (struct comm_world){ .size = 1, .name = "one process" };
	}
	c->t = t;
	rc = set_up(c, err);
	if (rc < 0) {
		shoal_comm_fail(c, err->msg);
		shoal_comm_close(c);
		return rc;
	}
	*ret_comm = c;
	return 0;
}

int shoal_comm_self(struct shoal_comm **ret_comm, struct shoal_err *err)
{
	return comm_open_transport(NULL, NULL, ret_comm, err);
}

/* ---- Closing ---- */

/* 0: all ranks are at their end. */
static int close_well(struct shoal_comm *c, struct shoal_err *err)
{
	int rc;

	c->doing = "in the close";
	c->state = COMM_CLOSING;
	rc = comm_wait_sends(c, err);
	if (rc == 0)
		rc = comm_meet(c, &c->world, COMM_CALL_CLOSE, 0, SHOAL_COMM_SUM, NULL, 0, err);
	return rc;
}

/*
 * The same where a rank has failed. A rank says goodbye only when all its own messages have been
 * received, so that after the goodbyes nothing is under way.
 */
static int part(struct shoal_comm *c)
{
	int rc;

	c->doing = "in the close after a failure";
	c->state = COMM_PARTING;
	c->deadline = comm_now() + PART_LIMIT;
	rc = comm_wait_sends(c, NULL);
	if (rc == 0)
		rc = comm_meet(c, &c->bye, COMM_CALL_CLOSE, 0, SHOAL_COMM_SUM, NULL, 0, NULL);
	return rc;
}

struct shoal_comm *shoal_comm_close(struct shoal_comm *c)
{
	struct shoal_err err = { "" };
	bool clean, at_rest;
	int rc = 0;

	if (!c)
		return NULL;
	if (!c->t) {
		release(c);
		return NULL;
	}
	if (!c->failed) {
		rc = close_well(c, &err);
		if (rc < 0 && rc != -ETIMEDOUT && !c->failed)
			shoal_comm_fail(c, err.msg);
	}
	if (c->failed)
		rc = c->bye.nr > 0 ? part(c) : -ENOMEM;
	clean = rc == 0;
	if (!clean && !comm_stopped(c))
		c->t->abort(c->t_self, 1);
	at_rest = comm_cancel_all(c);
	if (clean)
		c->t->stop(c->t_self);
	/* What MPI may still write to is not given back; the process is about to end. */
	if (clean || at_rest)
		release(c);
	return NULL;
}

/* ---- What is known ---- */

const struct shoal_comm_place *shoal_comm_place(const struct shoal_comm *c)
{
	return &c->place;
}

const char *shoal_comm_name(const struct shoal_comm *c)
{
	return c->w.name;
}

void shoal_comm_set_stop(struct shoal_comm *c, const int *stop)
{
	c->stop = stop;
}

void shoal_comm_set_stall(struct shoal_comm *c, double seconds,
			  void (*stalled)(void *self, const char *words), void *self)
{
	c->stall_seconds = seconds;
	c->stalled = stalled;
	c->stalled_self = self;
}
