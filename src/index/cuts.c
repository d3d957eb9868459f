#include "index/cuts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/name.h"

/* Bytes of names a rank keeps, and rank 0 gathers from all. */
#define SAMPLE_BYTES (64u << 10)
#define ALL_BYTES    (16u << 20)

/* In front of a sample when it is sent. */
#define HEAD sizeof(struct shoal_le64)

/* ---- The sample ---- */

int index_sample_init(struct index_sample *s, int nr_ranks, struct shoal_err *err)
{
	size_t cap = (size_t)shoal_max(2 * (SHOAL_NAME_MAX + 2),
				       shoal_min(SAMPLE_BYTES, ALL_BYTES / (uint64_t)nr_ranks));

	*s = (struct index_sample){ .cap = cap, .every = 1, .bytes = malloc(HEAD + cap) };
	return s->bytes ? 0 : shoal_fail(err, -ENOMEM, "out of memory");
}

void index_sample_release(struct index_sample *s)
{
	free(s->bytes);
	*s = (struct index_sample){ 0 };
}

static size_t name_len(const uint8_t *p)
{
	return (size_t)(p[0] | p[1] << 8);
}

/* Keep every second one. */
static void thin_out(struct index_sample *s)
{
	uint8_t *names = s->bytes + HEAD;
	size_t to = 0;
	bool keep = true;

	for (size_t at = 0; at < s->fill; keep = !keep) {
		size_t len = 2 + name_len(names + at);

		if (keep) {
			memmove(names + to, names + at, len);
			to += len;
		}
		at += len;
	}
	s->fill = to;
	s->every *= 2;
}

void index_sample_see(struct index_sample *s, const uint8_t *name, size_t len)
{
	uint8_t *p;

	if (s->until_next > 0) {
		s->until_next--;
		return;
	}
	while (s->cap - s->fill < len + 2)
		thin_out(s);
	p = s->bytes + HEAD + s->fill;
	p[0] = (uint8_t)len;
	p[1] = (uint8_t)(len >> 8);
	memcpy(p + 2, name, len);
	s->fill += len + 2;
	s->until_next = s->every - 1;
}

/* ---- Picking ---- */

struct pick {
	const uint8_t *name;
	uint32_t len;
	double weight; /* how many names it stands for */
};

/* All samples, on rank 0: at most ALL_BYTES, or two names a rank. */
struct samples {
	uint8_t *bytes;
	size_t fill, cap;
	struct pick *pick;
	size_t nr;
};

static int take_sample(void *self, int from, uint64_t off, uint64_t total, const void *data,
		       size_t len, struct shoal_err *err)
{
	struct samples *all = self;

	(void)from;
	if (off == 0) { /* in front of each its length */
		size_t need = all->fill + sizeof(total) + (size_t)total;
		uint8_t *grown = need > all->cap ? realloc(all->bytes, 2 * need) : all->bytes;

		if (!grown)
			return shoal_fail(err, -ENOMEM, "out of memory");
		all->cap = need > all->cap ? 2 * need : all->cap;
		all->bytes = grown;
		memcpy(all->bytes + all->fill, &total, sizeof(total));
		all->fill += sizeof(total);
	}
	if (len > 0)
		memcpy(all->bytes + all->fill, data, len);
	all->fill += len;
	return 0;
}

static int compare_picks(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;

	return shoal_name_compare(x->name, x->len, y->name, y->len);
}

/* Point to the names in what was gathered. They came from our own ranks: what is odd is ignored. */
static int find_picks(struct samples *all)
{
	size_t most = all->fill / 3 + 1; /* no name takes less than three bytes */

	all->pick = malloc(most * sizeof(*all->pick));
	if (!all->pick)
		return -ENOMEM;
	for (size_t at = 0; at < all->fill;) {
		uint64_t total;
		size_t end;
		double weight;

		memcpy(&total, all->bytes + at, sizeof(total));
		at += sizeof(total);
		end = at + (size_t)total;
		assert(total >= HEAD && end <= all->fill);
		weight = (double)shoal_le64_load(all->bytes + at);
		for (at += HEAD; at < end; at += 2 + name_len(all->bytes + at))
			all->pick[all->nr++] =
				(struct pick){ .name = all->bytes + at + 2,
					       .len = (uint32_t)name_len(all->bytes + at),
					       .weight = weight };
	}
	qsort(all->pick, all->nr, sizeof(*all->pick), compare_picks);
	return 0;
}

/* The name at each of @nr even steps of the weight; a name of no bytes when there is none. */
static void pick_cuts(const struct samples *all, int nr, uint8_t *bytes, uint32_t *at)
{
	double sum = 0, passed = 0;
	size_t i = 0;
	uint32_t fill = 0;

	for (size_t k = 0; k < all->nr; k++)
		sum += all->pick[k].weight;
	for (int cut = 0; cut < nr; cut++) {
		const struct pick *p;

		while (i < all->nr && passed < sum * (cut + 1) / (nr + 1))
			passed += all->pick[i++].weight;
		at[cut] = fill;
		if (all->nr == 0)
			continue;
		p = &all->pick[i < all->nr ? i : all->nr - 1];
		memcpy(bytes + fill, p->name, p->len);
		fill += p->len;
	}
	at[nr] = fill;
}

/* ---- Agreeing ---- */

static int gather_and_pick(struct index_cuts *c, struct shoal_comm *comm,
			   const struct index_sample *sample, struct shoal_err *err)
{
	struct shoal_le64 every = shoal_le64_of(sample->every);
	struct shoal_comm_blob mine = { .len = HEAD + sample->fill, .data = sample->bytes };
	struct samples all = { 0 };
	int rc;

	memcpy(sample->bytes, &every, HEAD);
	rc = shoal_comm_gather(comm, &mine, 0, 1u << 20, take_sample, &all, err);
	if (rc == 0 && shoal_comm_place(comm)->rank == 0) {
		rc = find_picks(&all);
		if (rc < 0)
			shoal_fail(err, rc, "out of memory");
		else
			pick_cuts(&all, c->nr, c->bytes, c->at);
	}
	free(all.bytes);
	free(all.pick);
	return rc;
}

int index_cuts_agree(struct index_cuts *c, struct shoal_comm *comm,
		     const struct index_sample *sample, struct shoal_err *err)
{
	size_t nr = (size_t)shoal_comm_place(comm)->size - 1;
	int rc;

	*c = (struct index_cuts){ .nr = (int)nr };
	c->bytes = malloc(nr * SHOAL_NAME_MAX + 1);
	c->at = calloc(nr + 1, sizeof(*c->at));
	if (!c->bytes || !c->at)
		return shoal_fail(err, -ENOMEM, "out of memory");
	rc = gather_and_pick(c, comm, sample, err);
	if (rc == 0)
		rc = shoal_comm_broadcast(comm, 0, c->at, (nr + 1) * sizeof(*c->at), err);
	if (rc == 0)
		rc = shoal_comm_broadcast(comm, 0, c->bytes, c->at[nr], err);
	return rc;
}

void index_cuts_release(struct index_cuts *c)
{
	free(c->bytes);
	free(c->at);
	*c = (struct index_cuts){ 0 };
}

bool index_cuts_is_past(const struct index_cuts *c, int range, const uint8_t *name, size_t len)
{
	return range < c->nr && shoal_name_compare(name, len, c->bytes + c->at[range],
						   c->at[range + 1] - c->at[range]) >= 0;
}
