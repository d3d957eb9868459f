#include "cli/screen.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/view.h"

/* There is one terminal, whatever is drawn on it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned nr_drawn;
static unsigned width[VIEW_LINES]; /* of each line, in columns */

static unsigned screen_width(const char *line, size_t len)
{
	unsigned nr = 0;

	for (size_t i = 0; i < len; i++)
		nr += ((unsigned char)line[i] & 0xc0) != 0x80;
	return nr;
}

static unsigned screen_columns(void)
{
	struct winsize w = { 0 };

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

/* To the first line: a window that became narrower since has folded what it shows. */
static size_t screen_go_up(char *to, size_t cap)
{
	unsigned rows = 0, columns = screen_columns();

	for (unsigned i = 0; i < nr_drawn; i++)
		rows += width[i] > columns ? (width[i] + columns - 1) / columns : 1;
	nr_drawn = 0;
	if (rows > 1)
		return (size_t)snprintf(to, cap, "\r\033[%uA\033[J", rows - 1);
	return (size_t)snprintf(to, cap, "\r\033[J");
}

void screen_draw(const char *lines)
{
	char out[VIEW_TEXT + 64];
	size_t len, n;

	pthread_mutex_lock(&lock);
	len = screen_go_up(out, sizeof(out));
	for (const char *at = lines; *at && nr_drawn < VIEW_LINES; at += n + (at[n] == '\n')) {
		n = strcspn(at, "\n");
		if (len + n + 1 > sizeof(out))
			break;
		if (nr_drawn > 0)
			out[len++] = '\n';
		memcpy(out + len, at, n);
		len += n;
		width[nr_drawn++] = screen_width(at, n);
	}
	fwrite(out, 1, len, stderr); /* at once: nothing comes between */
	pthread_mutex_unlock(&lock);
}

static void screen_clear_locked(void)
{
	char out[64];
	size_t len;

	if (nr_drawn == 0)
		return;
	len = screen_go_up(out, sizeof(out));
	fwrite(out, 1, len, stderr);
}

void screen_clear(void)
{
	pthread_mutex_lock(&lock);
	screen_clear_locked();
	pthread_mutex_unlock(&lock);
}

void screen_print(char *text)
{
	if (isatty(STDERR_FILENO))
		cli_fold(text, cli_columns(STDERR_FILENO));
	pthread_mutex_lock(&lock);
	screen_clear_locked();
	fwrite(text, 1, strlen(text), stderr);
	pthread_mutex_unlock(&lock);
}
