/* Sending a request once: the choice of the endpoint, the headers, and the data recorded from the
 * answer. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/text.h"
#include "store/s3/client_private.h"

/*
 * Total size of the receive buffers of all transfers, roughly; libcurl has one per transfer, and
 * frees it in the end. With 256 KiB each one was mapped anew, and its pages, too: objects of 300 KB
 * took 95 us of CPU each, with 64 KiB, which malloc() keeps and caches hold, 49, with 32 KiB 53.
 */
#define BUFFERS_BYTES (64u << 20)
#define BUFFER_MIN    (16u << 10)
#define BUFFER_MAX    (64u << 10)

/* Only requests that send something have such a buffer. */
#define SEND_BUFFER (256u << 10)

/* A rate below this for as long as the idle timeout counts as no progress. Bytes per second. */
#define SLOW 1000L

/* ---- Bodies ---- */

static bool is_good(long status)
{
	return status >= 200 && status <= 299;
}

/* Whether the answer has the requested range. */
static bool is_range(const struct s3_slot *s, long status)
{
	const struct s3_request *r = s->request;

	if (status == 206)
		return s->range_first == r->range_off;
	return r->range_off == 0; /* the whole object begins there, too */
}

static void deliver(struct s3_slot *s, const char *data, size_t len)
{
	struct s3_request *r = s->request;
	size_t n = (size_t)u64_min(len, s->left);

	if (n > 0 && r->sink)
		s->sink_rc = r->sink(r, data, n);
	r->nr_bytes += n;
	s->left -= n;
	s->client->stats.bytes_in += n;
	s->enough = n < len;
}

static size_t on_body(char *data, size_t one, size_t len, void *self)
{
	struct s3_slot *s = self;
	long status = 0;

	(void)one; /* it is 1 */
	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (!is_good(status)) {
		buf_append(&s->refusal, data,
			   (size_t)u64_min(len, S3_REFUSAL_MAX - s->refusal.len));
		s->enough = s->refusal.rc < 0 || s->refusal.len == S3_REFUSAL_MAX;
		return s->enough ? 0 : len;
	}
	if (s->request->ranged && !is_range(s, status)) {
		s->sink_rc = -EBADMSG;
		return 0;
	}
	deliver(s, data, len);
	return s->sink_rc < 0 || s->enough ? 0 : len;
}

static size_t on_send(char *out, size_t one, size_t cap, void *self)
{
	struct s3_slot *s = self;
	const struct s3_request *r = s->request;
	size_t n = (size_t)u64_min(cap, r->body_len - s->body_at);

	(void)one;
	if (n > 0)
		memcpy(out, (const char *)r->body + s->body_at, n);
	s->body_at += n;
	s->client->stats.bytes_out += n;
	return n;
}

/* A kept connection had been closed: libcurl starts again on another. */
static int on_rewind(void *self, curl_off_t to, int origin)
{
	struct s3_slot *s = self;

	if (origin != SEEK_SET || to < 0 || (uint64_t)to > s->request->body_len)
		return CURL_SEEKFUNC_FAIL;
	s->body_at = (size_t)to;
	return CURL_SEEKFUNC_OK;
}

/* ---- Headers of the answer ---- */

/* The value of header @name in @line of @len bytes, truncated at @cap; false if it is another
 * header. */
static bool header(const char *line, size_t len, const char *name, char *out, size_t cap)
{
	size_t n = strlen(name);

	if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
		return false;
	line += n + 1;
	len -= n + 1;
	while (len > 0 && (line[0] == ' ' || line[0] == '\t')) {
		line++;
		len--;
	}
	while (len > 0 && strchr(" \t\r\n", line[len - 1]))
		len--;
	if (len >= cap)
		return false;
	memcpy(out, line, len);
	out[len] = '\0';
	return true;
}

/* "bytes 0-99/1234", "bytes 0-99/ *" or "bytes * /1234" (without the spaces). */
static void take_content_range(struct s3_slot *s, const char *text)
{
	const char *slash = strchr(text, '/'), *dash = strchr(text, '-');
	uint64_t v;

	if (strncmp(text, "bytes ", 6) != 0 || !slash)
		return;
	if (dash && dash < slash && parse_digits(text + 6, (size_t)(dash - text - 6), &v) == 0)
		s->range_first = v;
	if (parse_u64(slash + 1, &v) == 0) {
		s->request->size = v;
		s->request->size_known = true;
	}
}

static void begin_answer(struct s3_slot *s)
{
	s->length = s->range_first = UINT64_MAX;
	s->retry_after = 0;
	s->server_time = 0;
	s->region[0] = s->location[0] = s->message[0] = '\0';
	s->request->etag[0] = '\0';
	s->request->size_known = false;
	buf_clear(&s->refusal);
}

size_t s3_try_header(char *line, size_t one, size_t len, void *self)
{
	struct s3_slot *s = self;
	char text[512];
	uint64_t v;

	(void)one;
	if (len >= 5 && strncmp(line, "HTTP/", 5) == 0) {
		begin_answer(s);
		s->request->first = clock_now();
	} else if (header(line, len, "etag", text, sizeof(s->request->etag))) {
		memcpy(s->request->etag, text, strlen(text) + 1);
	} else if (header(line, len, "content-length", text, sizeof(text))) {
		if (parse_u64(text, &v) == 0)
			s->length = v;
	} else if (header(line, len, "content-range", text, sizeof(text))) {
		take_content_range(s, text);
	} else if (header(line, len, "retry-after", text, sizeof(text))) {
		if (parse_u64(text, &v) == 0) /* or a date: then our own pause is used */
			s->retry_after = u64_min(v, 3600);
	} else if (header(line, len, "date", text, sizeof(text))) {
		s->server_time = (int64_t)curl_getdate(text, NULL);
	} else if (header(line, len, "x-amz-bucket-region", text, sizeof(s->region))) {
		memcpy(s->region, text, strlen(text) + 1);
	} else if (header(line, len, "location", text, sizeof(s->location))) {
		memcpy(s->location, text, strlen(text) + 1);
	}
	return len;
}

/* ---- The URL ---- */

static void append_encoded(struct buf *b, const void *data, size_t len, bool keep_slashes)
{
	uint8_t *at = buf_reserve(b, 3 * len);

	if (at)
		b->len += s3_encode((char *)at, data, len, keep_slashes);
}

/* Sorted by name, as the signature requires. Names are unique and need no encoding. */
static void append_query(struct buf *b, const struct s3_request *r)
{
	const char *last = "";

	for (size_t i = 0; i < r->nr_query; i++) {
		const struct s3_pair *next = NULL;

		for (size_t k = 0; k < r->nr_query; k++)
			if (strcmp(r->query[k].name, last) > 0 &&
			    (!next || strcmp(r->query[k].name, next->name) < 0))
				next = &r->query[k];
		if (!next)
			return;
		if (i > 0)
			buf_text(b, "&");
		append_encoded(b, next->name, strlen(next->name), false);
		buf_text(b, "=");
		append_encoded(b, next->value, next->value ? next->value_len : 0, false);
		last = next->name;
	}
}

/* Where the URL's path and query begin in its buffer; a NUL separates the two until then. */
struct url_parts {
	size_t path, query;
};

static int make_url(struct s3_slot *s, struct url_parts *ret, struct shoal_err *err)
{
	const struct s3_request *r = s->request;
	struct buf *b = &s->url;

	buf_clear(b);
	buf_text(b, s->to.tls ? "https://" : "http://");
	buf_text(b, s->to.host);
	ret->path = b->len;
	buf_text(b, "/");
	if (!s->to.bucket_in_host) {
		append_encoded(b, s->client->config->bucket, strlen(s->client->config->bucket),
			       false); /* that of a tenant contains a colon */
		buf_text(b, r->key_len > 0 ? "/" : "");
	}
	append_encoded(b, r->key, r->key_len, true);
	buf_u8(b, '\0');
	ret->query = b->len;
	append_query(b, r);
	buf_u8(b, '\0');
	if (b->rc == -EAGAIN)
		return err_set(err, -E2BIG, "the request is longer than %u bytes", S3_URL_MAX);
	return b->rc < 0 ? err_set(err, b->rc, "out of memory") : 0;
}

/* ---- Headers of the request ---- */

static void add_header(struct s3_slot *s, size_t *nr, char *line)
{
	s->headers[*nr] = (struct curl_slist){ .data = line };
	if (*nr > 0)
		s->headers[*nr - 1].next = &s->headers[*nr];
	++*nr;
}

#define DATE_HEADER  "x-amz-date: "
#define HASH_HEADER  "x-amz-content-sha256: "
#define TOKEN_HEADER "x-amz-security-token: "

static void hash_body(const struct s3_slot *s, char *out)
{
	const struct s3_request *r = s->request;

	if (r->body_len == 0)
		memcpy(out, S3_EMPTY_SHA256, sizeof(S3_EMPTY_SHA256));
	else if (s->to.tls) /* so that TLS protects it from changes in transit */
		memcpy(out, S3_UNSIGNED_PAYLOAD, sizeof(S3_UNSIGNED_PAYLOAD));
	else
		s3_sha256_hex(r->body, r->body_len, out);
}

static int add_signature(struct s3_slot *s, const struct url_parts *u, size_t *nr,
			 struct shoal_err *err)
{
	static const char *const methods[] = { "GET", "HEAD", "PUT", "POST", "DELETE" };
	const char *token = s->client->config->session_token;
	char *date = s->date + strlen(DATE_HEADER), *hash = s->hash + strlen(HASH_HEADER);
	struct s3_header signed_headers[] = { { "host", s->to.host },
					      { "x-amz-content-sha256", hash },
					      { "x-amz-date", date },
					      { "x-amz-security-token", token } };
	struct s3_canonical canonical = { .method = methods[s->request->method],
					  .path = (char *)s->url.data + u->path,
					  .query = (char *)s->url.data + u->query,
					  .headers = signed_headers,
					  .nr_headers = token ? 4 : 3,
					  .payload = hash,
					  .date = date };
	uint8_t *room;

	memcpy(s->date, DATE_HEADER, sizeof(DATE_HEADER));
	memcpy(s->hash, HASH_HEADER, sizeof(HASH_HEADER));
	s3_date(clock_time(clock_wall()).tv_sec, date);
	hash_body(s, hash);
	buf_clear(&s->authorization);
	buf_text(&s->authorization, "Authorization: ");
	room = buf_reserve(&s->authorization, S3_AUTHORIZATION);
	if (token && s->token.len == 0) {
		buf_text(&s->token, TOKEN_HEADER);
		buf_append(&s->token, token, strlen(token) + 1);
	}
	if (!room || s->token.rc < 0)
		return err_set(err, -ENOMEM, "out of memory");
	s3_sign(&s->client->signer, &canonical, (char *)room);
	add_header(s, nr, (char *)s->authorization.data);
	add_header(s, nr, s->date);
	add_header(s, nr, s->hash);
	if (token)
		add_header(s, nr, (char *)s->token.data);
	return 0;
}

static void add_conditions(struct s3_slot *s, size_t *nr)
{
	static char no_expect[] = "Expect:";
	const struct s3_request *r = s->request;

	if (r->ranged) {
		snprintf(s->range, sizeof(s->range), "Range: bytes=%" PRIu64 "-%" PRIu64,
			 r->range_off, r->range_off + (r->range_len - 1));
		add_header(s, nr, s->range);
	}
	if (r->if_match) {
		snprintf(s->match, sizeof(s->match), "If-Match: %.80s", r->if_match);
		add_header(s, nr, s->match);
	}
	if (r->body_len > 0)
		add_header(s, nr, no_expect); /* an extra round trip without benefit */
}

/* ---- A request ---- */

CURL *s3_try_handle(struct s3_slot *s)
{
	const struct s3_config *g = s->client->config;
	uint64_t buffer = BUFFERS_BYTES / s->client->in_flight;
	CURL *e = curl_easy_init();

	if (!e)
		return NULL;
	curl_easy_setopt(e, CURLOPT_PRIVATE, s);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L); /* keys may contain "/../" */
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE,
			 (long)u64_max(BUFFER_MIN, u64_min(buffer, BUFFER_MAX)));
	curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)SEND_BUFFER);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)g->connect_ms);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, SLOW);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(e, CURLOPT_READFUNCTION, on_send);
	curl_easy_setopt(e, CURLOPT_READDATA, s);
	curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, on_rewind);
	curl_easy_setopt(e, CURLOPT_SEEKDATA, s);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, s3_try_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, s);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, s->words);
	curl_easy_setopt(e, CURLOPT_USERAGENT, "shoal/" SHOAL_VERSION);
	if (g->ca_bundle) {
		curl_easy_setopt(e, CURLOPT_CAINFO, g->ca_bundle);
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	}
	return e;
}

static void set_method(CURL *e, const struct s3_request *r)
{
	curl_easy_setopt(e, CURLOPT_HTTPGET, 1L); /* resets what an earlier request has set */
	curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, NULL);
	switch (r->method) {
	case S3_GET:
		break;
	case S3_HEAD:
		curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
		break;
	case S3_POST:
	case S3_PUT:
		if (r->method == S3_POST)
			curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "POST");
		curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body_len);
		break;
	case S3_DELETE:
		curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, "DELETE");
		break;
	}
}

/* The next endpoint in turn, or the redirect's. A retry goes to the endpoint after the one that
 * failed: by the client's own turn it might reach a dead endpoint every time. */
static void choose_endpoint(struct s3_slot *s)
{
	struct s3_client *c = s->client;

	if (s->moved.host) {
		s->to = s->moved;
	} else {
		s->turn = s->request->tries == 0 ? c->turn++ : s->turn + 1;
		s->to = c->config->endpoint[s->turn % c->config->nr_endpoints];
	}
	if (!s->moved.host && c->aws_host[0])
		s->to.host = c->aws_host;
}

static void reset(struct s3_slot *s)
{
	begin_answer(s);
	s->request->nr_bytes = 0;
	s->request->status = 0;
	s->request->first = 0;
	s->body_at = 0;
	s->left = s->request->ranged ? s->request->range_len
		  : s->request->sink ? UINT64_MAX
				     : S3_REFUSAL_MAX;
	s->enough = false;
	s->sink_rc = 0;
	s->words[0] = '\0';
}

int s3_try_prepare(struct s3_slot *s, struct shoal_err *err)
{
	struct s3_request *r = s->request;
	unsigned idle_ms = r->idle_ms ? r->idle_ms : s->client->config->idle_ms;
	struct url_parts u;
	size_t nr = 0;
	int rc;

	if (r->key_len > S3_KEY_MAX)
		return err_set(err, -ENAMETOOLONG,
			       "'%.100s...' has %zu bytes, but keys have at most %d", r->key,
			       r->key_len, S3_KEY_MAX);
	reset(s);
	choose_endpoint(s);
	rc = make_url(s, &u, err);
	if (rc == 0 && !s->client->config->anonymous)
		rc = add_signature(s, &u, &nr, err);
	if (rc < 0)
		return rc;
	add_conditions(s, &nr);
	if (s->url.data[u.query])
		s->url.data[u.query - 1] = '?';
	set_method(s->easy, r);
	curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, nr > 0 ? s->headers : NULL);
	curl_easy_setopt(s->easy, CURLOPT_LOW_SPEED_TIME, (long)((idle_ms + 999) / 1000));
	r->sent = clock_now();
	if (curl_easy_setopt(s->easy, CURLOPT_URL, (char *)s->url.data) != CURLE_OK)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}
