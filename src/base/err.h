/*
 * err.h - how a function reports an error.
 *
 * A function that can fail returns 0 (or a count) or a negative errno. The message goes into a
 * struct shoal_err that the caller owns; it is the last parameter, may be NULL and is untouched on
 * success. The message contains what the callee knows and the caller does not; the command adds its
 * own name and the file's. No message names an option or a keyword: what to do about an error is a
 * hint, for which the command (cli/hints.c) and the Python package (_errors.py) have the text.
 *
 * Fixed meanings: -EBADMSG damaged, -EPROTONOSUPPORT too new, -ESTALE changed underneath, -EAGAIN
 * full, -ERANGE index past the end, -ENOTSUP not supported here, -ECANCELED the user asked to stop.
 */
#ifndef SHOAL_BASE_ERR_H
#define SHOAL_BASE_ERR_H

#include <errno.h>

#include "base/base.h"
#include "shoal.h"

void err_describe(struct shoal_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
void err_describe_errno(struct shoal_err *err, int rc, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Say what to do about the failure that @err (may be NULL) has the words of. */
void err_hint(struct shoal_err *err, enum shoal_hint hint, uint64_t value);

/*
 * Write the message into @err (may be NULL) and return @rc. A macro, so that compilers and
 * analysers see that an error is returned.
 */
#define err_set(err, rc, ...)                     \
	({                                        \
		int said_rc = (rc);               \
		err_describe((err), __VA_ARGS__); \
		said_rc;                          \
	})

/* As err_set(), with ": " and the system's text for -@rc appended. */
#define err_set_errno(err, rc, ...)                              \
	({                                                       \
		int said_rc = (rc);                              \
		err_describe_errno((err), said_rc, __VA_ARGS__); \
		said_rc;                                         \
	})

/* As err_set(), with what to do about it: an enum shoal_hint. */
#define err_set_hint(err, rc, what, ...)          \
	({                                        \
		int said_rc = (rc);               \
		err_describe((err), __VA_ARGS__); \
		err_hint((err), (what), 0);       \
		said_rc;                          \
	})

/* As err_set(), for a message made from another error's, @why, whose hint is kept. */
#define err_set_as(err, rc, why, ...)                                  \
	({                                                             \
		const struct shoal_err *said_why = (why);              \
		int said_rc = (rc);                                    \
		err_describe((err), __VA_ARGS__);                      \
		err_hint((err), said_why->hint, said_why->hint_value); \
		said_rc;                                               \
	})

/* -errno, and an error even if a library forgot to set errno. */
static inline int err_errno(void)
{
	int e = errno;

	return e > 0 ? -e : -EIO;
}

/* Keep the first error while cleaning up: @rc if it is an error, otherwise @next. */
static inline int err_first(int rc, int next)
{
	return rc < 0 ? rc : next;
}

#endif
