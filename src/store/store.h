/*
 * store.h - the one table of operations that listing, reading and writing go through.
 *
 * A store is a place with a URI that holds named files or objects: a directory tree, a bucket, or
 * the null store. Names are relative to the URI: 1 to SHOAL_NAME_MAX bytes of any value but NUL. If
 * they are paths, they do not start with a slash and have no ".." between slashes. All operations
 * may be called by any thread, on the same store at the same time; a writer belongs to one thread
 * at a time.
 *
 * A backend embeds struct store as its first member. An operation that is NULL in its table returns
 * -ENOTSUP with a message. Callers use the functions below, not the table: these check names and
 * keep a writer's first error, so that no backend has to.
 */
#ifndef SHOAL_STORE_STORE_H
#define SHOAL_STORE_STORE_H

#include "base/err.h"
#include "base/etag.h"

/* What a store is like: known for a kind from a URI alone (uri.h), and for every open store. */
struct store_traits {
	bool files;   /* in this machine's file systems: paths, descriptors, the page cache */
	bool objects; /* on a server: objects are written as a whole, and there is no page cache */
	bool synthetic;   /* synthetic: every name exists, with as many bytes as are read */
	bool directories; /* it is listed by directories, which have modification times */
	bool etags;       /* listings have ETags, and reads can require them */
	bool any_name;    /* leading slashes and ".." have no meaning, and are allowed in names */
	bool instant;     /* reads take no time: several threads are useless */
};

struct store {
	const struct store_ops *ops;
	struct store_traits traits;
	char *uri; /* as in errors and catalogs; the backend's close frees it */
};

struct store_stat {
	uint64_t size;
	bool is_dir;
};

/* A file or object that is fetched as a whole. */
struct store_object {
	uint64_t size;
	char version[80]; /* its version, an ETag; "": the store has none */
	/* Called now and then by store_fetch(), with the bytes that there are; or NULL. */
	void (*progress)(void *self, uint64_t nr_bytes);
	void *self;
};

/* How much can still be written. */
struct store_space {
	uint64_t bytes;
	uint64_t names; /* UINT64_MAX if the file system does not report it */
};

/* ---- Listing ---- */

/* An entry that was found. The name is lent. */
struct store_entry {
	const char *name;
	size_t len;
	uint64_t size;           /* SHOAL_SIZE_UNKNOWN if it was not requested */
	const struct etag *etag; /* NULL if it was not requested. Lent */
};

/* The most entries per call: a whole directory, unless it is large. */
#define STORE_FOUND_MAX 2048u

/* Why something that was found is not listed. */
enum store_skip {
	STORE_SKIP_VANISHED, /* removed between being found and being examined */
	STORE_SKIP_LINK,     /* a symbolic link, without `follow`; or a dangling one */
	STORE_SKIP_LOOP,     /* a link to a directory above it */
	STORE_SKIP_SPECIAL,  /* a socket, a pipe or a device */
	STORE_SKIP_OTHER_FS, /* a directory of another file system, with `one_fs` */
	STORE_SKIP_FILTERED, /* excluded by the filter */
	STORE_NR_SKIPS,
};

/* A directory that is about to be read. */
struct store_dir {
	const char *name; /* "" is the root; lent */
	size_t len;
	uint64_t changed;        /* when an entry was last added or removed: ns since 1970 */
	uint64_t moved;          /* when that happened, or it was renamed, or its mode changed */
	bool coarse;             /* from a clock that may count in steps of one or two seconds */
	uint64_t nr_directories; /* entries in it, or UINT64_MAX if the file system does not report
				    it */
};

/*
 * The receiver of a listing. A listing is split into units: a directory, an interval of keys,
 * names whose sizes are missing. Each unit is listed by one call of store_list(), which may add
 * further units for any thread or rank to take.
 */
struct store_sink {
	/* Take up to STORE_FOUND_MAX entries, which are a complete directory if `whole` is set.
	 * 0 to continue, or an error, which ends the listing of the unit. */
	int (*found)(struct store_sink *sink, const struct store_entry *entries, size_t nr,
		     struct shoal_err *err);
	/* Take a further unit: bytes that only the store interprets. */
	int (*add_unit)(struct store_sink *sink, const void *unit, size_t len,
			struct shoal_err *err);
	/* Something cannot be listed; @err has the message. 0 to continue without it, or @rc to
	 * end. */
	int (*trouble)(struct store_sink *sink, int rc, struct shoal_err *err);
	/*
	 * 1: the contents of this directory are known without reading it, and the sink has taken
	 * them; 0: read it; 2: read it and everything below without asking; or an error. NULL:
	 * read all directories.
	 */
	int (*is_cached)(struct store_sink *sink, const struct store_dir *dir,
			 struct shoal_err *err);
	/*
	 * What remains of the unit being listed, once all entries found before are taken: a
	 * restart may list this instead. A unit also shrinks when a part of it was passed to
	 * add_unit(). NULL: not used.
	 */
	void (*remaining)(struct store_sink *sink, const void *unit, size_t len);
	/* How many other threads or ranks are idle: work should be split for as many. */
	unsigned (*nr_idle)(struct store_sink *sink);
	/* Whether to examine a file, or read a directory, of this name. NULL: all of them. */
	bool (*wanted)(struct store_sink *sink, const char *name, size_t len, bool is_dir);
	bool whole;      /* set by stores that have directories */
	const int *stop; /* the listing ends with -ECANCELED once it is not 0. May be NULL */
	uint64_t skipped[STORE_NR_SKIPS];
	uint64_t nr_directories; /* directories read completely, if the store has directories */
	uint64_t nr_foreign;     /* of these, on other file systems than the root's */
	/* The store's buffers, kept from unit to unit. A sink belongs to one thread at a time. */
	void *scratch;
	void (*free_scratch)(void *scratch);
};

#define STORE_PREFIXES 8u

/*
 * Files of one directory that are not listed: those called @name, or beginning with a prefix.
 * The directory is identified by device and inode and not by its path, because links and mounts
 * may lead to it by several.
 */
struct store_hidden {
	uint64_t dev, ino;           /* of the directory */
	uint64_t file_dev, file_ino; /* of the file @name, for links to it; 0: it does not exist */
	const char *name;            /* or NULL; lent, like the prefixes */
	const char *prefix[STORE_PREFIXES]; /* up to the first NULL */
};

struct store_list_options {
	const struct store_hidden *hidden; /* lent. For stores with directories */
	unsigned nr_hidden;                /* up to 32 */
	bool sizes;                        /* request sizes: many times the cost of the names */
	bool follow;                       /* symbolic links are followed */
	bool one_fs;                       /* stay on the file system of the root */
	bool etags;                        /* of objects; other stores have none */
};

/* The requests to a server so far. */
struct store_requests {
	uint64_t nr, nr_retries, nr_throttled;
	uint64_t busy_ns; /* from sending to the answer, summed */
};

#define STORE_UNIT_MAX (60u << 10) /* bytes: it travels in one message, with others */

/* ---- The table ---- */

/* A file or object being written: its name does not exist before commit. */
struct store_writer {
	struct store *store;
	int rc; /* 0, or the error of the first failed write: kept by store_write() */
};

struct store_ops {
	const char *kind; /* "posix": for messages */
	void (*close)(struct store *s);
	int (*stat)(struct store *s, const char *name, struct store_stat *ret_stat,
		    struct shoal_err *err);
	/* Read up to @len bytes from @off. Returns how many, fewer only at the end. */
	int64_t (*read)(struct store *s, const char *name, uint64_t off, void *buf, size_t len,
			struct shoal_err *err);
	/* The same if it still has this ETag, or -ESTALE: see store_read_if(). */
	int64_t (*read_if)(struct store *s, const char *name, const struct etag *etag, uint64_t off,
			   void *buf, size_t len, struct shoal_err *err);
	/* See store_examine() and store_fetch(). NULL: they use stat and read. */
	int (*examine)(struct store *s, const char *name, const int *stop,
		       struct store_object *ret_object, struct shoal_err *err);
	int (*fetch)(struct store *s, const char *name, const struct store_object *object, int fd,
		     const int *stop, struct shoal_err *err);
	int (*create)(struct store *s, const char *name, struct store_writer **ret_writer,
		      struct shoal_err *err);
	int (*write)(struct store_writer *w, const void *data, size_t len, struct shoal_err *err);
	int (*commit)(struct store_writer *w, struct shoal_err *err); /* frees, even on failure */
	void (*abort)(struct store_writer *w);                        /* frees */
	int (*remove)(struct store *s, const char *name, struct shoal_err *err);
	int (*sync)(struct store *s, struct shoal_err *err);
	int (*space)(struct store *s, struct store_space *ret_space, struct shoal_err *err);
	/* Of requests that have ended. NULL: the store has no server. */
	void (*requests)(struct store *s, struct store_requests *ret_requests);
	/* Write the unit that lists directory @name to @unit, of STORE_UNIT_MAX bytes. Returns
	 * its length. */
	size_t (*unit)(struct store *s, const char *name, size_t len, void *unit);
	/*
	 * For a unit that is an interval of names: everything found by it, or by any unit split off
	 * from it, comes after *@ret_name. For directory D that is "D/". False: the unit is a part
	 * of a directory, which is in no order. NULL: no unit is an interval.
	 */
	bool (*unit_start)(struct store *s, const void *unit, size_t len, const char **ret_name,
			   size_t *ret_len);
	/* As unit_start: all that a unit finds is at most *@ret_name. False: it has no end. */
	bool (*unit_end)(struct store *s, const void *unit, size_t len, const char **ret_name,
			 size_t *ret_len);
	/* Write the unit of the names after @after up to @upto (NULL: all) to @unit, of
	 * STORE_UNIT_MAX bytes. Returns its length. NULL: units are not intervals of names. */
	size_t (*interval)(struct store *s, const char *after, size_t after_len, const char *upto,
			   size_t upto_len, void *unit);
	/*
	 * Write the unit of part @k (from 0) of @n roughly equal parts of the store to @unit, of
	 * STORE_UNIT_MAX bytes. All callers get the same parts.
	 */
	int (*shard)(struct store *s, unsigned k, unsigned n, const int *stop, void *unit,
		     size_t *ret_len, struct shoal_err *err);
	/* List one unit; @len 0 is all of the store. */
	int (*list)(struct store *s, const struct store_list_options *options, const void *unit,
		    size_t len, struct store_sink *sink, struct shoal_err *err);
};

/*
 * Open the store at @uri (see uri.h), which must exist:
 *
 * "file:///data" or a path: a directory. The URI's path is used as it is, without %-decoding.
 * "s3://bucket/prefix": the objects whose keys start with "prefix/"; see s3/config.h for the server
 * and the access keys. The bucket is not checked for existence.
 * "null:size=300000,delay_us=100": every name has that many generated bytes (see null/null.c), read
 * after that delay; written bytes are discarded. Both options may be left out; the default is 0.
 * With "at_once=8" eight reads are served at a time, as by a device with so many channels; further
 * ones wait. With "fill=none" nothing is generated: a read takes no time and leaves the buffer
 * unchanged.
 *
 * @config has the server's address and keys (NULL: all from the environment). Lent for the call.
 */
int store_open(const char *uri, const struct shoal_store_config *config, struct store **ret_store,
	       struct shoal_err *err) MUST_USE;
struct store *store_close(struct store *s); /* @s may be NULL */

/* The same, after creating the directory and its missing parents. */
int store_make(const char *uri, const struct shoal_store_config *config, struct store **ret_store,
	       struct shoal_err *err) MUST_USE;

/* Whether it is a valid name: for callers that pass one to a store in another way. */
int store_check_name(const char *name, struct shoal_err *err) MUST_USE;
int store_check_name_for(const struct store *s, const char *name, struct shoal_err *err) MUST_USE;

int store_stat(struct store *s, const char *name, struct store_stat *ret_stat,
	       struct shoal_err *err) MUST_USE;
int64_t store_read(struct store *s, const char *name, uint64_t off, void *buf, size_t len,
		   struct shoal_err *err) MUST_USE;

/* store_read() of an object that has this ETag, in the stored form; -ESTALE: it changed. */
int64_t store_read_if(struct store *s, const char *name, const struct etag *etag, uint64_t off,
		      void *buf, size_t len, struct shoal_err *err) MUST_USE;

/*
 * Fetch all of @name: first its size and version, or the reason why it is refused. Then all of
 * that version into the file @fd from its start; -ESTALE: it has changed. Both end with
 * -ECANCELED once *@stop (may be NULL) is not 0.
 */
int store_examine(struct store *s, const char *name, const int *stop,
		  struct store_object *ret_object, struct shoal_err *err) MUST_USE;
int store_fetch(struct store *s, const char *name, const struct store_object *object, int fd,
		const int *stop, struct shoal_err *err) MUST_USE;

int store_create(struct store *s, const char *name, struct store_writer **ret_writer,
		 struct shoal_err *err) MUST_USE;

/* After a failure the file cannot be completed any more: commit fails then, and removes it. */
int store_write(struct store_writer *w, const void *data, size_t len,
		struct shoal_err *err) MUST_USE;

/*
 * Publish it under its name, replacing what was there. On failure nothing of it is left, and the
 * old file stays. It is not synced to the disk: store_sync() does that once, for many.
 * Directories created by create stay in any case.
 */
int store_commit(struct store_writer *w, struct shoal_err *err) MUST_USE;
void store_abort(struct store_writer *w); /* @s may be NULL */
int store_remove(struct store *s, const char *name, struct shoal_err *err) MUST_USE;

/*
 * Ensure that everything committed by this machine is on the disk, as far as the store knows:
 * one call for many files. Returns at once if commits are durable (s3) or nothing is stored
 * (null).
 */
int store_sync(struct store *s, struct shoal_err *err) MUST_USE;

/* How much space is left. -ENOTSUP if that is not known. */
int store_space(struct store *s, struct store_space *ret_space, struct shoal_err *err) MUST_USE;

/* All zeros if the store has no server. */
struct store_requests store_requests(struct store *s);

/* @name has at most SHOAL_NAME_MAX bytes. 0 if the store has no directories. */
size_t store_unit(struct store *s, const char *name, size_t len, void *unit);

/* Whether units are directories; otherwise they are ranges of names, which are listed in order. */
static inline bool store_has_directories(struct store *s)
{
	uint8_t unit[16];

	return store_unit(s, "", 0, unit) > 0;
}

bool store_unit_start(struct store *s, const void *unit, size_t len, const char **ret_name,
		      size_t *ret_len);
bool store_unit_end(struct store *s, const void *unit, size_t len, const char **ret_name,
		    size_t *ret_len);

/* 0 if units of the store are not intervals of names. */
size_t store_interval(struct store *s, const char *after, size_t after_len, const char *upto,
		      size_t upto_len, void *unit);
int store_shard(struct store *s, unsigned k, unsigned n, const int *stop, void *unit,
		size_t *ret_len, struct shoal_err *err) MUST_USE;
int store_list(struct store *s, const struct store_list_options *options, const void *unit,
	       size_t len, struct store_sink *sink, struct shoal_err *err) MUST_USE;

/* For backends without directories: whether @sink wants @name and every directory part of it. */
bool store_is_wanted(struct store_sink *sink, const char *name, size_t len);

#endif
