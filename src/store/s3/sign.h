/*
 * sign.h - AWS Signature Version 4, and the encoding that it is computed over.
 *
 * Not libcurl's signature, because that depends on its version. This is pure computation: no call
 * fails or allocates. A signer belongs to one thread; it caches the part that depends only on the
 * day and the region, which is two thirds of the work.
 */
#ifndef SHOAL_STORE_S3_SIGN_H
#define SHOAL_STORE_S3_SIGN_H

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <time.h>

#include "base/base.h"

#define S3_UNSIGNED_PAYLOAD "UNSIGNED-PAYLOAD"
#define S3_EMPTY_SHA256     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define S3_SHA256_HEX       65 /* bytes, with the NUL */
#define S3_DATE_MAX         17 /* "20130524T000000Z" */
#define S3_REGION_MAX       64
#define S3_AUTHORIZATION    640 /* maximum length of an Authorization header's value */
#define S3_ACCESS_KEY_MAX   128

/* A header that is signed: its name in lower case, its value without spaces around it. */
struct s3_header {
	const char *name, *value;
};

/* All encoded as sent; query and headers sorted by name. */
struct s3_canonical {
	const char *method, *path, *query;
	const struct s3_header *headers;
	size_t nr_headers;
	const char *payload; /* the body's hash in hex, or S3_UNSIGNED_PAYLOAD */
	const char *date;    /* as s3_date() makes it */
};

struct s3_signer {
	const char *access_key, *secret_key; /* lent */
	const char *region;                  /* lent; s3_signer_forget() after it changed */
	char day[9];                         /* for which the two states are valid; "" for none */
	SHA256_CTX inner, outer;             /* of an HMAC with that day's key */
};

/* The value of the Authorization header, into @ret of S3_AUTHORIZATION bytes. */
void s3_sign(struct s3_signer *s, const struct s3_canonical *request, char *ret);

void s3_signer_forget(struct s3_signer *s);

/* The SHA-256 of @data in hex, into @ret of S3_SHA256_HEX bytes. */
void s3_sha256_hex(const void *data, size_t len, char *ret);

void s3_date(time_t now, char *ret); /* of S3_DATE_MAX bytes */

/* Encode @data with %XX for all but letters, digits, "-._~" and, if they are kept, slashes, into
 * @out, which has room for 3 * @len bytes. Returns the length. No NUL is added. */
size_t s3_encode(char *out, const void *data, size_t len, bool keep_slashes);

#endif
