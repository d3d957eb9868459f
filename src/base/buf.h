/*
 * buf.h - a byte buffer that grows up to a limit set by its owner.
 *
 * Errors stick: after a failed append `rc` holds the error and further appends do nothing, so a
 * writer may append a whole record and check once.
 */
#ifndef SHOAL_BASE_BUF_H
#define SHOAL_BASE_BUF_H

#include <string.h>

#include "base/base.h"

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	size_t max; /* never grows past this */
	int rc;     /* 0, -ENOMEM or -EAGAIN (past max) */
};

/* Make room for @more bytes after len. Returns where they go, or NULL with rc set. */
uint8_t *buf_reserve(struct buf *b, size_t more) MUST_USE;
void buf_append(struct buf *b, const void *data, size_t len);
void buf_u8(struct buf *b, uint8_t v);
void buf_varint(struct buf *b, uint64_t v);
void buf_release(struct buf *b);

static inline void buf_text(struct buf *b, const char *text)
{
	buf_append(b, text, strlen(text));
}

static inline void buf_clear(struct buf *b)
{
	b->len = 0;
	b->rc = 0;
}

#endif
