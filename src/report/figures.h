/*
 * figures.h - read the results of a measurement back: its figures, each with one value per epoch
 * or repeat, and the settings it ran with.
 */
#ifndef SHOAL_REPORT_FIGURES_H
#define SHOAL_REPORT_FIGURES_H

#include "base/err.h"

/* More epochs or repeats are counted, and only so many are kept: the first. */
#define FIGURES_MAX 1000u

enum figure {
	FIGURE_AU,      /* per cent */
	FIGURE_SAMPLES, /* per second */
	FIGURE_BYTES,   /* per second */
	FIGURE_P50,     /* of the latency of samples, in ms */
	FIGURE_P99,
	FIGURE_CPU,    /* us per sample */
	FIGURE_CACHED, /* share of bytes that were in the page cache, per cent */
	FIGURE_NAMES,  /* listed per second */
	FIGURE_FILES,  /* written per second */
	FIGURE_NR,
};

/* What kind of command they are of. */
enum figures_kind { FIGURES_NONE, FIGURES_RUN, FIGURES_READ, FIGURES_INDEX, FIGURES_DATAGEN };

struct figures_values {
	size_t nr;
	double value[FIGURES_MAX];
};

/* A setting, or another fact that is no measurement: a path such as "shoal.engine". */
struct figures_fact {
	char *key, *value;
};

struct figures {
	enum figures_kind kind;
	struct figures_values of[FIGURE_NR];
	struct figures_fact *facts; /* in the order of the file */
	size_t nr_facts;
	bool partial;  /* it was interrupted, or has not ended */
	bool not_once; /* the audit failed */
	char version[32];
};

/* How a figure is called, and whether more of it is better: 1, worse: -1, or neither: 0. */
const char *figure_name(enum figure f);
int figure_better(enum figure f);

/* The value of a fact, or NULL. */
const char *figures_fact(const struct figures *f, const char *key);

/*
 * Take the figures out of what a command printed with its option for JSON, or wrote to its results.
 * What was measured once has one value. -EBADMSG: it is not JSON, or not such results. Release it
 * in any case; it is large, so put it into the heap.
 */
int figures_parse(const char *text, size_t len, struct figures *ret,
		  struct shoal_err *err) MUST_USE;

/*
 * The same from a file, or from a results folder of any command. -ENOENT: a folder
 * without any: that of a run which was killed has none.
 */
int figures_load(const char *path, struct figures *ret, struct shoal_err *err) MUST_USE;

/* The command that they are of: "run". */
const char *figures_command(enum figures_kind kind);

/* One value per figure, the mean: of a result that is itself one of several repeats. */
void figures_average(struct figures *f);

/* Add the values of @more, another result of the same, to those of @f. */
void figures_join(struct figures *f, const struct figures *more);

void figures_release(struct figures *f);

#endif
