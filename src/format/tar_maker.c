/*
 * Write tar as WebDataset reads it: a sample is a member of random bytes and one with its label, of
 * the same stem. Members are whole blocks, so the only padding is at the end of the file.
 */
#include <inttypes.h>
#include <stdio.h>

#include "format/format_private.h"

#define BLOCK       512u
#define SAMPLE_REST 3u /* blocks per sample beside its content: two headers and the label */
#define END         2u /* blocks of zeros */
#define LABELS      1000u

static uint64_t tar_least(uint64_t nr_samples)
{
	return BLOCK * ((SAMPLE_REST + 1) * nr_samples + END);
}

/* The block at which sample @i starts. */
static uint64_t tar_at(const struct format_spec *spec, uint64_t i)
{
	return u64_scale(spec->size / BLOCK - END, i, spec->nr_samples);
}

static uint64_t content_len(const struct format_maker *m)
{
	return BLOCK * (tar_at(&m->spec, m->index + 1) - tar_at(&m->spec, m->index) - SAMPLE_REST);
}

static unsigned label_of(const struct format_maker *m)
{
	return (unsigned)(format_mix(m->spec.key, m->index) % LABELS);
}

/* A ustar header: octal numbers, and a checksum that counts its own field as spaces. */
static void tar_put_header(uint8_t *p, uint64_t index, const char *ending, uint64_t len)
{
	char text[32];
	unsigned sum = 0;

	memset(p, 0, BLOCK);
	snprintf((char *)p, 100, "%010" PRIu64 ".%s", index, ending);
	format_text(p + 100, "0000644");
	format_text(p + 108, "0000000");
	format_text(p + 116, "0000000");
	snprintf(text, sizeof(text), "%011" PRIo64, len);
	format_text(p + 124, text);
	format_text(p + 136, "00000000000");
	memset(p + 148, ' ', 8);
	p[156] = '0';
	format_text(p + 257, "ustar");
	format_text(p + 263, "00");
	for (unsigned i = 0; i < BLOCK; i++)
		sum += p[i];
	snprintf(text, sizeof(text), "%06o", sum);
	format_text(p + 148, text);
	p[154] = '\0';
}

/* The header of the label, and its digits. */
static void put_label(struct format_maker *m)
{
	uint8_t *p = format_put(m, (size_t)2 * BLOCK, 0);
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", label_of(m));

	tar_put_header(p, m->index, "cls", (uint64_t)len);
	memset(p + BLOCK, 0, BLOCK);
	format_text(p + BLOCK, text);
}

static void fill_zeros(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	(void)m;
	(void)cell;
	memset(out, 0, len);
}

static void tar_next(struct format_maker *m)
{
	switch (m->step) {
	case 0:
		tar_put_header(format_put(m, BLOCK, 0), m->index, "bin", content_len(m));
		m->step = 1;
		break;
	case 1:
		format_put_random(m, content_len(m), 0);
		m->step = 2;
		break;
	case 2:
		put_label(m);
		m->step = ++m->index < m->spec.nr_samples ? 0 : 3;
		break;
	case 3:
		format_put_content(m, m->spec.size - BLOCK * tar_at(&m->spec, m->index), fill_zeros,
				   FORMAT_CELL, 0);
		m->step = 4;
		break;
	default:
		break;
	}
}

static int tar_extents(const struct format_spec *spec, format_extent_fn *found, void *self)
{
	int rc = 0;

	for (uint64_t i = 0; i < spec->nr_samples && rc == 0; i++) {
		uint64_t off = BLOCK * tar_at(spec, i);

		rc = found(self, i, off, BLOCK * tar_at(spec, i + 1) - off, 1);
	}
	return rc;
}

const struct format format_tar = {
	.name = "tar",
	.record_max = INT64_C(0777777777777), /* eleven octal digits */
	.least = tar_least,
	.next = tar_next,
	.extents = tar_extents,
};
