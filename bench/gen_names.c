/*
 * gen_names - write N synthetic names of a kind to standard output, for the benchmark.
 *
 * The names of the random kinds are uniform draws, generated in rising order from the spacings of
 * order statistics: evenly spaced names would have less entropy than the reported floor, and
 * flatter the catalog. With --shuffle the random kinds come from a bijection of a counter instead,
 * so that 100 million names need no memory; that is a different set from the sorted one, with the
 * same distribution. The same seed gives the same names.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "order/perm.h"

#define LINE_MAX_BYTES   256 /* more than any kind needs */
#define SUBFOLDERS       1000
#define NAMES_PER_CLASS  458
#define CLASS_SPREAD     100 /* a class has NAMES_PER_CLASS, more or less this many */
#define CLASS_MAX_NAMES  (NAMES_PER_CLASS + CLASS_SPREAD)
#define CLASS_IDS        UINT64_C(15000000) /* the approximate end of WordNet's offsets */
#define IMAGENET_DENSITY 0.1
#define S3_DAYS          30
#define S3_MS            (UINT64_C(86400000) * S3_DAYS)
#define S3_EPOCH_MS      UINT64_C(1743465600000) /* 2025-04-01, a month of 30 days */
#define LOG2_E           1.4426950408889634

static const char usage[] =
	"usage: gen_names KIND N [--shuffle] [--seed S] [--sizes MEAN,SD] [--floor]\n"
	"\n"
	"KIND is dlio, dlio1k, hex, uuid, imagenet or s3. Names come sorted bytewise.\n"
	"\n"
	"  --shuffle        in pseudo-random order; imagenet and s3 then take memory for all names\n"
	"  --seed S         other names, and another order (default 1)\n"
	"  --sizes MEAN,SD  a normally distributed size after a tab\n"
	"  --floor          write the entropy floor in bytes a name to standard error\n";

/* A set of names being made. */
struct set {
	uint64_t n;
	uint64_t seed;
	uint64_t rng;       /* state of the names' draws */
	uint64_t sizes_rng; /* separate, so that sizes do not change the names */
	bool sizes;
	double size_mean, size_sd;
	bool keep; /* store names in `text` instead of printing them */
	char *text;
	size_t text_len, text_cap;
	size_t *ends; /* of each kept name in `text` */
	size_t nr_kept;
};

static struct {
	char bytes[1 << 20];
	size_t len;
} out;

static void die(const char *what)
{
	fprintf(stderr, "gen_names: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void flush(void)
{
	for (size_t at = 0; at < out.len;) {
		ssize_t nr = write(STDOUT_FILENO, out.bytes + at, out.len - at);

		if (nr < 0 && errno != EINTR)
			die("write");
		at += nr > 0 ? (size_t)nr : 0;
	}
	out.len = 0;
}

/* ---- Draws ------------------------------------------------------------------------------ */

/* The finalizer of splitmix64: a bijection of 64-bit words. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t draw(uint64_t *rng)
{
	*rng += UINT64_C(0x9e3779b97f4a7c15);
	return mix(*rng);
}

/* In (0, 1], so that it has a logarithm. */
static double draw_unit(uint64_t *rng)
{
	return (double)((draw(rng) >> 11) + 1) * 0x1p-53;
}

static double draw_exponential(uint64_t *rng)
{
	return -log(draw_unit(rng));
}

static double draw_normal(uint64_t *rng)
{
	double radius = sqrt(2 * draw_exponential(rng));

	return radius * cos(6.283185307179586 * draw_unit(rng));
}

/* Distinct uniform draws from [1, last] in rising order. */
struct rising {
	uint64_t at, last;
	uint64_t left; /* draws still to come */
};

/*
 * The least of `left` uniform draws above `at` lies there at 1 - u^(1/left) of the room. Memory of
 * one draw, and no second pass to know the sum of all spacings.
 */
static uint64_t rising_next(struct rising *r, uint64_t *rng)
{
	double share = -expm1(-draw_exponential(rng) / (double)r->left);
	double gap = share * (double)(r->last - r->at);
	uint64_t room, step;

	r->left--;
	room = r->last - r->at - r->left; /* the others must fit above */
	step = gap < (double)room ? (uint64_t)gap : room;
	if (step >> 53) /* a double has no bits there, but the name has */
		step |= draw(rng) >> 53;
	r->at += u64_min(u64_max(step, 1), room);
	return r->at;
}

/* ---- Names ------------------------------------------------------------------------------ */

static char *put_text(char *p, const char *text)
{
	size_t len = strlen(text);

	memcpy(p, text, len);
	return p + len;
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

static char *put_decimal(char *p, uint64_t v, unsigned width)
{
	for (unsigned i = width; i-- > 0; v /= 10)
		p[i] = (char)('0' + v % 10);
	return p + width;
}

static char *put_hex(char *p, uint64_t v, unsigned width)
{
	for (unsigned i = width; i-- > 0; v >>= 4)
		p[i] = "0123456789abcdef"[v & 15];
	return p + width;
}

static void keep_line(struct set *s, const char *line, size_t len)
{
	if (s->text_len + len > s->text_cap) {
		s->text_cap = 2 * s->text_cap + (1 << 20);
		s->text = realloc(s->text, s->text_cap);
		if (!s->text)
			die("memory for the names");
	}
	memcpy(s->text + s->text_len, line, len);
	s->text_len += len;
	s->ends[s->nr_kept++] = s->text_len;
}

/* Take the name from @line to @end, which has room for a size. */
static void emit(struct set *s, char *line, char *end)
{
	if (s->sizes) {
		double size = s->size_mean + s->size_sd * draw_normal(&s->sizes_rng);
		uint64_t bytes = size > 1 ? (uint64_t)llround(size) : 1;

		*end++ = '\t';
		end = put_decimal(end, bytes, nr_digits(bytes));
	}
	*end++ = '\n';
	if (s->keep) {
		keep_line(s, line, (size_t)(end - line));
		return;
	}
	if (out.len + LINE_MAX_BYTES > sizeof(out.bytes))
		flush();
	memcpy(out.bytes + out.len, line, (size_t)(end - line));
	out.len += (size_t)(end - line);
}

static void dlio_name(struct set *s, uint64_t i)
{
	char line[LINE_MAX_BYTES], *p = put_text(line, "train/img_");
	unsigned width = nr_digits(s->n);

	p = put_decimal(p, i, width);
	p = put_text(p, "_of_");
	p = put_decimal(p, s->n, width);
	emit(s, line, put_text(p, ".jpeg"));
}

static void dlio_sorted(struct set *s)
{
	for (uint64_t i = 0; i < s->n; i++)
		dlio_name(s, i);
}

static void dlio1k_name(struct set *s, uint64_t i)
{
	char line[LINE_MAX_BYTES], *p = put_text(line, "train/");
	unsigned width = nr_digits(s->n);

	p = put_decimal(p, i % SUBFOLDERS, nr_digits(SUBFOLDERS));
	p = put_text(p, "/img_");
	p = put_decimal(p, i, width);
	p = put_text(p, "_of_");
	p = put_decimal(p, s->n, width);
	emit(s, line, put_text(p, ".jpeg"));
}

static void dlio1k_sorted(struct set *s)
{
	for (uint64_t folder = 0; folder < SUBFOLDERS; folder++) {
		for (uint64_t i = folder; i < s->n; i += SUBFOLDERS)
			dlio1k_name(s, i);
	}
}

/* As in Open Images. */
static void hex_name(struct set *s, uint64_t value)
{
	char line[LINE_MAX_BYTES], *p = put_text(line, "train/");

	p = put_hex(p, value, 16);
	emit(s, line, put_text(p, ".jpg"));
}

static void hex_sorted(struct set *s)
{
	struct rising r = { .last = UINT64_MAX, .left = s->n };

	while (r.left > 0)
		hex_name(s, rising_next(&r, &s->rng));
}

static void hex_shuffled_name(struct set *s, uint64_t i)
{
	hex_name(s, mix(i + mix(s->seed)));
}

/* 60 bits before the variant, 62 after it. */
static void uuid_name(struct set *s, uint64_t high, uint64_t low)
{
	char line[LINE_MAX_BYTES], *p = put_text(line, "train/");

	p = put_hex(p, high >> 28, 8);
	*p++ = '-';
	p = put_hex(p, high >> 12, 4);
	p = put_text(p, "-4");
	p = put_hex(p, high, 3);
	*p++ = '-';
	p = put_hex(p, (low >> 48 & 0x3fff) | 0x8000, 4);
	*p++ = '-';
	p = put_hex(p, low, 12);
	emit(s, line, put_text(p, ".jpg"));
}

/* Two names that agree in all of the first 60 bits are too rare to matter. */
static void uuid_sorted(struct set *s)
{
	struct rising r = { .last = (UINT64_C(1) << 60) - 1, .left = s->n };

	while (r.left > 0)
		uuid_name(s, rising_next(&r, &s->rng), draw(&s->rng));
}

/* All 64 bits of the bijection are in the name, so no two names are the same. */
static void uuid_shuffled_name(struct set *s, uint64_t i)
{
	uint64_t x = mix(i + mix(s->seed));

	uuid_name(s, x >> 4, (x & 15) << 58 | (mix(x + 1) & ((UINT64_C(1) << 58) - 1)));
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The unpadded numbers of a class are generated in rising order, but as names 10 comes before 9. */
static void imagenet_class(struct set *s, uint64_t class, uint64_t nr)
{
	static char lines[CLASS_MAX_NAMES][64];
	double log_miss = log1p(-IMAGENET_DENSITY);
	uint64_t number = 0;

	for (uint64_t i = 0; i < nr; i++) {
		char *p = lines[i];

		number += 1 + (uint64_t)(log(draw_unit(&s->rng)) / log_miss);
		*p++ = 'n';
		p = put_decimal(p, class, 8);
		p = put_text(p, "/n");
		p = put_decimal(p, class, 8);
		*p++ = '_';
		p = put_decimal(p, number, nr_digits(number));
		p = put_text(p, ".JPEG");
		*p = 0;
	}
	qsort(lines, nr, sizeof(lines[0]), compare_lines);
	for (uint64_t i = 0; i < nr; i++) {
		char line[LINE_MAX_BYTES];

		emit(s, line, put_text(line, lines[i]));
	}
}

static void imagenet_sorted(struct set *s)
{
	uint64_t nr_classes = s->n / NAMES_PER_CLASS + 1;
	uint64_t gap = u64_max(2 * CLASS_IDS / nr_classes, 2);
	uint64_t class = 0;

	for (uint64_t left = s->n; left > 0;) {
		uint64_t nr =
			NAMES_PER_CLASS - CLASS_SPREAD + draw(&s->rng) % (2 * CLASS_SPREAD + 1);

		nr = u64_min(nr, left);
		class += 1 + draw(&s->rng) % gap;
		imagenet_class(s, class, nr);
		left -= nr;
	}
}

/* A key's time and hash together are one number, drawn from all that the month could have. */
static void s3_sorted(struct set *s)
{
	struct rising r = { .last = (S3_MS << 32) - 1, .left = s->n };

	while (r.left > 0) {
		uint64_t value = rising_next(&r, &s->rng), ms = value >> 32;
		char line[LINE_MAX_BYTES],
			*p = put_text(line, "events/region=eu-north-1/date=2025-04-");

		p = put_decimal(p, ms / 86400000 + 1, 2);
		p = put_text(p, "/hour=");
		p = put_decimal(p, ms / 3600000 % 24, 2);
		p = put_text(p, "/part-");
		p = put_decimal(p, S3_EPOCH_MS + ms, 13);
		*p++ = '-';
		p = put_hex(p, value, 8);
		emit(s, line, put_text(p, ".json.gz"));
	}
}

/* ---- Floors ----------------------------------------------------------------------------- */

/* Bits per name of @n distinct names drawn from 2^@bits, if @n is far smaller. */
static double sparse_floor(double bits, uint64_t n)
{
	return bits - log2((double)n) + LOG2_E;
}

static double pattern_floor(uint64_t n)
{
	(void)n;
	return 0;
}

static double hex_floor(uint64_t n)
{
	return sparse_floor(64, n);
}

static double uuid_floor(uint64_t n)
{
	return sparse_floor(122, n);
}

/* Of the numbers alone: the names of the classes are added. */
static double imagenet_floor(uint64_t n)
{
	double p = IMAGENET_DENSITY;

	(void)n;
	return -(p * log2(p) + (1 - p) * log2(1 - p)) / p;
}

static double s3_floor(uint64_t n)
{
	return sparse_floor(log2((double)S3_MS) + 32, n);
}

static const struct kind {
	const char *name;
	void (*sorted)(struct set *s);
	/* Name number @i of the set, in no order; NULL: only through memory. */
	void (*any)(struct set *s, uint64_t i);
	bool any_in_turn; /* `any` gives them in sorted order, so its numbers must be permuted */
	double (*floor_bits)(uint64_t n);
} kinds[] = {
	{ "dlio", dlio_sorted, dlio_name, true, pattern_floor },
	{ "dlio1k", dlio1k_sorted, dlio1k_name, true, pattern_floor },
	{ "hex", hex_sorted, hex_shuffled_name, false, hex_floor },
	{ "uuid", uuid_sorted, uuid_shuffled_name, false, uuid_floor },
	{ "imagenet", imagenet_sorted, NULL, false, imagenet_floor },
	{ "s3", s3_sorted, NULL, false, s3_floor },
};

/* ---- The command ------------------------------------------------------------------------ */

static void permutation(const struct set *s, struct perm *p)
{
	const struct perm_key key = { .domain = PERM_GLOBAL, .seed = s->seed };

	perm_init(p, s->n, &key);
}

static void shuffle_directly(struct set *s, const struct kind *k)
{
	static struct perm perm;

	permutation(s, &perm);
	for (uint64_t i = 0; i < s->n; i++)
		k->any(s, k->any_in_turn ? perm_at(&perm, i) : i);
}

static void shuffle_in_memory(struct set *s, const struct kind *k)
{
	static struct perm perm;

	s->keep = true;
	s->ends = malloc(s->n * sizeof(*s->ends));
	if (!s->ends)
		die("memory for the names");
	k->sorted(s);
	permutation(s, &perm);
	for (uint64_t i = 0; i < s->n; i++) {
		uint64_t at = perm_at(&perm, i);
		size_t start = at > 0 ? s->ends[at - 1] : 0, len = s->ends[at] - start;

		if (out.len + LINE_MAX_BYTES > sizeof(out.bytes))
			flush();
		memcpy(out.bytes + out.len, s->text + start, len);
		out.len += len;
	}
	free(s->ends);
	free(s->text);
}

static void make(struct set *s, const struct kind *k, bool shuffle)
{
	if (!shuffle)
		k->sorted(s);
	else if (k->any)
		shuffle_directly(s, k);
	else
		shuffle_in_memory(s, k);
	flush();
}

static int bad_usage(void)
{
	fputs(usage, stderr);
	return 2;
}

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	}
	return NULL;
}

static bool parse_number(const char *text, uint64_t *ret_v)
{
	char *end;

	errno = 0;
	*ret_v = strtoull(text, &end, 10);
	return errno == 0 && *text >= '0' && *text <= '9' && *end == 0;
}

static bool parse_sizes(const char *text, struct set *s)
{
	char *end;

	s->sizes = true;
	s->size_mean = strtod(text, &end);
	if (end == text || *end != ',')
		return false;
	text = end + 1;
	s->size_sd = strtod(text, &end);
	return end != text && *end == 0 && s->size_mean >= 1 && s->size_mean < 1e15 &&
	       s->size_sd >= 0 && s->size_sd < 1e15;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "shuffle", no_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'S' },
		{ "sizes", required_argument, NULL, 'z' },
		{ "floor", no_argument, NULL, 'f' },
		{ 0 },
	};
	struct set s = { .seed = 1 };
	bool shuffle = false, floor = false;
	const struct kind *k;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 's')
			shuffle = true;
		else if (c == 'f')
			floor = true;
		else if (!(c == 'S' && parse_number(optarg, &s.seed)) &&
			 !(c == 'z' && parse_sizes(optarg, &s)))
			return bad_usage();
	}
	if (argc - optind != 2)
		return bad_usage();
	k = find_kind(argv[optind]);
	if (!k || !parse_number(argv[optind + 1], &s.n) || s.n < 1 || s.n > 10000000000)
		return bad_usage();

	s.rng = mix(s.seed);
	s.sizes_rng = mix(~s.seed);
	if (floor)
		fprintf(stderr, "floor\t%" PRIu64 "\t%.6f\tB/name\n", s.n, k->floor_bits(s.n) / 8);
	make(&s, k, shuffle);
	return 0;
}
