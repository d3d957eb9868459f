/*
 * failing_calls.c - loaded by LD_PRELOAD: the call number FAIL_N (from 1 on) of the function
 * FAIL_CALL fails with FAIL_ERRNO; with FAIL_ON all later ones fail, too. With FAIL_COUNT=FILE the
 * number of such calls goes there at the end, if it is more than the number there. With
 * FAIL_FROM=TEXT only calls count that come from a program or library whose path has this text:
 * others may not survive without memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t nr, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static atomic_long nr_calls;
static long fail_at;
static int fail_errno, fail_on;
static char fail_call[32], fail_from[64];

__attribute__((constructor)) static void failing_start(void)
{
	const char *call = getenv("FAIL_CALL"), *nr = getenv("FAIL_N"),
		   *code = getenv("FAIL_ERRNO"), *from = getenv("FAIL_FROM");

	fail_at = nr ? atol(nr) : 0;
	fail_on = getenv("FAIL_ON") != NULL;
	fail_errno = code ? atoi(code) : EIO;
	if (from)
		snprintf(fail_from, sizeof(fail_from), "%s", from);
	if (call)
		snprintf(fail_call, sizeof(fail_call), "%s", call); /* last: now calls count */
	atomic_store(&nr_calls, 0);
}

__attribute__((destructor)) static void failing_end(void)
{
	const char *path = getenv("FAIL_COUNT");
	long nr = atomic_load(&nr_calls), before = 0;
	FILE *f;

	fail_call[0] = '\0';
	f = path ? fopen(path, "a+") : NULL;
	if (!f)
		return;
	rewind(f);
	if (fscanf(f, "%ld", &before) != 1 ||
	    nr > before) { /* a process that it started ends, too */
		if (ftruncate(fileno(f), 0) == 0)
			fprintf(f, "%ld\n", nr);
	}
	fclose(f);
}

static int comes_from(const void *caller)
{
	Dl_info from;

	return dladdr(caller, &from) && from.dli_fname && strstr(from.dli_fname, fail_from);
}

static int fails_from(const char *call, const void *caller)
{
	long nr;

	if (strcmp(call, fail_call) != 0 || (fail_from[0] && !comes_from(caller)))
		return 0;
	nr = atomic_fetch_add(&nr_calls, 1) + 1;
	if (fail_at == 0 || nr < fail_at || (nr > fail_at && !fail_on))
		return 0;
	errno = fail_errno;
	return 1;
}

#define fails(call) fails_from(call, __builtin_return_address(0))

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

/* What asks for memory in the C library, on behalf of the caller. */

char *strdup(const char *text)
{
	return fails("strdup") ? NULL : NEXT(strdup)(text);
}

char *strndup(const char *text, size_t most)
{
	return fails("strdup") ? NULL : NEXT(strndup)(text, most);
}

int asprintf(char **ret_text, const char *format, ...)
{
	va_list args;
	int n;

	if (fails("asprintf"))
		return -1;
	va_start(args, format);
	n = vasprintf(ret_text, format, args);
	va_end(args);
	return n;
}

/* What programs call that are compiled with checks of sizes. */

int __asprintf_chk(char **ret_text, int flag, const char *format, ...)
{
	va_list args;
	int n;

	(void)flag;
	if (fails("asprintf"))
		return -1;
	va_start(args, format);
	n = vasprintf(ret_text, format, args);
	va_end(args);
	return n;
}

ssize_t __read_chk(int fd, void *buf, size_t len, size_t room)
{
	if (len > room)
		abort();
	return fails("read") ? -1 : NEXT(read)(fd, buf, len);
}

ssize_t __pread64_chk(int fd, void *buf, size_t len, off64_t off, size_t room)
{
	if (len > room)
		abort();
	return fails("pread") ? -1 : NEXT(pread64)(fd, buf, len, off);
}

ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags)
{
	if (len > room)
		abort();
	return fails("recv") ? -1 : NEXT(recv)(fd, buf, len, flags);
}

int __open64_2(const char *path, int flags)
{
	return fails("open") ? -1 : NEXT(open64)(path, flags);
}

int __openat64_2(int dir, const char *path, int flags)
{
	return fails("openat") ? -1 : NEXT(openat64)(dir, path, flags);
}

FILE *open_memstream(char **ret_text, size_t *ret_len)
{
	return fails("open_memstream") ? NULL : NEXT(open_memstream)(ret_text, ret_len);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
	return fails("posix_memalign") ? fail_errno
				       : NEXT(posix_memalign)(ret_memory, alignment, size);
}

/* The network. */

int socket(int domain, int type, int protocol)
{
	return fails("socket") ? -1 : NEXT(socket)(domain, type, protocol);
}

int connect(int fd, const struct sockaddr *to, socklen_t len)
{
	return fails("connect") ? -1 : NEXT(connect)(fd, to, len);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	return fails("send") ? -1 : NEXT(send)(fd, buf, len, flags);
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	return fails("recv") ? -1 : NEXT(recv)(fd, buf, len, flags);
}

/* io_uring: these return their error. */

int io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *p)
{
	return fails("io_uring_init") ? -fail_errno
				      : NEXT(io_uring_queue_init_params)(entries, ring, p);
}

int io_uring_submit(struct io_uring *ring)
{
	return fails("io_uring_submit") ? -fail_errno : NEXT(io_uring_submit)(ring);
}

int io_uring_register_buffers(struct io_uring *ring, const struct iovec *iovecs, unsigned nr)
{
	return fails("io_uring_register") ? -fail_errno
					  : NEXT(io_uring_register_buffers)(ring, iovecs, nr);
}

/* getdents64(2), openat2(2) and others that the C library has no function for. */
long syscall(long number, ...)
{
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	return fails("syscall") ? -1 : NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
