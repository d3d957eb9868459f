#include "load/kept_files.h"

#include <stdlib.h>
#include <sys/resource.h>

/*
 * The most files that are kept open: usually more than the containers of a window, and few enough
 * to examine all of them for each read. If the limit of descriptors is low, the process needs the
 * rest.
 */
#define KEPT_MAX   64u
#define KEPT_SHARE 8u

/* A file that is kept: which one, and when it was last used. */
struct kept_file {
	uint64_t file; /* in the catalog; UINT64_MAX: none */
	uint64_t used;
};

int load_kept_init(struct shoal_loader *l)
{
	struct rlimit most;
	uint64_t nr = KEPT_MAX;

	if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur != RLIM_INFINITY)
		nr = u64_min(nr, most.rlim_cur / KEPT_SHARE);
	if (nr == 0)
		return 0;
	l->files = calloc(nr, sizeof(*l->files));
	l->kept = calloc(nr, sizeof(*l->kept));
	if (!l->files || !l->kept)
		return -ENOMEM;
	l->nr_files = (uint32_t)nr;
	load_kept_forget(l);
	return 0;
}

void load_kept_free(struct shoal_loader *l)
{
	free(l->kept);
	l->kept = NULL;
}

void load_kept_forget(struct shoal_loader *l)
{
	for (uint32_t i = 0; l->kept && i < l->nr_files; i++) {
		l->kept[i] = (struct kept_file){ .file = UINT64_MAX };
		load_file_init(&l->files[i], 1);
	}
}

/*
 * The place of the file or, if it has none, of the file that is not in use and was last used the
 * longest time ago. nr_files: there is none.
 */
static uint32_t kept_place(const struct shoal_loader *l, uint64_t file)
{
	uint32_t found = l->nr_files;

	for (uint32_t i = 0; i < l->nr_files; i++) {
		if (l->kept[i].file == file)
			return i;
		if (atomic_load(&l->files[i].left) == 1 &&
		    (found == l->nr_files || l->kept[i].used < l->kept[found].used))
			found = i;
	}
	return found;
}

void load_keep_file(struct shoal_loader *l, struct load_slot *s)
{
	struct load_request *r = &s->request;
	uint32_t i;

	/*
	 * An object has no descriptor, and a file that is read as a whole will not be needed again.
	 */
	if (!l->kept || !store_posix_of(l->store) || (r->off == 0 && !r->inside))
		return;
	i = kept_place(l, s->file);
	if (i == l->nr_files)
		return;
	if (l->kept[i].file != s->file) {
		load_file_release(&l->files[i]);
		l->kept[i].file = s->file;
	}
	l->kept[i].used = ++l->nr_kept_uses;
	atomic_fetch_add(&l->files[i].left, 1);
	r->file = &l->files[i];
}
