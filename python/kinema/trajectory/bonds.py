"""Bonds, for transforms that keep molecules together: from the topology or another file, guessed, or by residues.

If no bonds are known, each atom counts as bonded to the atom before it in its residue, with a note. So does each
virtual site, which has neither a mass nor bonds.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.formats.atoms import topology_of
from kinema.model.atom_table import Atoms
from kinema.model.residue_names import WATERS
from kinema.model.universe import import_mdanalysis

if TYPE_CHECKING:
    from kinema.model.selection.atoms import Selection
    from kinema.trajectory import Trajectory

GUESS = "guess"
# files that state bonds of some atoms only: of ligands, and between chains
_PARTIAL = re.compile(r"\.(pdb|ent|xpdb)(\.|$)", re.IGNORECASE)
# van der Waals radii in angstrom (Mantina et al., J. Phys. Chem. A 113, 5806 (2009)) of elements in molecules
_RADII = {
    **{"H": 1.10, "C": 1.70, "N": 1.55, "O": 1.52, "F": 1.47, "P": 1.80, "S": 1.80},
    **{"SI": 2.10, "SE": 1.90, "CL": 1.75, "BR": 1.83, "I": 1.98},
}
# two atoms are bonded if they are nearer than this part of the sum of their radii, as in VMD and MDAnalysis
_NEARER_THAN = 0.55
# most pairs of atoms to measure for a look, and the least share of bonded atoms for a guess to be trusted
_MOST_CANDIDATES = 20_000_000
_BONDED_SHARE = 0.9
_PLACED = (
    "placed next to the one before it in its residue, and residues are not kept together; bonds='guess' "
    "(--bonds guess) finds bonds by distances, bonds=FILE (--bonds FILE) takes them of another topology"
)


class Bonds(NamedTuple):
    """Bonds and their origin.

    `pairs`: (n_bonds, 2) uint32; atoms, counted from 0.
    `known`: whether a topology states them.
    """

    pairs: NDArray[np.uint32]
    notes: tuple[str, ...]
    known: bool


def bonds_of(trajectory: Trajectory, bonds: Any = None) -> Bonds:
    """The bonds of a trajectory's atoms.

    `bonds`: None, "guess", a file, or (n_bonds, 2) pairs of atoms. None: the topology's bonds. "guess": by distances
        in the first frame, as MDAnalysis guesses them, but within each water from its first atom to the others. A file:
        a topology of the same atoms that has bonds.

    Raises ArgumentError for a file without bonds or of other atoms, invalid pairs, and if residues are needed but not
    known.
    """
    if bonds is None:
        table = None if trajectory.topology is None else trajectory.atoms
        stated = None if table is None else _stated(table)
        return stated or _join_residues(trajectory, table)
    if isinstance(bonds, str) and bonds == GUESS:
        return _guessed(trajectory)
    if isinstance(bonds, (str, os.PathLike)):
        return _file_bonds(trajectory, os.fspath(bonds))
    return Bonds(_checked(bonds, trajectory.n_atoms), (), known=True)


def states_bonds(table: Atoms) -> bool:
    """Whether a topology states the bonds of all its atoms; PDB files state only some."""
    stated = _stated(table)
    return stated is not None and stated.known


def is_of_any_atoms(bonds: Any) -> bool:
    """Whether `bonds=` works for any structure: its own bonds, or guessed ones."""
    return bonds is None or (isinstance(bonds, str) and bonds == GUESS)


def first_atoms(n_atoms: int, pairs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """For each atom, the first atom of its molecule: (n_atoms,)."""
    return _core.first_atoms_of_molecules(n_atoms, pairs)


def bonds_near_by(trajectory: Trajectory, selection: Selection, frame: int) -> Bonds | str:
    """Guesses bonds to look for broken molecules: within residues, and between successive residues.

    It covers the residues from the first to the last with a selected atom, by nearest images in one frame. It needs no
    MDAnalysis and little time; to move atoms, use `bonds_of(trajectory, "guess")`.

    Returns
    -------
    Bonds, or a text that says why none can be guessed.
    """
    if trajectory.topology is None:
        return "nothing says which atoms are bonded"
    table = trajectory.atoms
    residues = table.get("resindices")
    kinds = table.get("elements") if "elements" in table.columns else table.get("types")
    if residues is None or kinds is None:
        return f"{table.name} has neither bonds nor residues and elements to guess them of"
    chosen = residues[selection.indices]
    atoms = np.flatnonzero((residues >= chosen.min()) & (residues <= chosen.max()))
    atoms = atoms[np.argsort(residues[atoms], kind="stable")]
    first, second = _neighbours_by_residue(residues[atoms])
    if first is None or second is None:
        return f"{table.name} has no bonds, and residues too large to guess them of"
    radii = np.array([_RADII.get(kind.upper(), 0.0) for kind in kinds[atoms].tolist()])
    # atoms of unknown elements, such as ions and virtual sites, have no bonds
    both = (radii[first] > 0) & (radii[second] > 0)
    first, second = first[both], second[both]
    order = np.argsort(atoms, kind="stable")
    read = trajectory.read([frame], atoms[order].astype(np.uint32), fields=["positions"])
    positions = np.empty_like(read["positions"][0])
    positions[order] = read["positions"][0]
    apart = positions[first].astype(np.float64) - positions[second]
    cell, periodic = read["cells"][0], read["periodic"][0]
    # a vector shorter than half of each height of the cell is the nearest image if its fractions are within 1/2
    turns = np.where(periodic, np.round(apart @ np.linalg.inv(cell)), 0.0)
    apart -= turns @ cell
    bonded = np.linalg.norm(apart, axis=1) < _NEARER_THAN * (radii[first] + radii[second])
    first, second = first[bonded], second[bonded]
    alone = np.ones(len(atoms), bool)
    alone[first] = alone[second] = False
    # ions are residues of one atom
    _, number, sizes = np.unique(residues[atoms], return_inverse=True, return_counts=True)
    expected = (sizes[number] > 1) & (radii > 0)
    if not expected.any() or np.count_nonzero(~alone[expected]) < _BONDED_SHARE * np.count_nonzero(expected):
        return f"{table.name} has no bonds, and too few of its atoms are near enough to guess them of distances"
    return Bonds(np.stack([atoms[first], atoms[second]], axis=1).astype(np.uint32), (), known=False)


def _neighbours_by_residue(
    residues: NDArray[np.int64],
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Places of all pairs of atoms in the same residue or in successive ones; None if there are too many pairs.

    `residues` are in ascending order.
    """
    begins = np.flatnonzero(np.r_[True, residues[1:] != residues[:-1]])
    ends = np.r_[begins[1:], len(residues)]
    of_atom = np.searchsorted(begins, np.arange(len(residues)), side="right") - 1
    # each atom with those after it in its residue, and all of the next residue
    last = np.r_[ends[1:], len(residues)][of_atom]
    counts = last - np.arange(len(residues)) - 1
    if counts.sum() > _MOST_CANDIDATES:
        return None, None
    first = np.repeat(np.arange(len(residues)), counts)
    within = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    return first, first + 1 + within


def _checked(bonds: Any, n_atoms: int) -> NDArray[np.uint32]:
    pairs = np.asarray(bonds)
    if pairs.size == 0:
        return np.zeros((0, 2), np.uint32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ArgumentError(
            f"bonds are pairs of atoms, (n_bonds, 2) whole numbers, found shape {pairs.shape} of {pairs.dtype}"
        )
    if pairs.min() < 0 or pairs.max() >= n_atoms:
        raise ArgumentError(f"bonds name atoms from 0 to {n_atoms - 1}, found {int(pairs.min())} to {int(pairs.max())}")
    return pairs.astype(np.uint32)


def _file_bonds(trajectory: Trajectory, path: str) -> Bonds:
    table = topology_of(path).atoms
    if table.n_atoms != trajectory.n_atoms:
        raise ArgumentError(
            f"bonds are of {table.n_atoms} atoms, expected {trajectory.n_atoms} as in the trajectory", at=path
        )
    stated = _stated(table)
    if stated is None:
        raise ArgumentError("this topology has no bonds; give one that has them, or bonds='guess'", at=path)
    return stated


def _stated(table: Atoms) -> Bonds | None:
    """The bonds that a topology states, and bonds for atoms that it leaves out; None if it states none."""
    bonds, residues = table.get("bonds"), table.get("resindices")
    if bonds is None or not len(bonds):
        return None
    pairs = bonds.astype(np.uint32)
    if residues is None:
        return Bonds(pairs, (), known=True)
    alone = np.ones(table.n_atoms, bool)
    alone[pairs] = False
    chain = _residue_pairs(residues)
    if _PARTIAL.search(table.name) and alone[chain].any():
        note = (
            f"{table.name} states bonds of {np.count_nonzero(~alone):,} of {table.n_atoms:,} atoms, as PDB files do: "
            f"each atom is also {_PLACED}"
        )
        return Bonds(np.concatenate([pairs, chain]), (note,), known=False)
    masses = None if "masses" in table.guessed else table.get("masses")
    if masses is None:
        return Bonds(pairs, (), known=True)
    sites = alone & (masses == 0)
    # a site is bonded to the atom before it, or to the next atom if it begins its residue
    begins = np.ones(table.n_atoms, bool)
    begins[chain[:, 1]] = False
    of_sites = sites[chain[:, 1]] | (sites & begins)[chain[:, 0]]
    return Bonds(np.concatenate([pairs, chain[of_sites]]), (), known=True)


def _residues(table: Atoms) -> NDArray[np.int64]:
    residues = table.get("resindices")
    if residues is None:
        raise ArgumentError(
            f"{table.name} has neither bonds nor residues, so that nothing says which atoms are a molecule; give a "
            "topology that has them with topology= (-s), or bonds= (--bonds guess|FILE)"
        )
    return residues


def _join_residues(trajectory: Trajectory, table: Atoms | None) -> Bonds:
    if table is None:
        raise ArgumentError(
            f"{trajectory.paths[0]}: which atoms are a molecule is known of a topology with bonds; give one with "
            "topology= (-s), or the bonds with bonds= (--bonds FILE)"
        )
    note = f"{table.name} has no bonds: each atom is {_PLACED}"
    return Bonds(_residue_pairs(_residues(table)), (note,), known=False)


def _residue_pairs(residues: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Each atom with the atom before it in the same residue; a residue's atoms need not be neighbours."""
    order = np.argsort(residues, kind="stable")
    same = residues[order[1:]] == residues[order[:-1]]
    return np.stack([order[:-1][same], order[1:][same]], axis=1).astype(np.uint32)


def _guessed(trajectory: Trajectory) -> Bonds:
    if trajectory.topology is None:
        raise ArgumentError(
            f"{trajectory.paths[0]}: bonds are guessed of the types of atoms; give a topology with topology= (-s)"
        )
    table = trajectory.atoms
    resnames = table.get("resnames")
    water = np.zeros(table.n_atoms, bool) if resnames is None else np.isin(resnames, WATERS)
    frame = trajectory.read(frames=[0], fields=["positions"])
    others = np.flatnonzero(~water)
    positions, box = _boxed(frame["positions"][0], frame["cells"][0], frame["periodic"][0])
    pairs = [_guessed_by_distance(trajectory, others, positions, box)]
    if water.any():
        residues = _residues(table)
        waters = np.flatnonzero(water)
        of_waters = residues[waters]
        _, first, number = np.unique(of_waters, return_index=True, return_inverse=True)
        heads = waters[first][number]
        pairs.append(np.stack([heads, waters], axis=1)[heads != waters])
    found = np.concatenate(pairs).astype(np.uint32)
    note = f"{table.name} has no bonds: {len(found):,} bonds were guessed, by distances in the first frame"
    return Bonds(found, (note,), known=False)


def _boxed(
    positions: NDArray[np.float32], cell: NDArray[np.float64], periodic: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Positions rotated to a cell with its first edge along x and its second in the xy plane; lengths and angles."""
    import_mdanalysis()
    from MDAnalysis.lib.mdamath import triclinic_box, triclinic_vectors

    if not cell.any():
        return positions, None
    heights = 1 / np.linalg.norm(np.linalg.inv(cell), axis=0)
    # along an open edge the cell is long enough for all atoms, and keeps images farther apart than a bond
    longer = np.maximum(1.0, (np.linalg.norm(np.ptp(positions, axis=0)) + 20) / heights)
    edges = cell * np.where(periodic, 1.0, longer)[:, None]
    box = triclinic_box(*edges)
    return (positions @ np.linalg.inv(edges) @ triclinic_vectors(box, np.float64)).astype(np.float32), box


def _guessed_by_distance(
    trajectory: Trajectory, atoms: NDArray[np.int64], positions: NDArray[np.float32], box: NDArray[np.float32] | None
) -> NDArray[np.int64]:
    """Pairs from MDAnalysis' `guess_bonds`, with nearest images."""
    topology = trajectory.topology
    assert topology is not None, "its types are what bonds are guessed of"
    import_mdanalysis()
    from MDAnalysis.guesser.default_guesser import DefaultGuesser

    if not len(atoms):
        return np.zeros((0, 2), np.int64)
    group = topology.universe.atoms[atoms]
    try:
        found = DefaultGuesser(None, box=box).guess_bonds(group, positions[atoms])
    except ValueError as error:
        raise ArgumentError(f"{topology.name}: bonds cannot be guessed: {error}") from None
    return np.array(found, np.int64).reshape(-1, 2)
