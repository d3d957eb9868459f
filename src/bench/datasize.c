/* How much data a workload needs, by MLPerf's rule, and what to expect of a run. */
#include "bench/datasize.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"

/* Of the loader, for each sample in a buffer: its name and its place (load/loader_inside.h). */
#define SAMPLE_BYTES 4400u
/* What a read is aligned to. */
#define ALIGN 4096u

/* ---- Arithmetic that cannot wrap ---- */

static bool multiply(uint64_t a, uint64_t b, uint64_t *ret)
{
	return !__builtin_mul_overflow(a, b, ret);
}

/* @v as a count, rounded up; false when it is past 2^63. */
static bool round_up(double v, uint64_t *ret)
{
	v = ceil(v);
	if (!(v < 0x1p63))
		return false;
	*ret = v > 0 ? (uint64_t)v : 0;
	return true;
}

/* ---- The plan ---- */

/* Bytes of so many samples by their nominal length, which need not be whole. */
static int nominal_bytes(const struct bench_workload *w, uint64_t nr_samples, uint64_t *ret,
			 struct shoal_err *err)
{
	double bytes = w->dataset.record_bytes * (double)nr_samples;
	uint64_t whole;

	/* Exactly, where lengths are whole. */
	if (w->dataset.record_bytes == floor(w->dataset.record_bytes) &&
	    multiply((uint64_t)w->dataset.record_bytes, nr_samples, &whole)) {
		*ret = whole;
		return 0;
	}
	if (!round_up(bytes, ret))
		return shoal_fail(err, -EINVAL, "%.3g bytes are more than any storage holds",
				  bytes);
	return 0;
}

static int count_samples(const struct bench_workload *w, struct bench_plan *p,
			 struct shoal_err *err)
{
	const struct bench_dataset *d = &w->dataset;
	int rc;

	p->nr_files = d->nr_files_train;
	p->nr_files_eval = d->nr_files_eval;
	if (!multiply(p->nr_files, d->samples_per_file, &p->nr_samples) ||
	    !multiply(p->nr_files_eval, d->samples_per_file, &p->nr_samples_eval))
		return shoal_fail(err, -EINVAL, "more samples than can be counted");
	rc = nominal_bytes(w, p->nr_samples, &p->nr_bytes, err);
	if (rc == 0)
		rc = nominal_bytes(w, p->nr_samples_eval, &p->nr_bytes_eval, err);
	p->nr_folders = shoal_min(d->subfolders_train.nr, p->nr_files);
	if (p->nr_files_eval)
		p->nr_folders += shoal_min(d->subfolders_eval.nr, p->nr_files_eval);
	return rc;
}

/* Whole batches for all ranks: what fills no step is dropped, as MLPerf does. */
static int count_steps(const struct bench_workload *w, uint64_t nr_ranks, struct bench_plan *p,
		       struct shoal_err *err)
{
	uint64_t step = 0, step_eval = 0;

	if (!multiply(w->reader.batch, nr_ranks, &step) ||
	    !multiply(w->reader.batch_eval, nr_ranks, &step_eval))
		return shoal_fail(err, -EINVAL, "too many ranks");
	p->steps = p->nr_samples / step;
	p->steps_eval = p->nr_samples_eval / step_eval;
	if (p->steps == 0)
		return shoal_fail(err, -EINVAL,
				  "not one step: %" PRIu64 " rank%s with a batch of %" PRIu64
				  " take%s %" PRIu64 " sample%s in a step, and there are %" PRIu64
				  "; lower reader.batch_size or raise dataset.num_files_train",
				  nr_ranks, shoal_plural(nr_ranks), w->reader.batch,
				  nr_ranks == 1 ? "s" : "", step, shoal_plural(step),
				  p->nr_samples);
	if (w->train.total_steps > p->steps)
		return shoal_fail(err, -EINVAL,
				  "train.total_training_steps is %" PRIu64
				  ", but the data makes %" PRIu64 " step%s",
				  w->train.total_steps, p->steps, shoal_plural(p->steps));
	if (w->train.total_steps)
		p->steps = w->train.total_steps;
	if (w->workflow.evaluation && p->nr_files_eval && p->steps_eval == 0)
		return shoal_fail(err, -EINVAL,
				  "not one step of evaluation: %" PRIu64
				  " ranks with a batch of %" PRIu64 " take more than the %" PRIu64
				  " samples there are; lower reader.batch_size_eval",
				  nr_ranks, w->reader.batch_eval, p->nr_samples_eval);
	if (w->workflow.evaluation && p->steps_eval && w->train.epochs >= w->evaluation.after_epoch)
		p->nr_evals =
			(w->train.epochs - w->evaluation.after_epoch) / w->evaluation.every_epochs +
			1;
	return 0;
}

static void estimate_times(const struct bench_workload *w, uint64_t nr_ranks, struct bench_plan *p)
{
	double eval = bench_time_mean(&w->evaluation.eval_time);

	p->step_seconds = bench_time_mean(&w->train.computation_time);
	p->epoch_seconds = p->step_seconds * (double)p->steps;
	p->total_seconds = p->epoch_seconds * (double)w->train.epochs +
			   eval * (double)p->steps_eval * (double)p->nr_evals;
	if (p->step_seconds > 0) {
		p->samples_per_second =
			(double)w->reader.batch * (double)nr_ranks / p->step_seconds;
		p->bytes_per_second = p->samples_per_second * w->dataset.record_bytes;
	}
}

/* Bits of a size column: a size is kept as its difference from the least of a block. */
static double size_bits(const struct bench_workload *w)
{
	double range = 2 * w->dataset.spread.reach * (double)w->dataset.samples_per_file;

	return range >= 1 ? ceil(log2(range + 1)) : 0;
}

static int estimate_memory(const struct bench_workload *w, struct bench_plan *p,
			   struct shoal_err *err)
{
	uint64_t batch = shoal_max(w->reader.batch, p->nr_evals ? w->reader.batch_eval : 0);
	uint64_t prefetch = w->reader.prefetch ? w->reader.prefetch : 1;
	double record = (double)bench_file_size_max(w) / (double)w->dataset.samples_per_file;
	double slot = (ceil(record / ALIGN) + (w->dataset.samples_per_file > 1)) * ALIGN;
	double catalog = (double)(p->nr_files + p->nr_files_eval) * size_bits(w) / 8 +
			 (double)p->nr_folders * 8 + 65536;

	if (!round_up((slot + SAMPLE_BYTES) * (double)batch * (double)(prefetch + 1),
		      &p->rank_bytes) ||
	    !round_up(catalog, &p->catalog_bytes))
		return shoal_fail(err, -EINVAL,
				  "a batch of %" PRIu64 " samples of %.3g bytes, %" PRIu64
				  " ahead, is more than any memory",
				  batch, record, prefetch);
	return 0;
}

int bench_plan_data(const struct bench_workload *w, struct bench_plan *ret_plan,
		    struct shoal_err *err)
{
	struct bench_plan p = { 0 };
	int rc = count_samples(w, &p, err);

	if (rc == 0)
		*ret_plan = p;
	return rc;
}

int bench_plan(const struct bench_workload *w, uint64_t nr_ranks, struct bench_plan *ret_plan,
	       struct shoal_err *err)
{
	struct bench_plan p = { 0 };
	int rc = count_samples(w, &p, err);

	if (rc == 0)
		rc = count_steps(w, nr_ranks, &p, err);
	if (rc == 0)
		rc = estimate_memory(w, &p, err);
	if (rc < 0)
		return rc;
	estimate_times(w, nr_ranks, &p);
	*ret_plan = p;
	return 0;
}

/* ---- The rule ---- */

/* ceil(@times * @a / @c), exactly; false when it is past 2^63. */
static bool ceil_ratio(uint64_t times, uint64_t a, uint64_t c, uint64_t *ret)
{
	unsigned __int128 v = ((unsigned __int128)a * times + c - 1) / c;

	if (v > INT64_MAX)
		return false;
	*ret = (uint64_t)v;
	return true;
}

/* So many that none has more files than file systems are quick with; levels, when there are many.
 */
static struct bench_subfolders suit_folders(uint64_t nr_files)
{
	uint64_t nr = (nr_files + BENCH_FILES_PER_FOLDER - 1) / BENCH_FILES_PER_FOLDER;
	struct bench_subfolders f = { .nr = 1 };

	if (nr <= 1)
		return f;
	while (nr > BENCH_FILES_PER_FOLDER) {
		f.fanout[f.nr_levels++] = 100;
		f.nr *= 100;
		nr = (nr + 99) / 100;
	}
	f.fanout[f.nr_levels++] = nr;
	f.nr *= nr;
	return f;
}

static int apply_rule(const struct bench_workload *w, const struct bench_cluster *c,
		      struct bench_datasize *s, struct shoal_err *err)
{
	uint64_t spf = w->dataset.samples_per_file, step;
	double file = w->dataset.record_bytes * (double)spf;
	bool ok;

	/* A length that is not whole (resnet50's) makes the first rule one of real numbers. */
	if (file == floor(file) && file < 0x1p62)
		ok = ceil_ratio(BENCH_MEMORY_TIMES, c->memory_bytes, (uint64_t)file,
				&s->files_by_memory);
	else
		ok = round_up(BENCH_MEMORY_TIMES * (double)c->memory_bytes / file,
			      &s->files_by_memory);
	ok = ok && multiply(c->nr_accelerators, w->reader.batch, &step) &&
	     ceil_ratio(BENCH_STEPS_MIN, step, spf, &s->files_by_steps);
	s->nr_files = shoal_max(1, shoal_max(s->files_by_memory, s->files_by_steps));
	if (!ok || s->nr_files > UINT64_C(1000000000000))
		return shoal_fail(err, -EINVAL,
				  "so much memory or so many accelerators need more than 10^12 "
				  "files");
	return 0;
}

static int check_cluster(const struct bench_cluster *c, struct shoal_err *err)
{
	if (c->nr_hosts == 0 || c->nr_accelerators == 0 || c->memory_bytes == 0)
		return shoal_fail(err, -EINVAL,
				  "there must be a host, memory and an accelerator at least");
	if (c->nr_accelerators < c->nr_hosts)
		return shoal_fail(err, -EINVAL,
				  "%" PRIu64 " hosts share %" PRIu64
				  " accelerators: each host needs one at least",
				  c->nr_hosts, c->nr_accelerators);
	return 0;
}

int bench_datasize(const struct bench_workload *w, const struct bench_cluster *cluster,
		   struct bench_datasize *ret, struct shoal_err *err)
{
	struct bench_workload sized = *w; /* shares its texts */
	struct bench_datasize s = { 0 };
	int rc = check_cluster(cluster, err);

	if (rc == 0)
		rc = apply_rule(w, cluster, &s, err);
	if (rc < 0)
		return rc;
	s.subfolders = w->dataset.subfolders_train.nr_levels ? w->dataset.subfolders_train
							     : suit_folders(s.nr_files);
	sized.dataset.nr_files_train = s.nr_files;
	sized.dataset.nr_files_generated = 0;
	sized.dataset.subfolders_train = s.subfolders;
	rc = bench_plan(&sized, cluster->nr_accelerators, &s.plan, err);
	if (rc < 0)
		return rc;
	s.ranks_per_host = (cluster->nr_accelerators + cluster->nr_hosts - 1) / cluster->nr_hosts;
	if (!multiply(s.ranks_per_host, s.plan.rank_bytes, &s.node_bytes) ||
	    __builtin_add_overflow(s.node_bytes, s.plan.catalog_bytes, &s.node_bytes))
		return shoal_fail(err, -EINVAL, "more buffers than can be counted");
	*ret = s;
	return 0;
}

bool bench_too_small(const struct bench_workload *w, const struct bench_cluster *cluster,
		     char *words, size_t cap)
{
	uint64_t have = w->dataset.nr_files_train;
	struct bench_datasize s;

	if (bench_datasize(w, cluster, &s, NULL) < 0 || have >= s.nr_files)
		return false;
	snprintf(words, cap,
		 "%" PRIu64 " file%s: MLPerf's rule asks for %" PRIu64
		 " here, five times the memory of %.1f GiB and %u steps on %" PRIu64
		 " accelerator%s",
		 have, shoal_plural(have), s.nr_files, (double)cluster->memory_bytes / 0x1p30,
		 BENCH_STEPS_MIN, cluster->nr_accelerators, shoal_plural(cluster->nr_accelerators));
	return true;
}

/* ---- Measuring ---- */

uint64_t bench_host_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

int bench_measure(struct shoal_comm *comm, struct bench_cluster *ret_cluster, struct shoal_err *err)
{
	const struct shoal_comm_place *place = shoal_comm_place(comm);
	uint64_t memory = place->node_rank == 0 ? bench_host_memory() : 0;
	int rc = shoal_comm_reduce(comm, SHOAL_COMM_SUM, &memory, 1, err);

	if (rc < 0)
		return rc;
	*ret_cluster = (struct bench_cluster){ .nr_hosts = (uint64_t)place->nr_nodes,
					       .memory_bytes = memory,
					       .nr_accelerators = (uint64_t)place->size };
	return 0;
}
