#include "serve/address.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"

static int serve_no_address(const char *text, struct shoal_err *err)
{
	return err_set(err, -EINVAL,
		       "'%.100s' is not an IP address, ':PORT' or both, such as 127.0.0.1:9464 or "
		       "[::1]:9464",
		       text);
}

static int serve_take_port(const char *text, const char *port, uint16_t *ret_port,
			   struct shoal_err *err)
{
	uint64_t v = 0;

	if (parse_u64(port, &v) < 0)
		return serve_no_address(text, err);
	if (v > UINT16_MAX)
		return err_set(err, -EINVAL, "port %.20s is larger than 65535", port);
	*ret_port = htons((uint16_t)v);
	return 0;
}

int serve_address_parse(const char *text, struct serve_address *ret_address, struct shoal_err *err)
{
	struct sockaddr_in *v4 = &ret_address->in.v4;
	struct sockaddr_in6 *v6 = &ret_address->in.v6;
	bool bracket = *text == '[';
	const char *first = strchr(text, ':'), *port = NULL;
	char host[64];
	size_t len = strlen(text);

	memset(ret_address, 0, sizeof(*ret_address));
	if (bracket) {
		const char *end = strchr(text, ']');

		if (!end || (end[1] && end[1] != ':'))
			return serve_no_address(text, err);
		port = end[1] ? end + 2 : NULL;
		len = (size_t)(end - ++text);
	} else if (first && !strchr(first + 1, ':')) { /* with more it is an address alone */
		port = first + 1;
		len = (size_t)(first - text);
	}
	if (len >= sizeof(host))
		return serve_no_address(text, err);
	memcpy(host, text, len);
	host[len] = '\0';
	if (!*host || strcmp(host, "localhost") == 0)
		memcpy(host, "127.0.0.1", sizeof("127.0.0.1"));
	ret_address->in.any.sa_family = AF_INET;
	ret_address->len = sizeof(*v4);
	if (!bracket && inet_pton(AF_INET, host, &v4->sin_addr) == 1)
		return port ? serve_take_port(text, port, &v4->sin_port, err) : 0;
	memset(v6, 0, sizeof(*v6));
	v6->sin6_family = AF_INET6;
	ret_address->len = sizeof(*v6);
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
		return serve_no_address(text, err);
	return port ? serve_take_port(text, port, &v6->sin6_port, err) : 0;
}

bool serve_v6_is_local(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

bool serve_address_is_local(const struct serve_address *a)
{
	if (a->in.any.sa_family == AF_INET6)
		return serve_v6_is_local(&a->in.v6.sin6_addr);
	return ntohl(a->in.v4.sin_addr.s_addr) >> 24 == 127;
}

struct serve_url serve_address_url(const struct serve_address *a)
{
	struct serve_url url;
	char host[INET6_ADDRSTRLEN] = "";

	if (a->in.any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &a->in.v6.sin6_addr, host, sizeof(host));
		snprintf(url.text, sizeof(url.text), "http://[%s]:%u/", host,
			 ntohs(a->in.v6.sin6_port));
	} else {
		inet_ntop(AF_INET, &a->in.v4.sin_addr, host, sizeof(host));
		snprintf(url.text, sizeof(url.text), "http://%s:%u/", host,
			 ntohs(a->in.v4.sin_port));
	}
	return url;
}
