#include "serve/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/queue.h"
#include "serve/address.h"
#include "serve/request.h"

#define TIMEOUT_MS 20000u
#define DRAIN_MS   1000u
#define IDLE_MS    2000u
#define SILENT_MS  200u

/* What a connection does. */
enum client_state {
	CLIENT_READS,  /* its request comes in */
	CLIENT_WRITES, /* its answer goes out */
	CLIENT_DRAINS, /* all was sent: what it still sends is thrown away until it closes */
};

struct client {
	int fd; /* -1: this place is free */
	enum client_state state;
	uint64_t until; /* it is closed then, in ms */
	uint64_t moved; /* when it connected, or took a part of its answer */
	char head[SERVE_HEAD_MAX];
	size_t got;
	struct buf out;
	size_t sent;
};

struct serve {
	int fd, wake; /* the listening socket; an eventfd that ends the thread */
	bool local, started;
	bool refused; /* there is no memory or descriptor for a connection: not before the next tick
		       */
	struct serve_url url;
	struct serve_options o;
	pthread_t thread;
	struct client client[SERVE_CONNECTIONS]; /* 8 KiB each */
};

static uint64_t now_ms(void)
{
	return clock_now() / 1000000u;
}

/* ---- Answers ---- */

static const struct {
	int status;
	const char *words;
} reasons[] = {
	{ 200, "OK" },
	{ 400, "Bad Request" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 414, "URI Too Long" },
	{ 421, "Misdirected Request" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 505, "HTTP Version Not Supported" },
};

static const char *reason_of(int status)
{
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].words;
	return "Error";
}

static void serve_put_head(struct buf *out, int status, const struct serve_answer *a)
{
	char head[1024];
	int len = snprintf(head, sizeof(head),
			   "HTTP/1.1 %d %s\r\n"
			   "Content-Type: %s\r\n"
			   "Content-Length: %zu\r\n"
			   "Connection: close\r\n"
			   "Cache-Control: no-store\r\n"
			   "Content-Security-Policy: %s\r\n"
			   "Referrer-Policy: no-referrer\r\n"
			   "X-Content-Type-Options: nosniff\r\n"
			   "X-Frame-Options: DENY\r\n"
			   "%s\r\n",
			   status, reason_of(status), a->type, a->body.len,
			   a->security ? a->security : "default-src 'none'",
			   status == 405 ? "Allow: GET, HEAD\r\n" : "");

	buf_append(out, head, (size_t)len);
}

/* @status is 200, or of an error: then its words are the body. */
static void client_answer(struct client *c, int status, bool head, struct serve_answer *a)
{
	if (status != 200) {
		a->type = "text/plain; charset=utf-8";
		a->security = NULL;
		buf_clear(&a->body);
		buf_text(&a->body, reason_of(status));
		buf_text(&a->body, "\n");
	}
	serve_put_head(&c->out, status, a);
	if (!head)
		buf_append(&c->out, a->body.data, a->body.len);
	c->state = CLIENT_WRITES;
}

static void answer_request(const struct serve *s, struct client *c, int rc,
			   const struct serve_request *r)
{
	struct serve_answer a = { .body = { .max = SERVE_BODY_MAX } };
	int status = rc < 0 ? -rc : 200;

	c->out = (struct buf){ .max = SERVE_BODY_MAX + 1024 };
	if (status == 200 && s->local && !serve_host_is_local(r->host))
		status = 421;
	if (status == 200) {
		rc = s->o.answer(s->o.self, r->path, &a);
		status = rc == -ENOENT ? 404 : rc < 0 || a.body.rc < 0 ? 500 : 200;
	}
	client_answer(c, status, r->head, &a);
	buf_release(&a.body);
}

/* ---- Connections ---- */

static void client_close(struct client *c)
{
	close(c->fd);
	c->fd = -1;
	buf_release(&c->out);
	c->out = (struct buf){ .data = NULL };
}

/* When its place may be given to another: a request comes with the connection, or right after. */
static uint64_t client_idle_from(const struct client *c)
{
	return c->moved + (c->state == CLIENT_READS ? SILENT_MS : IDLE_MS);
}

/* A place for a new client at @now: a free one, or that of the client that has been idle longest.
 * So clients that only hold their places cannot keep others out. */
static struct client *find_place(struct serve *s, uint64_t now)
{
	struct client *oldest = &s->client[0];

	for (size_t i = 0; i < SERVE_CONNECTIONS; i++) {
		if (s->client[i].fd < 0)
			return &s->client[i];
		if (client_idle_from(&s->client[i]) < client_idle_from(oldest))
			oldest = &s->client[i];
	}
	return now >= client_idle_from(oldest) ? oldest : NULL;
}

static void serve_accept(struct serve *s, uint64_t now)
{
	struct client *c;

	while ((c = find_place(s, now))) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			/* It stays readable, and to wait for it would keep a core busy. */
			s->refused = errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
				     errno == ENOBUFS;
			return;
		}
		if (c->fd >= 0)
			client_close(c);
		c->fd = fd;
		c->state = CLIENT_READS;
		c->got = c->sent = 0;
		c->until = now + s->o.timeout_ms;
		c->moved = now;
	}
}

static void client_read(const struct serve *s, struct client *c)
{
	struct serve_request r;
	ssize_t nr = recv(c->fd, c->head + c->got, sizeof(c->head) - c->got, 0);
	int rc;

	if (nr < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (nr <= 0) {
		client_close(c);
		return;
	}
	c->got += (size_t)nr;
	rc = serve_parse(c->head, c->got, &r);
	if (rc != 0)
		answer_request(s, c, rc, &r);
}

static void client_write(struct client *c)
{
	ssize_t nr = 0;

	if (c->out.rc < 0) { /* no memory */
		client_close(c);
		return;
	}
	nr = send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
	if (nr < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (nr < 0) {
		client_close(c);
		return;
	}
	c->sent += (size_t)nr;
	c->moved = now_ms();
	if (c->sent < c->out.len)
		return;
	/* To close while it sends would make its system throw away what it has not read. */
	shutdown(c->fd, SHUT_WR);
	buf_release(&c->out);
	c->out = (struct buf){ .data = NULL };
	c->state = CLIENT_DRAINS;
	c->until = u64_min(c->until, now_ms() + DRAIN_MS);
}

static void client_drain(struct client *c)
{
	ssize_t nr = recv(c->fd, c->head, sizeof(c->head), 0);

	if (nr == 0 || (nr < 0 && errno != EAGAIN && errno != EINTR))
		client_close(c);
}

static void client_go_on(const struct serve *s, struct client *c, short events)
{
	if (c->state == CLIENT_READS && (events & (POLLIN | POLLHUP | POLLERR)))
		client_read(s, c);
	else if (c->state == CLIENT_DRAINS && events)
		client_drain(c);
	/* What was answered can most often be sent at once. */
	if (c->fd >= 0 && c->state == CLIENT_WRITES)
		client_write(c);
}

/* ---- The thread ---- */

/* How long to wait: until the next tick, until a connection's time is over, or until another can
 * have its place. */
static int serve_wait_ms(const struct serve *s, uint64_t now, uint64_t tick)
{
	uint64_t until = tick;

	for (size_t i = 0; i < SERVE_CONNECTIONS; i++) {
		const struct client *c = &s->client[i];

		if (c->fd >= 0)
			until = u64_min(until, c->until);
		if (c->fd >= 0 && client_idle_from(c) > now)
			until = u64_min(until, client_idle_from(c));
	}
	return until > now ? (int)(until - now) : 0;
}

/* The sockets to wait for: [0] ends it, [1] are new connections, then one for each client. */
static void serve_fill(struct serve *s, uint64_t now, struct pollfd *set)
{
	set[0] = (struct pollfd){ .fd = s->wake, .events = POLLIN };
	for (size_t i = 0; i < SERVE_CONNECTIONS; i++) {
		const struct client *c = &s->client[i];

		set[2 + i] =
			(struct pollfd){ .fd = c->fd,
					 .events = c->state == CLIENT_WRITES ? POLLOUT : POLLIN };
	}
	set[1] = (struct pollfd){ .fd = !s->refused && find_place(s, now) ? s->fd : -1,
				  .events = POLLIN };
}

static void *serve_run(void *arg)
{
	struct serve *s = arg;
	struct pollfd set[2 + SERVE_CONNECTIONS];
	uint64_t now = now_ms(), tick = now;

	for (;;) {
		serve_fill(s, now, set);
		if (poll(set, ARRAY_LEN(set), serve_wait_ms(s, now, tick)) < 0 && errno != EINTR)
			break;
		if (set[0].revents)
			break;
		now = now_ms();
		if (now >= tick) {
			tick = now + SERVE_TICK_MS;
			s->refused = false;
			if (s->o.tick)
				s->o.tick(s->o.self);
		}
		for (size_t i = 0; i < SERVE_CONNECTIONS; i++) {
			struct client *c = &s->client[i];

			if (c->fd >= 0 && set[2 + i].revents)
				client_go_on(s, c, set[2 + i].revents);
			if (c->fd >= 0 && now >= c->until)
				client_close(c);
		}
		if (set[1].revents)
			serve_accept(s, now);
	}
	return NULL;
}

/* ---- Opening and closing ---- */

static int serve_bind(struct serve *s, const char *text, struct shoal_err *err)
{
	struct serve_address a;
	int on = 1, rc = serve_address_parse(text, &a, err);

	if (rc < 0)
		return rc;
	s->local = serve_address_is_local(&a);
	s->url = serve_address_url(&a);
	s->fd = socket(a.in.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return err_set_errno(err, err_errno(), "cannot make a socket");
	/* A port whose last user has just ended can be used again. */
	(void)setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(s->fd, &a.in.any, a.len) < 0 || listen(s->fd, 64) < 0 ||
	    getsockname(s->fd, &a.in.any, &a.len) < 0)
		return err_set_errno(err, err_errno(), "cannot listen on %s", s->url.text);
	s->url = serve_address_url(&a);
	s->wake = eventfd(0, EFD_CLOEXEC);
	return s->wake < 0 ? err_set_errno(err, err_errno(), "cannot make an eventfd") : 0;
}

int serve_check(const char *address, struct shoal_err *err)
{
	struct serve_address a;

	return serve_address_parse(address, &a, err);
}

int serve_listen(const char *address, struct serve **ret_s, struct shoal_err *err)
{
	struct serve *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->fd = s->wake = -1;
	for (size_t i = 0; i < SERVE_CONNECTIONS; i++)
		s->client[i].fd = -1;
	rc = serve_bind(s, address, err);
	if (rc < 0)
		serve_close(s);
	else
		*ret_s = s;
	return rc;
}

const char *serve_url(const struct serve *s)
{
	return s->url.text;
}

bool serve_is_local(const struct serve *s)
{
	return s->local;
}

int serve_start(struct serve *s, const struct serve_options *o, struct shoal_err *err)
{
	int rc;

	s->o = *o;
	if (s->o.timeout_ms == 0)
		s->o.timeout_ms = TIMEOUT_MS;
	rc = thread_start(&s->thread, serve_run, s);
	if (rc < 0)
		return err_set_errno(err, rc, "cannot start the thread of the server");
	s->started = true;
	return 0;
}

struct serve *serve_close(struct serve *s)
{
	const uint64_t one = 1;

	if (!s)
		return NULL;
	if (s->started) {
		(void)!write(s->wake, &one, sizeof(one));
		pthread_join(s->thread, NULL);
	}
	for (size_t i = 0; i < SERVE_CONNECTIONS; i++)
		if (s->client[i].fd >= 0)
			client_close(&s->client[i]);
	if (s->fd >= 0)
		close(s->fd);
	if (s->wake >= 0)
		close(s->wake);
	free(s);
	return NULL;
}
