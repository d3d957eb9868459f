/*
 * shoal.h - the public interface of libshoal.
 *
 * A catalog is a sealed, memory-mapped list of file names and sizes; an order is a pure function
 * from (seed, epoch, position) to a sample's id. Neither needs memory that grows with the number of
 * files, and both may be shared by any number of threads once they are open.
 *
 * Functions that can fail return 0 (or a count) or a negative errno, and write a message into the
 * caller's struct shoal_err, which may be NULL and is untouched on success. Outputs are named
 * ret_..., come last and are untouched on failure. The library never prints and never exits.
 *
 * Opening the first catalog installs a handler for SIGBUS, which turns reading past the end of a
 * file that shrank into -ESTALE; any other SIGBUS is passed to the handler that was installed
 * before. A program that installs its own handler afterwards loses that protection. Threads must
 * not block the signal.
 *
 * Until version 1.0 structures may get new fields; the library's soname changes with them.
 */
#ifndef SHOAL_H
#define SHOAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_API     __attribute__((visibility("default")))
#define SHOAL_CHECKED __attribute__((visibility("default"), warn_unused_result))

/*
 * A remedy for a failure, if its wording depends on how the caller names its parameters. The
 * library knows the remedy; the command and the Python package each have their own text for it. A
 * number is never reused for another remedy.
 */
enum shoal_hint {
	SHOAL_HINT_NONE = 0,
	/* Resources. */
	SHOAL_HINT_LESS_MEMORY = 10, /* allow it less memory */
	SHOAL_HINT_MORE_MEMORY = 11, /* allow it at least hint_value bytes of memory */
	SHOAL_HINT_TMP_DIR = 12,     /* free some space, or use another temporary directory */
	SHOAL_HINT_FREE_SPACE = 13,  /* free some space, and repeat the call to continue */
	SHOAL_HINT_SAME_CALL = 14,   /* repeat the call to continue where this one ended */
	/* Catalogs and how they are made. */
	SHOAL_HINT_ROOT = 20,             /* give the catalog's root by another name */
	SHOAL_HINT_NAMES_ONLY = 21,       /* lines of the list contain only names */
	SHOAL_HINT_NUL_ENDS = 22,         /* names of the list end in NUL bytes */
	SHOAL_HINT_SIZES = 23,            /* index again, with sizes */
	SHOAL_HINT_ETAGS = 24,            /* index again, with ETags */
	SHOAL_HINT_WHERE = 25,            /* name what to compare the catalog with */
	SHOAL_HINT_KEEP_GOING = 26,       /* leave out what cannot be read */
	SHOAL_HINT_SAMPLES_PER_FILE = 27, /* index again, with another number of samples per file */
	SHOAL_HINT_SORT_COLUMN = 28,      /* sort the column first */
	SHOAL_HINT_REPLACE = 29,          /* replace it although the check failed */
	SHOAL_HINT_REPEATED = 30,         /* choose which of several entries with one name counts */
	/* Reading. */
	SHOAL_HINT_SLOT = 40,        /* give the size of the largest sample */
	SHOAL_HINT_LARGER_SLOT = 41, /* room for hint_value bytes per sample, or read in pieces */
	SHOAL_HINT_IF_MATCH = 42,    /* do not compare ETags */
	/* S3. */
	SHOAL_HINT_ENDPOINT = 60,  /* name the server that is trusted */
	SHOAL_HINT_CA = 61,        /* trust another certificate authority */
	SHOAL_HINT_ANONYMOUS = 62, /* send requests without keys */
	/* Benchmarks. */
	SHOAL_HINT_FORCE = 80,    /* write there although the check failed */
	SHOAL_HINT_COMPLETE = 81, /* complete the files that are there, or write them again */
	SHOAL_HINT_GENERATE = 82, /* generate the rest of the dataset */
	SHOAL_HINT_SAME_RUN = 83, /* resume with what the run had, or start another */
	SHOAL_HINT_RESUME = 84,   /* continue the run that was interrupted */
	/* Processes. */
	SHOAL_HINT_LAUNCHER = 100, /* have the launcher start the processes as one MPI job */
};

/* A message (what failed, on what and why), and a code for what to do about it. */
struct shoal_err {
	char msg[768];
	enum shoal_hint hint;
	uint64_t hint_value; /* a number that belongs to some hints; otherwise 0 */
};

/* A hint's name, such as "larger_slot". NULL for SHOAL_HINT_NONE and numbers that are unknown. */
SHOAL_API const char *shoal_hint_name(enum shoal_hint hint);

/* The library's version, such as "0.1.0". */
SHOAL_API const char *shoal_version(void);

/* ---- Stores ----------------------------------------------------------------------------- */

/*
 * How to reach storage on a server. A field that is NULL or 0 is taken from the environment as the
 * AWS tools do: from AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and so on, then from the profile in
 * ~/.aws. NULL in place of the structure means that for all fields. A process may use several
 * servers with different keys.
 *
 * Strings are lent for the call that takes the structure. Messages never contain secrets.
 */
struct shoal_store_config {
	const char *endpoint;   /* URL of the server, or several separated by commas, which are used
				   in turn */
	const char *region;     /* as "us-east-1" */
	const char *access_key; /* together with secret_key: then no key is taken from the
				   environment */
	const char *secret_key;
	const char *session_token; /* for access_key */
	const char *profile;      /* a section of the files in ~/.aws; its keys take precedence over
				     those in environment variables */
	const char *ca_file;      /* a file with certificates to trust */
	const char *bucket_style; /* where the bucket's name goes: "path", "virtual" (the host's
				     name) or "auto" */
	bool anonymous;           /* send requests without keys */
	unsigned max_tries;       /* per request, including the first: up to 100 */
	unsigned connect_timeout; /* seconds, up to 3600 */
	unsigned timeout;         /* seconds without receiving a byte, up to 3600 */
	unsigned backoff_ms;      /* longest pause before the second try, up to 60,000 */
	/* Of a directory: refuse symbolic links that lead out of it (-EXDEV); also if the
	 * environment has SHOAL_BENEATH=1. By default they are followed. */
	bool beneath;
};

/* Check the configuration without using the network or files. -EINVAL, -ENOKEY. */
SHOAL_CHECKED int shoal_store_config_check(const struct shoal_store_config *config,
					   struct shoal_err *err);

/* ---- Catalog ---------------------------------------------------------------------------- */

/* Longest name in a catalog, in bytes, without the terminating NUL. */
#define SHOAL_NAME_MAX 4096

/* Returned for the size of a file if the catalog does not know it. */
#define SHOAL_SIZE_UNKNOWN UINT64_MAX

/* An open catalog. Immutable: functions that take a const one may be called by any thread. */
struct shoal_catalog;

/* Facts about a catalog. The strings live as long as the catalog. */
struct shoal_catalog_info {
	const char *root;          /* URI that the names are relative to */
	uint64_t nr_files;         /* names */
	uint64_t nr_samples;       /* samples in all files */
	uint64_t samples_per_file; /* 0 if it differs from file to file */
	uint64_t nr_bytes;         /* sum of the sizes, or SHOAL_SIZE_UNKNOWN */
	uint64_t file_bytes;       /* the catalog file itself */
	uint64_t size_bytes;       /* part of file_bytes that holds sizes */
	bool etags;                /* ETags of objects are stored */
	uint64_t etag_bytes;       /* part of file_bytes that holds ETags */
	uint64_t nr_segments;      /* groups of consecutive names stored in one shape */
	uint32_t version;          /* of the file format */
	char digest[33];           /* hash of names, sizes and samples, in hexadecimal */
	bool extents;              /* the extents of samples inside files are stored */
	uint64_t nr_extents;       /* stored extents; files of one layout share them */
	uint64_t extent_bytes;     /* part of file_bytes that holds extents */
	uint64_t longest;          /* bytes of the longest sample, if extents are stored */
};

/*
 * Map the catalog at @path, in O(1). Damage is found when the damaged page is first used, or by
 * shoal_catalog_verify().
 *
 * A catalog in a bucket, "s3://bucket/name", is first fetched into a nameless file in $TMPDIR (or
 * /tmp); with shoal_catalog_options processes can share one copy. The server and the keys come from
 * the environment, as in shoal_store_config.
 *
 * -EBADMSG: not a catalog, truncated, or damaged. -EPROTONOSUPPORT: made by a newer version.
 * Otherwise the errno of open(2), fstat(2) or mmap(2), or -EACCES, -ETIMEDOUT, -ECONNREFUSED and
 * others from the server.
 */
SHOAL_CHECKED int shoal_catalog_open(const char *path, struct shoal_catalog **ret_cat,
				     struct shoal_err *err);

struct shoal_catalog_options {
	/*
	 * A directory for a copy of a catalog that is on slow or remote storage. The first process
	 * of a node makes the copy, whose name contains its digest; the others wait and map it. It
	 * stays there for later. A damaged copy is replaced; @err then has a message although the
	 * call succeeds, and is empty otherwise. NULL: no copy.
	 */
	const char *copy_dir;
	const struct shoal_store_config
		*config; /* how to reach a bucket; NULL: from the environment */
	const int *stop; /* the call ends with -ECANCELED once this is not 0. May be NULL */
	/*
	 * Called while the catalog is fetched from a bucket, with the number of bytes received. May
	 * be NULL.
	 */
	void (*progress)(void *self, uint64_t nr_bytes, uint64_t nr_all);
	void *self;
};

/* As shoal_catalog_open(), with options, which are lent for the call. NULL: the defaults. */
SHOAL_CHECKED int shoal_catalog_open_with(const char *path,
					  const struct shoal_catalog_options *options,
					  struct shoal_catalog **ret_cat, struct shoal_err *err);

/*
 * Install the SIGBUS handler again, if a program has installed its own since the first catalog was
 * opened; that one then receives all other SIGBUS. Does nothing if ours is installed.
 */
SHOAL_API void shoal_catch_sigbus(void);

/* Unmap and free; NULL is fine. Returns NULL, for `cat = shoal_catalog_close(cat)`. */
SHOAL_API struct shoal_catalog *shoal_catalog_close(struct shoal_catalog *cat);

SHOAL_API void shoal_catalog_info(const struct shoal_catalog *cat,
				  struct shoal_catalog_info *ret_info);

/*
 * Copy the name of file @id into @buf, which has room for SHOAL_NAME_MAX + 1 bytes, and end it with
 * a NUL. Returns the name's length.
 *
 * -ERANGE past the end; -EBADMSG if the catalog is damaged; -ESTALE if its file shrank.
 */
SHOAL_CHECKED int shoal_catalog_name(const struct shoal_catalog *cat, uint64_t id, char *buf);

/* The size of file @id in bytes, or SHOAL_SIZE_UNKNOWN. Errors as shoal_catalog_name(). */
SHOAL_CHECKED int shoal_catalog_size(const struct shoal_catalog *cat, uint64_t id,
				     uint64_t *ret_size);

/* Longest ETag that a catalog stores, in bytes: quotes, 32 digits, and the number of parts. */
#define SHOAL_ETAG_MAX 45

/*
 * Copy the ETag that file @id had when it was listed into @buf, which has room for SHOAL_ETAG_MAX +
 * 1 bytes, in quotes, and end it with a NUL. Returns its length; 0 if none is stored, for example
 * because the object's ETag had another format. Errors as shoal_catalog_name().
 */
SHOAL_CHECKED int shoal_catalog_etag(const struct shoal_catalog *cat, uint64_t id, char *buf);

/*
 * The size of the largest file, or SHOAL_SIZE_UNKNOWN. A catalog of a version that did not store it
 * is read whole, at some 400 million sizes per second.
 */
SHOAL_CHECKED int shoal_catalog_largest(const struct shoal_catalog *cat, uint64_t *ret_size);

/* The id of the file called @name, of @len bytes. -ENOENT if there is none. */
SHOAL_CHECKED int shoal_catalog_find(const struct shoal_catalog *cat, const char *name, size_t len,
				     uint64_t *ret_id);

/* The first id whose name is not less than @name bytewise; the number of files if there is none. */
SHOAL_CHECKED int shoal_catalog_lower_bound(const struct shoal_catalog *cat, const char *name,
					    size_t len, uint64_t *ret_id);

/* Which file holds @sample, and which of its samples it is. -ERANGE past the end. */
SHOAL_CHECKED int shoal_catalog_locate(const struct shoal_catalog *cat, uint64_t sample,
				       uint64_t *ret_file, uint64_t *ret_index);

/* The first sample of file @id and how many it has; @id may be the number of files. */
SHOAL_CHECKED int shoal_catalog_samples(const struct shoal_catalog *cat, uint64_t id,
					uint64_t *ret_first, uint64_t *ret_count);

/* Where a sample lies in its file. */
struct shoal_extent {
	uint64_t off;
	uint64_t len;  /* SHOAL_SIZE_UNKNOWN (the whole file) if the catalog has no sizes */
	uint64_t rows; /* of a row group or a record batch; otherwise 1 */
};

/*
 * Where sample @index (from 0) of file @id lies. Without extents the samples of a file are equal
 * parts of it, of which the last includes the remainder. -ERANGE past the end.
 */
SHOAL_CHECKED int shoal_catalog_extent(const struct shoal_catalog *cat, uint64_t id, uint64_t index,
				       struct shoal_extent *ret_extent);

/*
 * Rows: those of all samples, one after the other. A sample without rows of its own is one row. If
 * all files have the same layout, opening takes a microsecond and no memory, otherwise about a
 * quarter of a second per million files, and 8 bytes for 64 of them. @cat is lent. Afterwards any
 * number of threads may use it.
 */
struct shoal_rows;
SHOAL_CHECKED int shoal_rows_open(const struct shoal_catalog *cat, struct shoal_rows **ret_rows,
				  struct shoal_err *err);
SHOAL_API struct shoal_rows *shoal_rows_close(struct shoal_rows *rows); /* @rows may be NULL */
SHOAL_API uint64_t shoal_rows_count(const struct shoal_rows *rows);

struct shoal_row_place {
	uint64_t sample; /* which contains the row */
	uint64_t first;  /* the first row of that sample */
	uint64_t nr;     /* its rows */
};

/* Which sample contains row @row. -ERANGE past the end; -EBADMSG where the catalog is damaged. */
SHOAL_CHECKED int shoal_rows_find(const struct shoal_rows *rows, uint64_t row,
				  struct shoal_row_place *ret_place);

/* Files of one format whose samples are known, and how many samples they have. */
struct shoal_format_count {
	char name[16];
	uint64_t nr_files, nr_samples;
};

/* Format number @index of a catalog with extents, from 0. -ERANGE past the last. */
SHOAL_CHECKED int shoal_catalog_format(const struct shoal_catalog *cat, uint64_t index,
				       struct shoal_format_count *ret_count);

/*
 * -ESTALE if the file that was opened has changed its length or can no longer be read. If another
 * file has replaced it under its name, the open one is unchanged.
 */
SHOAL_CHECKED int shoal_catalog_check_fresh(const struct shoal_catalog *cat, struct shoal_err *err);

/*
 * Read everything: all checksums, the sort order, the totals and the digest. The message names the
 * section and the offset of the first damage. O(1) memory.
 */
SHOAL_CHECKED int shoal_catalog_verify(const struct shoal_catalog *cat, struct shoal_err *err);

/*
 * The message for an error of one of the lookups above, which write none because they are called
 * often: it names the section and the offset of the damage, if any. Returns @rc.
 */
SHOAL_API int shoal_catalog_explain(const struct shoal_catalog *cat, int rc, struct shoal_err *err);

/* Iterates over names in order, faster than lookups by id. A cursor belongs to one thread. */
struct shoal_cursor;

/* A cursor before file @id, which may be the number of files. */
SHOAL_CHECKED int shoal_cursor_new(const struct shoal_catalog *cat, uint64_t id,
				   struct shoal_cursor **ret_cursor, struct shoal_err *err);
SHOAL_API struct shoal_cursor *shoal_cursor_free(struct shoal_cursor *cursor);

/*
 * Step to the next file: 1 and its name (lent until the next step, ended by a NUL), 0 at the end,
 * or an error as from shoal_catalog_name().
 */
SHOAL_CHECKED int shoal_cursor_next(struct shoal_cursor *cursor, const char **ret_name,
				    size_t *ret_len);

/* ---- Writing a catalog ------------------------------------------------------------------ */

/*
 * A catalog being written. It belongs to one thread and takes about 20 MB for any number of names.
 */
struct shoal_writer;

struct shoal_writer_options {
	const char *root;          /* URI that the names are relative to */
	bool sizes;                /* sizes are known */
	uint64_t samples_per_file; /* 0: given for each file */
	const char *tmp_dir;       /* for temporary files; NULL: beside the catalog */
	const char *listing;       /* how the names were found, as text; NULL: unknown */
	bool etags;                /* store ETags: 20 bytes per file */
	bool extents;              /* store the extents of samples, if appended parts have them */
};

/*
 * Start to write the catalog @path. Nothing has that name before shoal_writer_seal(). -EBUSY:
 * another process is writing the same catalog.
 */
SHOAL_CHECKED int shoal_writer_open(const char *path, const struct shoal_writer_options *options,
				    struct shoal_writer **ret_writer, struct shoal_err *err);

/*
 * Add a file. Names must come in ascending bytewise order without repetition, and have 1 to
 * SHOAL_NAME_MAX bytes without a NUL: otherwise -EINVAL. @size and @samples are used only if the
 * options have `sizes`, and samples_per_file 0.
 */
SHOAL_CHECKED int shoal_writer_add(struct shoal_writer *writer, const char *name, size_t len,
				   uint64_t size, uint64_t samples, struct shoal_err *err);

/*
 * As shoal_writer_add(), with an ETag, in quotes or without, which is used if the options have
 * `etags`. Only an ETag of 32 lower-case hexadecimal digits, optionally followed by "-" and a
 * number, is stored. NULL: none.
 */
SHOAL_CHECKED int shoal_writer_add_object(struct shoal_writer *writer, const char *name, size_t len,
					  uint64_t size, uint64_t samples, const char *etag,
					  struct shoal_err *err);

/*
 * Add all files of @part, whose names must come after those added so far, without decoding them.
 * The roots must be equal, and either both or neither must have sizes. A writer with
 * samples_per_file takes only parts with that number, one with 0 takes any; a writer with `etags`
 * takes only parts that have ETags.
 */
SHOAL_CHECKED int shoal_writer_append(struct shoal_writer *writer, const struct shoal_catalog *part,
				      struct shoal_err *err);

/* Write the rest, sync, and give the catalog its name. Frees the writer, also on failure. */
SHOAL_CHECKED int shoal_writer_seal(struct shoal_writer *writer, struct shoal_err *err);

/* Give up and remove what was written. NULL is fine. Returns NULL. */
SHOAL_API struct shoal_writer *shoal_writer_abort(struct shoal_writer *writer);

/* ---- Making a catalog ------------------------------------------------------------------- */

/* How far indexing has come. */
struct shoal_index_progress {
	bool sealing;        /* all names are listed, and are being written */
	uint64_t nr_names;   /* listed, or written */
	uint64_t nr_pending; /* units of a tree that no thread has begun */
	const char *where;   /* the name listed last, or "". Lent */
	uint64_t nr_all;     /* names that there will be, about; 0: not known */
};

struct shoal_index_options {
	const char
		*output;  /* the catalog to write: a file, or an object such as s3://bucket/name */
	const char *root; /* URI or path; NULL: from the first name, or the current directory */
	const char *tmp_dir;       /* for temporary files; NULL: beside the catalog */
	uint64_t memory;           /* limit for everything, in bytes; 0: SHOAL_INDEX_MEMORY */
	uint64_t samples_per_file; /* 0: 1, or what the list has */
	/*
	 * Open each file and find its samples. The kind of samples is "auto" (by the extension),
	 * parquet, arrow, webdataset, tar, tfrecord, npz, npy, hdf5, csv, jsonl, whole, or
	 * "fixed:BYTES". NULL: no file is opened. Not for patterns.
	 */
	const char *samples;
	/*
	 * Do not replace by mistake: -ENOENT instead of writing a catalog without names; -EEXIST if
	 * the output is not a catalog, or has more than twice as many names as were found. The
	 * output then stays unchanged.
	 */
	bool careful;
	const struct shoal_store_config
		*config; /* how to reach a bucket; NULL: from the environment */
	const int *stop; /* the call ends with -ECANCELED once this is not 0. May be NULL */
	/* Called repeatedly, on the calling thread. May be NULL. */
	void (*progress)(void *self, const struct shoal_index_progress *progress);
	/*
	 * Called for each entry that is left out, with keep_going: on any thread, one at a time,
	 * also while progress() runs. May be NULL.
	 */
	void (*warn)(void *self, const char *words);
	void *self; /* for these */
};

#define SHOAL_INDEX_MEMORY     (UINT64_C(256) << 20)
#define SHOAL_INDEX_MEMORY_MIN (UINT64_C(48) << 20)

struct shoal_index_result {
	uint64_t nr_names;    /* names in the catalog */
	uint64_t nr_repeated; /* entries dropped because a later one had the same name */
	uint64_t nr_blank;    /* empty lines of a list */
	uint64_t nr_sealers;  /* threads that merged and encoded, each a range of names */
	/* Of a tree: */
	uint64_t nr_directories; /* directories that were read */
	uint64_t nr_unchanged;   /* directories that were not read because they had not changed */
	uint64_t nr_reused;      /* names in those, taken from the catalog that is updated */
	uint64_t nr_resumed;     /* names that were listed before an interruption */
	uint64_t nr_vanished;    /* files that vanished between being found and being examined */
	uint64_t nr_links; /* symbolic links that were not followed, or whose target does not exist
			    */
	uint64_t nr_loops; /* links to a directory that contains them */
	uint64_t nr_special;    /* sockets, pipes, devices */
	uint64_t nr_other_fs;   /* directories on other file systems */
	uint64_t nr_filtered;   /* files and directories excluded by patterns */
	uint64_t nr_unreadable; /* entries that could not be read, with keep_going */
	uint64_t nr_odd_etags;  /* objects whose ETag is not stored, with etags: see there */
	uint64_t nr_samples;    /* samples found inside files, with samples */
	uint64_t nr_uncut;      /* files that count as one sample because they cannot be cut; a
				   warning says why of the first */
	uint64_t nr_known; /* files that were not opened, because an update or an earlier run knows
			      their samples */
	/* Of a bucket: */
	uint64_t nr_requests;  /* requests for the listing */
	uint64_t nr_retries;   /* requests that were sent again */
	uint64_t nr_throttled; /* answers that asked to slow down */
	uint64_t busy_us;      /* time in which connections had a request, summed */
	uint64_t allowed_us;   /* the same if they had had one all the time: connections times
				  duration */
};

/*
 * Read names from @fd, one per line (or, with @separator 0, ended by NUL bytes), each with an
 * optional size and number of samples after tabs, in any order. With @names_only a tab is part of
 * the name. Absolute names and URIs are made relative to the root.
 */
SHOAL_CHECKED int shoal_index_list(int fd, char separator, bool names_only,
				   const struct shoal_index_options *options,
				   struct shoal_index_result *ret_result, struct shoal_err *err);

/* Lists that other tools write, in any order, uncompressed or compressed by gzip. */
enum shoal_import {
	SHOAL_IMPORT_FIND, /* find -printf '%s %p\n': a size, a space, a path */
	SHOAL_IMPORT_GPFS, /* mmapplypolicy: three numbers, the size if SHOW includes it, " -- ", a
			      path */
	SHOAL_IMPORT_INVENTORY, /* S3 Inventory, as comma-separated values */
};

struct shoal_import_options {
	enum shoal_import format;
	bool null; /* lines end with NUL bytes */
	/*
	 * For an inventory: fileSchema of its manifest.json; NULL: "Bucket, Key, Size". The columns
	 * Bucket, Key, Size, ETag, IsLatest and IsDeleteMarker are used. Old versions and deleted
	 * objects are left out and counted in nr_filtered.
	 */
	const char *columns;
};

/* As shoal_index_list(), for a list that another tool wrote. */
SHOAL_CHECKED int shoal_index_import(int fd, const struct shoal_import_options *import,
				     const struct shoal_index_options *options,
				     struct shoal_index_result *ret_result, struct shoal_err *err);

struct shoal_tree_options {
	bool no_sizes;   /* do not request sizes: many times faster */
	bool follow;     /* index the targets of symbolic links; otherwise links are left out */
	bool one_fs;     /* stay on the file system of the root */
	bool keep_going; /* leave out entries that cannot be read, and warn */
	/*
	 * Shell patterns of names to include (none: all) and to exclude: see `shoal index --help`.
	 */
	const char *const *include, *const *exclude;
	size_t nr_include, nr_exclude;
	unsigned nr_threads; /* 0: chosen for the machine */
	/*
	 * A catalog of the same tree, made earlier with the same options. Directories in which
	 * nothing was added or removed since then are not read again, and their files keep their
	 * sizes. NULL: none.
	 */
	const char *update;
	/*
	 * Continue an interrupted listing for the same output, if there is one, and save what is
	 * listed beside the output for the next call until the catalog is sealed. One process only.
	 */
	bool resume;
	/*
	 * For a bucket: list only part `shard` (from 0) of nr_shards about equal ranges of keys.
	 * All callers compute the same ranges without communication, if the bucket is unchanged. 0:
	 * all keys.
	 */
	unsigned shard, nr_shards;
	/*
	 * For a bucket: store the ETag of each object, in 20 bytes, so that a changed object can be
	 * distinguished from the listed one. ETags in a format other than MD5 or MD5 with a number
	 * of parts are not stored; they are counted.
	 */
	bool etags;
};

/*
 * List all regular files below @where, a path or a file:// URI, as names relative to it. A file
 * with several hard links is listed under each name. Or list all objects below an s3:// URI: a
 * bucket, or a prefix in one, to which a slash is added.
 */
SHOAL_CHECKED int shoal_index_tree(const char *where, const struct shoal_tree_options *tree,
				   const struct shoal_index_options *options,
				   struct shoal_index_result *ret_result, struct shoal_err *err);

struct shoal_pattern {
	const char *format;  /* a name with one number: "train/img_{:07d}_of_1170301.jpeg" */
	uint64_t first;      /* the first number */
	uint64_t count;      /* how many */
	uint64_t subfolders; /* if over 1: the number modulo this is a directory before the last
				component */
	uint64_t size;       /* of every file, or SHOAL_SIZE_UNKNOWN */
};

/* Write the catalog of the names that a pattern makes; no list is needed. */
SHOAL_CHECKED int shoal_index_pattern(const struct shoal_pattern *pattern,
				      const struct shoal_index_options *options,
				      struct shoal_index_result *ret_result, struct shoal_err *err);

/* ---- Comparing with the storage --------------------------------------------------------- */

enum shoal_difference {
	SHOAL_MISSING, /* in the catalog, but not in the store */
	SHOAL_NEW,     /* in the store, but not in the catalog */
	SHOAL_RESIZED, /* in the store with another size */
	SHOAL_CHANGED, /* in the store with the same size and another ETag */
	SHOAL_INSIDE,  /* in the store, but its samples are at other offsets */
};

struct shoal_compare_options {
	const char *where;   /* the path or URI to compare with; NULL: the catalog's root */
	const char *catalog; /* the path of the catalog itself, which is not part of the dataset; or
				NULL */
	const char *tmp_dir; /* for temporary files; NULL: $TMPDIR, or /tmp */
	uint64_t memory;     /* limit for everything, in bytes; 0: SHOAL_INDEX_MEMORY */
	unsigned nr_threads; /* 0: chosen for the machine */
	const struct shoal_store_config
		*config; /* how to reach a bucket; NULL: from the environment */
	bool keep_going; /* treat what cannot be read as missing, and warn */
	bool samples; /* open each unchanged file and compare where its samples are: -EINVAL if the
			 catalog has no extents */
	void (*warn)(void *self,
		     const char *words); /* called on any thread, one at a time. May be NULL */
	const int *stop; /* the call ends with -ECANCELED once this is not 0. May be NULL */
	/*
	 * Called for each difference, in the order of names, those inside files last. 0 to
	 * continue; an error ends the call. May be NULL.
	 */
	int (*differs)(void *self, enum shoal_difference what, const char *name, size_t len,
		       uint64_t was, uint64_t is);
	void (*progress)(void *self, const struct shoal_index_progress *progress); /* or NULL */
	void *self;
};

struct shoal_compare_result {
	uint64_t nr_same, nr_missing, nr_new, nr_resized;
	uint64_t nr_changed; /* always 0 for files, and for a catalog without ETags */
	uint64_t nr_inside;  /* files with other samples, or damaged ones; with `samples` */
};

/*
 * List what is in the store now, with the patterns that the catalog was made with. Compare names,
 * and also sizes and ETags if the catalog has them. Streams; memory as for an index.
 */
SHOAL_CHECKED int shoal_catalog_compare(const struct shoal_catalog *cat,
					const struct shoal_compare_options *options,
					struct shoal_compare_result *ret_result,
					struct shoal_err *err);

/* ---- Lists as streams ------------------------------------------------------------------- */

/* A file as delivered by a list. What it points to is lent until the next step. */
struct shoal_entry {
	const char *name; /* relative to the list's root, ended by a NUL */
	size_t len;
	uint64_t size;    /* or SHOAL_SIZE_UNKNOWN */
	uint64_t samples; /* 1, unless the catalog has another number */
	const char *etag; /* in quotes; "" if there is none */
	uint64_t id;      /* id in its catalog; for a store, the number of files before it */
};

/* Which files a list delivers. Zeros and NULL: all. Everything is lent until the list is closed. */
struct shoal_select {
	/* Shell patterns of names to include (none: all) and to exclude, as for an index. */
	const char *const *include, *const *exclude;
	size_t nr_include, nr_exclude;
	const char *regex;       /* POSIX extended, found anywhere in the name */
	bool ignore_case;        /* for the regular expression */
	uint64_t min_size;       /* in bytes; files of unknown size are refused: -EINVAL */
	uint64_t max_size;       /* in bytes; 0: no limit */
	const char *start_after; /* only names after this one, which need not exist */
	const char *end_before;  /* only names before this one, which need not exist */
	uint64_t limit;          /* the most files to deliver; 0: no limit */
	/* Only names that are in this catalog; with `not_in`, only names that are not. */
	const struct shoal_catalog *names;
	bool not_in;
	/*
	 * A part of the names: those whose hash with the key `seed`, as a fraction of 1, is at
	 * least `from` and less than `to`. It depends on the name alone, so a file stays in its
	 * part when other files are added or removed. `to` 0: all.
	 */
	double from, to;
	uint64_t seed;
};

struct shoal_list_options {
	struct shoal_select select;
	bool no_sizes; /* do not request sizes, which cost many times as much as names for files */
	bool etags;    /* for a bucket: request ETags */
	bool follow;   /* list the targets of symbolic links; otherwise links are left out */
	bool one_fs;   /* stay on the file system of the root */
	bool keep_going;     /* leave out entries that cannot be read, and warn */
	unsigned nr_threads; /* threads that list ahead; 0: chosen for the store */
	/*
	 * Only part `shard` (from 0) of nr_shards disjoint parts. Of a bucket: a range of keys; all
	 * callers compute the same ranges if the bucket is unchanged. Of a directory: the names
	 * with that hash modulo nr_shards, so every caller reads the whole tree. 0: all.
	 */
	unsigned shard, nr_shards;
	const char *tmp_dir; /* for directories that exceed memory; NULL: $TMPDIR, or /tmp */
	const struct shoal_store_config *config; /* how to reach a bucket; lent for the call */
	const int *stop; /* a step ends with -ECANCELED once this is not 0. May be NULL */
	/*
	 * Called for each entry that is left out, with keep_going: on any thread, one at a time.
	 * May be NULL.
	 */
	void (*warn)(void *self, const char *words);
	void *self;
};

struct shoal_list;

/*
 * List the files below @uri, a directory or a bucket (as for shoal_index_tree()), in bytewise order
 * of their names, without a catalog and in memory that does not grow with their number. Threads
 * list ahead of the caller, up to a limit; a directory that is too large for memory is sorted in a
 * temporary file. A file that is added, renamed or removed meanwhile may or may not be delivered;
 * every other file is delivered once.
 */
SHOAL_CHECKED int shoal_list_open(const char *uri, const struct shoal_list_options *options,
				  struct shoal_list **ret_list, struct shoal_err *err);

/* A list of the files of a catalog, which is lent until the list is closed. @select may be NULL. */
SHOAL_CHECKED int shoal_list_catalog(const struct shoal_catalog *cat,
				     const struct shoal_select *select,
				     struct shoal_list **ret_list, struct shoal_err *err);

enum shoal_repeated {
	SHOAL_REPEATED_LAST, /* use the entry of the last list that has the name */
	SHOAL_REPEATED_FAIL, /* a name in several lists is an error: -EEXIST */
};

/*
 * Merge @nr lists into one. It owns them and closes them with itself; on failure they still belong
 * to the caller. Its root is that of the first list.
 */
SHOAL_CHECKED int shoal_list_merge(struct shoal_list *const *lists, size_t nr,
				   enum shoal_repeated repeated, struct shoal_list **ret_list,
				   struct shoal_err *err);

struct shoal_list_info {
	const char *root; /* URI that the names are relative to; lent until the list is closed */
	bool sizes;       /* entries have sizes */
	bool etags;       /* entries have ETags, if these can be stored */
	uint64_t samples_per_file; /* 0 if it differs from file to file */
	bool extents;              /* of a catalog with extents; entries have none */
	uint64_t nr_files;         /* of the source, selected or not, at most; 0: not known */
};

SHOAL_API void shoal_list_info(const struct shoal_list *list, struct shoal_list_info *ret_info);

/*
 * Step to the next file: 1, 0 at the end, or an error, after which the list can only be closed. One
 * thread at a time.
 */
SHOAL_CHECKED int shoal_list_next(struct shoal_list *list, const struct shoal_entry **ret_entry,
				  struct shoal_err *err);

/*
 * Have @waiting called about ten times per second on the thread that steps, while a step blocks. A
 * value other than 0 ends the list with -ECANCELED.
 */
SHOAL_API void shoal_list_set_waiting(struct shoal_list *list, int (*waiting)(void *self),
				      void *self);

/* The names that it has looked at so far: more than it delivered, if it selects. */
SHOAL_API uint64_t shoal_list_nr_steps(const struct shoal_list *list);

/* End the list's threads and free it. NULL is fine. Returns NULL. */
SHOAL_API struct shoal_list *shoal_list_close(struct shoal_list *list);

struct shoal_list_totals {
	uint64_t nr_files, nr_samples;
	uint64_t nr_bytes; /* SHOAL_SIZE_UNKNOWN if sizes are not known */
};

/* Step to the end, and count. */
SHOAL_CHECKED int shoal_list_count(struct shoal_list *list, struct shoal_list_totals *ret_totals,
				   struct shoal_err *err);

struct shoal_write_options {
	const char
		*output; /* the catalog to write: a file, or an object such as s3://bucket/name */
	const struct shoal_store_config *config; /* for an object; NULL: from the environment */
	const char *root;                        /* URI; NULL: that of the list */
	const char *tmp_dir;                     /* NULL: beside the catalog */
	uint64_t samples_per_file; /* for every file, replacing the list's; 0: the list's */
	bool dry_run;              /* write nothing, but compute the totals */
	bool refuse_empty; /* -ENOENT instead of writing a catalog without names; the output stays
			      unchanged */
	bool careful;    /* -EEXIST instead of replacing what is not a catalog, or a catalog of more
			    than twice as many names */
	const int *stop; /* the call ends with -ECANCELED once this is not 0. May be NULL */
	/* Called repeatedly, with the names that were looked at, of how many; 0: not known. May be
	 * NULL. */
	void (*progress)(void *self, uint64_t nr_done, uint64_t nr_all);
	void *self;
};

/* Write the rest of a list to a catalog, in about 20 MB for any number of names. */
SHOAL_CHECKED int shoal_list_write(struct shoal_list *list,
				   const struct shoal_write_options *options,
				   struct shoal_list_totals *ret_totals, struct shoal_err *err);

/*
 * Join catalogs, such as parts of a bucket that were listed separately. All must have the same
 * root; or options->root is a place above all of their roots, which names are made relative to. All
 * or none must have sizes. Otherwise -EINVAL. If the names of each catalog come after those of the
 * one before, they are copied without decoding, unless there is a new root.
 */
SHOAL_CHECKED int shoal_catalog_merge(const struct shoal_catalog *const *cats, size_t nr,
				      enum shoal_repeated repeated,
				      const struct shoal_write_options *options,
				      struct shoal_list_totals *ret_totals, struct shoal_err *err);

struct shoal_diff_options {
	/* Called for each difference, as in shoal_compare_options. May be NULL. */
	int (*differs)(void *self, enum shoal_difference what, const char *name, size_t len,
		       uint64_t was, uint64_t is);
	void *self;
	const int *stop; /* the call ends with -ECANCELED once this is not 0. May be NULL */
	void (*progress)(void *self, uint64_t nr_names); /* called repeatedly, with the number of
							    names compared. May be NULL */
};

/*
 * Compare @old with @new: names, and sizes and ETags if both have them. SHOAL_MISSING: only in
 * @old; SHOAL_NEW: only in @new.
 */
SHOAL_CHECKED int shoal_list_diff(struct shoal_list *old, struct shoal_list *new_list,
				  const struct shoal_diff_options *options,
				  struct shoal_compare_result *ret_result, struct shoal_err *err);

#define SHOAL_STAT_TOP   100 /* rows of each table: the largest folders, extensions and files */
#define SHOAL_STAT_DEPTH 64

struct shoal_stat_row {
	char *name; /* of a folder: without a slash at its end, "" for the root; ".jpg" */
	uint64_t nr_files, nr_bytes;
};

/* Figures about a dataset, of bounded size for any number of files. */
struct shoal_stat {
	struct shoal_list_totals totals;
	uint64_t nr_folders; /* folders at the given depth, including the root if it has files */
	uint64_t nr_extensions;
	/* Largest first, by bytes, or by files if sizes are not known. */
	struct shoal_stat_row folder[SHOAL_STAT_TOP], extension[SHOAL_STAT_TOP],
		largest[SHOAL_STAT_TOP];
	size_t nr_folder_rows, nr_extension_rows, nr_largest;
	/* Files of 0 bytes; then of 2^(i-1) to 2^i - 1 bytes. */
	uint64_t sizes[65], bytes[65];
	uint64_t min_size, max_size;
	uint64_t depth[SHOAL_STAT_DEPTH]; /* files by the number of slashes in their names; the last
					     counts all deeper ones */
	uint64_t max_depth, longest_name;
	/* Files whose extension did not fit into the table of 4096; they are in no row. */
	uint64_t nr_other_extensions;
};

/*
 * Step to the end, and compute figures. A folder has at most @depth components (0 means 1). Release
 * the result after success.
 */
SHOAL_CHECKED int shoal_list_stat(struct shoal_list *list, unsigned depth,
				  struct shoal_stat *ret_stat, struct shoal_err *err);
SHOAL_API void shoal_stat_release(struct shoal_stat *stat);

/* ---- Columns ---------------------------------------------------------------------------- */

/*
 * A column is one number per sample, in a file of its own beside the catalog: a length, a label, a
 * flag. It is mapped like a catalog, and threads may share an open one likewise.
 * docs/format/column.md.
 */
struct shoal_column;

enum shoal_column_type {
	SHOAL_BIT = 1, /* a flag: in arrays of values one byte each, 0 or not 0 */
	SHOAL_U8,
	SHOAL_U16,
	SHOAL_U32,
	SHOAL_U64,
	SHOAL_I64,
	SHOAL_F32,
	SHOAL_F64,
};

struct shoal_column_info {
	const char *name; /* lent, as long as the column is open */
	enum shoal_column_type type;
	uint64_t first;      /* sample of the first value; 0 unless it is a part */
	uint64_t nr;         /* values */
	uint64_t nr_samples; /* samples of the catalog; equal to nr unless it is a part */
	uint64_t nr_ones;    /* SHOAL_BIT: how many values are 1 */
	uint64_t nr_sorted;  /* samples in the sorted order; SHOAL_UNSORTED if there is none */
	bool kept_only;  /* the sorted order leaves out samples for which a keep column has a 0 */
	double min, max; /* 0 if there are no values */
	uint64_t file_bytes;
	uint64_t hash;   /* hash of values and order: distinguishes columns of one catalog */
	char digest[33]; /* of the catalog */
};

#define SHOAL_UNSORTED UINT64_MAX

/*
 * Map the column at @path, which may be a file URI, as in the functions below. With @digest (of a
 * catalog, 32 digits; may be NULL): -ESTALE if the column belongs to another catalog. Otherwise as
 * shoal_catalog_open().
 */
SHOAL_CHECKED int shoal_column_open(const char *path, const char *digest,
				    struct shoal_column **ret_column, struct shoal_err *err);

/* NULL is fine. Returns NULL. */
SHOAL_API struct shoal_column *shoal_column_close(struct shoal_column *column);

SHOAL_API void shoal_column_info(const struct shoal_column *column,
				 struct shoal_column_info *ret_info);

/*
 * Copy the values of @nr samples from @first on into @values, an array of the column's type.
 * -ERANGE past either end; -EBADMSG if the column is damaged; -ESTALE if its file shrank.
 */
SHOAL_CHECKED int shoal_column_read(const struct shoal_column *column, uint64_t first, uint64_t nr,
				    void *values);

/*
 * For a SHOAL_BIT column that is not a part: the sample with the @nth 1, from 0. -ERANGE past the
 * last.
 */
SHOAL_CHECKED int shoal_column_select(const struct shoal_column *column, uint64_t nth,
				      uint64_t *ret_sample);

/*
 * For a SHOAL_BIT column that is not a part: how many samples before @sample have a 1. @sample is
 * at most the number of samples.
 */
SHOAL_CHECKED int shoal_column_rank(const struct shoal_column *column, uint64_t sample,
				    uint64_t *ret_nr);

/* The samples at @nr places of the sorted order, from @place on: smallest value first. */
SHOAL_CHECKED int shoal_column_sorted(const struct shoal_column *column, uint64_t place,
				      uint64_t nr, uint64_t *ids);

/* Read everything: all checksums, ranks, minimum and maximum, and the order. O(1) memory. */
SHOAL_CHECKED int shoal_column_verify(const struct shoal_column *column, struct shoal_err *err);

/* A column being written, by one thread, in about 1 MB. */
struct shoal_column_writer;

struct shoal_column_options {
	const char *name; /* 1 to 63 bytes of UTF-8 */
	enum shoal_column_type type;
	const char *digest;  /* of the catalog */
	uint64_t nr_samples; /* of the catalog */
	uint64_t first, nr;  /* how many samples are written: all of them unless it is a part */
};

/* Nothing has the name @path before shoal_column_seal(). -EBUSY: another process is writing it. */
SHOAL_CHECKED int shoal_column_create(const char *path, const struct shoal_column_options *options,
				      struct shoal_column_writer **ret_writer,
				      struct shoal_err *err);

/* Add the next @nr values, an array of the column's type. */
SHOAL_CHECKED int shoal_column_append(struct shoal_column_writer *writer, const void *values,
				      uint64_t nr, struct shoal_err *err);

/* -EINVAL if values are missing. Frees the writer, also on failure. */
SHOAL_CHECKED int shoal_column_seal(struct shoal_column_writer *writer, struct shoal_err *err);

/* Give up and remove what was written. NULL is fine. Returns NULL. */
SHOAL_API struct shoal_column_writer *shoal_column_abort(struct shoal_column_writer *writer);

/* Join parts, given in the order of samples, to the whole column @path. */
SHOAL_CHECKED int shoal_column_join(const char *path, const char *const *parts, size_t nr_parts,
				    struct shoal_err *err);

/*
 * Write the whole column again as @path, which may be its own name, with the order of its samples
 * by value. With @keep (may be NULL), a SHOAL_BIT column of the same catalog, the order has only
 * the samples for which it has a 1. Takes up to @memory bytes (0: 64 MiB) for any number of
 * samples.
 */
SHOAL_CHECKED int shoal_column_sort(const struct shoal_column *column,
				    const struct shoal_column *keep, const char *path,
				    uint64_t memory, const int *stop, struct shoal_err *err);

/*
 * The name of a type, such as "u32"; NULL if there is no such type. And the type of a name, or
 * -EINVAL.
 */
SHOAL_API const char *shoal_column_type_name(enum shoal_column_type type);
SHOAL_CHECKED int shoal_column_type_of(const char *name, enum shoal_column_type *ret_type);

/* ---- Order ------------------------------------------------------------------------------ */

/*
 * An epoch puts T samples at the positions 0 to T - 1. Step t of an order gives slot j of rank r
 *
 * 	position = consumed + (t * nr_ranks + r) * batch + j
 *
 * so the samples read after any step are a prefix of the positions, and a run can continue with
 * another number of ranks or another batch. The sample at a position is computed from (seed, epoch,
 * position) alone, the same on every machine and in every version: docs/design/order.md.
 */
enum shoal_mode {
	SHOAL_SEQUENTIAL, /* samples in the order of the catalog */
	SHOAL_GLOBAL,     /* all samples permuted */
	SHOAL_FILES,      /* units permuted, samples of a unit in order */
	SHOAL_WINDOW,     /* units permuted, samples mixed over a window of units */
	SHOAL_LOCAL,      /* each rank permutes only its own contiguous share: see below */
};

/*
 * In SHOAL_LOCAL rank r owns the samples from r * T / W up to (r + 1) * T / W, rounded down, so
 * some ranks have one more than others. A step takes the next `batch` samples of each rank's share.
 * In the last step SHOAL_DROP leaves out what the smallest share cannot fill, SHOAL_PAD wraps
 * around in the rank's share, and SHOAL_KEEP gives each rank what it has left. `consumed` is a
 * multiple of the number of ranks, or T; the batch may change during an epoch, but the number of
 * ranks may not. Positions of a step that is not full are counted without gaps, and those of the
 * larger shares come last.
 */

enum shoal_remainder {
	SHOAL_DROP, /* leave out the samples that do not fill a step of all ranks */
	SHOAL_PAD,  /* wrap around to the epoch's first positions */
	SHOAL_KEEP, /* a short or empty last batch; ranks differ by at most one batch */
};

/*
 * The largest number of samples in an order, and the most that all ranks together take in a step.
 */
#define SHOAL_ORDER_SAMPLES_MAX (UINT64_C(1) << 48)

/* Everything that decides the order of an epoch. Zero selects a default where noted. */
struct shoal_order_spec {
	enum shoal_mode mode;
	enum shoal_remainder remainder;
	uint64_t seed;
	bool frozen;         /* every epoch has the order of epoch 0 */
	uint64_t nr_samples; /* T */
	uint64_t unit;       /* FILES, WINDOW: consecutive samples that stay together; 0 means 1 */
	uint64_t window;     /* WINDOW: how many units are mixed; 0 means 16 */
	uint64_t nr_ranks;   /* W */
	uint64_t batch;      /* samples that a rank takes in a step */
	uint64_t consumed;   /* positions of this epoch that any number of ranks have read */
	/*
	 * SEQUENTIAL, FILES, WINDOW: the epoch is cut into this many lanes of equal length, which
	 * provide `lane_batch` positions each in turn; 0 means 1. With as many lanes as ranks and
	 * their batch, each rank reads units of its own. Any ranks and batch can resume.
	 */
	uint64_t lanes;
	uint64_t lane_batch; /* 0: batch */
};

/*
 * The order of one epoch: about 20 KB for any number of samples. Immutable except by
 * shoal_order_set_epoch(); functions that take a const one may be called by any thread.
 */
struct shoal_order;

/*
 * -EINVAL if the spec cannot be met. With SHOAL_DROP a number of samples smaller than a step is
 * allowed.
 */
SHOAL_CHECKED int shoal_order_new(const struct shoal_order_spec *spec, uint64_t epoch,
				  struct shoal_order **ret_order, struct shoal_err *err);

/* NULL is fine. Returns NULL. */
SHOAL_API struct shoal_order *shoal_order_free(struct shoal_order *order);

/* Go to the first position of @epoch. Takes microseconds for any number of samples. */
SHOAL_API void shoal_order_set_epoch(struct shoal_order *order, uint64_t epoch);

/* The spec with defaults filled in, and `consumed` 0 after shoal_order_set_epoch(). Lent. */
SHOAL_API const struct shoal_order_spec *shoal_order_spec(const struct shoal_order *order);

/* Steps from the spec's `consumed` to the end of the epoch: the same number for all ranks. */
SHOAL_API uint64_t shoal_order_steps(const struct shoal_order *order);

/*
 * The sample ids that @rank reads in @step, counted from `consumed`, into @ids, which has room for
 * a batch. Returns how many: `batch`, or fewer (even 0) in the last step with SHOAL_KEEP. -ERANGE
 * past the last step or rank. Random access: no step is computed from another.
 *
 * With SHOAL_WINDOW and SHOAL_LOCAL a call costs up to 20 microseconds more if a window or share
 * has at most 4096 samples, so a few large batches are better than many small ones.
 */
SHOAL_CHECKED int64_t shoal_order_batch(const struct shoal_order *order, uint64_t step,
					uint64_t rank, uint64_t *ids);

/*
 * The sample ids at @nr positions anywhere in the epoch, also before `consumed`. @ids may be the
 * same array as @positions. -ERANGE if a position is past the end; @ids is then untouched.
 */
SHOAL_CHECKED int shoal_order_at(const struct shoal_order *order, const uint64_t *positions,
				 size_t nr, uint64_t *ids);

/* The inverse: the position of sample @id in this epoch. -ERANGE past the end. */
SHOAL_CHECKED int shoal_order_position(const struct shoal_order *order, uint64_t id,
				       uint64_t *ret_position);

/* What a checkpoint stores: three numbers, and the dataset that they belong to. */
struct shoal_order_state {
	uint64_t seed;
	uint64_t epoch;
	uint64_t consumed;
	char digest[33];   /* of the catalog */
	uint64_t nr_ranks; /* LOCAL: number of ranks that saved it; otherwise 0 */
	uint64_t order;    /* hash of mode, unit, window, lanes, frozen, samples, and the version of
			      their meaning */
	uint64_t lanes, lane_batch; /* with more than one lane; otherwise 0 */
};

/*
 * The state after @steps steps of this order. @digest is that of the catalog, at most 32
 * characters. More steps than the epoch has count as all of them.
 */
SHOAL_API void shoal_order_save(const struct shoal_order *order, uint64_t steps, const char *digest,
				struct shoal_order_state *ret_state);

/*
 * Continue @state with @spec, whose ranks and batch may differ from those that saved it; the spec's
 * own seed and consumed are ignored. -ESTALE if @digest is that of another catalog. -ENOTSUP if the
 * state belongs to another order (mode, unit, window, lanes, frozen or number of samples), or if
 * another number of ranks saved it with SHOAL_LOCAL. If the spec has 0 lanes, those of the state
 * are used. Other errors as from shoal_order_new().
 */
SHOAL_CHECKED int shoal_order_resume(const struct shoal_order_spec *spec,
				     const struct shoal_order_state *state, const char *digest,
				     struct shoal_order **ret_order, struct shoal_err *err);

/* ---- Lists for each rank ---------------------------------------------------------------- */

#define SHOAL_MANIFEST_EPOCHS_MAX 1000000u

struct shoal_manifest_options {
	const char *dir;      /* the directory for the lists; made if it is missing */
	const char *prefix;   /* the beginning of their names, without a slash; NULL: "train" */
	uint64_t first_epoch; /* first epoch */
	uint64_t nr_epochs;   /* number of epochs: 1 to SHOAL_MANIFEST_EPOCHS_MAX */
	bool paths;           /* plain paths instead of file:// URIs */
	bool null;            /* end URIs with NUL bytes instead of line ends */
	bool force;           /* remove other lists of this prefix first, instead of -EEXIST */
	bool dry_run;         /* only check whether they could be written */
	const int *stop;      /* the call ends with -ECANCELED once this is not 0. May be NULL */
	/* Called after each list, with the number of lists written. May be NULL. */
	void (*progress)(void *self, uint64_t nr_done, uint64_t nr);
	void *self;
};

/*
 * Write dir/PREFIX_epoch0000_rank00000.txt and so on: the URIs of the files (not samples) that each
 * rank reads, one per line, in the order in which it reads them. Of @spec the mode, seed, frozen,
 * unit, window and nr_ranks are used. The lists of an epoch are a partition of the files; each list
 * gets its name when it is complete. Memory does not grow with files, ranks or epochs.
 *
 * -EINVAL: the spec or the options cannot be met. -EEXIST: the directory has lists of another
 * catalog or order with the same prefix (".PREFIX.shoal-manifest" in it records which). -EILSEQ: a
 * name contains a line end.
 */
SHOAL_CHECKED int shoal_manifest_write(const struct shoal_catalog *cat,
				       const struct shoal_order_spec *spec,
				       const struct shoal_manifest_options *options,
				       struct shoal_err *err);

/* ---- Batches by length ------------------------------------------------------------------ */

/*
 * Batches of samples of similar length, computed from a sorted column without loading it. The
 * samples are ordered by length and cut into buckets. Each epoch shuffles the samples of a bucket,
 * cuts them into batches, and puts the batches of all buckets into a new order. Every sample is in
 * one batch per epoch, except in batches that SHOAL_DROP leaves out. Any batch is computed by
 * itself, the same on every rank and machine: docs/design/order.md.
 */
struct shoal_batch_spec {
	uint64_t batch;      /* samples per batch; with max_tokens the most samples, 0: no limit */
	uint64_t max_tokens; /* the most tokens per batch: its longest length times its samples; 0:
				no limit */
	uint64_t bucket;     /* samples that are shuffled together; 0: those of 2 to 32 batches.
				Increased if there would be more than 65,536 buckets */
	uint64_t group; /* how many consecutive batches have similar lengths, for the ranks of a
			   step; 0: as many as ranks */
	bool in_order;  /* shortest first, without shuffling */
	bool frozen;    /* every epoch has the order of epoch 0 */
	enum shoal_remainder remainder; /* what happens to batches that do not fill a step */
	uint64_t seed;
	uint64_t nr_ranks;
	uint64_t consumed; /* batches of this epoch that any number of ranks have taken */
};

/* At most 800 KB for any number of samples. Threads may share it like an order. */
struct shoal_batches;

/* @column is lent until the batches are freed. -EINVAL if the spec cannot be met. */
SHOAL_CHECKED int shoal_batches_new(const struct shoal_column *column,
				    const struct shoal_batch_spec *spec, uint64_t epoch,
				    struct shoal_batches **ret_batches, struct shoal_err *err);

/* NULL is fine. Returns NULL. */
SHOAL_API struct shoal_batches *shoal_batches_free(struct shoal_batches *batches);

/* As shoal_order_set_epoch(), shoal_order_spec() and shoal_order_steps(). */
SHOAL_API void shoal_batches_set_epoch(struct shoal_batches *batches, uint64_t epoch);
SHOAL_API const struct shoal_batch_spec *shoal_batches_spec(const struct shoal_batches *batches);
SHOAL_API uint64_t shoal_batches_steps(const struct shoal_batches *batches);

/* The number of batches in an epoch, for all ranks together; and the samples in the largest. */
SHOAL_API uint64_t shoal_batches_count(const struct shoal_batches *batches);
SHOAL_API uint64_t shoal_batches_largest(const struct shoal_batches *batches);

/*
 * The sample ids that @rank reads in @step, counted from `consumed`, into @ids, which has room for
 * the largest batch. Returns how many; 0 in the last step with SHOAL_KEEP for ranks without a
 * batch. -ERANGE past the last step or rank; errors of the column as from shoal_column_read().
 */
SHOAL_CHECKED int64_t shoal_batches_get(const struct shoal_batches *batches, uint64_t step,
					uint64_t rank, uint64_t *ids);

/*
 * As shoal_order_save() and shoal_order_resume(); `consumed` counts batches. The number of ranks
 * may change if `group` stays the same.
 */
SHOAL_API void shoal_batches_save(const struct shoal_batches *batches, uint64_t steps,
				  struct shoal_order_state *ret_state);
SHOAL_CHECKED int shoal_batches_resume(const struct shoal_column *column,
				       const struct shoal_batch_spec *spec,
				       const struct shoal_order_state *state,
				       struct shoal_batches **ret_batches, struct shoal_err *err);

/* ---- Loading ---------------------------------------------------------------------------- */

/*
 * Reads the samples of a rank's epoch, in the order's sequence, with many reads in flight. Each
 * loader has one engine and one thread. Its memory depends on the bytes of the batches in flight,
 * not on the largest sample. Every byte of an epoch is read from the store in that epoch. A loader
 * belongs to one thread, except for shoal_loader_next() and shoal_loader_give_back(): several
 * threads may take batches of one epoch, each of which goes to one of them.
 */
struct shoal_loader;

enum shoal_engine {
	SHOAL_ENGINE_AUTO,    /* io_uring, and threads where they are faster or it does not work */
	SHOAL_ENGINE_URING,   /* files only */
	SHOAL_ENGINE_THREADS, /* each reads one sample at a time */
};

struct shoal_load_options {
	const char *store; /* where to read: a path or a URI; NULL: the catalog's root */
	const struct shoal_store_config *config; /* how to reach it, lent until the loader is open;
						    NULL: from the environment */
	enum shoal_engine engine;
	bool direct;      /* bypass the page cache */
	unsigned threads; /* that read, 1 to 256; 0: as many as pay, which changes while it runs */
	unsigned in_flight; /* samples that are read at once; 0: 64 */
	unsigned prefetch;  /* batches that are read ahead; 0: 2 */
	uint64_t slot;      /* bytes of the largest sample; 0: the largest in the catalog, or with
			       `pieces` 1 MiB if that is less. A larger sample fails with -EFBIG, or
			       comes in pieces */
	/*
	 * Limit for the buffers of all batches in flight and held, in bytes; a sample's buffer is a
	 * number of whole pages (4096 bytes). Fewer batches are read ahead if they would exceed it.
	 * A single batch that exceeds it ends the epoch with -ENOMEM; with `pieces` it has fewer
	 * pieces instead. 0: no limit except `prefetch`.
	 */
	uint64_t memory;
	bool pieces; /* deliver a sample that is larger than a slot as several pieces, in order */
	/*
	 * Only every `stride`-th of the rank's steps, from `first_step` on, for loaders that share
	 * a rank; 0: all steps.
	 */
	uint64_t first_step, stride;
	uint64_t steps;       /* read no more than this many steps of an epoch; 0: all */
	uint64_t object_size; /* size of every sample, instead of the catalog's, for a synthetic
				 store */
	bool part;            /* the order is for a range of the catalog's samples: */
	uint64_t first;       /* which starts at this one */
	bool skip_errors; /* deliver what could be read; otherwise the first error ends the epoch */
	/*
	 * Require that each object has the ETag that is stored in the catalog (If-Match): a changed
	 * object fails with -ESTALE. Needs a bucket, and a catalog with ETags: otherwise -EINVAL.
	 * Objects without a stored ETag are read without the check.
	 */
	bool if_match;
	uint64_t stall_ms;   /* report samples that are in flight for longer; 0: 10,000 */
	uint64_t timeout_ms; /* end the epoch if a sample takes longer; 0: never */
	const int
		*stop; /* shoal_loader_next() ends with -ECANCELED once it is not 0. May be NULL */
	/*
	 * Called on the loader's thread, with a message about which samples have been in flight
	 * since when. May be NULL.
	 */
	void (*stalled)(void *self, const char *words);
	/*
	 * Called about ten times a second on the caller's thread while shoal_loader_next() or
	 * shoal_loader_epoch() blocks, so that ranks learn that another one failed. If it fails,
	 * that call returns its error; the epoch is not ended. May be NULL.
	 */
	int (*waiting)(void *self, struct shoal_err *err);
	/*
	 * Called with the memory that samples are delivered from, one range that begins at a page,
	 * so that it can be registered with a GPU or a network card: by shoal_loader_open() before
	 * anything is read into it, and by shoal_loader_close() when nothing is any more, before it
	 * is unmapped; each on the thread that makes the call. If `memory_added` returns anything
	 * but 0 (a negative errno), opening fails, and `memory_removed` is not called. Either may
	 * be NULL.
	 *
	 * A sample lies in the range as a whole or not at all. With `memory` the range has room for
	 * that limit, or for the largest batches if they are smaller, and every sample lies in it.
	 * Without, it has room for batches of samples of mean size; what does not fit is in
	 * mappings that come and go with a batch and are not announced, and `pool_bytes` of the
	 * statistics is then larger than the range.
	 */
	int (*memory_added)(void *self, void *addr, size_t len);
	void (*memory_removed)(void *self, void *addr, size_t len);
	void *self;
};

struct shoal_sample {
	uint64_t id;      /* sample id */
	const void *data; /* lent until the batch is given back; NULL after an error */
	uint64_t len;
	int error; /* 0, or with skip_errors the negative errno of the read */
	/*
	 * Of a piece: its offset in the sample, and the sample's size. The pieces of a sample come
	 * in order, possibly in several batches; the next sample starts at 0 again. Otherwise 0 and
	 * len.
	 */
	uint64_t off, size;
};

/*
 * The samples of a step; with `pieces` a step has as many batches as it needs, of at most `batch`
 * pieces each.
 */
struct shoal_batch {
	uint64_t step;
	size_t nr;
	const struct shoal_sample *sample;
	bool last; /* last batch of its step */
};

/*
 * Open a loader for rank @rank of the order's ranks. The catalog is lent until the loader is
 * closed. -EINVAL if the options make no sense, or if the catalog has no sizes and no slot is
 * given.
 */
SHOAL_CHECKED int shoal_loader_open(const struct shoal_catalog *cat,
				    const struct shoal_order_spec *spec, uint64_t rank,
				    const struct shoal_load_options *options,
				    struct shoal_loader **ret_loader, struct shoal_err *err);

/* Batches that are still held become invalid. NULL is fine. Returns NULL. */
SHOAL_API struct shoal_loader *shoal_loader_close(struct shoal_loader *loader);

/*
 * Begin @epoch at its first step; the first time, at the spec's `consumed`. An unfinished epoch is
 * abandoned: the call waits until its reads have ended and discards them. With timeout_ms it waits
 * no longer than that and returns -ETIMEDOUT; a later call may succeed. Batches that are held stay
 * valid.
 */
SHOAL_CHECKED int shoal_loader_epoch(struct shoal_loader *loader, uint64_t epoch,
				     struct shoal_err *err);

/*
 * The next batch: 1, 0 at the end of the epoch, or an error, which ends the epoch: without
 * skip_errors, that of the first sample in sequence that could not be read. Up to `prefetch` + 1
 * batches may be held at once, or as many as leave room for the next one in `memory`; one more
 * returns -EBUSY and ends nothing. If several threads take batches, each holds one at least for a
 * moment, so `prefetch` is at least their number; all of them get the 0 or the error.
 */
SHOAL_CHECKED int shoal_loader_next(struct shoal_loader *loader,
				    const struct shoal_batch **ret_batch, struct shoal_err *err);

/* Let the loader use the batch's memory again. May be called by any thread. */
SHOAL_API void shoal_loader_give_back(struct shoal_loader *loader, const struct shoal_batch *batch);

/* Durations in ns, exact to 3 %. */
struct shoal_latency {
	uint64_t nr; /* how many durations */
	uint64_t p50, p90, p99, p999, max;
};

/* Figures of this epoch so far. */
struct shoal_load_stats {
	uint64_t nr_samples;      /* delivered, whole */
	uint64_t nr_errors;       /* samples of the batches taken that could not be read */
	uint64_t bytes_asked;     /* sum of the sizes according to the catalog, or object_size */
	uint64_t bytes_delivered; /* read from the store and handed out */
	/*
	 * Requests for samples or pieces, files opened for them, and bytes read: a request may read
	 * several samples and the gaps between them. Counted when a read ends, whether it is
	 * delivered or not.
	 */
	uint64_t nr_reads, nr_opens, bytes_read;
	uint64_t wait_ns; /* time that shoal_loader_next() blocked */
	uint64_t nr_pages,
		nr_cached; /* pages of the samples that were examined before reading: see audit */
	/*
	 * Sums that prove that each sample came once (docs/design/load.md); add them over all
	 * ranks.
	 */
	uint64_t sum_ids[2], sum_order[2];
	uint64_t pool_bytes;        /* the most bytes of memory for samples so far */
	uint64_t pool_now;          /* bytes of memory for samples now */
	const char *engine;         /* "uring", "threads" or "s3": what has read the most. Lent */
	const char *engine_detail;  /* how many threads and why. Lent until the next call */
	char first_errors[10][192]; /* messages of the first errors */
	/*
	 * Of successful reads: from when they began, without the time in a queue of Shoal's own, to
	 * the end; of that, until the file was open, and the rest. Pieces count separately; for
	 * stores that open nothing, `open` is empty.
	 */
	struct shoal_latency latency, open, read;
};

SHOAL_API void shoal_loader_stats(const struct shoal_loader *loader,
				  struct shoal_load_stats *ret_stats);

/*
 * Reads single samples on request, in any sequence, for callers with an order of their own. It has
 * no threads, and no memory between calls, so it may be used on both sides of a fork(2). All
 * functions may be called by any thread.
 */
struct shoal_reader;

/* The catalog is lent until it is closed; @store and @config as in shoal_load_options. */
SHOAL_CHECKED int shoal_reader_open(const struct shoal_catalog *cat, const char *store,
				    const struct shoal_store_config *config,
				    struct shoal_reader **ret_reader, struct shoal_err *err);
SHOAL_API struct shoal_reader *shoal_reader_close(struct shoal_reader *reader);

/*
 * From now on read only objects that have the ETag stored in the catalog: a changed object fails
 * with -ESTALE. Call it before the first read. -EINVAL for files, and for catalogs without ETags.
 */
SHOAL_CHECKED int shoal_reader_if_match(struct shoal_reader *reader, struct shoal_err *err);

/* The size of @sample in bytes, from the catalog, or from the store if the catalog has no sizes. */
SHOAL_CHECKED int shoal_reader_size(struct shoal_reader *reader, uint64_t sample,
				    uint64_t *ret_size, struct shoal_err *err);

/* A range of a file, and where its bytes go. */
struct shoal_range {
	uint64_t off, len;
	void *buf;
};

/*
 * Read @nr ranges of file @file, all inside its size in the catalog: a file of a directory is
 * opened once; of other stores up to @in_flight are read at once, by as many threads which end with
 * the call. Returns 0 when all are there, or the error of the first that could not be read.
 */
SHOAL_CHECKED int shoal_reader_ranges(struct shoal_reader *reader, uint64_t file,
				      const struct shoal_range *ranges, size_t nr,
				      unsigned in_flight, struct shoal_err *err);

struct shoal_read {
	uint64_t sample;
	void *buf;    /* with room for shoal_reader_size() + 1 bytes */
	uint64_t len; /* what shoal_reader_size() returned */
};

/*
 * Read @nr samples, up to @in_flight at once, with as many threads, which end with the call.
 * Returns 0 when all are read, or the error of the first that could not be read; the message names
 * it. A file that has fewer or more bytes than `len` is an error.
 */
SHOAL_CHECKED int shoal_reader_read(struct shoal_reader *reader, const struct shoal_read *reads,
				    size_t nr, unsigned in_flight, struct shoal_err *err);

/*
 * Read up to @len bytes of @sample from @off on, for samples that are too large for memory. Returns
 * how many, possibly fewer than @len, and 0 at the sample's end. -ENODATA, -EFBIG: the file is
 * shorter or longer than the catalog records; the latter is detected with the last bytes.
 */
SHOAL_CHECKED int64_t shoal_reader_part(struct shoal_reader *reader, uint64_t sample, uint64_t off,
					void *buf, size_t len, struct shoal_err *err);

struct shoal_drop_result {
	uint64_t nr_files; /* files without pages in the cache, now */
	uint64_t nr_kept;  /* files that still have pages there, which are being written, mapped or
			      locked */
	uint64_t nr_missing; /* files that could not be opened */
	bool known;          /* the kernel reports which pages stayed; otherwise nr_kept is 0 */
};

/*
 * Remove the dataset's files from the page cache, without being root. @share of @nr_shares divides
 * the files among the ranks of a node. @store and @config as in shoal_load_options.
 */
SHOAL_CHECKED int shoal_drop_cache(const struct shoal_catalog *cat, const char *store,
				   const struct shoal_store_config *config, uint64_t share,
				   uint64_t nr_shares, const int *stop,
				   struct shoal_drop_result *ret_result, struct shoal_err *err);

#ifdef __cplusplus
}
#endif

#endif
