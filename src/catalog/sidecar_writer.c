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
#define CHECK_BYTES (1u << 18) /* read at once while summing; a multiple of the page size */
#define RANK_BYTES  (SIDE_RANK_VALUES / 8)

/* 32 hexadecimal digits, high half first. */
static bool column_parse_digest(const char *text, uint64_t ret_digest[2])
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

static int column_check_options(const struct shoal_column_options *o, struct shoal_err *err)
{
	uint64_t digest[2];
	size_t len = o->name ? strlen(o->name) : 0;

	if (len == 0 || len > SIDE_NAME_MAX || !is_plain_utf8(o->name, len))
		return err_set(err, -EINVAL, "a column's name must be 1 to %u bytes of plain text",
			       SIDE_NAME_MAX);
	if (!side_type_bits(o->type))
		return err_set(err, -EINVAL, "unknown column type %d", (int)o->type);
	if (!o->digest || !column_parse_digest(o->digest, digest))
		return err_set(err, -EINVAL, "a catalog's digest must be 32 hexadecimal digits");

	if (o->nr_samples > SIDE_SAMPLES_MAX || o->first > o->nr_samples ||
	    o->nr > o->nr_samples - o->first)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " value%s from sample %" PRIu64
			       " on do not fit a catalog of %" PRIu64 " sample%s",
			       o->nr, plural(o->nr), o->first, o->nr_samples,
			       plural(o->nr_samples));
	return 0;
}

int side_create(const char *path, const struct shoal_column_options *options,
		struct shoal_column_writer **ret_writer, struct shoal_err *err)
{
	struct shoal_column_writer *w;
	int rc = column_check_options(options, err);

	if (rc < 0)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->pub = PUBLISH_CLOSED;
	rc = publish_open(path, &w->pub, err);
	if (rc == 0 && out_init(&w->out, w->pub.fd, sizeof(struct side_header), OUT_BYTES) < 0)
		rc = err_set(err, -ENOMEM, "out of memory");
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
	(void)column_parse_digest(options->digest, w->digest);
	memcpy(w->name, options->name, strlen(options->name));
	*ret_writer = w;
	return 0;
}

struct shoal_column_writer *shoal_column_abort(struct shoal_column_writer *writer)
{
	if (!writer)
		return NULL;
	out_release(&writer->out);
	publish_abort(&writer->pub);
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
			out_write(&w->out, &w->bits, 1);
			w->bits = 0;
		}
	}
}

int shoal_column_append(struct shoal_column_writer *writer, const void *values, uint64_t nr,
			struct shoal_err *err)
{
	struct shoal_column_writer *w = writer;

	if (nr > w->nr - w->nr_done)
		return err_set(err, -EINVAL,
			       "more than %" PRIu64 " value%s for the same number of samples",
			       w->nr, plural(w->nr));
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t key = side_key(w->type, values, i);

		w->min_key = u64_min(w->min_key, key);
		w->max_key = u64_max(w->max_key, key);
	}
	if (w->type == SHOAL_BIT)
		append_bits(w, values, nr);
	else
		out_write(&w->out, values, nr * (side_type_bits(w->type) / 8));
	w->nr_done += nr;
	if (w->out.rc < 0)
		return err_set_errno(err, w->out.rc, "cannot write '%s'", w->pub.path);
	return 0;
}

int side_writer_flush(struct shoal_column_writer *w, struct shoal_err *err)
{
	if (w->nr_done != w->nr)
		return err_set(err, -EINVAL, "only %" PRIu64 " value%s for %" PRIu64 " sample%s",
			       w->nr_done, plural(w->nr_done), w->nr, plural(w->nr));
	if (w->type == SHOAL_BIT && (w->nr & 7))
		out_write(&w->out, &w->bits, 1);
	out_flush(&w->out);
	if (w->out.rc < 0)
		return err_set_errno(err, w->out.rc, "cannot write '%s'", w->pub.path);
	return 0;
}

/* Read the values of type bit back, and write the number of ones before each group of 4096. */
static int write_ranks(struct shoal_column_writer *w, const struct side_layout *at)
{
	uint64_t ones = 0;

	w->out.pos = at->ranks_off;
	for (uint64_t k = 0; k < at->nr_ranks; k++) {
		uint8_t group[RANK_BYTES] = { 0 }, rank[8];
		uint64_t off = k * RANK_BYTES;
		int rc;

		le64_store(rank, ones);
		out_write(&w->out, rank, sizeof(rank));
		rc = pread_all(w->pub.fd, group, u64_min(RANK_BYTES, at->values_len - off),
			       sizeof(struct side_header) + off);
		if (rc < 0)
			return rc;
		for (unsigned i = 0; i < RANK_BYTES; i += 8)
			ones += (uint64_t)__builtin_popcountll(le64_load(group + i));
	}
	out_flush(&w->out);
	return w->out.rc;
}

/* Read everything but the header back, and append the sum of each page. */
static int column_sum_pages(struct shoal_column_writer *w, const struct side_layout *at,
			    uint8_t *buf, XXH3_state_t *sums)
{
	w->out.pos = at->sums_off;
	for (uint64_t off = sizeof(struct side_header), len; off < at->sums_off; off += len) {
		int rc;

		len = u64_min(CHECK_BYTES, at->sums_off - off);
		rc = pread_all(w->pub.fd, buf, len, off);
		if (rc < 0)
			return rc;
		for (uint64_t page = 0; page < len; page += SIDE_PAGE) {
			uint8_t sum[8];

			le64_store(sum, XXH3_64bits(buf + page, u64_min(SIDE_PAGE, len - page)));
			XXH3_64bits_update(sums, sum, sizeof(sum));
			out_write(&w->out, sum, sizeof(sum));
		}
	}
	out_flush(&w->out);
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
		rc = column_sum_pages(w, at, buf, sums);
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
		.version = le32_of(SIDE_VERSION),
		.header_len = le32_of(sizeof(h)),
		.file_len = le64_of(at->file_len),
		.first = le64_of(w->first),
		.nr = le64_of(w->nr),
		.nr_samples = le64_of(w->nr_samples),
		.type = le32_of(w->type),
		.page_shift = le32_of(SIDE_PAGE_SHIFT),
		.nr_order = le64_of(w->nr_order),
		.min_key = le64_of(w->nr ? w->min_key : 0),
		.max_key = le64_of(w->max_key),
		.nr_ones = le64_of(w->nr_ones),
		.sums_checksum = le64_of(sums_checksum),
		.name_len = le32_of((uint32_t)strlen(w->name)),
	};

	memcpy(h.magic, SIDE_MAGIC, sizeof(h.magic));
	memcpy(h.name, w->name, sizeof(h.name));
	for (int i = 0; i < 2; i++) {
		h.digest[i] = le64_of(w->digest[i]);
		h.keep_hash[i] = le64_of(w->keep_hash[i]);
	}
	side_header_seal(&h);
	return pwrite_all(w->pub.fd, &h, sizeof(h), 0);
}

static int write_rest(struct shoal_column_writer *w, struct shoal_err *err)
{
	struct side_layout at = side_layout(w->type, w->nr, w->nr_samples, w->nr_order);
	uint64_t checksum = 0;
	int rc = 0;

	if (ftruncate(w->pub.fd, (off_t)at.sums_off) < 0) /* unwritten ranges read as zeros */
		rc = err_errno();
	if (rc == 0)
		rc = write_ranks(w, &at);
	if (rc == 0)
		rc = write_sums(w, &at, &checksum);
	if (rc == 0)
		rc = write_header(w, &at, checksum);
	return rc < 0 ? err_set_errno(err, rc, "cannot write '%s'", w->pub.path) : 0;
}

int side_writer_finish(struct shoal_column_writer *w, struct shoal_err *err)
{
	int rc = write_rest(w, err);

	if (rc == 0)
		rc = publish_commit(&w->pub, err);
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
		return err_set(err, rc, "column '%s' was truncated while it was in use",
			       column->view.name);
	if (rc == -EBADMSG)
		return err_set(err, rc,
			       "damaged column '%s': a checksum does not match; make it again",
			       column->view.name);
	return err_set_errno(err, rc, "cannot read column '%s'", column->view.name);
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
	return side_create(path, &options, ret_writer, err);
}

int side_writer_copy(struct shoal_column_writer *w, const struct shoal_column *column,
		     struct shoal_err *err)
{
	const struct side_view *v = &column->view;
	uint64_t values[COPY_VALUES]; /* room for the widest type */
	uint64_t nr;
	int rc = 0;

	for (uint64_t done = 0; done < v->nr && rc == 0; done += nr) {
		nr = u64_min(COPY_VALUES, v->nr - done);
		rc = shoal_column_read(column, v->first + done, nr, values);
		if (rc < 0)
			return side_explain(column, rc, err);
		rc = shoal_column_append(w, values, nr, err);
	}
	return rc;
}
