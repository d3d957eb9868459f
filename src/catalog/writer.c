#include "catalog/writer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/out.h"
#include "base/publish.h"
#include "base/text.h"
#include "catalog/writer_private.h"

/* ---- Output of the encoder ---- */

int writer_note_segment(struct shoal_writer *w, uint64_t nr, uint64_t off, const uint8_t *first,
			size_t first_len)
{
	struct {
		uint64_t first_id, off, len;
	} note = { w->nr_put, off, first_len };
	int rc;

	rc = cat_stream_write(&w->notes, &note, sizeof(note), w->err);
	if (rc == 0)
		rc = cat_stream_write(&w->notes, first, first_len, w->err);
	if (w->nr_segments == 0) {
		memcpy(w->first, first, first_len);
		w->first_len = first_len;
	}
	memcpy(w->last, first, first_len);
	w->last_len = first_len;
	w->nr_segments++;
	w->nr_put += nr;
	return rc;
}

static int take_segment(void *self, const struct buf *payload, uint64_t nr, const uint8_t *first,
			size_t first_len)
{
	struct shoal_writer *w = self;
	int rc = writer_note_segment(w, nr, w->stream[CAT_NAME].len, first, first_len);

	if (rc < 0)
		return rc;
	return cat_stream_write(&w->stream[CAT_NAME], payload->data, payload->len, w->err);
}

int writer_put_dictionary(struct shoal_writer *w, uint64_t segment, uint64_t off, uint64_t len)
{
	struct cat_dict_entry e = { .first_segment = le64_of(segment),
				    .off = le64_of(off),
				    .len = le64_of(len) };

	return cat_stream_write(&w->stream[CAT_DTAB], &e, sizeof(e), w->err);
}

static int take_dictionary(void *self, const void *dict, size_t len)
{
	struct shoal_writer *w = self;
	int rc = writer_put_dictionary(w, w->nr_segments, w->stream[CAT_DICT].len, len);

	w->dict_of = NULL;
	if (rc < 0)
		return rc;
	return cat_stream_write(&w->stream[CAT_DICT], dict, len, w->err);
}

/* ---- Opening and aborting ---- */

static int writer_check_options(const struct shoal_writer_options *o, struct shoal_err *err)
{
	size_t len = o->root ? strlen(o->root) : 0;

	if (len == 0 || len > CAT_ROOT_MAX || !is_plain_utf8(o->root, len))
		return err_set(err, -EINVAL, "the root URI must be 1 to %u bytes of UTF-8",
			       CAT_ROOT_MAX);
	if (o->extents && !o->sizes)
		return err_set(err, -EINVAL, "extents of samples need the sizes of files");
	if (o->listing && strlen(o->listing) > CAT_LISTING_MAX)
		return err_set(err, -EINVAL, "the listing metadata has more than %u bytes",
			       CAT_LISTING_MAX);
	return 0;
}

/* Whether section @s is in the file. */
static bool has_section(const struct shoal_writer *w, int s)
{
	if (s >= CAT_XHDR)
		return w->extents;
	return s == CAT_LIST ? w->listing != NULL : s == CAT_ETGS ? w->etags : true;
}

static int init_streams(struct shoal_writer *w, size_t root_len)
{
	uint64_t head;
	int rc = 0;

	for (int s = 0; s < CAT_NR_SECTIONS; s++)
		w->nr_sections += has_section(w, s);
	head = sizeof(struct cat_header) + w->nr_sections * sizeof(struct cat_table_entry);
	for (int s = 0; s < CAT_NR_SECTIONS && rc == 0; s++) {
		if (s == CAT_NAME)
			rc = cat_stream_init(&w->stream[s], NULL, w->pub.fd, head + root_len);
		else if (has_section(w, s))
			rc = cat_stream_init(&w->stream[s], w->tmp_dir, -1, 0);
	}
	return rc < 0 ? rc : cat_stream_init(&w->notes, w->tmp_dir, -1, 0);
}

static int writer_init(struct shoal_writer *w, const char *path,
		       const struct shoal_writer_options *o, struct shoal_err *err)
{
	struct enc_sink sink = { .segment = take_segment,
				 .dictionary = take_dictionary,
				 .self = w };
	size_t root_len = strlen(o->root);
	int rc;

	rc = path ? publish_open(path, &w->pub, err) : publish_nameless(o->tmp_dir, &w->pub, err);
	if (rc < 0)
		return rc;
	w->tmp_dir = o->tmp_dir ? strdup(o->tmp_dir) : path_dir(w->pub.path);
	w->listing = o->listing ? strdup(o->listing) : NULL;
	rc = w->tmp_dir && (w->listing || !o->listing) ? cat_encoder_init(&w->encoder, &sink)
						       : -ENOMEM;
	if (rc == 0)
		rc = init_streams(w, root_len);
	if (rc < 0)
		return err_set(err, rc, "out of memory");
	cat_column_writer_init(&w->size_column, &w->stream[CAT_SZRN], &w->stream[CAT_SZBK],
			       &w->stream[CAT_SZDT]);
	cat_column_writer_init(&w->sample_column, &w->stream[CAT_SMRN], &w->stream[CAT_SMBK],
			       &w->stream[CAT_SMDT]);
	if (w->extents)
		cat_extents_writer_init(&w->extents_writer, &w->stream[CAT_XHDR]);
	return cat_stream_write(&w->stream[CAT_ROOT], o->root, root_len, err);
}

int shoal_writer_open(const char *path, const struct shoal_writer_options *options,
		      struct shoal_writer **ret_writer, struct shoal_err *err)
{
	struct shoal_writer *w;
	int rc = writer_check_options(options, err);

	if (rc < 0)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->pub = PUBLISH_CLOSED;
	w->sizes = options->sizes;
	w->etags = options->etags;
	w->extents = options->extents;
	w->samples_per_file = options->samples_per_file;
	rc = writer_init(w, path, options, err);
	if (rc < 0) {
		shoal_writer_abort(w);
		return rc;
	}
	*ret_writer = w;
	return 0;
}

struct shoal_writer *shoal_writer_abort(struct shoal_writer *writer)
{
	if (!writer)
		return NULL;
	for (int s = 0; s < CAT_NR_SECTIONS; s++)
		cat_stream_release(&writer->stream[s]);
	cat_stream_release(&writer->notes);
	cat_encoder_release(&writer->encoder);
	publish_abort(&writer->pub);
	free(writer->tmp_dir);
	free(writer->listing);
	free(writer);
	return NULL;
}

/* ---- Adding ---- */

int writer_check_name(const struct shoal_writer *w, const char *name, size_t len,
		      struct shoal_err *err)
{
	const uint8_t *last;
	size_t last_len;

	if (len == 0 || len > SHOAL_NAME_MAX)
		return err_set(err, -EINVAL, "a name has %zu bytes, but must have 1 to %d", len,
			       SHOAL_NAME_MAX);
	if (memchr(name, 0, len))
		return err_set(err, -EINVAL, "a name contains a NUL byte");
	last = cat_encoder_last(&w->encoder, &last_len);
	if (last_len > 0 && name_compare(last, last_len, name, len) >= 0)
		return err_set(err, -EINVAL,
			       "'%.*s' does not come after '%.*s': names must be in ascending "
			       "order",
			       (int)u64_min(len, 200), name, (int)u64_min(last_len, 200),
			       (const char *)last);
	return 0;
}

int writer_explain(int rc, struct shoal_err *err)
{
	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory");
	if (rc == -EAGAIN || rc == -EINVAL)
		return err_set(err, rc,
			       "the encoder cannot store these names; please report this as a "
			       "bug");
	return rc;
}

int writer_check_usable(const struct shoal_writer *w, struct shoal_err *err)
{
	return w->rc < 0 ? err_set_errno(err, w->rc, "an earlier name could not be added") : 0;
}

/* Add the sizes and samples of @nr files. */
static int add_columns(struct shoal_writer *w, uint64_t size, uint64_t samples, uint64_t nr,
		       struct shoal_err *err)
{
	unsigned __int128 total = w->nr_samples + (unsigned __int128)samples * nr;
	int rc = 0;

	if (total > UINT64_MAX)
		return err_set(err, -EOVERFLOW, "more than 2^64 samples");
	if (w->sizes)
		rc = cat_column_writer_add_many(&w->size_column, size, nr, err);
	if (rc == 0 && !w->samples_per_file)
		rc = cat_column_writer_add_many(&w->sample_column, samples, nr, err);
	w->nr_samples = (uint64_t)total;
	return rc;
}

static int writer_put_etag(struct shoal_writer *w, const struct etag *etag, struct shoal_err *err)
{
	static const struct etag none = { .parts = { { 0xff, 0xff, 0xff, 0xff } } };

	return cat_stream_write(&w->stream[CAT_ETGS], etag ? etag : &none, sizeof(none), err);
}

int writer_add_sorted(struct shoal_writer *writer, const char *name, size_t len, uint64_t size,
		      uint64_t samples, const struct etag *etag, struct shoal_err *err)
{
	int rc = writer_check_usable(writer, err);

	if (rc < 0)
		return rc;
	if (!writer->sizes)
		size = SHOAL_SIZE_UNKNOWN;
	if (writer->samples_per_file)
		samples = writer->samples_per_file;
	writer->err = err;
	rc = add_columns(writer, size, samples, 1, err);
	if (rc == 0 && writer->etags)
		rc = writer_put_etag(writer, etag, err);
	if (rc == 0 && writer->extents)
		rc = cat_extents_writer_add(&writer->extents_writer, writer->layout, size, samples,
					    err);
	writer->layout = NULL;
	if (rc == 0)
		rc = cat_encoder_add(&writer->encoder, (const uint8_t *)name, len);
	writer->rc = rc;
	return writer_explain(rc, err);
}

int writer_add_many_sorted(struct shoal_writer *w, const struct writer_name *names, size_t nr,
			   struct shoal_err *err)
{
	bool names_only = !w->sizes && !w->etags && !w->extents && w->samples_per_file;
	int rc = names_only ? writer_check_usable(w, err) : 0;

	for (size_t i = 0; rc == 0 && i < nr && !names_only; i++)
		rc = writer_add_sorted(w, (const char *)names[i].name, names[i].len, names[i].size,
				       names[i].samples, names[i].etag, err);
	if (rc < 0 || !names_only)
		return rc;
	w->err = err;
	rc = add_columns(w, SHOAL_SIZE_UNKNOWN, w->samples_per_file, nr, err);
	for (size_t i = 0; rc == 0 && i < nr; i++)
		rc = cat_encoder_add(&w->encoder, names[i].name, names[i].len);
	w->layout = NULL;
	w->rc = rc;
	return writer_explain(rc, err);
}

int writer_cut(struct shoal_writer *w, struct shoal_err *err)
{
	int rc = writer_check_usable(w, err);

	if (rc < 0)
		return rc;
	w->err = err;
	rc = cat_encoder_restart(&w->encoder);
	if (rc == 0)
		rc = cat_column_writer_cut(&w->size_column, err);
	if (rc == 0)
		rc = cat_column_writer_cut(&w->sample_column, err);
	w->dict_of = NULL;
	w->rc = rc;
	return writer_explain(rc, err);
}

void writer_set_part(struct shoal_writer *w)
{
	w->is_part = true;
}

void writer_set_layout(struct shoal_writer *w, const struct cat_layout *layout)
{
	w->layout = layout;
}

int writer_count_format(struct shoal_writer *w, const char *format, uint64_t nr_samples, bool uncut,
			struct shoal_err *err)
{
	w->extents_writer.nr_uncut += uncut;
	return cat_extents_writer_count(&w->extents_writer, format, 1, nr_samples, err);
}

struct cat_digester writer_digester(const struct shoal_writer *w)
{
	return (struct cat_digester){ .sizes = w->sizes, .samples_per_file = w->samples_per_file };
}

void writer_add_packed(struct shoal_writer *w, const struct cat_digester *d)
{
	cat_digest_append(&w->digest, &d->digest);
}

static int add_checked(struct shoal_writer *writer, const char *name, size_t len, uint64_t size,
		       uint64_t samples, const struct etag *etag, struct shoal_err *err)
{
	int rc = writer_check_usable(writer, err);

	if (rc == 0)
		rc = writer_check_name(writer, name, len, err);
	if (rc < 0)
		return rc;
	if (cat_digest_add(&writer->digest, name, len, writer->sizes ? size : SHOAL_SIZE_UNKNOWN,
			   writer->samples_per_file ? writer->samples_per_file : samples))
		rc = writer_cut(writer, err);
	return rc < 0 ? rc : writer_add_sorted(writer, name, len, size, samples, etag, err);
}

int shoal_writer_add(struct shoal_writer *writer, const char *name, size_t len, uint64_t size,
		     uint64_t samples, struct shoal_err *err)
{
	return add_checked(writer, name, len, size, samples, NULL, err);
}

int shoal_writer_add_object(struct shoal_writer *writer, const char *name, size_t len,
			    uint64_t size, uint64_t samples, const char *etag,
			    struct shoal_err *err)
{
	struct etag parsed = etag_parse(etag ? etag : "", etag ? strlen(etag) : 0);

	return add_checked(writer, name, len, size, samples, &parsed, err);
}

int writer_add_grid(struct shoal_writer *w, const struct cat_grid *g, const char *first, size_t len,
		    uint64_t size, uint64_t samples, const struct cat_grid_watch *watch,
		    struct shoal_err *err)
{
	uint8_t last[SHOAL_NAME_MAX];
	uint64_t nr = cat_grid_names(g);
	int rc = writer_check_usable(w, err);

	if (rc == 0)
		rc = writer_check_name(w, first, len, err);
	if (rc < 0)
		return rc;
	if (!w->sizes)
		size = SHOAL_SIZE_UNKNOWN;
	if (w->samples_per_file)
		samples = w->samples_per_file;
	assert(!w->etags && !w->extents); /* names that were never listed have none */
	rc = cat_digest_grid(&w->digest, g, first, len, size, samples, watch, err);
	memcpy(last, first, len);
	cat_grid_last(g, last);
	w->err = err;
	if (rc == 0)
		rc = add_columns(w, size, samples, nr, err);
	if (rc == 0)
		rc = cat_encoder_add_grid(&w->encoder, g, nr, (const uint8_t *)first, last, len);
	w->rc = rc;
	return writer_explain(rc, err);
}

/* ---- Sealing ---- */

/* Write the directory from the notes: the prefix shared by all first names is known only now. */
static int write_directory(struct shoal_writer *w, uint32_t *ret_skip, struct shoal_err *err)
{
	size_t skip = name_shared(w->first, w->first_len, w->last, w->last_len);
	uint64_t at = 0;
	int rc;

	rc = cat_stream_finish(&w->notes, err);
	for (uint64_t k = 0; k < w->nr_segments && rc == 0; k++) {
		uint64_t note[3];
		uint8_t name[SHOAL_NAME_MAX];
		struct cat_dir_entry e;

		rc = cat_stream_read(&w->notes, at, note, sizeof(note), err);
		if (rc == 0)
			rc = cat_stream_read(&w->notes, at + sizeof(note), name, (size_t)note[2],
					     err);
		if (rc < 0)
			return rc;
		at += sizeof(note) + note[2];
		assert(note[2] >= skip); /* names are ascending, so a prefix shared by the first and
					    the last is shared by all */
		e = (struct cat_dir_entry){ .first_id = le64_of(note[0]),
					    .off = le64_of(note[1]),
					    .key = le64_of(name_key(name, note[2], skip)) };
		rc = cat_stream_write(&w->stream[CAT_NDIR], &e, sizeof(e), err);
	}
	*ret_skip = (uint32_t)skip;
	return rc;
}

/* Write the sections one after the other, then the sums; fill in the table. */
static int place_sections(struct shoal_writer *w, struct cat_table_entry *table, struct buf *sums,
			  uint64_t *ret_end, struct shoal_err *err)
{
	uint64_t at = sizeof(struct cat_header) + w->nr_sections * sizeof(*table);
	int rc = 0;

	for (int s = 0; s < CAT_NR_SECTIONS && rc == 0; s++) {
		struct cat_stream *stream = &w->stream[s];

		if (!has_section(w, s))
			continue;
		rc = cat_stream_finish(stream, err);
		if (rc == 0 && s != CAT_NAME)
			rc = cat_stream_copy(stream, w->pub.fd, at, err);
		memcpy(table->id, cat_section_names[s], 4);
		table->reserved = le32_of(0);
		table->off = le64_of(at);
		table->len = le64_of(stream->len);
		table++;
		at += stream->len;
		if (stream->sums.len)
			buf_append(sums, stream->sums.data, stream->sums.len);
	}
	*ret_end = at;
	if (rc < 0)
		return rc;
	if (sums->rc < 0)
		return err_set(err, sums->rc, "out of memory");
	rc = pwrite_all(w->pub.fd, sums->data, sums->len, at);
	return rc < 0 ? err_set_errno(err, rc, "cannot write the catalog") : 0;
}

static void fill_header(const struct shoal_writer *w, struct cat_header *h)
{
	uint64_t digest[2];

	cat_digest_final(&w->digest, digest);
	memcpy(h->magic, CAT_MAGIC, sizeof(h->magic));
	h->version = le32_of(CAT_VERSION);
	h->header_len = le32_of(sizeof(*h));
	h->incompat = le32_of((w->extents ? CAT_INCOMPAT_EXTENTS : 0) |
			      (w->extents_writer.sparse ? CAT_INCOMPAT_SPARSE : 0));
	h->nr_files = le64_of(w->digest.nr_files);
	h->nr_samples = le64_of(w->nr_samples);
	h->nr_bytes = le64_of(w->sizes ? w->size_column.sum : SHOAL_SIZE_UNKNOWN);
	if (w->sizes) {
		h->compat = le32_of(CAT_COMPAT_LARGEST);
		h->largest = le64_of(w->size_column.largest);
	}
	h->samples_per_file = le64_of(w->samples_per_file);
	for (int i = 0; i < 2; i++) {
		h->lane[i] = le64_of(w->digest.lane[i]);
		h->digest[i] = le64_of(digest[i]);
	}
	h->nr_sections = le32_of(w->nr_sections);
	h->page_shift = le32_of(CAT_PAGE_SHIFT);
}

/* If all files turned out to have the same number of samples, store it in the header. */
static void settle_samples(struct shoal_writer *w)
{
	struct cat_column_writer *c = &w->sample_column;

	if (w->is_part || w->samples_per_file || c->id == 0 || c->varies || c->same == 0)
		return;
	w->samples_per_file = c->same;
	for (int s = CAT_SMRN; s <= CAT_SMDT; s++)
		cat_stream_reset(&w->stream[s]);
	cat_column_writer_init(c, c->runs, c->blocks, c->data);
}

static int writer_write_all(struct shoal_writer *w, struct buf *sums, struct shoal_err *err)
{
	struct {
		struct cat_header header;
		struct cat_table_entry table[CAT_NR_SECTIONS];
	} head = { 0 };
	uint32_t skip = 0;
	uint64_t end = 0;
	int rc;

	w->err = err;
	rc = writer_explain(cat_encoder_finish(&w->encoder), err);
	if (rc == 0 && w->listing)
		rc = cat_stream_write(&w->stream[CAT_LIST], w->listing, strlen(w->listing), err);
	settle_samples(w);
	if (rc == 0)
		rc = cat_column_writer_finish(&w->size_column, err);
	if (rc == 0)
		rc = cat_column_writer_finish(&w->sample_column, err);
	if (rc == 0 && w->extents)
		rc = cat_extents_writer_finish(&w->extents_writer, err);
	if (rc == 0)
		rc = write_directory(w, &skip, err);
	if (rc == 0)
		rc = place_sections(w, head.table, sums, &end, err);
	if (rc < 0)
		return rc;
	assert(w->nr_put == w->digest.nr_files);
	fill_header(w, &head.header);
	head.header.key_skip = le32_of(skip);
	head.header.file_len = le64_of(end + sums->len);
	head.header.sums_off = le64_of(end);
	head.header.sums_checksum = le64_of(XXH3_64bits(sums->data, sums->len));
	head.header.table_checksum =
		le64_of(XXH3_64bits(head.table, w->nr_sections * sizeof(head.table[0])));
	head.header.header_checksum =
		le64_of(XXH3_64bits(&head.header, offsetof(struct cat_header, header_checksum)));
	rc = pwrite_all(w->pub.fd, &head,
			sizeof(head.header) + w->nr_sections * sizeof(head.table[0]), 0);
	return rc < 0 ? err_set_errno(err, rc, "cannot write the catalog") : 0;
}

int writer_set_listing(struct shoal_writer *w, const char *listing, struct shoal_err *err)
{
	char *copy = strdup(listing);

	assert(w->listing && strlen(listing) <= CAT_LISTING_MAX);
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");
	free(w->listing);
	w->listing = copy;
	return 0;
}

static int writer_finish(struct shoal_writer *w, struct shoal_err *err)
{
	struct buf sums = { .max = SIZE_MAX };
	int rc = writer_check_usable(w, err);

	if (rc == 0)
		rc = writer_write_all(w, &sums, err);
	buf_release(&sums);
	return rc;
}

int shoal_writer_seal(struct shoal_writer *writer, struct shoal_err *err)
{
	int rc = writer_finish(writer, err);

	if (rc == 0)
		rc = publish_commit(&writer->pub, err);
	shoal_writer_abort(writer);
	return rc;
}

int writer_seal_nameless(struct shoal_writer *writer, struct shoal_err *err)
{
	int fd = -1, rc = writer_finish(writer, err);

	if (rc == 0) {
		fd = writer->pub.fd;
		writer->pub.fd = -1;
	}
	shoal_writer_abort(writer);
	return rc < 0 ? rc : fd;
}
