/* Open and read sidecar columns. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/bits.h"
#include "base/tasks.h"
#include "base/text.h"
#include "catalog/digest.h"
#include "catalog/sidecar_format.h"
#include "catalog/sidecar_writer.h"

static const struct {
	const char *name;
	unsigned bits;
} types[] = {
	[SHOAL_BIT] = { "bit", 1 },  [SHOAL_U8] = { "u8", 8 },    [SHOAL_U16] = { "u16", 16 },
	[SHOAL_U32] = { "u32", 32 }, [SHOAL_U64] = { "u64", 64 }, [SHOAL_I64] = { "i64", 64 },
	[SHOAL_F32] = { "f32", 32 }, [SHOAL_F64] = { "f64", 64 },
};

unsigned side_type_bits(enum shoal_column_type type)
{
	return (size_t)type < ARRAY_LEN(types) ? types[type].bits : 0;
}

const char *shoal_column_type_name(enum shoal_column_type type)
{
	return (size_t)type < ARRAY_LEN(types) ? types[type].name : NULL;
}

int shoal_column_type_of(const char *name, enum shoal_column_type *ret_type)
{
	for (size_t i = SHOAL_BIT; i < ARRAY_LEN(types); i++) {
		if (strcmp(types[i].name, name) == 0) {
			*ret_type = (enum shoal_column_type)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* ---- The bytes -------------------------------------------------------------------------- */

static uint64_t pad8(uint64_t len)
{
	return (len + 7) & ~UINT64_C(7);
}

struct side_layout side_layout(enum shoal_column_type type, uint64_t nr, uint64_t nr_samples,
			       uint64_t nr_order)
{
	struct side_layout at = { .values_len = (nr * side_type_bits(type) + 7) / 8 };

	at.ranks_off = sizeof(struct side_header) + pad8(at.values_len);
	at.nr_ranks = type == SHOAL_BIT ? (nr + SIDE_RANK_VALUES - 1) / SIDE_RANK_VALUES : 0;
	at.order_off = at.ranks_off + 8 * at.nr_ranks;
	at.order_width = nr_samples <= UINT64_C(1) << 32 ? 4 : 8;
	at.sums_off =
		at.order_off + pad8(nr_order == SIDE_NO_ORDER ? 0 : nr_order * at.order_width);
	at.nr_pages = (at.sums_off - sizeof(struct side_header) + SIDE_PAGE - 1) >> SIDE_PAGE_SHIFT;
	at.file_len = at.sums_off + 8 * at.nr_pages;
	return at;
}

void side_header_seal(struct side_header *h)
{
	h->header_checksum = le64_of(XXH3_64bits(h, offsetof(struct side_header, header_checksum)));
}

static const struct cat_file_kind columns = { .magic = SIDE_MAGIC,
					      .what = "column",
					      .format = "column format",
					      .version = SIDE_VERSION,
					      .known = SIDE_INCOMPAT_KNOWN };

static bool side_counts_consistent(const struct side_view *v)
{
	bool whole = v->first == 0 && v->nr == v->nr_samples;

	if (v->nr_samples > SIDE_SAMPLES_MAX || v->first > v->nr_samples ||
	    v->nr > v->nr_samples - v->first)
		return false;
	if (v->nr_order != SIDE_NO_ORDER && (v->nr_order > v->nr || !whole))
		return false;
	if (v->nr_order < v->nr && !v->keep_hash[0] && !v->keep_hash[1])
		return false; /* leaving samples out requires a keep column */
	if (v->type == SHOAL_BIT ? v->nr_ones > v->nr : v->nr_ones > 0)
		return false;
	return side_type_bits(v->type) > 0 && v->min_key <= v->max_key;
}

int side_parse(const void *buf, size_t len, struct side_view *ret_view, struct shoal_err *err)
{
	const struct side_header *h = buf;
	struct side_view v = { .base = buf };
	uint32_t name_len;
	int rc = cat_check_whole(&columns, h, len, err);

	if (rc < 0)
		return rc;
	v.type = (enum shoal_column_type)le32_get(h->type);
	v.first = le64_get(h->first);
	v.nr = le64_get(h->nr);
	v.nr_samples = le64_get(h->nr_samples);
	v.nr_order = le64_get(h->nr_order);
	v.nr_ones = le64_get(h->nr_ones);
	v.min_key = le64_get(h->min_key);
	v.max_key = le64_get(h->max_key);
	for (int i = 0; i < 2; i++) {
		v.digest[i] = le64_get(h->digest[i]);
		v.keep_hash[i] = le64_get(h->keep_hash[i]);
	}
	if (le32_get(h->header_len) != sizeof(*h) || le32_get(h->page_shift) != SIDE_PAGE_SHIFT ||
	    !side_counts_consistent(&v))
		return err_set(err, -EBADMSG, "damaged column: invalid header fields");

	v.at = side_layout(v.type, v.nr, v.nr_samples, v.nr_order);
	if (v.at.file_len != len)
		return err_set(err, -EBADMSG,
			       "damaged column: %zu bytes, but its values need %" PRIu64, len,
			       v.at.file_len);
	name_len = le32_get(h->name_len);
	if (name_len == 0 || name_len > SIDE_NAME_MAX ||
	    !is_plain_utf8((const char *)h->name, name_len))
		return err_set(err, -EBADMSG, "damaged column: its name is not plain text");
	memcpy(v.name, h->name, name_len);
	if (!cat_sum_matches(v.base + v.at.sums_off, 8 * v.at.nr_pages, le64_get(h->sums_checksum)))
		return err_set(err, -EBADMSG,
			       "damaged column: the checksum of the page checksums does not "
			       "match");
	*ret_view = v;
	return 0;
}

/* The number of bytes in page @page of the file. */
static uint64_t page_len(const struct side_view *v, uint64_t page)
{
	uint64_t start = sizeof(struct side_header) + (page << SIDE_PAGE_SHIFT);

	return u64_min(SIDE_PAGE, v->at.sums_off - start);
}

static bool page_is_good(const struct side_view *v, uint64_t page)
{
	_Atomic uint64_t *word = v->checked ? &v->checked[page >> 6] : NULL;
	uint64_t bit = UINT64_C(1) << (page & 63);

	if (word && atomic_load_explicit(word, memory_order_relaxed) & bit)
		return true;
	if (!cat_sum_matches(v->base + sizeof(struct side_header) + (page << SIDE_PAGE_SHIFT),
			     page_len(v, page), le64_load(v->base + v->at.sums_off + 8 * page)))
		return false;
	if (word)
		atomic_fetch_or(word, bit);
	return true;
}

const uint8_t *side_need(const struct side_view *v, uint64_t off, uint64_t len)
{
	uint64_t page, last;

	if (off < sizeof(struct side_header) || off > v->at.sums_off || len > v->at.sums_off - off)
		return NULL;
	if (len == 0)
		return v->base + off;
	page = (off - sizeof(struct side_header)) >> SIDE_PAGE_SHIFT;
	last = (off + len - 1 - sizeof(struct side_header)) >> SIDE_PAGE_SHIFT;
	for (; page <= last; page++)
		if (!page_is_good(v, page))
			return NULL;
	return v->base + off;
}

/* ---- Values as keys --------------------------------------------------------------------- */

static uint64_t key_of_double(double value)
{
	uint64_t bits;

	if (value != value)
		return UINT64_MAX;
	value += 0.0; /* turns -0.0 into 0.0 */
	memcpy(&bits, &value, sizeof(bits));
	return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static double double_of_key(uint64_t key)
{
	uint64_t bits = key >> 63 ? key & ~(UINT64_C(1) << 63) : ~key;
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Values are little-endian in the file and native here: the same on all machines we build for. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "columns are copied as they lie");

uint64_t side_key(enum shoal_column_type type, const void *values, uint64_t i)
{
	const uint8_t *p = values;
	uint16_t half;
	float small;
	double large;

	switch (type) {
	case SHOAL_BIT:
		return p[i] != 0;
	case SHOAL_U8:
		return p[i];
	case SHOAL_U16:
		memcpy(&half, p + 2 * i, sizeof(half));
		return half;
	case SHOAL_U32:
		return le32_load(p + 4 * i);
	case SHOAL_I64:
		return le64_load(p + 8 * i) ^ UINT64_C(1) << 63;
	case SHOAL_F32:
		memcpy(&small, p + 4 * i, sizeof(small));
		return key_of_double((double)small);
	case SHOAL_F64:
		memcpy(&large, p + 8 * i, sizeof(large));
		return key_of_double(large);
	case SHOAL_U64:
	default:
		return le64_load(p + 8 * i);
	}
}

static double value_of_key(enum shoal_column_type type, uint64_t key)
{
	switch (type) {
	case SHOAL_I64:
		return (double)(int64_t)(key ^ UINT64_C(1) << 63);
	case SHOAL_F32:
	case SHOAL_F64:
		return key == UINT64_MAX ? __builtin_nan("") : double_of_key(key);
	case SHOAL_BIT:
	case SHOAL_U8:
	case SHOAL_U16:
	case SHOAL_U32:
	case SHOAL_U64:
	default:
		return (double)key;
	}
}

int side_key_at(const struct side_view *v, uint64_t i, uint64_t *ret_key)
{
	unsigned bits = side_type_bits(v->type);
	uint64_t off = i * bits / 8;
	const uint8_t *p = side_need(v, sizeof(struct side_header) + off, (bits + 7) / 8);

	if (!p)
		return -EBADMSG;
	*ret_key = v->type == SHOAL_BIT ? (uint64_t)(*p >> (i & 7) & 1) : side_key(v->type, p, 0);
	return 0;
}

/* ---- Open columns ----------------------------------------------------------------------- */

static uint64_t last_sum(const struct side_view *v)
{
	assert(v->base);
	return le64_load(v->base + v->at.file_len - 8);
}

/* As cat_is_stale(): pages that are gone fault, and the rest of the last page reads as zeros. */
static int column_finish(const struct shoal_column *c, int rc)
{
	if (map_faulted(&c->map) || UNLIKELY(last_sum(&c->view) != c->last_sum))
		return -ESTALE;
	return rc;
}

static int check_digest(const struct side_view *v, const char *digest, struct shoal_err *err)
{
	char mine[33];

	cat_digest_print(v->digest, mine);
	if (!digest || strcmp(mine, digest) == 0)
		return 0;
	return err_set(err, -ESTALE,
		       "column '%s' belongs to the catalog with digest %s, not %s: make it again "
		       "for this catalog",
		       v->name, mine, digest);
}

static int column_init(struct shoal_column *c, const char *digest, struct shoal_err *err)
{
	int rc = side_parse(c->map.addr, c->map.len, &c->view, err);

	if (map_faulted(&c->map))
		return err_set(err, -ESTALE, "the file shrank while it was opened");
	if (rc < 0)
		return rc;
	c->last_sum = last_sum(&c->view);
	rc = check_digest(&c->view, digest, err);
	if (rc < 0)
		return rc;
	/* One bit per 16 KiB: 3 KB for 100 million values of 4 bytes. */
	c->view.checked = calloc(c->view.at.nr_pages / 64 + 1, sizeof(*c->view.checked));
	return c->view.checked ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int side_open(const char *path, const char *digest, struct shoal_column **ret_column,
	      struct shoal_err *err)
{
	struct shoal_column *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->map = MAP_CLOSED;
	rc = map_open(path, &c->map, err);
	if (rc == 0)
		rc = column_init(c, digest, err);
	if (rc < 0) {
		shoal_column_close(c);
		return rc;
	}
	*ret_column = c;
	return 0;
}

struct shoal_column *shoal_column_close(struct shoal_column *column)
{
	if (!column)
		return NULL;
	free(column->view.checked);
	map_close(&column->map);
	free(column);
	return NULL;
}

void shoal_column_info(const struct shoal_column *column, struct shoal_column_info *ret_info)
{
	const struct side_view *v = &column->view;

	*ret_info = (struct shoal_column_info){
		.name = v->name,
		.type = v->type,
		.first = v->first,
		.nr = v->nr,
		.nr_samples = v->nr_samples,
		.nr_ones = v->nr_ones,
		.nr_sorted = v->nr_order,
		.kept_only = v->keep_hash[0] || v->keep_hash[1],
		.min = v->nr ? value_of_key(v->type, v->min_key) : 0,
		.max = v->nr ? value_of_key(v->type, v->max_key) : 0,
		.file_bytes = v->at.file_len,
		.hash = le64_get(((const struct side_header *)v->base)->sums_checksum),
	};
	cat_digest_print(v->digest, ret_info->digest);
}

static int read_bits(const struct side_view *v, uint64_t first, uint64_t nr, uint8_t *values)
{
	const uint8_t *p = side_need(v, sizeof(struct side_header) + first / 8,
				     nr ? (first + nr - 1) / 8 - first / 8 + 1 : 0);

	if (!p)
		return -EBADMSG;
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t bit = (first & 7) + i;

		values[i] = p[bit >> 3] >> (bit & 7) & 1;
	}
	return 0;
}

int shoal_column_read(const struct shoal_column *column, uint64_t first, uint64_t nr, void *values)
{
	const struct side_view *v = &column->view;
	unsigned width = side_type_bits(v->type) / 8;
	const uint8_t *p;

	if (first < v->first || first - v->first > v->nr || nr > v->nr - (first - v->first))
		return -ERANGE;
	first -= v->first;
	if (v->type == SHOAL_BIT)
		return column_finish(column, read_bits(v, first, nr, values));
	p = side_need(v, sizeof(struct side_header) + first * width, nr * width);
	if (p && nr)
		memcpy(values, p, nr * width);
	return column_finish(column, p ? 0 : -EBADMSG);
}

/* ---- Which samples are kept ------------------------------------------------------------- */

static int rank_at(const struct side_view *v, uint64_t k, uint64_t *ret_rank)
{
	const uint8_t *p = side_need(v, v->at.ranks_off + 8 * k, 8);

	if (!p)
		return -EBADMSG;
	*ret_rank = le64_load(p);
	return 0;
}

/* The last group of 4096 values that has at most @nth ones before it. */
static int find_group(const struct side_view *v, uint64_t nth, uint64_t *ret_k,
		      uint64_t *ret_before)
{
	uint64_t low = 0, high = v->at.nr_ranks, rank;

	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;
		int rc = rank_at(v, mid, &rank);

		if (rc < 0)
			return rc;
		if (rank <= nth)
			low = mid;
		else
			high = mid;
	}
	*ret_k = low;
	return rank_at(v, low, ret_before);
}

static int select_one(const struct side_view *v, uint64_t nth, uint64_t *ret_i)
{
	uint64_t k, before, start, len;
	const uint8_t *p;
	int rc = find_group(v, nth, &k, &before);

	if (rc < 0)
		return rc;
	start = k * (SIDE_RANK_VALUES / 8);
	len = u64_min(SIDE_RANK_VALUES / 8, v->at.values_len - start);
	p = side_need(v, sizeof(struct side_header) + start, len);
	if (!p || before > nth)
		return -EBADMSG;
	nth -= before;
	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t word = bits_word(p, len, at);
		uint64_t ones = (uint64_t)__builtin_popcountll(word);

		if (nth < ones) {
			*ret_i = 8 * (start + at) + select_word(word, (unsigned)nth);
			return *ret_i < v->nr ? 0 : -EBADMSG;
		}
		nth -= ones;
	}
	return -EBADMSG;
}

int shoal_column_select(const struct shoal_column *column, uint64_t nth, uint64_t *ret_sample)
{
	const struct side_view *v = &column->view;
	uint64_t i = 0;
	int rc;

	if (v->type != SHOAL_BIT || v->nr != v->nr_samples)
		return -EINVAL;
	if (nth >= v->nr_ones)
		return -ERANGE;
	rc = column_finish(column, select_one(v, nth, &i));
	if (rc == 0)
		*ret_sample = i;
	return rc;
}

static int count_before(const struct side_view *v, uint64_t i, uint64_t *ret_nr)
{
	uint64_t k = i / SIDE_RANK_VALUES, start = k * (SIDE_RANK_VALUES / 8), nr,
		 len = i / 8 - start;
	const uint8_t *p;
	int rc;

	if (i == v->nr) {
		*ret_nr = v->nr_ones;
		return 0;
	}
	rc = rank_at(v, k, &nr);
	if (rc < 0)
		return rc;
	p = side_need(v, sizeof(struct side_header) + start, len + 1);
	if (!p)
		return -EBADMSG;
	for (uint64_t at = 0; at < len; at += 8)
		nr += (uint64_t)__builtin_popcountll(bits_word(p, len, at));
	*ret_nr = nr + (uint64_t)__builtin_popcountll(p[len] & bits_mask(i & 7));
	return 0;
}

int shoal_column_rank(const struct shoal_column *column, uint64_t sample, uint64_t *ret_nr)
{
	const struct side_view *v = &column->view;
	uint64_t nr = 0;
	int rc;

	if (v->type != SHOAL_BIT || v->nr != v->nr_samples)
		return -EINVAL;
	if (sample > v->nr)
		return -ERANGE;
	rc = column_finish(column, count_before(v, sample, &nr));
	if (rc == 0)
		*ret_nr = nr;
	return rc;
}

/* ---- In the order of values ------------------------------------------------------------- */

int shoal_column_sorted(const struct shoal_column *column, uint64_t place, uint64_t nr,
			uint64_t *ids)
{
	const struct side_view *v = &column->view;
	unsigned width = v->at.order_width;
	const uint8_t *p;
	int rc = 0;

	if (v->nr_order == SIDE_NO_ORDER)
		return -ENOTSUP;
	if (place > v->nr_order || nr > v->nr_order - place)
		return -ERANGE;
	p = side_need(v, v->at.order_off + place * width, nr * width);
	if (!p)
		return column_finish(column, -EBADMSG);
	for (uint64_t i = 0; i < nr && rc == 0; i++) {
		ids[i] = width == 4 ? le32_load(p + 4 * i) : le64_load(p + 8 * i);
		if (ids[i] >= v->nr)
			rc = -EBADMSG;
	}
	return column_finish(column, rc);
}

/* ---- Check everything ------------------------------------------------------------------- */

/* Pages and values that a thread checks at a time; values are checked by whole groups. */
#define VERIFY_PAGES  256u
#define VERIFY_VALUES (16u * SIDE_RANK_VALUES)

/* What is found in the values of a range, and in all ranges so far. */
struct side_seen {
	uint64_t low, high, ones;
};

struct side_verification {
	const struct shoal_column *column;
	struct side_seen of[TASKS_THREADS_MAX], all;
};

static int verify_pages(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	const struct side_view *v = &((struct side_verification *)self)->column->view;
	uint64_t end = u64_min(v->at.nr_pages, (k + 1) * VERIFY_PAGES);

	(void)thread;
	for (uint64_t page = k * VERIFY_PAGES; page < end; page++) {
		uint64_t at = sizeof(struct side_header) + (page << SIDE_PAGE_SHIFT);

		if (!cat_sum_matches(v->base + at, page_len(v, page),
				     le64_load(v->base + v->at.sums_off + 8 * page)))
			return err_set(err, -EBADMSG,
				       "damaged column: checksum of the page at byte %" PRIu64
				       " does not match",
				       at);
	}
	return 0;
}

static int verify_values(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct side_verification *x = self;
	const struct side_view *v = &x->column->view;
	uint64_t i = k * VERIFY_VALUES, end = u64_min(v->nr, i + VERIFY_VALUES), key, rank;
	struct side_seen seen = { .low = UINT64_MAX };

	if (v->type == SHOAL_BIT && i > 0 && rank_at(v, i / SIDE_RANK_VALUES, &seen.ones) < 0)
		return err_set(err, -EBADMSG,
			       "damaged column: the rank of sample %" PRIu64 " is wrong", i);
	for (; i < end; i++) {
		if (side_key_at(v, i, &key) < 0)
			return err_set(err, -EBADMSG, "damaged column: a value is missing");
		if (v->type == SHOAL_BIT && i % SIDE_RANK_VALUES == 0 &&
		    (rank_at(v, i / SIDE_RANK_VALUES, &rank) < 0 || rank != seen.ones))
			return err_set(err, -EBADMSG,
				       "damaged column: the rank of sample %" PRIu64 " is wrong",
				       i);
		seen.low = u64_min(seen.low, key);
		seen.high = u64_max(seen.high, key);
		seen.ones += v->type == SHOAL_BIT && key;
	}
	/* The next range begins with this rank. */
	if (v->type == SHOAL_BIT && end < v->nr &&
	    (rank_at(v, end / SIDE_RANK_VALUES, &rank) < 0 || rank != seen.ones))
		return err_set(err, -EBADMSG,
			       "damaged column: the rank of sample %" PRIu64 " is wrong", end);
	x->of[thread] = seen;
	return 0;
}

static int values_commit(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct side_verification *x = self;
	const struct side_seen *seen = &x->of[thread];

	(void)k;
	(void)err;
	x->all.low = u64_min(x->all.low, seen->low);
	x->all.high = u64_max(x->all.high, seen->high);
	x->all.ones = seen->ones;
	return 0;
}

/* Samples whose values are read before any is compared: they lie anywhere, and the processor waits
 * for several at once. */
#define ORDER_AT_ONCE 256u

struct side_ordered {
	uint64_t id, key;
};

/* The samples at @i and after it. */
static int order_read(const struct shoal_column *c, uint64_t i, uint64_t nr,
		      struct side_ordered *ret, struct shoal_err *err)
{
	uint64_t ids[ORDER_AT_ONCE];
	int rc = shoal_column_sorted(c, i, nr, ids);

	for (uint64_t k = 0; k < nr; k++) {
		if (rc == 0)
			rc = side_key_at(&c->view, ids[k], &ret[k].key);
		if (rc < 0)
			return err_set(err, -EBADMSG,
				       "damaged column: position %" PRIu64
				       " of the order, or one after it, has no valid sample",
				       i + k);
		ret[k].id = ids[k];
	}
	return 0;
}

static int verify_order(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	const struct shoal_column *c = ((struct side_verification *)self)->column;
	uint64_t i = k * VERIFY_VALUES, end = u64_min(c->view.nr_order, i + VERIFY_VALUES);
	struct side_ordered before = { .id = 0 }, at[ORDER_AT_ONCE];
	int rc = i ? order_read(c, i - 1, 1, &before, err) : 0;

	(void)thread;
	for (uint64_t nr; i < end && rc == 0; i += nr) {
		nr = u64_min(ORDER_AT_ONCE, end - i);
		rc = order_read(c, i, nr, at, err);
		for (uint64_t j = 0; j < nr && rc == 0; before = at[j++]) {
			/* Strictly ascending, so no sample occurs twice. */
			if (i + j > 0 && (at[j].key < before.key ||
					  (at[j].key == before.key && at[j].id <= before.id)))
				rc = err_set(err, -EBADMSG,
					     "damaged column: the order is not ascending at "
					     "position %" PRIu64,
					     i + j);
		}
	}
	return rc;
}

static int verify_column(struct side_verification *x, struct shoal_err *err)
{
	const struct side_view *v = &x->column->view;
	struct tasks t = { .nr = u64_divide_up(v->at.nr_pages, VERIFY_PAGES),
			   .run = verify_pages,
			   .self = x };
	int rc = tasks_run(&t, err);

	if (rc < 0)
		return rc;
	t.nr = u64_divide_up(v->nr, VERIFY_VALUES);
	t.run = verify_values;
	t.commit = values_commit;
	rc = tasks_run(&t, err);
	if (rc < 0)
		return rc;
	if (v->nr &&
	    (x->all.low != v->min_key || x->all.high != v->max_key || x->all.ones != v->nr_ones))
		return err_set(err, -EBADMSG,
			       "damaged column: smallest, largest or number of ones is wrong");
	if (v->nr_order == SIDE_NO_ORDER)
		return 0;
	t.nr = u64_divide_up(v->nr_order, VERIFY_VALUES);
	t.run = verify_order;
	t.commit = NULL;
	return tasks_run(&t, err);
}

int shoal_column_verify(const struct shoal_column *column, struct shoal_err *err)
{
	struct side_verification x = { .column = column, .all.low = UINT64_MAX };
	int rc = verify_column(&x, err);

	if (column_finish(column, 0) < 0)
		return err_set(err, -ESTALE, "the file shrank while it was read");
	return rc;
}
