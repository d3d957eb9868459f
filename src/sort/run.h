/*
 * run.h - sorted, front-coded runs of entries in a spill file.
 *
 * A run consists of blocks. No entry lies across the end of a block, what is left of it is zeros,
 * and the first name of a block is whole: so a run can be read from any block on.
 */
#ifndef SHOAL_SORT_RUN_H
#define SHOAL_SORT_RUN_H

#include "base/out.h"
#include "sort/pack.h"

/* Where a run lies in the spill file. */
struct sort_run {
	uint64_t off;
	uint64_t len;
	uint32_t shared; /* length of the common prefix of its names */
	bool more; /* the next one in the list continues it: they are pieces of one run, all of
		      whose names have the prefix */
};

/* The runs so far, in input order. 24 bytes per few megabytes of names. */
struct sort_runs {
	struct sort_run *run;
	size_t nr, cap;
};

int sort_runs_add(struct sort_runs *runs, const struct sort_run *run) MUST_USE;
void sort_runs_release(struct sort_runs *runs);

/* How many there are, where pieces of one count together. */
size_t sort_runs_count(const struct sort_runs *runs) MUST_USE;

/* What comes after the last piece of a run. */
static inline const struct sort_run *sort_run_after(const struct sort_run *run)
{
	while (run->more)
		run++;
	return run + 1;
}

/* The maximum size of an entry: two varints, a payload with its length, and a name. */
#define RUN_ENTRY_MAX (SHOAL_NAME_MAX + 8 + SORT_PAYLOAD_MAX)

#define RUN_BLOCK (256u << 10) /* bytes from one block of a run to the next */

struct sort_run_writer {
	struct out *out;
	uint64_t start;
	size_t first_len, last_len;
	uint8_t first[SHOAL_NAME_MAX], last[SHOAL_NAME_MAX];
	size_t in_block; /* bytes of the last block so far */
};

void sort_run_start(struct sort_run_writer *w, struct out *out);
void sort_run_put(struct sort_run_writer *w, const struct sort_entry *e);
struct sort_run sort_run_end(const struct sort_run_writer *w);

struct sort_run_reader {
	int fd;
	uint64_t off, end; /* the part not yet read into the buffer */
	uint8_t *buf;      /* lent */
	size_t cap, at, fill;
	struct sort_entry entry;
	bool done;
	uint8_t name[SHOAL_NAME_MAX];
	uint64_t start;               /* of the piece */
	const struct sort_run *piece; /* lent */
};

/* With all its pieces. @run is lent. */

void sort_run_open(struct sort_run_reader *r, int fd, const struct sort_run *run, uint8_t *buf,
		   size_t cap);

/* Step to the next entry, or set done. */
int sort_run_next(struct sort_run_reader *r) MUST_USE;

/* The number of blocks of a run's piece, as below. */
static inline uint64_t sort_run_blocks(const struct sort_run *run)
{
	return (run->len + RUN_BLOCK - 1) / RUN_BLOCK;
}

/* Read the first name of block @block into @name. Returns its length. */
int sort_run_name(int fd, const struct sort_run *run, uint64_t block,
		  uint8_t name[SHOAL_NAME_MAX]) MUST_USE;

/* The blocks of a piece that have the names of @range, and perhaps some before and after them. */
int sort_run_narrow(int fd, const struct sort_run *run, const struct sort_range *range,
		    struct sort_run *ret_run) MUST_USE;

#endif
