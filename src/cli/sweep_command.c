#include "cli/sweep_command.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "cli/cli.h"
#include "store/null/null.h"

#define LAUNCHER  "mpirun -n {}"
#define WORDS_MAX (1u << 20)

/* A key of a workload, such as reader.read_threads. */
static bool is_key(const char *name)
{
	return strchr(name, '.') != NULL;
}

/* ---- Checking ---- */

struct option_search {
	const char *name;
	const struct cli_option *found;
};

static bool match_option(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct option_search *x = self;

	(void)s;
	if (strcmp(o->name, x->name) == 0)
		x->found = o;
	return !x->found;
}

/* Whether @word of the command sets @name, an option or, with a dot, a key of the workload. */
static bool sweep_word_sets(const char *word, const char *name)
{
	static const char *const before[] = { "++workload.", "++", "--" };
	size_t len = strlen(name);

	for (size_t i = 0; i < ARRAY_LEN(before); i++)
		if (strncmp(word, before[i], strlen(before[i])) == 0 && (i == 2) != is_key(name)) {
			word += strlen(before[i]);
			return strncmp(word, name, len) == 0 &&
			       (word[len] == '=' || (word[len] == '\0' && i == 2));
		}
	return is_key(name) && strncmp(word, name, len) == 0 && word[len] == '=';
}

static int check_given_once(const struct sweep_command *c, const char *name)
{
	for (size_t i = 1; i < c->nr; i++)
		if (sweep_word_sets(c->words[i], name))
			return cli_usage("sweep",
					 "'%s' cannot be given to the command, because --vary %s "
					 "sets it",
					 c->words[i], name);
	return CLI_OK;
}

/* Otherwise all points would be measured with the same ranks. */
static int sweep_check_ranks(const struct sweep_parameter *p, const char *launcher)
{
	uint64_t v;

	for (size_t i = 0; i < p->nr; i++)
		if (parse_digits(p->value[i], strlen(p->value[i]), &v) < 0 || v == 0)
			return cli_usage("sweep",
					 "--vary ranks: '%s' is not a number of ranks: give whole "
					 "numbers from 1 on",
					 p->value[i]);
	if (launcher && !strstr(launcher, "{}"))
		return cli_usage("sweep",
				 "--vary ranks: --launcher '%s' has no {}, where the number of "
				 "ranks goes: write, for example, 'mpirun -n {}'",
				 launcher);
	return CLI_OK;
}

static int check_parameter(const struct cli_command *c, const char *name)
{
	struct option_search x = { .name = name };

	if (is_key(name))
		return strcmp(c->name, "run") == 0
			       ? CLI_OK
			       : cli_usage("sweep", "--vary %s: only 'run' has workload keys",
					   name);
	cli_each_option(c, match_option, &x);
	if (!x.found)
		return cli_usage("sweep",
				 "--vary %s: '%s' has no option --%s; 'ranks' and, for 'run', keys "
				 "such as reader.batch_size are possible, too",
				 name, c->name, name);
	if (!x.found->value || strcmp(name, "results") == 0)
		return cli_usage("sweep", "--vary %s: it is not an option to vary", name);
	return CLI_OK;
}

struct sweep_abbreviation {
	const char *word;
	size_t len;
	const char *whole; /* an option that begins with it */
	bool exact;
};

static bool match_beginning(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct sweep_abbreviation *x = self;

	(void)s;
	if (strncmp(o->name, x->word, x->len) != 0)
		return true;
	x->whole = o->name;
	x->exact = !o->name[x->len];
	return !x->exact;
}

/* Options are looked for by their whole names: those that the sweep sets, and those that only
 * storage has. */
static int sweep_check_whole(const struct cli_command *command, const char *word)
{
	struct sweep_abbreviation x = { .word = word + 2, .len = strcspn(word, "=") - 2 };

	if (strncmp(word, "--", 2) != 0 || x.len == 0)
		return CLI_OK;
	cli_each_option(command, match_beginning, &x);
	if (!x.whole || x.exact)
		return CLI_OK;
	return cli_usage(
		"sweep",
		"'%s': write --%s; options of the command cannot be abbreviated in a sweep", word,
		x.whole);
}

/* Options that the sweep sets itself. */
static int check_words(const struct sweep_command *c, const struct cli_command *command)
{
	for (size_t i = 1; i < c->nr; i++) {
		const char *word = c->words[i];
		int status = sweep_check_whole(command, word);

		if (status != CLI_OK)
			return status;
		if (strcmp(word, "--results") == 0 || strncmp(word, "--results=", 10) == 0 ||
		    strncmp(word, "--resume", 8) == 0 || strncmp(word, "--runs", 6) == 0)
			return cli_usage("sweep",
					 "'%s' cannot be given to the command: each "
					 "measurement has a folder of its own",
					 word);
		if (strcmp(word, "--") == 0 || strcmp(word, "--help") == 0)
			return cli_usage("sweep", "'%s' cannot be given to the command", word);
	}
	return CLI_OK;
}

int sweep_command_check(const struct sweep_command *c, const struct sweep_plan *plan)
{
	const struct cli_command *command = cli_find_command(c->words[0]);
	int status = CLI_OK;

	if (!command || (strcmp(command->name, "read") != 0 && strcmp(command->name, "run") != 0))
		return cli_usage("sweep",
				 "'%s' cannot be swept: give 'read' or 'run' and its "
				 "arguments after --",
				 c->words[0]);
	for (size_t i = 0; status == CLI_OK && i < plan->nr_parameters; i++)
		status = sweep_varies_ranks(plan, i)
				 ? sweep_check_ranks(&plan->parameter[i], c->launcher)
				 : check_parameter(command, plan->parameter[i].name);
	for (size_t i = 0; status == CLI_OK && i < plan->nr_parameters; i++)
		status = check_given_once(c, plan->parameter[i].name);
	if (status == CLI_OK && plan->nr_parameters > 1 &&
	    strcmp(plan->parameter[0].name, plan->parameter[1].name) == 0)
		status = cli_usage("sweep", "--vary %s is given twice", plan->parameter[0].name);
	return status == CLI_OK ? check_words(c, command) : status;
}

/* ---- Building ---- */

/* Words one after another, each with its NUL. */
struct word_list {
	struct buf buf;
	size_t nr;
};

static void put_word(struct word_list *l, const char *word)
{
	buf_append(&l->buf, word, strlen(word) + 1);
	l->nr++;
}

/* The launcher's words, with the number of ranks instead of {}. */
static void put_launcher(struct word_list *l, const char *launcher, const char *ranks)
{
	for (const char *at = launcher; *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");
		const char *hole = memmem(at, len, "{}", 2);

		buf_append(&l->buf, at, hole ? (size_t)(hole - at) : len);
		if (hole) {
			buf_text(&l->buf, ranks);
			buf_append(&l->buf, hole + 2, len - (size_t)(hole - at) - 2);
		}
		buf_u8(&l->buf, '\0');
		l->nr++;
		at += len;
	}
}

/* What only files and buckets have is left out where no storage is read. */
static bool is_for_storage(const char *word, bool *ret_takes_value)
{
	static const char *const options[] = { "--engine", "--data", "--direct", "--drop-cache",
					       "--if-match" };

	*ret_takes_value = false;
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		size_t len = strlen(options[i]);

		if (strncmp(word, options[i], len) != 0 || (word[len] && word[len] != '='))
			continue;
		*ret_takes_value = i < 2 && !word[len];
		return true;
	}
	return false;
}

static void put_user_words(struct word_list *l, const struct sweep_command *c, bool ceiling)
{
	for (size_t i = 0; i < c->nr; i++) {
		bool takes_value;

		if (ceiling && is_for_storage(c->words[i], &takes_value))
			i += takes_value;
		else
			put_word(l, c->words[i]);
		if (i == 0) /* errors come as JSON, also of the words that follow */
			put_word(l, "--progress=json");
	}
}

static void sweep_put_values(struct word_list *l, const struct sweep_plan *plan,
			     const struct sweep_job *job)
{
	for (size_t i = 0; i < plan->nr_parameters; i++) {
		const char *name = plan->parameter[i].name,
			   *value = sweep_value(plan, job->point, i);
		char word[2 * SWEEP_TEXT_MAX + 4];
		bool takes_value;

		if (sweep_varies_ranks(plan, i))
			continue;
		snprintf(word, sizeof(word), "%s%s=%s", is_key(name) ? "" : "--", name, value);
		if (!job->ceiling || !is_for_storage(word, &takes_value))
			put_word(l, word);
	}
}

static void sweep_put_fixed(struct word_list *l, const struct sweep_command *c,
			    const struct sweep_job *job)
{
	char folder[64];

	if (strcmp(c->words[0], "run") == 0) {
		snprintf(folder, sizeof(folder), "/runs/%05zu", job->number);
		put_word(l, "--results");
		buf_text(&l->buf, c->results);
		put_word(l, folder);
		put_word(l, "--force"); /* what an interrupted measurement has left */
	}
	if (job->ceiling) {
		put_word(l, "--data");
		put_word(l, STORE_NO_STORAGE);
	}
	put_word(l, "--json");
	put_word(l, "-q");
}

/* Pointers and words in one block. */
static char **sweep_words_pack(struct word_list *l)
{
	size_t head = (l->nr + 1) * sizeof(char *);
	char **all = l->buf.rc == 0 ? malloc(head + l->buf.len) : NULL;
	char *at;

	if (!all)
		return NULL;
	at = (char *)all + head;
	memcpy(at, l->buf.data, l->buf.len);
	for (size_t i = 0; i < l->nr; i++, at += strlen(at) + 1)
		all[i] = at;
	all[l->nr] = NULL;
	return all;
}

char **sweep_command_of(const struct sweep_command *c, const struct sweep_plan *plan,
			const struct sweep_job *job)
{
	struct word_list l = { .buf = { .max = WORDS_MAX } };
	const char *launcher = c->launcher, *ranks = "1";
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char **all;

	for (size_t i = 0; i < plan->nr_parameters; i++)
		if (sweep_varies_ranks(plan, i)) {
			ranks = sweep_value(plan, job->point, i);
			launcher = launcher ? launcher : LAUNCHER;
		}
	if (launcher)
		put_launcher(&l, launcher, ranks);
	program[n > 0 ? n : 0] = '\0';
	put_word(&l, n > 0 ? program : "shoal");
	put_user_words(&l, c, job->ceiling);
	sweep_put_values(&l, plan, job);
	sweep_put_fixed(&l, c, job);
	all = sweep_words_pack(&l);
	buf_release(&l.buf);
	return all;
}
