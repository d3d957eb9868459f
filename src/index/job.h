/*
 * job.h - one listing, from the request to a sealed catalog.
 *
 * One structure holds everything that the files of this room share about it. job.c opens the
 * catalog and the sorter, puts entries in, and seals; tree.c runs a whole tree; scan.c opens the
 * store and walks it; checkpoint.c and resume.c let it resume later; exchange.c and balance.c run
 * it with many ranks.
 */
#ifndef SHOAL_INDEX_JOB_H
#define SHOAL_INDEX_JOB_H

#include <pthread.h>

#include "catalog/writer.h"
#include "comm/comm.h"
#include "index/checkpoint.h"
#include "index/exchange.h"
#include "index/filter.h"
#include "index/provenance.h"
#include "index/record.h"
#include "index/root.h"
#include "index/update.h"
#include "open/output.h"

struct index_job {
	/* The request. All lent. */
	const struct shoal_index_options *options;
	const struct shoal_tree_options *tree; /* NULL: a list of names */
	struct comm *comm;
	const struct comm_place *place;
	const struct output *output; /* where it is written; NULL: nowhere */
	struct index_root root;
	struct index_provenance provenance; /* what the catalog will record about it */

	/* The storage, of a tree. */
	struct store *store;
	struct index_filter filter;
	char *own[5];        /* paths of the catalog and its companion files, or NULL */
	const char *own_key; /* the catalog's name in the bucket; lent, NULL: it is not in it */
	struct store_hidden hidden[3];
	unsigned nr_hidden;
	struct index_update update; /* an older catalog to update, if requested */
	struct index_resume resume; /* checkpoints, to write and to resume from, if requested */
	struct index_walk *walk;    /* while it is walked */
	uint64_t nr_foreign;        /* directories on other file systems */

	/* Where entries go. */
	size_t memory; /* the sorter's */
	char *tmp_dir;
	struct sorter *sorter;
	struct index_sample sample;   /* if there are several ranks */
	struct index_sample *samples; /* of each listing thread, while it is walked; or NULL */
	bool etags;                   /* of a list, whose entries have them */
	unsigned nr_readers;         /* of a list: threads that read it; at most 1: the job's own */
	unsigned order_len;          /* see sorter_options; at most 8 */
	bool in_order;               /* some entries may go into the catalog without sorting */
	size_t next_memory;          /* memory for entries that wait to be delivered in order */
	struct shoal_writer *writer; /* NULL: another rank's */
	/* The catalog with samples; the first writer then has only names. */
	struct shoal_writer *final;
	struct shoal_writer_options writer_options; /* as it was opened */
	const struct sort_limits *seal_limits;      /* NULL: by cores and memory; lent, for tests */
	uint64_t nr_sealers;          /* threads that merged and encoded; 0: not yet */
	struct cat_digester digester; /* of what is put into it */
	uint64_t nr_added;
	uint64_t nr_all;    /* names that there will be, if it is known, for progress; or 0 */
	uint64_t nr_put;    /* names in the catalog */
	uint64_t nr_unkept; /* of these, with an ETag that is not stored */
	uint64_t nr_next;   /* of these, put there in order, without the sorter */
	uint64_t least; /* names of the catalog that would be replaced: see replace.h; on rank 0 */
	bool refused;   /* too few names were found: there is nothing to resume */
};

/* ---- The catalog: job.c ---- */

/* Open the catalog and the sorter. @sizes, @samples: each name comes with them. The catalog is
 * first: an output that cannot be written is better reported before an hour's work. */
int index_job_open(struct index_job *j, bool sizes, bool samples, struct shoal_err *err) MUST_USE;

/* Add a name of a list. */
int index_job_add(struct index_job *j, const void *name, size_t len,
		  const struct index_record *record, struct shoal_err *err) MUST_USE;

/* A sort_entry_fn: put the next name in order, before all that is still to be added. */
int index_job_put_next(void *job, const struct sort_entry *entry, struct shoal_err *err) MUST_USE;

/*
 * A whole pack of them at once: the first digests it, on any thread. False: its names must be put
 * one by one, because the catalog is cut between them. The second puts it.
 */
bool index_job_see_pack(void *job, const struct pack *pack, struct cat_digest *ret_digest);
int index_job_put_pack(void *job, const uint8_t *at, const uint8_t *to,
		       const struct cat_digest *digest, struct shoal_err *err) MUST_USE;

/* A sort_entry_fn: put the next name of those that were sorted; a stage computes the digest. */
int index_job_put_sorted(void *job, const struct sort_entry *entry, struct shoal_err *err) MUST_USE;

/* Cut the catalog before the next name: for the stage. */
int index_job_cut(void *job, struct shoal_err *err) MUST_USE;

/* Report how far sealing is; an error ends it. Called by the job's own thread. */
int index_job_report_sealing(const struct index_job *j, uint64_t nr_names,
			     struct shoal_err *err) MUST_USE;

/* Sort, write and seal. Adds to the result's nr_repeated. */
int index_job_finish(struct index_job *j, struct shoal_index_result *result,
		     struct shoal_err *err) MUST_USE;

/* Seal @names, look up the samples inside its files, and add these files to @to. */
int index_job_look_inside(struct index_job *j, struct shoal_writer *names, struct shoal_writer *to,
			  struct shoal_index_result *result, struct shoal_err *err) MUST_USE;

/* Count @nr more unreadable files in the catalog that is published. */
int index_job_add_unreadable(struct index_job *j, uint64_t nr, struct shoal_err *err) MUST_USE;

/* The writer of the catalog that is published; NULL: another rank's. */
static inline struct shoal_writer *index_job_output(const struct index_job *j)
{
	return j->options->samples ? j->final : j->writer;
}

/* Release all, after success or failure. */
void index_job_release(struct index_job *j);

/* Samples per file, if a list does not have them. */
static inline uint64_t index_job_samples(const struct index_job *j)
{
	return j->options->samples_per_file ? j->options->samples_per_file : 1;
}

/* ---- The storage: scan.c ---- */

/* Open the store at @where. @catalog (or NULL), which is not part of the dataset, may lie in it. */
int index_scan_open(struct index_job *j, const char *where, const char *catalog,
		    struct shoal_err *err) MUST_USE;

/* Collective: list everything, each rank into its own sorter and sample. */
int index_scan_run(struct index_job *j, struct shoal_index_result *result,
		   struct shoal_err *err) MUST_USE;

/* How many threads a rank lists with, or opens files with. The store is open. */
unsigned index_scan_threads(const struct index_job *j);

/*
 * Whether sizes are looked up while a tree is listed. If all of its files will be opened for their
 * samples, they are found then: fstat(2) costs a fifth of what stat(2) does. A catalog that is
 * updated, or a checkpoint, is compared with them.
 */
bool index_scan_sizes(const struct index_job *j);

/* Cores for these threads. 0: start all at once, because they wait for a server, or because the
 * user gave their number. */
unsigned index_scan_cores(const struct index_job *j);

/* What the catalog will record about the listing. Patterns are lent. */
struct index_provenance index_scan_provenance(const struct index_job *j);

#endif
