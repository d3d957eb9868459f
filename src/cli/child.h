/* child.h - run a program and keep what it prints. */
#ifndef SHOAL_CLI_CHILD_H
#define SHOAL_CLI_CHILD_H

#include "base/err.h"

struct child_result {
	int status; /* its exit status; 128 plus the number of the signal that ended it */
	char *out;  /* its standard output, ended by a NUL; the caller frees it */
	size_t len;
	char last_words[256]; /* what it reported as its error, by --progress json if it can do that
			       */
};

/*
 * Run @argv, ended by NULL; [0] is searched in PATH. Its output goes through files without a name
 * in @dir. A signal to this process ends the child, too: -ECANCELED, once it has ended. If this
 * process is killed, the child gets a SIGTERM.
 */
int child_run(char *const argv[], const char *dir, struct child_result *ret,
	      struct shoal_err *err) MUST_USE;

#endif
