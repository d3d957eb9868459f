/* result.h - the results of a run: the measurements of the step loop, which report/ formats. */
#ifndef SHOAL_RUN_RESULT_H
#define SHOAL_RUN_RESULT_H

#include "run/metrics.h"
#include "workload/workload.h"

/* Microseconds. */
struct run_latency {
	bool known;
	double p50, p90, p99, p999, max;
};

enum run_proof { RUN_NOT_PROVEN, RUN_PROVEN, RUN_WRONG };

/*
 * An epoch of training, or an evaluation, over all accelerators. Numbers only: a resumed run reads
 * those of finished phases from a file.
 */
struct run_result_phase {
	uint32_t epoch; /* from 1 */
	uint32_t eval;  /* 1: an evaluation */
	uint64_t steps; /* steps done, and how many of them before a run was resumed */
	uint64_t steps_before, steps_due;
	uint64_t steps_counted;  /* steps in the figures: those not excluded at the ends of their
				    blocks */
	uint64_t started, ended; /* ns since 1970 */
	double seconds;
	uint64_t partial;            /* 1: it was interrupted */
	uint64_t left_over;          /* samples that fill no step and are not read */
	struct step_figures figures; /* utilisation: mean over accelerators; samples/s: sum */
	uint64_t errors;             /* samples that could not be read and were left out */
	/* The rest concerns the last block only, if there are several. */
	uint64_t samples, bytes_asked, bytes_delivered;
	uint64_t nr_reads, nr_opens, bytes_read; /* as in shoal_load_stats */
	uint64_t device_told, bytes_device;
	double cached_share; /* of the bytes delivered; NAN: unknown. See load_cached_share() */
	uint64_t nr_dropped,
		nr_kept; /* files dropped from the page cache, and not completely dropped */
	/* enum run_proof of the audit; also wrong if any sample of the epoch could not be read. */
	uint64_t proof;
	/*
	 * The sums of load/audit.h over all ranks, from this step of the phase on: from 0 if an
	 * interrupted run has kept those of its part.
	 */
	struct run_audit {
		uint64_t from_step;
		uint64_t samples, bytes_asked, bytes_delivered;
		uint64_t got[4];           /* of ids, and of ids and positions */
		uint64_t expected[2], due; /* of ids; samples */
	} audit;
	struct run_latency latency, open, read;
	/* Requests of a remote store; time to the first byte, and to the last. */
	uint64_t nr_requests, nr_retries, nr_throttled, bytes_remote;
	struct run_latency first_byte, request;
	double queue_depth; /* samples in flight, mean over time, over all ranks */
	double cpu_us;      /* per sample */
	double wait_share;  /* share of the accelerators' time spent loading */
	/*
	 * Where the seconds of the phase went, per accelerator: compute as planned, compute beyond
	 * that because the sleeper was woken late, waiting for data, and the rest, which is waiting
	 * for other ranks. They add up to @seconds.
	 */
	struct run_time {
		double planned, late, data, ranks;
	} time;
	double block_seconds; /* of the last block */
	struct {
		uint64_t rank; /* the rank that waited most for batches, and its total wait */
		double seconds;
		uint64_t sample_rank, sample; /* the slowest sample, and its file */
		double sample_seconds;
		char name[192];
	} slowest;
};

/* Number of errors that are named, and bytes of a message, as in struct shoal_load_stats. */
#define RUN_ERRORS_NAMED 10
#define RUN_ERROR_BYTES  192

/* A node. */
struct run_node {
	char host[64];
	uint64_t nr_ranks, nr_cpus, memory_bytes;
	/*
	 * Of this program: memory, the maximum at the end of an epoch; the part in buffers; the
	 * catalog.
	 */
	uint64_t pss_bytes, pool_bytes, catalog_bytes;
};

struct run_result {
	const struct workload *workload; /* lent */
	uint64_t nr_ranks, nr_accelerators;
	uint64_t cores;          /* that the ranks may use */
	uint64_t started, ended; /* ns since 1970 */
	double seconds_to_first_batch;
	uint64_t run;     /* a random number that identifies it in its step log */
	uint64_t resumed; /* how many times */
	bool begun;       /* it can be resumed */
	bool partial;
	char why_partial[768];
	struct run_result_phase *phases; /* room for all epochs and evaluations of the workload */
	size_t nr_phases;
	struct run_node *nodes;
	size_t nr_nodes;
	/* The data: */
	char *data;    /* where it is read from, and how its catalog was found */
	char *catalog; /* text */
	uint64_t nr_files, nr_files_eval;
	double bytes; /* bytes per training sample, from the files' sizes; from the workload if
			 those are unknown */
	char digest[33];
	/* How it was read: */
	char engine[32], engine_detail[256], order[32];
	uint64_t seed, read_threads, in_flight, prefetch; /* threads per accelerator */
	uint64_t threads; /* of each rank's loader; 0: as many as help */
	char errors[RUN_ERRORS_NAMED]
		   [RUN_ERROR_BYTES + 32]; /* messages about samples that could not be read */
	size_t nr_errors;
	char no_series[256];    /* why this rank's time series is not complete, or "" */
	bool direct, synthetic; /* past the page cache; synthetic data */
	bool drop_cache;        /* files were dropped from the page cache before each phase */
	bool device_known;      /* cached_share is from what the devices read */
	/* Of a stopped run: loaders that may still be reading, which may never end. Close them
	 * before the data; a process that is about to end need not. */
	struct shoal_loader *reading[2];
	/* Over the epochs: */
	struct run_summary {
		size_t nr; /* epochs */
		double au, au_stdev, throughput, throughput_stdev, io, io_stdev;
		bool meets; /* training reaches the workload's required AU */
	} train, eval;
};

/* Whether any step of training counts: if all are excluded, there is no utilisation. */
bool run_result_measured(const struct run_result *r);

/* Whether no phase read a sample twice or not at all. */
bool run_result_audited(const struct run_result *r);

/* Samples that could not be read, of all epochs. */
uint64_t run_result_errors(const struct run_result *r);

/*
 * Whether phase @i counts in the means: a complete one, or an interrupted one if there is no
 * complete phase of its kind.
 */
bool run_result_counts(const struct run_result *r, size_t i);

/*
 * Why this run must not count as a success, whatever its AU; NULL if there is no reason. A reader
 * of DLIO's fields alone must not take part of a run, or one that read no storage, for a result.
 */
const char *run_result_unfit(const struct run_result *r);

/*
 * If training misses the workload's AU target: a sentence about what limited its last epoch, the
 * storage or the clients' processors. False if there is nothing to report.
 */
bool run_result_limit(const struct run_result *r, char *words, size_t cap);

/* Compute the means over the epochs that count, and whether they reach the required AU. */
void run_result_sum_up(struct run_result *r);

void run_result_release(struct run_result *r);

#endif
