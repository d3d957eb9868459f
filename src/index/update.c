#include "index/update.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "catalog/writer.h"
#include "index/record.h"
#include "index/walk.h"

/* How much older than the listing a change must be to be included: clocks have steps. */
#define FINE_NS   UINT64_C(100000000)
#define COARSE_NS UINT64_C(3000000000)

/*
 * Entries passed to the walk at a time, and the bytes of entries from which on a directory is
 * counted first.
 */
#define TAKEN_AT_ONCE 256u
#define HELD_BYTES    (48u << 10)

int index_update_open(struct index_update *u, const char *path,
		      const struct shoal_catalog_options *how,
		      const struct index_provenance *listing, const char *root, uint64_t samples,
		      struct shoal_err *err)
{
	struct index_provenance was = { 0 };
	struct shoal_catalog_info info;
	struct shoal_err why = { "" };
	const char *text;
	size_t len;
	int rc;

	*u = (struct index_update){ .path = path, .samples = samples };
	if (listing->follow) /* links may lead to directories whose times cannot be used here */
		return err_set(err, -EINVAL,
			       "a catalog cannot be updated while symbolic links are followed");
	rc = shoal_catalog_open_with(path, how, &u->old, &why);
	if (rc == 0) {
		rc = catalog_listing(u->old, &text, &len);
		if (rc < 0)
			shoal_catalog_explain(u->old, rc, &why);
	}
	if (rc == 0)
		rc = index_provenance_parse(text, len, &was, &why);
	if (rc < 0) {
		index_update_release(u);
		return err_set_as(err, rc, &why, "cannot update '%s': %s", path, why.msg);
	}
	shoal_catalog_info(u->old, &info);
	if (strcmp(info.root, root) != 0)
		rc = err_set(err, -EINVAL, "cannot update '%s': it lists '%.300s', not '%.300s'",
			     path, info.root, root);
	else if (was.inode && listing->inode && was.inode != listing->inode)
		rc = err_set(err, -EINVAL,
			     "cannot update '%s': the directory is no longer the same (it was "
			     "replaced, or something is mounted there): make a new catalog",
			     path);
	else if (was.nr_foreign > 0)
		rc = err_set(err, -EINVAL,
			     "cannot update '%s': it spans several file systems, and what was "
			     "mounted then is unknown: make a new catalog, or one per file "
			     "system",
			     path);
	else if (was.nr_unreadable > 0)
		rc = err_set(err, -EINVAL,
			     "cannot update '%s': %" PRIu64
			     " item%s could not be read when it was made: make a new catalog",
			     path, was.nr_unreadable, plural(was.nr_unreadable));
	else if (!index_provenance_same(&was, listing))
		rc = err_set(err, -EINVAL,
			     "cannot update '%s': it was made with other options (sizes, "
			     "patterns or file systems)",
			     path);
	u->started = was.started;
	u->knows_insides = info.extents && listing->samples && was.samples &&
			   strcmp(was.samples, listing->samples) == 0;
	index_provenance_release(&was);
	if (rc < 0)
		index_update_release(u);
	return rc;
}

void index_update_release(struct index_update *u)
{
	u->old = shoal_catalog_close(u->old);
}

/* ---- The contents of a directory ---- */

/* The names of the old catalog below a directory, one part of a name at a time. */
struct below {
	const struct shoal_catalog *cat;
	struct shoal_cursor *cursor;
	uint64_t id; /* of the name that comes next */
	bool held;   /* the name that comes next is this one, which the cursor has returned already;
			of no bytes at the end */
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

/* Files of one entry: few enough that entries can be shared out among threads and ranks. */
#define STRETCH_MAX 4096u

/* 1 for a file (*@ret_id is its id), 2 for a directory, whose files are then skipped, or 0 at
 * the end. The name is lent until the next call. */
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

/* After a file: step over those after it that surely are in the same directory. Sets *@ret_nr to
 * how many these are with the first. */
static int below_skip(struct below *b, uint64_t *ret_nr)
{
	int rc = catalog_cursor_skip(b->cursor, STRETCH_MAX, ret_nr);

	if (rc == 0)
		b->id += *ret_nr - 1;
	return rc;
}

/* Seeking takes as long as this many steps. */
#define STEPS_MAX 200u

/* Skip everything below the directory @name, which is copied first, because the cursor owns it. */
static int update_step_over(struct below *b, const char *name, size_t len, char *copy)
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

/* How many directories it has, and whether it has any entries. */
static int count_directories(const struct shoal_catalog *cat, const struct store_dir *dir,
			     uint64_t *ret_nr, bool *ret_any)
{
	char copy[SHOAL_NAME_MAX + 2];
	const char *name;
	struct below b;
	uint64_t id, nr;
	size_t len;
	int rc = below_open(&b, cat, dir);

	*ret_nr = 0;
	*ret_any = false;
	while (rc == 0 && (rc = below_next(&b, &name, &len, &id)) > 0) {
		*ret_nr += rc == 2;
		*ret_any = true;
		rc = rc == 2 ? update_step_over(&b, name, len, copy) : below_skip(&b, &nr);
	}
	shoal_cursor_free(b.cursor);
	return rc;
}

/* ---- Handing it over ---- */

/* Packed entries, and directories, for the walk. */
struct update_batch {
	struct index_update *update;
	struct store_sink *sink;
	bool holding; /* set until it is known that the directory has not changed */
	uint64_t nr_names, nr_directories;
	uint64_t nr_sent;          /* of the names */
	struct index_stretch last; /* the last entry, if it is a stretch; otherwise of no files */
	size_t fill, units_fill;
	uint8_t bytes[HELD_BYTES];
	uint8_t units[8 * (SHOAL_NAME_MAX + 64)]; /* a list of directories */
};

static void batch_clear(struct update_batch *b, bool holding)
{
	b->holding = holding;
	b->nr_names = b->nr_directories = b->nr_sent = 0;
	b->last.nr = 0;
	b->fill = b->units_fill = 0;
}

static int send(struct update_batch *b, struct shoal_err *err)
{
	struct span units = { .p = b->units, .end = b->units + b->units_fill };
	const uint8_t *at = b->bytes, *end = b->bytes + b->fill;
	struct sort_entry entry[TAKEN_AT_ONCE];
	struct index_unit_ref ref;
	uint64_t nr_names = b->nr_names - b->nr_sent; /* reported with the first entries */
	size_t nr;
	int rc = 0;

	while (rc == 0 && (nr = pack_entries(&at, end, entry, TAKEN_AT_ONCE)) > 0) {
		rc = index_walk_add(b->sink, entry, nr, nr_names, err);
		nr_names = 0;
	}
	b->nr_sent = b->nr_names;
	b->last.nr = 0;
	while (rc == 0 && index_unit_next(&units, &ref) > 0)
		rc = b->sink->add_unit(b->sink, ref.unit, ref.len, err);
	b->fill = b->units_fill = 0;
	return rc;
}

/* There is no room for more: -ENOBUFS if the batch must not be sent yet. */
static int update_make_room(struct update_batch *b, struct shoal_err *err)
{
	return b->holding ? -ENOBUFS : send(b, err);
}

static int update_put(struct update_batch *b, const char *name, size_t len, const uint8_t *payload,
		      size_t payload_len, struct shoal_err *err)
{
	struct sort_entry e = { .name = (const uint8_t *)name,
				.len = len,
				.payload = payload,
				.payload_len = payload_len };
	int rc = 0;

	/* No listing makes such names, but other programs write catalogs, too. */
	if (memchr(name, 0, len))
		return err_set(err, -EINVAL, "a name in the old catalog contains a NUL byte");
	if (sizeof(b->bytes) - b->fill < PACK_ENTRY_MAX)
		rc = update_make_room(b, err);
	if (rc == 0)
		b->fill = (size_t)(pack_put(b->bytes + b->fill, &e) - b->bytes);
	return rc;
}

static int take_file(struct update_batch *b, const struct below *from, const char *name, size_t len,
		     uint64_t id, struct shoal_err *err)
{
	struct index_record record = { .samples = b->update->samples };
	uint8_t payload[INDEX_RECORD_MAX];
	int rc = shoal_catalog_size(from->cat, id, &record.size);

	if (rc == 0)
		rc = update_put(b, name, len, payload, index_record_put(&record, payload), err);
	b->nr_names += rc == 0;
	return rc;
}

/* Take @nr files from @id on, the first of which is @name. */
static int take_stretch(struct update_batch *b, const char *name, size_t len, uint64_t id,
			uint64_t nr, struct shoal_err *err)
{
	struct index_stretch *last = &b->last;
	uint8_t payload[INDEX_STRETCH_LEN];
	int rc = 0;

	if (last->nr > 0 && last->first + last->nr == id && last->nr + nr <= STRETCH_MAX) {
		last->nr += nr;
		index_stretch_put(last, b->bytes + b->fill - INDEX_STRETCH_LEN);
	} else {
		struct index_stretch next = { .first = id, .nr = nr };

		rc = update_put(b, name, len, payload, index_stretch_put(&next, payload), err);
		*last = next;
	}
	b->nr_names += rc == 0 ? nr : 0;
	return rc;
}

static int update_take_files(struct update_batch *b, struct below *from, const char *name,
			     size_t len, uint64_t id, struct shoal_err *err)
{
	char copy[SHOAL_NAME_MAX];
	uint64_t nr;
	int rc;

	if (b->update->one_by_one)
		return take_file(b, from, name, len, id, err);
	memcpy(copy, name, len); /* the cursor owns it, and moves */
	rc = below_skip(from, &nr);
	return rc < 0 ? rc : take_stretch(b, copy, len, id, nr, err);
}

static int take_directory(struct update_batch *b, struct store *store, const char *name, size_t len,
			  struct shoal_err *err)
{
	uint8_t unit[SHOAL_NAME_MAX + 64];
	size_t unit_len = store_unit(store, name, len, unit);
	int rc = 0;

	b->nr_directories++;
	if (unit_len == 0) /* that would be the whole store */
		return err_set(err, -ENOTSUP, "this store has no directories");
	if (sizeof(b->units) - b->units_fill < INDEX_UNIT_HEAD + unit_len)
		rc = update_make_room(b, err);
	if (rc < 0)
		return rc;
	index_unit_put(b->units + b->units_fill, unit, unit_len);
	b->units_fill += INDEX_UNIT_HEAD + unit_len;
	return 0;
}

/* Add everything in the directory to the batch. */
static int update_take_all(const struct index_update *u, const struct store_dir *dir,
			   struct update_batch *b, struct store *store, struct shoal_err *err)
{
	char copy[SHOAL_NAME_MAX + 2];
	struct below from;
	const char *name;
	uint64_t id;
	size_t len;
	int rc = below_open(&from, u->old, dir);

	while (rc == 0 && (rc = below_next(&from, &name, &len, &id)) > 0) {
		bool is_file = rc == 1;

		rc = is_file ? update_take_files(b, &from, name, len, id, err)
			     : take_directory(b, store, name, len, err);
		if (rc == 0 && !is_file)
			rc = update_step_over(&from, name, len, copy);
	}
	shoal_cursor_free(from.cursor);
	return rc;
}

/* The old catalog is damaged or cannot be read. */
static int update_explain(const struct index_update *u, int rc, struct shoal_err *err)
{
	struct shoal_err why = { "" };

	shoal_catalog_explain(u->old, rc, &why);
	return err_set_as(err, rc, &why, "cannot update '%s': %s", u->path, why.msg);
}

/*
 * 1 if the sink has received everything that OLD has of the directory, 0 if it must be read. Most
 * directories are small and are looked up once, then sent; others are counted first.
 */
static int take_unchanged(const struct index_update *u, struct store *store,
			  const struct store_dir *dir, struct update_batch *b,
			  struct shoal_err *err)
{
	uint64_t nr_directories;
	bool any;
	int rc;

	batch_clear(b, /* holding= */ true);
	rc = update_take_all(u, dir, b, store, err);
	nr_directories = b->nr_directories;
	any = b->nr_names + b->nr_directories > 0;
	if (rc == -ENOBUFS) {
		batch_clear(b, /* holding= */ false);
		rc = count_directories(u->old, dir, &nr_directories, &any);
	}
	/* For a directory of which OLD has nothing, it is unknown whether OLD had seen it. */
	if (rc < 0 || nr_directories != dir->nr_directories || !any)
		return rc;
	if (!b->holding)
		rc = update_take_all(u, dir, b, store, err);
	if (rc == 0)
		rc = send(b, err);
	return rc < 0 ? rc : 1;
}

int index_update_take(struct index_update *u, struct store *store, struct store_sink *sink,
		      const struct store_dir *dir, struct shoal_err *err)
{
	uint64_t margin = dir->coarse ? COARSE_NS : FINE_NS;
	struct update_batch *b;
	int rc;

	if (dir->changed + margin > u->started)
		return 0;
	/*
	 * Its contents have not changed, but the directory itself has: it may have been moved here,
	 * with everything below it.
	 */
	if (dir->moved + margin > u->started)
		return 2;
	if (dir->nr_directories == UINT64_MAX)
		return 0;
	b = malloc(sizeof(*b));
	if (!b)
		return err_set(err, -ENOMEM, "out of memory");
	b->update = u;
	b->sink = sink;
	rc = take_unchanged(u, store, dir, b, err);
	if (rc == 1) {
		__atomic_add_fetch(&u->nr_directories, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&u->nr_names, b->nr_names, __ATOMIC_RELAXED);
	}
	free(b);
	return rc == -EBADMSG || rc == -ESTALE ? update_explain(u, rc, err) : rc;
}
