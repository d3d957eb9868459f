#include "index/run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/span.h"

int index_runs_add(struct index_runs *runs, const struct index_run *run)
{
	if (runs->nr == runs->cap) {
		size_t cap = runs->cap ? 2 * runs->cap : 64;
		struct index_run *grown = realloc(runs->run, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		runs->run = grown;
		runs->cap = cap;
	}
	runs->run[runs->nr++] = *run;
	return 0;
}

void index_runs_release(struct index_runs *runs)
{
	free(runs->run);
	*runs = (struct index_runs){ 0 };
}

void index_run_start(struct index_run_writer *w, struct shoal_out *out)
{
	w->out = out;
	w->start = shoal_out_tell(out);
	w->first_len = w->last_len = 0;
	w->etags = false;
}

void index_run_put(struct index_run_writer *w, const struct shoal_entry *e)
{
	size_t keep = shoal_name_shared(w->last, w->last_len, e->name, e->len);
	uint8_t *room = shoal_out_room(w->out, RUN_ENTRY_MAX);
	uint8_t *p = room;

	if (w->last_len == 0)
		w->etags = e->etag;
	assert(w->etags == (e->etag != NULL));
	p = shoal_varint_put(p, keep);
	p = shoal_varint_put(p, e->len - keep);
	p = shoal_varint_put(p, e->size + 1); /* unknown becomes 0 */
	p = shoal_varint_put(p, e->samples);
	if (w->etags) {
		memcpy(p, e->etag, sizeof(*e->etag));
		p += sizeof(*e->etag);
	}
	memcpy(p, e->name + keep, e->len - keep);
	p += e->len - keep;
	w->out->fill += (size_t)(p - room);
	if (w->last_len == 0) {
		memcpy(w->first, e->name, e->len);
		w->first_len = e->len;
	}
	memcpy(w->last + keep, e->name + keep, e->len - keep);
	w->last_len = e->len;
}

struct index_run index_run_end(const struct index_run_writer *w)
{
	return (struct index_run){
		.off = w->start,
		.len = shoal_out_tell(w->out) - w->start,
		.etags = w->etags,
		/* In order, so what the first and the last share, all share. */
		.shared = (uint32_t)shoal_name_shared(w->first, w->first_len, w->last, w->last_len),
	};
}

void index_run_open(struct index_run_reader *r, int fd, const struct index_run *run, uint8_t *buf,
		    size_t cap)
{
	r->fd = fd;
	r->off = run->off;
	r->end = run->off + run->len;
	r->buf = buf;
	r->cap = cap;
	r->at = r->fill = 0;
	r->done = false;
	r->etags = run->etags;
	r->entry = (struct shoal_entry){ .name = r->name };
}

/* Keep what is left in the buffer and read more behind it. */
static int refill(struct index_run_reader *r)
{
	size_t left = r->fill - r->at;
	size_t more;
	int rc;

	memmove(r->buf, r->buf + r->at, left);
	more = (size_t)shoal_min(r->cap - left, r->end - r->off);
	rc = shoal_pread_all(r->fd, r->buf + left, more, r->off);
	if (rc < 0)
		return rc;
	r->off += more;
	r->at = 0;
	r->fill = left + more;
	return 0;
}

int index_run_next(struct index_run_reader *r)
{
	struct shoal_span s;
	uint64_t keep, more;
	const uint8_t *bytes, *etag;

	if (r->fill - r->at < RUN_ENTRY_MAX && r->off < r->end) {
		int rc = refill(r);

		if (rc < 0)
			return rc;
	}
	if (r->at == r->fill) {
		r->done = true;
		return 0;
	}
	s = (struct shoal_span){ .p = r->buf + r->at, .end = r->buf + r->fill };
	keep = shoal_span_varint(&s);
	more = shoal_span_varint(&s);
	r->entry.size = shoal_span_varint(&s) - 1;
	r->entry.samples = shoal_span_varint(&s);
	etag = shoal_span_bytes(&s, r->etags ? sizeof(struct shoal_etag) : 0);
	r->entry.etag = r->etags ? (const struct shoal_etag *)(const void *)etag : NULL;
	bytes = shoal_span_bytes(&s, more);
	if (s.bad || keep > r->entry.len || more > SHOAL_NAME_MAX - keep || keep + more == 0)
		return -EIO; /* our own file was changed behind our back */
	memcpy(r->name + keep, bytes, (size_t)more);
	r->entry.len = (size_t)(keep + more);
	r->at = (size_t)(s.p - r->buf);
	return 0;
}
