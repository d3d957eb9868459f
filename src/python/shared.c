/* Samples that were left out, recorded in memory that processes share. */
#include "python/py_private.h"

/* The 64-bit words of the first samples recorded; the table follows. See shared.py. */
#define NR_FIRST 16u

/* Insert @word, which is not 0, into the table. Returns whether it is new; if the table is full
 * every word counts as new. */
static bool py_shared_insert(uint64_t *table, size_t nr, uint64_t word)
{
	size_t at = (size_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 20) % nr;

	for (size_t i = 0; i < nr; i++, at = (at + 1) % nr) {
		uint64_t there = 0;

		if (__atomic_compare_exchange_n(&table[at], &there, word, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return true;
		if (there == word)
			return false;
	}
	return true;
}

/* note_sample(words, sample): the number of different samples including this one; 0: it was
 * recorded already. */
static PyObject *note_sample(PyObject *module, PyObject *args)
{
	uint64_t sample, *words, nr = 0;
	size_t nr_words;
	Py_buffer out;

	(void)module;
	if (!PyArg_ParseTuple(args, "w*O&", &out, py_u64_arg, &sample))
		return NULL;
	words = out.buf;
	nr_words = (size_t)out.len / sizeof(*words);
	if (nr_words < 2 + NR_FIRST || (uintptr_t)out.buf % sizeof(*words) != 0) {
		PyBuffer_Release(&out);
		return py_error(PyExc_ValueError, "there is no room for a table");
	}
	if (py_shared_insert(words + 1 + NR_FIRST, nr_words - 1 - NR_FIRST, sample + 1)) {
		nr = __atomic_add_fetch(&words[0], 1, __ATOMIC_RELAXED);
		if (nr <= NR_FIRST)
			__atomic_store_n(&words[nr], sample + 1, __ATOMIC_RELAXED);
	}
	PyBuffer_Release(&out);
	return PyLong_FromUnsignedLongLong(nr);
}

static PyMethodDef functions[] = {
	{ "note_sample", note_sample, METH_VARARGS,
	  "note_sample(words, sample): the number of different samples; 0: it is not new." },
	{ NULL, NULL, 0, NULL },
};

int py_add_shared(PyObject *module)
{
	return PyModule_AddFunctions(module, functions);
}
