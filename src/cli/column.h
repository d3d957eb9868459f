/* column.h - what makes a column: shared by cmd_column.c and column_import.c. */
#ifndef SHOAL_CLI_COLUMN_H
#define SHOAL_CLI_COLUMN_H

#include "cli/cli.h"
#include "cli/progress.h"
#include "format/import.h"
#include "shoal.h"

#define COLUMN_CHUNK 4096u /* values at once */

struct cmd_column_arguments {
	struct cli_where where;
	const char *output, *name, *field, *by_name, *keep;
	char *default_output;
	char *unsorted; /* written before it is sorted: a file with the final name is complete */
	enum shoal_column_type type; /* 0: not given */
	bool header, sort, force, dry_run, json;
	struct cli_progress progress;
	uint64_t nr_written, nr_to_sort;
	/* While a column is made: */
	const char *catalog_path;
	const struct shoal_catalog *cat;
	struct shoal_catalog_info info;
	struct shoal_column_writer *writer;
};

/* All print what fails, and return an exit status. */

int cmd_column_failed(const char *path, struct shoal_err *err);

/* Make the file, with the given name and type or these. */
int cmd_column_begin(struct cmd_column_arguments *a, const char *default_name,
		     enum shoal_column_type default_type);

/* Store number @n as value @i of @values, which @where describes in messages. */
int cmd_column_store(const struct cmd_column_arguments *a, const struct import_number *n,
		     uint8_t *values, uint64_t i, const char *path, const char *what,
		     uint64_t where);
int cmd_column_append(struct cmd_column_arguments *a, const void *values, uint64_t nr);

/* Seal it, or discard it. */
int cmd_column_end(struct cmd_column_arguments *a, int status);

/* All of it, from a file of another program: .npy or CSV. */
int cmd_column_import(struct cmd_column_arguments *a, const char *path);

/* Bytes of a value. */
size_t cmd_column_width_of(enum shoal_column_type type);

#endif
