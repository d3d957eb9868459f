#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void shoal_say(struct shoal_err *err, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return;
	va_start(args, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
}

void shoal_say_errno(struct shoal_err *err, int rc, const char *fmt, ...)
{
	char words[128] = "";
	va_list args;
	size_t len;

	if (!err)
		return;
	va_start(args, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	len = strlen(err->msg);
	/* The GNU strerror_r may return a static string instead of filling the buffer. */
	snprintf(err->msg + len, sizeof(err->msg) - len, ": %s",
		 strerror_r(-rc, words, sizeof(words)));
}
