/*
 * knee.h - where throughput stops growing: pure arithmetic over the points of one curve.
 *
 * The knee is the smallest value whose throughput is within @within of the best of the curve, and
 * whose latency has not grown beyond @slower times the lowest of the curve. Beyond the knee more
 * load only makes requests wait for each other.
 *
 * Where the client is the limit, throughput stops growing as well, and says nothing about what is
 * measured: such a point is no knee.
 */
#ifndef SHOAL_SWEEP_KNEE_H
#define SHOAL_SWEEP_KNEE_H

#include "base/base.h"

struct knee_point {
	double value;   /* ascending over the curve */
	double rate;    /* NAN: it could not be measured, and is left out */
	double latency; /* NAN: not known, so not too long */
	bool client;    /* the client was the limit there */
};

struct knee_rules {
	double within; /* share of the best rate: 0.05 */
	double slower; /* times the lowest latency: 4 */
};

enum knee_kind {
	KNEE_FOUND,
	/* Where the best rate is reached, latency is too long: the smallest value within @within of
	 * the best rate that is reached before. */
	KNEE_BY_LATENCY,
	KNEE_STILL_RISING, /* only the last value is near the best: the knee lies beyond */
	/* Throughput stops growing because the client can do no more: from this value on. */
	KNEE_CLIENT,
	KNEE_TOO_FEW, /* fewer than two points were measured */
};

struct knee {
	enum knee_kind kind;
	size_t at; /* the point; of no meaning for KNEE_TOO_FEW */
};

struct knee knee_find(const struct knee_point *points, size_t nr, struct knee_rules rules);

#endif
