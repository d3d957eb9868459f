/* How much data a workload needs by MLPerf's rule, and what to expect of a run. */
#include "datagen/datasize.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"

/* The loader's memory per sample in a buffer: its name and its place (load/loader_private.h). */
#define SAMPLE_BYTES 400u
/* The alignment of reads. */
#define ALIGN 4096u

/* ---- Arithmetic that cannot wrap ---- */

static bool multiply(uint64_t a, uint64_t b, uint64_t *ret)
{
	return !__builtin_mul_overflow(a, b, ret);
}

/* Convert @v to a count, rounded up; false above 2^63. */
static bool round_up(double v, uint64_t *ret)
{
	v = ceil(v);
	if (!(v < 0x1p63))
		return false;
	*ret = v > 0 ? (uint64_t)v : 0;
	return true;
}

/* ---- The plan ---- */

/* The bytes of @nr samples at their nominal length, which need not be an integer. */
static int nominal_bytes(const struct workload *w, uint64_t nr_samples, uint64_t *ret,
			 struct shoal_err *err)
{
	double bytes = w->dataset.record_bytes * (double)nr_samples;
	uint64_t whole;

	/* Exact if lengths are integers. */
	if (w->dataset.record_bytes == floor(w->dataset.record_bytes) &&
	    multiply((uint64_t)w->dataset.record_bytes, nr_samples, &whole)) {
		*ret = whole;
		return 0;
	}
	if (!round_up(bytes, ret))
		return err_set(err, -EINVAL, "%.3g bytes are more than any storage can hold",
			       bytes);
	return 0;
}

static int count_samples(const struct workload *w, struct datasize_plan *p, struct shoal_err *err)
{
	const struct workload_dataset *d = &w->dataset;
	int rc;

	/* Like MLPerf's files for checkpoints, whose dataset is DLIO's default. */
	if (!w->workflow.train && !w->workflow.generate_data)
		return err_set(err, -EINVAL,
			       "the workload neither trains nor generates data (workflow.train and "
			       "workflow.generate_data are false): it has no dataset");
	p->nr_files = d->nr_files_train;
	p->nr_files_eval = d->nr_files_eval;
	if (!multiply(p->nr_files, d->samples_per_file, &p->nr_samples) ||
	    !multiply(p->nr_files_eval, d->samples_per_file, &p->nr_samples_eval))
		return err_set(err, -EINVAL, "the number of samples is too large");
	rc = nominal_bytes(w, p->nr_samples, &p->nr_bytes, err);
	if (rc == 0)
		rc = nominal_bytes(w, p->nr_samples_eval, &p->nr_bytes_eval, err);
	p->nr_folders = u64_min(d->subfolders_train.nr, p->nr_files);
	if (p->nr_files_eval)
		p->nr_folders += u64_min(d->subfolders_eval.nr, p->nr_files_eval);
	return rc;
}

/* Whole batches for all ranks: samples that do not fill a step are dropped, as in MLPerf. */
static int plan_steps(const struct workload *w, uint64_t nr_ranks, struct datasize_plan *p,
		      struct shoal_err *err)
{
	uint64_t step = 0, step_eval = 0;

	if (!multiply(w->reader.batch, nr_ranks, &step) ||
	    !multiply(w->reader.batch_eval, nr_ranks, &step_eval))
		return err_set(err, -EINVAL, "too many ranks");
	p->steps = p->nr_samples / step;
	p->steps_eval = p->nr_samples_eval / step_eval;
	if (p->steps == 0)
		return err_set(err, -EINVAL,
			       "too few samples for one step: %" PRIu64
			       " rank%s with a batch of %" PRIu64 " take%s %" PRIu64
			       " sample%s per step, but there are %" PRIu64
			       "; lower reader.batch_size or raise dataset.num_files_train",
			       nr_ranks, plural(nr_ranks), w->reader.batch,
			       nr_ranks == 1 ? "s" : "", step, plural(step), p->nr_samples);
	if (w->train.total_steps > p->steps)
		return err_set(err, -EINVAL,
			       "train.total_training_steps is %" PRIu64
			       ", but there is data for %" PRIu64 " step%s",
			       w->train.total_steps, p->steps, plural(p->steps));
	if (w->train.total_steps)
		p->steps = w->train.total_steps;
	if (w->workflow.evaluation && p->nr_files_eval && p->steps_eval == 0)
		return err_set(err, -EINVAL,
			       "too few samples for one step of evaluation: %" PRIu64
			       " ranks with a batch of %" PRIu64 " take more than the %" PRIu64
			       " samples; lower reader.batch_size_eval",
			       nr_ranks, w->reader.batch_eval, p->nr_samples_eval);
	if (w->workflow.evaluation && p->steps_eval && w->train.epochs >= w->evaluation.after_epoch)
		p->nr_evals =
			(w->train.epochs - w->evaluation.after_epoch) / w->evaluation.every_epochs +
			1;
	return 0;
}

static void estimate_times(const struct workload *w, uint64_t nr_ranks, struct datasize_plan *p)
{
	double eval = workload_time_mean(&w->evaluation.eval_time);

	p->step_seconds = workload_time_mean(&w->train.computation_time);
	p->epoch_seconds = p->step_seconds * (double)p->steps;
	p->total_seconds = p->epoch_seconds * (double)w->train.epochs +
			   eval * (double)p->steps_eval * (double)p->nr_evals;
	if (p->step_seconds > 0) {
		p->samples_per_second =
			(double)w->reader.batch * (double)nr_ranks / p->step_seconds;
		p->bytes_per_second = p->samples_per_second * w->dataset.record_bytes;
	}
}

/* Bits per entry of a size column: a size is stored as its difference from a block's minimum. */
static double size_bits(const struct workload *w)
{
	double range = 2 * w->dataset.spread.reach * (double)w->dataset.samples_per_file;

	return range >= 1 ? ceil(log2(range + 1)) : 0;
}

/* The buffer of a sample of that many bytes. */
static double sample_buffer_bytes(const struct workload *w, double record)
{
	return (ceil(record / ALIGN) + (w->dataset.samples_per_file > 1)) * ALIGN;
}

/*
 * The most buffers that @nr samples in flight need at once: what the loader keeps (an eighth more
 * than the mean), or four deviations of their sum; but never more than if all were the largest.
 */
static double buffers_of(const struct workload *w, double largest, double nr)
{
	double mean = nr * sample_buffer_bytes(w, fmax(0, largest - w->dataset.spread.reach));
	double likely = fmax(mean / 8, 4 * w->dataset.spread.sigma * sqrt(nr));

	return fmin(mean + likely, nr * sample_buffer_bytes(w, largest));
}

static int estimate_memory(const struct workload *w, struct datasize_plan *p, struct shoal_err *err)
{
	uint64_t rows = workload_rows_together(w); /* a group of rows is read and kept as a whole */
	uint64_t batch =
		(u64_max(w->reader.batch, p->nr_evals ? w->reader.batch_eval : 0) + rows - 1) /
		rows;
	/* Automatic read threads depend on the host: assume the most. */
	uint64_t threads =
		w->reader.read_threads ? w->reader.read_threads : WORKLOAD_READ_THREADS_MAX;
	uint64_t prefetch = workload_batches_ahead(w, threads);
	double record = (double)workload_file_size_max(w) / (double)w->dataset.samples_per_file *
			(double)rows;
	double nr = (double)batch * (double)(prefetch + 1);
	double catalog = (double)(p->nr_files + p->nr_files_eval) * size_bits(w) / 8 +
			 (double)p->nr_folders * 8 + 65536;

	if (!round_up(buffers_of(w, record, nr) + SAMPLE_BYTES * nr, &p->rank_bytes) ||
	    !round_up(catalog, &p->catalog_bytes))
		return err_set(err, -EINVAL,
			       "a batch of %" PRIu64 " samples of %.3g bytes, %" PRIu64
			       " of them read ahead, does not fit any memory",
			       batch, record, prefetch);
	return 0;
}

int datasize_plan_data(const struct workload *w, struct datasize_plan *ret_plan,
		       struct shoal_err *err)
{
	struct datasize_plan p = { 0 };
	int rc = count_samples(w, &p, err);

	if (rc == 0)
		*ret_plan = p;
	return rc;
}

int datasize_plan(const struct workload *w, uint64_t nr_ranks, struct datasize_plan *ret_plan,
		  struct shoal_err *err)
{
	struct datasize_plan p = { 0 };
	int rc = count_samples(w, &p, err);

	if (rc == 0)
		rc = plan_steps(w, nr_ranks, &p, err);
	if (rc == 0)
		rc = estimate_memory(w, &p, err);
	if (rc < 0)
		return rc;
	estimate_times(w, nr_ranks, &p);
	*ret_plan = p;
	return 0;
}

/* ---- The rule ---- */

/* ceil(@times * @a / @c), exactly; false above 2^63. */
static bool ceil_ratio(uint64_t times, uint64_t a, uint64_t c, uint64_t *ret)
{
	unsigned __int128 v = ((unsigned __int128)a * times + c - 1) / c;

	if (v > INT64_MAX)
		return false;
	*ret = (uint64_t)v;
	return true;
}

/*
 * With skip_listing DLIO looks for folders with the digits of nr - 1, and its generator gives them
 * those of nr: it does not find its own files in 10, 100, 1000 ... folders.
 */
static bool is_power_of_ten(uint64_t nr)
{
	while (nr >= 10 && nr % 10 == 0)
		nr /= 10;
	return nr == 1;
}

/*
 * Enough folders that none has more files than file systems handle well; levels if there are many.
 */
static struct workload_subfolders choose_folders(uint64_t nr_files)
{
	uint64_t nr = (nr_files + DATASIZE_FILES_PER_FOLDER - 1) / DATASIZE_FILES_PER_FOLDER;
	struct workload_subfolders f = { .nr = 1 };

	if (nr <= 1)
		return f;
	while (nr > DATASIZE_FILES_PER_FOLDER) {
		f.fanout[f.nr_levels++] = 100;
		f.nr *= 100;
		nr = (nr + 99) / 100;
	}
	nr += f.nr_levels == 0 && is_power_of_ten(nr);
	f.fanout[f.nr_levels++] = nr;
	f.nr *= nr;
	return f;
}

static int apply_rule(const struct workload *w, const struct datasize_cluster *c,
		      struct datasize_result *s, struct shoal_err *err)
{
	uint64_t spf = w->dataset.samples_per_file, step;
	double file = w->dataset.record_bytes * (double)spf;
	bool ok;

	/* With a fractional length (resnet50's) the first rule is computed in floating point. */
	if (file == floor(file) && file < 0x1p62)
		ok = ceil_ratio(DATASIZE_MEMORY_TIMES, c->memory_bytes, (uint64_t)file,
				&s->files_by_memory);
	else
		ok = round_up(DATASIZE_MEMORY_TIMES * (double)c->memory_bytes / file,
			      &s->files_by_memory);
	ok = ok && multiply(c->nr_accelerators, w->reader.batch, &step) &&
	     ceil_ratio(DATASIZE_STEPS_MIN, step, spf, &s->files_by_steps);
	s->nr_files = u64_max(1, u64_max(s->files_by_memory, s->files_by_steps));
	if (!ok || s->nr_files > UINT64_C(1000000000000))
		return err_set(err, -EINVAL,
			       "this much memory or this many accelerators need more than 10^12 "
			       "files");
	return 0;
}

static int check_cluster(const struct datasize_cluster *c, struct shoal_err *err)
{
	if (c->nr_hosts == 0 || c->nr_accelerators == 0 || c->memory_bytes == 0)
		return err_set(err, -EINVAL,
			       "there must be at least one host, some memory and one accelerator");
	if (c->nr_accelerators < c->nr_hosts)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " hosts share %" PRIu64
			       " accelerators: each host needs at least one",
			       c->nr_hosts, c->nr_accelerators);
	return 0;
}

int datasize_compute(const struct workload *w, const struct datasize_cluster *cluster,
		     struct datasize_result *ret, struct shoal_err *err)
{
	struct workload sized = *w; /* shares its strings */
	struct datasize_result s = { 0 };
	int rc = check_cluster(cluster, err);

	if (rc == 0)
		rc = apply_rule(w, cluster, &s, err);
	if (rc < 0)
		return rc;
	s.subfolders = w->dataset.subfolders_train.nr_levels ? w->dataset.subfolders_train
							     : choose_folders(s.nr_files);
	sized.dataset.nr_files_train = s.nr_files;
	sized.dataset.nr_files_generated = 0;
	sized.dataset.subfolders_train = s.subfolders;
	rc = datasize_plan(&sized, cluster->nr_accelerators, &s.plan, err);
	if (rc < 0)
		return rc;
	s.ranks_per_host = (cluster->nr_accelerators + cluster->nr_hosts - 1) / cluster->nr_hosts;
	if (!multiply(s.ranks_per_host, s.plan.rank_bytes, &s.node_bytes) ||
	    __builtin_add_overflow(s.node_bytes, s.plan.catalog_bytes, &s.node_bytes))
		return err_set(err, -EINVAL, "the number of buffers is too large");
	*ret = s;
	return 0;
}

bool datasize_too_small(const struct workload *w, const struct datasize_cluster *cluster,
			char *words, size_t cap)
{
	uint64_t have = w->dataset.nr_files_train;
	struct datasize_result s;

	if (datasize_compute(w, cluster, &s, NULL) < 0 || have >= s.nr_files)
		return false;
	snprintf(words, cap,
		 "%" PRIu64 " file%s: MLPerf requires %" PRIu64
		 " here (5 times %s of memory, and %u steps on %" PRIu64 " accelerator%s)",
		 have, plural(have), s.nr_files, size_in_words(cluster->memory_bytes).text,
		 DATASIZE_STEPS_MIN, cluster->nr_accelerators, plural(cluster->nr_accelerators));
	return true;
}

void datasize_note_rules(const struct workload *w, const struct datasize_cluster *cluster,
			 workload_warn_fn *say, void *self)
{
	struct datasize_plan p;
	char words[200];

	if (cluster->nr_accelerators % cluster->nr_hosts != 0) {
		snprintf(words, sizeof(words),
			 "%" PRIu64 " accelerators on %" PRIu64
			 " hosts: MLPerf's rule 3.3.6 requires the same number on each host",
			 cluster->nr_accelerators, cluster->nr_hosts);
		say(self, words);
	}
	if (datasize_plan(w, cluster->nr_accelerators, &p, NULL) == 0 &&
	    p.steps < DATASIZE_STEPS_MIN) {
		snprintf(words, sizeof(words),
			 "an epoch has %" PRIu64 " step%s: MLPerf requires %u", p.steps,
			 plural(p.steps), DATASIZE_STEPS_MIN);
		say(self, words);
	}
}

/* ---- Measuring ---- */

uint64_t datasize_host_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

int datasize_measure(struct comm *comm, struct datasize_cluster *ret_cluster, struct shoal_err *err)
{
	const struct comm_place *place = comm_place(comm);
	uint64_t memory = place->node_rank == 0 ? datasize_host_memory() : 0;
	int rc = comm_reduce(comm, COMM_SUM, &memory, 1, err);

	if (rc < 0)
		return rc;
	*ret_cluster = (struct datasize_cluster){ .nr_hosts = (uint64_t)place->nr_nodes,
						  .memory_bytes = memory,
						  .nr_accelerators = (uint64_t)place->size };
	return 0;
}
