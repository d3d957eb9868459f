/*
 * record.h - what a command other than run leaves for 'shoal report' (--results DIR): its figures
 * as COMMAND.json, and a time series per rank. The series is also what --listen shows.
 */
#ifndef SHOAL_CLI_RECORD_H
#define SHOAL_CLI_RECORD_H

#include "cli/listen.h"
#include "report/write.h"

struct cli_record {
	const char *results;   /* --results, or NULL */
	bool resumes;          /* what the command left there when it was interrupted is replaced */
	struct series *series; /* NULL: nobody wants one */
	uint64_t cores;        /* that the ranks with a series may use, all together */
	char *begin; /* rank 0: the text of begin.json, if there are results or listeners */
};

/* What a command says of itself: what it works on, and further members of an open JSON object. */
struct cli_record_facts {
	const char *command, *what;
	void (*put)(struct json *j, const void *self);
	const void *self;
};

#define CLI_RECORD_HELP \
	"also write the figures and a time series to this directory, for 'shoal report'"

/*
 * Collective, before the work begins. The directory is made if it is missing; results of another
 * command in it are an error. begin.json has what is about to be done. Ranks other than 0 have a
 * series if @all.
 */
int cli_record_begin(struct cli_record *r, const struct cli_record_facts *facts, struct comm *comm,
		     bool all, struct cli_listen *listen, struct shoal_err *err) MUST_USE;

/* Whether cli_record_begin() would refuse the directory. Writes nothing. */
int cli_record_check(const struct cli_record *r, const char *command,
		     struct shoal_err *err) MUST_USE;

/* Rank 0: write COMMAND.json. */
int cli_record_write(struct cli_record *r, const struct cli_record_facts *facts,
		     struct shoal_err *err) MUST_USE;

/* The series is complete. Returns CLI_OK, or CLI_FAILED after printing that it is not. */
int cli_record_end(struct cli_record *r, const char *command);

#endif
