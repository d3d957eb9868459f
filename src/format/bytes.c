#include "format/bytes.h"

#include <inttypes.h>

int format_bytes_fill(struct format_bytes *b)
{
	size_t n = (size_t)u64_min(sizeof(b->buf), b->end - b->next);

	if (b->rc == 0 && n == 0)
		b->rc = err_set(b->err, -EBADMSG, "its metadata ends in the middle, at %" PRIu64,
				b->end);
	if (b->rc == 0)
		b->rc = format_read(b->file, b->next, b->buf, n, b->err);
	if (b->rc < 0)
		return b->rc;
	b->next += n;
	b->at = 0;
	b->fill = n;
	return 0;
}

void format_bytes_skip(struct format_bytes *b, uint64_t len)
{
	if (len > format_bytes_left(b)) {
		b->at = b->fill;
		b->next = b->end;
		(void)format_bytes_fill(b);
	} else if (len <= b->fill - b->at) {
		b->at += (size_t)len;
	} else {
		b->next += len - (b->fill - b->at);
		b->at = b->fill;
	}
}
