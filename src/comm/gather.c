/* gather.c - bytes of any length between ranks: gather and exchange, made of flows. */
#include <stdlib.h>
#include <string.h>

#include "base/out.h"
#include "comm/comm_inside.h"

#define BUDGET_MIN 4096u

/* Meet and agree on the least of the budgets: both ends of a message need the same chunk. */
static int agree(struct shoal_comm *c, enum comm_call call, int root, size_t *budget,
		 struct shoal_err *err)
{
	uint64_t least = *budget;
	int rc;

	if (*budget < BUDGET_MIN)
		return shoal_fail(err, -EINVAL, "a budget of %zu bytes is less than %u", *budget,
				  BUDGET_MIN);
	rc = comm_meet(c, &c->world, call, (uint64_t)root, SHOAL_COMM_MIN, &least, 1, err);
	*budget = (size_t)least;
	return rc;
}

/* Nobody leaves before all is done: 0 on one rank means that it went well on all of them. */
static int finish(struct shoal_comm *c, struct shoal_err *err)
{
	free(c->flow_mem);
	c->flow_mem = NULL;
	return comm_meet(c, &c->world, COMM_CALL_END, 0, SHOAL_COMM_SUM, NULL, 0, err);
}

static int gather(struct shoal_comm *c, const struct shoal_comm_blob *mine, int root, size_t budget,
		  shoal_comm_take_fn *take, void *self, struct shoal_err *err)
{
	struct comm_flow *f = &c->flow[0];
	int me = c->w.rank, size = c->w.size, rc;
	bool all = root == SHOAL_COMM_ALL;

	if (root < SHOAL_COMM_ALL || root >= size)
		return shoal_fail(err, -EINVAL, "a gather to rank %d of %d", root, size);
	rc = agree(c, COMM_CALL_GATHER, root, &budget, err);
	if (rc < 0)
		return rc;
	rc = comm_flows_init(c, 1, COMM_DEPTH, budget, err);
	if (rc < 0)
		return rc;
	if (all)
		comm_flow_start(c, f, 0, size, mine, (me + size - 1) % size,
				size > 1 ? (me + 1) % size : -1);
	else if (me == root)
		comm_flow_start(c, f, 0, size, mine, -1, -1);
	else
		comm_flow_start(c, f, me, me + 1, mine, -1, root);
	f->take = all || me == root ? take : NULL;
	f->take_self = self;
	rc = comm_flows_run(c, 1, err);
	return rc < 0 ? rc : finish(c, err);
}

int shoal_comm_gather(struct shoal_comm *c, const struct shoal_comm_blob *mine, int root,
		      size_t budget, shoal_comm_take_fn *take, void *self, struct shoal_err *err)
{
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	rc = comm_begin(c, "in a gather", err);
	if (rc < 0)
		return rc;
	rc = gather(c, mine, root, budget, take, self, err);
	return comm_end(c, rc, err);
}

/* ---- Into a file ---- */

struct file {
	int fd;
	uint64_t start; /* of the present rank's bytes */
};

static int write_chunk(void *self, int from, uint64_t off, uint64_t total, const void *data,
		       size_t len, struct shoal_err *err)
{
	struct file *f = self;
	int rc = shoal_pwrite_all(f->fd, data, len, f->start + off);

	if (rc < 0)
		return shoal_fail_errno(err, rc, "cannot write what rank %d sent", from);
	if (off + len == total)
		f->start += total;
	return 0;
}

/* Where each rank's bytes start. In blocks, so that it needs no memory that grows with the ranks.
 */
static int find_offsets(struct shoal_comm *c, uint64_t len, int root, uint64_t *offsets,
			struct shoal_err *err)
{
	uint64_t lens[256], at = 0;
	int nr;

	for (int base = 0; base < c->w.size; base += nr) {
		int rc;

		nr = (int)shoal_min(SHOAL_ARRAY_LEN(lens), (uint64_t)(c->w.size - base));
		memset(lens, 0, sizeof(lens));
		if (c->w.rank >= base && c->w.rank < base + nr)
			lens[c->w.rank - base] = len;
		rc = comm_meet(c, &c->world, COMM_CALL_GATHER_FILE, (uint64_t)root, SHOAL_COMM_SUM,
			       lens, (size_t)nr, err);
		if (rc < 0)
			return rc;
		for (int i = 0; i < nr; i++) {
			if (offsets)
				offsets[base + i] = at;
			at += lens[i];
		}
	}
	if (offsets)
		offsets[c->w.size] = at;
	return 0;
}

int shoal_comm_gather_file(struct shoal_comm *c, const struct shoal_comm_blob *mine, int root,
			   size_t budget, int fd, uint64_t *offsets, struct shoal_err *err)
{
	struct file file = { .fd = fd };
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	rc = comm_begin(c, "in a gather into a file", err);
	if (rc < 0)
		return rc;
	if (root < 0 || root >= c->w.size)
		rc = shoal_fail(err, -EINVAL, "a gather to rank %d of %d", root, c->w.size);
	if (rc == 0)
		rc = find_offsets(c, mine->len, root, offsets, err);
	if (rc == 0)
		rc = gather(c, mine, root, budget, write_chunk, &file, err);
	return comm_end(c, rc, err);
}

/* ---- Exchange ---- */

/* In step d a rank sends to the d-th after it and receives from the d-th before it. */
static int exchange(struct shoal_comm *c, const struct shoal_comm_blob *to, size_t budget,
		    shoal_comm_take_fn *take, void *self, struct shoal_err *err)
{
	int me = c->w.rank, size = c->w.size, rc;

	rc = agree(c, COMM_CALL_EXCHANGE, 0, &budget, err);
	if (rc < 0)
		return rc;
	rc = comm_flows_init(c, 2, COMM_DEPTH / 2, budget, err);
	for (int d = 0; d < size && rc == 0; d++) {
		int right = (me + d) % size, left = (me + size - d) % size;

		comm_flow_start(c, &c->flow[0], left, left + 1, &to[me], -1, -1);
		c->flow[0].take = take;
		c->flow[0].take_self = self;
		if (d > 0)
			comm_flow_start(c, &c->flow[1], me, me + 1, &to[right], -1, right);
		rc = comm_flows_run(c, d > 0 ? 2 : 1, err);
	}
	return rc < 0 ? rc : finish(c, err);
}

int shoal_comm_exchange(struct shoal_comm *c, const struct shoal_comm_blob *to, size_t budget,
			shoal_comm_take_fn *take, void *self, struct shoal_err *err)
{
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	rc = comm_begin(c, "in an exchange", err);
	if (rc < 0)
		return rc;
	rc = exchange(c, to, budget, take, self, err);
	return comm_end(c, rc, err);
}
