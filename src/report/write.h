/* write.h - text that is put together piece by piece, and files that appear all at once. */
#ifndef SHOAL_REPORT_WRITE_H
#define SHOAL_REPORT_WRITE_H

#include "base/out.h"
#include "base/publish.h"

/* A file on its way. Errors stick. */
struct report_file {
	struct shoal_publish pub;
	struct shoal_out out;
	char path[4096];
};

int report_file_open(struct report_file *f, const char *folder, const char *name,
		     struct shoal_err *err) SHOAL_MUST_USE;
void report_put(struct report_file *f, const char *fmt, ...) SHOAL_PRINTF(2, 3);
/* A JSON string, in quotes; bytes that are not UTF-8 become U+FFFD. */
void report_put_string(struct report_file *f, const char *text);
/* "12.000000345" */
void report_put_seconds(struct report_file *f, uint64_t ns);
/* Without waiting for the disk: see report_sync(). */
int report_file_commit_unsynced(struct report_file *f, struct shoal_err *err) SHOAL_MUST_USE;
int report_file_commit(struct report_file *f, struct shoal_err *err) SHOAL_MUST_USE;
void report_file_abort(struct report_file *f);

/* What was committed unsynced in the folder, and whatever else its file system holds back. */
int report_sync(const char *folder, struct shoal_err *err) SHOAL_MUST_USE;

/* All of @text under a name. */
int report_write_text(const char *folder, const char *name, const char *text,
		      struct shoal_err *err) SHOAL_MUST_USE;

/* "2026-11-15T23:15:05.123456", UTC, as DLIO has times. */
#define REPORT_TIME_BYTES 32
void report_time(uint64_t ns, char *buf);

#endif
