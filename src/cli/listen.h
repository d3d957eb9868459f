/*
 * listen.h - --listen: the report page and metrics of a command while it works, served by rank 0.
 *
 * Nothing here can make a command fail once it has begun, or wait.
 */
#ifndef SHOAL_CLI_LISTEN_H
#define SHOAL_CLI_LISTEN_H

#include "cli/options.h"
#include "comm/comm.h"
#include "report/live.h"
#include "run/watch.h"

struct cli_listen {
	const char *address; /* NULL: the option was not given */
	struct serve *serve; /* of rank 0 */
	struct live *live;
	struct run_watch watch;
};

bool cli_listen_take(const char *command, const char *value, void *into);

/* A section of the command's options. */
extern const struct cli_option cli_listen_options[];
#define CLI_LISTEN_SECTION(base_)                                                       \
	{                                                                               \
		.title = "looking at it from elsewhere", .options = cli_listen_options, \
		.base = (base_)                                                         \
	}

/*
 * Collective, before anything begins: rank 0 listens, and prints where; nobody is answered yet. An
 * address in use fails on all ranks. Does nothing without the option.
 */
int cli_listen_open(struct cli_listen *l, const char *command, struct comm *comm,
		    struct shoal_err *err) MUST_USE;

/* Rank 0: answer from now on. @head->nr_ranks is 1 if rank 0 knows the figures of all. */
void cli_listen_begin(struct cli_listen *l, const char *command, const struct live_head *head);

/* What to give to the run, or to begin watching a series with: NULL if nobody listens. */
struct run_watch *cli_listen_watch(struct cli_listen *l);

/* Rank 0: how far it is. */
void cli_listen_show(const struct cli_listen *l, const struct live_now *now);

/* Close the connections. No thread may use it any more. */
void cli_listen_end(struct cli_listen *l);

#endif
