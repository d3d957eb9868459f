/*
 * watch.h - what all ranks do, second by second, on rank 0.
 *
 * Each rank sends what its time series has of a second to rank 0, in one mail of at most a
 * kilobyte; with more ranks than WATCH_PER_SECOND less often, so that rank 0 receives at most so
 * many mails per second. A rank that waits for another one receives mail, but rank 0 must take it
 * by run_watch_poll(), or hand mail that it polled itself to run_watch_mail().
 */
#ifndef SHOAL_RUN_WATCH_H
#define SHOAL_RUN_WATCH_H

#include "comm/comm.h"
#include "run/series.h"

#define RUN_WATCH_MAIL   0x73657269u /* its kind */
#define WATCH_PER_SECOND 64u

/* On rank 0: what @rank has done. It must be quick. */
typedef void run_watch_fn(void *self, unsigned rank, const struct series_record *r);

struct run_watch {
	run_watch_fn *record; /* the same on all ranks: whether it is NULL, for nobody watches */
	void *self;
	struct comm *comm;
	bool failed; /* to send: nothing more is sent */
};

/* How often each of so many ranks sends, in ns. */
uint64_t run_watch_interval(uint64_t nr_ranks);

/* Watch the series of this rank, from now on. Does nothing without w->record or without @s. */
void run_watch_begin(struct run_watch *w, struct series *s);

/* Rank 0: take all mail that is there. Mail of other kinds is dropped. */
int run_watch_poll(struct run_watch *w, struct shoal_err *err) MUST_USE;

/* Rank 0: whether the mail was a report of a rank; if so, it was taken. */
bool run_watch_mail(const struct run_watch *w, const struct comm_mail *mail);

#endif
