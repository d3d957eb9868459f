/*
 * wait.c - single messages, and the one way to wait for them.
 *
 * A rank that waits sleeps a fraction of the time that it has waited so far, so that a short wait
 * is ended at once and a long one costs nothing. MPI makes progress only inside its calls: that is
 * why sleeps are short also in long waits.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "comm/comm_inside.h"

#define TRIES_AWAKE  20u      /* looks before the first sleep */
#define SLEEP_MIN_NS 20000u   /* 20 us */
#define SLEEP_MAX_NS 1000000u /* 1 ms: waiting takes 2.5 % of a core; with 0.5 ms it took 4.6 % */
#define SLEEP_PART   32u      /* of the time waited */
#define STRAY_TRIES  16u      /* a mistake may be found a little later */
#define STOP_LIMIT   UINT64_C(1000000000)

uint64_t comm_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool comm_stopped(const struct shoal_comm *c)
{
	return c->stop && __atomic_load_n(c->stop, __ATOMIC_RELAXED) != 0;
}

/* ---- Messages ---- */

static void op_link(struct shoal_comm *c, struct comm_op *op, bool is_send)
{
	op->busy = true;
	op->is_send = is_send;
	op->next = c->busy;
	op->link = &c->busy;
	if (op->next)
		op->next->link = &op->next;
	c->busy = op;
}

static void op_unlink(struct comm_op *op)
{
	*op->link = op->next;
	if (op->next)
		op->next->link = op->link;
	op->busy = false;
}

static int transport_failed(const struct shoal_comm *c, int rc, const char *what,
			    struct shoal_err *err)
{
	return shoal_fail(err, rc, "%s: %s: %s", c->w.name, what, c->t->words(c->t_self));
}

int comm_send(struct shoal_comm *c, struct comm_op *op, const void *buf, size_t len, int to,
	      enum comm_tag tag, struct shoal_err *err)
{
	int rc = c->t->isend(c->t_self, buf, len, to, (int)tag, &op->req);

	if (rc < 0)
		return transport_failed(c, rc, "cannot send a message", err);
	op_link(c, op, true);
	return 0;
}

int comm_recv(struct shoal_comm *c, struct comm_op *op, void *buf, size_t len, int from,
	      enum comm_tag tag, struct shoal_err *err)
{
	int rc = c->t->irecv(c->t_self, buf, len, from, (int)tag, &op->req);

	if (rc < 0)
		return transport_failed(c, rc, "cannot receive a message", err);
	op_link(c, op, false);
	return 0;
}

int comm_test(struct shoal_comm *c, struct comm_op *op, struct shoal_err *err)
{
	int rc;

	if (!op->busy)
		return 1;
	rc = c->t->test(c->t_self, &op->req, &op->len);
	if (rc == 0)
		return 0;
	op_unlink(op);
	return rc < 0 ? transport_failed(c, rc, "a message was lost", err) : 1;
}

int comm_probe(struct shoal_comm *c, enum comm_tag tag, int *ret_from, size_t *ret_len,
	       struct shoal_err *err)
{
	int rc = c->t->iprobe(c->t_self, (int)tag, ret_from, ret_len);

	return rc < 0 ? transport_failed(c, rc, "cannot look for messages", err) : rc;
}

bool comm_cancel_all(struct shoal_comm *c)
{
	bool all = true;

	while (c->busy) {
		struct comm_op *op = c->busy;

		op_unlink(op);
		all &= c->t->cancel(c->t_self, &op->req);
	}
	return all;
}

/* ---- What may come while one waits ---- */

static int look_for_failure(struct shoal_comm *c, struct shoal_err *err)
{
	int rc = 0;

	if (!c->fail_in.busy) {
		size_t len;

		rc = comm_probe(c, COMM_TAG_FAIL, &c->fail_from, &len, err);
		if (rc <= 0)
			return rc;
		rc = comm_recv(c, &c->fail_in, c->fail_buf, COMM_WORDS_MAX, c->fail_from,
			       COMM_TAG_FAIL, err);
		if (rc < 0)
			return rc;
	}
	rc = comm_test(c, &c->fail_in, err);
	if (rc > 0 && !c->failed)
		comm_set_failed(c, c->fail_from, c->fail_buf, c->fail_in.len);
	return rc < 0 ? rc : 0;
}

/*
 * Receive what others had sent before they knew of the failure, and nobody wants any more: a send
 * that is not received may keep its sender, and MPI, from ending.
 */
static int throw_away(struct shoal_comm *c, struct shoal_err *err)
{
	static const enum comm_tag tag[] = { COMM_TAG_WORLD, COMM_TAG_NODE, COMM_TAG_ASK,
					     COMM_TAG_CHUNK, COMM_TAG_LEADERS };

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(tag); i++) {
		size_t len;
		int from, rc = comm_test(c, &c->trash, err);

		if (rc <= 0)
			return rc;
		free(c->trash_buf);
		c->trash_buf = NULL;
		rc = comm_probe(c, tag[i], &from, &len, err);
		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		c->trash_buf = malloc(len + 1);
		if (!c->trash_buf)
			return shoal_fail(err, -ENOMEM, "out of memory");
		rc = comm_recv(c, &c->trash, c->trash_buf, len, from, tag[i], err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* An asked-for stop ends every wait, and sets a limit to a close. */
static int look_for_stop(struct shoal_comm *c, struct shoal_err *err)
{
	uint64_t now;

	if (!c->deadline && !comm_stopped(c))
		return 0;
	if (c->state == COMM_OPEN)
		return shoal_fail(err, -ECANCELED, "stopped");
	now = comm_now();
	if (comm_stopped(c) && (!c->deadline || c->deadline > now + STOP_LIMIT))
		c->deadline = now + STOP_LIMIT;
	if (now >= c->deadline)
		return shoal_fail(err, -ETIMEDOUT, "other ranks did not come to the end");
	return 0;
}

int comm_look(struct shoal_comm *c, struct shoal_err *err)
{
	int rc = look_for_stop(c, err);

	if (rc < 0 || !c->t)
		return rc;
	rc = look_for_failure(c, err);
	if (rc < 0)
		return rc;
	if (c->failed && c->state != COMM_PARTING)
		return comm_check(c, err);
	rc = comm_mail_pump(c, err);
	if (rc == 0 && c->state == COMM_PARTING)
		rc = throw_away(c, err);
	return rc;
}

/* ---- Waiting ---- */

static void say_stall(const struct shoal_comm *c, const struct comm_pause *p, double seconds)
{
	char whom[64] = "the others", words[256];

	if (p->lo == p->hi)
		snprintf(whom, sizeof(whom), "rank %d", p->lo);
	else if (p->lo < p->hi)
		snprintf(whom, sizeof(whom), "one of the ranks %d to %d", p->lo, p->hi);
	snprintf(words, sizeof(words), "rank %d has waited %.3g s %s for %s", c->w.rank, seconds,
		 c->doing, whom);
	c->stalled(c->stalled_self, words);
}

/*
 * Who waits for all below to come to a call of one kind, and has from its own node a message of a
 * call of the other kind, would wait for ever: that rank cannot have made this call yet.
 */
static int look_for_stray(struct shoal_comm *c, const struct comm_pause *p, struct shoal_err *err)
{
	size_t len;
	int from, rc = p->stray ? comm_probe(c, p->stray, &from, &len, err) : 0;

	if (rc <= 0)
		return rc;
	for (int i = 0; i < c->node.nr; i++)
		if (c->node_ranks[i] == from)
			return shoal_fail(err, -EPROTO,
					  "rank %d is at a call of %s, but rank %d %s", from,
					  p->stray == COMM_TAG_NODE ? "its node" : "all ranks",
					  c->w.rank, c->doing);
	return 0;
}

int comm_pause(struct shoal_comm *c, struct comm_pause *p, struct shoal_err *err)
{
	uint64_t now, ns;
	int rc = comm_look(c, err);

	if (rc == 0 && p->tries % STRAY_TRIES == STRAY_TRIES - 1)
		rc = look_for_stray(c, p, err);
	if (rc < 0)
		return rc;
	if (p->tries++ < TRIES_AWAKE && !p->since) {
		sched_yield(); /* the one waited for may need this very core */
		return 0;
	}
	now = comm_now();
	if (!p->since)
		p->since = now;
	if (c->stalled && !p->voluntary && c->stall_seconds > 0) {
		double seconds = (double)(now - p->since) / 1e9;
		uint64_t stalls = (uint64_t)(seconds / c->stall_seconds);

		if (stalls > p->stalls)
			say_stall(c, p, seconds);
		p->stalls = stalls;
	}
	ns = (now - p->since) / SLEEP_PART;
	ns = shoal_min(shoal_max(ns, SLEEP_MIN_NS), SLEEP_MAX_NS);
	if (p->until)
		ns = p->until > now ? shoal_min(ns, p->until - now) : 0;
	if (ns)
		nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
	return 0;
}

int comm_wait_paused(struct shoal_comm *c, struct comm_op *op, struct comm_pause *p,
		     struct shoal_err *err)
{
	for (;;) {
		int rc = comm_test(c, op, err);

		if (rc != 0)
			return rc < 0 ? rc : 0;
		rc = comm_pause(c, p, err);
		if (rc < 0)
			return rc;
	}
}

int comm_wait(struct shoal_comm *c, struct comm_op *op, int lo, int hi, struct shoal_err *err)
{
	struct comm_pause p = { .lo = lo, .hi = hi };

	return comm_wait_paused(c, op, &p, err);
}

int comm_wait_sends(struct shoal_comm *c, struct shoal_err *err)
{
	struct comm_pause p = { .lo = 1, .hi = 0 };

	for (;;) {
		struct comm_op *next;
		bool all = true;
		int rc;

		for (struct comm_op *op = c->busy; op; op = next) {
			next = op->next;
			rc = op->is_send ? comm_test(c, op, err) : 1;
			if (rc < 0)
				return rc;
			all &= rc > 0;
		}
		if (all)
			return 0;
		rc = comm_pause(c, &p, err);
		if (rc < 0)
			return rc;
	}
}
