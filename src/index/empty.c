#include "index/empty.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

/* How many patterns the message shows. */
#define SHOWN 4u

#define WORDS_MAX (64u << 10)

static void empty_put_text(struct buf *b, const char *text)
{
	buf_append(b, text, strlen(text));
}

static void put_patterns(struct buf *b, const char *what, const char *const *list, size_t nr)
{
	empty_put_text(b, what);
	for (size_t i = 0; i < nr && i < SHOWN; i++) {
		empty_put_text(b, i == 0 ? " '" : ", '");
		empty_put_text(b, list[i]);
		empty_put_text(b, "'");
	}
	empty_put_text(b, nr > SHOWN ? " and others" : "");
}

/* A shell habit: it is not a pattern here and matches nothing. */
static bool has_braces(const char *const *list, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (strchr(list[i], '{') && strchr(list[i], '}'))
			return true;
	return false;
}

static int say_filtered(const struct index_job *j, uint64_t nr, struct shoal_err *err)
{
	const struct shoal_tree_options *t = j->tree;
	const char *hint =
		has_braces(t->include, t->nr_include) || has_braces(t->exclude, t->nr_exclude)
			? ": {a,b} is not a pattern here, give each by itself"
			: "";
	struct buf b = { .max = WORDS_MAX };

	if (t->nr_include > 0)
		put_patterns(&b, "include", t->include, t->nr_include);
	if (t->nr_include > 0 && t->nr_exclude > 0)
		empty_put_text(&b, " and ");
	if (t->nr_exclude > 0)
		put_patterns(&b, "exclude", t->exclude, t->nr_exclude);
	buf_u8(&b, '\0');
	if (t->nr_exclude == 0) /* include does not exclude directories */
		err_describe(err, "none of the %" PRIu64 " file%s in '%.200s' matches %.300s%s", nr,
			     plural(nr), j->store->uri, b.rc ? "include" : (char *)b.data, hint);
	else
		err_describe(err,
			     "nothing is left of '%.200s': %" PRIu64
			     " files and directories are left out by %.300s%s",
			     j->store->uri, nr, b.rc ? "exclude" : (char *)b.data, hint);
	buf_release(&b);
	return -ENOENT;
}

static int empty_fail(const struct index_job *j, const struct shoal_index_result *r,
		      struct shoal_err *err)
{
	uint64_t others = r->nr_links + r->nr_special + r->nr_other_fs + r->nr_unreadable;

	if (r->nr_filtered > 0)
		return say_filtered(j, r->nr_filtered, err);
	if (others == 0)
		return err_set(err, -ENOENT, "there is no file in '%.300s'", j->store->uri);
	return err_set(err, -ENOENT,
		       "there is no file in '%.300s', but %" PRIu64 " symbolic links, %" PRIu64
		       " sockets, pipes and devices, %" PRIu64
		       " directories of other file systems, and %" PRIu64
		       " that could not be read: all of these are left out",
		       j->store->uri, r->nr_links, r->nr_special, r->nr_other_fs, r->nr_unreadable);
}

int index_say_empty(const struct index_job *j, const struct shoal_index_result *result,
		    struct shoal_err *err)
{
	struct shoal_index_result all = *result; /* nothing but numbers */
	int rc = comm_reduce(j->comm, COMM_SUM, (uint64_t *)(void *)&all,
			     sizeof(all) / sizeof(uint64_t), err);

	if (rc < 0)
		return rc;
	if (j->place->rank > 0)
		return err_set(err, -EREMOTEIO, "another rank has failed");
	rc = empty_fail(j, &all, err);
	err_hint(err, SHOAL_HINT_REPLACE, 0);
	return rc;
}
