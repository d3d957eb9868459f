/* Lines of text: JSON lines, and CSV, of which the first line has the names of the columns. A
 * line's end belongs to it; the last line may lack it. */
#include "format/samples_private.h"

struct line_maker {
	struct samples_search *search;
	uint64_t start; /* where the current line starts */
	uint64_t nr;    /* lines before it */
	uint64_t skip;  /* how many of the first lines are not samples */
	bool quotes;    /* a quoted field may contain line ends */
	bool in_quotes; /* in one */
	bool begins;    /* the next character begins a field */
	bool closed; /* the previous character was a quote in a quoted field: it ends the field, or
			is the first of two */
	bool blank;  /* the line has no characters so far; JSON lines: none but spaces */
	bool ended;  /* a line has ended */
	bool after_return; /* the previous character was a carriage return outside quotes; */
	bool lone_return;  /* it, or an earlier one, was not part of a line end */
};

static int end_line(struct line_maker *l, uint64_t end)
{
	uint64_t start = l->start;
	bool blank = l->blank;

	l->start = end;
	l->blank = l->ended = true;
	return blank || l->nr++ < l->skip ? 0 : samples_report(l->search, start, end - start, 1);
}

/*
 * RFC 4180: a field is quoted if it begins with a quote. Two quotes in it stand for one; treating
 * them as the end of the field and its start again gives the same result. A quote elsewhere is an
 * ordinary character.
 */
static bool lines_quote(struct line_maker *l, const uint8_t *at, bool doubled)
{
	if (*at != '"' || !l->quotes)
		return false;
	if (!l->in_quotes && !l->begins && !doubled)
		return false;
	l->in_quotes = !l->in_quotes;
	return true;
}

static int lines_take(struct line_maker *l, const uint8_t *buf, size_t len, uint64_t off)
{
	int rc = 0;

	for (size_t i = 0; i < len && rc == 0; i++) {
		bool quote = lines_quote(l, &buf[i], l->closed);

		l->closed = quote && !l->in_quotes;
		l->lone_return |= l->after_return && buf[i] != '\n';
		l->after_return = buf[i] == '\r' && !l->in_quotes;
		if (!l->in_quotes && buf[i] == '\n')
			rc = end_line(l, off + i + 1);
		else if (buf[i] != '\r' && (l->quotes || (buf[i] != ' ' && buf[i] != '\t')))
			l->blank = false;
		l->begins = !l->in_quotes && (buf[i] == '\n' || buf[i] == ',');
	}
	return rc;
}

/* The byte order mark that some programs put before UTF-8 is part of no field. */
static uint64_t text_start(const struct format_source *file)
{
	uint8_t head[3];

	return file->size >= sizeof(head) && format_read(file, 0, head, sizeof(head), NULL) == 0 &&
			       memcmp(head, "\xef\xbb\xbf", sizeof(head)) == 0
		       ? sizeof(head)
		       : 0;
}

static int find_lines(struct line_maker *l)
{
	struct samples_search *s = l->search;
	uint8_t buf[4096];
	int rc = 0;

	l->blank = l->begins = true;
	l->start = text_start(s->file);
	for (uint64_t off = l->start; off < s->file->size && rc == 0; off += sizeof(buf)) {
		size_t len = (size_t)u64_min(sizeof(buf), s->file->size - off);

		rc = format_read(s->file, off, buf, len, s->err);
		if (rc == 0)
			rc = lines_take(l, buf, len, off);
	}
	if (rc == 0 && l->in_quotes)
		return err_set(s->err, -EBADMSG, "a quoted field does not end");
	if (rc == 0 && !l->ended && l->lone_return)
		return err_set(s->err, -ENOTSUP, "its lines end in carriage returns alone");
	return rc != 0 || l->start == s->file->size ? rc : end_line(l, s->file->size);
}

int samples_find_csv(struct samples_search *s)
{
	return find_lines(&(struct line_maker){ .search = s, .skip = 1, .quotes = true });
}

int samples_find_jsonl(struct samples_search *s)
{
	return find_lines(&(struct line_maker){ .search = s });
}
