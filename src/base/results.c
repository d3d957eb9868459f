#include "base/results.h"

#include <string.h>

#include "base/path.h"

/* "series.12", with a number. */
static bool is_numbered(const char *base, size_t len, const char *prefix)
{
	size_t at = strlen(prefix);

	if (len <= at || memcmp(base, prefix, at) != 0)
		return false;
	while (at < len && base[at] >= '0' && base[at] <= '9')
		at++;
	return at == len;
}

/* "0_output.json": a file of each rank. */
static bool is_of_rank(const char *base, size_t len)
{
	static const char *const ends[] = { "_output.json", "_per_epoch_stats.json" };
	size_t digits = 0;

	while (digits < len && base[digits] >= '0' && base[digits] <= '9')
		digits++;
	for (size_t i = 0; digits > 0 && i < ARRAY_LEN(ends); i++)
		if (len - digits == strlen(ends[i]) &&
		    memcmp(base + digits, ends[i], len - digits) == 0)
			return true;
	return false;
}

unsigned results_look(const char *name, size_t len, size_t *ret_folder)
{
	static const struct {
		const char *name;
		unsigned needs;
	} results[] = {
		{ RESULTS_BEGIN, RESULTS_NEEDS_BEGIN },
		{ RESULTS_PLAN, RESULTS_NEEDS_PLAN },
		{ RESULTS_SUMMARY, RESULTS_NEEDS_BEGIN },
		{ RESULTS_READ, RESULTS_NEEDS_BEGIN },
		{ RESULTS_INDEX, RESULTS_NEEDS_BEGIN },
		{ RESULTS_DATAGEN, RESULTS_NEEDS_BEGIN },
		{ RESULTS_SWEEP, RESULTS_NEEDS_PLAN },
		{ RESULTS_CONFIG, RESULTS_NEEDS_BEGIN },
		{ RESULTS_EFFECTIVE, RESULTS_NEEDS_BEGIN },
		{ RESULTS_PAGE, RESULTS_NEEDS_BEGIN | RESULTS_NEEDS_PLAN },
	};
	size_t folder = path_folder_len(name, len);
	const char *base = name + folder;

	*ret_folder = folder;
	len -= folder;
	for (size_t i = 0; i < ARRAY_LEN(results); i++)
		if (len == strlen(results[i].name) && memcmp(base, results[i].name, len) == 0)
			return results[i].needs;
	if (is_numbered(base, len, RESULTS_SERIES) || is_of_rank(base, len))
		return RESULTS_NEEDS_BEGIN;
	if (len <= 5 || memcmp(base + len - 5, ".json", 5) != 0 ||
	    !path_in_folder(name, folder, "jobs"))
		return RESULTS_NONE;
	*ret_folder = path_folder_len(name, folder - 1);
	return RESULTS_NEEDS_PLAN;
}
