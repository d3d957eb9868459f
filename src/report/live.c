#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "report/live_private.h"
#include "report/page.h"
#include "report/write.h"

/* Records until the next tick: several seconds' of each rank, 700 bytes each. */
#define INBOX_MIN 64u
#define PER_RANK  4u

/* Of the results of epochs, which have about 2,000 bytes each: later ones are left out. */
#define PHASES_BYTES (1u << 20)

/* A copy, which may have failed; of nothing it is nothing. */
static const char *live_copy(const char *text, bool *ret_lost)
{
	char *copy = text ? strdup(text) : NULL;

	*ret_lost |= text && !copy;
	return copy;
}

int live_new(const struct live_head *head, struct live **ret_l, struct shoal_err *err)
{
	struct live *l = calloc(1, sizeof(*l));
	bool lost = false;
	int rc = 0;

	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->head = *head;
	l->head.name = live_copy(head->name, &lost);
	l->head.begin = live_copy(head->begin, &lost);
	l->head.config = live_copy(head->config, &lost);
	l->ended.max = l->phases.max = PHASES_BYTES;
	l->started = clock_wall();
	l->shown.au = l->shown.seconds_left = l->shown.share = l->shown.idle = (double)NAN;
	l->now = l->shown;
	l->steps = outputs_new();
	l->cap = u64_max(INBOX_MIN, (uint64_t)PER_RANK * head->nr_ranks);
	l->inbox.record = calloc(l->cap, sizeof(*l->inbox.record));
	l->taken.record = calloc(l->cap, sizeof(*l->taken.record));
	l->rank = calloc(head->nr_ranks, sizeof(*l->rank));
	pthread_mutex_init(&l->lock, NULL);
	if (lost || !l->steps || !l->inbox.record || !l->taken.record || !l->rank)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = timeline_live(head->nr_ranks, head->nr_here * head->nr_ranks,
				   head->started ? head->started : l->started, &l->timeline, err);
	if (rc < 0)
		l = live_free(l);
	*ret_l = l;
	return rc;
}

struct live *live_free(struct live *l)
{
	if (!l)
		return NULL;
	pthread_mutex_destroy(&l->lock);
	timeline_free(l->timeline);
	outputs_free(l->steps);
	buf_release(&l->ended);
	buf_release(&l->phases);
	free((char *)(uintptr_t)l->head.name);
	free((char *)(uintptr_t)l->head.begin);
	free((char *)(uintptr_t)l->head.config);
	free(l->inbox.record);
	free(l->taken.record);
	free(l->rank);
	free(l);
	return NULL;
}

/* ---- By any thread ---- */

void live_add(struct live *l, unsigned rank, const struct series_record *r)
{
	pthread_mutex_lock(&l->lock);
	if (l->inbox.nr < l->cap) {
		l->inbox.record[l->inbox.nr].rank = rank;
		l->inbox.record[l->inbox.nr++].record = *r;
	} else {
		l->nr_dropped++;
	}
	pthread_mutex_unlock(&l->lock);
}

void live_show(struct live *l, const struct live_now *now)
{
	uint64_t at = clock_now();

	pthread_mutex_lock(&l->lock);
	l->shown = *now;
	l->shown_at = at;
	pthread_mutex_unlock(&l->lock);
}

static void live_join(struct buf *to, const void *text, size_t len)
{
	if (len == 0 || to->len + len + 1 > to->max)
		return;
	if (to->len > 0)
		buf_u8(to, ',');
	buf_append(to, text, len);
}

void live_add_phase(struct live *l, const char *phase)
{
	pthread_mutex_lock(&l->lock);
	live_join(&l->ended, phase, strlen(phase));
	pthread_mutex_unlock(&l->lock);
}

/* ---- By the thread that reads ---- */

static void live_take(struct live *l, unsigned rank, const struct series_record *r)
{
	struct live_sums *s = &l->sum;

	if (rank >= l->head.nr_ranks)
		return;
	timeline_add(l->timeline, rank, r);
	s->names += r->names;
	if (r->kind != SERIES_SECOND)
		return;
	/* Without memory the steps are not drawn. */
	(void)!timeline_add_step(l->steps, rank, l->head.nr_ranks, l->head.nr_here, r);
	s->samples += r->samples;
	s->bytes += r->bytes;
	s->steps += rank == 0 ? r->nr_steps : 0; /* all ranks take the same */
	s->errors += r->errors;
	s->requests += r->requests;
	s->retries += r->retries;
	s->throttled += r->throttled;
	s->load += r->load;
	s->compute += r->compute;
	s->latency += r->latency;
	s->cpu += r->cpu;
	for (size_t i = 0; i < SERIES_PLACES; i++)
		s->count[i] += r->count[i];
	l->rank[rank].samples += r->samples;
	l->rank[rank].load += r->load;
	l->rank[rank].memory = r->memory;
}

void live_tick(struct live *l)
{
	struct live_inbox taken;

	pthread_mutex_lock(&l->lock);
	taken = l->inbox;
	l->inbox = l->taken;
	l->inbox.nr = 0;
	l->now = l->shown;
	l->now.idle += (double)(clock_now() - l->shown_at) * 1e-9;
	l->nr_lost = l->nr_dropped;
	live_join(&l->phases, l->ended.data, l->ended.len);
	l->ended.len = 0;
	pthread_mutex_unlock(&l->lock);
	l->taken = taken;
	for (size_t i = 0; i < taken.nr; i++)
		live_take(l, taken.record[i].rank, &taken.record[i].record);
}

static void live_put_now(const struct live *l, struct json *j)
{
	const struct live_now *n = &l->now;

	json_open_object(j, "now");
	json_string(j, "what", n->what);
	json_u64(j, "done", n->done);
	json_u64(j, "total", n->total);
	json_u64(j, "epoch", n->epoch);
	json_u64(j, "epochs", n->nr_epochs);
	json_u64(j, "step", n->step);
	json_u64(j, "steps", n->nr_steps);
	json_bool(j, "evaluation", n->eval);
	json_real(j, "share", n->share, 4);
	json_real(j, "eta_seconds", n->seconds_left, 6);
	json_real(j, "au_percentage", n->au, 5);
	json_real(j, "au_bar_percentage", l->head.au_bar, 5);
	json_real(j, "samples_per_second", n->samples_per_second, 6);
	json_real(j, "bytes_per_second", n->bytes_per_second, 6);
	json_u64(j, "slowest_rank", n->slowest_rank);
	json_real(j, "slowest_seconds", n->slowest_seconds, 4);
	json_real(j, "idle_seconds", n->idle, 4);
	json_u64(j, "ranks", l->head.total);
	json_u64(j, "accelerators", (uint64_t)l->head.nr_here * l->head.nr_ranks);
	json_u64(j, "samples", l->sum.samples);
	json_u64(j, "sample_bytes", l->sum.bytes);
	json_u64(j, "errors", l->sum.errors);
	json_u64(j, "dropped_records", l->nr_lost);
	json_close_object(j);
}

/* The text of the phases, as a string: the page parses it. */
static void live_put_phases(const struct live *l, struct json *j)
{
	char *text = calloc(1, l->phases.len + 3);

	if (text) {
		text[0] = '[';
		if (l->phases.len > 0)
			memcpy(text + 1, l->phases.data, l->phases.len);
		text[l->phases.len + 1] = ']';
	}
	json_string(j, "phases_text", text);
	free(text);
}

static int live_put_runs(void *self, struct json *j, struct shoal_err *err)
{
	const struct live *l = self;
	char made[REPORT_TIME_BYTES];

	(void)err;
	report_time(clock_wall(), made);
	made[19] = '\0'; /* to the second */
	json_open_object(j, NULL);
	json_bool(j, "live", true);
	json_string(j, "version", shoal_version());
	json_string(j, "made", made);
	json_open_array(j, "runs");
	json_open_object(j, NULL);
	json_string(j, "name", l->head.name);
	json_string(j, "command", l->head.command);
	json_string(j, "begin_text", l->head.begin);
	json_string(j, "effective_text", l->head.config);
	json_open_array(j, "notes");
	outputs_put_notes(l->steps, j);
	json_close_array(j);
	live_put_now(l, j);
	live_put_phases(l, j);
	outputs_put(l->steps, j, "steps");
	timeline_put(l->timeline, j, "time");
	json_close_object(j);
	json_close_array(j);
	json_close_object(j);
	return 0;
}

void live_put_data(struct live *l, struct buf *to)
{
	struct json j = { .put = json_put_buf, .self = to };

	live_tick(l);
	(void)!live_put_runs(l, &j, NULL);
}

void live_put_page(struct live *l, struct buf *to)
{
	live_tick(l);
	(void)!report_page_frame(json_put_buf, to, true, live_put_runs, l, NULL);
}
