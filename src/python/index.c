/* Making catalogs, comparing them with a store, and writing manifests. Callbacks report progress
 * and warnings, and Ctrl-C is handled. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/queue.h"
#include "python/py_private.h"

struct watch {
	PyObject *progress, *warn; /* callables or None */
	PyObject *differs;         /* a callable; NULL once it wants no more calls */
	int stop;
	struct shoal_store_config config;
	PyObject *type, *value, *traceback; /* the first exception that one of them raised */
};

/* With the GIL held: an exception ends the work, and is raised again at its end. */
static void keep_exception(struct watch *w)
{
	if (w->type)
		PyErr_Clear();
	else
		PyErr_Fetch(&w->type, &w->value, &w->traceback);
	__atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
}

static void on_progress(void *self, const struct shoal_index_progress *p)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	struct watch *w = self;
	PyObject *done = NULL;

	if (w->progress != Py_None && !w->type) {
		done = PyObject_CallFunction(w->progress, "OKKyK", p->sealing ? Py_True : Py_False,
					     (unsigned long long)p->nr_names,
					     (unsigned long long)p->nr_pending, p->where,
					     (unsigned long long)p->nr_all);
		if (!done)
			keep_exception(w);
		Py_XDECREF(done);
	}
	if (PyErr_CheckSignals() < 0)
		keep_exception(w);
	PyGILState_Release(gil);
}

static void on_warning(void *self, const char *words)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	struct watch *w = self;
	PyObject *done = NULL;

	if (w->warn != Py_None && !w->type) {
		done = PyObject_CallFunction(w->warn, "y", words);
		if (!done)
			keep_exception(w);
		Py_XDECREF(done);
	}
	PyGILState_Release(gil);
}

/* A difference between a catalog and the store. The callable returns whether to call it again. */
static int on_difference(void *self, enum shoal_difference what, const char *name, size_t len,
			 uint64_t was, uint64_t is)
{
	struct watch *w = self;
	PyGILState_STATE gil;

	if (!w->differs)
		return 0;
	gil = PyGILState_Ensure();
	if (py_tell_difference(&w->differs, what, name, len, was, is) < 0)
		keep_exception(w);
	if (PyErr_CheckSignals() < 0)
		keep_exception(w);
	PyGILState_Release(gil);
	return w->type ? -ECANCELED : 0;
}

/* (output, root, tmp_dir, memory, samples_per_file, progress, warn, config, careful,
 * samples) */
static int py_index_options(PyObject *tuple, struct watch *watch,
			    struct shoal_index_options *ret_options)
{
	struct shoal_index_options o = {
		.stop = &watch->stop, .progress = on_progress, .warn = on_warning, .self = watch
	};
	PyObject *config;
	int careful;

	if (!PyArg_ParseTuple(tuple, "yzzO&O&OOOpz", &o.output, &o.root, &o.tmp_dir, py_u64_arg,
			      &o.memory, py_u64_arg, &o.samples_per_file, &watch->progress,
			      &watch->warn, &config, &careful, &o.samples) ||
	    py_store_config(config, &watch->config, &o.config) < 0)
		return -1;
	o.careful = careful;
	*ret_options = o;
	return 0;
}

static PyObject *py_index_finish(struct watch *w, int rc, const struct shoal_index_result *r,
				 const struct shoal_err *err)
{
#define U(field) (unsigned long long)r->field
	if (w->type) {
		PyErr_Restore(w->type, w->value, w->traceback);
		return NULL;
	}
	if (rc < 0)
		return py_raise(rc, err);
	return Py_BuildValue(
		"{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}",
		"nr_names", U(nr_names), "nr_sealers", U(nr_sealers), "nr_repeated", U(nr_repeated),
		"nr_blank", U(nr_blank), "nr_directories", U(nr_directories), "nr_unchanged",
		U(nr_unchanged), "nr_reused", U(nr_reused), "nr_resumed", U(nr_resumed),
		"nr_vanished", U(nr_vanished), "nr_links", U(nr_links), "nr_loops", U(nr_loops),
		"nr_special", U(nr_special), "nr_other_fs", U(nr_other_fs), "nr_filtered",
		U(nr_filtered), "nr_unreadable", U(nr_unreadable), "nr_odd_etags", U(nr_odd_etags),
		"nr_requests", U(nr_requests), "nr_retries", U(nr_retries), "nr_throttled",
		U(nr_throttled), "busy_us", U(busy_us), "allowed_us", U(allowed_us), "nr_samples",
		U(nr_samples), "nr_uncut", U(nr_uncut), "nr_known", U(nr_known));
#undef U
}

/* The strings of a tuple of bytes, lent. NULL with an exception. */
static const char **strings(PyObject *tuple, size_t *ret_nr)
{
	size_t nr = (size_t)PyTuple_Size(tuple);
	const char **text = PyMem_Calloc(nr + 1, sizeof(*text));

	if (!text)
		return (const char **)PyErr_NoMemory();
	for (size_t i = 0; i < nr; i++) {
		text[i] = PyBytes_AsString(PyTuple_GetItem(tuple, (Py_ssize_t)i));
		if (!text[i]) {
			PyMem_Free(text);
			return NULL;
		}
	}
	*ret_nr = nr;
	return text;
}

/* index_tree(where, (no_sizes, follow, one_fs, keep_going, include, exclude, threads, update,
 * resume, etags, shard, nr_shards), options) */
static PyObject *py_index_tree(PyObject *module, PyObject *args)
{
	int no_sizes, follow, one_fs, keep_going, resume, etags, rc;
	PyObject *include, *exclude, *options_tuple, *result = NULL;
	const char **includes = NULL, **excludes = NULL;
	struct shoal_index_result r = { 0 };
	struct shoal_index_options options;
	struct shoal_tree_options t = { 0 };
	struct watch watch = { 0 };
	struct shoal_err err = { "" };
	const char *where;

	(void)module;
	if (!PyArg_ParseTuple(args, "y(ppppO!O!IzppII)O!", &where, &no_sizes, &follow, &one_fs,
			      &keep_going, &PyTuple_Type, &include, &PyTuple_Type, &exclude,
			      &t.nr_threads, &t.update, &resume, &etags, &t.shard, &t.nr_shards,
			      &PyTuple_Type, &options_tuple) ||
	    py_index_options(options_tuple, &watch, &options) < 0)
		return NULL;
	t.no_sizes = no_sizes;
	t.follow = follow;
	t.one_fs = one_fs;
	t.keep_going = keep_going;
	t.resume = resume;
	t.etags = etags;
	includes = strings(include, &t.nr_include);
	excludes = includes ? strings(exclude, &t.nr_exclude) : NULL;
	if (excludes) {
		t.include = includes;
		t.exclude = excludes;
		Py_BEGIN_ALLOW_THREADS;
		rc = shoal_index_tree(where, &t, &options, &r, &err);
		Py_END_ALLOW_THREADS;
		result = py_index_finish(&watch, rc, &r, &err);
	}
	PyMem_Free(includes);
	PyMem_Free(excludes);
	return result;
}

/* index_list(fd, separator, names_only, options) */
static PyObject *index_list(PyObject *module, PyObject *args)
{
	struct shoal_index_result r = { 0 };
	struct shoal_index_options options;
	struct watch watch = { 0 };
	struct shoal_err err = { "" };
	PyObject *options_tuple;
	int fd, names_only, rc;
	char separator;

	(void)module;
	if (!PyArg_ParseTuple(args, "icpO!", &fd, &separator, &names_only, &PyTuple_Type,
			      &options_tuple) ||
	    py_index_options(options_tuple, &watch, &options) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_index_list(fd, separator, names_only, &options, &r, &err);
	Py_END_ALLOW_THREADS;
	return py_index_finish(&watch, rc, &r, &err);
}

/* index_import(fd, format, null, columns, options) */
static PyObject *py_index_import(PyObject *module, PyObject *args)
{
	struct shoal_index_result r = { 0 };
	struct shoal_import_options import = { 0 };
	struct shoal_index_options options;
	struct watch watch = { 0 };
	struct shoal_err err = { "" };
	PyObject *options_tuple;
	int fd, format, null, rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "iipzO!", &fd, &format, &null, &import.columns, &PyTuple_Type,
			      &options_tuple) ||
	    py_index_options(options_tuple, &watch, &options) < 0)
		return NULL;
	import.format = (enum shoal_import)format;
	import.null = null;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_index_import(fd, &import, &options, &r, &err);
	Py_END_ALLOW_THREADS;
	return py_index_finish(&watch, rc, &r, &err);
}

/* Work without progress callbacks runs on a thread, while this one handles signals. */
struct work {
	int (*run)(struct work *work);
	const struct shoal_pattern *pattern;
	const struct shoal_index_options *options;
	const struct shoal_catalog *cat;
	const struct shoal_order_spec *spec;
	const struct shoal_manifest_options *manifest;
	struct shoal_index_result *result;
	struct shoal_err *err;
	int rc;
};

static int make_pattern(struct work *work)
{
	return shoal_index_pattern(work->pattern, work->options, work->result, work->err);
}

static int make_manifest(struct work *work)
{
	return shoal_manifest_write(work->cat, work->spec, work->manifest, work->err);
}

static void *run_work(void *arg)
{
	struct work *work = arg;

	work->rc = work->run(work);
	return NULL;
}

static bool is_done(pthread_t thread)
{
	struct timespec until = clock_time(clock_wall() + 100000000u);
	int rc;

	Py_BEGIN_ALLOW_THREADS;
	rc = pthread_timedjoin_np(thread, NULL, &until);
	Py_END_ALLOW_THREADS;
	return rc == 0;
}

static int run_listening(struct work *work, struct watch *watch)
{
	pthread_t thread;

	if (thread_start(&thread, run_work, work) < 0) {
		Py_BEGIN_ALLOW_THREADS;
		run_work(work);
		Py_END_ALLOW_THREADS;
		return work->rc;
	}
	while (!is_done(thread)) {
		if (PyErr_CheckSignals() < 0)
			keep_exception(watch);
	}
	return work->rc;
}

/* index_pattern(format, first, count, subfolders, size, options) */
static PyObject *index_pattern(PyObject *module, PyObject *args)
{
	struct shoal_index_result r = { 0 };
	struct shoal_index_options options;
	struct shoal_pattern p = { 0 };
	struct watch watch = { 0 };
	struct shoal_err err = { "" };
	struct work work = {
		.run = make_pattern, .pattern = &p, .options = &options, .result = &r, .err = &err
	};
	PyObject *options_tuple;
	int rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "yO&O&O&O&O!", &p.format, py_u64_arg, &p.first, py_u64_arg,
			      &p.count, py_u64_arg, &p.subfolders, py_u64_arg, &p.size,
			      &PyTuple_Type, &options_tuple) ||
	    py_index_options(options_tuple, &watch, &options) < 0)
		return NULL;
	rc = run_listening(&work, &watch);
	return py_index_finish(&watch, rc, &r, &err);
}

static PyObject *finish_plain(struct watch *w, int rc, const struct shoal_err *err)
{
	if (w->type) {
		PyErr_Restore(w->type, w->value, w->traceback);
		return NULL;
	}
	if (rc < 0)
		return py_raise(rc, err);
	Py_RETURN_NONE;
}

/* Ctrl-C ends the work, and so does an exception of the callable, which the work's thread calls. */
struct manifest_watch {
	struct watch watch;
	struct py_progress progress;
};

static void on_lists(void *self, uint64_t done, uint64_t total)
{
	struct manifest_watch *m = self;

	py_progress_of(&m->progress, done, total);
	if (m->progress.stop)
		__atomic_store_n(&m->watch.stop, 1, __ATOMIC_RELAXED);
}

/* manifest(catalog, spec, dir, prefix, first_epoch, nr_epochs, paths, null, force, progress) */
static PyObject *manifest(PyObject *module, PyObject *args)
{
	struct manifest_watch m = { .progress = { NULL } };
	struct shoal_err err = { "" };
	struct shoal_order_spec spec;
	struct shoal_manifest_options options = { .stop = &m.watch.stop,
						  .progress = on_lists,
						  .self = &m };
	struct work work = {
		.run = make_manifest, .spec = &spec, .manifest = &options, .err = &err
	};
	PyObject *catalog, *tuple, *result;
	int paths, null, force, rc;

	if (!PyArg_ParseTuple(args, "OO!yyO&O&pppO", &catalog, &PyTuple_Type, &tuple, &options.dir,
			      &options.prefix, py_u64_arg, &options.first_epoch, py_u64_arg,
			      &options.nr_epochs, &paths, &null, &force, &m.progress.call) ||
	    py_order_spec(tuple, &spec) < 0)
		return NULL;
	options.paths = paths;
	options.null = null;
	options.force = force;
	work.cat = py_catalog_use(module, catalog);
	if (!work.cat)
		return NULL;
	rc = run_listening(&work, &m.watch);
	py_catalog_done(catalog);
	result = finish_plain(&m.watch, rc, &err);
	if (py_progress_end(&m.progress) < 0)
		Py_CLEAR(result);
	return result;
}

/* compare(catalog, where, path, tmp_dir, memory, threads, keep_going, differs, progress, warn) */
static PyObject *py_index_compare(PyObject *module, PyObject *args)
{
	struct watch watch = { 0 };
	struct shoal_err err = { "" };
	struct shoal_compare_result r = { 0 };
	struct shoal_compare_options o = { .stop = &watch.stop,
					   .differs = on_difference,
					   .progress = on_progress,
					   .warn = on_warning,
					   .self = &watch };
	struct shoal_catalog *cat;
	PyObject *catalog, *config;
	int keep_going, rc;

	if (!PyArg_ParseTuple(args, "OzzzO&IpOOOO", &catalog, &o.where, &o.catalog, &o.tmp_dir,
			      py_u64_arg, &o.memory, &o.nr_threads, &keep_going, &watch.differs,
			      &watch.progress, &watch.warn, &config) ||
	    py_store_config(config, &watch.config, &o.config) < 0)
		return NULL;
	o.keep_going = keep_going;
	cat = py_catalog_use(module, catalog);
	if (!cat)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_catalog_compare(cat, &o, &r, &err);
	Py_END_ALLOW_THREADS;
	py_catalog_done(catalog);
	if (watch.type || rc < 0)
		return finish_plain(&watch, rc, &err);
	return Py_BuildValue("KKKKK", (unsigned long long)r.nr_same,
			     (unsigned long long)r.nr_missing, (unsigned long long)r.nr_new,
			     (unsigned long long)r.nr_resized, (unsigned long long)r.nr_changed);
}

static PyMethodDef functions[] = {
	{ "index_tree", py_index_tree, METH_VARARGS, "index_tree(where, tree, options)" },
	{ "index_list", index_list, METH_VARARGS,
	  "index_list(fd, separator, names_only, options)" },
	{ "index_import", py_index_import, METH_VARARGS,
	  "index_import(fd, format, null, columns, options)" },
	{ "index_pattern", index_pattern, METH_VARARGS,
	  "index_pattern(format, first, count, subfolders, size, options)" },
	{ "manifest", manifest, METH_VARARGS,
	  "manifest(catalog, spec, dir, prefix, first_epoch, nr_epochs, paths, null, force, progress)" },
	{ "compare", py_index_compare, METH_VARARGS,
	  "compare(catalog, where, path, tmp_dir, memory, threads, keep_going, differs, "
	  "progress, warn): (same, missing, new, resized, changed)" },
	{ NULL, NULL, 0, NULL },
};

int py_add_index(PyObject *module)
{
	return PyModule_AddFunctions(module, functions);
}
