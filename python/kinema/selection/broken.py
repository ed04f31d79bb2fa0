"""Whether molecules are broken at the faces of the cell: some frames are looked at, and what is found is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kinema import _core
from kinema.errors import CorruptFileError, TruncatedFileError
from kinema.selection.bonds import bonds_of, first_atoms

if TYPE_CHECKING:
    from kinema.selection.atoms import Selection
    from kinema.trajectory import Trajectory

__all__ = ["BrokenMolecules", "find_broken", "sampled_frames"]

# between the first and the last one
_BETWEEN = 16


class BrokenMolecules(NamedTuple):
    """What was found.

    Attributes
    ----------
    frame : int
        The first frame with a broken molecule.
    broken : int
        How many of its molecules are.
    frames : int
        In how many frames there are such.
    seen : int
        Number of frames that were looked at.
    """

    frame: int
    broken: int
    frames: int
    seen: int

    def __str__(self) -> str:
        molecules = "1 molecule is" if self.broken == 1 else f"{self.broken:,} molecules are"
        return (
            f"{molecules} broken at the faces of the periodic cell in frame {self.frame}, and some in {self.frames} of "
            f"{self.seen} frames that were looked at; --pbc whole makes them whole"
        )


def sampled_frames(n_frames: int) -> list[int]:
    """The first frame, the last, and 16 between."""
    numbers = np.linspace(0, max(0, n_frames - 1), min(n_frames, _BETWEEN + 2)).astype(np.int64)
    return [int(number) for number in np.unique(numbers)]


def find_broken(
    trajectory: Trajectory, selection: Selection | None, frames: list[int] | None = None
) -> BrokenMolecules | None:
    """Looks for broken molecules of selected atoms, or of all; None where none is, or no bonds are stated.

    `frames` are those that are looked at, by default `sampled_frames`. Frames without a periodic cell have none;
    those that cannot be decoded are passed over.
    """
    if trajectory.topology is None or any(transform.name == "whole" for transform in trajectory.core.transforms):
        return None
    stated = trajectory.atoms.get("bonds")
    if stated is None or not len(stated) or not len(trajectory):
        return None
    pairs = bonds_of(trajectory).pairs
    atoms = np.arange(trajectory.n_atoms, dtype=np.uint32)
    if selection is not None:
        first = first_atoms(trajectory.n_atoms, pairs)
        atoms = np.flatnonzero(np.isin(first, first[selection.indices])).astype(np.uint32)
        columns = np.full(trajectory.n_atoms, -1, np.int64)
        columns[atoms] = np.arange(len(atoms))
        renumbered = columns[pairs]
        pairs = renumbered[(renumbered >= 0).all(axis=1)].astype(np.uint32)
    if not len(pairs):
        return None
    looked_at = sampled_frames(len(trajectory)) if frames is None else frames
    first_found, found, seen = None, 0, 0
    for frame in looked_at:
        try:
            # one at a time: they may be large
            read = trajectory.read([frame], atoms, fields=["positions"])
        except (CorruptFileError, TruncatedFileError):
            continue  # for whoever asks for the frame
        if not read["present"]["positions"][0] or not np.isfinite(read["positions"]).all():
            continue
        broken = int(_core.count_broken(pairs, read["positions"], read["cells"], read["periodic"])[0])
        seen += broken >= 0
        if broken > 0:
            first_found = first_found or (frame, broken)
            found += 1
    return None if first_found is None else BrokenMolecules(*first_found, found, seen)
