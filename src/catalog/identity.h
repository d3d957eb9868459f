/*
 * identity.h - the checks that the headers of catalogs and columns have in common. Both are 256
 * bytes that begin alike and end in a checksum of what precedes it.
 */
#ifndef SHOAL_CATALOG_IDENTITY_H
#define SHOAL_CATALOG_IDENTITY_H

#include "base/err.h"
#include "base/le.h"

#define CAT_HEADER_BYTES 256u

/* How both begin. */
struct cat_identity {
	uint8_t magic[8];
	struct le32 version;
	struct le32 header_len;
	struct le32 incompat;
	struct le32 compat;
	struct le64 file_len;
};

struct cat_file_kind {
	const char *magic;
	const char *what;   /* for words: "catalog" */
	const char *format; /* and of its version: "format" */
	uint32_t version, known;
};

/* Whether @want is the checksum of the bytes. The fuzzers' files have no good checksums. */
bool cat_sum_matches(const void *buf, size_t len, uint64_t want);

/* Whether @head, of @len bytes, begins a file of this kind: -EBADMSG, -EPROTONOSUPPORT. */
int cat_check_identity(const struct cat_file_kind *kind, const void *head, size_t len,
		       struct shoal_err *err) MUST_USE;

/* As cat_check_identity(), for a whole file: its header must have its length, too. */
int cat_check_whole(const struct cat_file_kind *kind, const void *head, size_t len,
		    struct shoal_err *err) MUST_USE;

#endif
