#include "sort/run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/span.h"

int sort_runs_add(struct sort_runs *runs, const struct sort_run *run)
{
	if (runs->nr == runs->cap) {
		size_t cap = runs->cap ? 2 * runs->cap : 64;
		struct sort_run *grown = realloc(runs->run, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		runs->run = grown;
		runs->cap = cap;
	}
	runs->run[runs->nr++] = *run;
	return 0;
}

size_t sort_runs_count(const struct sort_runs *runs)
{
	size_t nr = 0;

	for (size_t i = 0; i < runs->nr; i++)
		nr += !runs->run[i].more;
	return nr;
}

void sort_runs_release(struct sort_runs *runs)
{
	free(runs->run);
	*runs = (struct sort_runs){ 0 };
}

void sort_run_start(struct sort_run_writer *w, struct out *out)
{
	w->out = out;
	w->start = out_tell(out);
	w->first_len = w->last_len = 0;
	w->in_block = 0;
}

/* Begin with the next block where there is not sure to be room in this one. */
static void begin_block(struct sort_run_writer *w)
{
	size_t left = RUN_BLOCK - w->in_block;

	memset(out_room(w->out, left), 0, left);
	w->out->fill += left;
	w->in_block = 0;
}

void sort_run_put(struct sort_run_writer *w, const struct sort_entry *e)
{
	size_t keep = name_shared(w->last, w->last_len, e->name, e->len);
	uint8_t *room, *p;

	if (w->in_block + RUN_ENTRY_MAX > RUN_BLOCK)
		begin_block(w);
	if (w->in_block == 0)
		keep = 0;
	p = room = out_room(w->out, RUN_ENTRY_MAX);
	p = varint_put(p, keep);
	p = varint_put(p, e->len - keep);
	*p++ = (uint8_t)e->payload_len;
	p = sort_payload_copy(p, e->payload, e->payload_len);
	memcpy(p, e->name + keep, e->len - keep);
	p += e->len - keep;
	w->out->fill += (size_t)(p - room);
	w->in_block += (size_t)(p - room);
	if (w->last_len == 0) {
		memcpy(w->first, e->name, e->len);
		w->first_len = e->len;
	}
	memcpy(w->last + keep, e->name + keep, e->len - keep);
	w->last_len = e->len;
}

struct sort_run sort_run_end(const struct sort_run_writer *w)
{
	return (struct sort_run){
		.off = w->start,
		.len = out_tell(w->out) - w->start,
		/* Sorted, so all names share what the first and the last share. */
		.shared = (uint32_t)name_shared(w->first, w->first_len, w->last, w->last_len),
	};
}

static void open_piece(struct sort_run_reader *r, const struct sort_run *piece)
{
	r->piece = piece;
	r->start = r->off = piece->off;
	r->end = piece->off + piece->len;
	r->at = r->fill = 0;
}

void sort_run_open(struct sort_run_reader *r, int fd, const struct sort_run *run, uint8_t *buf,
		   size_t cap)
{
	r->fd = fd;
	r->buf = buf;
	r->cap = cap;
	r->done = false;
	open_piece(r, run);
	r->entry = (struct sort_entry){ .name = r->name };
}

/* Move the rest to the front of the buffer and read more after it. */
static int sort_run_refill(struct sort_run_reader *r)
{
	size_t left = r->fill - r->at;
	size_t more;
	int rc;

	memmove(r->buf, r->buf + r->at, left);
	more = (size_t)u64_min(r->cap - left, r->end - r->off);
	rc = pread_all(r->fd, r->buf + left, more, r->off);
	if (rc < 0)
		return rc;
	r->off += more;
	r->at = 0;
	r->fill = left + more;
	return 0;
}

/* Step over what is left of a block; that is less than an entry may take. */
static int skip_block(struct sort_run_reader *r)
{
	uint64_t at = r->off - (r->fill - r->at) - r->start;
	size_t left = RUN_BLOCK - (size_t)(at % RUN_BLOCK);

	if (left > r->fill - r->at || left == RUN_BLOCK) /* a block has an entry */
		return -EIO;
	r->at += left;
	r->entry.len = 0; /* the next name is whole */
	return 0;
}

int sort_run_next(struct sort_run_reader *r)
{
	struct span s;
	uint64_t keep, more;
	const uint8_t *bytes;

	if (r->fill - r->at < RUN_ENTRY_MAX && r->off < r->end) {
		int rc = sort_run_refill(r);

		if (rc < 0)
			return rc;
	}
	if (r->at == r->fill) {
		r->done = !r->piece->more;
		if (r->done)
			return 0;
		open_piece(r, r->piece + 1); /* it begins with a whole name */
		return sort_run_next(r);
	}
	s = (struct span){ .p = r->buf + r->at, .end = r->buf + r->fill };
	keep = span_varint(&s);
	more = span_varint(&s);
	if (UNLIKELY(keep + more == 0)) {
		int rc = skip_block(r);

		return rc < 0 ? rc : sort_run_next(r);
	}
	r->entry.payload_len = span_u8(&s);
	r->entry.payload = span_bytes(&s, r->entry.payload_len);
	bytes = span_bytes(&s, more);
	if (s.bad || r->entry.payload_len > SORT_PAYLOAD_MAX || keep > r->entry.len ||
	    more > SHOAL_NAME_MAX - keep)
		return -EIO;
	/* the spill file was modified by another process */
	memcpy(r->name + keep, bytes, (size_t)more);
	r->entry.len = (size_t)(keep + more);
	r->at = (size_t)(s.p - r->buf);
	return 0;
}

int sort_run_name(int fd, const struct sort_run *run, uint64_t block, uint8_t name[SHOAL_NAME_MAX])
{
	struct sort_run one = { .off = run->off + block * RUN_BLOCK,
				.len = u64_min(RUN_BLOCK, run->len - block * RUN_BLOCK) };
	struct sort_run_reader r;
	uint8_t buf[RUN_ENTRY_MAX];
	int rc;

	sort_run_open(&r, fd, &one, buf, sizeof(buf));
	rc = sort_run_next(&r);
	if (rc < 0)
		return rc;
	if (r.done) /* a block has an entry */
		return -EIO;
	memcpy(name, r.entry.name, r.entry.len);
	return (int)r.entry.len;
}

/* Of the blocks, how many begin before @name, or with it if @with_equal. Their first names rise. */
static int blocks_before(int fd, const struct sort_run *run, const uint8_t *name, size_t len,
			 bool with_equal, uint64_t *ret_nr)
{
	uint64_t low = 0, high = sort_run_blocks(run);
	uint8_t first[SHOAL_NAME_MAX];

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		int first_len = sort_run_name(fd, run, mid, first), c;

		if (first_len < 0)
			return first_len;
		c = name_compare(first, (size_t)first_len, name, len);
		if (c < 0 || (c == 0 && with_equal))
			low = mid + 1;
		else
			high = mid;
	}
	*ret_nr = low;
	return 0;
}

/* Whether the next piece of @run begins before @name, or with it: then nothing of this one is at or
 * after it. */
static int next_begins_before(int fd, const struct sort_run *run, const uint8_t *name, size_t len)
{
	uint8_t first[SHOAL_NAME_MAX];
	int first_len;

	if (!run->more || run[1].len == 0)
		return 0;
	first_len = sort_run_name(fd, &run[1], 0, first);
	return first_len < 0 ? first_len : name_compare(first, (size_t)first_len, name, len) <= 0;
}

int sort_run_narrow(int fd, const struct sort_run *run, const struct sort_range *range,
		    struct sort_run *ret_run)
{
	uint64_t first = 0, end = sort_run_blocks(run), last;
	int rc = 0;

	if (range->from_len > 0)
		rc = next_begins_before(fd, run, range->from, range->from_len);
	if (rc > 0) {
		*ret_run = *run;
		ret_run->len = 0;
		return 0;
	}
	if (rc < 0)
		return rc;

	if (range->from_len > 0)
		rc = blocks_before(fd, run, range->from, range->from_len, true, &first);
	if (rc == 0 && range->to_len > 0)
		rc = blocks_before(fd, run, range->to, range->to_len, false, &end);
	if (rc < 0)
		return rc;
	first -= first > 0; /* the range may begin inside the block before */
	last = u64_max(first, end);
	*ret_run = *run;
	ret_run->off += first * RUN_BLOCK;
	ret_run->len = u64_min(run->len, last * RUN_BLOCK) - first * RUN_BLOCK;
	return 0;
}
