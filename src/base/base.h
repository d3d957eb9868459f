/* base.h - the few macros that every room uses. Depends on nothing. */
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

#endif
