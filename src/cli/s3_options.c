#include "cli/s3_options.h"

#include <stdlib.h>

bool cli_s3_option(int c, const char *value)
{
	static const struct {
		int option;
		const char *variable;
	} known[] = {
		{ CLI_OPT_S3_ENDPOINT, "AWS_ENDPOINT_URL_S3" },
		{ CLI_OPT_S3_REGION, "AWS_REGION" },
		{ CLI_OPT_S3_PROFILE, "AWS_PROFILE" },
		{ CLI_OPT_S3_CA, "AWS_CA_BUNDLE" },
		{ CLI_OPT_S3_STYLE, "SHOAL_S3_STYLE" },
		{ CLI_OPT_S3_ANONYMOUS, "SHOAL_S3_ANONYMOUS" },
	};
	size_t i = 0;

	while (i < SHOAL_ARRAY_LEN(known) && known[i].option != c)
		i++;
	if (i == SHOAL_ARRAY_LEN(known))
		return false;
	setenv(known[i].variable, value ? value : "1", 1);
	if (c == CLI_OPT_S3_PROFILE) { /* who names a profile wants its keys, not the others */
		unsetenv("AWS_ACCESS_KEY_ID");
		unsetenv("AWS_SECRET_ACCESS_KEY");
		unsetenv("AWS_SESSION_TOKEN");
	}
	return true;
}
