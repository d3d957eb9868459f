/*
 * tree.h - a YAML file as a small tree that can be changed: overrides replace parts of it.
 *
 * Aliases and merge keys ("<<") are copied out when it is read, duplicate keys are refused. Every
 * node knows where it was written. A file has 1 MiB, 20,000 nodes and 32 levels at the most, so
 * that one that was made to hurt (aliases of aliases of aliases) cannot.
 */
#ifndef SHOAL_BENCH_TREE_H
#define SHOAL_BENCH_TREE_H

#include "base/err.h"

#define BENCH_YAML_MAX (1u << 20)

enum bench_node_kind { BENCH_SCALAR, BENCH_MAP, BENCH_LIST };

struct bench_node {
	enum bench_node_kind kind;
	char *key;          /* in a map, else NULL */
	char *text;         /* of a scalar */
	bool quoted;        /* "off" is a word, off may be a boolean */
	bool used;          /* some key took it */
	int line, column;   /* from 1; 0: the origin is an override */
	const char *origin; /* the file, or the override as it was given. Lent */
	struct bench_node *child, *next;
};

/*
 * Read @len bytes of YAML, called @origin in messages: lent, and to outlive the tree. An empty
 * document is an empty scalar.
 */
int bench_tree_parse(const char *text, size_t len, const char *origin, bool override,
		     struct bench_node **ret_root, struct shoal_err *err) SHOAL_MUST_USE;
struct bench_node *bench_tree_free(struct bench_node *node);

/* Whether it says nothing: "", "~" or "null", not quoted. */
bool bench_node_is_null(const struct bench_node *node);

/* The node at "dataset.num_files_train", each part of which is a key; NULL when there is none. */
struct bench_node *bench_tree_find(struct bench_node *root, const char *path);

/* The key of a map; NULL when there is none. */
struct bench_node *bench_node_child(struct bench_node *map, const char *key, size_t len);

/* Take @value, which becomes the tree's or is freed, in at @path in place of what was there. */
int bench_tree_put(struct bench_node *root, const char *path, struct bench_node *value,
		   struct shoal_err *err) SHOAL_MUST_USE;

/* Replace "${dataset.format}" and "${oc.env:NAME,default}" in all scalars by what they stand for.
 */
int bench_tree_interpolate(struct bench_node *root, struct shoal_err *err) SHOAL_MUST_USE;

/* "FILE:LINE:COLUMN: words", or "override 'KEY': words". */
void bench_node_say(const struct bench_node *node, struct shoal_err *err, const char *fmt, ...)
	SHOAL_PRINTF(3, 4);

/* The same, and -EINVAL; a macro, so that analysers see that it is an error. */
#define bench_node_fail(node, err, ...)                     \
	({                                                  \
		bench_node_say((node), (err), __VA_ARGS__); \
		-EINVAL;                                    \
	})

/* The same position as text. */
void bench_node_where(const struct bench_node *node, char *buf, size_t cap);

#endif
