/*
 * plan.h - what a sweep measures: every combination of the values of one or two parameters, each
 * repeated, in a random order that the seed determines.
 */
#ifndef SHOAL_SWEEP_PLAN_H
#define SHOAL_SWEEP_PLAN_H

#include "base/err.h"

#define SWEEP_PARAMETERS  2u
#define SWEEP_VALUES_MAX  64u
#define SWEEP_TEXT_MAX    64u /* bytes of a name or a value, with the NUL */
#define SWEEP_REPEATS_MAX 1000u
#define SWEEP_CEILINGS    3u /* measurements of the ceiling of a point, at most */

struct sweep_parameter {
	char name[SWEEP_TEXT_MAX];
	size_t nr;
	char value[SWEEP_VALUES_MAX][SWEEP_TEXT_MAX]; /* numbers in ascending order */
	double number[SWEEP_VALUES_MAX];              /* NAN: it is not a number */
	bool numeric;                                 /* all values are numbers */
};

struct sweep_plan {
	struct sweep_parameter parameter[SWEEP_PARAMETERS];
	size_t nr_parameters;
	unsigned repeats;
	bool ceilings; /* measure what the client can do at each point, too */
	uint64_t seed;
};

/* One measurement. */
struct sweep_job {
	size_t number; /* its name on disk, whatever the order */
	size_t point;
	unsigned repeat;
	bool ceiling;
};

/*
 * "in-flight=1,2,4..64": a list of values, and of ranges, which double: 4..64 is 4, 8, 16, 32, 64;
 * 4..20+4 is 4, 8, 12, 16, 20. Sizes may have units, other numbers fractions. -EINVAL with a
 * message.
 */
int sweep_parse_parameter(const char *text, struct sweep_parameter *ret,
			  struct shoal_err *err) MUST_USE;

size_t sweep_nr_points(const struct sweep_plan *plan);
/* Of each point: as many as repeats, so that one that the machine disturbed does not decide. */
unsigned sweep_nr_ceilings(const struct sweep_plan *plan);
size_t sweep_nr_jobs(const struct sweep_plan *plan);

/* Which value of parameter @i point @point has. */
size_t sweep_value_index(const struct sweep_plan *plan, size_t point, size_t i);
const char *sweep_value(const struct sweep_plan *plan, size_t point, size_t i);

/* Whether parameter @i is the number of ranks: not an option, but what a launcher is told. */
bool sweep_varies_ranks(const struct sweep_plan *plan, size_t i);
/* How many ranks a point has; NAN: the sweep does not vary them. */
double sweep_ranks(const struct sweep_plan *plan, size_t point);

/* All jobs in the order in which they are done: @ret has room for sweep_nr_jobs(). */
void sweep_jobs(const struct sweep_plan *plan, struct sweep_job *ret);

#endif
