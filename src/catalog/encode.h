/*
 * encode.h - turn a sorted stream of names into segments.
 *
 * Names are gathered into chunks. A chunk is cut where the directory changes; each stretch is tried
 * as a row of evenly rising numbers (GRID, which grows over rows and chunks), then as names of one
 * length (FIXED), then as one number without leading zeros (DECIMAL), and what fits none of them,
 * or is too little to pay for a segment of its own, goes into front-coded blocks (FRONT).
 */
#ifndef SHOAL_CATALOG_ENCODE_H
#define SHOAL_CATALOG_ENCODE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/name.h"
#include "catalog/grid.h"

#define ENC_NAMES       65536u     /* names in a chunk, and in a segment that lists values */
#define ENC_BYTES       (8u << 20) /* bytes of names in a chunk */
#define ENC_FRONT_NAMES 256u       /* names in a FRONT block */
#define ENC_PENDING     4          /* grids that may still grow */

/* Names of a chunk, one after the other: name i is bytes [off[i], off[i + 1]). */
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
	uint32_t at; /* index of its first name in the chunk; ENC_EARLIER when it began before */
	uint32_t len;
	uint8_t name[SHOAL_NAME_MAX]; /* first name */
};

#define ENC_EARLIER UINT32_MAX

/* What the encoder makes goes here, in order. Both return 0 or an error. */
struct enc_sink {
	int (*segment)(void *self, const struct shoal_buf *payload, uint64_t nr,
		       const uint8_t *first, size_t first_len);
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
	struct shoal_buf payload;
	uint64_t *values; /* X of the names of a segment */
	size_t values_cap;
	struct enc_fixed *fixed;
	struct enc_front *front;
	size_t last_len; /* of the last name of the chunks before */
	uint8_t last[SHOAL_NAME_MAX];
};

int cat_encoder_init(struct cat_encoder *e, const struct enc_sink *sink) SHOAL_MUST_USE;
void cat_encoder_release(struct cat_encoder *e);

/* The last name added, of 0 bytes before the first. For checking the order. */
const uint8_t *cat_encoder_last(const struct cat_encoder *e, size_t *ret_len);

/* Add a name that comes after all before. */
int cat_encoder_add(struct cat_encoder *e, const uint8_t *name, size_t len) SHOAL_MUST_USE;

/* Add a whole grid of @nr names that come after all before, from @first to @last of one length. */
int cat_encoder_add_grid(struct cat_encoder *e, const struct cat_grid *g, uint64_t nr,
			 const uint8_t *first, const uint8_t *last, size_t len) SHOAL_MUST_USE;

/* Put out all that is left, because segments made elsewhere follow, the last name of which is
 * @last. */
int cat_encoder_cut(struct cat_encoder *e, const uint8_t *last, size_t len) SHOAL_MUST_USE;

/* Put out all that is left. */
int cat_encoder_finish(struct cat_encoder *e) SHOAL_MUST_USE;

/* ---- Shapes, one file each: enc_<kind>.c ---- */

/*
 * Names from @from on, before @end, that rise evenly: how many (at least 1), and as what grid. One
 * name alone is a grid without dimensions.
 */
uint32_t enc_grid_row(const struct enc_names *n, uint32_t from, uint32_t end,
		      struct enc_grid *ret_row);

/* Make @into go on with @next, which comes right after it. False when they are no grid together. */
bool enc_grid_merge(struct enc_grid *into, const struct enc_grid *next);

/* Append what follows the first name in a payload. */
void enc_grid_write(const struct enc_grid *g, struct shoal_buf *payload);

/*
 * Append to @payload names [from, end) as values, after the first name; false (with the payload as
 * it was) when they have not that shape. @values has room for their numbers.
 */
bool enc_fixed_write(struct cat_encoder *e, uint32_t from, uint32_t end);
bool enc_decimal_write(struct cat_encoder *e, uint32_t from, uint32_t end);

/* Room for @words numbers; NULL without memory. */
uint64_t *enc_values(struct cat_encoder *e, size_t words);

struct enc_fixed *enc_fixed_new(void);
struct enc_fixed *enc_fixed_free(struct enc_fixed *fit);

struct enc_front *enc_front_new(void);
struct enc_front *enc_front_free(struct enc_front *f);

/* Make no more use of the dictionaries so far: others come between. */
void enc_front_forget(struct enc_front *f);

/* Put out names [from, end) as FRONT segments. */
int enc_front_put(struct cat_encoder *e, uint32_t from, uint32_t end) SHOAL_MUST_USE;

/* Start a payload of @kind for @nr names. */
void enc_payload_start(struct shoal_buf *payload, int kind, uint64_t nr, const uint8_t *first,
		       size_t first_len);

#endif
