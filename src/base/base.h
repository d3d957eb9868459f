/* base.h - the few macros and functions that every room uses. Depends on nothing. */
#ifndef SHOAL_BASE_BASE_H
#define SHOAL_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_USE               __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_LEN(a)           (sizeof(a) / sizeof((a)[0]))
#define LIKELY(x)              __builtin_expect(!!(x), 1)
#define UNLIKELY(x)            __builtin_expect(!!(x), 0)

static inline uint64_t u64_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t u64_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t u64_divide_up(uint64_t x, uint64_t by)
{
	return x / by + (x % by != 0);
}

/* x * y / by, with a product of 128 bits. With y from 0 to by: the bounds of the parts of x if it
 * is divided into `by` parts whose lengths differ by at most one. */
static inline uint64_t u64_scale(uint64_t x, uint64_t y, uint64_t by)
{
	return (uint64_t)((unsigned __int128)x * y / by);
}

/* Whether a stop was requested; @stop may be NULL. A signal handler or another thread sets it. */
static inline bool stop_requested(const int *stop)
{
	return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

#endif
