"""Whether molecules are broken at the faces of the cell: frames are looked at, and what is found is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError, TruncatedFileError
from kinema.base.printable import counted
from kinema.trajectory.bonds import Bonds, bonds_near_by, bonds_of, first_atoms

if TYPE_CHECKING:
    from kinema.model.selection.atoms import Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory

__all__ = [
    "BrokenMolecules",
    "MoleculeSearch",
    "NobodyLooked",
    "bonds_for_a_look",
    "broken_notes",
    "find_broken",
    "sampled_frames",
]

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
    guessed : bool
        Whether bonds were guessed for the look, by distance.
    """

    frame: int
    broken: int
    frames: int
    seen: int
    most: int
    guessed: bool = False

    def __str__(self) -> str:
        remedy = "--pbc whole (transforms.whole) makes them whole"
        if self.guessed:
            remedy = "--pbc whole with --bonds guess (transforms.whole of guessed bonds) makes them whole"
        molecules = "1 molecule is" if self.broken == 1 else f"{self.broken:,} molecules are"
        found = f"{molecules} broken at the faces of the periodic cell in frame {self.frame}"
        if self.guessed:
            found += ", by bonds guessed of distances"
        if self.seen == 1:
            return f"{found}; {remedy}"
        most = f" (at most {self.most:,})" if self.most > self.broken else ""
        return (
            f"{found}, and some{most} in {self.frames:,} of {counted(self.seen, 'frame')} that were looked at; {remedy}"
        )


@dataclass(frozen=True)
class NobodyLooked:
    """Why nobody looked for broken molecules in frames with a periodic cell.

    Attributes
    ----------
    why : str
        What is missing.
    has_atoms : bool
        Whether a topology names the atoms, so that `bonds="guess"` can be asked for.
    """

    why: str
    has_atoms: bool

    def __str__(self) -> str:
        remedy = "give a topology that has bonds with -s (topology=), such as a TPR or PSF"
        if self.has_atoms:
            remedy += ", or have them guessed of all atoms with --pbc whole --bonds guess (transforms.whole)"
        return f"nobody looked for broken molecules: {self.why}; {remedy}"


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


def broken_notes(trajectory: Trajectory, selection: Selection, frames: FrameSelection) -> list[str]:
    """A note if molecules of a selection are broken in some of at most 18 of the frames that are chosen, or if nobody
    looked.

    It is found once for a trajectory, its transforms and a selection, and remembered: later calls look at no frame.
    """
    if not len(frames) or trajectory.is_one_frame:
        return []
    known = trajectory.broken_molecules
    key = (tuple(one.identity for one in trajectory.core.transforms), selection.indices.tobytes())
    if key not in known:
        numbers = [frames[place] for place in sampled_frames(len(frames))]
        known[key] = find_broken(trajectory.viewed_trajectory(), selection, numbers)
    found = known[key]
    return [] if found is None else [f"{trajectory.paths[0]}: {found}"]


def find_broken(
    trajectory: Trajectory, selection: Selection, frames: list[int] | None = None
) -> BrokenMolecules | NobodyLooked | None:
    """Looks for broken molecules of selected atoms; None if there are none.

    `frames` are those that are looked at, by default `sampled_frames`; after `nojump` and `displacement`, which keep
    molecules as they are in the first frame, that one alone, as each other one takes a run from a station. Frames
    without a periodic cell have none; those that cannot be decoded are passed over. If no bonds are stated they are
    guessed of distances in the first frame that is looked at.
    """
    names = {transform.name for transform in trajectory.core.transforms}
    if "whole" in names or not len(trajectory) or selection.n_atoms < 2:
        return None
    if names & _AS_IN_THE_FIRST_FRAME and "wrap" not in names:
        frames = [0]
    elif frames is None:
        frames = sampled_frames(len(trajectory))
    bonds, guessed = bonds_for_a_look(trajectory, selection, frames[0])
    if bonds is None or isinstance(bonds, NobodyLooked):
        return bonds
    search = MoleculeSearch(trajectory.n_atoms, bonds, selection)
    for frame in frames:
        # one at a time: they may be large
        read = _read(trajectory, frame, search.atoms)
        if read is not None and read["present"]["positions"][0]:
            search.add(read["positions"], read["cells"], read["periodic"], read["frames"])
    return None if search.found is None else replace(search.found, guessed=guessed)


def bonds_for_a_look(
    trajectory: Trajectory, selection: Selection, frame: int
) -> tuple[Bonds | NobodyLooked | None, bool]:
    """Bonds as the topology states them, or guessed in a frame, and whether they are guessed; None if there is no need
    to look: the frame has no periodic cell, or the bonds that are stated are of some of the atoms only."""
    try:
        stated = None if trajectory.topology is None else trajectory.atoms.get("bonds")
    except ArgumentError as error:
        # a topology that cannot be read is an error only if the analysis itself needs it
        return NobodyLooked(str(error), False), False
    if stated is not None and len(stated):
        bonds = bonds_of(trajectory)
        return (bonds if bonds.known else None), False
    first = _read(trajectory, frame, np.zeros(1, np.uint32))
    if first is None or not first["present"]["cells"][0] or not first["periodic"][0].any():
        return None, True
    near = bonds_near_by(trajectory, selection, frame)
    return (NobodyLooked(near, trajectory.topology is not None) if isinstance(near, str) else near), True


def _read(trajectory: Trajectory, frame: int, atoms: NDArray[np.uint32] | None) -> Mapping[str, Any] | None:
    """One frame; None if it cannot be decoded: whoever asks for the frame gets the error."""
    try:
        return trajectory.read([frame], atoms, fields=["positions"])
    except (CorruptFileError, TruncatedFileError):
        return None
