/* le.h - little-endian integers as they lie in a file: alignment 1, so any offset will do. */
#ifndef SHOAL_BASE_LE_H
#define SHOAL_BASE_LE_H

#include <endian.h>
#include <string.h>

#include "base/base.h"

struct le32 {
	uint8_t b[4];
};

struct le64 {
	uint8_t b[8];
};

static inline uint32_t le32_load(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint64_t le64_load(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static inline uint64_t be64_load(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static inline void le64_store(void *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint32_t le32_get(struct le32 x)
{
	return le32_load(x.b);
}

static inline uint64_t le64_get(struct le64 x)
{
	return le64_load(x.b);
}

static inline struct le32 le32_of(uint32_t v)
{
	struct le32 x;

	v = htole32(v);
	memcpy(x.b, &v, sizeof(v));
	return x;
}

static inline struct le64 le64_of(uint64_t v)
{
	struct le64 x;

	v = htole64(v);
	memcpy(x.b, &v, sizeof(v));
	return x;
}

#endif
