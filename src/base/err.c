#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text.h"

void shoal_say(struct shoal_err *err, const char *fmt, ...)
{
	va_list args;
	int len;

	if (!err)
		return;
	va_start(args, fmt);
	len = vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	if (len >= (int)sizeof(err->msg))
		shoal_mark_cut(err->msg);
}

/* Of a limit the system's words do not say which, how much, and what to do. */
static void add_limit(struct shoal_err *err)
{
	struct rlimit limit;
	size_t len = strlen(err->msg);

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		snprintf(err->msg + len, sizeof(err->msg) - len,
			 ": this process may have %llu (ulimit -n): allow it more",
			 (unsigned long long)limit.rlim_cur);
}

void shoal_say_errno(struct shoal_err *err, int rc, const char *fmt, ...)
{
	char words[128] = "";
	va_list args;
	size_t len;
	int more;

	if (!err)
		return;
	va_start(args, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	len = strlen(err->msg);
	/* The GNU strerror_r may return a static string instead of filling the buffer. */
	more = snprintf(err->msg + len, sizeof(err->msg) - len, ": %s",
			strerror_r(-rc, words, sizeof(words)));
	if (len + (size_t)more >= sizeof(err->msg))
		shoal_mark_cut(err->msg);
	if (rc == -EMFILE)
		add_limit(err);
}
