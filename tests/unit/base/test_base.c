/* Goal: the small tools that everything stands on do what their headers say, at their limits too.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/buf.h"
#include "base/cores.h"
#include "base/name.h"
#include "base/publish.h"
#include "base/queue.h"
#include "base/span.h"
#include "base/text.h"
#include "help.h"

/* ---- buf ---- */

static void a_buffer_grows_to_its_limit_and_keeps_its_error(void **state)
{
	struct buf b = { .max = 1000 };

	(void)state;
	for (int i = 0; i < 1000; i++)
		buf_u8(&b, (uint8_t)i);
	assert_int_equal(b.len, 1000);
	assert_int_equal(b.rc, 0);
	buf_u8(&b, 1);
	assert_int_equal(b.rc, -EAGAIN);
	assert_int_equal(b.len, 1000);
	buf_append(&b, "", 0); /* would fit, but the error stays */
	assert_null(buf_reserve(&b, 0));
	for (int i = 0; i < 1000; i++)
		assert_int_equal(b.data[i], (uint8_t)i);
	buf_clear(&b);
	assert_int_equal(b.rc, 0);
	buf_append(&b, "abc", 3);
	assert_memory_equal(b.data, "abc", 3);
	buf_release(&b);
	assert_null(b.data);
	assert_int_equal(b.max, 1000);
	assert_non_null(buf_reserve(&b, 1000));
	buf_release(&b);
	assert_null(buf_reserve(&b, 1001));
	assert_int_equal(b.rc, -EAGAIN);
}

/* ---- bits ---- */

static void a_field_of_bits_comes_back_from_any_place_at_any_width(void **state)
{
	(void)state;
	for (unsigned width = 0; width <= 64; width++)
		for (unsigned off = 0; off < 70; off++) {
			uint8_t *exact, bytes[40] = { 0 };
			uint64_t v = random_u64();
			size_t len = (off + width + 7) / 8;

			bits_put(bytes, off, width, v);
			exact = allocate(len, 1); /* ASan sees a read past its end */
			memcpy(exact, bytes, len);
			assert_int_equal(bits_get(exact, len, off, width), v & bits_mask(width));
			for (unsigned bit = 0; bit < 8 * sizeof(bytes); bit++) {
				uint64_t want =
					bit >= off && bit < off + width ? v >> (bit - off) & 1 : 0;

				assert_int_equal(bytes[bit / 8] >> bit % 8 & 1, want);
			}
			free(exact);
		}
}

static void bits_past_the_end_are_zero(void **state)
{
	uint8_t *bytes = allocate(3, 1);

	(void)state;
	memset(bytes, 0xff, 3);
	assert_int_equal(bits_word(bytes, 3, 0), 0xffffff);
	assert_int_equal(bits_word(bytes, 3, 2), 0xff);
	assert_int_equal(bits_word(bytes, 3, 3), 0);
	assert_int_equal(bits_word(bytes, 3, 100), 0);
	assert_int_equal(bits_get(bytes, 3, 20, 64), 0xf);
	assert_int_equal(bits_get(bytes, 3, 24, 1), 0);
	free(bytes);
}

static void the_length_of_a_number_in_bits_is_exact(void **state)
{
	(void)state;
	assert_int_equal(bit_len(0), 0);
	for (unsigned bits = 1; bits <= 64; bits++) {
		assert_int_equal(bit_len(bits_mask(bits)), bits);
		assert_int_equal(bit_len(UINT64_C(1) << (bits - 1)), bits);
	}
	assert_int_equal(bits_mask(0), 0);
	assert_int_equal(bits_mask(63), INT64_MAX);
	assert_int_equal(bits_mask(64), UINT64_MAX);
	assert_int_equal(bits_mask(65), UINT64_MAX);
}

static void each_set_bit_of_a_word_is_selected(void **state)
{
	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t w = random_u64();
		unsigned r = 0;

		switch (i % 5) {
		case 0:
			w &= random_u64() & random_u64();
			break;
		case 1:
			w |= random_u64() | random_u64();
			break;
		case 2:
			w = UINT64_C(1) << i % 64;
			break;
		case 3:
			w = UINT64_MAX << i % 64;
			break;
		default:
			break;
		}
		for (unsigned bit = 0; bit < 64; bit++)
			if (w >> bit & 1)
				assert_int_equal(select_word(w, r++), bit);
	}
}

/* ---- span ---- */

static void varints_come_back_and_are_cut_nowhere(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits <= 64; bits++)
		for (int less = 0; less < 2; less++) {
			uint64_t v = bits_mask(bits) - (less && bits ? 1 : 0);
			uint8_t room[10], *exact;
			size_t len = (size_t)(varint_put(room, v) - room);

			assert_int_equal(len, v < 128 ? 1 : (bit_len(v) + 6) / 7);
			for (size_t cut = 0; cut <= len; cut++) {
				struct span s;

				exact = allocate(cut, 1);
				memcpy(exact, room, cut);
				s = (struct span){ .p = exact, .end = exact + cut };
				if (span_varint(&s) != v)
					assert_true(cut < len);
				assert_int_equal(s.bad, cut < len);
				free(exact);
			}
		}
}

static void varints_of_more_than_64_bits_are_bad(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool bad;
		uint64_t want;
	} row[] = {
		{ "\x00", 1, false, 0 },
		{ "\x80\x00", 2, false, 0 }, /* need not be the shortest */
		{ "\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00", 10, false, 1 },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, false, UINT64_MAX },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, true, 0 },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81", 10, true, 0 },
		{ "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, true, 0 },
		{ "", 0, true, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const uint8_t *p = (const uint8_t *)row[i].bytes;
		struct span s = { .p = p, .end = p + row[i].len };

		assert_int_equal(span_varint(&s), row[i].want);
		assert_int_equal(s.bad, row[i].bad);
	}
}

static void zigzag_keeps_the_sign_to_the_limits(void **state)
{
	static const struct {
		int64_t v;
		uint64_t coded;
	} row[] = {
		{ 0, 0 },
		{ -1, 1 },
		{ 1, 2 },
		{ -2, 3 },
		{ INT64_MAX, UINT64_MAX - 1 },
		{ INT64_MIN, UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint8_t room[10];
		struct span s = { .p = room };

		assert_int_equal(zigzag_encode(row[i].v), row[i].coded);
		s.end = varint_put(room, row[i].coded);
		assert_int_equal(span_zigzag(&s), row[i].v);
	}
}

static void a_span_is_never_left(void **state)
{
	uint8_t bytes[4] = { 1, 2, 3, 4 };
	struct span s = { .p = bytes, .end = bytes + 4 };

	(void)state;
	assert_ptr_equal(span_bytes(&s, 3), bytes);
	assert_int_equal(span_left(&s), 1);
	assert_false(s.bad);
	assert_ptr_equal(span_bytes(&s, 2), s.end);
	assert_true(s.bad);
	assert_int_equal(span_left(&s), 0);
	s = (struct span){ .p = bytes, .end = bytes + 4 };
	assert_ptr_equal(span_bytes(&s, UINT64_MAX), s.end);
	assert_true(s.bad);
	assert_int_equal(span_u8(&s), 0);
}

/* ---- text ---- */

static void numbers_are_read_to_their_limits(void **state)
{
	static const struct {
		const char *text;
		int want;
		uint64_t value;
	} row[] = {
		{ "0", 0, 0 },
		{ "007", 0, 7 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "99999999999999999999", -ERANGE, 0 },
		{ "184467440737095516150", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "1x", -EINVAL, 0 },
		{ "0x1", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint64_t v = 12345;

		assert_int_equal(parse_u64(row[i].text, &v), row[i].want);
		assert_int_equal(v, row[i].want == 0 ? row[i].value : 12345);
	}
}

static void sizes_are_read_with_their_units(void **state)
{
	static const struct {
		const char *text;
		int want;
		uint64_t value;
	} row[] = {
		{ "0", 0, 0 },
		{ "12", 0, 12 },
		{ "12B", 0, 12 },
		{ "12b", 0, 12 },
		{ "1K", 0, 1024 },
		{ "1k", 0, 1024 },
		{ "1KB", 0, 1000 },
		{ "1KiB", 0, 1024 },
		{ "1kib", 0, 1024 },
		{ "3M", 0, 3 << 20 },
		{ "3MB", 0, 3000000 },
		{ "2GiB", 0, UINT64_C(2) << 30 },
		{ "2GB", 0, UINT64_C(2000000000) },
		{ "1T", 0, UINT64_C(1) << 40 },
		{ "1TB", 0, UINT64_C(1000000000000) },
		{ "16777215T", 0, UINT64_C(16777215) << 40 },
		{ "16777216T", -ERANGE, 0 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551615K", -ERANGE, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "K", -EINVAL, 0 },
		{ "1P", 0, UINT64_C(1) << 50 },
		{ "1PB", 0, UINT64_C(1000000000000000) },
		{ "16383P", 0, UINT64_C(16383) << 50 },
		{ "16384P", -ERANGE, 0 },
		{ "1.5K", 0, 1536 },
		{ "1.5GB", 0, UINT64_C(1500000000) },
		{ "0.25MiB", 0, 256 << 10 },
		{ "0.000001K", 0, 0 },
		{ "16383.999999P", 0, (UINT64_C(16383) << 50) + UINT64_C(1125898780942717) },
		{ "1.5", -EINVAL, 0 },
		{ "1.5B", -EINVAL, 0 },
		{ "1.K", -EINVAL, 0 },
		{ ".5K", -EINVAL, 0 },
		{ "1.5.5K", -EINVAL, 0 },
		{ "1.0000001K", -EINVAL, 0 },
		{ "1E", -EINVAL, 0 },
		{ "1iB", -EINVAL, 0 },
		{ "1Ki", -EINVAL, 0 },
		{ "1KK", -EINVAL, 0 },
		{ "1 K", -EINVAL, 0 },
		{ "-1K", -EINVAL, 0 },
		{ "1\xcb", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint64_t v = 12345;
		int rc = parse_size(row[i].text, &v);

		if (rc != row[i].want || v != (row[i].want == 0 ? row[i].value : 12345))
			fail_msg("'%s': %d, %" PRIu64, row[i].text, rc, v);
	}
}

static void numbers_are_readable(void **state)
{
	static const struct {
		double seconds;
		const char *text;
	} time[] = {
		{ -1, "0 s" },           { 0, "0 s" },
		{ 1e-7, "0.10 us" },     { 42e-6, "42.0 us" },
		{ 999.4e-6, "999 us" },  { 999.6e-6, "1.00 ms" },
		{ 9.994e-3, "9.99 ms" }, { 9.996e-3, "10.0 ms" },
		{ 0.9994, "999 ms" },    { 0.9996, "1.00 s" },
		{ 61.04, "61.0 s" },     { 119.4, "119 s" },
		{ 119.6, "2m 00s" },     { 7199.4, "119m 59s" },
		{ 7200, "2h 00m" },      { 360000, "100h 00m" },
	};
	static const struct {
		uint64_t nr;
		const char *text;
	} count[] = {
		{ 0, "0" },
		{ 999, "999" },
		{ 1000, "1,000" },
		{ 42127518, "42,127,518" },
		{ 100000, "100,000" },
		{ UINT64_MAX, "18,446,744,073,709,551,615" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(time); i++)
		assert_string_equal(time_in_words(time[i].seconds).text, time[i].text);
	for (size_t i = 0; i < ARRAY_LEN(count); i++)
		assert_string_equal(count_in_words(count[i].nr).text, count[i].text);
	assert_string_equal(rate_in_words(0.25).text, "0.25");
	assert_string_equal(rate_in_words(9.99).text, "9.99");
	assert_string_equal(rate_in_words(1234.5).text, "1,235");
	assert_string_equal(rate_in_words(0).text, "0");
	assert_string_equal(rate_in_words(1e30).text, "1e+30");
}

static void times_have_units(void **state)
{
	static const struct {
		const char *text;
		int want;
		uint64_t ms;
	} row[] = {
		{ "1", 0, 1000 },       { "0.5", 0, 500 },     { ".5", 0, 500 },
		{ "30s", 0, 30000 },    { "500ms", 0, 500 },   { "10m", 0, 600000 },
		{ "1.5h", 0, 5400000 }, { "0", 0, 0 },         { "", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },    { "1d", 0, 86400000 }, { "1w", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },   { "1 s", -EINVAL, 0 }, { "99999999999999999h", -ERANGE, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint64_t ms = 12345;
		int rc = parse_milliseconds(row[i].text, &ms);

		if (rc != row[i].want || ms != (row[i].want == 0 ? row[i].ms : 12345))
			fail_msg("'%s': %d, %" PRIu64, row[i].text, rc, ms);
	}
}

static void one_is_not_many(void **state)
{
	(void)state;
	assert_string_equal(plural(0), "s");
	assert_string_equal(plural(1), "");
	assert_string_equal(plural(2), "s");
	assert_string_equal(plural(UINT64_MAX), "s");
}

static void what_was_cut_ends_in_dots_behind_a_whole_character(void **state)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "", "" },
		{ "ab", "ab" }, /* no room for them */
		{ "abc", "..." },
		{ "abcdef", "abc..." },
		{ "st\xc3\xbc", "s..." },
		{ "st\xc3\xbcuv", "st..." }, /* its second byte would be a dot */
		{ "st\xc3\xbcuvw", "st\xc3\xbc..." },
		{ "stuv\xc3", "st..." }, /* half of one */
		{ "s\xf0\x9f\x98\x80u", "s..." },
		{ "\x80\x80\x80\x80", "..." }, /* no UTF-8 at all */
		{ "a\x80\x80\x80\x80\x80\x80\x80\x80\x80", "a\x80\x80\x80..." },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char *text = strdup(row[i].text); /* no byte more */

		text_mark_truncated(text);
		assert_string_equal(text, row[i].want);
		free(text);
	}
}

static void a_path_goes_up_only_by_a_part_of_two_dots(void **state)
{
	static const struct {
		const char *path;
		bool want;
	} row[] = {
		{ "", false },    { ".", false },     { "..", true },     { "../a", true },
		{ "a/..", true }, { "a/../b", true }, { "...", false },   { "a/...", false },
		{ "..a", false }, { "a..", false },   { "a../b", false }, { "a/..b/../c", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		assert_int_equal(path_goes_up(row[i].path, strlen(row[i].path)), row[i].want);
	assert_true(path_goes_up("a/..b", 4)); /* what is behind its end does not count */
	assert_false(path_goes_up("a/..", 3));
	assert_false(path_goes_up(NULL, 0));
}

static void plain_utf8_is_told_from_other_bytes(void **state)
{
	static const struct {
		const char *text;
		bool want;
	} row[] = {
		{ "", true },
		{ "s3://bucket/d\xc3\xa9j\xc3\xa0", true },
		{ "\x7e", true },
		{ "\x7f", false },
		{ "\x1f", false },
		{ "a\nb", false },
		{ "\xc2\x80", true },
		{ "\xdf\xbf", true },
		{ "\xc1\xbf", false }, /* overlong */
		{ "\xc0\x80", false },
		{ "\xe0\x9f\xbf", false },
		{ "\xe0\xa0\x80", true },
		{ "\xed\x9f\xbf", true },
		{ "\xed\xa0\x80", false }, /* surrogates */
		{ "\xed\xbf\xbf", false },
		{ "\xee\x80\x80", true },
		{ "\xef\xbf\xbf", true },
		{ "\xf0\x8f\xbf\xbf", false },
		{ "\xf0\x90\x80\x80", true },
		{ "\xf4\x8f\xbf\xbf", true },
		{ "\xf4\x90\x80\x80", false },
		{ "\xf5\x80\x80\x80", false },
		{ "\xff", false },
		{ "\x80", false },
		{ "\xc3", false }, /* cut short */
		{ "\xe2\x82", false },
		{ "\xf0\x9f\x98", false },
		{ "\xc3(", false },
		{ "\xe2(\xa1", false },
		{ "\xf0\x9f\x98(", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		size_t len = strlen(row[i].text);
		char *exact = allocate(len, 1);

		memcpy(exact, row[i].text, len);
		if (is_plain_utf8(exact, len) != row[i].want)
			fail_msg("row %zu", i);
		free(exact);
	}
	assert_false(is_plain_utf8("a\0b", 3));
}

/* ---- err ---- */

static void words_that_are_too_long_are_cut_and_none_need_be_given(void **state)
{
	struct shoal_err err = { "" };
	char longer[2000];

	(void)state;
	memset(longer, 'w', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(err_set(&err, -EINVAL, "%s", longer), -EINVAL);
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	assert_string_equal(err.msg + sizeof(err.msg) - 5, "w...");
	assert_int_equal(err_set_errno(&err, -ENOENT, "%s", longer), -ENOENT);
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	assert_string_equal(err.msg + sizeof(err.msg) - 5, "w...");
	longer[sizeof(err.msg) - 10] = '\0'; /* room for a part of the system's words */
	assert_int_equal(err_set_errno(&err, -ENOENT, "%s", longer), -ENOENT);
	assert_string_equal(err.msg + sizeof(err.msg) - 11, "w: No s...");
	longer[sizeof(err.msg) - 1] = '\0'; /* and of those that just fit nothing is taken */
	assert_int_equal(err_set(&err, -EINVAL, "%s", longer), -EINVAL);
	assert_string_equal(err.msg, longer);
	assert_int_equal(err_set_errno(&err, -ENOENT, "it"), -ENOENT);
	assert_string_equal(err.msg, "it: No such file or directory");
	assert_int_equal(err_set(NULL, -EIO, "%s", "x"), -EIO);
	assert_int_equal(err_set_errno(NULL, -EIO, "%s", "x"), -EIO);
	assert_int_equal(err_first(-1, -2), -1);
	assert_int_equal(err_first(0, -2), -2);
}

static void a_hint_belongs_to_the_words_it_came_with(void **state)
{
	struct shoal_err err = { "" }, outer = { "" };

	(void)state;
	assert_int_equal(err_set_hint(&err, -EINVAL, SHOAL_HINT_SLOT, "no sizes"), -EINVAL);
	assert_int_equal(err.hint, SHOAL_HINT_SLOT);
	err_hint(&err, SHOAL_HINT_LARGER_SLOT, 7);
	assert_int_equal(err_set_as(&outer, -EFBIG, &err, "sample 1: %s", err.msg), -EFBIG);
	assert_string_equal(outer.msg, "sample 1: no sizes");
	assert_int_equal(outer.hint, SHOAL_HINT_LARGER_SLOT);
	assert_int_equal(outer.hint_value, 7);
	/* Other words have no hint, or their own. */
	err_describe(&err, "other words");
	assert_int_equal(err.hint, SHOAL_HINT_NONE);
	assert_int_equal(err.hint_value, 0);
	err_describe_errno(&outer, -EIO, "other words");
	assert_int_equal(outer.hint, SHOAL_HINT_NONE);
	/* Nobody has to ask for words. */
	assert_int_equal(err_set_hint(NULL, -EINVAL, SHOAL_HINT_SLOT, "no sizes"), -EINVAL);
	assert_int_equal(err_set_as(NULL, -EINVAL, &err, "no sizes"), -EINVAL);
}

static void a_full_disk_suggests_another_directory_for_temporary_files(void **state)
{
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(spill_failed(&err, -ENOSPC, "/tmp"), -ENOSPC);
	assert_non_null(strstr(err.msg, "temporary file in '/tmp'"));
	assert_int_equal(err.hint, SHOAL_HINT_TMP_DIR);
	assert_int_equal(spill_failed(&err, -EDQUOT, NULL), -EDQUOT);
	assert_int_equal(err.hint, SHOAL_HINT_TMP_DIR);
	assert_int_equal(spill_failed(&err, -EIO, NULL), -EIO);
	assert_int_equal(err.hint, SHOAL_HINT_NONE);
}

/* ---- queue ---- */

struct ends {
	struct queue q;
	uint64_t nr;
	uint64_t sum;
};

static void *give_numbers(void *arg)
{
	struct ends *e = arg;

	for (uintptr_t i = 1; i <= e->nr; i++)
		if (!queue_give(&e->q, (void *)i))
			break;
	queue_close(&e->q);
	return NULL;
}

static void a_queue_hands_over_everything_in_order(void **state)
{
	(void)state;
	for (unsigned cap = 1; cap <= QUEUE_MAX; cap += 5) {
		struct ends e = { .nr = 20000 + cap / 2 }; /* also fewer than wake_at at the end */
		pthread_t thread;
		uintptr_t want = 1;
		void *item;

		if (cap % 2)
			queue_init_wake_at(&e.q, cap, (cap + 1) / 2);
		else
			queue_init(&e.q, cap);
		assert_int_equal(thread_start(&thread, give_numbers, &e), 0);
		while ((item = queue_take(&e.q)) != NULL)
			assert_int_equal((uintptr_t)item, want++);
		assert_int_equal(want, e.nr + 1);
		pthread_join(thread, NULL);
		assert_false(queue_give(&e.q, &e));
		queue_release(&e.q);
	}
}

static void *take_one(void *arg)
{
	return queue_take(arg);
}

/* Wait until the other thread of this process sleeps: it waits for the queue then. */
static void wait_until_other_sleeps(void)
{
	for (unsigned naps = 0; naps < 60000; naps++) {
		DIR *d = opendir("/proc/self/task");
		unsigned nr = 0, nr_asleep = 0;

		assert_non_null(d);
		for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
			char path[64], line[256] = "";
			const char *end;
			FILE *f;

			if (e->d_name[0] == '.' || atoi(e->d_name) == getpid())
				continue;
			snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", e->d_name);
			f = fopen(path, "re");
			if (!f)
				continue;
			nr++;
			end = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
			nr_asleep += end && strncmp(end, ") S", 3) == 0;
			fclose(f);
		}
		closedir(d);
		if (nr > 0 && nr_asleep == nr)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	fail_msg("it does not wait");
}

/* Until so many are there, or the queue is closed. */
static void who_waits_for_a_patient_queue_is_left_to_wait(void **state)
{
	(void)state;
	for (unsigned given = 2; given <= 3; given++) {
		struct queue q;
		pthread_t thread;
		struct timespec until;
		void *item = &q;

		queue_init_wake_at(&q, 4, 3);
		assert_int_equal(thread_start(&thread, take_one, &q), 0);
		wait_until_other_sleeps();
		for (unsigned i = 0; i < given; i++)
			assert_true(queue_give(&q, &q));
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += given == 3 ? 60 : 1;
		assert_int_equal(pthread_timedjoin_np(thread, &item, &until),
				 given == 3 ? 0 : ETIMEDOUT);
		queue_close(&q);
		if (given < 3)
			pthread_join(thread, &item);
		assert_ptr_equal(item, &q);
		queue_release(&q);
	}
}

static void *give_two(void *arg)
{
	static int item;
	bool first = queue_give(arg, &item), second = queue_give(arg, &item);

	return first && !second ? &item : NULL;
}

static void closing_wakes_the_taker_and_the_giver(void **state)
{
	struct queue q;
	pthread_t thread;
	void *result;

	(void)state;
	queue_init(&q, 1);
	assert_int_equal(thread_start(&thread, take_one, &q), 0);
	wait_until_others_sleep();
	queue_close(&q);
	pthread_join(thread, &result);
	assert_null(result);
	queue_release(&q);

	queue_init(&q, 1);
	assert_int_equal(thread_start(&thread, give_two, &q), 0);
	wait_until_others_sleep();
	queue_close(&q);
	pthread_join(thread, &result);
	assert_non_null(result);
	assert_non_null(queue_take(&q)); /* what is left is handed out */
	assert_null(queue_take(&q));
	queue_release(&q);
}

static void *signals_blocked(void *arg)
{
	sigset_t *set = arg;

	pthread_sigmask(SIG_SETMASK, NULL, set);
	return NULL;
}

static void signals_are_not_for_our_threads(void **state)
{
	sigset_t theirs, mine;
	pthread_t thread;

	(void)state;
	assert_int_equal(thread_start(&thread, signals_blocked, &theirs), 0);
	pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	assert_true(sigismember(&theirs, SIGINT));
	assert_false(sigismember(&theirs, SIGBUS));
	assert_false(sigismember(&mine, SIGINT));
}

/* In memory of exactly their length, so that the sanitizer sees what lies behind them being read.
 */
static void check_compare(size_t a_len, size_t b_len, size_t at)
{
	size_t min = a_len < b_len ? a_len : b_len;
	uint8_t *a = malloc(a_len), *b = malloc(b_len);
	int want;

	for (size_t i = 0; i < a_len; i++)
		a[i] = (uint8_t)(i * 37 + 5);
	for (size_t i = 0; i < b_len; i++)
		b[i] = (uint8_t)(i == at ? (i * 37 + 5) ^ 0x80 : i * 37 + 5);
	want = min ? memcmp(a, b, min) : 0;
	want = want ? want : (a_len > b_len) - (a_len < b_len);
	assert_int_equal(name_shared(a, a_len, b, b_len), at < min ? at : min);
	assert_int_equal(name_compare(a, a_len, b, b_len), (want > 0) - (want < 0));
	free(a);
	free(b);
}

static void names_are_compared_as_bytes(void **state)
{
	(void)state;
	for (size_t a_len = 0; a_len <= 34; a_len++)
		for (size_t b_len = 0; b_len <= 34; b_len++)
			for (size_t at = 0; at <= 34; at++)
				check_compare(a_len, b_len, at);
}

/* ---- cores ---- */

/* A file below @root, in directories that are made. */
static void put_limit(const char *root, const char *name, const char *text)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)!mkdir(path, 0777);
		*slash = '/';
	}
	file_write(path, text, strlen(text));
}

static void the_least_quota_of_all_groups_around_counts(void **state)
{
	char root[] = "cores-XXXXXX", command[40];

	(void)state;
	assert_non_null(mkdtemp(root));
	assert_int_equal(cores_quota("0::/a/b\n", root), UINT_MAX); /* there is nothing */
	put_limit(root, "a/b/cpu.max", "max 100000\n");
	assert_int_equal(cores_quota("0::/a/b\n", root), UINT_MAX);
	put_limit(root, "a/cpu.max", "150000 100000\n");
	assert_int_equal(cores_quota("0::/a/b\n", root), 2);
	assert_int_equal(cores_quota("0::/c\n", root), UINT_MAX);
	put_limit(root, "a/b/cpu.max", "50000 100000\n");
	assert_int_equal(cores_quota("0::/a/b\n", root), 1);
	put_limit(root, "cpu.max", "20000 100000\n"); /* as a container sees its own group */
	assert_int_equal(cores_quota("0::/elsewhere\n", root), 1);
	put_limit(root, "cpu.max", "not a number\n");
	assert_int_equal(cores_quota("0::/elsewhere\n", root), UINT_MAX);
	/* The older hierarchy. */
	put_limit(root, "cpu/x/cpu.cfs_quota_us", "-1\n");
	put_limit(root, "cpu/x/cpu.cfs_period_us", "100000\n");
	assert_int_equal(cores_quota("4:memory:/x\n3:cpuset,cpu,cpuacct:/x\n0::/\n", root),
			 UINT_MAX);
	put_limit(root, "cpu/x/cpu.cfs_quota_us", "320000\n");
	assert_int_equal(cores_quota("4:memory:/x\n3:cpuset,cpu,cpuacct:/x\n0::/\n", root), 4);
	assert_int_equal(cores_quota("4:memory:/x\n3:cpuset,cpuacct:/x\n", root), UINT_MAX);
	assert_int_equal(cores_quota("no colon\n", root), UINT_MAX);
	assert_in_range(cores_allowed(), 1, cores_available());
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_least_quota_of_all_groups_around_counts),
		cmocka_unit_test(a_buffer_grows_to_its_limit_and_keeps_its_error),
		cmocka_unit_test(a_field_of_bits_comes_back_from_any_place_at_any_width),
		cmocka_unit_test(bits_past_the_end_are_zero),
		cmocka_unit_test(the_length_of_a_number_in_bits_is_exact),
		cmocka_unit_test(each_set_bit_of_a_word_is_selected),
		cmocka_unit_test(varints_come_back_and_are_cut_nowhere),
		cmocka_unit_test(varints_of_more_than_64_bits_are_bad),
		cmocka_unit_test(zigzag_keeps_the_sign_to_the_limits),
		cmocka_unit_test(a_span_is_never_left),
		cmocka_unit_test(numbers_are_read_to_their_limits),
		cmocka_unit_test(sizes_are_read_with_their_units),
		cmocka_unit_test(a_path_goes_up_only_by_a_part_of_two_dots),
		cmocka_unit_test(plain_utf8_is_told_from_other_bytes),
		cmocka_unit_test(numbers_are_readable),
		cmocka_unit_test(times_have_units),
		cmocka_unit_test(one_is_not_many),
		cmocka_unit_test(what_was_cut_ends_in_dots_behind_a_whole_character),
		cmocka_unit_test(words_that_are_too_long_are_cut_and_none_need_be_given),
		cmocka_unit_test(a_hint_belongs_to_the_words_it_came_with),
		cmocka_unit_test(a_full_disk_suggests_another_directory_for_temporary_files),
		cmocka_unit_test(a_queue_hands_over_everything_in_order),
		cmocka_unit_test(who_waits_for_a_patient_queue_is_left_to_wait),
		cmocka_unit_test(closing_wakes_the_taker_and_the_giver),
		cmocka_unit_test(signals_are_not_for_our_threads),
		cmocka_unit_test(names_are_compared_as_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
