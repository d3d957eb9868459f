#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps per process. The table has a fixed size so that the handler can read it without locks. */
#define MAPS_MAX 1024

struct map_guard {
	atomic_bool taken;
	_Atomic uintptr_t start; /* 0 while the slot is being filled or emptied */
	_Atomic uintptr_t end;
	atomic_bool faulted;
};

static struct map_guard guards[MAPS_MAX];
static struct sigaction previous; /* written once, before the handler can run */
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;
static uintptr_t page_size;

static struct map_guard *guard_of(uintptr_t addr)
{
	for (size_t i = 0; i < MAPS_MAX; i++) {
		uintptr_t start = atomic_load(&guards[i].start);

		if (start && addr >= start && addr < atomic_load(&guards[i].end))
			return &guards[i];
	}
	return NULL;
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
	if (previous.sa_flags & SA_SIGINFO) {
		previous.sa_sigaction(sig, info, context);
	} else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
		/*
		 * Returning repeats the faulting read, which then kills the process, as it would
		 * have anyway.
		 */
		signal(SIGBUS, SIG_DFL);
		if (info->si_code <= 0) /* sent by kill(): a fault would repeat, this does not */
			raise(SIGBUS);
	} else {
		previous.sa_handler(sig);
	}
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	struct map_guard *guard = info->si_code > 0 ? guard_of(addr) : NULL;
	int saved = errno;
	void *page;

	if (guard) {
		page = mmap((void *)(addr & ~(page_size - 1)), page_size, PROT_READ,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (page != MAP_FAILED) {
			atomic_store(&guard->faulted, true);
			errno = saved;
			return;
		}
	}
	pass_on(sig, info, context);
	errno = saved;
}

static void install_handler(void)
{
	struct sigaction act = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	sigemptyset(&act.sa_mask);
	sigaction(SIGBUS, NULL, &previous);
	sigaction(SIGBUS, &act, NULL);
}

void shoal_catch_sigbus(void)
{
	struct sigaction now;

	pthread_once(&handler_once, install_handler);
	sigaction(SIGBUS, NULL, &now);
	if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_sigbus)
		install_handler();
}

static struct map_guard *guard_take(const void *addr, size_t len)
{
	pthread_once(&handler_once, install_handler);
	for (size_t i = 0; i < MAPS_MAX; i++) {
		bool free_slot = false;

		if (!atomic_compare_exchange_strong(&guards[i].taken, &free_slot, true))
			continue;
		atomic_store(&guards[i].faulted, false);
		atomic_store(&guards[i].end, (uintptr_t)addr + len);
		atomic_store(&guards[i].start, (uintptr_t)addr);
		return &guards[i];
	}
	return NULL;
}

static void guard_give(struct map_guard *guard)
{
	if (!guard)
		return;
	atomic_store(&guard->start, 0);
	atomic_store(&guard->taken, false);
}

static int map_check_regular(int fd, struct stat *st, struct shoal_err *err)
{
	if (fstat(fd, st) < 0)
		return err_set_errno(err, err_errno(), "cannot stat it");
	if (!S_ISREG(st->st_mode))
		return err_set(err, -EINVAL, "%s, not a file",
			       S_ISDIR(st->st_mode) ? "it is a directory"
						    : "it is a device or pipe");
	return 0;
}

int map_open(const char *path, struct map *ret_map, struct shoal_err *err)
{
	/* O_NONBLOCK: a FIFO given by mistake must not hang the open. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_set_errno(err, err_errno(), "cannot open it");
	return map_open_fd(fd, ret_map, err);
}

int map_open_fd(int fd, struct map *ret_map, struct shoal_err *err)
{
	struct map map = { .fd = fd };
	struct stat st = { 0 };
	void *addr;
	int rc = map_check_regular(fd, &st, err);

	if (rc < 0) {
		close(fd);
		return rc;
	}
	map.len = (size_t)st.st_size;
	if (map.len == 0) {
		*ret_map = map;
		return 0;
	}
	addr = mmap(NULL, map.len, PROT_READ, MAP_SHARED, map.fd, 0);
	if (addr == MAP_FAILED) {
		rc = err_set_errno(err, err_errno(), "cannot map it");
		close(map.fd);
		return rc;
	}
	map.addr = addr;
	map.guard = guard_take(addr, map.len);
	if (!map.guard) {
		map_close(&map);
		return err_set(err, -EMFILE, "%d catalogs are already open: close some", MAPS_MAX);
	}
	*ret_map = map;
	return 0;
}

void map_close(struct map *map)
{
	guard_give(map->guard);
	if (map->addr)
		munmap((void *)(uintptr_t)map->addr, map->len);
	if (map->fd >= 0)
		close(map->fd);
	*map = MAP_CLOSED;
}

bool map_faulted(const struct map *map)
{
	return map->guard &&
	       UNLIKELY(atomic_load_explicit(&map->guard->faulted, memory_order_relaxed));
}

int map_check(const struct map *map, struct shoal_err *err)
{
	struct stat st;

	if (fstat(map->fd, &st) < 0)
		return err_set_errno(err, err_errno(), "cannot stat it");
	if ((uint64_t)st.st_size != map->len || map_faulted(map))
		return err_set(err, -ESTALE,
			       "the file changed from %zu to %lld bytes while it was in use",
			       map->len, (long long)st.st_size);
	return 0;
}
