/* Any bytes as lines of CSV, and as the header of a NumPy array: refused, or fields inside the
 * line. */
#include <stdlib.h>
#include <string.h>

#include "format/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_csv(const uint8_t *data, size_t size)
{
	struct import_field field[8];
	char *line = malloc(size + !size);
	struct import_number number;
	uint64_t value;
	int nr;

	memcpy(line, data, size);
	nr = import_csv_split(line, size, field, 8);
	for (int i = 0; i < nr && i < 8; i++) {
		if (field[i].text < line || field[i].text + field[i].len > line + size)
			abort();
		if (import_number_parse(field[i].text, field[i].len, &number) == 0)
			for (enum shoal_column_type t = SHOAL_BIT; t <= SHOAL_F64; t++)
				if (import_number_store(&number, t, &value) < 0 && t >= SHOAL_F32)
					abort();
	}
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct import_array array;
	struct import_number number;
	struct shoal_err err = { "" };
	uint64_t value;

	if (memchr(data, '\n', size) == NULL)
		try_csv(data, size);
	if (import_npy_parse(data, size, &array, &err) < 0)
		return *err.msg ? 0 : (abort(), 0);
	if (array.data_off > size || array.width > 8)
		abort();
	if (size - array.data_off >= array.width) {
		number = import_npy_number(&array, data + array.data_off);
		/* The type that is said to hold all of the array does. */
		if (import_number_store(&number, array.type, &value) < 0)
			abort();
	}
	return 0;
}
