#include "bench/run_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/out.h"
#include "base/publish.h"
#include "bench/run.h"

#define MAGIC "ShoalRun"

/* Read by the program that wrote it, on the same kind of machine: the sizes tell others apart. */
struct file_head {
	char magic[8];
	uint64_t head_bytes, phase_bytes;
	struct run_state state;
	uint64_t checksum; /* of the state and the phases */
};

static int path_of(const char *results, char *buf, size_t cap, struct shoal_err *err)
{
	if (snprintf(buf, cap, "%s/%s/state", results, BENCH_RUN_FOLDER) >= (int)cap)
		return shoal_fail(err, -ENAMETOOLONG, "the path of the results is too long");
	return 0;
}

static uint64_t checksum(const struct run_state *state, const struct bench_phase *phases)
{
	return XXH3_64bits_withSeed(phases, (size_t)state->nr_phases * sizeof(*phases),
				    XXH3_64bits(state, sizeof(*state)));
}

static int read_state(int fd, struct run_state *ret_state, struct bench_phase *phases, size_t max,
		      struct shoal_err *err)
{
	struct file_head head;
	int rc = shoal_pread_all(fd, &head, sizeof(head), 0);

	if (rc < 0 || memcmp(head.magic, MAGIC, sizeof(head.magic)) != 0 ||
	    head.head_bytes != sizeof(head) || head.phase_bytes != sizeof(*phases))
		return shoal_fail(
			err, -EBADMSG,
			"what is left of the earlier run is not by this version of shoal, "
			"or damaged: start it anew in another folder");
	if (!phases) {
		*ret_state = head.state;
		return 0;
	}
	if (head.state.nr_phases > max)
		return shoal_fail(err, -ESTALE, "the earlier run had more epochs than this one");
	rc = shoal_pread_all(fd, phases, (size_t)head.state.nr_phases * sizeof(*phases),
			     sizeof(head));
	if (rc < 0 || checksum(&head.state, phases) != head.checksum)
		return shoal_fail(err, -EBADMSG,
				  "what is left of the earlier run is damaged: start it anew in "
				  "another folder");
	*ret_state = head.state;
	return 0;
}

int run_state_load(const char *results, struct run_state *ret_state, struct bench_phase *phases,
		   size_t max, struct shoal_err *err)
{
	char path[4096];
	int fd, rc = path_of(results, path, sizeof(path), err);

	if (rc < 0)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot open '%s'", path);
	rc = read_state(fd, ret_state, phases, max, err);
	close(fd);
	return rc;
}

int run_state_peek(const char *results, struct run_state *ret_state, struct shoal_err *err)
{
	return run_state_load(results, ret_state, NULL, 0, err);
}

int run_state_save(const char *results, const struct run_state *state,
		   const struct bench_phase *phases, struct shoal_err *err)
{
	struct file_head head = { .magic = MAGIC,
				  .head_bytes = sizeof(head),
				  .phase_bytes = sizeof(*phases),
				  .state = *state,
				  .checksum = checksum(state, phases) };
	struct shoal_publish pub = SHOAL_PUBLISH_CLOSED;
	char path[4096];
	int rc = path_of(results, path, sizeof(path), err);

	if (rc == 0)
		rc = shoal_publish_open_here(path, &pub, err);
	if (rc < 0)
		return rc;
	rc = shoal_pwrite_all(pub.fd, &head, sizeof(head), 0);
	if (rc == 0)
		rc = shoal_pwrite_all(pub.fd, phases, (size_t)state->nr_phases * sizeof(*phases),
				      sizeof(head));
	if (rc == 0)
		return shoal_publish_commit(&pub, err);
	shoal_publish_abort(&pub);
	return shoal_fail_errno(err, rc, "cannot write '%s'", path);
}
