#include "index/chunk.h"

#include <assert.h>
#include <string.h>

#include "base/name.h"
#include "base/span.h"

/* What follows a name: size and samples as varints, and the ETag where there are some. */
#define TAIL_MAX (20u + sizeof(struct shoal_etag))

void index_chunk_init(struct index_chunk *c, uint8_t *bytes, size_t cap)
{
	*c = (struct index_chunk){ .bytes = bytes, .cap = cap & ~(size_t)15, .in_order = true };
}

static bool comes_after_last(const struct index_chunk *c, const struct shoal_entry *e)
{
	const struct index_ref *last = index_chunk_refs(c);

	return shoal_name_compare(c->bytes + last->off, last->len, e->name, e->len) < 0;
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
	if (c->in_order && c->nr > 0)
		c->in_order = comes_after_last(c, e);
	memcpy(p, e->name, e->len);
	c->nr++;
	*index_chunk_refs(c) =
		(struct index_ref){ .off = (uint32_t)c->fill, .len = (uint32_t)e->len };
	p = shoal_varint_put(p + e->len, e->size + 1); /* unknown becomes 0 */
	p = shoal_varint_put(p, e->samples);
	if (c->etags) {
		memcpy(p, e->etag, sizeof(*e->etag));
		p += sizeof(*e->etag);
	}
	c->fill = (size_t)(p - c->bytes);
	return true;
}

void index_chunk_entry(const struct index_chunk *c, const struct index_ref *r,
		       struct shoal_entry *ret_entry)
{
	struct shoal_span tail = { .p = c->bytes + r->off + r->len, .end = c->bytes + c->fill };

	ret_entry->name = c->bytes + r->off;
	ret_entry->len = r->len;
	ret_entry->size = shoal_span_varint(&tail) - 1;
	ret_entry->samples = shoal_span_varint(&tail);
	ret_entry->etag = c->etags ? (const struct shoal_etag *)(const void *)tail.p : NULL;
}

/* References lie in reverse order of adding. */
static void reverse(struct index_ref *refs, size_t nr)
{
	for (size_t i = 0; i < nr / 2; i++) {
		struct index_ref r = refs[i];

		refs[i] = refs[nr - 1 - i];
		refs[nr - 1 - i] = r;
	}
}

void index_chunk_sort(struct index_chunk *c)
{
	struct index_ref *refs = index_chunk_refs(c);
	uint32_t shared;

	reverse(refs, c->nr);
	if (c->in_order || c->nr < 2)
		return;
	/* What all names start with need not be sorted by. */
	shared = refs[0].len;
	for (size_t i = 1; i < c->nr && shared > 0; i++)
		shared = (uint32_t)shoal_name_shared(c->bytes + refs[0].off, shared,
						     c->bytes + refs[i].off, refs[i].len);
	index_radix_sort(c->bytes, refs, c->nr, shared);
}

uint8_t *index_chunk_sort_into(struct index_chunk *c, uint8_t *spare)
{
	const struct index_ref *from;
	struct index_ref *to;
	uint8_t *was = c->bytes;
	size_t fill = 0;

	index_chunk_sort(c);
	if (c->in_order || c->nr < 2)
		return spare;
	from = index_chunk_refs(c);
	c->bytes = spare;
	to = index_chunk_refs(c);
	for (size_t i = 0; i < c->nr; i++) {
		const uint8_t *name = was + from[i].off, *end = name + from[i].len;

		if (i + 16 < c->nr)
			__builtin_prefetch(was + from[i + 16].off);
		for (int varints = 0; varints < 2; end++)
			varints += *end < 0x80;
		end += c->etags ? sizeof(struct shoal_etag) : 0;
		memcpy(spare + fill, name, (size_t)(end - name));
		to[i] = (struct index_ref){ .off = (uint32_t)fill, .len = from[i].len };
		fill += (size_t)(end - name);
	}
	return was;
}

uint32_t index_chunk_shared(const struct index_chunk *c)
{
	const struct index_ref *first = index_chunk_refs(c), *last = first + c->nr - 1;

	return (uint32_t)shoal_name_shared(c->bytes + first->off, first->len, c->bytes + last->off,
					   last->len);
}
