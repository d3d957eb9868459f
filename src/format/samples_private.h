/* samples_private.h - shared by the kinds of samples. */
#ifndef SHOAL_FORMAT_SAMPLES_PRIVATE_H
#define SHOAL_FORMAT_SAMPLES_PRIVATE_H

#include "format/format_private.h"
#include "format/samples.h"

/* A search: the file, and the receiver of its samples. */
struct samples_search {
	const struct format_source *file;
	uint64_t record_len;
	samples_found_fn *found;
	void *self;
	struct shoal_err *err;
	uint64_t nr, end; /* found so far, and the end of the last of them */
};

struct samples_kind {
	const char *name;
	const char *suffix[3];
	int (*find)(struct samples_search *s);
	bool covers; /* see samples_kind_covers() */
	bool text;   /* any bytes have lines, so compression is looked for first */
};

/* Report the next sample. -EBADMSG if it does not come after the previous one, inside the file. */
int samples_report(struct samples_search *s, uint64_t off, uint64_t len, uint64_t rows) MUST_USE;

/* Report the samples of an array at @off: @nr samples of @len bytes each, contiguous. */
int samples_report_array(struct samples_search *s, uint64_t off, uint64_t len,
			 uint64_t nr) MUST_USE;

/* The samples of the .npy at [@off, @off + @len) of the file. */
int samples_find_npy_at(struct samples_search *s, uint64_t off, uint64_t len) MUST_USE;

int samples_find_arrow(struct samples_search *s) MUST_USE;
int samples_find_csv(struct samples_search *s) MUST_USE;
int samples_find_hdf5(struct samples_search *s) MUST_USE;
int samples_find_indexed(struct samples_search *s) MUST_USE;
int samples_find_jsonl(struct samples_search *s) MUST_USE;
int samples_find_npy(struct samples_search *s) MUST_USE;
int samples_find_npz(struct samples_search *s) MUST_USE;
int samples_find_parquet(struct samples_search *s) MUST_USE;
int samples_find_tar(struct samples_search *s) MUST_USE;
int samples_find_tfrecord(struct samples_search *s) MUST_USE;
int samples_find_webdataset(struct samples_search *s) MUST_USE;

#endif
