#include "serve/request.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "serve/address.h"

/* The characters of methods and names of fields. */
static bool is_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static size_t token_len(const char *at, size_t len)
{
	size_t n = 0;

	while (n < len && is_token(at[n]))
		n++;
	return n;
}

/* The length of the line at @at, without its end; SIZE_MAX if its end is not there. */
static size_t line_len(const char *at, size_t left)
{
	const char *end = memchr(at, '\n', left);

	return end && end > at && end[-1] == '\r' ? (size_t)(end - at) - 1
	       : end                              ? (size_t)(end - at)
						  : SIZE_MAX;
}

/* "/path?query": the path. */
static int take_target(const char *at, size_t len, struct serve_request *r)
{
	const char *query;
	size_t path;

	for (size_t i = 0; i < len; i++)
		if (at[i] <= 0x20 || at[i] >= 0x7f)
			return -400;
	if (len == 0 || at[0] != '/')
		return -400;
	query = memchr(at, '?', len);
	path = query ? (size_t)(query - at) : len;
	if (path > SERVE_PATH_MAX)
		return -414;
	memcpy(r->path, at, path);
	r->path[path] = '\0';
	return 0;
}

/* "GET /path HTTP/1.1" */
static int take_first_line(const char *at, size_t len, struct serve_request *r, bool *ret_old)
{
	size_t method = token_len(at, len);
	const char *target = at + method + 1, *version;
	size_t left;
	int rc;

	if (method == 0 || method >= len || at[method] != ' ')
		return -400;
	left = len - method - 1;
	version = memchr(target, ' ', left);
	if (!version)
		return -400;
	rc = take_target(target, (size_t)(version - target), r);
	if (rc < 0)
		return rc;
	version++;
	left = len - (size_t)(version - at);
	if (left != 8 || memcmp(version, "HTTP/", 5) != 0 || version[6] != '.')
		return -400;
	if (version[5] != '1' || version[7] < '0' || version[7] > '9')
		return -505;
	*ret_old = version[7] == '0';
	r->head = method == 4 && memcmp(at, "HEAD", 4) == 0;
	return r->head || (method == 3 && memcmp(at, "GET", 3) == 0) ? 0 : -405;
}

struct fields {
	unsigned nr, nr_hosts;
	int status; /* of the first line: reported once the whole head is there */
};

static bool serve_is_named(const char *at, size_t len, const char *name)
{
	return len == strlen(name) && strncasecmp(at, name, len) == 0;
}

/* "Name: value" */
static int take_field(const char *at, size_t len, struct fields *f, struct serve_request *r)
{
	size_t name = token_len(at, len), left;
	const char *value = at + name + 1;

	if (name == 0 || name >= len || at[name] != ':')
		return -400;
	if (++f->nr > SERVE_FIELDS_MAX)
		return -431;
	for (left = len - name - 1; left > 0 && (*value == ' ' || *value == '\t'); left--)
		value++;
	while (left > 0 && (value[left - 1] == ' ' || value[left - 1] == '\t'))
		left--;
	for (size_t i = 0; i < left; i++)
		if (((unsigned char)value[i] < 0x20 && value[i] != '\t') || value[i] == 0x7f)
			return -400;
	if (serve_is_named(at, name, "Host")) {
		if (f->nr_hosts++ > 0 || left > SERVE_HOST_MAX)
			return -400;
		memcpy(r->host, value, left);
		r->host[left] = '\0';
	}
	/* A body would be taken for the next request, if there were one. */
	if (serve_is_named(at, name, "Transfer-Encoding") ||
	    (serve_is_named(at, name, "Content-Length") && !(left == 1 && *value == '0')))
		return -400;
	return 0;
}

int serve_parse(const char *data, size_t len, struct serve_request *ret_request)
{
	struct fields f = { 0 };
	bool old = false;
	size_t at = 0, line;
	int rc = 0;

	*ret_request = (struct serve_request){ .head = false };
	for (unsigned nr = 0;; nr++) {
		line = line_len(data + at, len - at);
		if (line == SIZE_MAX)
			return len >= SERVE_HEAD_MAX ? -431 : 0;
		if (at + line + 2 > SERVE_HEAD_MAX)
			return -431;
		if (data[at + line] != '\r')
			return -400;
		if (nr > 0 && line == 0)
			break;
		if (nr == 0) {
			f.status = take_first_line(data, line, ret_request, &old);
			if (f.status == -400)
				return -400;
		} else {
			rc = take_field(data + at, line, &f, ret_request);
			if (rc < 0)
				return rc;
		}
		at += line + 2;
	}
	if (f.status < 0)
		return f.status;
	return !old && f.nr_hosts == 0 ? -400 : (int)(at + 2);
}

bool serve_host_is_local(const char *host)
{
	struct in6_addr v6;
	char text[INET6_ADDRSTRLEN];
	size_t len;

	if (*host == '\0')
		return true; /* HTTP/1.0: no browser */
	if (*host == '[') {
		len = strcspn(++host, "]");
		if (len >= sizeof(text) || host[len] != ']' ||
		    (host[len + 1] && host[len + 1] != ':'))
			return false;
		memcpy(text, host, len);
		text[len] = '\0';
		return inet_pton(AF_INET6, text, &v6) == 1 && serve_v6_is_local(&v6);
	}
	len = strcspn(host, ":");
	if (len == 9 && strncasecmp(host, "localhost", 9) == 0)
		return true;
	return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == len;
}
