/* build.h - the way from entries in any order to a sealed catalog, shared by lists and patterns. */
#ifndef SHOAL_INDEX_BUILD_H
#define SHOAL_INDEX_BUILD_H

#include "catalog/digest.h"
#include "index/resume.h"
#include "index/root.h"
#include "index/sort.h"

struct index_build {
	const struct shoal_index_options *options; /* lent */
	struct shoal_writer *writer;
	struct cat_digester digester; /* of what is put into it */
	struct shoal_sorter *sorter;
	size_t memory;      /* the sorter's */
	size_t next_memory; /* of what waits to be put into the catalog in order */
	char *tmp_dir;
	uint64_t nr_added;
	uint64_t nr_put, nr_odd; /* in the catalog, and of them with an ETag that is not kept */
	uint64_t nr_next;        /* of those that were put in order */
};

struct index_build_spec {
	const char *root;
	bool sizes, samples;         /* come with each name */
	bool etags;                  /* as well */
	const char *listing;         /* how names are found, or NULL */
	bool in_order;               /* some may come in order, and need no sorting */
	bool no_writer;              /* another rank writes the catalog */
	uint64_t memory;             /* for all of it; 0: as the options say */
	unsigned threads;            /* that list */
	struct index_resume *resume; /* opened here, after the catalog; or NULL */
	const struct index_resume_job *resume_job;
};

/* Open the catalog first: an output that cannot be written is better said before an hour's work. */
int index_build_start(struct index_build *b, const struct shoal_index_options *options,
		      const struct index_build_spec *spec, struct shoal_err *err) SHOAL_MUST_USE;

int index_build_add(struct index_build *b, const struct shoal_entry *entry,
		    struct shoal_err *err) SHOAL_MUST_USE;

/* Put what comes before all that is still to be added into the catalog, in order: a shoal_entry_fn.
 */
int index_build_put_next(void *build, const struct shoal_entry *entry,
			 struct shoal_err *err) SHOAL_MUST_USE;

/* Sort, write and seal. Adds to the result's nr_repeated. */
int index_build_finish(struct index_build *b, struct shoal_index_result *ret_result,
		       struct shoal_err *err) SHOAL_MUST_USE;

/* Give up, or release after finish. */
void index_build_release(struct index_build *b);

#endif
