/*
 * options.h - commands as data.
 *
 * A command is one table: what it does, its sections of options, and the function that runs it.
 * Parsing, --help, --help=man, completion and --list-options are made from that table, so none of
 * them can differ from the others. Sections that several commands share (S3, opening a catalog,
 * order, loading) are written once; a command embeds the structure that they fill, and gives its
 * offset as the section's base.
 */
#ifndef SHOAL_CLI_OPTIONS_H
#define SHOAL_CLI_OPTIONS_H

#include <stdio.h>

#include "base/base.h"
#include "base/text_table.h"

/* The type of an option's value, and what is stored. */
enum cli_kind {
	CLI_IS_FLAG,    /* bool: it takes no value */
	CLI_IS_TEXT,    /* const char * */
	CLI_IS_NUMBER,  /* uint64_t */
	CLI_IS_COUNT,   /* unsigned */
	CLI_IS_SIZE,    /* uint64_t, in bytes: 256M, 1.5GB */
	CLI_IS_SECONDS, /* uint64_t, in milliseconds: 10, 0.5, 10m */
	CLI_IS_WORD,    /* an enum: which of the words it is */
	CLI_IS_LIST,    /* an array of const char *: it may be given `max` times */
	CLI_IS_SHARD,   /* unsigned: K of K/N */
	CLI_IS_OTHER,   /* take() decides; without a value if the option has none */
};

struct cli_option {
	char letter; /* 0: none */
	const char *name, *value, *help;
	enum cli_kind kind;
	size_t at;                /* offset in the structure of the section */
	uint64_t min, max;        /* limits of numbers; max 0: no limit */
	const char *const *words; /* of CLI_IS_WORD all, otherwise for completion; ended by NULL */
	/* An offset: of CLI_IS_LIST of the size_t that counts, of CLI_IS_SHARD of the unsigned for
	 * N, of others of a bool that becomes true; 0: not wanted. */
	size_t given;
	bool optional; /* of CLI_IS_OTHER: the value follows "=", or there is none: "" */
	/* @into is the structure of the section. False after printing what is wrong. */
	bool (*take)(const char *command, const char *value, void *into);
};

/* Rows of a table of options, which ends with CLI_END. @at_ is an offsetof(). */
#define CLI_FLAG(letter_, name_, at_, help_)                                            \
	{                                                                               \
		.letter = (letter_), .name = (name_), .kind = CLI_IS_FLAG, .at = (at_), \
		.help = (help_)                                                         \
	}
#define CLI_VALUE(letter_, name_, value_, kind_, at_, min_, max_, help_)                  \
	{                                                                                 \
		.letter = (letter_), .name = (name_), .value = (value_), .kind = (kind_), \
		.at = (at_), .min = (min_), .max = (max_), .help = (help_)                \
	}
#define CLI_TEXT(letter, name, value, at, help) \
	CLI_VALUE(letter, name, value, CLI_IS_TEXT, at, 0, 0, help)
#define CLI_NUMBER(name, value, at, min, max, help) \
	CLI_VALUE(0, name, value, CLI_IS_NUMBER, at, min, max, help)
/* For commands that must know whether it was given. */
#define CLI_NUMBER_IF(name_, value_, at_, given_, help_)                                \
	{                                                                               \
		.name = (name_), .value = (value_), .kind = CLI_IS_NUMBER, .at = (at_), \
		.given = (given_), .help = (help_)                                      \
	}
#define CLI_COUNT(name, value, at, min, max, help) \
	CLI_VALUE(0, name, value, CLI_IS_COUNT, at, min, max, help)
#define CLI_SIZE(name, at, min, max, help) \
	CLI_VALUE(0, name, "SIZE", CLI_IS_SIZE, at, min, max, help)
#define CLI_SECONDS(name, at, min, max, help) \
	CLI_VALUE(0, name, "TIME", CLI_IS_SECONDS, at, min, max, help)
#define CLI_WORD(name_, value_, at_, words_, help_)                                   \
	{                                                                             \
		.name = (name_), .value = (value_), .kind = CLI_IS_WORD, .at = (at_), \
		.words = (words_), .help = (help_)                                    \
	}
/* Any text; a shell completes @words_, which are the usual ones. */
#define CLI_TEXT_SUCH_AS(name_, value_, at_, words_, help_)                           \
	{                                                                             \
		.name = (name_), .value = (value_), .kind = CLI_IS_TEXT, .at = (at_), \
		.words = (words_), .help = (help_)                                    \
	}
/* It may be repeated: counted in @nr_, up to @max_ times. */
#define CLI_LIST(name_, value_, at_, nr_, max_, help_)                                \
	{                                                                             \
		.name = (name_), .value = (value_), .kind = CLI_IS_LIST, .at = (at_), \
		.given = (nr_), .max = (max_), .help = (help_)                        \
	}
#define CLI_SHARD(at_, nr_, help_)                                                  \
	{                                                                           \
		.name = "shard", .value = "K/N", .kind = CLI_IS_SHARD, .at = (at_), \
		.given = (nr_), .max = 65536, .help = (help_)                       \
	}
#define CLI_OTHER(letter_, name_, value_, take_, help_)                                        \
	{                                                                                      \
		.letter = (letter_), .name = (name_), .value = (value_), .kind = CLI_IS_OTHER, \
		.take = (take_), .help = (help_)                                               \
	}
#define CLI_END              \
	{                    \
		.name = NULL \
	}

struct cli_section {
	const char *title, *about;        /* NULL: without */
	const struct cli_option *options; /* NULL: the end of the sections */
	size_t base;                      /* offset of their structure in the command's arguments */
	/*
	 * Offset of a const char * in the arguments that is set to the last given option of this
	 * section, such as "--threads"; 0: not wanted.
	 */
	size_t given;
	/* Called after all options were parsed, if not NULL. False after printing what is wrong. */
	bool (*check)(const char *command, void *into);
};

#define CLI_SECTIONS_MAX 12

struct cli_command {
	const char *name, *summary;
	const char *usage; /* a line for each form, without "shoal NAME" */
	const char *about; /* paragraphs, with a line end after each */
	struct cli_section sections[CLI_SECTIONS_MAX];
	const char *notes;             /* paragraphs after the options, or NULL */
	const char *const *first_word; /* the type of the first argument, for completion; or NULL */
	unsigned min, max; /* number of arguments that are not options; max 0: any number */
	const char *give;  /* the message if there are fewer or more */
	bool shares_work;  /* among the ranks of a job; otherwise rank 0 does it alone */
	size_t size;       /* size of the arguments, which are initially zero */
	void (*set_defaults)(void *arguments);             /* NULL: all zeros */
	int (*run)(void *arguments, int nr, char **words); /* returns the exit status */
};

/* All commands, in the order of the help; ended by NULL. */
extern const struct cli_command *const cli_commands[];

/* The command @name, or NULL. */
const struct cli_command *cli_find_command(const char *name);

/* Parse @argv, whose first element is the command's name, and run it. Returns the exit status. */
int cli_run_command(const struct cli_command *c, int argc, char **argv);

/* Call @each for all options of a command, --help included, until it returns false. */
void cli_each_option(const struct cli_command *c,
		     bool (*each)(const struct cli_section *s, const struct cli_option *o,
				  void *self),
		     void *self);

/* ---- help.c ---- */

/* As text for a terminal of @columns. */
void cli_put_help(FILE *out, const struct cli_command *c, size_t columns);

/*
 * Lines of a result. On a terminal, a line that is too long continues on further lines, which begin
 * at column @indent.
 */
void cli_put_lines(FILE *out, const char *text, size_t indent);

/* A table on standard output, of the columns that fit the window of a terminal. */
void cli_put_table(const struct text_table *t);

/* Replace spaces by line ends, so that no line is longer than a window of @columns allows. */
void cli_fold(char *text, size_t columns);

/*
 * A text that is printed as a whole: cli_text_open() returns where to write it (NULL: no memory),
 * cli_text_print() closes that and prints the text on standard output by cli_put_lines(). Not
 * @alone: as it is, because the terminal of a rank is not the one that people look at.
 */
#define CLI_LABEL_COLUMNS 10 /* of lines such as "memory    12 MB" */
struct cli_text {
	char *text;
	size_t len;
};
FILE *cli_text_open(struct cli_text *ret);
void cli_text_print(struct cli_text *t, FILE *out, bool alone, size_t indent);

/* Whether a terminal is to show colours. */
bool cli_wants_colour(void);

/* The width of the terminal that @fd is, or that the reader of a pipe (less) uses; otherwise 80. */
size_t cli_columns(int fd);

/* A list of all commands. */
void cli_put_commands(FILE *out, size_t columns);

/* ---- man.c ---- */

/* A manual page in roff, of a command or, if NULL, of shoal itself. */
void cli_put_man(FILE *out, const struct cli_command *c);

#endif
