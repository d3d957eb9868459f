/* Goal: a file has exactly the asked size whatever is asked, is the same however it is taken, and
 * its samples are found. */
#include "format/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/format_private.h"
#include "format/samples.h"
#include "format/table.h"

static struct format_maker maker;

static uint8_t *block(uint64_t len)
{
	uint8_t *p = malloc(len ? len : 1);

	assert_non_null(p);
	return p;
}

/* The whole part, in steps of @step bytes. */
static uint8_t *made(const struct format *f, unsigned part, const struct format_spec *spec,
		     size_t step, size_t *ret_len)
{
	size_t cap = spec->size + 64 * spec->nr_samples + 100, len = 0, n;
	uint8_t *file = block(cap);
	struct shoal_err err = { "" };

	if (format_make(&maker, f, part, spec, &err) < 0)
		fail_msg("%s of %lu bytes: %s", format_name(f), spec->size, err.msg);
	while (len < cap &&
	       (n = format_next(&maker, file + len, step < cap - len ? step : cap - len)) > 0)
		len += n;
	assert_int_equal(format_next(&maker, file, 1), 0);
	*ret_len = len;
	return file;
}

static uint64_t samples_of(const struct format *f, unsigned i)
{
	static const uint64_t nr[] = { 1, 2, 7, 1000 };

	return f->samples_max == 1 ? 1 : nr[i];
}

static void every_size_is_exact(void **state)
{
	(void)state;
	for (size_t which = 0; which < FORMAT_SIZED; which++) {
		const struct format *f = format_sized[which];

		for (unsigned k = 0; k < 4; k++) {
			uint64_t nr = samples_of(f, k), least = f->least(nr);

			for (uint64_t more = 0; more < 9000; more += more < 700 ? 1 : 97) {
				struct format_spec spec = { least + more, nr, more };
				size_t len;

				free(made(f, 0, &spec, SIZE_MAX, &len));
				assert_int_equal(len, spec.size);
			}
		}
	}
}

static void sizes_around_what_blocks_hold_are_exact(void **state)
{
	static const uint64_t size[] = { 65535,  65536,  65537,  65552,   65553,  131070,
					 131072, 131200, 322957, 1000000, 1048576 };

	(void)state;
	for (size_t which = 0; which < FORMAT_SIZED; which++)
		for (size_t i = 0; i < ARRAY_LEN(size); i++)
			for (uint64_t more = 0; more < 40; more++) {
				struct format_spec spec = { size[i] + more, 1, i };
				size_t len;

				free(made(format_sized[which], 0, &spec, SIZE_MAX, &len));
				assert_int_equal(len, spec.size);
			}
}

static void one_byte_less_than_the_least_is_refused_in_words(void **state)
{
	(void)state;
	for (size_t which = 0; which < FORMAT_SIZED; which++) {
		const struct format *f = format_sized[which];

		for (unsigned k = 0; k < 4; k++) {
			uint64_t nr = samples_of(f, k), least = f->least(nr);
			struct format_spec spec = { least - 1, nr, 1 };
			struct shoal_err err = { "" };
			char words[64];

			assert_int_equal(format_make(&maker, f, 0, &spec, &err), -EINVAL);
			snprintf(words, sizeof(words), "the least is %lu", least);
			assert_non_null(strstr(err.msg, words));
			assert_non_null(strstr(err.msg, format_name(f)));
		}
	}
}

static void sample_counts_that_do_not_fit_are_refused(void **state)
{
	struct shoal_err err = { "" };

	(void)state;
	for (size_t which = 0; which < FORMAT_SIZED; which++) {
		const struct format *f = format_sized[which];

		assert_int_equal(format_check(f, 1u << 30, 0, NULL), -EINVAL);
		if (f->samples_max) {
			assert_int_equal(format_check(f, 1u << 30, f->samples_max, NULL), 0);
			assert_int_equal(format_check(f, 1u << 30, f->samples_max + 1, NULL),
					 -EINVAL);
		}
	}
	assert_int_equal(format_check(&format_tfrecord, UINT64_C(1) << 32, 1, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "too many"));
	assert_int_equal(format_check(&format_tfrecord, UINT64_C(1) << 32, 4, NULL), 0);
}

static void cuts_do_not_change_the_bytes(void **state)
{
	static const size_t step[] = { 1, 7, 64, 4095, 4097, 65536 };

	(void)state;
	for (size_t which = 0; which < FORMAT_SIZED; which++) {
		const struct format *f = format_sized[which];
		struct format_spec spec = { 150000, f->samples_max == 1 ? 1 : 3, 5 };

		for (unsigned part = 0; part == 0 || format_side(f, part - 1); part++) {
			size_t whole_len, len;
			uint8_t *whole = made(f, part, &spec, SIZE_MAX, &whole_len);

			for (size_t i = 0; i < ARRAY_LEN(step); i++) {
				uint8_t *file = made(f, part, &spec, step[i], &len);

				assert_int_equal(len, whole_len);
				assert_memory_equal(file, whole, len);
				free(file);
			}
			free(whole);
		}
	}
}

/* How many stretches of 4 KB of the two are the same, at any multiple of 512 bytes. */
static void content_differs_by_key_and_place(void **state)
{
	(void)state;
	for (size_t which = 0; which < FORMAT_SIZED; which++) {
		struct format_spec spec = { 300000, 1, 1 }, other = { 300000, 1, 2 };
		size_t len;
		uint8_t *a = made(format_sized[which], 0, &spec, SIZE_MAX, &len);
		uint8_t *b = made(format_sized[which], 0, &other, SIZE_MAX, &len);

		if (format_sized[which] == &format_tar) /* a label, then zeros */
			len -= 5 * 512;
		for (size_t i = 4096; i + 512 <= len; i += 512) {
			assert_memory_not_equal(a + i, b + i, 512);
			for (size_t k = 4096; k < i; k += 512)
				assert_memory_not_equal(a + i, a + k, 512);
		}
		free(a);
		free(b);
	}
}

/* The bytes of a dataset must not change from one version to the next: --verify compares. */
static void content_is_frozen(void **state)
{
	static const struct {
		const char *name;
		uint32_t crc;
	} want[] = {
		{ "csv", 0xc93f7349 },  { "hdf5", 0xf99c99ab }, { "indexed_binary", 0xe050caff },
		{ "jpeg", 0x7d7919bf }, { "npy", 0x3eb37af8 },  { "npz", 0xd0793c9d },
		{ "png", 0x3770b1c0 },  { "tar", 0xfbc0a130 },  { "tfrecord", 0x02dae6f9 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		struct format_spec spec = { 123457, 1, 42 };
		size_t len;
		uint8_t *file = made(format_by_name(want[i].name), 0, &spec, SIZE_MAX, &len);

		if (format_crc32(0, file, len) != want[i].crc)
			fail_msg("%s is 0x%08x", want[i].name, format_crc32(0, file, len));
		free(file);
	}
}

/* ---- Tables ---- */

static struct format_column columns[2 * FORMAT_NR_TYPES];

/* Every type, as one value and as a list. */
static struct format_table table_of(uint64_t rows, uint64_t group_rows)
{
	for (unsigned i = 0; i < ARRAY_LEN(columns); i++) {
		columns[i].type = (enum format_type)(i / 2);
		columns[i].size = i % 2 ? 3 + 40 * i : 1;
		snprintf(columns[i].name, sizeof(columns[i].name), "c%u", i);
	}
	return (struct format_table){ rows, group_rows, ARRAY_LEN(columns), columns };
}

struct groups {
	uint64_t nr, rows, end;
};

static int take_group(void *self, uint64_t index, uint64_t off, uint64_t len, uint64_t rows)
{
	struct groups *g = self;

	assert_int_equal(index, g->nr++);
	assert_true(off == g->end || g->end == 0);
	assert_true(len > 0);
	g->end = off + len;
	g->rows += rows;
	return 0;
}

static void a_table_has_its_size_and_groups_before_it_is_made(void **state)
{
	static const struct {
		const char *name;
		uint32_t crc;
	} want[] = { { "parquet", 0x9311dead }, { "arrow", 0xbf8ee2b8 } };
	static const uint64_t shape[][2] = { { 1, 1 }, { 7, 7 }, { 8, 7 }, { 1000, 300 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		for (size_t k = 0; k < ARRAY_LEN(shape); k++) {
			const struct format *f = format_by_name(want[i].name);
			struct format_table t = table_of(shape[k][0], shape[k][1]);
			struct format_spec spec = { .nr_samples = t.nr_rows,
						    .key = 5,
						    .table = &t };
			struct groups g = { 0 };
			uint8_t *whole, *cut;
			size_t len, cut_len;

			assert_int_equal(format_table_walk(f, &t, take_group, &g, &spec.size), 0);
			assert_int_equal(g.rows, t.nr_rows);
			assert_int_equal(g.nr, format_table_groups(&t));
			whole = made(f, 0, &spec, SIZE_MAX, &len);
			cut = made(f, 0, &spec, 4093, &cut_len);
			assert_int_equal(len, spec.size);
			assert_int_equal(cut_len, len);
			assert_memory_equal(whole, cut, len);
			if (k == 3 && format_crc32(0, whole, len) != want[i].crc)
				fail_msg("%s is 0x%08x", want[i].name, format_crc32(0, whole, len));
			free(whole);
			free(cut);
		}
}

static void a_table_that_no_file_can_have_is_refused(void **state)
{
	const struct format *f = format_by_name("parquet");
	struct format_table t = table_of(10, 10);
	struct shoal_err err;

	(void)state;
	assert_int_equal(format_table_check(f, &t, &err), 0);
	t.nr_columns = 0;
	assert_int_equal(format_table_check(f, &t, &err), -EINVAL);
	t = table_of(10, 10);
	t.group_rows = 0;
	assert_int_equal(format_table_check(f, &t, &err), -EINVAL);
	t = table_of(28 * 149796, 28); /* groups of 28 columns: 149796 times 28 are below 2^22 */
	for (unsigned i = 0; i < ARRAY_LEN(columns); i++)
		columns[i].size = 1;
	assert_int_equal(format_table_check(f, &t, &err), 0);
	t.nr_rows++;
	assert_int_equal(format_table_check(f, &t, &err), -EINVAL);
	t = table_of(10, 10);
	strcpy(columns[3].name, columns[1].name);
	assert_int_equal(format_table_check(f, &t, &err), -EINVAL);
	t = table_of(10, 10);
	columns[0].size = (UINT64_C(1) << 29) + 1; /* of two bytes */
	assert_int_equal(format_table_check(f, &t, &err), -EINVAL);
}

static void checksums_are_the_known_ones(void **state)
{
	uint32_t crc = format_crc32(0, "12345678", 8), four;
	uint8_t bytes[4];

	(void)state;
	assert_int_equal(format_crc32(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(format_crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(format_crc32c(format_crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
	assert_int_equal(format_adler32(1, "Wikipedia", 9), 0x11e60398);
	for (uint32_t target = 1; target; target <<= 1) {
		four = format_crc32_steer(crc, target);
		format_le32(bytes, four);
		assert_int_equal(format_crc32(crc, bytes, 4), target);
	}
}

static void a_square_root_is_rounded_down(void **state)
{
	static const uint64_t root[] = { 0, 1, 2, 3, 1000, 65535, 65536, 0xfffffffe, 0xffffffff };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(root); i++) {
		uint64_t r = root[i];

		assert_int_equal(format_isqrt(r * r), r);
		assert_int_equal(format_isqrt(r * r + 2 * r), r);
	}
	assert_int_equal(format_isqrt(UINT64_MAX), 0xffffffff);
}

/* ---- Finding ---- */

struct memory {
	const uint8_t *bytes;
	uint64_t reads;
};

static int read_memory(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	struct memory *m = self;

	(void)err;
	memcpy(buf, m->bytes + off, len);
	m->reads++;
	return 0;
}

struct places {
	uint64_t nr, end, size, bytes;
};

/* In order, inside the file, and not over each other. */
static int take_place(void *self, const struct samples_extent *e)
{
	struct places *p = self;

	assert_true(e->off >= p->end && e->off <= p->size && e->len <= p->size - e->off);
	p->end = e->off + e->len;
	p->bytes += e->len;
	p->nr++;
	return 0;
}

static int find(const struct format *f, const uint8_t *file, size_t len, struct places *p,
		struct shoal_err *err)
{
	struct memory m = { .bytes = file };
	struct format_source s = { .size = len, .read = read_memory, .self = &m };

	*p = (struct places){ .size = len };
	return samples_find(samples_kind_by_name(format_name(f)), 0, &s, take_place, p, err);
}

/* Formats whose samples have a finder of their own. */
static const struct format *const found[] = { &format_hdf5, &format_npy, &format_npz,
					      &format_tfrecord, &format_csv };

/* Extents, of which the next is compared with what is computed. */
struct computed {
	struct samples_extent e[1000];
	uint64_t nr, next;
};

static int compute_place(void *self, uint64_t index, uint64_t off, uint64_t len, uint64_t rows)
{
	struct computed *c = self;

	assert_int_equal(index, c->nr);
	c->e[c->nr++] = (struct samples_extent){ off, len, rows };
	return 0;
}

static int check_place(void *self, const struct samples_extent *e)
{
	struct computed *c = self;

	assert_true(c->next < c->nr);
	assert_memory_equal(e, &c->e[c->next], sizeof(*e));
	c->next++;
	return 0;
}

static void samples_are_found_where_they_are_computed(void **state)
{
	static struct computed c;

	(void)state;
	for (size_t which = 0; which < ARRAY_LEN(found); which++) {
		const struct format *f = found[which];

		for (unsigned k = 0; k < 4; k++)
			for (uint64_t more = 0; more < 3; more++) {
				uint64_t nr = samples_of(f, k);
				struct format_spec spec = { f->least(nr) + 200 * nr + more, nr, 3 };
				struct memory m = { .reads = 0 };
				struct format_source s = { .read = read_memory, .self = &m };
				struct shoal_err err = { "" };
				size_t len;
				uint8_t *file = made(f, 0, &spec, SIZE_MAX, &len);

				m.bytes = file;
				s.size = len;
				c.nr = c.next = 0;
				assert_int_equal(format_extents(f, &spec, compute_place, &c), 0);
				if (samples_find(samples_kind_by_name(format_name(f)), 0, &s,
						 check_place, &c, &err) != 0)
					fail_msg("%s: %s", format_name(f), err.msg);
				assert_int_equal(c.nr, nr);
				assert_int_equal(c.next, nr);
				free(file);
			}
	}
}

/* A file that is cut is refused, or what is found of it lies inside: ASan watches the reads. */
static void every_truncation_is_refused(void **state)
{
	(void)state;
	for (size_t which = 0; which < ARRAY_LEN(found); which++) {
		const struct format *f = found[which];
		struct format_spec spec = { f->least(3) + 500, 3, 9 };
		size_t len;
		uint8_t *file = made(f, 0, &spec, SIZE_MAX, &len);

		for (size_t cut = 0; cut < len; cut++) {
			uint8_t *part = block(cut);
			struct places p;
			int rc;

			memcpy(part, file, cut);
			rc = find(f, part, cut, &p, NULL);
			if (f == &format_csv) /* a line may end anywhere */
				assert_true(rc == 0 && p.end <= cut);
			else if (f != &format_tfrecord || p.nr == 0)
				assert_true(rc == -EBADMSG || cut == 0);
			else
				assert_true(rc == -EBADMSG || p.end + 4 == cut);
			free(part);
		}
		free(file);
	}
}

/* Any one byte changed: an error or places inside the file, never a crash or a walk outside. */
static void any_flipped_byte_is_survived(void **state)
{
	(void)state;
	for (size_t which = 0; which < ARRAY_LEN(found); which++) {
		const struct format *f = found[which];
		uint64_t nr = f->samples_max == 1 ? 1 : 3;
		struct format_spec spec = { f->least(nr) + 50, nr, 9 };
		size_t len;
		uint8_t *file = made(f, 0, &spec, SIZE_MAX, &len);
		struct shoal_err err;

		for (size_t i = 0; i < len; i++)
			for (unsigned bit = 0; bit < 8; bit += 7) {
				struct places p;

				file[i] ^= (uint8_t)(1u << bit);
				(void)!find(f, file, len, &p, &err);
				file[i] ^= (uint8_t)(1u << bit);
			}
		free(file);
	}
}

static const char cube[] = "\x93NUMPY\1\0\x46\0{'descr': '|u1', 'fortran_order': False, "
			   "'shape': (2, 3, 4), }       \n";

/* The same header with other text at @at. */
static int find_cube(size_t at, const char *text, size_t len, struct places *p,
		     struct shoal_err *err)
{
	uint8_t file[sizeof(cube) - 1 + 24] = { 0 };

	assert_true(len <= sizeof(file) && at + strlen(text) < sizeof(cube));
	memcpy(file, cube, sizeof(cube) - 1);
	memcpy(file + at, text, strlen(text));
	return find(&format_npy, file, len, p, err);
}

static void elements_of_the_first_dimension_are_samples_if_they_lie_together(void **state)
{
	size_t all = sizeof(cube) - 1 + 24;
	struct places p;

	(void)state;
	assert_int_equal(sizeof(cube) - 1, 80);
	assert_int_equal(find_cube(0, "", all, &p, NULL), 0);
	assert_int_equal(p.nr, 2);
	assert_int_equal(p.bytes, 24);
	assert_int_equal(p.end, all);
	assert_int_equal(find_cube(0, "", all - 1, &p, NULL), -EBADMSG);
	/* In Fortran order bytes of three dimensions are DLIO's, with the samples last. Others are
	 * not cut, unless they have one dimension. */
	assert_int_equal(find_cube(44, "True ,", all, &p, NULL), 0);
	assert_int_equal(p.nr, 4);
	assert_int_equal(p.bytes, 24);
	assert_int_equal(find_cube(44, "True , 'shape': (4, 6), }    ", all, &p, NULL), -ENOTSUP);
	assert_int_equal(find_cube(20, "'|i1', 'fortran_order': True ", all, &p, NULL), -ENOTSUP);
	assert_int_equal(find_cube(44, "True , 'shape': (24,), }    ", all, &p, NULL), 0);
	assert_int_equal(p.nr, 24);
}

static void arrays_of_other_than_plain_numbers_are_not_cut(void **state)
{
	size_t all = sizeof(cube) - 1 + 24;
	struct shoal_err err = { "" };
	struct places p;

	(void)state;
	assert_int_equal(find_cube(20, "'|O1'", all, &p, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "no plain numbers"));
	assert_int_equal(find_cube(20, "[('a'", all, &p, &err), -ENOTSUP);
	assert_int_equal(find_cube(60, "(0, 3, 4)", all, &p, &err), 0);
	assert_int_equal(p.nr, 0);
	assert_int_equal(find_cube(60, "(2, 0, 9)", all, &p, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "have no bytes"));
	assert_int_equal(find_cube(10, "x", all, &p, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "header is damaged"));
}

/* A shape that says less, or more, than the layout has bytes for. */
static void a_shape_that_does_not_fit_its_bytes_is_refused(void **state)
{
	static const char scalar[] = "\x93NUMPY\1\0\x46\0{'descr': '<f8', 'fortran_order': False, "
				     "'shape': (), }              \n";
	struct format_spec spec = { 5000, 4, 1 };
	uint8_t file[sizeof(scalar) - 1 + 8] = { 0 };
	size_t len, dims = 1064 + 16 + 8 + 8; /* those of records */
	uint8_t *hdf5 = made(&format_hdf5, 0, &spec, SIZE_MAX, &len);
	struct places p;

	(void)state;
	assert_int_equal(hdf5[dims], 4);
	assert_int_equal(find(&format_hdf5, hdf5, len, &p, NULL), 0);
	hdf5[dims] = 3;
	assert_int_equal(find(&format_hdf5, hdf5, len, &p, NULL), -EBADMSG);
	hdf5[dims] = 5;
	assert_int_equal(find(&format_hdf5, hdf5, len, &p, NULL), -EBADMSG);
	free(hdf5);
	assert_int_equal(sizeof(scalar) - 1, 80);
	memcpy(file, scalar, sizeof(scalar) - 1);
	assert_int_equal(find(&format_npy, file, sizeof(file), &p, NULL), 0);
	assert_int_equal(p.bytes, 8);
	assert_int_equal(find(&format_npy, file, sizeof(file) - 1, &p, NULL), -EBADMSG);
}

/* ---- Past 4 GiB ---- */

#define ENDS 70000

/* The first and the last bytes of a file that is too large to keep. */
struct ends {
	uint8_t head[ENDS], tail[ENDS];
	uint64_t size;
};

static int read_ends(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	const struct ends *e = self;

	(void)err;
	assert_true(off + len <= ENDS || off >= e->size - ENDS);
	if (off + len <= ENDS)
		memcpy(buf, e->head + off, len);
	else
		memcpy(buf, e->tail + (off - (e->size - ENDS)), len);
	return 0;
}

static void an_archive_of_more_than_four_gigabytes_has_wide_numbers(void **state)
{
	struct format_spec spec = { (UINT64_C(1) << 32) + 100000, 1, 6 };
	static struct ends e;
	struct format_source s = { spec.size, read_ends, &e };
	struct places p = { .size = spec.size };
	size_t cap = 1 << 20, n;
	uint8_t *buf = block(cap);
	uint64_t at = 0, x_at = 0, x_end = 0;
	uint32_t crc = 0;

	(void)state;
	e.size = spec.size;
	assert_int_equal(format_make(&maker, &format_npz, 0, &spec, NULL), 0);
	while ((n = format_next(&maker, buf, cap)) > 0) {
		if (at == 0) {
			memcpy(e.head, buf, ENDS);
			x_at = 30 + 5 + (buf[28] | (uint64_t)buf[29] << 8);
			x_end = x_at + le64_load(buf + 39);
		}
		if (at + n > x_at && at < x_end) {
			uint64_t from = u64_max(at, x_at), end = u64_min(at + n, x_end);

			crc = format_crc32(crc, buf + (from - at), end - from);
		}
		for (size_t i = 0; i < n && at + n > spec.size - ENDS; i++)
			if (at + i >= spec.size - ENDS)
				e.tail[at + i - (spec.size - ENDS)] = buf[i];
		at += n;
	}
	free(buf);
	assert_int_equal(at, spec.size);
	assert_int_equal(crc, le32_load(e.head + 14));
	assert_int_equal(samples_find(samples_kind_by_name("npz"), 0, &s, take_place, &p, NULL), 0);
	assert_int_equal(p.end, x_end);
	assert_true(p.bytes > UINT64_C(1) << 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_is_exact),
		cmocka_unit_test(sizes_around_what_blocks_hold_are_exact),
		cmocka_unit_test(one_byte_less_than_the_least_is_refused_in_words),
		cmocka_unit_test(sample_counts_that_do_not_fit_are_refused),
		cmocka_unit_test(cuts_do_not_change_the_bytes),
		cmocka_unit_test(content_differs_by_key_and_place),
		cmocka_unit_test(content_is_frozen),
		cmocka_unit_test(a_table_has_its_size_and_groups_before_it_is_made),
		cmocka_unit_test(a_table_that_no_file_can_have_is_refused),
		cmocka_unit_test(checksums_are_the_known_ones),
		cmocka_unit_test(a_square_root_is_rounded_down),
		cmocka_unit_test(samples_are_found_where_they_are_computed),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(any_flipped_byte_is_survived),
		cmocka_unit_test(elements_of_the_first_dimension_are_samples_if_they_lie_together),
		cmocka_unit_test(arrays_of_other_than_plain_numbers_are_not_cut),
		cmocka_unit_test(a_shape_that_does_not_fit_its_bytes_is_refused),
		cmocka_unit_test(an_archive_of_more_than_four_gigabytes_has_wide_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
