/*
 * workload.h - what is trained: a DLIO workload file, read unchanged.
 *
 * The keys are those of DLIO (sections model, framework, workflow, storage, dataset, reader, train,
 * evaluation, checkpoint, output, profiling, metric), with or without a "workload:" around them.
 * What a key does not say has DLIO's default. A struct bench_workload is immutable once loaded, and
 * any thread may use it. Every rank that loads the same file with the same overrides has the same.
 *
 * Names and sizes of files are functions of the workload and the file's number: no list is kept,
 * and they do not depend on how many ranks there are.
 */
#ifndef SHOAL_BENCH_WORKLOAD_H
#define SHOAL_BENCH_WORKLOAD_H

#include "base/err.h"

/* The words of enumerations below, as YAML spells them. */
enum bench_format {
	BENCH_TFRECORD, /* the default, as in DLIO */
	BENCH_HDF5,
	BENCH_CSV,
	BENCH_NPZ,
	BENCH_NPY,
	BENCH_JPEG,
	BENCH_PNG,
	BENCH_INDEXED_BINARY,
	BENCH_MMAP_INDEXED_BINARY, /* the same files, another reader */
	BENCH_SYNTHETIC,           /* no files at all */
};

enum bench_framework { BENCH_TENSORFLOW, BENCH_PYTORCH };
enum bench_storage { BENCH_LOCAL_FS, BENCH_DIRECT_FS, BENCH_S3 };
enum bench_shuffle { BENCH_SHUFFLE_OFF, BENCH_SHUFFLE_SEED, BENCH_SHUFFLE_RANDOM };
enum bench_compression { BENCH_PLAIN, BENCH_GZIP, BENCH_LZF, BENCH_BZ2, BENCH_ZIP, BENCH_XZ };

/* How long something takes, in seconds; what is drawn counts without its sign, as in DLIO. */
enum bench_time_kind {
	BENCH_TIME_NONE,        /* the key is not given: 0 */
	BENCH_TIME_FIXED,       /* a */
	BENCH_TIME_NORMAL,      /* mean a, deviation b */
	BENCH_TIME_UNIFORM,     /* from a to b */
	BENCH_TIME_GAMMA,       /* shape a, scale b */
	BENCH_TIME_EXPONENTIAL, /* scale a */
	BENCH_TIME_POISSON,     /* lam a */
};

struct bench_time {
	enum bench_time_kind kind;
	double a, b;
};

/* Folders inside folders: dataset.num_subfolders_train: 100, or [100, 100] for two levels. */
#define BENCH_LEVELS_MAX 4

struct bench_subfolders {
	unsigned nr_levels;                /* 0: all files in one folder */
	uint64_t fanout[BENCH_LEVELS_MAX]; /* each at least 2 */
	uint64_t nr;                       /* product: folders that hold files; 1 without levels */
};

/* Where record lengths lie, from the mean and deviation asked for: see bench_file_size(). */
struct bench_spread {
	double sigma; /* of the normal distribution before it is cut */
	double reach; /* bytes to either side of the mean, where it is cut */
	double low;   /* probability below the lower cut */
};

struct bench_dataset {
	enum bench_format format;
	double record_bytes;        /* nominal bytes of a sample; need not be whole */
	double record_stdev;        /* bytes */
	double record_resize_bytes; /* of a sample in memory after decoding; 0: as it is */
	uint64_t nr_files_train, nr_files_eval;
	uint64_t nr_files_generated; /* the N in the names "_of_N" of train; 0: nr_files_train */
	uint64_t samples_per_file;
	struct bench_subfolders subfolders_train, subfolders_eval;
	char *folder;      /* data_folder, without a slash at its end */
	char *file_prefix; /* "img" */
	enum bench_compression compression;
	uint64_t compression_level;
	bool chunking;          /* hdf5 */
	uint64_t chunk_bytes;   /* hdf5; 0: its own choice */
	bool skip_listing;      /* names are computed */
	uint64_t probe_every;   /* listing_validation_interval; 0: none */
	uint64_t nr_hdf5_dsets; /* hdf5.num_dset_per_record, at least 1 */
	struct bench_spread spread;
};

struct bench_reader {
	uint64_t batch, batch_eval; /* samples a rank takes in a step */
	uint64_t read_threads;      /* samples in flight in a rank; 0: as many as suit */
	uint64_t write_threads;     /* of data generation; 0: as many as suit */
	uint64_t computation_threads;
	uint64_t prefetch; /* batches ahead; 0: none */
	enum bench_shuffle file_shuffle, sample_shuffle;
	uint64_t shuffle_size;   /* samples mixed with each other where a container is read */
	uint64_t transfer_bytes; /* of one read; 0: as suits */
	bool odirect;
	struct bench_time preprocess_time; /* a sample */
};

struct bench_train {
	uint64_t epochs;
	struct bench_time computation_time; /* a step */
	uint64_t total_steps;               /* of an epoch at the most; 0: all there are */
	uint64_t seed;
	bool seed_change_epoch;
};

struct bench_evaluation {
	struct bench_time eval_time; /* a step */
	uint64_t after_epoch;        /* the first epoch, from 1, behind which there is one */
	uint64_t every_epochs;
};

/* Workloads such as bert name checkpoints; what writes them reads these. */
struct bench_checkpoint {
	char *folder;
	uint64_t after_epoch, every_epochs;
	uint64_t every_steps; /* 0: not within an epoch */
	int all_ranks;        /* 1: type all_ranks; 0: rank_zero */
	bool fsync, rank_sync;
	uint64_t model_bytes; /* model.model_size_bytes, or model_size as MLPerf's files have it */
};

struct bench_workload {
	char *name;  /* as found: "retinanet_b200", or the file's path */
	char *model; /* model.name */
	enum bench_framework framework;
	struct {
		bool generate_data, train, evaluation, checkpoint, profiling;
	} workflow;
	struct {
		enum bench_storage type;
		char *root; /* "./" */
		double settle_seconds;
	} storage;
	struct bench_dataset dataset;
	struct bench_reader reader;
	struct bench_train train;
	struct bench_evaluation evaluation;
	struct bench_checkpoint checkpoint;
	struct {
		char *folder; /* output.folder; NULL: not given */
		uint64_t exclude_start_steps, exclude_end_steps;
	} output;
	double au;  /* metric.au: 0.90 is 90 % */
	char *yaml; /* all of it resolved, with every default, as a file that loads to the same */
};

/* Something that is no error: a key that is unknown, or not used yet. One sentence. */
typedef void bench_warn_fn(void *self, const char *words);

/*
 * Load @where: the name of a workload that ships ("unet3d_h100"), or the path of a file (anything
 * with a slash, or that ends in .yaml or .yml). @overrides are @nr texts
 * "dataset.num_files_train=5", the value in YAML, each also with "++workload.", "+workload." or
 * "workload." before it; the last of a key holds. @warn may be NULL.
 *
 * -ENOENT: there is no such workload. -ENOTSUP: it needs what Shoal does not do (parquet).
 * -EINVAL: the YAML or a value is wrong; the words name file, line and column, or the override.
 */
int bench_workload_load(const char *where, char *const *overrides, size_t nr, bench_warn_fn *warn,
			void *self, struct bench_workload **ret_workload,
			struct shoal_err *err) SHOAL_MUST_USE;

/* The same from the bytes of a file, which is called @label in messages. */
int bench_workload_parse(const char *text, size_t len, const char *label, char *const *overrides,
			 size_t nr, bench_warn_fn *warn, void *self,
			 struct bench_workload **ret_workload,
			 struct shoal_err *err) SHOAL_MUST_USE;

/* NULL is fine. Returns NULL. */
struct bench_workload *bench_workload_free(struct bench_workload *w);

/*
 * Calls @found for each workload that ships, in the order of names, with the path of its file;
 * not 0 ends it and is returned.
 */
int bench_workload_list(int (*found)(void *self, const char *name, const char *path), void *self,
			struct shoal_err *err) SHOAL_MUST_USE;

const char *bench_format_name(enum bench_format format); /* "jpeg": also the files' extension */

/* ---- Files ------------------------------------------------------------------------------- */

/* How many there are of train, or of valid. */
static inline uint64_t bench_nr_files(const struct bench_workload *w, bool valid)
{
	return valid ? w->dataset.nr_files_eval : w->dataset.nr_files_train;
}

/* Longest name that bench_file_name() makes, with its NUL: file_prefix has 128 bytes at the most.
 */
#define BENCH_NAME_MAX 512

/*
 * The name of file @id below the data folder, as DLIO has it:
 * "train/03/img_0000013_of_1170301.jpeg". The folder is the number modulo their count; several
 * levels are the digits of that remainder, each to its level's base, so that the folders' order is
 * the remainders'. Returns the length; -ERANGE past the last file or when @cap is too small.
 */
int bench_file_name(const struct bench_workload *w, bool valid, uint64_t id, char *buf,
		    size_t cap) SHOAL_MUST_USE;

/* Longest pattern: every byte of a prefix may be doubled. */
#define BENCH_PATTERN_MAX 1024

/*
 * All their names as shoal_index_pattern() takes them, without folders:
 * "train/img_{:07d}_of_1170301.jpeg"; braces in the prefix are doubled. -ERANGE: @cap is too small.
 */
int bench_file_pattern(const struct bench_workload *w, bool valid, char *buf,
		       size_t cap) SHOAL_MUST_USE;

/* The folder number @leaf of dataset.subfolders (0 to nr - 1): "train/03", or "train". Else alike.
 */
int bench_folder_name(const struct bench_workload *w, bool valid, uint64_t leaf, char *buf,
		      size_t cap) SHOAL_MUST_USE;

/*
 * The file at @position when names are in bytewise order, as a catalog has them, and the other way
 * round. All of train comes before all of valid. -ERANGE past the end.
 */
int bench_file_at(const struct bench_workload *w, bool valid, uint64_t position,
		  uint64_t *ret_id) SHOAL_MUST_USE;
int bench_file_position(const struct bench_workload *w, bool valid, uint64_t id,
			uint64_t *ret_position) SHOAL_MUST_USE;

/*
 * The size of file @id in bytes, at least 1: all its samples together, whatever the format adds
 * included. Lengths are normal with the mean and the deviation asked for, drawn by (train.seed,
 * @valid, @id) once a file, as in DLIO. The distribution is cut at three deviations, or where a
 * length would be less than a hundredth of the mean, and widened so that the deviation is the asked
 * one all the same; so there is a largest size, which a loader can take buffers for.
 */
uint64_t bench_file_size(const struct bench_workload *w, bool valid, uint64_t id);
uint64_t bench_file_size_max(const struct bench_workload *w);

/* The length of one sample of the file: that of the file over samples_per_file, rounded down. */
uint64_t bench_record_size(const struct bench_workload *w, bool valid, uint64_t id);

/* ---- Times ------------------------------------------------------------------------------- */

/* The mean, in seconds, of what bench_time_draw() gives, as far as signs do not matter. */
double bench_time_mean(const struct bench_time *t);

/*
 * Seconds, not negative. @key chooses: the same gives the same. For a step make it from seed,
 * epoch, step and rank with bench_key().
 */
double bench_time_draw(const struct bench_time *t, uint64_t key);

/* A well mixed number from four. */
uint64_t bench_key(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

#endif
