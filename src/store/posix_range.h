/*
 * Part of a directory that is read by position, so that several can read one directory at once.
 *
 * ext4 keeps a large directory in the order of a hash of the names, and there a position is the
 * hash: whoever begins at any position gets all names whose hash is that or higher. So a directory
 * can be cut anywhere, and the parts miss no name. Nor have they one twice, unless all names of a
 * part were removed before it is read: what comes first then is behind its end, which cannot be
 * told, and whoever merges the parts drops it. Other file systems promise nothing of the kind for
 * positions that they have not given out.
 */
#ifndef SHOAL_STORE_POSIX_RANGE_H
#define SHOAL_STORE_POSIX_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As the kernel has it; glibc's struct dirent64 is the same. */
struct posix_dent {
	uint64_t ino;
	int64_t off; /* the position of what follows */
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/* Whether @filled bytes are entries: units come from files and from other ranks. */
bool posix_dents_are_whole(const uint8_t *dents, size_t filled);

#define POSIX_RANGE_END ((uint64_t)INT64_MAX)

struct posix_range {
	uint64_t from, to; /* to: of the first that is another's; POSIX_RANGE_END: all are ours */
	uint64_t at;       /* of the first that was not read */
	uint64_t nr_bytes; /* that were read */
};

/* Whether positions in the directory are hashes. */
bool posix_range_can_be_cut(int fd);

/* Of @filled bytes of entries that were read: those that are in the range. Fewer: it is at its end.
 */
size_t posix_range_take(struct posix_range *r, const uint8_t *dents, size_t filled);

/* Where to cut what is left in two, or 0 when it is not worth it. */
uint64_t posix_range_middle(const struct posix_range *r);

#endif
