"""`NodePrefetch`: makes a node cache fetch the blocks of an epoch in order, ahead of the loop that reads them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Protocol

import numpy as np

from kinema import _core
from kinema.base.errors import Error
from kinema.base.notes import emit
from kinema.ml.dataset import Dataset
from kinema.ml.loading.gathers import Gather

# reads planned at a time: some 20 MiB, and time that a thread takes from others
_PLANNED = 100_000
_FIRST_PLANNED = 2_000
# minimum number of blocks fetched before they are read
_BLOCKS_AHEAD = 16


class RankedLoop(Protocol):
    """The interface of a loader for prefetching."""

    dataset: Dataset
    rank: int
    ranks: int

    def gathers(self, epoch: int, begin: int, rank: int | None) -> Iterator[tuple[Gather, int]]:
        """The reads of a rank in an epoch from position `begin`, with their bytes."""


def local_ranks(rank: int, ranks: int) -> range:
    """Ranks on this node according to torchrun; without torchrun, the rank itself."""
    try:
        own, here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    except (KeyError, ValueError):
        return range(rank, rank + 1)
    first = rank - own
    return range(first, first + here) if 0 <= own < here and 0 <= first <= ranks - here else range(rank, rank + 1)


def prefetch_for(loop: RankedLoop, epoch: int, begin: int, *, ahead: int, on: bool) -> NodePrefetch | None:
    """A prefetch for a loop, at least `ahead` bytes ahead; None if the data set has no node cache.

    `on`: whether later epochs follow.
    """
    cache = loop.dataset.node_cache
    if cache is None:
        return None

    def batches() -> Iterator[list[Gather]]:
        here, place, at = local_ranks(loop.rank, loop.ranks), begin, epoch
        while True:
            found = False
            for several in zip_longest(*(loop.gathers(at, place, rank) for rank in here)):
                found = True
                yield [one[0] for one in several if one is not None]
            if not (on and found):
                return
            place, at = 0, at + 1

    most = max(ahead, _BLOCKS_AHEAD * (cache.block or 1))
    return NodePrefetch(loop.dataset, batches(), min(cache.limit // 2, most))


class NodePrefetch:
    """The gathers of a loop as a list of reads for the node cache, some at a time; `passed` tells it where the loop is.

    Among the processes of a node that read in one order, one fetches; the others only report their positions.
    Prefetching is a hint: what is missing when it is read is fetched then, and the error of a file is raised by the
    reader.

    `dataset`: with a `node_cache`.
    `batches`: iterator of lists of Gather; the reads of the ranks of this node, in their order: one for each rank at
        each position of the epoch.
    `ahead`: bytes that are fetched before they are read.
    """

    def __init__(self, dataset: Dataset, batches: Iterator[list[Gather]], ahead: int) -> None:
        cache = dataset.node_cache
        assert cache is not None
        self._dataset, self._batches, self._ahead, self._cache = dataset, batches, ahead, cache.core
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._running: _core.Prefetch | None = None
        self._stopped = False
        # reads before each position of the running list, by epoch and position: where the loop is
        self._before: dict[tuple[int, int], int] = {}
        self._at: tuple[int, int] | None = None
        # start of the next list: the last gather of this one, and gathers taken that are not in it
        self._next: list[list[Gather]] = []
        # the first lists are short, so that fetching begins soon
        self._planned = _FIRST_PLANNED
        self._thread = self._started()

    def _started(self) -> threading.Thread:
        """Makes lists in a thread beside the loop. The interpreter waits for a list in progress before it ends."""
        thread = threading.Thread(target=self._begin_noted, name="kinema-prefetch-list")
        thread.start()
        return thread

    def _begin_noted(self) -> None:
        try:
            self._begin()
        except Error as error:
            # an error of a file: its reader gets it; of the cache folder: the loop continues without; after the loop:
            # harmless
            if self._stopped:
                return
            emit([f"nothing more is fetched ahead into the node cache: {error}"])

    def passed(self, gather: Gather) -> None:
        """The loop is about to read this gather."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._at = key = _place([gather])
            if self._running is None or key not in self._before:
                return
            self._running.position(self._before[key])
            if len(self._before) > 1 and key == _place(self._next[0]) and not self._thread.is_alive():
                self._thread = self._started()

    def _begin(self) -> None:
        """Replaces the running list by one from its last position on, over at most two epochs."""
        reads: list[tuple[str, int, int]] = []
        before: dict[tuple[int, int], int] = {}
        first: int | None = None
        last: list[list[Gather]] = []
        for batch in chain(self._next, self._batches):
            first = batch[0].epoch if first is None else first
            if len(before) > 1 and (len(reads) >= self._planned or batch[0].epoch > first + 1):
                last.append(batch)
                break
            if self._stopped:
                return
            before[_place(batch)] = len(reads)
            reads += [read for gather in batch for read in _reads(self._dataset, gather)]
            last = [batch]
        if self._stopped or not reads or before.keys() == self._before.keys():
            return
        running = self._cache.prefetch(reads, self._ahead)
        with self._lock:
            former, self._running = self._running, None if self._stopped else running
            self._before, self._next = before, last
            self._planned = min(_PLANNED, 8 * self._planned)
            if self._at in before:
                running.position(before[self._at])
        for one in (former, running if self._running is None else None):
            if one is not None:
                one.stop()

    def stop(self) -> None:
        """Ends the fetching; fetched blocks stay. In a forked process it does nothing: the fetching is the parent's."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._stopped = True
            running, self._running = self._running, None
        if running is not None:
            running.stop()


def _place(batch: list[Gather]) -> tuple[int, int]:
    return batch[0].epoch, batch[0].first


def _reads(dataset: Dataset, gather: Gather) -> Iterator[tuple[str, int, int]]:
    extents = dataset.extents(np.concatenate(gather.ids))
    columns = (extents.file.tolist(), extents.offset.tolist(), extents.length.tolist())
    return ((extents.paths[file], offset, length) for file, offset, length in zip(*columns, strict=True))
