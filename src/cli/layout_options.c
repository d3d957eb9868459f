#include "cli/layout_options.h"

#include "base/path.h"
#include "cli/hints.h"
#include "store/uri.h"

#define AT(field) offsetof(struct cli_layout, field)

static const char *const layout_words[] = { "plain", "mlpstorage", "mlpstorage-2026-09", NULL };
static const char *const division_words[] = { "closed", "open", NULL };

const struct cli_option cli_layout_options[] = {
	CLI_WORD(
		"results-layout", "LAYOUT", AT(kind), layout_words,
		"plain: the files of one run (default); mlpstorage: --results is the top of a tree "
		"in which each run gets a directory named by the time, as the submission checker of "
		"mlpstorage 3.0.26 requires it; mlpstorage-2026-09: as newer ones do"),
	CLI_TEXT(0, "system", "NAME", AT(system), "the name of the system in that tree"),
	CLI_TEXT(0, "organization", "NAME", AT(organization),
		 "the name of the organization in that tree (default: unknown)"),
	CLI_WORD(
		"division", "DIVISION", AT(division), division_words,
		"closed (default) or open: by which rules the tree is checked. Results of Shoal are "
		"a submission in neither"),
	CLI_END,
};

bool cli_layout_check(const char *command, void *layout)
{
	struct cli_layout *l = layout;
	struct shoal_err err = { "" };
	struct layout tree;

	if (l->kind == LAYOUT_PLAIN) {
		if (!l->system && !l->organization && l->division == LAYOUT_CLOSED)
			return true;
		cli_usage(command, "--system, --organization and --division are for "
				   "--results-layout mlpstorage");
		return false;
	}
	if (!l->system) {
		cli_usage(command, "--results-layout mlpstorage needs --system NAME");
		return false;
	}
	if (!l->organization)
		l->organization = "unknown";
	tree = cli_layout_of(l, "");
	if (layout_check(&tree, &err) == 0)
		return true;
	cli_usage(command, "%s", cli_words(command, &err));
	return false;
}

int cli_layout_check_place(const char *command, const struct cli_layout *l, const char *results,
			   const char *data)
{
	const char *dir =
		l->kind != LAYOUT_PLAIN && results && data ? store_local_path(data) : NULL;

	if (!dir || !path_is_inside(results, dir))
		return CLI_OK;
	return cli_fail(command,
			"'%s' lies inside the data, where listings would take a tree of results "
			"for files of the dataset: choose another folder",
			results);
}

struct layout cli_layout_of(const struct cli_layout *l, const char *root)
{
	return (struct layout){ .root = root,
				.organization = l->organization,
				.system = l->system,
				.open = l->division == LAYOUT_OPEN,
				.newer = l->kind == LAYOUT_MLPSTORAGE_NEWER };
}

int cli_layout_leaf(const struct layout *l, struct comm *comm, const char *model,
		    const char *command, char ret_leaf[RUN_PATH_MAX], struct shoal_err *err)
{
	if (comm_place(comm)->rank == 0) {
		int rc = layout_leaf(l, model, command, ret_leaf, err);

		if (rc < 0) {
			comm_fail(comm, err);
			return rc;
		}
	}
	return comm_broadcast(comm, 0, ret_leaf, RUN_PATH_MAX, err);
}
