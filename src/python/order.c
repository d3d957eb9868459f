/* Orders: numbers in, ids out, into the caller's buffers of 64-bit words. */
#include <errno.h>
#include <string.h>

#include "python/py_private.h"

struct order {
	PyObject_HEAD struct shoal_order *order;
};

static struct shoal_order *py_order_of(PyObject *self)
{
	return ((struct order *)self)->order;
}

int py_order_spec(PyObject *tuple, struct shoal_order_spec *ret_spec)
{
	struct shoal_order_spec s = { 0 };
	int mode, remainder, frozen;

	if (!PyArg_ParseTuple(tuple, "iiO&pO&O&O&O&O&O&O&O&", &mode, &remainder, py_u64_arg,
			      &s.seed, &frozen, py_u64_arg, &s.nr_samples, py_u64_arg, &s.unit,
			      py_u64_arg, &s.window, py_u64_arg, &s.nr_ranks, py_u64_arg, &s.batch,
			      py_u64_arg, &s.consumed, py_u64_arg, &s.lanes, py_u64_arg,
			      &s.lane_batch))
		return -1;
	s.mode = (enum shoal_mode)mode;
	s.remainder = (enum shoal_remainder)remainder;
	s.frozen = frozen;
	*ret_spec = s;
	return 0;
}

int py_state_parse(PyObject *tuple, struct shoal_order_state *ret_state)
{
	struct shoal_order_state s = { 0 };
	const char *digest;

	if (!PyArg_ParseTuple(tuple, "O&O&O&sO&O&O&O&", py_u64_arg, &s.seed, py_u64_arg, &s.epoch,
			      py_u64_arg, &s.consumed, &digest, py_u64_arg, &s.nr_ranks, py_u64_arg,
			      &s.order, py_u64_arg, &s.lanes, py_u64_arg, &s.lane_batch))
		return -1;
	if (strlen(digest) >= sizeof(s.digest)) {
		PyErr_SetString(PyExc_ValueError, "the state's digest is too long");
		return -1;
	}
	memcpy(s.digest, digest, strlen(digest) + 1);
	*ret_state = s;
	return 0;
}

PyObject *py_state_tuple(const struct shoal_order_state *s)
{
	return Py_BuildValue("KKKsKKKK", (unsigned long long)s->seed, (unsigned long long)s->epoch,
			     (unsigned long long)s->consumed, s->digest,
			     (unsigned long long)s->nr_ranks, (unsigned long long)s->order,
			     (unsigned long long)s->lanes, (unsigned long long)s->lane_batch);
}

static PyObject *wrap(PyTypeObject *type, struct shoal_order *order)
{
	PyObject *self = PyType_GenericAlloc(type, 0);

	if (!self)
		shoal_order_free(order);
	else
		((struct order *)self)->order = order;
	return self;
}

/* Order(spec, epoch) */
static PyObject *order_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	struct shoal_order_spec spec;
	struct shoal_order *order;
	struct shoal_err err = { "" };
	PyObject *tuple;
	uint64_t epoch;
	int rc;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "O!O&", &PyTuple_Type, &tuple, py_u64_arg, &epoch) ||
	    py_order_spec(tuple, &spec) < 0)
		return NULL;
	rc = shoal_order_new(&spec, epoch, &order, &err);
	return rc < 0 ? py_raise(rc, &err) : wrap(type, order);
}

static void order_dealloc(PyObject *self)
{
	shoal_order_free(py_order_of(self));
	py_free(self);
}

static PyObject *order_set_epoch(PyObject *self, PyObject *epoch_object)
{
	uint64_t epoch;

	if (py_u64(epoch_object, &epoch) < 0)
		return NULL;
	shoal_order_set_epoch(py_order_of(self), epoch);
	Py_RETURN_NONE;
}

static PyObject *order_steps(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(shoal_order_steps(py_order_of(self)));
}

static PyObject *order_spec(PyObject *self, PyObject *unused)
{
	const struct shoal_order_spec *s = shoal_order_spec(py_order_of(self));

	(void)unused;
	return Py_BuildValue("iiKiKKKKKKKK", (int)s->mode, (int)s->remainder,
			     (unsigned long long)s->seed, (int)s->frozen,
			     (unsigned long long)s->nr_samples, (unsigned long long)s->unit,
			     (unsigned long long)s->window, (unsigned long long)s->nr_ranks,
			     (unsigned long long)s->batch, (unsigned long long)s->consumed,
			     (unsigned long long)s->lanes, (unsigned long long)s->lane_batch);
}

/* As many steps as fit, one after another. Returns how many ids, or an error. */
static int64_t py_order_fill(const struct shoal_order *order, uint64_t step, uint64_t rank,
			     uint64_t *ids, uint64_t room)
{
	uint64_t batch = shoal_order_spec(order)->batch, steps = shoal_order_steps(order);
	int64_t nr = 0;

	while (step < steps && (uint64_t)nr + batch <= room) {
		int64_t got = shoal_order_batch(order, step++, rank, ids + nr);

		if (got < 0)
			return got;
		nr += got;
	}
	return nr;
}

/* batches(step, rank, out): ids of the steps from step on, as many as fit: how many ids. */
static PyObject *order_batches(PyObject *self, PyObject *args)
{
	uint64_t step, rank;
	Py_buffer out;
	int64_t nr;

	if (!PyArg_ParseTuple(args, "O&O&w*", py_u64_arg, &step, py_u64_arg, &rank, &out))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	nr = py_order_fill(py_order_of(self), step, rank, out.buf,
			   (uint64_t)out.len / sizeof(uint64_t));
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&out);
	if (nr < 0)
		return py_error(PyExc_IndexError, "there is no such rank or step");
	return PyLong_FromLongLong(nr);
}

/* at(buffer): positions become ids, in place. */
static PyObject *order_at(PyObject *self, PyObject *args)
{
	Py_buffer view;
	int rc;

	if (!PyArg_ParseTuple(args, "w*", &view))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	rc = shoal_order_at(py_order_of(self), view.buf, (size_t)view.len / sizeof(uint64_t),
			    view.buf);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&view);
	if (rc < 0)
		return py_error(PyExc_IndexError, "a position is past the end of the epoch");
	Py_RETURN_NONE;
}

static PyObject *order_position(PyObject *self, PyObject *id_object)
{
	uint64_t id, position;

	if (py_u64(id_object, &id) < 0)
		return NULL;
	if (shoal_order_position(py_order_of(self), id, &position) < 0)
		return py_error(PyExc_IndexError, "there is no such sample");
	return PyLong_FromUnsignedLongLong(position);
}

/* save(steps, digest): (seed, epoch, consumed, digest, nr_ranks, order). */
static PyObject *order_save(PyObject *self, PyObject *args)
{
	struct shoal_order_state s;
	const char *digest;
	uint64_t steps;

	if (!PyArg_ParseTuple(args, "O&s", py_u64_arg, &steps, &digest))
		return NULL;
	shoal_order_save(py_order_of(self), steps, digest, &s);
	return py_state_tuple(&s);
}

/* resume(spec, state, digest): a new order that continues. */
static PyObject *resume(PyObject *module, PyObject *args)
{
	struct shoal_order_state state = { 0 };
	struct shoal_order_spec spec;
	struct shoal_order *order;
	struct shoal_err err = { "" };
	PyObject *tuple, *saved;
	const char *digest;
	int rc;

	if (!PyArg_ParseTuple(args, "O!O!s", &PyTuple_Type, &tuple, &PyTuple_Type, &saved,
			      &digest) ||
	    py_order_spec(tuple, &spec) < 0 || py_state_parse(saved, &state) < 0)
		return NULL;
	rc = shoal_order_resume(&spec, &state, digest, &order, &err);
	return rc < 0 ? py_raise(rc, &err) : wrap(py_type(module, PY_ORDER), order);
}

static PyMethodDef methods[] = {
	{ "set_epoch", order_set_epoch, METH_O, "Go to an epoch, at its first position." },
	{ "steps", order_steps, METH_NOARGS, "Steps to the end of the epoch." },
	{ "spec", order_spec, METH_NOARGS, "The spec, with defaults filled in." },
	{ "batches", order_batches, METH_VARARGS, "batches(step, rank, out): how many ids." },
	{ "at", order_at, METH_VARARGS, "at(buffer): positions become ids." },
	{ "position", order_position, METH_O, "The position of a sample in the epoch." },
	{ "save", order_save, METH_VARARGS, "save(steps, digest): the state after these steps." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, order_new },
	{ Py_tp_dealloc, order_dealloc },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyMethodDef functions[] = {
	{ "resume", resume, METH_VARARGS, "resume(spec, state, digest): an order that continues." },
	{ NULL, NULL, 0, NULL },
};

int py_add_order(PyObject *module)
{
	if (py_add_type(module, PY_ORDER, "shoal._shoal.Order", sizeof(struct order), slots) < 0)
		return -1;
	return PyModule_AddFunctions(module, functions);
}
