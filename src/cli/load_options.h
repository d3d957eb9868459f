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
		{ "on-error", required_argument, NULL, OPT_ON_ERROR },       \
		{ "if-match", no_argument, NULL, OPT_IF_MATCH },             \
	{                                                                    \
		"timeout", required_argument, NULL, OPT_TIMEOUT              \
	}

#define LOAD_USAGE                                                                                            \
	"      --engine E        uring, threads or auto (default: uring for files, for s3:// its own)\n"      \
	"      --direct          files past the page cache (O_DIRECT)\n"                                      \
	"      --store WHERE     read from this directory or URI instead of the catalog's root; null makes\n" \
	"                        bytes up, to measure Shoal itself\n"                                         \
	"      --object-size N   with --store null: the size of every sample\n"                               \
	"      --slot N          room for a sample (default: the largest of the catalog)\n"                   \
	"      --on-error E      fail (default): stop at the first sample that cannot be read; skip: go on\n" \
	"      --if-match        an object in a bucket that is not the one listed, by the ETag that the\n"    \
	"                        catalog keeps (index --etags), cannot be read\n"                             \
	"      --timeout S       give up when a sample takes longer than S seconds\n"

/* A number from 1 to @max, the value of @option; false with words when it is none. */
bool load_number(const char *command, const char *option, uint64_t max,
		 uint64_t *ret_value) SHOAL_MUST_USE;

/* Take one of the options above: 1, 0 when it is another, -1 with words when it is wrong. */
int load_option(const char *command, int c, struct shoal_load_options *load) SHOAL_MUST_USE;

/* CLI_OK when all that was taken makes sense together, else CLI_USAGE after saying why. */
int load_check(const char *command, const struct shoal_load_options *load) SHOAL_MUST_USE;

/* Whether --direct and --drop-cache (@drop), which are for files, were given though @place is a
 * bucket: -EINVAL with words. */
int load_check_place(const char *place, const struct shoal_load_options *load, bool drop,
		     struct shoal_err *err) SHOAL_MUST_USE;

#endif
