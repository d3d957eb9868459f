/* The audit of a phase, over all ranks and over its parts. */
#include <string.h>

#include "run/run_private.h"

void run_audit_note(struct phase *phase)
{
	struct run_audit *a = &phase->delivered;
	struct shoal_load_stats s;

	load_counts(phase->loader, &s);
	a->samples = s.nr_samples;
	a->bytes_asked = s.bytes_asked;
	a->bytes_delivered = s.bytes_delivered;
	memcpy(a->got, s.sum_ids, sizeof(s.sum_ids));
	memcpy(a->got + 2, s.sum_order, sizeof(s.sum_order));
}

/* Add the audit of the earlier part of this phase, if it was saved. */
static void add_kept_audit(const struct run *run, const struct phase *phase, struct run_audit *a)
{
	const struct run_result_phase *cut = &run->cut;
	const struct run_audit *kept = &cut->audit;

	/* If the run was killed after it was saved there are more steps than it covers. */
	if (cut->epoch != phase->p->epoch || cut->eval != phase->p->eval ||
	    cut->steps != phase->first_step || cut->steps == 0)
		return;
	a->from_step = kept->from_step;
	a->samples += kept->samples;
	a->bytes_asked += kept->bytes_asked;
	a->bytes_delivered += kept->bytes_delivered;
	a->due += kept->due;
	for (size_t i = 0; i < ARRAY_LEN(a->got); i++)
		a->got[i] += kept->got[i];
	for (size_t i = 0; i < ARRAY_LEN(a->expected); i++)
		a->expected[i] += kept->expected[i];
}

int run_audit_take(const struct run *run, const struct phase *phase, struct shoal_err *err)
{
	struct run_result_phase *p = phase->p;
	struct run_audit a = phase->delivered;
	int rc = comm_reduce(run->comm, COMM_SUM, (uint64_t *)(void *)&a,
			     sizeof(a) / sizeof(uint64_t), err);

	if (rc < 0)
		return rc;
	a.from_step = phase->first_step;
	a.due = run->tally.nr_expected;
	memcpy(a.expected, run->tally.expected, sizeof(a.expected));
	add_kept_audit(run, phase, &a);
	p->audit = a;
	p->proof = run->tally.errors == 0 && a.samples == a.due &&
				   memcmp(a.got, a.expected, sizeof(a.expected)) == 0
			   ? RUN_PROVEN
			   : RUN_WRONG;
	/* An interrupted phase is not proven, nor is one that read nothing. */
	if ((phase->stopped && p->steps < phase->steps) || a.from_step == p->steps)
		p->proof = RUN_NOT_PROVEN;
	return 0;
}
