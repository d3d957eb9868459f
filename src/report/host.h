/* host.h - what /proc says of this host, as DLIO's results repeat it. */
#ifndef SHOAL_REPORT_HOST_H
#define SHOAL_REPORT_HOST_H

#include <jansson.h>

/* "key: value" lines as an object, up to the first empty one: the first processor's. */
json_t *report_proc_json(const char *path);

/* The same as text, to be freed: NULL without memory. */
char *report_proc_text(const char *path);

/* As uname(2) has it. */
const char *report_processor_name(void);

#endif
