/*
 * HDF5: the records of a dataset whose elements of the first dimension are contiguous: a contiguous
 * dataset, or one in chunks of whole elements of the first dimension. Files as h5py writes them by
 * default: superblock version 0, a root group with a symbol table, chunks in a B-tree of version 1.
 *
 * Section numbers in comments are those of the HDF5 File Format Specification, version 3.0.
 */
#include <inttypes.h>

#include "format/samples_private.h"

#define UNDEFINED UINT64_MAX

/* A damaged file might contain a cycle. Each step is of at least so many bytes. */
#define STEPS_MIN  10000
#define STEP_BYTES 16
#define LEVELS_MAX 8
#define DIMS_MAX   32

struct hdf5_finder {
	struct samples_search *search;
	const struct format_source *file;
	struct shoal_err *err;
	uint64_t steps;
	uint64_t names, names_len; /* the heap */
	uint64_t records;          /* object header, or UNDEFINED */
	uint64_t other;            /* object header of the last object with another name */
	unsigned nr_objects;       /* in the root */
};

/* The contents of a dataset's messages. */
struct found_dataset {
	uint64_t dims[DIMS_MAX];
	unsigned nr_dims;
	uint64_t item_len, at, len;
	uint64_t chunk[DIMS_MAX]; /* its dimensions, if it is in chunks, whose tree is at @at */
	unsigned nr_chunk_dims;
	bool has_space, has_type, has_layout, has_filters;
};

static int hdf5_step(struct hdf5_finder *f)
{
	if (f->steps++ < STEPS_MIN + f->file->size / STEP_BYTES)
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
		uint8_t buf[8] = { 0 };
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
		f->nr_objects++;
		f->other = le64_load(buf + 8);
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

#define MAGIC "\x89HDF\r\n\x1a\n"

/* II.A: the superblock may be at 512, 1024, 2048 and so on. */
static bool has_user_block(struct hdf5_finder *f)
{
	uint8_t buf[8];

	for (uint64_t at = 512; at <= f->file->size / 2; at *= 2)
		if (format_read(f->file, at, buf, sizeof(buf), NULL) == 0 &&
		    memcmp(buf, MAGIC, 8) == 0)
			return true;
	return false;
}

static int search_root(struct hdf5_finder *f)
{
	uint8_t buf[96], table[16], heap[32];
	unsigned more;
	int rc = format_read(f->file, 0, buf, sizeof(buf), f->err);

	if (rc < 0)
		return rc;
	if (memcmp(buf, MAGIC, 8) != 0)
		return has_user_block(f)
			       ? err_set(f->err, -ENOTSUP, "a user block precedes its data")
			       : err_set(f->err, -EBADMSG, "not an HDF5 file: wrong magic number");
	if (buf[8] > 1 || buf[13] != 8 || buf[14] != 8)
		return err_set(f->err, -ENOTSUP,
			       "it is an HDF5 file of the newer kind (libver='latest')");
	more = buf[8] == 1 ? 4 : 0;
	if (le64_load(buf + 24 + more) != 0)
		return err_set(f->err, -ENOTSUP, "its addresses do not begin with the file");
	if (le64_load(buf + 40 + more) > f->file->size)
		return err_set(f->err, -EBADMSG,
			       "it is truncated: it had %" PRIu64 " bytes, and has %" PRIu64,
			       le64_load(buf + 40 + more), f->file->size);
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

/* IV.A.2.i, class 2 of version 3: dimensions of a chunk, of which the last is the bytes per item.
 */
static int take_chunked(struct hdf5_finder *f, uint64_t at, size_t len, struct found_dataset *d)
{
	uint8_t buf[11], dim[4];
	int rc = len < sizeof(buf) ? damaged(f, "layout", at)
				   : format_read(f->file, at, buf, sizeof(buf), f->err);

	if (rc < 0)
		return rc;
	if (buf[2] < 2 || buf[2] - 1 > DIMS_MAX || len < sizeof(buf) + 4 * (size_t)buf[2])
		return damaged(f, "layout", at);
	d->nr_chunk_dims = buf[2] - 1u;
	d->at = le64_load(buf + 3);
	for (unsigned i = 0; i < d->nr_chunk_dims && rc == 0; i++) {
		rc = format_read(f->file, at + sizeof(buf) + 4 * (uint64_t)i, dim, sizeof(dim),
				 f->err);
		d->chunk[i] = rc == 0 ? le32_load(dim) : 0;
	}
	d->has_layout = true;
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
	if (buf[0] == 3 && buf[1] == 2)
		return take_chunked(f, at, len, d);
	if (buf[0] < 3 || buf[0] > 4 || buf[1] != 1)
		return err_set(f->err, -ENOTSUP, "its records are not contiguous: %s",
			       buf[1] == 2 ? "they are in chunks of the newer kind"
					   : "they are in a header");
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
	case 0x0b:
		d->has_filters = true;
		return 0;
	default:
		return 0;
	}
}

/* The bytes of @nr elements of the first dimension; 0 if they exceed @most. */
static uint64_t elements_len(const struct found_dataset *d, uint64_t nr, uint64_t most)
{
	uint64_t len = d->item_len;

	for (unsigned i = 0; i < d->nr_dims; i++) {
		uint64_t dim = i == 0 ? nr : d->dims[i];

		if (dim == 0 || len > most / dim)
			return 0;
		len *= dim;
	}
	return len;
}

/* ---- In chunks ---- */

/* The chunks of a dataset, in the order of their elements. */
struct chunks {
	struct hdf5_finder *f;
	const struct found_dataset *d;
	uint64_t nr_samples, next; /* elements reported so far */
	uint64_t len, end;         /* bytes per element; the end of the last chunk */
};

static int no_records(struct hdf5_finder *f, const char *why)
{
	return err_set(f->err, -ENOTSUP, "its records are not contiguous: %s", why);
}

/* A chunk: its key has its bytes, a mask, and the offset of its first element in each dimension. */
static int take_chunk(struct chunks *c, const uint8_t *key, uint64_t at)
{
	uint64_t nr = u64_min(c->d->chunk[0], c->nr_samples - c->next), len = le32_load(key);
	int rc = 0;

	if (le64_load(key + 8) != c->next)
		return le64_load(key + 8) > c->next
			       ? no_records(c->f, "a chunk was never written")
			       : err_set(c->f->err, -EBADMSG, "its chunks are not in order");
	if (len / c->len != c->d->chunk[0] || len % c->len)
		return damaged(c->f, "whole chunk", at);
	if (!format_inside(at, len, c->f->file->size))
		return damaged(c->f, "chunk inside the file", at);
	if (at < c->end)
		return no_records(c->f, "its chunks are not in the order of their elements");
	c->end = at + len;
	for (uint64_t i = 0; i < nr && rc == 0; i++)
		rc = samples_report(c->f->search, at + i * c->len, c->len, 1);
	c->next += nr;
	return rc;
}

/*
 * III.A.1, type 1: all chunks below @node, which is at @level; LEVELS_MAX for the root, which may
 * be at any. Every leaf has a chunk, and each chunk follows the one before it in the file, so that
 * this ends, whatever the bytes.
 */
static int each_chunk(struct chunks *c, uint64_t node, unsigned level)
{
	size_t key_len = 8 + 8 * (size_t)(c->d->nr_dims + 1);
	uint8_t buf[24], key[8 + 8 * (DIMS_MAX + 1) + 8];
	unsigned nr, is;
	int rc = read_magic(c->f, node, "TREE", buf, sizeof(buf));

	if (rc < 0)
		return rc;
	is = buf[5];
	nr = buf[6] | (unsigned)buf[7] << 8;
	if (buf[4] != 1 || nr == 0 || is >= LEVELS_MAX || (level < LEVELS_MAX && is != level))
		return damaged(c->f, "tree of chunks", node);
	for (unsigned i = 0; i < nr && rc == 0 && c->next < c->nr_samples; i++) {
		rc = format_read(c->f->file, node + 24 + (uint64_t)i * (key_len + 8), key,
				 key_len + 8, c->f->err);
		if (rc < 0)
			return rc;
		if (is > 0)
			rc = each_chunk(c, le64_load(key + key_len), is - 1);
		else
			rc = take_chunk(c, key, le64_load(key + key_len));
	}
	return rc;
}

static int find_in_chunks(struct hdf5_finder *f, const struct found_dataset *d)
{
	struct chunks c = { .f = f, .d = d };
	int rc;

	if (d->has_filters)
		return no_records(f, "its chunks are compressed, or otherwise filtered");
	if (d->nr_dims == 0 || d->nr_chunk_dims != d->nr_dims || d->chunk[0] == 0)
		return damaged(f, "layout of chunks", d->at);
	for (unsigned i = 1; i < d->nr_dims; i++)
		if (d->chunk[i] != d->dims[i])
			return no_records(f, "its chunks cut them");
	c.nr_samples = d->dims[0];
	c.len = elements_len(d, 1, f->file->size);
	if (c.nr_samples == 0)
		return 0;
	if (c.len == 0)
		return err_set(f->err, -EBADMSG, "its records lie outside the file");
	rc = d->at == UNDEFINED ? no_records(f, "no chunk was ever written")
				: each_chunk(&c, d->at, LEVELS_MAX);
	if (rc == 0 && c.next < c.nr_samples)
		rc = no_records(f, "a chunk was never written");
	return rc;
}

/* ---- All of it ---- */

/* The dataset "records", or the only one. */
static int find_dataset(struct hdf5_finder *f, struct found_dataset *d)
{
	int rc = search_root(f);

	if (rc == 0 && f->records == UNDEFINED && f->nr_objects == 1)
		f->records = f->other;
	else if (rc == 0 && f->records == UNDEFINED)
		return err_set(f->err, -ENOTSUP,
			       "there is no dataset 'records' in it, and more than one of another "
			       "name, or none");
	if (rc == 0 && f->records == UNDEFINED)
		return err_set(f->err, -ENOTSUP, "its only dataset is a link to another one");
	if (rc == 0)
		rc = each_message(f, f->records, take_dataset, d);
	if (rc == 0 && (!d->has_space || !d->has_type || !d->has_layout))
		rc = err_set(f->err, -ENOTSUP, "what should be its records is no dataset");
	return rc;
}

int samples_find_hdf5(struct samples_search *s)
{
	struct hdf5_finder f = { .search = s,
				 .file = s->file,
				 .err = s->err,
				 .records = UNDEFINED,
				 .other = UNDEFINED };
	struct found_dataset d = { 0 };
	uint64_t nr, len;
	int rc = find_dataset(&f, &d);

	if (rc < 0)
		return rc;
	if (d.nr_chunk_dims > 0)
		return find_in_chunks(&f, &d);
	nr = d.nr_dims ? d.dims[0] : 1;
	if (nr == 0)
		return 0;
	if (d.at == UNDEFINED)
		return no_records(&f, "they were never written, are in another file, or have no "
				      "bytes");
	len = elements_len(&d, nr, d.len);
	if (len == 0 || len != d.len || !format_inside(d.at, len, s->file->size))
		return err_set(s->err, -EBADMSG, "its records lie outside the file");
	return samples_report_array(s, d.at, len / nr, nr);
}
