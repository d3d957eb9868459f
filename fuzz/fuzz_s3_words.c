/* Any file of settings and any answer: nothing is read outside, and what is found fits. */
#include <stdlib.h>
#include <string.h>

#include "store/s3/config.h"
#include "store/s3/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(void *self, const char *key, const char *value)
{
	size_t *nr = self;

	if (strlen(key) > 20000 || !*value || strlen(value) > 20000 || strchr(value, '\n'))
		abort();
	return ++*nr > 100000 ? -1 : 0;
}

/* An exact copy, so that ASan sees a byte too many. */
static char *copy_of(const uint8_t *bytes, size_t len)
{
	char *copy = malloc(len ? len : 1);

	if (!copy)
		abort();
	memcpy(copy, bytes, len);
	return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = copy_of(data, size), code[8], id[300];
	struct s3_xml_field fields[] = { { "Error/Code", code, sizeof(code), false, false },
					 { "A/UploadId", id, sizeof(id), false, false } };
	size_t nr = 0;
	int rc = s3_ini_section(copy, size, "profile x", take, &nr);

	if (rc < 0 || rc > 1)
		abort();
	rc = s3_xml_find(copy, size, fields, ARRAY_LEN(fields));
	if (rc != 0 && rc != -EBADMSG && rc != -ENOMEM)
		abort();
	if (strnlen(code, sizeof(code)) == sizeof(code) || strnlen(id, sizeof(id)) == sizeof(id))
		abort();
	if (memmem(copy, size, "<!DOCTYPE", 9) == copy && size > 9 && rc == 0)
		abort();
	free(copy);
	return 0;
}
