/* What a checkpoint says: the pure part of resume.c. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <xxhash.h>

#include "base/le.h"
#include "index/resume.h"

#define SUM_LEN 8u

static const char *text_of(struct shoal_span *s, size_t *ret_len)
{
	uint64_t len = shoal_span_varint(s);

	*ret_len = (size_t)len;
	return (const char *)shoal_span_bytes(s, len);
}

/* A stretch after eight bytes of length. */
static struct shoal_span stretch(struct shoal_span *s)
{
	const uint8_t *head = shoal_span_bytes(s, 8);
	uint64_t len = s->bad ? 0 : shoal_le64_load(head);
	const uint8_t *at = shoal_span_bytes(s, len);

	return (struct shoal_span){ .p = at, .end = s->bad ? at : at + len };
}

int index_checkpoint_parse(const void *buf, size_t len, struct index_checkpoint *ret_checkpoint)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct shoal_span s = { .p = buf, .end = (const uint8_t *)buf + len };

	if (len < INDEX_CHECKPOINT_MAGIC_LEN + SUM_LEN ||
	    memcmp(buf, INDEX_CHECKPOINT_MAGIC, INDEX_CHECKPOINT_MAGIC_LEN) != 0)
		return -EBADMSG;
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	if (XXH3_64bits(buf, len - SUM_LEN) != shoal_le64_load(s.end - SUM_LEN))
		return -EBADMSG;
#endif
	s.end -= SUM_LEN;
	s.p += INDEX_CHECKPOINT_MAGIC_LEN;
	c.started = shoal_span_varint(&s);
	c.nr_names = shoal_span_varint(&s);
	c.nr_unreadable = shoal_span_varint(&s);
	c.nr_foreign = shoal_span_varint(&s);
	c.runs_end = shoal_span_varint(&s);
	c.rank = shoal_span_varint(&s);
	c.nr_ranks = shoal_span_varint(&s);
	c.session = shoal_span_varint(&s);
	c.root = text_of(&s, &c.root_len);
	c.listing = text_of(&s, &c.listing_len);
	c.runs = stretch(&s);
	c.sums = stretch(&s);
	c.units = stretch(&s);
	c.gifts = stretch(&s);
	c.got = stretch(&s);
	if (s.bad || shoal_span_left(&s) > 0 || c.rank >= c.nr_ranks || c.nr_ranks > INT_MAX)
		return -EBADMSG;
	*ret_checkpoint = c;
	return 0;
}

int index_checkpoint_run(struct shoal_span *runs, uint64_t runs_end, struct index_run *ret_run)
{
	if (shoal_span_left(runs) == 0)
		return 0;
	ret_run->off = shoal_span_varint(runs);
	ret_run->len = shoal_span_varint(runs);
	ret_run->etags = false; /* whoever knows what was listed says otherwise */
	ret_run->shared = (uint32_t)shoal_min(shoal_span_varint(runs), SHOAL_NAME_MAX);
	if (runs->bad || ret_run->off > runs_end || ret_run->len > runs_end - ret_run->off)
		return -EBADMSG;
	return 1;
}

int index_checkpoint_unit(struct shoal_span *units, const void **ret_unit, size_t *ret_len)
{
	uint64_t len;

	if (shoal_span_left(units) == 0)
		return 0;
	len = shoal_span_varint(units);
	*ret_unit = shoal_span_bytes(units, len);
	*ret_len = (size_t)len;
	return units->bad || len > STORE_UNIT_MAX ? -EBADMSG : 1;
}

int index_checkpoint_gift(struct shoal_span *gifts, uint64_t *ret_to, uint64_t *ret_nr,
			  const void **ret_unit, size_t *ret_len)
{
	if (shoal_span_left(gifts) == 0)
		return 0;
	*ret_to = shoal_span_varint(gifts);
	*ret_nr = shoal_span_varint(gifts);
	if (gifts->bad || shoal_span_left(gifts) == 0)
		return -EBADMSG;
	return index_checkpoint_unit(gifts, ret_unit, ret_len);
}

uint64_t index_checkpoint_got(const struct index_checkpoint *c, uint64_t from)
{
	struct shoal_span got = c->got;
	uint64_t nr = 0;

	for (uint64_t i = 0; i <= from && !got.bad; i++)
		nr = shoal_span_varint(&got);
	return got.bad ? 0 : nr;
}
