#include "list/content.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define RUN_BUFFER (16u << 10)

void list_content_release(struct list_content *c)
{
	buf_release(&c->bytes);
	free(c->refs);
	if (c->fd >= 0)
		close(c->fd);
	*c = (struct list_content){ .fd = -1 };
}

int list_content_put(struct list_content *c, const struct sort_entry *e, unsigned tag)
{
	size_t off = c->bytes.len;

	if (c->nr == c->cap) {
		size_t cap = c->cap ? 2 * c->cap : 16;
		struct sort_ref *refs = realloc(c->refs, cap * sizeof(*refs));

		if (!refs)
			return -ENOMEM;
		c->refs = refs;
		c->cap = cap;
	}
	buf_append(&c->bytes, e->name, e->len);
	buf_u8(&c->bytes, (uint8_t)e->payload_len);
	buf_append(&c->bytes, e->payload, e->payload_len);
	c->refs[c->nr++] = (struct sort_ref){ .off = (uint32_t)off,
					      .len = (uint16_t)e->len,
					      .tag = (uint16_t)tag };
	return c->bytes.rc;
}

struct sort_entry list_content_at(const struct list_content *c, size_t i)
{
	const uint8_t *name = c->bytes.data + c->refs[i].off;
	size_t len = c->refs[i].len;

	return (struct sort_entry){
		.name = name, .len = len, .payload = name + len + 1, .payload_len = name[len]
	};
}

int list_content_sort(struct list_content *c)
{
	struct sort_ref *spare = malloc(u64_max(c->nr, 1) * sizeof(*spare));

	if (!spare)
		return -ENOMEM;
	sort_radix(c->bytes.data, c->refs, spare, c->nr, 0);
	free(spare);
	return 0;
}

size_t list_content_memory(const struct list_content *c)
{
	return c->bytes.cap + c->cap * sizeof(*c->refs) + (c->fd >= 0 ? 2 * RUN_BUFFER : 0);
}

int list_content_read(const struct list_content *c, struct list_reader *r, bool dirs,
		      struct sort_entry *ret_entry)
{
	if (c->fd < 0) {
		while (dirs && r->at < c->nr && c->refs[r->at].tag != LIST_DIR)
			r->at++;
		if (r->at >= c->nr)
			return 0;
		*ret_entry = list_content_at(c, r->at++);
		return 1;
	}
	if (!r->run) {
		r->run = malloc(sizeof(*r->run) + RUN_BUFFER);
		if (!r->run)
			return -ENOMEM;
		sort_run_open(r->run, c->fd, &c->run, (uint8_t *)(r->run + 1), RUN_BUFFER);
	}
	do {
		int rc = sort_run_next(r->run);

		if (rc < 0 || r->run->done)
			return rc;
	} while (dirs && r->run->entry.name[r->run->entry.len - 1] != '/');
	*ret_entry = r->run->entry;
	return 1;
}
