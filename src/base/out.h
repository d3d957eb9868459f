/*
 * out.h - write a file from front to back through one buffer. Errors stick, as in buf.h.
 *
 * Several of them may write different parts of one descriptor: each keeps its own position.
 */
#ifndef SHOAL_BASE_OUT_H
#define SHOAL_BASE_OUT_H

#include "base/err.h"

struct out {
	int fd;       /* lent */
	uint64_t pos; /* where the buffer's first byte goes */
	uint8_t *buf;
	size_t fill;
	size_t cap;
	int rc; /* 0, or the first error */
};

int out_init(struct out *o, int fd, uint64_t pos, size_t cap) MUST_USE;
void out_release(struct out *o);

void out_flush(struct out *o);

/* The position of the next byte. */
static inline uint64_t out_tell(const struct out *o)
{
	return o->pos + o->fill;
}

/* Room for @len (at most cap) bytes to be filled in place; the caller then adds to fill. */
static inline uint8_t *out_room(struct out *o, size_t len)
{
	if (UNLIKELY(o->cap - o->fill < len))
		out_flush(o);
	return o->buf + o->fill;
}

/* Read all of @len bytes at @off: -EIO if the file ends before that. */
int pread_all(int fd, void *buf, size_t len, uint64_t off) MUST_USE;
int pwrite_all(int fd, const void *buf, size_t len, uint64_t off) MUST_USE;

void out_write(struct out *o, const void *data, size_t len);

#endif
