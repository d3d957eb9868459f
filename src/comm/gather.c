/* gather.c - bytes of any length between ranks: gather and exchange, built on flows. */
#include <stdlib.h>
#include <string.h>

#include "base/out.h"
#include "comm/comm_private.h"

#define BUDGET_MIN 4096u

/* Agree on the smallest of the budgets: both ends of a message need the same chunk size. */
static int gather_agree(struct comm *c, enum comm_call call, int root, size_t *budget,
			struct shoal_err *err)
{
	uint64_t least = *budget;
	int rc;

	if (*budget < BUDGET_MIN)
		return err_set(err, -EINVAL, "a budget of %zu bytes is less than the minimum of %u",
			       *budget, BUDGET_MIN);
	rc = comm_rendezvous(c, &c->world, call, (uint64_t)root, COMM_MIN, &least, 1, err);
	*budget = (size_t)least;
	return rc;
}

/* No rank returns before all are done: 0 on one rank means success on all of them. */
static int gather_finish(struct comm *c, struct shoal_err *err)
{
	free(c->flow_mem);
	c->flow_mem = NULL;
	return comm_rendezvous(c, &c->world, COMM_CALL_END, 0, COMM_SUM, NULL, 0, err);
}

static int gather_flow(struct comm *c, const struct comm_blob *mine, int root, size_t budget,
		       comm_take_fn *take, void *self, struct shoal_err *err)
{
	struct comm_flow *f = &c->flow[0];
	int me = c->w.rank, size = c->w.size, rc;
	bool all = root == COMM_ALL;

	if (root < COMM_ALL || root >= size)
		return err_set(err, -EINVAL, "cannot gather to rank %d of %d", root, size);
	rc = gather_agree(c, COMM_CALL_GATHER, root, &budget, err);
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
	return rc < 0 ? rc : gather_finish(c, err);
}

int comm_gather(struct comm *c, const struct comm_blob *mine, int root, size_t budget,
		comm_take_fn *take, void *self, struct shoal_err *err)
{
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	rc = comm_begin(c, "in a gather", err);
	if (rc < 0)
		return rc;
	rc = gather_flow(c, mine, root, budget, take, self, err);
	return comm_end(c, rc, err);
}

/* ---- Exchange ---- */

/* In step d a rank sends to rank + d and receives from rank - d. */
static int exchange_flows(struct comm *c, const struct comm_blob *to, size_t budget,
			  comm_take_fn *take, void *self, struct shoal_err *err)
{
	int me = c->w.rank, size = c->w.size, rc;

	rc = gather_agree(c, COMM_CALL_EXCHANGE, 0, &budget, err);
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
	return rc < 0 ? rc : gather_finish(c, err);
}

int comm_exchange(struct comm *c, const struct comm_blob *to, size_t budget, comm_take_fn *take,
		  void *self, struct shoal_err *err)
{
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	rc = comm_begin(c, "in an exchange", err);
	if (rc < 0)
		return rc;
	rc = exchange_flows(c, to, budget, take, self, err);
	return comm_end(c, rc, err);
}
