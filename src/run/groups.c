/*
 * Steps over groups of rows. A workload counts rows, but its files are read by row groups or record
 * batches. If a batch is a whole number of groups, a step takes that many. Otherwise groups are
 * taken as rows run out: for batches of 72 rows and groups of 48, two groups and one in turn.
 */
#include <stdlib.h>

#include "run/run_private.h"

uint64_t run_taken_before(const struct run *run, const struct phase *phase, uint64_t step)
{
	const struct run_data_part *part = phase->part;
	unsigned __int128 rows = (unsigned __int128)step * phase->batch;
	unsigned __int128 nr = (rows * part->nr_samples + part->nr_rows - 1) / part->nr_rows;

	/* The last group may be divided among accelerators. */
	return (uint64_t)(nr < part->nr_samples / run->nr_all ? nr
							      : part->nr_samples / run->nr_all);
}

uint64_t run_loader_batches(const struct phase *phase, uint64_t steps)
{
	const struct run_data_part *part = phase->part;
	unsigned __int128 one = (unsigned __int128)part->nr_rows * phase->take;
	unsigned __int128 all = (unsigned __int128)steps * phase->batch * part->nr_samples;

	return (uint64_t)((all + one - 1) / one);
}

int run_groups_start(const struct run *run, struct phase *phase, struct shoal_err *err)
{
	const struct run_data_part *part = phase->part;
	unsigned __int128 step = (unsigned __int128)phase->batch * part->nr_samples;

	if (part->nr_samples < run->nr_all)
		return err_set(err, -EINVAL,
			       "there are fewer row groups than accelerators: generate more "
			       "files, or smaller groups");
	phase->take = step % part->nr_rows == 0 ? (uint64_t)(step / part->nr_rows) : 1;
	/*
	 * The groups of a step and of the one before, as batches of the loader: some megabytes
	 * each.
	 */
	phase->held_cap = 2 * (size_t)(run_loader_batches(phase, 1) + 1);
	phase->held = calloc(phase->held_cap, sizeof(struct shoal_batch *));
	return phase->held ? 0 : err_set(err, -ENOMEM, "out of memory");
}
