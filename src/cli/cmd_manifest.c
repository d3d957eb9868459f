/*
 * shoal manifest: a list of URIs for each rank and epoch.
 *
 * Rank r gets the files at positions r, r + W, r + 2 W ... of the epoch, so that the lists of an
 * epoch are a partition of the dataset whose parts differ by one file at most. Each list is made by
 * itself, by computing its positions: memory does not grow with files, ranks or epochs.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/out.h"
#include "base/publish.h"
#include "base/text.h"
#include "cli/order_options.h"
#include "cli/s3_options.h"

static const char usage[] =
	"usage: shoal manifest FILE --ranks W -o DIR [OPTION]...\n"
	"\n"
	"Write DIR/train_epoch0000_rank00000.txt and so on: the URIs of the files that each rank reads,\n"
	"one a line, in the order in which it reads them. Together the lists of an epoch hold every\n"
	"file once. A URI is the root, a slash and the name as it is: nothing is percent-encoded.\n"
	"\n"
	"      --ranks W       one list for each of W ranks (default 1)\n"
	"  -o, --output DIR    write the lists here; made if it is missing\n"
	"      --epochs A..B   lists for epochs A to B, both with them\n" ORDER_USAGE
	"      --prefix NAME   start of the lists' names (default train)\n"
	"      --paths         plain paths instead of file:// URIs\n"
	"  -0, --null          end URIs with NUL bytes, not line ends\n"
	"      --local-copy DIR   read a copy of the catalog in DIR, made if need be\n"
	"  -q, --quiet         print nothing but errors\n" CLI_S3_USAGE;

enum { OPT_EPOCHS = 400, OPT_PREFIX, OPT_PATHS };

static const struct option longs[] = {
	ORDER_LONG_OPTIONS,
	{ "output", required_argument, NULL, 'o' },
	{ "epochs", required_argument, NULL, OPT_EPOCHS },
	{ "prefix", required_argument, NULL, OPT_PREFIX },
	{ "paths", no_argument, NULL, OPT_PATHS },
	{ "null", no_argument, NULL, '0' },
	{ "quiet", no_argument, NULL, 'q' },
	CLI_LOCAL_COPY,
	CLI_S3_OPTIONS,
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* Positions turned into ids at once. */
#define CHUNK 1024u

/* More epochs in one go than this are a slip of the finger. */
#define EPOCHS_MAX 1000000u

struct arguments {
	const char *path, *dir, *prefix;
	struct shoal_order_spec spec;
	uint64_t first_epoch, last_epoch;
	bool paths, quiet, epoch_given, epochs_given;
	char end;
};

static bool take_epochs(struct arguments *a)
{
	const char *dots = strstr(optarg, "..");

	a->epochs_given = true;
	if (dots && shoal_parse_digits(optarg, (size_t)(dots - optarg), &a->first_epoch) == 0 &&
	    shoal_parse_u64(dots + 2, &a->last_epoch) == 0 && a->first_epoch <= a->last_epoch &&
	    a->last_epoch - a->first_epoch < EPOCHS_MAX)
		return true;
	cli_usage("manifest", "--epochs '%s' is not a range such as 0..4, of a million at most",
		  optarg);
	return false;
}

static bool take_option(int c, struct arguments *a)
{
	int shared = order_option("manifest", c, &a->spec, &a->first_epoch);

	if (shared) {
		if (c == OPT_EPOCH) {
			a->epoch_given = true;
			a->last_epoch = a->first_epoch;
		}
		return shared > 0;
	}
	switch (c) {
	case 'o':
		a->dir = optarg;
		return true;
	case OPT_EPOCHS:
		return take_epochs(a);
	case OPT_PREFIX:
		a->prefix = optarg;
		return true;
	case OPT_PATHS:
		return a->paths = true;
	case '0':
		a->end = '\0';
		return true;
	case 'q':
		return a->quiet = true;
	default:
		return false;
	}
}

static char *list_name(const struct arguments *a, uint64_t epoch, uint64_t rank)
{
	char *name = NULL;

	if (asprintf(&name, "%s/%s_epoch%04" PRIu64 "_rank%05" PRIu64 ".txt", a->dir, a->prefix,
		     epoch, rank) < 0)
		return NULL;
	return name;
}

/* Write one line: the root, a slash where it has none, the name. */
static int put_uri(const struct arguments *a, struct shoal_out *out, const char *root,
		   const struct shoal_catalog *cat, uint64_t id, struct shoal_err *err)
{
	char name[SHOAL_NAME_MAX + 1];
	size_t root_len = strlen(root);
	int len = shoal_catalog_name(cat, id, name);

	if (len < 0)
		return shoal_catalog_explain(cat, len, err);
	if (memchr(name, a->end, (size_t)len))
		return shoal_fail(err, -EINVAL, "name %" PRIu64 " holds a line end: use -0", id);
	shoal_out_write(out, root, root_len);
	if (root_len == 0 || root[root_len - 1] != '/')
		shoal_out_write(out, "/", 1);
	shoal_out_write(out, name, (size_t)len);
	shoal_out_write(out, &a->end, 1);
	return 0;
}

/*
 * The next files of the rank, at most CHUNK of them: those at positions rank, rank + W ... of the
 * epoch; in mode local, where batches are of CHUNK, those of its own share.
 */
static int64_t next_files(const struct arguments *a, const struct shoal_order *order, uint64_t rank,
			  uint64_t chunk, uint64_t *ids)
{
	uint64_t positions[CHUNK];
	size_t nr = 0;
	int rc;

	if (a->spec.mode == SHOAL_LOCAL)
		return chunk < shoal_order_steps(order) ? shoal_order_batch(order, chunk, rank, ids)
							: 0;
	for (uint64_t i = 0; i < CHUNK; i++) {
		uint64_t p = (chunk * CHUNK + i) * a->spec.nr_ranks + rank;

		if (p < a->spec.nr_samples)
			positions[nr++] = p;
	}
	rc = shoal_order_at(order, positions, nr, ids);
	return rc < 0 ? rc : (int64_t)nr;
}

static int put_files(const struct arguments *a, struct shoal_out *out, const char *root,
		     const struct shoal_catalog *cat, const struct shoal_order *order,
		     uint64_t rank, struct shoal_err *err)
{
	uint64_t ids[CHUNK];
	int64_t nr;

	for (uint64_t chunk = 0; (nr = next_files(a, order, rank, chunk, ids)) >= 0; chunk++) {
		if (cli_stop)
			return shoal_fail(err, -ECANCELED, "interrupted");
		if (nr == 0)
			return 0;
		for (int64_t i = 0; i < nr; i++) {
			int rc = put_uri(a, out, root, cat, ids[i], err);

			if (rc < 0)
				return rc;
		}
	}
	return shoal_fail_errno(err, (int)nr, "cannot compute the order");
}

static int write_list(const struct arguments *a, const char *path, const char *root,
		      const struct shoal_catalog *cat, const struct shoal_order *order,
		      uint64_t rank, struct shoal_err *err)
{
	struct shoal_publish pub = SHOAL_PUBLISH_CLOSED;
	struct shoal_out out;
	int rc;

	rc = shoal_publish_open(path, &pub, err);
	if (rc < 0)
		return rc;
	rc = shoal_out_init(&out, pub.fd, 0, 1u << 18);
	if (rc < 0)
		shoal_fail(err, rc, "out of memory");
	if (rc == 0)
		rc = put_files(a, &out, root, cat, order, rank, err);
	if (rc == 0) {
		shoal_out_flush(&out);
		rc = out.rc < 0 ? shoal_fail_errno(err, out.rc, "cannot write '%s'", path) : 0;
	}
	shoal_out_release(&out);
	if (rc == 0)
		rc = shoal_publish_commit(&pub, err);
	shoal_publish_abort(&pub);
	return rc;
}

static int interrupted(void)
{
	cli_fail("manifest", "interrupted: the lists made so far are complete");
	cli_die_of_signal();
	return CLI_FAILED;
}

/* A list of a higher rank from an earlier run would make the lists no partition any more. */
static int check_leftover(const struct arguments *a, uint64_t epoch)
{
	char *name = list_name(a, epoch, a->spec.nr_ranks);
	struct stat st;
	int status = CLI_OK;

	if (cli_stop) {
		free(name);
		return interrupted();
	}
	if (!name)
		return cli_fail("manifest", "out of memory");
	if (stat(name, &st) == 0)
		status = cli_fail("manifest",
				  "'%s' is there from a run with more ranks: remove its lists, or "
				  "write to another directory",
				  name);
	free(name);
	return status;
}

static int write_epoch(const struct arguments *a, const char *root, const struct shoal_catalog *cat,
		       struct shoal_order *order, uint64_t epoch)
{
	shoal_order_set_epoch(order, epoch);
	for (uint64_t rank = 0; rank < a->spec.nr_ranks; rank++) {
		char *name = list_name(a, epoch, rank);
		struct shoal_err err = { "" };
		int rc = -ENOMEM;

		if (name)
			rc = write_list(a, name, root, cat, order, rank, &err);
		free(name);
		if (rc == -ECANCELED)
			return interrupted();
		if (rc < 0)
			return cli_fail("manifest", "'%s': %s", a->path,
					*err.msg ? err.msg : "out of memory");
	}
	return CLI_OK;
}

static int make_dir(const char *dir)
{
	struct stat st;

	if (mkdir(dir, 0777) == 0)
		return CLI_OK;
	if (errno != EEXIST)
		return cli_fail("manifest", "cannot make the directory '%s': %s", dir,
				strerror(errno));
	if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
		return CLI_OK;
	return cli_fail("manifest", "'%s' is not a directory", dir);
}

static int write_manifests(struct arguments *a, const struct shoal_catalog *cat)
{
	static const char scheme[] = "file://";
	struct shoal_order *order = NULL;
	struct shoal_catalog_info info;
	struct shoal_err err = { "" };
	int status = CLI_OK;
	const char *root;
	uint64_t nr = (a->last_epoch - a->first_epoch + 1) * a->spec.nr_ranks;

	shoal_catalog_info(cat, &info);
	root = info.root;
	if (a->paths && strncmp(root, scheme, strlen(scheme)) != 0)
		return cli_fail("manifest", "--paths: the root '%s' is not a file:// URI", root);
	if (a->paths)
		root += strlen(scheme);
	if (info.nr_files == 0 && cli_check_samples(cat, &err) < 0)
		return cli_fail("manifest", "'%s': %s", a->path, err.msg);
	a->spec.nr_samples = info.nr_files; /* lists are of files */
	if (a->spec.mode == SHOAL_LOCAL)
		a->spec.batch = CHUNK;
	if (shoal_order_new(&a->spec, a->first_epoch, &order, &err) < 0)
		return cli_usage("manifest", "%s", err.msg);
	status = make_dir(a->dir);
	for (uint64_t i = 0; i <= a->last_epoch - a->first_epoch && status == CLI_OK; i++)
		status = check_leftover(a, a->first_epoch + i);
	for (uint64_t i = 0; i <= a->last_epoch - a->first_epoch && status == CLI_OK; i++)
		status = write_epoch(a, root, cat, order, a->first_epoch + i);
	shoal_order_free(order);
	if (status == CLI_OK && shoal_catalog_check_fresh(cat, &err) < 0)
		return cli_fail("manifest", "'%s': %s", a->path, err.msg);
	if (status == CLI_OK && !a->quiet)
		fprintf(stderr, "%" PRIu64 " list%s of %" PRIu64 " file%s in '%s'\n", nr,
			shoal_plural(nr), info.nr_files, shoal_plural(info.nr_files), a->dir);
	return status;
}

int cmd_manifest(int argc, char **argv)
{
	struct arguments a = { .spec = { .mode = SHOAL_GLOBAL,
					 .remainder = SHOAL_KEEP,
					 .nr_ranks = 1,
					 .batch = 1 },
			       .prefix = "train",
			       .end = '\n' };
	struct shoal_catalog *cat;
	int c, status;

	while ((c = cli_getopt(argc, argv, ":o:0qh", longs)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (!take_option(c, &a))
			return CLI_USAGE;
	}
	if (argc - optind != 1)
		return cli_usage("manifest", "give one catalog");
	if (!a.dir)
		return cli_usage("manifest", "say where to write the lists: -o DIR");
	if (a.epoch_given && a.epochs_given)
		return cli_usage("manifest", "give --epoch or --epochs, not both");
	if (!*a.prefix || strchr(a.prefix, '/'))
		return cli_usage("manifest", "--prefix must be a name without a '/'");
	a.path = argv[optind];
	cat = cli_open("manifest", a.path);
	if (!cat)
		return CLI_FAILED;
	cli_catch_signals();
	status = write_manifests(&a, cat);
	shoal_catalog_close(cat);
	return status;
}
