#include "base/out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int pwrite_all(int fd, const void *buf, size_t len, uint64_t off)
{
	const uint8_t *p = buf;

	while (len > 0) {
		ssize_t n = pwrite(fd, p, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno();
		if (n == 0) /* cannot happen for a file, but must not loop forever */
			return -EIO;
		p += n;
		len -= (size_t)n;
		off += (uint64_t)n;
	}
	return 0;
}

int pread_all(int fd, void *buf, size_t len, uint64_t off)
{
	uint8_t *p = buf;

	while (len > 0) {
		ssize_t n = pread(fd, p, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno();
		if (n == 0)
			return -EIO;
		p += n;
		len -= (size_t)n;
		off += (uint64_t)n;
	}
	return 0;
}

int out_init(struct out *o, int fd, uint64_t pos, size_t cap)
{
	*o = (struct out){ .fd = fd, .pos = pos, .cap = cap, .buf = malloc(cap) };
	return o->buf ? 0 : -ENOMEM;
}

void out_release(struct out *o)
{
	free(o->buf);
	*o = (struct out){ .fd = -1 };
}

void out_flush(struct out *o)
{
	if (o->rc == 0)
		o->rc = pwrite_all(o->fd, o->buf, o->fill, o->pos);
	o->pos += o->fill; /* even after an error, so that positions stay consistent */
	o->fill = 0;
}

void out_write(struct out *o, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len > 0) {
		size_t n = o->cap - o->fill;

		if (n > len)
			n = len;
		memcpy(o->buf + o->fill, p, n);
		o->fill += n;
		p += n;
		len -= n;
		if (o->fill == o->cap)
			out_flush(o);
	}
}
