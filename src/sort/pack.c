#include "sort/pack.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

/* A packed entry is preceded by its name's length, a varint; its payload's length follows the
 * name. */
#define LEN_BYTES(len) ((len) < 0x80 ? 1u : 2u)
_Static_assert(SHOAL_NAME_MAX < 1u << 14, "two bytes have a name's length");

/* Stretches (names of one directory, added in order) are sorted instead of names if there are at
 * most this many, and at most one more per this many names. With 16 instead of 4, a directory of
 * 100 unsorted names pays 12 more comparisons and searches for a slash. */
#define STRETCHES_MIN 4u
#define STRETCH_MIN   32u

void packer_init(struct packer *p, uint8_t *bytes, size_t cap)
{
	assert(cap >= PACKER_MIN && (cap | (uintptr_t)bytes) % 16 == 0);
	*p = (struct packer){ .bytes = bytes, .cap = cap };
}

/* Length of a name up to its last slash. */
static size_t dir_len(const struct sort_entry *e)
{
	const uint8_t *slash = memrchr(e->name, '/', e->len);

	return slash ? (size_t)(slash + 1 - e->name) : 0;
}

/* Whether the next entry continues a stretch: it comes after the last one, in the same
 * directory. */
static bool packer_continues(const struct packer *p, const struct sort_entry *e)
{
	const struct sort_ref *last = packer_refs(p);
	const uint8_t *name;
	size_t shared;

	if (p->nr == 0)
		return false;
	name = p->bytes + last->off;
	shared = name_shared(name, last->len, e->name, e->len);
	if (shared < p->stretch_dir || shared == e->len)
		return false;
	return shared == last->len || name[shared] < e->name[shared];
}

static void start_stretch(struct packer *p, const struct sort_entry *e)
{
	p->stretch_before = p->last_stretch;
	p->last_stretch = p->nr;
	p->stretch_dir = dir_len(e);
	p->nr_stretches++;
	p->mixed = p->nr_stretches > STRETCHES_MIN + p->nr / STRETCH_MIN;
}

static inline size_t bytes_of(const struct sort_entry *e)
{
	return e->len + 1 + e->payload_len;
}

static inline bool has_room(const struct packer *p, const struct sort_entry *e)
{
	return (p->nr + 1) * sizeof(struct sort_ref) + p->fill + bytes_of(e) <= p->cap;
}

static inline void packer_append(struct packer *p, const struct sort_entry *e)
{
	uint8_t *to = p->bytes + p->fill;

	assert(e->payload_len <= SORT_PAYLOAD_MAX);
	memcpy(to, e->name, e->len);
	to[e->len] = (uint8_t)e->payload_len;
	sort_payload_copy(to + e->len + 1, e->payload, e->payload_len);
	p->nr++;
	/* The key links stretches until they are sorted. */
	*packer_refs(p) = (struct sort_ref){ .key = p->stretch_before,
					     .off = (uint32_t)p->fill,
					     .len = (uint16_t)e->len };
	p->packed += bytes_of(e) + LEN_BYTES(e->len);
	p->fill += bytes_of(e);
}

size_t packer_put(struct packer *p, const struct sort_entry *entries, size_t nr)
{
	struct packer mine = *p; /* stays in registers, because what is written may alias *p */
	size_t put = 0;

	for (; put < nr && has_room(&mine, &entries[put]); put++) {
		if (!mine.mixed && !packer_continues(&mine, &entries[put]))
			start_stretch(&mine, &entries[put]);
		packer_append(&mine, &entries[put]);
	}
	*p = mine;
	return put;
}

/* Whether both names are equal: then so are their keys, because they were sorted together. */
static bool is_repeated(const struct packer *p, const struct sort_ref *a, const struct sort_ref *b)
{
	return a->key == b->key && a->len == b->len &&
	       bytes_equal(p->bytes + a->off, p->bytes + b->off, a->len);
}

/* Sort the last stretch; its references are stored in reverse order. */
static void sort_last_stretch(struct packer *p, struct sort_ref *spare)
{
	struct sort_ref *refs = packer_refs(p);
	size_t nr = p->nr - p->last_stretch;
	const struct sort_ref *first = &refs[nr - 1];
	size_t shared = first->len;

	for (size_t i = 0; i + 1 < nr && shared > 0; i++)
		shared = name_shared(p->bytes + first->off, shared, p->bytes + refs[i].off,
				     refs[i].len);
	sort_radix(p->bytes, refs, spare, nr, (uint32_t)shared);
	for (size_t i = 1; i < nr && !p->mixed; i++)
		p->mixed = is_repeated(p, &refs[i - 1], &refs[i]);
	for (size_t i = 0; i < nr / 2; i++) {
		struct sort_ref swap = refs[i];

		refs[i] = refs[nr - 1 - i];
		refs[nr - 1 - i] = swap;
	}
	refs[nr - 1].key = p->stretch_before;
}

static bool rises(const struct sort_entry *entries, size_t nr)
{
	for (size_t i = 1; i < nr; i++)
		if (name_compare(entries[i - 1].name, entries[i - 1].len, entries[i].name,
				 entries[i].len) >= 0)
			return false;
	return true;
}

size_t packer_put_group(struct packer *p, const struct sort_entry *entries, size_t nr,
			struct sort_ref *spare)
{
	size_t put = 0;

	if (nr == 0 || !has_room(p, &entries[0]))
		return 0;
	if (p->mixed || rises(entries, nr))
		return packer_put(p, entries, nr);
	start_stretch(p, &entries[0]);
	for (; put < nr && has_room(p, &entries[put]); put++)
		packer_append(p, &entries[put]);
	sort_last_stretch(p, spare);
	return put;
}

/* ---- Sorting ---- */

/* Entries that are being packed. */
struct packing {
	const struct packer *from;
	uint8_t *start, *to;
	uint32_t *mark;
	size_t nr;
	uint64_t repeated;
	const struct sort_ref *first, *last;
};

/* Names that were added in order, from @first on. */
struct stretch {
	uint32_t first, nr;
};

/* References are stored in reverse order of adding. */
static const struct sort_ref *added(const struct packer *p, size_t i)
{
	return packer_refs(p) + (p->nr - 1 - i);
}

static int compare_added(const struct packer *p, size_t a, size_t b)
{
	const struct sort_ref *x = added(p, a), *y = added(p, b);

	return name_compare(p->bytes + x->off, x->len, p->bytes + y->off, y->len);
}

static int compare_stretches(const void *a, const void *b, void *packer)
{
	const struct stretch *x = a, *y = b;

	return compare_added(packer, x->first, y->first);
}

/* The entry of a reference, with its name's length before it. */
static inline void pack_one(struct packing *w, const struct sort_ref *r)
{
	const uint8_t *name = w->from->bytes + r->off;
	size_t len = (size_t)r->len + 1 + name[r->len];

	if (w->nr % PACK_MARK == 0 && w->nr > 0)
		*w->mark++ = (uint32_t)(w->to - w->start);
	w->nr++;
	w->to = varint_put(w->to, r->len);
	memcpy(w->to, name, len);
	w->to += len;
}

/* What pack_one() writes for an entry. */
static size_t packed_bytes(const struct packer *p, const struct sort_ref *r)
{
	return LEN_BYTES(r->len) + (size_t)r->len + 1 + p->bytes[r->off + r->len];
}

/* If whole stretches were added, such as one directory after another, only stretches are moved. */
static bool pack_stretches(struct packing *w, uint8_t *spare)
{
	const struct packer *p = w->from;
	struct stretch *s = (struct stretch *)(void *)spare;
	size_t end = p->nr, first = p->last_stretch, last = p->nr_stretches - 1;

	if (p->mixed)
		return false;
	for (size_t i = p->nr_stretches; i-- > 0; first = (size_t)added(p, end)->key) {
		s[i] = (struct stretch){ .first = (uint32_t)first, .nr = (uint32_t)(end - first) };
		end = first;
	}
	/* May allocate as much memory again: 8 bytes per stretch of 32 names. */
	qsort_r(s, p->nr_stretches, sizeof(*s), compare_stretches, (void *)(uintptr_t)p);
	for (size_t i = 1; i < p->nr_stretches; i++) /* of equal names the later one is kept */
		if (compare_added(p, s[i - 1].first + s[i - 1].nr - 1, s[i].first) >= 0)
			return false;
	for (size_t i = 0; i < p->nr_stretches; i++)
		for (size_t k = 0; k < s[i].nr; k++)
			pack_one(w, added(p, s[i].first + k));
	w->first = added(p, s[0].first);
	w->last = added(p, s[last].first + s[last].nr - 1);
	return true;
}

static void pack_names(struct packing *to, uint8_t *spare)
{
	struct packing mine = *to, *w = &mine; /* in registers: what is written may alias *to */
	const struct packer *p = w->from;
	struct sort_ref *refs = packer_refs(p);
	uint32_t shared = refs[0].len;

	/* The common prefix of all names need not be compared. */
	for (size_t i = 1; i < p->nr && shared > 0; i++)
		shared = (uint32_t)name_shared(p->bytes + refs[0].off, shared,
					       p->bytes + refs[i].off, refs[i].len);
	sort_radix(p->bytes, refs, (struct sort_ref *)(void *)spare, p->nr, shared);
	for (size_t i = 0; i < p->nr; i++) {
		if (i + 16 < p->nr)
			__builtin_prefetch(p->bytes + refs[i + 16].off);
		if (i + 1 < p->nr && is_repeated(p, &refs[i], &refs[i + 1]))
			w->repeated++;
		else
			pack_one(w, &refs[i]);
	}
	w->first = &refs[0];
	w->last = &refs[p->nr - 1];
	*to = mine;
}

struct pack packer_sort(struct packer *p, uint8_t *spare, uint8_t *to)
{
	uintptr_t align = sizeof(uint32_t) - 1;
	uint32_t *mark = (uint32_t *)(((uintptr_t)to + p->packed + align) & ~align);
	struct packing w = { .from = p, .start = to, .to = to, .mark = mark };
	struct pack pack = { .bytes = to, .mark = mark };

	if (p->nr == 0)
		return pack;
	if (!pack_stretches(&w, spare))
		pack_names(&w, spare);
	pack.len = (size_t)(w.to - to);
	pack.last = w.to - packed_bytes(p, w.last);
	pack.nr = w.nr;
	pack.repeated = w.repeated;
	/* In sorted names, all share what the first and the last share. */
	pack.shared = (uint32_t)name_shared(p->bytes + w.first->off, w.first->len,
					    p->bytes + w.last->off, w.last->len);
	return pack;
}

/* ---- Searching ---- */

static bool is_before(const uint8_t *at, const uint8_t *name, size_t len, bool with_equal)
{
	size_t at_len;
	const uint8_t *at_name = pack_name(at, &at_len);

	return name_compare(at_name, at_len, name, len) < (with_equal ? 1 : 0);
}

const uint8_t *pack_split(const struct pack *pack, const uint8_t *from, const uint8_t *name,
			  size_t len, bool with_equal)
{
	const uint8_t *end = pack->bytes + pack->len;
	size_t low = 0, high = pack->nr ? (pack->nr - 1) / PACK_MARK : 0;
	struct sort_entry e;

	if (from == end || is_before(pack->last, name, len, with_equal))
		return end;  /* nearly always, if packs are directories */
	while (low < high) { /* marks up to low are before the name, those from high on are not */
		size_t middle = low + (high - low) / 2;

		if (is_before(pack->bytes + pack->mark[middle], name, len, with_equal))
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0 && pack->bytes + pack->mark[low - 1] > from)
		from = pack->bytes + pack->mark[low - 1];
	while (from < end && is_before(from, name, len, with_equal))
		from = pack_entry(from, &e);
	return from;
}
