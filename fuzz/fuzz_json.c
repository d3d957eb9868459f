/* Any bytes as JSON: values have paths and texts within their limits, or there is a reason. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int see(void *self, const struct json_value *v)
{
	(void)self;
	if (strlen(v->path) >= JSON_PATH_MAX || strlen(v->text) > JSON_TEXT_MAX ||
	    (v->kind == JSON_NUMBER) == isnan(v->number))
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct shoal_err err = { "" };
	int rc = json_read((const char *)data, size, see, NULL, &err);

	if (rc != 0 && (rc != -EBADMSG || !err.msg[0]))
		abort();
	return 0;
}
