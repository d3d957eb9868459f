/*
 * HDF5: the records of a dataset whose elements of the first dimension are contiguous: a contiguous
 * dataset, or one in chunks of whole elements of the first dimension. Files as h5py writes them by
 * default (superblock version 0, a root group with a symbol table), and with a later lower bound of
 * versions, such as libver="latest" (superblock version 2 or 3, object headers with a checksum, a
 * root group whose links are messages).
 *
 * Section numbers in comments are those of the HDF5 File Format Specification, version 3.0.
 */
#include <inttypes.h>

#include "base/bits.h"
#include "format/hdf5_private.h"

/* A damaged file might contain a cycle. Each step is of at least so many bytes. */
#define STEPS_MIN  10000
#define STEP_BYTES 16

static int hdf5_step(struct hdf5_finder *f)
{
	if (f->steps++ < STEPS_MIN + f->file->size / STEP_BYTES)
		return 0;
	return err_set(f->err, -EBADMSG, "its structure contains a cycle");
}

int hdf5_damaged(struct hdf5_finder *f, const char *what, uint64_t at)
{
	return err_set(f->err, -EBADMSG, "there is no %s at %" PRIu64, what, at);
}

int hdf5_not_contiguous(struct hdf5_finder *f, const char *why)
{
	return err_set(f->err, -ENOTSUP, "its records are not contiguous: %s", why);
}

int hdf5_read_magic(struct hdf5_finder *f, uint64_t at, const char *magic, uint8_t *buf, size_t len)
{
	int rc = format_read(f->file, at, buf, len, f->err);

	if (rc == 0 && memcmp(buf, magic, 4) != 0)
		rc = hdf5_damaged(f, magic, at);
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
	bool newer;      /* an object header of version 2 */
	size_t head_len; /* of a message */
};

static int hdf5_add_block(struct hdf5_finder *f, struct blocks *b, uint64_t at, size_t len)
{
	uint8_t buf[16];
	uint64_t left;
	int rc;

	if (len < 16 || b->nr == BLOCKS_MAX)
		return hdf5_damaged(f, "continuation of a header", at);
	rc = format_read(f->file, at, buf, sizeof(buf), f->err);
	if (rc < 0)
		return rc;
	at = le64_load(buf);
	left = le64_load(buf + 8);
	if (b->newer) { /* IV.A.1.b: a magic number precedes the messages, a checksum follows */
		rc = left < 8 ? hdf5_damaged(f, "continuation of a header", at)
			      : hdf5_read_magic(f, at, "OCHK", buf, 4);
		if (rc == 0)
			rc = hdf5_check_sum(f, at, left - 4);
		if (rc < 0)
			return rc;
		at += 4;
		left -= 8;
	}
	b->block[b->nr].at = at;
	b->block[b->nr].len = left;
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
		return hdf5_damaged(f, "block of messages", at);
	while (left >= b->head_len && rc == 0) {
		uint8_t buf[8] = { 0 };
		unsigned type, flags;
		size_t len;

		rc = hdf5_step(f);
		if (rc == 0)
			rc = format_read(f->file, at, buf, b->head_len, f->err);
		if (rc < 0)
			return rc;
		type = b->newer ? buf[0] : buf[0] | (unsigned)buf[1] << 8;
		len = b->newer ? buf[1] | (size_t)buf[2] << 8 : buf[2] | (size_t)buf[3] << 8;
		flags = b->newer ? buf[3] : buf[4];
		if (len > left - b->head_len)
			return hdf5_damaged(f, "whole message", at);
		if (flags & 2 && type != 0x11)
			return err_set(f->err, -ENOTSUP, "it shares messages between objects");
		if (type == 0x10)
			rc = hdf5_add_block(f, b, at + b->head_len, len);
		else
			rc = take(f, type, at + b->head_len, len, self);
		at += b->head_len + len;
		left -= b->head_len + len;
	}
	return rc;
}

/* IV.A.1.b: the first block of messages of an object header of version 2. */
static int begin_newer(struct hdf5_finder *f, uint64_t at, struct blocks *b)
{
	uint8_t buf[34] = { 0 };
	size_t len_at = 6, nr;
	int rc = format_read(f->file, at, buf, 6, f->err);

	if (rc == 0 && buf[4] != 2)
		rc = err_set(f->err, -ENOTSUP, "it has an object header of version %u", buf[4]);
	if (rc < 0)
		return rc;
	len_at += (buf[5] & 0x20 ? 16u : 0u) + (buf[5] & 0x10 ? 4u : 0u);
	nr = (size_t)1 << (buf[5] & 3);
	b->newer = true;
	b->head_len = buf[5] & 4 ? 6 : 4;
	memset(buf, 0, sizeof(buf));
	rc = format_read(f->file, at + len_at, buf, nr, f->err);
	b->block[0].at = at + len_at + nr;
	b->block[0].len = le64_load(buf);
	if (rc == 0 && !format_inside(b->block[0].at, b->block[0].len, f->file->size))
		rc = hdf5_damaged(f, "block of messages", b->block[0].at);
	return rc == 0 ? hdf5_check_sum(f, at, len_at + nr + b->block[0].len) : rc;
}

static int each_message(struct hdf5_finder *f, uint64_t at, message_fn *take, void *self)
{
	struct blocks b = { .nr = 1, .head_len = 8 };
	uint8_t buf[16];
	int rc = format_read(f->file, at, buf, sizeof(buf), f->err);

	if (rc == 0 && memcmp(buf, "OHDR", 4) == 0) {
		rc = begin_newer(f, at, &b);
	} else if (rc == 0 && buf[0] != 1) {
		rc = hdf5_damaged(f, "object header", at);
	} else if (rc == 0) {
		b.block[0].at = at + 16;
		b.block[0].len = le32_load(buf + 8);
	}
	for (unsigned i = 0; i < b.nr && rc == 0; i++)
		rc = each_in_block(f, &b, i, take, self);
	return rc;
}

/* ---- The group ---- */

/* What the messages of a group say: where its symbol table is, or its links themselves. */
struct group {
	uint64_t tree, heap;
	bool links, dense; /* there are links; they are in a heap */
};

/* An object of the root. The name is zero-terminated if it is shorter than @name. */
static void hdf5_take_object(struct hdf5_finder *f, const uint8_t name[8], uint64_t at)
{
	f->nr_objects++;
	f->other = at;
	if (memcmp(name, "records", 8) == 0)
		f->records = at;
}

/* IV.A.2.g: a link, of a group with few of them. */
static int take_link(struct hdf5_finder *f, uint64_t at, size_t len)
{
	uint8_t buf[32] = { 0 }, name[8] = { 0 }, address[8];
	size_t pos = 2, wide;
	uint64_t name_len;
	int rc = format_read(f->file, at, buf, u64_min(len, 20), f->err);

	if (rc < 0)
		return rc;
	wide = (size_t)1 << (buf[1] & 3);
	if (buf[1] & 8 && buf[2] != 0) { /* a soft or an external link */
		f->nr_objects++;
		f->other = HDF5_UNDEFINED;
		return 0;
	}
	pos += (buf[1] & 8 ? 1u : 0u) + (buf[1] & 4 ? 8u : 0u) + (buf[1] & 16 ? 1u : 0u);
	name_len = le64_load(buf + pos) & bits_mask(8 * (unsigned)wide);
	if (buf[0] != 1 || pos + wide + 8 > len || name_len > len - pos - wide - 8)
		return hdf5_damaged(f, "link", at);
	rc = format_read(f->file, at + pos + wide, name, u64_min(name_len, sizeof(name)), f->err);
	if (rc == 0)
		rc = format_read(f->file, at + pos + wide + name_len, address, sizeof(address),
				 f->err);
	if (rc == 0)
		hdf5_take_object(f, name, le64_load(address));
	return rc;
}

static int take_group(struct hdf5_finder *f, unsigned type, uint64_t at, size_t len, void *self)
{
	struct group *g = self;
	uint8_t buf[18];
	size_t skip;
	int rc;

	switch (type) {
	case 0x02: /* link info: the address of the heap, if the links are in one */
		rc = len < 10 ? hdf5_damaged(f, "group", at)
			      : format_read(f->file, at, buf, 2, f->err);
		skip = rc == 0 && buf[1] & 1 ? 10 : 2;
		if (rc == 0 && len < skip + 8)
			rc = hdf5_damaged(f, "group", at);
		if (rc == 0)
			rc = format_read(f->file, at + skip, buf, 8, f->err);
		g->links = true;
		g->dense = rc == 0 && le64_load(buf) != HDF5_UNDEFINED;
		return rc;
	case 0x06:
		g->links = true;
		return take_link(f, at, len);
	case 0x11:
		rc = len < 16 ? hdf5_damaged(f, "symbol table", at)
			      : format_read(f->file, at, buf, 16, f->err);
		if (rc == 0) {
			g->tree = le64_load(buf);
			g->heap = le64_load(buf + 8);
		}
		return rc;
	default:
		return 0;
	}
}

/* Search one leaf for "records". */
static int search_symbols(struct hdf5_finder *f, uint64_t node)
{
	uint8_t buf[40], name[8];
	unsigned nr;
	int rc = hdf5_read_magic(f, node, "SNOD", buf, 8);

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
		memset(name, 0, sizeof(name));
		if (format_inside(off, 8, f->names_len)) /* or it is shorter, at the heap's end */
			rc = format_read(f->file, f->names + off, name, sizeof(name), f->err);
		hdf5_take_object(f, name, le64_load(buf + 8));
	}
	return rc;
}

/*
 * Search all leaves below @node, which is at @level; HDF5_LEVELS_MAX for the root, which may be at
 * any.
 */
static int search_tree(struct hdf5_finder *f, uint64_t node, unsigned level)
{
	uint8_t buf[24], child[8];
	unsigned nr, is;
	int rc = hdf5_read_magic(f, node, "TREE", buf, sizeof(buf));

	if (rc < 0)
		return rc;
	is = buf[5];
	nr = buf[6] | (unsigned)buf[7] << 8;
	if (buf[4] != 0 || is >= HDF5_LEVELS_MAX || (level < HDF5_LEVELS_MAX && is != level))
		return hdf5_damaged(f, "group's tree", node);
	for (unsigned i = 0; i < nr && rc == 0 && f->records == HDF5_UNDEFINED; i++) {
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

/* II.A: the address of the root's object header, from a superblock of any version. */
static int read_superblock(struct hdf5_finder *f, uint64_t *ret_root)
{
	uint8_t buf[96] = { 0 };
	uint64_t base, end;
	size_t more;
	int rc = format_read(f->file, 0, buf, u64_min(sizeof(buf), f->file->size), f->err);

	if (rc < 0)
		return rc;
	if (memcmp(buf, MAGIC, 8) != 0)
		return has_user_block(f)
			       ? err_set(f->err, -ENOTSUP, "a user block precedes its data")
			       : err_set(f->err, -EBADMSG, "not an HDF5 file: wrong magic number");
	if (f->file->size < (buf[8] < 2 ? 96 : 48))
		return err_set(f->err, -EBADMSG, "it is truncated");
	more = buf[8] == 1 ? 4 : 0;
	if (buf[8] > 3 || buf[buf[8] < 2 ? 13 : 9] != 8 || buf[buf[8] < 2 ? 14 : 10] != 8)
		return err_set(f->err, -ENOTSUP, "it has a superblock of version %u", buf[8]);
	rc = buf[8] < 2 ? 0 : hdf5_check_sum(f, 0, 44);
	if (rc < 0)
		return rc;
	base = le64_load(buf + (buf[8] < 2 ? 24 + more : 12));
	end = le64_load(buf + (buf[8] < 2 ? 40 + more : 28));
	*ret_root = le64_load(buf + (buf[8] < 2 ? 64 + more : 36));
	if (base != 0)
		return err_set(f->err, -ENOTSUP, "its addresses do not begin with the file");
	if (end > f->file->size)
		return err_set(f->err, -EBADMSG,
			       "it is truncated: it had %" PRIu64 " bytes, and has %" PRIu64, end,
			       f->file->size);
	return 0;
}

static int search_root(struct hdf5_finder *f)
{
	struct group g = { .tree = HDF5_UNDEFINED, .heap = HDF5_UNDEFINED };
	uint8_t heap[32];
	uint64_t root;
	int rc = read_superblock(f, &root);

	if (rc == 0)
		rc = each_message(f, root, take_group, &g);
	if (rc == 0 && g.dense)
		rc = err_set(f->err, -ENOTSUP, "it has many objects, whose names are in a heap");
	if (rc < 0 || g.links)
		return rc;
	rc = hdf5_read_magic(f, g.heap, "HEAP", heap, sizeof(heap));
	if (rc < 0)
		return rc;
	f->names_len = le64_load(heap + 8);
	f->names = le64_load(heap + 24);
	if (!format_inside(f->names, f->names_len, f->file->size))
		return hdf5_damaged(f, "heap", f->names);
	return search_tree(f, g.tree, HDF5_LEVELS_MAX);
}

/* ---- The dataset ---- */

/* Read @nr numbers of eight bytes. */
static int read_dims(struct hdf5_finder *f, uint64_t at, unsigned nr, uint64_t *ret)
{
	uint8_t dim[8];
	int rc = 0;

	for (unsigned i = 0; i < nr && rc == 0; i++) {
		rc = format_read(f->file, at + 8 * (uint64_t)i, dim, sizeof(dim), f->err);
		ret[i] = rc == 0 ? le64_load(dim) : 0;
	}
	return rc;
}

static int take_space(struct hdf5_finder *f, uint64_t at, size_t len, struct hdf5_dataset *d)
{
	uint8_t buf[4];
	size_t head;
	bool most;
	int rc;

	if (len < sizeof(buf))
		return hdf5_damaged(f, "dataspace", at);
	rc = format_read(f->file, at, buf, sizeof(buf), f->err);
	if (rc < 0)
		return rc;
	head = buf[0] == 1 ? 8 : 4;
	most = buf[2] & 1;
	if (buf[0] < 1 || buf[0] > 2 || buf[1] > HDF5_DIMS_MAX ||
	    len < head + 8 * (size_t)buf[1] * (most ? 2 : 1))
		return hdf5_damaged(f, "dataspace", at);
	rc = read_dims(f, at + head, buf[1], d->dims);
	if (rc == 0)
		rc = read_dims(f, at + head + (most ? 8 * (uint64_t)buf[1] : 0), buf[1], d->most);
	d->nr_dims = buf[1];
	d->has_space = true;
	return rc;
}

/* IV.A.2.i, class 2 of version 3: dimensions of a chunk, of which the last is the bytes per item.
 */
static int take_chunked(struct hdf5_finder *f, uint64_t at, size_t len, struct hdf5_dataset *d)
{
	uint8_t buf[11], dim[4];
	int rc = len < sizeof(buf) ? hdf5_damaged(f, "layout", at)
				   : format_read(f->file, at, buf, sizeof(buf), f->err);

	if (rc < 0)
		return rc;
	if (buf[2] < 2 || buf[2] - 1 > HDF5_DIMS_MAX || len < sizeof(buf) + 4 * (size_t)buf[2])
		return hdf5_damaged(f, "layout", at);
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

/* The same of version 4: the dimensions have a length of their own, and an index follows. */
static int take_newer_chunks(struct hdf5_finder *f, uint64_t at, size_t len, struct hdf5_dataset *d)
{
	static const uint8_t parameters[] = {
		[HDF5_FIXED_ARRAY] = 1, [HDF5_EXTENSIBLE_ARRAY] = 5, [HDF5_TREE_2] = 6
	};
	uint8_t buf[5], number[8], kind = 0;
	size_t pos = sizeof(buf);
	int rc = len < sizeof(buf) ? hdf5_damaged(f, "layout", at)
				   : format_read(f->file, at, buf, sizeof(buf), f->err);

	if (rc < 0)
		return rc;
	if (buf[3] < 2 || buf[3] - 1 > HDF5_DIMS_MAX || buf[4] < 1 || buf[4] > 8 ||
	    len < pos + (size_t)buf[3] * buf[4] + 1)
		return hdf5_damaged(f, "layout", at);
	d->nr_chunk_dims = buf[3] - 1u;
	for (unsigned i = 0; i < d->nr_chunk_dims && rc == 0; i++) {
		memset(number, 0, sizeof(number));
		rc = format_read(f->file, at + pos + (uint64_t)i * buf[4], number, buf[4], f->err);
		d->chunk[i] = rc == 0 ? le64_load(number) : 0;
	}
	pos += (size_t)buf[3] * buf[4];
	if (rc == 0)
		rc = format_read(f->file, at + pos, &kind, 1, f->err);
	if (rc == 0 && (kind < HDF5_SINGLE || kind > HDF5_TREE_2))
		rc = hdf5_damaged(f, "layout", at);
	if (rc < 0)
		return rc;
	d->index = (enum hdf5_index)kind;
	pos += 1 + (size_t)(kind == HDF5_SINGLE && buf[2] & 2 ? 12 : parameters[kind]);
	rc = len < pos + 8 ? hdf5_damaged(f, "layout", at)
			   : format_read(f->file, at + pos, number, 8, f->err);
	d->at = le64_load(number);
	d->has_layout = true;
	return rc;
}

static int take_layout(struct hdf5_finder *f, uint64_t at, size_t len, struct hdf5_dataset *d)
{
	static const char *const words[] = { "they are in a header", NULL,
					     "their layout is of a newer kind",
					     "they are in other datasets" };
	uint8_t buf[18];
	int rc;

	if (len < 2)
		return hdf5_damaged(f, "layout", at);
	rc = format_read(f->file, at, buf, 2, f->err);
	if (rc < 0)
		return rc;
	if (buf[1] == 2 && buf[0] == 3)
		return take_chunked(f, at, len, d);
	if (buf[1] == 2 && buf[0] == 4)
		return take_newer_chunks(f, at, len, d);
	if (buf[1] > 3 || (buf[1] == 1 && (buf[0] < 3 || buf[0] > 4 || len < sizeof(buf))))
		return hdf5_damaged(f, "layout", at);
	if (buf[1] != 1)
		return hdf5_not_contiguous(f, words[buf[1]]);
	rc = format_read(f->file, at, buf, sizeof(buf), f->err);
	d->at = le64_load(buf + 2);
	d->len = le64_load(buf + 10);
	d->has_layout = true;
	return rc;
}

static int take_dataset(struct hdf5_finder *f, unsigned type, uint64_t at, size_t len, void *self)
{
	struct hdf5_dataset *d = self;

	switch (type) {
	case 0x01:
		return take_space(f, at, len, d);
	case 0x03:
		return hdf5_take_type(f, at, len, d);
	case 0x08:
		return take_layout(f, at, len, d);
	case 0x0b:
		d->has_filters = true;
		return 0;
	default:
		return 0;
	}
}

uint64_t hdf5_elements_len(const struct hdf5_dataset *d, uint64_t nr, uint64_t most)
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

/* ---- All of it ---- */

/* The dataset "records", or the only one. */
static int find_dataset(struct hdf5_finder *f, struct hdf5_dataset *d)
{
	int rc = search_root(f);

	if (rc == 0 && f->records == HDF5_UNDEFINED && f->nr_objects == 1)
		f->records = f->other;
	else if (rc == 0 && f->records == HDF5_UNDEFINED)
		return err_set(f->err, -ENOTSUP,
			       "there is no dataset 'records' in it, and more than one of another "
			       "name, or none");
	if (rc == 0 && f->records == HDF5_UNDEFINED)
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
				 .records = HDF5_UNDEFINED,
				 .other = HDF5_UNDEFINED };
	struct hdf5_dataset d = { 0 };
	uint64_t nr, len;
	int rc = find_dataset(&f, &d);

	if (rc < 0)
		return rc;
	if (d.nr_chunk_dims > 0)
		return hdf5_find_in_chunks(&f, &d);
	nr = d.nr_dims ? d.dims[0] : 1;
	if (nr == 0)
		return 0;
	if (d.at == HDF5_UNDEFINED)
		return hdf5_not_contiguous(
			&f, "they were never written, are in another file, or have no "
			    "bytes");
	len = hdf5_elements_len(&d, nr, d.len);
	if (len == 0 || len != d.len || !format_inside(d.at, len, s->file->size))
		return err_set(s->err, -EBADMSG, "its records lie outside the file");
	return samples_report_array(s, d.at, len / nr, nr);
}
