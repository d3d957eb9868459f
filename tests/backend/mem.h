/*
 * mem.h - objects in memory as a kind of store: "mem://place/prefix".
 *
 * A backend outside of the library, as docs/adding.md describes one: this folder, and the line that
 * adds store_mem_kind to the table; here by store_register(). Places are there once a thing is
 * written to them, and are the process's until mem_clear(). A place may be locked by a key, which a
 * configuration must bring as its secret_key.
 */
#ifndef SHOAL_TESTS_BACKEND_MEM_H
#define SHOAL_TESTS_BACKEND_MEM_H

#include "store/kind.h"

extern const struct store_kind store_mem_kind;

/* From now on @place is opened with this key only; lent. */
void mem_lock(const char *place, const char *key);

/* Forget everything. No store is open. */
void mem_clear(void);

#endif
