/*
 * content.h - the sorted entries of one directory, in memory or in a file.
 *
 * Names are relative to the directory; those of subdirectories end with a slash.
 */
#ifndef SHOAL_LIST_CONTENT_H
#define SHOAL_LIST_CONTENT_H

#include "base/buf.h"
#include "base/err.h"
#include "sort/run.h"

#define LIST_DIR 1u /* the tag of a subdirectory */

struct list_content {
	struct buf bytes; /* for each entry the name, the payload's length, the payload */
	struct sort_ref *refs;
	size_t nr, cap;
	size_t nr_dirs;
	int fd; /* of the file, or -1 */
	struct sort_run run;
};

/* A position in the content. */
struct list_reader {
	size_t at;
	struct sort_run_reader *run; /* with its buffer, if the content is in a file */
};

/* All zeros, except for fd, which is -1, and bytes.max. */
void list_content_release(struct list_content *c);

/* Add an entry, while it is in memory. -ENOMEM. */
int list_content_put(struct list_content *c, const struct sort_entry *e, unsigned tag) MUST_USE;

/* Entry @i in the order of adding, or after sorting in bytewise order. */
struct sort_entry list_content_at(const struct list_content *c, size_t i);

int list_content_sort(struct list_content *c) MUST_USE;

/* The bytes that it takes, including its readers. */
size_t list_content_memory(const struct list_content *c);

/* The next entry, or the next subdirectory with @dirs: 1, 0 at the end, or an error without a
 * message. The entry is lent until the reader's next step. */
int list_content_read(const struct list_content *c, struct list_reader *r, bool dirs,
		      struct sort_entry *ret_entry) MUST_USE;

#endif
