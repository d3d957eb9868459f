/*
 * comm.h - ranks: one process, or those that mpirun or srun started.
 *
 * A comm is a parameter, never a global. It belongs to the thread that opened it. Collective calls
 * are made by all ranks in the same sequence, with the same root, operation and lengths; no rank
 * returns from one before all have entered it. A waiting rank sleeps, and checks whether another
 * rank failed: comm_fail() on one rank makes every wait on every rank end with -EREMOTEIO and that
 * rank's message ("rank 3: ..."), so that no rank hangs.
 *
 * If a collective call fails on one rank, for any reason (a callback, a bad argument, no memory, a
 * stop), it fails on all: the rank itself gets its own error, the others -EREMOTEIO. After that the
 * comm can only be closed: every later call returns -EREMOTEIO, on the failed rank too. Ranks that
 * make different calls get -EPROTO.
 */
#ifndef SHOAL_COMM_COMM_H
#define SHOAL_COMM_COMM_H

#include "base/err.h"

struct comm;

/* The place of this process in the job. The ranks of a node share memory. */
struct comm_place {
	int rank, size;
	int node, nr_nodes;
	int node_rank, node_size; /* among the ranks of this node */
	int node_leader;          /* the rank with node_rank 0 on this node */
};

/*
 * Use MPI if the environment shows that mpirun or srun started this process, otherwise a single
 * process. SHOAL_MPI forces a choice: "none", "openmpi", "mpich", or the path of a module. Modules
 * are searched in the folder SHOAL_MODULE_DIR, next to the program, in ../lib/shoal from there, and
 * in the installed location. To be started under MPI without a module for it, or with the module of
 * another MPI, is an error: W processes that all believe to be alone would overwrite each other's
 * files. Collective; a process can open one comm with MPI in its life.
 */
int comm_open(struct comm **ret_comm, struct shoal_err *err) MUST_USE;

/*
 * The rank that mpirun or srun gave to this process, and of how many, without starting MPI. 0 of 1
 * for a process that is alone: also for one that a rank has started (a script, a Python program),
 * and with SHOAL_MPI=none.
 */
int comm_launched_rank(int *ret_size);

/* Whether there is a module for @mpi: "openmpi" or "mpich". */
bool comm_has_module(const char *mpi);

/* A comm of one process, whatever started it. */
int comm_self(struct comm **ret_comm, struct shoal_err *err) MUST_USE;

/*
 * Collective: wait until all ranks have come to their end. After a failure it waits three seconds
 * for the other ranks, after a stop one second. Mail that was not polled is discarded. Only
 * comm_close() is allowed afterwards, which calls this unless the caller has.
 */
int comm_finish(struct comm *c, struct shoal_err *err) MUST_USE;

/*
 * Collective. Aborts the job if ranks did not come to their end in time, unless there was a stop;
 * otherwise shuts MPI down, which may hang for ever. NULL is fine. Returns NULL.
 */
struct comm *comm_close(struct comm *c);

const struct comm_place *comm_place(const struct comm *c);

/* The transport: "one process", "Open MPI v4.1.4", ... */
const char *comm_name(const struct comm *c);

/*
 * End waits with -ECANCELED once *@stop is not 0 (a signal handler sets it). In a collective call
 * that is a failure, which the other ranks see.
 */
void comm_set_stop(struct comm *c, const int *stop);

/*
 * While @deferred, a stop does not end waits at once, because the ranks agree on it among
 * themselves, or because it is too late for it; but waits after a stop last three seconds at most,
 * all together, because a rank that was stopped or killed agrees to nothing.
 */
void comm_defer_stop(struct comm *c, bool deferred);

/*
 * Fail with -EHOSTDOWN if a rank that another one waits for does not answer for @seconds, though it
 * has answered before: because it was stopped or killed, or is cut off. A rank that works answers.
 * 0, as at the start: wait for ever.
 */
void comm_set_peer_timeout(struct comm *c, unsigned seconds);

/*
 * Call @stalled when a wait lasts longer than @seconds, and again each time that long passes, with
 * text such as "rank 0 has waited 30 s in a barrier for rank 3". Waiting for mail is not a stall.
 */
void comm_set_stall(struct comm *c, double seconds, void (*stalled)(void *self, const char *words),
		    void *self);

/*
 * Report to all other ranks that this one cannot continue, and why: the first 700 bytes of @err's
 * message, and its hint. The first failure that a rank reports or receives counts; later ones
 * change nothing.
 */
void comm_fail(struct comm *c, const struct shoal_err *err);

/* ---- Collective calls ---- */

/* A barrier of all ranks. */
int comm_barrier(struct comm *c, struct shoal_err *err) MUST_USE;

/* Copy @root's bytes to all. For small data: it is sent in pieces of 32 KiB. */
int comm_broadcast(struct comm *c, int root, void *buf, size_t len, struct shoal_err *err) MUST_USE;

enum comm_reduce_op { COMM_SUM, COMM_MIN, COMM_MAX };

/* Replace each of @nr values by its sum (minimum, maximum) over all ranks, on all ranks. */
int comm_reduce(struct comm *c, enum comm_reduce_op op, uint64_t *values, size_t nr,
		struct shoal_err *err) MUST_USE;

/* ---- Fast reduce: many times per second ---- */

struct comm_fast;

#define COMM_FAST_VALUES 8 /* at most */

/*
 * Collective. The ranks of a node meet in shared memory: a rank that has arrived sleeps until it is
 * woken, whereas in a reduce it would poll for messages. Nodes exchange messages. Without shared
 * memory this is an ordinary reduce.
 */
int comm_fast_open(struct comm *c, struct comm_fast **ret_fast, struct shoal_err *err) MUST_USE;

/* Local; call it before the comm is closed. NULL is fine. Returns NULL. */
struct comm_fast *comm_fast_close(struct comm_fast *m);

/* As comm_reduce(), for few values. Mail and failures are noticed within 20 ms. */
int comm_fast_reduce(struct comm_fast *m, enum comm_reduce_op op, uint64_t *values, size_t nr,
		     struct shoal_err *err) MUST_USE;

/* ---- Data of any length, in bounded memory ---- */

/*
 * Bytes that are read when needed, once, from front to back: from memory, or by a function that is
 * called ahead of time as far as the budget allows.
 */
struct comm_blob {
	uint64_t len;
	const void *data; /* if NULL, the function below is used */
	int (*read)(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err);
	void *self;
};

/* Receives the bytes of rank @from, front to back: @len bytes at @off of @total. */
typedef int comm_take_fn(void *self, int from, uint64_t off, uint64_t total, const void *data,
			 size_t len, struct shoal_err *err);

#define COMM_ALL (-1)

/*
 * Pass every rank's blob to @take on rank @root, or on all ranks with COMM_ALL, one rank after the
 * other; for an empty blob @take is called once, with @len 0. No rank allocates more than @budget
 * bytes (at least 4096), whatever the blobs; if budgets differ, the smallest applies. Ranks other
 * than @root need no @take. 0 on one rank means that all bytes were taken on all ranks.
 */
int comm_gather(struct comm *c, const struct comm_blob *mine, int root, size_t budget,
		comm_take_fn *take, void *self, struct shoal_err *err) MUST_USE;

/*
 * Every rank sends blob @to[r] to rank r, and takes the blobs sent to it: those of one sender from
 * front to back, those of several senders interleaved in any order. For an empty blob @take is
 * called once. Budget and result are as for a gather.
 */
int comm_exchange(struct comm *c, const struct comm_blob *to, size_t budget, comm_take_fn *take,
		  void *self, struct shoal_err *err) MUST_USE;

/* ---- Mail: small messages at any time, to ranks that poll ---- */

#define COMM_MAIL_MAX (64u << 10)

struct comm_mail {
	int from;
	uint32_t kind;
	const void *data; /* lent until the next poll */
	size_t len;
};

/*
 * Send a copy of @data; mail from one rank to another stays in order. A rank may send to itself.
 * The call blocks while 64 mails are in flight. Every wait, of any kind, receives arriving mail and
 * queues it for a later poll; -EAGAIN once 64 MiB are queued: a rank that receives mail must poll.
 * An error of this call or of a poll concerns this rank alone.
 */
int comm_post(struct comm *c, int to, uint32_t kind, const void *data, size_t len,
	      struct shoal_err *err) MUST_USE;

/*
 * Returns 1 and a message, or 0 if none arrived within @timeout_us. Errors are those of any wait:
 * another rank's failure, and a rank that is lost, are reported here too, so a rank that works for
 * long between collective calls should poll now and then.
 */
int comm_poll(struct comm *c, uint64_t timeout_us, struct comm_mail *ret_mail,
	      struct shoal_err *err) MUST_USE;

#endif
