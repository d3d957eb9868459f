/* Iterate over names in order. A FRONT segment is expanded once, not once per name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "catalog/catalog.h"
#include "catalog/writer.h"

struct shoal_cursor {
	const struct shoal_catalog *cat;
	uint64_t id; /* next */
	struct cat_segment seg;
	bool has_seg;
	struct span raw; /* of a FRONT segment: the bytes after the name in buf */
	size_t len;      /* of the name in buf */
	uint8_t buf[SHOAL_NAME_MAX + 1];
	uint8_t raw_bytes[CAT_FRONT_RAW_MAX];
};

int shoal_cursor_new(const struct shoal_catalog *cat, uint64_t id, struct shoal_cursor **ret_cursor,
		     struct shoal_err *err)
{
	struct shoal_cursor *c;

	if (id > cat->view.nr_files)
		return shoal_catalog_explain(cat, -ERANGE, err);
	c = malloc(sizeof(*c));
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->cat = cat;
	c->id = id;
	c->has_seg = false;
	*ret_cursor = c;
	return 0;
}

struct shoal_cursor *shoal_cursor_free(struct shoal_cursor *cursor)
{
	free(cursor);
	return NULL;
}

/* Move to just before name @i of the segment, which has just been loaded. */
static int enter_front(struct shoal_cursor *c, uint64_t i)
{
	int n = cat_front_expand(&c->seg, c->raw_bytes);

	if (n < 0)
		return n;
	c->raw = (struct span){ .p = c->raw_bytes, .end = c->raw_bytes + n };
	memcpy(c->buf, c->seg.first, c->seg.first_len);
	c->len = c->seg.first_len;
	for (uint64_t k = 1; k < i; k++)
		if (cat_front_step(&c->raw, c->buf, &c->len) < 0)
			return cat_segment_bad(&c->seg, "a block of names is truncated");
	return 0;
}

static int enter_segment(struct shoal_cursor *c)
{
	const struct cat_view *v = &c->cat->view;
	uint64_t number;
	int rc;

	if (c->has_seg) {
		number = c->seg.number + 1;
	} else {
		rc = cat_segment_of_id(v, c->id, &number);
		if (rc < 0)
			return rc;
	}
	rc = cat_segment_load(v, c->cat->dicts, number, &c->seg);
	if (rc < 0)
		return rc;
	c->has_seg = false;
	if (c->id < c->seg.first_id || c->id - c->seg.first_id >= c->seg.nr)
		return cat_damaged(v, CAT_NDIR, 0, "entries are not ascending");
	rc = c->seg.kind == CAT_FRONT ? enter_front(c, c->id - c->seg.first_id) : 0;
	c->has_seg = rc == 0; /* otherwise the next call enters again */
	return rc;
}

static int cursor_step(struct shoal_cursor *c)
{
	uint64_t i;
	int rc;

	if (!c->has_seg || c->id - c->seg.first_id >= c->seg.nr) {
		rc = enter_segment(c);
		if (rc < 0)
			return rc;
	}
	i = c->id - c->seg.first_id;
	if (c->seg.kind != CAT_FRONT) {
		rc = cat_segment_name(&c->seg, i, c->buf);
		c->len = rc < 0 ? 0 : (size_t)rc;
		return rc;
	}
	if (i > 0 && cat_front_step(&c->raw, c->buf, &c->len) < 0) {
		c->has_seg = false; /* the next call must not continue past the damage */
		return cat_segment_bad(&c->seg, "a block of names is truncated");
	}
	return 0;
}

int catalog_cursor_skip(struct shoal_cursor *cursor, uint64_t most, uint64_t *ret_nr)
{
	const struct cat_segment *seg = &cursor->seg;
	uint64_t nr;
	int rc = cat_segment_siblings(seg, cursor->id - 1 - seg->first_id, &nr);

	if (rc < 0)
		return rc;
	nr = u64_min(nr, most);
	cursor->id += nr - 1; /* names of its kind are found by their numbers */
	*ret_nr = nr;
	return 0;
}

int shoal_cursor_next(struct shoal_cursor *cursor, const char **ret_name, size_t *ret_len)
{
	int rc;

	if (cursor->id >= cursor->cat->view.nr_files)
		return 0;
	rc = cursor_step(cursor);
	if (cat_is_stale(cursor->cat))
		return -ESTALE;
	if (rc < 0)
		return rc;
	cursor->buf[cursor->len] = '\0';
	cursor->id++;
	*ret_name = (const char *)cursor->buf;
	*ret_len = cursor->len;
	return 1;
}
