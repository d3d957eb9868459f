/* writer_private.h - an open writer, for the files of this room that add to one. */
#ifndef SHOAL_CATALOG_WRITER_PRIVATE_H
#define SHOAL_CATALOG_WRITER_PRIVATE_H

#include "base/publish.h"
#include "catalog/column_writer.h"
#include "catalog/encode.h"
#include "catalog/extents_writer.h"
#include "catalog/stream.h"
#include "catalog/writer.h"

struct shoal_writer {
	struct publish pub;
	uint32_t nr_sections; /* in the file */
	char *listing;        /* the content of LIST; NULL if there is no LIST */
	char *tmp_dir;
	bool sizes;
	bool is_part;                    /* of a catalog, to which it will be appended */
	bool etags;                      /* the file has an ETGS section */
	bool extents;                    /* and sections of extents */
	const struct cat_layout *layout; /* of the next file; lent, NULL: none */
	uint64_t samples_per_file;
	uint64_t nr_samples;
	struct cat_digest digest;
	struct cat_encoder encoder;
	struct cat_stream stream[CAT_NR_SECTIONS];
	/* One note per segment: first id, offset, length of the first name, the name. */
	struct cat_stream notes;
	uint64_t nr_segments;
	uint64_t nr_put; /* names in segments so far; digest.nr_files counts the names added */
	uint8_t first[SHOAL_NAME_MAX],
		last[SHOAL_NAME_MAX]; /* first names of the first and the last segment */
	size_t first_len, last_len;
	struct cat_column_writer size_column, sample_column;
	struct cat_extents_writer extents_writer;
	/* The dictionary in force is this catalog's, and this one of it; NULL: another one, or
	 * none.
	 */
	const struct shoal_catalog *dict_of;
	uint64_t dict_number;
	struct shoal_err *err; /* of the current call, for the encoder's sink */
	int rc;                /* the first error that left something half added */
};

/* The next segment has @nr names and begins at @off of NAME with the name @first. */
int writer_note_segment(struct shoal_writer *w, uint64_t nr, uint64_t off, const uint8_t *first,
			size_t first_len) MUST_USE;

/* A dictionary of @len bytes at @off of DICT is used from segment @segment on. */
int writer_put_dictionary(struct shoal_writer *w, uint64_t segment, uint64_t off,
			  uint64_t len) MUST_USE;

/* After a failure in the middle of an addition, names, sizes and digest may disagree for good. */
int writer_check_usable(const struct shoal_writer *w, struct shoal_err *err) MUST_USE;

/* The encoder's own errors come without a message: add one. */
int writer_explain(int rc, struct shoal_err *err);

#endif
