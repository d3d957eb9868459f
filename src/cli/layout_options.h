/* layout_options.h - the options of commands that write results as a tree for mlpstorage. */
#ifndef SHOAL_CLI_LAYOUT_OPTIONS_H
#define SHOAL_CLI_LAYOUT_OPTIONS_H

#include "cli/cli.h"
#include "comm/comm.h"
#include "report/layout.h"

enum layout_kind { LAYOUT_PLAIN, LAYOUT_MLPSTORAGE, LAYOUT_MLPSTORAGE_NEWER };
enum layout_division { LAYOUT_CLOSED, LAYOUT_OPEN };

struct cli_layout {
	enum layout_kind kind;
	enum layout_division division;
	const char *organization, *system;
};

extern const struct cli_option cli_layout_options[];

bool cli_layout_check(const char *command, void *layout) MUST_USE;

/* The section for a command whose arguments have a struct cli_layout at @base_. */
#define CLI_LAYOUT_SECTION(base_)                                                         \
	{                                                                                 \
		.title = "results for mlpstorage's reports and submission checker",       \
		.options = cli_layout_options, .base = (base_), .check = cli_layout_check \
	}

/* CLI_OK, or CLI_FAILED after a message: only plain folders of results may lie inside the data, as
 * listings recognise nothing else. @data may be NULL. */
int cli_layout_check_place(const char *command, const struct cli_layout *l, const char *results,
			   const char *data) MUST_USE;

/* The tree at @root. */
struct layout cli_layout_of(const struct cli_layout *l, const char *root);

/* Collective: rank 0 makes a leaf, all ranks get its path. */
int cli_layout_leaf(const struct layout *l, struct comm *comm, const char *model,
		    const char *command, char ret_leaf[RUN_PATH_MAX],
		    struct shoal_err *err) MUST_USE;

#endif
