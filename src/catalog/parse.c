#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <xxhash.h>

#include "base/tasks.h"
#include "catalog/catalog_format.h"
#include "catalog/digest.h"

const char *const cat_section_names[CAT_NR_SECTIONS] = {
	"ROOT", "NAME", "NDIR", "DICT", "DTAB", "SZRN", "SZBK", "SZDT", "SMRN", "SMBK",
	"SMDT", "LIST", "ETGS", "XHDR", "XNRN", "XNBK", "XNDT", "XSRN", "XSBK", "XSDT",
	"XGRN", "XGBK", "XGDT", "XLRN", "XLBK", "XLDT", "XRRN", "XRBK", "XRDT",
};

void cat_note_damage(const struct cat_view *v, enum cat_section_id id, uint64_t off,
		     const char *what)
{
	uint64_t none = 0;

	off = u64_min(off,
		      UINT64_MAX / CAT_NR_SECTIONS - 1); /* an offset far outside stays outside */
	if (v->damage && atomic_compare_exchange_strong(&v->damage->where, &none,
							1 + id + CAT_NR_SECTIONS * off))
		atomic_store(&v->damage->what, what);
}

bool cat_check_pages(const struct cat_view *v, const struct cat_section *sec, uint64_t off,
		     uint64_t len)
{
	uint64_t page = off >> CAT_PAGE_SHIFT;
	uint64_t last = (off + len - 1) >> CAT_PAGE_SHIFT;

	for (; page <= last; page++) {
		uint64_t start = page << CAT_PAGE_SHIFT;
		uint64_t bit = sec->first_page + page;

		if (!cat_sum_matches(sec->addr + start, u64_min(CAT_PAGE, sec->len - start),
				     le64_load(v->sums + 8 * bit))) {
			(void)cat_damaged(v, (enum cat_section_id)(sec - v->sec), start,
					  "checksum does not match");
			return false;
		}
		if (v->checked)
			atomic_fetch_or(&v->checked[bit >> 6], UINT64_C(1) << (bit & 63));
	}
	return true;
}

static int section_number(const uint8_t id[4])
{
	for (int i = 0; i < CAT_NR_SECTIONS; i++)
		if (memcmp(id, cat_section_names[i], 4) == 0)
			return i;
	return -1;
}

/* Check that the page of section @e at @off matches sum number @page; report the damage if not. */
static int cat_check_page(const struct cat_view *v, const struct cat_table_entry *e, uint64_t off,
			  uint64_t page, struct shoal_err *err)
{
	uint64_t at = le64_get(e->off) + off, len = le64_get(e->len) - off;
	int known = section_number(e->id);

	if (cat_sum_matches((const uint8_t *)v->header + at, u64_min(CAT_PAGE, len),
			    le64_load(v->sums + 8 * page)))
		return 0;
	if (known >= 0)
		cat_note_damage(v, (enum cat_section_id)known, off, "checksum does not match");
	return err_set(err, -EBADMSG,
		       "damaged catalog: section %.4s, offset %" PRIu64 " (byte %" PRIu64
		       " of the file): checksum does not match",
		       (const char *)e->id, off, at);
}

static bool is_inside(const struct cat_view *v, uint64_t off, uint64_t len)
{
	return off <= v->file_len && len <= v->file_len - off;
}

/* The table was valid when the catalog was opened; it is read again here. */
static int table_changed(struct shoal_err *err)
{
	return err_set(err, -EBADMSG,
		       "damaged catalog: its section table was overwritten after it was "
		       "opened");
}

/* Pages that a thread checks at a time: 4 MB. */
#define CHECK_PAGES 256u

/* The pages from @first up to @end of all that sections have. */
static int check_pages(const struct cat_view *v, uint64_t first, uint64_t end,
		       struct shoal_err *err)
{
	const struct cat_table_entry *table = (const struct cat_table_entry *)(v->header + 1);
	uint32_t nr = le32_get(v->header->nr_sections);
	uint64_t page = 0;

	for (uint32_t i = 0; i < nr && page < end; i++) {
		uint64_t pages, from;
		struct cat_table_entry e;

		if (!is_inside(v, sizeof(*v->header) + i * sizeof(e), sizeof(e)))
			return table_changed(err);
		e = table[i]; /* a copy, so that the value checked is the value used */
		if (!is_inside(v, le64_get(e.off), le64_get(e.len)))
			return table_changed(err);
		pages = u64_divide_up(le64_get(e.len), CAT_PAGE);
		if (pages > v->nr_pages - page)
			return table_changed(err);
		from = first > page ? first - page : 0;
		for (uint64_t at = from; at < u64_min(pages, end - page); at++) {
			int rc = cat_check_page(v, &e, at * CAT_PAGE, page + at, err);

			if (rc < 0)
				return rc;
		}
		page += pages;
	}
	return 0;
}

static int check_some_pages(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	const struct cat_view *v = self;

	(void)thread;
	return check_pages(v, k * CHECK_PAGES, u64_min((k + 1) * CHECK_PAGES, v->nr_pages), err);
}

int cat_check_all(const struct cat_view *v, struct shoal_err *err)
{
	struct cat_view view = *v;
	struct tasks t = { .nr = u64_divide_up(v->nr_pages, CHECK_PAGES),
			   .run = check_some_pages,
			   .self = &view };

	return tasks_run(&t, err);
}

static const struct cat_file_kind catalogs = { .magic = CAT_MAGIC,
					       .what = "catalog",
					       .format = "format",
					       .version = CAT_VERSION,
					       .known = CAT_INCOMPAT_KNOWN };

int cat_peek(const void *head, size_t len, uint64_t file_len, uint64_t *ret_nr_files)
{
	const struct cat_header *h = head;
	size_t magic = u64_min(len, sizeof(h->magic));

	*ret_nr_files = 0;
	if (memcmp(head, CAT_MAGIC, magic) != 0 || (len > 0 && magic < sizeof(h->magic)))
		return -EINVAL;
	if (len >= sizeof(*h) && cat_check_identity(&catalogs, h, len, NULL) == 0 &&
	    le64_get(h->file_len) == file_len)
		*ret_nr_files = le64_get(h->nr_files);
	return 0;
}

static int check_header(const struct cat_header *h, size_t len, struct shoal_err *err)
{
	uint64_t table_len;
	int rc = cat_check_whole(&catalogs, h, len, err);

	if (rc < 0)
		return rc;
	table_len = (uint64_t)le32_get(h->nr_sections) * sizeof(struct cat_table_entry);
	if (le32_get(h->header_len) != sizeof(*h) || le32_get(h->page_shift) != CAT_PAGE_SHIFT ||
	    table_len > len - sizeof(*h))
		return err_set(err, -EBADMSG, "damaged catalog: invalid header fields");
	if (!cat_sum_matches(h + 1, table_len, le64_get(h->table_checksum)))
		return err_set(err, -EBADMSG,
			       "damaged catalog: section table checksum does not match");
	return 0;
}

/* Sections follow one another without gaps; unknown sections are skipped. */
static int parse_table(const struct cat_header *h, size_t len, struct cat_view *v,
		       struct shoal_err *err)
{
	const struct cat_table_entry *e = (const struct cat_table_entry *)(h + 1);
	uint32_t nr = le32_get(h->nr_sections);
	uint64_t at = sizeof(*h) + (uint64_t)nr * sizeof(*e);
	uint64_t pages = 0;

	for (uint32_t i = 0; i < nr; i++, e++) {
		uint64_t sec_len = le64_get(e->len);
		int k = section_number(e->id);

		if (le64_get(e->off) != at || sec_len > len - at)
			return err_set(err, -EBADMSG,
				       "damaged catalog: section %u of its table is misplaced", i);
		if (k >= 0 && v->sec[k].addr)
			return err_set(err, -EBADMSG, "damaged catalog: two sections %s",
				       cat_section_names[k]);
		if (k >= 0)
			v->sec[k] = (struct cat_section){ .addr = (const uint8_t *)h + at,
							  .len = sec_len,
							  .file_off = at,
							  .first_page = pages };
		at += sec_len;
		pages += (sec_len + CAT_PAGE - 1) >> CAT_PAGE_SHIFT;
	}
	if (le64_get(h->sums_off) != at || pages > (len - at) / 8 || pages * 8 != len - at)
		return err_set(err, -EBADMSG, "damaged catalog: page checksums are misplaced");
	v->sums = (const uint8_t *)h + at;
	v->nr_pages = pages;
	if (!cat_sum_matches(v->sums, pages * 8, le64_get(h->sums_checksum)))
		return err_set(
			err, -EBADMSG,
			"damaged catalog: the checksum of the page checksums at offset %" PRIu64
			" does not match",
			at);

	return 0;
}

/* One per file, or none at all, which is the same as no section. */
static bool cat_etags_consistent(const struct cat_view *v)
{
	uint64_t len = v->sec[CAT_ETGS].len;

	return len == 0 ||
	       (len % sizeof(struct etag) == 0 && len / sizeof(struct etag) == v->nr_files);
}

static bool cat_counts_consistent(const struct cat_view *v)
{
	const struct cat_section *sec = v->sec;
	bool has_files = v->nr_files > 0;

	if (sec[CAT_NDIR].len % sizeof(struct cat_dir_entry) ||
	    sec[CAT_DTAB].len % sizeof(struct cat_dict_entry) ||
	    sec[CAT_SZRN].len % sizeof(struct cat_run) ||
	    sec[CAT_SMRN].len % sizeof(struct cat_run) ||
	    sec[CAT_SZBK].len % sizeof(struct cat_block) ||
	    sec[CAT_SMBK].len % sizeof(struct cat_block))
		return false;
	if (v->nr_segments > v->nr_files || (v->nr_segments > 0) != has_files)
		return false;
	if (!has_files &&
	    (v->nr_samples > 0 || (v->nr_bytes > 0 && v->nr_bytes != SHOAL_SIZE_UNKNOWN)))
		return false;
	if (has_files && (sec[CAT_SMRN].len > 0) != (v->samples_per_file == 0))
		return false;
	if (v->samples_per_file && (v->nr_files > UINT64_MAX / v->samples_per_file ||
				    v->nr_samples != v->nr_files * v->samples_per_file))
		return false;
	return !has_files || (sec[CAT_SZRN].len > 0) == (v->nr_bytes != SHOAL_SIZE_UNKNOWN);
}

/* Samples inside files. A damaged XHDR would make all extents wrong, so it is read at once. */
static bool cat_parse_extents(struct cat_view *v, bool announced)
{
	const struct cat_section *sec = v->sec;
	const struct cat_extents_header *h;

	if (announced != (sec[CAT_XHDR].len > 0))
		return false;
	if (!announced)
		return true;
	if (sec[CAT_XHDR].len < sizeof(*h) || sec[CAT_XHDR].len % sizeof(*h))
		return false;
	h = (const struct cat_extents_header *)cat_need(v, CAT_XHDR, 0, sec[CAT_XHDR].len);
	if (!h)
		return false;
	v->extents = true;
	v->nr_extents = le64_get(h->nr_extents);
	v->longest = le64_get(h->longest);
	for (int s = CAT_XNRN; s <= CAT_XRRN; s += 3) {
		bool some = s < CAT_XGRN ? v->nr_files > 0 : v->nr_extents > 0;

		if (sec[s].len % sizeof(struct cat_run) ||
		    sec[s + 1].len % sizeof(struct cat_block) || (sec[s].len > 0) != some)
			return false;
	}
	return v->nr_bytes != SHOAL_SIZE_UNKNOWN && v->nr_extents <= v->nr_samples;
}

/* The largest size in the header, if it has one: some catalogs are older than that field. */
static uint64_t header_largest(const struct cat_header *h)
{
	if (!(le32_get(h->compat) & CAT_COMPAT_LARGEST) ||
	    le64_get(h->nr_bytes) == SHOAL_SIZE_UNKNOWN)
		return SHOAL_SIZE_UNKNOWN;
	return le64_get(h->largest);
}

/*
 * No size exceeds the sum of all sizes, and the largest times the number of files is at least the
 * sum.
 */
static bool cat_largest_consistent(const struct cat_view *v)
{
	if (v->largest == SHOAL_SIZE_UNKNOWN)
		return true;
	return v->largest <= v->nr_bytes &&
	       (unsigned __int128)v->largest * v->nr_files >= v->nr_bytes;
}

int cat_parse(const void *buf, size_t len, struct cat_view *ret_view, struct shoal_err *err)
{
	const struct cat_header *h = buf;
	struct cat_view v = { 0 };
	int rc;

	rc = check_header(h, len, err);
	if (rc < 0)
		return rc;
	rc = parse_table(h, len, &v, err);
	if (rc < 0)
		return rc;

	v.file_len = len;
	v.header = h;
	v.nr_files = le64_get(h->nr_files);
	v.nr_samples = le64_get(h->nr_samples);
	v.nr_bytes = le64_get(h->nr_bytes);
	v.largest = header_largest(h);
	v.samples_per_file = le64_get(h->samples_per_file);
	v.key_skip = le32_get(h->key_skip);
	v.nr_segments = v.sec[CAT_NDIR].len / sizeof(struct cat_dir_entry);
	for (int i = 0; i < 2; i++) {
		v.lane[i] = le64_get(h->lane[i]);
		v.digest[i] = le64_get(h->digest[i]);
	}
	v.etags = v.sec[CAT_ETGS].addr && (v.sec[CAT_ETGS].len > 0 || v.nr_files == 0);
	v.sparse = (le32_get(h->incompat) & CAT_INCOMPAT_SPARSE) != 0;
	if (!cat_counts_consistent(&v) || !cat_largest_consistent(&v) ||
	    !cat_etags_consistent(&v) ||
	    (v.sparse && !(le32_get(h->incompat) & CAT_INCOMPAT_EXTENTS)) ||
	    !cat_parse_extents(&v, (le32_get(h->incompat) & CAT_INCOMPAT_EXTENTS) != 0))
		return err_set(err, -EBADMSG, "damaged catalog: inconsistent counts");

	if (v.key_skip > SHOAL_NAME_MAX)
		return err_set(err, -EBADMSG,
			       "damaged catalog: invalid key skip of %" PRIu32 " bytes",
			       v.key_skip);
	if (v.sec[CAT_ROOT].len == 0 || v.sec[CAT_ROOT].len > CAT_ROOT_MAX)
		return err_set(err, -EBADMSG, "damaged catalog: the root is missing or too long");
	*ret_view = v;
	return 0;
}
