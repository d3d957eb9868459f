/* Lines of text: JSON lines, and CSV, of which the first line has the names of the columns. A
 * line's end belongs to it; the last line may lack it. */
#include "format/samples_private.h"

struct lines {
	struct samples_search *search;
	uint64_t start; /* of the current line */
	uint64_t nr;    /* lines before it */
	uint64_t skip;  /* of the first lines, how many are no samples */
	bool quotes;    /* a quoted field may contain line ends */
	bool in_quotes;
	bool blank; /* the line has no characters so far */
};

static int end_line(struct lines *l, uint64_t end)
{
	uint64_t start = l->start;
	bool blank = l->blank;

	l->start = end;
	l->blank = true;
	return blank || l->nr++ < l->skip ? 0 : samples_report(l->search, start, end - start, 1);
}

/* A quote within a field that is not quoted toggles, too, but RFC 4180 does not have these. */
static int lines_take(struct lines *l, const uint8_t *buf, size_t len, uint64_t off)
{
	int rc = 0;

	for (size_t i = 0; i < len && rc == 0; i++)
		if (buf[i] == '\n' && !l->in_quotes)
			rc = end_line(l, off + i + 1);
		else if (buf[i] == '"' && l->quotes)
			l->in_quotes = !l->in_quotes, l->blank = false;
		else if (buf[i] != '\r')
			l->blank = false;
	return rc;
}

static int find_lines(struct lines *l)
{
	struct samples_search *s = l->search;
	uint8_t buf[4096];
	int rc = 0;

	l->blank = true;
	for (uint64_t off = 0; off < s->file->size && rc == 0; off += sizeof(buf)) {
		size_t len = (size_t)u64_min(sizeof(buf), s->file->size - off);

		rc = format_read(s->file, off, buf, len, s->err);
		if (rc == 0)
			rc = lines_take(l, buf, len, off);
	}
	if (rc == 0 && l->in_quotes)
		return err_set(s->err, -EBADMSG, "a quoted field does not end");
	return rc != 0 || l->start == s->file->size ? rc : end_line(l, s->file->size);
}

int samples_find_csv(struct samples_search *s)
{
	return find_lines(&(struct lines){ .search = s, .skip = 1, .quotes = true });
}

int samples_find_jsonl(struct samples_search *s)
{
	return find_lines(&(struct lines){ .search = s });
}
