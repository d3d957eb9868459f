/*
 * span.h - read a stretch of bytes from front to back without ever leaving it.
 *
 * A read past the end sets `bad` and gives zero, so that a parser may read a whole record and ask
 * once at the end.
 */
#ifndef SHOAL_BASE_SPAN_H
#define SHOAL_BASE_SPAN_H

#include "base/base.h"

struct shoal_span {
	const uint8_t *p;
	const uint8_t *end;
	bool bad;
};

static inline size_t shoal_span_left(const struct shoal_span *s)
{
	return (size_t)(s->end - s->p);
}

static inline const uint8_t *shoal_span_bytes(struct shoal_span *s, uint64_t len)
{
	const uint8_t *at = s->p;

	if (SHOAL_UNLIKELY(len > shoal_span_left(s))) {
		s->bad = true;
		s->p = s->end;
		return s->end;
	}
	s->p += len;
	return at;
}

static inline uint8_t shoal_span_u8(struct shoal_span *s)
{
	if (SHOAL_UNLIKELY(s->p == s->end)) {
		s->bad = true;
		return 0;
	}
	return *s->p++;
}

static inline uint64_t shoal_span_varint(struct shoal_span *s)
{
	uint64_t v = 0;

	if (SHOAL_LIKELY(s->p != s->end && *s->p < 0x80)) /* most are of one byte */
		return *s->p++;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = shoal_span_u8(s);

		if (shift == 63 && b > 1)
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	s->bad = true;
	return 0;
}

static inline int64_t shoal_span_zigzag(struct shoal_span *s)
{
	uint64_t v = shoal_span_varint(s);

	return (int64_t)(v & 1 ? ~(v >> 1) : v >> 1);
}

/* The writing side: @p has room for 10 bytes. Returns one past the last byte. */
static inline uint8_t *shoal_varint_put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

static inline uint64_t shoal_zigzag(int64_t v)
{
	return v < 0 ? ~((uint64_t)v << 1) : (uint64_t)v << 1;
}

#endif
