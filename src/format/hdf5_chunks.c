/*
 * HDF5: the chunks of a dataset, by each of its indexes but the B-tree of version 2, which only
 * datasets with several unlimited dimensions have. A chunk has whole elements of the first
 * dimension, so that its number is the number of the chunk in that dimension.
 *
 * Section numbers in comments are those of the HDF5 File Format Specification, version 3.0.
 */
#include <inttypes.h>

#include "base/bits.h"
#include "format/hdf5_private.h"

/* The chunks, in the order of their elements. */
struct chunks {
	struct hdf5_finder *f;
	const struct hdf5_dataset *d;
	uint64_t nr_samples, next; /* elements reported so far */
	uint64_t len, end;         /* bytes per element; the end of the last chunk */
};

/* The next chunk, at @at. Each follows the one before it in the file, so that every search ends,
 * whatever the bytes. */
static int take_chunk(struct chunks *c, uint64_t at)
{
	uint64_t nr = u64_min(c->d->chunk[0], c->nr_samples - c->next), room = c->f->file->size;
	int rc = 0;

	if (at == HDF5_UNDEFINED)
		return hdf5_not_contiguous(c->f, "a chunk was never written");
	if (c->d->chunk[0] > room / c->len || !format_inside(at, c->d->chunk[0] * c->len, room))
		return hdf5_damaged(c->f, "chunk inside the file", at);
	if (at < c->end)
		return hdf5_not_contiguous(c->f,
					   "its chunks are not in the order of their elements");
	c->end = at + c->d->chunk[0] * c->len;
	for (uint64_t i = 0; i < nr && rc == 0; i++)
		rc = samples_report(c->f->search, at + i * c->len, c->len, 1);
	c->next += nr;
	return rc;
}

/* ---- A B-tree of version 1 ---- */

/* A key has the chunk's bytes, a mask, and the offset of its first element in each dimension. */
static int take_keyed_chunk(struct chunks *c, const uint8_t *key, uint64_t at)
{
	uint64_t len = le32_load(key);

	if (le64_load(key + 8) != c->next)
		return le64_load(key + 8) > c->next
			       ? hdf5_not_contiguous(c->f, "a chunk was never written")
			       : err_set(c->f->err, -EBADMSG, "its chunks are not in order");
	for (unsigned i = 1; i <= c->d->nr_dims; i++) /* chunks have all of the other dimensions */
		if (le64_load(key + 8 + 8 * (size_t)i) != 0)
			return hdf5_damaged(c->f, "whole chunk", at);
	if (len / c->len != c->d->chunk[0] || len % c->len)
		return hdf5_damaged(c->f, "whole chunk", at);
	return take_chunk(c, at);
}

/*
 * III.A.1, type 1: all chunks below @node, which is at @level; HDF5_LEVELS_MAX for the root, which
 * may be at any. Every leaf has a chunk.
 */
static int each_in_tree(struct chunks *c, uint64_t node, unsigned level)
{
	size_t key_len = 8 + 8 * (size_t)(c->d->nr_dims + 1);
	uint8_t buf[24], key[8 + 8 * (HDF5_DIMS_MAX + 1) + 8];
	unsigned nr, is;
	int rc = hdf5_read_magic(c->f, node, "TREE", buf, sizeof(buf));

	if (rc < 0)
		return rc;
	is = buf[5];
	nr = buf[6] | (unsigned)buf[7] << 8;
	if (buf[4] != 1 || nr == 0 || is >= HDF5_LEVELS_MAX ||
	    (level < HDF5_LEVELS_MAX && is != level))
		return hdf5_damaged(c->f, "tree of chunks", node);
	for (unsigned i = 0; i < nr && rc == 0 && c->next < c->nr_samples; i++) {
		rc = format_read(c->f->file, node + 24 + (uint64_t)i * (key_len + 8), key,
				 key_len + 8, c->f->err);
		if (rc < 0)
			return rc;
		if (is > 0)
			rc = each_in_tree(c, le64_load(key + key_len), is - 1);
		else
			rc = take_keyed_chunk(c, key, le64_load(key + key_len));
	}
	return rc;
}

/* ---- Arrays of addresses ---- */

#define PREFIX 14 /* magic number, version, client, the address of the header */
#define SUM    4  /* a checksum */

/* Take the chunks whose addresses are at @at, up to @nr of them. */
static int take_addresses(struct chunks *c, uint64_t at, uint64_t nr)
{
	uint8_t buf[8];
	int rc = 0;

	for (uint64_t i = 0; i < nr && rc == 0 && c->next < c->nr_samples; i++) {
		rc = format_read(c->f->file, at + 8 * i, buf, sizeof(buf), c->f->err);
		if (rc == 0)
			rc = take_chunk(c, le64_load(buf));
	}
	return rc;
}

/* The same of addresses after a head of @head bytes at @at, with a checksum of all. */
static int take_summed(struct chunks *c, uint64_t at, uint64_t head, uint64_t nr)
{
	int rc = nr > c->f->file->size / 8 ? hdf5_damaged(c->f, "index of chunks", at)
					   : hdf5_check_sum(c->f, at, head + 8 * nr);

	return rc == 0 ? take_addresses(c, at + head, nr) : rc;
}

/* Which pages of addresses were ever written: bits, the most significant one of a byte first. */
struct written {
	uint64_t at, first; /* the byte of bit 0; the bit of the first page */
};

/* The same of addresses in pages of @page, each with a checksum. */
static int take_pages(struct chunks *c, uint64_t at, uint64_t nr, uint64_t page, struct written w)
{
	int rc = 0;

	for (uint64_t i = 0; i * page < nr && rc == 0 && c->next < c->nr_samples; i++) {
		uint64_t bit = w.first + i;
		uint8_t byte = 0;

		rc = format_read(c->f->file, w.at + bit / 8, &byte, 1, c->f->err);
		if (rc == 0 && !(byte & 0x80 >> bit % 8))
			return hdf5_not_contiguous(c->f, "a chunk was never written");
		if (rc == 0)
			rc = take_summed(c, at + i * (8 * page + SUM), 0,
					 u64_min(page, nr - i * page));
	}
	return rc;
}

/* VII.C: unfiltered chunks have the client 0, and addresses of eight bytes. */
static int read_array_header(struct chunks *c, const char *magic, uint8_t *buf, size_t len)
{
	int rc = hdf5_read_magic(c->f, c->d->at, magic, buf, len);

	if (rc == 0 && (buf[4] != 0 || buf[5] != 0 || buf[6] != 8))
		rc = hdf5_damaged(c->f, "index of chunks that can be read", c->d->at);
	return rc == 0 ? hdf5_check_sum(c->f, c->d->at, len) : rc;
}

/* VII.C, fixed array: a header, and a data block, in pages if it is large. */
static int each_in_fixed_array(struct chunks *c)
{
	uint8_t buf[24], block[PREFIX];
	uint64_t nr, at, page, bits;
	int rc = read_array_header(c, "FAHD", buf, sizeof(buf));

	if (rc < 0)
		return rc;
	nr = le64_load(buf + 8);
	at = le64_load(buf + 16);
	if (buf[7] > 32 || nr > c->f->file->size / 8)
		return hdf5_damaged(c->f, "index of chunks that can be read", c->d->at);
	if (at == HDF5_UNDEFINED)
		return hdf5_not_contiguous(c->f, "no chunk was ever written");
	rc = hdf5_read_magic(c->f, at, "FADB", block, sizeof(block));
	if (rc < 0)
		return rc;
	page = UINT64_C(1) << buf[7];
	if (nr <= page)
		return take_summed(c, at, PREFIX, nr);
	bits = u64_divide_up(u64_divide_up(nr, page), 8);
	rc = hdf5_check_sum(c->f, at, PREFIX + bits);
	return rc < 0 ? rc
		      : take_pages(c, at + PREFIX + bits + SUM, nr, page,
				   (struct written){ at + PREFIX, 0 });
}

/* The shape of an extensible array. */
struct extensible {
	unsigned max_bits, first, least, pointers;
	uint64_t page;
	size_t offset_len; /* bytes of an offset in a block */
};

static unsigned chunks_log2(unsigned power)
{
	return bit_len(power) - 1;
}

/* A data block of @nr addresses. */
static int take_data_block(struct chunks *c, const struct extensible *a, uint64_t at, uint64_t nr,
			   struct written w)
{
	uint8_t block[PREFIX];
	int rc;

	if (at == HDF5_UNDEFINED)
		return hdf5_not_contiguous(c->f, "a chunk was never written");
	rc = hdf5_read_magic(c->f, at, "EADB", block, sizeof(block));
	if (rc == 0 && nr <= a->page)
		return take_summed(c, at, PREFIX + a->offset_len, nr);
	if (rc == 0)
		rc = hdf5_check_sum(c->f, at, PREFIX + a->offset_len);
	at += PREFIX + a->offset_len + SUM;
	return rc < 0 ? rc : take_pages(c, at, nr, a->page, w);
}

/* Data blocks of @nr addresses each, whose @nr_blocks addresses are at @at; the bits of their
 * pages, if they have some, at @bits. */
static int take_data_blocks(struct chunks *c, const struct extensible *a, uint64_t at,
			    uint64_t nr_blocks, uint64_t nr, uint64_t bits)
{
	uint8_t buf[8];
	int rc = 0;

	for (uint64_t i = 0; i < nr_blocks && rc == 0 && c->next < c->nr_samples; i++) {
		struct written w = { bits, i * (nr / a->page) };

		rc = format_read(c->f->file, at + 8 * i, buf, sizeof(buf), c->f->err);
		if (rc == 0)
			rc = take_data_block(c, a, le64_load(buf), nr, w);
	}
	return rc;
}

/* A super block, which has the addresses of data blocks. */
static int take_super_block(struct chunks *c, const struct extensible *a, uint64_t at,
			    uint64_t nr_blocks, uint64_t nr)
{
	uint64_t bits = nr > a->page ? nr_blocks * u64_divide_up(nr / a->page, 8) : 0;
	uint8_t block[PREFIX];
	int rc;

	if (at == HDF5_UNDEFINED)
		return hdf5_not_contiguous(c->f, "a chunk was never written");
	rc = hdf5_read_magic(c->f, at, "EASB", block, sizeof(block));
	if (rc == 0)
		rc = nr_blocks > c->f->file->size / 8
			     ? hdf5_damaged(c->f, "index of chunks", at)
			     : hdf5_check_sum(c->f, at,
					      PREFIX + a->offset_len + bits + 8 * nr_blocks);
	if (rc < 0)
		return rc;
	at += PREFIX + a->offset_len;
	return take_data_blocks(c, a, at + bits, nr_blocks, nr, at);
}

/*
 * VII.D, extensible array: the index block has the first addresses, then those of data blocks, then
 * those of super blocks. Super block u has 2^(u/2) data blocks of 2^((u+1)/2) times the least
 * number of addresses; the data blocks of the first ones are in the index block itself.
 */
static int each_in_blocks(struct chunks *c, const struct extensible *a, uint64_t at)
{
	unsigned nr = 1 + a->max_bits - chunks_log2(a->least),
		 direct = 2 * chunks_log2(a->pointers);
	uint8_t block[PREFIX], buf[8];
	unsigned supers = nr > direct ? nr - direct : 0;
	int rc = hdf5_read_magic(c->f, at, "EAIB", block, sizeof(block));

	if (rc ==
	    0) /* its addresses, those of 2 * (pointers - 1) data blocks, and of super blocks */
		rc = hdf5_check_sum(c->f, at,
				    PREFIX + 8 * ((uint64_t)a->first +
						  2 * ((uint64_t)a->pointers - 1) + supers));
	if (rc == 0)
		rc = take_addresses(c, at + PREFIX, a->first);
	at += PREFIX + 8 * (uint64_t)a->first;
	for (unsigned u = 0; u < nr && rc == 0 && c->next < c->nr_samples; u++) {
		uint64_t nr_blocks = UINT64_C(1) << u / 2;
		uint64_t each = (uint64_t)a->least << (u + 1) / 2;

		if (u < direct) {
			rc = take_data_blocks(c, a, at, nr_blocks, each, /* bits= */ 0);
			at += 8 * nr_blocks;
			continue;
		}
		rc = format_read(c->f->file, at, buf, sizeof(buf), c->f->err);
		if (rc == 0)
			rc = take_super_block(c, a, le64_load(buf), nr_blocks, each);
		at += 8;
	}
	return rc;
}

static int each_in_extensible_array(struct chunks *c)
{
	struct extensible a;
	uint8_t buf[68];
	int rc = read_array_header(c, "EAHD", buf, sizeof(buf));

	if (rc < 0)
		return rc;
	a = (struct extensible){ .max_bits = buf[7],
				 .first = buf[8],
				 .least = buf[9],
				 .pointers = buf[10],
				 .page = UINT64_C(1) << (buf[11] & 31),
				 .offset_len = (buf[7] + 7u) / 8 };
	if (a.max_bits > 64 || a.least == 0 || (a.least & (a.least - 1)) || a.pointers == 0 ||
	    (a.pointers & (a.pointers - 1)) || buf[11] > 31 || a.max_bits < chunks_log2(a.least))
		return hdf5_damaged(c->f, "index of chunks that can be read", c->d->at);
	if (le64_load(buf + 60) == HDF5_UNDEFINED)
		return hdf5_not_contiguous(c->f, "no chunk was ever written");
	return each_in_blocks(c, &a, le64_load(buf + 60));
}

/* ---- All of it ---- */

static int each_chunk(struct chunks *c)
{
	uint64_t len = c->d->chunk[0] * c->len;
	int rc = 0;

	switch (c->d->index) {
	case HDF5_TREE:
		return each_in_tree(c, c->d->at, HDF5_LEVELS_MAX);
	case HDF5_SINGLE:
		return take_chunk(c, c->d->at);
	case HDF5_IMPLICIT:
		for (uint64_t at = c->d->at; rc == 0 && c->next < c->nr_samples; at += len)
			rc = take_chunk(c, at);
		return rc;
	case HDF5_FIXED_ARRAY:
		return each_in_fixed_array(c);
	case HDF5_EXTENSIBLE_ARRAY:
		return each_in_extensible_array(c);
	case HDF5_TREE_2:
	default:
		return hdf5_not_contiguous(c->f, "several of its dimensions are unlimited");
	}
}

/* Whether each chunk has all of the other dimensions, now and if the dataset grows: then chunks are
 * numbered by the first dimension. */
static bool chunks_are_whole(const struct hdf5_dataset *d)
{
	for (unsigned i = 1; i < d->nr_dims; i++)
		if (d->chunk[i] != d->dims[i] ||
		    (d->index != HDF5_TREE && d->index != HDF5_TREE_2 && d->most[i] > d->chunk[i]))
			return false;
	return true;
}

int hdf5_find_in_chunks(struct hdf5_finder *f, const struct hdf5_dataset *d)
{
	struct chunks c = { .f = f, .d = d };
	int rc;

	if (d->has_filters)
		return hdf5_not_contiguous(f, "its chunks are compressed, or otherwise filtered");
	if (d->nr_dims == 0 || d->nr_chunk_dims != d->nr_dims || d->chunk[0] == 0)
		return hdf5_damaged(f, "layout of chunks", d->at);
	if (!chunks_are_whole(d))
		return hdf5_not_contiguous(f, "its chunks cut them");
	c.nr_samples = d->dims[0];
	c.len = hdf5_elements_len(d, 1, f->file->size);
	if (c.nr_samples == 0)
		return 0;
	if (c.len == 0 || d->chunk[0] > f->file->size / c.len)
		return err_set(f->err, -EBADMSG, "its records lie outside the file");
	rc = d->at == HDF5_UNDEFINED ? hdf5_not_contiguous(f, "no chunk was ever written")
				     : each_chunk(&c);
	if (rc == 0 && c.next < c.nr_samples)
		rc = hdf5_not_contiguous(f, "a chunk was never written");
	return rc;
}
