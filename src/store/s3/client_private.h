/*
 * client_private.h - shared by the parts of a client: the event loop in client.c, sending one
 * request once in try.c, and judging the answer in answer.c.
 */
#ifndef SHOAL_STORE_S3_CLIENT_PRIVATE_H
#define SHOAL_STORE_S3_CLIENT_PRIVATE_H

#include "base/buf.h"
#include "store/s3/client.h"
#include "store/s3/curl.h"
#include "store/s3/sign.h"

#define S3_URL_MAX     (32u << 10) /* bytes */
#define S3_REFUSAL_MAX (16u << 10) /* bytes kept of an error answer, or of an unwanted one */
#define S3_HOPS_MAX    4u          /* redirects per request */
#define S3_HEADERS     8u

enum s3_slot_state { S3_SLOT_FREE, S3_SLOT_SENDING, S3_SLOT_PAUSED };

/* A request in flight. Slots are created when first needed and reused. */
struct s3_slot {
	struct s3_client *client;
	struct s3_request *request;
	struct s3_slot *next, *prev; /* in the list of its state */
	enum s3_slot_state state;
	CURL *easy;
	uint64_t due;  /* when a pause ends */
	unsigned turn; /* index of the endpoint it was last sent to */
	unsigned hops;
	struct s3_endpoint moved; /* where it was redirected to; host NULL: it was not */
	char place[256];          /* that host */

	/* Of this try: */
	struct s3_endpoint to;      /* lent by the configuration, the client or `place` */
	size_t body_at;             /* the next bytes of the request's body */
	uint64_t left;              /* bytes that the range may still have */
	bool enough;                /* the server sends more than requested, and is cut off */
	int sink_rc;                /* the error of the sink */
	uint64_t retry_after;       /* Retry-After in seconds; 0 for none */
	uint64_t length;            /* Content-Length; UINT64_MAX if missing */
	uint64_t range_first;       /* from Content-Range; UINT64_MAX if missing */
	int64_t server_time;        /* from the Date header; 0 if missing */
	char region[S3_REGION_MAX]; /* region of the bucket */
	char location[512];
	char message[256];  /* of the server's error */
	struct buf refusal; /* its message */
	struct buf url, authorization, token;
	char date[32 + S3_DATE_MAX], hash[32 + S3_SHA256_HEX], range[80], match[100];
	struct curl_slist headers[S3_HEADERS]; /* in our own memory: libcurl only reads them */
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
	uint64_t timer;  /* when libcurl wants to be called; UINT64_MAX: never */
	unsigned turn;   /* of the endpoints */
	uint64_t random; /* state */
	double budget;   /* retries that are still allowed */
	struct s3_signer signer;
	char region[S3_REGION_MAX];         /* as corrected by the server */
	char aws_host[S3_REGION_MAX + 320]; /* that depends on it; "" if it was not corrected */
	unsigned nr_slots, nr_sending, pending;
	struct s3_slots free, sending, paused;
	struct s3_request *queue_head, *queue_tail;
	struct s3_request *ended_head, *ended_tail; /* requests whose done() is to be called */
	uint64_t nr_ended;
	struct s3_stats stats;
};

/* ---- One try: try.c; its result: answer.c ---- */

/* A handle with all constant options. NULL without memory. */
CURL *s3_try_handle(struct s3_slot *s);

/* Prepare it for sending to the next endpoint. An error ends the request. */
int s3_try_prepare(struct s3_slot *s, struct shoal_err *err) MUST_USE;

/* For libcurl: take what matters of one line of an answer's head. Returns @len. */
size_t s3_try_header(char *line, size_t one, size_t len, void *slot);

enum s3_verdict { S3_ENDED, S3_AGAIN, S3_AGAIN_AT_ONCE };

/* It has ended with @code: set the request's rc and message, and decide whether to retry. */
enum s3_verdict s3_try_judge(struct s3_slot *s, CURLcode code);

#endif
