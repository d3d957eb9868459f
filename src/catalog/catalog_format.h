/*
 * catalog_format.h - the bytes of a catalog, as specified in docs/format/catalog.md, and the
 * checked view that every reader works on. Private to the folder and its tests.
 */
#ifndef SHOAL_CATALOG_CATALOG_FORMAT_H
#define SHOAL_CATALOG_CATALOG_FORMAT_H

#include <errno.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/etag.h"
#include "base/le.h"
#include "catalog/identity.h"

#define CAT_MAGIC   "\211SHOAL\r\n"
#define CAT_VERSION 1u
/* A reader that did not know it would take samples for equal parts of their files. */
#define CAT_INCOMPAT_EXTENTS 1u /* the sections from XHDR on contain where samples lie */
#define CAT_INCOMPAT_SPARSE  2u /* some blocks of columns of extents are sparse */
#define CAT_INCOMPAT_KNOWN   (CAT_INCOMPAT_EXTENTS | CAT_INCOMPAT_SPARSE) /* no others */
#define CAT_COMPAT_LARGEST   1u /* the header has the largest size */
#define CAT_PAGE_SHIFT       14
#define CAT_PAGE             (1u << CAT_PAGE_SHIFT)
#define CAT_ROOT_MAX         4096u
#define CAT_LISTING_MAX      (1u << 20)
#define CAT_PREAMBLE_MAX     16384u /* bytes of a payload before its arrays */
#define CAT_FRONT_RAW_MAX    65536u
#define CAT_FRONT_NAMES      1024u
#define CAT_BLOCK_VALUES     256u /* per block of a column */
#define CAT_BLOCK_SPARSE     128u /* added to the width of a sparse one */

struct cat_header {
	uint8_t magic[8];
	struct le32 version;
	struct le32 header_len;
	struct le32 incompat;
	struct le32 compat;
	struct le64 file_len;
	struct le64 nr_files;
	struct le64 nr_samples;
	struct le64 nr_bytes;
	struct le64 samples_per_file;
	struct le64 lane[2];
	struct le64 digest[2]; /* low half, high half */
	struct le32 nr_sections;
	struct le32 page_shift;
	struct le32 key_skip;
	struct le32 reserved1;
	struct le64 sums_off;
	struct le64 sums_checksum;
	struct le64 table_checksum;
	struct le64 largest; /* largest size; only with CAT_COMPAT_LARGEST */
	uint8_t reserved2[104];
	struct le64 header_checksum; /* of all bytes before it */
};
_Static_assert(sizeof(struct cat_header) == CAT_HEADER_BYTES, "the catalog's header is 256 bytes");

struct cat_table_entry {
	uint8_t id[4];
	struct le32 reserved;
	struct le64 off;
	struct le64 len;
};
_Static_assert(sizeof(struct cat_table_entry) == 24, "a section table entry is 24 bytes");

struct cat_dir_entry {
	struct le64 first_id;
	struct le64 off; /* of the payload in NAME */
	struct le64 key;
};
_Static_assert(sizeof(struct cat_dir_entry) == 24, "a directory entry is 24 bytes");

struct cat_dict_entry {
	struct le64 first_segment;
	struct le64 off;
	struct le64 len;
};
#define CAT_DICT_MAX (UINT64_C(1) << 20)
_Static_assert(sizeof(struct cat_dict_entry) == 24, "a dictionary entry is 24 bytes");

struct cat_run {
	struct le64 first_id;
	struct le64 sum_before;
	struct le64 value; /* or the index of its first block */
	struct le32 kind;
	struct le32 reserved;
};
_Static_assert(sizeof(struct cat_run) == 32, "a run of a column is 32 bytes");

enum cat_run_kind { CAT_RUN_CONSTANT = 0, CAT_RUN_BLOCKS = 1 };

struct cat_block {
	struct le64 min;
	struct le64 sum_before; /* within the run */
	struct le64 off_width;  /* 56 bits of offset, 8 of width */
};
_Static_assert(sizeof(struct cat_block) == 24, "a block of a column is 24 bytes");

struct cat_extents_header {
	struct le64 nr_extents;
	struct le64 longest; /* sample */
	struct le64 nr_uncut;
	struct le64 reserved;
};

/* It is followed by one for each format of files. */
struct cat_format_entry {
	char name[16];
	struct le64 nr_files;
	struct le64 nr_samples;
};
_Static_assert(sizeof(struct cat_extents_header) == 32 && sizeof(struct cat_format_entry) == 32,
	       "XHDR consists of records of 32 bytes");

/* In file order. */
enum cat_section_id {
	CAT_ROOT,
	CAT_NAME,
	CAT_NDIR,
	CAT_DICT,
	CAT_DTAB,
	CAT_SZRN,
	CAT_SZBK,
	CAT_SZDT,
	CAT_SMRN,
	CAT_SMBK,
	CAT_SMDT,
	CAT_NR_ALWAYS, /* the sections before this are in every file */
	CAT_LIST = CAT_NR_ALWAYS,
	CAT_ETGS, /* one struct etag per file */
	/* Samples inside files: see extents.h. In files that have XHDR, all of them are. */
	CAT_XHDR,
	CAT_XNRN, /* per file: extents that it adds */
	CAT_XNBK,
	CAT_XNDT,
	CAT_XSRN, /* per file: extents that it shares */
	CAT_XSBK,
	CAT_XSDT,
	CAT_XGRN, /* per extent: the gap before it */
	CAT_XGBK,
	CAT_XGDT,
	CAT_XLRN, /* its length */
	CAT_XLBK,
	CAT_XLDT,
	CAT_XRRN, /* its rows */
	CAT_XRBK,
	CAT_XRDT,
	CAT_NR_SECTIONS,
};

/* The four-letter names of the sections, for the table and for messages. */
extern const char *const cat_section_names[CAT_NR_SECTIONS];

struct cat_section {
	const uint8_t *addr;
	uint64_t len;
	uint64_t file_off;
	uint64_t first_page; /* number of its first page among all pages */
};

enum cat_kind { CAT_GRID = 1, CAT_FIXED = 2, CAT_DECIMAL = 3, CAT_FRONT = 4 };

/* Where a lookup found damage; only the first is kept. */
struct cat_damage {
	_Atomic uint64_t where; /* 0: no damage. Otherwise 1 + section + NR_SECTIONS * offset */
	_Atomic(const char *) what;
};

/* A checked catalog image; it borrows the buffer that it was parsed from. */
struct cat_view {
	struct cat_section sec[CAT_NR_SECTIONS];
	const struct cat_header *header;
	const uint8_t *sums;
	uint64_t nr_pages;
	uint64_t nr_segments;
	uint64_t nr_files;
	uint64_t nr_samples;
	uint64_t nr_bytes;
	uint64_t largest; /* largest size; SHOAL_SIZE_UNKNOWN if not stored, or without sizes */
	uint64_t samples_per_file;
	bool etags;   /* ETGS is present and not empty */
	bool extents; /* XHDR is present and not empty */
	bool sparse;  /* blocks of its columns may be sparse */
	uint64_t nr_extents;
	uint64_t longest; /* sample, if there are extents */
	uint64_t file_len;
	uint64_t lane[2];
	uint64_t digest[2];
	uint32_t key_skip;
	/*
	 * One bit per page: its checksum has matched. One bit per 16 KiB: 4 KB for 100 million
	 * names of 5 bytes. If NULL, pages are checked at each use.
	 */
	_Atomic uint64_t *checked;
	struct cat_damage *damage; /* may be NULL */
};

/*
 * The trust boundary, together with cat_need(): pure, so that tests and the fuzzer reach it without
 * a file. Checks everything whose cost does not grow with the number of names. -EBADMSG: damaged,
 * truncated or not a catalog; -EPROTONOSUPPORT: made by a newer version.
 */
int cat_parse(const void *buf, size_t len, struct cat_view *ret_view,
	      struct shoal_err *err) MUST_USE;

/*
 * How many files a catalog of @file_len bytes has, of which only the beginning is at hand: @len
 * bytes, at most a header. 0: it is damaged. -EINVAL: it is something else. Nothing at all may be
 * the beginning of a catalog.
 */
int cat_peek(const void *head, size_t len, uint64_t file_len, uint64_t *ret_nr_files) MUST_USE;

/* Check the sums of all pages of all sections, including unknown sections. */
int cat_check_all(const struct cat_view *v, struct shoal_err *err) MUST_USE;

/* The slow half of cat_need(): check the sums of the pages that hold @len bytes at @off. */
bool cat_check_pages(const struct cat_view *v, const struct cat_section *sec, uint64_t off,
		     uint64_t len);

void cat_note_damage(const struct cat_view *v, enum cat_section_id id, uint64_t off,
		     const char *what);

/* Record damage at @off of section @id (the first is kept) and return -EBADMSG. */
static inline int cat_damaged(const struct cat_view *v, enum cat_section_id id, uint64_t off,
			      const char *what)
{
	cat_note_damage(v, id, off, what);
	return -EBADMSG;
}

/*
 * The @len bytes at @off of a section, within the file and with matching checksums; or NULL, with
 * the damage recorded. Readers get every byte from here.
 */
static inline const uint8_t *cat_need(const struct cat_view *v, enum cat_section_id id,
				      uint64_t off, uint64_t len)
{
	const struct cat_section *sec = &v->sec[id];
	uint64_t page, last;

	if (UNLIKELY(off > sec->len || len > sec->len - off)) {
		(void)cat_damaged(v, id, off, "points outside the section");
		return NULL;
	}
	if (len == 0)
		return off > 0 ? sec->addr + off : sec->addr; /* NULL: no such section */
	page = sec->first_page + (off >> CAT_PAGE_SHIFT);
	last = sec->first_page + ((off + len - 1) >> CAT_PAGE_SHIFT);
	for (; v->checked && page <= last; page++)
		if (!(atomic_load_explicit(&v->checked[page >> 6], memory_order_relaxed) >>
			      (page & 63) &
		      1))
			break;
	if (UNLIKELY(page <= last) && !cat_check_pages(v, sec, off, len))
		return NULL;
	return sec->addr + off;
}

static inline const struct cat_dir_entry *cat_dir(const struct cat_view *v, uint64_t k)
{
	return (const struct cat_dir_entry *)cat_need(v, CAT_NDIR, k * sizeof(struct cat_dir_entry),
						      sizeof(struct cat_dir_entry));
}

#endif
