/* shoal manifest: a list of URIs for each rank and epoch. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/order_options.h"
#include "cli/progress.h"
#include "cli/s3_options.h"

struct cmd_manifest_arguments {
	struct cli_where where;
	struct cli_order order;
	const char *path;
	struct shoal_manifest_options options;
	bool json, dry_run;
	struct cli_progress progress;
};

/* More lists than the largest machines have processes are a slip of the keyboard. */
#define MANIFEST_RANKS_MAX 10000000u

/* Errors of the catalog do not name its path. */
static bool is_of_catalog(int rc)
{
	return rc == -EBADMSG || rc == -ESTALE || rc == -ENODATA || rc == -EILSEQ;
}

static int write_manifests(struct cmd_manifest_arguments *a, const struct shoal_catalog *cat)
{
	uint64_t nr = a->options.nr_epochs * a->order.spec.nr_ranks;
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };
	struct json j = cli_json();
	int rc;

	shoal_catalog_info(cat, &info);
	if (a->order.spec.nr_ranks > MANIFEST_RANKS_MAX)
		return cli_usage("manifest",
				 "--ranks %" PRIu64 " would be as many lists: at most %u",
				 a->order.spec.nr_ranks, MANIFEST_RANKS_MAX);
	cli_progress_start(&a->progress, "manifest", true);
	a->options.dry_run = a->dry_run;
	rc = shoal_manifest_write(cat, &a->order.spec, &a->options, &err);
	cli_progress_clear(&a->progress);
	if (rc == -EINVAL)
		return cli_usage("manifest", "%s", cli_words("manifest", &err));
	if (rc < 0 && is_of_catalog(rc))
		return cli_fail("manifest", "'%s': %s", a->path, cli_words("manifest", &err));
	if (rc < 0) {
		cli_fail("manifest", "%s", cli_words("manifest", &err));
		if (rc == -ECANCELED)
			cli_die_of_signal();
		return CLI_FAILED;
	}
	if (a->json) {
		json_open_object(&j, NULL);
		json_string(&j, "directory", a->options.dir);
		json_u64(&j, "lists", nr);
		json_u64(&j, "files", info.nr_files);
		json_bool(&j, "written", !a->dry_run);
		json_close_object(&j);
	} else if (!cli_talk.quiet || a->dry_run)
		cli_say("manifest", "%s list%s of %s file%s %s'%s'", count_in_words(nr).text,
			plural(nr), count_in_words(info.nr_files).text, plural(info.nr_files),
			a->dry_run ? "would be written to " : "in ", a->options.dir);
	return CLI_OK;
}

static void cmd_manifest_show_progress(void *self, uint64_t nr_done, uint64_t nr)
{
	struct cmd_manifest_arguments *a = self;

	cli_progress_show(&a->progress,
			  &(struct cli_step){ .what = "lists", .done = nr_done, .total = nr });
}

static int cmd_manifest_run(void *arguments, int nr, char **words)
{
	struct cmd_manifest_arguments *a = arguments;
	struct shoal_catalog *cat;
	int status;

	(void)nr;
	if (!a->options.dir)
		return cli_usage("manifest", "say where to write the lists: -o DIR");
	a->options.first_epoch = a->order.epoch;
	a->path = words[0];
	a->options.stop = &cli_stop;
	a->options.progress = cmd_manifest_show_progress;
	a->options.self = a;
	cat = cli_open("manifest", a->path, &a->where);
	if (!cat)
		return CLI_FAILED;
	cli_catch_signals();
	status = write_manifests(a, cat);
	shoal_catalog_close(cat);
	return status;
}

static void cmd_manifest_defaults(void *arguments)
{
	struct cmd_manifest_arguments *a = arguments;

	a->order.spec = (struct shoal_order_spec){ .mode = SHOAL_GLOBAL, .nr_ranks = 1 };
	a->options.nr_epochs = 1;
}

#define AT(field) offsetof(struct cmd_manifest_arguments, field)

static const struct cli_option options[] = {
	CLI_NUMBER("ranks", "RANKS", AT(order.spec.nr_ranks), 1, 0,
		   "number of ranks, each with a list of its own (default 1)"),
	CLI_TEXT('o', "output", "DIR", AT(options.dir), "write the lists here; made if necessary"),
	CLI_NUMBER("epochs", "EPOCHS", AT(options.nr_epochs), 1, SHOAL_MANIFEST_EPOCHS_MAX,
		   "write lists for this many epochs, from --epoch on (default 1)"),
	CLI_TEXT(0, "list-prefix", "NAME", AT(options.prefix),
		 "start of the lists' names (default train)"),
	CLI_FLAG(0, "paths", AT(options.paths), "plain paths instead of file:// URIs"),
	CLI_NULL(AT(options.null), "URIs"),
	CLI_FLAG(
		0, "force", AT(options.force),
		"remove lists of this prefix that are in DIR, such as those of another catalog or seed, and write"),
	CLI_FLAG(0, "dry-run", AT(dry_run), "write nothing: print how many lists there would be"),
	CLI_JSON(AT(json)),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_manifest = {
	.name = "manifest",
	.summary = "write a list of URIs for each rank and epoch",
	.usage = "CATALOG --ranks RANKS -o DIR [OPTION]...",
	.about =
		"Write DIR/train_epoch0000_rank00000.txt and so on: the URIs of the files that each "
		"rank reads, one per line, in the order in which it reads them. Together the lists "
		"of an epoch contain every file once. A URI is the root, a slash and the unchanged "
		"name: nothing is percent-encoded.",
	.sections = { { .options = options },
		      CLI_ORDER_SECTION(AT(order)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog",
	.size = sizeof(struct cmd_manifest_arguments),
	.set_defaults = cmd_manifest_defaults,
	.run = cmd_manifest_run,
};
