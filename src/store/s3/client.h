/*
 * client.h - many requests to one bucket in flight at once, from one thread.
 *
 * A client belongs to one thread at a time: it is that thread's event loop (libcurl's multi
 * interface on epoll). Any number of requests can be submitted; up to `in_flight` of them are sent,
 * the others are queued. Each is signed, sent, and retried after a pause if that may help. It ends
 * with a call of its done() from inside s3_client_run(); done() may submit the next.
 *
 * A request is the caller's memory. The caller fills in the first part and changes neither the
 * request nor anything it points to until done() is called. Once as many requests have been in
 * flight before, a further one allocates nothing except for its connection.
 *
 *	struct s3_request r = { .method = S3_GET, .key = "a/b", .key_len = 3, .sink = take,
 *				.done = finish, .err = &err };
 *	s3_client_submit(c, &r);
 *	while (s3_client_pending(c) > 0)
 *		s3_client_run(c, 1000);
 */
#ifndef SHOAL_STORE_S3_CLIENT_H
#define SHOAL_STORE_S3_CLIENT_H

#include "base/err.h"
#include "base/histogram.h"
#include "store/s3/config.h"

#define S3_IN_FLIGHT_MAX 8192u

enum s3_method { S3_GET, S3_HEAD, S3_PUT, S3_POST, S3_DELETE };

/* A parameter after the "?", not encoded. A value of NULL is an empty one. */
struct s3_pair {
	const char *name;
	const char *value;
	size_t value_len;
};

struct s3_request {
	/* The request, lent until done: */
	enum s3_method method;
	const char *key; /* not encoded, any bytes; the bucket itself when key_len is 0 */
	size_t key_len;
	const struct s3_pair *query; /* in any sequence */
	size_t nr_query;
	bool ranged; /* only range_len (at least 1) bytes from range_off on */
	uint64_t range_off, range_len;
	const char *if_match; /* an ETag, with its quotes; NULL: any */
	const void *body;     /* of a PUT or POST: in memory, so that it can be sent again */
	size_t body_len;
	unsigned idle_ms; /* 0: the configuration's */
	/*
	 * Receives bytes of the answer as they arrive: 0, or an error that ends the request.
	 * Only for successful answers (2xx); the text of others goes to err. NULL: bytes are
	 * dropped.
	 */
	int (*sink)(struct s3_request *r, const void *data, size_t len);
	/* The request will be sent again: discard what the sink received. NULL: an answer that
	 * broke off after the sink received some of it is not retried. */
	void (*again)(struct s3_request *r);
	/* The request has ended. Called once per submit. The caller owns the request again. */
	void (*done)(struct s3_request *r);
	void *self;            /* passed to these three */
	struct shoal_err *err; /* the message if rc is an error; may be NULL */

	/* The result: */
	int rc;             /* 0, or a negative errno: see s3_client_submit() */
	int status;         /* of HTTP; 0 if there was no answer */
	char code[48];      /* of S3 if it refused, such as "NoSuchKey"; or "" */
	char etag[80];      /* with its quotes; "" if there was none, or it was too long */
	uint64_t size;      /* of the object: from a HEAD, or from Content-Range */
	bool size_known;    /* size is valid */
	uint64_t nr_bytes;  /* that the sink received in the last try */
	unsigned tries;     /* how often it was sent */
	unsigned throttled; /* of these, how often it was throttled */
	uint64_t started;   /* when it was submitted, ns by CLOCK_MONOTONIC */
	uint64_t sent;      /* when it was last sent */
	uint64_t first;     /* when the first byte of that answer came, or 0 */
	uint64_t finished;

	/* Used by the client: */
	struct s3_request *next;
};

/* Counters. All are numbers, to be added over clients. */
struct s3_stats {
	uint64_t nr_requests;         /* requests that ended, successful or not */
	uint64_t nr_failed;           /* of these, with an error other than -ENOENT and -ERANGE */
	uint64_t nr_retries;          /* retries */
	uint64_t nr_throttled;        /* throttled answers: 429, 503 */
	uint64_t nr_connects;         /* connections opened */
	uint64_t busy_ns;             /* from sending to the end of the answer, over all tries */
	uint64_t bytes_in, bytes_out; /* of bodies */
	struct histogram first_ns;    /* until the answer began, per try that had one */
	struct histogram total_ns;    /* from submit to done, per successful request */
};

struct s3_client;

/* @config is lent. -EMFILE with a message if there are no descriptors, -ENOMEM. An @in_flight
 * above S3_IN_FLIGHT_MAX is an error; one above the limit of open files is lowered. */
int s3_client_new(const struct s3_config *config, unsigned in_flight, struct s3_client **ret_client,
		  struct shoal_err *err) MUST_USE;

/* Requests that have not ended are dropped without a call of done(). @c may be NULL. Returns
 * NULL. */
struct s3_client *s3_client_free(struct s3_client *c);

/*
 * Never waits and never fails: a request that cannot be sent ends with an error inside
 * s3_client_run(). Values of rc, which come with a more detailed message:
 *
 * -ENOENT      no such object or upload: see code
 * -ENXIO       no such bucket (after a HEAD this, too, is -ENOENT)
 * -EACCES      refused: wrong keys, no permission, wrong clock, expired token
 * -ESTALE      412: the ETag differs from if_match
 * -ERANGE      416: the range starts at or after the object's end
 * -EBADMSG     the answer is not S3's, or is incomplete
 * -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH, -EPROTO (TLS)   no answer
 * -EBUSY       throttled until no try was left
 * -EIO         another error of the server
 * and whatever the sink returned.
 */
void s3_client_submit(struct s3_client *c, struct s3_request *r);

/* Advance all requests in flight, and wait until something happened or @timeout_ms passed; a
 * signal or s3_client_wake() end it earlier. 0, or a system error. */
int s3_client_run(struct s3_client *c, unsigned timeout_ms, struct shoal_err *err) MUST_USE;

/* From any thread: make the current or next s3_client_run() return. */
void s3_client_wake(struct s3_client *c);

/* Requests submitted that have not ended. */
unsigned s3_client_pending(const struct s3_client *c);

/* At most. */
unsigned s3_client_in_flight(const struct s3_client *c);

/* As many of @in_flight connections as the limit of open files permits. */
unsigned s3_client_limit(unsigned in_flight);

/* Keep at most @nr connections open for later requests. A new client keeps one per request that may
 * be in flight. */
void s3_client_keep(struct s3_client *c, unsigned nr);

/* Submit one request, which has no done(), and run until it has ended. Returns its rc, or
 * -ECANCELED once *@stop (may be NULL) is not 0. */
int s3_client_do(struct s3_client *c, struct s3_request *r, const int *stop) MUST_USE;

/*
 * After a HEAD by s3_client_do() failed, whose answer has no body: request the first byte, so
 * that the server sends an error message. Returns rc, which is @head's if there is no more to
 * know.
 */
int s3_client_ask_why(struct s3_client *c, const struct s3_request *head, const int *stop) MUST_USE;

/* Cancel a request that has not ended, without a call of done(). */
void s3_client_cancel(struct s3_client *c, struct s3_request *r);

/* Lent; updated continuously. */
const struct s3_stats *s3_client_stats(const struct s3_client *c);
void s3_stats_add(struct s3_stats *sum, const struct s3_stats *more);

#endif
