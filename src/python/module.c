/* The module _shoal: see door.h. */
#include "python/door.h"

PyObject *door_raise(int rc, const struct shoal_err *err)
{
	PyObject *module, *exception;

	if (PyErr_Occurred()) /* by a callback: it knows better */
		return NULL;
	module = PyImport_ImportModule("shoal._errors");
	if (!module)
		return NULL;
	exception = PyObject_CallMethod(module, "error", "iy", -rc, err ? err->msg : "");
	Py_DECREF(module);
	if (!exception)
		return NULL;
	PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
	Py_DECREF(exception);
	return NULL;
}

int door_u64(PyObject *object, uint64_t *ret_value)
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

int door_u64_arg(PyObject *object, void *ret_value)
{
	return door_u64(object, ret_value) == 0;
}

int door_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **ret_type)
{
	PyObject *type = PyType_FromSpec(spec);
	const char *dot = strrchr(spec->name, '.');
	bool makes = false;

	if (!type)
		return -1;
	*ret_type = (PyTypeObject *)type;
	for (const PyType_Slot *slot = spec->slots; !makes && slot->slot; slot++)
		makes = slot->slot == Py_tp_new;
	if (!makes) /* only we make these: one without its handle would be no good */
		(*ret_type)->tp_new = NULL;
	Py_INCREF(type); /* the module takes one, and we keep one */
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
	  "Be in front again where others installed a handler." },
	{ NULL, NULL, 0, NULL },
};

PyMODINIT_FUNC PyInit__shoal(void);

PyMODINIT_FUNC PyInit__shoal(void)
{
	static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "_shoal",
						 .m_doc = "Handles of libshoal. Use shoal.",
						 .m_size = -1, .m_methods = functions };
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
	if (PyModule_AddStringConstant(module, "version", shoal_version()) < 0 ||
	    door_add_catalog(module) < 0 || door_add_column(module) < 0 ||
	    door_add_order(module) < 0 || door_add_loader(module) < 0 ||
	    door_add_reader(module) < 0 || door_add_index(module) < 0 ||
	    door_add_plain(module) < 0) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
