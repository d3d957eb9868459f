/*
 * flow.c - chunks of blobs that pass through this rank.
 *
 * A flow has a few slots of one chunk each. A chunk is read from this rank's own blob, or requested
 * from another rank, into a slot; it is passed to the callback, and sent on if another rank
 * requested it; then the slot is free for the next. Chunks arrive, are taken and are sent in one
 * order: owner after owner, each from front to back. A chunk is sent only on request, and requested
 * only when there is a slot for it, so no message ever waits inside MPI in memory that is not
 * counted; and several requests at once keep the link busy.
 *
 *   gather to a root:  on the root, owners 0..W-1, each from its owner, sent to nobody;
 *                      on the other ranks, their own chunks to the root
 *   gather to all:     owners 0..W-1 from the left neighbour to the right one, around a ring
 *   exchange:          one flow from the left and one to the right at the same time
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_private.h"

#define CHUNK_MAX (4u << 20) /* larger chunks are not faster: 4 MiB take about a millisecond */

struct chunk_head {
	uint32_t seq; /* of the call it belongs to */
	int32_t owner;
	uint64_t off, total;
};

int comm_flows_init(struct comm *c, unsigned nr, unsigned depth, size_t budget,
		    struct shoal_err *err)
{
	size_t chunk = u64_min(budget / (nr * depth), CHUNK_MAX);

	c->flow_mem = malloc(nr * depth * chunk);
	if (!c->flow_mem)
		return err_set(err, -ENOMEM, "cannot allocate %zu bytes for messages",
			       nr * depth * chunk);
	for (unsigned i = 0; i < nr; i++) {
		struct comm_flow *f = &c->flow[i];

		*f = (struct comm_flow){ .depth = depth,
					 .room = chunk - sizeof(struct chunk_head) };
		for (unsigned s = 0; s < depth; s++)
			f->slot[s].buf = c->flow_mem + (i * depth + s) * chunk;
	}
	return 0;
}

/* Request the chunks of @owner next. */
static void set_owner(const struct comm *c, struct comm_flow *f, int owner)
{
	f->owner = owner;
	f->off = 0;
	f->known = owner == c->w.rank;
	f->total = f->known ? f->mine->len : 0;
}

void comm_flow_start(struct comm *c, struct comm_flow *f, int first, int end,
		     const struct comm_blob *mine, int from, int to)
{
	f->mine = mine;
	f->from = from;
	f->to = to;
	f->end_owner = end;
	f->seq = c->world.seq;
	f->may_send = false;
	set_owner(c, f, first);
}

/* Advance past the chunk opened last, once it is known whether its owner has more. */
static void flow_advance(const struct comm *c, struct comm_flow *f)
{
	if (f->known && f->off >= f->total)
		set_owner(c, f, f->owner + 1);
}

static bool is_sent_on(const struct comm_flow *f, const struct comm_slot *s)
{
	return f->to >= 0 && f->to != s->owner;
}

/* ---- The stages of a chunk. Each returns 1 if it made progress. ---- */

static int read_own(struct comm_flow *f, struct comm_slot *s, struct shoal_err *err)
{
	const struct comm_blob *b = f->mine;
	struct chunk_head head = {
		.seq = f->seq, .owner = s->owner, .off = s->off, .total = s->total
	};
	struct shoal_err theirs = { "" };
	int rc;

	s->len = u64_min(f->room, s->total - s->off);
	s->data = s->buf + sizeof(head);
	memcpy(s->buf, &head, sizeof(head));
	if (s->len == 0)
		return 1;
	if (b->data && !is_sent_on(f, s)) {
		s->data = (const uint8_t *)b->data + s->off;
		return 1;
	}
	if (b->data) {
		memcpy(s->buf + sizeof(head), (const uint8_t *)b->data + s->off, s->len);
		return 1;
	}
	if (!b->read)
		return err_set(err, -EINVAL, "a blob of %" PRIu64 " bytes has no data", b->len);
	rc = b->read(b->self, s->off, s->buf + sizeof(head), s->len, &theirs);
	if (rc < 0)
		return err_set_as(err, rc, &theirs, "%s",
				  theirs.msg[0] ? theirs.msg : "cannot read the data to send");
	return 1;
}

static int open_chunk(struct comm *c, struct comm_flow *f, struct shoal_err *err)
{
	struct comm_slot *s = &f->slot[f->opened % f->depth];
	int from, rc;

	/*
	 * Do not request an owner's second chunk before the first has shown whether there is one.
	 */
	if (f->owner == f->end_owner || f->opened - f->freed == f->depth ||
	    (!f->known && f->off > 0))
		return 0;
	s->owner = f->owner;
	s->off = f->off;
	s->total = f->total;
	f->off += f->room;
	f->opened++;
	if (s->owner == c->w.rank) {
		flow_advance(c, f);
		return read_own(f, s, err);
	}
	flow_advance(c, f);
	from = f->from >= 0 ? f->from : s->owner;
	rc = comm_recv(c, &s->op, s->buf, sizeof(struct chunk_head) + f->room, from, COMM_TAG_CHUNK,
		       err);
	if (rc < 0)
		return rc;
	rc = comm_send(c, &s->ask, &f->seq, sizeof(f->seq), from, COMM_TAG_ASK, err);
	return rc < 0 ? rc : 1;
}

static int flow_receive(struct comm *c, struct comm_flow *f, struct shoal_err *err)
{
	struct comm_slot *s = &f->slot[f->arrived % f->depth];
	struct chunk_head head;
	int rc;

	if (f->arrived == f->opened)
		return 0;
	if (s->owner == c->w.rank) {
		f->arrived++;
		return 1;
	}
	rc = comm_test(c, &s->op, err);
	if (rc <= 0)
		return rc;
	if (s->op.len < sizeof(head))
		return err_set(err, -EPROTO, "received a malformed chunk of %zu bytes", s->op.len);
	memcpy(&head, s->buf, sizeof(head));
	if (head.seq != f->seq || head.owner != s->owner || head.off != s->off)
		return err_set(err, -EPROTO,
			       "received byte %" PRIu64
			       " of rank %d's data, but requested byte %" PRIu64 " of rank %d's",
			       head.off, head.owner, s->off, s->owner);
	s->total = head.total;
	s->len = s->op.len - sizeof(head);
	s->data = s->buf + sizeof(head);
	if (s->off > s->total || s->len != u64_min(f->room, s->total - s->off))
		return err_set(err, -EPROTO, "rank %d's data arrived incomplete", s->owner);
	f->arrived++;
	if (s->off == 0) {
		f->known = true;
		f->total = s->total;
		flow_advance(c, f);
	}
	return 1;
}

static int flow_take(struct comm_flow *f, struct shoal_err *err)
{
	struct comm_slot *s = &f->slot[f->taken % f->depth];
	struct shoal_err theirs = { "" };
	int rc = 0;

	if (f->taken == f->arrived)
		return 0;
	if (f->take)
		rc = f->take(f->take_self, s->owner, s->off, s->total, s->data, s->len, &theirs);
	if (rc < 0)
		return err_set_as(err, rc, &theirs, "%s",
				  theirs.msg[0] ? theirs.msg : "cannot store the received data");
	f->taken++;
	return 1;
}

static int flow_send(struct comm *c, struct comm_flow *f, struct shoal_err *err)
{
	struct comm_slot *s = &f->slot[f->sent % f->depth];
	int rc;

	if (f->sent == f->taken)
		return 0;
	if (!is_sent_on(f, s)) {
		f->sent++;
		return 1;
	}
	if (!f->may_send) {
		rc = comm_recv(c, &f->asked, &f->asked_seq, sizeof(f->asked_seq), f->to,
			       COMM_TAG_ASK, err);
		if (rc < 0)
			return rc;
		f->may_send = true; /* once the request has arrived */
	}
	rc = comm_test(c, &f->asked, err);
	if (rc <= 0)
		return rc;
	if (f->asked_seq != f->seq)
		return err_set(err, -EPROTO, "rank %d requested a chunk of another call", f->to);
	rc = comm_send(c, &s->op, s->buf, sizeof(struct chunk_head) + s->len, f->to, COMM_TAG_CHUNK,
		       err);
	if (rc < 0)
		return rc;
	f->may_send = false;
	f->sent++;
	return 1;
}

static int flow_free_slot(struct comm *c, struct comm_flow *f, struct shoal_err *err)
{
	struct comm_slot *s = &f->slot[f->freed % f->depth];
	int rc;

	if (f->freed == f->sent)
		return 0;
	rc = comm_test(c, &s->op, err);
	if (rc > 0)
		rc = comm_test(c, &s->ask, err);
	if (rc > 0)
		f->freed++;
	return rc;
}

/* ---- Running flows ---- */

static int flow_step(struct comm *c, struct comm_flow *f, struct shoal_err *err)
{
	int moved = 0, rc;

	rc = flow_free_slot(c, f, err);
	if (rc >= 0) {
		moved |= rc;
		rc = open_chunk(c, f, err);
	}
	if (rc >= 0) {
		moved |= rc;
		rc = flow_receive(c, f, err);
	}
	if (rc >= 0) {
		moved |= rc;
		rc = flow_take(f, err);
	}
	if (rc >= 0) {
		moved |= rc;
		rc = flow_send(c, f, err);
	}
	return rc < 0 ? rc : moved | rc;
}

/* Set the ranks that the oldest chunk in the flow waits for. */
static void set_awaited(const struct comm_flow *f, struct comm_pause *p)
{
	const struct comm_slot *s = &f->slot[f->freed % f->depth];

	if (f->freed == f->opened)
		return;
	p->lo = f->freed < f->arrived ? f->to : f->from >= 0 ? f->from : s->owner;
	p->hi = p->lo < 0 ? p->lo - 1 : p->lo;
}

int comm_flows_run(struct comm *c, unsigned nr, struct shoal_err *err)
{
	const struct comm_pause fresh = { .lo = 1, .hi = 0 };
	struct comm_pause p = fresh;

	for (;;) {
		bool all = true;
		int moved = 0, rc;

		for (unsigned i = 0; i < nr; i++) {
			struct comm_flow *f = &c->flow[i];

			rc = flow_step(c, f, err);
			if (rc < 0)
				return rc;
			moved |= rc;
			all &= f->owner == f->end_owner && f->freed == f->opened;
			if (rc == 0)
				set_awaited(f, &p);
		}
		if (all)
			return 0;
		if (moved) {
			p = fresh;
			rc = comm_poll_events(c, err);
		} else {
			rc = comm_pause(c, &p, err);
		}
		if (rc < 0)
			return rc;
	}
}
