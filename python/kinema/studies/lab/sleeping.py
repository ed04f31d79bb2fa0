"""Programs of ranks as processes that sleep: the simulation is held against them.

Up to four processes of this machine read and write real files through the queues of a platform, whose state they share.
A queue is the throttle that limits sources in the core. Storage, links and requests of metadata take the time that the
platform says; computing is a sleep too, so processes need no cores of their own.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.parallel.placers import Data, FilePlacer, bytes_of
from kinema.studies.lab.machine import requests_of
from kinema.studies.lab.operations import (
    Barrier,
    Compute,
    Metadata,
    Operation,
    RankProgram,
    ReadBytes,
    StoredFile,
    WriteBytes,
)
from kinema.studies.lab.platform import Platform

MOST_SLEEPERS = 4
# queues count nanoseconds of service
_RATE = 1_000_000_000
_ALLOWED = (Barrier, Compute, Metadata, ReadBytes, WriteBytes)


class SleepingStorage:
    """Queues of a platform's storage, for one process on a node of its own.

    Processes with the same folder share the targets and the metadata server.
    """

    def __init__(self, platform: Platform, folder: Path, rank: int) -> None:
        self.platform = platform
        self._folder, self._rank = folder, rank
        self._queues: dict[str, _core.Throttle] = {}

    def ask_metadata(self) -> None:
        """Returns when the metadata server has answered."""
        time.sleep(self._reserve("metadata", self.platform.metadata_ns) + 2 * self._latency)

    @contextmanager
    def transfer(self, file: StoredFile, offset: int, size: int, *, write: bool) -> Iterator[None]:
        """The context in which real bytes are read or written; its end waits until the platform would have them.

        The platform's time begins before the real transfer, and passes during it.
        """
        began = time.perf_counter()
        service = self.platform.write_ns if write else self.platform.read_ns
        ready = 0.0
        for _, target, _, length in requests_of(self.platform, file, offset, size):
            ready = max(ready, self._reserve(f"target-{target}", self.platform.request_latency + service(length)))
        linked = self._reserve(f"link-{self._rank}", self.platform.link_ns(size))
        yield
        time.sleep(max(0.0, began + max(ready, linked) + 2 * self._latency - time.perf_counter()))

    @property
    def _latency(self) -> float:
        return self.platform.link_latency / _RATE

    def _reserve(self, name: str, ns: int) -> float:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _core.Throttle(_RATE, str(self._folder / name))
        return queue.reserve(ns)


class SleepingPlacer(FilePlacer):
    """A placer by pwrite whose writes take as long as those of a platform."""

    def __init__(self, path: str, name: str, storage: SleepingStorage, file: StoredFile) -> None:
        super().__init__(path, name)
        self._storage, self._file = storage, file

    def write_at(self, offset: int, data: Data) -> None:
        """Writes all bytes, and returns when the platform would have them."""
        with self._storage.transfer(self._file, offset, len(bytes_of(data)), write=True):
            super().write_at(offset, data)


def sleep_through(program: RankProgram, n_ranks: int, platform: Platform, folder: Path) -> float:
    """Runs a program as processes in a folder of their own, and returns the seconds of the slowest.

    Files that are read are made before, without contents.

    Raises ArgumentError for more than four processes, for operations that have no process (messages), and for platforms
    with seeks or locks.
    """
    if not 1 <= n_ranks <= MOST_SLEEPERS:
        raise ArgumentError(f"processes that sleep must be from 1 to {MOST_SLEEPERS}, found {n_ranks}")
    if platform.seek or platform.lock_bytes:
        raise ArgumentError(f"processes that sleep have no seeks and no locks, and {platform.name} has")
    ranks = [list(program(rank)) for rank in range(n_ranks)]
    for operation in (one for rank in ranks for one in rank):
        if not isinstance(operation, _ALLOWED):
            raise ArgumentError(f"processes that sleep send no messages, found {type(operation).__name__}")
        if isinstance(operation, (ReadBytes, WriteBytes)):
            with (folder / operation.file.name).open("ab") as file:
                file.truncate(operation.file.size)
    context = multiprocessing.get_context("spawn")
    barrier, seconds = context.Barrier(n_ranks), context.SimpleQueue()
    processes = [
        context.Process(target=_sleeper, args=(rank, operations, platform, str(folder), barrier, seconds))
        for rank, operations in enumerate(ranks)
    ]
    try:
        for process in processes:
            process.start()
        found = []
        for process in processes:
            process.join()
            if process.exitcode:
                raise ArgumentError(f"a process that sleeps failed (exit {process.exitcode})")
            found.append(seconds.get())
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    return float(max(found))


def _sleeper(
    rank: int, operations: Sequence[Operation], platform: Platform, folder: str, barrier: Any, seconds: Any
) -> None:
    storage = SleepingStorage(platform, Path(folder), rank)
    placers: dict[str, SleepingPlacer] = {}
    handles: dict[str, int] = {}
    barrier.wait()
    began = time.perf_counter()
    for one in operations:
        if isinstance(one, Compute):
            time.sleep(one.ns / _RATE)
        elif isinstance(one, Metadata):
            storage.ask_metadata()
        elif isinstance(one, Barrier):
            barrier.wait()
        elif isinstance(one, ReadBytes):
            name = one.file.name
            handle = handles.get(name)
            if handle is None:
                handle = handles[name] = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_CLOEXEC)
            with storage.transfer(one.file, one.offset, one.size, write=False):
                os.pread(handle, one.size, one.offset)
        elif isinstance(one, WriteBytes):
            name = one.file.name
            if name not in placers:
                placers[name] = SleepingPlacer(os.path.join(folder, name), name, storage, one.file)
            placers[name].write_at(one.offset, bytes(one.size))
    seconds.put(time.perf_counter() - began)
