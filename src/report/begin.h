/*
 * begin.h - begin.json: what a command is about to do, written before it does anything, so that the
 * results of one that is killed say what they are of. docs/format/begin.md has its members.
 */
#ifndef SHOAL_REPORT_BEGIN_H
#define SHOAL_REPORT_BEGIN_H

#include "base/json.h"
#include "run/result.h"

/* The members that all commands have, into an open object. @started: ns since 1970. */
struct report_begin {
	const char *command;
	uint64_t started, ranks, cores;
};
void report_put_begin(struct json *j, const struct report_begin *b);

/* The text of a run's, once it is known how it reads. The caller frees it. */
int report_begin_text(const struct run_result *r, char **ret_text, struct shoal_err *err) MUST_USE;

#endif
