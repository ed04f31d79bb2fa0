"""`nojump`: atoms go on where they would jump to the other side of the cell, from the first frame of the file on.

Jumps are counted between all frames of the file, whatever frames are asked for later, in one pass that reads it once.
Their sums are kept for every so many frames, the stations, and in the user's cache folder; whoever reads a frame then
runs from the station before it. Sums are of whole numbers: frames have the same bits on any number of workers.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.arguments import describe
from kinema.errors import ArgumentError, Error
from kinema.notes import emit
from kinema.resources import worker_count
from kinema.selection.atoms import AtomChoice
from kinema.selection.frames import FrameSelection
from kinema.stored.records import Record, RecordFolder
from kinema.transforms.base import Transform
from kinema.transforms.clustering import Cluster
from kinema.transforms.order import ORDER, check_order

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["NoJump", "nojump"]

# of the stations of all atoms
_STATION_BYTES = 64 << 20
# frames from one station to the next, at least: a run-up is decoded once more
_LEAST = 128
_BLOCK_BYTES = 16 << 20
# of a reduced coordinate from frame to frame, where 1/2 is as far as can be known
_LONG_STEP = 0.4


class _Jumps(NamedTuple):
    """Sums of jumps at the stations, (stations, atoms, 3), and the frame with the longest step."""

    every: int
    stations: NDArray[np.int32]
    longest: float
    frame: int


class NoJump(Transform):
    """See `nojump`."""

    name: ClassVar[str] = "nojump"
    sees_all_frames: ClassVar[bool] = True

    def __init__(self, select: AtomChoice, first: Transform | None) -> None:
        if first is not None and not isinstance(first, Cluster):
            raise ArgumentError(f"first is a cluster(...) that the first frame begins with, found {first!r}")
        self._select, self._first = select, first

    @property
    def arguments(self) -> Mapping[str, str]:
        arguments = {} if self._select is None else {"select": describe(self._select)}
        return arguments if self._first is None else arguments | {"first": self._first.label}

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        check_order(self.name, trajectory)
        atoms = None if self._select is None else np.unique(trajectory.select(self._select).indices)
        jumps = _stored_or_counted(trajectory.core, atoms)
        if jumps.longest > _LONG_STEP:
            emit(
                [
                    f"{trajectory.paths[0]}: an atom moves by {jumps.longest:.2f} of the cell in one step, to frame "
                    f"{jumps.frame}; beyond 0.5 a jump cannot be told from motion, as frames lie too far apart"
                ]
            )
        stations = jumps.stations
        if self._first is not None:
            stations = stations + _moved(trajectory.core, self._first.bind(trajectory), atoms)
        return _core.Transform(
            self.name,
            trajectory.n_atoms,
            label=self.label,
            atoms=atoms,
            every=jumps.every,
            stations=stations.reshape(-1, 3).view(np.uint32),
        )


def _moved(core: _core.Trajectory, first: _core.Transform, atoms: NDArray[np.uint32] | None) -> NDArray[np.int32]:
    """By how many edges a transform moves the atoms of the first frame: (atoms, 3)."""
    frame = FrameSelection(range(1))
    before, after = (
        one.read(frame, atoms=atoms, fields=("positions",), workers=1)
        for one in (core, core.with_transforms([*core.transforms, first]))
    )
    edges = before["cells"][0] * before["periodic"][0][:, None]
    by = (after["positions"][0].astype(np.float64) - before["positions"][0]) @ np.linalg.pinv(edges)
    counts: NDArray[np.int32] = np.round(by).astype(np.int32)
    return counts


def nojump(select: AtomChoice = None, *, first: Transform | None = None) -> NoJump:
    """Unwraps a trajectory: atoms never jump to the other side of the cell.

    The first frame of the file stays as it is (after the transforms before). In each later one an atom is put at the
    image whose reduced coordinates are nearest to those that it had in the frame before, also where the cell changes,
    as MDAnalysis' `NoJump`.

    Parameters
    ----------
    select : as `Trajectory.select`
        Atoms that are unwrapped; others stay as they are. By default all.
    first : Cluster, optional
        `cluster(...)` of the first frame, from which all others go on: molecules that were together in it stay so.

    Returns
    -------
    NoJump
        For `Trajectory.with_transform`, which reads the file once, unless jumps of these atoms were counted before. A
        step of more than 0.4 of the cell is noted. Files that grow are refused.
    """
    return NoJump(select, first)


def _spacing(n_frames: int, n_atoms: int) -> int:
    """Frames from station to station, a power of two."""
    most = max(1, _STATION_BYTES // (12 * max(1, n_atoms)))
    every = _LEAST
    while -(-n_frames // every) > most:
        every *= 2
    return every


def _counted(core: _core.Trajectory, atoms: NDArray[np.uint32] | None, n_frames: int) -> _Jumps:
    """Reads all frames once, in order."""
    n_atoms = core.n_atoms if atoms is None else len(atoms)
    every = _spacing(n_frames, n_atoms)
    counter = _core.JumpCounter(n_atoms)
    stations, longest, frame = [], 0.0, 0
    length = max(1, min(every, _BLOCK_BYTES // (12 * max(1, n_atoms))))
    start = 0
    while start < n_frames:
        # a block ends where a station is
        station = start % every == 0
        stop = start + 1 if station else min(n_frames, start + length, -(-start // every) * every)
        read = core.read(
            FrameSelection(range(start, stop)), atoms=atoms, fields=("positions",), workers=worker_count(None)
        )
        steps = counter.add(read["positions"], read["cells"], read["periodic"])
        if steps.max() > longest:
            longest, frame = float(steps.max()), start + int(steps.argmax())
        if station:
            stations.append(counter.counts())
        start = stop
    return _Jumps(every, np.stack(stations), longest, frame)


def _stored_or_counted(core: _core.Trajectory, atoms: NDArray[np.uint32] | None) -> _Jumps:
    if not core.scanned:
        core.scan()
    n_frames = core.n_frames
    if not n_frames:
        raise ArgumentError("there are no frames whose jumps could be counted")
    folder = RecordFolder("jumps", core.index)
    named = _named(core, atoms) if folder.stores else None
    if named is None:
        return _counted(core, atoms, n_frames)
    name, identity, facts = named
    record, why_not = folder.load(name, identity, facts)
    if record is not None:
        try:
            return _jumps_of(record, core.n_atoms if atoms is None else len(atoms))
        except (KeyError, TypeError, ValueError) as error:
            why_not = str(error)
    if why_not:
        emit([f"{core.paths[0]}: the stored jumps were not used, and are counted again: {why_not}"])
    jumps = _counted(core, atoms, n_frames)
    again = _named(core, atoms)
    if again is not None and again[2] == facts and identity.is_unchanged(again[1]):
        values = {"every": jumps.every, "longest": jumps.longest, "frame": jumps.frame}
        sums = {"stations": jumps.stations.reshape(-1).view(np.uint32)}
        why_not = folder.store(name, identity, facts, Record(values, sums))
        if why_not:
            emit([f"{core.paths[0]}: counted jumps are not kept for the next run: {why_not}"])
    return jumps


def _jumps_of(record: Record, n_atoms: int) -> _Jumps:
    values = record.values
    stations = record.arrays["stations"].view(np.int32).reshape(-1, n_atoms, 3)
    return _Jumps(int(values["every"]), stations, float(values["longest"]), int(values["frame"]))


def _named(
    core: _core.Trajectory, atoms: NDArray[np.uint32] | None
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
    facts: dict[str, Any] = {
        "version": _core.__version__,
        "frames": core.n_frames,
        "edges": "those that are periodic",
        "atoms": "all" if atoms is None else blake2b(atoms.tobytes(), digest_size=16).hexdigest(),
        "transforms": blake2b(stack, digest_size=16).hexdigest(),
        "others": [identity.to_bytes().hex() for identity in identities[1:]],
    }
    name = b"\0".join(
        [
            *(os.fsencode(os.path.realpath(part["path"])) for part in parts),
            facts["atoms"].encode(),
            facts["transforms"].encode(),
        ]
    )
    return name, identities[0], facts
