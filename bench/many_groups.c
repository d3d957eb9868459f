/*
 * A catalog of row groups that no file has: many_groups CATALOG FILES GROUPS
 *
 * FILES files of GROUPS row groups each, of 1,000 rows and lengths of up to 2^24 bytes at random.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "catalog/extents_writer.h"
#include "catalog/writer.h"

/* xorshift64. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int add_file(struct shoal_writer *w, uint64_t i, uint64_t groups, struct cat_layout *layout,
		    uint64_t *state, struct shoal_err *err)
{
	struct shoal_extent e = { .off = 4, .rows = 1000 };
	char name[64];
	int len = snprintf(name, sizeof(name), "train/part-%09" PRIu64 ".parquet", i), rc = 0;

	cat_layout_clear(layout);
	for (uint64_t g = 0; g < groups && rc == 0; g++) {
		e.len = 1 + next_random(state) % (1 << 24);
		rc = cat_layout_add(layout, &e);
		e.off += e.len;
	}
	if (rc == 0)
		rc = cat_layout_finish(layout);
	if (rc < 0)
		return err_set(err, rc, "cannot make a layout");
	writer_set_layout(w, layout);
	rc = shoal_writer_add_object(w, name, (size_t)len, e.off + 2000, groups, NULL, err);
	return rc < 0 ? rc : writer_count_format(w, "parquet", groups, false, err);
}

int main(int argc, char **argv)
{
	struct shoal_writer_options options = { .root = "/nowhere",
						.sizes = true,
						.extents = true };
	struct cat_layout layout = CAT_LAYOUT_EMPTY;
	uint64_t files, groups, state = 88172645463325252u;
	struct shoal_err err = { "" };
	struct shoal_writer *w = NULL;
	int rc;

	if (argc != 4) {
		fprintf(stderr, "usage: many_groups CATALOG FILES GROUPS\n");
		return 2;
	}
	files = strtoull(argv[2], NULL, 10);
	groups = strtoull(argv[3], NULL, 10);
	rc = shoal_writer_open(argv[1], &options, &w, &err);
	for (uint64_t i = 0; i < files && rc == 0; i++)
		rc = add_file(w, i, groups, &layout, &state, &err);
	if (rc == 0) {
		rc = shoal_writer_seal(w, &err);
		w = NULL; /* sealing frees it */
	}
	shoal_writer_abort(w);
	cat_layout_release(&layout);
	if (rc < 0)
		fprintf(stderr, "many_groups: %s\n", err.msg);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
