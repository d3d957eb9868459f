/* load_options.h - the options of commands that read samples: how, and from where. */
#ifndef SHOAL_CLI_LOAD_OPTIONS_H
#define SHOAL_CLI_LOAD_OPTIONS_H

#include "cli/cli.h"
#include "cli/options.h"
#include "shoal.h"

extern const struct cli_option cli_load_options[];

bool cli_load_check(const char *command, void *load) MUST_USE;

/* The section for a command whose arguments have a struct shoal_load_options at @base_. */
#define CLI_LOAD_SECTION(base_)                                                   \
	{                                                                         \
		.title = "reading", .options = cli_load_options, .base = (base_), \
		.check = cli_load_check                                           \
	}

/*
 * A line for each option that must be the same on all ranks (see comm_compare()), and that says how
 * it was read: words, as on the command line. @words: what the value @none stands for.
 */
void cli_describe_flag(FILE *f, const char *name, bool value);
void cli_describe_number(FILE *f, const char *name, uint64_t value, uint64_t none,
			 const char *words);
void load_describe(FILE *f, const struct shoal_load_options *load);

/*
 * Whether --direct and --drop-cache (@drop), which are for files, were given although @place is a
 * bucket: -EINVAL.
 */
int load_check_place(const char *place, const struct shoal_load_options *load, bool drop,
		     struct shoal_err *err) MUST_USE;

#endif
