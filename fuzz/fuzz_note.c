/*
 * Any bytes as the note of a dataset, which says what it was made with: it is the note of this
 * dataset, or the command is refused with a message of one line.
 */
#include <errno.h>
#include <string.h>

#include "datagen/datagen.h"
#include "file.h"

static const char yaml[] =
	"dataset: {format: npz, num_files_train: 1, record_length_bytes: 1000}\n";

static struct workload *workload;
static char folder[128], note[160];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void start(void)
{
	snprintf(folder, sizeof(folder), "%s", fuzz_path("note"));
	snprintf(note, sizeof(note), "%s/%s", folder, DATAGEN_NOTE_NAME);
	if ((mkdir(folder, 0700) < 0 && errno != EEXIST) ||
	    workload_parse(yaml, strlen(yaml), "w", NULL, 0, NULL, NULL, &workload, NULL) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct datagen_options options = {
		.data = folder, .mode = DATAGEN_VERIFY, .catalog = "", .nr_threads = 1
	};
	struct datagen_result result;
	struct comm *comm = NULL;
	struct shoal_err err = { "" };
	int rc;

	if (!folder[0])
		start();
	if (comm_self(&comm, NULL) < 0) /* a new one: a failure ends it */
		abort();
	fuzz_write(note, data, size);
	rc = datagen_execute(comm, workload, &options, &result, &err);
	if (rc == 0 && result.counts.nr_missing != 1)
		abort();
	if (rc < 0 && rc != -EEXIST) {
		fprintf(stderr, "%d: %s\n", rc, err.msg);
		abort();
	}
	if (rc < 0 && (!err.msg[0] || strnlen(err.msg, sizeof(err.msg)) == sizeof(err.msg)))
		abort();
	comm_close(comm);
	return 0;
}
