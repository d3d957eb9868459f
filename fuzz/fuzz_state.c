/*
 * Any bytes as the state of a run, after a head that fits: refused with a message, or what is read
 * is text where text is printed, and no more phases than there is room for.
 */
#include <errno.h>
#include <string.h>

#include "file.h"
#include "run/state.h"

#define PHASES_MAX 4u
#define HEAD       24u /* the magic and two sizes, which no mutation would find */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char results[128], path[RUN_PATH_MAX];
static uint8_t head[HEAD];

/* A folder with a state, of which the head is kept. */
static void make_results(void)
{
	struct run_state state = { .run = 1 };
	char folder[160];
	FILE *file;

	snprintf(results, sizeof(results), "%s", fuzz_path("state"));
	snprintf(folder, sizeof(folder), "%s/.shoal-run", results);
	if (mkdir(results, 0700) < 0 || mkdir(folder, 0700) < 0 ||
	    run_state_create(results, &state, NULL) < 0 ||
	    run_file_path(results, RUN_FILE_STATE, path, NULL) < 0)
		abort();
	file = fopen(path, "rb");
	if (!file || fread(head, 1, HEAD, file) != HEAD)
		abort();
	fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run_result_phase phases[PHASES_MAX], cut;
	struct run_state state;
	struct shoal_err err = { "" };
	uint8_t *file = malloc(HEAD + size);
	int rc;

	if (!file)
		abort();
	if (!results[0])
		make_results();
	memcpy(file, head, HEAD);
	memcpy(file + HEAD, data, size);
	fuzz_write(path, file, HEAD + size);
	free(file);
	rc = run_state_load(results, &state, phases, PHASES_MAX, &cut, &err);
	if (rc > 0 || (rc < 0 && !err.msg[0]))
		abort();
	if (rc == 0 &&
	    (state.now.nr_phases > PHASES_MAX ||
	     strnlen(state.data, sizeof(state.data)) == sizeof(state.data) ||
	     strnlen(state.now.engine, sizeof(state.now.engine)) == sizeof(state.now.engine) ||
	     strnlen(state.now.detail, sizeof(state.now.detail)) == sizeof(state.now.detail)))
		abort();
	return 0;
}
