#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <liburing.h>

/* Older headers do not have it. */
#define CACHESTAT 451

#define ARMED_MAX 8

static struct fault *_Atomic armed[ARMED_MAX];

void fault_arm(struct fault *f, unsigned calls, int nth, int count, int error)
{
	fault_disarm(f);
	f->nth = nth;
	f->count = count;
	f->error = error;
	f->nr = 0;
	f->fired = 0;
	f->calls = calls;
	for (size_t i = 0; i < ARMED_MAX; i++) {
		struct fault *none = NULL;

		if (atomic_compare_exchange_strong(&armed[i], &none, f))
			return;
	}
	abort(); /* too many at once */
}

void fault_disarm(struct fault *f)
{
	f->calls = 0;
	for (size_t i = 0; i < ARMED_MAX; i++)
		if (armed[i] == f)
			armed[i] = NULL;
}

void fault_always(struct fault *f, unsigned calls, int error)
{
	if (error)
		fault_arm(f, calls, 1, FAULT_FROM_THEN_ON, error);
	else
		fault_disarm(f);
}

/* With errno set. Every fault that is armed for it counts it. */
struct fault *fault_hits(enum fault_call call)
{
	struct fault *failed = NULL;

	for (size_t i = 0; i < ARMED_MAX; i++) {
		struct fault *f = armed[i];
		int nr;

		if (!f || !(f->calls & call))
			continue;
		nr = atomic_fetch_add(&f->nr, 1) + 1;
		if (nr < f->nth || nr - f->nth >= f->count)
			continue;
		f->fired++;
		errno = f->error;
		failed = f;
	}
	return failed;
}

#define DECLARE(type, name, ...)         \
	type __wrap_##name(__VA_ARGS__); \
	type __real_##name(__VA_ARGS__)

DECLARE(void *, malloc, size_t size);
DECLARE(void *, calloc, size_t nr, size_t size);
DECLARE(void *, realloc, void *p, size_t size);
DECLARE(char *, strdup, const char *s);
DECLARE(char *, strndup, const char *s, size_t n);
DECLARE(ssize_t, pwrite64, int fd, const void *buf, size_t len, off_t off);
DECLARE(ssize_t, pread64, int fd, void *buf, size_t len, off_t off);
DECLARE(int, fsync, int fd);
DECLARE(int, rename, const char *from, const char *to);
DECLARE(int, flock, int fd, int operation);
DECLARE(int, ftruncate64, int fd, off_t len);
DECLARE(void *, mmap64, void *addr, size_t len, int prot, int flags, int fd, off_t off);
DECLARE(int, close, int fd);
DECLARE(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
	void *arg);
DECLARE(int, eventfd, unsigned start, int flags);
DECLARE(int, io_uring_queue_init_params, unsigned entries, struct io_uring *ring,
	struct io_uring_params *p);
DECLARE(int, io_uring_register_buffers, struct io_uring *ring, const struct iovec *v, unsigned nr);
DECLARE(long, syscall, long nr, long a, long b, long c, long d, long e, long f);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);

void *__wrap_malloc(size_t size)
{
	return fault_hits(FAULT_MALLOC) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t nr, size_t size)
{
	return fault_hits(FAULT_CALLOC) ? NULL : __real_calloc(nr, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fault_hits(FAULT_REALLOC) ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	return fault_hits(FAULT_STRDUP) ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fault_hits(FAULT_STRNDUP) ? NULL : __real_strndup(s, n);
}

ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t off)
{
	if (fault_hits(FAULT_PWRITE)) {
		if (errno)
			return -1;
		len = len > 1 ? len / 2 : len;
	}
	return __real_pwrite64(fd, buf, len, off);
}

ssize_t __wrap_pread64(int fd, void *buf, size_t len, off_t off)
{
	struct fault *f = fault_hits(FAULT_PREAD);

	if (f && f->limit && f->fired % 2 == 0) {
		len = len < (size_t)f->limit ? len : (size_t)f->limit;
	} else if (f) {
		if (f->error)
			return -1;
		len = len > 1 ? len / 2 : len;
	}
	return __real_pread64(fd, buf, len, off);
}

int __wrap_fsync(int fd)
{
	return fault_hits(FAULT_FSYNC) ? -1 : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
	return fault_hits(FAULT_RENAME) ? -1 : __real_rename(from, to);
}

int __wrap_flock(int fd, int operation)
{
	return fault_hits(FAULT_FLOCK) ? -1 : __real_flock(fd, operation);
}

int __wrap_ftruncate64(int fd, off_t len)
{
	return fault_hits(FAULT_FTRUNCATE) ? -1 : __real_ftruncate64(fd, len);
}

void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	if (fault_hits(FAULT_MMAP) || (fd < 0 && fault_hits(FAULT_MAP_MEMORY)))
		return MAP_FAILED;
	return __real_mmap64(addr, len, prot, flags, fd, off);
}

int __wrap_open64(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	return fault_hits(FAULT_OPEN) ? -1 : __real_open64(path, flags, mode);
}

/* The file is closed even so, as by the kernel. */
int __wrap_close(int fd)
{
	int rc = __real_close(fd);

	return fault_hits(FAULT_CLOSE) ? -1 : rc;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return fault_hits(FAULT_THREAD) ? errno : __real_pthread_create(thread, attr, run, arg);
}

int __wrap_eventfd(unsigned start, int flags)
{
	return fault_hits(FAULT_EVENTFD) ? -1 : __real_eventfd(start, flags);
}

int __wrap_openat64(int dir, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	return fault_hits(FAULT_OPENAT) ? -1 : __real_openat64(dir, path, flags, mode);
}

void (*_Atomic fault_sees_openat2)(void);

long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	void (*sees)(void) = fault_sees_openat2;

	if (nr == SYS_openat2 && sees)
		sees();
	if ((nr == SYS_openat2 && fault_hits(FAULT_OPENAT2)) ||
	    (nr == CACHESTAT && fault_hits(FAULT_CACHESTAT)))
		return -1;
	return __real_syscall(nr, a, b, c, d, e, f);
}

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
				      struct io_uring_params *p)
{
	return fault_hits(FAULT_RING) ? -errno
				      : __real_io_uring_queue_init_params(entries, ring, p);
}

int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *v, unsigned nr)
{
	return fault_hits(FAULT_REGISTER) ? -errno : __real_io_uring_register_buffers(ring, v, nr);
}
