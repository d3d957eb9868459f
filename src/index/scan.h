/*
 * scan.h - list what lies below a place, with all that was asked for, into a sorter.
 *
 * What an index, an update and a comparison with the storage have in common.
 */
#ifndef SHOAL_INDEX_SCAN_H
#define SHOAL_INDEX_SCAN_H

#include "comm/comm.h"
#include "index/cuts.h"
#include "index/filter.h"
#include "index/listing.h"
#include "index/resume.h"
#include "index/sort.h"
#include "index/update.h"
#include "index/walk.h"

struct index_scan {
	struct shoal_comm *comm; /* lent, as all that is not made by open */
	const struct shoal_comm_place *place;
	const struct shoal_tree_options *tree;
	const struct shoal_index_options *options; /* stop, progress, warn, samples; output */
	struct shoal_store *store;
	struct index_filter filter;
	struct index_update *update; /* an older catalog to take from, or NULL */
	struct index_resume *resume; /* to write checkpoints to and to go on from, or NULL */
	char *own[5];                /* paths of the catalog and of its company, or NULL */
	const char *own_key; /* the catalog's name in the bucket; lent, NULL: it is not there */
	struct store_hidden hidden[3];
	unsigned nr_hidden;
	uint64_t nr_foreign; /* directories on other file systems */
	uint64_t samples;
	/* Who takes what is next in order, see walk.h; or NULL. */
	shoal_entry_fn *take_next;
	void *next_self;
	size_t next_memory;
	/* While it walks: */
	struct shoal_sorter *sorter;
	struct index_sample *sample; /* may be NULL */
	struct index_walk *walk;
};

/* Open the store at @where. @catalog (or NULL), which is no part of the dataset, may lie in it. */
int index_scan_open(struct index_scan *s, struct shoal_comm *comm, const char *where,
		    const char *catalog, const struct shoal_tree_options *tree,
		    const struct shoal_index_options *options,
		    struct shoal_err *err) SHOAL_MUST_USE;
void index_scan_release(struct index_scan *s);

/* Collective: list everything, each rank into its own @sorter and @sample (which may be NULL). */
int index_scan_run(struct index_scan *s, struct shoal_sorter *sorter, struct index_sample *sample,
		   const char *tmp_dir, struct shoal_index_result *result,
		   struct shoal_err *err) SHOAL_MUST_USE;

/* How many threads a rank lists with. */
unsigned index_scan_threads(const struct index_scan *s);

/* What the catalog will remember of it. Patterns are lent. */
struct index_listing index_scan_listing(const struct index_scan *s);

#endif
