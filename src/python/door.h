/*
 * door.h - what the files of the Python module share.
 *
 * The module _shoal is a thin layer: handles, numbers and buffers. The classes that people use are
 * written in Python, over it. The GIL is released around all that can block or takes long.
 */
#ifndef SHOAL_PYTHON_DOOR_H
#define SHOAL_PYTHON_DOOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "shoal.h"

/* Raise the exception that fits @rc, with words: shoal._errors.error(). Returns NULL. */
PyObject *door_raise(int rc, const struct shoal_err *err);

/* A number from 0 to 2^64 - 1. On failure -1, and an exception is set. */
int door_u64(PyObject *object, uint64_t *ret_value);

/* For "O&". */
int door_u64_arg(PyObject *object, void *ret_value);

/* ---- Catalogs ---- */

struct door_catalog {
	PyObject_HEAD struct shoal_catalog *cat; /* NULL once it is closed */
	Py_ssize_t nr_users; /* cursors, loaders and calls that are using it: it is not closed */
};

extern PyTypeObject *door_catalog_type;

/* The catalog of @object, in use until door_catalog_done(); NULL with an exception. */
struct shoal_catalog *door_catalog_use(PyObject *object);
void door_catalog_done(PyObject *object);

/* ---- Orders ---- */

/* The spec in a tuple: mode, remainder, seed, frozen, samples, unit, window, ranks, batch,
 * consumed. */
int door_order_spec(PyObject *tuple, struct shoal_order_spec *ret_spec);

/* ---- Each file adds its types and functions. 0, or -1 with an exception ---- */

int door_add_catalog(PyObject *module);
int door_add_column(PyObject *module);
int door_add_index(PyObject *module);
int door_add_loader(PyObject *module);
int door_add_order(PyObject *module);
int door_add_plain(PyObject *module);
int door_add_reader(PyObject *module);

/* Make a type of @spec, add it to the module, and keep it in @ret_type. */
int door_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **ret_type);

#endif
