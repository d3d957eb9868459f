/*
 * workload.h - the description of a training job: a DLIO workload file, read unchanged.
 *
 * The keys are those of DLIO (sections model, framework, workflow, storage, dataset, reader, train,
 * evaluation, checkpoint, output, profiling, metric), with or without an enclosing "workload:". A
 * missing key has DLIO's default. A struct workload is immutable once loaded, and any thread may
 * use it. All ranks that load the same file with the same overrides have the same workload.
 *
 * Names and sizes of files are functions of the workload and the file's number: no list is kept,
 * and they do not depend on the number of ranks.
 */
#ifndef SHOAL_WORKLOAD_WORKLOAD_H
#define SHOAL_WORKLOAD_WORKLOAD_H

#include "base/err.h"
#include "format/table.h"

/* Enumerations: the words are those of the YAML files. */
enum workload_format {
	WORKLOAD_TFRECORD, /* the default, as in DLIO */
	WORKLOAD_HDF5,
	WORKLOAD_CSV,
	WORKLOAD_NPZ,
	WORKLOAD_NPY,
	WORKLOAD_JPEG,
	WORKLOAD_PNG,
	WORKLOAD_INDEXED_BINARY,
	WORKLOAD_MMAP_INDEXED_BINARY, /* the same files, another reader */
	WORKLOAD_SYNTHETIC,           /* no files at all */
	WORKLOAD_PARQUET,             /* a sample is a row; row groups are read */
	WORKLOAD_ARROW,               /* a sample is a row; record batches are read */
	WORKLOAD_TAR,                 /* a sample is the members of a stem, as in WebDataset */
};

enum workload_framework { WORKLOAD_TENSORFLOW, WORKLOAD_PYTORCH };
enum workload_storage { WORKLOAD_LOCAL_FS, WORKLOAD_DIRECT_FS, WORKLOAD_S3 };
enum workload_shuffle { WORKLOAD_SHUFFLE_OFF, WORKLOAD_SHUFFLE_SEED, WORKLOAD_SHUFFLE_RANDOM };
enum workload_compression {
	WORKLOAD_PLAIN,
	WORKLOAD_GZIP,
	WORKLOAD_LZF,
	WORKLOAD_BZ2,
	WORKLOAD_ZIP,
	WORKLOAD_XZ
};

/* A duration in seconds. The absolute value of a draw counts, as in DLIO. */
enum workload_time_kind {
	WORKLOAD_TIME_NONE,        /* key not given: 0 */
	WORKLOAD_TIME_FIXED,       /* a */
	WORKLOAD_TIME_NORMAL,      /* mean a, deviation b */
	WORKLOAD_TIME_UNIFORM,     /* from a to b */
	WORKLOAD_TIME_GAMMA,       /* shape a, scale b */
	WORKLOAD_TIME_EXPONENTIAL, /* scale a */
	WORKLOAD_TIME_POISSON,     /* lam a */
};

struct workload_time {
	enum workload_time_kind kind;
	double a, b;
};

/* Folders inside folders: dataset.num_subfolders_train: 100, or [100, 100] for two levels. */
#define WORKLOAD_LEVELS_MAX 4

struct workload_subfolders {
	unsigned nr_levels;                   /* 0: all files are in one folder */
	uint64_t fanout[WORKLOAD_LEVELS_MAX]; /* each at least 2 */
	uint64_t nr; /* product: folders that hold files; 1 without levels */
};

/* The distribution of record lengths for the given mean and deviation: see workload_file_size(). */
struct workload_spread {
	double sigma; /* of the normal distribution before truncation */
	double reach; /* bytes on each side of the mean, where it is truncated */
	double low;   /* probability below the lower limit */
};

/* The columns of a table format, and the rows that are stored together. */
struct workload_columns {
	struct format_column *column; /* owned */
	size_t nr;
	uint64_t group_rows;
};

struct workload_dataset {
	enum workload_format format;
	double record_bytes;        /* nominal bytes per sample; need not be an integer */
	double record_stdev;        /* bytes */
	double record_resize_bytes; /* bytes per sample in memory after decoding; 0: unchanged */
	uint64_t nr_files_train, nr_files_eval;
	uint64_t nr_files_generated; /* the N in the names "_of_N" of train; 0: nr_files_train */
	uint64_t samples_per_file;
	struct workload_subfolders subfolders_train, subfolders_eval;
	char *folder;      /* data_folder, without a trailing slash */
	char *file_prefix; /* "img" */
	enum workload_compression compression;
	uint64_t compression_level;
	bool chunking;          /* hdf5 */
	uint64_t chunk_bytes;   /* hdf5; 0: chosen by HDF5 */
	bool skip_listing;      /* names are computed */
	uint64_t probe_every;   /* listing_validation_interval; 0: never */
	uint64_t nr_hdf5_dsets; /* hdf5.num_dset_per_record, at least 1 */
	struct workload_spread spread;
	struct workload_columns parquet, arrow;
	/* For a table format: the contents of a file, and its exact size; otherwise 0 columns. */
	struct format_table table;
	uint64_t table_bytes;
};

struct workload_reader {
	uint64_t batch, batch_eval; /* samples per rank and step */
	uint64_t read_threads;      /* samples in flight per rank; 0: automatic */
	uint64_t write_threads;     /* for data generation; 0: automatic */
	uint64_t computation_threads;
	uint64_t prefetch; /* prefetch_size: see workload_batches_ahead() */
	bool torch;        /* DLIO reads this workload with PyTorch's loader */
	enum workload_shuffle file_shuffle, sample_shuffle;
	uint64_t shuffle_size;   /* samples shuffled together when a container is read */
	uint64_t transfer_bytes; /* per read; 0: automatic */
	bool odirect;
	struct workload_time preprocess_time; /* per sample */
};

struct workload_train {
	uint64_t epochs;
	struct workload_time computation_time; /* per step */
	uint64_t total_steps;                  /* at most per epoch; 0: all */
	uint64_t seed;
	bool seed_change_epoch;
};

struct workload_evaluation {
	struct workload_time eval_time; /* per step */
	uint64_t after_epoch;           /* the first epoch, from 1, that an evaluation follows */
	uint64_t every_epochs;
};

/* Workloads such as bert configure checkpoints; the code that writes them reads these. */
struct workload_checkpoint {
	char *folder;
	uint64_t after_epoch, every_epochs;
	uint64_t every_steps; /* 0: not within an epoch */
	int all_ranks;        /* 1: type all_ranks; 0: type rank_zero */
	bool fsync, rank_sync;
	uint64_t model_bytes; /* model.model_size_bytes, or model_size as in MLPerf's files */
};

struct workload {
	char *name;  /* as found: "retinanet_b200", or the file's path */
	char *model; /* model.name */
	enum workload_framework framework;
	struct {
		bool generate_data, train, evaluation, checkpoint, profiling;
	} workflow;
	struct {
		enum workload_storage type;
		char *root; /* "./" */
		double settle_seconds;
	} storage;
	struct workload_dataset dataset;
	struct workload_reader reader;
	struct workload_train train;
	struct workload_evaluation evaluation;
	struct workload_checkpoint checkpoint;
	struct {
		char *folder; /* output.folder; NULL: not given */
		uint64_t exclude_start_steps, exclude_end_steps;
	} output;
	double au;  /* metric.au: 0.90 is 90 % */
	char *yaml; /* the resolved workload with every default, as a file that loads to the same */
	char *asked; /* the file with the overrides and nothing else, as Hydra saves it */
};

/* The key whose last component this is: "train.epochs" for "epochs"; NULL if there is none. */
const char *workload_key_called(const char *name);

/* Receives a warning, one sentence: a key is unknown, or not used yet. */
typedef void workload_warn_fn(void *self, const char *words);

/*
 * Load @where: the name of a workload that ships ("unet3d_h100"), or the path of a file (anything
 * with a slash, or that ends in .yaml or .yml). @overrides are @nr texts such as
 * "dataset.num_files_train=5", with the value in YAML, optionally prefixed by "++workload.",
 * "+workload." or "workload."; the last one for a key wins. @warn may be NULL.
 *
 * -ESRCH: it is the name of no shipped workload, and not of a file.
 * -EINVAL: malformed YAML or value; the message names file, line and column, or the override.
 */
int workload_load(const char *where, char *const *overrides, size_t nr, workload_warn_fn *warn,
		  void *self, struct workload **ret_workload, struct shoal_err *err) MUST_USE;

/* As workload_load(), from the bytes of a file, called @label in messages. */
int workload_parse(const char *text, size_t len, const char *label, char *const *overrides,
		   size_t nr, workload_warn_fn *warn, void *self, struct workload **ret_workload,
		   struct shoal_err *err) MUST_USE;

/* NULL is fine. Returns NULL. */
struct workload *workload_free(struct workload *w);

/*
 * Call @found for each workload that ships, sorted by name, with the path of its file. A return
 * value other than 0 ends the loop and is returned.
 */
int workload_list(int (*found)(void *self, const char *name, const char *path), void *self,
		  struct shoal_err *err) MUST_USE;

const char *
workload_format_name(enum workload_format format); /* "jpeg"; it is also the file name extension */

/*
 * The format of its files; NULL if it has none (synthetic). The number of samples of a file that
 * are read together: the rows of a row group or a record batch, as generated; otherwise 1.
 */
const struct format *workload_format(const struct workload *w);
uint64_t workload_rows_together(const struct workload *w);

/*
 * Whether the samples of its files have extents of their own: row groups, records, elements of an
 * array, lines. Otherwise they are equal parts of a file, or the file.
 */
bool workload_has_extents(const struct workload *w);

/* ---- Files ------------------------------------------------------------------------------- */

/* The number of files in train, or in valid. */
static inline uint64_t workload_nr_files(const struct workload *w, bool valid)
{
	return valid ? w->dataset.nr_files_eval : w->dataset.nr_files_train;
}

/*
 * Longest name that workload_file_name() makes, including its NUL: file_prefix has at most 128
 * bytes.
 */
#define WORKLOAD_NAME_MAX 512

/*
 * The name of file @id below the data folder, as in DLIO: "train/03/img_0000013_of_1170301.jpeg".
 * The folder is the number modulo the number of folders; with several levels, the digits of that
 * remainder in mixed radix, so that folders sort as the remainders. Returns the length; -ERANGE
 * past the last file or if @cap is too small.
 */
int workload_file_name(const struct workload *w, bool valid, uint64_t id, char *buf,
		       size_t cap) MUST_USE;

/* Longest pattern: every byte of a prefix may be doubled. */
#define WORKLOAD_PATTERN_MAX 1024

/*
 * All names as a pattern for shoal_index_pattern(), without folders:
 * "train/img_{:07d}_of_1170301.jpeg"; braces in the prefix are doubled. -ERANGE: @cap is too small.
 */
int workload_file_pattern(const struct workload *w, bool valid, char *buf, size_t cap) MUST_USE;

/*
 * Folder number @leaf of dataset.subfolders (0 to nr - 1): "train/03", or "train". Otherwise as
 * workload_file_name().
 */
int workload_folder_name(const struct workload *w, bool valid, uint64_t leaf, char *buf,
			 size_t cap) MUST_USE;

/*
 * The file at @position when names are in bytewise order, as a catalog has them. All of train
 * comes before all of valid. -ERANGE past the end.
 */
int workload_file_at(const struct workload *w, bool valid, uint64_t position,
		     uint64_t *ret_id) MUST_USE;

/*
 * The size of file @id in bytes, at least 1: all its samples together, including the overhead of
 * the format. Lengths have a normal distribution with the given mean and deviation, drawn by
 * (train.seed, @valid, @id) once per file, as in DLIO. The distribution is truncated at three
 * deviations, or where a length would be less than a hundredth of the mean, and widened so that the
 * deviation is still as given. So there is a largest size, for which a loader can allocate buffers.
 *
 * Parquet and Arrow files have the size that follows from their columns.
 */
uint64_t workload_file_size(const struct workload *w, bool valid, uint64_t id);
uint64_t workload_file_size_max(const struct workload *w);

/* ---- Reading ----------------------------------------------------------------------------- */

/* Without read_threads an accelerator has at most this many. */
#define WORKLOAD_READ_THREADS_MAX 8u

/*
 * The batches that an accelerator with @read_threads (at least 1) reads ahead, as in DLIO: PyTorch
 * gives every worker ceil(prefetch_size / read_threads) batches, or two if prefetch_size is 0.
 * Other loaders read prefetch_size batches ahead; at least one.
 */
uint64_t workload_batches_ahead(const struct workload *w, uint64_t read_threads);

/* ---- Times ------------------------------------------------------------------------------- */

/* The mean, in seconds, of workload_time_draw(), ignoring the effect of taking absolute values. */
double workload_time_mean(const struct workload_time *t);

/*
 * A duration in seconds, not negative. The same @key gives the same duration. For a step, make the
 * key from seed, epoch, step and rank with workload_key().
 */
double workload_time_draw(const struct workload_time *t, uint64_t key);

/* A hash of four numbers. */
uint64_t workload_key(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

#endif
