/*
 * py_private.h - shared by the files of the Python module.
 *
 * The module _shoal is a thin layer: handles, numbers and buffers. The public classes are written
 * in Python on top of it. The GIL is released around every call that can block or takes long.
 *
 * From Python 3.11 on only the limited API is used (Meson defines Py_LIMITED_API), so that one
 * build serves every later Python.
 */
#ifndef SHOAL_PYTHON_PY_PRIVATE_H
#define SHOAL_PYTHON_PY_PRIVATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "shoal.h"

/* Raise the exception for @rc, with its message: shoal._errors.error(). Returns NULL. */
PyObject *py_raise(int rc, const struct shoal_err *err);

/* None, or py_raise() if @rc is negative. */
PyObject *py_done(int rc, const struct shoal_err *err);

/* Raise an exception of Python's own. Returns NULL. */
void *py_error(PyObject *type, const char *words);

/* A number from 0 to 2^64 - 1. On failure -1, and an exception is set. */
int py_u64(PyObject *object, uint64_t *ret_value);

/* The same, as a converter for "O&". */
int py_u64_arg(PyObject *object, void *ret_value);

/* Raise TypeError: "@needed, not TYPE". */
void py_refuse_type(const char *needed, PyObject *object);

/* ---- Types: kept in the state of the module ---- */

enum py_type {
	PY_CATALOG,
	PY_CURSOR,
	PY_LIST,
	PY_COLUMN,
	PY_COLUMN_WRITER,
	PY_BATCHES,
	PY_ORDER,
	PY_LOADER,
	PY_BATCH,
	PY_SAMPLE,
	PY_READER,
	PY_ROWS,
	PY_TYPES
};

/* Create a type and add it to the module. @name is static and starts with "shoal._shoal.". */
int py_add_type(PyObject *module, enum py_type which, const char *name, size_t size,
		PyType_Slot *slots);

/* A type of the module. @near is that module, one of its types or an object of one of them. */
PyTypeObject *py_type(PyObject *near, enum py_type which);

/* A new zeroed object of a type; NULL with an exception. */
void *py_alloc(PyObject *near, enum py_type which);

/* The end of a tp_dealloc. */
void py_free(PyObject *self);

/* ---- Catalogs ---- */

struct py_catalog {
	PyObject_HEAD struct shoal_catalog *cat; /* NULL once it is closed */
	Py_ssize_t nr_users; /* cursors, loaders and calls that use it: it must not be closed */
};

/* The catalog of @object, in use until py_catalog_done(); NULL with an exception. @near: as for
 * py_type(). */
struct shoal_catalog *py_catalog_use(PyObject *near, PyObject *object);
void py_catalog_done(PyObject *object);

/* ---- Orders ---- */

/* The spec in a tuple: mode, remainder, seed, frozen, samples, unit, window, ranks, batch,
 * consumed. */
int py_order_spec(PyObject *tuple, struct shoal_order_spec *ret_spec);

/* A state as a tuple: seed, epoch, consumed, digest, number of ranks, order. */
int py_state_parse(PyObject *tuple, struct shoal_order_state *ret_state);
PyObject *py_state_tuple(const struct shoal_order_state *s);

/* ---- Stores ---- */

/* Convert what shoal.S3Config passes: a tuple, or None for the environment. Its strings are lent
 * by @object. 0 and *@ret_config, which is @config or NULL; -1 with an exception. */
int py_store_config(PyObject *object, struct shoal_store_config *config,
		    const struct shoal_store_config **ret_config);

/* ---- Progress of one call ---- */

struct py_progress {
	PyObject *call;   /* call(done, total) about ten times per second; None: only Ctrl-C is
			     noticed */
	uint64_t next_ns; /* when it is due */
	int stop;         /* for the library: an exception was raised */
	PyObject *type, *value, *traceback;
};

/* Callbacks of the library, whose `self` is a struct py_progress. May be called without the GIL,
 * from one thread at a time. */
void py_progress_of(void *self, uint64_t done, uint64_t total);
void py_progress_names(void *self, uint64_t done); /* the total is not known: 0 */

/* With the GIL held: call *@call with a difference between a catalog and a list or the store. It
 * becomes NULL if the callable wants no more calls. -1: it raised an exception. */
int py_tell_difference(PyObject **call, enum shoal_difference what, const char *name, size_t len,
		       uint64_t was, uint64_t is);

/* The end of the call: 0, or -1 with the exception that the callable raised. */
int py_progress_end(struct py_progress *p);

/* ---- Each file adds its types and functions. 0, or -1 with an exception ---- */

int py_add_catalog(PyObject *module);
int py_add_column(PyObject *module);
int py_add_index(PyObject *module);
int py_add_list(PyObject *module);
int py_add_loader(PyObject *module);
int py_add_order(PyObject *module);
int py_add_plain(PyObject *module);
int py_add_reader(PyObject *module);
int py_add_rows(PyObject *module);
int py_add_shared(PyObject *module);
int py_add_store(PyObject *module);

#endif
