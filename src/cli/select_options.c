#include "cli/select_options.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <regex.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "index/filter.h"
#include "open/output.h"
#include "store/uri.h"

/* ---- Which files ---- */

#define AT(field) offsetof(struct cli_select, select.field)

const struct cli_option cli_select_options[] = {
	CLI_LIST("include", "GLOB", offsetof(struct cli_select, include), AT(nr_include),
		 SELECT_PATTERNS,
		 "only files that match one of these, as for 'shoal index'; may be repeated"),
	CLI_LIST("exclude", "GLOB", offsetof(struct cli_select, exclude), AT(nr_exclude),
		 SELECT_PATTERNS,
		 "no files, and nothing below directories, that match one of these"),
	CLI_TEXT(0, "regex", "REGEX", AT(regex),
		 "only names in which this POSIX extended regular expression is found"),
	CLI_FLAG('i', "ignore-case", AT(ignore_case), "ignore case in the regular expression"),
	CLI_SIZE("min-size", AT(min_size), 0, 0, "only files of this size or more"),
	CLI_SIZE("max-size", AT(max_size), 1, 0, "only files of this size or less"),
	CLI_TEXT(0, "start-after", "NAME", AT(start_after), "only names that sort after NAME"),
	CLI_TEXT(0, "end-before", "NAME", AT(end_before), "only names that sort before NAME"),
	CLI_NUMBER("limit", "FILES", AT(limit), 1, 0, "the most files"),
	CLI_END,
};

#undef AT

bool cli_select_check(const char *command, void *select)
{
	const struct cli_select *s = select;
	struct index_filter filter = { .include = s->include,
				       .nr_include = s->select.nr_include,
				       .exclude = s->exclude,
				       .nr_exclude = s->select.nr_exclude };
	struct shoal_err err = { "" };
	regex_t regex;
	char why[200];
	int rc;

	if (index_filter_check(&filter, &err) < 0) {
		cli_usage(command, "%s", cli_words(command, &err));
		return false;
	}
	if (s->select.max_size && s->select.min_size > s->select.max_size) {
		cli_usage(command, "--min-size is larger than --max-size");
		return false;
	}
	rc = s->select.regex ? regcomp(&regex, s->select.regex, REG_EXTENDED | REG_NOSUB) : 0;
	if (rc != 0) {
		regerror(rc, &regex, why, sizeof(why));
		cli_usage(command, "the regular expression '%s' is malformed: %s", s->select.regex,
			  why);
		return false;
	}
	if (s->select.regex)
		regfree(&regex);
	return true;
}

bool cli_select_only_limits(const struct cli_select *s)
{
	const struct shoal_select *x = &s->select;

	return x->limit && !x->nr_include && !x->nr_exclude && !x->regex && !x->ignore_case &&
	       !x->min_size && !x->max_size && !x->start_after && !x->end_before;
}

const struct shoal_select *cli_select_finish(struct cli_select *s)
{
	s->select.include = s->include;
	s->select.exclude = s->exclude;
	return &s->select;
}

/* ---- Printing ---- */

#define AT(field) offsetof(struct cli_format, field)

const struct cli_option cli_format_options[] = {
	CLI_FLAG(0, "sizes", AT(sizes), "the size after a tab; - if it is not known"),
	CLI_FLAG(0, "etags", AT(etags),
		 "the ETag after a tab, without its quotes; - if there is none"),
	CLI_NULL(AT(null), "names"),
	CLI_FLAG(0, "json", AT(json), "a JSON object per line, with all that is known"),
	CLI_FLAG(0, "csv", AT(csv), "comma-separated values, with a header"),
	CLI_END,
};

#undef AT

int cli_format_check(const char *command, const struct cli_format *f)
{
	if (f->null + f->json + f->csv > 1)
		return cli_usage(command, "--null, --json and --csv exclude each other");
	return CLI_OK;
}

void cli_put_header(const struct cli_format *f)
{
	if (f->csv)
		fputs("name,size,samples,etag\n", stdout);
}

static bool is_utf8(const char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n)
		if ((n = utf8_len(text + i, len - i)) == 0)
			return false;
	return true;
}

/* The ETag without its quotes. */
static size_t bare_etag(const struct shoal_entry *e, const char **ret_etag)
{
	size_t len = strlen(e->etag);

	*ret_etag = len > 2 ? e->etag + 1 : "";
	return len > 2 ? len - 2 : 0;
}

/* Names are bytes: if JSON cannot represent one, it is printed in hexadecimal digits as well. */
static void put_json_entry(const struct shoal_entry *e, bool with_id)
{
	struct json j = cli_json();
	char hex[2 * SHOAL_NAME_MAX + 1];
	const char *etag;
	int len;

	json_open_object(&j, NULL);
	if (with_id)
		json_u64(&j, "id", e->id);
	json_string(&j, "name", e->name);
	if (!is_utf8(e->name, e->len)) {
		for (size_t i = 0; i < e->len; i++)
			snprintf(hex + 2 * i, 3, "%02x", (unsigned char)e->name[i]);
		json_string(&j, "name_hex", hex);
	}
	if (e->size == SHOAL_SIZE_UNKNOWN)
		json_null(&j, "size");
	else
		json_u64(&j, "size", e->size);
	json_u64(&j, "samples", e->samples);
	len = (int)bare_etag(e, &etag);
	if (len > 0)
		json_format(&j, "etag", "%.*s", len, etag);
	json_close_object(&j);
}

/* As RFC 4180: quoted if necessary, with quotes doubled. */
static void put_csv_name(const char *name, size_t len)
{
	bool plain = !memchr(name, ',', len) && !memchr(name, '"', len) &&
		     !memchr(name, '\n', len) && !memchr(name, '\r', len);

	if (plain) {
		fwrite_unlocked(name, 1, len, stdout);
		return;
	}
	putc_unlocked('"', stdout);
	for (size_t i = 0; i < len; i++) {
		if (name[i] == '"')
			putc_unlocked('"', stdout);
		putc_unlocked(name[i], stdout);
	}
	putc_unlocked('"', stdout);
}

static void put_csv_entry(const struct shoal_entry *e)
{
	const char *etag;
	int len = (int)bare_etag(e, &etag);

	put_csv_name(e->name, e->len);
	putc_unlocked(',', stdout);
	if (e->size != SHOAL_SIZE_UNKNOWN)
		printf("%" PRIu64, e->size);
	printf(",%" PRIu64 ",%.*s\n", e->samples, len, etag);
}

bool cli_names_for_people(void)
{
	static int known = -1;

	if (known < 0)
		known = isatty(STDOUT_FILENO);
	return known;
}

int cli_put_entry(const char *command, const struct cli_format *f, const struct shoal_entry *e,
		  bool with_id)
{
	char end = f->null ? '\0' : '\n';
	bool escape = !f->null && cli_names_for_people();
	const char *etag;
	int len;

	if (f->json || f->csv) {
		if (f->json)
			put_json_entry(e, with_id);
		else
			put_csv_entry(e);
		return CLI_OK;
	}
	if (!escape && memchr(e->name, end, e->len))
		return cli_fail(command, "name %" PRIu64 " contains a line end: use --null", e->id);
	if (f->ids)
		printf("%" PRIu64 "\t", e->id);
	if (escape)
		cli_put_plain(stdout, e->name, e->len);
	else
		fwrite_unlocked(e->name, 1, e->len, stdout);
	if (f->sizes && e->size == SHOAL_SIZE_UNKNOWN)
		fputs("\t-", stdout);
	else if (f->sizes)
		printf("\t%" PRIu64, e->size);
	if (f->etags) {
		len = (int)bare_etag(e, &etag);
		printf("\t%.*s", len > 0 ? len : 1, len > 0 ? etag : "-");
	}
	putc_unlocked(end, stdout);
	return CLI_OK;
}

/* Names between two checks of the clock. */
#define SHOW_EVERY 1024u

int cli_put_list(const char *command, const char *what, struct shoal_list *list,
		 const struct cli_format *f, bool with_ids)
{
	struct shoal_err err = { "" };
	const struct shoal_entry *e;
	struct cli_progress progress;
	uint64_t nr = 0;
	int rc;

	cli_progress_start_beside(&progress, command);
	cli_put_header(f);
	while ((rc = shoal_list_next(list, &e, &err)) > 0) {
		if ((++nr & (SHOW_EVERY - 1)) == 0)
			cli_output_progress(&progress, nr, 0);
		if (cli_put_entry(command, f, e, with_ids) != CLI_OK)
			return CLI_FAILED;
		if (cli_output_failed())
			return CLI_OK; /* cli_finish() reports it */
	}
	cli_progress_clear(&progress);
	if (rc < 0)
		return cli_fail(command, "'%s': %s", what, cli_words(command, &err));
	return CLI_OK;
}

/* ---- Catalogs that are made ---- */

int cli_output_check(const char *command, const char *path)
{
	struct shoal_err err = { "" };

	if (!path)
		return cli_usage(command, "say where to write the catalog: -o FILE");
	if (strcmp(path, "-") == 0)
		return cli_usage(command,
				 "a catalog cannot be written to standard output: -o FILE");
	if (output_check(path, &err) < 0)
		return cli_usage(command, "%s", cli_words(command, &err));
	return cli_check_directory(command, path);
}

int cli_output_refused(const char *command, const char *what, int rc, struct shoal_err *err)
{
	if (rc == -EEXIST || rc == -EISDIR) /* it names the output */
		return cli_fail(command, "%s", cli_words(command, err));
	return cli_fail(command, "'%s': %s", what, cli_words(command, err));
}

struct shoal_write_options cli_write_options(const struct cli_output *o,
					     const struct cli_where *where,
					     struct cli_progress *progress)
{
	return (struct shoal_write_options){ .output = o->path,
					     .config = &where->config,
					     .dry_run = o->dry_run,
					     .careful = !o->force,
					     .stop = &cli_stop,
					     .progress = cli_output_progress,
					     .self = progress };
}

void cli_output_progress(void *progress, uint64_t nr_done, uint64_t nr_all)
{
	cli_progress_show(progress,
			  &(struct cli_step){ .what = "names", .done = nr_done, .total = nr_all });
}

void cli_output_report(const struct cli_output *o, const char *path,
		       const struct shoal_list_totals *t)
{
	struct json j;

	if (o->json) {
		j = cli_json();
		json_open_object(&j, NULL);
		json_string(&j, "catalog", path);
		json_u64(&j, "files", t->nr_files);
		json_u64(&j, "samples", t->nr_samples);
		if (t->nr_bytes == SHOAL_SIZE_UNKNOWN)
			json_null(&j, "bytes");
		else
			json_u64(&j, "bytes", t->nr_bytes);
		json_bool(&j, "written", !o->dry_run);
		json_close_object(&j);
	} else if (!cli_talk.quiet || o->dry_run) {
		printf("%s: %s%s file%s\n", path, o->dry_run ? "would have " : "",
		       count_in_words(t->nr_files).text, plural(t->nr_files));
	}
}
