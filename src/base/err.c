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
	switch (hint) {
	case SHOAL_HINT_LESS_MEMORY:
		return "less_memory";
	case SHOAL_HINT_MORE_MEMORY:
		return "more_memory";
	case SHOAL_HINT_TMP_DIR:
		return "tmp_dir";
	case SHOAL_HINT_FREE_SPACE:
		return "free_space";
	case SHOAL_HINT_SAME_CALL:
		return "same_call";
	case SHOAL_HINT_ROOT:
		return "root";
	case SHOAL_HINT_NAMES_ONLY:
		return "names_only";
	case SHOAL_HINT_NUL_ENDS:
		return "nul_ends";
	case SHOAL_HINT_SIZES:
		return "sizes";
	case SHOAL_HINT_ETAGS:
		return "etags";
	case SHOAL_HINT_WHERE:
		return "where";
	case SHOAL_HINT_KEEP_GOING:
		return "keep_going";
	case SHOAL_HINT_SAMPLES_PER_FILE:
		return "samples_per_file";
	case SHOAL_HINT_SORT_COLUMN:
		return "sort_column";
	case SHOAL_HINT_REPLACE:
		return "replace";
	case SHOAL_HINT_REPEATED:
		return "repeated";
	case SHOAL_HINT_SLOT:
		return "slot";
	case SHOAL_HINT_LARGER_SLOT:
		return "larger_slot";
	case SHOAL_HINT_IF_MATCH:
		return "if_match";
	case SHOAL_HINT_ENDPOINT:
		return "endpoint";
	case SHOAL_HINT_CA:
		return "ca";
	case SHOAL_HINT_ANONYMOUS:
		return "anonymous";
	case SHOAL_HINT_FORCE:
		return "force";
	case SHOAL_HINT_COMPLETE:
		return "complete";
	case SHOAL_HINT_GENERATE:
		return "generate";
	case SHOAL_HINT_SAME_RUN:
		return "same_run";
	case SHOAL_HINT_RESUME:
		return "resume";
	case SHOAL_HINT_LAUNCHER:
		return "launcher";
	case SHOAL_HINT_NONE:
		break;
	}
	return NULL;
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
