/*
 * datasize.h - how large a dataset must be, and what to expect of a run. Pure arithmetic.
 *
 * datasize, datagen and run use datasize_plan().
 */
#ifndef SHOAL_DATAGEN_DATASIZE_H
#define SHOAL_DATAGEN_DATASIZE_H

#include "comm/comm.h"
#include "workload/workload.h"

/*
 * The rule of MLPerf Storage: a dataset of five times the memory of all clients, and 500 steps per
 * epoch.
 */
#define DATASIZE_MEMORY_TIMES 5
#define DATASIZE_STEPS_MIN    500

/* A folder with more files than this is slow on many file systems. */
#define DATASIZE_FILES_PER_FOLDER 10000

/* The hardware that the workload runs on. */
struct datasize_cluster {
	uint64_t nr_hosts;
	uint64_t memory_bytes; /* of all hosts together */
	uint64_t nr_accelerators;
};

/* A workload on a number of accelerators, one per rank. */
struct datasize_plan {
	uint64_t nr_files, nr_files_eval;
	uint64_t nr_samples, nr_samples_eval;
	uint64_t nr_bytes, nr_bytes_eval; /* by nominal record length */
	uint64_t nr_folders;              /* folders with files, of train and valid together */
	uint64_t steps;       /* per epoch: whole batches for all ranks, or total_steps */
	uint64_t steps_eval;  /* per evaluation */
	uint64_t nr_evals;    /* evaluations in all */
	double step_seconds;  /* compute time, at its mean */
	double epoch_seconds; /* of training at 100 % utilisation: the minimum */
	double total_seconds; /* all epochs and evaluations */
	/* The rates that the storage must deliver for that, over all accelerators: */
	double samples_per_second, bytes_per_second;
	/* Memory of Shoal itself: */
	uint64_t rank_bytes;    /* buffers of one rank */
	uint64_t catalog_bytes; /* shared by the ranks of a node; the kernel may drop it */
};

/*
 * -EINVAL, with a message: fewer samples than one step takes, more steps requested than there are,
 * or a total above 2^64. @nr_ranks is at least 1.
 */
int datasize_plan(const struct workload *w, uint64_t nr_ranks, struct datasize_plan *ret_plan,
		  struct shoal_err *err) MUST_USE;

/* Only the parts that concern the data: files, samples, bytes and folders. */
int datasize_plan_data(const struct workload *w, struct datasize_plan *ret_plan,
		       struct shoal_err *err) MUST_USE;

struct datasize_result {
	uint64_t files_by_memory; /* ceil(5 * memory / (samples per file * record bytes)) */
	uint64_t files_by_steps;  /* ceil(500 * accelerators * batch / samples per file) */
	uint64_t nr_files;        /* the larger one: dataset.num_files_train */
	struct workload_subfolders
		subfolders;        /* the workload's own, or suitable ones for so many files */
	struct datasize_plan plan; /* of the workload with these values */
	uint64_t ranks_per_host;   /* the most, if accelerators are spread evenly */
	uint64_t node_bytes;       /* memory that Shoal needs per host */
};

/* Physical memory of this host; 0 if unknown. */
uint64_t datasize_host_memory(void);

/* Collective: count the hosts that the ranks of @comm run on, each rank being an accelerator. */
int datasize_measure(struct comm *comm, struct datasize_cluster *ret_cluster,
		     struct shoal_err *err) MUST_USE;

/*
 * Call @say with a sentence for each other MLPerf rule that a run of the workload on @cluster
 * breaks: equally many accelerators on each host, and 500 steps per epoch.
 */
void datasize_note_rules(const struct workload *w, const struct datasize_cluster *cluster,
			 workload_warn_fn *say, void *self);

/*
 * Whether the workload has fewer files than the rule requires on @cluster; if so, @words is a
 * sentence about it.
 */
bool datasize_too_small(const struct workload *w, const struct datasize_cluster *cluster,
			char *words, size_t cap);

int datasize_compute(const struct workload *w, const struct datasize_cluster *cluster,
		     struct datasize_result *ret, struct shoal_err *err) MUST_USE;

#endif
