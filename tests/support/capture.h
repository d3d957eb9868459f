/* capture.h - what the command's code prints, as text. Included by one file of a program. */
#ifndef SHOAL_TESTS_CAPTURE_H
#define SHOAL_TESTS_CAPTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "help.h"

static char *said, *printed; /* on standard error and output, since the last capture_begin() */
static size_t said_len, printed_len;
static FILE *real_stderr, *real_stdout;

static void capture_forget(void)
{
	free(said);
	free(printed);
	said = printed = NULL;
}

static void capture_begin(void)
{
	capture_forget();
	real_stderr = stderr;
	real_stdout = stdout;
	stderr = open_memstream(&said, &said_len);
	stdout = open_memstream(&printed, &printed_len);
	assert_non_null(stderr);
	assert_non_null(stdout);
}

static void capture_end(void)
{
	fclose(stderr);
	fclose(stdout);
	stderr = real_stderr;
	stdout = real_stdout;
}

/* A group's teardown. */
static int capture_release(void **state)
{
	(void)state;
	capture_forget();
	return 0;
}

#endif
