/*
 * replay.h - do the reads of a log again, at the recorded times or as fast as possible.
 *
 * Each rank replays the operations of the recorded ranks r with r % ranks equal to its own number.
 * Operations that failed when they were recorded are left out.
 */
#ifndef SHOAL_LOAD_REPLAY_H
#define SHOAL_LOAD_REPLAY_H

#include "base/histogram.h"
#include "comm/comm.h"
#include "load/engine.h"
#include "load/oplog.h"

struct replay_options {
	struct comm *comm;
	const char *store; /* where to read; NULL: where the log was recorded */
	const struct shoal_store_config *config;
	enum load_engine_kind engine;
	bool direct;
	bool fast;          /* as fast as possible */
	unsigned in_flight; /* per rank; 0: as many as the log had at once */
	uint64_t memory;    /* of buffers, per rank: fewer are in flight if more would be needed */
	const int *stop;
	/* Called several times per second with what this rank has done, of how many operations. May
	 * be NULL. */
	void (*progress)(void *self, uint64_t nr_done, uint64_t nr_all, uint64_t bytes);
	void *self;
};

/* Over all ranks. */
struct replay_result {
	uint64_t nr, bytes;          /* operations done, and bytes they delivered */
	uint64_t nr_recorded_errors; /* left out: they failed when they were recorded */
	uint64_t nr_errors;          /* failed now */
	uint64_t nr_differ;          /* delivered another number of bytes than recorded */
	uint64_t in_flight;          /* per rank, at most */
	double seconds, recorded_seconds;
	struct histogram latency, recorded_latency;
	struct histogram late; /* how long after its time an operation began */
	struct oplog_facts log;
	bool interrupted;
	char engine[32];
	char first_error[300]; /* of this rank */
};

/* Collective. @ret is large. */
int replay_run(const char *path, const struct replay_options *o, struct replay_result *ret,
	       struct shoal_err *err) MUST_USE;

#endif
