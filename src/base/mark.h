/*
 * mark.h - how files begin that Shoal writes wherever the user says: for the room that writes each,
 * and for listings, which leave them out. Those of catalogs and columns are in the room catalog.
 */
#ifndef SHOAL_BASE_MARK_H
#define SHOAL_BASE_MARK_H

#include "base/results.h"

#define MARK_OF_OPLOG "\211SHOPL\r\n"               /* the first bytes of a log of operations */
#define MARK_OF_TRACE "one_read_in"                 /* a key near the beginning of a trace */
#define MARK_OF_PAGE  "<title>Shoal report</title>" /* the same of a page */

/* A trace or a page has its mark within so many bytes. */
#define MARK_WITHIN 1024u

/*
 * How their names must end inside of a folder with data: no listing reads other files to find out
 * what they are.
 */
#define MARK_END_OF_OPLOG ".oplog"
#define MARK_END_OF_TRACE "trace.json"
#define MARK_END_OF_PAGE  RESULTS_PAGE

#endif
