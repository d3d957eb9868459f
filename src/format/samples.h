/*
 * samples.h - where the samples inside a file lie: one interface to all formats.
 *
 * A kind is a file format together with what counts as a sample in it:
 *
 *   parquet         a row group, all columns
 *   arrow           a record batch of an Arrow IPC file, with its metadata
 *   tar             a member's content; only regular files
 *   webdataset      the consecutive members of one stem, with their tar headers
 *   tfrecord        a record's payload
 *   npy, npz        an element of the array's first dimension (npz: the array x, or the only one);
 *                   of the last one of bytes in three dimensions in Fortran order, DLIO's
 *   hdf5            an element of the first dimension of the dataset "records", or of the only one
 *   csv             a line after the first; quoted fields may contain line ends
 *   jsonl           a line that is not empty
 *   indexed_binary  by two files beside it, which have the offsets and the sizes
 *   fixed           a fixed number of bytes
 *   whole           the file
 *   index           nothing: the file is an index of another one
 *
 * Nothing here does I/O or allocates; a file is read only through its struct format_source.
 */
#ifndef SHOAL_FORMAT_SAMPLES_H
#define SHOAL_FORMAT_SAMPLES_H

#include "format/format.h"

struct samples_extent {
	uint64_t off, len;
	uint64_t rows; /* in a row group or a record batch; otherwise 1 */
};

/* Receives the extents in order. Return 0 to continue; any other value ends the search and is
 * returned. */
typedef int samples_found_fn(void *self, const struct samples_extent *extent);

struct samples_kind;

/* NULL if the name is unknown. */
const struct samples_kind *samples_kind_by_name(const char *name);
const char *samples_kind_name(const struct samples_kind *kind);

/* Whether a sample of this kind can be a whole file. */
bool samples_kind_covers(const struct samples_kind *kind);

/* Whether its samples follow from other files, too. */
bool samples_kind_has_sides(const struct samples_kind *kind);

/* The kind of a file: @kind, but "index" for the index files of that kind. With NULL by the file's
 * extension: .parquet, .tar, ...; "whole" for all others. */
const struct samples_kind *samples_kind_of_file(const struct samples_kind *kind, const char *name,
						size_t len);

/*
 * Find all samples of a file. With @file->verify the contents of tfrecord and npz, which have
 * checksums, are read and compared with these, too.
 * Extents are in ascending order, do not overlap and are inside the
 * file. @record_len is the number of bytes per record of kind "fixed", and unused otherwise.
 *
 * -EBADMSG: damaged, contradictory, encrypted, or not of this kind. -ENOTSUP: the samples are not
 * contiguous, because they are compressed or interleaved, so that the file can only be read as a
 * whole. After an error, extents found before it are invalid.
 */
int samples_find(const struct samples_kind *kind, uint64_t record_len,
		 const struct format_source *file, samples_found_fn *found, void *self,
		 struct shoal_err *err) MUST_USE;

#endif
