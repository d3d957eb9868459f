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
static inline int fuzz_take(void *self, uint64_t index, uint64_t off, uint64_t len)
{
	struct fuzz_found *f = self;

	if (index != f->nr++ || off > f->size || len > f->size - off)
		abort();
	return f->nr > 1000 ? 1 : 0;
}

static inline int fuzz_take_extent(void *self, const struct samples_extent *e)
{
	struct fuzz_found *f = self;

	if (e->off < f->end)
		abort();
	f->end = e->off + e->len;
	return fuzz_take(f, f->nr, e->off, e->len);
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

/* The number of samples is the first byte of the input: tests @find with it and the rest. */
static inline int fuzz_find(const char *name, const uint8_t *data, size_t size)
{
	struct fuzz_file file = { data + 1, size - 1 };
	struct format_source source = { size - 1, fuzz_read, &file };
	struct fuzz_found found = { .size = size - 1 };
	struct shoal_err err = { "" };
	int rc;

	if (size == 0)
		return 0;
	fuzz_samples(name, data + 1, size - 1);
	rc = format_by_name(name)->find(&source, data[0], fuzz_take, &found, &err);
	if (rc == 0 && found.nr != data[0])
		abort();
	if (rc < 0 && (err.msg[0] == '\0' || (rc != -EBADMSG && rc != -ENOTSUP && rc != -ERANGE)))
		abort();
	return 0;
}

#endif
