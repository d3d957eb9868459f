#include "run/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/out.h"
#include "base/publish.h"
#include "run/run.h"

#define MAGIC "ShoalRn2"

/* Read by the same program on the same kind of machine: sizes tell other versions apart. */
struct file_head {
	char magic[8];
	uint64_t head_bytes, entry_bytes;
	struct run_state state;
	uint64_t checksum; /* of the state */
};

struct state_entry {
	struct run_state_now now;
	struct run_result_phase phase; /* all zero if there is none */
	uint64_t checksum;             /* of both, seeded with the run and the entry's number */
};

static uint64_t entry_checksum(const struct state_entry *e, uint64_t run, uint64_t number)
{
	return XXH3_64bits_withSeed(e, offsetof(struct state_entry, checksum), run + number);
}

/* Whether the checksum matches. A fuzzer cannot compute one, so every one matches for it. */
static bool checksum_fits(uint64_t is, uint64_t want)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	(void)is;
	(void)want;
	return true;
#else
	return is == want;
#endif
}

/* Whether text from the file ends inside its field: it is printed. */
static bool state_is_text(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

static bool state_now_is_text(const struct run_state_now *now)
{
	return state_is_text(now->engine, sizeof(now->engine)) &&
	       state_is_text(now->detail, sizeof(now->detail));
}

static int state_damaged(struct shoal_err *err)
{
	return err_set(err, -EBADMSG,
		       "the state of the earlier run is damaged, or from another version of "
		       "Shoal: start again in another folder");
}

static int read_head(int fd, struct run_state *ret_state, struct shoal_err *err)
{
	struct file_head head;
	int rc = pread_all(fd, &head, sizeof(head), 0);

	if (rc < 0 || memcmp(head.magic, MAGIC, sizeof(head.magic)) != 0 ||
	    head.head_bytes != sizeof(head) || head.entry_bytes != sizeof(struct state_entry) ||
	    !checksum_fits(head.checksum, XXH3_64bits(&head.state, sizeof(head.state))) ||
	    !state_is_text(head.state.data, sizeof(head.state.data)) ||
	    !state_now_is_text(&head.state.now) ||
	    head.state.now.nr_phases != 0) /* only entries can have some */
		return state_damaged(err);
	*ret_state = head.state;
	return 0;
}

/* The number of complete entries. */
static int count_entries(int fd, uint64_t *ret_nr)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno();
	*ret_nr = (uint64_t)st.st_size < sizeof(struct file_head)
			  ? 0
			  : ((uint64_t)st.st_size - sizeof(struct file_head)) /
				    sizeof(struct state_entry);
	return 0;
}

/*
 * Remove the last entry. If the machine crashes while it is written the file can be longer already,
 * without the entry's bytes.
 */
static int drop_entry(int fd, uint64_t nr, struct shoal_err *err)
{
	off_t end = (off_t)(sizeof(struct file_head) + nr * sizeof(struct state_entry));

	return ftruncate(fd, end) < 0
		       ? err_set_errno(err, err_errno(), "cannot write the state of the run")
		       : 0;
}

static int read_entries(int fd, struct run_state *state, struct run_result_phase *phases,
			size_t max, struct run_result_phase *ret_cut, struct shoal_err *err)
{
	struct state_entry e;
	uint64_t nr = 0;
	int rc = count_entries(fd, &nr);

	*ret_cut = (struct run_result_phase){ 0 };
	for (uint64_t i = 0; rc == 0 && i < nr; i++) {
		bool finished;

		rc = pread_all(fd, &e, sizeof(e), sizeof(struct file_head) + i * sizeof(e));
		if (rc < 0)
			return state_damaged(err);
		if (!checksum_fits(e.checksum, entry_checksum(&e, state->run, i)))
			return i + 1 == nr ? drop_entry(fd, i, err) : state_damaged(err);
		finished = e.now.nr_phases == state->now.nr_phases + 1;
		if (!state_now_is_text(&e.now) ||
		    (!finished && e.now.nr_phases != state->now.nr_phases))
			return state_damaged(err);
		if (finished && e.now.nr_phases > max)
			return err_set(err, -ESTALE,
				       "the earlier run had more epochs than this one");
		if (finished)
			phases[e.now.nr_phases - 1] = e.phase;
		if (finished)
			*ret_cut = (struct run_result_phase){ 0 };
		else if (e.phase.partial)
			*ret_cut = e.phase;
		state->now = e.now;
	}
	return rc < 0 ? state_damaged(err) : 0;
}

static int open_state(const char *results, int flags, int *ret_fd, struct shoal_err *err)
{
	char path[RUN_PATH_MAX];
	int rc = run_file_path(results, RUN_FILE_STATE, path, err);

	if (rc < 0)
		return rc;
	*ret_fd = publish_open_own(path, flags, err);
	return *ret_fd < 0 ? *ret_fd : 0;
}

int run_state_load(const char *results, struct run_state *ret_state,
		   struct run_result_phase *phases, size_t max, struct run_result_phase *ret_cut,
		   struct shoal_err *err)
{
	int fd, rc = open_state(results, O_RDWR, &fd, err);

	if (rc < 0)
		return rc;
	rc = read_head(fd, ret_state, err);
	if (rc == 0)
		rc = read_entries(fd, ret_state, phases, max, ret_cut, err);
	close(fd);
	return rc;
}

int run_state_peek(const char *results, struct run_state *ret_state, struct shoal_err *err)
{
	int fd, rc = open_state(results, O_RDONLY, &fd, err);

	if (rc < 0)
		return rc;
	rc = read_head(fd, ret_state, err);
	close(fd);
	return rc;
}

int run_state_create(const char *results, const struct run_state *state, struct shoal_err *err)
{
	struct file_head head = { .magic = MAGIC,
				  .head_bytes = sizeof(head),
				  .entry_bytes = sizeof(struct state_entry),
				  .state = *state,
				  .checksum = XXH3_64bits(state, sizeof(*state)) };
	struct publish pub = PUBLISH_CLOSED;
	char path[RUN_PATH_MAX];
	int rc = run_file_path(results, RUN_FILE_STATE, path, err);

	if (rc == 0)
		rc = publish_open_here(path, &pub, err);
	if (rc < 0)
		return rc;
	rc = pwrite_all(pub.fd, &head, sizeof(head), 0);
	if (rc == 0)
		return publish_commit(&pub, err);
	publish_abort(&pub);
	return err_set_errno(err, rc, "cannot write '%s'", path);
}

int run_state_append(const char *results, const struct run_state *state,
		     const struct run_result_phase *phase, struct shoal_err *err)
{
	struct state_entry e;
	char path[RUN_PATH_MAX];
	uint64_t nr = 0;
	int fd, rc = run_file_path(results, RUN_FILE_STATE, path, err);

	if (rc < 0)
		return rc;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW); /* ours: it was created or loaded */
	if (fd < 0)
		return err_set_errno(err, err_errno(), "cannot open '%s'", path);
	memset(&e, 0, sizeof(e)); /* padding too: the checksum covers it */
	e.now = state->now;
	if (phase)
		memcpy(&e.phase, phase, sizeof(e.phase));
	rc = count_entries(fd, &nr);
	e.checksum = entry_checksum(&e, state->run, nr);
	if (rc == 0)
		rc = pwrite_all(fd, &e, sizeof(e), sizeof(struct file_head) + nr * sizeof(e));
	if (rc == 0 && fdatasync(fd) < 0)
		rc = err_errno();
	close(fd);
	return rc < 0 ? err_set_errno(err, rc, "cannot write the state of the run") : 0;
}
