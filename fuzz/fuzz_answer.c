/* Any lines as the head of a server's answer: what is kept of it fits where it is kept. */
#include <string.h>

#include "file.h"
#include "store/s3/client_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t cap)
{
	if (strnlen(text, cap) == cap)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct s3_request request = { 0 };
	struct s3_slot slot = { .request = &request };
	const uint8_t *end = data + size;

	if (s3_curl_load(NULL) < 0) /* it reads dates */
		abort();
	for (const uint8_t *line = data, *next; line < end; line = next) {
		size_t len;
		char *copy;

		next = memchr(line, '\n', (size_t)(end - line));
		next = next ? next + 1 : end;
		len = (size_t)(next - line);
		copy = malloc(len); /* exact, so that ASan sees a byte too many */
		if (!copy)
			abort();
		memcpy(copy, line, len);
		if (s3_try_header(copy, 1, len, &slot) != len)
			abort();
		free(copy);
	}
	check_text(request.etag, sizeof(request.etag));
	check_text(slot.region, sizeof(slot.region));
	check_text(slot.location, sizeof(slot.location));
	if (slot.retry_after > 3600)
		abort();
	return 0;
}
