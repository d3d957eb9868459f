/*
 * fast_reduce.c - the fast reduce: all ranks combine values many times per second.
 *
 * To wait for a message a rank must poll. If all ranks of a node poll at once, they take the cores
 * from the ranks that have not arrived: after steps of 47.55 ms, 24 ranks on 2 cores lost 2.0 ms in
 * a reduce and lose 0.7 ms here, at half of the CPU. So the ranks of a node use shared memory. Each
 * writes its values to its own seat and sleeps; the last to arrive wakes the node's first rank,
 * which combines the values, exchanges them with other nodes by messages, and wakes all.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm_private.h"

/* How often a sleeping rank checks for failures, mail and a stop. */
#define CHECK_NS 20000000

struct seat {
	_Alignas(128) uint32_t round; /* round that its rank has reached. Atomic */
	uint64_t detail;              /* call and parameters, to be compared */
	uint64_t values[COMM_FAST_VALUES];
};

/* The memory that the ranks of a node share. */
struct shared {
	_Alignas(128)
		uint32_t arrived;    /* ranks in this round; atomic, the first rank sleeps on it */
	_Alignas(128) uint32_t over; /* finished rounds; atomic, the other ranks sleep on it */
	uint64_t values[COMM_FAST_VALUES]; /* combined */
	struct seat seat[];
};

struct comm_fast {
	struct comm_fast *next; /* in the list of closed ones */
	struct comm *comm;
	struct shared *shared; /* NULL: use messages instead */
	size_t shared_bytes;
	uint32_t round;
	struct comm_group leaders; /* the first rank of each node; only on those */
	int *leader_ranks;         /* of all nodes: four bytes per node */
};

/* ---- Opening ---- */

static size_t shared_bytes(const struct comm *c)
{
	return sizeof(struct shared) + (size_t)c->place.node_size * sizeof(struct seat);
}

static void shared_name(uint64_t token, char *buf, size_t cap)
{
	snprintf(buf, cap, "/shoal-%016" PRIx64, token);
}

/*
 * On the node's first rank: create the shared memory and return the number in its name, or 0 if
 * that is not possible.
 */
static uint64_t create_shared(const struct comm *c)
{
	uint64_t token = 0;
	char name[32];
	int fd;

	if (getrandom(&token, sizeof(token), 0) != (ssize_t)sizeof(token) || token == 0)
		return 0;
	shared_name(token, name, sizeof(name));
	fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
	if (fd < 0)
		return 0;
	/* Allocate it now: a full /dev/shm must not show up as a signal later. */
	if (posix_fallocate(fd, 0, (off_t)shared_bytes(c)) != 0) {
		shm_unlink(name);
		token = 0;
	}
	close(fd);
	return token;
}

static struct shared *map_shared(const struct comm *c, uint64_t token)
{
	char name[32];
	void *at = MAP_FAILED;
	int fd;

	if (token == 0)
		return NULL;
	shared_name(token, name, sizeof(name));
	fd = shm_open(name, O_RDWR, 0600);
	if (fd >= 0)
		at = mmap(NULL, shared_bytes(c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return at == MAP_FAILED ? NULL : at;
}

/* Collective over the node: all ranks map it, or *@ret_shared is NULL. */
static int share_memory(struct comm *c, struct shared **ret_shared, struct shoal_err *err)
{
	uint64_t token = c->place.node_rank == 0 ? create_shared(c) : 0, inside;
	char name[32];
	int rc = comm_rendezvous(c, &c->node, COMM_CALL_REDUCE, 0, COMM_SUM, &token, 1, err);

	*ret_shared = rc == 0 ? map_shared(c, token) : NULL;
	inside = *ret_shared != NULL;
	if (rc == 0)
		rc = comm_rendezvous(c, &c->node, COMM_CALL_REDUCE, 1, COMM_MIN, &inside, 1, err);
	if (c->place.node_rank == 0 && token) {
		shared_name(token, name, sizeof(name));
		shm_unlink(name); /* it exists as long as it is mapped */
	}
	if (*ret_shared && (rc < 0 || !inside)) {
		munmap(*ret_shared, shared_bytes(c));
		*ret_shared = NULL;
	}
	return rc;
}

/* Collective: find the first rank of each node. */
static int find_leaders(struct comm_fast *m, struct shoal_err *err)
{
	const struct comm_place *p = &m->comm->place;
	size_t nr = (size_t)p->nr_nodes;
	uint64_t *ranks = calloc(nr, sizeof(*ranks)); /* freed below */
	int rc;

	m->leader_ranks = calloc(nr, sizeof(*m->leader_ranks));
	if (!ranks || !m->leader_ranks) {
		free(ranks);
		rc = err_set(err, -ENOMEM, "out of memory");
		return comm_end(m->comm, rc, err);
	}
	ranks[p->node] = (uint64_t)p->node_leader;
	rc = comm_reduce(m->comm, COMM_MAX, ranks, nr, err);
	for (size_t i = 0; i < nr; i++)
		m->leader_ranks[i] = (int)ranks[i];
	free(ranks);
	if (rc == 0 && p->node_rank == 0 &&
	    comm_group_init(&m->leaders, m->leader_ranks, p->nr_nodes, p->node, COMM_TAG_LEADERS) <
		    0)
		rc = comm_end(m->comm, err_set(err, -ENOMEM, "out of memory"), err);
	return rc;
}

static int open_fast(struct comm_fast *m, struct shoal_err *err)
{
	struct comm *c = m->comm;
	uint64_t all = 1;
	int rc = comm_begin(c, "at the start of fast reduces", err);

	if (rc < 0 || c->place.size == 1)
		return rc;
	rc = comm_end(c, share_memory(c, &m->shared, err), err);
	m->shared_bytes = shared_bytes(c);
	all = m->shared != NULL;
	if (rc == 0)
		rc = comm_reduce(c, COMM_MIN, &all, 1, err);
	if (rc == 0 && all)
		return find_leaders(m, err);
	if (m->shared)
		munmap(m->shared, m->shared_bytes); /* another node has no shared memory */
	m->shared = NULL;
	return rc;
}

int comm_fast_open(struct comm *c, struct comm_fast **ret_fast, struct shoal_err *err)
{
	struct comm_fast *m = calloc(1, sizeof(*m));
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	if (!m)
		return comm_end(c, err_set(err, -ENOMEM, "out of memory"), err);
	m->comm = c;
	rc = open_fast(m, err);
	if (rc < 0)
		comm_fast_close(m);
	else
		*ret_fast = m;
	return rc;
}

struct comm_fast *comm_fast_close(struct comm_fast *m)
{
	if (!m)
		return NULL;
	if (m->shared)
		munmap(m->shared, m->shared_bytes);
	m->shared = NULL;
	m->next = m->comm->closed_fast;
	m->comm->closed_fast = m;
	/*
	 * After a failure messages may still use the memory, so it is kept until the comm is
	 * closed.
	 */
	if (!m->comm->failed)
		comm_fast_release(m->comm);
	return NULL;
}

void comm_fast_release(struct comm *c)
{
	while (c->closed_fast) {
		struct comm_fast *m = c->closed_fast;

		c->closed_fast = m->next;
		free(m->leaders.buf);
		free(m->leaders.in_buf);
		free(m->leader_ranks);
		free(m);
	}
}

/* ---- Reducing ---- */

static void sleep_on(uint32_t *word, uint32_t seen)
{
	struct timespec longest = { .tv_nsec = CHECK_NS };

	/*
	 * Returns on a wake-up, a changed value, a signal or the timeout: the caller checks which.
	 */
	(void)!syscall(SYS_futex, word, FUTEX_WAIT, seen, &longest, NULL, 0);
}

static void fast_wake(uint32_t *word)
{
	(void)!syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/*
 * The rank to name as missing. If all ranks of the node have arrived, its first rank, which waits
 * for other nodes.
 */
static int missing_rank(const struct comm_fast *m)
{
	const struct comm *c = m->comm;

	for (int i = 0; i < c->place.node_size; i++)
		if (__atomic_load_n(&m->shared->seat[i].round, __ATOMIC_ACQUIRE) != m->round)
			return c->node_ranks[i];
	return c->place.node_leader;
}

/* Wait until the word is @value. */
static int wait_until(struct comm_fast *m, uint32_t *word, uint32_t value, struct shoal_err *err)
{
	struct comm_pause p = { .lo = 1, .hi = 0, .until = 1, .since = clock_now() };
	uint32_t seen;

	while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value) {
		uint64_t before = clock_now();
		int rc = 0;

		sleep_on(word, seen);
		if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != seen)
			continue;
		if (clock_now() - before < CHECK_NS && !comm_stopped(m->comm))
			continue;
		p.lo = p.hi = missing_rank(m);
		rc = comm_pause(m->comm, &p, err); /* only checks: it must not sleep */
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* On the first rank, when all have arrived: combine into shared->values. */
static int combine_seats(struct comm_fast *m, enum comm_reduce_op op, uint64_t detail, size_t nr,
			 struct shoal_err *err)
{
	struct shared *shared = m->shared;

	memcpy(shared->values, shared->seat[0].values, nr * sizeof(uint64_t));
	for (int i = 1; i < m->comm->place.node_size; i++) {
		const struct seat *s = &shared->seat[i];

		if (s->detail != detail)
			return err_set(
				err, -EPROTO,
				"rank %d is at a fast reduce with different arguments than rank %d",
				m->comm->node_ranks[i], m->comm->w.rank);
		comm_combine(op, shared->values, s->values, nr);
	}
	if (m->comm->place.nr_nodes == 1)
		return 0;
	return comm_rendezvous(m->comm, &m->leaders, COMM_CALL_REDUCE, detail, op, shared->values,
			       nr, err);
}

static int lead_round(struct comm_fast *m, enum comm_reduce_op op, uint64_t detail, size_t nr,
		      struct shoal_err *err)
{
	struct shared *shared = m->shared;
	int rc = wait_until(m, &shared->arrived, (uint32_t)m->comm->place.node_size, err);

	if (rc == 0)
		rc = combine_seats(m, op, detail, nr, err);
	if (rc < 0)
		return rc; /* the other ranks learn of it by message */
	__atomic_store_n(&shared->arrived, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&shared->over, m->round, __ATOMIC_RELEASE);
	fast_wake(&shared->over);
	return 0;
}

static int fast_reduce_shared(struct comm_fast *m, enum comm_reduce_op op, uint64_t *values,
			      size_t nr, struct shoal_err *err)
{
	const struct comm_place *p = &m->comm->place;
	struct seat *seat = &m->shared->seat[p->node_rank];
	uint64_t detail = (uint64_t)op << 60 | (uint64_t)nr;
	int rc = comm_poll_events(m->comm, err);

	if (rc < 0)
		return rc;
	m->round++;
	if (nr > 0)
		memcpy(seat->values, values, nr * sizeof(*values));
	seat->detail = detail;
	__atomic_store_n(&seat->round, m->round, __ATOMIC_RELEASE);
	if (__atomic_add_fetch(&m->shared->arrived, 1, __ATOMIC_ACQ_REL) ==
		    (uint32_t)p->node_size &&
	    p->node_rank != 0)
		fast_wake(&m->shared->arrived);
	rc = p->node_rank == 0 ? lead_round(m, op, detail, nr, err)
			       : wait_until(m, &m->shared->over, m->round, err);
	/* Nobody writes there before all ranks, including this one, have arrived again. */
	if (rc == 0 && nr > 0)
		memcpy(values, m->shared->values, nr * sizeof(*values));
	return rc;
}

int comm_fast_reduce(struct comm_fast *m, enum comm_reduce_op op, uint64_t *values, size_t nr,
		     struct shoal_err *err)
{
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	if (nr > COMM_FAST_VALUES) {
		rc = err_set(err, -EINVAL, "a fast reduce cannot have %zu values", nr);
		return comm_end(m->comm, rc, err);
	}
	if (!m->shared)
		return comm_reduce(m->comm, op, values, nr, err);
	rc = comm_begin(m->comm, "in a fast reduce", err);
	if (rc < 0)
		return rc;
	return comm_end(m->comm, fast_reduce_shared(m, op, values, nr, err), err);
}
