#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int parse_digits(const char *text, size_t len, uint64_t *ret_value)
{
	uint64_t v = 0;

	if (len == 0)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v))
			return -ERANGE;
	}
	*ret_value = v;
	return 0;
}

int parse_u64(const char *text, uint64_t *ret_value)
{
	return parse_digits(text, strlen(text), ret_value);
}

/* The factor of a unit such as "K", "KiB" or "kb"; 0: there is no such unit. */
static uint64_t size_factor(const char *unit)
{
	static const char letters[] = "KMGTP";
	const char *letter = strchr(letters, *unit >= 'a' ? *unit - 'a' + 'A' : *unit);
	uint64_t factor = 1;

	if (!*unit || strcasecmp(unit, "B") == 0)
		return 1;
	if (!letter ||
	    (unit[1] && strcasecmp(unit + 1, "iB") != 0 && strcasecmp(unit + 1, "B") != 0))
		return 0;
	for (const char *l = letters; l <= letter; l++)
		factor *= strcasecmp(unit + 1, "B") == 0 ? 1000 : 1024;
	return factor;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	size_t digits = strspn(text, "0123456789"), after = 0;
	const char *point = text + digits, *unit = point;
	uint64_t v, factor, fraction = 0, tens = 1;
	int rc = parse_digits(text, digits, &v);

	if (rc < 0)
		return rc;
	if (*point == '.') {
		after = strspn(point + 1, "0123456789");
		unit = point + 1 + after;
		rc = parse_digits(point + 1, after, &fraction);
	}
	factor = size_factor(unit);
	if (rc == -EINVAL || factor == 0 || (after > 0 && factor == 1) || after > 6)
		return -EINVAL; /* half a byte, or more digits than anyone means */
	for (size_t i = 0; i < after; i++)
		tens *= 10;
	if (__builtin_mul_overflow(v, factor, &v) ||
	    __builtin_add_overflow(v, (uint64_t)((unsigned __int128)fraction * factor / tens), &v))
		return -ERANGE;
	*ret_bytes = v;
	return 0;
}

int parse_milliseconds(const char *text, uint64_t *ret_ms)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = { { "", 1000 },   { "ms", 1 },      { "s", 1000 },
		      { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
	size_t whole = strspn(text, "0123456789");
	const char *rest = text + whole + (text[whole] == '.');
	size_t digits = strspn(rest, "0123456789");
	uint64_t n = 0, part = 0;
	char thousandths[4] = "000";
	int rc = whole ? parse_digits(text, whole, &n) : 0;

	if (whole + digits == 0 || rc < 0)
		return rc < 0 ? rc : -EINVAL;
	memcpy(thousandths, rest, u64_min(digits, 3));
	if (parse_u64(thousandths, &part) < 0 || n > UINT64_MAX / 86400000 - 1)
		return -ERANGE;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (strcmp(rest + digits, units[i].name) == 0) {
			*ret_ms = n * units[i].ms + part * units[i].ms / 1000;
			return 0;
		}
	return -EINVAL;
}

struct number_words size_in_words(uint64_t bytes)
{
	static const char *const units[] = { "KB", "MB", "GB", "TB", "PB", "EB" };
	struct number_words w;
	double v = (double)bytes / 1000;
	size_t i = 0;

	if (bytes < 10000) {
		snprintf(w.text, sizeof(w.text), "%u byte%s", (unsigned)bytes, plural(bytes));
		return w;
	}
	for (; v >= 999.5 && i + 1 < ARRAY_LEN(units); v /= 1000)
		i++;
	snprintf(w.text, sizeof(w.text), "%.*f %s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, units[i]);
	return w;
}

struct number_words time_in_words(double seconds)
{
	static const char *const units[] = { "us", "ms", "s" };
	struct number_words w;
	double v = seconds * 1e6, whole = floor(seconds + 0.5);
	size_t i = 0;

	if (!(seconds > 0)) {
		snprintf(w.text, sizeof(w.text), "0 s");
	} else if (seconds < 119.5) {
		for (; v >= 999.5 && i + 1 < ARRAY_LEN(units); v /= 1000)
			i++;
		snprintf(w.text, sizeof(w.text), "%.*f %s",
			 v < 9.995   ? 2
			 : v < 99.95 ? 1
				     : 0,
			 v, units[i]);
	} else if (whole < 7200) {
		snprintf(w.text, sizeof(w.text), "%.0fm %02.0fs", floor(whole / 60),
			 fmod(whole, 60));
	} else {
		snprintf(w.text, sizeof(w.text), "%.0fh %02.0fm", floor(whole / 3600),
			 floor(fmod(whole, 3600) / 60));
	}
	return w;
}

struct number_words count_in_words(uint64_t nr)
{
	struct number_words w;
	char digits[24];
	size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, nr), at = 0;

	for (size_t i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			w.text[at++] = ',';
		w.text[at++] = digits[i];
	}
	w.text[at] = '\0';
	return w;
}

struct number_words rate_in_words(double nr_per_second)
{
	struct number_words w;

	if (nr_per_second >= 9.995 && nr_per_second < 1e18)
		return count_in_words((uint64_t)(nr_per_second + 0.5));
	snprintf(w.text, sizeof(w.text), "%.3g", nr_per_second);
	return w;
}

size_t utf8_put(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 63));
		out[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 63));
	out[2] = (char)(0x80 | (c >> 6 & 63));
	out[3] = (char)(0x80 | (c & 63));
	return 4;
}

size_t utf8_len(const char *text, size_t left)
{
	const uint8_t *p = (const uint8_t *)text;
	uint32_t c = p[0], min;
	size_t len;

	if (c < 0x80)
		return 1;
	len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	min = len == 4 ? 0x10000 : len == 3 ? 0x800 : 0x80;
	if (c < 0xc0 || c > 0xf4 || left < len)
		return 0;
	c &= 0xffu >> (len + 1);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fu);
	}
	return c >= min && c <= 0x10ffff && !(c >= 0xd800 && c < 0xe000) ? len : 0;
}

int text_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool path_goes_up(const char *path, size_t len)
{
	const char *end, *dot = path;

	if (len == 0) /* @path may be NULL then */
		return false;
	end = path + len;
	/* Called for each read: memchr() is several times as fast as a loop over the bytes. */
	while ((dot = memchr(dot, '.', (size_t)(end - dot))) != NULL) {
		if ((dot == path || dot[-1] == '/') && end - dot >= 2 && dot[1] == '.' &&
		    (end - dot == 2 || dot[2] == '/'))
			return true;
		dot++;
	}
	return false;
}

void text_mark_truncated(char *text)
{
	static const char dots[] = "...";
	size_t at = strlen(text), least;

	if (at < strlen(dots))
		return;
	at -= strlen(dots);
	least = at > 3 ? at - 3 : 0; /* no UTF-8 character has more than 4 bytes */
	while (at > least && ((uint8_t)text[at] & 0xc0) == 0x80)
		at--;
	memcpy(text + at, dots, sizeof(dots));
}

bool is_plain_utf8(const char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_len(text + i, len - i);
		if (n == 0 || (uint8_t)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	}
	return true;
}

#define NEAR_MAX 96u

size_t text_distance(const char *a, const char *b)
{
	size_t row[3][NEAR_MAX + 1], a_len = strlen(a), b_len = strlen(b);
	size_t *two = row[0], *one = row[1], *now = row[2];

	if (a_len > NEAR_MAX || b_len > NEAR_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= b_len; j++)
		one[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t *old = two;

		now[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t best = one[j - 1] + (a[i - 1] != b[j - 1]);

			best = u64_min(best, u64_min(one[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = u64_min(best, two[j - 2] + 1);
			now[j] = best;
		}
		two = one;
		one = now;
		now = old;
	}
	return one[b_len];
}

bool text_is_near(const char *text, size_t d)
{
	return d != SIZE_MAX && d * 3 <= strlen(text);
}

const char *text_nearest(const char *text, const char *const *words, size_t nr)
{
	size_t best = SIZE_MAX;
	const char *found = NULL;

	for (size_t i = 0; i < nr; i++) {
		size_t d = text_distance(text, words[i]);

		if (d < best) {
			best = d;
			found = words[i];
		}
	}
	return text_is_near(text, best) ? found : NULL;
}

bool text_has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; len > 0 && (at = strstr(at, word)); at += len)
		if ((at == list || at[-1] == ' ') && (at[len] == '\0' || at[len] == ' '))
			return true;
	return false;
}
