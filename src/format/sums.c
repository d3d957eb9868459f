/* The checksums of formats. ISA-L computes them at the speed of memory. */
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include "format/inside.h"

uint32_t format_crc32(uint32_t crc, const void *bytes, size_t len)
{
	return crc32_gzip_refl(crc, bytes, len);
}

/* ISA-L's takes an int as length, and neither inverts before nor after; nor is it const. */
uint32_t format_crc32c(uint32_t crc, const void *bytes, size_t len)
{
	union {
		const void *from;
		unsigned char *to;
	} p = { .from = bytes };

	crc = ~crc;
	while (len > 0) {
		int n = (int)shoal_min(len, 1u << 30);

		crc = crc32_iscsi(p.to, n, crc);
		p.to += n;
		len -= (size_t)n;
	}
	return ~crc;
}

uint32_t format_adler32(uint32_t sum, const void *bytes, size_t len)
{
	return isal_adler32(sum, bytes, len);
}

uint32_t format_masked(uint32_t crc32c)
{
	return (crc32c >> 15 | crc32c << 17) + UINT32_C(0xa282ead8);
}

/*
 * Four bytes enter a CRC by being added to its register, which is then moved on by 32 bits; that
 * step can be taken back. So the CRC of a file may be chosen before the file is made, and stand
 * before it, as in a zip archive.
 */
uint32_t format_crc32_steer(uint32_t crc, uint32_t target)
{
	uint32_t reg = ~target;

	for (unsigned bit = 0; bit < 32; bit++) {
		uint32_t top = reg >> 31;

		if (top)
			reg ^= UINT32_C(0xedb88320);
		reg = reg << 1 | top;
	}
	return reg ^ ~crc;
}
