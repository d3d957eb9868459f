#include "catalog/catalog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "catalog/column.h"
#include "catalog/digest.h"
#include "catalog/recent.h"
#include "catalog/writer.h"

/* Copy the root out with a final NUL, so that callers get an ordinary string. */
static int copy_root(struct shoal_catalog *cat, struct shoal_err *err)
{
	const struct cat_section *sec = &cat->view.sec[CAT_ROOT];
	const uint8_t *bytes = cat_need(&cat->view, CAT_ROOT, 0, sec->len);

	if (!bytes)
		return shoal_catalog_explain(cat, -EBADMSG, err);
	if (!is_plain_utf8((const char *)bytes, (size_t)sec->len))
		return err_set(err, -EBADMSG, "damaged catalog: section ROOT is not plain text");
	memcpy(cat->root, bytes, (size_t)sec->len);
	return 0;
}

static int catalog_init(struct shoal_catalog *cat, struct shoal_err *err)
{
	struct cat_view *v = &cat->view;
	int rc;

	rc = cat_parse(cat->map.addr, cat->map.len, v, err);
	if (map_faulted(&cat->map))
		return err_set(err, -ESTALE, "the file shrank while it was opened");
	if (rc < 0)
		return rc;
	cat->last_sum = cat_last_sum(v);
	v->damage = &cat->damage;
	v->checked = calloc(v->nr_pages / 64 + 1, sizeof(*v->checked));
	cat->dicts = cat_dicts_new(v);
	if (!v->checked || !cat->dicts)
		return err_set(err, -ENOMEM, "out of memory");
	return copy_root(cat, err);
}

/* Take over @map and make a catalog from it. */
static int open_map(struct map *map, struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	struct shoal_catalog *cat = calloc(1, sizeof(*cat));
	int rc;

	if (!cat) {
		map_close(map);
		return err_set(err, -ENOMEM, "out of memory");
	}
	cat->map = *map;
	rc = catalog_init(cat, err);
	if (rc < 0) {
		shoal_catalog_close(cat);
		return rc;
	}
	*ret_cat = cat;
	return 0;
}

int catalog_open_file(const char *path, struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	struct map map = MAP_CLOSED;
	int rc = map_open(path, &map, err);

	return rc < 0 ? rc : open_map(&map, ret_cat, err);
}

int catalog_open_fd(int fd, struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	struct map map = MAP_CLOSED;
	int rc = map_open_fd(fd, &map, err);

	return rc < 0 ? rc : open_map(&map, ret_cat, err);
}

int catalog_listing(const struct shoal_catalog *cat, const char **ret_text, size_t *ret_len)
{
	const struct cat_section *sec = &cat->view.sec[CAT_LIST];
	const uint8_t *bytes;

	*ret_text = "";
	*ret_len = 0;
	if (sec->len == 0)
		return 0;
	bytes = sec->len > CAT_LISTING_MAX ? NULL : cat_need(&cat->view, CAT_LIST, 0, sec->len);
	if (!bytes)
		return -EBADMSG;
	*ret_text = (const char *)bytes;
	*ret_len = (size_t)sec->len;
	return 0;
}

struct shoal_catalog *shoal_catalog_close(struct shoal_catalog *cat)
{
	if (!cat)
		return NULL;
	cat_dicts_free(cat->dicts);
	free(cat->view.checked);
	map_close(&cat->map);
	free(cat->copy);
	free(cat);
	return NULL;
}

/* The bytes that a section takes in the file, with its page sums. */
static uint64_t with_sums(const struct cat_section *sec)
{
	return sec->len + 8 * ((sec->len + CAT_PAGE - 1) / CAT_PAGE);
}

void shoal_catalog_info(const struct shoal_catalog *cat, struct shoal_catalog_info *ret_info)
{
	const struct cat_view *v = &cat->view;
	uint64_t size_bytes = 0, extent_bytes = 0;

	for (int s = CAT_SZRN; s <= CAT_SZDT; s++)
		size_bytes += with_sums(&v->sec[s]);
	for (int s = CAT_XHDR; s <= CAT_XRDT; s++)
		extent_bytes += with_sums(&v->sec[s]);
	*ret_info = (struct shoal_catalog_info){
		.root = cat->root,
		.nr_files = v->nr_files,
		.nr_samples = v->nr_samples,
		.samples_per_file = v->samples_per_file,
		.nr_bytes = v->nr_bytes,
		.file_bytes = v->file_len,
		.size_bytes = size_bytes,
		.etags = v->etags,
		.etag_bytes = with_sums(&v->sec[CAT_ETGS]),
		.extents = v->extents,
		.nr_extents = v->nr_extents,
		.longest = v->longest,
		.extent_bytes = extent_bytes,
		.nr_segments = v->nr_segments,
		.version = CAT_VERSION,
	};
	cat_digest_print(v->digest, ret_info->digest);
}

/* Every lookup ends here: if the file shrank under the map, that explains any other error. */
static int catalog_finish(const struct shoal_catalog *cat, int rc)
{
	return cat_is_stale(cat) ? -ESTALE : rc;
}

/* Parse the segment of @id, whose shape @ret is left with. */
static int recent_load(const struct shoal_catalog *cat, uint64_t id, struct cat_recent *ret)
{
	uint64_t number;
	int rc = cat_segment_of_id(&cat->view, id, &number);

	ret->has_seg = false;
	if (rc == 0)
		rc = cat_segment_load(&cat->view, cat->dicts, number, &ret->seg);
	if (rc == 0 && (id < ret->seg.first_id || id - ret->seg.first_id >= ret->seg.nr))
		rc = cat_damaged(&cat->view, CAT_NDIR, 0, "entries are not ascending");
	if (rc == 0)
		rc = cat_shape_parse(&ret->seg, &ret->shape);
	ret->has_seg = rc == 0;
	return rc;
}

int cat_recent_name(const struct shoal_catalog *cat, struct cat_recent *recent, uint64_t id,
		    char *buf)
{
	const struct cat_segment *seg = &recent->seg;
	int rc = 0;

	if (id >= cat->view.nr_files)
		return -ERANGE;
	if (!recent->has_seg || id - seg->first_id >= seg->nr)
		rc = recent_load(cat, id, recent);
	if (rc == 0)
		rc = cat_shape_name(seg, &recent->shape, id - seg->first_id, (uint8_t *)buf);
	if (rc >= 0)
		buf[rc] = '\0';
	return catalog_finish(cat, rc);
}

int shoal_catalog_name(const struct shoal_catalog *cat, uint64_t id, char *buf)
{
	struct cat_recent recent;

	recent.has_seg = false; /* the rest is large */
	return cat_recent_name(cat, &recent, id, buf);
}

int shoal_catalog_size(const struct shoal_catalog *cat, uint64_t id, uint64_t *ret_size)
{
	struct cat_column sizes = { .view = &cat->view,
				    .runs = CAT_SZRN,
				    .nr = cat->view.nr_files };
	uint64_t size;
	int rc;

	if (id >= cat->view.nr_files)
		return -ERANGE;
	if (cat->view.nr_bytes == SHOAL_SIZE_UNKNOWN) {
		*ret_size = SHOAL_SIZE_UNKNOWN;
		return 0;
	}
	rc = catalog_finish(cat, cat_column_get(&sizes, id, &size, NULL));
	if (rc == 0)
		*ret_size = size;
	return rc;
}

int catalog_etag_of(const struct shoal_catalog *cat, uint64_t id, struct etag *ret_etag)
{
	const uint8_t *bytes;
	struct etag etag = { .parts = le32_of(ETAG_NONE) };
	int rc = 0;

	if (id >= cat->view.nr_files)
		return -ERANGE;
	if (cat->view.etags) {
		bytes = cat_need(&cat->view, CAT_ETGS, id * sizeof(etag), sizeof(etag));
		if (bytes)
			memcpy(&etag, bytes, sizeof(etag));
		rc = catalog_finish(cat, bytes ? 0 : -EBADMSG);
	}
	if (rc == 0)
		*ret_etag = etag;
	return rc;
}

int shoal_catalog_etag(const struct shoal_catalog *cat, uint64_t id, char *buf)
{
	struct etag etag;
	int rc = catalog_etag_of(cat, id, &etag);

	return rc < 0 ? rc : (int)etag_print(&etag, buf);
}

int shoal_catalog_largest(const struct shoal_catalog *cat, uint64_t *ret_size)
{
	struct cat_column sizes = { .view = &cat->view,
				    .runs = CAT_SZRN,
				    .nr = cat->view.nr_files };
	uint64_t size = cat->view.largest;
	int rc = 0;

	if (size == SHOAL_SIZE_UNKNOWN && cat->view.nr_bytes != SHOAL_SIZE_UNKNOWN)
		rc = catalog_finish(cat, cat_column_largest(&sizes, &size));
	if (rc == 0)
		*ret_size = size;
	return rc;
}

int shoal_catalog_find(const struct shoal_catalog *cat, const char *name, size_t len,
		       uint64_t *ret_id)
{
	const uint8_t *bytes = (const uint8_t *)name;
	struct cat_segment seg;
	uint64_t number, i;
	int rc;

	if (len == 0 || len > SHOAL_NAME_MAX)
		return -ENOENT;
	rc = cat_segment_of_name(&cat->view, bytes, len, &number);
	if (rc == 0)
		rc = cat_segment_load(&cat->view, cat->dicts, number, &seg);
	if (rc == 0)
		rc = cat_segment_find(&seg, bytes, len, &i);
	rc = catalog_finish(cat, rc);
	if (rc == 0)
		*ret_id = seg.first_id + i;
	return rc;
}

/* The first name of the segment that does not sort before @name. */
static int lower_bound_in(const struct cat_segment *seg, const uint8_t *name, size_t len,
			  uint64_t *ret_i)
{
	uint64_t low = 0, high = seg->nr;
	uint8_t buf[SHOAL_NAME_MAX + 1];

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		int n = cat_segment_name(seg, mid, buf);

		if (n < 0)
			return n;
		if (name_compare(buf, (size_t)n, name, len) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_i = low;
	return 0;
}

int shoal_catalog_lower_bound(const struct shoal_catalog *cat, const char *name, size_t len,
			      uint64_t *ret_id)
{
	const uint8_t *bytes = (const uint8_t *)name;
	struct cat_segment seg;
	uint64_t number, i;
	int rc;

	rc = cat_segment_of_name(&cat->view, bytes, len, &number);
	if (rc == -ENOENT) {
		*ret_id = 0;
		return 0;
	}
	if (rc == 0)
		rc = cat_segment_load(&cat->view, cat->dicts, number, &seg);
	if (rc == 0)
		rc = lower_bound_in(&seg, bytes, len, &i);
	rc = catalog_finish(cat, rc);
	if (rc == 0)
		*ret_id = seg.first_id + i;
	return rc;
}

int shoal_catalog_locate(const struct shoal_catalog *cat, uint64_t sample, uint64_t *ret_file,
			 uint64_t *ret_index)
{
	struct cat_column counts = { .view = &cat->view,
				     .runs = CAT_SMRN,
				     .nr = cat->view.nr_files };
	uint64_t per_file = cat->view.samples_per_file, file, before;
	int rc;

	if (sample >= cat->view.nr_samples)
		return -ERANGE;
	if (per_file) {
		*ret_file = sample / per_file;
		*ret_index = sample % per_file;
		return 0;
	}
	rc = catalog_finish(cat, cat_column_find_sum(&counts, sample, &file, &before));
	if (rc == 0) {
		*ret_file = file;
		*ret_index = sample - before;
	}
	return rc;
}

int shoal_catalog_samples(const struct shoal_catalog *cat, uint64_t id, uint64_t *ret_first,
			  uint64_t *ret_count)
{
	struct cat_column counts = { .view = &cat->view,
				     .runs = CAT_SMRN,
				     .nr = cat->view.nr_files };
	uint64_t first, count;
	int rc;

	if (id > cat->view.nr_files)
		return -ERANGE;
	if (id == cat->view.nr_files) {
		*ret_first = cat->view.nr_samples;
		*ret_count = 0;
		return 0;
	}
	if (cat->view.samples_per_file) {
		*ret_first = id * cat->view.samples_per_file;
		*ret_count = cat->view.samples_per_file;
		return 0;
	}
	rc = catalog_finish(cat, cat_column_get(&counts, id, &count, &first));
	if (rc == 0) {
		*ret_first = first;
		*ret_count = count;
	}
	return rc;
}

int shoal_catalog_check_fresh(const struct shoal_catalog *cat, struct shoal_err *err)
{
	return cat_is_stale(cat) ? shoal_catalog_explain(cat, -ESTALE, err)
				 : map_check(&cat->map, err);
}

void catalog_set_copy(struct shoal_catalog *cat, const char *path)
{
	free(cat->copy);
	cat->copy = strdup(path); /* without memory, messages name the original */
}

/* Turn a message about a damaged catalog into one about a damaged copy. */
int cat_explain_copy(const struct shoal_catalog *cat, int rc, struct shoal_err *err)
{
	const struct timespec mark[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = 1 } };
	bool marked = futimens(cat->map.fd, mark) == 0;
	struct shoal_err why;

	if (!err)
		return rc;
	why = *err;
	return err_set_as(err, rc, &why, "its local copy '%.300s' is a %.200s; %s", cat->copy,
			  why.msg,
			  marked ? "it is replaced when it is next opened"
				 : "remove it to have it made again");
}

int shoal_catalog_explain(const struct shoal_catalog *cat, int rc, struct shoal_err *err)
{
	uint64_t where = atomic_load(&cat->damage.where);
	const char *what = atomic_load(&cat->damage.what);
	const struct cat_section *sec;
	uint64_t off;

	if (rc == -ESTALE)
		return err_set(err, rc,
			       "the file shrank, or can no longer be read, while it was in use");
	if (rc == -ERANGE)
		return err_set(err, rc, "past the end: the catalog has %" PRIu64 " file%s",
			       cat->view.nr_files, plural(cat->view.nr_files));
	if (rc == -ENOENT)
		return err_set(err, rc, "no such name");
	if (rc == -EILSEQ)
		return err_set(err, -EBADMSG, "damaged catalog: a name contains a NUL byte");
	if (rc != -EBADMSG || !where)
		return err_set_errno(err, rc, "cannot read it");
	sec = &cat->view.sec[(where - 1) % CAT_NR_SECTIONS];
	off = (where - 1) / CAT_NR_SECTIONS;
	err_describe(err,
		     "damaged catalog: section %s, offset %" PRIu64 " (byte %" PRIu64
		     " of the file): %s",
		     cat_section_names[(where - 1) % CAT_NR_SECTIONS], off, sec->file_off + off,
		     what ? what : "is invalid");
	return cat->copy ? cat_explain_copy(cat, rc, err) : rc;
}
