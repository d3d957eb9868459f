#include "index/filter.h"

#include <string.h>

/* Match one byte against the set that starts at @p, just after its bracket. Returns one past the
 * closing bracket, or NULL if there is none. */
static const char *match_set(const char *p, const char *end, unsigned char c, bool *ret_in)
{
	bool negated = p < end && (*p == '!' || *p == '^'), in = false;
	const char *first = p += negated;

	for (; p < end && (*p != ']' || p == first); p++) {
		unsigned char lo, hi;

		if (*p == '\\' && p + 1 < end)
			p++;
		lo = hi = (unsigned char)*p;
		if (p + 2 < end && p[1] == '-' && p[2] != ']') {
			p += 2;
			if (*p == '\\' && p + 1 < end)
				p++;
			hi = (unsigned char)*p;
		}
		in |= lo <= c && c <= hi;
	}
	*ret_in = in != negated;
	return p < end ? p + 1 : NULL;
}

/*
 * Match one byte, or nothing if the pattern is at its end. Returns the rest of the pattern, or
 * NULL.
 */
static const char *match_one(const char *p, const char *end, unsigned char c)
{
	bool in;

	if (p == end)
		return NULL;
	switch (*p) {
	case '?':
		return c == '/' ? NULL : p + 1;
	case '[':
		p = match_set(p + 1, end, c, &in);
		return p && in && c != '/' ? p : NULL;
	case '\\':
		if (p + 1 < end)
			p++;
		return (unsigned char)*p == c ? p + 1 : NULL;
	default:
		return (unsigned char)*p == c ? p + 1 : NULL;
	}
}

/* Where matching can backtrack to: what follows the star, and how much the star has matched. */
struct retry {
	const char *p, *t;
	bool whole; /* for a "**" between slashes, which matches whole components of a path */
};

/* Let the star match one more. False if it cannot. */
static bool eat(struct retry *r, const char *t_end, bool slashes)
{
	if (!r->p || r->t == t_end || (!slashes && *r->t == '/'))
		return false;
	if (r->whole) {
		const char *slash = memchr(r->t, '/', (size_t)(t_end - r->t));

		r->t = slash ? slash : t_end - 1;
		if (!slash)
			return false;
	}
	r->t++;
	return true;
}

/* Skip the stars at @p and record them. */
static const char *take_stars(const char *pattern, const char *p, const char *p_end, const char *t,
			      struct retry *star, struct retry *wide)
{
	bool is_wide = p + 1 < p_end && p[1] == '*';
	bool in_front = p == pattern || p[-1] == '/';

	while (p < p_end && *p == '*')
		p++;
	if (!is_wide) {
		*star = (struct retry){ .p = p, .t = t };
		return p;
	}
	*star = (struct retry){ 0 };
	*wide = (struct retry){ .whole = in_front && p < p_end && *p == '/', .t = t };
	return wide->p = p + wide->whole;
}

/*
 * Only the last star, and the last double one, need backtracking: the later one can match
 * whatever an earlier one would have matched differently. So the time is bounded by a product,
 * not a power.
 */
bool index_glob(const char *pattern, size_t pattern_len, const char *text, size_t len)
{
	const char *p = pattern, *p_end = pattern + pattern_len, *t = text, *t_end = text + len;
	struct retry star = { 0 }, wide = { 0 };

	for (;;) {
		const char *next;

		if (p < p_end && *p == '*') {
			p = take_stars(pattern, p, p_end, t, &star, &wide);
			continue;
		}
		if (p == p_end && t == t_end)
			return true;
		next = t < t_end ? match_one(p, p_end, (unsigned char)*t) : NULL;
		if (next) {
			p = next;
			t++;
		} else if (eat(&star, t_end, false)) {
			p = star.p;
			t = star.t;
		} else if (eat(&wide, t_end, true)) {
			p = wide.p;
			t = wide.t;
			star.p = NULL;
		} else {
			return false;
		}
	}
}

static bool matches(const char *pattern, const char *name, size_t len, bool is_dir)
{
	size_t pattern_len = strlen(pattern);
	const char *base;

	if (pattern_len > 1 && pattern[pattern_len - 1] == '/') {
		if (!is_dir)
			return false;
		pattern_len--;
	}
	if (memchr(pattern, '/', pattern_len)) {
		if (*pattern == '/') {
			pattern++;
			pattern_len--;
		}
		return index_glob(pattern, pattern_len, name, len);
	}
	base = memrchr(name, '/', len);
	base = base ? base + 1 : name;
	return index_glob(pattern, pattern_len, base, (size_t)(name + len - base));
}

bool index_filter_wants(const struct index_filter *f, const char *name, size_t len, bool is_dir)
{
	bool in = is_dir || f->nr_include == 0;

	for (size_t i = 0; i < f->nr_include && !in; i++)
		in = matches(f->include[i], name, len, is_dir);
	for (size_t i = 0; i < f->nr_exclude && in; i++)
		in = !matches(f->exclude[i], name, len, is_dir);
	return in;
}

static int check_pattern(const char *pattern, struct shoal_err *err)
{
	const char *end = pattern + strlen(pattern);
	bool in;

	if (!*pattern)
		return err_set(err, -EINVAL, "a pattern is empty");
	if (strcmp(pattern, "/") == 0 || strncmp(pattern, "./", 2) == 0)
		return err_set(err, -EINVAL,
			       "the pattern '%s' cannot match: names start below the directory, "
			       "as in 'a/b'",
			       pattern);
	for (const char *p = pattern; p < end;) {
		if (*p == '\\')
			p += p + 1 < end ? 2 : 1;
		else if (*p == '[')
			p = match_set(p + 1, end, 'x', &in);
		else
			p++;
		if (!p)
			return err_set(err, -EINVAL,
				       "the pattern '%s' has a '[' without a ']': write \\[ "
				       "for the character itself",
				       pattern);
	}
	return 0;
}

int index_filter_check(const struct index_filter *f, struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < f->nr_include && rc == 0; i++) {
		rc = check_pattern(f->include[i], err);
		if (rc == 0 && f->include[i][strlen(f->include[i]) - 1] == '/')
			rc = err_set(err, -EINVAL,
				     "the pattern '%s' matches directories, but only files can be "
				     "included: write '%s**'",
				     f->include[i], f->include[i]);
	}
	for (size_t i = 0; i < f->nr_exclude && rc == 0; i++)
		rc = check_pattern(f->exclude[i], err);
	return rc;
}
