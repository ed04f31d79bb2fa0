"""Files of records that the workers of a runner make: workers encode runs of frames, and a strategy places the bytes.

Records of fixed size are written by the worker that made them. Others follow each other in order
(`Runner.write_in_order`). The leading process writes head, count and checkpoint, and gives the file its name.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import FileNotFound, MemoryLimitError
from kinema.base.progress import Report
from kinema.base.resources import LEAST_MEMORY, default_memory
from kinema.files.conversion.source_frames import SourceFrames
from kinema.formats.strategies import uses_mpiio
from kinema.model.snapshot import TrajectorySnapshot
from kinema.parallel.placers import FilePlacer, MpiPlacer
from kinema.runners.workers import CallWorkers
from kinema.storage.output_file import machine

if TYPE_CHECKING:
    from mpi4py import MPI

# encoded bytes in flight, of all workers
_WINDOW = 64 << 20
# least number of pieces per worker, if there are enough frames
_PIECES = 4

# positions [start, stop) of the frames
Run = tuple[int, int]


@dataclass(frozen=True, eq=False)
class EncoderRecipe:
    """Arguments to rebuild a file's encoder on a worker: a snapshot of the source, arguments of `_core.Encoder`."""

    snapshot: TrajectorySnapshot
    data: NDArray[np.uint8]
    arguments: Mapping[str, Any]

    @classmethod
    def from_source(cls, source: SourceFrames, arguments: Mapping[str, Any]) -> EncoderRecipe:
        """The recipe for frames of a trajectory that has been scanned."""
        # workers may have other working folders
        return cls(*TrajectorySnapshot.take(source.trajectory.core, absolute=True), arguments)

    def made(self) -> tuple[_core.Trajectory, _core.Encoder]:
        """The trajectory, opened without touching a file, and its encoder, which reads the cells of three frames."""
        trajectory = self.snapshot.open(self.data)
        return trajectory, _core.Encoder(trajectory, **self.arguments)


@dataclass(frozen=True)
class _SharedFile:
    """The file as workers see it: its whole path, its name in messages, host and boot of the leading process."""

    path: str
    name: str
    leader: tuple[str, str]

    @property
    def is_far(self) -> bool:
        """Whether the leading process cannot sync what is written here."""
        return machine() != self.leader

    def check(self) -> None:
        """Raises FileNotFound if this worker does not see the file."""
        if not os.path.exists(self.path):
            raise FileNotFound(
                f"a worker on {machine()[0]} does not see the file that is written, {self.path}; workers "
                "must see the folder of the output under the same path",
                at=self.name,
            )

    def write_at(self, offset: int, data: Any) -> None:
        """Writes all bytes, from `offset` on."""
        self.check()
        placer = FilePlacer(self.path, self.name)
        try:
            placer.write_at(offset, data)
            if self.is_far:
                placer.sync()
        finally:
            placer.close()

    def sync_far(self) -> None:
        """Syncs everything written here to the storage, if the leading process cannot."""
        if self.is_far:
            placer = FilePlacer(self.path, self.name)
            try:
                placer.sync()
            finally:
                placer.close()


class _RunNote(NamedTuple):
    """A worker's record of a run: index entries of records that differ in size, seconds of phases, and oddities of the
    frames that the worker has read so far."""

    run_index: _core.RunIndex | None
    phases: Mapping[str, float]
    faults: Sequence[_core.FrameFault]


class _Runs:
    """Runs of frames on a worker; it is sent once and makes one encoder."""

    unpickled_once = True

    def __init__(self, recipe: EncoderRecipe, file: _SharedFile, memory: int, threads: int) -> None:
        self._content = (recipe, file, memory, threads)
        self._recipe, self._file = recipe, file
        self._limits = {"workers": threads, "memory": memory}
        self._lock = threading.Lock()
        self._made: tuple[_core.Trajectory, _core.Encoder] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._content

    @staticmethod
    def describe(run: Run) -> str:
        """See `Runner.map`."""
        return f"frames {run[0]} to {run[1] - 1} of the output"

    def made(self) -> tuple[_core.Trajectory, _core.Encoder]:
        """The trajectory and its encoder, made by the first call."""
        with self._lock:
            if self._made is None:
                self._made = self._recipe.made()
            return self._made


class _WriteRuns(_Runs):
    """Writes records of fixed size to their places."""

    def __call__(self, run: Run) -> _RunNote:
        """Writes a run."""
        self._file.check()
        file, (trajectory, encoder) = self._file, self.made()
        phases = encoder.write_run(file.path, file.name, *run, **self._limits, sync=file.is_far)
        return _RunNote(None, phases, trajectory.frame_faults())


class _EncodeRuns(_Runs):
    """Returns the bytes of records, with a note on them (`OrderedWork`)."""

    def __call__(self, run: Run) -> tuple[NDArray[np.uint8], _RunNote]:
        """Encodes a run."""
        trajectory, encoder = self.made()
        made = encoder.encode_run(self._file.name, *run, **self._limits)
        return made["bytes"], _RunNote(made["index"], made["phases"], trajectory.frame_faults())

    def place(self, offset: int, data: Any) -> None:
        """See `OrderedWork`."""
        self._file.write_at(offset, data)


class _EncodeThroughMpi(_EncodeRuns):
    """As `_EncodeRuns`, but placed through MPI-IO on the ranks of the MPI runner."""

    def __init__(
        self,
        recipe: EncoderRecipe,
        file: _SharedFile,
        memory: int,
        threads: int,
        *,
        is_collective: bool = False,
        info: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(recipe, file, memory, threads)
        self.is_collective, self._info = is_collective, info
        self._placer: MpiPlacer | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), is_collective=self.is_collective, info=self._info), self._content

    def open(self, comm: MPI.Intracomm) -> None:
        """Opens the file; collective."""
        self._file.check()
        file = self._file
        self._placer = MpiPlacer(comm, file.path, file.name, collective=self.is_collective, hints=self._info)

    def place(self, offset: int, data: Any) -> None:
        assert self._placer is not None
        self._placer.write_at(offset, data)
        self._file.sync_far()

    def close(self) -> None:
        """Syncs everything to the storage and closes the file; collective."""
        assert self._placer is not None
        try:
            self._placer.sync()
        finally:
            self._placer.close()


def write_on_workers(
    trajectory: _core.Trajectory,
    encoder: _core.Encoder,
    recipe: EncoderRecipe,
    on: CallWorkers,
    path: str,
    name: str,
    *,
    memory: int,
    progress: Report | None = None,
    commits: _core.Commits | None = None,
    resumed: tuple[int, int] | None = None,
) -> _core.Written:
    """As `Encoder.write` for frames of `trajectory`, on the workers of a runner. Raises as that and as `Runner.map`."""
    began = time.perf_counter()
    strategy, hints = on.chosen(encoder.format)
    limits = _limits(encoder, on, memory, direct=strategy == "direct" and encoder.record_bytes is not None)
    shared = _SharedFile(os.path.abspath(path), name, machine())
    commits = commits or _core.Commits()
    file = encoder.begin(path, name, commits=commits, resumed=resumed)
    done, offset = commits.committed()
    runs = encoder.pieces(done, min(hints.batch_bytes, limits.piece), _PIECES * limits.workers)
    taken = _TakenRuns(file, runs, len(recipe.arguments["frames"]), done, progress)
    share: tuple[EncoderRecipe, _SharedFile, int, int] = (recipe, shared, limits.memory, on.runner.threads_per_worker)
    if strategy == "direct" and encoder.record_bytes is not None:
        taken.record = encoder.record_bytes
        on.runner.map(_WriteRuns(*share), runs, workers=limits.workers, receive=taken.written)
    else:
        encode = _EncodeRuns(*share)
        if uses_mpiio(strategy):
            together = strategy == "mpiio-collective"
            encode = _EncodeThroughMpi(*share, is_collective=together, info=hints.info)
        on.runner.write_in_order(
            encode,
            runs,
            offset=offset,
            ahead=limits.ahead,
            received=taken.placed,
            gathered=strategy == "serial",
            workers=limits.workers,
        )
    trajectory.add_frame_faults(sorted(taken.faults))
    n_bytes, index = file.finish()
    wall = time.perf_counter() - began
    return {"bytes": n_bytes, "workers": limits.workers, "wall": wall, "phases": taken.phases, "index": index}


class _TakenRuns:
    """Runs that are in the file: counts them, reports them, and adds up their times."""

    def __init__(self, file: _core.FileOfRuns, runs: list[Run], total: int, done: int, progress: Report | None) -> None:
        self._file, self._runs, self._total, self._done, self._progress = file, runs, total, done, progress
        self.record = 0
        self.faults: set[_core.FrameFault] = set()
        self.phases: dict[str, float] = dict.fromkeys(("open", "io", "decode", "encode", "write", "wait"), 0.0)
        self._report()

    def written(self, number: int, note: _RunNote) -> None:
        """Counts a run of records of fixed size."""
        start, stop = self._runs[number]
        self._file.add(start, stop, (stop - start) * self.record)
        self._count(number, note)

    def placed(self, number: int, size: int, note: _RunNote) -> None:
        """Counts the next run in order."""
        self._file.add(*self._runs[number], size, note.run_index)
        self._count(number, note)

    def _count(self, number: int, note: _RunNote) -> None:
        for name, seconds in note.phases.items():
            self.phases[name] += seconds
        self.faults.update(note.faults)
        self._done += self._runs[number][1] - self._runs[number][0]
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total)


@dataclass(frozen=True)
class _Limits:
    """Limits that follow from memory: workers, bytes each may use to encode, bytes of a piece, pieces in flight."""

    workers: int
    memory: int
    piece: int
    ahead: int


def _limits(encoder: _core.Encoder, on: CallWorkers, memory: int, *, direct: bool) -> _Limits:
    """Raises MemoryLimitError with the smallest limit that would suffice, and as `Runner.concurrency`."""
    wanted = on.n_workers
    least, record = encoder.least_memory(), encoder.most_bytes
    total = memory or max(default_memory(), LEAST_MEMORY * wanted)

    def window(total: int, workers: int) -> int:
        """Bytes in flight with `workers` workers: each has at least one record."""
        return 0 if direct else max(min(_WINDOW, total // 4), workers * record)

    def share(total: int, workers: int) -> int:
        return (total - window(total, workers)) // workers

    workers = next((number for number in range(wanted, 0, -1) if share(total, number) >= least), 0)
    if not workers:
        most = 2 * least + 2 * record
        fits = least + bisect_left(range(least, most), least, key=lambda limit: share(limit, 1))
        raise MemoryLimitError(
            f"the memory limit is too small for one frame, expected at least {fits} bytes, found {total}"
        )
    if direct:
        return _Limits(workers, share(total, workers), _WINDOW, workers)
    piece = max(record, window(total, workers) // (2 * workers))
    return _Limits(workers, share(total, workers), piece, max(workers, window(total, workers) // piece))
