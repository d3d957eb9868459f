/* Any pattern: refused with words, or a catalog of that many names that verifies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/le.h"
#include "shoal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_catalog(const char *path, const struct shoal_index_result *result)
{
	struct shoal_catalog_info info;
	struct shoal_catalog *cat = NULL;
	struct shoal_err err = { "" };

	if (shoal_catalog_open(path, &cat, &err) < 0 || shoal_catalog_verify(cat, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		abort();
	}
	shoal_catalog_info(cat, &info);
	if (info.nr_files != result->nr_names)
		abort();
	shoal_catalog_close(cat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64], format[SHOAL_NAME_MAX + 100] = "";
	struct shoal_index_options options = { .output = path,
					       .root = "s3://bucket",
					       .memory = SHOAL_INDEX_MEMORY_MIN };
	struct shoal_pattern pattern = { .format = format };
	struct shoal_index_result result;
	struct shoal_err err = { "" };
	int rc;

	/* first, count, subfolders, size; then the format. */
	if (size < 20 || size - 20 >= sizeof(format))
		return 0;
	snprintf(path, sizeof(path), "/dev/shm/shoal-fuzz-pattern-%d.cat", (int)getpid());
	memcpy(format, data + 20, size - 20);
	pattern.first = le64_load(data);
	pattern.count = le32_load(data + 8) % 3000;
	pattern.subfolders = le32_load(data + 12) >> (data[12] % 32);
	pattern.size = data[16] & 1 ? SHOAL_SIZE_UNKNOWN : le32_load(data + 16);
	rc = shoal_index_pattern(&pattern, &options, &result, &err);
	if (rc > 0 || (rc < 0 && !err.msg[0]) || (rc < 0 && access(path, F_OK) == 0))
		abort();
	if (rc == 0) {
		if (result.nr_names != pattern.count)
			abort();
		check_catalog(path, &result);
	}
	unlink(path);
	return 0;
}
