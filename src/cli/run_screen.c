#include "cli/run_screen.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

#define TERMINAL_SECONDS 0.2
#define PIPE_SECONDS     5.0

/* A step that waits longer than this for its batch is shown. */
#define SLOW_SECONDS 1.0

void run_screen_start(struct run_screen *s, bool quiet)
{
	*s = (struct run_screen){ .terminal = isatty(STDERR_FILENO), .quiet = quiet };
	cli_progress_start(&s->index);
	s->shown = s->index.start;
}

void run_screen_clear(struct run_screen *s)
{
	cli_progress_clear(&s->index);
	if (s->terminal && s->dirty)
		fputs("\r\033[K", stderr);
	s->dirty = false;
}

void run_screen_say(struct run_screen *s, const char *words)
{
	run_screen_clear(s);
	if (s->quiet)
		return;
	fputs("run: ", stderr);
	cli_put_plain(stderr, words, strlen(words));
	fputc('\n', stderr);
}

static void put_left(char *buf, size_t cap, double seconds)
{
	uint64_t s = seconds > 0 && isfinite(seconds) ? (uint64_t)(seconds + 0.5) : 0;

	snprintf(buf, cap, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
}

static size_t run_screen_columns(void)
{
	struct winsize w;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20 ? w.ws_col : 80;
}

void run_screen_show(struct run_screen *s, const struct run_progress *p)
{
	bool other = p->epoch != s->epoch || p->eval != s->eval;
	double now = clock_seconds();
	char line[512], left[32], au[32];
	size_t room, len;

	if (s->quiet || now - s->shown < (s->terminal ? TERMINAL_SECONDS : PIPE_SECONDS))
		return;
	if (s->terminal && s->dirty && other)
		fputc('\n', stderr); /* the last line of an epoch stays */
	s->shown = now;
	s->epoch = p->epoch;
	s->eval = p->eval;
	put_left(left, sizeof(left), p->seconds_left);
	snprintf(au, sizeof(au), isnan(p->au) ? "-" : "%.1f %%", p->au);
	snprintf(line, sizeof(line),
		 "epoch %" PRIu64 "/%" PRIu64 "%s step %" PRIu64 "/%" PRIu64
		 ", AU %s, %.0f samples/s, %.1f MB/s, wait %.1f %%, ETA %s",
		 p->epoch, p->nr_epochs, p->eval ? " eval" : "", p->step, p->steps, au,
		 p->samples_per_second, p->bytes_per_second * 1e-6, 100.0 * p->wait_share, left);
	len = strlen(line);
	if (p->slowest_seconds > SLOW_SECONDS)
		snprintf(line + len, sizeof(line) - len, "; rank %" PRIu64 " waited %.1f s",
			 p->slowest_rank, p->slowest_seconds);
	if (!s->terminal) {
		fprintf(stderr, "%s\n", line);
		return;
	}
	room = (size_t)u64_min(sizeof(line), run_screen_columns());
	line[room - 1] = '\0';
	fprintf(stderr, "\r\033[K%s", line);
	s->dirty = true;
}
