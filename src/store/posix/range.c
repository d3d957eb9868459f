#include "store/posix/range.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#define EXT4_INDEX_FL 0x1000 /* it has the hash index, without which positions are offsets */

/* The rest must be worth opening a directory: some 20,000 names. */
#define LEFT_MIN (512u << 10)

bool posix_dents_are_whole(const uint8_t *dents, size_t filled)
{
	const size_t head = offsetof(struct posix_dent, name);

	for (size_t at = 0; at < filled;) {
		const struct posix_dent *d = (const struct posix_dent *)(const void *)(dents + at);
		size_t len;

		if (filled - at <= head || d->reclen <= head || d->reclen > filled - at ||
		    d->reclen % 8 != 0)
			return false;
		len = strnlen(d->name, d->reclen - head);
		if (len == 0 || len == d->reclen - head || memchr(d->name, '/', len))
			return false;
		at += d->reclen;
	}
	return true;
}

bool posix_range_can_be_cut(int fd)
{
	struct statfs fs;
	unsigned flags = 0;

	return fstatfs(fd, &fs) == 0 && fs.f_type == EXT4_SUPER_MAGIC &&
	       ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags & EXT4_INDEX_FL);
}

size_t posix_range_take(struct posix_range *r, const uint8_t *dents, size_t filled)
{
	size_t at = 0;

	while (at < filled && (r->at < r->to || r->to == POSIX_RANGE_END)) {
		const struct posix_dent *d = (const struct posix_dent *)(const void *)(dents + at);

		r->at = (uint64_t)d->off;
		at += d->reclen;
	}
	r->nr_bytes += at;
	return at;
}

uint64_t posix_range_middle(const struct posix_range *r)
{
	double done = (double)(r->at - r->from), left;
	uint64_t middle;

	if (r->at <= r->from || r->at >= r->to)
		return 0;
	left = (double)(r->to - r->at);
	if ((double)r->nr_bytes * left < done * LEFT_MIN)
		return 0;
	/* Cut between hashes: names of one hash differ in the low half, and stay together. */
	middle = (r->at + (r->to - r->at) / 2) & ~(uint64_t)UINT32_MAX;
	return middle > r->at ? middle : 0;
}
