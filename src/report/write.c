#include "report/write.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

int report_file_open(struct report_file *f, const char *folder, const char *name,
		     struct shoal_err *err)
{
	int rc;

	f->pub = SHOAL_PUBLISH_CLOSED;
	if (snprintf(f->path, sizeof(f->path), "%s/%s", folder, name) >= (int)sizeof(f->path))
		return shoal_fail(err, -ENAMETOOLONG, "the path of the results is too long");
	rc = shoal_publish_open_here(f->path, &f->pub, err);
	if (rc < 0)
		return rc;
	rc = shoal_out_init(&f->out, f->pub.fd, 0, 1u << 16);
	if (rc < 0) {
		shoal_publish_abort(&f->pub);
		return shoal_fail(err, rc, "out of memory");
	}
	return 0;
}

void report_put(struct report_file *f, const char *fmt, ...)
{
	char text[1024]; /* longer ones go through report_put_string() */
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (len > 0)
		shoal_out_write(&f->out, text, (size_t)shoal_min((uint64_t)len, sizeof(text) - 1));
}

void report_put_string(struct report_file *f, const char *text)
{
	size_t left = strlen(text);

	report_put(f, "\"");
	while (left > 0) {
		size_t n = shoal_utf8_len(text, left);

		if (n == 0)
			report_put(f, "\\ufffd");
		else if ((unsigned char)*text < 0x20)
			report_put(f, "\\u%04x", (unsigned)*text);
		else if (*text == '"' || *text == '\\')
			report_put(f, "\\%c", *text);
		else
			shoal_out_write(&f->out, text, n);
		text += n ? n : 1;
		left -= n ? n : 1;
	}
	report_put(f, "\"");
}

void report_put_seconds(struct report_file *f, uint64_t ns)
{
	char text[24];
	size_t at = sizeof(text);

	for (int digit = 0; digit < 10 || ns > 0; digit++) {
		if (digit == 9)
			text[--at] = '.';
		text[--at] = (char)('0' + ns % 10);
		ns /= 10;
	}
	shoal_out_write(&f->out, text + at, sizeof(text) - at);
}

static int commit(struct report_file *f, bool sync, struct shoal_err *err)
{
	int rc;

	shoal_out_flush(&f->out);
	rc = f->out.rc;
	shoal_out_release(&f->out);
	if (rc == 0)
		return sync ? shoal_publish_commit(&f->pub, err)
			    : shoal_publish_commit_unsynced(&f->pub, err);
	shoal_publish_abort(&f->pub);
	return shoal_fail_errno(err, rc, "cannot write '%.500s'", f->path);
}

int report_file_commit(struct report_file *f, struct shoal_err *err)
{
	return commit(f, true, err);
}

int report_file_commit_unsynced(struct report_file *f, struct shoal_err *err)
{
	return commit(f, false, err);
}

int report_sync(const char *folder, struct shoal_err *err)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot open '%.500s'", folder);
	if (syncfs(fd) < 0)
		rc = shoal_fail_errno(err, shoal_errno(), "cannot sync '%.500s'", folder);
	close(fd);
	return rc;
}

void report_file_abort(struct report_file *f)
{
	shoal_out_release(&f->out);
	shoal_publish_abort(&f->pub);
}

int report_write_text(const char *folder, const char *name, const char *text, struct shoal_err *err)
{
	struct report_file f;
	int rc = report_file_open(&f, folder, name, err);

	if (rc < 0)
		return rc;
	shoal_out_write(&f.out, text, strlen(text));
	return report_file_commit(&f, err);
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
