/* lock.h - a file that one process holds, as long as it works in a folder. */
#ifndef SHOAL_BENCH_LOCK_H
#define SHOAL_BENCH_LOCK_H

#include "base/err.h"

/*
 * Take the lock at @path, whose folder is there: 0 and its descriptor, which may go on without a
 * lock where the file system has none. -EBUSY, without words, when another process has it.
 */
int bench_lock_take(const char *path, int *ret_lock, struct shoal_err *err) SHOAL_MUST_USE;

/* Remove it and let it go. -1 is fine. */
void bench_lock_drop(const char *path, int lock);

#endif
