/* Goal: pages are read right however their bytes come, and no bytes lead the scanner astray. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/s3/page.h"

static int page_end(struct s3_page *p, struct shoal_err *err)
{
	int rc = s3_page_check(p, err);

	return rc < 0 ? rc : s3_page_decode(p, err);
}

#define HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns='a>b'>"
#define TAIL "</ListBucketResult>"
#define MORE "<IsTruncated>true</IsTruncated>"
#define LAST "<IsTruncated>false</IsTruncated>"
#define URL  "<EncodingType>url</EncodingType>"

static struct s3_page page; /* large for a stack */

/* Read @text in pieces of @step bytes, each in a block of its own so that ASan sees an overread. */
static int read_page(const char *text, size_t len, size_t step, struct shoal_err *err)
{
	s3_page_start(&page);
	for (size_t at = 0; at < len; at += step) {
		size_t n = len - at < step ? len - at : step;
		char *piece = malloc(n);
		int rc;

		assert_non_null(piece);
		memcpy(piece, text + at, n);
		rc = s3_page_feed(&page, piece, n);
		free(piece);
		if (rc < 0)
			break;
	}
	return page_end(&page, err);
}

static void check_key(size_t i, const char *name, uint64_t size)
{
	assert_int_equal(page.key[i].len, strlen(name));
	assert_memory_equal(page.names.data + page.key[i].off, name, strlen(name) + 1);
	assert_int_equal(page.key[i].size, size);
}

static void pages_are_the_same_in_pieces_of_any_size(void **state)
{
	static const char text[] =
		"\xef\xbb\xbf" HEAD "<!-- a > b --><Name>b</Name>" URL MORE
		"<Contents><Key>a%2Fb+c</Key><LastModified>x</LastModified><ETag>&quot;0&quot;</ETag>"
		"<Size>300</Size><Owner><ID>1</ID></Owner></Contents>"
		"<Contents><Size> 0 </Size><Key>%41&#x42;&#67;<![CDATA[%20&]]></Key></Contents>"
		"<CommonPrefixes><Prefix>p</Prefix></CommonPrefixes>"
		"<NextContinuationToken> t &amp; u</NextContinuationToken>" TAIL "\n<?end?>";

	(void)state;
	for (size_t step = 1; step <= sizeof(text); step++) {
		struct shoal_err err = { "" };

		assert_int_equal(read_page(text, sizeof(text) - 1, step, &err), 0);
		assert_int_equal(page.nr, 2);
		check_key(0, "a/b c", 300);
		check_key(1, "ABC &", 0);
		assert_true(page.truncated);
		assert_string_equal(page.token, " t & u");
	}
}

static void keys_that_are_not_encoded_stay_as_they_are(void **state)
{
	static const char text[] = HEAD LAST "<Contents><Key>a+b%20\r\nc\rd</Key></Contents>" TAIL;

	(void)state;
	assert_int_equal(read_page(text, sizeof(text) - 1, 7, NULL), 0);
	check_key(0, "a+b%20\nc\nd", SHOAL_SIZE_UNKNOWN);
	assert_false(page.truncated);
}

#define MD5      "0123456789abcdef00ff10203040506f"
#define OBJ(tag) "<Contents><Key>k</Key>" tag "</Contents>"

/* "" where none is kept. */
static void check_etag(size_t i, const char *want)
{
	char text[SHOAL_ETAG_MAX + 1];

	etag_print(&page.etags[i], text);
	assert_string_equal(text, want);
}

static void etags_are_read_where_they_are_wanted(void **state)
{
	static const char text[] =
		HEAD LAST OBJ("<ETag>&quot;" MD5 "&quot;</ETag>") OBJ("<ETag>\"" MD5 "-7\"</ETag>")
			OBJ("<ETag>" MD5 "</ETag>") OBJ("<ETag> &#34;" MD5 "-7&#x22;\n</ETag>")
				OBJ("<ETag><![CDATA[\"" MD5 "\"]]></ETag>") OBJ("<ETag/>") OBJ("")
					OBJ("<ETag>&quot;odd&quot;</ETag>")
						OBJ("<Owner><ETag>" MD5 "</ETag></Owner>") TAIL;
	static const char *const want[] = { "\"" MD5 "\"",
					    "\"" MD5 "-7\"",
					    "\"" MD5 "\"",
					    "\"" MD5 "-7\"",
					    "\"" MD5 "\"",
					    "",
					    "",
					    "",
					    "" };
	static struct etag etags[S3_PAGE_KEYS];

	(void)state;
	for (size_t step = 1; step <= sizeof(text); step++) {
		page.etags = etags;
		memset(etags, 0, sizeof(etags));
		assert_int_equal(read_page(text, sizeof(text) - 1, step, NULL), 0);
		assert_int_equal(page.nr, ARRAY_LEN(want));
		for (size_t i = 0; i < page.nr; i++)
			check_etag(i, want[i]);
		page.etags = NULL; /* and not looked at where they are not */
		assert_int_equal(read_page(text, sizeof(text) - 1, step, NULL), 0);
		assert_int_equal(page.nr, ARRAY_LEN(want));
	}
}

static void an_object_with_two_etags_is_wrong(void **state)
{
	static const char *const row[] = {
		HEAD LAST OBJ("<ETag>" MD5 "</ETag><ETag>" MD5 "</ETag>") TAIL,
		HEAD LAST OBJ("<ETag/><ETag>" MD5 "</ETag>") TAIL,
		HEAD LAST OBJ("<ETag>" MD5 "</ETag><ETag/>") TAIL,
	};
	static struct etag etags[S3_PAGE_KEYS];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_err err = { "" };

		page.etags = etags;
		assert_int_equal(read_page(row[i], strlen(row[i]), 1000, &err), -EBADMSG);
		assert_non_null(strstr(err.msg, "two ETags"));
		page.etags = NULL;
		assert_int_equal(read_page(row[i], strlen(row[i]), 1000, &err), 0);
	}
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *text;
		int rc;
		const char *says;
	} row[] = {
		{ "", -EBADMSG, "truncated" },
		{ "x", -EBADMSG, "truncated" },
		{ "text", -EBADMSG, "not XML" },
		{ "<html></html>", -EBADMSG, "neither a list nor an error" },
		{ HEAD TAIL, -EBADMSG, "no IsTruncated" },
		{ HEAD LAST, -EBADMSG, "truncated" },
		{ HEAD LAST TAIL "<a/>", -EBADMSG, "after its end" },
		{ HEAD LAST TAIL "x", -EBADMSG, "not XML" },
		{ HEAD LAST "</ListBucket>", -EBADMSG, "mismatched end tag" },
		{ HEAD "<!DOCTYPE a>" LAST TAIL, -EBADMSG, "document type" },
		{ HEAD "<!ENTITY a 'b'>" LAST TAIL, -EBADMSG, "document type" },
		{ "<?xml version='1.0' encoding='UTF-16'?>" LAST TAIL, -EBADMSG, "UTF-8" },
		{ HEAD "<IsTruncated>maybe</IsTruncated>" TAIL, -EBADMSG, "neither true nor" },
		{ HEAD LAST "<Contents><Size>1</Size></Contents>" TAIL, -EBADMSG, "without a key" },
		{ HEAD LAST "<Contents><Key></Key></Contents>" TAIL, -EBADMSG, "without a key" },
		{ HEAD LAST "<Contents><Key>a</Key><Key>b</Key></Contents>" TAIL, -EBADMSG,
		  "two keys" },
		{ HEAD LAST "<Contents><Key>a</Key><Size>-1</Size></Contents>" TAIL, -EBADMSG,
		  "malformed size" },
		{ HEAD LAST
		  "<Contents><Key>a</Key><Size>18446744073709551615</Size></Contents>" TAIL,
		  -EBADMSG, "malformed size" },
		{ HEAD LAST "<Contents><Key>a<b/></Key></Contents>" TAIL, -EBADMSG, "inside text" },
		{ HEAD LAST "<Contents><Key>&a;</Key></Contents>" TAIL, -EBADMSG,
		  "undefined reference" },
		{ HEAD LAST "<Contents><Key>&#0;</Key></Contents>" TAIL, -EBADMSG,
		  "undefined reference" },
		{ HEAD LAST "<Contents><Key>&#x110000;</Key></Contents>" TAIL, -EBADMSG,
		  "undefined reference" },
		{ HEAD LAST "<Contents><Key>& </Key></Contents>" TAIL, -EBADMSG,
		  "unterminated reference" },
		{ HEAD LAST URL "<Contents><Key>%</Key></Contents>" TAIL, -EBADMSG,
		  "malformed encoding" },
		{ HEAD LAST URL "<Contents><Key>a%4</Key></Contents>" TAIL, -EBADMSG,
		  "malformed encoding" },
		{ HEAD LAST URL "<Contents><Key>%4g</Key></Contents>" TAIL, -EBADMSG,
		  "malformed encoding" },
		{ HEAD "<a><a><a><a><a><a><a><a><a><a><a><a>", -E2BIG, "too deep" },
		{ "<Error><Code> SlowDown</Code><Message>no &lt;so fast&gt;</Message></Error>",
		  -EIO, "reported SlowDown: no <so fast>" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		for (size_t step = 1; step < 70; step += 23) {
			struct shoal_err err = { "" };

			assert_int_equal(read_page(row[i].text, strlen(row[i].text), step, &err),
					 row[i].rc);
			if (!strstr(err.msg, row[i].says))
				fail_msg("'%s' is not said, but '%s'", row[i].says, err.msg);
		}
}

static void no_truncation_is_taken_for_a_page(void **state)
{
	static const char text[] = HEAD LAST "<Contents><Key>a</Key><Size>1</Size></Contents>" TAIL;

	(void)state;
	for (size_t len = 0; len < sizeof(text) - 1; len++)
		assert_int_equal(read_page(text, len, 11, NULL), -EBADMSG);
}

/* A page of @nr keys of @len bytes each, in memory of its own. */
static char *make_page(size_t nr, size_t len, size_t *ret_len)
{
	char *text = malloc(nr * (len + 64) + 256), *p = text;

	assert_non_null(text);
	p += sprintf(p, "%s", HEAD LAST);
	for (size_t i = 0; i < nr; i++) {
		p += sprintf(p, "<Contents><Key>");
		memset(p, 'k', len);
		p += len;
		p += sprintf(p, "</Key><Size>%zu</Size></Contents>", i);
	}
	p += sprintf(p, "%s", TAIL);
	*ret_len = (size_t)(p - text);
	return text;
}

static void there_is_an_end_to_what_is_taken(void **state)
{
	static const struct {
		size_t nr, len;
		int rc;
	} row[] = {
		{ S3_PAGE_KEYS, 4, 0 },
		{ S3_PAGE_KEYS + 1, 4, -E2BIG },
		{ 1, 3 * SHOAL_NAME_MAX, 0 },
		{ 1, 3 * SHOAL_NAME_MAX + 1, -E2BIG },
		{ S3_PAGE_KEYS, 3 * SHOAL_NAME_MAX, 0 },
		{ 1, S3_PAGE_PIECE + 9, -E2BIG },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		size_t len;
		char *text = make_page(row[i].nr, row[i].len, &len);

		assert_int_equal(read_page(text, len, 4096, NULL), row[i].rc);
		free(text);
	}
}

static void a_page_that_never_ends_does(void **state)
{
	char *text = malloc(1 << 20);
	int rc = 0;
	unsigned nr = 0;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < 1 << 20; i += 16)
		memcpy(text + i, "<a>1234567890</a", 16); /* in pieces: "</a" and "<a>" meet */
	for (size_t i = 15; i < 1 << 20; i += 16)
		text[i] = '>', text[i - 1] = 'a', text[i - 2] = '/', text[i - 3] = '<';
	s3_page_start(&page);
	rc = s3_page_feed(&page, HEAD, strlen(HEAD));
	while (rc == 0 && nr++ < 64)
		rc = s3_page_feed(&page, text, 1 << 20);
	assert_int_equal(rc, -E2BIG);
	assert_int_equal(page_end(&page, NULL), -E2BIG);
	free(text);
}

static int release(void **state)
{
	(void)state;
	s3_page_release(&page);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_are_the_same_in_pieces_of_any_size),
		cmocka_unit_test(keys_that_are_not_encoded_stay_as_they_are),
		cmocka_unit_test(etags_are_read_where_they_are_wanted),
		cmocka_unit_test(an_object_with_two_etags_is_wrong),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(no_truncation_is_taken_for_a_page),
		cmocka_unit_test(there_is_an_end_to_what_is_taken),
		cmocka_unit_test(a_page_that_never_ends_does),
	};

	return cmocka_run_group_tests(tests, NULL, release);
}
