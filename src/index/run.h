/* run.h - sorted, front-coded runs of entries in a spill file. */
#ifndef SHOAL_INDEX_RUN_H
#define SHOAL_INDEX_RUN_H

#include "base/out.h"
#include "index/sort.h"

/* Where a run lies in the spill file. */
struct index_run {
	uint64_t off;
	uint64_t len;
	uint32_t shared; /* bytes with which all its names start */
	bool etags;      /* its entries have them */
};

/* The runs so far, in the order of their input. 24 bytes for each few megabytes of names. */
struct index_runs {
	struct index_run *run;
	size_t nr, cap;
};

int index_runs_add(struct index_runs *runs, const struct index_run *run) SHOAL_MUST_USE;
void index_runs_release(struct index_runs *runs);

/* Most bytes an entry takes: four varints, an ETag and a name. */
#define RUN_ENTRY_MAX (SHOAL_NAME_MAX + 32 + sizeof(struct shoal_etag))

struct index_run_writer {
	struct shoal_out *out;
	uint64_t start;
	size_t first_len, last_len;
	bool etags; /* as the first entry */
	uint8_t first[SHOAL_NAME_MAX], last[SHOAL_NAME_MAX];
};

void index_run_start(struct index_run_writer *w, struct shoal_out *out);
void index_run_put(struct index_run_writer *w, const struct shoal_entry *e);
struct index_run index_run_end(const struct index_run_writer *w);

struct index_run_reader {
	int fd;
	uint64_t off, end; /* what has not been read into the buffer */
	uint8_t *buf;      /* lent */
	size_t cap, at, fill;
	bool etags;
	struct shoal_entry entry;
	bool done;
	uint8_t name[SHOAL_NAME_MAX];
};

void index_run_open(struct index_run_reader *r, int fd, const struct index_run *run, uint8_t *buf,
		    size_t cap);

/* Step to the next entry, or set done. */
int index_run_next(struct index_run_reader *r) SHOAL_MUST_USE;

#endif
