/*
 * err.h - how a function says what went wrong.
 *
 * A function that can fail returns 0 (or a count) or a negative errno. The words go into a struct
 * shoal_err that the caller owns; it is the last parameter, may be NULL and is untouched on
 * success. The words say what the callee knows and the caller does not; the command adds the
 * command's name and the file's.
 *
 * Fixed meanings: -EBADMSG damaged, -EPROTONOSUPPORT too new, -ESTALE changed underneath, -EAGAIN
 * full, -ERANGE index past the end, -ENOTSUP not supported here, -ECANCELED the user asked to stop.
 */
#ifndef SHOAL_BASE_ERR_H
#define SHOAL_BASE_ERR_H

#include "base/base.h"
#include "shoal.h"

/* Write the words into @err (may be NULL) and return @rc. */
int shoal_fail(struct shoal_err *err, int rc, const char *fmt, ...) SHOAL_PRINTF(3, 4);

/* As shoal_fail(), with ": " and the system's words for -@rc appended. */
int shoal_fail_errno(struct shoal_err *err, int rc, const char *fmt, ...) SHOAL_PRINTF(3, 4);

/* Keep the first error while cleaning up: @rc if it is one, else @next. */
static inline int shoal_first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

#endif
