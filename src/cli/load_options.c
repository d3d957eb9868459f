#include "cli/load_options.h"

#include <inttypes.h>

#include "cli/hints.h"
#include "cli/s3_options.h"
#include "store/null/null.h"
#include "store/uri.h"

#define AT(field) offsetof(struct shoal_load_options, field)

/* Check the value itself, without looking at files or servers. */
static bool take_data(const char *command, const char *value, void *into)
{
	struct shoal_load_options *load = into;
	struct shoal_err err = { "" };
	static char sized[256];
	int rc = store_null_any_size(value, sized, sizeof(sized));

	if (rc < 0) {
		cli_usage(command, "--data is too long");
		return false;
	}
	load->store = rc ? sized : value;
	if ((store_uri_traits(value).synthetic || !*value) && store_uri_check(value, &err) < 0) {
		cli_usage(command, "--data: %s", cli_words(command, &err));
		return false;
	}
	return true;
}

static const char *const engines[] = { "auto", "uring", "threads", NULL };

const struct cli_option cli_load_options[] = {
	CLI_COUNT("in-flight", "SAMPLES", AT(in_flight), 1, 8192,
		  "samples that each rank reads at once (default 64; run: reader.read_threads per "
		  "accelerator)"),
	CLI_COUNT("prefetch", "BATCHES", AT(prefetch), 1, 1024,
		  "batches read ahead (default 2; run: as DLIO's loader does with "
		  "reader.prefetch_size and reader.read_threads)"),
	CLI_WORD("engine", "ENGINE", AT(engine), engines,
		 "uring, threads or auto (default: uring for files; s3:// has its own)"),
	CLI_COUNT("threads", "THREADS", AT(threads), 1, 256,
		  "threads that read (default: as many as pay, chosen while it runs)"),
	CLI_FLAG(0, "direct", AT(direct), "read files without the page cache (O_DIRECT)"),
	CLI_OTHER(0, "data", "PLACE", take_data,
		  "read samples from this directory or URI (default: the catalog's root); null "
		  "generates bytes, to measure Shoal itself"),
	CLI_SIZE("object-size", AT(object_size), 1, 0,
		 "with --data null: the size of every sample"),
	CLI_SIZE("slot", AT(slot), 1, 0,
		 "a larger sample cannot be read (default: the largest of the catalog)"),
	CLI_SIZE("memory", AT(memory), 1, 0,
		 "use at most this much memory for samples; fewer batches are read ahead then"),
	CLI_FLAG(0, "keep-going", AT(skip_errors),
		 "leave out samples that cannot be read; the exit status is then 1"),
	CLI_FLAG(0, "if-match", AT(if_match),
		 "fail if an object's ETag differs from the one that 'index --etags' recorded"),
	CLI_SECONDS("timeout", AT(timeout_ms), 1, UINT64_C(1000000000),
		    "fail if a sample takes longer than this"),
	CLI_END,
};

bool cli_load_check(const char *command, void *into)
{
	const struct shoal_load_options *load = into;
	struct store_traits where = { .files = true };

	if (load->store)
		where = store_uri_traits(load->store);
	if (cli_s3_check_uri(command, load->store) != CLI_OK)
		return false;
	if (load->object_size && !where.synthetic)
		cli_usage(command, "--object-size is for --data null: real samples have a size");
	else if (load->engine == SHOAL_ENGINE_URING && (where.synthetic || where.objects))
		cli_usage(command, "--engine uring reads files, not --data %.200s", load->store);
	else
		return true;
	return false;
}

int load_check_place(const char *place, const struct shoal_load_options *load, bool drop,
		     struct shoal_err *err)
{
	const char *option = load->direct ? "--direct" : drop ? "--drop-cache" : NULL;

	if (!option || !store_uri_traits(place).objects)
		return 0;
	return err_set(err, -EINVAL,
		       "%s is for files: objects in a bucket are not in the page cache", option);
}

void cli_describe_flag(FILE *f, const char *name, bool value)
{
	fprintf(f, "%s: %s\n", name, value ? "yes" : "no");
}

void cli_describe_number(FILE *f, const char *name, uint64_t value, uint64_t none,
			 const char *words)
{
	if (value == none)
		fprintf(f, "%s: %s\n", name, words);
	else
		fprintf(f, "%s: %" PRIu64 "\n", name, value);
}

void load_describe(FILE *f, const struct shoal_load_options *load)
{
	fprintf(f, "data: %s\nengine: %s\n", load->store ? load->store : "that of the catalog",
		engines[load->engine]);
	cli_describe_number(f, "threads", load->threads, 0, "as many as pay");
	cli_describe_flag(f, "direct", load->direct);
	cli_describe_number(f, "in-flight", load->in_flight, 0, "default");
	cli_describe_number(f, "prefetch", load->prefetch, 0, "default");
	cli_describe_number(f, "slot", load->slot, 0, "the largest sample");
	cli_describe_number(f, "memory", load->memory, 0, "no limit");
	cli_describe_number(f, "object-size", load->object_size, 0, "those of the catalog");
	cli_describe_flag(f, "pieces", load->pieces);
	cli_describe_flag(f, "keep-going", load->skip_errors);
	cli_describe_flag(f, "if-match", load->if_match);
}
