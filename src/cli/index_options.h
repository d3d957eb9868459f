/* index_options.h - the arguments of shoal index. */
#ifndef SHOAL_CLI_INDEX_OPTIONS_H
#define SHOAL_CLI_INDEX_OPTIONS_H

#include "cli/cli.h"
#include "shoal.h"

/* As many patterns as anyone will write on a command line. */
#define INDEX_PATTERNS 64

/* More would each be less than a page of most buckets. */
#define INDEX_SHARDS 65536u

/* What is indexed. */
enum index_source { INDEX_TREE, INDEX_LIST, INDEX_PATTERN };

struct index_arguments {
	struct cli_where where;
	enum index_source kind;
	const char *source; /* a directory, a URI or a list; NULL for a pattern */
	struct shoal_index_options options;
	struct shoal_tree_options tree;
	struct shoal_pattern pattern;
	bool null, names_only; /* of a list */
	bool json, quiet;
	const char *include[INDEX_PATTERNS], *exclude[INDEX_PATTERNS];
	/* Options that were given and are for one kind only: the last of each, for messages. */
	const char *tree_only, *list_only, *pattern_only, *files_only, *bucket_only;
	bool count_given, samples_given, memory_given;
};

/* CLI_OK, or the exit code; *@ret_done is set after --help. */
int index_arguments_parse(int argc, char **argv, struct index_arguments *ret_arguments,
			  bool *ret_done) MUST_USE;

#endif
