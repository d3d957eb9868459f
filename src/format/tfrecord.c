/*
 * TFRecord: each record is a length, its CRC, a payload and its CRC. The payload is a
 * tf.train.Example with DLIO's features: "image", which holds the random bytes, and "size".
 *
 * The lengths inside an Example are varints, always padded to five bytes: so a payload can have any
 * size, and decoders accept them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "format/samples_private.h"

#define FRAME_HEAD 12
#define FRAME      (FRAME_HEAD + 4)
#define HEAD       37 /* bytes of an Example before the image */
#define TAIL       19 /* and after it */
#define LEAST      (FRAME + HEAD + 1 + TAIL)

static uint64_t tfrecord_least(uint64_t nr_samples)
{
	return LEAST * nr_samples;
}

static void tfrecord_sum(struct format_maker *m, const uint8_t *bytes, size_t len)
{
	m->sum[0] = format_crc32c(m->sum[0], bytes, len);
}

static uint64_t record_at(const struct format_spec *spec, uint64_t i)
{
	return u64_scale(spec->size, i, spec->nr_samples);
}

/* The image bytes of the current record. */
static uint64_t image_len(const struct format_maker *m)
{
	return record_at(&m->spec, m->index + 1) - record_at(&m->spec, m->index) - FRAME - HEAD -
	       TAIL;
}

static uint8_t *wide_varint(uint8_t *p, uint64_t v)
{
	for (unsigned i = 0; i < 4; i++, v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)(v & 0x7f);
	return p;
}

/* A field of wire type 2: its tag and its length. */
static uint8_t *put_field(uint8_t *p, unsigned tag, uint64_t len)
{
	*p++ = (uint8_t)tag;
	return wide_varint(p, len);
}

static void put_frame_head(struct format_maker *m)
{
	uint8_t *p = format_put(m, FRAME_HEAD, 0);

	format_le64(p, HEAD + image_len(m) + TAIL);
	format_le32(p + 8, format_masked(format_crc32c(0, p, 8)));
	m->sum[0] = 0;
}

/* The length of each level is that of its content plus six for the level itself. */
static void put_example_head(struct format_maker *m)
{
	uint64_t image = image_len(m);
	uint8_t *p = format_put(m, HEAD, 1);

	p = put_field(p, 0x0a, image + 6 + 6 + 6 + 7 + 6 + TAIL); /* Example.features */
	p = put_field(p, 0x0a, image + 6 + 6 + 6 + 7);            /* Features.feature */
	p = format_text(p, "\x0a\x05image");
	p = put_field(p, 0x12, image + 6 + 6); /* its value, a Feature */
	p = put_field(p, 0x0a, image + 6);     /* Feature.bytes_list */
	put_field(p, 0x0a, image);             /* BytesList.value */
}

/* The second feature: an Int64List of one number, the side of the image if it were a square. */
static void put_tail(struct format_maker *m)
{
	uint8_t *p = format_put(m, TAIL + 4, 0), *start = p;

	p = format_text(p, "\x0a\x11\x0a\x04size\x12\x09\x1a\x07\x0a\x05");
	wide_varint(p, format_isqrt(image_len(m)));
	m->sum[0] = format_crc32c(m->sum[0], start, TAIL);
	format_le32(start + TAIL, format_masked(m->sum[0]));
}

static void tfrecord_next(struct format_maker *m)
{
	if (m->index == m->spec.nr_samples)
		return;
	switch (m->step++) {
	case 0:
		put_frame_head(m);
		break;
	case 1:
		put_example_head(m);
		break;
	case 2:
		format_put_random(m, image_len(m), 1);
		break;
	default:
		put_tail(m);
		m->step = 0;
		m->index++;
		break;
	}
}

static int tfrecord_extents(const struct format_spec *spec, format_extent_fn *found, void *self)
{
	int rc = 0;

	for (uint64_t i = 0; i < spec->nr_samples && rc == 0; i++) {
		uint64_t off = record_at(spec, i);

		rc = found(self, i, off + FRAME_HEAD, record_at(spec, i + 1) - off - FRAME, 1);
	}
	return rc;
}

/* ---- The index that DALI reads: one line per record, "offset length" ---- */

static void index_next(struct format_maker *m)
{
	char line[64];
	size_t len = 0;
	uint8_t *p;

	if (m->index == m->spec.nr_samples)
		return;
	p = format_put(m, 0, 0);
	while (m->index < m->spec.nr_samples && len + sizeof(line) <= FORMAT_LITERAL_MAX) {
		uint64_t off = record_at(&m->spec, m->index);
		uint64_t end = record_at(&m->spec, m->index + 1);
		int n = snprintf(line, sizeof(line), "%" PRIu64 " %" PRIu64 "\n", off, end - off);

		memcpy(p + len, line, (size_t)n);
		len += (size_t)n;
		m->index++;
	}
	m->piece.len = len;
}

/* ---- Finding ---- */

static bool length_fits(const uint8_t head[FRAME_HEAD])
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	(void)head;
	return true;
#else
	return le32_load(head + 8) == format_masked(format_crc32c(0, head, 8));
#endif
}

/* Compare the payload at @off with the checksum after it. */
static int check_payload(struct samples_search *s, uint64_t off, uint64_t len)
{
	uint8_t buf[4096];
	uint32_t crc = 0;
	int rc = 0;

	for (uint64_t done = 0; done < len && rc == 0;) {
		size_t n = (size_t)u64_min(sizeof(buf), len - done);

		rc = format_read(s->file, off + done, buf, n, s->err);
		crc = rc == 0 ? format_crc32c(crc, buf, n) : crc;
		done += n;
	}
	if (rc == 0)
		rc = format_read(s->file, off + len, buf, 4, s->err);
	if (rc == 0 && le32_load(buf) != format_masked(crc))
		rc = err_set(s->err, -EBADMSG,
			     "the content of the record at %" PRIu64 " does not match its checksum",
			     off - FRAME_HEAD);
	return rc;
}

int samples_find_tfrecord(struct samples_search *s)
{
	const struct format_source *file = s->file;
	uint64_t off = 0;
	int rc = 0;

	while (off < file->size && rc == 0) {
		uint8_t head[FRAME_HEAD] = { 0 };
		uint64_t len;

		rc = format_read(file, off, head, sizeof(head), s->err);
		if (rc < 0)
			return rc;
		len = le64_load(head);
		/* A wrong length would lead anywhere. */
		if (!length_fits(head))
			return err_set(s->err, -EBADMSG,
				       "the length of the record at %" PRIu64
				       " does not match its checksum",
				       off);
		if (file->size - off < FRAME || len > file->size - off - FRAME)
			return err_set(s->err, -EBADMSG,
				       "the record at %" PRIu64 " of %" PRIu64
				       " bytes extends past the end of the file",
				       off, len);
		rc = s->file->verify ? check_payload(s, off + FRAME_HEAD, len) : 0;
		if (rc == 0)
			rc = samples_report(s, off + FRAME_HEAD, len, 1);
		off += len + FRAME;
	}
	return rc;
}

const struct format format_tfrecord = {
	.name = "tfrecord",
	.record_max = INT32_MAX, /* the limit of a protocol buffer */
	.least = tfrecord_least,
	.next = tfrecord_next,
	.extents = tfrecord_extents,
	.sum = tfrecord_sum,
	.side = { { ".idx", true } },
	.side_next = { index_next },
};
