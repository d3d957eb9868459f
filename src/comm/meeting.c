/*
 * meeting.c - ranks that meet many times a second.
 *
 * A wait for a message has to look for it again and again, and when all ranks of a node wait at
 * once that keeps its cores from those that are still to come: behind steps of 47.55 ms 24 ranks on
 * 2 cores lost 2.0 ms in a reduce and lose 0.7 ms here, at half of the CPU. So those of a node meet
 * in memory that they share. Each puts its values on its seat and sleeps; the last to come wakes
 * the node's first rank, which combines the values, with other nodes' by messages, and wakes them
 * all.
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

#include "comm/comm_inside.h"

/* Who sleeps looks around this often: for word of a failure, mail, or a stop. */
#define LOOK_NS 20000000

struct seat {
	_Alignas(128) uint32_t round; /* that its rank has come to. Atomic */
	uint64_t detail;              /* what it came for */
	uint64_t values[SHOAL_COMM_MEETING_VALUES];
};

/* What the ranks of a node share. */
struct room {
	_Alignas(128) uint32_t arrived; /* in this round; atomic, the first rank sleeps on it */
	_Alignas(128) uint32_t over;    /* rounds that are; atomic, the others sleep on it */
	uint64_t values[SHOAL_COMM_MEETING_VALUES]; /* combined */
	struct seat seat[];
};

struct shoal_comm_meeting {
	struct shoal_comm_meeting *next; /* of those that were closed */
	struct shoal_comm *comm;
	struct room *room; /* NULL: they meet by messages */
	size_t room_bytes;
	uint32_t round;
	struct comm_group leaders; /* the first rank of each node; on those only */
	int *leader_ranks;         /* of all nodes: four bytes a node */
};

/* ---- Opening ---- */

static size_t room_bytes(const struct shoal_comm *c)
{
	return sizeof(struct room) + (size_t)c->place.node_size * sizeof(struct seat);
}

static void room_name(uint64_t token, char *buf, size_t cap)
{
	snprintf(buf, cap, "/shoal-%016" PRIx64, token);
}

/* The node's first rank: a number that names the room, or 0 where there can be none. */
static uint64_t make_room(const struct shoal_comm *c)
{
	uint64_t token = 0;
	char name[32];
	int fd;

	if (getrandom(&token, sizeof(token), 0) != (ssize_t)sizeof(token) || token == 0)
		return 0;
	room_name(token, name, sizeof(name));
	fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
	if (fd < 0)
		return 0;
	/* Taken, and not only promised: a full /dev/shm must not be found out by a signal. */
	if (posix_fallocate(fd, 0, (off_t)room_bytes(c)) != 0) {
		shm_unlink(name);
		token = 0;
	}
	close(fd);
	return token;
}

static struct room *enter_room(const struct shoal_comm *c, uint64_t token)
{
	char name[32];
	void *at = MAP_FAILED;
	int fd;

	if (token == 0)
		return NULL;
	room_name(token, name, sizeof(name));
	fd = shm_open(name, O_RDWR, 0600);
	if (fd >= 0)
		at = mmap(NULL, room_bytes(c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return at == MAP_FAILED ? NULL : at;
}

/* Collective over the node: all of it enters, or *@ret_room is NULL. */
static int share_room(struct shoal_comm *c, struct room **ret_room, struct shoal_err *err)
{
	uint64_t token = c->place.node_rank == 0 ? make_room(c) : 0, inside;
	char name[32];
	int rc = comm_meet(c, &c->node, COMM_CALL_REDUCE, 0, SHOAL_COMM_SUM, &token, 1, err);

	*ret_room = rc == 0 ? enter_room(c, token) : NULL;
	inside = *ret_room != NULL;
	if (rc == 0)
		rc = comm_meet(c, &c->node, COMM_CALL_REDUCE, 1, SHOAL_COMM_MIN, &inside, 1, err);
	if (c->place.node_rank == 0 && token) {
		room_name(token, name, sizeof(name));
		shm_unlink(name); /* it lives as long as it is mapped */
	}
	if (*ret_room && (rc < 0 || !inside)) {
		munmap(*ret_room, room_bytes(c));
		*ret_room = NULL;
	}
	return rc;
}

/* Collective: which ranks are the first of their nodes. */
static int find_leaders(struct shoal_comm_meeting *m, struct shoal_err *err)
{
	const struct shoal_comm_place *p = &m->comm->place;
	size_t nr = (size_t)p->nr_nodes;
	uint64_t *ranks = calloc(nr, sizeof(*ranks)); /* for a moment */
	int rc;

	m->leader_ranks = calloc(nr, sizeof(*m->leader_ranks));
	if (!ranks || !m->leader_ranks) {
		free(ranks);
		rc = shoal_fail(err, -ENOMEM, "out of memory");
		return comm_end(m->comm, rc, err);
	}
	ranks[p->node] = (uint64_t)p->node_leader;
	rc = shoal_comm_reduce(m->comm, SHOAL_COMM_MAX, ranks, nr, err);
	for (size_t i = 0; i < nr; i++)
		m->leader_ranks[i] = (int)ranks[i];
	free(ranks);
	if (rc == 0 && p->node_rank == 0 &&
	    comm_group_init(&m->leaders, m->leader_ranks, p->nr_nodes, p->node, COMM_TAG_LEADERS) <
		    0)
		rc = comm_end(m->comm, shoal_fail(err, -ENOMEM, "out of memory"), err);
	return rc;
}

static int open_meeting(struct shoal_comm_meeting *m, struct shoal_err *err)
{
	struct shoal_comm *c = m->comm;
	uint64_t all = 1;
	int rc = comm_begin(c, "at the start of meetings", err);

	if (rc < 0 || c->place.size == 1)
		return rc;
	rc = comm_end(c, share_room(c, &m->room, err), err);
	m->room_bytes = room_bytes(c);
	all = m->room != NULL;
	if (rc == 0)
		rc = shoal_comm_reduce(c, SHOAL_COMM_MIN, &all, 1, err);
	if (rc == 0 && all)
		return find_leaders(m, err);
	if (m->room)
		munmap(m->room, m->room_bytes); /* another node has none */
	m->room = NULL;
	return rc;
}

int shoal_comm_meeting_open(struct shoal_comm *c, struct shoal_comm_meeting **ret_meeting,
			    struct shoal_err *err)
{
	struct shoal_comm_meeting *m = calloc(1, sizeof(*m));
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	if (!m)
		return comm_end(c, shoal_fail(err, -ENOMEM, "out of memory"), err);
	m->comm = c;
	rc = open_meeting(m, err);
	if (rc < 0)
		shoal_comm_meeting_close(m);
	else
		*ret_meeting = m;
	return rc;
}

struct shoal_comm_meeting *shoal_comm_meeting_close(struct shoal_comm_meeting *m)
{
	if (!m)
		return NULL;
	if (m->room)
		munmap(m->room, m->room_bytes);
	m->room = NULL;
	m->next = m->comm->left_meetings;
	m->comm->left_meetings = m;
	/* What messages of a comm that failed may still use stays until it is closed. */
	if (!m->comm->failed)
		comm_meetings_release(m->comm);
	return NULL;
}

void comm_meetings_release(struct shoal_comm *c)
{
	while (c->left_meetings) {
		struct shoal_comm_meeting *m = c->left_meetings;

		c->left_meetings = m->next;
		free(m->leaders.buf);
		free(m->leaders.in_buf);
		free(m->leader_ranks);
		free(m);
	}
}

/* ---- Meeting ---- */

static void sleep_on(uint32_t *word, uint32_t seen)
{
	struct timespec longest = { .tv_nsec = LOOK_NS };

	/* Woken, changed before, a signal or the time: whoever calls looks what it was. */
	(void)!syscall(SYS_futex, word, FUTEX_WAIT, seen, &longest, NULL, 0);
}

static void wake(uint32_t *word)
{
	(void)!syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Who is waited for, to be named: when all of the node have come, its first, which others keep. */
static int who_is_missing(const struct shoal_comm_meeting *m)
{
	const struct shoal_comm *c = m->comm;

	for (int i = 0; i < c->place.node_size; i++)
		if (__atomic_load_n(&m->room->seat[i].round, __ATOMIC_ACQUIRE) != m->round)
			return c->node_ranks[i];
	return c->place.node_leader;
}

/* Until the word is @value. */
static int wait_until(struct shoal_comm_meeting *m, uint32_t *word, uint32_t value,
		      struct shoal_err *err)
{
	struct comm_pause p = { .lo = 1, .hi = 0, .until = 1, .since = comm_now() };
	uint32_t seen;

	while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value) {
		uint64_t before = comm_now();
		int rc = 0;

		sleep_on(word, seen);
		if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != seen)
			continue;
		if (comm_now() - before < LOOK_NS && !comm_stopped(m->comm))
			continue;
		p.lo = p.hi = who_is_missing(m);
		rc = comm_pause(m->comm, &p, err); /* only looks: it may not sleep */
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* The first rank, when all have come: into room->values. */
static int combine_seats(struct shoal_comm_meeting *m, enum shoal_comm_op op, uint64_t detail,
			 size_t nr, struct shoal_err *err)
{
	struct room *room = m->room;

	memcpy(room->values, room->seat[0].values, nr * sizeof(uint64_t));
	for (int i = 1; i < m->comm->place.node_size; i++) {
		const struct seat *s = &room->seat[i];

		if (s->detail != detail)
			return shoal_fail(
				err, -EPROTO,
				"rank %d is at a meeting with other arguments than rank %d",
				m->comm->node_ranks[i], m->comm->w.rank);
		comm_combine(op, room->values, s->values, nr);
	}
	if (m->comm->place.nr_nodes == 1)
		return 0;
	return comm_meet(m->comm, &m->leaders, COMM_CALL_REDUCE, detail, op, room->values, nr, err);
}

static int lead(struct shoal_comm_meeting *m, enum shoal_comm_op op, uint64_t detail, size_t nr,
		struct shoal_err *err)
{
	struct room *room = m->room;
	int rc = wait_until(m, &room->arrived, (uint32_t)m->comm->place.node_size, err);

	if (rc == 0)
		rc = combine_seats(m, op, detail, nr, err);
	if (rc < 0)
		return rc; /* the others are told by message */
	__atomic_store_n(&room->arrived, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&room->over, m->round, __ATOMIC_RELEASE);
	wake(&room->over);
	return 0;
}

static int hold(struct shoal_comm_meeting *m, enum shoal_comm_op op, uint64_t *values, size_t nr,
		struct shoal_err *err)
{
	const struct shoal_comm_place *p = &m->comm->place;
	struct seat *seat = &m->room->seat[p->node_rank];
	uint64_t detail = (uint64_t)op << 60 | (uint64_t)nr;
	int rc = comm_look(m->comm, err);

	if (rc < 0)
		return rc;
	m->round++;
	if (nr > 0)
		memcpy(seat->values, values, nr * sizeof(*values));
	seat->detail = detail;
	__atomic_store_n(&seat->round, m->round, __ATOMIC_RELEASE);
	if (__atomic_add_fetch(&m->room->arrived, 1, __ATOMIC_ACQ_REL) == (uint32_t)p->node_size &&
	    p->node_rank != 0)
		wake(&m->room->arrived);
	rc = p->node_rank == 0 ? lead(m, op, detail, nr, err)
			       : wait_until(m, &m->room->over, m->round, err);
	/* Nobody writes there before all, this rank too, have come again. */
	if (rc == 0 && nr > 0)
		memcpy(values, m->room->values, nr * sizeof(*values));
	return rc;
}

int shoal_comm_meeting_hold(struct shoal_comm_meeting *m, enum shoal_comm_op op, uint64_t *values,
			    size_t nr, struct shoal_err *err)
{
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	if (nr > SHOAL_COMM_MEETING_VALUES) {
		rc = shoal_fail(err, -EINVAL, "a meeting with %zu values", nr);
		return comm_end(m->comm, rc, err);
	}
	if (!m->room)
		return shoal_comm_reduce(m->comm, op, values, nr, err);
	rc = comm_begin(m->comm, "in a meeting", err);
	if (rc < 0)
		return rc;
	return comm_end(m->comm, hold(m, op, values, nr, err), err);
}
