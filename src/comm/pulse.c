/*
 * pulse.c - whether other ranks are alive, which MPI does not tell.
 *
 * A rank may work for an hour without a call of MPI, so that silence there means nothing. So every
 * rank has a thread that answers datagrams (UDP), whatever the rank does: it stops answering only
 * if the process was stopped or has ended, or if the network was cut. A rank that has waited for a
 * second, or polls for mail while it works, asks its neighbours in the tree of all ranks, once per
 * second. The tree is connected, so every dead rank has a neighbour that notices it, and tells all
 * others (comm_fail).
 *
 * Unanswered questions are counted, not seconds: a job that was suspended as a whole asks nothing
 * in that time. A neighbour that has never answered may be behind a firewall that blocks datagrams,
 * so it has COMM_PULSE_NEVER_HEARD times as long, unless it was not seen at work, either. On
 * networks without IPv4 a dead rank is only reported as a stall.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/comm_private.h"

#define PERIOD_NS     COMM_PULSE_PERIOD_NS
#define GONE_LIMIT    5u  /* questions to a neighbour whose host reports that the process ended */
#define GREETINGS     20  /* questions to a neighbour that has not been heard yet, ... */
#define GREETING_MS   250 /* ... one per this time, while datagrams may be lost */
#define ADDRESSES     4   /* of a rank, for hosts with several networks */
#define VALUES        3   /* per rank: two addresses in each of two, and the port */
#define RANKS_AT_ONCE 256

enum pulse_kind { PULSE_ASK = 1, PULSE_ANSWER };

struct packet {
	struct le64 token; /* of this job: datagrams of strangers are ignored */
	struct le32 kind, from, to;
	struct le32 reserved;
};

/* A neighbour. Its last three members are atomic: the thread and the rank use them. */
struct pulse_peer {
	int rank;
	uint32_t address[ADDRESSES + 1]; /* in network order; 0: unused */
	uint16_t port;                   /* in network order; 0: it has no thread */
	uint32_t good;                   /* 1 + index of the address that has answered; 0: none */
	uint32_t gone;                   /* its host answers that no process listens there */
	uint32_t unanswered;             /* questions since it was last heard */
};

struct comm_pulse {
	int fd, wake;
	pthread_t thread;
	uint64_t token;
	int rank, nr;
	uint64_t next_ask, waiting_since;
	struct pulse_peer peer[COMM_FANOUT_MAX + 1]; /* children and the parent */
};

/* ---- The thread ---- */

static void pulse_send(const struct comm_pulse *p, enum pulse_kind kind, int to,
		       const struct sockaddr_in *where)
{
	struct packet packet = { .token = le64_of(p->token),
				 .kind = le32_of(kind),
				 .from = le32_of((uint32_t)p->rank),
				 .to = le32_of((uint32_t)to) };

	/* A lost datagram is like one that is not answered. */
	(void)!sendto(p->fd, &packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL,
		      (const struct sockaddr *)where, sizeof(*where));
}

static struct pulse_peer *find_peer(struct comm_pulse *p, int rank)
{
	for (int i = 0; i < p->nr; i++)
		if (p->peer[i].rank == rank)
			return &p->peer[i];
	return NULL;
}

static void note_heard(struct pulse_peer *peer, const struct sockaddr_in *from)
{
	for (uint32_t i = 0; i <= ADDRESSES; i++)
		if (peer->address[i] == from->sin_addr.s_addr)
			__atomic_store_n(&peer->good, i + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&peer->gone, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&peer->unanswered, 0, __ATOMIC_RELAXED);
}

static void take_packet(struct comm_pulse *p)
{
	struct packet packet;
	struct sockaddr_in from = { 0 };
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(p->fd, &packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC,
			     (struct sockaddr *)&from, &len);
	struct pulse_peer *peer;

	if (n != (ssize_t)sizeof(packet) || le64_get(packet.token) != p->token ||
	    le32_get(packet.to) != (uint32_t)p->rank)
		return;
	peer = find_peer(p, (int)le32_get(packet.from));
	if (!peer || peer->port != from.sin_port)
		return;
	note_heard(peer, &from);
	if (le32_get(packet.kind) == PULSE_ASK)
		pulse_send(p, PULSE_ANSWER, peer->rank, &from);
}

/* The address that a refused datagram was sent to; false if there is none. */
static bool take_refusal(const struct comm_pulse *p, struct sockaddr_in *ret_to)
{
	char control[256];
	struct packet packet;
	struct iovec iov = { .iov_base = &packet, .iov_len = sizeof(packet) };
	struct msghdr msg = { .msg_name = ret_to,
			      .msg_namelen = sizeof(*ret_to),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };

	if (recvmsg(p->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;
	for (struct cmsghdr *m = CMSG_FIRSTHDR(&msg); m; m = CMSG_NXTHDR(&msg, m)) {
		struct sock_extended_err e;

		if (m->cmsg_level != IPPROTO_IP || m->cmsg_type != IP_RECVERR)
			continue;
		memcpy(&e, CMSG_DATA(m), sizeof(e));
		return e.ee_errno == ECONNREFUSED;
	}
	return false;
}

/* Only the address that has answered counts: private addresses exist on many hosts. */
static void note_refusal(struct comm_pulse *p)
{
	struct sockaddr_in to = { 0 };

	if (!take_refusal(p, &to))
		return;
	for (int i = 0; i < p->nr; i++) {
		struct pulse_peer *peer = &p->peer[i];
		uint32_t good = __atomic_load_n(&peer->good, __ATOMIC_RELAXED);

		if (good && peer->address[good - 1] == to.sin_addr.s_addr &&
		    peer->port == to.sin_port)
			__atomic_store_n(&peer->gone, 1, __ATOMIC_RELAXED);
	}
}

/* Ask a neighbour at the address that has answered, or at all of them. */
static void ask(const struct comm_pulse *p, const struct pulse_peer *peer)
{
	uint32_t good = __atomic_load_n(&peer->good, __ATOMIC_RELAXED);

	for (uint32_t k = 0; k <= ADDRESSES; k++) {
		struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = peer->port };

		to.sin_addr.s_addr = peer->address[k];
		if (to.sin_addr.s_addr && (!good || good == k + 1))
			pulse_send(p, PULSE_ASK, peer->rank, &to);
	}
}

/* Ask the neighbours that were never heard. False if there are none. */
static bool greet(const struct comm_pulse *p)
{
	bool any = false;

	for (int i = 0; i < p->nr; i++) {
		if (__atomic_load_n(&p->peer[i].good, __ATOMIC_RELAXED))
			continue;
		ask(p, &p->peer[i]);
		any = true;
	}
	return any;
}

/*
 * Neighbours are greeted at once, whether this rank waits or not: one that was heard before its
 * host was lost is missed much earlier than one that never was.
 */
static void *pulse_main(void *self)
{
	struct comm_pulse *p = self;
	struct pollfd fds[2] = { { .fd = p->fd, .events = POLLIN },
				 { .fd = p->wake, .events = POLLIN } };
	int greetings = greet(p) ? GREETINGS : 0;

	while (!fds[1].revents) {
		int n = poll(fds, ARRAY_LEN(fds), greetings > 0 ? GREETING_MS : -1);

		if (n == 0)
			greetings = greet(p) ? greetings - 1 : 0;
		if (n < 0)
			continue;
		if (fds[0].revents & POLLERR)
			note_refusal(p);
		if (fds[0].revents & POLLIN)
			take_packet(p);
	}
	return NULL;
}

/* ---- Opening and closing ---- */

/* The addresses of this host that other hosts may know, as many as there is room for. */
static void own_addresses(uint32_t address[ADDRESSES])
{
	struct ifaddrs *all = NULL;
	int nr = 0;

	if (getifaddrs(&all) < 0)
		return;
	for (struct ifaddrs *a = all; a && nr < ADDRESSES; a = a->ifa_next) {
		struct sockaddr_in in;

		if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || !(a->ifa_flags & IFF_UP) ||
		    (a->ifa_flags & IFF_LOOPBACK))
			continue;
		memcpy(&in, a->ifa_addr, sizeof(in));
		address[nr++] = in.sin_addr.s_addr;
	}
	freeifaddrs(all);
}

/* A socket of this rank; its port in network order is 0 if there can be none. */
static uint16_t open_socket(struct comm_pulse *p)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int on = 1;

	p->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	p->wake = eventfd(0, EFD_CLOEXEC);
	if (p->fd < 0 || p->wake < 0)
		return 0;
	(void)!setsockopt(p->fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
	if (bind(p->fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockname(p->fd, (struct sockaddr *)&at, &len) < 0)
		return 0;
	return at.sin_port;
}

/* Start the thread with all signals blocked: they are for the rank. */
static int start_thread(struct comm_pulse *p)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&p->thread, NULL, pulse_main, p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

static bool is_neighbour(int a, int b)
{
	return a != b && ((a & (a - 1)) == b || (b & (b - 1)) == a);
}

static void keep_neighbour(struct comm *c, struct comm_pulse *p, int rank, const uint64_t *values)
{
	struct pulse_peer *peer = &p->peer[p->nr];

	if (!is_neighbour(rank, p->rank) || values[2] == 0 || p->nr == (int)ARRAY_LEN(p->peer))
		return;
	*peer = (struct pulse_peer){ .rank = rank, .port = (uint16_t)values[2] };
	for (int i = 0; i < ADDRESSES; i++)
		peer->address[i] = (uint32_t)(values[i / 2] >> (i % 2 * 32));
	for (int i = 0; i < c->node.nr; i++)
		if (c->node_ranks && c->node_ranks[i] == rank)
			peer->address[ADDRESSES] = htonl(INADDR_LOOPBACK);
	p->nr++;
}

/*
 * Collective: tell all ranks where this one can be asked, and store what concerns the neighbours.
 */
static int exchange_addresses(struct comm *c, struct comm_pulse *p, uint16_t port,
			      struct shoal_err *err)
{
	uint64_t values[VALUES * RANKS_AT_ONCE], mine[VALUES] = { 0, 0, port };
	uint32_t address[ADDRESSES] = { 0 };
	int nr;

	own_addresses(address);
	for (int i = 0; i < ADDRESSES; i++)
		mine[i / 2] |= (uint64_t)address[i] << (i % 2 * 32);
	for (int base = 0; base < c->w.size; base += nr) {
		int rc;

		nr = (int)u64_min(RANKS_AT_ONCE, (uint64_t)(c->w.size - base));
		memset(values, 0, sizeof(values));
		if (p->rank >= base && p->rank < base + nr)
			memcpy(values + (size_t)(p->rank - base) * VALUES, mine, sizeof(mine));
		rc = comm_rendezvous(c, &c->world, COMM_CALL_PLACE, 1, COMM_SUM, values,
				     (size_t)nr * VALUES, err);
		if (rc < 0)
			return rc;
		for (int i = 0; i < nr; i++)
			keep_neighbour(c, p, base + i, values + (size_t)i * VALUES);
	}
	return 0;
}

static void pulse_free(struct comm_pulse *p)
{
	if (p->fd >= 0)
		close(p->fd);
	if (p->wake >= 0)
		close(p->wake);
	free(p);
}

static void ask_all(struct comm_pulse *p)
{
	for (int i = 0; i < p->nr; i++) {
		ask(p, &p->peer[i]);
		__atomic_add_fetch(&p->peer[i].unanswered, 1, __ATOMIC_RELAXED);
	}
}

int comm_pulse_open(struct comm *c, struct shoal_err *err)
{
	struct comm_pulse *p;
	uint16_t port;
	int rc;

	if (c->w.size == 1)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return comm_end(c, err_set(err, -ENOMEM, "out of memory"), err);
	p->rank = c->w.rank;
	port = open_socket(p);
	if (p->rank == 0 && getrandom(&p->token, sizeof(p->token), 0) != sizeof(p->token))
		p->token = clock_now();
	rc = comm_rendezvous(c, &c->world, COMM_CALL_PLACE, 2, COMM_SUM, &p->token, 1, err);
	if (rc == 0)
		rc = exchange_addresses(c, p, port, err);
	if (rc < 0 || port == 0 || start_thread(p) < 0) {
		pulse_free(p); /* without one, dead ranks are only reported as stalls */
		return comm_end(c, rc, err);
	}
	c->pulse = p;
	return 0;
}

void comm_pulse_close(struct comm *c)
{
	struct comm_pulse *p = c->pulse;
	uint64_t one = 1;

	if (!p)
		return;
	(void)!write(p->wake, &one, sizeof(one));
	pthread_join(p->thread, NULL);
	pulse_free(p);
	c->pulse = NULL;
}

/* ---- Judging ---- */

uint32_t comm_pulse_limit(bool heard, bool gone, bool met, uint32_t peer_seconds)
{
	uint64_t factor = met ? COMM_PULSE_NEVER_HEARD : COMM_PULSE_NEVER_MET;

	if (!heard)
		return (uint32_t)u64_min(peer_seconds * factor, UINT32_MAX - 1);
	return gone ? GONE_LIMIT : peer_seconds;
}

static int judge(const struct comm *c, const struct pulse_peer *peer, struct shoal_err *err)
{
	uint32_t good = __atomic_load_n(&peer->good, __ATOMIC_RELAXED);
	uint32_t unanswered = __atomic_load_n(&peer->unanswered, __ATOMIC_RELAXED);
	bool gone = __atomic_load_n(&peer->gone, __ATOMIC_RELAXED);
	char where[INET_ADDRSTRLEN] = "";

	if (unanswered <= comm_pulse_limit(good, gone, c->met, c->peer_seconds))
		return 0;
	if (!good)
		return err_set(
			err, -EHOSTDOWN,
			"rank %d has not answered for %u s, nor ever before: its process was "
			"stopped, its host or network failed, or the network passes no "
			"datagrams (UDP)",
			peer->rank, unanswered - 1);
	inet_ntop(AF_INET, &peer->address[good - 1], where, sizeof(where));
	if (gone)
		return err_set(err, -EHOSTDOWN,
			       "rank %d (at %s) has ended unexpectedly: it was "
			       "killed, or it crashed",
			       peer->rank, where);
	return err_set(err, -EHOSTDOWN,
		       "rank %d (at %s) has not answered for %u s: its process was stopped, "
		       "or its host or network failed",
		       peer->rank, where, c->peer_seconds);
}

/*
 * A new wait begins if messages came in between. It forgives a neighbour that was never heard,
 * which may be behind a firewall; another one has left questions unanswered that it would have
 * answered.
 */
static void begin_wait(struct comm_pulse *p, uint64_t since)
{
	if (p->waiting_since == since)
		return;
	p->waiting_since = since;
	for (int i = 0; i < p->nr; i++)
		if (!__atomic_load_n(&p->peer[i].good, __ATOMIC_RELAXED))
			__atomic_store_n(&p->peer[i].unanswered, 0, __ATOMIC_RELAXED);
}

int comm_pulse_check(struct comm *c, uint64_t since, uint64_t now, struct shoal_err *err)
{
	struct comm_pulse *p = c->pulse;
	int rc = 0;

	if (!p || c->peer_seconds == 0 || c->state == COMM_DRAINING || now < p->next_ask)
		return 0;
	p->next_ask = now + PERIOD_NS;
	begin_wait(p, since);
	for (int i = 0; rc == 0 && i < p->nr; i++)
		rc = judge(c, &p->peer[i], err);
	if (rc == 0)
		ask_all(p);
	return rc;
}
