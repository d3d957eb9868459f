#include "base/cores.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t resident_bytes(void)
{
	unsigned long long all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%llu %llu", &all, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- Control groups ---- */

/* The first numbers of a file; "max" is -1. Returns how many there are. */
static unsigned read_numbers(const char *path, long long number[2])
{
	char words[2][24] = { "", "" };
	FILE *f = fopen(path, "re");
	int nr = f ? fscanf(f, "%23s %23s", words[0], words[1]) : 0;

	if (f)
		fclose(f);
	for (int i = 0; i < nr; i++)
		number[i] = strcmp(words[i], "max") == 0 ? -1 : strtoll(words[i], NULL, 10);
	return nr > 0 ? (unsigned)nr : 0;
}

static unsigned cores_of(long long quota, long long period)
{
	if (quota <= 0 || period <= 0)
		return UINT_MAX;
	return (unsigned)u64_min(u64_divide_up((uint64_t)quota, (uint64_t)period), UINT_MAX);
}

/* The limit of one group: cpu.max, or in the older hierarchy two files. */
static unsigned quota_of_group(const char *group, bool old)
{
	char path[PATH_MAX];
	long long number[2], period[2];

	if (!old) {
		if (snprintf(path, sizeof(path), "%s/cpu.max", group) >= (int)sizeof(path) ||
		    read_numbers(path, number) < 2)
			return UINT_MAX;
		return cores_of(number[0], number[1]);
	}
	if (snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", group) >= (int)sizeof(path) ||
	    read_numbers(path, number) < 1)
		return UINT_MAX;
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", group);
	return read_numbers(path, period) < 1 ? UINT_MAX : cores_of(number[0], period[0]);
}

/* The least limit of a group and all that contain it. In a container, its own group may be mounted
 * in place of the root; the path is not found below that, and its end is ignored. */
static unsigned quota_of_path(const char *mount, const char *group, bool old)
{
	unsigned least = quota_of_group(mount, old);
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s%s", mount, group) >= (int)sizeof(path))
		return least;
	while (strlen(path) > strlen(mount)) {
		least = (unsigned)u64_min(least, quota_of_group(path, old));
		*strrchr(path, '/') = '\0';
	}
	return least;
}

/* Whether the list of controllers, up to the colon, contains "cpu". */
static bool has_cpu(const char *list)
{
	for (; *list != ':' && *list; list += *list == ',') {
		size_t len = strcspn(list, ",:");

		if (len == 3 && memcmp(list, "cpu", 3) == 0)
			return true;
		list += len;
	}
	return false;
}

/* Lines of "7:cpu,cpuacct:/a/b", and for the unified hierarchy "0::/a/b". */
unsigned cores_quota(const char *groups, const char *root)
{
	unsigned least = UINT_MAX;
	char group[PATH_MAX], mount[PATH_MAX];

	for (const char *line = groups; line && *line; line = strchr(line, '\n')) {
		const char *list, *path;
		bool old;

		line += *line == '\n';
		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			break;
		old = list[1] != ':';
		if (old && !has_cpu(list + 1))
			continue;
		snprintf(group, sizeof(group), "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
		snprintf(mount, sizeof(mount), "%s%s", root, old ? "/cpu" : "");
		least = (unsigned)u64_min(least, quota_of_path(mount, group, old));
	}
	return least;
}

unsigned cores_allowed(void)
{
	char groups[4096];
	FILE *f = fopen("/proc/self/cgroup", "re");
	size_t len = f ? fread(groups, 1, sizeof(groups) - 1, f) : 0;

	if (f)
		fclose(f);
	groups[len] = '\0';
	return (unsigned)u64_min(cores_available(), cores_quota(groups, "/sys/fs/cgroup"));
}
