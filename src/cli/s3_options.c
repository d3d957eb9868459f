#include "cli/s3_options.h"

#include "cli/cli.h"
#include "cli/hints.h"
#include "store/uri.h"

#define AT(field) offsetof(struct shoal_store_config, field)

static const char *const bucket_styles[] = { "path", "virtual", NULL };

const struct cli_option cli_s3_options[] = {
	CLI_TEXT(0, "endpoint", "URL", AT(endpoint),
		 "the server, or several separated by commas, used in turn"),
	CLI_TEXT(0, "region", "REGION", AT(region), "(default us-east-1)"),
	CLI_TEXT(0, "profile", "PROFILE", AT(profile),
		 "the keys: a section of ~/.aws/credentials and ~/.aws/config"),
	CLI_FLAG(0, "anonymous", AT(anonymous), "send requests without keys"),
	CLI_TEXT(0, "ca", "FILE", AT(ca_file), "trust the certificates in FILE"),
	CLI_TEXT_SUCH_AS("bucket-style", "STYLE", AT(bucket_style), bucket_styles,
			 "path or virtual: whether the bucket is in the path or in the host's name "
			 "(default: path with an --endpoint, otherwise virtual)"),
	CLI_END,
};

const struct cli_option cli_directory_options[] = {
	CLI_FLAG(0, "beneath", AT(beneath),
		 "refuse symbolic links that lead out of the directory, and absolute ones "
		 "(default: follow them, unless SHOAL_BENEATH=1 is set)"),
	CLI_END,
};

bool cli_s3_check(const char *command, void *config)
{
	struct shoal_err err = { "" };

	if (shoal_store_config_check(config, &err) == 0)
		return true;
	cli_usage(command, "%s", cli_words(command, &err));
	return false;
}

int cli_s3_check_uri(const char *command, const char *uri)
{
	struct shoal_err err = { "" };

	if (uri && store_uri_traits(uri).objects && store_uri_check(uri, &err) < 0)
		return cli_usage(command, "%s", cli_words(command, &err));
	return CLI_OK;
}
