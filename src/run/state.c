#include "run/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/out.h"
#include "base/publish.h"
#include "run/run.h"

#define MAGIC "ShoalRun"

/* Read by the same program on the same kind of machine: sizes tell other versions apart. */
struct file_head {
	char magic[8];
	uint64_t head_bytes, phase_bytes;
	struct run_state state;
	uint64_t checksum; /* of the state and the phases */
};

static uint64_t checksum(const struct run_state *state, const struct run_result_phase *phases)
{
	return XXH3_64bits_withSeed(phases, (size_t)state->nr_phases * sizeof(*phases),
				    XXH3_64bits(state, sizeof(*state)));
}

static int read_state(int fd, struct run_state *ret_state, struct run_result_phase *phases,
		      size_t max, struct shoal_err *err)
{
	struct file_head head;
	int rc = pread_all(fd, &head, sizeof(head), 0);

	if (rc < 0 || memcmp(head.magic, MAGIC, sizeof(head.magic)) != 0 ||
	    head.head_bytes != sizeof(head) || head.phase_bytes != sizeof(*phases))
		return err_set(err, -EBADMSG,
			       "the state of the earlier run is damaged, or from another "
			       "version of Shoal: start again in another folder");
	if (!phases) {
		*ret_state = head.state;
		return 0;
	}
	if (head.state.nr_phases > max)
		return err_set(err, -ESTALE, "the earlier run had more epochs than this one");
	rc = pread_all(fd, phases, (size_t)head.state.nr_phases * sizeof(*phases), sizeof(head));
	if (rc < 0 || checksum(&head.state, phases) != head.checksum)
		return err_set(err, -EBADMSG,
			       "the state of the earlier run is damaged: start again in another "
			       "folder");
	*ret_state = head.state;
	return 0;
}

int run_state_load(const char *results, struct run_state *ret_state,
		   struct run_result_phase *phases, size_t max, struct shoal_err *err)
{
	char path[RUN_PATH_MAX];
	int fd, rc = run_file_path(results, RUN_FILE_STATE, path, err);

	if (rc < 0)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set_errno(err, err_errno(), "cannot open '%s'", path);
	rc = read_state(fd, ret_state, phases, max, err);
	close(fd);
	return rc;
}

int run_state_peek(const char *results, struct run_state *ret_state, struct shoal_err *err)
{
	return run_state_load(results, ret_state, NULL, 0, err);
}

int run_state_save(const char *results, const struct run_state *state,
		   const struct run_result_phase *phases, struct shoal_err *err)
{
	struct file_head head = { .magic = MAGIC,
				  .head_bytes = sizeof(head),
				  .phase_bytes = sizeof(*phases),
				  .state = *state,
				  .checksum = checksum(state, phases) };
	struct publish pub = PUBLISH_CLOSED;
	char path[RUN_PATH_MAX];
	int rc = run_file_path(results, RUN_FILE_STATE, path, err);

	if (rc == 0)
		rc = publish_open_here(path, &pub, err);
	if (rc < 0)
		return rc;
	rc = pwrite_all(pub.fd, &head, sizeof(head), 0);
	if (rc == 0)
		rc = pwrite_all(pub.fd, phases, (size_t)state->nr_phases * sizeof(*phases),
				sizeof(head));
	if (rc == 0)
		return publish_commit(&pub, err);
	publish_abort(&pub);
	return err_set_errno(err, rc, "cannot write '%s'", path);
}
