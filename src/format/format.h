/*
 * format.h - the bytes of a sample file: making one of exactly so many bytes, and finding the
 * samples inside one.
 *
 * A made file is a function of its format, its size, its number of samples and its key, and of
 * nothing else: no clock, no rank, no order. It opens in the readers that people use for the format
 * (PIL, numpy, h5py, TensorFlow), and what is in it is pseudo-random, so that storage can neither
 * deduplicate nor compress it. Text (csv) is the exception: it compresses to four fifths.
 *
 * Nothing here does I/O or allocates. A maker belongs to one thread at a time; formats are
 * constant.
 */
#ifndef SHOAL_FORMAT_FORMAT_H
#define SHOAL_FORMAT_FORMAT_H

#include "base/err.h"

struct format;
struct format_maker;

/* NULL when there is none of this name: jpeg, png, npz, npy, tfrecord, csv, hdf5, indexed_binary.
 */
const struct format *format_by_name(const char *name);
const char *format_name(const struct format *f);

/* The formats in turn, from 0 on; NULL after the last. */
const struct format *format_at(size_t index);

/* ---- Making ------------------------------------------------------------------------------ */

struct format_spec {
	uint64_t size;       /* of the file, all in all */
	uint64_t nr_samples; /* in it, at least 1 */
	uint64_t key;        /* of the content: another for every file */
};

/* The least size of a file with @nr_samples samples. */
uint64_t format_least(const struct format *f, uint64_t nr_samples);

/* -EINVAL, in words, when a file of this size and number of samples cannot be made. */
int format_check(const struct format *f, uint64_t size, uint64_t nr_samples,
		 struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Files that go with a data file, and tell where its samples are: of tfrecord the text that DALI
 * reads, of indexed_binary the offsets and the sizes.
 */
#define FORMAT_SIDES_MAX 2

struct format_side {
	const char *suffix;   /* of the data file's name: ".off.idx" */
	bool in_index_folder; /* in index/train/, without subfolders; else beside the data file */
};

/* NULL when there are no more than @side (from 0 on). */
const struct format_side *format_side(const struct format *f, size_t side);

/*
 * Start the file, or with @part 1 and up side file @part - 1. The maker is the caller's memory, and
 * needs no release.
 */
int format_make(struct format_maker *m, const struct format *f, unsigned part,
		const struct format_spec *spec, struct shoal_err *err) SHOAL_MUST_USE;

/* The next @len bytes. How many: fewer only where the file ends. Cuts do not change the bytes. */
size_t format_next(struct format_maker *m, void *buf, size_t len);

/* ---- Finding ----------------------------------------------------------------------------- */

/* Bytes that lie somewhere. @read fills all of @buf: it is only asked for what is inside @size. */
struct format_source {
	uint64_t size;
	int (*read)(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err);
	void *self;
};

/* Takes the place of sample @index, counted from 0. 0 to go on; else find ends and returns it. */
typedef int format_found_fn(void *self, uint64_t index, uint64_t off, uint64_t len);

/*
 * Find the @nr_samples samples of a file, in order; what is found lies inside the file. Of tfrecord
 * the records' payload, of npz and npy the array x, or the only one, of hdf5 the dataset "records",
 * or the only one, of csv the lines after the first; of jpeg and png the whole file.
 *
 * -EBADMSG: damaged, or not of this format. -ENOTSUP: not a stretch of bytes for each sample, such
 * as compressed or interleaved ones. -ERANGE: another number of samples than @nr_samples.
 */
int format_find(const struct format *f, const struct format_source *file, uint64_t nr_samples,
		format_found_fn *found, void *self, struct shoal_err *err) SHOAL_MUST_USE;

/* The same from the side files, @sides[] in their order, without a look at the file itself. */
int format_find_sides(const struct format *f, const struct format_source *sides, uint64_t file_size,
		      uint64_t nr_samples, format_found_fn *found, void *self,
		      struct shoal_err *err) SHOAL_MUST_USE;

/* ---- Inside a maker ---------------------------------------------------------------------- */

#define FORMAT_CELL        4096 /* bytes made at a time */
#define FORMAT_LITERAL_MAX 2048

/* Makes the first @len bytes of cell @cell of a piece. */
typedef void format_fill_fn(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len);

/* What comes next: bytes that stand in literal[], or a stretch of content made cell by cell. */
struct format_piece {
	uint64_t len;
	format_fill_fn *fill; /* NULL: literal */
	size_t cell_len;
	uint64_t key;
	unsigned sums; /* which of the format's checksums it is part of; 0: none */
};

/* What a format worked out before the first byte. */
union format_plan {
	struct {
		uint64_t width, height; /* in units of the format */
		uint64_t raw, pad;      /* bytes */
	} image;
	struct {
		uint64_t rows, columns; /* of a sample */
		uint64_t data, pad;     /* bytes */
		uint32_t label_crc;
		bool large;
	} array;
	struct {
		uint64_t columns, head; /* of csv: bytes of its first line */
	} text;
};

struct format_maker {
	const struct format *format;
	struct format_spec spec;
	unsigned part;
	union format_plan plan;
	unsigned step;  /* where the format is: its own count, and */
	uint64_t index; /* which of many alike */
	uint32_t sum[2];
	struct format_piece piece;
	uint64_t piece_pos, nr_pieces;
	uint64_t cached; /* cell of the piece that is in cell[], or UINT64_MAX */
	uint8_t literal[FORMAT_LITERAL_MAX];
	uint8_t cell[FORMAT_CELL];
};

#endif
