/*
 * exchange.h - from the names that each rank has listed to one catalog.
 *
 * The ranks agree on splitters, which divide all names into one interval per rank, and send each
 * other the entries that belong to the receiver's interval. Each rank then writes the catalog of
 * its own interval, and rank 0 appends the others' to its own without decoding them.
 */
#ifndef SHOAL_INDEX_EXCHANGE_H
#define SHOAL_INDEX_EXCHANGE_H

#include "comm/comm.h"
#include "sort/sort.h"

/* ---- Splitters ---- */

/* A sample of the names, spread evenly over all that were seen. */
struct index_sample {
	uint8_t *bytes;      /* a length of two bytes, then the name */
	size_t cap, fill;    /* at most 64 KiB, less with many ranks */
	uint64_t every;      /* one of this many names is kept; doubled when the buffer is full */
	uint64_t until_next; /* names to skip */
};

int index_sample_init(struct index_sample *s, int nr_ranks, struct shoal_err *err) MUST_USE;
void index_sample_release(struct index_sample *s);
void index_sample_see(struct index_sample *s, const uint8_t *name, size_t len);

/* Add the names of @from, which is thinned out if necessary: each keeps its weight. */
void index_sample_join(struct index_sample *s, struct index_sample *from);

struct index_splitters {
	int nr; /* ranges less one */
	uint8_t *bytes;
	/*
	 * Where each splitter starts in bytes, and where the last one ends: a few bytes and a name
	 * per rank.
	 */
	uint32_t *at;
};

/* Collective: agree on the same splitters on all ranks. */
int index_splitters_agree(struct index_splitters *c, struct comm *comm,
			  const struct index_sample *sample, struct shoal_err *err) MUST_USE;
void index_splitters_release(struct index_splitters *c);

/* Whether the name comes after range @range. */
bool index_splitters_is_past(const struct index_splitters *c, int range, const uint8_t *name,
			     size_t len);

/* ---- The exchange ---- */

struct index_job;

/* Called repeatedly by a rank that is not blocked: has another rank failed? */
int index_exchange_check_peers(struct comm *comm, struct shoal_err *err) MUST_USE;

/* Collective: write and seal the catalog. The job's sorter is used up, and rank 0's writer. */
int index_exchange_seal(struct index_job *j, struct shoal_index_result *result,
			struct shoal_err *err) MUST_USE;

#endif
