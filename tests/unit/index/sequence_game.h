/* sequence_game.h - a made-up tree, and threads that list it in order, one step of one at a time.
 */
#ifndef SHOAL_TEST_SEQUENCE_GAME_H
#define SHOAL_TEST_SEQUENCE_GAME_H

#include "help.h"
#include "index/sequence.h"

struct tree {
	struct test_list files;
	struct test_list dirs; /* but for the root */
};

/* Of that many levels; names are such that directories and files with longer names come between. */
struct tree tree_make(unsigned depth);
void tree_release(struct tree *t);

#define NR_THREADS 4u
#define MUCH_ROOM  (64u << 20)

struct game {
	struct tree tree;
	struct index_sequence o;
	struct index_queue units;
	uint8_t unit[NR_THREADS][256]; /* that they are at */
	size_t unit_len[NR_THREADS];
	bool at_work[NR_THREADS];
	struct test_list taken; /* in order */
	struct test_list rest;
	size_t nr_packs; /* that were taken whole, with the digest they had when they were sorted */
	size_t fail_at;  /* which entry is not taken; SIZE_MAX: all are */
	bool fickle;     /* each listing of a directory tells some of it, and some of it twice: */
	struct test_list told;
};

/* It has units as directory trees have them, and cannot be listed. */
extern struct store game_store;

struct game *game_new(struct tree tree, size_t room);
void game_free(struct game *g);

/* What an index_sequence, or a walk, gives to whoever takes it: @self is the game. */
int game_take_next(void *self, const struct sort_entry *e, struct shoal_err *err);
int game_take_rest(void *self, unsigned thread, const struct sort_entry *entries, size_t nr,
		   bool group, struct shoal_err *err);

/* A thread begins with the next unit, or ends with the one it is at, after telling what is in it.
 */
void game_begin(struct game *g, unsigned t);
void game_end(struct game *g, unsigned t);

/* Hand on all that can be. */
int game_hand_on(struct game *g, struct shoal_err *err);

/* Some thread begins or ends; false when there is nothing left to do. */
bool game_step(struct game *g);

/* What was handed on rises, and with the rest it is all there is, once. */
void game_check(struct game *g);

#endif
