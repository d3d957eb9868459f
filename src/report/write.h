/* write.h - text that is built piece by piece, and files that are published when complete. */
#ifndef SHOAL_REPORT_WRITE_H
#define SHOAL_REPORT_WRITE_H

#include "base/json.h"
#include "base/out.h"
#include "base/publish.h"

/* A file being written. Errors stick. */
struct report_file {
	struct publish pub;
	struct out out;
	char path[4096];
};

int report_file_open(struct report_file *f, const char *folder, const char *name,
		     struct shoal_err *err) MUST_USE;
/* A writer of JSON to the file, each member of the document on a line. */
struct json report_json(struct report_file *f);
/* Without waiting for the disk: see report_sync(). */
int report_file_commit_unsynced(struct report_file *f, struct shoal_err *err) MUST_USE;
int report_file_commit(struct report_file *f, struct shoal_err *err) MUST_USE;
void report_file_abort(struct report_file *f);

/* Sync the files committed unsynced in the folder, and everything else on its file system. */
int report_sync(const char *folder, struct shoal_err *err) MUST_USE;

/* Formatted text into a file, at most 16 KB at a time. */
void report_printf(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Write @text to a file. */
int report_write_text(const char *folder, const char *name, const char *text,
		      struct shoal_err *err) MUST_USE;

/*
 * The text of a JSON object, which the caller frees: @put writes its members. @form: indent and
 * lines. -ENOMEM.
 */
typedef void report_put_fn(struct json *j, const void *self);
int report_text(report_put_fn *put, const void *self, struct json form, char **ret_text,
		struct shoal_err *err) MUST_USE;

/* "2026-11-15T23:15:05.123456", UTC, in DLIO's format. */
#define REPORT_TIME_BYTES 32
void report_time(uint64_t ns, char *buf);

#endif
