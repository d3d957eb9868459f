/*
 * histogram.h - how long things took, within 3 percent, in 8 KB whatever their number. Histograms
 * of several ranks add up place by place.
 */
#ifndef SHOAL_BASE_HISTOGRAM_H
#define SHOAL_BASE_HISTOGRAM_H

#include "base/base.h"

#define SHOAL_HISTOGRAM_STEPS  16u /* to each power of two */
#define SHOAL_HISTOGRAM_PLACES (64u * SHOAL_HISTOGRAM_STEPS)

struct shoal_histogram {
	uint64_t count[SHOAL_HISTOGRAM_PLACES];
};

/* Numbers below 16 are exact. */
static inline uint32_t shoal_histogram_place(uint64_t v)
{
	uint32_t top = v < SHOAL_HISTOGRAM_STEPS ? 0 : 63u - (uint32_t)__builtin_clzll(v) - 4u;

	return top * SHOAL_HISTOGRAM_STEPS + (uint32_t)(v >> top);
}

static inline void shoal_histogram_add(struct shoal_histogram *h, uint64_t v)
{
	uint32_t place = shoal_histogram_place(v);

	h->count[place < SHOAL_HISTOGRAM_PLACES ? place : SHOAL_HISTOGRAM_PLACES - 1]++;
}

/* The value that @share of all are not above, from 0 to 1; 0 when there is none. */
uint64_t shoal_histogram_at(const struct shoal_histogram *h, double share);

#endif
