/* Any bytes as a file of npz, after one that says how many samples: refused in words, or all of
 * them inside it. */
#include "find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_find("npz", data, size);
}
