/* Listing a directory tree, one directory at a time. Paths are opened relative to the root: a
 * name has at most SHOAL_NAME_MAX bytes, so that works however deep the root itself lies. */
#include "store/posix/posix.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/span.h"
#include "store/posix/hidden.h"
#include "store/posix/range.h"
#include "store/posix/unit.h"

/* One read of a directory: a few thousand names. More was not faster. */
#define DENTS_BYTES (128u << 10)
#define BATCH_BYTES (96u << 10)

/* Names in a unit of stats that is handed to an idle thread: some milliseconds of work. */
#define SPLIT_BYTES (16u << 10)

struct posix_scratch {
	struct store_entry entry[STORE_FOUND_MAX];
	size_t nr;
	size_t fill;
	char names[BATCH_BYTES];
	uint8_t unit[STORE_UNIT_MAX];
	_Alignas(8) uint8_t dents[DENTS_BYTES];
	uint32_t ask[DENTS_BYTES /
		     24]; /* where they start in dents; none is shorter than 24 bytes */
	size_t nr_ask;
};

/* The listing of one unit. */
struct posix_listing {
	struct store_posix *store;
	const struct store_list_options *options;
	struct store_sink *sink;
	struct posix_scratch *scratch;
	bool afresh;    /* everything below must be read, too */
	bool foreign;   /* on another file system than the root */
	bool in_parts;  /* some of the directory was handed over, or belongs to another unit */
	uint32_t hides; /* one bit for each of the options' hidden that are in this directory */
	int fd;         /* of the directory */
	enum { MAYBE, CUTTABLE, WHOLE } parts;
	struct posix_range range;
	const char *prefix; /* its path with a slash, or "" for the root */
	size_t prefix_len;
};

/* ---- What was found ---- */

static int posix_list_flush(struct posix_listing *l, struct shoal_err *err)
{
	struct posix_scratch *s = l->scratch;
	size_t nr = s->nr;

	s->nr = s->fill = 0;
	l->sink->whole = !l->in_parts;
	return nr ? l->sink->found(l->sink, s->entry, nr, err) : 0;
}

/* Write the name of @base into the batch; posix_list_put() makes it an entry. */
static int posix_list_make_name(struct posix_listing *l, const char *base, size_t len,
				const char **ret_name, struct shoal_err *err)
{
	struct posix_scratch *s = l->scratch;
	char *name;
	int rc = 0;

	if (s->nr == STORE_FOUND_MAX || BATCH_BYTES - s->fill < l->prefix_len + len + 1) {
		l->in_parts = true;
		rc = posix_list_flush(l, err);
	}
	if (rc < 0)
		return rc;
	name = s->names + s->fill;
	memcpy(name, l->prefix, l->prefix_len);
	memcpy(name + l->prefix_len, base, len + 1);
	*ret_name = name;
	return 0;
}

static void posix_list_put(struct posix_listing *l, const char *name, size_t len, uint64_t size)
{
	struct posix_scratch *s = l->scratch;

	s->entry[s->nr++] = (struct store_entry){ .name = name, .len = len, .size = size };
	s->fill += len + 1;
}

/* ---- What cannot be listed ---- */

/* Let the sink decide whether to continue without the entry that @words describes. */
static int report_or_fail(struct posix_listing *l, int rc, struct shoal_err *words,
			  struct shoal_err *err)
{
	rc = l->sink->trouble(l->sink, rc, words);
	return rc < 0 ? err_set_as(err, rc, words, "%s", words->msg) : 0;
}

static int trouble(struct posix_listing *l, int rc, const char *what, const char *name,
		   struct shoal_err *err)
{
	struct shoal_err words = { "" };

	if (rc == -EXDEV) /* with `beneath` only */
		store_posix_leads_out(name, &words);
	else
		err_set_errno(&words, rc, "cannot %s '%s'", what,
			      *name ? name : l->store->base.uri);
	return report_or_fail(l, rc, &words, err);
}

static int too_long(struct posix_listing *l, const char *name, size_t len, struct shoal_err *err)
{
	struct shoal_err words = { "" };

	err_describe(&words, "'%.200s...' has %zu bytes: a name in a catalog has at most %d", name,
		     len, SHOAL_NAME_MAX);
	return report_or_fail(l, -ENAMETOOLONG, &words, err);
}

static int too_deep(struct posix_listing *l, const char *name, size_t len, struct shoal_err *err)
{
	struct shoal_err words = { "" };

	err_describe(&words,
		     "directory '%.200s...' has %zu bytes: names below it would "
		     "exceed the maximum of %d in a catalog",
		     name, len, SHOAL_NAME_MAX);
	return report_or_fail(l, -ENAMETOOLONG, &words, err);
}

static int give_directory(struct posix_listing *l, const char *name, size_t len,
			  struct shoal_err *err)
{
	uint8_t *unit = l->scratch->unit;

	if (len > SHOAL_NAME_MAX - 2) /* anything in it is at least a slash and a letter longer */
		return too_deep(l, name, len, err);
	len = store_posix_unit(&l->store->base, name, len, unit);
	if (l->afresh)
		unit[0] = 'd';
	return l->sink->add_unit(l->sink, unit, len, err);
}

/* It was removed since it was seen, or a directory above it was. */
static bool is_gone(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -ESTALE;
}

static int stat_at(int fd, const char *name, bool follow, struct statx *ret_stat)
{
	int flags = AT_NO_AUTOMOUNT | (follow ? 0 : AT_SYMLINK_NOFOLLOW);

	return statx(fd, name, flags, STATX_TYPE | STATX_SIZE | STATX_INO, ret_stat) == 0
		       ? 0
		       : err_errno();
}

/* What the link @name leads to. */
static int stat_link(const struct posix_listing *l, const char *name, struct statx *ret_stat)
{
	int fd, rc;

	if (!l->store->beneath)
		return stat_at(l->fd, name + l->prefix_len, true, ret_stat);
	fd = store_posix_open_path(l->store, name, O_PATH);
	if (fd < 0)
		return fd;
	rc = statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE | STATX_INO, ret_stat) == 0
		     ? 0
		     : err_errno();
	close(fd);
	return rc;
}

static bool same_file(const struct statx *a, const struct statx *b)
{
	return a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
	       a->stx_dev_minor == b->stx_dev_minor;
}

/* Whether the directory at @name is one of its own parents, through a link. Checked for each
 * directory if links are followed: remembering the parents would take memory in each unit. */
static bool is_loop(const struct posix_listing *l, const char *name)
{
	char above[SHOAL_NAME_MAX + 1] = ".";
	const char *slash = name;
	struct statx st, mine;

	if (statx(l->fd, "", AT_EMPTY_PATH, STATX_INO, &mine) < 0)
		return false;
	while (stat_at(l->store->root_fd, above, true, &st) < 0 || !same_file(&st, &mine)) {
		slash = strchr(slash, '/');
		if (!slash)
			return false;
		memcpy(above, name, (size_t)(slash - name));
		above[slash - name] = '\0';
		slash++;
	}
	return true;
}

/* ---- An entry of a directory ---- */

/* Its type and size are known now; @type is what the directory entry has. */
static int take_by_mode(struct posix_listing *l, const char *name, size_t len, uint8_t type,
			const struct statx *st, struct shoal_err *err)
{
	struct store_sink *sink = l->sink;
	bool is_dir = S_ISDIR(st->stx_mode), asked = type == (is_dir ? DT_DIR : DT_REG);

	if (S_ISLNK(st->stx_mode)) {
		sink->skipped[STORE_SKIP_LINK]++;
	} else if (!is_dir && !S_ISREG(st->stx_mode)) {
		sink->skipped[STORE_SKIP_SPECIAL]++;
	} else if (!asked && sink->wanted && !sink->wanted(sink, name, len, is_dir)) {
		sink->skipped[STORE_SKIP_FILTERED]++;
	} else if (is_dir) {
		return give_directory(l, name, len, err);
	} else {
		posix_list_put(l, name, len, l->options->sizes ? st->stx_size : SHOAL_SIZE_UNKNOWN);
	}
	return 0;
}

/* Its type is unknown, or its size is required. */
static int take_unknown(struct posix_listing *l, const char *name, size_t len, uint8_t type,
			struct shoal_err *err)
{
	const char *base = name + l->prefix_len;
	struct store_sink *sink = l->sink;
	struct statx st;
	bool is_link = type == DT_LNK;
	int rc = is_link ? stat_link(l, name, &st) : stat_at(l->fd, base, false, &st);

	if (rc == 0 && !is_link && S_ISLNK(st.stx_mode) && l->options->follow) {
		is_link = true;
		rc = stat_link(l, name, &st);
	}
	if (rc == -ELOOP || (is_link && is_gone(rc)))
		sink->skipped[rc == -ELOOP ? STORE_SKIP_LOOP : STORE_SKIP_LINK]++;
	else if (is_gone(rc))
		sink->skipped[STORE_SKIP_VANISHED]++;
	else if (rc < 0)
		return trouble(l, rc, "stat", name, err);
	else if (!is_link || !posix_hidden_file(l->options, &st))
		return take_by_mode(l, name, len, type, &st, err);
	return 0;
}

static bool is_dot(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Ensure that stat is called only for files whose size is required and for unknown types. */
static int posix_list_take(struct posix_listing *l, const struct posix_dent *d, bool *ret_ask,
			   struct shoal_err *err)
{
	struct store_sink *sink = l->sink;
	size_t len = strlen(d->name);
	const char *name;
	bool ask;
	int rc;

	*ret_ask = false;
	if (is_dot(d->name) ||
	    (l->hides && d->type != DT_DIR && posix_hidden_name(l->options, l->hides, d->name)))
		return 0;
	if (d->type == DT_LNK && !l->options->follow) {
		sink->skipped[STORE_SKIP_LINK]++;
		return 0;
	}
	if (d->type == DT_FIFO || d->type == DT_SOCK || d->type == DT_CHR || d->type == DT_BLK) {
		sink->skipped[STORE_SKIP_SPECIAL]++;
		return 0;
	}
	ask = d->type != DT_DIR && (d->type != DT_REG || l->options->sizes);
	if (ask && !sink->wanted && l->prefix_len + len <= SHOAL_NAME_MAX) {
		*ret_ask = true; /* ask_here() makes the name */
		return 0;
	}
	rc = posix_list_make_name(l, d->name, len, &name, err);
	if (rc < 0)
		return rc;
	len += l->prefix_len;
	if ((d->type == DT_REG || d->type == DT_DIR) && sink->wanted &&
	    !sink->wanted(sink, name, len, d->type == DT_DIR)) {
		sink->skipped[STORE_SKIP_FILTERED]++;
		return 0;
	}
	if (d->type == DT_DIR)
		return give_directory(l, name, len, err);
	if (len > SHOAL_NAME_MAX) /* last: entries that are left out may have names of any length */
		return too_long(l, name, len, err);
	if (!ask)
		posix_list_put(l, name, len, SHOAL_SIZE_UNKNOWN);
	*ret_ask = ask;
	return 0;
}

/* Open the directory. If it is gone or on another file system, fd stays -1. */
static int open_directory(struct posix_listing *l, const char *path)
{
	struct stat st;
	/* A directory may have been replaced by a link. */
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (l->options->follow ? 0 : O_NOFOLLOW);
	int fd = store_posix_open_path(l->store, *path ? path : ".", flags);
	int rc = fd < 0 ? fd : 0;

	if ((is_gone(rc) || rc == -ELOOP) && *path) {
		l->sink->skipped[STORE_SKIP_VANISHED]++;
		return 0;
	}
	if (rc < 0)
		return rc;
	if (fstat(fd, &st) == 0) {
		l->foreign = st.st_dev != l->store->dev;
		l->hides = posix_hidden_in(l->options, &st);
	}
	if (l->foreign && l->options->one_fs) {
		l->sink->skipped[STORE_SKIP_OTHER_FS]++;
		close(fd);
		return 0;
	}
	l->fd = fd;
	return 0;
}

/* ---- Sizes that another thread may look up ---- */

static const struct posix_dent *dent_at(const struct posix_listing *l, size_t at)
{
	return (const struct posix_dent *)(const void *)(l->scratch->dents + at);
}

static int ask_here(struct posix_listing *l, const struct posix_dent *d, struct shoal_err *err)
{
	size_t len = strlen(d->name);
	const char *name;
	int rc = posix_list_make_name(l, d->name, len, &name, err);

	return rc < 0 ? rc : take_unknown(l, name, l->prefix_len + len, d->type, err);
}

static uint8_t *start_unit(const struct posix_listing *l, uint8_t kind)
{
	uint8_t *p = l->scratch->unit;

	*p++ = kind;
	p = varint_put(p, l->prefix_len);
	memcpy(p, l->prefix, l->prefix_len);
	return p + l->prefix_len;
}

/* Pack names into a unit for other threads. Returns how many were packed. */
static int give_stats(struct posix_listing *l, size_t first, size_t *ret_nr, struct shoal_err *err)
{
	const struct posix_scratch *s = l->scratch;
	uint8_t *start = l->scratch->unit, *p = start_unit(l, 'S');
	size_t i = first;

	for (; i < s->nr_ask && p < start + SPLIT_BYTES; i++) {
		const struct posix_dent *d = dent_at(l, s->ask[i]);
		size_t len = strlen(d->name) + 1;

		*p++ = d->type;
		memcpy(p, d->name, len);
		p += len;
	}
	*ret_nr = i - first;
	l->in_parts = true;
	return l->sink->add_unit(l->sink, start, (size_t)(p - start), err);
}

static int posix_list_stat(struct posix_listing *l, struct shoal_err *err)
{
	const struct posix_scratch *s = l->scratch;
	size_t i = 0;

	if (s->nr_ask > 0 && l->fd < 0) { /* entries that another unit has read */
		char path[SHOAL_NAME_MAX + 1] = "";
		int rc;

		memcpy(path, l->prefix, l->prefix_len ? l->prefix_len - 1 : 0);
		rc = open_directory(l, path);
		if (rc < 0)
			return trouble(l, rc, "open directory", path, err);
		if (l->fd < 0) /* it is gone, and was counted */
			return 0;
	}
	while (i < s->nr_ask) {
		size_t nr = 1;
		int rc;

		if ((i & 63) == 0 && stop_requested(l->sink->stop))
			return err_set(err, -ECANCELED, "interrupted");
		if (s->nr_ask - i > 64 && l->sink->nr_idle(l->sink))
			rc = give_stats(l, i, &nr, err);
		else
			rc = ask_here(l, dent_at(l, s->ask[i]), err);
		if (rc < 0)
			return rc;
		i += nr;
	}
	return 0;
}

/* ---- A directory ---- */

static int take_dents(struct posix_listing *l, size_t filled, struct shoal_err *err)
{
	struct posix_scratch *s = l->scratch;

	s->nr_ask = 0;
	for (size_t at = 0; at < filled; at += dent_at(l, at)->reclen) {
		bool ask_for_it;
		int rc = posix_list_take(l, dent_at(l, at), &ask_for_it, err);

		if (rc < 0)
			return rc;
		if (ask_for_it)
			s->ask[s->nr_ask++] = (uint32_t)at;
	}
	return posix_list_stat(l, err);
}

/* Reading a directory is the kernel's work, 0.33 s per million names. If it cannot be split, an
 * idle thread may do everything else meanwhile. */
static int give_dents(struct posix_listing *l, size_t filled, struct shoal_err *err)
{
	uint8_t *unit = l->scratch->unit, *names = start_unit(l, l->afresh ? 'n' : 'N');
	size_t room = STORE_UNIT_MAX - (size_t)(names - unit), from = 0;

	l->in_parts = true;
	while (from < filled) {
		size_t at = from;
		int rc;

		while (at < filled && at - from + dent_at(l, at)->reclen <= room)
			at += dent_at(l, at)->reclen;
		memcpy(names, l->scratch->dents + from, at - from);
		rc = l->sink->add_unit(l->sink, unit, (size_t)(names - unit) + at - from, err);
		if (rc < 0)
			return rc;
		from = at;
	}
	return 0;
}

static bool can_be_cut(struct posix_listing *l)
{
	if (l->parts == MAYBE)
		l->parts = posix_range_can_be_cut(l->fd) ? CUTTABLE : WHOLE;
	/* ext2 and ext3 look the same, and may have offsets there, which are small. */
	return l->parts == CUTTABLE && l->range.at > UINT32_MAX;
}

/* Write the unit of the entries between two positions. Returns its length, or 0 if there is
 * none. */
static size_t range_unit(const struct posix_listing *l, uint64_t from, uint64_t to)
{
	struct stat st;
	uint8_t *p;

	if (fstat(l->fd, &st) < 0)
		return 0;
	p = start_unit(l, l->afresh ? 'h' : 'H');
	p = varint_put(p, st.st_dev);
	p = varint_put(p, st.st_ino);
	p = varint_put(p, from);
	p = varint_put(p, to);
	return (size_t)(p - l->scratch->unit);
}

/* Hand over half of what is still to be read. 0: that is not possible, or not worthwhile. */
static int give_half(struct posix_listing *l, struct shoal_err *err)
{
	uint64_t middle = can_be_cut(l) ? posix_range_middle(&l->range) : 0;
	size_t len = middle ? range_unit(l, middle, l->range.to) : 0;
	int rc;

	if (len == 0)
		return 0;
	rc = l->sink->add_unit(l->sink, l->scratch->unit, len, err);
	l->range.to = middle;
	l->in_parts = true;
	return rc < 0 ? rc : 1;
}

/*
 * Everything read so far is taken or belongs to another unit: a thread that continues with the
 * directory need not start again. If positions are not hashes, they may be invalid after a
 * restart.
 */
static int posix_list_report_remaining(struct posix_listing *l, size_t filled,
				       struct shoal_err *err)
{
	size_t len;
	int rc;

	if (!l->sink->remaining || filled <= DENTS_BYTES / 2 || !can_be_cut(l) ||
	    l->range.at >= l->range.to)
		return 0;
	l->in_parts = true;
	rc = posix_list_flush(l, err);
	len = rc < 0 ? 0 : range_unit(l, l->range.at, l->range.to);
	if (len > 0)
		l->sink->remaining(l->sink, l->scratch->unit, len);
	return rc;
}

/* Whether most entries are directories: these become units for other threads anyway. */
static bool are_directories(const struct posix_listing *l, size_t filled)
{
	size_t nr = 0, nr_dirs = 0;

	for (size_t at = 0; at < filled; at += dent_at(l, at)->reclen, nr++)
		nr_dirs += dent_at(l, at)->type == DT_DIR;
	return nr_dirs > nr / 2;
}

/* Take the entries that were read, or let an idle thread take them and read on meanwhile. */
static int share_dents(struct posix_listing *l, size_t filled, struct shoal_err *err)
{
	/* A shorter read is probably the last, and taken before an idle thread would wake up. */
	bool idle = filled > DENTS_BYTES / 2 && l->sink->nr_idle(l->sink) &&
		    !are_directories(l, filled);
	int given = idle ? give_half(l, err) : 0;

	if (given < 0)
		return given;
	/* A thread that takes entries does not open the directory, so it does not know what is
	 * hidden there. */
	if (idle && !given && !l->options->sizes && !l->hides)
		return give_dents(l, filled, err);
	return take_dents(l, filled, err);
}

static int read_directory(struct posix_listing *l, struct shoal_err *err)
{
	for (;;) {
		long n = syscall(SYS_getdents64, l->fd, l->scratch->dents, DENTS_BYTES);
		size_t ours;
		int rc;

		if (n == 0)
			return posix_list_flush(l, err);
		if (n < 0 && (errno == ENOENT || errno == ESTALE) && l->prefix_len > 0) {
			l->sink->skipped[STORE_SKIP_VANISHED]++;
			return posix_list_flush(l, err);
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int why = err_errno();

			rc = posix_list_flush(l, err); /* the entries read so far are valid */
			return rc < 0 ? rc : why;
		}
		if (stop_requested(l->sink->stop))
			return err_set(err, -ECANCELED, "interrupted");
		ours = posix_range_take(&l->range, l->scratch->dents, (size_t)n);
		rc = share_dents(l, ours, err);
		if (rc < 0)
			return rc;
		if (ours < (size_t)n)
			return posix_list_flush(l, err);
		rc = posix_list_report_remaining(l, ours, err);
		if (rc < 0)
			return rc;
	}
}

static uint64_t ns_of(const struct timespec *t)
{
	return t->tv_sec < 0 ? 0 : (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

/* Whether the sink knows the directory's contents without reading it. */
static int is_known(struct posix_listing *l, const char *path, struct shoal_err *err)
{
	struct store_dir dir = { .name = path, .len = strlen(path), .nr_directories = UINT64_MAX };
	struct stat st;
	int rc;

	if (l->foreign) /* another file system may be mounted there now, of any age */
		l->afresh = true;
	if (!l->sink->is_cached || l->afresh || fstat(l->fd, &st) < 0)
		return 0;
	dir.changed = ns_of(&st.st_mtim);
	dir.moved = ns_of(&st.st_ctim);
	dir.coarse = st.st_mtim.tv_nsec == 0 && st.st_ctim.tv_nsec == 0;
	if (st.st_nlink >=
	    2) /* a directory's links are its name, its ".", and the ".." of its children */
		dir.nr_directories = st.st_nlink - 2;
	rc = l->sink->is_cached(l->sink, &dir, err);
	l->afresh = rc == 2;
	return rc == 2 ? 0 : rc;
}

/* @words: the reason, if it has been reported already. */
static int reading_failed(struct posix_listing *l, int rc, const char *path,
			  const struct shoal_err *words, struct shoal_err *err)
{
	if (*words->msg)
		return err_set_as(err, rc, words, "%s", words->msg);
	/* Without the root there is nothing to list, and a missing root is not an empty one. */
	if (!*path && (is_gone(rc) || (!l->in_parts && l->range.nr_bytes == 0)))
		return err_set_errno(err, rc, "cannot read directory '%s'", l->store->base.uri);
	return trouble(l, rc, "read directory", path, err);
}

static int list_directory(struct posix_listing *l, const char *path, struct shoal_err *err)
{
	struct shoal_err words = { "" };
	int rc = open_directory(l, path);

	if (rc < 0)
		return trouble(l, rc, "open directory", path, err);
	if (l->fd < 0)
		return 0;
	if (l->options->follow && *path && is_loop(l, path)) {
		l->sink->skipped[STORE_SKIP_LOOP]++;
		close(l->fd);
		return 0;
	}
	rc = is_known(l, path, &words);
	if (rc == 0)
		rc = read_directory(l, &words);
	close(l->fd);
	if (rc > 0)
		return 0;
	l->sink->nr_directories += rc == 0;
	l->sink->nr_foreign += rc == 0 && l->foreign;
	return rc < 0 ? reading_failed(l, rc, path, &words, err) : 0;
}

/* ---- A part of a directory ---- */

/* Whether the directory is still the one that was split. */
static bool is_same_directory(const struct posix_listing *l, uint64_t dev, uint64_t ino)
{
	struct stat st;

	return fstat(l->fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino &&
	       posix_range_can_be_cut(l->fd);
}

static int posix_list_list_range(struct posix_listing *l, const char *path, struct span *span,
				 struct shoal_err *err)
{
	struct shoal_err words = { "" };
	uint64_t dev = span_varint(span), ino = span_varint(span);
	uint64_t from = span_varint(span), to = span_varint(span);
	int rc;

	if (span->bad || span_left(span) > 0 || from >= to || to > POSIX_RANGE_END)
		return err_set(err, -EBADMSG, "a unit of the listing is damaged");
	rc = open_directory(l, path);
	if (rc < 0)
		return trouble(l, rc, "open directory", path, err);
	if (l->fd < 0)
		return 0;
	if (is_same_directory(l, dev, ino)) {
		l->parts = CUTTABLE;
		l->range = (struct posix_range){ .from = from, .to = to, .at = from };
		rc = lseek(l->fd, (off_t)from, SEEK_SET) < 0 ? err_errno() : 0;
	} else {
		l->afresh = true; /* it was replaced by another directory: list all of that */
	}
	if (rc == 0)
		rc = read_directory(l, &words);
	close(l->fd);
	return rc < 0 ? reading_failed(l, rc, path, &words, err) : 0;
}

/* ---- Sizes for a directory that another unit reads ---- */

static int list_stats(struct posix_listing *l, const char *path, const uint8_t *p,
		      const uint8_t *end, struct shoal_err *err)
{
	int rc = open_directory(l, path);

	if (rc < 0)
		return trouble(l, rc, "open directory", path, err);
	for (unsigned i = 0; l->fd >= 0 && rc == 0 && p < end; i++) {
		uint8_t type = *p++;
		const char *base = (const char *)p, *name;
		size_t len = strnlen(base, (size_t)(end - p));

		/* A name with a slash could lead out of the directory, even of the root. */
		if (p + len == end || len == 0 || l->prefix_len + len > SHOAL_NAME_MAX ||
		    memchr(base, '/', len) || is_dot(base)) {
			rc = err_set(err, -EBADMSG, "a unit of the listing is damaged");
			break;
		}
		p += len + 1;
		if ((i & 63) == 0 && stop_requested(l->sink->stop))
			rc = err_set(err, -ECANCELED, "interrupted");
		if (rc == 0)
			rc = posix_list_make_name(l, base, len, &name, err);
		if (rc == 0)
			rc = take_unknown(l, name, l->prefix_len + len, type, err);
	}
	if (rc == 0)
		rc = posix_list_flush(l, err);
	if (l->fd >= 0)
		close(l->fd);
	return rc;
}

/* ---- Entries of a directory that another unit reads ---- */

static int list_dents(struct posix_listing *l, const uint8_t *p, const uint8_t *end,
		      struct shoal_err *err)
{
	size_t filled = (size_t)(end - p);
	int rc;

	if (filled > 0 && filled <= DENTS_BYTES)
		memcpy(l->scratch->dents, p, filled);
	if (filled > DENTS_BYTES || !posix_dents_are_whole(l->scratch->dents, filled))
		return err_set(err, -EBADMSG, "a unit of the listing is damaged");
	rc = take_dents(l, filled, err);
	if (rc == 0)
		rc = posix_list_flush(l, err);
	if (l->fd >= 0)
		close(l->fd);
	return rc;
}

/* ---- A unit ---- */

static void posix_list_free_scratch(void *scratch)
{
	free(scratch);
}

static struct posix_scratch *get_scratch(struct store_sink *sink)
{
	struct posix_scratch *s;

	if (!sink->scratch) {
		sink->scratch = malloc(sizeof(*s));
		sink->free_scratch = posix_list_free_scratch;
	}
	s = sink->scratch;
	if (s)
		s->nr = s->fill = 0;
	return s;
}

int store_posix_list(struct store *s, const struct store_list_options *options, const void *unit,
		     size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct span span = { .p = unit, .end = (const uint8_t *)unit + len };
	struct span path = { 0 };
	struct posix_listing l = { .store = (struct store_posix *)s,
				   .options = options,
				   .sink = sink,
				   .scratch = get_scratch(sink),
				   .fd = -1,
				   .range.to = POSIX_RANGE_END };
	char prefix[SHOAL_NAME_MAX + 1] = "", name[SHOAL_NAME_MAX + 1] = "";
	uint8_t kind = 'D';

	if (!l.scratch)
		return err_set(err, -ENOMEM, "out of memory");
	if (!posix_unit_parse(&span, &kind, &path))
		return err_set(err, -EBADMSG, "a unit of the listing is damaged");
	len = span_left(&path);
	if (len > 0) {
		memcpy(name, path.p, len);
		l.prefix_len = (size_t)snprintf(prefix, sizeof(prefix), "%s/", name);
	}
	l.prefix = prefix;
	l.afresh = kind == 'd' || kind == 'n' || kind == 'h';
	l.in_parts = kind != 'D' && kind != 'd';
	if (kind == 'S')
		return list_stats(&l, name, span.p, span.end, err);
	if (kind == 'H' || kind == 'h')
		return posix_list_list_range(&l, name, &span, err);
	if (kind == 'N' || kind == 'n')
		return list_dents(&l, span.p, span.end, err);
	return list_directory(&l, name, err);
}
