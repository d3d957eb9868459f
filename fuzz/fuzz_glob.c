/* Any pattern and any name: as the slow matcher says, refused or matched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/support/glob_reference.h"
#include "index/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The slow one takes time to the power of the stars. */
#define LONGEST 24u

/* An exact copy, so that ASan sees a byte too many. */
static char *copy_of(const uint8_t *bytes, size_t len, size_t extra)
{
	char *copy = calloc(len + extra ? len + extra : 1, 1);

	if (!copy)
		abort();
	memcpy(copy, bytes, len);
	return copy;
}

static void check_glob(const uint8_t *pattern, size_t pattern_len, const uint8_t *text, size_t len)
{
	char *p = copy_of(pattern, pattern_len, 0), *t = copy_of(text, len, 0);
	bool matches = index_glob(p, pattern_len, t, len);

	if (pattern_len <= LONGEST && len <= LONGEST &&
	    matches != reference_glob(p, pattern_len, t, len))
		abort();
	free(p);
	free(t);
}

/* What filter.h says of a pattern with the last part of a name, or all of it. */
static bool reference_matches(const char *p, const char *t, bool is_dir)
{
	size_t len = strlen(p);
	const char *base = strrchr(t, '/');

	if (len > 1 && p[len - 1] == '/') {
		len--;
		if (!is_dir)
			return false;
	}
	if (memchr(p, '/', len)) {
		size_t front = p[0] == '/';

		return reference_glob(p + front, len - front, t, strlen(t));
	}
	base = base ? base + 1 : t;
	return reference_glob(p, len, base, strlen(base));
}

static void check_filter(const char *pattern, const char *text)
{
	const char *one[] = { pattern };
	struct index_filter take_in = { .include = one, .nr_include = 1 };
	struct index_filter leave_out = { .exclude = one, .nr_exclude = 1 };
	size_t len = strlen(pattern);
	bool whole = len > 0 && reference_is_whole(pattern, len) && strcmp(pattern, "/") != 0 &&
		     strncmp(pattern, "./", 2) != 0;
	struct shoal_err err = { "" };

	if (index_filter_check(&leave_out, &err) != (whole ? 0 : -EINVAL) || !err.msg[0] != whole)
		abort();
	if (index_filter_check(&take_in, NULL) != (whole && pattern[len - 1] != '/' ? 0 : -EINVAL))
		abort();
	if (len > LONGEST || strlen(text) > LONGEST)
		return;
	for (int is_dir = 0; is_dir < 2; is_dir++) {
		bool matches = reference_matches(pattern, text, is_dir);

		if (index_filter_wants(&leave_out, text, strlen(text), is_dir) == matches)
			abort();
		if (index_filter_wants(&take_in, text, strlen(text), is_dir) != (is_dir || matches))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *cut;
	char *pattern, *text;

	/* The pattern, a line end, the name. */
	if (size > 3 * LONGEST)
		return 0;
	cut = memchr(data, '\n', size);
	if (!cut)
		return 0;
	check_glob(data, (size_t)(cut - data), cut + 1, size - (size_t)(cut - data) - 1);
	pattern = copy_of(data, (size_t)(cut - data), 1);
	text = copy_of(cut + 1, size - (size_t)(cut - data) - 1, 1);
	check_filter(pattern, text);
	free(pattern);
	free(text);
	return 0;
}
