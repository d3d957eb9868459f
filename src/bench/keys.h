/* keys.h - every key of a workload file: what it may be, and where it goes. Private to the room. */
#ifndef SHOAL_BENCH_KEYS_H
#define SHOAL_BENCH_KEYS_H

#include "bench/tree.h"
#include "bench/workload.h"

enum bench_key_type {
	KEY_ANY,         /* not looked into; kept as it is for printing */
	KEY_BOOL,        /* bool */
	KEY_COUNT,       /* uint64_t, from min to max */
	KEY_COUNT_OR_NO, /* the same, and -1 for none, which becomes 0 */
	KEY_REAL,        /* double, from min to max */
	KEY_TEXT,        /* char * */
	KEY_WORD,        /* an enumeration of int's size: its number in words */
	KEY_TIME,        /* struct bench_time */
	KEY_DEVIATION,   /* double, of the struct bench_time at the same place */
	KEY_FOLDERS,     /* struct bench_subfolders */
};

/* Which commands take note of a key. */
enum bench_key_use {
	KEY_USED,
	KEY_LABEL, /* says what the workload is, and changes nothing here */
	KEY_IDLE,  /* not used yet: named in a warning where it is given */
};

struct bench_known {
	const char *path;
	enum bench_key_type type;
	enum bench_key_use use;
	size_t at; /* in struct bench_workload */
	double min, max;
	const char *const *words;  /* of KEY_WORD, ended by NULL */
	const char *const *others; /* words of DLIO that are not supported; may be NULL */
	const char *instead;       /* another spelling: the key it stands for */
};

extern const struct bench_known bench_keys[];
extern const size_t bench_nr_keys;

/* The key called @path; NULL when there is none. */
const struct bench_known *bench_key_find(const char *path);

/* Whether some key starts with @path and a dot. */
bool bench_key_is_section(const char *path);

/* The key most like @path, NULL when none is. */
const char *bench_key_nearest(const char *path);

/* The nearest of @nr words; NULL when none is near. */
const char *bench_nearest(const char *text, const char *const *words, size_t nr);

/* Read @node as @key says, into @w. */
int bench_key_read(const struct bench_known *key, struct bench_node *node, struct bench_workload *w,
		   struct shoal_err *err) SHOAL_MUST_USE;

/* Whether the section a key is in was switched off by workflow.checkpoint and so on. */
bool bench_key_is_off(const struct bench_known *key, const struct bench_workload *w);

/* Defaults of all keys, those of DLIO; texts are taken. */
int bench_workload_defaults(struct bench_workload *w, struct shoal_err *err) SHOAL_MUST_USE;

/* What single keys cannot know; then spreads. @warn may be NULL. */
int bench_workload_check(struct bench_workload *w, struct bench_node *root, bench_warn_fn *warn,
			 void *self, struct shoal_err *err) SHOAL_MUST_USE;

/* The whole as YAML, which the caller frees; @root has what keys without a field were given. */
int bench_workload_write(const struct bench_workload *w, struct bench_node *root, char **ret_yaml,
			 struct shoal_err *err) SHOAL_MUST_USE;

/* Numbers as YAML writes them: all of @text. -EINVAL, -ERANGE. */
int bench_parse_real(const char *text, double *ret_value) SHOAL_MUST_USE;
int bench_parse_count(const char *text, bool *ret_negative, uint64_t *ret_value) SHOAL_MUST_USE;

/* true, yes, on ... as YAML 1.1 has them. */
int bench_parse_bool(const char *text, bool *ret_value) SHOAL_MUST_USE;

/* Fit @spread to a mean and a deviation of record lengths. False when it is too wide. */
bool bench_spread_fit(double mean, double stdev, struct bench_spread *spread) SHOAL_MUST_USE;

#endif
