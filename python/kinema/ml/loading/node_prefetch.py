"""`NodePrefetch`: has a node cache fetch the blocks of an epoch in its order, ahead of the loop that reads them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Protocol

import numpy as np

from kinema import _core
from kinema.ml.dataset import Dataset
from kinema.ml.loading.gathers import Gather

__all__ = ["NodePrefetch", "local_ranks", "prefetch_for"]

# reads that are planned at a time: some 20 MiB, and time that a thread takes from others
_PLANNED = 100_000
# blocks that are fetched before they are read, at the least
_BLOCKS_AHEAD = 16


class Loop(Protocol):
    """What is known of a loader."""

    dataset: Dataset
    rank: int
    ranks: int

    def gathers(self, epoch: int, begin: int, rank: int | None) -> Iterator[tuple[Gather, int]]:
        """What a rank reads of an epoch from a place on, with its bytes."""


def local_ranks(rank: int, ranks: int) -> range:
    """Ranks on this node, as torchrun says them; the own one where nothing is said."""
    try:
        own, here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    except (KeyError, ValueError):
        return range(rank, rank + 1)
    first = rank - own
    return range(first, first + here) if 0 <= own < here and 0 <= first <= ranks - here else range(rank, rank + 1)


def prefetch_for(loop: Loop, epoch: int, begin: int, *, ahead: int, on: bool) -> NodePrefetch | None:
    """What has the node cache of a data set fetch ahead of a loop, at least `ahead` bytes; None where it has none.

    `on`: whether later epochs follow.
    """
    cache = loop.dataset.node_cache
    if cache is None:
        return None

    def gathers() -> Iterator[Gather]:
        here, place, at = local_ranks(loop.rank, loop.ranks), begin, epoch
        while True:
            found = False
            for several in zip_longest(*(loop.gathers(at, place, rank) for rank in here)):
                found = True
                yield from (one[0] for one in several if one is not None)
            if not (on and found):
                return
            place, at = 0, at + 1

    most = max(ahead, _BLOCKS_AHEAD * (cache.block or 1))
    return NodePrefetch(loop.dataset, gathers(), min(cache.limit // 2, most))


class NodePrefetch:
    """The gathers of a loop as a list of reads for the node cache, some at a time; `passed` tells where the loop is.

    One process of a node fetches; others whose loops have the same order only say where they are. It is a hint: what is
    not there when it is read is fetched then, and an error of a read is raised by that read alone.

    Parameters
    ----------
    dataset : Dataset
        With a `node_cache`.
    gathers : iterator of Gather
        All that ranks of this node read, in the order of their reading.
    ahead : int
        Bytes that are fetched before they are read.
    """

    def __init__(self, dataset: Dataset, gathers: Iterator[Gather], ahead: int) -> None:
        cache = dataset.node_cache
        assert cache is not None
        self._dataset, self._gathers, self._ahead, self._cache = dataset, gathers, ahead, cache.core
        self._lock = threading.Lock()
        self._running: _core.Prefetch | None = None
        # reads before each gather of the running list, by epoch and first place
        self._before: dict[tuple[int, int], int] = {}
        self._last: tuple[int, int] | None = None
        self._following: Gather | None = None
        self._begin([])

    def passed(self, gather: Gather) -> None:
        """The loop is about to read it."""
        key = (gather.epoch, gather.first)
        with self._lock:
            if self._running is None or key not in self._before:
                return
            if key == self._last:
                self._begin([gather])
            else:
                self._running.position(self._before[key])

    def _begin(self, behind: list[Gather]) -> None:
        """A list in place of the running one: of this gather and those that follow it, of two epochs at most."""
        self.stop()
        reads: list[tuple[str, int, int]] = []
        self._before, self._last = {}, None
        gathers = chain(behind, [] if self._following is None else [self._following], self._gathers)
        self._following = None
        first: int | None = None
        for gather in gathers:
            first = gather.epoch if first is None else first
            if len(reads) >= _PLANNED or gather.epoch > first + 1:
                self._following = gather
                break
            self._last = (gather.epoch, gather.first)
            self._before.setdefault(self._last, len(reads))
            reads += _reads(self._dataset, gather)
        if reads:
            self._running = self._cache.prefetch(reads, self._ahead)

    def stop(self) -> None:
        """Ends the fetching; what was fetched stays."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()


def _reads(dataset: Dataset, gather: Gather) -> Iterator[tuple[str, int, int]]:
    extents = dataset.extents(np.concatenate(gather.ids))
    columns = (extents.file.tolist(), extents.offset.tolist(), extents.length.tolist())
    return ((extents.paths[file], offset, length) for file, offset, length in zip(*columns, strict=True))
