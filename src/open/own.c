#include "open/own.h"

#include <stdio.h>
#include <string.h>

#include "base/mark.h"
#include "base/results.h"
#include "catalog/catalog_format.h"
#include "catalog/sidecar_format.h"

#define MAGIC_LEN (sizeof(CAT_MAGIC) - 1)

_Static_assert(sizeof(CAT_MAGIC) == sizeof(SIDE_MAGIC) &&
		       sizeof(CAT_MAGIC) == sizeof(MARK_OF_OPLOG),
	       "one read is enough for all");

static bool own_ends_in(const char *name, size_t len, const char *end)
{
	size_t end_len = strlen(end);

	return len >= end_len && memcmp(name + len - end_len, end, end_len) == 0;
}

static bool own_has_magic(struct store *store, const char *name)
{
	static const char *const magics[] = { CAT_MAGIC, SIDE_MAGIC, MARK_OF_OPLOG };
	char head[MAGIC_LEN];

	if (store_read(store, name, 0, head, MAGIC_LEN, NULL) != (int64_t)MAGIC_LEN)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(magics); i++)
		if (memcmp(head, magics[i], MAGIC_LEN) == 0)
			return true;
	return false;
}

static bool own_has_mark(struct store *store, const char *name, const char *mark)
{
	char head[MARK_WITHIN];
	int64_t got = store_read(store, name, 0, head, sizeof(head), NULL);

	return got > 0 && memmem(head, (size_t)got, mark, strlen(mark));
}

/* Whether a file with one of these names begins as Shoal's do. */
static bool own_is_marked(struct store *store, const char *name, size_t len)
{
	static const char *const endings[] = { ".cat", ".col", ".shoal", MARK_END_OF_OPLOG };

	for (size_t i = 0; i < ARRAY_LEN(endings); i++)
		if (own_ends_in(name, len, endings[i]))
			return own_has_magic(store, name);
	if (own_ends_in(name, len, MARK_END_OF_TRACE))
		return own_has_mark(store, name, MARK_OF_TRACE);
	return own_ends_in(name, len, MARK_END_OF_PAGE) && own_has_mark(store, name, MARK_OF_PAGE);
}

/* ---- Folders of results ---- */

/* The file with which a command begins a folder: how it starts, and what a line near that has. */
struct own_begun {
	const char *name, *start, *line;
};

static const struct own_begun own_begin = { RESULTS_BEGIN, "{\n\"command\": \"",
					    "\n\"hostname\": \"" },
			      own_plan = { RESULTS_PLAN, "{\n\"version\": \"", "\n\"command\": [" };

/*
 * Whether the folder, the first @folder bytes of @name, has such a file. Keys alone say little:
 * a dataset of episodes may have a begin.json with each.
 */
static bool own_has_begun(struct store *store, const char *name, size_t folder,
			  const struct own_begun *mark)
{
	char text[SHOAL_NAME_MAX + 1], head[MARK_WITHIN];
	size_t len = strlen(mark->start);
	int64_t got;

	if (folder + strlen(mark->name) > SHOAL_NAME_MAX)
		return false;
	memcpy(text, name, folder);
	memcpy(text + folder, mark->name, strlen(mark->name) + 1);
	got = store_read(store, text, 0, head, sizeof(head), NULL);
	return got > (int64_t)len && memcmp(head, mark->start, len) == 0 &&
	       memmem(head, (size_t)got, mark->line, strlen(mark->line));
}

/*
 * Results are written to directories only, so no request to a bucket is made for objects that are
 * called as they are.
 */
static bool own_is_result(struct store *store, const char *name, size_t len)
{
	size_t folder = 0;
	unsigned needs = store->traits.files ? results_look(name, len, &folder) : RESULTS_NONE;

	return ((needs & RESULTS_NEEDS_BEGIN) && own_has_begun(store, name, folder, &own_begin)) ||
	       ((needs & RESULTS_NEEDS_PLAN) && own_has_begun(store, name, folder, &own_plan));
}

/* ---- Lists of a manifest ---- */

/* For DIR/train_epoch0000_rank00000.txt: whether there is DIR/.train.shoal-manifest. */
static bool own_has_note(struct store *store, const char *name, size_t len)
{
	size_t prefix = path_list_prefix(name, len), dir = prefix;
	char note[SHOAL_NAME_MAX + 32];
	struct store_stat st;

	if (prefix == 0)
		return false;
	while (dir > 0 && name[dir - 1] != '/')
		dir--;
	snprintf(note, sizeof(note), "%.*s.%.*s" PATH_NOTE_OF_LISTS, (int)dir, name,
		 (int)(prefix - dir), name + dir);
	return strlen(note) <= SHOAL_NAME_MAX && store_stat(store, note, &st, NULL) == 0;
}

bool open_look_own(struct store *store, const char *name, size_t len)
{
	char text[SHOAL_NAME_MAX + 1];

	if (path_is_own(name, len))
		return true;
	if (own_ends_in(name, len, ".txt"))
		return own_has_note(store, name, len);
	if (len > SHOAL_NAME_MAX)
		return false;
	memcpy(text, name, len);
	text[len] = '\0';
	return own_is_marked(store, text, len) || own_is_result(store, text, len);
}
