/*
 * thread_transport.h - a transport whose ranks are threads of one process, for the tests of comm.
 *
 * A message longer than `eager` bytes is not sent before it is received, as under MPI; with 0 none
 * is, which finds every place that counts on being buffered.
 */
#ifndef SHOAL_TESTS_THREAD_TRANSPORT_H
#define SHOAL_TESTS_THREAD_TRANSPORT_H

#include <pthread.h>

#include "comm/transport.h"

#define THREAD_RANKS_MAX 8

struct thread_message;
struct thread_request;
struct thread_world;

struct thread_rank {
	struct thread_world *world;
	int rank;
	struct thread_message *come;   /* not yet asked for, in order */
	struct thread_request *posted; /* receives without a message, in order */
	bool stopped;
};

struct thread_world {
	pthread_mutex_t lock; /* of all that follows */
	int size;
	int per_node;
	size_t eager;
	int cut_sends;               /* given up before they were received */
	int aborted;                 /* the code, once a rank has aborted */
	size_t waiting, waiting_max; /* bytes sent that nobody has asked for */
	int fail_sends_to;           /* rank whose messages cannot be sent; -1: none */
	struct thread_rank rank[THREAD_RANKS_MAX];
};

extern const struct comm_transport thread_transport;

void thread_world_init(struct thread_world *w, int size, int per_node, size_t eager);
void thread_world_release(struct thread_world *w);

#endif
