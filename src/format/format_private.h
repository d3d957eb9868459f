/* format_private.h - shared by the formats: the table entry, pieces, checksums. */
#ifndef SHOAL_FORMAT_FORMAT_PRIVATE_H
#define SHOAL_FORMAT_FORMAT_PRIVATE_H

#include "base/le.h"
#include "format/format.h"

struct format {
	const char *name;
	uint64_t samples_max; /* per file; 0: any number */
	uint64_t record_max;  /* bytes per sample; 0: any */
	bool has_table;       /* made from format_spec.table */
	uint64_t (*least)(
		uint64_t nr_samples); /* the smallest size of a file with this many samples */
	void (*plan)(struct format_maker *m); /* may be NULL */
	/* Sets the next piece with the functions below. The file ends if it sets none. */
	void (*next)(struct format_maker *m);
	/* Receives the bytes of pieces that have sums. May be NULL. */
	void (*sum)(struct format_maker *m, const uint8_t *bytes, size_t len);
	struct format_side side[FORMAT_SIDES_MAX];
	void (*side_next[FORMAT_SIDES_MAX])(struct format_maker *m);
	int (*extents)(const struct format_spec *spec, format_extent_fn *found, void *self);
};

/* The formats of any size, that is, all but those of tables. */
#define FORMAT_SIZED 9
extern const struct format *const format_sized[FORMAT_SIZED];

extern const struct format format_csv, format_hdf5, format_indexed_binary, format_jpeg, format_npy,
	format_npz, format_png, format_tar, format_tfrecord, format_parquet, format_arrow;

/* Start a maker without checking the spec. */
void format_begin(struct format_maker *m, const struct format *f, unsigned part,
		  const struct format_spec *spec);

/* ---- Pieces ---- */

/* Make the next piece a literal of @len bytes, which the caller writes to the address returned. */
uint8_t *format_put(struct format_maker *m, size_t len, unsigned sums);

/* Make the next piece content: @len random bytes, or the output of @fill in cells of @cell_len. */
void format_put_random(struct format_maker *m, uint64_t len, unsigned sums);
void format_put_content(struct format_maker *m, uint64_t len, format_fill_fn *fill, size_t cell_len,
			unsigned sums);

/* The random bytes of a cell. */
void format_fill_random(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len);

/* Random bytes of stream @key: @len bytes, at most FORMAT_CELL. */
void format_random(uint64_t key, uint8_t *out, size_t len);

/* A hash of two numbers. */
uint64_t format_mix(uint64_t a, uint64_t b);

/* ---- Arithmetic ---- */

uint64_t format_isqrt(uint64_t v);

/* A rectangle, roughly square, of an area as close to @area as a few tries find, and not larger. */
void format_rectangle(uint64_t area, uint64_t *ret_width, uint64_t *ret_height);

/* ---- Checksums ---- */

uint32_t format_crc32(uint32_t crc, const void *bytes, size_t len);
uint32_t format_crc32c(uint32_t crc, const void *bytes, size_t len);
uint32_t format_adler32(uint32_t sum, const void *bytes, size_t len); /* start value: 1 */

/* Mask a CRC as TFRecord does, so that a CRC over data that contains CRCs stays meaningful. */
uint32_t format_masked(uint32_t crc32c);

/* The four bytes, little-endian, that change a CRC-32 from @crc to @target. */
uint32_t format_crc32_steer(uint32_t crc, uint32_t target);

/* ---- Bytes ---- */

static inline uint8_t *format_le16(uint8_t *p, uint64_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
	return p + 2;
}

static inline uint8_t *format_le32(uint8_t *p, uint64_t v)
{
	return format_le16(format_le16(p, v), v >> 16);
}

static inline uint8_t *format_le64(uint8_t *p, uint64_t v)
{
	return format_le32(format_le32(p, v), v >> 32);
}

static inline uint8_t *format_be16(uint8_t *p, uint64_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

static inline uint8_t *format_be32(uint8_t *p, uint64_t v)
{
	return format_be16(format_be16(p, v >> 16), v);
}

static inline uint8_t *format_text(uint8_t *p, const char *text)
{
	return (uint8_t *)mempcpy(p, text, strlen(text));
}

/* ---- Finding ---- */

/* Read @len bytes at @off; -EBADMSG if the file is too short. */
int format_read(const struct format_source *s, uint64_t off, void *buf, size_t len,
		struct shoal_err *err) MUST_USE;

/* Whether [off, off + len) is inside @size. */
static inline bool format_inside(uint64_t off, uint64_t len, uint64_t size)
{
	return off <= size && len <= size - off;
}

/*
 * Write an .npy header for unsigned bytes in Fortran order, of exactly @len bytes (at least
 * FORMAT_NPY_HEAD).
 */
#define FORMAT_NPY_HEAD 128
void format_npy_head(uint8_t *p, size_t len, const uint64_t *shape, unsigned nr_dims);

/*
 * Choose rows, columns and data bytes for samples in at most @room bytes, with at most @pad_max
 * bytes unused.
 */
void format_plan_array(struct format_maker *m, uint64_t room, uint64_t pad_max);

/* The extents of the samples of that array, which begins at @at. */
int format_array_extents(const struct format_maker *m, uint64_t at, format_extent_fn *found,
			 void *self) MUST_USE;

#endif
