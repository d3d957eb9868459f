/* What the files of an interrupted listing are called, and how they are removed. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "base/publish.h"
#include "base/text.h"
#include "index/resume.h"

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *index_resume_path(const char *output, const char *suffix)
{
	const char *base = base_of(output);
	char *name = NULL;

	if (asprintf(&name, "%.*s.%s.%s", (int)(base - output), output, base, suffix) < 0)
		return NULL;
	return name;
}

char *index_resume_path_of(const char *output, const char *suffix, int rank, int nr_ranks)
{
	char with_rank[64];

	if (rank == 0)
		return index_resume_path(output, suffix);
	snprintf(with_rank, sizeof(with_rank), "%s.%d-of-%d", suffix, rank, nr_ranks);
	return index_resume_path(output, with_rank);
}

void index_resume_remove(const char *output, int rank, int nr_ranks)
{
	static const char *const suffixes[] = { "resume", "runs" };

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(suffixes); i++) {
		char *path = index_resume_path_of(output, suffixes[i], rank, nr_ranks);

		if (path)
			unlink(path);
		free(path);
	}
}

/* Of how many ranks a file is that is called @start, which ends in a point, and "RANK-of-RANKS". */
static uint64_t ranks_of(const char *name, const char *start)
{
	static const char digits[] = "0123456789", of[] = "-of-";
	size_t len = strlen(start), nr;
	uint64_t nr_ranks = 0;

	if (strncmp(name, start, len) != 0)
		return 0;
	name += len;
	nr = strspn(name, digits);
	if (nr == 0 || strncmp(name + nr, of, strlen(of)) != 0)
		return 0;
	return shoal_parse_u64(name + nr + strlen(of), &nr_ranks) == 0 ? nr_ranks : 0;
}

void index_resume_sweep(const char *output, int nr_ranks)
{
	char *dir_path = shoal_dir_of(output);
	char *resume = index_resume_path(output, "resume."),
	     *runs = index_resume_path(output, "runs.");
	DIR *dir = dir_path && resume && runs ? opendir(dir_path) : NULL;
	const struct dirent *e;

	while (dir && (e = readdir(dir)) != NULL) {
		uint64_t of =
			ranks_of(e->d_name, base_of(resume)) + ranks_of(e->d_name, base_of(runs));

		if (of > 0 && of != (uint64_t)nr_ranks)
			unlinkat(dirfd(dir), e->d_name, 0);
	}
	if (dir)
		closedir(dir);
	free(dir_path);
	free(resume);
	free(runs);
}

int index_resume_ranks(const char *output)
{
	struct index_checkpoint c = { .root = "", .listing = "" };
	struct shoal_map map = SHOAL_MAP_CLOSED;
	char *path = index_resume_path(output, "resume");
	int nr_ranks = 0;

	if (path && shoal_map_open(path, &map, NULL) == 0 &&
	    index_checkpoint_parse(map.addr, map.len, &c) == 0)
		nr_ranks = (int)c.nr_ranks;
	shoal_map_close(&map);
	free(path);
	return nr_ranks;
}

void index_resume_forget(const char *output)
{
	int nr_ranks = index_resume_ranks(output);

	for (int k = 1; k < nr_ranks; k++)
		index_resume_remove(output, k, nr_ranks);
	index_resume_remove(output, 0, 1);
}
