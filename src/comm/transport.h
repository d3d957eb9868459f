/*
 * transport.h - what comm needs from a message library: bytes from one rank to another.
 *
 * Everything else (collective calls, mail, failure) is built from these few calls, so that it is
 * the same under every MPI, and can be tested with threads as ranks. An MPI is reached through a
 * loadable module that exports one of these structs under the name COMM_TRANSPORT_SYMBOL; such a
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

/* Incremented with every change of this file; a module of another version is refused. */
#define COMM_TRANSPORT_VERSION 1u

#define COMM_TRANSPORT_SYMBOL "transport"

struct comm_world {
	int rank, size;
	int node_leader; /* lowest rank among those that share memory with this one */
	char name[64];   /* "Open MPI v4.1.4" */
};

/* The transport's handle of a message in flight. */
struct comm_request {
	uint64_t opaque[2];
};

struct comm_transport {
	uint32_t version;

	int (*start)(void *self, struct comm_world *ret_world);

	/* The transport owns the buffer until test returns 1 or cancel returns true. */
	int (*isend)(void *self, const void *buf, size_t len, int to, int tag,
		     struct comm_request *ret_req);
	int (*irecv)(void *self, void *buf, size_t len, int from, int tag,
		     struct comm_request *ret_req);

	/* 1 if complete; *ret_len is then the number of bytes received. Drives all messages. */
	int (*test)(void *self, struct comm_request *req, size_t *ret_len);

	/* Cancel a message. False if the transport may still access the buffer, forever. */
	bool (*cancel)(void *self, struct comm_request *req);

	/* 1 if a message with @tag has arrived that no irecv was posted for. */
	int (*iprobe)(void *self, int tag, int *ret_from, size_t *ret_len);

	/* Text for the last error, lent until the next call. */
	const char *(*words)(void *self);

	/* End all ranks now. Does not return under MPI. */
	void (*abort)(void *self, int code);

	/* Regular shutdown, together with all other ranks. */
	void (*stop)(void *self);
};

#endif
