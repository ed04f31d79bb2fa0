"""`SourceFrames`: the frames, atoms and fields of a trajectory that make one file, with their steps and times."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.base.printable import shortest
from kinema.formats.all_formats import format_named
from kinema.formats.dlpoly.atoms import describes_own_atoms
from kinema.model.atom_table import Atoms
from kinema.model.selection.frames import FrameChoice, FrameSelection
from kinema.trajectory import Trajectory

# formats whose frames all have the same fields, and whose index holds steps and times
_REGULAR = ("XTC", "DCD", "NetCDF", "DL_POLY HISTORY", "DL_POLY CONFIG")


@dataclass(frozen=True)
class SourceFrames:
    """The selected data of a trajectory, in the order of the new file.

    `frames`: numbers in the whole trajectory.
    `atoms`: (n_atoms,) uint32, or None for all.
    `fields`: as the caller has named them; None: the format chooses.
    `steps`: (frames,) int64.
    `times`: (frames,) float64 in ps; NaN where the source has none.
    """

    trajectory: Trajectory
    frames: FrameSelection
    atoms: NDArray[np.uint32] | None
    fields: tuple[str, ...] | None
    steps: NDArray[np.int64]
    times: NDArray[np.float64]

    @classmethod
    def from_trajectory(
        cls,
        trajectory: Trajectory,
        frames: FrameSelection,
        atoms: NDArray[np.uint32] | None,
        fields: tuple[str, ...] | None,
    ) -> SourceFrames:
        """Takes steps and times from the index, or reads them if the index does not hold them."""
        core = trajectory.core
        steps, times = core.steps(), core.times()
        if steps is None or times is None:
            stamps = core.read(frames, fields=())
            steps, times = stamps["steps"], stamps["times"]
        else:
            numbers = frames.numbers()
            steps, times = steps[numbers], times[numbers]
        return cls(trajectory, frames, atoms, fields, steps, times)

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, rows: slice) -> SourceFrames:
        """The same source with some of its frames."""
        return replace(self, frames=self.frames[rows], steps=self.steps[rows], times=self.times[rows])

    @property
    def n_atoms(self) -> int:
        """Number of written atoms."""
        return self.trajectory.n_atoms if self.atoms is None else len(self.atoms)

    @property
    def atoms_table(self) -> Atoms | None:
        """Table of the written atoms, in their order; None without a topology."""
        if self.trajectory.topology is None:
            return None
        table = self.trajectory.atoms
        return table if self.atoms is None else table[self.atoms.astype(np.int64)]

    @property
    def has_own_atoms(self) -> bool:
        """Whether the atom data come from the trajectory files themselves."""
        return describes_own_atoms(self.trajectory.topology, self.trajectory.paths)

    @property
    def observables_lost(self) -> tuple[str, ...]:
        """The loss of an H5MD file's observables, which only a copy of the whole file keeps."""
        trajectory = self.trajectory
        if (
            format_named(trajectory.format).observables
            and len(trajectory.paths) == 1
            and (names := list(trajectory.observables))
        ):
            return (f"observables are not written: {', '.join(names)}",)
        return ()

    @property
    def extras_lost(self) -> tuple[str, ...]:
        """The losses of data besides fields, as `_core.Encoder` words them."""
        extras = {extra for part in self.trajectory.core.parts() for extra in part["extras"]}
        return tuple(f"{extra} of the source is not written" for extra in sorted(extras))

    @property
    def may_lack_fields(self) -> bool:
        """Whether some frames may lack a field that the trajectory has."""
        return any(part["hdf5"] or part["format"] not in _REGULAR for part in self.trajectory.core.parts())


def rotated(trajectory: Trajectory, name: str) -> Trajectory:
    """The trajectory with the transform `rotate_cell` after its own; notes that `name` is written rotated."""
    transform = _core.Transform("rotate_cell", trajectory.n_atoms, label="rotate_cell()")
    emit(
        [
            f"{name}: frames whose cell is not in standard orientation (first edge along x, second in the xy plane) "
            "are rotated, with positions, velocities and forces; if a cell is left-handed, its third edge is reversed, "
            "which gives the same lattice"
        ]
    )
    return trajectory.with_core(trajectory.core.with_transforms([*trajectory.core.transforms, transform]))


def chosen_frames(
    trajectory: Trajectory,
    start: int | None,
    stop: int | None,
    step: int | None,
    frames: FrameChoice,
    dump: float | None,
) -> FrameSelection:
    """The frames in numbers of the whole trajectory; for `dump` the nearest, with a note if its time differs."""
    if dump is None:
        return trajectory.choose(start, stop, step, frames)
    others = {"start": start, "stop": stop, "step": step, "frames": frames}
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise ArgumentError(f"dump= and {given[0]}= cannot be combined; give one of them")
    if not isinstance(dump, (int, float, np.integer, np.floating)):
        raise ArgumentError(f"dump= is a time in ps, found {dump!r}")
    times = trajectory.times
    if np.isnan(dump) or np.isnan(times).all():
        what = (
            "a time in ps, found nan" if np.isnan(dump) else f"times, and {trajectory.paths[0]} has none; give frames="
        )
        raise ArgumentError(f"dump= needs {what}")
    nearest = int(np.nanargmin(np.abs(times - dump)))
    if times[nearest] != dump:
        emit([f"the frame nearest to {shortest(dump)} ps is frame {nearest}, at {shortest(float(times[nearest]))} ps"])
    return trajectory.choose(frames=[nearest])
