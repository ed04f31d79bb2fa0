"""`nojump`: unwraps atoms that jump to the other side of the cell, from the first frame of the file on.

One pass reads all frames of the file, or the selected ones, once and counts jumps between them
(`kinema.transforms.first_passes`). Reading a frame then starts at the station before it. The sums are integers, so
frames have the same bits on any number of workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import NOJUMP_COUNT, check_choice
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.model.selection.atoms import AtomChoice, Selection
from kinema.model.selection.frames import FrameSelection
from kinema.trajectory.bonds import bonds_of, first_atoms
from kinema.trajectory.transform import Transform
from kinema.transforms.arguments import describe
from kinema.transforms.first_passes.base import Stations
from kinema.transforms.first_passes.kinds import JumpCounts
from kinema.transforms.first_passes.making import note_long_step, stations_of
from kinema.transforms.periodic.clustering import Cluster
from kinema.transforms.periodic.order import check_order
from kinema.transforms.periodic.stored_images import reads_images, unwrapped_by_images
from kinema.transforms.reference import Reference

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["NoJump", "nojump"]


class NoJump(Transform):
    """See `nojump`."""

    name: ClassVar[str] = "nojump"
    sees_all_frames = True

    def __init__(self, select: AtomChoice, first: Any, count: str, options: Mapping[str, Any]) -> None:
        check_choice("count", count, NOJUMP_COUNT)
        if isinstance(first, Transform) and not isinstance(first, Cluster):
            raise ArgumentError(
                f"first is a cluster(...) that the first frame begins with, or a structure, found {first!r}"
            )
        self._select, self._first, self._count, self._options = select, first, count, options

    @property
    def arguments(self) -> Mapping[str, str]:
        arguments = {} if self._select is None else {"select": describe(self._select)}
        if self._first is not None:
            first = self._first
            arguments |= {"first": first.label if isinstance(first, Transform) else describe(first)}
        return arguments if self._count == "all" else arguments | {"count": describe(self._count)}

    def prepared(self, trajectory: Trajectory) -> Trajectory:
        """See `Transform.prepared`: files that store images are read with them."""
        check_order(self.name, trajectory)
        return trajectory if reads_images(trajectory) else unwrapped_by_images(trajectory) or trajectory

    def bind(self, trajectory: Trajectory) -> _core.Transform:
        check_order(self.name, trajectory)
        selection = trajectory.select(self._select)
        tracked = trajectory.select(np.unique(selection.indices))
        if reads_images(trajectory):
            whole = FrameSelection(range(trajectory.viewed_trajectory().n_frames))
            jumps = Stations(0, np.zeros((1, tracked.n_atoms, 3), np.int32), 0.0, 0, whole)
        else:
            jumps = stations_of(JumpCounts(self._counted(trajectory), tracked), self._options)
        note_long_step(trajectory, jumps)
        stations = jumps.sums
        if self._first is not None:
            stations = stations + self._to_first(trajectory, selection, tracked.indices, jumps.frames[0])
        is_whole = jumps.frames == FrameSelection(range(trajectory.core.n_frames))
        return _core.Transform(
            self.name,
            trajectory.n_atoms,
            label=self.label,
            atoms=None if tracked.n_atoms == trajectory.n_atoms else tracked.indices,
            every=jumps.every,
            stations=stations.reshape(-1, 3).view(np.uint32),
            frames=None if is_whole else jumps.frames.numbers().astype(np.uint32),
        )

    def _counted(self, trajectory: Trajectory) -> Trajectory:
        """The frames to count jumps between."""
        whole = trajectory.viewed_trajectory()
        if self._count == "all":
            return whole
        chosen = FrameSelection.from_ascending(np.unique(trajectory.choose().numbers()))
        if len(chosen) < whole.n_frames:
            emit(
                [
                    f"{trajectory.paths[0]}: jumps are counted between the {len(chosen)} selected frames of "
                    f"{whole.n_frames} alone: if an atom moves by more than half of the cell between two of them, "
                    "its position differs from the one with all frames"
                ]
            )
        return whole[chosen]

    def _to_first(
        self, trajectory: Trajectory, selection: Selection, tracked: NDArray[np.uint32], frame: int
    ) -> NDArray[np.int32]:
        """The edges to add to atoms of the first frame to bring it nearest to the structure of `first`."""
        core = trajectory.core
        before = _positions(core, tracked, frame)
        edges = before["cells"][0] * before["periodic"][0][:, None]
        if isinstance(self._first, Cluster):
            bound = self._first.bind(trajectory)
            wanted = _positions(core.with_transforms([*core.transforms, bound]), tracked, frame)["positions"][0]
        else:
            reference = Reference(trajectory, 0, self._first)
            reference.check(selection)
            _, places = np.unique(selection.indices, return_index=True)
            wanted = reference.positions(selection)[places]
        by = (wanted.astype(np.float64) - before["positions"][0]) @ np.linalg.pinv(edges)
        counts: NDArray[np.int32] = np.round(by).astype(np.int32)
        if any(earlier.name == "whole" for earlier in core.transforms):
            self._note_broken(trajectory, tracked, counts)
        return counts

    def _note_broken(self, trajectory: Trajectory, tracked: NDArray[np.uint32], by: NDArray[np.int32]) -> None:
        """Emits a note if atoms of one whole molecule move to different images, as in the reference."""
        bonds = None if trajectory.topology is None else bonds_of(trajectory)
        if bonds is None or not bonds.known:
            return
        heads = first_atoms(trajectory.n_atoms, bonds.pairs)[tracked]
        _, first, molecule = np.unique(heads, return_index=True, return_inverse=True)
        broken = len(np.unique(molecule[(by != by[first][molecule]).any(axis=1)]))
        if broken:
            molecules = "1 molecule is" if broken == 1 else f"{broken:,} molecules are"
            emit(
                [
                    f"{trajectory.paths[0]}: {molecules} broken at the faces of the periodic cell after nojump, as in "
                    f"the structure that it begins with, {describe(self._first)}; give one of whole molecules"
                ]
            )


def _positions(core: _core.Trajectory, atoms: NDArray[np.uint32], frame: int) -> dict[str, NDArray[Any]]:
    """Positions of atoms in one frame, with its cell."""
    return core.read(FrameSelection(range(frame, frame + 1)), atoms=atoms, fields=("positions",), workers=1)


def nojump(select: AtomChoice = None, *, first: Any = None, count: str = "all", **options: Any) -> NoJump:
    """Unwraps a trajectory: atoms never jump to the other side of the cell.

    The first frame of the file stays as it is (after earlier transforms). In each later frame an atom is put at the
    image whose reduced coordinates are nearest to its coordinates in the frame before, even if the cell changes, as in
    MDAnalysis' `NoJump`. If files store images (H5MD; LAMMPS dumps with ix iy iz or xu yu zu), all atoms of all frames
    are unwrapped by these images, no jump is counted, and a note says so.

    Parameters
    ----------
    select : as `Trajectory.select`
        Atoms to unwrap; others stay as they are. By default all. Later `wrap`, `cluster` and `centers` refuse groups of
        which only some atoms are selected: their centres would mix images.
    first : Cluster, Trajectory, Universe, AtomGroup, path or (atoms, 3) array in angstrom, optional
        `cluster(...)`, applied to the first frame: molecules that are together there stay together. Or a structure: the
        atoms of the first frame are put nearest to it, by reduced coordinates in the frame's cell. Molecules that are
        broken in the structure are broken in all frames; a note says so if `whole` is applied first.
    count : {"all", "selected"}
        Frames to count jumps between: all of the file, so that a stride changes no position; or only the frames of the
        slice that the transform is applied to, `traj[::100]`, which reads only these and emits a note. Then other
        frames are an error.
    **options
        Arguments of `kinema.run` for the pass that counts jumps: `runner`, `workers`, `memory`, `progress`,
        `checkpoint`, and options of runners. With MPI, all ranks must call `with_transform`.

    Returns
    -------
    NoJump
        For `Trajectory.with_transform`, which reads the file once, unless jumps of these atoms were counted before. A
        note reports a step of more than 0.4 of the cell. Sums of jumps take up to 64 MiB of memory.

    Examples
    --------
    >>> unwrapped = traj.with_transform(kn.transforms.nojump("protein", runner="threads", workers=2))
    """
    return NoJump(select, first, count, options)
