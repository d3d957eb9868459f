/* bytes.h - a range of a file, read from front to back through a small buffer. */
#ifndef SHOAL_FORMAT_BYTES_H
#define SHOAL_FORMAT_BYTES_H

#include "format/format_private.h"

struct format_bytes {
	const struct format_source *file;
	struct shoal_err *err;
	uint64_t next, end; /* offsets in the file: of what follows the buffer, and of the end */
	size_t at, fill;
	int rc; /* the first error; after it all bytes are 0 */
	uint8_t buf[4096];
};

/* The bytes of @file from @off to @end, both inside it. */
static inline void format_bytes_init(struct format_bytes *b, const struct format_source *file,
				     uint64_t off, uint64_t end, struct shoal_err *err)
{
	b->file = file;
	b->err = err;
	b->next = off;
	b->end = end;
	b->at = b->fill = 0;
	b->rc = 0;
}

/* How many bytes are left. */
static inline uint64_t format_bytes_left(const struct format_bytes *b)
{
	return b->end - b->next + (b->fill - b->at);
}

/* The offset in the file of the next byte. */
static inline uint64_t format_bytes_off(const struct format_bytes *b)
{
	return b->next - (b->fill - b->at);
}

/* Read more into the buffer. -EBADMSG at the end. */
int format_bytes_fill(struct format_bytes *b);

static inline uint8_t format_byte(struct format_bytes *b)
{
	if (UNLIKELY(b->at == b->fill) && format_bytes_fill(b) < 0)
		return 0;
	return b->buf[b->at++];
}

void format_bytes_skip(struct format_bytes *b, uint64_t len);

#endif
