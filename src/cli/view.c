#include "cli/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/screen.h"

enum {
	PIECES = 10,
	PIECE_BYTES = 200,
	BAR_MAX = 40,
};

/* Without a step or a name for so long is worth a word. */
#define IDLE_SECONDS 2.0

/* ---- Pieces of text ---- */

struct pieces {
	char text[PIECES][PIECE_BYTES];
	unsigned nr;
};

static void view_piece(struct pieces *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void view_piece(struct pieces *p, const char *fmt, ...)
{
	va_list args;

	if (p->nr == PIECES)
		return;
	va_start(args, fmt);
	vsnprintf(p->text[p->nr++], PIECE_BYTES, fmt, args);
	va_end(args);
}

static void view_facts(struct pieces *p, const struct live_now *n, const char *more)
{
	const char *what = n->what ? n->what : "samples";
	struct number_words rate = rate_in_words(n->samples_per_second);

	if (n->nr_epochs > 0)
		view_piece(p, "epoch %" PRIu64 "/%" PRIu64 "%s, step %" PRIu64 "/%" PRIu64,
			   n->epoch, n->nr_epochs, n->eval ? " (evaluation)" : "", n->step,
			   n->nr_steps);
	else if (n->total > 0)
		view_piece(p, "%s of %s %s", count_in_words(n->done).text,
			   count_in_words(n->total).text, what);
	else
		view_piece(p, "%s %s", count_in_words(n->done).text, what);
	view_piece(p, n->nr_epochs > 0 ? "%s samples/s" : "%s/s", rate.text);
	if (n->bytes_per_second > 0)
		view_piece(p, "%.1f MB/s", n->bytes_per_second * 1e-6);
	if (!isnan(n->au))
		view_piece(p, "AU %.1f %%", n->au);
	else if (n->nr_epochs > 0)
		view_piece(p, "AU -"); /* no step counts yet */
	if (n->slowest_seconds >= 0.0005)
		view_piece(p, "rank %" PRIu64 " waited longest: %.3g s", n->slowest_rank,
			   n->slowest_seconds);
	if (n->idle >= IDLE_SECONDS)
		view_piece(p, "nothing for %.0f s", n->idle);
	if (more && *more)
		view_piece(p, "%s", more);
}

/* ---- Lines ---- */

struct view_lines {
	char *to;
	size_t len, cap;
	unsigned nr, rows, columns, at; /* at: columns of the current line */
};

static void lines_end(struct view_lines *l)
{
	if (l->at == 0 || l->nr == l->rows)
		return;
	l->to[l->len++] = '\n';
	l->nr++;
	l->at = 0;
}

/* Append text of @width columns, behind a separator; on a new line if it does not fit. What is
 * wider than a line is cut, if it is plain. */
static void lines_add(struct view_lines *l, const char *text, size_t len, unsigned width)
{
	unsigned gap = l->at > 0 ? 2 : 0;

	if (l->at > 0 && l->at + gap + width > l->columns) {
		lines_end(l);
		gap = 0;
	}
	if (l->nr == l->rows || l->len + len + 8 > l->cap)
		return;
	if (width > l->columns) {
		if (len != width)
			return;
		len = width = l->columns;
	}
	memcpy(l->to + l->len, "  ", gap);
	memcpy(l->to + l->len + gap, text, len);
	l->len += gap + len;
	l->at += gap + width;
}

static void lines_add_text(struct view_lines *l, const char *text)
{
	lines_add(l, text, strlen(text), (unsigned)strlen(text));
}

static void lines_add_head(struct view_lines *l, const struct live_now *n)
{
	uint64_t s = n->seconds_left >= 0 && n->seconds_left < 1e9
			     ? (uint64_t)(n->seconds_left + 0.5)
			     : UINT64_MAX;
	char text[64], bar[BAR_MAX + 3] = "";
	unsigned width = l->columns / 4 < BAR_MAX ? l->columns / 4 : BAR_MAX;

	if (s != UINT64_MAX) {
		snprintf(text, sizeof(text), "ETA %" PRIu64 ":%02u:%02u", s / 3600,
			 (unsigned)(s / 60 % 60), (unsigned)(s % 60));
		lines_add_text(l, text);
	}
	if (!(n->share >= 0))
		return;
	snprintf(text, sizeof(text), "%.1f %%", 100 * fmin(n->share, 1));
	lines_add_text(l, text);
	bar[0] = '[';
	for (unsigned i = 0; i < width; i++)
		bar[1 + i] = i < (unsigned)(fmin(n->share, 1) * width + 0.5) ? '#' : '.';
	bar[1 + width] = ']';
	lines_add(l, bar, width + 2, width + 2);
}

/* The rates of the last minute: the heights are shares of the highest. */
static void lines_add_sparkline(struct view_lines *l, const struct cli_view *v, bool utf8)
{
	static const char *const bars[] = { " ",      "\u2581", "\u2582", "\u2583", "\u2584",
					    "\u2585", "\u2586", "\u2587", "\u2588" };
	static const char plain[] = " .:-=+*#@";
	unsigned room = l->columns > 30 ? l->columns - 26 : 0;
	unsigned nr = v->nr_history < room ? v->nr_history : room;
	char text[4 * VIEW_HISTORY + 64];
	const double *rate = v->history + v->nr_history - nr;
	double top = 0;
	size_t len = 0;

	for (unsigned i = 0; i < nr; i++)
		top = fmax(top, rate[i]);
	if (nr < 2 || top <= 0)
		return;
	for (unsigned i = 0; i < nr; i++) {
		unsigned h = (unsigned)(rate[i] / top * 8 + 0.5);

		if (utf8)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s", bars[h]);
		else
			text[len++] = plain[h];
	}
	snprintf(text + len, sizeof(text) - len, " %s/s at most", rate_in_words(top).text);
	lines_end(l);
	lines_add(l, text, len + strlen(text + len), nr + (unsigned)strlen(text + len));
}

unsigned cli_view_text(const struct cli_view *v, const struct live_now *now, const char *more,
		       unsigned columns, unsigned rows, bool utf8, char *to, size_t cap)
{
	struct view_lines l = { .to = to,
				.cap = cap,
				.rows = rows < VIEW_LINES ? rows : VIEW_LINES,
				.columns = columns };
	struct pieces p = { .nr = 0 };

	lines_add_head(&l, now);
	view_facts(&p, now, more);
	for (unsigned i = 0; i < p.nr; i++)
		lines_add_text(&l, p.text[i]);
	if (l.rows > 1)
		lines_add_sparkline(&l, v, utf8);
	lines_end(&l);
	l.to[l.len] = '\0';
	return l.nr;
}

/* ---- The terminal ---- */

static unsigned view_size(unsigned *ret_rows)
{
	struct winsize w = { 0 };

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col == 0)
		w.ws_col = 80;
	*ret_rows = w.ws_row == 0 ? VIEW_LINES : w.ws_row > 1 ? w.ws_row - 1u : 1;
	return w.ws_col;
}

static bool view_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strstr(value, "UTF-8") || strstr(value, "utf8");
	}
	return false;
}

void cli_view_draw(const struct cli_view *v, const struct live_now *now, const char *more)
{
	char text[VIEW_TEXT];
	unsigned rows, columns = view_size(&rows);

	cli_view_text(v, now, more, columns > 1 ? columns - 1 : 1, rows, view_utf8(), text,
		      sizeof(text));
	screen_draw(text);
}

void cli_view_note(struct cli_view *v, double seconds, uint64_t done)
{
	double since = seconds - v->sampled;

	if (v->sampled <= 0 || done < v->done) { /* it begins, or another part of it does */
		v->sampled = seconds;
		v->done = done;
		return;
	}
	if (since < 1)
		return;
	if (v->nr_history == VIEW_HISTORY) {
		memmove(v->history, v->history + 1, (VIEW_HISTORY - 1) * sizeof(double));
		v->nr_history--;
	}
	v->history[v->nr_history++] = (double)(done - v->done) / since;
	v->sampled = seconds;
	v->done = done;
}
