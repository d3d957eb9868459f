/* order_options.h - the options that order, manifest and read share; --ranks is not for read. */
#ifndef SHOAL_CLI_ORDER_OPTIONS_H
#define SHOAL_CLI_ORDER_OPTIONS_H

#include "cli/cli.h"
#include "shoal.h"

enum {
	OPT_RANKS = 300,
	OPT_EPOCH,
	OPT_SEED,
	OPT_MODE,
	OPT_WINDOW,
	OPT_FROZEN,
};

#define ORDER_LONG_OPTIONS                                         \
	{ "epoch", required_argument, NULL, OPT_EPOCH },           \
		{ "seed", required_argument, NULL, OPT_SEED },     \
		{ "mode", required_argument, NULL, OPT_MODE },     \
		{ "window", required_argument, NULL, OPT_WINDOW }, \
	{                                                          \
		"frozen", no_argument, NULL, OPT_FROZEN            \
	}

#define ORDER_USAGE                                                                       \
	"      --epoch E       which epoch (default 0)\n"                                 \
	"      --seed S        which shuffle (default 0)\n"                               \
	"      --mode M        sequential, global (default), files, window or local\n"    \
	"      --window M      mode window: files whose samples are mixed (default 16)\n" \
	"      --frozen        the same order in every epoch\n"

/* Take one of the options above: 1 taken, 0 not one of them, -1 wrong (after printing why). */
int order_option(const char *command, int c, struct shoal_order_spec *spec, uint64_t *epoch);

#endif
