#include "cli/s3_options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "store/s3_config.h"

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

int cli_s3_check(int c, const char *value, struct shoal_err *err)
{
	switch (c) {
	case CLI_OPT_S3_ENDPOINT:
		return s3_check_endpoints(value, err);
	case CLI_OPT_S3_REGION:
		return s3_check_region(value, err);
	case CLI_OPT_S3_STYLE:
		return s3_check_style(value, err);
	default:
		return 0;
	}
}

int cli_s3_check_uri(const char *command, const char *uri)
{
	static const char scheme[] = "s3://";
	size_t len = strlen(scheme);

	if (uri && strncmp(uri, scheme, len) == 0 && (!uri[len] || uri[len] == '/'))
		return cli_usage(command, "'%s' has no bucket: s3://bucket/prefix", uri);
	return CLI_OK;
}
