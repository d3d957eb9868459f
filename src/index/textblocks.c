/*
 * The rest of a text list that is a file, read in blocks on several threads. A line belongs to the
 * block in which it begins. Numbers of lines are needed for errors only, and counted then.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/out.h"
#include "base/queue.h"
#include "index/textlist.h"

/* Fewer bytes are not worth a thread. */
#define LEAST_PER_THREAD (2u << 20)

/* Entries that go to the sorter together. */
#define AT_ONCE 256u

/* How often the owner shows progress. */
#define TICK_NS 50000000

struct block_reading {
	struct textlist *list;
	uint64_t from, end;     /* bytes of the file */
	uint64_t next;          /* atomic: the block that no thread has begun */
	uint64_t limit;         /* atomic: blocks from this one on are not begun, after an error */
	uint64_t nr_names;      /* atomic */
	pthread_mutex_t lock;   /* protects the rest */
	pthread_cond_t changed; /* a thread has ended */
	unsigned nr_running;
	uint64_t bad; /* the first block with an error; UINT64_MAX: there is none */
	int rc;       /* its error */
	struct shoal_err err;
};

/* A thread that reads, and its block. */
struct block_reader {
	struct block_reading *r;
	unsigned lane;
	pthread_t thread;
	char *buf;
	uint64_t block;
	uint64_t line; /* of those that begin in the block, from 0 */
	uint64_t nr_blank;
	bool sorter_failed; /* which is not the block's fault */
	size_t nr;          /* entries */
	struct sort_entry entry[AT_ONCE];
	uint8_t payload[AT_ONCE * (INDEX_RECORD_MAX + TEXTBLOCKS_ORDER)];
};

/* ---- Numbers of lines ---- */

/* How many lines end in the bytes [from, to) of the file. */
static int textblocks_count_lines(const struct block_reader *b, uint64_t from, uint64_t to,
				  uint64_t *ret_nr)
{
	const struct textlist *l = b->r->list;
	char *buf = malloc(READ_BYTES);
	int rc = buf ? 0 : -ENOMEM;

	*ret_nr = 0;
	while (rc == 0 && from < to) {
		size_t n = (size_t)u64_min(READ_BYTES, to - from);

		rc = pread_all(l->fd, buf, n, from);
		for (const char *p = buf;
		     rc == 0 && (p = memchr(p, l->separator, (size_t)(buf + n - p))); p++)
			++*ret_nr;
		from += n;
	}
	free(buf);
	return rc;
}

/* Where a block begins. */
static uint64_t block_at(const struct block_reading *r, uint64_t block)
{
	return u64_min(r->from + block * READ_BYTES, r->end);
}

/* The number of line @local of this block, whose first begins @skipped bytes after the block. */
static uint64_t number_of(const struct block_reader *b, uint64_t skipped, uint64_t local)
{
	uint64_t before = 0;

	if (textblocks_count_lines(b, b->r->from, block_at(b->r, b->block) + skipped, &before) < 0)
		return 0; /* the file has changed, or cannot be read any more */
	return b->r->list->line + before + local + 1;
}

/* ---- One block ---- */

static void fail_reading(struct block_reader *b, uint64_t block, int rc,
			 const struct shoal_err *err)
{
	struct block_reading *r = b->r;

	pthread_mutex_lock(&r->lock);
	if (r->rc == 0 || block < r->bad) {
		r->bad = block;
		r->rc = rc;
		r->err = *err;
	}
	if (block < __atomic_load_n(&r->limit, __ATOMIC_RELAXED))
		__atomic_store_n(&r->limit, block, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&r->lock);
}

static int send_entries(struct block_reader *b, struct shoal_err *err)
{
	int rc = b->nr > 0 ? sorter_add_many(b->r->list->job.sorter, b->lane, b->entry, b->nr,
					     /* group= */ false, err)
			   : 0;

	__atomic_add_fetch(&b->r->nr_names, b->nr, __ATOMIC_RELAXED);
	b->nr = 0;
	b->sorter_failed = rc < 0;
	return rc;
}

static int add_entry(struct block_reader *b, const struct textline *line, struct shoal_err *err)
{
	unsigned order_len = b->r->list->job.order_len;
	uint8_t *payload = b->payload + b->nr * (INDEX_RECORD_MAX + TEXTBLOCKS_ORDER);
	size_t len = index_record_put(&line->record, payload);

	if (order_len) { /* most significant byte first: it is compared as bytes */
		uint32_t order = __builtin_bswap32((uint32_t)b->block + 1);

		memcpy(payload + len, &order, TEXTBLOCKS_ORDER);
		len += TEXTBLOCKS_ORDER;
	}
	b->entry[b->nr++] = (struct sort_entry){ .name = (const uint8_t *)line->text,
						 .len = line->len,
						 .payload = payload,
						 .payload_len = len };
	return b->nr == AT_ONCE ? send_entries(b, err) : 0;
}

/* Read the block, the byte before it, and as much after it as a line may have. */
static int read_block(const struct block_reader *b, size_t *ret_before, size_t *ret_fill)
{
	const struct block_reading *r = b->r;
	uint64_t at = block_at(r, b->block);
	size_t before = b->block > 0;

	*ret_before = before;
	*ret_fill = (size_t)u64_min(before + READ_BYTES + LINE_MAX_BYTES + 1, r->end - at + before);
	return pread_all(r->list->fd, b->buf, *ret_fill, at - before);
}

/* Line @line of the block has an error: report it with its number, which is known only now. */
static int bad_line(const struct block_reader *b, struct textline line, uint64_t skipped,
		    struct shoal_err *err)
{
	line.number = number_of(b, skipped, b->line);
	return textlist_parse(b->r->list, &line, err);
}

static int take_lines(struct block_reader *b, const char *at, const char *stop, const char *end,
		      struct shoal_err *err)
{
	const struct textlist *l = b->r->list;
	const char *first = at;
	size_t before = b->block > 0;
	uint64_t skipped = (uint64_t)(first - b->buf) - before;
	bool ends_file = block_at(b->r, b->block) + (uint64_t)(end - b->buf) - before == b->r->end;

	for (b->line = 0; at < stop; b->line++) {
		const char *next = memchr(at, l->separator, (size_t)(end - at));
		struct textline line = { .text = at,
					 .len = (size_t)((next ? next : end) - at),
					 .number = UINT64_MAX };
		struct textline whole = line;
		int rc;

		if (!next && !ends_file)
			return textlist_too_long(at, line.len, number_of(b, skipped, b->line), err);
		rc = textlist_parse(l, &line, NULL);
		if (rc < 0)
			return bad_line(b, whole, skipped, err);
		b->nr_blank += rc == 0;
		if (rc > 0)
			rc = add_entry(b, &line, err);
		if (rc < 0)
			return rc;
		at = next ? next + 1 : end;
	}
	return 0;
}

static int do_block(struct block_reader *b, struct shoal_err *err)
{
	size_t before, fill;
	const char *at = b->buf, *stop;
	int rc = read_block(b, &before, &fill);

	if (rc < 0)
		return err_set_errno(err, rc, "cannot read the list");
	stop = b->buf + before + u64_min(READ_BYTES, fill - before);
	if (before) { /* a line begins after the first separator */
		at = memchr(b->buf, b->r->list->separator, (size_t)(stop - b->buf));
		if (!at)
			return 0;
		at++;
	}
	rc = take_lines(b, at, stop, b->buf + fill, err);
	return rc < 0 ? rc : send_entries(b, err);
}

static void *block_thread(void *arg)
{
	struct block_reader *b = arg;
	struct block_reading *r = b->r;
	int rc = 0;

	while (rc == 0) {
		struct shoal_err err = { "" };

		b->block = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED);
		if (b->block >= __atomic_load_n(&r->limit, __ATOMIC_RELAXED))
			break;
		rc = do_block(b, &err);
		if (rc < 0)
			fail_reading(b, b->sorter_failed ? 0 : b->block, rc, &err);
	}
	pthread_mutex_lock(&r->lock);
	r->nr_running--;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* ---- All blocks ---- */

static bool position(const struct textlist *l, uint64_t *ret_at, uint64_t *ret_end)
{
	struct stat st;
	off_t at = lseek(l->fd, 0, SEEK_CUR);

	if (at < 0 || fstat(l->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < at)
		return false;
	*ret_at = (uint64_t)at - (l->fill - l->at);
	*ret_end = (uint64_t)st.st_size;
	return true;
}

unsigned textblocks_threads(const struct textlist *l)
{
	uint64_t at, end, most = u64_min(SORTER_LANES_MAX, u64_max(2, cores_available() / 2));

	if (cores_available() == 1 || !position(l, &at, &end))
		return 1;
	return (unsigned)u64_max(1, u64_min(most, (end - at) / LEAST_PER_THREAD));
}

/* Wait for all threads, and show progress meanwhile. */
static void wait_for_readers(struct block_reading *r)
{
	const struct shoal_index_options *o = r->list->job.options;

	pthread_mutex_lock(&r->lock);
	while (r->nr_running > 0) {
		struct timespec until = clock_time(clock_now() + TICK_NS);
		bool stop;

		(void)!pthread_cond_timedwait(&r->changed, &r->lock, &until);
		stop = stop_requested(o->stop);
		if (stop)
			__atomic_store_n(&r->limit, 0, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&r->lock);
		if (o->progress && !stop)
			o->progress(o->self, &(struct shoal_index_progress){
						     .nr_names = r->list->job.nr_added +
								 __atomic_load_n(&r->nr_names,
										 __ATOMIC_RELAXED),
						     .where = "" });
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
}

/* With as many threads as can be started, or on this one. */
static void run_readers(struct block_reading *r, struct block_reader *reader, unsigned nr)
{
	unsigned nr_started = 0;

	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < nr; i++) {
		if (thread_start(&reader[i].thread, block_thread, &reader[i]) < 0)
			break;
		nr_started++;
	}
	r->nr_running = nr_started ? nr_started : 1;
	pthread_mutex_unlock(&r->lock);
	if (nr_started == 0)
		block_thread(&reader[0]);
	wait_for_readers(r);
	for (unsigned i = 0; i < nr_started; i++)
		pthread_join(reader[i].thread, NULL);
}

static void init_reading(struct block_reading *r, struct textlist *l)
{
	*r = (struct block_reading){ .list = l, .bad = UINT64_MAX };
	pthread_mutex_init(&r->lock, NULL);
	cond_init_steady(&r->changed);
}

static int textblocks_read_all(struct block_reading *r, unsigned nr, struct shoal_err *err)
{
	struct block_reader *reader = calloc(nr, sizeof(*reader));
	int rc = reader ? 0 : -ENOMEM;

	for (unsigned i = 0; i < nr && rc == 0; i++) {
		reader[i].r = r;
		reader[i].lane = i;
		reader[i].buf = malloc(1 + READ_BYTES + LINE_MAX_BYTES + 1);
		rc = reader[i].buf ? 0 : -ENOMEM;
	}
	if (rc == 0)
		run_readers(r, reader, nr);
	for (unsigned i = 0; reader && i < nr; i++) {
		r->list->nr_blank += reader[i].nr_blank;
		free(reader[i].buf);
	}
	free(reader);
	return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

int textblocks_read(struct textlist *l, unsigned nr_threads, struct shoal_err *err)
{
	struct block_reading r;
	int rc;

	init_reading(&r, l);
	if (!position(l, &r.from, &r.end))
		r.end = r.from = 0;
	r.limit = (r.end - r.from + READ_BYTES - 1) / READ_BYTES;
	rc = textblocks_read_all(&r, nr_threads, err);
	if (rc == 0 && stop_requested(l->job.options->stop))
		rc = err_set(err, -ECANCELED, "interrupted");
	else if (rc == 0 && r.rc < 0)
		rc = err_set_as(err, r.rc, &r.err, "%s", r.err.msg);
	l->job.nr_added += r.nr_names;
	(void)!lseek(l->fd, (off_t)r.end, SEEK_SET); /* it has been read */
	pthread_cond_destroy(&r.changed);
	pthread_mutex_destroy(&r.lock);
	return rc;
}
