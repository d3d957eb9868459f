/*
 * encode.h - turn a sorted sequence of names into segments.
 *
 * Names are collected in chunks. A chunk is cut where the directory changes. The names of each
 * directory are tried as a row of evenly rising numbers (GRID, which can extend over rows and
 * chunks), then as names of one length (FIXED), then as one number without leading zeros (DECIMAL).
 * Names that fit no shape, or are too few to pay for a segment of their own, go into front-coded
 * blocks (FRONT).
 */
#ifndef SHOAL_CATALOG_ENCODE_H
#define SHOAL_CATALOG_ENCODE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/name.h"
#include "catalog/grid.h"

#define ENC_NAMES       65536u     /* names per chunk, and per segment that lists values */
#define ENC_BYTES       (8u << 20) /* bytes of names per chunk */
#define ENC_FRONT_NAMES 256u       /* names per FRONT block */
#define ENC_PENDING     4          /* grids that may still grow */

/* The names of a chunk, contiguous: name i is bytes [off[i], off[i + 1]). */
struct enc_names {
	uint8_t *bytes;
	uint32_t *off;
	uint32_t nr;
};

static inline const uint8_t *enc_name(const struct enc_names *n, uint32_t i)
{
	return n->bytes + n->off[i];
}

static inline uint32_t enc_len(const struct enc_names *n, uint32_t i)
{
	return n->off[i + 1] - n->off[i];
}

/* A grid that may still grow. */
struct enc_grid {
	struct cat_grid grid;
	uint64_t nr;
	uint32_t at; /* index of its first name in the chunk; ENC_EARLIER if it began in an earlier
			chunk */
	uint32_t len;
	uint8_t name[SHOAL_NAME_MAX]; /* first name */
};

#define ENC_EARLIER UINT32_MAX

/* Receives the encoder's output, in order. Both functions return 0 or an error. */
struct enc_sink {
	int (*segment)(void *self, const struct buf *payload, uint64_t nr, const uint8_t *first,
		       size_t first_len);
	int (*dictionary)(void *self, const void *dict, size_t len);
	void *self;
};

struct enc_fixed;
struct enc_front;

struct cat_encoder {
	struct enc_names names;
	struct enc_sink sink;
	struct enc_grid *pending[ENC_PENDING]; /* oldest first */
	unsigned nr_pending;
	uint32_t pool_at, pool_end; /* names of the chunk that wait for a FRONT block */
	struct buf payload;
	uint64_t *values; /* X of the names of a segment */
	size_t values_cap;
	struct enc_fixed *fixed;
	struct enc_front *front;
	size_t last_len; /* of the last name of the previous chunks */
	uint8_t last[SHOAL_NAME_MAX];
};

int cat_encoder_init(struct cat_encoder *e, const struct enc_sink *sink) MUST_USE;
void cat_encoder_release(struct cat_encoder *e);

/* The last name added; 0 bytes before the first. Used to check the order. */
const uint8_t *cat_encoder_last(const struct cat_encoder *e, size_t *ret_len);

/* Add a name that sorts after all names so far. */
int cat_encoder_add(struct cat_encoder *e, const uint8_t *name, size_t len) MUST_USE;

/*
 * Add a whole grid of @nr names, from @first to @last, all of one length and after all names so
 * far.
 */
int cat_encoder_add_grid(struct cat_encoder *e, const struct cat_grid *g, uint64_t nr,
			 const uint8_t *first, const uint8_t *last, size_t len) MUST_USE;

/*
 * Write out everything that is pending, because segments encoded elsewhere follow. The last name of
 * those is @last.
 */
int cat_encoder_cut(struct cat_encoder *e, const uint8_t *last, size_t len) MUST_USE;

/* Write out everything that is pending. */
int cat_encoder_finish(struct cat_encoder *e) MUST_USE;

/* The same, and go on as a new encoder would. */
int cat_encoder_restart(struct cat_encoder *e) MUST_USE;

/* ---- Shapes, one file each: enc_<kind>.c ---- */

/*
 * How many names (at least 1) from @from on, before @end, rise evenly, and the grid that they form.
 * A single name is a grid without dimensions.
 */
uint32_t enc_grid_row(const struct enc_names *n, uint32_t from, uint32_t end,
		      struct enc_grid *ret_row);

/* Extend @into by @next, which comes right after it. False if the two do not form one grid. */
bool enc_grid_merge(struct enc_grid *into, const struct enc_grid *next);

/* Append the part of a payload that follows the first name. */
void enc_grid_write(const struct enc_grid *g, struct buf *payload);

/*
 * Append names [from, end) to @payload as values, after the first name. False, with the payload
 * unchanged, if they do not have that shape. @values has room for their numbers.
 */
bool enc_fixed_write(struct cat_encoder *e, uint32_t from, uint32_t end);
bool enc_decimal_write(struct cat_encoder *e, uint32_t from, uint32_t end);

/* Room for @words numbers; NULL without memory. */
uint64_t *enc_values(struct cat_encoder *e, size_t words);

struct enc_fixed *enc_fixed_new(void);
struct enc_fixed *enc_fixed_free(struct enc_fixed *fit);

struct enc_front *enc_front_new(void);
struct enc_front *enc_front_free(struct enc_front *f);

/* Forget the current dictionary and what led to it. */
void enc_front_restart(struct enc_front *f);

/* Write names [from, end) as FRONT segments. */
int enc_front_put(struct cat_encoder *e, uint32_t from, uint32_t end) MUST_USE;

/* Start a payload of @kind for @nr names. */
void enc_payload_start(struct buf *payload, int kind, uint64_t nr, const uint8_t *first,
		       size_t first_len);

#endif
