/*
 * oplog.h - a log of read operations: which bytes of which file, when, and how long it took.
 *
 * docs/format/oplog.md specifies the file. A log is published when it is complete; one that ends
 * early, or has a record that does not fit its checksum, is refused.
 */
#ifndef SHOAL_LOAD_OPLOG_H
#define SHOAL_LOAD_OPLOG_H

#include "base/err.h"

#define OPLOG_VERSION 1u
#define OPLOG_HEAD    64u
#define OPLOG_RECORD  (80u + SHOAL_NAME_MAX + 8u) /* bytes of the longest record */

struct oplog_head {
	uint64_t started; /* ns since 1970: starts of operations count from here */
	uint32_t nr_ranks;
};

/* A read. Times are in ns. */
struct oplog_op {
	uint64_t start, duration;
	uint64_t opened; /* from its start until the file was open; 0: not known */
	uint64_t off, len;
	int64_t result; /* bytes, or a negative errno */
	uint32_t rank;
	const char *name; /* below the root; lent */
};

/* What a log has besides operations. */
struct oplog_facts {
	struct oplog_head head;
	char root[SHOAL_NAME_MAX + 1]; /* where names are: a URI */
	uint64_t nr, nr_left_out;      /* operations; those that were not recorded */
};

/* ---- Writing: bytes into @to, whose length is returned ---- */

size_t oplog_pack_head(const struct oplog_head *head, uint8_t to[OPLOG_HEAD]);
size_t oplog_pack_root(const char *root, uint8_t to[OPLOG_RECORD]);
size_t oplog_pack_op(const struct oplog_op *op, uint8_t to[OPLOG_RECORD]);
size_t oplog_pack_end(uint64_t nr, uint64_t nr_left_out, uint8_t to[OPLOG_RECORD]);

/* ---- Reading ---- */

/*
 * Call @each for the operations of a log, in the order of the file, until it returns a value other
 * than 0, which is returned. -EBADMSG: it is not a log, is damaged or ends early; -EPROTONOSUPPORT:
 * it is of another version. A name lies in @data.
 */
typedef int oplog_each_fn(void *self, const struct oplog_op *op);
int oplog_read(const uint8_t *data, size_t len, oplog_each_fn *each, void *self,
	       struct oplog_facts *ret, struct shoal_err *err) MUST_USE;

#endif
