/* A tree, from the request to a sealed catalog, with all ranks. */
#include "index/tree.h"

#include <errno.h>
#include <stdlib.h>

#include "index/empty.h"
#include "index/job.h"
#include "index/parts.h"
#include "index/stage.h"

/* Rank 0 decides what to resume from. */
static int agree_on_start(struct index_job *j, struct shoal_err *err)
{
	struct index_resume *r = &j->resume;
	uint64_t word[3] = { r->started, r->session, (uint64_t)r->old_ranks };
	int rc = comm_broadcast(j->comm, 0, word, sizeof(word), err);

	j->provenance.started = r->started = word[0];
	r->session = word[1];
	r->old_ranks = (int)word[2];
	return rc;
}

/* No rank may change files that others may still be reading. */
static int wait_for_resuming(struct index_job *j, struct shoal_err *err)
{
	struct index_sample *sample = j->place->size > 1 ? &j->sample : NULL;
	int rc = comm_barrier(j->comm, err);

	if (rc < 0 || !j->resume.found)
		return rc;
	return index_resume_names(&j->resume, j->store->traits.any_name, sample, err);
}

/* Whether entries may go into the catalog in order as they are found: units are intervals of
 * names, no other rank lists some of them, and no checkpoint is kept. */
static bool can_be_in_order(const struct index_job *j)
{
	const char *name;
	size_t len;

	if (j->tree->update && store_has_directories(j->store))
		return false;
	return j->place->size == 1 && !j->tree->resume &&
	       store_unit_start(j->store, "", 0, &name, &len);
}

static int open_tree(struct index_job *j, struct shoal_err *err)
{
	struct shoal_catalog_options how = { .config = j->options->config,
					     .stop = j->options->stop };
	bool resume = j->tree->resume, first = j->place->rank == 0, many = j->place->size > 1;
	int rc = 0;

	j->provenance = index_scan_provenance(j);
	j->in_order = can_be_in_order(j);
	if (j->tree->update)
		rc = index_update_open(&j->update, j->tree->update, &how, &j->provenance,
				       j->root.uri, index_job_samples(j), err);
	/* A directory that is listed again after an interruption may have changed since. */
	j->update.one_by_one = resume;
	if (rc == 0 && resume && !first)
		rc = agree_on_start(j, err); /* once rank 0 has locked the catalog */
	if (rc == 0)
		rc = index_job_open(j, index_scan_sizes(j), /* samples= */ false, err);
	if (rc == 0 && resume && first)
		rc = agree_on_start(j, err);
	if (rc == 0 && many)
		rc = index_sample_init(&j->sample, j->place->size, err);
	if (rc == 0 && resume)
		rc = wait_for_resuming(j, err);
	return rc;
}

/* What the catalog records about the listing, once its result is known. */
static int job_describe(struct index_job *j, uint64_t nr_unreadable, struct shoal_err *err)
{
	uint64_t nr[2] = { nr_unreadable, j->nr_foreign };
	char *text;
	int rc;

	rc = comm_reduce(j->comm, COMM_SUM, nr, ARRAY_LEN(nr), err);
	if (rc < 0 || !index_job_output(j))
		return rc;
	j->provenance.nr_unreadable = nr[0];
	j->provenance.nr_foreign = nr[1];
	text = index_provenance_text(&j->provenance);
	rc = text ? writer_set_listing(index_job_output(j), text, err)
		  : err_set(err, -ENOMEM, "out of memory");
	free(text);
	return rc;
}

static int list_tree(struct index_job *j, struct shoal_index_result *result, struct shoal_err *err)
{
	const char *output = j->options->output;
	const char *root = j->options->root ? j->options->root : j->store->uri;
	int rc = index_root_init(&j->root, root, NULL, 0, err);

	if (rc == 0)
		rc = open_tree(j, err);
	if (rc == 0)
		rc = index_scan_run(j, result, err);
	if (rc == 0)
		rc = job_describe(j, result->nr_unreadable, err);
	if (rc == 0 && j->place->rank == 0)
		index_resume_sweep(output,
				   j->tree->resume ? j->place->size : index_resume_ranks(output));
	if (rc == 0)
		rc = j->place->size == 1 ? index_job_finish(j, result, err)
					 : index_exchange_seal(j, result, err);
	if (j->refused)
		rc = index_say_empty(j, result, err);
	if (rc == 0) /* the catalog exists: it is too late to stop */
		comm_defer_stop(j->comm, true);
	result->nr_resumed = j->resume.nr_names;
	if (rc == 0) /* a result consists of numbers only */
		rc = comm_reduce(j->comm, COMM_SUM, (uint64_t *)(void *)result,
				 sizeof(*result) / sizeof(uint64_t), err);
	/*
	 * Units that were begun and not finished are in the runs once for each time they were
	 * begun.
	 */
	result->nr_resumed = u64_min(result->nr_resumed, result->nr_names);
	return rc;
}

/*
 * If the problem is the directory, it usually occurs on all ranks: the first of them reports it,
 * and the others end quietly.
 */
static int agree_on_opening(struct comm *comm, int rc, struct shoal_err *words)
{
	uint64_t rank = (uint64_t)comm_place(comm)->rank, first = rc < 0 ? rank : UINT64_MAX;
	struct shoal_err err = { "" };
	int reduced = comm_reduce(comm, COMM_MIN, &first, 1, &err);

	if (rc < 0 && (reduced < 0 || first == rank))
		return rc;
	if (reduced < 0)
		return err_set_as(words, reduced, &err, "%s", err.msg);
	return first == UINT64_MAX ? 0 : err_set(words, -EREMOTEIO, "another rank has failed");
}

static bool job_is_full(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT;
}

/* Add the hint. */
static void job_explain(const struct index_job *j, int rc, struct shoal_err *words)
{
	if (rc == -ECANCELED && j->resume.found) {
		err_describe(words, "interrupted");
		err_hint(words, SHOAL_HINT_SAME_CALL, 0);
	} else if (rc == -ECANCELED) {
		err_describe(words, "interrupted: nothing was written");
	} else if (job_is_full(rc) && j->tree->resume) { /* everything is beside the catalog */
		err_hint(words, SHOAL_HINT_FREE_SPACE, 0);
	}
}

/* Rank 0 sends the catalog, if it becomes an object; then all have finished. */
static int send_catalog(struct index_stage *stage, uint64_t nr_names, struct comm *comm,
			struct shoal_err *err)
{
	int rc = comm_place(comm)->rank == 0 ? index_stage_send(stage, nr_names, err) : 0;

	return rc == 0 && stage->output.object ? comm_barrier(comm, err) : rc;
}

int index_tree(struct comm *comm, const char *where, const struct shoal_tree_options *tree,
	       const struct shoal_index_options *options, struct shoal_index_result *ret_result,
	       struct shoal_err *err)
{
	struct shoal_index_result result = { 0 };
	struct shoal_err words = { "" };
	struct index_stage stage;
	struct index_job j = { .options = &stage.options,
			       .output = &stage.output,
			       .tree = tree,
			       .comm = comm,
			       .place = comm_place(comm),
			       .resume = { .spill.fd = -1 } };
	int rc;

	comm_set_stop(comm, options->stop);
	rc = index_stage_open(&stage, options, comm, &words);
	if (rc == 0 && stage.output.object && tree->resume)
		rc = err_set(&words, -EINVAL, "only a catalog in a file can be resumed");
	if (rc == 0) {
		rc = index_scan_open(&j, where, stage.options.output, &words);
		if (rc == 0 && j.place->rank == 0)
			rc = index_stage_protect(&stage, tree->nr_shards > 0, &j.least, &words);
		rc = agree_on_opening(comm, rc, &words);
	}
	if (rc == 0)
		rc = list_tree(&j, &result, &words);
	if (rc == 0)
		rc = send_catalog(&stage, result.nr_names, comm, &words);
	job_explain(&j, rc, &words);
	if (rc < 0 && rc != -EREMOTEIO)
		comm_fail(comm, &words);
	index_job_release(&j);
	index_resume_close(&j.resume, rc == 0 || j.refused);
	if (rc == 0 && j.place->rank == 0)
		index_parts_sweep(stage.options.output);
	if (rc == 0 && j.place->rank == 0 && !tree->resume)
		index_resume_forget(stage.options.output);
	if (j.place->rank == 0)
		output_release(&stage.output);
	if (rc < 0)
		return err_set_as(err, rc, &words, "%s", words.msg);
	*ret_result = result;
	return 0;
}

int shoal_index_tree(const char *where, const struct shoal_tree_options *tree,
		     const struct shoal_index_options *options,
		     struct shoal_index_result *ret_result, struct shoal_err *err)
{
	struct comm *self = NULL;
	int rc = comm_self(&self, err);

	if (rc == 0)
		rc = index_tree(self, where, tree, options, ret_result, err);
	comm_close(self);
	return rc;
}
