#include "index/update.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "catalog/writer.h"

/* How much older than the listing a change must be to be in it: clocks tick. */
#define FINE_NS   UINT64_C(100000000)
#define COARSE_NS UINT64_C(3000000000)

#define BATCH 256u

int index_update_open(struct index_update *u, const char *path, const struct index_listing *listing,
		      const char *root, struct shoal_err *err)
{
	struct index_listing was = { 0 };
	struct shoal_catalog_info info;
	struct shoal_err why = { "" };
	const char *text;
	size_t len;
	int rc;

	*u = (struct index_update){ .path = path };
	if (listing->follow) /* links may lead to directories whose times tell nothing here */
		return shoal_fail(err, -EINVAL, "--update cannot be used with --follow");
	rc = shoal_catalog_open_file(path, &u->old, &why);
	if (rc == 0) {
		rc = shoal_catalog_listing(u->old, &text, &len);
		if (rc < 0)
			shoal_catalog_explain(u->old, rc, &why);
	}
	if (rc == 0)
		rc = index_listing_parse(text, len, &was, &why);
	if (rc < 0) {
		index_update_release(u);
		return shoal_fail(err, rc, "cannot update '%s': %s", path, why.msg);
	}
	shoal_catalog_info(u->old, &info);
	if (strcmp(info.root, root) != 0)
		rc = shoal_fail(err, -EINVAL,
				"cannot update '%s': it is of '%.300s', not of '%.300s'", path,
				info.root, root);
	else if (was.inode && listing->inode && was.inode != listing->inode)
		rc = shoal_fail(err, -EINVAL,
				"cannot update '%s': the directory is another one now (it was "
				"replaced, or something is mounted there): make a new catalog",
				path);
	else if (was.nr_foreign > 0)
		rc = shoal_fail(err, -EINVAL,
				"cannot update '%s': it spans several file systems, and what was "
				"mounted then cannot be told: make a new catalog, or one of each",
				path);
	else if (was.nr_unreadable > 0)
		rc = shoal_fail(err, -EINVAL,
				"cannot update '%s': %" PRIu64 " things could not be read when it "
				"was made: make a new catalog",
				path, was.nr_unreadable);
	else if (!index_listing_same(&was, listing))
		rc = shoal_fail(err, -EINVAL,
				"cannot update '%s': it was made with other options (sizes, "
				"patterns or file systems)",
				path);
	u->started = was.started;
	index_listing_release(&was);
	if (rc < 0)
		index_update_release(u);
	return rc;
}

void index_update_release(struct index_update *u)
{
	u->old = shoal_catalog_close(u->old);
}

/* ---- What lies in a directory ---- */

/* The names of the old catalog below a directory, one part of a name at a time. */
struct below {
	const struct shoal_catalog *cat;
	struct shoal_cursor *cursor;
	uint64_t id; /* of the name that the cursor gives next */
	char prefix[SHOAL_NAME_MAX + 2];
	size_t prefix_len;
};

static int seek(struct below *b, const char *name, size_t len)
{
	int rc = shoal_catalog_lower_bound(b->cat, name, len, &b->id);

	b->cursor = shoal_cursor_free(b->cursor);
	return rc < 0 ? rc : shoal_cursor_new(b->cat, b->id, &b->cursor, NULL);
}

static int below_open(struct below *b, const struct shoal_catalog *cat, const struct store_dir *dir)
{
	*b = (struct below){ .cat = cat, .prefix_len = dir->len + (dir->len > 0) };
	memcpy(b->prefix, dir->name, dir->len);
	if (dir->len > 0)
		b->prefix[dir->len] = '/';
	return seek(b, b->prefix, b->prefix_len);
}

/*
 * 1 and a file (*@ret_id is its id), 2 and a directory, whose files are then stepped over, or 0
 * at the end. The name is lent until the next call.
 */
static int below_next(struct below *b, const char **ret_name, size_t *ret_len, uint64_t *ret_id)
{
	const char *name, *slash;
	size_t len;
	int rc = shoal_cursor_next(b->cursor, &name, &len);

	if (rc <= 0)
		return rc;
	if (len <= b->prefix_len || memcmp(name, b->prefix, b->prefix_len) != 0)
		return 0;
	*ret_id = b->id++;
	slash = memchr(name + b->prefix_len, '/', len - b->prefix_len);
	*ret_name = name;
	*ret_len = slash ? (size_t)(slash - name) : len;
	return slash ? 2 : 1;
}

/* Step over all that lies below the directory @name, which is copied first: it is the cursor's. */
static int step_over(struct below *b, const char *name, size_t len, char *copy)
{
	memcpy(copy, name, len);
	copy[len] = '/' + 1; /* the first that can come after "name/..." */
	copy[len + 1] = '\0';
	return seek(b, copy, len + 1);
}

/* How many directories there are in it, and whether there is anything. */
static int count_directories(const struct shoal_catalog *cat, const struct store_dir *dir,
			     uint64_t *ret_nr, bool *ret_any)
{
	char copy[SHOAL_NAME_MAX + 2];
	const char *name;
	struct below b;
	uint64_t id;
	size_t len;
	int rc = below_open(&b, cat, dir);

	*ret_nr = 0;
	*ret_any = false;
	while (rc == 0 && (rc = below_next(&b, &name, &len, &id)) > 0) {
		*ret_nr += rc == 2;
		*ret_any = true;
		rc = rc == 2 ? step_over(&b, name, len, copy) : 0;
	}
	shoal_cursor_free(b.cursor);
	return rc;
}

/* ---- Handing it over ---- */

/* Entries on their way to the sink. */
struct batch {
	struct store_entry entry[BATCH];
	size_t nr, fill;
	char names[16 * (SHOAL_NAME_MAX + 1)];
};

static int send(struct batch *b, struct store_sink *sink, struct shoal_err *err)
{
	size_t nr = b->nr;

	b->nr = b->fill = 0;
	return nr ? sink->found(sink, b->entry, nr, err) : 0;
}

static int take_file(struct batch *b, const struct below *from, const char *name, size_t len,
		     uint64_t id, struct store_sink *sink, struct shoal_err *err)
{
	uint64_t size;
	int rc = 0;

	if (b->nr == BATCH || sizeof(b->names) - b->fill < len + 1)
		rc = send(b, sink, err);
	if (rc == 0)
		rc = shoal_catalog_size(from->cat, id, &size);
	if (rc < 0)
		return rc;
	memcpy(b->names + b->fill, name, len);
	b->names[b->fill + len] = '\0';
	b->entry[b->nr++] =
		(struct store_entry){ .name = b->names + b->fill, .len = len, .size = size };
	b->fill += len + 1;
	return 0;
}

static int take_all(struct below *from, struct batch *b, struct shoal_store *store,
		    struct store_sink *sink, uint64_t *ret_names, struct shoal_err *err)
{
	char copy[SHOAL_NAME_MAX + 2];
	uint8_t unit[SHOAL_NAME_MAX + 64];
	const char *name;
	uint64_t id;
	size_t len;
	int rc;

	while ((rc = below_next(from, &name, &len, &id)) > 0) {
		if (rc == 1) {
			++*ret_names;
			rc = take_file(b, from, name, len, id, sink, err);
		} else {
			size_t unit_len = store_unit(store, name, len, unit);

			if (unit_len == 0) /* that would be all of the store */
				return shoal_fail(err, -ENOTSUP, "this store has no directories");
			rc = sink->more(sink, unit, unit_len, err);
			if (rc == 0)
				rc = step_over(from, name, len, copy);
		}
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? rc : send(b, sink, err);
}

/* Something is wrong with the old catalog. */
static int explain(const struct index_update *u, int rc, struct shoal_err *err)
{
	struct shoal_err why = { "" };

	shoal_catalog_explain(u->old, rc, &why);
	return shoal_fail(err, rc, "cannot update '%s': %s", u->path, why.msg);
}

int index_update_take(struct index_update *u, struct shoal_store *store, struct store_sink *sink,
		      const struct store_dir *dir, struct shoal_err *err)
{
	uint64_t margin = dir->coarse ? COARSE_NS : FINE_NS, nr_directories = 0, nr_names = 0;
	struct batch *b;
	struct below from;
	bool any = false;
	int rc;

	if (dir->changed + margin > u->started)
		return 0;
	/* Nothing in it changed, but it did: it may come from elsewhere, with all that is below. */
	if (dir->moved + margin > u->started)
		return 2;
	if (dir->nr_directories == UINT64_MAX)
		return 0;
	rc = count_directories(u->old, dir, &nr_directories, &any);
	if (rc < 0)
		return explain(u, rc, err);
	/* Of a directory that OLD has nothing of it cannot be told whether OLD had seen it. */
	if (nr_directories != dir->nr_directories || !any)
		return 0;
	b = malloc(sizeof(*b));
	if (!b)
		return shoal_fail(err, -ENOMEM, "out of memory");
	b->nr = b->fill = 0;
	rc = below_open(&from, u->old, dir);
	if (rc == 0)
		rc = take_all(&from, b, store, sink, &nr_names, err);
	shoal_cursor_free(from.cursor);
	free(b);
	if (rc < 0 && (rc == -EBADMSG || rc == -ESTALE))
		return explain(u, rc, err);
	if (rc < 0)
		return rc;
	__atomic_add_fetch(&u->nr_directories, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&u->nr_names, nr_names, __ATOMIC_RELAXED);
	return 1;
}
