/*
 * comm_private.h - shared by the files of this room. Names start with comm_.
 *
 * comm.c opens, closes and fails; wait.c has single messages and the one way to wait for them;
 * tree.c has the calls along a tree (barrier, broadcast, reduce); flow.c moves chunks, gather.c
 * builds gather and exchange on it; mail.c is the mail; fast_reduce.c the fast reduce; pulse.c
 * notices dead ranks; open.c finds the MPI.
 */
#ifndef SHOAL_COMM_COMM_PRIVATE_H
#define SHOAL_COMM_COMM_PRIVATE_H

#include "base/clock.h"
#include "base/le.h"
#include "comm/comm.h"
#include "comm/transport.h"

#define COMM_FANOUT_MAX 31 /* children in a binomial tree of 2^31 ranks */
#define COMM_VALUES_MAX 4096
#define COMM_DEPTH      4  /* chunks in flight at once */
#define COMM_POSTS      64 /* mails in flight at once */
#define COMM_WORDS_MAX  700

/* What a failing rank sends to the others; only as many bytes of the words as are used. */
struct comm_failure {
	struct le64 hint_value;
	struct le32 hint; /* enum shoal_hint */
	char words[COMM_WORDS_MAX];
};

enum comm_tag {
	COMM_TAG_WORLD = 1, /* trees over all ranks */
	COMM_TAG_NODE,      /* trees over the ranks of a node */
	COMM_TAG_ASK,       /* request for a chunk */
	COMM_TAG_CHUNK,
	COMM_TAG_MAIL,
	COMM_TAG_FAIL,
	COMM_TAG_LEADERS, /* trees over the first ranks of all nodes */
	COMM_TAG_BYE,     /* goodbye, before the end of a comm that failed */
};

enum comm_state {
	COMM_OPEN,
	COMM_CLOSING,  /* all ranks succeeded and leave */
	COMM_DRAINING, /* a rank failed: messages still in flight are received and discarded */
};

/* A message in flight. It stays on the comm's list until it completes, and must not move. */
struct comm_op {
	struct comm_op *next, **link;
	struct comm_request req;
	size_t len; /* received */
	bool busy, is_send;
};

/* Ranks that call together, as a binomial tree rooted at the first of them. */
struct comm_group {
	const int *rank; /* rank of each member; NULL: all ranks */
	int nr, me;
	enum comm_tag tag;
	uint32_t seq; /* calls so far */
	struct comm_op in, out[COMM_FANOUT_MAX];
	uint8_t *buf, *in_buf; /* room for a header and COMM_VALUES_MAX values each */
};

/* The collective calls, as identified in messages. */
enum comm_call {
	COMM_CALL_BARRIER = 1,
	COMM_CALL_BROADCAST,
	COMM_CALL_REDUCE,
	COMM_CALL_GATHER,
	COMM_CALL_EXCHANGE,
	COMM_CALL_END, /* the end of a gather or an exchange */
	COMM_CALL_PLACE,
	COMM_CALL_CLOSE,
};

struct comm_slot {
	struct comm_op op, ask;
	uint8_t *buf;        /* chunk header and bytes */
	const uint8_t *data; /* the bytes, in buf or in the caller's memory */
	int owner;
	uint64_t off, total;
	size_t len;
};

/* Chunks that pass through this rank: see flow.c. */
struct comm_flow {
	const struct comm_blob *mine;
	comm_take_fn *take; /* NULL: this rank only sends */
	void *take_self;
	int from; /* sender of other ranks' chunks; -1: their owner */
	int to;   /* receiver of chunks that are not its own; -1: nobody */

	/* The chunk to request next; @total is known once the owner's first chunk has arrived. */
	int owner, end_owner;
	uint64_t off, total;
	bool known;

	uint64_t opened, arrived, taken, sent, freed; /* counts of chunks, each <= the one before */
	unsigned depth;
	size_t room; /* bytes of data per chunk */
	bool may_send;
	uint32_t seq, asked_seq;
	struct comm_op asked;
	struct comm_slot slot[COMM_DEPTH];
};

struct comm_letter {
	struct comm_letter *next;
	int from;
	size_t len; /* of bytes[] */
	struct {
		uint32_t kind, reserved;
	} head;
	uint8_t bytes[]; /* directly after head: both are received at once */
};

struct comm_post {
	struct comm_op op;
	void *bytes;
};

struct comm_mailbox {
	struct comm_letter *first, **last; /* received, not yet polled */
	size_t queued;                     /* bytes in them */
	struct comm_letter *lent;          /* to the caller, until the next poll */
	struct comm_letter *coming;
	struct comm_op in;
	struct comm_post post[COMM_POSTS];
	unsigned next_post;
	bool polling;
	uint64_t idle_since; /* when polls began to find nothing; 0 if the last one found something
			      */
};

struct comm {
	const struct comm_transport *t; /* NULL: one process */
	void *t_self;
	struct comm_world w;
	struct comm_place place;
	int *node_ranks; /* the ranks of this node, for the node barrier */
	enum comm_state state;
	bool finished, clean; /* comm_finish() was called; all ranks have come to their end */
	struct comm_op *busy;
	struct comm_group world, node, bye;

	const int *stop;
	bool stop_deferred;
	uint64_t stop_seen; /* when a deferred stop was first noticed; 0: not yet */
	uint64_t deadline;  /* waits end with -ETIMEDOUT then; 0: never */
	double stall_seconds;
	void (*stalled)(void *self, const char *words);
	void *stalled_self;
	const char *doing; /* "in a barrier" */

	bool failed;
	int failed_rank;
	struct comm_failure failure;
	size_t failure_len;       /* bytes of it in use */
	struct comm_op *fail_out; /* one per rank, allocated early because failing must not fail */
	struct comm_op fail_in;
	int fail_from;
	struct comm_failure fail_buf;

	struct comm_flow flow[2];
	uint8_t *flow_mem; /* kept until close after a failure: messages may still use it */
	struct comm_mailbox mail;
	struct comm_fast *closed_fast; /* closed, but their memory may still be in use */
	struct comm_pulse *pulse;      /* NULL: dead ranks are not noticed */
	unsigned peer_seconds;         /* how long a rank may be silent; 0: for ever */
	bool met;                      /* all ranks have begun a call since there is a pulse */
	struct comm_op trash;
	void *trash_buf;
};

/* ---- comm.c ---- */

/* Open a comm over @t, which outlives it. Tests bring their own transport. */
int comm_open_transport(const struct comm_transport *t, void *t_self, struct comm **ret_comm,
			struct shoal_err *err) MUST_USE;

/* -EREMOTEIO and the failed rank's message, if a rank has failed. */
int comm_check(const struct comm *c, struct shoal_err *err) MUST_USE;

/*
 * The start and the end of every collective call. An error on this rank alone would leave the
 * others waiting, so it is reported to them. @err is not NULL.
 */
int comm_begin(struct comm *c, const char *doing, struct shoal_err *err) MUST_USE;
int comm_end(struct comm *c, int rc, const struct shoal_err *err) MUST_USE;

void comm_set_failed(struct comm *c, int rank, const struct comm_failure *f, size_t len);

/* ---- wait.c ---- */

int comm_send(struct comm *c, struct comm_op *op, const void *buf, size_t len, int to,
	      enum comm_tag tag, struct shoal_err *err) MUST_USE;
int comm_recv(struct comm *c, struct comm_op *op, void *buf, size_t len, int from,
	      enum comm_tag tag, struct shoal_err *err) MUST_USE;

/* 1 if it has completed or was never started; otherwise 0 or an error. */
int comm_test(struct comm *c, struct comm_op *op, struct shoal_err *err) MUST_USE;
int comm_probe(struct comm *c, enum comm_tag tag, int *ret_from, size_t *ret_len,
	       struct shoal_err *err) MUST_USE;

/* Cancel all messages in flight. False if some memory may still be written to. */
bool comm_cancel_all(struct comm *c);

/*
 * One wait. Zero it, set the ranks it is for, and call comm_pause() until the event has happened.
 */
struct comm_pause {
	int lo, hi;          /* the ranks waited for; lo > hi: any */
	bool voluntary;      /* never a stall, however long */
	enum comm_tag stray; /* a message with this tag from this node shows a wrong call; 0: no
				such tag */
	uint64_t until;      /* do not sleep past this; 0: no limit */
	uint64_t since;      /* when it began to sleep; if set by the caller, it sleeps at once */
	unsigned tries;
	uint64_t stalls;
};

/* Check for failure, stop and mail, then sleep a little. */
int comm_pause(struct comm *c, struct comm_pause *p, struct shoal_err *err) MUST_USE;

/* As comm_pause(), without sleeping. */
int comm_poll_events(struct comm *c, struct shoal_err *err) MUST_USE;

/* Wait for one message from (or to) one of the ranks @lo to @hi. */
int comm_wait(struct comm *c, struct comm_op *op, int lo, int hi, struct shoal_err *err) MUST_USE;
int comm_wait_paused(struct comm *c, struct comm_op *op, struct comm_pause *p,
		     struct shoal_err *err) MUST_USE;
int comm_wait_sends(struct comm *c, struct shoal_err *err) MUST_USE;

bool comm_stopped(const struct comm *c);

/* ---- tree.c ---- */

int comm_group_init(struct comm_group *g, const int *rank, int nr, int me,
		    enum comm_tag tag) MUST_USE;

/*
 * All members meet, check that they make the same @call with the same @detail, and combine @nr (at
 * most COMM_VALUES_MAX) values. No member returns before all have entered.
 */
int comm_rendezvous(struct comm *c, struct comm_group *g, enum comm_call call, uint64_t detail,
		    enum comm_reduce_op op, uint64_t *values, size_t nr,
		    struct shoal_err *err) MUST_USE;

/* Combine @nr values of @with into @into. */
void comm_combine(enum comm_reduce_op op, uint64_t *into, const uint64_t *with, size_t nr);

/* ---- flow.c ---- */

/* Divide @budget bytes among @nr flows of @depth chunks each, and clear them. */
int comm_flows_init(struct comm *c, unsigned nr, unsigned depth, size_t budget,
		    struct shoal_err *err) MUST_USE;

/* Start moving the chunks of owners @first to @end - 1. */
void comm_flow_start(struct comm *c, struct comm_flow *f, int first, int end,
		     const struct comm_blob *mine, int from, int to);

/* Run until all chunks of the first @nr flows have passed. */
int comm_flows_run(struct comm *c, unsigned nr, struct shoal_err *err) MUST_USE;

/* ---- fast_reduce.c ---- */

void comm_fast_release(struct comm *c);

/* ---- pulse.c ---- */

/* Collective: start answering whether this rank is alive. Without a network it does nothing. */
int comm_pulse_open(struct comm *c, struct shoal_err *err) MUST_USE;
void comm_pulse_close(struct comm *c);

/* How much longer a neighbour that was never heard may be silent: it worked after the start, and
 * its datagrams may be blocked; or it may have been lost at the start. */
#define COMM_PULSE_NEVER_HEARD 30u
#define COMM_PULSE_NEVER_MET   5u

/* How many questions, one per second, a neighbour may leave unanswered. @gone: its host says that
 * no process listens there. */
uint32_t comm_pulse_limit(bool heard, bool gone, bool met, uint32_t peer_seconds);

/* How often neighbours are asked, and how long a wait is too short for it. */
#define COMM_PULSE_PERIOD_NS UINT64_C(1000000000)

/* In a wait that began at @since: ask the neighbours, if it is time. -EHOSTDOWN if one has been
 * silent too long. */
int comm_pulse_check(struct comm *c, uint64_t since, uint64_t now, struct shoal_err *err) MUST_USE;

/* ---- mail.c ---- */

int comm_mail_pump(struct comm *c, struct shoal_err *err) MUST_USE;
void comm_mail_release(struct comm *c);

#endif
