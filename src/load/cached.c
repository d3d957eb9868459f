#include "load/cached.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store/posix/posix.h"

/*
 * At most one of this many samples is checked: a check takes some 4 microseconds. More of the
 * first ones are, so that 100 checks estimate 1000 samples. Large samples have more weight:
 * there may be few of them, and a check costs little compared with reading one.
 */
#define EVERY       256u
#define MORE_BY     8u
#define LARGE_BYTES 65536u

#define PAGE 4096u

/* Bytes per call of mincore(). */
#define WINDOW (UINT64_C(4) << 20)

/* As in linux/mman.h since 6.5; older headers lack them. */
#define CACHESTAT_NUMBER 451
struct cached_range {
	uint64_t off, len;
};
struct cached_pages {
	uint64_t nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted;
};

void load_cached_init(struct load_cached *c, struct store *store, bool direct)
{
	const struct store_posix *files = store_posix_of(store);

	*c = (struct load_cached){ .files = files, .supported = files, .direct = direct };
}

void load_cached_clear(struct load_cached *c)
{
	c->nr_pages = c->nr_cached = 0;
	c->until_next = c->nr_looks = 0;
}

/* For files of other users mincore() reports every page as present. */
static bool may_ask(int fd, const struct stat *st)
{
	char path[40];

	if (st->st_uid == geteuid() || geteuid() == 0)
		return true;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

/* The number of cached pages in @len mapped bytes. */
static int64_t count_resident(void *map, uint64_t len)
{
	unsigned char there[WINDOW / PAGE];
	int64_t nr = 0;

	if (mincore(map, (size_t)len, there) < 0)
		return err_errno();
	for (uint64_t i = 0; i < (len + PAGE - 1) / PAGE; i++)
		nr += there[i] & 1;
	return nr;
}

int64_t load_resident_pages(int fd, uint64_t off, uint64_t len)
{
	int64_t nr = 0, n;
	struct stat st;
	uint64_t end;

	if (fstat(fd, &st) < 0)
		return err_errno();
	if (!may_ask(fd, &st))
		return -EPERM;
	end = (uint64_t)st.st_size;
	if (len > 0 && off < end && len < end - off)
		end = off + len;
	for (off -= off % PAGE; off < end; off += WINDOW) {
		uint64_t part = u64_min(WINDOW, end - off);
		void *map = mmap(NULL, (size_t)part, PROT_READ, MAP_SHARED, fd, (off_t)off);

		n = map == MAP_FAILED ? err_errno() : count_resident(map, part);
		if (map != MAP_FAILED)
			munmap(map, (size_t)part);
		if (n < 0)
			return n;
		nr += n;
	}
	return nr;
}

int64_t load_cached_pages(int fd, uint64_t off, uint64_t len)
{
	struct cached_range range = { .off = off, .len = len };
	struct cached_pages pages = { 0 };
	int rc = 0;

	if (syscall(CACHESTAT_NUMBER, fd, &range, &pages, 0) < 0)
		rc = err_errno();
	if (rc == 0)
		return (int64_t)pages.nr_cache;
	/* Containers forbid unknown system calls, and not every file system implements this one. */
	return rc == -ENOSYS || rc == -EPERM || rc == -EOPNOTSUPP
		       ? load_resident_pages(fd, off, len)
		       : rc;
}

void load_cached_look(struct load_cached *c, const char *name, uint64_t off, uint64_t len)
{
	struct open_how how;
	int64_t cached = 0;
	struct stat st;
	int fd;

	/* Later samples of a file may be there because the kernel read ahead. */
	if (!c->supported || off > 0)
		return;
	if (c->until_next > 0) {
		uint64_t counts = 1 + (len == SHOAL_SIZE_UNKNOWN ? 0 : len / LARGE_BYTES);

		c->until_next -= (uint32_t)u64_min(c->until_next, counts);
		return;
	}
	c->until_next = (uint32_t)u64_min(EVERY - 1, c->nr_looks++ / MORE_BY);
	if (c->direct) {
		c->nr_pages++;
		return;
	}
	how = store_posix_how(c->files, STORE_POSIX_READ);
	how.resolve |= RESOLVE_CACHED;
	fd = (int)syscall(SYS_openat2, c->files->root_fd, name, &how, sizeof(how));
	if (fd < 0 && errno != EAGAIN)
		return;                /* the read will report the reason */
	if (len == SHOAL_SIZE_UNKNOWN) /* the file is not even open, so it does not matter */
		len = fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : PAGE;
	if (fd >= 0 && len > 0)
		cached = load_cached_pages(fd, off, len);
	if (fd >= 0)
		close(fd);
	if (cached < 0) {
		c->supported = false; /* it fails for this file and most likely for the others */
		return;
	}
	c->nr_pages += (len + PAGE - 1) / PAGE;
	c->nr_cached += u64_min((uint64_t)cached, (len + PAGE - 1) / PAGE);
}
