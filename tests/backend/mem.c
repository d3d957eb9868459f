#include "mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define PLACES     8u
#define THINGS_MAX 65536u
#define BYTES_MAX  (1u << 30)
#define PAGE       100u /* names that are listed before others are asked whether they are idle */

struct thing {
	char *name;
	struct buf bytes;
};

struct place {
	char name[64];
	const char *key;      /* or NULL */
	struct thing *things; /* rising by name */
	size_t nr;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all places */
static struct place places[PLACES];

struct mem_store {
	struct store base;
	struct place *place;
	char *prefix; /* "" or ends in a slash */
};

struct mem_writer {
	struct store_writer base;
	struct thing thing;
};

static struct mem_store *mem_of(struct store *s)
{
	return (struct mem_store *)s;
}

/* ---- Places and things: with the lock held ---- */

static struct place *find_place(const char *name, size_t len)
{
	for (size_t i = 0; i < PLACES; i++) {
		struct place *p = &places[i];

		if (p->name[0] == '\0')
			snprintf(p->name, sizeof(p->name), "%.*s", (int)len, name);
		if (strlen(p->name) == len && memcmp(p->name, name, len) == 0)
			return p;
	}
	return NULL;
}

/* The first thing whose name is not less than @name. */
static size_t lower_bound(const struct place *p, const char *name)
{
	size_t lo = 0, hi = p->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(p->things[mid].name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct thing *find_thing(const struct mem_store *m, const char *name)
{
	char *whole = NULL;
	struct thing *found = NULL;
	size_t at;

	if (asprintf(&whole, "%s%s", m->prefix, name) < 0)
		return NULL;
	at = lower_bound(m->place, whole);
	if (at < m->place->nr && strcmp(m->place->things[at].name, whole) == 0)
		found = &m->place->things[at];
	free(whole);
	return found;
}

static void release_thing(struct thing *t)
{
	free(t->name);
	buf_release(&t->bytes);
}

static int insert(struct place *p, const struct thing *t)
{
	size_t at = lower_bound(p, t->name);
	struct thing *grown;

	if (at < p->nr && strcmp(p->things[at].name, t->name) == 0) {
		release_thing(&p->things[at]);
		p->things[at] = *t;
		return 0;
	}
	if (p->nr == THINGS_MAX)
		return -ENOSPC;
	grown = realloc(p->things, (p->nr + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	p->things = grown;
	memmove(grown + at + 1, grown + at, (p->nr - at) * sizeof(*grown));
	grown[at] = *t;
	p->nr++;
	return 0;
}

void mem_lock(const char *place, const char *key)
{
	pthread_mutex_lock(&lock);
	find_place(place, strlen(place))->key = key;
	pthread_mutex_unlock(&lock);
}

void mem_clear(void)
{
	for (size_t i = 0; i < PLACES; i++) {
		for (size_t k = 0; k < places[i].nr; k++)
			release_thing(&places[i].things[k]);
		free(places[i].things);
		places[i] = (struct place){ .nr = 0 };
	}
}

/* ---- The table ---- */

static int not_there(const char *name, struct shoal_err *err)
{
	return err_set(err, -ENOENT, "'%.200s' is not there", name);
}

static int mem_stat(struct store *s, const char *name, struct store_stat *ret_stat,
		    struct shoal_err *err)
{
	const struct thing *t;
	int rc = 0;

	pthread_mutex_lock(&lock);
	t = find_thing(mem_of(s), name);
	if (t)
		*ret_stat = (struct store_stat){ .size = t->bytes.len };
	else
		rc = not_there(name, err);
	pthread_mutex_unlock(&lock);
	return rc;
}

static int64_t mem_read(struct store *s, const char *name, uint64_t off, void *buf, size_t len,
			struct shoal_err *err)
{
	const struct thing *t;
	int64_t n = 0;

	pthread_mutex_lock(&lock);
	t = find_thing(mem_of(s), name);
	if (!t)
		n = not_there(name, err);
	else if (off < t->bytes.len)
		n = (int64_t)u64_min(len, t->bytes.len - off);
	if (n > 0)
		memcpy(buf, (const uint8_t *)t->bytes.data + off, (size_t)n);
	pthread_mutex_unlock(&lock);
	return n;
}

static void mem_abort(struct store_writer *w)
{
	release_thing(&((struct mem_writer *)w)->thing);
	free(w);
}

static int mem_create(struct store *s, const char *name, struct store_writer **ret_writer,
		      struct shoal_err *err)
{
	struct mem_writer *w = calloc(1, sizeof(*w));

	if (!w || asprintf(&w->thing.name, "%s%s", mem_of(s)->prefix, name) < 0) {
		free(w);
		return err_set(err, -ENOMEM, "out of memory");
	}
	w->base.store = s;
	w->thing.bytes.max = BYTES_MAX;
	*ret_writer = &w->base;
	return 0;
}

static int mem_write(struct store_writer *w, const void *data, size_t len, struct shoal_err *err)
{
	struct buf *b = &((struct mem_writer *)w)->thing.bytes;

	buf_append(b, data, len);
	return b->rc < 0 ? err_set_errno(err, b->rc, "cannot keep it") : 0;
}

static int mem_commit(struct store_writer *base, struct shoal_err *err)
{
	struct mem_writer *w = (struct mem_writer *)base;
	int rc;

	pthread_mutex_lock(&lock);
	rc = insert(mem_of(base->store)->place, &w->thing);
	pthread_mutex_unlock(&lock);
	if (rc < 0) {
		mem_abort(base);
		return err_set_errno(err, rc, "cannot keep it");
	}
	free(w);
	return 0;
}

/* ---- Listing: a unit is two names, ended by NULs; what is from the first on, up to the second ---
 */

struct listing {
	struct mem_store *store;
	const struct store_list_options *options;
	struct store_sink *sink;
	size_t at, end; /* things that are left of the unit */
};

static int take_page(struct listing *l, struct shoal_err *err)
{
	size_t prefix = strlen(l->store->prefix), nr = 0;
	struct store_entry entries[PAGE];

	for (size_t n = 0; n < PAGE && l->at < l->end; n++, l->at++) {
		const struct thing *t = &l->store->place->things[l->at];
		const char *name = t->name + prefix;

		if (!store_is_wanted(l->sink, name, strlen(name))) {
			l->sink->skipped[STORE_SKIP_FILTERED]++;
			continue;
		}
		entries[nr++] = (struct store_entry){
			.name = name,
			.len = strlen(name),
			.size = l->options->sizes ? t->bytes.len : SHOAL_SIZE_UNKNOWN,
		};
	}
	return nr ? l->sink->found(l->sink, entries, nr, err) : 0;
}

/* Hand half of what is left to somebody who has nothing to do. */
static int share(struct listing *l, struct shoal_err *err)
{
	const struct thing *things = l->store->place->things;
	size_t cut = l->at + (l->end - l->at) / 2, len;
	char unit[2 * (SHOAL_NAME_MAX + 1)];

	if (l->end - l->at < 2 * PAGE || !l->sink->nr_idle || l->sink->nr_idle(l->sink) == 0)
		return 0;
	len = (size_t)snprintf(unit, sizeof(unit), "%s%c%s", things[cut].name, '\0',
			       things[l->end - 1].name);
	l->end = cut;
	return l->sink->add_unit(l->sink, unit, len + 1, err);
}

static int take_unit(struct listing *l, const char *unit, size_t len, struct shoal_err *err)
{
	const struct place *p = l->store->place;
	const char *second;

	if (len == 0) {
		l->at = lower_bound(p, l->store->prefix);
		for (l->end = l->at;
		     l->end < p->nr && strncmp(p->things[l->end].name, l->store->prefix,
					       strlen(l->store->prefix)) == 0;)
			l->end++;
		return 0;
	}
	second = memchr(unit, '\0', len);
	if (!second ||
	    memchr(second + 1, '\0', (size_t)(unit + len - second) - 1) != unit + len - 1)
		return err_set(err, -EBADMSG, "a unit of the listing is damaged");
	l->at = lower_bound(p, unit);
	l->end = u64_min(lower_bound(p, second + 1) + 1, p->nr);
	return 0;
}

/* Nobody writes meanwhile: so that the names, which are lent, stay. */
static int mem_list(struct store *s, const struct store_list_options *options, const void *unit,
		    size_t len, struct store_sink *sink, struct shoal_err *err)
{
	struct listing l = { .store = mem_of(s), .options = options, .sink = sink };
	int rc = take_unit(&l, unit, len, err);

	while (rc == 0 && l.at < l.end) {
		rc = take_page(&l, err);
		if (rc == 0)
			rc = share(&l, err);
		if (rc == 0 && sink->stop && __atomic_load_n(sink->stop, __ATOMIC_RELAXED))
			rc = err_set(err, -ECANCELED, "interrupted");
	}
	return rc;
}

static void mem_close(struct store *s)
{
	free(mem_of(s)->prefix);
	free(s->uri);
	free(s);
}

static const struct store_ops mem_ops = {
	.kind = "mem",
	.close = mem_close,
	.stat = mem_stat,
	.read = mem_read,
	.create = mem_create,
	.write = mem_write,
	.commit = mem_commit,
	.abort = mem_abort,
	.list = mem_list,
};

/* ---- Opening ---- */

static int mem_check(const struct store_uri *uri, struct shoal_err *err)
{
	if (uri->authority_len == 0 || uri->authority_len >= sizeof(places[0].name))
		return err_set(err, -EINVAL, "'%.200s' has no place: mem://place/prefix",
			       uri->text);
	return 0;
}

static int mem_open(const struct store_uri *uri, const struct shoal_store_config *config,
		    struct store **ret_store, struct shoal_err *err)
{
	const char *key = config && config->secret_key ? config->secret_key : "";
	struct mem_store *m = calloc(1, sizeof(*m));
	size_t len = strlen(uri->path);
	int rc = 0;

	if (!m)
		return err_set(err, -ENOMEM, "out of memory");
	while (len > 0 && uri->path[len - 1] == '/')
		len--;
	m->base.ops = &mem_ops;
	m->base.traits = uri->kind->traits;
	pthread_mutex_lock(&lock);
	m->place = find_place(uri->authority, uri->authority_len);
	pthread_mutex_unlock(&lock);
	if (!m->place)
		rc = err_set(err, -ENOSPC, "there are %u places already", PLACES);
	else if (m->place->key && strcmp(m->place->key, key) != 0)
		rc = err_set(err, -EACCES, "the key is not that of %s", m->place->name);
	else if (asprintf(&m->prefix, "%.*s%s", (int)len, uri->path, len ? "/" : "") < 0 ||
		 asprintf(&m->base.uri, "mem://%s%s%.*s", m->place->name, len ? "/" : "", (int)len,
			  uri->path) < 0)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc < 0)
		mem_close(&m->base);
	else
		*ret_store = &m->base;
	return rc;
}

const struct store_kind store_mem_kind = {
	.prefix = "mem://",
	.traits = { .objects = true, .any_name = true },
	.check = mem_check,
	.open = mem_open,
};
