#include "format/samples.h"

#include <inttypes.h>

#include "format/samples_private.h"

int samples_report(struct samples_search *s, uint64_t off, uint64_t len, uint64_t rows)
{
	struct samples_extent e = { off, len, rows };

	if (!format_inside(off, len, s->file->size))
		return err_set(s->err, -EBADMSG,
			       "sample %" PRIu64 ", %" PRIu64 " bytes at %" PRIu64
			       ", lies outside the file of %" PRIu64 " bytes",
			       s->nr, len, off, s->file->size);
	if (off < s->end)
		return err_set(s->err, -EBADMSG,
			       "sample %" PRIu64 " at %" PRIu64
			       " begins before the end of the one before it, at %" PRIu64,
			       s->nr, off, s->end);
	s->nr++;
	s->end = off + len;
	return s->found(s->self, &e);
}

int samples_report_array(struct samples_search *s, uint64_t off, uint64_t len, uint64_t nr)
{
	int rc = 0;

	for (uint64_t i = 0; i < nr && rc == 0; i++)
		rc = samples_report(s, off + i * len, len, 1);
	return rc;
}

/* ---- Without a format ---- */

static int find_nothing(struct samples_search *s)
{
	(void)s;
	return 0;
}

static int find_whole(struct samples_search *s)
{
	return samples_report(s, 0, s->file->size, 1);
}

static int find_fixed(struct samples_search *s)
{
	uint64_t len = s->record_len;
	int rc = 0;

	if (len == 0 || s->file->size % len)
		return err_set(s->err, -EBADMSG,
			       "its %" PRIu64 " bytes are not a number of records of %" PRIu64
			       " bytes",
			       s->file->size, len);
	for (uint64_t off = 0; off < s->file->size && rc == 0; off += len)
		rc = samples_report(s, off, len, 1);
	return rc;
}

static const struct samples_kind kinds[] = {
	{ "whole", { NULL }, find_whole, true },
	{ "parquet", { ".parquet", ".parq" }, samples_find_parquet },
	{ "arrow", { ".arrow", ".feather" }, samples_find_arrow },
	{ "webdataset", { ".tar" }, samples_find_webdataset },
	{ "tar", { NULL }, samples_find_tar },
	{ "tfrecord", { ".tfrecord", ".tfrecords" }, samples_find_tfrecord },
	{ "npz", { ".npz" }, samples_find_npz },
	{ "npy", { ".npy" }, samples_find_npy },
	{ "hdf5", { ".hdf5", ".h5" }, samples_find_hdf5 },
	{ "csv", { ".csv" }, samples_find_csv, true, .text = true },
	{ "jsonl", { ".jsonl", ".ndjson" }, samples_find_jsonl, true, .text = true },
	{ "indexed_binary", { ".indexed_binary" }, samples_find_indexed },
	{ "fixed", { NULL }, find_fixed, true },
	{ "index", { ".idx" }, find_nothing },
};

const char *samples_kind_name(const struct samples_kind *kind)
{
	return kind->name;
}

bool samples_kind_covers(const struct samples_kind *kind)
{
	return kind->covers;
}

const struct samples_kind *samples_kind_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

static bool name_ends(const char *name, size_t len, const char *suffix)
{
	size_t n = strlen(suffix);

	return len >= n && strncasecmp(name + len - n, suffix, n) == 0;
}

bool samples_kind_has_sides(const struct samples_kind *kind)
{
	return kind->find == samples_find_indexed;
}

const struct samples_kind *samples_kind_of_file(const struct samples_kind *kind, const char *name,
						size_t len)
{
	if (kind && !(samples_kind_has_sides(kind) && name_ends(name, len, ".idx")))
		return kind;
	for (size_t i = 1; i < ARRAY_LEN(kinds); i++)
		for (size_t k = 0; k < ARRAY_LEN(kinds[i].suffix) && kinds[i].suffix[k]; k++)
			if (name_ends(name, len, kinds[i].suffix[k]))
				return &kinds[i];
	return &kinds[0];
}

/* Whether a file begins as one of gzip, bzip2, xz, zstd, lz4 or snappy does, which no text does. */
static bool is_compressed(const uint8_t head[10])
{
	return memcmp(head, "\x1f\x8b\x08", 3) == 0 || memcmp(head, "\xfd\x37zXZ\0", 6) == 0 ||
	       memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0 ||
	       memcmp(head, "\x04\x22\x4d\x18", 4) == 0 ||
	       memcmp(head, "\xff\x06\0\0sNaPpY", 10) == 0 ||
	       (memcmp(head, "BZh", 3) == 0 && memcmp(head + 4, "1AY&SY", 6) == 0);
}

/*
 * Whether a TFRecord file was written with ZLIB, whose two bytes say little: but what follows them
 * would be the length of a record, which no damage of a few bytes makes longer than the file.
 */
static bool is_zlib(const uint8_t head[10], uint64_t size)
{
	return head[0] == 0x78 && (head[0] << 8 | head[1]) % 31 == 0 && le64_load(head) > size;
}

/* Why a file cannot be cut whatever its kind, from its first bytes; NULL: it may be possible. */
static const char *why_uncut(const struct samples_kind *kind, const struct format_source *file)
{
	uint8_t head[10] = { 0 };
	size_t len = (size_t)u64_min(sizeof(head), file->size);

	if (format_read(file, 0, head, len, NULL) < 0)
		return NULL;
	if (len == sizeof(head) && is_compressed(head))
		return "it is compressed";
	if (kind->find == samples_find_tfrecord && is_zlib(head, file->size))
		return "it is compressed";
	/* A line end of UTF-16 has two bytes, and each of them may be half of another character. */
	if (kind->text && (memcmp(head, "\xff\xfe", 2) == 0 || memcmp(head, "\xfe\xff", 2) == 0))
		return "its text is UTF-16: convert it to UTF-8";
	if (kind->text && memchr(head, 0, len))
		return "it contains zeros, and so is no text";
	return NULL;
}

int samples_find(const struct samples_kind *kind, uint64_t record_len,
		 const struct format_source *file, samples_found_fn *found, void *self,
		 struct shoal_err *err)
{
	struct samples_search s = {
		.file = file, .record_len = record_len, .found = found, .self = self, .err = err
	};
	const char *why = kind->text ? why_uncut(kind, file) : NULL;
	int rc = why ? -ENOTSUP : kind->find(&s);

	/* The first bytes of other kinds may be like those of a compressed file by chance. */
	if (rc == -EBADMSG && s.nr == 0)
		why = why_uncut(kind, file);
	return why ? err_set(err, -ENOTSUP, "%s", why) : rc;
}
