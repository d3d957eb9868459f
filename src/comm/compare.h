/*
 * compare.h - ranks find out whether they are about to do the same.
 *
 * A launcher can give ranks different arguments, and nodes can have different files under one name.
 * Ranks that take different numbers of steps would wait for each other forever.
 */
#ifndef SHOAL_COMM_COMPARE_H
#define SHOAL_COMM_COMPARE_H

#include "comm/comm.h"

/*
 * Collective: compare @text, lines such as "batch: 32" that describe what this rank is about to do.
 * If one differs from rank 0's, it fails, on rank 0 with -EINVAL; the message has that rank and the
 * first line that differs. The version of Shoal is always compared, before @text.
 */
int comm_compare(struct comm *c, const char *text, struct shoal_err *err) MUST_USE;

#endif
