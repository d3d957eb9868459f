#include "cli/index_options.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cli/hints.h"
#include "cli/s3_options.h"
#include "index/filter.h"
#include "index/root.h"
#include "store/uri.h"

static const char usage[] =
	"usage: shoal index DIR|URI -o FILE [OPTION]...\n"
	"       shoal index LIST -o FILE [OPTION]...\n"
	"       shoal index --pattern PATTERN --count N [--subfolders K] -o FILE [OPTION]...\n"
	"       mpirun -n RANKS shoal index DIR|URI -o FILE [OPTION]...\n"
	"\n"
	"Make a catalog: of all regular files below a directory (including hidden ones); of a LIST, which is\n"
	"a file with one name per line, or - for standard input; or of the names that a PATTERN generates.\n"
	"\n"
	"  -o, --output FILE          write the catalog here; s3://bucket/name works as well\n"
	"      --root URI             what names are relative to: a URI or a path (default: DIR; for a\n"
	"                             list its first name's root, otherwise the current directory)\n"
	"      --samples-per-file N   every file holds N samples (default 1)\n"
	"      --memory SIZE          use at most this much memory (default 256M)\n"
	"      --tmp-dir DIR          put temporary files there (default, and with --resume: beside the\n"
	"                             catalog)\n"
	"      --json                 print the result as JSON\n"
	"  -q, --quiet                print nothing but errors\n"
	"      --peer-timeout S       end if another rank gives no sign of life for S seconds\n"
	"                             (default 120; 0: wait for ever)\n"
	"\n"
	"of a directory:\n"
	"      --no-sizes             names only: several times faster\n"
	"      --include GLOB         only files that match one of these; may be repeated\n"
	"      --exclude GLOB         no files and no directories that match one of these. '*' and '?'\n"
	"                             match anything but a slash, '**' also slashes; a GLOB without a\n"
	"                             slash is matched against the last component of a name, one with a\n"
	"                             slash against all of it, one that ends in a slash against\n"
	"                             directories. [a-z] and \\ work as in a shell; instead of {a,b}\n"
	"                             repeat the option\n"
	"      --follow               follow symbolic links (otherwise they are left out)\n"
	"  -x, --one-file-system      do not go into other file systems\n"
	"      --keep-going           leave out what cannot be read, with a warning, and go on\n"
	"      --update OLD           reuse the catalog OLD, made with the same options, for directories\n"
	"                             that have not changed since; new sizes of files rewritten in\n"
	"                             place are not noticed; not with --follow\n"
	"      --resume               keep checkpoints beside the catalog, and continue from them if the\n"
	"                             same listing was interrupted before, with any number of ranks;\n"
	"                             directories already listed are not read again. Ranks on\n"
	"                             several nodes need the catalog's directory on all of them\n"
	"      --threads N            list with N threads per rank (default: up to 64 per node)\n"
	"\n"
	"of a bucket, as s3://bucket/prefix: --no-sizes, --include, --exclude, --resume, and\n"
	"      --connections N        have N requests in flight per rank (default 64 per node)\n"
	"      --etags                also store the ETag of each object (20 bytes each), for --if-match of\n"
	"                             read and run, and for verify --storage. ETags other than MD5, with\n"
	"                             or without a number of parts, are not stored; their number is\n"
	"                             reported\n"
	"      --shard K/N            list only the Kth (1 to N) of N ranges of keys of about equal size;\n"
	"                             all processes compute the same ranges while the bucket does not\n"
	"                             change; each writes its own catalog, even under mpirun\n"
	"\n"
	"of a list: a line may have the file's size in bytes after a tab, and its number of samples after\n"
	"another. Names may be in any order; of repeated ones the last is used.\n"
	"  -0, --null                 names end in NUL bytes, not line ends\n"
	"      --names-only           a tab is part of the name\n"
	"\n"
	"of a pattern, a name with one number, {:07d} or {}:\n"
	"      --pattern PATTERN      names such as 'train/img_{:07d}_of_1170301.jpeg' generates\n"
	"      --count N              the number of names\n"
	"      --first N              the first number (default 0)\n"
	"      --subfolders K         file i is in folder i mod K\n"
	"      --size SIZE            the size of every file\n" CLI_S3_USAGE;

enum {
	OPT_NAMES_ONLY = 256,
	OPT_ROOT,
	OPT_SAMPLES,
	OPT_MEMORY,
	OPT_TMP_DIR,
	OPT_PATTERN,
	OPT_COUNT,
	OPT_FIRST,
	OPT_SUBFOLDERS,
	OPT_SIZE,
	OPT_JSON,
	OPT_NO_SIZES,
	OPT_INCLUDE,
	OPT_EXCLUDE,
	OPT_FOLLOW,
	OPT_KEEP_GOING,
	OPT_THREADS,
	OPT_UPDATE,
	OPT_RESUME,
	OPT_CONNECTIONS,
	OPT_ETAGS,
	OPT_SHARD,
};

static const struct option longs[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "null", no_argument, NULL, '0' },
	{ "names-only", no_argument, NULL, OPT_NAMES_ONLY },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "samples-per-file", required_argument, NULL, OPT_SAMPLES },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "tmp-dir", required_argument, NULL, OPT_TMP_DIR },
	{ "pattern", required_argument, NULL, OPT_PATTERN },
	{ "count", required_argument, NULL, OPT_COUNT },
	{ "first", required_argument, NULL, OPT_FIRST },
	{ "subfolders", required_argument, NULL, OPT_SUBFOLDERS },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "no-sizes", no_argument, NULL, OPT_NO_SIZES },
	{ "include", required_argument, NULL, OPT_INCLUDE },
	{ "exclude", required_argument, NULL, OPT_EXCLUDE },
	{ "follow", no_argument, NULL, OPT_FOLLOW },
	{ "one-file-system", no_argument, NULL, 'x' },
	{ "keep-going", no_argument, NULL, OPT_KEEP_GOING },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "update", required_argument, NULL, OPT_UPDATE },
	{ "resume", no_argument, NULL, OPT_RESUME },
	{ "connections", required_argument, NULL, OPT_CONNECTIONS },
	{ "etags", no_argument, NULL, OPT_ETAGS },
	{ "shard", required_argument, NULL, OPT_SHARD },
	CLI_S3_OPTIONS,
	CLI_PEER_TIMEOUT,
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static bool take_glob(const char *option, const char **list, size_t *nr)
{
	if (*nr == INDEX_PATTERNS) {
		cli_usage("index", "more than %d times %s", INDEX_PATTERNS, option);
		return false;
	}
	list[(*nr)++] = optarg;
	return true;
}

static bool take_threads(struct index_arguments *a)
{
	uint64_t nr;

	if (!cli_threads("index", &nr))
		return false;
	a->tree.nr_threads = (unsigned)nr;
	return true;
}

static bool take_connections(struct index_arguments *a)
{
	uint64_t nr;

	if (!cli_number("index", "--connections", &nr))
		return false;
	if (nr < 1 || nr > 1024)
		cli_usage("index", "--connections must be 1 to 1024");
	a->tree.nr_threads = (unsigned)nr;
	return nr >= 1 && nr <= 1024;
}

static bool take_shard(struct index_arguments *a)
{
	const char *slash = strchr(optarg, '/');
	uint64_t k = 0, n = 0;

	if (!slash || parse_digits(optarg, (size_t)(slash - optarg), &k) < 0 ||
	    parse_u64(slash + 1, &n) < 0 || k < 1 || k > n || n > INDEX_SHARDS) {
		cli_usage("index", "--shard '%s' is not K/N, with K from 1 to N, and N up to %u",
			  optarg, INDEX_SHARDS);
		return false;
	}
	a->tree.shard = (unsigned)k - 1;
	a->tree.nr_shards = (unsigned)n;
	return true;
}

static bool take_bucket_option(int c, struct index_arguments *a)
{
	switch (c) {
	case OPT_CONNECTIONS:
		a->tree_only = a->bucket_only = "--connections";
		return take_connections(a);
	case OPT_ETAGS:
		a->tree_only = a->bucket_only = "--etags";
		return a->tree.etags = true;
	case OPT_SHARD:
		a->tree_only = a->bucket_only = "--shard";
		return take_shard(a);
	default:
		return false;
	}
}

static bool take_tree_option(int c, struct index_arguments *a)
{
	switch (c) {
	case 'x':
		a->tree_only = a->files_only = "--one-file-system";
		return a->tree.one_fs = true;
	case OPT_NO_SIZES:
		a->tree_only = "--no-sizes";
		return a->tree.no_sizes = true;
	case OPT_FOLLOW:
		a->tree_only = a->files_only = "--follow";
		return a->tree.follow = true;
	case OPT_KEEP_GOING:
		a->tree_only = "--keep-going";
		return a->tree.keep_going = true;
	case OPT_INCLUDE:
		a->tree_only = "--include";
		return take_glob("--include", a->include, &a->tree.nr_include);
	case OPT_EXCLUDE:
		a->tree_only = "--exclude";
		return take_glob("--exclude", a->exclude, &a->tree.nr_exclude);
	case OPT_RESUME:
		a->tree_only = "--resume";
		return a->tree.resume = true;
	case OPT_UPDATE:
		a->tree_only = a->files_only = "--update";
		a->tree.update = optarg;
		return true;
	case OPT_THREADS:
		a->tree_only = a->files_only = "--threads";
		return take_threads(a);
	default:
		return take_bucket_option(c, a);
	}
}

static bool take_pattern_option(int c, struct index_arguments *a)
{
	switch (c) {
	case OPT_PATTERN:
		a->pattern.format = optarg;
		return true;
	case OPT_COUNT:
		a->count_given = true;
		a->pattern_only = "--count";
		return cli_number("index", "--count", &a->pattern.count);
	case OPT_FIRST:
		a->pattern_only = "--first";
		return cli_number("index", "--first", &a->pattern.first);
	case OPT_SUBFOLDERS:
		a->pattern_only = "--subfolders";
		return cli_number("index", "--subfolders", &a->pattern.subfolders);
	case OPT_SIZE:
		a->pattern_only = "--size";
		if (!cli_size("index", "--size", &a->pattern.size))
			return false;
		if (a->pattern.size == SHOAL_SIZE_UNKNOWN)
			cli_usage("index", "--size '%s' is too large", optarg);
		return a->pattern.size != SHOAL_SIZE_UNKNOWN;
	default:
		return take_tree_option(c, a);
	}
}

static bool index_options_option(int c, struct index_arguments *a)
{
	switch (c) {
	case 'o':
		a->options.output = optarg;
		return true;
	case '0':
		a->list_only = "-0";
		return a->null = true;
	case 'q':
		return a->quiet = true;
	case OPT_NAMES_ONLY:
		a->list_only = "--names-only";
		return a->names_only = true;
	case OPT_ROOT:
		a->options.root = optarg;
		return true;
	case OPT_SAMPLES:
		a->samples_given = true;
		return cli_number("index", "--samples-per-file", &a->options.samples_per_file);
	case OPT_MEMORY:
		a->memory_given = true;
		return cli_size("index", "--memory", &a->options.memory);
	case OPT_TMP_DIR:
		a->options.tmp_dir = optarg;
		return true;
	case OPT_JSON:
		return a->json = true;
	default:
		return take_pattern_option(c, a);
	}
}

/* A bucket has no links and no directories; a directory has no connections. */
static int index_options_check_bucket(const struct index_arguments *a)
{
	bool bucket = store_uri_traits(a->source).objects;

	if (cli_s3_check_uri("index", a->source) != CLI_OK)
		return CLI_USAGE;
	if (bucket && a->files_only && strcmp(a->files_only, "--update") == 0)
		return cli_usage("index",
				 "--update is for a directory: a bucket does not record what "
				 "changed in it; list it again");
	if (bucket && a->files_only && strcmp(a->files_only, "--threads") == 0)
		return cli_usage("index", "--threads is for a directory: a bucket is listed with "
					  "--connections N");
	if (bucket && a->files_only)
		return cli_usage("index", "%s is for a directory, not for a bucket", a->files_only);
	if (!bucket && a->bucket_only)
		return cli_usage("index", "%s is for a bucket, as s3://bucket/prefix",
				 a->bucket_only);
	return CLI_OK;
}

/* An option that is not for what is indexed. */
static int check_kind(const struct index_arguments *a)
{
	struct stat st;

	if (a->tree_only && a->kind == INDEX_LIST && strcmp(a->source, "-") != 0 &&
	    stat(a->source, &st) < 0)
		return cli_fail("index", "'%s': cannot open it: %s", a->source, strerror(errno));
	if (a->tree_only && a->kind != INDEX_TREE)
		return cli_usage("index", "%s is for a %s, not for a %s", a->tree_only,
				 a->tree_only == a->bucket_only ? "bucket" : "directory",
				 a->kind == INDEX_LIST ? "LIST" : "--pattern");
	if (a->list_only && a->kind != INDEX_LIST)
		return cli_usage("index", "%s is for a LIST, not for a %s", a->list_only,
				 a->kind == INDEX_TREE ? "directory" : "--pattern");
	if (a->pattern_only && a->kind != INDEX_PATTERN)
		return cli_usage("index", "%s is for --pattern", a->pattern_only);
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

/* A root that is a URI or a whole path tells by itself whether it can be one. */
static int check_root(const struct index_arguments *a)
{
	const char *given = a->options.root;
	struct index_root root;
	struct shoal_err err = { "" };

	if (!given || (*given && *given != '/' && !store_uri_scheme_len(given, strlen(given))))
		return CLI_OK;
	if (index_root_init(&root, given, NULL, 0, &err) == 0)
		return CLI_OK;
	err_hint(&err, SHOAL_HINT_NONE, 0); /* which would be to give a --root */
	return cli_usage("index", "--root: %s", cli_words("index", &err));
}

/* CLI_OK when the arguments make sense together. */
static int check(const struct index_arguments *a, int nr_sources)
{
	if (cli_s3_check_uri("index", a->options.output) != CLI_OK)
		return CLI_USAGE;
	if (!a->options.output)
		return cli_usage("index", "say where to write the catalog: -o FILE");
	if (strcmp(a->options.output, "-") == 0)
		return cli_usage("index",
				 "a catalog cannot be written to standard output: -o FILE");
	if (a->tree.resume && store_uri_traits(a->options.output).objects)
		return cli_usage("index", "--resume needs a catalog that is a file: -o FILE");
	if (a->tree.update && a->tree.follow)
		return cli_usage("index",
				 "--update cannot be used with --follow: behind links, times "
				 "do not show what changed");
	if (a->pattern.format && nr_sources > 0)
		return cli_usage("index", "give a directory, a LIST or a --pattern, not two");
	if (!a->pattern.format && nr_sources != 1)
		return cli_usage(
			"index",
			"give one directory or LIST (- is standard input), or a --pattern");
	if (a->pattern.format && !a->count_given)
		return cli_usage("index", "say how many names the pattern generates: --count N");
	if (a->samples_given && a->options.samples_per_file == 0)
		return cli_usage("index", "--samples-per-file must be 1 or more");
	if (a->memory_given && a->options.memory < SHOAL_INDEX_MEMORY_MIN)
		return cli_usage("index", "--memory must be 48M or more");
	if (check_root(a) != CLI_OK)
		return CLI_USAGE;
	return check_globs(a);
}

static enum index_source index_options_kind_of(const struct index_arguments *a)
{
	struct stat st;

	if (a->pattern.format)
		return INDEX_PATTERN;
	if (store_uri_scheme_len(a->source, strlen(a->source)) ||
	    (stat(a->source, &st) == 0 && S_ISDIR(st.st_mode)))
		return INDEX_TREE;
	return INDEX_LIST;
}

int index_arguments_parse(int argc, char **argv, struct index_arguments *a, bool *ret_done)
{
	int c, status;

	*a = (struct index_arguments){ .options = { .stop = &cli_stop, .config = &a->where.config },
				       .pattern.size = SHOAL_SIZE_UNKNOWN };
	a->tree.include = a->include;
	a->tree.exclude = a->exclude;
	*ret_done = false;
	while ((c = cli_getopt(argc, argv, ":o:0qxh", longs, &a->where)) != -1) {
		if (c == 'h') {
			*ret_done = true;
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		}
		if (!index_options_option(c, a))
			return CLI_USAGE;
	}
	status = check(a, argc - optind);
	if (status != CLI_OK)
		return status;
	a->source = argv[optind];
	a->kind = index_options_kind_of(a);
	status = check_kind(a);
	return status == CLI_OK && a->kind == INDEX_TREE ? index_options_check_bucket(a) : status;
}
