/*
 * shoal.h - the public interface of libshoal.
 *
 * A catalog is a sealed, memory-mapped list of file names and sizes; an order is a pure function
 * from (seed, epoch, position) to a sample's id. Neither needs memory that grows with the number
 * of files, and both may be shared by any number of threads once they are open.
 *
 * Functions that can fail return 0 (or a count) or a negative errno, and write a sentence into the
 * caller's struct shoal_err, which may be NULL and is untouched on success. Outputs are named
 * ret_..., come last and are untouched on failure. The library never prints and never exits.
 *
 * Opening the first catalog installs a handler for SIGBUS, which turns reading past the end of a
 * file that shrank into -ESTALE; other SIGBUS go on to the handler that was there before. A program
 * that installs its own afterwards loses that protection, and threads must not block the signal.
 *
 * Until version 1.0 structures may get new fields, and the library's soname changes with them.
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
 * What a caller may do about a failure, where that depends on how the caller names its parameters.
 * The library knows the remedy; the command and the Python package each have their own words for
 * it. Numbers are never used again for something else.
 */
enum shoal_hint {
	SHOAL_HINT_NONE = 0,
	/* Resources. */
	SHOAL_HINT_LESS_MEMORY = 10, /* allow it less memory */
	SHOAL_HINT_MORE_MEMORY = 11, /* allow it at least hint_value bytes of memory */
	SHOAL_HINT_TMP_DIR = 12,     /* free some space, or use another temporary directory */
	SHOAL_HINT_FREE_SPACE = 13,  /* free some space, and make the same call again to go on */
	SHOAL_HINT_SAME_CALL = 14,   /* the same call goes on where this one ended */
	/* Catalogs and how they are made. */
	SHOAL_HINT_ROOT = 20,             /* give the catalog's root by another name */
	SHOAL_HINT_NAMES_ONLY = 21,       /* lines of the list have nothing but names */
	SHOAL_HINT_NUL_ENDS = 22,         /* names of the list end in NUL bytes */
	SHOAL_HINT_SIZES = 23,            /* index again, with sizes */
	SHOAL_HINT_ETAGS = 24,            /* index again, with ETags */
	SHOAL_HINT_WHERE = 25,            /* say what to compare the catalog with */
	SHOAL_HINT_KEEP_GOING = 26,       /* leave out what cannot be read */
	SHOAL_HINT_SAMPLES_PER_FILE = 27, /* index again, with another number of samples per file */
	SHOAL_HINT_SORT_COLUMN = 28,      /* sort the column first */
	SHOAL_HINT_REPLACE = 29,          /* write it in spite of that */
	SHOAL_HINT_REPEATED = 30,         /* say which of several entries counts */
	/* Reading. */
	SHOAL_HINT_SLOT = 40,        /* say how large a sample may be */
	SHOAL_HINT_LARGER_SLOT = 41, /* room for hint_value bytes per sample, or read in pieces */
	SHOAL_HINT_IF_MATCH = 42,    /* do not ask for a comparison of ETags */
	/* S3. */
	SHOAL_HINT_ENDPOINT = 60,  /* name the server that is to be trusted */
	SHOAL_HINT_CA = 61,        /* trust another certificate authority */
	SHOAL_HINT_ANONYMOUS = 62, /* send requests without keys */
	/* Benchmarks. */
	SHOAL_HINT_FORCE = 80,    /* write there in spite of it */
	SHOAL_HINT_COMPLETE = 81, /* complete the files that are there, or write them again */
	SHOAL_HINT_GENERATE = 82, /* generate the rest of the dataset */
	SHOAL_HINT_SAME_RUN = 83, /* resume with what the run had, or begin another */
	SHOAL_HINT_RESUME = 84,   /* continue the run that was interrupted */
	/* Processes. */
	SHOAL_HINT_LAUNCHER = 100, /* have the launcher start the processes as one MPI job */
};

/* What failed, on what and why, as a sentence; and what to do about it, as a code. */
struct shoal_err {
	char msg[768];
	enum shoal_hint hint;
	uint64_t hint_value; /* the number that some hints have, otherwise 0 */
};

/* A hint's name, such as "larger_slot". NULL for SHOAL_HINT_NONE and numbers that are unknown. */
SHOAL_API const char *shoal_hint_name(enum shoal_hint hint);

/* The library's version, such as "0.1.0". */
SHOAL_API const char *shoal_version(void);

/* ---- Stores ----------------------------------------------------------------------------- */

/*
 * How to reach storage on a server. What is NULL or 0 is taken from the environment, as the AWS
 * tools do: from AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and so on, then from the profile in ~/.aws. A
 * structure of zeros, or NULL instead of one, leaves all of it to the environment. So a process may
 * use several servers, with other keys for each.
 *
 * Strings are lent for the call that takes the structure. Secrets are in no message.
 */
struct shoal_store_config {
	const char *endpoint;   /* URL of the server; or several with commas, used in turn */
	const char *region;     /* as "us-east-1" */
	const char *access_key; /* with secret_key: then none of the environment's is used */
	const char *secret_key;
	const char *session_token; /* of these keys */
	const char *profile;      /* a section of the files in ~/.aws: its keys come before those in
				     environment variables */
	const char *ca_file;      /* a file of certificates to trust */
	const char *bucket_style; /* the bucket is in the "path" or the "virtual" host's name; or
				     "auto" */
	bool anonymous;           /* send requests without keys */
	unsigned max_tries;       /* of a request, the first included: up to 100 */
	unsigned connect_timeout; /* seconds, up to 3600 */
	unsigned timeout;         /* seconds without a byte, up to 3600 */
	unsigned backoff_ms;      /* longest pause before the second try, up to 60,000 */
	/* Of a directory: refuse symbolic links that lead out of it (-EXDEV); also if the
	 * environment has SHOAL_BENEATH=1. By default they are followed. */
	bool beneath;
};

/* Whether it makes sense by itself; nothing is asked or opened. -EINVAL, -ENOKEY with words. */
SHOAL_CHECKED int shoal_store_config_check(const struct shoal_store_config *config,
					   struct shoal_err *err);

/* ---- Catalog ---------------------------------------------------------------------------- */

/* Longest name in a catalog, in bytes, without a terminating NUL. */
#define SHOAL_NAME_MAX 4096

/* The size of a file whose size the catalog does not know. */
#define SHOAL_SIZE_UNKNOWN UINT64_MAX

/* An open catalog. Immutable: every function that takes a const one may be called by any thread. */
struct shoal_catalog;

/* What a catalog says of itself. The strings live as long as the catalog. */
struct shoal_catalog_info {
	const char *root;          /* URI that the names are relative to */
	uint64_t nr_files;         /* names */
	uint64_t nr_samples;       /* samples in all files together */
	uint64_t samples_per_file; /* 0 when it differs from file to file */
	uint64_t nr_bytes;         /* sum of the sizes, or SHOAL_SIZE_UNKNOWN */
	uint64_t file_bytes;       /* the catalog file itself */
	uint64_t size_bytes;       /* part of file_bytes that holds sizes */
	bool etags;                /* it keeps the ETags of objects */
	uint64_t etag_bytes;       /* part of file_bytes that holds those */
	uint64_t nr_segments;      /* stretches of names of one shape */
	uint32_t version;          /* of the file format */
	char digest[33];           /* of names, sizes and samples; hexadecimal */
	bool extents;              /* it has the extents of samples inside files */
	uint64_t nr_extents;       /* that are stored: files of one layout share them */
	uint64_t extent_bytes;     /* part of file_bytes that holds those */
	uint64_t longest;          /* bytes of the longest sample, if it has extents */
};

/*
 * Map the catalog at @path. O(1) in the number of names: damage inside is found when the damaged
 * page is first used, or at once by shoal_catalog_verify().
 *
 * A catalog in a bucket, "s3://bucket/name", is fetched first, into a file in $TMPDIR (or /tmp)
 * without a name: see shoal_catalog_options for processes that should share one. The AWS tools'
 * variables and files say which server, and with which keys.
 *
 * -EBADMSG: not a catalog, truncated, or damaged. -EPROTONOSUPPORT: made by a newer version.
 * Otherwise the errno of open(2), fstat(2) or mmap(2), or -EACCES, -ETIMEDOUT, -ECONNREFUSED and
 * others from the server.
 */
SHOAL_CHECKED int shoal_catalog_open(const char *path, struct shoal_catalog **ret_cat,
				     struct shoal_err *err);

struct shoal_catalog_options {
	/*
	 * A directory for a copy, for a catalog on storage that is slow or remote: the first
	 * process of a node to come makes the copy, named after its content, and the others wait
	 * for that and map it. It stays there for the next time. One that is damaged is made anew,
	 * and @err says so, though it is no error; otherwise @err is empty then. NULL: no copy.
	 */
	const char *copy_dir;
	const struct shoal_store_config *config; /* how to reach a bucket; NULL: the environment */
	const int *stop; /* ends with -ECANCELED once it is not 0. May be NULL */
	/* While it is fetched from a bucket: how many of its bytes are there. May be NULL. */
	void (*progress)(void *self, uint64_t nr_bytes, uint64_t nr_all);
	void *self;
};

/* The same with options, which are lent for the call; NULL is none. */
SHOAL_CHECKED int shoal_catalog_open_with(const char *path,
					  const struct shoal_catalog_options *options,
					  struct shoal_catalog **ret_cat, struct shoal_err *err);

/*
 * Put the handler of SIGBUS back in front, where something else has installed its own since the
 * first catalog was opened: that gets what is not ours. Nothing when it is in front already.
 */
SHOAL_API void shoal_catch_sigbus(void);

/* Unmap and free; NULL is fine. Returns NULL, for `cat = shoal_catalog_close(cat)`. */
SHOAL_API struct shoal_catalog *shoal_catalog_close(struct shoal_catalog *cat);

SHOAL_API void shoal_catalog_info(const struct shoal_catalog *cat,
				  struct shoal_catalog_info *ret_info);

/*
 * Copy the name of file @id into @buf, which has room for SHOAL_NAME_MAX + 1 bytes, and end it
 * with a NUL. Returns the name's length.
 *
 * -ERANGE past the end; -EBADMSG where the catalog is damaged; -ESTALE where the file shrank.
 */
SHOAL_CHECKED int shoal_catalog_name(const struct shoal_catalog *cat, uint64_t id, char *buf);

/* The size of file @id in bytes, or SHOAL_SIZE_UNKNOWN. Errors as shoal_catalog_name(). */
SHOAL_CHECKED int shoal_catalog_size(const struct shoal_catalog *cat, uint64_t id,
				     uint64_t *ret_size);

/* Longest ETag that a catalog keeps, in bytes: quotes, 32 digits, and the number of parts. */
#define SHOAL_ETAG_MAX 45

/*
 * Copy the ETag that file @id had when it was listed into @buf, which has room for SHOAL_ETAG_MAX
 * + 1 bytes, in its quotes, and end it with a NUL. Returns its length: 0 where none is kept, as of
 * an object whose ETag was not of the usual kind. Errors as shoal_catalog_name().
 */
SHOAL_CHECKED int shoal_catalog_etag(const struct shoal_catalog *cat, uint64_t id, char *buf);

/*
 * The size of the largest file, or SHOAL_SIZE_UNKNOWN. Of a catalog that is older than the field
 * for it this reads all sizes, some 400 million a second.
 */
SHOAL_CHECKED int shoal_catalog_largest(const struct shoal_catalog *cat, uint64_t *ret_size);

/* The id of the file called @name, of @len bytes. -ENOENT when there is none. */
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
	uint64_t len;  /* SHOAL_SIZE_UNKNOWN if the catalog has no sizes: the whole file */
	uint64_t rows; /* of a row group or a record batch; otherwise 1 */
};

/*
 * Where sample @index (from 0) of file @id lies. Without extents the samples of a file are equal
 * parts of it, of which the last includes the remainder. -ERANGE past the end.
 */
SHOAL_CHECKED int shoal_catalog_extent(const struct shoal_catalog *cat, uint64_t id, uint64_t index,
				       struct shoal_extent *ret_extent);

/* Files of one format whose samples are known, and how many samples they have. */
struct shoal_format_count {
	char name[16];
	uint64_t nr_files, nr_samples;
};

/* The formats of a catalog with extents in turn, from 0 on. -ERANGE after the last. */
SHOAL_CHECKED int shoal_catalog_format(const struct shoal_catalog *cat, uint64_t index,
				       struct shoal_format_count *ret_count);

/*
 * -ESTALE when the file that was opened has another length now, or can no longer be read. A catalog
 * that was replaced by another file of its name stays as it was.
 */
SHOAL_CHECKED int shoal_catalog_check_fresh(const struct shoal_catalog *cat, struct shoal_err *err);

/*
 * Read everything: all checksums, the sort order, the totals and the digest. The words name the
 * section and the offset of the first damage. O(1) memory.
 */
SHOAL_CHECKED int shoal_catalog_verify(const struct shoal_catalog *cat, struct shoal_err *err);

/*
 * Words for an error of one of the lookups above, which are too hot to make sentences: names the
 * section and offset of the damage where there is some. Returns @rc.
 */
SHOAL_API int shoal_catalog_explain(const struct shoal_catalog *cat, int rc, struct shoal_err *err);

/* Walks names in order, faster than by id. A cursor belongs to one thread. */
struct shoal_cursor;

/* A cursor that stands before file @id, which may be the number of files. */
SHOAL_CHECKED int shoal_cursor_new(const struct shoal_catalog *cat, uint64_t id,
				   struct shoal_cursor **ret_cursor, struct shoal_err *err);
SHOAL_API struct shoal_cursor *shoal_cursor_free(struct shoal_cursor *cursor);

/*
 * Step to the next file: 1 and its name (lent until the next step, ended by a NUL), 0 at the end,
 * or an error as shoal_catalog_name().
 */
SHOAL_CHECKED int shoal_cursor_next(struct shoal_cursor *cursor, const char **ret_name,
				    size_t *ret_len);

/* ---- Writing a catalog ------------------------------------------------------------------ */

/* A catalog being written. It belongs to one thread, and takes about 20 MB at any number of names.
 */
struct shoal_writer;

struct shoal_writer_options {
	const char *root;          /* URI that the names are relative to */
	bool sizes;                /* sizes are known */
	uint64_t samples_per_file; /* 0: given with each file */
	const char *tmp_dir;       /* for temporary files; NULL: beside the catalog */
	const char *listing;       /* how the names were found, as text; NULL: not known */
	bool etags;                /* keep ETags: 20 bytes per file */
	bool extents; /* keep the extents of samples, where parts that are appended have them */
};

/*
 * Start writing the catalog @path. Nothing appears under that name before shoal_writer_seal().
 * -EBUSY: another process is writing the same catalog.
 */
SHOAL_CHECKED int shoal_writer_open(const char *path, const struct shoal_writer_options *options,
				    struct shoal_writer **ret_writer, struct shoal_err *err);

/*
 * Add a file. Names come in rising bytewise order, each once, 1 to SHOAL_NAME_MAX bytes without a
 * NUL: else -EINVAL. @size and @samples count only where the options say so.
 */
SHOAL_CHECKED int shoal_writer_add(struct shoal_writer *writer, const char *name, size_t len,
				   uint64_t size, uint64_t samples, struct shoal_err *err);

/*
 * The same with an ETag, in quotes or without, which counts where the options say so. One that is
 * neither 32 lower-case hexadecimal digits nor these with "-" and a number is not kept, and so
 * is NULL.
 */
SHOAL_CHECKED int shoal_writer_add_object(struct shoal_writer *writer, const char *name, size_t len,
					  uint64_t size, uint64_t samples, const char *etag,
					  struct shoal_err *err);

/*
 * Add all files of @part, whose names come after those added so far, without decoding them. The
 * roots must be the same, and both know sizes or neither; a writer that was given samples_per_file
 * takes only parts with that number, one that was given 0 takes any; one that keeps ETags takes
 * only parts that have them.
 */
SHOAL_CHECKED int shoal_writer_append(struct shoal_writer *writer, const struct shoal_catalog *part,
				      struct shoal_err *err);

/* Write what is left, sync, and give the catalog its name. Frees the writer, also on failure. */
SHOAL_CHECKED int shoal_writer_seal(struct shoal_writer *writer, struct shoal_err *err);

/* Give up: nothing is left behind. NULL is fine. Returns NULL. */
SHOAL_API struct shoal_writer *shoal_writer_abort(struct shoal_writer *writer);

/* ---- Making a catalog ------------------------------------------------------------------- */

/* How far it is. */
struct shoal_index_progress {
	bool sealing;        /* names are listed, and now written */
	uint64_t nr_names;   /* listed, or written */
	uint64_t nr_pending; /* parts of a tree that nobody has begun */
	const char *where;   /* the name listed last, or "". Lent */
};

struct shoal_index_options {
	const char *output;  /* the catalog to write: a file, or an object, as s3://bucket/name */
	const char *root;    /* URI or path; NULL: from the first name, or the current folder */
	const char *tmp_dir; /* for sorted runs; NULL: beside the catalog */
	uint64_t memory;     /* bytes, for all of it; 0 means SHOAL_INDEX_MEMORY */
	uint64_t samples_per_file; /* 0 means 1, or what the list says */
	/*
	 * Open each file and look up where its samples lie: "auto", by the end of its name, or one
	 * of parquet, arrow, webdataset, tar, tfrecord, npz, npy, hdf5, csv, jsonl, whole,
	 * "fixed:BYTES". NULL: no file is opened. Not of a pattern.
	 */
	const char *samples;
	/*
	 * Replace only what is safe to replace. -ENOENT rather than a catalog without names;
	 * -EEXIST if the output is not a catalog, or one with more than twice as many names as
	 * were found. What was there stays.
	 */
	bool careful;
	const struct shoal_store_config *config; /* how to reach a bucket; NULL: the environment */
	const int *stop; /* ends with -ECANCELED once it is not 0. May be NULL */
	/* Called now and then, by the calling thread. May be NULL. */
	void (*progress)(void *self, const struct shoal_index_progress *progress);
	/* Something that was left out, with keep_going: by any thread, one at a time, also while
	 * progress() runs. May be NULL. */
	void (*warn)(void *self, const char *words);
	void *self; /* for these */
};

#define SHOAL_INDEX_MEMORY     (UINT64_C(256) << 20)
#define SHOAL_INDEX_MEMORY_MIN (UINT64_C(48) << 20)

struct shoal_index_result {
	uint64_t nr_names;    /* in the catalog */
	uint64_t nr_repeated; /* entries dropped because a later one had the same name */
	uint64_t nr_blank;    /* empty lines of a list */
	uint64_t nr_sealers;  /* threads that merged and encoded, each a range of names */
	/* Of a tree: */
	uint64_t nr_directories; /* that were read */
	uint64_t nr_unchanged;   /* that were not, because they had not changed */
	uint64_t nr_reused;      /* names in those, taken from the catalog to update */
	uint64_t nr_resumed;     /* names that had been listed before it was interrupted */
	uint64_t nr_vanished;    /* gone between being seen and being asked for */
	uint64_t nr_links;       /* symbolic links that were not followed, or lead nowhere */
	uint64_t nr_loops;       /* links to a directory above them */
	uint64_t nr_special;     /* sockets, pipes, devices */
	uint64_t nr_other_fs;    /* directories of other file systems */
	uint64_t nr_filtered;    /* files and directories that were not wanted */
	uint64_t nr_unreadable;  /* what could not be read, with keep_going */
	uint64_t nr_odd_etags;   /* objects whose ETag is not kept, with etags: see there */
	uint64_t nr_samples;     /* found inside files, with samples */
	uint64_t nr_uncut; /* files that are one sample, as their samples are not contiguous */
	uint64_t nr_known; /* files not opened: an update or an earlier run has their samples */
	/* Of a bucket: */
	uint64_t nr_requests;  /* sent for the listing */
	uint64_t nr_retries;   /* of them, sent again */
	uint64_t nr_throttled; /* answers that asked to slow down */
	uint64_t busy_us;      /* connections had a request, added up */
	uint64_t allowed_us;   /* they could have had one: connections times the time it took */
};

/*
 * Read names from @fd, one a line (or, with @separator 0, ended by NUL bytes), each with an
 * optional size and number of samples after tabs, in any order; @names_only takes tabs as part of
 * the name. Absolute names and URIs are made relative to the root.
 */
SHOAL_CHECKED int shoal_index_list(int fd, char separator, bool names_only,
				   const struct shoal_index_options *options,
				   struct shoal_index_result *ret_result, struct shoal_err *err);

/* Lists that other tools write, in any order; plain, or compressed by gzip. */
enum shoal_import {
	SHOAL_IMPORT_FIND, /* find -printf '%s %p\n': a size, a blank, a path */
	SHOAL_IMPORT_GPFS, /* mmapplypolicy: three numbers, the size if SHOW has it, " -- ", a path
			    */
	SHOAL_IMPORT_INVENTORY, /* S3 Inventory, as comma-separated values */
};

struct shoal_import_options {
	enum shoal_import format;
	bool null; /* lines end with NUL bytes */
	/*
	 * Of an inventory, as "fileSchema" in its manifest.json has them; NULL: "Bucket, Key,
	 * Size". Of Bucket, Key, Size, ETag, IsLatest and IsDeleteMarker use is made: old versions
	 * and deleted objects are left out, and counted in nr_filtered.
	 */
	const char *columns;
};

/* As shoal_index_list(), of a list that another tool wrote. */
SHOAL_CHECKED int shoal_index_import(int fd, const struct shoal_import_options *import,
				     const struct shoal_index_options *options,
				     struct shoal_index_result *ret_result, struct shoal_err *err);

struct shoal_tree_options {
	bool no_sizes;   /* do not ask for sizes: many times faster */
	bool follow;     /* symbolic links are what they lead to; else they are left out */
	bool one_fs;     /* stay on the file system of the root */
	bool keep_going; /* leave out what cannot be read, and warn */
	/* Shell patterns of names to take in (none: all) and to leave out: see `shoal index
	 * --help`. */
	const char *const *include, *const *exclude;
	size_t nr_include, nr_exclude;
	unsigned nr_threads; /* 0: what suits the machine */
	/*
	 * A catalog of the same tree, made earlier with the same options: directories in which
	 * nothing was added or removed since are not read again, and their files keep their sizes.
	 * NULL: none.
	 */
	const char *update;
	/*
	 * Go on with a listing for the same output that was interrupted, if there is one; and keep
	 * what is listed beside the output, for the next call, until it is sealed. For one process.
	 */
	bool resume;
	/*
	 * Of a bucket, list only part shard (from 0 on) of nr_shards about equal ranges of keys.
	 * All who list parts of the same bucket, unchanged meanwhile, agree on them without asking
	 * each other. 0: all of it.
	 */
	unsigned shard, nr_shards;
	/*
	 * Of a bucket, keep the ETag of each object, in 20 bytes: so that objects which change can
	 * be told from those that were listed. ETags that are not an MD5, or one of parts, are not
	 * kept, and counted.
	 */
	bool etags;
};

/*
 * List all regular files below @where, a path or a file:// URI, as names relative to it. Hard links
 * are as many files as they have names. Or all objects below an s3:// URI: a bucket, or a prefix
 * in one, to which a slash is added.
 */
SHOAL_CHECKED int shoal_index_tree(const char *where, const struct shoal_tree_options *tree,
				   const struct shoal_index_options *options,
				   struct shoal_index_result *ret_result, struct shoal_err *err);

struct shoal_pattern {
	const char *format;  /* a name with one number: "train/img_{:07d}_of_1170301.jpeg" */
	uint64_t first;      /* the first number */
	uint64_t count;      /* how many */
	uint64_t subfolders; /* over 1: the number modulo this is a folder before the last part */
	uint64_t size;       /* of every file, or SHOAL_SIZE_UNKNOWN */
};

/* Write the catalog of the names that a pattern makes, without any list. */
SHOAL_CHECKED int shoal_index_pattern(const struct shoal_pattern *pattern,
				      const struct shoal_index_options *options,
				      struct shoal_index_result *ret_result, struct shoal_err *err);

/* ---- Comparing with the storage --------------------------------------------------------- */

enum shoal_difference {
	SHOAL_MISSING, /* in the catalog, but not there now */
	SHOAL_NEW,     /* there, but not in the catalog */
	SHOAL_RESIZED, /* there with another size */
	SHOAL_CHANGED, /* there with the same size, and another ETag */
	SHOAL_INSIDE,  /* there, but its samples lie elsewhere in it */
};

struct shoal_compare_options {
	const char *where;   /* a path or URI to look at; NULL: the catalog's root */
	const char *catalog; /* the catalog's own path, which is not part of the dataset; or NULL */
	const char *tmp_dir; /* for sorted runs; NULL: $TMPDIR, or /tmp */
	uint64_t memory;     /* bytes, for all of it; 0 means SHOAL_INDEX_MEMORY */
	unsigned nr_threads; /* 0: what suits the machine */
	const struct shoal_store_config *config; /* how to reach a bucket; NULL: the environment */
	bool keep_going;                         /* take what cannot be read as missing, and warn */
	bool samples; /* open each file that is the same, and look up its samples: -EINVAL if the
			 catalog does not have where samples lie inside files */
	void (*warn)(void *self, const char *words); /* by any thread, one at a time; or NULL */
	const int *stop; /* ends with -ECANCELED once it is not 0. May be NULL */
	/* Each difference, in the order of names; those inside files at the end. 0 to go on, or an
	 * error to end with. May be NULL. */
	int (*differs)(void *self, enum shoal_difference what, const char *name, size_t len,
		       uint64_t was, uint64_t is);
	void (*progress)(void *self, const struct shoal_index_progress *progress); /* or NULL */
	void *self;
};

struct shoal_compare_result {
	uint64_t nr_same, nr_missing, nr_new, nr_resized;
	uint64_t nr_changed; /* always 0 where the catalog has no ETags, or not of a bucket */
	uint64_t nr_inside;  /* with other samples, or damaged ones, with samples */
};

/*
 * List what is there now, with the patterns that the catalog was made with, and compare names, and
 * sizes where the catalog has them, and of a bucket ETags where it has them. Streams; memory as for
 * an index.
 */
SHOAL_CHECKED int shoal_catalog_compare(const struct shoal_catalog *cat,
					const struct shoal_compare_options *options,
					struct shoal_compare_result *ret_result,
					struct shoal_err *err);

/* ---- Lists as streams ------------------------------------------------------------------- */

/* A file as a list delivers it. What it points to is lent until the next step. */
struct shoal_entry {
	const char *name; /* relative to the list's root, ended by a NUL */
	size_t len;
	uint64_t size;    /* or SHOAL_SIZE_UNKNOWN */
	uint64_t samples; /* 1, unless a catalog has another number */
	const char *etag; /* in quotes; "" if there is none */
	uint64_t id;      /* in its catalog; of a store, how many came before it */
};

/*
 * Which files a list delivers. Zeros and NULL: all of them. Everything is lent until the list is
 * closed.
 */
struct shoal_select {
	/* Shell patterns of names to take in (none: all) and to leave out, as for an index. */
	const char *const *include, *const *exclude;
	size_t nr_include, nr_exclude;
	const char *regex;       /* POSIX extended, to be found somewhere in the name */
	bool ignore_case;        /* of the regular expression */
	uint64_t min_size;       /* bytes; files of unknown size are refused: -EINVAL */
	uint64_t max_size;       /* bytes; 0: no limit */
	const char *start_after; /* names after this one, which need not exist */
	const char *end_before;  /* names before this one, which need not exist */
	uint64_t limit;          /* at most so many; 0: no limit */
	/* Only names that this catalog has, or, with `not_in`, only those that it does not have. */
	const struct shoal_catalog *names;
	bool not_in;
	/*
	 * A share of the names: those whose hash with the key `seed`, as a fraction of 1, is at
	 * least `from` and less than `to`. It depends on the name alone, so that a file stays in
	 * its share when others come and go. `to` 0: all.
	 */
	double from, to;
	uint64_t seed;
};

struct shoal_list_options {
	struct shoal_select select;
	bool no_sizes;   /* do not request sizes, which of files cost many times what names cost */
	bool etags;      /* of a bucket: request ETags */
	bool follow;     /* symbolic links are what they lead to; otherwise they are left out */
	bool one_fs;     /* stay on the file system of the root */
	bool keep_going; /* leave out what cannot be read, and warn */
	unsigned nr_threads; /* that list ahead; 0: what suits the store */
	/*
	 * Only part shard (from 0 on) of nr_shards disjoint parts: of a bucket an interval of keys,
	 * on which all callers agree as long as the bucket is unchanged; of a directory the names
	 * with that hash modulo nr_shards, so that every caller reads the whole tree. 0: all.
	 */
	unsigned shard, nr_shards;
	const char *tmp_dir; /* for directories that exceed memory; NULL: $TMPDIR, or /tmp */
	const struct shoal_store_config *config; /* how to reach a bucket; lent for the call */
	const int *stop; /* a step ends with -ECANCELED once it is not 0. May be NULL */
	/* Something that was left out, with keep_going: by any thread, one at a time. May be NULL.
	 */
	void (*warn)(void *self, const char *words);
	void *self;
};

struct shoal_list;

/*
 * List the files below @uri, a directory or a bucket (as for shoal_index_tree()), in bytewise order
 * of their names, without a catalog and in memory that does not grow with their number. Threads
 * list ahead of the caller, up to a limit; a directory that is too large for memory is sorted in a
 * temporary file. Files that change meanwhile may or may not be delivered; the others are, once.
 */
SHOAL_CHECKED int shoal_list_open(const char *uri, const struct shoal_list_options *options,
				  struct shoal_list **ret_list, struct shoal_err *err);

/* The same stream from a catalog, which is lent until the list is closed. @select may be NULL. */
SHOAL_CHECKED int shoal_list_catalog(const struct shoal_catalog *cat,
				     const struct shoal_select *select,
				     struct shoal_list **ret_list, struct shoal_err *err);

enum shoal_repeated {
	SHOAL_REPEATED_LAST, /* of a name in several lists the last one's entry is taken */
	SHOAL_REPEATED_FAIL, /* a name in several lists is an error: -EEXIST */
};

/*
 * One list of all that is in @nr lists. It takes them over, and closes them with itself; after a
 * failure they are still the caller's. Its root is that of the first.
 */
SHOAL_CHECKED int shoal_list_merge(struct shoal_list *const *lists, size_t nr,
				   enum shoal_repeated repeated, struct shoal_list **ret_list,
				   struct shoal_err *err);

struct shoal_list_info {
	const char *root; /* URI that the names are relative to; lent until the list is closed */
	bool sizes;       /* entries have sizes */
	bool etags;       /* entries have ETags, as far as they can be kept */
	uint64_t samples_per_file; /* 0 if it differs from file to file */
	bool extents; /* of a catalog that knows where samples lie inside files: entries do not */
};

SHOAL_API void shoal_list_info(const struct shoal_list *list, struct shoal_list_info *ret_info);

/* Step to the next file: 1, 0 at the end, or an error, after which the list can only be closed.
 * By one thread at a time. */
SHOAL_CHECKED int shoal_list_next(struct shoal_list *list, const struct shoal_entry **ret_entry,
				  struct shoal_err *err);

/*
 * Have @waiting called by the thread that steps, some ten times per second while that takes long:
 * a value other than 0 ends the list with -ECANCELED.
 */
SHOAL_API void shoal_list_set_waiting(struct shoal_list *list, int (*waiting)(void *self),
				      void *self);

/* End its threads and free it. NULL is fine. Returns NULL. */
SHOAL_API struct shoal_list *shoal_list_close(struct shoal_list *list);

struct shoal_list_totals {
	uint64_t nr_files, nr_samples;
	uint64_t nr_bytes; /* SHOAL_SIZE_UNKNOWN if sizes are not known */
};

/* Step to the end and count. */
SHOAL_CHECKED int shoal_list_count(struct shoal_list *list, struct shoal_list_totals *ret_totals,
				   struct shoal_err *err);

struct shoal_write_options {
	const char *output; /* the catalog to write: a file, or an object s3://bucket/name */
	const struct shoal_store_config *config; /* for an object; NULL: the environment's */
	const char *root;                        /* URI; NULL: the list's own */
	const char *tmp_dir;                     /* NULL: beside the catalog */
	uint64_t samples_per_file; /* of every file, instead of the list's; 0: the list's */
	bool dry_run;              /* write nothing, and compute the totals all the same */
	bool refuse_empty; /* -ENOENT rather than a catalog without names; what was there stays */
	const int *stop;   /* ends with -ECANCELED once it is not 0. May be NULL */
	void (*progress)(void *self, uint64_t nr_names); /* now and then. May be NULL */
	void *self;
};

/* Write the rest of a list to a catalog, in about 20 MB at any number of names. */
SHOAL_CHECKED int shoal_list_write(struct shoal_list *list,
				   const struct shoal_write_options *options,
				   struct shoal_list_totals *ret_totals, struct shoal_err *err);

/*
 * Join catalogs, such as the parts of a bucket that were listed apart, to one. All have the same
 * root, or options->root replaces them; all know sizes, or none does: otherwise -EINVAL. If the
 * names of each come after those of the one before, they are copied without decoding them.
 */
SHOAL_CHECKED int shoal_catalog_merge(const struct shoal_catalog *const *cats, size_t nr,
				      enum shoal_repeated repeated,
				      const struct shoal_write_options *options,
				      struct shoal_list_totals *ret_totals, struct shoal_err *err);

struct shoal_diff_options {
	/* Each difference, in the order of names: as in shoal_compare_options. May be NULL. */
	int (*differs)(void *self, enum shoal_difference what, const char *name, size_t len,
		       uint64_t was, uint64_t is);
	void *self;
	const int *stop; /* ends with -ECANCELED once it is not 0. May be NULL */
	void (*progress)(void *self, uint64_t nr_names); /* compared, now and then. May be NULL */
};

/*
 * Compare what @old has with what @new has: names, sizes where both have them, and ETags where both
 * have them. SHOAL_MISSING is in @old only, SHOAL_NEW in @new only.
 */
SHOAL_CHECKED int shoal_list_diff(struct shoal_list *old, struct shoal_list *new_list,
				  const struct shoal_diff_options *options,
				  struct shoal_compare_result *ret_result, struct shoal_err *err);

#define SHOAL_STAT_TOP   100 /* folders and extensions, the largest; and largest files */
#define SHOAL_STAT_DEPTH 64

struct shoal_stat_row {
	char *name; /* of a folder: without a slash at its end, "" for the root; ".jpg" */
	uint64_t nr_files, nr_bytes;
};

/* Figures about a dataset. All of bounded size, whatever the number of files. */
struct shoal_stat {
	struct shoal_list_totals totals;
	uint64_t
		nr_folders; /* at the depth that was asked for, the root included if it has files */
	uint64_t nr_extensions;
	/* Largest first, by bytes, or by files if sizes are not known. */
	struct shoal_stat_row folder[SHOAL_STAT_TOP], extension[SHOAL_STAT_TOP],
		largest[SHOAL_STAT_TOP];
	size_t nr_folder_rows, nr_extension_rows, nr_largest;
	/* Files of 0 bytes, then of 2^(i-1) up to 2^i - 1 bytes. */
	uint64_t sizes[65], bytes[65];
	uint64_t min_size, max_size;
	uint64_t depth[SHOAL_STAT_DEPTH]; /* files by the slashes in their names; the last: or more
					   */
	uint64_t max_depth, longest_name;
	/* Files whose extension did not fit into the table of 4096: they are in no row. */
	uint64_t nr_other_extensions;
};

/* Step to the end and count. Folders are those with @depth parts (0 means 1), or fewer. Release it
 * after success. */
SHOAL_CHECKED int shoal_list_stat(struct shoal_list *list, unsigned depth,
				  struct shoal_stat *ret_stat, struct shoal_err *err);
SHOAL_API void shoal_stat_release(struct shoal_stat *stat);

/* ---- Columns ---------------------------------------------------------------------------- */

/*
 * A column is one number a sample, in a file of its own beside the catalog: a length, a label, a
 * flag. It is mapped like a catalog, and open ones may be shared by threads in the same way.
 * docs/format/column.md.
 */
struct shoal_column;

enum shoal_column_type {
	SHOAL_BIT = 1, /* a flag: in arrays of values one byte each, 0 or not */
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
	uint64_t first;      /* sample of the first value; 0 but for parts */
	uint64_t nr;         /* values */
	uint64_t nr_samples; /* of the catalog; equal to nr but for parts */
	uint64_t nr_ones;    /* SHOAL_BIT: values that are 1 */
	uint64_t nr_sorted;  /* samples in the sorted order; SHOAL_UNSORTED without one */
	bool kept_only;      /* that order leaves out what a keep column leaves out */
	double min, max;     /* 0 without values */
	uint64_t file_bytes;
	uint64_t hash;   /* of values and order: tells columns of one catalog apart */
	char digest[33]; /* of the catalog */
};

#define SHOAL_UNSORTED UINT64_MAX

/*
 * Map the column at @path. With @digest (a catalog's, 32 digits; may be NULL) -ESTALE when it
 * belongs to another catalog. Else as shoal_catalog_open().
 */
SHOAL_CHECKED int shoal_column_open(const char *path, const char *digest,
				    struct shoal_column **ret_column, struct shoal_err *err);

/* NULL is fine. Returns NULL. */
SHOAL_API struct shoal_column *shoal_column_close(struct shoal_column *column);

SHOAL_API void shoal_column_info(const struct shoal_column *column,
				 struct shoal_column_info *ret_info);

/*
 * The values of @nr samples from @first on into @values, an array of the column's type.
 * -ERANGE past either end; -EBADMSG where it is damaged; -ESTALE where the file shrank.
 */
SHOAL_CHECKED int shoal_column_read(const struct shoal_column *column, uint64_t first, uint64_t nr,
				    void *values);

/* SHOAL_BIT, whole: the sample with the @nth 1, from 0. -ERANGE past the last. */
SHOAL_CHECKED int shoal_column_select(const struct shoal_column *column, uint64_t nth,
				      uint64_t *ret_sample);

/* SHOAL_BIT, whole: how many samples before @sample, at most the number of them, have a 1. */
SHOAL_CHECKED int shoal_column_rank(const struct shoal_column *column, uint64_t sample,
				    uint64_t *ret_nr);

/* The samples at @nr places from @place on of the sorted order: smallest value first. */
SHOAL_CHECKED int shoal_column_sorted(const struct shoal_column *column, uint64_t place,
				      uint64_t nr, uint64_t *ids);

/* Read everything: all checksums, ranks, smallest and largest, and the order. O(1) memory. */
SHOAL_CHECKED int shoal_column_verify(const struct shoal_column *column, struct shoal_err *err);

/* A column being written, by one thread, in about 1 MB. */
struct shoal_column_writer;

struct shoal_column_options {
	const char *name; /* 1 to 63 bytes of UTF-8 */
	enum shoal_column_type type;
	const char *digest;  /* of the catalog */
	uint64_t nr_samples; /* of the catalog */
	uint64_t first, nr;  /* the samples to be written: all of them but for parts */
};

/* Nothing appears under @path before shoal_column_seal(). -EBUSY: another process writes it. */
SHOAL_CHECKED int shoal_column_create(const char *path, const struct shoal_column_options *options,
				      struct shoal_column_writer **ret_writer,
				      struct shoal_err *err);

/* Add the next @nr values, an array of the column's type. */
SHOAL_CHECKED int shoal_column_append(struct shoal_column_writer *writer, const void *values,
				      uint64_t nr, struct shoal_err *err);

/* -EINVAL when values are missing. Frees the writer, also on failure. */
SHOAL_CHECKED int shoal_column_seal(struct shoal_column_writer *writer, struct shoal_err *err);

/* Give up: nothing is left behind. NULL is fine. Returns NULL. */
SHOAL_API struct shoal_column_writer *shoal_column_abort(struct shoal_column_writer *writer);

/* Put parts together, given in the order of samples, to the whole column @path. */
SHOAL_CHECKED int shoal_column_join(const char *path, const char *const *parts, size_t nr_parts,
				    struct shoal_err *err);

/*
 * Write the whole column again as @path, which may be its own name, with the order of its samples
 * by value; of those only for which @keep (may be NULL), a SHOAL_BIT of the same catalog, has a 1.
 * Takes up to @memory bytes (0 means 64 MiB), whatever the number of samples.
 */
SHOAL_CHECKED int shoal_column_sort(const struct shoal_column *column,
				    const struct shoal_column *keep, const char *path,
				    uint64_t memory, const int *stop, struct shoal_err *err);

/* "u32" and so on; NULL when there is no such type. And back: -EINVAL. */
SHOAL_API const char *shoal_column_type_name(enum shoal_column_type type);
SHOAL_CHECKED int shoal_column_type_of(const char *name, enum shoal_column_type *ret_type);

/* ---- Order ------------------------------------------------------------------------------ */

/*
 * An epoch puts T samples at the positions 0 to T - 1. Step t of an order gives slot j of rank r
 *
 *	position = consumed + (t * nr_ranks + r) * batch + j
 *
 * so that what has been read after any step is a prefix of the positions, and a run can go on with
 * other ranks and another batch. What comes at a position is computed from (seed, epoch, position)
 * alone, the same on every machine and in every version: docs/design/order.md.
 */
enum shoal_mode {
	SHOAL_SEQUENTIAL, /* samples as the catalog has them */
	SHOAL_GLOBAL,     /* all samples permuted */
	SHOAL_FILES,      /* units permuted, samples of a unit in order */
	SHOAL_WINDOW,     /* units permuted, samples mixed over a window of units */
	SHOAL_LOCAL,      /* each rank permutes only its own contiguous share: see below */
};

/*
 * In SHOAL_LOCAL rank r owns the samples from r * T / W up to (r + 1) * T / W, rounded down, so
 * some ranks have one more than others. A step takes the next `batch` of each rank's own; in the
 * last step SHOAL_DROP leaves out what the smallest share cannot fill, SHOAL_PAD wraps round in the
 * rank's share, and SHOAL_KEEP gives each rank what it has left. `consumed` is then a multiple of
 * the ranks, or T; the batch may change on the way, but the number of ranks may not. Positions of a
 * step that is not full are counted without the gaps, and last come those of the larger shares.
 */

enum shoal_remainder {
	SHOAL_DROP, /* leave out the samples that do not fill a step of all ranks */
	SHOAL_PAD,  /* wrap round to the epoch's first positions */
	SHOAL_KEEP, /* a short or empty last batch; ranks differ by at most one batch */
};

/* Largest number of samples that can be put in order, and that all ranks can take in a step. */
#define SHOAL_ORDER_SAMPLES_MAX (UINT64_C(1) << 48)

/* All that decides the order of an epoch. Zero is a default where noted. */
struct shoal_order_spec {
	enum shoal_mode mode;
	enum shoal_remainder remainder;
	uint64_t seed;
	bool frozen;         /* every epoch in the order of epoch 0 */
	uint64_t nr_samples; /* T */
	uint64_t unit;       /* FILES, WINDOW: consecutive samples that stay together; 0 means 1 */
	uint64_t window;     /* WINDOW: units mixed with each other; 0 means 16 */
	uint64_t nr_ranks;   /* W */
	uint64_t batch;      /* B, samples a rank takes in a step */
	uint64_t consumed;   /* positions already read in this epoch by any number of ranks */
	/*
	 * SEQUENTIAL, FILES, WINDOW: the epoch is cut into this many lanes of equal length, which
	 * get `lane_batch` positions each in turn; 0 means 1. With as many lanes as ranks, and
	 * their batch, each rank reads units of its own. Any ranks and batch can resume.
	 */
	uint64_t lanes;
	uint64_t lane_batch; /* 0 means batch */
};

/*
 * The order of one epoch: about 20 KB whatever the number of samples. Immutable but for
 * shoal_order_set_epoch(); the functions that take a const one may be called by any thread.
 */
struct shoal_order;

/* -EINVAL with words when the spec cannot be met. Fewer samples than a step of SHOAL_DROP can. */
SHOAL_CHECKED int shoal_order_new(const struct shoal_order_spec *spec, uint64_t epoch,
				  struct shoal_order **ret_order, struct shoal_err *err);

/* NULL is fine. Returns NULL. */
SHOAL_API struct shoal_order *shoal_order_free(struct shoal_order *order);

/* Go to @epoch, at its first position. Microseconds, at any number of samples. */
SHOAL_API void shoal_order_set_epoch(struct shoal_order *order, uint64_t epoch);

/* The spec as it is now: defaults put in, `consumed` 0 after shoal_order_set_epoch(). Lent. */
SHOAL_API const struct shoal_order_spec *shoal_order_spec(const struct shoal_order *order);

/* Steps from the spec's `consumed` to the end of the epoch: the same number for all ranks. */
SHOAL_API uint64_t shoal_order_steps(const struct shoal_order *order);

/*
 * The sample ids that @rank reads in @step, counted from `consumed`, into @ids with room for a
 * batch. Returns how many: `batch`, or fewer (also none) in the last step under SHOAL_KEEP.
 * -ERANGE past the last step or rank. Random access: no step is computed from another.
 *
 * In SHOAL_WINDOW and SHOAL_LOCAL a call costs up to 20 microseconds more while a window or share
 * has no more than 4096 samples, so there few large batches are better than many small ones.
 */
SHOAL_CHECKED int64_t shoal_order_batch(const struct shoal_order *order, uint64_t step,
					uint64_t rank, uint64_t *ids);

/*
 * The sample ids at @nr positions anywhere in the epoch, also before `consumed`. @ids may be
 * @positions itself. -ERANGE for one past the end, and then @ids is untouched.
 */
SHOAL_CHECKED int shoal_order_at(const struct shoal_order *order, const uint64_t *positions,
				 size_t nr, uint64_t *ids);

/* The inverse: at which position of this epoch sample @id comes. -ERANGE past the end. */
SHOAL_CHECKED int shoal_order_position(const struct shoal_order *order, uint64_t id,
				       uint64_t *ret_position);

/* What a checkpoint keeps. Three numbers, and the dataset they belong to. */
struct shoal_order_state {
	uint64_t seed;
	uint64_t epoch;
	uint64_t consumed;
	char digest[33];   /* of the catalog */
	uint64_t nr_ranks; /* LOCAL: the ranks that saved it, whose shares it speaks of; else 0 */
	uint64_t order;    /* a hash of mode, unit, window, lanes, frozen and samples, and of their
			      meaning */
	uint64_t lanes, lane_batch; /* with more than one lane; else 0 */
};

/*
 * The state after @steps steps of this order over the catalog with @digest, which has at most 32
 * characters. More steps than there are count as all of them.
 */
SHOAL_API void shoal_order_save(const struct shoal_order *order, uint64_t steps, const char *digest,
				struct shoal_order_state *ret_state);

/*
 * Continue @state with @spec, whose ranks and batch may differ from those that made it; the spec's
 * own seed and consumed are not used. -ESTALE when @digest is of another catalog. -ENOTSUP when
 * the state is of another order (mode, unit, window, lanes, frozen or number of samples), or when
 * other ranks saved it in SHOAL_LOCAL. Where the spec has 0 lanes, those of the state are used.
 * Errors otherwise as shoal_order_new().
 */
SHOAL_CHECKED int shoal_order_resume(const struct shoal_order_spec *spec,
				     const struct shoal_order_state *state, const char *digest,
				     struct shoal_order **ret_order, struct shoal_err *err);

/* ---- Lists for each rank ---------------------------------------------------------------- */

#define SHOAL_MANIFEST_EPOCHS_MAX 1000000u

struct shoal_manifest_options {
	const char *dir;      /* where the lists go; made if it is missing */
	const char *prefix;   /* start of their names, without a slash; NULL: "train" */
	uint64_t first_epoch; /* lists for this one */
	uint64_t nr_epochs;   /* and those after it: 1 to SHOAL_MANIFEST_EPOCHS_MAX in all */
	bool paths;           /* plain paths instead of file:// URIs */
	bool null;            /* URIs are ended by NUL bytes, not line ends */
	bool force;           /* remove lists of another catalog first, instead of -EEXIST */
	const int *stop;      /* ends with -ECANCELED once it is not 0. May be NULL */
	/* How many lists of how many are written: after each. May be NULL. */
	void (*progress)(void *self, uint64_t nr_done, uint64_t nr);
	void *self;
};

/*
 * Write dir/PREFIX_epoch0000_rank00000.txt and so on: the URIs of the files (not samples) that each
 * rank reads, one on each line, in the order in which it reads them. Of @spec mode, seed, frozen,
 * unit, window and nr_ranks count. The lists of an epoch are a partition of the files, and each
 * appears under its name only when it is whole. Memory does not grow with files, ranks or epochs.
 *
 * -EINVAL: the spec or the options cannot be met. -EEXIST: the directory has lists of another
 * catalog with the same prefix (a note beside them, ".PREFIX.shoal-manifest", records which), or a
 * list of a higher rank from an earlier call, which would make the lists no partition. -EILSEQ: a
 * name holds a line end.
 */
SHOAL_CHECKED int shoal_manifest_write(const struct shoal_catalog *cat,
				       const struct shoal_order_spec *spec,
				       const struct shoal_manifest_options *options,
				       struct shoal_err *err);

/* ---- Batches by length ------------------------------------------------------------------ */

/*
 * Batches of samples of similar length, from a sorted column alone: nothing is loaded. The samples
 * stand in the order of their lengths and are cut into buckets; each epoch mixes the samples of a
 * bucket, cuts them into batches, and puts the batches of all buckets into a new order. Every
 * sample is in one batch of an epoch, but for batches that SHOAL_DROP leaves out. Any batch is
 * computed alone, the same on every rank and machine: docs/design/order.md.
 */
struct shoal_batch_spec {
	uint64_t batch; /* samples in a batch; with max_tokens at most so many, 0: any number */
	uint64_t max_tokens; /* the longest length of a batch times its samples; 0: no matter */
	uint64_t bucket;     /* samples that are mixed; 0: those of 2 to 32 batches. Made larger
				where there would be more than 65,536 buckets */
	uint64_t group; /* batches of similar length that come one after the other, for the ranks of
			   a step; 0: as many as ranks */
	bool in_order;  /* shortest first, and no mixing */
	bool frozen;    /* every epoch as epoch 0 */
	enum shoal_remainder remainder; /* what happens to batches that do not fill a step */
	uint64_t seed;
	uint64_t nr_ranks;
	uint64_t consumed; /* batches already taken in this epoch by any number of ranks */
};

/* At most 800 KB, whatever the number of samples. Threads may share it as they do an order. */
struct shoal_batches;

/* The column is lent until these are freed. -EINVAL with words when the spec cannot be met. */
SHOAL_CHECKED int shoal_batches_new(const struct shoal_column *column,
				    const struct shoal_batch_spec *spec, uint64_t epoch,
				    struct shoal_batches **ret_batches, struct shoal_err *err);

/* NULL is fine. Returns NULL. */
SHOAL_API struct shoal_batches *shoal_batches_free(struct shoal_batches *batches);

/* As shoal_order_set_epoch(), shoal_order_spec() and shoal_order_steps(). */
SHOAL_API void shoal_batches_set_epoch(struct shoal_batches *batches, uint64_t epoch);
SHOAL_API const struct shoal_batch_spec *shoal_batches_spec(const struct shoal_batches *batches);
SHOAL_API uint64_t shoal_batches_steps(const struct shoal_batches *batches);

/* Batches of an epoch, of all ranks; and the samples of the largest. */
SHOAL_API uint64_t shoal_batches_count(const struct shoal_batches *batches);
SHOAL_API uint64_t shoal_batches_largest(const struct shoal_batches *batches);

/*
 * The sample ids that @rank reads in @step, counted from `consumed`, into @ids with room for the
 * largest batch. Returns how many; 0 in the last step of SHOAL_KEEP for ranks that have none.
 * -ERANGE past the last step or rank; errors of the column as shoal_column_read().
 */
SHOAL_CHECKED int64_t shoal_batches_get(const struct shoal_batches *batches, uint64_t step,
					uint64_t rank, uint64_t *ids);

/*
 * As shoal_order_save() and shoal_order_resume(); `consumed` counts batches. The number of ranks
 * may change, if `group` stays.
 */
SHOAL_API void shoal_batches_save(const struct shoal_batches *batches, uint64_t steps,
				  struct shoal_order_state *ret_state);
SHOAL_CHECKED int shoal_batches_resume(const struct shoal_column *column,
				       const struct shoal_batch_spec *spec,
				       const struct shoal_order_state *state,
				       struct shoal_batches **ret_batches, struct shoal_err *err);

/* ---- Loading ---------------------------------------------------------------------------- */

/*
 * Reads what a rank needs of an epoch, in the order's order, with many reads in flight: one engine
 * and one thread per loader. Its memory follows the bytes of the batches in flight, not the largest
 * sample. Every byte of an epoch comes from the store in that epoch. A loader belongs to one
 * thread, but for shoal_loader_give_back().
 */
struct shoal_loader;

enum shoal_engine {
	SHOAL_ENGINE_AUTO,    /* io_uring where it works, else threads */
	SHOAL_ENGINE_URING,   /* files only */
	SHOAL_ENGINE_THREADS, /* as many as samples in flight */
};

struct shoal_load_options {
	const char *store; /* where to read: a path or a URI; NULL: the catalog's root */
	const struct shoal_store_config *config; /* how to reach it, lent until the loader is open;
						    NULL: by the environment */
	enum shoal_engine engine;
	bool direct;        /* past the page cache */
	unsigned in_flight; /* samples being read at once; 0: 64 */
	unsigned prefetch;  /* batches read ahead of the one taken; 0: 2 */
	uint64_t slot;      /* the largest sample that is read, in bytes; 0: the largest of the
			       catalog, or with `pieces` 1 MiB if that is less. One that is larger
			       cannot be read: -EFBIG; or comes in pieces */
	/*
	 * The most bytes of buffers for samples, of all batches in flight and held together; each
	 * sample has a buffer of whole pages (4096 bytes). Fewer batches are read ahead where they
	 * would exceed it. A batch that exceeds it alone ends the epoch with -ENOMEM; with `pieces`
	 * it has fewer of them instead. 0: no limit, as many as `prefetch` says.
	 */
	uint64_t memory;
	bool pieces; /* a sample that is larger than a slot comes as several, in order */
	/* Of the rank's steps, those from `first_step` on, every `stride`-th, for loaders that
	 * share a rank; 0: all of them. */
	uint64_t first_step, stride;
	uint64_t steps;       /* of an epoch no more than these, nor reads for later ones; 0: all */
	uint64_t object_size; /* of every sample, whatever the catalog says, from a store that makes
				 them up */
	bool part;            /* the order is of some of the catalog's samples only: */
	uint64_t first;       /* of those from this one on */
	bool skip_errors;     /* deliver what could be read; else the first error ends the epoch */
	/*
	 * Have the server give only objects that have the ETag which the catalog keeps (If-Match):
	 * one that changed since it was listed is an error, -ESTALE. Of a bucket, with a catalog
	 * that has ETags; else -EINVAL. Objects without one in the catalog are read as they are.
	 */
	bool if_match;
	uint64_t stall_ms;   /* tell of samples in flight for longer; 0: 10,000 */
	uint64_t timeout_ms; /* give up on the epoch when one takes longer; 0: never */
	const int
		*stop; /* shoal_loader_next() ends with -ECANCELED once it is not 0. May be NULL */
	/* Which samples are in flight since when. By the loader's thread. May be NULL. */
	void (*stalled)(void *self, const char *words);
	/*
	 * Some ten times a second while shoal_loader_next() or shoal_loader_epoch() waits, by their
	 * thread: an error of it they return at once, with @err, and nothing ends by that. For
	 * ranks to hear that another has failed. May be NULL.
	 */
	int (*waiting)(void *self, struct shoal_err *err);
	void *self;
};

struct shoal_sample {
	uint64_t id;      /* of the sample */
	const void *data; /* lent until the batch is given back; NULL after an error */
	uint64_t len;
	int error; /* 0, or with skip_errors why it could not be read: a negative errno */
	/*
	 * Of a piece: where in the sample it begins, and how large all of that is. The pieces of a
	 * sample follow one another, also from batch to batch; the next sample begins at 0 again.
	 * Else 0 and len.
	 */
	uint64_t off, size;
};

/* The samples of a step; with `pieces` as many batches as these need, of at most `batch` each. */
struct shoal_batch {
	uint64_t step;
	size_t nr;
	const struct shoal_sample *sample;
	bool last; /* of its step */
};

/*
 * Of the order's ranks this is @rank. The catalog is lent until the loader is closed. -EINVAL with
 * words when the options make no sense, or no slot is given for a catalog without sizes.
 */
SHOAL_CHECKED int shoal_loader_open(const struct shoal_catalog *cat,
				    const struct shoal_order_spec *spec, uint64_t rank,
				    const struct shoal_load_options *options,
				    struct shoal_loader **ret_loader, struct shoal_err *err);

/* Batches of it that are still held become invalid. NULL is fine. Returns NULL. */
SHOAL_API struct shoal_loader *shoal_loader_close(struct shoal_loader *loader);

/*
 * Begin @epoch at its first step, or at the spec's `consumed` the first time. An epoch that is not
 * finished is given up: what is in flight is waited for and thrown away, with timeout_ms not longer
 * than that: -ETIMEDOUT, and a later call may find that it has ended. Batches that are held stay as
 * they are.
 */
SHOAL_CHECKED int shoal_loader_epoch(struct shoal_loader *loader, uint64_t epoch,
				     struct shoal_err *err);

/*
 * The next batch: 1, 0 at the end of the epoch, or an error, which ends the epoch: without
 * skip_errors that of the first sample, in the order's order, which could not be read. Up to
 * `prefetch` + 1 batches may be held at once, or as many as leave room for the next one in
 * `memory`; -EBUSY beyond that, which ends nothing.
 */
SHOAL_CHECKED int shoal_loader_next(struct shoal_loader *loader,
				    const struct shoal_batch **ret_batch, struct shoal_err *err);

/* Let the loader use the batch's memory again. By any thread. */
SHOAL_API void shoal_loader_give_back(struct shoal_loader *loader, const struct shoal_batch *batch);

/* How long something took, in ns, within 3 %. */
struct shoal_latency {
	uint64_t nr; /* times it was done */
	uint64_t p50, p90, p99, p999, max;
};

/* What was done so far in this epoch. */
struct shoal_load_stats {
	uint64_t nr_samples;      /* delivered, whole */
	uint64_t nr_errors;       /* samples of the batches taken that could not be read */
	uint64_t bytes_asked;     /* sum of the sizes that the catalog, or object_size, has */
	uint64_t bytes_delivered; /* read from the store and handed out */
	/*
	 * Requests for samples or pieces, files opened for them, and their bytes: a request may
	 * read several samples and what lies between them. Of reads that have ended, taken or not.
	 */
	uint64_t nr_reads, nr_opens, bytes_read;
	uint64_t wait_ns;             /* that shoal_loader_next() waited */
	uint64_t nr_pages, nr_cached; /* of the samples looked at before reading: see audit */
	/* For the proof that each sample came once: docs/design/load.md. Add them up over ranks. */
	uint64_t sum_ids[2], sum_order[2];
	uint64_t pool_bytes;        /* the most memory that the loader had for samples, in bytes */
	uint64_t pool_now;          /* what it has at present */
	const char *engine;         /* "uring", "threads" or "s3". Lent */
	const char *engine_detail;  /* a few words more. Lent */
	char first_errors[10][192]; /* words for the first of them */
	/* Of what could be read: from being asked for until there; of that, until the file was
	 * open, and from there on. Pieces count one by one; stores that open nothing have no open.
	 */
	struct shoal_latency latency, open, read;
};

SHOAL_API void shoal_loader_stats(const struct shoal_loader *loader,
				  struct shoal_load_stats *ret_stats);

/*
 * Reads single samples when they are asked for, in any sequence: for those who have an order of
 * their own. No threads and no memory of its own between calls, so that it may be used on both
 * sides of a fork(2). All functions may be called by any thread.
 */
struct shoal_reader;

/* The catalog is lent until it is closed; @store and @config as in shoal_load_options. */
SHOAL_CHECKED int shoal_reader_open(const struct shoal_catalog *cat, const char *store,
				    const struct shoal_store_config *config,
				    struct shoal_reader **ret_reader, struct shoal_err *err);
SHOAL_API struct shoal_reader *shoal_reader_close(struct shoal_reader *reader);

/*
 * From now on read only objects that have the ETag which the catalog keeps: one that changed is
 * -ESTALE. Before the first read. -EINVAL for files, and catalogs without ETags.
 */
SHOAL_CHECKED int shoal_reader_if_match(struct shoal_reader *reader, struct shoal_err *err);

/* How many bytes @sample has: by the catalog, or where that has no sizes by the store. */
SHOAL_CHECKED int shoal_reader_size(struct shoal_reader *reader, uint64_t sample,
				    uint64_t *ret_size, struct shoal_err *err);

struct shoal_read {
	uint64_t sample;
	void *buf;    /* with room for shoal_reader_size() and one byte more */
	uint64_t len; /* what shoal_reader_size() said */
};

/*
 * Read @nr samples, up to @in_flight of them at once, by as many threads which end with the call.
 * Returns 0 when all are there, or the error of the first of them that could not be read: words
 * name it. A file that has fewer bytes than `len`, or more, is an error.
 */
SHOAL_CHECKED int shoal_reader_read(struct shoal_reader *reader, const struct shoal_read *reads,
				    size_t nr, unsigned in_flight, struct shoal_err *err);

/*
 * Read up to @len bytes of @sample from @off on, for samples that are too large for memory. Returns
 * how many, fewer than @len only at the sample's end. -ENODATA: the file is shorter than the
 * catalog has it.
 */
SHOAL_CHECKED int64_t shoal_reader_part(struct shoal_reader *reader, uint64_t sample, uint64_t off,
					void *buf, size_t len, struct shoal_err *err);

struct shoal_drop_result {
	uint64_t nr_files; /* whose pages were dropped, or that had none */
	uint64_t nr_kept;  /* of which pages stayed: they are being written, or mapped, or locked */
	uint64_t nr_missing; /* that could not be opened */
	bool told;           /* the kernel tells what stayed; else nr_kept is 0 */
};

/*
 * Have the page cache forget the dataset's files, without being root: those from @share /
 * @nr_shares of the catalog on, so that the ranks of a node can share the work. @store as in
 * shoal_load_options.
 */
SHOAL_CHECKED int shoal_drop_cache(const struct shoal_catalog *cat, const char *store,
				   uint64_t share, uint64_t nr_shares, const int *stop,
				   struct shoal_drop_result *ret_result, struct shoal_err *err);

#ifdef __cplusplus
}
#endif

#endif
