/* Names of files: arithmetic on their numbers. */
#include <inttypes.h>
#include <stdio.h>

#include "workload/workload.h"

static const struct workload_subfolders *folders_of(const struct workload *w, bool valid)
{
	return valid ? &w->dataset.subfolders_eval : &w->dataset.subfolders_train;
}

/* The N of "_of_N": the size of the whole dataset, even if a run uses part of it. */
static uint64_t named_total(const struct workload *w, bool valid)
{
	if (!valid && w->dataset.nr_files_generated)
		return w->dataset.nr_files_generated;
	return workload_nr_files(w, valid);
}

static int digits(uint64_t v)
{
	int n = 1;

	while (v >= 10) {
		v /= 10;
		n++;
	}
	return n;
}

int workload_folder_name(const struct workload *w, bool valid, uint64_t leaf, char *buf, size_t cap)
{
	const struct workload_subfolders *f = folders_of(w, valid);
	uint64_t weight = f->nr;
	int n;
	size_t at;

	if (leaf >= f->nr)
		return -ERANGE;
	n = snprintf(buf, cap, "%s", valid ? "valid" : "train");
	at = n > 0 ? (size_t)n : 0;
	for (unsigned i = 0; i < f->nr_levels && at < cap; i++) {
		weight /= f->fanout[i];
		n = snprintf(buf + at, cap - at, "/%0*" PRIu64, digits(f->fanout[i]),
			     leaf / weight % f->fanout[i]);
		at += n > 0 ? (size_t)n : 0;
	}
	return at < cap ? (int)at : -ERANGE;
}

int workload_file_name(const struct workload *w, bool valid, uint64_t id, char *buf, size_t cap)
{
	const struct workload_subfolders *f = folders_of(w, valid);
	uint64_t total = named_total(w, valid);
	int len, n;

	if (id >= workload_nr_files(w, valid))
		return -ERANGE;
	len = workload_folder_name(w, valid, id % f->nr, buf, cap);
	if (len < 0)
		return len;
	n = snprintf(buf + len, cap - (size_t)len, "/%s_%0*" PRIu64 "_of_%" PRIu64 ".%s",
		     w->dataset.file_prefix, digits(total), id, total,
		     workload_format_name(w->dataset.format));
	return n > 0 && (size_t)n < cap - (size_t)len ? len + n : -ERANGE;
}

/* Copy the prefix with its braces doubled: in a pattern a brace starts the number. */
static size_t quote(char *to, size_t cap, const char *from)
{
	size_t n = 0;

	for (; *from; from++)
		for (int i = 0; i < (*from == '{' || *from == '}' ? 2 : 1); i++, n++)
			if (n + 1 < cap)
				to[n] = *from;
	to[u64_min(n, cap - 1)] = '\0';
	return n;
}

int workload_file_pattern(const struct workload *w, bool valid, char *buf, size_t cap)
{
	uint64_t total = named_total(w, valid);
	char prefix[2 * WORKLOAD_NAME_MAX];
	int n;

	if (quote(prefix, sizeof(prefix), w->dataset.file_prefix) >= sizeof(prefix))
		return -ERANGE;
	n = snprintf(buf, cap, "%s/%s_{:0%dd}_of_%" PRIu64 ".%s", valid ? "valid" : "train", prefix,
		     digits(total), total, workload_format_name(w->dataset.format));
	return n > 0 && (size_t)n < cap ? 0 : -ERANGE;
}

/*
 * Folders sort by number, because all names of a level have the same number of digits; so do the
 * files in a folder. The first @more folders have one file more than the others.
 */
int workload_file_at(const struct workload *w, bool valid, uint64_t position, uint64_t *ret_id)
{
	uint64_t nr = workload_nr_files(w, valid), folders = folders_of(w, valid)->nr;
	uint64_t each = nr / folders, more = nr % folders, in_larger = more * (each + 1);
	uint64_t leaf, index;

	if (position >= nr)
		return -ERANGE;
	if (position < in_larger) {
		leaf = position / (each + 1);
		index = position % (each + 1);
	} else {
		leaf = more + (position - in_larger) / each;
		index = (position - in_larger) % each;
	}
	*ret_id = index * folders + leaf;
	return 0;
}
