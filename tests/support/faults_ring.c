/* Faults of the calls by which the loader's engines open files and create rings: see faults.h. */
#include <errno.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <liburing.h>

#include "faults.h"

#define CACHESTAT 451 /* older headers lack it */

#define DECLARE(type, name, ...)         \
	type __wrap_##name(__VA_ARGS__); \
	type __real_##name(__VA_ARGS__)

DECLARE(int, eventfd, unsigned start, int flags);
DECLARE(int, io_uring_queue_init_params, unsigned entries, struct io_uring *ring,
	struct io_uring_params *p);
DECLARE(int, io_uring_register_buffers, struct io_uring *ring, const struct iovec *v, unsigned nr);
DECLARE(long, syscall, long nr, long a, long b, long c, long d, long e, long f);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __real_openat64(int dir, const char *path, int flags, ...);

void (*_Atomic fault_on_openat2)(void);

int __wrap_eventfd(unsigned start, int flags)
{
	return fault_fails(FAULT_EVENTFD) ? -1 : __real_eventfd(start, flags);
}

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
				      struct io_uring_params *p)
{
	return fault_fails(FAULT_RING) ? -errno
				       : __real_io_uring_queue_init_params(entries, ring, p);
}

int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *v, unsigned nr)
{
	return fault_fails(FAULT_REGISTER) ? -errno : __real_io_uring_register_buffers(ring, v, nr);
}

int __wrap_openat64(int dir, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	return fault_fails(FAULT_OPENAT) ? -1 : __real_openat64(dir, path, flags, mode);
}

long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	void (*on_openat2)(void) = fault_on_openat2;

	if (nr == SYS_openat2 && on_openat2)
		on_openat2();
	if ((nr == SYS_openat2 && fault_fails(FAULT_OPENAT2)) ||
	    (nr == CACHESTAT && fault_fails(FAULT_CACHESTAT)))
		return -1;
	return __real_syscall(nr, a, b, c, d, e, f);
}
