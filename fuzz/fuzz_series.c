/*
 * Any bytes as a time series: records are read up to the first that is not whole, and reading stops
 * at the same place when a series is resumed.
 */
#include <errno.h>
#include <string.h>

#include "base/le.h"
#include "file.h"
#include "run/series.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t nr, sum;
};

static int see(void *self, const struct series_record *r)
{
	struct seen *s = self;

	if (strnlen(r->name, sizeof(r->name)) == sizeof(r->name))
		abort();
	s->nr++;
	for (size_t i = 0; i < SERIES_PLACES; i++)
		s->sum += r->count[i];
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_path("series");
	struct seen first = { 0 }, again = { 0 };
	struct series_head head = { 0 };
	struct shoal_err err = { "" };
	struct series *s = NULL;
	size_t end = 0, end_again = 0;
	int rc = series_read(data, size, &head, see, &first, &end, &err);

	if (rc < 0) {
		if ((rc != -EBADMSG && rc != -EPROTONOSUPPORT) || !err.msg[0])
			abort();
		return 0;
	}
	if (end > size || series_read(data, end, &head, see, &again, &end_again, &err) < 0 ||
	    end_again != end || memcmp(&first, &again, sizeof(first)) != 0)
		abort();
	fuzz_write(path, data, size);
	if (series_resume(path, head.run, &s, &err) < 0 || series_close(s, &err) < 0)
		abort();
	unlink(path);
	return 0;
}
