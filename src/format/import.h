/*
 * import.h - numbers from other programs' files, for columns: lines of CSV, and NumPy arrays.
 *
 * No function does I/O.
 */
#ifndef SHOAL_FORMAT_IMPORT_H
#define SHOAL_FORMAT_IMPORT_H

#include "base/err.h"

/* ---- A number of any type ---- */

enum import_kind { IMPORT_UNSIGNED, IMPORT_NEGATIVE, IMPORT_REAL };

struct import_number {
	enum import_kind kind;
	uint64_t whole; /* for IMPORT_NEGATIVE the absolute value, at least 1 */
	double real;
};

/* "17", "-3", "2.5e3", "nan"; also "true" and "false". -EINVAL for anything else. */
int import_number_parse(const char *text, size_t len, struct import_number *ret_number) MUST_USE;

/* Store it as a value of @type. -ERANGE if it does not fit exactly; real types take any number. */
int import_number_store(const struct import_number *number, enum shoal_column_type type,
			void *value) MUST_USE;

/* ---- CSV ---- */

struct import_field {
	char *text; /* unquoted, in place */
	size_t len;
};

/*
 * Split a line without its end into fields, of which up to @room are stored. Quotes are as in RFC
 * 4180. Returns how many fields there are. -EINVAL for a quote that does not end, or bytes after
 * one.
 */
int import_csv_split(char *line, size_t len, struct import_field *fields, int room) MUST_USE;

/* ---- NumPy ---- */

struct import_array {
	uint64_t nr;                 /* values */
	unsigned width;              /* bytes per value */
	char letter;                 /* b, u, i or f */
	uint64_t data_off;           /* of the first value */
	enum shoal_column_type type; /* the column type that holds all its values */
};

/*
 * How many bytes of the file import_npy_parse() needs, from its first 12; 0 if it is not an .npy
 * file.
 */
uint64_t import_npy_header_len(const uint8_t *bytes, size_t len);

/* Parse the header of an array of one dimension. -EBADMSG if its values cannot be imported. */
int import_npy_parse(const uint8_t *bytes, size_t len, struct import_array *ret_array,
		     struct shoal_err *err) MUST_USE;

/* The value at @bytes. */
struct import_number import_npy_number(const struct import_array *array, const uint8_t *bytes);

#endif
