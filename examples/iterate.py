"""Batches straight from the C loader, through torch's DataLoader, with the proof at the end: iterate.py CATALOG"""

import sys

from shoal.torch import DataLoader, ShoalIterable, reduce_audit


def main(path: str, epochs: int = 2) -> None:
    dataset = ShoalIterable(path, batch_size=128, output="stack", seed=3)
    loader = DataLoader(dataset, batch_size=None)  # batches already
    for epoch in range(epochs):
        nr = 0
        for rows, lengths in loader:  # one tensor of bytes, and how long each row is
            nr += int(lengths.sum())
        audit = reduce_audit(dataset.audit())  # of all ranks
        print("epoch %d: %d bytes in %d batches, each sample once: %s" % (epoch, nr, len(loader), audit.exactly_once))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
