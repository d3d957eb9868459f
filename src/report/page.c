#include "report/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/map.h"
#include "base/path.h"
#include "report/outputs.h"
#include "report/timeline.h"
#include "report/write.h"
#include "run/folder.h"
#include "shoal.h"

/* From page/, made by tools/embed.py. */
extern const char page_html[], page_css[], page_library[], page_js[];
extern const size_t page_html_len, page_css_len, page_library_len, page_js_len;

/* Of one file: a summary of 1,000 epochs has 2 MB, and what is cut off would look damaged. */
enum { TEXT_MAX = 64 << 20 };

/* '<' occurs in strings only. Escaped, no name of a file can end the script element. */
struct escaped {
	json_put_fn *put;
	void *self;
};

static void put_escaped(void *self, const void *bytes, size_t len)
{
	const struct escaped *e = self;
	const char *at = bytes, *end = at + len;

	while (at < end) {
		const char *angle = memchr(at, '<', (size_t)(end - at));

		e->put(e->self, at, (size_t)((angle ? angle : end) - at));
		if (angle)
			e->put(e->self, "\\u003c", 6);
		at = angle ? angle + 1 : end;
	}
}

/* What was found in a folder. */
struct page_found {
	bool any;
	const char *large; /* a file that is left out, or NULL */
};

/* A file as text, or null if there is none. */
static int put_file(struct json *j, const char *key, const char *folder, const char *name,
		    struct page_found *found, struct shoal_err *err)
{
	char path[4096];
	struct map m = MAP_CLOSED;
	struct shoal_err why = { "" };
	char *text;
	int rc = path_join(folder, name, path, sizeof(path), err);

	if (rc < 0)
		return rc;
	rc = map_open(path, &m, &why);
	if (rc == -ENOENT) {
		json_null(j, key);
		return 0;
	}
	if (rc < 0)
		return err_set(err, rc, "'%s': %s", path, why.msg);
	found->any = true;
	if (m.len > TEXT_MAX) {
		found->large = name;
		json_null(j, key);
		map_close(&m);
		return 0;
	}
	text = strndup((const char *)m.addr, m.len);
	map_close(&m);
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	json_string(j, key, text);
	free(text);
	return 0;
}

static void put_notes(struct json *j, const struct page_found *found, const struct outputs *o,
		      const struct timeline *t)
{
	unsigned first, nr = outputs_damaged(o, &first);

	json_open_array(j, "notes");
	if (found->large)
		json_format(j, NULL, "%s has more than %d MB, and is left out", found->large,
			    TEXT_MAX >> 20);
	if (nr > 0)
		json_format(
			j, NULL,
			"%u_output.json%s truncated or damaged: the plots show what comes before",
			first, nr == 1 ? " is" : " and others are");
	outputs_put_notes(o, j);
	timeline_put_notes(t, j);
	json_close_array(j);
}

/* What a command writes before it begins: alone, it is what a killed one leaves. */
static const struct page_file {
	const char *key;
	enum run_file file;
} begun[] = {
	{ "begin_text", RUN_FILE_BEGIN },
	{ "config_text", RUN_FILE_CONFIG },
	{ "effective_text", RUN_FILE_EFFECTIVE },
};

/* The results; those of checkpoint runs belong here, too. */
static const struct page_file results[] = {
	{ "summary_text", RUN_FILE_SUMMARY }, { "read_text", RUN_FILE_READ },
	{ "index_text", RUN_FILE_INDEX },     { "datagen_text", RUN_FILE_DATAGEN },
	{ "sweep_text", RUN_FILE_SWEEP },
};

static int put_files(struct json *j, const char *folder, const struct page_file *files, size_t nr,
		     struct page_found *found, struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < nr; i++)
		rc = put_file(j, files[i].key, folder, run_file_name(files[i].file), found, err);
	return rc;
}

static int page_check_folder(const char *folder, struct shoal_err *err)
{
	struct stat st;

	if (stat(folder, &st) < 0)
		return errno == ENOENT
			       ? err_set(err, -ENOENT, "'%s' does not exist", folder)
			       : err_set_errno(err, err_errno(), "cannot read '%s'", folder);
	return S_ISDIR(st.st_mode) ? 0
				   : err_set(err, -ENOTDIR,
					     "'%s' is a file: give the folder of results that it "
					     "lies in",
					     folder);
}

static int page_put_run(struct json *j, const char *folder, struct shoal_err *err)
{
	struct page_found found = { .any = false };
	struct outputs *o = NULL;
	unsigned first;
	struct timeline *t = NULL;
	int rc = page_check_folder(folder, err);

	if (rc == 0)
		rc = outputs_read(folder, &o, err);
	if (rc == 0)
		rc = timeline_read(folder, &t, err);
	if (rc == 0 && outputs_none(o))
		rc = timeline_add_steps(folder, o, err);
	if (rc < 0) {
		outputs_free(o);
		timeline_free(t);
		return rc;
	}
	json_open_object(j, NULL);
	json_string(j, "name", *path_base(folder) ? path_base(folder) : folder);
	json_string(j, "folder", folder);
	rc = put_files(j, folder, results, ARRAY_LEN(results), &found, err);
	if (rc == 0)
		rc = put_files(j, folder, begun, ARRAY_LEN(begun), &found, err);
	put_notes(j, &found, o, t);
	outputs_put(o, j, "steps");
	timeline_put(t, j, "time");
	json_close_object(j);
	if (rc == 0 && !found.any && outputs_damaged(o, &first) == 0 && !timeline_any(t))
		rc = err_set(err, -ENOENT,
			     "'%s' has no results of run, read, index, datagen or sweep", folder);
	outputs_free(o);
	timeline_free(t);
	return rc;
}

struct page_runs {
	const char *const *folders;
	size_t nr;
	uint64_t made_ns;
};

static int put_data(void *self, struct json *j, struct shoal_err *err)
{
	const struct page_runs *runs = self;
	char made[REPORT_TIME_BYTES];
	int rc = 0;

	report_time(runs->made_ns, made);
	made[19] = '\0'; /* to the second */
	json_open_object(j, NULL);
	json_string(j, "version", shoal_version());
	json_string(j, "made", made);
	json_open_array(j, "runs");
	for (size_t i = 0; rc == 0 && i < runs->nr; i++)
		rc = page_put_run(j, runs->folders[i], err);
	json_close_array(j);
	json_close_object(j);
	return rc;
}

/* The frame up to @mark, which is passed over. */
static const char *put_until(json_put_fn *put, void *self, const char *at, const char *mark)
{
	const char *found = strstr(at, mark);

	put(self, at, (size_t)(found - at));
	return found + strlen(mark);
}

int report_page_frame(json_put_fn *put, void *self, bool live,
		      int (*data)(void *data_self, struct json *j, struct shoal_err *err),
		      void *data_self, struct shoal_err *err)
{
	static const char fetches[] = "; connect-src 'self'";
	struct escaped e = { put, self };
	struct json j = { .put = put_escaped, .self = &e };
	const char *at = put_until(put, self, page_html, "@CONNECT@");
	int rc;

	if (live)
		put(self, fetches, strlen(fetches));
	at = put_until(put, self, at, "@STYLE@");
	put(self, page_css, page_css_len);
	at = put_until(put, self, at, "@DATA@");
	rc = data(data_self, &j, err);
	if (rc < 0)
		return rc;
	at = put_until(put, self, at, "@LIBRARY@");
	put(self, page_library, page_library_len);
	at = put_until(put, self, at, "@SCRIPT@");
	put(self, page_js, page_js_len);
	put(self, at, strlen(at));
	return 0;
}

static int page_put(struct out *out, const struct page_runs *runs, struct shoal_err *err)
{
	struct page_runs copy = *runs;
	int rc = report_page_frame(json_put_out, out, false, put_data, &copy, err);

	if (rc < 0)
		return rc;
	out_flush(out);
	return out->rc < 0 ? err_set_errno(err, out->rc, "cannot write the page") : 0;
}

/* A new file with the page, or without a name if @path is NULL; on failure closed. */
static int page_make(const struct page_runs *runs, const char *path, struct publish *pub,
		     struct shoal_err *err)
{
	struct out out;
	int rc = path ? publish_open(path, pub, err)
		      : publish_nameless(path_tmp_dir(NULL), pub, err);

	if (rc < 0)
		return rc;
	rc = out_init(&out, pub->fd, 0, 1u << 16);
	if (rc < 0)
		rc = err_set(err, rc, "out of memory");
	else {
		rc = page_put(&out, runs, err);
		out_release(&out);
	}
	if (rc < 0)
		publish_abort(pub);
	return rc;
}

int report_page_write(const char *const *folders, size_t nr, const char *path, uint64_t made_ns,
		      struct shoal_err *err)
{
	struct publish pub = PUBLISH_CLOSED;
	int rc = page_make(&(struct page_runs){ folders, nr, made_ns }, path, &pub, err);

	if (rc == 0 && path)
		return publish_commit(&pub, err);
	publish_abort(&pub);
	return rc;
}

int report_page_put(const char *const *folders, size_t nr, uint64_t made_ns, json_put_fn *put,
		    void *self, struct shoal_err *err)
{
	struct publish pub = PUBLISH_CLOSED;
	struct map m = MAP_CLOSED;
	int fd, rc = page_make(&(struct page_runs){ folders, nr, made_ns }, NULL, &pub, err);

	if (rc < 0)
		return rc;
	fd = fcntl(pub.fd, F_DUPFD_CLOEXEC, 0);
	rc = fd < 0 ? err_set_errno(err, err_errno(), "cannot read the page")
		    : map_open_fd(fd, &m, err);
	if (rc == 0)
		put(self, m.addr, m.len);
	map_close(&m);
	publish_abort(&pub);
	return rc;
}
