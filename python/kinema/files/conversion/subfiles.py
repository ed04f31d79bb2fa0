"""The strategy "subfiles" with frames over workers: each makes an H5MD file of its frames; a virtual H5MD joins them.

The file on top holds steps, times, cells and atoms; the leading process makes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.files.conversion.content import FileContent, check_block
from kinema.files.conversion.encoded_blocks import (
    MadeFrames,
    add_seconds,
    as_stored,
    first_frame,
    given_frames,
    phase_seconds,
    read_block,
)
from kinema.files.conversion.source_frames import SourceFrames
from kinema.formats.frame_sink import StoredFrames
from kinema.formats.h5md.write.virtual_fields import SubfileNames, VirtualPart, make_fields_virtual
from kinema.formats.h5md.writer import H5mdWriter
from kinema.model.frame import WORKING_MEMORY, frame_bytes
from kinema.model.selection.frames import FrameSelection
from kinema.model.snapshot import SentTrajectory, TrajectorySnapshot
from kinema.runners.workers import CallWorkers

# bytes of frame values that are read at a time
_BLOCK_BYTES = 8 << 20
_OF_ALL = ("atoms", "provenance", "n_frames")


@dataclass(frozen=True)
class _WritePart:
    """Writes the file of some frames on a worker; it is sent once."""

    trajectory: SentTrajectory
    frames: FrameSelection
    atoms: NDArray[np.uint32] | None
    stored: FileContent
    given: Mapping[str, Any]
    names: SubfileNames
    name: str
    n_atoms: int
    threads: int

    unpickled_once = True

    @staticmethod
    def describe(part: tuple[int, int, int]) -> str:
        """See `Runner.map`."""
        return f"frames {part[1]} to {part[2] - 1} of the output"

    def __call__(self, part: tuple[int, int, int]) -> MadeFrames:
        """Writes rows `start` to `stop` as part `number`; returns the frames without their values."""
        number, start, stop = part
        core, stored = self.trajectory.get(), self.stored
        needed = frame_bytes(self.n_atoms, len(stored.fields), np.dtype(stored.dtype).itemsize)
        length, reads = max(1, _BLOCK_BYTES // needed), []  # type: tuple[int, list[Any]]
        limits = {"workers": self.threads, "memory": WORKING_MEMORY + needed}
        made: list[StoredFrames] = []
        path = self.names.subfile_path(number)
        with H5mdWriter(path, self.n_atoms, workers=self.threads, keep_partial=False, **self.given) as writer:
            for first in range(start, stop, length):
                chosen = self.frames[first : min(first + length, stop)]
                arrays = read_block(core, chosen, self.atoms, stored, **limits, timings=reads)
                check_block(self.frames, stored, arrays["present"], first, self.name)
                block = given_frames(stored, arrays)
                writer.rows(block)
                made.append(as_stored(block, first))
        return MadeFrames(StoredFrames.joined(made), phase_seconds(reads), core.frame_faults())


@dataclass(frozen=True)
class SubfilesMade:
    """Totals of the files made: seconds of all workers by phase, bytes of all files."""

    seconds: dict[str, float]
    size: int


def write_subfiles(
    source: SourceFrames,
    stored: FileContent,
    by: CallWorkers,
    name: str,
    given: Mapping[str, Any],
    *,
    losses: tuple[str, ...],
    check: Callable[[str], object],
    taken: Callable[[int], None],
) -> SubfilesMade:
    """Writes all frames; `check` is called with the temporary name of the file on top, `taken` with the frames done.

    Raises as `kinema.convert`; after an error no file stays.
    """
    names = SubfileNames(os.path.abspath(name))
    bounds = np.linspace(0, len(source), min(by.n_workers, len(source)) + 1).astype(np.int64).tolist()
    parts = [(number, bounds[number], bounds[number + 1]) for number in range(len(bounds) - 1)]
    sent = SentTrajectory(*TrajectorySnapshot.take(source.trajectory.core, absolute=True))
    of_part = {key: value for key, value in given.items() if key not in (*_OF_ALL, "workers")}
    function = _WritePart(
        sent, source.frames, source.atoms, stored, of_part, names, name, source.n_atoms,
        by.runner.threads_per_worker,
    )  # fmt: skip
    made: dict[int, MadeFrames] = {}

    def receive(number: int, part: MadeFrames) -> None:
        made[number] = part
        taken(sum(parts[one][2] - parts[one][1] for one in made))

    names.make_folder()
    try:
        with H5mdWriter(name, source.n_atoms, overwrite=True, keep_partial=False, **given) as writer:
            writer.losses = losses
            encoders = writer.begin(first_frame(source, stored))
            writer.leave_fields()
            by.runner.map(function, parts, workers=by.n_workers, receive=receive)
            for number, _, _ in parts:
                frames = made[number].frames
                assert isinstance(frames, StoredFrames)
                writer.stored(frames)
            source.trajectory.core.add_frame_faults(sorted({fault for one in made.values() for fault in one.faults}))
            virtual = [
                VirtualPart(names.relative(number), start, stop - start, [(0, source.n_atoms)])
                for number, start, stop in parts
            ]
            kinds = {field: encoder.preparation.dtype for field, encoder in encoders.items()}

            def finish(path: str) -> None:
                make_fields_virtual(path, writer.particles, virtual, kinds)
                check(path)

            writer.finish(finish)
    except BaseException:
        names.remove(number for number, _, _ in parts)
        raise
    names.remove_others()
    return _result(made, [name, *(names.subfile_path(number) for number, _, _ in parts)])


def _result(made: Mapping[int, MadeFrames], paths: list[str]) -> SubfilesMade:
    seconds: dict[str, float] = {}
    for one in made.values():
        add_seconds(seconds, one.seconds)
    return SubfilesMade(seconds, sum(map(os.path.getsize, paths)))
