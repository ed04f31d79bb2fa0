"""Atoms that make a solvent-accessible surface, with their radii, and arguments that analyses of it share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinema.analysis.declaration import Option
from kinema.base.choices import check_choice, whole_number
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.base.printable import counted

if TYPE_CHECKING:
    from kinema.model.selection.atoms import Selection
    from kinema.trajectory import Trajectory

__all__ = ["AREA", "BY", "NPoints", "Probe", "Radii", "SurfaceAtoms", "groups_by", "polar_atoms"]

AREA = "angstrom^2"
BY = ("total", "residue", "atom")
# radii in angstrom of spheres that are looked for; larger ones are mistakes in units
_LARGEST_PROBE = 20.0
_MOST_POINTS = 1_000_000

Radii = Annotated[
    Any,
    Option(
        "--radii",
        "Radii of atoms: bondi, of elements; protor, of protein atoms with their hydrogens; column, of the topology; "
        "or a file.",
        takes="file",
    ),
]
Probe = Annotated[
    float, Option("--probe", "Radius of the solvent's molecules.", unit="angstrom", least=0, most=_LARGEST_PROBE)
]
NPoints = Annotated[int, Option("--n-points", "Points on the sphere of each atom.", least=1, most=_MOST_POINTS)]


class SurfaceAtoms:
    """Atoms that make a surface.

    `atoms`: (n,) uint32, ascending; atoms with a radius.
    `radii`: (n,) float64, angstrom; with the probe.
    """

    def __init__(
        self, trajectory: Trajectory, selection: Selection, radii: Any, probe: float, n_points: int, what: str
    ) -> None:
        if not 0.0 <= float(probe) <= _LARGEST_PROBE:
            raise ArgumentError(f"probe is a radius from 0 to {_LARGEST_PROBE:g} angstrom, found {probe!r}")
        if whole_number("n_points", n_points) > _MOST_POINTS:
            raise ArgumentError(f"n_points is at most {_MOST_POINTS:,}, found {n_points}")
        selection.check_unique()
        chosen = np.sort(selection.indices)
        found = _radii(trajectory, chosen, radii, what)
        self.atoms = chosen[found > 0]
        self.radii = found[found > 0] + probe
        self._probe, self._n_points = float(probe), int(n_points)
        if not len(self.atoms):
            raise ArgumentError(f"no atom of {selection.description!r} has a radius above 0")
        if trajectory.topology is not None:
            _note_solvent(trajectory, self.atoms, selection)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the kernel."""
        return {"atoms": self.atoms, "radii": self.radii, "n_points": self._n_points}

    def members(self, groups: list[NDArray[Any]]) -> dict[str, Any]:
        """Arguments of the kernel for a column of each of these groups of atoms."""
        ends = np.cumsum([len(group) for group in groups])
        members = np.searchsorted(self.atoms, np.concatenate(groups))
        return {"members": members.astype(np.uint32), "ends": ends.astype(np.uint32)}


def _radii(trajectory: Trajectory, chosen: NDArray[np.uint32], radii: Any, what: str) -> NDArray[np.float64]:
    if isinstance(radii, (np.ndarray, list, tuple)):
        given = np.asarray(radii, np.float64)
        if given.shape != (trajectory.n_atoms,) or not np.isfinite(given).all() or (given < 0).any():
            raise ArgumentError(
                f"radii needs one number from 0 on for each of {trajectory.n_atoms} atoms, found shape {given.shape}"
            )
        return given[chosen]
    from kinema.model.radii import radii_of

    if trajectory.topology is None:
        raise ArgumentError("radii are those of elements or names of atoms: open the trajectory with topology=")
    return radii_of(trajectory.atoms[chosen.astype(np.int64)], radii, what)


def _note_solvent(trajectory: Trajectory, atoms: NDArray[np.uint32], selection: Selection) -> None:
    """A note if waters or ions are among the atoms."""
    from kinema.model.residue_names import WATERS

    table = trajectory.atoms
    residues, resnames = table.get("resindices"), table.get("resnames")
    if residues is None or resnames is None:
        return
    sizes = np.bincount(residues)
    is_water = np.isin(resnames[atoms], WATERS)
    is_ion = ~is_water & (sizes[residues[atoms]] == 1) & (sizes.max() > 1)
    if table.get("names") is not None:
        # a model of one bead a residue is not an ion
        is_ion &= table.names[atoms] != "CA"
    n_waters, n_ions = len(np.unique(residues[atoms][is_water])), int(is_ion.sum())
    if n_waters or n_ions:
        found = " and ".join(counted(n, word) for n, word in ((n_waters, "water"), (n_ions, "ion")) if n)
        emit(
            [
                f"{found} of {selection.description!r} are a part of the surface and cover others; name the molecule "
                "alone if only it is meant"
            ]
        )


def polar_atoms(trajectory: Trajectory, atoms: NDArray[np.uint32], what: str) -> NDArray[np.bool_]:
    """(n,) whether each of `atoms` is nitrogen, oxygen or a hydrogen that is bonded to one.

    Emits notes on guessed elements and bonds, and on hydrogens without a bond, which are not polar. Raises
    ArgumentError if elements or bonds are not known.
    """
    from kinema.model.elements import elements_of
    from kinema.trajectory.bonds import bonds_near_by, bonds_of, states_bonds

    table = trajectory.atoms
    symbols = np.full(len(table), "", "U2")
    symbols[atoms] = elements_of(table[atoms.astype(np.int64)], what)
    hydrogens = atoms[np.isin(symbols[atoms], ("H", "D"))]
    polar = np.isin(symbols, ("N", "O"))
    if len(hydrogens):
        bonds = bonds_of(trajectory) if states_bonds(table) else bonds_near_by(trajectory, trajectory.select(atoms), 0)
        if isinstance(bonds, str):
            raise ArgumentError(f"{what} is that of N, O and the hydrogens bonded to them, but {bonds}")
        if not bonds.known:
            emit([f"{table.name} has no bonds: hydrogens are bonded to what is near them in frame 0, for {what}"])
        pairs = np.concatenate([bonds.pairs, bonds.pairs[:, ::-1]])
        of_hydrogens = pairs[np.isin(pairs[:, 1], hydrogens)]
        alone = np.setdiff1d(hydrogens, of_hydrogens[:, 1])
        if len(alone):
            emit([f"{counted(len(alone), 'hydrogen')} without a bond count as apolar"])
        polar[of_hydrogens[polar[of_hydrogens[:, 0]], 1]] = True
    return polar[atoms]


def groups_by(trajectory: Trajectory, atoms: NDArray[np.uint32], by: str) -> tuple[list[NDArray[Any]], list[str]]:
    """The atoms of each column, and its name: one of all atoms, or one for each residue or atom."""
    from kinema.analysis.atom_columns import labels_of
    from kinema.model.selection.compounds import groups_of

    check_choice("by", by, BY)
    if by == "total":
        return [atoms], [""]
    if by == "atom":
        return list(atoms[:, None]), unique_names(labels_of(trajectory, "atom", atoms))
    topology = trajectory.topology
    found = groups_of(trajectory.select(atoms), None if topology is None else topology.atoms, "residues")
    return [one.indices for one in found], unique_names([one.label for one in found])


def unique_names(names: list[str]) -> list[str]:
    """Names of which those that occur before have a number."""
    counts: dict[str, int] = {}
    made = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        made.append(name if counts[name] == 1 else f"{name} #{counts[name]}")
    return made
