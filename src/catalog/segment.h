/*
 * segment.h - read one segment of names. Each kind has its own file, seg_<kind>.c.
 *
 * All functions are safe on any bytes: a malformed payload gives -EBADMSG.
 */
#ifndef SHOAL_CATALOG_SEGMENT_H
#define SHOAL_CATALOG_SEGMENT_H

#include <string.h>

#include "base/name.h"
#include "base/span.h"
#include "catalog/catalog_format.h"

struct cat_dicts;
struct cat_grid;

struct cat_segment {
	const struct cat_view *view;
	struct cat_dicts *dicts; /* for FRONT; may be NULL if no segment is compressed */
	uint64_t number;
	uint64_t first_id;
	uint64_t nr;
	uint64_t off; /* of the payload in NAME */
	uint64_t end;
	const uint8_t *payload; /* the bytes before its arrays */
	enum cat_kind kind;
	const uint8_t *first; /* first name */
	size_t first_len;
	struct span rest; /* what follows the first name */
};

/* Load segment @number. */
int cat_segment_load(const struct cat_view *v, struct cat_dicts *dicts, uint64_t number,
		     struct cat_segment *ret_seg) MUST_USE;

/* The number of the segment that holds @id, which is less than the number of files. */
int cat_segment_of_id(const struct cat_view *v, uint64_t id, uint64_t *ret_number) MUST_USE;

/*
 * The number of the last segment whose first name is not after @name; -ENOENT if @name sorts before
 * all names.
 */
int cat_segment_of_name(const struct cat_view *v, const uint8_t *name, size_t len,
			uint64_t *ret_number) MUST_USE;

/* Name @i of the segment into @buf (room for SHOAL_NAME_MAX + 1). Returns its length. */
int cat_segment_name(const struct cat_segment *seg, uint64_t i, uint8_t *buf) MUST_USE;

/* The index of @name in the segment; -ENOENT if it is not there. */
int cat_segment_find(const struct cat_segment *seg, const uint8_t *name, size_t len,
		     uint64_t *ret_i) MUST_USE;

static inline int cat_segment_bad(const struct cat_segment *seg, const char *what)
{
	return cat_damaged(seg->view, CAT_NAME, seg->off, what);
}

int cat_grid_find(const struct cat_segment *seg, const uint8_t *name, size_t len,
		  uint64_t *ret_i) MUST_USE;
int cat_fixed_find(const struct cat_segment *seg, const uint8_t *name, size_t len,
		   uint64_t *ret_i) MUST_USE;
int cat_decimal_find(const struct cat_segment *seg, const uint8_t *name, size_t len,
		     uint64_t *ret_i) MUST_USE;
/* For verify: whether the select samples that lookups use are right. */
int cat_fixed_check(const struct cat_segment *seg) MUST_USE;
int cat_decimal_check(const struct cat_segment *seg) MUST_USE;

int cat_front_name(const struct cat_segment *seg, uint64_t i, uint8_t *buf) MUST_USE;
int cat_front_find(const struct cat_segment *seg, const uint8_t *name, size_t len,
		   uint64_t *ret_i) MUST_USE;

/* Expand a FRONT segment into @raw (room for CAT_FRONT_RAW_MAX). Returns the number of bytes. */
int cat_front_expand(const struct cat_segment *seg, uint8_t *raw) MUST_USE;

/* The number of the dictionary that a segment needs; -1: none, or there is none. */
int64_t cat_front_dictionary(const struct cat_segment *seg);

/* Step to the next name in the raw bytes: @buf holds the previous name, of *@len bytes. */
int cat_front_step(struct span *raw, uint8_t *buf, size_t *len) MUST_USE;

/*
 * How many names from name @i on surely lie in the directory of name @i, at least 1. It is found
 * from the shape alone, so of names that are front-coded only one is.
 */
int cat_segment_siblings(const struct cat_segment *seg, uint64_t i, uint64_t *ret_nr) MUST_USE;
int cat_grid_siblings(const struct cat_segment *seg, uint64_t i, uint64_t *ret_nr) MUST_USE;
int cat_fixed_siblings(const struct cat_segment *seg, uint64_t i, uint64_t *ret_nr) MUST_USE;
int cat_decimal_siblings(const struct cat_segment *seg, uint64_t i, uint64_t *ret_nr) MUST_USE;

/* The largest grid of the segment's names that begins with name @i and ends at or before @end: all
 * names of a part of a segment are in at most 2 * CAT_GRID_DIMS - 1 of them. */
int cat_grid_cut(const struct cat_segment *seg, uint64_t i, uint64_t end, struct cat_grid *ret_grid,
		 uint64_t *ret_nr) MUST_USE;

/* The length of the first name's directory, with the slash. */
static inline size_t cat_segment_dir(const struct cat_segment *seg)
{
	const uint8_t *slash = memrchr(seg->first, '/', seg->first_len);

	return slash ? (size_t)(slash - seg->first) + 1 : 0;
}

/* ---- zstd dictionaries and contexts of an open catalog ---- */

/*
 * Where dictionary @k lies in DICT. -EBADMSG if it is too long, or overlaps the one before it:
 * otherwise a small catalog could make a reader hold any number of large dictionaries.
 */
int cat_dict_bounds(const struct cat_view *v, uint64_t k, uint64_t *ret_off,
		    uint64_t *ret_len) MUST_USE;

/*
 * Created on first use: dictionaries up to 32 MiB together, which are kept and shared, and one
 * context and one further dictionary per concurrent reader.
 */
struct cat_dicts *cat_dicts_new(const struct cat_view *v);
struct cat_dicts *cat_dicts_free(struct cat_dicts *d);

#endif
