/* shoal completion: scripts that complete commands, options and values, made from the tables. */
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"

static const char *const shells[] = { "bash", "zsh", "fish", NULL };

/* For cli_each_option(). */
struct each_of {
	const struct cli_command *command;
};

/* Whether a value is the name of a file or directory. */
static bool is_path(const struct cli_option *o)
{
	static const char *const paths[] = { "FILE", "DIR", "PLACE", "COLUMN", "OLD", "CATALOG" };

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (strcmp(o->value, paths[i]) == 0)
			return true;
	return false;
}

static void put_list(const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		printf("%s%s", i ? " " : "", words[i]);
}

static void put_command_names(void)
{
	for (const struct cli_command *const *c = cli_commands; *c; c++)
		printf("%s ", (*c)->name);
	fputs("help", stdout);
}

/* Whether the first argument is a workload. */
static bool takes_workload(const struct cli_command *c)
{
	return strstr(c->usage, "WORKLOAD") != NULL;
}

/* A command that prints the names of the workloads that ship, a line each. */
#define WORKLOAD_NAMES "shoal workloads 2> /dev/null | sed \"1d; s/ .*//\""

/* ---- bash ---- */

static bool put_bash_name(const struct cli_section *s, const struct cli_option *o, void *self)
{
	(void)s;
	(void)self;
	printf(" --%s", o->name);
	return true;
}

/* What to complete after an option that has a value: "command --option". */
static bool put_bash_value(const struct cli_section *s, const struct cli_option *o, void *self)
{
	const struct cli_command *c = ((struct each_of *)self)->command;

	(void)s;
	if (!o->value || o->optional)
		return true;
	printf("\t%s\\ --%s", c->name, o->name);
	if (o->letter)
		printf("|%s\\ -%c", c->name, o->letter);
	fputs(") ", stdout);
	if (o->words) {
		fputs("words='", stdout);
		put_list(o->words);
		fputs("'", stdout);
	} else if (is_path(o)) {
		fputs("files=1", stdout);
	} else {
		fputs("return", stdout);
	}
	fputs(" ;;\n", stdout);
	return true;
}

static void put_bash(void)
{
	fputs("# bash completion for shoal: source <(shoal completion bash)\n"
	      "_shoal() {\n"
	      "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "    local command=${COMP_WORDS[1]} words= files=\n"
	      "    # --name=value is three words, if COMP_WORDBREAKS has =.\n"
	      "    if [[ $word == = && $before == --* ]]; then\n"
	      "        word=\n"
	      "    elif [[ $before == = ]]; then\n"
	      "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
	      "    fi\n"
	      "    COMPREPLY=()\n"
	      "    if ((COMP_CWORD == 1)); then\n"
	      "        COMPREPLY=($(compgen -W '",
	      stdout);
	put_command_names();
	fputs(" --help --version' -- \"$word\"))\n        return\n    fi\n    case \"$command $before\" in\n",
	      stdout);
	for (const struct cli_command *const *c = cli_commands; *c; c++) {
		struct each_of of = { *c };

		cli_each_option(*c, put_bash_value, &of);
	}
	fputs("\t*) files=1\n\tcase $command in\n", stdout);
	for (const struct cli_command *const *c = cli_commands; *c; c++) {
		printf("\t%s) words='", (*c)->name);
		if ((*c)->first_word)
			put_list((*c)->first_word);
		cli_each_option(*c, put_bash_name, NULL);
		fputs("'", stdout);
		if (takes_workload(*c))
			fputs("; ((COMP_CWORD > 2)) || words+=\" $(" WORKLOAD_NAMES ")\"", stdout);
		puts(" ;;");
	}
	fputs("\thelp) words='", stdout);
	put_command_names();
	fputs("' ;;\n\tesac ;;\n    esac\n"
	      "    [[ $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	      "    [[ $files && $word != -* ]] &&\n"
	      "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$word\")\n"
	      "    return 0\n"
	      "}\n"
	      "complete -o filenames -F _shoal shoal\n",
	      stdout);
}

/* ---- zsh and fish ---- */

#define SHORT_MAX 70u

/* The bytes of an explanation's first sentence or clause: whole words, and no part of what is in
 * parentheses. */
static size_t short_len(const char *help)
{
	size_t n = 0, word = 0, open = 0;
	bool inside = false;

	for (; n < SHORT_MAX && help[n] && help[n] != ';' &&
	       !(strchr(".:", help[n]) && (help[n + 1] == ' ' || !help[n + 1]));
	     n++) {
		if (help[n] == ' ')
			word = n;
		if (help[n] == '(') {
			inside = true;
			open = n;
		} else if (help[n] == ')') {
			inside = false;
		}
	}
	if (n == SHORT_MAX && help[n] && help[n] != ' ')
		n = word;
	if (inside)
		n = open;
	while (n > 0 && strchr(" ,", help[n - 1]))
		n--;
	return n;
}

/* Between single quotes, in zsh's brackets: without what these would interpret. */
static void put_short(const char *help)
{
	size_t len = short_len(help);

	for (size_t i = 0; i < len; i++) {
		if (help[i] == '\'')
			fputs("'\\''", stdout);
		else if (!strchr("[]\\`$\"", help[i]))
			putchar(help[i]);
	}
}

static bool put_zsh_option(const struct cli_section *s, const struct cli_option *o, void *self)
{
	(void)s;
	(void)self;
	printf(" \\\n\t    '*--%s%s[", o->name, o->value && !o->optional ? "=" : "");
	put_short(o->help);
	putchar(']');
	if (o->value && !o->optional) {
		printf(":%s:", o->value);
		if (o->words) {
			putchar('(');
			put_list(o->words);
			putchar(')');
		} else if (is_path(o)) {
			fputs("_files", stdout);
		} else {
			putchar(' ');
		}
	}
	putchar('\'');
	return true;
}

static void put_zsh(void)
{
	fputs("#compdef shoal\n"
	      "# zsh completion for shoal: source <(shoal completion zsh), after compinit; or\n"
	      "# shoal completion zsh > \"${fpath[1]}/_shoal\"\n"
	      "_shoal() {\n"
	      "    local -a commands=(\n",
	      stdout);
	for (const struct cli_command *const *c = cli_commands; *c; c++) {
		printf("\t'%s:", (*c)->name);
		put_short((*c)->summary);
		puts("'");
	}
	fputs("\t'help:print the help of a command'\n"
	      "    )\n"
	      "    if ((CURRENT == 2)); then\n"
	      "        _describe command commands\n"
	      "        [[ $PREFIX != -* ]] || compadd -- --help --version\n"
	      "        return\n"
	      "    fi\n"
	      "    local command=$words[2]\n"
	      "    shift words\n"
	      "    ((CURRENT--))\n"
	      "    case $command in\n",
	      stdout);
	for (const struct cli_command *const *c = cli_commands; *c; c++) {
		printf("    %s) _arguments", (*c)->name);
		cli_each_option(*c, put_zsh_option, NULL);
		if ((*c)->first_word) {
			fputs(" \\\n\t    '1: :(", stdout);
			put_list((*c)->first_word);
			fputs(")'", stdout);
		}
		if (takes_workload(*c))
			fputs(" \\\n\t    '1:workload:{compadd -- $(" WORKLOAD_NAMES "); _files}'",
			      stdout);
		puts(" \\\n\t    '*:file:_files' ;;");
	}
	/* A file in fpath is the body of the function; a sourced script only defines it. */
	fputs("    help) _describe command commands ;;\n"
	      "    esac\n}\n"
	      "if [[ $funcstack[1] == _shoal ]]; then\n"
	      "    _shoal \"$@\"\n"
	      "else\n"
	      "    compdef _shoal shoal\n"
	      "fi\n",
	      stdout);
}

static bool put_fish_option(const struct cli_section *s, const struct cli_option *o, void *self)
{
	const struct cli_command *c = ((struct each_of *)self)->command;

	(void)s;
	printf("complete -c shoal -n '__shoal_in %s' -l %s", c->name, o->name);
	if (o->letter)
		printf(" -s %c", o->letter);
	if (o->value && o->words) {
		fputs(" -x -a '", stdout);
		put_list(o->words);
		putchar('\'');
	} else if (o->value && !o->optional) {
		fputs(is_path(o) ? " -r" : " -x", stdout);
	}
	fputs(" -d '", stdout);
	put_short(o->help);
	puts("'");
	return true;
}

static void put_fish(void)
{
	puts("# fish completion for shoal: shoal completion fish | source\n"
	     "function __shoal_in\n"
	     "    set -l words (commandline -opc)\n"
	     "    test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
	     "end\n"
	     "complete -c shoal -n __fish_use_subcommand -l help -d 'print the commands'\n"
	     "complete -c shoal -n __fish_use_subcommand -l version -d 'print the version'\n"
	     "complete -c shoal -f -n __fish_use_subcommand -a help -d 'print the help of a "
	     "command'\n"
	     "complete -c shoal -f -n '__shoal_in help' -a '(shoal --help | string match -r "
	     "\"^  [a-z]+\" | string trim)'");
	for (const struct cli_command *const *c = cli_commands; *c; c++) {
		struct each_of of = { *c };

		printf("complete -c shoal -f -n __fish_use_subcommand -a %s -d '", (*c)->name);
		put_short((*c)->summary);
		puts("'");
		if ((*c)->first_word) {
			printf("complete -c shoal -n '__shoal_in %s' -a '", (*c)->name);
			put_list((*c)->first_word);
			puts("'");
		}
		if (takes_workload(*c))
			printf("complete -c shoal -n '__shoal_in %s' -a '(" WORKLOAD_NAMES ")'\n",
			       (*c)->name);
		cli_each_option(*c, put_fish_option, &of);
	}
}

static int cmd_completion_run(void *arguments, int nr, char **words)
{
	(void)arguments;
	(void)nr;
	if (strcmp(words[0], "bash") == 0)
		put_bash();
	else if (strcmp(words[0], "zsh") == 0)
		put_zsh();
	else if (strcmp(words[0], "fish") == 0)
		put_fish();
	else
		return cli_usage("completion", "'%s' is not bash, zsh or fish", words[0]);
	return CLI_OK;
}

static const struct cli_option options[] = { CLI_END };

const struct cli_command cmd_completion = {
	.name = "completion",
	.summary = "print a script that completes commands and options in a shell",
	.usage = "bash|zsh|fish",
	.about = "Print a script for bash, zsh or fish that completes commands, options and their "
		 "values. For bash and zsh: source <(shoal completion bash), or zsh; for fish: "
		 "shoal completion fish | source",
	.sections = { { .options = options } },
	.first_word = shells,
	.min = 1,
	.max = 1,
	.give = "give a shell: bash, zsh or fish",
	.run = cmd_completion_run,
};
