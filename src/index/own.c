#include "index/own.h"

#include <stdio.h>
#include <string.h>

#include "catalog/catalog_format.h"
#include "catalog/sidecar_format.h"

#define MAGIC_LEN (sizeof(CAT_MAGIC) - 1)

_Static_assert(sizeof(CAT_MAGIC) == sizeof(SIDE_MAGIC), "one read is enough for both");

static bool own_ends_in(const char *name, size_t len, const char *end)
{
	size_t end_len = strlen(end);

	return len > end_len && memcmp(name + len - end_len, end, end_len) == 0;
}

static bool own_has_magic(struct store *store, const char *name)
{
	char head[MAGIC_LEN];

	return store_read(store, name, 0, head, MAGIC_LEN, NULL) == (int64_t)MAGIC_LEN &&
	       (memcmp(head, CAT_MAGIC, MAGIC_LEN) == 0 ||
		memcmp(head, SIDE_MAGIC, MAGIC_LEN) == 0);
}

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

bool index_look_own(struct store *store, const char *name, size_t len)
{
	char text[SHOAL_NAME_MAX + 1];

	if (path_is_own(name, len))
		return true;
	if (own_ends_in(name, len, ".txt"))
		return own_has_note(store, name, len);
	if (len > SHOAL_NAME_MAX ||
	    !(own_ends_in(name, len, ".cat") || own_ends_in(name, len, ".col") ||
	      own_ends_in(name, len, ".shoal")))
		return false;
	memcpy(text, name, len);
	text[len] = '\0';
	return own_has_magic(store, text);
}
