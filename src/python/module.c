/* The module _shoal: see py_private.h. */
#include <errno.h>

#include "base/text.h"
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

PyObject *py_done(int rc, const struct shoal_err *err)
{
	if (rc < 0)
		return py_raise(rc, err);
	Py_RETURN_NONE;
}

void *py_error(PyObject *type, const char *words)
{
	PyErr_SetString(type, words);
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

struct state {
	PyTypeObject *type[PY_TYPES];
};

int py_add_type(PyObject *module, enum py_type which, const char *name, size_t size,
		PyType_Slot *slots)
{
	PyType_Spec spec = {
		.name = name, .basicsize = (int)size, .flags = Py_TPFLAGS_DEFAULT, .slots = slots
	};
	struct state *s = PyModule_GetState(module);
	bool makes = false;

	for (const PyType_Slot *slot = slots; !makes && slot->slot; slot++)
		makes = slot->slot == Py_tp_new;
	if (!makes) /* only this module creates these: one without its handle would be useless */
		spec.flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;
	s->type[which] = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
	if (!s->type[which])
		return -1;
	return PyModule_AddType(module, s->type[which]);
}

PyTypeObject *py_type(PyObject *near, enum py_type which)
{
	PyTypeObject *type = PyType_Check(near) ? (PyTypeObject *)near : Py_TYPE(near);
	const struct state *s =
		PyModule_Check(near) ? PyModule_GetState(near) : PyType_GetModuleState(type);

	return s->type[which];
}

void *py_alloc(PyObject *near, enum py_type which)
{
	return PyType_GenericAlloc(py_type(near, which), 0);
}

void py_free(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	free_object(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *catch_sigbus(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	shoal_catch_sigbus();
	Py_RETURN_NONE;
}

/* A number that people write: a size in bytes, or a time in milliseconds. */
static PyObject *parse_words(PyObject *object, int (*parse)(const char *, uint64_t *))
{
	PyObject *text = PyUnicode_AsUTF8String(object);
	uint64_t value = 0;
	int rc;

	if (!text)
		return NULL;
	rc = parse(PyBytes_AsString(text), &value);
	Py_DECREF(text);
	if (rc < 0)
		return rc == -ERANGE ? py_error(PyExc_OverflowError, "too large")
				     : py_error(PyExc_ValueError, "malformed");
	return PyLong_FromUnsignedLongLong(value);
}

static PyObject *module_size(PyObject *module, PyObject *text)
{
	(void)module;
	return parse_words(text, parse_size);
}

static PyObject *module_milliseconds(PyObject *module, PyObject *text)
{
	(void)module;
	return parse_words(text, parse_milliseconds);
}

static PyMethodDef functions[] = {
	{ "parse_size", module_size, METH_O, "parse_size(text): bytes" },
	{ "parse_milliseconds", module_milliseconds, METH_O, "parse_milliseconds(text)" },
	{ "catch_sigbus", catch_sigbus, METH_NOARGS,
	  "Reinstall the SIGBUS handler after others were installed." },
	{ NULL, NULL, 0, NULL },
};

static int module_exec(PyObject *module)
{
	static int (*const add[])(PyObject *) = { py_add_catalog, py_add_column, py_add_order,
						  py_add_loader,  py_add_reader, py_add_rows,
						  py_add_index,   py_add_list,   py_add_plain,
						  py_add_shared,  py_add_store };

	for (size_t i = 0; i < sizeof(add) / sizeof(*add); i++)
		if (add[i](module) < 0)
			return -1;
	return PyModule_AddStringConstant(module, "version", shoal_version());
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct state *s = PyModule_GetState(module);

	for (int i = 0; i < PY_TYPES; i++)
		Py_VISIT(s->type[i]);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct state *s = PyModule_GetState(module);

	for (int i = 0; i < PY_TYPES; i++)
		Py_CLEAR(s->type[i]);
	return 0;
}

PyMODINIT_FUNC PyInit__shoal(void);

PyMODINIT_FUNC PyInit__shoal(void)
{
	static PyModuleDef_Slot slots[] = { { Py_mod_exec, module_exec }, { 0, NULL } };
	static struct PyModuleDef definition = {
		PyModuleDef_HEAD_INIT,
		.m_name = "_shoal",
		.m_doc = "Handles of libshoal. Use the package shoal.",
		.m_size = sizeof(struct state),
		.m_methods = functions,
		.m_slots = slots,
		.m_traverse = module_traverse,
		.m_clear = module_clear,
	};

	return PyModuleDef_Init(&definition);
}
