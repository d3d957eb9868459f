#include "open/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/path.h"
#include "shoal.h"
#include "store/uri.h"

int output_check(const char *text, struct shoal_err *err)
{
	struct store_uri u = store_uri_parse(text);
	int rc = store_uri_check(text, err);

	if (rc < 0)
		return rc;
	if (!store_local_path(text) && !store_uri_traits(text).objects)
		return err_set(err, -ENOTSUP, "nothing can be written to '%.300s'", text);
	return *u.path ? 0 : transfer_no_name(text, err);
}

int output_file(const char *text, const char **ret_path, struct shoal_err *err)
{
	int rc = store_uri_check(text, err);
	const char *path = store_local_path(text);

	if (rc == 0 && !path)
		rc = err_set(err, -ENOTSUP, "'%.300s' is not a file", text);
	if (rc == 0)
		*ret_path = path;
	return rc;
}

int output_open(struct output *o, const char *text, struct shoal_err *err)
{
	int rc = output_check(text, err);

	*o = (struct output){ .path = store_local_path(text) };
	if (rc == 0 && !o->path)
		o->object = text;
	return rc;
}

void output_share(struct output *o, const char *dir)
{
	snprintf(o->dir, sizeof(o->dir), "%s", dir);
	snprintf(o->temporary, sizeof(o->temporary), "%.2047s/catalog", dir);
	o->path = o->temporary;
}

int output_stage(struct output *o, const char *tmp_dir, struct shoal_err *err)
{
	char dir[sizeof(o->dir)];

	if (!o->object)
		return 0;
	tmp_dir = path_tmp_dir(tmp_dir);
	snprintf(dir, sizeof(dir), "%.2000s/shoal-output-XXXXXX", tmp_dir);
	if (!mkdtemp(dir))
		return err_set_errno(err, err_errno(), "cannot create a directory in '%.200s'",
				     tmp_dir);
	output_share(o, dir);
	return 0;
}

int output_send(const struct output *o, const struct shoal_store_config *config,
		const struct transfer_watch *watch, struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int rc = o->object ? transfer_put_file(o->path, o->object, config, watch, &why) : 0;

	return rc < 0 ? err_set_as(err, rc, &why, "cannot write the catalog to %.300s: %s",
				   o->object, why.msg)
		      : 0;
}

void output_release(const struct output *o)
{
	if (!*o->dir)
		return;
	unlink(o->temporary);
	rmdir(o->dir);
}

uint64_t open_nr_names(const char *path)
{
	struct shoal_catalog_info info = { .nr_files = 0 };
	struct shoal_catalog *cat = NULL;

	if (store_local_path(path) && shoal_catalog_open(path, &cat, NULL) == 0)
		shoal_catalog_info(cat, &info);
	shoal_catalog_close(cat);
	return info.nr_files;
}
