#include "cli/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/screen.h"

#define TERMINAL_SECONDS 0.2
#define JSON_SECONDS     1.0
#define LOG_SECONDS      5.0

/* A terminal of at least this width has room for a bar. */
#define BAR_COLUMNS 100u
#define BAR_LEN     20

struct cli_talk cli_talk;

static const char *const styles[] = { "auto", "plain", "json", "none", NULL };

const struct cli_option cli_talk_options[] = {
	CLI_FLAG('q', "quiet", offsetof(struct cli_talk, quiet),
		 "print nothing but errors and the requested result"),
	CLI_FLAG('v', "verbose", offsetof(struct cli_talk, verbose),
		 "also report the time and the memory that it took"),
	CLI_WORD("progress", "STYLE", offsetof(struct cli_talk, style), styles,
		 "auto (default): a line that changes on a terminal, otherwise a line every 5 "
		 "seconds; plain: lines; json: a document per second on standard error; none"),
	CLI_END,
};

static bool is_terminal(void)
{
	const char *term = getenv("TERM");

	return cli_talk.style == CLI_AUTO && isatty(STDERR_FILENO) &&
	       !(term && strcmp(term, "dumb") == 0);
}

void cli_progress_start(struct cli_progress *p, const char *command, bool speaks)
{
	double now = clock_seconds();

	*p = (struct cli_progress){ .command = command,
				    .silent = cli_talk.quiet || cli_talk.style == CLI_SILENT ||
					      !speaks,
				    .terminal = is_terminal(),
				    .json = cli_talk.style == CLI_AS_JSON,
				    .start = now,
				    .shown = now };
}

void cli_progress_start_view(struct cli_progress *p, const char *command, bool speaks,
			     struct cli_listen *listen)
{
	cli_progress_start(p, command, speaks);
	p->viewed = p->terminal;
	p->listen = speaks ? listen : NULL;
}

void cli_progress_start_beside(struct cli_progress *p, const char *command)
{
	cli_progress_start(p, command, cli_talk.style != CLI_AUTO || !isatty(STDOUT_FILENO));
}

bool cli_progress_is_due(const struct cli_progress *p)
{
	double wait = p->terminal ? TERMINAL_SECONDS : p->json ? JSON_SECONDS : LOG_SECONDS;

	return !p->silent && clock_seconds() - p->shown >= wait;
}

bool cli_progress_live(struct cli_progress *p, const struct live_now *now, const char *more)
{
	cli_listen_show(p->listen, now);
	if (!p->viewed || !cli_progress_is_due(p))
		return p->viewed;
	p->shown = clock_seconds();
	cli_view_draw(&p->view, now, more);
	return true;
}

void cli_progress_put(struct cli_progress *p, const char *line)
{
	size_t columns = cli_columns(STDERR_FILENO);
	char text[512];

	p->shown = clock_seconds();
	if (p->terminal) {
		snprintf(text, u64_min(columns, sizeof(text)), "%s", line);
		screen_draw(text);
	} else {
		fprintf(stderr, "%s\n", line);
	}
}

static void show_json(const struct cli_progress *p, const struct cli_step *now, double left)
{
	struct cli_json_line l;

	if (!cli_json_line_open(&l))
		return;
	json_string(&l.json, "progress", p->command);
	json_string(&l.json, "what", now->what);
	json_u64(&l.json, "done", now->done);
	if (now->total)
		json_u64(&l.json, "total", now->total);
	if (now->bytes)
		json_u64(&l.json, "bytes", now->bytes);
	json_real(&l.json, "seconds", clock_seconds() - p->start, 6);
	if (left >= 0)
		json_real(&l.json, "eta_seconds", left, 6);
	cli_json_line_close(&l);
}

/* The most useful parts come first, because the end of a line is truncated. */
static void put_head(char *line, size_t cap, const struct cli_progress *p,
		     const struct cli_step *now, double left)
{
	uint64_t s = (uint64_t)(left >= 0 && left < 1e9 ? left + 0.5 : clock_seconds() - p->start);
	double share = now->total ? (double)now->done / (double)now->total : now->share;
	char bar[BAR_LEN + 1] = "";

	if (!now->total && now->share <= 0) {
		*line = '\0';
		return;
	}
	if (p->terminal && cli_columns(STDERR_FILENO) >= BAR_COLUMNS)
		for (int i = 0; i < BAR_LEN; i++)
			bar[i] = i < (int)(share * BAR_LEN) ? '#' : '.';
	if (left >= 0 && left < 1e9)
		snprintf(line, cap, "ETA %" PRIu64 ":%02u:%02u, %.1f %%%s%s, ", s / 3600,
			 (unsigned)(s / 60 % 60), (unsigned)(s % 60), 100 * share, *bar ? " " : "",
			 bar);
	else
		snprintf(line, cap, "%.1f %%%s%s, ", 100 * share, *bar ? " " : "", bar);
}

/* The seconds that are left; negative: unknown. */
static double progress_left(const struct cli_progress *p, const struct cli_step *now, double t)
{
	if (now->total && now->done > p->nr_first)
		return (double)(now->total - u64_min(now->done, now->total)) * (t - p->first) /
		       (double)(now->done - p->nr_first);
	if (now->share > 0)
		return now->left > 0 ? now->left : 0;
	return -1;
}

/* A line, on a terminal or in a log. */
static void progress_line(struct cli_progress *p, const struct cli_step *now, double left,
			  double since)
{
	double rate = (double)(now->done - u64_min(now->done, p->nr_shown)) / since;
	char line[512];
	size_t len;

	put_head(line, sizeof(line), p, now, left);
	len = strlen(line);
	if (now->total)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "%s of ",
					count_in_words(now->done).text);
	len += (size_t)snprintf(line + len, sizeof(line) - len, "%s %s, %s/s",
				count_in_words(now->total ? now->total : now->done).text, now->what,
				rate_in_words(rate).text);
	if (now->bytes)
		len += (size_t)snprintf(line + len, sizeof(line) - len, ", %.1f MB/s",
					(double)(now->bytes - u64_min(now->bytes, p->bytes_shown)) *
						1e-6 / since);
	if (now->more)
		snprintf(line + len, sizeof(line) - len, ", %s", now->more);
	p->nr_shown = now->done;
	p->bytes_shown = now->bytes;
	cli_progress_put(p, line);
}

/* The view, and who listens. The rates are those of the last second, or of all until then. */
static bool progress_live(struct cli_progress *p, const struct cli_step *now, double left, double t)
{
	const struct cli_view *v = &p->view;
	struct live_now n = { .what = now->what,
			      .done = now->done,
			      .total = now->total,
			      .seconds_left = left < 0 ? (double)NAN : left,
			      .share = now->total       ? (double)now->done / (double)now->total
				       : now->share > 0 ? now->share
							: (double)NAN,
			      .au = (double)NAN };
	double all = t - p->first;

	if (t - p->told < TERMINAL_SECONDS)
		return p->viewed;
	p->told = t;
	if (now->done != p->nr_told || p->same <= 0)
		p->same = t;
	p->nr_told = now->done;
	n.idle = t - p->same;
	cli_view_note(&p->view, t, now->done);
	n.samples_per_second = v->nr_history ? v->history[v->nr_history - 1]
			       : all > 0     ? (double)(now->done - p->nr_first) / all
					     : 0;
	if (now->done > p->nr_first)
		n.bytes_per_second = n.samples_per_second * (double)now->bytes /
				     (double)(now->done - p->nr_first);
	return cli_progress_live(p, &n, now->more);
}

void cli_progress_show(struct cli_progress *p, const struct cli_step *now)
{
	double t = clock_seconds(), since = t - p->shown, left;

	/* What was done before, as by a resumed command, tells no rate; nor does another phase. */
	if (!p->what || strcmp(p->what, now->what) != 0) {
		p->what = now->what;
		p->first = t;
		p->nr_first = p->nr_shown = now->done;
		p->bytes_shown = now->bytes;
	}
	left = progress_left(p, now, t);
	if ((p->viewed || p->listen) && progress_live(p, now, left, t))
		return;
	if (!cli_progress_is_due(p))
		return;
	if (!p->json) {
		progress_line(p, now, left, since);
		return;
	}
	show_json(p, now, left);
	p->shown = t;
}

void cli_progress_show_index(struct cli_progress *p, const struct shoal_index_progress *now,
			     uint64_t total)
{
	const char *slash = strrchr(now->where, '/'),
		   *what = now->sealing ? "names sealed" : "names";
	char more[256];
	int len;

	if (p->what && strcmp(p->what, what) == 0 && !p->listen && !cli_progress_is_due(p))
		return;
	len = snprintf(more, sizeof(more), "%s of memory%s", size_in_words(resident_bytes()).text,
		       slash ? ", " : "");
	/* The folder of the name listed last, in plain ASCII. */
	for (const char *c = now->where; slash && c < slash && len + 1 < (int)sizeof(more); c++)
		more[len++] = *c >= 0x20 && *c < 0x7f ? *c : '?';
	more[len] = '\0';
	if (now->sealing || now->nr_all > 0)
		total = now->nr_all ? u64_max(now->nr_all, now->nr_names) : 0;
	cli_progress_show(
		p, &(struct cli_step){
			   .what = what, .done = now->nr_names, .total = total, .more = more });
}

void cli_progress_clear(const struct cli_progress *p)
{
	if (p->terminal)
		screen_clear();
}
