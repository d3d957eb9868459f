/*
 * Any bytes as a checkpoint: refused, or all its runs and units lie where they may. The checksum is
 * not looked at in this build.
 */
#include <stdlib.h>

#include "index/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink; /* every byte that is pointed to is read */

static void touch(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < len; i++)
		sink = p[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct index_checkpoint c;
	struct sort_run run;
	uint64_t to, nr;
	struct index_unit_ref unit;
	int rc = index_checkpoint_parse(data, size, &c);

	if (rc < 0)
		return rc == -EBADMSG ? 0 : (abort(), 0);
	touch(c.root, c.root_len);
	touch(c.listing, c.listing_len);
	while ((rc = index_checkpoint_run(&c.runs, c.runs_end, &run)) > 0)
		if (run.off + run.len > c.runs_end || run.off + run.len < run.off ||
		    run.shared > SHOAL_NAME_MAX)
			abort();
	if (rc < 0 && rc != -EBADMSG)
		abort();
	while ((rc = index_unit_next(&c.units, &unit)) > 0) {
		if (unit.len > STORE_UNIT_MAX)
			abort();
		touch(unit.unit, unit.len);
	}
	if (rc < 0 && rc != -EBADMSG)
		abort();
	while ((rc = index_checkpoint_handoff(&c.handoffs, &to, &nr, &unit)) > 0) {
		if (unit.len > STORE_UNIT_MAX)
			abort();
		touch(unit.unit, unit.len);
	}
	if (rc < 0 && rc != -EBADMSG)
		abort();
	if (c.rank >= c.nr_ranks)
		abort();
	return 0;
}
