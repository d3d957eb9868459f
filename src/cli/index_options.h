/* index_options.h - the arguments of shoal index. */
#ifndef SHOAL_CLI_INDEX_OPTIONS_H
#define SHOAL_CLI_INDEX_OPTIONS_H

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "shoal.h"

/* As many patterns as anyone would write on a command line. */
#define INDEX_PATTERNS 64

/* What is indexed. */
enum index_source { INDEX_TREE, INDEX_LIST, INDEX_PATTERN };

struct index_arguments {
	struct cli_where where;
	enum index_source kind;
	const char *source; /* a directory, a URI or a list; NULL for a pattern */
	struct shoal_index_options options;
	struct shoal_tree_options tree;
	struct shoal_pattern pattern;
	bool null, names_only; /* the list's descriptor */
	enum { FORMAT_LINES, FORMAT_FIND, FORMAT_GPFS, FORMAT_INVENTORY } format;
	const char *columns;
	bool json, force, dry_run, count_given;
	struct cli_listen listen;
	struct cli_record record;
	const char *include[INDEX_PATTERNS], *exclude[INDEX_PATTERNS];
	/* The last option given that is for one kind of source only, for messages. */
	const char *tree_only, *list_only, *pattern_only, *files_only, *bucket_only;
};

/* Check arguments that are not options, and combinations: CLI_OK, or the exit status. */
int index_arguments_check(struct index_arguments *a, int nr, char **words) MUST_USE;

/* Run the command; in cmd_index.c. */
int cmd_index_start(void *arguments, int nr, char **words);

#endif
