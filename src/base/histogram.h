/*
 * histogram.h - durations, exact to 3 percent, in 8 KB at any number of them. Histograms of several
 * ranks are added place by place.
 */
#ifndef SHOAL_BASE_HISTOGRAM_H
#define SHOAL_BASE_HISTOGRAM_H

#include "base/base.h"

#define HISTOGRAM_STEPS  16u /* per power of two */
#define HISTOGRAM_PLACES (64u * HISTOGRAM_STEPS)

struct histogram {
	uint64_t count[HISTOGRAM_PLACES];
};

/* Numbers below 16 are exact. */
static inline uint32_t histogram_place(uint64_t v)
{
	uint32_t top = v < HISTOGRAM_STEPS ? 0 : 63u - (uint32_t)__builtin_clzll(v) - 4u;

	return top * HISTOGRAM_STEPS + (uint32_t)(v >> top);
}

static inline void histogram_add(struct histogram *h, uint64_t v)
{
	uint32_t place = histogram_place(v);

	h->count[place < HISTOGRAM_PLACES ? place : HISTOGRAM_PLACES - 1]++;
}

/*
 * The value that a fraction @share (0 to 1) of all values do not exceed; 0 if there are no values.
 */
uint64_t histogram_at(const struct histogram *h, double share);

#endif
