/* shoal: list, shard, shuffle and load datasets of any number of files. */
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/text.h"
#include "built.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "comm/comm.h"

const struct cli_command *const cli_commands[] = {
	&cmd_index,   &cmd_list,       &cmd_info,   &cmd_ls,       &cmd_find,      &cmd_stat,
	&cmd_cat,     &cmd_verify,     &cmd_merge,  &cmd_filter,   &cmd_split,     &cmd_diff,
	&cmd_order,   &cmd_read,       &cmd_run,    &cmd_sweep,    &cmd_report,    &cmd_compare,
	&cmd_replay,  &cmd_check,      &cmd_column, &cmd_manifest, &cmd_workloads, &cmd_datasize,
	&cmd_datagen, &cmd_completion, NULL,
};

static int unknown_option_of_all(const char *name)
{
	static const char *const known[] = { "--version", "--help" };
	const char *near = text_nearest(name, known, ARRAY_LEN(known));

	if (near)
		return cli_usage("", "unknown option '%s'; did you mean %s?", name, near);
	return cli_usage("", "unknown option '%s'; options follow a command, as in 'shoal ls -q'",
			 name);
}

/* Not a command: suggest the most similar one, if there is one. */
static int unknown_command(const char *name)
{
	const char *near = NULL;
	size_t best = SIZE_MAX;

	for (const struct cli_command *const *c = cli_commands; *c; c++) {
		size_t d = text_distance(name, (*c)->name);

		if (d < best) {
			best = d;
			near = (*c)->name;
		}
	}
	if (*name == '-' && name[1])
		return unknown_option_of_all(name);
	if (text_is_near(name, best))
		return cli_usage("", "unknown command '%s'; did you mean %s?", name, near);
	return cli_usage("", "unknown command '%s'", name);
}

/* The second line lists what this build can do (+) and what was missing (-). */
static void print_version(void)
{
	const char *openmpi = comm_has_module("openmpi") ? " +openmpi" : " -openmpi";
	const char *mpich = comm_has_module("mpich") ? " +mpich" : " -mpich";

	printf("shoal %s\n", shoal_version());
	printf("features: %cio_uring %cs3%s%s\n", SHOAL_WITH_URING ? '+' : '-',
	       SHOAL_WITH_S3 ? '+' : '-', openmpi, mpich);
}

/*
 * Each thread's heap reserves 64 MiB of addresses, though it uses little memory: if addresses are
 * limited (ulimit -v), threads share heaps.
 */
static void share_heaps(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_AS, &l) == 0 && l.rlim_cur != RLIM_INFINITY)
		mallopt(M_ARENA_MAX, 2);
}

/*
 * A descriptor that the caller has closed would be given to the next file that is opened, and
 * messages would be written into it. What takes its place fails as the closed one would.
 */
static void fill_standard_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return;
}

/* "shoal help", "shoal help COMMAND", "shoal help --man [COMMAND]". */
static int main_help(int argc, char **argv)
{
	bool man = argc > 2 && strcmp(argv[2], "--man") == 0;
	const char *name =
		argc > 2 + man && strcmp(argv[2 + man], "help") != 0 ? argv[2 + man] : NULL;
	const struct cli_command *c = name ? cli_find_command(name) : NULL;

	if (name && !c)
		return unknown_command(name);
	if (man)
		cli_put_man(stdout, c);
	else if (c)
		cli_put_help(stdout, c, cli_columns(STDOUT_FILENO));
	else
		cli_put_commands(stdout, cli_columns(STDOUT_FILENO));
	return cli_finish("", CLI_OK);
}

int main(int argc, char **argv)
{
	const struct cli_command *c;
	int status;

	fill_standard_streams();
	if (argc < 2) {
		cli_put_commands(stderr, cli_columns(STDERR_FILENO));
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 ||
	    strcmp(argv[1], "version") == 0) {
		print_version();
		return cli_finish("", CLI_OK);
	}
	if (strcmp(argv[1], "--help=man") == 0) {
		cli_put_man(stdout, NULL);
		return cli_finish("", CLI_OK);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0)
		return main_help(argc, argv);
	c = cli_find_command(argv[1]);
	if (!c)
		return unknown_command(argv[1]);
	share_heaps();
	setvbuf(stdout, NULL, _IOFBF, 1u << 16);
	status = cli_run_command(c, argc - 1, argv + 1);
	return cli_finish(c->name, status);
}
