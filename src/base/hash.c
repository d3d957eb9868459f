#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#include "base/le.h"

static uint32_t turn_left(uint32_t v, unsigned by)
{
	return v << by | v >> (32 - by);
}

static uint32_t turn_right(uint32_t v, unsigned by)
{
	return turn_left(v, 32 - by);
}

/* ---- MD5 (RFC 1321) ---- */

static const uint32_t md5_sines[64] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613,
	0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193,
	0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d,
	0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
	0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122,
	0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
	0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244,
	0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
	0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb,
	0xeb86d391,
};
static const uint8_t md5_turns[4][4] = {
	{ 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 }
};

static void md5_block(uint32_t *state, const uint8_t *block)
{
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];

	for (unsigned i = 0; i < 64; i++) {
		unsigned round = i / 16;
		unsigned word = (round == 0   ? i
				 : round == 1 ? 5 * i + 1
				 : round == 2 ? 3 * i + 5
					      : 7 * i) %
				16;
		uint32_t f = round == 0   ? (b & c) | (~b & d)
			     : round == 1 ? (d & b) | (~d & c)
			     : round == 2 ? b ^ c ^ d
					  : c ^ (b | ~d);
		uint32_t sum = a + f + md5_sines[i] + le32_load(block + (size_t)word * 4);

		a = d;
		d = c;
		c = b;
		b += turn_left(sum, md5_turns[round][i % 4]);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

/* ---- SHA-256 (FIPS 180-4) ---- */

static const uint32_t sha_roots[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void sha256_block(uint32_t *state, const uint8_t *block)
{
	uint32_t w[64], s[8];

	for (unsigned i = 0; i < 16; i++)
		w[i] = be32(block + (size_t)i * 4);
	for (unsigned i = 16; i < 64; i++) {
		uint32_t x = w[i - 15], y = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] + (turn_right(x, 7) ^ turn_right(x, 18) ^ x >> 3) +
		       (turn_right(y, 17) ^ turn_right(y, 19) ^ y >> 10);
	}
	memcpy(s, state, sizeof(s));
	for (unsigned i = 0; i < 64; i++) {
		uint32_t e = s[4], a = s[0];
		uint32_t one = s[7] + (turn_right(e, 6) ^ turn_right(e, 11) ^ turn_right(e, 25)) +
			       ((e & s[5]) ^ (~e & s[6])) + sha_roots[i] + w[i];
		uint32_t two = (turn_right(a, 2) ^ turn_right(a, 13) ^ turn_right(a, 22)) +
			       ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));

		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += one;
		s[0] = one + two;
	}
	for (unsigned i = 0; i < 8; i++)
		state[i] += s[i];
}

/* ---- Both ---- */

static void hash_block(struct hash *h, const uint8_t *block)
{
	(h->sha256 ? sha256_block : md5_block)(h->state, block);
}

void hash_start(struct hash *h, bool sha256)
{
	static const uint32_t md5[8] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
	static const uint32_t sha[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	*h = (struct hash){ .sha256 = sha256 };
	memcpy(h->state, sha256 ? sha : md5, sizeof(h->state));
}

void hash_add(struct hash *h, const void *data, size_t len)
{
	const uint8_t *at = data;

	while (len > 0) {
		size_t held = h->len % 64, part = 64 - held < len ? 64 - held : len;

		memcpy(h->block + held, at, part);
		h->len += part;
		at += part;
		len -= part;
		if (held + part == 64)
			hash_block(h, h->block);
	}
}

void hash_hex(struct hash *h, char ret_hex[HASH_HEX_MAX])
{
	uint64_t bits = h->len * 8;
	uint8_t end[8];

	hash_add(h, "\x80", 1);
	while (h->len % 64 != 56)
		hash_add(h, "", 1);
	for (unsigned i = 0; i < 8; i++)
		end[i] = (uint8_t)(bits >> (h->sha256 ? 56 - 8 * i : 8 * i));
	hash_add(h, end, sizeof(end));
	for (unsigned i = 0; i < (h->sha256 ? 8u : 4u); i++) {
		uint32_t v = h->sha256 ? h->state[i] : __builtin_bswap32(h->state[i]);

		snprintf(ret_hex + (size_t)i * 8, 9, "%08x", v);
	}
}
