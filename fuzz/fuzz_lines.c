/* Any bytes as lines: JSON lines, CSV; and as records of three bytes. */
#include "find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_samples("jsonl", data, size);
	fuzz_samples("fixed", data, size);
	return fuzz_samples("csv", data, size);
}
