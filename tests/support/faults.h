/*
 * faults.h - calls of the library that fail at a chosen call.
 *
 * The linker redirects the library's calls to __wrap_...() (see tests/meson.build), which check for
 * armed faults. A program may have several faults, which are static; each has its own calls,
 * counters and duration. While none is armed, all calls succeed. Calls of the ring are in
 * faults_ring.c.
 */
#ifndef SHOAL_TESTS_FAULTS_H
#define SHOAL_TESTS_FAULTS_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The calls, as bits. */
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
	FAULT_MAP = 1 << 15, /* mmap() of memory; FAULT_MMAP includes it */
	/* In faults_ring.c: */
	FAULT_EVENTFD = 1 << 16,
	FAULT_RING = 1 << 17,     /* creating a ring */
	FAULT_REGISTER = 1 << 18, /* registering buffers */
	FAULT_OPENAT = 1 << 19,
	FAULT_OPENAT2 = 1 << 20,
	FAULT_CACHESTAT = 1 << 21,
	/* For calls that a program wraps itself: see fault_fails(). */
	FAULT_OWN = 1 << 24,

	FAULT_MEMORY = FAULT_MALLOC | FAULT_CALLOC | FAULT_REALLOC | FAULT_STRDUP | FAULT_STRNDUP,
};

enum {
	FAULT_NEVER = 0, /* calls are only counted */
	FAULT_ONCE = 1,
	FAULT_FROM_THEN_ON = INT_MAX,
};

struct fault {
	atomic_uint calls; /* 0: not armed */
	atomic_int nth, count, error;
	atomic_int limit; /* if not 0: every second read succeeds, with at most this many bytes */
	atomic_int nr;    /* calls since it was armed */
	atomic_int fired; /* those of them that failed */
};

/*
 * From the @nth of @calls on (1 is the next one), @count of them fail with @error. A read or write
 * with error 0 transfers half of the bytes.
 */
void fault_arm(struct fault *f, unsigned calls, int nth, int count, int error);

/* Nothing fails any more. The counters are kept. */
void fault_disarm(struct fault *f);

/* The armed fault that makes this call fail, with errno set, or NULL. All faults armed for the call
 * count it. */
struct fault *fault_fails(unsigned call);

/* Called before each openat2(), if not NULL. */
extern void (*_Atomic fault_on_openat2)(void);

#endif
