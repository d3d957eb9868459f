/*
 * ranks.h - run a function on ranks that are threads, see thread_transport.h. cmocka's asserts are
 * for the main thread only, so that ranks note what is wrong, and the main thread fails.
 */
#ifndef SHOAL_TESTS_RANKS_H
#define SHOAL_TESTS_RANKS_H

#include "comm/comm_private.h"
#include "thread_transport.h"

typedef void rank_fn(struct comm *c, int rank, int size);

/* All ranks of @w run @fn; fails if one has noted a fault. Returns the code of an abort. */
int ranks_run(struct thread_world *w, rank_fn *fn);

/* How many ranks of the current run have closed their comm. */
int ranks_closed(void);

/* The first fault is kept. ranks_check() fails with it; ranks_run() does both. */
void ranks_forget_fault(void);
void ranks_note_fault(int line, const char *condition, const char *words);
void ranks_check(const struct thread_world *w);

/* With words that help to understand it. */
#define CHECK_WORDS(condition, words)                                  \
	do {                                                           \
		if (!(condition))                                      \
			ranks_note_fault(__LINE__, #condition, words); \
	} while (0)

#define CHECK(condition)          CHECK_WORDS(condition, "")
#define CHECK_ERR(condition, err) CHECK_WORDS(condition, (err).msg)

#endif
