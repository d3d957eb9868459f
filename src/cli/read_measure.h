/*
 * read_measure.h - the measurements of shoal read.
 *
 * A measurement reads epochs one after the other, up to a number of them or for a time, and may
 * begin with a warm-up, which is read like the rest and not counted. It can be repeated. Ranks
 * begin each epoch together. When the time is up, or after a signal to any of them, each rank ends
 * after its own step; the audit checks what each rank has delivered.
 */
#ifndef SHOAL_CLI_READ_MEASURE_H
#define SHOAL_CLI_READ_MEASURE_H

#include "cli/progress.h"
#include "load/tally.h"
#include "load/trace.h"
#include "run/watch.h"

#define READ_REPEATS_MAX 10000u

struct read_plan {
	uint64_t epoch;       /* the first */
	uint64_t epochs;      /* epochs per measurement, at most; 0: until the time is up */
	uint64_t steps;       /* steps of each epoch, at most */
	uint64_t repeats;     /* measurements */
	uint64_t duration_ms; /* seconds per measurement; 0: no limit */
	uint64_t warm_up_ms;  /* before each measurement */
	bool drop;            /* drop the page cache before each */
	const struct shoal_catalog *cat;         /* whose files that are */
	const char *store;                       /* where the files are; NULL: the catalog's root */
	const struct shoal_store_config *config; /* how to reach them; lent */
	uint64_t epoch_samples;                  /* of all ranks, in an epoch */
	uint64_t step_samples;                   /* of all ranks, in a step */
	struct trace *trace;                     /* records the reads, or NULL */
	char *settings;          /* lines of "key: value", for the results; or NULL */
	struct series *series;   /* of this rank; NULL: none is kept */
	struct run_watch *watch; /* NULL: nobody watches */
	uint64_t cores;          /* that all ranks may use */
};

/* One measurement, over all ranks. */
struct read_figures {
	uint64_t samples, bytes;
	double seconds;
	uint64_t epochs; /* epochs that were begun */
	bool interrupted;
	/* Of one measurement only; NAN: not known. */
	double p50_us, p99_us, cpu_us, cached_share;
};

struct read_outcome {
	struct read_figures all;   /* of all measurements together */
	struct read_figures *each; /* one per measurement: 72 bytes */
	uint64_t nr_each;          /* that took place */
	struct load_tally sum;     /* over ranks, epochs and measurements */
	bool once;      /* in each epoch, every sample in the range that was read came once */
	bool whole;     /* every sample of each epoch was read */
	double started; /* the command */
	double first;   /* seconds from there to the first batch, or to the end */
	struct shoal_load_stats stats; /* of this rank */
	bool device_told;              /* the kernel reports the bytes read from devices */
	bool waiting; /* the time was up while this rank waited for a batch, which may never come */
	struct cli_progress line;
};

struct read_measure;

/* Lends all arguments but @err. NULL: no memory. */
struct read_measure *read_measure_new(const struct read_plan *plan, struct comm *comm,
				      struct read_outcome *o);

/* For shoal_load_options.waiting, with the measure as `self`. */
int read_measure_poll(void *measure, struct shoal_err *err);

/* Collective. -ECANCELED if it was interrupted before anything was measured. */
int read_measure_run(struct read_measure *m, struct shoal_loader *l,
		     struct shoal_err *err) MUST_USE;

#endif
