/*
 * glob_reference.h - a second matcher of shell patterns, written from filter.h alone: slow, and
 * simple enough to be seen to be right. Tests and the fuzzer compare with it.
 */
#ifndef SHOAL_TESTS_GLOB_REFERENCE_H
#define SHOAL_TESTS_GLOB_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Which bytes the set at @p, behind its bracket, stands for: its length with the closing bracket,
 * or 0 when it has none. */
static size_t reference_set(const char *p, size_t len, bool ret_in[256])
{
	size_t i = 0, first;
	bool negated = len > 0 && (p[0] == '!' || p[0] == '^');

	memset(ret_in, 0, 256 * sizeof(*ret_in));
	first = i = negated;
	while (i < len && (p[i] != ']' || i == first)) {
		unsigned char lo, hi;

		i += p[i] == '\\' && i + 1 < len;
		lo = hi = (unsigned char)p[i++];
		if (i + 1 < len && p[i] == '-' && p[i + 1] != ']') {
			i++;
			i += p[i] == '\\' && i + 1 < len;
			hi = (unsigned char)p[i++];
		}
		for (int c = lo; c <= hi; c++)
			ret_in[c] = true;
	}
	for (int c = 0; c < 256; c++)
		ret_in[c] = ret_in[c] != negated;
	ret_in['/'] = false;
	return i < len ? i + 1 : 0;
}

static bool reference_glob_at(const char *p, size_t at, size_t len, const char *t, size_t t_len);

/* The stars at @at: try all that they may eat. */
static bool reference_stars(const char *p, size_t at, size_t len, const char *t, size_t t_len)
{
	size_t end = at;
	bool wide, whole;

	while (end < len && p[end] == '*')
		end++;
	wide = end - at > 1;
	/* Between slashes, or in front of the first, it stands for whole parts, also none. */
	whole = wide && (at == 0 || p[at - 1] == '/') && end < len && p[end] == '/';
	if (whole && reference_glob_at(p, end + 1, len, t, t_len))
		return true;
	for (size_t eaten = 0; eaten <= t_len; eaten++) {
		if (eaten > 0 && !wide && t[eaten - 1] == '/')
			return false;
		if (whole && (eaten == 0 || t[eaten - 1] != '/'))
			continue;
		if (reference_glob_at(p, whole ? end + 1 : end, len, t + eaten, t_len - eaten))
			return true;
	}
	return false;
}

static bool reference_glob_at(const char *p, size_t at, size_t len, const char *t, size_t t_len)
{
	bool in[256];
	size_t set;

	if (at == len)
		return t_len == 0;
	if (p[at] == '*')
		return reference_stars(p, at, len, t, t_len);
	if (t_len == 0)
		return false;
	if (p[at] == '?')
		return *t != '/' && reference_glob_at(p, at + 1, len, t + 1, t_len - 1);
	if (p[at] == '[') {
		set = reference_set(p + at + 1, len - at - 1, in);
		return set && in[(unsigned char)*t] &&
		       reference_glob_at(p, at + 1 + set, len, t + 1, t_len - 1);
	}
	at += p[at] == '\\' && at + 1 < len;
	return p[at] == *t && reference_glob_at(p, at + 1, len, t + 1, t_len - 1);
}

static inline bool reference_glob(const char *p, size_t len, const char *t, size_t t_len)
{
	return reference_glob_at(p, 0, len, t, t_len);
}

/* Whether every set of the pattern is closed. */
static inline bool reference_is_whole(const char *p, size_t len)
{
	bool in[256];

	for (size_t i = 0; i < len; i++) {
		if (p[i] == '\\')
			i++;
		else if (p[i] == '[') {
			size_t set = reference_set(p + i + 1, len - i - 1, in);

			if (set == 0)
				return false;
			i += set;
		}
	}
	return true;
}

#endif
