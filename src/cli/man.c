/* Manual pages in roff, made from the tables of options. */
#include <string.h>

#include "cli/options.h"
#include "shoal.h"

/* Text in which nothing is interpreted by roff. */
static void put_roff(FILE *out, const char *text, size_t len)
{
	if (len > 0 && (text[0] == '.' || text[0] == '\''))
		fputs("\\&", out);
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\\')
			fputs("\\e", out);
		else if (text[i] == '-')
			fputs("\\-", out);
		else
			fputc(text[i], out);
	}
}

/* Below a heading, which begins a paragraph itself. */
static void man_put_paragraphs(FILE *out, const char *text)
{
	for (const char *at = text ? text : ""; *at;) {
		size_t len = strcspn(at, "\n");

		put_roff(out, at, len);
		fputc('\n', out);
		at += len + (at[len] == '\n');
		if (*at)
			fputs(".PP\n", out);
	}
}

static void put_heading(FILE *out, const char *name, const char *summary)
{
	fprintf(out, ".TH \"SHOAL%s%s\" 1 \"\" \"shoal %s\" \"User Commands\"\n",
		*name ? "\\-" : "", name, shoal_version());
	fprintf(out, ".SH NAME\nshoal%s%s \\- ", *name ? "\\-" : "", name);
	put_roff(out, summary, strlen(summary));
	fputs("\n.SH SYNOPSIS\n.nf\n", out);
}

static void put_synopsis(FILE *out, const struct cli_command *c)
{
	for (const char *text = c->usage;;) {
		size_t len = strcspn(text, "\n");

		fprintf(out, "\\fBshoal %s\\fR ", c->name);
		put_roff(out, text, len);
		fputc('\n', out);
		text += len;
		if (!*text++)
			break;
	}
	fputs(".fi\n", out);
}

struct man_page {
	FILE *out;
	const struct cli_section *section;
};

static bool put_man_option(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct man_page *page = self;

	if (page->section != s && s->title) {
		fputs(".SS ", page->out);
		put_roff(page->out, s->title, strlen(s->title));
		fputc('\n', page->out);
	}
	if (page->section != s)
		man_put_paragraphs(page->out, s->about);
	page->section = s;
	fputs(".TP\n\\fB", page->out);
	if (o->letter)
		fprintf(page->out, "\\-%c\\fR, \\fB", o->letter);
	fputs("\\-\\-", page->out);
	put_roff(page->out, o->name, strlen(o->name));
	fputs("\\fR", page->out);
	if (o->value)
		fprintf(page->out, o->optional ? "[=\\fI%s\\fR]" : " \\fI%s\\fR", o->value);
	fputc('\n', page->out);
	put_roff(page->out, o->help, strlen(o->help));
	fputc('\n', page->out);
	return true;
}

static void put_ending(FILE *out)
{
	fputs(".SH EXIT STATUS\n"
	      ".TP\n0\nSuccess.\n"
	      ".TP\n1\nA failure, or a result that is not good: a damaged catalog, samples that were "
	      "left out, a utilisation below the target.\n"
	      ".TP\n2\nA wrong command line.\n"
	      ".TP\n128 + N\nEnded by signal N; under mpirun 130 for every signal.\n",
	      out);
}

void cli_put_man(FILE *out, const struct cli_command *c)
{
	struct man_page page = { .out = out };

	if (c) {
		put_heading(out, c->name, c->summary);
		put_synopsis(out, c);
		fputs(".SH DESCRIPTION\n", out);
		man_put_paragraphs(out, c->about);
		fputs(".SH OPTIONS\n", out);
		cli_each_option(c, put_man_option, &page);
		if (c->notes)
			fputs(".SH NOTES\n", out);
		man_put_paragraphs(out, c->notes);
		put_ending(out);
		fputs(".SH SEE ALSO\n.BR shoal (1)\n", out);
		return;
	}
	put_heading(out, "", "list, shard, shuffle and load datasets of any number of files");
	fputs("\\fBshoal\\fR COMMAND [OPTION]...\n.fi\n.SH COMMANDS\n", out);
	for (const struct cli_command *const *each = cli_commands; *each; each++) {
		fprintf(out, ".TP\n\\fBshoal\\-%s\\fR(1)\n", (*each)->name);
		put_roff(out, (*each)->summary, strlen((*each)->summary));
		fputc('\n', out);
	}
	put_ending(out);
}
