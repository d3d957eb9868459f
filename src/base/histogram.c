#include "base/histogram.h"

uint64_t shoal_histogram_at(const struct shoal_histogram *h, double share)
{
	uint64_t nr = 0, seen = 0, want;

	for (uint32_t i = 0; i < SHOAL_HISTOGRAM_PLACES; i++)
		nr += h->count[i];
	if (nr == 0)
		return 0;
	want = (uint64_t)(share * (double)nr);
	want += (double)want < share * (double)nr; /* no fewer than the share */
	want = want < 1 ? 1 : shoal_min(want, nr);
	for (uint32_t i = 0; i < SHOAL_HISTOGRAM_PLACES; i++) {
		uint32_t top = i / SHOAL_HISTOGRAM_STEPS;

		seen += h->count[i];
		if (seen < want)
			continue;
		if (top < 1)
			return i;
		/* Places from 16 on hold numbers whose top bits are 16 to 31: the middle of them.
		 */
		top--;
		return ((uint64_t)(i - top * SHOAL_HISTOGRAM_STEPS) << top) +
		       (UINT64_C(1) << top) / 2;
	}
	return UINT64_MAX;
}
