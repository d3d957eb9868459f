/* trace_private.h - shared by trace.c, which records, and trace_json.c, which writes the trace. */
#ifndef SHOAL_LOAD_TRACE_PRIVATE_H
#define SHOAL_LOAD_TRACE_PRIVATE_H

#include "load/trace.h"

#define TRACE_SLOW_MAX 256u   /* the longest, per rank and kind */
#define TRACE_ALL      65536u /* sampled ones of all ranks, per kind */
#define TRACE_RANK_MAX 8192u  /* and of one rank */
#define TRACE_NAME_MAX 72u

enum trace_kind { TRACE_READ, TRACE_WAIT, TRACE_KINDS };

/* One read, or one wait for a batch. The same bytes travel between ranks. */
struct trace_event {
	uint64_t start, duration; /* ns from the start of the trace */
	uint64_t opened, off, len;
	int64_t result;
	uint64_t kind;
	char name[TRACE_NAME_MAX]; /* of a long one the end */
};

/*
 * Every @every-th event, and the longest of the others. When there are @cap, every second one of
 * those is dropped, and @every doubles.
 */
struct trace_pool {
	struct trace_event *kept, *slow;
	size_t nr, cap, nr_slow, least; /* least: the shortest of the slow ones, if all are there */
	uint64_t every, seen;
};

int trace_pool_init(struct trace_pool *p, size_t cap) MUST_USE;
void trace_pool_release(struct trace_pool *p);

/* Whether the pool wants an event of this duration, and where it goes: NULL if not. */
struct trace_event *trace_pool_take(struct trace_pool *p, uint64_t duration);

struct json;

/* Write the events of one rank, which are sorted here. */
void trace_put_rank(struct json *j, unsigned rank, struct trace_event *events, size_t nr);

#endif
