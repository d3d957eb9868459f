/*
 * wait.c - single messages, and the one way to wait for them.
 *
 * A waiting rank sleeps for a fraction of the time that it has waited so far, so that a short wait
 * ends at once and a long one costs nothing. MPI makes progress only inside its calls, which is why
 * sleeps stay short even in long waits.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "comm/comm_private.h"

#define TRIES_AWAKE  20u      /* checks before the first sleep */
#define SLEEP_MIN_NS 20000u   /* 20 us */
#define SLEEP_MAX_NS 1000000u /* 1 ms: waiting takes 2.5 % of a core; with 0.5 ms it took 4.6 % */
#define SLEEP_PART   32u      /* sleep for this fraction of the time waited */
#define STRAY_TRIES  16u      /* a wrong call may be detected a little later */
#define STOP_LIMIT   UINT64_C(1000000000)
#define STOP_GRACE   UINT64_C(3000000000) /* for waits after a deferred stop, all together */

bool comm_stopped(const struct comm *c)
{
	return stop_requested(c->stop);
}

/* ---- Messages ---- */

static void op_link(struct comm *c, struct comm_op *op, bool is_send)
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

static int transport_failed(const struct comm *c, int rc, const char *what, struct shoal_err *err)
{
	return err_set(err, rc, "%s: %s: %s", c->w.name, what, c->t->words(c->t_self));
}

int comm_send(struct comm *c, struct comm_op *op, const void *buf, size_t len, int to,
	      enum comm_tag tag, struct shoal_err *err)
{
	int rc = c->t->isend(c->t_self, buf, len, to, (int)tag, &op->req);

	if (rc < 0)
		return transport_failed(c, rc, "cannot send a message", err);
	op_link(c, op, true);
	return 0;
}

int comm_recv(struct comm *c, struct comm_op *op, void *buf, size_t len, int from,
	      enum comm_tag tag, struct shoal_err *err)
{
	int rc = c->t->irecv(c->t_self, buf, len, from, (int)tag, &op->req);

	if (rc < 0)
		return transport_failed(c, rc, "cannot receive a message", err);
	op_link(c, op, false);
	return 0;
}

int comm_test(struct comm *c, struct comm_op *op, struct shoal_err *err)
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

int comm_probe(struct comm *c, enum comm_tag tag, int *ret_from, size_t *ret_len,
	       struct shoal_err *err)
{
	int rc = c->t->iprobe(c->t_self, (int)tag, ret_from, ret_len);

	return rc < 0 ? transport_failed(c, rc, "cannot look for messages", err) : rc;
}

bool comm_cancel_all(struct comm *c)
{
	bool all = true;

	while (c->busy) {
		struct comm_op *op = c->busy;

		op_unlink(op);
		all &= c->t->cancel(c->t_self, &op->req);
	}
	return all;
}

/* ---- Events during a wait ---- */

static int check_failure(struct comm *c, struct shoal_err *err)
{
	int rc = 0;

	if (!c->fail_in.busy) {
		size_t len;

		rc = comm_probe(c, COMM_TAG_FAIL, &c->fail_from, &len, err);
		if (rc <= 0)
			return rc;
		rc = comm_recv(c, &c->fail_in, &c->fail_buf, sizeof(c->fail_buf), c->fail_from,
			       COMM_TAG_FAIL, err);
		if (rc < 0)
			return rc;
	}
	rc = comm_test(c, &c->fail_in, err);
	if (rc > 0 && !c->failed)
		comm_set_failed(c, c->fail_from, &c->fail_buf, c->fail_in.len);
	return rc < 0 ? rc : 0;
}

/*
 * Receive and discard messages that were sent before the failure was known: an unreceived send may
 * keep its sender, and MPI, from ending.
 */
static int discard_messages(struct comm *c, struct shoal_err *err)
{
	static const enum comm_tag tag[] = { COMM_TAG_WORLD, COMM_TAG_NODE, COMM_TAG_ASK,
					     COMM_TAG_CHUNK, COMM_TAG_LEADERS };

	for (size_t i = 0; i < ARRAY_LEN(tag); i++) {
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
			return err_set(err, -ENOMEM, "out of memory");
		rc = comm_recv(c, &c->trash, c->trash_buf, len, from, tag[i], err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* A requested stop ends every wait, and limits the time of a close. */
static int check_stop(struct comm *c, struct shoal_err *err)
{
	uint64_t now;

	if (!c->deadline && !comm_stopped(c))
		return 0;
	now = clock_now();
	if (c->state == COMM_OPEN) {
		if (!c->stop_seen)
			c->stop_seen = now;
		if (c->stop_deferred && now < c->stop_seen + STOP_GRACE)
			return 0;
		return err_set(err, -ECANCELED, "stopped");
	}
	if (comm_stopped(c) && (!c->deadline || c->deadline > now + STOP_LIMIT))
		c->deadline = now + STOP_LIMIT;
	if (now >= c->deadline)
		return err_set(err, -ETIMEDOUT, "other ranks did not finish in time");
	return 0;
}

int comm_poll_events(struct comm *c, struct shoal_err *err)
{
	int rc = check_stop(c, err);

	if (rc < 0 || !c->t)
		return rc;
	rc = check_failure(c, err);
	if (rc < 0)
		return rc;
	if (c->failed && c->state != COMM_DRAINING)
		return comm_check(c, err);
	rc = comm_mail_pump(c, err);
	if (rc == 0 && c->state == COMM_DRAINING)
		rc = discard_messages(c, err);
	return rc;
}

/* ---- Waiting ---- */

static void report_stall(const struct comm *c, const struct comm_pause *p, double seconds)
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
 * A rank that waits for all ranks below it in a call of one kind, and has received from its own
 * node a message of a call of the other kind, would wait forever: that rank cannot have made this
 * call yet.
 */
static int check_stray(struct comm *c, const struct comm_pause *p, struct shoal_err *err)
{
	size_t len;
	int from, rc = p->stray ? comm_probe(c, p->stray, &from, &len, err) : 0;

	if (rc <= 0)
		return rc;
	for (int i = 0; i < c->node.nr; i++)
		if (c->node_ranks[i] == from)
			return err_set(err, -EPROTO, "rank %d is at a call of %s, but rank %d %s",
				       from, p->stray == COMM_TAG_NODE ? "its node" : "all ranks",
				       c->w.rank, c->doing);
	return 0;
}

int comm_pause(struct comm *c, struct comm_pause *p, struct shoal_err *err)
{
	uint64_t now, ns;
	int rc = comm_poll_events(c, err);

	if (rc == 0 && p->tries % STRAY_TRIES == STRAY_TRIES - 1)
		rc = check_stray(c, p, err);
	if (rc < 0)
		return rc;
	if (p->tries++ < TRIES_AWAKE && !p->since) {
		sched_yield(); /* the awaited rank may need this core */
		return 0;
	}
	now = clock_now();
	if (!p->since)
		p->since = now;
	if (c->stalled && !p->voluntary && c->stall_seconds > 0) {
		double seconds = (double)(now - p->since) / 1e9;
		uint64_t stalls = (uint64_t)(seconds / c->stall_seconds);

		if (stalls > p->stalls)
			report_stall(c, p, seconds);
		p->stalls = stalls;
	}
	rc = now < p->since + COMM_PULSE_PERIOD_NS ? 0 : comm_pulse_check(c, p->since, now, err);
	if (rc < 0)
		return rc;
	ns = (now - p->since) / SLEEP_PART;
	ns = u64_min(u64_max(ns, SLEEP_MIN_NS), SLEEP_MAX_NS);
	if (p->until)
		ns = p->until > now ? u64_min(ns, p->until - now) : 0;
	if (ns)
		nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
	return 0;
}

int comm_wait_paused(struct comm *c, struct comm_op *op, struct comm_pause *p,
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

int comm_wait(struct comm *c, struct comm_op *op, int lo, int hi, struct shoal_err *err)
{
	struct comm_pause p = { .lo = lo, .hi = hi };

	return comm_wait_paused(c, op, &p, err);
}

int comm_wait_sends(struct comm *c, struct shoal_err *err)
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
