/*
 * unit.h - what is written into a unit of the listing of a directory tree.
 *
 * A unit is a letter and what follows: 'D' and the path of a directory, or 'd' where all below is
 * to be read whatever the sink may know of it; or 'S', the path's length, the path, and names in
 * it, each behind its type and ended by a NUL, whose sizes somebody idle may ask for; or 'N' (or
 * 'n', as with 'd'), the path in the same way, and entries of it as the kernel gave them, for
 * somebody idle to take; or 'H' (or 'h'), the path in the same way, what the directory is known by,
 * and the two positions between which to read it.
 */
#ifndef SHOAL_STORE_POSIX_UNIT_H
#define SHOAL_STORE_POSIX_UNIT_H

#include "base/span.h"

/* The path of a unit; what follows it is left in @span. False if the unit is damaged: it may
 * come from a file, or from another rank. */
bool posix_unit_parse(struct span *span, uint8_t *ret_kind, struct span *ret_path);

#endif
