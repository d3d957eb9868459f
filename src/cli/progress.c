#include "cli/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

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
		 "print nothing but errors and the result that was asked for"),
	CLI_FLAG('v', "verbose", offsetof(struct cli_talk, verbose),
		 "also report what is good, the time and the memory that it took"),
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

void cli_progress_start_beside(struct cli_progress *p, const char *command)
{
	cli_progress_start(p, command, cli_talk.style != CLI_AUTO || !isatty(STDOUT_FILENO));
}

bool cli_progress_is_due(const struct cli_progress *p)
{
	double wait = p->terminal ? TERMINAL_SECONDS : p->json ? JSON_SECONDS : LOG_SECONDS;

	return !p->silent && clock_seconds() - p->shown >= wait;
}

void cli_progress_put(struct cli_progress *p, const char *line)
{
	size_t columns = cli_columns(STDERR_FILENO);

	p->shown = clock_seconds();
	p->dirty = true;
	if (p->terminal)
		fprintf(stderr, "\r\033[K%.*s", (int)columns - 1, line);
	else
		fprintf(stderr, "%s\n", line);
}

static void progress_put_json(void *self, const void *bytes, size_t len)
{
	fwrite(bytes, 1, len, self);
}

/* One line, written at once. */
static void show_json(const struct cli_progress *p, const struct cli_step *now, double left)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct json j = { .put = progress_put_json, .self = out };

	if (!out)
		return;
	json_open_object(&j, NULL);
	json_string(&j, "progress", p->command);
	json_string(&j, "what", now->what);
	json_u64(&j, "done", now->done);
	if (now->total)
		json_u64(&j, "total", now->total);
	if (now->bytes)
		json_u64(&j, "bytes", now->bytes);
	json_real(&j, "seconds", clock_seconds() - p->start, 6);
	if (left >= 0)
		json_real(&j, "eta_seconds", left, 6);
	json_close_object(&j);
	if (fclose(out) == 0)
		fwrite(text, 1, len, stderr);
	free(text);
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

void cli_progress_show(struct cli_progress *p, const struct cli_step *now)
{
	double t = clock_seconds(), since = t - p->shown, left = -1, rate;
	char line[512];
	size_t len;

	if (!p->begun) { /* what was done before, for example by an interrupted command, does not
			    count in the rate */
		p->begun = true;
		p->first = t;
		p->nr_first = p->nr_shown = now->done;
		p->bytes_shown = now->bytes;
	}
	if (!cli_progress_is_due(p))
		return;
	if (now->total && now->done > p->nr_first)
		left = (double)(now->total - u64_min(now->done, now->total)) * (t - p->first) /
		       (double)(now->done - p->nr_first);
	else if (now->share > 0)
		left = now->left > 0 ? now->left : 0;
	if (p->json) {
		show_json(p, now, left);
		p->shown = t;
		return;
	}
	rate = (double)(now->done - u64_min(now->done, p->nr_shown)) / since;
	put_head(line, sizeof(line), p, now, left);
	len = strlen(line);
	if (now->total)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "%" PRIu64 " of ",
					now->done);
	len += (size_t)snprintf(
		line + len, sizeof(line) - len,
		rate < 1e6 ? "%" PRIu64 " %s, %.0f/s" : "%" PRIu64 " %s, %.2f million/s",
		now->total ? now->total : now->done, now->what, rate < 1e6 ? rate : rate * 1e-6);
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

/* The resident memory of this process, in bytes; 0 if the system does not report it. */
static uint64_t resident_bytes(void)
{
	unsigned long long all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%llu %llu", &all, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void cli_progress_show_index(struct cli_progress *p, const struct shoal_index_progress *now,
			     uint64_t total)
{
	const char *slash = strrchr(now->where, '/');
	char more[256];
	int len;

	if (p->begun && !cli_progress_is_due(p))
		return;
	len = snprintf(more, sizeof(more), "%s of memory%s", size_in_words(resident_bytes()).text,
		       slash ? ", " : "");
	/* The folder of the name listed last, in plain ASCII. */
	for (const char *c = now->where; slash && c < slash && len + 1 < (int)sizeof(more); c++)
		more[len++] = *c >= 0x20 && *c < 0x7f ? *c : '?';
	more[len] = '\0';
	cli_progress_show(p, &(struct cli_step){ .what = now->sealing ? "names sealed" : "names",
						 .done = now->nr_names,
						 .total = now->sealing ? 0 : total,
						 .more = more });
}

void cli_progress_clear(struct cli_progress *p)
{
	if (p->terminal && p->dirty)
		fputs("\r\033[K", stderr);
	p->dirty = false;
}
