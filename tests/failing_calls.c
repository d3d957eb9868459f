/*
 * failing_calls.c - loaded by LD_PRELOAD: the call number FAIL_N (from 1 on) of the function
 * FAIL_CALL fails with FAIL_ERRNO; with FAIL_ON all later ones fail, too. With FAIL_COUNT=FILE the
 * number of such calls goes there at the end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t nr, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static atomic_long nr_calls;
static long fail_at;
static int fail_errno, fail_on;
static char fail_call[32];

__attribute__((constructor)) static void failing_start(void)
{
	const char *call = getenv("FAIL_CALL"), *nr = getenv("FAIL_N"),
		   *code = getenv("FAIL_ERRNO");

	fail_at = nr ? atol(nr) : 0;
	fail_on = getenv("FAIL_ON") != NULL;
	fail_errno = code ? atoi(code) : EIO;
	if (call)
		snprintf(fail_call, sizeof(fail_call), "%s", call); /* last: now calls count */
	atomic_store(&nr_calls, 0);
}

__attribute__((destructor)) static void failing_end(void)
{
	const char *path = getenv("FAIL_COUNT");
	long nr = atomic_load(&nr_calls);
	FILE *f;

	fail_call[0] = '\0';
	f = path ? fopen(path, "w") : NULL;
	if (!f)
		return;
	fprintf(f, "%ld\n", nr);
	fclose(f);
}

static int fails(const char *call)
{
	long nr;

	if (strcmp(call, fail_call) != 0)
		return 0;
	nr = atomic_fetch_add(&nr_calls, 1) + 1;
	if (fail_at == 0 || nr < fail_at || (nr > fail_at && !fail_on))
		return 0;
	errno = fail_errno;
	return 1;
}

void *malloc(size_t size)
{
	return fails("malloc") ? NULL : __libc_malloc(size);
}

void *calloc(size_t nr, size_t size)
{
	return fails("calloc") ? NULL : __libc_calloc(nr, size);
}

void *realloc(void *old, size_t size)
{
	return fails("realloc") ? NULL : __libc_realloc(old, size);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open64(const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return fails("open") ? -1 : NEXT(open64)(path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return fails("openat") ? -1 : NEXT(openat64)(dir, path, flags, mode);
}

ssize_t read(int fd, void *buf, size_t len)
{
	return fails("read") ? -1 : NEXT(read)(fd, buf, len);
}

ssize_t pread64(int fd, void *buf, size_t len, off64_t off)
{
	return fails("pread") ? -1 : NEXT(pread64)(fd, buf, len, off);
}

ssize_t pwrite64(int fd, const void *buf, size_t len, off64_t off)
{
	return fails("pwrite") ? -1 : NEXT(pwrite64)(fd, buf, len, off);
}

int fsync(int fd)
{
	return fails("fsync") ? -1 : NEXT(fsync)(fd);
}

int ftruncate64(int fd, off64_t len)
{
	return fails("ftruncate") ? -1 : NEXT(ftruncate64)(fd, len);
}

int fdatasync(int fd)
{
	return fails("fdatasync") ? -1 : NEXT(fdatasync)(fd);
}

ssize_t write(int fd, const void *buf, size_t len)
{
	return fails("write") ? -1 : NEXT(write)(fd, buf, len);
}

int fstat64(int fd, struct stat64 *ret_stat)
{
	return fails("fstat") ? -1 : NEXT(fstat64)(fd, ret_stat);
}

int fstatat64(int dir, const char *path, struct stat64 *ret_stat, int flags)
{
	return fails("fstatat") ? -1 : NEXT(fstatat64)(dir, path, ret_stat, flags);
}

int statx(int dir, const char *path, int flags, unsigned mask, struct statx *ret_stat)
{
	return fails("statx") ? -1 : NEXT(statx)(dir, path, flags, mask, ret_stat);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	return fails("mkdirat") ? -1 : NEXT(mkdirat)(dir, path, mode);
}

int unlink(const char *path)
{
	return fails("unlink") ? -1 : NEXT(unlink)(path);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return fails("renameat") ? -1 : NEXT(renameat)(from_dir, from, to_dir, to);
}

ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
	return fails("getrandom") ? -1 : NEXT(getrandom)(buf, len, flags);
}

/* Returns its error instead of setting errno. */
int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr, void *(*run)(void *),
		   void *arg)
{
	return fails("pthread_create") ? fail_errno
				       : NEXT(pthread_create)(ret_thread, attr, run, arg);
}

int rename(const char *from, const char *to)
{
	return fails("rename") ? -1 : NEXT(rename)(from, to);
}

void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t off)
{
	return fails("mmap") ? MAP_FAILED : NEXT(mmap64)(at, len, prot, flags, fd, off);
}
