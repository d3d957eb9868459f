/* engine_inside.h - what the engines share: lists of requests, and what of a file is read next. */
#ifndef SHOAL_LOAD_ENGINE_INSIDE_H
#define SHOAL_LOAD_ENGINE_INSIDE_H

#include "base/clock.h"
#include "load/engine.h"
#include "store/posix.h"

struct load_list {
	struct load_request *head, *tail;
};

struct load_engine_ops {
	const char *name;
	void (*submit)(struct load_engine *e, struct load_request *r);
	void (*kick)(struct load_engine *e);
	/* Wait until something is on the list `done`, @timeout_us have passed, or a signal came. */
	int (*wait)(struct load_engine *e, uint64_t timeout_us, struct shoal_err *err);
	/* By any thread: have wait, or the next one, end early. NULL: it ends when time is up. */
	void (*wake)(struct load_engine *e);
	/* Words for the error of a request, which is returned; 0 when there are none. May be NULL.
	 */
	int (*why)(const struct load_engine *e, const struct load_request *r,
		   struct shoal_err *err);
	/* Copy out (where @ret is not NULL) and clear. By any thread. NULL: nothing is remote. */
	void (*remote)(struct load_engine *e, struct load_remote *ret, bool clear);
	void (*free)(struct load_engine *e);
};

/* An engine embeds this as its first member. */
struct load_engine {
	const struct load_engine_ops *ops;
	struct shoal_store *store;
	struct store_posix *posix; /* the same; NULL when it has no files */
	bool direct;
	unsigned in_flight;
	unsigned pending;
	struct load_list done; /* not yet reaped. The owner's: no lock */
	char detail[256];
};

/* With what is common to both filled in. */
int load_uring_new(const struct load_engine_options *options, const struct load_engine *base,
		   struct load_engine **ret_engine, struct shoal_err *err) SHOAL_MUST_USE;
/* A ring, and others with threads of their own where that one is not enough. */
int load_crew_new(const struct load_engine_options *options, const struct load_engine *base,
		  struct load_engine **ret_engine, struct shoal_err *err) SHOAL_MUST_USE;
int load_s3_new(const struct load_engine *base, struct load_engine **ret_engine,
		struct shoal_err *err) SHOAL_MUST_USE;
int load_threads_new(const struct load_engine *base, struct load_engine **ret_engine,
		     struct shoal_err *err) SHOAL_MUST_USE;

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

/* All of @from behind @l. */
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

static inline uint64_t load_now(void)
{
	return shoal_clock_ns(CLOCK_MONOTONIC);
}

/* ---- Files ---- */

struct load_piece {
	uint8_t *buf;
	uint32_t len;
	uint64_t off;
};

/*
 * The file of a request that shares it, open already: its descriptor, or -1. Then it is to be
 * opened, and others to be offered it.
 */
int load_shared_fd(const struct load_request *r);
void load_share_fd(struct load_request *r);

/*
 * A request is done. What it has to close: what it opened for itself, and what was shared, if it is
 * the last of those that share it. -1: none.
 */
struct load_closing {
	int own, shared;
};
struct load_closing load_let_go(struct load_request *r);

/*
 * Off the list, the first whose file others have open; NULL: none. Where no descriptor is free it
 * goes before those that need one: the last of its kind gives one back.
 */
struct load_request *load_pop_open(struct load_list *l);

/* A request that is done, by what an engine's part says, is not, and will be tried again. */
void load_take_again(struct load_request *r);

/* What to read next, r->got bytes of the stretch being there. */
struct load_piece load_next_piece(const struct load_engine *e, const struct load_request *r);

/* @n more bytes came for that piece. Whether to read on. */
bool load_took(const struct load_engine *e, struct load_request *r, uint32_t n);

/* No more comes: what the owner gets. @rc is 0 or an error, r->fd is open still, if it was. */
void load_settle(const struct load_engine *e, struct load_request *r, int rc);

/* What it means that the file could not be opened, with @rc. */
int load_open_error(const struct load_engine *e, const struct load_request *r, int rc);

/* Whether @rc says that there are too many open files: closing some helps. */
static inline bool load_starved(int64_t rc)
{
	return rc == -EMFILE || rc == -ENFILE;
}

#endif
