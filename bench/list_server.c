/*
 * list_server: an S3 server that has any number of keys and stores none of them.
 *
 *	list_server --keys N [--shape hex|uuid|sequential|zipf|dates|numbers] [--size BYTES]
 *		    [--delay-ms MS] [--bucket NAME] [--port PORT] [--prefixes P] [--etags]
 *
 * Keys are computed from their rank (list_keys.h), and a start-after is looked up by bisection, so
 * that 10^9 keys take as much memory as ten. One thread, epoll, HTTP/1.1 with keep-alive. Answers
 *ListObjectsV2 (prefix, start-after, continuation-token, max-keys, delimiter, encoding-type), and
 *GET (with ranges) and HEAD of an object, which has --size bytes. Signatures are not looked at. GET
 * /stats answers with counts of requests as lines of text. Prints "port N" once it listens, and
 *ends when its standard input does, so that it cannot outlive who started it. With --etags each key
 *has an ETag of its own, which ends in its rank; of every seventh it is one of parts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "list_keys.h"

#define KEY_MAX     LIST_KEY_MAX
#define REQUEST_MAX 16384
#define PAGE_KEYS   1000
#define PAGE_BYTES  (512u << 10) /* a page of PAGE_KEYS of our keys is about half of that */
#define BLOCK       (1u << 20)   /* what objects are made of */

static struct list_keys all;

static struct {
	enum list_shape shape;
	uint64_t keys, size, delay_ns;
	unsigned nr_prefixes;
	const char *bucket;
	uint16_t port;
	bool etags;
} set = { .keys = 1000000, .size = 16384, .nr_prefixes = 4096, .bucket = "bench" };

static struct {
	uint64_t nr_lists, nr_probes, nr_empty, nr_keys, nr_gets, nr_bytes;
	uint64_t in_flight, in_flight_max;
	/* When the first request came and the last answer went; in flight, times nanoseconds. */
	uint64_t first_ns, last_ns, changed_ns, busy_ns;
} stats;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- Connections ---- */

struct connection {
	int fd;
	size_t in_len, out_len, out_at;
	uint64_t body_left; /* of an object, from the block */
	uint64_t body_at;
	uint64_t ready_ns; /* when a delayed answer may go, or 0 */
	bool busy, watched;
	struct connection *next; /* of those that wait */
	char in[REQUEST_MAX];
	char out[PAGE_BYTES];
};

static int poll_fd;
static uint8_t *block;
static struct connection *waiting, **waiting_end = &waiting;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One more request in flight, or one less. */
static void count_flight(struct connection *c, bool busy)
{
	uint64_t now = now_ns();

	if (c->busy == busy || (busy && strncmp(c->in, "GET /stats ", 11) == 0))
		return; /* who asks for it is not counted */
	c->busy = busy;

	if (stats.in_flight > 0)
		stats.busy_ns += stats.in_flight * (now - stats.changed_ns);
	stats.changed_ns = stats.last_ns = now;
	stats.in_flight += busy ? 1 : UINT64_MAX;
	if (stats.in_flight > stats.in_flight_max)
		stats.in_flight_max = stats.in_flight;
	if (stats.first_ns == 0)
		stats.first_ns = now;
}

static void watch(struct connection *c, bool for_output)
{
	struct epoll_event e = { .events = for_output ? EPOLLOUT : EPOLLIN, .data.ptr = c };

	if (c->watched == for_output)
		return;
	c->watched = for_output;
	epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void forget(struct connection *c)
{
	for (struct connection **p = &waiting; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			if (!*p)
				waiting_end = p;
			break;
		}
	if (c->busy)
		count_flight(c, false);
	close(c->fd);
	free(c);
}

/* ---- Answers ---- */

static void answer(struct connection *c, const char *status, const char *type, const char *body,
		   size_t len)
{
	int head = snprintf(c->out, sizeof(c->out),
			    "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
			    status, type, len);

	memcpy(c->out + head, body, len);
	c->out_len = (size_t)head + len;
}

static void refuse(struct connection *c, const char *status, const char *code, const char *words)
{
	char body[512];
	int len = snprintf(body, sizeof(body),
			   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
			   "<Error><Code>%s</Code><Message>%s</Message></Error>",
			   code, words);

	answer(c, status, "application/xml", body, (size_t)len);
}

struct query {
	char prefix[KEY_MAX], after[KEY_MAX], token[KEY_MAX], delimiter[8];
	size_t prefix_len, after_len, token_len, delimiter_len;
	unsigned max_keys;
	bool list, encode;
};

static int hex_of(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

static size_t decode(const char *p, const char *end, char *out, size_t room)
{
	size_t n = 0;

	for (; p < end && n < room; p++) {
		if (*p == '%' && end - p > 2 && hex_of(p[1]) >= 0 && hex_of(p[2]) >= 0) {
			out[n++] = (char)(hex_of(p[1]) * 16 + hex_of(p[2]));
			p += 2;
		} else {
			out[n++] = *p == '+' ? ' ' : *p;
		}
	}
	return n;
}

static void parse_query(const char *p, const char *end, struct query *q)
{
	*q = (struct query){ .max_keys = PAGE_KEYS };
	while (p < end) {
		const char *amp = memchr(p, '&', (size_t)(end - p));
		const char *stop = amp ? amp : end;
		const char *eq = memchr(p, '=', (size_t)(stop - p));
		const char *value = eq ? eq + 1 : stop;
		size_t name = (size_t)((eq ? eq : stop) - p);

#define IS(text) (name == sizeof(text) - 1 && memcmp(p, text, name) == 0)
		if (IS("list-type"))
			q->list = true;
		else if (IS("prefix"))
			q->prefix_len = decode(value, stop, q->prefix, KEY_MAX);
		else if (IS("start-after"))
			q->after_len = decode(value, stop, q->after, KEY_MAX);
		else if (IS("continuation-token"))
			q->token_len = decode(value, stop, q->token, KEY_MAX);
		else if (IS("delimiter"))
			q->delimiter_len = decode(value, stop, q->delimiter, sizeof(q->delimiter));
		else if (IS("encoding-type"))
			q->encode = true;
		else if (IS("max-keys"))
			q->max_keys = (unsigned)strtoul(value, NULL, 10);
#undef IS
		p = stop + 1;
	}
	if (q->max_keys > PAGE_KEYS)
		q->max_keys = PAGE_KEYS;
}

/* Our own keys have no byte but '/' that needs it, and that is encoded as Ceph does. */
static char *put_encoded(char *p, const char *key, size_t len, bool encode)
{
	for (size_t i = 0; i < len; i++) {
		if (encode && key[i] == '/') {
			memcpy(p, "%2F", 3);
			p += 3;
		} else {
			*p++ = key[i];
		}
	}
	return p;
}

static char *put_text(char *p, const char *text)
{
	size_t len = strlen(text);

	memcpy(p, text, len);
	return p + len;
}

static char *put_etag(char *p, uint64_t rank)
{
	static const char digits[] = "0123456789abcdef",
			  same[] = "d41d8cd98f00b204e9800998ecf8427e";

	if (!set.etags)
		return put_text(p, same);
	memcpy(p, same, 16);
	for (unsigned i = 0; i < 16; i++)
		p[16 + i] = digits[rank >> (60 - 4 * i) & 15];
	return rank % 7 == 0 ? put_text(p + 32, "-12") : p + 32;
}

static char *put_contents(char *p, const char *key, size_t len, uint64_t rank, bool encode)
{
	static const char before[] = "<Contents><Key>",
			  middle[] = "</Key><LastModified>2026-11-15T12:00:00.000Z</LastModified>"
				     "<ETag>&quot;",
			  size[] = "&quot;</ETag><Size>",
			  after[] = "</Size><StorageClass>STANDARD</StorageClass></Contents>";

	memcpy(p, before, sizeof(before) - 1);
	p = put_encoded(p + sizeof(before) - 1, key, len, encode);
	memcpy(p, middle, sizeof(middle) - 1);
	p = put_etag(p + sizeof(middle) - 1, rank);
	memcpy(p, size, sizeof(size) - 1);
	p = list_put_number(p + sizeof(size) - 1, set.size);
	memcpy(p, after, sizeof(after) - 1);
	return p + sizeof(after) - 1;
}

/* Where the part up to the delimiter ends, or 0 when there is none behind the prefix. */
static size_t group_of(const struct query *q, const char *key, size_t len)
{
	const char *at;

	if (q->delimiter_len == 0 || len <= q->prefix_len)
		return 0;
	at = memmem(key + q->prefix_len, len - q->prefix_len, q->delimiter, q->delimiter_len);
	return at ? (size_t)(at - key) + q->delimiter_len : 0;
}

static char *put_page(char *p, const struct query *q)
{
	const char *from = q->token_len ? q->token : q->after;
	size_t from_len = q->token_len ? q->token_len : q->after_len;
	uint64_t rank = list_keys_after(&all, from, from_len, from_len == 0);
	uint64_t at_prefix = list_keys_after(&all, q->prefix, q->prefix_len, true);
	unsigned nr = 0;
	char key[KEY_MAX] = "", group[KEY_MAX + 8];
	size_t len = 0, group_len;
	bool more = false;

	if (rank < at_prefix)
		rank = at_prefix;
	for (; rank < set.keys; nr++) {
		char *end = list_keys_put(&all, rank, key);

		len = (size_t)(end - key);
		if (len < q->prefix_len || memcmp(key, q->prefix, q->prefix_len) != 0)
			break;
		if (nr == q->max_keys) {
			more = true;
			break;
		}
		group_len = group_of(q, key, len);
		if (group_len == 0) {
			p = put_contents(p, key, len, rank, q->encode);
			rank++;
			continue;
		}
		p = put_text(p, "<CommonPrefixes><Prefix>");
		p = put_encoded(p, key, group_len, q->encode);
		p = put_text(p, "</Prefix></CommonPrefixes>");
		memcpy(group, key, group_len);
		memset(group + group_len, 0xff, 8);
		rank = list_keys_after(&all, group, group_len + 8, false);
	}
	stats.nr_lists++;
	stats.nr_probes += q->max_keys < PAGE_KEYS;
	stats.nr_empty += nr == 0;
	stats.nr_keys += nr;
	p += sprintf(p, "<KeyCount>%u</KeyCount><IsTruncated>%s</IsTruncated>", nr,
		     more ? "true" : "false");
	if (more && rank > 0) { /* the token is the last key, as Ceph's */
		p = put_text(p, "<NextContinuationToken>");
		p = list_keys_put(&all, rank - 1, p);
		p = put_text(p, "</NextContinuationToken>");
	}
	return p;
}

static void answer_list(struct connection *c, const struct query *q)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n"
				   "Content-Length:           \r\n\r\n";
	const size_t head_len = sizeof(head) - 1;
	char *body = c->out + head_len, *p = body;
	char length[16];

	p = put_text(p,
		     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
		     "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>");
	p = put_text(p, set.bucket);
	p = put_text(p, "</Name><MaxKeys>1000</MaxKeys>");
	if (q->encode)
		p = put_text(p, "<EncodingType>url</EncodingType>");
	p = put_page(p, q);
	p = put_text(p, "</ListBucketResult>");
	memcpy(c->out, head, head_len);
	snprintf(length, sizeof(length), "%10zu", (size_t)(p - body));
	memcpy(c->out + head_len - 14, length, 10);
	c->out_len = (size_t)(p - c->out);
}

static void answer_get(struct connection *c, bool is_head, const char *request)
{
	const char *range = strcasestr(request, "\r\nrange: bytes=");
	uint64_t from = 0, to = set.size ? set.size - 1 : 0;
	char *end;

	stats.nr_gets += !is_head;
	if (range) {
		from = strtoull(range + strlen("\r\nrange: bytes="), &end, 10);
		if (*end == '-' && end[1] >= '0' && end[1] <= '9')
			to = strtoull(end + 1, NULL, 10);
		if (from >= set.size) {
			refuse(c, "416 Requested Range Not Satisfiable", "InvalidRange",
			       "behind the end");
			return;
		}
		if (to >= set.size)
			to = set.size - 1;
	}
	c->body_left = set.size ? to - from + 1 : 0;
	c->body_at = from % BLOCK;
	c->out_len = (size_t)snprintf(c->out, sizeof(c->out),
				      "HTTP/1.1 %s\r\nContent-Type: binary/octet-stream\r\n"
				      "ETag: \"d41d8cd98f00b204e9800998ecf8427e\"\r\n"
				      "Accept-Ranges: bytes\r\nContent-Length: %" PRIu64 "\r\n",
				      range ? "206 Partial Content" : "200 OK", c->body_left);
	if (range)
		c->out_len += (size_t)snprintf(c->out + c->out_len, 200,
					       "Content-Range: bytes %" PRIu64 "-%" PRIu64
					       "/%" PRIu64 "\r\n",
					       from, to, set.size);
	c->out_len += (size_t)snprintf(c->out + c->out_len, 3, "\r\n");
	if (is_head)
		c->body_left = 0;
	stats.nr_bytes += c->body_left;
}

static void answer_stats(struct connection *c)
{
	char body[512];
	int len = snprintf(body, sizeof(body),
			   "lists %" PRIu64 "\nprobes %" PRIu64 "\nempty %" PRIu64 "\nkeys %" PRIu64
			   "\ngets %" PRIu64 "\nbytes %" PRIu64 "\nin_flight_max %" PRIu64
			   "\nbusy_us %" PRIu64 "\ntook_us %" PRIu64 "\n",
			   stats.nr_lists, stats.nr_probes, stats.nr_empty, stats.nr_keys,
			   stats.nr_gets, stats.nr_bytes, stats.in_flight_max, stats.busy_ns / 1000,
			   (stats.last_ns - stats.first_ns) / 1000);

	answer(c, "200 OK", "text/plain", body, (size_t)len);
	stats = (typeof(stats)){ .in_flight = stats.in_flight };
}

static void answer_object(struct connection *c, const char *path, const char *end, bool is_head)
{
	char key[KEY_MAX], at[KEY_MAX];
	size_t len = decode(path, end, key, KEY_MAX);
	uint64_t rank = list_keys_after(&all, key, len, true);

	if (rank < set.keys && (size_t)(list_keys_put(&all, rank, at) - at) == len &&
	    memcmp(at, key, len) == 0)
		answer_get(c, is_head, c->in);
	else
		refuse(c, "404 Not Found", "NoSuchKey", "there is no such key");
}

/* A whole request lies in c->in, ended by a NUL. */
static void answer_request(struct connection *c)
{
	bool is_get = strncmp(c->in, "GET /", 5) == 0, is_head = strncmp(c->in, "HEAD /", 6) == 0;
	const char *path = c->in + (is_head ? 6 : 5), *end = strchr(path, ' '), *question, *key;
	size_t bucket = strlen(set.bucket);
	struct query q;

	c->body_left = 0;
	if ((!is_get && !is_head) || !end) {
		refuse(c, "405 Method Not Allowed", "MethodNotAllowed", "only GET and HEAD");
		return;
	}
	if (strncmp(path, "stats ", 6) == 0) { /* itself is not counted */
		answer_stats(c);
		return;
	}
	if (strncmp(path, set.bucket, bucket) != 0 || !strchr("/? ", path[bucket])) {
		refuse(c, "404 Not Found", "NoSuchBucket", "there is no such bucket");
		return;
	}
	key = path + bucket + (path[bucket] == '/');
	question = memchr(key, '?', (size_t)(end - key));
	if ((question ? question : end) > key) {
		answer_object(c, key, question ? question : end, is_head);
		return;
	}
	parse_query(question ? question + 1 : end, end, &q);
	if (is_head)
		answer(c, "200 OK", "text/plain", "", 0);
	else if (q.list)
		answer_list(c, &q);
	else /* some ask where the bucket is */
		refuse(c, "400 Bad Request", "InvalidRequest", "only list-type=2");
}

/* ---- The loop ---- */

static bool send_some(struct connection *c)
{
	while (c->out_at < c->out_len) {
		ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at,
				 MSG_NOSIGNAL | (c->body_left ? MSG_MORE : 0));

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		c->out_at += (size_t)n;
	}
	while (c->body_left > 0) {
		uint64_t n = BLOCK - c->body_at;
		ssize_t sent = send(c->fd, block + c->body_at,
				    (size_t)(n < c->body_left ? n : c->body_left), MSG_NOSIGNAL);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR;
		c->body_left -= (uint64_t)sent;
		c->body_at = (c->body_at + (uint64_t)sent) % BLOCK;
	}
	return true;
}

static bool is_sent(const struct connection *c)
{
	return c->out_at == c->out_len && c->body_left == 0;
}

static bool go_on(struct connection *c);

static bool flush(struct connection *c)
{
	if (!send_some(c))
		return false;
	if (!is_sent(c)) {
		watch(c, true);
		return true;
	}
	watch(c, false);
	count_flight(c, false);
	return go_on(c); /* what came meanwhile */
}

/* Answer what lies there whole. False: it is over. */
static bool go_on(struct connection *c)
{
	char *end = memmem(c->in, c->in_len, "\r\n\r\n", 4);
	size_t used;

	if (!end)
		return c->in_len < sizeof(c->in) - 1;
	used = (size_t)(end - c->in) + 4;
	end[2] = '\0';
	count_flight(c, true);
	c->out_at = 0;
	answer_request(c);
	c->in_len -= used;
	memmove(c->in, c->in + used, c->in_len);
	if (set.delay_ns == 0)
		return flush(c);
	c->ready_ns = now_ns() + set.delay_ns; /* the same for all, so they wait in line */
	c->next = NULL;
	*waiting_end = c;
	waiting_end = &c->next;
	return true;
}

static bool receive(struct connection *c)
{
	ssize_t n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - 1 - c->in_len, 0);

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	c->in_len += (size_t)n;
	return c->busy || go_on(c);
}

/* Send what has waited long enough: milliseconds until the next, or -1. */
static int send_delayed(void)
{
	uint64_t now = now_ns();

	while (waiting) {
		struct connection *c = waiting;

		if (c->ready_ns > now)
			return (int)((c->ready_ns - now + 999999) / 1000000);
		waiting = c->next;
		if (!waiting)
			waiting_end = &waiting;
		if (!flush(c))
			forget(c);
	}
	return -1;
}

static void take_connections(int listener)
{
	int fd, one = 1;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct connection *c = calloc(1, sizeof(*c));
		struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

		if (!c || epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
			die("connection");
		c->fd = fd;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
}

static int start_listening(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(set.port) };
	struct epoll_event e = { .events = EPOLLIN };
	socklen_t len = sizeof(at);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 1024) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		die("listen");
	poll_fd = epoll_create1(EPOLL_CLOEXEC);
	e.data.ptr = NULL; /* the listener */
	if (poll_fd < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		die("epoll");
	e.data.ptr = &poll_fd;                               /* standard input */
	epoll_ctl(poll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &e); /* a file or none: then for ever */
	printf("port %u\n", ntohs(at.sin_port));
	fflush(stdout);
	return fd;
}

static void serve(int listener)
{
	struct epoll_event events[256];
	char gone[64];

	for (;;) {
		int nr = epoll_wait(poll_fd, events, 256, send_delayed());

		for (int i = 0; i < nr; i++) {
			struct connection *c = events[i].data.ptr;

			if (!c)
				take_connections(listener);
			else if ((void *)c == &poll_fd) {
				if (read(STDIN_FILENO, gone, sizeof(gone)) <= 0)
					return;
			} else if (!(events[i].events & EPOLLOUT ? flush(c) : receive(c)))
				forget(c);
		}
	}
}

static void parse_arguments(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "keys", 1, NULL, 'k' },     { "shape", 1, NULL, 's' },  { "size", 1, NULL, 'z' },
		{ "delay-ms", 1, NULL, 'd' }, { "bucket", 1, NULL, 'b' }, { "port", 1, NULL, 'p' },
		{ "prefixes", 1, NULL, 'P' }, { "etags", 0, NULL, 'e' },  { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'k':
			set.keys = strtoull(optarg, NULL, 10);
			break;
		case 's':
			set.shape = list_shape_of(optarg);
			if (set.shape == LIST_NR_SHAPES)
				c = '?';
			break;
		case 'z':
			set.size = strtoull(optarg, NULL, 10);
			break;
		case 'd':
			set.delay_ns = (uint64_t)(strtod(optarg, NULL) * 1e6);
			break;
		case 'b':
			set.bucket = optarg;
			break;
		case 'p':
			set.port = (uint16_t)strtoul(optarg, NULL, 10);
			break;
		case 'P':
			set.nr_prefixes = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'e':
			set.etags = true;
			break;
		default:
			c = '?';
			break;
		}
		if (c == '?') {
			fprintf(stderr, "list_server: see the top of bench/list_server.c\n");
			exit(2);
		}
	}
	if (list_keys_init(&all, set.shape, set.keys, set.nr_prefixes) < 0) {
		fprintf(stderr, "list_server: too many\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	parse_arguments(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	block = malloc(BLOCK);
	if (!block)
		die("memory");
	for (uint64_t i = 0; i < BLOCK / 8; i++) {
		uint64_t v = list_mix(i + 1);

		memcpy(block + 8 * i, &v, 8);
	}
	serve(start_listening());
	return 0;
}
