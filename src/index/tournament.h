/* tournament.h - merge sorted sources, runs in a file or packs in memory, into one sequence. */
#ifndef SHOAL_INDEX_TOURNAMENT_H
#define SHOAL_INDEX_TOURNAMENT_H

#include "index/chunk.h"
#include "index/run.h"

/* A source and the name that it offers now. */
struct index_source {
	const uint8_t *name; /* lent */
	size_t len;
	bool done;
	const struct index_pack *pack; /* lent; and what follows the one that is offered: */
	const uint8_t *at;             /* or: */
	struct index_run_reader *run;
};

struct index_tournament {
	struct index_source *source;
	uint64_t *key; /* of the names they offer, after the bytes that all names share */
	struct index_run_reader *reader; /* one for each source, where they are runs */
	uint32_t *tree; /* tree[0] is the winner, the others are losers on the way up */
	uint32_t rival; /* who alone can beat the winner's next, where that is known */
	uint32_t nr;
	uint32_t shared; /* bytes with which all names start */
};

/* Of @nr runs in the file @fd, read through @memory. Release it also after a failure. */
int index_tournament_of_runs(struct index_tournament *t, int fd, const struct index_run *runs,
			     uint32_t nr, uint8_t *memory, size_t memory_len) SHOAL_MUST_USE;

/* Of @nr packs, of which some may be empty. */
int index_tournament_of_packs(struct index_tournament *t, const struct index_pack *packs,
			      uint32_t nr) SHOAL_MUST_USE;

/*
 * Hand everything to @take in order; of runs, names that are sure to rise and have no NUL: they
 * come from a file. Of equal names the one from the last source is taken, and of one source the
 * last; the others are counted in *@repeated.
 */
int index_tournament_play(struct index_tournament *t, const int *stop, uint64_t *repeated,
			  shoal_entry_fn *take, void *self, struct shoal_err *err) SHOAL_MUST_USE;

void index_tournament_release(struct index_tournament *t);

#endif
