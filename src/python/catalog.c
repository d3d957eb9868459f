/* Catalogs and cursors. Lookups keep the GIL: they take less time than releasing it. */
#include <errno.h>

#include "python/py_private.h"

static struct py_catalog *py_catalog_of(PyObject *self)
{
	return (struct py_catalog *)self;
}

struct shoal_catalog *py_catalog_use(PyObject *near, PyObject *object)
{
	if (!PyObject_TypeCheck(object, py_type(near, PY_CATALOG))) {
		py_refuse_type("a catalog is needed", object);
		return NULL;
	}
	if (!py_catalog_of(object)->cat)
		return py_error(PyExc_ValueError, "the catalog is closed");
	py_catalog_of(object)->nr_users++;
	Py_INCREF(object);
	return py_catalog_of(object)->cat;
}

void py_catalog_done(PyObject *object)
{
	py_catalog_of(object)->nr_users--;
	Py_DECREF(object);
}

static struct shoal_catalog *py_catalog_opened(PyObject *self)
{
	if (!py_catalog_of(self)->cat)
		PyErr_SetString(PyExc_ValueError, "the catalog is closed");
	return py_catalog_of(self)->cat;
}

/* A lookup failed: raise its message if there is one, or IndexError past the end. */
static PyObject *lookup_failed(const struct shoal_catalog *cat, int rc)
{
	struct shoal_err err = { "" };

	if (rc == -ERANGE)
		return py_error(PyExc_IndexError, "the catalog has no such file");
	shoal_catalog_explain(cat, rc, &err);
	return py_raise(rc, &err);
}

/* The message may contain a path of any bytes. */
static int py_catalog_warn(const char *words)
{
	PyObject *text = PyUnicode_DecodeFSDefault(words);
	int rc = text ? PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%U", text) : -1;

	Py_XDECREF(text);
	return rc;
}

static PyObject *catalog_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "path", "copy", "config", NULL };
	PyObject *path = NULL, *copy = NULL, *config = NULL, *self = NULL;
	struct shoal_catalog_options options = { NULL };
	struct shoal_store_config room;
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|O&O", names, PyUnicode_FSConverter,
					 &path, PyUnicode_FSConverter, &copy, &config))
		return NULL;
	if (py_store_config(config, &room, &options.config) < 0) {
		Py_DECREF(path);
		Py_XDECREF(copy);
		return NULL;
	}
	options.copy_dir = copy ? PyBytes_AsString(copy) : NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_catalog_open_with(PyBytes_AsString(path), &options, &cat, &err);
	Py_END_ALLOW_THREADS;
	Py_DECREF(path);
	Py_XDECREF(copy);
	if (rc < 0)
		return py_raise(rc, &err);
	if (*err.msg && py_catalog_warn(err.msg) < 0) {
		shoal_catalog_close(cat);
		return NULL;
	}
	self = PyType_GenericAlloc(type, 0);
	if (!self)
		shoal_catalog_close(cat);
	else
		py_catalog_of(self)->cat = cat;
	return self;
}

static void catalog_dealloc(PyObject *self)
{
	shoal_catalog_close(py_catalog_of(self)->cat);
	py_free(self);
}

static PyObject *catalog_close(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (py_catalog_of(self)->nr_users > 0)
		return py_error(
			PyExc_BufferError,
			"the catalog is in use by a loader or an iterator: close that first");
	py_catalog_of(self)->cat = shoal_catalog_close(py_catalog_of(self)->cat);
	Py_RETURN_NONE;
}

static Py_ssize_t catalog_len(PyObject *self)
{
	struct shoal_catalog_info info;

	if (!py_catalog_opened(self))
		return -1;
	shoal_catalog_info(py_catalog_of(self)->cat, &info);
	return (Py_ssize_t)info.nr_files;
}

static PyObject *catalog_info(PyObject *self, PyObject *unused)
{
	struct shoal_catalog_info info;

	(void)unused;
	if (!py_catalog_opened(self))
		return NULL;
	shoal_catalog_info(py_catalog_of(self)->cat, &info);
	return Py_BuildValue("{s:s,s:K,s:K,s:K,s:K,s:K,s:K,s:O,s:K,s:K,s:I,s:s,s:O}", "root",
			     info.root, "nr_files", (unsigned long long)info.nr_files, "nr_samples",
			     (unsigned long long)info.nr_samples, "samples_per_file",
			     (unsigned long long)info.samples_per_file, "nr_bytes",
			     (unsigned long long)info.nr_bytes, "file_bytes",
			     (unsigned long long)info.file_bytes, "size_bytes",
			     (unsigned long long)info.size_bytes, "etags",
			     info.etags ? Py_True : Py_False, "etag_bytes",
			     (unsigned long long)info.etag_bytes, "nr_segments",
			     (unsigned long long)info.nr_segments, "version", info.version,
			     "digest", info.digest, "extents", info.extents ? Py_True : Py_False);
}

static PyObject *catalog_name(PyObject *self, PyObject *id_object)
{
	char name[SHOAL_NAME_MAX + 1];
	uint64_t id;
	int len;

	if (py_u64(id_object, &id) < 0 ||
	    !py_catalog_opened(self)) /* in this order: __index__() may close it */
		return NULL;
	len = shoal_catalog_name(py_catalog_of(self)->cat, id, name);
	if (len < 0)
		return lookup_failed(py_catalog_of(self)->cat, len);
	return PyBytes_FromStringAndSize(name, len);
}

static PyObject *catalog_size(PyObject *self, PyObject *id_object)
{
	uint64_t id, size;
	int rc;

	if (py_u64(id_object, &id) < 0 ||
	    !py_catalog_opened(self)) /* in this order: __index__() may close it */
		return NULL;
	rc = shoal_catalog_size(py_catalog_of(self)->cat, id, &size);
	if (rc < 0)
		return lookup_failed(py_catalog_of(self)->cat, rc);
	return PyLong_FromUnsignedLongLong(size);
}

static PyObject *catalog_etag(PyObject *self, PyObject *id_object)
{
	char etag[SHOAL_ETAG_MAX + 1];
	uint64_t id;
	int len;

	if (py_u64(id_object, &id) < 0 ||
	    !py_catalog_opened(self)) /* in this order: __index__() may close it */
		return NULL;
	len = shoal_catalog_etag(py_catalog_of(self)->cat, id, etag);
	if (len < 0)
		return lookup_failed(py_catalog_of(self)->cat, len);
	return PyUnicode_FromStringAndSize(etag, len);
}

/* sizes(start, step, out): into a writable buffer of 64-bit numbers. */
static PyObject *catalog_sizes(PyObject *self, PyObject *args)
{
	uint64_t start, step, *size;
	Py_buffer out;
	Py_ssize_t nr;
	int rc = 0;

	if (!PyArg_ParseTuple(args, "O&O&w*", py_u64_arg, &start, py_u64_arg, &step, &out))
		return NULL;
	if (!py_catalog_use(self, self)) {
		PyBuffer_Release(&out);
		return NULL;
	}
	size = out.buf;
	nr = out.len / (Py_ssize_t)sizeof(*size);
	Py_BEGIN_ALLOW_THREADS;
	/* A step back is one of 2^64 - n. */
	for (Py_ssize_t i = 0; i < nr && rc == 0; i++)
		rc = shoal_catalog_size(py_catalog_of(self)->cat, start + (uint64_t)i * step,
					&size[i]);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&out);
	if (rc < 0)
		lookup_failed(py_catalog_of(self)->cat, rc);
	py_catalog_done(self);
	if (rc < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *find_with(PyObject *self, PyObject *name,
			   int (*find)(const struct shoal_catalog *, const char *, size_t,
				       uint64_t *))
{
	uint64_t id;
	Py_buffer view;
	int rc;

	if (PyObject_GetBuffer(name, &view, PyBUF_SIMPLE) < 0)
		return NULL;
	if (!py_catalog_opened(self)) { /* a buffer written in Python may have closed it */
		PyBuffer_Release(&view);
		return NULL;
	}
	rc = find(py_catalog_of(self)->cat, view.buf, (size_t)view.len, &id);
	PyBuffer_Release(&view);
	if (rc == -ENOENT)
		Py_RETURN_NONE;
	if (rc < 0)
		return lookup_failed(py_catalog_of(self)->cat, rc);
	return PyLong_FromUnsignedLongLong(id);
}

static PyObject *catalog_find(PyObject *self, PyObject *name)
{
	return find_with(self, name, shoal_catalog_find);
}

static PyObject *catalog_lower_bound(PyObject *self, PyObject *name)
{
	return find_with(self, name, shoal_catalog_lower_bound);
}

/* (file, index): where the sample lies in its file. */
static PyObject *catalog_extent(PyObject *self, PyObject *args)
{
	uint64_t file, index;
	struct shoal_extent e;
	int rc;

	if (!PyArg_ParseTuple(args, "O&O&", py_u64_arg, &file, py_u64_arg, &index) ||
	    !py_catalog_opened(self))
		return NULL;
	rc = shoal_catalog_extent(py_catalog_of(self)->cat, file, index, &e);
	if (rc == -ERANGE)
		return py_error(PyExc_IndexError, "the file has no such sample");
	if (rc < 0)
		return lookup_failed(py_catalog_of(self)->cat, rc);
	return Py_BuildValue("KKK", (unsigned long long)e.off, (unsigned long long)e.len,
			     (unsigned long long)e.rows);
}

static PyObject *catalog_locate(PyObject *self, PyObject *sample_object)
{
	uint64_t sample, file, index;
	int rc;

	if (py_u64(sample_object, &sample) < 0 ||
	    !py_catalog_opened(self)) /* in this order: __index__() may close it */
		return NULL;
	rc = shoal_catalog_locate(py_catalog_of(self)->cat, sample, &file, &index);
	if (rc == -ERANGE)
		return py_error(PyExc_IndexError, "the catalog has no such sample");
	if (rc < 0)
		return lookup_failed(py_catalog_of(self)->cat, rc);
	return Py_BuildValue("KK", (unsigned long long)file, (unsigned long long)index);
}

static PyObject *catalog_samples(PyObject *self, PyObject *id_object)
{
	uint64_t id, first, count;
	int rc;

	if (py_u64(id_object, &id) < 0 ||
	    !py_catalog_opened(self)) /* in this order: __index__() may close it */
		return NULL;
	rc = shoal_catalog_samples(py_catalog_of(self)->cat, id, &first, &count);
	if (rc < 0)
		return lookup_failed(py_catalog_of(self)->cat, rc);
	return Py_BuildValue("KK", (unsigned long long)first, (unsigned long long)count);
}

static PyObject *catalog_largest(PyObject *self, PyObject *unused)
{
	uint64_t size = 0;
	int rc;

	(void)unused;
	if (!py_catalog_use(self, self))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_catalog_largest(py_catalog_of(self)->cat, &size);
	Py_END_ALLOW_THREADS;
	if (rc < 0)
		lookup_failed(py_catalog_of(self)->cat, rc);
	py_catalog_done(self);
	return rc < 0 ? NULL : PyLong_FromUnsignedLongLong(size);
}

/* Call a function that reads much and reports errors. */
static PyObject *check_with(PyObject *self,
			    int (*check)(const struct shoal_catalog *, struct shoal_err *))
{
	struct shoal_err err = { "" };
	int rc;

	if (!py_catalog_use(self, self))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = check(py_catalog_of(self)->cat, &err);
	Py_END_ALLOW_THREADS;
	py_catalog_done(self);
	return py_done(rc, &err);
}

static PyObject *catalog_verify(PyObject *self, PyObject *unused)
{
	(void)unused;
	return check_with(self, shoal_catalog_verify);
}

static PyObject *catalog_check_fresh(PyObject *self, PyObject *unused)
{
	(void)unused;
	return check_with(self, shoal_catalog_check_fresh);
}

/* ---- Cursors: names in order, faster than by id ---- */

struct cursor {
	PyObject_HEAD PyObject *catalog; /* in use until this ends */
	struct shoal_cursor *cursor;
	uint64_t nr_left;
};

static PyObject *catalog_cursor(PyObject *self, PyObject *args)
{
	struct shoal_err err = { "" };
	uint64_t start, stop;
	struct cursor *c;
	int rc;

	if (!PyArg_ParseTuple(args, "O&O&", py_u64_arg, &start, py_u64_arg, &stop))
		return NULL;
	if (!py_catalog_use(self, self))
		return NULL;
	c = py_alloc(self, PY_CURSOR);
	if (!c) {
		py_catalog_done(self);
		return NULL;
	}
	c->catalog = self;
	c->nr_left = stop > start ? stop - start : 0;
	rc = shoal_cursor_new(py_catalog_of(self)->cat, start, &c->cursor, &err);
	if (rc < 0) {
		Py_DECREF(c);
		return py_raise(rc, &err);
	}
	return (PyObject *)c;
}

static void cursor_dealloc(PyObject *self)
{
	struct cursor *c = (struct cursor *)self;

	shoal_cursor_free(c->cursor);
	if (c->catalog)
		py_catalog_done(c->catalog);
	py_free(self);
}

static PyObject *cursor_next(PyObject *self)
{
	struct cursor *c = (struct cursor *)self;
	const char *name;
	size_t len;
	int rc;

	if (c->nr_left == 0)
		return NULL;
	rc = shoal_cursor_next(c->cursor, &name, &len);
	if (rc < 0)
		return lookup_failed(py_catalog_of(c->catalog)->cat, rc);
	if (rc == 0)
		return NULL;
	c->nr_left--;
	return PyBytes_FromStringAndSize(name, (Py_ssize_t)len);
}

static PyType_Slot cursor_slots[] = {
	{ Py_tp_dealloc, cursor_dealloc },
	{ Py_tp_iter, PyObject_SelfIter },
	{ Py_tp_iternext, cursor_next },
	{ Py_tp_doc, "Names as bytes, in order." },
	{ 0, NULL },
};

static PyMethodDef catalog_methods[] = {
	{ "close", catalog_close, METH_NOARGS, "Unmap it." },
	{ "info", catalog_info, METH_NOARGS, "Its header as a tuple." },
	{ "name", catalog_name, METH_O, "The name of file id, as bytes." },
	{ "size", catalog_size, METH_O, "The size of file id; 2**64 - 1: not known." },
	{ "etag", catalog_etag, METH_O, "The ETag of file id, in quotes; empty: not known." },
	{ "sizes", catalog_sizes, METH_VARARGS, "sizes(start, step, out): into a buffer." },
	{ "find", catalog_find, METH_O, "The id of the file with this name, or None." },
	{ "lower_bound", catalog_lower_bound, METH_O, "The first id whose name is not less." },
	{ "locate", catalog_locate, METH_O, "(file, index) of a sample." },
	{ "extent", catalog_extent, METH_VARARGS, "extent(file, index): (offset, length, rows)." },
	{ "samples", catalog_samples, METH_O, "(first, count) of the samples of a file." },
	{ "largest", catalog_largest, METH_NOARGS, "The size of the largest file." },
	{ "verify", catalog_verify, METH_NOARGS, "Read and check everything." },
	{ "check_fresh", catalog_check_fresh, METH_NOARGS, "Whether the file is unchanged." },
	{ "cursor", catalog_cursor, METH_VARARGS, "cursor(start, stop): an iterator of names." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot catalog_slots[] = {
	{ Py_tp_new, catalog_new },
	{ Py_tp_dealloc, catalog_dealloc },
	{ Py_tp_methods, catalog_methods },
	{ Py_sq_length, catalog_len },
	{ Py_tp_doc, "An open catalog file." },
	{ 0, NULL },
};

int py_add_catalog(PyObject *module)
{
	if (py_add_type(module, PY_CATALOG, "shoal._shoal.Catalog", sizeof(struct py_catalog),
			catalog_slots) < 0)
		return -1;
	return py_add_type(module, PY_CURSOR, "shoal._shoal.Cursor", sizeof(struct cursor),
			   cursor_slots);
}
