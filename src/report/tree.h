/* tree.h - parts of a tree of results (layout.h): its directories, documents and code. */
#ifndef SHOAL_REPORT_TREE_H
#define SHOAL_REPORT_TREE_H

#include "workload/yaml.h"

/* Names in a directory, sorted as bytes, without "." and "..". */
struct tree_names {
	size_t nr;
	struct tree_name {
		char *name;
		bool dir;
	} * all;
};

/* A directory that does not exist has no names. Release them in any case. */
int tree_list(const char *dir, struct tree_names *ret_names, struct shoal_err *err) MUST_USE;
void tree_names_release(struct tree_names *names);

/* Whether the name of a leaf is YYYYMMDD_HHMMSS; its seconds since 1970 in UTC. */
bool tree_leaf_time(const char *name, double *ret_seconds);

/*
 * The JSON or YAML document in a file. -ENOENT: there is no such file. -EINVAL: it is malformed,
 * not a map, or larger than YAML_BYTES_MAX. Free it with yaml_free(). @path must outlive it.
 */
int tree_load(const char *path, struct yaml_node **ret_root, struct shoal_err *err) MUST_USE;

/* Scalars at a path of a document, which may be NULL; @missing if there is none. */
const char *tree_text(struct yaml_node *root, const char *path, const char *missing);
double tree_number(struct yaml_node *root, const char *path, double missing);

/* The MD5 of a tree of code ("md5-tree-v2"): every path and content, sorted by path. */
int tree_code_hash(const char *dir, char ret_hex[33], struct shoal_err *err) MUST_USE;

/* Make such a tree, with a file that names the program that ran, if there is none. */
int tree_write_code(const char *dir, struct shoal_err *err) MUST_USE;

/*
 * Newer trees share their code: TREE_POOL beside the divisions has a directory for each tree of
 * code, named by its hash, and the file TREE_POOL_MARK. Each leaf names the hash of its code in the
 * file TREE_POINTER: "md5-tree-v2:" and 32 digits.
 */
#define TREE_POOL           "code-images"
#define TREE_POOL_MARK      ".mlps-image-pool"
#define TREE_POINTER        ".mlps-code-image"
#define TREE_POINTER_PREFIX "md5-tree-v2:"

/* The name in a pool of the code with this hash: "code-" and the first eight digits. */
struct tree_code_name {
	char text[16];
};
struct tree_code_name tree_code_name(const char *hex);

/* The hash of what tree_write_code() writes. */
void tree_own_code_hash(char ret_hex[33]);

/* Write results.json beside the leaf of a run: a row for each leaf there. */
int tree_write_rows(const char *leaf, struct shoal_err *err) MUST_USE;

#endif
