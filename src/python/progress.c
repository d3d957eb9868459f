/* Progress of calls that write or compare catalogs and write lists, for a callable of the user. */
#include "base/clock.h"
#include "python/py_private.h"

#define PROGRESS_NS 100000000u /* between two calls */

/* With the GIL held. */
static void progress_call(struct py_progress *p, uint64_t done, uint64_t total)
{
	PyObject *result = NULL;
	bool good = PyErr_CheckSignals() == 0;

	if (good && p->call && p->call != Py_None) {
		result = PyObject_CallFunction(p->call, "KK", (unsigned long long)done,
					       (unsigned long long)total);
		good = result != NULL;
	}
	Py_XDECREF(result);
	if (good)
		return;
	PyErr_Fetch(&p->type, &p->value, &p->traceback);
	__atomic_store_n(&p->stop, 1, __ATOMIC_RELAXED);
}

void py_progress_of(void *self, uint64_t done, uint64_t total)
{
	struct py_progress *p = self;
	uint64_t now = clock_now();
	PyGILState_STATE gil;

	if (p->type || (now < p->next_ns && done != total))
		return;
	p->next_ns = now + PROGRESS_NS;
	gil = PyGILState_Ensure();
	progress_call(p, done, total);
	PyGILState_Release(gil);
}

void py_progress_names(void *self, uint64_t done)
{
	py_progress_of(self, done, 0);
}

int py_progress_end(struct py_progress *p)
{
	if (!p->type)
		return 0;
	PyErr_Clear();
	PyErr_Restore(p->type, p->value, p->traceback);
	return -1;
}

int py_tell_difference(PyObject **call, enum shoal_difference what, const char *name, size_t len,
		       uint64_t was, uint64_t is)
{
	PyObject *done = PyObject_CallFunction(*call, "iy#KK", (int)what, name, (Py_ssize_t)len,
					       (unsigned long long)was, (unsigned long long)is);
	bool failed = !done;

	if (done && done != Py_True)
		*call = NULL;
	Py_XDECREF(done);
	return failed ? -1 : 0;
}
