/*
 * engine.h - many reads in flight at once.
 *
 * The owner, one thread, submits requests and reaps those that are done, in any order. An engine
 * reads a stretch of one thing into memory that the request brings: it allocates nothing after it
 * was made. Three kinds: threads, which read through any store, io_uring, for files, and s3, for
 * objects.
 *
 * Any thread may make an engine; from the first submit on all calls are by one and the same thread.
 */
#ifndef SHOAL_LOAD_ENGINE_H
#define SHOAL_LOAD_ENGINE_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/histogram.h"
#include "store/store.h"

#define LOAD_ALIGN         4096u
#define LOAD_IN_FLIGHT_MAX 8192u

/*
 * A file of which several stretches are read, each by a request of its own. It is opened once, or a
 * few times where they begin before the first has opened it, and closed with the last of them. So
 * the kernel, which keeps with an open file how it is read, sees it read from one end to the other.
 */
struct load_file {
	atomic_int fd;    /* -1: not open */
	atomic_uint left; /* requests that are not done, also those not submitted yet */
};

/* With @nr requests to come. One that was used before has been let go of by all of them. */
static inline void load_file_init(struct load_file *f, unsigned nr)
{
	atomic_init(&f->fd, -1);
	atomic_init(&f->left, nr);
}

/* When no request for it is in flight, and those to come will not: close it, if it is open. */
void load_file_release(struct load_file *f);

/* One read. The owner fills in the first part, and leaves all of it alone until it is reaped. */
struct load_request {
	const char *name; /* below the store's root; lent */
	const struct shoal_etag
		*etag;          /* that an object is to have, else -ESTALE; NULL: any. Lent */
	struct load_file *file; /* shared with other requests of that name; NULL: its own. Lent */
	uint8_t *buf;           /* aligned to LOAD_ALIGN */
	size_t cap;             /* of buf: at least load_cap(off, len) */
	uint64_t off; /* any; one that LOAD_ALIGN divides saves a direct read some bytes */
	uint64_t len; /* bytes wanted */
	bool inside;  /* the file goes on behind them, so no byte is read to tell of growth */
	/* What became of it: */
	int64_t result; /* bytes read: up to len, + 1 unless inside, to tell growth; or an error */
	uint8_t *data;  /* where they are: in buf, off % LOAD_ALIGN from its start where direct */
	uint64_t started;  /* when it was submitted, ns by CLOCK_MONOTONIC */
	uint64_t opened;   /* when the file was open; 0 where the store does not tell */
	uint64_t finished; /* when it was known that the bytes were there */
	/* The engine's own: */
	struct load_request *next;
	uint64_t got;
	int fd;
	uint32_t state;
};

/* Room for a stretch, the byte that tells of growth, and what direct reads bring with it. */
static inline uint64_t load_cap(uint64_t off, uint64_t len)
{
	return (off % LOAD_ALIGN + len + LOAD_ALIGN) / LOAD_ALIGN * LOAD_ALIGN;
}

struct load_engine;

enum load_engine_kind { LOAD_AUTO, LOAD_URING, LOAD_THREADS };

struct load_engine_options {
	enum load_engine_kind kind; /* LOAD_AUTO: io_uring where it works and the store has files */
	struct shoal_store *store;  /* lent */
	unsigned in_flight; /* requests at once, 1 to LOAD_IN_FLIGHT_MAX; others wait inside */
	bool direct;        /* O_DIRECT, where the store has files */
	uint8_t *pool;      /* where all buffers lie, for io_uring to register; may be NULL */
	size_t pool_len;
};

/*
 * -ENOTSUP with words when what was forced does not work here: io_uring on a store without files,
 * or not permitted; O_DIRECT where the file system of the root refuses it.
 */
int load_engine_new(const struct load_engine_options *options, struct load_engine **ret_engine,
		    struct shoal_err *err) SHOAL_MUST_USE;

/* Waits for what has begun and drops the rest. NULL is fine. Returns NULL. */
struct load_engine *load_engine_free(struct load_engine *e);

const char *load_engine_name(const struct load_engine *e); /* "uring", "threads" or "s3" */
/* What was chosen and why: "registered buffers", "io_uring is not permitted here". */
const char *load_engine_detail(const struct load_engine *e);

/* Never waits, never fails: what cannot be started is reaped with its error. */
void load_engine_submit(struct load_engine *e, struct load_request *r);

/* Start what was submitted; called after a number of submits. */
void load_engine_kick(struct load_engine *e);

/*
 * Up to @max requests that are done, after waiting for at least one of them, @timeout_us or a
 * signal. Kicks. How many, or an error of the engine itself.
 */
int load_engine_reap(struct load_engine *e, struct load_request **done, size_t max,
		     uint64_t timeout_us, struct shoal_err *err) SHOAL_MUST_USE;

/* By any thread: have the owner's reap, or its next, come back though nothing is done. */
void load_engine_wake(struct load_engine *e);

/* Requests submitted and not reaped. */
unsigned load_engine_pending(const struct load_engine *e);

/* What went over the network, where it did. All numbers, to be added up. */
struct load_remote {
	uint64_t nr_requests;  /* sent, again ones too */
	uint64_t nr_retries;   /* of them sent again */
	uint64_t nr_throttled; /* answered with "slow down" */
	uint64_t bytes;
	struct shoal_histogram first_ns, total_ns; /* until the answer began; until all was there */
};

/* Since it was made, or last cleared. By any thread. False where it reads no objects. */
bool load_engine_remote(struct load_engine *e, struct load_remote *ret_remote);
void load_engine_remote_clear(struct load_engine *e);

/* Words for the error that a request was reaped with, which is returned. */
int load_engine_why(const struct load_engine *e, const struct load_request *r,
		    struct shoal_err *err);

#endif
