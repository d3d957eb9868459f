/*
 * datasize.h - how large a dataset must be, and what a run of it will be like. Pure arithmetic.
 *
 * datasize, datagen and run ask bench_plan().
 */
#ifndef SHOAL_BENCH_DATASIZE_H
#define SHOAL_BENCH_DATASIZE_H

#include "bench/workload.h"
#include "comm/comm.h"

/* MLPerf Storage: the dataset is five times the memory of all clients, and an epoch 500 steps. */
#define BENCH_MEMORY_TIMES 5
#define BENCH_STEPS_MIN    500

/* A folder with more files than this is slow on many file systems. */
#define BENCH_FILES_PER_FOLDER 10000

/* What the workload runs on. */
struct bench_cluster {
	uint64_t nr_hosts;
	uint64_t memory_bytes; /* of all hosts together */
	uint64_t nr_accelerators;
};

/* A workload as it stands, on a number of accelerators, each a rank. */
struct bench_plan {
	uint64_t nr_files, nr_files_eval;
	uint64_t nr_samples, nr_samples_eval;
	uint64_t nr_bytes, nr_bytes_eval; /* by the nominal record length */
	uint64_t nr_folders;              /* that hold files: of train and valid together */
	uint64_t steps;       /* an epoch: whole batches for all ranks, or total_steps */
	uint64_t steps_eval;  /* an evaluation */
	uint64_t nr_evals;    /* evaluations in all */
	double step_seconds;  /* compute time, at its mean */
	double epoch_seconds; /* of training at 100 % utilisation: the least it can take */
	double total_seconds; /* all epochs and evaluations */
	/* What the storage must deliver for that, of all accelerators together: */
	double samples_per_second, bytes_per_second;
	/* Memory of Shoal itself: */
	uint64_t rank_bytes;    /* buffers of one rank */
	uint64_t catalog_bytes; /* shared by the ranks of a node, and the kernel may drop it */
};

/*
 * -EINVAL, in words: fewer samples than one step takes, more steps asked for than there are, a
 * total past 2^64. @nr_ranks at least 1.
 */
int bench_plan(const struct bench_workload *w, uint64_t nr_ranks, struct bench_plan *ret_plan,
	       struct shoal_err *err) SHOAL_MUST_USE;

/* Only what concerns the data: files, samples, bytes and folders. */
int bench_plan_data(const struct bench_workload *w, struct bench_plan *ret_plan,
		    struct shoal_err *err) SHOAL_MUST_USE;

struct bench_datasize {
	uint64_t files_by_memory; /* ceil(5 * memory / (samples per file * record bytes)) */
	uint64_t files_by_steps;  /* ceil(500 * accelerators * batch / samples per file) */
	uint64_t nr_files;        /* the larger one: dataset.num_files_train */
	struct bench_subfolders subfolders; /* the workload's own, or what suits so many files */
	struct bench_plan plan;             /* of the workload with these */
	uint64_t ranks_per_host;            /* the most, where accelerators are spread evenly */
	uint64_t node_bytes;                /* memory that Shoal takes on a host */
};

/* Physical memory of this host; 0 where the system does not tell. */
uint64_t bench_host_memory(void);

/* Collective: the hosts that the ranks of @comm run on, each rank an accelerator. */
int bench_measure(struct shoal_comm *comm, struct bench_cluster *ret_cluster,
		  struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Whether the workload, as it stands, has fewer files than the rule asks for on @cluster; then
 * @words is a sentence.
 */
bool bench_too_small(const struct bench_workload *w, const struct bench_cluster *cluster,
		     char *words, size_t cap);

int bench_datasize(const struct bench_workload *w, const struct bench_cluster *cluster,
		   struct bench_datasize *ret, struct shoal_err *err) SHOAL_MUST_USE;

#endif
