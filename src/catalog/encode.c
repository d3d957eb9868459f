#include "catalog/encode.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "catalog/catalog_format.h"

/* A row of this length is a grid of its own even if the rest of its directory is not. */
#define ROW_ALONE 512u

/* In names that do not rise evenly, look for a long row again only every so many names. */
#define ROW_RETRY 64u

/* This many successive names of one length in the pool are tried as one FIXED segment. */
#define POOL_RUN 1024u

/* Largest payload: 65,536 values of 64 bytes. Front coding needs far less. */
#define PAYLOAD_MAX (16u << 20)

int cat_encoder_init(struct cat_encoder *e, const struct enc_sink *sink)
{
	*e = (struct cat_encoder){ .sink = *sink, .payload = { .max = PAYLOAD_MAX } };
	e->names.bytes = malloc(ENC_BYTES);
	e->names.off = calloc(ENC_NAMES + 1, sizeof(*e->names.off));
	e->fixed = enc_fixed_new();
	e->front = enc_front_new();
	for (int i = 0; i < ENC_PENDING; i++)
		e->pending[i] = malloc(sizeof(**e->pending));
	if (e->names.bytes && e->names.off && e->fixed && e->front && e->pending[0] &&
	    e->pending[1] && e->pending[2] && e->pending[3])
		return 0;
	cat_encoder_release(e);
	return -ENOMEM;
}

void cat_encoder_release(struct cat_encoder *e)
{
	free(e->names.bytes);
	free(e->names.off);
	free(e->values);
	for (int i = 0; i < ENC_PENDING; i++)
		free(e->pending[i]);
	enc_fixed_free(e->fixed);
	enc_front_free(e->front);
	buf_release(&e->payload);
	*e = (struct cat_encoder){ 0 };
}

uint64_t *enc_values(struct cat_encoder *e, size_t words)
{
	if (words > e->values_cap) {
		free(e->values);
		e->values = malloc(words * sizeof(*e->values));
		e->values_cap = e->values ? words : 0;
	}
	return e->values;
}

void enc_payload_start(struct buf *payload, int kind, uint64_t nr, const uint8_t *first,
		       size_t first_len)
{
	buf_clear(payload);
	buf_u8(payload, (uint8_t)kind);
	buf_varint(payload, nr);
	buf_varint(payload, first_len);
	buf_append(payload, first, first_len);
}

static int put_segment(struct cat_encoder *e, uint64_t nr, const uint8_t *first, size_t first_len)
{
	if (e->payload.rc < 0)
		return e->payload.rc;
	return e->sink.segment(e->sink.self, &e->payload, nr, first, first_len);
}

/* An estimate of the bytes that front coding would take: a shape must be smaller to be used. */
static uint64_t front_estimate(const struct enc_names *n, uint32_t from, uint32_t end)
{
	uint64_t bytes = 0;

	for (uint32_t i = from + 1; i < end; i++)
		bytes += enc_len(n, i) + 2 -
			 name_shared(enc_name(n, i - 1), enc_len(n, i - 1), enc_name(n, i),
				     enc_len(n, i));
	return bytes / 2; /* compressed: a quarter for paths, half for random digits */
}

/* ---- Pending names: the pool for FRONT, then the grids that may grow ---- */

/*
 * Write names [from, end) as one FIXED segment if they have that shape. Returns whether they had.
 */
static int put_fixed(struct cat_encoder *e, uint32_t from, uint32_t end)
{
	const struct enc_names *n = &e->names;
	int rc;

	enc_payload_start(&e->payload, CAT_FIXED, end - from, enc_name(n, from), enc_len(n, from));
	if (!enc_fixed_write(e, from, end) ||
	    e->payload.len + sizeof(struct cat_dir_entry) >= front_estimate(n, from, end))
		return 0;
	if (e->payload.rc < 0)
		return e->payload.rc;
	rc = put_segment(e, end - from, enc_name(n, from), enc_len(n, from));
	return rc < 0 ? rc : 1;
}

/*
 * Names in the pool come from folders too small for a segment of their own. If many in succession
 * have one length, such as a file in each of a million numbered folders, they may have a shape
 * together.
 */
static int pool_put(struct cat_encoder *e, uint32_t from, uint32_t end)
{
	uint32_t at = from;
	int rc = 0;

	while (at < end && rc == 0) {
		uint32_t next = at + 1;

		while (next < end && enc_len(&e->names, next) == enc_len(&e->names, at))
			next++;
		if (next - at >= POOL_RUN) {
			if (at > from)
				rc = enc_front_put(e, from, at);
			from = at;
			if (rc == 0)
				rc = put_fixed(e, at, next);
			if (rc == 1) {
				from = next;
				rc = 0;
			}
		}
		at = next;
	}
	return rc == 0 && end > from ? enc_front_put(e, from, end) : rc;
}

static int pool_flush(struct cat_encoder *e)
{
	int rc = 0;

	if (e->pool_end > e->pool_at)
		rc = pool_put(e, e->pool_at, e->pool_end);
	e->pool_at = e->pool_end = 0;
	return rc;
}

static void pool_add(struct cat_encoder *e, uint32_t from, uint32_t end)
{
	if (e->pool_at == e->pool_end)
		e->pool_at = from;
	else
		assert(e->pool_end == from);
	e->pool_end = end;
}

/* Front coding takes 2 to 3 bytes per such name; a grid takes about 56 bytes and its first name. */
static bool grid_pays(const struct enc_grid *g)
{
	return g->at == ENC_EARLIER || g->nr * 5 > 2 * (56 + g->len);
}

static int grid_put(struct cat_encoder *e, const struct enc_grid *g)
{
	int rc;

	if (!grid_pays(g)) {
		pool_add(e, g->at, g->at + (uint32_t)g->nr);
		return 0;
	}
	rc = pool_flush(e);
	if (rc < 0)
		return rc;
	enc_payload_start(&e->payload, CAT_GRID, g->nr, g->name, g->len);
	enc_grid_write(g, &e->payload);
	return put_segment(e, g->nr, g->name, g->len);
}

/* Write the oldest pending grid. */
static int pending_put_first(struct cat_encoder *e)
{
	struct enc_grid *g = e->pending[0];
	int rc = grid_put(e, g);

	for (unsigned i = 1; i < ENC_PENDING; i++)
		e->pending[i - 1] = e->pending[i];
	e->pending[ENC_PENDING - 1] = g;
	e->nr_pending--;
	return rc;
}

/* Two complete grids may be two steps of a larger one. */
static void pending_fold(struct cat_encoder *e)
{
	while (e->nr_pending >= 2 &&
	       enc_grid_merge(e->pending[e->nr_pending - 2], e->pending[e->nr_pending - 1]))
		e->nr_pending--;
}

static int pending_flush(struct cat_encoder *e)
{
	int rc = 0;

	pending_fold(e);
	while (e->nr_pending > 0 && rc == 0)
		rc = pending_put_first(e);
	return rc;
}

/* The slot for the next row. The caller fills it and then calls pending_push(). */
static struct enc_grid *pending_slot(struct cat_encoder *e)
{
	return e->pending[e->nr_pending];
}

static int pending_push(struct cat_encoder *e)
{
	struct enc_grid *row = pending_slot(e);
	int rc = 0;

	if (e->nr_pending > 0 && enc_grid_merge(e->pending[e->nr_pending - 1], row))
		return 0;
	if (e->nr_pending >= 2) {
		unsigned before = e->nr_pending;

		pending_fold(e);
		if (e->nr_pending < before) { /* the row moves down to stay adjacent */
			e->pending[before] = e->pending[e->nr_pending];
			e->pending[e->nr_pending] = row;
		}
	}
	e->nr_pending++;
	if (e->nr_pending == ENC_PENDING)
		rc = pending_put_first(e);
	return rc;
}

/* ---- Names of one directory ---- */

/*
 * Write names that do not rise evenly: as values if they have such a shape, otherwise to the pool.
 */
static int put_region(struct cat_encoder *e, uint32_t from, uint32_t end)
{
	const struct enc_names *n = &e->names;
	int rc;

	rc = pending_flush(e);
	if (rc < 0)
		return rc;
	if (end - from >= 8) {
		int kind = CAT_FIXED;
		bool fits;

		enc_payload_start(&e->payload, kind, end - from, enc_name(n, from),
				  enc_len(n, from));
		fits = enc_fixed_write(e, from, end);
		if (!fits) {
			kind = CAT_DECIMAL;
			enc_payload_start(&e->payload, kind, end - from, enc_name(n, from),
					  enc_len(n, from));
			fits = enc_decimal_write(e, from, end);
		}
		if (e->payload.rc < 0)
			return e->payload.rc;
		if (fits &&
		    e->payload.len + sizeof(struct cat_dir_entry) < front_estimate(n, from, end)) {
			/* The pool's blocks are built in the payload too: keep this one aside. */
			struct buf made = e->payload;

			e->payload = (struct buf){ .max = PAYLOAD_MAX };
			rc = pool_flush(e);
			buf_release(&e->payload);
			e->payload = made;
			return rc < 0 ? rc
				      : put_segment(e, end - from, enc_name(n, from),
						    enc_len(n, from));
		}
	}
	pool_add(e, from, end);
	return 0;
}

static int put_directory(struct cat_encoder *e, uint32_t from, uint32_t end)
{
	uint32_t region = from, at = from;

	while (at < end) {
		struct enc_grid *row = pending_slot(e);
		uint32_t nr = enc_grid_row(&e->names, at, end, row);
		int rc;

		if (nr < ROW_ALONE && !(at == from && nr == end - from)) {
			at += nr > ROW_RETRY ? nr : ROW_RETRY;
			if (at > end)
				at = end;
			continue;
		}
		if (region < at) {
			rc = put_region(e, region, at);
			if (rc < 0)
				return rc;
			/*
			 * The region flushed the pending grids, so the row must be in the first
			 * slot.
			 */
			if (enc_grid_row(&e->names, at, end, pending_slot(e)) != nr)
				return -EINVAL;
		}
		rc = pending_push(e);
		if (rc < 0)
			return rc;
		at += nr;
		region = at;
	}
	return region < end ? put_region(e, region, end) : 0;
}

static uint32_t enc_dir_len(const uint8_t *name, uint32_t len)
{
	const uint8_t *slash = memrchr(name, '/', len);

	return slash ? (uint32_t)(slash - name) + 1 : 0;
}

/* The end of the names from @from on that are in one directory. */
static uint32_t directory_end(const struct enc_names *n, uint32_t from)
{
	const uint8_t *first = enc_name(n, from);
	uint32_t dir = enc_dir_len(first, enc_len(n, from));
	uint32_t i = from + 1;

	for (; i < n->nr; i++) {
		uint32_t len = enc_len(n, i);

		if (len < dir || !bytes_equal(enc_name(n, i), first, dir) ||
		    memchr(enc_name(n, i) + dir, '/', len - dir))
			break;
	}
	return i;
}

/* Keep the names from @from on as the start of the next chunk. */
static void keep_tail(struct cat_encoder *e, uint32_t from)
{
	struct enc_names *n = &e->names;
	uint32_t base = n->off[from];

	memmove(n->bytes, n->bytes + base, n->off[n->nr] - base);
	for (uint32_t i = from; i <= n->nr; i++)
		n->off[i - from] = n->off[i] - base;
	n->nr -= from;
}

/*
 * Grids that may continue stay pending; those too small to pay join the pool while their names are
 * still in the chunk.
 */
static int settle_pending(struct cat_encoder *e)
{
	int rc = 0;

	pending_fold(e);
	while (rc == 0 && e->nr_pending > 0 && !grid_pays(e->pending[0]))
		rc = pending_put_first(e);
	if (rc == 0)
		rc = pool_flush(e);
	for (unsigned i = 0; i < e->nr_pending && rc == 0; i++)
		if (!grid_pays(e->pending[i])) {
			rc = pending_flush(e);
			if (rc == 0)
				rc = pool_flush(e);
		}
	for (unsigned i = 0; i < e->nr_pending; i++)
		e->pending[i]->at = ENC_EARLIER;
	return rc;
}

static int put_chunk(struct cat_encoder *e, bool last)
{
	uint32_t at = 0;
	int rc;

	while (at < e->names.nr) {
		uint32_t end = directory_end(&e->names, at);

		/*
		 * The last directory may continue in the next chunk: do not cut it if it is short.
		 */
		if (end == e->names.nr && !last && at >= e->names.nr / 2)
			break;
		rc = put_directory(e, at, end);
		if (rc < 0)
			return rc;
		at = end;
	}
	rc = settle_pending(e);
	if (rc < 0)
		return rc;
	if (at > 0) {
		e->last_len = enc_len(&e->names, e->names.nr - 1);
		memcpy(e->last, enc_name(&e->names, e->names.nr - 1), e->last_len);
	}
	keep_tail(e, at);
	return 0;
}

const uint8_t *cat_encoder_last(const struct cat_encoder *e, size_t *ret_len)
{
	uint32_t nr = e->names.nr;

	*ret_len = nr ? enc_len(&e->names, nr - 1) : e->last_len;
	return nr ? enc_name(&e->names, nr - 1) : e->last;
}

int cat_encoder_add(struct cat_encoder *e, const uint8_t *name, size_t len)
{
	struct enc_names *n = &e->names;

	/* Repeat if the kept directory leaves no room: the second time it is not kept. */
	while (n->nr == ENC_NAMES || n->off[n->nr] + len > ENC_BYTES) {
		int rc = put_chunk(e, false);

		if (rc < 0)
			return rc;
	}
	memcpy(n->bytes + n->off[n->nr], name, len);
	n->off[n->nr + 1] = n->off[n->nr] + (uint32_t)len;
	n->nr++;
	return 0;
}

int cat_encoder_add_grid(struct cat_encoder *e, const struct cat_grid *g, uint64_t nr,
			 const uint8_t *first, const uint8_t *last, size_t len)
{
	struct enc_grid *slot;
	int rc = put_chunk(e, true);

	if (rc < 0)
		return rc;
	slot = pending_slot(e);
	slot->grid = *g;
	slot->nr = nr;
	slot->at = ENC_EARLIER;
	slot->len = (uint32_t)len;
	memcpy(slot->name, first, len);
	memcpy(e->last, last, len);
	e->last_len = len;
	return pending_push(e);
}

int cat_encoder_cut(struct cat_encoder *e, const uint8_t *last, size_t len)
{
	int rc = cat_encoder_restart(e); /* the segments may bring a dictionary of their own */

	memcpy(e->last, last, len);
	e->last_len = len;
	return rc;
}

int cat_encoder_finish(struct cat_encoder *e)
{
	int rc = put_chunk(e, true);

	if (rc == 0)
		rc = pending_flush(e);
	if (rc == 0)
		rc = pool_flush(e);
	return rc;
}

int cat_encoder_restart(struct cat_encoder *e)
{
	int rc = cat_encoder_finish(e);

	enc_front_restart(e->front);
	return rc;
}
