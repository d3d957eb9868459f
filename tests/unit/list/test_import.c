/* Goal: lists of other tools make the catalog that they describe, and lines that are malformed are
 * named. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"

static int import_text(enum shoal_import format, const char *columns, const char *text,
		       struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	char path[128], out[128];
	struct shoal_import_options import = { .format = format, .columns = columns };
	struct shoal_index_options o = { .output = out };
	struct shoal_index_result result;
	int fd, rc;

	snprintf(path, sizeof(path), "%s/list", test_dir());
	snprintf(out, sizeof(out), "%s/cat", test_dir());
	file_write(path, text, strlen(text));
	fd = open(path, O_RDONLY);
	rc = shoal_index_import(fd, &import, &o, &result, err);
	close(fd);
	unlink(path);
	if (rc == 0) {
		*ret_cat = catalog_open(out);
		unlink(out);
	}
	return rc;
}

static void check_import(enum shoal_import format, const char *columns, const char *text,
			 const char *root, const char *want)
{
	struct shoal_err err = { "" };
	struct shoal_catalog_info info;
	struct shoal_catalog *cat;
	char found[512] = "", name[SHOAL_NAME_MAX + 1], etag[SHOAL_ETAG_MAX + 1];

	if (import_text(format, columns, text, &cat, &err) < 0)
		fail_msg("%s", err.msg);
	shoal_catalog_info(cat, &info);
	assert_string_equal(info.root, root);
	for (uint64_t i = 0; i < info.nr_files; i++) {
		uint64_t size;
		size_t used = strlen(found);

		assert_true(shoal_catalog_name(cat, i, name) > 0);
		assert_int_equal(shoal_catalog_size(cat, i, &size), 0);
		assert_true(shoal_catalog_etag(cat, i, etag) >= 0);
		snprintf(found + used, sizeof(found) - used, "%.40s:%d:%.4s|", name, (int)size,
			 etag);
	}
	assert_string_equal(found, want);
	shoal_catalog_close(cat);
}

static void lists_of_other_tools_become_catalogs(void **state)
{
	(void)state;
	check_import(SHOAL_IMPORT_FIND, NULL, "12 /d/b c\n      7 /d/a\n", "file:///",
		     "d/a:7:|d/b c:12:|");
	check_import(SHOAL_IMPORT_GPFS, NULL,
		     "19203 1 0   -- /gpfs/b\n19204 65538 0 -- /gpfs/a -- x\n", "file:///",
		     "gpfs/a -- x:-1:|gpfs/b:-1:|");
	check_import(SHOAL_IMPORT_GPFS, NULL, "1 1 0  300 x -- /g/b\n2 1 0  4 y -- /g/a\n",
		     "file:///", "g/a:4:|g/b:300:|");
	check_import(SHOAL_IMPORT_INVENTORY, NULL,
		     "\"bucket\",\"a%2Fb+c%2B\",\"5\",\"2020\"\n\"bucket\",\"a/\"\"q\",\"6\"\r\n",
		     "s3://bucket", "a/\"q:6:|a/b c+:5:|");
	check_import(SHOAL_IMPORT_INVENTORY,
		     "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, ETag",
		     "b,old,v,false,false,1,x\nb,gone,v,true,true,,\n"
		     "b,now,v,true,false,3,0123456789abcdef0123456789abcdef\n",
		     "s3://b", "now:3:\"012|");
	check_import(SHOAL_IMPORT_INVENTORY, "bucket,key", "b,x\nb,y", "s3://b", "x:-1:|y:-1:|");
}

static void lines_that_are_malformed_are_named(void **state)
{
	static const struct {
		enum shoal_import format;
		const char *columns, *text, *words;
	} row[] = {
		{ SHOAL_IMPORT_FIND, NULL, "1 /a\nx /b\n", "line 2 is not a size" },
		{ SHOAL_IMPORT_FIND, NULL, "/a\n", "line 1 is not" },
		{ SHOAL_IMPORT_FIND, NULL, "1 /a\n2 b\n", "line 2" },
		{ SHOAL_IMPORT_GPFS, NULL, "1 2 /a\n", "line 1 is not three numbers" },
		{ SHOAL_IMPORT_GPFS, NULL, "1 2 -- /a\n", "line 1" },
		{ SHOAL_IMPORT_GPFS, NULL, "1 2 3 4 -- /a\n1 2 3 -- /b\n", "line 2" },
		{ SHOAL_IMPORT_INVENTORY, NULL, "b,k,1\nb,k2\n", "line 2" },
		{ SHOAL_IMPORT_INVENTORY, NULL, "b,k,x\n", "line 1" },
		{ SHOAL_IMPORT_INVENTORY, NULL, "b,\"k,1\n", "line 1" },
		{ SHOAL_IMPORT_INVENTORY, NULL, "b,k,1\nc,k,1\n", "line 2" },
		{ SHOAL_IMPORT_INVENTORY, "Key, Size", "k,1\n", "Bucket and Key" },
		{ SHOAL_IMPORT_INVENTORY, "Bucket Key", "k,1\n", "commas" },
		{ SHOAL_IMPORT_INVENTORY, NULL, "b,a%00b,1\n", "NUL" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_err err = { "" };
		struct shoal_catalog *cat;

		if (import_text(row[i].format, row[i].columns, row[i].text, &cat, &err) != -EINVAL)
			fail_msg("row %zu is taken", i);
		check_words(&err, row[i].words);
	}
	assert_int_equal(test_dir_count(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_other_tools_become_catalogs),
		cmocka_unit_test(lines_that_are_malformed_are_named),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
