#include "index/tournament.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

#define NOBODY UINT32_MAX

/* Most a run is read by at once. */
#define READ_MAX (1u << 20)

static bool beats(const struct index_tournament *t, uint32_t a, uint32_t b)
{
	const struct index_source *x = &t->source[a], *y = &t->source[b];
	size_t skip, x_len, y_len;
	int c;

	if (x->key != y->key)
		return x->key < y->key;
	if (x->done || y->done)
		return x->done == y->done ? a < b : y->done;
	skip = t->shared + 8;
	x_len = x->entry.len > skip ? x->entry.len - skip : 0;
	y_len = y->entry.len > skip ? y->entry.len - skip : 0;
	c = x_len && y_len
		    ? shoal_name_compare(x->entry.name + skip, x_len, y->entry.name + skip, y_len)
		    : 0;
	if (c)
		return c < 0;
	if (x->entry.len != y->entry.len)
		return x->entry.len < y->entry.len;
	return a < b; /* equal names: the earlier first, so that the later one stays */
}

/* To the next entry of a source, without its key. */
static int step(struct index_source *s)
{
	int rc;

	if (s->chunk) {
		const struct index_ref *refs = index_chunk_refs(s->chunk);

		s->done = s->at == s->chunk->nr;
		if (s->done)
			return 0;
		if (s->at + 16 < s->chunk->nr) /* sorted order jumps about in memory */
			__builtin_prefetch(s->chunk->bytes + refs[s->at + 16].off);
		index_chunk_entry(s->chunk, &refs[s->at++], &s->entry);
		return 0;
	}
	assert(s->run);
	rc = index_run_next(s->run);
	s->entry = s->run->entry;
	s->done = s->run->done;
	return rc;
}

static void set_key(const struct index_tournament *t, struct index_source *s)
{
	s->key = s->done ? UINT64_MAX : shoal_name_key(s->entry.name, s->entry.len, t->shared);
}

/* Let source @i play its way up; the winner ends in tree[0]. */
static void replay(struct index_tournament *t, uint32_t i)
{
	uint32_t winner = i;

	for (uint32_t at = (i + t->nr) / 2; at > 0; at /= 2) {
		uint32_t other = t->tree[at];

		if (beats(t, other, winner)) {
			t->tree[at] = winner;
			winner = other;
		}
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
	t->tree = calloc(3 * (size_t)nr, sizeof(*t->tree));
	return t->source && t->tree ? 0 : -ENOMEM;
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
			t->shared, shoal_name_shared(first->entry.name, first->entry.len,
						     s->entry.name, s->entry.len));
	}
	for (uint32_t i = 0; i < t->nr; i++)
		set_key(t, &t->source[i]);
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

int index_tournament_of_chunks(struct index_tournament *t, const struct index_chunk *chunks,
			       uint32_t nr)
{
	uint32_t shared = UINT32_MAX;
	int rc = make(t, nr);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < nr; i++) {
		t->source[i].chunk = &chunks[i];
		if (chunks[i].nr > 0)
			shared = (uint32_t)shoal_min(shared, index_chunk_shared(&chunks[i]));
	}
	return begin(t, shared);
}

void index_tournament_release(struct index_tournament *t)
{
	free(t->source);
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

static void hold(struct held *h, const struct index_source *s)
{
	const struct shoal_entry *e = &s->entry;

	h->entry = *e;
	h->key = s->key;
	h->full = true;
	if (s->chunk) /* where it lies it stays */
		return;
	memcpy(h->name, e->name, e->len);
	h->entry.name = h->name;
	if (e->etag) {
		h->etag = *e->etag;
		h->entry.etag = &h->etag;
	}
}

/* What follows takes names on trust. Chunks were sorted here; runs come from a file. */
static int check_name(const struct held *h, const struct index_source *s, bool *ret_again,
		      struct shoal_err *err)
{
	const struct shoal_entry *e = &s->entry;
	int c = -1;

	if (h->full && (s->run || h->key == s->key))
		c = shoal_name_compare(h->entry.name, h->entry.len, e->name, e->len);
	*ret_again = c == 0;
	if (!s->run)
		return 0;
	if (c > 0)
		return shoal_fail(err, -EBADMSG, "a temporary file is damaged: names do not rise");
	if (memchr(e->name, 0, e->len))
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

		rc = check_name(&held, s, &again, err);
		if (again)
			++*repeated;
		else if (held.full && rc == 0)
			rc = take(self, &held.entry, err);
		if (rc < 0)
			break;
		hold(&held, s);
		rc = step(s);
		if (rc < 0)
			shoal_fail_errno(err, rc, "cannot read a temporary file back");
		set_key(t, s);
		play_on(t, i);
		if ((++count & 0xffff) == 0 && index_stopped(stop))
			rc = shoal_fail(err, -ECANCELED, "interrupted");
	}
	if (rc == 0 && held.full)
		rc = take(self, &held.entry, err);
	return rc;
}
