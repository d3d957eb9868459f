#include "sweep/knee.h"

#include <math.h>

/* The highest rate of the points whose latency is at most @latency; 0 if there is none. */
static double best_rate(const struct knee_point *points, size_t nr, double latency)
{
	double best = 0;

	for (size_t i = 0; i < nr; i++)
		if (points[i].rate > best && !(points[i].latency > latency))
			best = points[i].rate;
	return best;
}

/* The first point that has @rate with at most that latency; @nr if there is none. */
static size_t first_with(const struct knee_point *points, size_t nr, double rate, double latency)
{
	size_t i = 0;

	while (i < nr && !(points[i].rate >= rate && !(points[i].latency > latency)))
		i++;
	return i;
}

static struct knee knee_of_rates(const struct knee_point *points, size_t nr,
				 struct knee_rules rules)
{
	double lowest = (double)INFINITY, best, limit;
	size_t measured = 0, last = 0, at;

	for (size_t i = 0; i < nr; i++) {
		if (isnan(points[i].rate))
			continue;
		measured++;
		last = i;
		if (points[i].latency < lowest)
			lowest = points[i].latency;
	}
	if (measured < 2)
		return (struct knee){ .kind = KNEE_TOO_FEW };
	limit = lowest * rules.slower; /* infinite if no latency is known */
	best = best_rate(points, nr, (double)INFINITY) * (1 - rules.within);
	at = first_with(points, nr, best, limit);
	if (at < nr)
		return (struct knee){ .kind = at == last ? KNEE_STILL_RISING : KNEE_FOUND,
				      .at = at };
	best = best_rate(points, nr, limit) * (1 - rules.within);
	return (struct knee){ .kind = KNEE_BY_LATENCY, .at = first_with(points, nr, best, limit) };
}

/* Both the knee and the best rate, which it is judged by, must be what was measured. */
struct knee knee_find(const struct knee_point *points, size_t nr, struct knee_rules rules)
{
	struct knee knee = knee_of_rates(points, nr, rules);
	size_t best;

	if (knee.kind == KNEE_TOO_FEW)
		return knee;
	best = first_with(points, nr, best_rate(points, nr, (double)INFINITY), (double)INFINITY);
	if (points[knee.at].client)
		knee.kind = KNEE_CLIENT;
	else if (knee.kind == KNEE_FOUND && points[best].client)
		knee = (struct knee){ KNEE_CLIENT, best };
	return knee;
}
