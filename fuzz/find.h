/* find.h - what the fuzzers of formats share: any bytes as a file, and the check of what is found.
 */
#ifndef SHOAL_FUZZ_FIND_H
#define SHOAL_FUZZ_FIND_H

#include <stdlib.h>
#include <string.h>

#include "format/format_private.h"
#include "format/samples.h"

struct fuzz_file {
	const uint8_t *bytes;
	size_t len;
};

static inline int fuzz_read(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	const struct fuzz_file *f = self;

	(void)err;
	if (off > f->len || len > f->len - off) /* it must not even ask */
		abort();
	memcpy(buf, f->bytes + off, len);
	return 0;
}

struct fuzz_found {
	uint64_t nr, size, end;
};

/* In order, and inside the file. Millions that a header claims would take the fuzzer's time. */
static inline int fuzz_take_extent(void *self, const struct samples_extent *e)
{
	struct fuzz_found *f = self;

	if (e->off < f->end || e->off > f->size || e->len > f->size - e->off)
		abort();
	f->end = e->off + e->len;
	return ++f->nr > 1000 ? 1 : 0;
}

/* Any bytes as a file of @kind: refused with a message, or all samples inside it and in order. */
static inline int fuzz_samples(const char *kind, const uint8_t *data, size_t size)
{
	struct fuzz_file file = { data, size };
	struct format_source source = { size, fuzz_read, &file };
	struct fuzz_found found = { .size = size };
	struct shoal_err err = { "" };
	int rc = samples_find(samples_kind_by_name(kind), 3, &source, fuzz_take_extent, &found,
			      &err);

	if (rc < 0 && (err.msg[0] == '\0' || (rc != -EBADMSG && rc != -ENOTSUP)))
		abort();
	return 0;
}

#endif
