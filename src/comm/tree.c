/*
 * tree.c - calls along a binomial tree: barrier, broadcast, reduce.
 *
 * Every collective call starts with a rendezvous: headers go up to the first rank, where each
 * parent compares those of its children with its own, and down again. So ranks that make different
 * calls get an error instead of waiting for each other forever; and values are combined on the way.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_private.h"

struct head {
	uint32_t seq;
	uint32_t call;
	uint64_t detail;
};

#define BUF_BYTES (sizeof(struct head) + COMM_VALUES_MAX * sizeof(uint64_t))

int comm_group_init(struct comm_group *g, const int *rank, int nr, int me, enum comm_tag tag)
{
	*g = (struct comm_group){ .rank = rank, .nr = nr, .me = me, .tag = tag };
	if (nr == 1)
		return 0;
	g->buf = malloc(BUF_BYTES);
	g->in_buf = malloc(BUF_BYTES);
	if (g->buf && g->in_buf)
		return 0;
	g->nr = 0;
	return -ENOMEM;
}

static int rank_of(const struct comm_group *g, int member)
{
	return g->rank ? g->rank[member] : member;
}

/* The last member of a member's subtree, which extends to the next child of its parent. */
static int last_below(const struct comm_group *g, int member)
{
	int low = member & -member;

	return member + low - 1 < g->nr ? member + low - 1 : g->nr - 1;
}

static const char *call_name(uint32_t call)
{
	static const char *const name[] = {
		[COMM_CALL_BARRIER] = "a barrier",
		[COMM_CALL_BROADCAST] = "a broadcast",
		[COMM_CALL_REDUCE] = "a reduce",
		[COMM_CALL_GATHER] = "a gather",
		[COMM_CALL_EXCHANGE] = "an exchange",
		[COMM_CALL_END] = "the end of a gather or an exchange",
		[COMM_CALL_PLACE] = "the start",
		[COMM_CALL_CLOSE] = "the close",
	};

	return call < ARRAY_LEN(name) && name[call] ? name[call] : "an unknown call";
}

static int check_head(const struct comm *c, const struct comm_group *g, const uint8_t *got,
		      size_t len, size_t want_len, int from, struct shoal_err *err)
{
	struct head mine, theirs;

	if (len < sizeof(theirs))
		return err_set(err, -EPROTO, "rank %d sent a malformed message of %zu bytes", from,
			       len);
	memcpy(&mine, g->buf, sizeof(mine));
	memcpy(&theirs, got, sizeof(theirs));
	if (theirs.call != mine.call || theirs.seq != mine.seq)
		return err_set(err, -EPROTO,
			       "rank %d is at %s (call %" PRIu32
			       "), but rank %d at %s (call %" PRIu32 ")",
			       from, call_name(theirs.call), theirs.seq, c->w.rank,
			       call_name(mine.call), mine.seq);
	if (theirs.detail != mine.detail || len != want_len)
		return err_set(err, -EPROTO,
			       "rank %d and rank %d are at %s with different arguments", from,
			       c->w.rank, call_name(mine.call));
	return 0;
}

void comm_combine(enum comm_reduce_op op, uint64_t *into, const uint64_t *with, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		switch (op) {
		case COMM_SUM:
			into[i] += with[i];
			break;
		case COMM_MIN:
			into[i] = u64_min(into[i], with[i]);
			break;
		case COMM_MAX:
			into[i] = u64_max(into[i], with[i]);
			break;
		}
	}
}

/* The values after a header, which has 16 bytes. The memory comes from malloc(). */
static uint64_t *values_of(uint8_t *buf)
{
	return (uint64_t *)(void *)(buf + sizeof(struct head));
}

/* From the leaves to the first member: check headers and combine values. */
static int go_up(struct comm *c, struct comm_group *g, enum comm_reduce_op op, size_t nr,
		 size_t len, struct shoal_err *err)
{
	struct comm_pause p = { 0 };
	int rc, parent;

	if (g->tag != COMM_TAG_BYE)
		p.stray = g->tag == COMM_TAG_WORLD ? COMM_TAG_NODE : COMM_TAG_WORLD;
	for (int bit = 1; !(g->me & bit) && g->me + bit < g->nr; bit <<= 1) {
		int child = g->me + bit, from = rank_of(g, child);

		rc = comm_recv(c, &g->in, g->in_buf, BUF_BYTES, from, g->tag, err);
		if (rc < 0)
			return rc;
		p.lo = from;
		p.hi = rank_of(g, last_below(g, child));
		rc = comm_wait_paused(c, &g->in, &p, err);
		if (rc < 0)
			return rc;
		rc = check_head(c, g, g->in_buf, g->in.len, len, from, err);
		if (rc < 0)
			return rc;
		comm_combine(op, values_of(g->buf), values_of(g->in_buf), nr);
	}
	if (g->me == 0)
		return 0;
	parent = rank_of(g, g->me & (g->me - 1));
	rc = comm_send(c, &g->out[0], g->buf, len, parent, g->tag, err);
	return rc < 0 ? rc : comm_wait(c, &g->out[0], parent, parent, err);
}

/* Copy the first @len bytes of member @root's buffer to all other members' buffers. */
static int go_down(struct comm *c, struct comm_group *g, int root, size_t len,
		   struct shoal_err *err)
{
	int v = (g->me - root + g->nr) % g->nr, nr_out = 0, rc;

	if (v != 0) {
		int parent = rank_of(g, ((v & (v - 1)) + root) % g->nr);

		rc = comm_recv(c, &g->in, g->in_buf, BUF_BYTES, parent, g->tag, err);
		if (rc < 0)
			return rc;
		rc = comm_wait(c, &g->in, 1, 0, err);
		if (rc < 0)
			return rc;
		rc = check_head(c, g, g->in_buf, g->in.len, len, parent, err);
		if (rc < 0)
			return rc;
		memcpy(g->buf, g->in_buf, len);
	}
	for (int bit = 1; !(v & bit) && v + bit < g->nr; bit <<= 1) {
		int child = rank_of(g, (v + bit + root) % g->nr);

		rc = comm_send(c, &g->out[nr_out++], g->buf, len, child, g->tag, err);
		if (rc < 0)
			return rc;
	}
	for (int i = 0; i < nr_out; i++) {
		rc = comm_wait(c, &g->out[i], 1, 0, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void set_head(struct comm_group *g, enum comm_call call, uint64_t detail)
{
	struct head head = { .seq = ++g->seq, .call = call, .detail = detail };

	memcpy(g->buf, &head, sizeof(head));
}

int comm_rendezvous(struct comm *c, struct comm_group *g, enum comm_call call, uint64_t detail,
		    enum comm_reduce_op op, uint64_t *values, size_t nr, struct shoal_err *err)
{
	size_t len = sizeof(struct head) + nr * sizeof(*values);
	int rc = comm_poll_events(c, err);

	if (rc < 0 || g->nr == 1)
		return rc;
	set_head(g, call, detail);
	if (nr)
		memcpy(g->buf + sizeof(struct head), values, nr * sizeof(*values));
	rc = go_up(c, g, op, nr, len, err);
	if (rc < 0)
		return rc;
	rc = go_down(c, g, 0, len, err);
	if (rc == 0 && nr)
		memcpy(values, g->buf + sizeof(struct head), nr * sizeof(*values));
	c->met |= rc == 0 && c->pulse && g == &c->world;
	return rc;
}

/* ---- The calls ---- */

int comm_barrier(struct comm *c, struct shoal_err *err)
{
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	rc = comm_begin(c, "in a barrier", err);
	if (rc < 0)
		return rc;
	rc = comm_rendezvous(c, &c->world, COMM_CALL_BARRIER, 0, COMM_SUM, NULL, 0, err);
	return comm_end(c, rc, err);
}

/* Piece by piece, because the buffers have a fixed size. */
static int broadcast_bytes(struct comm *c, int root, uint8_t *buf, size_t len,
			   struct shoal_err *err)
{
	size_t room = BUF_BYTES - sizeof(struct head), n;
	struct comm_group *g = &c->world;

	for (size_t off = 0; off < len && g->nr > 1; off += n) {
		int rc;

		n = u64_min(room, len - off);
		set_head(g, COMM_CALL_BROADCAST, off);
		if (g->me == root)
			memcpy(g->buf + sizeof(struct head), buf + off, n);
		rc = go_down(c, g, root, sizeof(struct head) + n, err);
		if (rc < 0)
			return rc;
		if (g->me != root)
			memcpy(buf + off, g->buf + sizeof(struct head), n);
	}
	return 0;
}

int comm_broadcast(struct comm *c, int root, void *buf, size_t len, struct shoal_err *err)
{
	uint64_t lens[2] = { len, ~(uint64_t)len };
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	rc = comm_begin(c, "in a broadcast", err);
	if (rc < 0)
		return rc;
	if (root < 0 || root >= c->w.size) {
		rc = err_set(err, -EINVAL, "cannot broadcast from rank %d of %d", root, c->w.size);
		return comm_end(c, rc, err);
	}
	rc = comm_rendezvous(c, &c->world, COMM_CALL_BROADCAST, (uint64_t)root, COMM_MAX, lens, 2,
			     err);
	if (rc == 0 && lens[0] != ~lens[1])
		rc = err_set(err, -EPROTO,
			     "the broadcast has %zu bytes here, but %" PRIu64 " to %" PRIu64
			     " on other ranks",
			     len, ~lens[1], lens[0]);
	if (rc == 0)
		rc = broadcast_bytes(c, root, buf, len, err);
	return comm_end(c, rc, err);
}

int comm_reduce(struct comm *c, enum comm_reduce_op op, uint64_t *values, size_t nr,
		struct shoal_err *err)
{
	uint64_t detail = (uint64_t)op << 60 | (uint64_t)nr;
	struct shoal_err own = { "" };
	size_t done = 0;
	int rc;

	err = err ? err : &own;
	rc = comm_begin(c, "in a reduce", err);
	if (rc < 0)
		return rc;
	do { /* once even without values: that is a barrier */
		size_t n = u64_min(nr - done, COMM_VALUES_MAX);

		rc = comm_rendezvous(c, &c->world, COMM_CALL_REDUCE, detail, op, values + done, n,
				     err);
		done += n;
	} while (rc == 0 && done < nr);
	return comm_end(c, rc, err);
}
