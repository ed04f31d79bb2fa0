"""Groups of atoms that change with the frame, for one trajectory: selections, members in frames, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import CorruptFileError, TruncatedFileError
from kinema.model.selection import changing
from kinema.model.selection.atoms import AtomChoice, Selection, from_indices, may_change
from kinema.trajectory.broken_molecules import broken_notes, sampled_frames

if TYPE_CHECKING:
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory
    from kinema.trajectory.reading import TrajectoryReading


def selection_that_may_change(trajectory: TrajectoryReading, select: AtomChoice) -> Selection:
    """The atoms that `select` names, a `ChangingSelection` if they change with the frame; raises as `select`."""
    if may_change(select):
        found = changing.resolve(select, trajectory.n_atoms, trajectory.topology)
        if found is not None:
            return found
    return trajectory.select(select)


def selection_in_frame(trajectory: TrajectoryReading, select: AtomChoice, frame: int) -> Selection:
    """The atoms that `select` names in one frame, as a selection that no longer changes."""
    found = selection_that_may_change(trajectory, select)
    if not isinstance(found, changing.ChangingSelection):
        return found
    (indices,) = members(trajectory, found, [frame])
    return from_indices(indices, trajectory.n_atoms, f"{found.description} (in frame {frame})")


def members(
    trajectory: TrajectoryReading, selection: changing.ChangingSelection, frames: Sequence[int]
) -> list[NDArray[np.uint32]]:
    """Ascending indices of the atoms of a changing selection in each of some frames."""
    group = _core.ChangingGroup(trajectory.n_atoms, selection.expression)
    found = []
    for frame in frames:
        # one frame at a time: frames may be large
        read = trajectory.read([frame], group.atoms, fields=["positions"])
        positions = np.ascontiguousarray(read["positions"], dtype=np.float32)
        found += group.members(positions, read["cells"], read["periodic"])
    return found


def notes_on_group(trajectory: Trajectory, selection: Selection, frames: FrameSelection) -> list[str]:
    """Notes if references of spheres and cylinders are broken in some frames, and if there is no cell for images."""
    assert isinstance(selection, changing.ChangingSelection), "it changes"
    notes = []
    for indices in selection.centers(trajectory.n_atoms):
        broken = broken_notes(trajectory, from_indices(indices, trajectory.n_atoms), frames)
        notes += [f"{note}; the centre of the reference in {selection.description!r} is wrong there" for note in broken]
    return [*dict.fromkeys(notes), *(no_cell_notes(trajectory, frames) if selection.uses_distances else ())]


def no_cell_notes(trajectory: Trajectory, frames: FrameSelection) -> list[str]:
    """A note if a frame, of at most 18 of the chosen ones, has no periodic cell: distances are without images there."""
    whole = trajectory.viewed_trajectory()
    for place in sampled_frames(len(frames)):
        frame = frames[place]
        try:
            read = whole.read([frame], np.zeros(1, np.uint32), fields=["positions"])
        except (CorruptFileError, TruncatedFileError):
            # reading that frame later raises the error
            continue
        if not (read["present"]["cells"][0] and read["periodic"][0].any()):
            path = trajectory.paths[0]
            return [f"{path}: frame {frame} has no periodic cell, so that distances are not those of nearest images"]
    return []
