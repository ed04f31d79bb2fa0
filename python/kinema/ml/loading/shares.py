"""`RankShare`: the batches of an epoch for one rank, by positions in the order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.ml.loading.order import Order

# samples of an order computed together: a batch at a time, each would cost several times as much
_AT_A_TIME = 1 << 12


@dataclass(frozen=True)
class RankShare:
    """Batches of `batch_size` of `samples` samples for one rank: every `ranks`-th sample of a batch of all ranks."""

    samples: int
    batch_size: int
    rank: int
    ranks: int
    drop_last: bool
    pad: bool

    def check_last(self) -> None:
        """Raises ArgumentError if ranks would get unequal shares of the last batch."""
        last = self.samples % self.global_batch_size
        if not self.drop_last and last % self.ranks:
            raise ArgumentError(
                f"the last batch has {last} samples for {self.ranks} ranks: pad=True repeats "
                f"{-last % self.ranks} samples, pad=False gives unequal batches, drop_last=True leaves {last} out"
            )

    @property
    def global_batch_size(self) -> int:
        """Samples of a batch of all ranks."""
        return self.batch_size * self.ranks

    def __len__(self) -> int:
        """Batches of an epoch."""
        whole, last = divmod(self.samples, self.global_batch_size)
        return whole + (not self.drop_last and last > (0 if self.pad else self.rank))

    def end(self, begin: int) -> int:
        """Position after the last sample that any rank gets, from the batches from position `begin` on."""
        return self.samples - (self.samples - begin) % self.global_batch_size if self.drop_last else self.samples

    def places(self, place: int) -> NDArray[np.int64]:
        """(n,) int64: own positions in the batch of all ranks that begins at `place`; padding begins again at 0."""
        stop = min(place + self.global_batch_size, self.samples)
        if self.pad:
            stop += -(stop - place) % self.ranks
        own = np.arange(place + (self.rank - place) % self.ranks, stop, self.ranks, dtype=np.int64)
        return own % self.samples

    def batches(self, order: Order, begin: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Batches of all ranks from position `begin` on: position, and samples of this rank, possibly none."""
        step, end = self.global_batch_size, self.end(begin)
        several = step * max(1, _AT_A_TIME // self.batch_size)
        for start in range(begin, end, several):
            places = range(start, min(start + several, end), step)
            own = [self.places(place) for place in places]
            samples, row = order.samples_at(np.concatenate(own)), 0
            for place, one in zip(places, own, strict=True):
                yield place, samples[row : row + len(one)]
                row += len(one)

    def has_more(self, place: int) -> bool:
        """Whether this rank has a batch from `place` on."""
        left = self.samples - place
        if self.drop_last:
            return left >= self.global_batch_size
        return left > (0 if self.pad else (self.rank - place) % self.ranks)
