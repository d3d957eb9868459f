/*
 * Goal: a column gives back what was written, also in parts and in the order of values, and no byte
 * string makes its reader leave the buffer or accept a lie.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "catalog/sidecar_format.h"
#include "help.h"

#define DIGEST "0123456789abcdef0011223344556677"
#define OTHER  "ffffffffffffffff0011223344556677"

static struct shoal_column_options options_of(enum shoal_column_type type, uint64_t nr)
{
	return (struct shoal_column_options){
		.name = "length", .type = type, .digest = DIGEST, .nr_samples = nr, .nr = nr
	};
}

static size_t width_of(enum shoal_column_type type)
{
	unsigned bits = side_type_bits(type);

	return bits == 1 ? 1 : bits / 8;
}

/* Values of a type, as an array of it: small, with many equal ones. */
static uint8_t *values_of(enum shoal_column_type type, uint64_t nr)
{
	uint8_t *values = allocate(nr + 1, 8);

	for (uint64_t i = 0; i < nr; i++) {
		int64_t v = (int64_t)random_below(100);
		float f = (float)(v - 50) / 4;
		double d = (double)(v - 50) / 4;

		if (type == SHOAL_BIT)
			values[i] = (uint8_t)(v < 30);
		else if (type == SHOAL_F32)
			memcpy(values + 4 * i, &f, 4);
		else if (type == SHOAL_F64)
			memcpy(values + 8 * i, &d, 8);
		else {
			v -= type == SHOAL_I64 ? 50 : 0;
			memcpy(values + width_of(type) * i, &v, width_of(type));
		}
	}
	return values;
}

static void write_column(const char *path, const struct shoal_column_options *o, const void *values)
{
	struct shoal_column_writer *w = NULL;
	struct shoal_err err = { "" };

	assert_int_equal(shoal_column_create(path, o, &w, &err), 0);
	/* In pieces of different lengths. */
	for (uint64_t at = 0, n; at < o->nr; at += n) {
		n = u64_min(o->nr - at, 1 + random_below(3000));
		assert_int_equal(
			shoal_column_append(w, (const uint8_t *)values + at * width_of(o->type), n,
					    &err),
			0);
	}
	assert_int_equal(shoal_column_seal(w, &err), 0);
}

static struct shoal_column *open_column(const char *path)
{
	struct shoal_column *c = NULL;
	struct shoal_err err = { "" };

	if (shoal_column_open(path, DIGEST, &c, &err) < 0)
		fail_msg("%s", err.msg);
	return c;
}

static void a_column_gives_back_what_was_written(void **state)
{
	static const uint64_t counts[] = { 0, 1, 7, 8, 9, 4095, 4096, 4097, 20000 };

	(void)state;
	for (enum shoal_column_type type = SHOAL_BIT; type <= SHOAL_F64; type++) {
		for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
			uint64_t nr = counts[k];
			struct shoal_column_options o = options_of(type, nr);
			uint8_t *values = values_of(type, nr), *got = allocate(nr + 1, 8);
			struct shoal_column_info info;
			struct shoal_err err = { "" };
			struct shoal_column *c;

			write_column(test_path("c"), &o, values);
			c = open_column(test_path("c"));
			assert_int_equal(shoal_column_verify(c, &err), 0);
			shoal_column_info(c, &info);
			assert_int_equal(info.nr, nr);
			assert_int_equal(info.type, type);
			assert_string_equal(info.name, "length");
			assert_string_equal(info.digest, DIGEST);
			assert_true(info.nr_sorted == SHOAL_UNSORTED);
			assert_int_equal(shoal_column_read(c, 0, nr, got), 0);
			assert_memory_equal(got, values, nr * width_of(type) + 1);
			for (int i = 0; i < 50 && nr; i++) {
				uint64_t from = random_below(nr), n = random_below(nr - from + 1);

				assert_int_equal(shoal_column_read(c, from, n, got), 0);
				assert_memory_equal(got, values + from * width_of(type),
						    n * width_of(type));
			}
			assert_int_equal(shoal_column_read(c, 0, nr + 1, got), -ERANGE);
			assert_int_equal(shoal_column_read(c, nr, 0, got), 0);
			assert_int_equal(shoal_column_read(c, nr + 1, 0, got), -ERANGE);
			shoal_column_close(c);
			free(values);
			free(got);
		}
	}
	test_dir_empty();
}

static void ones_are_found_and_counted(void **state)
{
	static const unsigned shares[] = { 0, 1, 50, 99, 100 };
	uint64_t nr = 30001, sample, rank;

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(shares); k++) {
		struct shoal_column_options o = options_of(SHOAL_BIT, nr);
		uint8_t *values = allocate(nr, 1);
		struct shoal_column *c;
		uint64_t ones = 0;

		for (uint64_t i = 0; i < nr; i++)
			values[i] = random_below(100) < shares[k];
		write_column(test_path("c"), &o, values);
		c = open_column(test_path("c"));
		for (uint64_t i = 0; i < nr; i++) {
			assert_int_equal(shoal_column_rank(c, i, &rank), 0);
			assert_int_equal(rank, ones);
			if (!values[i])
				continue;
			assert_int_equal(shoal_column_select(c, ones, &sample), 0);
			assert_int_equal(sample, i);
			ones++;
		}
		assert_int_equal(shoal_column_rank(c, nr, &rank), 0);
		assert_int_equal(rank, ones);
		assert_int_equal(shoal_column_rank(c, nr + 1, &rank), -ERANGE);
		assert_int_equal(shoal_column_select(c, ones, &sample), -ERANGE);
		shoal_column_close(c);
		free(values);
	}
	test_dir_empty();
}

/* Sorted by key and then by id, as it should be: compare with the order of the file. */
static void check_order(const struct shoal_column *c, const uint8_t *kept, uint64_t want)
{
	struct shoal_column_info info;
	struct shoal_err err = { "" };
	uint64_t id;

	shoal_column_info(c, &info);
	assert_int_equal(info.nr_sorted, want);
	/* Rising, without equals, and each one kept: so there are all that are kept. */
	if (shoal_column_verify(c, &err) < 0)
		fail_msg("%s", err.msg);
	for (uint64_t i = 0; i < want; i++) {
		assert_int_equal(shoal_column_sorted(c, i, 1, &id), 0);
		assert_true(!kept || kept[id]);
	}
	assert_int_equal(shoal_column_sorted(c, want, 1, &id), -ERANGE);
}

static void a_sorted_column_has_all_samples_by_value(void **state)
{
	uint64_t nr = 100000;

	(void)state;
	for (enum shoal_column_type type = SHOAL_BIT; type <= SHOAL_F64; type++) {
		struct shoal_column_options o = options_of(type, nr);
		uint8_t *values = values_of(type, nr);
		struct shoal_err err = { "" };
		struct shoal_column *c;

		write_column(test_path("c"), &o, values);
		c = open_column(test_path("c"));
		assert_int_equal(shoal_column_sort(c, NULL, test_path("c"), 0, NULL, &err), 0);
		shoal_column_close(c);
		c = open_column(test_path("c"));
		check_order(c, NULL, nr);
		shoal_column_close(c);
		free(values);
	}
	test_dir_empty();
}

/*
 * 1 MiB is room for fewer than 32,768 entries: these need to be cut, more than once, and one value
 * alone. 4 MiB leave memory for further threads.
 */
static void what_does_not_fit_into_memory_is_sorted_in_passes(void **state)
{
	uint64_t nr = 150000, *values = allocate(nr, 8);
	struct shoal_column_options o = options_of(SHOAL_U64, nr);

	(void)state;
	for (int i = 0; i < 10; i++) {
		uint64_t memory = i % 2 ? 4 << 20 : 1;
		int shape = i / 2;
		struct shoal_err err = { "" };
		struct shoal_column *c;

		for (uint64_t k = 0; k < nr; k++)
			values[k] = shape == 0   ? random_u64()
				    : shape == 1 ? random_below(3)
				    : shape == 2 ? UINT64_MAX - random_below(70000)
				    : shape == 3 ? (random_below(10) ? 5 : random_u64())
						 : k % 2 * UINT64_MAX;
		write_column(test_path("c"), &o, values);
		c = open_column(test_path("c"));
		assert_int_equal(shoal_column_sort(c, NULL, test_path("s"), memory, NULL, &err), 0);
		shoal_column_close(c);
		c = open_column(test_path("s"));
		check_order(c, NULL, nr);
		shoal_column_close(c);
	}
	free(values);
	test_dir_empty();
}

static void a_sorted_column_may_leave_samples_out(void **state)
{
	uint64_t nr = 20000;
	struct shoal_column_options o = options_of(SHOAL_U32, nr), k = options_of(SHOAL_BIT, nr);
	uint8_t *values = values_of(SHOAL_U32, nr), *kept = values_of(SHOAL_BIT, nr);
	struct shoal_column *c, *keep;
	struct shoal_column_info info;
	struct shoal_err err = { "" };

	(void)state;
	write_column(test_path("c"), &o, values);
	write_column(test_path("k"), &k, kept);
	c = open_column(test_path("c"));
	keep = open_column(test_path("k"));
	shoal_column_info(keep, &info);
	assert_int_equal(shoal_column_sort(c, keep, test_path("s"), 0, NULL, &err), 0);
	assert_int_equal(shoal_column_sort(c, c, test_path("x"), 0, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "not bit"));
	shoal_column_close(c);
	c = open_column(test_path("s"));
	check_order(c, kept, info.nr_ones);
	shoal_column_info(c, &info);
	assert_true(info.kept_only);
	shoal_column_close(c);
	shoal_column_close(keep);

	k.digest = OTHER;
	write_column(test_path("k"), &k, kept);
	assert_int_equal(shoal_column_open(test_path("k"), NULL, &keep, &err), 0);
	c = open_column(test_path("c"));
	assert_int_equal(shoal_column_sort(c, keep, test_path("x"), 0, NULL, &err), -ESTALE);
	shoal_column_close(c);
	shoal_column_close(keep);
	free(values);
	free(kept);
	test_dir_empty();
}

/* Sort with a keep column whose header says that @ones samples are kept, while all are. */
static int sort_with_lie(const struct shoal_column *c, uint64_t ones, struct shoal_err *err)
{
	struct side_header h;
	struct shoal_column *keep;
	FILE *file = fopen(test_path("k"), "r+");
	int rc;

	assert_non_null(file);
	assert_int_equal(fread(&h, sizeof(h), 1, file), 1);
	h.nr_ones = le64_of(ones);
	side_header_seal(&h);
	rewind(file);
	assert_int_equal(fwrite(&h, sizeof(h), 1, file), 1);
	assert_int_equal(fclose(file), 0);
	keep = open_column(test_path("k"));
	rc = shoal_column_sort(c, keep, test_path("s"), 1, NULL, err);
	shoal_column_close(keep);
	return rc;
}

static void a_keep_column_that_counts_its_ones_wrong_is_refused(void **state)
{
	uint64_t nr = 100000; /* more than fit into the least memory, 32,768 */
	struct shoal_column_options o = options_of(SHOAL_U32, nr), k = options_of(SHOAL_BIT, nr);
	uint8_t *values = values_of(SHOAL_U32, nr), *kept = malloc(nr);
	struct shoal_column *c;
	struct shoal_err err = { "" };

	(void)state;
	assert_non_null(kept);
	memset(kept, 1, nr);
	write_column(test_path("c"), &o, values);
	write_column(test_path("k"), &k, kept);
	c = open_column(test_path("c"));
	for (uint64_t ones = 1; ones < nr; ones *= 7) {
		assert_int_equal(sort_with_lie(c, ones, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, "number of ones is wrong"));
		assert_int_not_equal(access(test_path("s"), F_OK), 0);
	}
	assert_int_equal(sort_with_lie(c, nr, &err), 0);
	shoal_column_close(c);
	free(values);
	free(kept);
	test_dir_empty();
}

static void parts_make_the_same_file_as_the_whole(void **state)
{
	static const uint64_t cuts[] = { 0, 0, 13, 5000, 5001, 9999, 10000 };
	uint64_t nr = 10000;

	(void)state;
	for (enum shoal_column_type type = SHOAL_BIT; type <= SHOAL_F64; type++) {
		struct shoal_column_options o = options_of(type, nr);
		uint8_t *values = values_of(type, nr), *whole, *joined;
		char *path[ARRAY_LEN(cuts) - 1];
		struct shoal_err err = { "" };
		size_t len, joined_len;

		write_column(test_path("whole"), &o, values);
		for (size_t i = 0; i + 1 < ARRAY_LEN(cuts); i++) {
			char name[16];

			snprintf(name, sizeof(name), "p%zu", i);
			path[i] = strdup(test_path(name));
			o.first = cuts[i];
			o.nr = cuts[i + 1] - cuts[i];
			write_column(path[i], &o, values + o.first * width_of(type));
		}
		assert_int_equal(shoal_column_join(test_path("joined"), (const char *const *)path,
						   ARRAY_LEN(path), &err),
				 0);
		whole = file_read(test_path("whole"), &len);
		joined = file_read(test_path("joined"), &joined_len);
		assert_int_equal(len, joined_len);
		assert_memory_equal(whole, joined, len);

		assert_int_equal(
			shoal_column_join(test_path("x"), (const char *const *)path + 3, 2, &err),
			-EINVAL);
		assert_non_null(strstr(err.msg, "missing"));
		assert_int_equal(
			shoal_column_join(test_path("x"), (const char *const *)path, 3, &err),
			-EINVAL);
		assert_non_null(strstr(err.msg, "only 5000 values for 10000"));
		for (size_t i = 0; i < ARRAY_LEN(path); i++)
			free(path[i]);
		free(whole);
		free(joined);
		free(values);
	}
	test_dir_empty();
}

static void a_column_of_another_catalog_is_refused(void **state)
{
	struct shoal_column_options o = options_of(SHOAL_U8, 3);
	struct shoal_column *c = NULL;
	struct shoal_err err = { "" };

	(void)state;
	write_column(test_path("c"), &o, "abc");
	assert_int_equal(shoal_column_open(test_path("c"), OTHER, &c, &err), -ESTALE);
	assert_non_null(strstr(err.msg, OTHER));
	assert_non_null(strstr(err.msg, DIGEST));
	test_dir_empty();
}

static void options_that_make_no_sense_are_refused(void **state)
{
	static const char long_name[] =
		"0123456789012345678901234567890123456789012345678901234567890123";
	struct shoal_column_options row[] = {
		{ .name = "", .type = SHOAL_U8, .digest = DIGEST },
		{ .name = NULL, .type = SHOAL_U8, .digest = DIGEST },
		{ .name = long_name, .type = SHOAL_U8, .digest = DIGEST },
		{ .name = "a\xff", .type = SHOAL_U8, .digest = DIGEST },
		{ .name = "a", .type = 0, .digest = DIGEST },
		{ .name = "a", .type = 9, .digest = DIGEST },
		{ .name = "a", .type = SHOAL_U8, .digest = "12" },
		{ .name = "a", .type = SHOAL_U8, .digest = DIGEST "0" },
		{ .name = "a", .type = SHOAL_U8, .digest = DIGEST, .nr = 1 },
		{ .name = "a", .type = SHOAL_U8, .digest = DIGEST, .nr_samples = 5, .first = 6 },
		{ .name = "a", .type = SHOAL_U8, .digest = DIGEST, .nr_samples = 1ull << 49 },
	};
	struct shoal_column_writer *w = NULL;
	struct shoal_err err = { "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		assert_int_equal(shoal_column_create(test_path("c"), &row[i], &w, &err), -EINVAL);
	row[2].name = long_name + 1; /* 63 bytes will do */
	assert_int_equal(shoal_column_create(test_path("c"), &row[2], &w, &err), 0);
	assert_int_equal(shoal_column_append(w, "a", 1, &err), -EINVAL);
	shoal_column_abort(w);
	assert_int_equal(test_dir_count(), 0);
}

/* A small sorted column of type bit: it has every part of the format. */
static uint8_t *small_image(size_t *ret_len)
{
	struct shoal_column_options o = options_of(SHOAL_BIT, 5000);
	uint8_t *values = values_of(SHOAL_BIT, 5000), *image;
	struct shoal_err err = { "" };
	struct shoal_column *c;

	write_column(test_path("i"), &o, values);
	c = open_column(test_path("i"));
	assert_int_equal(shoal_column_sort(c, NULL, test_path("i"), 0, NULL, &err), 0);
	shoal_column_close(c);
	image = file_read(test_path("i"), ret_len);
	unlink(test_path("i"));
	free(values);
	return image;
}

static void every_truncation_is_refused(void **state)
{
	size_t len;
	uint8_t *image = small_image(&len);

	(void)state;
	for (size_t n = 0; n < len; n++) {
		uint8_t *cut = allocate(n, 1); /* exactly so long, for ASan to see */
		struct shoal_err err = { "" };
		struct side_view v;

		memcpy(cut, image, n);
		assert_int_equal(side_parse(cut, n, &v, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, n ? "truncated" : "empty"));
		free(cut);
	}
	free(image);
}

/* Use all of it, which must stay inside whatever it says. */
static int use_all(const uint8_t *image, size_t len)
{
	struct shoal_err err = { "" };
	struct shoal_column *c = NULL;
	uint64_t id;
	int rc, used = 0;

	file_write(test_path("i"), image, len);
	rc = shoal_column_open(test_path("i"), NULL, &c, &err);
	if (rc == 0) {
		struct shoal_column_info info;

		shoal_column_info(c, &info);
		rc = shoal_column_verify(c, &err);
		for (uint64_t i = 0; i < 6000; i += 37) {
			used |= shoal_column_select(c, i, &id);
			used |= shoal_column_rank(c, i, &id);
			used |= shoal_column_sorted(c, i, 1, &id);
		}
		(void)used;
	}
	shoal_column_close(c);
	unlink(test_path("i"));
	return rc;
}

static void every_flipped_bit_is_found(void **state)
{
	size_t len;
	uint8_t *image = small_image(&len);

	(void)state;
	assert_int_equal(use_all(image, len), 0);
	for (size_t i = 0; i < len; i += i < 256 ? 1 : 13) {
		image[i] ^= (uint8_t)(1u << (i & 7));
		assert_true(use_all(image, len) < 0);
		image[i] ^= (uint8_t)(1u << (i & 7));
	}
	free(image);
}

/* Make all checksums fit the bytes again. */
static void repair(uint8_t *image)
{
	struct side_header *h = (struct side_header *)image;
	struct side_layout at = side_layout(SHOAL_BIT, 5000, 5000, le64_get(h->nr_order));

	for (uint64_t page = 0; page < at.nr_pages; page++) {
		uint64_t off = sizeof(*h) + page * SIDE_PAGE;

		le64_store(image + at.sums_off + 8 * page,
			   XXH3_64bits(image + off, u64_min(SIDE_PAGE, at.sums_off - off)));
	}
	h->sums_checksum = le64_of(XXH3_64bits(image + at.sums_off, 8 * at.nr_pages));
	side_header_seal(h);
}

static void lies_with_good_checksums_are_found_too(void **state)
{
	size_t len;
	uint8_t *image = small_image(&len);

	(void)state;
	repair(image);
	assert_int_equal(use_all(image, len), 0);
	for (size_t i = 24; i < len - 8; i += i < 256 ? 1 : 11) {
		uint8_t was = image[i], changed = (uint8_t)random_u64();
		bool matters = i < 120 || i >= 256; /* not a name, nor reserved */

		if ((i >= 64 && i < 80) || changed == was || (i >= 112 && i < 120))
			continue; /* another catalog is no lie */
		if (i >= 256 + 625 && i < 256 + 632)
			continue; /* padding */
		image[i] = changed;
		side_header_seal((struct side_header *)image);
		if (i >= 256)
			repair(image);
		if (matters)
			assert_true(use_all(image, len) < 0);
		else
			(void)use_all(image, len);
		image[i] = was;
		repair(image);
	}
	free(image);
}

static void each_kind_of_bad_file_has_its_words(void **state)
{
	static const struct {
		size_t at;
		uint8_t byte;
		bool sealed;
		int rc;
		const char *says;
	} row[] = {
		{ 0, 'x', true, -EBADMSG, "not a column" },
		{ 40, 0xff, false, -EBADMSG, "header checksum" },
		{ 8, 0, true, -EBADMSG, "version 0" },
		{ 8, 2, true, -EPROTONOSUPPORT, "newer" },
		{ 16, 1, true, -EPROTONOSUPPORT, "newer" },
		{ 30, 1, true, -EBADMSG, "truncated" },
		{ 56, 9, true, -EBADMSG, "invalid header fields" },
		{ 56, 2, true, -EBADMSG, "invalid header fields" },
		{ 60, 13, true, -EBADMSG, "invalid header fields" },
		{ 120, 0, true, -EBADMSG, "plain text" },
		{ 120, 64, true, -EBADMSG, "plain text" },
		{ 112, 0xff, true, -EBADMSG, "the checksum of the page checksums" },
	};
	size_t len;
	uint8_t *image = small_image(&len);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint8_t *bad = allocate(len, 1);
		struct shoal_err err = { "" };
		struct side_view v;

		memcpy(bad, image, len);
		bad[row[i].at] = row[i].byte;
		if (row[i].sealed)
			side_header_seal((struct side_header *)bad);
		assert_int_equal(side_parse(bad, len, &v, &err), row[i].rc);
		if (!strstr(err.msg, row[i].says))
			fail_msg("row %zu: '%s', not '%s'", i, err.msg, row[i].says);
		free(bad);
	}
	free(image);
}

static void a_file_that_shrinks_is_stale(void **state)
{
	uint64_t nr = 100000, *values = allocate(nr, 8);
	struct shoal_column_options o = options_of(SHOAL_U64, nr);
	struct shoal_column *c;

	(void)state;
	sigbus_guard();
	write_column(test_path("c"), &o, values);
	c = open_column(test_path("c"));
	assert_int_equal(truncate(test_path("c"), 5000), 0);
	assert_int_equal(shoal_column_read(c, 90000, 100, values), -ESTALE);
	shoal_column_close(c);
	free(values);
	test_dir_empty();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_column_gives_back_what_was_written),
		cmocka_unit_test(ones_are_found_and_counted),
		cmocka_unit_test(a_sorted_column_has_all_samples_by_value),
		cmocka_unit_test(what_does_not_fit_into_memory_is_sorted_in_passes),
		cmocka_unit_test(a_sorted_column_may_leave_samples_out),
		cmocka_unit_test(a_keep_column_that_counts_its_ones_wrong_is_refused),
		cmocka_unit_test(parts_make_the_same_file_as_the_whole),
		cmocka_unit_test(a_column_of_another_catalog_is_refused),
		cmocka_unit_test(options_that_make_no_sense_are_refused),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(every_flipped_bit_is_found),
		cmocka_unit_test(lies_with_good_checksums_are_found_too),
		cmocka_unit_test(each_kind_of_bad_file_has_its_words),
		cmocka_unit_test(a_file_that_shrinks_is_stale),
	};

	sigbus_guard_init();
	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
