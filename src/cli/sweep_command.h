/* sweep_command.h - the command lines of a sweep: that of the user with the values of a point. */
#ifndef SHOAL_CLI_SWEEP_COMMAND_H
#define SHOAL_CLI_SWEEP_COMMAND_H

#include "sweep/plan.h"

struct sweep_command {
	char **words; /* the user's command, from "read" or "run" on; lent */
	size_t nr;
	const char *launcher; /* "mpirun -n {}", or NULL; lent */
	const char *results;  /* the folder; lent */
};

/* Whether a sweep can be made of the command with these parameters. CLI_OK, or CLI_USAGE after
 * printing what is wrong. */
int sweep_command_check(const struct sweep_command *c, const struct sweep_plan *plan);

/* The words of a job, ended by NULL, in one allocation that the caller frees. NULL: no memory. */
char **sweep_command_of(const struct sweep_command *c, const struct sweep_plan *plan,
			const struct sweep_job *job);

#endif
