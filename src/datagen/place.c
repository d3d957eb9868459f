/* The destination of a dataset: whether it may be written there, and leftovers of earlier runs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/lock.h"
#include "base/path.h"
#include "base/text.h"
#include "datagen/datagen_private.h"
#include "datagen/datasize.h"
#include "open/own.h"

#define NOTE_MAX 4096

/* ---- The note: the keys that a dataset was made with ---- */

static void note_put_folders(char *to, size_t cap, const struct workload_subfolders *f)
{
	size_t at = 0;

	to[0] = '\0';
	for (unsigned i = 0; i < f->nr_levels && at < cap; i++)
		at += (size_t)snprintf(to + at, cap - at, "%s%" PRIu64, i ? "," : "", f->fanout[i]);
	if (f->nr_levels == 0)
		snprintf(to, cap, "0");
}

/* All keys that the bytes and the names depend on, and no others. */
static void make_note(const struct workload *w, char note[NOTE_MAX])
{
	const struct workload_dataset *d = &w->dataset;
	uint64_t total = d->nr_files_generated ? d->nr_files_generated : d->nr_files_train;
	char train[128], eval[128];

	note_put_folders(train, sizeof(train), &d->subfolders_train);
	note_put_folders(eval, sizeof(eval), &d->subfolders_eval);
	snprintf(note, NOTE_MAX,
		 "dataset.format=%s\n"
		 "dataset.file_prefix=%s\n"
		 "dataset.num_files_train=%" PRIu64 "\n"
		 "dataset.num_files_eval=%" PRIu64 "\n"
		 "dataset.num_samples_per_file=%" PRIu64 "\n"
		 "dataset.record_length_bytes=%.17g\n"
		 "dataset.record_length_bytes_stdev=%.17g\n"
		 "dataset.num_subfolders_train=[%s]\n"
		 "dataset.num_subfolders_eval=[%s]\n"
		 "train.seed=%" PRIu64 "\n",
		 workload_format_name(d->format), d->file_prefix, total, d->nr_files_eval,
		 d->samples_per_file, d->record_bytes, d->record_stdev, train, eval, w->train.seed);
}

/* Read the note, with a final NUL. Returns 1, or 0 if there is none. */
static int read_note(struct datagen *g, char note[NOTE_MAX], struct shoal_err *err)
{
	/* Without a stat first: for a missing bucket a stat reports only a missing note. */
	int64_t n = store_read(g->store, DATAGEN_NOTE_NAME, 0, note, NOTE_MAX - 1, err);

	if (n == -ENOENT)
		return 0;
	if (n < 0)
		return (int)n;
	note[n] = '\0';
	return 1;
}

static int write_note(struct datagen *g, const char *note, struct shoal_err *err)
{
	struct store_writer *writer = NULL;
	int rc = store_create(g->store, DATAGEN_NOTE_NAME, &writer, err);

	if (rc < 0)
		return rc;
	rc = store_write(writer, note, strlen(note), err);
	if (rc < 0) {
		store_abort(writer);
		return rc;
	}
	return store_commit(writer, err);
}

/* Report the first line that differs. */
static int notes_differ(struct datagen *g, const char *is, const char *want, struct shoal_err *err)
{
	while (*is && *want) {
		size_t is_len = strcspn(is, "\n"), want_len = strcspn(want, "\n");

		if (is_len != want_len || memcmp(is, want, is_len) != 0)
			return err_set(
				err, -EEXIST,
				"'%.300s' contains a dataset with %.*s, but this one has %.*s: "
				"choose another directory",
				g->o->data, (int)u64_min(is_len, 100), is,
				(int)u64_min(want_len, 100), want);
		is += is_len + (is[is_len] == '\n');
		want += want_len + (want[want_len] == '\n');
	}
	return err_set(err, -EEXIST, "'%.300s' contains a dataset that was made in a different way",
		       g->o->data);
}

/* ---- Existing files ---- */

/* Look at this many names, and open this many folders, to find out whose files these are. */
#define PEEK_NAMES   1000
#define PEEK_FOLDERS 64

struct peek {
	struct store_sink sink; /* first, for the cast */
	struct datagen *g;
	uint64_t nr, nr_ours;
	char foreign[SHOAL_NAME_MAX + 1]; /* the first name that is not ours; or "" */
	struct buf next;                  /* further units, each after its length */
	unsigned nr_next;
};

/* Whether the name ends with @end, and its length without it. */
static bool ends_in(const char *name, size_t len, const char *end, size_t *ret_len)
{
	size_t n = strlen(end);

	if (len < n || memcmp(name + len - n, end, n) != 0)
		return false;
	*ret_len = len - n;
	return true;
}

static bool is_leftover(const char *name, size_t len)
{
	const char *slash = memrchr(name, '/', len), *base = slash ? slash + 1 : name;
	size_t rest;

	return *base == '.' && ends_in(name, len, ".partial", &rest);
}

/* Whether it is the name of one of this dataset's files. */
static bool is_ours(const struct datagen *g, const char *name, size_t len)
{
	bool valid = strncmp(name, "valid/", 6) == 0 || strncmp(name, "index/valid/", 12) == 0;
	const char *of = memmem(name, len, "_of_", 4), *start;
	char want[WORKLOAD_NAME_MAX];
	uint64_t id;

	for (const char *later; of; of = later) {
		later = memmem(of + 4, len - (size_t)(of + 4 - name), "_of_", 4);
		if (!later)
			break;
	}
	if (!of)
		return false;
	for (start = of; start > name && start[-1] >= '0' && start[-1] <= '9'; start--)
		;
	if (parse_digits(start, (size_t)(of - start), &id) < 0)
		return false;
	for (unsigned part = 0; part == 0 || format_side(g->format, part - 1); part++)
		if (datagen_name(g, valid, id, part, want) == 0 && strlen(want) == len &&
		    memcmp(want, name, len) == 0)
			return true;
	return false;
}

static int peek_found(struct store_sink *sink, const struct store_entry *entries, size_t nr,
		      struct shoal_err *err)
{
	struct peek *p = (struct peek *)sink;

	(void)err;
	for (size_t i = 0; i < nr && p->nr < PEEK_NAMES && !p->foreign[0]; i++) {
		const struct store_entry *e = &entries[i];

		p->nr++;
		if (is_leftover(e->name, e->len) || open_is_own(p->g->store, e->name, e->len))
			continue;
		if (is_ours(p->g, e->name, e->len))
			p->nr_ours++;
		else
			memcpy(p->foreign, e->name, e->len); /* terminated: it was all zeros */
	}
	return p->nr < PEEK_NAMES && !p->foreign[0] ? 0 : -ECANCELED;
}

static int peek_more(struct store_sink *sink, const void *unit, size_t len, struct shoal_err *err)
{
	struct peek *p = (struct peek *)sink;

	(void)err;
	if (p->nr_next < PEEK_FOLDERS) {
		buf_append(&p->next, &len, sizeof(len));
		buf_append(&p->next, unit, len);
		p->nr_next++;
	}
	return p->next.rc;
}

static int no_trouble(struct store_sink *sink, int rc, struct shoal_err *err)
{
	(void)sink;
	(void)err;
	return rc == -ENOENT ? 0 : rc;
}

static unsigned none_idle(struct store_sink *sink)
{
	(void)sink;
	return 0;
}

static void close_sink(struct store_sink *sink)
{
	if (sink->free_scratch)
		sink->free_scratch(sink->scratch);
	sink->free_scratch = NULL;
	sink->scratch = NULL;
}

/* Look into @folder ("": the root) and its first subfolders. */
static int peek_into(struct datagen *g, struct peek *p, const char *folder, struct shoal_err *err)
{
	struct store_list_options options = { 0 };
	uint8_t *unit;
	struct store_stat st;
	size_t len;
	int rc = *folder ? store_stat(g->store, folder, &st, err) : 0;

	if (rc < 0)
		return rc == -ENOENT || rc == -ENOTSUP ? 0 : rc;
	if (*folder && !st.is_dir)
		return err_set(err, -EEXIST, "'%s' in '%.300s' is a file", folder, g->o->data);
	unit = malloc(STORE_UNIT_MAX);
	if (!unit)
		return err_set(err, -ENOMEM, "out of memory");
	len = store_unit(g->store, folder, strlen(folder), unit);
	p->next.len = 0;
	p->nr_next = 0;
	for (size_t at = 0; len > 0;) {
		rc = store_list(g->store, &options, unit, len, &p->sink, err);
		if (rc < 0 || at == p->next.len)
			break;
		memcpy(&len, p->next.data + at, sizeof(len));
		memcpy(unit, p->next.data + at + sizeof(len), len);
		at += sizeof(len) + len;
	}
	free(unit);
	return rc == -ECANCELED || rc == -ENOTSUP ? 0 : rc;
}

static int refuse_place(struct datagen *g, const struct peek *p, struct shoal_err *err)
{
	if (p->foreign[0])
		return err_set_hint(err, -EEXIST, SHOAL_HINT_FORCE,
				    "'%.300s' contains '%.200s', which is not part of this dataset",
				    g->o->data, p->foreign);
	return err_set_hint(err, -EEXIST, SHOAL_HINT_COMPLETE,
			    "'%.300s' already contains files of this dataset", g->o->data);
}

/* Without folders to look into: check whether the first file exists. */
static int probe_first(struct datagen *g, struct peek *p, struct shoal_err *err)
{
	char name[WORKLOAD_NAME_MAX];
	struct store_stat st;
	int rc = datagen_name(g, g->nr_train == 0, 0, 0, name);

	if (rc < 0)
		return err_set_errno(err, rc, "cannot name the first file");
	rc = store_stat(g->store, name, &st, err);
	if (rc == 0)
		p->nr_ours++;
	return rc == -ENOENT ? 0 : rc;
}

/* Refuse a destination that holds something else. */
static int check_place(struct datagen *g, struct shoal_err *err)
{
	/* A dataset that is resumed may have other files beside its folders. */
	static const char *const folder[] = { "train", "valid", "" };
	size_t nr_folders = g->o->mode == DATAGEN_WRITE ? 3 : 2;
	struct peek *p = calloc(1, sizeof(*p));
	int rc = 0;

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	p->g = g;
	p->next.max = PEEK_FOLDERS * (STORE_UNIT_MAX + sizeof(size_t));
	p->sink = (struct store_sink){ .found = peek_found,
				       .add_unit = peek_more,
				       .trouble = no_trouble,
				       .nr_idle = none_idle,
				       .stop = g->o->stop };
	for (size_t i = 0; i < nr_folders && rc == 0 && !p->foreign[0]; i++)
		rc = peek_into(g, p, folder[i], err);
	if (rc == 0 && p->nr == 0)
		rc = probe_first(g, p, err);
	if (rc == 0 && !g->o->force &&
	    (p->foreign[0] || (p->nr_ours > 0 && g->o->mode == DATAGEN_WRITE)))
		rc = refuse_place(g, p, err);
	close_sink(&p->sink);
	buf_release(&p->next);
	free(p);
	return rc;
}

/* ---- Starting ---- */

/* The null store: every name exists, with synthetic bytes. */
static bool is_null_store(const struct datagen *g)
{
	return g->store->traits.synthetic;
}

static int open_store(struct datagen *g, bool make, struct shoal_err *err)
{
	if (g->o->store) {
		g->store = g->o->store;
		return 0;
	}
	return make ? store_make(g->o->data, g->o->config, &g->store, err)
		    : store_open(g->o->data, g->o->config, &g->store, err);
}

/* The path of the lock; false if the store is not a directory. */
static bool lock_path(const struct datagen *g, char *buf, size_t cap)
{
	const char *path = store_local_path(g->store->uri);

	return path && snprintf(buf, cap, "%s/%s", path, DATAGEN_LOCK_NAME) < (int)cap;
}

/* Two processes that write the same files would take each other's partial files for leftovers. */
static int lock_place(struct datagen *g, struct shoal_err *err)
{
	char path[4096];
	int rc;

	if (!lock_path(g, path, sizeof(path)))
		return 0;
	rc = file_lock_take(path, &g->place_lock, err);
	if (rc == -EBUSY)
		return err_set(err, rc, "another datagen is writing to '%.300s': wait for it",
			       g->o->data);
	return rc;
}

void datagen_place_unlock(struct datagen *g)
{
	char path[4096];

	if (g->place_lock >= 0 && lock_path(g, path, sizeof(path)))
		file_lock_drop(path, g->place_lock);
	g->place_lock = -1;
}

/* Report too little space before hours of writing. Side files are small, and not counted. */
static int check_space(const struct datagen *g, struct shoal_err *err)
{
	struct store_space space;
	struct datasize_plan plan;
	uint64_t need;
	int rc = datasize_plan_data(g->w, &plan, err);

	if (rc < 0)
		return rc;
	if (store_space(g->store, &space, NULL) < 0)
		return 0; /* unknown free space: a full disk will be reported later */
	if (__builtin_add_overflow(plan.nr_bytes, plan.nr_bytes_eval, &need))
		need = UINT64_MAX;
	if (need > space.bytes)
		return err_set_hint(err, -ENOSPC, SHOAL_HINT_FORCE,
				    "'%.300s' has %s free, and the dataset needs %s", g->o->data,
				    size_in_words(space.bytes).text, size_in_words(need).text);
	if (g->nr_files > space.names)
		return err_set_hint(err, -ENOSPC, SHOAL_HINT_FORCE,
				    "'%.300s' has %" PRIu64
				    " inodes free, and the dataset has %" PRIu64 " files",
				    g->o->data, space.names, g->nr_files);
	return 0;
}

/* Refuse a place that has another dataset or other files, or too little space. */
static int place_refuse(struct datagen *g, const char *want, struct shoal_err *err)
{
	char is[NOTE_MAX] = "";
	int rc = read_note(g, is, err);

	if (rc < 0)
		return rc;
	if (rc == 1 && strcmp(is, want) != 0 && !g->o->force)
		return notes_differ(g, is, want, err);
	if (g->o->mode == DATAGEN_VERIFY)
		return 0;
	rc = check_place(g, err);
	/* For a dataset that is resumed it is not known how much exists already. */
	if (rc == 0 && g->o->mode == DATAGEN_WRITE && !g->o->force)
		rc = check_space(g, err);
	return rc;
}

int datagen_place_try(struct datagen *g, struct shoal_err *err)
{
	char want[NOTE_MAX];
	int rc = open_store(g, false, err);

	if (rc == -ENOENT && g->o->mode == DATAGEN_WRITE)
		return 0; /* it would be made */
	if (rc < 0 || is_null_store(g))
		return rc;
	make_note(g->w, want);
	return place_refuse(g, want, err);
}

int datagen_place_open(struct datagen *g, struct shoal_err *err)
{
	bool verify = g->o->mode == DATAGEN_VERIFY;
	char want[NOTE_MAX];
	const char *path = store_local_path(g->o->data);
	int rc;

	g->place_made = path && !verify ? path_count_missing(path) : 0;
	rc = open_store(g, !verify, err);
	if (rc < 0)
		return rc;
	if (is_null_store(g))
		return 0;
	if (!verify)
		rc = lock_place(g, err);
	make_note(g->w, want);
	if (rc == 0)
		rc = place_refuse(g, want, err);
	return rc < 0 || verify ? rc : write_note(g, want, err);
}

int datagen_place_join(struct datagen *g, struct shoal_err *err)
{
	char want[NOTE_MAX], is[NOTE_MAX] = "";
	int rc = open_store(g, false, err);

	if (rc < 0 || g->o->mode == DATAGEN_VERIFY || is_null_store(g))
		return rc;
	make_note(g->w, want);
	rc = read_note(g, is, err);
	if (rc < 0)
		return rc;
	if (rc == 1 && strcmp(is, want) == 0)
		return 0;
	return err_set(err, -ESTALE,
		       "'%.300s' is not the directory that rank 0 writes to: all nodes must share "
		       "it",
		       g->o->data);
}

/* ---- Leftovers of an interrupted run ---- */

struct sweep {
	struct store_sink sink; /* first */
	struct datagen *g;
};

static int sweep_found(struct store_sink *sink, const struct store_entry *entries, size_t nr,
		       struct shoal_err *err)
{
	struct sweep *s = (struct sweep *)sink;
	char name[SHOAL_NAME_MAX + 1];
	int rc = 0;

	for (size_t i = 0; i < nr && rc == 0; i++) {
		if (!is_leftover(entries[i].name, entries[i].len))
			continue;
		memcpy(name, entries[i].name, entries[i].len);
		name[entries[i].len] = '\0';
		rc = store_remove(s->g->store, name, err);
		if (rc == -ENOENT)
			rc = 0;
		else if (rc == 0)
			s->g->counts.nr_leftovers++;
	}
	return rc;
}

/* Subfolders are handled like other folders, or do not belong to the dataset. */
static int sweep_more(struct store_sink *sink, const void *unit, size_t len, struct shoal_err *err)
{
	(void)sink;
	(void)unit;
	(void)len;
	(void)err;
	return 0;
}

static int sweep_folder(struct sweep *s, const char *folder, uint8_t *unit, struct shoal_err *err)
{
	struct store_list_options options = { 0 };
	struct store_stat st;
	size_t len;
	int rc = store_stat(s->g->store, folder, &st, err);

	if (rc < 0 || !st.is_dir)
		return rc == -ENOENT || rc == -ENOTSUP ? 0 : rc;
	len = store_unit(s->g->store, folder, strlen(folder), unit);
	return len ? store_list(s->g->store, &options, unit, len, &s->sink, err) : 0;
}

static int sweep_all(struct sweep *s, bool valid, uint8_t *unit, struct shoal_err *err)
{
	struct datagen *g = s->g;
	uint64_t nr = valid ? g->w->dataset.subfolders_eval.nr : g->w->dataset.subfolders_train.nr;
	char folder[WORKLOAD_NAME_MAX];
	int rc = 0;

	if (workload_nr_files(g->w, valid) == 0)
		return 0;
	for (uint64_t leaf = g->rank; leaf < nr && rc == 0; leaf += g->nr_ranks) {
		if (datagen_stopped(g))
			return err_set(err, -ECANCELED, "interrupted");
		rc = workload_folder_name(g->w, valid, leaf, folder, sizeof(folder));
		if (rc >= 0)
			rc = sweep_folder(s, folder, unit, err);
	}
	if (rc == 0 && g->rank == 0 && format_side(g->format, 0))
		rc = sweep_folder(s, valid ? "index/valid" : "index/train", unit, err);
	return rc;
}

int datagen_leftovers(struct datagen *g, struct shoal_err *err)
{
	struct sweep s = { .sink = { .found = sweep_found,
				     .add_unit = sweep_more,
				     .trouble = no_trouble,
				     .nr_idle = none_idle,
				     .stop = g->o->stop },
			   .g = g };
	uint8_t *unit = malloc(STORE_UNIT_MAX);
	int rc;

	if (!unit)
		return err_set(err, -ENOMEM, "out of memory");
	rc = sweep_all(&s, false, unit, err);
	if (rc == 0)
		rc = sweep_all(&s, true, unit, err);
	close_sink(&s.sink);
	free(unit);
	return rc;
}
