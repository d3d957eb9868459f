/* le.h - little-endian integers as they lie in a file: alignment 1, so any offset will do. */
#ifndef SHOAL_BASE_LE_H
#define SHOAL_BASE_LE_H

#include <endian.h>
#include <string.h>

#include "base/base.h"

struct shoal_le32 {
	uint8_t b[4];
};

struct shoal_le64 {
	uint8_t b[8];
};

static inline uint32_t shoal_le32_load(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint64_t shoal_le64_load(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static inline uint64_t shoal_be64_load(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static inline void shoal_le64_store(void *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint32_t shoal_le32_get(struct shoal_le32 x)
{
	return shoal_le32_load(x.b);
}

static inline uint64_t shoal_le64_get(struct shoal_le64 x)
{
	return shoal_le64_load(x.b);
}

static inline struct shoal_le32 shoal_le32_of(uint32_t v)
{
	struct shoal_le32 x;

	v = htole32(v);
	memcpy(x.b, &v, sizeof(v));
	return x;
}

static inline struct shoal_le64 shoal_le64_of(uint64_t v)
{
	struct shoal_le64 x;

	v = htole64(v);
	memcpy(x.b, &v, sizeof(v));
	return x;
}

#endif
