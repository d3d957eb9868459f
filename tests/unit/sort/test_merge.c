/*
 * Goal: whatever stretches the names of sources lie in, they come out in order, each once with what
 * the last source says of it; and what would not make a catalog is refused by who merges.
 */
#include "sort/merge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "entries.h"
#include "help.h"

#define NR_CHUNKS   7u
#define CHUNK_BYTES (1u << 18)
#define NR_NAMES    6000u

/* Chunks that own their memory, and what is packed from them. */
struct chunks {
	struct packer chunk[NR_CHUNKS];
	struct pack pack[NR_CHUNKS];
	uint8_t *packed[NR_CHUNKS];
};

static struct chunks make_chunks(void)
{
	struct chunks c;

	for (unsigned i = 0; i < NR_CHUNKS; i++)
		packer_init(&c.chunk[i], allocate(CHUNK_BYTES, 1), CHUNK_BYTES);
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
		c->packed[i] = allocate(packer_packed(&c->chunk[i]), 1);
		c->pack[i] = packer_sort(&c->chunk[i], spare, c->packed[i]);
	}
	free(spare);
}

static void put(struct packer *c, const char *name, size_t len, uint64_t size)
{
	uint8_t payload[INDEX_RECORD_MAX];
	struct sort_entry e = entry_with(name, len, size, 1, NULL, payload);

	assert_int_equal(packer_put(c, &e, 1), 1);
}

struct taken {
	uint32_t nr;
	char last[32];
	uint64_t size[NR_NAMES]; /* by number */
};

static int take(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct taken *t = self;
	char name[32] = "";

	(void)err;
	assert_true(e->len < sizeof(name));
	memcpy(name, e->name, e->len);
	assert_true(strcmp(t->last, name) < 0);
	memcpy(t->last, name, sizeof(name));
	t->size[e->len > strlen("folder/") ? strtoul(name + strlen("folder/"), NULL, 10) : 0] =
		size_of_entry(e);
	t->nr++;
	return 0;
}

static int play(const struct chunks *c, struct taken *taken, uint64_t *repeated,
		struct shoal_err *err)
{
	struct tournament t;
	int rc = tournament_of_packs(&t, c->pack, NR_CHUNKS);

	assert_int_equal(rc, 0);
	rc = tournament_play(&t, NULL, repeated, take, taken, err);
	tournament_release(&t);
	return rc;
}

/* Stretches of one name, of some, and of more than a source has. */
static void stretches_of_any_length_come_out_in_order(void **state)
{
	static const uint32_t stretch[] = { 1, 2, 3, 10, 100, NR_NAMES };

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(stretch); s++) {
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
	struct sort_run run = { .len = len };
	struct tournament t;
	struct taken *taken = allocate(1, sizeof(*taken));
	uint8_t *memory = allocate(1 << 16, 1);
	uint64_t repeated = 0;
	int fd = memfd_create("run", MFD_CLOEXEC), rc;

	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	rc = tournament_of_runs(&t, fd, &run, 1, NULL, memory, 1 << 16);
	if (rc == 0)
		rc = tournament_play(&t, NULL, &repeated, take, taken, NULL);
	tournament_release(&t);
	close(fd);
	free(memory);
	free(taken);
	return rc;
}

/* A run in a file: how much of the last name is kept, how much comes, the payload, bytes. */
static void what_is_wrong_in_a_run_is_refused(void **state)
{
	static const struct {
		size_t len;
		uint8_t bytes[12];
		int rc;
	} row[] = {
		{ 5, { 0, 1, 1, 1, 'a' }, 0 },
		{ 4, { 0, 1, 0, 'a' }, 0 },
		{ 4, { 0, 0, 1, 1 }, -EIO },                            /* a name of no bytes */
		{ 9, { 0, 0, 1, 1, 0, 1, 1, 1, 'a' }, -EIO },           /* before another */
		{ 10, { 0, 1, 1, 1, 'b', 0, 1, 1, 1, 'a' }, -EBADMSG }, /* falling */
		{ 9, { 0, 1, 1, 1, 'b', 2, 0, 1, 1 }, -EIO }, /* kept more than there was */
		{ 5, { 0, 1, 1, 1, 0 }, -EINVAL },            /* NUL */
		{ 5, { 0, 1, 9, 1, 'a' }, -EIO },             /* a payload that is cut */
		{ 5, { 0, 1, 128, 1, 'a' }, -EIO },           /* a payload that is too long */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
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

/* Runs of less than a block, of some, and with names so long that much of a block is left. */
static void a_run_is_read_from_any_block_on(void **state)
{
	static const struct {
		unsigned nr;
		size_t len, at; /* of names, and where their numbers are */
	} row[] = { { 1, 12, 4 }, { 1000, 12, 4 }, { 200000, 12, 4 }, { 700, SHOAL_NAME_MAX, 0 } };
	struct sort_run_writer *w = allocate(1, sizeof(*w));
	struct sort_run_reader *r = allocate(1, sizeof(*r));
	uint8_t *buf = allocate(1u << 16, 1), *name = allocate(SHOAL_NAME_MAX + 1, 1);

	(void)state;
	memset(name, 'n', SHOAL_NAME_MAX);
	for (size_t k = 0; k < ARRAY_LEN(row); k++) {
		int fd = memfd_create("run", MFD_CLOEXEC);
		unsigned before = row[k].nr;
		struct sort_run run;
		struct out out;

		assert_int_equal(out_init(&out, fd, 100, 1u << 16), 0);
		sort_run_start(w, &out);
		for (unsigned i = 0; i < row[k].nr; i++) {
			char number[16];

			snprintf(number, sizeof(number), "%08u", i);
			memcpy(name + row[k].at, number, 8);
			sort_run_put(w, &(struct sort_entry){ .name = name, .len = row[k].len });
		}
		out_flush(&out);
		run = sort_run_end(w);
		assert_int_equal(run.len > RUN_BLOCK, k >= 2);
		for (uint64_t block = (run.len - 1) / RUN_BLOCK + 1; block-- > 0;) {
			uint64_t skip = block * RUN_BLOCK;
			struct sort_run rest = { .off = run.off + skip, .len = run.len - skip };
			unsigned first = 0, nr = 0;

			sort_run_open(r, fd, &rest, buf, 1u << 16);
			for (; sort_run_next(r) == 0 && !r->done; nr++) {
				char number[9] = "";

				memcpy(number, r->entry.name + row[k].at, 8);
				assert_int_equal(r->entry.len, row[k].len);
				assert_memory_equal(r->entry.name + row[k].at + 8,
						    name + row[k].at + 8,
						    row[k].len - row[k].at - 8);
				if (nr == 0)
					first = (unsigned)strtoul(number, NULL, 10);
				assert_int_equal(strtoul(number, NULL, 10), first + nr);
			}
			assert_true(r->done);
			assert_int_equal(first + nr, row[k].nr);
			assert_true(first < before); /* each block has names of its own */
			before = first;
		}
		assert_int_equal(before, 0);
		out_release(&out);
		close(fd);
	}
	free(w);
	free(r);
	free(buf);
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stretches_of_any_length_come_out_in_order),
		cmocka_unit_test(what_is_wrong_in_a_run_is_refused),
		cmocka_unit_test(a_name_with_a_nul_is_refused_wherever_it_is),
		cmocka_unit_test(a_run_is_read_from_any_block_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
