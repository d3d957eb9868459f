/*
 * s3_options.h - the options for S3 that all commands share which open stores.
 *
 * What they say goes into the environment, where the AWS tools have it and the library looks for it
 * (store/s3_config.h). cli_getopt() takes them: a command lists them and has the lines of help.
 */
#ifndef SHOAL_CLI_S3_OPTIONS_H
#define SHOAL_CLI_S3_OPTIONS_H

#include <getopt.h>

#include "base/err.h"

enum {
	CLI_OPT_S3_ENDPOINT = 1100,
	CLI_OPT_S3_REGION,
	CLI_OPT_S3_PROFILE,
	CLI_OPT_S3_CA,
	CLI_OPT_S3_STYLE,
	CLI_OPT_S3_ANONYMOUS,
};

/* clang-format off */
#define CLI_S3_OPTIONS \
	{ "endpoint", required_argument, NULL, CLI_OPT_S3_ENDPOINT }, \
	{ "region", required_argument, NULL, CLI_OPT_S3_REGION }, \
	{ "profile", required_argument, NULL, CLI_OPT_S3_PROFILE }, \
	{ "ca", required_argument, NULL, CLI_OPT_S3_CA }, \
	{ "bucket-style", required_argument, NULL, CLI_OPT_S3_STYLE }, \
	{ "anonymous", no_argument, NULL, CLI_OPT_S3_ANONYMOUS }
/* clang-format on */

#define CLI_S3_USAGE                                                                                       \
	"\n"                                                                                               \
	"for s3://, where the usual AWS variables and files do not say it already:\n"                      \
	"      --endpoint URL    the server, or several with commas, used in turn\n"                       \
	"      --region R        (default us-east-1)\n"                                                    \
	"      --profile P       whose keys: a section of ~/.aws/credentials and ~/.aws/config\n"          \
	"      --anonymous       without keys\n"                                                           \
	"      --ca FILE         trust the certificates in FILE\n"                                         \
	"      --bucket-style S  the bucket is in the path or in the virtual host's name (default: path\n" \
	"                        with an --endpoint, else virtual)\n"

/* Whether @c is one of these, which is taken then. */
bool cli_s3_option(int c, const char *value);

/* Whether the option makes sense by itself. -EINVAL with words. */
int cli_s3_check(int c, const char *value, struct shoal_err *err) SHOAL_MUST_USE;

/* CLI_OK, or CLI_USAGE after saying that @uri is of S3 and has no bucket. NULL is fine. */
int cli_s3_check_uri(const char *command, const char *uri) SHOAL_MUST_USE;

#endif
