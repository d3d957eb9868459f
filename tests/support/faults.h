/*
 * faults.h - calls of the library that fail when their turn comes.
 *
 * The linker turns the library's calls into __wrap_...() (see tests/meson.build), which ask here.
 * A program has as many faults as it likes, static ones; each has its own calls, its own counter
 * and its own time. While none is armed, all calls go through.
 */
#ifndef SHOAL_TESTS_FAULTS_H
#define SHOAL_TESTS_FAULTS_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The calls, as bits. The 64s are what the library's own names become with large files. */
enum fault_call {
	FAULT_MALLOC = 1 << 0,
	FAULT_CALLOC = 1 << 1,
	FAULT_REALLOC = 1 << 2,
	FAULT_STRDUP = 1 << 3,
	FAULT_STRNDUP = 1 << 4,
	FAULT_PWRITE = 1 << 5,
	FAULT_PREAD = 1 << 6,
	FAULT_FSYNC = 1 << 7,
	FAULT_RENAME = 1 << 8,
	FAULT_FLOCK = 1 << 9,
	FAULT_FTRUNCATE = 1 << 10,
	FAULT_MMAP = 1 << 11,
	FAULT_OPEN = 1 << 12,
	FAULT_CLOSE = 1 << 13,
	FAULT_THREAD = 1 << 14,
	FAULT_MAP_MEMORY = 1 << 15, /* mmap64 of no file */
	FAULT_EVENTFD = 1 << 16,
	FAULT_OPENAT = 1 << 17,
	FAULT_OPENAT2 = 1 << 18,   /* by syscall() */
	FAULT_CACHESTAT = 1 << 19, /* by syscall() */
	FAULT_RING = 1 << 20,      /* making a ring */
	FAULT_REGISTER = 1 << 21,  /* registering its buffers */
	/* What a ring does is not a call: programs spoil it themselves, and ask fault_hits(). */
	FAULT_RING_OPEN = 1 << 22,
	FAULT_RING_READ = 1 << 23,
	FAULT_RING_WAIT = 1 << 24,
	FAULT_RING_TURN = 1 << 25,

	FAULT_MEMORY = FAULT_MALLOC | FAULT_CALLOC | FAULT_REALLOC | FAULT_STRDUP | FAULT_STRNDUP,
};

enum {
	FAULT_NEVER = 0, /* they are counted only */
	FAULT_ONCE = 1,
	FAULT_FROM_THEN_ON = INT_MAX,
};

struct fault {
	atomic_uint calls; /* 0: not armed */
	atomic_int nth, count, error;
	atomic_int limit; /* if not 0: every second read succeeds, with so many bytes at most */
	atomic_int nr;    /* calls since it was armed */
	atomic_int fired; /* of these failed */
};

/*
 * From the @nth of @calls on, 1 is the next, @count of them fail with @error. A read or write with
 * error 0 does half of what it should.
 */
void fault_arm(struct fault *f, unsigned calls, int nth, int count, int error);

/* Nothing fails any more. The counters stay. */
void fault_disarm(struct fault *f);

/* From now on @calls fail with @error, or none if it is 0. */
void fault_always(struct fault *f, unsigned calls, int error);

/* For what is not a call of the library's: the fault by which it fails now, or NULL. */
struct fault *fault_hits(enum fault_call call);

/* If not NULL, called before each openat2(). */
extern void (*_Atomic fault_sees_openat2)(void);

#endif
