/* Names from a text list, a NUL-separated list or standard input. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "index/build.h"

/* A line: a name that will be too long is told so, with its root and its numbers before it is cut.
 */
#define LINE_MAX_BYTES (2 * SHOAL_NAME_MAX + 4096)
#define READ_BYTES     (1u << 20)

struct list {
	int fd;
	char separator;
	bool names_only;
	const struct shoal_index_options *options;
	char *buf;
	size_t at, fill;
	bool ended;
	uint64_t line; /* number of the one being read, from 1 */
	/* From the first line: */
	bool has_sizes, has_samples;
	uint64_t first_line;
	struct index_root root;
	struct index_build build;
	bool started;
	uint64_t nr_blank;
};

/*
 * Wait for something to read, but not for ever at once: a signal that comes just before waiting, or
 * to another thread, would else be noticed only with the next line.
 */
static int wait_readable(const struct list *l, struct shoal_err *err)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };

	while (l->fd >= 0) { /* poll() would wait for ever on none */
		int n;

		if (index_stopped(l->options->stop))
			return shoal_fail(err, -ECANCELED, "interrupted");
		n = poll(&p, 1, /* timeout_ms= */ 200);
		if (n > 0 || (n < 0 && errno != EINTR))
			break;
	}
	return 0; /* read() tells what is wrong, if anything is */
}

/* Read more behind what is left. */
static int refill(struct list *l, struct shoal_err *err)
{
	ssize_t n;
	int rc;

	memmove(l->buf, l->buf + l->at, l->fill - l->at);
	l->fill -= l->at;
	l->at = 0;
	do {
		rc = wait_readable(l, err);
		if (rc < 0)
			return rc;
		n = read(l->fd, l->buf + l->fill, READ_BYTES + LINE_MAX_BYTES - l->fill);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot read the list");
	l->fill += (size_t)n;
	l->ended = n == 0;
	return 0;
}

/* The next line without its separator: 1, or 0 at the end of the list. */
static int next_line(struct list *l, const char **ret_line, size_t *ret_len, struct shoal_err *err)
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
			return shoal_fail(
				err, -EINVAL,
				"line %" PRIu64 " is longer than any name (%d bytes at most)%s",
				l->line + 1, SHOAL_NAME_MAX,
				memchr(start, 0, left) ? ": is the list NUL-separated? use -0"
						       : "");
		rc = refill(l, err);
		if (rc < 0)
			return rc;
	}
}

/* Cut a number off the end of the line, after a tab: 1, 0 when there is no tab, or an error. */
static int cut_number(const char *line, size_t *len, uint64_t *ret_value)
{
	const char *tab = memrchr(line, '\t', *len);
	int rc;

	if (!tab)
		return 0;
	rc = shoal_parse_digits(tab + 1, (size_t)(line + *len - tab - 1), ret_value);
	if (rc < 0)
		return rc;
	*len = (size_t)(tab - line);
	return 1;
}

/* Name, size, samples. How many numbers there are is returned, or what is wrong with one. */
static int split_line(const struct list *l, const char *line, size_t len, struct shoal_entry *e)
{
	uint64_t number[2];
	int nr = 0, rc = 0;

	*e = (struct shoal_entry){
		.name = (const uint8_t *)line,
		.len = len,
		.size = SHOAL_SIZE_UNKNOWN,
		.samples = l->options->samples_per_file ? l->options->samples_per_file : 1,
	};
	if (l->names_only)
		return 0;
	while (nr < 2 && (rc = cut_number(line, &e->len, &number[nr])) > 0)
		nr++;
	if (rc < 0)
		return rc;
	if (memchr(line, '\t', e->len))
		return -EINVAL;
	if (nr > 0) /* from the end of the line */
		e->size = number[nr - 1];
	if (nr == 2)
		e->samples = number[0];
	return nr;
}

static int start(struct list *l, const struct shoal_entry *e, int numbers, struct shoal_err *err)
{
	int rc;

	l->has_sizes = numbers >= 1;
	l->has_samples = numbers == 2;
	l->first_line = l->line;
	rc = index_root_init(&l->root, l->options->root, (const char *)e->name, e->len, err);
	if (rc == 0)
		rc = index_build_start(&l->build, l->options,
				       &(struct index_build_spec){ .root = l->root.uri,
								   .sizes = l->has_sizes,
								   .samples = l->has_samples },
				       err);
	l->started = rc == 0;
	return rc;
}

static int check_line(const struct list *l, const char *line, size_t len, struct shoal_err *err)
{
	if (l->separator != '\n')
		return 0;
	if (l->line == 1 && len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0)
		return shoal_fail(
			err, -EINVAL,
			"line 1 starts with a byte order mark: make the list without one");
	if (memchr(line, 0, len))
		return shoal_fail(err, -EINVAL,
				  "line %" PRIu64
				  " holds a NUL byte: is the list NUL-separated? use -0",
				  l->line);
	if (len > 0 && line[len - 1] == '\r')
		return shoal_fail(err, -EINVAL,
				  "line %" PRIu64
				  " ends in CR LF: make the list with plain line ends, "
				  "or give it as -0 if names end in CR",
				  l->line);
	return 0;
}

/* All lines say as much as the first one. */
static int check_numbers(const struct list *l, int numbers, const struct shoal_entry *e,
			 struct shoal_err *err)
{
	int want = l->has_samples ? 2 : l->has_sizes ? 1 : 0;
	static const char *const says[] = { "no size", "a size", "a size and samples" };

	if (numbers != want)
		return shoal_fail(err, -EINVAL,
				  "line %" PRIu64 " has %s after the name, but line %" PRIu64
				  " has %s: say the same for all, or use --names-only",
				  l->line, says[numbers], l->first_line, says[want]);
	if (numbers >= 1 && e->size == SHOAL_SIZE_UNKNOWN)
		return shoal_fail(err, -EINVAL, "line %" PRIu64 ": the size is too large", l->line);
	return 0;
}

static int take_line(struct list *l, const char *line, size_t len, struct shoal_err *err)
{
	struct shoal_err why = { "" };
	struct shoal_entry e;
	const char *name;
	int numbers, rc;

	rc = check_line(l, line, len, err);
	if (rc < 0)
		return rc;
	if (len == 0) {
		l->nr_blank++;
		return 0;
	}
	numbers = split_line(l, line, len, &e);
	if (numbers < 0)
		return shoal_fail(
			err, -EINVAL,
			"line %" PRIu64
			": what follows a tab is %s: use --names-only if the tab is part of the name",
			l->line,
			numbers == -ERANGE ? "too large" : "no size in bytes or number of samples");
	if (!l->started) {
		rc = start(l, &e, numbers, err);
		if (rc < 0)
			return rc;
	}
	rc = check_numbers(l, numbers, &e, err);
	if (rc < 0)
		return rc;
	name = (const char *)e.name;
	rc = index_root_strip(&l->root, &name, &e.len, &why);
	if (rc < 0)
		return shoal_fail(err, rc, "line %" PRIu64 ": %s", l->line, why.msg);
	e.name = (const uint8_t *)name;
	if (e.len > SHOAL_NAME_MAX)
		return shoal_fail(err, -EINVAL,
				  "line %" PRIu64 ": a name of %zu bytes, %d are the most", l->line,
				  e.len, SHOAL_NAME_MAX);
	return index_build_add(&l->build, &e, err);
}

static int read_list(struct list *l, struct shoal_index_result *result, struct shoal_err *err)
{
	const struct shoal_entry none = { .name = (const uint8_t *)"" };
	const char *line = NULL;
	size_t len = 0;
	int rc;

	while ((rc = next_line(l, &line, &len, err)) > 0) {
		rc = take_line(l, line, len, err);
		if (rc < 0)
			return rc;
	}
	if (rc == 0 && !l->started) /* an empty list makes an empty catalog */
		rc = start(l, &none, 0, err);
	if (rc < 0)
		return rc;
	result->nr_blank = l->nr_blank;
	return index_build_finish(&l->build, result, err);
}

int shoal_index_list(int fd, char separator, bool names_only,
		     const struct shoal_index_options *options,
		     struct shoal_index_result *ret_result, struct shoal_err *err)
{
	struct shoal_index_result result = { 0 };
	struct list *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return shoal_fail(err, -ENOMEM, "out of memory");
	*l = (struct list){ .fd = fd,
			    .separator = separator,
			    .names_only = names_only,
			    .options = options,
			    .buf = malloc(READ_BYTES + LINE_MAX_BYTES) };
	rc = l->buf ? read_list(l, &result, err) : shoal_fail(err, -ENOMEM, "out of memory");
	index_build_release(&l->build);
	free(l->buf);
	free(l);
	if (rc == 0)
		*ret_result = result;
	return rc;
}
