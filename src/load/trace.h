/*
 * trace.h - record the reads of a run: a trace to look at, and a log to replay.
 *
 * The trace is for viewers of Chrome's trace format. It has a sample of the reads and of the waits
 * for batches, and always the longest of both, so that stalls are in it; its size is bounded at any
 * length of run. The log has every read, up to TRACE_LOG_MAX bytes per rank. Both are written when
 * the measurement ends: what was recorded until then is kept in memory, and in a file without a
 * name next to the log.
 *
 * A trace belongs to the thread that takes the batches. NULL, where nothing is recorded, is fine
 * for all but trace_open().
 */
#ifndef SHOAL_LOAD_TRACE_H
#define SHOAL_LOAD_TRACE_H

#include "comm/comm.h"
#include "shoal.h"

#define TRACE_LOG_MAX (UINT64_C(1) << 30)

struct trace;

struct trace_options {
	const char *trace, *log; /* paths, or NULL; lent for the call */
	const char *root;        /* the URI that names are relative to; lent for the call */
	struct comm *comm;       /* lent */
};

/*
 * Whether trace_open() would refuse the paths: because of what is there, or, if @o->root is not
 * NULL, because they are beside data and listings would not recognise them. Writes nothing.
 */
int trace_check(const struct trace_options *o, struct shoal_err *err) MUST_USE;

/*
 * Collective. *@ret_trace is NULL if there is nothing to record. Rank 0 opens the files here, so
 * that a path that cannot be written ends a run before it begins.
 */
int trace_open(const struct trace_options *o, struct trace **ret_trace,
	       struct shoal_err *err) MUST_USE;

/* A batch that was asked for and arrived at these times, by clock_now(), and is still held. */
void trace_batch(struct trace *t, const struct shoal_batch *batch, uint64_t asked,
		 uint64_t arrived);

/* Collective, unless the comm has failed: write both files. */
int trace_finish(struct trace *t, struct shoal_err *err) MUST_USE;

/* Without trace_finish() no file is left. Returns NULL. */
struct trace *trace_close(struct trace *t);

#endif
