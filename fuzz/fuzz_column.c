/* Any bytes as a column: refused with words, or used all over without leaving the buffer. */
#include <stdlib.h>
#include <string.h>

#include "catalog/sidecar_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct shoal_column column = { .map = MAP_CLOSED };
	struct shoal_err err = { "" };
	uint64_t id, key, values[64];
	int used = 0;

	if (side_parse(data, size, &column.view, &err) < 0) {
		if (!*err.msg)
			abort();
		return 0;
	}
	column.last_sum = le64_load(data + size - 8);
	used |= shoal_column_verify(&column, &err);
	for (uint64_t i = 0; i < u64_min(column.view.nr, 10000); i += 1 + i / 7) {
		uint64_t at = column.view.first + i;

		used |= side_key_at(&column.view, i, &key);
		used |= shoal_column_read(&column, at, u64_min(64, column.view.nr - i), values);
		if (shoal_column_select(&column, i, &id) == 0 && id >= column.view.nr)
			abort();
		if (shoal_column_sorted(&column, i, 1, &id) == 0 && id >= column.view.nr)
			abort();
		used |= shoal_column_rank(&column, i, &id);
	}
	(void)used;
	return 0;
}
