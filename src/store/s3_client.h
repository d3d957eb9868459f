/*
 * s3_client.h - many requests to one bucket in flight at once, from one thread.
 *
 * A client belongs to one thread at a time: it is that thread's event loop (libcurl's multi
 * interface on epoll). Requests are submitted in any number; up to `in_flight` of them are on their
 * way, the others wait inside. Each is signed, sent, sent again after a pause where that may help,
 * and ends by a call of its done() from inside s3_client_run(), where it may submit the next.
 *
 * A request is the caller's memory: it fills in the first part and leaves all of it alone, and what
 * it points to, until done() is called. Nothing is allocated for a request once as many have been
 * in flight before, but for connections.
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
#include "store/s3_config.h"

#define S3_IN_FLIGHT_MAX 8192u
#define S3_QUERY_MAX     12u

enum s3_method { S3_GET, S3_HEAD, S3_PUT, S3_POST, S3_DELETE };

/* A parameter behind the "?", not encoded. A value of NULL is as good as an empty one. */
struct s3_pair {
	const char *name;
	const char *value;
	size_t value_len;
};

struct s3_request {
	/* What is asked for, lent until done: */
	enum s3_method method;
	const char *key; /* not encoded, any bytes; the bucket itself when key_len is 0 */
	size_t key_len;
	const struct s3_pair *query; /* in any sequence; up to S3_QUERY_MAX */
	size_t nr_query;
	bool ranged; /* only range_len (at least 1) bytes from range_off on */
	uint64_t range_off, range_len;
	const char *if_match; /* an ETag, with its quotes; NULL: any */
	const void *body;     /* of a PUT or POST: in memory, so that it can be sent again */
	size_t body_len;
	unsigned idle_ms; /* 0: the configuration's */
	/*
	 * Take bytes of the answer as they come: 0, or an error that ends the request with it. Only
	 * of answers that are good (2xx); what others say is in err. NULL: thrown away.
	 */
	int (*sink)(struct s3_request *r, const void *data, size_t len);
	/* It will be sent again: forget what the sink took. NULL: then an answer that broke off
	 * after the sink took some of it is not asked for again. */
	void (*again)(struct s3_request *r);
	/* It has ended. Called once for each submit. The request is the caller's again. */
	void (*done)(struct s3_request *r);
	void *self;            /* for these three */
	struct shoal_err *err; /* words when rc is an error; may be NULL */

	/* What became of it: */
	int rc;             /* 0, or a negative errno: see s3_client_submit() */
	int status;         /* of HTTP; 0 when there was no answer */
	char code[48];      /* of S3 when it refused, such as "NoSuchKey"; "" */
	char etag[80];      /* with its quotes; "" when there was none, or a longer one */
	uint64_t size;      /* of the object: of a HEAD, and of what Content-Range said */
	bool size_known;    /* size counts */
	uint64_t nr_bytes;  /* that the sink took of the last try */
	unsigned tries;     /* times that it was sent */
	unsigned throttled; /* of them, those that were answered with "slow down" */
	uint64_t started;   /* when it was submitted, ns by CLOCK_MONOTONIC */
	uint64_t sent;      /* when it was sent the last time */
	uint64_t first;     /* when the first byte of the answer to that came, or 0 */
	uint64_t finished;

	/* The client's own: */
	struct s3_request *next;
};

/* What was done so far. All are numbers, to be added up. */
struct s3_stats {
	uint64_t nr_requests;         /* that ended, well or not */
	uint64_t nr_failed;           /* of them, with an error other than -ENOENT and -ERANGE */
	uint64_t nr_retries;          /* requests sent again */
	uint64_t nr_throttled;        /* answers that asked us to slow down: 429, 503 */
	uint64_t nr_connects;         /* connections made */
	uint64_t busy_ns;             /* from being sent to the answer's end, all tries added up */
	uint64_t bytes_in, bytes_out; /* of bodies */
	struct shoal_histogram first_ns; /* until the answer began: each try that had one */
	struct shoal_histogram total_ns; /* from submit to done: each request that went well */
};

struct s3_client;

/*
 * @config is lent. -EMFILE with words where the system has no descriptors, -ENOMEM. An @in_flight
 * past S3_IN_FLIGHT_MAX is an error; one past what the process may open is lowered to that.
 */
int s3_client_new(const struct s3_config *config, unsigned in_flight, struct s3_client **ret_client,
		  struct shoal_err *err) SHOAL_MUST_USE;

/* Requests that have not ended are dropped without a call of done(). NULL is fine: NULL. */
struct s3_client *s3_client_free(struct s3_client *c);

/*
 * Never waits, never fails: what cannot be sent ends with an error, from inside s3_client_run().
 * What rc may be, and its words say more:
 *
 * -ENOENT      no such object or upload: see code
 * -ENXIO       no such bucket (of a HEAD this, too, is -ENOENT)
 * -EACCES      refused: wrong keys, no permission, a clock that is wrong, an expired token
 * -ESTALE      412: not the ETag of if_match
 * -ERANGE      416: the range starts at or behind the object's end
 * -EBADMSG     an answer that is none of S3's, or that broke off
 * -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH, -EPROTO (TLS)   no answer
 * -EBUSY       the server asked us to slow down until there was no try left
 * -EIO         another error of the server
 * and whatever the sink said.
 */
void s3_client_submit(struct s3_client *c, struct s3_request *r);

/*
 * Go on with all that is on its way, and wait until something happened or @timeout_ms passed; a
 * signal or s3_client_wake() end it earlier. 0, or an error of the system.
 */
int s3_client_run(struct s3_client *c, unsigned timeout_ms, struct shoal_err *err) SHOAL_MUST_USE;

/* Have s3_client_run() return, now or the next time. By any thread. */
void s3_client_wake(struct s3_client *c);

/* Requests submitted that have not ended; of them those on their way, not queued or in a pause. */
unsigned s3_client_pending(const struct s3_client *c);
unsigned s3_client_sending(const struct s3_client *c);

/* At most. */
unsigned s3_client_in_flight(const struct s3_client *c);

/* Submit one request, which has no done(), and run until it has ended: its rc. With *@stop (may
 * be NULL) not 0 it is given up with -ECANCELED. */
int s3_client_do(struct s3_client *c, struct s3_request *r, const int *stop) SHOAL_MUST_USE;

/*
 * What was done by s3_client_do() was a HEAD that failed: to that servers send no words. Ask for
 * the first byte, so that they do. Returns rc, which is @head's where nothing more is known.
 */
int s3_client_ask_why(struct s3_client *c, const struct s3_request *head,
		      const int *stop) SHOAL_MUST_USE;

/* Give up a request that has not ended, without a call of done(). */
void s3_client_cancel(struct s3_client *c, struct s3_request *r);

/* Lent; counts on. */
const struct s3_stats *s3_client_stats(const struct s3_client *c);
void s3_stats_add(struct s3_stats *sum, const struct s3_stats *more);

#endif
