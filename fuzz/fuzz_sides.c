/*
 * Any bytes as index files: of tfrecord one text, of indexed_binary two halves of numbers. The
 * first byte says which and how many samples, the next two the size of the file that they speak of.
 */
#include "find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct shoal_err err = { "" };
	struct fuzz_found found = { 0 };
	struct fuzz_file side[2];
	struct format_source source[2];
	bool text;
	int rc;

	if (size < 3)
		return 0;
	text = data[0] & 1;
	found.size = data[1] | (uint64_t)data[2] << 8;
	side[0] = (struct fuzz_file){ data + 3, text ? size - 3 : (size - 3) / 2 };
	side[1] = (struct fuzz_file){ data + 3 + side[0].len, side[0].len };
	for (size_t i = 0; i < 2; i++)
		source[i] = (struct format_source){ side[i].len, fuzz_read, &side[i] };
	rc = format_find_sides(format_by_name(text ? "tfrecord" : "indexed_binary"), source,
			       found.size, data[0] >> 1, fuzz_take, &found, &err);
	if (rc == 0 && found.nr != data[0] >> 1)
		abort();
	if (rc < 0 && (err.msg[0] == '\0' || (rc != -EBADMSG && rc != -ERANGE)))
		abort();
	return 0;
}
