/* npy.h - the header of a NumPy array in a file: the only parser of it. */
#ifndef SHOAL_FORMAT_NPY_H
#define SHOAL_FORMAT_NPY_H

#include "base/base.h"

#define FORMAT_NPY_DIMS 32 /* numpy's own limit */

struct format_npy {
	char order; /* byte order: '<', '>', '|' (one byte) or '=' */
	char kind;  /* 'b', 'u', 'i', 'f', ... */
	uint64_t item_len;
	bool fortran;
	uint64_t shape[FORMAT_NPY_DIMS];
	unsigned nr_dims;
};

/*
 * From the first 12 bytes of a file: where the header's text starts, and its length. False: this is
 * not a NumPy file of a known version.
 */
bool format_npy_begin(const uint8_t head[12], size_t *ret_first, size_t *ret_len) MUST_USE;

/*
 * Parse the header's text, which ends with a NUL. False: it is malformed, or its values are not
 * plain numbers.
 */
bool format_npy_parse(const char *text, struct format_npy *ret_array) MUST_USE;

#endif
