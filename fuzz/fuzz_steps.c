/*
 * Any bytes as a step log, of one accelerator or of several: its blocks lie behind one another, and
 * all ways to read one give the same steps.
 */
#include <errno.h>
#include <string.h>

#include "base/le.h"
#include "file.h"
#include "run/steplog.h"

#define RUN 0x5368u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	uint64_t nr, value;
};

static int add(void *self, uint32_t accelerator, const struct run_step *step)
{
	struct sum *s = self;

	s->nr++;
	s->value += (step->asked ^ step->load ^ step->compute ^ step->planned ^ step->errors) *
		    (accelerator + 1);
	return 0;
}

static void read_block(const struct step_log *log, const struct step_log_block *block)
{
	struct sum all = { 0 }, single = { 0 };
	struct step_log_view view;
	struct shoal_err err = { "" };

	if (step_log_read(log, block, add, &all, &err) < 0 ||
	    step_log_view_open(log, &view, &err) < 0)
		abort();
	for (uint32_t i = 0; i < log->nr_accelerators; i++)
		if (step_log_view_read(&view, block, i, add, &single, &err) < 0)
			abort();
	step_log_view_close(&view);
	if (all.nr != block->nr_steps * log->nr_accelerators || all.nr != single.nr ||
	    all.value != single.value)
		abort();
}

static void read_all(const char *path, uint32_t nr_accelerators)
{
	struct step_log log;
	struct step_log_block block = { 0 };
	struct shoal_err err = { "" };
	uint64_t last = 0;
	int rc = step_log_open(path, RUN, nr_accelerators, &log, &err);

	if (rc < 0)
		return;
	while ((rc = step_log_next(&log, &block, &err)) > 0) {
		if (block.off < last || block.next_off <= block.off || block.next_off > log.end)
			abort();
		last = block.next_off;
		read_block(&log, &block);
	}
	if (rc < 0 && (rc != -EBADMSG || !err.msg[0]))
		abort();
	if (last && step_log_cut(&log, &block, block.nr_steps / 2, &err) < 0)
		abort();
	step_log_close(&log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_path("steps");
	uint32_t nr_accelerators;
	uint8_t *copy;

	if (size < 40)
		return 0;
	nr_accelerators = 1 + data[24] % 5u;
	copy = malloc(size);
	if (!copy)
		abort();
	memcpy(copy, data, size);
	le64_store(copy + 8, RUN); /* a head that fits, which no mutation would find */
	le64_store(copy + 16, nr_accelerators);
	fuzz_write(path, copy, size);
	read_all(path, nr_accelerators);
	unlink(path);
	free(copy);
	return 0;
}
