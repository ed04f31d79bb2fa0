"""Whether molecules are broken at the faces of the cell: frames are looked at, and what is found is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import CorruptFileError, TruncatedFileError
from kinema.printable import counted
from kinema.selection.bonds import Bonds, bonds_of, first_atoms

if TYPE_CHECKING:
    from kinema.selection.atoms import Selection
    from kinema.trajectory import Trajectory

__all__ = ["BrokenMolecules", "MoleculeSearch", "find_broken", "sampled_frames"]

# between the first and the last one
_BETWEEN = 16
# transforms behind which bonded atoms stay side by side, or apart
_AS_IN_THE_FIRST_FRAME = {"nojump", "displacement"}


@dataclass(frozen=True)
class BrokenMolecules:
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
    most : int
        The most broken molecules in a frame.
    """

    frame: int
    broken: int
    frames: int
    seen: int
    most: int

    def __str__(self) -> str:
        molecules = "1 molecule is" if self.broken == 1 else f"{self.broken:,} molecules are"
        found = f"{molecules} broken at the faces of the periodic cell in frame {self.frame}"
        if self.seen == 1:
            return f"{found}; --pbc whole makes them whole"
        most = f" (at most {self.most:,})" if self.most > self.broken else ""
        return (
            f"{found}, and some{most} in {self.frames:,} of {counted(self.seen, 'frame')} that were looked at; "
            "--pbc whole makes them whole"
        )


class MoleculeSearch:
    """Counts broken molecules, of those with a selected atom, in frames that it is given.

    Attributes
    ----------
    atoms : (n,) uint32 or None
        Those that it is given; None: all.
    """

    def __init__(self, n_atoms: int, bonds: Bonds, selection: Selection | None, *, all_atoms: bool = False) -> None:
        """`all_atoms`: it is given all atoms, whatever is selected."""
        pairs, self.atoms = bonds.pairs, None
        if selection is not None:
            first = first_atoms(n_atoms, pairs)
            chosen = np.isin(first, first[selection.indices])
            pairs = pairs[chosen[pairs[:, 0]]]
            if not all_atoms:
                atoms = np.flatnonzero(chosen).astype(np.uint32)
                columns = np.zeros(n_atoms, np.uint32)
                columns[atoms] = np.arange(len(atoms), dtype=np.uint32)
                pairs, self.atoms = columns[pairs], atoms
        given = n_atoms if self.atoms is None else len(self.atoms)
        self._counter = _core.BrokenCounter(given, np.ascontiguousarray(pairs))
        self._first: tuple[int, int] | None = None
        self._frames = self._seen = self._most = 0

    def add(
        self,
        positions: NDArray[np.float32],
        cells: NDArray[np.float64],
        periodic: NDArray[np.bool_],
        frames: NDArray[Any],
    ) -> None:
        """Looks at frames, in ascending order; those without a periodic cell, with positions that are not finite, or
        too far away for a bond to be followed, are not counted as seen.
        """
        try:
            counts = self._counter.count(positions, cells, periodic)
        except CorruptFileError:
            if len(frames) > 1:
                for row in range(len(frames)):
                    one = slice(row, row + 1)
                    self.add(positions[one], cells[one], periodic[one], frames[one])
            return
        self._seen += int(np.count_nonzero(counts >= 0))
        broken = np.flatnonzero(counts > 0)
        if not len(broken):
            return
        if self._first is None:
            self._first = int(frames[broken[0]]), int(counts[broken[0]])
        self._frames += len(broken)
        self._most = max(self._most, int(counts.max()))

    @property
    def found(self) -> BrokenMolecules | None:
        """What was found; None where no molecule is broken."""
        return None if self._first is None else BrokenMolecules(*self._first, self._frames, self._seen, self._most)


def sampled_frames(n_frames: int) -> list[int]:
    """The first frame, the last, and 16 between."""
    numbers = np.linspace(0, max(0, n_frames - 1), min(n_frames, _BETWEEN + 2)).astype(np.int64)
    return [int(number) for number in np.unique(numbers)]


def find_broken(
    trajectory: Trajectory, selection: Selection | None, frames: list[int] | None = None
) -> BrokenMolecules | None:
    """Looks for broken molecules of selected atoms, or of all; None where none is, or no bonds are stated.

    `frames` are those that are looked at, by default `sampled_frames`; behind `nojump` and `displacement`, where
    molecules stay as they are in the first frame, that one alone, as each other one takes a run from a station. Frames
    without a periodic cell have none; those that cannot be decoded are passed over.
    """
    names = {transform.name for transform in trajectory.core.transforms}
    if trajectory.topology is None or "whole" in names:
        return None
    if names & _AS_IN_THE_FIRST_FRAME and "wrap" not in names:
        frames = [0]
    stated = trajectory.atoms.get("bonds")
    if stated is None or not len(stated) or not len(trajectory):
        return None
    bonds = bonds_of(trajectory)
    if not bonds.known:
        return None
    search = MoleculeSearch(trajectory.n_atoms, bonds, selection)
    for frame in sampled_frames(len(trajectory)) if frames is None else frames:
        try:
            # one at a time: they may be large
            read = trajectory.read([frame], search.atoms, fields=["positions"])
        except (CorruptFileError, TruncatedFileError):
            continue  # for whoever asks for the frame
        if read["present"]["positions"][0]:
            search.add(read["positions"], read["cells"], read["periodic"], read["frames"])
    return search.found
