#include "cli/order_options.h"

#include <string.h>

static bool take_mode(const char *command, struct shoal_order_spec *spec)
{
	static const char *const names[] = {
		[SHOAL_SEQUENTIAL] = "sequential", [SHOAL_GLOBAL] = "global",
		[SHOAL_FILES] = "files",           [SHOAL_WINDOW] = "window",
		[SHOAL_LOCAL] = "local",
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(optarg, names[i]) == 0) {
			spec->mode = (enum shoal_mode)i;
			return true;
		}
	}
	cli_usage(command, "--mode '%s' is not sequential, global, files, window or local", optarg);
	return false;
}

int order_option(const char *command, int c, struct shoal_order_spec *spec, uint64_t *epoch)
{
	bool good;

	switch (c) {
	case OPT_RANKS:
		good = cli_number(command, "--ranks", &spec->nr_ranks);
		if (good && spec->nr_ranks == 0) {
			cli_usage(command, "--ranks must be 1 or more");
			good = false;
		}
		break;
	case OPT_EPOCH:
		good = cli_number(command, "--epoch", epoch);
		break;
	case OPT_SEED:
		good = cli_number(command, "--seed", &spec->seed);
		break;
	case OPT_MODE:
		good = take_mode(command, spec);
		break;
	case OPT_WINDOW:
		good = cli_number(command, "--window", &spec->window);
		if (good && spec->window == 0) {
			cli_usage(command, "--window must be 1 or more");
			good = false;
		}
		break;
	case OPT_FROZEN:
		good = spec->frozen = true;
		break;
	default:
		return 0;
	}
	return good ? 1 : -1;
}
