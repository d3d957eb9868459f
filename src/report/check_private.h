/* check_private.h - shared by check.c, the directories; check_runs.c, the contents of leaves;
 * check_newer.c, check_stamp.c and check_manifest.c, the rules that came later. */
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
	bool has_pool; /* of code, for the organization that is being checked */
	char (*references)[33];
	size_t nr_references; /* the hashes of code that leaves refer to */
};

/* Where in the tree this is: */
struct check_system {
	const char *division, *organization, *system;
	struct yaml_node *description; /* systems/NAME.yaml, or NULL */
};

/* A directory of a run, of data generation or of datasize. */
struct check_leaf {
	char path[CHECK_PATH_MAX];
	const char *command, *model;
	char summary_path[CHECK_PATH_MAX],
		metadata_path[CHECK_PATH_MAX]; /* lent to the documents */
	struct yaml_node *summary, *metadata;  /* NULL: it cannot be read */
};

void check_find(struct check *c, const char *rule, const char *path, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* The names in a directory; none after an error. Release them. */
struct tree_names check_list(struct check *c, const char *path);

/* Whether a directory has the file or directory @name. */
bool check_has(const char *dir, const char *name);

/* The path of @name in @dir; "" if it is too long. */
void check_path(char path[CHECK_PATH_MAX], const char *dir, const char *name);

/* The hash that a tree of code names, which must be that of its content: findings of @rule. */
bool check_code_hash(struct check *c, const char *rule, const char *dir, char ret_said[33]);

/* Check the leaves of training/MODEL, in @dir. */
void check_model(struct check *c, const struct check_system *s, const char *model, const char *dir);

/* ---- Newer rules ---- */

/* Whether a directory at the top holds code. */
bool check_is_pool(const char *root, const char *name);

/* That there is a pool of code for the organization, whose directory is @dir. */
void check_has_pool(struct check *c, const char *organization, const char *dir);

/* The code in all pools, once all leaves were checked. */
void check_pools(struct check *c);

/* Where a leaf's code is, and what its provenance.json says. */
void check_leaf_newer(struct check *c, const struct check_system *s, const struct check_leaf *l);

/* provenance.json of a leaf, whose code has the hash @pointer, or "" if that is not known. */
void check_stamp(struct check *c, const struct check_system *s, const struct check_leaf *l,
		 const char *pointer);

/* The edition of the rules in the stamp of a leaf. False: there is no stamp that is whole. */
bool check_stamp_edition(const char *leaf, char *ret_edition, size_t cap);

/* submission.yaml and the tables of results of every organization. */
void check_manifests(struct check *c);

/* That training/MODEL, in @dir, has leaves of datasize. */
void check_datasize(struct check *c, const struct check_system *s, const char *model,
		    const char *dir);

/* Whether mlpstorage found out itself if data and results share a file system. */
bool check_separation(struct check *c, const char *leaf);

#endif
