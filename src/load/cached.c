#include "load/cached.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store/posix.h"

/* One of how many samples: looking takes some 4 microseconds. */
#define EVERY 256u

#define PAGE 4096u

/* As linux/mman.h has them since 6.5; older headers do not. */
#define CACHESTAT_NUMBER 451
struct range {
	uint64_t off, len;
};
struct cached_pages {
	uint64_t nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted;
};

void load_cached_init(struct load_cached *c, struct shoal_store *store)
{
	const struct store_posix *files = store_posix_of(store);

	*c = (struct load_cached){ .root_fd = files ? files->root_fd : -1, .told = files };
}

void load_cached_clear(struct load_cached *c)
{
	c->nr_pages = c->nr_cached = 0;
	c->until_next = 0;
}

int64_t load_cached_pages(int fd, uint64_t off, uint64_t len)
{
	struct range range = { .off = off, .len = len };
	struct cached_pages pages = { 0 };

	return syscall(CACHESTAT_NUMBER, fd, &range, &pages, 0) < 0 ? shoal_errno()
								    : (int64_t)pages.nr_cache;
}

void load_cached_look(struct load_cached *c, const char *name, uint64_t off, uint64_t len)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
				.resolve = RESOLVE_CACHED };
	int64_t cached = 0;
	int fd;

	if (!c->told || c->until_next-- > 0)
		return;
	c->until_next = EVERY - 1;
	fd = (int)syscall(SYS_openat2, c->root_fd, name, &how, sizeof(how));
	if (fd < 0 && errno != EAGAIN)
		return; /* whoever reads it will say why */
	if (fd >= 0 && len > 0)
		cached = load_cached_pages(fd, off, len);
	if (fd >= 0)
		close(fd);
	if (cached < 0) {
		c->told = false; /* an old kernel */
		return;
	}
	c->nr_pages += (len + PAGE - 1) / PAGE;
	c->nr_cached += shoal_min((uint64_t)cached, (len + PAGE - 1) / PAGE);
}
