"""Files in HDF5 whose chunks workers make: each reads, decodes and encodes runs of frames; one process commits them.

Runs have whole chunks if workers encode. The leading process commits the runs in order, so that the file has the same
bytes as one made by threads of one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as made_with
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import MemoryLimitError, UnsupportedFormatError
from kinema.base.resources import LEAST_MEMORY, default_memory
from kinema.files.conversion.content import FileContent, check_block, times_of
from kinema.files.conversion.source_frames import SourceFrames
from kinema.formats.frame_sink import FrameSink, StoredFrames
from kinema.formats.given_frames import EncodedRows, FrameArrays, check_numbers_kept
from kinema.formats.hdf5.encoding import ChunkEncoder
from kinema.model.frame import WORKING_MEMORY, frame_bytes
from kinema.model.selection.frames import FrameSelection
from kinema.model.snapshot import SentTrajectory, TrajectorySnapshot
from kinema.runners.calls import CallValues
from kinema.runners.workers import CallWorkers

# bytes of a run's values: small enough that a worker soon gets its next run, and that little is lost with a run
_RUN_BYTES = 8 << 20
# least number of runs per worker, if there are enough frames
_RUNS = 4
# runs per worker that are started but not committed
_AHEAD = 3


@dataclass(frozen=True, eq=False)
class MadeFrames:
    """Frames that a worker has made.

    Attributes
    ----------
    frames : StoredFrames, or FrameArrays if the worker gives values
    seconds : by phase
    faults : oddities of the frames that the worker has read so far
    """

    frames: StoredFrames | FrameArrays
    seconds: Mapping[str, float]
    faults: Sequence[_core.FrameFault] = ()


def read_block(
    core: _core.Trajectory,
    frames: FrameSelection,
    atoms: NDArray[np.uint32] | None,
    stored: FileContent,
    *,
    workers: int,
    memory: int,
    timings: list[_core.RunTimings],
) -> dict[str, NDArray[Any]]:
    """The frames in the units and type of the file, each with its `present` mask.

    Raises UnsupportedFormatError if a float64 value is infinite in the file's type.
    """
    options: dict[str, Any] = {
        "atoms": atoms,
        "fields": stored.fields,
        "scales": stored.scales,
        "workers": workers,
        "memory": memory,
        "mark_absent": True,
    }
    found = core.read(frames, dtype=stored.dtype, timings=timings, **options)
    wide = {field for part in core.parts() for field in part["wide_fields"]} if stored.dtype == "float32" else set()
    for field in wide & set(stored.fields):
        for row in np.flatnonzero(np.isinf(found[field]).any(axis=(1, 2))).tolist():
            # rare: check whether the value is infinite in the source
            exact = core.read(frames[row : row + 1], dtype="float64", **options)[field]
            try:
                check_numbers_kept(field, exact, float(np.finfo(np.float32).max), first=frames[row])
            except UnsupportedFormatError as error:
                what = f"{stored.format}, source {error}"
                raise UnsupportedFormatError(what, format=stored.format, frame=error.frame) from None
    return found


def given_frames(stored: FileContent, arrays: Mapping[str, NDArray[Any]]) -> FrameArrays:
    """The arrays of `read_block` as frames of the file."""
    return FrameArrays(
        {field: arrays[field] for field in stored.fields},
        arrays["cells"] if stored.has_cells else None,
        arrays["steps"] if stored.steps else None,
        times_of(stored, arrays["times"]) if stored.times else None,
    )


def as_stored(frames: FrameArrays, first: int, *chunks: Mapping[str, EncodedRows]) -> StoredFrames:
    """The frames of the file from row `first` on, without their values."""
    kinds = {field: values.dtype for field, values in frames.fields.items()}
    not_finite = frames.first_not_finite
    return StoredFrames(
        len(frames),
        kinds,
        frames.cells,
        frames.steps,
        frames.times,
        chunks,
        None if not_finite is None else first + not_finite,
    )


def phase_seconds(reads: list[_core.RunTimings]) -> dict[str, float]:
    """Seconds of all readers by phase."""
    workers = [worker for read in reads for worker in read["workers"]]
    return {
        "open": sum(worker["open"] for worker in workers),
        "io": sum(worker["io"] for worker in workers),
        "decode": sum(worker["decode"] for worker in workers),
        "wait": sum(worker["wait"] for worker in workers),
    }


@dataclass(frozen=True)
class _MakeRuns:
    """Makes runs of frames on a worker; it is sent once and opens the trajectory once."""

    trajectory: SentTrajectory
    frames: FrameSelection
    atoms: NDArray[np.uint32] | None
    stored: FileContent
    encoders: dict[str, ChunkEncoder] | None
    name: str
    threads: int
    memory: int

    unpickled_once = True

    @staticmethod
    def describe(run: tuple[int, int]) -> str:
        """See `Runner.map`."""
        return f"frames {run[0]} to {run[1] - 1} of the output"

    def __call__(self, run: tuple[int, int]) -> MadeFrames:
        """The frames in rows `run` of the file."""
        first, stop = run
        reads: list[_core.RunTimings] = []
        core, stored, limits = self.trajectory.get(), self.stored, {"workers": self.threads, "memory": self.memory}
        arrays = read_block(core, self.frames[first:stop], self.atoms, stored, **limits, timings=reads)
        check_block(self.frames, stored, arrays["present"], first, self.name)
        given = given_frames(stored, arrays)
        made: StoredFrames | FrameArrays = given
        begun = time.perf_counter()
        if self.encoders is not None:
            chunks = {
                field: self.encoders[field].encoded(values, first, workers=self.threads)
                for field, values in given.fields.items()
            }
            made = as_stored(given, first, chunks)
        seconds = phase_seconds(reads)
        seconds["encode"] = time.perf_counter() - begun
        return MadeFrames(made, seconds, core.frame_faults())


def write_from_workers(
    sink: FrameSink,
    source: SourceFrames,
    stored: FileContent,
    by: CallWorkers,
    name: str,
    *,
    encode: bool,
    run: int,
    in_runs: bool,
    memory: int,
    taken: Callable[[], None],
) -> dict[str, float]:
    """Gives a sink all frames after those it already has; returns seconds by phase, summed over the workers.

    `encode`: whether workers encode chunks; otherwise they give values.
    `run`: frames that threads of one process would give it at a time.
    `in_runs`: give the sink as many frames at a time, so that the file has the same bytes.
    `memory`: in bytes; 0: the default.
    `taken`: called after frames were given.
    """
    first = sink.n_frames
    encoders = sink.begin(first_frame(source, stored))
    workers = by.n_workers
    needed = frame_bytes(source.n_atoms, len(stored.fields), np.dtype(stored.dtype).itemsize)
    rows = max(encoder.chunk_rows for encoder in encoders.values())
    chunked = all(encoder.storage.chunks is not None for encoder in encoders.values())
    # a chunk of many frames is made by one worker; if such chunks are few, all workers read the values instead
    encodes = encode and chunked and (len(source) - first) // rows >= min(2, workers)
    unit = rows if encodes else run
    length = _run_length(len(source) - first, unit, needed, workers)
    ahead = _ahead(workers, length * needed, memory)
    edge = first - first % unit
    bounds = [first, *range(edge + length, len(source), length), len(source)]
    runs = [(a, b) for a, b in pairwise(bounds) if a < b]
    sent = SentTrajectory(*TrajectorySnapshot.take(source.trajectory.core, absolute=True))
    function = _MakeRuns(
        sent, source.frames, source.atoms, stored, dict(encoders) if encodes else None, name,
        by.runner.threads_per_worker, WORKING_MEMORY + needed,
    )  # fmt: skip
    commits = _Commits(sink, run if in_runs else None, taken)
    by.runner.call_each(function, runs, CallValues(len(runs), None, commits.receive, ahead), workers=workers)
    commits.finish()
    source.trajectory.core.add_frame_faults(sorted(commits.faults))
    return commits.seconds


def first_frame(source: SourceFrames, stored: FileContent) -> FrameArrays:
    """The first frame; data sets are created from it."""
    arrays = read_block(
        source.trajectory.core, source.frames[:1], source.atoms, stored, workers=1, memory=0, timings=[]
    )
    return given_frames(stored, arrays)


def _run_length(n_frames: int, unit: int, needed: int, workers: int) -> int:
    """Frames in a run: whole units, fewer if there would not be enough runs for all workers."""
    units = min(_RUN_BYTES // (unit * needed), n_frames // (unit * _RUNS * workers))
    return unit * max(1, units)


def _ahead(workers: int, run_bytes: int, memory: int) -> int:
    """Number of runs started but not committed; raises MemoryLimitError if memory cannot hold one for each worker."""
    total = memory or max(default_memory(), LEAST_MEMORY * workers)
    # a run being made: its values, the reader's buffers, encoded and sent bytes; a waiting run: its encoded bytes
    making = workers * (4 * run_bytes + WORKING_MEMORY)
    ahead = min(_AHEAD * workers, (total - making) // run_bytes)
    if ahead < workers:
        raise MemoryLimitError(
            f"{workers} workers that make chunks of {run_bytes} bytes need {making + workers * run_bytes} bytes, "
            f"memory allows {total}; raise memory=, or ask for fewer workers or smaller chunks"
        )
    return int(ahead)


@dataclass
class _Commits:
    """Runs that have arrived, given to the sink in order."""

    sink: FrameSink
    run: int | None
    taken: Callable[[], None]
    seconds: dict[str, float] = made_with(default_factory=dict)
    faults: set[_core.FrameFault] = made_with(default_factory=set)
    _waiting: dict[int, MadeFrames] = made_with(default_factory=dict)
    _next: int = 0
    # less than a run
    _held: StoredFrames | None = None

    def receive(self, number: int, made: MadeFrames) -> None:
        """Takes a run, in any order."""
        add_seconds(self.seconds, made.seconds)
        self.faults.update(made.faults)
        self._waiting[number] = made
        while (following := self._waiting.pop(self._next, None)) is not None:
            self._next += 1
            if isinstance(following.frames, StoredFrames):
                self._give_stored(following.frames)
            else:
                self._give_rows(following.frames)

    def finish(self) -> None:
        """Gives the rest to the sink."""
        if self._held is not None:
            self.sink.stored(self._held)
            self.taken()

    def _give_stored(self, frames: StoredFrames) -> None:
        if self._held is not None:
            frames = StoredFrames.joined([self._held, frames])
        run = self.run or frames.n_frames
        while frames.n_frames >= run:
            first, frames = frames.cut(run)
            self.sink.stored(first)
            self.taken()
        self._held = frames if frames.n_frames else None

    def _give_rows(self, frames: FrameArrays) -> None:
        run = self.run or len(frames)
        for at in range(0, len(frames), run):
            self.sink.rows(frames[at : at + run])
            self.taken()


def add_seconds(total: dict[str, float], seconds: Mapping[str, float]) -> None:
    """Adds seconds by phase."""
    for phase, value in seconds.items():
        total[phase] = total.get(phase, 0.0) + value
