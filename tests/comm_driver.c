/*
 * comm_driver - comm under a real MPI, one sub-command for each thing that tests/mpi looks at.
 * Several may follow each other, with a + between. Prints one line per rank and sub-command; exits
 * with 1 and the words on stderr when a call fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "comm/comm.h"

static struct comm *comm;
static int rank, size;
static int stop_flag;

/* A line in one write: mpirun mixes what ranks write in pieces. */
static void say(int fd, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(int fd, const char *fmt, ...)
{
	char line[2048];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (len <= 0 || write(fd, line, (size_t)len) != len)
		_exit(3);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Of /proc/self/status, in kB. */
static long status_kb(const char *field)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kb = -1;

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, field, strlen(field)) == 0)
			kb = strtol(line + strlen(field) + 1, NULL, 10);
	if (f)
		fclose(f);
	return kb;
}

static void reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY);

	if (fd >= 0) {
		if (write(fd, "5", 1) != 1)
			say(2, "the peak of memory cannot be reset\n");
		close(fd);
	}
}

/* ---- What every rank sends ---- */

static uint8_t byte_of(int from, uint64_t off)
{
	return (uint8_t)(off * 31 + (off >> 9) + (uint64_t)from * 17);
}

static int read_bytes(void *self, uint64_t off, void *buf, size_t len, struct shoal_err *err)
{
	uint8_t *p = buf;

	(void)self;
	(void)err;
	for (size_t i = 0; i < len; i++)
		p[i] = byte_of(rank, off + i);
	return 0;
}

static uint64_t len_of(int from, uint64_t unit)
{
	return from % 4 == 2 ? 0 : unit * (uint64_t)(from + 1) + (uint64_t)from;
}

struct taken {
	uint64_t bytes, bad, calls;
	int last;
	int64_t fail_after;
};

static int take(void *self, int from, uint64_t off, uint64_t total, const void *data, size_t len,
		struct shoal_err *err)
{
	struct taken *t = self;
	const uint8_t *p = data;

	(void)total;
	for (size_t i = 0; i < len; i++)
		t->bad += p[i] != byte_of(from, off + i);
	t->bad += from < t->last;
	t->last = from;
	t->bytes += len;
	t->calls++;
	if (t->fail_after >= 0 && t->bytes > (uint64_t)t->fail_after)
		return err_set(err, -ENOSPC, "rank %d has no room left", rank);
	return 0;
}

/* ---- The sub-commands ---- */

static int cmd_place(char **args, struct shoal_err *err)
{
	const struct comm_place *p = comm_place(comm);
	int rc = comm_barrier(comm, err);

	(void)args;
	say(1, "rank %d of %d, node %d of %d, %d of %d there, leader %d, %s\n", p->rank, p->size,
	    p->node, p->nr_nodes, p->node_rank, p->node_size, p->node_leader, comm_name(comm));
	return rc;
}

static int cmd_trees(char **args, struct shoal_err *err)
{
	uint64_t v[2] = { (uint64_t)rank, 100 - (uint64_t)rank };
	char words[100000] = "";
	int rc = 0;

	(void)args;
	for (int i = 0; i < 100 && rc == 0; i++)
		rc = comm_barrier(comm, err);
	if (rc == 0)
		rc = comm_reduce(comm, COMM_MAX, v, 2, err);
	for (int root = 0; root < size && rc == 0; root++) {
		if (rank == root)
			memset(words, 'a' + root, sizeof(words));
		rc = comm_broadcast(comm, root, words, sizeof(words), err);
		if (words[0] != 'a' + root || words[sizeof(words) - 1] != 'a' + root)
			return err_set(err, -EBADMSG, "not what rank %d sent", root);
	}
	say(1, "max %" PRIu64 " %" PRIu64 "\n", v[0], v[1]);
	return rc;
}

/* gather ROOT|all BUDGET UNIT */
static int cmd_gather(char **args, struct shoal_err *err)
{
	int root = strcmp(args[0], "all") == 0 ? COMM_ALL : (int)strtol(args[0], NULL, 10), rc;
	uint64_t unit = strtoull(args[2], NULL, 10), want = 0;
	struct comm_blob blob = { .len = len_of(rank, unit), .read = read_bytes };
	struct taken t = { .fail_after = -1 };

	rc = comm_gather(comm, &blob, root, strtoull(args[1], NULL, 10), take, &t, err);
	if (rc < 0)
		return rc;
	for (int r = 0; r < size; r++)
		want += len_of(r, unit);
	if (root != COMM_ALL && root != rank)
		want = 0;
	if (t.bad || t.bytes != want)
		return err_set(err, -EBADMSG, "%" PRIu64 " bytes of %" PRIu64 ", %" PRIu64 " bad",
			       t.bytes, want, t.bad);
	say(1, "gathered %" PRIu64 "\n", t.bytes);
	return 0;
}

/* exchange BUDGET UNIT */
static int cmd_exchange(char **args, struct shoal_err *err)
{
	struct comm_blob *to = calloc((size_t)size, sizeof(*to));
	uint64_t unit = strtoull(args[1], NULL, 10), want = 0;
	struct taken t = { .fail_after = -1, .last = -1 };
	int rc;

	for (int r = 0; r < size; r++) {
		to[r] = (struct comm_blob){ .len = len_of(rank + r, unit), .read = read_bytes };
		want += len_of(rank + r, unit);
	}
	rc = comm_exchange(comm, to, strtoull(args[0], NULL, 10), take, &t, err);
	free(to);
	if (rc == 0 && t.bytes != want)
		return err_set(err, -EBADMSG, "%" PRIu64 " bytes of %" PRIu64, t.bytes, want);
	if (rc == 0)
		say(1, "exchanged %" PRIu64 "\n", t.bytes);
	return rc;
}

/* mail NR: all flood all, and some of it is polled only after a barrier */
static int cmd_mail(char **args, struct shoal_err *err)
{
	uint32_t nr = (uint32_t)strtoul(args[0], NULL, 10);
	uint32_t *next = calloc((size_t)size, sizeof(*next));
	uint8_t *bytes = malloc(COMM_MAIL_MAX);
	uint64_t left = (uint64_t)nr * (uint64_t)size;
	struct comm_mail m;
	int rc = 0;

	for (uint32_t i = 0; i < nr && rc == 0; i++)
		for (int to = 0; to < size && rc == 0; to++) {
			size_t len = i % 3 == 0 ? COMM_MAIL_MAX : i % 3 == 1 ? 100 : 6000;

			memset(bytes, (int)i + rank, len);
			rc = comm_post(comm, to, i, bytes, len, err);
		}
	if (rc == 0)
		rc = comm_barrier(comm, err);
	while (left > 0 && rc == 0) {
		rc = comm_poll(comm, 5000000, &m, err);
		if (rc == 0)
			rc = err_set(err, -ETIMEDOUT, "mail is missing");
		if (rc < 0)
			break;
		rc = 0;
		if (m.kind != next[m.from]++ ||
		    ((const uint8_t *)m.data)[m.len - 1] != (uint8_t)((int)m.kind + m.from))
			rc = err_set(err, -EBADMSG, "the wrong mail");
		left--;
	}
	if (rc == 0)
		say(1, "mail read\n");
	free(bytes);
	free(next);
	return rc;
}

/* fail WHO WHERE: one fails while the others wait */
static int cmd_fail(char **args, struct shoal_err *err)
{
	int who = (int)strtol(args[0], NULL, 10);
	struct comm_blob blob = { .len = 10000000, .read = read_bytes };
	struct taken t = { .fail_after = rank == who ? 5000000 : -1 };
	struct comm_mail m;
	int rc = 0;

	if (strcmp(args[1], "gather") == 0)
		return comm_gather(comm, &blob, who, 100000, take, &t, err);
	if (strcmp(args[1], "gather-all") == 0)
		return comm_gather(comm, &blob, COMM_ALL, 4000000, take, &t, err);
	if (rank == who) {
		usleep(200000);
		return err_set(err, -EIO, "the words of rank %d", rank);
	}
	if (strcmp(args[1], "poll") == 0)
		while (rc == 0)
			rc = comm_poll(comm, 100000, &m, err);
	else
		rc = comm_barrier(comm, err);
	return rc;
}

/* One calls something else. */
static int cmd_mismatch(char **args, struct shoal_err *err)
{
	uint64_t v = 0;

	(void)args;
	return rank == size - 1 ? comm_reduce(comm, COMM_SUM, &v, 1, err) : comm_barrier(comm, err);
}

/* cpu MS: rank 0 comes that late to a barrier, the others say what waiting cost */
static int cmd_cpu(char **args, struct shoal_err *err)
{
	double start = seconds(), cpu = cpu_seconds();
	int rc;

	if (rank == 0)
		usleep((useconds_t)strtoul(args[0], NULL, 10) * 1000);
	rc = comm_barrier(comm, err);
	say(1, "waited %.3f cpu %.3f\n", seconds() - start, cpu_seconds() - cpu);
	return rc;
}

/* kill WHO SIGNAL: in the middle of a barrier of the others */
static int cmd_kill(char **args, struct shoal_err *err)
{
	if (rank == (int)strtol(args[0], NULL, 10)) {
		usleep(200000);
		raise((int)strtol(args[1], NULL, 10));
		return 0;
	}
	return comm_barrier(comm, err);
}

/* absent: rank 0 fails, and the last rank never looks */
static int cmd_absent(char **args, struct shoal_err *err)
{
	(void)args;
	if (rank == 0)
		return err_set(err, -EIO, "the words of rank 0");
	sleep(30);
	return 0;
}

static void on_signal(int number)
{
	(void)number;
	__atomic_store_n(&stop_flag, 1, __ATOMIC_RELAXED);
}

/* stop: the last rank is told to stop while all are in a barrier that rank 0 does not come to */
static int cmd_stop(char **args, struct shoal_err *err)
{
	struct comm_mail m;
	int rc = 0;

	(void)args;
	signal(SIGUSR1, on_signal);
	if (rank == size - 1)
		raise(SIGUSR1);
	while (rank == 0 && rc == 0)
		rc = comm_poll(comm, 100000, &m, err);
	return rank == 0 ? rc : comm_barrier(comm, err);
}

static int take_nothing(void *self, int from, uint64_t off, uint64_t total, const void *data,
			size_t len, struct shoal_err *err)
{
	(void)self;
	(void)from;
	(void)off;
	(void)total;
	(void)data;
	(void)len;
	(void)err;
	return 0;
}

/* bench BYTES BUDGET: that many bytes in each rank's memory, to rank 0, to all, exchanged */
static int cmd_bench(char **args, struct shoal_err *err)
{
	static const char *const what[] = { "to a callback", "to all", "exchange" };
	uint64_t len = strtoull(args[0], NULL, 10), budget = strtoull(args[1], NULL, 10);
	struct comm_blob blob = { .len = len }, *to = calloc((size_t)size, sizeof(*to));
	uint8_t *data = malloc(len);
	int rc = 0;

	memset(data, rank + 1, len);
	blob.data = data;
	for (int r = 0; r < size; r++)
		to[r] = (struct comm_blob){ .len = len / (uint64_t)size, .data = data };
	for (size_t i = 0; i < ARRAY_LEN(what) && rc == 0; i++) {
		double start, took;
		uint64_t more;
		long before;

		rc = comm_barrier(comm, err);
		reset_peak();
		before = status_kb("VmRSS");
		start = seconds();
		if (rc == 0)
			rc = i == 0   ? comm_gather(comm, &blob, 0, budget, take_nothing, NULL, err)
			     : i == 1 ? comm_gather(comm, &blob, COMM_ALL, budget, take_nothing,
						    NULL, err)
				      : comm_exchange(comm, to, budget, take_nothing, NULL, err);
		took = seconds() - start;
		more = (uint64_t)(status_kb("VmHWM") - before);
		say(1, "%-14s rank %d: %.3f s, %" PRIu64 " KiB more at the peak\n", what[i], rank,
		    took, more);
	}
	free(to);
	free(data);
	return rc;
}

static const struct {
	const char *name;
	int nr_args;
	int (*run)(char **args, struct shoal_err *err);
} command[] = {
	{ "place", 0, cmd_place },       { "trees", 0, cmd_trees }, { "gather", 3, cmd_gather },
	{ "exchange", 2, cmd_exchange }, { "mail", 1, cmd_mail },   { "fail", 2, cmd_fail },
	{ "mismatch", 0, cmd_mismatch }, { "cpu", 1, cmd_cpu },     { "kill", 2, cmd_kill },
	{ "absent", 0, cmd_absent },     { "stop", 0, cmd_stop },   { "bench", 2, cmd_bench },
};

static int run_one(char **args, int nr, struct shoal_err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(command); i++)
		if (nr == 1 + command[i].nr_args && strcmp(args[0], command[i].name) == 0)
			return command[i].run(args + 1, err);
	return err_set(err, -EINVAL, "no such sub-command");
}

static int run(int argc, char **argv, struct shoal_err *err)
{
	int from = 1, rc = 0;

	for (int i = 1; i <= argc && rc == 0; i++)
		if (i == argc || strcmp(argv[i], "+") == 0) {
			rc = run_one(argv + from, i - from, err);
			from = i + 1;
		}
	return rc;
}

int main(int argc, char **argv)
{
	struct shoal_err err = { "" };
	int rc;

	alarm(60); /* nothing here takes as long: what hangs is ended */
	rc = comm_open(&comm, &err);
	if (rc < 0) {
		say(2, "comm_driver: %s\n", err.msg);
		return 1;
	}
	rank = comm_place(comm)->rank;
	size = comm_place(comm)->size;
	comm_set_stop(comm, &stop_flag);
	rc = run(argc, argv, &err);
	if (rc < 0) {
		comm_fail(comm, &err);
		say(2, "comm_driver: rank %d says: %s\n", rank, err.msg);
	}
	comm_close(comm);
	return rc < 0 ? 1 : 0;
}
