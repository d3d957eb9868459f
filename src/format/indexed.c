/*
 * indexed_binary: samples one after another, with their offsets and sizes in two side files of
 * 64-bit numbers.
 */
#include <inttypes.h>

#include "base/text.h"
#include "format/samples_private.h"

static uint64_t indexed_least(uint64_t nr_samples)
{
	return nr_samples;
}

static void indexed_next(struct format_maker *m)
{
	if (m->step++ == 0)
		format_put_random(m, m->spec.size, 0);
}

static void side_next(struct format_maker *m)
{
	uint64_t nr = u64_min(FORMAT_LITERAL_MAX / 8, m->spec.nr_samples - m->index);
	bool sizes = m->part == 2;
	uint8_t *p;

	if (nr == 0)
		return;
	p = format_put(m, 8 * (size_t)nr, 0);
	for (uint64_t i = m->index; i < m->index + nr; i++) {
		uint64_t off = u64_scale(m->spec.size, i, m->spec.nr_samples);

		if (sizes)
			off = u64_scale(m->spec.size, i + 1, m->spec.nr_samples) - off;
		p = format_le64(p, off);
	}
	m->index += nr;
}

/* ---- Finding ---- */

#define AT_ONCE 512 /* numbers read at once */

static int find_some(struct samples_search *s, const struct format_source *sides, uint64_t first,
		     size_t nr)
{
	struct le64 off[AT_ONCE], len[AT_ONCE];
	int rc = format_read(&sides[0], 8 * first, off, 8 * nr, s->err);

	if (rc == 0)
		rc = format_read(&sides[1], 8 * first, len, 8 * nr, s->err);
	for (size_t i = 0; i < nr && rc == 0; i++)
		rc = samples_report(s, le64_get(off[i]), le64_get(len[i]), 1);
	return rc;
}

/* The two index files have the offsets and the sizes, so that the data file is not read at all. */
int samples_find_indexed(struct samples_search *s)
{
	struct format_source side[FORMAT_SIDES_MAX];
	uint64_t nr;
	int rc = 0;

	if (!s->file->open_side)
		return err_set(s->err, -EBADMSG, "its index files cannot be read from here");
	for (size_t i = 0; i < FORMAT_SIDES_MAX && rc == 0; i++)
		rc = s->file->open_side(s->file->self, format_indexed_binary.side[i].suffix,
					&side[i], s->err);
	if (rc < 0)
		return rc;
	nr = side[0].size / 8;
	if (side[0].size % 8 || side[0].size != side[1].size)
		return err_set(s->err, -EBADMSG,
			       "the index of offsets has %" PRIu64
			       " bytes and that of sizes %" PRIu64
			       ": both should have 8 per sample",
			       side[0].size, side[1].size);
	for (uint64_t i = 0; i < nr && rc == 0; i += AT_ONCE)
		rc = find_some(s, side, i, (size_t)u64_min(AT_ONCE, nr - i));
	return rc;
}

const struct format format_indexed_binary = {
	.name = "indexed_binary",
	.least = indexed_least,
	.next = indexed_next,
	.side = { { ".off.idx", false }, { ".sz.idx", false } },
	.side_next = { side_next, side_next },
};
