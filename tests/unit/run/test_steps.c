/*
 * Goal: a run takes every step of every epoch, reads each sample once, in an order that its
 * shuffles say; several accelerators in a process read what as many ranks would; and one that was
 * stopped or killed goes on behind its last step.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"
#include "run/pace.h"
#include "run/run.h"

#define FILES 50

static const char base[] =
	"model: {name: small}\n"
	"framework: pytorch\n"
	"dataset: {format: npz, num_files_train: 50, record_length_bytes: 1000}\n"
	"reader: {batch_size: 4, read_threads: 3, file_shuffle: seed}\n"
	"train: {epochs: 2, computation_time: 0.0005}\n"
	"metric: {au: 0.1}\n";

static int stop;
static uint64_t stop_after; /* steps that progress has seen; 0: never */
static uint64_t stop_epoch; /* and of which epoch at least */
static unsigned nr_progress;

struct setting {
	char *overrides[8]; /* up to the first NULL */
	uint32_t accelerators;
	bool resume;
	const char *store;
};

static struct comm *comm;

static struct workload *load(const struct setting *s)
{
	struct workload *w = NULL;
	struct shoal_err err = { "" };
	size_t nr = 0;

	while (nr < 8 && s->overrides[nr])
		nr++;
	if (workload_parse(base, strlen(base), "base", s->overrides, nr, NULL, NULL, &w, &err) < 0)
		fail_msg("%s", err.msg);
	return w;
}

static void see_progress(void *self, const struct run_progress *p)
{
	(void)self;
	nr_progress++;
	assert_true(p->step <= p->steps && p->epoch <= p->nr_epochs);
	/* The first step of a block is excluded. */
	assert_true(isnan(p->au) || (p->au >= 0 && p->step > 1));
	assert_true(p->wait_share >= 0 && p->seconds_left >= 0);
	if (stop_after && p->step >= stop_after && p->epoch >= stop_epoch)
		__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
}

/* begin.json marks the folder: until it is there, no file of a rank may lie in it. */
static int see_begun(void *self, const struct run_result *r, struct shoal_err *err)
{
	(void)self;
	(void)err;
	assert_true(r->run != 0 && r->started != 0 && r->cores > 0);
	assert_int_equal(access(test_path(".shoal-run"), F_OK), 0);
	assert_true(r->resumed > 0 || access(test_path(RUN_SERIES_PREFIX "0"), F_OK) < 0);
	return 0;
}

/* Run it in the test folder. The workload stays with the result. */
static int run(const struct setting *s, struct run_result *r, struct shoal_err *err)
{
	struct workload *w = load(s);
	struct run_data_options dopt = {
		.folder = test_dir(),
		.synthetic = true,
	};
	struct run_data data;
	struct run_options o = { .workload = w,
				 .data = &data,
				 .comm = comm,
				 .nr_accelerators = s->accelerators ? s->accelerators : 1,
				 .load = { .store = s->store ? s->store : "null:size=1T" },
				 .resume = s->resume,
				 .results = test_dir(),
				 .stop = &stop,
				 .began = clock_now(),
				 .progress = see_progress,
				 .begun = see_begun };
	int rc;

	__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
	rc = run_data_open(&data, comm, w, &dopt, err);
	if (rc == 0)
		rc = run_execute(&o, r, err);
	else
		*r = (struct run_result){ .workload = w };
	for (size_t i = 0; i < ARRAY_LEN(r->reading); i++) /* what a stopped run still reads */
		r->reading[i] = shoal_loader_close(r->reading[i]);
	run_data_close(&data);
	return rc;
}

static void done(struct run_result *r)
{
	struct workload *w = (struct workload *)(uintptr_t)r->workload;

	run_result_release(r);
	workload_free(w);
}

static void forget(void)
{
	run_folder_finish(test_dir(), 1);
	unlink(test_path("train.shoal"));
	unlink(test_path("valid.shoal"));
	unlink(test_path("series.0"));
}

static void run_well(const struct setting *s, struct run_result *r)
{
	struct shoal_err err = { "" };

	if (run(s, r, &err) < 0)
		fail_msg("%s", err.msg);
}

static bool same_order(const struct run_result_phase *a, const struct run_result_phase *b)
{
	return memcmp(a->audit.got + 2, b->audit.got + 2, 2 * sizeof(uint64_t)) == 0;
}

/* ---- What a run is ---- */

static void a_run_takes_all_steps_and_reads_each_sample_once(void **state)
{
	struct setting s = { .overrides = { NULL } };
	struct run_result r;

	(void)state;
	run_well(&s, &r);
	assert_int_equal(r.nr_phases, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct run_result_phase *p = &r.phases[i];

		assert_int_equal(p->epoch, i + 1);
		assert_int_equal(p->steps, FILES / 4);
		assert_int_equal(p->steps_due, FILES / 4);
		assert_int_equal(p->samples, FILES / 4 * 4); /* the rest is dropped */
		assert_int_equal(p->bytes_delivered, FILES / 4 * 4 * 1000);
		assert_int_equal(p->proof, RUN_PROVEN);
		assert_true(p->figures.au > 0 && p->figures.au <= 100.01);
		assert_true(p->figures.throughput > 0);
		assert_true(p->seconds >= FILES / 4 * 0.0005);
		assert_true(p->latency.known && !p->open.known && p->queue_depth > 0);
		assert_true(p->slowest.name[0] == 't');
	}
	assert_false(same_order(&r.phases[0], &r.phases[1]));
	assert_false(r.partial);
	assert_true(r.train.meets && r.train.nr == 2 && r.eval.nr == 0);
	assert_int_equal(r.nr_nodes, 1);
	assert_true(r.nodes[0].pss_bytes > 0 && r.nodes[0].pool_bytes >= 12 * 1000);
	done(&r);
	forget();
}

static void shuffles_that_are_off_or_frozen_repeat_the_order(void **state)
{
	static char off[] = "reader.file_shuffle=off", frozen[] = "train.seed_change_epoch=false";
	static char seed[] = "train.seed=7";
	struct setting s = { .overrides = { off } };
	struct run_result sequential, r, other;

	(void)state;
	run_well(&s, &sequential);
	forget();
	assert_string_equal(sequential.order, "sequential");
	assert_true(same_order(&sequential.phases[0], &sequential.phases[1]));
	s = (struct setting){ .overrides = { frozen } };
	run_well(&s, &r);
	forget();
	assert_string_equal(r.order, "global");
	assert_true(same_order(&r.phases[0], &r.phases[1]));
	assert_false(same_order(&r.phases[0], &sequential.phases[0]));
	s = (struct setting){ .overrides = { seed } };
	run_well(&s, &other);
	forget();
	assert_false(same_order(&other.phases[0], &r.phases[0]));
	done(&sequential);
	done(&other);
	done(&r);
}

static void a_random_shuffle_has_another_seed_each_run(void **state)
{
	static char shuffle[] = "reader.file_shuffle=random";
	struct setting s = { .overrides = { shuffle } };
	struct run_result a, b;

	(void)state;
	run_well(&s, &a);
	forget();
	run_well(&s, &b);
	forget();
	assert_int_not_equal(a.seed, b.seed);
	assert_false(same_order(&a.phases[0], &b.phases[0]));
	done(&a);
	done(&b);
}

static void several_accelerators_read_what_one_with_their_batch_would(void **state)
{
	static char twelve[] = "reader.batch_size=12";
	struct setting one = { .overrides = { twelve } },
		       three = { .overrides = { NULL }, .accelerators = 3 };
	struct run_result a, b;

	(void)state;
	run_well(&one, &a);
	forget();
	run_well(&three, &b);
	forget();
	assert_int_equal(b.nr_accelerators, 3);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(b.phases[i].steps, FILES / 12);
		assert_int_equal(b.phases[i].samples, a.phases[i].samples);
		assert_true(same_order(&a.phases[i], &b.phases[i]));
		assert_int_equal(b.phases[i].proof, RUN_PROVEN);
		assert_true(b.phases[i].figures.au > 0 && b.phases[i].figures.au <= 100.01);
	}
	done(&a);
	done(&b);
}

static void evaluations_come_when_they_are_due(void **state)
{
	static char eval[] = "workflow.evaluation=true", files[] = "dataset.num_files_eval=9";
	static char time[] = "evaluation.eval_time=0.0001",
		    after[] = "evaluation.eval_after_epoch=2";
	static char every[] = "evaluation.epochs_between_evals=2", epochs[] = "train.epochs=4";
	static char batch[] = "reader.batch_size_eval=2", few[] = "dataset.num_files_train=8";
	struct setting s = { .overrides = { eval, files, time, after, every, epochs, batch, few } };
	static const uint32_t want[][2] = { { 1, 0 }, { 2, 0 }, { 2, 1 },
					    { 3, 0 }, { 4, 0 }, { 4, 1 } };
	struct run_result r;

	(void)state;
	run_well(&s, &r);
	forget();
	assert_int_equal(r.nr_phases, 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(r.phases[i].epoch, want[i][0]);
		assert_int_equal(r.phases[i].eval, want[i][1]);
		assert_int_equal(r.phases[i].steps, want[i][1] ? 4 : 2);
		assert_int_equal(r.phases[i].samples, 8);
		assert_int_equal(r.phases[i].proof, RUN_PROVEN);
	}
	assert_true(r.train.nr == 4 && r.eval.nr == 2);
	assert_non_null(strstr(r.phases[2].slowest.name, "valid/"));
	done(&r);
}

static void total_steps_end_an_epoch_early_and_it_is_proven_all_the_same(void **state)
{
	static char steps[] = "train.total_training_steps=5";
	struct setting s = { .overrides = { steps } };
	struct run_result r;

	(void)state;
	run_well(&s, &r);
	forget();
	assert_int_equal(r.phases[1].steps, 5);
	assert_int_equal(r.phases[1].samples, 20);
	assert_int_equal(r.phases[1].proof, RUN_PROVEN);
	done(&r);
}

static void preprocessing_holds_batches_up(void **state)
{
	/* 4 samples of 4 ms by 2 workers are 8 ms a step, whatever is read ahead. */
	static char pre[] = "reader.preprocess_time=0.004", two[] = "reader.read_threads=2";
	static char one[] = "train.epochs=1";

	(void)state;
	for (uint32_t nr = 1; nr <= 3; nr += 2) { /* each accelerator has workers of its own */
		struct setting s = { .overrides = { pre, two, one }, .accelerators = nr };
		struct run_result r;

		run_well(&s, &r);
		forget();
		assert_true(r.phases[0].seconds > 0.9 * 0.008 * (double)r.phases[0].steps);
		assert_true(r.phases[0].wait_share > 0); /* the less, the later it is woken */
		assert_true(r.phases[0].figures.au_planned < 50);
		done(&r);
	}
}

static void samples_of_a_container_are_read_as_the_shuffle_says(void **state)
{
	static char spf[] = "dataset.num_samples_per_file=6",
		    sample[] = "reader.sample_shuffle=seed";
	static char tf[] = "framework=tensorflow", size[] = "reader.shuffle_size=12";
	static char few[] = "dataset.num_files_train=8", format[] = "dataset.format=tfrecord";
	static const struct {
		char *more;
		const char *order;
	} row[] = { { NULL, "files" }, { sample, "pieces" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct setting s = { .overrides = { spf, tf, size, few, format, row[i].more } };
		struct run_result r;

		run_well(&s, &r);
		forget();
		assert_string_equal(r.order, row[i].order);
		assert_int_equal(r.phases[0].steps, 12);
		assert_int_equal(r.phases[0].samples, 48);
		assert_int_equal(r.phases[0].proof, RUN_PROVEN);
		done(&r);
	}
}

/* ---- Stopping and going on ---- */

static char slow[] = "train.computation_time=0.03";

static void a_run_that_is_stopped_is_partial_and_goes_on(void **state)
{
	struct setting s = { .overrides = { slow } };
	struct run_result r, whole;
	uint64_t before;

	(void)state;
	run_well(&s, &whole);
	forget();
	stop_after = 3;
	run_well(&s, &r);
	stop_after = 0;
	assert_true(r.partial);
	assert_int_equal(r.nr_phases, 1);
	assert_true(r.phases[0].partial && r.phases[0].steps >= 3 && r.phases[0].steps < 12);
	assert_int_equal(r.phases[0].proof, RUN_NOT_PROVEN);
	before = r.phases[0].steps;
	done(&r);
	s.resume = true;
	run_well(&s, &r);
	assert_false(r.partial);
	assert_int_equal(r.resumed, 1);
	assert_int_equal(r.nr_phases, 2);
	assert_int_equal(r.phases[0].steps_before, before);
	assert_int_equal(r.phases[0].steps, 12);
	assert_int_equal(r.phases[0].samples, (12 - before) * 4); /* only of the rest */
	assert_int_equal(r.phases[0].proof, RUN_PROVEN);
	/* Both parts together are the epoch: the rest, and not its beginning again. */
	assert_int_equal(r.phases[0].audit.from_step, 0);
	assert_int_equal(r.phases[0].audit.samples, 12 * 4);
	assert_true(same_order(&r.phases[0], &whole.phases[0]));
	assert_int_equal(r.phases[1].steps_before, 0);
	assert_true(same_order(&r.phases[1], &whole.phases[1]));
	assert_true(r.phases[0].seconds > r.phases[0].block_seconds);
	done(&whole);
	done(&r);
	forget();
}

/* One is excluded at the start of each block, and some at the end of the epoch only. */
static void steps_that_count_are_told_over_all_blocks(void **state)
{
	static char few[] = "dataset.num_files_train=8", one[] = "train.epochs=1";
	static char end[] = "output.metric.exclude_end_steps=11";
	struct setting s = { .overrides = { slow, one, end } };
	struct run_result r;

	(void)state;
	run_well(&s, &r);
	assert_int_equal(r.phases[0].steps_counted, 0);
	assert_false(run_result_measured(&r));
	done(&r);
	forget();
	stop_after = 3;
	run_well(&s, &r);
	assert_true(r.partial && r.phases[0].steps >= 3);
	assert_int_equal(r.phases[0].steps_counted, r.phases[0].steps - 1);
	assert_true(run_result_measured(&r) && r.phases[0].figures.au > 0);
	done(&r);
	forget();
	s = (struct setting){ .overrides = { slow, one, few } };
	stop_after = 1;
	run_well(&s, &r);
	stop_after = 0;
	done(&r);
	s.resume = true;
	run_well(&s, &r);
	assert_true(r.phases[0].steps == 2 && r.phases[0].steps_before == 1);
	assert_int_equal(r.phases[0].steps_counted, 0);
	assert_false(run_result_measured(&r));
	done(&r);
	forget();
}

static void a_run_that_is_stopped_in_its_second_epoch_keeps_the_first(void **state)
{
	static char few[] = "dataset.num_files_train=8", three[] = "train.epochs=9";
	struct setting s = { .overrides = { slow, few, three } };
	struct run_result_phase first;
	struct run_result r;

	(void)state;
	stop_after = 1;
	stop_epoch = 3;
	run_well(&s, &r);
	stop_after = stop_epoch = 0;
	assert_true(r.partial);
	assert_int_equal(r.nr_phases, 3);
	assert_true(r.phases[2].partial && !r.phases[1].partial);
	assert_int_equal(r.phases[2].steps, 1);
	first = r.phases[0];
	done(&r);
	s.resume = true;
	run_well(&s, &r);
	assert_int_equal(r.nr_phases, 9);
	assert_memory_equal(&first, &r.phases[0], sizeof(first));
	assert_int_equal(r.phases[2].steps_before, 1);
	assert_int_equal(r.phases[3].steps_before, 0);
	done(&r);
	forget();
}

/* As if killed after a number of steps: the record is cut there, in the middle of one. */
static void a_run_that_was_killed_goes_on_behind_its_last_step(void **state)
{
	struct setting s = { .overrides = { slow } };
	struct run_result r;
	uint8_t *bytes;
	size_t len;

	(void)state;
	stop_after = 5;
	run_well(&s, &r);
	stop_after = 0;
	done(&r);
	bytes = file_read(test_path(".shoal-run/steps.0"), &len);
	/* Head, block, 4 steps, and a part of the fifth. */
	file_write(test_path(".shoal-run/steps.0"), bytes, 40 * 6 + 17);
	s.resume = true;
	run_well(&s, &r);
	assert_int_equal(r.phases[0].steps_before, 4);
	assert_int_equal(r.phases[0].steps, 12);
	assert_int_equal(r.phases[0].samples, 8 * 4);
	assert_int_equal(r.phases[0].proof, RUN_PROVEN);
	done(&r);
	free(bytes);
	forget();
}

static void what_cannot_be_resumed_is_refused(void **state)
{
	static char other[] = "reader.prefetch_size=3";
	struct setting s = { .overrides = { slow } };
	struct shoal_err err = { "" };
	struct run_result r;
	uint8_t *bytes;
	size_t len;

	(void)state;
	s.resume = true;
	assert_int_equal(run(&s, &r, &err), -ENOENT);
	done(&r);
	forget();
	comm = comm_close(comm); /* it has failed */
	assert_int_equal(comm_self(&comm, NULL), 0);
	s.resume = false;
	stop_after = 3;
	run_well(&s, &r);
	stop_after = 0;
	done(&r);
	bytes = file_read(test_path(".shoal-run/state"), &len);
	for (int i = 0; i < 4; i++) {
		static const char *const words[] = { "another workload", "1 rank of 1 accelerator",
						     "from another version", "damaged" };

		s = (struct setting){ .overrides = { slow, i == 0 ? other : NULL },
				      .resume = true,
				      .accelerators = i == 1 ? 3 : 1 };
		if (i == 2)
			file_write(test_path(".shoal-run/state"), bytes, len / 2);
		if (i == 3) {
			bytes[len / 2] ^= 1;
			file_write(test_path(".shoal-run/state"), bytes, len);
		}
		assert_true(run(&s, &r, &err) < 0);
		assert_non_null(strstr(err.msg, words[i]));
		done(&r);
		comm = comm_close(comm);
		assert_int_equal(comm_self(&comm, NULL), 0);
	}
	free(bytes);
	forget();
}

/* ---- Data ---- */

static void computed_catalogs_have_the_names_and_sizes_of_the_workload(void **state)
{
	static char levels[] = "dataset.num_subfolders_train=[3, 4]",
		    one[] = "dataset.num_subfolders_train=7";
	static char spread[] = "dataset.record_length_bytes_stdev=100";
	static const struct {
		char *folders, *sizes;
	} row[] = { { NULL, NULL },
		    { one, NULL },
		    { levels, NULL },
		    { NULL, spread },
		    { levels, spread } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct setting s = { .overrides = { row[i].folders ? row[i].folders : row[i].sizes,
						    row[i].folders ? row[i].sizes : NULL } };
		struct workload *w = load(&s);
		struct run_data_options o = {
			.folder = test_dir(),
			.synthetic = true,
		};
		struct run_data d;

		assert_int_equal(run_data_open(&d, comm, w, &o, NULL), 0);
		assert_int_equal(d.train.nr_files, FILES);
		assert_int_equal(d.train.nr_samples, FILES);
		for (uint64_t k = 0; k < FILES; k++) {
			char name[SHOAL_NAME_MAX + 1], want[WORKLOAD_NAME_MAX];
			uint64_t id, size;

			assert_int_equal(workload_file_at(w, false, k, &id), 0);
			assert_true(workload_file_name(w, false, id, want, sizeof(want)) > 0);
			assert_true(shoal_catalog_name(d.cat, k, name) > 0);
			assert_string_equal(name, want);
			assert_int_equal(shoal_catalog_size(d.cat, k, &size), 0);
			assert_int_equal(size, workload_file_size(w, false, id));
		}
		run_data_close(&d);
		workload_free(w);
		forget();
	}
}

static int start(void **state)
{
	return test_dir_make(state) || comm_self(&comm, NULL);
}

static int finish(void **state)
{
	comm_close(comm);
	return test_dir_remove(state);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_takes_all_steps_and_reads_each_sample_once),
		cmocka_unit_test(shuffles_that_are_off_or_frozen_repeat_the_order),
		cmocka_unit_test(a_random_shuffle_has_another_seed_each_run),
		cmocka_unit_test(several_accelerators_read_what_one_with_their_batch_would),
		cmocka_unit_test(evaluations_come_when_they_are_due),
		cmocka_unit_test(total_steps_end_an_epoch_early_and_it_is_proven_all_the_same),
		cmocka_unit_test(preprocessing_holds_batches_up),
		cmocka_unit_test(samples_of_a_container_are_read_as_the_shuffle_says),
		cmocka_unit_test(a_run_that_is_stopped_is_partial_and_goes_on),
		cmocka_unit_test(steps_that_count_are_told_over_all_blocks),
		cmocka_unit_test(a_run_that_is_stopped_in_its_second_epoch_keeps_the_first),
		cmocka_unit_test(a_run_that_was_killed_goes_on_behind_its_last_step),
		cmocka_unit_test(what_cannot_be_resumed_is_refused),
		cmocka_unit_test(computed_catalogs_have_the_names_and_sizes_of_the_workload),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
