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

#include <errno.h>

#include "base/base.h"
#include "shoal.h"

void shoal_say(struct shoal_err *err, const char *fmt, ...) SHOAL_PRINTF(2, 3);
void shoal_say_errno(struct shoal_err *err, int rc, const char *fmt, ...) SHOAL_PRINTF(3, 4);

/*
 * Write the words into @err (may be NULL) and return @rc. A macro, so that compilers and analysers
 * see that it is an error which is returned.
 */
#define shoal_fail(err, rc, ...)               \
	({                                     \
		int said_rc = (rc);            \
		shoal_say((err), __VA_ARGS__); \
		said_rc;                       \
	})

/* As shoal_fail(), with ": " and the system's words for -@rc appended. */
#define shoal_fail_errno(err, rc, ...)                        \
	({                                                    \
		int said_rc = (rc);                           \
		shoal_say_errno((err), said_rc, __VA_ARGS__); \
		said_rc;                                      \
	})

/* -errno, which is an error even where a library forgot to set it. */
static inline int shoal_errno(void)
{
	int e = errno;

	return e > 0 ? -e : -EIO;
}

/* Keep the first error while cleaning up: @rc if it is one, else @next. */
static inline int shoal_first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

#endif
