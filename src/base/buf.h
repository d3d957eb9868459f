/*
 * buf.h - a byte buffer that grows up to a limit which its owner states.
 *
 * Errors stick: after an append failed, `rc` says why and further appends do nothing, so that a
 * writer may append a whole record and ask once.
 */
#ifndef SHOAL_BASE_BUF_H
#define SHOAL_BASE_BUF_H

#include "base/base.h"

struct shoal_buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	size_t max; /* never grows past this */
	int rc;     /* 0, -ENOMEM or -EAGAIN (past max) */
};

/* Make room for @more bytes after len. Returns where they go, or NULL with rc set. */
uint8_t *shoal_buf_reserve(struct shoal_buf *b, size_t more) SHOAL_MUST_USE;
void shoal_buf_append(struct shoal_buf *b, const void *data, size_t len);
void shoal_buf_u8(struct shoal_buf *b, uint8_t v);
void shoal_buf_varint(struct shoal_buf *b, uint64_t v);
void shoal_buf_release(struct shoal_buf *b);

static inline void shoal_buf_clear(struct shoal_buf *b)
{
	b->len = 0;
	b->rc = 0;
}

#endif
