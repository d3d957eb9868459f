/*
 * A list of URIs for each rank and epoch.
 *
 * Rank r gets the files at positions r, r + W, r + 2 W ... of the epoch, so that the lists of an
 * epoch are a partition of the dataset whose parts differ by at most one file. Each list is made
 * by itself, by computing its positions: memory does not grow with files, ranks or epochs.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/out.h"
#include "base/path.h"
#include "base/publish.h"
#include "store/store.h"
#include "store/uri.h"

/* Positions converted to ids per call. */
#define CHUNK 1024u

#define NOTE_MAX 8191u /* bytes: a root, and a few numbers */

struct manifest {
	const struct shoal_catalog *cat;
	const struct shoal_manifest_options *options;
	struct shoal_order_spec spec;
	struct shoal_order *order;
	const char *root, *prefix;
	bool files; /* the root is a directory: names must not lead out of it */
	char end;
	bool replaces; /* lists that may be there are still to be removed */
};

static int interrupted(struct shoal_err *err)
{
	return err_set(err, -ECANCELED, "interrupted: the lists made so far are complete");
}

static char *list_name(const struct manifest *m, uint64_t epoch, uint64_t rank)
{
	char *name = NULL;

	if (asprintf(&name, "%s/%s_epoch%04" PRIu64 "_rank%05" PRIu64 ".txt", m->options->dir,
		     m->prefix, epoch, rank) < 0)
		return NULL;
	return name;
}

/* Write one line: the root, a slash unless it ends in one, the name. */
static int put_uri(const struct manifest *m, struct out *out, uint64_t id, struct shoal_err *err)
{
	char name[SHOAL_NAME_MAX + 1];
	size_t root_len = strlen(m->root);
	struct shoal_err why = { "" };
	int len = shoal_catalog_name(m->cat, id, name);

	if (len < 0)
		return shoal_catalog_explain(m->cat, len, err);
	if (memchr(name, 0, (size_t)len))
		return shoal_catalog_explain(m->cat, -EILSEQ, err);
	if (m->files && store_check_name(name, &why) < 0)
		return err_set(err, -EBADMSG, "name %" PRIu64 ": %s", id, why.msg);
	if (memchr(name, m->end, (size_t)len))
		return err_set_hint(err, -EILSEQ, SHOAL_HINT_NUL_ENDS,
				    "name %" PRIu64 " contains a line end", id);
	out_write(out, m->root, root_len);
	if (root_len == 0 || m->root[root_len - 1] != '/')
		out_write(out, "/", 1);
	out_write(out, name, (size_t)len);
	out_write(out, &m->end, 1);
	return 0;
}

/*
 * The rank's next files, at most CHUNK of them: those at positions rank, rank + W ... of the epoch;
 * in mode local, where a batch has CHUNK files, those of its own share.
 */
static int64_t next_files(const struct manifest *m, uint64_t rank, uint64_t chunk, uint64_t *ids)
{
	uint64_t positions[CHUNK];
	size_t nr = 0;
	int rc;

	if (m->spec.mode == SHOAL_LOCAL)
		return chunk < shoal_order_steps(m->order)
			       ? shoal_order_batch(m->order, chunk, rank, ids)
			       : 0;
	for (uint64_t i = 0; i < CHUNK; i++) {
		uint64_t p = (chunk * CHUNK + i) * m->spec.nr_ranks + rank;

		if (p < m->spec.nr_samples)
			positions[nr++] = p;
	}
	rc = shoal_order_at(m->order, positions, nr, ids);
	return rc < 0 ? rc : (int64_t)nr;
}

static int manifest_put_files(const struct manifest *m, struct out *out, uint64_t rank,
			      struct shoal_err *err)
{
	uint64_t ids[CHUNK];
	int64_t nr;

	for (uint64_t chunk = 0; (nr = next_files(m, rank, chunk, ids)) >= 0; chunk++) {
		if (stop_requested(m->options->stop))
			return interrupted(err);
		if (nr == 0)
			return 0;
		for (int64_t i = 0; i < nr; i++) {
			int rc = put_uri(m, out, ids[i], err);

			if (rc < 0)
				return rc;
		}
	}
	return err_set_errno(err, (int)nr, "cannot compute the order");
}

/* 1: a dry run, and there is none yet. */
static int manifest_make_dir(const char *dir, bool dry_run, struct shoal_err *err)
{
	struct stat st;

	if (dry_run && stat(dir, &st) < 0 && errno == ENOENT)
		return 1;
	if (!dry_run && mkdir(dir, 0777) == 0)
		return 0;
	if (!dry_run && errno != EEXIST)
		return err_set_errno(err, err_errno(), "cannot create the directory '%s'", dir);
	if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	return err_set(err, -ENOTDIR, "'%s' is not a directory", dir);
}

/* ---- The note: what the lists of a folder are of ---- */

/* Whether it is the name of a list with this prefix, of any epoch and rank. */
static bool is_list(const struct manifest *m, const char *name)
{
	size_t len = strlen(m->prefix);

	return path_list_prefix(name, strlen(name)) == len && memcmp(name, m->prefix, len) == 0;
}

/* How many lists there are, which are removed if @remove; or an error. */
static int count_lists(const struct manifest *m, bool remove, struct shoal_err *err)
{
	DIR *dir = opendir(m->options->dir);
	const struct dirent *e;
	int nr = 0, rc = 0;

	if (!dir)
		return err_set_errno(err, err_errno(), "cannot read '%s'", m->options->dir);
	while (rc == 0 && (e = readdir(dir))) {
		if (e->d_type == DT_DIR || !is_list(m, e->d_name))
			continue;
		nr++;
		if (remove && unlinkat(dirfd(dir), e->d_name, 0) < 0)
			rc = err_set_errno(err, err_errno(), "cannot remove '%s'", e->d_name);
	}
	closedir(dir);
	return rc < 0 ? rc : nr;
}

/* The note at @path, to be freed; "" if there is none. NULL: out of memory. */
static char *note_read(const char *path)
{
	FILE *in = fopen(path, "re");
	char *text = calloc(1, NOTE_MAX + 1);

	if (in && text)
		text[fread(text, 1, NOTE_MAX, in)] = '\0';
	if (in)
		fclose(in);
	return text;
}

/* What the note of these lists says: all that decides which file is in which list, and where. */
static char *note_text(const struct manifest *m)
{
	static const char *const modes[] = { [SHOAL_SEQUENTIAL] = "sequential",
					     [SHOAL_GLOBAL] = "global",
					     [SHOAL_FILES] = "files",
					     [SHOAL_WINDOW] = "window",
					     [SHOAL_LOCAL] = "local" };
	const struct shoal_order_spec *s = shoal_order_spec(m->order); /* with its defaults */
	struct shoal_catalog_info info;
	char *text = NULL;

	shoal_catalog_info(m->cat, &info);
	if (asprintf(&text,
		     "catalog %s\nroot %s\nranks %" PRIu64 "\nmode %s\nseed %" PRIu64
		     "\nfrozen %d\nunit %" PRIu64 "\nwindow %" PRIu64 "\nlanes %" PRIu64
		     "\nlane batch %" PRIu64 "\n",
		     info.digest, info.root, s->nr_ranks, modes[s->mode], s->seed, s->frozen,
		     s->unit, s->window, s->lanes, s->lane_batch) < 0)
		return NULL;
	return text;
}

/* -EEXIST, with the first line in which the note @was differs from @want. */
static int note_refuse(const struct manifest *m, const char *was, const char *want,
		       struct shoal_err *err)
{
	int lines = 0, was_len = 0, want_len = 0;

	while (*was && *want) {
		was_len = (int)strcspn(was, "\n");
		want_len = (int)strcspn(want, "\n");
		if (was_len != want_len || strncmp(was, want, (size_t)was_len) != 0)
			break;
		was += was_len + (was[was_len] != '\0');
		want += want_len + 1;
		lines++;
	}
	if (lines < 2 || !*was || !*want) /* catalog, root; or the note of something else */
		return err_set_hint(err, -EEXIST, SHOAL_HINT_REPLACE,
				    "'%.300s' has lists of another catalog: write to another "
				    "directory",
				    m->options->dir);
	return err_set_hint(err, -EEXIST, SHOAL_HINT_REPLACE,
			    "'%.300s' has lists of another order (%.*s, and not %.*s): write to "
			    "another directory",
			    m->options->dir, was_len, was, want_len, want);
}

static int manifest_note_write(const char *path, const char *text, struct shoal_err *err)
{
	struct publish pub = PUBLISH_CLOSED;
	size_t len = strlen(text);
	int rc = publish_open(path, &pub, err);

	if (rc == 0 && write(pub.fd, text, len) != (ssize_t)len)
		rc = err_set_errno(err, err_errno(), "cannot write '%s'", path);
	if (rc == 0)
		rc = publish_commit(&pub, err);
	publish_abort(&pub);
	return rc;
}

static char *note_path(const struct manifest *m)
{
	char *path = NULL;

	return asprintf(&path, "%s/.%s" PATH_NOTE_OF_LISTS, m->options->dir, m->prefix) < 0 ? NULL
											    : path;
}

/* After a failure: without lists the note is not needed. */
static void drop_note(const struct manifest *m)
{
	char *path = note_path(m);

	if (path && count_lists(m, false, NULL) == 0)
		unlink(path);
	free(path);
}

/* Remove the lists of another catalog or order, and note of what those to come are. */
static int manifest_take_over(const struct manifest *m, struct shoal_err *err)
{
	char *path = note_path(m), *want = note_text(m);
	int rc = path && want ? 0 : err_set(err, -ENOMEM, "out of memory");

	if (rc == 0 && m->options->force)
		rc = count_lists(m, true, err);
	if (rc >= 0)
		rc = manifest_note_write(path, want, err);
	free(path);
	free(want);
	return rc;
}

/* Lists of two catalogs or orders in one folder would look like those of one. */
static int manifest_claim(struct manifest *m, struct shoal_err *err)
{
	char *path = note_path(m), *want = note_text(m), *was = path ? note_read(path) : NULL;
	int rc = 0;

	if (!path || !want || !was)
		rc = err_set(err, -ENOMEM, "out of memory");
	else if (m->options->force)
		m->replaces = true; /* once the first list is complete */
	else if (strcmp(was, want) != 0)
		rc = count_lists(m, false, err);
	if (rc > 0)
		rc = note_refuse(m, was, want, err);
	if (rc == 0 && !m->replaces && strcmp(was, want) != 0 && !m->options->dry_run)
		rc = manifest_take_over(m, err);
	free(path);
	free(want);
	free(was);
	return rc;
}

/* ---- Writing ---- */

static int write_list(struct manifest *m, const char *path, uint64_t rank, struct shoal_err *err)
{
	struct publish pub = PUBLISH_CLOSED;
	struct out out;
	int rc;

	rc = publish_open(path, &pub, err);
	if (rc < 0)
		return rc;
	rc = out_init(&out, pub.fd, 0, 1u << 18);
	if (rc < 0)
		err_set(err, rc, "out of memory");
	if (rc == 0)
		rc = manifest_put_files(m, &out, rank, err);
	if (rc == 0) {
		out_flush(&out);
		rc = out.rc < 0 ? err_set_errno(err, out.rc, "cannot write '%s'", path) : 0;
	}
	out_release(&out);
	if (rc == 0 && m->replaces) {
		rc = manifest_take_over(m, err);
		m->replaces = rc < 0;
	}
	if (rc == 0)
		rc = publish_commit(&pub, err);
	publish_abort(&pub);
	return rc;
}

static int write_epoch(struct manifest *m, uint64_t epoch, struct shoal_err *err)
{
	int rc = 0;

	shoal_order_set_epoch(m->order, epoch);
	for (uint64_t rank = 0; rank < m->spec.nr_ranks && rc == 0; rank++) {
		char *name = list_name(m, epoch, rank);

		rc = name ? write_list(m, name, rank, err) : err_set(err, -ENOMEM, "out of memory");
		free(name);
		if (rc == 0 && m->options->progress)
			m->options->progress(m->options->self,
					     (epoch - m->options->first_epoch) * m->spec.nr_ranks +
						     rank + 1,
					     m->options->nr_epochs * m->spec.nr_ranks);
	}
	return rc;
}

/* Check the request, and compute what to write. */
static int prepare(struct manifest *m, const struct shoal_order_spec *spec, struct shoal_err *err)
{
	const struct shoal_manifest_options *o = m->options;
	struct shoal_catalog_info info;

	shoal_catalog_info(m->cat, &info);
	m->root = o->paths ? store_local_path(info.root) : info.root;
	m->files = store_uri_traits(info.root).files;
	m->prefix = o->prefix ? o->prefix : "train";
	m->end = o->null ? '\0' : '\n';
	m->spec = *spec;
	m->spec.nr_samples = info.nr_files; /* lists are of files */
	m->spec.remainder = SHOAL_KEEP;
	m->spec.batch = spec->mode == SHOAL_LOCAL ? CHUNK : 1;
	m->spec.consumed = 0;
	if (!*m->prefix || strchr(m->prefix, '/'))
		return err_set(err, -EINVAL,
			       "the prefix of the lists must be a name without a '/'");
	if (o->nr_epochs == 0 || o->nr_epochs > SHOAL_MANIFEST_EPOCHS_MAX ||
	    o->first_epoch > UINT64_MAX - (o->nr_epochs - 1))
		return err_set(err, -EINVAL, "lists can be made for 1 to %u epochs at a time",
			       SHOAL_MANIFEST_EPOCHS_MAX);
	if (!m->root)
		return err_set(err, -ENOTSUP,
			       "there are no plain paths: the root '%s' is not a local directory",
			       info.root);
	if (info.nr_files == 0)
		return err_set(err, -ENODATA,
			       "the catalog lists no files: index a place that has some");
	return shoal_order_new(&m->spec, o->first_epoch, &m->order, err);
}

int shoal_manifest_write(const struct shoal_catalog *cat, const struct shoal_order_spec *spec,
			 const struct shoal_manifest_options *options, struct shoal_err *err)
{
	struct manifest m = { .cat = cat, .options = options };
	int rc = prepare(&m, spec, err);
	bool claimed = false;

	if (rc == 0)
		rc = manifest_make_dir(options->dir, options->dry_run, err);
	if (rc == 0) {
		rc = manifest_claim(&m, err);
		claimed = rc == 0 && !options->dry_run;
	}
	for (uint64_t i = 0; i < options->nr_epochs && claimed && rc == 0; i++)
		rc = write_epoch(&m, options->first_epoch + i, err);
	shoal_order_free(m.order);
	if (rc < 0 && claimed)
		drop_note(&m);
	return rc >= 0 ? shoal_catalog_check_fresh(cat, err) : rc;
}
