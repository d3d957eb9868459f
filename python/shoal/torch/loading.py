"""torch's DataLoader with epochs that go on by themselves, and a state that counts what was delivered."""

import torch.utils.data

from .._errors import BadValueError
from .iterable import ShoalIterable
from .samplers import ShoalBatchSampler, ShoalSampler


class DataLoader(torch.utils.data.DataLoader):
    """A torch DataLoader over Shoal's samplers or iterable, to be used in the same way, and

    - each iteration that follows one that was read to its end is the next epoch, unless set_epoch() says which;
    - state_dict() is where the training loop stands, not the workers that read ahead; load_state_dict() goes on
      there with any number of ranks, workers, and samples a batch.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._shoal_batches = 0
        self._shoal_done = None
        self._source()

    def _source(self):
        """Who decides the order here, and how many of its steps a batch is."""
        if isinstance(self.dataset, ShoalIterable):
            if self.batch_size is not None:
                raise BadValueError(22, "a ShoalIterable gives batches already: say DataLoader(..., batch_size=None)")
            return self.dataset, 1
        if isinstance(self.batch_sampler, ShoalBatchSampler):
            return self.batch_sampler, 1
        if isinstance(self.sampler, ShoalSampler):
            return self.sampler, self.batch_size or 1
        raise BadValueError(22, "shoal.torch.DataLoader is for a ShoalSampler, ShoalBatchSampler or ShoalIterable: without "
                            "one use torch's own")

    def set_epoch(self, epoch):
        """Choose the epoch that the next iteration gives."""
        self._source()[0].set_epoch(epoch)
        self._shoal_done = None
        self._shoal_batches = 0

    def __iter__(self):
        source, _ = self._source()
        if self._shoal_done is not None and self._shoal_done == source.epoch:
            source.set_epoch(source.epoch + 1)
        self._shoal_done = None
        self._shoal_batches = 0
        epoch = source.epoch
        for batch in super().__iter__():
            self._shoal_batches += 1
            yield batch
            del batch
        self._shoal_done = epoch

    def state_dict(self):
        """Where the loop stands: after the batches that it was given."""
        source, steps = self._source()
        return source.state_dict(self._shoal_batches * steps)

    def load_state_dict(self, state):
        self._source()[0].load_state_dict(state)
        self._shoal_done = None
        self._shoal_batches = 0
