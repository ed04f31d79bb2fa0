"""Files in HDF5 whose chunks workers make: each reads, decodes and encodes runs of frames; one process commits.

Runs are of whole chunks where workers encode. The process that leads takes them in their order, so that the file has
the bytes that threads of one process give it.
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
from kinema.formats.given_frames import FrameArrays, check_numbers_kept
from kinema.formats.h5md.write.encoding import ChunkEncoder
from kinema.formats.hdf5_writer import Hdf5Writer
from kinema.model.frame import WORKING_MEMORY, frame_bytes
from kinema.model.selection.frames import FrameSelection
from kinema.model.snapshot import SentTrajectory, TrajectorySnapshot
from kinema.runners.calls import CallValues
from kinema.runners.workers import CallWorkers

__all__ = ["MadeRun", "first_frame", "phase_seconds", "read_block", "write_from_workers"]

# bytes of the values of a run: a worker does not wait long for the next, and what was not received is little
_RUN_BYTES = 8 << 20
# runs that a worker gets at the least, where there are frames enough
_RUNS = 4
# runs that are begun and not committed, for each worker
_AHEAD = 3


@dataclass(frozen=True, eq=False)
class MadeRun:
    """A run of frames as a worker has made it.

    Attributes
    ----------
    fields : {"positions": EncodedRows, or (frames, atoms, 3), ...}
    cells, steps, times : (frames, ...) or None
    not_finite : the first row of the run with a position that is no number, or None
    seconds : of its phases
    faults : what was odd about frames that the worker has read so far
    """

    n_frames: int
    fields: dict[str, Any]
    cells: NDArray[Any] | None
    steps: NDArray[np.int64] | None
    times: NDArray[np.float64] | None
    not_finite: int | None
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
    """Frames in the units and the type of the file, with what is present of each.

    UnsupportedFormatError for numbers of float64 that are infinite in the type of the file.
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
            # rare: whether it is infinite in the source
            exact = core.read(frames[row : row + 1], dtype="float64", **options)[field]
            try:
                check_numbers_kept(field, exact, float(np.finfo(np.float32).max), first=frames[row])
            except UnsupportedFormatError as error:
                what = f"{stored.format}, source {error}"
                raise UnsupportedFormatError(what, format=stored.format, frame=error.frame) from None
    return found


def phase_seconds(reads: list[_core.RunTimings]) -> dict[str, float]:
    """Seconds of all readers by phase."""
    workers = [worker for read in reads for worker in read["workers"]]
    return {
        "open": sum(worker["open"] for worker in workers),
        "io": sum(worker["io"] for worker in workers),
        "decode": sum(worker["decode"] for worker in workers),
        "wait": sum(worker["wait"] for worker in workers),
    }


class _MakeRuns:
    """Makes runs of frames on a worker, which is sent this once and opens the trajectory once."""

    unpickled_once = True

    def __init__(
        self,
        trajectory: SentTrajectory,
        frames: FrameSelection,
        atoms: NDArray[np.uint32] | None,
        stored: FileContent,
        encoders: dict[str, ChunkEncoder] | None,
        name: str,
        threads: int,
        memory: int,
    ) -> None:
        self._content = (trajectory, frames, atoms, stored, encoders, name, threads, memory)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._content

    @staticmethod
    def describe(run: tuple[int, int]) -> str:
        """See `Runner.map`."""
        return f"frames {run[0]} to {run[1] - 1} of the output"

    def __call__(self, run: tuple[int, int]) -> MadeRun:
        """The frames in rows `run` of the file."""
        trajectory, frames, atoms, stored, encoders, name, threads, memory = self._content
        first, stop = run
        reads: list[_core.RunTimings] = []
        chosen = frames[first:stop]
        core = trajectory.get()
        arrays = read_block(core, chosen, atoms, stored, workers=threads, memory=memory, timings=reads)
        check_block(frames, stored, arrays["present"], first, name)
        fields: dict[str, Any] = {field: arrays[field] for field in stored.fields}
        positions = {field: fields[field] for field in stored.fields if field == "positions"}
        not_finite = FrameArrays(positions, None, None, None).first_not_finite if positions else None
        begun = time.perf_counter()
        if encoders is not None:
            fields = {field: encoders[field].encoded(fields[field], first, workers=threads) for field in fields}
        seconds = phase_seconds(reads)
        seconds["encode"] = time.perf_counter() - begun
        return MadeRun(
            stop - first,
            fields,
            arrays["cells"] if stored.has_cells else None,
            arrays["steps"] if stored.steps else None,
            times_of(stored, arrays["times"]) if stored.times else None,
            not_finite,
            seconds,
            core.frame_faults(),
        )


def write_from_workers(
    writer: Hdf5Writer,
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
    """Gives a writer all frames behind those that it has; returns seconds of phases, of all workers.

    Parameters
    ----------
    encode : bool
        Whether workers encode chunks; otherwise they give values.
    run : int
        Frames that threads of one process would give it at a time.
    in_runs : bool
        Give it as many: then the file has the same bytes.
    memory : int
        Bytes; 0: the default.
    taken : function
        Called when frames were given.
    """
    first = writer.n_frames
    encoders = writer.encoders(first_frame(source, stored))
    workers = by.n_workers
    needed = frame_bytes(source.n_atoms, len(stored.fields), np.dtype(stored.dtype).itemsize)
    rows = max(encoder.chunk_rows for encoder in encoders.values())
    chunked = all(encoder.storage.chunks is not None for encoder in encoders.values())
    # a chunk of many frames is made by one worker, and then there are few: their values are read by all of them
    encodes = encode and chunked and (len(source) - first) // rows >= min(2, workers)
    unit = rows if encodes else run
    length = _run_length(len(source) - first, unit, needed, workers)
    ahead = _ahead(workers, length * needed, memory)
    edge = first - first % unit
    bounds = [first, *range(edge + length, len(source), length), len(source)]
    runs = [(a, b) for a, b in pairwise(bounds) if a < b]
    sent = SentTrajectory(*TrajectorySnapshot.of(source.trajectory.core, absolute=True))
    function = _MakeRuns(
        sent, source.frames, source.atoms, stored, dict(encoders) if encodes else None, name,
        by.runner.threads_per_worker, WORKING_MEMORY + needed,
    )  # fmt: skip
    commits = _Commits(writer, encoders if encodes else None, run if in_runs else None, taken)
    by.runner.call_each(function, runs, CallValues(len(runs), None, commits.receive, ahead), workers=workers)
    commits.finish()
    source.trajectory.core.add_frame_faults(sorted(commits.faults))
    return commits.seconds


def first_frame(source: SourceFrames, stored: FileContent) -> FrameArrays:
    """The first frame, by which data sets are made."""
    arrays = read_block(
        source.trajectory.core, source.frames[:1], source.atoms, stored, workers=1, memory=0, timings=[]
    )
    return FrameArrays(
        {field: arrays[field] for field in stored.fields},
        arrays["cells"] if stored.has_cells else None,
        arrays["steps"] if stored.steps else None,
        times_of(stored, arrays["times"]) if stored.times else None,
    )


def _run_length(n_frames: int, unit: int, needed: int, workers: int) -> int:
    """Frames of a run: whole units, fewer where there would not be enough runs for all workers."""
    units = min(_RUN_BYTES // (unit * needed), n_frames // (unit * _RUNS * workers))
    return unit * max(1, units)


def _ahead(workers: int, run_bytes: int, memory: int) -> int:
    """Runs that are begun and not committed; MemoryLimitError where memory is too little for one of each worker."""
    total = memory or max(default_memory(), LEAST_MEMORY * workers)
    # a run that is made: values, what they are read with, encoded, and sent; one that waits: encoded
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
    """Runs that have come, given to the writer in their order."""

    writer: Hdf5Writer
    encoders: Mapping[str, ChunkEncoder] | None
    run: int | None
    taken: Callable[[], None]
    seconds: dict[str, float] = made_with(default_factory=dict)
    faults: set[_core.FrameFault] = made_with(default_factory=set)
    _waiting: dict[int, MadeRun] = made_with(default_factory=dict)
    _next: int = 0
    _held: list[MadeRun] = made_with(default_factory=list)
    _kinds: dict[str, np.dtype[Any]] = made_with(default_factory=dict)

    def receive(self, number: int, made: MadeRun) -> None:
        """Takes one, in any order."""
        for phase, value in made.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + value
        self.faults.update(made.faults)
        self._waiting[number] = made
        while (following := self._waiting.pop(self._next, None)) is not None:
            self._next += 1
            self._commit(following)

    def finish(self) -> None:
        """Gives what is left."""
        self._write(sum(made.n_frames for made in self._held))

    def _commit(self, made: MadeRun) -> None:
        if self.encoders is None:
            self._write_plain(made)
            return
        self.writer.announce(made.fields, made.not_finite)
        self._kinds = {field: rows.dtype for field, rows in made.fields.items()}
        self._held.append(made)
        held = sum(one.n_frames for one in self._held)
        run = self.run or held
        self._write(held - held % run)

    def _write(self, n_frames: int) -> None:
        """Gives so many frames of those that were announced."""
        if not n_frames:
            return
        parts = self._held
        joined = {
            name: None if getattr(parts[0], name) is None else np.concatenate([getattr(one, name) for one in parts])
            for name in ("cells", "steps", "times")
        }
        total = sum(one.n_frames for one in parts)
        run = self.run or n_frames
        for at in range(0, n_frames, run):
            rows = slice(at, min(at + run, n_frames))
            stamps = {name: None if values is None else values[rows] for name, values in joined.items()}
            self.writer.write_announced(rows.stop - at, self._kinds, **stamps)
            self.taken()
        rest = {name: None if values is None else values[n_frames:] for name, values in joined.items()}
        left = MadeRun(total - n_frames, {}, rest["cells"], rest["steps"], rest["times"], None, {})
        self._held = [left] if left.n_frames else []

    def _write_plain(self, made: MadeRun) -> None:
        run = self.run or made.n_frames
        for at in range(0, made.n_frames, run):
            rows = slice(at, at + run)
            values = {field: made.fields[field][rows] for field in made.fields}
            stamps = {"cell": made.cells, "step": made.steps, "time": made.times}
            self.writer.write(
                **values, **{name: None if column is None else column[rows] for name, column in stamps.items()}
            )
            self.taken()
