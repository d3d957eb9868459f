/* sweep_print.h - what shoal sweep prints of its results. */
#ifndef SHOAL_CLI_SWEEP_PRINT_H
#define SHOAL_CLI_SWEEP_PRINT_H

#include "sweep/result.h"

/* "in-flight 8, batch 32". */
void sweep_values_words(const struct sweep_plan *plan, size_t point, char *buf, size_t cap);

void sweep_print_json(const struct sweep_result *r);
void sweep_print_text(const struct sweep_result *r, const char *folder);

#endif
