/*
 * s3_config.h - which server, which bucket, whose keys, and how patient to be.
 *
 * Everything comes from where the AWS tools have it: environment variables first, then the profile
 * in ~/.aws/config and ~/.aws/credentials. Options of our commands are put into the environment
 * before anything is opened (cli/s3_options.h), so that this is the one place that knows.
 *
 *   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN  keys
 *   AWS_PROFILE, AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE    where else keys are
 *   AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL   the server, or several with commas, used in turn
 *   AWS_REGION, AWS_DEFAULT_REGION          (default us-east-1)
 *   AWS_CA_BUNDLE                           a file of certificates to trust
 *   AWS_MAX_ATTEMPTS                        tries of a request, the first included
 *   SHOAL_S3_ANONYMOUS=1                    do not sign
 *   SHOAL_S3_STYLE=path|virtual             whether the bucket is in the path or the host's name
 *   SHOAL_S3_BACKOFF_MS                     longest pause before the second try (default 200)
 *   SHOAL_S3_CONNECT_TIMEOUT, SHOAL_S3_TIMEOUT   seconds: to connect; without a byte
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
	bool bucket_in_host; /* else it is in the path */
	char *host;          /* as the Host header has it, with the bucket and a port, if any */
};

struct s3_config {
	char *bucket;
	char *region;
	bool anonymous;
	char *access_key, *secret_key, *session_token; /* the last may be NULL */
	char *ca_bundle;                               /* NULL: the system's */
	struct s3_endpoint endpoint[S3_ENDPOINTS_MAX];
	unsigned nr_endpoints;
	bool aws;                /* no endpoint was given: the host's name follows the region */
	unsigned max_tries;      /* of a request, the first included */
	unsigned connect_ms;     /* to be connected */
	unsigned idle_ms;        /* without as much as a thousand bytes a second */
	unsigned give_up_ms;     /* no further try once a request took that long */
	unsigned backoff_ms;     /* before the second try, at most; doubles with each further one */
	unsigned backoff_max_ms; /* but not past this */
};

/* For @bucket, from the environment and the files it names. -EINVAL, -ENOKEY with words. */
int s3_config_new(const char *bucket, struct s3_config **ret_config,
		  struct shoal_err *err) SHOAL_MUST_USE;

/* Whether what an option says can be one, or for endpoints several with commas. -EINVAL with words.
 */
int s3_check_endpoints(const char *list, struct shoal_err *err) SHOAL_MUST_USE;
int s3_check_region(const char *region, struct shoal_err *err) SHOAL_MUST_USE;
int s3_check_style(const char *style, struct shoal_err *err) SHOAL_MUST_USE;

/* NULL is fine. Returns NULL. */
struct s3_config *s3_config_free(struct s3_config *c);

/*
 * Star out the secret key and the session token in @text, which a server sent and may have cut off:
 * what it ends with may be the start of one. Before anything else is cut off it.
 */
void s3_mask(const struct s3_config *c, char *text);

/* How much of a URL's host and port is said in a Host header; 0 when it is none. */
size_t s3_host_len(const char *host, size_t len, bool tls);

/* ---- Of the files, for tests ---- */

/*
 * Call @take with each setting of section [@section] in a file as ~/.aws/config is one: "key" or,
 * where it is indented below a key without a value, "above.key". 1 when the section is there, 0
 * when not, or what @take returned if that was not 0.
 */
int s3_ini_section(const char *text, size_t len, const char *section,
		   int (*take)(void *self, const char *key, const char *value), void *self);

#endif
