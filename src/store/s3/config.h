/*
 * config.h - the server, the bucket, the keys, and the limits of time and tries.
 *
 * Values missing in the caller's struct shoal_store_config are taken from where the AWS tools keep
 * them: environment variables first, then the profile in ~/.aws/config and ~/.aws/credentials. This
 * is the one place that reads them:
 *
 *   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN  keys
 *   AWS_PROFILE, AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE    where else keys are
 *   AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL   the server, or several separated by commas, used in
 * turn AWS_REGION, AWS_DEFAULT_REGION          (default us-east-1) AWS_CA_BUNDLE a file of
 * certificates to trust AWS_MAX_ATTEMPTS                        tries of a request, the first
 * included SHOAL_S3_ANONYMOUS=1                    do not sign SHOAL_S3_STYLE=path|virtual whether
 * the bucket is in the path or the host's name SHOAL_S3_BACKOFF_MS                     longest
 * pause before the second try (default 200) SHOAL_S3_CONNECT_TIMEOUT, SHOAL_S3_TIMEOUT   seconds:
 * to connect; without a byte
 *   SHOAL_S3_LOOPS   event loops that read objects (default: as many as are busy)
 *
 * A configuration is immutable once made, and may be shared by threads. It holds a secret: nothing
 * here prints it, and it is wiped when freed.
 */
#ifndef SHOAL_STORE_S3_CONFIG_H
#define SHOAL_STORE_S3_CONFIG_H

#include "base/err.h"

#define S3_ENDPOINTS_MAX 64
#define S3_TOKEN_MAX     8192 /* bytes of a session token */
#define S3_KEY_MAX       1024 /* bytes of an object's key, as S3 has it */

struct s3_endpoint {
	bool tls;
	bool bucket_in_host; /* otherwise it is in the path */
	char *host;          /* as in the Host header, with the bucket and a port, if any */
};

struct s3_config {
	char *bucket;
	char *region;
	bool anonymous;
	char *access_key, *secret_key, *session_token; /* the last may be NULL */
	char *ca_bundle;                               /* NULL: the system's */
	struct s3_endpoint endpoint[S3_ENDPOINTS_MAX];
	unsigned nr_endpoints;
	bool aws;            /* no endpoint was given: the host name depends on the region */
	unsigned max_tries;  /* of a request, the first included */
	unsigned connect_ms; /* to be connected */
	unsigned idle_ms;    /* with less than a thousand bytes per second */
	unsigned give_up_ms; /* no retry once a request took that long */
	unsigned
		backoff_ms; /* maximum pause before the second try; doubles with each further one */
	unsigned backoff_max_ms; /* up to this */
	unsigned loops;          /* event loops that read objects; 0: as many as are busy */
};

/* For @bucket, from @given (or NULL), the environment and the files it names. -EINVAL, -ENOKEY
 * with a message. */
int s3_config_new(const char *bucket, const struct shoal_store_config *given,
		  struct s3_config **ret_config, struct shoal_err *err) MUST_USE;

/* Whether the given values are valid by themselves. -EINVAL, -ENOKEY with a message. */
int s3_config_check(const struct shoal_store_config *given, struct shoal_err *err) MUST_USE;

/* @c may be NULL. Returns NULL. */
struct s3_config *s3_config_free(struct s3_config *c);

/* Mask the secret key and the session token in @text, which a server sent and may have
 * truncated: its end may be the start of a secret. Call it before truncating the text further. */
void s3_mask(const struct s3_config *c, char *text);

/* The length of a URL's host and port for the Host header; 0 if it is malformed. */
size_t s3_host_len(const char *host, size_t len, bool tls);

/* ---- Of the files, for tests ---- */

/*
 * Call @take with each setting of section [@section] in a file like ~/.aws/config: "key" or, if
 * it is indented below a key without a value, "above.key". 1 if the section exists, 0 if not, or
 * a nonzero result of @take.
 */
int s3_ini_section(const char *text, size_t len, const char *section,
		   int (*take)(void *self, const char *key, const char *value), void *self);

#endif
