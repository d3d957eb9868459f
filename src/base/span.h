/*
 * span.h - read a range of bytes from front to back without ever leaving it.
 *
 * A read past the end sets `bad` and returns zero, so a parser may read a whole record and check
 * once at the end.
 */
#ifndef SHOAL_BASE_SPAN_H
#define SHOAL_BASE_SPAN_H

#include "base/base.h"

struct span {
	const uint8_t *p;
	const uint8_t *end;
	bool bad;
};

static inline size_t span_left(const struct span *s)
{
	return (size_t)(s->end - s->p);
}

static inline const uint8_t *span_bytes(struct span *s, uint64_t len)
{
	const uint8_t *at = s->p;

	if (UNLIKELY(len > span_left(s))) {
		s->bad = true;
		s->p = s->end;
		return s->end;
	}
	s->p += len;
	return at;
}

static inline uint8_t span_u8(struct span *s)
{
	if (UNLIKELY(s->p == s->end)) {
		s->bad = true;
		return 0;
	}
	return *s->p++;
}

static inline uint64_t span_varint(struct span *s)
{
	uint64_t v = 0;

	if (LIKELY(s->p != s->end && *s->p < 0x80)) /* most have one byte */
		return *s->p++;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = span_u8(s);

		if (shift == 63 && b > 1)
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	s->bad = true;
	return 0;
}

static inline int64_t span_zigzag(struct span *s)
{
	uint64_t v = span_varint(s);

	return (int64_t)(v & 1 ? ~(v >> 1) : v >> 1);
}

/* The encoder: @p has room for 10 bytes. Returns one past the last byte. */
static inline uint8_t *varint_put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

static inline uint64_t zigzag_encode(int64_t v)
{
	return v < 0 ? ~((uint64_t)v << 1) : (uint64_t)v << 1;
}

#endif
