/* load_options.h - the options of commands that read samples: how, and from where. */
#ifndef SHOAL_CLI_LOAD_OPTIONS_H
#define SHOAL_CLI_LOAD_OPTIONS_H

#include "cli/cli.h"
#include "shoal.h"

enum {
	OPT_LOAD_FIRST = 500,
	OPT_IN_FLIGHT = OPT_LOAD_FIRST,
	OPT_PREFETCH,
	OPT_ENGINE,
	OPT_DIRECT,
	OPT_STORE,
	OPT_OBJECT_SIZE,
	OPT_SLOT,
	OPT_MEMORY,
	OPT_ON_ERROR,
	OPT_IF_MATCH,
	OPT_TIMEOUT,
	OPT_LOAD_LAST = OPT_TIMEOUT,
};

#define LOAD_LONG_OPTIONS                                                    \
	{ "in-flight", required_argument, NULL, OPT_IN_FLIGHT },             \
		{ "prefetch", required_argument, NULL, OPT_PREFETCH },       \
		{ "engine", required_argument, NULL, OPT_ENGINE },           \
		{ "direct", no_argument, NULL, OPT_DIRECT },                 \
		{ "store", required_argument, NULL, OPT_STORE },             \
		{ "object-size", required_argument, NULL, OPT_OBJECT_SIZE }, \
		{ "slot", required_argument, NULL, OPT_SLOT },               \
		{ "memory", required_argument, NULL, OPT_MEMORY },           \
		{ "on-error", required_argument, NULL, OPT_ON_ERROR },       \
		{ "if-match", no_argument, NULL, OPT_IF_MATCH },             \
	{                                                                    \
		"timeout", required_argument, NULL, OPT_TIMEOUT              \
	}

#define LOAD_USAGE                                                                                            \
	"      --engine E        uring, threads or auto (default: uring for files; s3:// has its own)\n"      \
	"      --direct          read files without the page cache (O_DIRECT)\n"                              \
	"      --store WHERE     read from this directory or URI instead of the catalog's root; null\n"       \
	"                        generates bytes, to measure Shoal itself\n"                                  \
	"      --object-size N   with --store null: the size of every sample\n"                               \
	"      --slot N          a larger sample cannot be read (default: the largest of the catalog)\n"      \
	"      --memory N        at most so many bytes for samples; fewer batches are read ahead then\n"      \
	"      --on-error E      fail (default): stop at the first sample that cannot be read; skip: go on\n" \
	"      --if-match        fail if an object's ETag differs from the one that 'index --etags'\n"        \
	"                        recorded\n"                                                                  \
	"      --timeout S       fail if a sample takes longer than S seconds\n"

/* A number from 1 to @max, the value of @option; false with a message if malformed. */
bool load_number(const char *command, const char *option, uint64_t max,
		 uint64_t *ret_value) MUST_USE;

/* Take one of the options above: 1, 0 if it is another, -1 with a message if it is wrong. */
int load_option(const char *command, int c, struct shoal_load_options *load) MUST_USE;

/* CLI_OK if the options are consistent, otherwise CLI_USAGE after printing why. */
int load_check(const char *command, const struct shoal_load_options *load) MUST_USE;

/* A line for each option that all ranks must have alike: see comm_compare(). */
void load_describe(FILE *f, const struct shoal_load_options *load);

/* Whether --direct and --drop-cache (@drop), which are for files, were given though @place is a
 * bucket: -EINVAL with words. */
int load_check_place(const char *place, const struct shoal_load_options *load, bool drop,
		     struct shoal_err *err) MUST_USE;

#endif
