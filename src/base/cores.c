#include "base/cores.h"

#include <stdio.h>
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
