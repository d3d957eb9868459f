#include "store/s3/sign.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>

/* OpenSSL's old SHA256_*: deprecated, but their state is a plain structure that can be copied,
 * so that a signature needs no allocation and no lookup of the algorithm. EVP took 9 us. */
#define BLOCK 64u

static void to_hex(const uint8_t *bytes, size_t len, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		*out++ = digits[bytes[i] >> 4];
		*out++ = digits[bytes[i] & 15];
	}
	*out = '\0';
}

/* SHA256() in three steps: OpenSSL 3 has made that one a call of EVP, with all algorithms behind
 * it. In a static build that is 4 MB of code. */
static void sha256(const void *data, size_t len, uint8_t *ret)
{
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	SHA256_Update(&ctx, data, len);
	SHA256_Final(ret, &ctx);
}

void s3_sha256_hex(const void *data, size_t len, char *ret)
{
	uint8_t hash[SHA256_DIGEST_LENGTH];

	sha256(data ? data : "", len, hash);
	to_hex(hash, sizeof(hash), ret);
}

/* ---- HMAC ---- */

static void hmac_key(SHA256_CTX *inner, SHA256_CTX *outer, const void *key, size_t len)
{
	uint8_t block[BLOCK] = { 0 };

	if (len > BLOCK)
		sha256(key, len, block);
	else
		memcpy(block, key, len);
	for (size_t i = 0; i < BLOCK; i++)
		block[i] ^= 0x36;
	SHA256_Init(inner);
	SHA256_Update(inner, block, BLOCK);
	for (size_t i = 0; i < BLOCK; i++)
		block[i] ^= 0x36 ^ 0x5c;
	SHA256_Init(outer);
	SHA256_Update(outer, block, BLOCK);
	OPENSSL_cleanse(block, sizeof(block));
}

/* Of the data fed to @inner since hmac_key(). @outer is not changed. */
static void hmac_end(SHA256_CTX *inner, const SHA256_CTX *outer, uint8_t *ret)
{
	SHA256_CTX last = *outer;

	SHA256_Final(ret, inner);
	SHA256_Update(&last, ret, SHA256_DIGEST_LENGTH);
	SHA256_Final(ret, &last);
}

static void hmac(const void *key, size_t key_len, const char *text, uint8_t *ret)
{
	SHA256_CTX inner, outer;

	hmac_key(&inner, &outer, key, key_len);
	SHA256_Update(&inner, text, strlen(text));
	hmac_end(&inner, &outer, ret);
}

/* ---- The signature ---- */

void s3_signer_forget(struct s3_signer *s)
{
	s->day[0] = '\0';
	OPENSSL_cleanse(&s->inner, sizeof(s->inner));
	OPENSSL_cleanse(&s->outer, sizeof(s->outer));
}

static void derive_key(struct s3_signer *s, const char *day)
{
	uint8_t key[SHA256_DIGEST_LENGTH];
	char secret[4 + 256 + 1];
	int n = snprintf(secret, sizeof(secret), "AWS4%s", s->secret_key);

	assert(n > 0 && (size_t)n < sizeof(secret));
	hmac(secret, (size_t)n, day, key);
	hmac(key, sizeof(key), s->region, key);
	hmac(key, sizeof(key), "s3", key);
	hmac(key, sizeof(key), "aws4_request", key);
	hmac_key(&s->inner, &s->outer, key, sizeof(key));
	memcpy(s->day, day, sizeof(s->day));
	OPENSSL_cleanse(secret, sizeof(secret));
	OPENSSL_cleanse(key, sizeof(key));
}

static void sign_feed(SHA256_CTX *ctx, const char *text, const char *end)
{
	SHA256_Update(ctx, text, strlen(text));
	SHA256_Update(ctx, end, strlen(end));
}

static void hash_request(const struct s3_canonical *r, char *ret_hex)
{
	uint8_t hash[SHA256_DIGEST_LENGTH];
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	sign_feed(&ctx, r->method, "\n");
	sign_feed(&ctx, r->path, "\n");
	sign_feed(&ctx, r->query, "\n");
	for (size_t i = 0; i < r->nr_headers; i++) {
		sign_feed(&ctx, r->headers[i].name, ":");
		sign_feed(&ctx, r->headers[i].value, "\n");
	}
	sign_feed(&ctx, "", "\n");
	for (size_t i = 0; i < r->nr_headers; i++)
		sign_feed(&ctx, r->headers[i].name, i + 1 < r->nr_headers ? ";" : "\n");
	sign_feed(&ctx, r->payload, "");
	SHA256_Final(hash, &ctx);
	to_hex(hash, sizeof(hash), ret_hex);
}

void s3_sign(struct s3_signer *s, const struct s3_canonical *request, char *ret)
{
	char day[9], scope[S3_REGION_MAX + 32], hex[S3_SHA256_HEX];
	uint8_t signature[SHA256_DIGEST_LENGTH];
	SHA256_CTX inner;
	size_t at;

	assert(strlen(request->date) == S3_DATE_MAX - 1 && strlen(s->region) < S3_REGION_MAX);
	memcpy(day, request->date, 8);
	day[8] = '\0';
	if (strcmp(s->day, day) != 0)
		derive_key(s, day);
	snprintf(scope, sizeof(scope), "%s/%s/s3/aws4_request", day, s->region);
	hash_request(request, hex);
	inner = s->inner;
	sign_feed(&inner, "AWS4-HMAC-SHA256\n", request->date);
	sign_feed(&inner, "\n", scope);
	sign_feed(&inner, "\n", hex);
	hmac_end(&inner, &s->outer, signature);
	to_hex(signature, sizeof(signature), hex);
	at = (size_t)snprintf(ret, S3_AUTHORIZATION,
			      "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=", s->access_key,
			      scope);
	for (size_t i = 0; i < request->nr_headers && at < S3_AUTHORIZATION; i++)
		at += (size_t)snprintf(ret + at, S3_AUTHORIZATION - at, "%s%s", i ? ";" : "",
				       request->headers[i].name);
	assert(at + strlen(",Signature=") + sizeof(hex) < S3_AUTHORIZATION);
	snprintf(ret + at, S3_AUTHORIZATION - at, ",Signature=%s", hex);
}

/* ---- Encoding ---- */

void s3_date(time_t now, char *ret)
{
	struct tm t;

	gmtime_r(&now, &t);
	strftime(ret, S3_DATE_MAX, "%Y%m%dT%H%M%SZ", &t);
}

static bool sign_is_plain(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

size_t s3_encode(char *out, const void *data, size_t len, bool keep_slashes)
{
	static const char digits[] = "0123456789ABCDEF";
	const uint8_t *in = data;
	char *at = out;

	for (size_t i = 0; i < len; i++) {
		if (sign_is_plain(in[i]) || (in[i] == '/' && keep_slashes)) {
			*at++ = (char)in[i];
			continue;
		}
		*at++ = '%';
		*at++ = digits[in[i] >> 4];
		*at++ = digits[in[i] & 15];
	}
	return (size_t)(at - out);
}
