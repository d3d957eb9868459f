#include "catalog/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/out.h"
#include "base/path.h"
#include "base/publish.h"
#include "base/span.h"

#define RUN_MAX 40u /* bytes: four varints */

void cat_layout_clear(struct cat_layout *l)
{
	struct buf runs = l->runs;

	if (l->fd >= 0)
		close(l->fd);
	XXH3_freeState(l->hash);
	if (runs.cap > CAT_LAYOUT_MEMORY) /* see spill_runs() */
		buf_release(&runs);
	buf_clear(&runs);
	runs.max = CAT_LAYOUT_MEMORY;
	*l = (struct cat_layout){ .runs = runs, .tmp_dir = l->tmp_dir, .fd = -1 };
}

void cat_layout_release(struct cat_layout *l)
{
	cat_layout_clear(l);
	buf_release(&l->runs);
}

/* ---- Collecting ---- */

static int layout_open_file(struct cat_layout *l)
{
	if (!l->hash)
		l->hash = XXH3_createState();
	if (!l->hash)
		return -ENOMEM;
	XXH3_128bits_reset(l->hash);
	l->fd = spill_open(path_tmp_dir(l->tmp_dir), NULL);
	return l->fd < 0 ? l->fd : 0;
}

/*
 * Move the buffer's bytes to the file. There may be a layout for each of thousands of files: if no
 * descriptor is free, the buffer grows instead, until one is.
 */
static void spill_runs(struct cat_layout *l)
{
	struct buf *b = &l->runs;

	if (l->fd < 0)
		b->rc = layout_open_file(l);
	if (b->rc == -EMFILE || b->rc == -ENFILE) {
		b->max += CAT_LAYOUT_MEMORY;
		b->rc = 0;
		return;
	}
	if (b->rc == 0)
		b->rc = pwrite_all(l->fd, b->data, b->len, l->nr_spilled);
	if (b->rc < 0)
		return;
	XXH3_128bits_update(l->hash, b->data, b->len);
	l->nr_spilled += b->len;
	b->len = 0;
}

static void end_run(struct cat_layout *l)
{
	if (l->last.nr == 0 || l->runs.rc < 0)
		return;
	if (l->runs.len > l->runs.max - RUN_MAX)
		spill_runs(l);
	buf_varint(&l->runs, l->last.nr);
	buf_varint(&l->runs, l->last.gap);
	buf_varint(&l->runs, l->last.len);
	buf_varint(&l->runs, l->last.rows);
	l->last.nr = 0;
}

int cat_layout_add(struct cat_layout *l, const struct shoal_extent *e)
{
	struct cat_layout_run *r = &l->last;
	uint64_t gap = e->off - l->end;

	if (gap != r->gap || e->len != r->len || e->rows != r->rows)
		end_run(l);
	r->gap = gap;
	r->len = e->len;
	r->rows = e->rows;
	r->nr++;
	l->nr++;
	l->end = e->off + e->len;
	l->longest = u64_max(l->longest, e->len);
	return l->runs.rc;
}

int cat_layout_finish(struct cat_layout *l)
{
	end_run(l);
	if (l->fd >= 0 && l->runs.rc == 0) /* all of it is in one place */
		spill_runs(l);
	return l->runs.rc;
}

/* ---- Reading ---- */

/* Take the next varint of a layout, which is well-formed. */
static uint64_t take_varint(const uint8_t **p)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		v |= (uint64_t)(**p & 0x7f) << shift;
		if (!(*(*p)++ & 0x80))
			return v;
	}
}

/* The runs that begin in [@p, @end), and end where that does or later. Sets how many bytes they
 * have. */
static int layout_take_runs(const uint8_t *p, const uint8_t *end, cat_layout_fn *take, void *self,
			    size_t *ret_len)
{
	const uint8_t *at = p;
	int rc = 0;

	while (at < end && rc == 0) {
		struct cat_layout_run r = { .nr = take_varint(&at) };

		r.gap = take_varint(&at);
		r.len = take_varint(&at);
		r.rows = take_varint(&at);
		rc = take(self, &r);
	}
	*ret_len = (size_t)(at - p);
	return rc;
}

int cat_layout_each(const struct cat_layout *l, cat_layout_fn *take, void *self)
{
	uint64_t at = 0;
	size_t used;
	uint8_t *buf;
	int rc = 0;

	if (l->nr == 0)
		return 0;
	if (l->fd < 0)
		return layout_take_runs(l->runs.data, l->runs.data + l->runs.len, take, self,
					&used);
	buf = malloc(CAT_LAYOUT_MEMORY);
	if (!buf)
		return -ENOMEM;
	while (at < l->nr_spilled && rc == 0) {
		size_t n = (size_t)u64_min(CAT_LAYOUT_MEMORY, l->nr_spilled - at);
		bool last = at + n == l->nr_spilled;

		rc = pread_all(l->fd, buf, n, at);
		if (rc == 0) /* the last run in the buffer may be cut off: it is read again */
			rc = layout_take_runs(buf, buf + (last ? n : n - RUN_MAX), take, self,
					      &used);
		at += rc == 0 ? used : 0;
	}
	free(buf);
	return rc;
}

void cat_layout_hash(const struct cat_layout *l, uint64_t ret_hash[2])
{
	XXH128_hash_t h =
		l->fd >= 0 ? XXH3_128bits_digest(l->hash) : XXH3_128bits(l->runs.data, l->runs.len);

	ret_hash[0] = h.low64;
	ret_hash[1] = h.high64;
}
