/*
 * sort.h - bring any number of names into order in bounded memory.
 *
 * Names gather in chunks, which other threads sort as they get full, into packs. When one half of
 * the memory is full, one of them merges its packs into a front-coded run on disk while the other
 * half fills. In the end the runs are merged, in several passes if need be. When everything fits
 * into one half nothing is spilled, and the packs are merged where they are.
 */
#ifndef SHOAL_INDEX_SORT_H
#define SHOAL_INDEX_SORT_H

#include "base/err.h"
#include "base/etag.h"

struct shoal_sorter;

/* A file on its way into a catalog. Name and ETag are lent. */
struct shoal_entry {
	const uint8_t *name;
	size_t len;
	uint64_t size;
	uint64_t samples;
	const struct shoal_etag *etag; /* NULL: none. All entries of a sorter have one, or none */
};

/* Gets the entries in order. 0 to go on, or an error. */
typedef int shoal_entry_fn(void *self, const struct shoal_entry *entry, struct shoal_err *err);

struct index_runs;
struct cat_digester;

/* A file of runs that outlives the sorter. Lent. */
struct index_spill {
	int fd;
	uint64_t end;                  /* where new runs go */
	const struct index_runs *runs; /* those that are there, or NULL */
};

struct shoal_sorter_options {
	size_t memory;                   /* bytes to use, at least SHOAL_SORTER_MEMORY_MIN */
	const char *tmp_dir;             /* for the runs */
	const struct index_spill *spill; /* what to go on with; NULL: a nameless file in tmp_dir */
	const int *stop;                 /* ends with -ECANCELED once it is not 0. May be NULL */
	unsigned nr_threads;             /* to sort, 1 to SHOAL_SORTER_THREADS_MAX; 0: 1 */
};

#define SHOAL_SORTER_THREADS_MAX 4u

#define SHOAL_SORTER_MEMORY_MIN (256u << 10)

/* Whether the user wants to stop. The flag is set by a signal handler, on any thread. */
static inline bool index_stopped(const int *stop)
{
	return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

int shoal_sorter_new(const struct shoal_sorter_options *options, struct shoal_sorter **ret_sorter,
		     struct shoal_err *err) SHOAL_MUST_USE;
struct shoal_sorter *shoal_sorter_free(struct shoal_sorter *s);

/* Add an entry; its name has 1 to SHOAL_NAME_MAX bytes and no NUL. */
int shoal_sorter_add(struct shoal_sorter *s, const struct shoal_entry *entry,
		     struct shoal_err *err) SHOAL_MUST_USE;

/* Spill all that was added, and wait until it is in the file. Then the runs are all there is. */
int shoal_sorter_flush(struct shoal_sorter *s, const struct index_runs **ret_runs,
		       uint64_t *ret_end, struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Hand all entries to @take in bytewise order of their names. Of equal names the one added last is
 * taken, the others are counted in *@ret_repeated. @digester may be NULL, and digests them.
 */
int shoal_sorter_finish(struct shoal_sorter *s, shoal_entry_fn *take, void *self,
			struct cat_digester *digester, uint64_t *ret_repeated,
			struct shoal_err *err) SHOAL_MUST_USE;

#endif
