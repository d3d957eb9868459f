#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 100

/* Whether the locked file is still the one at @path: the previous holder may have removed it. */
static bool is_current(int fd, const char *path)
{
	struct stat mine, there;

	return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino &&
	       mine.st_dev == there.st_dev;
}

/* A file that another user left can still be locked: that needs no write permission. */
static int open_lock(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);

	if (fd >= 0 || errno != EACCES)
		return fd < 0 ? err_errno() : fd;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -EACCES : fd;
}

int file_lock_take(const char *path, int *ret_lock, struct shoal_err *err)
{
	for (int i = 0; i < TRIES; i++) {
		int fd = open_lock(path);

		if (fd < 0)
			return err_set_errno(err, fd, "cannot open '%.500s'", path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			int rc = err_errno();

			if (rc == -EWOULDBLOCK || rc == -EBADF)
				close(fd);
			if (rc == -EWOULDBLOCK)
				return -EBUSY;
			if (rc == -EBADF) /* on NFS a lock does need write permission */
				return err_set(
					err, -EACCES,
					"cannot lock '%.500s', which belongs to another user: remove it "
					"if nothing is writing there",
					path);
		}
		if (is_current(fd, path)) {
			*ret_lock = fd;
			return 0;
		}
		close(fd);
	}
	return -EBUSY;
}

void file_lock_drop(const char *path, int lock)
{
	if (lock < 0)
		return;
	(void)!unlink(path);
	close(lock);
}
