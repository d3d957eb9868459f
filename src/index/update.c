#include "index/update.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
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
				"cannot update '%s': %" PRIu64 " thing%s could not be read when it "
				"was made: make a new catalog",
				path, was.nr_unreadable, shoal_plural(was.nr_unreadable));
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
	uint64_t id; /* of the name that comes next */
	bool held;   /* it is this one, which the cursor gave already; of no bytes at the end */
	const char *name;
	size_t len;
	char prefix[SHOAL_NAME_MAX + 2];
	size_t prefix_len;
};

static int seek(struct below *b, const char *name, size_t len)
{
	int rc = shoal_catalog_lower_bound(b->cat, name, len, &b->id);

	b->cursor = shoal_cursor_free(b->cursor);
	b->held = false;
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
	const char *slash;
	int rc = b->held ? 1 : shoal_cursor_next(b->cursor, &b->name, &b->len);

	b->held = false;
	if (rc <= 0)
		return rc;
	if (b->len <= b->prefix_len || memcmp(b->name, b->prefix, b->prefix_len) != 0)
		return 0;
	*ret_id = b->id++;
	slash = memchr(b->name + b->prefix_len, '/', b->len - b->prefix_len);
	*ret_name = b->name;
	*ret_len = slash ? (size_t)(slash - b->name) : b->len;
	return slash ? 2 : 1;
}

/* To seek takes as long as so many steps. */
#define STEPS_MAX 200u

/* Step over all that lies below the directory @name, which is copied first: it is the cursor's. */
static int step_over(struct below *b, const char *name, size_t len, char *copy)
{
	memcpy(copy, name, len);
	copy[len] = '/';
	copy[len + 1] = '\0';
	for (unsigned i = 0; i < STEPS_MAX; i++) {
		int rc = shoal_cursor_next(b->cursor, &b->name, &b->len);

		if (rc < 0)
			return rc;
		if (rc == 0)
			b->len = 0;
		b->held = b->len <= len || memcmp(b->name, copy, len + 1) != 0;
		if (b->held)
			return 0;
		b->id++;
	}
	copy[len] = '/' + 1; /* the first that can come after "name/..." */
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

/* Entries and directories on their way to the sink. */
struct batch {
	struct store_sink *sink;
	bool holding; /* until it is known that the directory has not changed */
	uint64_t nr_names, nr_directories;
	size_t nr, fill, units_fill;
	struct store_entry entry[BATCH];
	char names[12 * (SHOAL_NAME_MAX + 1)];
	uint8_t units[8 * (SHOAL_NAME_MAX + 64)]; /* of a directory each, after its length */
};

static void batch_clear(struct batch *b, bool holding)
{
	b->holding = holding;
	b->nr_names = b->nr_directories = 0;
	b->nr = b->fill = b->units_fill = 0;
}

static int send(struct batch *b, struct shoal_err *err)
{
	size_t nr = b->nr;
	int rc;

	b->sink->whole = false; /* they come in order */
	rc = nr ? b->sink->found(b->sink, b->entry, nr, err) : 0;

	for (size_t at = 0; at < b->units_fill && rc == 0;) {
		uint32_t len;

		memcpy(&len, b->units + at, sizeof(len));
		at += sizeof(len);
		rc = b->sink->more(b->sink, b->units + at, len, err);
		at += len;
	}
	b->nr = b->fill = b->units_fill = 0;
	return rc;
}

/* There is no room for more: -ENOBUFS when what there is must not be sent yet. */
static int make_room(struct batch *b, struct shoal_err *err)
{
	return b->holding ? -ENOBUFS : send(b, err);
}

static int take_file(struct batch *b, const struct below *from, const char *name, size_t len,
		     uint64_t id, struct shoal_err *err)
{
	uint64_t size;
	int rc = 0;

	b->nr_names++;
	if (memchr(name, 0, len)) /* no listing makes such names, but others write catalogs, too */
		return shoal_fail(err, -EINVAL, "a name in the old catalog holds a NUL byte");
	if (b->nr == BATCH || sizeof(b->names) - b->fill < len + 1)
		rc = make_room(b, err);
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

static int take_directory(struct batch *b, struct shoal_store *store, const char *name, size_t len,
			  struct shoal_err *err)
{
	uint8_t unit[SHOAL_NAME_MAX + 64];
	uint32_t unit_len = (uint32_t)store_unit(store, name, len, unit);
	int rc = 0;

	b->nr_directories++;
	if (unit_len == 0) /* that would be all of the store */
		return shoal_fail(err, -ENOTSUP, "this store has no directories");
	if (sizeof(b->units) - b->units_fill < sizeof(unit_len) + unit_len)
		rc = make_room(b, err);
	if (rc < 0)
		return rc;
	memcpy(b->units + b->units_fill, &unit_len, sizeof(unit_len));
	memcpy(b->units + b->units_fill + sizeof(unit_len), unit, unit_len);
	b->units_fill += sizeof(unit_len) + unit_len;
	return 0;
}

/* All that lies in the directory goes into the batch. */
static int take_all(const struct index_update *u, const struct store_dir *dir, struct batch *b,
		    struct shoal_store *store, struct shoal_err *err)
{
	char copy[SHOAL_NAME_MAX + 2];
	struct below from;
	const char *name;
	uint64_t id;
	size_t len;
	int rc = below_open(&from, u->old, dir);

	while (rc == 0 && (rc = below_next(&from, &name, &len, &id)) > 0) {
		bool is_file = rc == 1;

		rc = is_file ? take_file(b, &from, name, len, id, err)
			     : take_directory(b, store, name, len, err);
		if (rc == 0 && !is_file)
			rc = step_over(&from, name, len, copy);
	}
	shoal_cursor_free(from.cursor);
	return rc;
}

/* Something is wrong with the old catalog. */
static int explain(const struct index_update *u, int rc, struct shoal_err *err)
{
	struct shoal_err why = { "" };

	shoal_catalog_explain(u->old, rc, &why);
	return shoal_fail(err, rc, "cannot update '%s': %s", u->path, why.msg);
}

/*
 * 1 when the sink has got all that OLD has of the directory, 0 when it must be read. Most are small
 * and are looked up once, then sent; others are counted first.
 */
static int take_unchanged(const struct index_update *u, struct shoal_store *store,
			  const struct store_dir *dir, struct batch *b, struct shoal_err *err)
{
	uint64_t nr_directories;
	bool any;
	int rc;

	batch_clear(b, /* holding= */ true);
	rc = take_all(u, dir, b, store, err);
	nr_directories = b->nr_directories;
	any = b->nr_names + b->nr_directories > 0;
	if (rc == -ENOBUFS) {
		batch_clear(b, /* holding= */ false);
		rc = count_directories(u->old, dir, &nr_directories, &any);
	}
	/* Of a directory that OLD has nothing of it cannot be told whether OLD had seen it. */
	if (rc < 0 || nr_directories != dir->nr_directories || !any)
		return rc;
	if (!b->holding)
		rc = take_all(u, dir, b, store, err);
	if (rc == 0)
		rc = send(b, err);
	return rc < 0 ? rc : 1;
}

int index_update_take(struct index_update *u, struct shoal_store *store, struct store_sink *sink,
		      const struct store_dir *dir, struct shoal_err *err)
{
	uint64_t margin = dir->coarse ? COARSE_NS : FINE_NS;
	struct batch *b;
	int rc;

	if (dir->changed + margin > u->started)
		return 0;
	/* Nothing in it changed, but it did: it may come from elsewhere, with all that is below. */
	if (dir->moved + margin > u->started)
		return 2;
	if (dir->nr_directories == UINT64_MAX)
		return 0;
	b = malloc(sizeof(*b));
	if (!b)
		return shoal_fail(err, -ENOMEM, "out of memory");
	b->sink = sink;
	rc = take_unchanged(u, store, dir, b, err);
	if (rc == 1) {
		__atomic_add_fetch(&u->nr_directories, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&u->nr_names, b->nr_names, __ATOMIC_RELAXED);
	}
	free(b);
	return rc == -EBADMSG || rc == -ESTALE ? explain(u, rc, err) : rc;
}
