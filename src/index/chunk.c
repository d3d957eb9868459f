#include "index/chunk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/span.h"

/* What follows a name: size and samples as varints, and the ETag where there are some. */
#define TAIL_MAX (20u + sizeof(struct shoal_etag))

/* A packed entry has its name's length before it, as a varint. */
#define LEN_BYTES(len) ((len) < 0x80 ? 1u : 2u)
_Static_assert(SHOAL_NAME_MAX < 1u << 14, "two bytes have a name's length");

/* Stretches are sorted instead of names where there are few: so many, and one for so many names. */
#define STRETCHES_MIN 16u
#define STRETCH_MIN   32u

void index_chunk_init(struct index_chunk *c, uint8_t *bytes, size_t cap)
{
	assert(cap >= INDEX_CHUNK_MIN && (cap | (uintptr_t)bytes) % 16 == 0);
	*c = (struct index_chunk){ .bytes = bytes, .cap = cap };
}

/* Bytes of a name up to its last slash. */
static size_t dir_len(const struct shoal_entry *e)
{
	const uint8_t *slash = memrchr(e->name, '/', e->len);

	return slash ? (size_t)(slash + 1 - e->name) : 0;
}

/* Whether the next entry goes on with a stretch: it rises, and lies in the same directory. */
static bool goes_on(const struct index_chunk *c, const struct shoal_entry *e)
{
	const struct index_ref *last = index_chunk_refs(c);
	const uint8_t *name;
	size_t shared;

	if (c->nr == 0)
		return false;
	name = c->bytes + last->off;
	shared = shoal_name_shared(name, last->len, e->name, e->len);
	if (shared < c->stretch_dir || shared == e->len)
		return false;
	return shared == last->len || name[shared] < e->name[shared];
}

static void note_stretch(struct index_chunk *c, const struct shoal_entry *e)
{
	if (goes_on(c, e))
		return;
	c->stretch_before = c->last_stretch;
	c->last_stretch = c->nr;
	c->stretch_dir = dir_len(e);
	c->nr_stretches++;
	c->mixed = c->nr_stretches > STRETCHES_MIN + c->nr / STRETCH_MIN;
}

bool index_chunk_put(struct index_chunk *c, const struct shoal_entry *e)
{
	size_t refs = (c->nr + 1) * sizeof(struct index_ref);
	uint8_t *p = c->bytes + c->fill;

	if (refs + c->fill + e->len + TAIL_MAX > c->cap)
		return false;
	if (c->nr == 0)
		c->etags = e->etag;
	assert(c->etags == (e->etag != NULL));
	if (!c->mixed)
		note_stretch(c, e);
	memcpy(p, e->name, e->len);
	c->nr++;
	/* The key leads from stretch to stretch until they are sorted. */
	*index_chunk_refs(c) = (struct index_ref){ .key = c->stretch_before,
						   .off = (uint32_t)c->fill,
						   .len = (uint16_t)e->len };
	p = shoal_varint_put(p + e->len, e->size + 1); /* unknown becomes 0 */
	p = shoal_varint_put(p, e->samples);
	if (c->etags) {
		memcpy(p, e->etag, sizeof(*e->etag));
		p += sizeof(*e->etag);
	}
	c->packed += (size_t)(p - c->bytes) - c->fill + LEN_BYTES(e->len);
	c->fill = (size_t)(p - c->bytes);
	return true;
}

const uint8_t *index_pack_tail(const struct index_pack *pack, const uint8_t *p,
			       struct shoal_entry *ret_entry)
{
	struct shoal_span tail = { .p = p, .end = pack->bytes + pack->len };

	ret_entry->size = shoal_span_varint(&tail) - 1;
	ret_entry->samples = shoal_span_varint(&tail);
	ret_entry->etag = NULL;
	if (pack->etags) {
		ret_entry->etag = (const struct shoal_etag *)(const void *)tail.p;
		tail.p += sizeof(struct shoal_etag);
	}
	return tail.p;
}

/* ---- Sorting ---- */

/* The first and the last in order. */
struct ends {
	const struct index_ref *first, *last;
};

/* Names that came in order: from @first on, in the order of adding. */
struct stretch {
	uint32_t first, nr;
};

/* References lie in reverse order of adding. */
static const struct index_ref *added(const struct index_chunk *c, size_t i)
{
	return index_chunk_refs(c) + (c->nr - 1 - i);
}

static int compare_added(const struct index_chunk *c, size_t a, size_t b)
{
	const struct index_ref *x = added(c, a), *y = added(c, b);

	return shoal_name_compare(c->bytes + x->off, x->len, c->bytes + y->off, y->len);
}

static int compare_stretches(const void *a, const void *b, void *chunk)
{
	const struct stretch *x = a, *y = b;

	return compare_added(chunk, x->first, y->first);
}

/* The entry that a reference leads to, and its name's length before it. */
static uint8_t *pack(const struct index_chunk *c, const struct index_ref *r, uint8_t *to)
{
	const uint8_t *name = c->bytes + r->off, *end = name + r->len;

	for (int varints = 0; varints < 2; end++)
		varints += *end < 0x80;
	end += c->etags ? sizeof(struct shoal_etag) : 0;
	to = shoal_varint_put(to, r->len);
	memcpy(to, name, (size_t)(end - name));
	return to + (end - name);
}

/* Where stretches came one after the other, each directory's names say, they only change places. */
static bool pack_stretches(const struct index_chunk *c, uint8_t *spare, uint8_t *to,
			   struct ends *ret_ends)
{
	struct stretch *s = (struct stretch *)(void *)spare;
	size_t end = c->nr, first = c->last_stretch;

	if (c->mixed)
		return false;
	for (size_t i = c->nr_stretches; i-- > 0; first = (size_t)added(c, end)->key) {
		s[i] = (struct stretch){ .first = (uint32_t)first, .nr = (uint32_t)(end - first) };
		end = first;
	}
	/* It may ask for as much memory again: 8 bytes a stretch, of which 32 names make one. */
	qsort_r(s, c->nr_stretches, sizeof(*s), compare_stretches, (void *)(uintptr_t)c);
	for (size_t i = 1; i < c->nr_stretches; i++) /* of equal names the later one counts */
		if (compare_added(c, s[i - 1].first + s[i - 1].nr - 1, s[i].first) >= 0)
			return false;
	for (size_t i = 0; i < c->nr_stretches; i++)
		for (size_t k = 0; k < s[i].nr; k++)
			to = pack(c, added(c, s[i].first + k), to);
	ret_ends->first = added(c, s[0].first);
	ret_ends->last = added(c, s[c->nr_stretches - 1].first + s[c->nr_stretches - 1].nr - 1);
	return true;
}

static void pack_names(struct index_chunk *c, uint8_t *spare, uint8_t *to, struct ends *ret_ends)
{
	struct index_ref *refs = index_chunk_refs(c);
	uint32_t shared = refs[0].len;

	/* What all names start with need not be sorted by. */
	for (size_t i = 1; i < c->nr && shared > 0; i++)
		shared = (uint32_t)shoal_name_shared(c->bytes + refs[0].off, shared,
						     c->bytes + refs[i].off, refs[i].len);
	index_radix_sort(c->bytes, refs, (struct index_ref *)(void *)spare, c->nr, shared);
	for (size_t i = 0; i < c->nr; i++) {
		if (i + 16 < c->nr)
			__builtin_prefetch(c->bytes + refs[i + 16].off);
		to = pack(c, &refs[i], to);
	}
	*ret_ends = (struct ends){ .first = &refs[0], .last = &refs[c->nr - 1] };
}

/* What the first and the last of names in order share, all share. */
static uint32_t shared_by_all(const struct index_chunk *c, const struct ends *e)
{
	return (uint32_t)shoal_name_shared(c->bytes + e->first->off, e->first->len,
					   c->bytes + e->last->off, e->last->len);
}

struct index_pack index_chunk_sort(struct index_chunk *c, uint8_t *spare, uint8_t *to)
{
	struct index_pack p = { .bytes = to, .len = c->packed, .etags = c->etags };
	struct ends ends;

	if (c->nr == 0)
		return p;
	if (!pack_stretches(c, spare, to, &ends))
		pack_names(c, spare, to, &ends);
	p.shared = shared_by_all(c, &ends);
	return p;
}
