/* Any bytes as a .npy file, after one that says how many samples: as fuzz_npz. */
#include "find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_find("npy", data, size);
}
