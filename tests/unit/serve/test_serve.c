/*
 * Goal: a stranger's request gets an answer or an error, whatever its bytes are and however slowly
 * they come; and no client keeps the server from answering others, or from ending.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "help.h"
#include "serve/address.h"
#include "serve/request.h"
#include "serve/serve.h"

/* ---- Requests ---- */

/* What the parser says to this text, of which it sees a copy that ends where the text ends. */
static int parse(const char *text, size_t len, struct serve_request *r)
{
	char *copy = allocate(len, 1);
	int rc;

	memcpy(copy, text, len);
	rc = serve_parse(copy, len, r);
	free(copy);
	return rc;
}

static const struct {
	const char *text;
	int rc; /* 1: good */
	const char *path;
} requests[] = {
	{ "GET / HTTP/1.1\r\nHost: localhost:9464\r\n\r\n", 1, "/" },
	{ "HEAD /metrics?a=b HTTP/1.1\r\nhost:x\r\nAccept: */*\r\n\r\n", 1, "/metrics" },
	{ "GET /a HTTP/1.0\r\n\r\n", 1, "/a" },
	{ "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 1, "/" },
	{ "GET / HTTP/1.1\r\n\r\n", -400, NULL }, /* no host */
	{ "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", -400, NULL },
	{ "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", -400, NULL },
	{ "GET / HTTP/1.1\r\nHost : a\r\n\r\n", -400, NULL },
	{ "GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n", -400, NULL },
	{ "GET / HTTP/1.1\nHost: a\n\n", -400, NULL },
	{ "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", -400, NULL },
	{ "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", -400, NULL },
	{ "GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n", -400, NULL },
	{ "GET / FTP/1.1\r\nHost: a\r\n\r\n", -400, NULL },
	{ "GET / HTTP/2.0\r\nHost: a\r\n\r\n", -505, NULL },
	{ "POST / HTTP/1.1\r\nHost: a\r\n\r\n", -405, NULL },
	{ "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", -400, NULL },
	{ "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", -400, NULL },
	{ "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n"
	  "Host: a\r\n\r\n",
	  -414, NULL },
	{ "\r\n\r\n", -400, NULL },
};

static void requests_are_what_the_protocol_allows(void **state)
{
	struct serve_request r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		size_t len = strlen(requests[i].text);
		int rc = parse(requests[i].text, len, &r);

		if (requests[i].rc < 0) {
			assert_int_equal(rc, requests[i].rc);
			continue;
		}
		assert_int_equal(rc, len);
		assert_string_equal(r.path, requests[i].path);
		assert_int_equal(r.head, requests[i].text[0] == 'H');
	}
}

/* A good request wants more at each place; a bad one wants more, or says so. */
static void a_request_may_end_anywhere(void **state)
{
	struct serve_request r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(requests); i++)
		for (size_t len = 0; len < strlen(requests[i].text); len++) {
			int rc = parse(requests[i].text, len, &r);

			assert_true(rc == 0 || (requests[i].rc < 0 && rc < 0));
		}
}

static void heads_are_bounded(void **state)
{
	static char text[2 * SERVE_HEAD_MAX];
	struct serve_request r;
	int len = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nX: ");

	(void)state;
	memset(text + len, 'x', sizeof(text) - (size_t)len);
	assert_int_equal(serve_parse(text, SERVE_HEAD_MAX - 1, &r), 0);
	assert_int_equal(serve_parse(text, SERVE_HEAD_MAX, &r), -431);
	len = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n");
	for (unsigned i = 0; i < SERVE_FIELDS_MAX; i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, "a:b\r\n");
	snprintf(text + len, sizeof(text) - (size_t)len, "\r\n");
	assert_int_equal(serve_parse(text, strlen(text), &r), -431);
}

static void names_of_other_machines_are_not_local(void **state)
{
	static const char *const local[] = { "localhost",          "LOCALHOST:80",
					     "127.0.0.1",          "127.0.0.1:9464",
					     "127.9.9.9",          "[::1]",
					     "[::1]:80",           "[0:0::1]",
					     "[::ffff:127.0.0.1]", "[::ffff:7f00:1]:9464" };
	static const char *const other[] = { "evil.example",
					     "127.0.0.1.evil.example",
					     "localhost.x",
					     "[::2]",
					     "[::1]x",
					     "10.0.0.1",
					     "[::1",
					     "[]",
					     "[::ffff:10.0.0.1]",
					     "[127.0.0.1]",
					     "127.evil" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(local); i++)
		assert_true(serve_host_is_local(local[i]));
	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		assert_false(serve_host_is_local(other[i]));
}

/* ---- Addresses ---- */

static void addresses_are_numbers(void **state)
{
	static const struct {
		const char *text, *url;
		bool local;
	} good[] = { { "", "http://127.0.0.1:0/", true },
		     { ":9464", "http://127.0.0.1:9464/", true },
		     { "localhost:1", "http://127.0.0.1:1/", true },
		     { "0.0.0.0:80", "http://0.0.0.0:80/", false },
		     { "10.1.2.3", "http://10.1.2.3:0/", false },
		     { "[::1]:80", "http://[::1]:80/", true },
		     { "::1", "http://[::1]:0/", true },
		     { "[::]", "http://[::]:0/", false },
		     { "[::ffff:127.0.0.1]:80", "http://[::ffff:127.0.0.1]:80/", true },
		     { "[::ffff:10.1.2.3]:80", "http://[::ffff:10.1.2.3]:80/", false } };
	static const char *const bad[] = {
		"example.com",   "1.2.3.4:x", "1.2.3.4:",      "[::1", "[::1]x",
		"[127.0.0.1]:1", "1.2.3",     "1.2.3.4:70000", ":-1",  " "
	};
	struct serve_address a;
	struct shoal_err err = { "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(serve_address_parse(good[i].text, &a, &err), 0);
		assert_string_equal(serve_address_url(&a).text, good[i].url);
		assert_int_equal(serve_address_is_local(&a), good[i].local);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(serve_address_parse(bad[i], &a, &err), -EINVAL);
	check_words(&err, "is not an IP address");
}

/* ---- The server ---- */

static unsigned ticks;

static void count_tick(void *self)
{
	(void)self;
	__atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
}

/* "/long" is more than the buffers of a socket hold. */
static int answer_test(void *self, const char *path, struct serve_answer *a)
{
	char block[1000] = { 0 };

	assert_ptr_equal(self, &ticks);
	a->type = "text/plain";
	memset(block, 'x', sizeof(block));
	if (strcmp(path, "/none") == 0)
		return -ENOMEM;
	if (strcmp(path, "/long") == 0)
		for (unsigned i = 0; i < 8000; i++)
			buf_append(&a->body, block, sizeof(block));
	else if (strcmp(path, "/") == 0)
		buf_text(&a->body, "hello\n");
	else
		return -ENOENT;
	return 0;
}

static int no_descriptors, nr_refused;

int __real_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
	if (!__atomic_load_n(&no_descriptors, __ATOMIC_RELAXED))
		return __real_accept4(fd, from, len, flags);
	__atomic_add_fetch(&nr_refused, 1, __ATOMIC_RELAXED);
	errno = EMFILE;
	return -1;
}

static struct serve *start(unsigned timeout_ms)
{
	struct serve_options o = {
		.answer = answer_test, .tick = count_tick, .self = &ticks, .timeout_ms = timeout_ms
	};
	struct shoal_err err = { "" };
	struct serve *s = NULL;

	assert_int_equal(serve_listen("", &s, &err), 0);
	assert_true(serve_is_local(s));
	assert_int_equal(serve_start(s, &o, &err), 0);
	return s;
}

static int connect_to(const struct serve *s)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	unsigned port = 0;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(sscanf(serve_url(s), "http://127.0.0.1:%u/", &port), 1);
	to.sin_port = htons((uint16_t)port);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void send_text(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* All that comes until the server closes, or the first @cap bytes of it. Closes. */
static size_t receive(int fd, char *to, size_t cap)
{
	size_t got = 0, nr_all = 0;
	char rest[4096];
	ssize_t nr;

	while ((nr = recv(fd, got + 1 < cap ? to + got : rest,
			  got + 1 < cap ? cap - 1 - got : sizeof(rest), 0)) > 0) {
		got += got + 1 < cap ? (size_t)nr : 0;
		nr_all += (size_t)nr;
	}
	to[got] = '\0';
	close(fd);
	return nr_all;
}

static void ask(const struct serve *s, const char *request, const char *begins, const char *ends)
{
	char answer[2048];
	int fd = connect_to(s);

	send_text(fd, request);
	receive(fd, answer, sizeof(answer));
	assert_memory_equal(answer, begins, strlen(begins));
	assert_true(strlen(answer) > strlen(ends));
	assert_string_equal(answer + strlen(answer) - strlen(ends), ends);
}

#define REST " HTTP/1.1\r\nHost: localhost\r\n\r\n"

static void answers_are_complete(void **state)
{
	struct serve *s = start(0);
	char answer[2048];
	int fd;

	(void)state;
	ask(s, "GET /" REST, "HTTP/1.1 200 OK\r\n", "\r\n\r\nhello\n");
	ask(s, "HEAD /" REST, "HTTP/1.1 200 OK\r\n", "\r\n\r\n");
	ask(s, "GET /other" REST, "HTTP/1.1 404 ", "\r\n\r\nNot Found\n");
	ask(s, "GET /none" REST, "HTTP/1.1 500 ", "Error\n");
	ask(s, "PUT /" REST, "HTTP/1.1 405 ", "Not Allowed\n");
	ask(s, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 421 ", "Request\n");
	fd = connect_to(s);
	send_text(fd, "GET /long" REST);
	assert_true(receive(fd, answer, sizeof(answer)) > 8000000);
	serve_close(s);
}

/* As many as it serves at once send nothing; the next one is answered when their time is over. */
static void clients_that_say_nothing_are_closed(void **state)
{
	struct serve *s = start(200);
	int idle[SERVE_CONNECTIONS];
	char answer[64];

	(void)state;
	for (size_t i = 0; i < SERVE_CONNECTIONS; i++) {
		idle[i] = connect_to(s);
		send_text(idle[i], "GET / HT");
	}
	ask(s, "GET /" REST, "HTTP/1.1 200 OK\r\n", "hello\n");
	for (size_t i = 0; i < SERVE_CONNECTIONS; i++)
		assert_int_equal(receive(idle[i], answer, sizeof(answer)), 0);
	serve_close(s);
}

/* It tries again with every tick, and answers when there is one. */
static void without_a_descriptor_a_client_waits_and_the_server_does_not_spin(void **state)
{
	struct serve *s = start(20000);
	char answer[64];
	unsigned before;
	int fd;

	(void)state;
	__atomic_store_n(&no_descriptors, 1, __ATOMIC_RELAXED);
	before = __atomic_load_n(&ticks, __ATOMIC_RELAXED);
	fd = connect_to(s);
	send_text(fd, "GET /" REST);
	while (__atomic_load_n(&nr_refused, __ATOMIC_RELAXED) < 4)
		usleep(1000);
	assert_true(__atomic_load_n(&ticks, __ATOMIC_RELAXED) >= before + 3);
	__atomic_store_n(&no_descriptors, 0, __ATOMIC_RELAXED);
	assert_true(receive(fd, answer, sizeof(answer)) > 0);
	assert_memory_equal(answer, "HTTP/1.1 200 OK", 15);
	serve_close(s);
}

/* Twice as many as it serves at once hold their places for an hour; others are answered. */
static void clients_that_hold_their_places_do_not_keep_others_out(void **state)
{
	struct serve *s = start(3600000);
	int idle[2 * SERVE_CONNECTIONS];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
		idle[i] = connect_to(s);
		send_text(idle[i], i % 2 ? "GET /long" REST : "GET / HT");
	}
	ask(s, "GET /" REST, "HTTP/1.1 200 OK\r\n", "hello\n");
	for (size_t i = 0; i < ARRAY_LEN(idle); i++)
		close(idle[i]);
	serve_close(s);
}

/* All places are taken, by one that does not take its answer yet, and others that ask nothing. */
static void those_that_ask_nothing_give_way_before_one_that_reads_slowly(void **state)
{
	struct serve *s = start(3600000);
	int fd[SERVE_CONNECTIONS];
	char answer[64];

	(void)state;
	fd[0] = connect_to(s);
	send_text(fd[0], "GET /long" REST);
	assert_int_equal(recv(fd[0], answer, 1, MSG_PEEK), 1); /* it is idle from here on */
	for (size_t i = 1; i < ARRAY_LEN(fd); i++)
		fd[i] = connect_to(s);
	for (size_t i = 0; i < SERVE_CONNECTIONS / 2; i++)
		ask(s, "GET /" REST, "HTTP/1.1 200 OK\r\n", "hello\n");
	assert_true(receive(fd[0], answer, sizeof(answer)) > 8000000);
	for (size_t i = 1; i < ARRAY_LEN(fd); i++)
		close(fd[i]);
	serve_close(s);
}

/* One that never takes its answer, one in the middle of its request, one that has only connected.
 */
static void ending_does_not_wait_for_clients(void **state)
{
	struct serve *s = start(3600000);
	int fd[3];
	uint64_t before;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		fd[i] = connect_to(s);
	send_text(fd[0], "GET /long" REST);
	send_text(fd[1], "GET /lo");
	ask(s, "GET /" REST, "HTTP/1.1 200 OK\r\n", "hello\n"); /* all came before this one */
	before = __atomic_load_n(&ticks, __ATOMIC_RELAXED);
	WAIT_UNTIL(__atomic_load_n(&ticks, __ATOMIC_RELAXED) > before + 1);
	assert_true(__atomic_load_n(&ticks, __ATOMIC_RELAXED) > before + 1);
	serve_close(s); /* comes back, or the test hangs */
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		close(fd[i]);
}

static void a_port_in_use_is_an_error(void **state)
{
	struct serve *s = start(0), *other = NULL;
	struct shoal_err err = { "" };
	char address[80];
	size_t len = strlen(serve_url(s));

	(void)state;
	snprintf(address, sizeof(address), "%.*s", (int)(len - strlen("http:///")),
		 serve_url(s) + strlen("http://"));
	assert_int_equal(serve_listen(address, &other, &err), -EADDRINUSE);
	check_words(&err, address);
	serve_close(s);
	assert_int_equal(serve_listen(address, &other, &err), 0); /* at once, and it never starts */
	serve_close(other);
	serve_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_what_the_protocol_allows),
		cmocka_unit_test(a_request_may_end_anywhere),
		cmocka_unit_test(heads_are_bounded),
		cmocka_unit_test(names_of_other_machines_are_not_local),
		cmocka_unit_test(addresses_are_numbers),
		cmocka_unit_test(answers_are_complete),
		cmocka_unit_test(clients_that_say_nothing_are_closed),
		cmocka_unit_test(without_a_descriptor_a_client_waits_and_the_server_does_not_spin),
		cmocka_unit_test(clients_that_hold_their_places_do_not_keep_others_out),
		cmocka_unit_test(those_that_ask_nothing_give_way_before_one_that_reads_slowly),
		cmocka_unit_test(ending_does_not_wait_for_clients),
		cmocka_unit_test(a_port_in_use_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
