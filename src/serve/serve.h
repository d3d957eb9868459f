/*
 * serve.h - a small web server for a command that is at work: one thread, a few connections, one
 * request per connection.
 *
 * Clients are strangers: GET and HEAD only, heads of at most 8 KiB, and a connection that is not
 * done after a while is closed; if others wait, one that has sent no request for 200 ms, or taken
 * nothing of its answer for two seconds. Nothing that a client does makes the command wait, and
 * stopping does not wait for clients.
 */
#ifndef SHOAL_SERVE_SERVE_H
#define SHOAL_SERVE_SERVE_H

#include "base/buf.h"
#include "base/err.h"

enum {
	SERVE_CONNECTIONS = 8, /* more wait until one of these has ended */
	SERVE_BODY_MAX = 8 << 20,
	SERVE_TICK_MS = 250,
};

struct serve_answer {
	const char *type;     /* "text/html; charset=utf-8" */
	const char *security; /* the Content-Security-Policy; NULL: nothing is allowed */
	struct buf body;      /* of at most SERVE_BODY_MAX bytes */
};

struct serve_options {
	/* Called by the server's thread for a path, "/metrics": -ENOENT if there is no such page,
	 * -ENOMEM. */
	int (*answer)(void *self, const char *path, struct serve_answer *a);
	/* Called by the same thread every SERVE_TICK_MS, or more often. May be NULL. */
	void (*tick)(void *self);
	void *self;
	unsigned timeout_ms; /* of a connection; 0: 20 s */
};

struct serve;

/*
 * Listen on @address: "", an IP address, ":PORT", or both: "10.0.0.1:9464", "[::1]:9464",
 * "localhost:9464". Without an address on the loopback; without a port, or with port 0, on any that
 * is free. -EINVAL: it is no address; or the system's error, such as -EADDRINUSE.
 */
int serve_check(const char *address, struct shoal_err *err) MUST_USE; /* -EINVAL only */
int serve_listen(const char *address, struct serve **ret_s, struct shoal_err *err) MUST_USE;

/* "http://127.0.0.1:9464/", lent. */
const char *serve_url(const struct serve *s);

/* Whether only this machine reaches it. */
bool serve_is_local(const struct serve *s);

/* Start the thread. @o is copied. */
int serve_start(struct serve *s, const struct serve_options *o, struct shoal_err *err) MUST_USE;

/* End the thread, without waiting for clients, and close. NULL is fine. Returns NULL. */
struct serve *serve_close(struct serve *s);

#endif
