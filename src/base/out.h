/*
 * out.h - write a file from front to back through one buffer. Errors stick, as in buf.h.
 *
 * Several of them may write different parts of one descriptor: each keeps its own position.
 */
#ifndef SHOAL_BASE_OUT_H
#define SHOAL_BASE_OUT_H

#include "base/err.h"

struct shoal_out {
	int fd;       /* lent */
	uint64_t pos; /* where the buffer's first byte goes */
	uint8_t *buf;
	size_t fill;
	size_t cap;
	int rc; /* 0, or the first error */
};

int shoal_out_init(struct shoal_out *o, int fd, uint64_t pos, size_t cap) SHOAL_MUST_USE;
void shoal_out_release(struct shoal_out *o);

void shoal_out_flush(struct shoal_out *o);

/* Position that the next byte will get. */
static inline uint64_t shoal_out_tell(const struct shoal_out *o)
{
	return o->pos + o->fill;
}

/* Room for @len (at most cap) bytes to be filled in place; then add to fill. */
static inline uint8_t *shoal_out_room(struct shoal_out *o, size_t len)
{
	if (SHOAL_UNLIKELY(o->cap - o->fill < len))
		shoal_out_flush(o);
	return o->buf + o->fill;
}

/* All of @len bytes at @off, or an error: -EIO when the file ends before. */
int shoal_pread_all(int fd, void *buf, size_t len, uint64_t off) SHOAL_MUST_USE;
int shoal_pwrite_all(int fd, const void *buf, size_t len, uint64_t off) SHOAL_MUST_USE;

void shoal_out_write(struct shoal_out *o, const void *data, size_t len);

#endif
