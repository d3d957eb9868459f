/* Names from a text list, a NUL-separated list or standard input. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "catalog/catalog_format.h"
#include "index/job.h"
#include "index/stage.h"
#include "index/textlist.h"

int textlist_read(int fd, void *buf, size_t room, const int *stop, size_t *ret_len,
		  struct shoal_err *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = 0;

	do {
		int ready = 0;

		while (ready == 0 && fd >= 0) { /* poll() would wait for ever for an invalid one */
			if (stop_requested(stop))
				return err_set(err, -ECANCELED, "interrupted");
			ready = poll(&p, 1, /* timeout_ms= */ 200);
			if (ready < 0 && errno == EINTR)
				ready = 0;
		}
		n = read(fd, buf, room);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return err_set_errno(err, err_errno(), "cannot read the list");
	*ret_len = (size_t)n;
	return 0;
}

/* Read more after the unread part. */
static int textlist_refill(struct textlist *l, struct shoal_err *err)
{
	size_t n = 0;
	int rc;

	memmove(l->buf, l->buf + l->at, l->fill - l->at);
	l->fill -= l->at;
	l->at = 0;
	rc = textlist_read(l->fd, l->buf + l->fill, READ_BYTES + LINE_MAX_BYTES - l->fill,
			   l->job.options->stop, &n, err);
	if (rc < 0)
		return rc;
	l->fill += n;
	l->ended = n == 0;
	return 0;
}

int textlist_too_long(const char *text, size_t len, uint64_t line, struct shoal_err *err)
{
	return err_set_hint(err, -EINVAL,
			    memchr(text, 0, len) ? SHOAL_HINT_NUL_ENDS : SHOAL_HINT_NONE,
			    "line %" PRIu64 " is longer than any name (%d bytes at most)", line,
			    SHOAL_NAME_MAX);
}

/* The next line without its separator: 1, or 0 at the end of the list. */
static int textlist_next_line(struct textlist *l, const char **ret_line, size_t *ret_len,
			      struct shoal_err *err)
{
	for (;;) {
		const char *start = l->buf + l->at;
		size_t left = l->fill - l->at;
		const char *end = memchr(start, l->separator, left);
		int rc;

		if (end || (l->ended && left > 0)) {
			*ret_line = start;
			*ret_len = end ? (size_t)(end - start) : left;
			l->at += *ret_len + (end ? 1 : 0);
			l->line++;
			return 1;
		}
		if (l->ended)
			return 0;
		if (left > LINE_MAX_BYTES)
			return textlist_too_long(start, left, l->line + 1, err);
		rc = textlist_refill(l, err);
		if (rc < 0)
			return rc;
	}
}

/* Cut a number off the end of the line, after a tab: 1, 0 if there is no tab, or an error. */
static int cut_number(const char *line, size_t *len, uint64_t *ret_value)
{
	const char *tab = memrchr(line, '\t', *len);
	int rc;

	if (!tab)
		return 0;
	rc = parse_digits(tab + 1, (size_t)(line + *len - tab - 1), ret_value);
	if (rc < 0)
		return rc;
	*len = (size_t)(tab - line);
	return 1;
}

/* Name, size, samples. Returns how many numbers there are, or an error. */
static int split_line(const struct textlist *l, struct textline *line)
{
	struct index_record *r = &line->record;
	uint64_t number[2];
	int nr = 0, rc = 0;

	*r = (struct index_record){ .size = SHOAL_SIZE_UNKNOWN,
				    .samples = index_job_samples(&l->job) };
	if (l->names_only)
		return 0;
	while (nr < 2 && (rc = cut_number(line->text, &line->len, &number[nr])) > 0)
		nr++;
	if (rc < 0)
		return rc;
	if (memchr(line->text, '\t', line->len))
		return -EINVAL;
	if (nr > 0) /* from the end of the line */
		r->size = number[nr - 1];
	if (nr == 2)
		r->samples = number[0];
	return nr;
}

static int check_line(const struct textlist *l, const struct textline *line, struct shoal_err *err)
{
	if (l->separator != '\n')
		return 0;
	if (line->number == 1 && line->len >= 3 && memcmp(line->text, "\xef\xbb\xbf", 3) == 0)
		return err_set(err, -EINVAL, "line 1 starts with a byte order mark: remove it");
	if (memchr(line->text, 0, line->len))
		return err_set_hint(err, -EINVAL, SHOAL_HINT_NUL_ENDS,
				    "line %" PRIu64 " contains a NUL byte", line->number);
	if (line->len > 0 && line->text[line->len - 1] == '\r')
		return err_set(err, -EINVAL,
			       "line %" PRIu64 " ends in CR LF: convert the line ends to LF",
			       line->number);
	return 0;
}

/* How many numbers are after the name, which is what is left of the line. */
static int take_numbers(const struct textlist *l, struct textline *line, struct shoal_err *err)
{
	int numbers = split_line(l, line);

	if (numbers >= 0)
		return numbers;
	return err_set_hint(err, -EINVAL, SHOAL_HINT_NAMES_ONLY,
			    "line %" PRIu64 ": the text after a tab is %s", line->number,
			    numbers == -ERANGE ? "too large"
					       : "not a size in bytes or a number of samples");
}

/* All lines must have as many numbers as the first one. */
static int check_numbers(const struct textlist *l, int numbers, const struct textline *line,
			 struct shoal_err *err)
{
	int want = l->has_samples ? 2 : l->has_sizes ? 1 : 0;
	static const char *const says[] = { "no size", "a size", "a size and samples" };

	if (numbers != want)
		return err_set_hint(err, -EINVAL, SHOAL_HINT_NAMES_ONLY,
				    "line %" PRIu64 " has %s after the name, but line %" PRIu64
				    " has %s",
				    line->number, says[numbers], l->first_line, says[want]);
	if (numbers >= 1 && line->record.size == SHOAL_SIZE_UNKNOWN)
		return err_set(err, -EINVAL, "line %" PRIu64 ": the size is too large",
			       line->number);
	return 0;
}

int textlist_parse(const struct textlist *l, struct textline *line, struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int numbers, rc = check_line(l, line, err);

	if (rc < 0 || line->len == 0)
		return rc;
	numbers = take_numbers(l, line, err);
	rc = numbers < 0 ? numbers : check_numbers(l, numbers, line, err);
	if (rc < 0)
		return rc;
	rc = index_root_strip(&l->job.root, &line->text, &line->len, &why);
	if (rc < 0)
		return err_set_as(err, rc, &why, "line %" PRIu64 ": %s", line->number, why.msg);
	if (line->len > SHOAL_NAME_MAX)
		return err_set(err, -EINVAL,
			       "line %" PRIu64 ": a name has %zu bytes, but at most %d are allowed",
			       line->number, line->len, SHOAL_NAME_MAX);
	return 1;
}

static int textlist_start(struct textlist *l, const char *name, size_t len, int numbers,
			  struct shoal_err *err)
{
	int rc;

	l->has_sizes = numbers >= 1;
	l->has_samples = numbers == 2;
	l->first_line = l->line;
	l->job.nr_readers = textblocks_threads(l);
	l->job.order_len = l->job.nr_readers > 1 && l->has_sizes ? TEXTBLOCKS_ORDER : 0;
	rc = index_root_init(&l->job.root, l->job.options->root, name, len, err);
	if (rc == 0)
		rc = index_job_open(&l->job, l->has_sizes, l->has_samples, err);
	l->started = rc == 0;
	return rc;
}

/* The first line that is not empty tells the root, and what all lines have. */
static int start_with(struct textlist *l, struct textline line, struct shoal_err *err)
{
	int numbers = check_line(l, &line, err);

	if (numbers < 0 || line.len == 0)
		return numbers;
	numbers = take_numbers(l, &line, err);
	return numbers < 0 ? numbers : textlist_start(l, line.text, line.len, numbers, err);
}

static int take_line(struct textlist *l, const char *text, size_t len, struct shoal_err *err)
{
	struct textline line = { .text = text, .len = len, .number = l->line };
	int rc = l->started ? 0 : start_with(l, line, err);

	if (rc == 0)
		rc = textlist_parse(l, &line, err);
	if (rc == 0)
		l->nr_blank++;
	return rc <= 0 ? rc : index_job_add(&l->job, line.text, line.len, &line.record, err);
}

/* A line ends before the magic does; the end of a name is not part of it. */
static bool begins_with_magic(const char *line, size_t len)
{
	size_t n = strcspn(CAT_MAGIC, "\r\n");

	return len >= n && memcmp(line, CAT_MAGIC, n) == 0;
}

static int textlist_fill(void *self, struct index_stage *s, uint64_t least,
			 struct shoal_index_result *result, struct shoal_err *err)
{
	struct textlist *l = self;
	const char *line = NULL;
	size_t len = 0;
	int rc = 0;

	l->job = (struct index_job){ .options = &s->options, .output = &s->output, .least = least };
	while (l->job.nr_readers <= 1 && (rc = textlist_next_line(l, &line, &len, err)) > 0) {
		if (l->line == 1 && begins_with_magic(line, len))
			return err_set(err, -EINVAL,
				       "it is a catalog already, not a list of names");
		rc = take_line(l, line, len, err);
		if (rc < 0)
			return rc;
	}
	if (l->job.nr_readers > 1) /* as the first line has told */
		rc = textblocks_read(l, l->job.nr_readers, err);
	if (rc == 0 && !l->started) /* an empty list makes an empty catalog */
		rc = textlist_start(l, "", 0, 0, err);
	if (rc < 0)
		return rc;
	result->nr_blank = l->nr_blank;
	return index_job_finish(&l->job, result, err);
}

int shoal_index_list(int fd, char separator, bool names_only,
		     const struct shoal_index_options *options,
		     struct shoal_index_result *ret_result, struct shoal_err *err)
{
	struct textlist *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->fd = fd;
	l->separator = separator;
	l->names_only = names_only;
	rc = index_stage_run(options, textlist_fill, l, ret_result, err);
	index_job_release(&l->job);
	free(l);
	return rc;
}
