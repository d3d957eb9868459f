#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "catalog/segment.h"

enum { FRONT_COMPRESSED = 1, FRONT_DICTIONARY = 2 };

/* Scratch areas kept for later readers; further concurrent readers allocate and free their own. */
#define SCRATCH_KEPT 16

#define NOTHING UINT64_MAX

#define SHARED_BYTES  (UINT64_C(32) << 20)
#define NR_SHARED_MAX (UINT64_C(1) << 17)  /* 1 MiB of pointers */
#define TABLES_BYTES  (UINT64_C(32) << 10) /* what zstd allocates with a copy: 27 KB */

/* Scratch memory for expanding a block, too large for a stack. */
struct front_scratch {
	ZSTD_DCtx *context; /* NULL before the first compressed block */
	ZSTD_DDict *dict;   /* the last one that was not shared, or NULL */
	uint64_t dict_number;
	uint64_t holds; /* number of the segment that raw holds already; or NOTHING */
	int raw_len;
	uint8_t raw[CAT_FRONT_RAW_MAX];
};

struct cat_dicts {
	const struct cat_view *view;
	_Atomic(struct front_scratch *) scratch[SCRATCH_KEPT];
	/*
	 * Kept for good, about 80 KB each once used. A writer adds one only after the names have
	 * doubled, so a part of 100 million names has at most 12, and a catalog that many per rank.
	 * Those that exceed SHARED_BYTES or NR_SHARED_MAX are not kept here, but one per scratch
	 * area: a catalog may come from anywhere.
	 */
	_Atomic(uint64_t) shared_bytes;
	uint64_t nr;
	_Atomic(ZSTD_DDict *) dict[];
};

struct cat_dicts *cat_dicts_new(const struct cat_view *v)
{
	uint64_t nr = u64_min(v->sec[CAT_DTAB].len / sizeof(struct cat_dict_entry), NR_SHARED_MAX);
	struct cat_dicts *d = calloc(1, sizeof(*d) + nr * sizeof(d->dict[0]));

	if (d) {
		d->view = v;
		d->nr = nr;
	}
	return d;
}

static void scratch_free(struct front_scratch *scratch)
{
	if (scratch) {
		ZSTD_freeDCtx(scratch->context);
		ZSTD_freeDDict(scratch->dict);
	}
	free(scratch);
}

struct cat_dicts *cat_dicts_free(struct cat_dicts *d)
{
	if (!d)
		return NULL;
	for (size_t i = 0; i < SCRATCH_KEPT; i++)
		scratch_free(atomic_load(&d->scratch[i]));
	for (uint64_t i = 0; i < d->nr; i++)
		ZSTD_freeDDict(atomic_load(&d->dict[i]));
	free(d);
	return NULL;
}

/* NULL without memory. */
static struct front_scratch *scratch_take(struct cat_dicts *d)
{
	struct front_scratch *scratch;

	for (size_t i = 0; i < SCRATCH_KEPT; i++) {
		scratch = atomic_exchange(&d->scratch[i], NULL);
		if (scratch)
			return scratch;
	}
	scratch = malloc(sizeof(*scratch));
	if (scratch) {
		scratch->context = NULL;
		scratch->dict = NULL;
		scratch->holds = NOTHING;
	}
	return scratch;
}

static void scratch_give(struct cat_dicts *d, struct front_scratch *scratch)
{
	for (size_t i = 0; i < SCRATCH_KEPT; i++) {
		struct front_scratch *none = NULL;

		if (atomic_compare_exchange_strong(&d->scratch[i], &none, scratch))
			return;
	}
	scratch_free(scratch);
}

/* The dictionary for segment @number; -1 if it has none. */
static int64_t dict_of_segment(const struct cat_view *v, uint64_t number)
{
	uint64_t low = 0, high = v->sec[CAT_DTAB].len / sizeof(struct cat_dict_entry);

	while (low < high) { /* the first that starts after the segment */
		uint64_t mid = low + (high - low) / 2;
		const struct cat_dict_entry *e = (const struct cat_dict_entry *)cat_need(
			v, CAT_DTAB, mid * sizeof(*e), sizeof(*e));

		if (!e)
			return -1;
		if (le64_get(e->first_segment) <= number)
			low = mid + 1;
		else
			high = mid;
	}
	return (int64_t)low - 1;
}

/* zstd does not report whether it had no memory or the dictionary is malformed: try another. */
static int explain_no_dict(const struct cat_view *v, uint64_t off)
{
	ZSTD_DDict *plain = ZSTD_createDDict("shoal", 5);

	if (!plain)
		return -ENOMEM;
	ZSTD_freeDDict(plain);
	return cat_damaged(v, CAT_DICT, off, "a dictionary is invalid");
}

static const struct cat_dict_entry *dict_entry(const struct cat_view *v, uint64_t k)
{
	return (const struct cat_dict_entry *)cat_need(
		v, CAT_DTAB, k * sizeof(struct cat_dict_entry), sizeof(struct cat_dict_entry));
}

int cat_dict_bounds(const struct cat_view *v, uint64_t k, uint64_t *ret_off, uint64_t *ret_len)
{
	const struct cat_dict_entry *e = dict_entry(v, k), *before = k ? dict_entry(v, k - 1) : e;
	uint64_t end = 0;

	if (!e || !before)
		return -EBADMSG;
	*ret_off = le64_get(e->off);
	*ret_len = le64_get(e->len);
	if (*ret_len > CAT_DICT_MAX)
		return cat_damaged(v, CAT_DTAB, k * sizeof(*e), "a dictionary is too long");
	if (k && (__builtin_add_overflow(le64_get(before->off), le64_get(before->len), &end) ||
		  *ret_off < end))
		return cat_damaged(v, CAT_DTAB, k * sizeof(*e), "two dictionaries overlap");
	return 0;
}

static int dict_make(const struct cat_view *v, uint64_t k, ZSTD_DDict **ret_dict, uint64_t *ret_len)
{
	const uint8_t *bytes;
	uint64_t off;
	int rc = cat_dict_bounds(v, k, &off, ret_len);

	if (rc < 0)
		return rc;
	bytes = cat_need(v, CAT_DICT, off, *ret_len);
	if (!bytes)
		return -EBADMSG;
	*ret_dict = ZSTD_createDDict(bytes, (size_t)*ret_len);
	return *ret_dict ? 0 : explain_no_dict(v, off);
}

/* Give @dict to all readers if there is room for it; otherwise to this scratch area. */
static ZSTD_DDict *dict_keep(struct cat_dicts *d, struct front_scratch *scratch, uint64_t k,
			     ZSTD_DDict *dict, uint64_t len)
{
	uint64_t bytes = len + TABLES_BYTES;
	ZSTD_DDict *none = NULL;

	if (k >= d->nr || atomic_fetch_add(&d->shared_bytes, bytes) + bytes > SHARED_BYTES) {
		if (k < d->nr)
			atomic_fetch_sub(&d->shared_bytes, bytes);
		ZSTD_freeDDict(scratch->dict);
		scratch->dict = dict;
		scratch->dict_number = k;
		return dict;
	}
	if (atomic_compare_exchange_strong(&d->dict[k], &none, dict))
		return dict;
	ZSTD_freeDDict(dict); /* another thread was faster */
	atomic_fetch_sub(&d->shared_bytes, bytes);
	return none;
}

static int dict_get(const struct cat_segment *seg, struct front_scratch *scratch,
		    const ZSTD_DDict **ret_dict)
{
	int64_t number = dict_of_segment(seg->view, seg->number);
	uint64_t k = (uint64_t)number, len;
	ZSTD_DDict *dict = NULL;
	int rc;

	if (number < 0)
		return cat_segment_bad(seg, "a block's dictionary is missing");
	if (k < seg->dicts->nr)
		dict = atomic_load(&seg->dicts->dict[k]);
	if (!dict && scratch->dict && scratch->dict_number == k)
		dict = scratch->dict;
	if (!dict) {
		rc = dict_make(seg->view, k, &dict, &len);
		if (rc < 0)
			return rc;
		dict = dict_keep(seg->dicts, scratch, k, dict, len);
	}
	*ret_dict = dict;
	return 0;
}

static int decompress(const struct cat_segment *seg, struct front_scratch *scratch, bool with_dict,
		      const uint8_t *stored, size_t stored_len, uint8_t *raw, size_t raw_len)
{
	const ZSTD_DDict *dict = NULL;
	size_t n;

	if (with_dict) {
		int rc = dict_get(seg, scratch, &dict);

		if (rc < 0)
			return rc;
	}
	if (!scratch->context)
		scratch->context = ZSTD_createDCtx();
	if (!scratch->context)
		return -ENOMEM;
	n = ZSTD_decompress_usingDDict(scratch->context, raw, raw_len, stored, stored_len, dict);
	if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
		return -ENOMEM;
	if (ZSTD_isError(n) || n != raw_len)
		return cat_segment_bad(seg, "a block does not decompress");
	return 0;
}

/* @raw may be the scratch area's own. */
static int front_expand(const struct cat_segment *seg, struct front_scratch *scratch, uint8_t *raw)
{
	struct span s = seg->rest;
	uint8_t flags = span_u8(&s);
	uint64_t raw_len = span_varint(&s);
	uint64_t stored_len = span_varint(&s);
	uint64_t off = seg->off + (uint64_t)(s.p - seg->payload);
	const uint8_t *stored;
	int rc = 0;

	if (s.bad || raw_len > CAT_FRONT_RAW_MAX || seg->nr > CAT_FRONT_NAMES ||
	    stored_len > seg->end - off || flags > (FRONT_COMPRESSED | FRONT_DICTIONARY) ||
	    flags == FRONT_DICTIONARY)
		return cat_segment_bad(seg, "a block of names is invalid");
	stored = cat_need(seg->view, CAT_NAME, off, stored_len);
	if (!stored)
		return -EBADMSG;
	if (flags & FRONT_COMPRESSED)
		rc = decompress(seg, scratch, flags & FRONT_DICTIONARY, stored, (size_t)stored_len,
				raw, (size_t)raw_len);
	else if (stored_len != raw_len)
		return cat_segment_bad(seg, "a block of names has two lengths");
	else
		memcpy(raw, stored, (size_t)raw_len);
	return rc < 0 ? rc : (int)raw_len;
}

/*
 * Expand into the scratch area, unless it is there already: lookups of neighbouring names are
 * common.
 */
static int front_expand_cached(const struct cat_segment *seg, struct front_scratch *scratch)
{
	if (scratch->holds != seg->number) {
		scratch->holds = NOTHING;
		scratch->raw_len = front_expand(seg, scratch, scratch->raw);
		if (scratch->raw_len >= 0)
			scratch->holds = seg->number;
	}
	return scratch->raw_len;
}

int64_t cat_front_dictionary(const struct cat_segment *seg)
{
	struct span s = seg->rest;

	if (seg->kind != CAT_FRONT || !(span_u8(&s) & FRONT_DICTIONARY))
		return -1;
	return dict_of_segment(seg->view, seg->number);
}

int cat_front_expand(const struct cat_segment *seg, uint8_t *raw)
{
	struct front_scratch *scratch = scratch_take(seg->dicts);
	int n;

	if (!scratch)
		return -ENOMEM;
	n = front_expand(seg, scratch, raw);
	scratch_give(seg->dicts, scratch);
	return n;
}

int cat_front_step(struct span *raw, uint8_t *buf, size_t *len)
{
	uint64_t keep = span_varint(raw);
	uint64_t more = span_varint(raw);
	const uint8_t *bytes = span_bytes(raw, more);

	if (raw->bad || keep > *len || more > SHOAL_NAME_MAX - keep || keep + more == 0)
		return -EBADMSG;
	memcpy(buf + keep, bytes, (size_t)more);
	*len = (size_t)(keep + more);
	return 0;
}

static int name_in(const struct cat_segment *seg, struct front_scratch *scratch, uint64_t i,
		   uint8_t *buf)
{
	struct span s;
	size_t len = seg->first_len;
	int n = front_expand_cached(seg, scratch);

	if (n < 0)
		return n;
	s = (struct span){ .p = scratch->raw, .end = scratch->raw + n };
	memcpy(buf, seg->first, len);
	for (; i > 0; i--)
		if (cat_front_step(&s, buf, &len) < 0)
			return cat_segment_bad(seg, "a block of names is truncated");
	return (int)len;
}

int cat_front_name(const struct cat_segment *seg, uint64_t i, uint8_t *buf)
{
	struct front_scratch *scratch = scratch_take(seg->dicts);
	int len;

	if (!scratch)
		return -ENOMEM;
	len = name_in(seg, scratch, i, buf);
	scratch_give(seg->dicts, scratch);
	return len;
}

static int find_in(const struct cat_segment *seg, struct front_scratch *scratch,
		   const uint8_t *name, size_t len, uint64_t *ret_i)
{
	uint8_t buf[SHOAL_NAME_MAX];
	size_t buf_len = seg->first_len;
	struct span s;
	int n = front_expand_cached(seg, scratch);

	if (n < 0)
		return n;
	s = (struct span){ .p = scratch->raw, .end = scratch->raw + n };
	memcpy(buf, seg->first, buf_len);
	for (uint64_t i = 0; i < seg->nr; i++) {
		int c;

		if (i > 0 && cat_front_step(&s, buf, &buf_len) < 0)
			return cat_segment_bad(seg, "a block of names is truncated");
		c = name_compare(buf, buf_len, name, len);
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
	struct front_scratch *scratch = scratch_take(seg->dicts);
	int rc;

	if (!scratch)
		return -ENOMEM;
	rc = find_in(seg, scratch, name, len, ret_i);
	scratch_give(seg->dicts, scratch);
	return rc;
}
