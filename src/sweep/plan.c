#include "sweep/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- Values ---- */

/* 0.05, as of a workload's key, or a size. */
static double sweep_number_of(const char *text)
{
	char *end;
	double number = strtod(text, &end);
	uint64_t v;

	if (end > text && !*end && strspn(text, "0123456789.") == strlen(text))
		return number;
	return parse_size(text, &v) == 0 ? (double)v : (double)NAN;
}

static int add_text(struct sweep_parameter *p, const char *text, size_t len, struct shoal_err *err)
{
	if (len == 0)
		return err_set(err, -EINVAL, "'%s' has an empty value", p->name);
	if (len >= SWEEP_TEXT_MAX)
		return err_set(err, -EINVAL, "a value of '%s' has more than %u bytes", p->name,
			       SWEEP_TEXT_MAX - 1);
	if (p->nr == SWEEP_VALUES_MAX)
		return err_set(err, -EINVAL, "'%s' has more than %u values", p->name,
			       SWEEP_VALUES_MAX);
	memcpy(p->value[p->nr], text, len);
	p->value[p->nr][len] = '\0';
	p->number[p->nr] = sweep_number_of(p->value[p->nr]);
	p->numeric = p->numeric && !isnan(p->number[p->nr]);
	for (size_t i = 0; i < p->nr; i++)
		if (strcmp(p->value[i], p->value[p->nr]) == 0)
			return err_set(err, -EINVAL, "'%s' has the value '%s' twice", p->name,
				       p->value[i]);
	p->nr++;
	return 0;
}

static int add_number(struct sweep_parameter *p, uint64_t v, struct shoal_err *err)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%" PRIu64, v);

	return add_text(p, text, (size_t)len, err);
}

/* "4..64" or "4..64+4". Returns 1, 0 if it is not a range, or an error. */
static int add_range(struct sweep_parameter *p, const char *text, size_t len, struct shoal_err *err)
{
	const char *dots = memmem(text, len, "..", 2), *plus, *end = text + len;
	uint64_t from, to, step = 0;
	int rc = 0;

	if (!dots)
		return 0;
	plus = memchr(dots, '+', (size_t)(end - dots));
	if (parse_digits(text, (size_t)(dots - text), &from) < 0 ||
	    parse_digits(dots + 2, (size_t)((plus ? plus : end) - dots - 2), &to) < 0 ||
	    (plus && (parse_digits(plus + 1, (size_t)(end - plus - 1), &step) < 0 || step == 0)))
		return err_set(err, -EINVAL,
			       "'%.*s' is not a range: write 1..64, which doubles, or 4..20+4",
			       (int)len, text);
	if (from > to || (from == 0 && step == 0))
		return err_set(err, -EINVAL, "the range '%.*s' is empty or begins at 0", (int)len,
			       text);
	for (uint64_t v = from; rc == 0; v = step ? v + step : 2 * v) {
		rc = add_number(p, v, err);
		if (v > to - (step ? step : v) || to < (step ? step : v))
			break;
	}
	return rc < 0 ? rc : 1;
}

struct numbered {
	double number;
	char value[SWEEP_TEXT_MAX];
};

static int compare_numbered(const void *a, const void *b)
{
	double x = ((const struct numbered *)a)->number, y = ((const struct numbered *)b)->number;

	return (x > y) - (x < y);
}

static int sort_values(struct sweep_parameter *p, struct shoal_err *err)
{
	struct numbered all[SWEEP_VALUES_MAX] = { 0 };

	for (size_t i = 0; i < p->nr; i++) {
		all[i].number = p->number[i];
		memcpy(all[i].value, p->value[i], SWEEP_TEXT_MAX);
	}
	qsort(all, p->nr, sizeof(*all), compare_numbered);
	for (size_t i = 0; i < p->nr; i++) {
		p->number[i] = all[i].number;
		memcpy(p->value[i], all[i].value, SWEEP_TEXT_MAX);
		if (i > 0 && p->number[i] <= p->number[i - 1])
			return err_set(err, -EINVAL,
				       "'%s' has the values '%s' and '%s', which are "
				       "the same number",
				       p->name, p->value[i - 1], p->value[i]);
	}
	return 0;
}

int sweep_parse_parameter(const char *text, struct sweep_parameter *ret, struct shoal_err *err)
{
	const char *equals = strchr(text, '='), *at;
	size_t len = equals ? (size_t)(equals - text) : 0;
	int rc = 0;

	*ret = (struct sweep_parameter){ .numeric = true };
	if (len == 0 || len >= SWEEP_TEXT_MAX || !is_plain_utf8(text, strlen(text)))
		return err_set(err, -EINVAL, "'%.100s' is not NAME=VALUE,VALUE,...", text);
	memcpy(ret->name, text, len);
	for (at = equals + 1; rc == 0; at++) {
		size_t n = strcspn(at, ",");

		rc = add_range(ret, at, n, err);
		if (rc == 0)
			rc = add_text(ret, at, n, err);
		else if (rc == 1)
			rc = 0;
		at += n;
		if (!*at)
			break;
	}
	if (rc == 0 && ret->numeric)
		rc = sort_values(ret, err);
	return rc;
}

/* ---- Points and jobs ---- */

size_t sweep_nr_points(const struct sweep_plan *plan)
{
	return plan->parameter[0].nr * (plan->nr_parameters > 1 ? plan->parameter[1].nr : 1);
}

unsigned sweep_nr_ceilings(const struct sweep_plan *plan)
{
	if (!plan->ceilings)
		return 0;
	return plan->repeats < SWEEP_CEILINGS ? plan->repeats : SWEEP_CEILINGS;
}

size_t sweep_nr_jobs(const struct sweep_plan *plan)
{
	return sweep_nr_points(plan) * (plan->repeats + sweep_nr_ceilings(plan));
}

size_t sweep_value_index(const struct sweep_plan *plan, size_t point, size_t i)
{
	size_t nr = plan->parameter[0].nr;

	return i == 0 ? point % nr : point / nr;
}

const char *sweep_value(const struct sweep_plan *plan, size_t point, size_t i)
{
	return plan->parameter[i].value[sweep_value_index(plan, point, i)];
}

bool sweep_varies_ranks(const struct sweep_plan *plan, size_t i)
{
	return strcmp(plan->parameter[i].name, "ranks") == 0;
}

double sweep_ranks(const struct sweep_plan *plan, size_t point)
{
	for (size_t i = 0; i < plan->nr_parameters; i++)
		if (sweep_varies_ranks(plan, i))
			return plan->parameter[i].number[sweep_value_index(plan, point, i)];
	return (double)NAN;
}

/* splitmix64: any seed is good. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/*
 * Every round has each point once, in an order of its own, so that a sweep that is interrupted has
 * measured all points about equally often, and a drift of the machine hits all of them alike.
 */
void sweep_jobs(const struct sweep_plan *plan, struct sweep_job *ret)
{
	size_t points = sweep_nr_points(plan), rounds = plan->repeats + sweep_nr_ceilings(plan);
	uint64_t state = plan->seed;

	for (size_t round = 0; round < rounds; round++) {
		struct sweep_job *jobs = ret + round * points;

		for (size_t i = 0; i < points; i++) {
			size_t k = (size_t)u64_scale(next_random(&state) >> 32, i + 1,
						     UINT64_C(1) << 32);

			jobs[i] = jobs[k];
			jobs[k] = (struct sweep_job){ .number = round * points + i,
						      .point = i,
						      .repeat = (unsigned)round,
						      .ceiling = round >= plan->repeats };
		}
	}
}
