"""Jumps to the other side of the cell, counted in one pass over all frames on any runner, and kept for the next run.

Their sums are kept for every so many frames, the stations. A partial of the pass has its first and its last row, and is
merged with its neighbour by the jumps between them.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError, Error
from kinema.execution.computation import Computation, Pass, Passes, Results
from kinema.execution.run import run
from kinema.notes import emit
from kinema.runners.registry import runner_of
from kinema.selection.frames import FrameSelection
from kinema.stored.records import Record, RecordFolder
from kinema.transforms.order import ORDER

if TYPE_CHECKING:
    from kinema.selection.atoms import Selection
    from kinema.trajectory import Trajectory

__all__ = ["JumpCounts", "Jumps", "counted_jumps", "note_long_step", "spacing"]

# of the stations of all atoms
_STATION_BYTES = 64 << 20
# frames from one station to the next, at least: a run-up is decoded once more
_LEAST = 128
# of a reduced coordinate from frame to frame, where 1/2 is as far as can be known
_LONG_STEP = 0.4


class Jumps(NamedTuple):
    """Sums of jumps at the stations, every so many of the frames, and the frame with the longest step.

    `stations` are (stations, atoms, 3).
    """

    every: int
    stations: NDArray[np.int32]
    longest: float
    frame: int
    frames: FrameSelection


class JumpCounts(Computation):
    """The pass that counts jumps of some atoms between the frames of a run.

    After `run`: results.jumps, `Jumps`.
    """

    def __init__(self, trajectory: Trajectory, selection: Selection) -> None:
        super().__init__(trajectory, selection, {})

    def _passes(self, frames: FrameSelection) -> Passes:
        n_atoms = self.trajectory.n_atoms
        atoms = self.selection.indices
        every = spacing(len(frames), len(atoms))
        stations = frames[::every].numbers()
        if int(stations[-1]) >= 1 << 32:
            raise ArgumentError(f"jumps are counted in files of up to {1 << 32} frames")
        tracked = {} if len(atoms) == n_atoms else {"atoms": atoms}
        kernel = _core.Kernel("jumps", n_atoms, stations=stations.astype(np.uint32), **tracked)
        found = yield Pass(kernel)
        sums = found["stations"].view(np.int32)
        return Results(jumps=Jumps(every, sums, float(found["longest"][0]), int(found["longest_frame"][0]), frames))


def spacing(n_frames: int, n_atoms: int) -> int:
    """Frames from station to station, a power of two."""
    most = max(1, _STATION_BYTES // (12 * max(1, n_atoms)))
    every = _LEAST
    while -(-n_frames // every) > most:
        every *= 2
    return every


def note_long_step(trajectory: Trajectory, longest: float, frame: int) -> None:
    """Emits a note where the longest step, in edges of the cell, is nearly as long as can be known."""
    if longest > _LONG_STEP:
        emit(
            [
                f"{trajectory.paths[0]}: an atom moves by {longest:.2f} of the cell in one step, to frame {frame}; "
                "beyond 0.5 a jump cannot be told from motion, as frames lie too far apart"
            ]
        )


def counted_jumps(trajectory: Trajectory, selection: Selection, options: Mapping[str, Any]) -> Jumps:
    """The jumps of atoms, ascending, between all frames of a trajectory: those that were kept, or counted by a run.

    `options` are arguments of `kinema.run`. With MPI all ranks call it, and all get them.
    """
    runner, others = runner_of(options)
    return runner.on_root_for_all(lambda: _stored_or_counted(trajectory, selection, {**others, "runner": runner}))


def _stored_or_counted(trajectory: Trajectory, selection: Selection, options: Mapping[str, Any]) -> Jumps:
    core = trajectory.core
    trajectory.scan(search=options["runner"].find_frames, skip_damaged=options.get("skip_damaged", False))
    if not trajectory.n_frames:
        raise ArgumentError("there are no frames whose jumps could be counted")

    def counted() -> Jumps:
        (done,) = run([JumpCounts(trajectory, selection)], **options)
        jumps: Jumps = done.results.jumps
        return jumps

    folder = RecordFolder("jumps", core.index)
    frames = trajectory.choose()
    # of what is damaged it is not known beforehand which frames it leaves
    keeps = folder.stores and not options.get("skip_damaged", False)
    named = _named(core, selection, frames) if keeps else None
    if named is None:
        return counted()
    name, identity, facts = named
    record, why_not = folder.load(name, identity, facts)
    if record is not None:
        try:
            return _jumps_of(record, len(selection.indices), frames)
        except (KeyError, TypeError, ValueError) as error:
            why_not = str(error)
    if why_not:
        emit([f"{core.paths[0]}: the stored jumps were not used, and are counted again: {why_not}"])
    jumps = counted()
    again = _named(core, selection, frames)
    if again is not None and again[2] == facts and identity.is_unchanged(again[1]):
        values = {"every": jumps.every, "longest": jumps.longest, "frame": jumps.frame}
        sums = {"stations": jumps.stations.reshape(-1).view(np.uint32)}
        why_not = folder.store(name, identity, facts, Record(values, sums))
        if why_not:
            emit([f"{core.paths[0]}: counted jumps are not kept for the next run: {why_not}"])
    return jumps


def _jumps_of(record: Record, n_atoms: int, frames: FrameSelection) -> Jumps:
    values = record.values
    every = int(values["every"])
    stations = record.arrays["stations"].view(np.int32).reshape(-(-len(frames) // every), n_atoms, 3)
    return Jumps(every, stations, float(values["longest"]), int(values["frame"]), frames)


def _named(
    core: _core.Trajectory, selection: Selection, frames: FrameSelection
) -> tuple[bytes, _core.FileIdentity, dict[str, Any]] | None:
    """Name, identity and facts of the record; None where nothing is kept of these files and transforms."""
    from hashlib import blake2b

    if any(transform.name not in ORDER for transform in core.transforms):
        return None  # of a function it is not known what it does
    parts = core.parts()
    try:
        identities = [core.identity(number, places=0) for number in range(len(parts))]
    except Error:
        return None
    if any(part["hdf5"] for part in parts):
        return None  # it may name other files
    stack = pickle.dumps(list(core.transforms), protocol=4)
    atoms = selection.indices
    stride = frames.stride
    facts: dict[str, Any] = {
        "version": _core.__version__,
        "all frames": core.n_frames,
        "frames": blake2b(frames.numbers().tobytes()).hexdigest() if stride is None else str(stride),
        "edges": "those that are periodic",
        "atoms": "all" if len(atoms) == core.n_atoms else blake2b(atoms.tobytes(), digest_size=16).hexdigest(),
        "transforms": blake2b(stack, digest_size=16).hexdigest(),
        "others": [identity.to_bytes().hex() for identity in identities[1:]],
    }
    name = b"\0".join(
        [
            *(os.fsencode(os.path.realpath(part["path"])) for part in parts),
            *(facts[name].encode() for name in ("atoms", "transforms", "frames")),
        ]
    )
    return name, identities[0], facts
