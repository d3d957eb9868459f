/* The checksums of formats. ISA-L computes them at the speed of memory. */
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include "format/format_private.h"

uint32_t format_crc32(uint32_t crc, const void *bytes, size_t len)
{
	return crc32_gzip_refl(crc, bytes, len);
}

/* ISA-L's function takes an int length, inverts neither before nor after, and is not const. */
uint32_t format_crc32c(uint32_t crc, const void *bytes, size_t len)
{
	union {
		const void *from;
		unsigned char *to;
	} p = { .from = bytes };

	crc = ~crc;
	while (len > 0) {
		int n = (int)u64_min(len, 1u << 30);

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
 * Four bytes enter a CRC by being added to its register, which is then advanced by 32 bits; that
 * step is invertible. So the CRC of a file can be chosen before the file is generated, and be
 * stored before it, as in a zip archive.
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
