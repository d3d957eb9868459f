/* Stores for Python: the kind of a URI, and configurations. */
#include "python/py_private.h"
#include "store/uri.h"

static PyObject *boolean(bool value)
{
	return value ? Py_True : Py_False; /* lent */
}

/* parse_uri(bytes): (files, objects, synthetic, etags, path); the path is None except for files. */
static PyObject *parse_uri(PyObject *module, PyObject *args)
{
	const char *uri;
	struct shoal_err err = { "" };
	struct store_traits t;
	int rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "y", &uri))
		return NULL;
	rc = store_uri_check_root(uri, &err);
	if (rc < 0)
		return py_raise(rc, &err);
	t = store_uri_traits(uri);
	return Py_BuildValue("(OOOOy)", boolean(t.files), boolean(t.objects), boolean(t.synthetic),
			     boolean(t.etags), store_local_path(uri));
}

/* (endpoint, region, access_key, secret_key, session_token, profile, ca_file, bucket_style,
 * anonymous, max_tries, connect_timeout, timeout, backoff_ms) */
int py_store_config(PyObject *object, struct shoal_store_config *config,
		    const struct shoal_store_config **ret_config)
{
	struct shoal_store_config c = { NULL };
	int anonymous = 0;

	*ret_config = NULL;
	if (!object || object == Py_None)
		return 0;
	if (!PyTuple_Check(object)) { /* its repr is not shown: it may contain a secret */
		py_refuse_type("a configuration is a tuple", object);
		return -1;
	}
	if (!PyArg_ParseTuple(object, "zzzzzzzzpIIII", &c.endpoint, &c.region, &c.access_key,
			      &c.secret_key, &c.session_token, &c.profile, &c.ca_file,
			      &c.bucket_style, &anonymous, &c.max_tries, &c.connect_timeout,
			      &c.timeout, &c.backoff_ms))
		return -1;
	c.anonymous = anonymous;
	*config = c;
	*ret_config = config;
	return 0;
}

static PyObject *check_config(PyObject *module, PyObject *object)
{
	const struct shoal_store_config *config;
	struct shoal_store_config room;
	struct shoal_err err = { "" };
	int rc;

	(void)module;
	if (py_store_config(object, &room, &config) < 0)
		return NULL;
	rc = config ? shoal_store_config_check(config, &err) : 0;
	return py_done(rc, &err);
}

/* bucket_uri(bucket, key): both are bytes */
static PyObject *bucket_uri(PyObject *module, PyObject *args)
{
	const char *bucket, *key;
	Py_ssize_t len, key_len;
	PyObject *uri;
	size_t head;
	char *text;

	(void)module;
	if (!PyArg_ParseTuple(args, "y#y#", &bucket, &len, &key, &key_len))
		return NULL;
	text = PyMem_Malloc((size_t)len + (size_t)key_len + 8);
	if (!text)
		return PyErr_NoMemory();
	head = store_bucket_uri(bucket, (size_t)len, text);
	memcpy(text + head, key, (size_t)key_len);
	uri = PyBytes_FromStringAndSize(text, (Py_ssize_t)head + key_len);
	PyMem_Free(text);
	return uri;
}

static PyMethodDef functions[] = {
	{ "bucket_uri", bucket_uri, METH_VARARGS, "bucket_uri(bucket, key): bytes" },
	{ "check_config", check_config, METH_O, "check_config(config): a tuple, or None" },
	{ "parse_uri", parse_uri, METH_VARARGS,
	  "parse_uri(uri): (files, objects, synthetic, etags, path)" },
	{ NULL, NULL, 0, NULL },
};

int py_add_store(PyObject *module)
{
	return PyModule_AddFunctions(module, functions);
}
