#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "comm/comm.h"
#include "workload/workload.h"

static const struct cli_option help_option = CLI_OTHER(
	'h', "help", NULL, NULL, "print this text; --help=man prints it as a manual page");
static const struct cli_section no_section;

/* Every command has these. */
static const struct cli_section common_section = { .title = "messages",
						   .options = cli_talk_options };

/* The state of parsing. */
struct parser {
	const struct cli_command *command;
	void *into; /* the command's arguments */
	int argc;
	char **argv;
	int at;          /* the next argument */
	int nr;          /* words, moved to the front of argv */
	bool only_words; /* after "--" */
};

/* An option of the command, and its place. */
struct parser_match {
	const struct cli_section *section;
	const struct cli_option *option;
};

void cli_each_option(const struct cli_command *c,
		     bool (*each)(const struct cli_section *s, const struct cli_option *o,
				  void *self),
		     void *self)
{
	for (const struct cli_section *s = c->sections; s->options; s++)
		for (const struct cli_option *o = s->options; o->name; o++)
			if (!each(s, o, self))
				return;
	for (const struct cli_option *o = cli_talk_options; o->name; o++)
		if (!each(&common_section, o, self))
			return;
	each(&no_section, &help_option, self);
}

/* ---- Values ---- */

/* The limit as the user would write it. */
static void put_limit(char *to, size_t cap, enum cli_kind kind, uint64_t v)
{
	static const char units[] = "KMGTP";
	size_t i = 0;

	if (kind == CLI_IS_SECONDS)
		snprintf(to, cap, "%.15g", (double)v / 1000);
	else if (kind != CLI_IS_SIZE || v == 0 || v % 1024)
		snprintf(to, cap, "%" PRIu64, v);
	else {
		for (v /= 1024; v % 1024 == 0 && i + 1 < strlen(units); v /= 1024)
			i++;
		snprintf(to, cap, "%" PRIu64 "%c", v, units[i]);
	}
}

static bool is_in_limits(const char *command, const struct cli_option *o, uint64_t v)
{
	char min[32], max[32];

	if (v >= o->min && (o->max == 0 || v <= o->max))
		return true;
	put_limit(min, sizeof(min), o->kind, o->min);
	put_limit(max, sizeof(max), o->kind, o->max);
	if (o->max == 0 || o->max >= UINT64_MAX - 1)
		cli_usage(command, "--%s must be %s or more", o->name, min);
	else
		cli_usage(command, "--%s must be %s to %s", o->name, min, max);
	return false;
}

static bool take_number(const char *command, const struct cli_option *o, const char *value,
			void *to)
{
	uint64_t v = 0;
	unsigned count;
	int rc = o->kind == CLI_IS_SIZE      ? parse_size(value, &v)
		 : o->kind == CLI_IS_SECONDS ? parse_milliseconds(value, &v)
					     : parse_u64(value, &v);

	if (rc < 0) {
		cli_usage(command, "--%s '%s' is %s", o->name, value,
			  rc == -ERANGE               ? "too large"
			  : o->kind == CLI_IS_SIZE    ? "not a size, such as 256M or 1.5GB"
			  : o->kind == CLI_IS_SECONDS ? "not a time, such as 0.5, 30s or 10m"
						      : "not a whole number");
		return false;
	}
	if (!is_in_limits(command, o, v))
		return false;
	count = (unsigned)v;
	if (o->kind == CLI_IS_COUNT)
		memcpy(to, &count, sizeof(count));
	else
		memcpy(to, &v, sizeof(v));
	return true;
}

/* "a, b or c". */
static void put_words(char *to, size_t cap, const char *const *words)
{
	size_t len = 0;

	*to = '\0';
	for (size_t i = 0; words[i] && len < cap; i++)
		len += (size_t)snprintf(to + len, cap - len, "%s%s",
					i == 0         ? ""
					: words[i + 1] ? ", "
						       : " or ",
					words[i]);
}

static bool take_word(const char *command, const struct cli_option *o, const char *value, void *to)
{
	char known[256];

	for (unsigned i = 0; o->words[i]; i++) {
		if (strcmp(value, o->words[i]) == 0) {
			memcpy(to, &i, sizeof(i)); /* an enum has the size of an int */
			return true;
		}
	}
	put_words(known, sizeof(known), o->words);
	cli_usage(command, "--%s '%s' is not %s", o->name, value, known);
	return false;
}

static bool take_more(const char *command, const struct cli_option *o, const char *value,
		      const char **list, size_t *nr)
{
	if (*nr == o->max) {
		cli_usage(command, "more than %" PRIu64 " times --%s", o->max, o->name);
		return false;
	}
	list[(*nr)++] = value;
	return true;
}

static bool take_shard(const char *command, const struct cli_option *o, const char *value,
		       unsigned *ret_k, unsigned *ret_n)
{
	const char *slash = strchr(value, '/');
	uint64_t k = 0, n = 0;

	if (!slash || parse_digits(value, (size_t)(slash - value), &k) < 0 ||
	    parse_u64(slash + 1, &n) < 0 || k >= n || n > o->max) {
		cli_usage(command,
			  "--%s '%s' is not K/N: shards are counted from 0 to N - 1, and N "
			  "is at most %" PRIu64,
			  o->name, value, o->max);
		return false;
	}
	*ret_k = (unsigned)k;
	*ret_n = (unsigned)n;
	return true;
}

/* Whether no value of this option can be empty: a file, a directory or a URI. */
static bool is_place(const struct cli_option *o)
{
	static const char *const places[] = { "FILE", "DIR", "PLACE", "URI" };

	for (size_t i = 0; o->kind == CLI_IS_TEXT && i < ARRAY_LEN(places); i++)
		if (strcmp(o->value, places[i]) == 0)
			return true;
	return false;
}

static bool take_value(const struct parser *p, const struct parser_match *m, const char *value)
{
	const char *command = p->command->name;
	const struct cli_option *o = m->option;
	char *base = m->section == &common_section ? (char *)&cli_talk
						   : (char *)p->into + m->section->base;
	char *to = base + o->at, *given = base + o->given;

	if (value && !*value && is_place(o)) {
		cli_usage(command, "--%s is empty", o->name);
		return false;
	}
	if (o->given && o->kind != CLI_IS_LIST && o->kind != CLI_IS_SHARD)
		*(bool *)given = true;
	switch (o->kind) {
	case CLI_IS_FLAG:
		*(bool *)to = true;
		return true;
	case CLI_IS_TEXT:
		memcpy(to, &value, sizeof(value));
		return true;
	case CLI_IS_WORD:
		return take_word(command, o, value, to);
	case CLI_IS_LIST:
		return take_more(command, o, value, (const char **)to, (size_t *)given);
	case CLI_IS_SHARD:
		return take_shard(command, o, value, (unsigned *)to, (unsigned *)given);
	case CLI_IS_OTHER:
		return o->take(command, value, base);
	case CLI_IS_NUMBER:
	case CLI_IS_COUNT:
	case CLI_IS_SIZE:
	case CLI_IS_SECONDS:
		break;
	}
	return take_number(command, o, value, to);
}

/* ---- Finding options ---- */

struct search {
	const char *name;
	size_t len;
	char letter;
	struct parser_match found;
	bool exact;
	size_t nr;            /* options that begin with the name */
	const char *names[3]; /* the first of them */
	const char *near;     /* the most similar one */
	size_t distance;
};

static bool search_option(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct search *x = self;

	if (x->letter ? o->letter == x->letter
		      : strncmp(o->name, x->name, x->len) == 0 && !o->name[x->len]) {
		x->found = (struct parser_match){ s, o };
		x->exact = true;
		return false;
	}
	if (!x->letter && strncmp(o->name, x->name, x->len) == 0) {
		x->found = (struct parser_match){ s, o };
		if (x->nr < ARRAY_LEN(x->names))
			x->names[x->nr] = o->name;
		x->nr++;
	}
	return true;
}

/* "--data" for "--data-dir". */
static bool search_beginning(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct search *x = self;
	size_t len = strlen(o->name);

	(void)s;
	if (strncmp(x->name, o->name, len) == 0 && x->name[len] == '-')
		x->near = o->name;
	return !x->near;
}

static bool search_similar(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct search *x = self;
	size_t d = text_distance(x->name, o->name);

	(void)s;
	if (d < x->distance) {
		x->distance = d;
		x->near = o->name;
	}
	return true;
}

/* What users of other tools type, and the equivalent here. Command NULL: every one. */
static const struct {
	const char *command, *option, *words;
} habits[] = {
	{ NULL, "overwrite", "--force is what writes over files that are there" },
	{ NULL, "yes", "nothing is asked; --force does what would be refused" },
	{ "index", "recursive", "a directory is listed with all that is below it" },
	{ "list", "recursive", "a directory is listed with all that is below it" },
	{ "read", "workers", "--in-flight samples are read at once" },
	{ "read", "num-workers", "--in-flight samples are read at once" },
	{ "run", "model", "the workload is the first argument, such as unet3d_h100" },
	{ "run", "workload", "the workload is the first argument, such as unet3d_h100" },
	{ "run", "num-accelerators", "each rank is one, or --accelerators-per-rank" },
	{ "datagen", "model", "the workload is the first argument, such as unet3d_h100" },
	{ "datagen", "workload", "the workload is the first argument, such as unet3d_h100" },
	{ "datagen", "num-processes", "there are as many ranks as mpirun starts" },
	{ "datasize", "model", "the workload is the first argument, such as unet3d_h100" },
	{ "datasize", "workload", "the workload is the first argument, such as unet3d_h100" },
	{ "datasize", "num-accelerators", "--accelerators is their number" },
	{ "datasize", "max-accelerators", "--accelerators is their number" },
	{ "datasize", "num-client-hosts", "--hosts is their number" },
	{ "datasize", "client-host-memory-in-gb", "write --memory-per-host 256G" },
	{ "read", "ranks", "there are as many ranks as mpirun starts" },
	{ "read", "store", "--data names the place of the files" },
	{ "run", "store", "--data names the place of the files" },
	{ "verify", "where", "--data names the place of the files" },
	{ "manifest", "prefix", "--list-prefix is the start of the lists' names" },
	{ "filter", "names", "--files-from names a list of the files to take" },
	{ "filter", "not-names", "--files-not-from names a list of the files to leave out" },
	{ "list", "count", "--total prints only how many there are" },
	{ "ls", "samples", "--extents prints where samples lie" },
	{ "verify", "samples", "--extents compares where samples lie" },
	{ "order", "count", "--limit is the most samples to print" },
	{ "ls", "count", "--limit is the most files to print" },
	{ "read", "on-error", "--keep-going leaves out what cannot be read" },
	{ "run", "on-error", "--keep-going leaves out what cannot be read" },
	{ "run", "param", "write KEY=VALUE without an option" },
	{ "run", "batch", "write reader.batch_size=SAMPLES without an option" },
	{ "run", "accelerators", "--accelerators-per-rank are those of one rank" },
	{ "datagen", "param", "write KEY=VALUE without an option" },
};

static const char *find_habit(const char *command, const struct search *x)
{
	for (size_t i = 0; i < ARRAY_LEN(habits); i++)
		if ((!habits[i].command || strcmp(habits[i].command, command) == 0) &&
		    strncmp(habits[i].option, x->name, x->len) == 0 && !habits[i].option[x->len])
			return habits[i].words;
	return NULL;
}

/* The key of a workload that an option is taken for: "train.epochs" for "--epochs". */
static const char *find_key(const struct cli_command *c, const char *name)
{
	char key[64];

	if (!strstr(c->usage, "KEY=VALUE"))
		return NULL;
	snprintf(key, sizeof(key), "%s", name);
	for (char *at = key; (at = strchr(at, '-')) != NULL;)
		*at = '_';
	return workload_key_called(key);
}

/* What was probably meant by an option that does not exist. */
static int answer_slip(const struct parser *p, const char *name, const char *text)
{
	const char *command = p->command->name, *key = find_key(p->command, name);
	struct search x = { .name = name, .distance = SIZE_MAX };

	if (key)
		return cli_usage(command, "unknown option '%s': write %s=VALUE without an option",
				 text, key);
	cli_each_option(p->command, search_similar, &x);
	if (!text_is_near(name, x.distance)) {
		x.near = NULL;
		cli_each_option(p->command, search_beginning, &x);
	}
	if (x.near)
		return cli_usage(command, "unknown option '%s'; did you mean --%s?", text, x.near);
	return cli_usage(command, "unknown option '%s'", text);
}

static int unknown_option(const struct parser *p, const struct search *x, const char *text)
{
	const char *command = p->command->name;
	char name[64];

	if (x->nr > 1)
		return cli_usage(command, "'%s' is ambiguous: --%s, --%s%s%s", text, x->names[0],
				 x->names[1], x->nr > 2 ? ", --" : "",
				 x->nr > 2 ? x->names[2] : "");
	if (find_habit(command, x))
		return cli_usage(command, "unknown option '%s': %s", text, find_habit(command, x));
	snprintf(name, sizeof(name), "%.*s", (int)x->len, x->name);
	return answer_slip(p, name, text);
}

/* Count options whose name begins with the letter. */
static bool search_initial(const struct cli_section *s, const struct cli_option *o, void *self)
{
	struct search *x = self;

	(void)s;
	if (*o->name == x->letter) {
		x->near = o->name;
		x->nr++;
	}
	return true;
}

static int unknown_letter(const struct parser *p, char letter, const char *text)
{
	struct search x = { .letter = letter };

	cli_each_option(p->command, search_initial, &x);
	if (x.nr == 1)
		return cli_usage(p->command->name, "unknown option '%s'; did you mean --%s?", text,
				 x.near);
	return cli_usage(p->command->name, "unknown option '%s'", text);
}

/* ---- --help and --list-options ---- */

static bool list_option(const struct cli_section *s, const struct cli_option *o, void *self)
{
	(void)s;
	(void)self;
	printf("--%s%s\n", o->name, o->value && !o->optional ? "=" : "");
	return true;
}

static int parser_help(const struct parser *p, const char *value)
{
	if (value && strcmp(value, "man") == 0)
		cli_put_man(stdout, p->command);
	else if (value)
		return cli_usage(p->command->name, "--help=%s: its only value is 'man'", value);
	else
		cli_put_help(stdout, p->command, cli_columns(STDOUT_FILENO));
	return CLI_OK;
}

/* ---- Parsing ---- */

/* The result of a step of parsing: continue, or exit. */
enum { PARSE_ON = -1 };

/* @value follows the option in its word, or is NULL. */
static int take_option(struct parser *p, const struct parser_match *m, const char *text,
		       const char *value)
{
	const struct cli_option *o = m->option;
	const char **given;

	if (o == &help_option)
		return parser_help(p, value);
	if (o->value && !value && o->optional) {
		value = "";
	} else if (o->value && !value) {
		if (p->at == p->argc)
			return cli_usage(p->command->name, "option '%s' needs a value", text);
		value = p->argv[p->at++];
	} else if (!o->value && value) {
		return cli_usage(p->command->name, "option '%s' takes no value", text);
	}
	if (m->section->given) {
		given = (const char **)(void *)((char *)p->into + m->section->given);
		*given = o->name;
	}
	return take_value(p, m, value) ? PARSE_ON : CLI_USAGE;
}

static int parse_long(struct parser *p, const char *text)
{
	const char *name = text + 2, *equals = strchr(name, '=');
	struct search x = { .name = name, .len = equals ? (size_t)(equals - name) : strlen(name) };

	cli_each_option(p->command, search_option, &x);
	if (!x.exact && (x.nr != 1 || find_habit(p->command->name, &x)))
		return unknown_option(p, &x, text);
	return take_option(p, &x.found, text, equals ? equals + 1 : NULL);
}

/* "-qo FILE", "-oFILE". */
static int parse_letters(struct parser *p, const char *text)
{
	int rc = PARSE_ON;

	for (const char *at = text + 1; *at && rc == PARSE_ON; at++) {
		struct search x = { .letter = *at };
		char name[3] = { '-', *at, '\0' };

		cli_each_option(p->command, search_option, &x);
		if (!x.exact)
			return unknown_letter(p, *at, name);
		if (x.found.option->value && at[1] == '=')
			return cli_usage(p->command->name, "write '%s %s' or '--%s=%s'", name,
					 at + 2, x.found.option->name, at + 2);
		if (x.found.option->value && at[1])
			return take_option(p, &x.found, name, at + 1);
		rc = take_option(p, &x.found, name, NULL);
	}
	return rc;
}

/* The next argument: options may come between others. */
static int parse_next(struct parser *p)
{
	char *text = p->argv[p->at++];

	if (!p->only_words && strcmp(text, "--") == 0) {
		p->only_words = true;
		return PARSE_ON;
	}
	if (!p->only_words && text[0] == '-' && text[1] == '-')
		return parse_long(p, text);
	if (!p->only_words && text[0] == '-' && text[1])
		return parse_letters(p, text);
	if (!*text && p->nr == 0) /* such as "$FILE" where it is not set */
		return cli_usage(p->command->name, "the first argument is empty");
	p->argv[p->nr++] = text;
	return PARSE_ON;
}

static int check_sections(const struct parser *p)
{
	for (const struct cli_section *s = p->command->sections; s->options; s++)
		if (s->check && !s->check(p->command->name, (char *)p->into + s->base))
			return CLI_USAGE;
	return PARSE_ON;
}

/* Of a command whose work is not shared: several ranks would write the same file, or print all of
 * it several times. */
static void note_alone(const struct cli_command *c, int nr_ranks)
{
	if (!c->shares_work && nr_ranks > 1 && !cli_talk.quiet)
		cli_note(c->name, "rank 0 of %d does all of this; the others have nothing to do",
			 nr_ranks);
}

/* Errors of the command line are documents too, wherever --progress json stands in it. */
static void find_style(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--progress=json") == 0 ||
		    (strcmp(argv[i], "--progress") == 0 && i + 1 < argc &&
		     strcmp(argv[i + 1], "json") == 0))
			cli_talk.style = CLI_AS_JSON;
}

int cli_run_command(const struct cli_command *c, int argc, char **argv)
{
	struct parser p = { .command = c, .argc = argc - 1, .argv = argv + 1 };
	int status = PARSE_ON, nr_ranks;

	if (comm_launched_rank(&nr_ranks) > 0 && !c->shares_work)
		return CLI_OK;
	if (argc == 2 && strcmp(argv[1], "--list-options") == 0) {
		cli_each_option(c, list_option, NULL);
		return CLI_OK;
	}
	cli_talk.began = clock_seconds();
	find_style(argc, argv);
	p.into = calloc(1, c->size + 1);
	if (!p.into)
		return cli_fail(c->name, "out of memory");
	if (c->set_defaults)
		c->set_defaults(p.into);
	while (p.at < p.argc && status == PARSE_ON)
		status = parse_next(&p);
	if (status == PARSE_ON)
		status = check_sections(&p);
	if (status == PARSE_ON && ((unsigned)p.nr < c->min || (c->max && (unsigned)p.nr > c->max)))
		status = cli_usage(c->name, "%s", c->give);
	if (status == PARSE_ON) {
		note_alone(c, nr_ranks);
		status = c->run(p.into, p.nr, p.argv);
		cli_report_costs(c->name);
	}
	if (c->shares_work && nr_ranks > 1 && status != CLI_OK && status != PARSE_ON)
		status = cli_desert(c->name, status);
	free(p.into);
	return status;
}

const struct cli_command *cli_find_command(const char *name)
{
	for (const struct cli_command *const *c = cli_commands; *c; c++)
		if (strcmp((*c)->name, name) == 0)
			return *c;
	return NULL;
}
