/*
 * textlist.h - a list of names, as text: how its lines are read, shared by textlist.c, which reads
 * one after another, and textblocks.c, which reads a file in blocks on several threads.
 */
#ifndef SHOAL_INDEX_TEXTLIST_H
#define SHOAL_INDEX_TEXTLIST_H

#include "index/job.h"

/*
 * Limit of a line: longer than any name with its root and numbers, so that a name that is too long
 * is reported as such.
 */
#define LINE_MAX_BYTES (2 * SHOAL_NAME_MAX + 4096)
#define READ_BYTES     (1u << 20)

struct textlist {
	int fd;
	char separator;
	bool names_only;
	size_t at, fill;
	bool ended;
	uint64_t line; /* number of the one being read, from 1 */
	/* From the first line: */
	bool has_sizes, has_samples;
	uint64_t first_line;
	struct index_job job;
	bool started;
	uint64_t nr_blank;
	char buf[READ_BYTES + LINE_MAX_BYTES];
};

/* A line, and what is in it. */
struct textline {
	const char *text; /* without its separator; lent. It becomes the name: */
	size_t len;
	uint64_t number; /* from 1 */
	struct index_record record;
};

/* Once a first line has told what all have: 1, 0 if the line is empty, or an error. The list is
 * not changed, so any number of threads may do this. */
int textlist_parse(const struct textlist *l, struct textline *line, struct shoal_err *err) MUST_USE;

/* Read once; *@ret_len is 0 at the end. It waits for input, but for a limited time: a signal that
 * comes just before waiting, or to another thread, would otherwise be noticed only with the next
 * bytes. */
int textlist_read(int fd, void *buf, size_t room, const int *stop, size_t *ret_len,
		  struct shoal_err *err) MUST_USE;

/* A line without an end, at number @line. */
int textlist_too_long(const char *text, size_t len, uint64_t line, struct shoal_err *err) MUST_USE;

/* Bytes of an entry's order: the number of its block, so that of equal names the last in the file
 * is taken. Each thread has a lane of its own, and takes blocks that rise. */
#define TEXTBLOCKS_ORDER 4u

/* Threads that pay for the rest of the list: 1 if it is not a file, or short. */
unsigned textblocks_threads(const struct textlist *l) MUST_USE;

/* Read the rest, after line @line, on as many threads. */
int textblocks_read(struct textlist *l, unsigned nr_threads, struct shoal_err *err) MUST_USE;

#endif
