/* Rows of a catalog: which sample contains which. */
#include <errno.h>

#include "python/py_private.h"

struct py_rows {
	PyObject_HEAD PyObject *catalog; /* in use until this ends */
	struct shoal_rows *rows;
};

static struct shoal_rows *py_rows_of(PyObject *self)
{
	return ((struct py_rows *)self)->rows;
}

/* Rows(catalog) */
static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	struct shoal_err err = { "" };
	struct shoal_catalog *cat;
	PyObject *catalog;
	struct py_rows *r;
	int rc;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "O", &catalog))
		return NULL;
	cat = py_catalog_use((PyObject *)type, catalog);
	if (!cat)
		return NULL;
	r = (struct py_rows *)PyType_GenericAlloc(type, 0);
	if (!r) {
		py_catalog_done(catalog);
		return NULL;
	}
	r->catalog = catalog;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_rows_open(cat, &r->rows, &err);
	Py_END_ALLOW_THREADS;
	if (rc < 0) {
		Py_DECREF(r);
		return py_raise(rc, &err);
	}
	return (PyObject *)r;
}

static void rows_dealloc(PyObject *self)
{
	shoal_rows_close(py_rows_of(self));
	if (((struct py_rows *)self)->catalog)
		py_catalog_done(((struct py_rows *)self)->catalog);
	py_free(self);
}

static Py_ssize_t rows_len(PyObject *self)
{
	uint64_t nr = shoal_rows_count(py_rows_of(self));

	if (nr <= PY_SSIZE_T_MAX)
		return (Py_ssize_t)nr;
	py_error(PyExc_OverflowError, "too many rows");
	return -1;
}

static PyObject *rows_find(PyObject *self, PyObject *row_object)
{
	struct shoal_row_place place;
	struct shoal_err err = { "" };
	uint64_t row;
	int rc;

	if (py_u64(row_object, &row) < 0)
		return NULL;
	rc = shoal_rows_find(py_rows_of(self), row, &place);
	if (rc == -ERANGE)
		return py_error(PyExc_IndexError, "the catalog has no such row");
	if (rc < 0)
		return py_raise(rc, &err);
	return Py_BuildValue("KKK", (unsigned long long)place.sample,
			     (unsigned long long)place.first, (unsigned long long)place.nr);
}

static PyMethodDef methods[] = {
	{ "find", rows_find, METH_O, "find(row): (sample, its first row, its rows)." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, rows_new },
	{ Py_tp_dealloc, rows_dealloc },
	{ Py_sq_length, rows_len },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

int py_add_rows(PyObject *module)
{
	return py_add_type(module, PY_ROWS, "shoal._shoal.Rows", sizeof(struct py_rows), slots);
}
