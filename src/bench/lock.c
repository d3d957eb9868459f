#include "bench/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 100

/* Whether what was locked is still what others would lock: its holder may have removed it. */
static bool is_current(int fd, const char *path)
{
	struct stat mine, there;

	return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino &&
	       mine.st_dev == there.st_dev;
}

int bench_lock_take(const char *path, int *ret_lock, struct shoal_err *err)
{
	for (int i = 0; i < TRIES; i++) {
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);

		if (fd < 0)
			return shoal_fail_errno(err, shoal_errno(), "cannot open '%.500s'", path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
			close(fd);
			return -EBUSY;
		}
		if (is_current(fd, path)) {
			*ret_lock = fd;
			return 0;
		}
		close(fd);
	}
	return -EBUSY;
}

void bench_lock_drop(const char *path, int lock)
{
	if (lock < 0)
		return;
	(void)!unlink(path);
	close(lock);
}
