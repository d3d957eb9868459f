/* Which entries of a list are delivered. */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/name.h"
#include "list/list.h"

/*
 * The key of the hash that shards a directory, different from any that a user would choose for
 * parts.
 */
#define SHARD_SEED UINT64_C(0x7368617264)

static int select_share(struct list_select *s, struct shoal_err *err)
{
	double from = s->ask.from, to = s->ask.to;

	s->from = 0;
	s->to = UINT64_MAX;
	if (to == 0 && from == 0)
		return 0;
	if (!(from >= 0 && from < to && to <= 1))
		return err_set(err, -EINVAL,
			       "a share of the names is from 0 to 1, and not empty: not from %g to "
			       "%g",
			       from, to);
	s->from = (uint64_t)(from * 0x1p64);
	if (to < 1) /* less than 2^64, so the product is, too */
		s->to = (uint64_t)(to * 0x1p64) - 1;
	return 0;
}

static int select_regex(struct list_select *s, struct shoal_err *err)
{
	char why[200];
	int rc;

	if (!s->ask.regex)
		return 0;
	rc = regcomp(&s->regex, s->ask.regex,
		     REG_EXTENDED | REG_NOSUB | (s->ask.ignore_case ? REG_ICASE : 0));
	s->has_regex = rc == 0;
	if (rc == 0)
		return 0;
	regerror(rc, &s->regex, why, sizeof(why));
	return err_set(err, -EINVAL, "the regular expression '%.200s' is malformed: %s",
		       s->ask.regex, why);
}

/* Step to the next name of the catalog that selects. */
static int select_next_name(struct list_select *s, struct shoal_err *err)
{
	int rc = shoal_cursor_next(s->names, &s->next_name, &s->next_len);

	if (rc == 0)
		s->next_name = NULL;
	return rc < 0 ? shoal_catalog_explain(s->ask.names, rc, err) : 0;
}

static int select_names(struct list_select *s, struct shoal_err *err)
{
	int rc;

	if (!s->ask.names)
		return 0;
	rc = shoal_cursor_new(s->ask.names, 0, &s->names, err);
	return rc < 0 ? rc : select_next_name(s, err);
}

int list_select_init(struct list_select *s, const struct shoal_select *ask,
		     const struct shoal_list_info *info, struct shoal_err *err)
{
	int rc;

	s->to = UINT64_MAX;
	if (!ask)
		return 0;
	s->ask = *ask;
	s->filter = (struct index_filter){ .include = ask->include,
					   .nr_include = ask->nr_include,
					   .exclude = ask->exclude,
					   .nr_exclude = ask->nr_exclude };
	if (!info->sizes && (ask->min_size || ask->max_size))
		return err_set_hint(err, -EINVAL, SHOAL_HINT_SIZES,
				    "files cannot be selected by their size, which is not known");
	if (ask->max_size && ask->min_size > ask->max_size)
		return err_set(err, -EINVAL, "the smallest size is larger than the largest");
	rc = index_filter_check(&s->filter, err);
	if (rc == 0)
		rc = select_share(s, err);
	if (rc == 0)
		rc = select_regex(s, err);
	return rc < 0 ? rc : select_names(s, err);
}

void list_select_release(struct list_select *s)
{
	if (s->has_regex)
		regfree(&s->regex);
	s->names = shoal_cursor_free(s->names);
}

enum list_verdict list_select_bounds(const struct list_select *s, const char *prefix, size_t len)
{
	const char *after = s->ask.start_after, *before = s->ask.end_before;
	size_t after_len = after ? strlen(after) : 0;

	if (before && name_compare(prefix, len, before, strlen(before)) >= 0)
		return LIST_END;
	if (after && name_compare(prefix, len, after, after_len) <= 0 &&
	    (after_len < len || memcmp(after, prefix, len) != 0))
		return LIST_SKIP;
	return LIST_TAKE;
}

/* As a listing with these patterns would: an excluded directory excludes everything below it. */
static bool select_matches(const struct list_select *s, const char *name, size_t len)
{
	const char *slash = name;

	if (s->filtered || s->filter.nr_include + s->filter.nr_exclude == 0)
		return true;
	while (s->filter.nr_exclude > 0 &&
	       (slash = memchr(slash, '/', (size_t)(name + len - slash))) != NULL) {
		if (slash > name &&
		    !index_filter_wants(&s->filter, name, (size_t)(slash - name), true))
			return false;
		slash++;
	}
	return index_filter_wants(&s->filter, name, len, false);
}

static bool select_hash(const struct list_select *s, const char *name, size_t len)
{
	uint64_t hash;

	if (s->nr_shards > 0) {
		hash = XXH3_64bits_withSeed(name, len, SHARD_SEED);
		if ((uint64_t)((unsigned __int128)hash * s->nr_shards >> 64) != s->shard)
			return false;
	}
	if (s->from == 0 && s->to == UINT64_MAX)
		return true;
	hash = XXH3_64bits_withSeed(name, len, s->ask.seed);
	return hash >= s->from && hash <= s->to;
}

/* Whether the catalog that selects has the name. Both are in ascending order. */
static int select_in_names(struct list_select *s, const char *name, size_t len,
			   struct shoal_err *err)
{
	int order = -1, rc = 0;

	while (rc == 0 && s->next_name &&
	       (order = name_compare(s->next_name, s->next_len, name, len)) < 0)
		rc = select_next_name(s, err);
	if (rc < 0)
		return rc;
	return (s->next_name && order == 0) != s->ask.not_in;
}

int list_select_entry(struct list_select *s, const struct list_entry *e, struct shoal_err *err)
{
	const struct shoal_select *ask = &s->ask;
	const char *name = (const char *)e->name;

	if (ask->end_before &&
	    name_compare(name, e->len, ask->end_before, strlen(ask->end_before)) >= 0)
		return LIST_END;
	if (ask->start_after &&
	    name_compare(name, e->len, ask->start_after, strlen(ask->start_after)) <= 0)
		return LIST_SKIP;
	if (e->size < ask->min_size || (ask->max_size && e->size > ask->max_size))
		return LIST_SKIP;
	if (!select_matches(s, name, e->len) || !select_hash(s, name, e->len))
		return LIST_SKIP;
	if (s->has_regex && regexec(&s->regex, name, 0, NULL, 0) != 0)
		return LIST_SKIP;
	if (s->names)
		return select_in_names(s, name, e->len, err);
	return LIST_TAKE;
}
