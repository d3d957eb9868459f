/*
 * indexed_binary: samples one after another, with their offsets and sizes in two side files of
 * 64-bit numbers.
 */
#include <inttypes.h>

#include "base/text.h"
#include "format/format_private.h"

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

const struct format format_indexed_binary = {
	.name = "indexed_binary",
	.least = indexed_least,
	.next = indexed_next,
	.side = { { ".off.idx", false }, { ".sz.idx", false } },
	.side_next = { side_next, side_next },
};
