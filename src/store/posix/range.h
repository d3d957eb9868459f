/*
 * Part of a directory that is read by position, so that several threads can read one directory.
 *
 * ext4 keeps a large directory in the order of a hash of the names, and a position is the hash:
 * reading from any position returns all names with that hash or a higher one. So a directory can
 * be split anywhere, and the parts miss no name. They have no name twice either, unless all names
 * of a part are removed before it is read: then the first entry is after the part's end, which
 * cannot be detected, and the merge drops the duplicate. Other file systems promise nothing about
 * positions that they have not returned.
 */
#ifndef SHOAL_STORE_POSIX_RANGE_H
#define SHOAL_STORE_POSIX_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As the kernel writes it; glibc's struct dirent64 is the same. */
struct posix_dent {
	uint64_t ino;
	int64_t off; /* the position of the next entry */
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/* Whether @filled bytes are valid entries: units come from files and from other ranks. */
bool posix_dents_are_whole(const uint8_t *dents, size_t filled);

#define POSIX_RANGE_END ((uint64_t)INT64_MAX)

struct posix_range {
	uint64_t from,
		to;  /* to: of the first entry of another part; POSIX_RANGE_END: there is none */
	uint64_t at; /* of the first entry that was not read */
	uint64_t nr_bytes; /* entries read */
};

/* Whether positions in the directory are hashes. */
bool posix_range_can_be_cut(int fd);

/* How many of @filled bytes of entries are in the range. Fewer: the range ends there. */
size_t posix_range_take(struct posix_range *r, const uint8_t *dents, size_t filled);

/* The position that splits the rest in two, or 0 if it is not worthwhile. */
uint64_t posix_range_middle(const struct posix_range *r);

#endif
