/* Columns in files, whose names may be URIs: shoal_column_open() and others. */
#include <inttypes.h>
#include <string.h>

#include "catalog/sidecar_writer.h"
#include "open/output.h"

int shoal_column_open(const char *path, const char *digest, struct shoal_column **ret_column,
		      struct shoal_err *err)
{
	int rc = output_file(path, &path, err);

	return rc < 0 ? rc : side_open(path, digest, ret_column, err);
}

int shoal_column_create(const char *path, const struct shoal_column_options *options,
			struct shoal_column_writer **ret_writer, struct shoal_err *err)
{
	int rc = output_file(path, &path, err);

	return rc < 0 ? rc : side_create(path, options, ret_writer, err);
}

int shoal_column_sort(const struct shoal_column *column, const struct shoal_column *keep,
		      const char *path, uint64_t memory, const int *stop, struct shoal_err *err)
{
	struct side_sort_watch watch = { .stop = stop };
	int rc = output_file(path, &path, err);

	return rc < 0 ? rc : side_sort(column, keep, path, memory, &watch, err);
}

/* Check that @part starts where the column ends so far. */
static int column_check_part(const struct shoal_column_writer *w, const struct side_view *part,
			     const char *path, struct shoal_err *err)
{
	if (part->type != w->type || part->nr_samples != w->nr_samples ||
	    strcmp(part->name, w->name) != 0 ||
	    memcmp(part->digest, w->digest, sizeof(w->digest)) != 0)
		return err_set(err, -EINVAL,
			       "'%s' is not part of the same column: its name, type or catalog "
			       "differs",
			       path);
	if (part->first != w->nr_done)
		return err_set(err, -EINVAL,
			       "'%s' starts at sample %" PRIu64 ", but sample %" PRIu64
			       " is expected: parts are missing or out of order",
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
		return err_set_as(err, rc, &why, "'%s': %s", part_path, why.msg);
	if (!*w)
		rc = side_writer_like(path, &part->view, 0, part->view.nr_samples, w, err);
	if (rc == 0)
		rc = column_check_part(*w, &part->view, part_path, err);
	if (rc == 0)
		rc = side_writer_copy(*w, part, err);
	shoal_column_close(part);
	return rc;
}

int shoal_column_join(const char *path, const char *const *parts, size_t nr_parts,
		      struct shoal_err *err)
{
	struct shoal_column_writer *w = NULL;
	int rc = output_file(path, &path, err);

	if (rc == 0 && nr_parts == 0)
		rc = err_set(err, -EINVAL, "no parts to join");
	for (size_t i = 0; i < nr_parts && rc == 0; i++)
		rc = add_part(&w, path, parts[i], err);
	if (rc == 0)
		return shoal_column_seal(w, err);
	shoal_column_abort(w);
	return rc;
}
