/*
 * Figures about a list, in memory that does not depend on its length.
 *
 * Names come in order, so all files of a folder come together: one counter and a table of the
 * largest so far give the largest folders. Extensions are mixed: they are counted in a table of
 * 4096 entries; once it is full, all others are counted together.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/bits.h"
#include "list/list.h"

#define EXTENSIONS    4096u
#define EXTENSION_MAX 16u /* bytes, including the dot; anything longer is not an extension */
#define SLOTS         8192u

struct stat_extension {
	char name[EXTENSION_MAX + 1];
	uint64_t nr_files, nr_bytes;
};

struct list_stat {
	struct shoal_stat *out;
	bool sizes;
	unsigned depth;
	/* The folder of the current names. */
	char folder[SHOAL_NAME_MAX + 1];
	size_t folder_len;
	uint64_t folder_files, folder_bytes;
	uint64_t root_files,
		root_bytes;   /* of files outside of all folders, which come between folders */
	uint16_t slot[SLOTS]; /* by the hash of an extension: its number plus one */
	struct stat_extension extension[EXTENSIONS];
};

/* ---- The largest ---- */

static uint64_t row_weight(const struct list_stat *s, const struct shoal_stat_row *row)
{
	return s->sizes ? row->nr_bytes : row->nr_files;
}

/* Insert a row into a sorted table of the largest; equal rows stay in the order of insertion. */
static int stat_put_row(const struct list_stat *s, struct shoal_stat_row *rows, size_t *nr,
			const char *name, size_t len, struct shoal_stat_row row)
{
	size_t at = *nr;

	while (at > 0 && row_weight(s, &rows[at - 1]) < row_weight(s, &row))
		at--;
	if (at == SHOAL_STAT_TOP)
		return 0;
	row.name = strndup(name, len);
	if (!row.name)
		return -ENOMEM;
	if (*nr == SHOAL_STAT_TOP)
		free(rows[--*nr].name);
	memmove(&rows[at + 1], &rows[at], (*nr - at) * sizeof(rows[0]));
	rows[at] = row;
	(*nr)++;
	return 0;
}

/* ---- Folders ---- */

static int stat_end_folder(struct list_stat *s)
{
	struct shoal_stat_row row = { .nr_files = s->folder_files, .nr_bytes = s->folder_bytes };

	if (s->folder_len == 0)
		return 0;
	s->out->nr_folders++;
	return stat_put_row(s, s->out->folder, &s->out->nr_folder_rows, s->folder, s->folder_len,
			    row);
}

/*
 * How many bytes of the name are its folder of up to @depth components, without a slash at its end.
 */
static size_t folder_of(const char *name, size_t len, unsigned depth, uint64_t *ret_depth)
{
	size_t folder = 0;
	uint64_t slashes = 0;

	for (size_t i = 0; i < len; i++)
		if (name[i] == '/' && slashes++ < depth)
			folder = i;
	*ret_depth = slashes;
	return folder;
}

/*
 * Files directly in a folder of a smaller depth than requested come between its subfolders, so the
 * folder may be counted in several parts; these are added up if it is still in the table.
 */
static int stat_begin_folder(struct list_stat *s, const char *name, size_t len)
{
	struct shoal_stat *out = s->out;
	int rc = stat_end_folder(s);

	if (rc < 0)
		return rc;
	s->folder_files = s->folder_bytes = 0;
	s->folder_len = len;
	memcpy(s->folder, name, len);
	s->folder[len] = '\0';
	for (size_t i = 0; i < out->nr_folder_rows; i++) {
		struct shoal_stat_row row = out->folder[i];

		if (strcmp(row.name, s->folder) != 0)
			continue;
		s->folder_files = row.nr_files;
		s->folder_bytes = row.nr_bytes;
		free(row.name);
		out->nr_folder_rows--;
		out->nr_folders--;
		memmove(&out->folder[i], &out->folder[i + 1],
			(out->nr_folder_rows - i) * sizeof(row));
		break;
	}
	return 0;
}

/* ---- Extensions ---- */

/* From the last dot of the last component on; "" if there is none. */
static size_t extension_of(const char *name, size_t len, const char **ret_extension)
{
	const char *slash = memrchr(name, '/', len), *base = slash ? slash + 1 : name;
	const char *dot = memrchr(base, '.', (size_t)(name + len - base));
	size_t found = dot && dot > base ? (size_t)(name + len - dot) : 0;

	*ret_extension = dot;
	return found > 1 && found <= EXTENSION_MAX ? found : 0;
}

static void stat_count_extension(struct list_stat *s, const struct list_entry *e)
{
	const char *text;
	size_t len = extension_of((const char *)e->name, e->len, &text);
	size_t at = (size_t)(len ? XXH3_64bits(text, len) : 0) % SLOTS;
	struct stat_extension *x = NULL;

	for (; s->slot[at]; at = (at + 1) % SLOTS) {
		x = &s->extension[s->slot[at] - 1];
		if (strlen(x->name) == len && memcmp(x->name, len ? text : "", len) == 0)
			break;
	}
	if (!s->slot[at]) {
		if (s->out->nr_extensions == EXTENSIONS) {
			s->out->nr_other_extensions++;
			return;
		}
		s->slot[at] = (uint16_t)++s->out->nr_extensions;
		x = &s->extension[s->slot[at] - 1];
		if (len > 0)
			memcpy(x->name, text, len);
	}
	x->nr_files++;
	x->nr_bytes += s->sizes ? e->size : 0;
}

static int stat_rank_extensions(struct list_stat *s)
{
	int rc = 0;

	for (size_t i = 0; i < s->out->nr_extensions && rc == 0; i++) {
		const struct stat_extension *x = &s->extension[i];
		struct shoal_stat_row row = { .nr_files = x->nr_files, .nr_bytes = x->nr_bytes };

		rc = stat_put_row(s, s->out->extension, &s->out->nr_extension_rows, x->name,
				  strlen(x->name), row);
	}
	return rc;
}

/* ---- All files ---- */

static int stat_count_size(struct list_stat *s, const struct list_entry *e)
{
	struct shoal_stat *out = s->out;
	struct shoal_stat_row row = { .nr_files = 1, .nr_bytes = e->size };
	unsigned bin = e->size ? 64u - (unsigned)__builtin_clzll(e->size) : 0;

	if (!s->sizes)
		return 0;
	out->sizes[bin]++;
	out->bytes[bin] += e->size;
	out->totals.nr_bytes += e->size;
	out->min_size = u64_min(out->min_size, e->size);
	out->max_size = u64_max(out->max_size, e->size);
	return stat_put_row(s, out->largest, &out->nr_largest, (const char *)e->name, e->len, row);
}

static int stat_count(struct list_stat *s, const struct list_entry *e)
{
	struct shoal_stat *out = s->out;
	const char *name = (const char *)e->name;
	uint64_t depth;
	size_t folder = folder_of(name, e->len, s->depth, &depth);
	int rc = 0;

	if (folder == 0) {
		s->root_files++;
		s->root_bytes += s->sizes ? e->size : 0;
	} else {
		if (folder != s->folder_len || memcmp(name, s->folder, folder) != 0)
			rc = stat_begin_folder(s, name, folder);
		s->folder_files++;
		s->folder_bytes += s->sizes ? e->size : 0;
	}
	out->totals.nr_files++;
	out->totals.nr_samples += e->samples;
	out->depth[u64_min(depth, SHOAL_STAT_DEPTH - 1)]++;
	out->max_depth = u64_max(out->max_depth, depth);
	out->longest_name = u64_max(out->longest_name, e->len);
	stat_count_extension(s, e);
	return rc < 0 ? rc : stat_count_size(s, e);
}

void shoal_stat_release(struct shoal_stat *stat)
{
	for (size_t i = 0; i < stat->nr_folder_rows; i++)
		free(stat->folder[i].name);
	for (size_t i = 0; i < stat->nr_extension_rows; i++)
		free(stat->extension[i].name);
	for (size_t i = 0; i < stat->nr_largest; i++)
		free(stat->largest[i].name);
	stat->nr_folder_rows = stat->nr_extension_rows = stat->nr_largest = 0;
}

static int stat_finish(struct list_stat *s)
{
	struct shoal_stat *out = s->out;
	struct shoal_stat_row root = { .nr_files = s->root_files, .nr_bytes = s->root_bytes };
	int rc = stat_end_folder(s);

	if (rc == 0 && s->root_files > 0) {
		out->nr_folders++;
		rc = stat_put_row(s, out->folder, &out->nr_folder_rows, "", 0, root);
	}
	if (rc == 0)
		rc = stat_rank_extensions(s);
	if (!s->sizes || out->totals.nr_files == 0)
		out->min_size = 0;
	if (!s->sizes)
		out->totals.nr_bytes = SHOAL_SIZE_UNKNOWN;
	return rc;
}

int shoal_list_stat(struct shoal_list *list, unsigned depth, struct shoal_stat *ret_stat,
		    struct shoal_err *err)
{
	struct list_stat *s = calloc(1, sizeof(*s));
	struct shoal_stat *out = calloc(1, sizeof(*out));
	struct list_entry e;
	int rc = s && out ? 0 : err_set(err, -ENOMEM, "out of memory"), counted;

	if (rc == 0) {
		out->min_size = UINT64_MAX;
		s->out = out;
		s->sizes = list->info.sizes;
		s->depth = depth ? depth : 1;
		while ((rc = list_step(list, &e, err)) > 0) {
			counted = stat_count(s, &e);
			if (counted < 0) {
				rc = err_set(err, counted, "out of memory");
				break;
			}
		}
		if (rc == 0 && stat_finish(s) < 0)
			rc = err_set(err, -ENOMEM, "out of memory");
		if (rc == 0)
			*ret_stat = *out;
		else
			shoal_stat_release(out);
	}
	free(s);
	free(out);
	return rc;
}
