/*
 * Goal: whatever stretches the names of sources lie in, they come out in order, each once with what
 * the last source says of it; and what would not make a catalog is refused by who merges.
 */
#include "index/tournament.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "help.h"

#define NR_CHUNKS   7u
#define CHUNK_BYTES (1u << 18)
#define NR_NAMES    6000u

/* Chunks that own their memory, and what is packed from them. */
struct chunks {
	struct index_chunk chunk[NR_CHUNKS];
	struct index_pack pack[NR_CHUNKS];
	uint8_t *packed[NR_CHUNKS];
};

static struct chunks make_chunks(void)
{
	struct chunks c;

	for (unsigned i = 0; i < NR_CHUNKS; i++)
		index_chunk_init(&c.chunk[i], allocate(CHUNK_BYTES, 1), CHUNK_BYTES);
	return c;
}

static void free_chunks(struct chunks *c)
{
	for (unsigned i = 0; i < NR_CHUNKS; i++) {
		free(c->chunk[i].bytes);
		free(c->packed[i]);
	}
}

static void sort_chunks(struct chunks *c)
{
	uint8_t *spare = allocate(CHUNK_BYTES, 1);

	for (unsigned i = 0; i < NR_CHUNKS; i++) {
		c->packed[i] = allocate(c->chunk[i].packed, 1);
		c->pack[i] = index_chunk_sort(&c->chunk[i], spare, c->packed[i]);
	}
	free(spare);
}

static void put(struct index_chunk *c, const char *name, size_t len, uint64_t size)
{
	struct shoal_entry e = {
		.name = (const uint8_t *)name, .len = len, .size = size, .samples = 1
	};

	assert_true(index_chunk_put(c, &e));
}

struct taken {
	uint32_t nr;
	char last[32];
	uint64_t size[NR_NAMES]; /* by number */
};

static int take(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct taken *t = self;
	char name[32] = "";

	(void)err;
	assert_true(e->len < sizeof(name));
	memcpy(name, e->name, e->len);
	assert_true(strcmp(t->last, name) < 0);
	memcpy(t->last, name, sizeof(name));
	t->size[e->len > strlen("folder/") ? strtoul(name + strlen("folder/"), NULL, 10) : 0] =
		e->size;
	t->nr++;
	return 0;
}

static int play(const struct chunks *c, struct taken *taken, uint64_t *repeated,
		struct shoal_err *err)
{
	struct index_tournament t;
	int rc = index_tournament_of_packs(&t, c->pack, NR_CHUNKS);

	assert_int_equal(rc, 0);
	rc = index_tournament_play(&t, NULL, repeated, take, taken, err);
	index_tournament_release(&t);
	return rc;
}

/* Stretches of one name, of some, and of more than a source has. */
static void stretches_of_any_length_come_out_in_order(void **state)
{
	static const uint32_t stretch[] = { 1, 2, 3, 10, 100, NR_NAMES };

	(void)state;
	for (size_t s = 0; s < SHOAL_ARRAY_LEN(stretch); s++) {
		struct chunks c = make_chunks();
		struct taken *taken = allocate(1, sizeof(*taken));
		uint64_t repeated = 0, again = 0;
		uint32_t to = 0, where[NR_NAMES];
		char name[32];

		for (uint32_t i = 0; i < NR_NAMES; i++) {
			if (i % stretch[s] == 0)
				to = (to * 5 + 3 + i / 7) % NR_CHUNKS;
			snprintf(name, sizeof(name), "folder/%06u", i);
			put(&c.chunk[to], name, strlen(name), to);
			where[i] = to;
			if (i % 11 == 0) { /* in another source, too: the later one is believed */
				uint32_t other = (to + 2) % NR_CHUNKS;

				put(&c.chunk[other], name, strlen(name), other);
				where[i] = to > other ? to : other;
				again++;
			}
		}
		sort_chunks(&c);
		assert_int_equal(play(&c, taken, &repeated, NULL), 0);
		assert_int_equal(taken->nr, NR_NAMES);
		assert_int_equal(repeated, again);
		for (uint32_t i = 0; i < NR_NAMES; i++)
			if (taken->size[i] != where[i])
				fail_msg("name %u of stretches of %u is of source %" PRIu64
					 " and not %u",
					 i, stretch[s], taken->size[i], where[i]);
		free_chunks(&c);
		free(taken);
	}
}

static int play_run(const uint8_t *bytes, size_t len)
{
	struct index_run run = { .len = len };
	struct index_tournament t;
	struct taken *taken = allocate(1, sizeof(*taken));
	uint8_t *memory = allocate(1 << 16, 1);
	uint64_t repeated = 0;
	int fd = memfd_create("run", MFD_CLOEXEC), rc;

	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	rc = index_tournament_of_runs(&t, fd, &run, 1, memory, 1 << 16);
	if (rc == 0)
		rc = index_tournament_play(&t, NULL, &repeated, take, taken, NULL);
	index_tournament_release(&t);
	close(fd);
	free(memory);
	free(taken);
	return rc;
}

/* A run in a file: how much of the last name is kept, how much comes, size, samples, bytes. */
static void what_is_wrong_in_a_run_is_refused(void **state)
{
	static const struct {
		size_t len;
		uint8_t bytes[12];
		int rc;
	} row[] = {
		{ 5, { 0, 1, 1, 1, 'a' }, 0 },
		{ 4, { 0, 0, 1, 1 }, -EIO },                            /* a name of no bytes */
		{ 9, { 0, 0, 1, 1, 0, 1, 1, 1, 'a' }, -EIO },           /* before another */
		{ 10, { 0, 1, 1, 1, 'b', 0, 1, 1, 1, 'a' }, -EBADMSG }, /* falling */
		{ 9, { 0, 1, 1, 1, 'b', 2, 0, 1, 1 }, -EIO }, /* kept more than there was */
		{ 5, { 0, 1, 1, 1, 0 }, -EINVAL },            /* NUL */
	};

	(void)state;
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(row); i++)
		if (play_run(row[i].bytes, row[i].len) != row[i].rc)
			fail_msg("row %zu: not %d", i, row[i].rc);
}

static void a_name_with_a_nul_is_refused_wherever_it_is(void **state)
{
	(void)state;
	for (size_t at = 0; at < 9; at++) {
		uint8_t run[] = { 0, 9, 1, 1, 'f', 'o', 'l', 'd', 'e', 'r', '/', '2', '2' };

		assert_int_equal(play_run(run, sizeof(run)), 0);
		run[4 + at] = '\0';
		assert_int_equal(play_run(run, sizeof(run)), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stretches_of_any_length_come_out_in_order),
		cmocka_unit_test(what_is_wrong_in_a_run_is_refused),
		cmocka_unit_test(a_name_with_a_nul_is_refused_wherever_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
