/*
 * list.h - a list: a stream of entries in bytewise order of their names, pulled by its consumer.
 *
 * A source (a directory tree, a bucket, a catalog, several lists merged) is a structure that begins
 * with struct shoal_list, and a table of functions. Selection, the limit and the end are the same
 * for all, in list.c.
 */
#ifndef SHOAL_LIST_LIST_H
#define SHOAL_LIST_LIST_H

#include <pthread.h>
#include <regex.h>

#include "base/err.h"
#include "base/etag.h"
#include "index/filter.h"
#include "store/store.h"

/* An entry of a source. All lent until its next step. */
struct list_entry {
	const uint8_t *name;
	size_t len;
	uint64_t size; /* or SHOAL_SIZE_UNKNOWN */
	uint64_t samples;
	const struct etag *etag; /* NULL: none */
	uint64_t id;             /* id in a catalog; entries of a store are numbered by list.c */
};

struct list_ops {
	/* Step: 1 and an entry, 0 at the end, or an error. */
	int (*next)(struct shoal_list *list, struct list_entry *ret_entry, struct shoal_err *err);
	/* End threads and free everything except what is in struct shoal_list. */
	void (*close)(struct shoal_list *list);
};

/* Which entries to deliver, prepared: select.c. */
struct list_select {
	struct shoal_select ask; /* its pointers are lent */
	struct index_filter filter;
	bool filtered; /* the source has applied the patterns */
	bool has_regex;
	regex_t regex;
	uint64_t from, to;          /* hashes; to is inclusive */
	uint64_t nr_shards, shard;  /* by hash; 0: no sharding */
	struct shoal_cursor *names; /* of ask.names */
	const char *next_name;      /* the name at the cursor; lent by it, NULL: the end */
	size_t next_len;
};

struct shoal_list {
	const struct list_ops *ops;
	struct list_select select;
	struct shoal_list_info info;
	char *root;                 /* of the info */
	struct store *store;        /* of the source, which owns it; NULL: a catalog */
	bool has_ids;               /* entries have the sizes of their catalog */
	const int *stop;            /* may be NULL */
	int (*waiting)(void *self); /* see shoal_list_set_waiting(); or NULL */
	void *waiting_self;
	uint64_t asked;    /* when it was last called, by the monotonic clock */
	uint64_t nr_steps; /* of the source */
	uint64_t nr;       /* delivered */
	int ended;         /* 1: at the end; or the error that ended it */
	struct shoal_entry entry;
	char etag[SHOAL_ETAG_MAX + 1];
	char name[SHOAL_NAME_MAX + 1]; /* name of the entry, with the NUL that sources lack */
};

/* ---- All sources ---- */

/* Set what all sources have in common. @list is zeros; it must be closed even after a failure. */
int list_init(struct shoal_list *list, const struct list_ops *ops, const char *root,
	      const struct shoal_select *select, struct shoal_err *err) MUST_USE;

/* Step as shoal_list_next(), with the entry as the source has it. The name ends with a NUL. */
int list_step(struct shoal_list *list, struct list_entry *ret_entry,
	      struct shoal_err *err) MUST_USE;

/* Called by the consumer repeatedly: -ECANCELED if the user wants to stop. */
int list_check_stop(struct shoal_list *list, struct shoal_err *err) MUST_USE;

/* ---- Selection: select.c ---- */

int list_select_init(struct list_select *s, const struct shoal_select *ask,
		     const struct shoal_list_info *info, struct shoal_err *err) MUST_USE;
void list_select_release(struct list_select *s);

enum list_verdict { LIST_SKIP, LIST_TAKE, LIST_END };

/* Whether to deliver @e, whose name ends with a NUL: an enum list_verdict, or an error. */
int list_select_entry(struct list_select *s, const struct list_entry *e,
		      struct shoal_err *err) MUST_USE;

/*
 * Whether names that begin with @prefix can be within the bounds. LIST_END if these and all later
 * names are past the end.
 */
enum list_verdict list_select_bounds(const struct list_select *s, const char *prefix, size_t len);

/* ---- Sources of stores ---- */

/* Memory limits, which tests lower. */
struct list_limits {
	size_t directory; /* a directory's entries in memory, in bytes; larger ones are sorted in a
			     file */
	size_t ahead;     /* directories listed ahead, in bytes */
	size_t sorter;    /* memory to sort a directory that is too large, in bytes */
	size_t interval;  /* entries of a bucket's interval that are listed ahead */
};

extern const struct list_limits list_default_limits;

/* Take over @store, even on failure. Everything else is lent until the list is closed. */
int list_tree_open(struct store *store, const struct shoal_list_options *options,
		   const struct list_limits *limits, struct shoal_list **ret_list,
		   struct shoal_err *err) MUST_USE;
int list_bucket_open(struct store *store, const struct shoal_list_options *options,
		     const struct list_limits *limits, struct shoal_list **ret_list,
		     struct shoal_err *err) MUST_USE;

/* Called by the sinks of trees and buckets for an entry that cannot be listed. */
int list_trouble(const struct shoal_list_options *options, pthread_mutex_t *warn_lock, int rc,
		 struct shoal_err *why);

/* shoal_list_catalog() of all names, each with @folder, of @len bytes and with its slash, before
 * it. */
int list_catalog_below(const struct shoal_catalog *cat, const char *folder, size_t len,
		       struct shoal_list **ret_list, struct shoal_err *err) MUST_USE;

/* shoal_list_open() for an open store, with other limits. */
int list_store_open(struct store *store, const struct shoal_list_options *options,
		    const struct list_limits *limits, struct shoal_list **ret_list,
		    struct shoal_err *err) MUST_USE;

#endif
