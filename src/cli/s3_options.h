/*
 * s3_options.h - the options for S3 that all commands share which open stores.
 *
 * What they say goes before what the environment has (struct shoal_store_config). cli_getopt()
 * takes them: a command lists them and has the lines of help.
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
	"for s3://, unless the usual AWS variables and files say it already:\n"                            \
	"      --endpoint URL    the server, or several with commas, used in turn\n"                       \
	"      --region R        (default us-east-1)\n"                                                    \
	"      --profile P       the keys: a section of ~/.aws/credentials and ~/.aws/config\n"            \
	"      --anonymous       without keys\n"                                                           \
	"      --ca FILE         trust the certificates in FILE\n"                                         \
	"      --bucket-style S  the bucket is in the path or in the virtual host's name (default: path\n" \
	"                        with an --endpoint, else virtual)\n"

/* Whether @c is one of these, which is put into @config then: -EINVAL with words, when its value
 * makes no sense. 1: it is; 0: it is another. */
int cli_s3_option(int c, const char *value, struct shoal_store_config *config,
		  struct shoal_err *err) MUST_USE;

/* CLI_OK, or CLI_USAGE after printing that the S3 URI @uri has no bucket. @uri may be NULL. */
int cli_s3_check_uri(const char *command, const char *uri) MUST_USE;

#endif
