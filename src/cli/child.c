#include "cli/child.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json_read.h"
#include "base/out.h"
#include "base/publish.h"
#include "cli/cli.h"

#define CHILD_OUTPUT_MAX (64u << 20)

/*
 * Signals are blocked from before the fork until they are waited for together with the child: one
 * that comes in between is neither lost nor noticed only when the child has ended.
 */
struct child_signals {
	sigset_t before; /* the mask of this process */
	struct sigaction old;
};

static void child_has_ended(int sig)
{
	(void)sig;
}

static void child_block_signals(struct child_signals *s)
{
	struct sigaction act = { .sa_handler = child_has_ended }; /* so that sigsuspend() ends */
	sigset_t all;

	sigfillset(&all);
	sigemptyset(&act.sa_mask);
	sigaction(SIGCHLD, &act, &s->old);
	sigprocmask(SIG_SETMASK, &all, &s->before);
}

static void child_restore_signals(const struct child_signals *s)
{
	sigaction(SIGCHLD, &s->old, NULL);
	sigprocmask(SIG_SETMASK, &s->before, NULL);
}

/* Between fork and exec only what a signal handler may call. */
static _Noreturn void child_become(char *const argv[], int out, int err_fd,
				   const struct child_signals *s)
{
	static const char words[] = "cannot be started\n";

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	cli_release_signals(); /* one that came already ends the child here */
	child_restore_signals(s);
	if (dup2(out, STDOUT_FILENO) >= 0 && dup2(err_fd, STDERR_FILENO) >= 0)
		execvp(argv[0], argv);
	(void)!write(STDERR_FILENO, argv[0], strlen(argv[0]));
	(void)!write(STDERR_FILENO, " ", 1);
	(void)!write(STDERR_FILENO, words, sizeof(words) - 1);
	_exit(127);
}

/* Until the child has ended; it is told to, once, if this process is. */
static int child_wait(pid_t pid, const struct child_signals *s)
{
	sigset_t waiting = s->before;
	bool told = false;
	int status;
	pid_t ended;

	sigdelset(&waiting, SIGCHLD);
	while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
		if (cli_stop && !told)
			kill(pid, SIGTERM);
		told |= cli_stop != 0;
		sigsuspend(&waiting);
	}
	if (ended < 0)
		return -1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* All of a file of at most @max bytes, ended by a NUL; of a longer one the end. */
static int child_output(int fd, size_t max, char **ret_text, size_t *ret_len, struct shoal_err *err)
{
	off_t size = lseek(fd, 0, SEEK_END);
	size_t len = size < 0 ? 0 : (size_t)u64_min((uint64_t)size, max);
	char *text = malloc(len + 1);
	int rc;

	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	rc = pread_all(fd, text, len, (uint64_t)size - len);
	if (size < 0 || rc < 0) {
		free(text);
		return err_set(err, -EIO, "the output of a command cannot be read");
	}
	text[len] = '\0';
	*ret_text = text;
	*ret_len = len;
	return 0;
}

static int child_keep_message(void *self, const struct json_value *v)
{
	struct child_result *r = self;

	if (strcmp(v->path, "message") == 0)
		snprintf(r->last_words, sizeof(r->last_words), "%s", v->text);
	return 0;
}

/* A line without a letter or digit, such as those above and below a message of mpirun. */
static bool is_rule(const char *line)
{
	while (*line && !isalnum((unsigned char)*line))
		line++;
	return !*line;
}

static void append_line(char *to, size_t cap, const char *line)
{
	size_t len = strlen(to);

	snprintf(to + len, cap - len, "%s%s", len > 0 ? " " : "", line);
}

/*
 * The last message that the command printed as JSON. Without one what a launcher that failed has
 * said last: the first paragraph between two rules, or the last line that is not empty.
 */
static void keep_last_words(char *text, struct child_result *r)
{
	char between[sizeof(r->last_words)] = "", last[sizeof(r->last_words)] = "";
	bool inside = false, paragraph = false;

	for (char *line = strsep(&text, "\n"); line; line = strsep(&text, "\n")) {
		if (*line == '{') {
			(void)!json_read(line, strlen(line), child_keep_message, r, NULL);
		} else if (!*line) {
			paragraph = paragraph && !*between;
		} else if (is_rule(line)) {
			if (inside && *between)
				snprintf(last, sizeof(last), "%s", between);
			inside = !inside;
			paragraph = inside;
			*between = '\0';
		} else {
			snprintf(last, sizeof(last), "%s", line);
			if (paragraph)
				append_line(between, sizeof(between), line);
		}
	}
	if (!r->last_words[0])
		snprintf(r->last_words, sizeof(r->last_words), "%s", last);
}

static int child_take(const struct publish files[2], struct child_result *ret,
		      struct shoal_err *err)
{
	char *words = NULL;
	size_t len = 0;
	int rc = child_output(files[0].fd, CHILD_OUTPUT_MAX, &ret->out, &ret->len, err);

	if (rc == 0)
		rc = child_output(files[1].fd, 4096, &words, &len, err);
	if (rc == 0)
		keep_last_words(words, ret);
	free(words);
	return rc;
}

int child_run(char *const argv[], const char *dir, struct child_result *ret, struct shoal_err *err)
{
	struct publish files[2] = { PUBLISH_CLOSED, PUBLISH_CLOSED };
	int rc = publish_nameless(dir, &files[0], err);
	struct child_signals s;
	pid_t pid = -1;

	*ret = (struct child_result){ 0 };
	if (rc == 0)
		rc = publish_nameless(dir, &files[1], err);
	if (rc == 0) {
		cli_flush_output();
		child_block_signals(&s);
		pid = fork();
		if (pid == 0)
			child_become(argv, files[0].fd, files[1].fd, &s);
		if (pid < 0)
			rc = err_set_errno(err, err_errno(), "cannot start a process");
		else
			ret->status = child_wait(pid, &s);
		child_restore_signals(&s);
	}
	if (rc == 0) {
		rc = cli_stop ? err_set(err, -ECANCELED, "interrupted")
			      : child_take(files, ret, err);
	}
	publish_abort(&files[0]);
	publish_abort(&files[1]);
	return rc;
}
