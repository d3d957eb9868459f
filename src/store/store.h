/*
 * store.h - the one table of operations that listing, reading and writing go through.
 *
 * A store is a place with a URI under which things have names: a directory tree, a bucket, or
 * nothing at all. Names are relative to the URI: 1 to SHOAL_NAME_MAX bytes but NUL, of any
 * encoding; where they are paths, without a slash in front and without a ".." between slashes. All
 * operations may be called by any thread, on the same store at the same time; a writer belongs to
 * one thread at a time.
 *
 * A backend embeds struct shoal_store as its first member. What it leaves NULL in its table is
 * answered with -ENOTSUP and words. Callers use the functions below, not the table: they check
 * names and keep a writer's first error, so that no backend need do it again.
 */
#ifndef SHOAL_STORE_STORE_H
#define SHOAL_STORE_STORE_H

#include "base/err.h"
#include "base/etag.h"

struct shoal_store {
	const struct store_ops *ops;
	char *uri;    /* as errors and catalogs name it; the backend's close frees it */
	bool instant; /* reads take no time: to have them in several threads is no use */
};

struct store_stat {
	uint64_t size;
	bool is_dir;
};

/* What can still be written. */
struct store_space {
	uint64_t bytes;
	uint64_t names; /* UINT64_MAX where the file system does not tell */
};

/* ---- Listing ---- */

/* A thing that was found. The name is lent. */
struct store_entry {
	const char *name;
	size_t len;
	uint64_t size;                 /* SHOAL_SIZE_UNKNOWN where it was not asked for */
	const struct shoal_etag *etag; /* NULL where it was not asked for. Lent */
};

/* Most entries that are handed over at once: a directory, unless it is large. */
#define STORE_FOUND_MAX 2048u

/* What was met on the way and is not in the list. */
enum store_skip {
	STORE_SKIP_VANISHED, /* gone between being seen and being asked for */
	STORE_SKIP_LINK,     /* a symbolic link, without `follow`; or one that leads nowhere */
	STORE_SKIP_LOOP,     /* a link to a directory above it */
	STORE_SKIP_SPECIAL,  /* a socket, a pipe or a device */
	STORE_SKIP_OTHER_FS, /* a directory of another file system, with `one_fs` */
	STORE_SKIP_FILTERED, /* not wanted */
	STORE_NR_SKIPS,
};

/* A directory that is about to be read. */
struct store_dir {
	const char *name; /* "" is the root; lent */
	size_t len;
	uint64_t changed; /* when something was last added or removed: ns since 1970 */
	uint64_t moved;   /* when that happened, or it was itself renamed, or its mode changed */
	bool coarse;      /* by a clock that may count whole seconds, or two */
	uint64_t nr_directories; /* in it, or UINT64_MAX when the file system does not tell */
};

/*
 * Who takes what a listing finds. A listing is cut into units: a directory, a key range, names
 * whose sizes are missing. Each unit is listed by one call of store_list(); what it finds beyond
 * itself it hands back as further units, for any thread or any rank to take.
 */
struct store_sink {
	/* Take up to STORE_FOUND_MAX entries, which are all of a directory where `whole` is set. 0
	 * to go on, or an error, which ends the listing of the unit. */
	int (*found)(struct store_sink *sink, const struct store_entry *entries, size_t nr,
		     struct shoal_err *err);
	/* Take a further unit: bytes that mean something to the store only. */
	int (*more)(struct store_sink *sink, const void *unit, size_t len, struct shoal_err *err);
	/* Something cannot be listed, @err says what. 0 to go on without it, or @rc to end. */
	int (*trouble)(struct store_sink *sink, int rc, struct shoal_err *err);
	/*
	 * 1: what is in this directory is known without reading it, and the sink has taken it; 0:
	 * read it; 2: read it and all below without asking; or an error. NULL: read all of them.
	 */
	int (*known)(struct store_sink *sink, const struct store_dir *dir, struct shoal_err *err);
	/*
	 * What is left to do of the unit being listed, once all that was found before is taken:
	 * whoever has to list it again may list this instead. A unit shrinks also when a part of it
	 * was handed to more(). NULL: nobody asks.
	 */
	void (*left)(struct store_sink *sink, const void *unit, size_t len);
	/* How many others have nothing to do: work that can be cut should be, for as many. */
	unsigned (*hungry)(struct store_sink *sink);
	/* Whether to look at a file, or into a directory, of this name. NULL: at all of them. */
	bool (*wanted)(struct store_sink *sink, const char *name, size_t len, bool is_dir);
	bool whole;      /* set by stores that have directories */
	const int *stop; /* ends with -ECANCELED once it is not 0. May be NULL */
	uint64_t skipped[STORE_NR_SKIPS];
	uint64_t nr_directories; /* read to their end, where the store has directories */
	uint64_t nr_foreign;     /* of them on other file systems than the root's */
	/* The store's buffers, kept from unit to unit. A sink belongs to one thread at a time. */
	void *scratch;
	void (*free_scratch)(void *scratch);
};

#define STORE_PREFIXES 8u

/*
 * Files of one directory that are no part of what is listed: those called @name, or something that
 * begins with a prefix. The directory is known by what it is and not by its path, as links and
 * mounts may lead to it by several.
 */
struct store_hidden {
	uint64_t dev, ino;           /* of the directory */
	uint64_t file_dev, file_ino; /* of the file @name, for links to it; 0: it is not there */
	const char *name;            /* or NULL; lent, as the prefixes */
	const char *prefix[STORE_PREFIXES]; /* up to the first NULL */
};

struct store_list_options {
	const struct store_hidden *hidden; /* lent. For stores with directories */
	unsigned nr_hidden;                /* up to 32 */
	bool sizes;                        /* ask for sizes: many times the cost of the names */
	bool follow;                       /* symbolic links are what they lead to */
	bool one_fs;                       /* stay on the file system of the root */
	bool etags;                        /* of objects; other stores have none */
};

/* What was asked of a server so far. */
struct store_requests {
	uint64_t nr, nr_retries, nr_throttled;
	uint64_t busy_ns; /* from being sent to being answered, added up */
};

#define STORE_UNIT_MAX (60u << 10) /* bytes: it travels in one message, with others */

/* ---- The table ---- */

/* A thing being written: nothing is under its name before commit. */
struct store_writer {
	struct shoal_store *store;
	int rc; /* 0, or what the first failed write said: kept by store_write() */
};

struct store_ops {
	const char *kind; /* "posix" */
	bool any_name;    /* slashes in front and ".." mean nothing here, and are allowed */
	void (*close)(struct shoal_store *s);
	int (*stat)(struct shoal_store *s, const char *name, struct store_stat *ret_stat,
		    struct shoal_err *err);
	/* Up to @len bytes from @off on: how many, fewer only where the thing ends. */
	int64_t (*read)(struct shoal_store *s, const char *name, uint64_t off, void *buf,
			size_t len, struct shoal_err *err);
	/* The same of what still has this ETag, else -ESTALE: see store_read_if(). */
	int64_t (*read_if)(struct shoal_store *s, const char *name, const struct shoal_etag *etag,
			   uint64_t off, void *buf, size_t len, struct shoal_err *err);
	int (*create)(struct shoal_store *s, const char *name, struct store_writer **ret_writer,
		      struct shoal_err *err);
	int (*write)(struct store_writer *w, const void *data, size_t len, struct shoal_err *err);
	int (*commit)(struct store_writer *w, struct shoal_err *err); /* frees, also on failure */
	void (*abort)(struct store_writer *w);                        /* frees */
	int (*remove)(struct shoal_store *s, const char *name, struct shoal_err *err);
	int (*sync)(struct shoal_store *s, struct shoal_err *err);
	int (*space)(struct shoal_store *s, struct store_space *ret_space, struct shoal_err *err);
	/* Of requests that have ended. NULL: nothing is asked of a server. */
	void (*requests)(struct shoal_store *s, struct store_requests *ret_requests);
	/* The unit that lists directory @name, into @unit of STORE_UNIT_MAX bytes: its length. */
	size_t (*unit)(struct shoal_store *s, const char *name, size_t len, void *unit);
	/*
	 * Whether @unit lists all of one directory, and which: all names that it or any that follow
	 * from it finds lie below that. NULL: none does.
	 */
	bool (*unit_dir)(struct shoal_store *s, const void *unit, size_t len, const char **ret_name,
			 size_t *ret_len);
	/*
	 * The unit of part @k (from 0 on) of @n about equal parts of the store, into @unit of
	 * STORE_UNIT_MAX bytes: everybody who asks finds the same parts.
	 */
	int (*shard)(struct shoal_store *s, unsigned k, unsigned n, const int *stop, void *unit,
		     size_t *ret_len, struct shoal_err *err);
	/* List one unit; @len 0 is all of the store. */
	int (*list)(struct shoal_store *s, const struct store_list_options *options,
		    const void *unit, size_t len, struct store_sink *sink, struct shoal_err *err);
};

/*
 * Open the store at @uri, which must be there:
 *
 * "file:///data" or a path: a directory. The URI's path is taken as it is, without %-decoding.
 * "s3://bucket/prefix": the objects whose keys start with "prefix/"; see s3_config.h for whose keys
 * and which server. Whether it is there is not asked.
 * "null:size=300000,delay_us=100": every name has that many generated bytes (see null.c), read
 * after that delay; what is written is thrown away. Both options may be left out, and are 0 then.
 * With "fill=none" nothing is generated: a read takes no time, and brings whatever was there.
 */
int shoal_store_open(const char *uri, struct shoal_store **ret_store,
		     struct shoal_err *err) SHOAL_MUST_USE;
struct shoal_store *shoal_store_close(struct shoal_store *s); /* NULL is fine */

/* The same, after making a directory that is not there, with those above it. */
int shoal_store_make(const char *uri, struct shoal_store **ret_store,
		     struct shoal_err *err) SHOAL_MUST_USE;

/* Whether it is a name as above: for who passes one to a store by another way. */
int store_check_name(const char *name, struct shoal_err *err) SHOAL_MUST_USE;
int store_check_name_for(const struct shoal_store *s, const char *name,
			 struct shoal_err *err) SHOAL_MUST_USE;

int store_stat(struct shoal_store *s, const char *name, struct store_stat *ret_stat,
	       struct shoal_err *err) SHOAL_MUST_USE;
int64_t store_read(struct shoal_store *s, const char *name, uint64_t off, void *buf, size_t len,
		   struct shoal_err *err) SHOAL_MUST_USE;

/* store_read() of an object that has this ETag, which is one that is kept; -ESTALE: it changed. */
int64_t store_read_if(struct shoal_store *s, const char *name, const struct shoal_etag *etag,
		      uint64_t off, void *buf, size_t len, struct shoal_err *err) SHOAL_MUST_USE;
int store_create(struct shoal_store *s, const char *name, struct store_writer **ret_writer,
		 struct shoal_err *err) SHOAL_MUST_USE;

/* After a failure the thing cannot be completed any more: commit fails then, and removes it. */
int store_write(struct store_writer *w, const void *data, size_t len,
		struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Put it under its name, in place of what was there. On failure nothing of it is left, and what was
 * there stays. Not synced to the disk: whoever needs that asks the system once, for many.
 * Directories that create made stay in any case.
 */
int store_commit(struct store_writer *w, struct shoal_err *err) SHOAL_MUST_USE;
void store_abort(struct store_writer *w); /* NULL is fine */
int store_remove(struct shoal_store *s, const char *name, struct shoal_err *err) SHOAL_MUST_USE;

/*
 * All that was committed by this machine is on the disk, as far as the store knows: once for many
 * things. At once where commits are for good (s3) or nothing is kept (null).
 */
int store_sync(struct shoal_store *s, struct shoal_err *err) SHOAL_MUST_USE;

/* How much room there is. -ENOTSUP where that is not known. */
int store_space(struct shoal_store *s, struct store_space *ret_space,
		struct shoal_err *err) SHOAL_MUST_USE;

/* None where the store is no server's. */
struct store_requests store_requests(struct shoal_store *s);

/* @name has at most SHOAL_NAME_MAX bytes. 0 where the store has no directories. */
size_t store_unit(struct shoal_store *s, const char *name, size_t len, void *unit);
bool store_unit_dir(struct shoal_store *s, const void *unit, size_t len, const char **ret_name,
		    size_t *ret_len);
int store_shard(struct shoal_store *s, unsigned k, unsigned n, const int *stop, void *unit,
		size_t *ret_len, struct shoal_err *err) SHOAL_MUST_USE;
int store_list(struct shoal_store *s, const struct store_list_options *options, const void *unit,
	       size_t len, struct store_sink *sink, struct shoal_err *err) SHOAL_MUST_USE;

/* ---- Stores on stores, for tests ---- */

#define STORE_DELAY_MAX_US UINT64_C(3600000000) /* an hour */

enum store_op {
	STORE_STAT,
	STORE_READ,
	STORE_CREATE,
	STORE_WRITE,
	STORE_COMMIT,
	STORE_REMOVE,
	STORE_LIST,
	STORE_SYNC,
	STORE_NR_OPS,
};

/*
 * From the @nth call of @op on (counted from 1, over all threads), @count calls fail with @rc and
 * do not reach the store below; @count 0 is for ever. For STORE_LIST a call is a unit. Where more
 * than one fits, the first counts.
 */
struct store_fault {
	enum store_op op;
	uint64_t nth, count;
	int rc;
	size_t short_by; /* STORE_READ with rc 0: no error, but this many bytes fewer */
};

/* Take over @inner, which is closed with the new one; on failure it stays. @faults are copied. */
int store_fault_new(struct shoal_store *inner, const struct store_fault *faults, size_t nr,
		    struct shoal_store **ret_store, struct shoal_err *err) SHOAL_MUST_USE;

/* How many calls were failed or cut short so far: a sweep over @nth ends where it stays 0. */
uint64_t store_fault_fired(const struct shoal_store *s);

/* Every operation takes @delay_us longer, up to STORE_DELAY_MAX_US. @inner as above. */
int store_delay_new(struct shoal_store *inner, uint64_t delay_us, struct shoal_store **ret_store,
		    struct shoal_err *err) SHOAL_MUST_USE;

#endif
