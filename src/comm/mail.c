/*
 * mail.c - small messages at any time.
 *
 * A waiting rank receives mail, whatever it waits for. So two ranks that flood each other, or one
 * that floods a rank which waits for it elsewhere, do not deadlock. The received mail that was not
 * polled has a limit, beyond which the wait fails: that is a programming error, not a load.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_private.h"

#define QUEUED_MAX (64u << 20) /* a thousand mails of the largest size */
#define PUMP_MAX   64          /* letters per call: the caller has other work */

#define HEAD_BYTES sizeof(((struct comm_letter *)NULL)->head)
_Static_assert(offsetof(struct comm_letter, bytes) ==
		       offsetof(struct comm_letter, head) + HEAD_BYTES,
	       "head and bytes of a letter are received at once");

static struct comm_letter *new_letter(int from, size_t len)
{
	struct comm_letter *l = malloc(sizeof(*l) + len);

	if (l)
		*l = (struct comm_letter){ .from = from, .len = len };
	return l;
}

static void queue_letter(struct comm_mailbox *m, struct comm_letter *l)
{
	l->next = NULL;
	*m->last = l;
	m->last = &l->next;
	m->queued += l->len + sizeof(*l);
}

static struct comm_letter *dequeue_letter(struct comm_mailbox *m)
{
	struct comm_letter *l = m->first;

	if (!l)
		return NULL;
	m->first = l->next;
	if (!m->first)
		m->last = &m->first;
	m->queued -= l->len + sizeof(*l);
	return l;
}

/* Start to receive the next letter. Returns 1 if there is one. */
static int receive_letter(struct comm *c, struct shoal_err *err)
{
	struct comm_mailbox *m = &c->mail;
	size_t len = 0;
	int from = 0, rc = comm_probe(c, COMM_TAG_MAIL, &from, &len, err);

	if (rc <= 0)
		return rc;
	if (len < HEAD_BYTES)
		return err_set(err, -EPROTO, "received a malformed mail of %zu bytes from rank %d",
			       len, from);
	if (m->queued >= QUEUED_MAX && c->state == COMM_OPEN)
		return err_set(err, -EAGAIN, "rank %d has %zu bytes of unread mail", c->w.rank,
			       m->queued);
	m->coming = new_letter(from, len - HEAD_BYTES);
	if (!m->coming)
		return err_set(err, -ENOMEM, "out of memory");
	rc = comm_recv(c, &m->in, &m->coming->head, len, from, COMM_TAG_MAIL, err);
	return rc < 0 ? rc : 1;
}

int comm_mail_pump(struct comm *c, struct shoal_err *err)
{
	struct comm_mailbox *m = &c->mail;

	/* A polling caller gets queued mail before more is received. */
	for (int i = 0; i < PUMP_MAX && !(m->polling && m->first); i++) {
		int rc;

		if (!m->coming) {
			rc = receive_letter(c, err);
			if (rc <= 0)
				return rc;
		}
		rc = comm_test(c, &m->in, err);
		if (rc <= 0)
			return rc;
		if (c->state == COMM_OPEN)
			queue_letter(m, m->coming);
		else
			free(m->coming); /* it will not be polled any more */
		m->coming = NULL;
	}
	return 0;
}

void comm_mail_release(struct comm *c)
{
	struct comm_mailbox *m = &c->mail;
	struct comm_letter *l;

	while ((l = dequeue_letter(m)) != NULL)
		free(l);
	free(m->lent);
	free(m->coming);
	for (unsigned i = 0; i < COMM_POSTS; i++)
		free(m->post[i].bytes);
}

/* ---- Sending ---- */

/* A post whose message has been sent, or NULL with *ret_rc 0 if there is none. */
static struct comm_post *find_post(struct comm *c, int *ret_rc, struct shoal_err *err)
{
	struct comm_mailbox *m = &c->mail;

	*ret_rc = 0;
	for (unsigned i = 0; i < COMM_POSTS; i++) {
		struct comm_post *p = &m->post[m->next_post++ % COMM_POSTS];
		int rc = comm_test(c, &p->op, err);

		if (rc < 0) {
			*ret_rc = rc;
			return NULL;
		}
		if (rc > 0) {
			free(p->bytes);
			p->bytes = NULL;
			return p;
		}
	}
	return NULL;
}

static int start_post(struct comm *c, int to, struct comm_letter *l, struct shoal_err *err)
{
	struct comm_pause pause = { .lo = to, .hi = to };
	struct comm_post *p;
	int rc;

	while ((p = find_post(c, &rc, err)) == NULL) {
		if (rc == 0)
			rc = comm_pause(c, &pause, err);
		if (rc < 0) {
			free(l);
			return rc;
		}
	}
	p->bytes = l;
	return comm_send(c, &p->op, &l->head, HEAD_BYTES + l->len, to, COMM_TAG_MAIL, err);
}

int comm_post(struct comm *c, int to, uint32_t kind, const void *data, size_t len,
	      struct shoal_err *err)
{
	struct comm_letter *l;
	int rc = comm_begin(c, "to send mail", err);

	if (rc < 0)
		return rc;
	if (to < 0 || to >= c->w.size)
		return err_set(err, -EINVAL, "cannot send mail to rank %d of %d", to, c->w.size);
	if (len > COMM_MAIL_MAX)
		return err_set(err, -EMSGSIZE, "a mail of %zu bytes is longer than %u", len,
			       COMM_MAIL_MAX);
	if (to == c->w.rank && c->mail.queued >= QUEUED_MAX)
		return err_set(err, -EAGAIN, "rank %d has %zu bytes of unread mail", to,
			       c->mail.queued);
	l = new_letter(c->w.rank, len);
	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->head.kind = kind;
	if (len)
		memcpy(l->bytes, data, len);
	c->mail.idle_since = 0; /* an answer may come soon */
	if (to != c->w.rank)
		return start_post(c, to, l, err);
	queue_letter(&c->mail, l);
	return 0;
}

/* ---- Polling ---- */

static int take_letter(struct comm *c, struct comm_mail *ret_mail)
{
	struct comm_letter *l = dequeue_letter(&c->mail);

	if (!l)
		return 0;
	c->mail.lent = l;
	*ret_mail = (struct comm_mail){
		.from = l->from, .kind = l->head.kind, .data = l->bytes, .len = l->len
	};
	return 1;
}

static int poll_until(struct comm *c, uint64_t now, uint64_t timeout_us, struct comm_mail *ret_mail,
		      struct shoal_err *err)
{
	struct comm_pause p = { .voluntary = true,
				.since = c->mail.idle_since,
				.until = now + u64_min(timeout_us, UINT64_MAX / 4000) * 1000 };
	int rc = comm_poll_events(c, err);

	while (rc == 0) {
		if (take_letter(c, ret_mail))
			return 1;
		if (timeout_us == 0 || clock_now() >= p.until)
			return 0;
		rc = comm_pause(c, &p, err);
	}
	return rc;
}

int comm_poll(struct comm *c, uint64_t timeout_us, struct comm_mail *ret_mail,
	      struct shoal_err *err)
{
	struct comm_mailbox *m = &c->mail;
	uint64_t now;
	int rc = comm_begin(c, "for mail", err);

	free(m->lent);
	m->lent = NULL;
	if (rc < 0)
		return rc;
	now = clock_now();
	m->polling = true;
	/* However often mail comes from others. */
	rc = comm_pulse_check(c, m->idle_since, now, err);
	if (rc == 0)
		rc = poll_until(c, now, timeout_us, ret_mail, err);
	m->polling = false;
	if (rc == -EHOSTDOWN)
		comm_fail(c, err);
	/* Consecutive polls that find nothing count as one wait, so that they cost as little. */
	if (rc != 0)
		m->idle_since = 0;
	else if (!m->idle_since)
		m->idle_since = now;
	return rc;
}
