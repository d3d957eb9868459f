/*
 * Rank 0 directs. A rank that is idle tells it, and so does one that has units to spare once it has
 * heard that others are idle; the director then tells the second to give some to the first. A
 * rank counts as idle from its own word on until the director has it given something: so when all
 * ranks count as idle no unit is on its way, and the walk has ended.
 *
 * Where checkpoints are kept each rank writes its own when it likes. A unit that changes places is
 * in the giver's until the taker says that it has one of its own that was written after.
 */
#include "index/share.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"

/* How long to wait for one's own threads before looking for mail, and the other way round. */
#define BUSY_US 2000
#define IDLE_US 2000

/* Rounds from one tick of the owner to the next, and from one word of how far we are. */
#define TICKS  20
#define COUNTS 200

enum kind {
	IDLE,   /* to the director: nothing to do here */
	OFFER,  /* to the director: there is something to spare */
	HUNGRY, /* from it: a byte, whether others are idle */
	GIVE,   /* from it: to which rank */
	UNITS,  /* from rank to rank; there may be none in it */
	DONE,   /* from it */
	COUNT,  /* to the director, to show: names so far */
	SAVED,  /* from rank to rank: how many of your gifts are in my checkpoint */
};

struct share {
	struct shoal_comm *comm;
	struct index_walk *walk;
	const struct shoal_comm_place *place;
	const struct index_share_owner *owner;
	bool told_idle, offered, hungry, done;
	/*
	 * Gifts sent to each rank, got from it (the owner's, where it counts them), and of these
	 * told to be saved: 24 bytes a rank.
	 */
	uint64_t *sent, *got, *told;
	/* The director's: ten bytes for each rank. */
	uint8_t *idle, *offers;
	uint64_t *names;
	int nr_idle;
	bool said_hungry;
	uint8_t units[SHOAL_COMM_MAIL_MAX];
};

static int post(struct share *s, int to, enum kind kind, const void *data, size_t len,
		struct shoal_err *err)
{
	return shoal_comm_post(s->comm, to, kind, data, len, err);
}

/* ---- The director ---- */

static int post_to_all(struct share *s, enum kind kind, uint8_t byte, struct shoal_err *err)
{
	int rc = 0;

	for (int r = 0; r < s->place->size && rc == 0; r++)
		rc = post(s, r, kind, &byte, 1, err);
	return rc;
}

/* The next rank from @from on that is marked, or size. */
static int marked(const struct share *s, const uint8_t *marks, int from)
{
	while (from < s->place->size && !marks[from])
		from++;
	return from;
}

static int direct(struct share *s, struct shoal_err *err)
{
	int size = s->place->size, giver = 0, taker = 0, rc = 0;
	bool hungry;

	if (s->nr_idle == size)
		return post_to_all(s, DONE, 0, err);
	while (rc == 0 && (giver = marked(s, s->offers, giver)) < size &&
	       (taker = marked(s, s->idle, taker)) < size) {
		struct shoal_le32 to = shoal_le32_of((uint32_t)taker);

		s->offers[giver] = 0;
		s->idle[taker] = 0;
		s->nr_idle--;
		rc = post(s, giver, GIVE, &to, sizeof(to), err);
	}
	hungry = s->nr_idle > 0;
	if (rc == 0 && hungry != s->said_hungry) {
		s->said_hungry = hungry;
		rc = post_to_all(s, HUNGRY, hungry, err);
	}
	return rc;
}

/* ---- Every rank ---- */

static int give(struct share *s, const struct shoal_comm_mail *mail, struct shoal_err *err)
{
	struct shoal_le32 le;
	uint32_t to;
	size_t len;

	if (mail->len != sizeof(le))
		return shoal_fail(err, -EBADMSG, "a message of the listing is damaged");
	memcpy(&le, mail->data, sizeof(le));
	to = shoal_le32_get(le);
	if (to >= (uint32_t)s->place->size)
		return shoal_fail(err, -EBADMSG, "a message of the listing is damaged");
	len = index_walk_give(s->walk, (int)to, s->owner->save ? s->sent[to] + 1 : 0, s->units,
			      sizeof(s->units));
	s->sent[to] += len > 0;
	s->offered = false;
	return post(s, (int)to, UNITS, s->units, len, err);
}

/* A checkpoint has been written: who gave us something need not keep it any longer. */
static int tell_saved(struct share *s, struct shoal_err *err)
{
	int rc = 0;

	for (int r = 0; r < s->place->size && rc == 0; r++) {
		struct shoal_le64 nr = shoal_le64_of(s->got[r]);

		if (s->got[r] != s->told[r])
			rc = post(s, r, SAVED, &nr, sizeof(nr), err);
		s->told[r] = s->got[r];
	}
	return rc;
}

static int save(struct share *s, const struct index_walk_state *state, struct shoal_err *err)
{
	int rc = s->owner->save ? s->owner->save(s->owner->self, state, err) : 0;

	return rc > 0 ? tell_saved(s, err) : rc;
}

static int read_mail(struct share *s, const struct shoal_comm_mail *mail, struct shoal_err *err)
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
	case HUNGRY:
		s->hungry = mail->len == 1 && *(const uint8_t *)mail->data;
		index_walk_set_hungry(s->walk, s->hungry);
		return 0;
	case GIVE:
		return give(s, mail, err);
	case UNITS:
		s->told_idle = false;
		s->got[mail->from] += mail->len > 0;
		return index_walk_bring(s->walk, mail->data, mail->len, err);
	case DONE:
		s->done = true;
		return 0;
	case COUNT:
		if (mail->len == sizeof(struct shoal_le64))
			s->names[mail->from] = shoal_le64_load(mail->data);
		return 0;
	case SAVED:
		if (mail->len == sizeof(struct shoal_le64))
			index_walk_forget(s->walk, mail->from, shoal_le64_load(mail->data));
		return 0;
	default:
		return shoal_fail(err, -EBADMSG, "a message of the listing is of no known kind");
	}
}

static int tell(struct share *s, const struct index_walk_state *state, struct shoal_err *err)
{
	int rc = 0;

	if (state->idle && !s->told_idle) {
		s->told_idle = true;
		s->offered = false;
		rc = post(s, 0, IDLE, NULL, 0, err);
	} else if (!state->idle && s->hungry && !s->offered && state->nr_pending > 0) {
		s->offered = true;
		rc = post(s, 0, OFFER, NULL, 0, err);
	}
	return rc;
}

/* The owner sees what all ranks have found, as far as the director has heard. */
static int show(struct share *s, const struct index_walk_state *mine, struct shoal_err *err)
{
	struct index_walk_state all = *mine;

	for (int r = 1; r < s->place->size; r++)
		all.nr_names += s->names[r];
	return s->owner->tick(s->owner->self, &all, err);
}

static int tell_count(struct share *s, const struct index_walk_state *state, struct shoal_err *err)
{
	struct shoal_le64 names = shoal_le64_of(state->nr_names);

	return s->place->rank == 0 ? 0 : post(s, 0, COUNT, &names, sizeof(names), err);
}

static int share_until_done(struct share *s, struct index_walk_state *state, struct shoal_err *err)
{
	unsigned round = 0;
	int rc = 0;

	while (rc == 0 && !s->done) {
		struct shoal_comm_mail mail;
		/* A threads' idleness that was told is waited out at the mail box. */
		bool waiting = s->told_idle;

		rc = index_walk_wait(s->walk, waiting || (s->hungry && s->offered) ? 0 : BUSY_US,
				     state, err);
		if (rc == 0)
			rc = tell(s, state, err);
		if (rc == 0 && round % COUNTS == COUNTS - 1)
			rc = tell_count(s, state, err);
		if (rc == 0 && round % TICKS == 0)
			rc = save(s, state, err);
		if (rc == 0 && round++ % TICKS == 0)
			rc = show(s, state, err);
		if (rc < 0)
			break;
		rc = shoal_comm_poll(s->comm, waiting || s->offered ? IDLE_US : 0, &mail, err);
		while (rc > 0) {
			rc = read_mail(s, &mail, err);
			if (rc == 0)
				rc = shoal_comm_poll(s->comm, 0, &mail, err);
		}
	}
	return rc;
}

int index_share_walk(struct shoal_comm *comm, struct index_walk *walk,
		     const struct index_share_owner *owner, struct index_walk_state *ret_state,
		     struct shoal_err *err)
{
	struct share *s = calloc(1, sizeof(*s));
	struct index_walk_state state = { 0 };
	size_t size = (size_t)shoal_comm_place(comm)->size;
	int rc;

	if (s) {
		s->comm = comm;
		s->walk = walk;
		s->owner = owner;
		s->place = shoal_comm_place(comm);
		s->idle = calloc(size, 1);
		s->offers = calloc(size, 1);
		s->names = calloc(size, sizeof(*s->names));
		s->sent = calloc(size, sizeof(*s->sent));
		s->got = owner->got ? owner->got : calloc(size, sizeof(*s->got));
		s->told = calloc(size, sizeof(*s->told));
	}
	if (!s || !s->idle || !s->offers || !s->names || !s->sent || !s->got || !s->told)
		rc = shoal_fail(err, -ENOMEM, "out of memory");
	else /* all here? One that is elsewhere is found out by this, and not waited for for ever */
		rc = shoal_comm_barrier(comm, err);
	if (rc == 0)
		rc = share_until_done(s, &state, err);
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
