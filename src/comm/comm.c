/* comm.c - opening and closing a comm, and handling the failure of a rank. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm_private.h"

#define CLOSE_LIMIT_NS \
	UINT64_C(3000000000) /* how long to wait for the other ranks at the end after a failure */

/* ---- Failure ---- */

int comm_check(const struct comm *c, struct shoal_err *err)
{
	const struct comm_failure *f = &c->failure;

	if (!c->failed)
		return 0;
	err_describe(err, "rank %d: %.*s", c->failed_rank,
		     (int)(c->failure_len - offsetof(struct comm_failure, words)), f->words);
	err_hint(err, (enum shoal_hint)le32_get(f->hint), le64_get(f->hint_value));
	return -EREMOTEIO;
}

int comm_begin(struct comm *c, const char *doing, struct shoal_err *err)
{
	c->doing = doing;
	return comm_check(c, err);
}

int comm_end(struct comm *c, int rc, const struct shoal_err *err)
{
	if (rc < 0)
		comm_fail(c, err);
	return rc;
}

void comm_set_failed(struct comm *c, int rank, const struct comm_failure *f, size_t len)
{
	c->failed = true;
	c->failed_rank = rank;
	c->failure = (struct comm_failure){ .hint = le32_of(SHOAL_HINT_NONE) };
	c->failure_len = u64_max(len, offsetof(struct comm_failure, words));
	memcpy(&c->failure, f, u64_min(len, sizeof(*f)));
}

void comm_fail(struct comm *c, const struct shoal_err *err)
{
	struct comm_failure f = { .hint = le32_of(err->hint),
				  .hint_value = le64_of(err->hint_value) };
	size_t len = u64_min(strlen(err->msg), sizeof(f.words));

	if (c->failed)
		return;
	memcpy(f.words, err->msg, len);
	comm_set_failed(c, c->w.rank, &f, offsetof(struct comm_failure, words) + len);
	for (int to = 0; c->fail_out && to < c->w.size; to++) {
		int rc = 0;

		if (to != c->w.rank)
			rc = comm_send(c, &c->fail_out[to], &c->failure, c->failure_len, to,
				       COMM_TAG_FAIL, NULL);
		(void)rc; /* reaching some ranks is the best that can be done */
	}
}

/* ---- Opening ---- */

static void comm_release(struct comm *c)
{
	comm_pulse_close(c);
	comm_mail_release(c);
	comm_fast_release(c);
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
static void count_places(struct comm *c, const uint64_t *leader, int base, int nr)
{
	struct comm_place *p = &c->place;

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

/* Two passes: the first counts the entries, the second stores them. */
static int find_places(struct comm *c, struct shoal_err *err)
{
	uint64_t leader[256];

	for (int pass = 0; pass < 2; pass++) {
		int nr;

		if (pass == 1) {
			size_t nr_here = (size_t)c->place.node_size; /* at least this rank */

			c->node_ranks = malloc((nr_here + 1) * sizeof(*c->node_ranks));
			if (!c->node_ranks)
				return err_set(err, -ENOMEM, "out of memory");
		}
		c->place = (struct comm_place){ .rank = c->w.rank,
						.size = c->w.size,
						.node_leader = c->w.node_leader };
		for (int base = 0; base < c->w.size; base += nr) {
			int rc;

			nr = (int)u64_min(ARRAY_LEN(leader), (uint64_t)(c->w.size - base));
			memset(leader, 0, sizeof(leader));
			if (c->w.rank >= base && c->w.rank < base + nr)
				leader[c->w.rank - base] = (uint64_t)c->w.node_leader;
			rc = comm_rendezvous(c, &c->world, COMM_CALL_PLACE, 0, COMM_SUM, leader,
					     (size_t)nr, err);
			if (rc < 0)
				return rc;
			count_places(c, leader, base, nr);
		}
	}
	return 0;
}

static int set_up(struct comm *c, struct shoal_err *err)
{
	int rc;

	c->fail_out = calloc((size_t)c->w.size, sizeof(*c->fail_out));
	if (!c->fail_out ||
	    comm_group_init(&c->world, NULL, c->w.size, c->w.rank, COMM_TAG_WORLD) < 0 ||
	    comm_group_init(&c->bye, NULL, c->w.size, c->w.rank, COMM_TAG_BYE) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	c->doing = "at the start";
	rc = find_places(c, err);
	if (rc < 0)
		return rc;
	if (comm_group_init(&c->node, c->node_ranks, c->place.node_size, c->place.node_rank,
			    COMM_TAG_NODE) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

int comm_open_transport(const struct comm_transport *t, void *t_self, struct comm **ret_comm,
			struct shoal_err *err)
{
	struct comm *c = calloc(1, sizeof(*c));
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->t_self = t_self;
	c->mail.last = &c->mail.first;
	if (t) {
		rc = t->start(t_self, &c->w);
		if (rc < 0) {
			free(c);
			return err_set(err, rc, "cannot start: %s", t->words(t_self));
		}
	} else {
		c->w = (struct comm_world){ .size = 1, .name = "one process" };
	}
	c->t = t;
	rc = set_up(c, err);
	if (rc < 0) {
		comm_fail(c, err);
		comm_close(c);
		return rc;
	}
	*ret_comm = c;
	return 0;
}

int comm_self(struct comm **ret_comm, struct shoal_err *err)
{
	return comm_open_transport(NULL, NULL, ret_comm, err);
}

/* ---- Closing ---- */

/* 0 if all ranks have reached their end. */
static int close_clean(struct comm *c, struct shoal_err *err)
{
	int rc;

	c->doing = "in the close";
	c->state = COMM_CLOSING;
	rc = comm_wait_sends(c, err);
	if (rc == 0)
		rc = comm_rendezvous(c, &c->world, COMM_CALL_CLOSE, 0, COMM_SUM, NULL, 0, err);
	return rc;
}

/*
 * As close_clean(), after a rank has failed. A rank says goodbye only once all its own messages
 * have been received, so that nothing is in flight after the goodbyes.
 */
static int close_failed(struct comm *c)
{
	int rc;

	c->doing = "in the close after a failure";
	c->state = COMM_DRAINING;
	c->deadline = clock_now() + CLOSE_LIMIT_NS;
	rc = comm_wait_sends(c, NULL);
	if (rc == 0)
		rc = comm_rendezvous(c, &c->bye, COMM_CALL_CLOSE, 0, COMM_SUM, NULL, 0, NULL);
	return rc;
}

int comm_finish(struct comm *c, struct shoal_err *err)
{
	struct shoal_err own = { "" };
	bool failed = c->failed;
	int rc = 0;

	err = err ? err : &own;
	c->finished = true;
	if (!c->t)
		return 0;
	if (!failed) {
		rc = close_clean(c, err);
		if (rc < 0 && rc != -ETIMEDOUT && !c->failed)
			comm_fail(c, err);
	}
	c->clean = rc == 0;
	if (c->failed)
		c->clean = c->bye.nr > 0 && close_failed(c) == 0;
	comm_pulse_close(c);
	return failed ? 0 : rc;
}

struct comm *comm_close(struct comm *c)
{
	bool at_rest;

	if (!c)
		return NULL;
	if (!c->finished) {
		int rc = comm_finish(c, NULL);

		(void)rc; /* the caller of this call does not want to know */
	}
	if (!c->t) {
		comm_release(c);
		return NULL;
	}
	if (!c->clean && !comm_stopped(c))
		c->t->abort(c->t_self, 1);
	at_rest = comm_cancel_all(c);
	if (c->clean)
		c->t->stop(c->t_self);
	/* Memory that MPI may still write to is leaked; the process is about to end. */
	if (c->clean || at_rest)
		comm_release(c);
	return NULL;
}

/* ---- Accessors ---- */

const struct comm_place *comm_place(const struct comm *c)
{
	return &c->place;
}

const char *comm_name(const struct comm *c)
{
	return c->w.name;
}

void comm_set_stop(struct comm *c, const int *stop)
{
	c->stop = stop;
}

void comm_defer_stop(struct comm *c, bool deferred)
{
	c->stop_deferred = deferred;
}

void comm_set_peer_timeout(struct comm *c, unsigned seconds)
{
	c->peer_seconds = seconds;
}

void comm_set_stall(struct comm *c, double seconds, void (*stalled)(void *self, const char *words),
		    void *self)
{
	c->stall_seconds = seconds;
	c->stalled = stalled;
	c->stalled_self = self;
}
