/* Columns, their writers, and batches by length. Buffers are of the column's type, or of 64-bit
 * ids. */
#include <errno.h>
#include <string.h>

#include "python/py_private.h"

struct column {
	PyObject_HEAD struct shoal_column *column;
};

struct writer {
	PyObject_HEAD struct shoal_column_writer *writer; /* NULL once it is sealed or aborted */
	size_t width;
	bool busy; /* a thread is in a call that released the GIL */
};

struct batches {
	PyObject_HEAD struct shoal_batches *batches;
	PyObject *column; /* lent to the batches: kept alive */
};

static struct shoal_column *py_column_of(PyObject *self)
{
	return ((struct column *)self)->column;
}

/* Set the messages of read errors, which have none. */
static PyObject *read_failed(int rc)
{
	struct shoal_err err = { "" };
	const char *words = "";

	if (rc == -ERANGE)
		return py_error(PyExc_IndexError, "the column has no such sample");
	if (rc == -EBADMSG)
		words = "damaged column: a checksum does not match; make it again";
	else if (rc == -ESTALE)
		words = "the column's file was truncated while it was in use";
	else if (rc == -EINVAL)
		words = "that is for whole columns of type bit";
	else if (rc == -ENOTSUP)
		words = "the column is not sorted";
	memcpy(err.msg, words, strlen(words) + 1);
	err.hint = rc == -ENOTSUP ? SHOAL_HINT_SORT_COLUMN : SHOAL_HINT_NONE;
	return py_raise(rc, &err);
}

/* Bytes of a value in an array. */
static size_t py_column_width_of(enum shoal_column_type type)
{
	switch (type) {
	case SHOAL_BIT:
	case SHOAL_U8:
		return 1;
	case SHOAL_U16:
		return 2;
	case SHOAL_U32:
	case SHOAL_F32:
		return 4;
	case SHOAL_U64:
	case SHOAL_I64:
	case SHOAL_F64:
	default:
		return 8;
	}
}

/* ---- Reading ---- */

/* Column(path, digest or None) */
static PyObject *column_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	struct shoal_column *column = NULL;
	struct shoal_err err = { "" };
	PyObject *path = NULL, *self;
	const char *digest;
	int rc;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "O&z", PyUnicode_FSConverter, &path, &digest))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_column_open(PyBytes_AsString(path), digest, &column, &err);
	Py_END_ALLOW_THREADS;
	Py_DECREF(path);
	if (rc < 0)
		return py_raise(rc, &err);
	self = PyType_GenericAlloc(type, 0);
	if (self)
		((struct column *)self)->column = column;
	else
		shoal_column_close(column);
	return self;
}

static void column_dealloc(PyObject *self)
{
	shoal_column_close(py_column_of(self));
	py_free(self);
}

static PyObject *column_info(PyObject *self, PyObject *unused)
{
	struct shoal_column_info i;

	(void)unused;
	shoal_column_info(py_column_of(self), &i);
	return Py_BuildValue(
		"{s:s,s:s,s:K,s:K,s:K,s:K,s:K,s:O,s:d,s:d,s:K,s:K,s:s}", "name", i.name, "type",
		shoal_column_type_name(i.type), "first", (unsigned long long)i.first, "nr",
		(unsigned long long)i.nr, "nr_samples", (unsigned long long)i.nr_samples, "nr_ones",
		(unsigned long long)i.nr_ones, "nr_sorted", (unsigned long long)i.nr_sorted,
		"kept_only", i.kept_only ? Py_True : Py_False, "min", i.min, "max", i.max,
		"file_bytes", (unsigned long long)i.file_bytes, "hash", (unsigned long long)i.hash,
		"digest", i.digest);
}

/* read(first, nr, out): the buffer has room for nr values of the column's type. */
static PyObject *column_read(PyObject *self, PyObject *args)
{
	struct shoal_column_info info;
	uint64_t first, nr;
	Py_buffer out;
	size_t width;
	int rc;

	if (!PyArg_ParseTuple(args, "O&O&w*", py_u64_arg, &first, py_u64_arg, &nr, &out))
		return NULL;
	shoal_column_info(py_column_of(self), &info);
	width = py_column_width_of(info.type);
	if (nr > (uint64_t)out.len / width) {
		PyBuffer_Release(&out);
		return py_error(PyExc_ValueError, "the buffer is too small");
	}
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_column_read(py_column_of(self), first, nr, out.buf);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&out);
	if (rc < 0)
		return read_failed(rc);
	Py_RETURN_NONE;
}

/* select(buffer): the numbers of ones become the samples that have them, in place. */
static PyObject *column_select(PyObject *self, PyObject *args)
{
	Py_buffer view;
	uint64_t *id;
	size_t nr;
	int rc = 0;

	if (!PyArg_ParseTuple(args, "w*", &view))
		return NULL;
	id = view.buf;
	nr = (size_t)view.len / sizeof(*id);
	Py_BEGIN_ALLOW_THREADS;
	for (size_t i = 0; i < nr && rc == 0; i++)
		rc = shoal_column_select(py_column_of(self), id[i], &id[i]);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&view);
	if (rc < 0)
		return read_failed(rc);
	Py_RETURN_NONE;
}

static PyObject *column_rank(PyObject *self, PyObject *sample_object)
{
	uint64_t sample, nr;
	int rc;

	if (py_u64(sample_object, &sample) < 0)
		return NULL;
	rc = shoal_column_rank(py_column_of(self), sample, &nr);
	return rc < 0 ? read_failed(rc) : PyLong_FromUnsignedLongLong(nr);
}

/* sorted(place, out): the samples from a place on, in the order of values. */
static PyObject *column_sorted(PyObject *self, PyObject *args)
{
	uint64_t place;
	Py_buffer out;
	int rc;

	if (!PyArg_ParseTuple(args, "O&w*", py_u64_arg, &place, &out))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_column_sorted(py_column_of(self), place, (uint64_t)out.len / sizeof(uint64_t),
				 out.buf);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&out);
	if (rc < 0)
		return read_failed(rc);
	Py_RETURN_NONE;
}

static PyObject *column_verify(PyObject *self, PyObject *unused)
{
	struct shoal_err err = { "" };
	int rc;

	(void)unused;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_column_verify(py_column_of(self), &err);
	Py_END_ALLOW_THREADS;
	return py_done(rc, &err);
}

/* sort(path, keep or None, memory) */
static PyObject *column_sort(PyObject *self, PyObject *args)
{
	struct shoal_err err = { "" };
	PyObject *path = NULL, *keep;
	uint64_t memory;
	int rc;

	if (!PyArg_ParseTuple(args, "O&OO&", PyUnicode_FSConverter, &path, &keep, py_u64_arg,
			      &memory))
		return NULL;
	if (keep != Py_None && !PyObject_TypeCheck(keep, py_type(self, PY_COLUMN))) {
		Py_DECREF(path);
		return py_error(PyExc_TypeError, "keep must be a column");
	}
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_column_sort(py_column_of(self), keep == Py_None ? NULL : py_column_of(keep),
			       PyBytes_AsString(path), memory, NULL, &err);
	Py_END_ALLOW_THREADS;
	Py_DECREF(path);
	return py_done(rc, &err);
}

static PyMethodDef column_methods[] = {
	{ "info", column_info, METH_NOARGS, "Its header as a tuple." },
	{ "read", column_read, METH_VARARGS, "read(first, nr, out): values into a buffer." },
	{ "select", column_select, METH_VARARGS, "select(buffer): the n-th ones become samples." },
	{ "rank", column_rank, METH_O, "How many before this sample are 1." },
	{ "sorted", column_sorted, METH_VARARGS, "sorted(place, out): samples by value." },
	{ "verify", column_verify, METH_NOARGS, "Read and check everything." },
	{ "sort", column_sort, METH_VARARGS, "sort(path, keep, memory): write it with an order." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot column_slots[] = {
	{ Py_tp_new, column_new },
	{ Py_tp_dealloc, column_dealloc },
	{ Py_tp_methods, column_methods },
	{ 0, NULL },
};

/* ---- Writing ---- */

/* ColumnWriter(path, name, type, digest, nr_samples, first, nr) */
static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	struct shoal_column_options o = { 0 };
	struct shoal_column_writer *writer = NULL;
	struct shoal_err err = { "" };
	PyObject *path = NULL, *self;
	const char *type_name;
	int rc;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "O&sssO&O&O&", PyUnicode_FSConverter, &path, &o.name,
			      &type_name, &o.digest, py_u64_arg, &o.nr_samples, py_u64_arg,
			      &o.first, py_u64_arg, &o.nr))
		return NULL;
	if (shoal_column_type_of(type_name, &o.type) < 0) {
		Py_DECREF(path);
		return PyErr_Format(
			PyExc_ValueError,
			"a column's type is bit, u8, u16, u32, u64, i64, f32 or f64, not %s",
			type_name);
	}
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_column_create(PyBytes_AsString(path), &o, &writer, &err);
	Py_END_ALLOW_THREADS;
	Py_DECREF(path);
	if (rc < 0)
		return py_raise(rc, &err);
	self = PyType_GenericAlloc(type, 0);
	if (!self) {
		shoal_column_abort(writer);
		return NULL;
	}
	((struct writer *)self)->writer = writer;
	((struct writer *)self)->width = py_column_width_of(o.type);
	return self;
}

static void writer_dealloc(PyObject *self)
{
	shoal_column_abort(((struct writer *)self)->writer);
	py_free(self);
}

static struct shoal_column_writer *writing(PyObject *self)
{
	const struct writer *w = (const struct writer *)self;

	if (w->busy)
		PyErr_SetString(PyExc_RuntimeError,
				"the column is being written by another thread");
	else if (!w->writer)
		PyErr_SetString(PyExc_ValueError, "the column is sealed or was aborted");
	return w->busy ? NULL : w->writer;
}

/* append(buffer, nr) */
static PyObject *writer_append(PyObject *self, PyObject *args)
{
	struct writer *w = (struct writer *)self;
	struct shoal_err err = { "" };
	Py_buffer values;
	uint64_t nr;
	int rc;

	if (!PyArg_ParseTuple(args, "y*O&", &values, py_u64_arg, &nr))
		return NULL;
	if (!writing(self)) { /* after the arguments: __index__() may abort the column */
		PyBuffer_Release(&values);
		return NULL;
	}
	if (nr > (uint64_t)values.len / w->width) {
		PyBuffer_Release(&values);
		return py_error(PyExc_ValueError, "the buffer is too small");
	}
	w->busy = true;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_column_append(w->writer, values.buf, nr, &err);
	Py_END_ALLOW_THREADS;
	w->busy = false;
	PyBuffer_Release(&values);
	return py_done(rc, &err);
}

static PyObject *writer_seal(PyObject *self, PyObject *unused)
{
	struct shoal_column_writer *writer = writing(self);
	struct shoal_err err = { "" };
	int rc;

	(void)unused;
	if (!writer)
		return NULL;
	((struct writer *)self)->writer = NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_column_seal(writer, &err);
	Py_END_ALLOW_THREADS;
	return py_done(rc, &err);
}

static PyObject *writer_abort(PyObject *self, PyObject *unused)
{
	struct writer *w = (struct writer *)self;

	(void)unused;
	if (w->busy) {
		writing(self); /* sets the exception */
		return NULL;
	}
	w->writer = shoal_column_abort(w->writer);
	Py_RETURN_NONE;
}

static PyMethodDef writer_methods[] = {
	{ "append", writer_append, METH_VARARGS, "append(buffer, nr): the next values." },
	{ "seal", writer_seal, METH_NOARGS, "Seal the column and publish it." },
	{ "abort", writer_abort, METH_NOARGS, "Abort, and remove the partial file." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot writer_slots[] = {
	{ Py_tp_new, writer_new },
	{ Py_tp_dealloc, writer_dealloc },
	{ Py_tp_methods, writer_methods },
	{ 0, NULL },
};

/* join_columns(path, [part, ...]): paths as bytes. */
static PyObject *join_columns(PyObject *module, PyObject *args)
{
	struct shoal_err err = { "" };
	const char **part;
	PyObject *list, *path = NULL;
	Py_ssize_t nr;
	int rc = 0;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&O!", PyUnicode_FSConverter, &path, &PyList_Type, &list))
		return NULL;
	nr = PyList_Size(list);
	part = PyMem_Calloc((size_t)nr + 1, sizeof(*part)); /* one pointer per rank */
	for (Py_ssize_t i = 0; part && i < nr && rc == 0; i++) {
		part[i] = PyBytes_AsString(PyList_GetItem(list, i));
		rc = part[i] ? 0 : -1;
	}
	if (!part)
		PyErr_NoMemory();
	if (part && rc == 0) {
		Py_BEGIN_ALLOW_THREADS;
		rc = shoal_column_join(PyBytes_AsString(path), part, (size_t)nr, &err);
		Py_END_ALLOW_THREADS;
		if (rc < 0)
			py_raise(rc, &err);
	}
	PyMem_Free(part);
	Py_DECREF(path);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

/* ---- Batches by length ---- */

/* The spec in a tuple: batch, max_tokens, bucket, group, in_order, frozen, remainder, seed, ranks,
 * consumed. */
static int batch_spec(PyObject *tuple, struct shoal_batch_spec *ret_spec)
{
	struct shoal_batch_spec s = { 0 };
	int in_order, frozen, remainder;

	if (!PyArg_ParseTuple(tuple, "O&O&O&O&ppiO&O&O&", py_u64_arg, &s.batch, py_u64_arg,
			      &s.max_tokens, py_u64_arg, &s.bucket, py_u64_arg, &s.group, &in_order,
			      &frozen, &remainder, py_u64_arg, &s.seed, py_u64_arg, &s.nr_ranks,
			      py_u64_arg, &s.consumed))
		return -1;
	s.in_order = in_order;
	s.frozen = frozen;
	s.remainder = (enum shoal_remainder)remainder;
	*ret_spec = s;
	return 0;
}

/* Batches(column, spec, epoch), or with a state in place of the epoch. */
static PyObject *batches_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	struct shoal_order_state state = { 0 };
	struct shoal_batches *batches = NULL;
	struct shoal_err err = { "" };
	struct shoal_batch_spec spec;
	PyObject *column, *tuple, *when, *self;
	uint64_t epoch = 0;
	int rc;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "O!O!O", py_type((PyObject *)type, PY_COLUMN), &column,
			      &PyTuple_Type, &tuple, &when) ||
	    batch_spec(tuple, &spec) < 0)
		return NULL;
	if (PyTuple_Check(when) ? py_state_parse(when, &state) < 0 : py_u64(when, &epoch) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = PyTuple_Check(when)
		     ? shoal_batches_resume(py_column_of(column), &spec, &state, &batches, &err)
		     : shoal_batches_new(py_column_of(column), &spec, epoch, &batches, &err);
	Py_END_ALLOW_THREADS;
	if (rc < 0)
		return py_raise(rc, &err);
	self = PyType_GenericAlloc(type, 0);
	if (!self) {
		shoal_batches_free(batches);
		return NULL;
	}
	((struct batches *)self)->batches = batches;
	Py_INCREF(column);
	((struct batches *)self)->column = column;
	return self;
}

static struct shoal_batches *batches_of(PyObject *self)
{
	return ((struct batches *)self)->batches;
}

static void batches_dealloc(PyObject *self)
{
	shoal_batches_free(batches_of(self));
	Py_XDECREF(((struct batches *)self)->column);
	py_free(self);
}

static PyObject *batches_info(PyObject *self, PyObject *unused)
{
	const struct shoal_batches *b = batches_of(self);

	(void)unused;
	return Py_BuildValue("KKK", (unsigned long long)shoal_batches_steps(b),
			     (unsigned long long)shoal_batches_count(b),
			     (unsigned long long)shoal_batches_largest(b));
}

static PyObject *batches_spec(PyObject *self, PyObject *unused)
{
	const struct shoal_batch_spec *s = shoal_batches_spec(batches_of(self));

	(void)unused;
	return Py_BuildValue("KKKKiiiKKK", (unsigned long long)s->batch,
			     (unsigned long long)s->max_tokens, (unsigned long long)s->bucket,
			     (unsigned long long)s->group, (int)s->in_order, (int)s->frozen,
			     (int)s->remainder, (unsigned long long)s->seed,
			     (unsigned long long)s->nr_ranks, (unsigned long long)s->consumed);
}

/* get(step, rank, out): how many ids. */
static PyObject *batches_get(PyObject *self, PyObject *args)
{
	uint64_t step, rank;
	Py_buffer out;
	int64_t nr;

	if (!PyArg_ParseTuple(args, "O&O&w*", py_u64_arg, &step, py_u64_arg, &rank, &out))
		return NULL;
	if ((uint64_t)out.len / sizeof(uint64_t) < shoal_batches_largest(batches_of(self))) {
		PyBuffer_Release(&out);
		return py_error(PyExc_ValueError, "the buffer is too small");
	}
	Py_BEGIN_ALLOW_THREADS;
	nr = shoal_batches_get(batches_of(self), step, rank, out.buf);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&out);
	return nr < 0 ? read_failed((int)nr) : PyLong_FromLongLong(nr);
}

static PyObject *batches_set_epoch(PyObject *self, PyObject *epoch_object)
{
	uint64_t epoch;

	if (py_u64(epoch_object, &epoch) < 0)
		return NULL;
	shoal_batches_set_epoch(batches_of(self), epoch);
	Py_RETURN_NONE;
}

static PyObject *batches_save(PyObject *self, PyObject *steps_object)
{
	struct shoal_order_state s;
	uint64_t steps;

	if (py_u64(steps_object, &steps) < 0)
		return NULL;
	shoal_batches_save(batches_of(self), steps, &s);
	return py_state_tuple(&s);
}

static PyMethodDef batches_methods[] = {
	{ "info", batches_info, METH_NOARGS, "(steps, batches, samples of the largest)." },
	{ "spec", batches_spec, METH_NOARGS, "The spec, with defaults filled in." },
	{ "get", batches_get, METH_VARARGS, "get(step, rank, out): how many ids." },
	{ "set_epoch", batches_set_epoch, METH_O, "Go to an epoch, at its first batch." },
	{ "save", batches_save, METH_O, "save(steps): the state after these steps." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot batches_slots[] = {
	{ Py_tp_new, batches_new },
	{ Py_tp_dealloc, batches_dealloc },
	{ Py_tp_methods, batches_methods },
	{ 0, NULL },
};

static PyMethodDef functions[] = {
	{ "join_columns", join_columns, METH_VARARGS, "join_columns(path, parts)" },
	{ NULL, NULL, 0, NULL },
};

int py_add_column(PyObject *module)
{
	if (py_add_type(module, PY_COLUMN, "shoal._shoal.Column", sizeof(struct column),
			column_slots) < 0 ||
	    py_add_type(module, PY_COLUMN_WRITER, "shoal._shoal.ColumnWriter",
			sizeof(struct writer), writer_slots) < 0 ||
	    py_add_type(module, PY_BATCHES, "shoal._shoal.Batches", sizeof(struct batches),
			batches_slots) < 0)
		return -1;
	return PyModule_AddFunctions(module, functions);
}
