/* order_options.h - the options that order, manifest and read share. */
#ifndef SHOAL_CLI_ORDER_OPTIONS_H
#define SHOAL_CLI_ORDER_OPTIONS_H

#include "cli/options.h"
#include "shoal.h"

struct cli_order {
	struct shoal_order_spec spec;
	uint64_t epoch;
};

extern const struct cli_option cli_order_options[];

/* The section for a command whose arguments have a struct cli_order at @base_. */
#define CLI_ORDER_SECTION(base_)                                                \
	{                                                                       \
		.title = "order", .options = cli_order_options, .base = (base_) \
	}

extern const char *const cli_remainders[];
extern const char *const cli_order_modes[];

/* Samples per rank and step, unless --batch is given: the same in all commands. */
#define CLI_BATCH 32

#endif
