/*
 * Any bytes as a sorter's spill file, cut into runs anywhere: merging ends, with an error or with
 * names that rise, have no NUL and a payload that is not too long.
 */
#include <errno.h>
#include <string.h>

#include "base/name.h"
#include "file.h"
#include "sort/merge.h"

#define RUNS_MAX 8u
#define MEMORY   (2u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct taken {
	uint8_t last[SHOAL_NAME_MAX];
	size_t len;
};

static int take(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct taken *t = self;

	(void)err;
	if (e->len == 0 || e->len > SHOAL_NAME_MAX || e->payload_len > SORT_PAYLOAD_MAX ||
	    memchr(e->name, 0, e->len))
		abort();
	if (t->len > 0 && name_compare(t->last, t->len, e->name, e->len) >= 0)
		abort();
	memcpy(t->last, e->name, e->len);
	t->len = e->len;
	return 0;
}

/* The first bytes say how many runs there are, and how long their names' common prefix is. */
static void merge(int fd, const uint8_t *data, size_t size)
{
	struct sort_runs runs = { 0 };
	uint32_t nr = 1 + data[0] % RUNS_MAX;
	uint64_t repeated = 0;
	struct taken taken = { .len = 0 };
	struct shoal_err err = { "" };
	struct tournament t;
	uint8_t *memory = malloc(MEMORY);
	int rc;

	for (uint32_t i = 0; i < nr; i++) {
		struct sort_run run = { .off = size * i / nr,
					.len = size * (i + 1) / nr - size * i / nr,
					.shared = data[1] % 4u };

		if (sort_runs_add(&runs, &run) < 0)
			abort();
	}
	if (!memory)
		abort();
	rc = tournament_of_runs(&t, fd, runs.run, nr, NULL, memory, MEMORY);
	if (rc == 0)
		rc = tournament_play(&t, NULL, &repeated, take, &taken, &err);
	if (rc > 0)
		abort();
	tournament_release(&t);
	sort_runs_release(&runs);
	free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_path("spill");
	int fd;

	if (size < 3)
		return 0;
	fuzz_write(path, data + 2, size - 2);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		abort();
	merge(fd, data, size - 2);
	close(fd);
	unlink(path);
	return 0;
}
