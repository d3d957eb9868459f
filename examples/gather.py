"""Gather results of all ranks in bounded memory: gather.py [FILE]

    torchrun --nproc_per_node 4 examples/gather.py            every rank gets all
    torchrun --nproc_per_node 4 examples/gather.py all.bin    into a file, read one rank at a time
"""

import os
import sys
from typing import Any, Dict, List, Optional

import torch.distributed

from shoal.torch import gather_objects


def evaluate(rank: int) -> List[Dict[str, Any]]:
    """What an evaluation leaves on a rank: a record for each of its samples."""
    return [{"image": "val/%06d.jpeg" % i, "box": [i % 7, 1.0, 2.0, 3.0], "score": i / 1e6}
            for i in range(rank, 100000, 4)]


def main(path: Optional[str] = None) -> None:
    if "RANK" in os.environ:  # started by torchrun
        torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank() if "RANK" in os.environ else 0
    found = gather_objects(evaluate(rank), budget="16MB", to=path or "all")
    if rank == 0:
        for number, records in enumerate(found):  # of a file, one at a time
            print("rank %d: %d records, the best %s" % (number, len(records), max(r["score"] for r in records)))
    if "RANK" in os.environ:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:2])
