/*
 * Loaders, and the batches and samples that they lend.
 *
 * A sample's bytes are accessible through the buffer protocol, without a copy. Each view keeps its
 * sample alive, each sample its batch and each batch its loader; when the last view of a batch is
 * gone, the batch is given back. A caller that holds more batches than the ring has gets copies.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "load/audit.h"
#include "load/loader.h"
#include "python/py_private.h"

struct loader {
	PyObject_HEAD PyObject *catalog; /* in use until this is closed */
	struct shoal_loader *loader;     /* NULL once it is closed */
	char *store;
	pid_t pid;
	bool busy;    /* a thread is in a call that released the GIL */
	bool closing; /* close when the last batch is given back */
	unsigned nr_held, prefetch;
	PyObject *memory_added, *memory_removed; /* callables, or NULL */
	pthread_mutex_t lock; /* protects the messages, which come from the loader's thread */
	char stalled[256];
};

struct py_batch {
	PyObject_HEAD struct loader *loader;
	const struct shoal_batch *batch; /* of the loader; NULL for a copy */
	void *copy;
	uint64_t step;
	Py_ssize_t nr;
	const struct shoal_sample *sample;
	Py_ssize_t shape[2], strides[2]; /* of the samples as rows, while a view is made */
};

struct py_sample {
	PyObject_HEAD struct py_batch *batch;
	const struct shoal_sample *sample;
};

/* ---- Opening and closing ---- */

/* On the loader's thread, which must not wait for the GIL: next() passes the message on. */
static void on_stalled(void *self, const char *words)
{
	struct loader *l = self;

	pthread_mutex_lock(&l->lock);
	snprintf(l->stalled, sizeof(l->stalled), "%s", words);
	pthread_mutex_unlock(&l->lock);
}

/* Raise the messages of the loader's thread as warnings. */
static int warn_stalled(struct loader *l)
{
	char words[sizeof(l->stalled)];
	PyObject *text;
	int rc;

	pthread_mutex_lock(&l->lock);
	memcpy(words, l->stalled, sizeof(words));
	l->stalled[0] = '\0';
	pthread_mutex_unlock(&l->lock);
	if (!words[0])
		return 0;
	/* They may contain a name that is not UTF-8, or be truncated inside a character. */
	text = PyUnicode_DecodeFSDefault(words);
	if (!text)
		return -1;
	rc = PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%U", text);
	Py_DECREF(text);
	return rc;
}

/* Called ten times per second while a call waits: signals are handled, and the epoch continues. */
static int on_waiting(void *self, struct shoal_err *err)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	int rc = PyErr_CheckSignals() < 0 || warn_stalled(self) < 0 ? -EINTR : 0;

	(void)err; /* the exception is set */
	PyGILState_Release(gil);
	return rc;
}

/* On the thread that opens the loader. */
static int on_memory_added(void *self, void *addr, size_t len)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	struct loader *l = self;
	PyObject *result =
		PyObject_CallFunction(l->memory_added, "KK", (unsigned long long)(uintptr_t)addr,
				      (unsigned long long)len);
	int rc = result ? 0 : -ECANCELED; /* the exception is set */

	Py_XDECREF(result);
	PyGILState_Release(gil);
	return rc;
}

/* On the thread that closes it, or could not open it. */
static void on_memory_removed(void *self, void *addr, size_t len)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	struct loader *l = self;
	PyObject *result =
		PyObject_CallFunction(l->memory_removed, "KK", (unsigned long long)(uintptr_t)addr,
				      (unsigned long long)len);

	Py_XDECREF(result);
	PyGILState_Release(gil);
}

static void tell_memory(struct loader *l, PyObject *added, PyObject *removed,
			struct shoal_load_options *o)
{
	if (added == Py_None)
		return;
	Py_INCREF(l->memory_added = added);
	Py_INCREF(l->memory_removed = removed);
	o->memory_added = on_memory_added;
	o->memory_removed = on_memory_removed;
}

/* (store, engine, direct, in_flight, prefetch, slot, first_step, stride, object_size, skip_errors,
 * stall_ms, timeout_ms, if_match, memory, part, first, steps, config, threads, memory_added,
 * memory_removed); the last two are lent */
static int py_loader_options(PyObject *tuple, struct shoal_load_options *o,
			     struct shoal_store_config *config, PyObject **ret_added,
			     PyObject **ret_removed)
{
	int engine, direct, skip_errors, if_match, part;
	PyObject *config_tuple;

	if (!PyArg_ParseTuple(tuple, "zipIIO&O&O&O&pO&O&pO&pO&O&OIOO", &o->store, &engine, &direct,
			      &o->in_flight, &o->prefetch, py_u64_arg, &o->slot, py_u64_arg,
			      &o->first_step, py_u64_arg, &o->stride, py_u64_arg, &o->object_size,
			      &skip_errors, py_u64_arg, &o->stall_ms, py_u64_arg, &o->timeout_ms,
			      &if_match, py_u64_arg, &o->memory, &part, py_u64_arg, &o->first,
			      py_u64_arg, &o->steps, &config_tuple, &o->threads, ret_added,
			      ret_removed) ||
	    py_store_config(config_tuple, config, &o->config) < 0)
		return -1;
	o->engine = (enum shoal_engine)engine;
	o->direct = direct;
	o->skip_errors = skip_errors;
	o->if_match = if_match;
	o->part = part;
	return 0;
}

/* Loader(catalog, spec, rank, options) */
static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	struct shoal_load_options options = { 0 };
	PyObject *catalog, *spec_tuple, *options_tuple, *added, *removed;
	struct shoal_store_config config;
	struct shoal_order_spec spec;
	struct shoal_err err = { "" };
	struct shoal_catalog *cat;
	struct loader *l;
	uint64_t rank;
	int rc;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "OO!O&O!", &catalog, &PyTuple_Type, &spec_tuple, py_u64_arg,
			      &rank, &PyTuple_Type, &options_tuple) ||
	    py_order_spec(spec_tuple, &spec) < 0 ||
	    py_loader_options(options_tuple, &options, &config, &added, &removed) < 0)
		return NULL;
	cat = py_catalog_use((PyObject *)type, catalog);
	if (!cat)
		return NULL;
	l = (struct loader *)PyType_GenericAlloc(type, 0);
	if (!l) {
		py_catalog_done(catalog);
		return NULL;
	}
	l->catalog = catalog;
	l->pid = getpid();
	l->prefetch = options.prefetch;
	pthread_mutex_init(&l->lock, NULL);
	options.stalled = on_stalled;
	options.waiting = on_waiting;
	options.self = l;
	tell_memory(l, added, removed, &options);
	if (options.store) { /* the tuple ends before the loader does */
		l->store = strdup(options.store);
		options.store = l->store;
		if (!l->store) {
			Py_DECREF(l);
			return PyErr_NoMemory();
		}
	}
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_loader_open(cat, &spec, rank, &options, &l->loader, &err);
	Py_END_ALLOW_THREADS;
	if (rc < 0) {
		Py_DECREF(l);
		return py_raise(rc, &err);
	}
	return (PyObject *)l;
}

/* The thread does not exist in a forked process: there is nothing to wait for. */
static void close_now(struct loader *l)
{
	struct shoal_loader *loader = l->loader;
	PyObject *catalog = l->catalog;

	/* Clear both now: another thread may close it as well while the GIL is released. */
	l->loader = NULL;
	l->catalog = NULL;
	if (loader && l->pid == getpid()) {
		Py_BEGIN_ALLOW_THREADS;
		shoal_loader_close(loader);
		Py_END_ALLOW_THREADS;
	}
	if (catalog)
		py_catalog_done(catalog);
	Py_CLEAR(l->memory_added);
	Py_CLEAR(l->memory_removed);
}

/* Where nobody can be told that memory_removed failed, and another exception may be set. */
static void close_quietly(struct loader *l)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	close_now(l);
	if (PyErr_Occurred())
		PyErr_WriteUnraisable(NULL);
	PyErr_Restore(type, value, traceback);
}

static void loader_dealloc(PyObject *self)
{
	struct loader *l = (struct loader *)self;

	close_quietly(l);
	free(l->store);
	pthread_mutex_destroy(&l->lock);
	py_free(self);
}

/* Whether a call may begin; it ends with l->busy = false. */
static bool enter(struct loader *l)
{
	if (!l->loader || l->closing)
		PyErr_SetString(PyExc_ValueError, "the loader is closed");
	else if (l->pid != getpid())
		PyErr_SetString(PyExc_RuntimeError,
				"the loader was opened by another process: open one in each");
	else if (l->busy)
		PyErr_SetString(PyExc_RuntimeError,
				"the loader is in use by another thread: open one for each");
	else
		l->busy = true;
	return l->busy && !PyErr_Occurred();
}

static PyObject *loader_close(PyObject *self, PyObject *unused)
{
	struct loader *l = (struct loader *)self;

	(void)unused;
	if (l->busy && l->pid == getpid())
		return py_error(PyExc_RuntimeError, "the loader is in use by another thread");
	l->closing = true;
	if (l->nr_held == 0)
		close_now(l);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *loader_epoch(PyObject *self, PyObject *epoch_object)
{
	struct loader *l = (struct loader *)self;
	struct shoal_err err = { "" };
	uint64_t epoch;
	int rc;

	if (py_u64(epoch_object, &epoch) < 0 || !enter(l))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_loader_epoch(l->loader, epoch, &err);
	Py_END_ALLOW_THREADS;
	l->busy = false;
	return py_done(rc, &err);
}

/* ---- Batches ---- */

/* Copy all samples of a batch, one after another, after their table. NULL: no memory. */
static struct shoal_sample *copy_of(const struct shoal_batch *b)
{
	size_t table = b->nr * sizeof(struct shoal_sample), len = table;
	struct shoal_sample *copy;
	char *at;

	for (size_t i = 0; i < b->nr; i++)
		len += (size_t)b->sample[i].len;
	copy = malloc(len + 1); /* owned by the caller */
	if (!copy)
		return NULL;
	memcpy(copy, b->sample, table);
	at = (char *)copy + table;
	for (size_t i = 0; i < b->nr; i++) {
		if (copy[i].len)
			memcpy(at, b->sample[i].data, (size_t)b->sample[i].len);
		copy[i].data = at;
		at += copy[i].len;
	}
	return copy;
}

/* Take the batch over. It is copied if the ring has no free one for the next. */
static PyObject *lend(struct loader *l, const struct shoal_batch *taken)
{
	struct py_batch *b = py_alloc((PyObject *)l, PY_BATCH);
	bool copy = l->nr_held >= l->prefetch;

	if (!b) {
		shoal_loader_give_back(l->loader, taken);
		return NULL;
	}
	b->step = taken->step;
	b->nr = (Py_ssize_t)taken->nr;
	if (!copy) {
		Py_INCREF((PyObject *)l);
		b->loader = l;
		l->nr_held++;
		b->batch = taken;
		b->sample = taken->sample;
		return (PyObject *)b;
	}
	Py_BEGIN_ALLOW_THREADS;
	b->copy = copy_of(taken);
	shoal_loader_give_back(l->loader, taken);
	Py_END_ALLOW_THREADS;
	b->sample = b->copy;
	if (!b->copy) {
		Py_DECREF(b);
		return PyErr_NoMemory();
	}
	return (PyObject *)b;
}

static void batch_dealloc(PyObject *self)
{
	struct py_batch *b = (struct py_batch *)self;
	struct loader *l = b->loader;

	if (l) {
		l->nr_held--;
		if (l->pid == getpid() && l->loader)
			shoal_loader_give_back(l->loader, b->batch);
		if (l->closing && l->nr_held == 0)
			close_quietly(l);
		Py_DECREF(l);
	}
	free(b->copy);
	py_free(self);
}

/* next(): a Batch, or None at the end of the epoch. */
static PyObject *loader_next(PyObject *self, PyObject *unused)
{
	struct loader *l = (struct loader *)self;
	const struct shoal_batch *batch = NULL;
	struct shoal_err err = { "" };
	PyObject *result = NULL;
	int rc;

	(void)unused;
	if (!enter(l))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_loader_next(l->loader, &batch, &err);
	/* Views of the held batch exist: it stays, as a copy would. */
	if (rc == -EBUSY) {
		load_exceed(l->loader);
		rc = shoal_loader_next(l->loader, &batch, &err);
	}
	Py_END_ALLOW_THREADS;
	if (rc < 0)
		py_raise(rc, &err);
	else if (rc == 1)
		result = lend(l, batch);
	else
		Py_INCREF(result = Py_None);
	l->busy = false;
	return result;
}

/* ---- Statistics ---- */

static PyObject *loader_stats(PyObject *self, PyObject *unused)
{
	struct loader *l = (struct loader *)self;
	struct shoal_load_stats s;
	PyObject *errors, *all;
	Py_ssize_t nr = 0;

	(void)unused;
	if (!enter(l))
		return NULL;
	l->busy = false;
	shoal_loader_stats(l->loader, &s);
	while (nr < 10 && s.first_errors[nr][0])
		nr++;
	errors = PyList_New(nr);
	for (Py_ssize_t i = 0; errors && i < nr; i++) {
		PyObject *text = PyUnicode_DecodeFSDefault(s.first_errors[i]);

		if (!text)
			Py_CLEAR(errors);
		else
			PyList_SetItem(errors, i, text);
	}
	if (!errors)
		return NULL;
	all = Py_BuildValue(
		"{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:(KK),s:(KK),s:K,s:K,s:s,s:s,s:N}",
		"nr_samples", (unsigned long long)s.nr_samples, "nr_errors",
		(unsigned long long)s.nr_errors, "bytes_asked", (unsigned long long)s.bytes_asked,
		"bytes_delivered", (unsigned long long)s.bytes_delivered, "wait_ns",
		(unsigned long long)s.wait_ns, "nr_reads", (unsigned long long)s.nr_reads,
		"nr_opens", (unsigned long long)s.nr_opens, "bytes_read",
		(unsigned long long)s.bytes_read, "nr_pages", (unsigned long long)s.nr_pages,
		"nr_cached", (unsigned long long)s.nr_cached, "sum_ids",
		(unsigned long long)s.sum_ids[0], (unsigned long long)s.sum_ids[1], "sum_order",
		(unsigned long long)s.sum_order[0], (unsigned long long)s.sum_order[1],
		"pool_bytes", (unsigned long long)s.pool_bytes, "pool_now",
		(unsigned long long)s.pool_now, "engine", s.engine, "engine_detail",
		s.engine_detail, "first_errors", errors);
	return all;
}

/* expect(steps): this rank's part of the expected (nr, ids, ids) for @steps steps of all ranks. */
static PyObject *loader_expect(PyObject *self, PyObject *args)
{
	struct loader *l = (struct loader *)self;
	struct load_sums sums = { 0 };
	struct shoal_err err = { "" };
	uint64_t steps, rank;
	int rc;

	if (!PyArg_ParseTuple(args, "O&O&", py_u64_arg, &steps, py_u64_arg, &rank) || !enter(l))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = load_sums_expect(load_order(l->loader), steps, rank, &sums, &err);
	Py_END_ALLOW_THREADS;
	l->busy = false;
	if (rc < 0)
		return py_raise(rc, &err);
	return Py_BuildValue("KKK", (unsigned long long)sums.nr, (unsigned long long)sums.ids[0],
			     (unsigned long long)sums.ids[1]);
}

static PyObject *loader_steps(PyObject *self, PyObject *unused)
{
	struct loader *l = (struct loader *)self;

	(void)unused;
	if (!enter(l))
		return NULL;
	l->busy = false;
	return PyLong_FromUnsignedLongLong(shoal_order_steps(load_order(l->loader)));
}

/* ---- Contents of a batch ---- */

static Py_ssize_t batch_len(PyObject *self)
{
	return ((struct py_batch *)self)->nr;
}

static PyObject *batch_item(PyObject *self, Py_ssize_t i)
{
	struct py_batch *b = (struct py_batch *)self;
	struct py_sample *s;

	if (i < 0 || i >= b->nr)
		return py_error(PyExc_IndexError, "the batch has no such sample");
	s = py_alloc(self, PY_SAMPLE);
	if (!s)
		return NULL;
	Py_INCREF((PyObject *)b);
	s->batch = b;
	s->sample = &b->sample[i];
	return (PyObject *)s;
}

static PyObject *batch_step(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(((struct py_batch *)self)->step);
}

static PyObject *batch_copied(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct py_batch *)self)->copy != NULL);
}

/* table(out): id, length and error of each sample, three 64-bit words per sample. */
static PyObject *batch_table(PyObject *self, PyObject *args)
{
	struct py_batch *b = (struct py_batch *)self;
	Py_buffer out;
	uint64_t *word;

	if (!PyArg_ParseTuple(args, "w*", &out))
		return NULL;
	word = out.buf;
	for (Py_ssize_t i = 0; i < b->nr && (i + 1) * 24 <= out.len; i++) {
		*word++ = b->sample[i].id;
		*word++ = b->sample[i].len;
		*word++ = (uint64_t)-b->sample[i].error;
	}
	PyBuffer_Release(&out);
	Py_RETURN_NONE;
}

/* Whether all samples have one length and equal distances: rows of one array. */
static bool find_rows(struct py_batch *b)
{
	const struct shoal_sample *s = b->sample;
	uintptr_t distance = b->nr > 0 ? (uintptr_t)s[0].len : 0;

	for (Py_ssize_t i = 0; i < b->nr; i++) {
		if (!s[i].data || s[i].len == 0 || s[i].len != s[0].len)
			return false;
		if (i == 1)
			distance = (uintptr_t)s[1].data - (uintptr_t)s[0].data;
		if (i > 0 && (uintptr_t)s[i].data - (uintptr_t)s[i - 1].data != distance)
			return false;
	}
	b->shape[0] = b->nr;
	b->shape[1] = b->nr > 0 ? (Py_ssize_t)s[0].len : 0;
	b->strides[0] = (Py_ssize_t)distance;
	b->strides[1] = 1;
	return b->nr > 0 && b->strides[0] >= b->shape[1];
}

/* Whether the rows are as contiguous as the flags require. */
static bool is_laid_out(const struct py_batch *b, int flags)
{
	if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS)
		return b->shape[0] == 1 || b->shape[1] == 1;
	if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
	    (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS)
		return b->strides[0] == b->shape[1];
	return true;
}

/* All samples as an array of two dimensions, without a copy. */
static int batch_buffer(PyObject *self, Py_buffer *view, int flags)
{
	struct py_batch *b = (struct py_batch *)self;

	view->obj = NULL;
	if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES || !find_rows(b) || !is_laid_out(b, flags)) {
		PyErr_SetString(PyExc_BufferError, "the samples are not rows of one array");
		return -1;
	}
	*view = (Py_buffer){ .buf = (void *)(uintptr_t)b->sample[0].data,
			     .len = b->shape[0] * b->shape[1],
			     .itemsize = 1,
			     .ndim = 2,
			     .shape = b->shape,
			     .strides = b->strides };
	if (flags & PyBUF_FORMAT)
		view->format = "B";
	Py_INCREF(self);
	view->obj = self;
	return 0;
}

static void copy_rows(const struct py_batch *b, char *to, size_t width, int fill)
{
	for (Py_ssize_t i = 0; i < b->nr; i++, to += width) {
		size_t len = b->sample[i].data ? (size_t)b->sample[i].len : 0;

		len = len < width ? len : width;
		if (len)
			memcpy(to, b->sample[i].data, len);
		memset(to + len, fill, width - len);
	}
}

/* stack(out, width, fill): each sample in a row of @width bytes, truncated or padded. */
static PyObject *batch_stack(PyObject *self, PyObject *args)
{
	const struct py_batch *b = (const struct py_batch *)self;
	Py_ssize_t width;
	Py_buffer out;
	bool fits;
	int fill;

	if (!PyArg_ParseTuple(args, "w*ni", &out, &width, &fill))
		return NULL;
	fits = width >= 0 && (b->nr == 0 || width <= out.len / b->nr);
	if (fits) {
		Py_BEGIN_ALLOW_THREADS;
		copy_rows(b, out.buf, (size_t)width, fill);
		Py_END_ALLOW_THREADS;
	}
	PyBuffer_Release(&out);
	if (!fits)
		return py_error(PyExc_ValueError, "there is no room for that many rows");
	Py_RETURN_NONE;
}

/* ---- A sample: its bytes are lent ---- */

static void sample_dealloc(PyObject *self)
{
	Py_XDECREF((PyObject *)((struct py_sample *)self)->batch);
	py_free(self);
}

/* Writable: until the batch is given back, only the holder uses its memory. */
static int sample_buffer(PyObject *self, Py_buffer *view, int flags)
{
	const struct shoal_sample *s = ((struct py_sample *)self)->sample;
	static char nothing[1];
	void *data = s->data ? (void *)(uintptr_t)s->data : nothing;

	return PyBuffer_FillInfo(view, self, data, s->data ? (Py_ssize_t)s->len : 0, 0, flags);
}

static Py_ssize_t sample_len(PyObject *self)
{
	return (Py_ssize_t)((struct py_sample *)self)->sample->len;
}

static PyObject *sample_id(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(((struct py_sample *)self)->sample->id);
}

static PyObject *sample_error(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromLong(-((struct py_sample *)self)->sample->error);
}

/* ---- Types ---- */

static PyMethodDef loader_methods[] = {
	{ "close", loader_close, METH_NOARGS, "Close it once all its batches are given back." },
	{ "epoch", loader_epoch, METH_O, "Begin an epoch." },
	{ "next", loader_next, METH_NOARGS, "The next batch, or None." },
	{ "stats", loader_stats, METH_NOARGS, "The statistics of this epoch." },
	{ "expect", loader_expect, METH_VARARGS, "expect(steps, rank): the expected sums." },
	{ "steps", loader_steps, METH_NOARGS, "Steps of the epoch, over all loaders of the rank." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot loader_slots[] = {
	{ Py_tp_new, loader_new },
	{ Py_tp_dealloc, loader_dealloc },
	{ Py_tp_methods, loader_methods },
	{ 0, NULL },
};

static PyMethodDef batch_methods[] = {
	{ "table", batch_table, METH_VARARGS, "table(out): id, length and error per sample." },
	{ "stack", batch_stack, METH_VARARGS, "stack(out, width, fill): one row per sample." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef batch_values[] = {
	{ "step", batch_step, NULL, "The step of the epoch.", NULL },
	{ "copied", batch_copied, NULL, "Whether it is a copy of the loader's memory.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot batch_slots[] = {
	{ Py_tp_dealloc, batch_dealloc },
	{ Py_tp_methods, batch_methods },
	{ Py_tp_getset, batch_values },
	{ Py_sq_length, batch_len },
	{ Py_bf_getbuffer, batch_buffer },
	{ Py_sq_item, batch_item },
	{ 0, NULL },
};

static PyGetSetDef sample_values[] = {
	{ "id", sample_id, NULL, "The sample's id in the catalog.", NULL },
	{ "error", sample_error, NULL, "0, or the errno of the failed read.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot sample_slots[] = {
	{ Py_tp_dealloc, sample_dealloc },
	{ Py_tp_getset, sample_values },
	{ Py_sq_length, sample_len },
	{ Py_bf_getbuffer, sample_buffer },
	{ 0, NULL },
};

int py_add_loader(PyObject *module)
{
	if (py_add_type(module, PY_LOADER, "shoal._shoal.Loader", sizeof(struct loader),
			loader_slots) < 0 ||
	    py_add_type(module, PY_BATCH, "shoal._shoal.Batch", sizeof(struct py_batch),
			batch_slots) < 0)
		return -1;
	return py_add_type(module, PY_SAMPLE, "shoal._shoal.Sample", sizeof(struct py_sample),
			   sample_slots);
}
