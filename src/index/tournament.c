#include "index/tournament.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

#define NOBODY UINT32_MAX

/* So far ahead of a source's name: a dozen names, while which others of other sources win. */
#define PREFETCH_BYTES 512

/* Most a run is read by at once. */
#define READ_MAX (1u << 20)

/* Whether @a comes before @b, whose keys are equal. */
static bool beats_by_name(const struct index_tournament *t, uint32_t a, uint32_t b)
{
	const struct index_source *x = &t->source[a], *y = &t->source[b];
	size_t skip, x_len, y_len;
	int c;

	if (x->done || y->done)
		return x->done == y->done ? a < b : y->done;
	skip = t->shared + 8;
	x_len = x->len > skip ? x->len - skip : 0;
	y_len = y->len > skip ? y->len - skip : 0;
	c = x_len && y_len ? shoal_name_compare(x->name + skip, x_len, y->name + skip, y_len) : 0;
	if (c)
		return c < 0;
	if (x->len != y->len)
		return x->len < y->len;
	return a < b; /* equal names: the earlier first, so that the later one stays */
}

static bool beats(const struct index_tournament *t, uint32_t a, uint32_t b)
{
	if (t->key[a] != t->key[b])
		return t->key[a] < t->key[b];
	return beats_by_name(t, a, b);
}

static void offer_next_of_pack(struct index_source *s)
{
	s->done = s->at == s->pack->bytes + s->pack->len;
	if (s->done)
		return;
	/* The processor does not see coming what many sources will offer. Past an end it does no
	 * harm. */
	__builtin_prefetch(s->at + PREFETCH_BYTES);
	s->name = index_pack_name(s->at, &s->len);
}

static int offer_next_of_run(struct index_source *s)
{
	int rc = index_run_next(s->run);

	s->name = s->run->entry.name;
	s->len = s->run->entry.len;
	s->done = s->run->done;
	return rc;
}

/* To the first or next name of a source, without its key. */
static int step(struct index_source *s)
{
	if (s->run)
		return offer_next_of_run(s);
	assert(s->pack);
	offer_next_of_pack(s);
	return 0;
}

static void set_key(struct index_tournament *t, uint32_t i)
{
	const struct index_source *s = &t->source[i];

	t->key[i] = s->done ? UINT64_MAX : shoal_name_key(s->name, s->len, t->shared);
}

/*
 * Let source @i play its way up; the winner ends in tree[0]. Who wins cannot be foreseen, so that
 * there are no branches that depend on it.
 */
static void replay(struct index_tournament *t, uint32_t i)
{
	uint32_t winner = i;
	uint64_t best = t->key[i];

	for (uint32_t at = (i + t->nr) / 2; at > 0; at /= 2) {
		uint32_t other = t->tree[at], swap;
		uint64_t key = t->key[other];
		bool wins = key < best;

		if (SHOAL_UNLIKELY(key == best))
			wins = beats_by_name(t, other, winner);
		/* The compiler would make jumps of "wins ? other : winner". */
		swap = (other ^ winner) & (0u - (uint32_t)wins);
		t->tree[at] = other ^ swap;
		winner ^= swap;
		best ^= (key ^ best) & (0u - (uint64_t)wins);
	}
	t->tree[0] = winner;
}

/*
 * Names of a directory came together, and lie together in one source: who has won twice is likely
 * to win again. Only one other can beat it: the best of those it has beaten on its way up.
 */
static void find_rival(struct index_tournament *t, uint32_t i)
{
	uint32_t at = (i + t->nr) / 2;

	t->rival = t->tree[at];
	for (at /= 2; at > 0; at /= 2)
		if (beats(t, t->tree[at], t->rival))
			t->rival = t->tree[at];
}

/* Source @i, the winner, offers something else now. */
static void play_on(struct index_tournament *t, uint32_t i)
{
	if (t->rival != NOBODY && beats(t, i, t->rival))
		return;
	t->rival = NOBODY;
	replay(t, i);
	if (t->tree[0] == i && t->nr > 1)
		find_rival(t, i);
}

/* Build by playing each source against its neighbour first. */
static void play_first(struct index_tournament *t)
{
	uint32_t *winner = t->tree + t->nr; /* the second half of tree is scratch for this */

	for (uint32_t i = 0; i < t->nr; i++)
		winner[t->nr + i] = i;
	for (uint32_t at = t->nr - 1; at > 0; at--) {
		uint32_t a = winner[2 * at], b = winner[2 * at + 1];
		bool first = beats(t, a, b);

		winner[at] = first ? a : b;
		t->tree[at] = first ? b : a;
	}
	t->tree[0] = t->nr > 1 ? winner[1] : 0;
}

static int make(struct index_tournament *t, uint32_t nr)
{
	assert(nr > 0);
	*t = (struct index_tournament){ .nr = nr, .rival = NOBODY };
	t->source = calloc(nr, sizeof(*t->source));
	t->key = calloc(nr, sizeof(*t->key));
	t->tree = calloc(3 * (size_t)nr, sizeof(*t->tree));
	return t->source && t->key && t->tree ? 0 : -ENOMEM;
}

/* Read the first entries, see what all names share, and let them play. */
static int begin(struct index_tournament *t, uint32_t shared)
{
	const struct index_source *first = NULL;

	t->shared = shared;
	for (uint32_t i = 0; i < t->nr; i++) {
		struct index_source *s = &t->source[i];
		int rc = step(s);

		if (rc < 0)
			return rc;
		if (s->done)
			continue;
		if (!first)
			first = s;
		t->shared = (uint32_t)shoal_min(
			t->shared, shoal_name_shared(first->name, first->len, s->name, s->len));
	}
	for (uint32_t i = 0; i < t->nr; i++)
		set_key(t, i);
	play_first(t);
	return 0;
}

int index_tournament_of_runs(struct index_tournament *t, int fd, const struct index_run *runs,
			     uint32_t nr, uint8_t *memory, size_t memory_len)
{
	size_t cap = (size_t)shoal_min(READ_MAX, memory_len / nr);
	uint32_t shared = UINT32_MAX;
	int rc = make(t, nr);

	if (rc < 0)
		return rc;
	t->reader = malloc(nr * sizeof(*t->reader));
	if (!t->reader)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++) {
		index_run_open(&t->reader[i], fd, &runs[i], memory + i * cap, cap);
		t->source[i].run = &t->reader[i];
		shared = (uint32_t)shoal_min(shared, runs[i].shared);
	}
	return begin(t, shared);
}

int index_tournament_of_packs(struct index_tournament *t, const struct index_pack *packs,
			      uint32_t nr)
{
	uint32_t shared = UINT32_MAX;
	int rc = make(t, nr);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < nr; i++) {
		t->source[i].pack = &packs[i];
		t->source[i].at = packs[i].bytes;
		if (packs[i].len > 0)
			shared = (uint32_t)shoal_min(shared, packs[i].shared);
	}
	return begin(t, shared);
}

void index_tournament_release(struct index_tournament *t)
{
	free(t->source);
	free(t->key);
	free(t->reader);
	free(t->tree);
	*t = (struct index_tournament){ 0 };
}

/* The entry that has won but may still be replaced by a later one of the same name. */
struct held {
	bool full;
	uint64_t key;
	struct shoal_entry entry;
	struct shoal_etag etag;
	uint8_t name[SHOAL_NAME_MAX];
};

static void hold(struct held *h, struct index_source *s, uint64_t key)
{
	h->key = key;
	h->full = true;
	if (s->pack) { /* where it lies it stays */
		h->entry.name = s->name;
		h->entry.len = s->len;
		s->at = index_pack_tail(s->pack, s->name + s->len, &h->entry);
		return;
	}
	h->entry = s->run->entry;
	h->entry.name = memcpy(h->name, s->name, s->len);
	if (h->entry.etag) {
		h->etag = *h->entry.etag;
		h->entry.etag = &h->etag;
	}
}

/* What follows takes names on trust. Packs were sorted here; runs come from a file. */
static int check_name(const struct held *h, const struct index_source *s, uint64_t key,
		      bool *ret_again, struct shoal_err *err)
{
	int c = -1;

	if (h->full && (s->run || h->key == key))
		c = shoal_name_compare(h->entry.name, h->entry.len, s->name, s->len);
	*ret_again = c == 0;
	if (!s->run)
		return 0;
	if (c > 0)
		return shoal_fail(err, -EBADMSG, "a temporary file is damaged: names do not rise");
	if (memchr(s->name, 0, s->len))
		return shoal_fail(err, -EINVAL, "a name holds a NUL byte");
	return 0;
}

int index_tournament_play(struct index_tournament *t, const int *stop, uint64_t *repeated,
			  shoal_entry_fn *take, void *self, struct shoal_err *err)
{
	struct held held;
	uint64_t count = 0;
	int rc = 0;

	held.full = false;
	while (rc == 0 && !t->source[t->tree[0]].done) {
		uint32_t i = t->tree[0];
		struct index_source *s = &t->source[i];
		bool again;

		rc = check_name(&held, s, t->key[i], &again, err);
		if (again)
			++*repeated;
		else if (held.full && rc == 0)
			rc = take(self, &held.entry, err);
		if (rc < 0)
			break;
		hold(&held, s, t->key[i]);
		rc = step(s);
		if (rc < 0)
			shoal_fail_errno(err, rc, "cannot read a temporary file back");
		set_key(t, i);
		play_on(t, i);
		if ((++count & 0xffff) == 0 && index_stopped(stop))
			rc = shoal_fail(err, -ECANCELED, "interrupted");
	}
	if (rc == 0 && held.full)
		rc = take(self, &held.entry, err);
	return rc;
}
