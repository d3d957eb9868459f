/* The help of a command, as text that fits the terminal. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"

#define COLUMNS_DEFAULT 80u
/* Longer lines are hard to read. */
#define COLUMNS_MAX 100u
#define COLUMNS_MIN 40u

#define TABLE_BYTES_MAX (1u << 20)

/*
 * The column where explanations of options begin, at most: a longer option is on a line of its own.
 */
#define HELP_COLUMN_MAX(columns) ((columns) < 80 ? (columns)*3 / 8 : 28)

size_t cli_columns(int fd)
{
	struct winsize w;
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
		fd = STDERR_FILENO;
	return ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20 ? w.ws_col : COLUMNS_DEFAULT;
}

bool cli_wants_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

/* The columns that @len bytes of text take: escapes for colours take none, a character of UTF-8
 * one. */
static size_t text_columns(const char *text, size_t len)
{
	size_t nr = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\033')
			i += strcspn(text + i, "m");
		else
			nr += ((unsigned char)text[i] & 0xc0) != 0x80;
	}
	return nr;
}

/* The bytes that take the first @columns of a text; @len if it has fewer. */
static size_t bytes_of_columns(const char *text, size_t len, size_t columns)
{
	size_t n = 0;

	while (n < len && text_columns(text, n) < columns)
		n += text[n] == '\033' ? strcspn(text + n, "m") + 1 : 1;
	return n;
}

/* Whether the word of @len bytes belongs to the number before it: a percent sign, bytes, a time. */
static bool is_unit(const char *word, size_t len)
{
	static const char *const units[] = { "%", "KB", "MB", "GB", "TB", "PB", "us", "ms", "s" };

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		size_t n = strlen(units[i]);

		if (len >= n && strncmp(word, units[i], n) == 0 &&
		    (len == n || !isalpha((unsigned char)word[n])))
			return true;
	}
	return false;
}

/* The bytes up to the next place where a line may end. */
static size_t word_len(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && (text[n] != ' ' || (n > 0 && is_unit(text + n + 1, len - n - 1))))
		n++;
	return n;
}

/* One paragraph of @len bytes, in lines of up to @columns; the cursor is at column @at, and
 * further lines begin at column @indent. */
static void put_paragraph(FILE *out, const char *text, size_t len, size_t at, size_t indent,
			  size_t columns)
{
	bool first = true;

	for (size_t i = 0, n; i < len; i += n) {
		n = word_len(text + i, len - i);
		if (n == 0) {
			n = 1;
			continue;
		}
		if (!first && at + 1 + text_columns(text + i, n) >= columns) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
			first = true;
		}
		fprintf(out, "%s%.*s", first ? "" : " ", (int)n, text + i);
		at += text_columns(text + i, n) + !first;
		first = false;
	}
	fputc('\n', out);
}

void cli_fold(char *text, size_t columns)
{
	char *gap = NULL; /* the space before the word */

	for (size_t at = 0, n; *text; text += *text != '\0') {
		size_t width;

		n = word_len(text, strcspn(text, "\n"));
		width = text_columns(text, n);
		if (gap && at + 1 + width >= columns) {
			*gap = '\n';
			at = width;
		} else {
			at += (gap != NULL) + width;
		}
		text += n;
		gap = *text == ' ' ? text : NULL;
		at = *text == '\n' ? 0 : at;
	}
}

static void put_paragraphs(FILE *out, const char *text, size_t columns)
{
	for (; text && *text; text += strcspn(text, "\n"), text += *text == '\n')
		put_paragraph(out, text, strcspn(text, "\n"), 0, 0, columns);
}

void cli_put_lines(FILE *out, const char *text, size_t indent)
{
	size_t columns = isatty(fileno(out)) ? cli_columns(fileno(out)) : SIZE_MAX;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		size_t len = strcspn(text, "\n"), head = bytes_of_columns(text, len, indent);

		if (text_columns(text, len) < columns) {
			fprintf(out, "%.*s\n", (int)len, text);
			continue;
		}
		if (head == 0 || head == len || text[head - 1] != ' ' || text[head] == ' ')
			head = 0; /* no label */
		fprintf(out, "%.*s", (int)head, text);
		put_paragraph(out, text + head, len - head, head ? indent : 0, indent, columns);
	}
}

FILE *cli_text_open(struct cli_text *ret)
{
	FILE *out;

	*ret = (struct cli_text){ .text = NULL };
	out = open_memstream(&ret->text, &ret->len);
	if (!out)
		cli_lose_output(errno);
	return out;
}

void cli_text_print(struct cli_text *t, FILE *out, bool alone, size_t indent)
{
	bool whole = !ferror(out);

	/* If memory is short at the end there is no text, though closing succeeds. */
	whole &= fclose(out) == 0 && t->text;
	if (!whole)
		cli_lose_output(ENOMEM);
	if (whole && alone)
		cli_put_lines(stdout, t->text, indent);
	else if (t->text)
		fputs(t->text, stdout);
	free(t->text);
}

void cli_put_table(const struct text_table *t)
{
	struct buf buf = { .max = TABLE_BYTES_MAX };

	text_table_put(t, isatty(STDOUT_FILENO) ? cli_columns(STDOUT_FILENO) : 0, &buf);
	if (buf.rc < 0)
		cli_lose_output(-buf.rc);
	fwrite(buf.data, 1, buf.len, stdout);
	buf_release(&buf);
}

static void put_usage(FILE *out, const struct cli_command *c, size_t columns)
{
	const char *lead = "usage:", *text = c->usage;
	size_t at = strlen("usage: shoal  ") + strlen(c->name);

	do {
		fprintf(out, "%s shoal %s ", lead, c->name);
		put_paragraph(out, text, strcspn(text, "\n"), at, at, columns);
		text += strcspn(text, "\n");
		text += *text == '\n';
		lead = "      ";
	} while (*text);
}

struct help_page {
	FILE *out;
	size_t column, columns;
	const struct cli_section *section; /* of the option before */
};

static size_t option_len(const struct cli_option *o)
{
	return 8 + strlen(o->name) + (o->value ? 1 + strlen(o->value) : 0) + (o->optional ? 2 : 0);
}

/* "  -o, --output FILE". */
static void put_option(FILE *out, const struct cli_option *o)
{
	if (o->letter)
		fprintf(out, "  -%c, --%s", o->letter, o->name);
	else
		fprintf(out, "      --%s", o->name);
	if (o->value)
		fprintf(out, o->optional ? "[=%s]" : " %s", o->value);
}

static bool widen(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct help_page *page = self;
	size_t len = option_len(o) + 2;

	(void)s;
	if (len > page->column && len <= HELP_COLUMN_MAX(page->columns))
		page->column = len;
	return true;
}

static bool put_entry(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct help_page *page = self;
	size_t at = option_len(o);
	char title[128];

	if (page->section != s)
		fputc('\n', page->out);
	if (page->section != s && s->title) {
		snprintf(title, sizeof(title), "%s:", s->title);
		put_paragraphs(page->out, title, page->columns);
	}
	if (page->section != s)
		put_paragraphs(page->out, s->about, page->columns);
	page->section = s;
	put_option(page->out, o);
	if (at + 2 > page->column) {
		fputc('\n', page->out);
		at = 0;
	}
	fprintf(page->out, "%*s", (int)(page->column - at), "");
	put_paragraph(page->out, o->help, strlen(o->help), page->column, page->column,
		      page->columns);
	return true;
}

static size_t readable(size_t columns)
{
	return columns > COLUMNS_MAX ? COLUMNS_MAX : columns < COLUMNS_MIN ? COLUMNS_MIN : columns;
}

void cli_put_help(FILE *out, const struct cli_command *c, size_t columns)
{
	struct help_page page = { .out = out, .columns = readable(columns) };

	put_usage(out, c, page.columns);
	fputc('\n', out);
	put_paragraphs(out, c->about, page.columns);
	cli_each_option(c, widen, &page);
	cli_each_option(c, put_entry, &page);
	if (c->notes) {
		fputc('\n', out);
		put_paragraphs(out, c->notes, page.columns);
	}
}

void cli_put_commands(FILE *out, size_t columns)
{
	size_t indent = 0;

	fputs("usage: shoal COMMAND [OPTION]...\n\n", out);
	for (const struct cli_command *const *c = cli_commands; *c; c++)
		if (strlen((*c)->name) + 4 > indent)
			indent = strlen((*c)->name) + 4;
	for (const struct cli_command *const *c = cli_commands; *c; c++) {
		fprintf(out, "  %-*s", (int)indent - 2, (*c)->name);
		put_paragraph(out, (*c)->summary, strlen((*c)->summary), indent, indent,
			      readable(columns));
	}
	fputc('\n', out);
	put_paragraphs(out,
		       "Run 'shoal COMMAND --help' for a command's options and 'shoal --version' "
		       "for the version. Exit status: 0 for success, 1 for a failure or a "
		       "result that is not good, 2 for a wrong command line, 128 plus the "
		       "signal's number if a signal ended it.",
		       readable(columns));
}
