#include "index/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/out.h"
#include "base/publish.h"
#include "store/store.h"

int index_unit_next(struct span *list, struct index_unit_ref *ret_ref)
{
	const uint8_t *head;

	if (span_left(list) == 0)
		return 0;
	head = span_bytes(list, INDEX_UNIT_HEAD);
	ret_ref->len = list->bad ? 0 : le32_load(head);
	ret_ref->unit = span_bytes(list, ret_ref->len);
	return list->bad || ret_ref->len > STORE_UNIT_MAX ? -EBADMSG : 1;
}

/* A record is its length, the bytes, and the length again, to be read from both ends. */
typedef uint32_t mark;

int index_queue_init(struct index_queue *u, size_t memory, const char *tmp_dir,
		     struct shoal_err *err)
{
	*u = (struct index_queue){ .cap = memory, .tmp_dir = tmp_dir, .fd = -1 };
	u->bytes = malloc(memory);
	return u->bytes ? 0 : err_set(err, -ENOMEM, "out of memory");
}

void index_queue_release(struct index_queue *u)
{
	free(u->bytes);
	free(u->block);
	if (u->fd >= 0)
		close(u->fd);
	*u = (struct index_queue){ .fd = -1 };
}

static mark mark_at(const struct index_queue *u, size_t at)
{
	mark m;

	memcpy(&m, u->bytes + at, sizeof(m));
	return m;
}

static int unit_queue_add_block(struct index_queue *u, struct index_queue_block b)
{
	if (u->nr_blocks == u->cap_blocks) {
		size_t cap = u->cap_blocks ? 2 * u->cap_blocks : 16;
		struct index_queue_block *grown = realloc(u->block, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		u->block = grown;
		u->cap_blocks = cap;
	}
	u->block[u->nr_blocks++] = b;
	return 0;
}

/* Move the older half of the units in memory to the file. */
static int put_aside(struct index_queue *u, struct shoal_err *err)
{
	struct index_queue_block b = { 0 };
	size_t at = u->head;
	int rc;

	if (u->fd < 0) {
		u->fd = spill_open(u->tmp_dir, err);
		if (u->fd < 0)
			return u->fd;
	}
	while (at - u->head < (u->tail - u->head) / 2)
		at += mark_at(u, at) + 2 * sizeof(mark);
	if (u->nr_blocks)
		b.off = u->block[u->nr_blocks - 1].off + u->block[u->nr_blocks - 1].len;
	b.len = at - u->head;
	rc = pwrite_all(u->fd, u->bytes + u->head, (size_t)b.len, b.off);
	if (rc == 0)
		rc = unit_queue_add_block(u, b);
	if (rc < 0)
		return spill_failed(err, rc, u->tmp_dir);
	u->head = at;
	return 0;
}

static uint8_t *put_record(uint8_t *p, const void *unit, size_t len)
{
	mark m = (mark)len;

	memcpy(p, &m, sizeof(m));
	memcpy(p + sizeof(m), unit, len);
	memcpy(p + sizeof(m) + len, &m, sizeof(m));
	return p + len + 2 * sizeof(m);
}

static void move_to_front(struct index_queue *u)
{
	memmove(u->bytes, u->bytes + u->head, u->tail - u->head);
	u->tail -= u->head;
	u->head = 0;
}

int index_queue_push(struct index_queue *u, const void *unit, size_t len, struct shoal_err *err)
{
	size_t need = len + 2 * sizeof(mark);

	assert(need <= u->cap / 2);
	if (len > STORE_UNIT_MAX) /* receivers have room for no more */
		return err_set(err, -EMSGSIZE, "a unit of a listing has more than %u bytes",
			       STORE_UNIT_MAX);
	if (u->cap - u->tail < need) {
		if (u->cap - (u->tail - u->head) < u->cap / 2) {
			int rc = put_aside(u, err);

			if (rc < 0)
				return rc;
		}
		move_to_front(u);
	}
	put_record(u->bytes + u->tail, unit, len);
	u->tail += need;
	u->nr++;
	return 0;
}

/* The record that ends at @end. */
static struct index_unit_ref ref_before(const struct index_queue *u, size_t end)
{
	size_t len = mark_at(u, end - sizeof(mark));

	return (struct index_unit_ref){ .unit = u->bytes + end - sizeof(mark) - len, .len = len };
}

bool index_queue_insert(struct index_queue *u, const struct index_unit_ref *refs, size_t nr,
			index_queue_before_fn *before, void *self)
{
	size_t need = 0, at;
	uint8_t *p;

	for (size_t i = 0; i < nr; i++)
		need += refs[i].len + 2 * sizeof(mark);
	if (u->cap - (u->tail - u->head) < need)
		return false;
	if (u->cap - u->tail < need)
		move_to_front(u);
	for (at = u->tail; at > u->head;) {
		struct index_unit_ref r = ref_before(u, at);

		if (!before(self, &r, &refs[0]))
			break;
		at -= r.len + 2 * sizeof(mark);
	}
	if (at == u->head && u->nr_blocks > 0) /* it may belong among those in the file */
		return false;
	if (at > u->head) {
		struct index_unit_ref below = ref_before(u, at);

		if (before(self, &below, &refs[nr - 1]))
			return false;
	}
	p = u->bytes + at;
	memmove(p + need, p, u->tail - at);
	for (size_t i = nr; i-- > 0;)
		p = put_record(p, refs[i].unit, refs[i].len);
	u->tail += need;
	u->nr += nr;
	return true;
}

/* Bring back the units that were moved to the file last. */
static int bring_back(struct index_queue *u, struct shoal_err *err)
{
	struct index_queue_block b = u->block[u->nr_blocks - 1];
	int rc = pread_all(u->fd, u->bytes, (size_t)b.len, b.off);

	if (rc < 0)
		return err_set_errno(err, rc, "cannot read a temporary file back");
	u->nr_blocks--;
	u->head = 0;
	u->tail = (size_t)b.len;
	return 0;
}

int index_queue_top(struct index_queue *u, struct index_unit_ref *ret_ref, struct shoal_err *err)
{
	if (u->nr == 0)
		return 0;
	if (u->head == u->tail) {
		int rc = bring_back(u, err);

		if (rc < 0)
			return rc;
	}
	*ret_ref = ref_before(u, u->tail);
	return 1;
}

int index_queue_pop(struct index_queue *u, void *unit, size_t *ret_len, struct shoal_err *err)
{
	struct index_unit_ref top;
	int rc = index_queue_top(u, &top, err);

	if (rc <= 0)
		return rc;
	memcpy(unit, top.unit, top.len);
	u->tail -= top.len + 2 * sizeof(mark);
	u->nr--;
	*ret_len = top.len;
	return 1;
}

int index_queue_pop_oldest(struct index_queue *u, void *unit, size_t room, size_t *ret_len)
{
	size_t len;

	if (u->head == u->tail)
		return 0;
	len = mark_at(u, u->head);
	if (len > room)
		return 0;
	memcpy(unit, u->bytes + u->head + sizeof(mark), len);
	u->head += len + 2 * sizeof(mark);
	u->nr--;
	*ret_len = len;
	return 1;
}

size_t index_queue_export(struct index_queue *u, uint64_t most, uint8_t *buf, size_t room)
{
	size_t used = 0, len;

	for (; most > 0 && room - used > INDEX_UNIT_HEAD; most--) {
		uint8_t *unit = buf + used + INDEX_UNIT_HEAD;
		struct le32 head;

		if (!index_queue_pop_oldest(u, unit, room - used - INDEX_UNIT_HEAD, &len))
			break;
		head = le32_of((uint32_t)len);
		memcpy(buf + used, &head, sizeof(head));
		used += INDEX_UNIT_HEAD + len;
	}
	return used;
}

static int each_of(const uint8_t *bytes, size_t len, index_unit_fn *take, void *self,
		   struct shoal_err *err)
{
	int rc = 0;

	for (size_t at = 0; at < len && rc == 0;) {
		mark m;

		memcpy(&m, bytes + at, sizeof(m));
		rc = take(self, NULL, bytes + at + sizeof(m), m, err);
		at += m + 2 * sizeof(m);
	}
	return rc;
}

int index_queue_each(const struct index_queue *u, index_unit_fn *take, void *self,
		     struct shoal_err *err)
{
	uint8_t *block = u->nr_blocks ? malloc(u->cap) : NULL;
	int rc = 0;

	if (u->nr_blocks && !block)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < u->nr_blocks && rc == 0; i++) {
		size_t len = (size_t)u->block[i].len;

		rc = pread_all(u->fd, block, len, u->block[i].off);
		rc = rc < 0 ? err_set_errno(err, rc, "cannot read a temporary file back")
			    : each_of(block, len, take, self, err);
	}
	free(block);
	return rc < 0 ? rc : each_of(u->bytes + u->head, u->tail - u->head, take, self, err);
}

/* ---- Handoffs ---- */

struct index_handoff {
	struct index_handoff *next;
	struct index_handoff_id id;
	size_t len;
	uint8_t list[];
};

struct index_handoff *index_handoff_new(size_t room)
{
	return malloc(sizeof(struct index_handoff) + room);
}

void index_handoffs_keep(struct index_handoffs *h, struct index_handoff *handoff, int to,
			 uint64_t nr, const uint8_t *list, size_t len)
{
	/* Allocate no more than it needs. */
	struct index_handoff *small = realloc(handoff, sizeof(*handoff) + len);

	if (small)
		handoff = small;
	*handoff = (struct index_handoff){ .next = h->first,
					   .id = { .to = to, .nr = nr },
					   .len = len };
	memcpy(handoff->list, list, len);
	h->first = handoff;
	h->bytes += sizeof(*handoff) + len;
}

void index_handoffs_ack(struct index_handoffs *h, int to, uint64_t nr)
{
	for (struct index_handoff **at = &h->first; *at;) {
		struct index_handoff *one = *at;

		if (one->id.to != to || one->id.nr > nr) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		h->bytes -= sizeof(*one) + one->len;
		free(one);
	}
}

int index_handoffs_each(const struct index_handoffs *h, index_unit_fn *take, void *self,
			struct shoal_err *err)
{
	int rc = 0;

	for (const struct index_handoff *one = h->first; one && rc == 0; one = one->next) {
		struct span list = { .p = one->list, .end = one->list + one->len };
		struct index_unit_ref ref;

		while (rc == 0 && index_unit_next(&list, &ref) > 0)
			rc = take(self, &one->id, ref.unit, ref.len, err);
	}
	return rc;
}

void index_handoffs_release(struct index_handoffs *h)
{
	while (h->first) {
		struct index_handoff *one = h->first;

		h->first = one->next;
		free(one);
	}
}
