/* Any bytes as a list: refused with words, or a catalog that verifies. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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
	char path[64];
	struct shoal_index_options options = { .output = path, .memory = SHOAL_INDEX_MEMORY_MIN };
	struct shoal_index_result result;
	struct shoal_err err = { "" };
	int fd, rc;

	if (size == 0)
		return 0;
	snprintf(path, sizeof(path), "/dev/shm/shoal-fuzz-list-%d.cat", (int)getpid());
	fd = memfd_create("list", 0);
	if (fd < 0 || pwrite(fd, data + 1, size - 1, 0) != (ssize_t)size - 1)
		abort();
	/* The first byte chooses how it is read. */
	options.root = data[0] & 4 ? "s3://bucket" : data[0] & 8 ? "/data" : NULL;
	options.samples_per_file = data[0] >> 6;
	rc = shoal_index_list(fd, data[0] & 1 ? '\0' : '\n', data[0] & 2, &options, &result, &err);
	close(fd);
	if (rc > 0 || (rc < 0 && !err.msg[0]) || (rc < 0 && access(path, F_OK) == 0))
		abort();
	if (rc == 0)
		check_catalog(path, &result);
	unlink(path);
	return 0;
}
