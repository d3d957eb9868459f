/* s3_options.h - the options of stores, shared by all commands that open them. They override the
 * environment (struct shoal_store_config). */
#ifndef SHOAL_CLI_S3_OPTIONS_H
#define SHOAL_CLI_S3_OPTIONS_H

#include "base/err.h"
#include "cli/options.h"

extern const struct cli_option cli_s3_options[];
extern const struct cli_option cli_directory_options[];

bool cli_s3_check(const char *command, void *config) MUST_USE;

/* The section for a command whose arguments have a struct shoal_store_config at @base_. */
#define CLI_S3_SECTION(base_)                                                             \
	{                                                                                 \
		.title = "for s3://; the default comes from the AWS variables and files", \
		.options = cli_s3_options, .base = (base_), .check = cli_s3_check         \
	}

/* Likewise, for a command that reads or writes the files of a dataset. */
#define CLI_DIRECTORY_SECTION(base_)                                                          \
	{                                                                                     \
		.title = "for directories", .options = cli_directory_options, .base = (base_) \
	}

/* CLI_OK, or CLI_USAGE after printing that the S3 URI @uri has no bucket. @uri may be NULL. */
int cli_s3_check_uri(const char *command, const char *uri) MUST_USE;

#endif
