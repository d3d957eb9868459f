#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps a process may hold at once. A table of fixed size, for the handler to read without locks. */
#define MAPS_MAX 1024

struct shoal_map_guard {
	atomic_bool taken;
	_Atomic uintptr_t start; /* 0 while the slot is being filled or emptied */
	_Atomic uintptr_t end;
	atomic_bool faulted;
};

static struct shoal_map_guard guards[MAPS_MAX];
static struct sigaction previous; /* written once, before the handler can run */
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;
static uintptr_t page_size;

static struct shoal_map_guard *guard_of(uintptr_t addr)
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
		/* Returning repeats the faulting read, which then ends the process as it would. */
		signal(SIGBUS, SIG_DFL);
		if (info->si_code <= 0) /* sent by kill(), and not a fault that would come again */
			raise(SIGBUS);
	} else {
		previous.sa_handler(sig);
	}
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	struct shoal_map_guard *guard = info->si_code > 0 ? guard_of(addr) : NULL;
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

static struct shoal_map_guard *guard_take(const void *addr, size_t len)
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

static void guard_give(struct shoal_map_guard *guard)
{
	if (!guard)
		return;
	atomic_store(&guard->start, 0);
	atomic_store(&guard->taken, false);
}

static int check_regular(int fd, struct stat *st, struct shoal_err *err)
{
	if (fstat(fd, st) < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot stat it");
	if (!S_ISREG(st->st_mode))
		return shoal_fail(err, -EINVAL, "%s, not a file",
				  S_ISDIR(st->st_mode) ? "it is a directory"
						       : "it is a device or pipe");
	return 0;
}

int shoal_map_open(const char *path, struct shoal_map *ret_map, struct shoal_err *err)
{
	/* O_NONBLOCK: a FIFO given by mistake must not hang the open. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot open it");
	return shoal_map_open_fd(fd, ret_map, err);
}

int shoal_map_open_fd(int fd, struct shoal_map *ret_map, struct shoal_err *err)
{
	struct shoal_map map = { .fd = fd };
	struct stat st = { 0 };
	void *addr;
	int rc = check_regular(fd, &st, err);

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
		rc = shoal_fail_errno(err, shoal_errno(), "cannot map it");
		close(map.fd);
		return rc;
	}
	map.addr = addr;
	map.guard = guard_take(addr, map.len);
	if (!map.guard) {
		shoal_map_close(&map);
		return shoal_fail(err, -EMFILE, "%d catalogs are open already: close some",
				  MAPS_MAX);
	}
	*ret_map = map;
	return 0;
}

void shoal_map_close(struct shoal_map *map)
{
	guard_give(map->guard);
	if (map->addr)
		munmap((void *)(uintptr_t)map->addr, map->len);
	if (map->fd >= 0)
		close(map->fd);
	*map = SHOAL_MAP_CLOSED;
}

bool shoal_map_faulted(const struct shoal_map *map)
{
	return map->guard &&
	       SHOAL_UNLIKELY(atomic_load_explicit(&map->guard->faulted, memory_order_relaxed));
}

int shoal_map_check(const struct shoal_map *map, struct shoal_err *err)
{
	struct stat st;

	if (fstat(map->fd, &st) < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot stat it");
	if ((uint64_t)st.st_size != map->len || shoal_map_faulted(map))
		return shoal_fail(err, -ESTALE,
				  "the file changed from %zu to %lld bytes while it was in use",
				  map->len, (long long)st.st_size);
	return 0;
}
