/* The catalog of a dataset. Its names and sizes are known, so nothing is listed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "catalog/writer.h"
#include "datagen/datagen_private.h"
#include "open/output.h"

#define PROGRESS_EVERY 65536 /* names */

int datagen_catalog_path(const struct datagen *g, char *path, size_t cap, struct shoal_err *err)
{
	const char *uri = g->store->uri, *dir = store_local_path(uri);
	int n;

	if (g->o->catalog)
		n = snprintf(path, cap, "%s", g->o->catalog);
	else if (dir || store_uri_traits(uri).objects)
		n = snprintf(path, cap, "%s/%s", dir ? dir : uri, DATAGEN_CATALOG_NAME);
	else /* there is no place for a catalog */
		n = snprintf(path, cap, "%s", "");
	if (n < 0 || (size_t)n >= cap)
		return err_set(err, -ENAMETOOLONG, "the catalog's path is too long");
	return 0;
}

/* "DIR/catalog.shoal" -> "DIR/catalog-train.shoal" */
static int part_path(const char *path, const char *part, char *to, size_t cap,
		     struct shoal_err *err)
{
	const char *base = path_base(path);
	const char *dot = strrchr(base, '.');
	size_t stem = dot && dot > base ? (size_t)(dot - path) : strlen(path);
	int n = snprintf(to, cap, "%.*s-%s%s", (int)stem, path, part, path + stem);

	if (n < 0 || (size_t)n >= cap)
		return err_set(err, -ENAMETOOLONG, "the catalog's path is too long");
	return 0;
}

/* Add the files of train, or of valid, in the order of their names. */
static int add_files(struct datagen *g, struct shoal_writer *writer, bool valid,
		     struct datagen_layout *layout, struct shoal_err *err)
{
	uint64_t nr = workload_nr_files(g->w, valid), id;
	char name[WORKLOAD_NAME_MAX];
	int rc = 0;

	for (uint64_t i = 0; i < nr && rc == 0; i++) {
		int len;

		if (i % PROGRESS_EVERY == 0 && datagen_stopped(g))
			return err_set(err, -ECANCELED, "interrupted");
		if (i % PROGRESS_EVERY == 0 && g->o->progress)
			g->o->progress(g->o->self,
				       &(struct datagen_progress){ .phase = DATAGEN_CATALOG,
								   .nr_done = i,
								   .nr_files = nr });
		rc = workload_file_at(g->w, valid, i, &id);
		len = rc < 0 ? rc : workload_file_name(g->w, valid, id, name, sizeof(name));
		if (len < 0)
			return err_set_errno(err, len, "cannot name file %" PRIu64, i);
		rc = datagen_layout_add(layout, writer, name, (size_t)len,
					workload_file_size(g->w, valid, id), err);
	}
	return rc;
}

/*
 * If all sizes are equal and folders have one level, a pattern makes the catalog without listing
 * names.
 */
static bool is_pattern(const struct datagen *g, bool valid)
{
	const struct workload_dataset *d = &g->w->dataset;
	const struct workload_subfolders *f = valid ? &d->subfolders_eval : &d->subfolders_train;

	return d->spread.sigma <= 0 && f->nr_levels <= 1 && !workload_has_extents(g->w);
}

static int seal_pattern(struct datagen *g, bool valid, const char *path, struct shoal_err *err)
{
	const struct workload_dataset *d = &g->w->dataset;
	uint64_t nr = workload_nr_files(g->w, valid);
	char format[WORKLOAD_PATTERN_MAX];
	struct shoal_pattern pattern = {
		.format = format,
		.count = nr,
		.subfolders = (valid ? d->subfolders_eval : d->subfolders_train).nr,
		.size = workload_file_size(g->w, valid, 0),
	};
	struct shoal_index_options io = {
		.output = path,
		.root = g->store->uri,
		.samples_per_file = d->samples_per_file,
		.stop = g->o->stop,
	};
	struct shoal_index_result result;
	int rc = workload_file_pattern(g->w, valid, format, sizeof(format));

	if (rc < 0)
		return err_set_errno(err, rc, "cannot name the files");
	return shoal_index_pattern(&pattern, &io, &result, err);
}

static int open_writer(struct datagen *g, const char *path, struct shoal_writer **ret_writer,
		       struct shoal_err *err)
{
	bool extents = workload_has_extents(g->w);
	struct shoal_writer_options wo = {
		.root = g->store->uri,
		.sizes = true,
		.samples_per_file = extents ? 0 : g->w->dataset.samples_per_file,
		.extents = extents,
	};

	return shoal_writer_open(path, &wo, ret_writer, err);
}

/* The catalog of train, or of valid. */
static int seal_part(struct datagen *g, bool valid, const char *path, struct shoal_err *err)
{
	struct shoal_writer *writer = NULL;
	struct datagen_layout layout;
	int rc;

	if (is_pattern(g, valid))
		return seal_pattern(g, valid, path, err);
	rc = datagen_layout_init(&layout, g->w, err);
	if (rc == 0)
		rc = open_writer(g, path, &writer, err);
	if (rc == 0)
		rc = add_files(g, writer, valid, &layout, err);
	datagen_layout_release(&layout);
	if (!writer)
		return rc;
	if (rc == 0)
		return shoal_writer_seal(writer, err);
	shoal_writer_abort(writer);
	return rc;
}

static int append_catalog(struct shoal_writer *writer, const char *path, struct shoal_err *err)
{
	struct shoal_catalog *part = NULL;
	int rc = catalog_open_file(path, &part, err);

	if (rc == 0)
		rc = shoal_writer_append(writer, part, err);
	shoal_catalog_close(part);
	return rc;
}

/* train, then valid. */
static int seal_both(struct datagen *g, const char *path, struct shoal_err *err)
{
	char part[2][4200];
	struct shoal_writer *writer = NULL;
	int rc;

	for (unsigned valid = 0; valid < 2; valid++) {
		rc = part_path(path, valid ? "valid" : "train", part[valid], sizeof(part[valid]),
			       err);
		if (rc == 0)
			rc = seal_part(g, valid, part[valid], err);
		if (rc < 0)
			return rc;
	}
	rc = open_writer(g, path, &writer, err);
	for (unsigned valid = 0; valid < 2 && rc == 0; valid++)
		rc = append_catalog(writer, part[valid], err);
	if (rc == 0)
		return shoal_writer_seal(writer, err);
	shoal_writer_abort(writer);
	return rc;
}

/* The catalogs of train and valid and the whole, or only the whole. */
static int seal_all(struct datagen *g, bool parts, const char *path, struct shoal_err *err)
{
	return parts ? seal_both(g, path, err) : seal_part(g, g->nr_train == 0, path, err);
}

/* ---- In a bucket ---- */

/* Send the catalog of @part, unless @rc is an error. Removes the local file. */
static int send_one(struct datagen *g, const struct output *out, const char *part, int rc,
		    struct shoal_err *err)
{
	char file[4200], uri[4200];

	if (part_path(out->path, part, file, sizeof(file), NULL) < 0)
		return rc;
	if (rc == 0)
		rc = part_path(out->object, part, uri, sizeof(uri), err);
	if (rc == 0)
		rc = transfer_put_file(file, uri, g->o->config,
				       &(struct transfer_watch){ .stop = g->o->stop }, err);
	unlink(file);
	return rc;
}

/* A catalog that becomes an object is sealed in a directory of its own, and sent once it is
 * complete: train and valid first. */
static int seal_output(struct datagen *g, bool parts, const char *catalog, struct shoal_err *err)
{
	struct output out;
	int rc = output_open(&out, catalog, err);

	if (rc == 0)
		rc = output_stage(&out, NULL, err);
	if (rc < 0)
		return rc;
	rc = seal_all(g, parts, out.path, err);
	if (parts && out.object) {
		rc = send_one(g, &out, "train", rc, err);
		rc = send_one(g, &out, "valid", rc, err);
	}
	if (rc == 0)
		rc = output_send(&out, g->o->config, &(struct transfer_watch){ .stop = g->o->stop },
				 err);
	output_release(&out);
	return rc;
}

int datagen_seal(struct datagen *g, struct datagen_result *result, struct shoal_err *err)
{
	bool train = g->nr_train > 0, valid = g->nr_files > g->nr_train;
	int rc = datagen_catalog_path(g, result->catalog, sizeof(result->catalog), err);

	if (rc < 0 || !result->catalog[0])
		return rc;
	result->parts = train && valid;
	rc = seal_output(g, result->parts, result->catalog, err);
	if (rc < 0) {
		struct shoal_err why = *err;

		err_describe(err, "the files are written, but not their catalog '%.300s': %.300s",
			     result->catalog, why.msg);
	}
	return rc;
}
