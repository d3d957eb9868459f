/*
 * cuts.h - names that cut all names into ranges of about the same number, one for each rank.
 *
 * Each rank keeps an even sample of its names; rank 0 gathers the samples and picks.
 */
#ifndef SHOAL_INDEX_CUTS_H
#define SHOAL_INDEX_CUTS_H

#include "comm/comm.h"
#include "index/sort.h"

/* Some of the names, evenly from all that were seen. */
struct index_sample {
	uint8_t *bytes;      /* a length of two bytes, then the name */
	size_t cap, fill;    /* at most 64 KiB, less with many ranks */
	uint64_t every;      /* one of how many is kept; doubled when there is no more room */
	uint64_t until_next; /* names to let pass */
};

int index_sample_init(struct index_sample *s, int nr_ranks, struct shoal_err *err) SHOAL_MUST_USE;
void index_sample_release(struct index_sample *s);
void index_sample_see(struct index_sample *s, const uint8_t *name, size_t len);

struct index_cuts {
	int nr; /* ranges less one */
	uint8_t *bytes;
	/* Where each starts in bytes, and where the last ends: a few bytes and a name a rank. */
	uint32_t *at;
};

/* Collective: the same cuts on all ranks. */
int index_cuts_agree(struct index_cuts *c, struct shoal_comm *comm,
		     const struct index_sample *sample, struct shoal_err *err) SHOAL_MUST_USE;
void index_cuts_release(struct index_cuts *c);

/* Whether the name lies behind range @range. */
bool index_cuts_is_past(const struct index_cuts *c, int range, const uint8_t *name, size_t len);

#endif
