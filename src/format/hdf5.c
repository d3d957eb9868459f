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

/* ---- Finding ---- */

/* More than any file needs; a damaged file might contain a cycle. */
#define STEPS_MAX  10000
#define LEVELS_MAX 8
#define DIMS_MAX   32

struct hdf5_finder {
	const struct format_source *file;
	struct shoal_err *err;
	unsigned steps;
	uint64_t names, names_len; /* the heap */
	uint64_t records;          /* object header, or UNDEFINED */
};

/* The contents of a dataset's messages. */
struct found_dataset {
	uint64_t dims[DIMS_MAX];
	unsigned nr_dims;
	uint64_t item_len, at, len;
	bool has_space, has_type, has_layout;
};

static int hdf5_step(struct hdf5_finder *f)
{
	if (f->steps++ < STEPS_MAX)
		return 0;
	return err_set(f->err, -EBADMSG, "its structure contains a cycle");
}

static int damaged(struct hdf5_finder *f, const char *what, uint64_t at)
{
	return err_set(f->err, -EBADMSG, "there is no %s at %" PRIu64, what, at);
}

/* Read @len bytes at @at, which must begin with the four bytes of @magic. */
static int read_magic(struct hdf5_finder *f, uint64_t at, const char *magic, uint8_t *buf,
		      size_t len)
{
	int rc = format_read(f->file, at, buf, len, f->err);

	if (rc == 0 && memcmp(buf, magic, 4) != 0)
		rc = damaged(f, magic, at);
	return rc;
}

typedef int message_fn(struct hdf5_finder *f, unsigned type, uint64_t at, size_t len, void *self);

#define BLOCKS_MAX 32

/*
 * The blocks that contain an object's messages: the one after its header, then those that messages
 * refer to.
 */
struct blocks {
	struct {
		uint64_t at, len;
	} block[BLOCKS_MAX];
	unsigned nr;
};

static int hdf5_add_block(struct hdf5_finder *f, struct blocks *b, uint64_t at, size_t len)
{
	uint8_t buf[16];
	int rc;

	if (len < 16 || b->nr == BLOCKS_MAX)
		return damaged(f, "continuation of a header", at);
	rc = format_read(f->file, at, buf, sizeof(buf), f->err);
	if (rc < 0)
		return rc;
	b->block[b->nr].at = le64_load(buf);
	b->block[b->nr].len = le64_load(buf + 8);
	b->nr++;
	return 0;
}

/* Pass the messages of one block to @take. */
static int each_in_block(struct hdf5_finder *f, struct blocks *b, unsigned which, message_fn *take,
			 void *self)
{
	uint64_t at = b->block[which].at, left = b->block[which].len;
	int rc = 0;

	if (!format_inside(at, left, f->file->size))
		return damaged(f, "block of messages", at);
	while (left >= 8 && rc == 0) {
		uint8_t buf[8];
		unsigned type;
		size_t len;

		rc = hdf5_step(f);
		if (rc == 0)
			rc = format_read(f->file, at, buf, sizeof(buf), f->err);
		if (rc < 0)
			return rc;
		type = buf[0] | (unsigned)buf[1] << 8;
		len = buf[2] | (size_t)buf[3] << 8;
		if (len > left - 8)
			return damaged(f, "whole message", at);
		if (buf[4] & 2 && type != 0x11)
			return err_set(f->err, -ENOTSUP, "it shares messages between objects");
		if (type == 0x10)
			rc = hdf5_add_block(f, b, at + 8, len);
		else
			rc = take(f, type, at + 8, len, self);
		at += 8 + len;
		left -= 8 + len;
	}
	return rc;
}

static int each_message(struct hdf5_finder *f, uint64_t at, message_fn *take, void *self)
{
	struct blocks b = { .nr = 1 };
	uint8_t buf[16];
	int rc = format_read(f->file, at, buf, sizeof(buf), f->err);

	if (rc == 0 && memcmp(buf, "OHDR", 4) == 0)
		return err_set(f->err, -ENOTSUP,
			       "it has headers of the newer kind (libver='latest')");
	if (rc == 0 && buf[0] != 1)
		rc = damaged(f, "object header", at);
	if (rc < 0)
		return rc;
	b.block[0].at = at + 16;
	b.block[0].len = le32_load(buf + 8);
	for (unsigned i = 0; i < b.nr && rc == 0; i++)
		rc = each_in_block(f, &b, i, take, self);
	return rc;
}

/* ---- The group ---- */

static int take_symbol_table(struct hdf5_finder *f, unsigned type, uint64_t at, size_t len,
			     void *self)
{
	uint8_t *buf = self;

	if (type != 0x11)
		return 0;
	if (len < 16)
		return damaged(f, "symbol table", at);
	return format_read(f->file, at, buf, 16, f->err);
}

/* Search one leaf for "records". */
static int search_symbols(struct hdf5_finder *f, uint64_t node)
{
	uint8_t buf[40], name[8];
	unsigned nr;
	int rc = read_magic(f, node, "SNOD", buf, 8);

	if (rc < 0)
		return rc;
	nr = buf[6] | (unsigned)buf[7] << 8;
	for (unsigned i = 0; i < nr && rc == 0; i++) {
		uint64_t off;

		rc = hdf5_step(f);
		if (rc == 0)
			rc = format_read(f->file, node + 8 + 40 * (uint64_t)i, buf, sizeof(buf),
					 f->err);
		if (rc < 0)
			return rc;
		off = le64_load(buf);
		if (!format_inside(off, 8, f->names_len))
			continue; /* the name at the heap's end is too short */
		rc = format_read(f->file, f->names + off, name, sizeof(name), f->err);
		if (rc == 0 && memcmp(name, "records", 8) == 0)
			f->records = le64_load(buf + 8);
	}
	return rc;
}

/*
 * Search all leaves below @node, which is at @level; LEVELS_MAX for the root, which may be at any.
 */
static int search_tree(struct hdf5_finder *f, uint64_t node, unsigned level)
{
	uint8_t buf[24], child[8];
	unsigned nr, is;
	int rc = read_magic(f, node, "TREE", buf, sizeof(buf));

	if (rc < 0)
		return rc;
	is = buf[5];
	nr = buf[6] | (unsigned)buf[7] << 8;
	if (buf[4] != 0 || is >= LEVELS_MAX || (level < LEVELS_MAX && is != level))
		return damaged(f, "group's tree", node);
	for (unsigned i = 0; i < nr && rc == 0 && f->records == UNDEFINED; i++) {
		rc = hdf5_step(f);
		if (rc == 0)
			rc = format_read(f->file, node + 24 + 8 + 16 * (uint64_t)i, child,
					 sizeof(child), f->err);
		if (rc < 0)
			return rc;
		if (is > 0)
			rc = search_tree(f, le64_load(child), is - 1);
		else
			rc = search_symbols(f, le64_load(child));
	}
	return rc;
}

static int search_root(struct hdf5_finder *f)
{
	uint8_t buf[96], table[16], heap[32];
	unsigned more;
	int rc = format_read(f->file, 0, buf, sizeof(buf), f->err);

	if (rc < 0)
		return rc;
	if (memcmp(buf, "\x89HDF\r\n\x1a\n", 8) != 0)
		return err_set(f->err, -EBADMSG, "not an HDF5 file: wrong magic number");
	if (buf[8] > 1 || buf[13] != 8 || buf[14] != 8)
		return err_set(f->err, -ENOTSUP,
			       "it is an HDF5 file of the newer kind (libver='latest')");
	more = buf[8] == 1 ? 4 : 0;
	memset(table, 0xff, sizeof(table));
	rc = each_message(f, le64_load(buf + 64 + more), take_symbol_table, table);
	if (rc < 0)
		return rc;
	rc = read_magic(f, le64_load(table + 8), "HEAP", heap, sizeof(heap));
	if (rc < 0)
		return rc;
	f->names_len = le64_load(heap + 8);
	f->names = le64_load(heap + 24);
	if (!format_inside(f->names, f->names_len, f->file->size))
		return damaged(f, "heap", f->names);
	return search_tree(f, le64_load(table), LEVELS_MAX);
}

/* ---- The dataset ---- */

static int take_space(struct hdf5_finder *f, uint64_t at, size_t len, struct found_dataset *d)
{
	uint8_t buf[8], dim[8];
	size_t head;
	int rc;

	if (len < 4)
		return damaged(f, "dataspace", at);
	rc = format_read(f->file, at, buf, 4, f->err);
	if (rc < 0)
		return rc;
	head = buf[0] == 1 ? 8 : 4;
	if (buf[0] < 1 || buf[0] > 2 || buf[1] > DIMS_MAX || len < head + 8 * (size_t)buf[1])
		return damaged(f, "dataspace", at);
	for (unsigned i = 0; i < buf[1] && rc == 0; i++) {
		rc = format_read(f->file, at + head + 8 * (uint64_t)i, dim, sizeof(dim), f->err);
		d->dims[i] = rc == 0 ? le64_load(dim) : 0;
	}
	d->nr_dims = buf[1];
	d->has_space = true;
	return rc;
}

static int take_layout(struct hdf5_finder *f, uint64_t at, size_t len, struct found_dataset *d)
{
	uint8_t buf[18];
	int rc;

	if (len < sizeof(buf))
		return damaged(f, "layout", at);
	rc = format_read(f->file, at, buf, sizeof(buf), f->err);
	if (rc < 0)
		return rc;
	if (buf[0] < 3 || buf[0] > 4 || buf[1] != 1)
		return err_set(f->err, -ENOTSUP, "its records are not contiguous: %s",
			       buf[1] == 2 ? "they are chunked" : "they are in a header");
	d->at = le64_load(buf + 2);
	d->len = le64_load(buf + 10);
	d->has_layout = true;
	return 0;
}

static int take_dataset(struct hdf5_finder *f, unsigned type, uint64_t at, size_t len, void *self)
{
	struct found_dataset *d = self;
	uint8_t buf[8];
	int rc;

	switch (type) {
	case 0x01:
		return take_space(f, at, len, d);
	case 0x03:
		if (len < 8)
			return damaged(f, "datatype", at);
		rc = format_read(f->file, at, buf, sizeof(buf), f->err);
		d->item_len = rc == 0 ? le32_load(buf + 4) : 0;
		d->has_type = true;
		return rc;
	case 0x08:
		return take_layout(f, at, len, d);
	default:
		return 0;
	}
}

/* The bytes of the dataset by its shape; 0 if that exceeds its length. */
static uint64_t dataset_len(const struct found_dataset *d)
{
	uint64_t len = d->item_len;

	for (unsigned i = 0; i < d->nr_dims; i++) {
		if (d->dims[i] == 0 || len > d->len / d->dims[i])
			return 0;
		len *= d->dims[i];
	}
	return len;
}

static int hdf5_find(const struct format_source *file, uint64_t nr_samples, format_found_fn *found,
		     void *self, struct shoal_err *err)
{
	struct hdf5_finder f = { .file = file, .err = err, .records = UNDEFINED };
	struct found_dataset d = { 0 };
	uint64_t len;
	int rc = search_root(&f);

	if (rc < 0)
		return rc;
	if (f.records == UNDEFINED)
		return err_set(err, -EBADMSG, "there is no dataset 'records' in it");
	rc = each_message(&f, f.records, take_dataset, &d);
	if (rc < 0)
		return rc;
	len = dataset_len(&d);
	if (!d.has_space || !d.has_type || !d.has_layout || len == 0 || len != d.len ||
	    !format_inside(d.at, len, file->size))
		return err_set(err, -EBADMSG, "its records lie outside the file");
	if (nr_samples == FORMAT_ALL)
		nr_samples = d.nr_dims ? d.dims[0] : 1;
	if (nr_samples == 1)
		return found(self, 0, d.at, len);
	if (d.nr_dims == 0 || d.dims[0] != nr_samples)
		return err_set(err, -ERANGE, "it has %" PRIu64 " records, not %" PRIu64,
			       d.nr_dims ? d.dims[0] : 1, nr_samples);
	return format_found_array(d.at, len / nr_samples, nr_samples, found, self);
}

const struct format format_hdf5 = {
	.name = "hdf5",
	.least = hdf5_least,
	.plan = hdf5_plan,
	.next = hdf5_next,
	.find = hdf5_find,
};
