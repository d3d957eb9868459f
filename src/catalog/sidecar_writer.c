#include "catalog/sidecar_writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/text.h"
#include "catalog/digest.h"

#define OUT_BYTES   (1u << 18)
#define COPY_VALUES 1024u
#define CHECK_BYTES (1u << 18) /* read at once while sums are made; a multiple of a page */
#define RANK_BYTES  (SIDE_RANK_VALUES / 8)

/* 32 hexadecimal digits, high half first. */
static bool parse_digest(const char *text, uint64_t ret_digest[2])
{
	uint64_t half[2] = { 0, 0 };

	for (int i = 0; i < 32; i++) {
		char c = text[i];
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = (unsigned)c - '0';
		else if (c >= 'a' && c <= 'f')
			digit = (unsigned)c - 'a' + 10;
		else
			return false;
		half[i / 16] = half[i / 16] << 4 | digit;
	}
	ret_digest[0] = half[1];
	ret_digest[1] = half[0];
	return text[32] == '\0';
}

static int check_options(const struct shoal_column_options *o, struct shoal_err *err)
{
	uint64_t digest[2];
	size_t len = o->name ? strlen(o->name) : 0;

	if (len == 0 || len > SIDE_NAME_MAX || !shoal_is_plain_utf8(o->name, len))
		return shoal_fail(err, -EINVAL,
				  "a column's name is 1 to %u bytes of plain text, and this is not",
				  SIDE_NAME_MAX);
	if (!side_type_bits(o->type))
		return shoal_fail(err, -EINVAL,
				  "unknown type %d: use one of enum shoal_column_type",
				  (int)o->type);
	if (!o->digest || !parse_digest(o->digest, digest))
		return shoal_fail(err, -EINVAL, "a catalog's digest is 32 hexadecimal digits");
	if (o->nr_samples > SIDE_SAMPLES_MAX || o->first > o->nr_samples ||
	    o->nr > o->nr_samples - o->first)
		return shoal_fail(err, -EINVAL,
				  "%" PRIu64 " value%s from sample %" PRIu64
				  " on: a catalog of %" PRIu64 " sample%s has not as many",
				  o->nr, shoal_plural(o->nr), o->first, o->nr_samples,
				  shoal_plural(o->nr_samples));
	return 0;
}

int shoal_column_create(const char *path, const struct shoal_column_options *options,
			struct shoal_column_writer **ret_writer, struct shoal_err *err)
{
	struct shoal_column_writer *w;
	int rc = check_options(options, err);

	if (rc < 0)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		return shoal_fail(err, -ENOMEM, "out of memory");
	w->pub = SHOAL_PUBLISH_CLOSED;
	rc = shoal_publish_open(path, &w->pub, err);
	if (rc == 0 &&
	    shoal_out_init(&w->out, w->pub.fd, sizeof(struct side_header), OUT_BYTES) < 0)
		rc = shoal_fail(err, -ENOMEM, "out of memory");
	if (rc < 0) {
		shoal_column_abort(w);
		return rc;
	}
	w->type = options->type;
	w->first = options->first;
	w->nr = options->nr;
	w->nr_samples = options->nr_samples;
	w->min_key = UINT64_MAX;
	w->nr_order = SIDE_NO_ORDER;
	(void)parse_digest(options->digest, w->digest);
	memcpy(w->name, options->name, strlen(options->name));
	*ret_writer = w;
	return 0;
}

struct shoal_column_writer *shoal_column_abort(struct shoal_column_writer *writer)
{
	if (!writer)
		return NULL;
	shoal_out_release(&writer->out);
	shoal_publish_abort(&writer->pub);
	free(writer);
	return NULL;
}

static void append_bits(struct shoal_column_writer *w, const uint8_t *values, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++) {
		unsigned bit = (w->nr_done + i) & 7;

		w->bits |= (uint8_t)((values[i] != 0) << bit);
		w->nr_ones += values[i] != 0;
		if (bit == 7) {
			shoal_out_write(&w->out, &w->bits, 1);
			w->bits = 0;
		}
	}
}

int shoal_column_append(struct shoal_column_writer *writer, const void *values, uint64_t nr,
			struct shoal_err *err)
{
	struct shoal_column_writer *w = writer;

	if (nr > w->nr - w->nr_done)
		return shoal_fail(err, -EINVAL, "more than %" PRIu64 " value%s for as many samples",
				  w->nr, shoal_plural(w->nr));
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t key = side_key(w->type, values, i);

		w->min_key = shoal_min(w->min_key, key);
		w->max_key = shoal_max(w->max_key, key);
	}
	if (w->type == SHOAL_BIT)
		append_bits(w, values, nr);
	else
		shoal_out_write(&w->out, values, nr * (side_type_bits(w->type) / 8));
	w->nr_done += nr;
	if (w->out.rc < 0)
		return shoal_fail_errno(err, w->out.rc, "cannot write '%s'", w->pub.path);
	return 0;
}

int side_writer_flush(struct shoal_column_writer *w, struct shoal_err *err)
{
	if (w->nr_done != w->nr)
		return shoal_fail(err, -EINVAL, "only %" PRIu64 " value%s for %" PRIu64 " sample%s",
				  w->nr_done, shoal_plural(w->nr_done), w->nr, shoal_plural(w->nr));
	if (w->type == SHOAL_BIT && (w->nr & 7))
		shoal_out_write(&w->out, &w->bits, 1);
	shoal_out_flush(&w->out);
	if (w->out.rc < 0)
		return shoal_fail_errno(err, w->out.rc, "cannot write '%s'", w->pub.path);
	return 0;
}

/* Read the values of type bit back, and write the number of ones before each stretch. */
static int write_ranks(struct shoal_column_writer *w, const struct side_layout *at)
{
	uint64_t ones = 0;

	w->out.pos = at->ranks_off;
	for (uint64_t k = 0; k < at->nr_ranks; k++) {
		uint8_t stretch[RANK_BYTES] = { 0 }, rank[8];
		uint64_t off = k * RANK_BYTES;
		int rc;

		shoal_le64_store(rank, ones);
		shoal_out_write(&w->out, rank, sizeof(rank));
		rc = shoal_pread_all(w->pub.fd, stretch,
				     shoal_min(RANK_BYTES, at->values_len - off),
				     sizeof(struct side_header) + off);
		if (rc < 0)
			return rc;
		for (unsigned i = 0; i < RANK_BYTES; i += 8)
			ones += (uint64_t)__builtin_popcountll(shoal_le64_load(stretch + i));
	}
	shoal_out_flush(&w->out);
	return w->out.rc;
}

/* Read all but the header back, and write the sum of each page behind. */
static int sum_pages(struct shoal_column_writer *w, const struct side_layout *at, uint8_t *buf,
		     XXH3_state_t *sums)
{
	w->out.pos = at->sums_off;
	for (uint64_t off = sizeof(struct side_header), len; off < at->sums_off; off += len) {
		int rc;

		len = shoal_min(CHECK_BYTES, at->sums_off - off);
		rc = shoal_pread_all(w->pub.fd, buf, len, off);
		if (rc < 0)
			return rc;
		for (uint64_t page = 0; page < len; page += SIDE_PAGE) {
			uint8_t sum[8];

			shoal_le64_store(sum,
					 XXH3_64bits(buf + page, shoal_min(SIDE_PAGE, len - page)));
			XXH3_64bits_update(sums, sum, sizeof(sum));
			shoal_out_write(&w->out, sum, sizeof(sum));
		}
	}
	shoal_out_flush(&w->out);
	return w->out.rc;
}

static int write_sums(struct shoal_column_writer *w, const struct side_layout *at,
		      uint64_t *ret_checksum)
{
	uint8_t *buf = malloc(CHECK_BYTES);
	XXH3_state_t *sums = XXH3_createState();
	int rc = -ENOMEM;

	if (buf && sums) {
		XXH3_64bits_reset(sums);
		rc = sum_pages(w, at, buf, sums);
		*ret_checksum = XXH3_64bits_digest(sums);
	}
	XXH3_freeState(sums);
	free(buf);
	return rc;
}

static int write_header(struct shoal_column_writer *w, const struct side_layout *at,
			uint64_t sums_checksum)
{
	struct side_header h = {
		.version = shoal_le32_of(SIDE_VERSION),
		.header_len = shoal_le32_of(sizeof(h)),
		.file_len = shoal_le64_of(at->file_len),
		.first = shoal_le64_of(w->first),
		.nr = shoal_le64_of(w->nr),
		.nr_samples = shoal_le64_of(w->nr_samples),
		.type = shoal_le32_of(w->type),
		.page_shift = shoal_le32_of(SIDE_PAGE_SHIFT),
		.nr_order = shoal_le64_of(w->nr_order),
		.min_key = shoal_le64_of(w->nr ? w->min_key : 0),
		.max_key = shoal_le64_of(w->max_key),
		.nr_ones = shoal_le64_of(w->nr_ones),
		.sums_checksum = shoal_le64_of(sums_checksum),
		.name_len = shoal_le32_of((uint32_t)strlen(w->name)),
	};

	memcpy(h.magic, SIDE_MAGIC, sizeof(h.magic));
	memcpy(h.name, w->name, sizeof(h.name));
	for (int i = 0; i < 2; i++) {
		h.digest[i] = shoal_le64_of(w->digest[i]);
		h.keep_hash[i] = shoal_le64_of(w->keep_hash[i]);
	}
	side_header_seal(&h);
	return shoal_pwrite_all(w->pub.fd, &h, sizeof(h), 0);
}

static int write_rest(struct shoal_column_writer *w, struct shoal_err *err)
{
	struct side_layout at = side_layout(w->type, w->nr, w->nr_samples, w->nr_order);
	uint64_t checksum = 0;
	int rc = 0;

	if (ftruncate(w->pub.fd, (off_t)at.sums_off) < 0) /* zeros where nothing is written */
		rc = shoal_errno();
	if (rc == 0)
		rc = write_ranks(w, &at);
	if (rc == 0)
		rc = write_sums(w, &at, &checksum);
	if (rc == 0)
		rc = write_header(w, &at, checksum);
	return rc < 0 ? shoal_fail_errno(err, rc, "cannot write '%s'", w->pub.path) : 0;
}

int side_writer_finish(struct shoal_column_writer *w, struct shoal_err *err)
{
	int rc = write_rest(w, err);

	if (rc == 0)
		rc = shoal_publish_commit(&w->pub, err);
	shoal_column_abort(w);
	return rc;
}

int shoal_column_seal(struct shoal_column_writer *writer, struct shoal_err *err)
{
	int rc = side_writer_flush(writer, err);

	if (rc == 0)
		return side_writer_finish(writer, err);
	shoal_column_abort(writer);
	return rc;
}

/* ---- From other columns ----------------------------------------------------------------- */

int side_explain(const struct shoal_column *column, int rc, struct shoal_err *err)
{
	if (rc == -ESTALE)
		return shoal_fail(err, rc, "column '%s' was cut short while it was in use",
				  column->view.name);
	if (rc == -EBADMSG)
		return shoal_fail(err, rc,
				  "damaged column '%s': a checksum does not match; make it again",
				  column->view.name);
	return shoal_fail_errno(err, rc, "cannot read column '%s'", column->view.name);
}

int side_writer_like(const char *path, const struct side_view *like, uint64_t first, uint64_t nr,
		     struct shoal_column_writer **ret_writer, struct shoal_err *err)
{
	char digest[33];
	struct shoal_column_options options = { .name = like->name,
						.type = like->type,
						.digest = digest,
						.nr_samples = like->nr_samples,
						.first = first,
						.nr = nr };

	cat_digest_print(like->digest, digest);
	return shoal_column_create(path, &options, ret_writer, err);
}

int side_writer_copy(struct shoal_column_writer *w, const struct shoal_column *column,
		     struct shoal_err *err)
{
	const struct side_view *v = &column->view;
	uint64_t values[COPY_VALUES]; /* the widest type */
	uint64_t nr;
	int rc = 0;

	for (uint64_t done = 0; done < v->nr && rc == 0; done += nr) {
		nr = shoal_min(COPY_VALUES, v->nr - done);
		rc = shoal_column_read(column, v->first + done, nr, values);
		if (rc < 0)
			return side_explain(column, rc, err);
		rc = shoal_column_append(w, values, nr, err);
	}
	return rc;
}

/* Whether @part goes on where the column has come to. */
static int check_part(const struct shoal_column_writer *w, const struct side_view *part,
		      const char *path, struct shoal_err *err)
{
	if (part->type != w->type || part->nr_samples != w->nr_samples ||
	    strcmp(part->name, w->name) != 0 ||
	    memcmp(part->digest, w->digest, sizeof(w->digest)) != 0)
		return shoal_fail(
			err, -EINVAL,
			"'%s' is not a part of the same column: name, type or catalog differ",
			path);
	if (part->first != w->nr_done)
		return shoal_fail(err, -EINVAL,
				  "'%s' starts at sample %" PRIu64 ", but %" PRIu64
				  " is the next: parts are missing, or out of order",
				  path, part->first, w->nr_done);
	return 0;
}

static int add_part(struct shoal_column_writer **w, const char *path, const char *part_path,
		    struct shoal_err *err)
{
	struct shoal_column *part = NULL;
	struct shoal_err why = { "" };
	int rc = shoal_column_open(part_path, NULL, &part, &why);

	if (rc < 0)
		return shoal_fail(err, rc, "'%s': %s", part_path, why.msg);
	if (!*w)
		rc = side_writer_like(path, &part->view, 0, part->view.nr_samples, w, err);
	if (rc == 0)
		rc = check_part(*w, &part->view, part_path, err);
	if (rc == 0)
		rc = side_writer_copy(*w, part, err);
	shoal_column_close(part);
	return rc;
}

int shoal_column_join(const char *path, const char *const *parts, size_t nr_parts,
		      struct shoal_err *err)
{
	struct shoal_column_writer *w = NULL;
	int rc = 0;

	if (nr_parts == 0)
		return shoal_fail(err, -EINVAL, "no parts to join");
	for (size_t i = 0; i < nr_parts && rc == 0; i++)
		rc = add_part(&w, path, parts[i], err);
	if (rc == 0)
		return shoal_column_seal(w, err);
	shoal_column_abort(w);
	return rc;
}
