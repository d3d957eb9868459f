/*
 * front - the size of a sorted list with front coding in blocks of 32: the usual way to store
 * sorted names, and the upper limit for the catalog. Each block starts with a full name (varint
 * length, bytes); the others omit what they share with the name before (varint shared length,
 * varint rest length, rest). Each block also costs 4 bytes of index, for random access.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/base.h"

#define BLOCK       32
#define INDEX_BYTES 4

static uint64_t varint_bytes(uint64_t v)
{
	uint64_t nr = 1;

	while (v >= 0x80) {
		v >>= 7;
		nr++;
	}
	return nr;
}

static size_t shared_len(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t i = 0;

	while (i < a_len && i < b_len && a[i] == b[i])
		i++;
	return i;
}

/* Returns the bytes of all names in @f, which end with @separator, and their number. */
static uint64_t code(FILE *f, int separator, uint64_t *ret_nr)
{
	char *line = NULL, *last = NULL;
	size_t cap = 0, last_cap = 0, last_len = 0;
	uint64_t nr = 0, bytes = 0;
	ssize_t got;

	while ((got = getdelim(&line, &cap, separator, f)) > 0) {
		size_t len = (size_t)got - (line[got - 1] == separator);
		char *spare = last;
		size_t shared = 0, spare_cap = last_cap;

		if (nr++ % BLOCK == 0) {
			bytes += INDEX_BYTES;
		} else {
			shared = shared_len(last, last_len, line, len);
			bytes += varint_bytes(shared);
		}
		bytes += varint_bytes(len - shared) + len - shared;
		last = line;
		last_cap = cap;
		last_len = len;
		line = spare;
		cap = spare_cap;
	}
	free(line);
	free(last);
	*ret_nr = nr;
	return bytes;
}

int main(int argc, char **argv)
{
	int separator = argc > 1 && strcmp(argv[1], "-0") == 0 ? 0 : '\n';
	const char *path = argv[separator ? 1 : 2];
	uint64_t nr = 0, bytes;
	FILE *f;

	if (argc != (separator ? 2 : 3)) {
		fputs("usage: front [-0] SORTED_LIST\n", stderr);
		return 2;
	}
	f = fopen(path, "r");
	if (!f) {
		fprintf(stderr, "front: '%s': %s\n", path, strerror(errno));
		return 1;
	}
	bytes = code(f, separator, &nr);
	if (ferror(f)) {
		fprintf(stderr, "front: '%s': %s\n", path, strerror(errno));
		return 1;
	}
	fclose(f);
	printf("front%d\t%" PRIu64 "\t%.4f\tB/name\n", BLOCK, nr,
	       nr ? (double)bytes / (double)nr : 0);
	return 0;
}
