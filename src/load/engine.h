/*
 * engine.h - many reads in flight at once.
 *
 * The owner, one thread, submits requests and reaps completed ones, in any order. An engine reads
 * an extent of a file or object into memory that the request brings; it allocates nothing after
 * its creation, but may start threads. There are three kinds: threads, which read through any
 * store; io_uring, for files; and s3, for objects.
 *
 * Any thread may create an engine; from the first submit on, all calls are made by one thread.
 */
#ifndef SHOAL_LOAD_ENGINE_H
#define SHOAL_LOAD_ENGINE_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/histogram.h"
#include "store/store.h"

#define LOAD_ALIGN         4096u
#define LOAD_IN_FLIGHT_MAX 8192u
#define LOAD_THREADS_MAX   256u

/*
 * A file of which several extents are read, each by a request of its own. It is opened once (or
 * a few times, if requests begin before the first has opened it) and closed with the last of
 * them. So the kernel, which keeps the readahead state per open file, sees sequential reads.
 */
struct load_file {
	atomic_int fd;    /* -1: not open */
	atomic_uint left; /* requests that are not done, including those not submitted yet */
};

/* Prepare it for @nr requests. All earlier requests must have released it. */
static inline void load_file_init(struct load_file *f, unsigned nr)
{
	atomic_init(&f->fd, -1);
	atomic_init(&f->left, nr);
}

/* Close the file, if it is open. No request for it may be in flight, and none may follow. */
void load_file_release(struct load_file *f);

/* One read. The owner fills in the first part, and leaves the request alone until it is reaped. */
struct load_request {
	const char *name;        /* below the store's root; lent */
	const struct etag *etag; /* the ETag that an object must have, or the request fails with
				    -ESTALE; NULL: any. Lent */
	struct load_file
		*file; /* shared with other requests of that name; NULL: not shared. Lent */
	uint8_t *buf;  /* aligned to LOAD_ALIGN */
	size_t cap;    /* of buf: at least load_cap(off, len) */
	uint64_t off;  /* any offset; a multiple of LOAD_ALIGN saves a direct read some bytes */
	uint64_t len;  /* bytes wanted */
	bool inside; /* the file continues after them, so no extra byte is read to detect growth */
	/* The result: */
	int64_t result; /* bytes read: up to len, + 1 unless inside, to detect growth; or an error
			 */
	uint8_t *data; /* where they are: in buf, off % LOAD_ALIGN bytes from its start if direct */
	uint64_t started;  /* when it was submitted, ns by CLOCK_MONOTONIC; once it is reaped, when
			      the engine began it */
	uint64_t opened;   /* when the file was open; 0 if the store does not report it */
	uint64_t finished; /* when the completion was seen */
	bool opens;        /* it opened the file itself */
	/* Used by the engine: */
	uint64_t begun; /* when it was taken from a queue; 0: it was not in one */
	struct load_request *next;
	uint64_t got;
	int fd;
	uint32_t state;
};

/* Room for an extent, the byte that detects growth, and the surplus of direct reads. */
static inline uint64_t load_cap(uint64_t off, uint64_t len)
{
	return (off % LOAD_ALIGN + len + LOAD_ALIGN) / LOAD_ALIGN * LOAD_ALIGN;
}

struct load_engine;

enum load_engine_kind { LOAD_AUTO, LOAD_URING, LOAD_THREADS };

struct load_engine_options {
	enum load_engine_kind kind; /* LOAD_AUTO: io_uring if it works and the store has files */
	struct store *store;        /* lent */
	unsigned in_flight; /* requests at once, 1 to LOAD_IN_FLIGHT_MAX; further ones are queued */
	unsigned threads;   /* that read; 0: as many as pay, chosen while it runs */
	bool direct;        /* O_DIRECT, if the store has files */
	uint64_t mean_len;  /* of the requests, as expected; 0: not known */
	bool own_files;     /* no request shares its file with others (load_request.file) */
	uint8_t *pool;      /* the memory of all buffers, for io_uring to register; may be NULL */
	size_t pool_len;
};

/* -ENOTSUP with a message if a forced choice does not work here: io_uring on a store without
 * files, or not permitted; O_DIRECT if the file system of the root refuses it. */
int load_engine_new(const struct load_engine_options *options, struct load_engine **ret_engine,
		    struct shoal_err *err) MUST_USE;

/* Waits for requests that have begun and drops the rest. @e may be NULL. Returns NULL. */
struct load_engine *load_engine_free(struct load_engine *e);

/* "uring", "threads" or "s3": what has read the most so far. From any thread. */
const char *load_engine_name(const struct load_engine *e);
/* The choice and its reason, such as "registered buffers" or "io_uring is not permitted here".
 * From any thread. */
#define LOAD_DETAIL 256
void load_engine_describe(const struct load_engine *e, char words[LOAD_DETAIL]);

/* Never waits, never fails: a request that cannot be started is reaped with its error. */
void load_engine_submit(struct load_engine *e, struct load_request *r);

/* Start the submitted requests; called after a number of submits. */
void load_engine_kick(struct load_engine *e);

/* Reap up to @max completed requests, after waiting for at least one of them, for @timeout_us or
 * for a signal. Kicks. Returns how many, or an error of the engine itself. */
int load_engine_reap(struct load_engine *e, struct load_request **done, size_t max,
		     uint64_t timeout_us, struct shoal_err *err) MUST_USE;

/* From any thread: make the owner's current or next reap return although nothing is done. */
void load_engine_wake(struct load_engine *e);

/* Requests submitted and not reaped; and up to which number of them it pays to submit more. */
unsigned load_engine_pending(const struct load_engine *e);
unsigned load_engine_depth(const struct load_engine *e);

/* Traffic over the network, if there was any. All numbers, to be added over ranks. */
struct load_remote {
	uint64_t nr_requests;  /* sent, including retries */
	uint64_t nr_retries;   /* of these, retries */
	uint64_t nr_throttled; /* throttled by the server */
	uint64_t bytes;
	uint64_t loops;    /* the event loops in use at each of these requests, added up */
	uint64_t nr_other; /* sent by other threads than the loader's */
	struct histogram first_ns, total_ns; /* until the answer began; until it was complete */
};

/* Since creation, or since the last clear. From any thread. False if the engine reads no
 * objects. */
bool load_engine_remote(struct load_engine *e, struct load_remote *ret_remote);
void load_engine_remote_clear(struct load_engine *e);

/* Write the message for the error that a request was reaped with, and return that error. */
int load_engine_why(const struct load_engine *e, const struct load_request *r,
		    struct shoal_err *err);

#endif
