"""The rank and the number of ranks."""

import os

import torch.distributed

from .._errors import BadValueError
from ..order import _number, check_rank

# Launchers, and the variables they set: torchrun, Open MPI, MPICH and others with PMI.
_VARIABLES = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))


def _from_environment():
    for rank, size in _VARIABLES:
        if rank in os.environ and size in os.environ:
            try:
                return int(os.environ[rank]), int(os.environ[size])
            except ValueError:
                raise BadValueError(22, "%s=%r and %s=%r should be numbers" % (
                    rank, os.environ[rank], size, os.environ[size])) from None
    return 0, 1


def _found():
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return _from_environment()


class Place:
    """A rank and a world size: as given, or from torch.distributed, or from the launcher."""

    def __init__(self, rank=None, world_size=None):
        if (rank is None) != (world_size is None):
            raise BadValueError(22, "give both rank and world_size, or neither")
        self.given = rank is not None
        if not self.given:
            rank, world_size = _found()
        self.world_size = _number("world_size", world_size, 1)
        self.rank = check_rank(rank, self.world_size)

    def check(self):
        """Called before an epoch. A place determined before torch.distributed was initialised would
        make every rank read everything, unnoticed. Not in a data loader's worker, which has no
        group.
        """
        if self.given or torch.utils.data.get_worker_info() is not None:
            return
        rank, world_size = _found()
        if (rank, world_size) != (self.rank, self.world_size):
            raise BadValueError(22, "this is rank %d of %d now, but was rank %d of %d when the sampler was made: make it "
                                "after torch.distributed.init_process_group() (in Lightning: in train_dataloader()), or pass rank "
                                "and world_size"
                                % (rank, world_size, self.rank, self.world_size))


def reduce_audit(audit, group=None):
    """The sum of the audits of all ranks: a few numbers each. Collective; if a rank has no audit,
    all raise.
    """
    all_of_them = [audit]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        all_of_them = [None] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(all_of_them, audit, group=group)
    for rank, part in enumerate(all_of_them):
        if part is None:
            raise BadValueError(22, "rank %d has no audit: it has not read its epoch to the end, or continued one that "
                                "another process began" % rank)
    total = all_of_them[0]
    for part in all_of_them[1:]:
        total = total + part
    return total
