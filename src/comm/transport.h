/*
 * transport.h - all that comm needs of a message library: bytes from one rank to another.
 *
 * Everything else (collective calls, mail, failure) is made of these few calls, so that it is the
 * same under every MPI, and can be tested with threads for ranks. An MPI is reached through a
 * loadable module that exports one of these structs by the name COMM_TRANSPORT_SYMBOL; such a
 * module depends on nothing else of ours, and only it depends on MPI.
 *
 * Calls return 0 (test and probe: 1 or 0) or a negative errno. All of them are made by one thread.
 * Messages from one rank to another with one tag arrive in the order in which they were sent.
 */
#ifndef SHOAL_COMM_TRANSPORT_H
#define SHOAL_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Goes up with every change of this file; a module of another version is refused. */
#define COMM_TRANSPORT_VERSION 1u

#define COMM_TRANSPORT_SYMBOL "shoal_transport"

struct comm_world {
	int rank, size;
	int node_leader; /* lowest rank of those that share memory with this one */
	char name[64];   /* "Open MPI v4.1.4" */
};

/* What the transport knows a message under way by. */
struct comm_request {
	uint64_t opaque[2];
};

struct comm_transport {
	uint32_t version;

	int (*start)(void *self, struct comm_world *ret_world);

	/* The buffer is the transport's until test says 1 or cancel true. */
	int (*isend)(void *self, const void *buf, size_t len, int to, int tag,
		     struct comm_request *ret_req);
	int (*irecv)(void *self, void *buf, size_t len, int from, int tag,
		     struct comm_request *ret_req);

	/* 1 when done; *ret_len is then the length of what was received. Drives all messages. */
	int (*test)(void *self, struct comm_request *req, size_t *ret_len);

	/* Give a message up. False: the transport may still touch the buffer, for ever. */
	bool (*cancel)(void *self, struct comm_request *req);

	/* 1 when a message with @tag waits that no irecv has been made for. */
	int (*iprobe)(void *self, int tag, int *ret_from, size_t *ret_len);

	/* Words for the last error, lent until the next call. */
	const char *(*words)(void *self);

	/* End all ranks now. Does not return under MPI. */
	void (*abort)(void *self, int code);

	/* The orderly end, with all others. */
	void (*stop)(void *self);
};

#endif
