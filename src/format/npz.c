/*
 * NPZ: a zip archive, stored, with the samples as x.npy and a label per sample as y.npy.
 *
 * In a zip archive the CRC of a member precedes the member. It is chosen in advance, and the last
 * four bytes of x are computed to match it. So the file is made in one pass, and readers that rely
 * on local headers accept it. The rest of the requested size is an extra field of x's local header.
 */
#include <inttypes.h>

#include "format/samples_private.h"

#define LOCAL      35 /* local header, including a name of five bytes */
#define CENTRAL    51
#define END        22
#define EXTRA_HEAD 4
#define EXTRA_ID   0x7053 /* private */
#define PAD_MAX    65000  /* together with other extra fields at most 65,535 bytes */
#define FIXED      (LOCAL + EXTRA_HEAD + FORMAT_NPY_HEAD + LOCAL + FORMAT_NPY_HEAD + 2 * CENTRAL + END)
#define X_LEAST    4 /* bytes per sample: enough to choose a CRC */

/* From 4 GiB on: 64-bit numbers in extra fields, and in the end record. */
#define LARGE         UINT64_C(0xffff0000)
#define LARGE_LOCAL   20
#define LARGE_CENTRAL (20 + 12)
#define LARGE_END     (56 + 20)
#define LARGE_COST    (LARGE_LOCAL + LARGE_CENTRAL + LARGE_END)
#define ELSEWHERE     UINT32_MAX /* marks a 32-bit field whose value is in a 64-bit one */

#define DATE_1980 0x0021

static uint64_t npz_least(uint64_t nr_samples)
{
	return FIXED + nr_samples + X_LEAST * nr_samples;
}

static void label_fill(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	format_random(format_mix(m->spec.key, ~cell), out, len);
}

static void y_head(const struct format_maker *m, uint8_t *p)
{
	format_npy_head(p, FORMAT_NPY_HEAD, &m->spec.nr_samples, 1);
}

static uint32_t label_crc(const struct format_maker *m)
{
	uint8_t buf[FORMAT_CELL];
	uint32_t crc;

	y_head(m, buf);
	crc = format_crc32(0, buf, FORMAT_NPY_HEAD);
	for (uint64_t at = 0; at < m->spec.nr_samples; at += sizeof(buf)) {
		size_t len = (size_t)u64_min(sizeof(buf), m->spec.nr_samples - at);

		label_fill(m, at / sizeof(buf), buf, len);
		crc = format_crc32(crc, buf, len);
	}
	return crc;
}

static void npz_plan(struct format_maker *m)
{
	bool large = m->spec.size >= LARGE;

	format_plan_array(m, m->spec.size - FIXED - m->spec.nr_samples - (large ? LARGE_COST : 0),
			  PAD_MAX);
	m->plan.array.large = large;
	m->plan.array.label_crc = label_crc(m);
	m->sum[0] = 0;
}

static void npz_sum(struct format_maker *m, const uint8_t *bytes, size_t len)
{
	m->sum[0] = format_crc32(m->sum[0], bytes, len);
}

static uint32_t chosen_crc(const struct format_maker *m)
{
	return (uint32_t)format_mix(m->spec.key, UINT32_MAX);
}

static uint64_t x_len(const struct format_maker *m)
{
	return FORMAT_NPY_HEAD + m->plan.array.data;
}

static uint64_t y_len(const struct format_maker *m)
{
	return FORMAT_NPY_HEAD + m->spec.nr_samples;
}

/* The part that local and central headers share: from the version needed to the extra's length. */
static uint8_t *put_common(uint8_t *p, bool large, uint32_t crc, uint64_t len, uint64_t extra_len)
{
	p = format_le16(p, large ? 45 : 20);
	p = format_le32(p, 0); /* no flags, stored */
	p = format_le16(p, 0);
	p = format_le16(p, DATE_1980);
	p = format_le32(p, crc);
	p = format_le32(p, large ? ELSEWHERE : len);
	p = format_le32(p, large ? ELSEWHERE : len);
	p = format_le16(p, 5);
	return format_le16(p, extra_len);
}

/* The local header of x.npy; the bytes of the padding follow. */
static void put_x(struct format_maker *m)
{
	bool large = m->plan.array.large;
	uint64_t extra = EXTRA_HEAD + m->plan.array.pad + (large ? LARGE_LOCAL : 0);
	uint8_t *p = format_put(m, LOCAL + EXTRA_HEAD + (large ? LARGE_LOCAL : 0), 0);

	p = format_le32(p, 0x04034b50);
	p = put_common(p, large, chosen_crc(m), x_len(m), extra);
	p = format_text(p, "x.npy");
	if (large) {
		p = format_le16(format_le16(p, 1), 16);
		p = format_le64(format_le64(p, x_len(m)), x_len(m));
	}
	format_le16(format_le16(p, EXTRA_ID), m->plan.array.pad);
}

static void put_y(struct format_maker *m)
{
	uint8_t *p = format_put(m, LOCAL + FORMAT_NPY_HEAD, 0);

	p = format_le32(p, 0x04034b50);
	p = put_common(p, false, m->plan.array.label_crc, y_len(m), 0);
	y_head(m, format_text(p, "y.npy"));
}

static uint8_t *put_central(uint8_t *p, const char *name, bool large, uint32_t crc, uint64_t len,
			    uint64_t extra_len, uint64_t at)
{
	p = format_le32(p, 0x02014b50);
	p = format_le16(p, 3 << 8 | 20); /* created on Unix */
	p = put_common(p, large, crc, len, extra_len);
	p = format_le32(format_le16(p, 0), 0); /* no comment, first disk, no attributes */
	p = format_le32(p, UINT32_C(0100644) << 16);
	p = format_le32(p, at);
	return format_text(p, name);
}

/* The central directory and the end record. */
static void put_end(struct format_maker *m)
{
	bool large = m->plan.array.large;
	uint64_t cost = large ? LARGE_CENTRAL : 0;
	uint64_t end = m->spec.size - END - (large ? LARGE_END : 0);
	uint64_t start = end - 2 * CENTRAL - cost, y_at = start - y_len(m) - LOCAL;
	uint8_t *p = format_put(m, (size_t)(m->spec.size - start), 0);

	p = put_central(p, "x.npy", large, chosen_crc(m), x_len(m), large ? 20 : 0, 0);
	if (large) {
		p = format_le16(format_le16(p, 1), 16);
		p = format_le64(format_le64(p, x_len(m)), x_len(m));
	}
	p = put_central(p, "y.npy", false, m->plan.array.label_crc, y_len(m), large ? 12 : 0,
			large ? ELSEWHERE : y_at);
	if (large) {
		p = format_le64(format_le16(format_le16(p, 1), 8), y_at);
		p = format_le64(format_le32(p, 0x06064b50), 44);
		p = format_le32(format_le16(p, 45), 45); /* versions; the disk number follows */
		p = format_le32(format_le16(p, 0), 0);
		p = format_le64(format_le64(p, 2), 2);
		p = format_le64(format_le64(p, end - start), start);
		p = format_le32(format_le32(p, 0x07064b50), 0);
		p = format_le32(format_le64(p, end), 1);
	}
	p = format_le32(format_le32(p, 0x06054b50), 0);
	p = format_le16(format_le16(p, 2), 2);
	p = format_le32(p, large ? ELSEWHERE : end - start);
	p = format_le32(p, large ? ELSEWHERE : start);
	format_le16(p, 0);
}

static void npz_next(struct format_maker *m)
{
	const uint64_t shape[] = { m->plan.array.rows, m->plan.array.columns, m->spec.nr_samples };

	switch (m->step++) {
	case 0:
		put_x(m);
		break;
	case 1:
		format_put_random(m, m->plan.array.pad, 0);
		break;
	case 2:
		format_npy_head(format_put(m, FORMAT_NPY_HEAD, 1), FORMAT_NPY_HEAD, shape, 3);
		break;
	case 3:
		format_put_random(m, m->plan.array.data - 4, 1);
		break;
	case 4:
		format_le32(format_put(m, 4, 0), format_crc32_steer(m->sum[0], chosen_crc(m)));
		break;
	case 5:
		put_y(m);
		break;
	case 6:
		format_put_content(m, m->spec.nr_samples, label_fill, FORMAT_CELL, 0);
		break;
	case 7:
		put_end(m);
		break;
	default:
		break;
	}
}

static int npz_extents(const struct format_spec *spec, format_extent_fn *found, void *self)
{
	struct format_maker m;
	uint64_t at;

	format_begin(&m, &format_npz, 0, spec);
	at = LOCAL + EXTRA_HEAD + m.plan.array.pad + FORMAT_NPY_HEAD;
	if (m.plan.array.large)
		at += LARGE_LOCAL;
	return format_array_extents(&m, at, found, self);
}

/* ---- Finding ---- */

/* The central directory of an archive, or a member in it. */
struct directory {
	uint64_t start, len, nr;
};

struct member {
	uint64_t at, len, stored_len;
	uint32_t crc;
	unsigned flags, method;
	char name[64]; /* the first 63 bytes */
	size_t name_len;
};

static unsigned u16(const uint8_t *p)
{
	return p[0] | (unsigned)p[1] << 8;
}

/*
 * Find the end record: at the end of the file, unless a comment follows. Returns its offset, or an
 * error.
 */
static int64_t npz_find_end(const struct format_source *file, struct shoal_err *err)
{
	uint64_t lowest = file->size > END + 65535 ? file->size - END - 65535 : 0;
	uint8_t buf[1024] = { 0 };

	for (uint64_t high = file->size; high >= lowest + END;) {
		size_t len = (size_t)u64_min(sizeof(buf), high - lowest);
		uint64_t from = high - len;
		int rc = format_read(file, from, buf, len, err);

		if (rc < 0)
			return rc;
		for (size_t i = len - END + 1; i-- > 0;)
			if (le32_load(buf + i) == 0x06054b50 &&
			    from + i + END + u16(buf + i + 20) == file->size)
				return (int64_t)(from + i);
		high = from + END - 1; /* the record may span two buffers */
		if (from == lowest)
			break;
	}
	return err_set(err, -EBADMSG, "not a zip archive, or truncated");
}

/* In large archives a second record has the place of the central directory. */
static int read_large_end(const struct format_source *file, uint64_t end, struct directory *d,
			  struct shoal_err *err)
{
	uint8_t buf[56] = { 0 };
	int rc;

	if (end < 20)
		return err_set(err, -EBADMSG, "zip central directory not found");
	rc = format_read(file, end - 20, buf, 20, err);
	if (rc < 0)
		return rc;
	if (le32_load(buf) != 0x07064b50)
		return err_set(err, -EBADMSG, "zip central directory not found");
	rc = format_read(file, le64_load(buf + 8), buf, sizeof(buf), err);
	if (rc < 0)
		return rc;
	if (le32_load(buf) != 0x06064b50)
		return err_set(err, -EBADMSG, "zip central directory not found");
	d->nr = le64_load(buf + 32);
	d->len = le64_load(buf + 40);
	d->start = le64_load(buf + 48);
	return 0;
}

static int read_end(const struct format_source *file, struct directory *d, struct shoal_err *err)
{
	int64_t end = npz_find_end(file, err);
	uint8_t buf[END] = { 0 };
	int rc;

	if (end < 0)
		return (int)end;
	rc = format_read(file, (uint64_t)end, buf, sizeof(buf), err);
	if (rc < 0)
		return rc;
	*d = (struct directory){
		.nr = u16(buf + 10),
		.len = le32_load(buf + 12),
		.start = le32_load(buf + 16),
	};
	if (d->nr == 0xffff || d->len == ELSEWHERE || d->start == ELSEWHERE)
		rc = read_large_end(file, (uint64_t)end, d, err);
	if (rc == 0 && !format_inside(d->start, d->len, (uint64_t)end))
		rc = err_set(err, -EBADMSG, "the zip central directory lies outside the file");
	return rc;
}

/* The 64-bit values of those fields that did not fit 32 bits, in this order. */
static int read_large(const struct format_source *file, uint64_t off, size_t len,
		      struct member *member, struct shoal_err *err)
{
	uint64_t *const number[] = { &member->len, &member->stored_len, &member->at };
	uint8_t buf[28] = { 0 };

	for (size_t at = 0, i = 0; at + 4 <= len;) {
		size_t have;
		int rc = format_read(file, off + at, buf, 4, err);

		if (rc < 0)
			return rc;
		have = u16(buf + 2);
		if (u16(buf) == 1) {
			have = (size_t)u64_min(u64_min(have, len - at - 4), 24);
			rc = format_read(file, off + at + 4, buf, have, err);
			for (size_t k = 0; rc == 0 && k < 3; k++)
				if (*number[k] == ELSEWHERE && 8 * (i + 1) <= have)
					*number[k] = le64_load(buf + 8 * i++);
			return rc;
		}
		at += 4 + have;
	}
	return 0;
}

/* Read the member whose directory entry is at @off. Returns the entry's length. */
static int read_member(const struct format_source *file, uint64_t off, struct member *member,
		       struct shoal_err *err)
{
	uint8_t buf[46] = { 0 };
	size_t extra_len;
	int rc = format_read(file, off, buf, sizeof(buf), err);

	if (rc < 0)
		return rc;
	if (le32_load(buf) != 0x02014b50)
		return err_set(err, -EBADMSG, "the zip central directory is damaged");
	*member = (struct member){
		.flags = u16(buf + 8),
		.method = u16(buf + 10),
		.crc = le32_load(buf + 16),
		.stored_len = le32_load(buf + 20),
		.len = le32_load(buf + 24),
		.at = le32_load(buf + 42),
		.name_len = u16(buf + 28),
	};
	extra_len = u16(buf + 30);
	rc = format_read(file, off + sizeof(buf), member->name,
			 u64_min(member->name_len, sizeof(member->name)), err);
	if (rc == 0)
		rc = read_large(file, off + sizeof(buf) + member->name_len, extra_len, member, err);
	return rc < 0 ? rc : (int)(sizeof(buf) + member->name_len + extra_len + u16(buf + 32));
}

static bool is_x(const struct member *member)
{
	return member->name_len == 5 && memcmp(member->name, "x.npy", 5) == 0;
}

/* Find x.npy, or the only member. */
static int find_x(const struct format_source *file, struct member *ret, struct shoal_err *err)
{
	struct directory d = { 0 };
	uint64_t off;
	int rc = read_end(file, &d, err);

	if (rc < 0)
		return rc;
	off = d.start;
	for (uint64_t i = 0; i < d.nr; i++) {
		rc = read_member(file, off, ret, err);
		if (rc < 0)
			return rc;
		if (is_x(ret) || d.nr == 1)
			return 0;
		off += (uint64_t)rc;
	}
	return err_set(err, -ENOTSUP, "none of its %" PRIu64 " arrays is named x", d.nr);
}

/* Compare the array at @off with its checksum. */
static int check_crc(struct samples_search *s, const struct member *x, uint64_t off)
{
	uint8_t buf[4096];
	uint32_t crc = 0;
	int rc = 0;

	for (uint64_t done = 0; done < x->len && rc == 0;) {
		size_t n = (size_t)u64_min(sizeof(buf), x->len - done);

		rc = format_read(s->file, off + done, buf, n, s->err);
		crc = rc == 0 ? format_crc32(crc, buf, n) : crc;
		done += n;
	}
	if (rc == 0 && crc != x->crc)
		rc = err_set(s->err, -EBADMSG, "the array does not match its checksum");
	return rc;
}

int samples_find_npz(struct samples_search *s)
{
	const struct format_source *file = s->file;
	struct shoal_err *err = s->err;
	struct member x;
	uint8_t buf[30] = { 0 };
	uint64_t data;
	int rc = find_x(file, &x, err);

	if (rc == 0)
		rc = format_read(file, x.at, buf, sizeof(buf), err);
	if (rc < 0)
		return rc;
	if (le32_load(buf) != 0x04034b50)
		return err_set(err, -EBADMSG,
			       "there is no array where the zip central directory says");
	if (x.method != 0 || x.flags & 1 || x.len != x.stored_len)
		return err_set(err, -ENOTSUP, "the array is compressed or encrypted");
	data = x.at + sizeof(buf) + u16(buf + 26) + u16(buf + 28);
	if (!format_inside(data, x.len, file->size))
		return err_set(err, -EBADMSG, "the array extends past the end of the file");
	rc = s->file->verify ? check_crc(s, &x, data) : 0;
	return rc < 0 ? rc : samples_find_npy_at(s, data, x.len);
}

const struct format format_npz = {
	.name = "npz",
	.samples_max = PAD_MAX,
	.least = npz_least,
	.plan = npz_plan,
	.next = npz_next,
	.extents = npz_extents,
	.sum = npz_sum,
};
