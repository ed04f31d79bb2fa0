"""The look for molecules that are broken at the faces of the cell, and notes on the findings."""

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

# frames between the first and the last
_BETWEEN = 16
# transforms after which bonded atoms stay together, or apart, as in the first frame
_AS_IN_THE_FIRST_FRAME = {"nojump", "displacement"}


@dataclass(frozen=True)
class BrokenMolecules:
    """The findings of a look at frames.

    `frame`: the first frame with a broken molecule.
    `broken`: number of broken molecules in that frame.
    `frames`: number of frames with broken molecules.
    `seen`: number of frames looked at.
    `most`: largest number of broken molecules in a frame.
    `guessed`: whether bonds were guessed for the look, by distance.
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

    `why`: the missing information.
    `has_atoms`: whether a topology names the atoms, so that `bonds="guess"` can be asked for.
    """

    why: str
    has_atoms: bool

    def __str__(self) -> str:
        remedy = "give a topology that has bonds with -s (topology=), such as a TPR or PSF"
        if self.has_atoms:
            remedy += ", or have them guessed of all atoms with --pbc whole --bonds guess (transforms.whole)"
        return f"nobody looked for broken molecules: {self.why}; {remedy}"


class MoleculeSearch:
    """Counts broken molecules that have a selected atom, in the frames given to `add`.

    `atoms`: (n,) uint32 or None; the atoms to give to `add`; None: all.
    """

    def __init__(self, n_atoms: int, bonds: Bonds, selection: Selection | None, *, all_atoms: bool = False) -> None:
        """With `all_atoms`, `add` gets all atoms, whatever is selected."""
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
        """Looks at frames, in ascending order.

        Frames do not count as seen if they have no periodic cell, positions that are not finite, or positions too far
        away to follow a bond.
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
        """The findings; None if no molecule is broken."""
        return None if self._first is None else BrokenMolecules(*self._first, self._frames, self._seen, self._most)


def sampled_frames(n_frames: int) -> list[int]:
    """The first frame, the last, and 16 between."""
    numbers = np.linspace(0, max(0, n_frames - 1), min(n_frames, _BETWEEN + 2)).astype(np.int64)
    return [int(number) for number in np.unique(numbers)]


def broken_notes(trajectory: Trajectory, selection: Selection, frames: FrameSelection) -> list[str]:
    """A note if molecules of a selection are broken in some of at most 18 of the chosen frames, or if nobody looked.

    The result is remembered for the trajectory, its transforms and the selection: later calls read no frame.
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

    It looks at `frames`, by default `sampled_frames`. After `nojump` and `displacement`, which keep molecules as in the
    first frame, it looks at that frame only, because each other frame needs a run from a station. Frames without a
    periodic cell have no broken molecules; frames that cannot be decoded are skipped. If no bonds are stated, they are
    guessed from distances in the first frame looked at.
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
        # one frame at a time: frames may be large
        read = _read(trajectory, frame, search.atoms)
        if read is not None and read["present"]["positions"][0]:
            search.add(read["positions"], read["cells"], read["periodic"], read["frames"])
    return None if search.found is None else replace(search.found, guessed=guessed)


def bonds_for_a_look(
    trajectory: Trajectory, selection: Selection, frame: int
) -> tuple[Bonds | NobodyLooked | None, bool]:
    """The topology's bonds, or bonds guessed in a frame, and whether they are guessed.

    None if a look is pointless: the frame has no periodic cell, or the topology states bonds of some atoms only.
    """
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
    """One frame; None if it cannot be decoded: reading that frame later raises the error."""
    try:
        return trajectory.read([frame], atoms, fields=["positions"])
    except (CorruptFileError, TruncatedFileError):
        return None
