/* Single samples, as bytes or bytearrays. */
#include <errno.h>

#include "python/py_private.h"

struct reader {
	PyObject_HEAD PyObject *catalog; /* in use until this ends */
	struct shoal_reader *reader;
};

static struct shoal_reader *py_reader_of(PyObject *self)
{
	return ((struct reader *)self)->reader;
}

/* Reader(catalog, store or None, if_match) */
static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	const struct shoal_store_config *config;
	PyObject *catalog, *config_tuple = NULL;
	struct shoal_store_config room;
	struct shoal_err err = { "" };
	struct shoal_catalog *cat;
	const char *store;
	struct reader *r;
	int if_match, rc;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "Ozp|O", &catalog, &store, &if_match, &config_tuple) ||
	    py_store_config(config_tuple, &room, &config) < 0)
		return NULL;
	cat = py_catalog_use((PyObject *)type, catalog);
	if (!cat)
		return NULL;
	r = (struct reader *)PyType_GenericAlloc(type, 0);
	if (!r) {
		py_catalog_done(catalog);
		return NULL;
	}
	r->catalog = catalog;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_reader_open(cat, store, config, &r->reader, &err);
	if (rc == 0 && if_match)
		rc = shoal_reader_if_match(r->reader, &err);
	Py_END_ALLOW_THREADS;
	if (rc < 0) {
		Py_DECREF(r);
		return py_raise(rc, &err);
	}
	return (PyObject *)r;
}

static void reader_dealloc(PyObject *self)
{
	shoal_reader_close(py_reader_of(self));
	if (((struct reader *)self)->catalog)
		py_catalog_done(((struct reader *)self)->catalog);
	py_free(self);
}

static int find_sizes(struct shoal_reader *reader, struct shoal_read *reads, size_t nr,
		      struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < nr && rc == 0; i++) {
		rc = shoal_reader_size(reader, reads[i].sample, &reads[i].len, err);
		if (rc == 0 && reads[i].len >= PY_SSIZE_T_MAX)
			rc = -ENOMEM;
	}
	return rc;
}

/*
 * Objects of the sizes. A read needs room for one more byte, with which it detects that a file has
 * grown: that of the NUL which Python keeps after both kinds. A successful read does not change it;
 * after a failure the objects are discarded. Empty objects share their NUL with others, so for them
 * @spare has a byte each.
 */
static PyObject *py_reader_make_room(struct shoal_read *reads, size_t nr, int writable, char *spare)
{
	PyObject *list = PyList_New((Py_ssize_t)nr);

	for (size_t i = 0; list && i < nr; i++) {
		Py_ssize_t len = (Py_ssize_t)reads[i].len;
		PyObject *item = writable ? PyByteArray_FromStringAndSize(NULL, len)
					  : PyBytes_FromStringAndSize(NULL, len);

		if (!item) {
			Py_CLEAR(list);
			break;
		}
		reads[i].buf = len == 0   ? spare + i
			       : writable ? PyByteArray_AsString(item)
					  : PyBytes_AsString(item);
		PyList_SetItem(list, (Py_ssize_t)i, item);
	}
	return list;
}

/* read(ids, in_flight, writable): a list of bytes, or of bytearrays. */
static PyObject *reader_read(PyObject *self, PyObject *args)
{
	PyObject *ids, *sequence, *list = NULL;
	struct shoal_err err = { "" };
	struct shoal_read *reads;
	unsigned in_flight;
	int rc = 0, writable;
	size_t nr;

	if (!PyArg_ParseTuple(args, "OIp", &ids, &in_flight, &writable))
		return NULL;
	sequence = PySequence_Tuple(ids); /* a list could be changed by an id's __index__() */
	if (!sequence)
		return NULL;
	nr = (size_t)PyTuple_Size(sequence);
	reads = PyMem_Calloc(nr + 1,
			     sizeof(*reads) + 1); /* one per requested sample, and a spare byte */
	if (!reads)
		PyErr_NoMemory();
	for (size_t i = 0; reads && rc == 0 && i < nr; i++)
		rc = py_u64(PyTuple_GetItem(sequence, (Py_ssize_t)i), &reads[i].sample);
	Py_DECREF(sequence);
	if (!reads || rc < 0)
		goto out;
	Py_BEGIN_ALLOW_THREADS;
	rc = find_sizes(py_reader_of(self), reads, nr, &err);
	Py_END_ALLOW_THREADS;
	if (rc == 0)
		list = py_reader_make_room(reads, nr, writable, (char *)(reads + nr));
	if (list) {
		Py_BEGIN_ALLOW_THREADS;
		rc = shoal_reader_read(py_reader_of(self), reads, nr, in_flight, &err);
		Py_END_ALLOW_THREADS;
	}
	if (rc < 0) {
		py_raise(rc, &err);
		Py_CLEAR(list);
	}
out:
	PyMem_Free(reads);
	return list;
}

static PyObject *reader_size(PyObject *self, PyObject *id_object)
{
	struct shoal_err err = { "" };
	uint64_t id, size = 0;
	int rc;

	if (py_u64(id_object, &id) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_reader_size(py_reader_of(self), id, &size, &err);
	Py_END_ALLOW_THREADS;
	return rc < 0 ? py_raise(rc, &err) : PyLong_FromUnsignedLongLong(size);
}

/* Fill the ranges from (offset, length) pairs, with an object of bytes each. NULL: an exception. */
static PyObject *make_ranges(PyObject *pairs, struct shoal_range *ranges, size_t nr)
{
	PyObject *list = PyList_New((Py_ssize_t)nr);

	for (size_t i = 0; list && i < nr; i++) {
		PyObject *pair = PyTuple_GetItem(pairs, (Py_ssize_t)i), *item = NULL;

		if (!PyTuple_Check(pair))
			py_refuse_type("a range is a tuple of an offset and a length", pair);
		else if (PyArg_ParseTuple(pair, "O&O&", py_u64_arg, &ranges[i].off, py_u64_arg,
					  &ranges[i].len))
			item = ranges[i].len < PY_SSIZE_T_MAX
				       ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)ranges[i].len)
				       : PyErr_NoMemory();
		if (!item) {
			Py_CLEAR(list);
			break;
		}
		ranges[i].buf = PyBytes_AsString(item);
		PyList_SetItem(list, (Py_ssize_t)i, item);
	}
	return list;
}

/* ranges(file, ((offset, length), ...), in_flight): a list of bytes. */
static PyObject *reader_ranges(PyObject *self, PyObject *args)
{
	PyObject *given, *pairs, *list = NULL;
	struct shoal_err err = { "" };
	struct shoal_range *ranges;
	unsigned in_flight;
	uint64_t file;
	size_t nr;
	int rc = 0;

	if (!PyArg_ParseTuple(args, "O&OI", py_u64_arg, &file, &given, &in_flight))
		return NULL;
	pairs = PySequence_Tuple(given);
	if (!pairs)
		return NULL;
	nr = (size_t)PyTuple_Size(pairs);
	ranges = PyMem_Calloc(nr + 1, sizeof(*ranges));
	if (ranges)
		list = make_ranges(pairs, ranges, nr);
	else
		PyErr_NoMemory();
	Py_DECREF(pairs);
	if (list) {
		Py_BEGIN_ALLOW_THREADS;
		rc = shoal_reader_ranges(py_reader_of(self), file, ranges, nr, in_flight, &err);
		Py_END_ALLOW_THREADS;
	}
	if (rc < 0) {
		py_raise(rc, &err);
		Py_CLEAR(list);
	}
	PyMem_Free(ranges);
	return list;
}

static PyMethodDef methods[] = {
	{ "ranges", reader_ranges, METH_VARARGS, "ranges(file, pairs, in_flight): their bytes." },
	{ "read", reader_read, METH_VARARGS, "read(ids, in_flight, writable): their bytes." },
	{ "size", reader_size, METH_O, "The number of bytes of a sample." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, reader_new },
	{ Py_tp_dealloc, reader_dealloc },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

int py_add_reader(PyObject *module)
{
	return py_add_type(module, PY_READER, "shoal._shoal.Reader", sizeof(struct reader), slots);
}
