/* Lists for Python: streams of names from stores and catalogs, and what is made of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python/py_private.h"

#define NEXT_MAX 4096 /* the most entries that one call returns */

/* An open list. One thread uses it at a time, without the GIL. */
struct py_list {
	PyObject_HEAD struct shoal_list *list; /* NULL once it is closed */
	PyObject
		*catalog[2]; /* catalogs that it reads, or that select; in use until it is closed */
	PyObject *lent;      /* what its options point into */
	PyObject *warn;      /* a callable, or NULL */
	const char **patterns;
	pid_t pid; /* its threads are not in a forked process */
	bool busy;
	int closed; /* warnings are no longer delivered */
	int late;   /* an error that came after entries, for the next call */
	struct shoal_err late_err;
	PyObject *type, *value, *traceback; /* the first exception of a callback */
};

/* ---- Callbacks ---- */

/* With the GIL: keep the exception for the end of the call. */
static void list_keep_exception(struct py_list *l)
{
	if (l->type)
		PyErr_Clear();
	else
		PyErr_Fetch(&l->type, &l->value, &l->traceback);
}

static int list_on_waiting(void *self)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	struct py_list *l = self;

	if (PyErr_CheckSignals() < 0)
		list_keep_exception(l);
	PyGILState_Release(gil);
	return l->type != NULL;
}

static void list_on_warning(void *self, const char *words)
{
	struct py_list *l = self;
	PyGILState_STATE gil;
	PyObject *done;

	if (!l->warn || __atomic_load_n(&l->closed, __ATOMIC_RELAXED))
		return;
	gil = PyGILState_Ensure();
	done = PyObject_CallFunction(l->warn, "y", words);
	if (!done)
		list_keep_exception(l);
	Py_XDECREF(done);
	PyGILState_Release(gil);
}

/* ---- Calls ---- */

/* Begin a call that releases the GIL. False with an exception. */
static bool list_enter(struct py_list *l)
{
	if (!l->list)
		PyErr_SetString(PyExc_ValueError, "the list is closed");
	else if (l->pid != getpid())
		PyErr_SetString(PyExc_RuntimeError,
				"the list was opened before a fork: open it in this process");
	else if (l->busy)
		PyErr_SetString(PyExc_ValueError, "another thread is using the list");
	else
		l->busy = true;
	return !PyErr_Occurred();
}

/* End it: true if all is well, otherwise an exception is set. */
static bool list_leave(struct py_list *l, int rc, const struct shoal_err *err)
{
	l->busy = false;
	if (l->type) {
		PyErr_Restore(l->type, l->value, l->traceback);
		l->type = l->value = l->traceback = NULL;
		return false;
	}
	if (rc < 0)
		py_raise(rc, err);
	return rc >= 0;
}

/* Entries collected without the GIL. */
struct list_rows {
	char *bytes; /* names and ETags, each ended by a NUL */
	size_t len, cap;
	size_t nr;
	struct {
		size_t name, name_len, etag;
		uint64_t size, samples;
	} row[NEXT_MAX];
};

static int rows_put(struct list_rows *r, const struct shoal_entry *e)
{
	size_t etag_len = strlen(e->etag), need = e->len + etag_len + 2;

	if (!r->bytes || r->cap - r->len < need) {
		size_t cap = 2 * r->cap + need + 4096;
		char *bytes = realloc(r->bytes, cap);

		if (!bytes)
			return -ENOMEM;
		r->bytes = bytes;
		r->cap = cap;
	}
	r->row[r->nr].name = r->len;
	r->row[r->nr].name_len = e->len;
	r->row[r->nr].etag = r->len + e->len + 1;
	r->row[r->nr].size = e->size;
	r->row[r->nr++].samples = e->samples;
	memcpy(r->bytes + r->len, e->name, e->len + 1);
	memcpy(r->bytes + r->len + e->len + 1, e->etag, etag_len + 1);
	r->len += need;
	return 0;
}

static int rows_fill(struct list_rows *r, struct shoal_list *list, size_t max,
		     struct shoal_err *err)
{
	const struct shoal_entry *e;
	int rc = 1;

	while (r->nr < max && (rc = shoal_list_next(list, &e, err)) > 0) {
		rc = rows_put(r, e);
		if (rc < 0)
			break;
	}
	return rc;
}

static PyObject *rows_build(const struct list_rows *r)
{
	PyObject *list = PyList_New((Py_ssize_t)r->nr);

	for (size_t i = 0; list && i < r->nr; i++) {
		PyObject *row = Py_BuildValue(
			"(y#KKs)", r->bytes + r->row[i].name, (Py_ssize_t)r->row[i].name_len,
			(unsigned long long)r->row[i].size, (unsigned long long)r->row[i].samples,
			r->bytes + r->row[i].etag);

		if (!row)
			Py_CLEAR(list);
		else
			PyList_SetItem(list, (Py_ssize_t)i, row);
	}
	return list;
}

/*
 * next(max): up to @max entries as (name, size, samples, etag); none at the end. Entries before an
 * error are returned, and the error by the next call.
 */
static PyObject *list_next(PyObject *self, PyObject *arg)
{
	struct py_list *l = (struct py_list *)self;
	struct shoal_err err = { "" };
	struct list_rows *rows;
	PyObject *list = NULL;
	uint64_t max;
	int rc;

	if (py_u64(arg, &max) < 0 || !list_enter(l))
		return NULL;
	if (l->late < 0) {
		(void)list_leave(l, l->late, &l->late_err);
		return NULL;
	}
	rows = calloc(1, sizeof(*rows));
	if (!rows) {
		l->busy = false;
		return PyErr_NoMemory();
	}
	Py_BEGIN_ALLOW_THREADS;
	rc = rows_fill(rows, l->list, max < NEXT_MAX ? (size_t)max : NEXT_MAX, &err);
	Py_END_ALLOW_THREADS;
	if (rc < 0 && rows->nr > 0) {
		l->late = rc;
		l->late_err = err;
		rc = 0;
	}
	if (list_leave(l, rc, &err))
		list = rows_build(rows);
	free(rows->bytes);
	free(rows);
	return list;
}

static PyObject *list_info(PyObject *self, PyObject *unused)
{
	struct py_list *l = (struct py_list *)self;
	struct shoal_list_info info;

	(void)unused;
	if (!l->list) {
		PyErr_SetString(PyExc_ValueError, "the list is closed");
		return NULL;
	}
	shoal_list_info(l->list, &info);
	return Py_BuildValue("(yOOK)", info.root, info.sizes ? Py_True : Py_False,
			     info.etags ? Py_True : Py_False,
			     (unsigned long long)info.samples_per_file);
}

static PyObject *list_totals(const struct shoal_list_totals *t)
{
	return Py_BuildValue("(KKK)", (unsigned long long)t->nr_files,
			     (unsigned long long)t->nr_samples, (unsigned long long)t->nr_bytes);
}

static PyObject *list_count(PyObject *self, PyObject *unused)
{
	struct py_list *l = (struct py_list *)self;
	struct shoal_list_totals totals = { 0 };
	struct shoal_err err = { "" };
	int rc;

	(void)unused;
	if (!list_enter(l))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_list_count(l->list, &totals, &err);
	Py_END_ALLOW_THREADS;
	return list_leave(l, rc, &err) ? list_totals(&totals) : NULL;
}

/* write(output, root, samples_per_file, refuse_empty, careful, config, progress) */
static PyObject *list_write(PyObject *self, PyObject *args)
{
	struct py_list *l = (struct py_list *)self;
	struct py_progress p = { NULL };
	struct shoal_write_options o = { .progress = py_progress_of, .self = &p, .stop = &p.stop };
	struct shoal_list_totals totals = { 0 };
	struct shoal_store_config config;
	struct shoal_err err = { "" };
	PyObject *config_tuple;
	int refuse_empty, careful, rc;

	if (!PyArg_ParseTuple(args, "yzO&ppOO", &o.output, &o.root, py_u64_arg, &o.samples_per_file,
			      &refuse_empty, &careful, &config_tuple, &p.call) ||
	    py_store_config(config_tuple, &config, &o.config) < 0 || !list_enter(l))
		return NULL;
	o.refuse_empty = refuse_empty;
	o.careful = careful;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_list_write(l->list, &o, &totals, &err);
	Py_END_ALLOW_THREADS;
	if (list_leave(l, rc, &err) && !p.type)
		return list_totals(&totals);
	(void)py_progress_end(&p);
	return NULL;
}

static PyObject *stat_rows(const struct shoal_stat_row *rows, size_t nr)
{
	PyObject *list = PyList_New((Py_ssize_t)nr);

	for (size_t i = 0; list && i < nr; i++) {
		PyObject *row =
			Py_BuildValue("(yKK)", rows[i].name, (unsigned long long)rows[i].nr_files,
				      (unsigned long long)rows[i].nr_bytes);

		if (!row)
			Py_CLEAR(list);
		else
			PyList_SetItem(list, (Py_ssize_t)i, row);
	}
	return list;
}

static PyObject *stat_numbers(const uint64_t *numbers, size_t nr)
{
	PyObject *list = PyList_New((Py_ssize_t)nr);

	for (size_t i = 0; list && i < nr; i++) {
		PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);

		if (!number)
			Py_CLEAR(list);
		else
			PyList_SetItem(list, (Py_ssize_t)i, number);
	}
	return list;
}

static PyObject *stat_dict(const struct shoal_stat *s)
{
	return Py_BuildValue(
		"{s:N,s:K,s:K,s:N,s:N,s:N,s:N,s:N,s:N,s:K,s:K,s:K,s:K,s:K}", "totals",
		list_totals(&s->totals), "nr_folders", (unsigned long long)s->nr_folders,
		"nr_extensions", (unsigned long long)s->nr_extensions, "folders",
		stat_rows(s->folder, s->nr_folder_rows), "extensions",
		stat_rows(s->extension, s->nr_extension_rows), "largest",
		stat_rows(s->largest, s->nr_largest), "sizes", stat_numbers(s->sizes, 65), "bytes",
		stat_numbers(s->bytes, 65), "depth", stat_numbers(s->depth, SHOAL_STAT_DEPTH),
		"min_size", (unsigned long long)s->min_size, "max_size",
		(unsigned long long)s->max_size, "max_depth", (unsigned long long)s->max_depth,
		"longest_name", (unsigned long long)s->longest_name, "nr_other_extensions",
		(unsigned long long)s->nr_other_extensions);
}

/* stat(depth) */
static PyObject *list_stat(PyObject *self, PyObject *arg)
{
	struct py_list *l = (struct py_list *)self;
	struct shoal_err err = { "" };
	struct shoal_stat *stat;
	PyObject *dict = NULL;
	uint64_t depth;
	int rc;

	if (py_u64(arg, &depth) < 0 || !list_enter(l))
		return NULL;
	stat = calloc(1, sizeof(*stat));
	if (!stat) {
		l->busy = false;
		return PyErr_NoMemory();
	}
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_list_stat(l->list, depth > 4096 ? 4096 : (unsigned)depth, stat, &err);
	Py_END_ALLOW_THREADS;
	if (list_leave(l, rc, &err))
		dict = stat_dict(stat);
	shoal_stat_release(stat);
	free(stat);
	return dict;
}

/* ---- Opening and closing ---- */

static void list_shut(struct py_list *l)
{
	struct shoal_list *list = l->list;

	l->list = NULL;
	__atomic_store_n(&l->closed, 1, __ATOMIC_RELAXED);
	if (list && l->pid == getpid()) { /* threads are gone in a forked process: leave it */
		Py_BEGIN_ALLOW_THREADS;
		shoal_list_close(list);
		Py_END_ALLOW_THREADS;
	}
	for (int i = 0; i < 2; i++) {
		if (l->catalog[i])
			py_catalog_done(l->catalog[i]);
		l->catalog[i] = NULL;
	}
	Py_CLEAR(l->lent);
	Py_CLEAR(l->warn);
	PyMem_Free(l->patterns);
	l->patterns = NULL;
}

static PyObject *list_close(PyObject *self, PyObject *unused)
{
	struct py_list *l = (struct py_list *)self;

	(void)unused;
	if (l->busy) {
		PyErr_SetString(PyExc_ValueError, "another thread is using the list");
		return NULL;
	}
	list_shut(l);
	Py_RETURN_NONE;
}

static void list_dealloc(PyObject *self)
{
	struct py_list *l = (struct py_list *)self;

	list_shut(l);
	Py_CLEAR(l->type);
	Py_CLEAR(l->value);
	Py_CLEAR(l->traceback);
	py_free(self);
}

/* The patterns of two tuples of bytes, one after the other. */
static int list_patterns(struct py_list *l, PyObject *include, PyObject *exclude,
			 struct shoal_select *s)
{
	PyObject *tuple[2] = { include, exclude };
	size_t nr = 0;

	s->nr_include = (size_t)PyTuple_Size(include);
	s->nr_exclude = (size_t)PyTuple_Size(exclude);
	l->patterns = PyMem_Calloc(s->nr_include + s->nr_exclude + 1, sizeof(*l->patterns));
	if (!l->patterns) {
		PyErr_NoMemory();
		return -1;
	}
	for (int k = 0; k < 2; k++)
		for (Py_ssize_t i = 0; i < PyTuple_Size(tuple[k]); i++) {
			l->patterns[nr] = PyBytes_AsString(PyTuple_GetItem(tuple[k], i));
			if (!l->patterns[nr++])
				return -1;
		}
	s->include = l->patterns;
	s->exclude = l->patterns + s->nr_include;
	return 0;
}

/* (include, exclude, regex, ignore_case, min_size, max_size, start_after, end_before, limit, names,
 * not_in, from, to, seed) */
static int list_select(struct py_list *l, PyObject *tuple, struct shoal_select *s)
{
	PyObject *include, *exclude, *names;
	int ignore_case, not_in;

	if (!PyArg_ParseTuple(tuple, "O!O!zpO&O&zzO&OpddO&", &PyTuple_Type, &include, &PyTuple_Type,
			      &exclude, &s->regex, &ignore_case, py_u64_arg, &s->min_size,
			      py_u64_arg, &s->max_size, &s->start_after, &s->end_before, py_u64_arg,
			      &s->limit, &names, &not_in, &s->from, &s->to, py_u64_arg, &s->seed) ||
	    list_patterns(l, include, exclude, s) < 0)
		return -1;
	s->ignore_case = ignore_case;
	s->not_in = not_in;
	if (names == Py_None)
		return 0;
	s->names = py_catalog_use((PyObject *)l, names);
	if (!s->names)
		return -1;
	l->catalog[1] = names;
	return 0;
}

static struct py_list *list_new(PyObject *module, PyObject *lent)
{
	struct py_list *l = py_alloc(module, PY_LIST);

	if (!l)
		return NULL;
	l->lent = lent;
	Py_INCREF(lent);
	l->pid = getpid();
	return l;
}

static PyObject *list_opened(struct py_list *l, int rc, const struct shoal_err *err)
{
	if (rc == 0)
		shoal_list_set_waiting(l->list, list_on_waiting, l);
	if (list_leave(l, rc, err))
		return (PyObject *)l;
	Py_DECREF(l);
	return NULL;
}

/* list_store(uri, select, (no_sizes, etags, follow, one_fs, keep_going, threads, shard, nr_shards,
 * tmp_dir), warn, config) */
static PyObject *list_store(PyObject *module, PyObject *args)
{
	struct shoal_list_options o = { .warn = list_on_warning };
	struct shoal_store_config config;
	struct shoal_err err = { "" };
	PyObject *select, *warn, *config_tuple;
	struct py_list *l = list_new(module, args);
	int no_sizes, etags, follow, one_fs, keep_going, rc;
	const char *uri;

	if (!l)
		return NULL;
	if (!PyArg_ParseTuple(args, "yO!(pppppIIIz)OO", &uri, &PyTuple_Type, &select, &no_sizes,
			      &etags, &follow, &one_fs, &keep_going, &o.nr_threads, &o.shard,
			      &o.nr_shards, &o.tmp_dir, &warn, &config_tuple) ||
	    list_select(l, select, &o.select) < 0 ||
	    py_store_config(config_tuple, &config, &o.config) < 0) {
		Py_DECREF((PyObject *)l);
		return NULL;
	}
	o.no_sizes = no_sizes;
	o.etags = etags;
	o.follow = follow;
	o.one_fs = one_fs;
	o.keep_going = keep_going;
	o.self = l;
	if (warn != Py_None) {
		l->warn = warn;
		Py_INCREF(warn);
	}
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_list_open(uri, &o, &l->list, &err);
	Py_END_ALLOW_THREADS;
	return list_opened(l, rc, &err);
}

/* list_catalog(catalog, select) */
static PyObject *list_catalog(PyObject *module, PyObject *args)
{
	struct shoal_select s = { 0 };
	struct shoal_err err = { "" };
	PyObject *select, *catalog;
	struct py_list *l = list_new(module, args);
	struct shoal_catalog *cat;
	int rc;

	if (!l)
		return NULL;
	if (!PyArg_ParseTuple(args, "OO!", &catalog, &PyTuple_Type, &select) ||
	    list_select(l, select, &s) < 0) {
		Py_DECREF((PyObject *)l);
		return NULL;
	}
	cat = py_catalog_use(module, catalog);
	if (!cat) {
		Py_DECREF((PyObject *)l);
		return NULL;
	}
	l->catalog[0] = catalog;
	rc = shoal_list_catalog(cat, &s, &l->list, &err);
	return list_opened(l, rc, &err);
}

/* ---- Several ---- */

/* merge_catalogs((catalog, ...), fail, output, root, careful, config, progress) */
static PyObject *merge_catalogs(PyObject *module, PyObject *args)
{
	struct py_progress p = { NULL };
	struct shoal_write_options o = { .progress = py_progress_of, .self = &p, .stop = &p.stop };
	struct shoal_list_totals totals = { 0 };
	struct shoal_err err = { "" };
	const struct shoal_catalog **cats;
	struct shoal_store_config config;
	PyObject *tuple, *config_tuple, *result = NULL;
	Py_ssize_t nr, used = 0;
	int fail, careful, rc;

	if (!PyArg_ParseTuple(args, "O!pyzpOO", &PyTuple_Type, &tuple, &fail, &o.output, &o.root,
			      &careful, &config_tuple, &p.call) ||
	    py_store_config(config_tuple, &config, &o.config) < 0)
		return NULL;
	nr = PyTuple_Size(tuple);
	cats = PyMem_Calloc((size_t)nr + 1, sizeof(const struct shoal_catalog *));
	if (!cats)
		return PyErr_NoMemory();
	o.refuse_empty = o.careful = careful;
	while (used < nr &&
	       (cats[used] = py_catalog_use(module, PyTuple_GetItem(tuple, used))) != NULL)
		used++;
	if (used == nr) {
		Py_BEGIN_ALLOW_THREADS;
		rc = shoal_catalog_merge(cats, (size_t)nr,
					 fail ? SHOAL_REPEATED_FAIL : SHOAL_REPEATED_LAST, &o,
					 &totals, &err);
		Py_END_ALLOW_THREADS;
		if (py_progress_end(&p) == 0)
			result = rc < 0 ? py_raise(rc, &err) : list_totals(&totals);
	}
	while (used > 0)
		py_catalog_done(PyTuple_GetItem(tuple, --used));
	PyMem_Free(cats);
	return result;
}

struct list_differs {
	PyObject *call; /* NULL once it wants no more calls */
	struct py_list *list;
	struct py_progress progress;
};

static void list_on_compared(void *self, uint64_t nr_names)
{
	py_progress_names(&((struct list_differs *)self)->progress, nr_names);
}

static int list_on_difference(void *self, enum shoal_difference what, const char *name, size_t len,
			      uint64_t was, uint64_t is)
{
	struct list_differs *d = self;
	PyGILState_STATE gil;

	if (!d->call)
		return 0;
	gil = PyGILState_Ensure();
	if (py_tell_difference(&d->call, what, name, len, was, is) < 0)
		list_keep_exception(d->list);
	PyGILState_Release(gil);
	return d->list->type ? -ECANCELED : 0;
}

/* diff_lists(old, new, differs, progress): (same, missing, new, resized, changed) */
static PyObject *diff_lists(PyObject *module, PyObject *args)
{
	struct list_differs d = { 0 };
	struct shoal_diff_options o = { .differs = list_on_difference,
					.progress = list_on_compared,
					.stop = &d.progress.stop,
					.self = &d };
	struct shoal_compare_result r = { 0 };
	struct shoal_err err = { "" };
	PyTypeObject *type = py_type(module, PY_LIST);
	struct py_list *a, *b;
	int rc;

	if (!PyArg_ParseTuple(args, "O!O!OO", type, &a, type, &b, &d.call, &d.progress.call) ||
	    !list_enter(a))
		return NULL;
	if (!list_enter(b)) {
		a->busy = false;
		return NULL;
	}
	d.list = a;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_list_diff(a->list, b->list, &o, &r, &err);
	Py_END_ALLOW_THREADS;
	if (!list_leave(a, 0, &err)) {
		(void)list_leave(b, 0, &err);
		return NULL;
	}
	if (!list_leave(b, rc, &err) || d.progress.type) {
		(void)py_progress_end(&d.progress);
		return NULL;
	}
	return Py_BuildValue("KKKKK", (unsigned long long)r.nr_same,
			     (unsigned long long)r.nr_missing, (unsigned long long)r.nr_new,
			     (unsigned long long)r.nr_resized, (unsigned long long)r.nr_changed);
}

static PyMethodDef list_methods[] = {
	{ "next", list_next, METH_O,
	  "next(max): [(name, size, samples, etag), ...]; []: the end." },
	{ "info", list_info, METH_NOARGS, "(root, sizes, etags, samples_per_file)" },
	{ "count", list_count, METH_NOARGS, "(files, samples, bytes) of the rest." },
	{ "write", list_write, METH_VARARGS,
	  "write(output, root, samples_per_file, refuse_empty, careful, config, progress): (files, "
	  "samples, "
	  "bytes)" },
	{ "stat", list_stat, METH_O, "stat(depth): figures about the rest." },
	{ "close", list_close, METH_NOARGS, "End its threads." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot list_slots[] = {
	{ Py_tp_dealloc, list_dealloc },
	{ Py_tp_methods, list_methods },
	{ Py_tp_doc, "A stream of entries in the order of their names." },
	{ 0, NULL },
};

static PyMethodDef list_functions[] = {
	{ "list_store", list_store, METH_VARARGS,
	  "list_store(uri, select, options, warn, config)" },
	{ "list_catalog", list_catalog, METH_VARARGS, "list_catalog(catalog, select)" },
	{ "merge_catalogs", merge_catalogs, METH_VARARGS,
	  "merge_catalogs(catalogs, fail, output, root, careful, config, progress)" },
	{ "diff_lists", diff_lists, METH_VARARGS,
	  "diff_lists(old, new, differs, progress): (same, missing, new, resized, changed)" },
	{ NULL, NULL, 0, NULL },
};

int py_add_list(PyObject *module)
{
	if (py_add_type(module, PY_LIST, "shoal._shoal.List", sizeof(struct py_list), list_slots) <
	    0)
		return -1;
	return PyModule_AddFunctions(module, list_functions);
}
