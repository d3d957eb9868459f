/* check_private.h - shared by check.c, the directories, and check_runs.c, the contents of leaves.
 */
#ifndef SHOAL_REPORT_CHECK_PRIVATE_H
#define SHOAL_REPORT_CHECK_PRIVATE_H

#include "report/check.h"
#include "report/tree.h"

/* Longer paths count as missing. */
#define CHECK_PATH_MAX 2048

struct check {
	const char *root;
	bool newer;
	check_found_fn *found;
	void *self;
	int nr;
	int rc; /* the first error of reading */
	struct shoal_err *err;
};

/* Where in the tree this is: */
struct check_system {
	const char *division, *organization, *system;
	struct yaml_node *description; /* systems/NAME.yaml, or NULL */
};

void check_find(struct check *c, const char *rule, const char *path, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* The names in a directory; none after an error. Release them. */
struct tree_names check_list(struct check *c, const char *path);

/* Whether a directory has the file or directory @name. */
bool check_has(const char *dir, const char *name);

/* The path of @name in @dir; "" if it is too long. */
void check_path(char path[CHECK_PATH_MAX], const char *dir, const char *name);

/* Check the leaves of training/MODEL, in @dir. */
void check_model(struct check *c, const struct check_system *s, const char *model, const char *dir);

#endif
