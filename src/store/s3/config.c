#include "store/s3/config.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/out.h"
#include "base/text.h"
#include "store/s3/sign.h"

#define FILE_MAX_BYTES (1u << 20)
#define SECRET_MAX     256u

#define REGION         "us-east-1"
#define MAX_TRIES      5u
#define CONNECT_MS     5000u
#define IDLE_MS        30000u
#define GIVE_UP_MS     90000u
#define BACKOFF_MS     200u
#define BACKOFF_MAX_MS 10000u
#define LOOPS_MAX      64u

/* Settings from files; each is used only if it is not set yet. */
struct profile {
	char *access_key, *secret_key, *session_token, *region, *endpoint, *ca_bundle, *style;
	char *services; /* the section with more settings of it */
	char *source;   /* a setting that selects a source of keys which is not supported */
	bool found;
};

/* ---- Freeing ---- */

static void wipe(char *secret)
{
	if (secret)
		OPENSSL_cleanse(secret, strlen(secret));
	free(secret);
}

static void release_endpoints(struct s3_config *c)
{
	for (unsigned i = 0; i < c->nr_endpoints; i++)
		free(c->endpoint[i].host);
}

struct s3_config *s3_config_free(struct s3_config *c)
{
	if (!c)
		return NULL;
	release_endpoints(c);
	free(c->bucket);
	free(c->region);
	free(c->access_key);
	wipe(c->secret_key);
	wipe(c->session_token);
	free(c->ca_bundle);
	free(c);
	return NULL;
}

/* A shorter prefix of a secret reveals nothing, and may well end an ordinary word. */
#define MASK_MIN 4u

static void mask(char *text, const char *secret)
{
	size_t len = secret ? strlen(secret) : 0, n = strlen(text);
	char *end = text + n;

	/* Continue after the replacement: a secret of stars only would be found again for ever. */
	for (char *at = text; len > 0 && (at = strstr(at, secret)) != NULL; at += len)
		memset(at, '*', len);
	for (n = u64_min(n, len); n >= MASK_MIN; n--)
		if (memcmp(end - n, secret, n) == 0)
			memset(end - n, '*', n);
}

void s3_mask(const struct s3_config *c, char *text)
{
	mask(text, c->secret_key);
	mask(text, c->session_token);
}

static void profile_release(struct profile *p)
{
	free(p->access_key);
	wipe(p->secret_key);
	wipe(p->session_token);
	free(p->region);
	wipe(p->endpoint); /* it may contain a password by mistake */
	free(p->ca_bundle);
	free(p->style);
	free(p->services);
	free(p->source);
}

/* ---- The files ---- */

/* Ways to obtain keys that are not supported. */
static bool is_source(const char *key)
{
	static const char *const sources[] = { "credential_process",      "sso_session",
					       "sso_start_url",           "role_arn",
					       "web_identity_token_file", "login_session" };

	for (size_t i = 0; i < ARRAY_LEN(sources); i++)
		if (strcmp(key, sources[i]) == 0)
			return true;
	return false;
}

static int config_take_setting(void *self, const char *key, const char *value)
{
	struct profile *p = self;
	const struct {
		const char *key;
		char **to;
	} known[] = {
		{ "aws_access_key_id", &p->access_key },
		{ "aws_secret_access_key", &p->secret_key },
		{ "aws_session_token", &p->session_token },
		{ "region", &p->region },
		{ "endpoint_url", &p->endpoint },
		{ "s3.endpoint_url", &p->endpoint },
		{ "ca_bundle", &p->ca_bundle },
		{ "s3.addressing_style", &p->style },
		{ "services", &p->services },
	};

	if (is_source(key) && !p->source) {
		p->source = strdup(key);
		return p->source ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(key, known[i].key) != 0 || *known[i].to)
			continue;
		*known[i].to = strdup(value);
		return *known[i].to ? 0 : -ENOMEM;
	}
	return 0;
}

/* The file's text, for the caller to wipe; NULL if it does not exist: with a message if it
 * should. */
static int read_text(const char *path, char **ret_text, size_t *ret_len, struct shoal_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc = 0;
	struct stat st;
	char *text = NULL;

	*ret_text = NULL;
	*ret_len = 0;
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0)
		return err_set_errno(err, err_errno(), "cannot open '%.200s'", path);
	if (fstat(fd, &st) < 0)
		rc = err_set_errno(err, err_errno(), "cannot read '%.200s'", path);
	else if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES)
		rc = err_set(err, -EINVAL, "'%.200s' is not a file of AWS settings", path);
	else if (!(text = malloc((size_t)st.st_size + 1)))
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0) {
		rc = pread_all(fd, text, (size_t)st.st_size, 0);
		if (rc < 0)
			err_set_errno(err, rc, "cannot read '%.200s'", path);
	}
	close(fd);
	if (rc < 0) {
		if (text)
			OPENSSL_cleanse(text, (size_t)st.st_size);
		free(text);
		return rc;
	}
	*ret_text = text;
	*ret_len = (size_t)st.st_size;
	return 0;
}

/* Read the section's settings, if the file exists. */
static int read_section(struct profile *p, const char *path, const char *section,
			struct shoal_err *err)
{
	size_t len;
	char *text;
	int rc = read_text(path, &text, &len, err);

	if (rc < 0 || !text)
		return rc;
	rc = s3_ini_section(text, len, section, config_take_setting, p);
	OPENSSL_cleanse(text, len);
	free(text);
	if (rc < 0)
		return err_set(err, rc, "out of memory");
	p->found = p->found || rc == 1;
	return 0;
}

static const char *env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static const char *given_or_env(const char *given, const char *name)
{
	return given ? given : env(name);
}

/* The path in @variable, or ~/.aws/@name. NULL if there is no home directory. The caller frees
 * it. */
static int file_path(const char *variable, const char *name, char **ret_path)
{
	const char *said = env(variable), *home = env("HOME");

	*ret_path = NULL;
	if (said)
		*ret_path = strdup(said);
	else if (home && asprintf(ret_path, "%s/.aws/%s", home, name) < 0)
		*ret_path = NULL;
	return *ret_path || (!said && !home) ? 0 : -ENOMEM;
}

static int read_config_file(struct profile *p, const char *path, const char *name,
			    struct shoal_err *err)
{
	char section[300];
	int rc;

	snprintf(section, sizeof(section), "%s%.250s",
		 strcmp(name, "default") == 0 ? "" : "profile ", name);
	rc = read_section(p, path, section, err);
	if (rc == 0 && p->services) {
		struct profile more = { 0 };

		snprintf(section, sizeof(section), "services %.250s", p->services);
		rc = read_section(&more, path, section, err);
		if (rc == 0 && more.endpoint) { /* it is for S3 only, and so has precedence */
			wipe(p->endpoint);
			p->endpoint = more.endpoint;
			more.endpoint = NULL;
		}
		profile_release(&more);
	}
	return rc;
}

static int read_profile(struct profile *p, const struct shoal_store_config *given,
			struct shoal_err *err)
{
	const char *name = given_or_env(given->profile, "AWS_PROFILE");
	char *credentials = NULL, *config = NULL;
	int rc = file_path("AWS_SHARED_CREDENTIALS_FILE", "credentials", &credentials);

	if (rc == 0)
		rc = file_path("AWS_CONFIG_FILE", "config", &config);
	if (rc < 0)
		err_set(err, rc, "out of memory");
	if (rc == 0 && credentials)
		rc = read_section(p, credentials, name ? name : "default", err);
	if (rc == 0 && config)
		rc = read_config_file(p, config, name ? name : "default", err);
	/* A name from the environment does not matter if the keys are given. */
	if (rc == 0 && name && !p->found &&
	    (given->profile || (!given->access_key && !given->anonymous)))
		rc = err_set(err, -ENOKEY, "there is no profile '%.100s' in %.200s or %.200s", name,
			     credentials ? credentials : "~/.aws/credentials",
			     config ? config : "~/.aws/config");
	free(credentials);
	free(config);
	return rc;
}

/* ---- Keys ---- */

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

/* The message never shows their content. */
static int check_keys(const struct s3_config *c, struct shoal_err *err)
{
	if (strlen(c->access_key) >= S3_ACCESS_KEY_MAX || !is_printable(c->access_key))
		return err_set(err, -ENOKEY, "malformed access key");
	if (strlen(c->secret_key) > SECRET_MAX || !is_printable(c->secret_key))
		return err_set(err, -ENOKEY, "malformed secret key");
	if (c->session_token &&
	    (strlen(c->session_token) > S3_TOKEN_MAX || !is_printable(c->session_token)))
		return err_set(err, -ENOKEY, "malformed session token");
	return 0;
}

static int copy_keys(struct s3_config *c, const char *access, const char *secret, const char *token,
		     struct shoal_err *err)
{
	c->access_key = strdup(access);
	c->secret_key = strdup(secret);
	c->session_token = token ? strdup(token) : NULL;
	if (!c->access_key || !c->secret_key || (token && !c->session_token))
		return err_set(err, -ENOMEM, "out of memory");
	return check_keys(c, err);
}

/* Keys and token come from one source: a token from another source belongs to other keys. */
static int check_given_keys(const struct shoal_store_config *given, struct shoal_err *err)
{
	bool access = given->access_key, secret = given->secret_key;

	if (access != secret)
		return err_set(err, -ENOKEY, "%s key is given, and %s key is not",
			       access ? "an access" : "a secret",
			       access ? "the secret" : "the access");
	if (given->session_token && !access)
		return err_set(err, -ENOKEY, "a session token is given without its keys");
	return 0;
}

static int find_keys(struct s3_config *c, const struct shoal_store_config *given,
		     const struct profile *p, struct shoal_err *err)
{
	bool environment = !given->profile; /* a user who names a profile wants its keys */
	const char *access = environment ? env("AWS_ACCESS_KEY_ID") : NULL;
	const char *secret = environment ? env("AWS_SECRET_ACCESS_KEY") : NULL;
	const char *anonymous = env("SHOAL_S3_ANONYMOUS");
	int rc = check_given_keys(given, err);

	if (rc < 0)
		return rc;
	if (given->access_key && !given->anonymous)
		return copy_keys(c, given->access_key, given->secret_key, given->session_token,
				 err);
	c->anonymous =
		given->anonymous || (environment && anonymous && strcmp(anonymous, "0") != 0);
	if (c->anonymous)
		return 0;
	if (!access != !secret)
		return err_set(err, -ENOKEY, "%s is set, but %s is not",
			       access ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
			       access ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
	if (access)
		return copy_keys(c, access, secret, env("AWS_SESSION_TOKEN"), err);
	if (p->access_key && p->secret_key)
		return copy_keys(c, p->access_key, p->secret_key, p->session_token, err);
	if (p->source)
		return err_set(err, -ENOKEY,
			       "the profile takes its keys from %.60s, which is not supported: "
			       "export AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
			       "AWS_SESSION_TOKEN",
			       p->source);
	return err_set_hint(err, -ENOKEY, SHOAL_HINT_ANONYMOUS,
			    "no keys found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
			    "write a profile to ~/.aws/credentials");
}

/* ---- Endpoints ---- */

/* Whether the bucket's name may be part of a host name, even with TLS certificates. */
static bool fits_host(const char *bucket, bool tls)
{
	size_t len = strlen(bucket);

	if (len < 3 || len > 63 || !isalnum((unsigned char)bucket[0]) ||
	    !isalnum((unsigned char)bucket[len - 1]))
		return false;
	for (const char *p = bucket; *p; p++)
		if (!(islower((unsigned char)*p) || isdigit((unsigned char)*p) || *p == '-' ||
		      (*p == '.' && !tls)))
			return false;
	return true;
}

enum style { STYLE_AUTO, STYLE_PATH, STYLE_VIRTUAL };

static int take_style(const char *said, enum style *ret_style, struct shoal_err *err)
{
	if (!said || strcmp(said, "auto") == 0)
		*ret_style = STYLE_AUTO;
	else if (strcmp(said, "path") == 0)
		*ret_style = STYLE_PATH;
	else if (strcmp(said, "virtual") == 0)
		*ret_style = STYLE_VIRTUAL;
	else
		return err_set(err, -EINVAL,
			       "'%.60s' is not a way to address a bucket: use auto, path or "
			       "virtual",
			       said);
	return 0;
}

/* The characters of a host, a port or an IPv6 address. */
static bool is_authority(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr(".-_:[]", text[i]))
			return false;
	return len > 0 && len <= 255;
}

/* The default port is left out: servers sign the Host header that libcurl sends. */
static size_t without_default_port(const char *host, size_t len, bool tls)
{
	const char *port = tls ? ":443" : ":80";
	size_t n = strlen(port);

	return len > n && memcmp(host + len - n, port, n) == 0 ? len - n : len;
}

size_t s3_host_len(const char *host, size_t len, bool tls)
{
	return is_authority(host, len) ? without_default_port(host, len, tls) : 0;
}

static int add_endpoint(struct s3_config *c, const char *url, size_t len, enum style style,
			struct shoal_err *err)
{
	struct s3_endpoint *e = &c->endpoint[c->nr_endpoints];
	const char *host = url;
	size_t scheme = 0;

	if (len >= 8 && strncasecmp(url, "https://", 8) == 0)
		scheme = 8;
	else if (len >= 7 && strncasecmp(url, "http://", 7) == 0)
		scheme = 7;
	host += scheme;
	len -= scheme;
	while (len > 0 && host[len - 1] == '/')
		len--;
	if (memchr(host, '@', len)) /* it is not shown: it may contain a password */
		return err_set(err, -EINVAL,
			       "an endpoint must not contain a user and password: keys come "
			       "from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile");
	if (!scheme || !is_authority(host, len))
		return err_set(err, -EINVAL,
			       "'%.*s' is not an endpoint: write http:// or https://, a host "
			       "and, if necessary, a port",
			       (int)u64_min(len + scheme, 200), url);
	if (c->nr_endpoints == S3_ENDPOINTS_MAX)
		return err_set(err, -EINVAL, "more than %d endpoints", S3_ENDPOINTS_MAX);
	e->tls = scheme == 8;
	len = without_default_port(host, len, e->tls);
	e->bucket_in_host = style == STYLE_VIRTUAL;
	if (asprintf(&e->host, "%s%s%.*s", e->bucket_in_host ? c->bucket : "",
		     e->bucket_in_host ? "." : "", (int)len, host) < 0) {
		e->host = NULL;
		return err_set(err, -ENOMEM, "out of memory");
	}
	for (char *p = e->host; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	c->nr_endpoints++;
	return 0;
}

/* Between commas. */
static int add_endpoints(struct s3_config *c, const char *list, enum style style,
			 struct shoal_err *err)
{
	int rc = 0;

	for (const char *at = list; *at && rc == 0;) {
		size_t len = strcspn(at, ",");
		size_t front = strspn(at, " ");

		if (front < len)
			rc = add_endpoint(c, at + front, len - front, style, err);
		at += len + (at[len] == ',');
	}
	if (rc == 0 && c->nr_endpoints == 0)
		rc = err_set(err, -EINVAL, "'%.100s' contains no endpoint", list);
	return rc;
}

static int check_endpoints(const char *list, struct shoal_err *err)
{
	struct s3_config c = { .nr_endpoints = 0 };
	int rc = add_endpoints(&c, list, STYLE_PATH, err);

	release_endpoints(&c);
	return rc;
}

static int find_endpoints(struct s3_config *c, const struct shoal_store_config *given,
			  const struct profile *p, struct shoal_err *err)
{
	const char *list = given_or_env(given->endpoint, "AWS_ENDPOINT_URL_S3");
	const char *said = given_or_env(given->bucket_style, "SHOAL_S3_STYLE");
	char aws[S3_REGION_MAX + 64];
	enum style style = STYLE_AUTO;
	int rc = take_style(said ? said : p->style, &style, err);

	if (rc < 0)
		return rc;
	list = list ? list : env("AWS_ENDPOINT_URL");
	list = list ? list : p->endpoint;
	if (list)
		return add_endpoints(c, list, style, err);
	c->aws = true;
	if (style == STYLE_AUTO)
		style = fits_host(c->bucket, true) ? STYLE_VIRTUAL : STYLE_PATH;
	snprintf(aws, sizeof(aws), "https://s3.%s.amazonaws.com%s", c->region,
		 strncmp(c->region, "cn-", 3) == 0 ? ".cn" : "");
	return add_endpoint(c, aws, strlen(aws), style, err);
}

/* ---- Regions, numbers and all together ---- */

static int check_region(const char *region, struct shoal_err *err)
{
	if (strlen(region) >= S3_REGION_MAX || !is_authority(region, strlen(region)))
		return err_set(err, -EINVAL, "'%.100s' is not a region", region);
	return 0;
}

static int find_region(struct s3_config *c, const struct shoal_store_config *given,
		       const struct profile *p, struct shoal_err *err)
{
	const char *region = given_or_env(given->region, "AWS_REGION");
	int rc;

	region = region ? region : env("AWS_DEFAULT_REGION");
	region = region ? region : p->region;
	region = region ? region : REGION;
	rc = check_region(region, err);
	if (rc < 0)
		return rc;
	c->region = strdup(region);
	return c->region ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int find_ca(struct s3_config *c, const struct shoal_store_config *given,
		   const struct profile *p, struct shoal_err *err)
{
	const char *ca = given_or_env(given->ca_file, "AWS_CA_BUNDLE");

	ca = ca ? ca : p->ca_bundle;
	if (!ca)
		return 0;
	if (access(ca, R_OK) < 0)
		return err_set_errno(err, err_errno(), "cannot read the certificates '%.300s'", ca);
	c->ca_bundle = strdup(ca);
	return c->ca_bundle ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* A number from 1 to max, by the name of its field and its variable. */
struct number {
	const char *field, *variable;
	unsigned given, max, scale, otherwise;
	unsigned *to;
};

#define NUMBERS 5u

static void list_numbers(struct s3_config *c, const struct shoal_store_config *given,
			 struct number ret_numbers[NUMBERS])
{
	const struct number numbers[NUMBERS] = {
		{ "max_tries", "AWS_MAX_ATTEMPTS", given->max_tries, 100, 1, MAX_TRIES,
		  &c->max_tries },
		{ "connect_timeout", "SHOAL_S3_CONNECT_TIMEOUT", given->connect_timeout, 3600, 1000,
		  CONNECT_MS, &c->connect_ms },
		{ "timeout", "SHOAL_S3_TIMEOUT", given->timeout, 3600, 1000, IDLE_MS, &c->idle_ms },
		{ "backoff_ms", "SHOAL_S3_BACKOFF_MS", given->backoff_ms, 60000, 1, BACKOFF_MS,
		  &c->backoff_ms },
		{ "loops", "SHOAL_S3_LOOPS", /* given= */ 0, LOOPS_MAX, 1, 0, &c->loops },
	};

	memcpy(ret_numbers, numbers, sizeof(numbers));
}

static int check_number(const struct number *n, struct shoal_err *err)
{
	if (n->given > n->max)
		return err_set(err, -EINVAL, "%s must be 1 to %u, not %u", n->field, n->max,
			       n->given);
	return 0;
}

static int find_number(const struct number *n, struct shoal_err *err)
{
	const char *text = env(n->variable);
	uint64_t v = n->given;
	int rc = check_number(n, err);

	*n->to = n->otherwise;
	if (rc < 0 || (v == 0 && !text))
		return rc;
	if (v == 0 && (parse_u64(text, &v) < 0 || v < 1 || v > n->max))
		return err_set(err, -EINVAL, "%s must be 1 to %u, not '%.40s'", n->variable, n->max,
			       text);
	*n->to = (unsigned)v * n->scale;
	return 0;
}

static int find_patience(struct s3_config *c, const struct shoal_store_config *given,
			 struct shoal_err *err)
{
	struct number numbers[NUMBERS];
	int rc = 0;

	list_numbers(c, given, numbers);
	for (size_t i = 0; rc == 0 && i < NUMBERS; i++)
		rc = find_number(&numbers[i], err);
	c->give_up_ms = (unsigned)u64_max(GIVE_UP_MS, 3 * (uint64_t)c->idle_ms);
	c->backoff_max_ms = BACKOFF_MAX_MS;
	return rc;
}

/* Without the environment, which may add missing values, or be invalid itself. */
int s3_config_check(const struct shoal_store_config *given, struct shoal_err *err)
{
	struct s3_config c = { .nr_endpoints = 0 };
	struct number numbers[NUMBERS];
	enum style style;
	int rc = given->endpoint ? check_endpoints(given->endpoint, err) : 0;

	if (rc == 0 && given->region)
		rc = check_region(given->region, err);
	if (rc == 0 && given->bucket_style)
		rc = take_style(given->bucket_style, &style, err);
	if (rc == 0)
		rc = check_given_keys(given, err);
	list_numbers(&c, given, numbers);
	for (size_t i = 0; rc == 0 && i < NUMBERS; i++)
		rc = check_number(&numbers[i], err);
	return rc;
}

static int config_check_bucket(const char *bucket, struct shoal_err *err)
{
	size_t len = strlen(bucket);

	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)bucket[i]) && !strchr(".-_:", bucket[i]))
			len = 0;
	if (len < 1 || len > 255)
		return err_set(err, -EINVAL,
			       "'%.100s' is not a bucket name: write s3://bucket/prefix", bucket);
	return 0;
}

int s3_config_new(const char *bucket, const struct shoal_store_config *given,
		  struct s3_config **ret_config, struct shoal_err *err)
{
	static const struct shoal_store_config none;
	struct profile p = { 0 };
	struct s3_config *c;
	int rc = config_check_bucket(bucket, err);

	if (rc < 0)
		return rc;
	given = given ? given : &none;
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->bucket = strdup(bucket);
	if (!c->bucket)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = read_profile(&p, given, err);
	if (rc == 0)
		rc = find_keys(c, given, &p, err);
	if (rc == 0)
		rc = find_region(c, given, &p, err);
	if (rc == 0)
		rc = find_ca(c, given, &p, err);
	if (rc == 0)
		rc = find_endpoints(c, given, &p, err);
	if (rc == 0)
		rc = find_patience(c, given, err);
	profile_release(&p);
	if (rc < 0) {
		s3_config_free(c);
		return rc;
	}
	*ret_config = c;
	return 0;
}
