#include "cli/index_options.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/s3_options.h"
#include "index/filter.h"
#include "index/inside.h"
#include "index/root.h"
#include "open/output.h"
#include "store/uri.h"

/* A bucket has no links and no directories; a directory has no connections. */
static int index_options_check_bucket(const struct index_arguments *a)
{
	bool bucket = store_uri_traits(a->source).objects;

	if (cli_s3_check_uri("index", a->source) != CLI_OK)
		return CLI_USAGE;
	if (bucket && a->tree.update && !(a->options.samples && a->tree.etags))
		return cli_usage("index",
				 "--update is for a directory: a bucket does not record what "
				 "changed in it; list it again. With --samples and --etags, "
				 "objects with the ETag of the old catalog are not opened");
	if (bucket && a->files_only && strcmp(a->files_only, "update") == 0)
		return CLI_OK;
	if (bucket && a->files_only && strcmp(a->files_only, "threads") == 0)
		return cli_usage("index", "--threads is for a directory: a bucket is listed with "
					  "--connections N");
	if (bucket && a->files_only)
		return cli_usage("index", "--%s is for a directory, not for a bucket",
				 a->files_only);
	if (!bucket && a->bucket_only)
		return cli_usage("index", "--%s is for a bucket, as s3://bucket/prefix",
				 a->bucket_only);
	return CLI_OK;
}

/* An option that is not for this kind of source. */
static int check_kind(const struct index_arguments *a)
{
	const char *tree_only = a->files_only    ? a->files_only
				: a->bucket_only ? a->bucket_only
						 : a->tree_only;
	struct stat st;

	if (tree_only && a->kind == INDEX_LIST && strcmp(a->source, "-") != 0 &&
	    stat(store_local_path(a->source), &st) < 0)
		return cli_fail("index", "'%s': cannot open it: %s", a->source, strerror(errno));
	if (tree_only && a->kind != INDEX_TREE)
		return cli_usage("index", "--%s is for a %s, not for a %s", tree_only,
				 tree_only == a->bucket_only ? "bucket" : "directory",
				 a->kind == INDEX_LIST ? "LIST" : "--pattern");
	if (a->list_only && a->kind != INDEX_LIST)
		return cli_usage("index", "--%s is for a LIST, not for a %s", a->list_only,
				 a->kind == INDEX_TREE ? "directory" : "--pattern");
	if (a->pattern_only && a->kind != INDEX_PATTERN)
		return cli_usage("index", "--%s is for --pattern", a->pattern_only);
	return CLI_OK;
}

static int check_globs(const struct index_arguments *a)
{
	struct index_filter f = { .include = a->include,
				  .nr_include = a->tree.nr_include,
				  .exclude = a->exclude,
				  .nr_exclude = a->tree.nr_exclude };
	struct shoal_err err = { "" };

	return index_filter_check(&f, &err) < 0 ? cli_usage("index", "%s", cli_words("index", &err))
						: CLI_OK;
}

/* A root that is a URI or an absolute path is checked without the list. */
static int check_root(const struct index_arguments *a)
{
	const char *given = a->options.root;
	struct index_root root;
	struct shoal_err err = { "" };

	if (!given || (*given && *given != '/' && !store_uri_scheme_len(given, strlen(given))))
		return CLI_OK;
	if (index_root_init(&root, given, NULL, 0, &err) == 0)
		return CLI_OK;
	err_hint(&err, SHOAL_HINT_NONE, 0); /* which would require a --root */
	return cli_usage("index", "--root: %s", cli_words("index", &err));
}

static int check_samples(const struct index_arguments *a)
{
	struct shoal_err err = { "" };

	if (!a->options.samples)
		return CLI_OK;
	if (a->pattern.format || a->tree.no_sizes || a->options.samples_per_file)
		return cli_usage("index", "--samples cannot be used with %s",
				 a->pattern.format  ? "--pattern: there are no files to open"
				 : a->tree.no_sizes ? "--no-sizes"
						    : "--samples-per-file");
	if (index_inside_check(a->options.samples, &err) < 0)
		return cli_usage("index", "--samples: %s", cli_words("index", &err));
	return CLI_OK;
}

/* Check combinations of options. CLI_OK, or CLI_USAGE. */
static int check(const struct index_arguments *a, int nr_sources)
{
	struct shoal_err err = { "" };

	if (!a->options.output)
		return cli_usage("index", "say where to write the catalog: -o FILE");
	if (strcmp(a->options.output, "-") == 0)
		return cli_usage("index",
				 "a catalog cannot be written to standard output: -o FILE");
	if (output_check(a->options.output, &err) < 0)
		return cli_usage("index", "%s", cli_words("index", &err));
	if (a->tree.resume && !store_local_path(a->options.output))
		return cli_usage("index", "--resume needs a catalog that is a file: -o FILE");
	if (a->dry_run && (a->record.results || a->listen.address))
		return cli_usage("index",
				 "--dry-run has no --results, and nothing to --listen for");
	if (a->dry_run && a->tree.resume)
		return cli_usage("index",
				 "--dry-run keeps nothing that --resume could continue from");
	if (a->tree.update && a->tree.follow)
		return cli_usage(
			"index",
			"--update cannot be used with --follow: times of linked directories "
			"do not show what changed");
	if (a->pattern.format && nr_sources > 0)
		return cli_usage("index", "give a directory, a LIST or a --pattern, not two");
	if (!a->pattern.format && nr_sources != 1)
		return cli_usage(
			"index",
			"give one directory or LIST (- is standard input), or a --pattern");
	if (a->columns && a->format != FORMAT_INVENTORY)
		return cli_usage("index", "--columns is for --format inventory");
	if (a->names_only && a->format != FORMAT_LINES)
		return cli_usage("index", "--names-only is for --format lines");
	if (a->pattern.format && !a->count_given)
		return cli_usage("index", "say how many names the pattern generates: --count N");
	if (check_root(a) != CLI_OK || check_samples(a) != CLI_OK)
		return CLI_USAGE;
	return check_globs(a);
}

static enum index_source index_options_kind_of(const struct index_arguments *a)
{
	const char *path = a->source ? store_local_path(a->source) : NULL;
	struct stat st;

	if (a->pattern.format || !a->source)
		return INDEX_PATTERN;
	return !path || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) ? INDEX_TREE : INDEX_LIST;
}

int index_arguments_check(struct index_arguments *a, int nr, char **words)
{
	int status = check(a, nr);

	if (status != CLI_OK)
		return status;
	if (store_local_path(a->options.output))
		a->options.output = store_local_path(a->options.output);
	a->options.stop = &cli_stop;
	a->options.config = &a->where.config;
	a->options.careful = !a->force;
	a->tree.include = a->include;
	a->tree.exclude = a->exclude;
	a->source = nr ? words[0] : NULL;
	a->kind = index_options_kind_of(a);
	status = check_kind(a);
	return status == CLI_OK && a->kind == INDEX_TREE ? index_options_check_bucket(a) : status;
}

static void index_defaults(void *arguments)
{
	((struct index_arguments *)arguments)->pattern.size = SHOAL_SIZE_UNKNOWN;
}

#define AT(field) offsetof(struct index_arguments, field)

static const char *const sample_kinds[] = { "parquet", "arrow", "webdataset", "tar", "tfrecord",
					    "npz",     "npy",   "hdf5",       "csv", "jsonl",
					    "whole",   "auto",  NULL };

static const struct cli_option options[] = {
	CLI_TEXT('o', "output", "FILE", AT(options.output),
		 "write the catalog here; s3://bucket/name works as well"),
	CLI_TEXT(
		0, "root", "URI", AT(options.root),
		"what names are relative to: a URI or a path (default: the directory; for a list its "
		"first name's root, otherwise the current directory)"),
	CLI_NUMBER("samples-per-file", "SAMPLES", AT(options.samples_per_file), 1, 0,
		   "samples per file, if all have the same number (default 1)"),
	CLI_TEXT_SUCH_AS(
		"samples", "KIND", AT(options.samples), sample_kinds,
		"open each file and store where its samples lie. KIND: parquet (row groups), arrow "
		"(record batches), webdataset (members of one stem), tar (members), tfrecord, npz, npy, "
		"hdf5, csv, jsonl, fixed:BYTES, whole; or auto: by the end of each file's name"),
	CLI_SIZE("memory", AT(options.memory), SHOAL_INDEX_MEMORY_MIN, 0,
		 "use at most this much memory (default 256M)"),
	CLI_TEXT(0, "tmp-dir", "DIR", AT(options.tmp_dir),
		 "put temporary files in DIR (default, and with --resume: beside the catalog)"),
	CLI_FLAG(
		0, "force", AT(force),
		"write the catalog even if it is empty, or would replace one with more than twice as "
		"many names, or a file that is not a catalog"),
	CLI_FLAG(0, "dry-run", AT(dry_run),
		 "list, but keep no catalog: print what would be written"),
	CLI_TEXT(0, "results", "DIR", AT(record.results), CLI_RECORD_HELP),
	CLI_FLAG(0, "json", AT(json), "print the result as JSON"),
	CLI_PEER_TIMEOUT(AT(where.peer_timeout), AT(where.peer_timeout_given)),
	CLI_END,
};

static const struct cli_option tree_options[] = {
	CLI_FLAG(0, "no-sizes", AT(tree.no_sizes), "names only: several times faster"),
	CLI_LIST("include", "GLOB", AT(include), AT(tree.nr_include), INDEX_PATTERNS,
		 "only files that match one of these; may be repeated"),
	CLI_LIST(
		"exclude", "GLOB", AT(exclude), AT(tree.nr_exclude), INDEX_PATTERNS,
		"no files and no directories that match one of these. '*' and '?' match anything "
		"but a slash, '**' also slashes; a GLOB without a slash is matched against the last "
		"component of a name, one with a slash against all of it, one that ends in a slash "
		"against directories. [a-z] and \\ work as in a shell; instead of {a,b} repeat the "
		"option"),
	CLI_FLAG(0, "keep-going", AT(tree.keep_going),
		 "leave out what cannot be read, with a warning, and continue"),
	CLI_FLAG(
		0, "resume", AT(tree.resume),
		"keep checkpoints beside the catalog, and continue from them if the same listing was "
		"interrupted before, with any number of ranks; directories already listed are not "
		"read again"),
	CLI_END,
};

static const struct cli_option files_options[] = {
	CLI_FLAG(0, "follow", AT(tree.follow),
		 "follow symbolic links (otherwise they are left out)"),
	CLI_FLAG('x', "one-file-system", AT(tree.one_fs), "do not go into other file systems"),
	CLI_TEXT(
		0, "update", "OLD", AT(tree.update),
		"reuse the catalog OLD, made with the same options, for directories that have not "
		"changed since; new sizes of files rewritten in place are not noticed; not with "
		"--follow. With --samples every file is looked at, and those that have changed are "
		"opened; objects of a bucket by their ETags (--etags)"),
	CLI_COUNT("threads", "THREADS", AT(tree.nr_threads), 1, 1024,
		  "threads per rank that list (default: up to 64 per node)"),
	CLI_END,
};

static const struct cli_option bucket_options[] = {
	CLI_COUNT("connections", "COUNT", AT(tree.nr_threads), 1, 1024,
		  "requests in flight per rank (default 64 per node)"),
	CLI_FLAG(
		0, "etags", AT(tree.etags),
		"also store the ETag of each object (20 bytes each), for --if-match of read and run, "
		"and for verify --storage. ETags other than MD5, with or without a number of parts, "
		"are not stored; their number is reported"),
	CLI_SHARD(
		AT(tree.shard), AT(tree.nr_shards),
		"list only range K (0 to N - 1) of N ranges of keys of about equal size; all processes "
		"compute the same ranges while the bucket does not change; each writes its own "
		"catalog, even under mpirun"),
	CLI_END,
};

static const char *const format_words[] = { "lines", "find", "gpfs", "inventory", NULL };

static const struct cli_option list_options[] = {
	CLI_FLAG('0', "null", AT(null), "names end in NUL bytes, not line ends"),
	CLI_FLAG(0, "names-only", AT(names_only), "a tab is part of the name"),
	CLI_WORD(
		"format", "FORMAT", AT(format), format_words,
		"lines: names, as above (default; lfs find prints them); find: 'SIZE PATH', as find "
		"-printf '%s %p\\n' prints; gpfs: a list of mmapplypolicy, with the size if SHOW has "
		"it; inventory: S3 Inventory as CSV. All but lines may be compressed by gzip"),
	CLI_TEXT(
		0, "columns", "NAMES", AT(columns),
		"of an inventory: its columns, as fileSchema in its manifest.json has them (default "
		"'Bucket, Key, Size')"),
	CLI_END,
};

static const struct cli_option pattern_options[] = {
	CLI_TEXT(0, "pattern", "PATTERN", AT(pattern.format),
		 "names such as 'train/img_{:07d}_of_1170301.jpeg' generates"),
	CLI_NUMBER_IF("count", "NAMES", AT(pattern.count), AT(count_given), "the number of names"),
	CLI_NUMBER("first", "NUMBER", AT(pattern.first), 0, 0, "the first number (default 0)"),
	CLI_NUMBER("subfolders", "COUNT", AT(pattern.subfolders), 0, 0,
		   "file i is in folder i mod COUNT"),
	CLI_SIZE("size", AT(pattern.size), 0, SHOAL_SIZE_UNKNOWN - 1, "the size of every file"),
	CLI_END,
};

const struct cli_command cmd_index = {
	.name = "index",
	.summary = "make a catalog of a directory, a bucket, a list or a pattern",
	.usage = "DIR|URI -o FILE [OPTION]...\n"
		 "LIST -o FILE [OPTION]...\n"
		 "--pattern PATTERN --count NAMES [--subfolders COUNT] -o FILE [OPTION]...",
	.about =
		"Make a catalog: of all regular files below a directory (including hidden ones), or "
		"all objects of a bucket; of a LIST, which is a file with one name per line, or - "
		"for standard input; or of the names that a PATTERN generates. Under mpirun the "
		"ranks share the listing of a directory or bucket.",
	.sections = { { .options = options },
		      { .title = "of a directory, or a bucket as s3://bucket/prefix",
			.options = tree_options,
			.given = AT(tree_only) },
		      { .title = "of a directory",
			.options = files_options,
			.given = AT(files_only) },
		      { .title = "of a bucket",
			.options = bucket_options,
			.given = AT(bucket_only) },
		      { .title = "of a list",
			.about =
				"A line may have the file's size in bytes after a tab, and its number "
				"of samples after another. Names may be in any order; of repeated ones "
				"the last is used.",
			.options = list_options,
			.given = AT(list_only) },
		      { .title = "of a pattern, a name with one number, {:07d} or {}",
			.options = pattern_options,
			.given = AT(pattern_only) },
		      CLI_LISTEN_SECTION(AT(listen)),
		      CLI_DIRECTORY_SECTION(AT(where.config)),
		      CLI_S3_SECTION(AT(where.config)) },
	.shares_work = true,
	.size = sizeof(struct index_arguments),
	.set_defaults = index_defaults,
	.run = cmd_index_start,
};
