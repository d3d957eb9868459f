/* engine_private.h - shared by the engines: lists of requests, and the choice of the next read. */
#ifndef SHOAL_LOAD_ENGINE_PRIVATE_H
#define SHOAL_LOAD_ENGINE_PRIVATE_H

#include "base/clock.h"
#include "load/engine.h"
#include "store/posix/posix.h"

struct load_list {
	struct load_request *head, *tail;
};

struct load_engine_ops {
	const char *name; /* NULL: name_of() */
	bool by_store;    /* a store without files is read by store_read(), which checks names */
	void (*submit)(struct load_engine *e, struct load_request *r);
	void (*kick)(struct load_engine *e);
	/* Wait until a request is on the list `done`, @timeout_us have passed, or a signal came. */
	int (*wait)(struct load_engine *e, uint64_t timeout_us, struct shoal_err *err);
	/* From any thread. NULL: `name`, and the engine's `detail`. */
	const char *(*name_of)(const struct load_engine *e);
	void (*describe)(const struct load_engine *e, char *words, size_t room);
	/* From any thread: make wait, or the next one, end early. NULL: it ends when time is up. */
	void (*wake)(struct load_engine *e);
	/* The message for the error of a request, which is returned; 0 if there is none. May be
	 * NULL. */
	int (*why)(const struct load_engine *e, const struct load_request *r,
		   struct shoal_err *err);
	/* Copy out (if @ret is not NULL) and clear. From any thread. NULL: the store is not
	 * remote. */
	void (*remote)(struct load_engine *e, struct load_remote *ret, bool clear);
	void (*free)(struct load_engine *e);
};

/* An engine embeds this as its first member. */
struct load_engine {
	const struct load_engine_ops *ops;
	struct store *store;
	struct store_posix *posix; /* the same store; NULL if it has no files */
	bool direct;
	unsigned in_flight;
	unsigned depth; /* requests that may be queued with profit: at least in_flight */
	unsigned pending;
	int wake_fd; /* other threads write here to wake the owner in its ring; -1: there is none */
	struct load_list done;    /* not yet reaped. Used by the owner only, without a lock */
	char detail[LOAD_DETAIL]; /* the choice and its reason, as far as they never change */
};

/* Constructors of the engines. @base has the common members filled in. */
int load_uring_new(const struct load_engine_options *options, const struct load_engine *base,
		   struct load_engine **ret_engine, struct shoal_err *err) MUST_USE;
/* A ring, and threads if it is not enough. */
int load_crew_new(const struct load_engine_options *options, const struct load_engine *base,
		  struct load_engine **ret_engine, struct shoal_err *err) MUST_USE;
/* Whether threads that make calls are faster than a ring, even if they are the only ones. */
bool load_calls_alone(const struct load_engine_options *options);
/* Threads that read files by calls, without a ring. */
int load_calls_new(const struct load_engine_options *options, const struct load_engine *base,
		   struct load_engine **ret_engine, struct shoal_err *err) MUST_USE;
int load_s3_new(const struct load_engine *base, struct load_engine **ret_engine,
		struct shoal_err *err) MUST_USE;
/* Threads that read any other store. */
int load_threads_new(const struct load_engine_options *options, const struct load_engine *base,
		     struct load_engine **ret_engine, struct shoal_err *err) MUST_USE;

/* ---- Lists ---- */

static inline void load_push(struct load_list *l, struct load_request *r)
{
	r->next = NULL;
	if (l->tail)
		l->tail->next = r;
	else
		l->head = r;
	l->tail = r;
}

static inline void load_push_front(struct load_list *l, struct load_request *r)
{
	r->next = l->head;
	l->head = r;
	if (!l->tail)
		l->tail = r;
}

static inline struct load_request *load_pop(struct load_list *l)
{
	struct load_request *r = l->head;

	if (r) {
		l->head = r->next;
		if (!l->head)
			l->tail = NULL;
	}
	return r;
}

/* Append all of @from to @l. */
static inline void load_splice(struct load_list *l, struct load_list *from)
{
	if (!from->head)
		return;
	if (l->tail)
		l->tail->next = from->head;
	else
		l->head = from->head;
	l->tail = from->tail;
	*from = (struct load_list){ NULL, NULL };
}

/* ---- Files ---- */

struct load_piece {
	uint8_t *buf;
	uint32_t len;
	uint64_t off;
};

/* The descriptor of the shared file of a request, if it is open already, or -1. Then the request
 * opens it and offers it to the others. */
int load_shared_fd(const struct load_request *r);
void load_share_fd(struct load_request *r);

/* A request is done. Returns what it has to close: the file it opened for itself, and the shared
 * file if this was the last request of it. -1: nothing. */
struct load_closing {
	int own, shared;
};
struct load_closing load_release_file(struct load_request *r);

/* Remove from the list the first request whose shared file is open; NULL: there is none. If no
 * descriptor is free it goes before those that need one: the last request of a file closes it. */
struct load_request *load_pop_open(struct load_list *l);

/* Undo the completion of a request that will be retried. */
void load_take_again(struct load_request *r);

/* The next read, with r->got bytes of the extent already read. */
struct load_piece load_next_piece(const struct load_engine *e, const struct load_request *r);

/* Account for @n more bytes of that read. Returns whether to continue reading. */
bool load_took(const struct load_engine *e, struct load_request *r, uint32_t n);

/* Reading has ended: set the request's result. @rc is 0 or an error; r->fd is still open if it was
 * opened. */
void load_settle(const struct load_engine *e, struct load_request *r, int rc);

/* The error to report if the file could not be opened with @rc. */
int load_open_error(const struct load_engine *e, const struct load_request *r, int rc);

/* Whether @rc means that too many files are open: closing some helps. */
static inline bool load_starved(int64_t rc)
{
	return rc == -EMFILE || rc == -ENFILE;
}

/* The same of opening a file: reading one, of a file system in user space, may fail with it too. */
static inline bool load_open_starved(const struct load_request *r)
{
	return load_starved(r->result) && !r->opened;
}

#endif
