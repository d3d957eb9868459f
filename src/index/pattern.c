/* Names generated from a pattern, as DLIO names its files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "catalog/decimal.h"
#include "catalog/writer.h"
#include "index/job.h"
#include "index/stage.h"

/* A parsed pattern: folder/ [subfolder/] before number after. */
struct parsed {
	char before[SHOAL_NAME_MAX + 1], after[SHOAL_NAME_MAX + 1];
	size_t before_len, after_len;
	size_t folder_len;  /* of before: up to and with its last slash */
	unsigned width;     /* of the number, zero-padded; 0: not padded */
	unsigned sub_width; /* of the subfolder; 0: none */
	uint64_t subfolders;
};

/* The number's format, between the braces: "", ":d", ":07d" or ":07". */
static int parse_field(const char *text, size_t len, unsigned *ret_width, struct shoal_err *err)
{
	const char *p = text;
	size_t whole = len;
	uint64_t width = 0;

	if (len > 0 && *p == ':') {
		p++;
		len--;
	} else if (len > 0) {
		goto bad;
	}
	if (len > 0 && p[len - 1] == 'd')
		len--;
	if (len > 0 && (*p != '0' || parse_digits(p, len, &width) < 0 || width > 255))
		goto bad;
	*ret_width = (unsigned)width;
	return 0;
bad:
	return err_set(err, -EINVAL,
		       "'{%.*s}' in the pattern is unknown: write a number as {}, {:d} "
		       "or {:07d}",
		       (int)u64_min(whole, 20), text);
}

static int pattern_append(char *to, size_t *len, char c, struct shoal_err *err)
{
	if (*len == SHOAL_NAME_MAX)
		return err_set(err, -EINVAL, "the pattern has more than %d bytes", SHOAL_NAME_MAX);
	to[(*len)++] = c;
	return 0;
}

static int parse_pattern(const char *format, struct parsed *p, struct shoal_err *err)
{
	bool seen = false;
	int rc = 0;

	*p = (struct parsed){ 0 };
	for (const char *c = format; *c && rc == 0; c++) {
		if ((c[0] == '{' || c[0] == '}') && c[1] == c[0]) {
			c++; /* a doubled brace stands for itself */
		} else if (*c == '}') {
			return err_set(err, -EINVAL, "a '}' in the pattern has no '{'");
		} else if (*c == '{') {
			size_t len = strcspn(c + 1, "}");

			if (!c[1 + len] || seen)
				return err_set(err, -EINVAL,
					       seen ? "the pattern has more than one {} number"
						    : "a '{' in the pattern has no '}'");
			rc = parse_field(c + 1, len, &p->width, err);
			seen = true;
			c += len + 1;
			continue;
		}
		rc = seen ? pattern_append(p->after, &p->after_len, *c, err)
			  : pattern_append(p->before, &p->before_len, *c, err);
	}
	if (rc == 0 && !seen)
		return err_set(err, -EINVAL,
			       "the pattern has no number: write {:07d} in its place");
	return rc;
}

/* Make the names relative to the root, like those of a list. */
static int take_root(const struct shoal_index_options *options, struct parsed *p,
		     struct index_root *root, struct shoal_err *err)
{
	const char *name = p->before;
	size_t len = p->before_len + 1;
	int rc;

	p->before[p->before_len] =
		'0'; /* the number, so that stripping never leaves an empty name */
	rc = index_root_init(root, options->root, name, len, err);
	if (rc == 0)
		rc = index_root_strip(root, &name, &len, err);
	if (rc < 0)
		return rc;
	p->before_len = len - 1;
	memmove(p->before, name, p->before_len);
	p->before[p->before_len] = '\0';
	return 0;
}

static int pattern_parse(const struct shoal_pattern *pattern,
			 const struct shoal_index_options *options, struct parsed *p,
			 struct index_root *root, struct shoal_err *err)
{
	const char *slash;
	uint64_t digits;
	int rc = parse_pattern(pattern->format, p, err);

	if (rc == 0)
		rc = take_root(options, p, root, err);
	if (rc < 0)
		return rc;
	if (pattern->count == 0)
		return err_set(err, -EINVAL, "the count of names must be 1 or more");
	if (pattern->count > SHOAL_ORDER_SAMPLES_MAX ||
	    pattern->first > UINT64_C(100000000000000000) ||
	    pattern->subfolders > UINT64_C(1000000000))
		return err_set(err, -EINVAL, "the numbers of the pattern are too large");
	slash = memrchr(p->before, '/', p->before_len);
	p->folder_len = slash ? (size_t)(slash - p->before) + 1 : 0;
	p->subfolders = pattern->subfolders;
	if (p->subfolders > 1) {
		p->sub_width = cat_decimal_digits(p->subfolders);
		if (strchr(p->after, '/'))
			return err_set(
				err, -EINVAL,
				"with subfolders the number must be in the last component of the pattern");
	}
	digits = u64_max(p->width, cat_decimal_digits(pattern->first + pattern->count - 1));
	if (p->before_len + p->after_len + digits + (p->sub_width ? p->sub_width + 1 : 0) >
	    SHOAL_NAME_MAX)
		return err_set(err, -EINVAL, "the pattern generates names of more than %d bytes",
			       SHOAL_NAME_MAX);
	return 0;
}

/* Write the name of number @i to @name. Returns its length; *@ret_at is where the number starts. */
static size_t pattern_make_name(const struct parsed *p, uint64_t i, char *name, size_t *ret_at)
{
	char *at = name;
	int n;

	at = mempcpy(at, p->before, p->folder_len);
	if (p->sub_width) {
		n = sprintf(at, "%0*" PRIu64 "/", (int)p->sub_width, i % p->subfolders);
		at += n;
	}
	at = mempcpy(at, p->before + p->folder_len, p->before_len - p->folder_len);
	*ret_at = (size_t)(at - name);
	at += sprintf(at, "%0*" PRIu64, (int)p->width, i);
	at = mempcpy(at, p->after, p->after_len);
	return (size_t)(at - name);
}

/* ---- Zero-padded numbers: a grid or two, without making a name ---- */

static void set_field(struct cat_grid *g, unsigned f, size_t pos, unsigned width, uint64_t value)
{
	/* A field has 18 digits at most; those before it are zeros in all names. */
	unsigned skip = width > CAT_GRID_WIDTH ? width - CAT_GRID_WIDTH : 0;

	g->field[f].pos = (uint32_t)(pos + skip);
	g->field[f].width = width - skip;
	g->field[f].value = value;
}

/* Subfolders [sub, end) with @rows files each: the first of them holds number @number. */
static int pattern_add_block(struct shoal_writer *w, const struct parsed *p, uint64_t number,
			     uint64_t nr_subs, uint64_t rows, uint64_t size,
			     const struct cat_grid_watch *watch, struct shoal_err *err)
{
	struct cat_grid g = { .nr_fields = 1, .nr_dims = 1 };
	char first[SHOAL_NAME_MAX + 1];
	size_t at, len;

	if (nr_subs == 0 || rows == 0)
		return 0;
	len = pattern_make_name(p, number, first, &at);
	g.dim[0].extent = rows;
	if (p->sub_width) {
		g.nr_fields = g.nr_dims = 2;
		set_field(&g, 0, p->folder_len, p->sub_width, number % p->subfolders);
		set_field(&g, 1, at, p->width, number);
		g.dim[0].delta[1] = p->subfolders;
		g.dim[1].extent = nr_subs;
		g.dim[1].delta[0] = g.dim[1].delta[1] = 1;
	} else {
		set_field(&g, 0, at, p->width, number);
		g.dim[0].delta[0] = 1;
	}
	return writer_add_grid(w, &g, first, len, size, 1, watch, err);
}

/* With round robin over K folders, the first count mod K of them have one file more. */
static int add_grids(struct shoal_writer *w, const struct parsed *p,
		     const struct shoal_pattern *pattern, const struct cat_grid_watch *watch,
		     struct shoal_err *err)
{
	uint64_t k = p->sub_width ? p->subfolders : 1;
	uint64_t more = pattern->count % k, rows = pattern->count / k;
	int rc;

	rc = pattern_add_block(w, p, pattern->first, more, rows + 1, pattern->size, watch, err);
	if (rc == 0)
		rc = pattern_add_block(w, p, pattern->first + more, k - more, rows, pattern->size,
				       watch, err);
	return rc;
}

/* Whether grids can express it: padded numbers that fit, and folders that start with the first
 * one. */
static bool is_grid(const struct parsed *p, const struct shoal_pattern *pattern)
{
	uint64_t last = pattern->first + pattern->count - 1;

	return p->width > 0 && cat_decimal_digits(last) <= p->width &&
	       (!p->sub_width || pattern->first % p->subfolders == 0);
}

struct grid_report {
	const struct shoal_index_options *options;
	uint64_t nr_all;
};

static void report_grid(void *self, uint64_t nr_names)
{
	const struct grid_report *r = self;

	r->options->progress(r->options->self,
			     &(struct shoal_index_progress){
				     .nr_names = nr_names, .where = "", .nr_all = r->nr_all });
}

static int write_grids(const struct parsed *p, const struct shoal_pattern *pattern,
		       const struct shoal_index_options *options, const struct index_root *root,
		       struct shoal_index_result *result, struct shoal_err *err)
{
	struct shoal_writer_options wo = {
		.root = root->uri,
		.sizes = pattern->size != SHOAL_SIZE_UNKNOWN,
		.samples_per_file = options->samples_per_file ? options->samples_per_file : 1,
		.tmp_dir = options->tmp_dir,
	};
	struct grid_report report = { options, pattern->count };
	struct cat_grid_watch watch = { .stop = options->stop,
					.progress = options->progress ? report_grid : NULL,
					.self = &report };
	struct shoal_writer *w = NULL;
	int rc;

	rc = shoal_writer_open(options->output, &wo, &w, err);
	if (rc < 0)
		return rc;
	rc = add_grids(w, p, pattern, &watch, err);
	if (rc == 0 && stop_requested(options->stop))
		rc = err_set(err, -ECANCELED, "interrupted");
	if (rc < 0) {
		shoal_writer_abort(w);
		return rc;
	}
	result->nr_names = pattern->count;
	return shoal_writer_seal(w, err);
}

/* ---- Any other numbers: made one by one, and sorted ---- */

static int write_sorted(const struct parsed *p, const struct shoal_pattern *pattern,
			const struct shoal_index_options *options, const struct index_root *root,
			struct shoal_index_result *result, struct shoal_err *err)
{
	bool sizes = pattern->size != SHOAL_SIZE_UNKNOWN;
	char name[SHOAL_NAME_MAX + 1];
	struct index_job job = { .options = options, .root = *root, .nr_all = pattern->count };
	struct index_record record = { .size = pattern->size, .samples = 1 };
	int rc = index_job_open(&job, sizes, /* samples= */ false, err);

	for (uint64_t i = 0; i < pattern->count && rc == 0; i++) {
		size_t at, len = pattern_make_name(p, pattern->first + i, name, &at);

		rc = index_job_add(&job, name, len, &record, err);
	}
	if (rc == 0)
		rc = index_job_finish(&job, result, err);
	index_job_release(&job);
	return rc;
}

struct pattern_job {
	const struct shoal_pattern *pattern;
	struct parsed p;
	struct index_root root;
};

static int pattern_fill(void *self, struct index_stage *s, uint64_t least,
			struct shoal_index_result *result, struct shoal_err *err)
{
	struct pattern_job *j = self;
	uint64_t nr = j->pattern->count;
	int rc = nr < least ? output_permit(&s->output, nr, err) : 0;

	if (rc < 0)
		return rc;
	return is_grid(&j->p, j->pattern)
		       ? write_grids(&j->p, j->pattern, &s->options, &j->root, result, err)
		       : write_sorted(&j->p, j->pattern, &s->options, &j->root, result, err);
}

int shoal_index_pattern(const struct shoal_pattern *pattern,
			const struct shoal_index_options *options,
			struct shoal_index_result *ret_result, struct shoal_err *err)
{
	struct pattern_job j = { .pattern = pattern };
	int rc = pattern_parse(pattern, options, &j.p, &j.root, err);

	return rc < 0 ? rc : index_stage_run(options, pattern_fill, &j, ret_result, err);
}
