/*
 * result.h - the record of a run: what the step loop measured, for report/ to put into words.
 */
#ifndef SHOAL_BENCH_RESULT_H
#define SHOAL_BENCH_RESULT_H

#include "bench/metrics.h"
#include "bench/workload.h"

/* Microseconds. */
struct bench_latency {
	bool known;
	double p50, p90, p99, p999, max;
};

enum bench_proof { BENCH_NOT_PROVEN, BENCH_PROVEN, BENCH_WRONG };

/*
 * An epoch of training, or an evaluation; of all accelerators together. Numbers only: a run that is
 * resumed reads those of finished ones from a file.
 */
struct bench_phase {
	uint32_t epoch; /* from 1 */
	uint32_t eval;  /* 1: an evaluation */
	uint64_t steps; /* that were done, and of those how many before a run was resumed */
	uint64_t steps_before, steps_due;
	uint64_t steps_counted;  /* in the figures: not excluded at the ends of their blocks */
	uint64_t started, ended; /* ns since 1970 */
	double seconds;
	uint64_t partial; /* 1: it was interrupted */
	struct bench_figures
		figures; /* utilisation the mean over accelerators, samples/s the sum */
	uint64_t errors; /* samples that could not be read and were left out */
	/* What follows is of the last block only, where there are several. */
	uint64_t samples, bytes_asked, bytes_delivered;
	uint64_t device_told, bytes_device;
	uint64_t nr_pages,
		nr_cached; /* looked at before reading; 0 where the kernel does not tell */
	uint64_t nr_dropped,
		nr_kept; /* files that the page cache was made to forget, or not quite */
	/* enum bench_proof; wrong also where samples of an earlier block could not be read. */
	uint64_t proof;
	uint64_t order_digest[2];
	struct bench_latency latency, open, read;
	/* Requests, where the store is remote; until an answer began, and until all was there. */
	uint64_t nr_requests, nr_retries, nr_throttled, bytes_remote;
	struct bench_latency first_byte, request;
	double queue_depth;   /* samples in flight, mean over the time, of all ranks */
	double cpu_us;        /* a sample */
	double wait_share;    /* of the accelerators' time that was spent loading */
	double block_seconds; /* the last block's */
	struct {
		uint64_t rank; /* who waited most for batches, and how long in all */
		double seconds;
		uint64_t sample_rank, sample; /* the slowest sample, and its file */
		double sample_seconds;
		char name[192];
	} slowest;
};

/* Errors that are named, and the words for one, as in struct shoal_load_stats. */
#define BENCH_ERRORS_NAMED 10
#define BENCH_ERROR_BYTES  192

/* A node. */
struct bench_node {
	char host[64];
	uint64_t nr_ranks, nr_cpus, memory_bytes;
	/* Of this program: memory, the most at the end of an epoch; of it buffers; the catalog. */
	uint64_t pss_bytes, pool_bytes, catalog_bytes;
};

struct bench_result {
	const struct bench_workload *workload; /* lent */
	uint64_t nr_ranks, nr_accelerators;
	uint64_t started, ended; /* ns since 1970 */
	double seconds_to_first_batch;
	uint64_t run;     /* a number that tells it from others: of its record of steps */
	uint64_t resumed; /* how many times */
	bool begun;       /* it can be resumed */
	bool partial;
	char why_partial[768];
	struct bench_phase *phases; /* as many as the workload has epochs and evaluations */
	size_t nr_phases;
	struct bench_node *nodes;
	size_t nr_nodes;
	/* The data: */
	char *data;    /* where it is read from, and how its catalog was come by */
	char *catalog; /* words */
	uint64_t nr_files, nr_files_eval;
	double bytes; /* of training, as its files are; by the workload where that is not known */
	char digest[33];
	/* How it was read: */
	char engine[32], engine_detail[256], order[32];
	uint64_t seed, in_flight, prefetch;
	char errors[BENCH_ERRORS_NAMED][BENCH_ERROR_BYTES + 32]; /* words for samples not read */
	size_t nr_errors;
	bool direct, made_up; /* past the page cache; not from storage at all */
	/* Of a run that was stopped: loaders that may still be reading. See bench_run_close(). */
	struct shoal_loader *reading[2];
	/* Over the epochs: */
	struct bench_summary {
		size_t nr; /* epochs */
		double au, au_stdev, throughput, throughput_stdev, io, io_stdev;
		bool meets; /* of training: the workload's bar */
	} train, eval;
};

/* Whether a step of training counts: with all of them excluded there is no utilisation. */
bool bench_result_measured(const struct bench_result *r);

/* Samples that could not be read, of all epochs. */
uint64_t bench_result_errors(const struct bench_result *r);

/*
 * Whether phase @i counts in the means: a whole one, or where there is none of its kind one that
 * was interrupted.
 */
bool bench_result_counts(const struct bench_result *r, size_t i);

/* Means over the epochs that count, and whether they meet the bar. */
void bench_result_sum_up(struct bench_result *r);

void bench_result_release(struct bench_result *r);

#endif
