/*
 * yaml.h - a YAML file as a small tree that can be modified: overrides replace parts of it.
 *
 * Aliases and merge keys ("<<") are expanded on reading, duplicate keys are refused. Every node has
 * its position in the file. A file is limited to 1 MiB, 20,000 nodes and 32 levels, so that a
 * malicious one (aliases of aliases of aliases) does no harm.
 */
#ifndef SHOAL_WORKLOAD_YAML_H
#define SHOAL_WORKLOAD_YAML_H

#include "base/err.h"

#define YAML_BYTES_MAX (1u << 20)

enum yaml_node_kind { YAML_SCALAR, YAML_MAP, YAML_LIST };

struct yaml_node {
	enum yaml_node_kind kind;
	char *key;          /* in a map, otherwise NULL */
	char *text;         /* of a scalar */
	bool quoted;        /* "off" is a string, off may be a boolean */
	bool used;          /* a key has used it */
	int line, column;   /* from 1; 0 if it comes from an override */
	const char *origin; /* the file, or the text of the override. Lent */
	struct yaml_node *child, *next;
};

/*
 * Parse @len bytes of YAML, called @origin in messages: lent, and must outlive the tree. An empty
 * document is an empty scalar.
 */
int yaml_parse(const char *text, size_t len, const char *origin, bool override,
	       struct yaml_node **ret_root, struct shoal_err *err) MUST_USE;
struct yaml_node *yaml_free(struct yaml_node *node);

/* Whether it is "", "~" or "null", not quoted. */
bool yaml_node_is_null(const struct yaml_node *node);

/* The node at a path such as "dataset.num_files_train"; NULL if there is none. */
struct yaml_node *yaml_find(struct yaml_node *root, const char *path);

/* The child @key of a map; NULL if there is none. */
struct yaml_node *yaml_node_child(struct yaml_node *map, const char *key, size_t len);

/*
 * Put @value at @path, replacing the node there. The tree owns @value, or it is freed on failure.
 */
int yaml_put(struct yaml_node *root, const char *path, struct yaml_node *value,
	     struct shoal_err *err) MUST_USE;

/* Replace "${dataset.format}" and "${oc.env:NAME,default}" in all scalars by their values. */
int yaml_interpolate(struct yaml_node *root, struct shoal_err *err) MUST_USE;

/* Write "FILE:LINE:COLUMN: words", or "override 'KEY': words". */
void yaml_node_message(const struct yaml_node *node, struct shoal_err *err, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* Whether a message is such a one of an override. */
bool yaml_message_is_of_override(const char *message);

/* As above, and return -EINVAL; a macro, so that analysers see that an error is returned. */
#define yaml_node_fail(node, err, ...)                         \
	({                                                     \
		yaml_node_message((node), (err), __VA_ARGS__); \
		-EINVAL;                                       \
	})

/* The same position as text. */
void yaml_node_where(const struct yaml_node *node, char *buf, size_t cap);

#endif
