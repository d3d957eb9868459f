/*
 * HDF5 as h5py writes it by default: superblock version 0, a root group with a symbol table, and in
 * it the contiguous datasets "records" of shape (samples, rows, columns) and "labels", both of
 * bytes. The rest of the requested size is unused space between the labels and the records.
 *
 * Section numbers in comments are those of the HDF5 File Format Specification, version 3.0.
 */
#include <inttypes.h>

#include "format/format_private.h"

#define UNDEFINED UINT64_MAX

/* Offsets in a generated file. */
enum {
	ROOT = 96,                   /* object header of the root group */
	TREE = ROOT + 40,            /* its B-tree: one node */
	HEAP = TREE + 544,           /* its names */
	NAMES = HEAP + 32,           /* "", "labels", "records", each 8 bytes */
	NODE = NAMES + 24,           /* its symbols, at most 8 */
	RECORDS = NODE + 8 + 8 * 40, /* object headers */
	LABELS = RECORDS + 128,
	META_LEN = LABELS + 112,
	LABELS_NAME = 8, /* in the heap */
	RECORDS_NAME = 16,
};

_Static_assert(META_LEN <= FORMAT_LITERAL_MAX, "it is made at once");

static uint64_t hdf5_least(uint64_t nr_samples)
{
	return META_LEN + nr_samples + nr_samples;
}

static void hdf5_plan(struct format_maker *m)
{
	format_plan_array(m, m->spec.size - META_LEN - m->spec.nr_samples, UINT64_MAX);
}

/* II.A, and III.C for the root's entry. */
static void hdf5_superblock(const struct format_maker *m, uint8_t *p)
{
	p = format_text(p, "\x89HDF\r\n\x1a\n");
	p = format_le64(p, UINT64_C(0x0008080000000000)); /* versions 0; 8-byte offsets */
	p = format_le16(p, 4);                            /* half of the 8 symbols per leaf */
	p = format_le16(p, 16);                           /* half of the 32 leaves per node */
	p = format_le32(p, 0);
	p = format_le64(p, 0);
	p = format_le64(p, UNDEFINED);
	p = format_le64(p, m->spec.size);
	p = format_le64(p, UNDEFINED);
	p = format_le64(p, 0); /* the root has no name */
	p = format_le64(p, ROOT);
	p = format_le64(p, 1);
	format_le64(format_le64(p, TREE), HEAP);
}

/* IV.A.1.a: version 1, number of messages, one link, bytes of messages. */
static uint8_t *hdf5_object(uint8_t *p, unsigned nr_messages, size_t len)
{
	p = format_le16(format_le16(p, 1), nr_messages);
	return format_le32(format_le32(format_le32(p, 1), len), 0);
}

static uint8_t *hdf5_message(uint8_t *p, unsigned type, size_t len)
{
	return format_le32(format_le16(format_le16(p, type), len), 0);
}

/* The group: a tree of one leaf (III.A.1), its heap (III.D) and its symbols (III.B, III.C). */
static void root_group(uint8_t *base)
{
	uint8_t *p = hdf5_message(hdf5_object(base + ROOT, 1, 24), 0x11, 16);

	format_le64(format_le64(p, TREE), HEAP);
	p = format_text(base + TREE, "TREE");
	p = format_le32(p, 1 << 16); /* group node, level 0, one child */
	p = format_le64(format_le64(p, UNDEFINED), UNDEFINED);
	format_le64(format_le64(format_le64(p, 0), NODE), RECORDS_NAME);
	p = format_text(base + HEAP, "HEAP");
	p = format_le64(format_le32(p, 0), 24);
	format_le64(format_le64(p, 1), NAMES); /* 1: no free space */
	format_text(base + NAMES + LABELS_NAME, "labels");
	format_text(base + NAMES + RECORDS_NAME, "records");
	p = format_text(base + NODE, "SNOD");
	p = format_le16(format_le16(p, 1), 2);
	p = format_le64(format_le64(p, LABELS_NAME), LABELS);
	format_le64(format_le64(p + 24, RECORDS_NAME), RECORDS);
}

/* A dataset of unsigned bytes: IV.A.2.b space, d type, f fill value, i layout. */
static void hdf5_dataset(uint8_t *p, const uint64_t *dims, unsigned nr_dims, uint64_t at,
			 uint64_t len)
{
	p = hdf5_object(p, 4, 4 * 8 + 8 + 8 * nr_dims + 16 + 8 + 24);
	p = format_le64(hdf5_message(p, 0x01, 8 + 8 * nr_dims), 1 | nr_dims << 8);
	for (unsigned i = 0; i < nr_dims; i++)
		p = format_le64(p, dims[i]);
	p = format_le64(hdf5_message(p, 0x03, 16), UINT64_C(1) << 32 | 0x10);
	p = format_le64(p, 8 << 16);
	p = format_le64(hdf5_message(p, 0x05, 8), 0x01020202); /* no fill value is written */
	p = hdf5_message(p, 0x08, 24);
	p = format_le16(p, 1 << 8 | 3);
	format_le64(format_le64(p, at), len);
}

static void put_meta(struct format_maker *m)
{
	const uint64_t dims[] = { m->spec.nr_samples, m->plan.array.rows, m->plan.array.columns };
	uint8_t *p = format_put(m, META_LEN, 0);

	memset(p, 0, META_LEN);
	hdf5_superblock(m, p);
	root_group(p);
	hdf5_dataset(p + RECORDS, dims, 3, m->spec.size - m->plan.array.data, m->plan.array.data);
	hdf5_dataset(p + LABELS, dims, 1, META_LEN, m->spec.nr_samples);
}

static void hdf5_next(struct format_maker *m)
{
	switch (m->step++) {
	case 0:
		put_meta(m);
		break;
	case 1: /* labels, and the unused space */
		format_put_random(m, m->spec.nr_samples + m->plan.array.pad, 0);
		break;
	case 2:
		format_put_random(m, m->plan.array.data, 0);
		break;
	default:
		break;
	}
}

static int hdf5_extents(const struct format_spec *spec, format_extent_fn *found, void *self)
{
	struct format_maker m;

	format_begin(&m, &format_hdf5, 0, spec);
	return format_array_extents(&m, spec->size - m.plan.array.data, found, self);
}

const struct format format_hdf5 = {
	.name = "hdf5",
	.least = hdf5_least,
	.plan = hdf5_plan,
	.next = hdf5_next,
	.extents = hdf5_extents,
};
