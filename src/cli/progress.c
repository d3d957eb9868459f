#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

#define TERMINAL_SECONDS 0.2
#define PIPE_SECONDS     5.0

void cli_progress_start(struct cli_progress *p)
{
	double now = clock_seconds();

	*p = (struct cli_progress){ .start = now, .shown = now, .terminal = isatty(STDERR_FILENO) };
}

/* The resident memory of this process, in megabytes; 0 if the system does not report it. */
static uint64_t resident_mb(void)
{
	unsigned long long all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%llu %llu", &all, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
}

static size_t progress_columns(void)
{
	struct winsize w;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20 ? w.ws_col : 80;
}

/* The folder of the name listed last, as much of its end as there is room for, in plain ASCII. */
static void put_where(char *line, size_t room, const char *where)
{
	const char *slash = strrchr(where, '/');
	size_t len = slash ? (size_t)(slash - where) : 0, used = strlen(line);
	const char *from = where;

	if (len == 0 || room < used + 20)
		return;
	if (len > room - used - 3) {
		from += len - (room - used - 3);
		len = room - used - 3;
	}
	line[used++] = ',';
	line[used++] = ' ';
	for (size_t i = 0; i < len; i++)
		line[used++] = from[i] >= 0x20 && from[i] < 0x7f ? from[i] : '?';
	line[used] = '\0';
}

void cli_progress_show(struct cli_progress *p, const struct shoal_index_progress *now)
{
	char line[512];
	size_t room = (size_t)u64_min(sizeof(line), progress_columns());
	double t = clock_seconds(), rate;

	if (t - p->shown < (p->terminal ? TERMINAL_SECONDS : PIPE_SECONDS))
		return;
	rate = (double)(now->nr_names - u64_min(now->nr_names, p->nr_shown)) / (t - p->shown);
	p->shown = t;
	p->nr_shown = now->nr_names;
	p->dirty = true;
	snprintf(line, sizeof(line),
		 rate < 1e5 ? "%" PRIu64 " name%s%s, %.0f/s, %" PRIu64 " MB"
			    : "%" PRIu64 " name%s%s, %.2f million/s, %" PRIu64 " MB",
		 now->nr_names, plural(now->nr_names), now->sealing ? " sealed" : "",
		 rate < 1e5 ? rate : rate * 1e-6, resident_mb());
	if (p->terminal) {
		line[room - 1] = '\0';
		put_where(line, room, now->where);
		fprintf(stderr, "\r\033[K%s", line);
	} else {
		put_where(line, sizeof(line), now->where);
		fprintf(stderr, "%s\n", line);
	}
}

void cli_progress_clear(struct cli_progress *p)
{
	if (p->terminal && p->dirty)
		fputs("\r\033[K", stderr);
	p->dirty = false;
}
