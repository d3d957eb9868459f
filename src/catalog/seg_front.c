#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "catalog/segment.h"

enum { FRONT_COMPRESSED = 1, FRONT_DICTIONARY = 2 };

/* Rooms kept for the next reader; more readers at once make and free their own. */
#define ROOMS_KEPT 16

#define NOTHING UINT64_MAX

/* What it takes to look into a block, which is too much for a stack. */
struct room {
	ZSTD_DCtx *context; /* NULL before the first block that is compressed */
	uint64_t holds;     /* the number of the segment that is in raw already; or NOTHING */
	int raw_len;
	uint8_t raw[CAT_FRONT_RAW_MAX];
};

struct cat_dicts {
	const struct cat_view *view;
	_Atomic(struct room *) room[ROOMS_KEPT];
	/*
	 * Kept for good, about 80 KB each once used. A writer takes a new one only after as many
	 * names again, so a part of 100 million names has 12 at the most, and a catalog so many a
	 * rank.
	 */
	uint64_t nr;
	_Atomic(ZSTD_DDict *) dict[];
};

struct cat_dicts *cat_dicts_new(const struct cat_view *v)
{
	uint64_t nr = v->sec[CAT_DTAB].len / sizeof(struct cat_dict_entry);
	struct cat_dicts *d = calloc(1, sizeof(*d) + nr * sizeof(d->dict[0]));

	if (d) {
		d->view = v;
		d->nr = nr;
	}
	return d;
}

static void room_free(struct room *room)
{
	if (room)
		ZSTD_freeDCtx(room->context);
	free(room);
}

struct cat_dicts *cat_dicts_free(struct cat_dicts *d)
{
	if (!d)
		return NULL;
	for (size_t i = 0; i < ROOMS_KEPT; i++)
		room_free(atomic_load(&d->room[i]));
	for (uint64_t i = 0; i < d->nr; i++)
		ZSTD_freeDDict(atomic_load(&d->dict[i]));
	free(d);
	return NULL;
}

/* NULL without memory. */
static struct room *room_take(struct cat_dicts *d)
{
	struct room *room;

	for (size_t i = 0; i < ROOMS_KEPT; i++) {
		room = atomic_exchange(&d->room[i], NULL);
		if (room)
			return room;
	}
	room = malloc(sizeof(*room));
	if (room) {
		room->context = NULL;
		room->holds = NOTHING;
	}
	return room;
}

static void room_give(struct cat_dicts *d, struct room *room)
{
	for (size_t i = 0; i < ROOMS_KEPT; i++) {
		struct room *none = NULL;

		if (atomic_compare_exchange_strong(&d->room[i], &none, room))
			return;
	}
	room_free(room);
}

/* The dictionary that serves segment @number: -1 when none does. */
static int64_t dict_of_segment(const struct cat_view *v, uint64_t number)
{
	uint64_t low = 0, high = v->sec[CAT_DTAB].len / sizeof(struct cat_dict_entry);

	while (low < high) { /* the first that starts after the segment */
		uint64_t mid = low + (high - low) / 2;
		const struct cat_dict_entry *e = (const struct cat_dict_entry *)cat_need(
			v, CAT_DTAB, mid * sizeof(*e), sizeof(*e));

		if (!e)
			return -1;
		if (shoal_le64_get(e->first_segment) <= number)
			low = mid + 1;
		else
			high = mid;
	}
	return (int64_t)low - 1;
}

/* zstd does not say whether it had no memory or does not like the dictionary: try another one. */
static int why_no_dict(const struct cat_view *v, uint64_t off)
{
	ZSTD_DDict *plain = ZSTD_createDDict("shoal", 5);

	if (!plain)
		return -ENOMEM;
	ZSTD_freeDDict(plain);
	return cat_damaged(v, CAT_DICT, off, "a dictionary makes no sense");
}

static int dict_make(const struct cat_view *v, uint64_t k, ZSTD_DDict **ret_dict)
{
	const struct cat_dict_entry *e =
		(const struct cat_dict_entry *)cat_need(v, CAT_DTAB, k * sizeof(*e), sizeof(*e));
	const uint8_t *bytes;
	uint64_t len;

	if (!e)
		return -EBADMSG;
	len = shoal_le64_get(e->len);
	bytes = cat_need(v, CAT_DICT, shoal_le64_get(e->off), len);
	if (!bytes)
		return -EBADMSG;
	*ret_dict = ZSTD_createDDict(bytes, (size_t)len);
	return *ret_dict ? 0 : why_no_dict(v, shoal_le64_get(e->off));
}

static int dict_get(const struct cat_segment *seg, const ZSTD_DDict **ret_dict)
{
	int64_t k = dict_of_segment(seg->view, seg->number);
	ZSTD_DDict *dict, *none = NULL;
	int rc;

	if (k < 0)
		return cat_segment_bad(seg, "a block's dictionary is missing");
	dict = atomic_load(&seg->dicts->dict[k]);
	if (!dict) {
		rc = dict_make(seg->view, (uint64_t)k, &dict);
		if (rc < 0)
			return rc;
		if (!atomic_compare_exchange_strong(&seg->dicts->dict[k], &none, dict)) {
			ZSTD_freeDDict(dict); /* another thread was first */
			dict = none;
		}
	}
	*ret_dict = dict;
	return 0;
}

static int decompress(const struct cat_segment *seg, struct room *room, bool with_dict,
		      const uint8_t *stored, size_t stored_len, uint8_t *raw, size_t raw_len)
{
	const ZSTD_DDict *dict = NULL;
	size_t n;

	if (with_dict) {
		int rc = dict_get(seg, &dict);

		if (rc < 0)
			return rc;
	}
	if (!room->context)
		room->context = ZSTD_createDCtx();
	if (!room->context)
		return -ENOMEM;
	n = ZSTD_decompress_usingDDict(room->context, raw, raw_len, stored, stored_len, dict);
	if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
		return -ENOMEM;
	if (ZSTD_isError(n) || n != raw_len)
		return cat_segment_bad(seg, "a block does not decompress");
	return 0;
}

/* @raw may be the room's own. */
static int expand(const struct cat_segment *seg, struct room *room, uint8_t *raw)
{
	struct shoal_span s = seg->rest;
	uint8_t flags = shoal_span_u8(&s);
	uint64_t raw_len = shoal_span_varint(&s);
	uint64_t stored_len = shoal_span_varint(&s);
	uint64_t off = seg->off + (uint64_t)(s.p - seg->payload);
	const uint8_t *stored;
	int rc = 0;

	if (s.bad || raw_len > CAT_FRONT_RAW_MAX || seg->nr > CAT_FRONT_NAMES ||
	    stored_len > seg->end - off || flags > (FRONT_COMPRESSED | FRONT_DICTIONARY) ||
	    flags == FRONT_DICTIONARY)
		return cat_segment_bad(seg, "a block of names makes no sense");
	stored = cat_need(seg->view, CAT_NAME, off, stored_len);
	if (!stored)
		return -EBADMSG;
	if (flags & FRONT_COMPRESSED)
		rc = decompress(seg, room, flags & FRONT_DICTIONARY, stored, (size_t)stored_len,
				raw, (size_t)raw_len);
	else if (stored_len != raw_len)
		return cat_segment_bad(seg, "a block of names has two lengths");
	else
		memcpy(raw, stored, (size_t)raw_len);
	return rc < 0 ? rc : (int)raw_len;
}

/* Into the room, unless it is there: who asks for a name asks for its neighbours. */
static int expand_here(const struct cat_segment *seg, struct room *room)
{
	if (room->holds != seg->number) {
		room->holds = NOTHING;
		room->raw_len = expand(seg, room, room->raw);
		if (room->raw_len >= 0)
			room->holds = seg->number;
	}
	return room->raw_len;
}

int cat_front_expand(const struct cat_segment *seg, uint8_t *raw)
{
	struct room *room = room_take(seg->dicts);
	int n;

	if (!room)
		return -ENOMEM;
	n = expand(seg, room, raw);
	room_give(seg->dicts, room);
	return n;
}

int cat_front_step(struct shoal_span *raw, uint8_t *buf, size_t *len)
{
	uint64_t keep = shoal_span_varint(raw);
	uint64_t more = shoal_span_varint(raw);
	const uint8_t *bytes = shoal_span_bytes(raw, more);

	if (raw->bad || keep > *len || more > SHOAL_NAME_MAX - keep || keep + more == 0)
		return -EBADMSG;
	memcpy(buf + keep, bytes, (size_t)more);
	*len = (size_t)(keep + more);
	return 0;
}

static int name_in(const struct cat_segment *seg, struct room *room, uint64_t i, uint8_t *buf)
{
	struct shoal_span s;
	size_t len = seg->first_len;
	int n = expand_here(seg, room);

	if (n < 0)
		return n;
	s = (struct shoal_span){ .p = room->raw, .end = room->raw + n };
	memcpy(buf, seg->first, len);
	for (; i > 0; i--)
		if (cat_front_step(&s, buf, &len) < 0)
			return cat_segment_bad(seg, "a block of names is cut short");
	return (int)len;
}

int cat_front_name(const struct cat_segment *seg, uint64_t i, uint8_t *buf)
{
	struct room *room = room_take(seg->dicts);
	int len;

	if (!room)
		return -ENOMEM;
	len = name_in(seg, room, i, buf);
	room_give(seg->dicts, room);
	return len;
}

static int find_in(const struct cat_segment *seg, struct room *room, const uint8_t *name,
		   size_t len, uint64_t *ret_i)
{
	uint8_t buf[SHOAL_NAME_MAX];
	size_t buf_len = seg->first_len;
	struct shoal_span s;
	int n = expand_here(seg, room);

	if (n < 0)
		return n;
	s = (struct shoal_span){ .p = room->raw, .end = room->raw + n };
	memcpy(buf, seg->first, buf_len);
	for (uint64_t i = 0; i < seg->nr; i++) {
		int c;

		if (i > 0 && cat_front_step(&s, buf, &buf_len) < 0)
			return cat_segment_bad(seg, "a block of names is cut short");
		c = shoal_name_compare(buf, buf_len, name, len);
		if (c == 0) {
			*ret_i = i;
			return 0;
		}
		if (c > 0)
			break;
	}
	return -ENOENT;
}

int cat_front_find(const struct cat_segment *seg, const uint8_t *name, size_t len, uint64_t *ret_i)
{
	struct room *room = room_take(seg->dicts);
	int rc;

	if (!room)
		return -ENOMEM;
	rc = find_in(seg, room, name, len, ret_i);
	room_give(seg->dicts, room);
	return rc;
}
