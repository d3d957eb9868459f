/*
 * engine.h - many reads in flight at once.
 *
 * The owner, one thread, submits requests and reaps those that are done, in any order. An engine
 * reads a stretch of one thing into memory that the request brings: it allocates nothing after it
 * was made. Two kinds: threads, which read through any store, and io_uring, for files.
 */
#ifndef SHOAL_LOAD_ENGINE_H
#define SHOAL_LOAD_ENGINE_H

#include "base/err.h"
#include "store/store.h"

/* One read. The owner fills in the first part, and leaves all of it alone until it is reaped. */
struct load_request {
	const char *name; /* below the store's root; lent */
	uint8_t *buf;     /* aligned to LOAD_ALIGN */
	size_t cap;       /* of buf: a multiple of LOAD_ALIGN, more than len */
	uint64_t off;     /* a multiple of LOAD_ALIGN for direct reads, unless 0 */
	uint64_t len;     /* bytes wanted */
	/* What became of it: */
	int64_t result; /* bytes read: up to len + 1, to tell a file that has grown; or an error */
	uint64_t started;  /* when it was submitted, ns by CLOCK_MONOTONIC */
	uint64_t opened;   /* when the file was open; 0 where the store does not tell */
	uint64_t finished; /* when the bytes were there */
	/* The engine's own: */
	struct load_request *next;
	uint64_t got;
	int fd;
	uint32_t state;
};

#define LOAD_ALIGN 4096u

struct load_engine;

enum load_engine_kind { LOAD_AUTO, LOAD_URING, LOAD_THREADS };

struct load_engine_options {
	enum load_engine_kind kind; /* LOAD_AUTO: io_uring where it works and the store has files */
	struct shoal_store *store;  /* lent */
	unsigned in_flight;         /* requests at once; more that are submitted wait */
	bool direct;                /* O_DIRECT */
	uint8_t *pool; /* where all buffers lie, for io_uring to register; may be NULL */
	size_t pool_len;
};

/*
 * The words of @ret_name tell what was chosen and why ("io_uring, registered buffers", "threads:
 * io_uring is not permitted here"). -ENOTSUP with words when what was forced does not work here:
 * io_uring on a store without files, O_DIRECT where the file system refuses it.
 */
int load_engine_new(const struct load_engine_options *options, struct load_engine **ret_engine,
		    struct shoal_err *err) SHOAL_MUST_USE;

/* Waits for what is in flight. NULL is fine. Returns NULL. */
struct load_engine *load_engine_free(struct load_engine *e);

const char *load_engine_name(const struct load_engine *e);   /* "uring" or "threads" */
const char *load_engine_detail(const struct load_engine *e); /* a few words more */

/* Never waits, never fails: what cannot be started is reaped with its error. */
void load_engine_submit(struct load_engine *e, struct load_request *r);

/* Start what was submitted; called after a number of submits. */
void load_engine_kick(struct load_engine *e);

/*
 * Up to @max requests that are done, after waiting for at least one of them, or @timeout_us. How
 * many, or an error of the engine itself.
 */
int load_engine_reap(struct load_engine *e, struct load_request **done, size_t max,
		     uint64_t timeout_us, struct shoal_err *err) SHOAL_MUST_USE;

/* Requests submitted and not reaped. */
unsigned load_engine_pending(const struct load_engine *e);

#endif
