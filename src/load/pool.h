/*
 * pool.h - the memory that samples are read into.
 *
 * A range of addresses is reserved when a loader is opened. Each batch takes parts of it and gives
 * them back; batches come and go in any order. The first `kept` bytes of the range stay in memory
 * once they were used, and io_uring registers them. The pages after them are memory only while a
 * batch uses them.
 *
 * With a limit, the range is all the memory there is: a batch that does not fit has to wait. A
 * batch alone fits unless it is larger than the range. Without a limit, a batch that does not fit
 * gets the rest from a mapping of its own, which is unmapped with the batch.
 *
 * A pool belongs to one thread. Other threads may read `now` and `peak`.
 */
#ifndef SHOAL_LOAD_POOL_H
#define SHOAL_LOAD_POOL_H

#include <stdatomic.h>

#include "base/err.h"
#include "load/engine.h"

struct load_slot;

struct load_extent {
	uint64_t off, len;
};

/* The largest number of parts of the range per batch. */
#define LOAD_PARTS 4u

/* The memory of one batch. All zeros: it has none. */
struct load_room {
	struct load_extent part[LOAD_PARTS];
	uint32_t nr_parts;
	uint8_t *own; /* a mapping for the samples that did not fit into the range; NULL: there is
			 none */
	uint64_t own_len;
};

struct load_pool_options {
	uint64_t len;        /* of the range */
	uint64_t kept;       /* bytes at its start that are kept, at most len */
	uint64_t lane;       /* the least that each batch takes, if available; 0: what it needs */
	bool limited;        /* the range is a limit */
	uint32_t nr_batches; /* the largest number of batches that have memory at once */
	/* Called with the range; see shoal_load_options. All of it has to be kept, because whoever
	 * is told may hold on to its pages. */
	int (*added)(void *self, void *addr, size_t len);
	void (*removed)(void *self, void *addr, size_t len);
	void *self;
};

struct load_pool {
	uint8_t *bytes; /* aligned to a huge page if it is large enough */
	struct load_pool_options is;
	struct load_extent *gap; /* free parts of the range, sorted and never adjacent */
	uint32_t nr_gaps;
	uint32_t nr_rooms; /* batches that have memory */
	bool announced;    /* the range was added, and has to be removed */
	/* Bytes that are kept, used after the kept part, or mapped beside the range: now, and at
	 * most. */
	_Atomic uint64_t now, peak;
};

/* -ENOMEM, with a message, if the range cannot be reserved; or the error of `added`. */
int load_pool_init(struct load_pool *p, const struct load_pool_options *options,
		   struct shoal_err *err) MUST_USE;
void load_pool_release(struct load_pool *p);

/*
 * Find a buffer of request.cap bytes for each of @nr slots, @need bytes together; slots of 0
 * bytes get none. @beyond: a pool with a limit may exceed it this time. -EAGAIN: there is no
 * room until other batches are given back. -ENOMEM: the system has no memory. In both cases
 * @ret_room is untouched.
 */
int load_pool_take(struct load_pool *p, struct load_slot *slot, size_t nr, uint64_t need,
		   bool beyond, struct load_room *ret_room) MUST_USE;

/* The room may be empty. It is empty afterwards. */
void load_pool_give(struct load_pool *p, struct load_room *room);

static inline bool load_room_is_empty(const struct load_room *room)
{
	return room->nr_parts == 0 && !room->own;
}

/* The buffer size for a sample of @len bytes; @anywhere: it may begin at any offset of its file. */
static inline uint64_t load_buffer_len(uint64_t len, bool anywhere)
{
	return load_cap(anywhere ? LOAD_ALIGN - 1 : 0, len);
}

/*
 * The expected buffer size if samples have @mean bytes on average and at most @largest: an
 * eighth more than the mean, so that most batches fit. If sizes hardly differ, all get room for
 * the largest.
 */
static inline uint64_t load_buffer_expected(uint64_t mean, uint64_t largest, bool anywhere)
{
	uint64_t len = load_buffer_len(mean, anywhere), most = load_buffer_len(largest, anywhere);

	return len + len / 8 < most ? (len + len / 8) / LOAD_ALIGN * LOAD_ALIGN : most;
}

#endif
