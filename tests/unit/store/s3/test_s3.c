/* Goal: signatures are AWS' own, and no file, variable or answer makes a parser leave its buffer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/s3/config.h"
#include "store/s3/sign.h"
#include "store/s3/xml.h"

/* ---- Signatures ---- */

#define DAY  "20130524T000000Z"
#define HOST "examplebucket.s3.amazonaws.com"

static struct s3_signer example(void)
{
	return (struct s3_signer){ .access_key = "AKIAIOSFODNN7EXAMPLE",
				   .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
				   .region = "us-east-1" };
}

static void check_signature(const struct s3_canonical *c, const char *want)
{
	struct s3_signer s = example();
	char got[S3_AUTHORIZATION], again[S3_AUTHORIZATION];

	s3_sign(&s, c, got);
	assert_string_equal(got, want);
	s3_sign(&s, c, again); /* with the day's key kept */
	assert_string_equal(again, want);
}

/* The four examples of "Signature Calculations for the Authorization Header" in AWS' manual. */
static void a_get_is_signed_as_in_the_manual(void **state)
{
	const struct s3_header headers[] = { { "host", HOST },
					     { "range", "bytes=0-9" },
					     { "x-amz-content-sha256", S3_EMPTY_SHA256 },
					     { "x-amz-date", DAY } };
	const struct s3_canonical c = { "GET", "/test.txt", "", headers, 4, S3_EMPTY_SHA256, DAY };

	(void)state;
	check_signature(
		&c, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
		    "aws4_request,SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
		    "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void a_put_is_signed_as_in_the_manual(void **state)
{
	char hash[S3_SHA256_HEX], path[64] = "/";
	const struct s3_header headers[] = { { "date", "Fri, 24 May 2013 00:00:00 GMT" },
					     { "host", HOST },
					     { "x-amz-content-sha256", hash },
					     { "x-amz-date", DAY },
					     { "x-amz-storage-class", "REDUCED_REDUNDANCY" } };
	const struct s3_canonical c = { "PUT", path, "", headers, 5, hash, DAY };
	size_t n = s3_encode(path + 1, "test$file.text", strlen("test$file.text"), true);

	(void)state;
	path[1 + n] = '\0';
	s3_sha256_hex("Welcome to Amazon S3.", strlen("Welcome to Amazon S3."), hash);
	assert_string_equal(hash,
			    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
	check_signature(
		&c, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
		    "aws4_request,SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;"
		    "x-amz-storage-class,"
		    "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static void queries_are_signed_as_in_the_manual(void **state)
{
	const struct s3_header headers[] = { { "host", HOST },
					     { "x-amz-content-sha256", S3_EMPTY_SHA256 },
					     { "x-amz-date", DAY } };
	struct s3_canonical c = { "GET", "/", "lifecycle=", headers, 3, S3_EMPTY_SHA256, DAY };

	(void)state;
	check_signature(
		&c, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
		    "aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date,"
		    "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
	c.query = "max-keys=2&prefix=J";
	check_signature(
		&c, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
		    "aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date,"
		    "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void the_kept_key_is_of_one_day_and_region(void **state)
{
	const struct s3_header headers[] = { { "host", HOST } };
	struct s3_canonical c = { "GET", "/", "", headers, 1, S3_EMPTY_SHA256, DAY };
	struct s3_signer s = example(), other = example();
	char kept[S3_AUTHORIZATION], fresh[S3_AUTHORIZATION];

	(void)state;
	s3_sign(&s, &c, kept);
	c.date = "20130525T000000Z";
	s3_sign(&s, &c, kept);
	s3_sign(&other, &c, fresh);
	assert_string_equal(kept, fresh);
	s.region = other.region = "eu-west-1";
	s3_signer_forget(&s);
	s3_signer_forget(&other);
	s3_sign(&s, &c, kept);
	s3_sign(&other, &c, fresh);
	assert_string_equal(kept, fresh);
	assert_non_null(strstr(kept, "/20130525/eu-west-1/"));
}

static void a_long_secret_is_hashed_first(void **state)
{
	/* 65 bytes with "AWS4" in front: one more than a block of the hash. */
	char secret[62];
	struct s3_signer s = example();
	const struct s3_header headers[] = { { "host", HOST } };
	const struct s3_canonical c = { "GET", "/", "", headers, 1, S3_EMPTY_SHA256, DAY };
	char got[S3_AUTHORIZATION];

	(void)state;
	memset(secret, 'k', 61);
	secret[61] = '\0';
	s.secret_key = secret;
	s3_sign(&s, &c, got);
	/* By Python's hmac. */
	assert_non_null(strstr(
		got, "Signature=cac8d8307586c78fc9d57750548f0408530834ea42ee624b73b7f0b178c45da1"));
}

static void secrets_are_masked_wherever_they_stand(void **state)
{
	static const struct {
		const char *secret, *text, *want;
	} row[] = {
		{ "s3cret", "a s3cret and s3crets3cret", "a ****** and ************" },
		{ "s3cret", "its start is cut: s3cr", "its start is cut: ****" },
		{ "s3cret", "but not s3c", "but not s3c" },
		{ "****", "has **** and ******* stars", "has **** and ******* stars" },
		{ "", "nothing", "nothing" },
		{ NULL, "nothing", "nothing" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const struct s3_config c = { .secret_key = (char *)(uintptr_t)row[i].secret };
		char text[100];

		snprintf(text, sizeof(text), "%s", row[i].text);
		s3_mask(&c, text);
		assert_string_equal(text, row[i].want);
	}
}

static void all_but_plain_characters_are_spelt_out(void **state)
{
	static const struct {
		const char *text, *plain, *slashed;
	} row[] = {
		{ "", "", "" },
		{ "azAZ09-._~", "azAZ09-._~", "azAZ09-._~" },
		{ "a/b", "a%2Fb", "a/b" },
		{ " +%&=?#", "%20%2B%25%26%3D%3F%23", "%20%2B%25%26%3D%3F%23" },
		{ "\xc3\xbc\x01\x7f\xff", "%C3%BC%01%7F%FF", "%C3%BC%01%7F%FF" },
		{ "@[`{/:", "%40%5B%60%7B%2F%3A", "%40%5B%60%7B/%3A" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		size_t len = strlen(row[i].text);
		char *out = malloc(3 * len + 1);

		out[s3_encode(out, row[i].text, len, false)] = '\0';
		assert_string_equal(out, row[i].plain);
		out[s3_encode(out, row[i].text, len, true)] = '\0';
		assert_string_equal(out, row[i].slashed);
		free(out);
	}
}

static void dates_are_of_greenwich(void **state)
{
	char date[S3_DATE_MAX];

	(void)state;
	s3_date(1369353600, date);
	assert_string_equal(date, DAY);
}

/* ---- Files of settings ---- */

struct settings {
	char text[512];
	int stop_at;
};

static int note(void *self, const char *key, const char *value)
{
	struct settings *s = self;
	size_t len = strlen(s->text);

	snprintf(s->text + len, sizeof(s->text) - len, "%s=%s|", key, value);
	return s->stop_at && --s->stop_at == 0 ? -7 : 0;
}

static void check_ini(const char *text, const char *section, int rc, const char *want)
{
	size_t len = strlen(text);
	char *exact = malloc(len ? len : 1); /* so that ASan sees a byte too many */
	struct settings s = { .stop_at = 0 };

	memcpy(exact, text, len);
	assert_int_equal(s3_ini_section(exact, len, section, note, &s), rc);
	assert_string_equal(s.text, want);
	free(exact);
}

static void settings_are_found_in_their_section(void **state)
{
	static const char file[] =
		"outside = 1\n[default]\n a=1\nb = 2 \n# c = 3\n; d = 4\n"
		"[profile  x y]\r\ntoken = a#b;c==\nplain = v # of it\ns3 =\n"
		"  style = path\n\tother=2\nafter = 3\n  stray = 4\n[empty]\n[default]\nb=5\n"
		"novalue\n= nokey\nlast=6";

	(void)state;
	check_ini(file, "default", 1, "a=1|b=2|b=5|=nokey|last=6|");
	check_ini(file, "profile x y", 1,
		  "token=a#b;c==|plain=v|s3.style=path|s3.other=2|after=3|stray=4|");
	check_ini(file, "empty", 1, "");
	check_ini(file, "profile x", 0, "");
	check_ini(file, "profile x y z", 0, "");
	check_ini(file, "", 0, "");
	check_ini("", "default", 0, "");
	check_ini("[default", "default", 0, "");
	check_ini("[ default ]\na=1", "default", 1, "a=1|");
	check_ini("[profile \"q\"]\na=1", "profile q", 1, "a=1|");
	check_ini("[default]\na=1\n[", "default", 1, "a=1|");
}

static void a_reader_may_stop(void **state)
{
	struct settings s = { .stop_at = 2 };

	(void)state;
	assert_int_equal(s3_ini_section("[a]\nx=1\ny=2\nz=3\n", 16, "a", note, &s), -7);
	assert_string_equal(s.text, "x=1|y=2|");
}

static void a_value_that_is_too_long_is_left_out(void **state)
{
	size_t len = 20000;
	char *text = malloc(len);
	struct settings s = { .stop_at = 0 };

	(void)state;
	memset(text, 'v', len);
	memcpy(text, "[a]\nx=", 6);
	memcpy(text + len - 5, "\ny=1\n", 5);
	assert_int_equal(s3_ini_section(text, len, "a", note, &s), 1);
	assert_string_equal(s.text, "y=1|");
	free(text);
}

/* ---- Words in XML ---- */

static void words_are_found_in_xml(void **state)
{
	static const char plain[] =
		"<?xml version='1.0'?>\n<Error xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
		"<Deep><Code>not this</Code></Deep><Code> NoSuchKey\n</Code><Code>second</Code>"
		"<Message>a &amp; <![CDATA[<b>]]> &#x63;</Message></Error>";
	char code[16], message[8], region[16];
	struct s3_xml_field f[] = { { "Error/Code", code, sizeof(code), false, false },
				    { "Error/Message", message, sizeof(message), false, false },
				    { "Error/Region", region, sizeof(region), true, true } };

	(void)state;
	assert_int_equal(s3_xml_find(plain, strlen(plain), f, 3), 0);
	assert_true(f[0].found && f[1].found && !f[2].found);
	assert_true(!f[0].cut && f[1].cut && !f[2].cut);
	assert_string_equal(code, "NoSuchKey");
	assert_string_equal(message, "a & <b>"); /* cut at its 7 bytes */
	assert_string_equal(region, "");
}

static void xml_that_is_none_is_refused(void **state)
{
	static const char *const bad[] = { "",
					   "x",
					   "<Error>",
					   "<Error><Code>a</Code>",
					   "<!DOCTYPE Error><Error><Code>a</Code></Error>",
					   "<Error><Code>&unknown;</Code></Error>",
					   "<Error><Code>\xff</Code></Error>" };
	char code[16];
	struct s3_xml_field f = { "Error/Code", code, sizeof(code), false, false };
	char deep[3 * 101 + 4 * 101 + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(s3_xml_find(bad[i], strlen(bad[i]), &f, 1), -EBADMSG);
	for (unsigned levels = 100; levels <= 101; levels++) {
		for (unsigned i = 0; i < levels; i++) {
			memcpy(deep + 3 * i, "<a>", 3);
			memcpy(deep + 3 * levels + 4 * i, "</a>", 4);
		}
		assert_int_equal(s3_xml_find(deep, 7 * levels, &f, 1),
				 levels == 100 ? 0 : -EBADMSG);
	}
}

/* ---- Settings ---- */

static void clear_environment(void)
{
	static const char *const names[] = { "AWS_ACCESS_KEY_ID",
					     "AWS_SECRET_ACCESS_KEY",
					     "AWS_SESSION_TOKEN",
					     "AWS_PROFILE",
					     "AWS_ENDPOINT_URL",
					     "AWS_ENDPOINT_URL_S3",
					     "AWS_REGION",
					     "AWS_DEFAULT_REGION",
					     "AWS_CA_BUNDLE",
					     "AWS_MAX_ATTEMPTS",
					     "SHOAL_S3_ANONYMOUS",
					     "SHOAL_S3_STYLE",
					     "HOME" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		unsetenv(names[i]);
	setenv("SHOAL_S3_ANONYMOUS", "1", 1);
}

static void check_host(const char *bucket, const char *host, bool in_host)
{
	struct s3_config *c = NULL;
	struct shoal_err err = { "" };

	assert_int_equal(s3_config_new(bucket, NULL, &c, &err), 0);
	assert_string_equal(c->endpoint[0].host, host);
	assert_int_equal(c->endpoint[0].bucket_in_host, in_host);
	s3_config_free(c);
}

static void the_host_follows_bucket_region_and_style(void **state)
{
	(void)state;
	clear_environment();
	check_host("photos", "photos.s3.us-east-1.amazonaws.com", true);
	check_host("photos.example", "s3.us-east-1.amazonaws.com", false); /* no certificate fits */
	check_host("Photos", "s3.us-east-1.amazonaws.com", false);
	check_host("ab", "s3.us-east-1.amazonaws.com", false);
	setenv("AWS_DEFAULT_REGION", "cn-north-1", 1);
	check_host("photos", "photos.s3.cn-north-1.amazonaws.com.cn", true);
	setenv("AWS_REGION", "eu-west-1", 1);
	setenv("SHOAL_S3_STYLE", "path", 1);
	check_host("photos", "s3.eu-west-1.amazonaws.com", false);
	unsetenv("SHOAL_S3_STYLE");
	setenv("AWS_ENDPOINT_URL", "http://Other:80/", 1);
	check_host("photos", "other", false);
	setenv("AWS_ENDPOINT_URL_S3", "https://[::1]:9000, https://b:443", 1);
	check_host("photos", "[::1]:9000", false);
}

static void endpoints_have_a_limit(void **state)
{
	char list[65 * 12 + 1] = "";
	struct s3_config *c = NULL;
	struct shoal_err err = { "" };

	(void)state;
	clear_environment();
	for (unsigned i = 0; i < 64; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "http://h%02u,", i);
	setenv("AWS_ENDPOINT_URL", list, 1);
	assert_int_equal(s3_config_new("b", NULL, &c, &err), 0);
	assert_int_equal(c->nr_endpoints, 64);
	s3_config_free(c);
	snprintf(list + strlen(list), sizeof(list) - strlen(list), "http://h64");
	setenv("AWS_ENDPOINT_URL", list, 1);
	assert_int_equal(s3_config_new("b", NULL, &c, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "64 endpoints"));
}

static void a_port_that_goes_without_saying_is_not_said(void **state)
{
	(void)state;
	assert_int_equal(s3_host_len("a.b:80", 6, false), 3);
	assert_int_equal(s3_host_len("a.b:80", 6, true), 6);
	assert_int_equal(s3_host_len("a.b:443", 7, true), 3);
	assert_int_equal(s3_host_len("a.b:8080", 8, false), 8);
	assert_int_equal(s3_host_len("[::1]:80", 8, false), 5);
	assert_int_equal(s3_host_len("", 0, false), 0);
	assert_int_equal(s3_host_len("a@b", 3, false), 0);
	assert_int_equal(s3_host_len("a b", 3, false), 0);
}

static void what_is_given_comes_before_the_environment(void **state)
{
	const struct shoal_store_config one = { .endpoint = "http://one:9000",
						.region = "eu-west-1",
						.access_key = "AKONE",
						.secret_key = "secret1",
						.max_tries = 2,
						.connect_timeout = 3,
						.timeout = 4,
						.backoff_ms = 5 };
	const struct shoal_store_config other = { .endpoint = "https://other",
						  .bucket_style = "virtual",
						  .anonymous = true };
	struct s3_config *a = NULL, *b = NULL, *c = NULL;
	struct shoal_err err = { "" };

	(void)state;
	clear_environment();
	unsetenv("SHOAL_S3_ANONYMOUS");
	setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret0", 1);
	setenv("AWS_SESSION_TOKEN", "token0", 1);
	setenv("AWS_ENDPOINT_URL_S3", "http://env", 1);
	setenv("AWS_MAX_ATTEMPTS", "7", 1);
	assert_int_equal(s3_config_new("b", &one, &a, &err), 0);
	assert_int_equal(s3_config_new("b", &other, &b, &err), 0);
	assert_int_equal(s3_config_new("b", NULL, &c, &err), 0);
	assert_string_equal(a->endpoint[0].host, "one:9000");
	assert_string_equal(a->region, "eu-west-1");
	assert_string_equal(a->access_key, "AKONE");
	assert_string_equal(a->secret_key, "secret1");
	assert_null(a->session_token); /* of other keys */
	assert_int_equal(a->max_tries, 2);
	assert_int_equal(a->connect_ms, 3000);
	assert_int_equal(a->idle_ms, 4000);
	assert_int_equal(a->backoff_ms, 5);
	assert_string_equal(b->endpoint[0].host, "b.other");
	assert_true(b->anonymous && !b->secret_key);
	assert_string_equal(c->endpoint[0].host, "env");
	assert_string_equal(c->access_key, "AKENV");
	assert_string_equal(c->session_token, "token0");
	assert_int_equal(c->max_tries, 7);
	s3_config_free(a);
	s3_config_free(b);
	s3_config_free(c);
	clear_environment();
}

static void what_is_given_is_checked_without_showing_secrets(void **state)
{
	static const struct {
		struct shoal_store_config given;
		int rc;
		const char *words;
	} row[] = {
		{ { .access_key = "AK" },
		  -ENOKEY,
		  "an access key is given, and the secret key is not" },
		{ { .secret_key = "hush" }, -ENOKEY, "a secret key is given, and the access key" },
		{ { .session_token = "hush" }, -ENOKEY, "without its keys" },
		{ { .endpoint = "" }, -EINVAL, "contains no endpoint" },
		{ { .endpoint = "ftp://h" }, -EINVAL, "is not an endpoint" },
		{ { .region = "a b" }, -EINVAL, "is not a region" },
		{ { .bucket_style = "odd" }, -EINVAL, "address a bucket" },
		{ { .max_tries = 101 }, -EINVAL, "max_tries must be 1 to 100, not 101" },
		{ { .timeout = 3601 }, -EINVAL, "timeout must be 1 to 3600" },
		{ { .backoff_ms = 60001 }, -EINVAL, "backoff_ms must be 1 to 60000" },
		{ { .access_key = "AK", .secret_key = "hush", .max_tries = 100 }, 0, "" },
	};

	(void)state;
	clear_environment();
	setenv("AWS_MAX_ATTEMPTS", "none", 1); /* is not looked at */
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct shoal_err err = { "" };

		assert_int_equal(shoal_store_config_check(&row[i].given, &err), row[i].rc);
		assert_non_null(strstr(err.msg, row[i].words));
		assert_null(strstr(err.msg, "hush"));
	}
}

static void a_profile_that_is_given_goes_before_keys_in_variables(void **state)
{
	const struct shoal_store_config given = { .profile = "lab" }, none = { .profile = "no" };
	char path[] = "/tmp/test_s3.XXXXXX";
	struct s3_config *c = NULL;
	struct shoal_err err = { "" };
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_true(dprintf(fd, "[lab]\naws_access_key_id = AKLAB\naws_secret_access_key = s\n") >
		    0);
	close(fd);
	clear_environment();
	unsetenv("SHOAL_S3_ANONYMOUS");
	setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
	setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret0", 1);
	assert_int_equal(s3_config_new("b", &given, &c, &err), 0);
	assert_string_equal(c->access_key, "AKLAB");
	s3_config_free(c);
	assert_int_equal(s3_config_new("b", &none, &c, &err), -ENOKEY);
	assert_non_null(strstr(err.msg, "there is no profile 'no'"));
	unlink(path);
	clear_environment();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_get_is_signed_as_in_the_manual),
		cmocka_unit_test(a_put_is_signed_as_in_the_manual),
		cmocka_unit_test(queries_are_signed_as_in_the_manual),
		cmocka_unit_test(the_kept_key_is_of_one_day_and_region),
		cmocka_unit_test(a_long_secret_is_hashed_first),
		cmocka_unit_test(secrets_are_masked_wherever_they_stand),
		cmocka_unit_test(all_but_plain_characters_are_spelt_out),
		cmocka_unit_test(dates_are_of_greenwich),
		cmocka_unit_test(settings_are_found_in_their_section),
		cmocka_unit_test(a_reader_may_stop),
		cmocka_unit_test(a_value_that_is_too_long_is_left_out),
		cmocka_unit_test(words_are_found_in_xml),
		cmocka_unit_test(xml_that_is_none_is_refused),
		cmocka_unit_test(the_host_follows_bucket_region_and_style),
		cmocka_unit_test(endpoints_have_a_limit),
		cmocka_unit_test(what_is_given_comes_before_the_environment),
		cmocka_unit_test(what_is_given_is_checked_without_showing_secrets),
		cmocka_unit_test(a_profile_that_is_given_goes_before_keys_in_variables),
		cmocka_unit_test(a_port_that_goes_without_saying_is_not_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
