#include "index/inside.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/publish.h"
#include "base/queue.h"
#include "base/text.h"
#include "catalog/extents_writer.h"
#include "format/samples.h"
#include "index/inside_file.h"
#include "index/pace.h"
#include "store/posix/posix.h"

#define THREADS_MAX 256u
#define PER_THREAD  8u  /* files in the window */
#define TAKEN_MAX   16u /* files that a thread takes at once */

/* How often it is checked whether the caller wants to stop. */
#define STOP_NS 100000000u

/* ---- The kind ---- */

struct inside_kind {
	const struct samples_kind *kind; /* NULL: by the file's extension */
	uint64_t record_len;
};

static int parse_kind(const char *text, struct inside_kind *ret, struct shoal_err *err)
{
	struct inside_kind k = { 0 };

	if (strncmp(text, "fixed:", 6) == 0) {
		if (parse_u64(text + 6, &k.record_len) < 0 || k.record_len == 0)
			return err_set(err, -EINVAL,
				       "'%.100s': give the bytes per record, as fixed:4096", text);
		k.kind = samples_kind_by_name("fixed");
	} else if (strcmp(text, "auto") != 0) {
		k.kind = samples_kind_by_name(text);
		if (!k.kind || strcmp(text, "fixed") == 0)
			return err_set(err, -EINVAL, "unknown kind of samples '%.100s'", text);
	}
	*ret = k;
	return 0;
}

int index_inside_check(const char *kind, struct shoal_err *err)
{
	struct inside_kind k;

	return parse_kind(kind, &k, err);
}

/* ---- One file ---- */

/* A file of the window. */
struct slot {
	bool done; /* atomic: the thread that set it no longer uses the slot */
	uint64_t size;
	const struct samples_kind *kind;
	struct cat_layout layout;
	struct etag etag;
	uint64_t nr;
	bool known; /* from an earlier catalog: the file was not opened */
	bool uncut; /* its samples are not contiguous */
	int rc;
	struct shoal_err err;
	char name[SHOAL_NAME_MAX + 1];
	size_t name_len;
};

static bool inside_is_whole(const struct samples_kind *kind)
{
	return strcmp(samples_kind_name(kind), "whole") == 0;
}

static int take_extent(void *self, const struct samples_extent *e)
{
	return cat_layout_add(self, &(struct shoal_extent){ e->off, e->len, e->rows });
}

static uint64_t latest_ns(const struct stat *st)
{
	const struct timespec *a = &st->st_mtim, *b = &st->st_ctim;
	const struct timespec *t = a->tv_sec != b->tv_sec ? (a->tv_sec > b->tv_sec ? a : b)
							  : (a->tv_nsec > b->tv_nsec ? a : b);

	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

/* The file as it is now: 1, or 0 if it is not of a directory tree, or a negative errno. */
static int stat_now(const struct inside_file *f, struct stat *ret_stat)
{
	const struct store_posix *files = store_posix_of(f->store);
	int rc = files ? store_check_name_for(f->store, f->name, NULL) : 0;

	if (rc == 0 && files)
		rc = store_posix_stat_file(files, f->name, ret_stat);
	return rc < 0 ? rc : files != NULL;
}

/* Whether an earlier catalog knows the inside of the file; sets its current size. */
static bool find_known(const struct index_known *known, struct slot *s, struct inside_file *f)
{
	struct index_known_file now = { .name = s->name, .len = s->name_len, .etag = s->etag };
	struct stat st = { 0 };
	int rc = stat_now(f, &st);

	if (rc < 0)
		return false; /* opening the file will report the error */
	if (rc > 0) {
		s->size = f->size = (uint64_t)st.st_size;
		now.changed = latest_ns(&st);
		now.coarse = st.st_mtim.tv_nsec == 0 && st.st_ctim.tv_nsec == 0;
	}
	now.size = s->size;
	s->known = index_known_find(known, &now, &s->layout, &s->nr) > 0;
	s->uncut = s->known && s->nr == 1 && s->layout.nr == 0 && !samples_kind_covers(s->kind);
	return s->known;
}

static int find_by_opening(struct slot *s, struct inside_file *f, uint64_t record_len, bool verify)
{
	struct format_source source;
	int rc = inside_open(f, &source, &s->err), checked;

	source.verify = verify;
	s->size = f->size;
	if (rc == 0) {
		rc = samples_find(s->kind, record_len, &source, take_extent, &s->layout, &s->err);
		checked = inside_check_size(f, &s->err); /* an error may follow from another size */
		rc = checked < 0 ? checked : rc;
	}
	if (rc == 0)
		rc = cat_layout_finish(&s->layout);
	if (s->layout.runs.rc == -ENOMEM)
		rc = err_set(&s->err, -ENOMEM, "out of memory");
	else if (s->layout.runs.rc < 0)
		rc = spill_failed(&s->err, s->layout.runs.rc, path_tmp_dir(s->layout.tmp_dir));
	inside_close(f);
	s->uncut = rc == -ENOTSUP;
	s->nr = s->uncut ? 1 : s->layout.nr;
	return s->uncut ? 0 : rc;
}

/* The size of a file of a list without sizes. */
static int find_size(struct slot *s, struct inside_file *f)
{
	struct store_stat found = { .size = 0 };
	struct stat st = { 0 };
	int rc;

	if (s->size != SHOAL_SIZE_UNKNOWN)
		return 0;
	rc = stat_now(f, &st);
	if (rc == 0)
		rc = store_stat(f->store, f->name, &found, &s->err);
	else if (rc == -EXDEV)
		rc = store_posix_leads_out(f->name, &s->err);
	else if (rc < 0)
		rc = err_set_errno(&s->err, rc, "cannot stat it");
	else if (!S_ISREG(st.st_mode))
		rc = err_set(&s->err, S_ISDIR(st.st_mode) ? -EISDIR : -ESPIPE,
			     "it is not a regular file");
	else
		found.size = (uint64_t)st.st_size;
	s->size = f->size = found.size;
	return rc < 0 ? rc : 0;
}

static int find_in_file(const struct index_inside *in, struct slot *s, struct inside_file *f,
			uint64_t record_len)
{
	bool opens =
		in->regular && store_posix_of(in->store) && !in->known && !inside_is_whole(s->kind);
	struct stat st = { 0 };
	int rc = opens ? 0 : find_size(s, f);

	if (rc < 0)
		return rc;
	if (inside_is_whole(s->kind)) {
		s->nr = 1;
		if (in->known && stat_now(f, &st) > 0)
			s->size = (uint64_t)st.st_size;
		return 0;
	}
	if (!samples_kind_has_sides(s->kind) && in->known && find_known(in->known, s, f))
		return 0;
	return find_by_opening(s, f, record_len, in->verify);
}

/* ---- The window ---- */

struct inside_crew {
	const struct index_inside *in;
	struct inside_kind kind;
	struct slot *slots;
	unsigned nr;
	pthread_mutex_t lock; /* protects everything below, unless it says otherwise */
	pthread_cond_t ready, done;
	uint64_t next;    /* the first slot that no thread has taken; counts up */
	uint64_t end;     /* those before it are filled; counts up */
	uint64_t awaited; /* the slot whose end is signalled as done */
	unsigned nr_waiting;
	bool stop;
	int stop_now;           /* atomic; the same, for threads that are looking into files */
	uint64_t filled;        /* as @end, before threads know; like the rest the owner's */
	struct index_pace pace; /* cores: 0 if all threads are started at once */
	unsigned nr_threads, nr_started;
	pthread_t thread[THREADS_MAX];
};

static struct slot *inside_slot(const struct inside_crew *c, uint64_t at)
{
	return &c->slots[at % c->nr];
}

static void look_into(struct inside_crew *c, struct slot *s, struct inside_file *f)
{
	if (f) {
		f->store = c->in->store;
		f->name = s->name;
		f->size = s->size;
		s->kind = samples_kind_of_file(c->kind.kind, s->name, s->name_len);
		s->rc = find_in_file(c->in, s, f, c->kind.record_len);
	} else {
		s->rc = err_set(&s->err, -ENOMEM, "out of memory");
	}
	__atomic_store_n(&s->done, true, __ATOMIC_RELEASE);
}

/*
 * Several files at a time, if there are enough for all threads: with one, taking the lock and
 * waking others cost as much as looking into a small file.
 */
static void *inside_work(void *arg)
{
	struct inside_crew *c = arg;
	struct inside_file *f = calloc(1, sizeof(*f));

	pthread_mutex_lock(&c->lock);
	for (;;) {
		uint64_t at, to;

		while (c->next == c->end && !c->stop) {
			c->nr_waiting++;
			pthread_cond_wait(&c->ready, &c->lock);
			c->nr_waiting--;
		}
		if (c->stop)
			break;
		at = c->next;
		to = u64_max(1, u64_min((c->end - at) / (2 * c->nr_started), TAKEN_MAX)) + at;
		c->next = to;
		pthread_mutex_unlock(&c->lock);
		for (uint64_t i = at; i < to && !stop_requested(&c->stop_now); i++)
			look_into(c, inside_slot(c, i), f);
		pthread_mutex_lock(&c->lock);
		if (at <= c->awaited && c->awaited < to)
			pthread_cond_signal(&c->done);
	}
	pthread_mutex_unlock(&c->lock);
	free(f);
	return NULL;
}

/* Put the cursor's next file into the window. 0 at the end. */
static int fill_slot(struct inside_crew *c, const struct shoal_catalog *names,
		     struct shoal_cursor *cursor, struct shoal_err *err)
{
	struct slot *s = inside_slot(c, c->filled);
	uint64_t id = c->filled;
	const char *name;
	size_t len;
	int rc = shoal_cursor_next(cursor, &name, &len), size_rc = 0;

	if (rc > 0)
		size_rc = shoal_catalog_size(names, id, &s->size);
	if (rc > 0 && size_rc == 0)
		size_rc = catalog_etag_of(names, id, &s->etag);
	if (rc < 0 || size_rc < 0)
		return shoal_catalog_explain(names, rc < 0 ? rc : size_rc, err);
	if (rc == 0)
		return 0;
	memcpy(s->name, name, len);
	s->name[len] = '\0';
	s->name_len = len;
	s->rc = 0;
	s->nr = 0;
	s->known = s->uncut = s->done = false;
	s->err.msg[0] = '\0';
	cat_layout_clear(&s->layout);
	c->filled++;
	return 1;
}

/* Let threads take what is filled. */
static void inside_announce(struct inside_crew *c)
{
	pthread_mutex_lock(&c->lock);
	c->end = c->filled;
	if (c->nr_waiting > 0)
		pthread_cond_broadcast(&c->ready);
	pthread_mutex_unlock(&c->lock);
}

/* Fill the window behind @put. 0 if there are no more files. */
static int fill_window(struct inside_crew *c, const struct shoal_catalog *names,
		       struct shoal_cursor *cursor, uint64_t put, struct shoal_err *err)
{
	int more = 1;

	while (more > 0 && c->filled - put < c->nr)
		more = fill_slot(c, names, cursor, err);
	inside_announce(c);
	return more;
}

/* ---- Writing ---- */

/* A file that is a single sample needs no extent. */
static bool needs_layout(const struct slot *s)
{
	const struct cat_layout *l = &s->layout;

	return l->nr > 0 && !s->uncut && !inside_is_whole(s->kind) &&
	       !(l->nr == 1 && l->longest == s->size && l->last.rows == 1);
}

static int inside_put_file(struct inside_crew *c, struct slot *s, struct shoal_writer *to,
			   struct shoal_index_result *result, struct shoal_err *err)
{
	const struct cat_layout *layout = needs_layout(s) ? &s->layout : NULL;
	char etag[SHOAL_ETAG_MAX + 1], words[600];
	int rc = 0;

	if (s->rc < 0) {
		/* Nevertheless no file is left out for a reason that is not its own. */
		if (!c->in->keep_going || s->rc == -ENOMEM || s->layout.runs.rc < 0)
			return err_set_as(err, s->rc, &s->err, "'%.512s': %s", s->name, s->err.msg);
		snprintf(words, sizeof(words), "'%.300s': %.250s", s->name, s->err.msg);
		if (c->in->options->warn)
			c->in->options->warn(c->in->options->self, words);
		result->nr_unreadable++;
		result->nr_names--;
		return 0;
	}
	if (s->uncut && result->nr_uncut == 0 && s->err.msg[0] && c->in->options->warn) {
		snprintf(words, sizeof(words), "'%.300s' is taken as one sample: %.250s", s->name,
			 s->err.msg);
		c->in->options->warn(c->in->options->self, words);
	}
	etag_print(&s->etag, etag);
	if (c->in->parts && !s->known && !inside_is_whole(s->kind)) {
		struct index_parts_file part = { .name = s->name,
						 .len = s->name_len,
						 .size = s->size,
						 .nr_samples = s->nr,
						 .etag = *etag ? etag : NULL,
						 .layout = layout };

		rc = index_parts_add(c->in->parts, &part, err);
	}
	writer_set_layout(to, layout);
	if (rc == 0)
		rc = shoal_writer_add_object(to, s->name, s->name_len, s->size, s->nr,
					     *etag ? etag : NULL, err);
	if (rc == 0)
		rc = writer_count_format(to, samples_kind_name(s->kind), s->nr, s->uncut, err);
	result->nr_samples += s->nr;
	result->nr_uncut += s->uncut;
	result->nr_known += s->known;
	return rc;
}

static int inside_check_stop(const struct shoal_index_options *o, uint64_t nr, uint64_t nr_all,
			     struct shoal_err *err)
{
	if (stop_requested(o->stop))
		return err_set(err, -ECANCELED, "interrupted");
	if (nr % 1024 == 0 && o->progress)
		o->progress(o->self, &(struct shoal_index_progress){ .sealing = true,
								     .nr_names = nr,
								     .where = "",
								     .nr_all = nr_all });
	return 0;
}

static int inside_start_threads(struct inside_crew *c, unsigned nr)
{
	while (c->nr_started < nr) {
		if (thread_start(&c->thread[c->nr_started], inside_work, c) < 0) {
			c->nr_threads = c->nr_started; /* fewer are enough */
			break;
		}
		pthread_mutex_lock(&c->lock);
		c->nr_started++;
		pthread_mutex_unlock(&c->lock);
	}
	return c->nr_started ? 0 : -EAGAIN;
}

/* Threads wait for a disk or a server: start all of them. */
static void inside_start_more(struct inside_crew *c)
{
	uint64_t used = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	bool at_work;

	if (!index_pace_is_due(&c->pace))
		return;
	for (unsigned i = 0; i < c->nr_started; i++)
		used += index_pace_used(c->thread[i]);
	pthread_mutex_lock(&c->lock);
	at_work = c->nr_waiting == 0 && c->next < c->end;
	pthread_mutex_unlock(&c->lock);
	if (index_pace_wants_more(&c->pace, used, at_work))
		(void)!inside_start_threads(c, c->nr_threads);
}

/* Wait until a slot is done or the caller wants to stop, and look meanwhile whether more threads
 * would help. */
static void wait_for_slot(struct inside_crew *c, uint64_t at)
{
	const bool *done = &inside_slot(c, at)->done;

	while (!__atomic_load_n(done, __ATOMIC_ACQUIRE) && !stop_requested(c->in->options->stop)) {
		bool all = c->nr_started == c->nr_threads;
		struct timespec until =
			clock_time(all ? clock_now() + STOP_NS : c->pace.looked_ns + INDEX_PACE_NS);

		pthread_mutex_lock(&c->lock);
		c->awaited = at;
		if (!__atomic_load_n(done, __ATOMIC_ACQUIRE))
			pthread_cond_timedwait(&c->done, &c->lock, &until);
		pthread_mutex_unlock(&c->lock);
		if (!all)
			inside_start_more(c);
	}
}

/*
 * The oldest slot, when it is done; NULL if the caller wants to stop before. To be woken up for
 * each file would cost as much as looking into a small one, so the owner that has to wait does so
 * until half of the window is done.
 */
static struct slot *wait_for_oldest(struct inside_crew *c, uint64_t at)
{
	struct slot *s = inside_slot(c, at);

	if (!__atomic_load_n(&s->done, __ATOMIC_ACQUIRE)) {
		wait_for_slot(c, at + (c->end - at) / 2);
		wait_for_slot(c, at);
	}
	return __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) ? s : NULL;
}

/*
 * The window is filled again when a quarter of it is free, so that threads find many files at once.
 */
static int inside_all(struct inside_crew *c, const struct shoal_catalog *names,
		      struct shoal_cursor *cursor, struct shoal_writer *to,
		      struct shoal_index_result *result, struct shoal_err *err)
{
	struct shoal_catalog_info info;
	uint64_t put = 0;
	struct slot *s;
	int more = 1, rc = 0;

	shoal_catalog_info(names, &info);
	while (rc == 0 && (more || put < c->filled)) {
		if (more && c->filled - put <= c->nr - c->nr / 4) {
			more = fill_window(c, names, cursor, put, err);
			rc = more < 0 ? more : 0;
			continue;
		}
		s = wait_for_oldest(c, put);
		rc = s ? inside_put_file(c, s, to, result, err)
		       : err_set(err, -ECANCELED, "interrupted");
		if (rc == 0)
			rc = inside_check_stop(c->in->options, ++put, info.nr_files, err);
	}
	return rc;
}

/* ---- All of it ---- */

static int run_crew(struct inside_crew *c, const struct shoal_catalog *names,
		    struct shoal_writer *to, struct shoal_index_result *result,
		    struct shoal_err *err)
{
	unsigned first = c->in->nr_cores ? c->in->nr_cores : c->nr_threads;
	struct shoal_cursor *cursor = NULL;
	int rc = shoal_cursor_new(names, 0, &cursor, err);

	if (rc < 0)
		return rc;
	index_pace_start(&c->pace, c->in->nr_cores);
	rc = inside_start_threads(c, (unsigned)u64_min(first, c->nr_threads));
	rc = rc == 0 ? inside_all(c, names, cursor, to, result, err)
		     : err_set(err, rc, "cannot start a thread");
	__atomic_store_n(&c->stop_now, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->ready);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->nr_started; i++)
		pthread_join(c->thread[i], NULL);
	shoal_cursor_free(cursor);
	return rc;
}

int index_inside_run(const struct index_inside *in, const struct shoal_catalog *names,
		     struct shoal_writer *to, struct shoal_index_result *result,
		     struct shoal_err *err)
{
	unsigned nr_threads = (unsigned)u64_min(in->nr_threads, THREADS_MAX);
	struct inside_crew c = { .in = in,
				 .nr_threads = nr_threads,
				 .nr = PER_THREAD * nr_threads,
				 .lock = PTHREAD_MUTEX_INITIALIZER,
				 .ready = PTHREAD_COND_INITIALIZER };
	int rc = parse_kind(in->options->samples, &c.kind, err);

	if (rc < 0)
		return rc;
	c.slots = calloc(c.nr, sizeof(*c.slots));
	if (!c.slots)
		return err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < c.nr; i++) {
		c.slots[i].layout = (struct cat_layout)CAT_LAYOUT_EMPTY;
		c.slots[i].layout.tmp_dir = in->tmp_dir;
	}
	cond_init_steady(&c.done);
	rc = run_crew(&c, names, to, result, err);
	pthread_cond_destroy(&c.done);
	for (unsigned i = 0; i < c.nr; i++)
		cat_layout_release(&c.slots[i].layout);
	free(c.slots);
	return rc;
}
