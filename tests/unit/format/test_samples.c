/* Goal: each kind finds its samples, and no bytes make it leave the file or accept a lie. */
#include "format/samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct bytes {
	const uint8_t *p;
	size_t len;
};

static int read_bytes(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	const struct bytes *b = self;

	(void)err;
	assert_true(off <= b->len && len <= b->len - off);
	memcpy(buf, b->p + off, len);
	return 0;
}

struct found {
	uint64_t nr, end, size;
	struct samples_extent e[8];
};

static int take(void *self, const struct samples_extent *e)
{
	struct found *f = self;

	assert_true(e->off >= f->end && e->off <= f->size && e->len <= f->size - e->off);
	if (f->nr < 8)
		f->e[f->nr] = *e;
	f->nr++;
	f->end = e->off + e->len;
	return 0;
}

/* Search a copy of exactly @len bytes, so that the address sanitizer sees any overread. */
static int search(const char *kind, const void *p, size_t len, uint64_t record_len, struct found *f,
		  struct shoal_err *err)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct bytes b = { copy, len };
	struct format_source s = { len, read_bytes, &b };
	int rc;

	memcpy(copy, p, len);
	*f = (struct found){ .size = len };
	rc = samples_find(samples_kind_by_name(kind), record_len, &s, take, f, err);
	free(copy);
	return rc;
}

/* ---- Parquet ---- */

/* One row group of 5 rows, whose only column has the 10 bytes from 4 on. */
static const uint8_t parquet[] = "PAR1"
				 "0123456789"
				 "\x36\x0a"             /* 3 num_rows: 5 */
				 "\x19\x1c"             /* 4 row_groups: one */
				 "\x19\x1c"             /* 1 columns: one */
				 "\x3c\x76\x14\x26\x08" /* 3 meta_data: 7 length 10, 9 offset 4 */
				 "\x00\x00"             /* the column ends */
				 "\x26\x0a\x00\x00"     /* 3 num_rows: 5 */
				 "\x11\x00\x00\x00"
				 "PAR1";
#define PARQUET (sizeof(parquet) - 1)

static void a_row_group_is_found(void **state)
{
	struct shoal_err err = { "" };
	struct found f;

	(void)state;
	assert_int_equal(search("parquet", parquet, PARQUET, 0, &f, &err), 0);
	assert_int_equal(f.nr, 1);
	assert_int_equal(f.e[0].off, 4);
	assert_int_equal(f.e[0].len, 10);
	assert_int_equal(f.e[0].rows, 5);
}

static void a_lie_in_a_footer_is_told(void **state)
{
	static const struct {
		size_t at;
		uint8_t byte;
		const char *words;
	} row[] = {
		{ 0, 'X', "does not begin with PAR1" },
		{ 15, 0x0c, "row groups have 5 rows, but it says 6" },
		{ 15, 0x09, "row groups have 5 rows, but it says -5" },
		{ 17, 0xfc, "damaged footer" }, /* a list that is longer */
		{ 17, 0x18, "list of row groups of another type" },
		{ 20, 0x18, "in other files" },           /* file_path in place of meta_data */
		{ 22, 0x16, "lies outside the data" },    /* 11 bytes */
		{ 22, 0x13, "lies outside the data" },    /* -10 bytes */
		{ 24, 0x06, "lies outside the data" },    /* from 3 on */
		{ 28, 0x09, "without a number of rows" }, /* -5 */
		{ 31, 0x12, "damaged footer" },           /* it begins a byte too early */
		{ 31, 0xff, "does not fit the file" },
		{ 38, 'E', "encrypted" },
		{ 38, 'X', "does not end in PAR1" },
	};
	struct found f;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_err err = { "" };
		uint8_t copy[PARQUET];
		int rc;

		memcpy(copy, parquet, PARQUET);
		copy[row[i].at] = row[i].byte;
		rc = search("parquet", copy, PARQUET, 0, &f, &err);
		assert_int_equal(rc, -EBADMSG);
		assert_true(err.msg[0] != '\0');
		if (!strstr(err.msg, row[i].words))
			fail_msg("row %zu: '%s' does not say '%s'", i, err.msg, row[i].words);
	}
}

/* A number of 16 bits in Thrift; one of 64 would overflow with the next field. */
static void a_field_whose_number_is_too_large_is_refused(void **state)
{
	static const uint8_t file[] = "PAR1"
				      "\x05\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"
				      "\x15\x00\x00"
				      "\x0f\0\0\0PAR1";
	struct shoal_err err = { "" };
	struct found f;

	(void)state;
	assert_int_equal(search("parquet", file, sizeof(file) - 1, 0, &f, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "a field whose number is too large"));
}

static void every_truncation_is_refused(void **state)
{
	struct found f;

	(void)state;
	for (size_t len = 0; len < PARQUET; len++) {
		struct shoal_err err = { "" };

		assert_int_equal(search("parquet", parquet, len, 0, &f, &err), -EBADMSG);
		assert_int_equal(search("arrow", parquet, len, 0, &f, &err), -EBADMSG);
		assert_true(err.msg[0] != '\0');
	}
}

/* ---- tar ---- */

#define MEMBERS 3

/* Members a.x, a.y and b.x, of 1, 512 and 700 bytes, then one zero block. */
static size_t make_tar(uint8_t *p)
{
	static const struct {
		const char *name;
		size_t len;
	} member[MEMBERS] = { { "d/a.x", 1 }, { "d/a.y", 512 }, { "d/b.x", 700 } };
	uint8_t *start = p;

	for (size_t i = 0; i < MEMBERS; i++) {
		unsigned sum = 0;

		memset(p, 0, 512);
		sprintf((char *)p, "%s", member[i].name);
		sprintf((char *)p + 124, "%011zo", member[i].len);
		sprintf((char *)p + 257, "ustar");
		p[263] = p[264] = '0';
		p[156] = '0';
		memset(p + 148, ' ', 8);
		for (size_t k = 0; k < 512; k++)
			sum += p[k];
		sprintf((char *)p + 148, "%06o", sum);
		p += 512;
		memset(p, 'x', (member[i].len + 511) / 512 * 512);
		p += (member[i].len + 511) / 512 * 512;
	}
	memset(p, 0, 512);
	return (size_t)(p + 512 - start);
}

static void members_and_groups_are_found(void **state)
{
	struct shoal_err err = { "" };
	uint8_t tar[8192];
	size_t len = make_tar(tar);
	struct found f;

	(void)state;
	assert_int_equal(search("tar", tar, len, 0, &f, &err), 0);
	assert_int_equal(f.nr, 3);
	assert_int_equal(f.e[1].off, 1536);
	assert_int_equal(f.e[1].len, 512);
	assert_int_equal(f.e[2].off, 2560);
	assert_int_equal(f.e[2].len, 700);
	assert_int_equal(search("webdataset", tar, len, 0, &f, &err), 0);
	assert_int_equal(f.nr, 2);
	assert_int_equal(f.e[0].off, 0);
	assert_int_equal(f.e[0].len, 2048);
	assert_int_equal(f.e[1].off, 2048);
	assert_int_equal(f.e[1].len, 1536);
}

static void a_damaged_tar_is_refused_in_words(void **state)
{
	static const struct {
		size_t at;
		uint8_t byte;
		const char *words;
	} row[] = {
		{ 0, 'e', "wrong checksum" },
		{ 1024 + 156, 'S', "sparse" },
		{ 2048 + 127, '7', "past the end" },
		{ 2048 + 130, '9', "malformed size" },
	};
	uint8_t tar[8192];
	size_t len = make_tar(tar);
	struct found f;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_err err = { "" };
		uint8_t copy[8192], *head = copy + row[i].at / 512 * 512;
		unsigned sum = 0;

		memcpy(copy, tar, len);
		copy[row[i].at] = row[i].byte;
		memset(head + 148, ' ', 8);
		for (size_t k = 0; k < 512; k++)
			sum += head[k];
		sprintf((char *)head + 148, "%06o", i == 0 ? 1 : sum);
		assert_int_equal(search("tar", copy, len, 0, &f, &err), -EBADMSG);
		if (!strstr(err.msg, row[i].words))
			fail_msg("row %zu: '%s' does not say '%s'", i, err.msg, row[i].words);
	}
	for (size_t cut = 1; cut < len - 512; cut++) /* inside a member; not between two */
		if (cut != 1024 && cut != 2048 && cut < 2560 + 700) {
			struct shoal_err err = { "" };

			if (cut >= 513 && cut < 1024) /* only padding is missing */
				continue;
			assert_int_equal(search("tar", tar, cut, 0, &f, &err), -EBADMSG);
		}
}

/* ---- Lines and records ---- */

static void lines_and_records_are_found(void **state)
{
	/* RFC 4180: a quote within a field is none, two in a quoted one are one. */
	static const struct {
		const char *text;
		uint64_t lines;
	} quoted[] = { { "h\n5\" x,1\n6\" y,2\n", 2 },
		       { "h\n\"a\"\"\n\"\"b\",1\n2\n", 2 },
		       { "h\n\"\",\"\n\"\n", 1 },
		       { "h\n\"\"\"\n\"\n3\n", 2 } };
	static const char csv[] = "a,b\n1,\"x\ny\"\n\n2,z\r\n3,w";
	struct shoal_err err = { "" };
	struct found f;

	(void)state;
	assert_int_equal(search("csv", csv, strlen(csv), 0, &f, &err), 0);
	assert_int_equal(f.nr, 3);
	assert_int_equal(f.e[0].off, 4);
	assert_int_equal(f.e[0].len, 8);
	assert_int_equal(f.e[2].len, 3);
	assert_int_equal(search("jsonl", csv, strlen(csv), 0, &f, &err), 0);
	assert_int_equal(f.nr, 5);
	assert_int_equal(search("csv", csv, 9, 0, &f, &err), -EBADMSG);
	for (size_t i = 0; i < ARRAY_LEN(quoted); i++) {
		assert_int_equal(search("csv", quoted[i].text, strlen(quoted[i].text), 0, &f, &err),
				 0);
		assert_int_equal(f.nr, quoted[i].lines);
	}
	assert_int_equal(search("fixed", csv, 12, 4, &f, &err), 0);
	assert_int_equal(f.nr, 3);
	assert_int_equal(search("fixed", csv, 12, 5, &f, &err), -EBADMSG);
	assert_int_equal(search("jsonl", csv, 0, 0, &f, &err), 0);
	assert_int_equal(f.nr, 0);
}

static void a_kind_is_known_by_the_end_of_a_name(void **state)
{
	static const char *const row[][2] = {
		{ "a/b.parquet", "parquet" }, { "B.TAR", "webdataset" }, { "x.h5", "hdf5" },
		{ "x.tar.gz", "whole" },      { "tar", "whole" },        { ".npy", "npy" },
		{ "a.off.idx", "index" },
	};
	const struct samples_kind *indexed = samples_kind_by_name("indexed_binary");
	const struct samples_kind *tar = samples_kind_by_name("tar");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		assert_string_equal(
			samples_kind_name(samples_kind_of_file(NULL, row[i][0], strlen(row[i][0]))),
			row[i][1]);
	assert_ptr_equal(samples_kind_of_file(tar, "a.idx", 5), tar);
	assert_ptr_equal(samples_kind_of_file(indexed, "a.bin", 5), indexed);
	assert_string_equal(samples_kind_name(samples_kind_of_file(indexed, "a.sz.idx", 8)),
			    "index");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_group_is_found),
		cmocka_unit_test(a_lie_in_a_footer_is_told),
		cmocka_unit_test(a_field_whose_number_is_too_large_is_refused),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(members_and_groups_are_found),
		cmocka_unit_test(a_damaged_tar_is_refused_in_words),
		cmocka_unit_test(lines_and_records_are_found),
		cmocka_unit_test(a_kind_is_known_by_the_end_of_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
