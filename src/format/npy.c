/*
 * NPY: an array of unsigned bytes, of shape (rows, columns, samples) as in DLIO; in Fortran order,
 * so that each sample x[..., i] is contiguous. Spaces in the header fill the rest of the requested
 * size.
 */
#include <inttypes.h>
#include <stdio.h>

#include "format/npy.h"
#include "format/samples_private.h"

#define MAGIC   "\x93NUMPY"
#define PAD_MAX 8192 /* numpy refuses headers of more than 10,000 bytes */

void format_npy_head(uint8_t *p, size_t len, const uint64_t *shape, unsigned nr_dims)
{
	uint8_t *end = p + len;

	p = format_text(p, MAGIC "\x01");
	*p++ = 0;
	p = format_le16(p, len - 10);
	p += sprintf((char *)p, "{'descr': '|u1', 'fortran_order': %s, 'shape': (",
		     nr_dims > 1 ? "True" : "False");
	for (unsigned i = 0; i < nr_dims; i++)
		p += sprintf((char *)p, "%" PRIu64 "%s", shape[i],
			     nr_dims == 1      ? ","
			     : i + 1 < nr_dims ? ", "
					       : "");
	p = format_text(p, "), }");
	memset(p, ' ', (size_t)(end - p));
	end[-1] = '\n';
}

void format_plan_array(struct format_maker *m, uint64_t room, uint64_t pad_max)
{
	uint64_t nr = m->spec.nr_samples, w = 1, h = 1;

	format_rectangle(room / nr, &w, &h);
	if (room - nr * w * h > pad_max) {
		h = room / nr;
		w = 1;
	}
	m->plan.array.rows = h;
	m->plan.array.columns = w;
	m->plan.array.data = nr * w * h;
	m->plan.array.pad = room - nr * w * h;
}

int format_array_extents(const struct format_maker *m, uint64_t at, format_extent_fn *found,
			 void *self)
{
	uint64_t len = m->plan.array.rows * m->plan.array.columns;
	int rc = 0;

	for (uint64_t i = 0; i < m->spec.nr_samples && rc == 0; i++)
		rc = found(self, i, at + i * len, len, 1);
	return rc;
}

static uint64_t npy_least(uint64_t nr_samples)
{
	return FORMAT_NPY_HEAD + nr_samples;
}

static void npy_plan(struct format_maker *m)
{
	format_plan_array(m, m->spec.size - FORMAT_NPY_HEAD, PAD_MAX);
}

/* The header exceeds the limit of a literal: the spaces are content. */
static void spaces(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	memset(out, ' ', len);
	if (cell * FORMAT_CELL + len == m->piece.len)
		out[len - 1] = '\n';
}

static void npy_next(struct format_maker *m)
{
	const uint64_t shape[] = { m->plan.array.rows, m->plan.array.columns, m->spec.nr_samples };
	uint8_t *p;

	switch (m->step++) {
	case 0:
		p = format_put(m, FORMAT_NPY_HEAD, 0);
		format_npy_head(p, FORMAT_NPY_HEAD, shape, 3);
		format_le16(p + 8, FORMAT_NPY_HEAD - 10 + m->plan.array.pad);
		if (m->plan.array.pad > 0)
			p[FORMAT_NPY_HEAD - 1] = ' ';
		break;
	case 1:
		format_put_content(m, m->plan.array.pad, spaces, FORMAT_CELL, 0);
		break;
	case 2:
		format_put_random(m, m->plan.array.data, 0);
		break;
	default:
		break;
	}
}

static int npy_extents(const struct format_spec *spec, format_extent_fn *found, void *self)
{
	struct format_maker m;

	format_begin(&m, &format_npy, 0, spec);
	return format_array_extents(&m, FORMAT_NPY_HEAD + m.plan.array.pad, found, self);
}

/* ---- Finding ---- */

#define HEADER_MAX 4096 /* bytes that are parsed; the rest are spaces */

bool format_npy_begin(const uint8_t head[12], size_t *ret_first, size_t *ret_len)
{
	if (memcmp(head, MAGIC, 6) != 0 || head[6] < 1 || head[6] > 3)
		return false;
	*ret_first = head[6] == 1 ? 10 : 12;
	*ret_len = head[6] == 1 ? head[8] | (size_t)head[9] << 8 : le32_load(head + 8);
	return true;
}

/* The parser's position in the text; NULL once an expected token was missing. */
static void skip_spaces(const char **p)
{
	while (*p && (**p == ' ' || **p == '\n'))
		++*p;
}

static bool npy_take(const char **p, const char *word)
{
	skip_spaces(p);
	if (!*p || strncmp(*p, word, strlen(word)) != 0)
		return false;
	*p += strlen(word);
	return true;
}

/* Decimal digits; numpy once wrote an L after them. */
static bool npy_take_number(const char **p, uint64_t *ret)
{
	uint64_t v = 0;
	unsigned digits;

	skip_spaces(p);
	for (digits = 0; **p >= '0' && **p <= '9' && digits < 19; digits++)
		v = 10 * v + (uint64_t)(*(*p)++ - '0');
	if (digits > 0 && **p == 'L')
		++*p;
	*ret = v;
	return digits > 0;
}

/* Parse '|u1', '<f4', '<M8[ns]' and similar. */
static bool take_descr(const char **p, struct format_npy *a)
{
	char kind;

	if (!npy_take(p, "'") || !**p || !strchr("<>|=", **p))
		return false;
	a->order = *(*p)++;
	kind = **p;
	if (!kind || !strchr("biufcSUVMm?", kind))
		return false;
	a->kind = *(*p)++;
	if (!npy_take_number(p, &a->item_len) || a->item_len == 0 || a->item_len > INT32_MAX)
		return false;
	if (kind == 'U')
		a->item_len *= 4;
	if ((kind == 'M' || kind == 'm') && npy_take(p, "[")) { /* the unit of a time */
		*p += strcspn(*p, "]'");
		return npy_take(p, "]'");
	}
	return npy_take(p, "'");
}

static bool take_shape(const char **p, struct format_npy *a)
{
	if (!npy_take(p, "("))
		return false;
	while (!npy_take(p, ")")) {
		if (a->nr_dims == FORMAT_NPY_DIMS || !npy_take_number(p, &a->shape[a->nr_dims]))
			return false;
		a->nr_dims++;
		if (!npy_take(p, ",")) {
			if (!npy_take(p, ")"))
				return false;
			break;
		}
	}
	return true;
}

bool format_npy_parse(const char *text, struct format_npy *a)
{
	unsigned seen = 0;

	*a = (struct format_npy){ 0 };
	if (!npy_take(&text, "{")) /* a dictionary of three keys, in any order */
		return false;
	while (!npy_take(&text, "}")) {
		if (npy_take(&text, "'descr':")) {
			if (!take_descr(&text, a))
				return false;
			seen |= 1;
		} else if (npy_take(&text, "'fortran_order':")) {
			a->fortran = npy_take(&text, "True");
			if (!a->fortran && !npy_take(&text, "False"))
				return false;
			seen |= 2;
		} else if (npy_take(&text, "'shape':") && !(seen & 4)) {
			if (!take_shape(&text, a))
				return false;
			seen |= 4;
		} else {
			return false;
		}
		if (!npy_take(&text, ",") && *text != '}')
			return false;
	}
	return seen == 7;
}

/* Read the header of the array at @off. Returns the offset of the data from @off. */
static int read_header(const struct format_source *file, uint64_t off, uint64_t len,
		       struct format_npy *a, uint64_t *ret_data, struct shoal_err *err)
{
	char text[HEADER_MAX + 1];
	uint8_t head[12] = { 0 };
	size_t first, header_len, n;
	int rc;

	if (len < sizeof(head) || !format_inside(off, len, file->size))
		return err_set(err, -EBADMSG, "%" PRIu64 " bytes are too few for an array", len);
	rc = format_read(file, off, head, sizeof(head), err);
	if (rc < 0)
		return rc;
	if (!format_npy_begin(head, &first, &header_len))
		return err_set(err, -EBADMSG, "not a .npy file: wrong magic number");
	if (header_len > len - first)
		return err_set(err, -EBADMSG, "the array's header extends past its end");
	n = (size_t)u64_min(header_len, HEADER_MAX);
	rc = format_read(file, off + first, text, n, err);
	if (rc < 0)
		return rc;
	text[n] = '\0';
	if (!format_npy_parse(text, a))
		return text[0] == '{' ? err_set(err, -ENOTSUP,
						"its array has elements that are no "
						"plain numbers")
				      : err_set(err, -EBADMSG, "the array's header is damaged");
	*ret_data = first + header_len;
	return 0;
}

/* The bytes of the whole array; false if they exceed @room. */
static bool array_len(const struct format_npy *a, uint64_t room, uint64_t *ret_len)
{
	uint64_t len = a->item_len;

	for (unsigned i = 0; i < a->nr_dims; i++)
		if (a->shape[i] == 0)
			len = 0;
	for (unsigned i = 0; i < a->nr_dims && len > 0; i++)
		if (len > room / a->shape[i])
			return false;
		else
			len *= a->shape[i];
	*ret_len = len;
	return len <= room;
}

/* Whether it is as datagen makes it: DLIO's (rows, columns, samples), of which the last dimension
 * is contiguous. In other arrays of Fortran order the samples may well be the first dimension. */
static bool npy_is_dlio(const struct format_npy *a)
{
	return a->fortran && a->nr_dims == 3 && a->kind == 'u' && a->item_len == 1;
}

int samples_find_npy_at(struct samples_search *s, uint64_t off, uint64_t len)
{
	struct format_npy a = { 0 };
	uint64_t data = 0, bytes = 0, nr;
	int rc = read_header(s->file, off, len, &a, &data, s->err);

	if (rc < 0)
		return rc;
	if (!array_len(&a, len - data, &bytes))
		return err_set(s->err, -EBADMSG,
			       "the array is larger than the %" PRIu64 " bytes after its header",
			       len - data);
	nr = a.nr_dims == 0 ? 1 : npy_is_dlio(&a) ? a.shape[2] : a.shape[0];
	if (nr == 0)
		return 0;
	if (bytes == 0) /* its header could claim any number of samples */
		return err_set(s->err, -ENOTSUP, "the samples of the array have no bytes");
	if (a.fortran && a.nr_dims > 1 && !npy_is_dlio(&a))
		return err_set(s->err, -ENOTSUP, "the samples of the array are interleaved");
	return samples_report_array(s, off + data, bytes / nr, nr);
}

int samples_find_npy(struct samples_search *s)
{
	return samples_find_npy_at(s, 0, s->file->size);
}

const struct format format_npy = {
	.name = "npy",
	.samples_max = PAD_MAX,
	.least = npy_least,
	.plan = npy_plan,
	.next = npy_next,
	.extents = npy_extents,
};
