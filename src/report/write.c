#include "report/write.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int report_file_open(struct report_file *f, const char *folder, const char *name,
		     struct shoal_err *err)
{
	int rc;

	f->pub = PUBLISH_CLOSED;
	if (snprintf(f->path, sizeof(f->path), "%s/%s", folder, name) >= (int)sizeof(f->path))
		return err_set(err, -ENAMETOOLONG, "the path of the results is too long");
	rc = publish_open_here(f->path, &f->pub, err);
	if (rc < 0)
		return rc;
	rc = out_init(&f->out, f->pub.fd, 0, 1u << 16);
	if (rc < 0) {
		publish_abort(&f->pub);
		return err_set(err, rc, "out of memory");
	}
	return 0;
}

struct json report_json(struct report_file *f)
{
	return (struct json){ .put = json_put_out, .self = &f->out, .lines = 1 };
}

static int file_commit(struct report_file *f, bool sync, struct shoal_err *err)
{
	int rc;

	out_flush(&f->out);
	rc = f->out.rc;
	out_release(&f->out);
	if (rc == 0)
		return sync ? publish_commit(&f->pub, err) : publish_commit_unsynced(&f->pub, err);
	publish_abort(&f->pub);
	return err_set_errno(err, rc, "cannot write '%.500s'", f->path);
}

int report_file_commit(struct report_file *f, struct shoal_err *err)
{
	return file_commit(f, true, err);
}

int report_file_commit_unsynced(struct report_file *f, struct shoal_err *err)
{
	return file_commit(f, false, err);
}

int report_sync(const char *folder, struct shoal_err *err)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return err_set_errno(err, err_errno(), "cannot open '%.500s'", folder);
	if (syncfs(fd) < 0)
		rc = err_set_errno(err, err_errno(), "cannot sync '%.500s'", folder);
	close(fd);
	return rc;
}

void report_file_abort(struct report_file *f)
{
	out_release(&f->out);
	publish_abort(&f->pub);
}

void report_printf(struct out *o, const char *fmt, ...)
{
	char text[16384];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (len > 0)
		out_write(o, text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1);
}

int report_write_text(const char *folder, const char *name, const char *text, struct shoal_err *err)
{
	struct report_file f;
	int rc = report_file_open(&f, folder, name, err);

	if (rc < 0)
		return rc;
	out_write(&f.out, text, strlen(text));
	return report_file_commit(&f, err);
}

int report_text(report_put_fn *put, const void *self, struct json form, char **ret_text,
		struct shoal_err *err)
{
	size_t len;
	FILE *f = open_memstream(ret_text, &len);
	bool lost = !f;

	if (f) {
		form.put = json_put_file;
		form.self = f;
		json_open_object(&form, NULL);
		put(&form, self);
		json_close_object(&form);
		lost = ferror(f) != 0;
		lost = fclose(f) != 0 || !*ret_text || lost; /* without memory closing succeeds */
	}
	if (!lost)
		return 0;
	if (f)
		free(*ret_text);
	*ret_text = NULL;
	return err_set(err, -ENOMEM, "out of memory");
}

void report_time(uint64_t ns, char *buf)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;
	size_t len;

	gmtime_r(&seconds, &tm);
	len = strftime(buf, REPORT_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + len, REPORT_TIME_BYTES - len, ".%06u", (unsigned)(ns % 1000000000 / 1000));
}
