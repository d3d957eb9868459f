/*
 * bench_catalog - the cost of opening, looking up, iterating over, checking and writing a catalog.
 *
 * Each line has a name, the number of names, a value and its unit, separated by tabs. Values are
 * medians of several tries. Names with _wall are wall times; the others are CPU times, which other
 * work on the machine disturbs less. Lookups are random over the whole file, with new ids in each
 * try, on one thread, after one pass over the whole map, so that no page is missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "shoal.h"

#define TRIES      5
#define OPENS      51
#define LOOKUPS    1000000
#define SLOW_NS    2000    /* a lookup that takes longer is tried a tenth as often */
#define LONG_NAMES 5000000 /* from here on a pass over all names is tried only once */

static const char usage[] =
	"usage: bench_catalog [--quick] CATALOG [SORTED_LIST]\n"
	"                                lookups; and is the walk equal to the list?\n"
	"       bench_catalog --encode SORTED_LIST OUT\n"
	"                                write a list that is already in memory\n"
	"       bench_catalog --stream OUT\n"
	"                                write sorted names from standard input\n"
	"\n"
	"  --quick  a tenth of the lookups, and one pass where there would be three\n";

static bool quick;

static uint64_t sink; /* so that nothing is optimised away */

/* ---- Time ------------------------------------------------------------------------------- */

struct span {
	double cpu, wall; /* ns */
};

static double clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The process's CPU time, because a writer may have threads. */
static struct span span_start(void)
{
	return (struct span){ clock_ns(CLOCK_PROCESS_CPUTIME_ID), clock_ns(CLOCK_MONOTONIC) };
}

static struct span span_since(struct span start, double per)
{
	struct span now = span_start();

	return (struct span){ (now.cpu - start.cpu) / per, (now.wall - start.wall) / per };
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, size_t nr)
{
	qsort(v, nr, sizeof(*v), compare_doubles);
	return v[nr / 2];
}

static void row(const char *name, uint64_t n, double value, const char *unit)
{
	printf("%s\t%" PRIu64 "\t%.6g\t%s\n", name, n, value, unit);
}

/* The medians of @nr tries, as NAME and NAME_wall, divided by @scale. */
static void row_spans(const char *name, uint64_t n, const struct span *spans, size_t nr,
		      double scale, const char *unit)
{
	double cpu[TRIES], wall[TRIES];
	char wall_name[64];

	for (size_t i = 0; i < nr; i++) {
		cpu[i] = spans[i].cpu / scale;
		wall[i] = spans[i].wall / scale;
	}
	snprintf(wall_name, sizeof(wall_name), "%s_wall", name);
	row(name, n, median(cpu, nr), unit);
	row(wall_name, n, median(wall, nr), unit);
}

static size_t passes(uint64_t n)
{
	return quick || n >= LONG_NAMES ? 1 : 3;
}

/* ---- Helpers ---------------------------------------------------------------------------- */

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_catalog: %s: %s\n", what, why);
	exit(1);
}

static void check(int rc, const char *what, const struct shoal_err *err)
{
	if (rc < 0)
		die(what, err->msg);
}

static void *take_memory(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		die("memory", strerror(errno));
	return p;
}

static uint64_t draw(void)
{
	static uint64_t state = 1;
	uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* ---- Lookups ---------------------------------------------------------------------------- */

/* The lookups of a try, prepared before its clock starts. */
struct queries {
	size_t nr;
	uint64_t ids[LOOKUPS];
	uint32_t lens[LOOKUPS];
	size_t starts[LOOKUPS]; /* of the names in `text` */
	char *text;
	size_t text_cap;
};

static void draw_ids(struct queries *q, uint64_t n)
{
	for (size_t i = 0; i < q->nr; i++)
		q->ids[i] = draw() % n;
}

static void prepare_names(struct queries *q, const struct shoal_catalog *cat)
{
	size_t end = 0;

	for (size_t i = 0; i < q->nr; i++) {
		int len;

		if (q->text_cap - end < SHOAL_NAME_MAX + 1) {
			q->text_cap = 2 * q->text_cap + (1 << 20);
			q->text = realloc(q->text, q->text_cap);
			if (!q->text)
				die("memory", strerror(errno));
		}
		len = shoal_catalog_name(cat, q->ids[i], q->text + end);
		if (len < 0)
			die("id to name", strerror(-len));
		q->starts[i] = end;
		q->lens[i] = (uint32_t)len;
		end += (size_t)len;
	}
}

static struct span id_to_name(const struct queries *q, const struct shoal_catalog *cat)
{
	char name[SHOAL_NAME_MAX + 1];
	struct span start = span_start();

	for (size_t i = 0; i < q->nr; i++) {
		int len = shoal_catalog_name(cat, q->ids[i], name);

		if (UNLIKELY(len < 1))
			die("id to name", strerror(-len));
		sink += (unsigned char)name[len - 1];
	}
	return span_since(start, (double)q->nr);
}

static struct span name_to_id(const struct queries *q, const struct shoal_catalog *cat)
{
	struct span start = span_start();

	for (size_t i = 0; i < q->nr; i++) {
		uint64_t id;
		int rc = shoal_catalog_find(cat, q->text + q->starts[i], q->lens[i], &id);

		if (UNLIKELY(rc < 0))
			die("name to id", strerror(-rc));
		if (UNLIKELY(id != q->ids[i]))
			die("name to id", "the id is not the one that the name was looked up by");
	}
	return span_since(start, (double)q->nr);
}

static struct span id_to_size(const struct queries *q, const struct shoal_catalog *cat)
{
	struct span start = span_start();

	for (size_t i = 0; i < q->nr; i++) {
		uint64_t size;

		if (UNLIKELY(shoal_catalog_size(cat, q->ids[i], &size) < 0))
			die("id to size", "failed");
		sink += size;
	}
	return span_since(start, (double)q->nr);
}

/* At most as many as take about a second per try: packed blocks take microseconds. */
static void choose_nr(struct queries *q, const struct shoal_catalog *cat, uint64_t n)
{
	q->nr = LOOKUPS / 100;
	draw_ids(q, n);
	q->nr = id_to_name(q, cat).cpu > SLOW_NS ? LOOKUPS / 10 : LOOKUPS;
	q->nr /= quick ? 10 : 1;
}

static void bench_lookups(const struct shoal_catalog *cat, const struct shoal_catalog_info *info)
{
	struct queries *q = take_memory(sizeof(*q));
	struct span names[TRIES], ids[TRIES], sizes[TRIES];
	uint64_t n = info->nr_files;

	q->text = NULL;
	q->text_cap = 0;
	choose_nr(q, cat, n);
	for (size_t i = 0; i < TRIES; i++) {
		draw_ids(q, n);
		names[i] = id_to_name(q, cat);
		if (info->size_bytes > 0)
			sizes[i] = id_to_size(q, cat);
		/* Not those just used, whose cache lines may still be present. */
		draw_ids(q, n);
		prepare_names(q, cat);
		ids[i] = name_to_id(q, cat);
	}
	row_spans("id_to_name", n, names, TRIES, 1, "ns");
	row_spans("name_to_id", n, ids, TRIES, 1, "ns");
	if (info->size_bytes > 0)
		row_spans("id_to_size", n, sizes, TRIES, 1, "ns");
	free(q->text);
	free(q);
}

/* ---- Passes over everything ------------------------------------------------------------- */

static void bench_open(const char *path, uint64_t n)
{
	double us[OPENS];

	for (size_t i = 0; i < OPENS; i++) {
		struct shoal_catalog *cat = NULL;
		struct shoal_err err = { "" };
		struct span start = span_start();

		check(shoal_catalog_open(path, &cat, &err), path, &err);
		us[i] = span_since(start, 1e3).wall;
		shoal_catalog_close(cat);
	}
	row("open_wall", n, median(us, OPENS), "us");
}

static void bench_verify(const struct shoal_catalog *cat, uint64_t n)
{
	struct span spans[TRIES];

	for (size_t i = 0; i < passes(n); i++) {
		struct shoal_err err = { "" };
		struct span start = span_start();

		check(shoal_catalog_verify(cat, &err), "verify", &err);
		spans[i] = span_since(start, 1);
	}
	row_spans("verify", n, spans, passes(n), (double)n, "ns/name");
}

static struct span walk(const struct shoal_catalog *cat, uint64_t n)
{
	struct shoal_cursor *cursor = NULL;
	struct shoal_err err = { "" };
	struct span start = span_start(), span;
	const char *name;
	uint64_t nr = 0;
	size_t len;
	int rc;

	check(shoal_cursor_new(cat, 0, &cursor, &err), "cursor", &err);
	while ((rc = shoal_cursor_next(cursor, &name, &len)) > 0) {
		sink += (unsigned char)name[len - 1];
		nr++;
	}
	span = span_since(start, (double)n);
	shoal_cursor_free(cursor);
	if (rc < 0 || nr != n)
		die("walk", rc < 0 ? strerror(-rc) : "other names than the catalog says");
	return span;
}

static void bench_walk(const struct shoal_catalog *cat, uint64_t n)
{
	struct span spans[TRIES];

	for (size_t i = 0; i < passes(n); i++)
		spans[i] = walk(cat, n);
	row_spans("walk", n, spans, passes(n), 1, "ns/name");
}

/* All names must be those of the list: a fast catalog of other names is worthless. */
static void compare_list(const struct shoal_catalog *cat, uint64_t n, const char *path)
{
	struct shoal_cursor *cursor = NULL;
	struct shoal_err err = { "" };
	FILE *f = fopen(path, "r");
	char *line = NULL;
	const char *name;
	size_t cap = 0, len;
	uint64_t nr = 0;

	if (!f)
		die(path, strerror(errno));
	check(shoal_cursor_new(cat, 0, &cursor, &err), "cursor", &err);
	while (shoal_cursor_next(cursor, &name, &len) > 0) {
		ssize_t got = getline(&line, &cap, f);

		if (got != (ssize_t)len + 1 || memcmp(line, name, len) != 0)
			die(path, "the catalog has other names");
		nr++;
	}
	if (nr != n || getline(&line, &cap, f) != -1)
		die(path, "the list and the catalog have different numbers of names");
	row("same_as_list", n, (double)nr, "names");
	shoal_cursor_free(cursor);
	free(line);
	fclose(f);
}

static int bench_catalog(const char *path, const char *list)
{
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	struct shoal_catalog_info info;
	uint64_t n;

	check(shoal_catalog_open(path, &cat, &err), path, &err);
	shoal_catalog_info(cat, &info);
	n = info.nr_files;
	if (n == 0)
		die(path, "has no names");
	row("name_bytes", n, (double)(info.file_bytes - info.size_bytes) / (double)n, "B/name");
	row("size_bytes", n, (double)info.size_bytes / (double)n, "B/name");
	row("segments", n, (double)info.nr_segments, "");
	bench_open(path, n);
	bench_verify(cat, n); /* first, because it brings all pages into the map */
	bench_lookups(cat, &info);
	bench_walk(cat, n);
	if (list)
		compare_list(cat, n, list);
	shoal_catalog_close(cat);
	return 0;
}

/* ---- Writing ---------------------------------------------------------------------------- */

static const struct shoal_writer_options writer_options = {
	.root = "file:///bench",
	.samples_per_file = 1,
};

/* A list in memory, and where its lines end. */
struct list {
	char *text;
	size_t len;
	uint32_t *lens; /* of the lines, without their ends */
	uint64_t nr;
};

static void read_text(struct list *l, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		die(path, strerror(errno));
	l->text = take_memory((size_t)st.st_size + 1);
	while (l->len < (size_t)st.st_size) {
		ssize_t got = read(fd, l->text + l->len, (size_t)st.st_size - l->len);

		if (got <= 0)
			die(path, got < 0 ? strerror(errno) : "it shrank");
		l->len += (size_t)got;
	}
	close(fd);
}

/* Finding line ends is not the writer's cost, so it is done beforehand. */
static void split_lines(struct list *l, const char *path)
{
	const char *p = l->text, *end = l->text + l->len, *stop;
	uint64_t cap = 0;

	for (; p < end; p = stop + 1) {
		stop = memchr(p, '\n', (size_t)(end - p));
		if (!stop)
			die(path, "the last line has no end");
		if (l->nr == cap) {
			cap = 2 * cap + 65536;
			l->lens = realloc(l->lens, cap * sizeof(*l->lens));
			if (!l->lens)
				die("memory", strerror(errno));
		}
		l->lens[l->nr++] = (uint32_t)(stop - p);
	}
	if (l->nr == 0)
		die(path, "has no names");
}

/* Write one catalog. Returns the total time, and in @ret_add the time until it is sealed. */
static struct span encode(const struct list *l, const char *out, struct span *ret_add)
{
	struct shoal_writer *writer = NULL;
	struct shoal_err err = { "" };
	const char *name = l->text;
	struct span start = span_start();

	check(shoal_writer_open(out, &writer_options, &writer, &err), out, &err);
	for (uint64_t i = 0; i < l->nr; i++) {
		check(shoal_writer_add(writer, name, l->lens[i], 0, 1, &err), out, &err);
		name += l->lens[i] + 1;
	}
	*ret_add = span_since(start, 1);
	check(shoal_writer_seal(writer, &err), out, &err);
	return span_since(start, 1);
}

static int bench_encode(const char *path, const char *out)
{
	struct list l = { 0 };
	struct span all[TRIES], add[TRIES];
	size_t nr;

	read_text(&l, path);
	split_lines(&l, path);
	nr = l.nr >= LONG_NAMES ? 3 : TRIES;
	for (size_t i = 0; i < nr; i++) {
		if (unlink(out) < 0 && errno != ENOENT)
			die(out, strerror(errno));
		all[i] = encode(&l, out, &add[i]);
	}
	row_spans("encode", l.nr, all, nr, (double)l.nr, "ns/name");
	row_spans("encode_add", l.nr, add, nr, (double)l.nr, "ns/name");
	free(l.text);
	free(l.lens);
	return 0;
}

/* For lists that are larger than memory. The time includes reading and waiting for the names. */
static int bench_stream(const char *out)
{
	struct shoal_writer *writer = NULL;
	struct shoal_err err = { "" };
	struct span start = span_start(), span;
	char *line = NULL;
	size_t cap = 0;
	uint64_t nr = 0;
	ssize_t got;

	check(shoal_writer_open(out, &writer_options, &writer, &err), out, &err);
	for (; (got = getline(&line, &cap, stdin)) > 0; nr++) {
		size_t len = (size_t)got - (line[got - 1] == '\n');

		check(shoal_writer_add(writer, line, len, 0, 1, &err), out, &err);
	}
	if (ferror(stdin) || nr == 0)
		die("standard input", nr == 0 ? "has no names" : strerror(errno));
	check(shoal_writer_seal(writer, &err), out, &err);
	span = span_since(start, (double)nr);
	row_spans("stream", nr, &span, 1, 1, "ns/name");
	free(line);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "--encode") == 0)
		return bench_encode(argv[2], argv[3]);
	if (argc == 3 && strcmp(argv[1], "--stream") == 0)
		return bench_stream(argv[2]);
	if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
		quick = true;
		argv++;
		argc--;
	}
	if ((argc == 2 || argc == 3) && argv[1][0] != '-')
		return bench_catalog(argv[1], argc == 3 ? argv[2] : NULL);
	fputs(usage, stderr);
	return 2 + (sink == 1); /* reads the sink, which is 0 here */
}
