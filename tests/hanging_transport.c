/*
 * hanging_transport.c - a transport of one rank whose shutdown never ends, as MPI_Finalize of some
 * MPIs does; with HANG_AT_START its start, as MPI_Init does if a host is lost meanwhile. Loaded by
 * tests/mpi/test_peers.py with SHOAL_MPI.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/transport.h"

static int start_alone(void *self, struct comm_world *ret_world)
{
	(void)self;
	while (getenv("HANG_AT_START"))
		pause();
	*ret_world = (struct comm_world){ .size = 1, .name = "hanging" };
	return 0;
}

static int send_nothing(void *self, const void *buf, size_t len, int to, int tag,
			struct comm_request *ret_req)
{
	(void)self, (void)buf, (void)len, (void)to, (void)tag, (void)ret_req;
	return -EINVAL;
}

static int receive_nothing(void *self, void *buf, size_t len, int from, int tag,
			   struct comm_request *ret_req)
{
	(void)self, (void)buf, (void)len, (void)from, (void)tag, (void)ret_req;
	return -EINVAL;
}

static int test_nothing(void *self, struct comm_request *req, size_t *ret_len)
{
	(void)self, (void)req, (void)ret_len;
	return -EINVAL;
}

static bool cancel_nothing(void *self, struct comm_request *req)
{
	(void)self, (void)req;
	return true;
}

static int probe_nothing(void *self, int tag, int *ret_from, size_t *ret_len)
{
	(void)self, (void)tag, (void)ret_from, (void)ret_len;
	return 0;
}

static const char *no_words(void *self)
{
	(void)self;
	return "no error";
}

static void abort_now(void *self, int code)
{
	(void)self;
	_exit(code);
}

static void hang(void *self)
{
	(void)self;
	fputs("shutting down\n", stderr);
	for (;;)
		pause();
}

extern const struct comm_transport transport;
__attribute__((visibility("default"))) const struct comm_transport transport = {
	.version = COMM_TRANSPORT_VERSION,
	.start = start_alone,
	.isend = send_nothing,
	.irecv = receive_nothing,
	.test = test_nothing,
	.cancel = cancel_nothing,
	.iprobe = probe_nothing,
	.words = no_words,
	.abort = abort_now,
	.stop = hang,
};
