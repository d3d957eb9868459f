#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/publish.h"
#include "base/text.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "cli/screen.h"
#include "comm/comm.h"
#include "shoal.h"
#include "store/uri.h"

/* What cli_put_plain() prints, as far as it fits into @cap bytes. */
static size_t copy_plain(char *buf, size_t cap, const char *text)
{
	size_t len = 0;

	for (; *text && len + 5 <= cap; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			len += (size_t)snprintf(buf + len, 5, "\\x%02x", c);
		else
			buf[len++] = (char)c;
	}
	return len;
}

void cli_put_bytes(FILE *out, const char *label, uint64_t bytes)
{
	fprintf(out, "%s%s", label, size_in_words(bytes).text);
	if (bytes >= 10000)
		fprintf(out, " (%s bytes)", count_in_words(bytes).text);
	putc('\n', out);
}

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

/*
 * Printed in one call, because other ranks may be printing, too; and without allocating anything,
 * because there may be no memory.
 */
static void PRINTF_LIKE(2, 0) cli_print(const char *head, const char *fmt, va_list args)
{
	char words[2 * 4096]; /* a path, and what is wrong with it */
	char line[2 * sizeof(words)];
	size_t len;

	cli_flush_output();
	vsnprintf(words, sizeof(words), fmt, args);
	len = (size_t)snprintf(line, 90, "%s", head);
	len += copy_plain(line + len, sizeof(line) - len - 2, words);
	memcpy(line + len, "\n", 2);
	screen_print(line);
}

/* As a document with these members, if documents are wanted. */
static bool PRINTF_LIKE(3, 0)
	cli_print_json(const char *key, const char *command, const char *fmt, va_list args)
{
	struct cli_json_line l;
	char words[2 * 4096];

	if (cli_talk.style != CLI_AS_JSON || !cli_json_line_open(&l))
		return false;
	vsnprintf(words, sizeof(words), fmt, args);
	json_string(&l.json, key, words);
	json_string(&l.json, "command", command);
	cli_json_line_close(&l);
	return true;
}

static void PRINTF_LIKE(2, 0) cli_print_error(const char *command, const char *fmt, va_list args)
{
	char head[90];

	if (cli_print_json("message", command, fmt, args))
		return;
	snprintf(head, sizeof(head), "shoal%s%s: ", *command ? " " : "", command);
	cli_print(head, fmt, args);
}

int cli_fail(const char *command, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	cli_print_error(command, fmt, args);
	va_end(args);
	return CLI_FAILED;
}

int cli_usage(const char *command, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	cli_print_error(command, fmt, args);
	va_end(args);
	if (cli_talk.style != CLI_AS_JSON)
		fprintf(stderr, "Try 'shoal%s%s --help'.\n", *command ? " " : "", command);
	return CLI_USAGE;
}

void cli_say(const char *command, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (!cli_print_json("note", command, fmt, args))
		cli_print("", fmt, args);
	va_end(args);
}

void cli_note(const char *command, const char *fmt, ...)
{
	char head[90];
	va_list args;

	va_start(args, fmt);
	snprintf(head, sizeof(head), "%s: ", command);
	if (!cli_print_json("note", command, fmt, args))
		cli_print(head, fmt, args);
	va_end(args);
}

void cli_warn(const char *command, const char *fmt, ...)
{
	char head[90];
	va_list args;

	if (cli_talk.quiet)
		return;
	va_start(args, fmt);
	snprintf(head, sizeof(head), "%s: warning: ", command);
	if (!cli_print_json("warning", command, fmt, args))
		cli_print(head, fmt, args);
	va_end(args);
}

struct shoal_catalog_options cli_catalog_options(const struct cli_where *where)
{
	return (struct shoal_catalog_options){ .copy_dir = where->local_copy,
					       .config = &where->config,
					       .stop = &cli_stop };
}

/* Whether this is the only process of its job, or rank 0. */
static bool speaks = true;

static void cli_show_fetched(void *self, uint64_t nr_bytes, uint64_t nr_all)
{
	cli_progress_show(self, &(struct cli_step){ .what = "bytes of the catalog",
						    .done = nr_bytes,
						    .total = nr_all });
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int cli_open_catalog(const char *path, const struct cli_where *where,
		     struct shoal_catalog **ret_cat, struct shoal_err *err)
{
	struct shoal_catalog_options options = cli_catalog_options(where);
	struct shoal_err words = { "" };
	struct cli_progress progress;
	int rc;

	cli_progress_start(&progress, "fetch", speaks);
	options.progress = cli_show_fetched;
	options.self = &progress;
	rc = shoal_catalog_open_with(path, &options, ret_cat, &words);
	cli_progress_clear(&progress);
	if (rc < 0)
		return err_set_as(err, rc, &words, "%s%s", words.msg,
				  rc == -ENOENT        ? cli_guess_uri(path).text
				  : is_directory(path) ? "; make a catalog of it with 'shoal index'"
						       : "");
	if (*words.msg)
		cli_fail("", "'%s': %s", path, cli_words("", &words));
	return 0;
}

struct shoal_catalog *cli_open(const char *command, const char *path, const struct cli_where *where)
{
	struct shoal_catalog *cat = NULL;
	bool copies = where->local_copy || store_uri_traits(path).objects;
	struct shoal_err err = { "" };
	int rc;

	if (copies)
		cli_catch_signals();
	rc = cli_open_catalog(path, where, &cat, &err);
	if (copies)
		cli_release_signals(); /* the command may set them again */
	if (rc < 0)
		cli_fail(command, "'%s': %s", path, cli_words(command, &err));
	if (rc == -ECANCELED || cli_stop)
		cli_die_of_signal();
	return cat;
}

int cli_check_samples(const struct shoal_catalog *cat, struct shoal_err *err)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	if (info.nr_files == 0)
		return err_set(err, -ENODATA,
			       "the catalog lists no files: index a directory that has some");
	if (info.nr_samples == 0)
		return err_set(err, -ENODATA, "the catalog has no samples: its files contain none");
	return 0;
}

int cli_lookup_failed(const char *command, const char *path, const struct shoal_catalog *cat,
		      int rc)
{
	struct shoal_err err = { "" };

	shoal_catalog_explain(cat, rc, &err);
	return cli_fail(command, "'%s': %s", path, cli_words(command, &err));
}

int cli_no_such_name(const char *command, const char *path, const struct shoal_catalog *cat,
		     const char *name)
{
	struct shoal_catalog_info info;
	const char *root, *fronts[2];
	uint64_t id;

	shoal_catalog_info(cat, &info);
	root = store_local_path(info.root);
	fronts[0] = root = root ? root : info.root;
	fronts[1] = path_base(root);
	for (size_t i = 0; i < ARRAY_LEN(fronts); i++) {
		size_t len = strlen(fronts[i]);

		if (len && strncmp(name, fronts[i], len) == 0 && name[len] == '/' &&
		    shoal_catalog_find(cat, name + len + 1, strlen(name + len + 1), &id) == 0)
			return cli_fail(command,
					"'%s': there is no name '%s', because names are relative "
					"to '%s'; did you mean '%s'?",
					path, name, info.root, name + len + 1);
	}
	return cli_fail(command, "'%s': there is no name '%s'%s", path, name,
			strpbrk(name, "*?[") && strcmp(command, "find") == 0
				? "; a pattern is given with --include"
				: "");
}

int cli_try_output(const char *path, struct shoal_err *err)
{
	const char *local = store_local_path(path);
	struct stat st;
	char *dir;
	int rc = 0;

	if (!local)
		return 0;
	if (stat(local, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(err, -EINVAL, "cannot write '%.500s': it is not a regular file",
			       path);
	dir = path_dir(local);
	if (!dir)
		return err_set(err, -ENOMEM, "out of memory");
	if (access(dir, F_OK) < 0)
		rc = err_set(err, -ENOENT, "cannot write '%.500s': there is no directory '%.500s'",
			     path, dir);
	else if (access(dir, W_OK) < 0)
		rc = err_set_errno(err, err_errno(), "cannot write '%.500s'", path);
	free(dir);
	return rc;
}

int cli_check_directory(const char *command, const char *path)
{
	struct shoal_err err = { "" };

	return cli_try_output(path, &err) < 0 ? cli_fail(command, "%s", cli_words(command, &err))
					      : CLI_OK;
}

int cli_keep_foreign(const char *command, const char *path, const char *what, const char *mark,
		     bool force)
{
	char head[1024];
	size_t len;
	FILE *f;

	if (force || !store_local_path(path))
		return CLI_OK;
	f = fopen(store_local_path(path), "re");
	if (!f)
		return CLI_OK; /* the writer reports why that is not possible */
	len = fread(head, 1, sizeof(head), f);
	fclose(f);
	if (len == 0 || memmem(head, len, mark, strlen(mark)))
		return CLI_OK;
	return cli_fail(command, "'%s' exists and is not %s; write it all the same with --force",
			path, what);
}

int cli_open_list(const char *command, const char *path)
{
	const char *local = store_local_path(path);
	int fd = strcmp(path, "-") == 0 ? STDIN_FILENO
					: open(local ? local : path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		cli_fail(command, "'%s': cannot open it: %s%s", path, strerror(errno),
			 cli_guess_uri(path).text);
	return fd;
}

struct cli_guess cli_guess_uri(const char *path)
{
	struct cli_guess g = { "" };
	size_t len = strspn(path, "abcdefghijklmnopqrstuvwxyz0123456789");
	struct shoal_err why = { "" };

	if (len < 2 || path[len] != ':' || path[len + 1] != '/')
		return g;
	if (path[len + 2] != '/')
		snprintf(g.text, sizeof(g.text), "; did you mean '%.*s://%.200s'?", (int)len, path,
			 path + len + 2);
	else if (store_uri_check(path, &why) < 0)
		snprintf(g.text, sizeof(g.text), "; %.300s", why.msg);
	return g;
}

/* this process itself ignores SIGPIPE, which was not ignored when it started */
static bool ignores_pipe;

static int output_error; /* the reason of the first failed write; 0 if it was not noticed at once */

static bool output_lost; /* a part of it, before it could be written */

void cli_lose_output(int error)
{
	output_lost = true;
	if (output_error == 0)
		output_error = error;
}

bool cli_output_failed(void)
{
	if (output_lost)
		return true;
	if (!ferror_unlocked(stdout))
		return false;
	if (output_error == 0)
		output_error = errno;
	return true;
}

bool cli_flush_output(void)
{
	fflush(stdout);
	return !cli_output_failed();
}

/* Whether standard output is a pipe without a reader. */
static bool reader_has_left(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

int cli_finish(const char *command, int status)
{
	if (cli_flush_output())
		return status;
	/* Also if a write failed in the C library, where its reason is lost. */
	errno = reader_has_left() ? EPIPE : output_error;
	if (errno == EPIPE && ignores_pipe) { /* end as if signals had never been caught */
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	return cli_fail(command, "cannot write to standard output%s%s", errno ? ": " : "",
			errno ? strerror(errno) : "");
}

/* The most memory that this program had, in bytes; 0 if unknown. What getrusage() reports includes
 * the memory of the process that started it. */
static uint64_t most_memory(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[128];

	while (f && kib == 0 && fgets(line, sizeof(line), f))
		if (strncmp(line, "VmHWM:", 6) == 0)
			kib = strtoull(line + 6, NULL, 10);
	if (f)
		fclose(f);
	return (uint64_t)kib * 1024;
}

void cli_report_costs(const char *command)
{
	struct rusage used;
	double cpu;

	if (!cli_talk.verbose || !cli_flush_output() || getrusage(RUSAGE_SELF, &used) < 0)
		return; /* cli_finish() reports what could not be written; nothing else */
	cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	      (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
	cli_note(command, "%s, %s of CPU, at most %s of memory",
		 time_in_words(clock_seconds() - cli_talk.began).text, time_in_words(cpu).text,
		 size_in_words(most_memory()).text);
}

_Noreturn void cli_exit_now(const char *command, int status)
{
	status = cli_finish(command, status);
	fflush(stderr);
	_exit(status);
}

struct json cli_json(void)
{
	/* cli_finish() notices what fails. */
	return (struct json){ .put = json_put_file, .self = stdout };
}

bool cli_json_line_open(struct cli_json_line *l)
{
	*l = (struct cli_json_line){ .text = NULL };
	l->out = open_memstream(&l->text, &l->len);
	l->json = (struct json){ .put = json_put_file, .self = l->out };
	if (l->out)
		json_open_object(&l->json, NULL);
	return l->out != NULL;
}

void cli_json_line_close(struct cli_json_line *l)
{
	json_close_object(&l->json);
	if (fclose(l->out) == 0 && l->text)
		fwrite(l->text, 1, l->len, stderr);
	free(l->text);
}

int cli_stop;
static volatile sig_atomic_t caught;

static uint64_t caught_at;

/* A launcher may pass on a Ctrl-C that the terminal has sent already: one signal, not two. */
#define SAME_SIGNAL_NS UINT64_C(100000000)

static void on_signal(int sig)
{
	bool asks_to_end = sig != SIGXCPU && sig != SIGUSR1 && sig != SIGUSR2; /* may be repeated */

	if (!caught) {
		caught = sig;
		caught_at = clock_now();
	} else if (asks_to_end && clock_now() >= caught_at + SAME_SIGNAL_NS) {
		signal(sig, SIG_DFL);
		raise(sig); /* takes effect when this handler returns */
	}
	__atomic_store_n(&cli_stop, 1, __ATOMIC_RELAXED);
}

/* ---- Joining the other ranks, and parting from them ---- */

#define PEER_TIMEOUT 120u

/* The start lasts longer than an answer: all ranks load their programs, often from one server. */
#define START_FACTOR 5u

static volatile sig_atomic_t exit_status;
static char overdue_words[200];

static void on_overdue(int sig)
{
	(void)sig;
	(void)!write(STDERR_FILENO, overdue_words, strlen(overdue_words));
	_exit(exit_status);
}

/* Exit with @status once @seconds are over, until alarm(0): MPI can wait for ever for a rank that
 * was lost, and does not return then. */
static void limit_mpi(unsigned seconds, int status)
{
	struct sigaction overdue = { .sa_handler = on_overdue };

	sigemptyset(&overdue.sa_mask);
	exit_status = status;
	sigaction(SIGALRM, &overdue, NULL);
	alarm(seconds);
}

static bool joined; /* or has nothing to join */

int cli_join(const struct cli_where *where, struct comm **ret_comm, struct shoal_err *err)
{
	unsigned seconds = where->peer_timeout_given ? where->peer_timeout : PEER_TIMEOUT;
	int rc;

	joined = true;
	snprintf(overdue_words, sizeof(overdue_words),
		 "shoal: MPI did not start within %u s: a process of this job is missing, or its "
		 "host cannot be reached (--peer-timeout sets a fifth of this limit)\n",
		 START_FACTOR * seconds);
	limit_mpi(START_FACTOR * seconds, CLI_FAILED); /* 0: no limit */
	rc = comm_open(ret_comm, err); /* nothing to clean up yet: signals end it at once */
	alarm(0);
	cli_catch_signals();
	if (rc < 0)
		return rc;
	speaks = comm_place(*ret_comm)->rank == 0;
	cli_talk.verbose &= speaks;
	comm_set_stop(*ret_comm, &cli_stop);
	comm_set_peer_timeout(*ret_comm, seconds);
	return 0;
}

void cli_print_lost_peer(const char *command, const struct comm *comm, int rc,
			 struct shoal_err *err)
{
	if (rc == -EHOSTDOWN && comm_place(comm)->rank > 0)
		cli_fail(command, "rank %d: %s", comm_place(comm)->rank, cli_words(command, err));
}

void cli_stay_alone(void)
{
	joined = true;
}

int cli_desert(const char *command, int status)
{
	const struct cli_where where = { .local_copy = NULL };
	struct shoal_err err = { "" };
	struct comm *comm = NULL;

	if (joined || cli_join(&where, &comm, &err) < 0)
		return status;
	err_set(&err, -EINVAL, "it could not begin; its own message says why");
	comm_fail(comm, &err);
	return cli_part(command, comm, status);
}

/* Longer than MPI takes to shut down, and shorter than a user waits. */
#define MPI_END_SECONDS 5u

int cli_part(const char *command, struct comm *comm, int status)
{
	struct shoal_err err = { "" };

	cli_flush_output(); /* cli_finish() reports a failure */
	cli_release_signals();
	if (comm_finish(comm, &err) == -EHOSTDOWN)
		status = cli_fail(command, "rank %d: %s", comm_place(comm)->rank,
				  cli_words(command, &err));
	snprintf(overdue_words, sizeof(overdue_words),
		 "shoal: MPI did not shut down within %u s; exiting without it\n", MPI_END_SECONDS);
	limit_mpi(MPI_END_SECONDS, status);
	comm_close(comm);
	alarm(0);
	return status;
}

/* From users, and from batch systems before time is up. */
static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU };

void cli_release_signals(void)
{
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
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
	/* A pipe without a reader and a file that may not grow are ordinary errors. */
	ignores_pipe |= signal(SIGPIPE, SIG_IGN) != SIG_IGN; /* otherwise the user ignores it */
	signal(SIGXFSZ, SIG_IGN);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
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

int cli_end(int status)
{
	if (cli_stop &&
	    (status != CLI_OK || cli_output_failed())) /* no flush: the reader may stall */
		cli_die_of_signal();
	return status;
}
