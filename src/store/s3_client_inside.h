/*
 * s3_client_inside.h - what the parts of a client share: the event loop in s3_client.c, sending one
 * request once in s3_try.c, and what to make of the answer in s3_answer.c.
 */
#ifndef SHOAL_STORE_S3_CLIENT_INSIDE_H
#define SHOAL_STORE_S3_CLIENT_INSIDE_H

#include "base/buf.h"
#include "store/s3_client.h"
#include "store/s3_curl.h"
#include "store/s3_sign.h"

#define S3_URL_MAX     (32u << 10) /* bytes */
#define S3_REFUSAL_MAX (16u << 10) /* bytes of an answer that says no, or that nobody wants */
#define S3_HOPS_MAX    4u          /* other places that a request may be sent on to */
#define S3_HEADERS     8u

enum s3_slot_state { S3_SLOT_FREE, S3_SLOT_SENDING, S3_SLOT_PAUSED };

/* A request on its way. Slots are made when first needed and used again. */
struct s3_slot {
	struct s3_client *client;
	struct s3_request *request;
	struct s3_slot *next, *prev; /* of the list that its state has */
	enum s3_slot_state state;
	CURL *easy;
	uint64_t due;  /* when a pause ends */
	unsigned turn; /* of the endpoints: the one it was sent to last */
	unsigned hops;
	struct s3_endpoint moved; /* where it was sent on to; host NULL: it was not */
	char place[256];          /* that host */

	/* Of this try: */
	struct s3_endpoint to;      /* lent by the configuration, the client or `place` */
	size_t body_at;             /* of the request's body: what comes next */
	uint64_t left;              /* bytes that a range may have still */
	bool enough;                /* the server sends more than was asked for, and is cut off */
	int sink_rc;                /* what the sink said */
	uint64_t retry_after;       /* seconds that the server asked for; 0 for none */
	uint64_t length;            /* of Content-Length; UINT64_MAX when it was not said */
	uint64_t range_first;       /* of Content-Range; UINT64_MAX when it was not said */
	int64_t server_time;        /* by its Date header; 0 when it was not said */
	char region[S3_REGION_MAX]; /* that the bucket is in */
	char location[512];
	char message[256];        /* of the server's refusal */
	struct shoal_buf refusal; /* what it says of why */
	struct shoal_buf url, authorization, token;
	char date[32 + S3_DATE_MAX], hash[32 + S3_SHA256_HEX], range[80], match[100];
	struct curl_slist headers[S3_HEADERS]; /* of our own memory: libcurl only reads them */
	char words[CURL_ERROR_SIZE];
};

struct s3_slots {
	struct s3_slot *head, *tail;
};

struct s3_client {
	const struct s3_config *config;
	unsigned in_flight; /* at most */
	CURLM *multi;
	int epoll_fd, wake_fd;
	uint64_t timer;  /* when libcurl wants to be called; UINT64_MAX: not */
	unsigned turn;   /* of the endpoints */
	uint64_t random; /* state */
	double budget;   /* further tries that may still be made */
	struct s3_signer signer;
	char region[S3_REGION_MAX];         /* as the server corrected it */
	char aws_host[S3_REGION_MAX + 320]; /* that follows it; "" where it was not corrected */
	unsigned nr_slots, nr_sending, pending;
	struct s3_slots free, sending, paused;
	struct s3_request *queue_head, *queue_tail;
	struct s3_request *ended_head, *ended_tail; /* whose done() is to be called */
	uint64_t nr_ended;
	struct s3_stats stats;
};

/* ---- One try: s3_try.c; what became of it: s3_answer.c ---- */

/* A handle with all that never changes. NULL without memory. */
CURL *s3_try_handle(struct s3_slot *s);

/* Make it ready to be sent, to whichever endpoint is next. An error ends the request. */
int s3_try_prepare(struct s3_slot *s, struct shoal_err *err) SHOAL_MUST_USE;

enum s3_verdict { S3_ENDED, S3_AGAIN, S3_AGAIN_AT_ONCE };

/* It has ended as @code says: what the request's rc is, with words, and whether another try helps.
 */
enum s3_verdict s3_try_judge(struct s3_slot *s, CURLcode code);

uint64_t s3_now(void); /* ns by CLOCK_MONOTONIC */

#endif
