/*
 * comm.h - ranks: one process, or those that mpirun or srun started.
 *
 * A comm is a parameter, never a global. It belongs to the thread that opened it. Collective calls
 * are made by all ranks in the same order, with the same root, operation and lengths; nobody leaves
 * one before all have come. While it waits a rank sleeps, and looks for word that another one
 * failed: shoal_comm_fail() on one rank makes every wait on every rank end with -EREMOTEIO and that
 * rank's words ("rank 3: ..."), so that nobody hangs.
 *
 * A collective call that fails on one rank, for whatever reason (a callback, a bad argument, no
 * memory, a stop), fails so on all: the rank itself gets its own error, the others -EREMOTEIO. Then
 * the comm is of no more use but to be closed: every later call gives -EREMOTEIO, on the rank that
 * failed too. Ranks that make different calls are told so with -EPROTO.
 */
#ifndef SHOAL_COMM_COMM_H
#define SHOAL_COMM_COMM_H

#include "base/err.h"

struct shoal_comm;

/* Where this process stands. A node is what shares memory. */
struct shoal_comm_place {
	int rank, size;
	int node, nr_nodes;
	int node_rank, node_size; /* among those on this node */
	int node_leader;          /* the rank that has node_rank 0 here */
};

/*
 * MPI where the environment says that mpirun or srun started us, else one process. SHOAL_MPI forces
 * a choice: "none", "openmpi", "mpich", or the path of a module. Modules are looked for in the
 * folder SHOAL_MODULE_DIR, beside the program, and where they are installed. Started under MPI
 * without a module for it, or with one of another MPI, is an error: W processes that all think they
 * are alone would write over each other. Collective; there is one comm with MPI in the life of a
 * process.
 */
int shoal_comm_open(struct shoal_comm **ret_comm, struct shoal_err *err) SHOAL_MUST_USE;

/* One process, whatever started it. */
int shoal_comm_self(struct shoal_comm **ret_comm, struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Collective. After a failure it waits for the others three seconds only, and ends the job if they
 * do not come; after a stop one second only, and then leaves as it is. Mail that nobody has polled
 * is thrown away. NULL is fine. Returns NULL.
 */
struct shoal_comm *shoal_comm_close(struct shoal_comm *c);

const struct shoal_comm_place *shoal_comm_place(const struct shoal_comm *c);

/* What carries the messages: "one process", "Open MPI v4.1.4", ... */
const char *shoal_comm_name(const struct shoal_comm *c);

/*
 * End waiting with -ECANCELED once *@stop is not 0 (a signal handler sets it). In a collective call
 * that is a failure, which the others are told.
 */
void shoal_comm_set_stop(struct shoal_comm *c, const int *stop);

/*
 * Called from a wait that lasts longer than @seconds, and again each time that long passes, with
 * words such as "rank 0 has waited 30 s in a barrier for rank 3". Waiting for mail is not a stall.
 */
void shoal_comm_set_stall(struct shoal_comm *c, double seconds,
			  void (*stalled)(void *self, const char *words), void *self);

/*
 * Tell all other ranks that this one cannot go on, and why: the first 700 bytes of @words. The
 * first failure that a rank makes or hears of counts; later ones change nothing.
 */
void shoal_comm_fail(struct shoal_comm *c, const char *words);

/* ---- All together ---- */

/* Of all ranks, and of those on this node; each node may call the second as often as it likes. */
int shoal_comm_barrier(struct shoal_comm *c, struct shoal_err *err) SHOAL_MUST_USE;
int shoal_comm_node_barrier(struct shoal_comm *c, struct shoal_err *err) SHOAL_MUST_USE;

/* @root's bytes to all. For small things: pieces of 32 KiB follow each other. */
int shoal_comm_broadcast(struct shoal_comm *c, int root, void *buf, size_t len,
			 struct shoal_err *err) SHOAL_MUST_USE;

enum shoal_comm_op { SHOAL_COMM_SUM, SHOAL_COMM_MIN, SHOAL_COMM_MAX };

/* Each of @nr values becomes its sum (least, greatest) over all ranks, on all ranks. */
int shoal_comm_reduce(struct shoal_comm *c, enum shoal_comm_op op, uint64_t *values, size_t nr,
		      struct shoal_err *err) SHOAL_MUST_USE;

/* ---- All together, many times a second ---- */

struct shoal_comm_meeting;

#define SHOAL_COMM_MEETING_VALUES 8 /* at the most */

/*
 * Collective. Ranks of a node meet in memory that they share: who has come sleeps until the last
 * one has, and is woken, where in a reduce it would look for messages again and again. Nodes meet
 * by messages. Where there is no shared memory a meeting is a reduce.
 */
int shoal_comm_meeting_open(struct shoal_comm *c, struct shoal_comm_meeting **ret_meeting,
			    struct shoal_err *err) SHOAL_MUST_USE;

/* Local; before the comm is closed. NULL is fine. Returns NULL. */
struct shoal_comm_meeting *shoal_comm_meeting_close(struct shoal_comm_meeting *m);

/* As shoal_comm_reduce(), for few values. Mail and word of a failure are seen within 20 ms. */
int shoal_comm_meeting_hold(struct shoal_comm_meeting *m, enum shoal_comm_op op, uint64_t *values,
			    size_t nr, struct shoal_err *err) SHOAL_MUST_USE;

/* ---- Bytes of any length, in bounded memory ---- */

/*
 * Bytes that are read as they are needed, front to back and once: from memory, or by a function,
 * which is called ahead of need as far as the budget allows.
 */
struct shoal_comm_blob {
	uint64_t len;
	const void *data; /* or, where NULL: */
	int (*read)(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err);
	void *self;
};

/* Takes the bytes of rank @from, front to back: @len bytes at @off of @total. */
typedef int shoal_comm_take_fn(void *self, int from, uint64_t off, uint64_t total, const void *data,
			       size_t len, struct shoal_err *err);

#define SHOAL_COMM_ALL (-1)

/*
 * Hand every rank's blob to @take on rank @root, or on all ranks with SHOAL_COMM_ALL, rank after
 * rank; an empty one is told too, once, with @len 0. No rank allocates more than @budget bytes (at
 * least 4096), whatever the blobs; where budgets differ the least one holds. Others than @root need
 * no @take. 0 on one rank means that all bytes were taken well on all of them.
 */
int shoal_comm_gather(struct shoal_comm *c, const struct shoal_comm_blob *mine, int root,
		      size_t budget, shoal_comm_take_fn *take, void *self,
		      struct shoal_err *err) SHOAL_MUST_USE;

/*
 * The same into file @fd of @root (others may pass -1), one behind the other from offset 0 on.
 * @offsets, when not NULL, has room for size + 1 numbers: where each rank's bytes start, and the
 * end. Any rank may ask for them. The file is not cut where it was longer before, nor synced.
 */
int shoal_comm_gather_file(struct shoal_comm *c, const struct shoal_comm_blob *mine, int root,
			   size_t budget, int fd, uint64_t *offsets,
			   struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Every rank sends blob @to[r] to rank r, and takes what the others send it: of one sender front to
 * back, of several senders in any order and mixed. Empty ones are told once. Budget and result as
 * for a gather.
 */
int shoal_comm_exchange(struct shoal_comm *c, const struct shoal_comm_blob *to, size_t budget,
			shoal_comm_take_fn *take, void *self, struct shoal_err *err) SHOAL_MUST_USE;

/* ---- Mail: small messages at any time, to those who poll ---- */

#define SHOAL_COMM_MAIL_MAX (64u << 10)

struct shoal_comm_mail {
	int from;
	uint32_t kind;
	const void *data; /* lent until the next poll */
	size_t len;
};

/*
 * Send a copy of @data; from one rank to another mail stays in order. Also to oneself. It waits
 * when 64 mails are under way. Every wait, of whatever kind, takes in the mail that comes
 * meanwhile, to be polled later; -EAGAIN when that are 64 MiB: a rank that gets mail must poll. An
 * error of this or of poll is this rank's alone.
 */
int shoal_comm_post(struct shoal_comm *c, int to, uint32_t kind, const void *data, size_t len,
		    struct shoal_err *err) SHOAL_MUST_USE;

/*
 * 1 and a message, or 0 when none has come within @timeout_us. Errors as any wait: another rank's
 * failure comes this way too, so a rank that works long between collective calls polls now and
 * then.
 */
int shoal_comm_poll(struct shoal_comm *c, uint64_t timeout_us, struct shoal_comm_mail *ret_mail,
		    struct shoal_err *err) SHOAL_MUST_USE;

#endif
