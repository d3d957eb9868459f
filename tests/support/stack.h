/* stack.h - stores on top of another store that fail or delay each call, and forward the rest. */
#ifndef SHOAL_TESTS_STACK_H
#define SHOAL_TESTS_STACK_H

#include "store/store.h"

#define STACK_DELAY_MAX_US UINT64_C(3600000000) /* an hour */

enum store_op {
	STORE_STAT,
	STORE_READ,
	STORE_CREATE,
	STORE_WRITE,
	STORE_COMMIT,
	STORE_REMOVE,
	STORE_LIST,
	STORE_SYNC,
	STORE_NR_OPS,
};

/*
 * From the @nth call of @op on (counted from 1, over all threads), @count calls fail with @rc
 * and do not reach the store below; @count 0: all of them. For STORE_LIST a call is a unit. If
 * more than one fits, the first counts.
 */
struct store_fault {
	enum store_op op;
	uint64_t nth, count;
	int rc;
	size_t short_by; /* STORE_READ with rc 0: no error, but this many bytes fewer; of a
			    whole file that is an error of the store below */
};

/* Takes over @inner, which is closed with the new one; not on failure. @faults are copied. */
int store_fault_new(struct store *inner, const struct store_fault *faults, size_t nr,
		    struct store **ret_store, struct shoal_err *err) MUST_USE;

/* How many calls have failed or were shortened so far: a sweep over @nth ends when it stays 0. */
uint64_t store_fault_fired(const struct store *s);

/* Every operation takes @delay_us longer, up to STACK_DELAY_MAX_US. @inner as above. */
int store_delay_new(struct store *inner, uint64_t delay_us, struct store **ret_store,
		    struct shoal_err *err) MUST_USE;

#endif
