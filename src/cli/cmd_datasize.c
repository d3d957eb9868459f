/* shoal datasize: how much data a workload needs on a cluster, and what a run of it requires. */
#include <errno.h>
#include <inttypes.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/compare_ranks.h"
#include "cli/hints.h"
#include "cli/workload_options.h"
#include "datagen/datasize.h"

struct cmd_datasize_arguments {
	uint64_t accelerators, hosts, memory; /* 0: not given */
	bool json;
	char **workload; /* and its overrides */
	int nr;
};

struct datasize_outcome {
	struct datasize_cluster cluster;
	bool measured; /* memory_bytes */
	struct datasize_result size;
	int status;   /* of a workload that could not be loaded, once that was printed */
	bool misused; /* the command line does not describe a cluster */
};

static bool take_host_memory(const char *command, const char *value, void *into)
{
	uint64_t *memory = &((struct cmd_datasize_arguments *)into)->memory;
	int rc = parse_size(value, memory);

	if (rc < 0)
		cli_usage(command, "--memory-per-host '%s' is %s", value,
			  rc == -ERANGE ? "too large" : "not a size, such as 256G");
	else if (*memory < UINT64_C(1) << 20 || *memory > UINT64_C(1) << 50)
		cli_usage(command,
			  "--memory-per-host must be 1M to 1024T: did you leave out the G?");
	else
		return true;
	return false;
}

/* ---- The cluster ---- */

/*
 * The given memory counts; but under mpirun a host has at least its own memory: a smaller value
 * would let the data fit into it.
 */
static int choose_cluster(const struct cmd_datasize_arguments *a,
			  const struct datasize_cluster *seen, bool alone,
			  struct datasize_outcome *o, struct shoal_err *err)
{
	struct datasize_cluster *c = &o->cluster;
	bool here;

	c->nr_hosts = a->hosts ? a->hosts : seen->nr_hosts;
	c->nr_accelerators = a->accelerators ? a->accelerators : seen->nr_accelerators;
	here = c->nr_hosts == seen->nr_hosts;
	if (alone && !a->accelerators)
		return err_set(err, -EINVAL,
			       "say how many accelerators there are: --accelerators A, or start "
			       "it with mpirun");
	if (!a->memory && !here)
		return err_set(err, -EINVAL,
			       "say how much memory those %" PRIu64
			       " hosts have: --memory-per-host 256G",
			       c->nr_hosts);
	if (a->memory && __builtin_mul_overflow(a->memory, c->nr_hosts, &c->memory_bytes))
		return err_set(err, -EINVAL, "the memory of all hosts is too large");
	if (!a->memory || (here && !alone && seen->memory_bytes > c->memory_bytes)) {
		c->memory_bytes = seen->memory_bytes;
		o->measured = true;
	}
	return 0;
}

/* ---- Telling ---- */

static void print_folders(FILE *out, const struct workload_subfolders *f)
{
	if (f->nr_levels <= 1) {
		fprintf(out, "%" PRIu64, f->nr_levels ? f->nr : 0);
		return;
	}
	for (unsigned i = 0; i < f->nr_levels; i++)
		fprintf(out, "%s%" PRIu64, i ? ", " : "[", f->fanout[i]);
	putc(']', out);
}

static void print_json_folders(struct json *j, const struct workload_subfolders *f)
{
	if (f->nr_levels <= 1) {
		json_u64(j, "subfolders", f->nr_levels ? f->nr : 0);
		return;
	}
	json_open_array(j, "subfolders");
	for (unsigned i = 0; i < f->nr_levels; i++)
		json_u64(j, NULL, f->fanout[i]);
	json_close_array(j);
}

static void cmd_datasize_print_json(const struct workload *w, const struct datasize_outcome *o)
{
	const struct datasize_result *s = &o->size;
	const struct datasize_plan *p = &s->plan;
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_string(&j, "workload", w->name);
	json_u64(&j, "hosts", o->cluster.nr_hosts);
	json_u64(&j, "accelerators", o->cluster.nr_accelerators);
	json_u64(&j, "accelerators_per_host", s->ranks_per_host);
	json_u64(&j, "memory_bytes", o->cluster.memory_bytes);
	json_bool(&j, "memory_measured", o->measured);
	json_u64(&j, "files", s->nr_files);
	json_u64(&j, "files_by_memory", s->files_by_memory);
	json_u64(&j, "files_by_steps", s->files_by_steps);
	json_u64(&j, "samples", p->nr_samples);
	json_u64(&j, "bytes", p->nr_bytes);
	print_json_folders(&j, &s->subfolders);
	json_u64(&j, "files_eval", p->nr_files_eval);
	json_u64(&j, "bytes_eval", p->nr_bytes_eval);
	json_u64(&j, "steps_per_epoch", p->steps);
	json_u64(&j, "steps_per_eval", p->steps_eval);
	json_u64(&j, "epochs", w->train.epochs);
	json_real(&j, "step_seconds", p->step_seconds, 9);
	json_real(&j, "epoch_seconds", p->epoch_seconds, 9);
	json_real(&j, "epoch_seconds_at_au", w->au > 0 ? p->epoch_seconds / w->au : 0, 9);
	json_real(&j, "total_seconds", p->total_seconds, 9);
	json_real(&j, "samples_per_second", p->samples_per_second, 9);
	json_real(&j, "bytes_per_second", p->bytes_per_second, 9);
	json_u64(&j, "shoal_memory_per_host", s->node_bytes);
	json_u64(&j, "buffer_bytes_per_rank", p->rank_bytes);
	json_u64(&j, "catalog_bytes", p->catalog_bytes);
	json_close_object(&j);
}

static void print_bytes(FILE *out, const char *before, double bytes, const char *after)
{
	fprintf(out, "%s%s%s", before, size_in_words((uint64_t)bytes).text, after);
}

static void print_seconds(FILE *out, const char *before, double seconds, const char *after)
{
	fputs(before, out);
	fputs(time_in_words(seconds).text, out);
	fputs(after, out);
}

static void print_times(FILE *out, const struct workload *w, const struct datasize_plan *p)
{
	if (p->step_seconds <= 0) {
		fputs("epoch        as fast as the storage is: the workload has no computation time\n",
		      out);
		return;
	}
	fprintf(out, "demand       %s samples/s", rate_in_words(p->samples_per_second).text);
	print_bytes(out, ", ", p->bytes_per_second, "/s of the storage at full utilisation\n");
	print_seconds(out, "epoch        ", p->epoch_seconds, " at full utilisation");
	if (w->au > 0) {
		print_seconds(out, ", ", p->epoch_seconds / w->au, " at the");
		fprintf(out, " %g %% that the workload asks for", w->au * 100);
	}
	fprintf(out, "; %" PRIu64 " epoch%s ", w->train.epochs, plural(w->train.epochs));
	print_seconds(out, "", p->total_seconds, " at least\n");
}

static void datasize_put_text(FILE *out, const struct workload *w, const struct datasize_outcome *o)
{
	const struct datasize_result *s = &o->size;
	const struct datasize_plan *p = &s->plan;
	uint64_t most = (s->nr_files - 1) / u64_max(s->subfolders.nr, 1) + 1;

	fprintf(out, "workload     %s: %s files of %s sample%s of %s\n", w->name,
		workload_format_name(w->dataset.format),
		count_in_words(w->dataset.samples_per_file).text,
		plural(w->dataset.samples_per_file),
		size_in_words((uint64_t)w->dataset.record_bytes).text);
	fprintf(out, "cluster      %s host%s, %s accelerator%s, %s of memory (%s)\n",
		count_in_words(o->cluster.nr_hosts).text, plural(o->cluster.nr_hosts),
		count_in_words(o->cluster.nr_accelerators).text, plural(o->cluster.nr_accelerators),
		size_in_words(o->cluster.memory_bytes).text, o->measured ? "measured" : "declared");
	fprintf(out, "files        %s: five times the memory are %s, 500 steps are %s\n",
		count_in_words(s->nr_files).text, count_in_words(s->files_by_memory).text,
		count_in_words(s->files_by_steps).text);
	print_bytes(out, "bytes        ", (double)p->nr_bytes, "\n");
	if (p->nr_files_eval)
		fprintf(out, "evaluation   %s more file%s, of %s\n",
			count_in_words(p->nr_files_eval).text, plural(p->nr_files_eval),
			size_in_words(p->nr_bytes_eval).text);
	fputs("subfolders   ", out);
	print_folders(out, &s->subfolders);
	fprintf(out, "; at most %s file%s in a folder\n", count_in_words(most).text, plural(most));
	fprintf(out, "steps        %s per epoch, each of %s sample%s per accelerator\n",
		count_in_words(p->steps).text, count_in_words(w->reader.batch).text,
		plural(w->reader.batch));
	print_times(out, w, p);
	print_bytes(out, "shoal needs  ", (double)s->node_bytes, " of memory per host: ");
	fprintf(out, "%" PRIu64 " rank%s with ", s->ranks_per_host, plural(s->ranks_per_host));
	print_bytes(out, "", (double)p->rank_bytes, " of buffers each, ");
	print_bytes(out, "", (double)p->catalog_bytes, " of catalog\n");
	fprintf(out,
		"give         dataset.num_files_train=%" PRIu64 " dataset.num_subfolders_train=",
		s->nr_files);
	print_folders(out, &s->subfolders);
	putc('\n', out);
}

static void cmd_datasize_print_text(const struct workload *w, const struct datasize_outcome *o,
				    bool alone)
{
	struct cli_text text;
	FILE *out = cli_text_open(&text);

	if (!out)
		return;
	datasize_put_text(out, w, o);
	cli_text_print(&text, out, alone, 13);
}

/* ---- All together ---- */

struct cmd_datasize_described {
	const struct cmd_datasize_arguments *a;
	const struct workload *w;
};

static void describe_datasize(FILE *f, const void *self)
{
	const struct cmd_datasize_described *d = self;

	fprintf(f, "accelerators: %" PRIu64 "\nhosts: %" PRIu64 "\nmemory-per-host: %" PRIu64 "\n",
		d->a->accelerators, d->a->hosts, d->a->memory);
	fputs(d->w->yaml, f);
}

static int cmd_datasize_run(const struct cmd_datasize_arguments *a, struct comm *comm,
			    struct workload **ret_w, struct datasize_outcome *o,
			    struct shoal_err *err)
{
	struct cmd_datasize_described described = { .a = a };
	struct datasize_cluster seen = { 0 };
	int rc;

	o->status = cli_workload("datasize", a->workload, a->nr, comm_place(comm)->rank > 0, ret_w);
	if (o->status != CLI_OK) { /* rank 0 has printed why, unless only others cannot load it */
		err_set(err, -ENODATA, "the workload cannot be loaded");
		comm_fail(comm, err);
		return -ENODATA;
	}
	described.w = *ret_w;
	rc = cli_compare_ranks(comm, describe_datasize, &described, err);
	if (rc == 0)
		rc = datasize_measure(comm, &seen, err);
	if (rc < 0)
		return rc;
	rc = choose_cluster(a, &seen, comm_place(comm)->size == 1, o, err);
	o->misused = rc < 0;
	return rc < 0 ? rc : datasize_compute(*ret_w, &o->cluster, &o->size, err);
}

static void datasize_warn(void *self, const char *words)
{
	(void)self;
	cli_warn("datasize", "%s", words);
}

/* The plan of the workload with the number of files that was found. */
static void note_rules(const struct workload *w, const struct datasize_outcome *o)
{
	struct workload sized = *w; /* shares its strings */

	sized.dataset.nr_files_train = o->size.nr_files;
	sized.dataset.nr_files_generated = 0;
	datasize_note_rules(&sized, &o->cluster, datasize_warn, NULL);
}

static int datasize(const struct cmd_datasize_arguments *a)
{
	struct workload *w = NULL;
	const struct cli_where where = { .local_copy = NULL };
	struct comm *comm = NULL;
	struct shoal_err err = { "" };
	struct datasize_outcome o = { 0 };
	int rc, status;

	if (cli_join(&where, &comm, &err) < 0)
		return cli_fail("datasize", "%s", cli_words("datasize", &err));
	rc = cmd_datasize_run(a, comm, &w, &o, &err);
	status = o.misused ? CLI_USAGE : o.status;
	if (rc < 0 && status == CLI_OK)
		status = CLI_FAILED;
	if (comm_place(comm)->rank == 0) {
		if (rc == 0)
			note_rules(w, &o);
		if (o.misused)
			cli_usage("datasize", "%s", cli_words("datasize", &err));
		else if (rc < 0 && w)
			cli_fail("datasize", "%s: %s", w->name, cli_words("datasize", &err));
		else if (rc == 0 && a->json)
			cmd_datasize_print_json(w, &o);
		else if (rc == 0)
			cmd_datasize_print_text(w, &o, comm_place(comm)->size == 1);
	}
	workload_free(w);
	cli_print_lost_peer("datasize", comm, rc, &err);
	return cli_part("datasize", comm, status);
}

static int cmd_datasize_start(void *arguments, int nr, char **words)
{
	struct cmd_datasize_arguments *a = arguments;

	a->workload = words;
	a->nr = nr;
	return datasize(a);
}

#define AT(field) offsetof(struct cmd_datasize_arguments, field)

static const struct cli_option options[] = {
	CLI_NUMBER("accelerators", "COUNT", AT(accelerators), 1, 100000000,
		   "accelerators of all hosts together (under mpirun: the ranks)"),
	CLI_NUMBER("hosts", "COUNT", AT(hosts), 1, 100000000,
		   "hosts (default 1; under mpirun: those it started ranks on)"),
	CLI_OTHER(0, "memory-per-host", "SIZE", take_host_memory,
		  "such as 256G (default: measured; under mpirun at least that)"),
	CLI_JSON(AT(json)),
	CLI_END,
};

const struct cli_command cmd_datasize = {
	.name = "datasize",
	.summary = "compute how much data a workload needs",
	.usage = "WORKLOAD|FILE.yaml --accelerators COUNT [KEY=VALUE]... [OPTION]...",
	.about = "Print how many files a workload needs by the rule of MLPerf Storage: five times "
		 "the memory of all hosts, and 500 steps per epoch. Under mpirun each rank is an "
		 "accelerator.\n" WORKLOAD_HELP,
	.sections = { { .options = options } },
	.min = 1,
	.give = "give a workload",
	.shares_work = true,
	.size = sizeof(struct cmd_datasize_arguments),
	.run = cmd_datasize_start,
};
