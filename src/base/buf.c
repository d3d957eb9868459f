#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"

uint8_t *shoal_buf_reserve(struct shoal_buf *b, size_t more)
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

void shoal_buf_append(struct shoal_buf *b, const void *data, size_t len)
{
	uint8_t *at = shoal_buf_reserve(b, len);

	if (!at || len == 0) /* data may be NULL when there is none */
		return;
	memcpy(at, data, len);
	b->len += len;
}

void shoal_buf_u8(struct shoal_buf *b, uint8_t v)
{
	shoal_buf_append(b, &v, 1);
}

void shoal_buf_varint(struct shoal_buf *b, uint64_t v)
{
	uint8_t *at = shoal_buf_reserve(b, 10);

	if (at)
		b->len += (size_t)(shoal_varint_put(at, v) - at);
}

void shoal_buf_release(struct shoal_buf *b)
{
	free(b->data);
	*b = (struct shoal_buf){ .max = b->max };
}
