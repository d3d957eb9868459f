/*
 * make_tree - make a tree of many files without data, for the listing benchmark.
 *
 * Names are as DLIO makes them, sizes a function of the file's number, so that the same call makes
 * the same tree. What was asked for stands in DIR.tree, beside the tree and not in it: a call that
 * was interrupted goes on, one that was finished returns at once, and one that asks for something
 * else is refused rather than mixed in.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#define COUNT_MAX   UINT64_C(10000000000)
#define THREADS_MAX 64
#define FLAT_CHUNK  1024 /* files of a flat directory that a thread takes at a time */
#define MARK_DONE   "done\n"

static const char usage[] =
	"usage: make_tree DIR COUNT DIRS [--size MEAN --dev DEV] [--names PATTERN] [--threads N]\n"
	"\n"
	"Make COUNT sparse files in DIRS folders 0000, 0001, ... of DIR, file i in folder i mod DIRS;\n"
	"with DIRS 0 they lie in DIR itself. Goes on where an earlier call was interrupted.\n"
	"\n"
	"  --size MEAN      sizes around this (default 0: empty files)\n"
	"  --dev DEV        with this standard deviation (default 0)\n"
	"  --names PATTERN  with the number as {} or {:07d} (default img_{:0Wd}_of_COUNT.jpeg, where W\n"
	"                   is the width of COUNT)\n"
	"  --threads N      (default: one for each core)\n";

/* A tree being made. All but `next` stays as it is while threads run. */
struct tree {
	const char *path;
	int fd;
	uint64_t count, dirs;
	double mean, dev;
	char pattern[NAME_MAX + 1];
	size_t before_len;  /* of the pattern, up to its number */
	const char *after;  /* of the pattern, behind its number */
	unsigned width;     /* of the number */
	atomic_ullong next; /* folder, or chunk of a flat directory, that nobody has taken */
};

enum mark { MARK_NONE, MARK_BEGUN, MARK_FINISHED };

static void die(const char *format, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("make_tree: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

/* ---- Sizes and names -------------------------------------------------------------------- */

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* In (0, 1], so that it has a logarithm. */
static double unit(uint64_t x)
{
	return (double)((mix(x) >> 11) + 1) * 0x1p-53;
}

static off_t size_of(const struct tree *t, uint64_t i)
{
	uint64_t x = mix(i + UINT64_C(0x9e3779b97f4a7c15));
	double normal, size;

	if (t->mean < 1)
		return 0;
	normal = sqrt(-2 * log(unit(x))) * cos(6.283185307179586 * unit(~x));
	size = t->mean + t->dev * normal;
	return size > 1 ? (off_t)llround(size) : 1;
}

static unsigned nr_digits(uint64_t v)
{
	unsigned nr = 1;

	while (v >= 10) {
		v /= 10;
		nr++;
	}
	return nr;
}

/* @name has room: take_pattern() has seen to that. */
static void make_name(const struct tree *t, uint64_t i, char *name)
{
	unsigned width = nr_digits(i);
	char *p = mempcpy(name, t->pattern, t->before_len);

	width = width > t->width ? width : t->width;
	for (unsigned at = width; at-- > 0; i /= 10)
		p[at] = (char)('0' + i % 10);
	memcpy(p + width, t->after, strlen(t->after) + 1);
}

static void default_pattern(struct tree *t)
{
	snprintf(t->pattern, sizeof(t->pattern), "img_{:0%ud}_of_%" PRIu64 ".jpeg",
		 nr_digits(t->count), t->count);
}

/* Find the number's place in the pattern. */
static void take_pattern(struct tree *t)
{
	char *open = strchr(t->pattern, '{'), *end;
	unsigned long width = 0;

	if (!open)
		die("the pattern '%s' has no number: write {} or {:07d} where it stands",
		    t->pattern);
	end = open + 1;
	if (end[0] == ':' && end[1] == '0')
		width = strtoul(end + 1, &end, 10);
	if (*end == 'd')
		end++;
	if (*end != '}' || strchr(end, '{') || strchr(t->pattern, '/'))
		die("the pattern '%s' must have one number, {} or {:07d}, and no slash",
		    t->pattern);
	t->before_len = (size_t)(open - t->pattern);
	t->after = end + 1;
	if (width > NAME_MAX ||
	    t->before_len + strlen(t->after) + u64_max(width, nr_digits(t->count)) > NAME_MAX)
		die("the pattern '%s' makes names of more than %d bytes", t->pattern, NAME_MAX);
	t->width = (unsigned)width;
}

/* ---- Files ------------------------------------------------------------------------------ */

/* A file that an earlier call has made is left alone: changing it costs as much as making it. */
static void make_file(const struct tree *t, int dir, uint64_t i)
{
	char name[NAME_MAX + 1];
	off_t size = size_of(t, i);
	struct stat st;
	int fd;

	make_name(t, i, name);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 && errno == EEXIST) {
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		    st.st_size == size)
			return;
		fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0)
		die("'%s' in '%s' cannot be made: %s", name, t->path, strerror(errno));
	if (size > 0 && ftruncate(fd, size) < 0)
		die("'%s' in '%s' cannot be given %jd bytes: %s", name, t->path, (intmax_t)size,
		    strerror(errno));
	close(fd);
}

static void make_chunk(const struct tree *t, uint64_t chunk)
{
	uint64_t end = u64_min((chunk + 1) * FLAT_CHUNK, t->count);

	for (uint64_t i = chunk * FLAT_CHUNK; i < end; i++)
		make_file(t, t->fd, i);
}

static void make_folder(const struct tree *t, uint64_t folder)
{
	char name[24];
	int fd;

	snprintf(name, sizeof(name), "%04" PRIu64, folder);
	if (mkdirat(t->fd, name, 0755) < 0 && errno != EEXIST)
		die("folder '%s' of '%s' cannot be made: %s", name, t->path, strerror(errno));
	fd = openat(t->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		die("folder '%s' of '%s' cannot be opened: %s", name, t->path, strerror(errno));
	for (uint64_t i = folder; i < t->count; i += t->dirs)
		make_file(t, fd, i);
	close(fd);
}

/* A thread makes a folder by itself: two in one folder would wait for each other. */
static void *work(void *arg)
{
	struct tree *t = arg;
	uint64_t nr = t->dirs > 0 ? t->dirs : (t->count + FLAT_CHUNK - 1) / FLAT_CHUNK;

	for (;;) {
		uint64_t at = atomic_fetch_add(&t->next, 1);

		if (at >= nr)
			return NULL;
		if (t->dirs > 0)
			make_folder(t, at);
		else
			make_chunk(t, at);
	}
}

static void make_all(struct tree *t, unsigned nr_threads)
{
	pthread_t threads[THREADS_MAX];

	for (unsigned i = 0; i < nr_threads; i++) {
		int rc = pthread_create(&threads[i], NULL, work, t);

		if (rc != 0)
			die("a thread cannot be started: %s", strerror(rc));
	}
	for (unsigned i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
}

/* ---- The mark beside the tree ----------------------------------------------------------- */

/* What was asked for, as a line. */
static void describe(const struct tree *t, char *line, size_t cap)
{
	snprintf(line, cap,
		 "%" PRIu64 " files, %" PRIu64 " folders, sizes %.0f +- %.0f, names %s\n", t->count,
		 t->dirs, t->mean, t->dev, t->pattern);
}

static void mark_path(const struct tree *t, char *path, size_t cap)
{
	if ((size_t)snprintf(path, cap, "%s.tree", t->path) >= cap)
		die("'%s' is too long", t->path);
}

/* See that a mark is this tree's, where there is one. One whose tree is gone says nothing. */
static enum mark read_mark(const struct tree *t)
{
	char path[PATH_MAX], asked[2 * NAME_MAX], found[2 * NAME_MAX], last[sizeof(MARK_DONE)];
	enum mark mark = MARK_NONE;
	FILE *f;

	mark_path(t, path, sizeof(path));
	if (access(t->path, F_OK) < 0 && errno == ENOENT)
		unlink(path);
	f = fopen(path, "r");
	if (!f && errno == ENOENT)
		return MARK_NONE;
	if (!f)
		die("'%s' cannot be opened: %s", path, strerror(errno));
	describe(t, asked, sizeof(asked));
	if (fgets(found, sizeof(found), f)) {
		if (strcmp(found, asked) != 0)
			die("'%s' holds another tree (%.*s): remove it and '%s' first", t->path,
			    (int)strcspn(found, "\n"), found, path);
		mark = fgets(last, sizeof(last), f) && strcmp(last, MARK_DONE) == 0 ? MARK_FINISHED
										    : MARK_BEGUN;
	}
	fclose(f);
	return mark;
}

static void add_to_mark(const struct tree *t, const char *line)
{
	char path[PATH_MAX];
	FILE *f;

	mark_path(t, path, sizeof(path));
	f = fopen(path, "a");
	if (!f || fputs(line, f) < 0 || fclose(f) != 0)
		die("'%s' cannot be written: %s", path, strerror(errno));
}

/* ---- The command ------------------------------------------------------------------------ */

static bool parse_u64(const char *text, uint64_t max, uint64_t *ret_v)
{
	char *end;

	errno = 0;
	*ret_v = strtoull(text, &end, 10);
	return errno == 0 && *text >= '0' && *text <= '9' && *end == 0 && *ret_v <= max;
}

static bool parse_size(const char *text, double *ret_v)
{
	char *end;

	*ret_v = strtod(text, &end);
	return end != text && *end == 0 && *ret_v >= 0 && *ret_v < 1e12;
}

static bool take_name_option(struct tree *t, const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > NAME_MAX || strchr(text, '\n'))
		return false;
	memcpy(t->pattern, text, len + 1);
	return true;
}

static bool take_arguments(struct tree *t, int argc, char **argv, uint64_t *ret_threads)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "dev", required_argument, NULL, 'd' },
		{ "names", required_argument, NULL, 'n' },
		{ "threads", required_argument, NULL, 't' },
		{ 0 },
	};

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (!(c == 's' && parse_size(optarg, &t->mean)) &&
		    !(c == 'd' && parse_size(optarg, &t->dev)) &&
		    !(c == 'n' && take_name_option(t, optarg)) &&
		    !(c == 't' && parse_u64(optarg, THREADS_MAX, ret_threads) && *ret_threads > 0))
			return false;
	}
	if (argc - optind != 3 || !argv[optind][0])
		return false;
	t->path = argv[optind];
	return parse_u64(argv[optind + 1], COUNT_MAX, &t->count) && t->count > 0 &&
	       parse_u64(argv[optind + 2], 1000000, &t->dirs);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	struct tree t = { 0 };
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t nr_threads = cores > 0 ? u64_min((uint64_t)cores, THREADS_MAX) : 1;
	double start = now();
	char asked[2 * NAME_MAX];
	enum mark mark;

	if (!take_arguments(&t, argc, argv, &nr_threads)) {
		fputs(usage, stderr);
		return 2;
	}
	for (size_t len = strlen(argv[optind]); len > 1 && argv[optind][len - 1] == '/';)
		argv[optind][--len] = '\0'; /* the mark's name comes behind */
	if (!t.pattern[0])
		default_pattern(&t);
	take_pattern(&t);
	describe(&t, asked, sizeof(asked));
	mark = read_mark(&t);
	if (mark == MARK_FINISHED)
		return 0;
	if (mkdir(t.path, 0755) < 0 && errno != EEXIST)
		die("'%s' cannot be made: %s", t.path, strerror(errno));
	t.fd = open(t.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t.fd < 0)
		die("'%s' cannot be opened: %s", t.path, strerror(errno));
	if (mark == MARK_NONE)
		add_to_mark(&t, asked);
	make_all(&t, (unsigned)nr_threads);
	add_to_mark(&t, MARK_DONE);
	fprintf(stderr, "%" PRIu64 " files in '%s' in %.1f s\n", t.count, t.path, now() - start);
	return 0;
}
