#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/s3_options.h"
#include "comm/comm.h"
#include "load/fetch.h"
#include "shoal.h"

void cli_put_plain(FILE *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\x%02x", c);
		else
			fputc(c, out);
	}
}

static void SHOAL_PRINTF(2, 0) say(const char *command, const char *fmt, va_list args)
{
	char words[2 * 4096]; /* a path, and what is wrong with it */
	char *line = NULL;
	size_t len = 0;
	FILE *out;

	fflush(stdout);
	vsnprintf(words, sizeof(words), fmt, args);
	/* Written at once: other ranks may be saying something, too. */
	out = open_memstream(&line, &len);
	if (!out)
		return;
	fprintf(out, "shoal%s%s: ", *command ? " " : "", command);
	cli_put_plain(out, words, strlen(words));
	fputc('\n', out);
	if (fclose(out) == 0)
		fwrite(line, 1, len, stderr);
	free(line);
}

int cli_fail(const char *command, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(command, fmt, args);
	va_end(args);
	return CLI_FAILED;
}

int cli_usage(const char *command, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(command, fmt, args);
	va_end(args);
	fprintf(stderr, "Try 'shoal %s --help'.\n", command);
	return CLI_USAGE;
}

/* Of --local-copy: where cli_open() has its catalogs copied to. */
static const char *local_copy;

int cli_getopt(int argc, char **argv, const char *shorts, const struct option *longs)
{
	struct shoal_err err = { "" };
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) == CLI_OPT_LOCAL_COPY ||
	       cli_s3_option(c, optarg)) {
		if (c == CLI_OPT_LOCAL_COPY)
			local_copy = optarg;
		else if (cli_s3_check(c, optarg, &err) < 0) {
			cli_usage(argv[0], "%s", err.msg);
			return '?';
		}
	}
	if (c == ':')
		cli_usage(argv[0], "option '%s' needs a value", argv[optind - 1]);
	else if (c == '?' && optopt && strchr(argv[optind - 1], '='))
		cli_usage(argv[0], "option '%s' takes no value", argv[optind - 1]);
	else if (c == '?' && optopt)
		cli_usage(argv[0], "unknown option '-%c'", optopt);
	else if (c == '?')
		cli_usage(argv[0], "unknown option '%s'", argv[optind - 1]);
	return c == ':' ? '?' : c;
}

bool cli_number(const char *command, const char *option, uint64_t *ret_value)
{
	int rc = shoal_parse_u64(optarg, ret_value);

	if (rc < 0)
		cli_usage(command, "%s '%s' is %s", option, optarg,
			  rc == -ERANGE ? "too large" : "not a whole number");
	return rc == 0;
}

bool cli_threads(const char *command, uint64_t *ret_nr)
{
	if (!cli_number(command, "--threads", ret_nr))
		return false;
	if (*ret_nr < 1 || *ret_nr > 1024)
		cli_usage(command, "--threads must be 1 to 1024");
	return *ret_nr >= 1 && *ret_nr <= 1024;
}

bool cli_size(const char *command, const char *option, uint64_t *ret_value)
{
	int rc = shoal_parse_size(optarg, ret_value);

	if (rc < 0)
		cli_usage(command, "%s '%s' is %s", option, optarg,
			  rc == -ERANGE ? "too large" : "not a size, such as 256M");
	return rc == 0;
}

int cli_open_catalog(const char *path, struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	struct shoal_err words = { "" };
	int rc = load_open_catalog(path, local_copy, &cli_stop, ret_cat, &words);

	if (rc < 0)
		return shoal_fail(err, rc, "%s", words.msg);
	if (*words.msg)
		cli_fail("", "'%s': %s", path, words.msg);
	return 0;
}

struct shoal_catalog *cli_open(const char *command, const char *path)
{
	struct shoal_catalog *cat = NULL;
	bool copies = local_copy || load_is_remote(path);
	struct shoal_err err = { "" };
	int rc;

	if (copies)
		cli_catch_signals();
	rc = cli_open_catalog(path, &cat, &err);
	if (copies)
		cli_release_signals(); /* the command may take them again */
	if (rc < 0)
		cli_fail(command, "'%s': %s", path, err.msg);
	if (rc == -ECANCELED || cli_stop)
		cli_die_of_signal();
	return cat;
}

int cli_check_samples(const struct shoal_catalog *cat, struct shoal_err *err)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	if (info.nr_files == 0)
		return shoal_fail(err, -ENODATA,
				  "the catalog lists no files: index a place that has some");
	if (info.nr_samples == 0)
		return shoal_fail(err, -ENODATA,
				  "the catalog has no samples: none of its files holds any");
	return 0;
}

int cli_lookup_failed(const char *command, const char *path, const struct shoal_catalog *cat,
		      int rc)
{
	struct shoal_err err = { "" };

	shoal_catalog_explain(cat, rc, &err);
	return cli_fail(command, "'%s': %s", path, err.msg);
}

int cli_finish(const char *command, int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	return cli_fail(command, "cannot write to standard output: %s", strerror(errno));
}

_Noreturn void cli_exit_now(const char *command, int status)
{
	status = cli_finish(command, status);
	fflush(stderr);
	_exit(status);
}

void cli_json_string(const char *text)
{
	size_t left = strlen(text);

	putchar('"');
	while (left > 0) {
		size_t n = shoal_utf8_len(text, left);

		if (n == 0)
			fputs("\\ufffd", stdout);
		else if ((unsigned char)*text < 0x20)
			printf("\\u%04x", (unsigned)*text);
		else if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else
			fwrite(text, 1, n, stdout);
		text += n ? n : 1;
		left -= n ? n : 1;
	}
	putchar('"');
}

int cli_stop;
static volatile sig_atomic_t caught;

static void on_signal(int sig)
{
	caught = sig;
	__atomic_store_n(&cli_stop, 1, __ATOMIC_RELAXED);
}

void cli_part(struct shoal_comm *comm)
{
	fflush(stdout); /* a failure is told by cli_finish() */
	shoal_comm_close(comm);
}

/* From users, and from batch systems before time is up. */
static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU };

void cli_release_signals(void)
{
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(signals); i++) {
		struct sigaction old;

		sigaction(signals[i], NULL, &old);
		if (old.sa_handler == on_signal)
			signal(signals[i], SIG_DFL);
	}
}

void cli_catch_signals(void)
{
	/* No SA_RESTART: a read that waits for a list must come back. */
	struct sigaction act = { .sa_handler = on_signal };

	sigemptyset(&act.sa_mask);
	/* A pipe that nobody reads and a file that may not grow are errors like others. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(signals); i++) {
		struct sigaction old;

		sigaction(signals[i], NULL, &old);
		if (old.sa_handler != SIG_IGN) /* nohup stays nohup */
			sigaction(signals[i], &act, NULL);
	}
}

void cli_die_of_signal(void)
{
	if (!caught)
		return;
	signal(caught, SIG_DFL);
	raise(caught);
}
