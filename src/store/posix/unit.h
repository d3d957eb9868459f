/*
 * unit.h - the contents of a unit of the listing of a directory tree.
 *
 * A unit starts with a letter:
 *
 *   'D'  the path of a directory
 *   'S'  the path's length, the path, and names in it, each preceded by its type and ended by a
 *        NUL: an idle thread looks up their sizes
 *   'N'  the path likewise, and entries as the kernel returned them, for an idle thread to process
 *   'H'  the path likewise, the directory's device and inode, and the two positions to read between
 *
 * 'd', 'n' and 'h' are the same, but everything below must be read even if the sink has it cached.
 */
#ifndef SHOAL_STORE_POSIX_UNIT_H
#define SHOAL_STORE_POSIX_UNIT_H

#include "base/span.h"

/* The path of a unit; what follows it is left in @span. False if the unit is damaged: it may
 * come from a file, or from another rank. */
bool posix_unit_parse(struct span *span, uint8_t *ret_kind, struct span *ret_path);

#endif
