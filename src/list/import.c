/* Lists that other tools write: find, GPFS policies, S3 Inventory. Plain, or compressed by gzip. */
#include <errno.h>
#include <inttypes.h>
#include <isa-l/igzip_lib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "index/job.h"
#include "index/stage.h"
#include "index/textlist.h"
#include "store/uri.h"

#define IMPORT_LINE_MAX (8 * SHOAL_NAME_MAX) /* a key in an inventory is %-encoded */
#define IMPORT_READ     (1u << 20)
#define FIELDS_MAX      64u

/* Columns of an inventory that are used. */
enum inventory_field {
	FIELD_BUCKET,
	FIELD_KEY,
	FIELD_SIZE,
	FIELD_ETAG,
	FIELD_LATEST,
	FIELD_MARKER,
	FIELD_NR
};

static const char *const field_names[FIELD_NR] = { "Bucket", "Key",      "Size",
						   "ETag",   "IsLatest", "IsDeleteMarker" };

struct import {
	int fd;
	const struct shoal_import_options *import;
	char separator;
	/* Input: the bytes read, and the inflated bytes; without compression these are the same. */
	struct inflate_state inflate;
	bool raw_ended, gzip;
	size_t at, fill;
	uint64_t line;
	int column[FIELD_NR]; /* column of the line, from 0; -1: there is none */
	struct index_job job;
	bool started, has_sizes;
	uint64_t nr_blank, nr_left_out;
	uint8_t raw[IMPORT_READ];
	char buf[IMPORT_READ + IMPORT_LINE_MAX];
	char name[2 * IMPORT_LINE_MAX]; /* room for a URI */
};

/* The contents of a line. */
struct import_entry {
	const char *name;
	size_t len;
	struct index_record record;
	struct etag etag;
	bool has_size;
};

/* ---- Input ---- */

static int import_read(struct import *m, void *buf, size_t room, size_t *ret_len,
		       struct shoal_err *err)
{
	return textlist_read(m->fd, buf, room, m->job.options->stop, ret_len, err);
}

/*
 * Inflate the input after the unread part of the buffer. Several gzip files may follow one another.
 */
static int import_inflate(struct import *m, struct shoal_err *err)
{
	struct inflate_state *s = &m->inflate;
	size_t got = 0;
	int rc = 0;

	s->next_out = (uint8_t *)m->buf + m->fill;
	s->avail_out = (uint32_t)(IMPORT_READ + IMPORT_LINE_MAX - m->fill);
	while (rc == 0 && s->avail_out > 0) {
		if (s->avail_in == 0 && !m->raw_ended) {
			rc = import_read(m, m->raw, IMPORT_READ, &got, err);
			s->next_in = m->raw;
			s->avail_in = (uint32_t)got;
			m->raw_ended = rc == 0 && got == 0;
		}
		if (rc < 0 || (s->avail_in == 0 && m->raw_ended))
			break;
		if (s->block_state == ISAL_BLOCK_FINISH) { /* another file follows */
			uint32_t left = s->avail_in, room = s->avail_out;
			uint8_t *in = s->next_in, *out = s->next_out;

			isal_inflate_init(s);
			s->crc_flag = ISAL_GZIP;
			s->next_in = in;
			s->avail_in = left;
			s->next_out = out;
			s->avail_out = room;
		}
		if (isal_inflate(s) != ISAL_DECOMP_OK)
			rc = err_set(err, -EBADMSG, "the compressed list is damaged");
	}
	m->fill = (size_t)((char *)s->next_out - m->buf);
	if (rc == 0 && m->raw_ended && s->avail_in == 0 && s->avail_out > 0 &&
	    s->block_state != ISAL_BLOCK_FINISH)
		rc = err_set(err, -EBADMSG, "the compressed list is truncated");
	return rc;
}

static int import_fill(struct import *m, bool *ret_ended, struct shoal_err *err)
{
	size_t before, got = 0;
	int rc;

	memmove(m->buf, m->buf + m->at, m->fill - m->at);
	m->fill -= m->at;
	m->at = 0;
	before = m->fill;
	if (m->gzip) {
		rc = import_inflate(m, err);
		*ret_ended = m->fill == before;
		return rc;
	}
	rc = import_read(m, m->buf + m->fill, IMPORT_READ + IMPORT_LINE_MAX - m->fill, &got, err);
	m->fill += got;
	*ret_ended = got == 0;
	return rc;
}

/* Whether it is compressed: its first two bytes tell. */
static int import_begin(struct import *m, struct shoal_err *err)
{
	size_t fill = 0, got = 1;
	int rc = 0;

	while (rc == 0 && fill < 2 && got > 0) {
		rc = import_read(m, m->raw + fill, IMPORT_READ - fill, &got, err);
		fill += got;
	}
	if (rc < 0)
		return rc;
	m->gzip = fill >= 2 && m->raw[0] == 0x1f && m->raw[1] == 0x8b;
	if (!m->gzip) {
		memcpy(m->buf, m->raw, fill);
		m->fill = fill;
		return 0;
	}
	isal_inflate_init(&m->inflate);
	m->inflate.crc_flag = ISAL_GZIP;
	m->inflate.next_in = m->raw;
	m->inflate.avail_in = (uint32_t)fill;
	return 0;
}

/* The next line without its end: 1, or 0 at the end of the list. */
static int import_next_line(struct import *m, char **ret_line, size_t *ret_len,
			    struct shoal_err *err)
{
	bool ended = false;

	for (;;) {
		char *start = m->buf + m->at;
		size_t left = m->fill - m->at;
		char *end = memchr(start, m->separator, left);
		int rc;

		if (end || (ended && left > 0)) {
			*ret_line = start;
			*ret_len = end ? (size_t)(end - start) : left;
			m->at += *ret_len + (end ? 1 : 0);
			m->line++;
			return 1;
		}
		if (ended)
			return 0;
		if (left > IMPORT_LINE_MAX)
			return err_set(err, -EINVAL, "line %" PRIu64 " is longer than any name",
				       m->line + 1);
		rc = import_fill(m, &ended, err);
		if (rc < 0)
			return rc;
	}
}

/* ---- Lines ---- */

/* find -printf '%s %p\n': the size, a space, the name. */
static int parse_find(char *line, size_t len, struct import_entry *e)
{
	char *blank;

	while (len > 0 && *line == ' ') { /* as %10s */
		line++;
		len--;
	}
	blank = memchr(line, ' ', len);
	if (!blank || parse_digits(line, (size_t)(blank - line), &e->record.size) < 0)
		return -EINVAL;
	e->has_size = true;
	e->name = blank + 1;
	e->len = len - (size_t)(blank + 1 - line);
	return 1;
}

/*
 * A list of mmapplypolicy: "inode generation snapshot  -- path". What SHOW added comes before the
 * dashes; the first number there is the size.
 */
static int parse_gpfs(char *line, size_t len, struct import_entry *e)
{
	char *dashes = memmem(line, len, " -- ", 4), *p = line;
	unsigned nr = 0;

	if (!dashes)
		return -EINVAL;
	while (p < dashes) {
		uint64_t number = 0;
		char *end;
		int rc;

		while (p < dashes && *p == ' ')
			p++;
		end = memchr(p, ' ', (size_t)(dashes - p));
		end = end ? end : dashes;
		if (p == end)
			break;
		rc = parse_digits(p, (size_t)(end - p), &number);
		if (rc < 0 && nr < 3)
			return -EINVAL;
		if (++nr == 4 && rc == 0) {
			e->record.size = number;
			e->has_size = true;
		}
		p = end;
	}
	if (nr < 3)
		return -EINVAL;
	e->name = dashes + 4;
	e->len = len - (size_t)(dashes + 4 - line);
	return 1;
}

/* Cut the next field off a line of comma-separated values, in place. False if it is malformed. */
static bool cut_field(char **line, char *end, char **ret_field, size_t *ret_len)
{
	char *p = *line, *to = p;

	*ret_field = p;
	if (p < end && *p == '"') {
		for (p++; p < end && (*p != '"' || (p + 1 < end && p[1] == '"')); p++) {
			p += *p == '"';
			*to++ = *p;
		}
		if (p++ >= end || (p < end && *p != ','))
			return false;
	} else {
		while (p < end && *p != ',')
			p++;
		to = p;
	}
	*ret_len = (size_t)(to - *ret_field);
	*line = p < end ? p + 1 : NULL;
	return true;
}

/* Keys are encoded like HTML forms: a space is '+', special bytes are %XX. Returns the length. */
static size_t decode_key(const char *key, size_t len, char *to)
{
	size_t nr = 0;

	for (size_t i = 0; i < len; i++) {
		bool coded = key[i] == '%' && i + 2 < len && text_hex_digit(key[i + 1]) >= 0 &&
			     text_hex_digit(key[i + 2]) >= 0;

		if (coded) {
			to[nr++] = (char)(text_hex_digit(key[i + 1]) << 4 |
					  text_hex_digit(key[i + 2]));
			i += 2;
		} else {
			to[nr++] = key[i] == '+' ? ' ' : key[i];
		}
	}
	return nr;
}

static bool field_is(char *const *field, const size_t *len, int column, const char *word)
{
	return column >= 0 && len[column] == strlen(word) &&
	       strncasecmp(field[column], word, len[column]) == 0;
}

/* A line of an inventory: 1, 0 if it does not name an existing object, or an error. */
static int parse_inventory(struct import *m, char *line, size_t len, struct import_entry *e)
{
	char *field[FIELDS_MAX], *p = line, *end = line + len;
	size_t field_len[FIELDS_MAX], key_len;
	const int *column = m->column;
	int nr = 0;

	while (p && nr < (int)FIELDS_MAX) {
		if (!cut_field(&p, end, &field[nr], &field_len[nr]))
			return -EINVAL;
		nr++;
	}
	for (int i = 0; i < FIELD_NR; i++)
		if (column[i] >= nr)
			return -EINVAL;
	if (field_is(field, field_len, column[FIELD_LATEST], "false") ||
	    field_is(field, field_len, column[FIELD_MARKER], "true"))
		return 0;
	key_len = field_len[column[FIELD_KEY]];
	e->len = store_bucket_uri(field[column[FIELD_BUCKET]], field_len[column[FIELD_BUCKET]],
				  m->name);
	e->len += decode_key(field[column[FIELD_KEY]], key_len, m->name + e->len);
	e->name = m->name;
	e->has_size = column[FIELD_SIZE] >= 0;
	if (e->has_size && parse_digits(field[column[FIELD_SIZE]], field_len[column[FIELD_SIZE]],
					&e->record.size) < 0)
		return -EINVAL;
	if (column[FIELD_ETAG] >= 0) {
		e->etag = etag_parse(field[column[FIELD_ETAG]], field_len[column[FIELD_ETAG]]);
		e->record.etag = &e->etag;
	}
	return 1;
}

static int import_parse(struct import *m, char *line, size_t len, struct import_entry *e)
{
	switch (m->import->format) {
	case SHOAL_IMPORT_FIND:
		return parse_find(line, len, e);
	case SHOAL_IMPORT_GPFS:
		return parse_gpfs(line, len, e);
	case SHOAL_IMPORT_INVENTORY:
		return parse_inventory(m, line, len, e);
	default:
		return -EINVAL;
	}
}

/* ---- Columns ---- */

/* All columns that an inventory may have, beside those that are used. New ones may come: a name
 * that is like none of these is taken for one. */
static const char *const other_names[] = {
	"VersionId",
	"LastModifiedDate",
	"StorageClass",
	"IsMultipartUploaded",
	"ReplicationStatus",
	"EncryptionStatus",
	"ObjectLockRetainUntilDate",
	"ObjectLockMode",
	"ObjectLockLegalHoldStatus",
	"IntelligentTieringAccessTier",
	"BucketKeyStatus",
	"ChecksumAlgorithm",
	"ObjectAccessControlList",
	"ObjectOwner",
	"LifecycleExpirationDate",
};

/* Column @nr of an inventory is called @name. */
static int import_column(struct import *m, const char *name, size_t len, int nr,
			 struct shoal_err *err)
{
	char word[64];
	const char *near;

	for (int i = 0; i < FIELD_NR; i++) {
		if (strlen(field_names[i]) != len || strncasecmp(name, field_names[i], len) != 0)
			continue;
		if (m->column[i] >= 0)
			return err_set(err, -EINVAL, "column '%s' is named twice", field_names[i]);
		m->column[i] = nr;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(other_names); i++)
		if (strlen(other_names[i]) == len && strncasecmp(name, other_names[i], len) == 0)
			return 0;
	snprintf(word, sizeof(word), "%.*s", (int)u64_min(len, sizeof(word) - 1), name);
	near = text_nearest(word, field_names, FIELD_NR);
	return near ? err_set(err, -EINVAL, "an inventory has no column '%s'; did you mean %s?",
			      word, near)
		    : 0;
}

static int import_columns(struct import *m, struct shoal_err *err)
{
	const char *p = m->import->columns ? m->import->columns : "Bucket, Key, Size";
	int nr = 0, rc;

	for (int i = 0; i < FIELD_NR; i++)
		m->column[i] = -1;
	for (; *p; nr++) {
		size_t len;

		p += strspn(p, " \t");
		len = strcspn(p, ", \t");
		rc = import_column(m, p, len, nr, err);
		if (rc < 0)
			return rc;
		p += len;
		p += strspn(p, " \t");
		if (*p && *p++ != ',')
			return err_set(err, -EINVAL,
				       "columns are separated by commas: not '%.100s'",
				       m->import->columns);
	}
	if (m->column[FIELD_BUCKET] < 0 || m->column[FIELD_KEY] < 0 || nr > (int)FIELDS_MAX)
		return err_set(err, -EINVAL,
			       "the columns of an inventory must have Bucket and Key, and at most "
			       "%u: not '%.100s'",
			       FIELDS_MAX, m->import->columns);
	return 0;
}

/* ---- The list ---- */

static int import_start(struct import *m, const struct import_entry *e, struct shoal_err *err)
{
	int rc = index_root_init(&m->job.root, m->job.options->root, e->name, e->len, err);

	m->has_sizes = e->has_size;
	m->job.etags = e->record.etag != NULL;
	if (rc == 0)
		rc = index_job_open(&m->job, m->has_sizes, /* samples= */ false, err);
	m->started = rc == 0;
	return rc;
}

static int import_line(struct import *m, char *line, size_t len, struct shoal_err *err)
{
	static const char *const formats[] = {
		[SHOAL_IMPORT_FIND] = "a size, a blank and a name",
		[SHOAL_IMPORT_GPFS] = "three numbers, ' -- ' and a path",
		[SHOAL_IMPORT_INVENTORY] = "a line of an inventory with these columns",
	};
	struct import_entry e = { .record = { .size = SHOAL_SIZE_UNKNOWN } };
	struct shoal_err why = { "" };
	int rc;

	if (len > 0 && line[len - 1] == '\r' && m->separator == '\n')
		len--;
	if (len == 0) {
		m->nr_blank++;
		return 0;
	}
	e.record.samples = index_job_samples(&m->job);
	rc = import_parse(m, line, len, &e);
	if (rc == 0) {
		m->nr_left_out++;
		return 0;
	}
	if (rc > 0 && m->started && e.has_size != m->has_sizes)
		rc = -EINVAL;
	if (rc < 0)
		return err_set(err, -EINVAL, "line %" PRIu64 " is not %s", m->line,
			       formats[m->import->format]);
	if (!m->started && (rc = import_start(m, &e, err)) < 0)
		return rc;
	rc = index_root_strip(&m->job.root, &e.name, &e.len, &why);
	if (rc == 0 && (e.len > SHOAL_NAME_MAX || memchr(e.name, 0, e.len)))
		rc = err_set(&why, -EINVAL, "a name has a NUL byte, or more than %d bytes",
			     SHOAL_NAME_MAX);
	if (rc < 0)
		return err_set_as(err, rc, &why, "line %" PRIu64 ": %s", m->line, why.msg);
	return index_job_add(&m->job, e.name, e.len, &e.record, err);
}

static int import_catalog(void *self, struct index_stage *s, uint64_t least,
			  struct shoal_index_result *result, struct shoal_err *err)
{
	struct import *m = self;
	struct import_entry none = { .name = "" };
	size_t len = 0;
	char *line = NULL;
	int rc = 0;

	m->job = (struct index_job){ .options = &s->options, .output = &s->output, .least = least };
	if (m->import->format == SHOAL_IMPORT_INVENTORY)
		rc = import_columns(m, err);
	if (rc == 0)
		rc = import_begin(m, err);
	while (rc == 0 && (rc = import_next_line(m, &line, &len, err)) > 0)
		rc = import_line(m, line, len, err);
	if (rc == 0 && !m->started)
		rc = import_start(m, &none, err);
	if (rc < 0)
		return rc;
	result->nr_blank = m->nr_blank;
	result->nr_filtered = m->nr_left_out;
	return index_job_finish(&m->job, result, err);
}

int shoal_index_import(int fd, const struct shoal_import_options *import,
		       const struct shoal_index_options *options,
		       struct shoal_index_result *ret_result, struct shoal_err *err)
{
	struct import *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return err_set(err, -ENOMEM, "out of memory");
	m->fd = fd;
	m->import = import;
	m->separator = import->null ? '\0' : '\n';
	rc = index_stage_run(options, import_catalog, m, ret_result, err);
	index_job_release(&m->job);
	free(m);
	return rc;
}
