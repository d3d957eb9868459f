/* histogram.h - the names that this room has for base/histogram.h. */
#ifndef SHOAL_LOAD_HISTOGRAM_H
#define SHOAL_LOAD_HISTOGRAM_H

#include "base/histogram.h"

#define LOAD_HISTOGRAM_PLACES SHOAL_HISTOGRAM_PLACES
#define LOAD_HISTOGRAM_STEPS  SHOAL_HISTOGRAM_STEPS
#define load_histogram        shoal_histogram
#define load_histogram_add    shoal_histogram_add
#define load_histogram_at     shoal_histogram_at
#define load_histogram_place  shoal_histogram_place

#endif
