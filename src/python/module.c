/* The module _shoal: see py_private.h. */
#include "python/py_private.h"

PyObject *py_raise(int rc, const struct shoal_err *err)
{
	PyObject *module, *exception;

	if (PyErr_Occurred()) /* set by a callback: it is more precise */
		return NULL;
	module = PyImport_ImportModule("shoal._errors");
	if (!module)
		return NULL;
	exception = PyObject_CallMethod(module, "error", "iyzK", -rc, err ? err->msg : "",
					err ? shoal_hint_name(err->hint) : NULL,
					(unsigned long long)(err ? err->hint_value : 0));
	Py_DECREF(module);
	if (!exception)
		return NULL;
	PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
	Py_DECREF(exception);
	return NULL;
}

int py_u64(PyObject *object, uint64_t *ret_value)
{
	PyObject *number = PyNumber_Index(object); /* NumPy's integers too, but no floats */
	unsigned long long value;

	if (!number)
		return -1;
	value = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	if (value == (unsigned long long)-1 && PyErr_Occurred())
		return -1;
	*ret_value = value;
	return 0;
}

int py_u64_arg(PyObject *object, void *ret_value)
{
	return py_u64(object, ret_value) == 0;
}

void py_refuse_type(const char *needed, PyObject *object)
{
	PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");

	if (name)
		PyErr_Format(PyExc_TypeError, "%s, not %.100U", needed, name);
	Py_XDECREF(name);
}

void py_free(PyTypeObject *type, PyObject *self)
{
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	free_object(self);
}

int py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **ret_type)
{
	const char *dot = strrchr(spec->name, '.');
	bool makes = false;
	PyObject *type;

	for (const PyType_Slot *slot = spec->slots; !makes && slot->slot; slot++)
		makes = slot->slot == Py_tp_new;
#ifdef Py_TPFLAGS_DISALLOW_INSTANTIATION
	if (!makes) /* only this module creates these: one without its handle would be useless */
		spec->flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;
#endif
	type = PyType_FromSpec(spec);
	if (!type)
		return -1;
	*ret_type = (PyTypeObject *)type;
#ifndef Py_TPFLAGS_DISALLOW_INSTANTIATION /* before Python 3.10 */
	if (!makes)
		(*ret_type)->tp_new = NULL;
#endif
	Py_INCREF(type); /* the module takes one reference, and we keep one */
	if (PyModule_AddObject(module, dot ? dot + 1 : spec->name, type) < 0) {
		Py_DECREF(type);
		return -1;
	}
	return 0;
}

static PyObject *catch_sigbus(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	shoal_catch_sigbus();
	Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
	{ "catch_sigbus", catch_sigbus, METH_NOARGS,
	  "Reinstall the SIGBUS handler after others were installed." },
	{ NULL, NULL, 0, NULL },
};

PyMODINIT_FUNC PyInit__shoal(void);

PyMODINIT_FUNC PyInit__shoal(void)
{
	static struct PyModuleDef definition = {
		PyModuleDef_HEAD_INIT, .m_name = "_shoal",
		.m_doc = "Handles of libshoal. Use the package shoal.", .m_size = -1,
		.m_methods = functions
	};
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
	if (PyModule_AddStringConstant(module, "version", shoal_version()) < 0 ||
	    py_add_catalog(module) < 0 || py_add_column(module) < 0 || py_add_order(module) < 0 ||
	    py_add_loader(module) < 0 || py_add_reader(module) < 0 || py_add_index(module) < 0 || py_add_list(module) < 0 ||
	    py_add_plain(module) < 0 || py_add_shared(module) < 0 || py_add_store(module) < 0) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
