#include "index/inside_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/out.h"
#include "store/posix/posix.h"

/*
 * A small file is read as a whole with the first read, and a byte more, which tells whether it has
 * its size: open, pread and close, and nothing else. With fstat and three reads instead, for the
 * end of a Parquet file, its footer and its beginning, a file took twice the time.
 */
#define SMALL (16u << 10)
#define TAIL  (16u << 10) /* bytes read at once at the end of a file, where footers are */
#define STEP  4096u       /* and where most of a file is skipped */

static int size_changed(const struct inside_file *f, uint64_t size, struct shoal_err *err)
{
	return err_set(err, -ESTALE,
		       "it has %" PRIu64 " bytes, but had %" PRIu64 " when it was listed", size,
		       f->size);
}

static int inside_find_size(struct inside_file *f, struct shoal_err *err)
{
	struct stat st;

	if (fstat(f->fd, &st) < 0)
		return err_set_errno(err, err_errno(), "cannot stat it");
	if (!S_ISREG(st.st_mode))
		return err_set(err, -ESPIPE, "it is not a regular file");
	f->size = (uint64_t)st.st_size;
	return 0;
}

int inside_check_size(struct inside_file *f, struct shoal_err *err)
{
	struct stat st;

	if (!f->unchecked)
		return 0;
	if (fstat(f->fd, &st) < 0)
		return err_set_errno(err, err_errno(), "cannot stat it");
	if ((uint64_t)st.st_size != f->size)
		return size_changed(f, (uint64_t)st.st_size, err);
	f->unchecked = false;
	return 0;
}

static int read_exactly(struct inside_file *f, uint64_t off, void *buf, size_t len,
			struct shoal_err *err)
{
	int64_t got;
	int rc;

	if (f->fd >= 0) {
		rc = pread_all(f->fd, buf, len, off);
		return rc < 0 ? err_set_errno(err, rc, "cannot read it") : 0;
	}
	got = store_read(f->store, f->name, off, buf, len, err);
	if (got >= 0 && (uint64_t)got < len)
		return err_set(err, -ESTALE, "it has become smaller since it was listed");
	return got < 0 ? (int)got : 0;
}

/* The first read of a small file. */
static int read_whole(struct inside_file *f, struct shoal_err *err)
{
	size_t want = (size_t)f->size + 1, got = 0;
	ssize_t n = 1;

	while (got < want && n > 0) {
		n = pread(f->fd, f->window + got, want - got, (off_t)got);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			got += (size_t)n;
	}
	if (n < 0)
		return err_set_errno(err, err_errno(), "cannot read it");
	if (got != f->size)
		return inside_check_size(f, err) < 0 ? -ESTALE : size_changed(f, got, err);
	f->unchecked = false;
	f->at = 0;
	f->len = got;
	return 0;
}

/*
 * Many small reads become few: the end of a file is read at once; after the previous read a large
 * block; elsewhere a small one, if a read costs little.
 */
static int read_window(struct inside_file *f, uint64_t off, size_t len, struct shoal_err *err)
{
	bool next = off >= f->at && off <= f->at + f->len;
	uint64_t n = f->fd < 0 || next ? INSIDE_WINDOW : STEP,
		 tail = f->fd < 0 ? INSIDE_WINDOW : TAIL;
	int rc;

	f->at = off;
	if (off + len == f->size && !next) {
		n = u64_min(tail, f->size);
		f->at = u64_min(off, f->size - n);
	}
	f->len = (size_t)u64_min(u64_max(n, off + len - f->at), f->size - f->at);
	rc = read_exactly(f, f->at, f->window, f->len, err);
	if (rc < 0)
		f->len = 0;
	return rc;
}

static int inside_read(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	struct inside_file *f = self;
	int rc = 0;

	if (f->unchecked && f->size < SMALL)
		rc = read_whole(f, err);
	if (rc == 0 && (off < f->at || off + len > f->at + f->len)) {
		if (len >= INSIDE_WINDOW)
			return read_exactly(f, off, buf, len, err);
		rc = read_window(f, off, len, err);
	}
	if (rc == 0)
		memcpy(buf, f->window + (off - f->at), len);
	return rc;
}

/* A file of a directory tree is opened once; others are read through the store. */
static int inside_open_path(struct inside_file *f, struct shoal_err *err)
{
	const struct store_posix *files = store_posix_of(f->store);
	int rc;

	f->fd = -1;
	f->at = f->len = 0;
	f->unchecked = false;
	rc = files ? store_check_name_for(f->store, f->name, err) : 0;
	if (rc < 0 || !files)
		return rc;
	f->fd = store_posix_open_file(files, f->name, 0);
	if (f->fd == -EXDEV)
		return store_posix_leads_out(f->name, err);
	if (f->fd < 0)
		return err_set_errno(err, f->fd, "cannot open it");
	if (f->size == SHOAL_SIZE_UNKNOWN)
		return inside_find_size(f, err);
	f->unchecked = true;
	return f->size < SMALL ? 0 : inside_check_size(f, err);
}

/* An index file beside the file, which is closed with it. */
static int inside_open_side(void *self, const char *suffix, struct format_source *ret_side,
			    struct shoal_err *err)
{
	struct inside_file *f = self, *side = calloc(1, sizeof(*side));
	struct shoal_err why = { "" };
	struct store_stat st;
	int rc;

	if (!side || asprintf(&side->own_name, "%s%s", f->name, suffix) < 0) {
		free(side);
		return err_set(err, -ENOMEM, "out of memory");
	}
	side->store = f->store;
	side->name = side->own_name;
	side->fd = -1;
	side->sides = f->sides;
	f->sides = side;
	rc = store_stat(f->store, side->name, &st, &why);
	side->size = rc == 0 ? st.size : 0;
	if (rc == 0)
		rc = inside_open_path(side, &why);
	*ret_side = (struct format_source){ .size = side->size, .read = inside_read, .self = side };
	return rc < 0 ? err_set_as(err, rc, &why, "its index '%.300s' cannot be read: %s",
				   side->name, why.msg)
		      : 0;
}

int inside_open(struct inside_file *f, struct format_source *ret_source, struct shoal_err *err)
{
	int rc = inside_open_path(f, err);

	*ret_source = (struct format_source){
		.size = f->size, .read = inside_read, .self = f, .open_side = inside_open_side
	};
	return rc;
}

void inside_close(struct inside_file *f)
{
	while (f->sides) {
		struct inside_file *side = f->sides;

		f->sides = side->sides;
		if (side->fd >= 0)
			close(side->fd);
		free(side->own_name);
		free(side);
	}
	if (f->fd >= 0)
		close(f->fd);
}
