#include "report/outputs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_read.h"
#include "base/map.h"
#include "base/path.h"
#include "run/folder.h"

enum {
	EPOCHS_MAX = 256,      /* later epochs are left out */
	INTERVALS = 1024,      /* of all epochs together, about */
	INTERVALS_LEAST = 16,  /* of one epoch */
	INTERVALS_ADDED = 128, /* of one epoch at first, if the number of epochs is not known */
	GROUPS = 64,           /* of ranks */
};

struct interval {
	double sum_wait, sum_step; /* seconds, over ranks and steps */
	float max_wait;
	unsigned nr, worst_rank;
};

struct epoch_steps {
	uint64_t number;
	uint64_t width; /* steps per interval, a power of two */
	unsigned nr;    /* intervals in use */
	struct interval *all;
	float *wait; /* the longest wait, by group and interval */
};

struct outputs {
	unsigned nr_epochs, cap, nr_ranks, nr_damaged, first_damaged;
	unsigned nr_left_out;    /* epochs, of the rank that has most */
	uint64_t first_left_out; /* of them */
	struct epoch_steps epochs[EPOCHS_MAX];
};

/* ---- Intervals ---- */

static void join_pair(struct interval *to, const struct interval *from)
{
	to->sum_wait += from->sum_wait;
	to->sum_step += from->sum_step;
	to->nr += from->nr;
	if (from->max_wait > to->max_wait) {
		to->max_wait = from->max_wait;
		to->worst_rank = from->worst_rank;
	}
}

/* Double the steps per interval, so that half of the intervals become free. */
static void double_width(struct epoch_steps *e, unsigned cap)
{
	for (unsigned i = 0; i < cap; i++) {
		struct interval one = e->all[i];

		e->all[i] = (struct interval){ 0 };
		join_pair(&e->all[i / 2], &one);
	}
	for (unsigned g = 0; g < GROUPS; g++) {
		float *row = e->wait + (size_t)g * cap;

		for (unsigned i = 0; i < cap; i++) {
			float one = row[i];

			row[i] = 0;
			if (one > row[i / 2])
				row[i / 2] = one;
		}
	}
	e->width *= 2;
	e->nr = (e->nr + 1) / 2;
}

static unsigned interval_of(struct epoch_steps *e, unsigned cap, uint64_t step)
{
	while (step / e->width >= cap)
		double_width(e, cap);
	if (step / e->width >= e->nr)
		e->nr = (unsigned)(step / e->width) + 1;
	return (unsigned)(step / e->width);
}

/* Epochs come in their order, of one rank after the other or of all ranks. */
static void note_left_out(struct outputs *o, uint64_t number)
{
	if (o->nr_left_out == 0)
		o->first_left_out = number;
	if (number >= o->first_left_out + o->nr_left_out)
		o->nr_left_out = (unsigned)u64_min(number - o->first_left_out + 1, UINT32_MAX);
}

/* Give an epoch half of its intervals, so that its rows become shorter. */
static void halve_intervals(struct epoch_steps *e, unsigned cap)
{
	unsigned half = cap / 2;

	while (e->nr > half)
		double_width(e, cap);
	for (unsigned g = 1; g < GROUPS; g++)
		memmove(e->wait + (size_t)g * half, e->wait + (size_t)g * cap,
			half * sizeof(*e->wait));
}

/* The more epochs there are, the fewer intervals each has: the page must not grow with them. */
static void share_intervals(struct outputs *o)
{
	while (o->cap / 2 >= INTERVALS_LEAST && (o->nr_epochs + 1) * o->cap > INTERVALS) {
		for (unsigned i = 0; i < o->nr_epochs; i++)
			halve_intervals(&o->epochs[i], o->cap);
		o->cap /= 2;
	}
}

static int new_epoch(struct outputs *o, uint64_t number, struct epoch_steps **ret_e)
{
	struct epoch_steps *e;

	*ret_e = NULL;
	for (unsigned i = 0; i < o->nr_epochs; i++)
		if (o->epochs[i].number == number)
			*ret_e = &o->epochs[i];
	if (!*ret_e && o->nr_epochs == EPOCHS_MAX)
		note_left_out(o, number);
	if (*ret_e || o->nr_epochs == EPOCHS_MAX)
		return 0;
	share_intervals(o);
	e = &o->epochs[o->nr_epochs];
	*e = (struct epoch_steps){ .number = number, .width = 1 };
	e->all = calloc(o->cap, sizeof(*e->all));
	e->wait = calloc((size_t)GROUPS * o->cap, sizeof(*e->wait));
	if (!e->all || !e->wait) {
		free(e->all);
		free(e->wait);
		return -ENOMEM;
	}
	o->nr_epochs++;
	*ret_e = e;
	return 0;
}

/* ---- Reading a rank's file ---- */

struct output_reading {
	struct outputs *o;
	unsigned rank, group;
	/* The values that come now: */
	bool begun, wait;
	uint64_t number, step;
	struct epoch_steps *epoch; /* NULL: it is left out */
};

static void take_wait(struct output_reading *r, uint64_t step, double seconds)
{
	unsigned i = interval_of(r->epoch, r->o->cap, step);
	struct interval one = {
		.sum_wait = seconds, .max_wait = (float)seconds, .nr = 1, .worst_rank = r->rank
	};
	float *most = &r->epoch->wait[(size_t)r->group * r->o->cap + i];

	join_pair(&r->epoch->all[i], &one);
	if ((float)seconds > *most)
		*most = (float)seconds;
}

static void take_step(struct output_reading *r, uint64_t step, double seconds)
{
	unsigned i = interval_of(r->epoch, r->o->cap, step);

	r->epoch->all[i].sum_step += seconds;
}

/* The epoch of a value, and what follows the dot; NULL: the value is of no epoch. */
static const char *epoch_of_path(const char *path, uint64_t *ret_epoch)
{
	char *end;

	if (*path < '0' || *path > '9')
		return NULL;
	*ret_epoch = strtoull(path, &end, 10);
	return *end == '.' ? end + 1 : NULL;
}

/* "EPOCH.load.BLOCK.I" and "EPOCH.proc.BLOCK.I": the steps of an epoch's blocks, block after block.
 */
static int read_output(void *self, const struct json_value *v)
{
	struct output_reading *r = self;
	uint64_t number;
	const char *what = epoch_of_path(v->path, &number);
	bool wait = what && strncmp(what, "load.", 5) == 0;
	int rc = 0;

	if (!wait && !(what && strncmp(what, "proc.", 5) == 0))
		return 0;
	if (v->kind != JSON_NUMBER)
		return -EBADMSG;
	if (!r->begun || number != r->number || wait != r->wait) {
		rc = new_epoch(r->o, number, &r->epoch);
		r->begun = true;
		r->number = number;
		r->wait = wait;
		r->step = 0;
	}
	if (rc < 0 || !r->epoch)
		return rc;
	if (wait)
		take_wait(r, r->step++, v->number);
	else
		take_step(r, r->step++, v->number);
	return 0;
}

static bool rank_path(const char *folder, unsigned rank, char *buf, size_t cap)
{
	return path_join(folder, run_rank_file_name(rank, RUN_RANK_OUTPUT).text, buf, cap, NULL) ==
	       0;
}

static int count_epoch(void *self, const struct json_value *v)
{
	struct output_reading *r = self;
	uint64_t number;

	if (epoch_of_path(v->path, &number) && (!r->begun || number != r->number)) {
		r->begun = true;
		r->number = number;
		r->step++;
	}
	return 0;
}

/* How many epochs a file has, so that all of them share the intervals. */
static unsigned count_epochs(const struct map *m)
{
	struct output_reading r = { .o = NULL };

	(void)!json_read((const char *)m->addr, m->len, count_epoch, &r, NULL);
	return r.step ? (unsigned)u64_min(r.step, UINT_MAX) : 1;
}

static int outputs_read_file(struct outputs *o, const char *path, unsigned rank, unsigned nr_ranks,
			     struct shoal_err *err)
{
	struct output_reading r = {
		.o = o,
		.rank = rank,
		.group = nr_ranks <= GROUPS ? rank : (unsigned)((uint64_t)rank * GROUPS / nr_ranks)
	};
	struct map m = MAP_CLOSED;
	int rc = map_open(path, &m, err);

	if (rc < 0)
		return rc;
	if (o->cap == 0) {
		o->cap = INTERVALS / count_epochs(&m);
		if (o->cap < INTERVALS_LEAST)
			o->cap = INTERVALS_LEAST;
	}
	rc = json_read((const char *)m.addr, m.len, read_output, &r, NULL);
	if ((rc == -EBADMSG || map_faulted(&m)) && o->nr_damaged++ == 0)
		o->first_damaged = rank;
	map_close(&m);
	return rc == -ENOMEM ? err_set(err, rc, "out of memory") : 0;
}

int outputs_read(const char *folder, struct outputs **ret_o, struct shoal_err *err)
{
	struct outputs *o = calloc(1, sizeof(*o));
	char path[4096];
	int rc = 0;

	if (!o)
		return err_set(err, -ENOMEM, "out of memory");
	while (rank_path(folder, o->nr_ranks, path, sizeof(path)) && access(path, F_OK) == 0)
		o->nr_ranks++;
	for (unsigned rank = 0; rc == 0 && rank < o->nr_ranks; rank++) {
		rank_path(folder, rank, path, sizeof(path));
		rc = outputs_read_file(o, path, rank, o->nr_ranks, err);
	}
	if (rc < 0)
		o = outputs_free(o);
	*ret_o = o;
	return rc;
}

struct outputs *outputs_free(struct outputs *o)
{
	for (unsigned i = 0; o && i < o->nr_epochs; i++) {
		free(o->epochs[i].all);
		free(o->epochs[i].wait);
	}
	free(o);
	return NULL;
}

bool outputs_none(const struct outputs *o)
{
	return o->nr_ranks == 0;
}

struct outputs *outputs_new(void)
{
	return calloc(1, sizeof(struct outputs));
}

int outputs_add(struct outputs *o, uint64_t epoch, const struct outputs_step *steps)
{
	struct interval add = { .sum_wait = steps->wait,
				.sum_step = steps->seconds,
				.max_wait = (float)steps->wait_max,
				.nr = 1,
				.worst_rank = steps->rank };
	struct epoch_steps *e;
	unsigned first, last, group;
	float *most;
	int rc;

	if (o->cap == 0)
		o->cap = INTERVALS_ADDED;
	o->nr_ranks = steps->nr_ranks;
	rc = new_epoch(o, epoch, &e);
	if (rc < 0 || !e)
		return rc;
	group = steps->nr_ranks <= GROUPS
			? steps->rank
			: (unsigned)((uint64_t)steps->rank * GROUPS / steps->nr_ranks);
	last = interval_of(e, o->cap, steps->first + u64_max(steps->nr, 1) - 1);
	first = interval_of(e, o->cap, steps->first); /* the intervals may just have become wider */
	most = e->wait + (size_t)group * o->cap;
	for (unsigned i = first; i <= last; i++) {
		join_pair(&e->all[i], &add);
		most[i] = add.max_wait > most[i] ? add.max_wait : most[i];
	}
	return 0;
}

unsigned outputs_damaged(const struct outputs *o, unsigned *ret_first)
{
	*ret_first = o->first_damaged;
	return o->nr_damaged;
}

/* ---- Writing ---- */

enum column { STEP_SECONDS, WAIT_MEAN, WAIT_MAX, WORST_RANK };

static void put_column(struct json *j, const char *key, const struct epoch_steps *e, enum column c)
{
	json_open_array(j, key);
	for (unsigned i = 0; i < e->nr; i++) {
		const struct interval *v = &e->all[i];
		double nr = v->nr ? v->nr : 1;

		switch (c) {
		case STEP_SECONDS:
			json_real(j, NULL, v->sum_step / nr, 4);
			break;
		case WAIT_MEAN:
			json_real(j, NULL, 1e3 * v->sum_wait / nr, 3);
			break;
		case WAIT_MAX:
			json_real(j, NULL, 1e3 * (double)v->max_wait, 4);
			break;
		case WORST_RANK:
			json_u64(j, NULL, v->worst_rank);
			break;
		}
	}
	json_close_array(j);
}

static void outputs_put_epoch(struct json *j, const struct epoch_steps *e)
{
	json_open_object(j, NULL);
	json_u64(j, "epoch", e->number);
	json_u64(j, "width", e->width);
	put_column(j, "step_seconds", e, STEP_SECONDS);
	put_column(j, "wait_mean_ms", e, WAIT_MEAN);
	put_column(j, "wait_max_ms", e, WAIT_MAX);
	put_column(j, "worst_rank", e, WORST_RANK);
	json_close_object(j);
}

void outputs_put_notes(const struct outputs *o, struct json *j)
{
	if (o->nr_left_out > 0)
		json_format(j, NULL,
			    "steps of the last %u epochs are left out of the plots, which have "
			    "those of the first ones",
			    o->nr_left_out);
}

void outputs_put(const struct outputs *o, struct json *j, const char *key)
{
	unsigned rows = o->nr_ranks < GROUPS ? o->nr_ranks : GROUPS;

	json_open_object(j, key);
	json_u64(j, "ranks", o->nr_ranks);
	json_open_array(j, "epochs");
	for (unsigned i = 0; i < o->nr_epochs; i++)
		outputs_put_epoch(j, &o->epochs[i]);
	json_close_array(j);
	json_open_array(j, "heat_ms");
	for (unsigned g = 0; g < rows; g++) {
		json_open_array(j, NULL);
		for (unsigned i = 0; i < o->nr_epochs; i++)
			for (unsigned k = 0; k < o->epochs[i].nr; k++)
				json_real(j, NULL,
					  1e3 * (double)o->epochs[i].wait[(size_t)g * o->cap + k],
					  3);
		json_close_array(j);
	}
	json_close_array(j);
	json_close_object(j);
}
