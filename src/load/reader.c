/* Single samples on request. Threads live for one call only: so nothing is lost in a fork, and a
 * thread costs far less than the latency of a store that needs many requests at once. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/out.h"
#include "base/queue.h"
#include "catalog/writer.h"
#include "load/loader.h"
#include "load/locate.h"
#include "store/posix/posix.h"
#include "store/store.h"

#define THREADS_MAX 256u

struct shoal_reader {
	const struct shoal_catalog *cat;
	struct store *store;
	bool synthetic; /* the store computes the bytes, of any size */
	bool if_match;  /* ETags must be as listed */
};

int shoal_reader_open(const struct shoal_catalog *cat, const char *store,
		      const struct shoal_store_config *config, struct shoal_reader **ret_reader,
		      struct shoal_err *err)
{
	struct shoal_reader *r = calloc(1, sizeof(*r));
	struct shoal_catalog_info info;
	int rc;

	if (!r)
		return err_set(err, -ENOMEM, "out of memory");
	shoal_catalog_info(cat, &info);
	r->cat = cat;
	rc = store_open(store ? store : info.root, config, &r->store, err);
	if (rc == 0) {
		r->synthetic = r->store->traits.synthetic;
		if (info.nr_bytes == SHOAL_SIZE_UNKNOWN && info.samples_per_file != 1)
			rc = err_set_hint(err, -EINVAL, SHOAL_HINT_SIZES,
					  "the catalog has no sizes, so the offsets of samples in "
					  "their files are unknown");
	}
	if (rc < 0)
		shoal_reader_close(r);
	else
		*ret_reader = r;
	return rc;
}

struct shoal_reader *shoal_reader_close(struct shoal_reader *r)
{
	if (r)
		store_close(r->store);
	free(r);
	return NULL;
}

int shoal_reader_if_match(struct shoal_reader *r, struct shoal_err *err)
{
	int rc = load_check_etags(r->cat, r->store->uri, err);

	r->if_match = rc == 0;
	return rc;
}

static int reader_locate(const struct shoal_reader *r, uint64_t sample, char *name,
			 struct load_stretch *ret_at, struct shoal_err *err)
{
	int rc = load_locate(r->cat, NULL, sample, name, ret_at);

	if (rc == -ERANGE)
		return err_set(err, rc, "there is no sample %" PRIu64, sample);
	return rc < 0 ? shoal_catalog_explain(r->cat, rc, err) : 0;
}

int shoal_reader_size(struct shoal_reader *r, uint64_t sample, uint64_t *ret_size,
		      struct shoal_err *err)
{
	char name[SHOAL_NAME_MAX + 1];
	struct store_stat st;
	struct load_stretch at;
	int rc = reader_locate(r, sample, name, &at, err);

	if (rc == 0 && at.len == SHOAL_SIZE_UNKNOWN) {
		rc = store_stat(r->store, name, &st, err);
		at.len = rc == 0 ? st.size : 0;
	}
	if (rc == 0)
		*ret_size = at.len;
	return rc;
}

/* Read @len bytes at @off of the sample's file, if it is the object that was listed. */
static int64_t reader_read_at(struct shoal_reader *r, const char *name, uint64_t file, uint64_t off,
			      void *buf, size_t len, struct shoal_err *err)
{
	struct etag etag;
	int rc = r->if_match ? catalog_etag_of(r->cat, file, &etag) : 0;
	int64_t got;

	if (rc < 0)
		return shoal_catalog_explain(r->cat, rc, err);
	if (!r->if_match || !etag_is_kept(&etag))
		return store_read(r->store, name, off, buf, len, err);
	got = store_read_if(r->store, name, &etag, off, buf, len, err);
	if (got == -ESTALE)
		err_hint(err, SHOAL_HINT_ETAGS, 0);
	return got;
}

int64_t shoal_reader_part(struct shoal_reader *r, uint64_t sample, uint64_t off, void *buf,
			  size_t len, struct shoal_err *err)
{
	char name[SHOAL_NAME_MAX + 1];
	struct load_stretch at;
	uint64_t want = len, more = 0;
	int64_t got;
	int rc = reader_locate(r, sample, name, &at, err);

	if (rc < 0)
		return rc;
	if (at.len != SHOAL_SIZE_UNKNOWN) {
		want = off < at.len ? u64_min(len, at.len - off) : 0;
		/* With the last bytes one more is read, to detect a file that has grown. */
		if (want > 1 && want == len && off + want == at.len)
			want--;
		more = !at.more && !r->synthetic && want < len && off + want == at.len;
	}
	if (want == 0)
		return 0;
	got = reader_read_at(r, name, at.file, at.off + off, buf, (size_t)(want + more), err);
	if (got >= 0 && (uint64_t)got < want && at.len != SHOAL_SIZE_UNKNOWN)
		return err_set(err, -ENODATA,
			       "'%.512s' has only %" PRIu64 " of the %" PRIu64
			       " bytes in the catalog",
			       name, off + (uint64_t)got, at.len);
	if (got >= 0 && (uint64_t)got > want)
		return err_set(err, -EFBIG,
			       "'%.512s' is larger than the %" PRIu64 " bytes in the catalog", name,
			       at.len);
	return got;
}

/* One byte more than expected, to detect a file that has grown. */
static int64_t read_bytes(struct shoal_reader *r, const struct shoal_read *read, const char *name,
			  const struct load_stretch *at, struct shoal_err *err)
{
	return reader_read_at(r, name, at->file, at->off, read->buf, read->len + 1, err);
}

static int read_one(struct shoal_reader *r, const struct shoal_read *read, struct shoal_err *err)
{
	char name[SHOAL_NAME_MAX + 1];
	struct shoal_err why = { "" };
	struct load_stretch at;
	int64_t got;
	int rc = reader_locate(r, read->sample, name, &at, err);

	if (rc < 0)
		return rc;
	got = read_bytes(r, read, name, &at, &why);
	if (got < 0)
		return err_set_as(err, (int)got, &why, "sample %" PRIu64 ": %s", read->sample,
				  why.msg);
	if ((uint64_t)got < read->len)
		return err_set(err, -ENODATA,
			       "sample %" PRIu64 ": '%.512s' has only %" PRId64 " of the %" PRIu64
			       " bytes in the catalog",
			       read->sample, name, got, read->len);
	if ((uint64_t)got > read->len && !at.more && !r->synthetic)
		return err_set(err, -EFBIG,
			       "sample %" PRIu64 ": '%.512s' is larger than the %" PRIu64
			       " bytes in the catalog",
			       read->sample, name, read->len);
	return 0;
}

/* Shared by the threads of one call. */
struct reader_crew {
	struct shoal_reader *reader;
	const struct shoal_read *reads;   /* samples, or */
	const struct shoal_range *ranges; /* parts of a file */
	const char *name;                 /* of that file */
	uint64_t file;
	size_t nr;
	atomic_size_t next;
	pthread_mutex_t lock; /* protects everything below */
	size_t failed;        /* the first that failed; nr: none did */
	int rc;
	struct shoal_err *err;
};

static int read_range(struct reader_crew *c, const struct shoal_range *range, struct shoal_err *err)
{
	int64_t got = reader_read_at(c->reader, c->name, c->file, range->off, range->buf,
				     (size_t)range->len, err);

	if (got >= 0 && (uint64_t)got < range->len)
		return err_set(err, -ENODATA,
			       "'%.512s' ends at %" PRIu64 ", before its end in the catalog",
			       c->name, range->off + (uint64_t)got);
	return got < 0 ? (int)got : 0;
}

static void *read_some(void *arg)
{
	struct reader_crew *c = arg;
	size_t i;

	while ((i = atomic_fetch_add(&c->next, 1)) < c->nr) {
		struct shoal_err err = { "" };
		int rc = c->reads ? read_one(c->reader, &c->reads[i], &err)
				  : read_range(c, &c->ranges[i], &err);

		if (rc == 0)
			continue;
		pthread_mutex_lock(&c->lock);
		if (i < c->failed) {
			c->failed = i;
			c->rc = rc;
			if (c->err)
				*c->err = err;
		}
		pthread_mutex_unlock(&c->lock);
		atomic_store(&c->next, c->nr); /* those before it are already being read */
	}
	return NULL;
}

static int reader_run(struct reader_crew *c, unsigned in_flight)
{
	unsigned nr_threads = (unsigned)u64_min(u64_min(in_flight, THREADS_MAX), c->nr);
	pthread_t thread[THREADS_MAX];
	unsigned started = 0;

	c->failed = c->nr;
	pthread_mutex_init(&c->lock, NULL);
	/* One less than wanted, because the caller reads too. Fewer threads are enough. */
	while (started + 1 < nr_threads && thread_start(&thread[started], read_some, c) == 0)
		started++;
	read_some(c);
	for (unsigned i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	pthread_mutex_destroy(&c->lock);
	return c->rc;
}

int shoal_reader_read(struct shoal_reader *r, const struct shoal_read *reads, size_t nr,
		      unsigned in_flight, struct shoal_err *err)
{
	struct reader_crew crew = { .reader = r, .reads = reads, .nr = nr, .err = err };

	return reader_run(&crew, in_flight);
}

/* ---- Ranges of one file ---- */

/*
 * All of them with one descriptor. Up to @in_flight ranges ahead are announced to the kernel, so
 * that the device reads them at the same time. Threads would cost more than most ranges, if these
 * are cached. Of several ranges the kernel is told that nothing else will be read: otherwise it
 * reads ahead what lies between them.
 */
static int ranges_of_file(const struct shoal_reader *r, const char *name,
			  const struct shoal_range *ranges, size_t nr, unsigned in_flight,
			  struct shoal_err *err)
{
	int fd = store_posix_open_file(store_posix_of(r->store), name, 0), rc = 0;
	size_t told = nr > 1 && in_flight > 1 ? 0 : 1;

	if (fd < 0)
		return err_set_errno(err, fd, "cannot open '%.512s'", name);
	if (nr > 1)
		(void)!posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (size_t i = 0; i < nr && rc == 0; i++) {
		for (; told < nr && told < i + in_flight; told++)
			(void)!posix_fadvise(fd, (off_t)ranges[told].off, (off_t)ranges[told].len,
					     POSIX_FADV_WILLNEED);
		rc = pread_all(fd, ranges[i].buf, (size_t)ranges[i].len, ranges[i].off);
		if (rc < 0)
			err_set_errno(err, rc,
				      "cannot read %" PRIu64 " bytes at %" PRIu64 " of '%.512s'",
				      ranges[i].len, ranges[i].off, name);
	}
	close(fd);
	return rc;
}

int shoal_reader_ranges(struct shoal_reader *r, uint64_t file, const struct shoal_range *ranges,
			size_t nr, unsigned in_flight, struct shoal_err *err)
{
	char name[SHOAL_NAME_MAX + 1];
	struct reader_crew crew = {
		.reader = r, .ranges = ranges, .nr = nr, .name = name, .file = file, .err = err
	};
	uint64_t size = 0;
	int len = shoal_catalog_name(r->cat, file, name), rc = len;

	if (rc >= 0)
		rc = shoal_catalog_size(r->cat, file, &size);
	if (rc == -ERANGE)
		return err_set(err, rc, "there is no file %" PRIu64, file);
	if (rc == 0 && strlen(name) != (size_t)len) /* a store would read another file */
		rc = -EILSEQ;
	if (rc < 0)
		return shoal_catalog_explain(r->cat, rc, err);
	for (size_t i = 0; i < nr; i++)
		if (ranges[i].off > size || ranges[i].len > size - ranges[i].off)
			return err_set(err, -EINVAL,
				       "'%.512s' has no bytes %" PRIu64 " to %" PRIu64, name,
				       ranges[i].off, ranges[i].off + ranges[i].len);
	if (store_posix_of(r->store) && !r->if_match)
		return ranges_of_file(r, name, ranges, nr, in_flight, err);
	return reader_run(&crew, in_flight);
}
