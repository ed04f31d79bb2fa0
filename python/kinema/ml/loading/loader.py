"""`Loader`: the batches of a data set in the order of an epoch, read ahead by its own threads."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinema.base.errors import ArgumentError, MemoryLimitError
from kinema.base.resources import default_memory, parse_memory, worker_count
from kinema.ml.batch import Batch
from kinema.ml.dataset import Dataset
from kinema.ml.fingerprint import DataIdentity
from kinema.ml.loading.arguments import check_positive, memory_wanted, rank_of
from kinema.ml.loading.buffers import rows_of
from kinema.ml.loading.gathers import BatchReader, Gather, GatheredBatches
from kinema.ml.loading.loop_events import LoopEvents
from kinema.ml.loading.node_prefetch import NodePrefetch, prefetch_for
from kinema.ml.loading.order import Order
from kinema.ml.loading.readahead import Readahead
from kinema.ml.loading.shares import RankShare
from kinema.ml.loading.state import LoaderState
from kinema.ml.loading.times import LoaderTimes
from kinema.ml.processes import ProcessLocal
from kinema.ml.statistics.normalised import Normalised
from kinema.ml.statistics.statistics import Statistics

# one being read, one ready, one in use by the loop
_BATCHES_AT_LEAST = 3
# read together, of neighbouring samples that could be read one by one
_CHUNK_BYTES = 1 << 20
# of an order given by name, in batches of all ranks
_WINDOW = 32


class Loader:
    """Batches of a data set, in the order of an epoch.

    Threads of the loader read ahead; each calls `dataset.read` once a batch. If memory suffices, windows of samples
    that are decoded together are read by one call for several batches. A batch that you keep is never overwritten.
    After a complete epoch, the next loop runs the next epoch, whose first batches have already been read. A loop that
    is left early begins its epoch again.

    Parameters
    ----------
    dataset : Dataset
    batch_size : int
        Samples in a batch of one rank.
    order : {"random", "windowed", "stored"} or Order
        An order given by name is made from `seed`, `window`, `lanes` and the chunks and files of the data set.
    window : int, optional
        For "windowed": number of samples that are shuffled together; by default 32 batches of all ranks.
    memory : int or str, optional
        Limit for batches that are being read, ready or in use, and their buffers; at least three batches. By default
        what 16 batches need, at least 256 MiB, and at most a quarter of what this process may use.
    drop_last : bool
        Whether the samples after the last whole batch of all ranks are left out.
    pad : bool, optional
        What to do if ranks would get unequal shares of the last batch. True repeats samples from the beginning of the
        epoch, as torch's DistributedSampler does; False gives some ranks one sample less, or no batch. Required if the
        shares are unequal.
    rank, ranks : int, optional
        By default the values of torch.distributed if it is initialised, otherwise 0 and 1.
    tensors : bool, optional
        Whether batches have tensors of torch; by default if torch is installed.
    device : optional
        Device of torch for tensors. Memory is pinned if it is a CUDA device.
    dtype : NumPy type, optional
        Type of floating-point arrays.
    workers : int, optional
        Threads of one read; by default as many as this process may use.
    readers : int
        Number of reads at a time. With more than one, a `transform` of the data set is called from several threads.
    normalise : Statistics, optional
        Normalises arrays (`kinema.ml.statistics`). Statistics of other data are an ArgumentError.
    next_epoch : bool
        Whether the first batches of the next epoch are read while the last batches of this one are used. They stay in
        memory until the next loop, `close`, or a change of epoch by `set_epoch`. Choose False for a single pass.

    Attributes
    ----------
    order : Order
        The order of the current epoch.
    times : LoaderTimes

    Raises
    ------
    ArgumentError
        Also, at once, if the number of ranks does not divide the lanes of the order.
    MemoryLimitError
        If memory is less than three batches.

    Examples
    --------
    >>> loader = kinema.ml.Loader(kinema.ml.FrameDataset("md.xtc"), 28, order="windowed", seed=1)
    >>> for batch in loader:  # arrays, or tensors of torch, by name; batch.ids: the samples
    ...     positions = batch["positions"]
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        *,
        order: str | Order = "random",
        seed: int = 0,
        window: int | None = None,
        lanes: int = 64,
        memory: int | str | None = None,
        drop_last: bool = False,
        pad: bool | None = None,
        rank: int | None = None,
        ranks: int | None = None,
        tensors: bool | None = None,
        device: Any = None,
        dtype: DTypeLike | None = None,
        workers: int | None = None,
        readers: int = 1,
        normalise: Statistics | None = None,
        next_epoch: bool = True,
    ) -> None:
        self.dataset = dataset if normalise is None else Normalised(dataset, normalise)
        self.batch_size = check_positive("batch_size", batch_size)
        self.rank, self.ranks = rank_of(rank, ranks)
        self._tensors = find_spec("torch") is not None if tensors is None else bool(tensors)
        if device is not None and not self._tensors:
            raise ArgumentError(f"device= is of tensors of torch, expected tensors=True beside it, found {device!r}")
        self._device, self._dtype = device, None if dtype is None else np.dtype(dtype)
        self._workers, self._readers = worker_count(workers), check_positive("readers", readers)
        self._next_epoch = bool(next_epoch)
        self._share = RankShare(
            len(dataset), self.batch_size, self.rank, self.ranks, drop_last=bool(drop_last), pad=bool(pad)
        )
        self.order = self._made_order(order, seed, window, lanes)
        # arguments of the order that were given; the others follow from ranks, batches and arrays
        self._stated = ("window", "chunk") if isinstance(order, Order) else () if window is None else ("window",)
        self.order.check_ranks(self.ranks)
        if pad is None:
            self._share.check_last()
        self._memory = self._checked_memory(memory)
        self.times = LoaderTimes()
        # position in the epoch at which the next loop begins, if set by a state
        self._resume: int | None = None
        self._place = 0
        self._current: weakref.ref[_Batches] | None = None
        # batches read for the epoch that follows one that has ended
        self._prepared: _Reads | None = None
        self._reader = self._new_reader()

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _made_order(self, order: str | Order, seed: int, window: int | None, lanes: int) -> Order:
        n = len(self.dataset)
        if isinstance(order, Order):
            if order.n != n:
                raise ArgumentError(f"order= is of another data set: expected {n} samples, found {order.n}")
            return order.with_epoch(order.epoch)
        if window is not None and order != "windowed":
            raise ArgumentError(f'window= is of order="windowed", found {order!r}')
        if order == "random":
            return Order(n, seed, lanes=lanes)
        if order == "stored":
            return Order(n, lanes=lanes, shuffle=False)
        if order != "windowed":
            raise ArgumentError(f'order must be "random", "windowed", "stored" or an Order, found {order!r}')
        chunk = self.dataset.chunk_samples
        if chunk == 1:
            # each can be read alone: n that take longer to read than to find
            chunk = max(2, _CHUNK_BYTES // max(1, self.dataset.sample_bytes))
        window = _WINDOW * self._share.global_batch_size if window is None else window
        return Order(n, seed, window=window, lanes=lanes, chunk=chunk, bounds=self.dataset.bounds)

    def _checked_memory(self, memory: int | str | None) -> int:
        batch = self._batch_bytes
        least = _BATCHES_AT_LEAST * batch
        if memory is None:
            return max(least, min(default_memory(), memory_wanted(batch)))
        limit = parse_memory(memory)
        if limit < least:
            raise MemoryLimitError(
                f"three batches of {self.batch_size} samples are {least} bytes, expected memory= of at least that, "
                f"found {limit}"
            )
        return limit

    @property
    def _batch_bytes(self) -> int:
        return min(self.batch_size, max(1, len(self.dataset))) * max(1, self.dataset.sample_bytes)

    # -- what a loop gets ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of batches of an epoch, for this rank."""
        return len(self._share)

    def batch_ids(self, number: int) -> NDArray[np.int64]:
        """Samples of batch `number` of the current epoch, for this rank: (batch_size,) or fewer, int64."""
        if not 0 <= number < len(self):
            raise ArgumentError(f"batch must be from 0 to {len(self) - 1}, found {number}")
        return self.order.samples_at(self._share.places(number * self._share.global_batch_size))

    def gathers(self, epoch: int, begin: int = 0, rank: int | None = None) -> Iterator[tuple[Gather, int]]:
        """The reads of an epoch from position `begin`, each with its bytes in memory; for this rank, or for another."""
        # unaffected by later calls of `set_epoch`
        other = _copy_at_epoch(self, epoch)
        other._share = self._share if rank is None else replace(self._share, rank=rank)
        return other._gathers_from(begin)

    def _gathers_from(self, begin: int) -> Iterator[tuple[Gather, int]]:
        most, first, window = self._batches_of_a_gather, begin, -1
        ids: list[NDArray[np.int64]] = []
        for place, own in self._share.batches(self.order, begin):
            if ids and (len(ids) == most or self.order.window_of(place) != window):
                yield self._gather(first, ids)
                ids = []
            if not ids:
                first, window = place, self.order.window_of(place)
            if len(own):
                ids.append(own)
        if ids:
            yield self._gather(first, ids)

    def _gather(self, first: int, ids: list[NDArray[np.int64]]) -> tuple[Gather, int]:
        gather = Gather(self.order.epoch, first, tuple(ids))
        return gather, gather.samples * max(1, self.dataset.sample_bytes)

    @property
    def _batches_of_a_gather(self) -> int:
        if not self.order.is_windowed or not self.dataset.rows_stand_alone:
            return 1
        most = max(1, self._memory // (_BATCHES_AT_LEAST * self._batch_bytes))
        # if samples can be read alone, less than a window is as scattered as a batch
        scattered = self.dataset.chunk_samples == 1 and most * self.batch_size < self._window_of_rank
        return 1 if scattered else most

    @property
    def _gather_bytes(self) -> int:
        return self._batches_of_a_gather * self._batch_bytes

    def _new_reader(self) -> ProcessLocal[BatchReader]:
        """One reader for all loops, which reuse its buffers: new memory takes longer to get than to fill."""
        kept = self._memory // self._gather_bytes
        options = (self._workers, self._dtype, self._tensors, self._device, kept)
        return ProcessLocal(partial(BatchReader, self.dataset, *options))

    @property
    def _window_of_rank(self) -> int:
        """Samples of this rank in a window."""
        return self.order.window_samples // self.ranks

    def __iter__(self) -> Iterator[Any]:
        previous = None if self._current is None else self._current()
        if previous is not None:
            previous.close()
        if self._resume is None and self._place and not self._share.has_more(self._place):
            # a loop that asked for no batch after the last one has not changed the epoch
            self.set_epoch(self.order.epoch + 1)
        begin, self._resume = self._resume or 0, None
        self._place = begin
        batches = _Batches(self, begin, self._taken_reads(begin))
        self._current = weakref.ref(batches)
        return batches

    def _taken_reads(self, begin: int) -> _Reads | None:
        """The reads made ahead, if they are of this process and of the loop that begins at `begin`."""
        reads, self._prepared = self._prepared, None
        if reads is not None and begin == 0 and reads.epoch == self.order.epoch and reads.ahead.is_alive:
            if self._next_epoch:
                reads.ahead.extend(self.gathers(reads.epoch + 1))
            return reads
        if reads is not None:
            reads.close()
        return None

    def close(self) -> None:
        """Ends the threads and the current loop, and frees all memory. The next loop starts from the beginning."""
        current = None if self._current is None else self._current()
        for one in (current, self._prepared):
            if one is not None:
                one.close()
        self._prepared, self._reader = None, self._new_reader()

    # -- epochs and states --------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch of the current loop, or of the next one."""
        return self.order.epoch

    def set_epoch(self, epoch: int) -> None:
        """Makes `epoch` the next one, from its beginning, unless `load_state_dict` has set a position in it."""
        if epoch != self.order.epoch or self._resume is None:
            # running loops keep the former order
            self.order = self.order.with_epoch(epoch)
            self._resume, self._place = None, 0
        if self._prepared is not None and self._prepared.epoch != self.order.epoch:
            self._prepared.close()
            self._prepared = None

    def state_dict(self) -> dict[str, Any]:
        """The position of the loop, after the last batch that it was given, as plain numbers and strings.

        It fits any number of ranks and any batch size: the samples that follow are the same.
        """
        return self._state().to_dict()

    def _state(self) -> LoaderState:
        place = self._resume if self._resume is not None else self._place
        return LoaderState(self.order, place, self._identity)

    @cached_property
    def _identity(self) -> DataIdentity | None:
        """Identity of the files as they are at the first call."""
        return DataIdentity.from_dataset(self.dataset)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next loop begin where `state_dict` was called: no sample is repeated, none is left out.

        After the last batch of an epoch that loop is empty, and the one after it is the next epoch.

        For an order given by name, window and chunk come from the state, because they depend on ranks, batches and
        arrays. A `window` that was given must equal the state's.

        Raises
        ------
        ArgumentError
            If the data set or the order differs.
        """
        found = self._state().taken_over(state, self._stated)
        self.order = found.order
        self._resume = self._place = found.place

    def explain(self) -> str:
        """Order, memory and reads of the loader, and the bytes that the data set reads for each useful byte."""
        gather = self._batches_of_a_gather
        lines = [
            f"{self.order!r}",
            f"rank {self.rank} of {self.ranks}: {len(self)} batches of {self.batch_size} samples, "
            f"{self._batch_bytes} bytes each; {gather} batches a read, at most {self._memory} bytes ahead",
        ]
        window = self._window_of_rank
        if self.order.is_windowed and gather * self.batch_size < window and self.dataset.rows_stand_alone:
            need = _BATCHES_AT_LEAST * window * max(1, self.dataset.sample_bytes)
            what, better = "chunks are decoded again for each read", "would decode each once"
            if self.dataset.chunk_samples == 1:
                what, better = "its samples are read one by one", f"would read {self.order.chunk} neighbours together"
            lines.append(f"a window of this rank is {window} samples, more than a read: {what}; memory={need} {better}")
        return "\n".join([*lines, self.dataset.explain(self.batch_size)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_current": None, "_prepared": None}

    def __repr__(self) -> str:
        return (
            f"<Loader of {len(self)} batches of {self.batch_size}, epoch {self.epoch}, rank {self.rank}/{self.ranks}>"
        )


@dataclass
class _Reads:
    """Threads that read an epoch and the beginning of the next one."""

    reader: BatchReader
    ahead: Readahead[Gather, GatheredBatches]
    epoch: int
    """Epoch of the next batch."""
    prefetch: NodePrefetch | None = None
    """Prefetch into the node cache of the data set, if it has one."""
    counted: float = 0.0
    """Seconds of the threads that are already in `LoaderTimes.busy`."""

    def close(self) -> None:
        """Ends the threads, after their current work."""
        self.ahead.close()
        if self.prefetch is not None:
            self.prefetch.stop()


class _Batches:
    """One loop over a loader."""

    def __init__(self, loader: Loader, begin: int, reads: _Reads | None) -> None:
        self._loader = loader
        self._next_place = begin
        self._epoch = loader.order.epoch
        self._rows: list[tuple[int, int]] = []
        self._gathered: Batch = Batch()
        self._events = LoopEvents(self._epoch)
        self._reads: _Reads | None = self._started(begin) if reads is None else reads

    def _started(self, begin: int) -> _Reads:
        loader = self._loader
        reader = loader._reader.get()
        prefetch = prefetch_for(loader, self._epoch, begin, ahead=loader._memory, on=loader._next_epoch)
        following = loader.gathers(self._epoch + 1) if loader._next_epoch else ()
        ahead = Readahead(
            reader.read if prefetch is None else partial(reader.read, began=prefetch.passed),
            chain(loader.gathers(self._epoch, begin), following),
            # memory that reads may fill and no batch holds
            limit=loader._memory - loader._gather_bytes,
            size=lambda gathered: gathered.batch.nbytes,
            threads=loader._readers,
        )
        return _Reads(reader, ahead, self._epoch, prefetch)

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        self._events.asked()
        if self._reads is None or not self._has_more():
            self._ended()
            raise StopIteration
        if not self._reads.ahead.is_alive:
            # after a fork: continue from the same position, with threads of this process
            self._rows, self._gathered = [], Batch()
            self._reads = self._started(self._next_place)
        reads, times, size = self._reads, self._loader.times, 0
        step = self._next_place // self._loader._share.global_batch_size + 1
        try:
            batch = self._following(reads.ahead)
            size = batch.nbytes
        finally:
            times.waited += self._events.waited(step, size)
            busy = reads.ahead.busy
            times.busy += busy - reads.counted
            reads.counted = busy
        self._next_place = min(self._next_place + self._loader._share.global_batch_size, len(self._loader.dataset))
        if self._is_current:
            self._loader._place = self._next_place
        times.batches += 1
        times.nbytes += batch.nbytes
        if not self._has_more():
            self._hand_over()
        given = reads.reader.given(batch)
        self._events.given(step)
        return given

    def _has_more(self) -> bool:
        return bool(self._rows) or self._loader._share.has_more(self._next_place)

    def _following(self, ahead: Readahead[Gather, GatheredBatches]) -> Batch:
        """The next batch, from what is there or from the next read."""
        if not self._rows:
            # not held while waiting for the next one
            self._gathered = Batch()
            gathered = ahead.take()
            self._gathered, self._rows = gathered.batch, list(gathered.rows)
        start, stop = self._rows.pop(0)
        batch = rows_of(self._gathered, start, stop)
        if not self._rows:
            self._gathered = Batch()
        return batch

    @property
    def _is_current(self) -> bool:
        loader = self._loader
        return loader._current is not None and loader._current() is self and loader.order.epoch == self._epoch

    def _hand_over(self) -> None:
        """All batches were given: the threads continue with the next epoch, for the next loop."""
        reads, self._reads = self._reads, None
        if reads is None:
            return
        if self._loader._next_epoch and self._is_current:
            reads.epoch = self._epoch + 1
            self._loader._prepared = reads
        else:
            reads.close()

    def _ended(self) -> None:
        """The last batch was already given: moves the loader to the next epoch."""
        self._hand_over()
        self._events.finish()
        if self._is_current:
            self._loader.set_epoch(self._epoch + 1)

    def close(self) -> None:
        """Ends the loop after the batches it holds, and the threads, except those kept for the next loop."""
        self._events.finish()
        if self._reads is not None:
            self._reads.close()


def _copy_at_epoch(loader: Loader, epoch: int) -> Loader:
    """A copy of the loader as it is now, with the order of `epoch`."""
    copy = object.__new__(Loader)
    copy.__dict__.update(loader.__getstate__(), order=loader.order.with_epoch(epoch))
    return copy
