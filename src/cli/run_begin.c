#include "cli/run_begin.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/cli.h"
#include "datagen/datasize.h"
#include "report/begin.h"
#include "report/report.h"
#include "report/write.h"
#include "run/folder.h"

int run_begin_check_size(const struct run_begin_size *s, struct shoal_err *err)
{
	struct datasize_cluster cluster;
	char words[300];
	int rc = datasize_measure(s->comm, &cluster, err);

	cluster.nr_accelerators = s->accelerators;
	if (rc == 0 && datasize_too_small(s->w, &cluster, words, sizeof(words)))
		s->warn(s->self, words);
	if (comm_place(s->comm)->rank == 0 && run_folder_shares_device(s->results, s->data))
		s->warn(s->self, "data and results are on one file system: MLPerf's rule 3.4.2 "
				 "requires two");
	if (rc == 0)
		datasize_note_rules(s->w, &cluster, s->warn, s->self);
	return rc;
}

void run_begin_print(const struct workload *w, uint64_t accelerators, const char *data,
		     const char *folder)
{
	cli_say("run",
		"%s: %s epoch%s of %s file%s on %s accelerator%s would be run with the data of '%s'; summary.json, config.yaml, "
		"effective.yaml and the files of each accelerator would be written to '%s'",
		w->name, count_in_words(w->train.epochs).text, plural(w->train.epochs),
		count_in_words(w->dataset.nr_files_train).text, plural(w->dataset.nr_files_train),
		count_in_words(accelerators).text, plural(accelerators), data, folder);
}

void run_begin_tell(const struct run_result *r, size_t i, const struct cli_listen *listen)
{
	struct shoal_err err = { "" };
	char *text = NULL;

	if (listen->live && report_phase_text(r, i, &text, &err) == 0)
		live_add_phase(listen->live, text);
	free(text);
}

static void begin_listen(const struct run_result *r, const char *begin, const char *config,
			 struct cli_listen *listen)
{
	struct live_head head = { .command = "run",
				  .name = r->workload->name,
				  .nr_ranks = (unsigned)r->nr_ranks,
				  .nr_here = (unsigned)(r->nr_accelerators / r->nr_ranks),
				  .au_bar = r->workload->au * 100,
				  .total = r->nr_ranks,
				  .started = r->started,
				  .begin = begin,
				  .config = config };

	cli_listen_begin(listen, "run", &head);
	for (size_t i = 0; i < r->nr_phases; i++)
		run_begin_tell(r, i, listen);
}

int run_begin_write(const struct run_result *r, const char *folder, struct cli_listen *listen,
		    struct shoal_err *err)
{
	char *begin = NULL, *config = NULL;
	int rc = report_begin_text(r, &begin, err);

	if (rc == 0)
		rc = report_write_text(folder, run_file_name(RUN_FILE_BEGIN), begin, err);
	if (rc == 0)
		rc = report_config_write(r, folder, err);
	if (rc == 0)
		rc = report_effective_text(r, &config, err);
	if (rc == 0)
		begin_listen(r, begin, config, listen);
	free(begin);
	free(config);
	return rc;
}
