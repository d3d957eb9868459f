/* shoal: list, shard, shuffle and load datasets of any number of files. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "built.h"
#include "cli/cli.h"
#include "comm/comm.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "index", cmd_index, "make a catalog of a directory, a list or a pattern" },
	{ "info", cmd_info, "describe a catalog" },
	{ "ls", cmd_ls, "print names by id or prefix" },
	{ "find", cmd_find, "print the id of a name" },
	{ "verify", cmd_verify, "check catalogs for damage, or against the storage" },
	{ "order", cmd_order, "print the samples that a rank reads in an epoch" },
	{ "read", cmd_read, "load an epoch and report how fast it was" },
	{ "run", cmd_run, "benchmark storage with a training workload" },
	{ "column", cmd_column, "make, sort and check columns: one number per sample" },
	{ "manifest", cmd_manifest, "write a list of URIs for each rank and epoch" },
	{ "workloads", cmd_workloads, "list the shipped workloads, or print one" },
	{ "datasize", cmd_datasize, "compute how much data a workload needs" },
	{ "datagen", cmd_datagen, "write the files of a workload, or verify them" },
};

static void print_help(FILE *out)
{
	fputs("usage: shoal COMMAND [OPTION]...\n\n", out);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(out, "  %-10s%s\n", commands[i].name, commands[i].summary);
	fputs("\nRun 'shoal COMMAND --help' for a command's options, 'shoal --version' for the version.\n",
	      out);
}

/* The second line has what this build can do (+) and what was missing (-). */
static void print_version(void)
{
	const char *openmpi = comm_has_module("openmpi") ? " +openmpi" : " -openmpi";
	const char *mpich = comm_has_module("mpich") ? " +mpich" : " -mpich";

	printf("shoal %s\n", shoal_version());
	printf("features: %cio_uring %cs3%s%s\n", SHOAL_WITH_URING ? '+' : '-',
	       SHOAL_WITH_S3 ? '+' : '-', openmpi, mpich);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

/* The heap of a thread takes 64 MiB of addresses, though little memory: where addresses are limited
 * (ulimit -v), threads share. */
static void share_heaps(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_AS, &l) == 0 && l.rlim_cur != RLIM_INFINITY)
		mallopt(M_ARENA_MAX, 2);
}

int main(int argc, char **argv)
{
	static char help_option[] = "--help";
	const struct command *c;
	int status;

	if (argc < 2) {
		print_help(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		print_version();
		return cli_finish("", CLI_OK);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    (strcmp(argv[1], "help") == 0 && argc == 2)) {
		print_help(stdout);
		return cli_finish("", CLI_OK);
	}
	if (strcmp(argv[1], "help") == 0) { /* "help index" is "index --help" */
		argv[1] = argv[2];
		argv[2] = help_option;
	}
	c = find_command(argv[1]);
	if (!c) {
		cli_fail("", "unknown command '%s'", argv[1]);
		fputs("Try 'shoal --help'.\n", stderr);
		return CLI_USAGE;
	}
	share_heaps();
	setvbuf(stdout, NULL, _IOFBF, 1u << 16);
	status = c->run(argc - 1, argv + 1);
	return cli_finish(c->name, status);
}
