#include "base/histogram.h"

uint64_t histogram_at(const struct histogram *h, double share)
{
	uint64_t nr = 0, seen = 0, want;

	for (uint32_t i = 0; i < HISTOGRAM_PLACES; i++)
		nr += h->count[i];
	if (nr == 0)
		return 0;
	want = (uint64_t)(share * (double)nr);
	want += (double)want < share * (double)nr; /* round up */
	want = want < 1 ? 1 : u64_min(want, nr);
	for (uint32_t i = 0; i < HISTOGRAM_PLACES; i++) {
		uint32_t top = i / HISTOGRAM_STEPS;

		seen += h->count[i];
		if (seen < want)
			continue;
		if (top < 1)
			return i;
		/*
		 * Places from 16 on hold numbers whose top five bits are 16 to 31; return the
		 * middle of that range.
		 */
		top--;
		return ((uint64_t)(i - top * HISTOGRAM_STEPS) << top) + (UINT64_C(1) << top) / 2;
	}
	return UINT64_MAX;
}
