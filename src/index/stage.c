#include "index/stage.h"

int index_stage_open(struct index_stage *s, const struct shoal_index_options *options,
		     struct comm *comm, struct shoal_err *err)
{
	struct output *o = &s->output;
	bool first = !comm || comm_place(comm)->rank == 0;
	char dir[sizeof(o->dir)];
	int rc;

	s->options = *options;
	s->nr_names = 0;
	rc = output_open(o, options->output, err);
	if (rc == 0 && first)
		rc = output_stage(o, options->tmp_dir, err);
	if (rc == 0 && comm && o->object) {
		memcpy(dir, o->dir, sizeof(dir));
		rc = comm_broadcast(comm, 0, dir, sizeof(dir), err);
		if (rc == 0 && !first)
			output_share(o, dir);
	}
	s->options.output = o->path;
	return rc;
}

int index_stage_protect(struct index_stage *s, bool may_be_empty, uint64_t *ret_least,
			struct shoal_err *err)
{
	uint64_t nr_old;
	int rc = 0;

	*ret_least = 0;
	if (!s->options.careful)
		return 0;
	rc = output_protect(&s->output, s->options.config, s->options.stop, err);
	nr_old = s->output.nr_old;
	*ret_least = u64_max(!may_be_empty, nr_old - nr_old / 2);
	return rc;
}

static void stage_progress(void *self)
{
	const struct index_stage *s = self;

	if (s->options.progress)
		s->options.progress(s->options.self,
				    &(struct shoal_index_progress){ .sealing = true,
								    .nr_names = s->nr_names,
								    .where = "" });
}

int index_stage_send(struct index_stage *s, uint64_t nr_names, struct shoal_err *err)
{
	struct transfer_watch watch = { .stop = s->options.stop,
					.progress = stage_progress,
					.self = s };

	s->nr_names = nr_names;
	return output_send(&s->output, s->options.config, &watch, err);
}

int index_stage_run(const struct shoal_index_options *options, index_stage_fill *fill, void *self,
		    struct shoal_index_result *ret_result, struct shoal_err *err)
{
	struct shoal_index_result result = { 0 };
	struct index_stage s;
	uint64_t least;
	int rc = index_stage_open(&s, options, NULL, err);

	if (rc < 0)
		return rc;
	rc = index_stage_protect(&s, /* may_be_empty= */ false, &least, err);
	if (rc == 0)
		rc = fill(self, &s, least, &result, err);
	if (rc == 0)
		rc = index_stage_send(&s, result.nr_names, err);
	output_release(&s.output);
	if (rc == 0)
		*ret_result = result;
	return rc;
}
