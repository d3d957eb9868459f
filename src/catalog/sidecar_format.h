/*
 * sidecar_format.h - the bytes of a sidecar column file, as specified in docs/format/column.md, and
 * the checked view of them. Private to the folder and its tests.
 */
#ifndef SHOAL_CATALOG_SIDECAR_FORMAT_H
#define SHOAL_CATALOG_SIDECAR_FORMAT_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/le.h"
#include "base/map.h"
#include "catalog/identity.h"

#define SIDE_MAGIC          "\211SHCOL\r\n"
#define SIDE_VERSION        1u
#define SIDE_INCOMPAT_KNOWN 0u
#define SIDE_PAGE_SHIFT     14
#define SIDE_PAGE           (1u << SIDE_PAGE_SHIFT)
#define SIDE_NAME_MAX       63u
#define SIDE_SAMPLES_MAX    (UINT64_C(1) << 48)
#define SIDE_NO_ORDER       UINT64_MAX
#define SIDE_RANK_VALUES    4096u /* values of type bit between two ranks */

struct side_header {
	uint8_t magic[8];
	struct le32 version;
	struct le32 header_len;
	struct le32 incompat;
	struct le32 compat;
	struct le64 file_len;
	struct le64 first;
	struct le64 nr;
	struct le64 nr_samples;
	struct le32 type;
	struct le32 page_shift;
	struct le64 digest[2];
	struct le64 nr_order;
	struct le64 min_key, max_key;
	struct le64 nr_ones;
	struct le64 sums_checksum;
	struct le32 name_len;
	uint8_t name[SIDE_NAME_MAX + 1];
	struct le64 keep_hash[2];
	uint8_t reserved[44];
	struct le64 header_checksum;
};
_Static_assert(sizeof(struct side_header) == CAT_HEADER_BYTES, "a column's header is 256 bytes");

/* The offsets of the parts. All of them follow from type, nr, nr_samples and nr_order. */
struct side_layout {
	uint64_t values_len; /* bytes, without padding */
	uint64_t ranks_off, nr_ranks;
	uint64_t order_off;
	unsigned order_width; /* bytes per entry */
	uint64_t sums_off, nr_pages;
	uint64_t file_len;
};

/* A checked image; it borrows the buffer that it was parsed from. */
struct side_view {
	const uint8_t *base;
	struct side_layout at;
	enum shoal_column_type type;
	uint64_t first, nr, nr_samples, nr_order, nr_ones;
	uint64_t min_key, max_key;
	uint64_t digest[2], keep_hash[2];
	/*
	 * One bit per page of 16 KiB: its sum has matched. If NULL, pages are checked at each use.
	 */
	_Atomic uint64_t *checked;
	char name[SIDE_NAME_MAX + 1];
};

struct shoal_column {
	struct map map;
	struct side_view view; /* points into map */
	uint64_t last_sum;     /* the file's last eight bytes at the time of opening */
};

/* Bits per value; 0 for an unknown type. */
unsigned side_type_bits(enum shoal_column_type type);

/* nr and nr_samples are at most SIDE_SAMPLES_MAX, nr_order at most nr or SIDE_NO_ORDER. */
struct side_layout side_layout(enum shoal_column_type type, uint64_t nr, uint64_t nr_samples,
			       uint64_t nr_order);

/*
 * The trust boundary, together with side_need(): pure. -EBADMSG damaged, truncated or not a column;
 * -EPROTONOSUPPORT newer.
 */
int side_parse(const void *buf, size_t len, struct side_view *ret_view,
	       struct shoal_err *err) MUST_USE;

/* The @len bytes at @off of the file, between header and sums, with matching sums; or NULL. */
const uint8_t *side_need(const struct side_view *v, uint64_t off, uint64_t len) MUST_USE;

/* The key of value @i (counted from the part's first) in an array of native values. */
uint64_t side_key(enum shoal_column_type type, const void *values, uint64_t i);

/* The key of value @i of the view. */
int side_key_at(const struct side_view *v, uint64_t i, uint64_t *ret_key) MUST_USE;

/* Fill in the header's own checksum. */
void side_header_seal(struct side_header *h);

#endif
