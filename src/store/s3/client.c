/* The event loop: libcurl's transfers on epoll, the queue, pauses, and what is counted. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/clock.h"
#include "store/s3/client_private.h"

#define EVENTS 128

/* The retry budget: each retry costs one, a successful request adds a tenth. */
#define BUDGET_MIN    100.0
#define BUDGET_EACH   4.0
#define BUDGET_EARNED 0.1

/* ---- Lists ---- */

static void slots_add(struct s3_slots *l, struct s3_slot *s)
{
	s->next = NULL;
	s->prev = l->tail;
	if (l->tail)
		l->tail->next = s;
	else
		l->head = s;
	l->tail = s;
}

static void slots_remove(struct s3_slots *l, struct s3_slot *s)
{
	if (s->prev)
		s->prev->next = s->next;
	else
		l->head = s->next;
	if (s->next)
		s->next->prev = s->prev;
	else
		l->tail = s->prev;
}

static void requests_add(struct s3_request **head, struct s3_request **tail, struct s3_request *r)
{
	r->next = NULL;
	if (*tail)
		(*tail)->next = r;
	else
		*head = r;
	*tail = r;
}

static struct s3_request *requests_take(struct s3_request **head, struct s3_request **tail)
{
	struct s3_request *r = *head;

	if (r) {
		*head = r->next;
		if (!*head)
			*tail = NULL;
	}
	return r;
}

static bool requests_remove(struct s3_request **head, struct s3_request **tail,
			    const struct s3_request *r)
{
	struct s3_request *before = NULL;

	for (struct s3_request *at = *head; at; before = at, at = at->next) {
		if (at != r)
			continue;
		if (before)
			before->next = at->next;
		else
			*head = at->next;
		if (*tail == at)
			*tail = before;
		return true;
	}
	return false;
}

/* ---- Between libcurl and epoll ---- */

/* libcurl wants other events of a socket, or none any more. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *self, void *known)
{
	struct s3_client *c = self;
	struct epoll_event e = { .data.fd = fd };

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* it may be closed already */
		curl_multi_assign(c->multi, fd, NULL);
		return 0;
	}
	if (what & CURL_POLL_IN)
		e.events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		e.events |= EPOLLOUT;
	if (known && epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, fd, &e) == 0)
		return 0;
	if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 &&
	    (errno != EEXIST || epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, fd, &e) < 0))
		return -1;
	curl_multi_assign(c->multi, fd, c);
	return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *self)
{
	struct s3_client *c = self;

	(void)multi;
	c->timer = timeout_ms < 0 ? UINT64_MAX : clock_now() + (uint64_t)timeout_ms * 1000000;
	return 0;
}

static int act(struct s3_client *c, curl_socket_t fd, int events, struct shoal_err *err)
{
	int running;
	CURLMcode code = curl_multi_socket_action(c->multi, fd, events, &running);

	if (code != CURLM_OK && code != CURLM_BAD_SOCKET)
		return err_set(err, code == CURLM_OUT_OF_MEMORY ? -ENOMEM : -EIO,
			       "the HTTP library failed: %s", curl_multi_strerror(code));
	return 0;
}

/* ---- The end of a request ---- */

/* Its done() is called later, outside of all callbacks. */
static void end_request(struct s3_client *c, struct s3_request *r)
{
	r->finished = clock_now();
	c->stats.nr_requests++;
	c->stats.nr_failed += r->rc < 0 && r->rc != -ENOENT && r->rc != -ERANGE;
	if (r->rc == 0) {
		histogram_add(&c->stats.total_ns, r->finished - r->started);
		c->budget += BUDGET_EARNED;
		if (c->budget > BUDGET_MIN + BUDGET_EACH * c->in_flight)
			c->budget = BUDGET_MIN + BUDGET_EACH * c->in_flight;
	}
	requests_add(&c->ended_head, &c->ended_tail, r);
}

static void release_slot(struct s3_slot *s)
{
	s->state = S3_SLOT_FREE;
	s->request = NULL;
	slots_add(&s->client->free, s);
}

static void call_done(struct s3_client *c)
{
	struct s3_request *r;

	while ((r = requests_take(&c->ended_head, &c->ended_tail)) != NULL) {
		c->pending--;
		c->nr_ended++;
		if (r->done)
			r->done(r);
	}
}

/* ---- Sending ---- */

static void send_slot(struct s3_slot *s)
{
	struct s3_client *c = s->client;
	struct s3_request *r = s->request;
	CURLMcode code;
	int rc = s3_try_prepare(s, r->err);

	if (rc == 0) {
		code = curl_multi_add_handle(c->multi, s->easy);
		if (code != CURLM_OK)
			rc = err_set(r->err, code == CURLM_OUT_OF_MEMORY ? -ENOMEM : -EIO,
				     "the HTTP library failed: %s", curl_multi_strerror(code));
	}
	if (rc < 0) {
		r->rc = rc;
		end_request(c, r);
		release_slot(s);
		return;
	}
	r->tries++;
	s->state = S3_SLOT_SENDING;
	slots_add(&c->sending, s);
	c->nr_sending++;
}

static struct s3_slot *new_slot(struct s3_client *c)
{
	struct s3_slot *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->client = c;
	s->refusal.max = S3_REFUSAL_MAX;
	s->url.max = S3_URL_MAX;
	s->authorization.max = S3_AUTHORIZATION + 32;
	s->token.max = S3_TOKEN_MAX + 32;
	s->easy = s3_try_handle(s);
	if (!s->easy) {
		free(s);
		return NULL;
	}
	c->nr_slots++;
	return s;
}

static void free_slot(struct s3_slot *s)
{
	curl_easy_cleanup(s->easy);
	buf_release(&s->refusal);
	buf_release(&s->url);
	buf_release(&s->authorization);
	if (s->token.data)
		OPENSSL_cleanse(s->token.data, s->token.len);
	buf_release(&s->token);
	free(s);
}

static void send_queued(struct s3_client *c)
{
	while (c->queue_head && (c->free.head || c->nr_slots < c->in_flight)) {
		struct s3_request *r = requests_take(&c->queue_head, &c->queue_tail);
		struct s3_slot *s = c->free.head;

		if (s)
			slots_remove(&c->free, s);
		else
			s = new_slot(c);
		if (!s) {
			r->rc = err_set(r->err, -ENOMEM, "out of memory");
			end_request(c, r);
			continue;
		}
		s->request = r;
		s->hops = 0;
		s->moved.host = NULL;
		send_slot(s);
	}
}

/* ---- Pauses ---- */

/* xorshift: any numbers that differ between clients are good enough. */
static double draw(struct s3_client *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return (double)(c->random >> 11) * 0x1p-53;
}

/* The whole pause is random, so that requests that failed together are not retried together; but
 * a Retry-After of the server is a lower bound. */
static uint64_t pause_ns(struct s3_slot *s)
{
	const struct s3_config *g = s->client->config;
	unsigned doublings = s->request->tries < 16 ? s->request->tries - 1 : 15;
	uint64_t ms = u64_min((uint64_t)g->backoff_ms << doublings, g->backoff_max_ms);
	double ns = draw(s->client) * (double)ms * 1e6;
	uint64_t asked = u64_min(s->retry_after * 1000, g->backoff_max_ms);

	return (uint64_t)ns + asked * 1000000;
}

static void pause_slot(struct s3_slot *s, uint64_t ns)
{
	s->state = S3_SLOT_PAUSED;
	s->due = clock_now() + ns;
	slots_add(&s->client->paused, s);
	if (s->request->again)
		s->request->again(s->request);
}

static void resume_paused(struct s3_client *c)
{
	uint64_t now = c->paused.head ? clock_now() : 0;
	struct s3_slot *next;

	for (struct s3_slot *s = c->paused.head; s; s = next) {
		next = s->next;
		if (s->due > now)
			continue;
		slots_remove(&c->paused, s);
		c->stats.nr_retries++;
		send_slot(s);
	}
}

/* ---- Completions ---- */

static void client_finish(struct s3_slot *s, CURLcode code)
{
	struct s3_client *c = s->client;
	struct s3_request *r = s->request;
	enum s3_verdict verdict = s3_try_judge(s, code);
	long connects = 0;

	c->stats.busy_ns += clock_now() - r->sent;
	if (curl_easy_getinfo(s->easy, CURLINFO_NUM_CONNECTS, &connects) == CURLE_OK)
		c->stats.nr_connects += (uint64_t)connects;
	curl_multi_remove_handle(c->multi, s->easy);
	slots_remove(&c->sending, s);
	c->nr_sending--;
	if (verdict != S3_ENDED) {
		pause_slot(s, verdict == S3_AGAIN ? pause_ns(s) : 0);
		return;
	}
	end_request(c, r);
	release_slot(s);
}

static void take_messages(struct s3_client *c)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(c->multi, &left)) != NULL) {
		void *slot = NULL;

		if (m->msg == CURLMSG_DONE &&
		    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &slot) == CURLE_OK)
			client_finish(slot, m->data.result);
	}
}

/* Milliseconds until the next event is due, at most until @until. Rounded up, so as not to be
 * early. */
static int wait_ms(const struct s3_client *c, uint64_t until)
{
	uint64_t now = clock_now(), due = u64_min(until, c->timer);

	for (const struct s3_slot *s = c->paused.head; s; s = s->next)
		due = u64_min(due, s->due);
	return due <= now ? 0 : (int)u64_min((due - now + 999999) / 1000000, 3600000);
}

static int take_event(struct s3_client *c, const struct epoll_event *e, bool *woken,
		      struct shoal_err *err)
{
	int events = 0;
	uint64_t count;

	if (e->data.fd == c->wake_fd) {
		*woken = read(c->wake_fd, &count, sizeof(count)) > 0 || *woken;
		return 0;
	}
	if (e->events & EPOLLIN)
		events |= CURL_CSELECT_IN;
	if (e->events & EPOLLOUT)
		events |= CURL_CSELECT_OUT;
	if (e->events & (EPOLLERR | EPOLLHUP))
		events |= CURL_CSELECT_ERR;
	return act(c, e->data.fd, events, err);
}

/* Wait once, and handle the events. */
static int client_turn(struct s3_client *c, uint64_t until, bool *ret_over, struct shoal_err *err)
{
	struct epoll_event events[EVENTS];
	int nr = epoll_wait(c->epoll_fd, events, EVENTS, wait_ms(c, until)), rc = 0;

	if (nr < 0 && errno != EINTR)
		return err_set_errno(err, err_errno(), "cannot wait for the network");
	*ret_over = nr < 0;
	for (int i = 0; i < nr && rc == 0; i++)
		rc = take_event(c, &events[i], ret_over, err);
	if (rc == 0 && c->timer <= clock_now()) {
		c->timer = UINT64_MAX; /* libcurl sets it again */
		rc = act(c, CURL_SOCKET_TIMEOUT, 0, err);
	}
	take_messages(c);
	resume_paused(c);
	send_queued(c);
	return rc;
}

/* OpenSSL writes to a connection that the server has closed as to a pipe. The SIGPIPE that this
 * raises is not for the program: it is blocked, and removed if it was not pending before. */
struct client_held {
	sigset_t before;
	bool held, pending;
};

static void hold_sigpipe(struct client_held *h)
{
	sigset_t pipes, now;

	sigemptyset(&pipes);
	sigaddset(&pipes, SIGPIPE);
	sigemptyset(&now);
	sigpending(&now);
	h->pending = sigismember(&now, SIGPIPE);
	h->held = pthread_sigmask(SIG_BLOCK, &pipes, &h->before) == 0;
}

static void let_sigpipe_go(const struct client_held *h)
{
	const struct timespec at_once = { 0, 0 };
	sigset_t pipes;

	if (!h->held)
		return;
	sigemptyset(&pipes);
	sigaddset(&pipes, SIGPIPE);
	if (!h->pending)
		sigtimedwait(&pipes, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

int s3_client_run(struct s3_client *c, unsigned timeout_ms, struct shoal_err *err)
{
	uint64_t before = c->nr_ended, until = clock_now() + (uint64_t)timeout_ms * 1000000;
	struct client_held held;
	bool over = false;
	int rc = 0;

	hold_sigpipe(&held); /* for any endpoint: it may redirect to one with TLS */
	send_queued(c);
	do {
		if (!c->ended_head)
			rc = client_turn(c, until, &over, err);
		call_done(c);
	} while (rc == 0 && !over && c->nr_ended == before && clock_now() < until);
	let_sigpipe_go(&held);
	return rc;
}

/* ---- Creating and using a client ---- */

/* A connection is an open file: a quarter of the allowed number is left for others. */
unsigned s3_client_limit(unsigned in_flight)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return in_flight;
	return (unsigned)u64_max(1, u64_min(in_flight, limit.rlim_cur / 4 * 3));
}

static int open_loop(struct s3_client *c, struct shoal_err *err)
{
	struct epoll_event e = { .events = EPOLLIN };

	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e.data.fd = c->wake_fd;
	if (c->epoll_fd < 0 || c->wake_fd < 0 ||
	    epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->wake_fd, &e) < 0)
		return err_set_errno(err, err_errno(), "cannot set up network polling");
	c->multi = curl_multi_init();
	if (!c->multi)
		return err_set(err, -ENOMEM, "out of memory");
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
	/* The connection of each request is kept for the next. */
	curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)c->in_flight);
	curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
	return 0;
}

int s3_client_new(const struct s3_config *config, unsigned in_flight, struct s3_client **ret_client,
		  struct shoal_err *err)
{
	struct s3_client *c;
	int rc;

	if (in_flight < 1 || in_flight > S3_IN_FLIGHT_MAX)
		return err_set(err, -EINVAL, "%u requests in flight: there must be 1 to %u",
			       in_flight, S3_IN_FLIGHT_MAX);
	rc = s3_curl_load(err);
	if (rc < 0)
		return rc;
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->config = config;
	c->in_flight = s3_client_limit(in_flight);
	c->epoll_fd = c->wake_fd = -1;
	c->timer = UINT64_MAX;
	c->budget = BUDGET_MIN + BUDGET_EACH * c->in_flight;
	memcpy(c->region, config->region, strlen(config->region) + 1);
	c->signer = (struct s3_signer){ .access_key = config->access_key,
					.secret_key = config->secret_key,
					.region = c->region };
	if (getrandom(&c->random, sizeof(c->random), GRND_NONBLOCK) != sizeof(c->random) ||
	    c->random == 0)
		c->random = clock_now() | 1;
	c->turn = (unsigned)(c->random >> 32); /* clients must not all begin with the same number */
	rc = open_loop(c, err);
	if (rc < 0)
		s3_client_free(c);
	else
		*ret_client = c;
	return rc;
}

static void drop_slots(struct s3_client *c, struct s3_slots *l)
{
	struct s3_slot *next;

	for (struct s3_slot *s = l->head; s; s = next) {
		next = s->next;
		if (s->state == S3_SLOT_SENDING)
			curl_multi_remove_handle(c->multi, s->easy);
		free_slot(s);
	}
}

struct s3_client *s3_client_free(struct s3_client *c)
{
	struct client_held held;

	if (!c)
		return NULL;
	hold_sigpipe(&held); /* sends the TLS shutdown */
	drop_slots(c, &c->sending);
	drop_slots(c, &c->paused);
	drop_slots(c, &c->free);
	if (c->multi)
		curl_multi_cleanup(c->multi);
	let_sigpipe_go(&held);
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	s3_signer_forget(&c->signer);
	free(c);
	return NULL;
}

void s3_client_submit(struct s3_client *c, struct s3_request *r)
{
	r->rc = r->status = 0;
	r->code[0] = r->etag[0] = '\0';
	r->size = r->nr_bytes = 0;
	r->size_known = false;
	r->tries = r->throttled = 0;
	r->sent = 0;
	r->started = clock_now();
	r->first = r->finished = 0;
	c->pending++;
	requests_add(&c->queue_head, &c->queue_tail, r);
}

void s3_client_wake(struct s3_client *c)
{
	uint64_t one = 1;

	/* It fails only if the counter is full, and then it wakes as well. */
	if (write(c->wake_fd, &one, sizeof(one)) < 0)
		return;
}

unsigned s3_client_pending(const struct s3_client *c)
{
	return c->pending;
}

unsigned s3_client_in_flight(const struct s3_client *c)
{
	return c->in_flight;
}

static struct s3_slot *slot_of(const struct s3_slots *l, const struct s3_request *r)
{
	struct s3_slot *s = l->head;

	while (s && s->request != r)
		s = s->next;
	return s;
}

void s3_client_cancel(struct s3_client *c, struct s3_request *r)
{
	struct s3_slot *s = slot_of(&c->sending, r);
	struct client_held held;

	if (s) {
		hold_sigpipe(&held);
		curl_multi_remove_handle(c->multi, s->easy);
		let_sigpipe_go(&held);
		slots_remove(&c->sending, s);
		c->nr_sending--;
		release_slot(s);
	} else if ((s = slot_of(&c->paused, r)) != NULL) {
		slots_remove(&c->paused, s);
		release_slot(s);
	} else if (!requests_remove(&c->queue_head, &c->queue_tail, r) &&
		   !requests_remove(&c->ended_head, &c->ended_tail, r)) {
		return;
	}
	c->pending--;
}

/* How often to check the stop flag. */
#define LOOK_MS 100u

int s3_client_do(struct s3_client *c, struct s3_request *r, const int *stop)
{
	int rc = 0;

	s3_client_submit(c, r);
	while (r->finished == 0 && rc == 0) {
		if (stop_requested(stop))
			rc = err_set(r->err, -ECANCELED, "interrupted");
		else
			rc = s3_client_run(c, stop ? LOOK_MS : 1000, r->err);
	}
	if (r->finished == 0) {
		s3_client_cancel(c, r);
		r->rc = rc;
	}
	return r->rc;
}

int s3_client_ask_why(struct s3_client *c, const struct s3_request *head, const int *stop)
{
	struct shoal_err why = { "" };
	struct s3_request get = { .method = S3_GET,
				  .key = head->key,
				  .key_len = head->key_len,
				  .ranged = true,
				  .range_len = 1,
				  .err = &why };
	int rc = s3_client_do(c, &get, stop);

	return rc < 0 && rc != -ERANGE ? err_set_as(head->err, rc, &why, "%s", why.msg) : head->rc;
}

void s3_client_keep(struct s3_client *c, unsigned nr)
{
	curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)nr);
}

const struct s3_stats *s3_client_stats(const struct s3_client *c)
{
	return &c->stats;
}

void s3_stats_add(struct s3_stats *sum, const struct s3_stats *more)
{
	uint64_t *to = (uint64_t *)(void *)sum;
	const uint64_t *from = (const uint64_t *)(const void *)more;

	_Static_assert(sizeof(struct s3_stats) % sizeof(uint64_t) == 0, "only numbers");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++)
		to[i] += from[i];
}
