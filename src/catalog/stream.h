/*
 * stream.h - a section of a catalog that grows at the same time as other sections.
 *
 * NAME goes straight into the catalog. The other sections stay in memory while they are small, in a
 * nameless temporary file otherwise, and are appended when the catalog is sealed. Page sums are
 * computed as the bytes pass.
 */
#ifndef SHOAL_CATALOG_STREAM_H
#define SHOAL_CATALOG_STREAM_H

#include "base/buf.h"
#include "base/err.h"

struct cat_stream {
	int fd; /* -1 until the buffer overflows */
	bool own_fd;
	uint64_t base; /* offset of its start in fd */
	uint64_t len;  /* bytes given so far */
	uint64_t flushed;
	uint8_t *buf; /* whole pages, so that a page is summed in one piece */
	size_t fill;
	const char *tmp_dir; /* lent */
	uint64_t window;     /* when reading back: offset of the buffer's content */
	size_t window_len;
	/*
	 * Eight bytes per 16 KiB: a two-thousandth of the catalog, 250 KB for 100 million names of
	 * 5 bytes. Kept in memory because they are written last.
	 */
	struct buf sums;
};

/* Write to a temporary file in @tmp_dir, or with @fd >= 0 to that file from @base on. */
int cat_stream_init(struct cat_stream *s, const char *tmp_dir, int fd, uint64_t base) MUST_USE;
void cat_stream_release(struct cat_stream *s);

int cat_stream_write(struct cat_stream *s, const void *data, size_t len,
		     struct shoal_err *err) MUST_USE;

/* Write the rest of the buffer and sum the last page. Nothing may be written after that. */
int cat_stream_finish(struct cat_stream *s, struct shoal_err *err) MUST_USE;

/* Forget what was written. Not for a stream into a file with a base. */
void cat_stream_reset(struct cat_stream *s);

/* Read @len bytes at @at of a finished stream that is in memory or in a temporary file. */
int cat_stream_read(struct cat_stream *s, uint64_t at, void *buf, size_t len,
		    struct shoal_err *err) MUST_USE;

/* Copy a finished stream to @fd at @off. */
int cat_stream_copy(const struct cat_stream *s, int fd, uint64_t off,
		    struct shoal_err *err) MUST_USE;

#endif
