#include "catalog/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/le.h"
#include "base/out.h"
#include "base/publish.h"
#include "catalog/catalog_format.h"

#define STREAM_BUF (16 * CAT_PAGE)

int cat_stream_init(struct cat_stream *s, const char *tmp_dir, int fd, uint64_t base)
{
	*s = (struct cat_stream){
		.fd = fd, .base = base, .tmp_dir = tmp_dir, .sums = { .max = SIZE_MAX }
	};
	s->buf = malloc(STREAM_BUF);
	return s->buf ? 0 : -ENOMEM;
}

void cat_stream_release(struct cat_stream *s)
{
	if (s->own_fd)
		close(s->fd);
	free(s->buf);
	buf_release(&s->sums);
	*s = (struct cat_stream){ .fd = -1 };
}

static int stream_sum_pages(struct cat_stream *s, struct shoal_err *err)
{
	for (size_t at = 0; at < s->fill; at += CAT_PAGE) {
		struct le64 sum =
			le64_of(XXH3_64bits(s->buf + at, u64_min(CAT_PAGE, s->fill - at)));

		buf_append(&s->sums, &sum, sizeof(sum));
	}
	return s->sums.rc < 0 ? err_set(err, s->sums.rc, "out of memory") : 0;
}

static int flush(struct cat_stream *s, struct shoal_err *err)
{
	int rc;

	if (s->fd < 0) {
		s->fd = spill_open(s->tmp_dir, err);
		if (s->fd < 0)
			return s->fd;
		s->own_fd = true;
	}
	rc = stream_sum_pages(s, err);
	if (rc < 0)
		return rc;
	rc = pwrite_all(s->fd, s->buf, s->fill, s->base + s->flushed);
	if (rc < 0)
		return err_set_errno(err, rc, "cannot write the catalog");
	s->flushed += s->fill;
	s->fill = 0;
	return 0;
}

int cat_stream_write(struct cat_stream *s, const void *data, size_t len, struct shoal_err *err)
{
	const uint8_t *p = data;

	s->len += len;
	while (len > 0) {
		size_t n = u64_min(len, STREAM_BUF - s->fill);

		memcpy(s->buf + s->fill, p, n);
		s->fill += n;
		p += n;
		len -= n;
		if (s->fill == STREAM_BUF) {
			int rc = flush(s, err);

			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

void cat_stream_reset(struct cat_stream *s)
{
	s->len = s->flushed = 0;
	s->fill = 0;
	buf_clear(&s->sums);
}

int cat_stream_finish(struct cat_stream *s, struct shoal_err *err)
{
	/* If the bytes never left the buffer, they are copied from there. */
	if (s->fd >= 0)
		return flush(s, err);
	return stream_sum_pages(s, err);
}

/* The buffer is a window on the file: notes are read from front to back. */
int cat_stream_read(struct cat_stream *s, uint64_t at, void *buf, size_t len, struct shoal_err *err)
{
	int rc;

	if (s->fd < 0) {
		memcpy(buf, s->buf + at, len);
		return 0;
	}
	if (at < s->window || at + len > s->window + s->window_len) {
		s->window = at;
		s->window_len = (size_t)u64_min(STREAM_BUF, s->len - at);
		rc = pread_all(s->fd, s->buf, s->window_len, s->base + at);
		if (rc < 0)
			return err_set_errno(err, rc, "cannot read a temporary file back");
	}
	memcpy(buf, s->buf + (at - s->window), len);
	return 0;
}

int cat_stream_copy(const struct cat_stream *s, int fd, uint64_t off, struct shoal_err *err)
{
	uint64_t done = 0;
	int rc = 0;

	if (s->fd < 0)
		rc = pwrite_all(fd, s->buf, s->fill, off);
	while (s->fd >= 0 && done < s->len && rc == 0) {
		size_t n = (size_t)u64_min(STREAM_BUF, s->len - done);

		rc = pread_all(s->fd, s->buf, n, s->base + done);
		if (rc == 0)
			rc = pwrite_all(fd, s->buf, n, off + done);
		done += n;
	}
	return rc < 0 ? err_set_errno(err, rc, "cannot write the catalog") : 0;
}
