/* Judging an answer: whether it is good, whether to retry, and the message for the user. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/text.h"
#include "store/s3/client_private.h"
#include "store/s3/xml.h"

/* ---- Messages ---- */

/* Length limit of a message, so that it fits with the key and the number of tries. */
#define WORDS_MAX 500

/* Set the message "'a/key': words", with the number of tries. Returns @rc. */
static int PRINTF_LIKE(3, 4) answer_fail(struct s3_slot *s, int rc, const char *fmt, ...)
{
	const struct s3_request *r = s->request;
	const struct s3_config *g = s->client->config;
	char words[sizeof(r->err->msg)], tries[40] = "";
	va_list args;
	int len;

	if (!r->err)
		return rc;
	va_start(args, fmt);
	len = vsnprintf(words, sizeof(words), fmt, args);
	va_end(args);
	err_hint(r->err, SHOAL_HINT_NONE, 0);
	s3_mask(g, words); /* host names come from the server as well */
	if (len > WORDS_MAX) {
		words[WORDS_MAX] = '\0';
		text_mark_truncated(words);
	}
	if (r->tries > 1)
		snprintf(tries, sizeof(tries), " (tried %u times)", r->tries);
	if (r->key_len > 0)
		snprintf(r->err->msg, sizeof(r->err->msg), "'%.*s': %.*s%s",
			 (int)u64_min(r->key_len, 200), r->key, WORDS_MAX, words, tries);
	else
		snprintf(r->err->msg, sizeof(r->err->msg), "bucket '%.100s': %.*s%s", g->bucket,
			 WORDS_MAX, words, tries);
	return rc;
}

/* "NoSuchKey (The specified key does not exist)", or the status if there is nothing else. */
static const char *reason(const struct s3_slot *s, char *out, size_t cap)
{
	const struct s3_request *r = s->request;

	if (r->code[0] && s->message[0])
		snprintf(out, cap, "%s (%s)", r->code, s->message);
	else if (r->code[0])
		snprintf(out, cap, "%s", r->code);
	else if (r->method == S3_HEAD && r->status == 403)
		snprintf(out, cap, "wrong keys, or no permission (status 403)");
	else
		snprintf(out, cap, "status %d", r->status);
	return out;
}

/* ---- Whether to retry ---- */

static enum s3_verdict again_if_allowed(struct s3_slot *s)
{
	struct s3_client *c = s->client;
	const struct s3_request *r = s->request;

	if (r->tries >= c->config->max_tries || c->budget < 1.0)
		return S3_ENDED;
	if ((clock_now() - r->started) / 1000000 >= c->config->give_up_ms)
		return S3_ENDED;
	if (r->nr_bytes > 0 && r->sink && !r->again)
		return S3_ENDED;
	c->budget -= 1.0;
	return S3_AGAIN;
}

/* ---- Redirects ---- */

/* The bucket is in another region: sign for that one from now on. False if that was known. */
static bool adopt_region(struct s3_slot *s)
{
	struct s3_client *c = s->client;
	const struct s3_endpoint *e = &c->config->endpoint[0];

	if (!s->region[0] || c->config->anonymous || s->hops >= S3_HOPS_MAX)
		return false;
	for (const char *p = s->region; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", *p))
			return false;
	s->hops++;
	if (strcmp(s->region, c->region) == 0) /* set by another request meanwhile */
		return s->hops == 1;
	memcpy(c->region, s->region, sizeof(c->region));
	s3_signer_forget(&c->signer);
	if (c->config->aws)
		snprintf(c->aws_host, sizeof(c->aws_host), "%.256s%ss3.%s.amazonaws.com%s",
			 e->bucket_in_host ? c->config->bucket : "", e->bucket_in_host ? "." : "",
			 c->region, strncmp(c->region, "cn-", 3) == 0 ? ".cn" : "");
	return true;
}

/* Whether a path's first part is the bucket. */
static bool begins_with(const char *path, const char *bucket, size_t len)
{
	return path[0] == '/' && strncmp(path + 1, bucket, len) == 0 && strchr("/?", path[1 + len]);
}

/* The length of a host without its port: "[::1]:80" is an IPv6 address. */
static size_t host_alone(const char *host, size_t len)
{
	const char *end =
		len > 0 && host[0] == '[' ? memchr(host, ']', len) : memchr(host, ':', len);

	return end ? (size_t)(end - host) : len;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
	size_t end_len = strlen(end);

	return len >= end_len && strncasecmp(text + len - end_len, end, end_len) == 0;
}

/*
 * Whether @host and @other have the same operator, judged by their names: a signature and a
 * session token must not go to anyone else. They have if they are the same host, at any port; if
 * @other is in the same domain as @host, and that is more than a top-level domain; or if both
 * are Amazon's.
 */
static bool same_operator(const char *host, const char *other, size_t other_len)
{
	size_t len = host_alone(host, strlen(host));
	const char *domain = memchr(host, '.', len);
	char below[256];

	other_len = host_alone(other, other_len);
	if (len == other_len && strncasecmp(host, other, len) == 0)
		return true;
	if (ends_with(host, len, ".amazonaws.com") && ends_with(other, other_len, ".amazonaws.com"))
		return true;
	if (len == 0 || len >= sizeof(below) || !domain || host[0] == '[' ||
	    isdigit((unsigned char)host[len - 1]) ||
	    !memchr(domain + 1, '.', len - (size_t)(domain + 1 - host)))
		return false;
	snprintf(below, sizeof(below), "%.*s", (int)(len - (size_t)(domain - host)), domain);
	return ends_with(other, other_len, below);
}

/* A redirect: the same request goes to another host, signed for it. Never from TLS to a host
 * without it, and only to a host that looks like the same operator's. */
static bool adopt_location(struct s3_slot *s)
{
	const char *bucket = s->client->config->bucket, *host = s->location, *path;
	bool tls = strncasecmp(host, "https://", 8) == 0;
	char spelt[3 * 255];
	size_t spelt_len = s3_encode(spelt, bucket, u64_min(strlen(bucket), 255), false);
	size_t len, said;

	if (!tls && strncasecmp(host, "http://", 7) != 0)
		return false;
	host += tls ? 8 : 7;
	len = strcspn(host, "/?#");
	path = host + len;
	said = s3_host_len(host, len, tls);
	if (said == 0 || said >= sizeof(s->place) || s->hops >= S3_HOPS_MAX || (s->to.tls && !tls))
		return false;
	if (!s->client->config->anonymous && !same_operator(s->to.host, host, said))
		return false;
	s->hops++;
	memmove(s->place, host, said);
	s->place[said] = '\0';
	for (char *p = s->place; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
	s->moved = (struct s3_endpoint){ .tls = tls, .host = s->place };
	s->moved.bucket_in_host =
		!begins_with(path, bucket, strlen(bucket)) && !begins_with(path, spelt, spelt_len);
	return true;
}

static enum s3_verdict redirected(struct s3_slot *s)
{
	struct s3_request *r = s->request;

	if (adopt_region(s) || adopt_location(s))
		return S3_AGAIN_AT_ONCE;
	s3_mask(s->client->config, s->location);
	if (s->location[0]) {
		r->rc = answer_fail(s, -EIO,
				    "the server redirects to '%.200s', which is not followed",
				    s->location);
		err_hint(r->err, SHOAL_HINT_ENDPOINT, 0);
	} else
		r->rc = answer_fail(s, -EIO,
				    "the server redirects elsewhere (status %d): use the bucket's "
				    "own endpoint and region",
				    r->status);
	return S3_ENDED;
}

/* ---- Refusals ---- */

static void read_refusal(struct s3_slot *s)
{
	struct s3_request *r = s->request;
	char region[S3_REGION_MAX];
	struct s3_xml_field fields[] = {
		{ .path = "Error/Code", .text = r->code, .cap = sizeof(r->code) },
		{ .path = "Error/Message", .text = s->message, .cap = sizeof(s->message) },
		{ .path = "Error/Region", .text = region, .cap = sizeof(region) },
	};

	r->code[0] = s->message[0] = '\0';
	if (s->refusal.len == 0)
		return;
	/* Damaged XML may contain a message before the damage: it is used. */
	if (s3_xml_find(s->refusal.data, s->refusal.len, fields, ARRAY_LEN(fields)) < 0 &&
	    !fields[0].found)
		return;
	/* A server may echo the request: keys must not be shown to the user. */
	s3_mask(s->client->config, r->code);
	s3_mask(s->client->config, s->message);
	/* Mask now: truncated text that ends in dots does not look like the start of a key. */
	if (fields[0].cut)
		text_mark_truncated(r->code);
	if (fields[1].cut)
		text_mark_truncated(s->message);
	if (fields[2].found && !s->region[0])
		memcpy(s->region, region, sizeof(region));
}

static bool is_throttle(const struct s3_request *r)
{
	return r->status == 429 || r->status == 503 || strcmp(r->code, "SlowDown") == 0;
}

static bool is_transient(const struct s3_request *r)
{
	static const char *const codes[] = { "RequestTimeout", "InternalError", "SlowDown",
					     "OperationAborted" };

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (strcmp(r->code, codes[i]) == 0)
			return true;
	return is_throttle(r) || r->status == 408 || r->status == 500 || r->status == 502 ||
	       r->status == 504;
}

/* The codes that users can do something about. */
static const struct {
	const char *code;
	int rc;
	const char *words;
} known[] = {
	{ "NoSuchKey", -ENOENT, "it does not exist" },
	{ "NoSuchUpload", -ENOENT, "the upload no longer exists" },
	{ "SignatureDoesNotMatch", -EACCES,
	  "the server rejected the signature: the secret key does not "
	  "belong to the access key, or the region is wrong" },
	{ "InvalidAccessKeyId", -EACCES, "the server does not know the access key" },
	{ "ExpiredToken", -EACCES, "the session token has expired: get a new one" },
	{ "InvalidToken", -EACCES, "the server does not know the session token" },
	{ "AccessDenied", -EACCES, "no permission" },
	{ "QuotaExceeded", -EDQUOT, "the quota is exhausted" },
	{ "PreconditionFailed", -ESTALE, "object changed since it was listed (ETag mismatch)" },
	{ "InvalidRange", -ERANGE, "it ends before the requested range" },
};

static int say_clock(struct s3_slot *s)
{
	int64_t off = s->server_time > 0 ? clock_time(clock_wall()).tv_sec - s->server_time : 0;

	if (off == 0)
		return answer_fail(s, -EACCES,
				   "the clocks of this machine and the server differ too much");
	return answer_fail(s, -EACCES,
			   "the clock of this machine is %" PRId64
			   " s %s the server's, too far for requests to be accepted",
			   off < 0 ? -off : off, off < 0 ? "behind" : "ahead of");
}

static int say_status(struct s3_slot *s)
{
	const struct s3_request *r = s->request;
	char why[320];

	switch (r->status) {
	case 404:
		return answer_fail(s, -ENOENT,
				   r->code[0] ? "it does not exist: %s" : "it does not exist",
				   reason(s, why, sizeof(why)));
	case 401:
	case 403:
		return answer_fail(s, -EACCES, "the server refused: %s",
				   reason(s, why, sizeof(why)));
	case 412:
		return answer_fail(s, -ESTALE,
				   "object changed since it was listed (ETag mismatch)");
	case 416:
		return answer_fail(s, -ERANGE, "it ends before the requested range");
	case 507:
		return answer_fail(s, -ENOSPC, "the server is full: %s",
				   reason(s, why, sizeof(why)));
	case 429:
	case 503:
		return answer_fail(s, -EBUSY, "the server throttles requests: %s",
				   reason(s, why, sizeof(why)));
	default:
		return answer_fail(s, -EIO, "the server failed: %s", reason(s, why, sizeof(why)));
	}
}

static int say_refusal(struct s3_slot *s)
{
	const struct s3_request *r = s->request;

	if (strcmp(r->code, "NoSuchBucket") == 0)
		return answer_fail(s, -ENXIO, "there is no bucket '%.100s' at %.200s",
				   s->client->config->bucket, s->to.host);
	if (strcmp(r->code, "RequestTimeTooSkewed") == 0)
		return say_clock(s);
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(r->code, known[i].code) == 0)
			return s->message[0] ? answer_fail(s, known[i].rc, "%s (%s: %s)",
							   known[i].words, r->code, s->message)
					     : answer_fail(s, known[i].rc, "%s (%s)",
							   known[i].words, r->code);
	return say_status(s);
}

static enum s3_verdict answer_refused(struct s3_slot *s)
{
	struct s3_request *r = s->request;

	read_refusal(s);
	if (is_throttle(r)) {
		r->throttled++;
		s->client->stats.nr_throttled++;
	}
	if (r->status >= 300 && r->status <= 308)
		return redirected(s);
	if ((r->status == 400 || r->status == 403) && s->region[0] &&
	    strcmp(s->region, s->client->region) != 0 && adopt_region(s))
		return S3_AGAIN_AT_ONCE;
	if (is_transient(r) && again_if_allowed(s) == S3_AGAIN)
		return S3_AGAIN;
	r->rc = say_refusal(s);
	return S3_ENDED;
}

/* ---- No answer, or an incomplete one ---- */

#define TOO_LARGE 100 /* CURLE_TOO_LARGE, from version 8.6 on */

/* libcurl accepts lines of 100 KB and 300 KB of headers. Its error for more depends on its
 * version: for a long line it is "out of memory", as if it were ours. */
static bool is_header_too_long(const struct s3_slot *s, CURLcode code)
{
	curl_off_t begun = 0;

	curl_easy_getinfo(s->easy, CURLINFO_STARTTRANSFER_TIME_T, &begun);
	if (begun <= 0 || s->request->nr_bytes > 0 || s->refusal.len > 0)
		return false;
	return (int)code == CURLE_OUT_OF_MEMORY || (int)code == TOO_LARGE ||
	       strstr(s->words, "Too large response headers");
}

static int say_broken(struct s3_slot *s, CURLcode code)
{
	const struct s3_request *r = s->request;
	const char *host = s->to.host, *words = s->words[0] ? s->words : curl_easy_strerror(code);
	unsigned idle_ms = r->idle_ms ? r->idle_ms : s->client->config->idle_ms;
	long os = 0;

	switch ((int)code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return answer_fail(s, -EHOSTUNREACH, "there is no host '%.200s'", host);
	case CURLE_COULDNT_CONNECT:
		curl_easy_getinfo(s->easy, CURLINFO_OS_ERRNO, &os);
		if (os == EMFILE)
			return answer_fail(
				s, -EMFILE,
				"too many open files in this process: raise its limit (ulimit -n)");
		return answer_fail(s, -ECONNREFUSED, "cannot connect to %.200s: %.200s", host,
				   words);
	case CURLE_OPERATION_TIMEDOUT:
		if (r->first == 0 && strstr(words, "onnect"))
			return answer_fail(s, -ETIMEDOUT, "cannot connect to %.200s within %u s",
					   host, s->client->config->connect_ms / 1000);
		return answer_fail(s, -ETIMEDOUT, "no%s response from %.200s for %u s",
				   r->first ? " further" : "", host, idle_ms / 1000);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		answer_fail(s, -EPROTO, "the certificate of %.200s is not trusted: %.200s", host,
			    words);
		err_hint(r->err, SHOAL_HINT_CA, 0);
		return -EPROTO;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
		return answer_fail(s, -EPROTO, "TLS with %.200s failed: %.200s", host, words);
	case CURLE_OUT_OF_MEMORY:
		return answer_fail(s, -ENOMEM, "out of memory");
	default:
		return answer_fail(s, -EBADMSG, "the response of %.200s ended early: %.200s", host,
				   words);
	}
}

static bool is_transient_break(CURLcode code)
{
	switch ((int)code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_PARTIAL_FILE:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL: /* an answer that is not HTTP */
		return true;
	default:
		return false;
	}
}

static enum s3_verdict broken(struct s3_slot *s, CURLcode code)
{
	struct s3_request *r = s->request;

	if (s->sink_rc == -EBADMSG && r->ranged && r->nr_bytes == 0)
		r->rc = answer_fail(s, -EBADMSG, "the server sent other bytes than requested");
	else if (s->sink_rc < 0)
		r->rc = s->sink_rc; /* the function that returned it has set the message */
	else if (is_header_too_long(s, code))
		r->rc = answer_fail(s, -EBADMSG,
				    "the response of %.200s has a header that is too long",
				    s->to.host);
	else if (is_transient_break(code) && again_if_allowed(s) == S3_AGAIN)
		return S3_AGAIN;
	else
		r->rc = say_broken(s, code);
	return S3_ENDED;
}

/* A range that is shorter than the object: without a length it may have ended anywhere. */
static bool is_whole(const struct s3_slot *s)
{
	const struct s3_request *r = s->request;
	uint64_t want;

	if (r->method == S3_HEAD || !r->ranged || s->enough || !r->size_known)
		return true;
	want = r->size > r->range_off ? u64_min(r->range_len, r->size - r->range_off) : 0;
	return r->nr_bytes == want;
}

/* A server that does not support If-Match sends any version: its ETag is compared. */
static bool answer_etag_differs(const struct s3_request *r)
{
	return r->if_match && r->etag[0] == '"' && strcmp(r->etag, r->if_match) != 0;
}

static enum s3_verdict answered(struct s3_slot *s)
{
	struct s3_request *r = s->request;

	if (answer_etag_differs(r)) {
		r->rc = answer_fail(s, -ESTALE,
				    "object changed since it was listed (ETag mismatch)");
		return S3_ENDED;
	}
	if (!r->size_known && s->length != UINT64_MAX && r->status == 200) {
		r->size = s->length;
		r->size_known = true;
	}
	if (!is_whole(s)) {
		if (again_if_allowed(s) == S3_AGAIN)
			return S3_AGAIN;
		r->rc = answer_fail(s, -EBADMSG, "the response of %.200s ended early", s->to.host);
		return S3_ENDED;
	}
	r->rc = 0;
	return S3_ENDED;
}

enum s3_verdict s3_try_judge(struct s3_slot *s, CURLcode code)
{
	struct s3_request *r = s->request;
	long status = 0;

	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	r->status = (int)status;
	r->code[0] = '\0';
	if (r->first)
		histogram_add(&s->client->stats.first_ns, r->first - r->sent);
	if (code != CURLE_OK && !(s->enough && code == CURLE_WRITE_ERROR))
		return broken(s, code);
	if (r->status >= 200 && r->status <= 299)
		return answered(s);
	return answer_refused(s);
}
