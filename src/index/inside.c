#include "index/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/out.h"
#include "base/queue.h"
#include "base/text.h"
#include "catalog/extents_writer.h"
#include "format/samples.h"
#include "store/posix/posix.h"

#define THREADS_MAX 256u
#define PER_THREAD  8u          /* files in the window */
#define WINDOW      (64u << 10) /* bytes read at once where reads are consecutive or cost a request */
#define STEP        4096u       /* bytes read at once where most of a file is skipped */
#define LAYOUT_KEPT (1u << 20) /* a larger buffer is released after its file */

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

enum slot_state { SLOT_FREE, SLOT_READY, SLOT_TAKEN, SLOT_DONE };

/* A file of the window. */
struct slot {
	enum slot_state state;
	uint64_t id, size;
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

/* A file being read, with the bytes that were read last. */
struct inside_file {
	struct store *store;
	const char *name;
	uint64_t size;
	int fd; /* -1: read through the store */
	uint64_t at;
	size_t len;
	struct inside_file *sides; /* index files that it needs: a list */
	char *own_name;            /* of such a file */
	uint8_t window[WINDOW];
};

static int read_exactly(struct inside_file *f, uint64_t off, void *buf, size_t len,
			struct shoal_err *err)
{
	int64_t got;
	int rc;

	if (f->fd >= 0) {
		rc = pread_all(f->fd, buf, len, off);
		return rc < 0 ? err_set_errno(err, rc, "cannot read it") : 0;
	}
	got = store_read(f->store, f->name, off, buf, len, err);
	if (got >= 0 && (uint64_t)got < len)
		return err_set(err, -ESTALE, "it has become smaller since it was listed");
	return got < 0 ? (int)got : 0;
}

/*
 * Many small reads become few: the end of a file, where footers are, is read at once; after the
 * previous read a large block; elsewhere a small one, if a read costs little.
 */
static int inside_read(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	struct inside_file *f = self;
	bool next = off >= f->at && off <= f->at + f->len;
	uint64_t n;
	int rc;

	if (off >= f->at && off + len <= f->at + f->len) {
		memcpy(buf, f->window + (off - f->at), len);
		return 0;
	}
	if (len >= WINDOW)
		return read_exactly(f, off, buf, len, err);
	f->at = off + len == f->size && f->size > WINDOW ? f->size - WINDOW : off;
	n = u64_max(len, next || f->at != off || f->fd < 0 ? WINDOW : STEP);
	f->len = (size_t)u64_min(n, f->size - f->at);
	rc = read_exactly(f, f->at, f->window, f->len, err);
	if (rc < 0)
		f->len = 0;
	else
		memcpy(buf, f->window + (off - f->at), len);
	return rc;
}

/* A file of a directory tree is opened once; others are read through the store. */
static int inside_open(struct inside_file *f, struct shoal_err *err)
{
	const struct store_posix *files = store_posix_of(f->store);
	struct stat st;
	int rc;

	f->fd = -1;
	f->at = f->len = 0;
	rc = files ? store_check_name_for(f->store, f->name, err) : 0;
	if (rc < 0 || !files)
		return rc;
	f->fd = store_posix_open_file(files, f->name, 0);
	if (f->fd == -EXDEV)
		return store_posix_leads_out(f->name, err);
	if (f->fd < 0)
		return err_set_errno(err, f->fd, "cannot open it");
	if (fstat(f->fd, &st) < 0)
		return err_set_errno(err, err_errno(), "cannot stat it");
	if ((uint64_t)st.st_size != f->size)
		return err_set(err, -ESTALE,
			       "it has %" PRIu64 " bytes, but had %" PRIu64 " when it was listed",
			       (uint64_t)st.st_size, f->size);
	return 0;
}

/* An index file beside the file, which is closed with it. */
static int inside_open_side(void *self, const char *suffix, struct format_source *ret_side,
			    struct shoal_err *err)
{
	struct inside_file *f = self, *side = calloc(1, sizeof(*side));
	struct shoal_err why = { "" };
	struct store_stat st;
	int rc;

	if (!side || asprintf(&side->own_name, "%s%s", f->name, suffix) < 0) {
		free(side);
		return err_set(err, -ENOMEM, "out of memory");
	}
	side->store = f->store;
	side->name = side->own_name;
	side->fd = -1;
	side->sides = f->sides;
	f->sides = side;
	rc = store_stat(f->store, side->name, &st, &why);
	side->size = rc == 0 ? st.size : 0;
	if (rc == 0)
		rc = inside_open(side, &why);
	*ret_side = (struct format_source){ .size = side->size, .read = inside_read, .self = side };
	return rc < 0 ? err_set_as(err, rc, &why, "its index '%.300s' cannot be read: %s",
				   side->name, why.msg)
		      : 0;
}

static void inside_close(struct inside_file *f)
{
	while (f->sides) {
		struct inside_file *side = f->sides;

		f->sides = side->sides;
		if (side->fd >= 0)
			close(side->fd);
		free(side->own_name);
		free(side);
	}
	if (f->fd >= 0)
		close(f->fd);
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
	struct format_source source = { .size = s->size,
					.read = inside_read,
					.self = f,
					.verify = verify,
					.open_side = inside_open_side };
	int rc = inside_open(f, &s->err);

	if (rc == 0)
		rc = samples_find(s->kind, record_len, &source, take_extent, &s->layout, &s->err);
	if (rc == 0)
		rc = cat_layout_finish(&s->layout);
	if (rc == -E2BIG)
		rc = err_set(&s->err, rc, "it has too many samples of different lengths");
	else if (rc == -ENOMEM)
		rc = err_set(&s->err, rc, "out of memory");
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
	struct stat st = { 0 };
	int rc = find_size(s, f);

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
	pthread_mutex_t lock; /* protects the states, and everything below */
	pthread_cond_t ready, done;
	uint64_t next;    /* the first slot that no thread has taken; counts up */
	uint64_t end;     /* those before it are filled; counts up */
	uint64_t awaited; /* the slot whose end is signalled as done */
	bool stop;
};

static void *inside_work(void *arg)
{
	struct inside_crew *c = arg;
	struct inside_file *f = calloc(1, sizeof(*f));

	pthread_mutex_lock(&c->lock);
	for (;;) {
		struct slot *s;
		uint64_t at;

		while (c->next == c->end && !c->stop)
			pthread_cond_wait(&c->ready, &c->lock);
		if (c->stop)
			break;
		at = c->next++;
		s = &c->slots[at % c->nr];
		s->state = SLOT_TAKEN;
		pthread_mutex_unlock(&c->lock);
		if (f) {
			f->store = c->in->store;
			f->name = s->name;
			f->size = s->size;
			s->rc = find_in_file(c->in, s, f, c->kind.record_len);
		} else {
			s->rc = err_set(&s->err, -ENOMEM, "out of memory");
		}
		pthread_mutex_lock(&c->lock);
		s->state = SLOT_DONE;
		if (at == c->awaited)
			pthread_cond_signal(&c->done);
	}
	pthread_mutex_unlock(&c->lock);
	free(f);
	return NULL;
}

/* Put the cursor's next file into the window. 0 at the end. */
static int fill_slot(struct inside_crew *c, const struct shoal_catalog *names,
		     struct shoal_cursor *cursor, uint64_t id, struct shoal_err *err)
{
	struct slot *s = &c->slots[c->end % c->nr];
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
	s->id = id;
	s->rc = 0;
	s->nr = 0;
	s->known = s->uncut = false;
	s->err.msg[0] = '\0';
	s->kind = samples_kind_of_file(c->kind.kind, name, len);
	cat_layout_clear(&s->layout);
	pthread_mutex_lock(&c->lock);
	s->state = SLOT_READY;
	c->end++;
	pthread_cond_signal(&c->ready);
	pthread_mutex_unlock(&c->lock);
	return 1;
}

/* ---- Writing ---- */

/* A file that is a single sample needs no extent. */
static bool needs_layout(const struct slot *s)
{
	const struct cat_layout *l = &s->layout;

	return l->nr > 0 && !s->uncut && !inside_is_whole(s->kind) &&
	       !(l->nr == 1 && l->longest == s->size && l->rows == 1);
}

static int inside_put_file(struct inside_crew *c, struct slot *s, struct shoal_writer *to,
			   struct shoal_index_result *result, struct shoal_err *err)
{
	const struct cat_layout *layout = needs_layout(s) ? &s->layout : NULL;
	char etag[SHOAL_ETAG_MAX + 1], words[600];
	int rc = 0;

	if (s->rc < 0) {
		if (!c->in->keep_going || s->rc == -ENOMEM)
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
	if (s->layout.runs.cap > LAYOUT_KEPT) {
		cat_layout_release(&s->layout);
		s->layout = (struct cat_layout)CAT_LAYOUT_EMPTY;
	}
	return rc;
}

static int inside_check_stop(const struct shoal_index_options *o, uint64_t nr,
			     struct shoal_err *err)
{
	if (stop_requested(o->stop))
		return err_set(err, -ECANCELED, "interrupted");
	if (nr % 1024 == 0 && o->progress)
		o->progress(o->self, &(struct shoal_index_progress){
					     .sealing = true, .nr_names = nr, .where = "" });
	return 0;
}

/* The lock is held. */
static void wait_for_slot(struct inside_crew *c, uint64_t at)
{
	c->awaited = at;
	while (c->slots[at % c->nr].state != SLOT_DONE)
		pthread_cond_wait(&c->done, &c->lock);
}

/*
 * Take the oldest slot. To be woken up for each file would cost as much as looking into a small
 * one, so the thread that has to wait does so until half of the window is done.
 */
static struct slot *take_slot(struct inside_crew *c, uint64_t at)
{
	struct slot *s = &c->slots[at % c->nr];

	pthread_mutex_lock(&c->lock);
	if (s->state != SLOT_DONE)
		wait_for_slot(c, at + (c->end - at) / 2);
	wait_for_slot(c, at);
	s->state = SLOT_FREE;
	pthread_mutex_unlock(&c->lock);
	return s;
}

static int inside_all(struct inside_crew *c, const struct shoal_catalog *names,
		      struct shoal_cursor *cursor, struct shoal_writer *to,
		      struct shoal_index_result *result, struct shoal_err *err)
{
	uint64_t put = 0;
	int more = 1, rc = 0;

	while (rc == 0 && (more || put < c->end)) {
		if (more && c->end - put < c->nr) {
			more = fill_slot(c, names, cursor, c->end, err);
			rc = more < 0 ? more : 0;
			continue;
		}
		rc = inside_put_file(c, take_slot(c, put), to, result, err);
		if (rc == 0)
			rc = inside_check_stop(c->in->options, ++put, err);
	}
	return rc;
}

/* ---- All of it ---- */

static int run_crew(struct inside_crew *c, const struct shoal_catalog *names,
		    struct shoal_writer *to, struct shoal_index_result *result,
		    struct shoal_err *err)
{
	unsigned nr_threads = (unsigned)u64_min(c->in->nr_threads, THREADS_MAX), started = 0;
	struct shoal_cursor *cursor = NULL;
	pthread_t thread[THREADS_MAX];
	int rc = shoal_cursor_new(names, 0, &cursor, err);

	if (rc < 0)
		return rc;
	while (started < nr_threads && thread_start(&thread[started], inside_work, c) == 0)
		started++;
	rc = started ? inside_all(c, names, cursor, to, result, err)
		     : err_set(err, -EAGAIN, "cannot start a thread");
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->ready);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	shoal_cursor_free(cursor);
	return rc;
}

int index_inside_run(const struct index_inside *in, const struct shoal_catalog *names,
		     struct shoal_writer *to, struct shoal_index_result *result,
		     struct shoal_err *err)
{
	struct inside_crew c = { .in = in,
				 .nr = PER_THREAD * (unsigned)u64_min(in->nr_threads, THREADS_MAX),
				 .lock = PTHREAD_MUTEX_INITIALIZER,
				 .ready = PTHREAD_COND_INITIALIZER,
				 .done = PTHREAD_COND_INITIALIZER };
	int rc = parse_kind(in->options->samples, &c.kind, err);

	if (rc < 0)
		return rc;
	c.slots = calloc(c.nr, sizeof(*c.slots));
	if (!c.slots)
		return err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < c.nr; i++)
		c.slots[i].layout = (struct cat_layout)CAT_LAYOUT_EMPTY;
	rc = run_crew(&c, names, to, result, err);
	for (unsigned i = 0; i < c.nr; i++)
		cat_layout_release(&c.slots[i].layout);
	free(c.slots);
	return rc;
}
