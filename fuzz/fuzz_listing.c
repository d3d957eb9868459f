/* Any bytes as a catalog's section LIST: refused with words, or read back the same once written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/provenance.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct index_provenance *l)
{
	char *text = index_provenance_text(l);
	struct index_provenance back = { 0 };
	struct shoal_err err = { "" };

	if (!text)
		return; /* longer than a listing may be */
	if (index_provenance_parse(text, strlen(text), &back, &err) < 0) {
		fprintf(stderr, "%s\n%s", err.msg, text);
		abort();
	}
	if (back.started != l->started || !index_provenance_same(&back, l))
		abort();
	index_provenance_release(&back);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct index_provenance l = { 0 };
	struct shoal_err err = { "" };
	int rc = index_provenance_parse((const char *)data, size, &l, &err);

	if (rc > 0 || (rc < 0 && !err.msg[0]))
		abort();
	if (rc == 0) {
		check_round_trip(&l);
		index_provenance_release(&l);
	}
	return 0;
}
