#include "cli/compare_ranks.h"

#include <errno.h>
#include <stdlib.h>

int cli_compare_ranks(struct comm *comm, void (*describe)(FILE *f, const void *self),
		      const void *self, struct shoal_err *err)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	int rc;

	if (f)
		describe(f, self);
	/* If memory is short at the end there is no text, though closing succeeds. */
	if (!f || fclose(f) != 0 || !text) {
		rc = err_set(err, -ENOMEM, "out of memory");
		comm_fail(comm, err);
	} else {
		rc = comm_compare(comm, text, err);
	}
	free(text);
	return rc;
}
