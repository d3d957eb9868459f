#include "cli/load_options.h"

#include <inttypes.h>
#include <string.h>

#include "cli/hints.h"
#include "cli/s3_options.h"
#include "store/uri.h"

bool load_number(const char *command, const char *option, uint64_t max, uint64_t *ret_value)
{
	if (!cli_number(command, option, ret_value))
		return false;
	if (*ret_value >= 1 && *ret_value <= max)
		return true;
	cli_usage(command, "%s must be 1 to %" PRIu64, option, max);
	return false;
}

/* A number of bytes, but not 0, which is for none given. */
static bool take_size(const char *command, const char *option, uint64_t *ret_value)
{
	if (!cli_size(command, option, ret_value))
		return false;
	if (*ret_value == 0)
		cli_usage(command, "%s must be at least 1", option);
	return *ret_value > 0;
}

static bool take_word(const char *command, const char *option, const char *const *words, size_t nr,
		      size_t *ret_which)
{
	for (size_t i = 0; i < nr; i++) {
		*ret_which = i;
		if (strcmp(optarg, words[i]) == 0)
			return true;
	}
	cli_usage(command, "%s '%s' is unknown: see --help", option, optarg);
	return false;
}

static bool take_choice(const char *command, int c, struct shoal_load_options *load)
{
	static const char *const engines[] = { "auto", "uring", "threads" };
	static const char *const policies[] = { "fail", "skip" };
	size_t which = 0;

	if (c == OPT_ENGINE) {
		if (!take_word(command, "--engine", engines, ARRAY_LEN(engines), &which))
			return false;
		load->engine = (enum shoal_engine)which;
		return true;
	}
	if (!take_word(command, "--on-error", policies, ARRAY_LEN(policies), &which))
		return false;
	load->skip_errors = which == 1;
	return true;
}

/* Check the value itself, without looking at files or servers. */
static bool take_store(const char *command, struct shoal_load_options *load)
{
	struct shoal_err err = { "" };
	static char sized[256];
	int rc = store_uri_any_size(optarg, sized, sizeof(sized));

	if (rc < 0) {
		cli_usage(command, "--store is too long");
		return false;
	}
	load->store = rc ? sized : optarg;
	if ((store_uri_traits(optarg).synthetic || !*optarg) && store_uri_check(optarg, &err) < 0) {
		cli_usage(command, "--store: %s", cli_words(command, &err));
		return false;
	}
	return true;
}

static bool load_options_take(const char *command, int c, struct shoal_load_options *load)
{
	uint64_t v = 0;

	switch (c) {
	case OPT_IN_FLIGHT:
		if (!load_number(command, "--in-flight", 8192, &v))
			return false;
		load->in_flight = (unsigned)v;
		return true;
	case OPT_PREFETCH:
		if (!load_number(command, "--prefetch", 1024, &v))
			return false;
		load->prefetch = (unsigned)v;
		return true;
	case OPT_DIRECT:
		return load->direct = true;
	case OPT_STORE:
		return take_store(command, load);
	case OPT_IF_MATCH:
		return load->if_match = true;
	case OPT_OBJECT_SIZE:
		return take_size(command, "--object-size", &load->object_size);
	case OPT_SLOT:
		return take_size(command, "--slot", &load->slot);
	case OPT_MEMORY:
		return take_size(command, "--memory", &load->memory);
	case OPT_TIMEOUT:
		if (!load_number(command, "--timeout", 1000000, &v))
			return false;
		load->timeout_ms = v * 1000;
		return true;
	default:
		return take_choice(command, c, load);
	}
}

int load_option(const char *command, int c, struct shoal_load_options *load)
{
	if (c < OPT_LOAD_FIRST || c > OPT_LOAD_LAST)
		return 0;
	return load_options_take(command, c, load) ? 1 : -1;
}

int load_check(const char *command, const struct shoal_load_options *load)
{
	struct store_traits where = { .files = true };

	if (load->store)
		where = store_uri_traits(load->store);
	if (cli_s3_check_uri(command, load->store) != CLI_OK)
		return CLI_USAGE;
	if (load->object_size && !where.synthetic)
		return cli_usage(command,
				 "--object-size is for --store null: real samples have a size");
	if (load->engine == SHOAL_ENGINE_URING && (where.synthetic || where.objects))
		return cli_usage(command, "--engine uring reads files, not --store %.200s",
				 load->store);
	return CLI_OK;
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

void load_describe(FILE *f, const struct shoal_load_options *load)
{
	fprintf(f,
		"store: %s\nengine: %d\ndirect: %d\nin-flight: %u\nprefetch: %u\nslot: %" PRIu64
		"\nmemory: %" PRIu64 "\nobject-size: %" PRIu64
		"\npieces: %d\non-error skip: %d\nif-match: %d\n",
		load->store ? load->store : "that of the catalog", (int)load->engine, load->direct,
		load->in_flight, load->prefetch, load->slot, load->memory, load->object_size,
		load->pieces, load->skip_errors, load->if_match);
}
