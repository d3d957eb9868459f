/* lock.h - a lock file, held by one process while it works in a folder. */
#ifndef SHOAL_BASE_LOCK_H
#define SHOAL_BASE_LOCK_H

#include "base/err.h"

/*
 * Take the lock at @path, in an existing folder. Returns 0 and its descriptor; on a file system
 * without locks this succeeds without locking. -EBUSY, without a message, if another process holds
 * it.
 */
int file_lock_take(const char *path, int *ret_lock, struct shoal_err *err) MUST_USE;

/* Remove the file and release the lock. -1 is fine. */
void file_lock_drop(const char *path, int lock);

#endif
