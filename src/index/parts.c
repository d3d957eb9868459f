#include "index/parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/out.h"
#include "base/path.h"
#include "base/publish.h"
#include "catalog/writer.h"
#include "index/checkpoint.h"
#include "index/provenance.h"

/* Minimum time between parts: each part is a file. */
#define SECONDS 5.0

#define COPIED (256u << 10) /* bytes at a time */

/* The prefix of the sorted runs beside the catalog, which no listing includes. */
static char *parts_prefix(const char *output)
{
	return index_resume_path(output, "runs.inside-");
}

/* ---- Writing ---- */

static int open_part(struct index_parts *p, struct shoal_err *err)
{
	struct index_provenance listing = { .started = clock_wall(), .sizes = true };
	struct shoal_writer_options wo = p->options;
	char *text = index_provenance_text(&listing);
	int rc;

	wo.listing = text;
	rc = text ? shoal_writer_open(NULL, &wo, &p->writer, err)
		  : err_set(err, -ENOMEM, "out of memory");
	free(text);
	p->next = clock_seconds() + SECONDS;
	p->nr_files = 0;
	return rc;
}

static int copy_part(int from, int to)
{
	uint8_t *buf = malloc(COPIED);
	off_t end = lseek(from, 0, SEEK_END);
	int rc = end < 0 ? err_errno() : buf ? 0 : -ENOMEM;

	for (uint64_t at = 0; rc == 0 && at < (uint64_t)end; at += COPIED) {
		size_t n = (size_t)u64_min(COPIED, (uint64_t)end - at);

		rc = pread_all(from, buf, n, at);
		if (rc == 0)
			rc = pwrite_all(to, buf, n, at);
	}
	free(buf);
	return rc;
}

/* Give a sealed part its name after syncing it. */
static int name_part(const struct index_parts *p, int from, struct shoal_err *err)
{
	char *prefix = parts_prefix(p->output), *name = NULL, *new_name = NULL;
	int fd = -1, rc = -ENOMEM;

	if (prefix && asprintf(&name, "%s%" PRIx64 "-%" PRIx64 "-%d-%" PRIu64, prefix, p->started,
			       p->session, p->rank, p->nr) < 0)
		name = NULL;
	if (name && asprintf(&new_name, "%s.new", name) < 0)
		new_name = NULL;
	if (new_name) {
		(void)!unlink(new_name); /* of a killed process, or put there by another user */
		fd = open(new_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		rc = fd < 0 ? err_errno() : 0;
	}
	if (rc == 0)
		rc = copy_part(from, fd);
	if (rc == 0 && (fsync(fd) < 0 || rename(new_name, name) < 0))
		rc = err_errno();
	if (rc < 0)
		err_set_errno(err, rc, "cannot write '%s'", name ? name : p->output);
	if (rc < 0 && fd >= 0)
		unlink(new_name);
	if (fd >= 0)
		close(fd);
	free(prefix);
	free(name);
	free(new_name);
	return rc;
}

int index_parts_flush(struct index_parts *p, struct shoal_err *err)
{
	struct shoal_writer *writer = p->writer;
	int fd, rc;

	p->writer = NULL; /* sealing frees it */
	if (!writer || p->nr_files == 0) {
		shoal_writer_abort(writer);
		return 0;
	}
	fd = writer_seal_nameless(writer, err);
	if (fd < 0)
		return fd;
	rc = name_part(p, fd, err);
	close(fd);
	p->nr++;
	return rc;
}

int index_parts_add(struct index_parts *p, const struct index_parts_file *f, struct shoal_err *err)
{
	int rc = 0;

	if (p->writer && clock_seconds() >= p->next)
		rc = index_parts_flush(p, err);
	if (rc == 0 && !p->writer)
		rc = open_part(p, err);
	if (rc < 0)
		return rc;
	writer_set_layout(p->writer, f->layout);
	p->nr_files++;
	return shoal_writer_add_object(p->writer, f->name, f->len, f->size, f->nr_samples, f->etag,
				       err);
}

/* ---- Reading ---- */

/* Add the part @path, if it is valid. -ENOMEM. -EPERM: it is not this user's alone. */
static int parts_add_known(struct index_known *known, const char *path, struct shoal_err *err)
{
	struct index_known_source s = { .trusted = true };
	struct index_provenance was = { 0 };
	char first[SHOAL_NAME_MAX + 1];
	const char *text;
	size_t len;
	int fd = publish_open_own(path, O_RDONLY, err), rc;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	rc = catalog_open_fd(fd, &s.cat, NULL);
	if (rc == 0)
		rc = catalog_listing(s.cat, &text, &len);
	if (rc == 0)
		rc = index_provenance_parse(text, len, &was, NULL);
	s.started = was.started;
	index_provenance_release(&was);
	if (rc == 0)
		rc = shoal_catalog_name(s.cat, 0, first);
	if (rc >= 0)
		rc = shoal_catalog_verify(s.cat, NULL);
	if (rc == 0) {
		s.first = strdup(first);
		rc = s.first ? index_known_add(known, &s) : -ENOMEM;
		if (rc == 0)
			return 0;
	}
	free(s.first);
	shoal_catalog_close(s.cat);
	return rc == -ENOMEM ? err_set(err, rc, "out of memory") : 0;
}

/* Call @see for each file beside @output whose name begins like that of a part. */
static int parts_each(const char *output,
		      int (*see)(struct index_known *known, const char *path,
				 struct shoal_err *err),
		      uint64_t started, struct index_known *known, struct shoal_err *err)
{
	char *dir_path = path_dir(output), *prefix = parts_prefix(output), *start = NULL;
	DIR *dir = dir_path && prefix ? opendir(dir_path) : NULL;
	const struct dirent *e;
	const char *base;
	int rc = 0;

	if (!prefix || (started ? asprintf(&start, "%s%" PRIx64 "-", prefix, started)
				: asprintf(&start, "%s", prefix)) < 0)
		start = NULL;
	base = start ? path_base(start) : NULL;
	while (base && dir && rc == 0 && (e = readdir(dir)) != NULL) {
		char *path = NULL;

		if (strncmp(e->d_name, base, strlen(base)) != 0)
			continue;
		if (asprintf(&path, "%s/%s", dir_path, e->d_name) < 0)
			rc = err_set(err, -ENOMEM, "out of memory");
		else
			rc = see(known, path, err);
		free(path);
	}
	if (dir)
		closedir(dir);
	free(start);
	free(prefix);
	free(dir_path);
	return rc;
}

int index_parts_open(const char *output, uint64_t started, struct index_known *known,
		     struct shoal_err *err)
{
	return parts_each(output, parts_add_known, started, known, err);
}

static int remove_part(struct index_known *known, const char *path, struct shoal_err *err)
{
	(void)known;
	(void)err;
	unlink(path);
	return 0;
}

void index_parts_sweep(const char *output)
{
	(void)parts_each(output, remove_part, 0, NULL, NULL);
}
