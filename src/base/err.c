#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text.h"

void err_describe(struct shoal_err *err, const char *fmt, ...)
{
	va_list args;
	int len;

	if (!err)
		return;
	va_start(args, fmt);
	len = vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	if (len >= (int)sizeof(err->msg))
		text_mark_truncated(err->msg);
	err_hint(err, SHOAL_HINT_NONE, 0);
}

void err_hint(struct shoal_err *err, enum shoal_hint hint, uint64_t value)
{
	if (!err)
		return;
	err->hint = hint;
	err->hint_value = value;
}

const char *shoal_hint_name(enum shoal_hint hint)
{
	static const char *const names[] = {
		[SHOAL_HINT_LESS_MEMORY] = "less_memory",
		[SHOAL_HINT_MORE_MEMORY] = "more_memory",
		[SHOAL_HINT_TMP_DIR] = "tmp_dir",
		[SHOAL_HINT_FREE_SPACE] = "free_space",
		[SHOAL_HINT_SAME_CALL] = "same_call",
		[SHOAL_HINT_ROOT] = "root",
		[SHOAL_HINT_NAMES_ONLY] = "names_only",
		[SHOAL_HINT_NUL_ENDS] = "nul_ends",
		[SHOAL_HINT_SIZES] = "sizes",
		[SHOAL_HINT_ETAGS] = "etags",
		[SHOAL_HINT_WHERE] = "where",
		[SHOAL_HINT_KEEP_GOING] = "keep_going",
		[SHOAL_HINT_SAMPLES_PER_FILE] = "samples_per_file",
		[SHOAL_HINT_SORT_COLUMN] = "sort_column",
		[SHOAL_HINT_REPLACE] = "replace",
		[SHOAL_HINT_REPEATED] = "repeated",
		[SHOAL_HINT_SLOT] = "slot",
		[SHOAL_HINT_LARGER_SLOT] = "larger_slot",
		[SHOAL_HINT_IF_MATCH] = "if_match",
		[SHOAL_HINT_ENDPOINT] = "endpoint",
		[SHOAL_HINT_CA] = "ca",
		[SHOAL_HINT_ANONYMOUS] = "anonymous",
		[SHOAL_HINT_FORCE] = "force",
		[SHOAL_HINT_COMPLETE] = "complete",
		[SHOAL_HINT_GENERATE] = "generate",
		[SHOAL_HINT_SAME_RUN] = "same_run",
		[SHOAL_HINT_RESUME] = "resume",
		[SHOAL_HINT_LAUNCHER] = "launcher",
	};

	return (size_t)hint < ARRAY_LEN(names) ? names[hint] : NULL;
}

/* For an exceeded limit, strerror() does not name the limit, its value, or the remedy. */
static void add_limit(struct shoal_err *err)
{
	struct rlimit limit;
	size_t len = strlen(err->msg);

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		snprintf(err->msg + len, sizeof(err->msg) - len,
			 ": this process may have %llu (ulimit -n): allow it more",
			 (unsigned long long)limit.rlim_cur);
}

void err_describe_errno(struct shoal_err *err, int rc, const char *fmt, ...)
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
	err_hint(err, SHOAL_HINT_NONE, 0);
	len = strlen(err->msg);
	/* The GNU strerror_r may return a static string instead of filling the buffer. */
	more = snprintf(err->msg + len, sizeof(err->msg) - len, ": %s",
			strerror_r(-rc, words, sizeof(words)));
	if (len + (size_t)more >= sizeof(err->msg))
		text_mark_truncated(err->msg);
	if (rc == -EMFILE)
		add_limit(err);
}
