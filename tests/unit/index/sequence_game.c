#include "sequence_game.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "entries.h"
#include "store/posix/posix.h"

static const struct store_ops ops = { .kind = "made up",
				      .unit = store_posix_unit,
				      .unit_start = store_posix_unit_start };
struct store game_store = { .ops = &ops };

/* ---- A tree ---- */

/* Letters around the slash, so that directories and files with longer names come between. */
static const char letters[] = "-.0\xff";

static void grow(struct tree *t, const char *dir, unsigned depth)
{
	/* Some have enough files for a digest of their own. */
	size_t nr = depth == 0 && random_below(3) == 0 ? 8 + random_below(12) : random_below(7);

	if (*dir)
		list_add(&t->dirs, dir, strlen(dir), 0, 0);
	for (size_t i = 0; i < nr; i++) {
		char name[64];
		size_t len = strlen(dir), more = 1 + random_below(3);

		memcpy(name, dir, len);
		if (len > 0)
			name[len++] = '/';
		for (size_t k = 0; k < more; k++)
			name[len++] = letters[random_below(sizeof(letters) - 1)];
		/* No file has a directory's name, and neither is called "." or "..". */
		if (depth == 0 || i % 2)
			name[len++] = 'f';
		else if (name[len - 1] == '.')
			name[len - 1] = 'a';
		name[len] = '\0';
		if (name[len - 1] == 'f')
			list_add(&t->files, name, len, i, 1);
		else
			grow(t, name, depth - 1);
	}
}

struct tree tree_make(unsigned depth)
{
	struct tree t = { 0 };

	grow(&t, "", depth);
	list_sort(&t.files);
	list_sort(&t.dirs);
	return t;
}

void tree_release(struct tree *t)
{
	list_release(&t->files);
	list_release(&t->dirs);
}

/* Whether @e lies in directory @dir, and in none below that. */
static bool lies_in(const struct test_entry *e, const char *dir, size_t len)
{
	size_t skip = len > 0 ? len + 1 : 0;

	return e->len > skip && memcmp(e->name, dir, len) == 0 &&
	       (len == 0 || e->name[len] == '/') && !memchr(e->name + skip, '/', e->len - skip);
}

/* ---- Threads, one step at a time ---- */

int game_take_next(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct game *g = self;

	if (g->taken.nr == g->fail_at)
		return err_set(err, -ENOSPC, "no room");
	assert_int_equal(index_record_of(e).samples, 7);
	list_add(&g->taken, e->name, e->len, size_of_entry(e), 1);
	return 0;
}

/* Digests packs as a catalog's are, but refuses every fifth number of names. */
static bool game_see_pack(void *self, const struct pack *pack, struct cat_digest *ret_digest)
{
	const uint8_t *at = pack->bytes;
	struct sort_entry e;

	(void)self;
	while (at < pack->bytes + pack->len) {
		at = pack_entry(at, &e);
		(void)cat_digest_add(ret_digest, e.name, e.len, size_of_entry(&e), 7);
	}
	return pack->nr % 5 > 0;
}

static int game_take_pack(void *self, const uint8_t *at, const uint8_t *to,
			  const struct cat_digest *digest, struct shoal_err *err)
{
	struct cat_digest own = { .nr_files = 0 };
	struct game *g = self;
	int rc = 0;

	while (at < to && rc == 0) {
		struct sort_entry e;

		at = pack_entry(at, &e);
		(void)cat_digest_add(&own, e.name, e.len, size_of_entry(&e), 7);
		rc = game_take_next(g, &e, err);
	}
	if (rc == 0)
		assert_memory_equal(&own, digest, sizeof(own));
	g->nr_packs++;
	return rc;
}

int game_take_rest(void *self, unsigned thread, const struct sort_entry *entries, size_t nr,
		   bool group, struct shoal_err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of threads of a walk */
	struct game *g = self;

	(void)thread;
	(void)group;
	(void)err;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < nr; i++)
		list_add(&g->rest, entries[i].name, entries[i].len, size_of_entry(&entries[i]), 1);
	pthread_mutex_unlock(&lock);
	return 0;
}

struct game *game_new(struct tree tree, size_t room)
{
	struct game *g = allocate(1, sizeof(*g));

	g->tree = tree;
	g->fail_at = SIZE_MAX;
	g->o = (struct index_sequence){ .store = &game_store,
					.take = game_take_next,
					.see = game_see_pack,
					.take_pack = game_take_pack,
					.self = g,
					.room = room,
					.nr_threads = NR_THREADS };
	assert_true(index_sequence_init(&g->o));
	assert_int_equal(index_queue_init(&g->units, 1u << 20, test_dir(), NULL), 0);
	assert_int_equal(index_queue_push(&g->units, "", 0, NULL), 0);
	return g;
}

void game_free(struct game *g)
{
	index_sequence_release(&g->o);
	index_queue_release(&g->units);
	tree_release(&g->tree);
	list_release(&g->taken);
	list_release(&g->rest);
	list_release(&g->told);
	free(g);
}

void game_begin(struct game *g, unsigned t)
{
	assert_int_equal(index_queue_pop(&g->units, g->unit[t], &g->unit_len[t], NULL), 1);
	index_sequence_begin(&g->o, t, g->unit[t], g->unit_len[t]);
	g->at_work[t] = true;
}

/* How often something is told. */
static uint64_t times(const struct game *g)
{
	return g->fickle ? random_below(3) : 1;
}

static void tell_directories(struct game *g, unsigned t, const char *dir, size_t len)
{
	for (size_t i = g->tree.dirs.nr; i-- > 0;) {
		const struct test_entry *e = &g->tree.dirs.entry[i];
		uint8_t unit[256];
		size_t unit_len;

		if (!lies_in(e, dir, len))
			continue;
		unit_len = store_posix_unit(&game_store, e->name, e->len, unit);
		for (uint64_t k = times(g); k > 0; k--)
			if (index_sequence_is_over(&g->o) ||
			    !index_sequence_more(&g->o, t, unit, unit_len))
				assert_int_equal(index_queue_push(&g->units, unit, unit_len, NULL),
						 0);
	}
}

/* In any order, a few at a time. */
static void tell_in_parts(struct game *g, unsigned t, struct sort_entry *entry, size_t nr)
{
	for (size_t i = nr; i > 1; i--) {
		size_t k = random_below(i);
		struct sort_entry e = entry[k];

		entry[k] = entry[i - 1];
		entry[i - 1] = e;
	}
	while (nr > 0) {
		size_t some = 1 + random_below(nr);

		if (index_sequence_is_over(&g->o) || !index_sequence_found(&g->o, t, entry, some))
			assert_int_equal(game_take_rest(g, 0, entry, some, false, NULL), 0);
		entry += some;
		nr -= some;
	}
}

static void tell_files(struct game *g, unsigned t, const char *dir, size_t len)
{
	struct sort_entry entry[64];
	uint8_t payload[64][INDEX_RECORD_MAX];
	size_t nr = 0;

	for (size_t i = 0; i < g->tree.files.nr; i++) {
		const struct test_entry *e = &g->tree.files.entry[i];

		if (!lies_in(e, dir, len))
			continue;
		for (uint64_t k = times(g); k > 0; k--) {
			entry[nr] = entry_with(e->name, e->len, e->size, 7, NULL, payload[nr]);
			nr++;
			list_add(&g->told, e->name, e->len, e->size, 1);
		}
	}
	if (nr > 0 && g->o.room == MUCH_ROOM && random_below(2))
		tell_in_parts(g, t, entry, nr);
	else if (nr > 0 &&
		 (index_sequence_is_over(&g->o) || !index_sequence_found(&g->o, t, entry, nr)))
		assert_int_equal(game_take_rest(g, 0, entry, nr, false, NULL), 0);
}

int game_hand_on(struct game *g, struct shoal_err *err)
{
	struct index_waiting *s;
	const uint8_t *to;
	int rc = 0;

	while (rc == 0 && (s = index_sequence_next(&g->o, &g->units, &to)) != NULL) {
		rc = index_sequence_hand_on(&g->o, s, to, err);
		index_sequence_give_back(&g->o, s);
	}
	return rc;
}

void game_end(struct game *g, unsigned t)
{
	const char *dir = "";
	size_t len = 0;

	assert_true(store_posix_unit_start(&game_store, g->unit[t], g->unit_len[t], &dir, &len));
	len -= len > 0; /* its slash */
	tell_directories(g, t, dir, len);
	tell_files(g, t, dir, len);
	assert_int_equal(index_sequence_sort(&g->o, t, NULL), 0);
	assert_int_equal(index_sequence_end(&g->o, t, &g->units, NULL), 0);
	g->at_work[t] = false;
}

bool game_step(struct game *g)
{
	unsigned first = (unsigned)random_below(NR_THREADS);

	for (unsigned i = 0; i < NR_THREADS; i++) {
		unsigned t = (first + i) % NR_THREADS;

		if (g->at_work[t])
			game_end(g, t);
		else if (g->units.nr > 0)
			game_begin(g, t);
		else
			continue;
		return true;
	}
	return false;
}

void game_check(struct game *g)
{
	struct test_list all = { 0 };

	assert_int_equal(index_sequence_rest(&g->o, SIZE_MAX, game_take_rest, g, NULL), 0);
	for (size_t i = 0; i < g->taken.nr + g->rest.nr; i++) {
		const struct test_entry *e =
			i < g->taken.nr ? &g->taken.entry[i] : &g->rest.entry[i - g->taken.nr];
		size_t before = (size_t)u64_min(i, g->taken.nr);
		const struct test_entry *last = before ? &g->taken.entry[before - 1] : NULL;

		if (last && name_compare(last->name, last->len, e->name, e->len) >= 0)
			fail_msg("'%s' after '%s'", e->name, last->name);
		list_add(&all, e->name, e->len, e->size, 1);
	}
	list_sort(&all);
	assert_int_equal(g->taken.nr + g->rest.nr, g->tree.files.nr);
	for (size_t i = 0; i < all.nr; i++) {
		assert_string_equal(all.entry[i].name, g->tree.files.entry[i].name);
		assert_int_equal(all.entry[i].size, g->tree.files.entry[i].size);
	}
	list_release(&all);
	assert_null(g->o.first);
	assert_int_equal(g->o.used, 0);
}
