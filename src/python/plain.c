/*
 * Which objects can be pickled one by one without a visible difference: see _stream.py.
 *
 * In C, because it visits every object of lists that may have hundreds of millions: in Python this
 * would take twice the time of pickling them.
 */
#include "python/py_private.h"

enum { DEPTH_MAX = 16 }; /* of containers within an item; deeper ones are not plain */

struct walk {
	PyObject *atoms; /* a set of further types without parts, such as NumPy's numbers */
	bool failed;     /* an exception is set */
};

static bool py_plain_is_plain(struct walk *w, PyObject *o, Py_ssize_t own, bool shared, int depth);

static bool is_atom(struct walk *w, PyObject *o)
{
	PyTypeObject *type = Py_TYPE(o);
	int found;

	if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type ||
	    o == Py_None || type == &PyBool_Type || type == &PyBytes_Type ||
	    type == &PyComplex_Type)
		return true;
	if (Py_TYPE((PyObject *)type) !=
	    &PyType_Type) /* it may have a hash function of its own: no foreign code may run here */
		return false;
	found = PySet_Contains(w->atoms, (PyObject *)type);
	w->failed = w->failed || found < 0;
	return found > 0;
}

static bool is_plain_dict(struct walk *w, PyObject *dict, int depth)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;
	bool plain = true;

	while (plain && PyDict_Next(dict, &at, &key, &value)) {
		Py_INCREF(value);
		plain = py_plain_is_plain(w, key, 1, true, depth) &&
			py_plain_is_plain(w, value, 2, false, depth);
		Py_DECREF(value);
	}
	return plain;
}

static bool is_plain_sequence(struct walk *w, PyObject *sequence, bool shared, int depth)
{
	bool list = PyList_CheckExact(sequence);

	for (Py_ssize_t i = 0; i < Py_SIZE(sequence); i++) {
		PyObject *item = list ? PyList_GetItem(sequence, i) : PyTuple_GetItem(sequence, i);

		if (!py_plain_is_plain(w, item, 1, shared, depth))
			return false;
	}
	return true;
}

/* Members of a set are hashable, so the only containers are tuples and frozensets: all are
 * "shared". */
static bool is_plain_set(struct walk *w, PyObject *set, int depth)
{
	PyObject *iterator = PyObject_GetIter(set), *item = NULL;
	bool plain = iterator != NULL;

	while (plain && (item = PyIter_Next(iterator))) {
		plain = py_plain_is_plain(w, item, 1, true, depth);
		Py_DECREF(item);
	}
	w->failed = w->failed || PyErr_Occurred();
	Py_XDECREF(iterator);
	return plain && !w->failed;
}

/*
 * Whether @o consists of atoms and containers, and each mutable container in it is referred to from
 * one place only. @own: references that this place holds. @shared: @o can already be reached in two
 * ways.
 *
 * Creating an iterator over a set allocates memory, at which Python before 3.12 may collect garbage
 * and run arbitrary code: the objects being visited are kept alive.
 */
static bool py_plain_is_plain(struct walk *w, PyObject *o, Py_ssize_t own, bool shared, int depth)
{
	PyTypeObject *type = Py_TYPE(o);
	bool frozen = type == &PyTuple_Type || type == &PyFrozenSet_Type, plain;

	if (!frozen && type != &PyList_Type && type != &PyDict_Type && type != &PySet_Type)
		return is_atom(w, o);
	shared = shared || Py_REFCNT(o) > own;
	if ((shared && !frozen) || depth == DEPTH_MAX)
		return false;
	depth++;
	Py_INCREF(o);
	if (type == &PyDict_Type)
		plain = is_plain_dict(w, o, depth);
	else if (type == &PySet_Type || type == &PyFrozenSet_Type)
		plain = is_plain_set(w, o, depth);
	else
		plain = is_plain_sequence(w, o, shared, depth);
	Py_DECREF(o);
	return plain;
}

/* count_plain(items, pairs, atoms): how many leading items of a list, a copy of a part of a
 * container, are plain; with pairs, keys and values both count. */
static PyObject *count_plain(PyObject *module, PyObject *args)
{
	struct walk w = { NULL, false };
	PyObject *items;
	Py_ssize_t nr = 0;
	int pairs;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!pO!", &PyList_Type, &items, &pairs, &PyFrozenSet_Type,
			      &w.atoms))
		return NULL;
#ifndef Py_GIL_DISABLED /* without the GIL reference counts are meaningless, so nothing is plain \
			 */
	for (; nr < PyList_Size(items); nr++) {
		PyObject *item = PyList_GetItem(items, nr);
		bool plain;

		/* Two references: the container's, and the copy's. */
		if (pairs && PyTuple_CheckExact(item) && PyTuple_Size(item) == 2)
			plain = py_plain_is_plain(&w, PyTuple_GetItem(item, 0), 2, true, 0) &&
				py_plain_is_plain(&w, PyTuple_GetItem(item, 1), 2, false, 0);
		else
			plain = py_plain_is_plain(&w, item, 2, false, 0);
		if (!plain)
			break;
	}
#endif
	return w.failed ? NULL : PyLong_FromSsize_t(nr);
}

static PyMethodDef functions[] = {
	{ "count_plain", count_plain, METH_VARARGS, "count_plain(items, pairs, atoms)" },
	{ NULL, NULL, 0, NULL },
};

int py_add_plain(PyObject *module)
{
	return PyModule_AddFunctions(module, functions);
}
