/* Writing an object: in one piece where it is small, else in parts that become one at commit. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "store/s3.h"
#include "store/s3_xml.h"

/* S3 wants parts of 5 MiB or more, and no more than 10,000 of them. */
#define PARTS_MAX 10000u
#define PART_MIN  (UINT64_C(16) << 20)

/* Joining many parts takes some servers minutes, in which they say nothing. */
#define JOIN_IDLE_MS (10u * 60 * 1000)
#define JOIN_TRIES   3

#define ANSWER_MAX (16u << 10)
#define ETAG_BYTES 80u

struct s3_writer {
	struct store_writer base;
	struct s3_client *client; /* of the store's pool, from create to the end */
	char *upload;             /* id; NULL as long as it is in one piece */
	struct shoal_buf part;    /* what was not sent yet */
	/* Of the parts that were sent: 10,000 of 80 bytes at most, and only in huge objects. */
	struct shoal_buf etags;
	uint32_t nr_parts;
	uint64_t size;
	size_t key_len;
	char key[];
};

static struct s3_writer *writer_of(struct store_writer *w)
{
	return (struct s3_writer *)w;
}

/* Larger ones later on, so that 10,000 are enough for 3 TiB, and most objects take little memory.
 */
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

static int ask(struct s3_writer *w, struct s3_request *r, struct shoal_err *err)
{
	r->err = err;
	return s3_client_do(w->client, r, NULL);
}

/* An answer's body, bounded. */
static int keep_answer(struct s3_request *r, const void *data, size_t len)
{
	struct shoal_buf *b = r->self;

	if (len > b->max - b->len)
		return shoal_fail(r->err, -E2BIG,
				  "'%.200s': the server's answer has no end, or more than %u bytes",
				  r->key, ANSWER_MAX);
	shoal_buf_append(b, data, len);
	return b->rc < 0 ? shoal_fail(r->err, b->rc, "out of memory") : 0;
}

static void forget_answer(struct s3_request *r)
{
	shoal_buf_clear(r->self);
}

static int begin_parts(struct s3_writer *w, struct shoal_err *err)
{
	const struct s3_pair query[] = { { "uploads", NULL, 0 } };
	struct s3_request r = request(w, S3_POST, query, SHOAL_ARRAY_LEN(query));
	struct shoal_buf answer = { .max = ANSWER_MAX };
	char id[2048] = "";
	struct s3_xml_field field = { .path = "InitiateMultipartUploadResult/UploadId",
				      .text = id,
				      .cap = sizeof(id) };
	int rc;

	r.sink = keep_answer;
	r.again = forget_answer;
	r.self = &answer;
	rc = ask(w, &r, err);
	if (rc == 0 && (s3_xml_find(answer.data, answer.len, &field, 1) < 0 || !field.found ||
			!id[0] || strlen(id) + 1 >= sizeof(id)))
		rc = shoal_fail(err, -EBADMSG,
				"'%.200s': the server says nothing of the upload that it began",
				w->key);
	shoal_buf_release(&answer);
	if (rc < 0)
		return rc;
	w->upload = strdup(id);
	return w->upload ? 0 : shoal_fail(err, -ENOMEM, "out of memory");
}

static int send_part(struct s3_writer *w, struct shoal_err *err)
{
	char number[12], etag[ETAG_BYTES];
	const struct s3_pair query[] = {
		{ "partNumber", number,
		  (size_t)snprintf(number, sizeof(number), "%u", w->nr_parts + 1) },
		{ "uploadId", w->upload, strlen(w->upload) },
	};
	struct s3_request r = request(w, S3_PUT, query, SHOAL_ARRAY_LEN(query));
	int rc;

	if (w->nr_parts == PARTS_MAX)
		return shoal_fail(err, -EFBIG, "'%.200s' is too large for an object", w->key);
	r.body = w->part.data;
	r.body_len = w->part.len;
	rc = ask(w, &r, err);
	if (rc < 0)
		return rc;
	if (!r.etag[0])
		return shoal_fail(err, -EBADMSG, "'%.200s': the server gives a part no ETag",
				  w->key);
	memset(etag, 0, sizeof(etag));
	memcpy(etag, r.etag, strlen(r.etag));
	shoal_buf_append(&w->etags, etag, sizeof(etag));
	if (w->etags.rc < 0)
		return shoal_fail(err, -ENOMEM, "out of memory");
	w->nr_parts++;
	shoal_buf_clear(&w->part);
	return 0;
}

/* ---- Joining ---- */

static void append(struct shoal_buf *b, const char *text)
{
	shoal_buf_append(b, text, strlen(text));
}

/* An ETag is the server's word: what would be markup is spelt out. */
static void append_text(struct shoal_buf *b, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			append(b, "&amp;");
		else if (*text == '<')
			append(b, "&lt;");
		else if (*text == '>')
			append(b, "&gt;");
		else
			shoal_buf_append(b, text, 1);
	}
}

static int list_parts(const struct s3_writer *w, struct shoal_buf *b)
{
	char number[64];

	append(b, "<CompleteMultipartUpload>");
	for (uint32_t i = 0; i < w->nr_parts; i++) {
		snprintf(number, sizeof(number), "<Part><PartNumber>%u</PartNumber><ETag>", i + 1);
		append(b, number);
		append_text(b, (char *)w->etags.data + (size_t)i * ETAG_BYTES);
		append(b, "</ETag></Part>");
	}
	append(b, "</CompleteMultipartUpload>");
	return b->rc;
}

/* Of an object that was joined an ETag says of how many parts, as "...-3", on most servers. */
static bool fits_parts(const char *etag, uint32_t nr_parts)
{
	const char *dash = strrchr(etag, '-');
	char want[16];

	snprintf(want, sizeof(want), "-%u\"", nr_parts);
	return !dash || strcmp(dash, want) == 0;
}

/*
 * The upload is gone: by a join whose answer was lost, and which was sent again, by us or by
 * libcurl? Then what is there is ours.
 */
static int check_joined(struct s3_writer *w, struct shoal_err *err)
{
	struct s3_request r = request(w, S3_HEAD, NULL, 0);
	int rc = ask(w, &r, err);

	if ((rc == 0 && (!r.size_known || r.size != w->size || !fits_parts(r.etag, w->nr_parts))) ||
	    rc == -ENOENT)
		rc = shoal_fail(err, -EIO,
				"'%.200s': the upload is gone before its parts were joined",
				w->key);
	return rc;
}

/* 0, or an error; -EAGAIN when a good status came with words that it failed for now. */
static int join_once(struct s3_writer *w, const struct shoal_buf *parts, struct shoal_err *err)
{
	const struct s3_pair query[] = { { "uploadId", w->upload, strlen(w->upload) } };
	struct s3_request r = request(w, S3_POST, query, SHOAL_ARRAY_LEN(query));
	struct shoal_buf answer = { .max = ANSWER_MAX };
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
	rc = ask(w, &r, err);
	if (rc == -ENOENT && strcmp(r.code, "NoSuchUpload") == 0) {
		rc = check_joined(w, err);
	} else if (rc == 0 &&
		   (s3_xml_find(answer.data, answer.len, fields, SHOAL_ARRAY_LEN(fields)) < 0 ||
		    fields[0].found || !fields[2].found)) {
		rc = fields[0].found && (strcmp(code, "InternalError") == 0 ||
					 strcmp(code, "SlowDown") == 0)
			     ? -EAGAIN
			     : -EIO;
		s3_mask(store_s3_of(w->base.store)->config, code);
		s3_mask(store_s3_of(w->base.store)->config, message);
		if (fields[1].cut)
			shoal_mark_cut(message);
		shoal_fail(err, rc, "'%.200s': the server did not join its parts: %s %s", w->key,
			   fields[0].found ? code : "an answer that is not S3's", message);
	}
	shoal_buf_release(&answer);
	return rc;
}

static int join_parts(struct s3_writer *w, struct shoal_err *err)
{
	struct shoal_buf parts = { .max = PARTS_MAX * (2u * ETAG_BYTES + 80) };
	int rc = list_parts(w, &parts);

	if (rc < 0)
		shoal_fail(err, rc, "out of memory");
	else
		rc = -EAGAIN;
	for (int i = 0; rc == -EAGAIN && i < JOIN_TRIES; i++)
		rc = join_once(w, &parts, err);
	shoal_buf_release(&parts);
	return rc == -EAGAIN ? -EIO : rc;
}

/* ---- The table ---- */

static void writer_free(struct s3_writer *w)
{
	struct store_s3 *s3 = store_s3_of(w->base.store);

	s3_pool_give(s3->pool, w->client);
	shoal_buf_release(&w->part);
	shoal_buf_release(&w->etags);
	free(w->upload);
	free(w);
}

int store_s3_create(struct shoal_store *s, const char *name, struct store_writer **ret_writer,
		    struct shoal_err *err)
{
	struct store_s3 *s3 = store_s3_of(s);
	size_t key_len = s3->prefix_len + strlen(name);
	struct s3_writer *w;
	int rc;

	if (key_len > S3_KEY_MAX) /* now, not after all of it was written */
		return shoal_fail(err, -ENAMETOOLONG, "'%.100s' has %zu bytes, and keys at most %d",
				  name, key_len, S3_KEY_MAX);
	w = calloc(1, sizeof(*w) + key_len + 1);
	if (!w)
		return shoal_fail(err, -ENOMEM, "out of memory");
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
		size_t n = (size_t)shoal_min(len, part_bytes(w->nr_parts) - w->part.len);

		if (n == 0) { /* a part is full, and more comes */
			rc = w->upload ? 0 : begin_parts(w, err);
			if (rc == 0)
				rc = send_part(w, err);
			continue;
		}
		shoal_buf_append(&w->part, from, n);
		if (w->part.rc < 0)
			rc = shoal_fail(err, -ENOMEM, "out of memory");
		from += n;
		len -= n;
	}
	return rc;
}

/* Parts that are not joined cost money until somebody deletes them. */
static void drop_parts(struct s3_writer *w)
{
	const struct s3_pair query[] = { { "uploadId", w->upload, strlen(w->upload) } };
	struct s3_request r = request(w, S3_DELETE, query, SHOAL_ARRAY_LEN(query));

	(void)!ask(w, &r, NULL); /* nothing more can be done */
}

int store_s3_commit(struct store_writer *base, struct shoal_err *err)
{
	struct s3_writer *w = writer_of(base);
	struct s3_request r = request(w, S3_PUT, NULL, 0);
	int rc = 0;

	if (!w->upload) {
		r.body = w->part.data;
		r.body_len = w->part.len;
		rc = ask(w, &r, err);
	} else {
		if (w->part.len > 0)
			rc = send_part(w, err);
		if (rc == 0)
			rc = join_parts(w, err);
		if (rc < 0)
			drop_parts(w);
	}
	writer_free(w);
	return rc;
}

void store_s3_abort(struct store_writer *base)
{
	struct s3_writer *w = writer_of(base);

	if (w->upload)
		drop_parts(w);
	writer_free(w);
}
