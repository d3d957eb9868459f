#include "index/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "catalog/catalog_format.h"
#include "open/output.h"

/* Whether the file begins like a catalog; a damaged one may be replaced. Empty files may, too. */
static bool begins_as_catalog(const char *path)
{
	char start[sizeof(CAT_MAGIC) - 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : pread(fd, start, sizeof(start), 0);

	if (fd >= 0)
		close(fd);
	return n <= 0 ||
	       ((size_t)n == sizeof(start) && memcmp(start, CAT_MAGIC, sizeof(start)) == 0);
}

int index_replace_check(const struct shoal_index_options *options, bool may_be_empty,
			uint64_t *ret_least, struct shoal_err *err)
{
	struct stat st;

	*ret_least = options->careful && !may_be_empty;
	if (!options->careful || stat(options->output, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	if (!begins_as_catalog(options->output))
		return err_set_hint(err, -EEXIST, SHOAL_HINT_REPLACE,
				    "'%.300s' exists and is not a catalog", options->output);
	*ret_least = u64_max(*ret_least, (open_nr_names(options->output) + 1) / 2);
	return 0;
}

int index_replace_refuse(const struct shoal_index_options *options, uint64_t nr,
			 struct shoal_err *err)
{
	uint64_t was = open_nr_names(options->output);

	return err_set_hint(err, -EEXIST, SHOAL_HINT_REPLACE,
			    "'%.300s' has %" PRIu64 " name%s, and only %" PRIu64
			    " %s found now: it stays as it was",
			    options->output, was, plural(was), nr, nr == 1 ? "was" : "were");
}
