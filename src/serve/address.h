/* address.h - where to listen, as a user writes it. */
#ifndef SHOAL_SERVE_ADDRESS_H
#define SHOAL_SERVE_ADDRESS_H

#include <netinet/in.h>
#include <stdio.h>

#include "base/err.h"

struct serve_address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} in;
	socklen_t len;
};

struct serve_url {
	char text[80];
};

/* As serve_listen() says. No name is looked up. -EINVAL. */
int serve_address_parse(const char *text, struct serve_address *ret_address,
			struct shoal_err *err) MUST_USE;

/* The loopback; also 127.0.0.1 as an address of IPv6, ::ffff:127.0.0.1. */
bool serve_v6_is_local(const struct in6_addr *a);
bool serve_address_is_local(const struct serve_address *a);
struct serve_url serve_address_url(const struct serve_address *a);

#endif
