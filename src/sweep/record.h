/*
 * record.h - what each measurement of a sweep gave, in a file of its own, which exists once the
 * measurement is over. A sweep that was killed goes on after those.
 */
#ifndef SHOAL_SWEEP_RECORD_H
#define SHOAL_SWEEP_RECORD_H

#include "sweep/plan.h"

enum sweep_figure {
	SWEEP_SAMPLES, /* per second */
	SWEEP_BYTES,   /* per second */
	SWEEP_P50,     /* latency of samples, ms */
	SWEEP_P99,
	SWEEP_CPU,        /* cores that all ranks kept busy */
	SWEEP_CORES,      /* that they may use, on all of their nodes */
	SWEEP_CLIENT_CPU, /* and how many they can, if --threads says it; NAN: any number */
	SWEEP_CACHED,     /* per cent of the bytes that came from the page cache */
	SWEEP_NR_FIGURES,
};

const char *sweep_figure_name(enum sweep_figure f); /* its key in JSON */

struct sweep_record {
	bool there;
	double figure[SWEEP_NR_FIGURES]; /* NAN: not known */
	char error[256];                 /* why there are no figures; "": there are */
};

/*
 * The figures in what a command printed as JSON: an error in the record if there are none, or if
 * the command did not have @ranks ranks (NAN: any number).
 */
void sweep_take_output(const char *text, size_t len, double ranks, struct sweep_record *ret);

/* Write the record of a job, or read it: *@ret is not there if there is no whole one. */
int sweep_record_write(const char *folder, const struct sweep_plan *plan,
		       const struct sweep_job *job, const struct sweep_record *r,
		       struct shoal_err *err) MUST_USE;
void sweep_record_read(const char *folder, const struct sweep_job *job, struct sweep_record *ret);

#endif
