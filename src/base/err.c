#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int shoal_fail(struct shoal_err *err, int rc, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return rc;
	va_start(args, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	return rc;
}

int shoal_fail_errno(struct shoal_err *err, int rc, const char *fmt, ...)
{
	char words[128] = "";
	va_list args;
	size_t len;

	if (!err)
		return rc;
	va_start(args, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	len = strlen(err->msg);
	/* The GNU strerror_r may return a static string instead of filling the buffer. */
	snprintf(err->msg + len, sizeof(err->msg) - len, ": %s",
		 strerror_r(-rc, words, sizeof(words)));
	return rc;
}
