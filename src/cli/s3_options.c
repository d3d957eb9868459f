#include "cli/s3_options.h"

#include "cli/cli.h"
#include "cli/hints.h"
#include "store/uri.h"

int cli_s3_option(int c, const char *value, struct shoal_store_config *config,
		  struct shoal_err *err)
{
	int rc;

	switch (c) {
	case CLI_OPT_S3_ENDPOINT:
		config->endpoint = value;
		break;
	case CLI_OPT_S3_REGION:
		config->region = value;
		break;
	case CLI_OPT_S3_PROFILE:
		config->profile = value;
		break;
	case CLI_OPT_S3_CA:
		config->ca_file = value;
		break;
	case CLI_OPT_S3_STYLE:
		config->bucket_style = value;
		break;
	case CLI_OPT_S3_ANONYMOUS:
		config->anonymous = true;
		break;
	default:
		return 0;
	}
	rc = shoal_store_config_check(config, err);
	return rc < 0 ? rc : 1;
}

int cli_s3_check_uri(const char *command, const char *uri)
{
	struct shoal_err err = { "" };

	if (uri && store_uri_traits(uri).objects && store_uri_check(uri, &err) < 0)
		return cli_usage(command, "%s", cli_words(command, &err));
	return CLI_OK;
}
