/*
 * format.h - the bytes of a sample file: make one of an exact size, and find the samples inside
 * one.
 *
 * A generated file is a function of its format, its size, its number of samples and its key, and of
 * nothing else: no clock, no rank, no order. It opens in the usual readers of the format (PIL,
 * numpy, h5py, TensorFlow), and its content is pseudo-random, so that storage can neither
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
struct format_table;

/*
 * NULL if the name is unknown. Names: jpeg, png, npz, npy, tfrecord, csv, hdf5, indexed_binary,
 * tar, and those of tables: parquet, arrow.
 */
const struct format *format_by_name(const char *name);
const char *format_name(const struct format *f);

/* Whether files of the format are made from a table. */
bool format_has_table(const struct format *f);

/* ---- Making ------------------------------------------------------------------------------ */

struct format_spec {
	uint64_t size;       /* of the whole file */
	uint64_t nr_samples; /* samples in the file, at least 1 */
	uint64_t key;        /* selects the content: different for every file */
	/* For Parquet and Arrow files, whose size follows from it: see table.h. Lent */
	const struct format_table *table;
};

/* -EINVAL, with a message, if a file of this size and number of samples cannot be made. */
int format_check(const struct format *f, uint64_t size, uint64_t nr_samples,
		 struct shoal_err *err) MUST_USE;

/*
 * Side files, which contain the places of the samples of a data file: for tfrecord the text file
 * that DALI reads, for indexed_binary the offsets and the sizes.
 */
#define FORMAT_SIDES_MAX 2

struct format_side {
	const char *suffix;   /* appended to the data file's name: ".off.idx" */
	bool in_index_folder; /* in index/train/, without subfolders; otherwise next to the data
				 file */
};

/* Side file number @side (from 0 on); NULL after the last. */
const struct format_side *format_side(const struct format *f, size_t side);

/*
 * Start the data file, or with @part from 1 on side file @part - 1. The maker is the caller's
 * memory, and needs no release.
 */
int format_make(struct format_maker *m, const struct format *f, unsigned part,
		const struct format_spec *spec, struct shoal_err *err) MUST_USE;

/*
 * The next @len bytes. Returns their number, smaller only at the end of the file. The sizes of the
 * calls do not change the bytes.
 */
size_t format_next(struct format_maker *m, void *buf, size_t len);

/*
 * The extents of the samples of a file of @spec, as `index` would find them, without making it.
 * -ENOTSUP: images, and indexed_binary, whose samples are equal parts of the file.
 */
typedef int format_extent_fn(void *self, uint64_t index, uint64_t off, uint64_t len, uint64_t rows);
int format_extents(const struct format *f, const struct format_spec *spec, format_extent_fn *found,
		   void *self) MUST_USE;
bool format_has_extents(const struct format *f);

/* ---- Finding: see samples.h -------------------------------------------------------------- */

/* A source of bytes. @read fills all of @buf; it is called only for ranges inside @size. */
struct format_source {
	uint64_t size;
	int (*read)(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err);
	void *self;
	bool verify; /* also verify the checksums of contents, which reads all of them */
	/* Opens the file whose name is this one's and @suffix; it is closed with this one. NULL if
	 * there are no other files. */
	int (*open_side)(void *self, const char *suffix, struct format_source *ret_side,
			 struct shoal_err *err);
};

/* ---- Inside a maker ---------------------------------------------------------------------- */

#define FORMAT_CELL        4096 /* bytes generated at a time */
#define FORMAT_LITERAL_MAX 2048

/* Generates the first @len bytes of cell @cell of a piece. */
typedef void format_fill_fn(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len);

/* The current piece: the bytes in literal[], or content that is generated cell by cell. */
struct format_piece {
	uint64_t len;
	format_fill_fn *fill; /* NULL: literal */
	size_t cell_len;
	uint64_t key;
	unsigned sums; /* which of the format's checksums include it, as bits */
};

/* The place in a file that is made from a table. */
struct format_table_plan {
	const struct format_table *of;
	uint64_t group, row, page_rows;
	size_t column;
	uint64_t off, start, footer;   /* bytes */
	uint64_t nr_started, nr_ended; /* groups */
	bool in_footer, in_child;
};

/* The layout that a format computes before the first byte. */
union format_plan {
	struct format_table_plan table;
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
		uint64_t columns, head; /* csv: bytes of its first line */
	} text;
};

struct format_maker {
	const struct format *format;
	struct format_spec spec;
	unsigned part;
	union format_plan plan;
	unsigned step;  /* the format's own state, and */
	uint64_t index; /* the index among similar pieces */
	uint32_t sum[2];
	struct format_piece piece;
	uint64_t piece_pos, nr_pieces;
	uint64_t cached; /* number of the cell in cell[], or UINT64_MAX */
	uint8_t literal[FORMAT_LITERAL_MAX];
	uint8_t cell[FORMAT_CELL];
};

#endif
