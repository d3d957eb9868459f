/* Any bytes as a tar archive, of members and of groups. */
#include "find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_samples("tar", data, size);
	return fuzz_samples("webdataset", data, size);
}
