/*
 * Rank 0 is the director. A rank reports to it when it is idle, and, once it has heard that others
 * are idle, when it has units to spare; the director then tells the second to give some to the
 * first. A rank counts as idle from its report until the director has had something sent to it. So
 * when all ranks count as idle, no unit is on its way and the walk has ended.
 *
 * If checkpoints are written, each rank writes its own at any time. A unit that moves to another
 * rank stays in the sender's checkpoints until the receiver reports that it has written one of its
 * own afterwards.
 */
#include "index/balance.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"

/* How long to wait for this rank's threads before checking mail, and vice versa. */
#define BUSY_US 2000
#define IDLE_US 2000

/* Rounds between two ticks of the owner, and between two progress messages. */
#define TICKS  20
#define COUNTS 200

enum kind {
	IDLE,        /* to the director: this rank is idle */
	OFFER,       /* to the director: this rank has units to spare */
	OTHERS_IDLE, /* from the director: a byte, whether others are idle */
	EXPORT,      /* from the director: hand units to this rank */
	UNITS,       /* from rank to rank: a handoff, which may be empty */
	DONE,        /* from the director: the walk has ended */
	COUNT,       /* to the director, for progress: names so far */
	SAVED,       /* from rank to rank: how many of your handoffs are in my checkpoint */
};

struct balance {
	struct comm *comm;
	struct index_walk *walk;
	const struct comm_place *place;
	const struct index_balance_owner *owner;
	bool told_idle, offered, others_idle, done;
	/* Handoffs sent to each rank, received from it (owned by the caller if it counts them),
	 * and of these acknowledged: 24 bytes per rank. */
	uint64_t *sent, *got, *told;
	/* Used by the director: ten bytes per rank. */
	uint8_t *idle, *offers;
	uint64_t *names;
	int nr_idle;
	bool said_idle;
	uint8_t units[COMM_MAIL_MAX];
};

static int post(struct balance *s, int to, enum kind kind, const void *data, size_t len,
		struct shoal_err *err)
{
	return comm_post(s->comm, to, kind, data, len, err);
}

/* ---- The director ---- */

static int post_to_all(struct balance *s, enum kind kind, uint8_t byte, struct shoal_err *err)
{
	int rc = 0;

	for (int r = 0; r < s->place->size && rc == 0; r++)
		rc = post(s, r, kind, &byte, 1, err);
	return rc;
}

/* The next rank from @from on that is marked, or size. */
static int marked(const struct balance *s, const uint8_t *marks, int from)
{
	while (from < s->place->size && !marks[from])
		from++;
	return from;
}

static int direct(struct balance *s, struct shoal_err *err)
{
	int size = s->place->size, source = 0, target = 0, rc = 0;
	bool others_idle;

	if (s->nr_idle == size)
		return post_to_all(s, DONE, 0, err);
	while (rc == 0 && (source = marked(s, s->offers, source)) < size &&
	       (target = marked(s, s->idle, target)) < size) {
		struct le32 to = le32_of((uint32_t)target);

		s->offers[source] = 0;
		s->idle[target] = 0;
		s->nr_idle--;
		rc = post(s, source, EXPORT, &to, sizeof(to), err);
	}
	others_idle = s->nr_idle > 0;
	if (rc == 0 && others_idle != s->said_idle) {
		s->said_idle = others_idle;
		rc = post_to_all(s, OTHERS_IDLE, others_idle, err);
	}
	return rc;
}

/* ---- Every rank ---- */

static int export_units(struct balance *s, const struct comm_mail *mail, struct shoal_err *err)
{
	struct le32 le;
	uint32_t to;
	size_t len;

	if (mail->len != sizeof(le))
		return err_set(err, -EBADMSG, "a message of the listing is damaged");
	memcpy(&le, mail->data, sizeof(le));
	to = le32_get(le);
	if (to >= (uint32_t)s->place->size)
		return err_set(err, -EBADMSG, "a message of the listing is damaged");
	len = index_walk_export_units(s->walk, (int)to, s->owner->save ? s->sent[to] + 1 : 0,
				      s->units, sizeof(s->units));
	s->sent[to] += len > 0;
	s->offered = false;
	return post(s, (int)to, UNITS, s->units, len, err);
}

/* A checkpoint was written: ranks that handed us units need not keep them any longer. */
static int tell_saved(struct balance *s, struct shoal_err *err)
{
	int rc = 0;

	for (int r = 0; r < s->place->size && rc == 0; r++) {
		struct le64 nr = le64_of(s->got[r]);

		if (s->got[r] != s->told[r])
			rc = post(s, r, SAVED, &nr, sizeof(nr), err);
		s->told[r] = s->got[r];
	}
	return rc;
}

static int balance_save(struct balance *s, const struct index_walk_state *state,
			struct shoal_err *err)
{
	int rc = s->owner->save ? s->owner->save(s->owner->self, state, err) : 0;

	return rc > 0 ? tell_saved(s, err) : rc;
}

static int read_mail(struct balance *s, const struct comm_mail *mail, struct shoal_err *err)
{
	switch ((enum kind)mail->kind) {
	case IDLE:
		s->idle[mail->from] = 1;
		s->offers[mail->from] = 0;
		s->nr_idle++;
		return direct(s, err);
	case OFFER:
		s->offers[mail->from] = 1;
		return direct(s, err);
	case OTHERS_IDLE:
		s->others_idle = mail->len == 1 && *(const uint8_t *)mail->data;
		index_walk_set_idle_elsewhere(s->walk, s->others_idle);
		return 0;
	case EXPORT:
		return export_units(s, mail, err);
	case UNITS:
		s->told_idle = false;
		s->got[mail->from] += mail->len > 0;
		return index_walk_import_units(s->walk, mail->data, mail->len, err);
	case DONE:
		s->done = true;
		return 0;
	case COUNT:
		if (mail->len == sizeof(struct le64))
			s->names[mail->from] = le64_load(mail->data);
		return 0;
	case SAVED:
		if (mail->len == sizeof(struct le64))
			index_walk_ack(s->walk, mail->from, le64_load(mail->data));
		return 0;
	default:
		return err_set(err, -EBADMSG, "a message of the listing has an unknown kind");
	}
}

static int balance_report(struct balance *s, const struct index_walk_state *state,
			  struct shoal_err *err)
{
	int rc = 0;

	if (state->idle && !s->told_idle) {
		s->told_idle = true;
		s->offered = false;
		rc = post(s, 0, IDLE, NULL, 0, err);
	} else if (!state->idle && s->others_idle && !s->offered && state->nr_pending > 0) {
		s->offered = true;
		rc = post(s, 0, OFFER, NULL, 0, err);
	}
	return rc;
}

/* Report to the owner what all ranks have found, as far as the director knows. */
static int balance_show_progress(struct balance *s, const struct index_walk_state *mine,
				 struct shoal_err *err)
{
	struct index_walk_state all = *mine;

	for (int r = 1; r < s->place->size; r++)
		all.nr_names += s->names[r];
	return s->owner->tick(s->owner->self, &all, err);
}

static int tell_count(struct balance *s, const struct index_walk_state *state,
		      struct shoal_err *err)
{
	struct le64 names = le64_of(state->nr_names);

	return s->place->rank == 0 ? 0 : post(s, 0, COUNT, &names, sizeof(names), err);
}

static int balance_until_done(struct balance *s, struct index_walk_state *state,
			      struct shoal_err *err)
{
	unsigned round = 0;
	int rc = 0;

	while (rc == 0 && !s->done) {
		struct comm_mail mail;
		/* After reporting that all threads are idle, wait for mail. */
		bool waiting = s->told_idle;

		rc = index_walk_wait(s->walk,
				     waiting || (s->others_idle && s->offered) ? 0 : BUSY_US, state,
				     err);
		if (rc == 0)
			rc = balance_report(s, state, err);
		if (rc == 0 && round % COUNTS == COUNTS - 1)
			rc = tell_count(s, state, err);
		if (rc == 0 && round % TICKS == 0)
			rc = balance_save(s, state, err);
		if (rc == 0 && round++ % TICKS == 0)
			rc = balance_show_progress(s, state, err);
		if (rc < 0)
			break;
		rc = comm_poll(s->comm, waiting || s->offered ? IDLE_US : 0, &mail, err);
		while (rc > 0) {
			rc = read_mail(s, &mail, err);
			if (rc == 0)
				rc = comm_poll(s->comm, 0, &mail, err);
		}
	}
	return rc;
}

int index_balance_walk(struct comm *comm, struct index_walk *walk,
		       const struct index_balance_owner *owner, struct index_walk_state *ret_state,
		       struct shoal_err *err)
{
	struct balance *s = calloc(1, sizeof(*s));
	struct index_walk_state state = { 0 };
	size_t size = (size_t)comm_place(comm)->size;
	int rc;

	if (s) {
		s->comm = comm;
		s->walk = walk;
		s->owner = owner;
		s->place = comm_place(comm);
		s->idle = calloc(size, 1);
		s->offers = calloc(size, 1);
		s->names = calloc(size, sizeof(*s->names));
		s->sent = calloc(size, sizeof(*s->sent));
		s->got = owner->got ? owner->got : calloc(size, sizeof(*s->got));
		s->told = calloc(size, sizeof(*s->told));
	}
	if (!s || !s->idle || !s->offers || !s->names || !s->sent || !s->got || !s->told)
		rc = err_set(err, -ENOMEM, "out of memory");
	else /* wait for all ranks; a rank that has failed is detected here instead of blocking for
		ever */
		rc = comm_barrier(comm, err);
	if (rc == 0)
		rc = balance_until_done(s, &state, err);
	*ret_state = state;
	if (s) {
		free(s->idle);
		free(s->offers);
		free(s->names);
		free(s->sent);
		if (s->got != owner->got)
			free(s->got);
		free(s->told);
	}
	free(s);
	return rc;
}
