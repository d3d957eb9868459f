/*
 * inside_file.h - one file at a time for a pass over the insides of files: opened once, and read in
 * few calls, whatever the finder of samples asks for.
 */
#ifndef SHOAL_INDEX_INSIDE_FILE_H
#define SHOAL_INDEX_INSIDE_FILE_H

#include "format/format.h"
#include "store/store.h"

#define INSIDE_WINDOW (64u << 10)

/* A file being read, with the bytes that were read last. Each thread has one. */
struct inside_file {
	struct store *store;
	const char *name;
	uint64_t size;  /* when it was listed; SHOAL_SIZE_UNKNOWN: opening it finds that */
	int fd;         /* -1: read through the store */
	bool unchecked; /* its size has not been compared with @size yet */
	uint64_t at;
	size_t len;
	struct inside_file *sides; /* index files that it needs: a list */
	char *own_name;            /* of such a file */
	uint8_t window[INSIDE_WINDOW];
};

/* Open the file of @f's store, name and size. @ret_source, which needs @f, reads it. */
int inside_open(struct inside_file *f, struct format_source *ret_source,
		struct shoal_err *err) MUST_USE;

/* -ESTALE if the file has another size than when it was listed. No call if a read has shown that.
 */
int inside_check_size(struct inside_file *f, struct shoal_err *err) MUST_USE;

/* Also after inside_open() failed. */
void inside_close(struct inside_file *f);

#endif
