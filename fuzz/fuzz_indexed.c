/* Any bytes as the two index files of indexed_binary, one half each; the first two bytes are the
 * size of the file that they belong to. */
#include "find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int open_half(void *self, const char *suffix, struct format_source *ret_side,
		     struct shoal_err *err)
{
	struct fuzz_file *half = (struct fuzz_file *)self + (suffix[1] == 's' ? 2 : 1);

	(void)err;
	*ret_side = (struct format_source){ half->len, fuzz_read, half, NULL };
	return 0;
}

/* The data file, which is read only to see whether it is compressed. */
static int read_zeros(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	(void)self;
	(void)off;
	(void)err;
	memset(buf, 0, len);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_file file[3] = { { NULL, 0 } }; /* the data file, its offsets, its sizes */
	struct format_source source = { .read = read_zeros, .self = file, .open_side = open_half };
	struct fuzz_found found = { 0 };
	struct shoal_err err = { "" };
	int rc;

	if (size < 2)
		return 0;
	source.size = found.size = data[0] | (uint64_t)data[1] << 8;
	file[1] = (struct fuzz_file){ data + 2, (size - 2) / 2 };
	file[2] = (struct fuzz_file){ data + 2 + file[1].len, file[1].len };
	rc = samples_find(samples_kind_by_name("indexed_binary"), 0, &source, fuzz_take_extent,
			  &found, &err);
	if (rc < 0 && (err.msg[0] == '\0' || rc != -EBADMSG))
		abort();
	return 0;
}
