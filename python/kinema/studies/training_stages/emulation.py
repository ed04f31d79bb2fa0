"""`EmulatedStage`: the ranks of a stage in virtual time, each a loop that trains and threads that read for it.

Loop and threads wait for each other as those of the real programs do. NumPy holds the interpreter while it computes,
and h5py its library from opening a file to closing it, so that threads take turns. Kinema's threads share each batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinema.base.errors import InternalError
from kinema.report.traces.writing import TraceWriter
from kinema.storage.output_file import write_whole
from kinema.studies.lab.machine import EmulatedMachine, place_ranks
from kinema.studies.lab.operations import (
    Acquire,
    Announce,
    Await,
    Compute,
    Metadata,
    Operation,
    Pause,
    ReadBytes,
    Release,
    StoredFile,
)
from kinema.studies.lab.platform import Platform
from kinema.studies.lab.recording import RecordedBatches
from kinema.studies.training_stages.design import Stage, StagesDesign
from kinema.studies.training_stages.rank_loop import AHEAD

_CALLS = {"open": "open64", "stat": "fstat", "close": "close"}
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Event:
    """An event in virtual time."""

    category: str
    name: str
    thread: int
    start: int
    end: int
    file: str
    args: dict[str, Any]


@dataclass
class _BatchInParts:
    """A batch that the threads of a rank share: parts that none has taken, and threads that have not ended theirs."""

    parts: Iterator[Sequence[Operation]]
    threads: int


@dataclass(eq=False)
class EmulatedStage:
    """A stage on an emulated cluster.

    Attributes
    ----------
    stage : Stage
    design : StagesDesign
    batches : RecordedBatches
        Operations of each rank for each batch.
    cpu : int
        CPU time of a sample in ns.
    window : int
        Batches of Kinema's loader that are read, ready or in use at a time.
    """

    stage: Stage
    design: StagesDesign
    batches: RecordedBatches
    cpu: int
    window: int

    def run(self, platform: Platform, n_nodes: int) -> EmulatedTrace:
        """The events of all ranks. Raises InternalError if a batch was not recorded."""
        for rank, found in enumerate(self.batches.ranks):
            steps = sorted(found)
            n_steps = len(steps) // self.design.epochs
            if steps != [(epoch, step) for epoch in range(self.design.epochs) for step in range(n_steps)]:
                raise InternalError(f"{self.stage.name}: rank {rank} has recorded the batches {steps}")
        n_ranks, lanes = len(self.batches.ranks), 1 + self.design.workers
        nodes = place_ranks(n_ranks, n_nodes)
        machine = EmulatedMachine(platform, [node for node in nodes for _ in range(lanes)])
        ranks = _EmulatedRanks(self, machine, nodes)
        machine.run(ranks.program)
        hosts = [f"emulated-{platform.name}-{node}" for node in nodes]
        return EmulatedTrace(f"{self.stage.name} on the platform {platform.name}", hosts, ranks.events)


@dataclass(eq=False)
class EmulatedTrace:
    """The events of the ranks of a stage, as a trace."""

    command: str
    hosts: Sequence[str]
    events: Sequence[Sequence[_Event]]

    def write(self, folder: str) -> None:
        """Writes a trace file for each rank."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for rank, (host, events) in enumerate(zip(self.hosts, self.events, strict=True)):

            def write(out: Any, rank: int = rank, host: str = host, events: Sequence[_Event] = events) -> None:
                writer = TraceWriter(out, host, f"emulated: {self.command}", "kinema", rank=str(rank))
                for one in sorted(events, key=lambda event: event.start):
                    files = {"fhash": writer.hash_of(one.file, rank)} if one.file else {}
                    writer.add(
                        one.category, one.name, rank, one.thread, one.start, one.end - one.start, files | one.args
                    )
                writer.finish()

            write_whole(place / f"kinema-{host}-{rank}.pfw", write)


@dataclass(eq=False)
class _EmulatedRanks:
    """Loops and threads of all ranks; process 0 of a rank is its loop."""

    emulated: EmulatedStage
    machine: EmulatedMachine
    nodes: Sequence[int]
    events: list[list[_Event]] = field(init=False)

    def __post_init__(self) -> None:
        batches = self.emulated.batches
        self.events = [[] for _ in batches.ranks]
        self._queues = [iter(sorted(found)) for found in batches.ranks]
        self._shared: list[dict[tuple[int, int], _BatchInParts]] = [{} for _ in batches.ranks]
        # blocks of the node cache that a rank of the node fetches or has fetched
        self._fetched: set[tuple[int, str, int]] = set()

    def program(self, number: int) -> Iterator[Operation]:
        """The operations of a process."""
        rank, lane = divmod(number, 1 + self.emulated.design.workers)
        if lane == 0:
            return self._trained(rank)
        return self._shared_batches(rank, lane) if self.emulated.stage.loop == "Kinema" else self._own(rank, lane)

    def _add(
        self, rank: int, lane: int, category: str, name: str, start: int, file: StoredFile | None = None, **args: int
    ) -> None:
        """Records an event that ends now."""
        path = "" if file is None else file.name
        self.events[rank].append(_Event(category, name, lane, start, self.machine.time.now, path, args))

    # -- the loop that trains ------------------------------------------------------------------------------------------

    def _trained(self, rank: int) -> Iterator[Operation]:
        time, step_ns = self.machine.time, round(self.emulated.design.step * _SECOND)
        for epoch, step in sorted(self.emulated.batches.ranks[rank]):
            began = time.now
            yield Await(f"{rank} has read {epoch} {step}")
            self._add(rank, 0, "dataloader", "fetch.iter", began, epoch=epoch, step=step)
            began = time.now
            yield Pause(step_ns)
            self._add(rank, 0, "pipeline", "train.step", began, epoch=epoch, step=step)
            yield Announce(f"{rank} has trained {epoch} {step}")

    def _room(self, rank: int, epoch: int, step: int) -> Iterator[Operation]:
        """Waits until a batch may be read: there are limits to what is read ahead."""
        n_steps = len(self.emulated.batches.ranks[rank]) // self.emulated.design.epochs
        if self.emulated.stage.loop == "Kinema":
            # epochs follow each other
            before = divmod(epoch * n_steps + step - self.emulated.window, n_steps)
        else:
            # a pool of threads is filled again in each epoch
            before = (epoch, step - AHEAD * self.emulated.design.workers - 1)
            before = before if before[1] >= 0 else (epoch - 1, n_steps - 1)
        if before[0] >= 0:
            yield Await(f"{rank} has trained {before[0]} {before[1]}")

    # -- NumPy and h5py: a batch on each thread ------------------------------------------------------------------------

    def _own(self, rank: int, lane: int) -> Iterator[Operation]:
        """A thread that reads batches, a sample after the other."""
        locked = self.emulated.stage.loop == "h5py"
        lock = f"{rank} {self.emulated.stage.loop}"
        for epoch, step in self._queues[rank]:
            yield from self._room(rank, epoch, step)
            began = self.machine.time.now
            for one in self.emulated.batches.ranks[rank][epoch, step]:
                if isinstance(one, Metadata) and one.what == "close":
                    if not locked:
                        yield Acquire(lock)
                    yield Compute(self.emulated.cpu, "decode")
                    yield Release(lock)
                yield from self._called(rank, lane, one)
                if isinstance(one, Metadata) and one.what == "stat" and locked:
                    yield Acquire(lock)
            self._add(rank, lane, "reader", "read", began, epoch=epoch, step=step)
            yield Announce(f"{rank} has read {epoch} {step}")

    def _called(self, rank: int, lane: int, one: Operation) -> Iterator[Operation]:
        """A call on a file, with its event."""
        began = self.machine.time.now
        yield one
        if isinstance(one, Metadata):
            self._add(rank, lane, "POSIX", _CALLS[one.what], began, one.file, ret=0)
        elif isinstance(one, ReadBytes):
            self._add(rank, lane, "POSIX", "pread64", began, one.file, offset=one.offset, count=one.size, ret=one.size)

    # -- Kinema: all threads read a batch, one batch after the other ---------------------------------------------------

    def _shared_batches(self, rank: int, lane: int) -> Iterator[Operation]:
        """A thread that takes parts of each batch."""
        previous = ""
        for epoch, step in sorted(self.emulated.batches.ranks[rank]):
            if previous:
                yield Await(previous)
            yield from self._room(rank, epoch, step)
            previous = f"{rank} has read {epoch} {step}"
            calls = self.emulated.batches.ranks[rank][epoch, step]
            batch = self._shared[rank].setdefault(
                (epoch, step), _BatchInParts(iter(_parts(calls)), self.emulated.design.workers)
            )
            n_bytes = sum(one.size for one in calls if isinstance(one, ReadBytes))
            for part in batch.parts:
                yield from self._part(rank, lane, part, n_bytes)
            batch.threads -= 1
            if not batch.threads:
                yield Announce(previous)

    def _part(self, rank: int, lane: int, part: Sequence[Operation], n_bytes: int) -> Iterator[Operation]:
        for one in part:
            began = self.machine.time.now
            if isinstance(one, ReadBytes):
                yield from self._fetched_block(rank, lane, one)
            yield from self._called(rank, lane, one)
            if isinstance(one, ReadBytes):
                self._add(rank, lane, "reader", "read", began, one.file, offset=one.offset, size=one.size)
                yield Compute(self.emulated.cpu * self.emulated.design.batch * one.size // n_bytes, "decode")

    def _fetched_block(self, rank: int, lane: int, one: ReadBytes) -> Iterator[Operation]:
        """Fetches the blocks of a read into the node's cache, if no rank of the node has begun to."""
        for offset, size in self.emulated.batches.blocks.get(one.file.name, ()):
            block = (self.nodes[rank], one.file.name, offset)
            if block in self._fetched or offset >= one.offset + one.size or offset + size <= one.offset:
                continue
            self._fetched.add(block)
            began = self.machine.time.now
            fetch = ReadBytes(one.file, offset, size, keep="node")
            yield from self._called(rank, lane, fetch)
            self._add(rank, lane, "cache", "cache.fetch", began, one.file, offset=offset, size=size)


def _parts(calls: Sequence[Operation]) -> list[list[Operation]]:
    """Calls that one thread makes without a break: opening a file and its first read, and each other read."""
    found: list[list[Operation]] = []
    for one in calls:
        opening = bool(found) and all(isinstance(before, Metadata) for before in found[-1])
        if opening or (isinstance(one, Metadata) and one.what == "close" and found):
            found[-1].append(one)
        else:
            found.append([one])
    return found
