#include "comm/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "shoal.h"

#define LINE_MAX_BYTES 160
#define SENTENCE_BYTES 512

/* More than any rank describes. */
#define TEXT_MAX (UINT64_C(16) << 20)

/* The line at *@text, without leading spaces; *@text moves to the next one. */
static size_t compare_take_line(const char **text, const char **ret_line)
{
	const char *line = *text + strspn(*text, " ");
	size_t len = strcspn(line, "\n");

	*ret_line = line;
	*text = line + len + (line[len] == '\n');
	return len;
}

/* Write a message with the first lines that differ. */
static void describe(const char *mine, const char *root, int rank, char *sentence)
{
	const char *a = mine, *b = root;
	size_t a_len, b_len;

	do {
		a_len = compare_take_line(&mine, &a);
		b_len = compare_take_line(&root, &b);
	} while (a_len == b_len && memcmp(a, b, a_len) == 0 && (*mine || *root));
	snprintf(sentence, SENTENCE_BYTES,
		 "the ranks are about to do different things: rank %d has '%.*s', and rank 0 has "
		 "'%.*s'; start all of them with the same arguments, files and version",
		 rank, (int)u64_min(a_len, LINE_MAX_BYTES), a, (int)u64_min(b_len, LINE_MAX_BYTES),
		 b);
}

/*
 * Collective, if texts differ: rank @rank, the first that differs from rank 0, reports its
 * difference.
 */
static int find_difference(struct comm *c, const char *text, int rank, char *sentence,
			   struct shoal_err *err)
{
	uint64_t len = strlen(text);
	int rc = comm_broadcast(c, 0, &len, sizeof(len), err);
	char *root;

	if (rc < 0)
		return rc;
	root = len < TEXT_MAX ? calloc(1, (size_t)len + 1) : NULL;
	if (!root) {
		rc = err_set(err, -ENOMEM, "out of memory");
		comm_fail(c, err);
		return rc;
	}
	if (comm_place(c)->rank == 0)
		memcpy(root, text, (size_t)len);
	rc = comm_broadcast(c, 0, root, (size_t)len, err);
	if (comm_place(c)->rank == rank)
		describe(text, root, rank, sentence);
	free(root);
	return rc < 0 ? rc : comm_broadcast(c, rank, sentence, SENTENCE_BYTES, err);
}

static int compare_text(struct comm *c, const char *text, struct shoal_err *err)
{
	uint64_t mine = XXH3_64bits(text, strlen(text)), root = mine, first;
	char sentence[SENTENCE_BYTES] = "";
	int rc = comm_broadcast(c, 0, &root, sizeof(root), err);

	if (rc < 0)
		return rc;
	first = mine != root ? (uint64_t)comm_place(c)->rank : UINT64_MAX;
	rc = comm_reduce(c, COMM_MIN, &first, 1, err);
	if (rc < 0 || first == UINT64_MAX)
		return rc;
	rc = find_difference(c, text, (int)first, sentence, err);
	if (rc < 0)
		return rc;
	if (comm_place(c)->rank > 0) /* one rank has an error of its own, as in any collective */
		return err_set(err, -EREMOTEIO, "rank 0: %s", sentence);
	rc = err_set(err, -EINVAL, "%s", sentence);
	comm_fail(c, err);
	return rc;
}

int comm_compare(struct comm *c, const char *text, struct shoal_err *err)
{
	size_t len = strlen(text) + 64;
	char *all;
	int rc;

	if (comm_place(c)->size == 1)
		return 0;
	all = malloc(len);
	if (!all) {
		rc = err_set(err, -ENOMEM, "out of memory");
		comm_fail(c, err);
		return rc;
	}
	snprintf(all, len, "version: %.40s\n%s", shoal_version(), text);
	rc = compare_text(c, all, err);
	free(all);
	return rc;
}
