#include "cli/listen.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "serve/serve.h"

/* ---- The option ---- */

bool cli_listen_take(const char *command, const char *value, void *into)
{
	struct cli_listen *l = into;
	struct shoal_err err = { "" };

	if (serve_check(value, &err) < 0) {
		cli_usage(command, "--listen: %s", cli_words(command, &err));
		return false;
	}
	l->address = value;
	return true;
}

const struct cli_option cli_listen_options[] = {
	{ .name = "listen",
	  .value = "ADDRESS",
	  .kind = CLI_IS_OTHER,
	  .optional = true,
	  .take = cli_listen_take,
	  .help = "serve the report page while this works, and /metrics for Prometheus, at this IP "
		  "address and port, such as 127.0.0.1:9464 (default: only for this machine, at a "
		  "free port, which is printed)" },
	CLI_END,
};

/* ---- Answers, by the server's thread ---- */

static int listen_answer(void *self, const char *path, struct serve_answer *a)
{
	struct live *l = self;

	if (strcmp(path, "/") == 0) {
		a->type = "text/html; charset=utf-8";
		a->security = "default-src 'none'; style-src 'unsafe-inline'; script-src "
			      "'unsafe-inline'; img-src data: blob:; connect-src 'self'; "
			      "frame-ancestors 'none'";
		live_put_page(l, &a->body);
	} else if (strcmp(path, "/data.json") == 0) {
		a->type = "application/json";
		live_put_data(l, &a->body);
	} else if (strcmp(path, "/metrics") == 0) {
		a->type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
		live_put_metrics(l, &a->body);
	} else {
		return -ENOENT;
	}
	return a->body.rc;
}

static void listen_tick(void *self)
{
	live_tick(self);
}

/* ---- Beginning and end ---- */

static void listen_print(const struct cli_listen *l, const char *command)
{
	const char *url = serve_url(l->serve);
	struct cli_json_line line;

	if (cli_talk.style == CLI_AS_JSON && cli_json_line_open(&line)) {
		json_string(&line.json, "progress", command);
		json_string(&line.json, "listening", url);
		cli_json_line_close(&line);
	} else {
		cli_note(command, "the report page is at %s, metrics are at %smetrics%s", url, url,
			 serve_is_local(l->serve) ? ""
						  : "; all who reach this address can read them");
	}
}

int cli_listen_open(struct cli_listen *l, const char *command, struct comm *comm,
		    struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int rc = 0;

	if (!l->address)
		return 0;
	l->watch.comm = comm;
	if (comm_place(comm)->rank == 0)
		rc = serve_listen(l->address, &l->serve, &why);
	if (rc == -EADDRINUSE)
		rc = err_set(err, rc,
			     "%.200s: choose another port, or leave it out and a free one is taken",
			     why.msg);
	else if (rc < 0)
		*err = why;
	if (rc < 0) {
		comm_fail(comm, err);
		return rc;
	}
	if (l->serve)
		listen_print(l, command);
	return comm_barrier(comm, err);
}

static void listen_record(void *self, unsigned rank, const struct series_record *r)
{
	const struct cli_listen *l = self;

	if (l->live)
		live_add(l->live, rank, r);
}

void cli_listen_begin(struct cli_listen *l, const char *command, const struct live_head *head)
{
	struct shoal_err err = { "" };
	struct serve_options o = { .answer = listen_answer, .tick = listen_tick };

	if (!l->serve || l->live)
		return;
	if (live_new(head, &l->live, &err) == 0) {
		o.self = l->live;
		if (serve_start(l->serve, &o, &err) == 0)
			return;
	}
	cli_fail(command, "cannot serve %s: %s", serve_url(l->serve), cli_words(command, &err));
	cli_listen_end(l);
}

struct run_watch *cli_listen_watch(struct cli_listen *l)
{
	if (!l->address)
		return NULL;
	l->watch.record = listen_record;
	l->watch.self = l;
	return &l->watch;
}

void cli_listen_show(const struct cli_listen *l, const struct live_now *now)
{
	if (l && l->live)
		live_show(l->live, now);
}

void cli_listen_end(struct cli_listen *l)
{
	l->serve = serve_close(l->serve);
	l->live = live_free(l->live);
}
