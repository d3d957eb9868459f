/* Writing an object: in one piece if it is small, otherwise in parts that commit joins. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "store/s3/s3_private.h"
#include "store/s3/xml.h"

/* S3 requires parts of 5 MiB or more, and at most 10,000 of them. */
#define PARTS_MAX 10000u
#define PART_MIN  (UINT64_C(16) << 20)

/* Joining many parts takes some servers minutes, without any output. */
#define JOIN_IDLE_MS (10u * 60 * 1000)
#define JOIN_TRIES   3

#define ANSWER_MAX (16u << 10)
#define ETAG_BYTES 80u

struct s3_writer {
	struct store_writer base;
	struct s3_client *client; /* from the store's pool, held from create to the end */
	char *upload;             /* id; NULL while it is in one piece */
	struct buf part;          /* not sent yet */
	/* Of the parts that were sent: at most 10,000 of 80 bytes, and only in huge objects. */
	struct buf etags;
	uint32_t nr_parts;
	uint64_t size;
	size_t key_len;
	char key[];
};

static struct s3_writer *writer_of(struct store_writer *w)
{
	return (struct s3_writer *)w;
}

/* Parts grow, so that 10,000 are enough for 3 TiB and most objects need little memory. */
static uint64_t part_bytes(uint32_t nr_parts)
{
	return PART_MIN << (nr_parts / 2500 * 2);
}

/* ---- Requests ---- */

static struct s3_request request(const struct s3_writer *w, enum s3_method method,
				 const struct s3_pair *query, size_t nr_query)
{
	return (struct s3_request){ .method = method,
				    .key = w->key,
				    .key_len = w->key_len,
				    .query = query,
				    .nr_query = nr_query };
}

static int s3_writer_request(struct s3_writer *w, struct s3_request *r, struct shoal_err *err)
{
	r->err = err;
	return s3_client_do(w->client, r, NULL);
}

/* The body of an answer, bounded. */
static int keep_answer(struct s3_request *r, const void *data, size_t len)
{
	struct buf *b = r->self;

	if (len > b->max - b->len)
		return err_set(r->err, -E2BIG,
			       "'%.200s': the server's response is longer than %u bytes", r->key,
			       ANSWER_MAX);
	buf_append(b, data, len);
	return b->rc < 0 ? err_set(r->err, b->rc, "out of memory") : 0;
}

static void forget_answer(struct s3_request *r)
{
	buf_clear(r->self);
}

static int begin_parts(struct s3_writer *w, struct shoal_err *err)
{
	const struct s3_pair query[] = { { "uploads", NULL, 0 } };
	struct s3_request r = request(w, S3_POST, query, ARRAY_LEN(query));
	struct buf answer = { .max = ANSWER_MAX };
	char id[2048] = "";
	struct s3_xml_field field = { .path = "InitiateMultipartUploadResult/UploadId",
				      .text = id,
				      .cap = sizeof(id) };
	int rc;

	r.sink = keep_answer;
	r.again = forget_answer;
	r.self = &answer;
	rc = s3_writer_request(w, &r, err);
	if (rc == 0 && (s3_xml_find(answer.data, answer.len, &field, 1) < 0 || !field.found ||
			!id[0] || strlen(id) + 1 >= sizeof(id)))
		rc = err_set(err, -EBADMSG, "'%.200s': the server returned no upload id", w->key);
	buf_release(&answer);
	if (rc < 0)
		return rc;
	w->upload = strdup(id);
	return w->upload ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int send_part(struct s3_writer *w, struct shoal_err *err)
{
	char number[12], etag[ETAG_BYTES];
	const struct s3_pair query[] = {
		{ "partNumber", number,
		  (size_t)snprintf(number, sizeof(number), "%u", w->nr_parts + 1) },
		{ "uploadId", w->upload, strlen(w->upload) },
	};
	struct s3_request r = request(w, S3_PUT, query, ARRAY_LEN(query));
	int rc;

	if (w->nr_parts == PARTS_MAX)
		return err_set(err, -EFBIG, "'%.200s' is too large for an object", w->key);
	r.body = w->part.data;
	r.body_len = w->part.len;
	rc = s3_writer_request(w, &r, err);
	if (rc < 0)
		return rc;
	if (!r.etag[0])
		return err_set(err, -EBADMSG, "'%.200s': the server returned no ETag for a part",
			       w->key);
	memset(etag, 0, sizeof(etag));
	memcpy(etag, r.etag, strlen(r.etag));
	buf_append(&w->etags, etag, sizeof(etag));
	if (w->etags.rc < 0)
		return err_set(err, -ENOMEM, "out of memory");
	w->nr_parts++;
	buf_clear(&w->part);
	return 0;
}

/* ---- Joining ---- */

/* An ETag comes from the server: markup characters are escaped. */
static void append_text(struct buf *b, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			buf_text(b, "&amp;");
		else if (*text == '<')
			buf_text(b, "&lt;");
		else if (*text == '>')
			buf_text(b, "&gt;");
		else
			buf_append(b, text, 1);
	}
}

static int list_parts(const struct s3_writer *w, struct buf *b)
{
	char number[64];

	buf_text(b, "<CompleteMultipartUpload>");
	for (uint32_t i = 0; i < w->nr_parts; i++) {
		snprintf(number, sizeof(number), "<Part><PartNumber>%u</PartNumber><ETag>", i + 1);
		buf_text(b, number);
		append_text(b, (char *)w->etags.data + (size_t)i * ETAG_BYTES);
		buf_text(b, "</ETag></Part>");
	}
	buf_text(b, "</CompleteMultipartUpload>");
	return b->rc;
}

/* On most servers the ETag of a joined object ends in its number of parts: "...-3". */
static bool fits_parts(const char *etag, uint32_t nr_parts)
{
	const char *dash = strrchr(etag, '-');
	char want[16];

	snprintf(want, sizeof(want), "-%u\"", nr_parts);
	return !dash || strcmp(dash, want) == 0;
}

/* The upload is gone. If an earlier join succeeded and its answer was lost, the object there is
 * ours. */
static int check_joined(struct s3_writer *w, struct shoal_err *err)
{
	struct s3_request r = request(w, S3_HEAD, NULL, 0);
	int rc = s3_writer_request(w, &r, err);

	if ((rc == 0 && (!r.size_known || r.size != w->size || !fits_parts(r.etag, w->nr_parts))) ||
	    rc == -ENOENT)
		rc = err_set(err, -EIO, "'%.200s': the upload vanished before it was completed",
			     w->key);
	return rc;
}

/* 0, or an error; -EAGAIN if a successful status came with a temporary error. */
static int join_once(struct s3_writer *w, const struct buf *parts, struct shoal_err *err)
{
	const struct s3_pair query[] = { { "uploadId", w->upload, strlen(w->upload) } };
	struct s3_request r = request(w, S3_POST, query, ARRAY_LEN(query));
	struct buf answer = { .max = ANSWER_MAX };
	char code[48] = "", message[256] = "", etag[ETAG_BYTES];
	struct s3_xml_field fields[] = {
		{ .path = "Error/Code", .text = code, .cap = sizeof(code) },
		{ .path = "Error/Message", .text = message, .cap = sizeof(message) },
		{ .path = "CompleteMultipartUploadResult/ETag", .text = etag, .cap = sizeof(etag) },
	};
	int rc;

	r.body = parts->data;
	r.body_len = parts->len;
	r.sink = keep_answer;
	r.again = forget_answer;
	r.self = &answer;
	r.idle_ms = JOIN_IDLE_MS;
	rc = s3_writer_request(w, &r, err);
	if (rc == -ENOENT && strcmp(r.code, "NoSuchUpload") == 0) {
		rc = check_joined(w, err);
	} else if (rc == 0 &&
		   (s3_xml_find(answer.data, answer.len, fields, ARRAY_LEN(fields)) < 0 ||
		    fields[0].found || !fields[2].found)) {
		rc = fields[0].found && (strcmp(code, "InternalError") == 0 ||
					 strcmp(code, "SlowDown") == 0)
			     ? -EAGAIN
			     : -EIO;
		s3_mask(store_s3_of(w->base.store)->config, code);
		s3_mask(store_s3_of(w->base.store)->config, message);
		if (fields[1].cut)
			text_mark_truncated(message);
		err_set(err, rc, "'%.200s': the server did not complete the upload: %s %s", w->key,
			fields[0].found ? code : "not an S3 response", message);
	}
	buf_release(&answer);
	return rc;
}

static int join_parts(struct s3_writer *w, struct shoal_err *err)
{
	struct buf parts = { .max = PARTS_MAX * (2u * ETAG_BYTES + 80) };
	int rc = list_parts(w, &parts);

	if (rc < 0)
		err_set(err, rc, "out of memory");
	else
		rc = -EAGAIN;
	for (int i = 0; rc == -EAGAIN && i < JOIN_TRIES; i++)
		rc = join_once(w, &parts, err);
	buf_release(&parts);
	return rc == -EAGAIN ? -EIO : rc;
}

/* ---- The table ---- */

static void s3_writer_free(struct s3_writer *w)
{
	struct store_s3 *s3 = store_s3_of(w->base.store);

	s3_pool_give(s3->pool, w->client);
	buf_release(&w->part);
	buf_release(&w->etags);
	free(w->upload);
	free(w);
}

int store_s3_create(struct store *s, const char *name, struct store_writer **ret_writer,
		    struct shoal_err *err)
{
	struct store_s3 *s3 = store_s3_of(s);
	size_t key_len = s3->prefix_len + strlen(name);
	struct s3_writer *w;
	int rc;

	if (key_len > S3_KEY_MAX) /* fail now, not after all of it was written */
		return err_set(err, -ENAMETOOLONG,
			       "'%.100s' has %zu bytes, but keys have at most %d", name, key_len,
			       S3_KEY_MAX);
	w = calloc(1, sizeof(*w) + key_len + 1);
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	rc = s3_pool_take(s3->pool, &w->client, err);
	if (rc < 0) {
		free(w);
		return rc;
	}
	w->base.store = s;
	w->part.max = SIZE_MAX / 4;
	w->etags.max = PARTS_MAX * ETAG_BYTES;
	w->key_len = store_s3_key(s3, name, w->key);
	*ret_writer = &w->base;
	return 0;
}

int store_s3_write(struct store_writer *base, const void *data, size_t len, struct shoal_err *err)
{
	struct s3_writer *w = writer_of(base);
	const uint8_t *from = data;
	int rc = 0;

	w->size += len;
	while (len > 0 && rc == 0) {
		size_t n = (size_t)u64_min(len, part_bytes(w->nr_parts) - w->part.len);

		if (n == 0) { /* a part is full, and more follows */
			rc = w->upload ? 0 : begin_parts(w, err);
			if (rc == 0)
				rc = send_part(w, err);
			continue;
		}
		buf_append(&w->part, from, n);
		if (w->part.rc < 0)
			rc = err_set(err, -ENOMEM, "out of memory");
		from += n;
		len -= n;
	}
	return rc;
}

/* Parts that are not joined cost money until they are deleted. */
static void drop_parts(struct s3_writer *w)
{
	const struct s3_pair query[] = { { "uploadId", w->upload, strlen(w->upload) } };
	struct s3_request r = request(w, S3_DELETE, query, ARRAY_LEN(query));

	(void)!s3_writer_request(w, &r, NULL); /* nothing more can be done */
}

int store_s3_commit(struct store_writer *base, struct shoal_err *err)
{
	struct s3_writer *w = writer_of(base);
	struct s3_request r = request(w, S3_PUT, NULL, 0);
	int rc = 0;

	if (!w->upload) {
		r.body = w->part.data;
		r.body_len = w->part.len;
		rc = s3_writer_request(w, &r, err);
	} else {
		if (w->part.len > 0)
			rc = send_part(w, err);
		if (rc == 0)
			rc = join_parts(w, err);
		if (rc < 0)
			drop_parts(w);
	}
	s3_writer_free(w);
	return rc;
}

void store_s3_abort(struct store_writer *base)
{
	struct s3_writer *w = writer_of(base);

	if (w->upload)
		drop_parts(w);
	s3_writer_free(w);
}
