/*
 * mpi_module.c - the only file that uses MPI. It is built once per installed MPI, as a module that
 * comm loads if that MPI started the program; so a program that runs alone neither links nor starts
 * MPI. MPI has one state per process, hence the global below.
 */
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "comm/transport.h"

static struct {
	MPI_Comm world; /* our own duplicate: it receives no foreign messages */
	bool ours;      /* initialised here, so finalised here */
	int error;
	bool over; /* MPI can be initialised only once per process */
	char words[MPI_MAX_ERROR_STRING + 1];
} mpi;

static int mpi_failed(int error)
{
	mpi.error = error;
	return -EIO;
}

static const char *mpi_words(void *self)
{
	int len = 0;

	(void)self;
	if (mpi.over)
		return "MPI has already ended in this process";
	if (MPI_Error_string(mpi.error, mpi.words, &len) != MPI_SUCCESS)
		snprintf(mpi.words, sizeof(mpi.words), "error %d", mpi.error);
	return mpi.words;
}

/* Shorten "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\n..." to name and version. */
static void get_name(char *name, size_t size)
{
	char all[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "", *version;
	int len = 0;

	MPI_Get_library_version(all, &len);
	all[strcspn(all, ",\n")] = '\0';
	version = strstr(all, " Version:");
	if (version) {
		const char *number = version + strlen(" Version:");

		number += strspn(number, " \t");
		*version = '\0';
		snprintf(name, size, "%.30s %.30s", all, number);
		return;
	}
	snprintf(name, size, "%.60s", all);
}

static int find_leader(int *leader)
{
	MPI_Comm node = MPI_COMM_NULL;
	int rank, rc;

	MPI_Comm_rank(mpi.world, &rank);
	rc = MPI_Comm_split_type(mpi.world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Allreduce(&rank, leader, 1, MPI_INT, MPI_MIN, node);
	MPI_Comm_free(&node);
	return rc;
}

static int mpi_start(void *self, struct comm_world *ret_world)
{
	int up = 0, over = 0, rc, level;

	(void)self;
	MPI_Finalized(&over);
	mpi.over = over;
	if (over)
		return -EALREADY;
	MPI_Initialized(&up);
	if (!up) {
		rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
		if (rc != MPI_SUCCESS)
			return mpi_failed(rc);
		mpi.ours = true;
	}
	rc = MPI_Comm_dup(MPI_COMM_WORLD, &mpi.world);
	if (rc != MPI_SUCCESS)
		return mpi_failed(rc);
	MPI_Comm_set_errhandler(mpi.world, MPI_ERRORS_RETURN);
	MPI_Comm_rank(mpi.world, &ret_world->rank);
	MPI_Comm_size(mpi.world, &ret_world->size);
	get_name(ret_world->name, sizeof(ret_world->name));
	rc = find_leader(&ret_world->node_leader);
	return rc == MPI_SUCCESS ? 0 : mpi_failed(rc);
}

_Static_assert(sizeof(MPI_Request) <= sizeof(struct comm_request), "a request holds MPI's");

/* The request is opaque to everyone else. */
static MPI_Request *mpi_request(struct comm_request *r)
{
	return (MPI_Request *)(void *)r->opaque;
}

static int mpi_isend(void *self, const void *buf, size_t len, int to, int tag,
		     struct comm_request *ret_req)
{
	int rc;

	(void)self;
	if (len > INT_MAX)
		return -EMSGSIZE;
	/* NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): mpi_test() waits for it */
	rc = MPI_Isend(buf, (int)len, MPI_BYTE, to, tag, mpi.world, mpi_request(ret_req));
	return rc == MPI_SUCCESS ? 0 : mpi_failed(rc);
}

static int mpi_irecv(void *self, void *buf, size_t len, int from, int tag,
		     struct comm_request *ret_req)
{
	int rc;

	(void)self;
	if (len > INT_MAX)
		return -EMSGSIZE;
	/* NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): mpi_test() waits for it */
	rc = MPI_Irecv(buf, (int)len, MPI_BYTE, from, tag, mpi.world, mpi_request(ret_req));
	return rc == MPI_SUCCESS ? 0 : mpi_failed(rc);
}

static int mpi_test(void *self, struct comm_request *r, size_t *ret_len)
{
	int done = 0, count = 0, rc;
	MPI_Status status;

	(void)self;
	rc = MPI_Test(mpi_request(r), &done, &status);
	if (rc != MPI_SUCCESS)
		return mpi_failed(rc);
	if (!done)
		return 0;
	/* For a sent message the count is undefined. */
	if (MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS && count > 0)
		*ret_len = (size_t)count;
	else
		*ret_len = 0;
	return 1;
}

static bool mpi_cancel(void *self, struct comm_request *r)
{
	size_t len;

	/*
	 * A receive can always be cancelled. A send cannot under Open MPI: it completes or stays.
	 */
	if (mpi_test(self, r, &len) != 0)
		return true;
	MPI_Cancel(mpi_request(r));
	for (int i = 0; i < 100; i++)
		if (mpi_test(self, r, &len) != 0)
			return true;
	return false;
}

static int mpi_iprobe(void *self, int tag, int *ret_from, size_t *ret_len)
{
	int found = 0, count = 0, rc;
	MPI_Status status;

	(void)self;
	rc = MPI_Iprobe(MPI_ANY_SOURCE, tag, mpi.world, &found, &status);
	if (rc != MPI_SUCCESS)
		return mpi_failed(rc);
	if (!found)
		return 0;
	rc = MPI_Get_count(&status, MPI_BYTE, &count);
	if (rc != MPI_SUCCESS)
		return mpi_failed(rc);
	*ret_from = status.MPI_SOURCE;
	*ret_len = (size_t)count;
	return 1;
}

static void mpi_abort(void *self, int code)
{
	(void)self;
	MPI_Abort(MPI_COMM_WORLD, code);
}

static void mpi_stop(void *self)
{
	(void)self;
	MPI_Comm_free(&mpi.world);
	if (mpi.ours)
		MPI_Finalize();
}

extern const struct comm_transport transport;
__attribute__((visibility("default"))) const struct comm_transport transport = {
	.version = COMM_TRANSPORT_VERSION,
	.start = mpi_start,
	.isend = mpi_isend,
	.irecv = mpi_irecv,
	.test = mpi_test,
	.cancel = mpi_cancel,
	.iprobe = mpi_iprobe,
	.words = mpi_words,
	.abort = mpi_abort,
	.stop = mpi_stop,
};
