/*
 * comm_inside.h - what the files of this room share. Names start with comm_.
 *
 * comm.c opens, closes and fails; wait.c has single messages and the one way to wait for them;
 * tree.c the calls along a tree (barrier, broadcast, reduce); flow.c moves chunks, gather.c makes
 * gather and exchange of that; mail.c is the mail; meeting.c has those that are held often; open.c
 * finds the MPI.
 */
#ifndef SHOAL_COMM_INSIDE_H
#define SHOAL_COMM_INSIDE_H

#include "comm/comm.h"
#include "comm/transport.h"

#define COMM_FANOUT_MAX 31 /* children in a binomial tree of 2^31 ranks */
#define COMM_VALUES_MAX 4096
#define COMM_DEPTH      4  /* chunks under way at once */
#define COMM_POSTS      64 /* mails under way at once */
#define COMM_WORDS_MAX  700

enum comm_tag {
	COMM_TAG_WORLD = 1, /* trees of all ranks */
	COMM_TAG_NODE,      /* of those on a node */
	COMM_TAG_ASK,       /* "send me a chunk" */
	COMM_TAG_CHUNK,
	COMM_TAG_MAIL,
	COMM_TAG_FAIL,
	COMM_TAG_LEADERS, /* of the first ranks of all nodes */
	COMM_TAG_BYE,     /* before the end of a comm that failed */
};

enum comm_state {
	COMM_OPEN,
	COMM_CLOSING, /* all ranks are well and go */
	COMM_PARTING, /* one has failed: all that is still under way is received and thrown away */
};

/* A message under way. It is on the comm's list for as long, and must not move. */
struct comm_op {
	struct comm_op *next, **link;
	struct comm_request req;
	size_t len; /* received */
	bool busy, is_send;
};

/* Ranks that call together, as a binomial tree whose root is the first of them. */
struct comm_group {
	const int *rank; /* of each member; NULL: all ranks */
	int nr, me;
	enum comm_tag tag;
	uint32_t seq; /* calls so far */
	struct comm_op in, out[COMM_FANOUT_MAX];
	uint8_t *buf, *in_buf; /* room for a head and COMM_VALUES_MAX values each */
};

/* The calls that all ranks make together, as they are told apart on the wire. */
enum comm_call {
	COMM_CALL_BARRIER = 1,
	COMM_CALL_BROADCAST,
	COMM_CALL_REDUCE,
	COMM_CALL_GATHER,
	COMM_CALL_GATHER_FILE,
	COMM_CALL_EXCHANGE,
	COMM_CALL_END, /* of a gather or an exchange */
	COMM_CALL_PLACE,
	COMM_CALL_CLOSE,
};

struct comm_slot {
	struct comm_op op, ask;
	uint8_t *buf;        /* chunk head and bytes */
	const uint8_t *data; /* the bytes: in buf, or in the caller's memory */
	int owner;
	uint64_t off, total;
	size_t len;
};

/* Chunks that pass through this rank: see flow.c. */
struct comm_flow {
	const struct shoal_comm_blob *mine;
	shoal_comm_take_fn *take; /* NULL: this rank only sends */
	void *take_self;
	int from; /* where chunks of others come from; -1: from their owner */
	int to;   /* where chunks go on to, unless they are its own; -1: nowhere */

	/* The chunk to be asked for next; @total is known once the owner's first has come. */
	int owner, end_owner;
	uint64_t off, total;
	bool known;

	uint64_t opened, arrived, taken, sent, freed; /* chunks, each <= the one before */
	unsigned depth;
	size_t room; /* bytes of data in a chunk */
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
	uint8_t bytes[]; /* follows head: both are received at once */
};

struct comm_post {
	struct comm_op op;
	void *bytes;
};

struct comm_mailbox {
	struct comm_letter *first, **last; /* come, not yet polled */
	size_t queued;                     /* bytes in them */
	struct comm_letter *lent;          /* to the caller, until the next poll */
	struct comm_letter *coming;
	struct comm_op in;
	struct comm_post post[COMM_POSTS];
	unsigned next_post;
	bool polling;
	uint64_t idle_since; /* when polls began to find nothing; 0: the last one did */
};

struct shoal_comm {
	const struct comm_transport *t; /* NULL: one process */
	void *t_self;
	struct comm_world w;
	struct shoal_comm_place place;
	int *node_ranks; /* those on this node: a node barrier has to know them */
	enum comm_state state;
	struct comm_op *busy;
	struct comm_group world, node, bye;

	const int *stop;
	uint64_t deadline; /* waits end with -ETIMEDOUT; 0: never */
	double stall_seconds;
	void (*stalled)(void *self, const char *words);
	void *stalled_self;
	const char *doing; /* "in a barrier" */

	bool failed;
	int failed_rank;
	char failed_words[COMM_WORDS_MAX + 1];
	struct comm_op *fail_out; /* one per rank: allocated early, as failing must not fail */
	struct comm_op fail_in;
	int fail_from;
	char fail_buf[COMM_WORDS_MAX + 1];

	struct comm_flow flow[2];
	uint8_t *flow_mem; /* after a failure kept until close: messages may still use it */
	struct comm_mailbox mail;
	struct shoal_comm_meeting *left_meetings; /* closed; their memory may still be used */
	struct comm_op trash;
	void *trash_buf;
};

/* ---- comm.c ---- */

/* A comm over @t, which outlives it. Tests bring their own transport. */
int comm_open_transport(const struct comm_transport *t, void *t_self, struct shoal_comm **ret_comm,
			struct shoal_err *err) SHOAL_MUST_USE;

/* -EREMOTEIO and the words of the rank that failed, if one has. */
int comm_check(const struct shoal_comm *c, struct shoal_err *err) SHOAL_MUST_USE;

/*
 * The start and the end of every call that all ranks make: an error on this rank alone would leave
 * the others waiting, so that they are told. @err is not NULL.
 */
int comm_begin(struct shoal_comm *c, const char *doing, struct shoal_err *err) SHOAL_MUST_USE;
int comm_end(struct shoal_comm *c, int rc, const struct shoal_err *err) SHOAL_MUST_USE;

void comm_set_failed(struct shoal_comm *c, int rank, const char *words, size_t len);

/* ---- wait.c ---- */

int comm_send(struct shoal_comm *c, struct comm_op *op, const void *buf, size_t len, int to,
	      enum comm_tag tag, struct shoal_err *err) SHOAL_MUST_USE;
int comm_recv(struct shoal_comm *c, struct comm_op *op, void *buf, size_t len, int from,
	      enum comm_tag tag, struct shoal_err *err) SHOAL_MUST_USE;

/* 1 when done, or not under way at all; else 0 or an error. */
int comm_test(struct shoal_comm *c, struct comm_op *op, struct shoal_err *err) SHOAL_MUST_USE;
int comm_probe(struct shoal_comm *c, enum comm_tag tag, int *ret_from, size_t *ret_len,
	       struct shoal_err *err) SHOAL_MUST_USE;

/* Give up all messages under way. False: some memory may still be written to. */
bool comm_cancel_all(struct shoal_comm *c);

/* One wait. Zero it, set whom it is for, and call comm_pause() until what it waits for is there. */
struct comm_pause {
	int lo, hi;          /* the ranks waited for; lo > hi: any */
	bool voluntary;      /* not a stall, however long */
	enum comm_tag stray; /* a message with it from this node means a mistake; 0: none does */
	uint64_t until;      /* do not sleep past this; 0: no matter */
	uint64_t since;      /* when it began to sleep; set before, it sleeps at once */
	unsigned tries;
	uint64_t stalls;
};

/* Look for failure, stop and mail, then sleep a little. */
int comm_pause(struct shoal_comm *c, struct comm_pause *p, struct shoal_err *err) SHOAL_MUST_USE;

/* The same without sleeping. */
int comm_look(struct shoal_comm *c, struct shoal_err *err) SHOAL_MUST_USE;

/* Wait for one message, which is from (or to) one of the ranks @lo to @hi. */
int comm_wait(struct shoal_comm *c, struct comm_op *op, int lo, int hi,
	      struct shoal_err *err) SHOAL_MUST_USE;
int comm_wait_paused(struct shoal_comm *c, struct comm_op *op, struct comm_pause *p,
		     struct shoal_err *err) SHOAL_MUST_USE;
int comm_wait_sends(struct shoal_comm *c, struct shoal_err *err) SHOAL_MUST_USE;

uint64_t comm_now(void); /* nanoseconds */
bool comm_stopped(const struct shoal_comm *c);

/* ---- tree.c ---- */

int comm_group_init(struct comm_group *g, const int *rank, int nr, int me,
		    enum comm_tag tag) SHOAL_MUST_USE;

/*
 * All members meet, check that they make the same @call with the same @detail, and combine @nr (at
 * most COMM_VALUES_MAX) values. Nobody leaves before all have come.
 */
int comm_meet(struct shoal_comm *c, struct comm_group *g, enum comm_call call, uint64_t detail,
	      enum shoal_comm_op op, uint64_t *values, size_t nr,
	      struct shoal_err *err) SHOAL_MUST_USE;

/* @nr of @with into @into. */
void comm_combine(enum shoal_comm_op op, uint64_t *into, const uint64_t *with, size_t nr);

/* ---- flow.c ---- */

/* Share @budget bytes among @nr flows of @depth chunks each, and clear them. */
int comm_flows_init(struct shoal_comm *c, unsigned nr, unsigned depth, size_t budget,
		    struct shoal_err *err) SHOAL_MUST_USE;

/* Let chunks of owners @first to @end - 1 pass. */
void comm_flow_start(struct shoal_comm *c, struct comm_flow *f, int first, int end,
		     const struct shoal_comm_blob *mine, int from, int to);

/* Until all chunks of the first @nr flows have passed. */
int comm_flows_run(struct shoal_comm *c, unsigned nr, struct shoal_err *err) SHOAL_MUST_USE;

/* ---- meeting.c ---- */

void comm_meetings_release(struct shoal_comm *c);

/* ---- mail.c ---- */

int comm_mail_pump(struct shoal_comm *c, struct shoal_err *err) SHOAL_MUST_USE;
void comm_mail_release(struct shoal_comm *c);

#endif
