#include "cli/s3_options.h"

#include <stdlib.h>

bool cli_s3_option(int c, const char *value)
{
	static const char *const variables[] = {
		[CLI_OPT_S3_ENDPOINT - CLI_OPT_S3_ENDPOINT] = "AWS_ENDPOINT_URL_S3",
		[CLI_OPT_S3_REGION - CLI_OPT_S3_ENDPOINT] = "AWS_REGION",
		[CLI_OPT_S3_PROFILE - CLI_OPT_S3_ENDPOINT] = "AWS_PROFILE",
		[CLI_OPT_S3_CA - CLI_OPT_S3_ENDPOINT] = "AWS_CA_BUNDLE",
		[CLI_OPT_S3_STYLE - CLI_OPT_S3_ENDPOINT] = "SHOAL_S3_STYLE",
		[CLI_OPT_S3_ANONYMOUS - CLI_OPT_S3_ENDPOINT] = "SHOAL_S3_ANONYMOUS",
	};

	if (c < CLI_OPT_S3_ENDPOINT || c > CLI_OPT_S3_ANONYMOUS)
		return false;
	setenv(variables[c - CLI_OPT_S3_ENDPOINT], value ? value : "1", 1);
	if (c == CLI_OPT_S3_PROFILE) { /* who names a profile wants its keys, not the others */
		unsetenv("AWS_ACCESS_KEY_ID");
		unsetenv("AWS_SECRET_ACCESS_KEY");
		unsetenv("AWS_SESSION_TOKEN");
	}
	return true;
}
