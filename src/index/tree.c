/* A directory tree becomes a catalog. */
#include "index/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalog/writer.h"
#include "index/build.h"
#include "index/parts.h"
#include "index/scan.h"

struct tree {
	struct index_scan scan;
	struct index_root root;
	struct index_sample sample; /* where there are several ranks */
	struct index_build build;
	struct index_update update;
	struct index_resume resume;
	struct index_listing listing;
	char *where; /* what is listed: the URI, and which shard */
};

static uint64_t share_of_memory(const struct shoal_comm_place *place,
				const struct shoal_index_options *o)
{
	return (o->memory ? o->memory : SHOAL_INDEX_MEMORY) / (uint64_t)place->node_size;
}

bool index_tree_exceeds_memory(const struct shoal_comm_place *place,
			       const struct shoal_index_options *options)
{
	return place->node_size > 1 && share_of_memory(place, options) < SHOAL_INDEX_MEMORY_MIN;
}

/* This rank's, of what the node may take; the least where that is less. */
static uint64_t memory_of_rank(const struct index_scan *s)
{
	return index_tree_exceeds_memory(s->place, s->options)
		       ? SHOAL_INDEX_MEMORY_MIN
		       : share_of_memory(s->place, s->options);
}

/* What there is to go on with is rank 0's word. */
static int agree_on_start(struct tree *t, struct index_resume_job *job, struct shoal_err *err)
{
	uint64_t word[3] = { t->resume.started, t->resume.session, (uint64_t)t->resume.old_ranks };
	int rc = shoal_comm_broadcast(t->scan.comm, 0, word, sizeof(word), err);

	t->listing.started = job->started = word[0];
	job->session = word[1];
	job->old_ranks = (int)word[2];
	return rc;
}

/* Nobody changes what others may still be reading. */
static int wait_for_resuming(struct tree *t, struct shoal_err *err)
{
	int rc = shoal_comm_barrier(t->scan.comm, err);

	return rc < 0 || !t->resume.found ? rc : index_resume_sample(&t->resume, &t->sample, err);
}

/* Whether what is found may go into the catalog as it is found: there are directories, no other
 * rank lists some of them, and nobody goes on with half of it another day. */
static bool can_be_in_order(const struct index_scan *s)
{
	const char *name;
	size_t len;

	return s->place->size == 1 && !s->tree->resume && !s->tree->update &&
	       store_unit_dir(s->store, "", 0, &name, &len);
}

static int start_build(struct tree *t, struct shoal_err *err)
{
	const struct index_scan *s = &t->scan;
	struct index_listing *listing = &t->listing;
	struct index_build_spec spec = { .root = t->root.uri,
					 .sizes = !s->tree->no_sizes,
					 .etags = s->tree->etags,
					 .listing = "", /* known when it is sealed */
					 .in_order = can_be_in_order(s),
					 .no_writer = s->place->rank > 0,
					 .memory = memory_of_rank(s),
					 .threads = index_scan_threads(s) };
	struct index_resume_job job = { .output = s->options->output,
					.where = s->store->uri,
					.root = t->root.uri,
					.listing = listing,
					.rank = s->place->rank,
					.nr_ranks = s->place->size };
	int rc = 0;

	*listing = index_scan_listing(s);
	if (s->tree->resume) {
		if (s->tree->nr_shards == 0)
			t->where = strdup(s->store->uri);
		else if (asprintf(&t->where, "%s shard %u of %u", s->store->uri, s->tree->shard,
				  s->tree->nr_shards) < 0)
			t->where = NULL;
		if (!t->where)
			return shoal_fail(err, -ENOMEM, "out of memory");
		spec.resume = &t->resume;
		job.where = t->where;
		spec.resume_job = &job;
		t->scan.resume = &t->resume;
	}
	if (rc == 0 && s->tree->update) {
		rc = index_update_open(&t->update, s->tree->update, listing, t->root.uri, err);
		t->scan.update = &t->update;
	}
	if (rc == 0 && s->tree->resume && s->place->rank > 0)
		rc = agree_on_start(t, &job, err); /* once rank 0 has the catalog to itself */
	if (rc == 0)
		rc = index_build_start(&t->build, s->options, &spec, err);
	if (rc == 0 && s->tree->resume && s->place->rank == 0)
		rc = agree_on_start(t, &job, err);
	if (rc == 0 && s->place->size > 1)
		rc = index_sample_init(&t->sample, s->place->size, err);
	if (rc == 0 && s->place->size > 1 && s->tree->resume)
		rc = wait_for_resuming(t, err);
	return rc;
}

/* What the catalog will remember of the listing, now that it is known how it went. */
static int describe(struct tree *t, uint64_t nr_unreadable, struct shoal_err *err)
{
	uint64_t nr[2] = { nr_unreadable, t->scan.nr_foreign };
	char *text;
	int rc;

	rc = shoal_comm_reduce(t->scan.comm, SHOAL_COMM_SUM, nr, SHOAL_ARRAY_LEN(nr), err);
	if (rc < 0 || !t->build.writer)
		return rc;
	t->listing.nr_unreadable = nr[0];
	t->listing.nr_foreign = nr[1];
	text = index_listing_text(&t->listing);
	rc = text ? shoal_writer_set_listing(t->build.writer, text, err)
		  : shoal_fail(err, -ENOMEM, "out of memory");
	free(text);
	return rc;
}

static int seal(struct tree *t, struct shoal_index_result *result, struct shoal_err *err)
{
	const struct index_scan *s = &t->scan;
	struct index_parts parts = { .comm = s->comm,
				     .options = s->options,
				     .root = t->root.uri,
				     .tmp_dir = t->build.tmp_dir,
				     .sizes = !s->tree->no_sizes,
				     .etags = s->tree->etags,
				     .memory = t->build.memory };

	if (s->place->size == 1)
		return index_build_finish(&t->build, result, err);
	return index_parts_seal(&parts, &t->build.sorter, &t->sample, &t->build.writer, result,
				err);
}

static int list_tree(struct tree *t, struct shoal_index_result *result, struct shoal_err *err)
{
	const struct index_scan *s = &t->scan;
	const char *root = s->options->root ? s->options->root : s->store->uri;
	int rc;

	rc = index_root_init(&t->root, root, NULL, 0, err);
	if (rc == 0)
		rc = start_build(t, err);
	if (rc == 0 && can_be_in_order(s)) {
		t->scan.take_next = index_build_put_next;
		t->scan.next_self = &t->build;
		t->scan.next_memory = t->build.next_memory;
	}
	if (rc == 0)
		rc = index_scan_run(&t->scan, t->build.sorter, t->sample.bytes ? &t->sample : NULL,
				    t->build.tmp_dir, result, err);
	if (rc == 0)
		rc = describe(t, result->nr_unreadable, err);
	if (rc == 0 && s->place->rank == 0)
		index_resume_sweep(s->options->output,
				   s->tree->resume ? s->place->size
						   : index_resume_ranks(s->options->output));
	if (rc == 0)
		rc = seal(t, result, err);
	if (rc == 0) /* the catalog is there: too late to be interrupted */
		shoal_comm_set_stop(s->comm, NULL);
	result->nr_resumed = t->resume.nr_names;
	if (rc == 0) /* a result is nothing but numbers */
		rc = shoal_comm_reduce(s->comm, SHOAL_COMM_SUM, (uint64_t *)(void *)result,
				       sizeof(*result) / sizeof(uint64_t), err);
	/* What was begun and not finished is in the runs as often as it was begun. */
	result->nr_resumed = shoal_min(result->nr_resumed, result->nr_names);
	return rc;
}

/*
 * What is wrong with the directory is most often wrong on all ranks: the first of them says so, and
 * the others end quietly.
 */
static int agree_on_opening(struct shoal_comm *comm, int rc, struct shoal_err *words)
{
	uint64_t rank = (uint64_t)shoal_comm_place(comm)->rank, first = rc < 0 ? rank : UINT64_MAX;
	struct shoal_err err = { "" };
	int reduced = shoal_comm_reduce(comm, SHOAL_COMM_MIN, &first, 1, &err);

	if (rc < 0 && (reduced < 0 || first == rank))
		return rc;
	if (reduced < 0)
		return shoal_fail(words, reduced, "%s", err.msg);
	return first == UINT64_MAX ? 0 : shoal_fail(words, -EREMOTEIO, "another rank has failed");
}

static bool is_full(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT;
}

static void say_more(struct shoal_err *words, const char *more)
{
	struct shoal_err before = *words;

	shoal_say(words, "%s%s", before.msg, more);
}

int index_tree(struct shoal_comm *comm, const char *where, const struct shoal_tree_options *tree,
	       const struct shoal_index_options *options, struct shoal_index_result *ret_result,
	       struct shoal_err *err)
{
	struct shoal_index_result result = { 0 };
	struct shoal_err words = { "" };
	struct tree t = { .build = { .options = options }, .resume = { .spill.fd = -1 } };
	int rc;

	shoal_comm_set_stop(comm, options->stop);
	rc = index_scan_open(&t.scan, comm, where, options->output, tree, options, &words);
	rc = agree_on_opening(comm, rc, &words);
	if (rc == 0)
		rc = list_tree(&t, &result, &words);
	if (rc == -ECANCELED && t.resume.found)
		shoal_say(&words, "interrupted: give the same command again to go on");
	else if (rc == -ECANCELED)
		shoal_say(&words, "interrupted: nothing was written");
	else if (is_full(rc) && t.resume.found)
		say_more(&words, ": make room and give the same command again to go on");
	if (rc < 0 && rc != -EREMOTEIO)
		shoal_comm_fail(comm, words.msg);
	index_build_release(&t.build);
	index_sample_release(&t.sample);
	index_update_release(&t.update);
	index_resume_close(&t.resume, rc == 0);
	if (rc == 0 && t.scan.place->rank == 0 && !tree->resume)
		index_resume_forget(options->output);
	index_scan_release(&t.scan);
	free(t.where);
	if (rc < 0)
		return shoal_fail(err, rc, "%s", words.msg);
	*ret_result = result;
	return 0;
}

int shoal_index_tree(const char *where, const struct shoal_tree_options *tree,
		     const struct shoal_index_options *options,
		     struct shoal_index_result *ret_result, struct shoal_err *err)
{
	struct shoal_comm *self = NULL;
	int rc = shoal_comm_self(&self, err);

	if (rc == 0)
		rc = index_tree(self, where, tree, options, ret_result, err);
	shoal_comm_close(self);
	return rc;
}
