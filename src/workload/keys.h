/*
 * keys.h - every key of a workload file: its type, and where its value goes. Private to the room.
 */
#ifndef SHOAL_WORKLOAD_KEYS_H
#define SHOAL_WORKLOAD_KEYS_H

#include "workload/workload.h"
#include "workload/yaml.h"

enum workload_key_type {
	KEY_ANY,         /* not parsed; kept for printing */
	KEY_BOOL,        /* bool */
	KEY_COUNT,       /* uint64_t, from min to max */
	KEY_COUNT_OR_NO, /* the same, or -1 for none, which becomes 0 */
	KEY_REAL,        /* double, from min to max */
	KEY_TEXT,        /* char * */
	KEY_WORD,        /* an enumeration of int's size: index into words */
	KEY_TIME,        /* struct workload_time */
	KEY_DEVIATION,   /* double, of the struct workload_time at the same offset */
	KEY_FOLDERS,     /* struct workload_subfolders */
	KEY_COLUMNS,     /* struct workload_columns, without its rows */
};

/* Which commands use a key. */
enum workload_key_use {
	KEY_USED,
	KEY_LABEL,  /* describes the workload, and has no effect here */
	KEY_UNUSED, /* not used yet: a warning names it if it is given */
};

struct workload_key_spec {
	const char *path;
	enum workload_key_type type;
	enum workload_key_use use;
	size_t at; /* offset in struct workload */
	double min, max;
	const char *const *words;       /* for KEY_WORD, terminated by NULL */
	const char *const *unsupported; /* words of DLIO that are not supported; may be NULL */
	const char *alias_of;           /* alternative spelling: the key it stands for */
};

extern const struct workload_key_spec workload_keys[];
extern const size_t workload_nr_keys;

/* The key called @path; NULL if it is unknown. */
const struct workload_key_spec *workload_key_find(const char *path);

/* Whether some key starts with @path and a dot. */
bool workload_key_is_section(const char *path);

/* The key most similar to @path; NULL if none is similar. */
const char *workload_key_nearest(const char *path);

/* Parse @node as the type of @key, into @w. */
int workload_key_read(const struct workload_key_spec *key, struct yaml_node *node,
		      struct workload *w, struct shoal_err *err) MUST_USE;

/* Parse a list of columns into a struct workload_columns: see columns.c. */
int workload_read_columns(const struct workload_key_spec *key, struct yaml_node *node,
			  struct workload_columns *columns, struct shoal_err *err) MUST_USE;

/* Compute the table of a workload whose format has one, and its record length if none is given. */
int workload_fit_table(struct workload *w, struct yaml_node *root, workload_warn_fn *warn,
		       void *self, struct shoal_err *err) MUST_USE;

/* Whether the section of a key has no effect, such as evaluation without workflow.evaluation. */
bool workload_key_is_off(const struct workload_key_spec *key, const struct workload *w);

/* Set the defaults of all keys, which are DLIO's; strings are duplicated. */
int workload_defaults(struct workload *w, struct shoal_err *err) MUST_USE;

/* Check what involves several keys; then fit the spreads. @warn may be NULL. */
int workload_check(struct workload *w, struct yaml_node *root, workload_warn_fn *warn, void *self,
		   struct shoal_err *err) MUST_USE;

/*
 * The whole workload as YAML, which the caller frees; @root has the values of keys without a field.
 */
int workload_write(const struct workload *w, struct yaml_node *root, char **ret_yaml,
		   struct shoal_err *err) MUST_USE;

/* The tree as it is, below "workload:"; the caller frees it. */
int workload_write_asked(const struct yaml_node *root, char **ret_yaml,
			 struct shoal_err *err) MUST_USE;

/* Numbers in YAML's syntax: all of @text. -EINVAL, -ERANGE. */
int workload_parse_real(const char *text, double *ret_value) MUST_USE;
int workload_parse_count(const char *text, bool *ret_negative, uint64_t *ret_value) MUST_USE;

/* true, yes, on, ...: the booleans of YAML 1.1. */
int workload_parse_bool(const char *text, bool *ret_value) MUST_USE;

/* Fit @spread to a mean and a deviation of record lengths. False if the deviation is too large. */
bool workload_spread_fit(double mean, double stdev, struct workload_spread *spread) MUST_USE;

#endif
