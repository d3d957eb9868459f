/* host.h - facts about this host from /proc, as in DLIO's results. */
#ifndef SHOAL_REPORT_HOST_H
#define SHOAL_REPORT_HOST_H

#include "base/json.h"

/* "key: value" lines as an object, up to the first empty line: the first processor. */
void report_put_proc(struct json *j, const char *key, const char *path);

/* The machine as uname(2) has it, such as "x86_64". */
void report_put_processor(struct json *j, const char *key);

#endif
