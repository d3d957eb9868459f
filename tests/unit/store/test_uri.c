/*
 * Goal: what a URI names is told in one place, for any text: its kind and what that is, the bucket,
 * the path; and kinds of stores can be added from outside.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/kind.h"
#include "store/null/null.h"

static struct shoal_err err;

static void a_uri_is_taken_apart(void **state)
{
	static const struct {
		const char *text, *prefix, *authority, *path;
	} row[] = {
		{ "s3://bucket/a/b", "s3://", "bucket", "a/b" },
		{ "s3://bucket/a//", "s3://", "bucket", "a//" },
		{ "s3://bucket//a", "s3://", "bucket", "/a" },
		{ "s3://bucket/", "s3://", "bucket", "" },
		{ "s3://bucket", "s3://", "bucket", "" },
		{ "s3://", "s3://", "", "" },
		{ "s3:///a", "s3://", "", "a" },
		{ "file:///data/x", "file:", "", "/data/x" },
		{ "file:///", "file:", "", "/" },
		{ "file:////x", "file:", "", "//x" },
		{ "null:size=3", "null:", "", "size=3" },
		{ "null:", "null:", "", "" },
		{ "/data", "file:", "", "/data" },
		{ "data", "file:", "", "data" },
		{ "./s3://b/a", "file:", "", "./s3://b/a" },
		{ "s3:bucket", "file:", "", "s3:bucket" },
		{ "S3://bucket", NULL, "", "S3://bucket" },
		{ "1://x", "file:", "", "1://x" },
		{ "", "file:", "", "" },
		{ "gs://b/a", NULL, "", "gs://b/a" },
		{ "a+b-c.d://x", NULL, "", "a+b-c.d://x" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct store_uri u = store_uri_parse(row[i].text);

		assert_ptr_equal(u.text, row[i].text);
		if (!row[i].prefix)
			assert_null(u.kind);
		else
			assert_string_equal(u.kind->prefix, row[i].prefix);
		assert_int_equal(u.authority_len, strlen(row[i].authority));
		assert_memory_equal(u.authority, row[i].authority, u.authority_len);
		assert_string_equal(u.path, row[i].path);
	}
}

static void a_scheme_ends_within_the_text(void **state)
{
	(void)state;
	assert_int_equal(store_uri_scheme_len("s3://b", 6), 5);
	assert_int_equal(store_uri_scheme_len("s3://b", 5), 5);
	assert_int_equal(store_uri_scheme_len("s3://b", 4), 0);
	assert_int_equal(store_uri_scheme_len("s3://b", 0), 0);
	assert_int_equal(store_uri_scheme_len("://b", 4), 0);
	assert_int_equal(store_uri_scheme_len("a/b://c", 7), 0);
	assert_int_equal(store_uri_scheme_len("s3\0://", 6), 0);
}

static void a_name_is_below_a_root_only_after_a_slash(void **state)
{
	(void)state;
	assert_string_equal(store_uri_below("s3://b/a/c", "s3://b/a"), "c");
	assert_string_equal(store_uri_below("s3://b/a", "s3://b"), "a");
	assert_null(store_uri_below("s3://b/ac", "s3://b/a"));
	assert_null(store_uri_below("s3://b", "s3://b/a"));
	assert_null(store_uri_below("s3://b/a", "s3://b/a"));
	assert_true(store_uri_is_file("file:///a", 9) && store_uri_is_file("file://", 7));
	assert_false(store_uri_is_file("file://", 6) || store_uri_is_file("/a", 2));
}

static void a_kind_tells_what_it_is(void **state)
{
	struct store_traits t = store_uri_traits("s3://bucket/prefix");

	(void)state;
	assert_true(t.objects && t.etags && t.any_name && !t.files && !t.directories);
	assert_false(t.synthetic || t.instant);
	t = store_uri_traits("some/where");
	assert_true(t.files && t.directories && !t.objects && !t.etags && !t.any_name);
	t = store_uri_traits("file:///some/where");
	assert_true(t.files && !t.synthetic);
	t = store_uri_traits("null:size=1");
	assert_true(t.synthetic && !t.files && !t.objects && !t.directories);
	t = store_uri_traits("gs://bucket");
	assert_false(t.files || t.objects || t.synthetic || t.directories || t.etags);
}

static void only_files_have_a_local_path(void **state)
{
	static const char text[] = "file:///a/b";

	(void)state;
	assert_ptr_equal(store_local_path(text), text + 7);
	assert_string_equal(store_local_path("a/b"), "a/b");
	assert_string_equal(store_local_path("/a"), "/a");
	assert_null(store_local_path("s3://bucket/a"));
	assert_null(store_local_path("null:size=1"));
	assert_null(store_local_path("gs://bucket/a"));
	assert_null(store_local_path("file://a/b"));
	assert_null(store_local_path("file:a"));
	assert_null(store_local_path(""));
}

static void names_may_lie_below_a_scheme_that_no_store_has(void **state)
{
	(void)state;
	assert_int_equal(store_uri_check_root("gs://bucket", &err), 0);
	assert_int_equal(store_uri_check("gs://bucket", &err), -ENOTSUP);
	assert_string_equal(err.msg, "'gs://' is not a kind of store: use file://, s3://, null: "
				     "or a path");
	assert_int_equal(store_uri_check_root("s3:///a", &err), -EINVAL);
	assert_int_equal(store_uri_check_root("null:x", &err), -EINVAL);
	assert_int_equal(store_uri_check("s3://bucket", &err), 0);
	assert_int_equal(store_uri_check("", &err), -EINVAL);
}

static void null_without_a_size_has_any(void **state)
{
	char buf[40];

	(void)state;
	assert_int_equal(store_null_any_size("null", buf, sizeof(buf)), 1);
	assert_string_equal(buf, "null:size=1T");
	assert_int_equal(store_null_any_size("null:", buf, sizeof(buf)), 1);
	assert_string_equal(buf, "null:size=1T");
	assert_int_equal(store_null_any_size("null:delay_us=3", buf, sizeof(buf)), 1);
	assert_string_equal(buf, "null:size=1T,delay_us=3");
	assert_int_equal(store_null_any_size("null:size=3", buf, sizeof(buf)), 0);
	assert_int_equal(store_null_any_size("nullx", buf, sizeof(buf)), 0);
	assert_int_equal(store_null_any_size("s3://b", buf, sizeof(buf)), 0);
	assert_int_equal(store_null_any_size("null:delay_us=3", buf, 23), -ENAMETOOLONG);
	assert_int_equal(store_null_any_size("null:delay_us=3", buf, 24), 1);
}

static int open_none(const struct store_uri *uri, const struct shoal_store_config *config,
		     struct store **ret_store, struct shoal_err *e)
{
	(void)uri;
	(void)config;
	(void)ret_store;
	return err_set(e, -EXDEV, "the kind was asked");
}

/* The last: what is registered stays. */
static void a_kind_is_added_once_and_by_a_prefix_of_its_own(void **state)
{
	static const struct store_kind taken = { .prefix = "s3://" },
				       longer = { .prefix = "null:x" },
				       shorter = { .prefix = "s3" };
	static struct store_kind mine[STORE_REGISTERED_MAX + 1];
	static char prefix[STORE_REGISTERED_MAX + 1][8];
	struct store *s = NULL;

	(void)state;
	assert_int_equal(store_register(&taken), -EEXIST);
	assert_int_equal(store_register(&longer), -EEXIST);
	assert_int_equal(store_register(&shorter), -EEXIST);
	assert_int_equal(store_open("k0://x", NULL, &s, &err), -ENOTSUP);
	for (size_t i = 0; i < ARRAY_LEN(mine); i++) {
		prefix[i][0] = 'k';
		prefix[i][1] = (char)('0' + i);
		memcpy(prefix[i] + 2, "://", 4);
		mine[i] = (struct store_kind){ .prefix = prefix[i], .open = open_none };
		assert_int_equal(store_register(&mine[i]), i < STORE_REGISTERED_MAX ? 0 : -ENOSPC);
		assert_int_equal(store_register(&mine[i]),
				 i < STORE_REGISTERED_MAX ? -EEXIST : -ENOSPC);
	}
	assert_int_equal(store_open("k0://x", NULL, &s, &err), -EXDEV);
	assert_int_equal(store_uri_check("gs://bucket", &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "null:, k0://, k1://"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_uri_is_taken_apart),
		cmocka_unit_test(a_scheme_ends_within_the_text),
		cmocka_unit_test(a_name_is_below_a_root_only_after_a_slash),
		cmocka_unit_test(a_kind_tells_what_it_is),
		cmocka_unit_test(only_files_have_a_local_path),
		cmocka_unit_test(names_may_lie_below_a_scheme_that_no_store_has),
		cmocka_unit_test(null_without_a_size_has_any),
		cmocka_unit_test(a_kind_is_added_once_and_by_a_prefix_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
