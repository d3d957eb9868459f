/* Drop a dataset's files from the page cache. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "load/cached.h"
#include "store/posix/posix.h"

static void drop_file(const struct store_posix *files, const char *name,
		      struct shoal_drop_result *r)
{
	int fd = store_posix_open_file(files, name, 0);
	int64_t left = 0;

	if (fd < 0) {
		r->nr_missing++;
		return;
	}
	(void)!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (r->known)
		left = load_cached_pages(fd, 0, 0); /* length 0: up to its end */
	if (left < 0)
		r->known = false;
	else if (left > 0)
		r->nr_kept++;
	else
		r->nr_files++;
	close(fd);
}

static int drop_files(const struct shoal_catalog *cat, const struct store_posix *files,
		      uint64_t first, uint64_t end, const int *stop, struct shoal_drop_result *r,
		      struct shoal_err *err)
{
	struct shoal_cursor *cursor = NULL;
	const char *name;
	size_t len;
	int rc = shoal_cursor_new(cat, first, &cursor, err);

	for (; rc >= 0 && first < end; first++) {
		if (stop_requested(stop)) {
			rc = err_set(err, -ECANCELED, "interrupted");
			break;
		}
		rc = shoal_cursor_next(cursor, &name, &len);
		if (rc < 0)
			shoal_catalog_explain(cat, rc, err);
		else
			drop_file(files, name, r);
	}
	shoal_cursor_free(cursor);
	return rc < 0 ? rc : 0;
}

int shoal_drop_cache(const struct shoal_catalog *cat, const char *store,
		     const struct shoal_store_config *config, uint64_t share, uint64_t nr_shares,
		     const int *stop, struct shoal_drop_result *ret_result, struct shoal_err *err)
{
	struct shoal_drop_result r = { .known = true };
	const struct store_posix *files;
	struct shoal_catalog_info info;
	struct store *s = NULL;
	int rc;

	shoal_catalog_info(cat, &info);
	if (nr_shares == 0 || share >= nr_shares)
		return err_set(err, -EINVAL, "this part of the files does not exist");
	rc = store_open(store ? store : info.root, config, &s, err);
	if (rc < 0)
		return rc;
	files = store_posix_of(s);
	if (files)
		rc = drop_files(
			cat, files,
			(uint64_t)((unsigned __int128)info.nr_files * share / nr_shares),
			(uint64_t)((unsigned __int128)info.nr_files * (share + 1) / nr_shares),
			stop, &r, err);
	store_close(s);
	if (rc == 0)
		*ret_result = r;
	return rc;
}
