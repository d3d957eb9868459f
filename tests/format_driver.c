/*
 * Make files for tests that open them with other people's readers, and measure how fast.
 *
 * format_driver make FORMAT SIZE SAMPLES KEY [PART]   to standard output
 * format_driver samples KIND FILE [RECORD_LEN]        a line "offset length rows" for each sample
 * format_driver speed FORMAT SIZE SAMPLES SECONDS     CPU nanoseconds a byte
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format/format_private.h"
#include "format/samples.h"

static uint8_t buf[1 << 20];

static int usage(void)
{
	fputs("usage: format_driver make|samples|speed FORMAT ...\n", stderr);
	return 2;
}

static int make(const struct format *f, char **argv, unsigned part)
{
	struct format_spec spec = { strtoull(argv[0], NULL, 10), strtoull(argv[1], NULL, 10),
				    strtoull(argv[2], NULL, 10) };
	static struct format_maker m;
	struct shoal_err err = { "" };
	size_t n;

	if (format_make(&m, f, part, &spec, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	while ((n = format_next(&m, buf, sizeof(buf))) > 0)
		fwrite(buf, 1, n, stdout);
	return fflush(stdout) == 0 ? 0 : 1;
}

static int read_file(void *self, uint64_t off, void *to, size_t len, struct shoal_err *err)
{
	FILE *in = self;

	(void)err;
	return fseeko(in, (off_t)off, SEEK_SET) == 0 && fread(to, 1, len, in) == len ? 0 : -EIO;
}

static int print_extent(void *self, const struct samples_extent *e)
{
	(void)self;
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", e->off, e->len, e->rows);
	return 0;
}

static int samples(const struct samples_kind *kind, const char *path, const char *record_len)
{
	FILE *in = fopen(path, "rb");
	struct format_source s = { .read = read_file, .self = in };
	struct shoal_err err = { "" };
	int rc;

	if (!in || fseeko(in, 0, SEEK_END) != 0)
		return usage();
	s.size = (uint64_t)ftello(in);
	rc = samples_find(kind, strtoull(record_len, NULL, 10), &s, print_extent, NULL, &err);
	fclose(in);
	if (rc < 0)
		fprintf(stderr, "%d %s\n", rc, err.msg);
	return rc < 0;
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int speed(const struct format *f, char **argv)
{
	struct format_spec spec = { strtoull(argv[0], NULL, 10), strtoull(argv[1], NULL, 10), 0 };
	double start = cpu_seconds(), seconds = strtod(argv[2], NULL), took;
	static struct format_maker m;
	uint64_t bytes = 0;
	size_t n;

	do {
		spec.key++;
		if (format_make(&m, f, 0, &spec, NULL) < 0)
			return 1;
		while ((n = format_next(&m, buf, sizeof(buf))) > 0)
			bytes += n;
		took = cpu_seconds() - start;
	} while (took < seconds);
	printf("%.4f\n", took * 1e9 / (double)bytes);
	return 0;
}

int main(int argc, char **argv)
{
	const struct format *f = argc > 2 ? format_by_name(argv[2]) : NULL;

	if (argc >= 4 && strcmp(argv[1], "samples") == 0 && samples_kind_by_name(argv[2]))
		return samples(samples_kind_by_name(argv[2]), argv[3], argc > 4 ? argv[4] : "0");
	if (f && argc >= 6 && strcmp(argv[1], "make") == 0)
		return make(f, argv + 3, argc > 6 ? (unsigned)(argv[6][0] - '0') : 0);
	if (f && argc == 6 && strcmp(argv[1], "speed") == 0)
		return speed(f, argv + 3);
	return usage();
}
