/*
 * units.h - the parts of a listing that nobody has begun yet.
 *
 * Last in, first out, so that a walk goes deep before it goes wide, or in the order of their names,
 * for who puts them in so; others are given the oldest, which are likely the largest. A few
 * megabytes stay in memory, the oldest beyond that go to a file: a directory may have millions of
 * subdirectories.
 */
#ifndef SHOAL_INDEX_UNITS_H
#define SHOAL_INDEX_UNITS_H

#include "base/err.h"

struct index_units {
	uint8_t *bytes;
	size_t cap, head, tail; /* what is in use */
	uint64_t nr;            /* units, also those in the file */
	const char *tmp_dir;    /* lent */
	int fd;                 /* -1 until something had to go there */
	/* Stretches of the file, oldest first. 16 bytes for each two megabytes. */
	struct index_units_block {
		uint64_t off, len;
	} * block;
	size_t nr_blocks, cap_blocks;
};

int index_units_init(struct index_units *u, size_t memory, const char *tmp_dir,
		     struct shoal_err *err) SHOAL_MUST_USE;
void index_units_release(struct index_units *u);

int index_units_push(struct index_units *u, const void *unit, size_t len,
		     struct shoal_err *err) SHOAL_MUST_USE;

/* A unit that lies somewhere else. */
struct index_unit_ref {
	const void *unit;
	size_t len;
};

/* Whether unit @a comes before unit @b. */
typedef bool index_units_before_fn(void *self, const struct index_unit_ref *a,
				   const struct index_unit_ref *b);

/*
 * For units in order: those that come first lie on top. Put in @nr of them, in order. False, and
 * nothing is changed: there is no room in memory, or others lie between their places, as where a
 * directory is listed twice and has changed meanwhile.
 */
bool index_units_insert(struct index_units *u, const struct index_unit_ref *refs, size_t nr,
			index_units_before_fn *before, void *self) SHOAL_MUST_USE;

/* The newest, where it lies: 1, 0 when there is none, or an error. */
int index_units_top(struct index_units *u, struct index_unit_ref *ret_ref,
		    struct shoal_err *err) SHOAL_MUST_USE;

/* The newest, into @unit with room for STORE_UNIT_MAX: 1, 0 when there is none, or an error. */
int index_units_pop(struct index_units *u, void *unit, size_t *ret_len,
		    struct shoal_err *err) SHOAL_MUST_USE;

/* The oldest in memory, if it has at most @room bytes: 1, or 0. */
int index_units_pop_oldest(struct index_units *u, void *unit, size_t room, size_t *ret_len);

/* All of them, oldest first, without taking them. */
int index_units_each(const struct index_units *u,
		     int (*take)(void *self, const void *unit, size_t len, struct shoal_err *err),
		     void *self, struct shoal_err *err) SHOAL_MUST_USE;

#endif
