/* hash.h - MD5 and SHA-256, for checksums that other tools have specified. Not for secrets. */
#ifndef SHOAL_BASE_HASH_H
#define SHOAL_BASE_HASH_H

#include "base/base.h"

struct hash {
	uint32_t state[8];
	uint8_t block[64];
	uint64_t len; /* bytes so far */
	bool sha256;  /* otherwise MD5 */
};

#define HASH_HEX_MAX 65

void hash_start(struct hash *h, bool sha256);
void hash_add(struct hash *h, const void *data, size_t len);
/* Ends it. 64 hexadecimal digits of SHA-256, 32 of MD5, and a NUL. */
void hash_hex(struct hash *h, char ret_hex[HASH_HEX_MAX]);

#endif
