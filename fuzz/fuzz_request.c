/*
 * Any bytes as the head of a request: what is accepted is a GET or HEAD of a plain path, and the
 * bytes after the head do not matter.
 */
#include <stdlib.h>
#include <string.h>

#include "serve/address.h"
#include "serve/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct serve_request r, again;
	struct serve_address a;
	char text[64];
	int rc = serve_parse((const char *)data, size, &r);

	if (rc > 0) {
		if ((size_t)rc > size || rc > SERVE_HEAD_MAX || r.path[0] != '/' ||
		    strpbrk(r.path, "? \r\n") || strpbrk(r.host, "\r\n") ||
		    serve_parse((const char *)data, (size_t)rc, &again) != rc ||
		    strcmp(r.path, again.path) != 0 || strcmp(r.host, again.host) != 0 ||
		    serve_parse((const char *)data, (size_t)rc - 1, &again) > 0)
			abort();
		(void)serve_host_is_local(r.host);
	}
	if (size < sizeof(text)) {
		memcpy(text, data, size);
		text[size] = '\0';
		if (serve_address_parse(text, &a, NULL) == 0 &&
		    strncmp(serve_address_url(&a).text, "http://", 7) != 0)
			abort();
	}
	return 0;
}
