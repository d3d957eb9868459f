/* hdf5_private.h - shared by the parts of the HDF5 finder: the file, and a dataset in it. */
#ifndef SHOAL_FORMAT_HDF5_PRIVATE_H
#define SHOAL_FORMAT_HDF5_PRIVATE_H

#include "format/samples_private.h"

#define HDF5_UNDEFINED UINT64_MAX /* the address of what was never written */

#define HDF5_LEVELS_MAX 8
#define HDF5_DIMS_MAX   32

struct hdf5_finder {
	struct samples_search *search;
	const struct format_source *file;
	struct shoal_err *err;
	uint64_t steps;
	uint64_t names, names_len; /* the heap */
	uint64_t records;          /* object header, or HDF5_UNDEFINED */
	uint64_t other;            /* object header of the last object with another name */
	unsigned nr_objects;       /* in the root */
};

/* How the chunks of a dataset are found. */
enum hdf5_index {
	HDF5_TREE = 0, /* a B-tree of version 1 */
	HDF5_SINGLE = 1,
	HDF5_IMPLICIT = 2, /* they follow one another */
	HDF5_FIXED_ARRAY = 3,
	HDF5_EXTENSIBLE_ARRAY = 4,
	HDF5_TREE_2 = 5, /* a B-tree of version 2 */
};

/* The contents of a dataset's messages. */
struct hdf5_dataset {
	uint64_t dims[HDF5_DIMS_MAX], most[HDF5_DIMS_MAX]; /* UINT64_MAX: unlimited */
	unsigned nr_dims;
	uint64_t item_len, at, len;
	uint64_t chunk[HDF5_DIMS_MAX]; /* its dimensions, if it is in chunks; @at is the index */
	unsigned nr_chunk_dims;
	enum hdf5_index index;
	bool has_space, has_type, has_layout, has_filters;
};

int hdf5_damaged(struct hdf5_finder *f, const char *what, uint64_t at) MUST_USE;

/* -ENOTSUP: the records are not contiguous. */
int hdf5_not_contiguous(struct hdf5_finder *f, const char *why) MUST_USE;

/* Read @len bytes at @at, which must begin with the four bytes of @magic. */
int hdf5_read_magic(struct hdf5_finder *f, uint64_t at, const char *magic, uint8_t *buf,
		    size_t len) MUST_USE;

/* Compare the @len bytes at @at with the checksum after them. -EBADMSG. */
int hdf5_check_sum(struct hdf5_finder *f, uint64_t at, uint64_t len) MUST_USE;

/* The message with the type of the elements. -ENOTSUP: the elements are not in the dataset. */
int hdf5_take_type(struct hdf5_finder *f, uint64_t at, size_t len, struct hdf5_dataset *d) MUST_USE;

/* The bytes of @nr elements of the first dimension; 0 if they exceed @most. */
uint64_t hdf5_elements_len(const struct hdf5_dataset *d, uint64_t nr, uint64_t most);

/* Report the elements of the first dimension of a dataset in chunks. */
int hdf5_find_in_chunks(struct hdf5_finder *f, const struct hdf5_dataset *d) MUST_USE;

#endif
