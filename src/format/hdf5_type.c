/*
 * HDF5: the type of a dataset's elements (IV.A.2.d), of which only this matters: whether the
 * elements themselves are in the dataset. Sequences of variable length, such as h5py's strings, are
 * in a heap of the file, and references refer to other objects; the dataset then has 12 or 16 bytes
 * per element that nobody but the library can use.
 */
#include "format/bytes.h"
#include "format/hdf5_private.h"

#define NESTING 32u

enum type_class {
	CLASS_FIXED_POINT,
	CLASS_FLOATING_POINT,
	CLASS_TIME,
	CLASS_STRING,
	CLASS_BIT_FIELD,
	CLASS_OPAQUE,
	CLASS_COMPOUND,
	CLASS_REFERENCE,
	CLASS_ENUMERATION,
	CLASS_VARIABLE_LENGTH,
	CLASS_ARRAY,
	CLASS_COMPLEX,
};

/* The type whose properties come next. */
struct type {
	unsigned version, class, nr; /* members of a compound or an enumeration */
	uint64_t item_len;
};

/* Where a type is read from. */
struct type_reader {
	struct format_bytes bytes;
	bool elsewhere; /* the elements, or parts of them, are in other places */
};

static uint64_t type_number(struct format_bytes *b, unsigned nr_bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < nr_bytes; i++)
		v |= (uint64_t)format_byte(b) << 8 * i;
	return v;
}

/* A name that ends in a zero; before version 3 it is padded to a multiple of eight bytes. */
static void skip_name(struct format_bytes *b, const struct type *t)
{
	uint64_t nr = 1;

	while (format_byte(b) != 0)
		nr++;
	if (t->version < 3)
		format_bytes_skip(b, (8 - nr % 8) % 8);
}

static void hdf5_type_take(struct type_reader *r, unsigned depth);

static void hdf5_type_members(struct type_reader *r, const struct type *t, unsigned depth)
{
	unsigned offset_len = 1;

	while (t->version >= 3 && offset_len < 4 && t->item_len >> 8 * offset_len)
		offset_len++;
	for (unsigned i = 0; i < t->nr && r->bytes.rc == 0 && !r->elsewhere; i++) {
		skip_name(&r->bytes, t);
		format_bytes_skip(&r->bytes, t->version < 3 ? 4 : offset_len);
		if (t->version == 1) /* dimensions of an array of them */
			format_bytes_skip(&r->bytes, 28);
		hdf5_type_take(r, depth + 1);
	}
}

static void hdf5_type_enumeration(struct type_reader *r, const struct type *t, unsigned depth)
{
	hdf5_type_take(r, depth + 1);
	for (unsigned i = 0; i < t->nr && r->bytes.rc == 0; i++)
		skip_name(&r->bytes, t);
	format_bytes_skip(&r->bytes, t->nr * t->item_len);
}

static void hdf5_type_array(struct type_reader *r, const struct type *t, unsigned depth)
{
	unsigned nr_dims = format_byte(&r->bytes);

	/* Before version 3 three reserved bytes precede, and a permutation follows the dimensions.
	 */
	format_bytes_skip(&r->bytes, t->version < 3 ? 3 + 8 * nr_dims : 4 * nr_dims);
	hdf5_type_take(r, depth + 1);
}

static void hdf5_type_take(struct type_reader *r, unsigned depth)
{
	struct format_bytes *b = &r->bytes;
	uint8_t head = format_byte(b);
	uint64_t bits = type_number(b, 3);
	struct type t = { head >> 4, head & 15, bits & 0xffff, type_number(b, 4) };

	if (b->rc < 0)
		return;
	if (depth > NESTING || t.class > CLASS_COMPLEX) {
		b->rc = err_set(b->err, -ENOTSUP, "its elements are of a type that is not known");
		return;
	}
	switch ((enum type_class)t.class) {
	case CLASS_FIXED_POINT:
	case CLASS_BIT_FIELD:
		format_bytes_skip(b, 4);
		break;
	case CLASS_FLOATING_POINT:
		format_bytes_skip(b, 12);
		break;
	case CLASS_TIME:
		format_bytes_skip(b, 2);
		break;
	case CLASS_STRING:
		break;
	case CLASS_OPAQUE:
		format_bytes_skip(b, ((bits & 0xff) + 7) / 8 * 8);
		break;
	case CLASS_COMPOUND:
		hdf5_type_members(r, &t, depth);
		break;
	case CLASS_ENUMERATION:
		hdf5_type_enumeration(r, &t, depth);
		break;
	case CLASS_ARRAY:
		hdf5_type_array(r, &t, depth);
		break;
	case CLASS_COMPLEX:
		hdf5_type_take(r, depth + 1);
		break;
	case CLASS_REFERENCE:
	case CLASS_VARIABLE_LENGTH:
		r->elsewhere = true;
		break;
	}
}

int hdf5_take_type(struct hdf5_finder *f, uint64_t at, size_t len, struct hdf5_dataset *d)
{
	struct type_reader r = { .elsewhere = false };
	uint8_t buf[8];
	int rc = len < sizeof(buf) ? hdf5_damaged(f, "datatype", at)
				   : format_read(f->file, at, buf, sizeof(buf), f->err);

	if (rc < 0)
		return rc;
	d->item_len = le32_load(buf + 4);
	d->has_type = true;
	format_bytes_init(&r.bytes, f->file, at, at + len, f->err);
	hdf5_type_take(&r, 0);
	if (r.bytes.rc == 0 && r.elsewhere)
		return hdf5_not_contiguous(
			f, "its elements are of variable length, or references to other objects");
	return r.bytes.rc;
}
