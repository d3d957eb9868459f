#include "index/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "open/transfer.h"
#include "store/uri.h"

int index_stage_open(struct index_stage *s, const struct shoal_index_options *options,
		     struct comm *comm, struct shoal_err *err)
{
	const char *tmp = path_tmp_dir(options->tmp_dir);
	int rc = 0;

	*s = (struct index_stage){ .options = *options };
	if (!store_uri_traits(options->output).objects)
		return 0;
	snprintf(s->dir, sizeof(s->dir), "%.2000s/shoal-index-XXXXXX", tmp);
	if ((!comm || comm_place(comm)->rank == 0) && !mkdtemp(s->dir))
		return err_set_errno(err, err_errno(), "cannot create a directory in '%.200s'",
				     tmp);
	s->uri = options->output;
	if (comm)
		rc = comm_broadcast(comm, 0, s->dir, sizeof(s->dir), err);
	snprintf(s->path, sizeof(s->path), "%.2047s/catalog", s->dir);
	s->options.output = s->path;
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
	struct shoal_err why = { "" };
	int rc = 0;

	s->nr_names = nr_names;
	if (s->uri)
		rc = transfer_put_file(s->path, s->uri, s->options.config, &watch, &why);
	return rc < 0 ? err_set_as(err, rc, &why, "cannot write the catalog to %.300s: %s", s->uri,
				   why.msg)
		      : 0;
}

void index_stage_release(const struct index_stage *s)
{
	if (!s->uri)
		return;
	unlink(s->path);
	rmdir(s->dir);
}
