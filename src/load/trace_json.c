/* A trace in the format that Chrome's and Perfetto's viewers read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "load/trace_private.h"

/* Waits from here on are called stalls. */
#define STALL_NS UINT64_C(1000000)

/* Lines of a viewer: reads that overlap stand on different ones. Further ones share the last. */
#define LANES_MAX 1024u

static int compare_events(const void *a, const void *b)
{
	const struct trace_event *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void put_name(struct json *j, const char *what, unsigned rank, size_t lane, const char *name)
{
	json_open_object(j, NULL);
	json_string(j, "name", what);
	json_string(j, "ph", "M");
	json_u64(j, "pid", rank);
	json_u64(j, "tid", lane);
	json_open_object(j, "args");
	json_string(j, "name", name);
	json_close_object(j);
	json_close_object(j);
}

static void put_event(struct json *j, unsigned rank, size_t lane, const struct trace_event *e)
{
	bool wait = e->kind == TRACE_WAIT, stall = wait && e->duration >= STALL_NS;

	json_open_object(j, NULL);
	json_string(j, "name", e->name);
	json_string(j, "cat", stall ? "stall" : wait ? "wait" : "read");
	json_string(j, "ph", "X");
	json_real(j, "ts", (double)e->start * 1e-3, 17);
	json_real(j, "dur", (double)e->duration * 1e-3, 17);
	json_u64(j, "pid", rank);
	json_u64(j, "tid", lane);
	if (stall)
		json_string(j, "cname", "terrible");
	json_open_object(j, "args");
	if (!wait) {
		json_u64(j, "offset", e->off);
		json_u64(j, "length", e->len);
		if (e->opened)
			json_real(j, "open_us", (double)e->opened * 1e-3, 9);
		if (e->result < 0)
			json_u64(j, "errno", (uint64_t)-e->result);
		else
			json_u64(j, "bytes", (uint64_t)e->result);
	}
	json_close_object(j);
	json_close_object(j);
}

/* The first lane that is free at @start; lane 0 is for waits. */
static size_t find_lane(const uint64_t ends[LANES_MAX], size_t nr, uint64_t start)
{
	size_t lane = 1;

	while (lane < nr && ends[lane] > start)
		lane++;
	return lane < LANES_MAX ? lane : LANES_MAX - 1;
}

void trace_put_rank(struct json *j, unsigned rank, struct trace_event *events, size_t nr)
{
	uint64_t ends[LANES_MAX] = { 0 };
	size_t nr_lanes = 1;
	char name[32];

	qsort(events, nr, sizeof(*events), compare_events);
	snprintf(name, sizeof(name), "rank %u", rank);
	put_name(j, "process_name", rank, 0, name);
	put_name(j, "thread_name", rank, 0, "waiting for batches");
	for (size_t i = 0; i < nr; i++) {
		struct trace_event *e = &events[i];
		size_t lane = e->kind == TRACE_WAIT ? 0 : find_lane(ends, nr_lanes, e->start);

		e->name[TRACE_NAME_MAX - 1] = '\0';
		if (lane == nr_lanes) {
			snprintf(name, sizeof(name), "reads %zu", lane);
			put_name(j, "thread_name", rank, lane, name);
			nr_lanes++;
		}
		ends[lane] = u64_max(ends[lane], e->start + e->duration);
		put_event(j, rank, lane, e);
	}
}
