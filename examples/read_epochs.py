"""Read epochs as fast as the storage gives, in one process, and prove that each was whole: read_epochs.py CATALOG"""

import sys
import time

import shoal


def main(path: str, epochs: int = 3) -> None:
    with shoal.Loader(path, batch_size=256, seed=42) as loader:
        for epoch in range(epochs):
            begun = time.monotonic()
            first = 0
            for batch in loader.epoch(epoch):
                for sample in batch:  # a buffer: memoryview(sample), numpy.frombuffer(sample, "u1")
                    first += memoryview(sample)[0] if len(sample) else 0
            audit, seconds = loader.audit, time.monotonic() - begun
            assert audit is not None  # the epoch was read to its end
            print("epoch %d: %d samples, %.1f MB, %.0f samples/s, each once: %s, order %s" % (
                epoch, audit.samples, audit.bytes / 1e6, audit.samples / seconds, audit.exactly_once, audit.order_digest))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
