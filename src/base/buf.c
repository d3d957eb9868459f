#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"

uint8_t *buf_reserve(struct buf *b, size_t more)
{
	size_t need, cap;
	uint8_t *data;

	if (b->rc < 0)
		return NULL;
	if (more > b->max - b->len) {
		b->rc = -EAGAIN;
		return NULL;
	}
	need = b->len + more;
	if (need <= b->cap)
		return b->data + b->len;
	cap = b->cap ? b->cap : 256;
	while (cap < need)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data) {
		b->rc = -ENOMEM;
		return NULL;
	}
	b->data = data;
	b->cap = cap;
	return b->data + b->len;
}

void buf_append(struct buf *b, const void *data, size_t len)
{
	uint8_t *at = buf_reserve(b, len);

	if (!at || len == 0) /* data may be NULL if len is 0 */
		return;
	memcpy(at, data, len);
	b->len += len;
}

void buf_u8(struct buf *b, uint8_t v)
{
	buf_append(b, &v, 1);
}

void buf_varint(struct buf *b, uint64_t v)
{
	uint8_t *at = buf_reserve(b, 10);

	if (at)
		b->len += (size_t)(varint_put(at, v) - at);
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ .max = b->max };
}
