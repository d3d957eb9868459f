/*
 * request.h - the head of an HTTP request, as bytes from a stranger: a pure function.
 *
 * Accepted are GET and HEAD of HTTP/1.0 and 1.1 without a body. Lines end with CR LF.
 */
#ifndef SHOAL_SERVE_REQUEST_H
#define SHOAL_SERVE_REQUEST_H

#include "base/base.h"

enum {
	SERVE_HEAD_MAX = 8192, /* bytes */
	SERVE_FIELDS_MAX = 64,
	SERVE_PATH_MAX = 63,
	SERVE_HOST_MAX = 255,
};

struct serve_request {
	bool head;                     /* HEAD: the answer has no body */
	char path[SERVE_PATH_MAX + 1]; /* without the query */
	char host[SERVE_HOST_MAX + 1]; /* "" if there is none */
};

/*
 * Returns the length of the head; 0 if @data ends within it; or what is wrong with it, as the
 * negative status of HTTP: -400, -405, -414, -431 or -505.
 */
int serve_parse(const char *data, size_t len, struct serve_request *ret_request) MUST_USE;

/*
 * Whether a client that reaches this machine's loopback address names it so. A page from elsewhere
 * whose name was made to lead here (DNS rebinding) does not.
 */
bool serve_host_is_local(const char *host);

#endif
