#include "cli/hints.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Commands that have the options of s3_options.h. */
#define S3_COMMANDS \
	"cat datagen diff filter find index info list ls manifest merge order read run split stat verify"

/*
 * The first row for a hint and a command is used. tests/cli/test_hints.py reads this table, and
 * checks that each option in the text belongs to the commands in the third column; if that is NULL,
 * to those in the second.
 */
static const struct {
	enum shoal_hint hint;
	const char *commands;   /* commands that print this; NULL: all others */
	const char *options_of; /* the commands whose options are named */
	const char *words;
} hints[] = {
	{ SHOAL_HINT_LESS_MEMORY, "index verify", NULL, "lower --memory" },
	{ SHOAL_HINT_LESS_MEMORY, NULL, NULL, "free some memory" },
	{ SHOAL_HINT_MORE_MEMORY, "index verify", NULL, "--memory must be {} or more" },
	{ SHOAL_HINT_TMP_DIR, "index list verify", NULL,
	  "free some space, or choose another directory with --tmp-dir" },
	{ SHOAL_HINT_TMP_DIR, NULL, NULL, "free some space" },
	{ SHOAL_HINT_FREE_SPACE, "index", NULL,
	  "free some space, and repeat the command to continue" },
	{ SHOAL_HINT_SAME_CALL, "index", NULL, "repeat the command to continue" },

	{ SHOAL_HINT_ROOT, "index", NULL, "give it another name with --root" },
	{ SHOAL_HINT_ROOT, "merge", NULL, "give a root above all of them with --root" },
	{ SHOAL_HINT_NAMES_ONLY, "index", NULL,
	  "give all lines the same fields, or use --names-only if tabs are part of the names" },
	{ SHOAL_HINT_NUL_ENDS, "manifest", NULL, "use --null" },
	{ SHOAL_HINT_NUL_ENDS, "filter index", NULL,
	  "use --null if the names of the list end in NUL bytes" },
	{ SHOAL_HINT_SIZES, "cat diff filter find ls merge read run stat", "index",
	  "index it again without --no-sizes" },
	{ SHOAL_HINT_ETAGS, "cat read run", "index", "index the bucket again with --etags" },
	{ SHOAL_HINT_WHERE, "verify", NULL, "say what to compare it with: --data" },
	{ SHOAL_HINT_KEEP_GOING, "index list", NULL, "leave it out with --keep-going" },
	{ SHOAL_HINT_KEEP_GOING, "verify", NULL, "count it as missing with --keep-going" },
	{ SHOAL_HINT_SAMPLES_PER_FILE, "run", "index",
	  "index it again with --samples-per-file, or set dataset.num_samples_per_file" },
	{ SHOAL_HINT_REPLACE, "manifest run", NULL, "--force removes them first" },
	{ SHOAL_HINT_REPLACE, "sweep", NULL, "--resume goes on with it, --force removes it" },
	{ SHOAL_HINT_REPLACE, "filter index merge split", NULL,
	  "write it all the same with --force" },
	{ SHOAL_HINT_REPEATED, "merge", NULL, "take the last one with --repeated last" },
	{ SHOAL_HINT_SORT_COLUMN, NULL, NULL, "sort it first with 'shoal column sort'" },

	{ SHOAL_HINT_SLOT, "read run", NULL, "give the size of the largest sample with --slot" },
	{ SHOAL_HINT_LARGER_SLOT, "read", NULL, "raise --slot to {}, or use --pieces" },
	{ SHOAL_HINT_LARGER_SLOT, "run", NULL, "raise --slot to {}" },
	{ SHOAL_HINT_IF_MATCH, "cat read run", NULL, "leave out --if-match" },

	{ SHOAL_HINT_ENDPOINT, S3_COMMANDS, NULL,
	  "if that server is to be trusted, name it with --endpoint" },
	{ SHOAL_HINT_ENDPOINT, NULL, NULL,
	  "if that server is to be trusted, name it in AWS_ENDPOINT_URL_S3" },
	{ SHOAL_HINT_CA, S3_COMMANDS, NULL, "--ca FILE trusts the certificates in FILE" },
	{ SHOAL_HINT_CA, NULL, NULL, "AWS_CA_BUNDLE names a file of certificates to trust" },
	{ SHOAL_HINT_ANONYMOUS, S3_COMMANDS, NULL, "for a public bucket, use --anonymous" },
	{ SHOAL_HINT_ANONYMOUS, NULL, NULL, "for a public bucket, set SHOAL_S3_ANONYMOUS=1" },

	{ SHOAL_HINT_FORCE, "datagen", NULL,
	  "choose another directory, or use --force to write to this one" },
	{ SHOAL_HINT_COMPLETE, "datagen", NULL,
	  "complete them with --resume, or write them again with --force" },
	{ SHOAL_HINT_GENERATE, "run", "datagen",
	  "generate the rest with 'shoal datagen --resume', or set dataset.num_files_train to what "
	  "there is" },
	{ SHOAL_HINT_RESUME, "run", NULL, "or continue it with --resume" },
	{ SHOAL_HINT_SAME_RUN, "run", NULL,
	  "resume it with the same ranks, workload, values, --data, --catalog, --accelerators-per-rank, "
	  "--in-flight, --prefetch, --direct, --engine, --keep-going, --if-match, --memory and --drop-cache, or "
	  "start another run with another --results" },

	{ SHOAL_HINT_LAUNCHER, NULL, "srun",
	  "use srun --mpi=pmix for Open MPI or --mpi=pmi2 for MPICH, or set SHOAL_MPI=none to run "
	  "each process alone" },
};

/* Whether the word is in the list, which is separated by spaces. */
static bool is_among(const char *word, const char *list)
{
	size_t len = strlen(word);

	for (const char *at = list; (at = strstr(at, word)) != NULL; at += len)
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return true;
	return false;
}

const char *cli_hint_words(const char *command, enum shoal_hint hint)
{
	for (size_t i = 0; i < ARRAY_LEN(hints); i++)
		if (hints[i].hint == hint &&
		    (!hints[i].commands || is_among(command, hints[i].commands)))
			return hints[i].words;
	return NULL;
}

const char *cli_words(const char *command, struct shoal_err *err)
{
	const char *words = cli_hint_words(command, err->hint), *gap;
	uint64_t value = err->hint_value;
	bool whole = value > 0 && value % (UINT64_C(1) << 20) == 0;
	char more[512] = "", number[24];
	size_t len, room;

	if (!words)
		return err->msg;
	snprintf(number, sizeof(number), "%" PRIu64 "%s", whole ? value >> 20 : value,
		 whole ? "M" : "");
	gap = strstr(words, "{}");
	if (gap)
		snprintf(more, sizeof(more), "; %.*s%s%s", (int)(gap - words), words, number,
			 gap + strlen("{}"));
	else
		snprintf(more, sizeof(more), "; %s", words);
	room = sizeof(err->msg) - 1 - strlen(more);
	len = strlen(err->msg);
	if (len > room) {
		err->msg[room] = '\0';
		text_mark_truncated(err->msg);
		len = strlen(err->msg);
	}
	snprintf(err->msg + len, sizeof(err->msg) - len, "%s", more);
	err_hint(err, SHOAL_HINT_NONE, 0);
	return err->msg;
}
