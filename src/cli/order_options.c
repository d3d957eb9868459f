#include "cli/order_options.h"

#define AT(field) offsetof(struct cli_order, field)

const char *const cli_order_modes[] = {
	[SHOAL_SEQUENTIAL] = "sequential", [SHOAL_GLOBAL] = "global", [SHOAL_FILES] = "files",
	[SHOAL_WINDOW] = "window",         [SHOAL_LOCAL] = "local",   NULL,
};

const char *const cli_remainders[] = {
	[SHOAL_DROP] = "drop", [SHOAL_PAD] = "pad", [SHOAL_KEEP] = "keep", NULL
};

const struct cli_option cli_order_options[] = {
	CLI_NUMBER("epoch", "EPOCH", AT(epoch), 0, 0, "number of the epoch (default 0)"),
	CLI_NUMBER("seed", "SEED", AT(spec.seed), 0, 0, "seed of the shuffle (default 0)"),
	CLI_WORD("mode", "MODE", AT(spec.mode), cli_order_modes,
		 "sequential, global (default), files, window or local"),
	CLI_NUMBER("window", "FILES", AT(spec.window), 1, 0,
		   "mode window: files whose samples are mixed (default 16)"),
	CLI_NUMBER(
		"lanes", "RANKS", AT(spec.lanes), 1, 0,
		"modes sequential, files and window: the epoch in as many parts, one for each rank"),
	CLI_NUMBER("lane-batch", "SAMPLES", AT(spec.lane_batch), 1, 0,
		   "the batch of those ranks (default: the batch)"),
	CLI_FLAG(0, "frozen", AT(spec.frozen), "the same order in every epoch"),
	CLI_END,
};
