/*
 * queue.h - the units of a listing that no thread has begun yet.
 *
 * A stack, so that walks are depth-first; or sorted by the start of the units, if it is filled
 * with index_queue_insert(). Other ranks are given the oldest units, which are likely the largest.
 * A few megabytes stay in memory, the oldest beyond that go to a file: a directory may have
 * millions of subdirectories.
 */
#ifndef SHOAL_INDEX_QUEUE_H
#define SHOAL_INDEX_QUEUE_H

#include "base/err.h"
#include "base/le.h"
#include "base/span.h"

/* ---- A list of units, in memory, in messages and in checkpoints: each after its length ---- */

/* A unit stored elsewhere. */
struct index_unit_ref {
	const void *unit;
	size_t len;
};

#define INDEX_UNIT_HEAD sizeof(struct le32)

/* What precedes a unit. */
static inline struct le32 index_unit_head(size_t len)
{
	return le32_of((uint32_t)len);
}

/* Write a unit to @to, which has INDEX_UNIT_HEAD bytes more than it. Returns where the next one
 * goes. */
static inline uint8_t *index_unit_put(uint8_t *to, const void *unit, size_t len)
{
	struct le32 head = index_unit_head(len);

	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), unit, len);
	return to + sizeof(head) + len;
}

/* The next unit of a list: 1, 0 at its end, or -EBADMSG. */
int index_unit_next(struct span *list, struct index_unit_ref *ret_ref) MUST_USE;

/* The handoff of a unit: number @nr of those sent to rank @to. */
struct index_handoff_id {
	int to;
	uint64_t nr;
};

/* Takes a unit. @handoff: it was sent, and is not known to be in the receiver's checkpoint;
 * NULL: it is ours. */
typedef int index_unit_fn(void *self, const struct index_handoff_id *handoff, const void *unit,
			  size_t len, struct shoal_err *err);

/* ---- The queue ---- */

struct index_queue {
	uint8_t *bytes;
	size_t cap, head, tail; /* what is in use */
	uint64_t nr;            /* units, including those in the file */
	const char *tmp_dir;    /* lent */
	int fd;                 /* -1 until units had to be moved there */
	/* Blocks of the file, oldest first. 16 bytes per two megabytes. */
	struct index_queue_block {
		uint64_t off, len;
	} * block;
	size_t nr_blocks, cap_blocks;
};

int index_queue_init(struct index_queue *u, size_t memory, const char *tmp_dir,
		     struct shoal_err *err) MUST_USE;
void index_queue_release(struct index_queue *u);

int index_queue_push(struct index_queue *u, const void *unit, size_t len,
		     struct shoal_err *err) MUST_USE;

/* Whether unit @a comes before unit @b. */
typedef bool index_queue_before_fn(void *self, const struct index_unit_ref *a,
				   const struct index_unit_ref *b);

/*
 * For sorted units: the first ones are on top. Insert @nr of them, in order. False, and nothing
 * is changed, if there is no room in memory or other units lie between their places, as when a
 * directory is listed twice and has changed meanwhile.
 */
bool index_queue_insert(struct index_queue *u, const struct index_unit_ref *refs, size_t nr,
			index_queue_before_fn *before, void *self) MUST_USE;

/* The newest unit, in place: 1, 0 if there is none, or an error. */
int index_queue_top(struct index_queue *u, struct index_unit_ref *ret_ref,
		    struct shoal_err *err) MUST_USE;

/* Take the newest into @unit, with room for STORE_UNIT_MAX: 1, 0 if there is none, or an error. */
int index_queue_pop(struct index_queue *u, void *unit, size_t *ret_len,
		    struct shoal_err *err) MUST_USE;

/* The oldest in memory, if it has at most @room bytes: 1, or 0. */
int index_queue_pop_oldest(struct index_queue *u, void *unit, size_t room, size_t *ret_len);

/* Take up to @most of the oldest as a list into @buf. Returns the bytes used. */
size_t index_queue_export(struct index_queue *u, uint64_t most, uint8_t *buf, size_t room);

/* List all of them, oldest first, without removing them. */
int index_queue_each(const struct index_queue *u, index_unit_fn *take, void *self,
		     struct shoal_err *err) MUST_USE;

/* ---- Units sent to other ranks, until these have them in checkpoints of their own ---- */

struct index_handoff;

struct index_handoffs {
	struct index_handoff *first; /* the latest */
	size_t bytes;
};

/* For a list of up to @room bytes: NULL without memory, free() it if it is not kept. */
struct index_handoff *index_handoff_new(size_t room);
void index_handoffs_keep(struct index_handoffs *h, struct index_handoff *handoff, int to,
			 uint64_t nr, const uint8_t *list, size_t len);

/* Drop those to rank @to up to number @nr. */
void index_handoffs_ack(struct index_handoffs *h, int to, uint64_t nr);
int index_handoffs_each(const struct index_handoffs *h, index_unit_fn *take, void *self,
			struct shoal_err *err) MUST_USE;
void index_handoffs_release(struct index_handoffs *h);

#endif
