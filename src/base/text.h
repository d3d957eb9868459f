/* text.h - numbers and sizes as people write them. */
#ifndef SHOAL_BASE_TEXT_H
#define SHOAL_BASE_TEXT_H

#include "base/err.h"

/* Decimal digits only, all of @text. -EINVAL for anything else, -ERANGE above 2^64 - 1. */
int parse_u64(const char *text, uint64_t *ret_value) MUST_USE;

/* As above, for @len bytes. */
int parse_digits(const char *text, size_t len, uint64_t *ret_value) MUST_USE;

/* A number, whole or as 1.5, with an optional unit: K, M, G, T, P or KiB ... are powers of 1024,
 * KB ... of 1000. A fraction of a byte is dropped. */
int parse_size(const char *text, uint64_t *ret_bytes) MUST_USE;

/* A time: seconds, or with a unit, "500ms", "90s", "10m", "2h", "1d"; in milliseconds. A fraction
 * of one is dropped. */
int parse_milliseconds(const char *text, uint64_t *ret_ms) MUST_USE;

/*
 * Numbers for people to read; in JSON they are plain. Every one that is printed as text has its
 * form, unless other programs read it.
 */
struct number_words {
	char text[32];
};
struct number_words size_in_words(uint64_t bytes); /* powers of 1000, three digits: "38.2 MB" */
struct number_words time_in_words(double seconds); /* "42 us", "1.57 ms", "12.3 s", "2h 05m" */
struct number_words count_in_words(uint64_t nr);   /* "42,127,518" */
struct number_words rate_in_words(double nr_per_second); /* as a count, or "0.25" */

/* The ending of a noun that follows the number @nr: "1 file", "2 files". */
static inline const char *plural(uint64_t nr)
{
	return nr == 1 ? "" : "s";
}

/* Whether @word, which is not empty, is one of the words in @list: "1.0 2.0 3.0". */
bool text_has_word(const char *list, const char *word);

/*
 * Length of the UTF-8 sequence at the start of @text, of which @left bytes remain (at least 1); 0
 * if it is not valid UTF-8. Overlong forms and surrogates are not valid.
 */
size_t utf8_len(const char *text, size_t left);

/* Write character @c, up to U+10FFFF, in UTF-8 to @out, which has room for 4 bytes. Returns its
 * length. */
size_t utf8_put(char *out, uint32_t c);

/* The value of a hexadecimal digit in upper or lower case, or -1. */
int text_hex_digit(char c);

/* Whether any component of the path is "..". */
bool path_goes_up(const char *path, size_t len);

/* Mark @text, which was truncated to fit its buffer: replace its last characters by "...". */
void text_mark_truncated(char *text);

/* Whether the bytes are valid UTF-8 without control characters. */
bool is_plain_utf8(const char *text, size_t len);

/* The edit distance of @a and @b: letters to add, drop, change or swap. SIZE_MAX if one has more
 * than 96. */
size_t text_distance(const char *a, const char *b);

/* Whether @distance from @text is small enough to be a typing error: a third of its letters. */
bool text_is_near(const char *text, size_t distance);

/* The word that is most similar to @text, if it is near. NULL otherwise. */
const char *text_nearest(const char *text, const char *const *words, size_t nr);

#endif
